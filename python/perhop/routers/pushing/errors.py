"""The error of a policy that is not set, and texts of routers in messages."""

from __future__ import annotations

from typing import ClassVar

from perhop.errors import PerhopError


class PushError(PerhopError):
    """A policy that a router does not have; the message says what it has instead."""

    exit_code: ClassVar[int] = 1


def printable(text: str) -> str:
    """Return what a router says for a terminal, without control characters."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
