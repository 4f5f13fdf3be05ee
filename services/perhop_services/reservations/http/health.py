"""Routes for monitoring: health, and metrics for Prometheus."""

import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

import sqlalchemy as sa
from fastapi import APIRouter, Request, Response

from perhop_services.reservations.enforcement import Enforcer  # noqa: TC001 - FastAPI reads this module
from perhop_services.reservations.schema import LOG, RESERVATIONS
from perhop_services.reservations.service import Service  # noqa: TC001

router = APIRouter(tags=["health"])

IDLE = 30.0
"""Seconds after which a thread that has not completed a step is said to hang."""


T = TypeVar("T")


class Recent:
    """An answer that is computed at most once in a period, and by one request at a time.

    It needs no authentication.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: dict[str, tuple[float, Any]] = {}

    def get(self, name: str, seconds: float, make: Callable[[], T]) -> T:
        """The answer of a name, at most so many seconds old where it can be made in time."""
        at, made = self._made.get(name, (-1e9, None))
        wanted = time.monotonic() - at > seconds
        # While it is being made, others get the last one.
        if wanted and self._lock.acquire(blocking=made is None):
            try:
                if time.monotonic() - self._made.get(name, (-1e9, None))[0] > seconds:
                    self._made[name] = (time.monotonic(), make())
            finally:
                self._lock.release()
        found: T = self._made[name][1]
        return found


def _troubles(request: Request) -> dict[str, str]:
    """Return the problem of each part; "" for a part that works."""
    enforcer: Enforcer = request.app.state.enforcer
    service: Service = request.app.state.service
    threads = [enforcer.thread, *request.app.state.threads]
    found: dict[str, str] = {}
    for thread in threads:
        trouble = thread.trouble and thread.trouble.partition(":")[0]
        if not thread.is_alive:
            trouble = "ended"
        elif not trouble and thread.idle > IDLE:
            trouble = f"nothing done for {thread.idle:.0f} s"
        found[thread.name] = trouble
    try:
        with service.database.engine.connect() as connection:
            connection.execute(sa.select(1))
        # The writer answers, too, and holds the database's lock.
        service.writer.submit(lambda batch: batch.execute(sa.select(1)).scalar()).result(5)
        found["database"] = ""
    except Exception as error:
        found["database"] = type(error).__name__
    return found


@router.get(
    "/healthz", responses={503: {"description": "A part does not work; the answer names it"}}
)
def health(request: Request, response: Response) -> dict[str, Any]:
    """Whether the enforcer, the webhooks and the database work. Needs no login."""
    recent: Recent = request.app.state.recent
    troubles = recent.get("troubles", 1.0, lambda: _troubles(request))
    well = not any(troubles.values())
    response.status_code = 200 if well else 503
    return {"status": "ok" if well else "failing", "troubles": troubles}


@router.get("/metrics", response_class=Response)
def metrics(request: Request) -> Response:
    """Metrics in the text format of Prometheus, version 0.0.4. Needs no login."""
    recent: Recent = request.app.state.recent
    text = recent.get("metrics", 5.0, lambda: _metrics(request))
    return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")


def _metrics(request: Request) -> str:
    service: Service = request.app.state.service
    troubles = _troubles(request)
    lines: list[str] = []

    def told(name: str, kind: str, help_: str, *values: tuple[str, float]) -> None:
        lines.extend((f"# HELP perhop_{name} {help_}", f"# TYPE perhop_{name} {kind}"))
        lines.extend(f"perhop_{name}{labels} {value:g}" for labels, value in values)

    up = [(f'{{part="{part}"}}', float(not why)) for part, why in troubles.items()]
    told("up", "gauge", "Whether a part of the service works.", *up)
    if not troubles["database"]:
        r = RESERVATIONS.c
        states = sa.select(r.state, sa.func.count()).group_by(r.state)
        troubled = sa.select(sa.func.count()).where(r.trouble != "", r.state == "active")
        with service.database.engine.connect() as connection:
            counts = [(f'{{state="{state}"}}', n) for state, n in connection.execute(states)]
            wrong = connection.scalar(troubled) or 0
            entries = connection.scalar(sa.select(sa.func.max(LOG.c.id))) or 0
        told("reservations", "gauge", "Reservations by state.", *counts)
        told("troubled", "gauge", "Active reservations with a trouble.", ("", wrong))
        told("log_entries_total", "counter", "Entries of the log.", ("", entries))
    told("bookings", "gauge", "Bookings in the calendar.", ("", service.admission.bookings))
    told("lost", "gauge", "Reservations without their links or class.", ("", len(service.lost)))
    return "\n".join(lines) + "\n"
