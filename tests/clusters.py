"""A scheduler and workers of Dask as processes of this host, on the loopback device."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from pathlib import Path

SCENARIO = """
perhop: 1
name: pair
nodes: {a: host, b: host}
links: [{ends: [a, b], rate: 10 Mbps, loss: 1%}]
flows:
  tcp: {from: a, to: b, stop: 300 ms}
"""
"""A short run, whose results depend on the seed."""

QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


class Dask:
    """A scheduler and workers, which end with the block.

    Dask's configuration can be in the same folder.
    """

    def __init__(self, folder: Path, protocol: str = "tcp") -> None:
        self.folder = folder
        self.protocol = protocol
        self.port = 0
        self.scheduler: subprocess.Popen[bytes] | None = None
        self.workers: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        try:
            self.begin()
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    @property
    def address(self) -> str:
        return f"{self.protocol}://127.0.0.1:{self.port}"

    def end(self) -> None:
        """Kill everything."""
        for each in (*self.workers, self.scheduler):
            if each is not None:
                each.kill()
                each.wait()

    def begin(self, workers: int = 2) -> None:
        """Start a scheduler, where an earlier one was, and workers."""
        facts = self.folder / "scheduler.json"
        facts.unlink(missing_ok=True)
        place = ("--host", "127.0.0.1", "--port", str(self.port), "--scheduler-file", str(facts))
        protocol = ("--protocol", self.protocol)
        self.scheduler = self._start("scheduler", *place, *protocol, "--no-dashboard")
        self.workers = []
        for _ in range(workers):
            self.add()
        deadline = time.monotonic() + 30
        while not facts.exists() or not facts.read_text():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        self.port = int(json.loads(facts.read_text())["address"].rpartition(":")[2])

    def add(self) -> None:
        """Start a worker, which waits for the file of its scheduler."""
        facts = ("--scheduler-file", str(self.folder / "scheduler.json"))
        options = ("--nthreads", "1", "--no-dashboard", "--no-nanny", "--host", "127.0.0.1")
        self.workers.append(self._start("worker", *facts, *options))

    def _start(self, what: str, *options: str) -> subprocess.Popen[bytes]:
        program = [sys.executable, "-m", "dask", what, *options]
        environment = {**os.environ, "DASK_CONFIG": str(self.folder)}
        return subprocess.Popen(program, cwd=self.folder, env=environment, **QUIET)
