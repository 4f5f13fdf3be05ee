"""`python -m perhop.lab.process NAME FOLDER`: the processes of a lab.

There are two. One holds the lab. The other, its keeper, waits for the end of that, whatever ends
it, ends what then still runs in the hosts, and writes down how the lab ended. If the keeper ends
first, the lab ends by itself.

Standard input has JSON: the scenario, and the options of `perhop.lab.up`. Standard output gets one
line of JSON once the lab is up, or once it is known that it will not be; after that only the log is
used.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
import traceback
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from perhop import rights
from perhop.errors import PerhopError
from perhop.lab.programs import Space, end_programs, space
from perhop.lab.record import Record, began
from perhop.printable import printable

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["main"]

_LONGEST: Final = 2**20
"""Bytes of a message to the keeper."""


def main() -> None:
    """Start a lab, and become its keeper."""
    if os.fork():
        os._exit(0)  # the process that starts a lab may end before it
    name, folder = sys.argv[1:]
    asked = json.load(sys.stdin)
    tell = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def say(answer: dict[str, object]) -> None:
        with tell:
            json.dump(answer, tell)

    own = os.getpid()
    record = Record(
        name=name,
        scenario=str(asked["scenario"].get("name")),
        folder=folder,
        since=time.time(),
        keeper=own,
        keeper_started=began(own) or 0,
        pid=own,
        started=began(own) or 0,
        hosts={},
        attached=[],
        state="starting",
    )
    try:
        record.claim()
    except PerhopError as error:
        say(_error(error))
        return
    with record.log.open("wb") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if not pid:
        ours.close()
        os.close(tell.fileno())
        _hold(record, asked, theirs)
    theirs.close()
    _keep(record, pid, ours, say)


def _keep(
    record: Record, pid: int, lab: socket.socket, say: Callable[[dict[str, object]], None]
) -> None:
    """Wait for the end of a lab that is held by process `pid`, and clean up."""
    os.setsid()  # what is sent to the lab's group does not reach its keeper

    def forward(number: int, _frame: object) -> None:
        with suppress(OSError):
            os.kill(pid, number)

    signal.signal(signal.SIGTERM, forward)
    signal.signal(signal.SIGINT, forward)
    how: str | None = ""
    held: list[int] = []
    answer: dict[str, object] | None = None
    with lab:
        while message := _receive(lab):
            if "hosts" in message:
                # Held open, so that no other namespaces have the same numbers when the lab is gone.
                hosts, attached = message["hosts"], message["attached"]
                held = [_open(pid, hosts[name]) for name in hosts if name not in attached]
                record.set_running(pid, hosts, attached)
                try:
                    say({"pid": pid})
                except OSError:  # the process that started it is gone, and has not got its answer
                    forward(signal.SIGTERM, None)
            elif "error" in message:
                answer = message
            else:
                how = message["ended"]
    _, status = os.waitpid(pid, 0)
    end_programs(_spaces(held))
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        how = f"its process was killed by signal {number} ({_signal_name(number)})"
    elif how == "":
        how = f"its process failed; {record.log} says why"
    record.end(None if answer else how)
    with suppress(ValueError, OSError):  # unless it was up
        say(answer or {"error": f"the lab did not start: {how}", "kind": "OutputError"})


def _hold(record: Record, asked: dict[str, Any], keeper: socket.socket) -> None:
    """Hold a lab until it is taken down, a signal ends it, or its keeper is gone."""
    signals: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: signals.append(number))
    signal.signal(signal.SIGINT, lambda number, _: signals.append(number))

    def report(message: dict[str, object]) -> None:
        with suppress(OSError):
            keeper.send(json.dumps(message).encode())

    server = None
    how: str | None = ""
    code = 0
    try:
        rights.enable()
        # These imports start threads, which could not follow into a user namespace.
        from perhop.lab.outside import Outside
        from perhop.lab.server import ALONE, Server, serve
        from perhop.scenario import Scenario

        scenario = Scenario.model_validate(asked["scenario"])
        outside = Outside.parse(asked["outside"])
        server = Server(record, scenario, asked["seed"], asked["congestion_control"], outside)
        up: dict[str, object] = {"hosts": server.hosts, "attached": server.attached}
        how = serve(server, keeper, signals, lambda: report(up))
        report({"ended": how})
    except PerhopError as error:
        report(_error(error))
        code = error.exit_code
    except BaseException as error:
        traceback.print_exc()
        report({"ended": f"{type(error).__name__}: {error}; {record.log} says where"})
        code = 1
    finally:
        if server is not None:
            if how == ALONE:
                own = (server.hosts[name] for name in server.hosts if name not in server.attached)
                end_programs(_spaces(own))
                record.end(how)
            server.close()
    sys.stderr.flush()
    os._exit(code)


def _receive(lab: socket.socket) -> dict[str, Any] | None:
    """Return the next message of the lab; None if its process has ended."""
    try:
        said = lab.recv(_LONGEST)
    except OSError:
        return None
    return json.loads(said) if said else None


def _open(pid: int, number: int) -> int:
    """Open a namespace of process `pid` by its number; -1 if that is not allowed."""
    try:
        return os.open(f"/proc/{pid}/fd/{number}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        print(printable(f"programs in a host will not be ended: {error}"), file=sys.stderr)
        return -1


def _spaces(held: Any) -> set[Space]:
    """Return the namespaces behind file descriptors of this process."""
    return {found for number in held if (found := space(f"/proc/self/fd/{number}"))}


def _error(error: PerhopError) -> dict[str, object]:
    return {"error": str(error), "kind": type(error).__name__}


def _signal_name(number: int) -> str:
    with suppress(ValueError):
        return signal.Signals(number).name
    return "unknown"


if __name__ == "__main__":
    main()
