"""The service over HTTP: who may do what, and what bad input gets."""

import hashlib
import hmac
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import httpx
import pytest

from perhop.reservations import destinations
from perhop.reservations import messages as m
from perhop.reservations.client import Client
from perhop.reservations.database import Database
from perhop.reservations.drivers.file import FileDriver
from perhop.reservations.errors import (
    BadRequestError,
    ConflictError,
    NotAuthenticatedError,
    ReservationError,
    ThrottledError,
)
from perhop.reservations.http import connections
from perhop.reservations.http.server import Serving, running
from perhop.reservations.model import Quota, Role
from perhop.reservations.people import (
    FREE_GUESSES,
    FREE_OF_ADDRESS,
    People,
    Throttle,
    _place,
)
from perhop.reservations.schema import COUNTERS
from perhop.reservations.webhooks import Deliveries, Webhooks
from postgres import server as postgresql
from reserving import MBPS, PASSWORD, T0, Clock, network, terms, user
from reserving import service as running_service


@contextmanager
def served(place: str, folder: Path, **options: Any) -> Iterator[tuple[str, Any]]:
    """A service on a port of its own, with an administrator, and its address."""
    Database(place).close()
    serving = Serving(
        network(),
        place,
        {"*": FileDriver(str(folder / "router.json"))},
        port=0,
        webhooks=(ip_network("127.0.0.0/8"),),
        **options,
    )
    with running(serving) as server:
        people: People = server.config.app.state.people  # type: ignore[union-attr]
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


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, People]]:
    folder = tmp_path_factory.mktemp("served")
    with served(str(folder / "b.db"), folder) as it:
        yield it


@pytest.fixture
def url(service: tuple[str, People]) -> str:
    return service[0]


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


def test_a_reservation_lives(service: tuple[str, People]) -> None:
    with client(service, "les") as les:
        made = les.book(booking(purpose="demonstration", hold=60, class_="gold"))
        assert (made.state, made.owner, made.path[0]) == ("held", "les", "slac>r1")
        assert les.commit(made.id).state == "planned"
        changed = les.change(made.id, m.Change(rate=2 * MBPS, reason="more", version=1))
        assert (changed.rate, changed.version, changed.class_) == (2 * MBPS, 2, "gold")
        assert [each.action for each in les.log(made.id)] == ["hold", "commit", "change"]
        assert les.reservations(mine=True)[-1] == les.show(made.id) == changed
        assert les.cancel(made.id, "rain").state == "cancelled"
        assert les.counters(made.id) == []
        free = les.free("slac", "cern", made.start, made.end, 900 * MBPS)
        assert free.earliest is None
        assert free.widest_rate == 800 * MBPS
        assert les.timeline(made.start, made.end)["r1>r2"][0].free == 800 * MBPS
        assert les.network().classes == ["gold"]


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
        few = [each.at_ms for each in les.counters(own.id, 100)]
        # Both ends of each stretch between two clearings are there.
        assert {0, 702, 703, 999} < set(few)
        assert 100 <= len(few) <= 104
        assert few == sorted(set(few))


def test_the_same_request_again_is_the_same_reservation(service: tuple[str, People]) -> None:
    with client(service, "les") as les:
        asked = booking(start=None, selector=m.SelectorMessage(protocol="udp"))
        first = les.book(asked, key="once")
        time.sleep(1.1)  # what begins now begins at another second by now
        assert les.book(asked, key="once").id == first.id
        with pytest.raises(ConflictError, match="used for reservation"):
            les.book(booking(), key="once")
        les.cancel(first.id)


def test_sixteen_clients_want_the_last_capacity(service: tuple[str, People]) -> None:
    last_capacity(service)


def test_sixteen_clients_want_the_last_capacity_of_postgresql(tmp_path: Path) -> None:
    with postgresql() as place, served(place, tmp_path) as it:
        last_capacity(it)


def last_capacity(service: tuple[str, People]) -> None:
    start, begin = int(time.time()) + 10**7, threading.Barrier(16)

    def ask(number: int) -> int:
        with client(service, "les") as les:
            selector = m.SelectorMessage(protocol="tcp", destination_ports=(number, number))
            asked = booking(
                start=start,
                rate=30 * MBPS,
                selector=selector,
                class_="gold",
                path=["slac>r1", "r1>r2", "r2>cern"],
            )
            begin.wait(120)
            try:
                return les.book(asked).id
            except ConflictError as refused:
                assert refused.detail["link"] == "r1>r2"
                assert refused.detail["free"] == 20 * MBPS
                return 0

    with ThreadPoolExecutor(16) as pool:
        got = [number for number in pool.map(ask, range(1, 17)) if number]
    assert len(got) == 6
    with client(service, "op") as op:
        for number in got:
            op.cancel(number)


# Who may do what


def test_nobody_does_anything(url: str) -> None:
    described = httpx.get(f"{url}/api/openapi.json").json()
    open_to_all = {
        ("post", "/api/session"),
        ("post", "/api/token"),
        ("get", "/healthz"),
        ("get", "/metrics"),
    }
    tried = 0
    for path, methods in described["paths"].items():
        for method in methods.keys() & {"get", "post", "patch", "delete"}:
            if (method, path) in open_to_all:
                continue
            where = url + path.replace("{number}", "1").replace("{name}", "les")
            for headers in ({}, {"Authorization": "Bearer perhop_wrong"}):
                params = {"token": "perhop_wrong"} if path.endswith(".ics") else {}
                answer = httpx.request(method, where, headers=headers, params=params)
                assert answer.status_code == 401, (method, path)
                tried += 1
    assert tried > 40


def test_roles_are_kept(service: tuple[str, People]) -> None:
    with client(service, "les") as les, client(service, "eve") as eve, client(service, "op") as op:
        own = les.book(booking())
        asked: list[tuple[str, str, Any]] = [
            ("GET", "", None),
            ("PATCH", "", {"rate": 5}),
            ("POST", "/commit", None),
            ("POST", "/cancel", {}),
            ("GET", "/log", None),
            ("GET", "/counters", None),
            ("DELETE", "/counters", None),
            ("GET", "/configuration", None),
        ]
        for method, path, body in asked:
            answer = eve._http.request(method, f"/api/reservations/{own.id}{path}", json=body)
            assert answer.status_code == 404, (method, path)
        assert own.id not in [each.id for each in eve.reservations(limit=1000)]
        for method, path in (
            ("POST", f"/reservations/{own.id}/confirm"),
            ("GET", "/webhooks"),
            ("GET", "/users"),
        ):
            assert les._http.request(method, f"/api{path}").status_code == 403, path
        assert op._http.get("/api/users").status_code == 403
        assert own.id in [each.id for each in op.reservations(limit=1000)]
        assert op.cancel(own.id, "by an operator").state == "cancelled"


def test_administrators_look_after_users(service: tuple[str, People]) -> None:
    url, _ = service
    with client(service, "root") as root:
        made = root.add_user(m.NewUser(name="new", password=PASSWORD, role=Role.REQUESTER))
        assert (made.role, made.disabled) == ("requester", False)
        with pytest.raises(ConflictError, match="there is a user 'new' already"):
            root.add_user(m.NewUser(name="new", password=PASSWORD))
        with Client(url) as new:
            new.log_in("new", PASSWORD)
            quota = m.QuotaMessage(reservations=0)
            root.set_user("new", m.UserChange(quota=quota))
            with pytest.raises(ConflictError, match="may have 0"):
                new.book(booking())
            root.set_user("new", m.UserChange(disabled=True))
            with pytest.raises(ReservationError, match="the token is not known"):
                new.network()
            with pytest.raises(ReservationError, match="the name or the password is wrong"):
                new.log_in("new", PASSWORD)
        with pytest.raises(ConflictError, match="root is the last administrator"):
            root.set_user("root", m.UserChange(role=Role.OPERATOR))
        for wrong in ("perhop", "Root", "a b", "x" * 65):
            with pytest.raises((ReservationError, ValueError)):
                root.add_user(m.NewUser(name=wrong, password=PASSWORD))
        with pytest.raises(ReservationError, match="a password has 12"):
            root.add_user(m.NewUser(name="short", password="secret"))


def test_a_new_password_ends_every_token(service: tuple[str, People]) -> None:
    url, _ = service
    with client(service, "root") as root, Client(url) as moved:
        root.add_user(m.NewUser(name="moved", password=PASSWORD))
        moved.log_in("moved", PASSWORD)
        feed = moved.new_token(m.NewToken(label="cal", kind="feed")).token
        calendar = f"{url}/api/calendar.ics?token={feed}"
        assert httpx.get(calendar).status_code == 200
        root.set_user("moved", m.UserChange(password="another one, and long"))
        with pytest.raises(NotAuthenticatedError, match="not known"):
            moved.network()
        assert httpx.get(calendar).status_code == 401
        with pytest.raises(NotAuthenticatedError, match="the name or the password is wrong"):
            moved.log_in("moved", PASSWORD)
        moved.log_in("moved", "another one, and long")
        assert moved.network().name == "square"


def test_a_token_does_not_survive_in_the_cache(
    service: tuple[str, People], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A token is looked up while its user is being disabled, before the commit or across it."""
    people = People(service[1]._database)
    user = people.add("late", PASSWORD, Role.REQUESTER)
    writing = people._database.writing
    for moment in ("before the commit", "after the commit"):
        people.set("late", disabled=False)
        token = people.make_token(user, "api", "t", None)
        look_up = people._look_up

        @contextmanager
        def slow() -> Iterator[Any]:
            with writing() as connection:
                yield connection
                people.who(token)  # noqa: B023 - what others see is not committed yet

        def late(digest: str) -> Any:
            found = look_up(digest)  # noqa: B023
            people.set("late", disabled=True)
            return found

        with monkeypatch.context() as patched:
            if moment == "before the commit":
                patched.setattr(people._database, "writing", slow)
                people.set("late", disabled=True)
            else:
                patched.setattr(people, "_look_up", late)
                people.who(token)
        with pytest.raises(NotAuthenticatedError):
            people.who(token)


def test_one_changes_ones_own_password_and_all_is_audited(tmp_path: Path) -> None:
    quota = Quota(reservations=1, rate=5 * MBPS)
    with served(str(tmp_path / "b.db"), tmp_path, quota=quota) as it, client(it, "root") as root:
        made = root.add_user(m.NewUser(name="amy", password=PASSWORD))
        assert (made.quota.reservations, made.quota.rate) == (1, 5 * MBPS), "the service's own"
        free = m.NewUser(name="bob", password=PASSWORD, quota=m.QuotaMessage())
        assert root.add_user(free).quota == m.QuotaMessage()
        with Client(it[0]) as amy:
            amy.log_in("amy", PASSWORD)
            with pytest.raises(NotAuthenticatedError, match="the password is wrong"):
                amy.change_password("wrong password", "another one, and long")
            with pytest.raises(ReservationError, match="a password has 12"):
                amy.change_password(PASSWORD, "short")
            amy.change_password(PASSWORD, "another one, and long")
            with pytest.raises(NotAuthenticatedError):
                amy.network()
            amy.log_in("amy", "another one, and long")
            with pytest.raises(ReservationError, match="this is for administrator"):
                amy.audit()
        root.set_user("amy", m.UserChange(disabled=True, password="a third one, and long"))
        told = [(each.author, each.action, each.subject) for each in root.audit()]
        assert told == [
            ("root", "add", "amy"),
            ("root", "add", "bob"),
            ("amy", "log-in", "amy"),
            ("", "log-in failed", "amy"),
            ("amy", "password", "amy"),
            ("amy", "log-in", "amy"),
            ("root", "set", "amy"),
        ]
        assert all(each.address == "127.0.0.1" for each in root.audit())
        assert "long" not in "".join(each.detail for each in root.audit())
        assert root.audit(after=root.audit()[4].id)[0].action == "log-in"


def test_a_browser_needs_the_other_secret(url: str) -> None:
    with httpx.Client(base_url=url) as browser:
        answer = browser.post("/api/session", json={"name": "eve", "password": PASSWORD})
        assert answer.status_code == 201
        cookie = answer.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        csrf = answer.json()["csrf"]
        asked = booking().model_dump(mode="json", by_alias=True)
        for headers in (
            {},
            {"X-CSRF-Token": "x"},
            {"X-CSRF-Token": csrf, "Sec-Fetch-Site": "cross-site"},
            {"X-CSRF-Token": csrf, "Origin": "https://evil.example"},
        ):
            refused = browser.post("/api/reservations", json=asked, headers=headers)
            assert refused.status_code == 403, headers
        own = {"X-CSRF-Token": csrf, "Origin": url, "Sec-Fetch-Site": "same-origin"}
        made = browser.post("/api/reservations", json=asked, headers=own)
        assert made.status_code == 201
        # The cookie's token is no bearer's, and a bearer's no cookie.
        assert browser.get("/api/session").json()["csrf"] == csrf
        assert browser.delete("/api/session", headers=own).status_code == 204
        assert browser.get("/api/session").status_code == 401
    answer = httpx.post(
        f"{url}/api/session",
        json={"name": "eve", "password": PASSWORD},
        headers={"Origin": "https://evil.example"},
    )
    assert answer.status_code == 403


def test_an_api_token_is_no_cookie(service: tuple[str, People]) -> None:
    url, people = service
    token = people.make_token(people.named("eve"), "api", "t", None)
    cookies = {"perhop_session": token}
    assert httpx.get(f"{url}/api/network", cookies=cookies).status_code == 401


def test_guessing_is_throttled(service: tuple[str, People]) -> None:
    clock = Clock(time.time())
    people = People(service[1]._database, clock=clock)
    for _ in range(FREE_GUESSES):
        with pytest.raises(NotAuthenticatedError, match="the name or the password is wrong"):
            people.log_in("op", "wrong password", "192.0.2.1")
    # The right password has to wait there, too.
    with pytest.raises(ThrottledError, match="try again in 2 s"):
        people.log_in("op", PASSWORD, "192.0.2.1")
    # Nobody else is locked out: neither the user elsewhere, nor others there.
    people.log_in("op", PASSWORD, "192.0.2.2")
    people.log_in("les", PASSWORD, "192.0.2.1")
    clock.now += 1
    assert people.log_in("op", PASSWORD, "192.0.2.1")[1].user.name == "op"


def test_guessing_many_names_is_throttled(service: tuple[str, People]) -> None:
    clock = Clock(time.time())
    people = People(service[1]._database, clock=clock)
    for number in range(FREE_OF_ADDRESS):
        people._throttle.failed((f"name u{number}", f"address {_place(f'2001:db8::{number:x}')}"))
    # Of one network of 64 bits somebody has all addresses.
    with pytest.raises(ThrottledError):
        people.log_in("les", PASSWORD, "2001:db8::ffff")
    people.log_in("les", PASSWORD, "2001:db8:0:1::1")


def test_a_flood_of_passwords_keeps_nobody_else_waiting(service: tuple[str, People]) -> None:
    url, _ = service
    with ThreadPoolExecutor(60) as pool:
        bodies = [{"name": f"u{n}", "password": "x" * 12} for n in range(60)]
        asked = [
            pool.submit(httpx.post, f"{url}/api/token", json=body, timeout=60) for body in bodies
        ]
        with client(service, "op") as op:
            began = time.monotonic()
            op.reservations()
            waited = time.monotonic() - began
        statuses = [each.result().status_code for each in asked]
    assert set(statuses) <= {401, 429}
    assert waited < 30
    service[1]._throttle._failures.clear()


def test_who_is_throttled_is_told_for_how_long(tmp_path: Path) -> None:
    with served(str(tmp_path / "b.db"), tmp_path) as (url, people):
        for _ in range(FREE_OF_ADDRESS + 7):
            people._throttle.failed(("address 127.0.0.1",))
        answer = httpx.post(f"{url}/api/token", json={"name": "les", "password": PASSWORD})
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
            except ReservationError:
                clock.now += 1
        waits.append(clock.now - start)
    assert waits == [0] * 4 + [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]
    throttle.succeeded(("name les",))
    throttle.failed(("name les",))
    throttle.check(("name les",))


def test_who_there_is_is_not_told(tmp_path: Path) -> None:
    with served(str(tmp_path / "b.db"), tmp_path) as (url, _):
        known = httpx.post(f"{url}/api/token", json={"name": "les", "password": "wrong-wrong!"})
        nobody = httpx.post(f"{url}/api/token", json={"name": "none", "password": "wrong-wrong!"})
    assert known.status_code == nobody.status_code == 401
    assert known.json() == nobody.json()


def test_secrets_are_not_on_file(service: tuple[str, People]) -> None:
    _, people = service
    token = people.make_token(people.named("les"), "api", "t", None)
    path = Path(str(people._database.url.database))
    held = b"".join(each.read_bytes() for each in path.parent.glob("b.db*"))
    assert token.encode() not in held
    assert PASSWORD.encode() not in held
    assert b"$argon2id$" in held


def test_a_feed_is_read_by_its_own_token(service: tuple[str, People]) -> None:
    url, people = service
    with client(service, "eve") as eve:
        purpose = "Übertragung; a, long\\purpose\n" + "é" * 60
        made = eve.book(booking(purpose=purpose))
        feed = eve._ask("POST", "/api/tokens", m.Token, m.NewToken(label="cal", kind="feed")).token
        answer = httpx.get(f"{url}/api/calendar.ics", params={"token": feed})
        assert answer.headers["content-type"].startswith("text/calendar")
        lines = answer.content.split(b"\r\n")
        assert all(len(line) <= 75 for line in lines)
        text = answer.content.replace(b"\r\n ", b"").decode()
        assert f"UID:reservation-{made.id}@perhop" in text
        assert "DESCRIPTION:Übertragung\\; a\\, long\\\\purpose\\n" + "é" * 60 in text
        assert "SUMMARY:1 Mbps slac to cern" in text
        wrong = httpx.get(f"{url}/api/network", headers={"Authorization": f"Bearer {feed}"})
        assert wrong.status_code == 401
        api = people.make_token(people.named("eve"), "api", "t", None)
        refused = httpx.get(f"{url}/api/calendar.ics", params={"token": api})
        assert refused.status_code == 401
        eve.cancel(made.id)


def test_tokens_end(service: tuple[str, People]) -> None:
    with client(service, "eve") as eve:
        token = eve._ask("POST", "/api/tokens", m.Token, m.NewToken(label="x")).token
        with Client(service[0], token=token) as other:
            other.network()
            number = eve._ask("GET", "/api/tokens", list[m.TokenMessage])[-1].id
            eve._send("DELETE", f"/api/tokens/{number}")
            with pytest.raises(ReservationError, match="not known"):
                other.network()
    _, people = service
    clock = Clock(time.time())
    later = People(people._database, clock=clock)
    token = later.make_token(later.named("eve"), "api", "short", 60)
    later.who(token)
    clock.now += 61
    with pytest.raises(ReservationError, match="expired"):
        later.who(token)


def test_webhooks_are_told_in_order_and_again(service: tuple[str, People]) -> None:
    got: list[tuple[dict[str, Any], str, bytes]] = []
    failures = iter([503])

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status = next(failures, 200)
            if status == 200:
                got.append((json.loads(body), self.headers["X-Perhop-Signature"], body))
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    receiver = HTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=receiver.serve_forever, daemon=True).start()
    with client(service, "op") as op:
        hook = op._ask(
            "POST",
            "/api/webhooks",
            m.Webhook,
            m.NewWebhook(url=f"http://127.0.0.1:{receiver.server_port}/told"),
        )
        made = op.book(booking())
        op.cancel(made.id, "told")
        deadline = time.monotonic() + 20
        while len(got) < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert [(e["reservation"], e["action"]) for e, _, _ in got[:2]] == [
            (made.id, "book"),
            (made.id, "cancel"),
        ]
        for _, signed, body in got:
            expected = hmac.new(hook.secret.encode(), body, hashlib.sha256).hexdigest()
            assert signed == f"sha256={expected}"
        op._send("DELETE", f"/api/webhooks/{hook.id}")
    receiver.shutdown()
    receiver.server_close()


def test_webhooks_lead_to_no_network_of_the_services_own() -> None:
    inside = (
        "127.0.0.1 10.1.2.3 172.16.0.1 192.168.1.1 169.254.169.254 0.0.0.0 100.64.0.1 ::1 :: "
        "fe80::1 fc00::1 ::ffff:10.0.0.1 64:ff9b::10.0.0.1 2002:a00:1::1 224.0.0.1 ff02::1"
    )
    for text in inside.split():
        with pytest.raises(BadRequestError, match="no public address"):
            destinations.check(ip_address(text), ())
        destinations.check(ip_address(text), (ip_network("0.0.0.0/0"), ip_network("::/0")))
    destinations.check(ip_address("2606:4700::1"), ())
    with pytest.raises(BadRequestError):
        destinations.addresses("localhost", 80, (ip_network("10.0.0.0/8"),))
    assert destinations.addresses("127.0.0.1", 80, (ip_network("127.0.0.0/8"),)) == ["127.0.0.1"]


@contextmanager
def receiver(handle: Callable[[BaseHTTPRequestHandler], None]) -> Iterator[str]:
    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            handle(self)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/told"
    finally:
        server.shutdown()
        server.server_close()


def test_a_webhook_that_is_slow_or_large_delays_no_other(tmp_path: Path) -> None:
    got: list[int] = []

    def drip(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "1000000")
        handler.end_headers()
        with suppress(OSError):
            while True:  # a byte now and then, so that no read takes long
                handler.wfile.write(b"x")
                handler.wfile.flush()
                time.sleep(0.1)

    def flood(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        with suppress(OSError):
            while True:
                handler.wfile.write(b"x" * 65536)

    def well(handler: BaseHTTPRequestHandler) -> None:
        got.append(1)
        handler.send_response(204)
        handler.end_headers()

    with (
        receiver(drip) as slow,
        receiver(flood) as large,
        receiver(well) as good,
        running_service(tmp_path / "b.db", Clock(time.time())) as service,
    ):
        op, hooks = user(service, "op", "operator"), Webhooks(service)
        numbers = [hooks.add(op, each)["id"] for each in (slow, large, good)]
        allowed = (ip_network("127.0.0.0/8"),)
        deliveries = Deliveries(service, allowed=allowed, beat=0.05, patience=2)
        try:
            service.book(op, terms(start=int(time.time()) + 60)).result()
            wait_until(lambda: got)
            wait_until(lambda: all(each["trouble"] for each in hooks.all(op)[:2]))
            troubles = [each["trouble"] for each in hooks.all(op)]
            assert "not answered within 2 s" in troubles[0]
            assert "more than 65536 bytes" in troubles[1]
            assert troubles[2] == ""
            # They stop with the operator's rights.
            People(service.database).set("op", role=Role.REQUESTER)
            wait_until(lambda: not deliveries._tasks)
            told = len(got)
            service.book(op, terms(start=int(time.time()) + 9000)).result()
            time.sleep(0.5)
            assert len(got) == told
            assert numbers
        finally:
            deliveries.close()
        # Where loopback is not allowed, nothing is sent there.
        People(service.database).set("op", role=Role.OPERATOR)
        deliveries = Deliveries(service, beat=0.05)
        try:
            wait_until(lambda: "no public address" in hooks.all(op)[2]["trouble"])
            assert len(got) == told
        finally:
            deliveries.close()


def wait_until(what: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 60
    while not what():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


# Limits that hold before anybody has logged in


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
            for byte in b"GET / HTTP/1.1\r\n" * 2:
                slow.sendall(bytes([byte]))
                time.sleep(0.1)
        for each in (silent, slow, body):
            assert gone(each)
            each.close()
        # A head that does not end.
        with socket.create_connection((host, port)) as large:
            large.sendall(b"GET / HTTP/1.1\r\nX: ")
            with suppress(OSError):
                for _ in range(100):
                    large.sendall(b"x" * 10_000)
            large.settimeout(20)
            with suppress(ConnectionResetError):
                assert large.recv(100).startswith((b"HTTP/1.1 431", b"HTTP/1.1 400", b""))
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


def test_a_trusted_proxy_says_who_asks(tmp_path: Path) -> None:
    for place, proxies, expected in (("a", (), 429), ("b", ("127.0.0.1",), 401)):
        with served(str(tmp_path / place), tmp_path, proxies=proxies) as (url, people):
            for _ in range(FREE_OF_ADDRESS + 3):
                people._throttle.failed(("address 127.0.0.1",))
            headers = {"X-Forwarded-For": "10.9.9.9, 192.0.2.7"}
            body = {"name": "les", "password": "wrong-wrong!"}
            answer = httpx.post(f"{url}/api/token", json=body, headers=headers)
            assert answer.status_code == expected
            assert ("address 192.0.2.7" in people._throttle._failures) == bool(proxies)


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
            service.add_counters([row]).result()
        service.cancel(who, own.id, "").result()
        clock.now += 450 * 86_400
        before = service.timeline(int(clock.now), int(clock.now) + 80 * 86_400).result()
        service.tidy().result()
        assert service.timeline(int(clock.now), int(clock.now) + 80 * 86_400).result() == before
        assert [row["at_ms"] for row in service.series(own.id)] == [(T0 + 300 * 86_400) * 1000]
        assert service._keys._used == set()
        changed = service.change(who, live.id, {"rate": 5 * MBPS}).result()
        assert changed.version == 2


# Bad input


def test_other_names_do_not_lead_here(url: str) -> None:
    answer = httpx.get(f"{url}/", headers={"Host": "evil.example"})
    assert answer.status_code == 400
    page = httpx.get(f"{url}/")
    assert page.status_code == 200
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert page.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (b"{", 422, "JSON"),
        (b'{"source": "\\ud800", "destination": "cern", "rate": 1, "seconds": 1}', 422, "source"),
        (b'{"source": "slac", "destination": "cern", "rate": NaN, "seconds": 1}', 422, "rate"),
        (b'{"source": "slac", "destination": "cern", "rate": "1", "seconds": 1}', 422, "rate"),
        (b'{"source": "slac", "destination": "cern", "rate": 1}', 422, "either `end` or"),
        (b'{"source": "slac", "destination": "x", "rate": 1, "seconds": 1}', 422, "no host"),
        (b'{"source": "slac", "destination": "cern", "rate": 1, "seconds": 1, "y": 1}', 422, "y"),
        (b'{"source": "sl\\u0000ac", "destination": "cern", "rate": 1, "seconds": 1}', 422, "sou"),
        (b'{"a": ' + b"[" * 30_000 + b"]" * 30_000 + b"}", 400, "parsing"),
        (b" " * 70_000, 413, "65536 bytes at most"),
    ],
    ids=range(10),
)
def test_bad_input_is_explained(
    service: tuple[str, People], body: bytes, status: int, message: str
) -> None:
    with client(service, "eve") as eve:
        headers = {"Content-Type": "application/json"}
        answer = eve._http.post("/api/reservations", content=body, headers=headers)
        assert answer.status_code == status, answer.text
        assert message in answer.json()["error"]


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/token", {"name": "a\0", "password": PASSWORD}, 422),
        ("POST", "/tokens", {"label": "a\0"}, 422),
        ("POST", "/tokens", {"label": "a\nSet-Cookie: b"}, 422),
        ("POST", "/webhooks", {"url": "http://[::1"}, 422),
        ("POST", "/webhooks", {"url": "http://h:99999/"}, 422),
        ("POST", "/webhooks", {"url": "http:///told"}, 422),
        ("POST", "/webhooks", {"url": "file:///etc/passwd"}, 422),
        ("PATCH", "/reservations/1", {"rate": True}, 422),
        ("PATCH", "/reservations/1", [], 422),
        ("GET", "/free?source=slac&destination=cern&start=1&end=-5", None, 422),
        ("GET", "/free?source=slac&destination=cern&start=nan&end=5", None, 422),
        ("GET", "/free?source=%ff&destination=cern&start=1&end=2&y=1", None, 422),
        ("GET", "/reservations?state=bogus", None, 422),
        ("GET", "/reservations/-1", None, 422),
        ("GET", "/reservations/99999999999999999999", None, 422),
        ("GET", "/timeline?start=0&end=99999999999", None, 422),
        ("GET", "/../../../etc/passwd", None, 404),
        ("GET", "/..%2f..%2fhttp/guard.py", None, 404),
    ],
)
def test_no_route_takes_what_makes_no_sense(
    service: tuple[str, People], method: str, path: str, body: Any, status: int
) -> None:
    with client(service, "op") as op:
        answer = op._http.request(method, f"/api{path}", json=body)
        assert answer.status_code == status, answer.text
        assert answer.json()["error"]


@pytest.mark.parametrize("path", ["/%2e%2e/http/guard.py", "/..%2fmodel.py", "/%2e%2e%2fmodel.py"])
def test_the_page_is_all_that_is_served(url: str, path: str) -> None:
    assert httpx.get(url + path).status_code == 404
