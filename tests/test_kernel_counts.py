"""Linux's counters as tables of a dataset, without a kernel: rows are as the kernel counts them."""

from typing import TYPE_CHECKING, Any, cast

import polars as pl
import pytest

from perhop.engines.kernel.counts import Recorder
from perhop.linux.mapping import mapping
from perhop.scenario import parse

if TYPE_CHECKING:
    from perhop.engines.kernel.network import Network

TEXT = """
perhop: 1
name: counted
nodes: {a: host, r: router, b: host}
links:
  - {ends: [a, r], rate: 100 Mbps}
  - {ends: [r, b], rate: 8 Mbps, overhead: 10 B, egress: {r: p}}
policies:
  p:
    classes:
      outer:
        match: {dscp: [ef, cs1]}
        police: {rate: 2 Mbps, burst: 300 kB}
        classes:
          voice: {match: {dscp: ef}, priority: strict, police: {rate: 1 Mbps, burst: 200 kB}}
          low: {match: any}
      rest: {match: any}
flows:
  f: {from: a, to: b, udp: {rate: 1 Mbps}, stop: 1 s}
  g: {from: a, to: b, udp: {rate: 1 Mbps}, dscp: ef, stop: 1 s}
  h: {from: a, to: b, udp: {rate: 1 Mbps}, dscp: cs1, stop: 1 s}
"""


class Kernel:
    """A network whose counters are those that a test says."""

    def __init__(self, text: str = TEXT) -> None:
        self.scenario = parse(text, "counted.yaml")
        self.interfaces = mapping(self.scenario, tunnels=(), police="tc").interfaces
        self.given: dict[str, object] = {}
        self.minors = {
            node.path: node.minor for node in self.interfaces["r>b"].htb.nodes if node.path
        }
        self.chain = self.interfaces["r>b"].chain
        self.rows: dict[str, dict[str, Any]] = {}
        self.passed: dict[str, tuple[int, int]] = {}

    def queues(self) -> dict[str, dict[int, dict[str, Any]]]:
        return {"r>b": {self.minors[path]: row for path, row in self.rows.items()}}

    def policers(self) -> dict[str, dict[str, tuple[int, int]]]:
        found = {}
        for name, counted in self.passed.items():
            path, what = name.split()
            found[f"{self.chain}_{self.minors[path]:x}_{what}"] = counted
        return {"r": found}

    def wires(self) -> dict[str, dict[str, int]]:
        return {}

    def tunnels(self) -> dict[tuple[str, str], dict[str, int]]:
        return {}

    def read(self) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
        """Return the counters of the classes and of the link after a second."""
        recorder = Recorder(self.scenario, cast("Network", self))
        recorder.read(1.0, dict.fromkeys(self.scenario.directions, 8_000_000))
        tables = recorder.tables()
        return (
            {row["class"]: row for row in tables["queues"].filter(link="r>b").to_dicts()},
            tables["links"].filter(link="r>b").row(0, named=True),
        )


def row(kind: str, packets: int, drops: int, **more: int) -> dict[str, Any]:
    """A row of a queue of packets of 100 B, of which two wait."""
    sizes = {"bytes": 100 * packets, "qlen": 2, "backlog": 200}
    return {"kind": kind, "packets": packets, **sizes, "drops": drops, **more}


def all_known(low: dict[str, Any]) -> Kernel:
    kernel = Kernel()
    kernel.rows = {
        "outer/voice": row("pfifo", 100, 0),
        "outer/low": low,
        "rest": row("pfifo", 1000, 7),
    }
    kernel.passed = {
        "outer conform": (600, 60_000),
        "outer exceed": (5, 500),
        "outer/voice conform": (100, 10_000),
        "outer/voice exceed": (3, 300),
    }
    return kernel


@pytest.mark.parametrize(
    ("low", "full", "early", "marked"),
    [
        # What each discipline counts: net/sched/sch_*.c of Linux 6.1. `dropped` of PIE and FQ-PIE
        # has the drops of full queues; `drop_overlimit` of FQ-CoDel those for want of memory.
        (row("pfifo", 500, 20), 20, 0, 0),
        (row("sfq", 500, 20), 20, 0, 0),
        (row("red", 500, 20, early=15, marked=4), 5, 15, 4),
        (row("codel", 500, 20, drop_overlimit=5, ecn_mark=4), 5, 15, 4),
        (row("fq_codel", 500, 20, drop_overlimit=5, ecn_mark=4), 5, 15, 4),
        (row("pie", 500, 20, overlimit=5, ecn_mark=4), 5, 15, 4),
        (row("fq_pie", 500, 20, overlimit=5, ecn_mark=4), 5, 15, 4),
        # CAKE has counters of its tins; a kernel may lack those of its disciplines.
        (row("cake", 500, 20), None, None, None),
        (row("red", 500, 20), None, None, None),
        (row("fq_codel", 500, 20), None, None, None),
        (row("novel", 500, 20), None, None, None),
    ],
)
def test_a_discipline_tells_what_it_counts_and_nothing_else(
    low: dict[str, Any], full: int | None, early: int | None, marked: int | None
) -> None:
    classes, link = all_known(low).read()
    found = classes["outer/low"]
    names = ("dropped_packets", "dropped_limit", "dropped_early", "marked_packets")
    assert [found[name] for name in names] == [20, full, early, marked]
    outer = classes["outer"]
    # Sums of the classes inside; voice drops by its policer only. And what outer's policer drops.
    assert [outer[name] for name in names] == [28, full, early, marked]
    assert outer["dropped_policer"] == 8
    assert (outer["sent_packets"], outer["backlog_bytes"]) == (600, 400)
    assert (outer["conformed_packets"], outer["exceeded_bytes"]) == (600, 500)
    assert outer["violated_packets"] == 0
    # 1600 packets of 100 B and 10 B of layer 2 in 8 Mb/s.
    assert (link["sent_packets"], link["sent_bytes"]) == (1600, 176_000)
    assert link["utilisation"] == pytest.approx(0.176)


CURVES = """
perhop: 1
name: framed
nodes: {a: host, r: router, b: host}
links:
  - {ends: [a, r], rate: 100 Mbps}
  - {ends: [r, b], rate: 8 Mbps, egress: {r: p}, shape: {r: {rate: 4 Mbps, overhead: OVERHEAD}}}
policies:
  p:
    scheduler: hfsc
    overhead: OVERHEAD
    classes:
      voice: {match: {dscp: ef}, realtime: {rate: 1 Mbps}}
      rest: {match: any, unused: true}
flows:
  f: {from: a, to: b, udp: {rate: 1 Mbps}, dscp: ef, stop: 1 s}
"""


@pytest.mark.parametrize(
    ("overhead", "sent", "backlog"),
    [
        ("none", 10_000, 200),
        ("14 B", 8_600, 172),
        ("20 B", 8_000, 160),
        ("20 B mpu 64 B", None, None),
        ("24 B atm", None, None),
    ],
)
def test_counters_have_no_bytes_of_a_table_of_sizes(
    overhead: str, sent: int | None, backlog: int | None
) -> None:
    """Linux counts packets of 100 B; those of IP are shorter."""
    kernel = Kernel(CURVES.replace("OVERHEAD", overhead))
    kernel.rows = {"voice": row("pfifo", 100, 0), "rest": row("pfifo", 0, 0)}
    classes, link = kernel.read()
    voice = classes["voice"]
    assert (voice["sent_packets"], voice["sent_bytes"], voice["backlog_bytes"]) == (
        100,
        sent,
        backlog,
    )
    assert link["sent_bytes"] == sent


def test_a_queue_that_is_not_there_counts_nothing() -> None:
    kernel = all_known(row("pfifo", 500, 20))
    del kernel.rows["outer/low"]
    classes, link = kernel.read()
    unknown = (
        "sent_packets",
        "sent_bytes",
        "dropped_packets",
        "dropped_limit",
        "dropped_early",
        "marked_packets",
        "backlog_packets",
        "backlog_bytes",
    )
    for name in unknown:
        assert classes["outer/low"][name] is None
        assert classes["outer"][name] is None, "the sum of classes of which one is unknown"
        assert classes["rest"][name] is not None
    assert classes["outer/low"]["dropped_policer"] == 0, "it has no policer"
    assert classes["outer"]["dropped_policer"] == 8
    assert (link["sent_packets"], link["sent_bytes"], link["utilisation"]) == (None, None, None)


def test_a_policer_whose_counters_are_not_there_counts_nothing() -> None:
    kernel = all_known(row("pfifo", 500, 20))
    del kernel.passed["outer/voice exceed"]
    classes, _ = kernel.read()
    voice = classes["outer/voice"]
    assert (voice["exceeded_packets"], voice["dropped_policer"]) == (None, None)
    assert voice["dropped_packets"] is None
    assert (voice["conformed_packets"], voice["dropped_limit"]) == (100, 0)
    assert classes["outer"]["dropped_policer"] is None
    assert classes["outer"]["exceeded_packets"] == 5
    assert classes["rest"]["exceeded_packets"] == 0
    assert classes["rest"]["dropped_packets"] == 7


def test_a_counter_that_was_unknown_has_no_increase() -> None:
    kernel = all_known(row("pfifo", 500, 20))
    recorder = Recorder(kernel.scenario, cast("Network", kernel))
    rates = dict.fromkeys(kernel.scenario.directions, 8_000_000)
    low = kernel.rows.pop("outer/low")
    recorder.read(1.0, rates)
    kernel.rows["outer/low"] = low
    recorder.read(2.0, rates)
    recorder.read(3.0, rates)
    sent = recorder.tables()["queues"].filter(**{"class": "outer/low"})["sent_packets"]
    assert sent.to_list() == [None, None, 0]


def test_what_a_policy_sent_before_it_was_replaced_counts() -> None:
    """A change takes a while after the mark: 45 packets of 100 B leave by the old classes."""
    kernel = all_known(row("pfifo", 500, 20))
    recorder = Recorder(kernel.scenario, cast("Network", kernel))
    rates = dict.fromkeys(kernel.scenario.directions, 8_000_000)
    recorder.read(1.0, rates)
    kernel.rows["rest"] = row("pfifo", 1045, 14)
    recorder.end("r>b")
    kernel.rows = dict.fromkeys(kernel.rows, row("pfifo", 10, 0))
    recorder.read(2.0, rates)
    recorder.read(3.0, rates)
    tables = recorder.tables()
    rest = tables["queues"].filter(**{"class": "rest"})
    assert rest["sent_packets"].to_list() == [1000, 55, 0]
    assert rest["dropped_packets"].to_list() == [7, 7, 0]
    assert rest["backlog_packets"].to_list() == [2, 2, 2]
    outer = tables["queues"].filter(~pl.col("class").str.contains("/"), link="r>b")
    sums = outer.group_by("end_s", maintain_order=True).agg(pl.sum("sent_packets", "sent_bytes"))
    links = tables["links"].filter(link="r>b")
    assert links["sent_packets"].to_list() == sums["sent_packets"].to_list()
    assert recorder.longest_s > 0
