"""Values that follow from the tables of a run, worked out by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from datasets import dataset
from perhop import analysis
from perhop.analysis.links import class_counts, counter_readings, link_loads
from perhop.analysis.losses import class_losses, losses
from perhop.analysis.throughput import delivered_in, settling
from perhop.analysis.windows import clip, cut, tally
from perhop.errors import UsageError
from perhop.scenario import parse

if TYPE_CHECKING:
    from perhop.dataset import Dataset

TEXT = """
perhop: 1
name: tables
nodes: {a: host, r: router, b: host}
links:
  - {ends: [a, r], rate: 100 Mbps}
  - {ends: [r, b], rate: 10 Mbps, egress: {r: p}}
policies:
  p: {classes: {gold: {match: {dscp: af11}, unused: true, classes: {all: {match: any}}},
      rest: {match: any}}}
flows:
  call: {from: a, to: b, stop: 8 s, udp: {rate: 1 Mbps}}
  data: {from: a, to: b, stop: 8 s}
pings: {probe: {from: a, to: b, every: 1 s}}
report: {interval: 2 s}
CHANGES
"""


def run(changes: str = "", **tables: Any) -> Dataset:
    return dataset(parse(TEXT.replace("CHANGES", changes), "x.yaml"), **tables)


def row(start: float, end: float, **values: Any) -> dict[str, Any]:
    return {"start_s": start, "end_s": end, **values}


def call(start: float, **values: Any) -> dict[str, Any]:
    return row(start, start + 2, flow="call", **values)


# Arrivals


JITTERS = [
    call(0, packets=10, owd_samples=10, jitter_s=0.010),
    call(2, packets=30, owd_samples=30, jitter_s=0.002),
    call(4, packets=60, jitter_s=None),
    call(6, packets=5, owd_samples=0, jitter_s=0.020),
]


def test_jitter_is_a_mean_over_packets() -> None:
    # (10 · 10 + 30 · 2 + 5 · 20) / 45 ms; of the third interval nothing is known.
    found = run(intervals=JITTERS)
    assert analysis.jitter(found, "call") == pytest.approx(0.260 / 45, rel=1e-12)
    # Half of the first interval: 5 packets of 10 ms, 30 of 2.
    assert analysis.jitter(found, "call", (1, 4)) == pytest.approx(0.110 / 35, rel=1e-12)
    assert analysis.jitter(found, "call", (4, 6)) is None
    assert analysis.jitter(found, "data") is None


def test_jitter_counts_one_way_delays_rather_than_packets() -> None:
    rows = [
        call(0, packets=100, owd_samples=1, jitter_s=0.004),
        call(2, packets=1, owd_samples=3, jitter_s=0.008),
    ]
    assert analysis.jitter(run(intervals=rows), "call") == pytest.approx(0.007, rel=1e-12)


def test_order_of_packets() -> None:
    rows = [
        call(0, packets=40, reordered=4, reordered_by_3=1, extent=2.0, extent_max=5, duplicates=2),
        call(2, packets=60, reordered=1, reordered_by_3=1, extent=12.0, extent_max=12),
        row(0, 2, flow="data", packets=50, reordered=5, reordered_by_3=3, extent=1.0, extent_max=1),
    ]
    found = run(intervals=rows)
    order = analysis.order(found, "call")
    assert (order.reordered, order.share, order.by_three) == (5, 0.05, 2)
    # (4 · 2 + 1 · 12) / 5.
    assert (order.extent_mean, order.extent_max, order.duplicates) == (4, 12, 2)
    # Of half of the first interval: 2 reordered of 20.
    half = analysis.order(found, "call", (1, 2))
    assert (half.reordered, half.share, half.extent_mean) == (2, 0.1, 2)
    # Of TCP only the number is known.
    tcp = analysis.order(found, "data")
    assert (tcp.reordered, tcp.share) == (5, 0.1)
    assert (tcp.by_three, tcp.extent_mean, tcp.duplicates) == (None, None, None)
    nothing = analysis.order(run(intervals=[call(0, reordered=0)]), "call")
    assert (nothing.reordered, nothing.share, nothing.extent_mean) == (0, None, None)
    unknown = analysis.order(run(intervals=[call(0, packets=7)]), "call")
    assert (unknown.reordered, unknown.share, unknown.extent_mean) == (None, None, None)


def test_displacements_are_shares_of_packets() -> None:
    rows = [
        {"flow": "call", "by": 0, "early": 0, "late": 90},
        {"flow": "call", "by": 1, "early": 6, "late": 2},
        {"flow": "call", "by": 3, "early": 0, "late": 2},
    ]
    found = analysis.reorder_density(run(displacements=rows), "call")
    assert found == {-1: 0.06, 0: 0.9, 1: 0.02, 3: 0.02}
    assert list(found) == sorted(found)
    assert analysis.reorder_density(run(), "call") == {}


# Windows


def test_windows_lie_in_the_run() -> None:
    found = run(duration_s=6.0, complete=False)
    assert clip(found, None) == (0, 6)
    assert clip(found, (-1, 4)) == (0, 4)
    assert clip(found, (4, 9)) == (4, 6)
    assert clip(found, (6, 7)) is None
    assert clip(found, (3, 3)) is None


def test_rows_at_an_edge_count_in_part() -> None:
    rows = [call(0), call(2), call(4)]
    table = run(intervals=rows).intervals
    assert cut(table, (0.5, 4.5))["weight"].to_list() == [0.75, 1, 0.25]
    assert cut(table, (0, 6))["weight"].to_list() == [1, 1, 1]
    assert cut(table, (2, 4))["weight"].to_list() == [1]
    # What binary seconds add is nothing, or the whole.
    assert cut(table, (2 - 1e-10, 4 + 1e-10))["weight"].to_list() == [1]
    assert cut(table, (2 + 1e-10, 4 - 1e-10))["weight"].to_list() == [1]
    assert cut(table, (2 + 1e-8, 4))["weight"].to_list() == [pytest.approx(1 - 5e-9, abs=1e-15)]


def test_a_tally_adds_what_is_known() -> None:
    rows = [call(0, bytes=1000, packets=4, lost=None), call(2, bytes=500, packets=2, lost=None)]
    found = tally(run(intervals=rows), "call", (0, 3))
    assert (found["bytes"], found["packets"]) == (1250, 5)
    assert found["lost"] is None


def test_bytes_of_several_windows() -> None:
    rows = [
        call(0, bytes=100),
        call(2, bytes=40),
        call(4, bytes=20),
        row(0, 6, flow="data", bytes=60),
    ]
    found = delivered_in(run(intervals=rows), [(0.0, 1.0), (1.0, 2.0), (2.0, 5.0)])
    assert found == [
        {"call": 50, "data": 10},
        {"call": 50, "data": 10},
        {"call": 50, "data": 30},
    ]


# Throughput


@pytest.mark.parametrize(
    ("amounts", "expected"),
    [
        # Levels by hand: the median of the flow, 20% of it and 2% of the median total.
        ([100, 100, 100, 100], 0),
        ([50, 100, 100, 100], 2),
        ([50, 100, 100, 50], None),  # the last of the window is far
        ([100, 50, 100, 100], 4),
        # 78 is 22 below 100: exactly 20% of 100 and 2% of 100.
        ([78, 100, 100, 100], 0),
        ([77, 100, 100, 100], 2),
    ],
)
def test_a_flow_settles_near_its_median(amounts: list[int], expected: float | None) -> None:
    rows = [call(2.0 * index, bytes=n * 1000) for index, n in enumerate(amounts)]
    assert settling(run(intervals=rows), "call") == expected


def test_three_intervals_in_a_row_are_settled() -> None:
    text = TEXT.replace("CHANGES", "").replace("interval: 2 s", "interval: 1 s")
    amounts = [0, 100, 100, 0, 100, 100, 100, 0]
    rows = [row(i, i + 1, flow="call", bytes=n) for i, n in enumerate(amounts)]
    found = dataset(parse(text, "x.yaml"), rows)
    assert settling(found, "call") == 4
    assert settling(found, "call", (1, 7)) == 3


# Queues and links


def queue(start: float, class_: str = "rest", link: str = "r>b", **values: Any) -> dict[str, Any]:
    return row(start, start + 2, link=link, **{"class": class_}, **values)


QUEUES = [
    queue(
        0, sent_packets=10, sent_bytes=1000, dropped_packets=3, dropped_limit=3, backlog_packets=4
    ),
    queue(
        2, sent_packets=20, sent_bytes=2000, dropped_packets=1, dropped_early=1, backlog_packets=8
    ),
    queue(0, "gold", sent_packets=6, sent_bytes=600, dropped_policer=2, dropped_packets=2),
    queue(2, "gold", sent_packets=2, sent_bytes=200, backlog_packets=2),
    queue(0, "gold/all", sent_packets=6, sent_bytes=600),
    queue(0, "all", "a>r", sent_packets=99, sent_bytes=9900, dropped_packets=1, dropped_limit=1),
]


def test_counters_of_a_class_and_of_a_link() -> None:
    found = run(queues=QUEUES)
    rest = class_counts(found, "r>b", "rest")
    assert (rest["sent_packets"], rest["sent_bytes"], rest["dropped_packets"]) == (30, 3000, 4)
    assert (rest["backlog_packets"], rest["backlog_packets_max"]) == (6, 8)
    # Classes inside others count once; backlogs add up at the end of a row.
    every = class_counts(found, "r>b")
    assert (every["sent_packets"], every["dropped_packets"]) == (38, 6)
    assert (every["backlog_packets"], every["backlog_packets_max"]) == (7, 10)
    # Three quarters of the rows; the second row ends outside.
    part = class_counts(found, "r>b", "rest", (0, 3))
    assert (part["sent_packets"], part["backlog_packets"]) == (20, 4)
    with pytest.raises(UsageError, match="`bronze` is not a class of r>b in this run"):
        class_counts(found, "r>b", "bronze")
    with pytest.raises(UsageError, match="`r>c` is not a directed link of this run"):
        class_counts(found, "r>c")


def test_losses_of_classes_by_cause() -> None:
    links = [row(0, 2, link="r>b", sent_packets=38, lost_packets=2)]
    found = class_losses(run(queues=QUEUES, links=links))
    assert found.rows() == [
        ("r>b", "rest", "full queue", 3, pytest.approx(3 / 34)),
        ("r>b", "gold", "policer", 2, pytest.approx(2 / 10)),
        ("r>b", None, "wire", 2, pytest.approx(2 / 38)),
        ("a>r", "all", "full queue", 1, pytest.approx(1 / 100)),
        ("r>b", "rest", "early drop", 1, pytest.approx(1 / 34)),
    ]


def test_losses_of_a_flow_by_place() -> None:
    intervals = [call(0, packets=90, lost=6), call(2, packets=100, lost=4)]
    lost = [
        call(0, link="r>b", cause="full queue", packets=2),
        call(2, link="r>b", cause="full queue", packets=4),
        call(0, link="a>r", cause="wire", packets=4),
    ]
    found = run(intervals=intervals, losses=lost)
    assert losses(found, "call").rows() == [
        ("r>b", "full queue", 6, 0.03),
        ("a>r", "wire", 4, 0.02),
    ]
    # In the second interval 4 of 104.
    assert losses(found, "call", (2, 4)).rows() == [
        ("r>b", "full queue", 4, pytest.approx(4 / 104))
    ]
    assert losses(found, "data").is_empty()


def test_loads_are_means_over_time() -> None:
    links = [
        row(0, 2, link="r>b", sent_packets=10, sent_bytes=100, utilisation=0.5),
        row(2, 8, link="r>b", sent_packets=30, sent_bytes=900, lost_packets=3, utilisation=0.9),
        row(0, 8, link="a>r", sent_packets=1, sent_bytes=64, utilisation=0.1),
    ]
    found = run(links=links)
    (first, second) = link_loads(found).to_dicts()
    assert (first["link"], first["sent_packets"], first["sent_bytes"]) == ("r>b", 40, 1000)
    # (2 · 0.5 + 6 · 0.9) / 8.
    assert (first["utilisation"], first["utilisation_max"]) == (pytest.approx(0.8), 0.9)
    assert (first["lost_packets"], second["link"], second["utilisation"]) == (3, "a>r", 0.1)
    # One second of the first row and three of the second.
    assert analysis.utilisation(found, "r>b", (1, 5)) == pytest.approx((0.5 + 3 * 0.9) / 4)
    assert analysis.utilisation(found, "b>r") is None


def test_readings_end_where_counters_are_cleared() -> None:
    changes = "changes: [{at: 2 s, on: r>b, clear: counters}, {at: 4 s, clear: counters}]"
    rows = [queue(start, sent_packets=2 ** int(start / 2)) for start in (0.0, 2.0, 4.0, 6.0)]
    rows += [queue(start, "all", "a>r", sent_packets=10) for start in (0.0, 2.0, 4.0, 6.0)]
    found = counter_readings(run(changes, queues=rows))
    assert found.select("link", "start_s", "end_s", "class", "sent_packets").rows() == [
        ("r>b", 0, 2, "rest", 1),
        ("r>b", 2, 4, "rest", 2),
        ("r>b", 4, 8, "rest", 12),
        ("a>r", 0, 4, "all", 20),
        ("a>r", 4, 8, "all", 20),
    ]
