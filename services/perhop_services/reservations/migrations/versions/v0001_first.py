"""Users, reservations, their log and their counters."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "paths",
        sa.Column("id", NUMBER, nullable=False),
        sa.Column("links", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_paths")),
        sa.UniqueConstraint("links", name=op.f("uq_paths_links")),
    )
    op.create_table(
        "users",
        sa.Column("id", NUMBER, nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("password", sa.String(length=256), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("disabled", sa.Boolean(), nullable=False),
        sa.Column("max_reservations", NUMBER, nullable=True),
        sa.Column("max_rate", NUMBER, nullable=True),
        sa.Column("max_seconds", NUMBER, nullable=True),
        sa.Column("created", NUMBER, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_users")),
        sa.UniqueConstraint("name", name=op.f("uq_users_name")),
    )
    op.create_table(
        "reservations",
        sa.Column("id", NUMBER, autoincrement=False, nullable=False),
        sa.Column("owner_id", NUMBER, nullable=False),
        sa.Column("about", sa.Text(), nullable=False),
        sa.Column("rate", NUMBER, nullable=False),
        sa.Column("burst", NUMBER, nullable=False),
        sa.Column("start_at", NUMBER, nullable=False),
        sa.Column("end_at", NUMBER, nullable=False),
        sa.Column("class", sa.String(length=64), nullable=True),
        sa.Column("purpose", sa.Text(), nullable=False),
        sa.Column("path_id", NUMBER, nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("hold_until", NUMBER, nullable=True),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("created", NUMBER, nullable=False),
        sa.Column("started", NUMBER, nullable=True),
        sa.Column("pending", sa.JSON(), nullable=True),
        sa.Column("trouble", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["owner_id"], ["users.id"], name=op.f("fk_reservations_owner_id")),
        sa.ForeignKeyConstraint(["path_id"], ["paths.id"], name=op.f("fk_reservations_path_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_reservations")),
    )
    op.create_index(
        op.f("ix_reservations_owner_id_id"), "reservations", ["owner_id", "id"], unique=False
    )
    op.create_index(
        op.f("ix_reservations_state_end_at"), "reservations", ["state", "end_at"], unique=False
    )
    op.create_index(
        op.f("ix_reservations_state_start_at"), "reservations", ["state", "start_at"], unique=False
    )
    op.create_table(
        "tokens",
        sa.Column("id", NUMBER, nullable=False),
        sa.Column("user_id", NUMBER, nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("csrf", sa.String(length=64), nullable=False),
        sa.Column("label", sa.String(length=128), nullable=False),
        sa.Column("created", NUMBER, nullable=False),
        sa.Column("expires", NUMBER, nullable=True),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_tokens_user_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tokens")),
        sa.UniqueConstraint("digest", name=op.f("uq_tokens_digest")),
    )
    op.create_table(
        "webhooks",
        sa.Column("id", NUMBER, nullable=False),
        sa.Column("user_id", NUMBER, nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("secret", sa.String(length=64), nullable=False),
        sa.Column("delivered", NUMBER, nullable=False),
        sa.Column("trouble", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_webhooks_user_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_webhooks")),
        sa.UniqueConstraint("user_id", "url", name=op.f("uq_webhooks_user_id_url")),
    )
    op.create_table(
        "counters",
        sa.Column("reservation_id", NUMBER, autoincrement=False, nullable=False),
        sa.Column("at_ms", NUMBER, autoincrement=False, nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("conformed_packets", NUMBER, nullable=False),
        sa.Column("conformed_bytes", NUMBER, nullable=False),
        sa.Column("exceeded_packets", NUMBER, nullable=False),
        sa.Column("exceeded_bytes", NUMBER, nullable=False),
        sa.ForeignKeyConstraint(
            ["reservation_id"], ["reservations.id"], name=op.f("fk_counters_reservation_id")
        ),
        sa.PrimaryKeyConstraint("reservation_id", "at_ms", name=op.f("pk_counters")),
    )
    op.create_table(
        "keys",
        sa.Column("owner_id", NUMBER, autoincrement=False, nullable=False),
        sa.Column("key", sa.String(length=128), nullable=False),
        sa.Column("reservation_id", NUMBER, nullable=False),
        sa.Column("asked", sa.String(length=64), nullable=False),
        sa.Column("at", NUMBER, nullable=False),
        sa.ForeignKeyConstraint(
            ["reservation_id"], ["reservations.id"], name=op.f("fk_keys_reservation_id")
        ),
        sa.PrimaryKeyConstraint("owner_id", "key", name=op.f("pk_keys")),
    )
    op.create_table(
        "log",
        sa.Column("id", NUMBER, autoincrement=False, nullable=False),
        sa.Column("reservation_id", NUMBER, nullable=False),
        sa.Column("at", NUMBER, nullable=False),
        sa.Column("author", sa.String(length=64), nullable=False),
        sa.Column("action", sa.String(length=16), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("detail", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(
            ["reservation_id"], ["reservations.id"], name=op.f("fk_log_reservation_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_log")),
    )
    op.create_index(op.f("ix_log_reservation_id_id"), "log", ["reservation_id", "id"], unique=False)
