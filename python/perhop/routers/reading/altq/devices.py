"""Interfaces with queues of pf.conf."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perhop.routers.reading.altq.nodes import MAX_DEPTH, Device, Node
from perhop.routers.reading.altq.queues import SCHEDULERS, Definition
from perhop.routers.reading.configuration import Fault, too_many_classes
from perhop.routers.reading.curves import Curve, Curves, Slope
from perhop.scenario.model.classes import MAX_CLASSES
from perhop.units import WHOLE, format_rate, quote

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perhop.routers.reading.altq.ledger import Ledger
    from perhop.routers.reading.altq.queues import Bandwidth, ServiceCurve

_MAN: Final = "pf.conf(5)"
_MAX_DEVICES: Final = 64
_FQ_LIMIT: Final = 1024
_NONE: Final = (None, None)
_NO_CURVE: Final[ServiceCurve] = _NONE, 0, _NONE


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
        self.rates: dict[str, int | None] = {}
        """The bandwidths of queues in bit/s, whatever their curves of link sharing are."""
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
        _, burst, (_, most) = root.curves.get("upperlimit", _NO_CURVE)
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
                if burst:
                    note = "of the interface's max, only the rate in the long run is modelled"
                    ledger.approximated(root.statement, note)
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
            own.rate, own.curves = None, Curves()
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
            raise too_many_classes(definition.statement.place, device.interface)
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
                note = "another queue is the default one, too; OpenBSD takes the last one"
                self.ledger.approximated(definition.statement, note)
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
            node.limit = _FQ_LIMIT
            if numbers.get("qlimit", _FQ_LIMIT) != _FQ_LIMIT:
                note = f"`qlimit` has no effect: OpenBSD's flow queues hold {_FQ_LIMIT} packets"
                self.ledger.approximated(statement, note, Fault.WITHOUT_EFFECT)
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
        given, own = definition.bandwidth, definition.curves
        if device.scheduler != "wfq":
            own = {}
        share = own.get("linkshare")
        if given == _NONE:
            given = (WHOLE, None)
            if share is None:
                self.ledger.default(
                    definition.statement.place, "bandwidth", "100% of the parent's", _MAN
                )
        above = device.rate if node.parent is None else self.rates[node.parent.name]
        if self.altq:
            given, own = self._bounded(given, own, above, definition)
            share = own.get("linkshare")
        slope = _slope(given, above)
        self.rates[node.name] = None if slope.share else slope.amount
        if device.scheduler == "wfq":
            node.curves = Curves(
                **{
                    key: Curve(_slope(m2, above), None if m1 == _NONE else _slope(m1, above), d)
                    for key, (m1, d, m2) in own.items()
                }
            )
            node.curves.linkshare = node.curves.linkshare or Curve(slope)
        node.share, node.rate = given if share is None else share[2]
        if node.share is not None and node.parent is not None:
            self._of_bandwidth(node, node.parent, above)

    def _bounded(
        self,
        given: Bandwidth,
        curves: Mapping[str, ServiceCurve],
        above: int | None,
        definition: Definition,
    ) -> tuple[Bandwidth, dict[str, ServiceCurve]]:
        """Return rates of at most that of the queue around (`eval_bwspec` of FreeBSD's pfctl)."""
        larger = False

        def least(bandwidth: Bandwidth) -> Bandwidth:
            nonlocal larger
            share, rate = bandwidth
            if rate is None or above is None or rate <= above:
                return bandwidth
            larger = True
            return share, above

        bounded = (
            least(given),
            {key: (least(m1), d, least(m2)) for key, (m1, d, m2) in curves.items()},
        )
        if larger:
            note = "pfctl cuts rates above that of the queue around them; older ones refuse these"
            self.ledger.approximated(definition.statement, note)
        return bounded

    def _of_bandwidth(self, node: Node, parent: Node, above: int | None) -> None:
        """Write a share as a rate if its parent has another curve of link sharing.

        Shares are of the parent's `bandwidth` (`eval_pfqueue` of pfctl).
        """
        outer = self.by_name[parent.name]
        if outer.curves.get("linkshare", (_NONE, 0, outer.bandwidth))[2] == outer.bandwidth:
            return
        if above is None:
            note = "its share is of the parent's linkshare here, and of its bandwidth in pf"
            self.ledger.approximated(node.statement, note)
        else:
            node.share, node.rate = None, _slope((node.share, None), above).amount


def _slope(bandwidth: Bandwidth, above: int | None) -> Slope:
    """Return a bandwidth of a queue whose parent has `above` bit/s, if that is known."""
    share, rate = bandwidth
    if rate is not None or share is None:
        return Slope(rate or 1)
    return Slope(share, share=True) if above is None else Slope(max(above * share // WHOLE, 1))


def _fq_codel(numbers: Mapping[str, int]) -> dict[str, Any]:
    found: dict[str, Any] = {"flows": min(max(numbers["flows"], 1), 65535)}
    if "quantum" in numbers:
        found["quantum"] = f"{min(max(numbers['quantum'], 64), 65535)} B"
    return found
