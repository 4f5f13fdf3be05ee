"""Where labs are known: a file for each, which says what process holds it.

A lab's hosts are network namespaces without names, which end with that process; so a record that is
left of one that was killed stands for nothing, and is removed by whoever comes across it.
"""

from __future__ import annotations

import json
import os
import stat
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from perhop.errors import OutputError

__all__ = ["Record", "folder", "records"]


@dataclass(frozen=True, slots=True)
class Record:
    """A lab that is up.

    Attributes:
        name: What it is called.
        scenario: The name of its scenario.
        pid: The process that holds it, …
        started: … and when that began, in clock ticks since boot: process numbers come again.
        hosts: By node that a program can run in, the process's file descriptor of its namespace.
    """

    name: str
    scenario: str
    pid: int
    started: int
    hosts: dict[str, int]

    @property
    def socket(self) -> Path:
        """Where it takes requests."""
        return folder() / f"{self.name}.sock"

    @property
    def log(self) -> Path:
        """What its process said."""
        return folder() / f"{self.name}.log"

    @property
    def names(self) -> Path:
        """What stands for /etc/hosts in its hosts."""
        return folder() / f"{self.name}.hosts"

    @property
    def alive(self) -> bool:
        """Whether its process is there."""
        return began(self.pid) == self.started

    def write(self) -> None:
        """Make it known, whole or not at all."""
        path = folder() / f"{self.name}.json"
        fresh = path.with_suffix(f".{os.getpid()}")
        fresh.write_text(json.dumps(asdict(self)), encoding="utf-8")
        fresh.rename(path)

    def remove(self, *, log: bool = True) -> None:
        """Make it unknown, with what belongs to it; or but for its log, which may say why."""
        paths = [folder() / f"{self.name}.json", self.socket, self.names]
        for path in paths + [self.log] * log:
            path.unlink(missing_ok=True)


def folder() -> Path:
    """The user's own folder for records, which nobody else can write to.

    Raises:
        OutputError: If it cannot be made, or is somebody else's.
    """
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    own = Path(runtime) / "perhop" if runtime else Path(f"/tmp/perhop-{os.getuid()}")
    try:
        own.mkdir(mode=0o700, exist_ok=True)
        found = own.lstat()
    except OSError as error:
        raise OutputError(f"cannot use {own}: {error.strerror}; set XDG_RUNTIME_DIR") from error
    private = stat.S_ISDIR(found.st_mode) and not found.st_mode & 0o077
    if not private or found.st_uid != os.getuid():
        raise OutputError(f"{own} is open to others; remove it, or set XDG_RUNTIME_DIR")
    return own


def records() -> list[Record]:
    """The labs that are up, by name."""
    found = []
    for path in sorted(folder().glob("*.json")):
        record = _read(path)
        if record is None:
            continue
        if record.alive:
            found.append(record)
        else:
            record.remove()
    return found


def began(pid: int) -> int | None:
    """When a process began, in clock ticks since boot; None if it is not there (proc(5))."""
    try:
        line = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # Its command's name may hold anything; the fields begin behind it, with the third.
    fields = line.rpartition(")")[2].split()
    return None if fields[0] in {"Z", "X"} else int(fields[19])


def _read(path: Path) -> Record | None:
    with suppress(OSError, ValueError, TypeError):
        content: dict[str, Any] = json.loads(path.read_bytes())
        return Record(**content)
    return None
