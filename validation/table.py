"""A table of what is expected and what was measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


@dataclass(frozen=True)
class Row:
    """A figure.

    Attributes:
        setting: What it is of.
        expected: What the source says.
        measured: What perhop measures, in the same unit.
        tolerance: How far apart they may be: as a share of `expected`, or, of a `bound`, by how
            much of it `measured` may be above.
        kind: Whether the two should be equal, or `expected` is an upper bound.
        slack: How far apart they may be in any case, in their unit.
    """

    setting: str
    expected: float
    measured: float
    tolerance: float
    kind: Literal["equal", "bound"] = "equal"
    slack: float = 0.0

    @property
    def ok(self) -> bool:
        """True if the measured figure is near enough."""
        difference = self.measured - self.expected
        if self.kind == "equal":
            difference = abs(difference)
        return difference <= max(self.tolerance * abs(self.expected), self.slack)

    def markdown(self) -> str:
        """Its line of a table."""
        ratio = f"{self.measured / self.expected:.4f}" if self.expected else ""
        bound = "≤ " if self.kind == "bound" else ""
        allowed = f"{self.tolerance:.2%}" if self.kind == "equal" or self.tolerance else "none"
        if self.slack:
            allowed = f"{self.slack:g}" if not self.tolerance else f"{allowed} or {self.slack:g}"
        return (
            f"| {self.setting} | {bound}{self.expected:.6g} | {self.measured:.6g} | {ratio} | "
            f"{allowed} | {'yes' if self.ok else '**no**'} |"
        )


@dataclass(frozen=True)
class Table:
    """Figures from one source.

    Attributes:
        name: What it is called on the command line.
        title: What it is about.
        unit: The unit of its figures.
        source: Where what is expected comes from.
        notes: How it is measured, and what remains.
        rows: A function that measures.
        quick: Whether that takes a few seconds at most.
    """

    name: str
    title: str
    unit: str
    source: str
    notes: str
    rows: Callable[[], Iterable[Row]]
    quick: bool = True

    def markdown(self, rows: list[Row]) -> str:
        """The table, measured."""
        lines = [
            f"## {self.title}",
            "",
            f"Source: {self.source}",
            "",
            self.notes,
            "",
            f"| setting | expected ({self.unit}) | measured | ratio | tolerance | ok |",
            "|---|---|---|---|---|---|",
        ]
        return "\n".join([*lines, *(row.markdown() for row in rows)]) + "\n"
