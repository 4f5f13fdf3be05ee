"""How the database came to be, step by step, by Alembic; each step is run once."""
