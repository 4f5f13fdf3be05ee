"""The fate of every line about quality of service."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from perhop.routers.reading.configuration import Default, Fault, Line, Place, Source, Treatment

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["Ledger"]

MOST_LINES: Final = 2**17
"""The most lines of a file that are read."""

_WEIGHT: Final = {each: weight for weight, each in enumerate(Treatment)}
_MODELLED: Final[tuple[Treatment, tuple[str, ...]]] = (Treatment.MODELLED, ())
_OWN_WORDS: Final[Mapping[str, str]] = MappingProxyType({})
_MOST_NOTES: Final = 4
_MOST_TEXT: Final = 200


class RefusedError(Exception):
    """A command that tc or the kernel refuses; the message is theirs."""


class PresentError(RefusedError):
    """A command that what the interface has already forbids."""


class AbsentError(RefusedError):
    """A command below a qdisc or a class that the interface does not have."""


class Ledger:
    """The lines of a configuration, each with what became of it, and the defaults.

    Several commands can stand on a line, and a command can be read several times: the worst
    treatment counts, and the notes add up.

    Attributes:
        unread_class: True if a line that defines a class is not modelled.
    """

    def __init__(self, files: Iterable[str], wording: Mapping[str, str] = _OWN_WORDS) -> None:
        """Begin without lines.

        Args:
            files: The files in their order.
            wording: Phrases of notes, and those of another family in their place.
        """
        self._wording = wording
        self._order = {file: index for index, file in enumerate(files)}
        self.unread_class = False
        self._texts: dict[Place, str] = {}
        self._notes: dict[Place, tuple[Treatment, tuple[str, ...]]] = {}
        self._faults: dict[Place, tuple[Fault, str]] = {}
        self._defaults: dict[tuple[Place, str, str, str], None] = {}

    def bounded(self, text: Source) -> Source:
        """Return a file without the lines after the first `MOST_LINES`, which are noted."""
        if text.text.count("\n") < MOST_LINES:
            return text
        *lines, rest = text.text.split("\n", MOST_LINES)
        if rest:
            place = Place(text.file, MOST_LINES + 1)
            self.about(place, rest.partition("\n")[0])
            self.ignored(place, f"perhop reads {MOST_LINES:,} lines of a file at most")
        return Source(text.file, "\n".join(lines))

    def about(self, place: Place, text: str) -> None:
        """Note a line, as modelled unless something else is said of it."""
        if not self._texts.get(place):
            self._texts[place] = text.strip()[:_MOST_TEXT]

    def approximated(self, place: Place, note: str, fault: Fault | None = None) -> None:
        """Note how the policy differs from a line."""
        self._note(place, Treatment.APPROXIMATED, note, fault)

    def ignored(self, place: Place, note: str, fault: Fault | None = None) -> None:
        """Note why the policy ignores a line."""
        self._note(place, Treatment.NOT_MODELLED, note, fault)

    def fault(self, place: Place, note: str, fault: Fault) -> None:
        """Note a fault of a line, which the policy has, too."""
        self._faults.setdefault(place, (fault, note))

    def default(self, place: Place, setting: str, value: str, source: str) -> None:
        """Note a default that the platform applies."""
        self._defaults[place, setting, value, source] = None

    def treatment(self, place: Place) -> Treatment:
        """Return what became of a line so far."""
        return self._notes.get(place, _MODELLED)[0]

    def _note(self, place: Place, treatment: Treatment, note: str, fault: Fault | None) -> None:
        for phrase, other in self._wording.items():
            note = note.replace(phrase, other)
        if fault is not None:
            self._faults.setdefault(place, (fault, note))
        text = self._texts.setdefault(place, "")
        if treatment is Treatment.NOT_MODELLED and "classid" in text:
            self.unread_class = True
        before, notes = self._notes.get(place, _MODELLED)
        worse = max(before, treatment, key=_WEIGHT.__getitem__)
        if note not in notes and len(notes) < _MOST_NOTES:
            notes = (*notes, note)
        self._notes[place] = (worse, notes)

    def lines(self) -> tuple[Line, ...]:
        """Return the lines in the order of the files."""
        return tuple(
            Line(place, text, treatment, "; ".join(notes), *self._faults.get(place, (None, "")))
            for place, text in sorted(
                self._texts.items(), key=lambda item: (self._order[item[0].file], item[0])
            )
            for treatment, notes in (self._notes.get(place, _MODELLED),)
        )

    def defaults(self) -> tuple[Default, ...]:
        """Return the defaults."""
        return tuple(Default(*each) for each in self._defaults)
