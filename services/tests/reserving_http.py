"""A service over HTTP for the tests of reservations, with clients and bookings."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from ipaddress import ip_network
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx
import pytest
from argon2 import PasswordHasher

from perhop_services.common.http.server import Listening
from perhop_services.common.people import People
from perhop_services.common.tls import trusted
from perhop_services.common.users import Role
from perhop_services.reservations import messages as m
from perhop_services.reservations.client import Client
from perhop_services.reservations.drivers.file import FileDriver
from perhop_services.reservations.http.server import Serving, running
from perhop_services.reservations.schema import open_database
from reserving import MBPS, PASSWORD, network


@cache
def _hashed(password: str) -> str:
    """The hash of a password, whose computation is slow on purpose, once for all services."""
    return PasswordHasher().hash(password)


@contextmanager
def served(
    place: str, folder: Path, proxies: tuple[str, ...] = (), **options: Any
) -> Iterator[tuple[str, Any]]:
    """A service on a port of its own, with an administrator, and its address."""
    open_database(place).close()
    serving = Serving(
        network(),
        place,
        {"*": FileDriver(str(folder / "router.json"))},
        Listening(port=0, proxies=proxies),
        webhooks=(ip_network("127.0.0.0/8"),),
        **options,
    )
    with running(serving) as server:
        people: People = server.config.app.state.people  # type: ignore[union-attr]
        with patch.object(people, "_hash", _hashed):
            for name, role in (
                ("root", Role.ADMINISTRATOR),
                ("op", Role.OPERATOR),
                ("les", Role.REQUESTER),
                ("eve", Role.REQUESTER),
            ):
                people.add(name, PASSWORD, role)
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        try:
            yield f"http://127.0.0.1:{port}", people
        finally:
            server.should_exit = True
            thread.join(20)


def ask(method: str, url: str, **options: Any) -> httpx.Response:
    """Send a request, with a time limit that suits a busy machine."""
    return httpx.request(method, url, timeout=60, verify=trusted(), **options)


def client(service: tuple[str, People], name: str) -> Client:
    url, people = service
    return Client(url, token=people.make_token(people.named(name), "api", "test", None))


_SPAN = iter(range(10_000))


def booking(**given: Any) -> m.Booking:
    """A booking at a time of its own."""
    start = int(time.time()) + 3600 + 7200 * next(_SPAN)
    return m.Booking(
        **{"source": "slac", "destination": "cern", "rate": MBPS, "start": start, "seconds": 3600}
        | given
    )


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, People]]:
    """One for all tests of a file, which imports it."""
    folder = tmp_path_factory.mktemp("served")
    with served(str(folder / "b.db"), folder) as it:
        yield it
