"""`perhop path` in labs, whose truth is known."""

import importlib
import json
import runpy
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from conftest import MEASURES, PERHOP, REAL_HOSTS, Outcome
from perhop.errors import UnsupportedError
from perhop.lab import Lab, up
from perhop.report.path import lead, path_tables
from perhop.scenario import parse
from tools import need, unable

BENCH = Path(__file__).parent.parent / "bench" / "path.py"

MIXED = """
perhop: 1
name: mixed
nodes:
  a: host
  r1: router
  r2a: router
  r2b: router
  r2c: router
  r3: {kind: router, icmp_interval: 500 ms}
  r4: {kind: router, icmp_errors: false}
  r5: router
  b: host
links:
  - {ends: [a, r1], rate: 1 Gbps, delay: 1 ms}
  - {ends: [r1, r2a], rate: 100 Mbps, delay: 1 ms}
  - {ends: [r1, r2b], rate: 100 Mbps, delay: 1 ms}
  - {ends: [r1, r2c], rate: 100 Mbps, delay: 1 ms}
  - {ends: [r2a, r3], rate: 100 Mbps, delay: 1 ms}
  - {ends: [r2b, r3], rate: 100 Mbps, delay: 1 ms}
  - {ends: [r2c, r3], rate: 100 Mbps, delay: 1 ms}
  - {ends: [r3, r4], rate: 50 Mbps, delay: 1 ms, mtu: 1400 B, remark: {r4: {ef: af41}}}
  - {ends: [r4, r5], rate: 200 Mbps, delay: 1 ms}
  - {ends: [r5, b], rate: 1 Gbps, delay: 1 ms}
"""


@contextmanager
def standing(text: str) -> Iterator[Lab]:
    """A lab, for as long as it is needed."""
    try:
        lab = up(parse(text, "path.yaml"))
    except UnsupportedError as error:
        unable(error)
    try:
        yield lab
    finally:
        lab.down()


def probe(lab: Lab, *arguments: str, host: str = "a", code: int = 0) -> dict[str, Any]:
    """What `perhop path --json` prints in a host."""
    command = [str(PERHOP), "path", *arguments, "--json"]
    with lab.start(host, command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        out, err = process.communicate(timeout=120)
    assert process.returncode == code, err
    report: dict[str, Any] = json.loads(out)
    return report


def node(host: int, version: int) -> str:
    """The address of the node of this number."""
    return f"10.0.0.{host}" if version == 4 else f"fd70:6572:686f:7000::a00:{host:x}"


@REAL_HOSTS
@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("protocol", ["udp", "icmp"])
def test_a_path_is_what_the_lab_has(lab_folder: Path, version: int, protocol: str) -> None:
    assert lab_folder.is_dir()
    with standing(MIXED) as lab:
        options = ("--protocol", protocol, "--rate", "1000", "--dscp", "be", "--dscp", "ef")
        report = probe(lab, f"-{version}", "b", *options)
    hops = report["hops"]
    assert report["reached"]
    assert report["complete"]
    found = [{each["address"] for each in hop["addresses"]} for hop in hops]
    true: list[set[int]] = [{2}, {3, 4, 5}, {6}, set(), {8}, {9}]
    if protocol == "icmp":
        # Emulated routers hash ports, of which echo requests have none.
        true[1] &= {
            int(address.rsplit(":" if version == 6 else ".", 1)[1], 16) & 0xF
            for address in found[1]
        }
        assert len(true[1]) == 1
    assert found == [{node(each, version) for each in hop} for hop in true]
    said = [hop["silence"] for hop in hops]
    assert said == ["none", "none", "limited", "silent", "none", "none"]
    assert [hop["mtu"] and hop["mtu"]["mtu"] for hop in hops] == [
        1500,
        1500,
        1500,
        None,
        1400,
        1400,
    ]
    assert report["path_mtu"] == 1400
    ef, af41 = {"dscp": 46, "ecn": 2}, {"dscp": 34, "ecn": 2}
    (rewrite,) = report["rewrites"]
    assert (rewrite["sent"], rewrite["before"], rewrite["after"]) == (ef, ef, af41)
    assert (rewrite["after_hop"], rewrite["by_hop"]) == (3, 5)
    for hop, rtt in zip(hops, (2, 4, 6, None, 10, 12), strict=True):
        if rtt is not None:
            assert rtt <= 1e3 * hop["rtt_s"]["min"] < rtt + 3
    links = {(link["ttl"], link["from"], link["to"]) for link in report["links"]}
    for router in true[1]:
        assert {
            (2, node(2, version), node(router, version)),
            (3, node(router, version), node(6, version)),
        } <= links


@REAL_HOSTS
@pytest.mark.parametrize("seed", [2, 12, 13])
def test_random_paths_are_found(
    lab_folder: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    assert lab_folder.is_dir()
    monkeypatch.syspath_prepend(BENCH.parent)
    bench = runpy.run_path(str(BENCH), run_name="bench")
    truth = bench["draw"](seed)
    with standing(truth.text) as lab:
        dscps = [f"--dscp={name}" for name in bench["DSCPS"]]
        report = probe(lab, "b", "-4", *dscps, "--count=5", "--rate=1000")
    found = bench["judge"](truth, report)
    assert {name: found[name] for name in ("ways", "rewrites", "silence", "mtu")} == {
        "ways": True,
        "rewrites": True,
        "silence": True,
        "mtu": True,
    }


@REAL_HOSTS
def test_loss_on_a_link_is_loss_behind_it(lab_folder: Path) -> None:
    assert lab_folder.is_dir()
    text = """
perhop: 1
name: lossy
nodes: {a: host, r1: router, r2: router, r3: router, b: host}
links:
  - {ends: [a, r1], rate: 100 Mbps}
  - {ends: [r1, r2], rate: 100 Mbps, loss: 20%}
  - {ends: [r2, r3], rate: 100 Mbps}
  - {ends: [r3, b], rate: 100 Mbps}
"""
    with standing(text) as lab:
        report = probe(lab, "b", "--rate", "1000", "--count", "50")
    assert [hop["silence"] for hop in report["hops"]] == ["none", "loss", "loss", "loss"]
    # Twice over a link that loses a fifth.
    for hop in report["hops"][1:]:
        assert 0.25 < hop["loss"] < 0.47


@REAL_HOSTS
def test_packets_that_take_turns_are_told_from_flows(lab_folder: Path) -> None:
    assert lab_folder.is_dir()
    text = """
perhop: 1
name: turns
nodes:
  r1: {kind: router, balance: per-packet}
  a: host
  r2: router
  r3: router
  r4: router
  b: host
links:
  - {ends: [a, r1], rate: 100 Mbps}
  - {ends: [r1, r2], rate: 100 Mbps}
  - {ends: [r1, r3], rate: 100 Mbps}
  - {ends: [r2, r4], rate: 100 Mbps}
  - {ends: [r3, r4], rate: 100 Mbps}
  - {ends: [r4, b], rate: 100 Mbps}
"""
    with standing(text) as lab:
        report = probe(lab, "b", "--rate", "1000")
    assert [hop["per_packet"] for hop in report["hops"]] == [False, True, False, False]
    assert {each["address"] for each in report["hops"][1]["addresses"]} == {"10.0.0.3", "10.0.0.4"}


def test_a_path_without_any_answer_says_what_to_try() -> None:
    report = {"hops": [], "destination": "192.0.2.1", "protocol": "udp", "reached": False}
    assert "try --protocol icmp" in lead(report)
    assert path_tables(report) == []


@REAL_HOSTS
def test_a_limit_ends_all_and_keeps_what_was_measured(lab_folder: Path) -> None:
    """A hundred rounds of twenty probes take 40 s at fifty a second."""
    del lab_folder
    with standing(MIXED) as lab:
        began = time.monotonic()
        options = ("--rate", "50", "--count", "100", "--limit", "6 s", "--capacity")
        report = probe(lab, node(9, 4), "--no-multipath", *options)
        took_s = time.monotonic() - began
    assert took_s < 15
    assert report["unfinished"][0] == "marks and loss"
    assert {"mtu", "capacity"} <= {*report["unfinished"]}
    assert len(report["hops"]) == 6
    first = report["hops"][0]
    assert 10 < first["sent"] < 300
    assert (first["silence"], first["loss"], first["translated"]) == ("none", 0, None)
    assert {mark["received"]["dscp"] for mark in first["marks"]} == {0, 8, 10, 46}
    assert "The time limit ended" in lead(report)


def test_one_limit_is_that_of_all_measurements(
    monkeypatch: pytest.MonkeyPatch, perhop: Callable[..., Outcome]
) -> None:
    """Probing takes 50 of 60 s, and the time for buckets ends after the first of two marks."""
    now, limits = [1000.0], []
    report = {"hops": [], "destination": "192.0.2.1", "protocol": "udp", "reached": False}

    def traced(*_: Any, limit_s: int, **__: Any) -> dict[str, Any]:
        limits.append(limit_s)
        now[0] += 50
        return {**report, "path_mtu": None, "unfinished": []}

    def measured(*_: Any, limit_s: int, **__: Any) -> list[dict[str, Any]]:
        limits.append(limit_s)
        now[0] += limit_s
        return [{"sent": {"dscp": 0, "ecn": 0}}]

    command = importlib.import_module("perhop.cli.path")
    monkeypatch.setattr(command, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr("perhop.path.trace", traced)
    monkeypatch.setattr("perhop.path.buckets", measured)
    monkeypatch.setattr("perhop.path.available", measured)
    options = ("--limit", "1 min", "--dscp", "be", "--dscp", "ef")
    code, out, _ = perhop("path", "192.0.2.1", *options, "--buckets", "--available", "--json")
    assert (code, limits) == (0, [60, 10])
    found = json.loads(out)
    assert found["unfinished"] == ["buckets", "available"]
    assert (len(found["buckets"]), found["available"]) == (1, [])


@REAL_HOSTS
def test_a_page_and_tables_of_a_path(lab_folder: Path, tmp_path: Path) -> None:
    assert lab_folder.is_dir()
    with standing(MIXED) as lab:
        command = [str(PERHOP), "path", "b", "--rate", "1000", "--out", str(tmp_path / "page")]
        with lab.start("a", command, stdout=subprocess.PIPE) as process:
            out = process.communicate(timeout=120)[0].decode()
    page = (tmp_path / "page" / "path.html").read_text("utf-8")
    for part in ("limits its ICMP errors", "does not answer", "3 and 5", "1400 B", "10.0.0.6"):
        assert part in out
        assert part in page
    assert "3 routers in parallel" in out


RATE_LIMITED = """
perhop: 1
name: {name}
nodes: {{a: host, r1: router, b: host}}
links:
  - {{ends: [a, r1], rate: 100 Mbps}}
  - {{ends: [r1, b], rate: 100 Mbps{loss}}}
"""

LINUX_DEFAULTS = """
echo 1000 > /proc/sys/net/ipv4/icmp_ratelimit
echo 6168 > /proc/sys/net/ipv4/icmp_ratemask
echo 1000 > /proc/sys/net/ipv6/icmp/ratelimit
echo {silent} > /proc/sys/net/ipv4/icmp_echo_ignore_all
echo {silent} > /proc/sys/net/ipv6/icmp/echo_ignore_all
"""
"""Limits of ICMP errors that labs turn off, and whether echo requests get no answer."""


@REAL_HOSTS
def test_linux_limits_of_errors_are_neither_loss_nor_a_black_hole(lab_folder: Path) -> None:
    assert lab_folder.is_dir()
    # Limits make a probe wait for seconds, so all wait together.
    cases = list(product([4, 6], [True, False], [0, 20]))
    with ThreadPoolExecutor(len(cases)) as pool:
        reports = list(pool.map(limited, *zip(*cases, strict=True)))
    for (version, echo, loss), report in zip(cases, reports, strict=True):
        case = f"IPv{version}, echo: {echo}, loss: {loss}%: {report}"
        hop = report["hops"][-1]
        assert hop["answered"] < 0.8 * hop["sent"], case
        assert not hop["mtu"]["black_hole"], case
        if not loss:
            assert (hop["silence"], hop["loss"], hop["mtu"]["mtu"]) == ("limited", 0, 1500), case
            assert hop["retest"]["method"] == ("echo" if echo else "spaced"), case
            [row] = path_tables(report)[0].rows[-1:]
            assert "limits its ICMP errors" in row[-1], case
            assert "loss of" in row[-1], case
            continue
        assert hop["mtu"]["mtu"] in {1500, None}, case
        if echo:
            # Twice over a link that loses a fifth: 36%.
            assert hop["silence"] == "limited", case
            assert 0.15 < hop["loss"] < 0.6, case
        elif hop["loss"] is None:
            assert hop["silence"] == "unclear", case
        else:
            assert 0 <= hop["loss"] < 0.5, case


def limited(version: int, echo: bool, loss: int) -> dict[str, Any]:
    """What is measured of a host with Linux's limits, behind a link that loses `loss` percent."""
    name = f"limited-{version}-{echo}-{loss}".lower()
    text = RATE_LIMITED.format(name=name, loss=f", loss: {loss}%" if loss else "")
    with standing(text) as lab:
        set_limits = ["sh", "-e", "-c", LINUX_DEFAULTS.format(silent=int(not echo))]
        with lab.start("b", set_limits) as process:
            assert process.wait(timeout=30) == 0
        options = ("--count=30", "--dscp=be", "--dscp=ef", "--rate=500", "--no-multipath")
        return probe(lab, f"-{version}", "b", *options)


@pytest.mark.parametrize(
    ("silence", "loss", "retest", "said"),
    [
        ("unclear", None, None, "loss, or a limit of its ICMP errors"),
        (
            "limited",
            0.05,
            {"method": "echo", "sent": 40, "answered": 38},
            "limits its ICMP errors; loss of 40 echo requests",
        ),
        (
            "loss",
            0.4,
            {"method": "spaced", "sent": 10, "answered": 6},
            "loss of 10 probes 1.1 s apart",
        ),
    ],
)
def test_what_tells_loss_from_a_limit_is_said(
    silence: str, loss: float | None, retest: dict[str, Any] | None, said: str
) -> None:
    hop = {
        "ttl": 1,
        "addresses": [{"address": "192.0.2.2"}],
        "sent": 15,
        "answered": 3,
        "silence": silence,
        "loss": loss,
        "retest": retest,
        "rtt_s": None,
        "per_packet": False,
        "translated": None,
        "marks": [],
        "mtu": None,
        "capacity": None,
    }
    report = {
        "source": "192.0.2.1",
        "destination": "192.0.2.2",
        "protocol": "udp",
        "reached": True,
        "hops": [hop],
        "links": [],
        "rewrites": [],
        "path_mtu": None,
    }
    first, *_ = path_tables(report)
    [row] = first.rows
    assert row[-1] == said
    assert lead(report) == "192.0.2.2 is 1 hop away."


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("host.invalid",), "host.invalid has no address"),
        (("a", "b", "c"), "expected a destination, or a source and a destination"),
        (("192.0.2.1", "--dscp", "eff"), "did you mean `ef`?"),
        (("-6", "127.0.0.1"), "127.0.0.1 has no IPv6 address"),
        (("192.0.2.1", "--limit", "5"), "--limit: a duration needs a unit"),
        (("192.0.2.1", "--limit", "0 s"), "--limit: expected more than 0 s"),
        (("192.0.2.1", "--max-rate", "fast"), "--max-rate: "),
        (("--respond", "192.0.2.1"), "--respond has no destination"),
    ],
)
def test_wrong_arguments(
    perhop: Callable[..., Outcome], arguments: tuple[str, ...], said: str
) -> None:
    outcome = perhop("path", *arguments)
    assert outcome.code == 2
    assert said in outcome.err


def test_who_may_not_open_raw_sockets_is_told_what_to_do() -> None:
    need("setpriv")
    command = [shutil.which("setpriv") or "", "--reuid=65534", "--clear-groups", "--inh-caps=-all"]
    arguments = ["-m", "perhop", "path", "127.0.0.1"]
    done = subprocess.run(
        [*command, sys.executable, *arguments], capture_output=True, text=True, timeout=60, cwd="/"
    )
    if "No module named perhop" in done.stderr:
        unable("this installation is root's alone")
    if "setresuid" in done.stderr or "Permission denied" in done.stderr:
        unable(done.stderr)
    assert done.returncode == 3
    assert "cannot open a raw socket" in done.stderr
    assert "CAP_NET_RAW" in done.stderr


CAPACITIES = """
perhop: 1
name: capacities
nodes: {a: host, r1: router, r2: router, r3: router, r4: router, b: host}
links:
  - {ends: [a, r1], rate: 400 Mbps, delay: 500 us}
  - {ends: [r1, r2], rate: 90 Mbps, delay: 500 us}
  - {ends: [r2, r3], rate: 300 Mbps, delay: 500 us}
  - {ends: [r3, r4], rate: 10 Mbps, delay: 500 us}
  - {ends: [r4, b], rate: 15 Mbps, delay: 500 us}
"""


@MEASURES
def test_capacities_are_known_or_said_to_be_unknown(lab_folder: Path) -> None:
    assert lab_folder.is_dir()
    with standing(CAPACITIES) as lab:
        report = probe(lab, "b", "--rate", "500", "--dscp", "be", "--capacity")
    found = [hop["capacity"] for hop in report["hops"]]
    true = (400e6, 90e6, 300e6, 10e6, 15e6)
    for number, (each, rate) in enumerate(zip(found, true, strict=True)):
        assert each["from_hop"] == number
        if each["bps"] is None:
            assert each["at_least_bps"] < 1.03 * rate
        else:
            assert abs(each["bps"]["value"] / rate - 1) < 0.1
    assert [found[number]["method"] for number in (0, 1, 3)] == ["trains"] * 3
    # A link of 15 Mb/s takes 493 µs longer for long packets than for short ones.
    assert found[4]["method"] in {"sizes", "behind-narrower"}
    # Both ways of this path are the same; the volume is bounded.
    assert report["bytes_sent"] < 50_000_000


BUCKETS = """
perhop: 1
name: buckets
nodes: {a: host, r1: router, r2: router, b: host}
links:
  - {ends: [a, r1], rate: 200 Mbps, delay: 1 ms}
  - {ends: [r1, r2], rate: 50 Mbps, delay: 1 ms, egress: {r1: edge}}
  - {ends: [r2, b], rate: 100 Mbps, delay: 1 ms}
policies:
  edge:
    classes:
      policed: {match: {dscp: ef}, police: {rate: 7 Mbps, burst: 30 kB}, unused: true}
      shaped:
        match: {dscp: af11}
        bandwidth: 10%
        shape: {rate: 9 Mbps, burst: 60 kB}
        unused: true
      rest: {match: any}
"""


@MEASURES
def test_policers_and_shapers_are_found_with_rate_and_burst(lab_folder: Path) -> None:
    assert lab_folder.is_dir()
    with standing(BUCKETS) as lab:
        nobody = [str(PERHOP), "path", "b", "--buckets", "--no-multipath", "--no-mtu", "--count=1"]
        with lab.start("a", nobody, stderr=subprocess.PIPE) as process:
            said = process.communicate(timeout=60)[1].decode()
        assert process.returncode == 2
        assert "start one there with `perhop path --respond`" in said
        answering = [str(PERHOP), "path", "--respond", "--listen", "0.0.0.0"]
        with lab.start("b", answering):
            marks = ("--dscp=ef", "--dscp=af11", "--dscp=be")
            report = probe(lab, "b", "--buckets", "--no-multipath", "--rate=500", *marks)
            lab.down()
    policed, shaped, rest = (found["bucket"] for found in report["buckets"])
    assert (policed["kind"], shaped["kind"], rest) == ("policer", "shaper", None)
    for found, bps, burst in ((policed, 7e6, 30e3), (shaped, 9e6, 60e3)):
        assert found["bps"]["value"] == pytest.approx(bps, rel=0.02)
        # What is said is true; on a busy host, nothing may be said.
        if found["burst"] is None:
            assert found["trains"] == 6
        else:
            assert found["burst"]["low"] * 0.99 <= burst <= found["burst"]["high"] * 1.01
    assert report["buckets"][2]["narrow_bps"] == pytest.approx(50e6, rel=0.1)


AVAILABLE = """
perhop: 1
name: available
nodes: {a: host, c: host, r1: router, r2: router, b: host}
links:
  - {ends: [a, r1], rate: 100 Mbps, delay: 1 ms}
  - {ends: [c, r1], rate: 100 Mbps, delay: 1 ms}
  - {ends: [r1, r2], rate: 20 Mbps, delay: 1 ms}
  - {ends: [r2, b], rate: 100 Mbps, delay: 1 ms}
"""

CONSTANT = """
import socket, sys, time
to, bits = socket.socket(socket.AF_INET, socket.SOCK_DGRAM), float(sys.argv[2])
due = time.monotonic()
while True:
    due += 8 * 1028 / bits
    time.sleep(max(0, due - time.monotonic()))
    try:
        to.sendto(bytes(1000), (sys.argv[1], 9))
    except OSError:
        continue
"""
"""Sends IP packets of 1028 B at a constant rate."""


@MEASURES
def test_the_available_bandwidth_is_what_cross_traffic_leaves(lab_folder: Path) -> None:
    """What is said is true. How narrow the interval is depends on when the sender of the cross
    traffic is late, and then sends a burst (`make bench-path` measures it)."""
    assert lab_folder.is_dir()
    with standing(AVAILABLE) as lab:
        cross = [sys.executable, "-c", CONSTANT, "b", "8e6"]
        answering = [str(PERHOP), "path", "--respond", "--listen", "0.0.0.0"]
        options = ("--available", "--no-multipath", "--no-mtu", "--count=1", "--dscp=be")
        with lab.start("b", answering):
            limited = probe(lab, "b", "-4", *options, "--max-rate=5 Mbps")
            with lab.start("c", cross, stderr=subprocess.DEVNULL):
                report = probe(lab, "b", "-4", *options)
                lab.down()
    (found,) = report["available"]
    # A sender that is disturbed says so.
    assert found["unknown"] in (None, "sender"), found
    interval = found["bps"] or {"low": found["at_least_bps"], "high": found["at_most_bps"]}
    assert 0 < 0.9 * interval["low"] <= 12e6 <= 1.1 * interval["high"]
    (found,) = limited["available"]
    assert (found["bps"], found["unknown"]) == (None, "limit")
    assert 1e6 < found["at_least_bps"] <= 5e6
