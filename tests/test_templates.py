"""Templates of scenarios: each is sound, runs in seconds, and passes its own expectations."""

from pathlib import Path

import pytest
from click.testing import CliRunner

import perhop
from perhop import templates
from perhop.analysis import verdicts
from perhop.cli import perhop as command
from perhop.scenario import parse
from perhop.scenario.rules.warnings import is_random

NAMES = [
    "branch",
    "cable",
    "dsl",
    "dumbbell",
    "leaf-spine",
    "lte",
    "parking-lot",
    "rfc4594",
    "rpm",
    "rrul",
    "tcp-nup",
    "wifi",
]


def test_all_have_names_and_descriptions() -> None:
    assert list(templates.names()) == NAMES
    for name, described in templates.descriptions().items():
        assert described.endswith("."), name
    found = CliRunner().invoke(command, ["new", "--help"])
    assert all(name in found.output for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_template_runs_and_passes(name: str) -> None:
    scenario = parse(templates.text(name), f"{name}.yaml")
    assert scenario.name == name
    assert scenario.expect
    dataset = perhop.run(scenario)
    assert [(found.text, found.measured) for found in verdicts(dataset) if not found.ok] == []
    assert not dataset.warnings


@pytest.mark.parametrize("name", ["dsl", "dumbbell", "rfc4594", "wifi", "lte"])
def test_seeds_mean_something(name: str) -> None:
    assert is_random(parse(templates.text(name)))


def test_a_template_is_written_once(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    runner = CliRunner()
    assert "perhop run" in runner.invoke(command, ["new", "dsl", "--out", str(path)]).output
    assert path.read_text("utf-8") == templates.text("dsl")
    again = runner.invoke(command, ["new", "cable", "--out", str(path)])
    assert "exists; give another file by --out" in str(again.exception)
    assert path.read_text("utf-8") == templates.text("dsl")
    unknown = runner.invoke(command, ["new", "dls"])
    assert "did you mean `dsl`?" in str(unknown.exception)
