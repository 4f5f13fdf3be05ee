"""The engine `live` between an agent and iperf3's own server, in labs whose network is known."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path

import polars as pl
import pytest

import perhop
from conftest import MEASURES, REAL_HOSTS
from live import Site, site_with_agent
from perhop import analysis
from perhop.scenario import parse
from tools import need

SMALL = """
perhop: 1
name: foreign
nodes: {a: host, r: router, b: host}
links:
  - {ends: [a, r], rate: 100 Mbps, delay: 1 ms}
  - {ends: [r, b], rate: 20 Mbps, delay: 4 ms, egress: {r: edge}, remark: {b: {ef: af41}}}
policies:
  edge:
    classes:
      voice: {match: {dscp: ef}, priority: strict, police: {rate: 2 Mbps, burst: 10 kB}}
      rest: {match: any}
flows:
  up: {from: a, to: b, stop: 3 s}
  call: {from: a, to: b, dscp: ef, start: 1 s, stop: 3 s, udp: {rate: 4 Mbps, size: 500 B}}
  down: {from: b, to: a, start: 4 s, stop: 7 s, streams: 2}
  heard: {from: b, to: a, dscp: af21, start: 5 s, stop: 7 s, udp: {rate: 1 Mbps, size: 300 B}}
pings:
  probe: {from: a, to: b}
report: {interval: 500 ms}
"""
FILE = "foreign.yaml"


@contextmanager
def servers(found: Site, host: str, *ports: int) -> Iterator[list[subprocess.Popen[str]]]:
    """Servers of iperf3 in a host, on these ports."""
    address = found.address(host)
    started = []
    try:
        for port in ports:
            # One that listens on IPv6, too, does not mark what it sends by IPv4.
            command = ["iperf3", "-s", "-4", "-B", address, "-p", str(port), "--forceflush"]
            server = found.start(host, command)
            started.append(server)
            assert server.stdout is not None
            while "listening" not in (line := server.stdout.readline()):
                assert line, "iperf3 ended"
        yield started
    finally:
        for server in started:
            server.kill()
            server.communicate()


@contextmanager
def prepared(folder: Path, text: str, ports: str) -> Iterator[Site]:
    """A lab with an agent in a, which may use servers of others, and b as such a server."""
    need("iperf3")
    with site_with_agent(text, folder, FILE, "--third-party") as found:
        found.note("b", f"iperf3: {ports.replace('HOST', found.address('b'))}")
        yield found


@MEASURES
def test_flows_to_and_from_an_iperf3_server_are_those_of_sim(lab_folder: Path) -> None:
    with (
        prepared(lab_folder, SMALL, "['HOST', 'HOST:5202']") as found,
        servers(found, "b", 5201, 5202),
    ):
        said, live = found.reported("a", FILE)
    sim = perhop.run(parse(SMALL))
    windows = {"up": (1.5, 3.0), "call": (1.0, 3.0), "down": (4.5, 7.0), "heard": (5.0, 7.0)}
    for flow, window in windows.items():
        modelled, real = (analysis.throughput(run, flow, window) for run in (sim, live))
        assert real == pytest.approx(modelled, rel=0.05), flow
    modelled, real = (analysis.loss(run, "call") for run in (sim, live))
    assert real == pytest.approx(modelled, abs=0.03) and modelled > 0.4
    assert analysis.loss(live, "heard") == 0
    # What nobody can tell is absent.
    flows = said["flows"]
    assert flows["call"]["reordered"] is None and flows["call"]["owd_s"] is None
    assert flows["up"]["retransmits"] > 0 and flows["down"]["retransmits"] is not None
    rows = live.intervals
    assert rows.filter(flow="up")["packets"].null_count() == len(rows.filter(flow="up"))
    assert rows.filter(flow="down")["lost"].null_count() == len(rows.filter(flow="down"))
    assert len(rows.filter(flow="call")) == 1
    # The mark on arrival is known where the agent receives datagrams.
    arrived = live.codepoints.filter(pl.col("packets") > 0).select("flow", "node", "dscp_arrived")
    assert set(arrived.iter_rows()) >= {("heard", "a", 18)}
    texts = " ".join(warning["message"] for warning in said["warnings"])
    assert "flow call: no reordering, one-way delays, marks or DSCPs where data arrives" in texts
    # Pings need no agent at b.
    assert len(live.pings.filter(pl.col("rtt_s").is_not_null())) >= 5


PACED = (
    SMALL.partition("flows:")[0].replace("voice: {", "voice: {unused: true, ")
    + """
flows:
  up: {from: a, to: b, stop: 4 s, tcp: {rate: 4 Mbps}}
  down: {from: b, to: a, start: 5 s, stop: 9 s, tcp: {rate: 2 Mbps, write: 60 kB}}
report: {interval: 100 ms}
"""
)


@MEASURES
def test_a_server_of_iperf3_is_asked_for_the_rate_of_tcp(lab_folder: Path) -> None:
    """Its sender is iperf3's own, with `-b` and `-l`: as many writes arrive as in sim."""
    with prepared(lab_folder, PACED, "HOST") as found, servers(found, "b", 5201):
        _, live = found.reported("a", FILE)
    sim = perhop.run(parse(PACED))
    for flow, window in (("up", (0.0, 4.0)), ("down", (5.0, 9.0))):
        modelled, real = (analysis.throughput(run, flow, window) for run in (sim, live))
        assert real == pytest.approx(modelled, rel=0.06), flow
    # 60 kB at 2 Mb/s are due every 240 ms, so that whole writes arrive between idle intervals.
    for run in (sim, live):
        sizes = run.intervals.filter((pl.col("flow") == "down") & (pl.col("start_s") > 5))["bytes"]
        # iperf3 begins with a part of a write more.
        _, *bursts, _ = [sum(group) for some, group in groupby(sizes, key=bool) if some]
        assert len(bursts) > 4 and {size % 60_000 for size in bursts} == {0}


@REAL_HOSTS
def test_a_server_that_is_stopped_ends_the_run(lab_folder: Path) -> None:
    text = SMALL.partition("  call:")[0] + "pings: {probe: {from: a, to: b}}\nduration: 30 s\n"
    text = text.replace("stop: 3 s", "stop: 30 s")
    text = text.replace("match: {dscp: ef}", "unused: true, match: {dscp: ef}")
    with prepared(lab_folder, text, "HOST") as found, servers(found, "b", 5201) as [server]:
        controller = found.controller("a", FILE)
        assert server.stdout is not None
        while "sec" not in (line := server.stdout.readline()):
            assert line
        server.kill()
        _, errors = controller.communicate(timeout=20)
        assert controller.returncode == 3
        assert "flow up: the iperf3 server" in errors and "what was measured until then" in errors
        assert not found.dataset().manifest.complete
        assert analysis.throughput(found.dataset(), "up", (0.0, 0.5)) > 1e6
