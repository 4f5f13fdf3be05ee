"""Datasets conserve: bits of links, packets of classes, and what policers count."""

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

import perhop
from conservation import broken, false_data, faults
from perhop.dataset import Dataset
from perhop.engines import run
from perhop.scenario import parse

HERE = Path(__file__).parent
TEMPLATES = sorted((HERE.parent / "python/perhop/templates").glob("*.yaml"))

CHANGING = """
perhop: 1
name: changing
nodes: {a: host, r1: router, r2: router, b: host}
links:
  - {ends: [a, r1], rate: 100 Mbps, overhead: ethernet}
  - ends: [r1, r2]
    rate: 10 Mbps
    delay: 2 ms
    overhead: ethernet
    loss: 1%
    shape: {r1: {rate: 6 Mbps, burst: 20 kB}}
    egress: {r1: tree}
  - {ends: [r2, b], rate: 20 Mbps, duplicate: 1%}
policies:
  tree:
    classes:
      voice: {match: {dscp: ef}, priority: strict, police: {rate: 1 Mbps, burst: 3 kB}}
      office:
        match: {dscp: [af11, af21, af31]}
        bandwidth: 50%
        classes:
          metered:
            match: {dscp: af11}
            police:
              rate: 500 kbps
              burst: 5 kB
              peak_rate: 1 Mbps
              peak_burst: 5 kB
              exceed: {remark: af12}
          red:
            match: {dscp: af21}
            queue: {red: {min: 5 kB, max: 20 kB, ecn: true}, limit: 40 kB}
          deep: {match: any, queue: {limit: 30 packets}}
      rest: {match: any, queue: {fq-codel: {}}}
  plain:
    classes:
      office: {match: {dscp: [af11, af21, af31]}, bandwidth: 20%}
      rest: {match: any}
flows:
  call: {from: a, to: b, udp: {rate: 2 Mbps, size: 200 B}, dscp: ef, stop: 5 s}
  metered: {from: a, to: b, udp: {rate: 3 Mbps}, dscp: af11, stop: 5 s}
  red: {from: a, to: b, tcp: {ecn: classic}, streams: 3, dscp: af21, stop: 5 s}
  deep: {from: a, to: b, tcp: {}, dscp: af31, stop: 5 s}
  bulk: {from: a, to: b, tcp: {}, stop: 5 s}
changes:
  - {at: 1500 ms, on: r1>r2, rate: 3 Mbps}
  - {at: 2500 ms, on: r1>r2, rate: 10 Mbps}
  - {at: 3 s, on: r1>r2, policy: plain}
  - {at: 4250 ms, on: r2>b, rate: 1 Mbps}
duration: 6 s
report: {interval: 300 ms}
"""


@pytest.fixture(scope="module")
def changing() -> Dataset:
    return run(parse(CHANGING, "changing.yaml"))


def test_a_tree_that_changes_conserves(changing: Dataset) -> None:
    assert broken(changing) == []
    # Each law has something to say here.
    assert changing.queues["violated_packets"].sum() > 0
    assert changing.queues["dropped_early"].sum() + changing.queues["marked_packets"].sum() > 0
    assert changing.links["utilisation"].max() > 0.99  # type: ignore[operator]


@pytest.mark.parametrize("path", [HERE / "valid.yaml", *TEMPLATES], ids=lambda path: path.stem)
def test_templates_conserve(path: Path) -> None:
    assert broken(run(perhop.load(path))) == []


@pytest.mark.parametrize(
    ("table", "column", "rows", "change"),
    [
        ("links", "utilisation", pl.col("link") == "r2>r1", 1.0),
        ("links", "utilisation", pl.col("link") == "r1>r2", 0.01),
        ("links", "sent_bytes", pl.col("link") == "r1>r2", 1500),
        ("links", "sent_packets", pl.col("link") == "r1>r2", 2),
        ("queues", "sent_packets", pl.col("class") == "rest", 2),
        ("queues", "sent_bytes", pl.col("class") == "office/deep", 40),
        ("queues", "backlog_bytes", pl.col("class") == "office", 40),
        ("queues", "dropped_packets", pl.col("class") == "voice", 1),
        ("queues", "violated_packets", pl.col("class") == "office/metered", 1),
        ("queues", "conformed_packets", pl.col("class") == "voice", 1),
        ("queues", "backlog_packets", pl.col("class") == "rest", 1000),
        ("links", "lost_packets", pl.col("link") == "a>r1", 1000),
        ("links", "lost_packets", pl.col("link") == "r2>b", 10_000),
        ("intervals", "packets", pl.col("flow") == "deep", 10_000),
        ("intervals", "lost", pl.col("flow") == "call", 2000),
    ],
)
def test_what_is_not_conserved_is_named(
    changing: Dataset, table: str, column: str, rows: pl.Expr, change: float
) -> None:
    """The checker finds one changed number in one interval."""
    where = rows & (pl.col("start_s") > 1.0) & (pl.col("start_s") < 1.3)
    old: pl.DataFrame = getattr(changing, table)
    new = old.with_columns(
        pl.when(where).then(pl.col(column) + change).otherwise(column).alias(column)
    )
    assert not new.equals(old)
    with false_data():
        changed = replace(changing, **{table: new.cast(dict(old.schema))})
    assert broken(changed)


def test_every_dataset_is_checked(changing: Dataset) -> None:
    busy = changing.links.with_columns(utilisation=pl.col("utilisation") * 2)
    with false_data():
        replace(changing, links=busy)
    assert not faults
    replace(changing, links=busy)
    found, faults[:] = [*faults], []
    assert found
    assert all(
        "busy" in each and "<Dataset of changing: sim, seed 1, 6 s>" in each for each in found
    )


def test_volumes_and_readings_are_taken_into_account() -> None:
    text = CHANGING.replace("stop: 5 s}\nchanges", "volume: 100 kB}\nchanges")
    made = run(parse(text, "volume.yaml"))
    assert broken(made) == []
    more = pl.when(flow="bulk", end_s=made.intervals["end_s"].max()).then(1).otherwise(0)
    with false_data():
        beyond = replace(made, intervals=made.intervals.with_columns(pl.col("bytes") + more))
    assert [each.split(":")[0] for each in broken(beyond)] == ["bulk until 6.0 s"]
    # 10 ms at 6 Mb/s are five long packets, or twice as many short ones.
    reading = made.manifest.model_copy(update={"counters": {"reading_us": 10_000}})
    late = pl.col("sent_packets") - pl.when(link="r1>r2", start_s=0.3).then(3).otherwise(0)
    with false_data():
        skewed = replace(made, links=made.links.with_columns(sent_packets=late))
        assert any("classes sent" in each for each in broken(skewed))
        assert broken(replace(skewed, manifest=reading)) == []
