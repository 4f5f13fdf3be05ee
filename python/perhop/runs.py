"""The runs and sweeps in a folder."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from perhop import analysis
from perhop.dataset import Dataset
from perhop.errors import OutputError, PerhopError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["ListedRun", "listed_runs"]

_MANIFEST: Final = "manifest.json"
_SWEEP: Final = "sweep.json"


@dataclass(frozen=True, slots=True)
class ListedRun:
    """A run or a sweep in a folder.

    Attributes:
        folder: The folder, relative to the one that is listed.
        kind: What it is. A sweep has a folder and a scenario only.
        scenario: The name of the scenario.
        title: The title of the scenario.
        engine: The engine.
        seed: The seed.
        started: The instant of the start: ISO 8601 in UTC.
        complete: Whether the run reached its end.
        holds: Number of expectations that hold.
        fails: Number of expectations that fail.
        missed: Number of expectations that an interrupted run did not reach.
        page: The page of the report relative to the folder that is listed, if there is one.
        problem: What is wrong with the folder; nothing else is known then.
    """

    folder: str
    kind: Literal["run", "sweep", "damaged"] = "run"
    scenario: str = ""
    title: str = ""
    engine: str = ""
    seed: int | None = None
    started: str = ""
    complete: bool = True
    holds: int = 0
    fails: int = 0
    missed: int = 0
    page: str | None = None
    problem: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return the attributes as JSON."""
        return asdict(self)


def listed_runs(folder: Path) -> list[ListedRun]:
    """Return the runs and sweeps in a folder and in its folders, by the time of their start.

    Sweeps, of which the single runs are not listed, and damaged runs come last.

    Raises:
        OutputError: The folder cannot be read.
    """
    try:
        found = [_listed(folder, each) for each in _datasets(folder)]
    except OSError as error:
        reason = error.strerror or str(error)
        raise OutputError(f"cannot read {folder}: {reason}; give a folder of runs") from error
    kinds = ("run", "sweep", "damaged")
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
    return (folder / _MANIFEST).is_file() or (folder / _SWEEP).is_file()


def _listed(top: Path, folder: Path) -> ListedRun:
    name = folder.relative_to(top).as_posix()
    if (folder / _SWEEP).is_file():
        page = f"{name}/sweep.html" if (folder / "sweep.html").is_file() else None
        return ListedRun(name, "sweep", scenario=_swept(folder), page=page)
    try:
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


def _swept(folder: Path) -> str:
    """Return the name of the scenario of a sweep; nothing if its definition is damaged."""
    try:
        definition = json.loads((folder / _SWEEP).read_bytes())
    except (OSError, ValueError, RecursionError):
        return ""
    scenario = definition.get("scenario") if isinstance(definition, dict) else None
    return str(scenario.get("name", "")) if isinstance(scenario, dict) else ""
