"""Random scenarios, run: what must hold of every run, and of all that is made of it."""

import time
from pathlib import Path

import pytest
from hypothesis import given

import perhop
from conftest import SLOW
from fuzzing import invariants
from fuzzing.running import fuzzed, memory_mb, record
from fuzzing.scenarios import scenarios
from perhop import linux
from perhop.dataset import TABLES, Dataset, Manifest
from perhop.engines.captures import Capture
from perhop.engines.emu import hosts_plan
from perhop.engines.plan import network_plan
from perhop.engines.sim import SimRun
from perhop.engines.traffic import gaps
from perhop.errors import PerhopError
from perhop.scenario import Scenario, dump, parse

pytestmark = SLOW

LONGEST_S = 30
MOST_MB = 400


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


@fuzzed(30)
@given(scenario=scenarios)
def test_every_run_keeps_the_books(scenario: Scenario, folder: Path) -> None:
    record(scenario)
    began, before = time.monotonic(), memory_mb()
    dataset = perhop.run(scenario, seed=3, out=folder / "run")
    invariants.check(dataset)
    assert time.monotonic() - began < LONGEST_S
    assert memory_mb() - before < MOST_MB
    again = Dataset.read(folder / "run")
    assert again.scenario == scenario
    assert all(getattr(again, name).equals(getattr(dataset, name)) for name in TABLES)


@fuzzed(20)
@given(scenario=scenarios)
def test_the_same_seed_gives_the_same_bytes(scenario: Scenario, folder: Path) -> None:
    """Results do not depend on slices of the run, nor on captures."""
    record(scenario)
    dataset = perhop.run(scenario, seed=5)
    whole = SimRun(scenario, 5)
    file = folder / "all.pcapng"
    with file.open("wb", buffering=0) as opened:
        if scenario.directions:
            whole.capture(Capture(file, tuple(scenario.directions), 64), opened)
        whole._core.advance(scenario.end_ps)
        assert whole.finished
    other = Dataset(scenario, Manifest(**dict(dataset.manifest)), **whole.tables())
    assert invariants.contents(other) == invariants.contents(dataset)
    seen = invariants.captured(file.read_bytes())
    for row in dataset.links.group_by("link").sum().iter_rows(named=True):
        sent = row["sent_packets"]
        assert abs(seen[row["link"]][0] - sent) <= 1, (row["link"], seen[row["link"]], sent)


@fuzzed(15)
@given(scenario=scenarios)
def test_everything_can_be_told_of_every_run(scenario: Scenario, folder: Path) -> None:
    record(scenario)
    invariants.render(perhop.run(scenario), folder)


@fuzzed(40)
@given(scenario=scenarios)
def test_every_scenario_is_mapped_to_linux_or_refused(scenario: Scenario) -> None:
    record(scenario)
    assert parse(dump(scenario)) == scenario
    network_plan(scenario, 1)
    hosts_plan(scenario)
    assert all(gap.path and gap.reason for gap in gaps(scenario))
    for police in ("tc", "nft"):
        found = linux.mapping(scenario, police=police)
        try:
            linux.refuse(found.gaps, scenario.name)
        except PerhopError as error:
            assert str(error).count("\n") >= 0
        else:
            assert linux.script(scenario, found)
