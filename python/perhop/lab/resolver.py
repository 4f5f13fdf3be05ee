"""The name server of a lab's hosts: one thread, with a socket in every host."""

from __future__ import annotations

import os
import secrets
import selectors
import socket
import threading
from collections import OrderedDict
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perhop.lab.names import Names

__all__ = ["Resolver"]

_LONGEST: Final = 4096
"""Bytes of a message that are read."""

_MOST: Final = 256
"""Queries that may wait for the name server of this machine; the oldest are forgotten."""

_SERVERS: Final = Path("/etc/resolv.conf")
_PORT: Final = 53

_Waiting = tuple[socket.socket, Any, bytes]
"""The socket, the address and the number of a query."""


class Resolver:
    """Answers queries by UDP until it is closed."""

    def __init__(self, names: Names, descriptors: Iterable[int], forwards: bool) -> None:
        """Begin to answer queries with `names`.

        Args:
            names: The names of nodes.
            descriptors: The sockets of the hosts, which are closed at the end.
            forwards: True to ask the name server of this machine for all other names.
        """
        self._names = names
        self._selector = selectors.DefaultSelector()
        self._sockets = [socket.socket(fileno=number) for number in descriptors]
        for each in self._sockets:
            self._selector.register(each, selectors.EVENT_READ)
        self._upstream = _upstream() if forwards else None
        self._waiting: OrderedDict[int, _Waiting] = OrderedDict()
        if self._upstream is not None:
            self._selector.register(self._upstream, selectors.EVENT_READ)
        self._wake, wakes = os.pipe2(os.O_CLOEXEC)[::-1]
        self._wakes = wakes
        self._selector.register(wakes, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._serve, name="resolver", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread, and close the sockets."""
        os.write(self._wake, b"\0")
        self._thread.join()
        self._selector.close()
        for each in (*self._sockets, *filter(None, [self._upstream])):
            each.close()
        os.close(self._wake)
        os.close(self._wakes)

    def _serve(self) -> None:
        while True:
            for key, _ in self._selector.select():
                if not isinstance(key.fileobj, socket.socket):
                    return
                # An error of a client's, such as a closed port, is reported here, too.
                with suppress(OSError):
                    message, sender = key.fileobj.recvfrom(_LONGEST)
                    if key.fileobj is self._upstream:
                        self._return(message)
                    elif self._upstream is not None and self._names.is_foreign(message):
                        self._forward(self._upstream, message, (key.fileobj, sender))
                    elif (answer := self._names.answer(message)) is not None:
                        key.fileobj.sendto(answer, sender)

    def _forward(
        self, upstream: socket.socket, message: bytes, asker: tuple[socket.socket, Any]
    ) -> None:
        """Ask the name server of this machine, by a number of its own that cannot be guessed."""
        number = secrets.randbelow(2**16)
        self._waiting[number] = (*asker, message[:2])
        if len(self._waiting) > _MOST:
            self._waiting.popitem(last=False)
        upstream.send(number.to_bytes(2) + message[2:])

    def _return(self, message: bytes) -> None:
        """Pass on an answer of the name server of this machine."""
        waiting = self._waiting.pop(int.from_bytes(message[:2]), None)
        if waiting is not None:
            link, asker, number = waiting
            link.sendto(number + message[2:], asker)


def _upstream() -> socket.socket | None:
    """Return a socket to the first name server of this machine; None if it has none."""
    with suppress(OSError, ValueError):
        for line in _SERVERS.read_text(encoding="utf-8", errors="replace").splitlines():
            match line.split():
                case ["nameserver", address, *_]:
                    family = socket.AF_INET6 if ":" in address else socket.AF_INET
                    link = socket.socket(family, socket.SOCK_DGRAM)
                    link.setblocking(False)
                    link.connect((address, _PORT))
                    return link
    return None
