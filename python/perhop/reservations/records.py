"""Between what the database has in a row and what the service works with."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from perhop.reservations.model import (
    LogEntry,
    Quota,
    Reservation,
    Role,
    Selector,
    State,
    Terms,
    User,
)
from perhop.reservations.schema import LOG, PATHS, RESERVATIONS, USERS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perhop.reservations.model import Direction

SELECT = (
    sa.select(RESERVATIONS, PATHS.c.links, USERS.c.name.label("owner_name"))
    .join(PATHS, PATHS.c.id == RESERVATIONS.c.path_id)
    .join(USERS, USERS.c.id == RESERVATIONS.c.owner_id)
)
"""All that makes a reservation."""

SELECT_LOG = sa.select(LOG)


def about(terms: Terms) -> str:
    """Which packets, as text that is equal for equal ones."""
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


def lanes(text: str) -> list[tuple[str, str, Selector]]:
    """Each way that packets go, from what `about` wrote."""
    return Terms(**_packets(text), rate=1, start=0, end=1, burst=0).lanes


def direction(text: str) -> Direction:
    """The direction, from what `about` wrote."""
    found: Direction = json.loads(text)[2]
    return found


def _packets(text: str) -> dict[str, Any]:
    source, destination, direction, protocol, sources, destinations, dscp = json.loads(text)
    selector = Selector(
        protocol, sources and tuple(sources), destinations and tuple(destinations), dscp
    )
    return {
        "source": source,
        "destination": destination,
        "direction": direction,
        "selector": selector,
    }


def terms_row(terms: Terms) -> dict[str, Any]:
    """The columns that hold terms."""
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


def reservation(row: Mapping[str, Any]) -> Reservation:
    """What a row of `SELECT` says."""
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


def log_entry(row: Mapping[str, Any]) -> LogEntry:
    """What a row of the log says."""
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


def user(row: Mapping[str, Any]) -> User:
    """What a row of the users says."""
    return User(
        id=row["id"],
        name=row["name"],
        role=Role(row["role"]),
        quota=Quota(row["max_reservations"], row["max_rate"], row["max_seconds"]),
        disabled=bool(row["disabled"]),
    )


def differences(old: Terms, new: Terms) -> dict[str, object]:
    """What differs between terms, by name: the old value and the new one."""
    before, after = asdict(old), asdict(new)
    return {
        name.rstrip("_"): [before[name], after[name]]
        for name in before
        if before[name] != after[name]
    }
