"""The account of a configuration: what became of each line, and the defaults that were applied."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perhop.routers.reading.configuration import Default, Fault, Line, Treatment

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


class Account:
    """Lines and defaults; of several treatments of a line, the worst counts."""

    def __init__(self) -> None:
        """Begin with no line."""
        self._lines: dict[Place, Line] = {}
        self._defaults: dict[tuple[Place, str], Default] = {}

    def modelled(self, statement: Statement) -> None:
        """Note that the policy does what a line says."""
        self._note(statement, Treatment.MODELLED, "")

    def approximated(self, statement: Statement, note: str) -> None:
        """Note how the policy differs from a line."""
        self._note(statement, Treatment.APPROXIMATED, note)

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

    def default(self, place: Place, setting: str, value: str, source: str) -> None:
        """Note a value that the platform gives a setting."""
        self._defaults.setdefault((place, setting), Default(place, setting, value, source))

    def _note(
        self, statement: Statement, treatment: Treatment, note: str, fault: Fault | None = None
    ) -> None:
        known = self._lines.get(statement.place)
        worse = known is None or _SEVERITY[known.treatment] < _SEVERITY[treatment]
        # A note may continue the one that there is.
        if worse or (known is not None and known.note and note.startswith(known.note)):
            line = Line(statement.place, statement.text, treatment, note, fault)
            self._lines[statement.place] = line

    @property
    def lines(self) -> tuple[Line, ...]:
        """The lines in the order of the files."""
        return tuple(self._lines.values())

    @property
    def defaults(self) -> tuple[Default, ...]:
        """The defaults in the order in which they were applied."""
        return tuple(self._defaults.values())
