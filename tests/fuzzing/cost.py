"""About how much a run does, so that every random run is short."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perhop.scenario.model.trace import OPPORTUNITY
from perhop.scenario.resolve import mean_gap
from perhop.units import SECOND, WHOLE

if TYPE_CHECKING:
    from perhop.scenario import Flow, Scenario
    from perhop.scenario.model.trace import Trace

BUDGET: Final = 150_000
"""Limits of a run: packets that cross links, ticks, and rows of tables."""


def cost(scenario: Scenario, stretch: float = 1.0) -> float:
    """At most how much a run of `scenario` does, as far as it can be told beforehand.

    Args:
        scenario: What is run.
        stretch: By how much all of its instants are later.
    """
    end = scenario.end_ps / SECOND * stretch
    hops = min(len(scenario.nodes), 6)
    copies = 1.0
    duplicated = (max(medium.duplicate for medium in link.media) for link in scenario.links)
    for duplicate in sorted(duplicated, reverse=True)[:hops]:
        copies *= 1 + duplicate / WHOLE
    packets = sum(packets_of(scenario, flow, stretch) for flow in scenario.flows.values())
    for ping in scenario.pings.values():
        start, stop = scenario.active_ps(ping)
        packets += 2 * ((stop - start) / ping.every + 1) * ping.requests
    classes = sum(len(policy.classes) for _, policy in scenario.all_policies())
    streams = sum(flow.all_streams for flow in scenario.flows.values())
    rows = len(scenario.marks_ps) * (streams + len(scenario.links) * (4 + classes))
    return packets * hops * copies + rows + end * _ticks(scenario)


def packets_of_requests(scenario: Scenario, flow: Flow, active: float, rtt: float) -> float:
    """The packets of a flow's requests and connections, if it has transfers or calls."""
    exchanges = flow.exchanges
    if exchanges is None:
        return 0.0
    gap = (mean_gap(scenario, flow) or 0) / SECOND + (rtt if exchanges.think is not None else 0)
    return 12 * flow.all_streams * (active / gap + 1) if gap else float("inf")


def packets_of(scenario: Scenario, flow: Flow, stretch: float) -> float:
    """The packets of a flow, acknowledgements included."""
    start, stop = scenario.active_ps(flow)
    active = (stop - start) / SECOND * stretch
    access = float(
        sum(
            max([link.medium(node).rate, *changed(scenario, name, "rate")])
            for name, (link, node) in scenario.directions.items()
            if node == flow.source
        )
    )
    if flow.tcp is not None:
        tcp = flow.tcp
        mss = min([tcp.mss, *(link.mtu - 60 for link in scenario.links if link.mtu)])
        delays = {
            name: min([link.medium(node).delay, *changed(scenario, name, "delay")])
            for name, (link, node) in scenario.directions.items()
        }
        rtt = 2 * shortest(scenario, delays, flow.source, flow.destination) / SECOND
        turns = active / rtt + 1 if rtt else float("inf")
        window = min(tcp.effective_send_window, tcp.effective_receive_window) / mss + 2
        # It doubles once a round trip at most.
        mean = min(window, tcp.initial_window * 2 ** min(turns, 60)) if turns < 60 else window
        by_volume = 3 * flow.all_streams * flow.volume / mss if flow.volume else float("inf")
        most = min(access * active / 8 / mss, flow.all_streams * mean * turns, by_volume)
        most += packets_of_requests(scenario, flow, active, rtt)
        return 3 * (most + 10 * flow.all_streams)
    if flow.quic is not None:
        # At most what the access takes, and probes while nothing is acknowledged.
        most = access * active / 8 / (flow.quic.datagram + 28)
        by_volume = 3 * flow.all_streams * (flow.volume or float("inf")) / 1100
        most += packets_of_requests(scenario, flow, active, 0)
        return 3 * (min(most, by_volume) + 100 * flow.all_streams)
    udp = flow.datagrams
    assert udp is not None
    if udp.replay is not None:
        period = sum(gap for gap, _ in udp.replay.packets) / SECOND
        turns = active / period if udp.replay.repeat and period else 1.0
        sent = len(udp.replay.packets) * max(turns, 1.0)
    else:
        sent = (udp.rate or 0) * active / 8 / udp.size + 1
    if flow.volume:
        sent = min(sent, flow.volume)
    if isinstance(udp.when_full, int):
        sent += active * SECOND / udp.when_full
    return flow.all_streams * sent


def _ticks(scenario: Scenario) -> float:
    """Return the number of events per second in queues without packets."""
    ticks = 0.0
    ends = 2 * len(scenario.links) + len(scenario.changes)
    for _, policy in scenario.all_policies():
        if policy.scheduler == "altq-cbq":
            ticks += ends * SECOND / (policy.cbq.tick if policy.cbq is not None else SECOND / 100)
    queues = [link.queue_of(end) for link in scenario.links for end in link.ends]
    queues += [
        part.effective_queue
        for _, policy in scenario.all_policies()
        for part in policy.classes.values()
    ]
    for queue in queues:
        for pie in (queue.pie, queue.fq_pie):
            if pie is not None:
                ticks += ends * SECOND / pie.update
        if queue.dualpi2 is not None:
            ticks += ends * SECOND / min(queue.dualpi2.target, queue.dualpi2.max_rtt)
    return ticks


def changed(scenario: Scenario, direction: str, key: str) -> list[int]:
    """Return the settings that changes give a link, in either direction, and its trace."""
    link, node = scenario.directions[direction]
    changes = [
        value
        for change in scenario.changes
        if change.on is not None and scenario.directions[change.on][0] is link
        for value in values_of(getattr(change, key, None))
    ]
    trace = link.trace.get(node)
    return changes if trace is None else [*changes, *traced(trace, key)]


def traced(trace: Trace, key: str) -> list[int]:
    """Return the values that a trace has of a key of links; of opportunities, rates within 1 ms."""
    if trace.steps is not None:
        return [getattr(step, key) for step in trace.steps] if trace.sets(key) else []
    assert trace.opportunities is not None
    most = max(number for _, number in trace.opportunities)
    return [0, 8 * OPPORTUNITY * 1000 * most] if key == "rate" else []


def values_of(value: int | dict[str, int] | None) -> list[int]:
    """Return the values of a link's key in a change, in any direction."""
    if value is None:
        return []
    return [*value.values()] if isinstance(value, dict) else [value]


def shortest(scenario: Scenario, delays: dict[str, int], source: str, destination: str) -> int:
    """The least time from a node to another, in picoseconds, whatever routes there are."""
    best = {source: 0}
    for _ in scenario.nodes:
        for name, (link, sender) in scenario.directions.items():
            if sender in best:
                through = best[sender] + delays[name]
                other = link.other(sender)
                best[other] = min(through, best.get(other, through))
    return best[destination]
