"""The errors of perhop, with their exit codes.

::

    PerhopError
    ├── ScenarioError      2   wrong scenario: every problem with its place
    ├── UsageError         2   wrong argument
    ├── UnsupportedError   3   this machine, or a family of routers, lacks a feature
    ├── OutputError        2   a folder or file cannot be read or written
    ├── ClusterError      69   workers, or the scheduler of a cluster, do not answer
    └── CommandError     126   a program cannot be executed
        └── NoCommandError 127 unknown program
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from perhop.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_PROBLEMS = 20
"""Number of problems that a `ScenarioError` keeps; `ScenarioError.more` counts the others."""


class PerhopError(Exception):
    """The root of perhop's errors. `str()` is a message for people, without a traceback."""

    exit_code: ClassVar[int] = 2
    """The exit code of the command that ends with this error."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem of a scenario, with its place.

    Attributes:
        file: The file's name, ``--set PATH=VALUE`` for an override, or "" for a scenario that was
            built in Python.
        line: The line, from 1; 0 if there is none.
        column: The column in characters, from 1; 0 if there is none.
        path: The dotted path of the value, such as ``links.1.rate``; "" for the whole file.
        message: The problem, and what was expected.
        hint: ``did you mean `x`?``, or "".
    """

    file: str
    line: int
    column: int
    path: str
    message: str
    hint: str = ""

    def __str__(self) -> str:
        """Return ``FILE:LINE:COL: PATH: problem; expected …; did you mean …?`` in one line."""
        place = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        said = f"{self.message}; {self.hint}" if self.hint else self.message
        return ": ".join(printable(part, 2000) for part in (place, self.path, said) if part)


class ScenarioError(PerhopError):
    """A scenario that cannot be run, with all its problems.

    Attributes:
        problems: The first `MAX_PROBLEMS` problems, sorted by position.
        more: The number of further problems.
        found: All problems.
    """

    def __init__(self, problems: Iterable[Problem]) -> None:
        """Sort `problems` by place: those of the file first, then those of overrides."""
        ordered = sorted(problems, key=lambda p: (not p.line, p.line, p.column))
        self.found: tuple[Problem, ...] = tuple(ordered)
        self.problems: tuple[Problem, ...] = self.found[:MAX_PROBLEMS]
        self.more: int = len(ordered) - len(self.problems)
        super().__init__(self.problems, self.more)

    def __reduce__(self) -> tuple[type[ScenarioError], tuple[tuple[Problem, ...]]]:
        """Pickle the whole error, for worker processes."""
        return type(self), (self.found,)

    def __str__(self) -> str:
        """Return one line per problem."""
        lines = [str(problem) for problem in self.problems]
        if self.more:
            lines.append(f"… and {self.more} more")
        return "\n".join(lines)


class UsageError(PerhopError):
    """A wrong argument, such as an unknown engine or flow."""


class UnsupportedError(PerhopError):
    """A feature that this machine, or a family of routers, lacks; the message names it."""

    exit_code: ClassVar[int] = 3


class OutputError(PerhopError):
    """A result that cannot be written or read: the place, the reason, and a remedy.

    Existing results are unchanged.
    """


class ClusterError(PerhopError):
    """Processes that make runs, or their scheduler, that do not answer."""

    exit_code: ClassVar[int] = 69  # EX_UNAVAILABLE of sysexits(3)


class CommandError(PerhopError):
    """A program that cannot be executed, such as one in a host of a lab."""

    exit_code: ClassVar[int] = 126


class NoCommandError(CommandError):
    """Unknown program."""

    exit_code: ClassVar[int] = 127
