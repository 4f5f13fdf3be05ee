"""The application: routes, errors as JSON, and the headers of every answer."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from sqlalchemy import exc
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles

from perhop_services.reservations.errors import ReservationError, ThrottledError
from perhop_services.reservations.http import bookings, health, people
from perhop_services.reservations.http.guard import Guard
from perhop_services.reservations.supervised import LOG, Supervised

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fastapi import Request

    from perhop_services.reservations.enforcement import Enforcer
    from perhop_services.reservations.people import People
    from perhop_services.reservations.service import Service

PAGE: Final = Path(__file__).parent.parent / "page"


def application(
    service: Service,
    users: People,
    enforcer: Enforcer,
    *,
    hosts: Iterable[str] = (),
    secure: bool = False,
    threads: Iterable[Supervised] = (),
) -> FastAPI:
    """The service over HTTP.

    Args:
        service: What is served.
        users: Who may log in.
        enforcer: What has routers do it.
        hosts: Names by which browsers may call it, beside those of this machine itself.
        secure: Whether it is served over TLS, so that cookies go over nothing else.
        threads: What else is shown in `/healthz`.
    """
    app = FastAPI(
        title="perhop reservations",
        version=version("perhop"),
        description=(
            "Bandwidth that is booked for a time. Times are seconds since 1970, UTC, and spans "
            "half-open; rates are bits per second."
        ),
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/openapi.json",
        exception_handlers={
            ReservationError: _refused,
            RequestValidationError: _invalid,
            HTTPException: _http,
            exc.DBAPIError: _away,
            exc.TimeoutError: _away,
            exc.ResourceClosedError: _away,
        },
    )
    app.state.service = service
    app.state.people = users
    app.state.enforcer = enforcer
    app.state.secure = secure
    app.state.threads = list(threads)
    app.state.recent = health.Recent()
    app.include_router(health.router)
    app.include_router(bookings.router)
    app.include_router(people.router)
    app.mount("/", StaticFiles(directory=PAGE, html=True), name="page")
    app.add_middleware(Guard, hosts=frozenset(hosts), secure=secure)
    return app


def _answer(
    status: int, error: str, detail: object = None, headers: dict[str, str] | None = None
) -> Response:
    # ASCII, as names that were sent may be no valid text.
    content = json.dumps({"error": error, "detail": detail or {}})
    return Response(content, status, headers, "application/json")


async def _refused(_request: Request, error: Exception) -> Response:
    assert isinstance(error, ReservationError)
    headers = {}
    if isinstance(error, ThrottledError):
        headers["Retry-After"] = str(error.detail["retry_after"])
    if error.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return _answer(error.status, str(error), error.detail, headers)


async def _invalid(_request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    found: list[dict[str, Any]] = [
        {"place": ".".join(map(str, each["loc"])), "message": each["msg"]}
        for each in error.errors()[:20]
    ]
    first = found[0] if found else {"place": "", "message": "invalid"}
    return _answer(422, f"{first['place']}: {first['message']}", {"problems": found})


async def _away(_request: Request, error: Exception) -> Response:
    """Answer that the database is not available, without details of the query."""
    if isinstance(error, (exc.IntegrityError, exc.DataError)):
        raise error  # a bug
    cause = str(getattr(error, "orig", None) or error).splitlines()[0]
    LOG.error("the database does not answer: %s", cause)
    return _answer(503, "the database does not answer; try again")


async def _http(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _answer(error.status_code, str(error.detail), headers=dict(error.headers or {}))
