"""Calls in parallel: in processes of this machine, or wherever another pool makes them.

`Pool` is the interface, `Processes` the pool of this machine, and `work` makes runs whose datasets
go into folders.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from itertools import count
from multiprocessing import resource_tracker
from threading import Thread
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol, TypeVar

from perhop import engines
from perhop.errors import ClusterError, OutputError
from perhop.interruption import (
    SIGNALS,
    DeferredSignals,
    interruptible,
    listen_when_interruptible,
    uninterruptible,
)
from perhop.scenario import Scenario, to_mapping
from perhop.stores import ObjectPath

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
    from multiprocessing.process import BaseProcess

    from perhop.dataset import Dataset
    from perhop.stores import Place

__all__ = ["Pool", "Processes", "Task", "cores", "pool_of", "signals_blocked", "work"]

_Result = TypeVar("_Result")


class Pool(Protocol):
    """A place where calls are made in parallel."""

    @property
    def shares_folders(self) -> bool:
        """True if calls can write into folders of this machine."""

    def call(
        self, function: Callable[..., _Result], arguments: Iterable[tuple[Any, ...] | None]
    ) -> Generator[tuple[int, _Result], None, None]:
        """Call a function once with each of `arguments`.

        After Ctrl-C no further call begins; running calls are finished, and `KeyboardInterrupt` is
        raised. A second Ctrl-C ends them at once.

        Args:
            function: A function of a module; arguments and results are pickled.
            arguments: The arguments of each call, taken as calls can begin. None means that there
                are none until running calls are done.

        Yields:
            The index of a call's arguments, from 0, and its result, as soon as it is available, in
            any order.
        """


@dataclass(frozen=True, slots=True)
class Task:
    """A run to be made.

    Attributes:
        scenario: The scenario.
        folder: The folder for its dataset, of this machine or of an object store.
        engine: The engine.
        seed: The seed of its random numbers.
    """

    scenario: Scenario
    folder: Place
    engine: str = "sim"
    seed: int = 1

    def finished(self, *, of_any_version: bool = False) -> Dataset | None:
        """Return the dataset in the folder, if it is that of this run, made to its end.

        It decides which runs are made again when something continues.

        Args:
            of_any_version: Whether one of another version of perhop is, too.
        """
        from perhop.dataset import Dataset

        try:
            found = Dataset.read(self.folder)
        except OutputError:
            return None
        made = found.manifest
        own = made.complete and (made.engine, made.seed) == (self.engine, self.seed)
        same = own and (of_any_version or made.perhop == version("perhop"))
        return found if same and to_mapping(found.scenario) == to_mapping(self.scenario) else None


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0))


def pool_of(jobs: int | None, pool: Pool | None, most: int) -> Pool:
    """Return a pool, by default processes of this machine.

    Args:
        jobs: The number of processes; by default one for each core.
        pool: Another pool to return.
        most: The most calls that are side by side.
    """
    return pool or Processes(min(jobs or cores(), most))


def work(
    tasks: Sequence[Task], pool: Pool, measure: Callable[[Dataset], _Result]
) -> Generator[tuple[int, _Result], None, None]:
    """Make runs and save their datasets.

    Signals that end the program are handled as by `Pool.call`.

    Args:
        tasks: The runs.
        pool: Where they are made.
        measure: A function of a module, of the dataset of each run.

    Yields:
        The index of a task, and what `measure` returns, in any order.

    Raises:
        OutputError: A folder cannot be written.
    """
    for each in tasks:
        # Here, because a run that finds out whether it can write takes away what it made for that.
        try:
            each.folder.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            reason = error.strerror or str(error)
            message = f"cannot write {each.folder.parent}: {reason}; give another folder"
            raise OutputError(message) from error
    facts = (
        (measure, to_mapping(t.scenario), t.engine, t.seed, _reached(t.folder, pool)) for t in tasks
    )
    with closing(pool.call(_run, facts)) as made:
        for number, (measured, contents) in made:
            if contents is not None:
                from perhop.dataset.folder import write_contents

                write_contents(tasks[number].folder, contents)
            yield number, measured


def _reached(folder: Place, pool: Pool) -> str | None:
    """Return a folder into which calls can write; None if they cannot."""
    return str(folder) if pool.shares_folders or isinstance(folder, ObjectPath) else None


@dataclass(frozen=True, slots=True)
class Processes:
    """A pool of processes of this machine.

    Attributes:
        jobs: The number of processes; none without calls.
    """

    jobs: int
    shares_folders: ClassVar[bool] = True

    def call(
        self, function: Callable[..., _Result], arguments: Iterable[tuple[Any, ...] | None]
    ) -> Generator[tuple[int, _Result], None, None]:
        """Call a function once with each of `arguments`; see `Pool.call`.

        A program without `if __name__ == "__main__":` may call this, because processes import its
        main module only if the function or its arguments are defined there.

        Raises:
            ClusterError: A process was killed, or did not start.
        """
        if not self.jobs:
            return
        # A forked child of a process with threads, as polars has, may hang.
        context = multiprocessing.get_context("spawn")
        waiting = iter(arguments)
        numbers = count()
        others = set(multiprocessing.active_children())
        started: set[BaseProcess] = set()
        with uninterruptible() as signals:
            pool = ProcessPoolExecutor(self.jobs, context, _serve)
            running: dict[Future[_Result], int] = {}
            try:
                while not signals.came:
                    # A few more than there are processes, so that none waits, and Ctrl-C finds
                    # little that has begun.
                    while (
                        len(running) < self.jobs + 2 and (each := next(waiting, None)) is not None
                    ):
                        with signals_blocked(), _main_module_for(function, each):
                            running[pool.submit(_call, function, each)] = next(numbers)
                        started |= set(multiprocessing.active_children()) - others
                    if not running:
                        break
                    for future in wait(running, _OFTEN_S, FIRST_COMPLETED).done:
                        yield running.pop(future), future.result()
            except BrokenProcessPool:
                raise ClusterError(_why_broken(started)) from None
            finally:
                for future in running:
                    future.cancel()
                again = DeferredSignals()
                while wait(running, _OFTEN_S).not_done:
                    if again.came:
                        for process in set(multiprocessing.active_children()) - others:
                            process.terminate()
                pool.shutdown(wait=True)


@contextmanager
def _main_module_for(*needed: object) -> Iterator[None]:
    """Start processes in this block without the program's main module, unless pickles need it.

    A process that imports a main module without a guard would make all runs again.
    """
    main = sys.modules["__main__"]
    if b"__main__" not in pickle.dumps(needed):
        sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def _why_broken(processes: Iterable[BaseProcess]) -> str:
    """Return the message about processes of which at least one ended before its work."""
    for process in processes:
        process.join(_OFTEN_S)
    codes = {process.exitcode for process in processes}
    # A process that raises an exception while it starts prints it, and exits with 1.
    if 1 in codes and -signal.SIGKILL not in codes:
        return (
            "a process that makes runs could not start; its reason stands above. A program whose "
            'own functions are called must make runs below `if __name__ == "__main__":`'
        )
    return "a process that made runs was killed, as by a lack of memory; fewer --jobs need less"


_OFTEN_S: Final = 0.1
"""Interval between checks for signals."""


def _serve() -> None:
    """Begin a worker process: it ignores Ctrl-C, and SIGTERM ends its present call."""
    listen_when_interruptible()
    with signals_blocked():  # they are for the thread that makes runs
        Thread(target=_end_with_command, daemon=True).start()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})


def _end_with_command() -> None:
    """End this process when the command has ended, which may have been killed."""
    command = multiprocessing.parent_process()
    if command is not None:
        command.join()
        os._exit(1)


def _call(function: Callable[..., _Result], arguments: tuple[Any, ...]) -> _Result:
    with interruptible():
        return function(*arguments)


def _run(
    measure: Callable[[Dataset], _Result],
    scenario: dict[str, Any],
    engine: str,
    seed: int,
    folder: str | None,
) -> tuple[_Result, Mapping[str, bytes] | None]:
    """Make one run; return what is measured, and the dataset's files unless there is a folder."""
    made = engines.run(Scenario.model_validate(scenario), engine=engine, seed=seed, out=folder)
    if not made.manifest.complete:
        raise KeyboardInterrupt
    return measure(made), made.contents() if folder is None else None


@contextmanager
def signals_blocked() -> Iterator[None]:
    """Block signals in threads and processes that are started in this block."""
    # It would end the block, so it is there before.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
