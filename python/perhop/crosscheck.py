"""One scenario in several engines: what they agree on, and where they do not.

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

    from perhop.analysis import Deviation, SideBySide
    from perhop.dataset import Dataset
    from perhop.engines import Progress
    from perhop.scenario import Scenario

__all__ = ["Crosscheck", "crosscheck"]


@dataclass(frozen=True, slots=True)
class Crosscheck:
    """The outcome.

    Attributes:
        runs: What each engine measured, as far as it can run the scenario.
        lacking: Why the others cannot, by engine.
        compared: The runs side by side; None if there are fewer than two.
        deviations: How far apart they are.
    """

    runs: dict[str, Dataset]
    lacking: dict[str, str]
    compared: SideBySide | None
    deviations: list[Deviation]

    @property
    def ok(self) -> bool:
        """Whether two engines at least ran it, and all that did agree."""
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
    """Run a scenario in each engine that can, one after the other, and compare.

    Args:
        scenario: What to run.
        engines: Which; the first that can run it is what others are compared with.
        seed: The seed of all random numbers.
        tolerances: How far apart they may be; see `perhop.analysis.agreement`.
        out: A folder in which each run is saved in a folder called as its engine; none to keep
            them in memory.
        watch: Called with an engine before it runs; what it returns is called with its progress.

    Raises:
        UsageError: If there is no such engine.
        OutputError: If `out` cannot be written.
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
