"""Networks, services and users for the tests of reservations."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from perhop.scenario import parse
from perhop_services.common.people import People
from perhop_services.common.schema import USERS
from perhop_services.common.users import User
from perhop_services.reservations.model import Selector, Terms
from perhop_services.reservations.network import Network
from perhop_services.reservations.schema import open_database
from perhop_services.reservations.service import ReservationService

NETWORK = """
perhop: 1
name: square
nodes: {slac: host, cern: host, bnl: host, r1: router, r2: router, r3: router}
links:
  - {ends: [slac, r1], rate: 10 Gbps, reservable: 100%}
  - {ends: [r1, r2], rate: 1 Gbps, delay: 5 ms, reservable: {total: 80%, classes: {gold: 20%}}}
  - {ends: [r1, r3], rate: 500 Mbps, delay: 5 ms, reservable: 400 Mbps}
  - {ends: [r3, r2], rate: 500 Mbps, delay: 5 ms, reservable: 400 Mbps}
  - {ends: [r2, cern], rate: 10 Gbps, reservable: {total: 100%, classes: {gold: 10%}}}
  - {ends: [r3, bnl], rate: 1 Gbps, reservable: 50%}
flows: {}
"""

PASSWORD = "correct horse battery"
T0 = 1_800_000_000
MBPS = 10**6


class Clock:
    """A clock that stands until it is told."""

    def __init__(self, now: float = T0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def network(text: str = NETWORK) -> Network:
    return Network(parse(text))


@contextmanager
def service(place: Path | str, clock: Clock, text: str = NETWORK) -> Iterator[ReservationService]:
    """A service on a database, which is let go of at the end."""
    database = open_database(str(place))
    database.identity = ""  # so that rules have short names
    try:
        running = ReservationService(network(text), database, clock=clock)
        try:
            yield running
        finally:
            running.close()
    finally:
        database.close()


def user(
    service: ReservationService, name: str = "les", role: str = "requester", **quota: Any
) -> User:
    """A user, who cannot log in; the second time the one that there is."""
    people = People(service.database, clock=service.clock)
    known = {each.name: each for each in people.all()}
    if name not in known:
        limits = {f"max_{key}": quota.get(key) for key in ("reservations", "rate", "seconds")}
        row = {"name": name, "password": "", "role": role, "disabled": False, "created": T0}
        with service.database.writing() as connection:
            connection.execute(USERS.insert(), row | limits)
    return people.named(name)


def terms(rate: int = 10 * MBPS, start: int = T0 + 60, seconds: int = 3600, **others: Any) -> Terms:
    given = {"source": "slac", "destination": "cern", "burst": 100_000, **others}
    return Terms(rate=rate, start=start, end=start + seconds, **given)


def port(number: int) -> Selector:
    return Selector("tcp", None, (number, number))
