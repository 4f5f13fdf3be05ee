"""Limits of connections, which apply before authentication."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Collection

MOST: Final = 500
"""Connections at once."""

MOST_OF_ONE: Final = 128
"""Connections at once from one address that is no trusted proxy."""

LARGEST_HEAD: Final = 32 * 1024
"""Bytes of a request line and its headers."""

REQUEST_TIME: Final = 20.0
"""Seconds in which a request comes in, from the first byte or the connection on to its last."""


def limited(proxies: Collection[str]) -> type[HttpToolsProtocol]:
    """Return a class of connections that counts them together.

    Args:
        proxies: Addresses from which as many may come as there may be.
    """
    open_: Counter[str] = Counter()

    class Limited(HttpToolsProtocol):
        """A connection that is closed when it exceeds its limits."""

        _address = ""
        _head = 0
        _in_head = True
        _messages = 0
        _deadline: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._address = self.client[0] if self.client else ""
            open_[self._address] += 1
            own = MOST if self._address in proxies else MOST_OF_ONE
            if open_.total() > MOST or open_[self._address] > own:
                transport.abort()
                return
            self._expect_request()

        def connection_lost(self, exc: Exception | None) -> None:
            open_[self._address] -= 1
            if open_[self._address] <= 0:
                del open_[self._address]
            self._expect_nothing()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            if self._deadline is None:
                self._expect_request()
            messages = self._messages
            super().data_received(data)
            if not self._in_head or self._messages > messages:
                return
            self._head += len(data)
            if self._head > LARGEST_HEAD:
                self.transport.write(
                    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
                    b"content-length: 0\r\nconnection: close\r\n\r\n"
                )
                self.transport.close()
                self._expect_nothing()

        def on_headers_complete(self) -> None:
            self._in_head = False
            super().on_headers_complete()

        def on_message_complete(self) -> None:
            self._in_head, self._head = True, 0
            self._messages += 1
            self._expect_nothing()
            super().on_message_complete()

        def _expect_request(self) -> None:
            self._deadline = self.loop.call_later(REQUEST_TIME, self._give_up)

        def _expect_nothing(self) -> None:
            if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None

        def _give_up(self) -> None:
            self._deadline = None
            self.transport.abort()

    made: Any = Limited
    return made  # type: ignore[no-any-return]
