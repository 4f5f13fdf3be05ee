"""Calls on a cluster of Dask.

A task of Dask costs a scheduler, a worker and this process some milliseconds, so that a task makes
several short calls. The scheduler gives a task to another worker when its worker dies.
"""

from __future__ import annotations

import pickle
import time
from asyncio import run_coroutine_threadsafe
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar
from uuid import uuid4

from perhop.cluster.calls import Failed, here, make
from perhop.errors import ClusterError
from perhop.interruption import DeferredSignals, uninterruptible

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
    from concurrent.futures import Future

__all__ = ["Cluster", "lost"]

_Result = TypeVar("_Result")

_TASK_S: Final = 0.25
"""The seconds that the calls of a task are to take together."""

_TASK_BYTES: Final = 2**24
"""The bytes that the results of a task are to have at most."""

_MOST_CALLS: Final = 100
"""The most calls of a task."""

_TASKS_PER_THREAD: Final = 2
"""The tasks for each thread of a worker: one that it makes, and one for when that is done."""

_WITHOUT_WORKERS: Final = 4
"""The tasks that wait where there are no workers, so that clusters that grow by need do so."""

_OFTEN_S: Final = 0.1
"""Interval between checks for signals."""

_LOOK_S: Final = 1.0
"""Interval between looks at the workers."""


@dataclass(slots=True)
class Cluster:
    """A pool of the workers of a cluster.

    Attributes:
        client: The connection to the scheduler.
        address: The address of the scheduler.
        say: A function for messages about workers.
        look: Called about once a second with `say`: looks at what the workers run in.
        shares_folders: False: workers may be other machines.
    """

    client: Any  # a `distributed.Client`, whose types are incomplete
    address: str
    say: Callable[[str], None] = field(default=lambda _: None)
    look: Callable[[Callable[[str], None]], None] = field(default=lambda _: None)
    shares_folders: ClassVar[bool] = False
    _threads: int = 0
    _workers: set[str] = field(default_factory=set)
    _looked: float = 0.0
    _waiting: bool = False

    def call(
        self, function: Callable[..., _Result], arguments: Iterable[tuple[Any, ...] | None]
    ) -> Generator[tuple[int, _Result], None, None]:
        """Call a function once with each of `arguments`; see `perhop.workers.Pool.call`.

        Raises:
            ClusterError: The scheduler does not answer, a worker cannot make the call, or several
                workers died of it.
        """
        waiting, numbers = iter(arguments), count()
        size = _Size()
        finished: SimpleQueue[tuple[str, Future[bytes]]] = SimpleQueue()
        running: dict[str, tuple[Any, list[int]]] = {}
        again: DeferredSignals | None = None
        with uninterruptible() as signals:
            try:
                while again is None or not again.came:
                    if not signals.came:
                        for calls in self._tasks(waiting, size.calls, len(running)):
                            task = self._submit(function, calls)
                            running[task.key] = task, [next(numbers) for _ in calls]
                            self._fetch(task, finished)
                    elif again is None:
                        again = DeferredSignals()
                        self._withdraw(running)
                    if not running:
                        break
                    try:
                        key, fetched = finished.get(timeout=_OFTEN_S)
                    except Empty:
                        continue
                    if key not in running:
                        continue  # withdrawn
                    pickled = self._result(fetched)
                    own = running.pop(key)[1]  # so that the workers forget the result
                    took, results = pickle.loads(pickled)
                    size.made(len(results), took, len(pickled))
                    for number, result in zip(own, results, strict=False):
                        if isinstance(result, Failed):
                            raise result.error
                        yield number, result
            finally:
                with suppress(Exception):  # the scheduler may have died
                    self.client.cancel([task for task, _ in running.values()])

    def _tasks(
        self, waiting: Iterator[tuple[Any, ...] | None], size: int, running: int
    ) -> Iterator[list[tuple[Any, ...]]]:
        """Yield the calls of each task that can be submitted now."""
        self._look()
        free = max(_TASKS_PER_THREAD * self._threads, _WITHOUT_WORKERS) - running
        if free <= 0:
            return
        calls: list[tuple[Any, ...]] = []
        while len(calls) < free * size and (each := next(waiting, None)) is not None:
            calls.append(each)
        # Few calls are shared out, so that no worker has several while another has none.
        length = min(size, -(-len(calls) // max(1, self._threads)))
        for first in range(0, len(calls), length or 1):
            yield calls[first : first + length]

    def _look(self) -> None:
        """Count the threads of the workers, now and then."""
        now = time.monotonic()
        if now < self._looked + _LOOK_S and self._threads:
            return
        self._looked = now
        with self._explained():
            workers: dict[str, int] = self.client.nthreads()
        if self._workers - workers.keys():
            self.say("lost a worker; others make its runs again")
        if not workers and not self._waiting:
            self.say(f"{self.address} has no workers; waiting for some")
        self._workers, self._waiting = {*workers}, not workers
        self._threads = sum(workers.values())
        self.look(self.say)

    def _submit(self, function: Callable[..., object], calls: Sequence[tuple[Any, ...]]) -> Any:
        # As bytes, because Dask would look for its own objects in everything inside of scenarios.
        # To unpickle them is the task, because a worker that cannot unpickle a task dies.
        call = _Call(pickle.dumps((function, calls), pickle.HIGHEST_PROTOCOL))
        with self._explained():
            return self.client.submit(pickle.loads, pickle.dumps(call), key=f"runs-{uuid4().hex}")

    def _withdraw(self, running: dict[str, tuple[Any, list[int]]]) -> None:
        """Withdraw the tasks that no worker has."""
        with self._explained():
            begun = {key for keys in self.client.processing().values() for key in keys}
            self.client.cancel([running.pop(key)[0] for key in running.keys() - begun])

    def _fetch(self, task: Any, finished: SimpleQueue[tuple[str, Future[bytes]]]) -> None:
        """Put the result of a task into a queue when it is here."""
        # Dask's thread waits for it. If a worker dies before it has sent the result, that may last.
        wanted = self.client.gather(task, asynchronous=True)
        fetched = run_coroutine_threadsafe(wanted, self.client.loop.asyncio_loop)
        key = task.key
        fetched.add_done_callback(lambda future: finished.put((key, future)))

    def _result(self, fetched: Future[bytes]) -> bytes:
        from distributed import KilledWorker

        try:
            with self._explained():
                return fetched.result()
        except KilledWorker as error:
            raise ClusterError(
                f"{error.last_worker.address} and other workers died of the same runs, as by a "
                "lack of memory"
            ) from None
        except (ImportError, AttributeError) as error:
            raise ClusterError(
                f"a worker of {self.address} cannot make runs: {error}; install perhop {here()} "
                "where the workers run"
            ) from None

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Report the loss of the scheduler."""
        try:
            yield
        except (OSError, CancelledError) as error:
            raise lost(self.address) from error


@dataclass(frozen=True, slots=True)
class _Call:
    """Calls that are made where this is unpickled."""

    pickled: bytes

    def __reduce__(self) -> tuple[Callable[[str, bytes], bytes], tuple[str, bytes]]:
        return make, (here(), self.pickled)


@dataclass(slots=True)
class _Size:
    """The number of calls of a task, by those that are done."""

    calls: int = 1

    def made(self, calls: int, seconds: float, size: int) -> None:
        """Adapt to calls that were made."""
        wanted = min(_TASK_S / max(seconds, 1e-6), _TASK_BYTES / max(size, 1)) * calls
        # Slow growth, because the first calls of a worker import what others have.
        self.calls = max(1, min(int(wanted), 2 * self.calls, _MOST_CALLS))


def lost(address: str) -> ClusterError:
    """Return the error of a scheduler that does not answer."""
    return ClusterError(
        f"the scheduler at {address} does not answer; start it again, or give another --cluster"
    )
