"""Hints in messages: the nearest valid name, and the valid names."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

from perhop.units import quote

if TYPE_CHECKING:
    from collections.abc import Iterable


def did_you_mean(word: object, candidates: Iterable[str]) -> str:
    """Return ``did you mean `x`?`` with the candidate nearest to `word`, or ""."""
    if not isinstance(word, str) or len(word) > 80:
        return ""
    by_folded = {candidate.lower(): candidate for candidate in candidates}
    near = get_close_matches(word.lower(), by_folded, n=1, cutoff=0.6)
    return f"did you mean {quote(by_folded[near[0]])}?" if near else ""


def listed(names: Iterable[str]) -> str:
    """Return ``; there are a, b``, or "" if there are many."""
    some = list(names)
    return f"; there are {', '.join(some)}" if 0 < len(some) <= 8 else ""
