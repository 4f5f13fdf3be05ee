"""Scenarios run by real hosts on perhop's network, from the file to the tables."""

import functools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

import perhop
from conftest import MEASURES, REAL_HOSTS
from perhop import Dataset, Scenario, analysis
from perhop._core import Namespaces
from perhop.engines import Progress, emu
from perhop.scenario import parse
from tools import need, unable

CLASSES = """
perhop: 1
name: classes
nodes: {a: host, r1: router, r2: {kind: router, remark: {cs1: be}}, b: host}
links:
  - {ends: [a, r1], rate: 1 Gbps}
  - {ends: [r1, r2], rate: 20 Mbps, delay: 1 ms, egress: {r1: two}}
  - {ends: [r2, b], rate: 1 Gbps}
policies:
  two:
    classes:
      little: {match: {dscp: cs1}, bandwidth: 20%, queue: {limit: 30 ms}}
      much:   {match: any, bandwidth: 80%, queue: {limit: 30 ms}}
flows:
  little: {from: a, to: b, dscp: cs1, stop: 3 s}
  much:   {from: a, to: b, stop: 3 s}
pings:
  marked: {from: a, to: b, dscp: cs1, every: 200 ms}
report: {interval: 500 ms}
"""

RUN = [sys.executable, "-c", "import sys; from perhop.cli import main; main(sys.argv[1:])", "run"]

pytestmark = REAL_HOSTS


@pytest.fixture(scope="module")
def scenario() -> Scenario:
    return parse(CLASSES, "classes")


@functools.cache
def run(_attempt: int) -> Dataset:
    return perhop.run(parse(CLASSES, "classes"), engine="emu")


@pytest.fixture
def able() -> None:
    try:
        Namespaces(1)
    except OSError as error:
        unable(error)


@pytest.fixture
def dataset(able: None, attempt: int) -> Dataset:
    del able
    return run(attempt)


@MEASURES
def test_classes_get_their_shares(dataset: Dataset) -> None:
    window = (1.0, 3.0)
    got = {flow: analysis.throughput(dataset, flow, window) for flow in ("little", "much")}
    total = sum(got.values())
    assert got["much"] / total == pytest.approx(0.8, abs=0.03)
    # Segments of 1448 bytes in packets of 1500, and a ping now and then.
    assert total == pytest.approx(20e6 * 1448 / 1500, rel=0.04)


@MEASURES
def test_queues_and_links_count_what_hosts_send(dataset: Dataset) -> None:
    sent = dataset.links.filter(pl.col("link") == "r1>r2")["sent_packets"].sum()
    queued = dataset.queues.filter(pl.col("link") == "r1>r2")["sent_packets"].sum()
    delivered = dataset.intervals["packets"].sum()
    assert sent == queued >= delivered > 3000
    assert dataset.links["utilisation"].max() <= 1.01  # a packet may go on beyond a mark
    counted = dataset.manifest.counters
    assert counted["overflow"] == counted["overruns"] == counted["malformed"] == 0
    assert counted["packets_received"] <= counted["packets_sent"]


@pytest.mark.usefixtures("able")
def test_marks_are_counted_where_they_arrive() -> None:
    """A receiver gets the packets that the queue marked; a sender hears of more (RFC 3168)."""
    text = """
perhop: 1
name: marks
nodes: {a: host, b: host, r: router}
links:
  - {ends: [a, r], rate: 100 Mbps, delay: 5 ms}
  - {ends: [r, b], rate: 10 Mbps, delay: 10 ms, queue: {codel: {}}}
flows:
  bulk: {from: a, to: b, streams: 2, tcp: {ecn: classic}, stop: 4 s}
"""
    dataset = perhop.run(parse(text, "marks"), engine="emu")
    of_queue = dataset.queues.filter(pl.col("link") == "r>b")["marked_packets"].sum()
    arrived, echoed = (dataset.intervals[name].sum() for name in ("marked", "echoed"))
    # One or two are under way at the end.
    assert of_queue - 3 <= arrived <= of_queue
    assert of_queue > 5
    assert echoed > 3 * arrived


STANDING = """
perhop: 1
name: standing
nodes: {a: host, r: router, b: host}
links:
  - {ends: [a, r], rate: 1 Gbps}
  - {ends: [r, b], rate: 10 Mbps, delay: 10 ms, queue: {limit: 1 s}}
flows:
  bulk: {from: a, to: b, tcp: {window: 64 KiB}, stop: 3 s}
report: {interval: 500 ms}
"""


@MEASURES
def test_round_trip_times_mean_the_same_as_in_sim(attempt: int) -> None:
    """A window of 64 KiB stands in the queue: its round trip is what a window's packets take."""
    del attempt
    scenario = parse(STANDING, "standing")
    real, modelled = (perhop.run(scenario, engine=engine) for engine in ("emu", "sim"))
    one, other = (analysis.flow_srtt(run, "bulk") for run in (real, modelled))
    assert one is not None
    assert other is not None
    standing = 64 * 1024 / 1448 * 1500 * 8 / 10e6
    assert other.median == pytest.approx(standing, rel=0.05)
    assert one.median == pytest.approx(other.median, rel=0.05)
    assert one.mean == pytest.approx(other.mean, rel=0.05)
    # One in 10 ms, of those in which an acknowledgement came; a busy machine may be late.
    assert 250 <= other.samples <= 305
    assert 0.5 * other.samples < one.samples <= 305
    # Where single segments are not seen there is nothing, not something else.
    assert analysis.flow_rtt(real, "bulk") is None
    assert real.intervals["rtt_samples"].sum() == len(real.rtts) == 0
    assert real.intervals["rtt_s"].is_null().all()
    measured = analysis.flow_rtt(modelled, "bulk")
    assert measured is not None
    assert measured.samples > 1000
    assert measured.mean == pytest.approx(other.mean, rel=0.05)


@MEASURES
def test_rows_end_at_the_marks(dataset: Dataset, scenario: Scenario) -> None:
    marks = {mark / 1e12 for mark in scenario.marks_ps if mark > 0}
    for table in (dataset.intervals, dataset.queues, dataset.links):
        assert set(table["end_s"]) == marks
    assert dataset.manifest.complete


@MEASURES
def test_a_mark_that_is_cleared_half_way_is_seen(dataset: Dataset) -> None:
    pings = dataset.pings
    assert pings["rtt_s"].min() >= 0.002
    assert set(pings["dscp_sent"]) == {8}
    assert set(pings["dscp_arrived"].drop_nulls()) == {0}
    there = dataset.codepoints.filter(pl.col("node") == "b")
    arrived = there.group_by("flow").agg(pl.col("dscp_arrived").unique())
    assert dict(arrived.rows()) == {"little": [0], "much": [0]}


@pytest.mark.usefixtures("able")
def test_what_was_measured_before_an_interruption_is_kept(scenario: Scenario) -> None:
    def interrupt(progress: Progress) -> None:
        if progress.now_s > 1.2:
            raise KeyboardInterrupt

    kept = perhop.run(scenario, engine="emu", watch=interrupt)
    assert not kept.manifest.complete
    assert 1.2 < kept.manifest.duration_s < 3
    assert kept.intervals["bytes"].sum() > 0
    assert kept.queues["sent_packets"].sum() > 0


@pytest.mark.usefixtures("able")
def test_a_capture_that_has_no_room_is_said(scenario: Scenario) -> None:
    if not Path("/dev/full").exists():
        unable("there is no /dev/full")
    with pytest.raises(perhop.OutputError, match="/dev/full"):
        perhop.run(scenario, engine="emu", captures={"r1>r2": "/dev/full"})


def test_what_linux_cannot_do_is_refused() -> None:
    changed = CLASSES.replace("dscp: cs1, stop", "tcp: {congestion_control: ledbat++}, stop")
    with pytest.raises(perhop.UnsupportedError, match=r"flows\.little.*ledbat"):
        perhop.run(parse(changed, "x"), engine="emu")


@pytest.mark.usefixtures("able")
def test_a_device_that_is_taken_away_ends_the_run(scenario: Scenario) -> None:
    need("ip")
    run = emu.start(scenario, 1)
    run.advance()
    assert run._core.namespaces().run(0, ["ip", "link", "del", "perhop0"], b"")[0] == 0
    with pytest.raises(perhop.UnsupportedError, match="perhop0 was taken away"):
        until(run.advance)
    run.stop()


@pytest.mark.usefixtures("able")
def test_a_user_without_rights_runs_it_too(tmp_path: Path) -> None:
    file = tmp_path / "classes.yaml"
    file.write_text(CLASSES.replace("stop: 3 s", "stop: 1 s"))
    command = [*RUN, str(file), "--engine", "emu", "--out", str(tmp_path / "out"), "--json"]
    if os.getuid() == 0:
        # Root without any right but that to stay root in a user namespace (user_namespaces(7)), as
        # the interpreter may be root's own.
        rights = "-all,+setfcap"
        without = ["setpriv", f"--inh-caps={rights}", f"--bounding-set={rights}"]
        need("setpriv")
        command = [*without, *command]
    told = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    if told.returncode == 3 and "user namespaces" in told.stderr:
        unable(told.stderr)
    assert told.returncode == 0, told.stderr
    assert json.loads(told.stdout)["flows"]["much"]["bytes"] > 0


@pytest.mark.usefixtures("able")
def test_nothing_is_left_of_a_run_that_is_killed(tmp_path: Path) -> None:
    file = tmp_path / "classes.yaml"
    file.write_text(CLASSES)
    command = [*RUN, str(file), "--engine", "emu", "--out", str(tmp_path / "out")]
    before = links()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until(lambda: b"/net/tun" in b"".join(targets(child.pid)))
    time.sleep(0.5)
    child.send_signal(signal.SIGKILL)
    child.wait()
    # Namespaces without a reference end, and devices with them; none has a name elsewhere.
    assert links() == before


def until(holds: Callable[[], object]) -> None:
    """Wait, for a minute at most."""
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


def targets(pid: int) -> list[bytes]:
    """Return the open files of a process."""
    found = []
    for link in Path(f"/proc/{pid}/fd").glob("*"):
        try:
            found.append(os.fsencode(link.readlink()))
        except OSError:
            continue
    return found


def links() -> tuple[list[str], ...]:
    """The devices here, and the namespaces with names."""
    places = (Path("/sys/class/net"), Path("/run/netns"))
    return tuple(sorted(path.name for path in place.glob("*")) for place in places)


TWO_LINKS = """
perhop: 1
name: multihomed
nodes: {a: host, r: router, s: router, b: host}
links:
  - {ends: [a, r], rate: 100 Mbps, delay: 1 ms}
  - {ends: [a, s], rate: 100 Mbps, delay: 2 ms}
  - {ends: [r, b], rate: 8 Mbps, delay: 5 ms}
  - {ends: [s, b], rate: 4 Mbps, delay: 10 ms}
flows: {bulk: {from: a, to: b, tcp: {stack: linux-6}, stop: 3 s}}
changes: [{at: 1 s, on: a>r, state: down}]
"""


@pytest.mark.parametrize("engine", ["sim", pytest.param("emu", marks=MEASURES)])
def test_a_host_with_two_links_goes_on_by_the_other(engine: str) -> None:
    dataset = perhop.run(parse(TWO_LINKS, "multihomed"), engine=engine)
    for window, rate in (((0.5, 1.0), 8e6), ((2.0, 3.0), 4e6)):
        assert analysis.throughput(dataset, "bulk", window) == pytest.approx(0.965 * rate, rel=0.05)
    busy = dataset.links.filter(pl.col("start_s") >= 2, pl.col("sent_packets") > 0)["link"]
    assert {"a>s", "s>b"} <= set(busy) and "a>r" not in set(busy)
