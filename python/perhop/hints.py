"""Hints in messages: the nearest valid name, the valid names, and the nearest file."""

from __future__ import annotations

import os
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

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


def near_file(path: str) -> str:
    """Return ``did you mean `line.yaml`?`` with the file or folder nearest to a missing one, or "".

    A name without its suffix, or without the number of a run, is nearest.
    """
    folder, name = os.path.split(path)
    try:
        with os.scandir(folder or ".") as entries:
            names = sorted(entry.name for entry, _ in zip(entries, range(_MOST), strict=False))
    except (OSError, ValueError):
        return ""
    same = [each for each in names if each.rpartition(".")[0] == name]
    runs = [each for each in names if each.rpartition("-")[0] == name and each[-1:].isdigit()]
    runs.sort(key=lambda each: (len(each), each))
    near = [*same, *runs[-1:], *_close(name, names, 1)]
    return f"did you mean {quote(path.removesuffix(name) + near[0], 200)}?" if near else ""


_MOST: Final = 10_000
"""How many entries of a folder are compared with a name."""


def listed(names: Iterable[str]) -> str:
    """Return ``; there are a, b``, or "" if there are many."""
    some = list(names)
    return f"; there are {', '.join(some)}" if 0 < len(some) <= 8 else ""
