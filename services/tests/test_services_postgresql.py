"""Connections to PostgreSQL that break: lost without an error of their own, and closed."""

import gc
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import sqlalchemy as sa

from black_holes import forwarder
from conftest import DEADLINES, SLOW
from perhop.errors import OutputError
from perhop_services.common import postgresql as connections
from perhop_services.reservations.schema import open_database
from postgres import Server, restartable

pytestmark = [DEADLINES, SLOW]


def sockets() -> set[str]:
    """The open sockets of this process."""
    links = set()
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            links.add(str(entry.readlink()))
    return {link for link in links if link.startswith("socket:")}


@contextmanager
def nothing_left(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """No socket is left to the garbage collector, and SQLAlchemy logs nothing."""
    gc.collect()
    gc.disable()
    before = sockets()
    try:
        yield
        assert sockets() <= before
        assert not [each for each in caplog.records if each.name.startswith("sqlalchemy")]
    finally:
        gc.enable()


@pytest.mark.parametrize("wire", ["unix", "tcp"])
def test_a_connection_that_breaks_is_lost_without_an_error(
    wire: str, caplog: pytest.LogCaptureFixture
) -> None:
    with restartable() as postgresql, nothing_left(caplog), forwarder(postgresql.url) as (tcp, url):
        database = open_database(postgresql.url if wire == "unix" else url)
        guard = database._guard
        assert guard is not None
        guard.exec_driver_sql("SELECT 1")  # it has a transaction open
        with database.engine.connect() as rolled_back, database.engine.connect() as idle:
            rolled_back.exec_driver_sql("SELECT 1")
            idle.exec_driver_sql("SELECT 1")
            idle.commit()
            if wire == "unix":
                postgresql.stop()
            else:
                tcp.cut()
        if wire == "unix":
            postgresql.start()
        with database.engine.connect() as again:
            assert again.exec_driver_sql("SELECT 1").scalar() == 1
        assert not database.holds_lock()
        database.lock_again()
        assert database.holds_lock()
        guard = database._guard
        assert guard is not None
        guard.exec_driver_sql("SELECT 1")
        postgresql.stop()
        database.close()


def test_a_commit_that_breaks_is_no_commit() -> None:
    with restartable() as postgresql:
        database = open_database(postgresql.url)
        with (
            pytest.raises(sa.exc.InterfaceError, match="network error") as caught,
            database.deciding() as connection,
        ):
            connection.exec_driver_sql("SELECT 1")
            postgresql.stop()
        assert caught.value.connection_invalidated
        database.close()


def answers(how: str) -> bytes:
    """What a server says to the first message of a connection."""
    refusal = b"SFATAL\0C57P03\0Mthe database system is starting up\0\0"
    return {
        "ends": b"",
        "refuses": b"N" + b"E" + (len(refusal) + 4).to_bytes(4, "big") + refusal,
        "means another protocol": b"HTTP/1.1 400 Bad Request\r\n\r\n",
        "ends within a message": b"NR\0\0\0\x08\0",
    }[how]


@pytest.mark.parametrize(
    "how", ["ends", "refuses", "means another protocol", "ends within a message"]
)
def test_the_socket_of_a_connection_that_fails_is_closed(
    how: str, caplog: pytest.LogCaptureFixture
) -> None:
    with nothing_left(caplog), socket.create_server(("127.0.0.1", 0)) as listener:
        taken = threading.Event()

        def answer() -> None:
            with suppress(OSError):
                while True:
                    with listener.accept()[0] as wire:
                        wire.settimeout(5)
                        wire.sendall(answers(how))
                        taken.wait(0.2)

        thread = threading.Thread(target=answer)
        thread.start()
        try:
            with pytest.raises(OutputError) as caught:
                open_database(f"postgresql://perhop@127.0.0.1:{listener.getsockname()[1]}/x")
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
        listener.close()
        assert caught.value.__context__ is not None  # which keeps its frames, and what they had


def test_limits_that_were_lifted_are_no_other_transactions() -> None:
    with restartable() as postgresql:
        database = open_database(postgresql.url)
        try:
            with (
                pytest.raises(ZeroDivisionError),
                database.engine.connect() as connection,
                connections.patient(connection),
            ):
                raise ZeroDivisionError
            with database.engine.connect() as connection:
                assert connection.exec_driver_sql("SHOW statement_timeout").scalar() == "8s"
        finally:
            database.close()


def test_a_server_that_restarts_forgets_no_socket(caplog: pytest.LogCaptureFixture) -> None:
    """Threads connect all the time, before, during and after the restart."""

    def ask(server: Server, ending: threading.Event) -> None:
        while not ending.is_set():
            with suppress(connections.pg8000.Error, OSError):
                made = connections.Connection(
                    user="perhop", database="postgres", unix_sock=server.url.split("unix_sock=")[1]
                )
                made.cursor().execute("SELECT 1")
                made.close()

    with restartable() as postgresql, nothing_left(caplog):
        ending = threading.Event()
        threads = [threading.Thread(target=ask, args=(postgresql, ending)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for _ in range(3):
            postgresql.stop()
            postgresql.start()
        ending.set()
        for thread in threads:
            thread.join()
