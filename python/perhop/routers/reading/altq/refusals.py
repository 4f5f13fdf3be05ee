"""Statements about queues that pfctl refuses: it loads nothing of the file then.

Sources: the grammars of pfctl (parse.y) of FreeBSD and OpenBSD, whose words the reasons have;
`eval_pfqueue` and `check_commit_altq` of FreeBSD's pfctl_altq.c; `pfctl_find_childqs`,
`pfctl_load_queues` and `pfctl_check_qassignments` of OpenBSD's pfctl.c.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from perhop.routers.reading.altq.admission import Curve, are_under
from perhop.units import WHOLE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from perhop.routers.reading.altq.ledger import Ledger
    from perhop.routers.reading.altq.queues import Bandwidth, Definition, ServiceCurve
    from perhop.routers.reading.altq.rules import Rule

__all__ = ["altq", "openbsd", "rules"]

_RESERVED: Final = 80
"""Percent of an interface that guarantees in real time may take."""

_NOMINAL: Final = 10**12
"""The bandwidth in bit/s of an interface that the file does not tell, where shares alone count."""

_NONE: Final = (None, None)


class _RefusedError(Exception):
    """A statement that pfctl refuses; the message is its reason."""


@dataclass(slots=True)
class _Queue:
    """A queue at an interface, as pfctl has it."""

    bandwidth: int
    share: Curve
    """Its curve of link sharing."""
    default: bool = False
    shares: list[Curve] = field(default_factory=list)
    """The curves of link sharing of the queues below it."""
    guarantees: list[Curve] = field(default_factory=list)
    """The curves in real time of the queues below it."""


@dataclass(slots=True)
class _Interface:
    """An interface with queues, as pfctl has it."""

    root: Definition
    rate: int | None
    parents: dict[str, list[str]] = field(default_factory=dict)
    """The parents of the queues that a list above names; "" is the interface."""
    queues: dict[str, _Queue] = field(default_factory=dict)
    priorities: set[int] = field(default_factory=set)
    defaults: int = 0


def altq(
    ledger: Ledger,
    definitions: Sequence[Definition],
    rates: Mapping[str, int],
    *,
    complete: bool,
) -> None:
    """Enter the statements `altq on` and `queue` that pfctl of FreeBSD refuses.

    Args:
        ledger: The account of lines that this changes.
        definitions: The statements in the order of the files.
        rates: Bandwidths of interfaces in bit/s, in place of theirs.
        complete: False if statements may be in files that are not read.
    """
    interfaces: dict[str, _Interface] = {}
    below_refused: set[str] = set()
    for definition in definitions:
        try:
            if not definition.name:
                _root(definition, interfaces, rates)
            elif not _queue(definition, interfaces):
                if definition.name not in below_refused and complete:
                    raise _RefusedError(f"queue {definition.name} has no parent")
                below_refused.update(definition.children)
        except _RefusedError as error:
            ledger.refused(definition.statement, str(error))
            below_refused.update(definition.children)
    # It checks interfaces only after a file without errors.
    for name, interface in interfaces.items() if ledger.refusal is None else ():
        wrong = interface.defaults > 1 or (complete and not interface.defaults)
        if wrong and interface.root.discipline in ("cbq", "priq", "hfsc", "fairq"):
            reason = f"should have one default queue on {name}"
            ledger.refused(interface.root.statement, reason)


def _root(
    definition: Definition, interfaces: dict[str, _Interface], rates: Mapping[str, int]
) -> None:
    """Add an interface (`expand_altq`)."""
    if not definition.discipline:
        raise _RefusedError("no scheduler specified!")
    if not definition.children and definition.discipline not in ("codel", "codelq"):
        raise _RefusedError("no child queues specified")
    share, rate = definition.bandwidth
    for name in definition.interfaces:
        if name.startswith("!"):
            raise _RefusedError("altq on ! <interface> is not supported")
        if name in interfaces and definition.discipline in ("cbq", "hfsc", "fairq"):
            raise _RefusedError(f"queue root_{name} already exists on interface {name}")
        given = rates.get(name, rate) if share is None else None
        interface = interfaces.setdefault(name, _Interface(definition, given))
        whole = given or _NOMINAL
        interface.queues.setdefault("", _Queue(whole, (whole, 0, whole)))
        for child in definition.children:
            interface.parents.setdefault(child, []).append("")


def _queue(definition: Definition, interfaces: Mapping[str, _Interface]) -> bool:
    """Add a queue to the interfaces that have it (`expand_queue`); return whether any has."""
    name = definition.name
    found = any(each.startswith("!") for each in definition.interfaces)
    if "tbrsize" in definition.numbers:
        raise _RefusedError("cannot specify tbrsize for queue")
    for on, interface in interfaces.items():
        if definition.interfaces and on not in definition.interfaces:
            continue
        for parent in interface.parents.get(name, ()):
            found = True
            _added(definition, on, interface, interface.queues.get(parent))
        if name in interface.parents:
            if name in definition.children:
                raise _RefusedError("queue cannot have itself as child")
            for child in definition.children:
                interface.parents.setdefault(child, []).append(name)
    return found


def _added(definition: Definition, on: str, interface: _Interface, parent: _Queue | None) -> None:
    """Add a queue to an interface (`eval_pfqueue`)."""
    name, discipline = definition.name, interface.root.discipline
    rank = definition.numbers.get("priority", 1)
    default = "default" in definition.flags
    if definition.discipline and definition.discipline != discipline:
        raise _RefusedError("exactly one scheduler type per interface allowed")
    if discipline == "priq":
        if definition.children:
            raise _RefusedError("priq queues cannot have child queues")
        if definition.bandwidth not in (_NONE, (WHOLE, None)):
            raise _RefusedError("priq doesn't take bandwidth")
    if name in interface.queues:
        raise _RefusedError(f"queue {name} already exists on interface {on}")
    if parent is None:
        return  # the statement of its parent is refused
    most = {"cbq": 7, "priq": 15}.get(discipline, 255)
    if rank > most:
        raise _RefusedError(f"priority out of range: max {most}")
    if discipline == "priq":
        if rank in interface.priorities:
            raise _RefusedError(f"{name} does not have a unique priority on interface {on}")
        interface.priorities.add(rank)
    above = parent.bandwidth
    given = (WHOLE, None) if definition.bandwidth == _NONE else definition.bandwidth
    own = _amount(given, above)
    share = _curve(definition.curves.get("linkshare"), above) or (0, 0, own)
    interface.queues[name] = queue = _Queue(own, share, default)
    interface.defaults += default
    if discipline == "hfsc":
        if parent.default:
            reason = f"adding {name} would make default queue {interface.parents[name][0]}"
            raise _RefusedError(f"{reason} not a leaf")
        if interface.rate is not None or _of_shares(definition):
            _curves(definition, queue, parent, interface.queues[""].bandwidth)


def _of_shares(definition: Definition) -> bool:
    """Return whether a queue has no rate in bit/s."""
    slopes = [definition.bandwidth]
    for m1, _, m2 in definition.curves.values():
        slopes += [m1, m2]
    return all(rate is None for _, rate in slopes)


def _curves(definition: Definition, queue: _Queue, parent: _Queue, whole: int) -> None:
    """Admit the curves of a queue (`eval_pfqueue_hfsc`)."""
    name = definition.name
    guarantee, share, limit = (
        _curve(definition.curves.get(key), parent.bandwidth)
        for key in ("realtime", "linkshare", "upperlimit")
    )
    for curve in (guarantee, share, limit):
        if curve is not None and 0 < curve[0] < curve[2]:
            raise _RefusedError(f"m1 must be zero for convex curve: {name}")
    if guarantee is not None:
        parent.guarantees.append(guarantee)
        most = whole // 100 * _RESERVED
        if not are_under(parent.guarantees, (0, 0, most)):
            raise _RefusedError(f"real-time sc exceeds {_RESERVED}% of the interface bandwidth")
    parent.shares.append(queue.share)
    if not are_under(parent.shares, parent.share):
        raise _RefusedError("linkshare sc exceeds parent's sc")
    if guarantee is not None and limit is not None and guarantee[2] > limit[2]:
        raise _RefusedError("upper-limit sc smaller than real-time sc")


def _amount(given: Bandwidth, above: int) -> int:
    """Return a bandwidth in bit/s, at most that of the queue around it (`eval_bwspec`)."""
    share, rate = given
    return min(rate or 0, above) if share is None else above * share // WHOLE


def _curve(curve: ServiceCurve | None, above: int) -> Curve | None:
    if curve is None:
        return None
    first, time, last = curve
    return 0 if first == _NONE else _amount(first, above), time, _amount(last, above)


def openbsd(ledger: Ledger, definitions: Sequence[Definition], *, complete: bool) -> None:
    """Enter the statements `queue` that pfctl of OpenBSD refuses.

    Args:
        ledger: The account of lines that this changes.
        definitions: The statements in the order of the files.
        complete: False if statements may be in files that are not read.
    """
    roots: dict[str, Definition] = {}
    for definition in definitions:
        if not (definition.parent or definition.interfaces):
            ledger.refused(definition.statement, "root queue without interface")
        elif definition.bandwidth == _NONE and "flows" not in definition.numbers:
            ledger.refused(definition.statement, "no bandwidth or flow specification")
        for name in () if definition.parent else definition.interfaces:
            if name in roots:
                reason = f"A root queue is already defined on {name}"
                ledger.refused(definition.statement, reason)
            roots.setdefault(name, definition)
    if ledger.refusal is not None:
        return
    below: dict[str, list[Definition]] = {}
    for definition in definitions:
        below.setdefault(definition.parent, []).append(definition)
    reached = {id(root) for root in roots.values()}
    for name, root in roots.items():
        inside = list(_tree(ledger, name, root, below))
        reached |= {id(each) for each in inside}
        default = any("default" in each.flags for each in inside)
        if complete and root.bandwidth != _NONE and not default:
            ledger.refused(root.statement, "no default queue specified")
    for definition in definitions:
        name = definition.name
        if complete and definition.parent and id(definition) not in reached:
            reason = f"queue {name}: parent {definition.parent} not found"
            ledger.refused(definition.statement, reason)
        elif definition.parent and definition.bandwidth == _NONE:
            ledger.refused(definition.statement, f"queue {name}: no bandwidth was specified")


def _tree(
    ledger: Ledger, on: str, root: Definition, below: Mapping[str, Sequence[Definition]]
) -> Iterator[Definition]:
    """Yield the queues of an interface (`pfctl_find_childqs`)."""
    found: dict[str, Definition] = {}
    todo = [root]
    while todo:
        definition = todo.pop()
        if definition.name in found:
            reason = f"queue {definition.name} respecified"
            ledger.refused(definition.statement, reason)
            continue
        found[definition.name] = definition
        yield definition
        children = [
            each
            for each in below.get(definition.name, ())
            if not each.interfaces or on in each.interfaces
        ]
        todo += reversed(children)
        for flag, word in (("default", "default"), ("flows", "flow")):
            if children and (flag in definition.flags or flag in definition.numbers):
                reason = f"{word} queue {definition.name} is not a leaf queue"
                ledger.refused(definition.statement, reason)


def rules(ledger: Ledger, assigning: Sequence[Rule], definitions: Sequence[Definition]) -> None:
    """Enter the rules that OpenBSD refuses because of their queues.

    Args:
        ledger: The account of lines that this changes.
        assigning: The rules.
        definitions: All statements `queue`.
    """
    names = {definition.name for definition in definitions}
    divided = {definition.parent for definition in definitions}
    for rule in assigning:
        for name in {rule.queue, rule.urgent} - {""}:
            if name not in names:
                reason = f"DIOCADDRULE: Device busy, as no queue is {name}"
                ledger.refused(rule.statement, reason)
            elif name in divided:
                reason = f"queue {name}: packets must be assigned to leaf queues only"
                ledger.refused(rule.statement, reason)
