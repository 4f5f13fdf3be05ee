"""Commands: run without a shell, with every failure as one error."""

from __future__ import annotations

import shlex
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perhop._core import Namespaces

__all__ = ["CommandError", "InNamespace", "Process", "Run"]

TIMEOUT_S: Final = 10
"""The seconds after which a command that was started by `Process` is ended."""


class CommandError(Exception):
    """A command failed; the message is the first line that it wrote to stderr, or the reason.

    Attributes:
        command: The command and its arguments.
        code: Its exit code; None if it did not start, or did not end in time.
        stderr: Everything that it wrote to stderr.
    """

    def __init__(
        self, command: Sequence[str], code: int | None, stderr: str, reason: str = ""
    ) -> None:
        self.command = tuple(command)
        self.code = code
        self.stderr = stderr.strip()
        first = self.stderr.partition("\n")[0]
        super().__init__(reason or first or f"{self.command[0]} ended with {code}")


class Run(Protocol):
    """Runs a command."""

    def __call__(self, command: Sequence[str], given: str = "", *, check: bool = True) -> str:
        """Return the standard output of a command.

        Args:
            command: The command and its arguments.
            given: Its standard input.
            check: True if an exit code other than 0 is an error.

        Raises:
            CommandError: The command failed, did not start, or did not end in time.
        """


@dataclass(frozen=True, slots=True)
class InNamespace:
    """Runs commands in a network namespace of this process.

    Attributes:
        namespaces: The namespaces.
        number: The number of the one to run in.
    """

    namespaces: Namespaces
    number: int

    def __call__(self, command: Sequence[str], given: str = "", *, check: bool = True) -> str:
        """See `Run`."""
        try:
            code, out, err = self.namespaces.run(self.number, list(command), given.encode())
        except OSError as error:
            raise CommandError(command, None, "", f"{command[0]}: {error.strerror}") from None
        if check and code:
            raise CommandError(command, code, err.decode(errors="replace"))
        return out.decode(errors="replace")


@dataclass(frozen=True, slots=True)
class Process:
    """Runs commands as processes of this machine, or by another program elsewhere.

    Attributes:
        prefix: The words before each command, such as ``ssh root@r1``.
    """

    prefix: tuple[str, ...] = ()

    def __call__(self, command: Sequence[str], given: str = "", *, check: bool = True) -> str:
        """See `Run`."""
        whole = [*self.prefix, *command]
        try:
            done = subprocess.run(
                whole, input=given, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
            )
        except subprocess.TimeoutExpired:
            reason = f"{shlex.join(whole)} took more than {TIMEOUT_S} s"
            raise CommandError(whole, None, "", reason) from None
        except OSError as error:
            raise CommandError(whole, None, "", f"{whole[0]}: {error.strerror}") from None
        if check and done.returncode:
            raise CommandError(whole, done.returncode, done.stderr)
        return done.stdout
