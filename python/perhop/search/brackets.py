"""Values around the present one of a key, doubled and halved, among which a range is searched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perhop.errors import ScenarioError, UsageError
from perhop.scenario import value_at
from perhop.search.values import Kind, Values, kind_of, parse_values
from perhop.units import WHOLE, quote

if TYPE_CHECKING:
    from collections.abc import Callable

    from perhop.scenario import Scenario

__all__ = ["around"]

TURNS: Final = 6
"""How often a value is doubled, and halved: up to 64 times and a 64th."""

_ASK: Final = "give --between A..B"


def around(scenario: Scenario, path: str, accepted: Callable[[str], bool]) -> tuple[Values, int]:
    """Return the present value of a key, doubled and halved, in rising order, and its place.

    Whole numbers stay whole, shares end at 100%. If the scenario refuses a value, the last one on
    the way to it that it takes is the end.

    Args:
        scenario: The scenario.
        path: The path of the key, as for `perhop.load`.
        accepted: A function that returns whether the scenario takes a value.

    Raises:
        UsageError: There is no such value, or none that can be doubled.
    """
    kind, start = _present(scenario, path)
    below = _way(kind, start, False, accepted)
    above = _way(kind, start, True, accepted)
    if not below and not above:
        said = f"the scenario takes no other value around {kind.text.format(start)}"
        raise UsageError(f"{quote(path, 80)}: {said}; {_ASK}")
    return Values(kind, [*reversed(below), start, *above]), len(below)


def _present(scenario: Scenario, path: str) -> tuple[Kind, int]:
    """Return the kind of the present value, and the value."""
    said = f"{quote(path, 80)}: the range is sought around the present value"
    try:
        value: Any = value_at(scenario, path)
    except ScenarioError as error:
        problem = error.found[0]
        told = "; ".join(filter(None, (f"{problem.path}: {problem.message}", problem.hint)))
        raise UsageError(f"{quote(path, 80)}: {told}") from None
    if value is None:
        raise UsageError(f"{said}, which the scenario does not set; {_ASK}")
    if isinstance(value, (dict, list)):
        parts = "a list" if isinstance(value, list) else "a mapping"
        raise UsageError(f"{said}, which is {parts}; expected the path of a single value")
    found = kind_of(str(value))
    if isinstance(value, bool) or found is None:
        raise UsageError(f"{said}, and {quote(str(value))} is no quantity; {_ASK}")
    kind, (start,) = found
    if start <= 0:
        raise UsageError(f"{said}, and {value} cannot be doubled; {_ASK}")
    return kind, start


def _way(kind: Kind, start: int, up: bool, accepted: Callable[[str], bool]) -> list[int]:
    """Return the values above or below the present one, from it on."""
    grain = kind.grain(start)
    found: list[int] = []
    last = start
    for turn in range(1, TURNS + 1):
        value = start << turn if up else (start >> turn) // grain * grain
        if kind.unit == "share" and start <= WHOLE:
            value = min(value, WHOLE)
        if value in (0, last):
            break
        if not accepted(str(kind.text.format(value))):
            nearest = _last_accepted(kind, last, value, accepted)
            return found if nearest is None else [*found, nearest]
        found.append(value)
        last = value
    return found


def _last_accepted(kind: Kind, good: int, bad: int, accepted: Callable[[str], bool]) -> int | None:
    """Return the value nearest to a refused one that is taken; None if it is `good` itself."""
    ends = (str(kind.text.format(end)) for end in (good, bad))
    values = parse_values("..".join(ends))
    low, high = 0, len(values) - 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if accepted(values.text(middle)) else (low, middle)
    return values.steps[low] if low else None
