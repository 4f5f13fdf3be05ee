"""Conversions between rows of the database and the service's types."""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import sqlalchemy as sa

from perhop_services.common.errors import UnavailableError
from perhop_services.common.schema import USERS
from perhop_services.reservations.model import LogEntry, Reservation, Selector, State, Terms
from perhop_services.reservations.schema import LOG, PATHS, RESERVATIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from perhop_services.reservations.model import Direction, Protocol

SELECT = (
    sa.select(RESERVATIONS, PATHS.c.links, USERS.c.name.label("owner_name"))
    .join(PATHS, PATHS.c.id == RESERVATIONS.c.path_id)
    .join(USERS, USERS.c.id == RESERVATIONS.c.owner_id)
)
"""All that makes a reservation."""

SELECT_CHANGING = SELECT.where(
    RESERVATIONS.c.state == State.ACTIVE.value,
    # SQLite has JSON's null where nothing was given.
    sa.cast(RESERVATIONS.c.pending, sa.Text) != "null",
)
"""Reservations whose new terms are being put in place."""

SELECT_LOG = sa.select(LOG)


def about(terms: Terms) -> str:
    """Return the packets of terms, as text that is equal for equal ones."""
    own = terms.selector
    packets = [
        terms.source,
        terms.destination,
        terms.direction,
        own.protocol,
        own.source_ports,
        own.destination_ports,
        own.dscp,
    ]
    return json.dumps(packets, separators=(",", ":"))


def stored_path(text: str) -> tuple[int, str | None, str, str, Direction]:
    """Return path, class, source, destination and direction of a stored path."""
    path, class_, ends = text.split("\t")
    source, destination, direction = json.loads(f"{ends}]")
    return int(path), class_ or None, source, destination, direction


def selector(text: str) -> Selector:
    """Return the packets of a stored selector."""
    return _selector(*json.loads(f"[{text[1:]}"))


def _packets(text: str) -> dict[str, Any]:
    source, destination, direction, *packets = json.loads(text)
    return {
        "source": source,
        "destination": destination,
        "direction": direction,
        "selector": _selector(*packets),
    }


def _selector(
    protocol: Protocol | None,
    sources: list[int] | None,
    destinations: list[int] | None,
    dscp: int | None,
) -> Selector:
    return Selector(protocol, _ports(sources), _ports(destinations), dscp)


def _ports(ports: list[int] | None) -> tuple[int, int] | None:
    return (ports[0], ports[1]) if ports else None


def terms_row(terms: Terms) -> dict[str, Any]:
    """Return the columns of terms."""
    return {
        "about": about(terms),
        "rate": terms.rate,
        "burst": terms.burst,
        "start_at": terms.start,
        "end_at": terms.end,
        "class": terms.class_,
        "purpose": terms.purpose,
    }


def _terms(row: Mapping[str, Any]) -> Terms:
    return Terms(
        **_packets(row["about"]),
        rate=row["rate"],
        start=row["start_at"],
        end=row["end_at"],
        burst=row["burst"],
        class_=row["class"],
        purpose=row["purpose"],
    )


T = TypeVar("T")


def _whole(read: Callable[[Mapping[str, Any]], T]) -> Callable[[Mapping[str, Any]], T]:
    """Make a reader of rows name a row that perhop has not written as damage."""

    @wraps(read)
    def reading(row: Mapping[str, Any]) -> T:
        try:
            return read(row)
        except (ValueError, TypeError, LookupError) as error:
            raise UnavailableError(
                f"entry {row['id']} of the database is damaged ({error}); restore a backup"
            ) from error

    return reading


@_whole
def reservation(row: Mapping[str, Any]) -> Reservation:
    """Return the reservation of a row of `SELECT`.

    Raises:
        UnavailableError: The row is damaged.
    """
    pending = row["pending"]
    return Reservation(
        id=row["id"],
        owner=row["owner_id"],
        owner_name=row["owner_name"],
        terms=_terms(row),
        path=tuple(json.loads(row["links"])),
        state=State(row["state"]),
        hold_until=row["hold_until"],
        version=row["version"],
        created=row["created"],
        pending=_terms(pending) if pending else None,
        trouble=row["trouble"],
        started=row["started"],
    )


@_whole
def log_entry(row: Mapping[str, Any]) -> LogEntry:
    """Return the log entry of a row."""
    return LogEntry(
        id=row["id"],
        reservation=row["reservation_id"],
        at=row["at"],
        author=row["author"],
        action=row["action"],
        state=State(row["state"]),
        reason=row["reason"],
        detail=row["detail"],
    )


def differences(old: Terms, new: Terms) -> dict[str, object]:
    """Return the differences between terms, by name: the old value and the new one."""
    before, after = asdict(old), asdict(new)
    return {
        name.rstrip("_"): [before[name], after[name]]
        for name in before
        if before[name] != after[name]
    }
