"""What a run in real time could not do in time, and what its results can bear of that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perhop.scenario.model.queues import CLASS_LIMIT, LINK_LIMIT
from perhop.scenario.resolve import only_path, ways
from perhop.scenario.rules.findings import Finding
from perhop.units import MILLISECOND, SECOND, format_duration

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from perhop.scenario import Scenario
    from perhop.scenario.model.queues import Queue

__all__ = ["bearable", "is_light", "late"]

_LEAST: Final = MILLISECOND
"""Less is nothing that an engine in real time promises (docs/engines.md)."""

_SHARE: Final = 0.01
"""From which part of a run on its stalls are worth a warning: what goodput may deviate by."""

_LIGHT: Final = 100_000_000
"""Up to which rate, in bits per second, sockets leave a processor to others: ten times as much took
all of one of 2.5 GHz."""

_PACKET: Final = 1500

_LOST: Final = ("overruns", "refused", "overflow")
"""Counters of packets that were dropped where no policy and no link did it."""


def bearable(scenario: Scenario) -> int:
    """How late an engine may be, in picoseconds, before a result suffers.

    A link goes on sending what waits in its queue while hosts stand still, so that TCP loses
    nothing by a stall that a full queue outlasts: the shortest of those at the slowest link of
    each flow's path. What else is sent is not held up by more than the shortest round trip.
    """
    found = ways(scenario)
    spans = []
    ends = [(each.source, each.destination, each.tcp) for each in scenario.flows.values()]
    ends += [(each.source, each.destination, None) for each in scenario.pings.values()]
    for source, destination, tcp in ends:
        path = only_path(scenario, found, source, destination)
        if not path:
            continue
        if tcp is not None:
            slowest = min(path, key=lambda name: scenario.directions[name][0].rate)
            spans.append(_drain(scenario, slowest))
        else:
            spans.append(2 * sum(scenario.directions[name][0].delay for name in path))
    return max(min(spans, default=0), _LEAST)


def is_light(scenario: Scenario) -> bool:
    """Whether the threads of a scenario's sockets may go before all others.

    Linux stops every thread in real time for 50 ms a second on a processor that these fill
    (sched(7)), and that of the network with them.
    """
    found = ways(scenario)
    slowest = set()
    for flow in scenario.flows.values():
        path = only_path(scenario, found, flow.source, flow.destination)
        if path is None:
            return False
        slowest.add(min(path, key=lambda name: scenario.directions[name][0].rate))
    return sum(scenario.directions[name][0].rate for name in slowest) <= _LIGHT


def late(scenario: Scenario, counters: Mapping[str, int], now_s: float) -> Iterator[Finding]:
    """What a run of `now_s` seconds has counted that its results may not bear."""
    stalled_s = max(counters.get(f"{who}stalled_us", 0) for who in ("", "traffic_")) / 1e6
    if stalled_s > _SHARE * now_s:
        stalled = format_duration(round(stalled_s * 1000) * MILLISECOND)
        borne = format_duration(bearable(scenario) // MILLISECOND * MILLISECOND)
        yield Finding(
            (),
            f"this machine was late for {stalled} in all, {stalled_s / now_s:.1%} of the run, by "
            f"more than {borne} each time: goodput may be too low by as much, and delays were that "
            "long; run again on a machine that does less",
        )
    for name in _LOST:
        if counters.get(name, 0):
            yield Finding(
                (),
                f"{counters[name]:,} packets were dropped by this machine and by no queue of the "
                f"scenario (`{name}`, see docs/engines.md); it has too much to do",
            )


def _drain(scenario: Scenario, direction: str) -> int:
    """How long what waits in the smallest queue at the beginning of a link takes to be sent."""
    link, sender = scenario.directions[direction]
    rate = min(link.rate, link.capacity(sender))
    policy = link.egress.get(sender)
    if policy is None:
        return _span(link.queue, rate, in_class=False)
    parts = scenario.policies[policy].classes.values()
    return min((_span(class_.effective_queue, rate, in_class=True) for class_ in parts), default=0)


def _span(queue: Queue, rate: int, *, in_class: bool) -> int:
    """For how long a queue has something to send at a rate: what it holds, or aims to hold."""
    limit = queue.effective_limit(CLASS_LIMIT if in_class else LINK_LIMIT)
    if queue.discipline is not None:
        limit = queue.discipline.aim(limit)
    if limit.unit == "time":
        return limit.amount
    size = limit.amount * (_PACKET if limit.unit == "packets" else 1)
    return 8 * size * SECOND // rate
