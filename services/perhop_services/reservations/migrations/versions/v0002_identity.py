"""The identity of a service in routers, and the audit log of users."""

from __future__ import annotations

import secrets
import string

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Make the tables; what has reservations goes on with names of rules without an identity."""
    own = op.create_table(
        "service",
        sa.Column("key", sa.String(length=64), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_service")),
    )
    op.create_table(
        "audit",
        sa.Column("id", NUMBER, nullable=False),
        sa.Column("at", NUMBER, nullable=False),
        sa.Column("author", sa.String(length=64), nullable=False),
        sa.Column("action", sa.String(length=32), nullable=False),
        sa.Column("subject", sa.String(length=64), nullable=False),
        sa.Column("address", sa.String(length=64), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit")),
    )
    used = op.get_bind().execute(sa.text("SELECT 1 FROM reservations LIMIT 1")).first()
    identity = "".join(secrets.choice(string.ascii_lowercase) for _ in range(6))
    op.bulk_insert(own, [{"key": "identity", "value": "" if used else identity}])
