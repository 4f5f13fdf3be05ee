"""Alembic's environment; the steps are each service's own."""
