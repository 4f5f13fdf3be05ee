"""State changes of reservations without a request: reports of enforcement and of the clock."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa

from perhop_services.reservations import records
from perhop_services.reservations.checks import LATE
from perhop_services.reservations.clock import remember
from perhop_services.reservations.decisions import ITSELF
from perhop_services.reservations.keys import Keys
from perhop_services.reservations.model import State
from perhop_services.reservations.schema import COUNTERS, RESERVATIONS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from concurrent.futures import Future

    from perhop_services.common.writer import Batch
    from perhop_services.reservations.decisions import Decisions
    from perhop_services.reservations.model import Reservation

COUNTERS_KEPT: Final = 400 * 86_400
"""For how many seconds readings of counters are kept."""


class Outcomes:
    """Decisions on what has happened already."""

    def __init__(self, decisions: Decisions) -> None:
        self._decisions = decisions

    def settle(self, id_: int, author: str) -> Future[Reservation]:
        """The pending terms are in place.

        Raises (by the future):
            ConflictError: There is no room for them any more, because the network has changed.
        """

        def decide(batch: Batch) -> Reservation:
            own = self._decisions.register.reservation(id_, batch)
            if own.pending is None or own.state is not State.ACTIVE:
                return own
            self._decisions.admission.settle(own, own.pending, self._decisions.now)
            detail = records.differences(own.terms, own.pending)
            return self._decisions.set_terms(batch, own, own.pending, author, "changed", "", detail)

        return self._decisions.writer.submit(decide)

    def take_back(self, id_: int, reason: str) -> Future[Reservation]:
        """The pending terms cannot be put in place; the old ones hold."""

        def decide(batch: Batch) -> Reservation:
            own = self._decisions.register.reservation(id_, batch)
            if own.pending is None or not own.state.is_live:
                return own
            self._decisions.admission.take_back(own, own.pending, self._decisions.now)
            self._decisions.update(batch, id_, pending=sa.null())
            self._decisions.log(batch, id_, ITSELF, "unchanged", own.state, reason, {})
            return replace(own, pending=None)

        return self._decisions.writer.submit(decide)

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
            own = self._decisions.register.reservation(id_, batch)
            if own.state is not expected or (version is not None and own.version != version):
                return None
            return self._decisions.move(batch, own, state, ITSELF, action, reason)

        return self._decisions.writer.submit(decide)

    def expire(self) -> Future[int]:
        """Cancel what was held and not committed in time; answers how many."""

        def decide(batch: Batch) -> int:
            now = self._decisions.now
            r = RESERVATIONS.c
            batch.flush()
            expired = batch.read(
                records.SELECT.where(r.state == State.HELD.value, r.hold_until <= now).limit(100)
            )
            count = 0
            for row in expired.mappings().all():
                self._decisions.move(
                    batch,
                    records.reservation(dict(row)),
                    State.CANCELLED,
                    ITSELF,
                    "expire",
                    "the hold expired",
                )
                count += 1
            return count

        return self._decisions.writer.submit(decide)

    def note_trouble(self, id_: int, trouble: str) -> Future[None]:
        """Put on file what is wrong with a reservation's enforcement; "" when it no longer is.

        What differs from the last in its figures only is the same trouble, and not told again.
        """

        def decide(batch: Batch) -> None:
            own = self._decisions.register.reservation(id_, batch)
            if _without_figures(own.trouble) == _without_figures(trouble):
                return
            self._decisions.update(batch, id_, trouble=trouble)
            reason = trouble or f"over: {own.trouble}"
            self._decisions.log(
                batch, id_, ITSELF, "trouble" if trouble else "well", own.state, reason, {}
            )

        return self._decisions.writer.submit(decide)

    def note(self, id_: int, author: str, action: str, reason: str) -> Future[None]:
        """Put something in a reservation's log that changes nothing else."""

        def decide(batch: Batch) -> None:
            own = self._decisions.register.reservation(id_, batch)
            self._decisions.log(batch, id_, author, action, own.state, reason, {})

        return self._decisions.writer.submit(decide)

    def add_counters(self, rows: Sequence[Mapping[str, Any]]) -> Future[None]:
        """Add readings to the series: rows of the table `counters`."""

        def decide(batch: Batch) -> None:
            for row in rows:
                batch.insert(COUNTERS, row)

        return self._decisions.writer.submit(decide)

    def tidy(self) -> Future[None]:
        """Forget what is long over: requests by their keys, counters, and what was booked when."""

        def decide(batch: Batch) -> None:
            now = self._decisions.now
            remember(batch.connection, now)
            self._decisions.keys = Keys.tidied(batch, now)
            old = COUNTERS.c.at_ms < (now - COUNTERS_KEPT) * 1000
            batch.execute(COUNTERS.delete().where(old))
            self._decisions.admission.forget_before(now - LATE)

        return self._decisions.writer.submit(decide)


def _without_figures(trouble: str) -> str:
    return re.sub(r"\d+", "", trouble)
