"""The account of a configuration: what became of each line, and the defaults that were applied."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perhop.routers.reading.configuration import Default, Fault, Line, Treatment
from perhop.routers.reading.ios.tree import CONTINUED
from perhop.routers.reading.ios.unchecked import unchecked

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perhop.routers.reading.configuration import Place
    from perhop.routers.reading.ios.tree import Statement

_SEVERITY: Final = {
    Treatment.MODELLED: 0,
    Treatment.APPROXIMATED: 1,
    Treatment.NOT_MODELLED: 2,
}

UNKNOWN: Final = "unknown statement"

_LONGEST: Final = 300
"""Characters of notes that another one is added to."""


class Account:
    """Lines and defaults; of several treatments of a line, the worst counts.

    A line that several interfaces approximate in different ways has all of these notes.
    """

    def __init__(self) -> None:
        """Begin with no line."""
        self._lines: dict[Place, Line] = {}
        self._defaults: dict[tuple[Place, str], Default] = {}

    def has(self, statement: Statement) -> bool:
        """Return whether a line has a treatment."""
        return statement.place in self._lines

    def modelled(self, statement: Statement) -> None:
        """Note that the policy does what a line says, and the lines that continue it."""
        note = unchecked(statement)
        treatment = Treatment.MODELLED if note is None else Treatment.APPROXIMATED
        self._note(statement, treatment, note or "")
        for child in statement.children:
            if child.kind == CONTINUED:
                self._note(child, Treatment.MODELLED, "")

    def approximated(self, statement: Statement, note: str, fault: Fault | None = None) -> None:
        """Note how the policy differs from a line."""
        self._note(statement, Treatment.APPROXIMATED, note, fault)

    def not_modelled(
        self, statement: Statement, note: str = UNKNOWN, fault: Fault | None = None
    ) -> None:
        """Note why the policy ignores a line."""
        self._note(statement, Treatment.NOT_MODELLED, note, fault)

    def undefined(self, statement: Statement, what: str) -> None:
        """Note that a line names something that the configuration does not define."""
        self.not_modelled(statement, f"no {what}", Fault.UNDEFINED)

    def ignored(self, statements: Iterable[Statement], note: str) -> None:
        """Note why the policy ignores lines that have no treatment yet, and what they contain."""
        todo = list(statements)
        while todo:
            statement = todo.pop()
            if statement.place not in self._lines:
                self.not_modelled(statement, note)
            todo += statement.children

    def removed(self, before: Iterable[Statement], statement: Statement) -> None:
        """Note a ``no`` statement, the lines that it takes back, and what they contain."""
        self.modelled(statement)
        for each in before:
            self.not_modelled(each, f"removed in line {statement.place.line}")
            self.ignored(each.children, f"removed in line {statement.place.line}")

    def default(self, place: Place, setting: str, value: str, source: str) -> None:
        """Note a value that the platform gives a setting."""
        self._defaults.setdefault((place, setting), Default(place, setting, value, source))

    def _note(
        self, statement: Statement, treatment: Treatment, note: str, fault: Fault | None = None
    ) -> None:
        known = self._lines.get(statement.place)
        if known is not None and known.treatment is treatment:
            if note in known.note and fault in (None, known.fault):
                return
            if not note.startswith(known.note):  # else it continues the one that there is
                if treatment is Treatment.NOT_MODELLED or len(known.note) > _LONGEST:
                    return
                note = f"{known.note}; {note}"
            fault = fault or known.fault
        elif known is not None and _SEVERITY[known.treatment] > _SEVERITY[treatment]:
            return
        self._lines[statement.place] = Line(
            statement.place, statement.text, treatment, note, fault, note if fault else ""
        )

    @property
    def lines(self) -> tuple[Line, ...]:
        """The lines in the order of the files."""
        return tuple(self._lines.values())

    @property
    def defaults(self) -> tuple[Default, ...]:
        """The defaults in the order in which they were applied."""
        return tuple(self._defaults.values())
