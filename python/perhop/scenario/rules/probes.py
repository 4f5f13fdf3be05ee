"""Rules on pings, and on the nodes that answer them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perhop.scenario.rules.findings import Finding
from perhop.units import quote

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perhop.scenario.model.base import Loc
    from perhop.scenario.resolve.scenario import ResolvedScenario


def icmp_limits(scenario: ResolvedScenario) -> Iterator[Finding]:
    """Find limits of ICMP errors without effect."""
    for name, node in scenario.nodes.items():
        if node.icmp_burst is not None and not node.icmp_interval:
            loc: Loc = ("nodes", name, "icmp_burst")
            yield Finding(loc, "means nothing without `icmp_interval`", at_key=True)
        if node.icmp_interval and not node.icmp_errors:
            loc = ("nodes", name, "icmp_interval")
            yield Finding(loc, "means nothing where `icmp_errors` is false", at_key=True)


def of_hosts(scenario: ResolvedScenario) -> Iterator[Finding]:
    """Find settings of hosts at routers, and the other way round."""
    for name, node in scenario.nodes.items():
        for key in ("backpressure", "offload"):
            if node.kind != "host" and key in node.model_fields_set:
                loc: Loc = ("nodes", name, key)
                yield Finding(loc, "means nothing for a router; expected a host", at_key=True)
        if node.kind == "host" and "mss_clamp" in node.model_fields_set:
            loc = ("nodes", name, "mss_clamp")
            yield Finding(loc, "means nothing for a host; expected a router", at_key=True)


def probes(scenario: ResolvedScenario) -> Iterator[Finding]:
    """Find ports of pings that are not UDP, or that are open."""
    listening = {
        (flow.destination, scenario.port_of(name)): name
        for name, flow in scenario.flows.items()
        if flow.tcp is None
    }
    for name, ping in scenario.pings.items():
        loc: Loc = ("pings", name, "port")
        if ping.port is not None and ping.protocol != "udp":
            yield Finding(loc, "means nothing without `protocol: udp`", at_key=True)
        elif (flow_name := listening.get((ping.destination, ping.effective_port or 0))) is not None:
            yield Finding(
                loc if ping.port is not None else loc[:-1],
                f"{quote(flow_name)} listens on {quote(ping.destination)}'s port "
                f"{ping.effective_port}; expected a closed port",
                at_key=ping.port is None,
            )
