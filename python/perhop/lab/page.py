"""The page of a lab that is up: a server on the loopback device of this machine.

Any user of this machine can connect, so that the address has a secret. Nothing can be changed by
the page, and it loads nothing from elsewhere.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import secrets
import threading
import time
from contextlib import suppress
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from perhop.errors import OutputError, PerhopError
from perhop.lab.layout import places
from perhop.lab.record import endings

if TYPE_CHECKING:
    import socket

    from perhop.lab.client import Lab

__all__ = ["Page"]

_MOST: Final = 32
"""Connections at once."""

_PATIENCE_S: Final = 10.0
"""Time limit of a connection."""

_FRESH_S: Final = 0.25
"""Time for which all connections get the same status."""

_GRACE_S: Final = 3.0
"""Time in which pages learn that the lab has ended."""


class Page(ThreadingHTTPServer):
    """A server of the page of a lab, until the lab ends."""

    daemon_threads = True

    def __init__(self, lab: Lab, port: int = 0) -> None:
        """Listen on the loopback device; port 0 is a free one.

        Raises:
            OutputError: The port is not free.
        """
        self._lab = lab
        self._token = secrets.token_urlsafe(24)
        self._free = threading.BoundedSemaphore(_MOST)
        self._lock = threading.Lock()
        self._asked = 0.0
        self._answer = b""
        self._places: dict[str, tuple[float, float]] | None = None
        try:
            super().__init__(("127.0.0.1", port), _Handler)
        except OSError as error:
            raise OutputError(f"cannot listen on port {port}: {error.strerror}") from error
        self.host = f"127.0.0.1:{self.server_address[1]}"

    @property
    def address(self) -> str:
        """The address of the page, with its secret."""
        return f"http://{self.host}/{self._token}/"

    def serve(self) -> None:
        """Serve the page until the lab has ended."""
        thread = threading.Thread(target=self.serve_forever, name="page", daemon=True)
        thread.start()
        try:
            while self._lab.record.alive:
                time.sleep(0.1)
            time.sleep(_GRACE_S)
        finally:
            self.shutdown()
            self.server_close()

    def content(self, path: str) -> tuple[str, bytes] | None:
        """Return the type and the content of a path; None if there is none."""
        _, token, *name = path.split("/", 2)
        if not name or not hmac.compare_digest(token.encode(), self._token.encode()):
            return None
        if name == [""]:
            return "text/html; charset=utf-8", _document()[0]
        return ("application/json", self._status()) if name == ["status"] else None

    def _status(self) -> bytes:
        """Return the status of the lab with the places of its nodes, or its end."""
        with self._lock:
            if not self._answer or time.monotonic() > self._asked + _FRESH_S:
                try:
                    answer = self._drawn(self._lab.status())
                except PerhopError as error:
                    over = not self._lab.record.alive
                    answer = {"ended": self._end()} if over else {"error": str(error)}
                self._answer = json.dumps(answer, allow_nan=False).encode()
                self._asked = time.monotonic()
            return self._answer

    def _end(self) -> str:
        """Return how the lab ended."""
        own = (each.how for each in endings() if each.name == self._lab.name)
        return next(own, "it was taken down")

    def _drawn(self, status: dict[str, Any]) -> dict[str, Any]:
        if self._places is None:
            ends = [tuple(link["ends"]) for link in status["links"].values()]
            self._places = places([*status["nodes"]], ends)
        return {**status, "places": self._places}

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


class _Handler(BaseHTTPRequestHandler):
    """A connection."""

    server: Page
    timeout = _PATIENCE_S
    server_version = "perhop"
    sys_version = ""

    def do_GET(self) -> None:
        """Answer a request."""
        # A name of another site may be made to resolve to this machine (DNS rebinding).
        own = self.headers.get("Host") == self.server.host
        found = self.server.content(self.path) if own else None
        kind, content = found or ("text/plain; charset=utf-8", b"not found\n")
        self.send_response(200 if found else 404)
        headers = {
            "Content-Type": kind,
            "Content-Length": str(len(content)),
            "Cache-Control": "no-store",
            "Content-Security-Policy": _document()[1],
            "Cross-Origin-Resource-Policy": "same-origin",
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
        }
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        with suppress(OSError):
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Log nothing: requests have the secret."""


@cache
def _document() -> tuple[bytes, str]:
    """Return the page, and a policy by which only its own script and style are used."""
    content = (Path(__file__).parent / "page.html").read_bytes()

    def digest(tag: bytes) -> str:
        (text,) = re.findall(rb"<%b>(.*?)</%b>" % (tag, tag), content, re.DOTALL)
        return base64.b64encode(hashlib.sha256(text).digest()).decode()

    policy = (
        f"default-src 'none'; connect-src 'self'; script-src 'sha256-{digest(b'script')}'; "
        f"style-src 'sha256-{digest(b'style')}'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    )
    return content, policy
