"""Policies of Linux machines over SSH: commands of tc and nft, with a way back.

One shell on the machine does all (`linux.sh`): it sets the policy, prints the state of tc and nft,
and waits for the word to keep it. Without that word, it restores the policy of the push before, or
the queues that the kernel gives interfaces by itself. So the machine finds its way back by itself
if the connection breaks.
"""

from __future__ import annotations

import re
import secrets
import shlex
import time
from contextlib import suppress
from importlib import resources
from typing import TYPE_CHECKING, Final

from perhop.errors import UsageError
from perhop.printable import printable
from perhop.routers.pushing.errors import PushError
from perhop.routers.pushing.transaction import Outcome
from perhop.routers.reading import Source
from perhop.routers.reading.linux import read
from perhop.units import DURATION, RATE, SHARE, SIZE

if TYPE_CHECKING:
    from collections.abc import Callable

    import paramiko

    from perhop.routers.pushing.target import Target

__all__ = ["FOLDER", "Machine", "set_policy"]

FOLDER: Final = "/run/perhop-push"
"""The folder on the machine that has the policy of the last push, until the machine restarts."""

MAX_OUTPUT: Final = 2**23
"""The most that is taken from a machine, in bytes."""

_BLOCK: Final = 2**16
_TOLERANCE: Final = 0.02
_DEVICE: Final = re.compile(r"^qdisc add dev (\S+) root ", re.MULTILINE)
_OTHER: Final = re.compile(r"^(?:ip (?:route|rule)|sysctl) .*$", re.MULTILINE)
_REFUSED, _RESTORED = 3, 4


class Machine:
    """A Linux machine on an SSH connection.

    Attributes:
        promise: What the machine does if the connection fails now, for messages; "" for nothing.
    """

    def __init__(self, client: paramiko.SSHClient, target: Target, timeout: float) -> None:
        """Take a connection, and the longest wait for an answer in seconds."""
        self.target = target
        self._client = client
        self._timeout = timeout
        self._channel: paramiko.Channel | None = None
        self._buffer = b""
        self.promise = ""

    def start(self, command: str) -> None:
        """Start a command."""
        self._buffer = b""
        try:
            transport = self._client.get_transport()
            assert transport is not None
            self._channel = transport.open_session(timeout=self._timeout)
            self._channel.settimeout(self._timeout)
            self._channel.set_combine_stderr(True)
            self._channel.exec_command(command)
        except Exception as error:
            raise self._failed(error) from None

    def send(self, text: str) -> None:
        """Send standard input to the command; one that has ended does not get it."""
        assert self._channel is not None
        with suppress(OSError, EOFError):
            self._channel.sendall(text.encode())
            self._channel.shutdown_write()

    def until(self, marker: str) -> tuple[str, bool]:
        """Return what the command prints, up to a line or to its end, and whether the line came."""
        assert self._channel is not None
        line = f"{marker}\n".encode()
        deadline = time.monotonic() + 2 * self._timeout
        while line not in self._buffer:
            if len(self._buffer) > MAX_OUTPUT or time.monotonic() > deadline:
                raise PushError(f"{self.target}: prints without end{self.promise}")
            try:
                block = self._channel.recv(_BLOCK)
            except Exception as error:
                raise self._failed(error) from None
            if not block:
                said, self._buffer = self._buffer, b""
                return said.decode(errors="replace"), False
            self._buffer += block
        before, _, self._buffer = self._buffer.partition(line)
        return before.decode(errors="replace"), True

    def ended(self) -> tuple[int, str]:
        """Wait for the end of the command, and return its exit code and what it still prints."""
        assert self._channel is not None
        said, _ = self.until("== no such line")
        deadline = time.monotonic() + self._timeout
        while not self._channel.exit_status_ready():
            if time.monotonic() > deadline:
                raise self._failed(TimeoutError())
            time.sleep(0.01)
        code = self._channel.recv_exit_status()
        if code < 0:
            raise self._failed(ConnectionError("it broke"))
        return code, said

    def run(self, command: str, given: str = "") -> tuple[int, str]:
        """Run a command, and return its exit code and what it prints."""
        self.start(command)
        self.send(given)
        return self.ended()

    def _failed(self, error: BaseException) -> PushError:
        reason = str(error) or f"no answer within {self._timeout:g} s"
        said = f"the connection fails: {_one_line(reason)}"
        return PushError(f"{self.target}: {said}{self.promise}")


def set_policy(
    machine: Machine,
    text: str,
    *,
    seconds: int,
    approve: Callable[[tuple[str, ...]], bool],
    dry: bool = False,
) -> Outcome:
    """Set the policy of a Linux machine, and keep it if it reads back as the same.

    Args:
        machine: The machine.
        text: The commands as `perhop.routers.writing` writes them, for one machine.
        seconds: The time after which the machine restores what was there.
        approve: Called with the changes of commands; False leaves the machine as it is.
        dry: True to change nothing.

    Raises:
        PushError: If the machine does not have the policy; the message says what it has.
        UsageError: If the commands are more than a policy.
    """
    devices = _DEVICE.findall(text)
    if other := _OTHER.search(text):
        raise UsageError(
            f"--push sets queues and marks only, not routes: {other[0]}; expected a router without "
            "parallel links"
        )
    new = f"{FOLDER}/new-{secrets.token_hex(8)}"
    code, said = machine.run(f"umask 077; mkdir -p {FOLDER} && cat > {new}", text)
    if code:
        raise PushError(f"{machine.target}: cannot write to {FOLDER}: {_one_line(said)}")
    _start(machine, devices, new, 0)
    pushed, marked = machine.until("== state")
    code, state = machine.ended()
    if code or not marked:
        raise PushError(f"{machine.target}: {_one_line(pushed or state)}; nothing was changed")
    changes = _changes(pushed, text)
    same = not changes and not _differences(text, state)
    if not same and not changes:
        changes = tuple(f"+{line}" for line in _commands(text))
    state = "unchanged" if same else "dry run" if dry else ""
    if not state and not approve(changes):
        state = "not approved"
    if state:
        machine.run(f"rm -f {new}")
        return Outcome(state, changes)
    machine.promise = f"; the machine restores its previous queues within {seconds} s"
    _start(machine, devices, new, seconds)
    said, applied = machine.until("== applied")
    if not applied:
        code, _ = machine.ended()
        said = said.partition("== failed\n")[2] or said
        raise PushError(f"{machine.target}: refuses the policy: {_one_line(said)}; {_has(code)}")
    if found := _differences(text, said):
        machine.send("undo\n")
        code, _ = machine.ended()
        raise PushError(
            f"{machine.target}: reads back another policy: {_one_line(found)}; {_has(code)}"
        )
    machine.send("keep\n")
    code, said = machine.ended()
    if code:
        raise PushError(f"{machine.target}: was not confirmed in time; {_has(code)}")
    return Outcome("set", changes)


def _start(machine: Machine, devices: list[str], new: str, seconds: int) -> None:
    """Start the script of a push; with 0 seconds, one that only prints what is there."""
    script = resources.files("perhop.routers.pushing").joinpath("linux.sh").read_text("utf-8")
    given = (
        f"devices={shlex.quote(' '.join(devices))} folder={FOLDER} new={new} seconds={seconds}\n"
    )
    machine.start(f"exec sh -c {shlex.quote(given + script)}")
    if not seconds:
        machine.send("")


def _has(code: int) -> str:
    if code == _REFUSED:
        return "nothing was changed"
    if code == _RESTORED:
        return "the machine has its previous queues"
    return f"the previous queues could not be restored: see {FOLDER}/trouble on the machine"


def _commands(text: str) -> list[str]:
    """Return the commands of a script."""
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def _changes(before: str, after: str) -> tuple[str, ...]:
    old, new = _commands(before), _commands(after)
    return (
        *(f"-{line}" for line in old if line not in new),
        *(f"+{line}" for line in new if line not in old),
    )


def _differences(text: str, state: str) -> str:
    """Return how the policies in the state of a machine differ from those of a script; "" if not.

    The kernel rounds rates and bursts, so that numbers may differ by 2%.
    """
    wanted, found = _policies(text), _policies(state)
    for at, policy in wanted.items():
        if at not in found:
            return f"no policy at {at[0]}, direction {at[1]}"
        if place := _unlike(policy, found[at]):
            return f"at {at[0]}, direction {at[1]}, {place}"
    return ""


def _policies(text: str) -> dict[tuple[str, str], object]:
    found = read([Source("machine", text)])
    return {
        (each.interface, each.direction): {"policy": each.policy, "shape": each.shape}
        for each in found.attachments
        if each.interface
    }


def _unlike(wanted: object, found: object, place: str = "") -> str:
    """Return the first difference of two policies, with its place."""
    if isinstance(wanted, dict) and isinstance(found, dict) and list(wanted) == list(found):
        pairs = [(f"{place}.{key}", wanted[key], found[key]) for key in wanted]
    elif isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        pairs = [(place, *pair) for pair in zip(wanted, found, strict=True)]
    elif wanted == found or _near(str(wanted), str(found)):
        return ""
    else:
        return f"{place.removeprefix('.policy.').removeprefix('.')}: {found}, not {wanted}"
    return next(filter(None, (_unlike(one, other, where) for where, one, other in pairs)), "")


def _near(wanted: str, found: str) -> bool:
    for quantity in (RATE, SIZE, DURATION, SHARE):
        try:
            one, other = quantity.parse(wanted), quantity.parse(found)
        except ValueError:
            continue
        return abs(one - other) <= _TOLERANCE * max(one, other)
    return False


def _one_line(text: str) -> str:
    said = "; ".join(line.strip() for line in text.splitlines() if line.strip())
    return printable(said if len(said) <= 400 else f"{said[:399]}…")
