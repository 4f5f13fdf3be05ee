"""Serves: database, service, enforcement and HTTP, begun and ended in order."""

from __future__ import annotations

import contextlib
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import uvicorn

from perhop_services.reservations.database import Database
from perhop_services.reservations.enforcement import EVERY, Enforcer
from perhop_services.reservations.http.application import application
from perhop_services.reservations.http.connections import MOST, limited
from perhop_services.reservations.model import Quota
from perhop_services.reservations.people import People
from perhop_services.reservations.service import Service
from perhop_services.reservations.steady import SteadyClock
from perhop_services.reservations.supervised import LOG
from perhop_services.reservations.webhooks import Deliveries

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from perhop_services.reservations.destinations import Network as Destination
    from perhop_services.reservations.drivers import Driver
    from perhop_services.reservations.network import Network


@dataclass(frozen=True)
class Serving:
    """What is served, and how.

    Attributes:
        network: What there is to reserve.
        database: Its URL or path.
        drivers: What enforces, by router.
        host: The address to listen at.
        port: The port; 0 for any.
        hosts: Names by which browsers may call it.
        certificate: The file of a certificate for TLS.
        key: The file of its private key.
        every: Seconds between two readings of counters.
        proxies: Addresses of proxies whose header `X-Forwarded-For` is believed.
        quota: The quota of new users that are given none.
        webhooks: Networks, beside the public internet, to which webhooks may lead.
    """

    network: Network
    database: str
    drivers: Mapping[str, Driver]
    host: str = "127.0.0.1"
    port: int = 8471
    hosts: frozenset[str] = field(default_factory=frozenset)
    certificate: Path | None = None
    key: Path | None = None
    every: float = EVERY
    proxies: tuple[str, ...] = ()
    webhooks: tuple[Destination, ...] = ()
    quota: Quota = field(default_factory=Quota)


@contextlib.contextmanager
def running(serving: Serving) -> Iterator[uvicorn.Server]:
    """A server that is ready to run, with everything behind it."""
    with contextlib.ExitStack() as stack:
        database = Database(serving.database, create=False)
        stack.callback(database.close)
        clock = SteadyClock()
        service = Service(serving.network, database, clock=clock)
        stack.callback(service.close)
        for id_ in service.lost:
            service.note_trouble(id_, "the network no longer has its links or class")
            LOG.error("the network no longer has the links or class of reservation %d", id_)
        enforcer = Enforcer(service, serving.drivers, every=serving.every)
        stack.callback(enforcer.close)
        deliveries = Deliveries(service, allowed=serving.webhooks)
        stack.callback(deliveries.close)
        app = application(
            service,
            People(database, clock=clock, quota=serving.quota),
            enforcer,
            hosts=serving.hosts,
            secure=serving.certificate is not None,
            threads=[deliveries.thread],
        )
        config = uvicorn.Config(
            app,
            host=serving.host,
            port=serving.port,
            ssl_certfile=serving.certificate,
            ssl_keyfile=serving.key,
            access_log=False,
            log_level="warning",
            server_header=False,
            proxy_headers=bool(serving.proxies),
            forwarded_allow_ips=list(serving.proxies),
            http=limited(serving.proxies),
            ws="none",
            backlog=MOST,
            timeout_graceful_shutdown=5,
        )
        yield uvicorn.Server(config)


def serve(serving: Serving, listening: Callable[[int], None] = lambda _: None) -> None:
    """Serve until asked to end.

    Args:
        serving: What is served.
        listening: Called with the port when the address takes connections.
    """
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s")
    with running(serving) as server:
        startup = server.startup

        async def start(sockets: list[socket.socket] | None = None) -> None:
            await startup(sockets)
            if server.started:
                listening(server.servers[0].sockets[0].getsockname()[1])

        server.startup = start  # type: ignore[method-assign]
        server.run()
