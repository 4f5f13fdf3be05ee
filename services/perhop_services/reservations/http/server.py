"""Serves: database, service, enforcement and HTTP, begun and ended in order."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from perhop_services.common.http import server as http
from perhop_services.common.http.application import application
from perhop_services.common.logs import LOG, configure, fields
from perhop_services.common.people import People
from perhop_services.common.steady import SteadyClock
from perhop_services.common.users import Quota
from perhop_services.common.webhooks import Deliveries
from perhop_services.reservations.enforcement import EVERY, Enforcer
from perhop_services.reservations.http.application import parts
from perhop_services.reservations.schema import open_database
from perhop_services.reservations.service import ReservationService

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import uvicorn

    from perhop_services.common.destinations import Network as Destination
    from perhop_services.reservations.drivers import Driver
    from perhop_services.reservations.network import Network


@dataclass(frozen=True)
class Serving:
    """The service that is served, and its settings.

    Attributes:
        network: The network that can be reserved.
        database: Its URL or path.
        drivers: Drivers, by router.
        listening: Addresses of the server.
        every: Seconds between two readings of counters.
        quota: The quota of new users that are given none.
        webhooks: Networks, beside the public internet, to which webhooks may lead.
        json_logs: True if `serve` logs JSON instead of text.
        accept_clock: True if a clock more than a day off the last time on file is right.
    """

    network: Network
    database: str
    drivers: Mapping[str, Driver]
    listening: http.Listening = field(default_factory=http.Listening)
    every: float = EVERY
    webhooks: tuple[Destination, ...] = ()
    quota: Quota = field(default_factory=Quota)
    json_logs: bool = False
    accept_clock: bool = False


@contextlib.contextmanager
def running(serving: Serving) -> Iterator[uvicorn.Server]:
    """A server that is ready to run, with everything behind it."""
    with contextlib.ExitStack() as stack:
        database = open_database(serving.database, create=False)
        stack.callback(database.close)
        clock = SteadyClock()
        service = ReservationService(
            serving.network, database, clock=clock, accept_clock=serving.accept_clock
        )
        stack.callback(service.close)
        if service.writer.read_only:
            LOG.error("read only: %s", service.writer.read_only)
        for id_ in service.lost:
            service.outcomes.note_trouble(id_, "the network no longer has its links or class")
            LOG.error(
                "the network no longer has the links or class of a reservation",
                extra=fields(reservation=id_),
            )
        enforcer = Enforcer(service, serving.drivers, every=serving.every)
        stack.callback(enforcer.close)
        deliveries = Deliveries(database, service.register.log, allowed=serving.webhooks)
        stack.callback(deliveries.close)
        people = People(database, clock=clock, quota=serving.quota)
        app = application(
            parts(service, people, enforcer, [deliveries.thread]),
            hosts=serving.listening.names,
            secure=serving.listening.certificate is not None,
        )
        yield http.server(app, serving.listening)


def serve(serving: Serving, listening: Callable[[int], None] = lambda _: None) -> None:
    """Serve until asked to end.

    Args:
        serving: The service and its settings.
        listening: Called with the port when the address takes connections.
    """
    configure(as_json=serving.json_logs)
    with running(serving) as server:
        http.run(server, listening)
