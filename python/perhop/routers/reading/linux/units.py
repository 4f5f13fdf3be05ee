"""Quantities as tc writes them: rates, sizes, times and handles.

Source: `get_rate64`, `get_size`, `get_time` and `get_tc_classid` of iproute2. A rate in ``bps``
counts bytes, a size in ``k`` is 1024 bytes, and a time without a unit is in microseconds.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["classid", "handle", "number", "percent", "rate", "share", "size", "time"]

_NUMBER: Final = re.compile(r"([0-9]{1,18}(?:\.[0-9]{0,12})?|\.[0-9]{1,12})([a-z%/]*)", re.ASCII)
_MOST: Final = 2**64

_RATES: Final = {"": 1, "bit": 1, "bps": 8}
for _power, _letter in enumerate("kmgt", 1):
    for _base, _infix in ((1000, ""), (1024, "i")):
        _RATES[f"{_letter}{_infix}bit"] = _base**_power
        _RATES[f"{_letter}{_infix}bps"] = 8 * _base**_power
    _RATES[_letter] = 1000**_power

_SIZES: Final = {"": Fraction(1), "b": Fraction(1)}
for _power, _letter in enumerate("kmg", 1):
    _SIZES[_letter] = _SIZES[f"{_letter}b"] = Fraction(1024**_power)
    _SIZES[f"{_letter}bit"] = Fraction(1024**_power, 8)

_TIMES: Final = {
    **dict.fromkeys(("s", "sec", "secs"), Fraction(10**12)),
    **dict.fromkeys(("ms", "msec", "msecs"), Fraction(10**9)),
    **dict.fromkeys(("", "us", "usec", "usecs"), Fraction(10**6)),
    **dict.fromkeys(("ns", "nsec", "nsecs"), Fraction(10**3)),
}


def _quantity(text: str, units: Mapping[str, int | Fraction], kind: str) -> int:
    match = _NUMBER.fullmatch(text.lower()) if len(text) <= 40 else None
    if match is None or match[2] not in units:
        raise ValueError(f"`{text[:40]}` is not a {kind} of tc")
    value = int(Fraction(match[1]) * units[match[2]])
    if value >= _MOST:
        raise ValueError(f"`{text[:40]}` is too large")
    return value


@lru_cache(maxsize=4096)
def rate(text: str) -> int:
    """Return a rate in bit/s; ValueError says what is wrong."""
    return _quantity(text, _RATES, "rate")


@lru_cache(maxsize=4096)
def size(text: str) -> int:
    """Return a size in bytes; what follows a ``/`` (the cell of a rate table) is ignored."""
    return _quantity(text.partition("/")[0], _SIZES, "size")


@lru_cache(maxsize=4096)
def time(text: str) -> int:
    """Return a time in picoseconds."""
    return _quantity(text, _TIMES, "time")


@lru_cache(maxsize=4096)
def number(text: str) -> int:
    """Return a whole number, decimal or hexadecimal, of 32 bits."""
    if not re.fullmatch(r"0[xX][0-9a-fA-F]{1,8}|[0-9]{1,10}", text, re.ASCII):
        raise ValueError(f"`{text[:40]}` is not a number")
    return int(text, 16 if text[:2] in ("0x", "0X") else 10) & 0xFFFFFFFF


def percent(text: str) -> Fraction:
    """Return a share written as ``10%``."""
    match = _NUMBER.fullmatch(text) if len(text) <= 40 else None
    if match is None or match[2] != "%":
        raise ValueError(f"`{text[:40]}` is not a percentage")
    return Fraction(match[1]) / 100


def share(text: str) -> Fraction:
    """Return a probability: ``0.02``, or ``2%``."""
    match = _NUMBER.fullmatch(text) if len(text) <= 40 else None
    if match is None or match[2] not in ("", "%"):
        raise ValueError(f"`{text[:40]}` is not a probability")
    value = Fraction(match[1])
    return value / 100 if match[2] == "%" else value


@lru_cache(maxsize=4096)
def classid(text: str, major: int = 0) -> int:
    """Return the 32 bits of a class such as ``1:10``; both numbers are hexadecimal.

    Args:
        text: The text; ``root`` is all ones.
        major: The number before the colon if the text has none.
    """
    if text == "root":
        return 0xFFFFFFFF
    if text == "none":
        return 0
    match = re.fullmatch(r"(?:0x)?([0-9a-fA-F]{0,4}):(?:0x)?([0-9a-fA-F]{0,4})", text, re.ASCII)
    if match is None:
        whole = re.fullmatch(r"(?:0x)?([0-9a-fA-F]{1,8})", text, re.ASCII)
        if whole is None:
            raise ValueError(f"`{text[:40]}` is not a class such as `1:10`")
        value = int(whole[1], 16)
        return value if value > 0xFFFF else value << 16
    before = int(match[1], 16) if match[1] else major
    return before << 16 | int(match[2] or "0", 16)


def handle(text: str) -> int:
    """Return the number of a qdisc such as ``1:`` or ``1``, in hexadecimal."""
    match = re.fullmatch(r"(?:0x)?([0-9a-fA-F]{1,4})(?::0*)?", text, re.ASCII)
    if match is None:
        raise ValueError(f"`{text[:40]}` is not a handle such as `1:`")
    return int(match[1], 16)
