"""Tables that every service has: users, their tokens and webhooks, and the audit log."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
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
"""Values of the service as a whole: its `identity` in the names of rules."""

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
"""Logins, and actions on users."""
