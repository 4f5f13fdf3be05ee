"""Webhooks report events, and do not delay other requests."""

import hashlib
import hmac
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import pytest

from conftest import SLOW
from perhop_services.common import destinations
from perhop_services.common.errors import BadRequestError
from perhop_services.common.people import People
from perhop_services.common.users import Role
from perhop_services.common.webhooks import Deliveries, Webhooks
from perhop_services.reservations import messages as m
from perhop_services.reservations.schema import LOG
from reserving import Clock, terms, user
from reserving import service as running_service
from reserving_http import booking, client, service

__all__ = ["service"]


@SLOW
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


@SLOW
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
        op, hooks = user(service, "op", "operator"), Webhooks(service.database, LOG)
        numbers = [hooks.add(op, each)["id"] for each in (slow, large, good)]
        allowed = (ip_network("127.0.0.0/8"),)
        deliveries = Deliveries(
            service.database, service.register.log, allowed=allowed, beat=0.05, timeout=4
        )
        try:
            service.book(op, terms(start=int(time.time()) + 60)).result()
            wait_until(lambda: got)
            assert hooks.all(op)[0]["trouble"] == "", "the wait was too short"
            wait_until(lambda: all(each["trouble"] for each in hooks.all(op)[:2]))
            troubles = [each["trouble"] for each in hooks.all(op)]
            assert "not answered within 4 s" in troubles[0]
            assert "more than 65536 bytes" in troubles[1]
            assert troubles[2] == ""
            # They stop with the operator's rights.
            People(service.database).set("op", role=Role.REQUESTER)
            wait_until(lambda: not deliveries._tasks)
            told = len(got)
            service.book(op, terms(start=int(time.time()) + 9000)).result()
            time.sleep(0.5)
            assert len(got) == told
            # And when the operator is disabled.
            People(service.database).set("op", role=Role.OPERATOR)
            wait_until(lambda: len(got) > told)
            People(service.database).set("op", disabled=True)
            wait_until(lambda: not deliveries._tasks)
            told = len(got)
            other = user(service, "les")
            service.book(other, terms(start=int(time.time()) + 18_000)).result()
            time.sleep(0.5)
            assert len(got) == told
            assert numbers
        finally:
            deliveries.close()
        # Where loopback is not allowed, nothing is sent there.
        People(service.database).set("op", disabled=False)
        deliveries = Deliveries(service.database, service.register.log, beat=0.05)
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


def told_once(folder: Path, url: str, allowed: str = "127.0.0.0/8") -> str:
    """Deliver an entry to an address; return the trouble there was."""
    with running_service(folder / "b.db", Clock(time.time())) as service:
        op, hooks = user(service, "op", "operator"), Webhooks(service.database, LOG)
        last = hooks.add(op, url)["delivered"]
        deliveries = Deliveries(
            service.database, service.register.log, allowed=(ip_network(allowed),), beat=0.05
        )
        try:
            service.book(op, terms(start=int(time.time()) + 60)).result()
            wait_until(lambda: hooks.all(op)[0]["delivered"] > last or hooks.all(op)[0]["trouble"])
            return str(hooks.all(op)[0]["trouble"])
        finally:
            deliveries.close()


def test_a_webhook_goes_to_the_address_that_was_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name of a webhook leads elsewhere as soon as it has been checked."""
    look_up, asked = socket.getaddrinfo, []

    def changing(host: Any, *rest: Any, **others: Any) -> Any:
        if host not in ("told.example", b"told.example"):
            return look_up(host, *rest, **others)
        asked.append(host)
        return look_up("127.0.0.1" if len(asked) == 1 else "127.0.0.9", *rest, **others)

    monkeypatch.setattr(socket, "getaddrinfo", changing)
    named: list[str] = []

    def well(handler: BaseHTTPRequestHandler) -> None:
        named.append(handler.headers["Host"])
        handler.send_response(204)
        handler.end_headers()

    with receiver(well) as url:
        url = url.replace("127.0.0.1", "told.example")
        assert told_once(tmp_path, url) == ""
    assert named == [url.split("/")[2]]
    assert len(asked) == 1


def test_a_webhook_with_an_address_inside_goes_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [(2, 1, 6, "", (address, 80)) for address in ("9.9.9.9", "10.0.0.1")]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    with pytest.raises(BadRequestError, match="10\\.0\\.0\\.1, which is no public address"):
        destinations.addresses("told.example", 80, ())


def test_a_webhook_is_not_led_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither by a redirection nor by the environment's proxy."""
    led: list[str] = []

    def well(handler: BaseHTTPRequestHandler) -> None:
        led.append(handler.path)
        handler.send_response(204)
        handler.end_headers()

    with receiver(well) as inside:

        def elsewhere(handler: BaseHTTPRequestHandler) -> None:
            handler.send_response(307)
            handler.send_header("Location", inside)
            handler.end_headers()

        monkeypatch.setenv("http_proxy", inside.removesuffix("/told"))
        monkeypatch.delenv("no_proxy", raising=False)
        with receiver(elsewhere) as url:
            assert told_once(tmp_path, url) == "answered 307"
    assert led == []
