"""The `sim` engine: modelled hosts and virtual time, on perhop's own network.

This module writes a scenario as the plan that the core takes, in which every name is a number, and
puts the names back into the tables that the core returns.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from perhop._core import Simulation
from perhop.dataset import TABLES
from perhop.engines.queues import Place, queue_plan
from perhop.scenario.model import CEILING_BURST
from perhop.scenario.policies import rates
from perhop.units import MILLISECOND

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from perhop.scenario import (
        Action,
        Class,
        Flow,
        Link,
        Match,
        Ping,
        Police,
        Policy,
        Scenario,
        Shape,
    )

__all__ = ["SimRun", "plan", "start"]

_SLICE_S: Final = 0.1
"""How much wall time a slice is to take."""

_FIRST_SLICE_PS: Final = MILLISECOND
"""How much is simulated where nothing is known yet of how long that takes."""

_NOBODY: Final = 2**16 - 1
"""A node that there is not: what a prefix without a node in it stands for."""


def start(scenario: Scenario, seed: int) -> SimRun:
    """Begin a simulation."""
    return SimRun(scenario, seed)


class SimRun:
    """A simulation under way."""

    def __init__(self, scenario: Scenario, seed: int) -> None:
        self._scenario = scenario
        self._core = Simulation(json.dumps(plan(scenario, seed)))
        self._names = _names(scenario)
        self._changes_ps = [*scenario.changes_ps, scenario.end_ps]
        self._slice_ps = _FIRST_SLICE_PS

    @property
    def now_s(self) -> float:
        """Simulated seconds so far."""
        return self._core.now_ps / 1e12

    @property
    def finished(self) -> bool:
        """Whether the scenario's end is reached."""
        return self._core.now_ps >= self._scenario.end_ps

    @property
    def counters(self) -> Mapping[str, int]:
        """Events processed, and links crossed by packets."""
        return {"events": self._core.events, "packet_hops": self._core.packet_hops}

    def advance(self) -> None:
        """Simulate for about a tenth of a second of wall time."""
        began = time.perf_counter()
        now = self._core.now_ps
        change = next(change for change in self._changes_ps if now < change)
        self._core.advance(min(now + self._slice_ps, change))
        if self._core.now_ps == change:
            # An hour of silence says nothing of how long an hour of traffic takes.
            self._slice_ps = _FIRST_SLICE_PS
        else:
            # How long the next slice may be follows from how long this one took.
            took = max(time.perf_counter() - began, 1e-6)
            self._slice_ps = max(1, int(self._slice_ps * min(_SLICE_S / took, 4.0)))

    def delivered(self) -> dict[str, int]:
        """Bytes that each flow has delivered so far."""
        return dict(zip(self._scenario.flows, self._core.delivered(), strict=True))

    def stop(self) -> None:
        """End the simulation where it is."""
        self._core.stop()

    def tables(self) -> dict[str, pl.DataFrame]:
        """The dataset's tables, up to the last mark."""
        return {
            name: _with_names(name, _frame(columns), self._names)
            for name, columns in self._core.tables().items()
        }


# From numbers to names


def _names(scenario: Scenario) -> dict[str, pl.DataFrame]:
    """For each column of numbers the names, row by row, that take its place."""
    ports = [(name, link.egress.get(end)) for name, (link, end) in scenario.directions.items()]
    classes: list[tuple[str, str]] = []
    for port, policy in ports:
        # The core counts a port's root first; it stands for the whole only where it is a queue.
        classes.append((port, "all" if policy is None else ""))
        if policy is not None:
            classes += [(port, path) for path in _paths(scenario, scenario.policies[policy])]
    return {
        "flow": pl.DataFrame({"flow": list(scenario.flows)}, schema={"flow": pl.String}),
        "ping": pl.DataFrame({"ping": list(scenario.pings)}, schema={"ping": pl.String}),
        "link": pl.DataFrame({"link": [port for port, _ in ports]}, schema={"link": pl.String}),
        "class": pl.DataFrame(
            {"link": [port for port, _ in classes], "class": [path for _, path in classes]},
            schema={"link": pl.String, "class": pl.String},
        ),
    }


def _paths(scenario: Scenario, policy: Policy) -> Iterator[str]:
    """The classes of a policy, those of nested policies after the class that they divide."""
    for name, part in policy.classes.items():
        yield name
        nested = scenario.divided(policy, part)
        if nested is not None:
            yield from (f"{name}/{inner}" for inner in _paths(scenario, nested))


def _frame(columns: Mapping[str, memoryview[int] | memoryview[float]]) -> pl.DataFrame:
    """The core's columns as they are."""
    types = {"q": pl.Int64, "d": pl.Float64}
    return pl.DataFrame([pl.Series(n, c, dtype=types[c.format]) for n, c in columns.items()])


def _with_names(table: str, numbers: pl.DataFrame, names: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """A table of the core as the dataset has it."""
    schema = TABLES[table]
    named = numbers
    first = numbers.columns[0]
    if first in names:
        named = pl.concat([names[first][numbers[first]], numbers.drop(first)], how="horizontal")
    if table == "queues":
        named = named.filter(pl.col("class") != "")
    # The core has no null: a float that is none is NaN, an integer negative.
    floats = pl.selectors.float().fill_nan(None)
    integers = pl.selectors.integer()
    named = named.with_columns(floats, pl.when(integers >= 0).then(integers))
    return named.select(pl.col(name).cast(dtype) for name, dtype in schema.items())


# From a scenario to a plan


def plan(scenario: Scenario, seed: int) -> dict[str, Any]:
    """The scenario as the core takes it: rates in bit/s, times in ps, sizes in bytes."""
    nodes = {name: number for number, name in enumerate(scenario.nodes)}
    return {
        "seed": seed,
        "marks": [mark for mark in scenario.marks_ps if mark > 0],
        "nodes": [{"kind": n.kind, "balance": n.balance} for n in scenario.nodes.values()],
        "links": [
            _link(scenario, name, link, nodes)
            for name, (link, end) in scenario.directions.items()
            if end == link.ends[0]
        ],
        "flows": [_flow(scenario, name, flow, nodes) for name, flow in scenario.flows.items()],
        "pings": [_ping(scenario, ping, nodes) for ping in scenario.pings.values()],
    }


def _link(scenario: Scenario, name: str, link: Link, nodes: Mapping[str, int]) -> dict[str, Any]:
    def queue(end: str) -> dict[str, Any]:
        capacity = link.capacity(end)
        if end in link.egress:
            policy = scenario.policies[link.egress[end]]
            return _classes(scenario, policy, capacity, nodes, link.directed(end))
        place = Place(f"{link.directed(end)} all", capacity, in_class=False)
        return queue_plan(link.queue, place)

    first, second = link.ends
    return {
        "name": name,
        "ends": [nodes[first], nodes[second]],
        "rate": link.rate,
        "delay": link.delay,
        "jitter": link.jitter,
        "loss_ppb": link.loss,
        "overhead": "atm" if link.overhead.cells else {"fixed": link.overhead.size},
        "queues": [queue(first), queue(second)],
        "shapes": [_shape(link.shape.get(end), link.rate) for end in link.ends],
    }


def _classes(
    scenario: Scenario, policy: Policy, capacity: int, nodes: Mapping[str, int], path: str
) -> dict[str, Any]:
    guaranteed = rates(policy, capacity)

    def one(name: str, part: Class) -> dict[str, Any]:
        rate = guaranteed[name]
        nested = scenario.divided(policy, part)
        if nested is not None:
            queue = _classes(scenario, nested, rate or capacity, nodes, f"{path} {name}")
        else:
            place = Place(f"{path} {name}", rate or capacity, in_class=True)
            queue = queue_plan(part.effective_queue, place)
        return {
            "matches": _match(scenario, part.match, nodes),
            "weight": None if policy.strict(part) else rate,
            "priority": part.priority if part.borrows_late else 0,
            "police": part.police and _police(part.police, capacity),
            "shape": _ceiling(part, rate, capacity),
            "queue": queue,
        }

    kinds = {"wfq": "classes", "priority": "classes"}
    scheduler = policy.effective_scheduler
    parts = [one(name, part) for name, part in policy.classes.items()]
    return {kinds.get(scheduler, scheduler): parts}


def _ceiling(part: Class, rate: int | None, capacity: int) -> dict[str, int] | None:
    """What may leave a class of guaranteed `rate`."""
    if part.limit is not None:
        return {"rate": part.limit.of(capacity), "burst": CEILING_BURST}
    if not part.borrow and rate is not None:
        return {"rate": rate, "burst": CEILING_BURST}
    return _shape(part.shape, capacity)


def _shape(shape: Shape | None, capacity: int) -> dict[str, int] | None:
    return None if shape is None else {"rate": shape.rate.of(capacity), "burst": shape.burst}


def _police(police: Police, capacity: int) -> dict[str, Any]:
    def action(action: Action) -> str | dict[str, int]:
        if action.remark is not None:
            return {"remark": action.remark}
        return "drop" if action.drops else "send"

    peak = police.peak_rate and {
        "rate": police.peak_rate.of(capacity),
        "burst": police.peak_burst,
    }
    return {
        "rate": police.rate.of(capacity),
        "burst": police.burst,
        "excess_burst": police.excess_burst,
        "peak": peak,
        "colour_aware": police.colour_aware,
        "conform": action(police.conform),
        "exceed": action(police.effective_exceed),
        "violate": action(police.effective_violate),
    }


def _match(scenario: Scenario, match: Match, nodes: Mapping[str, int]) -> dict[str, Any]:
    def within(ends: tuple[Any, ...] | None) -> list[int]:
        if ends is None:
            return []
        prefixes = scenario.prefixes(ends)
        addresses = scenario.addresses.items()
        inside = [nodes[node] for node, address in addresses if any(address in p for p in prefixes)]
        return inside or [_NOBODY]

    return {
        "dscps": list(match.dscp or ()),
        "protocols": list(match.protocol or ()),
        "ports": list(match.port or ()),
        "source_ports": list(match.source_port or ()),
        "destination_ports": list(match.destination_port or ()),
        "sources": within(match.source),
        "destinations": within(match.destination),
    }


def _flow(scenario: Scenario, name: str, flow: Flow, nodes: Mapping[str, int]) -> dict[str, Any]:
    transport: dict[str, Any]
    if flow.tcp is not None:
        tcp = flow.tcp
        transport = {
            "tcp": {
                "congestion_control": tcp.congestion_control,
                "send_window": tcp.effective_send_window,
                "receive_window": tcp.effective_receive_window,
                "mss": tcp.mss,
                "hystart": tcp.hystart,
                "sack": tcp.sack,
                "dsack": tcp.effective_dsack,
                "rack": tcp.loss_detection == "rack",
                "prr": tcp.prr,
                "window_scaling": tcp.window_scaling,
                "timestamps": tcp.timestamps,
                "limited_transmit": tcp.limited_transmit,
                "initial_window": tcp.initial_window,
                "min_rto": tcp.min_rto,
                "delayed_ack": tcp.delayed_ack,
            }
        }
    else:
        assert flow.udp is not None
        udp = flow.udp
        transport = {"udp": {"rate": udp.rate, "size": udp.size, "ecn": udp.ecn}}
    return {
        "from": nodes[flow.source],
        "to": nodes[flow.destination],
        "dscp": flow.dscp,
        "port": scenario.port_of(name),
        "streams": flow.streams,
        "start": flow.start,
        "stop": flow.stop,
        "volume": flow.volume,
        "transport": transport,
    }


def _ping(scenario: Scenario, ping: Ping, nodes: Mapping[str, int]) -> dict[str, Any]:
    start, stop = scenario.active_ps(ping)
    return {
        "from": nodes[ping.source],
        "to": nodes[ping.destination],
        "dscp": ping.dscp,
        "every": ping.every,
        "size": ping.size,
        "start": start,
        "stop": stop,
    }
