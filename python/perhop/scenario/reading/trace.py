"""Files of traces: CSV, and the format of mahimahi."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from perhop.files import read_file
from perhop.scenario.model.trace import (
    MAX_INSTANTS,
    MAX_STEPS,
    Step,
    check_opportunities,
    check_steps,
    format_opportunities,
    format_steps,
)
from perhop.scenario.reading.files import beside
from perhop.scenario.reading.replay import scaled, seconds, wrong_line
from perhop.units import WHOLE, quote

if TYPE_CHECKING:
    from pathlib import Path

MAX_FILE: Final = 32 * 2**20
"""Maximum size of a file of a trace, in bytes."""

_FASTEST: Final = 10**15

_REQUIRED: Final = ("time_s", "rate_bps")
_OPTIONAL: Final = ("delay_s", "jitter_s", "loss")
_HEAD: Final = "time_s,rate_bps[,delay_s][,jitter_s][,loss]"


def read_trace(name: str, folder: Path) -> dict[str, str]:
    """Return the content of a file of a trace, as keys of `Trace`: `steps` or `opportunities`.

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
        raise ValueError(f"{shown} is not UTF-8; expected a CSV file, or one of mahimahi") from None
    except ValueError as error:
        raise ValueError(f"{shown} {error}") from None
    lines = text.split("\n")
    first = next((line for line in map(str.strip, lines) if line and line[0] != "#"), "")
    try:
        if re.fullmatch("[0-9]+", first, re.ASCII):
            return {"opportunities": format_opportunities(tuple(_opportunities(lines, name)))}
        return {"steps": format_steps(tuple(_steps(lines, name)))}
    except _FileError as error:
        raise ValueError(f"{shown} {error}") from None


class _FileError(Exception):
    """An error of a whole file."""


def _opportunities(lines: list[str], name: str) -> list[tuple[int, int]]:
    """Return the instants in milliseconds, and the number of opportunities at each."""
    found: list[tuple[int, int]] = []
    for number, line in enumerate(map(str.strip, lines), 1):
        if not line:
            continue
        if re.fullmatch("[0-9]{1,10}", line, re.ASCII) is None:
            raise wrong_line(name, number, f"{quote(line)} is not a time in whole milliseconds")
        at = int(line)
        before, several = found[-1] if found else (-1, 0)
        if at < before:
            raise wrong_line(name, number, f"{quote(line)} is before the time above it")
        if at == before:
            found[-1] = (at, several + 1)
            continue
        if len(found) == MAX_INSTANTS:
            raise wrong_line(
                name, number, f"is one millisecond more than {MAX_INSTANTS:,}, the most allowed"
            )
        found.append((at, 1))
    try:
        check_opportunities(found)
    except ValueError as error:
        raise _FileError(str(error)) from None
    return found


def _steps(lines: list[str], name: str) -> list[Step]:
    """Return the steps of a CSV file, one per line."""
    rows = (
        (number, [cell.strip() for cell in line.split(",")])
        for number, line in enumerate(map(str.strip, lines), 1)
        if line and line[0] != "#"
    )
    number, head = next(rows, (1, [""]))
    columns = {column: index for index, column in enumerate(head)}
    known = all(column in (*_REQUIRED, *_OPTIONAL) for column in head)
    if not known or len(columns) < len(head) or not all(each in columns for each in _REQUIRED):
        raise wrong_line(
            name, number, f"{quote(','.join(head))} is not a header line; expected `{_HEAD}`"
        )
    found: list[Step] = []
    for number, row in rows:
        if len(row) != len(head):
            raise wrong_line(name, number, f"has {len(row)} columns; expected {len(head)}")
        if len(found) == MAX_STEPS:
            raise wrong_line(name, number, f"is one step more than {MAX_STEPS:,}, the most allowed")
        cells = {column: row[index] for column, index in columns.items()}
        try:
            found.append(
                Step(
                    seconds(cells["time_s"]),
                    _rate(cells["rate_bps"]),
                    seconds(cells["delay_s"]) if "delay_s" in cells else None,
                    seconds(cells["jitter_s"]) if "jitter_s" in cells else None,
                    _loss(cells["loss"]) if "loss" in cells else None,
                )
            )
        except ValueError as error:
            raise wrong_line(name, number, str(error)) from None
    try:
        check_steps(found)
    except ValueError as error:
        raise _FileError(str(error)) from None
    return found


def _rate(text: str) -> int:
    found = scaled(text, 1)
    if found is None or found >= _FASTEST:
        said = "is not a rate in whole bits per second below 1e15"
        raise ValueError(f"{quote(text)} {said}; expected one such as `5000000` or `5e6`")
    return found


def _loss(text: str) -> int:
    parts = scaled(text, WHOLE)
    if parts is None or parts >= WHOLE:
        raise ValueError(f"{quote(text)} is not a loss from 0 to below 1 with up to 9 decimals")
    return parts
