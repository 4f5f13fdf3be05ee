"""pf.conf with `altq` (pf.conf(5) of FreeBSD, and of OpenBSD up to 5.4).

Rules with `quick` give packets their queue; without `quick` the last rule would decide. They keep
no state, so that each packet is classified on its own.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Final

from perhop.routers.writing import altq_curves
from perhop.routers.writing.altq_queues import device, tos_values
from perhop.units import format_rate

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from perhop.routers.reading.matching import Conditions, Network, Ports
    from perhop.routers.writing.altq_queues import Device, Queue
    from perhop.routers.writing.draft import Draft
    from perhop.routers.writing.plan import End

__all__ = ["write"]

_ECN: Final = 4
"""The values of the ECN field, which is part of the type of service that pf compares."""


def write(ends: Sequence[End], draft: Draft) -> list[str]:
    """Return the configuration of a router: queues first, as pf.conf requires, then rules."""
    for end in ends:
        for mark in end.marks[:1]:
            reason = "pf.conf with `altq` marks by `scrub` only, which perhop does not write"
            draft.gap(mark.place, reason)
    found = [each for end in ends if (each := device(end, draft)) is not None]
    lines = [line for each in found for line in _queues(each, draft)]
    return [*lines, *(line for each in found for line in _rules(each, draft))]


def _queues(found: Device, draft: Draft) -> Iterator[str]:
    """Yield the queues of an interface."""
    cbq, usual = found.cbq, type(found.cbq)()
    for key in ("packet", "maxburst", "minburst", "token_bucket", "efficient"):
        if found.discipline == "cbq" and getattr(cbq, key) != getattr(usual, key):
            place = found.queues[0].part.place.partition(".classes")[0]
            draft.gap(f"{place}.cbq.{key}", "pf.conf has no such setting of CBQ")
    tbr = "" if found.burst is None else f" tbrsize {found.burst}"
    top = ", ".join(queue.name for queue in found.queues if not queue.parent)
    yield (
        f"altq on {found.interface} {found.discipline} bandwidth {found.rate}b{tbr} "
        f"queue {{ {top} }}"
    )
    for queue in found.queues:
        words = [f"queue {queue.name} on {found.interface}"]
        if found.discipline != "priq":
            words.append(f"bandwidth {queue.rate}b")
        if queue.priority is not None:
            words.append(f"priority {queue.priority}")
        if queue.limit is not None:
            words.append(f"qlimit {queue.limit}")
        options = [
            *_options(found, queue, draft),
            *queue.flags,
            *(["default"] if queue.default else []),
        ]
        words.append(f"{found.discipline}({' '.join(options)})" if options else found.discipline)
        inside = ", ".join(each.name for each in found.queues if each.parent == queue.name)
        yield " ".join(words) + (f" {{ {inside} }}" if inside else "")


def _options(found: Device, queue: Queue, draft: Draft) -> list[str]:
    """Return the options of a queue in its discipline."""
    if found.discipline == "cbq":
        return ["borrow"] if queue.borrow else []
    if found.discipline != "hfsc":
        return []
    own, place = queue.curves, queue.part.place
    curves = {"realtime": own.realtime if queue.limit is not None else None}
    curves["linkshare"] = own.linkshare if own.linkshare.d else None  # or else its bandwidth
    curves["upperlimit"] = own.upperlimit
    above = next((each.rate for each in found.queues if each.name == queue.parent), found.rate)
    words = []
    for key, curve in curves.items():
        if curve is None:
            continue
        if max(curve.m1, curve.m2) > above:
            ceiling = queue.part.ceiling
            at = f"{place}.{key}" if ceiling is None else ceiling.place
            reason = "pfctl of FreeBSD cuts rates above the bandwidth of the queue around them"
            draft.near(at, reason, format_rate(above))
        time = altq_curves.milliseconds(curve)
        last = f"{curve.m2}b"
        words.append(f"{key} {f'({curve.m1}b, {time}, {last})' if time else last}")
    guarantee, limit = curves["realtime"], curves["upperlimit"]
    if guarantee is not None and limit is not None and guarantee.m2 > limit.m2:
        reason = "pfctl refuses an upper limit below the guarantee in real time"
        draft.gap(f"{place}.upperlimit", reason)
    return words


def _rules(found: Device, draft: Draft) -> Iterator[str]:
    """Yield the rules that give packets their queue."""
    head = f"pass out quick on {found.interface}"
    for conditions, queue in found.entries:
        for each in _matches(conditions, queue.part.place, draft):
            yield f"{head}{each} no state queue {queue.name}"
    default = next(queue for queue in found.queues if queue.default)
    yield f"{head} no state queue {default.name}"


def _matches(conditions: Conditions, place: str, draft: Draft) -> Iterator[str]:
    """Yield the conditions of rules."""
    proto = ""
    versions = {
        each.version for each in (*(conditions.source or ()), *(conditions.destination or ()))
    }
    values = tos_values(conditions, place, draft)
    for version, dscp in product((*sorted(versions), *([] if versions else [0])), values):
        source = _end(conditions.source, conditions.source_ports, version)
        destination = _end(conditions.destination, conditions.destination_ports, version)
        if source is None or destination is None:
            continue
        family = {0: "", 4: " inet", 6: " inet6"}[version]
        if conditions.protocols is not None:
            names = sorted(conditions.protocols)
            if "icmp" in names and (version == 6 or (not version and 6 in draft.versions)):
                names = [*(names if version == 0 else names[1:]), "ipv6-icmp"]
            proto = f" proto {_one_of(names)}"
        path = "" if source == destination == "any" else f" from {source} to {destination}"
        for ecn in range(_ECN) if dscp is not None else [0]:
            tos = "" if dscp is None else f" tos {(dscp << 2) + ecn:#04x}"
            yield f"{family}{proto}{path}{tos}"


def _end(networks: Sequence[Network] | None, ports: Ports | None, version: int) -> str | None:
    """Return the addresses and ports of an end; None if it has none of an IP version."""
    own = [str(each) for each in networks or () if each.version == version]
    if networks is not None and not own:
        return None
    where = "any" if networks is None else _one_of(own)
    if ports is None:
        return where
    return f"{where} port {_one_of([str(a) if a == b else f'{a}:{b}' for a, b in ports])}"


def _one_of(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{{ {', '.join(words)} }}"
