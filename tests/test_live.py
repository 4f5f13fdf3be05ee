"""The engine `live`: agents in the hosts of labs, whose network is known."""

import json
import os
import signal
import time
from pathlib import Path
from statistics import median

import polars as pl
import pytest

import perhop
from conftest import MEASURES, REAL_HOSTS
from live import Site, site
from perhop import analysis, gallery
from perhop.scenario import Scenario, dump, parse
from test_real_experiments import SHORT
from tools import need

SMALL = """
perhop: 1
name: small
nodes: {a: host, r: router, b: host}
links:
  - {ends: [a, r], rate: 100 Mbps, delay: 1 ms}
  - {ends: [r, b], rate: 20 Mbps, delay: 4 ms, egress: {r: edge}, remark: {b: {cs1: be, any: af11}}}
policies:
  edge:
    classes:
      voice: {match: {dscp: ef}, priority: strict, police: {rate: 2 Mbps, burst: 10 kB}}
      rest: {match: any}
flows:
  bulk: {from: a, to: b, dscp: cs1, stop: 3 s}
  back: {from: b, to: a, start: 1 s, stop: 3 s}
  call: {from: a, to: b, dscp: ef, udp: {rate: 500 kbps, size: 200 B}, stop: 3 s}
pings:
  probe: {from: a, to: b, dscp: ef, every: 100 ms}
"""

RUNS = 3
"""Runs of the three-class experiment."""


def written(scenario: Scenario, folder: Path) -> str:
    """The name of a scenario's file in a folder."""
    (folder / "scenario.yaml").write_text(dump(scenario))
    return "scenario.yaml"


@MEASURES
def test_everything_that_a_scenario_has_is_measured(lab_folder: Path) -> None:
    scenario = parse(SMALL, "small.yaml")
    with site(scenario, lab_folder, ["a", "b"]) as found:
        done = found.run("a", written(scenario, lab_folder), "--json")
        assert (done.code, done.err) == (0, ""), done
        said = json.loads(done.out)
        live = found.dataset()
    sim = perhop.run(scenario)
    assert live.manifest.engine == "live" and live.manifest.complete
    assert live.manifest.live is not None
    assert set(live.manifest.live.agents) == set(said["agents"]) == {"a", "b"}
    for flow in ("bulk", "back", "call"):
        modelled, real = (analysis.throughput(run, flow, (1.5, 3.0)) for run in (sim, live))
        assert real == pytest.approx(modelled, rel=0.05), flow
    # Nobody sends before the common start: the link carries no more than it can.
    for flow in ("bulk", "call"):
        assert analysis.throughput(live, flow, (0.0, 1.0)) <= 20e6, flow
    # One clock, which the agents do not know to be one.
    delay, modelled = analysis.owd(live, "call"), analysis.owd(sim, "call")
    bound = said["flows"]["call"]["owd_bound_s"]
    assert delay is not None and modelled is not None
    assert abs(delay.median - modelled.median) < bound + 500e-6
    # What b's link did to the marks.
    arrived = live.codepoints.filter(pl.col("node") == "b")
    marks = set(arrived.select("flow", "dscp_sent", "dscp_arrived").iter_rows())
    assert {("call", 46, 10), ("bulk", 8, 0)} <= marks
    replies = live.pings.filter(pl.col("rtt_s").is_not_null())
    assert len(replies) >= 28
    assert replies["rtt_s"].min() > 0.010
    assert set(replies["dscp_arrived"]) == {10}


ECN = """
perhop: 1
name: bleached
nodes: {a: host, r: router, b: host}
links:
  - {ends: [a, r], rate: 100 Mbps, delay: 1 ms}
  - {ends: [r, b], rate: 20 Mbps, delay: 1 ms, remark: {b: {ef: af11}}}
flows:
  there: {from: a, to: b, dscp: ef, udp: {rate: 500 kbps, size: 200 B, ecn: ect0}, stop: 1 s}
  back: {from: b, to: a, dscp: ef, udp: {rate: 500 kbps, size: 200 B, ecn: ect1}, stop: 1 s}
  up: {from: a, to: b, volume: 500 kB}
  down: {from: b, to: a, volume: 500 kB}
pings:
  able: {from: a, to: b, dscp: ef, ecn: ect1, every: 50 ms}
duration: 2 s
"""


@REAL_HOSTS
def test_a_path_that_clears_ecn_or_rewrites_a_dscp_one_way_is_seen(lab_folder: Path) -> None:
    need("nft")
    scenario = parse(ECN, "ecn.yaml")
    with site(scenario, lab_folder, ["a", "b"]) as found:
        ruleset = (
            "table ip t { chain out { type filter hook output priority 0; ip ecn set not-ect; }; }"
        )
        enable = "echo 1 > /proc/sys/net/ipv4/tcp_ecn"
        for host, command in (("a", enable), ("b", enable), ("b", f"nft '{ruleset}'")):
            process = found.start(host, ["sh", "-c", command])
            _, errors = process.communicate(timeout=20)
            assert process.returncode == 0, errors
        done = found.run("a", written(scenario, lab_folder), "--json")
        assert (done.code, done.err) == (0, ""), done
        said, live = json.loads(done.out), found.dataset()
    arrived = live.codepoints.filter(pl.col("packets") > 0).group_by("flow", "node")
    marks = {
        key: set(rows.select("dscp_arrived", "ecn_arrived").iter_rows()) for key, rows in arrived
    }
    assert marks["there", "b"] == {(10, 2)}, "the DSCP is rewritten, ECT(0) arrives"
    assert marks["back", "a"] == {(46, 0)}, "the DSCP arrives, ECT(1) is cleared"
    # TCP's handshake and acknowledgements are not ECN-capable, its data is.
    assert marks["up", "b"] == {(0, 0), (0, 2)}
    assert marks["up", "a"] == marks["down", "a"] == {(0, 0)}
    [up] = [row for row in said["flows"]["up"]["ecn"] if row["ecn_arrived"] == 2]
    assert up["node"] == "b" and up["packets"] > 300
    replies = live.pings.drop_nulls("rtt_s")
    assert len(replies) >= 35
    columns = ("dscp_arrived", "ecn_arrived", "dscp_echoed", "ecn_echoed")
    assert set(replies.select(columns).iter_rows()) == {(10, 1, 10, 0)}
    [there, reply] = said["pings"]["able"]["ecn"]
    assert (there["node"], there["ecn_sent"], there["ecn_arrived"]) == ("b", 1, 1)
    assert (reply["node"], reply["ecn_sent"], reply["ecn_arrived"]) == ("a", 1, 0)


@MEASURES
def test_each_class_of_the_deployed_network_gets_what_it_should(lab_folder: Path) -> None:
    shares = SHORT["shares"]
    # A live host keeps its selective acknowledgements.
    settings = [setting.replace("sack: false, ", "") for setting in shares.settings]
    scenario = gallery.load(shares.scenario, overrides=settings)
    runs = []
    with site(scenario, lab_folder, ["evagore", "pharlap"]) as found:
        for number in range(RUNS):
            done = found.run("evagore", written(scenario, lab_folder), out=f"run-{number}")
            assert done.code == 0, done
            runs.append(found.dataset(f"run-{number}"))
    sim = perhop.run(scenario)
    for phase in analysis.phases(sim).iter_rows(named=True):
        window = (phase["start_s"], phase["end_s"])
        expected, total = phase["throughput_bps"], analysis.throughput(sim, "total", window)
        found_there = [analysis.throughput(live, phase["flow"], window) for live in runs]
        # A few packets are 5% of a small class. It may be away by 0.5% of the goodput of all.
        most = 0.05 * expected if expected > 0.1 * total else 0.005 * total
        away = [abs(real - expected) for real in found_there]
        assert median(away) < most and max(away) < 2 * most, (phase, found_there)


@REAL_HOSTS
def test_a_controller_that_dies_ends_the_run(lab_folder: Path) -> None:
    scenario = parse(SMALL, "small.yaml", overrides=["flows.bulk.stop=30 s", "duration=30 s"])
    with site(scenario, lab_folder, ["a", "b"]) as found:
        controller = found.controller("a", written(scenario, lab_folder))
        wait_for_packets(found, 100)
        os.kill(controller.pid, signal.SIGKILL)
        controller.communicate()
        time.sleep(1.5)
        before = packets(found)
        time.sleep(0.5)
        assert packets(found) - before < 20  # nothing but the rest of some connections
        # The agents serve the next one.
        short = parse(SMALL, "small.yaml")
        done = found.run("a", written(short, lab_folder), out="second")
        assert done.code == 0, done


def packets(found: Site) -> int:
    """How many packets the lab has carried to b."""
    carried: int = found.lab.status()["links"]["r>b"]["classes"]["rest"]["sent_packets"]
    return carried


def wait_for_packets(found: Site, number: int) -> None:
    """Wait until the lab has carried so many packets to b."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if packets(found) > number:
            return
        time.sleep(0.1)
    raise AssertionError("nothing was sent")


@REAL_HOSTS
def test_an_agent_that_is_killed_ends_the_run_and_what_was_measured_is_kept(
    lab_folder: Path,
) -> None:
    scenario = parse(SMALL, "small.yaml", overrides=["flows.bulk.stop=30 s", "duration=30 s"])
    with site(scenario, lab_folder, ["a", "b"]) as found:
        controller = found.controller("a", written(scenario, lab_folder))
        wait_for_packets(found, 3000)
        found.agents["b"].kill()
        _, errors = controller.communicate(timeout=20)
        assert controller.returncode == 3
        assert "b" in errors and "what was measured until then" in errors
        kept = found.dataset()
        assert not kept.manifest.complete
        assert 0.5 < kept.manifest.duration_s < 20
        assert analysis.throughput(kept, "bulk", (0.0, 1.0)) > 1e6
        before = packets(found)
        time.sleep(0.5)
        assert packets(found) - before < 20


@REAL_HOSTS
def test_a_network_that_goes_away_ends_the_run(lab_folder: Path) -> None:
    scenario = parse(SMALL, "small.yaml", overrides=["flows.bulk.stop=60 s", "duration=60 s"])
    with site(scenario, lab_folder, ["a", "b"]) as found:
        controller = found.controller("a", written(scenario, lab_folder))
        wait_for_packets(found, 3000)
        found.lab.change({"on": "r>b", "state": "down"})
        began = time.monotonic()
        _, errors = controller.communicate(timeout=20)
        assert time.monotonic() - began < 10
        assert controller.returncode == 3, errors
        time.sleep(max(0, began + 10 - time.monotonic()))
        found.lab.change({"on": "r>b", "state": "up"})
        time.sleep(2)
        before = packets(found)
        time.sleep(0.5)
        assert packets(found) - before < 20
        assert not found.dataset().manifest.complete
        short = parse(SMALL, "small.yaml")
        done = found.run("a", written(short, lab_folder), out="second")
        assert done.code == 0, done


@REAL_HOSTS
def test_two_controllers_have_sessions_of_their_own(lab_folder: Path) -> None:
    first = parse(SMALL, "small.yaml", overrides=["name=first"])
    second = parse(
        SMALL.replace("bulk: {", "bulk: {port: 6001, ")
        .replace("back: {", "back: {port: 6002, ")
        .replace("call: {", "call: {port: 6003, "),
        "small.yaml",
        overrides=["name=second"],
    )
    with site(first, lab_folder, ["a", "b"]) as found:
        for each in (first, second):
            (lab_folder / f"{each.name}.yaml").write_text(dump(each))
        runs = [
            found.controller(host, f"{name}.yaml", out=name)
            for host, name in (("a", "first"), ("b", "second"))
        ]
        for process in runs:
            said, errors = process.communicate(timeout=60)
            assert process.returncode == 0, said + errors
        assert all(found.dataset(name).manifest.complete for name in ("first", "second"))
        # Two runs on the same ports cannot both be had. Each may have the ports of one host, and
        # then both end, which frees them.
        again = [found.controller(host, "first.yaml", out=f"again-{host}") for host in ("a", "b")]
        ended = [(p.communicate(timeout=60)[1], p.returncode) for p in again]
        assert sorted(code for _, code in ended) in ([0, 3], [3, 3]), ended
        assert all("500" in errors for errors, code in ended if code)  # the port
        done = found.run("a", "first.yaml", out="third")
        assert done.code == 0, done
