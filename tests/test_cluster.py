"""Runs on clusters: the same results as on this machine, whatever dies."""

import json
import os
import pickle
import re
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import FunctionType, ModuleType, SimpleNamespace

import fsspec
import pytest
from moto.server import ThreadedMotoServer

import perhop as library
import ssh
from clusters import Dask
from conftest import DEADLINES, REAL_HOSTS, SLOW, Outcome, Start
from perhop import ensembles, experiments, gallery, search, testing
from perhop.cli.clusters import connected
from perhop.cluster import calls, connect, pool
from perhop.dataset import Dataset
from perhop.dataset.ensembles import replacing
from perhop.errors import ClusterError, OutputError, UnsupportedError, UsageError
from perhop.report.output import save_ensemble
from perhop.stores import Place, place
from perhop.sweep import Sweep
from perhop.workers import signals_blocked

pytestmark = [DEADLINES, SLOW]

SCENARIO = """
perhop: 1
name: dumbbell
nodes: {a: host, r: router, b: host}
links:
  - {ends: [a, r], rate: 100 Mbps}
  - {ends: [r, b], rate: 10 Mbps, loss: 0.1%}
flows:
  udp: {from: a, to: b, udp: {rate: 2 Mbps}, stop: 300 ms}
  tcp: {from: a, to: b, stop: 300 ms}
expect:
  - {throughput: tcp, at_least: 1 Mbps}
"""


@pytest.fixture(scope="module")
def store() -> Iterator[str]:
    """A bucket of an S3 server on the loopback device, which this process and others find."""
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        patch.setenv("AWS_ACCESS_KEY_ID", "key")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        fsspec.filesystem("s3").mkdir("runs")
        yield "s3://runs"
    server.stop()


@pytest.fixture(scope="module")
def dask(store: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dask]:
    del store  # which workers find in their environment
    with Dask(tmp_path_factory.mktemp("dask")) as made:
        yield made


@pytest.fixture
def source(tmp_path: Path) -> str:
    path = tmp_path / "dumbbell.yaml"
    path.write_text(SCENARIO)
    return str(path)


def swept(source: str, folder: Place, seeds: int = 15) -> Sweep:
    rates = {"links.1.rate": ["5 Mbps", "10 Mbps"]}
    return Sweep(source, rates, folder, seeds=range(1, 1 + seeds))


def files(point: Place) -> dict[str, object]:
    """The files of a dataset, without what differs between two runs."""
    contents: dict[str, object] = {each.name: each.read_bytes() for each in point.iterdir()}
    manifest = json.loads((point / "manifest.json").read_bytes())
    varying = ("started", "wall_s")
    return {**contents, "manifest.json": {k: v for k, v in manifest.items() if k not in varying}}


def test_a_sweep_is_the_same_though_workers_and_the_scheduler_die(
    dask: Dask, source: str, tmp_path: Path
) -> None:
    alone = swept(source, tmp_path / "alone").run(jobs=1)
    sweep = swept(source, tmp_path / "cluster")

    def disturb(done: int, _: int) -> None:
        if done >= 5:
            dask.workers[0].kill()
        if done >= 12:
            assert dask.scheduler is not None
            dask.scheduler.kill()

    said: list[str] = []
    message = "does not answer; start it again"
    with (
        connect(dask.address, say=said.append) as cluster,
        pytest.raises(ClusterError, match=message),
    ):
        sweep.run(cluster=cluster, watch=disturb)
    dask.end()
    dask.begin(workers=1)
    starts: list[int] = []
    with connect(dask.address) as cluster:
        together = sweep.run(cluster=cluster, watch=lambda done, _: starts.append(done))
    assert 12 <= starts[0] < 30
    assert together.equals(alone)
    for number in range(30):
        one, other = (tmp_path / who / "points" / str(number) for who in ("alone", "cluster"))
        assert files(one) == files(other), number


def whole(points: Place) -> list[Place]:
    return [each for each in points.iterdir() if (each / "manifest.json").exists()]


def test_a_sweep_in_an_object_store_continues(
    dask: Dask, store: str, source: str, start: Start, tmp_path: Path
) -> None:
    alone = swept(source, tmp_path / "alone", 4).run(jobs=1)
    there = place(f"{store}/{tmp_path.name}")
    sweep = swept(source, there, 4)
    varied = ("--vary", "links.1.rate=5 Mbps,10 Mbps", "--seeds", "4", "--out", str(there))
    process = start("sweep", source, *varied, "--cluster", dask.address)
    while not (made := whole(there / "points")):
        assert process.poll() is None
        time.sleep(0.1)
    process.kill()
    process.wait()
    one = made[0]
    with connect(dask.address) as cluster:
        # A worker that died while it wrote: no manifest; and a table that is not whole.
        fsspec.filesystem("s3").rm_file(f"{one}/manifest.json")
        (one / "links.parquet").write_bytes(b"PAR1")
        with pytest.raises(OutputError, match="is not a dataset"):
            Dataset.read(str(one))
        table = sweep.run(cluster=cluster)
    assert table.equals(alone)
    assert swept(source, there, 4).table().equals(alone)
    for number in range(8):
        points = (tmp_path / "alone" / "points", there / "points")
        assert files(points[0] / str(number)) == files(points[1] / str(number)), number
    with pytest.raises(OutputError, match="holds another sweep"):
        swept(source, there, 5).run(jobs=1)
    with pytest.raises(OutputError, match=r"cannot write s3://none/sweep.*bucket does not exist"):
        swept(source, place("s3://none/sweep"), 4).run(jobs=1)


def test_runs_and_ensembles_are_kept_in_an_object_store(
    dask: Dask, store: str, source: str, perhop: Callable[..., Outcome], tmp_path: Path
) -> None:
    there = f"{store}/{tmp_path.name}"
    there_too = ("--cluster", dask.address)
    for more, name, cluster in (
        ((), "run", ()),
        (("--seeds", "6"), "seeds", ()),
        (("--seeds", "6"), "seeds-cluster", there_too),
    ):
        code, out, err = perhop("run", source, *more, *cluster, "--out", f"{there}/{name}")
        assert code == 0, err
        assert f"results: {there}/{name}" in out
    crosschecked = ("--engines", "sim", "--out", f"{there}/checked")
    assert perhop("crosscheck", source, *crosschecked).code == 3  # one engine alone
    assert perhop("crosscheck", source, *crosschecked, *there_too).code == 3
    assert perhop("report", f"{there}/run", "--out", f"{there}/page").code == 0
    assert place(f"{there}/page/report.html").is_file()
    assert not [*Path().glob("s3*")]
    alone = ensembles.run(library.load(source), 6, jobs=1, folder=tmp_path / "alone")
    first = files(tmp_path / "alone" / "runs" / "1")
    assert files(place(f"{there}/run")) == files(place(f"{there}/checked/sim")) == first
    for name in ("seeds", "seeds-cluster"):
        kept = place(f"{there}/{name}")
        for seed in map(str, range(1, 7)):
            one, other = (each / "runs" / seed for each in (tmp_path / "alone", kept))
            assert files(one) == files(other)
        assert ensembles.read(kept).table.equals(alone.table)


def test_an_ensemble_in_an_object_store_continues(
    store: str, source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = place(f"{store}/{tmp_path.name}")
    scenario = library.load(source)

    def leave(done: int, _: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), replacing(folder) as kept:
        ensembles.run(scenario, 6, jobs=1, folder=kept, watch=leave)
    assert {each.name for each in (folder / "runs").iterdir()} == {"1", "2", "3"}
    made: list[int] = []
    single = ensembles.engines.run
    monkeypatch.setattr(
        ensembles.engines,
        "run",
        lambda *a, seed, **k: made.append(seed) or single(*a, seed=seed, **k),
    )
    with replacing(folder) as kept:
        found = ensembles.run(scenario, 6, jobs=1, folder=kept)
        save_ensemble(found, kept)
    assert made == [4, 5, 6]
    assert found == ensembles.run(scenario, 6, jobs=1)
    with replacing(folder):  # another one begins anew
        assert not folder.exists() or {each.name for each in folder.iterdir()} == {"ensemble.html"}


def test_a_reproduction_continues(dask: Dask, store: str, tmp_path: Path) -> None:
    chosen = [experiments.get("oscars-burst")]
    [alone] = experiments.reproduce(chosen, tmp_path / "alone", runs=12, jobs=1)
    assert not (tmp_path / "alone" / "unfinished.json").exists()

    counted: list[tuple[int, int]] = []

    def count_up(done: int, every: int) -> None:
        counted.append((done, every))

    def leave(done: int, every: int) -> None:
        if done == every - 2:
            raise KeyboardInterrupt

    for folder in (tmp_path / "there", place(f"{store}/{tmp_path.name}")):
        with connect(dask.address) as cluster:
            with pytest.raises(KeyboardInterrupt):
                experiments.reproduce(chosen, folder, runs=12, cluster=cluster, watch=leave)
            counted.clear()
            [found] = experiments.reproduce(
                chosen, folder, runs=12, cluster=cluster, watch=count_up
            )
            every = counted[0][1]
            assert counted == [(every - 1, every), (every, every)]
            # All were made: it begins anew. So does another one.
            counted.clear()
            experiments.reproduce(chosen, folder, runs=1, cluster=cluster, watch=count_up)
        assert counted[0][0] == 1
        assert found.values == alone.values
        for case in alone.runs:
            one, other = (
                each / "oscars-burst" / "runs" / case for each in (tmp_path / "alone", folder)
            )
            assert files(one) == files(other)
        assert "unfinished.json" not in {each.name for each in folder.iterdir()}
        for page in experiments.write([found], folder):
            assert page.is_file()


def test_a_package_for_a_store_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(UnsupportedError, match=re.escape("pip install 'perhop[s3]'")):
        place("s3://elsewhere/run").exists()


def test_ensembles_tests_and_searches_are_the_same(dask: Dask, source: str, tmp_path: Path) -> None:
    scenario = library.load(source)
    cases = [gallery.read(source)]
    range_ = ("flows.udp.udp.rate", "1 Mbps..9 Mbps", "throughput(tcp) < 4 Mbps")
    here = (
        ensembles.run(scenario, 6, jobs=1, folder=tmp_path / "here"),
        testing.run(cases, seeds=6, jobs=1),
        search.find(source, *range_, step="1 Mbps", jobs=1),
    )
    with connect(dask.address) as cluster:
        assert here == (
            ensembles.run(scenario, 6, cluster=cluster, folder=tmp_path / "there"),
            testing.run(cases, seeds=6, cluster=cluster),
            search.find(source, *range_, step="1 Mbps", cluster=cluster),
        )
    for seed in map(str, range(1, 7)):
        assert files(tmp_path / "here" / "runs" / seed) == files(tmp_path / "there" / "runs" / seed)


@REAL_HOSTS
def test_engines_run_on_a_cluster(start: Start, source: str, tmp_path: Path) -> None:
    there = tmp_path / "there"
    given = ("--engines", "sim,emu,live", "--out", str(there), "--json")
    process = start("crosscheck", source, *given, "--cluster", "local:1")
    out, err = process.communicate(timeout=60)
    assert process.returncode in {0, 1}, err  # the engines agree or differ
    assert json.loads(out)["engines"] == ["sim", "emu"]
    assert "agents" in json.loads(out)["lacking"]["live"]
    emulated = Dataset.read(there / "emu")
    assert emulated.manifest.engine == "emu"
    assert emulated.manifest.complete
    assert emulated.intervals["bytes"].sum() > 0
    library.run(library.load(source), out=tmp_path / "here")
    assert files(there / "sim") == files(tmp_path / "here")


def test_another_version_of_perhop_is_named(
    dask: Dask, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "here", lambda: "0.0.1")
    versions = f"perhop {library.__version__}, and this command 0.0.1"
    with connect(dask.address) as cluster, pytest.raises(ClusterError, match=versions):
        ensembles.run(library.load(source), 6, cluster=cluster)


def test_a_worker_without_perhop_is_told(
    dask: Dask, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    absent = ModuleType("absent")  # in workers
    vars(absent)["make"] = made = FunctionType(pool.make.__code__, {}, "make")
    made.__module__ = "absent"
    monkeypatch.setitem(sys.modules, "absent", absent)
    monkeypatch.setattr(pool, "make", made)
    message = "No module named 'absent'; install perhop"
    with connect(dask.address) as cluster, pytest.raises(ClusterError, match=message):
        ensembles.run(library.load(source), 6, cluster=cluster)


def test_a_worker_may_die_while_it_sends_results(dask: Dask, tmp_path: Path) -> None:
    """Only a command that does not wait for the results tells so, and can be interrupted."""
    dask.end()
    dask.begin(workers=1)
    dies = (
        "__import__('distributed').get_worker().handlers.update("
        "get_data=lambda *_, **__: __import__('os')._exit(1))"
    )
    flag = tmp_path / "made"
    made = f"'again' if __import__('pathlib').Path({str(flag)!r}).exists() else ({dies}, "
    made += f"open({str(flag)!r}, 'w').close())"
    said: list[str] = []

    def say(message: str) -> None:
        said.append(message)
        if "no workers" in message and flag.exists():
            dask.add()

    with connect(dask.address, say=say) as cluster:
        cluster.client.wait_for_workers(1, timeout=30)
        assert [*cluster.call(eval, [(made,)])] == [(0, "again")]
    assert said[1:] == [
        "lost a worker; others make its runs again",
        f"{dask.address} has no workers; waiting for some",
    ]


def test_an_error_of_a_run_is_the_same_on_a_cluster(dask: Dask, source: str) -> None:
    empty = library.load(source).model_copy(update={"flows": {}, "expect": ()})
    with connect(dask.address) as cluster, pytest.raises(UsageError, match="nothing to run"):
        ensembles.run(empty, 6, cluster=cluster)


def blocked() -> set[int]:
    return {*signal.pthread_sigmask(signal.SIG_BLOCK, ())}


def test_programs_that_runs_start_can_be_ended() -> None:
    """Workers of a local cluster are started with signals blocked, and programs inherit that."""
    with signals_blocked(), ThreadPoolExecutor(1) as worker:
        assert signal.SIGTERM in worker.submit(blocked).result()
        made = worker.submit(calls.make, calls.here(), pickle.dumps((blocked, [()])))
        assert signal.SIGTERM not in pickle.loads(made.result())[1][0]


@pytest.mark.parametrize("engine", ["emu", "kernel", "live"])
def test_runs_that_would_disturb_each_other_are_refused(engine: str) -> None:
    message = f"runs of engine {engine} side by side would disturb each other"
    with pytest.raises(UsageError, match=message), connected("tcp://host:1", None, engine):
        pass


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("cloud", "expected tcp://HOST:PORT, local or local:WORKERS, ssh:HOST,HOST, slurm"),
        ("slrm:3", "did you mean `slurm`"),
        ("slurm", "expected slurm:WORKERS"),
        ("ssh:a,,b", "expected ssh:HOST,HOST"),
        ("local:0", "expected local or local:WORKERS"),
    ],
)
def test_a_wrong_cluster_is_told(where: str, message: str) -> None:
    with pytest.raises(UsageError, match=message), connect(where):
        pass


def test_machines_that_ssh_reaches_have_a_worker_for_each_core(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "asyncssh", ssh.module())
    with connect("ssh:host") as cluster:
        cluster.client.wait_for_workers(2, timeout=30)
        assert [*cluster.client.nthreads().values()] == [1, 1]
    for host, message in (
        ("stranger", "ssh:stranger: does not start: stranger: Host key is not trusted"),
        ("bare", f"bare has no {re.escape(sys.executable)}: install perhop"),
    ):
        with pytest.raises(ClusterError, match=message), connect(f"ssh:{host}"):
            pass


class AnswerError(Exception):
    """An error of kr8s, with the response of Kubernetes."""

    def __init__(self, code: int) -> None:
        super().__init__(f"code {code}")
        self.response = SimpleNamespace(status_code=code)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ValueError("Unable to find valid credentials"), "does not answer: Unable to find valid"),
        (AnswerError(403), "does not answer: code 403; check with `kubectl get pods`"),
        (AnswerError(404), "does not have Dask's operator; install it"),
    ],
)
def test_kubernetes_is_asked_first(
    error: Exception, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dask's class prints tracebacks at exit. What kr8s does is as seen with a real kr8s."""

    async def api() -> None:
        raise error

    for name, content in (("kr8s.asyncio", {"api": api}), ("dask_kubernetes.operator", {})):
        module = ModuleType(name)
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, name, module)
    found = f"--cluster kubernetes:2: does not start: Kubernetes {message}"
    with pytest.raises(ClusterError, match=re.escape(found)), connect("kubernetes:2"):
        pass


def test_a_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for where, module, package in (
        ("slurm:2", "dask_jobqueue", "dask-jobqueue"),
        ("kubernetes:2", "dask_kubernetes.operator", "dask-kubernetes"),
        ("ssh:host", "asyncssh", "asyncssh"),
        ("tcp://127.0.0.1:1", "distributed", "perhop[cluster]"),
    ):
        monkeypatch.setitem(sys.modules, module, None)
        found = re.escape(f"pip install '{package}'")
        with pytest.raises(UnsupportedError, match=found), connect(where):
            pass


def test_a_scheduler_that_is_not_there_is_told(start: Start, source: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
    process = start("run", source, "--seeds", "6", "--cluster", where)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (69, "")
    assert err.startswith(f"perhop: --cluster {where}: no scheduler of Dask: ")


def test_what_is_no_scheduler_is_told(dask: Dask) -> None:
    with connect(dask.address) as cluster:
        [worker, *_] = cluster.client.nthreads()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        mute = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        for where, error, message in (
            (worker, ClusterError, "is a worker; give its scheduler's address"),
            (mute, ClusterError, "no scheduler of Dask: no answer"),
            ("tcp://127.0.0.1", UsageError, "missing port number.*expected tcp://HOST:PORT"),
        ):
            began = time.monotonic()
            with pytest.raises(error, match=message), connect(where):
                pass
            assert time.monotonic() < began + 30
    with ThreadPoolExecutor(1) as other, socket.create_server(("127.0.0.1", 0)) as wrong:

        def answer() -> None:
            with wrong.accept()[0] as connection:
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                connection.recv(1000)

        answered = other.submit(answer)
        where = f"tcp://127.0.0.1:{wrong.getsockname()[1]}"
        message = "no scheduler of Dask: an unknown answer"
        with pytest.raises(ClusterError, match=message), connect(where):
            pass
        answered.result()


def under_way(group: int) -> list[str]:
    """The processes of a group that have not ended."""
    found = []
    for each in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, of = each.read_text().rpartition(")")[2].split()[:3]
            found += [each.parent.name] if int(of) == group and state != "Z" else []
    return found


def test_ctrl_c_ends_a_cluster_of_this_machine(start: Start, source: str, tmp_path: Path) -> None:
    varied = (
        "--vary",
        "links.1.rate=5 Mbps,10 Mbps",
        "--seeds",
        "500",
        "--out",
        str(tmp_path / "s"),
    )
    process = start("sweep", source, *varied, "--cluster", "local:1", start_new_session=True)
    while not [*(tmp_path / "s").glob("points/*/manifest.json")]:
        assert process.poll() is None
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal sends it: to the workers, too
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.splitlines()[1:] == [
        f"perhop: finished runs are in {tmp_path / 's'}; the same command continues the sweep"
    ]
    kept = [each.parent for each in (tmp_path / "s").glob("points/*/manifest.json")]
    assert 0 < len(kept) < 1000
    assert all(Dataset.read(each).manifest.complete for each in kept)
    deadline = time.monotonic() + 30
    while under_way(process.pid):
        assert time.monotonic() < deadline
        time.sleep(0.05)
