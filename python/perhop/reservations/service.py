"""The service: what becomes of reservations, each step decided once and on file before it is said.

Everything that changes something is a decision of the one writer. A decision checks first and
changes afterwards, so that what is refused has changed nothing, whether in memory or on the disk.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa

from perhop.reservations import records
from perhop.reservations.admission import HORIZON, Admission, Free
from perhop.reservations.errors import (
    BadRequestError,
    ConflictError,
    ForbiddenError,
    when,
)
from perhop.reservations.model import LIVE, Reservation, State, Terms, User, Wishes
from perhop.reservations.register import Register, visible
from perhop.reservations.schema import COUNTERS, KEYS, LOG, PATHS, RESERVATIONS
from perhop.reservations.writer import Batch, Writer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from concurrent.futures import Future

    from perhop.reservations.database import Database
    from perhop.reservations.network import Network

LATE: Final = 60
"""A start this many seconds ago is still taken as now: clocks differ, and requests travel."""

LONGEST_HOLD: Final = 3600
"""For how many seconds a reservation may be held before it is committed."""

REMEMBERED: Final = 7 * 86_400
"""For how many seconds a request is known by its key."""

ITSELF: Final = "perhop"
"""The author of what nobody asked for."""


class Service(Register):
    """Reservations of one network in one database."""

    def __init__(
        self, network: Network, database: Database, *, clock: Callable[[], float] = time.time
    ) -> None:
        """Read what is on file, and begin to decide.

        Args:
            network: What there is to reserve.
            database: Where it is kept.
            clock: The time in seconds since 1970.
        """
        super().__init__(database)
        self.network = network
        self.clock = clock
        self.lost: list[int] = []
        """Reservations on file whose links or class the network no longer has."""
        self._load()
        self.writer = Writer(database, self._load)

    def close(self) -> None:
        """Finish what was asked, and end."""
        self.writer.close()

    @property
    def now(self) -> int:
        """The current second."""
        return int(self.clock())

    def _load(self) -> None:
        r = RESERVATIONS.c
        now = self.now
        # The state is hidden from the planner, which would otherwise sort by number what an index
        # has by state.
        live = sa.func.coalesce(r.state, "").in_([state.value for state in LIVE])
        rows = sa.select(
            r.id, r.start_at, r.end_at, r.rate, r.owner_id, r.path_id, r["class"], r.about
        ).where(live)
        with self.database.writing() as connection:
            connection.execute(KEYS.delete().where(KEYS.c.at <= now - REMEMBERED))
        with self.database.engine.connect() as connection:
            paths = {
                number: tuple(json.loads(links))
                for number, links in connection.execute(sa.select(PATHS.c.id, PATHS.c.links))
            }
            k = KEYS.c
            keys = connection.execute(sa.select(k.owner_id, k.key))
            self._keys = {_trace(owner, key) for owner, key in keys}
            self._next_reservation = (connection.scalar(sa.select(sa.func.max(r.id))) or 0) + 1
            self._next_entry = (connection.scalar(sa.select(sa.func.max(LOG.c.id))) or 0) + 1
        admission = Admission(self.network, now - LATE)
        self.lost = admission.restore(paths, self.database.pages(rows), now)
        self.admission = admission
        self._paths = {links: number for number, links in paths.items()}

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
            user: Whose it will be.
            terms: What is asked for.
            wishes: What the path must keep to.
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
        request = _digest(asked or [asdict(terms), asdict(wanted), path, hold])

        def decide(batch: Batch) -> Reservation:
            if key is not None:
                before = self._asked_before(batch, user, key, request)
                if before is not None:
                    return before
            now = self.now
            self._check(user, terms, now, hold)
            own = replace(terms, start=max(terms.start, now))
            self._learn_rates(batch, user)
            id_ = self._next_reservation
            try:
                chosen = self.admission.book(id_, user.id, own, wanted, user.quota, path, now)
            except ConflictError as error:
                raise self._and_when(batch, user, error) from None
            self._next_reservation += 1
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
            self._insert(batch, reservation)
            action = "book" if hold is None else "hold"
            self._log(batch, id_, user.name, action, state, terms.purpose, {})
            if key is not None:
                row = {
                    "owner_id": user.id,
                    "key": key,
                    "reservation_id": id_,
                    "asked": request,
                    "at": now,
                }
                batch.insert(KEYS, row)
                self._keys.add(_trace(user.id, key))
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
            return self._move(batch, held, State.PLANNED, user.name, "commit", "")

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
            return self._move(batch, own, State.CANCELLED, user.name, "cancel", reason)

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
            user: Who asks.
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
            self._check_change(user, own, new, now)
            owner = self._owner(batch, own, user)
            self._learn_rates(batch, owner)
            active = own.state is State.ACTIVE
            enforced = active and _rule_of(own.terms) != _rule_of(new)
            self.admission.change(own, new, owner.quota, now, keep=enforced)
            detail = records.differences(own.terms, new)
            if enforced:
                return self._begin_change(batch, own, new, user.name, reason, detail)
            return self._set_terms(batch, own, new, user.name, "change", reason, detail)

        return self.writer.submit(decide)

    # What enforcement reports

    def settle(self, id_: int, author: str) -> Future[Reservation]:
        """The pending terms are in place."""

        def decide(batch: Batch) -> Reservation:
            own = self.reservation(id_, batch)
            if own.pending is None or own.state is not State.ACTIVE:
                return own
            self.admission.settle(own)
            detail = records.differences(own.terms, own.pending)
            return self._set_terms(batch, own, own.pending, author, "changed", "", detail)

        return self.writer.submit(decide)

    def take_back(self, id_: int, reason: str) -> Future[Reservation]:
        """The pending terms cannot be put in place; the old ones hold."""

        def decide(batch: Batch) -> Reservation:
            own = self.reservation(id_, batch)
            if own.pending is None or not own.state.is_live:
                return own
            self.admission.take_back(own, own.pending, self.now)
            self._update(batch, id_, pending=sa.null())
            self._log(batch, id_, ITSELF, "unchanged", own.state, reason, {})
            return replace(own, pending=None)

        return self.writer.submit(decide)

    def move(
        self,
        id_: int,
        expected: State,
        state: State,
        action: str,
        reason: str,
        version: int | None = None,
    ) -> Future[Reservation | None]:
        """Bring a reservation from one state to another, if it is still in the one.

        Returns:
            The reservation as it is then; None if it was in another state, or of another version.
        """

        def decide(batch: Batch) -> Reservation | None:
            own = self.reservation(id_, batch)
            if own.state is not expected or (version is not None and own.version != version):
                return None
            return self._move(batch, own, state, ITSELF, action, reason)

        return self.writer.submit(decide)

    def expire(self) -> Future[int]:
        """Cancel what was held and not committed in time; answers how many."""

        def decide(batch: Batch) -> int:
            now = self.now
            r = RESERVATIONS.c
            batch.flush()
            expired = batch.read(
                records.SELECT.where(r.state == State.HELD.value, r.hold_until <= now).limit(100)
            )
            count = 0
            for row in expired.mappings().all():
                self._move(
                    batch,
                    records.reservation(dict(row)),
                    State.CANCELLED,
                    ITSELF,
                    "expire",
                    "the hold expired",
                )
                count += 1
            return count

        return self.writer.submit(decide)

    def note_trouble(self, id_: int, trouble: str) -> Future[None]:
        """Put on file what is wrong with a reservation's enforcement; "" when it no longer is.

        What differs from the last in its figures only is the same trouble, and not told again.
        """

        def decide(batch: Batch) -> None:
            own = self.reservation(id_, batch)
            if _without_figures(own.trouble) == _without_figures(trouble):
                return
            self._update(batch, id_, trouble=trouble)
            reason = trouble or f"over: {own.trouble}"
            self._log(batch, id_, ITSELF, "trouble" if trouble else "well", own.state, reason, {})

        return self.writer.submit(decide)

    def note(self, id_: int, author: str, action: str, reason: str) -> Future[None]:
        """Put something in a reservation's log that changes nothing else."""

        def decide(batch: Batch) -> None:
            own = self.reservation(id_, batch)
            self._log(batch, id_, author, action, own.state, reason, {})

        return self.writer.submit(decide)

    def add_counters(self, rows: Sequence[Mapping[str, Any]]) -> Future[None]:
        """Add readings to the series: rows of the table `counters`."""

        def decide(batch: Batch) -> None:
            for row in rows:
                batch.insert(COUNTERS, row)

        return self.writer.submit(decide)

    # Looking

    def free(self, terms: Terms, wishes: Wishes, until: int | None = None) -> Future[Free]:
        """What is free; see `Admission.free`. It is the writer who looks, between decisions."""

        def decide(_batch: Batch) -> Free:
            self._check_times(terms, self.now)
            return self.admission.free(terms, wishes, self.now, until)

        return self.writer.submit(decide)

    def timeline(
        self, start: int, end: int, class_: str | None = None
    ) -> Future[dict[str, list[tuple[int, int, int]]]]:
        """What is free on every link that can be reserved, stretch by stretch."""

        def decide(_batch: Batch) -> dict[str, list[tuple[int, int, int]]]:
            if not 0 <= start < end or end > self.now + 2 * HORIZON:
                raise BadRequestError("a timeline has its start before its end, within four years")
            return {
                link.name: self.admission.timeline(link.name, class_, start, end)
                for link in self.network.links
                if link.reservable
            }

        return self.writer.submit(decide)

    # Checks

    def _check(self, user: User, terms: Terms, now: int, hold: int | None) -> None:
        if user.disabled:
            raise ForbiddenError(f"{user.name} may no longer book")
        self._check_times(terms, now)
        for end in (terms.source, terms.destination):
            if end not in self.network.hosts:
                raise BadRequestError(
                    f"{end!r} is no host of {self.network.name}; expected one of "
                    + ", ".join(self.network.hosts[:20])
                )
        self._check_length(user, terms)
        if hold is not None and not 1 <= hold <= LONGEST_HOLD:
            raise BadRequestError(f"a hold lasts from 1 to {LONGEST_HOLD} seconds, not {hold}")

    def _check_times(self, terms: Terms, now: int) -> None:
        if terms.rate < 1:
            raise BadRequestError("a rate of nothing; expected one above zero")
        if terms.start < now - LATE:
            raise BadRequestError("it starts in the past; expected now, or later")
        if terms.end <= max(terms.start, now):
            raise BadRequestError("it ends before it starts; expected an end behind the start")
        if terms.end > now + HORIZON:
            raise BadRequestError(f"it ends more than {HORIZON // 86400} days ahead")

    def _check_length(self, user: User, terms: Terms) -> None:
        longest = user.quota.seconds
        if longest is not None and terms.end - terms.start > longest:
            raise ConflictError(
                f"it lasts {terms.end - terms.start} s, and yours may last {longest} s",
                {"quota": "seconds", "limit": longest},
            )

    def _check_change(self, user: User, own: Reservation, new: Terms, now: int) -> None:
        if new.rate < 1 or new.burst < 1:
            raise BadRequestError("a rate or burst of nothing; expected one above zero")
        if new.start != own.terms.start and (own.state is State.ACTIVE or new.start < now):
            raise BadRequestError("the start can be moved only before it, and not into the past")
        if new.end <= max(new.start, now):
            raise BadRequestError(
                "it would end in the past, or before it starts; to end it now, cancel it"
            )
        if new.end > now + HORIZON:
            raise BadRequestError(f"it would end more than {HORIZON // 86400} days ahead")
        if not user.sees_all:
            self._check_length(user, new)

    def _asked_before(self, batch: Batch, user: User, key: str, asked: str) -> Reservation | None:
        """The reservation that was made for a key."""
        if _trace(user.id, key) not in self._keys:
            return None
        k = KEYS.c
        select = sa.select(k.reservation_id, k.asked).where(k.owner_id == user.id, k.key == key)
        row = batch.execute(select).first()
        if row is None:
            return None
        if row.asked != asked:
            raise ConflictError(
                f"the key {key!r} was used for reservation {row.reservation_id}, which is another "
                "request",
                {"reservation": row.reservation_id},
            )
        return self.reservation(row.reservation_id, batch)

    def _of(self, batch: Batch, user: User, id_: int) -> Reservation:
        if user.disabled:
            raise ForbiddenError(f"{user.name} may no longer change anything")
        return visible(user, self.reservation(id_, batch))

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
        select = sa.select(r.id, r.start_at, r.end_at, r.rate).where(
            r.owner_id == user.id, r.state.in_(states)
        )
        rows = map(tuple, batch.execute(select).all())
        self.admission.holdings.learn_rates_of(user.id, self.admission.origin, rows)

    # Writing

    def _insert(self, batch: Batch, reservation: Reservation) -> None:
        row = {
            "id": reservation.id,
            "owner_id": reservation.owner,
            **records.terms_row(reservation.terms),
            "path_id": self._path(batch, reservation.path),
            "state": reservation.state.value,
            "hold_until": reservation.hold_until,
            "version": 1,
            "created": reservation.created,
            "started": None,
            "pending": None,
            "trouble": "",
        }
        batch.insert(RESERVATIONS, row)

    def _path(self, batch: Batch, links: tuple[str, ...]) -> int:
        number = self._paths.get(links)
        if number is None:
            number = self._paths[links] = max(self._paths.values(), default=0) + 1
            batch.insert(PATHS, {"id": number, "links": json.dumps(links)})
        return number

    def _move(
        self, batch: Batch, own: Reservation, state: State, author: str, action: str, reason: str
    ) -> Reservation:
        """Bring a reservation to another state."""
        started = self.now if state is State.ACTIVE else own.started
        self._update(batch, own.id, state=state.value, started=started, pending=sa.null())
        if not state.is_live:
            self.admission.release(own)
        self._log(batch, own.id, author, action, state, reason, {})
        return replace(own, state=state, started=started, pending=None)

    def _begin_change(
        self,
        batch: Batch,
        own: Reservation,
        new: Terms,
        author: str,
        reason: str,
        detail: Mapping[str, object],
    ) -> Reservation:
        self._update(batch, own.id, pending=records.terms_row(new))
        self._log(batch, own.id, author, "change", own.state, reason, detail)
        return replace(own, pending=new)

    def _set_terms(
        self,
        batch: Batch,
        own: Reservation,
        new: Terms,
        author: str,
        action: str,
        reason: str,
        detail: Mapping[str, object],
    ) -> Reservation:
        version = own.version + 1
        self._update(batch, own.id, pending=sa.null(), version=version, **records.terms_row(new))
        self._log(batch, own.id, author, action, own.state, reason, detail)
        return replace(own, terms=new, pending=None, version=version)

    def _update(self, batch: Batch, id_: int, **values: Any) -> None:
        batch.execute(RESERVATIONS.update().where(RESERVATIONS.c.id == id_).values(values))

    def _log(
        self,
        batch: Batch,
        id_: int,
        author: str,
        action: str,
        state: State,
        reason: str,
        detail: Mapping[str, object],
    ) -> None:
        row = {
            "id": self._next_entry,
            "reservation_id": id_,
            "at": self.now,
            "author": author,
            "action": action,
            "state": state.value,
            "reason": reason,
            "detail": detail,
        }
        self._next_entry += 1
        batch.insert(LOG, row)


def _rule_of(terms: Terms) -> tuple[object, ...]:
    """What enforcing routers are told of terms."""
    return terms.rate, terms.burst, terms.selector


def _trace(owner: int, key: str) -> int:
    """A number that says that a key may have been used: most have not, and need no look."""
    return hash((owner, key))


def _without_figures(trouble: str) -> str:
    return re.sub(r"\d+", "", trouble)


def _digest(value: object) -> str:
    text = json.dumps(value, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()
