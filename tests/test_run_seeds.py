"""`perhop run --seeds`: medians and intervals of single runs, and the verdicts of `perhop test`."""

import json
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from statistics import median

import pytest

import perhop as library
from conftest import SLOW, Outcome, Start
from perhop import ensembles, gallery, metrics, stores, testing
from perhop.dataset.ensembles import replacing
from perhop.errors import OutputError, UsageError
from perhop.report import text
from perhop.report.output import save_ensemble
from perhop.runs import listed_runs

Perhop = Callable[..., Outcome]

SMALL = """\
perhop: 1
name: small
nodes: {a: host, r: router, b: host}
links:
  - {ends: [a, r], rate: 10 Mbps}
  - {ends: [r, b], rate: 10 Mbps, loss: 20%}
flows:
  data: {from: a, to: b, udp: {rate: 1 Mbps}, stop: 500 ms}
  late: {from: a, to: b, udp: {rate: 1 Mbps}, start: 250 ms, stop: 500 ms}
expect:
  - {loss: data, about: 20%, within: 90%}
  - {loss: data, at_most: 20%}
  - {throughput: data, at_least: 1.5 Mbps}
"""


@pytest.fixture
def small(place: Path) -> str:
    path = place / "small.yaml"
    path.write_text(SMALL)
    return str(path)


def test_medians_and_intervals_are_those_of_single_runs(small: str) -> None:
    scenario = library.load(small)
    found = ensembles.run(scenario, 6, jobs=1)
    runs = [library.run(scenario, seed=seed) for seed in range(1, 7)]
    for name in ("data", "late"):
        losses = [metrics.loss(run, name) for run in runs]
        spread = found.metrics[name, "loss", "share"]
        # Of six values, the interval goes from the least to the greatest.
        assert (spread.low, spread.high) == (min(losses), max(losses))
        assert (spread.median, spread.runs, spread.missing) == (median(losses), 6, 0)
    rates = [metrics.throughput(run, "late", during="250 ms..500 ms") for run in runs]
    assert found.throughput[0.25, 0.5, "late"].median == median(rates)
    assert found.throughput[0.0, 0.25, "late"].high == 0
    assert len({*losses}) > 1


@SLOW
def test_the_verdicts_are_those_of_perhop_test(perhop: Perhop, small: str, place: Path) -> None:
    code, out, err = perhop("run", small, "--seeds", "8", "--json")
    assert (code, err) == (1, "")
    said = json.loads(out)
    [tested] = testing.run([gallery.read(small)], seeds=8, jobs=1)
    assert said["expect"] == [asdict(verdict) for verdict in tested.verdicts]
    assert [each["state"] for each in said["expect"]] == ["holds", "undecided", "fails"]
    assert (said["runs"], said["warnings"]) == (8, [])
    assert said["metrics"]["data"]["loss"]["unit"] == "share"
    assert [phase["end_s"] for phase in said["phases"]] == [0.25, 0.5]
    assert [path.name for path in place.iterdir()] == ["small.yaml"]


def test_tables_have_medians_and_intervals(perhop: Perhop, small: str) -> None:
    code, out, err = perhop("run", small, "--seeds", "6")
    assert (code, err) == (1, "")
    for words in ("95% interval", "Medians of 6 runs", "UNDECIDED", "Throughput by phase"):
        assert words in out
    code, out, err = perhop("run", small, "--seeds", "20", "--set", "links.1.loss=0%")
    assert "all 20 seeds give the same results" in err
    assert "measured" in out
    assert "95% interval" not in out


def test_options_that_need_one_run_are_refused(perhop: Perhop, small: str) -> None:
    for more in (("--seed", "2"), ("--pcap", "a>r=x.pcapng")):
        code, _, err = perhop("run", small, "--seeds", "6", *more)
        assert (code, "--seeds: has no effect with" in err) == (2, True)
    with pytest.raises(UsageError, match="not a number of runs for an interval"):
        ensembles.run(library.load(small), 3)


@SLOW
def test_an_ensemble_is_kept_whole_with_its_page(perhop: Perhop, small: str, place: Path) -> None:
    folder = place / "kept"
    code, out, _ = perhop("run", small, "--seeds", "6", "--out", str(folder), "--json")
    printed = json.loads(out)
    assert (code, printed.pop("folder")) == (1, str(folder))
    assert json.loads((folder / "ensemble.json").read_text("utf-8")) == printed
    runs = [library.Dataset.read(folder / "runs" / str(seed)) for seed in range(1, 7)]
    assert [run.manifest.seed for run in runs] == [*range(1, 7)]
    assert sorted(path.name for path in (folder / "runs").iterdir()) == [*"123456"]
    again = ensembles.read(folder)
    assert json.loads(json.dumps(again.as_object())) == printed
    page = (folder / "ensemble.html").read_text("utf-8")
    for spread in (again.metrics["data", "loss", "share"], again.throughput[0.25, 0.5, "late"]):
        unit = "share" if spread.high < 1 else "bps"
        assert f"{text.quantity(spread.low, unit)} to {text.quantity(spread.high, unit)}" in page
    assert "</span> UNDECIDED" in page
    assert "<a " not in page
    assert str(folder) in page.partition("perhop report ")[2]
    (folder / "runs" / "2" / "report.html").touch()
    save_ensemble(again, folder)
    assert '<a href="runs/2/report.html">2</a>' in (folder / "ensemble.html").read_text("utf-8")
    (listed,) = (run for run in listed_runs(place) if run.folder == "kept")
    assert (listed.kind, listed.seeds, listed.page) == ("ensemble", 6, "kept/ensemble.html")
    assert (listed.holds, listed.fails, listed.missed) == (1, 1, 1)
    assert listed.pages == ("kept/runs/2/report.html",)


def tables(run: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in run.iterdir() if each.suffix == ".parquet"}


@SLOW
def test_an_ensemble_that_was_killed_continues(
    start: Start, perhop: Perhop, small: str, place: Path
) -> None:
    asked = ("run", small, "--seeds", "40", "--set", "flows.data.stop=5 s")
    process = start(*asked, "--out", "kept")
    unfinished = place / ".kept.unfinished" / "runs"
    while len(made := [*unfinished.glob("*/manifest.json")]) < 5:
        assert process.poll() is None
        time.sleep(0.01)
    process.kill()
    process.wait()
    assert not (place / "kept").exists()
    (unfinished / ".7.part").mkdir()  # as of one that was being written
    (unfinished / "41").mkdir()  # as of an ensemble of more
    before = {each.parent.name: each.stat().st_ino for each in made}
    assert perhop(*asked, "--out", "kept").code == 1
    assert perhop(*asked, "--out", "undisturbed").code == 1
    for seed, number in before.items():
        assert (place / "kept" / "runs" / seed / "manifest.json").stat().st_ino == number
    runs = {each.name for each in (place / "kept" / "runs").iterdir()}
    assert runs == {str(seed) for seed in range(1, 41)}
    for seed in runs:
        one, other = (place / folder / "runs" / seed for folder in ("kept", "undisturbed"))
        assert tables(one) == tables(other), seed
    kept, undisturbed = (place / each / "ensemble.json" for each in ("kept", "undisturbed"))
    assert kept.read_bytes() == undisturbed.read_bytes()
    assert not unfinished.exists()


def test_only_runs_of_the_same_are_continued(small: str, place: Path) -> None:
    scenario = library.load(small)
    ensembles.run(scenario, 6, jobs=1, folder=place / "kept")
    other = library.load(small, overrides=["links.1.loss=10%"])
    found = ensembles.run(other, 6, jobs=1, folder=place / "kept")
    assert found == ensembles.run(other, 6, jobs=1)
    for folder in (place / "kept" / "runs").iterdir():
        assert library.Dataset.read(folder).scenario.links[1] == other.links[1]


def test_two_commands_do_not_write_one_ensemble(place: Path) -> None:
    with replacing(place / "kept") as fresh:
        with (
            pytest.raises(OutputError, match="another process is writing"),
            replacing(fresh.parent / "kept"),
        ):
            pass
        (fresh / "ensemble.json").touch()
    assert (place / "kept" / "ensemble.json").exists()


def test_an_ensemble_replaces_nothing_but_an_ensemble(place: Path) -> None:
    folder = place / "kept"
    folder.mkdir()
    (folder / "notes").touch()
    with pytest.raises(OutputError, match="is not empty"), replacing(folder):
        pass
    (folder / "ensemble.json").touch()
    before = sorted(place.iterdir())
    with pytest.raises(KeyboardInterrupt), replacing(folder) as fresh:
        (fresh / "ensemble.json").write_text("new")
        raise KeyboardInterrupt
    assert sorted(place.iterdir()) == before
    assert (folder / "ensemble.json").read_text() == ""
    with replacing(folder) as fresh:
        (fresh / "ensemble.json").write_text("new")
    assert sorted(place.iterdir()) == before
    assert [path.name for path in folder.iterdir()] == ["ensemble.json"]
    with pytest.raises(OutputError, match="is not the description"):
        ensembles.read(folder)


def test_an_ensemble_in_a_store_removes_nothing_else() -> None:
    folder = stores.place("memory://bucket/ensemble")
    kept = folder / "runs" / "precious"
    (kept / "table").write_bytes(b"data")
    with pytest.raises(OutputError, match="is not empty, and no ensemble"), replacing(folder):
        pass
    assert (kept / "table").read_bytes() == b"data"
