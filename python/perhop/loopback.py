"""Pages on the loopback device of this machine, for the browser of one user.

Any user of this machine can connect, so that the address has a secret: a random token as the first
part of its path. It is neither a cookie, which browsers send to servers at all ports of a host, nor
logged, nor told to other sites.
"""

from __future__ import annotations

import hmac
import secrets
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, ClassVar, Final

from perhop.errors import OutputError

if TYPE_CHECKING:
    import socket

__all__ = ["NOT_FOUND", "LoopbackHandler", "LoopbackServer"]

_MOST: Final = 32
"""Connections at once."""

_POLL_S: Final = 0.1
"""The time after which a server that is to end does."""

NOT_FOUND: Final = (404, "text/plain; charset=utf-8", b"not found\n")
"""The answer for a path that does not exist, and to those who do not have the token."""


class LoopbackServer(ThreadingHTTPServer):
    """A server for those who have its address, with a thread for each connection."""

    daemon_threads = True
    handler: ClassVar[type[LoopbackHandler]]

    def __init__(self, port: int = 0) -> None:
        """Listen on the loopback device; port 0 is a free one.

        Raises:
            OutputError: The port is not free.
        """
        self._token = secrets.token_urlsafe(24)
        self._free = threading.BoundedSemaphore(_MOST)
        try:
            super().__init__(("127.0.0.1", port), self.handler)
        except OSError as error:
            raise OutputError(f"cannot listen on port {port}: {error.strerror}") from error
        self.host = f"127.0.0.1:{self.server_address[1]}"

    @property
    def address(self) -> str:
        """The address of the page, with its secret."""
        return f"http://{self.host}/{self._token}/"

    def begin(self) -> None:
        """Serve the page in a thread, until `end`."""
        threading.Thread(
            target=self.serve_forever, args=(_POLL_S,), name="page", daemon=True
        ).start()

    def end(self) -> None:
        """Serve no more."""
        self.shutdown()
        self.server_close()

    def below(self, path: str) -> str | None:
        """Return the part of a path after the token; None if the token is wrong."""
        _, token, *name = path.split("/", 2)
        if not name or not hmac.compare_digest(token.encode(), self._token.encode()):
            return None
        return name[0]

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection in a thread of its own, if there are not too many."""
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._free.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve a connection."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: socket.socket | tuple[bytes, socket.socket], _: Any) -> None:
        """Ignore clients that are gone."""


class LoopbackHandler(BaseHTTPRequestHandler):
    """A connection."""

    server: LoopbackServer
    timeout = 10.0
    server_version = "perhop"
    sys_version = ""

    def asked(self) -> str | None:
        """Return the part of the request's path after the token; None if the request is refused.

        The name of another site may be made to resolve to this machine (DNS rebinding), and a page
        of another site may send requests here: those name it as their host or their origin.
        """
        own = self.headers.get_all("Host") == [self.server.host]
        origin = self.headers.get("Origin", f"http://{self.server.host}")
        if not own or origin != f"http://{self.server.host}":
            return None
        return self.server.below(self.path)

    def begin_answer(self, status: int, kind: str, headers: dict[str, str]) -> None:
        """Send the beginning of an answer: its status, and headers with those of any answer."""
        self.send_response(status)
        common = {
            "Content-Type": kind,
            "Cache-Control": "no-store",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
        }
        for name, value in {**common, **headers}.items():
            self.send_header(name, value)
        self.end_headers()

    def answer(self, status: int, kind: str, content: bytes, policy: str) -> None:
        """Send an answer with its policy of what a page may load (Content-Security-Policy)."""
        length = str(len(content))
        with suppress(OSError):
            self.begin_answer(
                status, kind, {"Content-Length": length, "Content-Security-Policy": policy}
            )
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Log nothing: requests have the secret."""
