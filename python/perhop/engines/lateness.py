"""Warnings of runs in real time in which this machine was late or dropped packets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perhop.scenario.resolve import next_hops, only_path
from perhop.scenario.rules.findings import Finding
from perhop.units import MILLISECOND, SECOND, format_duration

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from perhop.scenario import Scenario
    from perhop.scenario.model.queues import Queue
    from perhop.scenario.model.topology import Medium

__all__ = ["is_light", "late", "stall_threshold"]

_LEAST: Final = MILLISECOND
"""The shortest lateness that counts: real-time engines do not promise less (docs/engines.md)."""

_SHARE: Final = 0.01
"""The share of stalls in a run from which a warning is due: the tolerance of goodput."""

_LIGHT: Final = 100_000_000
"""The rate in bit/s up to which sockets leave most of a processor idle: ten times this rate
occupied a whole processor of 2.5 GHz."""

_PACKET: Final = 1500

_LOST: Final = ("overruns", "refused", "overflow")
"""The counters of packets that were dropped neither by a policy nor by a link."""


def stall_threshold(scenario: Scenario) -> int:
    """Return the lateness of an engine in picoseconds above which results suffer.

    During a stall of the hosts a link continues to send the packets in its queue. A TCP flow loses
    no goodput if the full queue before the slowest link of its path outlasts the stall. For UDP
    flows and pings, the limit is the round-trip propagation delay. The least limit applies.
    """
    found = next_hops(scenario)
    spans = []
    ends = [(each.source, each.destination, each.tcp) for each in scenario.flows.values()]
    ends += [(each.source, each.destination, None) for each in scenario.pings.values()]
    for source, destination, tcp in ends:
        path = only_path(scenario, found, source, destination)
        if not path:
            continue
        if tcp is not None:
            slowest = min(path, key=lambda name: _medium(scenario, name).rate)
            spans.append(_drain(scenario, slowest))
        else:
            delay = sum(_medium(scenario, name).delay for name in path)
            back = only_path(scenario, found, destination, source) or path
            spans.append(delay + sum(_medium(scenario, name).delay for name in back))
    return max(min(spans, default=0), _LEAST)


def is_light(scenario: Scenario) -> bool:
    """Return whether the threads of a scenario's sockets may have real-time priority.

    If real-time threads occupy a whole processor, Linux stops all of them for 50 ms per second
    (sched(7)), including the thread of the network.
    """
    found = next_hops(scenario)
    slowest = set()
    for flow in scenario.flows.values():
        path = only_path(scenario, found, flow.source, flow.destination)
        if path is None:
            return False
        slowest.add(min(path, key=lambda name: _medium(scenario, name).rate))
    return sum(_medium(scenario, name).rate for name in slowest) <= _LIGHT


def late(
    scenario: Scenario,
    counters: Mapping[str, int],
    now_s: float,
    agents: Mapping[str, int] | None = None,
) -> Iterator[Finding]:
    """Yield a warning for each counter of a run that makes results doubtful.

    Args:
        scenario: The scenario of the run.
        counters: The counters of the run.
        now_s: The duration of the run in seconds.
        agents: Of a live run, the total stall on the host of each agent in microseconds.
    """
    if agents is None:
        stalled_us = max(counters.get(f"{who}stalled_us", 0) for who in ("", "traffic_"))
        hosts = {"this machine": stalled_us}
    else:
        hosts = {f"the host of agent {node}": stalled for node, stalled in agents.items()}
    for host, stalled_us in hosts.items():
        stalled_s = stalled_us / 1e6
        if stalled_s <= _SHARE * now_s:
            continue
        stalled = format_duration(round(stalled_s * 1000) * MILLISECOND)
        threshold = format_duration(stall_threshold(scenario) // MILLISECOND * MILLISECOND)
        yield Finding(
            (),
            f"{host} was late for {stalled} in all ({stalled_s / now_s:.1%} of the run), by "
            f"more than {threshold} each time: goodput may be too low by this share, and "
            "delays may be too long; run it again on a less busy machine",
        )
    for name in _LOST:
        if counters.get(name, 0):
            yield Finding(
                (),
                f"{counters[name]:,} packets were dropped by this machine, not by a queue of the "
                f"scenario (`{name}`, see docs/engines.md); the machine is overloaded",
            )


def _medium(scenario: Scenario, direction: str) -> Medium:
    link, sender = scenario.directions[direction]
    return link.medium(sender)


def _drain(scenario: Scenario, direction: str) -> int:
    """Return the time to drain the smallest queue of a directed link, in picoseconds."""
    link, sender = scenario.directions[direction]
    rate = min(link.medium(sender).rate, link.capacity(sender))
    policy = link.egress.get(sender)
    if policy is None:
        return _span(link.queue_of(sender), rate, in_class=False)
    parts = scenario.policies[policy].classes.values()
    return min((_span(class_.effective_queue, rate, in_class=True) for class_ in parts), default=0)


def _span(queue: Queue, rate: int, *, in_class: bool) -> int:
    """Return the time to drain a queue at a rate: up to its limit, or its discipline's target."""
    limit = queue.effective_limit(in_class=in_class)
    if queue.discipline is not None:
        limit = queue.discipline.aim(limit)
    if limit.unit == "time":
        return limit.amount
    size = limit.amount * (_PACKET if limit.unit == "packets" else 1)
    return 8 * size * SECOND // rate
