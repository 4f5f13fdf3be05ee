"""What altq.conf and pf.conf have in common: an interface with a tree of queues.

CBQ has the scheduler `altq-cbq`, PRIQ has `priority`, and HFSC has `hfsc`, or `wfq` by linear
curves of link sharing. A priority of ALTQ is larger if it is served earlier.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

from perhop.routers.writing import altq_curves
from perhop.routers.writing.draft import Names
from perhop.routers.writing.packets import decisions
from perhop.scenario.model.cbq import ALTQ_CBQ, Cbq
from perhop.scenario.model.classes import CEILING_BURST
from perhop.scenario.model.hfsc import HFSC
from perhop.scenario.model.network import Limit
from perhop.scenario.model.queues import Red
from perhop.units import format_duration

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from perhop.routers.reading.matching import Conditions
    from perhop.routers.writing.draft import Draft
    from perhop.routers.writing.plan import Division, End, Part
    from perhop.scenario.resolve import ServiceCurves

__all__ = ["Device", "Queue", "device", "tos_values"]

Discipline = Literal["cbq", "priq", "hfsc"]

_LONGEST_NAME: Final = 63
_PRIORITIES: Final = 16
_SHARED: Final = ("wfq", HFSC)
_PACKET: Final = 1_500
_RESERVED: Final = (
    *("altq", "any", "bandwidth", "borrow", "cbq", "class", "codel", "control", "default"),
    *("ecn", "exactbandwidth", "fairq", "filter", "hfsc", "in", "interface", "linkshare", "no"),
    *("null", "on", "out", "parent", "pass", "pbandwidth", "port", "priority", "priq", "proto"),
    *("qlimit", "queue", "quick", "realtime", "red", "rio", "root", "root_class", "tbrsize"),
    *("tos", "upperlimit", "ctl_class", "from", "to", "state", "flags", "keep", "match", "block"),
)
"""Words that are no names of queues."""


@dataclass(frozen=True, slots=True)
class Queue:
    """A class of ALTQ.

    Attributes:
        name: Its name.
        parent: The name of the class that it divides; "" at the top.
        part: The class of the scenario.
        rate: Its bandwidth in bit/s.
        curves: Its service curves (HFSC).
        priority: Its priority, larger first; None for the default.
        borrow: Whether it borrows from its parent.
        limit: The limit of its queue in packets; None for a class that is divided.
        flags: ``red`` and ``ecn``, if its queue has them.
        default: Whether it takes the packets of no other class.
    """

    name: str
    parent: str
    part: Part
    rate: int
    curves: ServiceCurves
    priority: int | None
    borrow: bool
    limit: int | None
    flags: tuple[str, ...]
    default: bool


@dataclass(frozen=True, slots=True)
class Device:
    """An interface with queues.

    Attributes:
        interface: Its name.
        rate: Its bandwidth in bit/s.
        burst: The size of its token bucket in bytes; None for the default.
        discipline: Its discipline.
        cbq: Settings of CBQ.
        queues: Its queues, each after the one that it divides.
        entries: The packets of each queue, in order of precedence, without those of the default.
    """

    interface: str
    rate: int
    burst: int | None
    discipline: Discipline
    cbq: Cbq
    queues: tuple[Queue, ...]
    entries: tuple[tuple[Conditions, Queue], ...]


def device(end: End, draft: Draft) -> Device | None:
    """Return the queues of an interface; None if it has none.

    Args:
        end: The end of a link.
        draft: Where gaps and approximations are added.
    """
    rate, burst = end.link.capacity(end.node), None
    if end.shape is not None:
        burst = end.shape.burst
        if not burst:
            reason = "the token bucket of ALTQ holds a packet at least"
            draft.near(end.shape.place, reason, f"a burst of {_PACKET} B")
            burst = _PACKET
    division = end.division
    if division is None:
        if end.shape is not None:
            draft.gap(end.shape.place, "ALTQ has a token bucket only where it has queues")
        return None
    discipline = _discipline(division, draft)
    cbq = division.cbq or Cbq()
    if discipline == "cbq":
        rate = division.capacity
        if end.shape is not None:
            draft.gap(end.shape.place, "ALTQ has one token bucket, which is that of the policy")
        _settings(cbq, division, draft)
    names = Names.besides(_RESERVED, _LONGEST_NAME)
    queues = tuple(_queues(division, discipline, names, "", draft, rate, default=True))
    if discipline == "hfsc" and not any(queue.part.strict for queue in queues):
        queues = _admitted(queues, division, rate, draft)
    by_part = {id(queue.part): queue for queue in queues}
    entries = tuple(
        (conditions, by_part[id(part)])
        for conditions, part in _entries(division)
        if not (by_part[id(part)].default and conditions.is_any)
    )
    return Device(end.interface, rate, burst, discipline, cbq, queues, entries)


def _discipline(division: Division, draft: Draft) -> Discipline:
    """Return the discipline that has the scheduler of a policy."""
    if division.scheduler == ALTQ_CBQ:
        return "cbq"
    if all(part.strict for part in division.parts[:-1]) and len(division.parts) > 1:
        if len(division.parts) > _PRIORITIES:
            draft.gap(division.place, f"PRIQ has {_PRIORITIES} priorities")
        return "priq"
    if division.scheduler not in _SHARED:
        reason = "ALTQ has CBQ, priorities and HFSC; expected altq-cbq, priority, hfsc or wfq"
        draft.gap(f"{division.place}.scheduler", reason)
    return "hfsc"


def _admitted(
    queues: Sequence[Queue], division: Division, rate: int, draft: Draft
) -> tuple[Queue, ...]:
    """Return queues of HFSC, with guarantees of each class that cover those inside it.

    Args:
        queues: The queues, each after the one that it divides.
        division: The policy of the interface.
        rate: The bandwidth of the interface in bit/s.
        draft: Where curves are added that ALTQ does not admit.
    """
    inside: dict[str, list[ServiceCurves]] = {}
    found = []
    for queue in reversed(queues):
        curves = queue.curves
        if queue.name in inside:
            place = f"{queue.part.place}.classes"
            curves = altq_curves.around(curves, inside[queue.name], place, draft)
        inside.setdefault(queue.parent, []).append(curves)
        found.append(replace(queue, curves=curves))
    whole = altq_curves.interface(rate)
    altq_curves.around(whole, inside[""], f"{division.place}.classes", draft)
    return tuple(reversed(found))


def _settings(cbq: Cbq, division: Division, draft: Draft) -> None:
    """Add the settings of CBQ that no configuration states."""
    usual = Cbq()
    if cbq.tick != usual.tick:
        reason = "the time between ticks of the clock is the kernel's"
        draft.near(f"{division.place}.cbq.tick", reason, f"nothing for {format_duration(cbq.tick)}")
    if cbq.kick != usual.kick:
        draft.near(f"{division.place}.cbq.kick", "the driver decides", "nothing")


def _queues(
    division: Division,
    discipline: Discipline,
    names: Names,
    parent: str,
    draft: Draft,
    rate: int,
    *,
    default: bool,
) -> Iterator[Queue]:
    """Yield the queues of a policy at an interface of `rate` bit/s, and those inside them."""
    ranked = any(part.class_.borrows_late for _, part in division.walk())
    for number, part in enumerate(division.parts):
        last = default and part is division.parts[-1]
        class_ = part.class_
        if class_.police is not None:
            reason = "ALTQ polices only what an interface receives, by conditioners"
            draft.gap(f"{part.place}.police", reason)
        if part.mark is not None:
            reason = "ALTQ marks only what an interface receives, by conditioners"
            draft.gap(f"{part.place}.mark", reason)
        priority = None
        if discipline == "priq":
            priority = max(len(division.parts) - 1 - number, 0)
            if part.ceiling is not None:
                draft.gap(part.ceiling.place, "PRIQ has no ceilings")
            if part.inside is not None:
                draft.gap(part.place, "PRIQ divides no class further")
        elif discipline == "cbq":
            if ranked and part.inside is None:
                priority = 7 - int(class_.priority or 0)
        else:
            _hfsc(division, part, draft, inner=bool(parent))
        queue = Queue(
            name=names.unique(part.name),
            parent=parent,
            part=part,
            rate=part.rate or part.capacity,
            curves=altq_curves.of(part, rate, draft),
            priority=priority,
            borrow=class_.borrow,
            limit=None if part.inside is not None else _limit(part, draft),
            flags=() if part.inside is not None else _flags(part, draft),
            default=last and part.inside is None,
        )
        yield queue
        if part.inside is not None:
            inside, name = part.inside, queue.name
            yield from _queues(inside, discipline, names, name, draft, rate, default=last)


def _hfsc(division: Division, part: Part, draft: Draft, *, inner: bool) -> None:
    """Add what a class of HFSC does not have."""
    if part.strict:
        draft.gap(part.place, "HFSC has no strict priority")
    if part.ceiling is not None and part.ceiling.burst != CEILING_BURST:
        draft.gap(part.ceiling.place, "the upper limit of HFSC has no burst; expected `limit`")
    if inner and division.scheduler not in _SHARED:
        draft.gap(f"{division.place}.scheduler", "HFSC has one scheduler at an interface")


def _limit(part: Part, draft: Draft) -> int:
    """Return the limit of a queue in packets."""
    place = f"{part.place}.queue"
    if part.queue.drop == "head":
        draft.gap(f"{place}.drop", "queues of ALTQ drop at the tail")
    limit = part.queue.effective_limit(in_class=part.in_class)
    if limit.unit == "packets":
        return limit.amount
    packets = max(limit.size(part.rate or part.capacity) // _PACKET, 1)
    draft.near(
        f"{place}.limit", "queues of ALTQ have limits in packets", f"{packets} packets of 1500 B"
    )
    return packets


def _flags(part: Part, draft: Draft) -> tuple[str, ...]:
    """Return the flags of a queue with RED, whose thresholds ALTQ takes from the limit."""
    place = f"{part.place}.queue"
    limit = part.queue.effective_limit(in_class=part.in_class).amount
    for key, found in part.queue.disciplines.items():
        if not isinstance(found, Red):
            draft.gap(f"{place}.{key}", f"perhop writes RED of ALTQ, not {key}")
            return ()
        low = max(limit // 10, 1)
        usual = Red.model_construct(
            min=Limit(low, "packets"),
            max=Limit(max(limit * 3 // 10, low + 1), "packets"),
            probability=10**8,
            weight=10**9 // 512,
            gentle=False,
        )
        same = ("min", "max", "probability", "weight", "gentle", "packet")
        for name in same:
            own = found.effective_max if name == "max" else getattr(found, name)
            if own != getattr(usual, name):
                draft.gap(
                    f"{place}.red.{name}",
                    "RED of ALTQ begins at 10% of the limit and ends at 30%, with probability 10%, "
                    "weight 1/512 and without `gentle`",
                )
        return ("red", "ecn") if found.ecn else ("red",)
    return ()


def _entries(division: Division) -> Iterator[tuple[Conditions, Part]]:
    """Yield the packets of each class with a queue; the first conditions that apply decide."""
    for index, conditions in decisions([part.rules for part in division.parts]):
        part = division.parts[index]
        if part.inside is None:
            yield conditions, part
            continue
        for inner, leaf in _entries(part.inside):
            both = conditions & inner
            if not both.is_never:
                yield both, leaf


def tos_values(conditions: Conditions, place: str, draft: Draft) -> list[int | None]:
    """Return the code points of conditions, which ALTQ compares one by one; [None] for all."""
    if conditions.dscp is None:
        return [None]
    if 0 in conditions.dscp:
        reason = "the type of service 0 stands for every one, so that ALTQ cannot match `be`"
        draft.gap(f"{place}.match", reason)
    return [*sorted(conditions.dscp)]
