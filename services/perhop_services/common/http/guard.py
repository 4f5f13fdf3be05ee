"""Checks of every request: its size, its host name, and its headers."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Final

from perhop_services.common.logs import LOG

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

LARGEST: Final = 64 * 1024
"""The largest request body, in bytes."""

_OWN: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})

_HEADERS: Final = (
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        b"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


class Guard:
    """Middleware in front of everything.

    The name that a request was sent to must be one of the service's: a page whose own name is made
    to lead here (DNS rebinding) would otherwise be of the same origin.
    """

    def __init__(self, app: ASGIApp, hosts: frozenset[str], *, secure: bool) -> None:
        self._app = app
        self._hosts = _OWN | hosts
        self._headers = [*_HEADERS]
        if secure:
            self._headers.append((b"strict-transport-security", b"max-age=31536000"))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on a request that is allowed."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        name = headers.get(b"host", b"").decode("latin-1").lower()
        if "*" not in self._hosts and _without_port(name) not in self._hosts:
            await _say(send, 400, "this service is not known by that name; see --host-name")
            return
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > LARGEST:
            await _say(send, 413, f"a request has {LARGEST} bytes at most")
            return
        left = LARGEST

        async def limited() -> Message:
            nonlocal left
            message = await receive()
            left -= len(message.get("body", b""))
            if left < 0:
                # A request that exceeds the limit without stating its length is cut off.
                return {"type": "http.disconnect"}
            return message

        answered = False

        async def marked(message: Message) -> None:
            nonlocal answered
            answered = True
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *self._headers]
                if scope["path"].startswith("/api") or scope["path"].endswith(".ics"):
                    message["headers"].append((b"cache-control", b"no-store"))
            await send(message)

        try:
            await self._app(scope, limited, marked)
        except asyncio.CancelledError:
            # The service ends, and its time for answers is over.
            LOG.warning("a request is not answered: the service is ending")
            if not answered:
                await _say(marked, 503, "the service is ending; try again")


def _without_port(name: str) -> str:
    host, colon, port = name.rpartition(":")
    return host if colon and port.isdigit() else name


async def _say(send: Send, status: int, error: str) -> None:
    body = json.dumps({"error": error, "detail": {}}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
