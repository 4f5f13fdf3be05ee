"""The registry of labs: a file for each lab, with the process that holds it.

A lab's hosts are network namespaces without names, which end with that process. A record whose
processes have ended is ignored. A lab that ended by itself leaves a file that says how, until a lab
of the same name is up.
"""

from __future__ import annotations

import fcntl
import json
import os
import stat
import time
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from perhop.errors import OutputError, UsageError
from perhop.units import quote

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Ending", "Record", "endings", "folder", "records"]

_CLEANING_S: Final = 3.0
"""Time that a keeper may take to clean up after a lab."""

T = TypeVar("T", "Record", "Ending")


@dataclass(frozen=True, slots=True)
class Record:
    """A lab, or one that is being started.

    Attributes:
        name: Its name.
        scenario: The name of its scenario.
        folder: The folder of its record.
        since: Time of its start, in seconds since 1970.
        keeper: The process that waits for its end, …
        keeper_started: … and the start of that process in clock ticks since boot, because process
            numbers are used again.
        pid: The process that holds it; the keeper until the lab is up.
        hosts: The descriptor of each host's namespace in that process.
        attached: The hosts whose namespaces belong to others, and stay when the lab ends.
    """

    name: str
    scenario: str
    folder: str
    since: float
    keeper: int
    keeper_started: int
    pid: int
    started: int
    hosts: dict[str, int]
    attached: list[str]
    state: Literal["starting", "up"] = "up"

    @property
    def file(self) -> Path:
        """The path of this record."""
        return self._place("json")

    @property
    def socket(self) -> Path:
        """The path of the socket for requests."""
        return self._place("sock")

    @property
    def log(self) -> Path:
        """The path of the log of its processes."""
        return self._place("log")

    @property
    def names(self) -> Path:
        """The path of the file that is /etc/hosts in its hosts."""
        return self._place("hosts")

    @property
    def resolver(self) -> Path:
        """The path of the file that is /etc/resolv.conf in its hosts."""
        return self._place("resolv")

    @property
    def preferences(self) -> Path:
        """The path of the file that is /etc/gai.conf in its hosts."""
        return self._place("gai")

    @property
    def alive(self) -> bool:
        """True if the process that holds it exists."""
        return began(self.pid) == self.started

    @property
    def kept(self) -> bool:
        """True if its keeper exists."""
        return began(self.keeper) == self.keeper_started

    def claim(self) -> None:
        """Write the record of a lab that is being started, unless its name is taken.

        Raises:
            UsageError: The name is taken.
        """
        with _locked(Path(self.folder)):
            other = _read(self.file, Record)
            if other is not None and other.alive:
                if other.state == "starting":
                    raise UsageError(f"a lab {quote(self.name)} is being started already")
                raise UsageError(
                    f"a lab {quote(self.name)} is up; end it with `perhop lab down --lab "
                    f"{self.name}`, or give another --name"
                )
            for path in (*self._files, self._place("ended")):
                path.unlink(missing_ok=True)
            self._write()

    def set_running(self, pid: int, hosts: dict[str, int], attached: list[str]) -> None:
        """Record that process `pid` runs the lab."""
        with _locked(Path(self.folder)):
            running = replace(self, pid=pid, started=began(pid) or 0, state="up")
            replace(running, hosts=hosts, attached=attached)._write()

    def end(self, how: str | None) -> None:
        """Remove the record; write how the lab ended, unless that is None.

        Its log stays if the lab ended by itself.
        """
        with _locked(Path(self.folder)):
            found = _read(self.file, Record)
            if found is None or found.keeper != self.keeper:
                return  # its name is another one's already
            if how is None:
                self.log.unlink(missing_ok=True)
            else:
                ending = Ending(self.name, self.scenario, self.since, time.time(), how)
                with suppress(OSError):  # a full disk leaves no word of it
                    _put(self._place("ended"), json.dumps(asdict(ending)))
            # The record is the last to go: nothing is left once it is gone.
            for path in (*self._files, self.file):
                path.unlink(missing_ok=True)

    @property
    def _files(self) -> tuple[Path, ...]:
        """The files of a lab that is up, beside its record and its log."""
        return (self.socket, self.names, self.resolver, self.preferences)

    def _write(self) -> None:
        _put(self.file, json.dumps(asdict(self)))

    def _place(self, kind: str) -> Path:
        return Path(self.folder) / f"{self.name}.{kind}"

    @staticmethod
    def read(file: str) -> Record:
        """Read the record in a file.

        Raises:
            OutputError: There is none.
        """
        found = _read(Path(file), Record)
        if found is None:
            raise OutputError(f"{file} is not the record of a lab: the lab is down")
        return found


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of a lab that ended by itself.

    Attributes:
        name: Its name.
        scenario: The name of its scenario.
        since: Time of its start, in seconds since 1970.
        ended: Time of its end, in seconds since 1970.
        how: The reason.
    """

    name: str
    scenario: str
    since: float
    ended: float
    how: str

    def __str__(self) -> str:
        """Return when it ended, and why."""
        return f"{quote(self.name)} ended at {clock(self.ended)}: {self.how}"


def clock(seconds: float) -> str:
    """Format a local time with its date."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def folder() -> Path:
    """Return the user's folder for records, which others cannot write to.

    Raises:
        OutputError: It cannot be made, or has another owner.
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


def records(*, starting: bool = False) -> list[Record]:
    """Return the labs that are up, by name; with `starting` also those that are being started."""
    found = []
    for path in sorted(folder().glob("*.json")):
        record = _read(path, Record)
        if record is None:
            continue
        if record.alive:
            if starting or record.state == "up":
                found.append(record)
        elif not record.kept:
            record.end("its processes were killed at an unknown time")
    return found


def endings() -> list[Ending]:
    """Return how labs ended by themselves, by name."""
    records()  # of those whose processes were all killed it is written now
    deadline = time.monotonic() + _CLEANING_S
    while time.monotonic() < deadline and any(
        record is not None and not record.alive and record.kept
        for record in (_read(path, Record) for path in folder().glob("*.json"))
    ):
        time.sleep(0.01)
    found = (_read(path, Ending) for path in sorted(folder().glob("*.ended")))
    return [ending for ending in found if ending is not None]


def began(pid: int) -> int | None:
    """Return the start of a process, in clock ticks since boot; None if it has ended (proc(5))."""
    try:
        line = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # Its command's name may hold anything; the fields begin behind it, with the third.
    state = line.rpartition(")")[2].split()
    return None if state[0] in {"Z", "X"} else int(state[19])


@contextmanager
def _locked(place: Path) -> Iterator[None]:
    """Prevent that other processes claim or end a lab in the folder."""
    held = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
    finally:
        os.close(held)


def _put(path: Path, text: str) -> None:
    """Write a file, completely or not at all."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.write_text(text, encoding="utf-8")
    fresh.rename(path)


def _read(path: Path, kind: type[T]) -> T | None:
    with suppress(OSError, ValueError, TypeError):
        content: dict[str, Any] = json.loads(path.read_bytes())
        if content.keys() == {field.name for field in fields(kind)}:
            return kind(**content)
    return None
