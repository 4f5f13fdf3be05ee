"""The tables of the database. `migrations` has how they came to be, step by step."""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)

METADATA = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)

NUMBER = BigInteger().with_variant(Integer, "sqlite")
"""64 bits; SQLite numbers rows by itself only where a column is called INTEGER."""


USERS = Table(
    "users",
    METADATA,
    Column("id", NUMBER, primary_key=True),
    Column("name", String(64), nullable=False, unique=True),
    Column("password", String(256), nullable=False),
    Column("role", String(16), nullable=False),
    Column("disabled", Boolean, nullable=False),
    Column("max_reservations", NUMBER),
    Column("max_rate", NUMBER),
    Column("max_seconds", NUMBER),
    Column("created", NUMBER, nullable=False),
)

TOKENS = Table(
    "tokens",
    METADATA,
    Column("id", NUMBER, primary_key=True),
    Column("user_id", NUMBER, ForeignKey("users.id"), nullable=False),
    Column("kind", String(16), nullable=False),  # session, api or feed
    Column("digest", String(64), nullable=False, unique=True),
    Column("csrf", String(64), nullable=False),
    Column("label", String(128), nullable=False),
    Column("created", NUMBER, nullable=False),
    Column("expires", NUMBER),
)

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

WEBHOOKS = Table(
    "webhooks",
    METADATA,
    Column("id", NUMBER, primary_key=True),
    Column("user_id", NUMBER, ForeignKey("users.id"), nullable=False),
    Column("url", Text, nullable=False),
    Column("secret", String(64), nullable=False),
    Column("delivered", NUMBER, nullable=False),  # the last entry of the log that it knows
    Column("trouble", Text, nullable=False),
    UniqueConstraint("user_id", "url"),
)

SERVICE = Table(
    "service",
    METADATA,
    Column("key", String(64), primary_key=True),
    Column("value", Text, nullable=False),
)
"""What is known of the service as a whole: its `identity` in the names of rules."""

AUDIT = Table(
    "audit",
    METADATA,
    Column("id", NUMBER, primary_key=True),
    Column("at", NUMBER, nullable=False),
    Column("author", String(64), nullable=False),
    Column("action", String(32), nullable=False),
    Column("subject", String(64), nullable=False),
    Column("address", String(64), nullable=False),
    Column("detail", Text, nullable=False),
)
"""Who logged in, and what was done with users."""
