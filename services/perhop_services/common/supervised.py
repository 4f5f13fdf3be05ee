"""Threads whose failures are loud: logged, shown in `/healthz`, and followed by another try."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, Final, ParamSpec, Protocol, TypeVar

from perhop_services.common.logs import LOG, failed

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
T = TypeVar("T")

SHORTEST_WAIT: Final = 0.1
"""Seconds between two steps at least, while they go wrong."""

LONGEST_WAIT: Final = 5.0
"""Seconds between two steps at most, while they go wrong."""

SHOWN: Final = 60.0
"""Seconds for which the failure of a pool's last task is shown."""


class Watched(Protocol):
    """A thread or a pool of threads that `/healthz` shows."""

    name: str

    @property
    def trouble(self) -> str:
        """Last error, as ``Type: message``; "" if there is none."""

    @property
    def idle(self) -> float:
        """Seconds since a step was completed; 0 for those that have no steps."""

    @property
    def is_alive(self) -> bool:
        """True while it runs."""


class Supervised:
    """A thread that does a step again and again until it is closed.

    A step that fails is logged, and shown in `/healthz` until one succeeds. The next step comes
    after a wait that doubles with every failure in a row.
    """

    def __init__(
        self,
        name: str,
        step: Callable[[], None],
        beat: float,
        last: Callable[[], None] = lambda: None,
    ) -> None:
        """Start.

        Args:
            name: Name of the thread, in logs and in `/healthz`.
            step: Function to run.
            beat: Seconds from the beginning of one step to that of the next.
            last: Function to run in the end, in the thread, too.
        """
        self.name = name
        self.trouble = ""
        """Error of the last step, or ""."""
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
    def is_alive(self) -> bool:
        """True while the thread runs."""
        return self._thread.is_alive()

    def close(self, *, wait: bool = True) -> None:
        """End after the present step.

        Args:
            wait: True to return only then; a step that hangs would never end.
        """
        self._ending.set()
        if wait:
            self._thread.join()

    def _run(self) -> None:
        wait, logged = 0.0, False
        while not self._ending.wait(wait):
            began = time.monotonic()
            try:
                self._step()
            except Exception as error:
                wait = min(LONGEST_WAIT, max(SHORTEST_WAIT, self._beat, 2 * wait))
                told, self.trouble = self.trouble, _said(error)
                if told != self.trouble:
                    logged |= failed(self.name, error)
            else:
                if logged:
                    LOG.warning("%s: goes on", self.name)
                    logged = False
                self.trouble, self._done = "", time.monotonic()
                wait = max(0.0, self._beat - (self._done - began))
        try:
            self._last()
        except Exception as error:
            self.trouble = _said(error)
            failed(self.name, error)


class Pool:
    """A pool of threads that looks at the outcome of every task.

    A task that fails is logged, and shown in `/healthz` until another succeeds or `SHOWN` seconds
    are over. Trying again is up to the code that submits tasks.
    """

    idle: Final = 0.0
    is_alive: Final = True

    def __init__(self, name: str, threads: int) -> None:
        """Start.

        Args:
            name: Name of the pool, in logs and in `/healthz`.
            threads: Number of tasks at once.
        """
        self.name = name
        self._pool = ThreadPoolExecutor(threads, name)
        self._failed = ("", 0.0)

    @property
    def trouble(self) -> str:
        """Error of the last task, or ""."""
        said, at = self._failed
        return said if time.monotonic() - at < SHOWN else ""

    def submit(
        self, about: dict[str, object], work: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> Future[T]:
        """Have something done; `about` are the fields that the log has of it if it fails."""
        future = self._pool.submit(work, *args, **kwargs)
        future.add_done_callback(partial(self._look, about))
        return future

    def close(self) -> None:
        """Finish the tasks that have begun, and end."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _look(self, about: dict[str, object], done: Future[Any]) -> None:
        error = None if done.cancelled() else done.exception()
        if error is None:
            self._failed = ("", 0.0)
        else:
            self._failed = (_said(error), time.monotonic())
            failed(self.name, error, **about)


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
