"""Random scenarios: they have every key, and what must hold of every run holds of theirs."""

import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin

import pytest

import perhop
from conftest import SLOW
from fuzzing import invariants
from fuzzing.language import models
from fuzzing.running import draw, fuzzed_scenarios, memory_mb
from perhop import linux
from perhop._core import Simulation
from perhop.dataset import TABLES, Dataset, Manifest
from perhop.engines.captures import Capture
from perhop.engines.emu import hosts_plan
from perhop.engines.plan import network_plan, plan
from perhop.engines.sim import SimRun
from perhop.engines.traffic import gaps
from perhop.errors import PerhopError
from perhop.scenario import METRICS, Scenario, dump, parse
from perhop.scenario.model.base import Model
from perhop.units import MILLISECOND

pytestmark = SLOW

LONGEST_S = 30
MOST_MB = 400

FEWEST = 60
"""Number of scenarios that the tests want."""

REPLACED = {"Replay.file", "Trace.file"}
"""Keys that a loaded scenario no longer has: a file's packets replace them."""

ROUNDS = 192


def keys() -> Iterator[str]:
    """Every key of every model, and every word that it may have but for its default."""
    for model in models(Scenario):
        for name, field in model.model_fields.items():
            if name in METRICS:
                continue  # drawn from the list of them
            yield f"{model.__name__}.{name}"
            told = (word for word in words(field.annotation) if word != field.default)
            yield from (f"{model.__name__}.{name}: {word}" for word in told)


def words(kind: Any) -> Iterator[object]:
    if get_origin(kind) is Literal:
        yield from get_args(kind)
    elif get_origin(kind) is not tuple:
        for arg in get_args(kind):
            if arg is not NoneType:
                yield from words(arg)
    if kind is bool:
        yield from (True, False)


def said(part: Any) -> Iterator[str]:
    """The keys that a scenario gives, and the words that it gives them."""
    if isinstance(part, Model):
        for name in part.model_fields_set:
            value = getattr(part, name)
            yield f"{type(part).__name__}.{name}"
            if isinstance(value, (str, int)):
                yield f"{type(part).__name__}.{name}: {value}"
            yield from said(value)
    elif isinstance(part, dict):
        for value in part.values():
            yield from said(value)
    elif isinstance(part, (tuple, list)):
        for value in part:
            yield from said(value)


FEW = sum(":" in key for key in keys()) / 20
"""Of these words may be missing."""


def missing(scenarios: list[Scenario]) -> tuple[list[str], list[str]]:
    """The keys that no scenario has said, and the words."""
    found = Counter(key for each in scenarios for key in set(said(each)))
    unsaid = [key for key in keys() if not found[key] and key not in REPLACED]
    return [key for key in unsaid if ":" not in key], [key for key in unsaid if ":" in key]


@pytest.fixture(scope="module")
def drawn() -> list[Scenario]:
    """Scenarios; more are drawn while one of the features that few of them have is missing."""
    found: list[Scenario] = []
    keys_missing: list[str] = []
    for number in range(ROUNDS):
        wanted = keys_missing if len(found) >= FEWEST else []
        found += [each for each in draw(number, wanted) if each not in found]
        keys_missing, words_missing = missing(found)
        if len(found) >= FEWEST and not keys_missing and len(words_missing) < FEW:
            break
    return found


def test_every_key_is_generated(drawn: list[Scenario]) -> None:
    unsaid, _ = missing(drawn)
    assert not unsaid, f"no random scenario has {', '.join(unsaid)}; see tests/fuzzing"


def test_nearly_every_word_is_generated(drawn: list[Scenario]) -> None:
    _, unsaid = missing(drawn)
    assert len(unsaid) < FEW, f"no random scenario says {', '.join(unsaid)}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


@fuzzed_scenarios(60)
def test_every_run_keeps_the_books(scenario: Scenario, folder: Path) -> None:
    began, before = time.monotonic(), memory_mb()
    dataset = perhop.run(scenario, seed=3, out=folder / "run")
    invariants.check(dataset)
    assert time.monotonic() - began < LONGEST_S
    assert memory_mb() - before < MOST_MB
    again = Dataset.read(folder / "run")
    assert again.scenario == scenario
    assert all(getattr(again, name).equals(getattr(dataset, name)) for name in TABLES)


@fuzzed_scenarios(30)
def test_the_same_seed_gives_the_same_bytes(scenario: Scenario, folder: Path) -> None:
    """Results do not depend on slices of the run, nor on captures."""
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


def divisible(scenario: Scenario) -> str:
    """A plan of a scenario without what cannot be divided."""
    whole = plan(scenario, 5)
    whole["network"]["tunnels"] = []
    for link in whole["network"]["links"]:
        link["mtu"] = None
        for end in link["ends"]:
            end["medium"] |= {"duplicate": 0, "reorder": None}
            end["medium"]["delay"] = max(end["medium"]["delay"], MILLISECOND)
    whole["flows"] = [flow for flow in whole["flows"] if flow["application"] is None]
    return json.dumps(whole)


@fuzzed_scenarios(20)
def test_the_number_of_threads_makes_no_difference(scenario: Scenario) -> None:
    text = divisible(scenario)

    def tables(threads: int) -> dict[str, dict[str, Any]]:
        core = Simulation(text, threads)
        core.advance(scenario.end_ps)
        return core.tables()

    one = repr(bits(tables(1)))
    assert all(repr(bits(tables(threads))) == one for threads in (2, 3, 5))


def bits(tables: dict[str, dict[str, Any]]) -> list[object]:
    """Each column of tables of the core, where NaN equals NaN."""
    columns = (column for table in tables.values() for column in table.values())
    return [
        (each[0], bytes(each[1])) if isinstance(each, tuple) else bytes(each) for each in columns
    ]


@fuzzed_scenarios(30)
def test_everything_can_be_told_of_every_run(scenario: Scenario, folder: Path) -> None:
    invariants.render(perhop.run(scenario), folder)


@fuzzed_scenarios(60)
def test_every_scenario_is_mapped_to_linux_or_refused(scenario: Scenario) -> None:
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
