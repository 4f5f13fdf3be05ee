"""A scenario as the plan that the core takes, in which every name is a number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perhop.engines.queues import Place, queue_plan
from perhop.engines.workload import flow_plan, ping_plan
from perhop.scenario.model.cbq import ALTQ_CBQ, Cbq
from perhop.scenario.model.classes import CEILING_BURST
from perhop.scenario.resolve import rates, steps, walk

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from perhop.scenario import (
        Action,
        Class,
        Link,
        Match,
        Node,
        Police,
        Policy,
        Scenario,
        Shape,
    )
    from perhop.scenario.resolve import Step

__all__ = ["effects", "match_plan", "network_plan", "plan"]

_NOBODY: Final = 2**16 - 1
"""A node that there is not: what a prefix without a node in it stands for."""


def plan(scenario: Scenario, seed: int) -> dict[str, Any]:
    """The scenario as the core takes it: rates in bit/s, times in ps, sizes in bytes."""
    nodes = {name: number for number, name in enumerate(scenario.nodes)}
    return {
        "network": network_plan(scenario, seed),
        "cuts": [mark for mark in scenario.cuts_ps if mark > 0],
        "flows": [flow_plan(scenario, name, flow, nodes) for name, flow in scenario.flows.items()],
        "pings": [ping_plan(scenario, ping, nodes) for ping in scenario.pings.values()],
    }


def network_plan(scenario: Scenario, seed: int) -> dict[str, Any]:
    """The scenario's network, and when it is measured."""
    nodes = {name: number for number, name in enumerate(scenario.nodes)}
    addresses = scenario.addresses
    return {
        "seed": seed,
        "marks": [mark for mark in scenario.marks_ps if mark > 0],
        "nodes": [
            {**_node(node), "address": str(addresses[name])}
            for name, node in scenario.nodes.items()
        ],
        "links": _links(scenario, nodes),
        "changes": [
            {"at": step.change.at, "effect": effect}
            for step in steps(scenario)
            for effect in effects(scenario, step)
        ],
    }


def _node(node: Node) -> dict[str, Any]:
    errors: str | dict[str, Any] = "all" if node.icmp_errors else "none"
    if node.icmp_interval:
        errors = {"limited": {"every": node.icmp_interval, "burst": node.icmp_burst or 1}}
    return {"kind": node.kind, "balance": node.balance, "icmp_errors": errors}


def _links(scenario: Scenario, nodes: Mapping[str, int]) -> list[dict[str, Any]]:
    names = iter(scenario.directions)  # of either direction of the first link, then of the second
    return [_link(scenario, link, (next(names), next(names)), nodes) for link in scenario.links]


def _link(
    scenario: Scenario, link: Link, names: tuple[str, str], nodes: Mapping[str, int]
) -> dict[str, Any]:
    def queue(end: str, name: str) -> dict[str, Any]:
        return _queue(scenario, link, link.egress.get(end), (name, link.capacity(end)), nodes)

    return {
        "name": names[0],
        "ends": [nodes[end] for end in link.ends],
        "rate": link.rate,
        "delay": link.delay,
        "jitter": link.jitter,
        "loss_ppb": link.loss,
        "duplicate_ppb": link.duplicate,
        "detour": (link.reorder.share, link.reorder.by) if link.reorder else (0, 0),
        "mtu": link.mtu,
        "overhead": "atm" if link.overhead.cells else {"fixed": link.overhead.size},
        "queues": list(map(queue, link.ends, names)),
        "shapes": [_shape(link.shape.get(end), link.rate) for end in link.ends],
        "remarks": [
            [
                {"matches": match_plan(scenario, rule.match, nodes), "dscp": rule.dscp}
                for rule in (*link.remark.get(end, ()), *scenario.nodes[end].remark)
            ]
            for end in link.ends
        ],
    }


def _queue(
    scenario: Scenario,
    link: Link,
    policy: str | None,
    place: tuple[str, int],
    nodes: Mapping[str, int],
) -> dict[str, Any]:
    """What stands before a transmitter, `place` being its name and what it divides."""
    name, capacity = place
    if policy is None:
        return queue_plan(link.queue, Place(f"{name} all", capacity, in_class=False))
    return _classes(scenario, scenario.policies[policy], capacity, nodes, name)


def effects(scenario: Scenario, step: Step) -> Iterator[dict[str, Any]]:
    """What a change of the scenario does in the network."""
    nodes = {name: number for number, name in enumerate(scenario.nodes)}
    change, link, number = step.change, step.link, step.number
    port = 2 * number + link.ends.index(step.node)
    if step.rewires:
        wire = {"rate": link.rate, "delay": link.delay, "loss_ppb": link.loss}
        yield {"wire": {"link": number, **wire}}
    if change.state is not None:
        yield {"state": {"link": number, "up": change.state == "up"}}
    if change.policy is not None:
        # A random stream of its own, so that the old one's numbers do not come again.
        place = f"{change.on} {change.at}", step.capacity
        queue = _queue(scenario, link, step.policy, place, nodes)
        shape = _shape(link.shape.get(step.node), link.rate)
        yield {"queue": {"port": port, "queue": queue, "shape": shape}}
    if change.police is not None and step.policy is not None:
        placed = list(walk(scenario, scenario.policies[step.policy], step.capacity))
        index = next(i for i, one in enumerate(placed) if one.path == change.part)
        police, now = placed[index].part.police, step.police[str(change.part)]
        assert police is not None
        yield {
            "police": {
                "port": port,
                "class": 1 + index,  # the root comes first
                "rate": (now.rate or police.rate).of(placed[index].capacity),
                "burst": now.burst or police.burst,
            }
        }


def _classes(
    scenario: Scenario, policy: Policy, capacity: int, nodes: Mapping[str, int], path: str
) -> dict[str, Any]:
    if policy.scheduler == ALTQ_CBQ:
        return {ALTQ_CBQ: _cbq(scenario, policy, capacity, nodes, path)}
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
            "matches": match_plan(scenario, part.match, nodes),
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


def _cbq(
    scenario: Scenario, policy: Policy, capacity: int, nodes: Mapping[str, int], path: str
) -> dict[str, Any]:
    """A link's tree of ALTQ's class-based queueing."""

    def parts(policy: Policy, capacity: int, path: str) -> list[dict[str, Any]]:
        guaranteed = rates(policy, capacity)
        return [
            {
                "matches": match_plan(scenario, part.match, nodes),
                "rate": guaranteed[name],
                "borrow": part.borrow,
                "part": hold(policy, part, guaranteed[name] or capacity, f"{path} {name}"),
            }
            for name, part in policy.classes.items()
        ]

    def hold(policy: Policy, part: Class, rate: int, path: str) -> dict[str, Any]:
        inside = policy.inside(part)
        if inside is not None:
            return {"inner": parts(inside, rate, path)}
        queue = queue_plan(part.effective_queue, Place(path, rate, in_class=True))
        if "fifo" in queue:
            queue = {"head-drop": queue["fifo"]}
        return {
            "leaf": {
                "priority": part.priority if part.borrows_late else 0,
                "police": part.police and _police(part.police, capacity),
                "queue": queue,
            }
        }

    cbq = policy.cbq or Cbq()
    root = policy.root(capacity)
    return {
        "rate": root,
        "tick": cbq.tick,
        "packet": cbq.packet,
        "maxburst": cbq.maxburst,
        "minburst": cbq.minburst,
        "token_bucket": cbq.token_bucket,
        "efficient": cbq.efficient,
        "kick": cbq.kick,
        "classes": parts(policy, root, path),
    }


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


def match_plan(scenario: Scenario, match: Match, nodes: Mapping[str, int]) -> dict[str, Any]:
    """Which packets a match is about, nodes being numbers."""

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
