"""Delays, completions, metrics, verdicts and comparisons of small tables, worked out by hand."""

from __future__ import annotations

import re
from dataclasses import astuple
from typing import Any

import polars as pl
import pytest

from datasets import dataset
from perhop import analysis
from perhop.analysis.codepoints import codepoints, ecn_fields
from perhop.analysis.distributions import (
    distribution,
    flow_rtt,
    owd,
    queueing,
    queueing_in,
    under_way,
)
from perhop.analysis.ensembles import ensemble_verdicts, spread
from perhop.analysis.judgement import Verdict, evaluate, expected, measure, verdicts
from perhop.dataset import TABLES, Dataset
from perhop.errors import UsageError
from perhop.scenario import parse

KEY = "perhop-ed25519 AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
TEXT = """
perhop: 1
name: figures
nodes: {a: host, r: router, b: host}
links:
  - {ends: [a, r], rate: 1 Gbps, delay: 10 ms}
  - {ends: [r, b], rate: 8 Mbps, delay: 15 ms}
flows:
  data: {from: a, to: b, start: 2 s, stop: 8 s}
  call: {from: a, to: b, udp: {rate: 1 Mbps, size: 100 B}, dscp: ef, start: 2 s, stop: 8 s}
  web: {from: b, to: a, rpc: {every: 1 s, server_time: 5 ms}, start: 2 s, stop: 8 s}
  page: {from: b, to: a, web: {}, start: 2 s, stop: 8 s}
  film: {from: b, to: a, video: {bitrates: [1 Mbps, 2 Mbps]}, start: 2 s, stop: 8 s}
pings:
  probe: {from: a, to: b, every: 1 s, dscp: ef}
  capable: {from: a, to: b, every: 1 s, ecn: ect0}
report: {interval: 2 s}
duration: 10 s
MORE
"""


def run(more: str = "", **tables: Any) -> Dataset:
    return dataset(parse(TEXT.replace("MORE", more), "x.yaml"), **tables)


def row(start: float, end: float, flow: str = "call", **values: Any) -> dict[str, Any]:
    return {"start_s": start, "end_s": end, "flow": flow, **values}


def ping(sent: float, rtt: float | None, name: str = "probe", **values: Any) -> dict[str, Any]:
    return {"ping": name, "sequence": int(sent), "sent_s": sent, "rtt_s": rtt, **values}


# Delays


def test_a_distribution_of_five_numbers() -> None:
    found = distribution(pl.Series([4.0, None, 1.0, 2.0, 10.0, 3.0]))
    assert found is not None
    # Type 7: the p-quantile is at 4 p of the sorted numbers 1, 2, 3, 4, 10.
    assert astuple(found) == pytest.approx(
        (5, 1, 4, 1.2, 2, 3, 4, 8.8, 9.76, 10, 2, 12.5**0.5), rel=1e-12
    )
    assert distribution(pl.Series([None], dtype=pl.Float64)) is None


BINS = [
    row(2, 4, low_s=0.010, high_s=0.012, samples=10),
    row(2, 4, low_s=0.012, high_s=0.020, samples=20),
    row(4, 6, low_s=0.012, high_s=0.020, samples=10),
    row(4, 6, low_s=0.030, high_s=0.040, samples=10),
]
DELAYS = [
    row(2, 4, owd_samples=30, owd_s=0.014, owd_min_s=0.011, owd_max_s=0.019),
    row(4, 6, owd_samples=20, owd_s=0.024, owd_min_s=0.013, owd_max_s=0.039),
    row(6, 8, owd_samples=0, owd_s=None),
]


def test_percentiles_of_a_histogram() -> None:
    found = owd(run(intervals=DELAYS, delays=BINS), "call")
    assert found is not None
    assert (found.samples, found.min, found.max) == (50, 0.011, 0.039)
    assert found.mean == pytest.approx((30 * 0.014 + 20 * 0.024) / 50, rel=1e-12)
    # 10 samples up to 12 ms, 30 more to 20 ms, 10 more from 30 to 40 ms, evenly in each bin.
    expected = {
        "p5": 0.011,  # 2.5 of 10: 10.5 ms, but none is below 11
        "p25": 0.012 + 0.008 * 2.5 / 30,
        "median": 0.012 + 0.008 * 15 / 30,
        "p75": 0.012 + 0.008 * 27.5 / 30,
        "p95": 0.030 + 0.010 * 7.5 / 10,
        "p99": 0.039,  # 39.5 ms, but none is above 39
        "iqr": 0.008 * 25 / 30,
    }
    assert {name: getattr(found, name) for name in expected} == pytest.approx(expected, rel=1e-12)
    # Bins count with their middle: 11, 16 and 35 ms.
    mean = (10 * 11 + 30 * 16 + 10 * 35) / 50
    squares = 10 * (11 - mean) ** 2 + 30 * (16 - mean) ** 2 + 10 * (35 - mean) ** 2
    assert found.stdev == pytest.approx((squares / 49) ** 0.5 / 1000, rel=1e-12)


def test_delays_of_a_window() -> None:
    measured = run(intervals=DELAYS, delays=BINS)
    found = owd(measured, "call", (4, 6))
    assert found is not None
    assert (found.samples, found.min, found.mean, found.median) == (20, 0.013, 0.024, 0.020)
    above = queueing(measured, "call", (4, 6))
    assert above is not None
    # Above 11 ms, the least of the run; distances stay.
    assert (above.min, above.mean, above.p25, above.median, above.max) == pytest.approx(
        (0.002, 0.013, 0.016 - 0.011, 0.009, 0.028)
    )
    assert (above.samples, above.iqr, above.stdev) == (20, found.iqr, found.stdev)
    assert owd(measured, "call", (6, 8)) is None
    assert queueing(measured, "data") is None
    assert flow_rtt(measured, "call") is None
    # Where somebody knows a number of samples alone, nothing is known.
    unknown = {"owd_s": None, "owd_min_s": None, "owd_max_s": None}
    assert owd(run(intervals=[*DELAYS[:1], DELAYS[1] | unknown], delays=BINS), "call") is None
    pair = [row(2, 4, low_s=low, high_s=low + 0.002, samples=1) for low in (0.010, 0.014)]
    two = owd(run(intervals=[DELAYS[0] | {"owd_samples": 2}], delays=pair), "call")
    # Two samples at 11 and 15 ms.
    assert two is not None and two.stdev == pytest.approx(8**0.5 / 1000, rel=1e-9)
    single = [row(2, 4, low_s=0.010, high_s=0.012, samples=1)]
    one = owd(run(intervals=[DELAYS[0] | {"owd_samples": 1}], delays=single), "call")
    assert one is not None and one.stdev is None


def test_queueing_in_windows_is_a_median_of_intervals() -> None:
    rows = [
        row(2, 4, owd_samples=1, owd_s=0.015, owd_min_s=0.015),
        row(4, 6, owd_samples=9, owd_s=0.012, owd_min_s=0.010),
        row(6, 8, owd_samples=1, owd_s=0.050, owd_min_s=0.050),
        row(2, 4, "data", owd_samples=1, owd_s=None, owd_min_s=None),
    ]
    found = queueing_in(run(intervals=rows), [(0.0, 2.0), (2.0, 8.0), (8.0, 10.0)])
    assert found == [{}, {"call": pytest.approx(0.005)}, {}]
    # Two streams in an interval: the mean over packets.
    rows = [row(2, 4, owd_samples=n, owd_s=d, owd_min_s=d) for n, d in ((1, 0.010), (3, 0.014))]
    assert queueing_in(run(intervals=rows), [(2.0, 4.0)]) == [{"call": pytest.approx(0.003)}]


def test_requests_under_way_are_not_lost() -> None:
    # The longest takes 400 ms: what was sent from 9.6 s on may still be answered.
    rows = [ping(1, 0.1), ping(2, None), ping(3, 0.4), ping(9.5, None), ping(9.61, None)]
    rows.append(ping(9.7, None, answer="time exceeded"))
    found = run(pings=rows)
    assert under_way(found, "probe") == 1
    assert analysis.loss(found, "probe") == 3 / 5
    assert analysis.loss(found, "probe", (0, 3)) == 1 / 2
    assert analysis.loss(found, "probe", (4, 5)) is None
    assert under_way(run(pings=[ping(1, None)]), "probe") == 0


# What arrives


def test_fields_of_requests_and_replies() -> None:
    rows = [
        ping(1, 0.1, node="b", dscp_sent=46, dscp_arrived=0, dscp_echoed=0, answer="echo reply"),
        ping(2, 0.1, node="b", dscp_sent=46, dscp_arrived=46, dscp_echoed=0, answer="echo reply"),
        ping(3, 0.1, node="r", dscp_sent=46, dscp_arrived=46, answer="time exceeded"),
        ping(4, None, dscp_sent=46),
        # Nobody knows where this one arrived.
        ping(5, None, dscp_sent=46, dscp_arrived=63),
    ]
    assert codepoints(run(pings=rows), "probe").sort(
        "node", "dscp_sent", "dscp_arrived"
    ).rows() == [
        ("probe", "a", 0, 0, 1, 1.0),
        ("probe", "a", 46, 0, 1, 1.0),
        ("probe", "b", 46, 0, 1, 0.5),
        ("probe", "b", 46, 46, 1, 0.5),
        ("probe", "r", 46, 46, 1, 1.0),
    ]
    rows = [
        ping(1, 0.1, "capable", node="b", ecn_arrived=3, ecn_echoed=2, answer="echo reply"),
        ping(2, 0.1, "capable", node="b", ecn_arrived=2, ecn_echoed=2, answer="echo reply"),
        ping(3, 0.1, "capable", node="r", ecn_arrived=2, answer="time exceeded"),
    ]
    assert ecn_fields(run(pings=rows), "capable").sort(
        "node", "ecn_sent", "ecn_arrived"
    ).rows() == [
        ("capable", "a", 2, 2, 1, 1.0),
        ("capable", "a", 3, 2, 1, 1.0),
        ("capable", "b", 2, 2, 1, 0.5),
        ("capable", "b", 2, 3, 1, 0.5),
        ("capable", "r", 2, 2, 1, 1.0),
    ]


def test_replies_of_a_stamp_reflector_have_the_code_point_of_the_ping() -> None:
    text = re.sub(r"flows:.*pings:", "pings:", TEXT, flags=re.DOTALL)
    agents = "agents: {a: {address: 192.0.2.1, key: KEY}, b: {stamp: '192.0.2.2:862'}}"
    answered = ping(1, 0.1, node="b", dscp_sent=46, dscp_arrived=8, answer="echo reply")
    found = dataset(
        parse(text.replace("MORE", agents.replace("KEY", KEY)), "x.yaml"),
        pings=[answered | {"dscp_echoed": 46, "ecn_arrived": 0, "ecn_echoed": 0}],
    )
    for engine, sent, fields in (("live", 46, {"b"}), ("sim", 8, {"a", "b"})):
        manifest = found.manifest.model_copy(update={"engine": engine})
        tables = {name: getattr(found, name) for name in TABLES}
        measured = Dataset(scenario=found.scenario, manifest=manifest, **tables)
        rows = codepoints(measured, "probe").filter(node="a").rows()
        assert rows == [("probe", "a", sent, 46, 1, 1.0)]
        assert set(ecn_fields(measured, "probe")["node"]) == fields


# Applications


def done(kind: str, flow: str, start: float, end: float | None, **values: Any) -> dict[str, Any]:
    return {"kind": kind, "flow": flow, "start_s": start, "end_s": end, **values}


EXCHANGES = [
    done("call", "web", 2, 2.1, bytes=10_000, opened=1),
    done("call", "web", 3, 3.2, bytes=10_001, opened=0),
    done("call", "web", 4, 4.3, bytes=1_000_000, opened=0),
    done("call", "web", 5, 5.4, bytes=20_000_000, opened=0),
    done("call", "web", 6, None, bytes=5, opened=1),
    done("page", "page", 2, 3.5),
    done("page", "page", 4, 4.5),
    done("page", "page", 5, None),
]


def test_exchanges_beside_the_empty_path() -> None:
    found = run(completions=EXCHANGES)
    rows = analysis.exchanges(found, "web")
    # A round trip of 50 ms, two with the handshake, 5 ms at the server, bytes at 8 Mb/s.
    assert rows["ideal_s"].to_list() == pytest.approx(
        [0.1 + 0.005 + 0.01, 0.05 + 0.005 + 0.010001, 0.055 + 1, 0.055 + 20]
    )
    assert rows["completion_s"].to_list() == pytest.approx([0.1, 0.2, 0.3, 0.4])
    assert rows["slowdown"][0] == pytest.approx(0.1 / 0.115)
    # By the instant at which they end, that of the window's end included.
    assert analysis.exchanges(found, "web", (2.1, 4.3))["start_s"].to_list() == [3, 4]
    loads = analysis.page_loads(found, "page")
    assert loads is not None and (loads.samples, loads.mean) == (2, 1)
    assert [analysis.unfinished(found, flow) for flow in ("web", "page", "film")] == [1, 1, 0]
    bins = [
        (each.above, each.up_to, each.completions.samples)
        for each in analysis.size_bins(found, "web")
    ]
    assert bins == [
        (0, 10_000, 1),
        (10_000, 100_000, 1),
        (100_000, 1_000_000, 1),
        (10_000_000, None, 1),
    ]


def test_viewers_of_a_film() -> None:
    rows = [
        done("startup", "film", 2, 2.5, stream=0),
        done("startup", "film", 2, 3.5, stream=1),
        done("segment", "film", 2, 3, stream=0, number=0, bitrate_bps=1_000_000),
        done("segment", "film", 3, 5, stream=0, number=1, bitrate_bps=2_000_000),
        done("segment", "film", 5, 6, stream=0, number=2, bitrate_bps=2_000_000),
        done("segment", "film", 2, 4, stream=1, number=0, bitrate_bps=2_000_000),
        done("stall", "film", 4, 4.5, stream=0),
        done("stall", "film", 6, None, stream=1),
    ]
    found = run(completions=rows)
    video = analysis.video(found, "film")
    # The second stall lasts to the end of the run, 10 s.
    assert astuple(video) == (1.0, 2, 4.5, 1_750_000, 1, 4)
    assert astuple(analysis.video(found, "film", (4.25, 7))) == (None, 1, 1.25, 2_000_000, 0, 2)
    # A stall counts where it begins, the start of a window included, and a segment where it ends.
    assert astuple(analysis.video(found, "film", (4, 6))) == (None, 1, 0.5, 2_000_000, 0, 2)
    assert astuple(analysis.video(found, "film", (0, 1))) == (None, 0, 0, None, 0, 0)


# Metrics


def test_metrics_of_two_targets() -> None:
    rows = [row(2, 8, bytes=600), row(2, 8, "data", bytes=200, retransmits=3, acks=50, sacks=5)]
    found = run(intervals=rows)
    assert evaluate(found, "ratio", ["call", "data"]) == 3
    assert evaluate(found, "ratio", ["call", "data"], (2, 8)) == 3
    assert evaluate(found, "ratio", ["call", "web"]) is None
    assert evaluate(found, "throughput", ["call"], (2, 5)) == 8 * 300 / 3
    assert evaluate(found, "throughput", ["call"]) == 8 * 600 / 10
    # Jain: 800² / (2 (600² + 200²)).
    assert evaluate(found, "fairness", ["call", "data"]) == pytest.approx(0.8)
    assert measure(found, "sack_share", "data") == 0.1
    assert measure(found, "retransmits", "data") == 3
    # A run that ended before the window tells nothing.
    cut = run(intervals=rows, duration_s=5.0, complete=False)
    assert evaluate(cut, "throughput", ["call"], (2, 5)) == 8 * 300 / 3
    assert evaluate(cut, "throughput", ["call"], (2, 5.1)) is None
    for metric, targets, words in (
        ("ratio", ["call"], "`ratio` has 1 targets; expected 2"),
        ("loss", ["call", "data"], "`loss` has 2 targets; expected one"),
        ("rpm", ["web"], "`rpm` has 1 targets; expected at least 2"),
    ):
        with pytest.raises(UsageError, match=words):
            evaluate(found, metric, targets)
    with pytest.raises(UsageError, match="`ratio` is a metric of two targets"):
        measure(found, "ratio", "call")


def test_an_idle_ping_beside_a_loaded_one() -> None:
    rows = [ping(0, 0.050), ping(1, 0.054), ping(2, 0.090), ping(3, 0.110), ping(9, 0.3)]
    found = run(pings=rows)
    bloat = analysis.bufferbloat(found, "probe", (1, 4))
    assert bloat is not None
    assert (bloat.idle, bloat.loaded, bloat.increase) == pytest.approx((0.052, 0.1, 0.048))
    assert bloat.grade == "B"
    assert measure(found, "bufferbloat", "probe", (1, 4)) == pytest.approx(0.048)
    assert analysis.bufferbloat(run(pings=rows[2:]), "probe") is None
    assert analysis.bufferbloat(run(pings=rows[:2]), "probe") is None


@pytest.mark.parametrize(
    ("line", "value", "ok"),
    [
        ("{throughput: call, at_least: 480 bps}", 480, True),
        ("{throughput: call, at_least: 481 bps}", 480, False),
        ("{throughput: call, at_most: 480 bps}", 480, True),
        ("{throughput: call, at_most: 479 bps}", 480, False),
        ("{throughput: call, during: 2 s..4 s, at_least: 800 bps}", 800, True),
        ("{loss: call, at_most: 25%}", 0.25, True),
        ("{loss: call, at_most: 24%}", 0.25, False),
        ("{loss: call, at_least: 26%}", 0.25, False),
        ("{owd_max: call, at_least: 19 ms}", None, False),
    ],
)
def test_bounds_are_within(line: str, value: float | None, *, ok: bool) -> None:
    rows = [row(2, 8, bytes=600, packets=75, lost=25)]
    (verdict,) = verdicts(run(f"expect: [{line}]", intervals=rows))
    assert (verdict.measured, verdict.ok) == (value, ok)
    (verdict,) = verdicts(run(f"expect: [{line}]", intervals=rows, duration_s=1.0, complete=False))
    assert (verdict.measured, verdict.ok) == (None, None)


def test_expectations_of_a_metric() -> None:
    more = (
        "expect: [{throughput: call, during: 2 s..4 s, at_least: 1 bps}, "
        "{loss: call, at_most: 1%}, {throughput: data, during: 2 s..9 s, at_least: 1 bps}]\n"
        "published: [{label: x, throughput: call, during: 3 s..5 s, value: 1 bps}]"
    )
    found = expected(run(more, duration_s=6.0, complete=False), "throughput")
    assert [window for _, window in found] == [(2, 4), (3, 5)]


# Ensembles


def test_an_interval_of_several_runs() -> None:
    # Of six, the interval is from the least to the greatest.
    assert astuple(spread([3.0, 1.0, 2.0, 9.0, 8.0, 7.0])) == (5, 1, 9, 6, 0)
    # Of nine, from the second to the eighth (1 + 9 of 512 are within 5%, 46 are not).
    assert astuple(spread([float(n) for n in range(9)])) == (4, 1, 7, 9, 0)
    # One that measured nothing may be anywhere.
    assert astuple(spread([None, 1.0, 2.0, 9.0, 8.0, 7.0])) == (7, None, None, 6, 1)
    assert astuple(spread([None, *map(float, range(1, 9))])) == (4.5, 1, 8, 9, 1)
    assert astuple(spread([5.0])) == (5, None, None, 1, 0)
    assert astuple(spread([None] * 6)) == (None, None, None, 6, 6)


@pytest.mark.parametrize(
    ("values", "state"),
    [
        ([480.0], "holds"),
        ([479.0], "fails"),
        ([480, 490, 500, 510, 520, 530], "holds"),
        ([480, 490, 500, 510, 520, 479], "undecided"),
        ([470, 471, 472, 473, 474, 479], "fails"),
        ([480, 490, 500, 510, 520, None], "undecided"),
        ([None] * 6, "fails"),
    ],
)
def test_an_expectation_over_several_runs(values: list[float | None], state: str) -> None:
    more = "expect: [{throughput: call, at_least: 480 bps}]"
    expectations = run(more).scenario.expect
    runs = [[Verdict("x", value is not None and value >= 480, value, "bps")] for value in values]
    (found,) = ensemble_verdicts(expectations, runs)
    assert (found.state, found.runs, found.missing) == (state, len(values), values.count(None))
    unreached = [[Verdict("x", None, None, "bps")], *runs[1:]]
    assert ensemble_verdicts(expectations, unreached)[0].state == "not reached"


# Comparisons


def test_two_runs_side_by_side() -> None:
    rows = [row(2, 8, bytes=600, packets=75, lost=25), row(2, 8, "data", bytes=200, retransmits=3)]
    one = run(
        intervals=rows, completions=EXCHANGES, pings=[ping(1, 0.1), ping(2, None), ping(4, 0.3)]
    )
    other = run(
        intervals=[row(2, 8, bytes=1200, packets=90, lost=10)],
        completions=[done("call", "web", 2, 3, bytes=1, opened=1)],
        pings=[ping(1, 0.2)],
    )
    found = analysis.compare([one, other])
    assert [phase.window for phase in found.phases] == [(0, 2), (2, 8), (8, 10)]
    assert [phase.sending for phase in found.phases] == [False, True, False]
    sending = found.phases[1]
    assert sending.throughput["call"].values == (800, 1600)
    assert sending.throughput["total"].values == (8 * 800 / 6, 1600)
    assert sending.share["call"].values == (0.75, 1)
    assert sending.share["data"].values == (0.25, 0)
    call, web, page = (found.flows[flow] for flow in ("call", "web", "page"))
    assert (call["loss"].values, call["loss"].packets) == ((0.25, 0.1), (100, 100))
    assert call["throughput"].values == (800, 1600)
    assert web["completion_median"].values == pytest.approx((0.25, 1))
    assert web["completion_p95"].values == pytest.approx((0.3 + 0.1 * 0.85, 1))
    assert page["page_load_median"].values == (1, None)
    assert page["page_load_p95"].values == (pytest.approx(1.45), None)
    assert found.flows["data"]["retransmits"].values == (3, 0)
    probe = found.pings["probe"]
    assert (probe["loss"].values, probe["loss"].packets) == ((1 / 3, 0), (3, 1))
    assert probe["rtt_median"].values == (0.2, 0.2)


def test_code_points_of_two_runs() -> None:
    def arrived(*counts: tuple[int, int]) -> list[dict[str, Any]]:
        return [
            row(2, 8, node="b", dscp_sent=46, dscp_arrived=dscp, packets=n) for dscp, n in counts
        ]

    found = analysis.compare(
        [run(codepoints=arrived((46, 30), (0, 10))), run(codepoints=arrived((46, 5)))]
    )
    shares = {str(path): each for path, each in found.codepoints["call"].items()}
    assert {name: (each.values, each.packets) for name, each in shares.items()} == {
        "ef as be at b": ((0.25, 0), (40, 5)),
        "ef as ef at b": ((0.75, 1), (40, 5)),
    }
    # A run that saw none knows nothing.
    found = analysis.compare([run(codepoints=arrived((0, 10))), run()])
    assert [each.values for each in found.codepoints["call"].values()] == [(1, None)]


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ([], ("run 1", "run 2")),
        ([("8 Mbps", "9 Mbps")], ("rate 8 Mbps", "rate 9 Mbps")),
        # Of two settings both are in the name, of three none.
        (
            [("size: 100 B", "size: 90 B"), ("duration: 10 s", "duration: 11 s")],
            ("size 100 B, duration 10 s", "size 90 B, duration 11 s"),
        ),
        (
            [
                ("8 Mbps", "9 Mbps"),
                ("size: 100 B", "size: 90 B"),
                ("duration: 10 s", "duration: 11 s"),
            ],
            ("run 1", "run 2"),
        ),
    ],
)
def test_runs_have_the_names_of_a_few_settings(
    changes: list[tuple[str, str]], names: tuple[str, str]
) -> None:
    text = TEXT.replace("MORE", "")
    for old, new in changes:
        text = text.replace(old, new)
    other = dataset(parse(text, "x.yaml"))
    assert len(analysis.compare([run(), other]).names) == 2
    assert analysis.compare([run(), other]).names == names


def test_classes_of_two_runs() -> None:
    def of(class_: str, **values: Any) -> dict[str, Any]:
        return {"start_s": 2, "end_s": 8, "link": "r>b", "class": class_, **values}

    one = run(
        queues=[
            of("gold", sent_bytes=300, dropped_packets=1),
            of("gold/in", sent_bytes=300),
            of("rest", sent_bytes=100, dropped_packets=4),
        ]
    )
    other = run(queues=[of("gold", sent_bytes=50), of("rest", sent_bytes=None)])
    found = analysis.compare([one, other]).classes["r>b"]
    assert {name: each["share"].values for name, each in found.items() if "share" in each} == {
        "gold": (0.75, None),
        "gold/in": (0.75, None),
        "rest": (0.25, None),
    }
    assert found["rest"]["dropped"].values == (4, 0)
