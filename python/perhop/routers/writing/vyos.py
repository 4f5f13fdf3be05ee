"""VyOS from 1.4: policies below `qos policy`, as `set` commands.

Strict classes are a `priority-queue`, classes that are only policed a `limiter` of the receiving
end, and others a `shaper`.

A shaper is Linux's HTB: a class has its `bandwidth`, borrows up to its `ceiling`, and takes turns
of `codel-quantum` bytes, which VyOS gives to HTB as its quantum (vyos-1x,
`vyos.qos.trafficshaper`). Shares of the default class refer to the interface there, not to the
shaper, so that perhop writes its rate.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Final

from perhop.routers.writing.draft import Definitions, Names
from perhop.routers.writing.packets import by_version, decisions
from perhop.routers.writing.vyos_limiter import limiter
from perhop.routers.writing.vyos_queues import (
    MOST_QUANTUM,
    check_turns,
    fq_codel,
    is_strict,
    quantum_of,
    queue,
    ranks,
)
from perhop.scenario.model.classes import CEILING_BURST
from perhop.scenario.model.dscp import format_dscp
from perhop.scenario.model.hfsc import HFSC
from perhop.scenario.model.htb import HTB
from perhop.units import WHOLE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from perhop.routers.reading.matching import Conditions, Ports
    from perhop.routers.writing.draft import Draft
    from perhop.routers.writing.plan import Division, End, Part
    from perhop.scenario.model.names import IpVersion

__all__ = ["write"]

_LONGEST_NAME: Final = 31
_FIRST: Final = 10
_STEP: Final = 10
_MOST_CLASSES: Final = 400
_MOST_PORTS: Final = 64
_WORDS: Final[dict[IpVersion, tuple[str, str, str]]] = {
    4: ("ip", "0.0.0.0/0", "icmp"),
    6: ("ipv6", "::/0", "ipv6-icmp"),
}
"""The header of each version of IP in matches, all its addresses, and its ICMP."""


def write(ends: Sequence[End], draft: Draft) -> list[str]:
    """Return the configuration of a router."""
    policies = Definitions(Names(_LONGEST_NAME))
    attached = []
    for end in ends:
        for mark in end.marks[:1]:
            reason = "VyOS marks what arrives by policy routes only, which perhop does not write"
            draft.gap(mark.place, reason)
        strict = end.division is not None and end.shape is None and is_strict(end.division)
        if end.shape is not None:
            reason = "the bandwidth of a shaper of VyOS has no burst of its own"
            draft.near(end.shape.place, reason, "a bandwidth alone")
        if end.division is None:
            continue
        if end.receives:
            kind, body = "limiter", _limiter(end, end.division, draft)
        elif strict:
            kind, body = "priority-queue", _priority_queue(end.division, draft)
            draft.unshaped(end, "a priority-queue has no bandwidth")
        else:
            kind, body = "shaper", _shaper(end.division, draft)
        name = policies.define(end.division.name, [kind, *body])
        way = "ingress" if end.receives else "egress"
        attached.append(f"set qos interface {end.interface} {way} {name}")
    lines = [
        f"set qos policy {kind} {name} {line}"
        for name, (kind, *body) in policies.bodies.items()
        for line in body
    ]
    return [*lines, *attached]


def _shaper(division: Division, draft: Draft) -> Iterator[str]:
    """Yield the settings of a shaper."""
    if division.scheduler == "altq-cbq":
        draft.gap(f"{division.place}.scheduler", "shapers of VyOS are HTB, not ALTQ's CBQ")
    elif division.scheduler == HFSC:
        draft.gap(f"{division.place}.scheduler", "perhop writes shapers of VyOS, not its HFSC")
    elif division.scheduler == HTB:
        draft.gap(f"{division.place}.scheduler", "shapers of VyOS have no quanta")
    if len(division.parts) > _MOST_CLASSES:
        draft.gap(division.place, f"perhop writes up to {_MOST_CLASSES} classes of VyOS")
    yield f"bandwidth {division.capacity}bit"
    found = _decided(division, draft)
    priorities = ranks(division, draft)
    _check_order(division, found, priorities, draft)
    check_turns(division, priorities, draft)
    least = min((part.rate for part in division.parts if part.rate), default=1)
    compared = _compared(division.parts[:-1], found, draft, ahead=not priorities)
    for index, part in enumerate(division.parts):
        last = index == len(division.parts) - 1
        head = "default" if last else f"class {_FIRST + _STEP * index}"
        if not last:
            yield f"{head} description {part.name}"
            yield from _written(f"{head} ", part, compared[index])
        yield from (f"{head} {line}" for line in _class(division, part, least, draft))
        if priorities:
            yield f"{head} priority {priorities[index]}"
        elif last:
            yield f"{head} priority 0"  # VyOS has 7: after all others.


def _priority_queue(division: Division, draft: Draft) -> Iterator[str]:
    """Yield the settings of a priority queue, whose classes are compared in their order."""
    found = _decided(division, draft)
    compared = _compared(division.parts[:-1], found, draft, ahead=False)
    for index, part in enumerate(division.parts):
        last = index == len(division.parts) - 1
        head = "default" if last else f"class {index + 1}"
        if not last:
            yield f"{head} description {part.name}"
            yield from _written(f"{head} ", part, compared[index])
        rate = part.rate or part.capacity
        if part.queue.red is not None:
            reason = "perhop writes `random-detect` in shapers of VyOS only"
            draft.gap(f"{part.place}.queue.red", reason)
        yield from (f"{head} {line}" for line in queue(part, rate, draft))
        if fq_codel(part) is not None:
            yield f"{head} codel-quantum {quantum_of(part, rate, 1)}"


def _limiter(end: End, division: Division, draft: Draft) -> Iterator[str]:
    """Yield the settings of a limiter."""
    found = _decided(division, draft)
    compared = _compared(division.parts[:-1], found, draft, ahead=False)
    matches = [
        list(_written("", part, each))
        for part, each in zip(division.parts[:-1], compared, strict=True)
    ]
    return limiter(end, division, matches, draft)


def _decided(division: Division, draft: Draft) -> list[tuple[int, Conditions]]:
    """Return the packets of each class; the first conditions that apply decide."""
    found = list(decisions([part.rules for part in division.parts]))
    for number, (index, conditions) in enumerate(found):
        for other, later in found[number + 1 :]:
            if other < index and not (conditions & later).is_never:
                place = division.parts[index].place
                draft.gap(f"{place}.match", "VyOS compares all matches of one class together")
    return found


def _check_order(
    division: Division,
    found: Sequence[tuple[int, Conditions]],
    priorities: Sequence[int],
    draft: Draft,
) -> None:
    """Check that priorities, by which VyOS orders the matches of classes, keep their order."""
    for number, (index, conditions) in enumerate(found):
        for other, later in found[number + 1 :] if priorities else ():
            after = other < len(division.parts) - 1 and priorities[index] > priorities[other]
            if after and not conditions.disjoint(later):
                place = division.parts[index].place
                reason = "VyOS compares matches in the order of priorities, too"
                draft.gap(f"{place}.priority", reason)


def _written(head: str, part: Part, matches: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the matches of a class, after `head`."""
    for number, fields in enumerate(matches, 1):
        yield from (f"{head}match {part.name[:20]}-{number} {each}" for each in fields)


def _compared(
    parts: Sequence[Part],
    found: Sequence[tuple[int, Conditions]],
    draft: Draft,
    *,
    ahead: bool,
) -> list[list[list[str]]]:
    """Return the matches of each class as fields.

    VyOS 1.4 compares the first matches of all classes, then the second ones, and so on. Where a
    match would come before one of an earlier class that has packets in common with it, copies of
    the earlier class's matches stand before it: they change nothing, as the earlier class has these
    packets already.

    Args:
        parts: The classes.
        found: The packets of each class; the first conditions that apply decide.
        draft: The gaps.
        ahead: True if VyOS compares by the position of matches, false if by class.
    """
    written: list[list[list[str]]] = []
    last: list[tuple[int, int, Conditions]] = []
    for index, part in enumerate(parts):
        own = [conditions for other, conditions in found if other == index]
        lines: list[list[str]] = []
        spans = []
        for conditions in own:
            first = len(lines) + 1
            lines += _matches(conditions, part, draft)
            spans.append((first, len(lines), conditions))
        copies, source = 0, 0
        for first, _, conditions in spans if ahead else ():
            for number, other, earlier in last:
                if number - first > copies and not conditions.disjoint(earlier):
                    copies, source = number - first, other
        written.append([*(written[source][:copies] if copies else []), *lines])
        last += [(end + copies, index, conditions) for _, end, conditions in spans]
    return written


def _class(division: Division, part: Part, least: int, draft: Draft) -> Iterator[str]:
    """Yield the settings of a class."""
    class_, place = part.class_, part.place
    if part.strict and len(division.parts) > 1:
        draft.gap(place, "shapers of VyOS have no strict priority: guarantees go first")
    if class_.police is not None:
        reason = (
            "VyOS polices only what an interface receives (`limiter`), and perhop writes policies "
        )
        draft.gap(f"{place}.police", f"{reason}of what it sends")
    if part.inside is not None:
        draft.gap(place, "shapers of VyOS divide no class further")
    rate = part.rate or part.capacity
    last = part is division.parts[-1]
    yield f"bandwidth {f'{rate}bit' if last else _bandwidth(part, rate)}"
    ceiling = part.ceiling
    if ceiling is not None and ceiling.burst != CEILING_BURST:
        draft.gap(ceiling.place, "a ceiling of VyOS has no burst; expected `limit`")
    yield f"ceiling {division.capacity if ceiling is None else ceiling.rate}bit"
    quantum = quantum_of(part, rate, least)
    if quantum > MOST_QUANTUM:
        reason = f"a quantum of VyOS is at most {MOST_QUANTUM} B, so that turns in proportion to"
        draft.near(f"{place}.bandwidth", f"{reason} guarantees do not fit", f"{MOST_QUANTUM} B")
    yield f"codel-quantum {min(quantum, MOST_QUANTUM)}"
    if part.mark is not None:
        yield f"set-dscp {part.mark}"
    if part.inside is None:
        yield from queue(part, rate, draft)


def _bandwidth(part: Part, rate: int) -> str:
    """Return a guarantee: whole per cent, or bit/s."""
    bandwidth = part.class_.bandwidth
    if bandwidth is not None and bandwidth.share is not None:
        percent, rest = divmod(bandwidth.share, WHOLE // 100)
        if not rest:
            return f"{percent}%"
    return f"{rate}bit"


def _matches(conditions: Conditions, part: Part, draft: Draft) -> Iterator[list[str]]:
    """Yield the fields of matches that together are conditions; a match has one value of each."""
    place = f"{part.place}.match"
    for version, own in by_version(conditions, draft.versions):
        word, every, icmp = _WORDS[version]
        protocols = None if own.protocols is None else sorted(own.protocols)
        names = protocols and [icmp if each == "icmp" else each for each in protocols]
        points = None if own.dscp is None else [_point(each) for each in sorted(own.dscp)]
        fields = [
            _field("dscp", points),
            _field("protocol", names),
            _field("source address", own.source),
            _field("source port", _ports(own.source_ports, place, draft)),
            _field("destination address", own.destination),
            _field("destination port", _ports(own.destination_ports, place, draft)),
        ]
        for chosen in product(*fields):
            found = [each for each in chosen if each] or [f"source address {every}"]
            yield [f"{word} {each}" for each in found]


def _point(code: int) -> str:
    """Return a code point, by its name where VyOS has one.

    The script of VyOS 1.5 (2024) compares a number with the whole octet of the type of service.
    """
    name = str(format_dscp(code)).upper()
    return name if name.startswith(("AF", "CS", "EF")) and code else str(code)


def _field(name: str, values: Sequence[object] | None) -> list[str]:
    return [""] if values is None else [f"{name} {value}" for value in values]


def _ports(ports: Ports | None, place: str, draft: Draft) -> list[int] | None:
    """Return ports one by one, as matches of VyOS have no ranges."""
    if ports is None:
        return None
    if sum(high - low + 1 for low, high in ports) > _MOST_PORTS:
        reason = f"VyOS has no ranges of ports, and perhop writes up to {_MOST_PORTS} ports"
        draft.gap(place, reason)
        return []
    return [port for low, high in ports for port in range(low, high + 1)]
