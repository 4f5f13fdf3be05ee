"""Pings of the engine `live` to a STAMP reflector of somebody else's, in a lab."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl
import pytest

import perhop
from conftest import MEASURES, PERHOP, REAL_HOSTS
from live import Site, site_with_agent
from perhop import analysis
from perhop.scenario import parse
from tools import need

SMALL = """
perhop: 1
name: reflected
nodes: {a: host, r: router, b: host}
links:
  - {ends: [a, r], rate: 100 Mbps, delay: 1 ms}
  - {ends: [r, b], rate: 20 Mbps, delay: 6 ms, egress: {r: edge}, remark: {b: {af21: af41}}}
policies:
  edge:
    classes:
      probes: {match: {dscp: ef}, priority: strict, police: {rate: 20 kbps, burst: 300 B}}
      rest: {match: any}
pings:
  free: {from: a, to: b, dscp: af21, ecn: ect1, every: 100 ms, size: 400 B}
  policed: {from: a, to: b, dscp: ef, every: 100 ms, train: 4}
duration: 3 s
report: {interval: 500 ms}
"""
FILE = "reflected.yaml"


@contextmanager
def prepared(folder: Path, *options: str) -> Iterator[Site]:
    """A lab with an agent in a, and a reflector in b."""
    with site_with_agent(SMALL, folder, FILE, *options) as found:
        at = f"{found.address('b')}:8620"
        reflector = found.start("b", [str(PERHOP), "agent", "stamp", "reflect", "--listen", at])
        try:
            assert reflector.stdout is not None and at in reflector.stdout.readline()
            found.note("b", f"stamp: '{at}'")
            yield found
        finally:
            reflector.kill()
            reflector.communicate()


@MEASURES
def test_pings_to_a_reflector_are_those_of_sim(lab_folder: Path) -> None:
    need("tshark")
    file = lab_folder / "a.pcapng"
    with prepared(lab_folder, "--third-party") as found:
        found.lab.capture(["a>r"], file, 0)
        said, live = found.reported("a", FILE)
    assert said["warnings"] == []
    sim = perhop.run(parse(SMALL))
    rows = {
        ping: tuple(run.pings.filter(ping=ping) for run in (sim, live))
        for ping in ("free", "policed")
    }
    for ping, (modelled, real) in rows.items():
        assert len(real) == len(modelled), ping
        # The links' delays and what packets take to be sent, and half a millisecond of the hosts.
        least = modelled["rtt_s"].min()
        assert real["rtt_s"].min() == pytest.approx(least, abs=5e-4), ping
        assert real["rtt_s"].median() == pytest.approx(modelled["rtt_s"].median(), abs=2e-3), ping
    assert analysis.loss(live, "free") == 0
    modelled_loss, real_loss = (analysis.loss(run, "policed") for run in (sim, live))
    assert real_loss == pytest.approx(modelled_loss, abs=0.05) and modelled_loss > 0.2
    # Where b receives it, the mark is another; b's reply has that of the request at first.
    free = rows["free"][1].select("dscp_sent", "dscp_arrived", "dscp_echoed", "ecn_arrived")
    assert set(free.iter_rows()) == {(18, 34, 18, 1)}
    marks = analysis.codepoints(live, "free").select("node", "dscp_sent", "dscp_arrived")
    assert set(marks.iter_rows()) == {("b", 18, 34), ("a", 18, 18)}
    assert set(analysis.ecn_fields(live, "free")["node"]) == {"b"}
    # What was sent is what the rows say.
    fields = ["ip.dsfield.dscp", "udp.length", "ip.ttl"]
    command = ["tshark", "-r", str(file), "-Y", "udp.dstport == 8620", "-T", "fields"]
    for field in fields:
        command += ["-e", field]
    read = subprocess.run(command, check=True, capture_output=True, text=True)
    packets = pl.DataFrame([line.split("\t") for line in read.stdout.splitlines()], orient="row")
    assert set(packets.iter_rows()) == {("18", "408", "255"), ("46", "64", "255")}
    assert len(packets) == len(live.pings)


@REAL_HOSTS
def test_a_reflector_of_others_needs_the_consent_of_the_agents_owner(lab_folder: Path) -> None:
    with prepared(lab_folder) as found:
        done = found.run("a", FILE)
        assert done.code == 3
        assert "ping free: the STAMP reflector" in done.err and "--third-party" in done.err
