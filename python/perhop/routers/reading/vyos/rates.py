"""Bandwidths of VyOS: rates, shares, and `auto`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from perhop.units import WHOLE

__all__ = ["ASSUMED", "Rate", "of", "share"]

ASSUMED: Final = 10**9
"""The speed in bit/s of an interface that tells none (VyOS 1.4, `_rate_convert`)."""

_RATE: Final = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,6})?)([a-z]*)", re.ASCII)
_SHARE: Final = re.compile(r"([0-9]{1,3})(?:\.([0-9]{1,7}))?%", re.ASCII)
_POWERS: Final = {"": 0, "k": 1, "ki": 1, "m": 2, "mi": 2, "g": 3, "gi": 3, "t": 4, "ti": 4}


@dataclass(frozen=True, slots=True)
class Rate:
    """A bandwidth.

    Attributes:
        bits: The rate in bit/s.
        share: The bandwidth in parts per billion of another one, which the configuration does not
            tell: `bits` is right in proportion only. None if `bits` is the rate.
    """

    bits: int
    share: int | None = None


def share(text: str) -> int | None:
    """Return the parts per billion of ``10%`` or ``auto``; None for a rate."""
    if text.lower() == "auto":
        return WHOLE
    match = _SHARE.fullmatch(text)
    if match is None:
        return None
    return int(match[1]) * (WHOLE // 100) + int((match[2] or "").ljust(7, "0"))


def of(text: str, whole: Rate) -> Rate:
    """Return a bandwidth: ``10mbit``, ``512`` (kbit/s), or a share of `whole`.

    Raises:
        ValueError: The text is none; the message says so.
    """
    part = share(text)
    if part is not None:
        if not part:
            raise ValueError(f"`{text[:40]}` is not a bandwidth above zero")
        return Rate(max(whole.bits * part // WHOLE, 1), None if whole.share is None else part)
    match = _RATE.fullmatch(text.lower())
    unit = match[2] if match is not None else ""
    scale, bits = unit.removesuffix("bit"), 1
    if unit.endswith("bps"):
        scale, bits = unit.removesuffix("bps"), 8
    if match is None or scale not in _POWERS or unit in ("k", "m", "g", "t"):
        raise ValueError(f"`{text[:40]}` is not a bandwidth")
    number, _, fraction = match[1].partition(".")
    base = 1024 if scale.endswith("i") else 1000
    value = int(number + fraction) * bits * base ** (_POWERS[scale] if unit else 1)
    value //= 10 ** len(fraction)
    if not 0 < value < 10**18:
        raise ValueError(f"`{text[:40]}` is not a bandwidth above zero")
    return Rate(value)
