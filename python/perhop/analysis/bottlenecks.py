"""The bottleneck of each flow's path, and its rate, over the timeline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import polars as pl

from perhop.analysis.cache import cached
from perhop.analysis.links import link_loads
from perhop.analysis.throughput import TOTAL, active, phases
from perhop.scenario.resolve import entered, next_hops, only_path, sending_rate, states

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from perhop.dataset import Dataset
    from perhop.scenario import Link, Scenario

_SCHEMA: Final = {
    "start_s": pl.Float64,
    "end_s": pl.Float64,
    "flow": pl.String,
    "link": pl.String,
    "rate_bps": pl.UInt64,
}


@cached
def bottlenecks(dataset: Dataset) -> pl.DataFrame:
    """Return the bottleneck of every flow in each phase: the slowest link of its own path.

    A link's rate is what the sending node can put on it at the time: the link's rate, or that of
    its shaper or of the root of its policy, if that is less. A tunnel's device with a shaper is a
    link, too, whose rate is that of inner packets. Among links of one rate the bottleneck
    is the one that the run kept busiest. A flow whose path forks has none. The flow "total" has
    the bottleneck that all flows of the phase share, if they do.

    Returns:
        Columns `start_s`, `end_s`, `flow`, `link` and `rate_bps`, the rows being those of `phases`;
        `link` and `rate_bps` are null where there is no bottleneck.
    """
    scenario = dataset.scenario
    busy = _busy(dataset)
    states = list(_states(scenario))
    windows = {flow: active(dataset, flow) for flow in scenario.flows}
    table = phases(dataset)
    # Packets in transit when a flow stopped arrive in the next phase.
    delivering = set(table.filter(pl.col("throughput_bps") > 0).select("start_s", "flow").rows())
    rows: list[tuple[float, float, str, str | None, int | None]] = []
    state = 0
    narrows = _narrowest(scenario, states, busy)
    found = next(narrows)
    for start, end in table.select("start_s", "end_s").unique(maintain_order=True).iter_rows():
        middle = (start + end) / 2
        while state + 1 < len(states) and states[state + 1].since_s <= middle:
            state, found = state + 1, next(narrows)
        used = {
            found[flow]
            for flow, span in windows.items()
            if (span and span[0] < middle < span[1]) or (start, flow) in delivering
        }
        shared = used.pop() if len(used) == 1 else None
        for flow, narrow in [*found.items(), (TOTAL, shared)]:
            rows.append((start, end, flow, *(narrow or (None, None))))
    return pl.DataFrame(rows, schema=_SCHEMA, orient="row")


def _narrowest(
    scenario: Scenario, states: list[_State], busy: Mapping[str, float]
) -> Iterator[dict[str, tuple[str, int] | None]]:
    """Return the bottleneck of each flow in each state, and its rate; None if there is none."""
    paths: dict[frozenset[int], dict[str, tuple[str, ...]]] = {}
    for state in states:
        if state.down not in paths:
            paths[state.down] = _paths(scenario, state.down)
        rates = state.rates
        found: dict[str, tuple[str, int] | None] = dict.fromkeys(scenario.flows)
        for flow, path in paths[state.down].items():
            if path:
                link = min(path, key=lambda at: (rates[at], -busy.get(at, 0.0)))
                found[flow] = link, rates[link]
        yield found


@dataclass(frozen=True, slots=True)
class _State:
    """The network from an instant on.

    Attributes:
        since_s: The instant.
        down: The numbers of the links that are down.
        rates: The sending rate of each directed link and shaped device, in bit/s.
    """

    since_s: float
    down: frozenset[int]
    rates: Mapping[str, int]


def _states(scenario: Scenario) -> Iterator[_State]:
    """Return the network at the start, and after each instant of the timeline that changes it."""
    devices = {name: device.capacity(node) for name, (device, node) in _shaped(scenario).items()}
    for at, network in states(scenario):
        rates = {name: sending_rate(scenario, network, name) for name in network.directions}
        rates |= devices
        yield _State(at / 1e12, frozenset(network.down), rates)


def _paths(scenario: Scenario, down: frozenset[int]) -> dict[str, tuple[str, ...]]:
    """Return the directed links of each flow's path; none if the path forks or does not exist.

    The devices of the tunnels that it enters follow.
    """
    flows = scenario.flows.items()
    there = next_hops(scenario, down, {flow.destination for _, flow in flows})
    found = {}
    for name, flow in flows:
        links = only_path(scenario, there, flow.source, flow.destination) or ()
        nodes = {scenario.directions[link][1] for link in links}
        devices = (
            own
            for own, (device, node) in _shaped(scenario).items()
            if node in nodes
            and entered(scenario, there, node, flow.destination)
            is scenario.tunnels[str(device.name)]
        )
        found[name] = (*links, *devices)
    return found


def _shaped(scenario: Scenario) -> dict[str, tuple[Link, str]]:
    """Return the devices of tunnels that have a shaper."""
    devices = scenario.devices.items()
    return {name: (device, node) for name, (device, node) in devices if node in device.shape}


def _busy(dataset: Dataset) -> dict[str, float]:
    """Return the mean utilisation of each directed link over the run, if known."""
    loads = link_loads(dataset).select("link", "utilisation")
    return dict(loads.drop_nulls().iter_rows())
