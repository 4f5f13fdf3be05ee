"""Numbers, rates and code points as IOS spells them."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final

from perhop.scenario.model.dscp import DSCP_NAMES
from perhop.units import format_share

PRECEDENCES: Final = {
    name: value
    for value, name in enumerate(
        (
            "routine",
            "priority",
            "immediate",
            "flash",
            "flash-override",
            "critical",
            "internet",
            "network",
        )
    )
}
"""Names of IP precedences (RFC 791)."""

_SUFFIXES: Final = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9}
_NUMBER: Final = re.compile(r"([0-9]{1,18})(?:\.([0-9]{1,9}))?([kmg]?)", re.IGNORECASE | re.ASCII)


def number(word: str, largest: int = 2**48) -> int | None:
    """Return a number such as ``8000``, ``128k`` or ``1.5m``; None if it is none, or too large."""
    match = _NUMBER.fullmatch(word)
    if match is None:
        return None
    value = int(Fraction(f"{match[1]}.{match[2] or 0}") * _SUFFIXES[match[3].lower()])
    return value if value <= largest else None


def whole(word: str, low: int, high: int) -> int | None:
    """Return a whole number between two others; None if it is none."""
    if re.fullmatch("[0-9]{1,18}", word, re.ASCII) and low <= int(word) <= high:
        return int(word)
    return None


def percent(word: str) -> int | None:
    """Return a share above zero in parts per billion, from per cent; None if it is none."""
    match = re.fullmatch(r"([0-9]{1,3}(?:\.[0-9]{1,7})?)%?", word, re.ASCII)
    if match is None:
        return None
    value = int(Fraction(match[1]) * 10**7)
    return value if 0 < value <= 10**9 else None


def dscp(word: str) -> int | None:
    """Return a code point from its name or number; None if it is none."""
    value = DSCP_NAMES.get(word.lower())
    return whole(word, 0, 63) if value is None else value


def precedence(word: str) -> int | None:
    """Return an IP precedence from its name or number; None if it is none."""
    value = PRECEDENCES.get(word.lower())
    return whole(word, 0, 7) if value is None else value


def share_text(share: int) -> str:
    """Return a share in parts per billion as text; at least the smallest one."""
    return format_share(max(share, 1))
