"""The plan of a scenario, as the core takes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perhop.engines.policies import discipline_plan, rule_plans, shape_plan
from perhop.engines.tunnels import tunnel_plans
from perhop.engines.workload import flow_plan, ping_plan
from perhop.scenario.model.loss import BurstLoss
from perhop.scenario.resolve import steps, walk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perhop.engines import plans
    from perhop.scenario import (
        Change,
        Link,
        Node,
        Scenario,
    )
    from perhop.scenario.model.channels import Channel
    from perhop.scenario.model.topology import Medium
    from perhop.scenario.model.trace import Trace
    from perhop.scenario.resolve import Step

__all__ = ["balance_effect", "effects", "loss_plan", "network_plan", "plan"]


def plan(scenario: Scenario, seed: int) -> plans.Plan:
    """Return the plan of a scenario for the engine `sim`."""
    return {
        "network": network_plan(scenario, seed),
        "cuts": [mark for mark in scenario.cuts_ps if mark > 0],
        "flows": [flow_plan(scenario, name, flow, seed) for name, flow in scenario.flows.items()],
        "pings": [ping_plan(scenario, name, ping) for name, ping in scenario.pings.items()],
    }


def network_plan(scenario: Scenario, seed: int) -> plans.NetworkPlan:
    """Return the plan of the scenario's network, its changes, and the instants of measurements."""
    names = iter(scenario.directions)  # of either direction of the first link, then of the second
    return {
        "seed": seed,
        "marks": [mark for mark in scenario.marks_ps if mark > 0],
        "nodes": [
            _node(name, node, str(scenario.addresses[name]), str(scenario.addresses_v6[name]))
            for name, node in scenario.nodes.items()
        ],
        "links": [_link(scenario, link, (next(names), next(names))) for link in scenario.links],
        "tunnels": tunnel_plans(scenario),
        "channels": [_channel(scenario, name) for name in scenario.channels],
        "changes": _changes(scenario),
    }


def _channel(scenario: Scenario, name: str) -> plans.ChannelPlan:
    found = scenario.directions.items()
    return {
        "name": name,
        "on": [direction for direction, (link, _) in found if link.channel == name],
        "access": _access(scenario.channels[name]),
    }


def _access(channel: Channel) -> plans.AccessPlan:
    if channel.lte is not None:
        lte = channel.lte
        return {
            "lte": {
                "base": lte.base_station,
                "settings": {
                    "resource_blocks": lte.resource_blocks,
                    "scheduler": lte.scheduler,
                    "bler": lte.bler,
                    "retries": lte.retries,
                    "combining": lte.combining,
                    "request_period": lte.request_period,
                    "grant": lte.grant,
                    "reordering": lte.reordering,
                },
            }
        }
    wifi = channel.wifi
    assert wifi is not None
    timing = wifi.timing
    return {
        "wifi": {
            "slot": timing.slot,
            "sifs": timing.sifs,
            "aifsn": timing.aifsn,
            "cw_min": wifi.effective_cw_min,
            "cw_max": wifi.cw_max,
            "preamble": timing.preamble,
            "symbol": timing.symbol,
            "ack": timing.ack,
            "block_ack": timing.block_ack,
            "header": timing.header,
            "frames": wifi.frames or timing.frames,
            "bytes": timing.size,
            "airtime": wifi.airtime or timing.airtime,
            "retries": wifi.retries,
            "airtime_fairness": wifi.airtime_fairness,
        },
    }


def _changes(scenario: Scenario) -> list[plans.ChangePlan]:
    """Return the changes in order of time, and then of the file."""
    known: dict[tuple[str, str | None, int], plans.DisciplinePlan] = {}
    found: list[tuple[int, int | str, plans.EffectPlan]] = [
        (step.change.at, step.loc[1], effect)
        for step in steps(scenario)
        for effect in effects(scenario, step, known)
    ]
    found += [
        (change.at, index, effect)
        for index, change in enumerate(scenario.changes)
        for effect in balance_effect(change)
    ]
    found.sort(key=lambda each: each[:2])
    return [{"at": at, "effect": effect} for at, _, effect in found]


def balance_effect(change: Change) -> Iterator[plans.EffectPlan]:
    """Yield the effect of a change of a node's load balancing."""
    if change.node is not None and change.balance is not None:
        yield {"balance": {"node": change.node, "balance": change.balance}}


def _node(name: str, node: Node, address: str, address_v6: str) -> plans.NodePlan:
    errors: plans.IcmpErrors = "all" if node.icmp_errors else "none"
    if node.icmp_interval:
        errors = {"limited": {"every": node.icmp_interval, "burst": node.icmp_burst or 1}}
    return {
        "name": name,
        "kind": node.kind,
        "address": address,
        "address_v6": address_v6,
        "balance": node.balance,
        "icmp_errors": errors,
    }


def _link(scenario: Scenario, link: Link, names: tuple[str, str]) -> plans.LinkPlan:
    def end(node: str, name: str) -> plans.EndPlan:
        medium = link.medium(node)
        return {
            "node": node,
            "name": name,
            "medium": _medium(medium),
            "discipline": discipline_plan(
                scenario, link, node, link.egress.get(node), link.capacity(node)
            ),
            "shape": shape_plan(link.shape.get(node), medium.rate),
            "trace": _trace(link.trace.get(node)),
            "remark": [
                {"match": rule_plans(scenario, rule.match), "dscp": rule.dscp}
                for rule in (*link.remark.get(node, ()), *scenario.nodes[node].remark)
            ],
        }

    near, far = map(end, link.ends, names)
    encapsulation = None if link.encapsulation is None else link.encapsulation.kind
    return {"ends": (near, far), "mtu": link.mtu, "encapsulation": encapsulation}


def _medium(medium: Medium) -> plans.MediumPlan:
    independent, gilbert = loss_plan(medium.loss)
    reorder, variation = medium.reorder, medium.variation
    return {
        "rate": medium.rate,
        "delay": medium.delay,
        "jitter": medium.jitter,
        "variation": None
        if variation is None
        else {
            "by": variation.by,
            "distribution": variation.distribution,
            "in_order": variation.in_order,
        },
        "delay_limit": medium.delay_limit,
        "loss": independent,
        "gilbert": gilbert,
        "duplicate": medium.duplicate,
        "reorder": {"share": reorder.share, "by": reorder.by or 0, "gap": reorder.gap or 0}
        if reorder
        else None,
        "overhead": "atm" if medium.overhead.cells else {"fixed": medium.overhead.size},
    }


def _trace(trace: Trace | None) -> plans.TracePlan | None:
    if trace is None:
        return None
    if trace.opportunities is not None:
        return {"opportunities": [at for at, number in trace.opportunities for _ in range(number)]}
    assert trace.steps is not None
    steps = trace.effective_steps

    def column(values: list[int | None]) -> list[int] | None:
        found = [value for value in values if value is not None]
        return found or None

    return {
        "rates": {
            "at": [step.at for step in steps],
            "rate": [step.rate for step in steps],
            "delay": column([step.delay for step in steps]),
            "jitter": column([step.jitter for step in steps]),
            "loss": column([step.loss for step in steps]),
            "period": trace.steps[-1].at if trace.repeat else None,
        }
    }


def loss_plan(loss: int | BurstLoss) -> tuple[int, plans.GilbertPlan | None]:
    """Return the probability of independent losses, and the model of correlated ones."""
    if not isinstance(loss, BurstLoss):
        return loss, None
    p, r, good, bad = loss.gilbert.chances
    return 0, {"p": p, "r": r, "good": good, "bad": bad}


def effects(
    scenario: Scenario,
    step: Step,
    known: dict[tuple[str, str | None, int], plans.DisciplinePlan],
) -> Iterator[plans.EffectPlan]:
    """Yield the effects of a change of the scenario on the network.

    Disciplines that are `known` are used again, and others are added to them: by directed link,
    policy and bandwidth.
    """
    change, link, on = step.change, step.link, str(step.change.on)
    for name, node in step.rewired:
        new = link.medium(node)
        loss, gilbert = loss_plan(new.loss)
        rewired: plans.WirePlan = {
            "on": name,
            "rate": new.rate,
            "delay": new.delay,
            "loss": loss,
            "gilbert": gilbert,
        }
        yield {"wire": rewired}
    if change.state is not None:
        yield {"state": {"on": on, "up": change.state == "up"}}
    if change.policy is not None:
        key = (on, step.policy, step.capacity)
        if key not in known:
            known[key] = discipline_plan(scenario, link, step.node, step.policy, step.capacity)
        shape = shape_plan(link.shape.get(step.node), link.medium(step.node).rate)
        yield {"discipline": {"on": on, "discipline": known[key], "shape": shape}}
    if change.police is not None and step.policy is not None:
        placed = walk(scenario, scenario.policies[step.policy], step.capacity)
        policed = next(one for one in placed if one.path == change.class_)
        police, now = policed.class_.police, step.police[policed.path]
        assert police is not None
        yield {
            "police": {
                "on": on,
                "class": policed.path,
                "rate": (now.rate or police.rate).of(policed.capacity),
                "burst": now.burst or police.burst,
            }
        }
