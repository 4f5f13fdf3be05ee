"""Paths between two nodes, with their conditions and their free bandwidth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perhop_services.common.errors import BadRequestError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perhop._core import Calendar, PathConstraints
    from perhop_services.reservations.model import Reservation, Terms, Wishes
    from perhop_services.reservations.network import Network

ALTERNATIVES: Final = 8
"""Number of paths that are tried before a refusal."""

_MOST: Final = 100_000
"""Number of shortest paths in the cache."""


class Routes:
    """Paths, each a list of numbers of links."""

    def __init__(self, network: Network, calendar: Calendar) -> None:
        self._network = network
        self._calendar = calendar
        self._known: dict[tuple[str, str, Wishes], list[int] | None] = {}

    def shortest(self, terms: Terms, wishes: Wishes, at: int) -> list[int] | None:
        """Return the shortest path, without regard to bookings; most bookings find room on it."""
        asked = (terms.source, terms.destination, wishes)
        if asked not in self._known:
            if len(self._known) >= _MOST:
                self._known.clear()
            limits = self._limits(terms, wishes)
            found = self._calendar.paths(self._ends(terms), None, at, at + 1, 0, limits, 1)
            self._known[asked] = found[0].links if found else None
        return self._known[asked]

    def candidates(self, terms: Terms, wishes: Wishes, start: int) -> list[list[int]]:
        """Paths to look at: those with room, then those that would be there in an empty network.

        Raises:
            BadRequestError: There is none, or something is named that there is not.
        """
        ends = self._ends(terms)
        if ends[0] == ends[1]:
            raise BadRequestError(f"{terms.source!r} is source and destination; expected two nodes")
        class_, limits = self._network.class_number(terms.class_), self._limits(terms, wishes)
        found: list[list[int]] = []
        for rate in (terms.rate, 0) if terms.direction != "reverse" else (0,):
            paths = self._calendar.paths(ends, class_, start, terms.end, rate, limits, ALTERNATIVES)
            found += [path.links for path in paths if path.links not in found]
        if not found:
            raise BadRequestError(
                f"no path from {terms.source} to {terms.destination} was found that keeps to what "
                "was asked; expected one over routers, or less excluded, or the `path` by name"
            )
        return found

    def widest(self, terms: Terms, wishes: Wishes, start: int) -> tuple[list[int], int]:
        """The path on which most is free throughout, and how much; no links if there is none."""
        class_, limits = self._network.class_number(terms.class_), self._limits(terms, wishes)
        found = self._calendar.widest(self._ends(terms), class_, start, terms.end, limits)
        return (found.links, found.free or 0) if found else ([], 0)

    def named(self, terms: Terms, path: Sequence[str]) -> list[int]:
        """The path of links with these names.

        Raises:
            BadRequestError: There are no such links, or they are no path between the two.
        """
        links = [self._network.link(name) for name in path]
        at, touched = terms.source, {terms.source}
        for number in links:
            link = self._network.links[number]
            if link.source != at:
                raise BadRequestError(f"the path goes on from {at}, and {link.name!r} does not")
            if at != terms.source and at in self._network.hosts:
                raise BadRequestError(f"the path leads through {at}; only routers forward")
            at = link.target
            if at in touched:
                raise BadRequestError(f"the path comes to {at} twice; expected one without a loop")
            touched.add(at)
        if at != terms.destination or not links:
            raise BadRequestError(f"the path ends at {at}; expected one to {terms.destination}")
        return links

    def of(self, reservation: Reservation) -> list[int]:
        """Return the path of a reservation."""
        return [self._network.link(name) for name in reservation.path]

    def _ends(self, terms: Terms) -> tuple[int, int]:
        return self._network.node(terms.source), self._network.node(terms.destination)

    def _limits(self, terms: Terms, wishes: Wishes) -> PathConstraints:
        return self._network.limits(wishes, terms.source, terms.destination)
