"""The manifest of a dataset: the circumstances of a run."""

import json
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from perhop.dataset.schema import FORMAT
from perhop.errors import OutputError
from perhop.hints import near_file
from perhop.stores import Place
from perhop.units import quote

__all__ = [
    "MANIFEST",
    "AgentRecord",
    "Host",
    "Live",
    "Manifest",
    "Stored",
    "Warned",
    "read_manifest",
    "read_stored",
]

MANIFEST: Final = "manifest.json"
"""The name of the file."""

_LIMIT: Final = 16 * 2**20


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class Host(_Record):
    """The machine that ran the engine."""

    system: str
    machine: str
    python: str


class Warned(_Record):
    """A warning about the results.

    `path` is its place in the scenario, such as `flows.voice.udp`; "" for the run as a whole.
    """

    path: str
    message: str

    def __str__(self) -> str:
        """Return the warning with its place."""
        return f"{self.path}: {self.message}" if self.path else self.message


class AgentRecord(_Record):
    """An agent of a live run.

    `address` is where it was reached, `program` its name and version, `kernel` that of its host,
    `clock` how its host's clock is synchronised, in words. All hosts started within
    `start_bound_us` of the agreed instant.
    """

    address: str
    program: str
    kernel: str | None
    clock: str | None
    start_bound_us: int | None


class Live(_Record):
    """The circumstances of a live run.

    `agents` are by node. `offset_bounds_s` has by flow the largest error bound of the offset
    between both ends' clocks, by which one-way delays were corrected.
    """

    agents: dict[str, AgentRecord]
    offset_bounds_s: dict[str, Annotated[float, Field(ge=0)]]


class Manifest(_Record):
    """The circumstances of a run: everything but the scenario and the tables.

    `started` is ISO 8601 in UTC; `wall_s` is the time the run took, `duration_s` the time that the
    tables cover (simulated or real). `complete` is false when the run ended before its scenario.
    `counters` holds the engine's own counts, such as `events` and `packet_hops`, and `warnings`
    what makes the results mean less than they seem to. `live` is there after live runs only.
    """

    perhop: str
    engine: str
    seed: Annotated[int, Field(ge=0, lt=2**64)]
    started: str
    wall_s: Annotated[float, Field(ge=0)]
    duration_s: Annotated[float, Field(ge=0)]
    complete: bool
    host: Host
    counters: dict[str, int]
    warnings: Annotated[tuple[Warned, ...], Field(strict=False)] = ()
    live: Live | None = None

    def model_post_init(self, _context: object, /) -> None:
        """Refuse a `started` that is not an ISO 8601 instant."""
        datetime.fromisoformat(self.started)


class Stored(Manifest):
    """The content of `manifest.json`: the manifest, the scenario, and the SHA-256 of each table."""

    format: int
    scenario: dict[str, Any]
    tables: dict[str, str]


def read_stored(folder: Place) -> Stored:
    """Return the manifest of a dataset's folder.

    Raises:
        OutputError: There is none, or it is damaged or of another format.
    """
    path = folder / MANIFEST
    content = read_manifest(path)
    if content["format"] != FORMAT:
        writer = content.get("perhop")
        by = f", written by perhop {quote(writer)[1:-1]}" if isinstance(writer, str) else ""
        raise OutputError(
            f"{folder} is a dataset of format {quote(content['format'])[1:-1]}{by}; this version "
            f"reads format {FORMAT}: run its scenario again, or read it with the version that "
            "wrote it"
        )
    try:
        return Stored.model_validate(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "the whole"
        raise OutputError(f"{path} is damaged: {where}: {first['msg']}") from error


def read_manifest(path: Place) -> dict[str, Any]:
    """Return the manifest of this format or another one.

    Raises:
        OutputError: There is none, or it is damaged.
    """
    folder = path.parent
    if not path.is_file():
        raise OutputError(_not_a_dataset(folder))
    if isinstance(path, Path) and path.stat().st_size > _LIMIT:
        raise OutputError(f"{path} is not a dataset's manifest: it is too large")
    try:
        content = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise OutputError(f"{path} is not a dataset's manifest: {error}") from error
    if not isinstance(content, dict) or "format" not in content:
        raise OutputError(f"{path} is not a dataset's manifest: it names no format")
    return content


def _not_a_dataset(folder: Place) -> str:
    """Return why something is no dataset, and what to do.

    Many people give the scenario, or its name, whose run makes a dataset.
    """
    if not isinstance(folder, Path):
        return f"{folder} is not a dataset: it has no {MANIFEST}"
    if folder.is_relative_to(here := Path.cwd()):
        folder = folder.relative_to(here)
    name = str(folder)
    if folder.is_dir():
        runs = sorted(folder.glob(f"*/{MANIFEST}"))
        has = f"but datasets such as {runs[-1].parent}" if runs else "expected the folder of a run"
        return f"{name} is not a dataset: it has no {MANIFEST}; {has}"
    if folder.is_file() and folder.suffix in _SCENARIOS:
        return f"{name} is a scenario; `perhop run {name}` runs it and names the dataset"
    if folder.exists():
        return f"{name} is a file; expected the folder of a run"
    hint = near_file(str(folder.parent / "runs" / folder.stem)) or near_file(name)
    return "; ".join(filter(None, [f"there is no folder {name}", hint or _NO_RUN]))


_SCENARIOS: Final = (".yaml", ".yml")
_NO_RUN: Final = "`perhop run SCENARIO` makes one"
