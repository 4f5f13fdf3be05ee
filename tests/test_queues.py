"""Queue disciplines from the file to the tables."""

from typing import Any, cast

import pytest

import perhop
from perhop import analysis
from perhop.engines import plans
from perhop.engines.plan import network_plan
from perhop.scenario import dump, parse
from perhop.scenario.model.queues import Threshold, wred_defaults

OVERLOAD = """\
perhop: 1
name: overload
nodes: {{a: host, b: host, r: router}}
links:
  - {{ends: [a, r], rate: 1 Gbps, delay: 10 ms}}
  - {{ends: [r, b], rate: 20 Mbps, delay: 10 ms, queue: {queue}}}
flows:
  bulk: {{from: a, to: b, streams: 4, stop: 12 s}}
  marked: {{from: a, to: b, udp: {{rate: 4 Mbps, size: 500 B, ecn: ect0}}, stop: 12 s}}
  l4s: {{from: a, to: b, udp: {{rate: 1 Mbps, size: 500 B, ecn: ect1}}, stop: 12 s}}
pings:
  probe: {{from: a, to: b, every: 50 ms}}
expect:
  - {{throughput: total, during: 4 s..12 s, at_least: 15.7 Mbps}}
"""

QUEUES = [
    "{limit: 100 ms}",
    "{limit: 100 packets, drop: head}",
    "{red: {}}",
    "{red: {min: 5 ms, max: 15 ms, probability: 5%, weight: 1%, gentle: false, ecn: false}}",
    "{limit: 100 packets, red: {min: 5 kB, packet: 500 B, harddrop: false}}",
    "{wred: {}}",
    "{wred: {by: dscp, profiles: [{dscp: [be, cs1], min: 10 packets, max: 30 packets}]}}",
    "{codel: {}}",
    "{codel: {target: 10 ms, interval: 200 ms, ecn: false}}",
    "{fq-codel: {}}",
    "{fq-codel: {flows: 16, quantum: 300 B, standing: flow}}",
    "{cake: {}}",
    "{limit: 1 MB, cake: {bandwidth: 19.9 Mbps, diffserv: diffserv8, isolation: flows, rtt: metro, "
    "overhead: 4 B mpu 64 B, ack_filter: aggressive, wash: true}}",
    "{pie: {}}",
    "{fq-pie: {}}",
    "{fq-pie: {flows: 8, quantum: 300 B, target: 5 ms, burst: 20 ms, ecn: false}}",
    "{sfq: {}}",
    "{sfq: {depth: 30, flows: 5, divisor: 8, quantum: 3 kB, perturb: 1 s, drop: head}}",
    "{dualpi2: {}}",
    "{limit: 500 kB, dualpi2: {threshold: 1 ms, range: 0 s, coupling: 3, classic_share: 10%}}",
]


def run(queue: str, seed: int = 1) -> dict[str, Any]:
    """The summary of a run with that queue at the bottleneck."""
    return analysis.summary(perhop.run(parse(OVERLOAD.format(queue=queue), "x"), seed=seed))


def counters(summary: dict[str, Any]) -> dict[str, int]:
    """Return the counters of the bottleneck's queue."""
    return dict(summary["links"]["r>b"]["classes"]["all"])


@pytest.mark.parametrize("queue", QUEUES)
def test_every_queue_is_written_as_it_was_read(queue: str) -> None:
    scenario = parse(OVERLOAD.format(queue=queue), "x")
    assert parse(dump(scenario), "x") == scenario


@pytest.mark.parametrize("queue", QUEUES)
def test_every_queue_keeps_the_link_busy(queue: str) -> None:
    # UDP takes 5.28 Mb/s of IP for its 5 Mb/s. Of the 14.3 Mb/s of payload that are left, a window
    # that is halved at each loss, without any queue, fills three quarters. RED's default thresholds
    # are low for a path of 67 packets, and come nearest to that.
    summary = run(queue)
    assert all(verdict["ok"] for verdict in summary["expect"]), summary["expect"]
    counted = counters(summary)
    causes = ("dropped_limit", "dropped_policer", "dropped_early")
    assert sum(counted[cause] for cause in causes) == counted["dropped_packets"] > 0


def test_many_flows_through_fq_codel_wait_as_in_linux() -> None:
    """Linux signals once all flows together are a standing queue, and not only one by itself.

    With 50 flows over 10 Mb/s a flow queue seldom holds more than a packet, so that CoDel on each
    by itself lets every flow keep two or three packets on the way, 1.2 ms each.
    """
    median = {}
    for standing in ("all", "flow"):
        scenario = OVERLOAD.replace("rate: 20 Mbps", "rate: 10 Mbps").replace(
            "streams: 4", "streams: 50"
        )
        scenario = scenario.format(queue=f"{{fq-codel: {{standing: {standing}}}}}")
        summary = analysis.summary(perhop.run(parse(scenario, "x")))
        median[standing] = summary["flows"]["bulk"]["rtt_s"]["median"]
    assert median["all"] < 0.8 * median["flow"], median


@pytest.mark.parametrize(
    "queue",
    ["{codel: {}}", "{fq-codel: {}}", "{cake: {}}", "{pie: {}}", "{fq-pie: {}}", "{dualpi2: {}}"],
)
def test_delay_comes_near_its_target(queue: str) -> None:
    # The path takes 40 ms without a queue, the longest target is 15 ms.
    plain = run("{limit: 1000 packets}")["pings"]["probe"]["rtt_s"]["median"]
    managed = run(queue)["pings"]["probe"]["rtt_s"]["median"]
    assert managed < 0.060 < 0.2 < plain


@pytest.mark.parametrize("queue", ["{red: {}}", "{pie: {}}", "{fq-pie: {}}", "{dualpi2: {}}"])
def test_packets_that_understand_are_marked(queue: str) -> None:
    assert counters(run(queue))["marked_packets"] > 0


def test_nothing_is_marked_where_that_is_off() -> None:
    assert counters(run("{wred: {}}"))["marked_packets"] == 0
    assert counters(run("{red: {ecn: false}}"))["marked_packets"] == 0


def test_chance_depends_on_the_seed_alone() -> None:
    drops = [counters(run("{red: {}}", seed))["dropped_early"] for seed in (1, 1, 2)]
    assert drops[0] == drops[1] != drops[2]


def classes(discipline: plans.DisciplinePlan) -> list[plans.ClassPlan]:
    assert "classes" in discipline
    return cast("plans.ClassesPlan", discipline["classes"])["classes"]


def spec(discipline: plans.DisciplinePlan) -> plans.RedSpec:
    assert "queue" in discipline
    return cast("dict[str, plans.RedSpec]", discipline["queue"])["red"]


def test_classes_have_disciplines_and_streams_of_their_own() -> None:
    policies = """\
policies:
  two:
    classes:
      web: {match: {protocol: tcp}, bandwidth: 50%, queue: {red: {min: 10 ms}}}
      rest: {match: any, policy: inner}
  inner:
    classes: {all: {match: any, queue: {wred: {}}}}
"""
    text = OVERLOAD.replace("queue: {queue}", "egress: {{r: two}}").format() + policies
    end = network_plan(parse(text, "x"), 1)["links"][1]["ends"][0]
    web, rest = classes(end["discipline"])
    (inner,) = classes(rest["discipline"])
    # Their names are those of their random streams.
    assert (end["name"], web["name"], inner["name"]) == ("r>b", "web", "rest/all")
    red = spec(web["discipline"])
    # 10 ms and 30 ms of the guaranteed 10 Mb/s.
    assert red["config"]["measure"] == {"bytes": {"mean": 1000}}
    thresholds = red["rules"][0]["thresholds"]
    assert (thresholds["min"], thresholds["max"]) == (12_500, 37_500)
    wred = spec(inner["discipline"])
    assert wred["config"]["measure"] == "packets"
    assert wred["config"]["limit"] == {"packets": 64}


# The defaults of IOS


def test_wred_by_precedence_has_the_thresholds_of_ios() -> None:
    # Of precedence 0 to 7, at an interface and in a class.
    for in_class, lower in (
        (False, [20, 22, 24, 26, 28, 31, 33, 35]),
        (True, [20, 22, 24, 26, 28, 30, 32, 34]),
    ):
        table = wred_defaults("precedence", in_class=in_class)
        assert [table[dscp] for dscp in range(64)] == [
            Threshold(lower[dscp // 8], 40) for dscp in range(64)
        ]


def test_wred_by_dscp_goes_by_drop_precedence() -> None:
    table = wred_defaults("dscp", in_class=True)
    rows = {0: 20, 8: 22, 16: 24, 24: 26, 32: 28, 40: 30, 48: 32, 56: 34, 46: 36, 1: 20}
    for base in (8, 16, 24, 32):
        rows |= {base + 2: 32, base + 4: 28, base + 6: 24}
    assert {dscp: table[dscp].min for dscp in rows} == rows
    assert {threshold.max for threshold in table.values()} == {40}


def test_wred_averages_as_ios_does() -> None:
    planned = network_plan(parse(OVERLOAD.format(queue="{wred: {}}"), "x"), 1)
    red = spec(planned["links"][1]["ends"][0]["discipline"])
    config, rules = red["config"], red["rules"]
    # The exponential weighting constant is 9, the mark probability denominator 10.
    assert config["weight"] == 10**9 // 2**9
    assert {rule["thresholds"]["probability"] for rule in rules} == {10**8}
    assert not config["gentle"] and not config["ecn"]
    # 1000 B at 20 Mb/s take 400 us.
    assert config["packet_time"] == 400 * 10**6
    assert sorted(dscp for rule in rules for dscp in rule["dscps"]) == [*range(64)]
