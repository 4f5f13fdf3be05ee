"""Runs on demand: the latest of each variant, limited in time."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final

from perhop import engines
from perhop.engines.sim import SimRun
from perhop.errors import PerhopError, ScenarioError
from perhop.scenario import Scenario, parse
from perhop.studio.lines import lines
from perhop.studio.network import network
from perhop.studio.results import results

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from perhop.dataset import Dataset

__all__ = ["LIMIT_S", "Runs"]

LIMIT_S: Final = 60.0
"""The wall time after which a run is ended; its results up to then are shown."""

_AT_ONCE: Final = 4
"""The most runs at once. A run that is superseded ends with its slice, about a fiftieth of a second
later."""

_EVERY_S: Final = 0.2
"""The time between two reports of progress."""

Answer = dict[str, Any]
"""A line of the answer to the page."""


class _Superseded(Exception):  # noqa: N818
    """A later run of the same variant has begun, or the page has gone."""


class Runs:
    """The runs of a page: at most one of each variant is of interest, its latest.

    Args:
        filename: The name of the file that the page began with, in whose folder files are to which
            the scenario refers.
        limit_s: The wall time of a run.
    """

    def __init__(self, filename: str, limit_s: float = LIMIT_S) -> None:
        self._filename = filename
        self._limit_s = limit_s
        self._lock = threading.Lock()
        self._latest: dict[str, object] = {}
        self._stopped: set[object] = set()
        self._free = threading.BoundedSemaphore(_AT_ONCE)

    def stop(self, variant: str) -> None:
        """End the run of a variant early; its results up to now are its answer."""
        with self._lock:
            if variant in self._latest:
                self._stopped.add(self._latest[variant])

    def answer(
        self, variant: str, text: str, seed: int, tell: Callable[[Answer], None]
    ) -> Answer | None:
        """Run a scenario, and return what the page says of it; None if a later run has begun.

        Args:
            variant: The variant, of which earlier runs end.
            text: The text of the scenario.
            seed: The seed of all random numbers.
            tell: A function that gets the progress of a long run, several times a second, and the
                lines of its charts. Its OSError ends the run: the page has gone.
        """
        mine = object()
        with self._lock:
            self._latest[variant] = mine
        try:
            return self._answer(variant, text, seed, mine, tell)
        except (_Superseded, OSError):
            return None
        finally:
            with self._lock:
                self._stopped.discard(mine)
                if self._latest.get(variant) is mine:
                    del self._latest[variant]

    def dataset(self, text: str, seed: int) -> Dataset:
        """Run a scenario, for at most the limit.

        Raises:
            ScenarioError: The text is no scenario.
            PerhopError: The scenario cannot be run.
        """
        return self._run(self._parse(text), seed, self._deadline)

    def _answer(
        self, variant: str, text: str, seed: int, mine: object, tell: Callable[[Answer], None]
    ) -> Answer | None:
        """Return the answer to a text, after the progress of its run."""
        try:
            scenario = self._parse(text)
        except ScenarioError as error:
            return {"problems": [*_problems(error)], "more": error.more}
        ended: list[str] = []

        def watch(progress: engines.Progress, due: list[float]) -> None:
            with self._lock:
                if self._latest.get(variant) is not mine:
                    raise _Superseded
                if mine in self._stopped:
                    ended.append("stopped")
            if progress.wall_s > self._limit_s:
                ended.append(f"ended after {self._limit_s:g} s")
            if ended:
                raise KeyboardInterrupt  # the run ends, with its results up to now
            if progress.wall_s >= due[0]:
                due[0] = progress.wall_s + _EVERY_S
                tell({"now_s": progress.now_s, "end_s": progress.end_s, "wall_s": progress.wall_s})

        def draw(run: engines.Run) -> None:
            assert isinstance(run, SimRun)
            tell({"network": network(scenario), "lines": lines(scenario, run)})

        due = [_EVERY_S]
        try:
            dataset = self._run(scenario, seed, lambda progress: watch(progress, due), draw)
        except PerhopError as error:
            return {"network": network(scenario), "error": str(error)}
        return {"ended": ended[0] if ended else "", "result": results(dataset)}

    def _parse(self, text: str) -> Scenario:
        return parse(text, self._filename)

    def _run(
        self,
        scenario: Scenario,
        seed: int,
        watch: Callable[[engines.Progress], None],
        ended: Callable[[engines.Run], None] | None = None,
    ) -> Dataset:
        """Run a scenario when there are not too many others."""
        with self._free:
            return engines.run(scenario, seed=seed, watch=watch, ended=ended)

    def _deadline(self, progress: engines.Progress) -> None:
        if progress.wall_s > self._limit_s:
            raise KeyboardInterrupt


def _problems(error: ScenarioError) -> Iterator[Answer]:
    """Yield the problems of a scenario; columns count characters."""
    for problem in error.problems:
        said = f"{problem.message}; {problem.hint}" if problem.hint else problem.message
        yield {
            "line": problem.line,
            "column": problem.column,
            "path": problem.path,
            "message": said,
        }
