"""The conditions of terms of firewall filters as sets of packets."""

from __future__ import annotations

from ipaddress import ip_network
from typing import TYPE_CHECKING, Final

from perhop.routers.reading.junos import values
from perhop.routers.reading.matching import Conditions, Rules

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from perhop.routers.reading.junos.tree import Node
    from perhop.routers.reading.matching import Network

_ADDRESSES: Final = {
    "address": ("source", "destination"),
    "source-address": ("source",),
    "destination-address": ("destination",),
    "ip-source-address": ("source",),
    "ip-destination-address": ("destination",),
    "prefix-list": ("source", "destination"),
    "source-prefix-list": ("source",),
    "destination-prefix-list": ("destination",),
}
_PORTS: Final = {
    "port": ("source_ports", "destination_ports"),
    "source-port": ("source_ports",),
    "destination-port": ("destination_ports",),
}
_CODES: Final = ("dscp", "traffic-class", "precedence", "ip-precedence")
_PROTOCOLS: Final = ("protocol", "next-header", "payload-protocol", "ip-protocol")

BY_CLASS: Final = ("forwarding-class", "forwarding-class-except")
"""Conditions on forwarding classes, which packets have at outputs."""

IGNORED: Final = "perhop has no such condition: the term applies whatever the packet has there"


class Matcher:
    """Reads the conditions of terms.

    Attributes:
        prefixes: `policy-options prefix-list`, which conditions refer to; None if there is none.
        classes: The packets of each forwarding class, for filters at outputs.
        version: The version of IP of the addresses that conditions see; None for both.
    """

    def __init__(
        self, prefixes: Node | None, classes: Mapping[str, Rules], family: str = "any"
    ) -> None:
        self.prefixes = prefixes
        self.classes = classes
        self.version = {"inet": 4, "inet6": 6}.get(family)

    def rules(self, conditions: Node | None) -> Rules | None:
        """Return the packets that meet the conditions of a term; without conditions, all.

        Returns:
            None if perhop has none of the conditions: the term must be left out.
        """
        if conditions is None:
            return Rules.any()
        sets: list[Rules] = []
        addresses: dict[tuple[str, ...], list[Node]] = {}
        stated = [each for each in conditions if not each.emptied]
        known = not stated
        for each in stated:
            if each.word in _ADDRESSES:
                known = True
                addresses.setdefault(_ADDRESSES[each.word], []).append(each)
                continue
            found = self._condition(each)
            if found is not None:
                known = True
                sets.append(found)
        sets += [self._addresses(sides, nodes) for sides, nodes in addresses.items()]
        return Rules.intersection(sets) if known else None

    def _condition(self, node: Node) -> Rules | None:
        word, excluded = node.word, node.word.endswith("-except")
        base = word.removesuffix("-except")
        if base in _PORTS:
            found: Rules | None = _ports(node, base)
        elif base in _PROTOCOLS:
            found = _protocols(node)
        elif base in _CODES:
            found = _codes(node, base)
        elif base == "forwarding-class" and self.classes:
            found = self._classes(node)
        else:
            node.ignored(IGNORED)
            return None
        return ~found if excluded and found is not None else found

    def _addresses(self, sides: Sequence[str], nodes: Sequence[Node]) -> Rules:
        """Return the packets with an address in some prefixes; the longest one decides.

        Prefixes of a list are those of the condition, beside others of the same side (Juniper,
        Firewall Filter Match Conditions Based on Address Fields).
        """
        networks: dict[Network, bool] = {}
        for node in nodes:
            named = node.word.endswith("prefix-list")
            for each in node:
                permit = each.get("except") is None
                found = self._prefix_list(each) if named else _network(each)
                for network in found:
                    if self.version in (None, network.version):
                        networks[network] = permit
        if not networks:
            return Rules.never()
        ordered = sorted(networks.items(), key=lambda pair: -pair[0].prefixlen)
        runs: list[tuple[bool, list[Network]]] = []
        for network, permit in ordered:
            if not runs or runs[-1][0] != permit:
                runs.append((permit, []))
            runs[-1][1].append(network)
        found_at = [
            Rules(tuple((permit, _side(side, tuple(run))) for permit, run in runs))
            for side in sides
        ]
        return Rules.union(found_at)

    def _prefix_list(self, name: Node) -> list[Network]:
        found = self.prefixes.get(name.word) if self.prefixes is not None else None
        if found is None:
            name.undefined("the configuration has no such prefix list")
            return []
        name.modelled()
        found.modelled(whole=False)
        networks = [network for each in found for network in _network(each)]
        if found.get("apply-path") is not None:
            name.approximated("`apply-path` is not followed")
        elif not list(found):
            name.approximated("the prefix list is empty: taken as one that no packet is in")
        return networks

    def _classes(self, node: Node) -> Rules:
        sets = []
        for each in node:
            if each.word in self.classes:
                each.modelled()
                sets.append(self.classes[each.word])
            else:
                each.ignored("no packet has this forwarding class")
        return Rules.union(sets)


def _side(side: str, networks: tuple[Network, ...]) -> Conditions:
    return Conditions(**{side: networks})  # type: ignore[arg-type]


def _network(node: Node) -> list[Network]:
    if node.word == "apply-path":
        node.ignored("paths in the configuration are not followed")
        return []
    text = node.word.split("/")
    try:
        network = ip_network("/".join(text[:2]), strict=False)
        # Python takes 0.0.0.255 as the wildcard mask of /24.
        mask = text[1] if len(text) > 1 else ""
        known = "." not in mask or str(network.netmask) == mask
    except ValueError:
        known = False
    if not known:
        node.ignored("is not an address prefix; masks with gaps are not modelled")
        return []
    node.modelled()
    return [network]


def _read(node: Node, read: Callable[[str], object], expected: str) -> list[object]:
    """Return the values of a condition that can be read; others are noted."""
    found = []
    for each in node:
        value = read(each.word)
        if value is None:
            each.ignored(f"is not {expected}")
        else:
            each.modelled()
            found.append(value)
    return found


def _ports(node: Node, base: str) -> Rules:
    ranges = tuple(_read(node, values.ports, "a port"))
    sides = (Rules.of(Conditions(**{side: ranges})) for side in _PORTS[base])  # type: ignore[arg-type]
    return Rules.union(sides)


def _protocols(node: Node) -> Rules:
    found: set[str] = set()
    for each in node:
        known = values.protocols(each.word)
        if known:
            each.modelled()
            found |= known
        elif values.OTHER_PROTOCOLS.fullmatch(each.word):
            each.approximated("perhop's packets are TCP, UDP or ICMP: none has this protocol")
        else:
            each.ignored("is not a protocol")
    return Rules.of(Conditions(protocols=frozenset(found)))


def _codes(node: Node, base: str) -> Rules:
    codes: Iterable[object]
    if base.endswith("precedence"):
        first: Sequence[object] = _read(node, values.filter_precedence, "a precedence")
        codes = [int(str(code)) << 3 | rest for code in first for rest in range(8)]
    else:
        codes = _read(node, values.filter_dscp, "a code point")
    return Rules.of(Conditions(dscp=frozenset(int(str(code)) for code in codes)))
