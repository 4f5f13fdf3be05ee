"""Compare one scenario in several engines.

>>> import perhop
>>> from perhop.crosscheck import crosscheck
>>> found = crosscheck(perhop.load("qbss-1-70"), engines=["sim"])
>>> list(found.runs), found.compared
(['sim'], None)
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from perhop import analysis
from perhop.dataset import Dataset
from perhop.dataset.folder import write_contents
from perhop.engines import ENGINES, run
from perhop.errors import UnsupportedError
from perhop.scenario import Scenario, to_mapping
from perhop.stores import place

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping, Sequence

    from perhop.analysis import Deviation, RunComparison
    from perhop.engines import Progress
    from perhop.stores import ObjectPath, Place
    from perhop.workers import Pool

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
    out: str | os.PathLike[str] | ObjectPath | None = None,
    watch: Callable[[str], Callable[[Progress], None] | None] | None = None,
    cluster: Pool | None = None,
) -> Crosscheck:
    """Run a scenario in each engine that can run it, one after the other, and compare.

    Args:
        scenario: The scenario.
        engines: The engines; the first that can run the scenario is the reference.
        seed: The seed of all random numbers.
        tolerances: The largest differences; see `perhop.analysis.agreement`.
        out: A folder, or the URL of one in an object store, in which each run is saved below its
            engine's name; None keeps runs in memory.
        watch: Called with an engine before it runs; the result is called with its progress.
        cluster: Where runs are made instead, as by `perhop.cluster.connect`, without progress.
            Still one after the other: those with real hosts disturb others on their machine.

    Raises:
        UsageError: Unknown engine.
        OutputError: `out` cannot be written.
    """
    runs: dict[str, Dataset] = {}
    lacking: dict[str, str] = {}
    for engine in dict.fromkeys(engines):
        try:
            seen = None if watch is None else watch(engine)
            folder = None if out is None else place(out) / engine
            if cluster is None:
                there = None if folder is None else str(folder)
                runs[engine] = run(scenario, engine=engine, seed=seed, out=there, watch=seen)
            else:
                runs[engine] = _elsewhere(scenario, engine, seed, folder, cluster)
        except UnsupportedError as error:
            lacking[engine] = str(error)
            continue
        if not runs[engine].manifest.complete:
            raise KeyboardInterrupt
    if len(runs) < 2:
        return Crosscheck(runs, lacking, None, [])
    compared = analysis.compare(list(runs.values()), list(runs))
    return Crosscheck(runs, lacking, compared, analysis.agreement(compared, tolerances))


def _elsewhere(
    scenario: Scenario, engine: str, seed: int, folder: Place | None, cluster: Pool
) -> Dataset:
    """Make a run on a cluster, and save its dataset unless `folder` is None."""
    if folder is not None:
        Dataset.check_writable(folder)
    with closing(cluster.call(_run, [(to_mapping(scenario), engine, seed)])) as made:
        contents = next(made, (0, None))[1]
    if contents is None:
        raise KeyboardInterrupt
    with TemporaryDirectory() as own:
        return Dataset.read(write_contents(folder or Path(own, engine), contents))


def _run(scenario: dict[str, Any], engine: str, seed: int) -> dict[str, bytes]:
    return run(Scenario.model_validate(scenario), engine=engine, seed=seed).contents()
