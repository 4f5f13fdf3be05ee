"""Engines beside each other: how far apart they are, and how that is said."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import polars as pl
import pytest

import perhop
from conftest import Outcome
from datasets import LEVELS, scavenger
from perhop import analysis
from perhop import crosscheck as module
from perhop.analysis import TOLERANCES
from perhop.crosscheck import crosscheck
from perhop.dataset import Dataset
from perhop.errors import UnsupportedError, UsageError
from perhop.scenario import parse

Perhop = Callable[..., Outcome]


@pytest.fixture(scope="module")
def whole() -> Dataset:
    return scavenger(noise=0, ramp=1)


def moved(points: float) -> Dataset:
    """The same, but that the priority flow has so many points of its phase more."""
    levels: dict[tuple[int, int], dict[str, float]]
    levels = {phase: dict(rates) for phase, rates in LEVELS.items()}
    total = sum(levels[60, 90].values())
    levels[60, 90]["priority"] += points / 100 * total
    levels[60, 90]["best_effort"] -= points / 100 * total
    return scavenger(levels, noise=0, ramp=1)


def scaled(factor: float) -> Dataset:
    levels = {p: {f: bps * factor for f, bps in rates.items()} for p, rates in LEVELS.items()}
    return scavenger(levels, noise=0, ramp=1)


def worst(kind: str, other: Dataset, whole: Dataset) -> float:
    found = analysis.agreement(analysis.compare([whole, other]))
    return max(each.difference or 0 for each in found if each.kind == kind)


def test_a_run_agrees_with_itself(whole: Dataset) -> None:
    found = analysis.agreement(analysis.compare([whole, whole]))
    assert {each.kind for each in found} == set(TOLERANCES) - {"call", "application"}
    assert all(each.ok and each.difference == 0 for each in found)


def test_what_arrives_after_all_flows_have_stopped_is_not_judged() -> None:
    """In the templates `rrul` and `tcp-nup`, real hosts had more to send than modelled ones."""
    run = perhop.run(
        parse("""
perhop: 1
name: rest
nodes: {a: host, b: host, c: host}
links:
  - {ends: [a, b], rate: 10 Mbps, delay: 20 ms}
  - {ends: [c, b], rate: 10 Mbps, delay: 20 ms}
flows: {one: {from: a, to: b, stop: 2 s}, two: {from: c, to: b, start: 1 s, stop: 2 s}}
duration: 3 s
""")
    )
    after = pl.col("start_s") >= 2
    double = pl.when(after).then(2 * pl.col("bytes")).otherwise(pl.col("bytes")).alias("bytes")
    other = replace(run, intervals=run.intervals.with_columns(double))
    assert run.intervals.filter(after)["bytes"].sum() > 0
    found = analysis.agreement(analysis.compare([run, other]))
    assert [each.name for each in found if each.kind == "goodput"] == [
        "total, 0\N{EN DASH}1 s",
        "total, 1\N{EN DASH}2 s",
    ]
    assert all(each.ok for each in found)


@pytest.mark.parametrize("points", [4.9, 5.1])
def test_shares_are_apart_by_points(whole: Dataset, points: float) -> None:
    other = moved(points)
    assert worst("share", other, whole) == pytest.approx(points / 100, abs=1e-4)
    found = analysis.agreement(analysis.compare([whole, other]))
    assert all(each.ok for each in found) == (points < 5)
    differing = {each.name for each in found if not each.ok}
    assert not differing or differing == {
        "best_effort, 60\N{EN DASH}90 s",
        "priority, 60\N{EN DASH}90 s",
    }


@pytest.mark.parametrize("factor", [0.96, 0.94, 1.06])
def test_goodput_is_apart_by_parts_of_the_first(whole: Dataset, factor: float) -> None:
    other = scaled(factor)
    assert worst("goodput", other, whole) == pytest.approx(abs(1 - factor), abs=1e-4)
    assert worst("share", other, whole) == pytest.approx(0, abs=1e-4)
    found = analysis.agreement(analysis.compare([whole, other]), {"goodput": 0.05})
    assert all(each.ok for each in found) == (abs(1 - factor) < 0.05)


def test_of_three_runs_the_extremes_count(whole: Dataset) -> None:
    found = analysis.agreement(analysis.compare([whole, scaled(0.97), scaled(1.04)]))
    apart = {each.difference for each in found if each.kind == "goodput"}
    assert all(each == pytest.approx(0.07, abs=1e-3) for each in apart)


@pytest.mark.parametrize(("factor", "ok"), [(1.0, True), (1.2, False)])
def test_round_trip_times_of_flows_are_the_smoothed_ones(
    whole: Dataset, factor: float, ok: bool
) -> None:
    """A real host does not say what single segments measured."""
    real = replace(
        whole,
        rtts=whole.rtts.clear(),
        srtts=whole.srtts.with_columns(pl.col("low_s", "high_s") * factor),
        intervals=whole.intervals.with_columns(
            pl.col("srtt_s", "srtt_min_s", "srtt_max_s") * factor,
            pl.lit(None, pl.Float64).alias("rtt_s"),
            pl.lit(0, pl.Int64).alias("rtt_samples"),
        ),
    )
    compared = analysis.compare([whole, real])
    found = [each for each in analysis.agreement(compared) if each.kind == "rtt"]
    flows = [each for each in found if each.name in whole.scenario.flows]
    assert len(flows) == 3
    assert all(None not in each.beside.values for each in flows)
    assert {each.ok for each in flows} == {ok}
    for quantities in compared.flows.values():
        median, absent = quantities["rtt_median"].values
        assert median is not None
        assert absent is None


def fake(monkeypatch: pytest.MonkeyPatch, **outcomes: Dataset | str) -> list[dict[str, Any]]:
    """Engines that give a dataset, or that lack something."""
    calls = []

    def run(_scenario: object, *, engine: str, **options: Any) -> Dataset:
        calls.append({"engine": engine, **options})
        outcome = outcomes[engine]
        if isinstance(outcome, str):
            raise UnsupportedError(outcome)
        return outcome

    monkeypatch.setattr(module, "run", run)
    return calls


def test_engines_that_can_run_and_the_others_are_named(
    monkeypatch: pytest.MonkeyPatch, whole: Dataset
) -> None:
    calls = fake(monkeypatch, sim=whole, emu=scaled(0.99), kernel="there is no tc")
    found = crosscheck(whole.scenario, engines=["sim", "emu", "kernel"], seed=7, out="x")
    assert list(found.runs) == ["sim", "emu"]
    assert found.lacking == {"kernel": "there is no tc"}
    assert found.compared is not None
    assert found.compared.names == ("sim", "emu")
    assert found.ok
    assert [str(call["out"]) for call in calls] == ["x/sim", "x/emu", "x/kernel"]
    assert {call["seed"] for call in calls} == {7}


def test_one_engine_compares_with_nothing(monkeypatch: pytest.MonkeyPatch, whole: Dataset) -> None:
    fake(monkeypatch, sim=whole, emu="no /dev/net/tun")
    found = crosscheck(whole.scenario, engines=["sim", "emu"])
    assert found.compared is None
    assert not found.ok


def test_an_engine_that_there_is_not_is_an_error(whole: Dataset) -> None:
    with pytest.raises(UsageError, match="not an engine"):
        crosscheck(whole.scenario, engines=["sin"])


def test_the_command_says_who_differs(
    monkeypatch: pytest.MonkeyPatch, perhop: Perhop, whole: Dataset
) -> None:
    fake(monkeypatch, sim=whole, emu=moved(20), kernel="there is no tc")
    arguments = ("crosscheck", "qbss-1-70", "--engines", "sim,emu,kernel")
    code, out, _ = perhop(*arguments)
    assert code == 1
    assert "kernel cannot run it: there is no tc" in out
    rows = [line for line in out.splitlines() if line.startswith("DIFFER")]
    assert len(rows) == 2
    assert all("20.0 points" in row and "5.0 points" in row for row in rows)
    code, out, _ = perhop(*arguments, "--tolerance", "share=21", "--json")
    found = json.loads(out)
    assert code == 0
    assert found["engines"] == ["sim", "emu"]
    assert found["ok"]
    assert {each["kind"] for each in found["deviations"]} == set(TOLERANCES) - {
        "call",
        "application",
    }


def test_the_command_needs_two_engines(
    monkeypatch: pytest.MonkeyPatch, perhop: Perhop, whole: Dataset
) -> None:
    fake(monkeypatch, sim=whole, emu="no /dev/net/tun")
    code, out, err = perhop("crosscheck", "qbss-1-70", "--engines", "sim,emu")
    assert code == 3
    assert "emu cannot run it: no /dev/net/tun" in out
    assert "fewer than two engines can run it" in err


@pytest.mark.parametrize("given", ["speed=3", "rtt", "rtt=x", "rtt=-1", "rtt=nan"])
def test_tolerances_are_numbers_of_a_kind(perhop: Perhop, given: str) -> None:
    code, _, err = perhop("crosscheck", "qbss-1-70", "--tolerance", given)
    assert code == 2
    assert given in err
