"""What one does with a lab that is up."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from perhop.errors import OutputError, PerhopError, UnsupportedError, UsageError
from perhop.lab.record import Record, records
from perhop.scenario.text import did_you_mean, listed
from perhop.units import quote

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["Lab"]

_PATIENCE_S: Final = 10.0
"""How long a lab may take to answer, and to end."""


@dataclass(frozen=True, slots=True)
class Lab:
    """A lab that is up: an emulated network in which programs run."""

    record: Record

    @classmethod
    def find(cls, name: str | None = None) -> Lab:
        """The lab with this name, or the only one.

        Raises:
            UsageError: If there is none, or there are several and no name is given.
        """
        known = {record.name: record for record in records()}
        if not known:
            raise UsageError("no lab is up; `perhop lab up FILE` starts one")
        if name is None:
            if len(known) > 1:
                raise UsageError(f"several labs are up; name one with --lab{listed(known)}")
            return cls(next(iter(known.values())))
        if name not in known:
            hint = did_you_mean(name, known)
            said = f"; {hint}" if hint else listed(known)
            raise UsageError(f"no lab {quote(name)} is up{said}")
        return cls(known[name])

    @property
    def name(self) -> str:
        """What it is called."""
        return self.record.name

    def status(self) -> dict[str, Any]:
        """How it stands: since when it is up, and by directed link and class what was counted.

        Rates are bits per second over the last second.
        """
        return self._ask({"do": "status"})

    def change(self, change: Mapping[str, Any]) -> None:
        """Change the network: an entry of a scenario's `changes` without its `at`.

        Raises:
            UsageError: If it is wrong; nothing has changed then.
        """
        self._ask({"do": "change", "change": dict(change)})

    def policy(self, on: str, policy: str | None = None, overrides: Sequence[str] = ()) -> None:
        """Put another policy before a directed link, or the same one with other settings.

        Args:
            on: The link, "r1>r2".
            policy: A policy of the scenario, "none" for the link's queue; by default the one that
                stands there.
            overrides: What to change in it, "PATH=VALUE" with a path inside the policy.

        Raises:
            UsageError: If it is wrong; nothing has changed then.
        """
        self._ask({"do": "policy", "on": on, "policy": policy, "set": list(overrides)})

    def capture(self, links: Sequence[str], file: str | os.PathLike[str], snaplen: int) -> None:
        """Write the packets at these interfaces to a file from now on, until the lab is down.

        Raises:
            UsageError: If there is no such link.
            OutputError: If the file cannot be written, or is no capture.
        """
        path = str(Path(file).resolve())
        self._ask({"do": "capture", "links": list(links), "file": path, "snaplen": snaplen})

    def reserve(
        self, name: str, links: Sequence[str], match: Mapping[str, Any], rate: int, burst: int
    ) -> None:
        """Give some packets a rate for themselves: they go before everything else.

        What exceeds is dropped at the first link. A reservation of that name is changed in place:
        no packet of others is lost, and its counters go on.

        Args:
            name: What to call it.
            links: The directed links that the packets take, in order.
            match: Which packets, as a class of a scenario matches them; with a source and a
                destination.
            rate: Bits per second, of IP packets.
            burst: How many bytes may come at once.

        Raises:
            UsageError: If it is wrong, or packets do not go that way; nothing has changed then.
        """
        asked = {"name": name, "links": list(links), "match": dict(match)}
        self._ask({"do": "reserve", **asked, "rate": rate, "burst": burst})

    def release(self, name: str) -> None:
        """End a reservation; nothing happens if there is none of that name."""
        self._ask({"do": "release", "name": name})

    def reserved(self) -> dict[str, Any]:
        """The reservations by name: their links, match, rate, burst, and counters of the policer.

        Counters are since a reservation was made or they were cleared; bytes are of IP packets.
        """
        found: dict[str, Any] = self._ask({"do": "reserved"})["reservations"]
        return found

    def clear(self, name: str) -> None:
        """Begin the counters of a reservation anew.

        Raises:
            UsageError: If there is none of that name.
        """
        self._ask({"do": "clear", "name": name})

    def execute(self, host: str, command: Sequence[str]) -> NoReturn:
        """Become a program that runs in a host. The caller must have one thread.

        Raises:
            UsageError: If there is no such host, or no such program.
        """
        from perhop.lab.enter import become  # which is a program, too

        link = self._link(host)
        try:
            become(self.record.pid, link, str(self.record.names), command)
        except OSError as error:
            raise UsageError(f"cannot run {quote(command[0])}: {error.strerror}") from error

    def start(self, host: str, command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
        """Start a program in a host; `options` are those of `subprocess.Popen`.

        Raises:
            UsageError: If there is no such host.
        """
        enter = [sys.executable, "-m", "perhop.lab.enter", str(self.record.pid)]
        where = [str(self._link(host)), str(self.record.names)]
        return subprocess.Popen([*enter, *where, *command], **options)

    def down(self) -> list[str]:
        """Remove the lab, with what still runs in it.

        Returns:
            The commands that were ended.
        """
        ended = self._end_programs()
        with suppress(PerhopError):
            self._ask({"do": "down"})
        deadline = time.monotonic() + _PATIENCE_S
        while self.record.alive and time.monotonic() < deadline:
            time.sleep(0.02)
        if self.record.alive:
            os.kill(self.record.pid, signal.SIGKILL)
        self.record.remove()
        return ended

    def _link(self, host: str) -> int:
        hosts = self.record.hosts
        if host not in hosts:
            hint = did_you_mean(host, hosts)
            said = f"; {hint}" if hint else listed(hosts)
            raise UsageError(f"{quote(host)} is not a host of the lab{said}")
        return hosts[host]

    def _end_programs(self) -> list[str]:
        """Ends what runs in the hosts, and is not the lab itself: first asked, then made to."""
        spaces = {
            _space(f"/proc/{self.record.pid}/fd/{link}") for link in self.record.hosts.values()
        }
        running = {
            int(process.name): _command(process)
            for process in Path("/proc").iterdir()
            if process.name.isdigit()
            and int(process.name) not in {self.record.pid, os.getpid()}
            and _space(process / "ns/net") in spaces - {None}
        }
        for pid in running:
            with suppress(OSError):
                os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + 1.0
        while any(Path(f"/proc/{pid}").exists() for pid in running) and time.monotonic() < deadline:
            time.sleep(0.02)
        for pid in running:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        return list(running.values())

    def _ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
                link.settimeout(_PATIENCE_S)
                link.connect(str(self.record.socket))
                link.sendall(json.dumps(request).encode() + b"\n")
                answer = json.loads(b"".join(iter(lambda: link.recv(65536), b"")) or b"null")
        except (OSError, ValueError) as error:
            raise OutputError(
                f"lab {quote(self.name)} does not answer: {error}; see {self.record.log}"
            ) from error
        if not isinstance(answer, dict):
            raise OutputError(f"lab {quote(self.name)} broke off; see {self.record.log}")
        if "error" in answer:
            kinds: dict[str, type[PerhopError]] = {
                kind.__name__: kind for kind in (UsageError, UnsupportedError, OutputError)
            }
            raise kinds.get(answer.get("kind", ""), UsageError)(answer["error"])
        return answer


def _space(path: str | Path) -> tuple[int, int] | None:
    """What tells a namespace from others; None if nobody may look."""
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _command(process: Path) -> str:
    with suppress(OSError):
        return (
            (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        )
    return process.name
