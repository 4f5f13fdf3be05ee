"""The tables of the database. `migrations` has how they came to be, step by step."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import (
    JSON,
    Column,
    ForeignKey,
    Index,
    Integer,
    String,
    Table,
    Text,
)

from perhop_services.common.database import Database, Schema
from perhop_services.common.schema import METADATA, NUMBER

PATHS = Table(
    "paths",
    METADATA,
    Column("id", NUMBER, primary_key=True),
    Column("links", Text, nullable=False, unique=True),  # names as a JSON array
)

RESERVATIONS = Table(
    "reservations",
    METADATA,
    Column("id", NUMBER, primary_key=True, autoincrement=False),
    Column("owner_id", NUMBER, ForeignKey("users.id"), nullable=False),
    Column("about", Text, nullable=False),  # which packets, as `records` writes it
    Column("rate", NUMBER, nullable=False),
    Column("burst", NUMBER, nullable=False),
    Column("start_at", NUMBER, nullable=False),
    Column("end_at", NUMBER, nullable=False),
    Column("class", String(64)),
    Column("purpose", Text, nullable=False),
    Column("path_id", NUMBER, ForeignKey("paths.id"), nullable=False),
    Column("state", String(16), nullable=False),
    Column("hold_until", NUMBER),
    Column("version", Integer, nullable=False),
    Column("created", NUMBER, nullable=False),
    Column("started", NUMBER),
    Column("pending", JSON),  # the terms that are being put in place
    Column("trouble", Text, nullable=False),
    Index(None, "state", "start_at"),
    Index(None, "state", "end_at"),
    Index(None, "owner_id", "id"),
)

LOG = Table(
    "log",
    METADATA,
    Column("id", NUMBER, primary_key=True, autoincrement=False),
    Column("reservation_id", NUMBER, ForeignKey("reservations.id"), nullable=False),
    Column("at", NUMBER, nullable=False),
    Column("author", String(64), nullable=False),
    Column("action", String(16), nullable=False),
    Column("state", String(16), nullable=False),
    Column("reason", Text, nullable=False),
    Column("detail", JSON, nullable=False),
    Index(None, "reservation_id", "id"),
)

KEYS = Table(
    "keys",
    METADATA,
    Column("owner_id", NUMBER, primary_key=True, autoincrement=False),
    Column("key", String(128), primary_key=True),
    Column("reservation_id", NUMBER, ForeignKey("reservations.id"), nullable=False),
    Column("asked", String(64), nullable=False),  # a digest of what was asked for
    Column("at", NUMBER, nullable=False),
)

COUNTERS = Table(
    "counters",
    METADATA,
    Column(
        "reservation_id",
        NUMBER,
        ForeignKey("reservations.id"),
        primary_key=True,
        autoincrement=False,
    ),
    Column("at_ms", NUMBER, primary_key=True, autoincrement=False),
    Column("epoch", Integer, nullable=False),  # how often they had been cleared
    Column("conformed_packets", NUMBER, nullable=False),
    Column("conformed_bytes", NUMBER, nullable=False),
    Column("exceeded_packets", NUMBER, nullable=False),
    Column("exceeded_bytes", NUMBER, nullable=False),
)

SCHEMA = Schema(
    "reservations",
    "perhop reserve init NAME --database …",
    METADATA,
    (LOG, RESERVATIONS),
    Path(__file__).parent / "migrations" / "versions",
)


def open_database(url: str, *, create: bool = True) -> Database:
    """Open a database of reservations; see `Database`."""
    return Database(url, SCHEMA, create=create)
