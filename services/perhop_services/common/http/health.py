"""Routes for monitoring: health, and metrics for Prometheus."""

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, NamedTuple, TypeVar

import sqlalchemy as sa
from fastapi import APIRouter, Request, Response

from perhop_services.common.supervised import Watched
from perhop_services.common.writer import Batch, Writer

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


class Figure(NamedTuple):
    """A figure for Prometheus: its values by their labels, such as ``{state="active"}`` or ""."""

    name: str
    kind: Literal["gauge", "counter"]
    help: str
    values: Sequence[tuple[str, float]]


class Health:
    """The state of a service: its threads, its database, and its figures."""

    def __init__(
        self,
        writer: Writer,
        threads: Sequence[Watched],
        figures: Callable[[], Iterable[Figure]],
    ) -> None:
        self._writer = writer
        self._threads = threads
        self._figures = figures
        self._recent = Recent()

    def troubles(self) -> dict[str, str]:
        """Return the problem of each part; "" for a part that works."""
        return self._recent.get("troubles", 1.0, self._troubles)

    def metrics(self) -> str:
        """Return all metrics in the text format of Prometheus."""
        return self._recent.get("metrics", 5.0, self._metrics)

    def _troubles(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for thread in self._threads:
            trouble = thread.trouble and thread.trouble.partition(":")[0]
            if not thread.is_alive:
                trouble = "ended"
            elif not trouble and thread.idle > IDLE:
                trouble = f"nothing done for {thread.idle:.0f} s"
            found[thread.name] = trouble
        try:
            with self._writer.database.reading() as connection:
                connection.execute(sa.select(1))
            # The writer answers, too, and holds the database's lock.
            self._writer.submit(_look, reads=True).result(5)
            found["database"] = ""
        except Exception as error:
            found["database"] = type(error).__name__
        return found

    def _metrics(self) -> str:
        troubles = self._troubles()
        up = [(f'{{part="{part}"}}', float(not why)) for part, why in troubles.items()]
        figures = [Figure("up", "gauge", "Whether a part of the service works.", up)]
        if not troubles["database"]:
            figures += self._figures()
        lines: list[str] = []
        for name, kind, help_, values in figures:
            lines.extend((f"# HELP perhop_{name} {help_}", f"# TYPE perhop_{name} {kind}"))
            lines.extend(f"perhop_{name}{labels} {value:g}" for labels, value in values)
        return "\n".join(lines) + "\n"


def _look(batch: Batch) -> None:
    batch.execute(sa.select(1)).scalar()


@router.get(
    "/healthz", responses={503: {"description": "A part does not work; the answer names it"}}
)
def health(request: Request, response: Response) -> dict[str, Any]:
    """Report whether the threads of the service and the database work. Needs no login."""
    found: Health = request.app.state.health
    troubles = found.troubles()
    well = not any(troubles.values())
    response.status_code = 200 if well else 503
    return {"status": "ok" if well else "failing", "troubles": troubles}


@router.get("/metrics", response_class=Response)
def metrics(request: Request) -> Response:
    """Metrics in the text format of Prometheus, version 0.0.4. Needs no login."""
    found: Health = request.app.state.health
    return Response(found.metrics(), media_type="text/plain; version=0.0.4; charset=utf-8")
