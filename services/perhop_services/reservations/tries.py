"""Repeated attempts for reservations, one at a time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from perhop_services.common.errors import UnavailableError

if TYPE_CHECKING:
    import threading


class Tries:
    """The times of the next attempts with failed routers: later and later, until a deadline."""

    def __init__(self, persistence: float) -> None:
        """Take for how many seconds each is tried again."""
        self._persistence = persistence
        self._failing: dict[int, tuple[float, float, float]] = {}
        """By reservation: time of the first failure, seconds of the present wait, and its end."""

    def may(self, id_: int) -> bool:
        """Return whether a reservation may be tried now."""
        return time.monotonic() >= self._failing.get(id_, (0.0, 0.0, 0.0))[2]

    def failed(self, id_: int) -> bool:
        """Record a failure; return whether it was the last attempt."""
        now = time.monotonic()
        since, wait, _ = self._failing.get(id_, (now, 0.25, 0.0))
        if now - since >= self._persistence:
            return True
        wait = min(30.0, 2 * wait)
        self._failing[id_] = (since, wait, now + wait)
        return False

    def succeeded(self, id_: int) -> None:
        """Forget a reservation that is installed, or given up."""
        self._failing.pop(id_, None)


class Exclusive:
    """Exclusive work on a reservation, as a context manager."""

    def __init__(self, busy: set[int], lock: threading.Lock, id_: int, timeout: float) -> None:
        self._busy, self._lock, self._id, self._timeout = busy, lock, id_, timeout

    def __enter__(self) -> None:
        until = time.monotonic() + self._timeout
        while time.monotonic() < until:
            with self._lock:
                if self._id not in self._busy:
                    self._busy.add(self._id)
                    return
            time.sleep(0.01)
        raise UnavailableError(f"reservation {self._id} is busy; try again")

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._busy.discard(self._id)
