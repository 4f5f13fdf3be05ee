"""Steps of the database's schema, by Alembic; each step is run once."""
