"""Reads of the database: reservations, their log and their counters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa

from perhop_services.common.errors import NotFoundError
from perhop_services.reservations import records
from perhop_services.reservations.model import State
from perhop_services.reservations.schema import COUNTERS, LOG, RESERVATIONS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from perhop_services.common.database import Database
    from perhop_services.common.users import User
    from perhop_services.common.writer import Batch
    from perhop_services.reservations.model import LogEntry, Reservation

_PAGE: Final = 100


class Register:
    """Reads a database; it returns only committed data."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def check(self) -> None:
        """Check all states on file, and the terms of all changes under way.

        Raises:
            ValueError: One is no state.
            UnavailableError: Terms are damaged.
        """
        odd = sa.select(RESERVATIONS.c.state).where(
            RESERVATIONS.c.state.not_in([state.value for state in State])
        )
        with self.database.reading() as connection:
            changing = records.SELECT.where(RESERVATIONS.c.pending.is_not(None))
            for row in connection.execute(changing).mappings():
                records.reservation(dict(row))
            for state in connection.scalars(odd.limit(1)):
                raise ValueError(f"{state!r} is no state of a reservation")

    def reservation(self, id_: int, batch: Batch | None = None) -> Reservation:
        """Return the reservation with a number.

        Raises:
            NotFoundError: Unknown reservation.
        """
        select = records.SELECT.where(RESERVATIONS.c.id == id_)
        if batch is not None:
            row = batch.execute(select).mappings().first()
        else:
            with self.database.reading() as connection:
                row = connection.execute(select).mappings().first()
        if row is None:
            raise NotFoundError(f"there is no reservation {id_}")
        return records.reservation(dict(row))

    def seen_by(self, user: User, id_: int) -> Reservation:
        """Return the reservation with a number, if a user may see it.

        Raises:
            NotFoundError: Unknown reservation, or the property of another user.
        """
        return visible(user, self.reservation(id_))

    def log(self, id_: int | None = None, after: int = 0, limit: int = 1000) -> list[LogEntry]:
        """Return the log, of one reservation or of all, in order."""
        select = records.SELECT_LOG.where(LOG.c.id > after).order_by(LOG.c.id).limit(limit)
        if id_ is not None:
            select = select.where(LOG.c.reservation_id == id_)
        with self.database.reading() as connection:
            return [records.log_entry(dict(row)) for row in connection.execute(select).mappings()]

    def listed(
        self,
        owner: int | None = None,
        states: Sequence[State] = (),
        during: tuple[int, int] | None = None,
        after: int = 0,
        limit: int = 100,
    ) -> list[Reservation]:
        """Reservations by number.

        Args:
            owner: Owner; None for all.
            states: In which states; none for all.
            during: That meet this span.
            after: With a number above this.
            limit: Greatest number of results.
        """
        r = RESERVATIONS.c
        select = records.SELECT.where(r.id > after).order_by(r.id).limit(limit)
        if owner is not None:
            select = select.where(r.owner_id == owner)
        if states:
            select = select.where(r.state.in_([state.value for state in states]))
        if during is not None:
            select = select.where(r.start_at < during[1], r.end_at > during[0])
        with self.database.reading() as connection:
            return [records.reservation(dict(row)) for row in connection.execute(select).mappings()]

    def due(
        self, state: State, by: int, *, ending: bool = False, but: str = ""
    ) -> Iterator[Reservation]:
        """Those in a state that start, or end, by an instant, in order of that.

        Args:
            state: In which state.
            by: By when.
            ending: True if the end counts.
            but: Leave out those with this trouble, if it is not "".
        """
        r = RESERVATIONS.c
        column = r.end_at if ending else r.start_at
        select = records.SELECT.where(r.state == state.value, column <= by)
        if but:
            select = select.where(r.trouble != but)
        select = select.order_by(column, r.id).limit(_PAGE)
        page = select
        while True:
            with self.database.reading() as connection:
                rows = connection.execute(page).mappings().all()
            yield from (records.reservation(dict(row)) for row in rows)
            if len(rows) < _PAGE:
                return
            last = rows[-1][column.key], rows[-1]["id"]
            page = select.where(sa.tuple_(column, r.id) > last)

    def changing(self) -> list[Reservation]:
        """Return the reservations whose new terms are being installed."""
        with self.database.reading() as connection:
            rows = connection.execute(records.SELECT_CHANGING).mappings().all()
            return [records.reservation(dict(row)) for row in rows]

    def series(self, id_: int, most: int | None = None) -> list[dict[str, Any]]:
        """The readings of a reservation's counters, in order.

        Where there are more than `most`, every so many are left out, but never the first and the
        last since counters were cleared. The database does that, so that few are read.
        """
        c = COUNTERS.c
        mine = sa.select(COUNTERS).where(c.reservation_id == id_)
        with self.database.reading() as connection:
            if most is not None:
                count = connection.scalar(sa.select(sa.func.count()).select_from(mine.subquery()))
                every = -(-(count or 0) // most)
                if every > 1:
                    all_ = mine.add_columns(
                        (sa.func.row_number().over(order_by=c.at_ms) - 1).label("place"),
                        sa.func.lag(c.epoch).over(order_by=c.at_ms).label("before"),
                        sa.func.lead(c.epoch).over(order_by=c.at_ms).label("after"),
                    ).subquery()
                    a = all_.c
                    edge = (a.before != a.epoch) | (a.after != a.epoch)
                    ends = a.before.is_(None) | a.after.is_(None)
                    few = sa.select(*(a[column.name] for column in COUNTERS.columns))
                    mine = few.where((a.place % every == 0) | edge | ends)
                    mine = mine.order_by(a.at_ms)
                    return [dict(row) for row in connection.execute(mine).mappings()]
            rows = connection.execute(mine.order_by(c.at_ms)).mappings()
            return [dict(row) for row in rows]

    def epoch(self, id_: int) -> int:
        """Return how often the counters of a reservation have been cleared."""
        c = COUNTERS.c
        last = sa.select(c.epoch).where(c.reservation_id == id_).order_by(c.at_ms.desc()).limit(1)
        with self.database.reading() as connection:
            return connection.scalar(last) or 0


def visible(user: User, reservation: Reservation) -> Reservation:
    """Return the reservation if a user may see it; raise the error of an unknown one otherwise."""
    if reservation.owner != user.id and not user.sees_all:
        raise NotFoundError(f"there is no reservation {reservation.id}")
    return reservation
