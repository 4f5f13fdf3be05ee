"""Admission of reservations: free bandwidth and paths, shortages, and the next possible start.

The calendar in memory, with everything that takes up room in it. It decides and remembers, and
never reads the database or a clock.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from perhop._core import (
    Booking,
    Calendar,
    StoredDirection,
    StoredPath,
    StoredReservations,
    StoredSelector,
)
from perhop_services.common.users import Quota
from perhop_services.reservations import records
from perhop_services.reservations.holdings import Holdings
from perhop_services.reservations.packets import Packets
from perhop_services.reservations.refusals import Asked, Refusals
from perhop_services.reservations.routes import Routes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from perhop._core import Stretch
    from perhop_services.reservations.model import Direction, Reservation, Terms, Wishes
    from perhop_services.reservations.network import Network


HORIZON: Final = 2 * 366 * 86_400
"""Greatest time between now and the end of a reservation, in seconds."""

MOST_STRETCHES: Final = 500
"""Greatest number of stretches of free bandwidth in an answer."""


@dataclass(frozen=True, slots=True)
class Free:
    """Free bandwidth between two nodes.

    Attributes:
        path: The links that it is about.
        stretches: Rate that is free on all of them, in bits per second.
        earliest: From when on the rate that was asked for is free for as long as asked; None if
            it is not before `searched`.
        searched: Up to when that was looked for.
        widest: The path on which most is free throughout.
        widest_rate: The rate that is free on it.
        alternatives: All paths on which the rate is free throughout, shortest first.
    """

    path: tuple[str, ...]
    stretches: list[Stretch]
    earliest: int | None
    searched: int
    widest: tuple[str, ...]
    widest_rate: int
    alternatives: list[tuple[str, ...]] = field(default_factory=list)


class Admission:
    """The calendar, with the reservations of each user."""

    def __init__(self, network: Network, origin: int) -> None:
        self.network = network
        self.origin = origin
        self.holdings = Holdings()
        self._calendar = Calendar(origin, network.specs)
        self._packets = Packets(self._calendar)
        self._routes = Routes(network, self._calendar)
        self._refusals = Refusals(
            network, origin, self._calendar, self._packets, self.holdings, HORIZON
        )

    @property
    def bookings(self) -> int:
        """The number of bookings in the calendar."""
        return self._calendar.bookings

    def restore(
        self, paths: Mapping[int, Sequence[str]], pages: Iterable[str], now: int
    ) -> list[int]:
        """Add the stored reservations to the calendar.

        Args:
            paths: The links of each path, by its number.
            pages: A line for each reservation: number, start, end, rate, owner, path, class and
                `records.about`, with tabs between them.
            now: The time; what is over takes no room.

        Returns:
            The numbers of those that name a link or class that the network no longer has.
        """
        stored = StoredReservations()
        for page in pages:
            stored.read(page)
        found = [records.stored_path(text) for text in stored.paths]
        turned = any(direction != "forward" for *_, direction in found)
        stored_paths = [
            self._stored_path(paths[path], class_, source, destination, direction)
            for path, class_, source, destination, direction in found
        ]
        selectors: list[StoredSelector] = []
        for text in stored.selectors:
            selector = records.selector(text)
            number = self._packets.selector(selector)
            other = self._packets.selector(selector.reversed()) if turned else number
            selectors.append(StoredSelector(number, other))
        self.holdings.count(stored.owners)
        return self._calendar.load(stored, stored_paths, selectors, (self.origin, now))

    def _stored_path(
        self,
        path: Sequence[str],
        class_: str | None,
        source: str,
        destination: str,
        direction: Direction,
    ) -> StoredPath:
        """Resolve a stored path: links and class, if the network has them, and directions."""
        network = self.network
        taken: tuple[list[int], int | None] | None = None
        if all(map(network.has_link, path)) and (not class_ or class_ in network.classes):
            forward = [network.link(name) for name in path]
            taken = network.reserved(forward, direction), network.class_number(class_)
        directions: list[StoredDirection] = []
        if direction != "reverse":
            directions.append(StoredDirection(self._packets.pair(source, destination), False))
        if direction != "forward":
            directions.append(StoredDirection(self._packets.pair(destination, source), True))
        return StoredPath(taken, directions)

    # Booking

    def book(
        self,
        id_: int,
        owner: int,
        terms: Terms,
        wishes: Wishes,
        quota: Quota,
        path: Sequence[str] | None,
        now: int,
    ) -> tuple[str, ...]:
        """Book, and answer the path: the one that is named, or the shortest with room.

        Raises:
            BadRequestError: Something is named that there is not.
            ConflictError: Another reservation is for some of the packets, or a quota is used up.
            RefusedError: Too little is free.
        """
        asked = Asked(id_, owner, terms, quota, now)
        named = None if path is None else self._routes.named(terms, path)
        claim = self._packets.claim(id_, terms)
        if claim is not None:
            start = max(terms.start, self.origin)
            ways = [named] if named else self._routes.candidates(terms, wishes, start)
            raise self._refusals.claimed(asked, claim, ways)
        self.holdings.check_number(owner, quota)
        links, chosen = self._choose(asked, wishes, named)
        start = max(terms.start, self.origin)
        self._check_rate(asked, None, start, [chosen])
        short = self._calendar.book(id_, self._booking(links, terms, start))
        if short is not None:
            raise self._refusals.too_little(asked, short, [chosen])
        self.holdings.add(owner, id_, start, terms)
        self._packets.occupy(id_, terms)
        return self.network.names(chosen)

    def change(self, old: Reservation, new: Terms, quota: Quota, now: int, *, keep: bool) -> None:
        """Replace the terms of a reservation, on the same path.

        Args:
            old: The reservation as it is.
            new: New terms.
            quota: Quota of its owner.
            now: The time; what is over is not looked at.
            keep: True if the old terms are held until `settle` or `take_back`.

        Raises:
            ConflictError: Another reservation is for some of the packets, or a quota is used up.
            RefusedError: Too little is free.
        """
        start = max(new.start, now, self.origin) if old.terms.start <= now else new.start
        ahead = replace(new, start=min(start, new.end - 1))
        asked, ways = Asked(old.id, old.owner, ahead, quota, now), [self._routes.of(old)]
        claim = self._packets.claim(old.id, ahead)
        if claim is not None:
            raise self._refusals.claimed(asked, claim, ways)
        self._check_rate(asked, old.id, start, ways)
        short = self._calendar.change(old.id, self._booking(self._links(old), new, start))
        if short is not None:
            raise self._refusals.too_little(asked, short, ways)
        self.holdings.change(old.owner, old.id, start, new)
        self._swap(old, old.terms, new)
        if keep:
            self._keep(old, now)
            self._packets.occupy(old.id, old.terms, held=True)

    def stage(self, old: Reservation, new: Terms, now: int) -> None:
        """Add new terms from the database that are being installed, as `change` did with `keep`.

        Both terms have been promised, so they are entered whether or not there is room.
        """
        self._swap(old, old.terms, new)
        self._packets.occupy(old.id, old.terms, held=True)
        start = max(new.start, now, self.origin)
        # Where the new terms are over, the old ones, which were restored, are all there is.
        if self._is_known(old) and start < new.end:
            self._release(old.id)
            self._enter(old, start, new)
            self._keep(old, now)

    def settle(self, old: Reservation, new: Terms, now: int) -> None:
        """Release what was kept of the old terms, because the new ones are installed.

        Raises:
            ConflictError: Another reservation is for some of the packets; nothing has changed.
            RefusedError: Too little is free; nothing has changed.
        """
        start = max(new.start, now, self.origin)
        if start < new.end and not _is_within(new, old.terms):
            asked = Asked(old.id, old.owner, replace(new, start=start), Quota(), now)
            claim = self._packets.claim(old.id, asked.terms)
            if claim is not None:
                raise self._refusals.claimed(asked, claim, [self._routes.of(old)])
            booking = self._booking(self._links(old), new, start)
            short = self._calendar.check(booking, old.id)
            if short is not None:
                raise self._refusals.too_little(asked, short, [self._routes.of(old)])
        self._packets.vacate(old.id, old.terms, held=True)
        if start >= new.end:
            self._release(old.id)
        elif self._is_known(old):
            self._calendar.release_hold(old.id)

    def take_back(self, old: Reservation, new: Terms, now: int) -> None:
        """Restore the old terms, which were kept, because the new ones cannot be installed."""
        self._packets.vacate(old.id, old.terms, held=True)
        start = max(old.terms.start, now, self.origin)
        self._release(old.id)
        if self._is_known(old):
            self._enter(old, start, old.terms)
        if start < old.terms.end:
            self.holdings.change(old.owner, old.id, start, old.terms)
        self._swap(old, new, old.terms)

    def release(self, reservation: Reservation) -> None:
        """Remove a reservation that is over, or that will not begin."""
        # It may have been over, or on a link that there is no more, when the service started.
        self._release(reservation.id)
        self.holdings.remove(reservation.owner, reservation.id)
        self._packets.vacate(reservation.id, reservation.terms)
        self._packets.vacate(reservation.id, reservation.terms, held=True)
        if reservation.pending is not None:
            self._packets.vacate(reservation.id, reservation.pending)

    def forget_before(self, instant: int) -> None:
        """Remove all bookings before an instant; no one can book before it any more."""
        if instant > self.origin:
            self.origin = instant
            self._refusals.origin = instant
            self._calendar.forget_before(instant)
            self.holdings.forget()

    # Looking

    def free(self, terms: Terms, wishes: Wishes, now: int, until: int | None = None) -> Free:
        """Return the free bandwidth between two nodes over the span of `terms`, and for its rate.

        Args:
            terms: Source, destination, class, direction, span and rate.
            wishes: Constraints of the path.
            now: The time.
            until: Up to when the earliest fit is looked for; by default as far as one may book.
        """
        class_ = self.network.class_number(terms.class_)
        start = max(terms.start, self.origin)
        candidates = self._routes.candidates(terms, wishes, start)
        fitting = [
            path
            for path in candidates
            if self._calendar.check(self._booking(self._both(path, terms), terms, start)) is None
        ]
        path = (fitting or candidates)[0]
        widest, widest_rate = self._routes.widest(terms, wishes, start)
        begin, end = max(start, now), until or now + HORIZON
        earliest, searched = None, end
        if begin < end:
            ways, seconds = (
                [self._both(each, terms) for each in candidates],
                terms.end - terms.start,
            )
            fit = self._calendar.fit(ways, class_, begin, end, seconds, terms.rate, [], None)
            earliest, searched = fit.start, fit.searched
        return Free(
            path=self.network.names(path),
            stretches=self._calendar.free(
                self._both(path, terms), class_, start, terms.end, MOST_STRETCHES
            ),
            earliest=earliest,
            searched=searched,
            widest=self.network.names(widest),
            widest_rate=widest_rate,
            alternatives=[self.network.names(each) for each in fitting],
        )

    def timeline(
        self, link: str, class_: str | None, start: int, end: int, most: int
    ) -> list[Stretch]:
        """Return the free bandwidth of one link over time, in bits per second.

        Where there are more than `most` stretches, so many parts, in each the least that is free.
        """
        number = self.network.class_number(class_)
        return self._calendar.free([self.network.link(link)], number, start, end, most)

    # Implementation

    def _is_known(self, reservation: Reservation) -> bool:
        """Return whether the network has the links and the class of a stored reservation."""
        class_ = reservation.terms.class_
        has_links = all(map(self.network.has_link, reservation.path))
        return has_links and (class_ is None or class_ in self.network.classes)

    def _enter(self, of: Reservation, start: int, terms: Terms) -> None:
        """Add a booking on the path of a reservation from `start` on, whether or not it fits."""
        if start < terms.end:
            self._calendar.restore({of.id: self._booking(self._links(of), terms, start)})

    def _keep(self, old: Reservation, now: int) -> None:
        """Hold the bandwidth of old terms from now on, beside the new ones in the calendar."""
        start = max(old.terms.start, now, self.origin)
        if start < old.terms.end:
            self._calendar.hold(old.id, start, old.terms.end, old.terms.rate)

    def _release(self, id_: int) -> None:
        """Remove a booking, if it exists."""
        with suppress(ValueError):
            self._calendar.release(id_)

    def _swap(self, of: Reservation, before: Terms, after: Terms) -> None:
        """Replace the packets of a reservation by those of other terms."""
        self._packets.vacate(of.id, before)
        self._packets.occupy(of.id, after)

    def _choose(
        self, asked: Asked, wishes: Wishes, named: list[int] | None
    ) -> tuple[list[int], list[int]]:
        """Return the links and the path of a booking."""
        terms = asked.terms
        if named is not None:
            return self._both(named, terms), named
        start = max(terms.start, self.origin)
        shortest = self._routes.shortest(terms, wishes, self.origin)
        first = None
        if shortest is not None:
            links = self._both(shortest, terms)
            if self._calendar.check(self._booking(links, terms, start)) is None:
                return links, shortest
        candidates = self._routes.candidates(terms, wishes, start)
        for candidate in candidates:
            links = self._both(candidate, terms)
            short = self._calendar.check(self._booking(links, terms, start))
            if short is None:
                return links, candidate
            first = first or short
        assert first is not None, "there is a candidate"
        raise self._refusals.too_little(asked, first, candidates)

    def _booking(self, links: list[int], terms: Terms, start: int) -> Booking:
        """Return the booking of terms on some links from `start` on."""
        class_ = self.network.class_number(terms.class_)
        return Booking(links, class_, start, terms.end, terms.rate)

    def _both(self, path: list[int], terms: Terms) -> list[int]:
        return self.network.reserved(path, terms.direction)

    def _links(self, reservation: Reservation) -> list[int]:
        return self._both(self._routes.of(reservation), reservation.terms)

    def _check_rate(
        self, asked: Asked, id_: int | None, start: int, paths: list[list[int]]
    ) -> None:
        """Raise ConflictError if terms, replacing `id_`, exceed the user's quota of rate."""
        booked = self.holdings.check_rate(asked.owner, id_, asked.terms, asked.quota, start)
        if booked is not None:
            raise self._refusals.too_much(asked, booked, paths)


def _is_within(new: Terms, old: Terms) -> bool:
    """Return whether new terms need no bandwidth beyond that of the old ones."""
    less = new.rate <= old.rate and new.end <= old.end and new.start >= old.start
    return less and new.selector == old.selector
