"""Connections to PostgreSQL that end in time, whatever the network does: pg8000 within limits.

A connection that breaks raises `pg8000.InterfaceError` with "network error", by which SQLAlchemy
knows that it is lost, and its socket is closed at once.
"""

from __future__ import annotations

import socket
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import pg8000  # type: ignore[import-untyped]
import sqlalchemy as sa
from pg8000.core import TERMINATE_MSG  # type: ignore[import-untyped]

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

STATEMENT_TIMEOUT: Final = 8.0
"""Time limit for PostgreSQL to accept a connection, and to answer each statement, in seconds."""

SILENCE: Final = 15
"""Seconds after which PostgreSQL drops a session that is silent in a transaction, or that holds the
lock."""

_PATIENCE: Final = 90.0
"""The time limit for a step of the migrations, and for the end of lost transactions, in seconds."""

_SETTINGS: Final = {
    "statement_timeout": f"{STATEMENT_TIMEOUT:g}s",
    "idle_in_transaction_session_timeout": f"{SILENCE}s",
    "tcp_keepalives_idle": "4",
    "tcp_keepalives_interval": "2",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "10000",
}
"""Settings of a session, which limit the time of the server's end."""

_SET: Final = "SELECT set_config(name, :value, false) FROM pg_settings WHERE name = :name"
"""Change a setting of the session, if this version of PostgreSQL has it."""


class _Wire:
    """The file of a connection's socket, of which every error is pg8000's.

    pg8000 lets the error of an answer's first read through as it is (an `OSError`), which
    SQLAlchemy does not take for a lost connection.
    """

    def __init__(self, file: Any) -> None:
        self._file = file

    def _call(self, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except OSError as error:
            raise pg8000.InterfaceError(f"network error: {error}") from error

    def read(self, size: int) -> bytes:
        read: bytes = self._call(lambda: self._file.read(size))
        return read

    def write(self, data: bytes) -> None:
        self._call(lambda: self._file.write(data))

    def flush(self) -> None:
        self._call(self._file.flush)

    def close(self) -> None:
        self._call(self._file.close)


class Connection(pg8000.Connection):  # type: ignore[misc]
    """A connection whose waits are limited, and whose socket is closed when it breaks.

    The socket's limit ends each wait for an answer. TCP's limits (`tcp(7)`; the server's are
    settings of the session) let both ends find out that a firewall dropped the connection. What a
    statement or a transaction of a lost process locks is free after the server's other limits.
    """

    def __init__(
        self,
        *,
        host: str = "localhost",
        port: int = 5432,
        unix_sock: str | None = None,
        **options: Any,
    ) -> None:
        """Connect, and set the limits of the session.

        Args:
            host: Name or address of the server; in a certificate, too.
            port: TCP port of the server.
            unix_sock: Path of its Unix socket, instead of host and port.
            options: Other arguments of `pg8000.connect`.

        Raises:
            pg8000.Error: The server does not answer, or refuses.
            OSError: TLS fails.
        """
        self._usock: Any = None
        self._file: _Wire | None = None
        wire = _socket(host, port, unix_sock)
        try:
            super().__init__(host=host, sock=wire, **options)
            cursor = self.cursor()
            for name, text in _SETTINGS.items():
                statement = _SET.replace(":name", "%s").replace(":value", "%s")
                cursor.execute(statement, (text, name))
            self.commit()
            cursor.close()
        except BaseException:
            self.close()
            wire.close()  # TLS has a socket of its own
            raise

    @property
    def _sock(self) -> _Wire | None:
        """What pg8000 reads from and writes to."""
        return self._file

    @_sock.setter
    def _sock(self, file: Any) -> None:
        self._file = None if file is None else _Wire(file)

    def rollback(self) -> None:
        """Roll the transaction back, which the loss of the connection does, too."""
        try:
            super().rollback()
        except pg8000.InterfaceError:
            self.close()

    def close(self) -> None:
        """Close the socket, whether or not the server can still be told; closed twice, it stays."""
        own, file = self._usock, self._file
        self._usock = self._file = None
        if own is None:
            return
        own.settimeout(0)
        if file is not None:
            with suppress(pg8000.InterfaceError):
                file.write(TERMINATE_MSG)
                file.flush()
            with suppress(pg8000.InterfaceError):
                file.close()
        with suppress(OSError):
            own.close()


def _socket(host: str, port: int, unix: str | None) -> socket.socket:
    """Return a connected socket whose waits are limited.

    Raises:
        pg8000.InterfaceError: Nobody listens there.
    """
    try:
        if unix is None:
            wire = socket.create_connection((host, port), STATEMENT_TIMEOUT)
        else:
            wire = socket.socket(socket.AF_UNIX)
    except OSError as error:
        raise pg8000.InterfaceError(f"cannot connect to {host} port {port}: {error}") from error
    try:
        if unix is not None:
            wire.settimeout(STATEMENT_TIMEOUT)
            wire.connect(unix)
            return wire
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in (
            (socket.TCP_KEEPIDLE, 4),
            (socket.TCP_KEEPINTVL, 2),
            (socket.TCP_KEEPCNT, 3),
            (socket.TCP_USER_TIMEOUT, int(STATEMENT_TIMEOUT * 1000)),
        ):
            wire.setsockopt(socket.IPPROTO_TCP, option, value)
    except OSError as error:
        wire.close()
        raise pg8000.InterfaceError(f"cannot connect to {unix or host}: {error}") from error
    except BaseException:
        wire.close()
        raise
    return wire


def set_settings(connection: sa.Connection, **settings: str) -> None:
    """Change settings of a session that this version of PostgreSQL has."""
    for name, value in settings.items():
        connection.execute(sa.text(_SET), {"name": name, "value": value})


@contextmanager
def patient(connection: sa.Connection) -> Iterator[None]:
    """Let the statements of a connection take `_PATIENCE` seconds each."""
    own: Any = connection.connection.dbapi_connection
    set_settings(connection, statement_timeout=f"{_PATIENCE:g}s")
    connection.commit()
    own._usock.settimeout(_PATIENCE)
    try:
        yield
    except BaseException:
        connection.invalidate()  # others must not inherit the limits
        raise
    own._usock.settimeout(STATEMENT_TIMEOUT)
    set_settings(connection, statement_timeout=f"{STATEMENT_TIMEOUT:g}s")
    connection.commit()
