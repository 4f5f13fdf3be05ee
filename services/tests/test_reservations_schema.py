"""The API against its own description: nothing that is sent makes it break."""

from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, given, settings

from conftest import SLOW
from perhop_services.common.users import Role
from reserving import PASSWORD
from reserving_http import served

pytestmark = SLOW

if TYPE_CHECKING:
    from pathlib import Path

    from schemathesis import Case


def test_nothing_that_is_sent_breaks_it(tmp_path: "Path") -> None:
    # It takes a second to load, in every process that collects tests.
    import schemathesis
    from schemathesis import GenerationMode
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi.checks import (
        response_schema_conformance,
        status_code_conformance,
    )

    checks = [not_a_server_error, status_code_conformance, response_schema_conformance]
    with served(str(tmp_path / "b.db"), tmp_path) as (url, people):
        # What is sent changes users and ends tokens, too; this one is asked with a new one each.
        people.add("zeus", PASSWORD, Role.ADMINISTRATOR)
        schema = schemathesis.openapi.from_url(f"{url}/api/openapi.json", timeout=60)
        tried: dict[str, int] = {}
        for found in schema.get_all_operations():
            operation: Any = found.ok()

            @settings(
                max_examples=12,
                deadline=None,
                derandomize=True,
                database=None,
                suppress_health_check=list(HealthCheck),
            )
            @given(
                case=operation.as_strategy(generation_mode=GenerationMode.NEGATIVE)
                | operation.as_strategy(generation_mode=GenerationMode.POSITIVE)
            )
            def ask(case: "Case") -> None:
                tried[case.operation.label] = tried.get(case.operation.label, 0) + 1
                token = people.make_token(people.named("zeus"), "api", "test", 3600)
                answer = case.call(headers={"Authorization": f"Bearer {token}"}, timeout=60)
                case.validate_response(answer, checks=checks)

            ask()
        assert len(tried) >= 25
        assert sum(tried.values()) >= 200
