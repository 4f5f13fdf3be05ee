"""The client of a lab that is up."""

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
from perhop.hints import did_you_mean, listed
from perhop.lab.captures import captured_as, open_for_capture
from perhop.lab.programs import end_programs, not_run, space
from perhop.lab.record import Record, endings, records
from perhop.units import quote

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["Lab"]

_PATIENCE_S: Final = 10.0
"""Time limit for a lab's answer, and for its end."""


@dataclass(frozen=True, slots=True)
class Lab:
    """A lab that is up: an emulated network in which programs run."""

    record: Record

    @classmethod
    def find(cls, name: str | None = None) -> Lab:
        """Return the lab with this name, or the only one.

        Raises:
            UsageError: There is none, or there are several and no name is given. If the lab has
                ended,
                the message says how.
        """
        known = {record.name: record for record in records()}
        ended = [each for each in endings() if name in (None, each.name)]
        if name is not None and name in known:
            return cls(known[name])
        if name is None and len(known) == 1:
            return cls(next(iter(known.values())))
        if name is None and known:
            raise UsageError(f"several labs are up; name one with --lab{listed(known)}")
        said = [f"no lab {quote(name)} is up" if name else "no lab is up"]
        said += map(str, ended)
        if not ended and not known:
            said.append("`perhop lab up FILE` starts one")
        elif not ended and name is not None:
            said.append(did_you_mean(name, known) or listed(known).removeprefix("; "))
        raise UsageError("; ".join(filter(None, said)))

    @property
    def name(self) -> str:
        """The name of the lab."""
        return self.record.name

    def status(self) -> dict[str, Any]:
        """Return the state of the lab: its start, and the counters by directed link and class.

        Rates are bits per second over the last second.
        """
        return self._ask({"do": "status"})

    def change(self, change: Mapping[str, Any]) -> None:
        """Change the network: an entry of a scenario's `changes` without its `at`.

        Raises:
            UsageError: The change is wrong; the network is unchanged.
        """
        self._ask({"do": "change", "change": dict(change)})

    def policy(self, on: str, policy: str | None = None, overrides: Sequence[str] = ()) -> None:
        """Set another policy of a directed link, or change its present one.

        Args:
            on: The link, "r1>r2".
            policy: A policy of the scenario, "none" for the link's queue; by default the present
                one.
            overrides: Changes of the policy, "PATH=VALUE" with a path inside the policy.

        Raises:
            UsageError: The policy is wrong; the network is unchanged.
        """
        self._ask({"do": "policy", "on": on, "policy": policy, "set": list(overrides)})

    def capture(self, links: Sequence[str], file: str | os.PathLike[str], snaplen: int = 0) -> None:
        """Capture the packets at some interfaces to a file from now on.

        Whatever happens to the file ends the capture at most: `status` says how it ended.

        Args:
            links: Directed links, "r1>r2", whose senders' interfaces they are; or nodes with one
                link.
            file: A file, a pipe, or "-" for standard output. A pipe waits for its reader.
            snaplen: Bytes kept of each packet; 0 for all.

        Raises:
            UsageError: If there is no such link.
            OutputError: If the file cannot be written, or has something else than a capture in it.
        """
        name = captured_as(file)
        try:
            opened, is_new = open_for_capture(file)
        except OSError as error:
            raise OutputError(f"cannot write {name}: {error.strerror}") from error
        try:
            self._capture(links, name, snaplen, opened)
        except BaseException:
            if is_new:
                Path(name).unlink(missing_ok=True)
            raise
        finally:
            os.close(opened)

    def open(
        self, links: Sequence[str], command: Sequence[str], **options: Any
    ) -> subprocess.Popen[bytes]:
        """Start a program on this machine that reads the packets at some interfaces.

        The program reads pcapng from its standard input. The capture ends with it.

        Args:
            links: Directed links, as for `capture`.
            command: The program and its arguments.
            options: Those of `subprocess.Popen`.

        Raises:
            UsageError: There is no such link.
            NoCommandError: Unknown program.
            CommandError: The program cannot be executed.
        """
        reader, writer = os.pipe()
        try:
            process = subprocess.Popen(command, stdin=reader, **options)
        except (OSError, ValueError) as error:
            os.close(writer)
            raise not_run(command[0], error) from error
        finally:
            os.close(reader)
        try:
            self._capture(links, f"{command[0]} (process {process.pid})", 0, writer)
        except BaseException:
            process.kill()
            process.wait()
            raise
        finally:
            os.close(writer)
        return process

    def _capture(self, links: Sequence[str], name: str, snaplen: int, opened: int) -> None:
        asked = {"links": list(links), "file": name, "snaplen": snaplen}
        self._ask({"do": "capture", **asked}, opened)

    def end_capture(self, file: str | os.PathLike[str] | None = None) -> None:
        """End the capture to a file, or all captures, and return when the files are complete.

        Raises:
            UsageError: There is no capture to this file.
        """
        name = None if file is None else captured_as(file)
        self._ask({"do": "end-capture", "file": name})
        deadline = time.monotonic() + _PATIENCE_S
        while time.monotonic() < deadline and any(
            each["ended"] is None and name in (None, each["file"])
            for each in self.status()["captures"]
        ):
            time.sleep(0.02)

    def reserve(
        self, name: str, links: Sequence[str], match: Mapping[str, Any], rate: int, burst: int
    ) -> None:
        """Reserve a rate for some packets, which are served before all others.

        What exceeds is dropped at the first link. A reservation of that name is changed in place:
        no packet of others is lost, and its counters go on.

        Args:
            name: Its name.
            links: The directed links that the packets take, in order.
            match: Which packets, as a class of a scenario matches them; with a source and a
                destination.
            rate: Bits per second, of IP packets.
            burst: Greatest burst, in bytes.

        Raises:
            UsageError: If it is wrong, or packets do not go that way; nothing has changed then.
        """
        asked = {"name": name, "links": list(links), "match": dict(match)}
        self._ask({"do": "reserve", **asked, "rate": rate, "burst": burst})

    def release(self, name: str) -> None:
        """End a reservation; do nothing if it does not exist."""
        self._ask({"do": "release", "name": name})

    def reserved(self) -> dict[str, Any]:
        """The reservations by name: their links, match, rate, burst, and counters of the policer.

        Counters are since a reservation was made or they were cleared; bytes are of IP packets.
        """
        found: dict[str, Any] = self._ask({"do": "reserved"})["reservations"]
        return found

    def clear(self, name: str) -> None:
        """Clear the counters of a reservation.

        Raises:
            UsageError: Unknown reservation.
        """
        self._ask({"do": "clear", "name": name})

    def execute(self, host: str, command: Sequence[str]) -> NoReturn:
        """Replace this process by a program in a host. The process must have one thread.

        Raises:
            UsageError: Unknown host.
            CommandError: The program cannot be executed.
            NoCommandError: Unknown program.
        """
        from perhop.lab.enter import become  # which is a program, too

        self._check_host(host)
        become(self.record, host, command)

    def start(self, host: str, command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
        """Start a program in a host; `options` are those of `subprocess.Popen`.

        It ends with exit code 127 if the program does not exist, and 126 if it cannot be executed.

        Raises:
            UsageError: Unknown host.
        """
        self._check_host(host)
        enter = [sys.executable, "-m", "perhop.lab.enter", str(self.record.file), host]
        return subprocess.Popen([*enter, *command], **options)

    def down(self) -> list[str]:
        """End the lab and all programs in it.

        Returns:
            The commands of these programs.
        """
        record = self.record
        own = {name: number for name, number in record.hosts.items() if name not in record.attached}
        held = (f"/proc/{record.pid}/fd/{number}" for number in own.values())
        spaces = {found for path in held if (found := space(path))}
        ended = end_programs(spaces, {record.pid, record.keeper})
        with suppress(PerhopError):
            self._ask({"do": "down"})
        deadline = time.monotonic() + _PATIENCE_S
        while (record.alive or record.kept) and time.monotonic() < deadline:
            time.sleep(0.01)
        for pid, there in ((record.pid, record.alive), (record.keeper, record.kept)):
            if there:
                os.kill(pid, signal.SIGKILL)
        record.end(None)
        return ended

    def _check_host(self, host: str) -> None:
        hosts = self.record.hosts
        if host not in hosts:
            hint = did_you_mean(host, hosts)
            said = f"; {hint}" if hint else listed(hosts)
            raise UsageError(f"{quote(host)} is not a host of the lab{said}")

    def _ask(self, request: Mapping[str, Any], file: int | None = None) -> dict[str, Any]:
        """Send a request to the lab, with a file if given, and return its answer."""
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
                link.settimeout(_PATIENCE_S)
                _connect(link, str(self.record.socket))
                if file is not None:
                    socket.send_fds(link, [b" "], [file])
                link.sendall(json.dumps(request).encode() + b"\n")
                answer = json.loads(b"".join(iter(lambda: link.recv(65536), b"")) or b"null")
        except (OSError, ValueError) as error:
            raise OutputError(
                f"lab {quote(self.name)} does not answer: {error}; see {self.record.log}"
            ) from error
        if not isinstance(answer, dict):
            raise OutputError(f"lab {quote(self.name)} ended unexpectedly; see {self.record.log}")
        if "error" in answer:
            kinds: dict[str, type[PerhopError]] = {
                kind.__name__: kind for kind in (UsageError, UnsupportedError, OutputError)
            }
            raise kinds.get(answer.get("kind", ""), UsageError)(answer["error"])
        return answer


def _connect(link: socket.socket, path: str) -> None:
    """Connect, even if many others do so at the same time."""
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            return link.connect(path)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
