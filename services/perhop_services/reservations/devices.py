"""Routers for enforcement: one call at a time, with a timeout."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Final, TypeVar

from perhop_services.common.logs import failed
from perhop_services.common.supervised import Supervised
from perhop_services.reservations.drivers import DriverError

if TYPE_CHECKING:
    from collections.abc import Callable

    from perhop_services.reservations.drivers import Driver, Rule

T = TypeVar("T")

TIMEOUT: Final = 5.0
"""For how many seconds a router is waited for."""


_BEAT: Final = 1.0
"""Seconds for which a step waits for something to ask."""


class Device:
    """A router with its driver, which runs in a thread of its own.

    A call that takes too long is given up, but cannot be ended: until it comes back, the router is
    said to hang, and nothing more is asked of it.
    """

    def __init__(self, node: str, driver: Driver, timeout: float = TIMEOUT) -> None:
        self.node = node
        self.driver = driver
        self._timeout = timeout
        self._work: SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None] = SimpleQueue()
        self._hanging: Future[Any] | None = None
        self._one = threading.Lock()
        self.thread = Supervised(f"perhop-{node}", self._step, 0.0)

    def close(self) -> None:
        """End the thread when nothing runs in it."""
        self.thread.close(wait=False)
        self._work.put(None)

    def call(self, what: Callable[[Driver], T]) -> T:
        """Call the driver, after all earlier calls.

        Their questions do not count: each has an end, and after one that hangs all fail at once.

        Raises:
            DriverError: It refused, failed or hangs.
        """
        with self._one:
            if self._hanging is not None and not self._hanging.done():
                raise DriverError(f"{self.node} hangs: an earlier request is not answered yet")
            future: Future[T] = Future()
            self._work.put((lambda: what(self.driver), future))
            try:
                return future.result(self._timeout)
            except TimeoutError:
                self._hanging = future
                raise DriverError(
                    f"{self.node} did not answer within {self._timeout:g} s"
                ) from None

    def put(self, rule: Rule) -> None:
        """Install a rule, and verify it.

        Raises:
            DriverError: It is not, or the router says that something else is.
        """
        self.call(lambda driver: driver.set(rule))
        found = self.call(lambda driver: driver.installed()).get(rule.name)
        expected = self.driver.expected(rule)
        if found != expected:
            has = "nothing" if found is None else str(found)
            raise DriverError(f"{self.node} says that it did, but has {has}, not {expected}")

    def remove(self, name: str) -> None:
        """Remove a rule.

        Raises:
            DriverError: It may still be there.
        """
        self.call(lambda driver: driver.remove(name))

    def clear(self, name: str) -> None:
        """Clear the counters of a rule.

        Raises:
            DriverError: They may not be.
        """
        self.call(lambda driver: driver.clear(name))

    def _step(self) -> None:
        try:
            item = self._work.get(timeout=_BEAT)
        except Empty:
            return
        if item is None:
            return
        work, future = item
        try:
            future.set_result(work())
        except DriverError as error:
            future.set_exception(error)
        except Exception as error:  # a driver's bug is a failure of the router
            failed("a driver failed", error, router=self.node)
            future.set_exception(DriverError(f"{self.node}: {type(error).__name__}: {error}"))
