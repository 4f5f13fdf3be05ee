"""A thread that goes on: what goes wrong in one step is logged, and the next step comes later."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

LOG = logging.getLogger("perhop_services")

LONGEST_WAIT: Final = 5.0
"""Seconds between two steps at most, while they go wrong."""


class Supervised:
    """Does a step again and again, in a thread of its own, until it is closed."""

    def __init__(
        self,
        name: str,
        step: Callable[[], None],
        beat: float,
        last: Callable[[], None] = lambda: None,
    ) -> None:
        """Start.

        Args:
            name: Of the thread, in logs and in `/healthz`.
            step: What is done.
            beat: Seconds from the beginning of one step to that of the next.
            last: What is done in the end, in the thread, too.
        """
        self.name = name
        self.trouble = ""
        """What went wrong in the last step, or ""."""
        self._step = step
        self._beat = beat
        self._last = last
        self._done = time.monotonic()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def idle(self) -> float:
        """Seconds since a step was completed."""
        return time.monotonic() - self._done

    @property
    def is_ending(self) -> bool:
        """Whether it was asked to end."""
        return self._ending.is_set()

    @property
    def is_alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def close(self) -> None:
        """Finish the step, and end."""
        self._ending.set()
        self._thread.join()

    def _run(self) -> None:
        wait = 0.0
        while not self._ending.wait(wait):
            began = time.monotonic()
            try:
                self._step()
            except Exception as error:
                wait = min(LONGEST_WAIT, max(self._beat, 2 * wait))
                told, self.trouble = self.trouble, f"{type(error).__name__}: {error}"
                if told != self.trouble:
                    LOG.exception("%s: %s", self.name, error)
            else:
                if self.trouble:
                    LOG.warning("%s: goes on", self.name)
                self.trouble, self._done = "", time.monotonic()
                wait = max(0.0, self._beat - (self._done - began))
        self._last()
