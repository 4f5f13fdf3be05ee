"""An interface of altq.conf with what belongs to it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from perhop.routers.reading.altq.admission import Admission
    from perhop.routers.reading.altq.ledger import Statement
    from perhop.routers.reading.altq.nodes import Device, Node
    from perhop.routers.reading.matching import Conditions

OTHERS: Final = {
    "blue": "BLUE",
    "wfq": "a queue for each flow without classes",
    "jobs": "JoBS",
}
"""The disciplines that perhop does not have."""


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter of a class or conditioner.

    Attributes:
        statement: Its command.
        conditions: Its packets.
        target: The name of its class or conditioner.
        number: Its `ruleno`.
        node: Its class.
    """

    statement: Statement
    conditions: Conditions
    target: str
    number: int = 0
    node: Node | None = None


@dataclass(frozen=True, slots=True)
class Conditioner:
    """A conditioner.

    Attributes:
        statement: Its command.
        settings: The keys of the scenario's class that it amounts to.
    """

    statement: Statement
    settings: dict[str, Any]


@dataclass(slots=True)
class Interface:
    """An interface, with the commands that belong to it.

    Attributes:
        device: Its classes.
        discipline: The word for its discipline; "" if it has none.
        nodes: Its classes by name.
        filters: Filters of classes, in the order of the file.
        conditioners: Its traffic conditioners by name.
        conditioned: Filters of conditioners, in the order of the file.
        control: The class of control packets.
        no_control: Whether no class for control packets is created.
        thresholds: Settings of RED for the only queue, as a scenario states them.
        lost: Names of classes and conditioners that are not modelled.
        allocated: What the classes below a class have in bit/s (CBQ), by its identity.
        admitted: What the classes below a class have (HFSC), by its identity; `id(None)` is that of
            the interface.
        bursts: The classes that set a burst or the size of packets, by setting and value.
    """

    device: Device
    discipline: str = ""
    nodes: dict[str, Node] = field(default_factory=dict)
    filters: list[Filter] = field(default_factory=list)
    conditioners: dict[str, Conditioner] = field(default_factory=dict)
    conditioned: list[Filter] = field(default_factory=list)
    control: Node | None = None
    no_control: bool = False
    thresholds: dict[str, Any] = field(default_factory=dict)
    lost: set[str] = field(default_factory=set)
    allocated: dict[int, int] = field(default_factory=dict)
    admitted: dict[int, Admission] = field(default_factory=dict)
    bursts: dict[str, dict[int, list[Statement]]] = field(default_factory=dict)
