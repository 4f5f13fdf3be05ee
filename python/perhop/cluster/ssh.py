"""A scheduler and workers of Dask on machines that SSH reaches.

Dask's `SSHCluster` starts as many processes on each machine. Here each machine has one for each of
its cores.
"""

from __future__ import annotations

import asyncio
import sys
from shlex import quote
from typing import TYPE_CHECKING, Any, Final

from perhop.cluster.coroutines import result_of
from perhop.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["IDLE_S", "start"]

IDLE_S: Final = 3600
"""The seconds after which a scheduler without runs ends, with its workers: its command was
killed."""


def start(hosts: Sequence[str], asyncssh: Any) -> Any:
    """Start a scheduler on the first of some hosts, and workers on all of them.

    Args:
        hosts: The hosts, as SSH's configuration names them.
        asyncssh: The module, which perhop does not need otherwise.

    Raises:
        ClusterError: A host does not answer, or does not have this Python.
    """
    from distributed.deploy import spec
    from distributed.deploy.ssh import Scheduler, Worker

    numbers = result_of(_all_cores(hosts, asyncssh))

    def described(cls: type, host: str, **options: Any) -> dict[str, Any]:
        return {"cls": cls, "options": {"address": host, "connect_options": {}, "kwargs": options}}

    scheduler = described(Scheduler, hosts[0], idle_timeout=f"{IDLE_S} s")
    workers = {
        number: described(Worker, host, nthreads=1, n_workers=cores)
        for number, (host, cores) in enumerate(zip(hosts, numbers, strict=True))
    }
    start: Any = spec.SpecCluster  # which has no types
    return start(workers, scheduler, name="SSH")


async def _all_cores(hosts: Sequence[str], asyncssh: Any) -> list[int]:
    return await asyncio.gather(*(_cores(host, asyncssh) for host in hosts))


async def _cores(host: str, asyncssh: Any) -> int:
    python = quote(sys.executable)  # which Dask uses there, too
    try:
        async with asyncssh.connect(host) as connection:
            printed = await connection.run(f"test -x {python} && nproc")
    except (OSError, asyncssh.Error) as error:
        raise ClusterError(f"{host}: {error}") from error
    if printed.exit_status:
        raise ClusterError(f"{host} has no {sys.executable}: install perhop[cluster] there")
    return int(printed.stdout)
