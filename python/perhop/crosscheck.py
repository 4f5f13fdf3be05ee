"""Compare one scenario in several engines.

>>> import perhop
>>> from perhop.crosscheck import crosscheck
>>> found = crosscheck(perhop.load("qbss-1-70"), engines=["sim"])
>>> list(found.runs), found.compared
(['sim'], None)
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from perhop import analysis
from perhop.engines import ENGINES, run
from perhop.errors import UnsupportedError

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping, Sequence

    from perhop.analysis import Deviation, RunComparison
    from perhop.dataset import Dataset
    from perhop.engines import Progress
    from perhop.scenario import Scenario

__all__ = ["Crosscheck", "crosscheck"]


@dataclass(frozen=True, slots=True)
class Crosscheck:
    """The result of a comparison of engines.

    Attributes:
        runs: The dataset of each engine that can run the scenario.
        lacking: The reason why an engine cannot run it, by engine.
        compared: The comparison of the runs; None if there are fewer than two.
        deviations: The differences between the runs.
    """

    runs: dict[str, Dataset]
    lacking: dict[str, str]
    compared: RunComparison | None
    deviations: list[Deviation]

    @property
    def ok(self) -> bool:
        """True if at least two engines ran the scenario and all of them agree."""
        return self.compared is not None and all(each.ok for each in self.deviations)


def crosscheck(
    scenario: Scenario,
    *,
    engines: Sequence[str] = ENGINES,
    seed: int = 1,
    tolerances: Mapping[str, float] | None = None,
    out: str | os.PathLike[str] | None = None,
    watch: Callable[[str], Callable[[Progress], None] | None] | None = None,
) -> Crosscheck:
    """Run a scenario in each engine that can run it, one after the other, and compare.

    Args:
        scenario: The scenario.
        engines: The engines; the first that can run the scenario is the reference.
        seed: The seed of all random numbers.
        tolerances: The largest differences; see `perhop.analysis.agreement`.
        out: A folder in which each run is saved below its engine's name; None keeps runs in memory.
        watch: Called with an engine before it runs; the result is called with its progress.

    Raises:
        UsageError: Unknown engine.
        OutputError: `out` cannot be written.
    """
    runs: dict[str, Dataset] = {}
    lacking: dict[str, str] = {}
    for engine in dict.fromkeys(engines):
        try:
            runs[engine] = run(
                scenario,
                engine=engine,
                seed=seed,
                out=None if out is None else Path(out) / engine,
                watch=None if watch is None else watch(engine),
            )
        except UnsupportedError as error:
            lacking[engine] = str(error)
            continue
        if not runs[engine].manifest.complete:
            raise KeyboardInterrupt
    if len(runs) < 2:
        return Crosscheck(runs, lacking, None, [])
    compared = analysis.compare(list(runs.values()), list(runs))
    return Crosscheck(runs, lacking, compared, analysis.agreement(compared, tolerances))
