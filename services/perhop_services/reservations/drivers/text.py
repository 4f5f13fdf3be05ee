"""Routers that people configure: perhop writes what is to be entered, and waits to be told.

IOS polices in bits per second with its burst in bytes (`police cir … bc …`); Junos has a policer
with `bandwidth-limit` in bits per second and `burst-size-limit` in bytes, named by a firewall
filter's term. Terms are tried in order: a new one belongs before the one that accepts what is
left.
"""

from __future__ import annotations

from typing import NoReturn

from perhop_services.reservations.drivers.protocol import (
    DriverError,
    PolicerCounters,
    Rule,
    Setting,
)


class _ByPeople:
    """A router that only people configure."""

    needs_people = True

    def expected(self, rule: Rule) -> Setting:
        """Return the setting in the text."""
        return Setting(rule.rate, rule.burst, rule.packets)

    def set(self, rule: Rule) -> NoReturn:
        """Do nothing: people configure the router."""
        raise DriverError(f"{rule.name} is to be configured by people")

    def remove(self, name: str) -> NoReturn:
        """Do nothing: people configure the router."""
        raise DriverError(f"{name} is to be removed by people")

    def installed(self) -> dict[str, Setting]:
        """Return nothing: perhop cannot read the router."""
        return {}

    def counters(self) -> dict[str, PolicerCounters]:
        """Return nothing: perhop cannot read the router."""
        return {}

    def clear(self, name: str) -> NoReturn:
        """Do nothing: people configure the router."""
        raise DriverError(f"the counters of {name} are to be cleared by people")


class IosDriver(_ByPeople):
    """Cisco IOS: an access list, a class map, and the class in a policy map."""

    def __init__(self, *, policy: str = "perhop") -> None:
        """Take the name of the policy map that the ingress interface has."""
        self._policy = policy

    def configuration(self, rule: Rule, old: Rule | None = None, *, remove: bool = False) -> str:
        """Return the lines to enter in configuration mode."""
        name = rule.name
        if remove:
            return (
                f"policy-map {self._policy}\n no class {name}\n!\n"
                f"no class-map match-all {name}\nno ip access-list extended {name}\n"
            )
        lines = []
        if old is None or old.packets != rule.packets:
            if old is not None:
                lines.append(f"no ip access-list extended {name}")
            lines += [
                f"ip access-list extended {name}",
                *(f" permit {line}" for line in _ios_matches(rule)),
                "!",
            ]
        if old is None:
            lines += [f"class-map match-all {name}", f" match access-group name {name}", "!"]
        lines += [
            f"policy-map {self._policy}",
            f" class {name}",
            f"  police cir {rule.rate} bc {max(rule.burst, 1500)} "
            "conform-action transmit exceed-action drop",
        ]
        return "\n".join(lines) + "\n"


def _ios_matches(rule: Rule) -> list[str]:
    selector = rule.selector
    ported = selector.source_ports or selector.destination_ports
    protocols = [selector.protocol] if selector.protocol else ["tcp", "udp"] if ported else ["ip"]
    dscp = "" if selector.dscp is None else f" dscp {selector.dscp}"
    return [
        f"{protocol} host {rule.source}{_ios_ports(selector.source_ports)}"
        f" host {rule.destination}{_ios_ports(selector.destination_ports)}{dscp}"
        for protocol in protocols
    ]


def _ios_ports(ports: tuple[int, int] | None) -> str:
    if ports is None:
        return ""
    low, high = ports
    return f" eq {low}" if low == high else f" range {low} {high}"


class JunosDriver(_ByPeople):
    """Juniper Junos: a policer, and a term of the filter on the ingress interface."""

    def __init__(self, *, filter: str = "perhop") -> None:  # noqa: A002
        """Take the name of the firewall filter that the ingress interface has."""
        self._filter = filter

    def configuration(self, rule: Rule, old: Rule | None = None, *, remove: bool = False) -> str:
        """Return the commands to enter, up to the commit."""
        policer = f"firewall policer {rule.name}"
        term = f"firewall family inet filter {self._filter} term {rule.name}"
        if remove:
            return f"delete {term}\ndelete {policer}\ncommit\n"
        lines = [
            f"set {policer} if-exceeding bandwidth-limit {rule.rate}",
            f"set {policer} if-exceeding burst-size-limit {rule.burst}",
        ]
        if old is None:
            lines.append(f"set {policer} then discard")
        if old is None or old.packets != rule.packets:
            if old is not None:
                lines.append(f"delete {term} from")
            selector = rule.selector
            lines += [
                f"set {term} from source-address {rule.source}/32",
                f"set {term} from destination-address {rule.destination}/32",
            ]
            protocols = [selector.protocol] if selector.protocol else []
            if not protocols and (selector.source_ports or selector.destination_ports):
                protocols = ["tcp", "udp"]
            lines += [f"set {term} from protocol {protocol}" for protocol in protocols]
            for key, ports in (
                ("source-port", selector.source_ports),
                ("destination-port", selector.destination_ports),
            ):
                if ports is not None:
                    low, high = ports
                    value = str(low) if low == high else f"{low}-{high}"
                    lines.append(f"set {term} from {key} {value}")
            if selector.dscp is not None:
                lines.append(f"set {term} from dscp {selector.dscp}")
        if old is None:
            lines += [
                f"set {term} then policer {rule.name}",
                f"set {term} then count {rule.name}",
                f"set {term} then accept",
            ]
        return "\n".join([*lines, "commit"]) + "\n"
