"""The results of a run: tidy tables, the scenario, and a manifest.

On disk a dataset is a folder of Parquet tables and a `manifest.json`. Times are seconds since the
start of the run, sizes are bytes; every column is always present.
"""

import ctypes
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from glob import escape
from io import BytesIO
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self
from uuid import uuid4

import polars as pl
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from perhop.errors import OutputError, ScenarioError
from perhop.interruption import uninterruptible
from perhop.scenario import Scenario, to_mapping
from perhop.units import quote

__all__ = ["ANSWERS", "CAUSES", "FORMAT", "TABLES", "Dataset", "Host", "Manifest", "Warned"]

FORMAT: Final = 5
"""The number of the format: of the manifest's keys and of `TABLES`. It counts up when they change,
so that a dataset of another version of perhop is recognised as that, and is not called damaged."""

_COUNTS: Final = dict.fromkeys(
    (
        "sent_packets",
        "sent_bytes",
        "dropped_packets",
        "dropped_limit",
        "dropped_policer",
        "dropped_early",
        "marked_packets",
        "remarked_packets",
        "conformed_packets",
        "conformed_bytes",
        "exceeded_packets",
        "exceeded_bytes",
        "violated_packets",
        "violated_bytes",
        "backlog_packets",
        "backlog_bytes",
    ),
    pl.Int64,
)

_BINS: Final = pl.Schema(
    {"flow": pl.String, "low_s": pl.Float64, "high_s": pl.Float64, "samples": pl.Int64}
)

TABLES: Final[Mapping[str, pl.Schema]] = {
    "intervals": pl.Schema(
        {
            "flow": pl.String,
            "stream": pl.Int32,
            "start_s": pl.Float64,
            "end_s": pl.Float64,
            "bytes": pl.Int64,
            "packets": pl.Int64,
            "lost": pl.Int64,
            "reordered": pl.Int64,
            "reordered_by_3": pl.Int64,
            "extent": pl.Float64,
            "extent_max": pl.Int64,
            "duplicates": pl.Int64,
            "marked": pl.Int64,
            "echoed": pl.Int64,
            "retransmits": pl.Int64,
            "acks": pl.Int64,
            "sacks": pl.Int64,
            "rtt_s": pl.Float64,
            "rtt_min_s": pl.Float64,
            "rtt_max_s": pl.Float64,
            "rtt_samples": pl.Int64,
            "srtt_s": pl.Float64,
            "srtt_min_s": pl.Float64,
            "srtt_max_s": pl.Float64,
            "srtt_samples": pl.Int64,
            "owd_s": pl.Float64,
            "owd_min_s": pl.Float64,
            "owd_max_s": pl.Float64,
            "owd_samples": pl.Int64,
            "jitter_s": pl.Float64,
            "cwnd": pl.Int64,
            "completion_s": pl.Float64,
        }
    ),
    "pings": pl.Schema(
        {
            "ping": pl.String,
            "sequence": pl.Int64,
            "ttl": pl.Int32,
            "sent_s": pl.Float64,
            "rtt_s": pl.Float64,
            "node": pl.String,
            "answer": pl.String,
            "dscp_sent": pl.Int32,
            "dscp_arrived": pl.Int32,
            "dscp_echoed": pl.Int32,
        }
    ),
    "queues": pl.Schema(
        {
            "link": pl.String,
            "class": pl.String,
            "start_s": pl.Float64,
            "end_s": pl.Float64,
            **_COUNTS,
        }
    ),
    "links": pl.Schema(
        {
            "link": pl.String,
            "start_s": pl.Float64,
            "end_s": pl.Float64,
            "sent_packets": pl.Int64,
            "sent_bytes": pl.Int64,
            "lost_packets": pl.Int64,
            "duplicated_packets": pl.Int64,
            "delayed_packets": pl.Int64,
            "utilisation": pl.Float64,
        }
    ),
    "losses": pl.Schema(
        {
            "flow": pl.String,
            "link": pl.String,
            "cause": pl.String,
            "start_s": pl.Float64,
            "end_s": pl.Float64,
            "packets": pl.Int64,
        }
    ),
    "codepoints": pl.Schema(
        {
            "flow": pl.String,
            "node": pl.String,
            "start_s": pl.Float64,
            "end_s": pl.Float64,
            "dscp_sent": pl.Int32,
            "dscp_arrived": pl.Int32,
            "packets": pl.Int64,
        }
    ),
    "rtts": _BINS,
    "srtts": _BINS,
    "delays": pl.Schema(
        {
            "flow": pl.String,
            "start_s": pl.Float64,
            "end_s": pl.Float64,
            "low_s": pl.Float64,
            "high_s": pl.Float64,
            "samples": pl.Int64,
        }
    ),
    "displacements": pl.Schema(
        {"flow": pl.String, "by": pl.Int64, "early": pl.Int64, "late": pl.Int64}
    ),
}
"""The columns of each table, in order."""

_NULLABLE: Final = {
    "intervals": {
        "bytes",
        "packets",
        "lost",
        "reordered",
        "marked",
        "echoed",
        "retransmits",
        "acks",
        "reordered_by_3",
        "extent",
        "extent_max",
        "duplicates",
        "rtt_s",
        "rtt_min_s",
        "rtt_max_s",
        "srtt_s",
        "srtt_min_s",
        "srtt_max_s",
        "owd_s",
        "owd_min_s",
        "owd_max_s",
        "jitter_s",
        "cwnd",
        "completion_s",
        "sacks",
    },
    "losses": {"link"},
    "pings": {"rtt_s", "node", "answer", "dscp_arrived", "dscp_echoed"},
}

CAUSES: Final = (
    "full queue",
    "policer",
    "early drop",
    "wire",
    "no route",
    "TTL expired",
    "too long",
)
"""Causes of loss: before a link, on a link, or without a node that takes the packet."""

ANSWERS: Final = (
    "echo reply",
    "time exceeded",
    "net unreachable",
    "port unreachable",
    "packet too big",
)
"""Kinds of answers to a ping's request."""

_MANIFEST: Final = "manifest.json"
_MANIFEST_LIMIT: Final = 16 * 2**20

_OLD: Final = ".old"

# The kernel's AT_FDCWD, and the flag of renameat2(2).
_HERE: Final = -100
_RENAME_EXCHANGE: Final = 2

# Files that perhop itself puts into a dataset's folder, and may therefore replace.
_OWN_SUFFIXES: Final = {".parquet", ".json", ".html", ".png", ".svg"}


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


class _Stored(Manifest):
    """The content of `manifest.json`: the manifest, the scenario, and the SHA-256 of each table."""

    format: Literal[5]
    scenario: dict[str, Any]
    tables: dict[str, str]


@dataclass(frozen=True, slots=True, repr=False)
class Dataset:
    """The outcome of one run, the same for every engine.

    Attributes:
        scenario: The scenario as run, overrides included.
        manifest: Engine, seed, host and times.
        intervals: A row per flow, stream and stretch between two marks of the scenario: `bytes`
            delivered in order to the receiving application (goodput), data `packets` received,
            `lost`, `reordered`, `retransmits`; acknowledgements that TCP's receiver sent (`acks`)
            and those of them that are selective (`sacks`; null where an engine cannot tell);
            of UDP packets, counted once, those that came after three later ones at least
            (`reordered_by_3`), the mean and the greatest `extent` of
            reordering (RFC 4737), further copies (`duplicates`) and the jitter (RFC 3550) at the
            stretch's end; data packets that arrived `marked` with congestion experienced, and those
            that acknowledgements with an echo of a mark covered (`echoed`: classic ECN echoes from
            a mark until the sender has answered, a round trip's packets, and AccECN counts);
            mean, least and greatest `rtt_s` that segments measured of the round-trip time in
            `rtt_samples` (in `sim`; none where Linux is the sender, which does not tell them);
            `srtt_s`, the sender's smoothed round-trip time (RFC 6298), read every 10 ms while
            acknowledgements come; `owd_s`, the one-way delay of its data; the congestion window
            `cwnd` in bytes at the stretch's end; `completion_s`, how long after its start the
            stream's whole volume had arrived, where that was in this stretch. A counter is null
            where the host that counts it did not report, or lacks the rights to look.
        pings: A row per request; the `node` that answered it and how (see `ANSWERS`), null if none
            did; `rtt_s`, null too where a router had no route. `dscp_arrived` is the
            request's code point where it was answered, which an error quotes; `dscp_echoed` the
            answer's.
        queues: A row per directed link ("r1>r2"), class ("child" of "parent" is "parent/child",
            a plain FIFO is "all") and stretch: packets and bytes sent, dropped (in total, and by
            cause), marked with congestion experienced, conforming to and exceeding the policer
            (which drops or remarks the latter), and waiting at its end.
        links: A row per directed link and stretch: what left it, layer-2 overhead included, what
            random loss took, of how many a copy came as well, how many took longer and were
            overtaken, and the share of the time that it was busy.
        losses: A row per flow, directed link before which or on which packets of it were lost (null
            where no link was to take them), `cause` (see `CAUSES`), and stretch in which some
            were. Empty where the engine cannot tell flows apart, as in the kernel's queues; in
            `emu` all packets of a flow's sender count, in `sim` those with data.
        codepoints: A row per flow, host at which its packets arrived (data at its destination, what
            answers data at its source), stretch, and code point with which some of them did.
        rtts: A histogram of the samples of `rtt_s` of each flow over the run.
        srtts: One of those of `srtt_s`.
        delays: A histogram of how long each flow's data packets were under way, for each stretch
            between two edges of windows over which that is expected or published.
        displacements: Of UDP flows, the packets that arrived `early` and `late` `by` so many places
            (reorder density, RFC 5236; those in their place are late by 0).

    Raises:
        ValueError: If a table does not have exactly its columns, holds a null, a NaN or a negative
            number where none may be, or names a flow, ping or link that the scenario lacks.
    """

    scenario: Scenario
    manifest: Manifest
    intervals: pl.DataFrame
    pings: pl.DataFrame
    queues: pl.DataFrame
    links: pl.DataFrame
    losses: pl.DataFrame
    codepoints: pl.DataFrame
    rtts: pl.DataFrame
    srtts: pl.DataFrame
    delays: pl.DataFrame
    displacements: pl.DataFrame
    cache: dict[Any, Any] = field(default_factory=dict, init=False, compare=False)
    """Results of `perhop.analysis` so far."""

    def __post_init__(self) -> None:
        names = {
            "flow": self.scenario.flows,
            "ping": self.scenario.pings,
            "link": self.scenario.directions,
            "node": self.scenario.nodes,
            "answer": ANSWERS,
            "cause": CAUSES,
        }
        for name in TABLES:
            _check(name, getattr(self, name), names)

    def __repr__(self) -> str:
        """Return ``<Dataset of qbss-1-70: sim, seed 1, 150 s>``."""
        manifest = self.manifest
        cut = "" if manifest.complete else f", cut off at {manifest.duration_s:g} s"
        end = f"{self.scenario.end_ps / 1e12:g} s"
        made = f"{manifest.engine}, seed {manifest.seed}"
        return f"<Dataset of {self.scenario.name}: {made}, {end}{cut}>"

    @property
    def warnings(self) -> tuple[Warned, ...]:
        """Warnings about the results, each with its place in the scenario."""
        return self.manifest.warnings

    @property
    def covered_s(self) -> float:
        """Seconds of the scenario that the tables cover: all of it, unless interrupted."""
        end: float = self.scenario.end_ps / 1e12
        return end if self.manifest.complete else min(end, self.manifest.duration_s)

    def write(self, folder: str | os.PathLike[str]) -> Path:
        """Write the dataset into `folder`, completely or not at all.

        An earlier dataset in the folder is replaced, with its reports. `read` finds the earlier or
        the new one at every instant, also if the process is killed.

        Returns:
            The folder, as an absolute path.

        Raises:
            OutputError: The folder cannot be written, or holds files of others. It is then
                unchanged.
        """
        target = Path(folder).resolve()
        with uninterruptible(), _explained(f"cannot write {target}", "give another folder"):
            _refuse_foreign(target)
            target.parent.mkdir(parents=True, exist_ok=True)
            fresh = _sibling(target)
            try:
                fresh.mkdir()
                self._fill(fresh)
                _swap(fresh, target)
            finally:
                shutil.rmtree(fresh, ignore_errors=True)
        return target

    @staticmethod
    def check_writable(folder: str | os.PathLike[str]) -> None:
        """Check before a run that `write` can write to `folder`; leave no trace.

        Raises:
            OutputError: It cannot.
        """
        target = Path(folder).resolve()
        with uninterruptible(), _explained(f"cannot write {target}", "give another folder"):
            _refuse_foreign(target)
            probe = _sibling(target)
            made = [each for each in (probe, *probe.parents) if not each.exists()]
            try:
                probe.mkdir(parents=True)
            finally:
                for each in made:
                    with suppress(OSError):
                        each.rmdir()

    def _fill(self, folder: Path) -> None:
        digests = {}
        for name in TABLES:
            buffer = BytesIO()
            getattr(self, name).write_parquet(buffer, compression="zstd")
            digests[name] = hashlib.sha256(buffer.getbuffer()).hexdigest()
            (folder / f"{name}.parquet").write_bytes(buffer.getbuffer())
        stored = {
            "format": FORMAT,
            **self.manifest.model_dump(),
            "scenario": to_mapping(self.scenario),
            "tables": digests,
        }
        text = json.dumps(stored, indent=2, ensure_ascii=False, allow_nan=False)
        (folder / _MANIFEST).write_text(text + "\n", encoding="utf-8")

    @classmethod
    def read(cls, folder: str | os.PathLike[str]) -> Self:
        """Read a dataset from `folder`, complete or not.

        Raises:
            OutputError: The folder is not a dataset, is damaged, or has another format.
        """
        source = Path(folder).resolve()
        with _explained(f"cannot read {source}", "give the folder of a finished run"):
            source = _present(source)
            stored = _stored(source)
            try:
                scenario = Scenario.model_validate(stored.scenario)
                fields = stored.model_dump(include=set(Manifest.model_fields))
                tables = {name: _table(source, name, stored.tables) for name in TABLES}
                return cls(scenario, Manifest(**fields), **tables)
            except (ScenarioError, ValueError, pl.exceptions.PolarsError) as error:
                raise OutputError(f"{source} is damaged: {error}") from error


def _check(name: str, table: pl.DataFrame, names: Mapping[str, Any]) -> None:
    schema = TABLES[name]
    if table.schema != schema:
        raise ValueError(f"table {name} has columns {dict(table.schema)}; expected {dict(schema)}")
    if "end_s" in schema and not (table["start_s"] < table["end_s"]).all():
        raise ValueError(f"table {name} has a stretch that ends no later than it starts")
    for column, dtype in schema.items():
        values = table[column]
        if values.has_nulls() and column not in _NULLABLE.get(name, ()):
            raise ValueError(f"column {column} of table {name} has nulls")
        if dtype.is_numeric():
            present = values.drop_nulls()
            if not ((present >= 0) & present.cast(pl.Float64).is_finite()).all():
                raise ValueError(f"column {column} of table {name} has a negative or NaN value")
        elif column in names and (unknown := {*values.drop_nulls().unique()} - {*names[column]}):
            raise ValueError(f"table {name} has a {column} unknown to the scenario: {min(unknown)}")


def _stored(folder: Path) -> _Stored:
    """Return the manifest of a dataset's folder."""
    path = folder / _MANIFEST
    content = _manifest(path)
    if content["format"] != FORMAT:
        writer = content.get("perhop")
        by = f", written by perhop {quote(writer)[1:-1]}" if isinstance(writer, str) else ""
        raise OutputError(
            f"{folder} is a dataset of format {quote(content['format'])[1:-1]}{by}; this version "
            f"reads format {FORMAT}: run its scenario again, or read it with the version that "
            "wrote it"
        )
    try:
        return _Stored.model_validate(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "the whole"
        raise OutputError(f"{path} is damaged: {where}: {first['msg']}") from error


def _manifest(path: Path) -> dict[str, Any]:
    """Return the manifest of this format or another one."""
    folder = path.parent
    if not path.is_file():
        raise OutputError(f"{folder} is not a dataset: it has no {_MANIFEST}")
    if path.stat().st_size > _MANIFEST_LIMIT:
        raise OutputError(f"{path} is not a dataset's manifest: it is too large")
    try:
        content = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise OutputError(f"{path} is not a dataset's manifest: {error}") from error
    if not isinstance(content, dict) or "format" not in content:
        raise OutputError(f"{path} is not a dataset's manifest: it names no format")
    return content


def _table(folder: Path, name: str, digests: Mapping[str, str]) -> pl.DataFrame:
    path = folder / f"{name}.parquet"
    if path.exists() and not path.is_file():  # a pipe would wait, and a device may have no end
        raise ValueError(f"{path.name} is not a file")
    content = path.read_bytes()
    # The Parquet reader may abort the process on damaged bytes, so it sees intact ones only.
    if hashlib.sha256(content).hexdigest() != digests.get(name):
        raise ValueError(f"{name}.parquet is not the file that the run wrote")
    return pl.read_parquet(BytesIO(content))


def _refuse_foreign(target: Path) -> None:
    """Raise OutputError if `target` holds files that are not perhop's."""
    if not target.exists():
        return
    if not target.is_dir():
        raise OutputError(f"{target} exists and is not a folder; give another folder")
    entries = sorted(target.iterdir())
    if not entries:
        return
    _manifest(target / _MANIFEST)  # of any format
    for entry in entries:
        if entry.suffix not in _OWN_SUFFIXES or not entry.is_file():
            raise OutputError(
                f"{target} also holds {entry.name}, which is not perhop's; give another folder"
            )


def _swap(fresh: Path, target: Path) -> None:
    """Put the folder `fresh` where `target` is; `read` finds one of them at every instant."""
    if not target.exists():
        fresh.rename(target)
    elif not _exchange(fresh, target):
        old = target.with_name(f".{target.name}.{uuid4().hex[:8]}{_OLD}")
        target.rename(old)
        try:
            fresh.rename(target)
        except BaseException:
            old.rename(target)
            raise
    for old in _set_aside(target):
        shutil.rmtree(old, ignore_errors=True)


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two folders in one step, by renameat2(2); False if the system cannot."""
    renameat2 = getattr(ctypes.CDLL(None), "renameat2", None)
    paths = os.fsencode(one), os.fsencode(other)
    return renameat2 is not None and not renameat2(
        _HERE, paths[0], _HERE, paths[1], _RENAME_EXCHANGE
    )


def _set_aside(target: Path) -> list[Path]:
    """Return the folders to which datasets in `target` were moved to be replaced."""
    return [*target.parent.glob(f".{escape(target.name)}.????????{_OLD}")]


def _present(folder: Path) -> Path:
    """Return where the dataset of a folder is, also when its replacement was cut short."""
    return folder if folder.exists() else next(iter(_set_aside(folder)), folder)


def _sibling(target: Path) -> Path:
    return target.with_name(f".{target.name}.{uuid4().hex[:8]}")


@contextmanager
def _explained(failure: str, advice: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise OutputError(f"{failure}: {reason}; {advice}") from error
