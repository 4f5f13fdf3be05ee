"""Schedulers, and the scheduler maps that give each forwarding class one."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Final

from perhop.routers.reading.junos.drops import DropProfile, read_drop_profile
from perhop.routers.reading.junos.tree import chosen
from perhop.routers.reading.junos.values import number, percent

if TYPE_CHECKING:
    from collections.abc import Callable

    from perhop.routers.reading.configuration import Place
    from perhop.routers.reading.junos.tree import Node

PRIORITIES: Final = ("high", "medium-high", "medium-low", "low")
"""Priorities below `strict-high`, in the order in which queues borrow."""

_OPTIONS: Final = frozenset(("exact", "rate-limit", "burst-size"))

TRANSMIT_SOURCE: Final = "Junos CoS guide, transmit-rate and buffer-size: 95, 0, 0, 5, 0, 0, 0, 0"

MAX_QUEUES: Final = 64
"""The most classes of a scheduler map; routers have up to 16."""

BUFFER: Final = Fraction(1, 10)
"""The time in seconds that the buffers of an interface hold at its rate."""

BUFFER_SOURCE: Final = "Junos CoS guide, buffer-size: 100,000 us for most platforms"

LEAST_SOURCE: Final = "Juniper, Configuring Forwarding Classes: minimal credit and buffer"
LEAST_BUFFER: Final = 18_432
"""The least buffer of a queue in bytes (Juniper CLI reference, `buffer-size`, of IQE PICs)."""


@dataclass(frozen=True, slots=True)
class Amount:
    """A part of an interface's rate or buffer.

    Attributes:
        kind: ``percent``, ``rate`` (bit/s, or bytes of a buffer), ``remainder``, or ``time``
            (microseconds).
        value: The number; None for a remainder that is not divided further.
    """

    kind: str
    value: Fraction | None = None


@dataclass(slots=True)
class Scheduler:
    """The treatment of a queue.

    Attributes:
        name: Its name in the configuration.
        place: Its line.
        transmit: Its guarantee; None if it states none. With 0 the queue drops all packets.
        excess: Its weight in what exceeds the guarantees; None if it states none.
        bound: ``exact`` or ``rate-limit`` if the guarantee is also a limit.
        shaping: Its ceiling, with the burst in bytes.
        buffer: The size of its buffer.
        priority: ``strict-high`` or one of `PRIORITIES`; None if it states none.
        excess_priority: One of `PRIORITIES`, for what exceeds the guarantees; None if it states
            none.
        drops: The drop profile of each loss priority.
        ecn: True if packets are marked instead of dropped.
        nodes: The statements of its settings.
        counted: True if its guarantee is one of those of a policy.
        used: True if a class of a policy has it.
    """

    name: str
    place: Place
    transmit: Amount | None = None
    excess: Fraction | None = None
    bound: str = ""
    shaping: tuple[Amount, int | None] | None = None
    buffer: Amount | None = None
    priority: str | None = None
    excess_priority: str | None = None
    drops: dict[str, DropProfile] = field(default_factory=dict)
    ecn: bool = False
    nodes: dict[str, Node] = field(default_factory=dict)
    counted: bool = False
    used: bool = False

    @property
    def borrows(self) -> str:
        """The priority by which it shares what exceeds the guarantees."""
        return self.excess_priority or self.priority or "low"

    @property
    def strict(self) -> bool:
        """True if the queue is served before all others."""
        return self.priority == "strict-high" and not self.drops_all

    @property
    def drops_all(self) -> bool:
        """True if the queue drops all packets."""
        return self.transmit is not None and self.transmit.value == 0


def default_scheduler(queue: int | str, place: Place) -> Scheduler | None:
    """Return the scheduler of a queue in the platform's default scheduler map, if it has one."""
    share = {0: 95, 3: 5}.get(queue) if isinstance(queue, int) else None
    if share is None:
        return None
    amount = Amount("percent", Fraction(share))
    return Scheduler("default", place, amount, buffer=amount, priority="low")


class Schedulers:
    """The schedulers of a router, and its scheduler maps.

    Attributes:
        used: Names of schedulers that a map refers to.
    """

    def __init__(self, cos: Node) -> None:
        self.cos = cos
        self.used: set[str] = set()
        self._read: dict[str, Scheduler | None] = {}
        self._profiles: dict[str, DropProfile | None] = {}

    def map(self, name: str) -> dict[str, tuple[Scheduler, Node]] | None:
        """Return the scheduler of each forwarding class in a map, with the statement that says so.

        Returns:
            None if there is no such map.
        """
        node = self.cos.get("scheduler-maps", name)
        if node is None:
            return None
        found: dict[str, tuple[Scheduler, Node]] = {}
        node.mark_name()
        for forwarding in node.under("forwarding-class"):
            target = forwarding.value("scheduler")
            scheduler = self.scheduler(target.word) if target is not None else None
            if target is None or scheduler is None:
                forwarding.undefined("the configuration has no such scheduler")
                continue
            if len(found) == MAX_QUEUES:
                forwarding.ignored(f"perhop reads at most {MAX_QUEUES} classes of a map")
                continue
            found[forwarding.word] = (scheduler, forwarding)
            target.modelled()
            forwarding.mark_name()
        return found

    def scheduler(self, name: str) -> Scheduler | None:
        """Return a scheduler by name; None if there is none."""
        self.used.add(name)
        if name not in self._read:
            node = self.cos.get("schedulers", name)
            self._read[name] = self._scheduler(node) if node is not None else None
        return self._read[name]

    def finish(self) -> None:
        """Note the schedulers whose forwarding classes have no packets.

        What others share is left by their guarantees, too.
        """
        for scheduler in self._read.values():
            if scheduler is not None and not scheduler.used:
                for word, setting in scheduler.nodes.items():
                    if word != "transmit-rate" or not scheduler.counted:
                        setting.ignored("no packet has a forwarding class with this scheduler")

    def _scheduler(self, node: Node) -> Scheduler:
        found = Scheduler(node.word, node.place)
        node.mark_name()
        readers: dict[str, Callable[[Scheduler, Node], None]] = {
            "transmit-rate": _transmit,
            "shaping-rate": _shaping,
            "buffer-size": _buffer,
            "priority": _priority,
            "excess-rate": _excess,
            "excess-priority": _excess_priority,
            "drop-profile-map": self._drops,
            "explicit-congestion-notification": _ecn,
        }
        for setting in node:
            if setting.word in readers:
                found.nodes[setting.word] = setting
                readers[setting.word](found, setting)
            elif setting.word in ("adjust-minimum", "adjust-percent", "overhead-accounting"):
                setting.ignored("belongs to subscribers' rates")
            elif setting.word == "buffer-dynamic-threshold":
                setting.ignored("perhop's queues have fixed limits")
            else:
                setting.ignored("unknown statement")
        return found

    def _drops(self, found: Scheduler, node: Node) -> None:
        """Read which drop profile applies to which loss priority."""
        for loss in node.under("loss-priority"):
            for protocol in loss.under("protocol"):
                target = protocol.value("drop-profile")
                profile = self._profile(target.word) if target is not None else None
                if target is None or profile is None:
                    protocol.ignored("the configuration has no such drop profile")
                    continue
                levels = ("low", "medium-low", "medium-high", "high")
                for level in levels if loss.word == "any" else (loss.word,):
                    if protocol.word == "any" or level not in found.drops:
                        found.drops[level] = profile
                if protocol.word == "any":
                    target.modelled()
                else:
                    target.approximated("a queue has one profile for all protocols")

    def _profile(self, name: str) -> DropProfile | None:
        if name not in self._profiles:
            node = self.cos.get("drop-profiles", name)
            self._profiles[name] = read_drop_profile(node) if node is not None else None
        return self._profiles[name]


def _amount(node: Node, *, buffer: bool = False) -> tuple[Amount | None, Node | None]:
    """Return an amount, and the node of its last word."""
    options = _OPTIONS | {"shared"} if buffer else _OPTIONS
    first = chosen([each for each in node if each.word not in options])
    if first is None:
        return None, None
    after = chosen([each for each in first if percent(each.word) is not None])
    if first.word == "percent" and after is not None:
        return Amount("percent", percent(after.word)), after
    if first.word == "remainder":
        return Amount(
            "remainder", percent(after.word) if after is not None else None
        ), after or first
    if first.word == "temporal" and buffer:
        last = chosen(list(first))
        value = number(last.word) if last is not None else None
        return (Amount("time", Fraction(value)), last) if value else (None, None)
    value = number(first.word)
    return (Amount("rate", Fraction(value)), first) if value else (None, None)


def _transmit(found: Scheduler, node: Node) -> None:
    amount, last = _amount(node)
    if amount is None or last is None:
        node.ignored("expected a rate, a percentage, or `remainder`")
        return
    found.transmit = amount
    for bound in ("exact", "rate-limit"):
        if last.get(bound) is not None or node.get(bound) is not None:
            found.bound = bound
    node.modelled()


def _excess(found: Scheduler, node: Node) -> None:
    """Read `percent` or `proportion`: a weight beside those of the other queues."""
    for word in ("percent", "proportion"):
        given = node.value(word)
        if given is not None:
            value = percent(given.word) if word == "percent" else number(given.word)
            if value is not None:
                found.excess = Fraction(value)
                node.modelled()
                return
    node.ignored("expected `percent` or `proportion`")


def _shaping(found: Scheduler, node: Node) -> None:
    amount, last = _amount(node)
    if amount is None or last is None or amount.kind not in ("percent", "rate") or not amount.value:
        node.ignored("expected a rate or a percentage")
        return
    burst = last.value("burst-size") or node.value("burst-size")
    found.shaping = amount, number(burst.word) if burst is not None else None
    node.modelled()


def _buffer(found: Scheduler, node: Node) -> None:
    amount, last = _amount(node, buffer=True)
    if node.get("shared") is not None and amount is None:
        node.approximated("each queue of perhop has its own buffer")
        return
    if amount is None or last is None or amount.value == 0:
        node.ignored("expected a percentage, `temporal`, or `remainder`")
        return
    found.buffer = amount
    node.modelled()
    for each in (*last, *node):
        if each.word in ("exact", "shared"):
            each.approximated("each queue of perhop has its own buffer")


def _priority(found: Scheduler, node: Node) -> None:
    value = node.value()
    if value is None:
        return
    if value.word in (*PRIORITIES, "strict-high", "medium"):
        found.priority = "medium-high" if value.word == "medium" else value.word
        value.modelled()
    elif value.word == "low-latency":
        found.priority = "strict-high"
        value.approximated("is the same as strict-high in perhop")
    else:
        value.ignored("expected low, medium-low, medium-high, high or strict-high")


def _excess_priority(found: Scheduler, node: Node) -> None:
    value = node.value()
    if value is not None and value.word in PRIORITIES:
        found.excess_priority = value.word
        value.modelled()
    elif value is not None and value.word == "none":
        value.ignored("what exceeds the guarantees is divided in the order of `priority`")
    else:
        node.ignored("expected low, medium-low, medium-high, high or none")


def _ecn(found: Scheduler, node: Node) -> None:
    found.ecn = True
    node.modelled()
