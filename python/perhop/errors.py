"""The errors that perhop raises, and the exit code that each one means.

::

    PerhopError
    ├── ScenarioError      2   a scenario is wrong: every problem with its place
    ├── UsageError         2   an argument is wrong
    ├── UnsupportedError   3   this machine cannot do it, and what it lacks
    ├── OutputError        2   a folder or file cannot be read or written
    └── CommandError     126   a program may not be run in a host of a lab
        └── NoCommandError 127 … or there is none
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_PROBLEMS = 20
"""How many problems a `ScenarioError` keeps; `ScenarioError.more` counts the others."""


class PerhopError(Exception):
    """The root of perhop's errors; `str()` is a message for people, without a traceback."""

    exit_code: ClassVar[int] = 2
    """The exit code of the command that ends with this error."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with a scenario, and where.

    Attributes:
        file: The file as it was named, ``--set PATH=VALUE`` for an override, or "" for a scenario
            that was built in Python.
        line: The line, from 1; 0 where a line means nothing.
        column: The column in characters, from 1; 0 where a column means nothing.
        path: The dotted path of the value, such as ``links.1.rate``; "" for the whole file.
        message: What is wrong, and what was expected.
        hint: ``did you mean `x`?``, or "".
    """

    file: str
    line: int
    column: int
    path: str
    message: str
    hint: str = ""

    def __str__(self) -> str:
        """``FILE:LINE:COL: PATH: what is wrong; expected …; did you mean …?`` in one line."""
        place = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        said = f"{self.message}; {self.hint}" if self.hint else self.message
        return ": ".join(_one_line(part) for part in (place, self.path, said) if part)


def _one_line(text: str) -> str:
    """`text` without line breaks and other control characters, at most 2000 characters."""
    text = text if len(text) <= 2000 else f"{text[:1999]}…"
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


class ScenarioError(PerhopError):
    """A scenario that cannot be run, with every problem that was found.

    Attributes:
        problems: The first `MAX_PROBLEMS` problems, sorted by position.
        more: How many further problems there are.
        found: All of them.
    """

    def __init__(self, problems: Iterable[Problem]) -> None:
        """Sort `problems` by place: the file's own first, then those of overrides."""
        ordered = sorted(problems, key=lambda p: (not p.line, p.line, p.column))
        self.found: tuple[Problem, ...] = tuple(ordered)
        self.problems: tuple[Problem, ...] = self.found[:MAX_PROBLEMS]
        self.more: int = len(ordered) - len(self.problems)
        super().__init__(self.problems, self.more)

    def __reduce__(self) -> tuple[type[ScenarioError], tuple[tuple[Problem, ...]]]:
        """Have a worker process hand it on whole."""
        return type(self), (self.found,)

    def __str__(self) -> str:
        """One line a problem."""
        lines = [str(problem) for problem in self.problems]
        if self.more:
            lines.append(f"… and {self.more} more")
        return "\n".join(lines)


class UsageError(PerhopError):
    """An argument that means nothing, such as an unknown engine or flow."""


class UnsupportedError(PerhopError):
    """Something that this machine cannot do; the message names what it lacks."""

    exit_code: ClassVar[int] = 3


class OutputError(PerhopError):
    """A result that cannot be written or read: where, why, and what to do.

    Results that existed before are untouched.
    """


class CommandError(PerhopError):
    """A program that may not be run in a host of a lab."""

    exit_code: ClassVar[int] = 126


class NoCommandError(CommandError):
    """A program that does not exist."""

    exit_code: ClassVar[int] = 127
