"""Traffic control of Linux hosts: qdiscs, classes and filters of each interface."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, TypeVar

from perhop.routers.reading.linux import units
from perhop.routers.reading.matching import Conditions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from fractions import Fraction

    from perhop.routers.reading.configuration import Place
    from perhop.routers.reading.linux.handles import Handles
    from perhop.routers.reading.linux.ledger import Ledger

__all__ = [
    "CLSACT_EGRESS",
    "CLSACT_INGRESS",
    "INGRESS",
    "ROOT",
    "Action",
    "Class",
    "Device",
    "Filter",
    "Host",
    "Options",
    "Outcome",
    "Qdisc",
    "Test",
]

_T = TypeVar("_T")

_NO_PLACES: Final[Mapping[str, Place]] = MappingProxyType({})
_NO_LISTS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType({})

ROOT: Final = 0xFFFFFFFF
INGRESS: Final = 0xFFFFFFF1
"""The parents of the qdiscs for what an interface sends and for what it receives."""

MOST_DEVICES: Final = 2**14
"""The most interfaces of a host."""

CLSACT_INGRESS: Final = 0xFFFFFFF2
CLSACT_EGRESS: Final = 0xFFFFFFF3
"""The parents of filters of `clsact`."""


@dataclass(slots=True)
class Options:
    """Settings in the words of tc; values that cannot be read are noted and left out.

    Attributes:
        place: The line.
        values: The value of each setting; "" for a word without a value.
        places: The lines of settings that have lines of their own.
        ledger: Where problems are noted.
    """

    place: Place
    values: dict[str, str]
    ledger: Ledger
    places: Mapping[str, Place] = field(default_factory=lambda: _NO_PLACES)

    def at(self, key: str) -> Place:
        """Return the line of a setting."""
        return self.places.get(key, self.place)

    def rate(self, *keys: str) -> int | None:
        """Return a rate in bit/s; None if there is none."""
        return self._read(units.rate, keys)

    def size(self, *keys: str) -> int | None:
        """Return a size in bytes."""
        return self._read(units.size, keys)

    def time(self, *keys: str) -> int | None:
        """Return a time in picoseconds."""
        return self._read(units.time, keys)

    def number(self, *keys: str) -> int | None:
        """Return a whole number."""
        return self._read(units.number, keys)

    def share(self, *keys: str) -> Fraction | None:
        """Return a probability."""
        return self._read(units.share, keys)

    def hexadecimal(self, key: str) -> int | None:
        """Return the number of a class, which tc reads as hexadecimal."""
        return self._read(lambda text: units.classid(f":{text.removeprefix('0x')}"), (key,))

    def _read(self, reader: Callable[[str], _T], keys: tuple[str, ...]) -> _T | None:
        for key in keys:
            if key in self.values:
                try:
                    return reader(self.values[key])
                except ValueError as error:
                    self.ledger.approximated(self.at(key), f"{key}: {error}")
        return None


@dataclass(slots=True)
class Qdisc:
    """A queueing discipline.

    Attributes:
        kind: Its name.
        handle: Its number.
        parent: `ROOT`, `INGRESS`, or the class that it is in.
        options: Its settings.
        place: The line that adds it.
        lists: Settings of several words, such as the `priomap` of `prio`.
    """

    kind: str
    handle: int
    parent: int
    options: Options
    place: Place
    lists: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: _NO_LISTS)


@dataclass(slots=True)
class Class:
    """A class of a classful qdisc; `parent` is a class or the qdisc itself."""

    kind: str
    classid: int
    parent: int
    options: Options
    place: Place


@dataclass(frozen=True, slots=True)
class Action:
    """An action of a filter: its kind, its words as settings, and its verdict.

    Attributes:
        kind: ``police``, ``gact``, ``skbedit``, ``mirred``, …
        values: Its settings in the words of tc.
        verdict: What happens next: ``pipe``, ``ok``, ``drop``, ``continue``, …
    """

    kind: str
    values: dict[str, str]
    verdict: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the actions of a filter do with the packets that pass all its policers.

    Attributes:
        then: They get the class of the filter, or go on to the next filter, or are dropped.
        policers: The keys of the policers that measure them, in order; see `Buckets`.
        edits: The actions that change what later filters see of them.
    """

    then: Literal["class", "next", "drop"] = "class"
    policers: tuple[int, ...] = ()
    edits: tuple[Action, ...] = ()


@dataclass(frozen=True, slots=True)
class Test:
    """Conditions of a filter: on the packet's header, and on its mark and priority.

    Attributes:
        header: Conditions on the header.
        marks: Values of the mark, each with a mask; all must hold.
        negated: Values of the mark that it must not have.
    """

    header: Conditions = field(default_factory=Conditions)
    marks: tuple[tuple[int, int], ...] = ()
    negated: tuple[tuple[int, int], ...] = ()


@dataclass(slots=True)
class Filter:
    """A filter.

    Attributes:
        parent: The qdisc or class that it belongs to.
        prio: The order of filters, lowest first.
        kind: Its classifier.
        protocol: The protocol of its packets, such as ``ip``.
        handle: Its handle in the words of tc; "" if the kernel chooses it.
        tests: Alternatives, any of which must hold; None if they are not modelled.
        target: The class of its packets; None for a filter with actions only.
        actions: Its actions.
        place: The line that adds it.
        by_mark: True if the class is the packet's mark itself.
        table: The hash table of u32 that it is in, and the one that it leads to; 0 for none.
        made: The hash table of u32 that it makes; 0 for none.
        bucket: The bucket of its hash table; -1 if it is not known.
        hashed: True if it leads to a bucket that a part of the packet tells.
        node: The number in its handle; 0 for none.
        order: Its place among the filters of its priority, lowest first.
        masks: The masks of what it compares, if filters of one priority are tried by them.
        key: What it compares, if no other filter of its priority may compare the same.
    """

    parent: int
    prio: int
    kind: str
    protocol: str
    handle: str
    tests: tuple[Test, ...] | None
    target: int | None
    actions: tuple[Action, ...]
    place: Place
    by_mark: bool = False
    table: int = 0
    link: int = 0
    made: int = 0
    bucket: int = 0
    hashed: bool = False
    node: int = 0
    order: int = 0
    masks: tuple[object, ...] = ()
    key: tuple[object, ...] = ()


@dataclass(slots=True)
class Device:
    """An interface.

    Attributes:
        name: Its name in the script.
        qdiscs: Its qdiscs, by their parents.
        classes: Its classes, by their numbers, in order.
        filters: Its filters, in order of their addition.
        length: The packets of its transmit queue, if the script sets it.
        speed: The speed of the card in bit/s, if the script sets it.
        speed_place: The line that sets it.
        names: Names of classes, where they have one.
        actions: The policers of the host with an index that filters refer to.
        framing: The bytes beside an IP packet that Linux counts, as a scenario writes them: an
            Ethernet header, and what a size table adds; "" for none, and None if it is not known
            which settings of tc a router makes.
        handles: The handles of its filters, by their parents.
    """

    name: str
    qdiscs: dict[int, Qdisc] = field(default_factory=dict)
    classes: dict[int, Class] = field(default_factory=dict)
    filters: list[Filter] = field(default_factory=list)
    length: int | None = None
    speed: int | None = None
    speed_place: Place | None = None
    names: dict[int, str] = field(default_factory=dict)
    actions: dict[str, Action] = field(default_factory=dict)
    framing: str | None = "14 B"
    handles: dict[int, Handles] = field(default_factory=dict)
    _next: int = 0x8000
    _numbered: dict[int, Qdisc] = field(default_factory=dict)

    @property
    def ip_sizes(self) -> bool:
        """True if a size table takes the Ethernet header off what Linux counts."""
        return not self.framing

    def numbered(self, handle: int) -> Qdisc | None:
        """Return the qdisc with a number."""
        return self._numbered.get(handle)

    def put(self, qdisc: Qdisc) -> None:
        """Add a qdisc."""
        self.qdiscs[qdisc.parent] = qdisc
        self._numbered[qdisc.handle] = qdisc

    def new_handle(self) -> int:
        """Return a number for a qdisc without one, as the kernel chooses it."""
        self._next += 1
        return self._next

    def remove(self, parent: int) -> None:
        """Remove the qdisc below `parent`, with its classes and filters and all below them."""
        todo = [parent]
        while todo:
            gone = self.qdiscs.pop(todo.pop(), None)
            if gone is None:
                continue
            major = gone.handle
            self._numbered.pop(major, None)
            todo += [each for each in self.qdiscs if each >> 16 == major and each < INGRESS]
            self.classes = {key: each for key, each in self.classes.items() if key >> 16 != major}
            self.filters = [each for each in self.filters if each.parent >> 16 != major]
            self.handles = {key: each for key, each in self.handles.items() if key >> 16 != major}


@dataclass(slots=True)
class Host:
    """A host.

    Attributes:
        speeds: Speeds of cards in bit/s, in place of those that scripts set.
        devices: Its interfaces, by name.
        actions: Its policers with an index, by that.
    """

    speeds: Mapping[str, int]
    devices: dict[str, Device] = field(default_factory=dict)
    actions: dict[str, Action] = field(default_factory=dict)

    def device(self, name: str) -> Device:
        """Return an interface, new or known.

        Raises:
            ValueError: There are too many.
        """
        if name not in self.devices:
            if len(self.devices) >= MOST_DEVICES:
                raise ValueError(f"perhop reads {MOST_DEVICES:,} interfaces at most")
            self.devices[name] = Device(name, speed=self.speeds.get(name), actions=self.actions)
        return self.devices[name]
