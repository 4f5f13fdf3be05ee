"""The `sim` engine: modelled hosts and virtual time, on perhop's own network.

The core takes the scenario as a `plan`; `tables` converts its results to a dataset's tables.
"""

from __future__ import annotations

import json
import time
from bisect import bisect_right
from typing import TYPE_CHECKING, Final

from perhop._core import Simulation
from perhop.engines.captures import capture_plan
from perhop.engines.plan import plan
from perhop.engines.tables import tables
from perhop.units import MILLISECOND

if TYPE_CHECKING:
    from collections.abc import Mapping
    from io import FileIO

    import polars as pl

    from perhop._core import Column
    from perhop.engines.captures import Capture
    from perhop.scenario import Scenario

__all__ = ["SimRun", "start"]

_SLICE_S: Final = 0.02
"""The wall time that a slice should take."""

_FIRST_SLICE_PS: Final = MILLISECOND
"""The simulated time of a slice while the speed of the simulation is unknown."""


def start(scenario: Scenario, seed: int, threads: int = 1) -> SimRun:
    """Start a simulation on at most `threads` threads."""
    return SimRun(scenario, seed, threads)


class SimRun:
    """A simulation in progress."""

    live: Final = None
    stalled_us: Final = None

    def __init__(self, scenario: Scenario, seed: int, threads: int = 1) -> None:
        self._scenario = scenario
        self._seed = seed
        self._core = Simulation(json.dumps(plan(scenario, seed)), threads)
        self.missing = _fewer(threads, self._core.threads, self._core.whole)
        self._changes_ps = [*scenario.changes_ps, scenario.end_ps]
        self._slice_ps = _FIRST_SLICE_PS

    def capture(self, capture: Capture, file: FileIO) -> None:
        """Write the packets at the capture's interfaces from now on to `file`, as pcapng."""
        self._core.capture(json.dumps(capture_plan(self._scenario, self._seed, capture)), file)

    @property
    def now_s(self) -> float:
        """The simulated seconds so far."""
        return self._core.now_ps / 1e12

    @property
    def finished(self) -> bool:
        """True if the scenario has ended."""
        return self._core.now_ps >= self._scenario.end_ps

    @property
    def counters(self) -> Mapping[str, int]:
        """The number of events, and of links that packets crossed."""
        return {"events": self._core.events, "packet_hops": self._core.packet_hops}

    def advance(self) -> None:
        """Simulate for about a fiftieth of a second of wall time."""
        began = time.perf_counter()
        now = self._core.now_ps
        change = self._changes_ps[bisect_right(self._changes_ps, now)]
        self._core.advance(min(now + self._slice_ps, change))
        if self._core.now_ps == change:
            # The speed before a change does not predict the speed after it.
            self._slice_ps = _FIRST_SLICE_PS
        else:
            # The wall time of this slice determines the length of the next.
            took = max(time.perf_counter() - began, 1e-6)
            self._slice_ps = max(1, int(self._slice_ps * min(_SLICE_S / took, 4.0)))

    def delivered(self) -> dict[str, int]:
        """Return the bytes that each flow has delivered so far."""
        return self._core.delivered()

    def stop(self) -> None:
        """End the simulation at the current time."""
        self._core.stop()

    def columns(self) -> dict[str, dict[str, Column]]:
        """Return the columns of the tables as the core has them: NaN and negatives are nulls."""
        return self._core.tables()

    def tables(self) -> dict[str, pl.DataFrame]:
        """Return the dataset's tables up to the last mark."""
        return tables(self.columns())


def _fewer(asked: int, threads: int, reason: str | None) -> tuple[str, ...]:
    """Return why a run has fewer threads than were asked for, if it has."""
    if threads == asked:
        return ()
    if threads > 1:
        return (f"the run had {threads} threads, as links with a delay make no more parts of it",)
    return (f"the run had one thread, as the network cannot be divided: {reason}",)
