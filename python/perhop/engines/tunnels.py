"""Tunnels of a scenario, as the core takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perhop.engines.policies import discipline_plan, shape_plan
from perhop.scenario.model.tunnels import COPY
from perhop.scenario.resolve import next_hops, tunnel_mtu

if TYPE_CHECKING:
    from perhop.engines import plans
    from perhop.scenario import Link, Scenario
    from perhop.scenario.model.tunnels import Tunnel, TunnelHeaders

__all__ = ["tunnel_plans"]


def tunnel_plans(scenario: Scenario) -> list[plans.TunnelPlan]:
    """Return the tunnels of a scenario, in its order."""
    if not scenario.tunnels:
        return []
    ends = {end for tunnel in scenario.tunnels.values() for end in tunnel.ends}
    found = next_hops(scenario, destinations=sorted(ends))
    return [
        _plan(scenario, name, tunnel, tunnel_mtu(scenario, tunnel, found))
        for name, tunnel in scenario.tunnels.items()
    ]


def _plan(scenario: Scenario, name: str, tunnel: Tunnel, mtu: int) -> plans.TunnelPlan:
    adds = tunnel.headers
    own = {
        node: _device(scenario, label, device, node)
        for label, (device, node) in scenario.devices.items()
        if device.name == name
    }
    first, second = tunnel.ends
    return {
        "name": name,
        "ends": tunnel.ends,
        "overhead": {
            "headers": adds.overhead,
            "trailer": adds.trailer,
            "multiple": adds.multiple,
            "capped": adds.capped,
        },
        "carrier": _carrier(adds),
        "flows": adds.flows,
        "mtu": mtu,
        "dscp": None if tunnel.outer_dscp == COPY else tunnel.outer_dscp,
        "uniform": tunnel.model == "uniform",
        "devices": (own.get(first), own.get(second)),
    }


def _device(scenario: Scenario, name: str, device: Link, node: str) -> plans.DevicePlan:
    capacity = device.capacity(node)
    return {
        "name": name,
        "discipline": discipline_plan(scenario, device, node, device.egress.get(node), capacity),
        "shape": shape_plan(device.shape.get(node), capacity),
    }


def _carrier(adds: TunnelHeaders) -> plans.Carrier:
    if adds.port is None:
        return {"ip": adds.protocol}
    return {"hashed": adds.port} if adds.hashed else {"udp": adds.port}
