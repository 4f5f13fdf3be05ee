from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

import broken
from perhop import gallery
from perhop.scenario import json_schema
from perhop.scenario.reading.document import read_yaml

SCHEMA = json_schema()
VALIDATOR = Draft202012Validator(SCHEMA)
VALID = broken.VALID.read_text("utf-8")


def test_it_is_a_schema() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["$schema"].endswith("2020-12/schema")


@pytest.mark.parametrize("text", [VALID, *map(gallery.text, gallery.names())])
def test_valid_files_match(text: str) -> None:
    VALIDATOR.validate(read_yaml(text, "scenario.yaml").data)


@pytest.mark.parametrize(
    "name",
    [
        "unknown-section",
        "missing-version",
        "version-2",
        "rate-without-unit",
        "rate-in-wrong-case",
        "rate-negative",
        "unknown-kind",
        "link-with-one-end",
        "link-with-three-ends",
        "unknown-overhead",
        "link-unknown-key",
        "match-without-conditions",
        "match-misspelt-any",
        "match-unknown-key",
        "match-empty-list",
        "match-list-empty",
        "match-list-except-alone",
        "match-list-except-and-more",
        "match-list-except-list",
        "match-list-in-a-list",
        "match-list-unknown-key",
        "mark-unknown-dscp",
        "police-without-burst",
        "police-unknown-action",
        "unknown-priority",
        "queue-limit-in-bits",
        "flow-tcp-and-udp",
        "flow-stop-and-volume",
        "flow-zero-streams",
        "flow-unknown-key",
        "udp-without-rate",
        "empty-section",
        "null-value",
        "expect-no-metric",
        "expect-two-metrics",
        "expect-wrong-unit",
        "expect-count-with-unit",
        "published-without-label",
        "published-unknown-qualifier",
    ],
)
def test_broken_scenarios_do_not(name: str) -> None:
    assert not VALIDATOR.is_valid(yaml.safe_load(broken.cases()[name].text))


def test_every_key_is_described() -> None:
    def walk(schema: dict[str, Any], name: str) -> None:
        for key, value in schema.get("properties", {}).items():
            assert "description" in value or "$ref" in value or "const" in value, f"{name}.{key}"
        for form in schema.get("anyOf", []):
            walk(form, name)

    walk(SCHEMA, "Scenario")
    for name, part in SCHEMA["$defs"].items():
        walk(part, name)


def test_nothing_may_be_null() -> None:
    assert "null" not in str(SCHEMA).replace("'null'", "null")
