"""Runs in parallel processes.

`work` makes runs whose datasets go into folders; `call` calls any function for many arguments.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import count
from multiprocessing import resource_tracker
from typing import TYPE_CHECKING, Any, Final, TypeVar

from perhop import engines
from perhop.errors import OutputError
from perhop.interruption import (
    SIGNALS,
    DeferredSignals,
    interruptible,
    listen_when_interruptible,
    uninterruptible,
)
from perhop.scenario import Scenario, to_mapping

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
    from pathlib import Path

__all__ = ["Task", "call", "cores", "work"]

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class Task:
    """A run to be made.

    Attributes:
        scenario: The scenario.
        folder: The folder for its dataset.
        engine: The engine.
        seed: The seed of its random numbers.
    """

    scenario: Scenario
    folder: Path
    engine: str = "sim"
    seed: int = 1


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0))


def work(tasks: Sequence[Task], jobs: int) -> Generator[None, None, None]:
    """Make runs in `jobs` processes; yield once for each finished run, in any order.

    Signals that end the program are handled as by `call`: no further run begins.
    """
    for each in tasks:
        # Here, because a run that finds out whether it can write takes away what it made for that.
        try:
            each.folder.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            reason = error.strerror or str(error)
            message = f"cannot write {each.folder.parent}: {reason}; give another folder"
            raise OutputError(message) from error
    facts = ((to_mapping(t.scenario), t.engine, t.seed, str(t.folder)) for t in tasks)
    with closing(call(_run, facts, min(jobs, len(tasks)))) as made:
        for _ in made:
            yield


def call(
    function: Callable[..., _Result], arguments: Iterable[tuple[Any, ...] | None], jobs: int
) -> Generator[tuple[int, _Result], None, None]:
    """Call a function once with each of `arguments`, in `jobs` processes.

    After Ctrl-C no further call begins; running calls are finished, and `KeyboardInterrupt` is
    raised.
    A second Ctrl-C ends them at once.

    Args:
        function: A function of a module; arguments and results are pickled.
        arguments: The arguments of each call, taken as processes become free. None means that there
            are none until running calls are done.
        jobs: The number of processes; none without calls.

    Yields:
        The index of a call's arguments, from 0, and its result, as soon as it is available, in any
        order.
    """
    if not jobs:
        return
    # A forked child of a process with threads, as polars has, may hang.
    context = multiprocessing.get_context("spawn")
    waiting = iter(arguments)
    numbers = count()
    others = set(multiprocessing.active_children())
    with uninterruptible() as signals:
        pool = ProcessPoolExecutor(jobs, context, _serve)
        running: dict[Future[_Result], int] = {}
        try:
            while not signals.came:
                # A few more than there are processes, so that none waits, and Ctrl-C finds
                # little that has begun.
                while len(running) < jobs + 2 and (each := next(waiting, None)) is not None:
                    with _signals_blocked():
                        running[pool.submit(_call, function, each)] = next(numbers)
                if not running:
                    break
                for future in wait(running, _OFTEN_S, FIRST_COMPLETED).done:
                    yield running.pop(future), future.result()
        finally:
            for future in running:
                future.cancel()
            again = DeferredSignals()
            while wait(running, _OFTEN_S).not_done:
                if again.came:
                    for process in set(multiprocessing.active_children()) - others:
                        process.terminate()
            pool.shutdown(wait=True)


_OFTEN_S: Final = 0.1
"""Interval between checks for signals."""


def _serve() -> None:
    """Begin a worker process: it ignores Ctrl-C, and SIGTERM ends its present call."""
    listen_when_interruptible()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})


def _call(function: Callable[..., _Result], arguments: tuple[Any, ...]) -> _Result:
    with interruptible():
        return function(*arguments)


def _run(scenario: dict[str, Any], engine: str, seed: int, folder: str) -> None:
    """Make one run in a process of its own."""
    made = engines.run(Scenario.model_validate(scenario), engine=engine, seed=seed, out=folder)
    if not made.manifest.complete:
        raise KeyboardInterrupt


@contextmanager
def _signals_blocked() -> Iterator[None]:
    """Block signals in processes that are started in this block."""
    # It would end the block, so it is there before.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
