"""Reports of a run in real time about its own lateness."""

import signal
import time
from pathlib import Path

from conftest import MEASURES, OFTEN, Start
from perhop.dataset import Dataset
from perhop.engines.lateness import is_light, late, stall_threshold
from perhop.scenario import parse
from perhop.units import MILLISECOND
from tools import unable

TEXT = """
perhop: 1
name: stalled
nodes: {a: host, r: router, b: host}
links:
  - {ends: [a, r], rate: 1 Gbps}
  - {ends: [r, b], rate: 12 Mbps, delay: 5 ms, queue: {limit: 20 packets}}
flows: {bulk: {from: a, to: b}}
duration: 3 s
"""


def test_what_can_be_borne_is_what_the_slowest_queue_holds() -> None:
    # 20 packets of 1500 bytes at 12 Mb/s.
    assert stall_threshold(parse(TEXT)) == 20 * MILLISECOND
    for queue, expected in (
        ("{limit: 30 ms}", 30),
        ("{limit: 6 kB}", 4),
        ("{limit: 1 packet}", 1),
        ("{codel: {target: 5 ms}}", 5),
        ("{fq-codel: {target: 7 ms}}", 7),
    ):
        text = TEXT.replace("{limit: 20 packets}", queue)
        assert stall_threshold(parse(text)) == expected * MILLISECOND
    # A ping alone is answered after 10 ms.
    text = TEXT.replace("flows: {bulk: {from: a, to: b}}", "pings: {echo: {from: a, to: b}}")
    assert stall_threshold(parse(text)) == 10 * MILLISECOND
    # A class of a policy holds 64 packets unless it says.
    text = TEXT.replace("queue: {limit: 20 packets}", "egress: {r: p}")
    text += "policies: {p: {classes: {all: {match: any}}}}\n"
    assert stall_threshold(parse(text)) == 64 * MILLISECOND


def test_sockets_go_first_where_they_cannot_fill_a_processor() -> None:
    assert is_light(parse(TEXT))
    assert not is_light(parse(TEXT.replace("12 Mbps", "101 Mbps")))


def test_stalls_are_told_from_a_hundredth_of_the_run_on() -> None:
    scenario = parse(TEXT)
    assert list(late(scenario, {"stalled_us": 29_000, "traffic_stalled_us": 20_000}, 3.0)) == []
    for who in ("", "traffic_"):
        (finding,) = late(scenario, {f"{who}stalled_us": 270_000}, 3.0)
        assert "late for 270 ms in all (9.0% of the run), by more than 20 ms" in finding.message
    (finding,) = late(scenario, {"overruns": 1200}, 3.0)
    assert finding.message.startswith("1,200 packets were dropped by this machine")
    assert list(late(scenario, {}, 0.0)) == []


def test_stalls_of_agents_name_their_hosts() -> None:
    stalled = {"a": 29_000, "b": 270_000, "c": 31_000}
    # The counter is the sum of all: two hosts were late.
    counters = {"traffic_stalled_us": sum(stalled.values())}
    b, c = late(parse(TEXT), counters, 3.0, stalled)
    assert b.message.startswith("the host of agent b was late for 270 ms in all (9.0% of the run)")
    assert c.message.startswith("the host of agent c was late for 31 ms")
    assert list(late(parse(TEXT), counters, 3.0, {"a": 29_000})) == []


@MEASURES
def test_a_run_that_was_held_up_says_so(place: Path, start: Start) -> None:
    (place / "x.yaml").write_text(TEXT)
    process = start("run", "x.yaml", "--engine", "emu", "--out", "out", prelude=OFTEN)
    deadline = time.monotonic() + 30
    while process.poll() is None and not (place / "out" / "manifest.json").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGSTOP)
    time.sleep(0.3)
    process.send_signal(signal.SIGCONT)
    _, err = process.communicate(timeout=60)
    if process.returncode == 3:
        unable(err)
    assert process.returncode == 0, err
    run = Dataset.read(place / "out")
    counters = run.manifest.counters
    assert counters["stalls"] >= 1
    assert 250_000 < counters["stalled_us"] < 1_000_000
    assert 250_000 < counters["traffic_stalled_us"] < 1_000_000
    assert any("this machine was late for" in each.message for each in run.warnings)
