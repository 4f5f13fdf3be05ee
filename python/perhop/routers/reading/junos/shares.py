"""Guarantees, ceilings and queues of the classes of a policy, from their schedulers."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

from perhop.routers.reading.junos.schedulers import BUFFER, LEAST_BUFFER, PRIORITIES, Amount
from perhop.units import format_duration, format_rate, format_share, format_size

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perhop.routers.reading.junos.drops import DropProfile
    from perhop.routers.reading.junos.schedulers import Scheduler

_PACKET: Final = 1500
_SECOND: Final = 10**12
_PPB: Final = 10**9
_LEAST: Final = Fraction(1, 100)
"""What all classes without a scheduler get, of the interface."""


@dataclass(frozen=True, slots=True)
class Limit:
    """The limit of a queue: bytes, or picoseconds at the guaranteed rate."""

    amount: int
    unit: str

    def written(self, part: Fraction = Fraction(1)) -> str:
        """Return a part of the limit as a scenario states it, at least a byte or nanosecond."""
        if self.unit == "bytes":
            return format_size(max(int(self.amount * part), 1))
        return format_duration(max(int(self.amount * part), 1000))


def share_of(amount: Amount, rate: int | None) -> Fraction | None:
    """Return an amount as a part of an interface; None if its rate is needed and unknown."""
    value = amount.value or Fraction(0)
    if amount.kind == "percent":
        return value / 100
    return value / rate if amount.kind == "rate" and rate else None


def bandwidth_of(amount: Amount) -> str:
    """Return a rate or percentage as a scenario states it."""
    value = amount.value or Fraction(0)
    if amount.kind == "rate":
        return format_rate(int(value))
    return format_share(int(value * _PPB / 100))


def guarantees(
    schedulers: Mapping[str, Scheduler | None], rate: int | None
) -> tuple[dict[str, Amount | None], str]:
    """Return the guarantee of each class that is not strict, and how they were changed.

    A class whose scheduler states none has an equal share of the rest; those without a scheduler,
    or with a guarantee of 0, have 1% in all. If guarantees exceed the interface, all shrink; if
    they leave nothing to such classes, they shrink by 1%.

    Args:
        schedulers: The scheduler of each class; None for a queue without one.
        rate: The rate of the interface in bit/s, or None.
    """
    least = [key for key, each in schedulers.items() if each is None or each.drops_all]
    wanted = {
        key: scheduler.transmit
        for key, scheduler in schedulers.items()
        if scheduler is not None and not scheduler.strict and not scheduler.drops_all
    }
    fixed = {
        key: share_of(amount, rate) or Fraction(0)
        for key, amount in wanted.items()
        if amount is not None and amount.kind != "remainder"
    }
    total = sum(fixed.values(), Fraction(0))
    rest = max(1 - total, Fraction(0))
    for key, amount in wanted.items():
        if amount is not None and amount.kind == "remainder":
            share = rest * (amount.value or 0) / 100
            wanted[key] = Amount("percent", share * 100) if share else None
    _below_ceilings(wanted, schedulers, rate)
    total = sum(
        (share_of(each, rate) or Fraction(0) for each in wanted.values() if each is not None),
        Fraction(0),
    )
    takers = any(amount is None for amount in wanted.values()) or bool(least)
    most = 1 - _LEAST if takers else Fraction(1)
    note = ""
    if total > 1 or (takers and total == 1):
        # In billionths, rounded down, so that the sum stays below 100%.
        wanted = {
            key: Amount("percent", (share_of(each, rate) or 0) * most / total * 100)
            if each is not None
            else None
            for key, each in wanted.items()
        }
        percent = f"{float(total * 100):.4g}%"
        note = f"guarantees of {percent} in sum shrink to {float(most * 100):.3g}%"
        total = most
    for key in least:
        wanted[key] = Amount("percent", min(1 - total, _LEAST) * 100 / len(least))
    return wanted, note


def _below_ceilings(
    wanted: dict[str, Amount | None], schedulers: Mapping[str, Scheduler | None], rate: int | None
) -> None:
    """Replace equal shares of the rest that exceed the shaping rate of their class by that rate."""
    while True:
        parts = [
            share_of(each, rate) or Fraction(0) for each in wanted.values() if each is not None
        ]
        takers = [key for key, each in wanted.items() if each is None]
        rest = max(1 - sum(parts, Fraction(0)), Fraction(0))
        for key in takers:
            scheduler = schedulers[key]
            ceiling = scheduler.shaping[0] if scheduler and scheduler.shaping else None
            part = share_of(ceiling, rate) if ceiling is not None else None
            if ceiling is not None and (part is None or part * len(takers) < rest):
                wanted[key] = ceiling
                break
        else:
            return


def explicit(amounts: Mapping[str, Amount | None], rate: int | None) -> dict[str, Amount | None]:
    """Return guarantees in which equal shares of the rest are stated, as far as rates are known."""
    parts = [share_of(amount, rate) for amount in amounts.values() if amount is not None]
    takers = sum(amount is None for amount in amounts.values())
    rest = 1 - sum((part for part in parts if part is not None), Fraction(0))
    if not takers or None in parts or rest <= 0:
        return dict(amounts)
    share = Amount("percent", rest / takers * 100)
    return {key: amount or share for key, amount in amounts.items()}


def levels(schedulers: Sequence[Scheduler | None]) -> dict[str, int] | None:
    """Return the order of borrowing for each priority; None if all classes have the same one."""
    found = {
        scheduler.borrows if scheduler is not None else "low"
        for scheduler in schedulers
        if scheduler is None or not scheduler.strict
    }
    if len(found) < 2:
        return None
    return {name: PRIORITIES.index(name) for name in found}


def buffer_limit(
    scheduler: Scheduler | None,
    guarantee: Amount | None,
    rate: int | None,
    remainder: Fraction,
) -> Limit:
    """Return the limit of a queue.

    Args:
        scheduler: The scheduler of the queue, if it has one.
        guarantee: The guarantee of the class.
        rate: The rate in bit/s by which the buffer of the interface is sized, or None.
        remainder: The part of the buffer that a queue with the remainder gets.
    """
    whole = Limit(int(BUFFER * _SECOND), "time")
    if scheduler is None:
        return Limit(LEAST_BUFFER, "bytes")
    size = scheduler.buffer
    if size is None or size == scheduler.transmit:
        return whole
    if size.kind == "rate":
        return Limit(max(int(size.value or 0), _PACKET), "bytes")
    if size.kind == "time":
        micros = size.value or Fraction(0)
        if rate:
            return Limit(max(int(micros * rate / 8 / 10**6), _PACKET), "bytes")
        return Limit(int(micros) * 10**6, "time")
    part = remainder * (size.value or 100) / 100 if size.kind == "remainder" else None
    part = part if part is not None else (size.value or Fraction(0)) / 100
    own = share_of(guarantee, rate) if guarantee is not None else None
    if own is not None and own == part:
        return whole
    if rate:
        return Limit(max(int(part * BUFFER * rate / 8), _PACKET), "bytes")
    return Limit(max(int(BUFFER * _SECOND * part / own), 1000), "time") if own else whole


def remaining_buffer(schedulers: Sequence[Scheduler | None], rate: int | None) -> Fraction:
    """Return the part of the buffer that each queue with the remainder gets."""
    takers, taken = 0, Fraction(0)
    for scheduler in schedulers:
        size = (scheduler.buffer or scheduler.transmit) if scheduler is not None else None
        if size is None:
            continue
        if size.kind == "remainder":
            takers += 1
        elif size.kind == "percent":
            taken += (size.value or Fraction(0)) / 100
        elif size.kind == "time":
            taken += (size.value or Fraction(0)) / 10**6 / BUFFER
        elif scheduler is not None and scheduler.buffer is None:
            taken += share_of(size, rate) or Fraction(0)
    return max(1 - taken, Fraction(1, 100)) / max(takers, 1)


def queue(
    limit: Limit,
    profiles: Mapping[str, DropProfile],
    codes: Mapping[str, Sequence[int]],
    rate: int | None,
    *,
    ecn: bool,
) -> tuple[dict[str, Any], str]:
    """Return a queue as a scenario states it, and how its drop profiles are approximated.

    Args:
        limit: The limit of the queue.
        profiles: The drop profile of each loss priority.
        codes: The code points of each loss priority of the class, beside those of `low`.
        rate: The guaranteed rate in bit/s, or None.
        ecn: True if packets are marked instead of dropped.
    """
    found: dict[str, Any] = {"limit": limit.written()}
    early = {loss: each for loss, each in profiles.items() if each.low < 1}
    several = {
        loss: points
        for loss, points in codes.items()
        if loss != "low" and points and profiles.get(loss) != profiles.get("low")
    }
    if not early:
        return found, ""
    size = limit.amount if limit.unit == "bytes" else None
    if size is None and rate:
        size = limit.amount * rate // 8 // _SECOND
    if several and size is not None:
        packets = max(size // _PACKET, 2)
        found["limit"] = f"{packets} packets"
        taken = {code for points in several.values() for code in points}
        groups = {"low": [code for code in range(64) if code not in taken], **several}
        found["wred"] = {
            "profiles": [
                _thresholds(points, profiles.get(loss), packets) for loss, points in groups.items()
            ],
            "weight": "100%",
        }
        if ecn:
            found["wred"]["ecn"] = True
        return found, "loss priorities go by code point, and levels are of packets of 1500 B"
    only = profiles.get("low") or next(iter(early.values()))
    note = ""
    if any(each != only for each in profiles.values()):
        note = f"all packets of the class have the profile `{only.name}`"
    if only.low >= 1:
        return found, note
    found["red"] = {
        "min": limit.written(only.low),
        "max": limit.written(only.high),
        "probability": format_share(max(int(only.probability * _PPB), 1)),
        "weight": "100%",
        "gentle": only.probability < 1,
        "ecn": ecn,
    }
    return found, note


def _thresholds(points: Sequence[int], profile: DropProfile | None, packets: int) -> dict[str, Any]:
    low, high, chance = packets, packets, Fraction(1)
    if profile is not None:
        low, high, chance = (
            int(profile.low * packets),
            int(profile.high * packets),
            profile.probability,
        )
    low = min(max(low, 1), packets - 1)
    if chance < 1 and high > low:
        # WRED drops all packets above its maximum: the line goes on to 100% or the full queue.
        last = min(low + int((high - low) / chance), packets)
        chance, high = min(chance * (last - low) / (high - low), Fraction(1)), last
    return {
        "dscp": list(points),
        "min": _packets(low),
        "max": _packets(max(high, low + 1)),
        "probability": format_share(max(int(chance * _PPB), 1)),
    }


def _packets(count: int) -> str:
    return f"{count} packet" if count == 1 else f"{count} packets"
