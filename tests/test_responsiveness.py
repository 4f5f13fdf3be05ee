"""Responsiveness in round trips per minute, and bufferbloat with its grades."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import perhop
from conftest import Outcome
from datasets import dataset
from perhop import analysis, templates
from perhop.analysis.responsiveness import Bufferbloat, Responsiveness, trimmed_mean
from perhop.dataset import Dataset
from perhop.report import responsiveness_tables
from perhop.scenario import parse

TEXT = """
perhop: 1
name: known
nodes: {a: host, b: host}
links: [{ends: [a, b], rate: 10 Mbps}]
flows:
  one: {from: b, to: a, start: 2 s}
  two: {from: a, to: b, start: 2 s}
  probes: {from: b, to: a, start: 2 s, rpc: {every: 100 ms, connections: new}}
pings:
  echo: {from: a, to: b}
duration: 10 s
expect:
  - {rpm: [probes, one, two], during: 4 s..10 s, at_least: 2000}
  - {bufferbloat: echo, during: 4 s..10 s, about: 70 ms, within: 0.1%}
"""


def call(number: int, took: float, opened: int = 1, start: float = 5.0) -> dict[str, Any]:
    return {
        "flow": "probes",
        "stream": 0,
        "kind": "call",
        "number": number,
        "start_s": start,
        "first_byte_s": start + took,
        "end_s": start + took,
        "bytes": 100,
        "exchanges": 1,
        "opened": opened,
    }


@pytest.fixture(scope="module")
def known() -> Dataset:
    """Calls of 40 ms and a slow one, and round-trip times around 40 ms and 60 ms."""
    calls = [call(number, 0.04) for number in range(19)] + [call(19, 1.0)]
    # These do not count: a call on an open connection, and one before the window.
    calls += [call(20, 0.02, opened=0), call(21, 0.5, start=2.5)]
    window = {"start_s": 4.0, "end_s": 10.0}
    srtts = [
        {"flow": "one", **window, "low_s": 0.039, "high_s": 0.041, "samples": 1000},
        {"flow": "two", **window, "low_s": 0.059, "high_s": 0.061, "samples": 10},
        {"flow": "two", "start_s": 2.0, "end_s": 4.0, "low_s": 1, "high_s": 2, "samples": 99},
    ]
    rtts = [0.01, 0.03, 0.5, 0.5, 0.08, 0.1, 0.09, 0.09, 0.07, 0.11]
    pings = [{"ping": "echo", "sent_s": float(at), "rtt_s": rtt} for at, rtt in enumerate(rtts)]
    return dataset(parse(TEXT), [], pings=pings, srtts=srtts, completions=calls)


def test_known_calls_and_round_trips_give_the_known_responsiveness(known: Dataset) -> None:
    found = analysis.responsiveness(known, "probes", ["one", "two"], (4.0, 10.0))
    assert found is not None
    # Two round trips in 40 ms; the slow call is the largest 5%.
    assert found.foreign == pytest.approx(60 / 0.02)
    # Both flows have half of the weight; the largest 5% are of the slower one.
    loaded = (0.5 * 0.04 + 0.45 * 0.06) / 0.95
    assert found.loaded == pytest.approx(60 / loaded)
    assert found.rpm == pytest.approx((60 / 0.02 + 60 / loaded) / 2)
    assert found.rating == "good"
    alone = analysis.responsiveness(known, "probes", ["one"], (4.0, 10.0))
    assert alone is not None
    assert alone.loaded == pytest.approx(60 / 0.04)
    assert analysis.responsiveness(known, "probes", ["one"], (0.0, 2.0)) is None


def test_bufferbloat_is_the_increase_above_the_idle_time(known: Dataset) -> None:
    found = analysis.bufferbloat(known, "echo", (4.0, 10.0))
    assert found == Bufferbloat(pytest.approx(0.02), pytest.approx(0.09))
    # Requests before the first flow are not under load.
    whole = analysis.bufferbloat(known, "echo")
    assert whole is not None
    assert whole.loaded == pytest.approx((0.54 + 1.0) / 8)
    rpm, bloat = analysis.verdicts(known)
    assert (bloat.ok, bloat.unit) == (True, "s")
    assert rpm.measured == pytest.approx(1500 + 0.5 * 60 * 0.95 / 0.047)
    assert [table.rows[0][-1] for table in responsiveness_tables(known)] == ["good", "C"]


def test_grades_and_ratings_have_the_documented_limits() -> None:
    increases = (0.0049, 0.005, 0.0299, 0.03, 0.06, 0.1999, 0.2, 0.4)
    grades = [Bufferbloat(0.01, 0.01 + each + 1e-9).grade for each in increases]
    assert grades == ["A+", "A", "A", "B", "C", "C", "D", "F"]
    ratings = [Responsiveness(each, each).rating for each in (299.0, 301.0, 1001.0, 6001.0)]
    assert ratings == ["poor", "fair", "good", "excellent"]


def test_a_trimmed_mean_omits_a_part_of_a_sample() -> None:
    # 9.5 of 10 samples: half of the last one.
    assert trimmed_mean([(10.0, 1.0), (1.0, 9.0)]) == pytest.approx((9 * 1 + 0.5 * 10) / 9.5)


QUIC = """
perhop: 1
name: both
nodes: {server: host, r: router, client: host}
links:
  - {ends: [server, r], rate: 1 Gbps, delay: 5 ms}
  - {ends: [r, client], rate: 20 Mbps, delay: 10 ms, queue: {limit: 100 packets}}
flows:
  down: {from: server, to: client, streams: 4, start: 1 s, quic: {}}
  tcp: {from: server, to: client, start: 1 s, rpc: {every: 100 ms, connections: new}}
  quic: {from: server, to: client, start: 1 s, rpc: {every: 100 ms, connections: new}, quic: {}}
pings:
  echo: {from: client, to: server, every: 20 ms}
expect:
  - {rpm: [quic, down], during: 2 s..5 s, about: 750, within: 20%}
duration: 5 s
"""


def test_probes_and_load_may_use_quic() -> None:
    run = perhop.run(parse(QUIC))
    window = (2.0, 5.0)
    ping = analysis.measure(run, "rtt_mean", "echo", window)
    assert ping is not None
    for probes in ("tcp", "quic"):
        found = analysis.responsiveness(run, probes, ["down"], window)
        assert found is not None
        # A handshake and a call are two round trips over both; losses take a few more.
        assert found.foreign == pytest.approx(60 / ping, rel=0.15)
        assert found.loaded == pytest.approx(60 / ping, rel=0.1)
    [verdict] = analysis.verdicts(run)
    assert verdict.ok


def test_a_plain_queue_is_slow_under_load_and_flow_queues_are_not(
    perhop: Callable[..., Outcome], tmp_path: Path
) -> None:
    file = tmp_path / "rpm.yaml"
    file.write_text(templates.text("rpm"))

    def run(queue: str) -> dict[str, Any]:
        outcome = perhop("run", str(file), "--json", "--set", f"links.1.queue={queue}")
        said: dict[str, Any] = json.loads(outcome.out)
        return said

    fair, plain = run("{fq-codel: {}}"), run("{limit: 256 kB}")
    # The empty path takes 20 ms, a round trip of which is 3000 RPM.
    assert 2500 < fair["responsiveness"][0]["foreign"] < 3000
    assert fair["bufferbloat"][0]["grade"] == "A+"
    # 256 kB drain in 205 ms at 10 Mb/s.
    assert plain["responsiveness"][0]["rating"] == "poor"
    assert 0.15 < plain["bufferbloat"][0]["increase_s"] < 0.25
    assert [verdict["ok"] for verdict in plain["expect"]] == [False, False]
    assert "responsiveness" not in analysis.summary(_short())


def _short() -> Dataset:
    text = TEXT[: TEXT.index("expect:")].replace("duration: 10 s", "duration: 3 s")
    return perhop.run(parse(text))
