"""`python -m perhop.lab.enter PID FD HOSTS COMMAND…`: a command in a host of a lab."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING, NoReturn

from perhop._core import Namespaces

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["become"]


def become(pid: int, link: int, hosts: str, command: Sequence[str]) -> NoReturn:
    """Become a command in the namespace to which a process holds a file descriptor.

    Args:
        pid: The process.
        link: Its file descriptor.
        hosts: The file that takes the place of /etc/hosts.
        command: The program and its arguments.

    Raises:
        OSError: If there is no such namespace, or no such command, which it then names.
    """
    Namespaces.join(pid, link, hosts)
    # Python ignores it, and what is ignored stays so for the command.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    os.execvp(command[0], list(command))


if __name__ == "__main__":
    try:
        become(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4:])
    except OSError as error:
        sys.exit(f"{sys.argv[4]}: {error.strerror}")
