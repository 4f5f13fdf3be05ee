"""Connections to PostgreSQL become black holes; new ones work."""

import json
import signal
import threading
import time
import urllib.request
from pathlib import Path

from black_holes import forwarder
from conftest import DEADLINES, SLOW
from perhop_services.common.errors import ServiceError
from perhop_services.reservations.schema import open_database
from postgres import restartable
from reserving import PASSWORD, Clock, port, service, terms, user
from test_reservations_crash import ServiceProcess

pytestmark = [DEADLINES, SLOW]

BACK = 30.0
"""Seconds within which a service works again without a human."""


def test_a_service_books_again_after_its_connections_became_black_holes() -> None:
    with (
        restartable() as postgresql,
        forwarder(postgresql.url) as (wire, url),
        service(url, Clock()) as running,
    ):
        who = user(running)
        for number in (1, 2):  # the second time the lock is that of a session taken again
            running.book(who, terms(selector=port(number))).result(BACK)
            wire.forget()
            began = time.monotonic()
            while True:
                try:
                    running.book(who, terms(selector=port(10 + number))).result(BACK)
                    break
                except ServiceError:
                    assert time.monotonic() - began < BACK
            assert time.monotonic() - began < BACK
            assert len(running.register.listed()) == 2 * number


def test_a_hung_service_ends_on_sigterm_and_a_new_one_gets_the_lock(tmp_path: Path) -> None:
    with restartable() as postgresql, forwarder(postgresql.url) as (wire, url):
        open_database(url).close()
        it = ServiceProcess(tmp_path, url)
        with it.running() as process:
            wire.forget()

            def ask() -> None:
                body = json.dumps({"name": "root", "password": PASSWORD}).encode()
                request = urllib.request.Request(
                    f"{it.url}/api/token", body, {"Content-Type": "application/json"}
                )
                try:
                    urllib.request.urlopen(request, timeout=30).read()
                except OSError:
                    return

            asking = [threading.Thread(target=ask, daemon=True) for _ in range(3)]
            for each in asking:
                each.start()
            time.sleep(0.5)
            began = time.monotonic()
            process.send_signal(signal.SIGTERM)
            assert process.wait(11) == 128 + signal.SIGTERM
            assert time.monotonic() - began < 10.5
            open_database(url).close()
            assert time.monotonic() - began < BACK


def test_an_idle_session_keeps_the_lock() -> None:
    """The server's limit of silence does not end a service that has nothing to do."""
    with restartable() as postgresql, service(postgresql.url, Clock()) as running:
        session = running.database._session
        time.sleep(17)
        assert running.database.holds_lock()
        assert running.database._session == session
