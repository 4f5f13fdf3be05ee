"""The paths of applications, and the rates at which they ask for data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from perhop.scenario.resolve.paths import next_hops, only_path
from perhop.scenario.resolve.steps import NetworkState, sending_rate
from perhop.units import MAX_DURATION, SECOND, WHOLE

if TYPE_CHECKING:
    from perhop.scenario.model.traffic import Flow, Ping
    from perhop.scenario.resolve.scenario import ResolvedScenario


@dataclass(frozen=True, slots=True)
class EmptyPath:
    """The path of a flow or ping without other traffic, as the scenario begins.

    Attributes:
        rate: The rate of its slowest link in bit/s.
        round_trip: The propagation delay of both directions in picoseconds.
    """

    rate: int
    round_trip: int


def empty_path(scenario: ResolvedScenario, sender: Flow | Ping) -> EmptyPath | None:
    """Return the path from a source to its destination and back; None if one forks."""
    hops = next_hops(scenario, (), (sender.source, sender.destination))
    there = only_path(scenario, hops, sender.source, sender.destination)
    back = only_path(scenario, hops, sender.destination, sender.source)
    if not there or not back:
        return None
    network = NetworkState(scenario)
    ends = (scenario.directions[each] for each in (*there, *back))
    delay = sum(link.medium(end).delay for link, end in ends)
    return EmptyPath(min(sending_rate(scenario, network, link) for link in there), delay)


def mean_gap(scenario: ResolvedScenario, flow: Flow) -> int | None:
    """Return the mean time between two requests of one client of transfers or calls.

    Returns:
        Picoseconds, at most the longest duration; the time after a response with `think`. None if
        the path of a `load` forks.
    """
    exchanges = flow.exchanges
    assert exchanges is not None
    if exchanges.every is not None:
        return exchanges.every
    if exchanges.think is not None:
        return exchanges.think
    path = empty_path(scenario, flow)
    if path is None or exchanges.load is None:
        return None
    rate = path.rate * exchanges.load / WHOLE / flow.all_streams
    if not rate:
        return MAX_DURATION  # the shaper's share rounds to nothing: another rule refuses it
    return min(max(1, round(8 * exchanges.mean_size * SECOND / rate)), MAX_DURATION)
