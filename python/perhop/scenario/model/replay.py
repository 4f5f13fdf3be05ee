"""Lists of datagrams, from a file or as text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Protocol, runtime_checkable

from pydantic import GetJsonSchemaHandler, StrictBool, ValidationInfo, model_validator

from perhop.scenario.model.base import Model, with_short_form
from perhop.scenario.model.text import Text
from perhop.units import format_duration, format_size, parse_duration, parse_size, quote

if TYPE_CHECKING:
    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core import CoreSchema

MAX_PACKETS: Final = 20_000
"""Maximum number of packets of a replay, which are part of the scenario and of its datasets."""

LARGEST: Final = 65507
"""Maximum payload of a datagram over IPv4, in bytes."""

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
        packets.append((parse_duration(match[1]), check_size(parse_size(match[2]))))
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


@runtime_checkable
class Files(Protocol):
    """The context of a validation, with the files beside the scenario's."""

    def packets(self, name: str) -> tuple[tuple[int, int], ...]:
        """Return the packets in a CSV file: the time before each in picoseconds, and its size.

        Raises:
            ValueError: The file cannot be read, or is malformed.
        """

    def trace(self, name: str) -> dict[str, str]:
        """Return the content of a file of a trace, as the keys of `Trace` for it.

        Raises:
            ValueError: The file cannot be read, or is malformed.
        """


class Replay(Model):
    """A list of datagrams, in place of a rate, a size and bursts.

    Written ``calls.csv``, ``{file: calls.csv, repeat: true}`` or ``{packets: 20 ms 160 B}``. The
    content of a file becomes `packets`, so that a loaded scenario does not depend on the file.
    """

    short_form: ClassVar[str] = "a file's name"

    file: str | None = None
    """A CSV file in the scenario's folder, or below. Its first line names the columns: ``gap_s``
    (before a packet) or ``time_s`` (since the flow's start), and ``size_bytes``."""

    packets: Packets
    """The time before each packet, and its size."""

    repeat: StrictBool = False
    """With `true`, the replay is repeated."""

    @model_validator(mode="before")
    @classmethod
    def _from_file(cls, value: object, info: ValidationInfo) -> object:
        if isinstance(value, str):
            value = {"file": value}
        if not isinstance(value, dict) or not isinstance(value.get("file"), str):
            return value
        if "packets" in value:
            raise ValueError("has both `file` and `packets`; expected one of the two")
        if not isinstance(info.context, Files):
            raise ValueError("names a file, but this scenario is in none; expected `packets`")
        packets = info.context.packets(value["file"])
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


def check_size(size: int) -> int:
    """Return the size of a datagram.

    Raises:
        ValueError: It is out of range.
    """
    if not 1 <= size <= LARGEST:
        raise ValueError(f"{quote(format_size(size))} is out of range; expected 1 B to {LARGEST} B")
    return size
