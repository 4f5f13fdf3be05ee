"""The page of a lab that is up: a server on the loopback device of this machine.

Any user of this machine can connect, so that the address has a secret. Nothing can be changed by
the page, and it loads nothing from elsewhere.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from perhop.errors import PerhopError
from perhop.lab.record import endings
from perhop.layout import places
from perhop.loopback import NOT_FOUND, LoopbackHandler, LoopbackServer

if TYPE_CHECKING:
    from perhop.lab.client import Lab

__all__ = ["Page"]

_FRESH_S: Final = 0.25
"""Time for which all connections get the same status."""

_GRACE_S: Final = 3.0
"""Time in which pages learn that the lab has ended."""


class Page(LoopbackServer):
    """A server of the page of a lab, until the lab ends."""

    def __init__(self, lab: Lab, port: int = 0) -> None:
        """Listen on the loopback device; port 0 is a free one.

        Raises:
            OutputError: The port is not free.
        """
        self._lab = lab
        self._lock = threading.Lock()
        self._asked = 0.0
        self._answer = b""
        self._places: dict[str, tuple[float, float]] | None = None
        super().__init__(port)

    def serve(self) -> None:
        """Serve the page until the lab has ended."""
        self.begin()
        try:
            while self._lab.record.alive:
                time.sleep(0.1)
            time.sleep(_GRACE_S)
        finally:
            self.end()

    def content(self, name: str | None) -> tuple[int, str, bytes]:
        """Return the status, the type and the content of what is below the token."""
        if name == "":
            return 200, "text/html; charset=utf-8", _document()[0]
        return (200, "application/json", self._status()) if name == "status" else NOT_FOUND

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


class _Handler(LoopbackHandler):
    """A connection."""

    server: Page

    def do_GET(self) -> None:  # noqa: N802
        """Answer a request."""
        self.answer(*self.server.content(self.asked()), _document()[1])


Page.handler = _Handler


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
