"""Runs of fuzz tests: a few fixed examples with every test, and new ones for any time."""

from __future__ import annotations

import inspect
import os
import resource
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hypothesis import HealthCheck, Phase, given, note, seed, settings
from hypothesis.database import DirectoryBasedExampleDatabase

from fuzzing.language import WANTED, leading_to
from fuzzing.scenarios import scenarios
from perhop.scenario import Scenario, dump

if TYPE_CHECKING:
    from collections.abc import Callable, Collection


EXAMPLES: Final = int(os.environ.get("PERHOP_FUZZ", "0"))
"""Number of new examples of each test; 0 for the fixed ones."""

FOUND: Final = Path("runs", "fuzz")
"""File with the current example, so that it is there whatever happens."""


def fuzzed(examples: int) -> Any:
    """A test of `examples` fixed examples, or, by `make fuzz`, of as many new ones as it wants."""
    quiet = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
    quiet.append(HealthCheck.function_scoped_fixture)
    if EXAMPLES:
        return settings(
            max_examples=EXAMPLES,
            database=DirectoryBasedExampleDatabase(FOUND / "examples"),
            suppress_health_check=quiet,
            print_blob=True,
        )
    return settings(
        max_examples=examples, derandomize=True, database=None, suppress_health_check=quiet
    )


def draw(number: int, wanted: Collection[str] = ()) -> list[Scenario]:
    """Draw ten valid scenarios; `wanted` keys, such as ``Link.mtu``, are frequent in them.

    Hypothesis draws constants of the modules that are loaded, too, so that `number` alone does not
    decide what comes. After ten examples it mostly varies earlier ones, which takes three times as
    long for each.
    """
    found: list[Scenario] = []

    @seed(number)
    @settings(
        max_examples=10,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(scenario=scenarios)
    def collect(scenario: Scenario) -> None:
        found.append(scenario)

    WANTED.update(leading_to(wanted, Scenario) if wanted else ())
    try:
        collect()
    finally:
        WANTED.clear()
    return found


def fuzzed_scenarios(examples: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A test of the first scenarios of the fixture `drawn`; with `make fuzz`, of new ones."""

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @wraps(test)
        def new(scenario: Scenario, **fixtures: Any) -> None:
            record(scenario)
            test(scenario, **fixtures)

        @wraps(test)
        def fixed(drawn: list[Scenario], **fixtures: Any) -> None:
            assert len(drawn) >= examples
            for scenario in drawn[:examples]:
                try:
                    test(scenario, **fixtures)
                except BaseException as error:
                    error.add_note(dump(scenario))
                    raise

        if EXAMPLES:
            return fuzzed(examples)(given(scenario=scenarios)(new))  # type: ignore[no-any-return]
        signature = inspect.signature(test)
        (_, *others) = signature.parameters.values()
        first = inspect.Parameter("drawn", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        fixed.__signature__ = signature.replace(parameters=[first, *others])  # type: ignore[attr-defined]
        return fixed

    return decorate


def record(scenario: Scenario) -> None:
    """Have a finding shown as a scenario file, which stays in `FOUND` if the process dies."""
    text = dump(scenario)
    note(text)
    test = os.environ["PYTEST_CURRENT_TEST"].split("::")[-1].split()[0]
    FOUND.mkdir(parents=True, exist_ok=True)
    (FOUND / f"{test}.yaml").write_text(text)


def memory_mb() -> float:
    """The most memory that this process has had, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
