"""The account of a configuration: the treatment of each line, and the defaults."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from perhop.routers.reading.configuration import Default, Fault, Line, Place, Refusal, Treatment

if TYPE_CHECKING:
    from collections.abc import Iterable

_MOST_NOTES: Final = 6
"""The most notes of a line; further ones repeat what these say of other parts of it."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement of a configuration.

    Attributes:
        lines: Its lines: where they stand, and their texts.
        words: Its words, without comments.
    """

    lines: tuple[tuple[Place, str], ...]
    words: tuple[str, ...]

    @property
    def place(self) -> Place:
        """The first line."""
        return self.lines[0][0]


@dataclass(slots=True)
class _Entry:
    text: str
    treatment: Treatment = Treatment.MODELLED
    notes: dict[str, None] = field(default_factory=dict)
    fault: Fault | None = None
    fault_note: str = ""


class Ledger:
    """The lines about quality of service, each once, and the defaults that apply."""

    def __init__(self, program: str) -> None:
        """Begin without lines.

        Args:
            program: The program that loads the configuration, or refuses it.
        """
        self.program = program
        self.refusal: tuple[Place, str] | None = None
        """The first line that the program refuses, and its reason."""
        self._entries: dict[Place, _Entry] = {}
        self._defaults: dict[Default, None] = {}
        # By identity, as statements can be long; they are kept, so that identities stay theirs.
        self._entered: dict[int, Statement] = {}
        self._said: dict[tuple[int, Treatment, Fault | None], set[str]] = {}

    def modelled(self, statement: Statement) -> None:
        """Enter the lines of a statement, as modelled unless other calls say otherwise."""
        if id(statement) in self._entered:
            return
        self._entered[id(statement)] = statement
        for place, text in statement.lines:
            self._entries.setdefault(place, _Entry(text))

    def approximated(self, statement: Statement, note: str, fault: Fault | None = None) -> None:
        """Enter a statement as approximated, and say how."""
        self._note(statement, Treatment.APPROXIMATED, note, fault)

    def ignored(self, statement: Statement, note: str, fault: Fault | None = None) -> None:
        """Enter a statement as not modelled, and say why."""
        self._note(statement, Treatment.NOT_MODELLED, note, fault)

    def refused(self, statement: Statement, reason: str) -> None:
        """Enter a statement that the program refuses, so that it loads nothing of the file."""
        if self.refusal is None:
            self.refusal = statement.place, reason
        self._note(
            statement,
            Treatment.NOT_MODELLED,
            f"{self.program} refuses it: {reason}",
            Fault.REFUSED,
        )

    def refusals(self, interfaces: Iterable[str]) -> tuple[Refusal, ...]:
        """Return interfaces without a policy, if a line is refused; enter all lines so."""
        if self.refusal is None:
            return ()
        place, reason = self.refusal
        note = f"{self.program} loads nothing of the file, as it refuses {place}"
        for entry in self._entries.values():
            reasons = [each for each in entry.notes if each.startswith(f"{self.program} refuses")]
            entry.treatment = Treatment.NOT_MODELLED
            entry.notes = dict.fromkeys(reasons or [note])
            if not reasons:
                entry.fault = None
        names = dict.fromkeys(name.removeprefix("!") for name in interfaces) or ("the host",)
        return tuple(Refusal(name, place, reason) for name in names)

    def default(self, place: Place, setting: str, value: str, source: str) -> None:
        """Enter a value that the platform sets."""
        self._defaults[Default(place, setting, value, source)] = None

    def _note(
        self, statement: Statement, treatment: Treatment, note: str, fault: Fault | None
    ) -> None:
        self.modelled(statement)
        # A statement of many lines can name many queues, each with a note for all its lines.
        said = self._said.setdefault((id(statement), treatment, fault), set())
        if note in said or len(said) >= _MOST_NOTES:
            return
        said.add(note)
        for place, _ in statement.lines:
            entry = self._entries[place]
            if entry.treatment != Treatment.NOT_MODELLED:
                entry.treatment = treatment
            if fault is not None and entry.fault is None:
                entry.fault, entry.fault_note = fault, note
            if len(entry.notes) < _MOST_NOTES:
                entry.notes[note] = None

    def lines(self, files: Iterable[str]) -> tuple[Line, ...]:
        """Return the lines in the order of the files."""
        order = {file: number for number, file in enumerate(files)}
        return tuple(
            Line(
                place,
                entry.text,
                entry.treatment,
                "; ".join(entry.notes),
                entry.fault,
                entry.fault_note,
            )
            for place, entry in sorted(
                self._entries.items(), key=lambda item: (order[item[0].file], item[0].line)
            )
        )

    def defaults(self) -> tuple[Default, ...]:
        """Return the defaults in the order in which they were entered."""
        return tuple(self._defaults)
