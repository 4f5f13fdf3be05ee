"""The name server of a lab's hosts: one thread, with a socket in every host."""

from __future__ import annotations

import os
import selectors
import socket
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perhop.lab.names import Names

__all__ = ["Resolver"]

_LONGEST: Final = 4096
"""Bytes of a query that are read."""


class Resolver:
    """Answers queries by UDP until it is closed. A query costs no state."""

    def __init__(self, names: Names, descriptors: Iterable[int]) -> None:
        """Begin to answer queries with `names`; close the descriptors at the end."""
        self._names = names
        self._selector = selectors.DefaultSelector()
        self._sockets = [socket.socket(fileno=number) for number in descriptors]
        for each in self._sockets:
            self._selector.register(each, selectors.EVENT_READ)
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
        for each in self._sockets:
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
                    query, client = key.fileobj.recvfrom(_LONGEST)
                    answer = self._names.answer(query)
                    if answer is not None:
                        key.fileobj.sendto(answer, client)
