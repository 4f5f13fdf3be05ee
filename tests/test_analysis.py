import inspect
import json
import math
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import SLOW
from datasets import LEVELS, SCAVENGER, dataset, scavenger
from perhop import analysis
from perhop.dataset import Dataset
from perhop.errors import UsageError
from perhop.scenario import parse

TWO = """
perhop: 1
name: two
nodes: {a: host, b: host}
links: [{ends: [a, b], rate: 10 Mbps}]
flows:
  early: {from: a, to: b, stop: 6 s}
  late: {from: a, to: b, start: 4 s, stop: 10 s, streams: 2}
pings: {probe: {from: a, to: b}}
report: {interval: 2 s}
"""


def rows(flow: str, edges: list[float], amounts: list[int], **more: Any) -> list[dict[str, Any]]:
    spans = zip(edges[:-1], edges[1:], amounts, strict=True)
    return [{"flow": flow, "start_s": a, "end_s": b, "bytes": n, **more} for a, b, n in spans]


def two(text: str = TWO, **more: Any) -> Dataset:
    edges = [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]
    intervals = [
        *rows("early", edges, [1000, 3000, 500, 0, 0], packets=9, lost=1, retransmits=2),
        *rows("late", edges, [0, 0, 1500, 2000, 4000], stream=0),
        *rows("late", edges, [0, 0, 500, 500, 1000], stream=1),
    ]
    return dataset(parse(text, "two.yaml"), intervals, **more)


def probes(rtts: list[float | None]) -> Dataset:
    """Two flows, and a ping every 10 / n seconds with these round-trip times."""
    step = 10 / max(1, len(rtts))
    return two(
        pings=[
            {"ping": "probe", "sequence": i, "sent_s": i * step, "rtt_s": rtt}
            for i, rtt in enumerate(rtts)
        ]
    )


def test_throughput_is_bits_over_the_window() -> None:
    run = two()
    assert analysis.throughput(run, "early") == 8 * 4500 / 10
    assert analysis.throughput(run, "early", (0, 4)) == 8 * 4000 / 4
    assert analysis.throughput(run, "late", (4, 10)) == 8 * 9500 / 6
    assert analysis.throughput(run) == 8 * 14000 / 10
    assert analysis.throughput(run, "total", (4, 6)) == 8 * 2500 / 2


def test_a_window_across_a_row_takes_its_part() -> None:
    assert analysis.throughput(two(), "early", (1, 3)) == pytest.approx(8 * (500 + 1500) / 2)


def test_edges_that_binary_seconds_cannot_hold_do_not_split_rows() -> None:
    text = TWO.replace("interval: 2 s", "interval: 100 ms")
    edges = [i / 10 for i in range(101)]
    shifted = [math.nextafter(edge, 11) for edge in edges]
    run = dataset(parse(text, "x"), rows("early", shifted, [1] * 100, retransmits=1))
    assert analysis.count(run, "early", "retransmits", (0.3, 0.7)) == 4
    assert analysis.series(run).filter(flow="early").height == 100


def test_beyond_the_run_there_is_nothing() -> None:
    run = two(complete=False, duration_s=6.0)
    assert analysis.throughput(run, "early", (6, 8)) is None
    assert analysis.throughput(run, "early", (4, 8)) == 8 * 500 / 2
    assert analysis.active(run, "late") == (4, 6)


def test_phases_lie_between_changes_and_end_with_the_total() -> None:
    found = analysis.phases(two())
    assert found.columns == ["start_s", "end_s", "flow", "throughput_bps"]
    assert found.rows() == [
        (0, 4, "early", 8000),
        (0, 4, "late", 0),
        (0, 4, "total", 8000),
        (4, 6, "early", 2000),
        (4, 6, "late", 8000),
        (4, 6, "total", 10000),
        (6, 10, "early", 0),
        (6, 10, "late", 15000),
        (6, 10, "total", 15000),
    ]


def test_other_stretches_stand_in_for_phases() -> None:
    found = analysis.phases(two(), ((0.0, 2.0), (3.0, 6.0), (9.0, 12.0)))
    assert found.filter(flow="total").rows() == [
        (0, 2, "total", 4000),
        # Half of 3 kB, and 2.5 kB of both.
        (3, 6, "total", pytest.approx(8 * 4000 / 3)),
        # The run ends before the stretch does.
        (9, 10, "total", 8 * 2500),
    ]


def test_phases_of_an_interrupted_run_end_with_it() -> None:
    found = analysis.phases(two(complete=False, duration_s=5.0))
    assert found["end_s"].unique().sort().to_list() == [4, 5]


def test_a_run_prints_as_one_line() -> None:
    assert repr(two()) == str(two()) == "<Dataset of two: sim, seed 1, 10 s>"
    assert repr(two(complete=False, duration_s=5.0)).endswith(", 10 s, cut off at 5 s>")


def test_series_is_a_grid_of_every_flow_and_the_total() -> None:
    cells = analysis.series(two(), (0, 6), interval_s=4)
    assert cells.rows() == [
        (0, 4, "early", 8000),
        (4, 6, "early", 2000),
        (0, 4, "late", 0),
        (4, 6, "late", 8000),
        (0, 4, "total", 8000),
        (4, 6, "total", 10000),
    ]


def test_a_volume_is_active_until_it_is_delivered() -> None:
    text = TWO.replace("stop: 6 s", "volume: 4500 B").replace("report:", "duration: 10 s\nreport:")
    run = two(text)
    assert analysis.active(run, "early") == (0, 6)
    assert analysis.summary(run)["flows"]["early"]["throughput_bps"] == 8 * 4500 / 6


NARROWS = """
perhop: 1
name: narrows
nodes: {a: host, b: host, c: host, r1: router, r2: router}
links:
  - {ends: [a, r1], rate: 100 Mbps}
  - {ends: [r1, r2], rate: 10 Mbps, shape: {r2: {rate: 2 Mbps}}}
  - {ends: [r2, b], rate: 10 Mbps}
  - {ends: [a, c], rate: 40 Mbps}
flows:
  down: {from: a, to: b, stop: 8 s}
  up: {from: b, to: a, start: 4 s, stop: 8 s}
  beside: {from: a, to: c, start: 6 s, stop: 10 s}
changes:
  - {at: 2 s, on: r1>r2, rate: 50 Mbps}
"""


def narrow(run: Dataset) -> dict[tuple[float, str], tuple[str | None, int | None]]:
    rows = analysis.bottlenecks(run).iter_rows()
    return {(start, flow): (link, rate) for start, _, flow, link, rate in rows}


def test_a_flow_has_the_bottleneck_of_its_own_path_in_its_direction_at_the_time() -> None:
    found = narrow(dataset(parse(NARROWS, "x")))
    assert found[0.0, "down"] == ("r1>r2", 10_000_000)
    assert found[2.0, "down"] == ("r2>b", 10_000_000)  # after the change
    assert found[4.0, "up"] == ("r2>r1", 2_000_000)  # shaped
    assert found[6.0, "beside"] == ("a>c", 40_000_000)


def test_the_rate_of_a_bottleneck_may_be_more_than_a_signed_number_holds() -> None:
    text = """{perhop: 1, name: fast, nodes: {a: host, b: host}, duration: 10 s,
    links: [{ends: [a, b], rate: 18446744073.709551615 Gbps}], flows: {f: {from: a, to: b}}}"""
    found = narrow(dataset(parse(text, "x")))
    assert found[0.0, "f"] == ("a>b", 2**64 - 1)


def test_the_total_has_a_bottleneck_only_where_all_flows_share_it() -> None:
    found = narrow(dataset(parse(NARROWS, "x")))
    assert found[0.0, "total"] == ("r1>r2", 10_000_000)
    assert found[4.0, "total"] == found[6.0, "total"] == (None, None)
    assert found[8.0, "total"] == ("a>c", 40_000_000)
    late = rows("up", [0.0, 8.0, 10.0], [9000, 100])
    assert narrow(dataset(parse(NARROWS, "x"), late))[8.0, "total"] == (None, None)


def test_of_links_of_one_rate_the_bottleneck_is_the_busiest() -> None:
    for busy, expected in ((0.2, "r1>r2"), (0.9, "r2>b")):
        spans = [
            {"link": link, "start_s": 0.0, "end_s": 10.0, "utilisation": utilisation}
            for link, utilisation in (("r1>r2", 0.5), ("r2>b", busy))
        ]
        assert narrow(dataset(parse(NARROWS, "x"), links=spans))[0.0, "down"][0] == expected


def test_a_path_that_forks_has_no_bottleneck() -> None:
    second = "  - {ends: [r1, r2], name: second, rate: 10 Mbps}\n  - {ends: [r2, b]"
    found = narrow(dataset(parse(NARROWS.replace("  - {ends: [r2, b]", second), "x")))
    assert found[0.0, "down"] == (None, None)
    away = "changes:\n  - {at: 3 s, on: r1>r2#second, state: down}"
    text = NARROWS.replace("  - {ends: [r2, b]", second).replace("changes:", away)
    found = narrow(dataset(parse(text, "x")))
    assert found[2.0, "down"] == (None, None)
    assert found[3.0, "down"] == ("r2>b", 10_000_000)


def test_a_saturated_shaper_is_busy_all_the_time() -> None:
    stretch = {"link": "r2>r1", "start_s": 0.0, "end_s": 10.0}
    links = [{**stretch, "sent_bytes": 2_600_000, "utilisation": 0.208}]
    queues = [{**stretch, "class": "all", "sent_bytes": 2_500_000}]
    run = dataset(parse(NARROWS, "x"), links=links, queues=queues)
    assert analysis.link_loads(run)["utilisation"].to_list() == [1.0]


@pytest.mark.parametrize(
    ("amounts", "expected"),
    [
        ([100] * 10, 0),
        ([10, 50, 100, 100, 100, 100, 100, 100, 100, 100], 2),
        # A level crossed on the way up, with an overshoot after it.
        ([10, 100, 200, 100, 100, 100, 100, 100, 100, 100], 3),
        # A disturbance long after.
        ([10, 100, 100, 100, 100, 500, 100, 100, 100, 100], 1),
        ([0, 200] * 5, None),
        # The last intervals suffice if no others remain.
        ([0, 200, 0, 200, 0, 200, 0, 200, 100, 100], 8),
        ([0] * 10, 0),
    ],
)
def test_settling(amounts: list[int], expected: float | None) -> None:
    run = dataset(
        parse(TWO.replace("interval: 2 s", "interval: 1 s"), "x"),
        rows("early", [float(i) for i in range(11)], amounts),
    )
    assert analysis.settling(run, "early") == expected


def test_a_starved_flow_settles_within_a_part_of_the_total() -> None:
    edges = [float(i) for i in range(11)]
    run = dataset(
        parse(TWO.replace("interval: 2 s", "interval: 1 s"), "x"),
        [*rows("early", edges, [100, 0, 20, 0] + [10] * 6), *rows("late", edges, [1000] * 10)],
    )
    assert analysis.settling(run, "early") == 1
    assert analysis.settling(run, "early", (2, 10)) == 0


def test_the_scavenger_experiment_settles_within_a_second() -> None:
    run = scavenger()
    for flow, window in [
        ("best_effort", (30, 60)),
        ("scavenger", (30, 60)),
        ("priority", (60, 90)),
    ]:
        assert analysis.settling(run, flow, window) in (0, 1)


times = st.floats(1e-6, 10, allow_nan=False)


@SLOW
@given(st.lists(times, min_size=2, max_size=60))
def test_ping_statistics_are_those_of_the_standard_library(rtts: list[float]) -> None:
    found = analysis.rtt(probes([*rtts]), "probe")
    assert found is not None
    cuts = statistics.quantiles(rtts, n=100, method="inclusive")
    expected = {
        "samples": len(rtts),
        "min": min(rtts),
        "mean": statistics.fmean(rtts),
        "median": statistics.median(rtts),
        "p95": cuts[94],
        "p99": cuts[98],
        "max": max(rtts),
        "iqr": cuts[74] - cuts[24],
        "stdev": statistics.stdev(rtts),
    }
    for name, value in expected.items():
        assert getattr(found, name) == pytest.approx(value, rel=1e-9, abs=1e-9), name


def test_lost_pings_count_as_lost_and_nothing_else() -> None:
    run = probes([0.1, None, 0.3, None, 0.2])
    found = analysis.rtt(run, "probe")
    assert found is not None
    assert (found.samples, found.min, found.max) == (3, 0.1, 0.3)
    assert analysis.loss(run, "probe") == 0.4
    assert analysis.loss(run, "probe", (0, 4)) == 0.5
    assert analysis.rtt(run, "probe", (2, 4)) is None
    assert analysis.rtt(probes([]), "probe") is None
    assert analysis.loss(probes([]), "probe") is None


def test_a_single_ping_has_no_deviation() -> None:
    found = analysis.rtt(probes([0.1]), "probe")
    assert found is not None
    assert found.stdev is None
    assert found.iqr == 0


def histogram(samples: list[float]) -> list[dict[str, Any]]:
    bins = [math.floor(math.log(sample) / math.log(1.01)) for sample in samples]
    return [
        {
            "flow": "early",
            "start_s": 0.0,
            "end_s": 10.0,
            "low_s": 1.01**b,
            "high_s": 1.01 ** (b + 1),
            "samples": bins.count(b),
        }
        for b in sorted(set(bins))
    ]


@SLOW
@settings(max_examples=20)
@given(
    st.lists(st.floats(1e-3, 10), min_size=200, max_size=300),
    st.sampled_from([("rtt", analysis.flow_rtt), ("srtt", analysis.flow_srtt)]),
)
def test_flow_rtt_is_within_a_bin_of_the_samples(
    samples: list[float], of: tuple[str, Callable[..., analysis.Distribution | None]]
) -> None:
    name, measure = of
    taken = {f"{name}_s": statistics.fmean(samples), f"{name}_samples": len(samples)}
    taken |= {f"{name}_min_s": min(samples), f"{name}_max_s": max(samples)}
    intervals = rows("early", [0.0, 10.0], [1], **taken)
    tables: dict[str, Any] = {f"{name}s": histogram(samples)}
    found = measure(dataset(two().scenario, intervals, **tables), "early")
    assert found is not None
    assert (found.min, found.max) == (min(samples), max(samples))
    assert found.mean == pytest.approx(statistics.fmean(samples))
    assert found.stdev == pytest.approx(statistics.stdev(samples), rel=0.02, abs=0.1)
    for name, share in [("median", 50), ("p95", 95), ("p99", 99)]:
        near = np.percentile(samples, [max(0, share - 1), min(100, share + 1)])
        assert 0.98 * near[0] <= getattr(found, name) <= 1.02 * near[1]


def test_a_flow_without_samples_has_no_rtt() -> None:
    assert analysis.flow_rtt(two(), "early") is None
    assert analysis.flow_srtt(two(), "early") is None


def test_loss_of_a_flow_is_of_what_was_sent() -> None:
    run = two()
    assert analysis.loss(run, "early") == 5 / 50
    assert analysis.loss(run, "late") is None
    assert analysis.count(run, "early", "retransmits", (2, 6)) == 4


def test_measure_names_what_expectations_name() -> None:
    run = scavenger()
    window = (62.0, 90.0)
    assert analysis.measure(run, "throughput", "priority", window) == pytest.approx(7.1e6, rel=0.01)
    assert analysis.measure(run, "retransmits", "priority", window) == 28
    assert analysis.measure(run, "settling", "priority", (60, 90)) == 1
    assert analysis.measure(run, "loss", "as_priority") == analysis.loss(run, "as_priority")
    found = analysis.rtt(run, "as_scavenger", window)
    assert found is not None
    for name in ("min", "mean", "median", "p95", "p99", "max"):
        value = analysis.measure(run, f"rtt_{name}", "as_scavenger", window)
        assert value == getattr(found, name)
    with pytest.raises(UsageError, match="`goodness` is not a metric; there are metrics such as"):
        analysis.measure(run, "goodness", "priority")


def expecting(*lines: str) -> str:
    return TWO + "expect:\n" + "".join(f"  - {{{line}}}\n" for line in lines)


@pytest.mark.parametrize(
    ("line", "ok"),
    [
        ("throughput: early, at_least: 3600 bps", True),
        ("throughput: early, at_least: 3601 bps", False),
        ("throughput: early, at_most: 3600 bps", True),
        ("throughput: early, at_most: 3599 bps", False),
        ("throughput: early, during: 0 s..4 s, about: 8 kbps, within: 1%", True),
        ("throughput: early, about: 4 kbps, within: 10%", True),
        ("throughput: early, about: 4 kbps, within: 9%", False),
        ("throughput: total, at_least: 11200 bps, at_most: 11200 bps", True),
        ("loss: early, at_most: 10%", True),
        ("loss: early, at_most: 9%", False),
        ("loss: late, at_most: 100%", False),
        ("retransmits: early, at_most: 10", True),
        ("retransmits: early, at_most: 9", False),
        ("rtt_max: probe, at_most: 300 ms", True),
        ("rtt_max: probe, at_most: 299 ms", False),
    ],
)
def test_verdicts(line: str, ok: bool) -> None:
    run = two(expecting(line), pings=[{"ping": "probe", "rtt_s": 0.3}])
    (verdict,) = analysis.verdicts(run)
    assert verdict.ok is ok
    assert verdict.text == run.scenario.expect[0].text


def test_what_an_interrupted_run_did_not_see_is_not_reached() -> None:
    text = expecting(
        "throughput: early, at_most: 1 Gbps",
        "throughput: early, during: 4 s..8 s, at_most: 1 Gbps",
        "throughput: early, during: 0 s..4 s, at_most: 1 Gbps",
    )
    judged = analysis.verdicts(two(text, complete=False, duration_s=6.0))
    assert [(v.ok, v.measured) for v in judged] == [(None, None), (None, None), (True, 8000)]


def test_published_values_stand_beside_measured_ones() -> None:
    compared = analysis.against_published(scavenger())
    first, second = compared[:2]
    assert (first.label, first.qualifier, first.window) == ("alone", "above", (2, 30))
    assert first.published == 9e6
    assert second.measured is not None
    assert second.difference == pytest.approx(second.measured / 8.7e6 - 1)
    assert compared[5].note == "a guess"
    assert (compared[6].unit, compared[6].published, compared[6].measured) == ("s", 2, 1)


def test_summary_has_the_keys_that_the_json_promises() -> None:
    found = analysis.summary(scavenger())
    assert json.loads(json.dumps(found, allow_nan=False)) == json.loads(json.dumps(found))
    assert {"scenario", "engine", "seed", "duration_s", "wall_s", "version"} < found.keys()
    assert (found["events"], found["packet_hops"]) == (1_234_567, 345_678)
    flow = found["flows"]["priority"]
    assert {"bytes", "throughput_bps", "retransmits", "loss", "reordered", "rtt_s"} < flow.keys()
    spread = {"min", "mean", "median", "p95", "p99", "max", "iqr", "stdev"}
    assert spread < flow["rtt_s"].keys()
    assert flow["srtt_s"].keys() == flow["rtt_s"].keys()
    assert spread < found["pings"]["as_priority"]["rtt_s"].keys()
    phase = found["phases"][2]
    assert phase.keys() == {"start_s", "end_s", "throughput_bps", "total_bps"}
    assert (phase["start_s"], phase["end_s"]) == (60, 90)
    assert phase["throughput_bps"].keys() == {"scavenger", "best_effort", "priority"}
    assert phase["total_bps"] == pytest.approx(sum(phase["throughput_bps"].values()))
    counters = found["links"]["r1>r2"]["classes"]["priority"]
    promised = {"sent_bytes", "sent_packets", "dropped_packets", "marked_packets"}
    assert promised | {"conformed_packets", "exceeded_packets"} < counters.keys()
    assert counters["sent_bytes"] == flow["bytes"]
    assert all({"text", "ok", "measured"} < verdict.keys() for verdict in found["expect"])


def test_summary_of_a_run_without_a_row_is_whole_and_finite() -> None:
    run = dataset(parse(SCAVENGER, "x"))
    found = analysis.summary(run)
    json.dumps(found, allow_nan=False)
    assert found["flows"]["priority"]["throughput_bps"] == 0
    assert found["flows"]["priority"]["rtt_s"] is None
    assert len(found["phases"]) == len(LEVELS)


def test_summary_of_a_run_cut_off_at_once() -> None:
    run = dataset(parse(SCAVENGER, "x"), complete=False, duration_s=0.0)
    found = analysis.summary(run)
    json.dumps(found, allow_nan=False)
    assert found["phases"] == []
    assert found["flows"]["priority"]["throughput_bps"] is None


def of_a_name() -> list[tuple[str, str]]:
    """The functions of `perhop.analysis` that look at a run's flow or ping, and its parameter."""
    found = []
    for name in analysis.__all__:
        function = getattr(analysis, name)
        if inspect.isfunction(function):
            parameters = inspect.signature(function).parameters
            asked = [p for p in ("flow", "ping", "name", "target") if p in parameters]
            # Beside a flow, `name` is that of a table.
            asked = [p for p in asked if p != "name" or "flow" not in asked]
            found += [(name, p) for p in asked if "dataset" in parameters]
    return found


def test_every_function_of_a_flow_or_a_ping_is_checked_for_its_name() -> None:
    assert len(of_a_name()) >= 18


@pytest.mark.parametrize(("function", "parameter"), of_a_name())
def test_an_unknown_name_is_an_error_with_the_nearest_name(function: str, parameter: str) -> None:
    wrong = "prob" if parameter == "ping" else "earli"
    right = "probe" if parameter == "ping" else "early"
    others = {
        "count": {"column": "lost"},
        "histogram": {"name": "rtt"},
        "measure": {"metric": "throughput"},
    }
    more = others.get(function, {})
    with pytest.raises(UsageError, match=f"`{wrong}` is not a .*; did you mean `{right}`?"):
        getattr(analysis, function)(two(), **{parameter: wrong}, **more)


def test_a_name_of_the_wrong_kind_is_an_error() -> None:
    with pytest.raises(UsageError, match="`early` is not a ping of this run; there are probe"):
        analysis.rtt(two(), "early")
    with pytest.raises(UsageError, match="`probe` is not a flow of this run; there are early"):
        analysis.throughput(two(), "probe", (50, 60))
