"""Datasets of tests of iperf3 clients, from the records of `perhop-agent iperf3 --records`."""

from __future__ import annotations

import platform
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import polars as pl
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from perhop.dataset import TABLES, Dataset, Host, Manifest, Warned
from perhop.errors import OutputError
from perhop.files import read_file
from perhop.scenario import Scenario

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

__all__ = ["Record", "dataset", "read"]

_MAX_FILE: Final = 64 * 2**20
_MAX_RECORDS: Final = 500

_Count = Annotated[int, Field(ge=0)]
_Dscp = Annotated[int, Field(ge=0, le=63)]
_Ecn = Annotated[int, Field(ge=0, le=3)]
_Seconds = Annotated[float, Field(ge=0)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", strict=True, allow_inf_nan=False)


class _Counts(_Part):
    bytes: _Count
    packets: _Count
    lost: _Count | None
    reordered: _Count | None
    duplicates: _Count | None
    marked: _Count | None
    retransmits: _Count | None


class _Interval(_Counts):
    start_s: _Seconds
    end_s: _Seconds
    srtt_s: _Seconds | None
    cwnd: _Count | None
    jitter_s: _Seconds | None
    variation_s: Annotated[list[float], Field(min_length=3, max_length=3)] | None
    samples: _Count


class _Stream(_Part):
    id: int
    received: bool
    dscp_sent: _Dscp
    arrived: list[tuple[_Dscp, _Ecn, _Count]] | None
    delay_minimum_s: float | None
    intervals: list[_Interval]


class _Parameters(_Part):
    udp: bool = False
    bandwidth: _Count = 0
    TOS: Annotated[int, Field(ge=0, le=255)] = 0
    window: _Count = 0
    title: str = ""


class Record(_Part):
    """A server's record of one test; the keys are those of the file."""

    format: Literal[2]
    started_unix_ms: Annotated[int, Field(ge=0, lt=2**53)]
    client: str
    server: str
    parameters: _Parameters
    length: Annotated[int, Field(ge=1)]
    ended: str
    complete: bool
    duration_s: _Seconds
    same_clock: bool
    streams: list[_Stream]


def read(place: str | os.PathLike[str]) -> list[Record]:
    """Return the records in a folder, or the one in a file, in the order in which they started.

    Raises:
        OutputError: There are none, too many for one dataset, or one is damaged.
    """
    path = Path(place)
    files = sorted(path.glob("iperf3-*.json")) if path.is_dir() else [path]
    if not files:
        raise OutputError(
            f"{path} has no records of iperf3's tests; `perhop-agent iperf3 --records` writes them"
        )
    if len(files) > _MAX_RECORDS:
        raise OutputError(
            f"{path} has {len(files)} records; a dataset takes {_MAX_RECORDS}: move some elsewhere"
        )
    return sorted((_record(file) for file in files), key=lambda each: each.started_unix_ms)


def _record(file: Path) -> Record:
    try:
        return Record.model_validate_json(read_file(str(file), _MAX_FILE))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "the whole"
        raise OutputError(f"{file} is not a record: {where}: {first['msg']}") from error
    except (OSError, ValueError) as error:
        raise OutputError(f"{file} cannot be read: {error}") from error


def dataset(records: Sequence[Record]) -> Dataset:
    """Return the dataset of some tests: a scenario with the server, its clients and their flows.

    A test has one flow in each direction in which data went. The network between the hosts is
    unknown: a link stands for it. One-way delays are null where the clocks of both ends differ.
    """
    zero = min(record.started_unix_ms for record in records)
    clients: dict[str, str] = {}
    flows: dict[str, dict[str, Any]] = {}
    intervals: list[dict[str, Any]] = []
    codepoints: list[dict[str, Any]] = []
    warnings: list[Warned] = []
    end = 0.0
    for number, record in enumerate(records, 1):
        address = record.client.rpartition(":")[0]
        client = clients.setdefault(address, f"client_{len(clients) + 1}")
        start = (record.started_unix_ms - zero) / 1000
        end = max(end, start + record.duration_s)
        for received in (True, False):
            streams = [each for each in record.streams if each.received is received]
            if not streams:
                continue
            name = f"test_{number}_{'up' if received else 'down'}"
            flows[name] = _flow(record, streams, client if received else None, client, start)
            destination = "server" if received else client
            for place, stream in enumerate(streams):
                intervals += (
                    {**_interval(record, stream, each, start), "flow": name, "stream": place}
                    for each in stream.intervals
                )
            codepoints += _codepoints(name, destination, streams, start, record.duration_s)
            warnings += _warnings(name, record, received=received)
    named = "; ".join(f"{name} is {address}" for address, name in clients.items())
    scenario = Scenario.model_validate(
        {
            "perhop": 1,
            "name": "iperf3",
            "title": f"{len(records)} tests of iperf3 clients",
            "description": f"{named}\n\nThe network between them is unknown: links stand for it.",
            "nodes": {"server": "host", **dict.fromkeys(clients.values(), "host")},
            "links": [{"ends": [each, "server"], "rate": "100 Gbps"} for each in clients.values()],
            "flows": flows,
            "duration": f"{max(end, 0.001):.6f} s",
        }
    )
    tables = {name: pl.DataFrame(schema=schema) for name, schema in TABLES.items()}
    tables["intervals"] = pl.DataFrame(intervals, schema=TABLES["intervals"])
    tables["codepoints"] = pl.DataFrame(codepoints, schema=TABLES["codepoints"])
    manifest = Manifest(
        perhop=version("perhop"),
        engine="iperf3",
        seed=0,
        started=datetime.fromtimestamp(zero / 1000, UTC).isoformat(timespec="milliseconds"),
        wall_s=end,
        duration_s=end,
        complete=all(record.complete for record in records),
        host=Host(
            system=f"{platform.system()} {platform.release()}",
            machine=platform.machine(),
            python=platform.python_version(),
        ),
        counters={"tests": len(records)},
        warnings=tuple(warnings),
    )
    return Dataset(scenario, manifest, **tables)


def _flow(
    record: Record, streams: list[_Stream], source: str | None, client: str, start: float
) -> dict[str, Any]:
    """Return a flow of the scenario; from the server if `source` is None."""
    parameters = record.parameters
    flow: dict[str, Any] = {
        "from": source or "server",
        "to": "server" if source else client,
        "dscp": parameters.TOS >> 2,
        "start": f"{start:.3f} s",
        "stop": f"{start + max(record.duration_s, 1e-3):.6f} s",
        "streams": len(streams),
    }
    if parameters.udp:
        carried = sum(each.bytes for stream in streams for each in stream.intervals)
        mean = carried * 8 / len(streams) / max(record.duration_s, 1e-3)
        rate = parameters.bandwidth or round(mean)
        ecn = {1: {"ecn": "ect1"}, 2: {"ecn": "ect0"}}.get(parameters.TOS & 3, {})
        flow["udp"] = {"rate": f"{max(rate, 1)} bps", "size": f"{record.length} B", **ecn}
    return flow


def _interval(record: Record, stream: _Stream, each: _Interval, start: float) -> dict[str, Any]:
    """Return a row of `intervals`. Values that only the other end measures are null."""
    row: dict[str, Any] = dict.fromkeys(TABLES["intervals"])
    row |= {"start_s": start + each.start_s, "end_s": start + each.end_s, "srtt_samples": 0}
    row |= {"rtt_samples": 0, "owd_samples": 0}
    if stream.received:
        row |= {"bytes": each.bytes, "packets": each.packets, "lost": each.lost}
        row |= {"reordered": each.reordered, "duplicates": each.duplicates, "marked": each.marked}
        row["jitter_s"] = each.jitter_s
        if each.variation_s is not None and stream.delay_minimum_s is not None:
            delays = [max(stream.delay_minimum_s + above, 0.0) for above in each.variation_s]
            row |= {"owd_min_s": delays[0], "owd_s": delays[1], "owd_max_s": delays[2]}
            row["owd_samples"] = each.samples
    else:
        row |= {"retransmits": each.retransmits, "cwnd": each.cwnd}
        if each.srtt_s is not None:
            row |= {"srtt_s": each.srtt_s, "srtt_min_s": each.srtt_s, "srtt_max_s": each.srtt_s}
            row["srtt_samples"] = 1
        if not record.parameters.udp:
            row["bytes"] = each.bytes
    return row


def _codepoints(
    flow: str, node: str, streams: list[_Stream], start: float, duration: float
) -> list[dict[str, Any]]:
    counts: dict[tuple[int, int, int], int] = {}
    for stream in streams:
        for dscp, ecn, packets in stream.arrived or ():
            key = stream.dscp_sent, dscp, ecn
            counts[key] = counts.get(key, 0) + packets
    stretch = {"start_s": start, "end_s": start + max(duration, 1e-9)}
    return [
        {"flow": flow, "node": node, **stretch}
        | {"dscp_sent": sent, "dscp_arrived": arrived, "ecn_arrived": ecn, "packets": packets}
        for (sent, arrived, ecn), packets in sorted(counts.items())
    ]


def _warnings(flow: str, record: Record, *, received: bool) -> list[Warned]:
    path = f"flows.{flow}"
    found = []
    if not record.complete:
        message = f"the test did not end as its client intended: {record.ended}"
        found.append(Warned(path=path, message=message))
    if not received:
        message = "the client received the data: only the server's sent packets are known"
        found.append(Warned(path=path, message=message))
    elif record.parameters.udp and not record.same_clock:
        message = (
            "the clocks of both ends differ, so that one-way delays are unknown; their variation "
            "is in the record and in the jitter"
        )
        found.append(Warned(path=path, message=message))
    return found
