"""Datagrams one by one, from a file or as text."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final

from pydantic import GetJsonSchemaHandler, StrictBool, ValidationInfo, model_validator

from perhop.files import read_file
from perhop.scenario.model.base import Model, with_short_form
from perhop.scenario.model.text import Text
from perhop.units import SECOND, format_duration, format_size, parse_duration, parse_size, quote

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core import CoreSchema

MAX_PACKETS: Final = 20_000
"""The most packets of a replay; they are a part of the scenario, and of every dataset of it."""

MAX_FILE: Final = 2**20
"""The largest file of packets, in bytes."""

LARGEST: Final = 65507
"""The largest payload of a datagram that IPv4 holds, in bytes."""

_PACKET = re.compile(r" *([0-9.]+ *[a-z]+) +([0-9.]+ *[A-Za-z]+) *", re.ASCII)


def _parse_packets(text: str) -> tuple[tuple[int, int], ...]:
    parts = text.split(";", MAX_PACKETS)
    if len(parts) > MAX_PACKETS:
        raise ValueError(f"has more than {MAX_PACKETS:,} packets, the most that are allowed")
    packets = []
    for part in parts:
        match = _PACKET.fullmatch(part)
        if match is None:
            raise ValueError(f"{quote(part.strip())} is not a packet such as `20 ms 160 B`")
        packets.append((parse_duration(match[1]), _sized(parse_size(match[2]))))
    return tuple(packets)


def _format_packets(packets: tuple[tuple[int, int], ...]) -> str:
    return "; ".join(f"{format_duration(gap)} {format_size(size)}" for gap, size in packets)


Packets = Annotated[
    tuple[tuple[int, int], ...],
    Text(
        _parse_packets,
        _format_packets,
        "packets such as `0 s 160 B; 20 ms 160 B`",
        {"type": "string", "examples": ["0 s 160 B; 20 ms 160 B"]},
    ),
]
"""The time before each packet in picoseconds, and its size in bytes."""


class Replay(Model):
    """Datagrams one by one, instead of anything about rates, sizes and bursts.

    Written ``calls.csv``, ``{file: calls.csv, repeat: true}`` or ``{packets: 20 ms 160 B}``. What a
    file holds becomes `packets`, so that a scenario that was loaded does not depend on it.
    """

    short_form: ClassVar[str] = "a file's name"

    file: str | None = None
    """A CSV file in the scenario's folder, or below. Its first line names the columns: ``gap_s``
    (before a packet) or ``time_s`` (since the flow's start), and ``size_bytes``."""

    packets: Packets
    """The time before each packet, and its size."""

    repeat: StrictBool = False
    """Whether the replay is repeated."""

    @model_validator(mode="before")
    @classmethod
    def _from_file(cls, value: object, info: ValidationInfo) -> object:
        if isinstance(value, str):
            value = {"file": value}
        if not isinstance(value, dict) or not isinstance(value.get("file"), str):
            return value
        if "packets" in value:
            raise ValueError("has both `file` and `packets`; expected one of the two")
        scenario = Path(getattr(info.context, "file", ""))
        packets = _read(value["file"], scenario.parent)
        rest = {key: part for key, part in value.items() if key != "file"}
        return {**rest, "packets": _format_packets(packets)}

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """A file's name, or a mapping with one or with packets."""
        whole = with_short_form(schema, handler, {"type": "string"})
        full: dict[str, Any] = whole["anyOf"][1]
        full.pop("required", None)
        full["oneOf"] = [{"required": ["file"]}, {"required": ["packets"]}]
        return whole


def _read(name: str, folder: Path) -> tuple[tuple[int, int], ...]:
    """The packets in a file; ValueError says where it is wrong."""
    shown = quote(name)
    if Path(name).is_absolute() or ".." in Path(name).parts:
        raise ValueError(
            f"{shown} is outside the scenario's folder; expected a file in it or below"
        )
    try:
        text = read_file(str(folder / name), MAX_FILE).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{shown} is not UTF-8; expected a CSV file") from None
    except ValueError as error:
        raise ValueError(f"{shown} {error}") from None
    return tuple(_packets(text, name))


def _packets(text: str, name: str) -> Iterator[tuple[int, int]]:
    """The packets that a CSV file says, one a line."""
    lines = ((number, line.strip()) for number, line in enumerate(text.split("\n"), 1))
    rows = ((number, line.split(",")) for number, line in lines if line and line[0] != "#")
    number, head = next(rows, (1, [""]))
    kind = _COLUMNS.get(",".join(column.strip() for column in head))
    if kind is None:
        raise _wrong(
            name, number, f"{quote(','.join(head))} is not a header line; expected {_HEADS}"
        )
    before = 0
    count = 0
    for number, row in rows:
        count += 1
        if count > MAX_PACKETS:
            raise _wrong(name, number, f"is one packet more than {MAX_PACKETS:,}, the most allowed")
        if len(row) != 2:
            raise _wrong(name, number, f"has {len(row)} columns; expected a time and a size")
        try:
            time, size = _seconds(row[0].strip()), _bytes(row[1].strip())
        except ValueError as error:
            raise _wrong(name, number, str(error)) from None
        if kind == "gap":
            yield time, size
            continue
        if time < before:
            raise _wrong(name, number, f"{quote(row[0].strip())} is before the time above it")
        yield time - before, size
        before = time
    if not count:
        raise _wrong(name, number, "no packet follows; expected one or more")


_COLUMNS = {"gap_s,size_bytes": "gap", "time_s,size_bytes": "time"}
_HEADS = " or ".join(map(quote, _COLUMNS))


def _wrong(name: str, line: int, message: str) -> ValueError:
    return ValueError(f"{quote(name)[1:-1]}:{line}: {message}")


def _seconds(text: str) -> int:
    """Seconds as picoseconds, exactly."""
    match = re.fullmatch(r"([0-9]{1,10})(?:\.([0-9]{0,30}))?", text, re.ASCII)
    if match is None or (match[2] or "")[12:].strip("0"):
        raise ValueError(f"{quote(text)} is not a number of seconds with up to 12 decimals")
    return int(match[1]) * SECOND + int((match[2] or "")[:12].ljust(12, "0"))


def _bytes(text: str) -> int:
    if re.fullmatch(r"[0-9]{1,9}", text, re.ASCII) is None:
        raise ValueError(f"{quote(text)} is not a number of bytes")
    return _sized(int(text))


def _sized(size: int) -> int:
    if not 1 <= size <= LARGEST:
        raise ValueError(f"{quote(format_size(size))} is out of range; expected 1 B to {LARGEST} B")
    return size
