"""The values between two ends, in linear or geometric steps."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from math import ceil, floor, log, log10
from typing import TYPE_CHECKING, Final

from perhop.errors import UsageError
from perhop.scenario.model.quantities import (
    ANY_DURATION,
    ANY_PACKETS,
    ANY_RATE,
    ANY_RATIO,
    ANY_SHARE,
    ANY_SIZE,
)
from perhop.units import SECOND, WHOLE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perhop.scenario.model.text import Text

__all__ = ["Kind", "Values", "kind_of", "parse_values"]

_FACTOR: Final = "1.01"
_LINEAR: Final = 100
_MOST: Final = 100_000


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of values.

    Attributes:
        unit: The unit of their numbers in results; "" for plain numbers.
        text: How a file writes them.
        scale: How many of the whole numbers in between make one unit.
    """

    unit: str
    text: Text
    scale: int

    def grain(self, *values: int) -> int:
        """Return the least difference of values like these: 1 for whole numbers without a unit."""
        whole = not self.unit and not any(value % self.scale for value in values)
        return self.scale if whole else 1


KINDS: Final = (
    Kind("", ANY_RATIO, 10**6),
    Kind("bps", ANY_RATE, 1),
    Kind("s", ANY_DURATION, SECOND),
    Kind("bytes", ANY_SIZE, 1),
    Kind("share", ANY_SHARE, WHOLE),
    Kind("packets", ANY_PACKETS, 1),
)
"""The kinds of values that a range may have."""


@dataclass(frozen=True, slots=True)
class Values:
    """Values of one kind, from the first to the last.

    Attributes:
        kind: Their kind.
        steps: The values as whole numbers.
    """

    kind: Kind
    steps: Sequence[int]

    def __len__(self) -> int:
        """Return the number of values."""
        return len(self.steps)

    def text(self, index: int) -> str:
        """Return a value as a file writes it."""
        return str(self.kind.text.format(self.steps[index]))

    def number(self, index: int) -> float:
        """Return a value in the unit of its kind."""
        return self.steps[index] / self.kind.scale


def kind_of(*texts: str) -> tuple[Kind, list[int]] | None:
    """Return the kind that some values have in common, and the values; None if there is none."""
    for kind in KINDS:
        with suppress(ValueError):
            return kind, [kind.text.parse(text.strip()) for text in texts]
    return None


def parse_values(between: str, step: str | None = None) -> Values:
    """Return the values of a range ``FIRST..LAST``, which may fall.

    Args:
        between: Two quantities of one kind, or two numbers.
        step: The difference of two values, a quantity of the same kind; or their ratio, such as
            ``x1.05``. By default 1 for whole numbers, a hundredth of the range if it begins or ends
            with zero, and otherwise ``x1.01``.

    Raises:
        UsageError: The texts have another form, or make too many values.
    """
    first, _, last = between.partition("..")
    parsed = kind_of(first, last)
    if parsed is None:
        raise UsageError(
            f"--between {between}: expected two values of one kind, such as `1..64` or "
            "`1 Mbps..20 Mbps`"
        )
    kind, (begin, end) = parsed
    low, high = sorted((begin, end))
    if low == high:
        raise UsageError(f"--between {between}: the ends are equal; expected two values")
    grain = kind.grain(low, high)
    whole = grain > 1
    found: Sequence[int]
    if step is not None and not step.startswith("x"):
        found = _linear((begin, end), _difference(step, kind))
    elif step is None and (whole or not low):
        found = _linear((begin, end), kind.scale if whole else max(1, high // _LINEAR))
    else:
        found = _geometric(low, high, step or f"x{_FACTOR}", grain)
        found = found if begin == low else found[::-1]
    if len(found) < 2:
        raise UsageError(f"--step {step}: is more than the range {between}; expected less")
    return Values(kind, found)


def _linear(ends: tuple[int, int], step: int) -> range:
    """Return values with a difference, from the first end."""
    first, last = ends
    return range(first, last + 1, step) if first < last else range(first, last - 1, -step)


def _difference(step: str, kind: Kind) -> int:
    try:
        found: int = kind.text.parse(step.strip())
    except ValueError as error:
        raise UsageError(f"--step {step}: {error}; or a ratio such as `x1.05`") from None
    if not found:
        raise UsageError(f"--step {step}: is zero; expected more")
    return found


def _geometric(low: int, high: int, step: str, grain: int) -> Sequence[int]:
    """Return values with a ratio, rounded to few digits and to multiples of `grain`."""
    try:
        factor = float(step.removeprefix("x"))
    except ValueError:
        factor = 0.0
    if not 1 < factor < float("inf"):
        raise UsageError(f"--step {step}: expected a ratio above 1, such as `x1.05`")
    if not low:
        raise UsageError(f"--step {step}: a range with zero has no ratio; expected a difference")
    count = log(high / low) / log(factor)
    if count > _MOST:
        raise UsageError(f"--step {step}: makes {count:,.0f} values; expected at most {_MOST:,}")
    # Enough that two values differ.
    digits = max(3, ceil(-log10(factor - 1)) + 1)
    found = {low, high}
    for power in range(1, floor(count) + 1):
        value = low * factor**power
        unit = max(grain, 10 ** max(0, floor(log10(value)) + 1 - digits))
        found.add(round(value / unit) * unit)
    return sorted(value for value in found if low <= value <= high)
