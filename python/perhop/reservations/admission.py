"""Whether there is room, on which path, and if not, what is in the way and when there would be.

The calendar in memory, with everything that takes up room in it. It decides and remembers, and
never reads the database or a clock.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from perhop._core import Calendar
from perhop.reservations import records
from perhop.reservations.errors import BadRequestError, ConflictError, RefusedError
from perhop.units import format_rate

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from perhop.reservations.model import Direction, Quota, Reservation, Selector, Terms, Wishes
    from perhop.reservations.network import Network

HORIZON: Final = 2 * 366 * 86_400
"""How far ahead of now one may book, in seconds."""

ALTERNATIVES: Final = 8
"""How many paths are looked at before the answer is no."""

_OLD_RATE: Final = 1 << 61
_OLD_END: Final = 1 << 62
"""Added to a reservation's number: what is kept of its old terms while new ones are put in
place."""

_MOST_PATHS: Final = 100_000
"""How many shortest paths are remembered."""

_BOUNDLESS: Final = 1 << 62
"""What can be reserved in the calendar that counts what a user has."""


@dataclass(frozen=True, slots=True)
class Free:
    """What is free between two nodes.

    Attributes:
        path: The links that it is about.
        stretches: Start, end and bits per second that are free on all of them.
        earliest: From when on the rate that was asked for is free for as long as asked; None if
            it never is, or nothing was asked.
        widest: The path on which most is free throughout.
        widest_rate: How much that is.
        alternatives: All paths on which the rate is free throughout, shortest first.
    """

    path: tuple[str, ...]
    stretches: list[tuple[int, int, int]]
    earliest: int | None
    widest: tuple[str, ...]
    widest_rate: int
    alternatives: list[tuple[str, ...]] = field(default_factory=list)


class Admission:
    """The calendar, and who has what in it."""

    def __init__(self, network: Network, origin: int) -> None:
        self.network = network
        self.origin = origin
        self._calendar = Calendar(origin, network.specs)
        self._pairs: dict[tuple[str, str], int] = {}
        self._selectors: dict[Selector, int] = {}
        self._by_number: list[Selector] = []
        self._held: Counter[int] = Counter()
        self._rates: dict[int, Calendar] = {}
        self._known_paths: dict[tuple[str, str, Wishes], list[int] | None] = {}

    # What is there

    @property
    def bookings(self) -> int:
        """How many bookings take up room."""
        return self._calendar.bookings

    def restore(
        self,
        paths: dict[int, tuple[str, ...]],
        rows: Iterable[Sequence[Any]],
        now: int,
    ) -> list[int]:
        """Enter what is on file: number, path, class, start, end, rate, about, owner.

        Returns:
            The numbers of those that name a link or class that the network no longer has.
        """
        numbers: dict[tuple[int, str], int] = {}
        lists: list[list[int]] = []
        packets: dict[str, tuple[Direction, list[tuple[int, int]]]] = {}
        entries: list[tuple[int, int, int | None, int, int, int]] = []
        lost: list[int] = []
        occupy, held = self._calendar.occupy, self._held
        for row in rows:
            id_, path, class_, start, end, rate, about, owner = row
            id_, path, start, end, rate = int(id_), int(path), int(start), int(end), int(rate)
            held[int(owner)] += 1
            known = packets.get(about)
            if known is None:
                ways = records.lanes(about)
                lanes = [(self._pair(a, b), self._selector(which)) for a, b, which in ways]
                known = packets[about] = (records.direction(about), lanes)
            direction, lanes = known
            for pair, which in lanes:
                occupy(pair, id_, which, start, end)
            if end <= now:
                continue
            number = numbers.get((path, direction))
            if number is None:
                if all(map(self.network.has_link, paths[path])):
                    forward = [self.network.link(name) for name in paths[path]]
                    number = len(lists)
                    lists.append(self.network.reserved(forward, direction))
                else:
                    number = -1
                numbers[path, direction] = number
            if number < 0 or (class_ and class_ not in self.network.classes):
                lost.append(id_)
                continue
            place = self.network.classes.index(class_) if class_ else None
            entries.append((id_, number, place, max(start, self.origin), end, rate))
        self._calendar.restore(lists, entries)
        return lost

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
        self._check_selector(id_, terms)
        if quota.reservations is not None and self._held[owner] >= quota.reservations:
            raise ConflictError(
                f"you have {self._held[owner]} reservations, and may have {quota.reservations}; "
                "cancel one, or ask an administrator for more",
                {"quota": "reservations", "limit": quota.reservations},
            )
        links, chosen = self._choose(id_, terms, wishes, path, now)
        class_ = self.network.class_number(terms.class_)
        start = max(terms.start, self.origin)
        self._check_rate_quota(owner, None, terms, quota, start, now)
        short = self._calendar.book(id_, links, class_, start, terms.end, terms.rate)
        if short is not None:
            raise self._refusal(id_, short, terms, [chosen], now)
        if owner in self._rates:
            self._rates[owner].restore([[0]], [(id_, 0, None, start, terms.end, terms.rate)])
        self._occupy(id_, terms)
        self._held[owner] += 1
        return self.network.names(chosen)

    def change(self, old: Reservation, new: Terms, quota: Quota, now: int, *, keep: bool) -> None:
        """Put new terms in the place of a reservation's, on the same path.

        Args:
            old: The reservation as it is.
            new: What is to be.
            quota: What its owner may have.
            now: The time; what is over is not looked at.
            keep: Whether the old terms are kept free until `settle` or `take_back`.

        Raises:
            ConflictError: Another reservation is for some of the packets, or a quota is used up.
            RefusedError: Too little is free.
        """
        links, class_ = self._links(old), self.network.class_number(old.terms.class_)
        start = max(new.start, now, self.origin) if old.terms.start <= now else new.start
        ahead = replace(new, start=min(start, new.end - 1))
        self._check_selector(old.id, ahead)
        self._check_rate_quota(old.owner, old.id, new, quota, start, now)
        short = self._calendar.change(old.id, links, class_, start, new.end, new.rate)
        if short is not None:
            path = [self.network.link(name) for name in old.path]
            raise self._refusal(old.id, short, ahead, [path], now)
        if keep:
            least = min(old.terms.end, new.end)
            if old.terms.rate > new.rate and least > start:
                self._calendar.book(
                    old.id + _OLD_RATE, links, class_, start, least, old.terms.rate - new.rate
                )
            if old.terms.end > max(new.end, start):
                self._calendar.book(
                    old.id + _OLD_END,
                    links,
                    class_,
                    max(new.end, start),
                    old.terms.end,
                    old.terms.rate,
                )
        if old.owner in self._rates:
            self._rates[old.owner].change(old.id, [0], None, start, new.end, new.rate)
        self._vacate(old.id, old.terms)
        self._occupy(old.id, new)
        if keep:
            self._occupy(old.id + _OLD_RATE, old.terms)

    def settle(self, old: Reservation) -> None:
        """The new terms are in place: let go of what was kept of the old ones."""
        self._vacate(old.id + _OLD_RATE, old.terms)
        for extra in (_OLD_RATE, _OLD_END):
            try:
                self._calendar.release(old.id + extra)
            except ValueError:
                continue

    def take_back(self, old: Reservation, new: Terms, now: int) -> None:
        """The new terms could not be put in place: the old ones, which were kept, hold again."""
        self.settle(old)
        start = max(old.terms.start, now, self.origin)
        links, class_ = self._links(old), self.network.class_number(old.terms.class_)
        if start < old.terms.end:
            self._calendar.change(old.id, links, class_, start, old.terms.end, old.terms.rate)
            if old.owner in self._rates:
                self._rates[old.owner].change(
                    old.id, [0], None, start, old.terms.end, old.terms.rate
                )
        self._vacate(old.id, new)
        self._occupy(old.id, old.terms)

    def release(self, reservation: Reservation) -> None:
        """Take a reservation out: it is over, or will not be."""
        self.settle(reservation)
        # It may have been over, or on a link that there is no more, when the service started.
        with suppress(ValueError):
            self._calendar.release(reservation.id)
        if reservation.owner in self._rates:
            with suppress(ValueError):
                self._rates[reservation.owner].release(reservation.id)
        self._vacate(reservation.id, reservation.terms)
        if reservation.pending is not None:
            self._vacate(reservation.id, reservation.pending)
        self._held[reservation.owner] -= 1

    def forget_before(self, instant: int) -> None:
        """Forget what was booked before an instant; one can no longer book there."""
        self.origin = max(self.origin, instant)
        self._calendar.forget_before(instant)

    # Looking

    def free(self, terms: Terms, wishes: Wishes, now: int, until: int | None = None) -> Free:
        """What is free between two nodes over the span of `terms`, and for its rate.

        Args:
            terms: Source, destination, class, direction, span and rate.
            wishes: What the path must keep to.
            now: The time.
            until: Up to when the earliest fit is looked for; by default as far as one may book.
        """
        class_ = self.network.class_number(terms.class_)
        start = max(terms.start, self.origin)
        candidates = self._candidates(terms, wishes)
        fitting = [
            path
            for path in candidates
            if self._calendar.check(self._both(path, terms), class_, start, terms.end, terms.rate)
            is None
        ]
        path = (fitting or candidates)[0]
        limits = self._limits(terms, wishes)
        ends = self.network.node(terms.source), self.network.node(terms.destination)
        widest = self._calendar.widest(ends, class_, start, terms.end, limits)
        return Free(
            path=self.network.names(path),
            stretches=self._calendar.free(self._both(path, terms), class_, start, terms.end),
            earliest=self._earliest(terms, candidates, now, until),
            widest=self.network.names(widest[0]) if widest else (),
            widest_rate=widest[2] if widest else 0,
            alternatives=[self.network.names(each) for each in fitting],
        )

    def timeline(
        self, link: str, class_: str | None, start: int, end: int
    ) -> list[tuple[int, int, int]]:
        """What is free on one link: start, end and bits per second, stretch by stretch."""
        number = self.network.class_number(class_)
        return self._calendar.free([self.network.link(link)], number, start, end)

    # How it is done

    def _choose(
        self, id_: int, terms: Terms, wishes: Wishes, path: Sequence[str] | None, now: int
    ) -> tuple[list[int], list[int]]:
        """The links to take part of, and the path that they are on."""
        if path is not None:
            links = self._named(terms, path)
            return self.network.reserved(links, terms.direction), links
        class_ = self.network.class_number(terms.class_)
        start = max(terms.start, self.origin)
        shortest = self._shortest(terms, wishes)
        if shortest is not None:
            links = self._both(shortest, terms)
            short = self._calendar.check(links, class_, start, terms.end, terms.rate)
            if short is None:
                return links, shortest
        candidates = self._candidates(terms, wishes)
        first = None
        for candidate in candidates:
            links = self._both(candidate, terms)
            short = self._calendar.check(links, class_, start, terms.end, terms.rate)
            if short is None:
                return links, candidate
            first = first or short
        assert first is not None, "there is a candidate"
        raise self._refusal(id_, first, terms, candidates, now)

    def _shortest(self, terms: Terms, wishes: Wishes) -> list[int] | None:
        """The shortest path there is, whatever is booked; most bookings find room on it."""
        asked = (terms.source, terms.destination, wishes)
        if asked not in self._known_paths:
            if len(self._known_paths) >= _MOST_PATHS:
                self._known_paths.clear()
            ends = self.network.node(terms.source), self.network.node(terms.destination)
            limits, start = self._limits(terms, wishes), self.origin
            found = self._calendar.paths(ends, None, start, start + 1, 0, limits, 1)
            self._known_paths[asked] = found[0][0] if found else None
        return self._known_paths[asked]

    def _candidates(self, terms: Terms, wishes: Wishes) -> list[list[int]]:
        """Paths to look at: those with room, then those that would be there in an empty network."""
        ends = self.network.node(terms.source), self.network.node(terms.destination)
        if ends[0] == ends[1]:
            raise BadRequestError(f"{terms.source!r} is source and destination; expected two nodes")
        class_, limits = self.network.class_number(terms.class_), self._limits(terms, wishes)
        start = max(terms.start, self.origin)
        found: list[list[int]] = []
        for rate in (terms.rate, 0) if terms.direction != "reverse" else (0,):
            paths = self._calendar.paths(ends, class_, start, terms.end, rate, limits, ALTERNATIVES)
            found += [links for links, _ in paths if links not in found]
        if not found:
            raise BadRequestError(
                f"no path leads from {terms.source} to {terms.destination} that keeps to what was "
                "asked; there are routers and links between them, or too much was excluded"
            )
        return found

    def _limits(self, terms: Terms, wishes: Wishes) -> Any:
        nodes, *rest = self.network.limits(wishes)
        return (nodes + self.network.others(terms.source, terms.destination), *rest)

    def _both(self, path: list[int], terms: Terms) -> list[int]:
        return self.network.reserved(path, terms.direction)

    def _named(self, terms: Terms, path: Sequence[str]) -> list[int]:
        links = [self.network.link(name) for name in path]
        at = terms.source
        for number in links:
            link = self.network.links[number]
            if link.source != at:
                raise BadRequestError(f"the path goes on from {at}, and {link.name!r} does not")
            at = link.target
        if at != terms.destination or len(set(links)) < len(links) or not links:
            raise BadRequestError(
                f"the path ends at {at}; expected one to {terms.destination}, each link once"
            )
        return links

    def _links(self, reservation: Reservation) -> list[int]:
        links = [self.network.link(name) for name in reservation.path]
        return self.network.reserved(links, reservation.terms.direction)

    def _earliest(
        self, terms: Terms, candidates: list[list[int]], now: int, until: int | None = None
    ) -> int | None:
        class_ = self.network.class_number(terms.class_)
        start, end = max(terms.start, self.origin, now), until or now + HORIZON
        if start >= end:
            return None
        found = [
            self._calendar.earliest(
                self._both(path, terms), class_, start, end, terms.end - terms.start, terms.rate
            )
            for path in candidates
        ]
        return min((each for each in found if each is not None), default=None)

    def _check_selector(self, id_: int, terms: Terms) -> None:
        for source, destination, other, theirs, end in self._claims(id_, terms):
            free = self._unclaimed(id_, terms)
            raise ConflictError(
                f"reservation {other} is for some of the packets from {source} to {destination} "
                f"at that time already ({theirs}), up to {when(end)}; expected other ports, "
                f"another protocol or DSCP, or a time from {when(free)}",
                {"reservation": other, "selector": str(theirs), "until": end, "earliest": free},
            )

    def _claims(self, id_: int, terms: Terms) -> Iterator[tuple[str, str, int, Selector, int]]:
        """Other reservations for some of the same packets in the same span.

        Yields:
            From where to where, the other's number, which packets it is for, and when it ends.
        """
        for source, destination, selector in terms.lanes:
            pair = self._pair(source, destination)
            for kept, number, end in self._calendar.meeting(pair, terms.start, terms.end):
                other, theirs = kept & (_OLD_RATE - 1), self._by_number[number]
                if other != id_ and theirs.overlaps(selector):
                    yield source, destination, other, theirs, end

    def _unclaimed(self, id_: int, terms: Terms) -> int:
        """From when on no other reservation is for some of the same packets, for as long."""
        while ends := [end for *_, end in self._claims(id_, terms)]:
            start = max(ends)
            terms = replace(terms, start=start, end=start + terms.end - terms.start)
        return terms.start

    def _check_rate_quota(
        self, owner: int, id_: int | None, terms: Terms, quota: Quota, start: int, now: int
    ) -> None:
        """Whether a user would have too much at once, by a calendar of the user's own."""
        if quota.rate is None or start >= terms.end:
            return
        own = self._rates[owner]
        before = own.release(id_) if id_ is not None else None
        least = min(free for _, _, free in own.free([0], None, start, terms.end))
        # So much is left of the calendar where so much is left of what is allowed.
        asked = _BOUNDLESS - quota.rate + terms.rate
        until, seconds = now + HORIZON, terms.end - start
        earliest = None
        if least < asked and terms.rate <= quota.rate:
            earliest = own.earliest([0], None, max(start, now), until, seconds, asked)
        if before is not None and id_ is not None:
            own.book(id_, *before)
        if least < asked:
            other = (
                f", or a time from {when(earliest)}"
                if earliest is not None
                else "; there is no other time for as long"
            )
            raise ConflictError(
                f"you have {format_rate(_BOUNDLESS - least)} in that time, and may have "
                f"{format_rate(quota.rate)} at once; expected less{other}",
                {
                    "quota": "rate",
                    "limit": quota.rate,
                    "booked": _BOUNDLESS - least,
                    "earliest": earliest,
                },
            )

    def knows_rates_of(self, owner: int) -> bool:
        """Whether what a user has when is known, as a quota of rate needs."""
        return owner in self._rates

    def learn_rates_of(self, owner: int, rows: Iterable[tuple[int, int, int, int]]) -> None:
        """Take in what a user has that is not over: number, start, end, rate."""
        own = self._rates[owner] = Calendar(self.origin, [(0, 1, 0, _BOUNDLESS, [])])
        entries: list[tuple[int, int, int | None, int, int, int]] = [
            (id_, 0, None, max(start, self.origin), end, rate)
            for id_, start, end, rate in rows
            if end > self.origin
        ]
        own.restore([[0]], entries)

    def _refusal(
        self,
        id_: int,
        short: tuple[int, int | None, int, int, int],
        terms: Terms,
        paths: list[list[int]],
        now: int,
    ) -> RefusedError:
        """What is in the way of terms, and from when on they would fit one of some paths."""
        number, class_, free, start, end = short
        link = self.network.links[number].name
        where = link if class_ is None else f"class {self.network.classes[class_]} of {link}"
        earliest = self._fits(id_, terms, paths, now)
        message = (
            f"{format_rate(terms.rate)} is not free on {where}: {format_rate(free)} is, from "
            f"{when(start)} to {when(end)}"
        )
        message += (
            f"; it would be free from {when(earliest)}"
            if earliest is not None
            else f"; it is not free for as long before {when(now + HORIZON)}"
        )
        detail = {
            "link": link,
            "class": None if class_ is None else self.network.classes[class_],
            "free": free,
            "from": start,
            "until": end,
            "earliest": earliest,
        }
        return RefusedError(message, detail)

    def _fits(self, id_: int, terms: Terms, paths: list[list[int]], now: int) -> int | None:
        """From when on there is room for terms, and nobody else has the packets.

        What the reservation itself has is not in the way.
        """
        try:
            own = self._calendar.release(id_)
        except ValueError:
            own = None
        try:
            seconds = terms.end - terms.start
            while (start := self._earliest(terms, paths, now)) is not None:
                terms = replace(terms, start=start, end=start + seconds)
                start = self._unclaimed(id_, terms)
                if start == terms.start:
                    return start
                terms = replace(terms, start=start, end=start + seconds)
            return None
        finally:
            if own is not None:
                # Not `book`: there may be less than was promised, if a link has shrunk.
                self._calendar.restore([own[0]], [(id_, 0, *own[1:])])

    def _occupy(self, id_: int, terms: Terms) -> None:
        for source, destination, selector in terms.lanes:
            pair, which = self._pair(source, destination), self._selector(selector)
            self._calendar.occupy(pair, id_, which, terms.start, terms.end)

    def _vacate(self, id_: int, terms: Terms) -> None:
        for source, destination, _ in terms.lanes:
            self._calendar.vacate(self._pair(source, destination), id_, terms.start, terms.end)

    def _pair(self, source: str, destination: str) -> int:
        return self._pairs.setdefault((source, destination), len(self._pairs))

    def _selector(self, selector: Selector) -> int:
        number = self._selectors.get(selector)
        if number is None:
            number = self._selectors[selector] = len(self._by_number)
            self._by_number.append(selector)
        return number


def when(second: int) -> str:
    """A second as people write it, in UTC."""
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
