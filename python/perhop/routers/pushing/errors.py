"""The error of a policy that is not set."""

from __future__ import annotations

from typing import ClassVar

from perhop.errors import PerhopError


class PushError(PerhopError):
    """A policy that a router does not have; the message says what it has instead."""

    exit_code: ClassVar[int] = 1
