"""Files of replays: packets as CSV."""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Final

from perhop.files import read_file
from perhop.scenario.model.replay import MAX_PACKETS, check_size
from perhop.scenario.reading.files import beside
from perhop.units import SECOND, quote

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MAX_FILE: Final = 2**20
"""Maximum size of a file of packets, in bytes."""


def read_packets(name: str, folder: Path) -> tuple[tuple[int, int], ...]:
    """Return the packets in a CSV file: the time before each in picoseconds, and its size.

    Args:
        name: The name of the file.
        folder: The folder of the scenario, in or below which the file must be.

    Raises:
        ValueError: The file is elsewhere, cannot be read, or is malformed, with its line.
    """
    shown = quote(name)
    path = beside(name, folder)
    try:
        text = read_file(str(path), MAX_FILE).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{shown} is not UTF-8; expected a CSV file") from None
    except ValueError as error:
        raise ValueError(f"{shown} {error}") from None
    return tuple(_packets(text, name))


def _packets(text: str, name: str) -> Iterator[tuple[int, int]]:
    """Yield the packets of a CSV file, one per line."""
    lines = ((number, line.strip()) for number, line in enumerate(text.split("\n"), 1))
    rows = ((number, line.split(",")) for number, line in lines if line and line[0] != "#")
    number, head = next(rows, (1, [""]))
    kind = _COLUMNS.get(",".join(column.strip() for column in head))
    if kind is None:
        raise wrong_line(
            name, number, f"{quote(','.join(head))} is not a header line; expected {_HEADS}"
        )
    before = 0
    count = 0
    for number, row in rows:
        count += 1
        if count > MAX_PACKETS:
            raise wrong_line(
                name, number, f"is one packet more than {MAX_PACKETS:,}, the most allowed"
            )
        if len(row) != 2:
            raise wrong_line(name, number, f"has {len(row)} columns; expected a time and a size")
        try:
            time, size = seconds(row[0].strip()), _bytes(row[1].strip())
        except ValueError as error:
            raise wrong_line(name, number, str(error)) from None
        if kind == "gap":
            yield time, size
            continue
        if time < before:
            raise wrong_line(name, number, f"{quote(row[0].strip())} is before the time above it")
        yield time - before, size
        before = time
    if not count:
        raise wrong_line(name, number, "no packet follows; expected one or more")


_COLUMNS = {"gap_s,size_bytes": "gap", "time_s,size_bytes": "time"}
_HEADS = " or ".join(map(quote, _COLUMNS))


def wrong_line(name: str, line: int, message: str) -> ValueError:
    """Return the error about a line of a file that a scenario names."""
    return ValueError(f"{quote(name)[1:-1]}:{line}: {message}")


def seconds(text: str) -> int:
    """Return seconds as picoseconds, exactly."""
    found = scaled(text, SECOND)
    if found is None or found >= _LONGEST:
        raise ValueError(f"{quote(text)} is not a number of seconds with up to 12 decimals")
    return found


_LONGEST = 10**10 * SECOND

_NUMBER = re.compile(r"\+?(?:[0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40})(?:[eE][+-]?[0-9]{1,2})?")
"""A number as programs write it: ``5``, ``0.5``, ``5e6`` or ``1.5E-3``."""


def scaled(text: str, scale: int) -> int | None:
    """Return a number that is not negative, as a multiple of 1 / `scale`; None if it is none."""
    if _NUMBER.fullmatch(text) is None:
        return None
    whole, rest = divmod(Fraction(Decimal(text)) * scale, 1)
    return None if rest else whole


def _bytes(text: str) -> int:
    if re.fullmatch(r"[0-9]{1,9}", text, re.ASCII) is None:
        raise ValueError(f"{quote(text)} is not a number of bytes")
    return check_size(int(text))
