"""Quantities as people write them: `10 Mbps`, `116 ms`, `64 KiB`, `1%`.

Every quantity is a whole number of its base unit, so arithmetic on it is exact:

========  ======================  =======================================
rate      bits per second         bps, kbps, Mbps, Gbps; b/s, kb/s, …
duration  picoseconds             ps, ns, us (µs), ms, s, min, h
size      bytes                   B, kB, MB, GB, KiB, MiB, GiB
share     parts per billion       %
========  ======================  =======================================

In Python, ``Mbps(10)`` is the text ``10 Mbps``, and so on for the units above (``minutes`` and
``percent`` have names in full). A number without a unit is an error, as is one that its base unit
cannot hold exactly. Parsing what a `format_` function wrote gives the same number back.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING

from perhop.printable import printable

if TYPE_CHECKING:
    from collections.abc import Mapping

U64_MAX = 2**64 - 1

PICOSECOND = 1
NANOSECOND = 1_000
MICROSECOND = 1_000_000
MILLISECOND = 1_000_000_000
SECOND = 1_000_000_000_000
DAY = 86_400 * SECOND
MAX_DURATION = 200 * DAY
"""The longest duration, in picoseconds: what fits 64 bits with room for sums."""

WHOLE = 1_000_000_000
"""100%, in parts per billion."""

NUMBER = r"[0-9]+(\.[0-9]+)?"
"""A regular expression of the numbers that stand before a unit."""

_TEXT = re.compile(rf"(?P<sign>-?)(?P<number>{NUMBER}) *(?P<unit>[^\s0-9.].*)?")
_MAX_TEXT = 64


@dataclass(frozen=True, slots=True)
class Quantity:
    """A kind of quantity: its name, its units and its largest value.

    Attributes:
        name: Its name in messages, such as "rate".
        example: One value as people write it.
        units: Base units in one of each unit, smallest unit first.
        step: One base unit, as people write it.
        limit: The largest value, as people write it.
        largest: The largest value, in base units.
        aliases: Other spellings of units, each with the unit that it means.
    """

    name: str
    example: str
    units: Mapping[str, int]
    step: str
    limit: str
    largest: int = U64_MAX
    aliases: Mapping[str, str] = field(default_factory=dict)

    @property
    def spellings(self) -> tuple[str, ...]:
        """Every way to write a unit."""
        return (*self.units, *self.aliases)

    @property
    def pattern(self) -> str:
        """A regular expression that exactly the well-formed texts of this quantity match."""
        return rf"^ *{NUMBER} *({'|'.join(self.spellings)}) *$"

    def parse(self, text: str) -> int:
        """The value of `text` in base units.

        Raises:
            ValueError: `text` is no such quantity; the message says why and what was expected.
        """
        match = _TEXT.fullmatch(text.strip(" ")) if len(text) <= _MAX_TEXT else None
        if match is None:
            raise ValueError(
                f"{quote(text)} is not a {self.name}; expected one such as `{self.example}`"
            )
        unit = match["unit"]
        if unit is None:
            raise ValueError(f"a {self.name} needs a unit, such as `{self.example}`")
        unit = self.aliases.get(unit, unit)
        if unit not in self.units:
            raise ValueError(self._unknown_unit(match["number"], unit))
        if match["sign"]:
            raise ValueError(
                f"{quote(text)} is negative; expected a {self.name} such as `{self.example}`"
            )
        whole, _, fraction = match["number"].partition(".")
        value: int
        value, rest = divmod(int(whole + fraction) * self.units[unit], 10 ** len(fraction))
        if rest:
            raise ValueError(
                f"{quote(text)} is not a multiple of {self.step}, the finest {self.name}"
            )
        if value > self.largest:
            raise ValueError(f"{quote(text)} is more than {self.limit}, the largest {self.name}")
        return value

    def _unknown_unit(self, number: str, unit: str) -> str:
        expected = f"expected one of {', '.join(self.units)}"
        message = f"{quote(unit)} is not a unit of a {self.name}; {expected}"
        likely = _likely_unit(unit, self.units)
        return (
            f"{message}; did you mean `{number}{'' if likely == '%' else ' '}{likely}`?"
            if likely
            else message
        )


_OTHER_SPELLINGS = (
    (re.compile(r"(?<=[kmg])(b/s|bits?/s|bits?|bp/s|b)$|^(b/s|bits?/s)$"), "bps"),
    (re.compile(r"(?<=[kmg])$|(?<=[kmg]i)$"), "b"),
    (re.compile(r"(?<=[kmg])$"), "bps"),
    (re.compile(r"^bytes?$"), "b"),
    (re.compile(r"sec(ond)?s?$"), "s"),
    (re.compile(r"^m(inutes?|ins)$"), "min"),
    (re.compile(r"^h(ours?|rs?)$"), "h"),
    (re.compile(r"^(percent|pct)$"), "%"),
)


def _likely_unit(unit: str, units: Mapping[str, int]) -> str | None:
    """Return the unit that the author of `unit` probably meant."""
    folded = unit.lower().replace("\N{MICRO SIGN}", "u").replace("\N{GREEK SMALL LETTER MU}", "u")
    by_folded = {known.lower(): known for known in units}
    spellings = [folded, *(pattern.sub(other, folded) for pattern, other in _OTHER_SPELLINGS)]
    return next((by_folded[text] for text in spellings if text in by_folded), None)


RATE = Quantity(
    name="rate",
    example="10 Mbps",
    units=MappingProxyType({"bps": 1, "kbps": 10**3, "Mbps": 10**6, "Gbps": 10**9}),
    step="1 bps",
    limit="2^64 - 1 bps",
    # As results say it.
    aliases=MappingProxyType({"b/s": "bps", "kb/s": "kbps", "Mb/s": "Mbps", "Gb/s": "Gbps"}),
)
DURATION = Quantity(
    name="duration",
    example="100 ms",
    units=MappingProxyType(
        {
            "ps": PICOSECOND,
            "ns": NANOSECOND,
            "us": MICROSECOND,
            "ms": MILLISECOND,
            "s": SECOND,
            "min": 60 * SECOND,
            "h": 3600 * SECOND,
        }
    ),
    step="1 ps",
    limit="200 days",
    largest=MAX_DURATION,
    # With U+00B5, as keyboards and results have it, and with the Greek letter.
    aliases=MappingProxyType({"\N{MICRO SIGN}s": "us", "\N{GREEK SMALL LETTER MU}s": "us"}),
)
SIZE = Quantity(
    name="size",
    example="64 KiB",
    units=MappingProxyType(
        {
            "B": 1,
            "kB": 10**3,
            "KiB": 2**10,
            "MB": 10**6,
            "MiB": 2**20,
            "GB": 10**9,
            "GiB": 2**30,
        }
    ),
    step="1 B",
    limit="2^64 - 1 B",
)
SHARE = Quantity(
    name="share",
    example="1%",
    units=MappingProxyType({"%": WHOLE // 100}),
    step="0.0000001%",
    limit="100%",
    largest=WHOLE,
)


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit for scenarios that are written in Python: ``Mbps(10)`` is the text ``10 Mbps``.

    Attributes:
        quantity: The kind of quantity.
        name: The unit as people write it.
    """

    quantity: Quantity
    name: str

    def __call__(self, number: float) -> str:
        """Return `number` of this unit as a scenario writes it.

        Args:
            number: A number of at least zero; a float counts as its shortest decimal form.

        Raises:
            ValueError: `number` is negative, not finite, too large, or too fine for the quantity.
        """
        from decimal import Decimal

        decimal = Decimal(repr(number)) if isinstance(number, float) else Decimal(number)
        text = f"{decimal.normalize():f}{' ' if self.name.isalpha() else ''}{self.name}"
        self.quantity.parse(text)
        return text


bps = Unit(RATE, "bps")
kbps = Unit(RATE, "kbps")
Mbps = Unit(RATE, "Mbps")
Gbps = Unit(RATE, "Gbps")
ns = Unit(DURATION, "ns")
us = Unit(DURATION, "us")
ms = Unit(DURATION, "ms")
s = Unit(DURATION, "s")
minutes = Unit(DURATION, "min")
B = Unit(SIZE, "B")
kB = Unit(SIZE, "kB")  # noqa: N816
KiB = Unit(SIZE, "KiB")
MB = Unit(SIZE, "MB")
MiB = Unit(SIZE, "MiB")
GB = Unit(SIZE, "GB")
GiB = Unit(SIZE, "GiB")
percent = Unit(SHARE, "%")


def parse_rate(text: str) -> int:
    """Return the bits per second of `text`, such as ``10 Mbps``; ValueError has the reason."""
    return RATE.parse(text)


def parse_duration(text: str) -> int:
    """Return the picoseconds of `text`, such as ``116 ms``; ValueError has the reason."""
    return DURATION.parse(text)


def parse_size(text: str) -> int:
    """Return the bytes of `text`, such as ``64 KiB``; ValueError has the reason."""
    return SIZE.parse(text)


def parse_share(text: str) -> int:
    """Return the parts per billion of `text`, such as ``1%``; ValueError has the reason."""
    return SHARE.parse(text)


@lru_cache(maxsize=1024)
def format_rate(bps: int) -> str:
    """Format `bps` bits per second in the largest unit that fits: ``10 Mbps``, ``1.5 kbps``."""
    return _format_decimal(bps, RATE.units)


@lru_cache(maxsize=1024)
def format_duration(ps: int) -> str:
    """Format `ps` picoseconds in the largest unit up to seconds that fits: ``116 ms``, ``90 s``."""
    units = {unit: factor for unit, factor in DURATION.units.items() if factor <= SECOND}
    return _format_decimal(ps, units) if ps else "0 s"


@lru_cache(maxsize=1024)
def format_size(size: int) -> str:
    """Format `size` bytes as the shortest whole number of a unit: ``64 KiB``, ``1460 B``."""
    whole = [
        f"{size // factor} {unit}"
        for unit, factor in SIZE.units.items()
        if size % factor == 0 and (size or factor == 1)
    ]
    return min(whole, key=len)


@lru_cache(maxsize=1024)
def format_share(ppb: int) -> str:
    """Format `ppb` parts per billion as per cent: ``1%``, ``0.5%``."""
    return f"{_decimal(ppb, WHOLE // 100)}%"


def quote(value: object, limit: int = 40) -> str:
    """Return `value` in backticks: one line, printable, at most `limit` characters."""
    text = value if isinstance(value, str) else repr(value)
    return f"`{printable(text, limit)}`"


def _format_decimal(value: int, units: Mapping[str, int]) -> str:
    """Format `value` exactly in the largest of `units` (smallest first) that fits."""
    unit, factor = next(iter(units.items()))
    for candidate, size in units.items():
        if value >= size:
            unit, factor = candidate, size
    return f"{_decimal(value, factor)} {unit}"


def _decimal(value: int, factor: int) -> str:
    """Return `value / factor` as an exact decimal; `factor` is a power of ten."""
    whole, rest = divmod(value, factor)
    if not rest:
        return str(whole)
    return f"{whole}.{str(rest).zfill(len(str(factor)) - 1).rstrip('0')}"
