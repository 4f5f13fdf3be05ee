"""A run of the `kernel` engine.

A node is a network namespace, a router a Linux router: see `network`. Flows and pings are
those of the `emu` engine, real sockets in the hosts' namespaces.
"""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Final

from perhop.engines.captures import unsupported
from perhop.engines.emu import mtus
from perhop.engines.kernel.counts import Recorder
from perhop.engines.kernel.network import Network
from perhop.engines.traffic import Traffic
from perhop.scenario.resolve import steps

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from io import FileIO

    import polars as pl

    from perhop.engines.captures import Capture
    from perhop.scenario import Scenario
    from perhop.scenario.resolve import Step

__all__ = ["KernelRun", "start"]

_SLICE_S: Final = 0.1
_LEAD_NS: Final = 1_000_000
"""The time between the announcement of the scenario's start to all threads, and the start."""


def start(scenario: Scenario, seed: int) -> KernelRun:
    """Start a run.

    Raises:
        UnsupportedError: If Linux cannot express the scenario, or this machine cannot run it.
    """
    return KernelRun(scenario, seed)


class KernelRun:
    """A run in progress, in real time."""

    live: Final = None
    stalled_us: Final = None

    def __init__(self, scenario: Scenario, seed: int) -> None:
        self._scenario = scenario
        self._network = Network(scenario, seed)
        self._traffic = Traffic(scenario, seed, self._network.namespaces, mtus=mtus(scenario))
        self._recorder = Recorder(scenario, self._network)
        self._zero_ns = 0
        self._ends = threading.Event()
        self._lock = threading.Lock()
        self._failure: BaseException | None = None
        self._late_s = 0.0
        self._thread = threading.Thread(target=self._follow, name="timeline", daemon=True)

    @property
    def now_s(self) -> float:
        """The seconds of the scenario so far."""
        if not self._zero_ns:
            return 0.0
        passed = (time.monotonic_ns() - self._zero_ns) / 1e9
        stopped = self._traffic.stopped_s
        end: float = self._scenario.end_ps / 1e12
        return max(0.0, min(passed, end if stopped is None else stopped))

    @property
    def finished(self) -> bool:
        """True if the scenario has ended and all counters have been read."""
        if not self._zero_ns or self._ends.is_set() or self._thread.is_alive():
            return False
        return self._traffic.finished

    @property
    def counters(self) -> Mapping[str, int]:
        """The counters of traffic and wires; see docs/engines.md."""
        return {
            **self._traffic.counters,
            "real_time": int(self._network.real_time),
            "timeline_late_us": round(self._late_s * 1e6),
            "reading_us": round(self._recorder.longest_s * 1e6),
        }

    @property
    def missing(self) -> list[str]:
        """The interfaces at which commands of a script ran, and what is not counted there."""
        return [
            f"{name}: Linux ran {len(each.commands)} commands of the script at this interface, not "
            "perhop's own; classes of which they tell no class of Linux are not counted"
            for name, each in self._network.given.items()
        ]

    def capture(self, capture: Capture, file: FileIO) -> None:
        """Raise UnsupportedError: this engine has no captures of its own."""
        del file
        raise unsupported("kernel", capture.path)

    def advance(self) -> None:
        """Wait for about a tenth of a second."""
        if not self._zero_ns:
            # The first reading takes a while, and must end before the first packet.
            self._recorder.read(0.0, {})
            self._zero_ns = time.monotonic_ns() + _LEAD_NS
            self._traffic.start(self._zero_ns)
            self._thread.start()
        self._thread.join(_SLICE_S) if self._thread.is_alive() else time.sleep(_SLICE_S / 10)
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    def delivered(self) -> dict[str, int]:
        """Return the bytes that each flow has delivered so far."""
        return self._traffic.delivered()

    def tables(self) -> dict[str, pl.DataFrame]:
        """Return the dataset's tables up to the last mark."""
        with self._lock:
            counted = self._recorder.tables()
        return {**self._traffic.tables(), **counted}

    def stop(self) -> None:
        """End the run at the current time."""
        self._traffic.stop()
        self._ends.set()
        if self._thread.is_alive():
            self._thread.join()

    def _follow(self) -> None:
        """Read counters at marks, then apply the changes of the timeline."""
        try:
            self._timeline()
        except BaseException as error:  # `advance` raises it
            self._failure = error

    def _timeline(self) -> None:
        scenario = self._scenario
        directions = scenario.directions.items()
        rates = {name: link.medium(node).rate for name, (link, node) in directions}
        changes = self._changes(rates)
        for mark in sorted({*scenario.marks_ps, *changes}):
            if not self._wait(mark):
                with self._lock:
                    self._recorder.read(self.now_s, rates)
                return
            with self._lock:
                if mark:
                    self._recorder.read(mark / 1e12, rates)
                for change in changes.get(mark, ()):
                    change()

    def _changes(self, rates: dict[str, int]) -> dict[int, list[Callable[[], None]]]:
        """Return the changes to apply, in order, by instant in picoseconds."""
        found: dict[int, list[Callable[[], None]]] = {}

        def rewire(change: Step) -> None:
            self._network.rewire(change)
            rates.update((name, change.link.medium(node).rate) for name, node in change.rewired)

        for change in steps(self._scenario):
            if change.rewired:
                todo = found.setdefault(change.change.at, [])
                todo.append(lambda change=change: rewire(change))  # type: ignore[misc]
        for step in self._network.mapping.steps:
            todo = found.setdefault(step.at, [])
            apply = partial(self._network.apply, step)
            if step.interface is not None and step.tc[0].startswith("qdisc del"):
                end = partial(self._recorder.end, step.interface.direction)
                todo += [end, apply, self._recorder.replaced]
            else:
                todo.append(apply)
        return found

    def _wait(self, mark: int) -> bool:
        """Sleep until an instant of the scenario; return False if the run is stopped before."""
        due = self._zero_ns + mark // 1000
        while (left := due - time.monotonic_ns()) > 0:
            if self._ends.wait(left / 1e9):
                return False
        self._late_s = max(self._late_s, -left / 1e9)
        return True
