"""Queues, turns and priorities of VyOS' classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perhop.linux.htb import PACKET
from perhop.linux.qdiscs import ewma
from perhop.units import WHOLE, format_share

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from perhop.routers.writing.draft import Draft
    from perhop.routers.writing.plan import Division, Part
    from perhop.scenario.model.network import Limit
    from perhop.scenario.model.queues import FqCodel, Red

__all__ = ["MOST_QUANTUM", "check_turns", "fq_codel", "is_strict", "quantum_of", "queue", "ranks"]

MOST_QUANTUM: Final = 1_048_576
"""The largest `codel-quantum` in bytes."""

_MOST_FQ_LIMIT: Final = 10_999
_HIGHEST: Final = 7
_MOST_STRICT: Final = 8
_MS: Final = 10**9
_MOST_RED: Final = 4096
"""The highest threshold of `random-detect` in packets."""

_AVERAGE: Final = range(16, 10_241)
"""The sizes of its packets in bytes."""


def is_strict(division: Division) -> bool:
    """Return whether a division is a priority queue of VyOS: strict classes, then the last one."""
    parts = division.parts
    return (
        2 <= len(parts) <= _MOST_STRICT
        and all(part.strict for part in parts[:-1])
        and not any(
            part.ceiling or part.inside or part.class_.police or part.mark is not None
            for part in parts
        )
    )


def fq_codel(part: Part) -> FqCodel | None:
    """Return the settings of FQ-CoDel, if the queue of a class has it."""
    return None if part.inside is not None else part.queue.fq_codel


def quantum_of(part: Part, rate: int, least: int) -> int:
    """Return the `codel-quantum` of a class in bytes.

    It is that of the flow queues of FQ-CoDel. In a shaper it is also what HTB lends in a turn; for
    other queues, it is in proportion to the guarantee.

    Args:
        part: The class.
        rate: Its guarantee in bit/s.
        least: The smallest guarantee of the policy.
    """
    found = fq_codel(part)
    return max(PACKET * rate // max(least, 1), PACKET) if found is None else found.quantum


def ranks(division: Division, draft: Draft) -> list[int]:
    """Return the priorities of classes, from 1; empty if they have none."""
    given = [
        part.class_.priority if isinstance(part.class_.priority, int) else 0
        for part in division.parts
    ]
    if not any(part.class_.borrows_late for part in division.parts):
        return []
    order = sorted(set(given))
    if len(order) > _HIGHEST:
        draft.gap(division.place, f"shapers of VyOS have up to {_HIGHEST} priorities")
    return [min(order.index(each) + 1, _HIGHEST) for each in given]


def check_turns(division: Division, priorities: Sequence[int], draft: Draft) -> None:
    """Check that classes with FQ-CoDel borrow in proportion to their guarantees."""
    least = min((part.rate for part in division.parts if part.rate), default=1)
    turns: dict[int, list[tuple[Part, float]]] = {}
    for index, part in enumerate(division.parts):
        rate = part.rate or part.capacity
        if part.ceiling is None or part.ceiling.rate > rate:
            turn = quantum_of(part, rate, least) / rate
            turns.setdefault(priorities[index] if priorities else 0, []).append((part, turn))
    for group in turns.values():
        sizes = [turn for _, turn in group]
        if max(sizes) > 1.01 * min(sizes):
            for part, _ in group:
                found = fq_codel(part)
                if found is not None:
                    reason = (
                        "VyOS has one quantum for flow queues and for the turns of borrowing, so "
                        "that turns in proportion to guarantees do not fit"
                    )
                    place = f"{part.place}.queue.fq-codel.quantum"
                    draft.near(place, reason, f"turns of {found.quantum} B")


def queue(part: Part, rate: int, draft: Draft) -> Iterator[str]:
    """Yield the settings of the queue of a class, but for its quantum.

    Args:
        part: The class.
        rate: Its guarantee in bit/s, by which limits in bytes or time are approximated.
        draft: The gaps.
    """
    place, found = f"{part.place}.queue", part.queue
    if found.drop == "head":
        draft.gap(f"{place}.drop", "queues of VyOS drop at the tail")
    for key in found.disciplines:
        if key not in ("fq-codel", "red"):
            reason = f"VyOS has no {key}"
            if key == "wred":
                reason = "VyOS 1.4 does not tell the precedences of `random-detect` apart"
            draft.gap(f"{place}.{key}", reason)
    limit = found.effective_limit(in_class=part.in_class)
    if found.red is not None:
        yield from _random_detect(found.red, limit, rate, place, draft)
        return
    packets = limit.amount if limit.unit == "packets" else max(limit.size(rate) // 1500, 1)
    if limit.unit != "packets":
        reason = "queues of VyOS have limits in packets"
        draft.near(f"{place}.limit", reason, f"{packets} packets of 1500 B")
    fair = found.fq_codel
    if fair is None:
        yield "queue-type drop-tail"
        yield f"queue-limit {packets}"
        return
    if fair.ecn:
        reason = "FQ-CoDel of VyOS does not mark"
        draft.near(f"{place}.fq-codel.ecn", reason, "drops")
    if fair.standing != "all":
        reason = "FQ-CoDel of Linux goes by the backlog of all flow queues"
        draft.gap(f"{place}.fq-codel.standing", reason)
    if packets > _MOST_FQ_LIMIT:
        reason = f"FQ-CoDel of VyOS holds up to {_MOST_FQ_LIMIT} packets"
        draft.near(f"{place}.limit", reason, f"{_MOST_FQ_LIMIT} packets")
    yield "queue-type fq-codel"
    yield f"queue-limit {min(packets, _MOST_FQ_LIMIT)}"
    yield f"flows {fair.flows}"
    for key, value in (("interval", fair.interval), ("target", fair.target)):
        whole = max(round(value / _MS), 1)
        if whole * _MS != value:
            reason = "VyOS counts in milliseconds"
            draft.near(f"{place}.fq-codel.{key}", reason, f"{whole} ms")
        yield f"{key} {whole}"


def _random_detect(red: Red, limit: Limit, rate: int, place: str, draft: Draft) -> Iterator[str]:
    """Yield the settings of a queue with RED.

    VyOS multiplies thresholds in packets by the size of a packet, and derives from them the burst
    by which tc finds the weight (vyos-1x, `_calc_random_detect_queue_params`).
    """
    if red.packet not in _AVERAGE:
        reason = f"packets of VyOS have {_AVERAGE[0]} to {_AVERAGE[-1]} B"
        draft.gap(f"{place}.red.packet", reason)
    found: dict[str, int] = {}
    for key, path, each in (
        ("minimum-threshold", "red.min", red.min),
        ("maximum-threshold", "red.max", red.effective_max),
        ("queue-limit", "limit", limit),
    ):
        least = found["minimum-threshold"] + 1 if key == "maximum-threshold" else 1
        packets = max(round(each.size(rate) / red.packet), least)
        if each.unit == "packets" or packets * red.packet != each.size(rate):
            reason = f"RED of VyOS counts bytes, in packets of {red.packet} B"
            draft.near(f"{place}.{path}", reason, f"{packets * red.packet} B")
        if packets > _MOST_RED and key != "queue-limit":
            draft.gap(f"{place}.{path}", f"thresholds of VyOS are up to {_MOST_RED} packets")
        found[key] = packets
    low, high, _ = found.values()
    power = ewma(low * red.packet, (2 * low + high) // 3, red.packet)
    weight = 0 if power is None else round(WHOLE / 2**power)
    if not weight:
        draft.gap(f"{place}.red.weight", "tc derives no weight from these thresholds")
    elif weight != red.weight:
        reason = "`random-detect` of VyOS derives the weight of RED from its thresholds"
        draft.near(f"{place}.red.weight", reason, format_share(weight))
    odds = max(round(WHOLE / red.probability), 1)
    if round(WHOLE / odds) != red.probability:
        reason = "VyOS has a whole number of packets of which it drops one"
        draft.near(f"{place}.red.probability", reason, format_share(round(WHOLE / odds)))
    if red.gentle:
        draft.near(f"{place}.red.gentle", "RED of VyOS drops all packets above `max`", "one step")
    if red.ecn:
        draft.near(f"{place}.red.ecn", "RED of VyOS does not mark", "drops")
    yield "queue-type random-detect"
    yield f"average-packet {red.packet}"
    yield from (f"{key} {packets}" for key, packets in found.items())
    yield f"mark-probability {odds}"
