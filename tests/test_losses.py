"""Places and causes of losses."""

import json
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

import perhop as library
from conftest import REAL_HOSTS, SLOW, Outcome
from datasets import dataset
from perhop import analysis, report
from perhop.dataset import Dataset
from perhop.report import text
from perhop.scenario import parse

LOSSY = """\
perhop: 1
name: lossy
nodes: {a: host, r: router, s: router, b: host}
links:
  - {ends: [a, r], rate: 100 Mbps, delay: 1 ms}
  - {ends: [r, s], rate: 10 Mbps, delay: 5 ms, egress: {r: edge}}
  - {ends: [s, b], rate: 100 Mbps, delay: 1 ms, loss: 1%}
policies:
  edge:
    classes:
      voice: {match: {dscp: ef}, police: {rate: 1 Mbps, burst: 15 kB}, priority: 1}
      early: {match: {dscp: af11}, bandwidth: 2 Mbps, queue: {limit: 100 packets, red: {}}}
      rest: {match: any, bandwidth: 3 Mbps, queue: {limit: 10 packets}}
flows:
  voice: {from: a, to: b, dscp: ef, udp: {rate: 1.5 Mbps}, stop: 4 s}
  early: {from: a, to: b, dscp: af11, tcp: {}, stop: 4 s}
  rest: {from: a, to: b, udp: {rate: 8 Mbps, size: 500 B}, start: 2 s, stop: 4 s}
duration: 5 s
"""


@pytest.fixture(scope="module")
def run() -> Dataset:
    return library.run(parse(LOSSY, "lossy"))


def counted(data: Dataset, link: str, column: str) -> int:
    return int(data.queues.filter(pl.col("link") == link)[column].sum())


def test_every_loss_of_a_flow_has_a_place_and_a_cause(run: Dataset) -> None:
    causes = {
        flow: {(row["link"], row["cause"]) for row in found.iter_rows(named=True)}
        for flow in run.scenario.flows
        for found in [analysis.losses(run, flow)]
    }
    wire = ("s>b", "wire")
    assert causes["voice"] == {("r>s", "policer"), wire}
    assert ("r>s", "early drop") in causes["early"]
    assert causes["rest"] == {("r>s", "full queue"), wire}
    for flow in run.scenario.flows:
        found = analysis.losses(run, flow)
        assert found["packets"].sum() == analysis.count(run, flow, "lost")
        assert found["share"].sum() == pytest.approx(analysis.loss(run, flow))
        assert found["packets"].is_sorted(descending=True)


def test_flows_and_classes_count_the_same_drops(run: Dataset) -> None:
    classes = {
        (row["class"], row["cause"]): row["packets"]
        for row in analysis.class_losses(run).iter_rows(named=True)
        if row["link"] == "r>s"
    }
    for flow, cause in (("voice", "policer"), ("early", "early drop"), ("rest", "full queue")):
        (lost,) = analysis.losses(run, flow).filter(pl.col("cause") == cause)["packets"]
        assert classes[flow, cause] == lost > 10


def test_losses_are_of_the_window(run: Dataset) -> None:
    whole = analysis.losses(run, "rest")["packets"].sum()
    assert analysis.losses(run, "rest", (0, 2)).is_empty()
    assert analysis.losses(run, "rest", (2, 5))["packets"].sum() == whole


def test_what_no_link_was_to_take_has_no_place() -> None:
    cut = """\
perhop: 1
name: cut
nodes: {a: host, r: router, b: host}
links: [{ends: [a, r], rate: 1 Gbps}, {ends: [r, b], rate: 1 Gbps}]
flows: {f: {from: a, to: b, udp: {rate: 1 Mbps}, stop: 2 s}}
changes: [{at: 1 s, on: r>b, state: down}]
"""
    data = library.run(parse(cut, "cut"))
    assert analysis.losses(data, "f").select("link", "cause").rows() == [(None, "no route")]


def test_json_says_who_lost_packets(run: Dataset) -> None:
    voice = json.loads(json.dumps(analysis.summary(run)))["flows"]["voice"]
    assert (voice["lost_by"][0]["link"], voice["lost_by"][0]["cause"]) == ("r>s", "policer")
    assert sum(row["share"] for row in voice["lost_by"]) == pytest.approx(voice["loss"])


@SLOW
def test_terminal_and_page_name_the_policer(
    run: Dataset, perhop: Callable[..., Outcome], place: Path
) -> None:
    (place / "lossy.yaml").write_text(LOSSY)
    words = "Where packets were lost"
    assert words in perhop("run", "lossy.yaml").out
    assert words in report.page(run)


def test_the_table_names_the_policer(run: Dataset) -> None:
    table = report.loss_table(run)
    assert table is not None
    assert table.rows[0][:3] == ("voice", "policer", "r>s")


def test_an_engine_that_cannot_tell_flows_apart_tells_classes() -> None:
    scenario = parse(LOSSY, "lossy")
    assert report.loss_table(dataset(scenario)) is None
    queues = [
        {
            "link": "r>s",
            "class": "voice",
            "start_s": 0.0,
            "end_s": 5.0,
            "sent_packets": 90,
            "dropped_packets": 10,
            "dropped_policer": 10,
        }
    ]
    links = [
        {
            "link": "s>b",
            "start_s": 0.0,
            "end_s": 5.0,
            "sent_packets": 100,
            "lost_packets": 1,
        }
    ]
    table = report.loss_table(dataset(scenario, queues=queues, links=links))
    assert table is not None
    assert table.rows == (
        ("voice", "policer", "r>s", "10", "10.0%"),
        (text.ABSENT, "wire", "s>b", "1", "1.00%"),
    )


@REAL_HOSTS
def test_real_packets_are_told_apart_too() -> None:
    data = library.run(parse(LOSSY, "lossy"), engine="emu")
    voice = analysis.losses(data, "voice").filter(pl.col("cause") == "policer")
    assert voice["packets"].sum() == counted(data, "r>s", "dropped_policer") > 100
    assert "early drop" in analysis.losses(data, "early")["cause"]


WAITING = """\
perhop: 1
name: waiting
nodes: {a: host, r: router, b: host, c: host}
links:
  - {ends: [a, r], rate: 100 Mbps, delay: 1 ms}
  - {ends: [r, b], rate: 1 Mbps, delay: 1 ms, queue: {limit: 10000 packets}}
  - {ends: [r, c], rate: 1 Mbps, delay: 5 s}
flows: {load: {from: a, to: b, udp: {rate: 1500 kbps}}}
pings:
  all: {from: a, to: b, every: 1 s}
  last: {from: a, to: b, every: 1 s, start: 7 s}
  far: {from: a, to: c, every: 1 s}
  near: {from: c, to: r, every: 1 s, start: 9500 ms}
duration: 10 s
expect: [{loss: last, at_most: 0%}, {loss: far, at_most: 0%}]
"""


def test_requests_that_nothing_could_answer_in_time_are_not_lost() -> None:
    """A second ping waits in a queue of seconds; a third one has a path of ten seconds."""
    waiting = library.run(parse(WAITING, "waiting.yaml"))
    shares = {name: analysis.loss(waiting, name) for name in waiting.scenario.pings}
    assert shares == {"all": 0.0, "last": None, "far": None, "near": None}
    assert [(each.measured, each.ok) for each in analysis.verdicts(waiting)] == [(None, False)] * 2
    lossy = parse(WAITING.replace("rate: 1 Mbps, delay: 5 s", "rate: 1 Mbps, loss: 99.99%"), "x")
    assert analysis.loss(library.run(lossy), "far") == 1.0


@REAL_HOSTS
@pytest.mark.parametrize("engine", ["emu", "kernel"])
def test_linux_cannot_tell_copies_from_segments_sent_again_in_vain(engine: str) -> None:
    """With as many copies as losses, none were counted."""
    text_ = """\
perhop: 1
name: copies
nodes: {a: host, b: host}
links: [{ends: [a, b], rate: 10 Mbps, delay: 5 ms, loss: 4%, duplicate: 6%}]
flows: {tcp: {from: a, to: b, tcp: {rate: 2 Mbps}}, udp: {from: a, to: b, udp: {rate: 1 Mbps}}}
duration: 3 s
"""
    found = library.run(parse(text_, "copies.yaml"), engine=engine)
    assert analysis.loss(found, "tcp") is None
    assert 0.0 < (analysis.loss(found, "udp") or 0.0) < 0.2
