"""The service: what people ask for, each step decided once and on file before it is said."""

from __future__ import annotations

import time
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa

from perhop_services.common.errors import BadRequestError, ConflictError, ForbiddenError, when
from perhop_services.common.users import User
from perhop_services.reservations import records
from perhop_services.reservations.admission import HORIZON, Admission, Free
from perhop_services.reservations.checks import check_change, check_new, check_times
from perhop_services.reservations.decisions import Decisions
from perhop_services.reservations.keys import digest
from perhop_services.reservations.model import LIVE, Reservation, State, Terms, Wishes
from perhop_services.reservations.outcomes import Outcomes
from perhop_services.reservations.register import visible
from perhop_services.reservations.schema import RESERVATIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from concurrent.futures import Future

    from perhop._core import Stretch
    from perhop_services.common.database import Database
    from perhop_services.common.writer import Batch, Writer
    from perhop_services.reservations.network import Network


_MOST_PARTS: Final = 20_000
_LEAST_PARTS: Final = 100
"""Greatest number of stretches in timelines of all links, and least limit for each link."""


class ReservationService:
    """Reservations of one network in one database: booked, changed, cancelled and looked at.

    Attributes:
        register: The register of reservations.
        outcomes: Decisions on what has happened already.
    """

    def __init__(
        self,
        network: Network,
        database: Database,
        *,
        clock: Callable[[], float] = time.time,
        accept_clock: bool = True,
    ) -> None:
        """Read what is on file, and begin to decide.

        Args:
            network: The network that can be reserved.
            database: Where it is kept.
            clock: The time in seconds since 1970.
            accept_clock: False to change nothing if the clock is more than a day off the last time
                on file.
        """
        self._decisions = Decisions(network, database, clock=clock, accept_clock=accept_clock)
        self.register = self._decisions.register
        self.outcomes = Outcomes(self._decisions)

    def close(self) -> None:
        """Finish what was asked, and end."""
        self._decisions.close()

    @property
    def network(self) -> Network:
        """The network that can be reserved."""
        return self._decisions.network

    @property
    def database(self) -> Database:
        """Its URL or path."""
        return self._decisions.database

    @property
    def writer(self) -> Writer:
        """The writer, who takes all decisions."""
        return self._decisions.writer

    @property
    def admission(self) -> Admission:
        """Admission, with the calendar in memory."""
        return self._decisions.admission

    @property
    def lost(self) -> list[int]:
        """Reservations on file whose links or class the network no longer has."""
        return self._decisions.lost

    @property
    def clock(self) -> Callable[[], float]:
        """The time in seconds since 1970."""
        return self._decisions.clock

    @property
    def now(self) -> int:
        """The current second."""
        return self._decisions.now

    # Booking

    def book(
        self,
        user: User,
        terms: Terms,
        *,
        wishes: Wishes | None = None,
        path: Sequence[str] | None = None,
        hold: int | None = None,
        key: str | None = None,
        asked: object = None,
    ) -> Future[Reservation]:
        """Book, or hold until it is committed.

        Args:
            user: Owner of the reservation.
            terms: Requested terms.
            wishes: Constraints of the path.
            path: The links to take, as ``r1>r2``; by default the shortest path with room.
            hold: For how many seconds it is held; None books at once.
            key: Whatever tells this request from others of the user's: asked again with the same
                key within a week, the answer is the reservation that there is.
            asked: The request as it came, where `terms` depend on when; what a repeated one must
                equal.

        Raises (by the future):
            BadRequestError: It makes no sense.
            ConflictError: Too little is free, another reservation is for the same packets, a quota
                is used up, or the key was used for something else.
        """
        wanted = wishes or Wishes()
        request = digest(asked or [asdict(terms), asdict(wanted), path, hold])

        def decide(batch: Batch) -> Reservation:
            if key is not None:
                before = self._decisions.keys.find(batch, user, key, request)
                if before is not None:
                    return self.register.reservation(before, batch)
            now = self.now
            check_new(self.network, user, terms, now, hold)
            own = replace(terms, start=max(terms.start, now))
            self._learn_rates(batch, user)
            id_ = self._decisions.next_reservation
            try:
                chosen = self.admission.book(id_, user.id, own, wanted, user.quota, path, now)
            except ConflictError as error:
                raise self._and_when(batch, user, error) from None
            self._decisions.next_reservation += 1
            state = State.PLANNED if hold is None else State.HELD
            reservation = Reservation(
                id=id_,
                owner=user.id,
                owner_name=user.name,
                terms=own,
                path=chosen,
                state=state,
                hold_until=None if hold is None else now + hold,
                version=1,
                created=now,
            )
            self._decisions.insert(batch, reservation)
            action = "book" if hold is None else "hold"
            self._decisions.log(batch, id_, user.name, action, state, terms.purpose, {})
            if key is not None:
                self._decisions.keys.add(batch, user, key, request, id_, now)
            return reservation

        return self.writer.submit(decide)

    def commit(self, user: User, id_: int) -> Future[Reservation]:
        """Book what is held.

        Raises (by the future):
            NotFoundError: There is none, or it is another's.
            ConflictError: It is not held, or no longer.
        """

        def decide(batch: Batch) -> Reservation:
            held = self._of(batch, user, id_)
            if held.state is State.PLANNED and held.hold_until is not None:
                return held  # it was asked twice
            if held.state is not State.HELD:
                raise ConflictError(f"reservation {id_} is {held.state}, not held")
            if held.hold_until is not None and held.hold_until <= self.now:
                raise ConflictError(f"the hold of reservation {id_} expired")
            return self._decisions.move(batch, held, State.PLANNED, user.name, "commit", "")

        return self.writer.submit(decide)

    def cancel(self, user: User, id_: int, reason: str) -> Future[Reservation]:
        """Cancel a reservation that is not over; cancelled twice, it stays as it is.

        Raises (by the future):
            NotFoundError: There is none, or it is another's.
            ConflictError: It is over.
        """

        def decide(batch: Batch) -> Reservation:
            own = self._of(batch, user, id_)
            if own.state is State.CANCELLED:
                return own
            if not own.state.is_live:
                raise ConflictError(f"reservation {id_} is {own.state}; nothing is left to cancel")
            return self._decisions.move(batch, own, State.CANCELLED, user.name, "cancel", reason)

        return self.writer.submit(decide)

    def change(
        self,
        user: User,
        id_: int,
        changes: Mapping[str, Any],
        *,
        reason: str = "",
        version: int | None = None,
    ) -> Future[Reservation]:
        """Change rate, burst, end, start (before it), selector or purpose, on the same path.

        While it is active, the new terms are `pending` until `settle` says that they are in place,
        or `take_back` that they cannot be; room is kept for the old ones until then.

        Args:
            user: Requesting user.
            id_: The number of the reservation.
            changes: Fields of `Terms` by name.
            reason: Why.
            version: The version that the user has seen; another one is a conflict.

        Raises (by the future):
            NotFoundError: There is none, or it is another's.
            BadRequestError: The new terms make no sense.
            ConflictError: It is over, being changed, or something is in the way.
        """

        def decide(batch: Batch) -> Reservation:
            own = self._of(batch, user, id_)
            if not own.state.is_live:
                raise ConflictError(f"reservation {id_} is {own.state}; it can no longer change")
            if own.pending is not None:
                raise ConflictError(f"reservation {id_} is being changed; try again in a moment")
            if version is not None and version != own.version:
                raise ConflictError(
                    f"reservation {id_} is of version {own.version} by now, not {version}; look "
                    "again",
                    {"version": own.version},
                )
            new, now = replace(own.terms, **changes), self.now
            if new == own.terms:
                return own
            check_change(user, own, new, now)
            owner = self._owner(batch, own, user)
            self._learn_rates(batch, owner)
            active = own.state is State.ACTIVE
            enforced = active and _rule_of(own.terms) != _rule_of(new)
            self.admission.change(own, new, owner.quota, now, keep=enforced)
            detail = records.differences(own.terms, new)
            if enforced:
                return self._decisions.begin_change(batch, own, new, user.name, reason, detail)
            return self._decisions.set_terms(batch, own, new, user.name, "change", reason, detail)

        return self.writer.submit(decide)

    # Looking

    def free(self, terms: Terms, wishes: Wishes, until: int | None = None) -> Future[Free]:
        """Return what `Admission.free` returns, which the writer calls between decisions."""

        def decide(_batch: Batch) -> Free:
            check_times(terms, self.now)
            return self.admission.free(terms, wishes, self.now, until)

        return self.writer.submit(decide, reads=True)

    def timeline(
        self, start: int, end: int, class_: str | None = None
    ) -> Future[dict[str, list[Stretch]]]:
        """Return the free bandwidth of every link that can be reserved, as stretches.

        If there are too many stretches, parts have the least free bandwidth in each.
        """

        def decide(_batch: Batch) -> dict[str, list[Stretch]]:
            if not 0 <= start < end or end > self.now + 2 * HORIZON:
                raise BadRequestError("a timeline has its start before its end, within four years")
            links = [link.name for link in self.network.links if link.reservable]
            most = max(_LEAST_PARTS, _MOST_PARTS // len(links))
            return {link: self.admission.timeline(link, class_, start, end, most) for link in links}

        return self.writer.submit(decide, reads=True)

    def _of(self, batch: Batch, user: User, id_: int) -> Reservation:
        if user.disabled:
            raise ForbiddenError(f"{user.name} may no longer change anything")
        return visible(user, self.register.reservation(id_, batch))

    def _owner(self, batch: Batch, own: Reservation, user: User) -> User:
        """Whose quota counts: the owner's, except for an operator, who may exceed it."""
        del batch
        return user if user.id == own.owner else User(own.owner, own.owner_name, user.role)

    def _and_when(self, batch: Batch, user: User, error: ConflictError) -> ConflictError:
        """The same error; for a user with too many reservations, with when the first one ends."""
        if error.detail.get("quota") != "reservations":
            return error
        r = RESERVATIONS.c
        states = [state.value for state in LIVE]
        first = sa.select(sa.func.min(r.end_at)).where(r.owner_id == user.id, r.state.in_(states))
        end = batch.execute(first).scalar()
        if end is None:
            return error
        return ConflictError(
            f"{error}; the first of yours ends at {when(end)}", error.detail | {"earliest": end}
        )

    def _learn_rates(self, batch: Batch, user: User) -> None:
        if user.quota.rate is None or self.admission.holdings.knows_rates_of(user.id):
            return
        r = RESERVATIONS.c
        states = [state.value for state in LIVE]
        select = sa.select(r.id, r.start_at, r.end_at, r.rate, r.pending).where(
            r.owner_id == user.id, r.state.in_(states)
        )
        rows: list[tuple[int, int, int, int]] = []
        for row in batch.execute(select).mappings():
            booked = row["pending"] or row
            rows.append((row["id"], row["start_at"], booked["end_at"], booked["rate"]))
        self.admission.holdings.learn_rates_of(user.id, self.admission.origin, rows)


def _rule_of(terms: Terms) -> tuple[object, ...]:
    """Return the terms in the form for enforcing routers."""
    return terms.rate, terms.burst, terms.selector
