"""Sets of whole numbers as ranges: ports, addresses, code points.

Such a set is a tuple of ranges, each a first and a last number. The functions return disjoint
ranges in ascending order, and all but `joined` and `overlap` expect them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Ranges", "common", "difference", "joined", "overlap"]

Ranges = tuple[tuple[int, int], ...]
"""First and last number of each range."""


def joined(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """Return the numbers of ranges in any order, in as few ranges as possible."""
    found: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if found and first <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(found[-1][1], last)
        else:
            found.append((first, last))
    return tuple(found)


def common(some: Ranges, others: Ranges) -> Ranges:
    """Return the numbers that are in both sets."""
    if some == others:
        return some
    found: list[tuple[int, int]] = []
    here = there = 0
    while here < len(some) and there < len(others):
        first = max(some[here][0], others[there][0])
        last = min(some[here][1], others[there][1])
        if first <= last:
            found.append((first, last))
        if some[here][1] < others[there][1]:
            here += 1
        else:
            there += 1
    return tuple(found)


def difference(some: Ranges, others: Ranges) -> Ranges:
    """Return the numbers of `some` that are not in `others`."""
    found: list[tuple[int, int]] = []
    there = 0
    for first, last in some:
        left = first
        while there < len(others) and others[there][0] <= last:
            if left < others[there][0]:
                found.append((left, others[there][0] - 1))
            left = max(left, others[there][1] + 1)
            if others[there][1] > last:
                break  # it may meet the next range, too
            there += 1
        if left <= last:
            found.append((left, last))
    return tuple(found)


def overlap(some: Iterable[tuple[int, int]], others: Iterable[tuple[int, int]]) -> bool:
    """Return whether two sets have a number in common."""
    return any(first <= high and low <= last for first, last in some for low, high in others)
