"""Scalars: what a file may say, drawn from the JSON Schema of its field."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, get_args

from hypothesis import strategies as st

from perhop.scenario.model.network import QueueLimit
from perhop.units import (
    DURATION,
    MAX_DURATION,
    RATE,
    SHARE,
    SIZE,
    U64_MAX,
    WHOLE,
    format_duration,
    format_rate,
    format_share,
    format_size,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from perhop.scenario.model.text import Text


LIMIT: Final[Text] = get_args(QueueLimit)[1]
"""Reader of the limits of queues."""


_STEPS: Final = 2**14
"""Resolution with which a range of numbers is drawn from."""

_PLACES: Final = st.tuples(st.integers(0, 127), st.integers(0, 127)).map(
    lambda n: 128 * n[0] + n[1]
)
"""A place from 0 to `_STEPS`; hypothesis draws from short ranges evenly."""


def _scaled(low: int, high: int, place: int) -> int:
    """The number at a place from `low` to `high`, on a logarithmic scale."""
    if high - low < _STEPS // 4:
        return low + place * (high - low + 1) // _STEPS
    if place >= _STEPS - 100:
        return high - place % 2
    if not place:
        return low
    return round(max(low, 1) * (high / max(low, 1)) ** (place / _STEPS))


def integers(low: int, high: int) -> st.SearchStrategy[int]:
    """Whole numbers, as many of each order of magnitude, and both ends."""
    return _PLACES.map(lambda place: _scaled(low, high, place))


@dataclass(frozen=True, slots=True)
class _Numbers:
    """The numbers of a quantity: those that are usual, the largest, and how they are written."""

    usual: tuple[int, int]
    largest: int
    write: Callable[[int], str]

    def between(self, low: int, high: int) -> st.SearchStrategy[str]:
        """Texts from `low` to `high`, usual ones mostly."""
        first, last = (max(low, min(end, high)) for end in self.usual)

        def at(drawn: tuple[int, int]) -> str:
            which, place = drawn
            ends = (low, high) if which == 9 else (first, last)
            return self.write(_scaled(*ends, place))

        return st.tuples(st.integers(0, 9), _PLACES).map(at)


_QUANTITIES: Final[Mapping[str, _Numbers]] = {
    RATE.pattern: _Numbers((100_000, 10**10), U64_MAX, format_rate),
    DURATION.pattern: _Numbers((10**6, 10**11), MAX_DURATION, format_duration),
    SIZE.pattern: _Numbers((64, 2**20), U64_MAX, format_size),
    SHARE.pattern: _Numbers((10**6, WHOLE // 2), WHOLE, format_share),
}

_LIMITS: Final = st.one_of(
    *[integers(1, 2000).map(lambda n: f"{n} packets")] * 3,
    integers(1, U64_MAX).map(lambda n: f"{n} packets"),
    _QUANTITIES[SIZE.pattern].between(1, U64_MAX),
    _QUANTITIES[DURATION.pattern].between(1, MAX_DURATION),
)

NAMES: Final = (
    *("a", "b", "c", "d", "e", "f", "g", "h", "r1", "r2", "web", "bulk", "voice", "gold"),
    # Words with a meaning in YAML or in scenarios.
    *("all", "any", "none", "on", "yes", "off", "Null_", "host", "drop", "strict", "NaN", "inf"),
    *("clear", "links", "flows", "_", "__proto__", "x-y_z", "A" * 64, "e5", "inf-1", "i", "o"),
)
"""Names of nodes, policies, classes, flows and pings."""

TEXTS: Final = st.one_of(
    st.sampled_from(
        [
            "",
            "A title",
            "<script>alert(1)</script> & \"quoted\" 'text'",
            "two\nlines\n\nand a third",
            "right to left: \N{HEBREW LETTER ALEF}, \N{RIGHT-TO-LEFT OVERRIDE}, \N{SNOWMAN}",
            "a backslash \\ and {{braces}} and [red]markup[/red] and %s %(x)s",
            "x" * 3000,
            " leading and trailing ",
            "null",
            "1e5",
        ]
    ),
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20),
)
"""Titles, labels and notes."""


def scalars(text: Text) -> st.SearchStrategy[Any]:
    """Text that a file may have where `text` reads it."""

    def right(value: object) -> bool:
        try:
            text.validate(value)
        except ValueError:
            return False
        return True

    if text is LIMIT:
        return _LIMITS
    numbers = _QUANTITIES.get(text.schema.get("pattern", ""))
    if numbers is None:
        return from_schema(text.schema).filter(right)
    powers = [0, *(2**n for n in range(64) if 2**n <= numbers.largest), numbers.largest]
    inside = [number for number in powers if right(numbers.write(number))]
    assert inside, f"no power of two is {text.expected}"

    def edge(within: int, beyond: int) -> int:
        while abs(within - beyond) > 1:
            middle = (within + beyond) // 2
            if right(numbers.write(middle)):
                within = middle
            else:
                beyond = middle
        return within

    low = edge(inside[0], max((n for n in powers if n < inside[0]), default=-1))
    high = edge(inside[-1], min((n for n in powers if n > inside[-1]), default=inside[-1] + 1))
    return numbers.between(low, high)


def from_schema(schema: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    """Values that agree with a JSON Schema of a scalar."""
    match schema:
        case {"const": value}:
            return st.just(value)
        case {"enum": values}:
            return st.sampled_from(list(values))
        case {"anyOf": forms}:
            return st.one_of(*map(from_schema, forms))
        case {"type": "integer"}:
            return integers(schema.get("minimum", 0), schema.get("maximum", 2**40))
        case {"type": "number"}:
            low, high = schema["minimum"], schema["maximum"]
            return st.integers(round(low * 1000), round(high * 1000)).map(lambda n: n / 1000)
        case {"pattern": pattern} if pattern in _QUANTITIES:
            return _QUANTITIES[pattern].between(1, _QUANTITIES[pattern].largest)
        case {"format": "ipv4"}:
            return st.integers(1, 2**32 - 2).map(lambda n: ".".join(map(str, n.to_bytes(4))))
        case {"pattern": pattern, "maxLength": _}:
            return st.sampled_from(NAMES)
        case {"pattern": pattern}:
            return st.from_regex(pattern.replace("$", r"\Z"))
        case {"examples": examples}:
            return st.sampled_from(list(examples))
        case {"type": "string"}:
            return st.sampled_from(NAMES)
    raise NotImplementedError(f"no strategy for the schema {schema}")
