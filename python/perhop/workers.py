"""Many runs on all cores: each in one of a few processes.

`work` makes runs whose datasets go into folders; `call` has any function called many times.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from perhop import engines
from perhop.scenario import Scenario, to_mapping

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

__all__ = ["Task", "call", "cores", "work"]

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class Task:
    """A run that is to be made.

    Attributes:
        scenario: What is run.
        folder: Where its dataset goes.
        engine: What runs it.
        seed: The seed of its random numbers.
    """

    scenario: Scenario
    folder: Path
    engine: str = "sim"
    seed: int = 1


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0))


def work(tasks: Sequence[Task], jobs: int) -> Iterator[None]:
    """Make runs in `jobs` processes; yield once for each that is finished, in any order.

    Ctrl-C lets no further run begin; those that have begun are finished, and `KeyboardInterrupt`
    goes on.
    """
    for each in tasks:
        # Here, because a run that finds out whether it can write takes away what it made for that.
        each.folder.parent.mkdir(parents=True, exist_ok=True)
    facts = ((to_mapping(t.scenario), t.engine, t.seed, str(t.folder)) for t in tasks)
    for _ in call(_run, facts, min(jobs, len(tasks))):
        yield


def call(
    function: Callable[..., _Result], arguments: Iterable[tuple[Any, ...]], jobs: int
) -> Iterator[tuple[int, _Result]]:
    """Call a function once with each of `arguments`, in `jobs` processes.

    Ctrl-C lets no further call begin; those that have begun are finished, and `KeyboardInterrupt`
    goes on.

    Args:
        function: A function of a module; arguments and results are pickled.
        arguments: The arguments of each call; taken as processes become free.
        jobs: The number of processes; none without calls.

    Yields:
        The place of a call's arguments, from 0, and its result, as soon as it is there, in any
        order.
    """
    if not jobs:
        return
    # A forked child of a process with threads, as polars has, may hang.
    context = multiprocessing.get_context("spawn")
    waiting = enumerate(arguments)
    with ProcessPoolExecutor(jobs, context) as pool:
        running: dict[Future[_Result], int] = {}
        try:
            while True:
                # A few more than there are processes, so that none waits, and Ctrl-C finds
                # little that has begun.
                while len(running) < jobs + 2 and (each := next(waiting, None)) is not None:
                    # It may start a process, of which half would break the others.
                    with _undisturbed():
                        running[pool.submit(function, *each[1])] = each[0]
                if not running:
                    return
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    yield running.pop(future), future.result()
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise


def _run(scenario: dict[str, Any], engine: str, seed: int, folder: str) -> None:
    """Make one run; in a process of its own."""
    engines.run(Scenario.model_validate(scenario), engine=engine, seed=seed, out=folder)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Have signals that end a program wait until what is done here is done.

    A process that is started here never sees SIGINT, from its first instruction on: signals that
    are blocked stay so.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # which gets none
        return
    came: list[int] = []
    handlers = {
        number: signal.signal(number, lambda number, _: came.append(number))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for late in came:
            signal.raise_signal(late)
