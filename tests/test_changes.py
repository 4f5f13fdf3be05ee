"""The timeline of changes, from a scenario to its report."""

import pytest

import perhop
from perhop import analysis, report
from perhop.dataset import Dataset
from perhop.report import charts
from perhop.scenario import dump, parse

SESSION = """
perhop: 1
name: session
nodes: {a: host, r1: router, r2: router, b: host}
links:
  - {ends: [a, r1], rate: 1 Gbps}
  - {ends: [r1, r2], rate: 100 Mbps, delay: 5 ms, egress: {r1: oscars, r2: plain}}
  - {ends: [r2, b], rate: 1 Gbps}
policies:
  oscars:
    classes:
      reserved:
        match: {destination_port: 5001}
        priority: strict
        police: {rate: 10 Mbps, burst: 1 MB}
      rest: {match: any}
  plain: {classes: {everything: {match: any}}}
flows:
  reserved: {from: a, to: b, port: 5001, stop: 8 s, udp: {rate: 20 Mbps}}
  others: {from: a, to: b, stop: 8 s, udp: {rate: 90 Mbps}}
report: {interval: 500 ms}
changes:
"""


def run(*changes: str) -> Dataset:
    return perhop.run(parse(SESSION + "".join(f"  - {{{change}}}\n" for change in changes)))


def mbps(dataset: Dataset, flow: str, start: float, end: float) -> float:
    found = analysis.throughput(dataset, flow, (start, end))
    assert found is not None
    return found / 1e6


def test_a_policer_changes_in_place() -> None:
    police = "on: r1>r2, class: reserved, police: {"
    dataset = run(f"at: 2 s, {police}rate: 5 Mbps}}", f"at: 4 s, {police}burst: 3 kB}}")
    payload = 1470 / 1498
    assert mbps(dataset, "reserved", 0, 0.5) == pytest.approx(20, rel=0.01)  # while the burst lasts
    assert mbps(dataset, "reserved", 2.5, 4) == pytest.approx(5 * payload, rel=0.01)
    # The burst changed, the rate is the one that was set before.
    assert mbps(dataset, "reserved", 4.5, 8) == pytest.approx(5 * payload, rel=0.01)


def test_counters_are_read_and_cleared() -> None:
    dataset = run("at: 2 s, clear: counters", "at: 6 s, on: r2>r1, clear: counters")
    readings = analysis.counter_readings(dataset)
    reserved = readings.filter(link="r1>r2", **{"class": "reserved"})
    assert reserved.select("start_s", "end_s").rows() == [(0, 2), (2, 8)]
    first, second = reserved["conformed_bytes"]
    assert first == pytest.approx(1e6 + 10e6 / 8 * 2, rel=0.01)
    assert second == pytest.approx(10e6 / 8 * 6, rel=0.01)
    total = analysis.class_counters(dataset).filter(link="r1>r2", **{"class": "reserved"})
    assert total["conformed_bytes"].item() == first + second
    assert readings.filter(link="r2>r1")["start_s"].to_list() == [0, 2, 6]
    titles = [table.title for table in report.class_tables(dataset)]
    assert "Classes of r1>r2, 0\N{EN DASH}2 s" in titles
    assert "Classes of r1>r2, 2\N{EN DASH}8 s" in titles
    # To read counters is no phase of the traffic.
    assert len(dataset.scenario.phases_ps) == 1


def test_a_policy_takes_the_place_of_another() -> None:
    dataset = run("at: 4 s, on: r1>r2, policy: plain", "at: 6 s, on: r1>r2, policy: none")
    classes = {
        name: rows["start_s"].unique().sort().to_list()
        for (name,), rows in dataset.queues.filter(link="r1>r2").group_by("class")
    }
    assert classes["reserved"] == classes["rest"] == [0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5]
    assert classes["everything"] == [4, 4.5, 5, 5.5]
    assert classes["all"] == [6, 6.5, 7, 7.5]
    assert mbps(dataset, "reserved", 4.5, 6) > 17  # no policer, 110 Mb/s through 100
    # What was sent was lost, has arrived, or waits still.
    flows = dataset.intervals.group_by("flow").sum()
    backlog = dataset.queues.filter(end_s=8).select("backlog_packets").sum().item()
    sent = 20e6 * 8 / 8 / 1470 + 90e6 * 8 / 8 / 1470
    left = sent - flows["packets"].sum() - flows["lost"].sum()
    assert backlog <= left <= backlog + 60  # 5 ms of 100 Mb/s are on their way


def test_shares_are_of_the_link_as_it_is_when_a_policy_comes() -> None:
    half = SESSION.replace("police: {rate: 10 Mbps", "police: {rate: 10%")
    changes = (
        "  - {at: 2 s, on: r1>r2, rate: 50 Mbps}\n  - {at: 4 s, on: r1>r2, policy: plain}\n"
        "  - {at: 4 s, on: r1>r2, policy: oscars}\n"
    )
    dataset = perhop.run(parse(half + changes))
    payload = 1470 / 1498
    assert mbps(dataset, "reserved", 2.5, 4) == pytest.approx(10 * payload, rel=0.01)
    assert mbps(dataset, "reserved", 6, 8) == pytest.approx(5 * payload, rel=0.01)
    busy = dataset.links.filter(link="r1>r2")["utilisation"]
    assert busy[-1] == pytest.approx(1, rel=1e-3)
    assert busy.max() <= 1.001


def test_a_link_goes_down_and_comes_up() -> None:
    dataset = run("at: 2 s, on: r2>r1, state: down", "at: 4 s, on: r1>r2, state: up")
    assert mbps(dataset, "total", 2.5, 4) == 0
    assert mbps(dataset, "others", 4.5, 8) > 80
    assert [row[1] for row in report.change_table(dataset).rows] == ["r2>r1: down", "r1>r2: up"]


def test_phases_and_charts_show_changes() -> None:
    changes = ("at: 2 s, on: r1>r2, rate: 50 Mbps", "at: 4 s, on: r1>r2, state: down")
    dataset = run(*changes)
    assert [start // 10**12 for start, _ in dataset.scenario.phases_ps] == [0, 2, 4]
    written = str(charts.throughput_chart(dataset))
    assert "r1>r2: 50.0 Mb/s" in written
    assert "r1>r2: down" in written


def test_changes_survive_writing() -> None:
    scenario = run("at: 2 s, on: r1>r2, class: reserved, police: {rate: 1 Mbps}").scenario
    text = dump(scenario)
    assert "class: reserved" in text
    assert parse(text) == scenario
