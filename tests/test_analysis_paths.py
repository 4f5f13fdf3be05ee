"""Hops, capacities, bottlenecks and requests in flight of small tables, worked out by hand."""

from __future__ import annotations

from dataclasses import astuple, replace
from typing import TYPE_CHECKING, Any

import pytest

from datasets import dataset
from perhop import analysis
from perhop.analysis.distributions import under_way
from perhop.dataset.manifest import Live
from perhop.scenario import parse

if TYPE_CHECKING:
    from perhop.dataset import Dataset

TEXT = """
perhop: 1
name: paths
duration: 10 s
nodes: {a: host, ap: router, near: host, enb: router, user: host}
links:
  - {ends: [a, ap], rate: 1 Gbps}
  - {ends: [ap, near], rate: 65 Mbps}
  - {ends: [ap, enb], rate: 100 Mbps}
  - {ends: [enb, user], rate: 8 Mbps}
tunnels: {vpn: {ends: [ap, enb], type: gre}}
flows:
  plain: {from: a, to: user, udp: {rate: 1 Mbps}}
  early: {from: a, to: user, udp: {rate: 1 Mbps}}
pings:
  path: {from: a, to: user, ttl: 1..9}
  trains: {from: a, to: user, ttl: 1..9, train: 3, size: 1472 B}
  echo: {from: a, to: user}
"""


def run(**tables: Any) -> Dataset:
    return dataset(parse(TEXT, "x.yaml"), **tables)


# Hops


def probe(
    ttl: int, sequence: int, sent: float, rtt: float | None, ping: str = "path", **more: Any
) -> dict[str, Any]:
    return {"ping": ping, "ttl": ttl, "sequence": sequence, "sent_s": sent, "rtt_s": rtt, **more}


def test_hops_end_at_the_destination() -> None:
    expired: dict[str, Any] = {"answer": "time exceeded", "dscp_arrived": 46}
    echo: dict[str, Any] = {"node": "user", "answer": "echo reply"}
    rows = [
        probe(2, 1, 0.1, 0.2, node="enb", **expired),
        probe(1, 0, 0.0, 0.1, node="ap", **expired),
        probe(1, 4, 1.0, 0.3, node="ap", **expired | {"dscp_arrived": 0}),
        probe(1, 8, 2.0, None),
        probe(1, 9, 3.0, None, node="enb", answer="net unreachable"),
        probe(3, 2, 0.2, 0.3, **echo),
        # Behind the destination only what others answer counts.
        probe(4, 3, 0.3, 0.3, **echo),
        probe(5, 5, 0.4, None),
        probe(6, 6, 0.5, 0.3, **expired | {"node": "near"}),
    ]
    one, two, three, six = analysis.hops(run(pings=rows), "path")
    assert [hop.ttl for hop in (one, two, three, six)] == [1, 2, 3, 6]
    assert (one.nodes, one.answers) == (("ap", "enb"), ("time exceeded", "net unreachable"))
    assert (one.sent, one.loss, one.dscps) == (4, 0.5, (46, 0))
    assert one.rtt is not None and astuple(one.rtt)[:3] == pytest.approx((2, 0.1, 0.2))
    assert (two.nodes, three.nodes, six.nodes) == (("enb",), ("user",), ("near",))
    assert (two.loss, three.answers) == (0, ("echo reply",))
    (first,) = analysis.hops(run(pings=rows), "path", (0.0, 0.1))
    assert (first.ttl, first.sent) == (1, 1)
    (silent,) = analysis.hops(run(pings=[probe(1, 0, 0, None)]), "path")
    assert (silent.nodes, silent.loss, silent.rtt) == ((), 1, None)


def train(
    ttl: int, number: int, gaps: list[float | None], node: str | None = "ap"
) -> list[dict[str, Any]]:
    """A train of three packets, of which the others come so much after the first."""
    return [
        probe(
            ttl, 3 * number + place, float(number), None if gap is None else 0.1 + gap, "trains",
            node=None if gap is None else node,
        )
        for place, gap in enumerate(gaps)
    ]  # fmt: skip


def test_capacities_are_those_of_gaps_in_trains() -> None:
    bits = 12_000  # of packets of 1500 B
    rows = [
        # Gaps of 1 ms, 1 ms and 3 ms: the median counts. 12 Mb/s.
        *train(1, 0, [0, 0.001, 0.002]),
        *train(1, 1, [0, 0.003, None]),
        # No two that follow each other, and none that come together: nothing is known.
        *train(2, 2, [0, None, 0.001]),
        *train(2, 3, [0, 0, None]),
        # 91% of the narrowest so far is no narrower link; 89% is.
        *train(3, 4, [0, bits / 10.92e6, None], "enb"),
        *train(4, 5, [0, bits / 9.94e6, None], "near"),
        *train(5, 6, [0, bits / 8.85e6, None], "near"),
        *train(6, 7, [0, bits / 20e6, None], "user"),
        *train(7, 8, [0, bits / 1e6, None], "user"),
    ]
    hops = analysis.capacities(run(pings=rows[::-1]), "trains")
    assert [(hop.ttl, hop.nodes) for hop in hops] == [
        (1, ("ap",)),
        (2, ("ap",)),
        (3, ("enb",)),
        (4, ("near",)),
        (5, ("near",)),
        (6, ("user",)),
    ]
    rates = [hop.rate_bps and hop.rate_bps / 1e6 for hop in hops]
    assert rates == [pytest.approx(12), None, *map(pytest.approx, (10.92, 9.94, 8.85, 20))]
    assert [hop.narrows for hop in hops] == [True, False, False, False, True, False]
    assert analysis.narrowest(hops) is hops[4]
    # The first hop with a rate narrows, whatever is known of those before.
    first = analysis.capacities(run(pings=rows[6:]), "trains")
    assert [hop.narrows for hop in first] == [False, True, False, True, False]
    assert analysis.narrowest(first[:1]) is None


def test_two_trains_are_not_one() -> None:
    rows = [*train(1, 0, [None, None, 0]), *train(1, 1, [0, None, None])]
    (hop,) = analysis.capacities(run(pings=rows), "trains")
    assert (hop.rate_bps, hop.narrows) == (None, False)


def narrow(found: Dataset) -> dict[str, tuple[str | None, int | None]]:
    rows = analysis.bottlenecks(found).iter_rows()
    return {flow: (link, rate) for _, _, flow, link, rate in rows}


def test_the_shaper_of_a_tunnel_is_a_bottleneck() -> None:
    text = TEXT.replace("type: gre", "type: gre, shape: {ap: {rate: 3 Mbps}}")
    more = "  back: {from: user, to: a}\n  beside: {from: a, to: near}\n"
    text = text.replace("pings:", f"{more}pings:")
    found = narrow(dataset(parse(text, "x.yaml")))
    assert found["plain"] == ("ap>enb#vpn", 3_000_000)
    # It shapes in one direction, and only what enters it.
    assert found["back"] == ("user>enb", 8_000_000)
    assert found["beside"] == ("ap>near", 65_000_000)


def test_a_link_whose_load_is_unknown_is_the_idlest() -> None:
    text = TEXT.replace("100 M", "8 M")
    busy = [{"link": "enb>user", "start_s": 0.0, "end_s": 10.0, "utilisation": 0.1}]
    assert narrow(dataset(parse(text, "x.yaml"), links=busy))["plain"] == ("enb>user", 8_000_000)
    busy = [{"link": "ap>enb", "start_s": 0.0, "end_s": 10.0, "utilisation": 0.1}]
    assert narrow(dataset(parse(text, "x.yaml"), links=busy))["plain"] == ("ap>enb", 8_000_000)
    # Alike, the first one counts.
    assert narrow(dataset(parse(text, "x.yaml")))["plain"] == ("ap>enb", 8_000_000)


# Requests in flight


@pytest.mark.parametrize(
    ("sent", "others", "expected"),
    [
        # Twice 50 ms of propagation, as nothing else is known.
        (9.91, [], 1),
        (9.89, [], 0),
        # The longest of a ping with the same ends, and not of one to another node.
        (9.6, [("beside", 0.5), ("beside", 0.1)], 1),
        (9.4, [("beside", 0.5)], 0),
        (9.6, [("away", 0.5)], 0),
        # Its own are known better.
        (9.85, [("echo", 0.2), ("beside", 0.5)], 1),
        (9.7, [("echo", 0.2), ("beside", 0.5)], 0),
    ],
)
def test_requests_in_flight_by_what_is_known_of_their_path(
    sent: float, others: list[tuple[str, float]], expected: int
) -> None:
    text = TEXT + "  beside: {from: a, to: user}\n  away: {from: a, to: near}\n"
    text = text.replace("[a, ap], rate: 1 Gbps", "[a, ap], rate: 1 Gbps, delay: 50 ms")
    rows = [{"ping": name, "sent_s": 1.0, "rtt_s": rtt} for name, rtt in others]
    rows.append({"ping": "echo", "sent_s": sent, "rtt_s": None})
    found = dataset(parse(text, "x.yaml"), pings=rows)
    assert under_way(found, "echo") == expected
    answered = sum(name == "echo" for name, _ in others)
    decided = answered + 1 - expected
    assert analysis.loss(found, "echo") == ((1 - expected) / decided if decided else None)


def test_of_live_networks_the_delay_is_unknown_and_clocks_differ() -> None:
    text = TEXT.replace("[a, ap], rate: 1 Gbps", "[a, ap], rate: 1 Gbps, delay: 50 ms")
    rows = [{"ping": "echo", "sent_s": 9.99, "rtt_s": None}]
    found = dataset(parse(text, "x.yaml"), pings=rows)
    assert (under_way(found, "echo"), analysis.owd_bound(found, "plain")) == (1, None)
    circumstances = Live(agents={}, offset_bounds_s={"plain": 0.002})
    live = replace(found, manifest=found.manifest.model_copy(update={"live": circumstances}))
    assert under_way(live, "echo") == 0
    assert [analysis.owd_bound(live, flow) for flow in ("plain", "early")] == [0.002, None]
