"""Interfaces with queues of pf.conf."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perhop.routers.reading.altq.nodes import MAX_CLASSES, MAX_DEPTH, Device, Node
from perhop.routers.reading.altq.queues import SCHEDULERS, Definition
from perhop.routers.reading.configuration import Fault
from perhop.units import WHOLE, format_rate, quote

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perhop.routers.reading.altq.ledger import Ledger

_MAN: Final = "pf.conf(5)"
_MAX_DEVICES: Final = 64
_FQ_LIMIT: Final = 1024


def build(
    ledger: Ledger,
    roots: Sequence[Definition],
    definitions: Sequence[Definition],
    rates: Mapping[str, int],
) -> tuple[list[Device], set[str]]:
    """Return the interfaces with their classes, and the names of queues that are not modelled.

    Args:
        ledger: The account of lines that this changes.
        roots: The statements `altq on`.
        definitions: The statements `queue`.
        rates: Bandwidths of interfaces in bit/s, in place of theirs.
    """
    found: list[Device] = []
    used: set[int] = set()
    lost: set[str] = set()
    altq = bool(roots)
    tops = roots if altq else [each for each in definitions if each.interfaces and not each.parent]
    for definition in tops:
        if not definition.interfaces:
            ledger.ignored(definition.statement, "names no interface")
        for interface in definition.interfaces:
            if len(found) >= _MAX_DEVICES or interface in [each.interface for each in found]:
                ledger.ignored(
                    definition.statement,
                    f"interface {quote(interface)} has queues already, or there are too many",
                )
                continue
            builder = _Builder(ledger, definition, definitions, interface, used, altq=altq)
            device = builder.build(rates.get(interface))
            used.add(id(definition))
            if device is not None:
                found.append(device)
            else:
                lost |= builder.leave()
    for definition in definitions:
        if id(definition) not in used:
            ledger.ignored(definition.statement, "no interface has the queue")
    return found, lost


class _Builder:
    """Builds the classes of an interface."""

    def __init__(
        self,
        ledger: Ledger,
        root: Definition,
        definitions: Sequence[Definition],
        interface: str,
        used: set[int],
        *,
        altq: bool,
    ) -> None:
        self.ledger = ledger
        self.root = root
        self.interface = interface
        self.used = used
        self.altq = altq
        self.nodes: dict[str, Node] = {}
        self.by_name: dict[str, Definition] = {}
        self.below: dict[str, list[str]] = {}
        for each in definitions:
            if not each.interfaces or interface in each.interfaces:
                self.by_name.setdefault(each.name, each)
                if each.parent:
                    self.below.setdefault(each.parent, []).append(each.name)

    def build(self, given: int | None) -> Device | None:
        """Return the interface; None if perhop does not have its discipline.

        Args:
            given: Its bandwidth in bit/s in place of that in the file, unless that is a share.
        """
        root, ledger = self.root, self.ledger
        share, rate = root.bandwidth
        most = root.curves.get("ul", (None, None))[1]
        if given is not None and share is None:
            if rate is not None or most is not None:
                note = "another rate is given in place of its bandwidth"
                ledger.approximated(root.statement, note)
            rate = most = given
        place = root.statement.place
        if self.altq:
            if root.discipline not in SCHEDULERS:
                ledger.ignored(
                    root.statement,
                    f"perhop does not have {root.discipline}" if root.discipline
                    else "names no discipline",
                )  # fmt: skip
                return None
            device = Device(self.interface, root.statement, "wfq", rate, portion=share)
            device.scheduler = SCHEDULERS[root.discipline]  # type: ignore[assignment]
            device.burst = root.numbers.get("tbrsize")
            if rate is None and share is None:
                ledger.default(place, "bandwidth", "the rate of the interface", _MAN)
            if device.scheduler == "altq-cbq" and rate is not None:
                device.cbq["rate"] = format_rate(rate)
            if device.burst is not None and device.scheduler == "altq-cbq":
                ledger.approximated(
                    root.statement, "perhop sets the size of the token bucket from the rate"
                )
            if root.discipline in ("codel", "codelq"):
                limit = root.numbers.get("qlimit", 50)
                only = Node("codel", root.statement, share=WHOLE, limit=limit)
                only.discipline = root.codel
                device.top, device.default = [only], only
                return device
            children = root.children
        else:
            device = Device(self.interface, root.statement, "wfq", rate, portion=share)
            if most is not None:
                device.rate = most
            elif rate is not None:
                ledger.approximated(
                    root.statement,
                    "without max the interface may exceed it; perhop takes it as the limit",
                )
            children = self.below.get(root.name, [])
        todo: list[tuple[str, Node | None]] = [(name, None) for name in reversed(children)]
        while todo:
            name, parent = todo.pop()
            built = self._node(name, parent, device)
            if built is not None:
                inside = self.by_name[name].children if self.altq else self.below.get(name, [])
                todo += [(each, built) for each in reversed(inside)]
        if not self.altq and (not children or "default" in root.flags):
            own = self._settings(Node(root.name, root.statement), root, device)
            own.rate, own.ceiling = None, None
            own.share, own.rest = (None, True) if children else (WHOLE, False)
            device.top.append(own)
            device.default = device.default or own
            self.nodes[root.name] = own
        device.entries = []
        return device

    def leave(self) -> set[str]:
        """Enter the queues of an interface as not modelled; return their names."""
        found: set[str] = set()
        todo = list(self.root.children)
        while todo:
            name = todo.pop()
            definition = self.by_name.get(name)
            if name in found or definition is None:
                continue
            found.add(name)
            todo += definition.children
            self.used.add(id(definition))
            note = "perhop does not have the discipline of its interface"
            self.ledger.ignored(definition.statement, note)
        return found

    def _node(self, name: str, parent: Node | None, device: Device) -> Node | None:
        definition = self.by_name.get(name)
        above = parent.statement if parent is not None else device.statement
        note = ""
        if definition is None:
            note = f"queue {quote(name)} is not defined"
        elif name in self.nodes:
            note = f"queue {quote(name)} is named twice"
        elif len(self.nodes) >= MAX_CLASSES - 1:
            note = f"perhop reads {MAX_CLASSES:,} classes of an interface"
        elif parent is not None and parent.depth + 2 >= MAX_DEPTH:
            note = f"perhop reads {MAX_DEPTH} levels of classes"
        if note or definition is None:
            fault = Fault.UNDEFINED if definition is None else None
            self.ledger.approximated(above, note, fault)
            return None
        self.used.add(id(definition))
        node = self._settings(Node(name, definition.statement, parent), definition, device)
        self.nodes[name] = node
        (device.top if parent is None else parent.children).append(node)
        if "default" in definition.flags:
            if device.default is not None:
                self.ledger.approximated(definition.statement, "another queue is the default one")
            else:
                device.default = node
        return node

    def _settings(self, node: Node, definition: Definition, device: Device) -> Node:
        """Set the bandwidth, priority and queue of a class."""
        statement, flags, numbers = definition.statement, definition.flags, definition.numbers
        scheduler = device.scheduler
        discipline = self.root.discipline if self.altq else ""
        if definition.discipline and self.altq and definition.discipline != discipline:
            self.ledger.approximated(
                statement, f"the discipline of the interface is {discipline}, which counts"
            )
        rank = numbers.get("priority", 1)
        if self.altq and scheduler != "wfq":
            if "priority" not in numbers:
                self.ledger.default(statement.place, "priority", "1", _MAN)
            most = 7 if scheduler == "altq-cbq" else 15
            if rank > most:
                self.ledger.approximated(statement, f"the highest priority is {most}")
            node.rank = most - min(rank, most)
        if "priority" in numbers and scheduler == "wfq":
            self.ledger.approximated(
                statement, "HFSC serves by service curves: `priority` has no effect"
            )
        node.borrow = "borrow" in flags or scheduler != "altq-cbq"
        if not self.altq and "flows" in numbers:
            node.limit = numbers.get("qlimit", _FQ_LIMIT)
            node.discipline = {"fq-codel": _fq_codel(numbers)}
        else:
            node.limit = numbers.get("qlimit", 50)
        if "qlimit" not in numbers:
            self.ledger.default(statement.place, "qlimit", f"{node.limit} packets", _MAN)
        node.red, node.ecn = bool(flags & {"red", "rio", "ecn"}), "ecn" in flags
        if node.red:
            self.ledger.default(
                statement.place,
                "RED thresholds",
                "10% and 30% of qlimit, probability 1/10",
                "altq_red.h",
            )
        if "rio" in flags:
            self.ledger.approximated(statement, "RIO is RED for all drop precedences")
        if "codel" in flags:
            node.discipline = definition.codel
        if scheduler != "priority":
            self._bandwidth(node, definition, device)
        return node

    def _bandwidth(self, node: Node, definition: Definition, device: Device) -> None:
        statement = definition.statement
        given = definition.bandwidth
        if scheduler_is_hfsc(device):
            given = definition.curves.get("ls", given)
            guaranteed = definition.curves.get("rt", (None, None))
            if given == (None, None):
                given = guaranteed
            elif _more(guaranteed, given, device.rate):
                given = guaranteed
                self.ledger.approximated(
                    statement, "the guarantee in real time is the bandwidth in link sharing"
                )
            share, rate = definition.curves.get("ul", (None, None))
            if share is not None and device.rate is not None:
                rate = device.rate * share // WHOLE
            node.ceiling = rate
        if given == (None, None):
            given, node.defaulted = (WHOLE, None), True
            self.ledger.default(statement.place, "bandwidth", "100% of the parent's", _MAN)
        node.share, node.rate = given


def scheduler_is_hfsc(device: Device) -> bool:
    """Return whether the bandwidths of an interface are service curves."""
    return device.scheduler == "wfq"


def _more(one: tuple[int | None, int | None], other: tuple[int | None, int | None],
          rate: int | None) -> bool:  # fmt: skip
    """Return whether one bandwidth is known to be more than another, both of `rate` bit/s."""

    def value(bandwidth: tuple[int | None, int | None]) -> int | None:
        if bandwidth[1] is not None:
            return bandwidth[1] * WHOLE
        return None if bandwidth[0] is None or rate is None else bandwidth[0] * rate

    known = value(one), value(other)
    return known[0] is not None and known[1] is not None and known[0] > known[1]


def _fq_codel(numbers: Mapping[str, int]) -> dict[str, Any]:
    found: dict[str, Any] = {"flows": min(max(numbers["flows"], 1), 65535)}
    if "quantum" in numbers:
        found["quantum"] = f"{min(max(numbers['quantum'], 64), 65535)} B"
    return found
