"""Which packets are spoken for when: no two reservations are for the same ones at once."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from perhop.reservations.errors import ConflictError, when

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perhop._core import Calendar
    from perhop.reservations.model import Selector, Terms

OLD: Final = 1 << 61
"""Added to a reservation's number: what is kept of its old terms while new ones are put in
place."""


class Packets:
    """What reservations are for, by the two ends and by time."""

    def __init__(self, calendar: Calendar) -> None:
        self._calendar = calendar
        self._pairs: dict[tuple[str, str], int] = {}
        self._selectors: dict[Selector, int] = {}
        self._by_number: list[Selector] = []

    def check(self, id_: int, terms: Terms) -> None:
        """Whether a reservation may be for these packets.

        Raises:
            ConflictError: Another is for some of them.
        """
        for source, destination, other, theirs, end in self._claims(id_, terms):
            free = self.free_from(id_, terms)
            raise ConflictError(
                f"reservation {other} is for some of the packets from {source} to {destination} "
                f"at that time already ({theirs}), up to {when(end)}; expected other ports, "
                f"another protocol or DSCP, or a time from {when(free)}",
                {"reservation": other, "selector": str(theirs), "until": end, "earliest": free},
            )

    def free_from(self, id_: int, terms: Terms) -> int:
        """From when on no other reservation is for some of the same packets, for as long."""
        while ends := [end for *_, end in self._claims(id_, terms)]:
            start = max(ends)
            terms = replace(terms, start=start, end=start + terms.end - terms.start)
        return terms.start

    def _claims(self, id_: int, terms: Terms) -> Iterator[tuple[str, str, int, Selector, int]]:
        """Other reservations for some of the same packets in the same span.

        Yields:
            From where to where, the other's number, which packets it is for, and when it ends.
        """
        for source, destination, selector in terms.lanes:
            pair = self.pair(source, destination)
            for kept, number, end in self._calendar.meeting(pair, terms.start, terms.end):
                other, theirs = kept & (OLD - 1), self._by_number[number]
                if other != id_ and theirs.overlaps(selector):
                    yield source, destination, other, theirs, end

    def occupy(self, id_: int, terms: Terms) -> None:
        """From now on they are this reservation's."""
        for source, destination, selector in terms.lanes:
            pair, which = self.pair(source, destination), self.selector(selector)
            self._calendar.occupy(pair, id_, which, terms.start, terms.end)

    def vacate(self, id_: int, terms: Terms) -> None:
        """They are nobody's any more."""
        for source, destination, _ in terms.lanes:
            self._calendar.vacate(self.pair(source, destination), id_, terms.start, terms.end)

    def pair(self, source: str, destination: str) -> int:
        """The number of two ends."""
        return self._pairs.setdefault((source, destination), len(self._pairs))

    def selector(self, selector: Selector) -> int:
        """The number of a selector."""
        number = self._selectors.get(selector)
        if number is None:
            number = self._selectors[selector] = len(self._by_number)
            self._by_number.append(selector)
        return number
