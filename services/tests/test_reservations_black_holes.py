"""Connections to PostgreSQL become black holes; new ones work."""

import os
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from black_holes import forwarder
from conftest import DEADLINES, SLOW
from perhop.errors import UsageError
from perhop_services.common import database
from perhop_services.common.errors import ServiceError
from perhop_services.reservations.client import Client
from perhop_services.reservations.schema import open_database
from postgres import restartable
from reserving import PASSWORD, Clock, port, service, terms, user
from reserving_http import booking
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
        with it.running() as process, Client(it.url) as client:
            token = client.log_in("root", PASSWORD)
            wire.forget()
            answers: list[httpx.Response] = []

            def ask(path: str, body: dict[str, Any]) -> None:
                with suppress(httpx.HTTPError):
                    answers.append(
                        httpx.post(
                            f"{it.url}/api/{path}",
                            json=body,
                            headers={"Authorization": f"Bearer {token}"},
                            timeout=30,
                        )
                    )

            who = {"name": "root", "password": PASSWORD}
            questions = [("token", who), *[("reservations", booking().model_dump(mode="json"))] * 3]
            asking = [threading.Thread(target=ask, args=each, daemon=True) for each in questions]
            for each in asking:
                each.start()
            time.sleep(0.5)
            began = time.monotonic()
            process.send_signal(signal.SIGTERM)
            assert process.wait(11) == 128 + signal.SIGTERM
            assert time.monotonic() - began < 10.5
            for each in asking:
                each.join()
            assert {each.status_code for each in answers} <= {503}
            assert "Traceback" not in (tmp_path / "log").read_text()
            open_database(url).close()
            assert time.monotonic() - began < BACK


def test_the_process_of_a_frozen_session_with_the_lock_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It cannot end its session, and may still commit: a human has to decide."""
    monkeypatch.setattr(database, "LOCK_TIMEOUT", 0.5)
    with restartable() as postgresql, service(postgresql.url, Clock()) as running:
        assert running.database._session is not None
        frozen = running.database._session[0]
        os.kill(frozen, signal.SIGSTOP)
        try:
            with pytest.raises(UsageError, match=f"end process {frozen} of PostgreSQL"):
                open_database(postgresql.url)
        finally:
            os.kill(frozen, signal.SIGCONT)


def test_an_idle_session_keeps_the_lock() -> None:
    """The server's limit of silence does not end a service that has nothing to do."""
    with restartable() as postgresql, service(postgresql.url, Clock()) as running:
        session = running.database._session
        time.sleep(17)
        assert running.database.holds_lock()
        assert running.database._session == session
