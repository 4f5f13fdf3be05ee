"""What perhop and Dask use of asyncssh, but each host is this machine, with two cores."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Generator

QUIET = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}


class Error(Exception):
    pass


class Connection:
    def __init__(self, host: str) -> None:
        self.host = host

    def __await__(self) -> Generator[Any, None, Connection]:
        return self.__aenter__().__await__()

    async def __aenter__(self) -> Connection:
        if self.host == "stranger":
            raise Error("Host key is not trusted")
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    def close(self) -> None:
        pass

    async def run(self, command: str) -> Printed:
        changed = command.replace("nproc", "echo 2" if self.host != "bare" else "false")
        return Printed(await asyncio.to_thread(subprocess.getstatusoutput, changed))

    async def create_process(self, command: str) -> Remote:
        for option in ('"idle_timeout"', '"nthreads"'):
            command = command.replace(option, f'"host": "127.0.0.1", "dashboard": false, {option}')
        return Remote(command)


class Printed:
    def __init__(self, made: tuple[int, str]) -> None:
        self.exit_status, self.stdout = made


class Remote:
    def __init__(self, command: str) -> None:
        self.started = subprocess.Popen(
            ["sh", "-c", command], stderr=subprocess.PIPE, text=True, process_group=0, **QUIET
        )
        self.stderr = self

    async def readline(self) -> str:
        assert self.started.stderr is not None
        return await asyncio.to_thread(self.started.stderr.readline)

    def kill(self) -> None:
        if self.started.returncode is None:
            os.killpg(self.started.pid, signal.SIGKILL)
            self.started.communicate()


def module() -> ModuleType:
    made = ModuleType("asyncssh")
    vars(made).update(connect=Connection, Error=Error)
    return made
