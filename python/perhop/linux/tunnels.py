"""Tunnels as devices of Linux, and the routes into them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perhop.linux.gaps import Gap
from perhop.linux.routes import IPV6, routed_versions
from perhop.scenario.model.tunnels import COPY
from perhop.scenario.resolve import entered, tunnel_mtu

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perhop.scenario import Scenario
    from perhop.scenario.model.tunnels import Tunnel
    from perhop.scenario.resolve import NextHops

__all__ = ["DEVICES", "devices", "gaps", "lines"]

DEVICES: Final = ("vxlan",)
"""The types of tunnels that perhop sets up in Linux, which are types of its devices, too."""


def gaps(scenario: Scenario) -> Iterator[Gap]:
    """Yield the tunnels that perhop does not set up in Linux, with the reason."""
    others = "; the engines `sim` and `emu` carry it"
    down = any(change.state is not None for change in scenario.changes)
    for name, tunnel in scenario.tunnels.items():
        ends = [scenario.nodes[end] for end in tunnel.ends]
        if tunnel.type not in DEVICES:
            known = ", ".join(f"`{kind}`" for kind in DEVICES)
            reason = f"of tunnels, perhop sets up only {known} in Linux"
        elif any(end.kind == "host" for end in ends):
            reason = "perhop sets up tunnels of Linux between routers only"
        elif tunnel.model == "uniform":
            reason = "Linux keeps the inner DSCP behind a tunnel (`model: pipe`)"
        elif any(end.balance == "per-packet" for end in ends):
            reason = "an end sends its packets by turns (`balance: per-packet`), past the tunnel"
        elif down:
            reason = "the routes into it would stay when links go down"
        else:
            yield from _devices(scenario, name, tunnel)
            continue
        yield Gap(f"tunnels.{name}", reason + others)


def _devices(scenario: Scenario, name: str, tunnel: Tunnel) -> Iterator[Gap]:
    """Yield the ends whose only shapers are in classes: perhop makes all classes those of HTB."""
    for node, policy in tunnel.egress.items():
        buckets = scenario.policies[policy].htb
        if node not in tunnel.shape and (buckets is None or buckets.rate is None):
            yield Gap(
                f"tunnels.{name}.egress.{node}",
                "perhop writes HTB at a tunnel's device, which needs a rate for all classes: a "
                f"`shape` of {node}; the engines `sim` and `emu` need none",
            )


def lines(scenario: Scenario, node: str, found: NextHops) -> list[str]:
    """Return a node's ends of tunnels, and its routes into them, as lines of ip."""
    return [
        line
        for number, tunnel in enumerate(scenario.tunnels.values(), 1)
        if node in tunnel.ends and tunnel.type in DEVICES
        for line in _device(scenario, tunnel, node, number, found)
    ]


def _device(
    scenario: Scenario, tunnel: Tunnel, node: str, number: int, found: NextHops
) -> Iterator[str]:
    other, device = tunnel.other(node), _name(number)
    side = tunnel.ends.index(node)
    own, peer = scenario.addresses[node], scenario.addresses[other]
    # The ECN field is that of the inner packet in both cases (RFC 6040).
    tos = "inherit" if tunnel.outer_dscp == COPY else f"{tunnel.outer_dscp << 2:#x}"
    yield (
        f"link add {device} address {_mac(number, side)} type {tunnel.type} id {number} "
        f"local {own} remote {peer} dstport {tunnel.headers.port} ttl 64 tos {tos} df set "
        "nolearning noudpcsum"
    )
    versions = routed_versions(scenario)
    # Routers of IPv6 would report groups (RFC 3810).
    quiet = " multicast off" * (6 in versions)
    mtu = tunnel_mtu(scenario, tunnel, found)
    yield f"link set dev {device} mtu {mtu} gso_max_segs 1{quiet} up"
    for version in versions:
        addresses = scenario.addresses_in(version)
        # Linux accepts no gateway of IPv6 that it reaches through another device, `onlink` or not.
        hop = f"fe80::{number:x}:{1 - side}" if version == 6 else f"{addresses[other]}"
        start, onlink = (IPV6, "") if version == 6 else ("", " onlink")
        yield (
            f"{start}neigh replace {hop} lladdr {_mac(number, 1 - side)} nud permanent dev {device}"
        )
        for destination in found[node]:
            if entered(scenario, found, node, destination) is tunnel:
                address = addresses[destination]
                to = f"{address}/{address.max_prefixlen}"
                yield f"{start}route replace {to} via {hop} dev {device}{onlink}"


def devices(scenario: Scenario) -> dict[str, str]:
    """Return the device of each tunnel that perhop sets up in Linux; both ends have the name."""
    return {
        name: _name(number)
        for number, (name, tunnel) in enumerate(scenario.tunnels.items(), 1)
        if tunnel.type in DEVICES
    }


def _name(number: int) -> str:
    return f"tunnel{number}"


def _mac(number: int, side: int) -> str:
    """Return the MAC address of an end of a tunnel: locally administered, from its number."""
    return f"02:01:00:00:{number:02x}:{side:02x}"
