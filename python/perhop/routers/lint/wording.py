"""Code points, shares, rates and times in messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perhop.scenario.model.dscp import format_dscp
from perhop.units import WHOLE, format_rate, format_share, quote

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

_SHORT: Final = 10
"""The characters of a rate that is written exactly."""


def listed(points: Collection[int]) -> str:
    """Return the names of code points, the first eight if there are more."""
    some = [str(format_dscp(point)) for point in sorted(points)]
    return ", ".join(some[:8]) + (f" and {len(some) - 8} more" if len(some) > 8 else "")


def quoted(names: Sequence[str]) -> str:
    """Return names in quotes, the first eight if there are more."""
    some = ", ".join(map(quote, names[:8]))
    return some + (f" and {len(names) - 8:,} more" if len(names) > 8 else "")


def percent(part: int, whole: int, steps: int = 1) -> str:
    """Return a share of a whole, rounded to a percent, or to one of the `steps` of a percent."""
    size = WHOLE // 100 // steps
    return format_share(round(part * WHOLE / whole / size) * size)


def rate_text(rate: float) -> str:
    """Return a rate in bit/s: exactly if that is short, or else three digits of it."""
    exact = format_rate(int(rate))
    if rate == int(rate) and len(exact) <= _SHORT:
        return exact
    return _scaled(rate, ("bps", "kbps", "Mbps", "Gbps"), 1000)


def time_text(seconds: float) -> str:
    """Return three digits of a time."""
    if seconds >= 100:
        return f"{seconds:,.0f} s"
    return f"{seconds:.3g} s" if seconds >= 1 else _scaled(seconds * 1e6, ("us", "ms"), 1000)


def _scaled(value: float, units: tuple[str, ...], step: int) -> str:
    for unit in units[:-1]:
        if value < step:
            return f"{value:.3g} {unit}"
        value /= step
    return f"{value:.4g} {units[-1]}" if value >= step else f"{value:.3g} {units[-1]}"
