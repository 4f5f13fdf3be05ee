"""A cluster of Slurm with one node, as processes of this host on the loopback device."""

from __future__ import annotations

import getpass
import os
import secrets
import socket
import subprocess
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Self

from tools import need

if TYPE_CHECKING:
    from pathlib import Path

CORES = 2


class Slurm:
    """A cluster, whose jobs and services end with the block."""

    def __init__(self, folder: Path) -> None:
        need("munged", "slurmctld", "slurmd", "sbatch")
        self.folder = folder
        self.configuration = folder / "slurm.conf"
        self._services: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        key = self.folder / "munge.key"
        key.write_bytes(secrets.token_bytes(1024))
        key.chmod(0o400)
        with ExitStack() as taken:
            sockets = [taken.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in "ab"]
            controller, node = (each.getsockname()[1] for each in sockets)
        self.configuration.write_text(self._configured(controller, node))
        munge = {"key-file": key.name, "socket": "munge", "log-file": "munge.log"}
        munge |= {"pid-file": "munge.pid", "seed-file": "munge.seed"}
        named = (f"--{option}={self.folder / name}" for option, name in munge.items())
        try:
            # By force, because others cannot reach the folder.
            self._start("munged", "--foreground", "--force", *named)
            self._start("slurmctld", "-D")
            self._start("slurmd", "-D", "-N", "node")
            self._until("idle", "sinfo", "--noheader", "--format=%T")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.cancel()
            self._until("", "squeue", "--noheader")
        finally:
            for each in reversed(self._services):
                each.terminate()
            for each in self._services:
                each.wait(30)

    def jobs(self) -> list[str]:
        """The numbers of jobs that wait or run."""
        return self.ask("squeue", "--noheader", "--format=%i").split()

    def cancel(self) -> None:
        """Cancel all jobs."""
        self.ask("scancel", f"--user={os.getuid()}")

    def ask(self, *command: str) -> str:
        """Return what a program of Slurm prints."""
        environment = {**os.environ, "SLURM_CONF": str(self.configuration)}
        return subprocess.run(
            command, env=environment, stdout=subprocess.PIPE, text=True, timeout=30, check=False
        ).stdout

    def _until(self, expected: str, *command: str) -> None:
        deadline = time.monotonic() + 30
        while (printed := self.ask(*command).strip()) != expected:
            assert time.monotonic() < deadline, printed
            time.sleep(0.1)

    def _start(self, *program: str) -> None:
        environment = {**os.environ, "SLURM_CONF": str(self.configuration)}
        with (self.folder / f"{program[0]}.out").open("wb") as out:
            started = subprocess.Popen(
                program, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out
            )
        self._services.append(started)

    def _configured(self, controller: int, node: int) -> str:
        (self.folder / "state").mkdir()
        return f"""
ClusterName=perhop
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={node}
SlurmUser={getpass.getuser()}
SlurmdUser={getpass.getuser()}
AuthType=auth/munge
AuthInfo=socket={self.folder}/munge
StateSaveLocation={self.folder}/state
SlurmdSpoolDir={self.folder}/spool
SlurmctldPidFile={self.folder}/slurmctld.pid
SlurmdPidFile={self.folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
ReturnToService=2
KillWait=1
SlurmdParameters=config_overrides
NodeName=node NodeAddr=127.0.0.1 NodeHostname=localhost Port={node} CPUs={CORES} RealMemory=4000
PartitionName=all Nodes=node Default=YES State=UP
"""
