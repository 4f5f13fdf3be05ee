"""Plausibility of counters: values that a working policer cannot have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from perhop_services.reservations.drivers import PolicerCounters

SLACK: Final = 1.0
"""Seconds by which two readings may be further apart than their times: requests travel."""

_LARGEST: Final = 65_535
_SMALLEST: Final = 20


def doubt(
    before: PolicerCounters,
    after: PolicerCounters,
    seconds: float,
    rate: int,
    burst: int,
    capacity: int,
) -> str:
    """Return the fault of a reading after another one, or "".

    A token bucket of `rate` and `burst` lets through burst + rate · t in a time t. Some buckets
    hold a second of the rate at least (nftables). No more can have come in all than the router's
    links carry. Counters do not fall, and a packet has 20 to 65,535 bytes (RFC 791).

    Args:
        before: The earlier reading.
        after: The later one.
        seconds: The time between them.
        rate: Policed rate, in bits per second.
        burst: With a burst of so many bytes.
        capacity: Greatest rate that can arrive at the router, in bits per second; 0 if unknown.
    """
    grown = []
    for what in ("conformed", "exceeded"):
        packets = getattr(after, f"{what}_packets") - getattr(before, f"{what}_packets")
        size = getattr(after, f"{what}_bytes") - getattr(before, f"{what}_bytes")
        if packets < 0 or size < 0:
            return f"{what} fell from {getattr(before, f'{what}_bytes')} bytes"
        if not _SMALLEST * packets <= size <= _LARGEST * packets:
            return f"{packets} packets {what} with {size} bytes"
        grown.append(size)
    conformed, exceeded = grown
    time = seconds + SLACK
    most = max(burst, rate / 8) + rate / 8 * time + _LARGEST
    if conformed > most:
        return f"{conformed} bytes conformed in {seconds:.1f} s, where {most:.0f} can"
    if capacity and conformed + exceeded > capacity / 8 * time + burst + _LARGEST:
        return f"{conformed + exceeded} bytes came in {seconds:.1f} s over {capacity} bit/s"
    return ""
