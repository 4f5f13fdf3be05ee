"""The instants, names, addresses and ports of a scenario."""

from __future__ import annotations

from bisect import bisect_left
from functools import cached_property
from ipaddress import IPv4Address, IPv6Address, IPv6Network
from itertools import count, pairwise
from typing import TYPE_CHECKING, Self

from perhop.scenario.model.names import EVERY_ADDRESS, Network, prefixes_of
from perhop.scenario.model.scenario import ScenarioData
from perhop.scenario.model.traffic import Flow

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from perhop.scenario.model.background import Background
    from perhop.scenario.model.classes import Class, Policy
    from perhop.scenario.model.matching import Match
    from perhop.scenario.model.names import IpVersion
    from perhop.scenario.model.topology import Link
    from perhop.scenario.model.traffic import Ping

FIRST_PORT = 5001
"""The default destination port of the first flow; that of the next flow is one more."""


class ResolvedScenario(ScenarioData):
    """The data of a scenario, valid or not, with the values that follow from it."""

    def __copy__(self) -> Self:
        """Copy only the fields: `model_copy` changes them, and cached values follow from them."""
        copied = super().__copy__()
        for name in copied.__dict__.keys() - type(self).model_fields.keys():
            del copied.__dict__[name]
        return copied

    def without_background(self) -> Self:
        """Return the scenario without background traffic and what it adds to the network."""
        if not self.backgrounds:
            return self
        hosts, names = self.background_hosts, self.backgrounds.keys()
        return self.model_copy(
            update={
                "background": None,
                "nodes": {name: node for name, node in self.nodes.items() if name not in hosts},
                "links": tuple(link for link in self.links if not hosts.intersection(link.ends)),
                "flows": {name: flow for name, flow in self.flows.items() if name not in names},
            }
        )

    @cached_property
    def end_ps(self) -> int:
        """The end of the scenario in picoseconds: its `duration`, or the last stop."""
        if self.duration is not None:
            return self.duration
        senders: list[Flow | Ping] = [*self.flows.values(), *self.pings.values()]
        return max((sender.stop for sender in senders if sender.stop is not None), default=0)

    @cached_property
    def changes_ps(self) -> list[int]:
        """The instants, sorted, at which flows start or stop or the network changes."""
        spans = [{*flow.starts, self.active_ps(flow)[1]} for flow in self.flows.values()]
        network = {change.at for change in self.changes if change.clear is None}
        return sorted(network.union(*spans))

    @cached_property
    def phases_ps(self) -> list[tuple[int, int]]:
        """The intervals between changes, from 0 to the end: the same flows in the same network."""
        instants = sorted({0, *self.changes_ps, self.end_ps})
        return list(pairwise(instants))

    @cached_property
    def marks_ps(self) -> list[int]:
        """The instants between which results are recorded, sorted, from 0 to the end.

        They are the report's grid, every change, and both edges of the windows of expectations and
        published figures, so that each window is a union of results. An instant of the grid is left
        out within a millionth of the interval from another one: a shorter stretch has no rates.
        """
        measured = (*self.expect, *self.published)
        edges = (edge for item in measured if item.during for edge in item.during)
        cleared = (change.at for change in self.changes)
        wanted = {0, *self.changes_ps, *cleared, *edges, self.end_ps}
        taken, near = sorted(wanted), self.report.interval // 1_000_000

        def is_apart(mark: int) -> bool:
            after = bisect_left(taken, mark)
            beside = taken[max(after - 1, 0) : after + 1]
            # Equal instants in seconds, too, would be a stretch without a length.
            return all(abs(mark - other) > near and mark / 1e12 != other / 1e12 for other in beside)

        return sorted(wanted.union(filter(is_apart, range(0, self.end_ps, self.report.interval))))

    @cached_property
    def cuts_ps(self) -> list[int]:
        """The edges of windows with an expected or published statistic of a histogram, sorted."""
        measured = (*self.expect, *self.published)
        windows = (item.during for item in measured if item.measured_metric.cuts)
        return sorted({edge for during in windows if during for edge in during})

    @cached_property
    def directions(self) -> dict[str, tuple[Link, str]]:
        """Both directions of every link by their names in results: the link, and the sending node.

        The direction in which r1 sends to r2 is ``r1>r2``; of a link with a name ``r1>r2#name``, of
        the second one without a name between them ``r1>r2#2``.
        """
        links = [(link.ends, link.name) for link in self.links]
        return {
            name: (link, end)
            for link, names in zip(self.links, direction_names(links), strict=True)
            for name, end in zip(names, link.ends, strict=True)
        }

    @cached_property
    def devices(self) -> dict[str, tuple[Link, str]]:
        """The devices of tunnels that queue packets, as links, by their names in results.

        That of the tunnel ``vpn`` at edge, for packets to hub, is ``edge>hub#vpn``.
        """
        return {
            f"{end}>{tunnel.other(end)}#{name}": (device, end)
            for name, tunnel in self.tunnels.items()
            for device in [tunnel.device(name)]
            for end in tunnel.ends
            if end in tunnel.shape or end in tunnel.egress
        }

    @cached_property
    def queueing(self) -> dict[str, tuple[Link, str]]:
        """Every place that queues packets: `directions`, and then `devices`."""
        return {**self.directions, **self.devices}

    def active_ps(self, sender: Flow | Ping) -> tuple[int, int]:
        """Return the instants at which `sender` starts, without jitter, and stops at the latest."""
        start = sender.starts[0] if isinstance(sender, Flow) else sender.start
        return start, self.end_ps if sender.stop is None else sender.stop

    def address_of(self, node: str) -> IPv4Address:
        """Return the address of `node`: its own, or the default by its position in the file."""
        return self.addresses[node]

    @cached_property
    def addresses(self) -> dict[str, IPv4Address]:
        """The address of every node."""
        taken = {node.address for node in self.nodes.values() if node.address}
        free = (a for a in map(_FIRST_ADDRESS.__add__, count()) if a not in taken)
        return {name: node.address or next(free) for name, node in self.nodes.items()}

    @cached_property
    def addresses_v6(self) -> dict[str, IPv6Address]:
        """The IPv6 address of every node: its own, or one that ends with its IPv4 address."""
        return {
            name: node.address_v6 or _PREFIX_V6[int(self.addresses[name])]
            for name, node in self.nodes.items()
        }

    def ip_of(self, sender: Flow | Ping | Background) -> IpVersion:
        """Return the version of the internet protocol of a sender's packets."""
        return self.ip if sender.ip is None else sender.ip

    @cached_property
    def ip_versions(self) -> tuple[IpVersion, ...]:
        """The versions of the internet protocol that its traffic has, sorted.

        Outer packets of tunnels have version 4.
        """
        outer: set[IpVersion] = {4} if self.tunnels else set()
        senders: list[Flow | Ping] = [*self.flows.values(), *self.pings.values()]
        return tuple(sorted({self.ip_of(sender) for sender in senders} | outer or {self.ip}))

    def addresses_in(self, version: IpVersion) -> Mapping[str, IPv4Address | IPv6Address]:
        """Return the address of every node in a version of the internet protocol."""
        return self.addresses if version == 4 else self.addresses_v6

    @cached_property
    def all_addresses(self) -> dict[str, tuple[IPv4Address | IPv6Address, ...]]:
        """The addresses of every node of the versions that the traffic has."""
        own = [self.addresses_in(version) for version in self.ip_versions]
        return {name: tuple(addresses[name] for addresses in own) for name in self.nodes}

    def prefixes(self, ends: Iterable[str | Network]) -> tuple[Network, ...]:
        """Return the address prefixes of a match's `ends`; a node becomes its addresses."""
        return prefixes_of(ends, self.all_addresses)

    def match_prefixes(
        self, match: Match
    ) -> tuple[tuple[Network, ...] | None, tuple[Network, ...] | None]:
        """Return the prefixes of source and destination of a match; None for no condition.

        A match for one version has the prefix of all its addresses, if it names no others.
        """
        source, destination = (
            None if ends is None else self.prefixes(ends)
            for ends in (match.source, match.destination)
        )
        if match.ip is None or len(set(match.ip)) > 1:
            return source, destination
        version = match.ip[0]
        if source is None and destination is None:
            return (EVERY_ADDRESS[version],), None
        if source is not None:
            source = tuple(each for each in source if each.version == version)
        if destination is not None:
            destination = tuple(each for each in destination if each.version == version)
        return source, destination

    def all_policies(self) -> Iterator[tuple[tuple[str, ...], Policy]]:
        """Yield every policy, and every one that the `classes` of a class form, with its path."""
        todo: list[tuple[tuple[str, ...], Policy]]
        todo = [((name,), policy) for name, policy in self.policies.items()]
        while todo:
            path, policy = todo.pop(0)
            yield ("policies", path[0], "classes", *path[1:]), policy
            for key, class_ in policy.classes.items():
                inside = policy.inside(class_)
                if inside is not None:
                    todo.append(((*path, key, "classes"), inside))

    def divided(self, policy: Policy, class_: Class) -> Policy | None:
        """Return the policy that divides a class of `policy`; None if the class has a queue."""
        if class_.policy is not None:
            return self.policies.get(class_.policy)
        return policy.inside(class_)

    def port_of(self, flow: str) -> int:
        """Return the destination port of `flow`: its own, or the default by its position."""
        own = self.flows[flow].port
        return FIRST_PORT + list(self.flows).index(flow) if own is None else own


def direction_names(
    links: Iterable[tuple[tuple[str, str], str | None]],
) -> Iterator[tuple[str, str]]:
    """Yield the names of both directions of each link, given by its ends and its own name."""
    numbers: dict[frozenset[str], int] = {}
    for (near, far), name in links:
        pair = frozenset((near, far))
        number = numbers[pair] = numbers.get(pair, 0) + 1
        which = f"#{name or number}" if name or number > 1 else ""
        yield f"{near}>{far}{which}", f"{far}>{near}{which}"


_FIRST_ADDRESS = IPv4Address("10.0.0.1")
_PREFIX_V6 = IPv6Network("fd70:6572:686f:7000::/64")
