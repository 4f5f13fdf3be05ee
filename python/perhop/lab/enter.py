"""`python -m perhop.lab.enter RECORD HOST COMMAND…`: a command in a host of a lab."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from perhop._core import Namespaces
from perhop.errors import OutputError, PerhopError
from perhop.lab.programs import not_run
from perhop.lab.record import Record
from perhop.printable import printable_lines
from perhop.units import quote

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["become"]


def become(record: Record, host: str, command: Sequence[str]) -> NoReturn:
    """Become a command in a host of a lab.

    Args:
        record: The lab.
        host: The host.
        command: The program and its arguments.

    Raises:
        OutputError: The lab is gone, this process may not enter it, or it has no `/etc/hosts`.
        CommandError: There is no such program, or it may not be run.
    """
    replaced = {
        "/etc/hosts": record.names,
        "/etc/resolv.conf": record.resolver,
        "/etc/gai.conf": record.preferences,
    }
    # A mount needs a file to replace.
    if not Path("/etc/hosts").exists():
        raise OutputError(
            f"{quote(host)} of lab {quote(record.name)} cannot have the names of the lab's hosts: "
            "this system has no /etc/hosts to put them in place of; make one: touch /etc/hosts"
        )
    files = [
        (str(file), place)
        for place, file in replaced.items()
        if file.exists() and Path(place).exists()
    ]
    try:
        Namespaces.join(record.pid, record.hosts[host], host, files)
    except OSError as error:
        raise OutputError(
            f"cannot enter {quote(host)} of lab {quote(record.name)}: {error.strerror or error}"
        ) from error
    # The lab's keeper ends all processes in hosts when the lab ends: none may enter later.
    if not record.alive:
        raise OutputError(f"lab {quote(record.name)} has just ended")
    # Python ignores it, and what is ignored stays so for the command.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        os.execvp(command[0], list(command))
    except (OSError, ValueError) as error:
        raise not_run(command[0], error) from error


if __name__ == "__main__":
    try:
        become(Record.read(sys.argv[1]), sys.argv[2], sys.argv[3:])
    except PerhopError as error:
        print(printable_lines(f"perhop: {error}"), file=sys.stderr)
        sys.exit(error.exit_code)
