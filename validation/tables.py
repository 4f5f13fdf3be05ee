"""Every table, in the order in which they are printed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from validation import buckets, congestion, fairness, managed, sharing, waiting

if TYPE_CHECKING:
    from validation.table import Table

TABLES: list[Table] = [
    waiting.TABLE,
    fairness.DELAY,
    fairness.FAIRNESS,
    buckets.TABLE,
    sharing.MAX_MIN,
    sharing.LINK_SHARING,
    managed.CODEL,
    managed.PIE,
    congestion.RENO,
    congestion.CUBIC,
    congestion.BBR,
]
