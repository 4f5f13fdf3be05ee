"""Code points and shares in messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perhop.scenario.model.dscp import format_dscp
from perhop.units import WHOLE, format_share

if TYPE_CHECKING:
    from collections.abc import Collection


def listed(points: Collection[int]) -> str:
    """Return the names of code points, the first eight if there are more."""
    some = [str(format_dscp(point)) for point in sorted(points)]
    return ", ".join(some[:8]) + (f" and {len(some) - 8} more" if len(some) > 8 else "")


def percent(part: int, whole: int, steps: int = 1) -> str:
    """Return a share of a whole, rounded to a percent, or to one of the `steps` of a percent."""
    size = WHOLE // 100 // steps
    return format_share(round(part * WHOLE / whole / size) * size)
