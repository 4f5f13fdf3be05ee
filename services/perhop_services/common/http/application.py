"""A service as an application: its routes beside those that every service has."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI
from starlette.staticfiles import StaticFiles

from perhop_services.common.http import health, people
from perhop_services.common.http.guard import Guard
from perhop_services.common.http.problems import HANDLERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from fastapi import APIRouter

    from perhop_services.common.http.health import Figure
    from perhop_services.common.people import People
    from perhop_services.common.supervised import Watched
    from perhop_services.common.webhooks import Webhooks
    from perhop_services.common.writer import Writer


@dataclass(frozen=True)
class Parts:
    """Parts of an application that differ from service to service.

    Attributes:
        title: Name in the OpenAPI description.
        description: Beginning of the OpenAPI description.
        routers: Routes of the service.
        page: Folder of the page, which may use the files of `common/page`.
        people: Users who may log in.
        webhooks: Webhooks that users manage.
        writer: Writer of the database, which `/healthz` asks.
        threads: Threads that `/healthz` shows.
        figures: Reads the figures for `/metrics` while the database answers.
        state: Objects that routes find in `app.state`, by name.
    """

    title: str
    description: str
    routers: Iterable[APIRouter]
    page: Path
    people: People
    webhooks: Webhooks
    writer: Writer
    threads: Iterable[Watched]
    figures: Callable[[], Iterable[Figure]]
    state: Mapping[str, Any] = field(default_factory=dict)


def application(parts: Parts, *, hosts: Iterable[str] = (), secure: bool = False) -> FastAPI:
    """Make the application of a service.

    Args:
        parts: Parts of the service.
        hosts: Names by which browsers may call it, beside those of this machine itself.
        secure: True if it is served over TLS, so that cookies go over nothing else.
    """
    app = FastAPI(
        title=parts.title,
        version=version("perhop-services"),
        description=parts.description,
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/openapi.json",
        exception_handlers=HANDLERS,
    )
    for name, each in parts.state.items():
        setattr(app.state, name, each)
    app.state.people = parts.people
    app.state.webhooks = parts.webhooks
    app.state.secure = secure
    app.state.health = health.Health(parts.writer, list(parts.threads), parts.figures)
    for router in (health.router, *parts.routers, people.router):
        app.include_router(router)
    pages = StaticFiles(
        directory=parts.page, packages=[("perhop_services.common", "page")], html=True
    )
    app.mount("/", pages, name="page")
    app.add_middleware(Guard, hosts=frozenset(hosts), secure=secure)
    return app
