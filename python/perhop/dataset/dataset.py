"""The results of a run, in memory and on disk."""

import hashlib
import json
import math
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any, Self

import polars as pl

from perhop.dataset.folder import explained, present, refuse_foreign, sibling, write_contents
from perhop.dataset.manifest import MANIFEST, Manifest, Warned, read_stored
from perhop.dataset.schema import (
    ANSWERS,
    CAUSES,
    FORMAT,
    KINDS,
    LARGEST,
    LEAST_AND_MOST,
    MOST,
    NULLABLE,
    TABLES,
    empty,
)
from perhop.displays import show
from perhop.errors import OutputError, ScenarioError
from perhop.interruption import uninterruptible
from perhop.scenario import Scenario, to_mapping
from perhop.stores import ObjectPath, Place, place

__all__ = ["Dataset"]


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
            request's code point where it was answered, which an error quotes; null if a STAMP
            reflector does not tell it. `dscp_echoed` is the answer's. `ecn_arrived` and
            `ecn_echoed` are the same of the ECN field: 0 for Not-ECT, 1 for ECT(1), 2 for ECT(0),
            3 for CE (RFC 3168).
        queues: A row per directed link ("r1>r2"), class ("child" of "parent" is "parent/child",
            a plain FIFO is "all") and stretch: packets and bytes sent, dropped (in total, and by
            cause), marked with congestion experienced, conforming to and exceeding the policer
            (which drops or remarks the latter), and waiting at its end. A counter is null where the
            engine, or the real router, does not know it.
        links: A row per directed link and stretch: what left it, layer-2 overhead included, what
            random loss took, of how many a copy came as well, how many took longer and were
            overtaken, and the share of the time that it was busy. Null where the engine does not
            know it.
        stations: A row per directed link on a radio channel and stretch: `transmissions`, `frames`
            in them (of LTE, transport blocks, one each), of these `retransmissions`, frames that
            failed, and those that were given up (of LTE by HARQ; RLC sends them again); their
            bytes, retransmissions included; of Wi-Fi, `collisions` and `airtime_s` with
            acknowledgements; of LTE, `resource_blocks`; and `utilisation`, the share of the
            channel's time, or of its direction's resource blocks, that it used. Time in a collision
            counts once in `utilisation`, so that the sum of all links is that of the channel.
        tunnels: A row per tunnel, `entry` and stretch: packets and bytes that the entry put into
            outer packets, the bytes of those, packets that it did not, by cause, packets and bytes
            that the exit took out, and those that it dropped for their ECN field (RFC 6040).
        losses: A row per flow, directed link before which or on which packets of it were lost (null
            where no link was to take them), `cause` (see `CAUSES`), and stretch in which some
            were. Empty where the engine cannot tell flows apart, as in the kernel's queues; in
            `emu` all packets of a flow's sender count, in `sim` those with data.
        codepoints: A row per flow, host at which its packets arrived (data at its destination, what
            answers data at its source), stretch, and pair of code point and ECN field with which
            some of them did.
        rtts: A histogram of the samples of `rtt_s` of each flow, for each stretch between two edges
            of windows over which a statistic of a histogram is expected or published.
        srtts: One of those of `srtt_s`.
        delays: One of the one-way delays of each flow's data packets.
        displacements: Of UDP flows, the packets that arrived `early` and `late` `by` so many places
            (reorder density, RFC 5236; those in their place are late by 0).
        calls: A row per call (a stream of a `voice` flow) and stretch, with the packets whose time
            of playout was in it: `packets` that were due, those that were `played`, those that
            arrived too `late`, the `bursts` of packets one after the other that were not played,
            and `delay_s`, the sum of the delays from sending to playout of those played.
        completions: Each transfer, call, segment, startup and stall of applications. Those without
            `end_s` had not ended when the run did.

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
    stations: pl.DataFrame
    tunnels: pl.DataFrame
    losses: pl.DataFrame
    codepoints: pl.DataFrame
    rtts: pl.DataFrame
    srtts: pl.DataFrame
    delays: pl.DataFrame
    displacements: pl.DataFrame
    calls: pl.DataFrame
    completions: pl.DataFrame
    cache: dict[Any, Any] = field(default_factory=dict, init=False, compare=False)
    """Results of `perhop.analysis` so far."""

    def __post_init__(self) -> None:
        names = {
            "flow": self.scenario.flows,
            "ping": self.scenario.pings,
            "link": self.scenario.queueing,
            "channel": self.scenario.channels,
            "tunnel": self.scenario.tunnels,
            "node": self.scenario.nodes,
            "entry": self.scenario.nodes,
            "answer": ANSWERS,
            "cause": CAUSES,
            "kind": KINDS,
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

    def _repr_html_(self) -> str:
        """Return what notebooks show: the run, its warnings, and its tables with their rows."""
        tables = ((name, f"{getattr(self, name).height:,}") for name in TABLES)
        warnings = ((warned.path, warned.message) for warned in self.warnings)
        title = f"{self.scenario.title or self.scenario.name} ({repr(self).strip('<>')})"
        return show(title, (("place", "warning"), warnings), (("table", "rows"), tables))

    @property
    def warnings(self) -> tuple[Warned, ...]:
        """Warnings about the results, each with its place in the scenario."""
        return self.manifest.warnings

    @property
    def covered_s(self) -> float:
        """Seconds of the scenario that the tables cover: all of it, unless interrupted."""
        end: float = self.scenario.end_ps / 1e12
        return end if self.manifest.complete else min(end, self.manifest.duration_s)

    def write(self, folder: str | os.PathLike[str] | ObjectPath) -> Place:
        """Write the dataset into `folder`, completely or not at all.

        An earlier dataset in the folder is replaced, with its reports. `read` finds the earlier or
        the new one at every instant, also if the process is killed. In an object store, `read`
        finds none while it is replaced.

        Args:
            folder: The folder, or the URL of one in an object store, such as ``s3://bucket/run``.

        Returns:
            The folder, as an absolute path.

        Raises:
            OutputError: The folder cannot be written, or holds files of others. It is then
                unchanged.
        """
        return write_contents(place(folder), self.contents())

    @staticmethod
    def check_writable(folder: str | os.PathLike[str] | ObjectPath) -> None:
        """Check before a run that `write` can write to `folder`; leave no trace.

        Raises:
            OutputError: It cannot. An object store may still refuse to write.
        """
        where = place(folder)
        if isinstance(where, ObjectPath):
            with explained(f"cannot read {where}", "give another folder"):
                (where / MANIFEST).is_file()
            return
        target = where.resolve()
        with uninterruptible(), explained(f"cannot write {target}", "give another folder"):
            refuse_foreign(target)
            probe = sibling(target)
            made = [each for each in (probe, *probe.parents) if not each.exists()]
            try:
                probe.mkdir(parents=True)
            finally:
                for each in made:
                    with suppress(OSError):
                        each.rmdir()

    def contents(self) -> dict[str, bytes]:
        """Return the files of the dataset by name, the manifest last."""
        files, digests = {}, {}
        for name in TABLES:
            buffer = BytesIO()
            getattr(self, name).write_parquet(buffer, compression="zstd")
            files[f"{name}.parquet"] = buffer.getvalue()
            digests[name] = hashlib.sha256(buffer.getbuffer()).hexdigest()
        stored = {
            "format": FORMAT,
            **self.manifest.model_dump(),
            "scenario": to_mapping(self.scenario),
            "tables": digests,
        }
        text = json.dumps(stored, indent=2, ensure_ascii=False, allow_nan=False)
        return {**files, MANIFEST: f"{text}\n".encode()}

    @classmethod
    def read(cls, folder: str | os.PathLike[str] | ObjectPath) -> Self:
        """Read a dataset from `folder`, or the URL of one in an object store, complete or not.

        Raises:
            OutputError: The folder is not a dataset, is damaged, or has another format.
        """
        source = place(folder).resolve()
        with explained(f"cannot read {source}", "give the folder of a finished run"):
            if isinstance(source, Path):
                source = present(source)
            stored = read_stored(source)
            try:
                scenario = Scenario.model_validate(stored.scenario)
                fields = stored.model_dump(include=set(Manifest.model_fields))
                files = _files(source)
                tables = {name: _table(name, files(name), stored.tables) for name in TABLES}
                return cls(scenario, Manifest(**fields), **tables)
            except (ScenarioError, ValueError) as error:
                raise OutputError(f"{source} is damaged: {error}") from error


def _check(name: str, table: pl.DataFrame, names: Mapping[str, Any]) -> None:
    if table is empty(name):
        return
    schema = TABLES[name]
    _check_columns(name, table)
    if "end_s" in schema and not (table["start_s"] < table["end_s"]).all():
        raise ValueError(f"column end_s of table {name} has a value that does not exceed start_s")
    for lower, upper in LEAST_AND_MOST:
        if lower in schema and upper in schema and (table[lower] > table[upper]).any():
            raise ValueError(f"column {lower} of table {name} has a value above that of {upper}")
    for column, dtype in schema.items():
        values = table[column]
        if values.has_nulls() and column not in NULLABLE.get(name, ()):
            raise ValueError(f"column {column} of table {name} has nulls")
        if dtype.is_numeric():
            if not _finite_and_not_negative(values):
                raise ValueError(f"column {column} of table {name} has a negative or NaN value")
            most = MOST.get(column, LARGEST)
            # The sum as a float: one of integers would wrap around.
            if _greatest(values) > most or values.cast(pl.Float64).sum() > 2 * LARGEST:
                raise ValueError(f"column {column} of table {name} has a value above {most:g}")
        elif column in names and (unknown := {*values.unique()} - {*names[column], None}):
            raise ValueError(
                f"column {column} of table {name} has a {column} unknown to the scenario: "
                f"{min(unknown)[:80]}"
            )


def _check_columns(name: str, table: pl.DataFrame) -> None:
    schema = TABLES[name]
    for column, dtype in schema.items():
        if column not in table.schema:
            raise ValueError(f"table {name} lacks the column {column}")
        if table.schema[column] != dtype:
            has = str(table.schema[column])[:80]
            raise ValueError(f"column {column} of table {name} has type {has}; expected {dtype}")
    if table.columns != list(schema):
        more = [column[:80] for column in table.columns if column not in schema]
        wrong = f"has the unknown column {more[0]}" if more else "has its columns in another order"
        raise ValueError(f"table {name} {wrong}; expected {', '.join(schema)}")


def _greatest(values: pl.Series) -> float:
    greatest: Any = values.max()
    return 0.0 if greatest is None else float(greatest)


def _finite_and_not_negative(values: pl.Series) -> bool:
    """Return whether all numbers of a column are; nulls are not looked at.

    Comparing each number takes ten times as long.
    """
    least: Any = values.min()
    if least is None:
        return True
    # The least and the greatest number pass over NaN, which the sum does not.
    greatest: Any = values.max()
    return least >= 0 and math.isfinite(greatest) and not math.isnan(values.sum())


def _files(folder: Place) -> Callable[[str], bytes]:
    """Return a function that reads the file of a table; a store sends all at once."""
    if isinstance(folder, ObjectPath):
        contents = folder.read_all([f"{name}.parquet" for name in TABLES])
        return lambda name: contents[f"{name}.parquet"]

    def read(name: str) -> bytes:
        path = folder / f"{name}.parquet"
        if path.exists() and not path.is_file():  # a pipe would wait, and a device may have no end
            raise ValueError(f"{path.name} is not a file")
        with explained(f"cannot read {path}", "give the folder of a finished run"):
            return path.read_bytes()

    return read


def _table(name: str, content: bytes, digests: Mapping[str, str]) -> pl.DataFrame:
    # Damage by chance is seen here, before the Parquet reader has to cope with it.
    if hashlib.sha256(content).hexdigest() != digests.get(name):
        raise ValueError(f"{name}.parquet is not the file that the run wrote")
    try:
        return pl.read_parquet(BytesIO(content))
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        # A panic is no `Exception`: Polars takes it for a bug.
        raise ValueError(f"{name}.parquet is not readable: {str(error)[:200]}") from None
