"""Reservations as an iCalendar feed (RFC 5545)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final
from unicodedata import category

from perhop.units import format_rate
from perhop_services.reservations.model import State

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perhop_services.reservations.model import Reservation

_STATUS = {State.HELD: "TENTATIVE", State.CANCELLED: "CANCELLED", State.FAILED: "CANCELLED"}


HEAD: Final = "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//perhop//reservations//EN\r\n"
"""The beginning of an iCalendar object."""

END: Final = "END:VCALENDAR\r\n"


def calendar(reservations: Iterable[Reservation], now: int) -> str:
    """Return an iCalendar object with an event for each reservation."""
    return HEAD + events(reservations, now) + END


def events(reservations: Iterable[Reservation], now: int) -> str:
    """Yield an event for each reservation."""
    lines: list[str] = []
    for each in reservations:
        terms = each.terms
        what = f"{format_rate(terms.rate)} {terms.source} to {terms.destination}"
        lines += [
            "BEGIN:VEVENT",
            f"UID:reservation-{each.id}@perhop",
            f"DTSTAMP:{_instant(now)}",
            f"SEQUENCE:{each.version - 1}",
            f"DTSTART:{_instant(terms.start)}",
            f"DTEND:{_instant(terms.end)}",
            f"SUMMARY:{_text(what)}",
            f"DESCRIPTION:{_text(terms.purpose)}",
            f"STATUS:{_STATUS.get(each.state, 'CONFIRMED')}",
            "TRANSP:TRANSPARENT",
            "END:VEVENT",
        ]
    return "".join(f"{_folded(line)}\r\n" for line in lines)


def _instant(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y%m%dT%H%M%SZ")


def _text(value: str) -> str:
    """Escape a text (section 3.3.11)."""
    # Control characters may not stand there, and halves of surrogate pairs are none.
    kept = (c for c in value if c in "\t\n" or category(c) not in ("Cc", "Cs"))
    value = "".join(kept)
    for plain, escaped in (("\\", "\\\\"), (";", "\\;"), (",", "\\,"), ("\n", "\\n")):
        value = value.replace(plain, escaped)
    return value


def _folded(line: str) -> str:
    """Fold a line into pieces of up to 75 bytes (section 3.1), never inside a character."""
    pieces, size = [""], 0
    for character in line:
        length = len(character.encode())
        if size + length > 75:
            pieces.append("")
            size = 1  # the space that goes on
        pieces[-1] += character
        size += length
    return "\r\n ".join(pieces)
