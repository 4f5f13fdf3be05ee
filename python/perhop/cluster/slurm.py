"""Workers of Dask in jobs of Slurm.

Dask's `SLURMCluster` submits jobs once, and neither tells that `sbatch` refuses one nor that a job
has ended. Here jobs that end are replaced, and jobs that cannot have workers are errors.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from dask import config
from dask_jobqueue import SLURMCluster
from dask_jobqueue.slurm import SLURMJob
from distributed.deploy.spec import ProcessInterface

from perhop.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["start"]

_LOOK_S: Final = 10.0
"""Interval between looks at Slurm's queue."""

_ANSWER_S: Final = 60.0
"""The seconds within which `squeue` is to answer."""


def start(number: int) -> Jobs:
    """Submit jobs with some workers; the scheduler is in this process.

    Args:
        number: The number of workers, each of one thread.

    Raises:
        ClusterError: Slurm is not installed, or Dask's configuration does not describe a job.
    """
    if shutil.which("sbatch") is None:
        raise ClusterError("there is no sbatch here; run perhop on a host that submits jobs")
    described = config.get("jobqueue.slurm")
    lacking = [key for key in ("cores", "memory") if described.get(key) is None]
    if lacking:
        raise ClusterError(
            f"Dask's configuration has no {' and '.join(lacking)} of a job; set jobqueue.slurm in "
            "~/.config/dask/jobqueue.yaml"
        )
    processes = int(described.get("processes") or described["cores"])
    # Two commands on one host cannot have the dashboard at the same port.
    options = {"dashboard_address": ":0", **(described.get("scheduler-options") or {})}
    return Jobs(n_workers=number, processes=processes, scheduler_options=options)


class _Job(SLURMJob):  # type: ignore[misc]
    """A job that may be refused.

    Attributes:
        refused: The words of `sbatch`, if it refused the job.
    """

    refused = ""

    async def start(self) -> None:
        """Submit the job."""
        try:
            await super().start()
        except (OSError, RuntimeError, ValueError) as error:
            # Dask's message has the standard error of the command at its end.
            said = str(error).rpartition("stderr:\n")[2].splitlines()
            words = (re.sub(r"^sbatch: (error|fatal): ", "", each) for each in said)
            self.refused = "; ".join(filter(None, words))
            await ProcessInterface.start(self)

    async def close(self) -> None:
        """Cancel the job."""
        await super().close()
        await ProcessInterface.close(self)  # which Dask's class forgets


class Jobs(SLURMCluster):  # type: ignore[misc]
    """A scheduler in this process, and jobs of Slurm with workers."""

    job_cls = _Job

    def __init__(self, **options: Any) -> None:
        """Start the scheduler, and submit jobs."""
        self._next_look = 0.0
        self._with_workers: set[str] = set()
        self._said = ""
        self._numbers = count()
        super().__init__(**options)
        self._wanted = len(self.worker_spec)

    def look(self, say: Callable[[str], None]) -> None:
        """Replace jobs that have ended after their workers had begun, as by their `walltime`.

        Args:
            say: A function for messages about jobs that wait or have failed.

        Raises:
            ClusterError: No job is left: each was refused, or ended before its worker had begun.
        """
        workers = [str(each["name"]) for each in [*self.scheduler_info["workers"].values()]]
        # Several workers of a job have its name and their numbers.
        self._with_workers |= {*workers, *(each.rpartition("-")[0] for each in workers)}
        now = time.monotonic()
        jobs = dict(self.workers)
        if now < self._next_look or not jobs:
            return
        self._next_look = now + _LOOK_S
        queue = {} if all(job.refused for job in jobs.values()) else _queue()
        failed: list[str] = []
        ended: list[str] = []
        for name, job in jobs.items():
            if job.refused:
                failed.append(f"Slurm refuses a job: {job.refused}")
            elif queue is None or job.job_id in queue:
                continue  # without an answer of Slurm, it may go on
            elif name not in self._with_workers:
                output = f"slurm-{job.job_id}.out"
                if job.log_directory:
                    output = f"{job.log_directory}/{job.job_name}-{job.job_id}.err"
                failed.append(f"job {job.job_id} ended before it had a worker; see {output}")
            ended.append(name)
        self._wanted -= len(failed)
        if failed and not self._wanted:
            raise ClusterError(f"{failed[0]}; no other job is left")
        for each in dict.fromkeys(failed):
            say(each)
        self.sync(self._forget, ended)
        if len(ended) > len(failed):
            say("a job of Slurm ended; another one takes its place")
        # Dask forgets a job by itself, too, if its worker is lost for long.
        self.scale(jobs=self._wanted)
        known = [(queue or {}).get(job.job_id, ("", "")) for job in jobs.values()]
        reasons = sorted({why for state, why in known if state == "PENDING" and why != "None"})
        words = f"jobs wait in Slurm's queue: {', '.join(reasons)}" if reasons else ""
        if words and not workers and words != self._said:
            say(words)
        self._said = words

    async def _forget(self, ended: Iterable[str]) -> None:
        """Forget jobs that have ended; `scale_down` would ask their workers to retire."""
        for name in ended:
            self.workers.pop(name, None)
            self.worker_spec.pop(name, None)

    def _new_worker_name(self, _: int) -> str:
        """Return a name that no earlier job had: the scheduler may know its workers for long."""
        return f"job-{next(self._numbers)}"


def _queue() -> dict[str, tuple[str, str]] | None:
    """Return state and reason of each job of this user by its number; None without an answer."""
    asked = ["squeue", "--noheader", f"--user={os.getuid()}", "--format=%i %T %r"]
    try:
        printed = subprocess.run(
            asked, capture_output=True, text=True, timeout=_ANSWER_S, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    lines = (line.split(maxsplit=2) for line in printed.splitlines())
    return {number: (state, reason) for number, state, reason in lines}
