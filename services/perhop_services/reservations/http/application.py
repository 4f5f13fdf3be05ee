"""The application: the parts of the reservation service."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import sqlalchemy as sa

from perhop_services.common.http.application import Parts
from perhop_services.common.http.health import Figure
from perhop_services.common.webhooks import Webhooks
from perhop_services.reservations.http import bookings
from perhop_services.reservations.schema import LOG, RESERVATIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from perhop_services.common.people import People
    from perhop_services.common.supervised import Watched
    from perhop_services.reservations.enforcement import Enforcer
    from perhop_services.reservations.service import ReservationService

PAGE: Final = Path(__file__).parent.parent / "page"


def parts(
    service: ReservationService, users: People, enforcer: Enforcer, threads: Iterable[Watched] = ()
) -> Parts:
    """Return the parts of the service's application.

    Args:
        service: Reservations.
        users: Users who may log in.
        enforcer: Enforcement, whose threads `/healthz` shows.
        threads: Other threads that it shows.
    """
    return Parts(
        title="perhop reservations",
        description=(
            "Bandwidth that is booked for a time. Times are seconds since 1970, UTC, and spans "
            "half-open; rates are bits per second."
        ),
        routers=[bookings.router],
        page=PAGE,
        people=users,
        webhooks=Webhooks(service.database, LOG),
        writer=service.writer,
        threads=[service.writer.thread, *enforcer.threads, *threads],
        figures=lambda: _figures(service),
        state={"service": service, "enforcer": enforcer},
    )


def _figures(service: ReservationService) -> Iterator[Figure]:
    r = RESERVATIONS.c
    states = sa.select(r.state, sa.func.count()).group_by(r.state)
    troubled = sa.select(sa.func.count()).where(r.trouble != "", r.state == "active")
    with service.database.reading() as connection:
        counts = [(f'{{state="{state}"}}', n) for state, n in connection.execute(states)]
        wrong = connection.scalar(troubled) or 0
        entries = connection.scalar(sa.select(sa.func.max(LOG.c.id))) or 0
    yield Figure("reservations", "gauge", "Reservations by state.", counts)
    yield Figure("troubled", "gauge", "Active reservations with a trouble.", [("", wrong)])
    yield Figure("log_entries_total", "counter", "Entries of the log.", [("", entries)])
    bookings = service.admission.bookings
    yield Figure("bookings", "gauge", "Bookings in the calendar.", [("", bookings)])
    lost = len(service.lost)
    yield Figure("lost", "gauge", "Reservations without their links or class.", [("", lost)])
