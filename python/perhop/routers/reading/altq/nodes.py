"""Interfaces with their classes, before they are written as a policy."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from perhop.routers.reading.curves import Curves
from perhop.routers.reading.matching import Conditions

if TYPE_CHECKING:
    from perhop.routers.reading.altq.ledger import Statement

MAX_DEPTH: Final = 32
"""The deepest class of an interface."""


@dataclass(slots=True, eq=False)
class Node:
    """A class or queue of an interface.

    Attributes:
        name: Its name.
        statement: The statement that defines it.
        parent: The class that it shares; None at the top.
        children: The classes that share its bandwidth.
        share: Its bandwidth in parts per billion of its parent's; None if `rate` says it.
        rate: Its bandwidth in bit/s.
        curves: Its service curves (HFSC); `share` or `rate` is the second slope of link sharing.
        rank: The order of priorities: 0 is served first.
        borrow: Whether it may borrow from its parent (CBQ).
        limit: The limit of its queue in packets.
        red: Whether its queue has RED.
        ecn: Whether RED marks packets.
        thresholds: Settings of RED that the configuration states, as a scenario does.
        discipline: The discipline of its queue as a scenario states it, beside RED.
        rest: Whether it has what its siblings leave, because it stands for its parent's own
            packets.
        implicit: Whether the platform created it.
    """

    name: str
    statement: Statement
    parent: Node | None = None
    children: list[Node] = field(default_factory=list)
    share: int | None = None
    rate: int | None = None
    curves: Curves = field(default_factory=Curves)
    rank: int = 0
    borrow: bool = True
    limit: int = 50
    red: bool = False
    ecn: bool = False
    thresholds: dict[str, Any] = field(default_factory=dict)
    discipline: dict[str, Any] | None = None
    rest: bool = False
    implicit: bool = False

    @property
    def depth(self) -> int:
        """Return the number of classes above it."""
        number, node = 0, self.parent
        while node is not None:
            number, node = number + 1, node.parent
        return number


Entry = tuple[Conditions, Node]
"""Packets and their class; the first entry that matches decides."""


@dataclass(slots=True)
class Device:
    """An interface with classes.

    Attributes:
        interface: Its name.
        statement: The statement that names its discipline.
        scheduler: The scheduler of the scenario's policy.
        rate: The rate of the interface, or of the token bucket at it, in bit/s.
        burst: The size of that token bucket in bytes, if the configuration sets it.
        portion: The rate of the token bucket in parts per billion of that of the interface, which
            the configuration does not tell; None if `rate` says it.
        top: The classes without a parent.
        entries: The packets of each class, in the order of precedence.
        default: The class of all other packets.
        cbq: Settings of CBQ, as a scenario states them.
    """

    interface: str
    statement: Statement
    scheduler: Literal["altq-cbq", "priority", "wfq", "hfsc"]
    rate: int | None = None
    burst: int | None = None
    portion: int | None = None
    top: list[Node] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    default: Node | None = None
    cbq: dict[str, Any] = field(default_factory=dict)
