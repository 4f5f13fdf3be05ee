"""Statements of linux."""

from statements.statement import Approximated, Statement

STATEMENTS: tuple[Statement, ...] = ()

APPROXIMATED: tuple[Approximated, ...] = ()

OTHER_WORDS: frozenset[str] = frozenset()
"""Words in the reader that are no keywords of statements: parts of notes and names of values."""
