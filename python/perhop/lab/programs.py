"""Programs in the hosts of a lab, as processes of this machine."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from perhop.errors import CommandError, NoCommandError
from perhop.units import quote

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ["Space", "end_programs", "not_run", "space"]

_GRACE_S: Final = 1.0
"""Time that a program has to end by itself after a request."""

_PATIENCE_S: Final = 5.0
"""Time for which programs started meanwhile are looked for."""

Space = tuple[int, int]
"""Identifies a namespace, as long as it is held open."""


def not_run(program: str, error: OSError | ValueError) -> CommandError:
    """Return the error of a program that cannot be executed."""
    kind = NoCommandError if isinstance(error, FileNotFoundError) else CommandError
    reason = error.strerror if isinstance(error, OSError) else str(error)
    return kind(f"cannot run {quote(program)}: {reason}")


def space(path: str | Path) -> Space | None:
    """Return the namespace behind a file; None if it may not be read."""
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def end_programs(spaces: Collection[Space], spare: Collection[int] = ()) -> list[str]:
    """End the programs in network namespaces, by SIGTERM and then by SIGKILL.

    Args:
        spaces: The namespaces, which the caller holds open so that their numbers stay theirs.
        spare: Processes that go on.

    Returns:
        The commands of the programs.
    """
    ended: dict[int, str] = {}
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        running = _running(spaces, spare)
        if not running:
            break
        # Programs that continue after that, or were started meanwhile, get no further request.
        number = signal.SIGKILL if ended else signal.SIGTERM
        for pid in running:
            with suppress(OSError):
                os.kill(pid, number)
        ended |= running
        grace = time.monotonic() + _GRACE_S
        while any(map(_is_there, running)) and time.monotonic() < grace:
            time.sleep(0.01)
    return list(ended.values())


def _running(spaces: Collection[Space], spare: Collection[int]) -> dict[int, str]:
    """Return the processes in some namespaces, with their commands."""
    return {
        int(process.name): _command(process)
        for process in Path("/proc").iterdir()
        if process.name.isdigit()
        and int(process.name) not in {*spare, os.getpid()}
        and space(process / "ns/net") in spaces
        and _is_there(int(process.name))
    }


def _is_there(pid: int) -> bool:
    """Return whether a process exists and is not a zombie."""
    try:
        line = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return line.rpartition(")")[2].split()[0] not in {"Z", "X"}


def _command(process: Path) -> str:
    with suppress(OSError):
        words = (process / "cmdline").read_bytes().replace(b"\0", b" ")
        return words.decode(errors="replace").strip()
    return process.name
