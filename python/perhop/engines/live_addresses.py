"""Addresses of hosts on a live network."""

from __future__ import annotations

import socket
from ipaddress import ip_address
from itertools import chain
from typing import TYPE_CHECKING

from perhop.errors import UnsupportedError
from perhop.linux.gaps import Gap, refuse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perhop.scenario import Agent, Scenario

__all__ = ["addresses", "resolved", "version_gaps"]


def version_gaps(scenario: Scenario) -> Iterator[Gap]:
    """Yield the flows and pings over IPv4 beside others over IPv6: a host has one address."""
    for section, senders in (("flows", scenario.flows), ("pings", scenario.pings)):
        for name, sender in senders.items():
            if 6 in scenario.ip_versions and scenario.ip_of(sender) == 4:
                reason = "IPv4 beside traffic of IPv6; in a live run all have one version"
                yield Gap(f"{section}.{name}", reason)


def addresses(scenario: Scenario) -> dict[str, str]:
    """Return the address of each node in flows and pings.

    Names are resolved here: to addresses of IPv6 if the traffic has that version. Hosts behind NAT
    have the unspecified address of the family of those to which they send.

    Raises:
        UnsupportedError: A name cannot be resolved, or two ends have no family in common.
    """
    found: dict[str, str] = {}
    wrong: list[Gap] = []
    flows = [(f"flows.{name}", (f.source, f.destination)) for name, f in scenario.flows.items()]
    pings = [(f"pings.{name}", (p.source, p.destination)) for name, p in scenario.pings.items()]
    used = set(chain.from_iterable(ends for _, ends in (*flows, *pings)))
    for name, agent in scenario.agents.items():
        if not agent.nat:
            key, host = _data(agent)
            v6 = name in used and 6 in scenario.ip_versions
            found[name] = resolved(host, f"agents.{name}.{key}", scenario, v6=v6)
    for path, ends in (*flows, *pings):
        for node, other in (ends, ends[::-1]):
            if node not in found:
                version = ip_address(found[other]).version
                found[node] = "0.0.0.0" if version == 4 else "::"
        first, second = (ip_address(found[end]) for end in ends)
        if first.version != second.version:
            reason = f"{ends[0]} has {first} and {ends[1]} {second}; give one of them `data`"
            wrong.append(Gap(path, reason))
        elif first.is_loopback != second.is_loopback and not any(
            scenario.agents[end].nat for end in ends if end in scenario.agents
        ):
            own, other = (ends, ends[::-1])[second.is_loopback]
            reason = (
                f"{own} has {found[own]}, which {other} cannot reach; give it `data`, its address "
                "in the network"
            )
            wrong.append(Gap(path, reason))
    refuse(wrong, scenario.name, "a live network cannot do")
    return found


def _data(agent: Agent) -> tuple[str, str]:
    """Return the key and the host of the address that flows and pings use."""
    if agent.ping is not None:
        return "ping", agent.ping
    if agent.iperf3 is not None:
        return "iperf3", agent.iperf3[0].host
    if agent.stamp is not None:
        return "stamp", agent.stamp.host
    if agent.data is not None:
        return "data", agent.data
    assert agent.address is not None
    return "address", agent.address.host


def resolved(host: str, path: str, scenario: Scenario, *, v6: bool = False) -> str:
    """Return the first address of a host name, or the address that it is.

    Args:
        host: The name or address.
        path: Its place in the scenario.
        scenario: The scenario.
        v6: True for an address of IPv6; otherwise the first one of either version.

    Raises:
        UnsupportedError: It is unknown, or has no address of the version.
    """
    family = socket.AF_INET6 if v6 else socket.AF_UNSPEC
    try:
        return str(socket.getaddrinfo(host, None, family, socket.SOCK_STREAM)[0][4][0])
    except OSError as error:
        reason = error.strerror or error
        message = f"{host} cannot be resolved: {reason}"
        if v6:
            message = (
                f"{host} has no IPv6 address, which traffic with `ip: 6` needs ({reason}); give "
                "one by `data`"
            )
        raise UnsupportedError(f"{scenario.name}: {path}: {message}") from None
