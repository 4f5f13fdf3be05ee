"""altq.conf: the configuration of ALTQ before pf (altq.conf(5) of KAME and NetBSD)."""

from __future__ import annotations

from collections import defaultdict
from itertools import product
from typing import TYPE_CHECKING, Final

from perhop.routers.writing import altq_curves
from perhop.routers.writing.altq_queues import device, tos_values
from perhop.routers.writing.packets import by_version, decisions
from perhop.scenario.resolve import are_below

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from perhop.routers.reading.matching import Conditions, Network, Ports
    from perhop.routers.writing.altq_queues import Device, Queue
    from perhop.routers.writing.draft import Draft
    from perhop.routers.writing.plan import End
    from perhop.scenario.model.names import IpVersion
    from perhop.scenario.resolve import ServiceCurves

__all__ = ["write"]

_ROOT: Final = "root_class"
_CBQ_LIMIT: Final = 30
_CBQ_RED_LIMIT: Final = 60
_LEAST_LIMIT: Final = 4
_MTU: Final = 1500
_MOST_PORTS: Final = 256
_PROTOCOLS: Final = {
    4: {"tcp": 6, "udp": 17, "icmp": 1},
    6: {"tcp": 6, "udp": 17, "icmp": 58},
}


def write(ends: Sequence[End], draft: Draft) -> list[str]:
    """Return the configuration of a router."""
    lines: list[str] = []
    for end in ends:
        found = device(end, draft)
        if found is not None:
            lines += _interface(found, draft)
        elif end.marks:
            lines.append(f"interface {end.interface} bandwidth {end.link.medium(end.node).rate}")
        taken = [] if found is None else [queue.name for queue in found.queues]
        lines += _conditioners(end, taken, draft)
    return lines


def _conditioners(end: End, taken: Collection[str], draft: Draft) -> Iterator[str]:
    """Yield the conditioners that mark what an interface receives, and their filters."""
    decided = decisions([mark.rules for mark in end.marks]) if end.marks else []
    names = {mark.dscp: f"mark_{mark.dscp}" for mark in end.marks}
    unmarked = "unmarked"
    while {unmarked, *names.values()} & set(taken):
        names = {dscp: f"{name}_" for dscp, name in names.items()}
        unmarked += "_"
    for dscp, name in names.items():
        yield f"conditioner {end.interface} {name} <mark {dscp << 2:#04x}>"
    if any(index == len(end.marks) for index, _ in decided):
        yield f"conditioner {end.interface} {unmarked} <pass>"
    entries = []
    for index, conditions in decided:
        mark = end.marks[index] if index < len(end.marks) else None
        place = (end.marks[0] if mark is None else mark).place
        entries.append((conditions, unmarked if mark is None else names[mark.dscp], place))
    yield from _filters(end.interface, entries, draft)


def _interface(found: Device, draft: Draft) -> Iterator[str]:
    """Yield the commands of an interface."""
    name, cbq = found.interface, found.cbq
    tbr = "" if found.burst is None else f" tbrsize {found.burst}"
    options = ""
    if found.discipline == "cbq":
        # Without its own class for control packets, which scenarios state as any other.
        options = " no-control" + ("" if cbq.token_bucket else " no-tbr")
        options += " efficient" if cbq.efficient else ""
    yield f"interface {name} bandwidth {found.rate}{tbr} {found.discipline}{options}"
    if found.discipline == "cbq":
        yield f"class cbq {name} {_ROOT} NULL pbandwidth 100"
    elif found.discipline == "hfsc":
        _admission(found, draft)
    if found.discipline == "cbq":
        _allocated(found, draft)
    for queue in found.queues:
        yield f"class {found.discipline} {name} {queue.name} {_class(found, queue, draft)}"
    entries = [(conditions, queue.name, queue.part.place) for conditions, queue in found.entries]
    yield from _filters(name, entries, draft)


def _allocated(found: Device, draft: Draft) -> None:
    """Add classes of CBQ for which the others leave too little (`qop_cbq_add_class`)."""
    left = {"": found.rate} | {queue.name: queue.rate for queue in found.queues}
    for queue in found.queues:
        left[queue.parent] -= queue.rate
        if left[queue.parent] < 0:
            reason = "altqd refuses classes with more than that around them in sum"
            draft.gap(f"{queue.part.place}.bandwidth", reason)


def _admission(found: Device, draft: Draft) -> None:
    """Add curves that altqd does not admit in the order of the classes (`qop_hfsc.c`).

    It creates a class with one of its curves for both real time and link sharing, and changes the
    other one then.
    """
    outer = {"": altq_curves.interface(found.rate)}
    outer |= {queue.name: queue.curves for queue in found.queues}
    before: dict[str, list[ServiceCurves]] = defaultdict(list)
    for queue in found.queues:
        own, above, place = queue.curves, outer[queue.parent], queue.part.place
        siblings = before[queue.parent]
        if own.realtime is not None and above.realtime is not None:
            first = min(own.realtime, own.linkshare, key=lambda curve: curve.m2)
            shares = [each.linkshare for each in siblings]
            guarantees = [each.realtime for each in siblings if each.realtime is not None]
            if not are_below([*shares, first], above.linkshare) or not are_below(
                [*guarantees, first], above.realtime
            ):
                reason = "altqd creates the class with one curve for both, which it refuses here"
                draft.gap(place, f"{reason}; expected an earlier place in the policy")
            if own.upperlimit is not None and not are_below([own.realtime], own.upperlimit):
                reason = "altqd refuses an upper limit below the guarantees in real time"
                draft.gap(f"{place}.upperlimit", reason)
        siblings.append(own)


def _class(found: Device, queue: Queue, draft: Draft) -> str:
    """Return the settings of a class."""
    words = [*queue.flags, *(["default"] if queue.default else [])]
    match found.discipline:
        case "cbq":
            words = [queue.parent or _ROOT, *(["borrow"] if queue.borrow else []), *words]
            percent, rest = divmod(queue.rate * 100, found.rate)
            exact = f"exactbandwidth {queue.rate}"
            words.append(exact if rest or found.rate % 100 else f"pbandwidth {percent}")
            cbq = found.cbq
            if queue.priority is not None:
                words.append(f"priority {queue.priority}")
            if cbq.maxburst is not None:
                words.append(f"maxburst {cbq.maxburst}")
            if cbq.minburst != type(cbq)().minburst:
                words.append(f"minburst {cbq.minburst}")
            if cbq.packet != type(cbq)().packet:
                words.append(f"packetsize {cbq.packet}")
            if queue.limit not in (None, _CBQ_RED_LIMIT if queue.flags else _CBQ_LIMIT):
                words.append(_delay(queue, min(cbq.packet, _MTU), draft))
        case "priq":
            words = ["NULL", *words, f"priority {queue.priority} qlimit {queue.limit}"]
        case "hfsc":
            words = [queue.parent or "root", *words]
            for kind, curve in queue.curves.stated():
                first = f"{curve.m1} {altq_curves.milliseconds(curve)}" if curve.d else "0 0"
                words.append(f"[{kind} {first} {curve.m2}]")
            if queue.limit is not None:
                words.append(f"qlimit {queue.limit}")
    return " ".join(words)


def _delay(queue: Queue, packet: int, draft: Draft) -> str:
    """Return the delay by which CBQ sets the limit of a queue, in packets of `packet` bytes."""
    limit, delayed = queue.limit or _CBQ_LIMIT, 8 * packet * 1000
    ms = -(-limit * delayed // queue.rate)
    holds = max(ms * queue.rate // delayed, _LEAST_LIMIT)
    if holds != limit:
        reason = "CBQ sets limits by a delay in milliseconds, of 4 packets at least"
        draft.near(f"{queue.part.place}.queue.limit", reason, f"{holds} packets")
    return f"maxdelay {ms}"


def _filters(
    interface: str, entries: Sequence[tuple[Conditions, str, str]], draft: Draft
) -> Iterator[str]:
    """Yield the filters of an interface, with decreasing numbers in order of precedence.

    Args:
        interface: The name of the interface.
        entries: Conditions, the class or conditioner of their packets, and its place in the
            scenario; the first conditions that apply decide.
        draft: The gaps.
    """
    lines: list[tuple[str, str, str]] = []
    for index, (conditions, name, place) in enumerate(entries):
        for later, other, _ in entries[index + 1 :]:
            first = _is_host(later) and not _is_host(conditions)
            if first and other != name and not (conditions & later).is_never:
                reason = "altq.conf compares filters of a single destination first, which overlap"
                draft.gap(f"{place}.match", reason)
        for version, own in by_version(conditions, draft.versions):
            word = "filter" if version == 4 else "filter6"
            lines += [(word, name, fields) for fields in _fields(version, own, place, draft)]
    for number, (word, name, fields) in enumerate(lines):
        yield f"{word} {interface} {name} ruleno {len(lines) - number} {fields}"


def _is_host(conditions: Conditions) -> bool:
    networks = conditions.destination
    hosts = (each.version == 4 and each.prefixlen == 32 for each in networks or ())
    return any(hosts)


def _fields(version: IpVersion, conditions: Conditions, place: str, draft: Draft) -> Iterator[str]:
    """Yield the fields of filters that together are conditions on packets of a version of IP."""
    protocols = [0]
    octet = "tos" if version == 4 else "tclass"
    with_ports = conditions.source_ports is not None or conditions.destination_ports is not None
    if conditions.protocols is not None and not (with_ports and len(conditions.protocols) == 2):
        protocols = sorted(_PROTOCOLS[version][each] for each in conditions.protocols)
    for destination, to, source, port, protocol, dscp in product(
        _addresses(conditions.destination, version),
        _ports(conditions.destination_ports, place, draft),
        _addresses(conditions.source, version),
        _ports(conditions.source_ports, place, draft),
        protocols,
        tos_values(conditions, place, draft),
    ):
        tos = "" if dscp is None else f" {octet} {dscp << 2:#04x} {octet}mask 0xfc"
        yield f"{destination} {to} {source} {port} {protocol}{tos}"


def _addresses(networks: Sequence[Network] | None, version: IpVersion) -> list[str]:
    if networks is None:
        return ["0" if version == 4 else "::0"]
    if version == 6:
        return ["::0" if each.prefixlen == 0 else str(each) for each in networks]
    return [
        str(each.network_address)
        if each.prefixlen == each.max_prefixlen
        else f"{each.network_address} netmask {each.netmask}"
        for each in networks
    ]


def _ports(ports: Ports | None, place: str, draft: Draft) -> list[int]:
    """Return ports one by one, as altq.conf has no ranges."""
    if ports is None:
        return [0]
    if sum(high - low + 1 for low, high in ports) > _MOST_PORTS:
        reason = f"altq.conf has no ranges of ports, and perhop writes up to {_MOST_PORTS} ports"
        draft.gap(f"{place}.match", reason)
        return []
    return [port for low, high in ports for port in range(low, high + 1)]
