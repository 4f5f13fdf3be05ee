"""Applications between real hosts: what their clients get is what modelled ones get."""

import subprocess
import sys
from pathlib import Path

import pytest

import perhop
from conftest import MEASURES
from perhop import analysis
from perhop.dataset import Dataset
from perhop.engines.traffic import gaps, job
from perhop.errors import UnsupportedError
from perhop.scenario import Scenario, parse
from tools import unable

ALL_KINDS = """
perhop: 1
name: office
nodes: {server: host, r1: router, client: host}
links:
  - {ends: [server, r1], rate: 100 Mbps}
  - {ends: [r1, client], rate: 20 Mbps, delay: 10 ms, queue: {limit: 100 kB}}
flows:
  files: {from: server, to: client, dscp: af11, transfers: {size: 30 kB, every: 300 ms}}
  calls: {from: server, to: client, rpc: {response: 4 kB, every: 100 ms, server_time: 5 ms}}
  pages:
    from: server
    to: client
    web:
      objects: {html: {size: 15 kB}, images: {count: 12, size: 8 kB, after: html}}
      think: 300 ms
  film:
    from: server
    to: client
    video: {bitrates: [500 kbps, 2 Mbps], segment: 500 ms, buffer: 1500 ms}
duration: 3 s
"""


def run(scenario: Scenario, engine: str) -> Dataset:
    try:
        return perhop.run(scenario, engine=engine)
    except UnsupportedError as error:
        unable(error)


QUIC = "quic: {hystart: false, max_datagram: 1200 B}"
"""Packets of 1200 B: quinn's grow less than the model's."""

# A client host each: what one of them gets in a queue of several depends on single packets. The
# video's first segment ends within the second flight of quinn, whose windows hold a packet less.
OVER_QUIC = f"""
perhop: 1
name: office
nodes: {{server: host, r1: router, c1: host, c2: host, c3: host, c4: host}}
links:
  - {{ends: [server, r1], rate: 100 Mbps}}
  - {{ends: [r1, c1], rate: 20 Mbps, delay: 10 ms, queue: {{limit: 100 kB}}}}
  - {{ends: [r1, c2], rate: 20 Mbps, delay: 10 ms, queue: {{limit: 100 kB}}}}
  - {{ends: [r1, c3], rate: 20 Mbps, delay: 10 ms, queue: {{limit: 100 kB}}}}
  - {{ends: [r1, c4], rate: 20 Mbps, delay: 10 ms, queue: {{limit: 100 kB}}}}
flows:
  files:
    from: server
    to: c1
    dscp: af11
    {QUIC}
    transfers: {{size: 30 kB, every: 300 ms}}
  calls:
    from: server
    to: c2
    ip: 6
    {QUIC}
    rpc: {{response: 4 kB, every: 100 ms, server_time: 5 ms}}
  pages:
    from: server
    to: c3
    {QUIC}
    web:
      objects: {{html: {{size: 15 kB}}, images: {{count: 12, size: 8 kB, after: html}}}}
      think: 300 ms
  film:
    from: server
    to: c4
    {QUIC}
    video: {{bitrates: [400 kbps, 2 Mbps], segment: 500 ms, buffer: 1500 ms}}
duration: 3 s
"""


@MEASURES
@pytest.mark.parametrize(
    ("engine", "text"), [("emu", ALL_KINDS), ("kernel", ALL_KINDS), ("emu", OVER_QUIC)]
)
def test_clients_of_real_servers_get_what_those_of_modelled_ones_do(engine: str, text: str) -> None:
    scenario = parse(text)
    real, modelled = run(scenario, engine), perhop.run(scenario)
    compared = analysis.compare([modelled, real])
    found = [each for each in analysis.agreement(compared) if each.kind == "application"]
    assert {each.name for each in found} == {
        "files, median completion",
        "calls, median completion",
        "pages, median page load",
        "film, start-up",
        "film, bit rate",
    }
    assert [each for each in found if not each.ok] == []
    for flow in scenario.flows:
        asked, got = (
            dataset.completions.filter(dataset.completions["flow"] == flow)
            for dataset in (modelled, real)
        )
        # Times of requests are the same; those that follow a response may be some more or fewer.
        assert got.height == pytest.approx(asked.height, abs=2), flow
        counted = real.intervals.filter(real.intervals["flow"] == flow)
        delivered = counted["bytes"].sum()
        assert delivered == pytest.approx(
            modelled.intervals.filter(modelled.intervals["flow"] == flow)["bytes"].sum(), rel=0.1
        )
        assert counted["packets"].sum() >= delivered / 1460
    marks = real.codepoints.filter(real.codepoints["flow"] == "files")
    # In both directions.
    assert set(marks["dscp_arrived"]) == {10}
    assert set(marks["node"]) == {"server", scenario.flows["files"].destination}
    assert real.manifest.counters["unknown_senders"] == 0


@MEASURES
def test_connections_leave_files_for_the_servers(tmp_path: Path) -> None:
    """Of 200 connections at once, two files each, a process that may have 300 opens some."""
    flow = "rpc: {every: 10 ms, connections: new, server_time: 1 s}"
    network = ALL_KINDS.partition("flows:")[0]
    path, out = tmp_path / "many.yaml", tmp_path / "run"
    path.write_text(
        f"{network}flows: {{calls: {{from: server, to: client, {flow}}}}}\nduration: 3 s\n"
    )
    command = f"ulimit -n 300; exec {sys.executable} -m perhop run {path} --engine emu --out {out}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    if done.returncode == UnsupportedError.exit_code:
        unable(UnsupportedError(done.stderr))
    assert done.returncode == 0, done.stderr
    assert "calls: cannot open a connection: the process has no files left" in done.stderr
    completed = Dataset.read(out).completions["end_s"].count()
    assert 10 <= completed <= 2 * 15


def test_ports_that_two_flows_cannot_share_are_refused() -> None:
    text = ALL_KINDS
    for flow in ("calls", "files"):
        text = text.replace(f"{flow}: {{", f"{flow}: {{port: 80, ")
    (same,) = gaps(parse(text))
    assert same.path == "flows.calls.port"
    back = "flows:\n  back: {from: client, to: server, port: 5002}"
    (taken,) = gaps(parse(ALL_KINDS.replace("flows:", back)))
    assert taken.path == "flows.files.port"


def test_hosts_of_clients_use_ports_again() -> None:
    nodes = {node["name"]: dict(node["settings"]) for node in job(parse(ALL_KINDS), 1)["nodes"]}
    assert nodes["client"]["net.ipv4.tcp_tw_reuse"] == "1"
    bulk = "flows: {bulk: {from: server, to: client}}\nduration: 1 s"
    plain = parse(ALL_KINDS.partition("flows:")[0] + bulk)
    assert not any("net.ipv4.tcp_tw_reuse" in dict(n["settings"]) for n in job(plain, 1)["nodes"])
