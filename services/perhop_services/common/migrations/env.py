"""The environment that Alembic runs: the missing steps, in one transaction."""

from __future__ import annotations

from alembic import context

_connection = context.config.attributes["connection"]
context.configure(
    connection=_connection,
    target_metadata=context.config.attributes["metadata"],
    transactional_ddl=True,
    # SQLite alters tables by copying them.
    render_as_batch=_connection.dialect.name == "sqlite",
)
with context.begin_transaction():
    context.run_migrations()
