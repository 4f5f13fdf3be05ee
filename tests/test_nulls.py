"""A null is not a number: what an engine or a join does not know stays unknown to the page."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from datasets import dataset
from perhop import analysis
from perhop.dataset import NULLABLE, Dataset
from perhop.engines import run
from perhop.report.network import network
from perhop.report.tables import class_tables, link_table, loss_table
from perhop.report.text import ABSENT
from perhop.routers.counters import read
from perhop.scenario import parse
from perhop.studio.results import results

SHAPED = """
perhop: 1
name: shaped
nodes: {a: host, r1: router, r2: router, b: host}
links:
  - {ends: [a, r1], rate: 100 Mbps}
  - {ends: [r1, r2], rate: 10 Mbps, shape: {r1: {rate: 2 Mbps}}, egress: {r1: two}}
  - {ends: [r2, b], rate: 100 Mbps, reorder: {share: 5%, by: 20 ms}}
policies:
  two:
    classes:
      voice: {match: {dscp: ef}, priority: strict, police: {rate: 500 kbps, burst: 3 kB}}
      rest: {match: any, queue: {limit: 20 packets}}
flows:
  call: {from: a, to: b, udp: {rate: 600 kbps, size: 200 B}, dscp: ef, stop: 4 s}
  bulk: {from: a, to: b, tcp: {}, streams: 2, stop: 4 s}
  back: {from: b, to: a, udp: {rate: 1 Mbps}, stop: 4 s}
pings:
  probe: {from: a, to: b, every: 200 ms}
duration: 5 s
report: {interval: 1 s}
expect:
  - {utilisation: r2>b, at_most: 3%}
  - {utilisation: r1>r2, during: 1 s..4 s, at_least: 95%}
"""


@pytest.fixture(scope="module")
def made() -> Dataset:
    return run(parse(SHAPED, "shaped.yaml"))


def test_a_shaper_says_nothing_about_links_without_one(made: Dataset) -> None:
    """By hand: 1 Mb/s of datagrams and their acknowledgements of TCP in 10 Mb/s, for 4 of 5 s."""
    loads = {row["link"]: row["utilisation"] for row in analysis.link_loads(made).to_dicts()}
    for link, rate in (("b>r2", 100e6), ("r2>r1", 10e6), ("r1>a", 100e6)):
        sent = made.links.filter(link=link)["sent_bytes"].sum()
        assert loads[link] == pytest.approx(sent * 8 / rate / 5, rel=1e-6)
    assert 0.08 <= loads["r2>r1"] <= 0.1
    assert loads["r2>b"] < 0.02
    assert [verdict.ok for verdict in analysis.verdicts(made)] == [True, True]
    drawn = network(made)
    assert drawn is not None
    assert {name: use for name, _, _, use in drawn.rows()} == loads
    page = results(made)["utilisation"]
    assert page == {name: round(use, 4) for name, use in loads.items()}
    assert analysis.summary(made)["links"]["r2>b"]["utilisation"] == loads["r2>b"]


NARROW = parse(SHAPED.split("expect:", maxsplit=1)[0], "narrow.yaml")


def loaded(sent: dict[str, int | None], **rows: Any) -> Dataset:
    """A dataset of two seconds of r1>r2, whose link is busy for a tenth, and of r2>b."""
    stretches = [{"start_s": float(i), "end_s": i + 1.0} for i in range(2)]
    return dataset(
        NARROW,
        links=[
            {"link": link, **stretch, "sent_bytes": 125_000, "utilisation": busy, **rows}
            for link, busy in (("r1>r2", 0.1), ("r2>b", 0.01))
            for stretch in stretches
        ],
        queues=[
            {"link": "r1>r2", "class": name, **stretch, "sent_bytes": amount}
            for stretch in stretches
            for name, amount in sent.items()
        ],
    )


def test_the_share_of_a_shaper_is_that_of_all_its_classes() -> None:
    """2 Mb/s are 250 kB a second."""
    known = loaded({"voice": 25_000, "rest": 100_000})
    assert analysis.utilisation(known, "r1>r2") == 0.5
    for sent in ({"voice": 25_000, "rest": None}, {}):
        unknown = loaded(sent)
        assert analysis.utilisation(unknown, "r1>r2") is None
        assert analysis.utilisation(unknown, "r2>b") == 0.01
        assert results(unknown)["utilisation"]["r1>r2"] is None
        drawn = network(unknown)
        assert drawn is not None
        assert {row[0]: row[3] for row in drawn.rows()}["r1>r2"] is None
        links = analysis.summary(unknown)["links"]
        assert links["r1>r2"]["utilisation"] is None
        assert links["r1>r2"]["utilisation_max"] is None


def test_an_unknown_load_fulfils_no_expectation() -> None:
    wanted = "expect: [{utilisation: r1>r2, at_most: 90%}, {utilisation: r2>b, at_most: 90%}]\n"
    whole = parse(SHAPED.split("expect:", maxsplit=1)[0] + wanted, "x.yaml")
    found = replace(loaded({"voice": None, "rest": 1}), scenario=whole)
    verdicts = analysis.verdicts(found)
    assert [(verdict.measured, verdict.ok) for verdict in verdicts] == [(None, False), (0.01, True)]


def test_an_unknown_share_of_the_time_makes_the_mean_unknown() -> None:
    run_ = loaded({"voice": 0, "rest": 125_000})
    half = run_.links.with_columns(
        utilisation=pl.when((pl.col("link") == "r2>b") & (pl.col("start_s") > 0))
        .then(None)
        .otherwise("utilisation")
    )
    partly = replace(run_, links=half)
    assert analysis.utilisation(partly, "r2>b") is None
    assert analysis.utilisation(partly, "r2>b", (0.0, 1.0)) == 0.01
    assert analysis.utilisation(partly, "r1>r2") == 0.5


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield the numbers of nested objects, with their paths."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, (*path, key))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            key = inner.get("start_s", number) if isinstance(inner, dict) else number
            yield from leaves(inner, (*path, key))
    else:
        yield path, value


WHOLE = [("intervals", column) for column in sorted(NULLABLE["intervals"] - {"completion_s"})]
"""A stream may be counted as a whole in its last row: here a column is unknown of two flows."""

PARTLY = [(table, column) for table in ("queues", "links") for column in sorted(NULLABLE[table])]
"""Here a column is unknown in one row of one link."""

NOT_SHOWN = {"cwnd", "echoed", "backlog_packets", "backlog_bytes"}
"""Columns on which no value of a summary depends, without expectations of these."""


@pytest.mark.parametrize(("table", "column"), [*WHOLE, *PARTLY])
def test_what_is_unknown_changes_no_number(made: Dataset, table: str, column: str) -> None:
    """Every value of the summary is what it was, or unknown: never another number."""
    rows: pl.DataFrame = getattr(made, table)
    if (table, column) in WHOLE:
        hidden = pl.col("flow").is_in(["back", "bulk"])
    else:
        hidden = (pl.col("link") == "r1>r2") & (pl.col("start_s") == 1.0)
    lacking = rows.with_columns(pl.when(hidden).then(None).otherwise(column).alias(column))
    assert lacking[column].null_count() > rows[column].null_count()
    before = dict(leaves(analysis.summary(made)))
    after = dict(leaves(analysis.summary(replace(made, **{table: lacking}))))
    numbers = {
        path: value
        for path, value in after.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
    assert {path: value for path, value in numbers.items() if value != before[path]} == {}
    unknown = [
        path for path, value in before.items() if value is not None and after.get(path) is None
    ]
    assert bool(unknown) is (column not in NOT_SHOWN), unknown


def test_the_total_of_flows_is_unknown_with_one_of_them(made: Dataset) -> None:
    rows = made.intervals.with_columns(
        bytes=pl.when(pl.col("flow") == "back").then(None).otherwise("bytes")
    )
    partly = replace(made, intervals=rows)
    assert analysis.throughput(partly, "bulk") == analysis.throughput(made, "bulk")
    assert analysis.throughput(partly, "total") is None
    totals = analysis.series(partly).filter(flow="total")["throughput_bps"]
    assert totals.null_count() == len(totals)
    assert analysis.measure(partly, "fairness", "back") is None


def test_tables_show_unknown_counters_as_such() -> None:
    stretch = {"start_s": 0.0, "end_s": 5.0}
    links = [{"link": "r2>b", **stretch, "sent_packets": None, "sent_bytes": None}]
    queue = {"link": "r2>b", "class": "all", **stretch, "sent_packets": 9, "sent_bytes": 900}
    unknown = dataset(NARROW, links=links, queues=[{**queue, "dropped_packets": None}])
    table = link_table(unknown)
    assert table is not None
    assert table.rows[0][:3] == ("r2>b", ABSENT, ABSENT)
    [found] = class_tables(unknown)
    assert found.title == "Classes of r2>b", "not among the queues without drops"


def test_drops_without_a_cause_are_drops() -> None:
    """Linux's CAKE counts drops, but its counters of a queue do not tell the cause."""
    row = {"link": "r1>r2", "class": "all", "start_s": 0.0, "end_s": 5.0, "sent_packets": 90}
    causes = dict.fromkeys(("dropped_limit", "dropped_early"))
    run_ = dataset(NARROW, queues=[{**row, **causes, "dropped_packets": 10, "dropped_policer": 4}])
    found = analysis.class_losses(run_).to_dicts()
    assert [(each["cause"], each["packets"], each["share"]) for each in found] == [
        ("cause unknown", 6, 0.06),
        ("policer", 4, 0.04),
    ]
    table = loss_table(run_)
    assert table is not None
    assert len(table.rows) == 2


JUNOS = """\
Physical interface: ge-0/0/1, Enabled, Physical link is Up
Egress queues: 8 supported, 4 in use
Queue: 0, Forwarding classes: best-effort
  Queued:
    Packets              :                   100                     0 pps
  Transmitted:
    Packets              :                    93                     0 pps
    Tail-dropped packets :                     3                     0 pps
    RL-dropped packets   :                     0                     0 pps
    RED-dropped packets  :  {red}
"""


@pytest.mark.parametrize(
    ("red", "dropped"),
    [("                   4                     0 pps", 7), ("Not Available", None)],
)
def test_a_router_that_does_not_know_one_cause_does_not_know_the_sum(
    tmp_path: Path, red: str, dropped: int | None
) -> None:
    (tmp_path / "queues.txt").write_text(JUNOS.replace("{red}", red))
    [counted] = read([tmp_path / "queues.txt"])
    assert counted.classes["best-effort"].get("dropped_packets") == dropped
    assert counted.classes["best-effort"]["dropped_limit"] == 3


def test_unknown_values_are_nulls_of_json(made: Dataset) -> None:
    unknown = replace(made, links=made.links.with_columns(utilisation=pl.lit(None, pl.Float64)))
    text = json.dumps(analysis.summary(unknown), allow_nan=False)
    assert json.loads(text)["links"]["r2>b"]["utilisation"] is None
