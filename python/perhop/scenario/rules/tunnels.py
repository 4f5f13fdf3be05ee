"""Rules on tunnels, and warnings about them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perhop.scenario.model.classes import MOST_SHARED
from perhop.scenario.model.matching import match_rules
from perhop.scenario.model.tunnels import COPY
from perhop.scenario.resolve.elements import queues, senders
from perhop.scenario.resolve.nesting import has_cycles, with_nested
from perhop.scenario.resolve.paths import next_hops
from perhop.scenario.resolve.shares import walk
from perhop.scenario.resolve.steps import attachments
from perhop.scenario.resolve.tunnels import entered, inside, tunnel_mtu
from perhop.scenario.rules.findings import Finding, known, not_an_end
from perhop.scenario.rules.ipv6 import LEAST_MTU as LEAST_MTU_V6
from perhop.scenario.rules.network import link_ends
from perhop.units import format_size, quote

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perhop.scenario.model.base import Loc
    from perhop.scenario.model.classes import Class
    from perhop.scenario.model.tunnels import Tunnel
    from perhop.scenario.resolve.paths import NextHops
    from perhop.scenario.resolve.scenario import ResolvedScenario

LEAST_MTU: Final = 576
"""The shortest packet in bytes that every tunnel must take whole: that of every host (RFC 791)."""

BY_HOST: Final = {"srchost", "dsthost", "hosts", "dual-srchost", "dual-dsthost", "triple-isolate"}
"""The ways of CAKE to assign packets that depend on hosts."""


def tunnels(scenario: ResolvedScenario) -> Iterator[Finding]:
    """Find tunnels whose ends are no two nodes, bad devices, and those without room for packets."""
    seen: dict[frozenset[str], str] = {}
    sound = not any(link_ends(scenario))
    for name, tunnel in scenario.tunnels.items():
        loc: Loc = ("tunnels", name)
        unknown = [
            finding
            for position, end in enumerate(tunnel.ends)
            for finding in known(end, scenario.nodes, "node", (*loc, "ends", position))
        ]
        yield from unknown
        first, second = tunnel.ends
        if unknown:
            continue
        if first == second:
            yield Finding(
                (*loc, "ends"), f"joins {quote(first)} to itself; expected two different nodes"
            )
            continue
        earlier = seen.setdefault(frozenset(tunnel.ends), name)
        if earlier != name:
            yield Finding(
                (*loc, "ends"),
                f"are those of {quote(earlier)}; expected one tunnel between two nodes",
            )
        yield from _devices(scenario, name, tunnel)
        if not sound:
            continue
        found = next_hops(scenario, destinations=tunnel.ends)
        if second not in found[first]:
            yield Finding(
                (*loc, "ends"), "have no path between them; expected links that join them"
            )
        mtu = tunnel_mtu(scenario, tunnel, found)
        least = LEAST_MTU_V6 if 6 in scenario.ip_versions else LEAST_MTU
        if mtu < least:
            yield Finding(
                loc,
                f"leaves {format_size(max(mtu, 0))} for a packet; expected links with a larger "
                f"MTU, so that there is room for {format_size(least)}",
            )


def _devices(scenario: ResolvedScenario, name: str, tunnel: Tunnel) -> Iterator[Finding]:
    """Find policies without a shaper, and shapers that say no rate or are at no end."""
    loc: Loc = ("tunnels", name)
    for key, nodes in (("egress", tunnel.egress), ("shape", tunnel.shape)):
        for node in nodes:
            if node not in tunnel.ends:
                yield not_an_end(node, tunnel.ends, "tunnel", (*loc, key, node))
            elif node not in tunnel.shape and not _shapes(scenario, tunnel.egress[node]):
                yield Finding(
                    (*loc, key, node),
                    "has no shaper, and a tunnel's device has no rate, so that nothing ever waits "
                    f"in this policy; expected `shape: {{{node}: {{rate: 20 Mbps}}}}` beside it, "
                    "or the policy at the link by which outer packets leave",
                )
    for node, shape in tunnel.shape.items():
        if shape.rate.rate is None:
            yield Finding(
                (*loc, "shape", node, "rate"),
                "is a share, but a tunnel's device has no rate; expected a rate such as `20 Mbps`",
            )
    for device in scenario.devices.keys() & scenario.directions.keys():
        if scenario.devices[device][0].name == name:
            yield Finding(
                loc,
                f"has a device that results would call {quote(device)}, as they call a link; "
                "expected another name",
                at_key=True,
            )


def _shapes(scenario: ResolvedScenario, name: str) -> bool:
    """Return whether a policy has packets wait before a device without a rate."""
    policy = scenario.policies.get(name)
    if policy is None or has_cycles(scenario):
        return True  # found elsewhere
    if policy.htb is not None and policy.htb.rate is not None:
        return True
    return any(_holds(placed.class_) for placed in walk(scenario, policy, MOST_SHARED))


def _holds(class_: Class) -> bool:
    """Return whether a class has a rate that it cannot exceed."""
    ceilings = [class_.limit, None if class_.borrow else class_.bandwidth]
    if class_.shape is not None:
        ceilings.append(class_.shape.rate)
    if class_.upperlimit is not None:
        ceilings += [class_.upperlimit.rate, class_.upperlimit.m2]
    cake = None if class_.queue is None else class_.queue.cake
    if cake is not None and cake.bandwidth is not None:
        return True
    return any(ceiling is not None and ceiling.rate is not None for ceiling in ceilings)


def idle_tunnels(scenario: ResolvedScenario) -> Iterator[Finding]:
    """Warn of tunnels that no flow or ping enters."""
    if not scenario.tunnels:
        return
    found = next_hops(scenario)
    used = {id(tunnel) for tunnel, _, _ in _uses(scenario, found)}
    changes = any(change.state is not None for change in scenario.changes)
    for name, tunnel in scenario.tunnels.items():
        if id(tunnel) not in used and not changes:
            first, second = tunnel.ends
            yield Finding(
                ("tunnels", name),
                f"carries nothing: no flow or ping has a path through {quote(first)} and "
                f"{quote(second)} to a node behind them, or to a host that is an end",
            )


def hidden_headers(scenario: ResolvedScenario) -> Iterator[Finding]:
    """Warn of policies in tunnels that match DSCPs, ports or addresses which outer headers lack."""
    if not scenario.tunnels:
        return
    found = next_hops(scenario)
    names = {id(tunnel): name for name, tunnel in scenario.tunnels.items()}
    told: set[tuple[str, str]] = set()
    for tunnel, entry, _ in _uses(scenario, found):
        if tunnel.outer_dscp == COPY:
            continue
        for direction in sorted(inside(scenario, found, tunnel, entry)):
            link, sender = scenario.directions[direction]
            policy = link.egress.get(sender)
            if policy is None or (policy, names[id(tunnel)]) in told:
                continue
            matched = {
                dscp
                for class_ in scenario.policies[policy].classes.values()
                for rule in match_rules(class_.match)
                for dscp in rule.conditions.dscp or ()
            }
            if matched - {tunnel.outer_dscp}:
                told.add((policy, names[id(tunnel)]))
                yield Finding(
                    ("policies", policy),
                    f"matches DSCPs, but on {quote(direction)} packets in the tunnel "
                    f"{quote(names[id(tunnel)])} all have the outer one; `dscp: copy` copies that "
                    "of the inner packet",
                )


def hosts_in_tunnels(scenario: ResolvedScenario) -> Iterator[Finding]:
    """Warn of CAKE's fairness to hosts in tunnels whose inner hosts Linux would see."""
    # Those of policies that only the devices of tunnels have see inner hosts.
    inner = {name for _, on, name, _ in attachments(scenario) if on in scenario.devices}
    outer = {name for _, on, name, _ in attachments(scenario) if on in scenario.directions}
    apart = with_nested(scenario, inner) - with_nested(scenario, outer)
    fair = [
        (loc, queue.cake.isolation)
        for loc, queue in queues(scenario)
        if queue.cake is not None and queue.cake.isolation in BY_HOST
        if not (loc[0] == "policies" and loc[1] in apart)
    ]
    if not fair or not scenario.tunnels:
        return
    pairs: dict[str, set[tuple[str, str]]] = {}
    names = {id(tunnel): name for name, tunnel in scenario.tunnels.items()}
    for tunnel, entry, ends in _uses(scenario, next_hops(scenario)):
        if tunnel.headers.flows == "dissected" and entry == tunnel.ends[0]:
            pairs.setdefault(names[id(tunnel)], set()).add(ends)
    for name in sorted(name for name, ends in pairs.items() if len(ends) > 1):
        for loc, isolation in fair:
            yield Finding(
                (*loc, "cake"),
                f"`{isolation}` takes the ends of the tunnel {quote(name)} for the hosts of all "
                "flows in it, where Linux's CAKE sees the hosts behind them; flows are apart",
            )


def _uses(
    scenario: ResolvedScenario, found: NextHops
) -> Iterator[tuple[Tunnel, str, tuple[str, str]]]:
    """Yield the tunnels that packets of flows and pings enter, with the entry, and the ends."""
    ends = {(sender.source, sender.destination) for _, _, sender in senders(scenario)}
    pairs = ends | {(destination, source) for source, destination in ends}
    for source, destination in sorted(pairs):
        todo, seen = [source], {source}
        while todo:
            node = todo.pop()
            tunnel = entered(scenario, found, node, destination)
            if tunnel is not None:
                yield tunnel, node, (source, destination)
                reached = {tunnel.other(node)}
            else:
                names = found[node].get(destination, ())
                reached = {
                    link.other(end) for link, end in map(scenario.directions.__getitem__, names)
                }
            for each in reached - seen - {destination}:
                seen.add(each)
                todo.append(each)
