"""Queues of classes of Cisco IOS: `queue-limit`, `random-detect` and `fair-queue`."""

from __future__ import annotations

from math import log2
from typing import TYPE_CHECKING, Final, assert_never

from perhop.routers.writing.ios_acl import dscp_name
from perhop.scenario.model.cake import Cake
from perhop.scenario.model.queues import (
    Codel,
    DualPi2,
    FqCodel,
    Pie,
    Red,
    Sfq,
    Wred,
    wred_defaults,
)
from perhop.units import MILLISECOND, SECOND, WHOLE, format_duration, format_size

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perhop.routers.writing.draft import Draft
    from perhop.routers.writing.plan import Part
    from perhop.scenario.model.network import Limit
    from perhop.scenario.model.queues import Threshold

__all__ = ["queue"]

_PACKET: Final = 1000
_MOST_WEIGHT: Final = 16
_MOST: Final = 8_192_000
_MOST_MS: Final = 3_400
_DENOMINATOR: Final = 10
_TENTH: Final = WHOLE // _DENOMINATOR

_NEVER: Final = 3600 * SECOND
"""A target that no delay exceeds, so that FQ-CoDel is fair queueing only."""
_FLOWS: Final = tuple(2**power for power in range(4, 13))
"""The numbers of queues of `fair-queue`."""

Row = tuple[int, int, int]
"""Thresholds in packets, and the denominator of the probability."""


def queue(part: Part, draft: Draft) -> list[str]:
    """Return the commands of a class's queue.

    Args:
        part: The class, which is not divided.
        draft: Where gaps and approximations are added.
    """
    queue, place = part.queue, f"{part.place}.queue"
    if queue.drop == "head":
        draft.gap(f"{place}.drop", "IOS drops at the tail")
    lines = [_limit(queue.effective_limit(in_class=True), f"{place}.limit", draft)]
    match queue.discipline:
        case None:
            pass
        case Wred() as wred:
            lines += _wred(wred, f"{place}.wred", draft, in_class=part.in_class)
        case Red():
            reason = "IOS has no RED without code points; expected `wred`"
            draft.gap(f"{place}.red", reason)
        case FqCodel() as fair if fair.target >= _NEVER:
            lines.append(_fair_queue(fair, f"{place}.fq-codel", draft))
        case Codel() | FqCodel() | Cake() | Pie() | Sfq() | DualPi2():
            key = next(iter(queue.disciplines))
            draft.gap(f"{place}.{key}", f"IOS has WRED only, not {key}")
        case unknown:
            assert_never(unknown)
    return lines


def _limit(limit: Limit, place: str, draft: Draft) -> str:
    """Return the command `queue-limit`; without a unit it counts packets in every release."""
    most = _MOST_MS * MILLISECOND if limit.unit == "time" else _MOST
    if limit.amount > most:
        draft.gap(place, f"IOS has up to {_MOST:,} packets or bytes, and up to {_MOST_MS:,} ms")
    match limit.unit:
        case "packets":
            return f"queue-limit {limit.amount}"
        case "bytes":
            return f"queue-limit {limit.amount} bytes"
        case "time":
            ms = max(round(limit.amount / MILLISECOND), 1)
            if limit.amount != ms * MILLISECOND:
                given = format_duration(limit.amount)
                draft.near(place, f"IOS has whole milliseconds, not {given}", f"{ms} ms")
            return f"queue-limit {ms} ms"


def _fair_queue(fair: FqCodel, place: str, draft: Draft) -> str:
    """Return the command `fair-queue`."""
    flows = min(_FLOWS, key=lambda count: abs(count - fair.flows))
    if fair.flows != flows:
        reason = f"IOS has powers of two from {_FLOWS[0]} to {_FLOWS[-1]}, not {fair.flows}"
        draft.near(f"{place}.flows", reason, str(flows))
    if fair.quantum != FqCodel().quantum:
        usual = format_size(FqCodel().quantum)
        draft.near(f"{place}.quantum", "IOS does not configure the bytes of a round", usual)
    return f"fair-queue {flows}"


def _wred(wred: Wred, place: str, draft: Draft, *, in_class: bool) -> list[str]:
    """Return the commands `random-detect`."""
    rows = _rows(wred, place, draft, wred_defaults(wred.by, in_class=in_class))
    by_precedence = wred.by == "precedence" and all(
        len({rows[dscp] for dscp in range(8 * precedence, 8 * precedence + 8)}) == 1
        for precedence in range(8)
    )
    lines = [f"random-detect{'' if by_precedence else ' dscp-based'}"]
    kind = "precedence" if by_precedence else "dscp"
    defaults = wred_defaults(kind, in_class=True)
    for dscp in range(0, 64, 8 if by_precedence else 1):
        usual = defaults[dscp].min, defaults[dscp].max, _DENOMINATOR
        if rows[dscp] != usual:
            value = str(dscp // 8) if by_precedence else dscp_name(dscp)
            low, high, denominator = rows[dscp]
            lines.append(f"random-detect {kind} {value} {low} {high} {denominator}")
    weight = wred.weight
    power = round(-log2(weight / WHOLE)) if weight else 0
    if not 1 <= power <= _MOST_WEIGHT or weight != WHOLE >> power:
        power = min(max(power, 1), _MOST_WEIGHT)
        draft.near(f"{place}.weight", "IOS has powers of two", f"2^-{power}")
    if power != 9:
        lines.append(f"random-detect exponential-weighting-constant {power}")
    if wred.ecn:
        lines.append("random-detect ecn")
    if wred.packet != _PACKET:
        reason = "IOS does not configure the size of a typical packet"
        draft.near(f"{place}.packet", reason, f"{_PACKET} B")
    return lines


def _rows(
    wred: Wred, place: str, draft: Draft, defaults: Mapping[int, Threshold]
) -> dict[int, Row]:
    """Return the thresholds of every code point."""
    rows = {dscp: (each.min, each.max, _DENOMINATOR) for dscp, each in defaults.items()}
    for number, profile in enumerate(wred.profiles):
        at = f"{place}.profiles.{number}"
        denominator = max(round(WHOLE / profile.probability), 1) if profile.probability else 0
        if not denominator or WHOLE // denominator != profile.probability:
            draft.near(
                f"{at}.probability",
                "IOS has probabilities of one to a whole number",
                f"1/{denominator or 65535}",
            )
        for dscp in profile.dscp:
            rows[dscp] = profile.min.amount, profile.max.amount, denominator or 65535
    return rows
