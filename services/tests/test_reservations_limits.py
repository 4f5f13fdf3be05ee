"""Limits of one client: guesses, connections, headers, time, readings."""

import socket
import threading
import time
import tracemalloc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from conftest import SLOW
from perhop_services.common.errors import (
    BadRequestError,
    NotAuthenticatedError,
    ServiceError,
    ThrottledError,
)
from perhop_services.common.http import connections
from perhop_services.common.people import FREE_GUESSES, FREE_OF_ADDRESS, People, Throttle, _place
from perhop_services.reservations import enforcement, routes
from perhop_services.reservations import service as services
from perhop_services.reservations.model import Wishes
from perhop_services.reservations.schema import COUNTERS
from reserving import MBPS, PASSWORD, T0, Clock, port, terms, user
from reserving import service as running_service
from reserving_http import ask, booking, client, served, service

pytestmark = SLOW

__all__ = ["service"]


def test_guessing_is_throttled(service: tuple[str, People]) -> None:
    clock = Clock(time.time())
    people = People(service[1]._database, clock=clock)
    for _ in range(FREE_GUESSES):
        with pytest.raises(NotAuthenticatedError, match="the name or the password is wrong"):
            people.log_in("op", "wrong password", "192.0.2.1")
    # The right password has to wait there, too.
    with pytest.raises(ThrottledError, match="try again in 2 s"):
        people.log_in("op", PASSWORD, "192.0.2.1")
    # No others are locked out: neither the user elsewhere, nor other users there.
    people.log_in("op", PASSWORD, "192.0.2.2")
    people.log_in("les", PASSWORD, "192.0.2.1")
    clock.now += 1
    assert people.log_in("op", PASSWORD, "192.0.2.1")[1].user.name == "op"


def test_guessing_many_names_is_throttled(service: tuple[str, People]) -> None:
    clock = Clock(time.time())
    people = People(service[1]._database, clock=clock)
    for number in range(FREE_OF_ADDRESS):
        people._throttle.failed((f"name u{number}", f"address {_place(f'2001:db8::{number:x}')}"))
    # One party may have all addresses of a network of 64 bits.
    with pytest.raises(ThrottledError):
        people.log_in("les", PASSWORD, "2001:db8::ffff")
    people.log_in("les", PASSWORD, "2001:db8:0:1::1")


def test_a_flood_of_passwords_keeps_nobody_else_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Passwords take as long as they like; those that would wait for too many are turned away."""
    done = threading.Event()
    with served(str(tmp_path / "b.db"), tmp_path) as it, ThreadPoolExecutor(60) as pool:
        monkeypatch.setattr(it[1], "_verify", lambda *_: done.wait(120) and False)
        bodies = [{"name": f"u{n}", "password": "x" * 12} for n in range(60)]
        asked = [
            pool.submit(httpx.post, f"{it[0]}/api/token", json=body, timeout=120) for body in bodies
        ]
        try:
            wait_until(lambda: sum(each.done() for each in asked) == 44)
            with client(it, "op") as op:
                op.reservations()
        finally:
            done.set()
        told = [each.result() for each in asked]
        assert [each.status_code for each in told].count(401) == 16
        assert all(
            "too many logins at the same time" in t.text for t in told if t.status_code != 401
        )


def test_who_is_throttled_is_told_for_how_long(tmp_path: Path) -> None:
    with served(str(tmp_path / "b.db"), tmp_path) as (url, people):
        for _ in range(FREE_OF_ADDRESS + 7):
            people._throttle.failed(("address 127.0.0.1",))
        answer = ask("POST", f"{url}/api/token", json={"name": "les", "password": PASSWORD})
        assert answer.status_code == 429
        assert 100 < int(answer.headers["Retry-After"]) <= 129


def test_the_throttle_doubles_and_forgets() -> None:
    clock = Clock()
    throttle = Throttle(clock)
    waits = []
    for _ in range(14):
        throttle.failed(("name les",))
        start = clock.now
        while True:
            try:
                throttle.check(("name les", "address ::1"))
                break
            except ServiceError:
                clock.now += 1
        waits.append(clock.now - start)
    assert waits == [0] * 4 + [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]
    throttle.succeeded(("name les",))
    throttle.failed(("name les",))
    throttle.check(("name les",))


# Limits before a login


def test_connections_end_that_take_too_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "MOST_OF_ONE", 8)
    monkeypatch.setattr(connections, "REQUEST_TIME", 1.0)
    with served(str(tmp_path / "b.db"), tmp_path) as (url, _):
        host, port = "127.0.0.1", int(url.rpartition(":")[2])

        def gone(connection: socket.socket) -> bool:
            connection.settimeout(20)
            try:
                return connection.recv(1) == b""
            except ConnectionResetError:
                return True

        # One says nothing, one sends a byte now and then, one has a body without an end.
        silent = socket.create_connection((host, port))
        body = socket.create_connection((host, port))
        body.sendall(b"POST /api/token HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\n{")
        slow = socket.create_connection((host, port))
        with suppress(OSError):
            for byte in b"GET / HTTP/1.1\r\nX: " + b"x" * 15:
                slow.sendall(bytes([byte]))
                time.sleep(0.1)
        for each in (silent, slow, body):
            assert gone(each)
            each.close()
        # A head that does not end.
        with socket.create_connection((host, port)) as large:
            large.sendall(b"GET / HTTP/1.1\r\nX: " + b"x" * 33_000)
            large.settimeout(20)
            assert large.recv(12) == b"HTTP/1.1 431"
        # More connections than one may have; those that there are go on.
        with httpx.Client(base_url=url) as first:
            assert first.get("/").status_code == 200
            many = [socket.create_connection((host, port)) for _ in range(7)]
            more = socket.create_connection((host, port))
            assert gone(more)
            assert first.get("/").status_code == 200
            for each in (*many, more):
                each.close()
        # Requests one after the other on one connection, and bodies, are none of this.
        with httpx.Client(base_url=url) as again:
            for _ in range(20):
                answer = again.post(
                    "/api/token", json={"name": "x", "password": "y" * 900, "z": ""}
                )
                assert answer.status_code == 422


def answered(place: tuple[str, int], source: str = "127.0.0.1") -> socket.socket | None:
    """A connection from an address that is served and stays open, or None."""
    connection = socket.create_connection(place, 20, (source, 0))
    try:
        connection.sendall(b"GET /page.css HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        if connection.recv(12) == b"HTTP/1.1 200":
            return connection
    except ConnectionError:
        pass
    connection.close()
    return None


def test_all_connections_together_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "MOST_OF_ONE", 4)
    monkeypatch.setattr(connections, "MOST", 6)
    one, other, third = "127.0.0.1", "127.0.0.2", "127.0.0.3"
    for proxies, sources in (
        ((), [one] * 4 + [other] * 2),
        ((one,), [one] * 6),  # a proxy asks for many
    ):
        with served(str(tmp_path / f"{len(proxies)}.db"), tmp_path, proxies=proxies) as (url, _):
            place = ("127.0.0.1", int(url.rpartition(":")[2]))
            kept = [answered(place, source) for source in sources[:4]]
            if not proxies:
                assert answered(place, one) is None
            kept += [answered(place, source) for source in sources[4:]]
            assert None not in kept
            assert answered(place, third) is None
            for each in kept:
                assert each is not None
                each.close()
            # Connections that have ended count no longer.
            wait_until(lambda: ended(place, third))  # noqa: B023


def ended(place: tuple[str, int], source: str) -> bool:
    connection = answered(place, source)
    if connection is not None:
        connection.close()
    return connection is not None


def wait_until(what: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 60
    while not what():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


def test_a_body_without_a_length_is_bounded(service: tuple[str, People]) -> None:
    with client(service, "eve") as eve:
        headers = {"Content-Type": "application/json"}
        for size, status in ((10_000, 422), (70_000, 400)):
            body = (b" " * 1000 for _ in range(size // 1000))
            answer = eve._http.post("/api/reservations", content=body, headers=headers)
            assert answer.status_code == status, "it is read no further"


def test_a_trusted_proxy_says_who_asks(tmp_path: Path) -> None:
    for place, proxies, expected in (("a", (), 429), ("b", ("127.0.0.1",), 401)):
        with served(str(tmp_path / place), tmp_path, proxies=proxies) as (url, people):
            for _ in range(FREE_OF_ADDRESS + 3):
                people._throttle.failed(("address 127.0.0.1",))
            headers = {"X-Forwarded-For": "10.9.9.9, 192.0.2.7"}
            body = {"name": "les", "password": "wrong-wrong!"}
            answer = ask("POST", f"{url}/api/token", json=body, headers=headers)
            assert answer.status_code == expected
            assert ("address 192.0.2.7" in people._throttle._failures) == bool(proxies)


# What is kept


def test_many_readings_are_thinned(service: tuple[str, People]) -> None:
    with client(service, "les") as les:
        own = les.book(booking())
        names = ("conformed_packets", "conformed_bytes", "exceeded_packets", "exceeded_bytes")
        rows = [
            {
                "reservation_id": own.id,
                "at_ms": n,
                "epoch": int(n >= 703),
                **dict.fromkeys(names, n),
            }
            for n in range(1000)
        ]
        with service[1]._database.writing() as connection:
            connection.execute(COUNTERS.insert(), rows)
        assert [each.at_ms for each in les.counters(own.id)] == list(range(1000))
        with service[1]._database.writing() as connection:
            connection.execute(
                COUNTERS.insert(),
                [row | {"at_ms": row["at_ms"] + n} for n in (10**6, 2 * 10**6) for row in rows],
            )
        # Without a number, as many are returned as a page shows.
        default = les._http.get(f"/api/reservations/{own.id}/counters").json()
        assert 1500 <= len(default) <= 2010
        with service[1]._database.writing() as connection:
            connection.execute(COUNTERS.delete().where(COUNTERS.c.at_ms >= 10**6))
        few = [each.at_ms for each in les.counters(own.id, 100)]
        # Both ends of each stretch between two clearings are there.
        assert {0, 702, 703, 999} < set(few)
        assert 100 <= len(few) <= 104
        assert few == sorted(set(few))


def test_few_readings_are_read_to_show_few(tmp_path: Path) -> None:
    """The database thins them out: a year of readings does not pass through memory."""
    with running_service(tmp_path / "b.db", Clock()) as service:
        own = service.book(user(service), terms()).result()
        names = ("conformed_packets", "conformed_bytes", "exceeded_packets", "exceeded_bytes")
        rows = [
            {"reservation_id": own.id, "at_ms": n, "epoch": 0, **dict.fromkeys(names, n)}
            for n in range(30_000)
        ]
        with service.database.writing() as connection:
            connection.execute(COUNTERS.insert(), rows)
        del rows
        service.register.series(own.id, 100)
        tracemalloc.start()
        try:
            assert len(service.register.series(own.id, 100)) <= 104
            assert tracemalloc.get_traced_memory()[1] < 2 * 10**6
        finally:
            tracemalloc.stop()


def test_what_is_kept_for_those_who_ask_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    throttle = Throttle(Clock())
    for number in range(150_000):
        throttle.failed((f"name u{number}",))
    assert len(throttle._failures) <= 100_001
    monkeypatch.setattr(routes, "_MOST", 10)
    with running_service(tmp_path / "b.db", Clock()) as service:
        people, who = People(service.database), user(service)
        people._known = dict.fromkeys(map(str, range(10_001)))  # type: ignore[arg-type]
        people.who(people.make_token(who, "api", "t", None))
        assert len(people._known) == 1
        for number in range(1, 30):
            wishes = Wishes(max_delay=number * 10**9)
            service.book(who, terms(selector=port(number)), wishes=wishes).result()
        assert len(service.admission._routes._known) <= 10


def test_a_timeline_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "_MOST_PARTS", 1200)
    with running_service(tmp_path / "b.db", Clock()) as service:
        who = user(service)
        for number in range(150):
            own = terms(MBPS + number, T0 + 60 + 20 * number, 10)
            service.book(who, own).result()
        found = service.timeline(T0, T0 + 3600).result()
        assert 50 < len(found["r1>r2"]) <= 100
        year = 366 * 86_400
        service.timeline(T0, T0 + 4 * year).result()
        for start, end in ((T0, T0 + 4 * year + 1), (T0, T0), (-1, T0)):
            with pytest.raises(BadRequestError, match="within four years"):
                service.timeline(start, end).result()


def test_the_service_tidies_up_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(enforcement, "_TIDY", 0.1)
    clock = Clock()
    with running_service(tmp_path / "b.db", clock) as service:
        service.book(user(service), terms(), key="k").result()
        clock.now += 10 * 86_400
        enforcer = enforcement.Enforcer(service, {}, beat=0.05)
        try:
            wait_until(lambda: not service._decisions.keys._used)
        finally:
            enforcer.close()


def test_what_is_over_is_forgotten(tmp_path: Path) -> None:
    clock = Clock()
    with running_service(tmp_path / "b.db", clock) as service:
        who = user(service, rate=100 * MBPS)
        own = service.book(who, terms(), key="k").result()
        live = service.book(who, terms(start=T0 + 500 * 86_400)).result()
        names = ("conformed_packets", "conformed_bytes", "exceeded_packets", "exceeded_bytes")
        for at in (T0, T0 + 300 * 86_400):
            row = {
                "reservation_id": own.id,
                "at_ms": at * 1000,
                "epoch": 0,
                **dict.fromkeys(names, 0),
            }
            service.outcomes.add_counters([row]).result()
        service.cancel(who, own.id, "").result()
        clock.now += 450 * 86_400
        before = service.timeline(int(clock.now), int(clock.now) + 80 * 86_400).result()
        service.outcomes.tidy().result()
        assert service.timeline(int(clock.now), int(clock.now) + 80 * 86_400).result() == before
        assert [row["at_ms"] for row in service.register.series(own.id)] == [
            (T0 + 300 * 86_400) * 1000
        ]
        assert service._decisions.keys._used == set()
        changed = service.change(who, live.id, {"rate": 5 * MBPS}).result()
        assert changed.version == 2
