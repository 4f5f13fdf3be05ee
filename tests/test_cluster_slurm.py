"""Runs in jobs of a real Slurm: the same results, and nothing that waits without a word."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import perhop as library
from clusters import SCENARIO
from conftest import DEADLINES, SLOW, Outcome, Start
from perhop import ensembles
from perhop.cluster import connect
from perhop.errors import ClusterError
from slurm import CORES, Slurm

pytestmark = [DEADLINES, SLOW]

OFTEN = "from perhop.cluster import slurm; slurm._LOOK_S = 0.5"
"""Has the queue looked at often. It imports dask_jobqueue before the command listens to signals."""


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    folder = tmp_path_factory.mktemp("slurm")
    with Slurm(folder) as made, pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLURM_CONF", str(made.configuration))
        for key, value in job(made).items():
            patch.setenv(f"DASK_JOBQUEUE__SLURM__{key.replace('-', '_').upper()}", str(value))
        yield made


def job(slurm: Slurm) -> dict[str, Any]:
    """What Dask's configuration says about jobs."""
    log = str(slurm.folder / "log")
    return {"cores": 1, "memory": "1GB", "interface": "lo", "log-directory": log}


def configured(slurm: Slurm, **changed: object) -> Any:
    """Configure Dask in this process, which may have read its environment already."""
    import_module("dask_jobqueue")  # which sets defaults
    settings = {**job(slurm), **changed}
    config = import_module("dask.config")
    return config.set({f"jobqueue.slurm.{key}": value for key, value in settings.items()})


@pytest.fixture
def source(tmp_path: Path) -> str:
    path = tmp_path / "pair.yaml"
    path.write_text(SCENARIO)
    return str(path)


def sweep(source: str, folder: Path) -> list[str]:
    varied = ("--vary", "links.0.rate=5 Mbps,10 Mbps", "--seeds", "100")
    return ["sweep", source, *varied, "--out", str(folder)]


def wait(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_sweep_is_the_same_though_it_is_interrupted_and_all_jobs_end(
    slurm: Slurm, source: str, perhop: Callable[..., Outcome], start: Start, tmp_path: Path
) -> None:
    assert perhop(*sweep(source, tmp_path / "alone")).code == 0
    there = tmp_path / "there"
    command = [*sweep(source, there), "--cluster", f"slurm:{CORES}"]

    def finished() -> int:
        return len([*there.glob("points/*/manifest.json")])

    interrupted = start(*command, start_new_session=True)
    wait(finished)
    os.killpg(interrupted.pid, signal.SIGINT)  # as a terminal sends it
    _, err = interrupted.communicate(timeout=60)
    assert (interrupted.returncode, slurm.jobs()) == (130, []), err
    assert err.endswith("the same command continues the sweep\n")
    before = finished()
    assert 0 < before < 200

    continued = start(*command, prelude=OFTEN)
    wait(lambda: finished() > before)
    slurm.cancel()
    _, err = continued.communicate(timeout=60)
    assert (continued.returncode, slurm.jobs()) == (0, []), err
    assert "a job of Slurm ended; another one takes its place" in err
    tables = [pl.read_parquet(each / "sweep.parquet") for each in (tmp_path / "alone", there)]
    assert tables[0].equals(tables[1])
    for number in map(str, range(200)):
        here = tmp_path / "alone" / "points" / number
        for each in here.glob("*.parquet"):
            assert each.read_bytes() == (there / "points" / number / each.name).read_bytes()


def test_jobs_that_wait_are_told_and_end_with_the_command(
    slurm: Slurm, source: str, start: Start, tmp_path: Path
) -> None:
    node = ("scontrol", "update", "nodename=node")
    slurm.ask(*node, "state=drain", "reason=test")
    try:
        command = [*sweep(source, tmp_path / "there"), "--cluster", "slurm:3"]
        process = start(*command, prelude=OFTEN)
        assert process.stderr is not None
        while "jobs wait in Slurm's queue: " not in process.stderr.readline():
            assert process.poll() is None
        assert len(slurm.jobs()) == 3
        process.terminate()
        process.communicate(timeout=60)
        assert (process.returncode, slurm.jobs()) == (143, [])
    finally:
        slurm.ask(*node, "state=resume")


def test_several_processes_of_a_job_have_a_core_each(slurm: Slurm) -> None:
    with (
        configured(slurm, cores=2),
        connect(f"slurm:{CORES}") as cluster,
    ):
        cluster.client.wait_for_workers(CORES, timeout=60)
        assert [*cluster.client.nthreads().values()] == [1] * CORES
        assert len(slurm.jobs()) == 1


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("queue", "nowhere", "Slurm refuses a job: invalid partition specified: nowhere"),
        ("python", "/bin/false", r"job \d+ ended before it had a worker; see .*\.err"),
        ("memory", None, "configuration has no memory of a job; set jobqueue.slurm in"),
    ],
)
def test_jobs_without_workers_are_an_error(
    slurm: Slurm,
    source: str,
    key: str,
    value: str | None,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("perhop.cluster.slurm._LOOK_S", 0.5)
    with (
        configured(slurm, **{key: value}),
        pytest.raises(ClusterError, match=message),
        connect("slurm:2") as cluster,
    ):
        ensembles.run(library.load(source), 6, cluster=cluster)
    wait(lambda: not slurm.jobs())


def test_a_host_without_slurm_is_told(slurm: Slurm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(slurm.folder))
    with pytest.raises(ClusterError, match="there is no sbatch here"), connect("slurm:2"):
        pass
