"""Metrics, published values, comparisons and the summary of small tables, worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from datasets import dataset
from perhop import analysis
from perhop.analysis.judgement import Comparison, against_published, measure
from perhop.analysis.responsiveness import Bufferbloat, Responsiveness
from perhop.errors import UsageError
from perhop.scenario import parse

if TYPE_CHECKING:
    from perhop.dataset import Dataset

TEXT = """
perhop: 1
name: judged
duration: 10 s
nodes: {a: host, r: router, b: host}
links:
  - {ends: [a, r], rate: 1 Gbps}
  - {ends: [r, b], rate: 8 Mbps, delay: 5 ms}
flows:
  call: {from: a, to: b, udp: {rate: 1 Mbps}, start: 2 s, stop: 8 s}
  data: {from: a, to: b, start: 1 s, volume: 1 kB}
  voice: {from: a, to: b, start: 1 s, voice: g711, streams: 2}
  film: {from: b, to: a, start: 1 s, video: {bitrates: [1 Mbps, 2 Mbps]}}
  page: {from: b, to: a, start: 1 s, web: {}}
  web: {from: b, to: a, start: 1 s, rpc: {every: 1 s}}
pings: {probe: {from: a, to: b}, hops: {from: a, to: b, ttl: 1..3}}
report: {interval: 2 s}
MORE
"""


def run(more: str = "", **tables: Any) -> Dataset:
    return dataset(parse(TEXT.replace("MORE", more), "x.yaml"), **tables)


def row(start: float, end: float, flow: str = "call", **values: Any) -> dict[str, Any]:
    return {"start_s": start, "end_s": end, "flow": flow, **values}


# Metrics


QUEUE = {"link": "r>b", "start_s": 0.0, "end_s": 10.0}
TABLES: dict[str, Any] = {
    "intervals": [
        row(
            2, 8, packets=80, lost=20, reordered=4, duplicates=3, bytes=9000, extent=1.0,
            owd_samples=80, jitter_s=0.002,
        ),
        row(1, 5, "data", bytes=1000, retransmits=7, acks=10, sacks=4, completion_s=3.5),
    ],
    "queues": [
        {
            **QUEUE, "class": "gold", "sent_packets": 60, "sent_bytes": 6000, "dropped_packets": 20,
            "dropped_limit": 11, "dropped_policer": 6, "dropped_early": 3, "marked_packets": 5,
            "backlog_bytes": 700,
        },
        {
            **QUEUE, "class": "rest", "sent_packets": 15, "sent_bytes": 2000, "dropped_packets": 5,
            "dropped_limit": 5, "backlog_bytes": 200,
        },
    ],
    "links": [{**QUEUE, "utilisation": 0.3}],
    "pings": [
        {"ping": "probe", "sent_s": float(at), "rtt_s": rtt, "dscp_arrived": dscp}
        for at, (rtt, dscp) in enumerate([(0.1, 0), (0.3, 8), (0.2, 0), (0.2, 0)])
    ],
    "completions": [
        {"kind": "startup", "flow": "film", "start_s": 0.0, "end_s": 0.75},
        {"kind": "stall", "flow": "film", "start_s": 3.0, "end_s": 5.0},
        {"kind": "segment", "flow": "film", "start_s": 0, "end_s": 1, "bitrate_bps": 1_000_000},
        {
            "kind": "segment", "flow": "film", "number": 1, "start_s": 1, "end_s": 2,
            "bitrate_bps": 2_000_000,
        },
        {"kind": "page", "flow": "page", "start_s": 1.0, "end_s": 3.0},
        # Twice 5 ms, and 10 kB at 8 Mb/s: an ideal of 20 ms.
        {"kind": "call", "flow": "web", "start_s": 1.0, "end_s": 1.5, "bytes": 10_000},
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("metric", "target", "more", "expected"),
    [
        ("throughput", "call", {}, 8 * 9000 / 10),
        ("throughput", "total", {}, 8 * 10_000 / 10),
        ("loss", "call", {}, 0.2),
        ("jitter", "call", {}, 0.002),
        ("reordered", "call", {}, 0.05),
        ("duplicates", "call", {}, 3),
        ("retransmits", "data", {}, 7),
        ("sack_share", "data", {}, 0.4),
        ("completion", "data", {}, 3.5),
        ("dscp_kept", "probe", {}, 0.75),
        ("rtt_median", "probe", {}, 0.2),
        ("rtt_max", "probe", {}, 0.3),
        ("bufferbloat", "probe", {}, (0.3 + 0.2 + 0.2) / 3 - 0.1),
        ("startup", "film", {}, 0.75),
        ("stalls", "film", {}, 1),
        ("stall_time", "film", {}, 2),
        ("bitrate", "film", {}, 1_500_000),
        ("switches", "film", {}, 1),
        ("page_load_mean", "page", {}, 2),
        ("completion_mean", "web", {}, 0.5),
        ("slowdown_mean", "web", {}, 25),
        ("fairness", "call", {}, 1),
        ("utilisation", "r>b", {}, 0.3),
        ("drops", "r>b", {}, 25),
        ("drops", "r>b", {"cause": "full queue"}, 16),
        ("drops", "r>b", {"class_": "gold"}, 20),
        ("drops", "r>b", {"class_": "gold", "cause": "policer"}, 6),
        ("drops", "r>b", {"class_": "gold", "cause": "early drop"}, 3),
        # Of what was offered: 60 and 20.
        ("drop_share", "r>b", {"class_": "gold"}, 0.25),
        ("drop_share", "r>b", {"class_": "gold", "cause": "policer"}, 6 / 80),
        ("drop_share", "r>b", {}, 0.25),
        ("marks", "r>b", {}, 5),
        ("backlog_mean", "r>b", {}, 900),
        ("backlog_max", "r>b", {"class_": "rest"}, 200),
        ("sent_rate", "r>b", {}, 8 * 8000 / 10),
        ("sent_rate", "r>b", {"class_": "rest"}, 8 * 2000 / 10),
        ("share", "r>b", {"class_": "gold"}, 0.75),
        # Nothing was measured.
        ("sent_rate", "r>b", {"window": (11.0, 12.0)}, None),
        ("share", "r>b", {"class_": "gold", "window": (11.0, 12.0)}, None),
        ("drop_share", "r>b", {"window": (11.0, 12.0)}, None),
        ("bufferbloat", "probe", {"window": (5.0, 9.0)}, None),
        ("startup", "film", {"window": (3.0, 9.0)}, None),
        ("rtt_median", "probe", {"window": (5.0, 9.0)}, None),
    ],
)
def test_metrics_by_hand(
    metric: str, target: str, more: dict[str, Any], expected: float | None
) -> None:
    found = measure(run(**TABLES), metric, target, **more)
    assert found == (None if expected is None else pytest.approx(expected, rel=1e-12))


def test_shares_of_what_nobody_counted_are_none() -> None:
    hidden = dict.fromkeys(("sent_packets", "sent_bytes", "dropped_limit"))
    queues = [TABLES["queues"][0], TABLES["queues"][1] | hidden]
    found = run(queues=queues)
    asked: tuple[tuple[str, dict[str, Any]], ...] = (
        ("drop_share", {}),
        ("sent_rate", {}),
        ("share", {"class_": "gold"}),
        ("share", {"class_": "rest"}),
        ("drops", {"cause": "full queue"}),
        ("drop_share", {"class_": "rest", "cause": "full queue"}),
    )
    for metric, more in asked:
        assert measure(found, metric, "r>b", **more) is None, (metric, more)
    assert measure(found, "drop_share", "r>b", class_="gold") == 0.25
    hidden = {"dropped_packets": None}
    found = run(queues=[TABLES["queues"][0] | hidden])
    assert measure(found, "drop_share", "r>b", cause="policer") is None
    none = dict.fromkeys(("sent_packets", "sent_bytes", "dropped_packets"), 0)
    found = run(queues=[TABLES["queues"][0] | none])
    assert measure(found, "drop_share", "r>b") is None
    assert measure(found, "share", "r>b", class_="gold") is None


def test_a_ratio_is_of_any_metric_and_of_nothing_none() -> None:
    found = run(**TABLES)
    both = ["probe", "probe"]
    assert analysis.evaluate(found, "ratio", both, of="rtt_max") == 1
    assert analysis.evaluate(found, "ratio", ["call", "voice"]) is None
    assert analysis.evaluate(found, "ratio", ["voice", "call"]) == 0
    assert analysis.evaluate(found, "fairness", ["call", "data"]) == pytest.approx(
        10**2 / (2 * (9**2 + 1**2))
    )
    assert analysis.evaluate(found, "drops", ["r>b"], class_="gold", cause="policer") == 6
    unreported = run(intervals=[row(2, 8, bytes=None), row(1, 5, "data", bytes=1)])
    assert analysis.evaluate(unreported, "fairness", ["call", "data"]) is None
    for metric, targets, words in (
        ("fairness", [], "`fairness` has 0 targets; expected at least 1"),
        ("ratio", ["call"] * 3, "`ratio` has 3 targets; expected 2"),
    ):
        with pytest.raises(UsageError, match=words):
            analysis.evaluate(found, metric, targets)


# Published values


def published(value: float | None, measured: float | None = None, **more: Any) -> Comparison:
    given = {"qualifier": "about", "difference": None, "unit": "bps", "note": "", **more}
    window = (0.0, 1.0)
    return Comparison("x", "throughput", "call", window, value, measured=measured, **given)


@pytest.mark.parametrize(
    ("value", "precision", "expected"),
    [
        (0.944, None, (0.9435, 0.9445)),
        (150, None, (145, 155)),
        (150.0, None, (145, 155)),
        (8.7e6, None, (8.65e6, 8.75e6)),
        (0, None, (0, 0)),
        (150, 1, (149, 151)),
        (None, None, None),
    ],
)
def test_what_a_printed_value_stands_for(
    value: float | None, precision: float | None, expected: tuple[float, float] | None
) -> None:
    found = published(value, precision=precision).stands_for
    assert found == (None if expected is None else pytest.approx(expected))


@pytest.mark.parametrize(
    ("measured", "more", "expected"),
    [
        (100, {"qualifier": "above"}, True),
        (99, {"qualifier": "above"}, False),
        (100, {"qualifier": "below"}, True),
        (101, {"qualifier": "below"}, False),
        (125, {"within": 0.25}, True),
        (126, {"within": 0.25}, False),
        (75, {"within": 0.25}, True),
        (74, {"within": 0.25}, False),
        (100, {}, None),
        (None, {"within": 0.25}, None),
        # A bound needs no tolerance.
        (50, {"qualifier": "below", "within": 0.25}, True),
    ],
)
def test_agreement_with_a_published_value(
    measured: float | None, more: dict[str, Any], expected: bool | None
) -> None:
    assert published(100, measured, **more).agrees is expected
    assert published(None, measured, **more).agrees is None
    if "within" in more and measured is not None and more.get("qualifier") is None:
        assert published(-100, -measured, **more).agrees is expected


def test_published_values_have_units_of_results() -> None:
    more = """
published:
  - {label: one, throughput: call, during: 2 s..8 s, value: 10 kbps, within: 25%, precision: 1 kbps}
  - {label: two, loss: call, value: 16%, basis: assumed, qualifier: below, note: a guess}
  - {label: none, loss: call, value: 0%}
  - {label: rtt, rtt_max: probe, value: 200 ms, precision: 5 ms}
  - {label: silent, rtt_max: probe, during: 8 s..9 s, value: 200 ms}
"""
    one, two, none, rtt, silent = against_published(run(more, **TABLES))
    assert (one.measured, one.published, one.unit) == (12_000, 10_000, "bps")
    assert one.difference == pytest.approx(0.2)
    assert (one.within, one.precision) == (0.25, 1000)
    assert (one.window, one.agrees, one.basis) == ((2, 8), True, "stated")
    assert (two.measured, two.published, two.unit, two.agrees) == (0.2, 0.16, "share", False)
    assert (two.window, two.note, two.basis, two.within) == ((0, 10), "a guess", "assumed", None)
    assert (none.published, none.difference, none.measured) == (0, None, 0.2)
    assert (rtt.measured, rtt.published, rtt.unit, rtt.precision) == (0.3, 0.2, "s", 0.005)
    assert rtt.difference == pytest.approx(0.5)
    assert (rtt.metric, rtt.target) == ("rtt_max", "probe")
    assert (silent.measured, silent.difference) == (None, None)


def test_grades_begin_at_their_limits() -> None:
    # DSLReports: below 5, 30, 60, 200 and 400 ms.
    grades = [Bufferbloat(0, n / 1000).grade for n in (4.999, 5, 29.999, 30, 60, 200, 400)]
    assert grades == ["A+", "A", "A", "B", "C", "D", "F"]
    assert [Bufferbloat(0, n / 1000).grade for n in (59.999, 199.999, 399.999)] == ["B", "C", "D"]
    ratings = [Responsiveness(n, n).rating for n in (299, 300, 999, 1000, 5999, 6000)]
    assert ratings == ["poor", "fair", "fair", "good", "good", "excellent"]


# Comparisons


def manifest(found: Dataset, **values: Any) -> Dataset:
    return replace(found, manifest=found.manifest.model_copy(update=values))


def test_runs_are_named_by_engine_seed_and_scenario() -> None:
    one = run(**TABLES)
    engines = analysis.compare([one, manifest(one, engine="emu")])
    assert engines.names == ("sim", "emu")
    assert [(each.path, each.values) for each in engines.differences] == [
        ("engine", ("sim", "emu"))
    ]
    seeds = analysis.compare([one, manifest(one, seed=2), manifest(one, seed=2)])
    assert seeds.names == ("seed 1", "seed 2", "seed 2 (2)")
    both = analysis.compare([one, manifest(one, engine="emu", seed=2)])
    assert both.names == ("sim, seed 1", "emu, seed 2")
    cut = analysis.compare([one, manifest(one, complete=False, duration_s=6.5)])
    assert [(each.path, each.values) for each in cut.differences] == [
        ("cut off at", (None, "6.5 s"))
    ]
    assert cut.names == ("run 1", "run 2")
    assert [phase.window for phase in cut.phases] == [(0, 1), (1, 2), (2, 6.5)]
    # A run that ended as a phase began has nothing of it.
    short = analysis.compare([one, manifest(one, complete=False, duration_s=2.0)])
    assert [phase.window for phase in short.phases] == [(0, 1), (1, 2)]
    assert [phase.sending for phase in short.phases] == [False, True]
    # Of many settings the name of the scenario stands for all, if it is another one.
    text = TEXT.replace("MORE", "").replace("judged", "other").replace("8 Mbps", "9 Mbps")
    text = text.replace("1 Mbps}", "3 Mbps}").replace("5 ms", "6 ms")
    assert analysis.compare([one, dataset(parse(text, "x"))]).names == ("run 1", "other")
    assert analysis.compare([one, one, one], ["a"] * 3).names == ("a", "a (2)", "a (3)")


def test_words_about_a_scenario_are_no_difference() -> None:
    words = "title: x\nsource: y\ndescription: z\nexpect: [{loss: call, at_most: 1%}]\n"
    words += "published: [{label: x, loss: call, value: 1%}]"
    assert analysis.compare([run(), run(words)]).differences == ()


def test_counters_of_a_router_are_compared_with_any_run() -> None:
    one = run(**TABLES)
    router = manifest(one, engine="router", seed=0)
    found = analysis.compare([one, router, manifest(one, seed=5)])
    # Of a router no setting is known.
    assert [(each.path, each.values) for each in found.differences] == [
        ("engine", ("sim", "router", "sim")),
        ("seed", (1, None, 5)),
    ]


def test_runs_with_one_name_in_common_are_compared() -> None:
    other = """
perhop: 1
name: other
duration: 10 s
nodes: {x: host, y: host}
links: [{ends: [x, y], rate: 1 Mbps}]
"""
    with pytest.raises(UsageError, match=r"no flow, ping or link in common with run 1 \(judged\)"):
        analysis.compare([run(), dataset(parse(other, "x"))], ["run 1", "b"])
    alike = other + "pings: {probe: {from: x, to: y}}\n"
    assert analysis.compare([run(), dataset(parse(alike, "x"))], ["a", "b"]).names == ("a", "b")
    alike = other.replace("[x, y]", "[a, r]").replace("x: host, y: host", "a: host, r: host")
    assert analysis.compare([run(), dataset(parse(alike, "x"))], ["a", "b"]).names == ("a", "b")


def test_what_is_compared_of_two_runs() -> None:
    delays: dict[str, Any] = {
        "owd_samples": 10,
        "owd_s": 0.03,
        "owd_min_s": 0.01,
        "owd_max_s": 0.05,
    }
    one = run(**{**TABLES, "intervals": [row(2, 8, packets=80, lost=20, reordered=8, **delays)]})
    other = run(intervals=[row(2, 8, packets=90, lost=10, reordered=9)])
    found = analysis.compare([one, other])
    # Of datagrams only. That of the second run is not known.
    assert found.tcp == {"data", "film", "page", "web"}
    (sending,) = (phase for phase in found.phases if phase.queueing)
    assert (sending.window, list(sending.queueing)) == ((2, 8), ["call"])
    assert sending.queueing["call"].values == pytest.approx((0.02, None))
    call, film, web = (found.flows[flow] for flow in ("call", "film", "web"))
    assert (call["reordered"].values, call["reordered"].packets) == ((0.1, 0.1), (100, 100))
    assert call["loss"].unit == "share"
    # A run without a segment has no time in stalls.
    assert {name: film[name].values for name in ("startup", "bitrate", "stall_time")} == {
        "startup": (0.75, None),
        "bitrate": (1_500_000, None),
        "stall_time": (2, None),
    }
    assert web["completion_median"].values == (0.5, None)
    assert "completion_median" not in call
    assert found.pings["probe"]["rtt_p99"].values == pytest.approx((0.2 + 0.1 * 0.97, None))
    # Of several nodes there is no one round-trip time.
    assert found.pings["hops"] == {}
    assert found.covered_s == 10


# Calls and the summary


def voice(start: float, stream: int, played: int, packets: int = 100) -> dict[str, Any]:
    lost = packets - played
    return row(
        start, start + 2, "voice", stream=stream, packets=packets, played=played, late=lost // 2,
        bursts=1 if lost else 0, delay_s=0.05 * played,
    )  # fmt: skip


CALLS = [
    voice(0, 0, 100),
    voice(0, 1, 90),
    voice(2, 0, 80),
    voice(2, 1, 100),
    voice(4, 0, 0),
    voice(6, 0, 0, packets=0),
]


def test_the_worst_call_of_each_interval() -> None:
    found = run(calls=CALLS)
    scores = analysis.mos_over_time(found)
    assert scores.columns == ["flow", "start_s", "end_s", "mos"]
    # The worse one of each interval; what is not heard has a 1; without packets there is no score.
    assert scores.select("flow", "start_s", "end_s").rows() == [
        ("voice", 0, 2),
        ("voice", 2, 4),
        ("voice", 4, 6),
    ]
    parts = [analysis.calls(found, "voice", window) for window in ((0.0, 2.0), (2.0, 4.0))]
    worst = [min(call.mos or 0 for call in part) for part in parts]
    assert [part[n].mos for part, n in zip(parts, (1, 0), strict=True)] == worst
    assert scores["mos"].to_list() == [*worst, 1]
    assert [call.number for call in analysis.calls(found, "voice", (4.0, 8.0))] == [0]
    assert analysis.calls(found, "voice", (6.0, 8.0)) == []
    assert analysis.calls(found, "call") == []
    assert measure(found, "mos", "voice", (6.0, 8.0)) is None


def test_no_more_packets_are_late_than_were_not_played() -> None:
    # A packet and its copy may both be late.
    rows = [voice(0, 0, 95) | {"late": 8}, voice(0, 1, 95) | {"late": 3}]
    one, two = analysis.calls(run(calls=rows), "voice")
    assert (one.lost, one.late) == (0, 0.05)
    assert (two.lost, two.late) == (0.02, 0.03)


def test_the_summary_of_flows() -> None:
    found = analysis.summary(run(calls=CALLS, **TABLES))
    flows = found["flows"]
    expected: dict[str, dict[str, Any]] = {
        "call": {
            "start_s": 2,
            "end_s": 8,
            "bytes": 9000,
            "throughput_bps": 12_000,
            "completion_s": None,
            "loss": 0.2,
            "lost_by": [],
            "reordered": 4,
            "reordered_share": 0.05,
            "reordered_by_3": None,
            "extent_mean": 1,
            "extent_max": None,
            "duplicates": 3,
            "reorder_density": None,
            "rtt_s": None,
            "owd_bound_s": None,
            "jitter_s": 0.002,
            "codepoints": [],
            "ecn": [],
        },
        # A volume ends with the last interval in which data arrived.
        "data": {
            "start_s": 1,
            "end_s": 5,
            "throughput_bps": 2000,
            "retransmits": 7,
            "sack_share": 0.4,
            "completion_s": 3.5,
            "duplicates": None,
        },
        "film": {
            "startup_s": 0.75,
            "stalls": 1,
            "stall_time_s": 2,
            "bitrate_bps": 1_500_000,
            "switches": 1,
            "segments": 2,
        },
        "page": {"unfinished": 0},
        "web": {"unfinished": 0},
    }
    for flow, values in expected.items():
        assert {key: flows[flow][key] for key in values} == values, flow
    assert flows["page"]["page_loads_s"]["mean"] == 2
    assert flows["web"]["completions_s"]["mean"] == 0.5
    assert flows["web"]["slowdowns"]["max"] == pytest.approx(25)
    (size,) = flows["web"]["sizes"]
    assert (size["above"], size["up_to"], size["completions_s"]["samples"]) == (0, 10_000, 1)
    assert "calls" not in flows["call"] and "unfinished" not in flows["call"]
    assert len(flows["voice"]["calls"]["each"]) == 2
    assert "startup_s" not in flows["web"] and "sizes" not in flows["film"]


def test_the_summary_of_the_rest() -> None:
    more = """
expect:
  - {bufferbloat: probe, during: 1 s..4 s, at_most: 1 s}
  - {rpm: [web, data], at_least: 1}
"""
    text = TEXT.replace("rpc: {every: 1 s}", "rpc: {every: 1 s, connections: new}")
    bins = [row(1, 5, "data", low_s=0.04, high_s=0.06, samples=5)]
    calls = [*TABLES["completions"][:-1], TABLES["completions"][-1] | {"opened": 1}]
    tables = {**TABLES, "completions": calls, "srtts": bins}
    found = analysis.summary(dataset(parse(text.replace("MORE", more), "x.yaml"), **tables))
    # The call and its handshake take 500 ms together, and a loaded round trip 50 ms.
    (rpm,) = found["responsiveness"]
    assert rpm == {
        "probes": "web",
        "load": ["data"],
        "start_s": 0,
        "end_s": 10,
        "rpm": pytest.approx((60 / 0.25 + 60 / 0.05) / 2),
        "rating": "fair",
        "foreign": pytest.approx(60 / 0.25),
        "loaded": pytest.approx(60 / 0.05),
    }
    (bloat,) = found["bufferbloat"]
    assert bloat == {
        "ping": "probe",
        "start_s": 1,
        "end_s": 4,
        "idle_s": 0.1,
        "loaded_s": pytest.approx(0.7 / 3),
        "increase_s": pytest.approx(0.4 / 3),
        "grade": "C",
    }
    probe, hops = found["pings"]["probe"], found["pings"]["hops"]
    assert (probe["sent"], probe["received"], probe["under_way"], probe["loss"]) == (4, 4, 0, 0)
    assert probe["rtt_s"]["median"] == 0.2
    assert hops == {"sent": 0, "received": 0, "loss": None, "rtt_s": None, "hops": []}
    link = found["links"]["r>b"]
    assert (link["utilisation"], link["utilisation_max"]) == (0.3, 0.3)
    assert list(link["classes"]) == ["gold", "rest"]
    assert link["classes"]["gold"]["dropped_policer"] == 6
    assert "link" not in link and "class" not in link["classes"]["gold"]
    first, *_ = found["phases"]
    assert (first["start_s"], first["end_s"]) == (0, 1)
    bits = [each["total_bps"] * (each["end_s"] - each["start_s"]) for each in found["phases"]]
    assert sum(bits) == pytest.approx(8 * 10_000)
    assert first["throughput_bps"].keys() == found["flows"].keys()
    assert "channels" not in found and "tunnels" not in found and "agents" not in found
    assert (found["scenario"], found["engine"], found["seed"]) == ("judged", "sim", 1)
    assert (found["duration_s"], found["wall_s"], found["complete"]) == (10, 0.5, True)
    assert [verdict["ok"] for verdict in found["expect"]] == [True, True]


def test_results_of_a_function_are_kept_by_its_arguments() -> None:
    found = run(calls=CALLS)
    first = analysis.calls(found, "voice")
    assert analysis.calls(found, flow="voice") is first
    assert analysis.calls(found, "voice", None) is first
    assert analysis.calls(found, "voice", window=(0.0, 2.0)) is not first
    assert analysis.calls(found, "call") is not first
    # A summary is the caller's own.
    analysis.flow_summaries(found)["voice"]["calls"]["each"].clear()
    assert len(analysis.flow_summaries(found)["voice"]["calls"]["each"]) == 2
