"""Running scenarios: from Python, over again, in slices, and on any number of cores."""

import hashlib
import json
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

import perhop
from conftest import SLOW, Start, ended
from perhop import scenario as model
from perhop._core import Simulation
from perhop.dataset import TABLES
from perhop.engines import ENGINES, Progress, sim
from perhop.engines.plan import plan
from perhop.errors import UsageError
from perhop.scenario import parse

CHANCE = """\
perhop: 1
name: chance
nodes: {a: host, r1: router, r2: router, b: host, phone: host}
channels: {home: {wifi: g}}
tunnels: {vpn: {ends: [b, phone], overhead: 60 B}}
links:
  - {ends: [a, r1], rate: 100 Mbps, delay: 1 ms, jitter: 1 ms}
  - {ends: [r1, r2], rate: 20 Mbps, delay: 5 ms, loss: 0.5%, egress: {r1: classes}}
  - {ends: [r2, b], rate: 100 Mbps, overhead: atm}
  - {ends: [r2, phone], rate: 54 Mbps, channel: home, loss: 5%}
policies:
  classes:
    classes:
      voice: {match: {dscp: ef}, priority: strict, police: {rate: 1 Mbps, burst: 3 kB}}
      data: {match: {protocol: tcp}, bandwidth: 80%, policy: halves}
      rest: {match: any}
  halves:
    classes:
      first: {match: {port: 5001}, bandwidth: 50%, queue: {limit: 20 ms}}
      second: {match: any}
flows:
  one: {from: a, to: b, streams: 3, stop: 4 s}
  two: {from: a, to: b, tcp: {congestion_control: reno, sack: false}, start: 1 s, volume: 2 MB}
  call: {from: a, to: b, udp: {rate: 2 Mbps, size: 160 B}, dscp: ef, start: 0.5 s, stop: 3 s}
  spoken: {from: a, to: b, voice: g729a, stop: 3 s}
  asked: {from: a, to: b, transfers: {every: 500 ms, pattern: poisson, size: 20 kB}}
  over_air: {from: b, to: phone, stop: 3 s}
pings:
  probe: {from: b, to: a, every: 10 ms, dscp: ef}
duration: 5 s
report: {interval: 300 ms}
expect:
  - {throughput: one, during: 1.25 s..3.999 s, at_least: 1 Mbps}
"""
"""A bit of everything, random numbers above all."""


def digests(dataset: perhop.Dataset, folder: Path) -> dict[str, str]:
    """Return the bytes of each table's file."""
    dataset.write(folder)
    return {
        name: hashlib.sha256((folder / f"{name}.parquet").read_bytes()).hexdigest()
        for name in TABLES
    }


# From Python


def test_a_round_trip_as_in_the_documentation(tmp_path: Path) -> None:
    scenario = perhop.load("qbss-1-70", overrides={"flows.best_effort.streams": "10"})
    dataset = perhop.run(scenario, seed=3, out=tmp_path / "run")
    back = perhop.Dataset.read(tmp_path / "run")
    assert back.manifest == dataset.manifest
    assert back.manifest.complete
    assert (back.manifest.engine, back.manifest.seed) == ("sim", 3)
    assert back.covered_s == 150
    assert back.scenario == scenario == perhop.parse(perhop.dump(scenario))
    assert all(getattr(back, name).equals(getattr(dataset, name)) for name in TABLES)
    assert back.intervals.filter(flow="best_effort")["stream"].n_unique() == 10


def test_a_scenario_can_be_written_in_python(tmp_path: Path) -> None:
    written = perhop.Scenario(
        perhop=1,
        name="small",
        nodes={"a": model.Node(kind="host"), "b": model.Node(kind="host")},
        links=(model.Link(ends=("a", "b"), rate="10 Mbps", delay="5 ms"),),
        flows={"data": model.Flow(source="a", destination="b", tcp=model.Tcp(), stop="2 s")},
        pings={"probe": model.Ping(source="a", destination="b", every="100 ms")},
        expect=(model.Expectation(throughput="data", during="1 s..2 s", at_least="9 Mbps"),),
    )
    path = tmp_path / "small.yaml"
    path.write_text(
        "perhop: 1\nname: small\nnodes: {a: host, b: host}\n"
        "links: [{ends: [a, b], rate: 10 Mbps, delay: 5 ms}]\n"
        "flows: {data: {from: a, to: b, stop: 2 s}}\n"
        "pings: {probe: {from: a, to: b, every: 100 ms}}\n"
        "expect: [{throughput: data, during: 1 s..2 s, at_least: 9 Mbps}]\n"
    )
    loaded = perhop.load(path)
    assert written == loaded
    both = (perhop.run(scenario) for scenario in (written, loaded))
    assert len({tuple(digests(run, tmp_path / "run").items()) for run in both}) == 1


@pytest.mark.parametrize("engine", ENGINES)
def test_a_network_without_flows_has_nothing_to_run(engine: str) -> None:
    network = parse(CHANCE.partition("flows:")[0])
    assert not network.flows and not network.pings
    with pytest.raises(perhop.UsageError, match=r"nothing to run.*below `flows`.*perhop lab up"):
        perhop.run(network, engine=engine)


def test_an_unknown_engine_or_seed_is_refused() -> None:
    scenario = parse(CHANCE)
    with pytest.raises(perhop.UsageError, match=r"'simulator' is not an engine; there is sim"):
        perhop.run(scenario, engine="simulator")
    for seed in (-1, 2**64):
        with pytest.raises(perhop.UsageError, match="is not a seed; expected 0 to 2"):
            perhop.run(scenario, seed=seed)
    assert perhop.run(scenario, seed=2**64 - 1).manifest.seed == 2**64 - 1


def test_progress_goes_from_the_start_to_the_end() -> None:
    seen: list[Progress] = []
    dataset = perhop.run(parse(CHANCE), watch=seen.append)
    times = [progress.now_s for progress in seen]
    assert times == sorted(times)
    assert times[-1] == seen[-1].end_s == dataset.covered_s == 5
    assert {1.0, 3.0, 4.0, 5.0} <= set(times)  # every change
    for flow in dataset.scenario.flows:
        spans = [0.0, *times]
        delivered = sum(
            progress.throughput_bps[flow] * (end - start) / 8
            for progress, start, end in zip(seen, spans, times, strict=False)
        )
        assert delivered == pytest.approx(dataset.intervals.filter(flow=flow)["bytes"].sum())


def test_silence_is_soon_over() -> None:
    """A slice does not go beyond a change, after which it may take as long as it likes."""
    text = CHANCE.replace("start: 1 s", "start: 99 h").replace("duration: 5 s", "duration: 100 h")
    text = text.replace("report: {interval: 300 ms}", "report: {interval: 1 h}")
    text = text.replace("every: 10 ms", "every: 1 h").replace("every: 500 ms", "every: 1 h")
    simulation = sim.start(parse(text), 1)
    slices = 0
    while simulation.now_s < 99 * 3600:
        simulation.advance()
        slices += 1
    assert simulation.now_s == 99 * 3600
    assert slices < 1000
    simulation.advance()
    assert simulation.now_s < 99 * 3600 + 1


# Over again


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    scenario = parse(CHANCE)
    one = digests(perhop.run(scenario, seed=7), tmp_path / "one")
    assert digests(perhop.run(scenario, seed=7), tmp_path / "two") == one
    other = digests(perhop.run(scenario, seed=8), tmp_path / "three")
    assert [name for name in TABLES if one[name] == other[name]] == []


def test_without_chance_the_seed_does_not_matter(tmp_path: Path) -> None:
    scenario = perhop.load("qbss-30-1")
    one, two = (digests(perhop.run(scenario, seed=s), tmp_path / "run") for s in (1, 2))
    assert one == two


@pytest.mark.parametrize("slice_s", [1e-5, 10])
def test_slices_make_no_difference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slice_s: float
) -> None:
    scenario = parse(CHANCE)
    whole = digests(perhop.run(scenario), tmp_path / "whole")
    monkeypatch.setattr(sim, "_SLICE_S", slice_s)
    monkeypatch.setattr(sim, "_FIRST_SLICE_PS", int(slice_s * 1e12))
    seen: list[Progress] = []
    sliced = digests(perhop.run(scenario, watch=seen.append), tmp_path / "sliced")
    assert sliced == whole
    assert len(seen) == 5 if slice_s == 10 else len(seen) > 100  # 5: one up to each change


BACKBONE = """\
perhop: 1
name: backbone
nodes:
  {r1: router, r2: router, r3: router, r4: router, a: host, b: host, c: host, p: host, q: host}
channels: {air: {wifi: g}}
links:
  - {ends: [p, r1], rate: 54 Mbps, channel: air}
  - {ends: [q, r1], rate: 54 Mbps, channel: air}
  - {ends: [a, r1], rate: 100 Mbps}
  - {ends: [b, r3], rate: 100 Mbps}
  - {ends: [c, r4], rate: 100 Mbps}
  - {ends: [r1, r2], rate: 20 Mbps, delay: 3 ms}
  - {ends: [r2, r3], rate: 20 Mbps, delay: 2 ms, loss: 0.5%}
  - {ends: [r3, r4], rate: 20 Mbps, delay: 1 ms, jitter: 1 ms}
  - {ends: [r4, r1], rate: 10 Mbps, delay: 1 ms}
flows:
  data: {from: a, to: b, streams: 2}
  back: {from: b, to: c}
  cross: {from: c, to: a, udp: {rate: 3 Mbps, size: 500 B}}
  spoken: {from: a, to: c, voice: g711}
  fast: {from: a, to: b, quic: {}}
  over_air: {from: p, to: b, udp: {rate: 1 Mbps}}
  from_air: {from: q, to: p}
pings:
  probe: {from: c, to: b, every: 10 ms}
changes:
  - {at: 600 ms, on: r1>r2, state: down}
  - {at: 900 ms, on: r1>r2, state: up}
duration: 1.5 s
"""


def test_threads_make_no_difference(tmp_path: Path) -> None:
    scenario = parse(BACKBONE)
    one = digests(perhop.run(scenario), tmp_path / "one")
    for threads in (2, 3):
        several = perhop.run(scenario, threads=threads)
        assert several.manifest.warnings == ()
        assert digests(several, tmp_path / str(threads)) == one


def test_a_run_says_why_it_has_fewer_threads() -> None:
    def warned(text: str, threads: int) -> list[str]:
        found = perhop.run(parse(text), threads=threads).manifest.warnings
        return [each.message for each in found if "the run had" in each.message]

    short = BACKBONE.replace("1.5 s", "10 ms").partition("changes:")[0] + "duration: 10 ms\n"
    assert warned(short, 4) == []
    (fewer,) = warned(short, 100)
    assert fewer.startswith("the run had 4 threads, as links with a delay")
    near = re.sub(r", delay: \d ms", "", short)
    (one,) = warned(near, 2)
    assert one.startswith("the run had one thread, as the network cannot be divided: no link")
    often = re.sub(r"delay: \d ms", "delay: 5 us", short)
    (one,) = warned(often, 2)
    assert "delays of its links are so short" in one
    (tunnelled,) = warned(CHANCE.replace("duration: 5 s", "duration: 4 s"), 2)
    assert tunnelled.endswith("cannot be divided: it has tunnels")


def test_a_channel_stays_in_one_part() -> None:
    whole = plan(parse(BACKBONE), 1)
    assert Simulation(json.dumps(whole), 4).threads == 4
    whole["network"]["links"][1]["ends"][1]["node"] = "r2"  # as without an access point
    assert Simulation(json.dumps(whole), 4).threads == 3


def test_threads_that_cannot_be_had_are_refused(tmp_path: Path) -> None:
    scenario = parse(BACKBONE)
    for wrong in (0, -1, 5_000):
        with pytest.raises(UsageError, match="expected 1 to 1024"):
            perhop.run(scenario, threads=wrong)
    with pytest.raises(UsageError, match="only sim"):
        perhop.run(scenario, threads=2, engine="emu")
    with pytest.raises(UsageError, match="captured on one thread"):
        perhop.run(scenario, threads=2, captures={"r1>r2": tmp_path / "file.pcapng"})


@SLOW
def test_checkpoints_make_no_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = parse(CHANCE)
    whole = digests(perhop.run(scenario), tmp_path / "whole")
    monkeypatch.setattr("perhop.engines.CHECKPOINT_S", 0)
    saved = perhop.run(scenario, out=tmp_path / "saved")
    assert digests(saved, tmp_path / "again") == whole
    assert digests(perhop.Dataset.read(tmp_path / "saved"), tmp_path / "again") == whole


@SLOW
@pytest.mark.skipif(sys.platform != "linux", reason="needs sched_setaffinity")
def test_the_number_of_cores_makes_no_difference(start: Start, place: Path) -> None:
    (place / "chance.yaml").write_text(CHANCE)
    available = sorted(os.sched_getaffinity(0))

    def on(cores: Sequence[int], folder: str) -> dict[str, str]:
        pin = f"import os; os.sched_setaffinity(0, {list(cores)})"
        assert ended(start("run", "chance.yaml", "--out", folder, prelude=pin)).code == 0
        tables = sorted((place / folder).glob("*.parquet"))
        return {path.stem: hashlib.sha256(path.read_bytes()).hexdigest() for path in tables}

    here = digests(perhop.run(parse(CHANCE)), place / "here")
    assert on(available[:1], "one") == on(available[:2], "two") == here


def test_every_engine_can_start() -> None:
    assert ENGINES == ("sim", "emu", "kernel", "live")
    run = sim.start(parse(CHANCE), 1)
    assert (run.now_s, run.finished) == (0, False)
    run.stop()
    assert {name: table.schema for name, table in run.tables().items()} == TABLES
