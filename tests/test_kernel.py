"""The kernel engine: whole scenarios through Linux's own queues, in seconds of real time."""

import functools
import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

import perhop as library
from conftest import MEASURES, REAL_HOSTS, Outcome, Start, under_way
from perhop import analysis, engines
from perhop._core import Namespaces
from perhop.dataset import Dataset
from perhop.errors import UnsupportedError
from perhop.scenario import Scenario, parse
from tools import need, unable

Perhop = Callable[..., Outcome]

THREE = """
perhop: 1
name: three
nodes: {a: host, r1: router, r2: router, b: host}
links:
  - {ends: [a, r1], rate: 100 Mbps}
  - {ends: [r1, r2], rate: 10 Mbps, delay: 1 ms, egress: {r1: shared}, overhead: ethernet}
  - {ends: [r2, b], rate: 100 Mbps}
policies:
  shared:
    classes:
      low: {match: {dscp: cs1}, bandwidth: 10%}
      high: {match: {dscp: af11}, bandwidth: 60%}
      rest: {match: any, bandwidth: 30%}
flows:
  low: {from: a, to: b, dscp: cs1, tcp: {window: 64 KiB}, stop: 4 s}
  rest: {from: a, to: b, tcp: {window: 64 KiB}, start: 1 s, stop: 4 s}
  high: {from: a, to: b, dscp: af11, tcp: {window: 64 KiB}, start: 2 s, stop: 4 s}
  call: {from: b, to: a, udp: {rate: 200 kbps, size: 172 B}, stop: 4 s}
pings: {echo: {from: a, to: b, dscp: af11, every: 50 ms}}
duration: 4200 ms
report: {interval: 500 ms}
expect: [{throughput: total, during: 2500 ms..4 s, at_least: 8 Mbps}]
"""


LONG = THREE.replace("stop: 4 s", "stop: 100 s").replace("4200 ms", "100 s")
"""A duration for which no test waits."""

pytestmark = REAL_HOSTS


@pytest.fixture(autouse=True, scope="module")
def able() -> None:
    need("tc", "nft", "ip")
    try:
        Namespaces(1)
    except OSError as error:
        unable(error)


def scenario(**overrides: str) -> Scenario:
    return parse(THREE, "three.yaml", overrides=overrides)


@functools.cache
def run(_attempt: int) -> Dataset:
    return engines.run(scenario(), engine="kernel")


@pytest.fixture
def whole(attempt: int) -> Dataset:
    return run(attempt)


@MEASURES
def test_the_dataset_is_whole(whole: Dataset) -> None:
    assert whole.manifest.engine == "kernel"
    assert whole.manifest.complete
    assert whole.covered_s == 4.2
    ends = sorted(set(whole.queues["end_s"]))
    assert ends == [mark / 1e12 for mark in whole.scenario.marks_ps if mark]
    assert sorted(set(whole.links["end_s"])) == ends
    assert set(whole.queues["link"]) == set(whole.scenario.directions)
    assert whole.manifest.counters["timeline_late_us"] >= 0


@MEASURES
def test_linux_shares_as_the_policy_says(whole: Dataset) -> None:
    rates = {f: analysis.throughput(whole, f, (2.5, 4.0)) or 0 for f in ("low", "rest", "high")}
    total = sum(rates.values())
    for flow, share in (("low", 0.1), ("rest", 0.3), ("high", 0.6)):
        assert rates[flow] / total == pytest.approx(share, abs=0.05)
    assert all(verdict.ok for verdict in analysis.verdicts(whole))


@MEASURES
def test_queues_and_flows_agree(whole: Dataset) -> None:
    counted = analysis.class_counters(whole)
    rows = {(row["link"], row["class"]): row for row in counted.iter_rows(named=True)}
    for flow in ("low", "rest", "high"):
        sent = rows["r1>r2", flow]["sent_bytes"]
        delivered = analysis.count(whole, flow, "bytes")
        assert 0.85 * sent <= delivered <= sent
    calls = analysis.count(whole, "call", "packets")
    assert calls == pytest.approx(4 * 200_000 / 8 / 172, rel=0.05)
    assert rows["r2>r1", "all"]["sent_packets"] >= calls
    loads = {row["link"]: row for row in analysis.link_loads(whole).iter_rows(named=True)}
    assert 0.7 < loads["r1>r2"]["utilisation"] <= 1


@MEASURES
def test_pings_take_the_delay_of_the_way(whole: Dataset) -> None:
    trips = analysis.rtt(whole, "echo")
    assert trips is not None
    # Both ways together are 2 ms and some bits; single probes may be stamped late.
    assert trips.median > 0.002
    assert trips.min < 0.01
    assert trips.samples > 60


@MEASURES
def test_code_points_arrive(whole: Dataset) -> None:
    for flow, dscp in (("low", 8), ("high", 10)):
        found = analysis.codepoints(whole, flow)
        assert set(found["dscp_arrived"]) == {dscp}


@MEASURES
def test_a_timeline_happens_while_traffic_runs() -> None:
    changes = """
changes:
  - {at: 1500 ms, on: r1>r2, rate: 5 Mbps}
  - {at: 3 s, on: r1>r2, policy: none}
"""
    changed = parse(THREE.split("expect:")[0] + changes, "three.yaml")
    run = engines.run(changed, engine="kernel")
    before, after = (
        analysis.throughput(run, "total", window) or 0 for window in ((0.5, 1.5), (2.0, 3.0))
    )
    assert before == pytest.approx(9.7e6, rel=0.1)
    assert after == pytest.approx(4.9e6, rel=0.12)
    link = run.queues.filter(run.queues["link"] == "r1>r2")
    last = link.filter(link["start_s"] > 3.0)
    assert set(last["class"]) == {"all"}
    assert last["sent_packets"].sum() > 100
    # `tc` starts after the mark, and the old classes send until it has replaced them.
    assert link.filter(pl.col("start_s") == 3.0, **{"class": "all"})["sent_packets"].sum() > 10
    assert set(link.filter(link["end_s"] <= 3.0)["class"]) == {"low", "high", "rest"}


def test_an_interrupted_run_keeps_what_was_measured(place: Path, start: Start) -> None:
    (place / "long.yaml").write_text(LONG)
    code, _, err = under_way(start, "long.yaml", place / "run", "--engine", "kernel")(signal.SIGINT)
    assert code == 130, err
    kept = Dataset.read(place / "run")
    assert not kept.manifest.complete
    assert 0 < kept.covered_s < 100
    assert kept.intervals["bytes"].sum() > 0


def test_nothing_is_left_after_a_kill(place: Path, start: Start) -> None:
    def here() -> set[str]:
        commands = ["ip", "-o", "link"], ["ip", "netns"]
        said = (subprocess.run(each, capture_output=True, text=True).stdout for each in commands)
        return {line for text in said for line in text.splitlines()}

    before = here()
    (place / "long.yaml").write_text(LONG)
    under_way(start, "long.yaml", place / "run", "--engine", "kernel")(signal.SIGKILL)
    assert here() <= before


def test_what_linux_cannot_do_is_said(perhop: Perhop, place: Path) -> None:
    (place / "x.yaml").write_text(
        THREE.replace("bandwidth: 10%", "police: {rate: 1 Mbps, burst: 10 kB}")
    )
    code, out, err = perhop("run", "x.yaml", "--engine", "kernel")
    assert (code, out) == (3, "")
    assert "policies.shared.classes.low.police.burst: " in err
    assert not (place / "runs").exists()


OVERHEAD = """
perhop: 1
name: overhead
nodes: {a: host, r: router, b: host}
links:
  - {ends: [a, r], rate: 100 Mbps}
  - {ends: [r, b], rate: 20 Mbps, overhead: 38 B, shape: {r: {rate: 5 Mbps}}}
flows:
  f: {from: a, to: b, udp: {rate: 20 Mbps, size: 200 B, layer: ip}}
duration: 3 s
"""


@MEASURES
def test_a_shaper_counts_ip_packets_on_a_link_with_an_overhead() -> None:
    made = parse(OVERHEAD, "x.yaml")
    kernel, sim = (
        library.run(made, engine=engine).intervals["packets"].sum() for engine in ("kernel", "sim")
    )
    assert kernel == pytest.approx(sim, rel=0.02)


def test_a_policy_faster_than_its_link_is_refused() -> None:
    made = parse(OVERHEAD.replace("rate: 5", "rate: 12"), "x.yaml")
    with pytest.raises(UnsupportedError, match=r"links\.1\.rate: some packets of r>b would be"):
        library.run(made, engine="kernel")


def test_captures_are_refused(place: Path) -> None:
    old = b"\x0a\x0d\x0d\x0a an older capture"
    (place / "old.pcapng").write_bytes(old)
    for name in ("old.pcapng", "new.pcapng"):
        with pytest.raises(UnsupportedError, match="--engine emu"):
            library.run(scenario(), engine="kernel", captures={"a": str(place / name)})
    assert (place / "old.pcapng").read_bytes() == old
    assert not (place / "new.pcapng").exists()


@MEASURES
def test_engines_can_be_crosschecked(perhop: Perhop, place: Path) -> None:
    (place / "three.yaml").write_text(THREE)
    tolerances = ("share=10", "goodput=25", "rtt=500", "loss=10")
    arguments = [word for each in tolerances for word in ("--tolerance", each)]
    code, out, err = perhop(
        "crosscheck", "three.yaml", "--engines", "sim,kernel", "--json", *arguments
    )
    found = json.loads(out)
    assert found["engines"] == ["sim", "kernel"], err
    kinds = {each["kind"] for each in found["deviations"]}
    assert kinds == {"share", "goodput", "rtt", "loss", "codepoint", "order", "queueing"}
    assert (code, found["ok"]) == (0, True), out


MARKED = """
perhop: 1
name: marked
nodes: {a: host, r1: router, r2: router, b: host}
links:
  - {ends: [a, r1], rate: 100 Mbps}
  - {ends: [r1, r2], rate: 10 Mbps, egress: {r1: edge}}
  - ends: [r2, b]
    rate: 100 Mbps
    remark: {b: [{match: [{except: {dscp: cs5}}, {protocol: udp}], dscp: af11}]}
policies:
  edge:
    classes:
      voice:
        match: [{except: {destination_port: 6000}}, {dscp: ef, protocol: udp}, {protocol: icmp}]
        mark: cs5
      six:
        match: {protocol: udp, destination_port: 6000}
        mark: af21
        classes: {ef: {match: {dscp: ef}}, cs1: {match: {dscp: cs1}, mark: cs2}, no: {match: any}}
      rest: {match: any, unused: true}
flows:
  call: {from: a, to: b, dscp: ef, port: 5000, udp: {rate: 100 kbps, size: 200 B}, stop: 500 ms}
  ef: {from: a, to: b, dscp: ef, port: 6000, udp: {rate: 100 kbps, size: 200 B}, stop: 500 ms}
  cs1: {from: a, to: b, dscp: cs1, port: 6000, udp: {rate: 100 kbps, size: 200 B}, stop: 500 ms}
duration: 600 ms
"""


@pytest.mark.parametrize("engine", ["emu", "kernel"])
def test_lists_of_matches_and_marks_are_the_same_in_every_engine(engine: str) -> None:
    def seen(engine: str) -> tuple[dict[str, set[tuple[int, int]]], dict[str, int]]:
        run = engines.run(parse(MARKED), engine=engine)
        points = {
            flow: set(analysis.codepoints(run, flow).select("dscp_arrived", "packets").iter_rows())
            for flow in ("call", "ef", "cs1")
        }
        counters = analysis.class_counters(run).filter(link="r1>r2")
        return points, dict(counters.select("class", "sent_packets").iter_rows())

    expected = seen("sim")
    points, sent = expected
    assert {flow: [dscp for dscp, _ in rows] for flow, rows in points.items()} == {
        "call": [40],
        "ef": [10],
        "cs1": [10],
    }
    assert sent["six/ef"] == sent["six/cs1"] > 10
    assert sent["six/no"] == sent["rest"] == 0
    assert seen(engine) == expected


PORTS = """
perhop: 1
name: ports
nodes: {a: host, r: router, b: host}
links:
  - {ends: [a, r], rate: 100 Mbps}
  - {ends: [r, b], rate: 10 Mbps, egress: {r: edge}}
policies:
  edge:
    classes:
      dns: {match: {source_port: 53}, police: {rate: 64 kbps, burst: 8 kB}}
      ntp: {match: {source_port: 123}}
      web: {match: {source_port: 1024-1025, protocol: tcp}}
      rest: {match: any, unused: true}
flows:
  dns: {from: a, to: b, port: 53, source_port: 53, udp: {rate: 1 Mbps, size: 500 B}, volume: 25 kB}
  ntp: {from: a, to: b, port: 53, source_port: 123, udp: {rate: 1 Mbps, size: 500 B}, volume: 25 kB}
  web: {from: a, to: b, source_port: 1024, streams: 2, volume: 50 kB}
duration: 700 ms
"""


@pytest.mark.parametrize("engine", ["sim", "emu", "kernel"])
def test_flows_have_their_source_ports_in_every_engine(engine: str) -> None:
    # A receiver takes a stream only from its address and port.
    run = engines.run(parse(PORTS), engine=engine)
    sent = dict(
        analysis.class_counters(run)
        .filter(link="r>b")
        .select("class", pl.col("sent_packets") + pl.col("dropped_packets"))
        .iter_rows()
    )
    assert (sent["dns"], sent["ntp"], sent["rest"]) == (50, 50, 0)
    arrived = {flow: run.intervals.filter(flow=flow)["bytes"].sum() for flow in ("ntp", "web")}
    assert arrived == {"ntp": 25_000, "web": 100_000}
    assert sent["web"] > 100_000 / 1460
    assert set(run.losses["flow"]) <= {"dns"}
    if engine != "kernel":
        assert run.losses["packets"].sum() > 10
