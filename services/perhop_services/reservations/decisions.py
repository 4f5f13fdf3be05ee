"""The basis of all decisions: the state in memory, and how decisions write.

Everything that changes something is a decision of the one writer. A decision checks first and
changes afterwards, so that what is refused has changed nothing, whether in memory or on the disk.
"""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa

from perhop_services.common.errors import UnavailableError, when
from perhop_services.common.writer import Writer
from perhop_services.reservations import records
from perhop_services.reservations.admission import Admission
from perhop_services.reservations.checks import LATE
from perhop_services.reservations.clock import doubt, remember
from perhop_services.reservations.keys import Keys
from perhop_services.reservations.model import LIVE, State
from perhop_services.reservations.register import Register
from perhop_services.reservations.schema import LOG, PATHS, RESERVATIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from perhop_services.common.database import Database
    from perhop_services.common.writer import Batch
    from perhop_services.reservations.model import Reservation, Terms
    from perhop_services.reservations.network import Network

ITSELF: Final = "perhop"
"""The author of actions without a user's request."""


class Decisions:
    """The reservations of one network in one database, and the writer that decides on them."""

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
        self.database = database
        self.register = Register(database)
        self.network = network
        self.clock = clock
        self.lost: list[int] = []
        """Reservations on file whose links or class the network no longer has."""
        self._origin: int | None = None
        with database.loading():
            self._read_only = "" if accept_clock else doubt(database, int(clock()))
            if not self._read_only:
                with database.writing() as connection:
                    remember(connection, int(clock()))
            self._load()
            self.register.check()
        self.writer = Writer(database, self._load)
        self.writer.read_only = self._read_only

    def close(self) -> None:
        """Finish all requests, and end."""
        self.writer.close()

    @property
    def now(self) -> int:
        """The current second.

        Raises:
            UnavailableError: The clock went back behind the beginning of the calendar.
        """
        now = int(self.clock())
        if self._origin is not None and now < self._origin:
            raise UnavailableError(
                f"the clock went back: it says {when(now)}, and what was before "
                f"{when(self._origin)} is over; put it right, or restart the service if it is right"
            )
        return now

    def _load(self) -> None:
        r = RESERVATIONS.c
        now = int(self.clock())
        # The state is hidden from the planner, which would otherwise sort by number what an index
        # has by state.
        live = sa.func.coalesce(r.state, "").in_([state.value for state in LIVE])
        rows = sa.select(
            r.id, r.start_at, r.end_at, r.rate, r.owner_id, r.path_id, r["class"], r.about
        ).where(live)
        if not self._read_only:
            with self.database.writing() as connection:
                Keys.forget(connection, now)
        with self.database.reading() as connection:
            paths = {
                number: tuple(json.loads(links))
                for number, links in connection.execute(sa.select(PATHS.c.id, PATHS.c.links))
            }
            self.keys = Keys(connection)
            self.next_reservation = (connection.scalar(sa.select(sa.func.max(r.id))) or 0) + 1
            self._next_entry = (connection.scalar(sa.select(sa.func.max(LOG.c.id))) or 0) + 1
            changing = connection.execute(records.SELECT_CHANGING).mappings().all()
        admission = Admission(self.network, now - LATE)
        self.lost = admission.restore(paths, self._alive(self.database.pages(rows)), now)
        for row in changing:
            own = records.reservation(dict(row))
            assert own.pending is not None, "it was selected"
            admission.stage(own, own.pending, now)
        self.admission, self._origin = admission, admission.origin
        self._paths = {links: number for number, links in paths.items()}

    def _alive(self, pages: Iterator[str]) -> Iterator[str]:
        """Pages of a long reading, between which the database's lock gets its sign of life."""
        for page in pages:
            self.database.holds_lock()
            yield page

    # Writing

    def insert(self, batch: Batch, reservation: Reservation) -> None:
        """Put a new reservation on file."""
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

    def move(
        self, batch: Batch, own: Reservation, state: State, author: str, action: str, reason: str
    ) -> Reservation:
        """Set the state of a reservation."""
        started = self.now if state is State.ACTIVE else own.started
        self.update(batch, own.id, state=state.value, started=started, pending=sa.null())
        if not state.is_live:
            self.admission.release(own)
        self.log(batch, own.id, author, action, state, reason, {})
        return replace(own, state=state, started=started, pending=None)

    def begin_change(
        self,
        batch: Batch,
        own: Reservation,
        new: Terms,
        author: str,
        reason: str,
        detail: Mapping[str, object],
    ) -> Reservation:
        """Put new terms on file as pending."""
        self.update(batch, own.id, pending=records.terms_row(new))
        self.log(batch, own.id, author, "change", own.state, reason, detail)
        return replace(own, pending=new)

    def set_terms(
        self,
        batch: Batch,
        own: Reservation,
        new: Terms,
        author: str,
        action: str,
        reason: str,
        detail: Mapping[str, object],
    ) -> Reservation:
        """Put new terms on file as those that hold."""
        version = own.version + 1
        self.update(batch, own.id, pending=sa.null(), version=version, **records.terms_row(new))
        self.log(batch, own.id, author, action, own.state, reason, detail)
        return replace(own, terms=new, pending=None, version=version)

    def update(self, batch: Batch, id_: int, **values: Any) -> None:
        """Change columns of a reservation."""
        batch.execute(RESERVATIONS.update().where(RESERVATIONS.c.id == id_).values(values))

    def log(
        self,
        batch: Batch,
        id_: int,
        author: str,
        action: str,
        state: State,
        reason: str,
        detail: Mapping[str, object],
    ) -> None:
        """Add an entry to the log."""
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
