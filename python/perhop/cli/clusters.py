"""The option `--cluster`: runs on a cluster in place of processes of this machine."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from perhop.cli.output import echo

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perhop.workers import Pool

__all__ = ["connected", "option"]

option = click.option(
    "--cluster",
    metavar="WHERE",
    help="Run on a cluster of Dask: the address of a scheduler, tcp://HOST:PORT, or local, "
    "ssh:HOST,HOST, slurm:WORKERS or kubernetes:WORKERS.",
)


@contextmanager
def connected(cluster: str | None, jobs: int | None, engine: str = "sim") -> Iterator[Pool | None]:
    """Connect to the cluster of `option`; None if it is not given.

    Raises:
        UsageError: Runs with real hosts on a cluster, or a number of processes here.
    """
    if cluster is None:
        yield None
        return
    from perhop.cluster import connect
    from perhop.errors import UsageError
    from perhop.rights import REAL_ENGINES

    if jobs is not None:
        raise UsageError("--jobs: is for processes of this machine; remove it, or --cluster")
    if engine in {*REAL_ENGINES, "live"}:
        raise UsageError(
            f"--cluster: runs of engine {engine} side by side would disturb each other; expected "
            "engine sim"
        )

    def say(message: str) -> None:
        echo(f"perhop: {message}", err=True)

    with connect(cluster, say=say) as pool:
        yield pool
