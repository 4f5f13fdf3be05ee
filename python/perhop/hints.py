"""Hints in messages: the nearest valid name, and the valid names."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

from perhop.units import quote

if TYPE_CHECKING:
    from collections.abc import Iterable


def did_you_mean(word: object, candidates: Iterable[str]) -> str:
    """Return ``did you mean `x`?`` with the candidate nearest to `word`, or ""."""
    near = _close(word, candidates, 1)
    return f"did you mean {quote(near[0])}?" if near else ""


def nearest(word: object, candidates: Iterable[str]) -> list[str]:
    """Return the candidates that begin with `word` and an underscore, or the nearest three."""
    names = [*candidates]
    return [name for name in names if name.startswith(f"{word}_")] or _close(word, names, 3)


def _close(word: object, candidates: Iterable[str], most: int) -> list[str]:
    """Return the candidates that are nearly `word`, the nearest first."""
    if not isinstance(word, str) or len(word) > 80:
        return []
    by_folded = {candidate.lower(): candidate for candidate in candidates}
    near = get_close_matches(word.lower(), by_folded, n=most, cutoff=0.6)
    return [by_folded[folded] for folded in near]


def listed(names: Iterable[str]) -> str:
    """Return ``; there are a, b``, or "" if there are many."""
    some = list(names)
    return f"; there are {', '.join(some)}" if 0 < len(some) <= 8 else ""
