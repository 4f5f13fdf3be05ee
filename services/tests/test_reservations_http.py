"""The service over HTTP: who may do what, and what bad input gets."""

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from conftest import SLOW
from perhop_services.common.errors import ConflictError
from perhop_services.common.http.guard import Guard
from perhop_services.common.people import People
from perhop_services.reservations import messages as m
from postgres import server as postgresql
from reserving import MBPS, PASSWORD
from reserving_http import ask, booking, client, served, service

pytestmark = SLOW

__all__ = ["service"]


@pytest.fixture
def url(service: tuple[str, People]) -> str:
    return service[0]


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
    described = ask("GET", f"{url}/api/openapi.json").json()
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
                answer = ask(method, where, headers=headers, params=params)
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
    answer = ask(
        "POST",
        f"{url}/api/session",
        json={"name": "eve", "password": PASSWORD},
        headers={"Origin": "https://evil.example"},
    )
    assert answer.status_code == 403


def test_an_api_token_is_no_cookie(service: tuple[str, People]) -> None:
    url, people = service
    token = people.make_token(people.named("eve"), "api", "t", None)
    cookies = {"perhop_session": token}
    assert ask("GET", f"{url}/api/network", cookies=cookies).status_code == 401


def test_a_feed_is_read_by_its_own_token(service: tuple[str, People]) -> None:
    url, people = service
    with client(service, "eve") as eve:
        purpose = "Übertragung; a, long\\purpose\n" + "é" * 60
        made = eve.book(booking(purpose=purpose))
        feed = eve._ask("POST", "/api/tokens", m.Token, m.NewToken(label="cal", kind="feed")).token
        answer = ask("GET", f"{url}/api/calendar.ics", params={"token": feed})
        assert answer.headers["content-type"].startswith("text/calendar")
        lines = answer.content.split(b"\r\n")
        assert all(len(line) <= 75 for line in lines)
        text = answer.content.replace(b"\r\n ", b"").decode()
        assert f"UID:reservation-{made.id}@perhop" in text
        assert "DESCRIPTION:Übertragung\\; a\\, long\\\\purpose\\n" + "é" * 60 in text
        assert "SUMMARY:1 Mbps slac to cern" in text
        wrong = ask("GET", f"{url}/api/network", headers={"Authorization": f"Bearer {feed}"})
        assert wrong.status_code == 401
        api = people.make_token(people.named("eve"), "api", "t", None)
        refused = ask("GET", f"{url}/api/calendar.ics", params={"token": api})
        assert refused.status_code == 401
        eve.cancel(made.id)


# Bad input


def test_other_names_do_not_lead_here(url: str) -> None:
    answer = ask("GET", f"{url}/", headers={"Host": "evil.example"})
    assert answer.status_code == 400
    page = ask("GET", f"{url}/")
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
    assert ask("GET", url + path).status_code == 404


def test_a_request_that_hangs_when_the_service_ends_gets_503() -> None:
    """The server cancels it when its time is over; it was a traceback for each, and 500."""
    sent: list[Any] = []

    async def hang(*_: object) -> None:
        await asyncio.sleep(60)

    async def send(message: Any) -> None:
        sent.append(message)

    async def ended() -> None:
        guard = Guard(hang, frozenset(), secure=False)
        scope = {"type": "http", "path": "/api/reservations", "headers": [(b"host", b"localhost")]}
        request = asyncio.create_task(guard(scope, hang, send))  # type: ignore[arg-type]
        await asyncio.sleep(0.01)
        request.cancel()
        await request

    asyncio.run(ended())
    assert sent[0]["status"] == 503
    assert b"try again" in sent[1]["body"]
