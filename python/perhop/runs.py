"""The runs and sweeps in a folder."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal

import polars as pl

from perhop import analysis
from perhop.dataset import Dataset
from perhop.dataset.ensembles import ENSEMBLE
from perhop.errors import OutputError, PerhopError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["ListedRun", "listed_runs"]

_MANIFEST: Final = "manifest.json"
_SWEEP: Final = "sweep.json"
_POINTS: Final = "points"
_RESULTS: Final = "sweep.parquet"


@dataclass(frozen=True, slots=True)
class ListedRun:
    """A run or a sweep in a folder.

    Attributes:
        folder: The folder, relative to the one that is listed.
        kind: What it is.
        scenario: The name of the scenario.
        title: The title of the scenario.
        engine: The engine.
        seed: The seed; None for an ensemble or a sweep.
        seeds: Number of runs of an ensemble or a sweep.
        started: The instant of the start, or that of the first run: ISO 8601 in UTC.
        complete: Whether the run reached its end, or all runs of a sweep were made.
        holds: Number of expectations that hold; of a sweep, the runs in which all hold.
        fails: Number of expectations that fail; of a sweep, the runs in which one fails.
        missed: Number of expectations that an interrupted run did not reach, or that the runs of
            an ensemble leave undecided.
        page: The page of the report relative to the folder that is listed, if there is one.
        pages: Those of the single runs of a sweep or an ensemble.
        problem: What is wrong with the folder; nothing else is known then.
    """

    folder: str
    kind: Literal["run", "ensemble", "sweep", "damaged"] = "run"
    scenario: str = ""
    title: str = ""
    engine: str = ""
    seed: int | None = None
    seeds: int | None = None
    started: str = ""
    complete: bool = True
    holds: int = 0
    fails: int = 0
    missed: int = 0
    page: str | None = None
    pages: tuple[str, ...] = ()
    problem: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return the attributes as JSON."""
        return asdict(self)


def listed_runs(folder: Path) -> list[ListedRun]:
    """Return the runs and sweeps in a folder and in its folders, by the time of their start.

    Ensembles and sweeps, of which the single runs are not listed, and damaged runs come last.

    Raises:
        OutputError: The folder cannot be read.
    """
    try:
        found = [_listed(folder, each) for each in _datasets(folder)]
    except OSError as error:
        reason = error.strerror or str(error)
        raise OutputError(f"cannot read {folder}: {reason}; give a folder of runs") from error
    kinds = ("run", "ensemble", "sweep", "damaged")
    return sorted(found, key=lambda run: (kinds.index(run.kind), run.started, run.folder))


def _datasets(folder: Path) -> Iterator[Path]:
    """Yield the folders with a run or a sweep: those in a folder, and those in its others."""
    for each in sorted(folder.iterdir()):
        if not each.is_dir() or each.name.startswith("."):
            continue
        if _is_one(each):
            yield each
        else:
            yield from (inner for inner in sorted(each.iterdir()) if _is_one(inner))


def _is_one(folder: Path) -> bool:
    return any((folder / name).is_file() for name in (_MANIFEST, ENSEMBLE, _SWEEP))


def _listed(top: Path, folder: Path) -> ListedRun:
    name = folder.relative_to(top).as_posix()
    if (folder / _SWEEP).is_file():
        return _of_sweep(top, folder)
    try:
        if (folder / ENSEMBLE).is_file():
            return _of_ensemble(top, folder)
        dataset = Dataset.read(folder)
        verdicts = [verdict.ok for verdict in analysis.verdicts(dataset)]
    except PerhopError as error:
        return ListedRun(name, "damaged", problem=str(error))
    scenario, manifest = dataset.scenario, dataset.manifest
    return ListedRun(
        name,
        scenario=scenario.name,
        title=scenario.title or "",
        engine=manifest.engine,
        seed=manifest.seed,
        started=manifest.started,
        complete=manifest.complete,
        holds=verdicts.count(True),
        fails=verdicts.count(False),
        missed=verdicts.count(None),
        page=f"{name}/report.html" if (folder / "report.html").is_file() else None,
    )


def _of_ensemble(top: Path, folder: Path) -> ListedRun:
    """Return an ensemble, whose verdicts are in its description.

    Raises:
        OutputError: The description is damaged.
    """
    name = folder.relative_to(top).as_posix()
    try:
        stored = json.loads((folder / ENSEMBLE).read_bytes())
        states = [verdict["state"] for verdict in stored["expect"]]
        return ListedRun(
            name,
            "ensemble",
            scenario=str(stored["scenario"]),
            engine=str(stored["engine"]),
            seeds=int(stored["runs"]),
            started=_started(folder / "runs" / "1"),
            holds=states.count("holds"),
            fails=states.count("fails"),
            missed=len(states) - states.count("holds") - states.count("fails"),
            page=f"{name}/ensemble.html" if (folder / "ensemble.html").is_file() else None,
            pages=_pages(top, folder / "runs"),
        )
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise OutputError(f"{folder / ENSEMBLE} is damaged: {error}") from error


def _pages(top: Path, folder: Path) -> tuple[str, ...]:
    """Return the pages of numbered runs in a folder, in the order of their numbers."""
    found = [path for path in folder.glob("*/report.html") if path.parent.name.isdecimal()]
    ordered = sorted(found, key=lambda path: int(path.parent.name))
    return tuple(path.relative_to(top).as_posix() for path in ordered)


def _of_sweep(top: Path, folder: Path) -> ListedRun:
    """Return a sweep; of one whose definition is damaged, the folder and its pages only."""
    name = folder.relative_to(top).as_posix()
    page = f"{name}/sweep.html" if (folder / "sweep.html").is_file() else None
    bare = ListedRun(name, "sweep", page=page, pages=_pages(top, folder / _POINTS))
    try:
        definition = json.loads((folder / _SWEEP).read_bytes())
        scenario = definition["scenario"]
        known = replace(
            bare,
            scenario=str(scenario["name"]),
            title=str(scenario.get("title") or ""),
            engine=str(definition["engine"]),
            seeds=math.prod(map(len, definition["vary"].values())) * len(definition["seeds"]),
            started=_started(folder / _POINTS / "0"),
            complete=(folder / _RESULTS).is_file(),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return bare
    if not known.complete or not scenario.get("expect"):
        return known
    try:
        rows = pl.read_parquet(folder / _RESULTS).filter(pl.col("metric") == "failed_expectations")
        fails = rows.filter(pl.col("value") > 0).height
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException):
        return known
    return replace(known, holds=rows.height - fails, fails=fails)


def _started(folder: Path) -> str:
    """Return the instant of the start of a run; nothing if it cannot be read."""
    try:
        return str(json.loads((folder / _MANIFEST).read_bytes())["started"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return ""
