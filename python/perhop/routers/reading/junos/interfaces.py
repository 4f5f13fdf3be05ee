"""Interfaces: their rates, filters and policers, and the statements of `class-of-service`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from fnmatch import translate
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from perhop.routers.reading.junos.filters import FAMILIES
from perhop.routers.reading.junos.tree import chosen
from perhop.routers.reading.junos.values import SPEED_SOURCE, number, speed_of, stated_speed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from perhop.routers.reading.configuration import Place
    from perhop.routers.reading.junos.tree import Node

_SPEEDS: Final = (
    ("speed",),
    ("gigether-options", "speed"),
    ("ether-options", "speed"),
    ("fastether-options", "speed"),
)
_BUNDLES: Final = (
    ("gigether-options", "802.3ad"),
    ("ether-options", "802.3ad"),
    ("fastether-options", "802.3ad"),
)
_TAKEN: Final = {
    "bandwidth": "informational in Junos; taken as the rate of the interface",
    "fastether-options": "Juniper's reference has no `speed` there: taken as the rate of the "
    "interface",
}
"""Notes on statements of rates that Juniper's documents do not have as such."""

_UNIT_SCHEDULERS: Final = ("per-unit-scheduler", "hierarchical-scheduler", "shared-scheduler")
"""Statements that let units of an interface have scheduler maps (Juniper CLI reference)."""

_OTHER_STATEMENTS: Final = {
    "hierarchical-scheduler": "levels of schedulers above units are not modelled",
    "shared-scheduler": "units share nothing but the rate of their interface",
    "layer2-policer": "layer-2 policers are not read",
    "simple-filter": "simple filters are not read",
}

_OF_ROUTER: Final = re.compile(r"(?:lo|fxp|em|me)[0-9]+|vme[0-9]*|re[0-9]+:mgmt-[0-9]+")
"""Loopback and management interfaces, whose packets are those to and from the Routing Engine
(Juniper, Understanding How to Use Standard Firewall Filters)."""

TO_ROUTER: Final = "is about packets to the router itself, which are not modelled"

_NO_INTERFACES: Final = frozenset(
    ("apply-groups", "apply-groups-except", "interface-range", "interface-set", "traceoptions")
)


@dataclass(slots=True)
class Unit:
    """A logical interface.

    Attributes:
        name: Its name, such as ``ge-0/0/0.0``.
        filters: For each direction, the families and statements of filters.
        policers: For each direction, the families and statements of policers.
        families: The families of its packets.
    """

    name: str
    filters: dict[str, list[tuple[str, Node]]] = field(default_factory=dict)
    policers: dict[str, list[tuple[str, Node]]] = field(default_factory=dict)
    families: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Interface:
    """A physical interface.

    Attributes:
        name: Its name.
        place: Its line.
        rate: Its rate in bit/s, or None.
        rate_place: The line that states the rate, or None.
        units: Its logical interfaces, by number.
        given: True if the rate is given in place of what the configuration says.
        unscheduled: True if Junos lets none of its units have a scheduler map.
    """

    name: str
    place: Place
    rate: int | None = None
    rate_place: Place | None = None
    units: dict[str, Unit] = field(default_factory=dict)
    given: bool = False
    unscheduled: bool = False


@dataclass(slots=True)
class Interfaces:
    """The interfaces of a router.

    Attributes:
        all: Physical interfaces by name.
        speeds: The statements of their rates.
        notes: What differs from Juniper's documents in those statements.
        given: Rates in bit/s in place of theirs, by the name of an interface or unit.
    """

    given: Mapping[str, int]
    all: dict[str, Interface] = field(default_factory=dict)
    speeds: dict[str, Node] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)

    def get(self, name: str, place: Place) -> Interface:
        """Return an interface by name; one without a configuration has the rate of its name."""
        if name not in self.all:
            self.all[name] = Interface(name, place, speed_of(name))
            self.replace(self.all[name])
        return self.all[name]

    def replace(self, interface: Interface) -> None:
        """Set the rate of an interface to that given for it, or for one of its units."""
        for name, rate in self.given.items():
            if interface.name == name or name.startswith(f"{interface.name}."):
                interface.rate, interface.rate_place, interface.given = rate, None, True

    def rate_used(self, interface: Interface) -> str:
        """Record that the rate of an interface matters; return the source of a default."""
        if interface.name in self.speeds:
            if interface.given:
                self.speeds[interface.name].ignored("another rate is given in its place")
            elif interface.name in self.notes:
                self.speeds[interface.name].approximated(self.notes[interface.name])
            else:
                self.speeds[interface.name].modelled()
            return ""
        return SPEED_SOURCE if interface.rate is not None and not interface.given else ""


def read_interfaces(top: Node | None, rates: Mapping[str, int]) -> Interfaces:
    """Return the interfaces of a configuration.

    Args:
        top: The statement `interfaces`.
        rates: Rates in bit/s in place of theirs, by the name of an interface or unit.
    """
    found = Interfaces(rates)
    members: dict[str, list[Interface]] = {}
    for node in top or ():
        if node.word in _NO_INTERFACES:
            continue
        interface = Interface(node.word, node.place, speed_of(node.word))
        found.all[node.word] = interface
        for path in _SPEEDS:
            value = node.value(*path)
            rate = stated_speed(value.word) if value is not None else None
            if value is not None and rate is not None:
                interface.rate, interface.rate_place = rate, value.place
                found.speeds[node.word] = value
                if path[0] in _TAKEN:
                    found.notes[node.word] = _TAKEN[path[0]]
        for path in _BUNDLES:
            for bundle in node.under(*path):
                members.setdefault(bundle.word, []).append(interface)
        for word, note in _OTHER_STATEMENTS.items():
            if (other := node.get(word)) is not None:
                other.ignored(note)
        if (other := node.get("per-unit-scheduler")) is not None:
            other.approximated("units have policies of their own, and do not share the interface")
        interface.unscheduled = not any(node.get(word) for word in _UNIT_SCHEDULERS)
        for unit in node.under("unit"):
            interface.units[unit.word] = _unit(f"{node.word}.{unit.word}", unit)
        bandwidths = [value for unit in node.under("unit") if (value := unit.value("bandwidth"))]
        if interface.rate_place is None and len(bandwidths) == 1:
            rate = number(bandwidths[0].word)
            if rate:
                interface.rate, interface.rate_place = rate, bandwidths[0].place
                found.speeds[node.word] = bandwidths[0]
                found.notes[node.word] = _TAKEN["bandwidth"]
    for name, links in members.items():
        speeds = [link.rate for link in links]
        bundle_ = found.all.get(name)
        if bundle_ is not None and bundle_.rate is None and None not in speeds:
            bundle_.rate = sum(speed for speed in speeds if speed is not None)
    for interface in found.all.values():
        found.replace(interface)
    return found


def _unit(name: str, node: Node) -> Unit:
    found = Unit(name)
    for word, note in _OTHER_STATEMENTS.items():
        if (other := node.get(word)) is not None:
            other.ignored(note)
    levels = [(family.word, family) for family in node.under("family")]
    found.families = {family for family, _ in levels}
    for family, level in [("any", node), *levels]:
        if (other := level.get("simple-filter")) is not None:
            other.ignored(_OTHER_STATEMENTS["simple-filter"])
        for key, direction in (("input", "in"), ("output", "out")):
            for path in (("filter", key), ("filter", f"{key}-list")):
                for each in level.under(*path):
                    found.filters.setdefault(direction, []).append((family, each))
            policer = level.value("policer", key)
            if policer is None:
                continue
            if family not in FAMILIES:
                policer.ignored(f"packets of family {family} are not modelled")
            else:
                found.policers.setdefault(direction, []).append((family, policer))
        if (arp := level.get("policer", "arp")) is not None:
            arp.ignored("perhop has no ARP")
    return found


def of_router(name: str) -> bool:
    """Return whether no packet that the router forwards passes an interface."""
    return _OF_ROUTER.fullmatch(name) is not None


# class-of-service interfaces


@lru_cache(maxsize=4096)
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(translate(text))


def applies(pattern: str, name: str) -> bool:
    """Return whether a name in `class-of-service interfaces`, such as ``ge-*``, covers another."""
    if pattern == name or pattern == "all":
        return True
    return "*" in pattern and _pattern(pattern).match(name) is not None


class Placed:
    """The statements of `class-of-service interfaces` that apply to an interface or a unit.

    An exact name comes before one with a wildcard, and a longer one before a shorter one.
    """

    def __init__(self, nodes: list[Node]) -> None:
        self.nodes = nodes

    def value(self, *path: str) -> Node | None:
        """Return the value of a setting, or None."""
        for node in self.nodes:
            found = chosen([each for each in node.under(*path) if each.word not in _OPTIONS])
            if found is not None:
                return found
        return None

    def under(self, *path: str) -> Iterator[Node]:
        """Yield the values of a setting from the first level that has it."""
        for node in self.nodes:
            found = node.under(*path)
            if found:
                yield from found
                return

    def unit(self, number: str) -> Placed:
        """Return what applies to a unit."""
        found = []
        for node in self.nodes:
            units = node.under("unit")
            found += sorted(
                (unit for unit in units if applies(unit.word, number)),
                key=lambda unit: (unit.word != number, -len(unit.word)),
            )
        return Placed(found)

    @property
    def numbers(self) -> list[str]:
        """The numbers of units without wildcards."""
        units = (unit.word for node in self.nodes for unit in node.under("unit"))
        return [number for number in dict.fromkeys(units) if "*" not in number]


MAX_WILDCARDS: Final = 256
"""The most names with wildcards in `class-of-service interfaces`."""

_OPTIONS: Final = frozenset(("burst-size", "overhead-accounting"))


class PlacedAll:
    """`class-of-service interfaces`: statements for interfaces by name or wildcard."""

    def __init__(self, top: Node | None) -> None:
        nodes = [node for node in top or () if node.word not in _NO_INTERFACES]
        self.exact = {node.word: node for node in nodes if "*" not in node.word}
        self.exact.pop("all", None)
        self.wild = sorted(
            (node for node in nodes if node.word not in self.exact),
            key=lambda node: -len(node.word),
        )
        for node in self.wild[MAX_WILDCARDS:]:
            node.ignored(f"is one of more than {MAX_WILDCARDS} names with wildcards")
        del self.wild[MAX_WILDCARDS:]

    def of(self, name: str) -> Placed:
        """Return what applies to an interface."""
        own = [self.exact[name]] if name in self.exact else []
        return Placed([*own, *(node for node in self.wild if applies(node.word, name))])

    def names(self, interfaces: Interfaces) -> list[str]:
        """Return the interfaces that statements apply to; a wildcard without any is one itself."""
        found = dict.fromkeys(self.exact)
        for node in self.wild:
            hits = [name for name in interfaces.all if applies(node.word, name)]
            if hits:
                found |= dict.fromkeys(hits)
            elif not any(applies(node.word, name) for name in self.exact):
                found[node.word] = None
        return list(found)
