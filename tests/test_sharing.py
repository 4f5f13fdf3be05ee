"""Link sharing, schedulers, shapers and policers from a scenario to its tables."""

import polars as pl
import pytest

import perhop
from perhop import linux
from perhop.scenario import dump, parse

SCENARIO = """\
perhop: 1
name: sharing
nodes: {{a: host, r: router, b: host}}
links:
  - {{ends: [a, r], rate: 1 Gbps}}
  - {{ends: [r, b], rate: 10 Mbps, egress: {{r: edge}}{link}}}
policies:
  edge:
{policy}
flows:
{flows}
duration: 10 s
"""
"""Ten seconds in which 10 Mb/s carry 12,500 packets of 1000 bytes."""

UNTIL = 12_500


def run(policy: str, flows: dict[str, str], link: str = "") -> pl.DataFrame:
    """Return the counters of each class of r>b when `flows`, by code point, send at their rates."""
    lines = [
        f"  {dscp}: {{from: a, to: b, dscp: {dscp}, udp: {{rate: {rate}, size: 972 B}}}}"
        for dscp, rate in flows.items()
    ]
    text = SCENARIO.format(policy=policy, flows="\n".join(lines), link=link)
    scenario = parse(text)
    assert parse(dump(scenario)) == scenario
    queues = perhop.run(scenario).queues.filter(pl.col("link") == "r>b")
    return queues.group_by("class").agg(pl.selectors.integer().sum())


def sent(queues: pl.DataFrame) -> dict[str, int]:
    """Packets that each class sent."""
    return dict(zip(queues["class"], queues["sent_packets"], strict=True))


TREE = """\
    classes:
      agency:
        match: {dscp: [af11, af12, af13]}
        bandwidth: 60%
        classes:
          bulk: {match: {dscp: af13}, bandwidth: 1 Mbps, priority: 2}
          web: {match: {dscp: af12}, bandwidth: 2 Mbps, priority: 1, limit: 3 Mbps}
          rest: {match: any, bandwidth: 1 Mbps, borrow: false}
      other: {match: any, bandwidth: 40%}
"""


@pytest.mark.parametrize(
    ("other", "shares"),
    [
        # The agency has 6 Mb/s: web goes up to its ceiling first, the rest may not borrow.
        ("20 Mbps", {"bulk": 0.2, "web": 0.3, "rest": 0.1, "other": 0.4}),
        # The other leaves 3 Mb/s, which only bulk may have.
        ("972 kbps", {"bulk": 0.5, "web": 0.3, "rest": 0.1, "other": 0.1}),
    ],
)
def test_a_tree_shares_by_guarantee_ceiling_and_priority(
    other: str, shares: dict[str, float]
) -> None:
    flows = {"af11": "20 Mbps", "af12": "20 Mbps", "af13": "20 Mbps", "be": other}
    packets = sent(run(TREE, flows))
    for name, share in shares.items():
        path = name if name == "other" else f"agency/{name}"
        assert packets[path] == pytest.approx(share * UNTIL, rel=0.01), name
    assert packets["agency"] == sum(packets[f"agency/{n}"] for n in ("bulk", "web", "rest"))


@pytest.mark.parametrize("scheduler", ["wfq", "drr", "link-sharing"])
def test_schedulers_share_by_weight(scheduler: str) -> None:
    policy = f"""\
    scheduler: {scheduler}
    classes:
      one: {{match: {{dscp: af11}}, bandwidth: 70%}}
      two: {{match: any, bandwidth: 30%}}
"""
    packets = sent(run(policy, {"af11": "20 Mbps", "be": "20 Mbps"}))
    assert packets["one"] == pytest.approx(0.7 * UNTIL, abs=10)
    assert packets["two"] == pytest.approx(0.3 * UNTIL, abs=10)


def test_quanta_share_what_strict_classes_leave() -> None:
    """Turns of 6000, 3000 and 1000 bytes, the last of which do not hold two packets."""
    policy = """\
    scheduler: drr
    classes:
      one: {match: {dscp: af11}, quantum: 6000 B}
      call: {match: {dscp: ef}, priority: strict, police: {rate: 4 Mbps, burst: 10 kB}}
      two: {match: {dscp: af12}, quantum: 3000 B}
      rest: {match: any, quantum: 1000 B}
"""
    flows = dict.fromkeys(("af11", "af12", "be"), "20 Mbps")
    packets = sent(run(policy, {**flows, "ef": "1944 kbps"}))
    call = packets["call"]
    assert call == pytest.approx(0.2 * UNTIL, abs=2)
    for name, share in {"one": 0.6, "two": 0.3, "rest": 0.1}.items():
        assert packets[name] == pytest.approx(share * (UNTIL - call), abs=12), name


def test_quanta_are_bands_of_linux() -> None:
    policy = """\
    scheduler: drr
    classes:
      one: {match: {dscp: af11}, quantum: 6000 B}
      call: {match: {dscp: ef}, priority: strict, police: {rate: 4 Mbps, burst: 10 kB}}
      rest: {match: any, quantum: 1000 B}
"""
    scenario = parse(
        SCENARIO.format(
            policy=policy,
            flows="  ef: {from: a, to: b, dscp: ef}\n  af11: {from: a, to: b, dscp: af11}\n"
            "  be: {from: a, to: b}",
            link="",
        )
    )
    found = linux.mapping(scenario)
    assert found.gaps == ()
    device = found.interfaces["r>b"].device
    lines = [line.replace(f"dev {device} ", "") for line in found.interfaces["r>b"].tc]
    assert lines[2:] == [
        "qdisc add parent 1:1 handle 2: ets bands 3 strict 1 quanta 6000 1000",
        "qdisc add parent 2:2 handle 10: pfifo limit 64",
        "qdisc add parent 2:1 handle 11: pfifo limit 64",
        "qdisc add parent 2:3 handle 12: pfifo limit 64",
        "filter add parent 2: protocol all prio 1 handle 0x11 fw classid 2:1 action police "
        "rate 4000000bit burst 10000b mtu 64kb conform-exceed drop/pipe index 1 "
        "action ok index 1",
    ]
    assert "meta priority set 2:3 accept" in found.nft["r"]
    limited = dump(scenario).replace("quantum: 6 kB", "quantum: 6 kB\n        limit: 9 Mbps")
    assert [gap.path for gap in linux.mapping(parse(limited)).gaps] == [
        "policies.edge.classes.one.limit"
    ]


def test_priority_serves_in_the_order_of_classes() -> None:
    policy = """\
    scheduler: priority
    classes:
      first: {match: {dscp: ef}}
      second: {match: {dscp: af11}, limit: 3 Mbps}
      third: {match: any}
"""
    flows = {"ef": "3888 kbps", "af11": "20 Mbps", "be": "20 Mbps"}
    packets = sent(run(policy, flows))
    assert packets["first"] == pytest.approx(0.4 * UNTIL, abs=2)
    assert packets["second"] == pytest.approx(0.3 * UNTIL, abs=8)
    assert packets["third"] == pytest.approx(0.3 * UNTIL, abs=8)


def test_a_two_rate_policer_counts_three_colours() -> None:
    policy = """\
    classes:
      all:
        match: any
        bandwidth: 100%
        police:
          rate: 2 Mbps
          burst: 10 kB
          peak_rate: 5 Mbps
          peak_burst: 10 kB
          exceed: {remark: af12}
          violate: drop
"""
    row = run(policy, {"af11": "7776 kbps"}).row(0, named=True)
    # Of 8 Mb/s, 2 and 3 and 3; each bucket holds ten packets more.
    assert row["conformed_packets"] == pytest.approx(0.2 * UNTIL + 10, abs=2)
    assert row["exceeded_packets"] == pytest.approx(0.3 * UNTIL, abs=2)
    assert row["violated_packets"] == pytest.approx(0.3 * UNTIL - 10, abs=2)
    assert row["remarked_packets"] == row["exceeded_packets"]
    assert row["dropped_policer"] == row["violated_packets"]


def test_a_single_rate_policer_lets_an_excess_burst_pass() -> None:
    policy = """\
    classes:
      all:
        match: any
        police: {rate: 2 Mbps, burst: 10 kB, excess_burst: 20 kB, exceed: send}
"""
    row = run(policy, {"af11": "3888 kbps"}).row(0, named=True)
    assert row["conformed_packets"] == pytest.approx(0.2 * UNTIL + 10, abs=2)
    # A bucket that nothing overflows into empties once.
    assert row["exceeded_packets"] == 20
    assert row["sent_packets"] == row["conformed_packets"] + 20


def test_a_shaped_class_leaves_what_it_may_not_send() -> None:
    policy = """\
    classes:
      slow: {match: {dscp: af11}, bandwidth: 10%, shape: {rate: 2 Mbps, burst: 4 kB}}
      rest: {match: any}
"""
    packets = sent(run(policy, {"af11": "20 Mbps", "be": "3888 kbps"}))
    assert packets["slow"] == pytest.approx(0.2 * UNTIL + 4, abs=1)
    assert packets["rest"] == pytest.approx(0.4 * UNTIL, abs=2)


def test_a_shaped_end_of_a_link_is_what_its_policy_divides() -> None:
    policy = """\
    classes:
      one: {match: {dscp: af11}, bandwidth: 25%}
      two: {match: any}
"""
    flows = {"af11": "20 Mbps", "be": "20 Mbps"}
    packets = sent(run(policy, flows, link=", shape: {r: {rate: 8 Mbps}}"))
    assert packets["one"] == pytest.approx(0.2 * UNTIL, abs=2)
    assert packets["two"] == pytest.approx(0.6 * UNTIL, abs=2)


def test_what_exceeds_the_guarantees_is_shared_by_quantum() -> None:
    policy = """\
    classes:
      a: {match: {dscp: af11}, bandwidth: 1 Mbps, quantum: 6000 B}
      b: {match: {dscp: af21}, bandwidth: 3 Mbps, quantum: 2000 B}
      c: {match: any, bandwidth: 2 Mbps, quantum: 2000 B, unused: true}"""
    # a: 1 + 6·3/4, b: 3 + 6/4 of 10 Mb/s, in which c sends nothing.
    found = sent(run(policy, {"af11": "20 Mbps", "af21": "20 Mbps"}))
    assert found["a"] == pytest.approx(0.55 * UNTIL, rel=0.01)
    assert found["b"] == pytest.approx(0.45 * UNTIL, rel=0.01)
