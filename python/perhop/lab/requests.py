"""Requests to a lab: lines of JSON on a Unix socket, each answered by a line.

Clients cannot block the lab: a connection has a deadline, a request has a limited length, and of
many
connections the oldest are closed.
"""

from __future__ import annotations

import os
import selectors
import socket
import struct
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from perhop.errors import OutputError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Requests"]

_LONGEST: Final = 2**20
"""Bytes that a request may have."""

_PATIENCE_S: Final = 10.0
"""Time limit for a connection to send its request and to read the answer."""

_MOST: Final = 64
"""Connections at once."""

_QUEUED: Final = 1024
"""Connections that wait to be accepted."""

_MAPPED_NOWHERE: Final = 65534
"""User id of unmapped users in a user namespace (user_namespaces(7))."""


@dataclass(slots=True, eq=False)
class _Client:
    """A connection.

    Attributes:
        link: The socket.
        until: The deadline of the connection, by the monotonic clock.
        received: The bytes received so far.
        files: The file descriptors received so far.
        answer: The bytes still to be sent; None until the request is complete.
    """

    link: socket.socket
    until: float
    received: bytearray = field(default_factory=bytearray)
    files: list[int] = field(default_factory=list)
    answer: memoryview | None = None

    def close(self) -> None:
        """Close the connection and the files that it received."""
        self.link.close()
        for number in self.files:
            os.close(number)


class Requests:
    """The socket of a lab, and its connections."""

    def __init__(self, path: Path, answer: Callable[[bytes, list[int]], bytes]) -> None:
        """Listen.

        Args:
            path: Where the socket is.
            answer: Makes an answer of a request, with the file descriptors that came with it. It
                raises nothing, and takes from the list what it keeps.

        Raises:
            OutputError: There can be no socket.
        """
        self._answer = answer
        self._clients: list[_Client] = []  # the oldest first
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.setblocking(False)
        try:
            self._listener.bind(str(path))
        except OSError as error:
            raise OutputError(f"cannot make {path}: {error}") from error
        self._listener.listen(_QUEUED)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ, None)

    def wait_for(self, file: socket.socket) -> None:
        """Let `serve` return when this can be read."""
        self._selector.register(file, selectors.EVENT_READ, file)

    def serve(self, seconds: float) -> bool:
        """Take requests for so long; says whether there is something else to read.

        It returns after a request, too.
        """
        until = time.monotonic() + seconds
        answered = False
        while not answered and (left := until - time.monotonic()) > 0:
            ready = self._selector.select(left)
            for key, _ in ready:
                if key.data is None:
                    self._accept()
                elif key.data in self._clients:  # unless it was closed for a newer one
                    self._go_on(key.data)
                    answered |= key.data.answer is not None
            now = time.monotonic()
            for client in [each for each in self._clients if each.until <= now]:
                self._close(client)
            if any(isinstance(key.data, socket.socket) for key, _ in ready):
                return True
        return False

    def close(self) -> None:
        """Close all connections."""
        for client in list(self._clients):
            self._close(client)
        self._selector.close()
        self._listener.close()

    def _accept(self) -> None:
        try:
            link, _ = self._listener.accept()
        except BlockingIOError:
            return
        except OSError:
            # No file descriptors are left; some will be.
            for client in self._clients[:1]:
                self._close(client)
            time.sleep(0.01)
            return
        if not _is_allowed(link):
            link.close()
            return
        if len(self._clients) >= _MOST:
            self._close(self._clients[0])
        link.setblocking(False)
        client = _Client(link, time.monotonic() + _PATIENCE_S)
        self._clients.append(client)
        self._selector.register(link, selectors.EVENT_READ, client)

    def _go_on(self, client: _Client) -> None:
        """Read from a connection, and answer when the request is complete."""
        try:
            if client.answer is None and not self._read(client):
                return
            assert client.answer is not None
            while client.answer:
                client.answer = client.answer[client.link.send(client.answer) :]
        except BlockingIOError:
            return
        except OSError:
            pass
        self._close(client)

    def _read(self, client: _Client) -> bool:
        """Read what has come; says whether there is an answer to send, or nothing to wait for.

        Raises:
            OSError: There is nothing to wait for.
        """
        part, files, _, _ = socket.recv_fds(client.link, 65536, 1)
        client.files += files
        client.received += part
        if len(client.files) > 1 or len(client.received) > _LONGEST or not part:
            raise ConnectionAbortedError
        if not client.received.endswith(b"\n"):
            return False
        client.answer = memoryview(self._answer(bytes(client.received), client.files))
        self._selector.modify(client.link, selectors.EVENT_WRITE, client)
        return True

    def _close(self, client: _Client) -> None:
        with suppress(KeyError, ValueError):
            self._selector.unregister(client.link)
        self._clients.remove(client)
        client.close()


def _is_allowed(link: socket.socket) -> bool:
    """Return whether the client is this user, or root."""
    try:
        credentials = link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    except OSError:
        return False
    allowed = {0, os.getuid()}
    if not _knows_all_users():
        # Root is unmapped here; but for root, only this user can open the folder of the socket.
        allowed.add(_MAPPED_NOWHERE)
    return struct.unpack("3i", credentials)[1] in allowed


def _knows_all_users() -> bool:
    """Return whether this process is in the first user namespace, or one that has every user."""
    lines = Path("/proc/self/uid_map").read_text(encoding="ascii").splitlines()
    return sum(int(line.split()[2]) for line in lines) > 1
