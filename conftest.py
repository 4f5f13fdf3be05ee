"""The command line, in this process and as a process of its own, in a folder with a space."""

import gc
import os
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

import hypothesis
import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

import conservation
from perhop.cli import main
from tools import left_out

# Most of what tests allocate is gone without it: to look for garbage as often as usual takes a
# twelfth of their time.
gc.set_threshold(30_000)

# How long an example takes says more about the machine than about perhop.
hypothesis.settings.register_profile("perhop", deadline=None)
hypothesis.settings.load_profile("perhop")

MEASURES: Final = pytest.mark.measures
"""For tests that measure real hosts in real time. They run one after the other and first in line
for the processor, and are tried again, because any process can take it at the wrong moment. Such a
test, with its hosts, takes less than half of a processor: 16% on average, 40% at most."""

REAL_HOSTS: Final = pytest.mark.real_hosts
"""For tests that need real hosts and measure nothing. They run beside others, and are tried again,
because a busy machine can exceed their deadlines."""

DEADLINES: Final = pytest.mark.deadlines
"""For tests of threads, processes and services that are to do something in time, without real
hosts. They are tried again for the same reason."""

SLOW: Final = pytest.mark.slow
"""For tests of more than half a second, which `make test-fast` leaves out."""

PERHOP = Path(sysconfig.get_path("scripts"), "perhop")
"""The command as it is installed."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Two for each processor: many tests wait. More would take them from tests with deadlines."""
    return 2 * len(os.sched_getaffinity(0))


LONGEST: Final = (
    "test_experiments",
    "test_services_minute",
    "test_fuzz_runs",
    "test_reservations_session",
)
"""Files that begin first, and of which each is one process's: all tests of one share what takes
long to make."""

SPREAD: Final = (
    "test_signals",
    "test_lab_faults",
    "test_docs",
    "test_costs",
    "test_reservations_operating",
    "test_reservations_outages",
    "test_reservations_crash",
    "test_lab_reserved",
    "test_sweep",
    "test_captures",
    "test_linux",
    "test_live",
    "test_path",
    "test_emulation",
    "test_kernel_network",
)
"""Long files that begin next, and whose tests run in any process: they share nothing that takes
long to make."""


class Schedule(LoadFileScheduling):
    """Has the tests of a file run in one process, unless they are to be spread."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.split("::", 1)[0]
        return nodeid if Path(file).stem in SPREAD else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Schedule | None:
    """Spread long files where `--dist loadfile` asks for files."""
    return Schedule(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Suspend garbage collection, a third of the time that collecting tests takes: all stay."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put long files first, and have tests with real hosts tried again, unless `make test` does."""
    order = {name: place for place, name in enumerate(LONGEST + SPREAD)}
    long = {
        item.path for item in items if any(map(item.get_closest_marker, ("slow", "real_hosts")))
    }
    items.sort(key=lambda item: (order.get(item.path.stem, len(order)), item.path not in long))
    for item in items if "PERHOP_ONCE" not in os.environ else ():
        if any(item.get_closest_marker(mark.name) for mark in (MEASURES, REAL_HOSTS, DEADLINES)):
            item.add_marker(pytest.mark.flaky(reruns=1))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Tell what was left out for want of programs, or keep it for `make test` to tell."""
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = [str(report.longrepr[2]) for report in skipped if report.longrepr]
    if name := os.environ.get("PERHOP_SKIPPED"):
        with Path(name).open("a", encoding="utf-8") as file:
            file.writelines(f"{reason.splitlines()[0]}\n" for reason in reasons)
        return
    for line in left_out(reasons):
        terminalreporter.write_line(line, yellow=True)


conservation.watch()


@pytest.fixture(autouse=True)
def _datasets_conserve() -> Iterator[None]:
    """Fail a test whose datasets, or those of its shared fixtures, do not conserve."""
    yield
    broken, conservation.faults[:] = [*conservation.faults], []
    assert not broken, "\n".join(broken)


class Outcome(NamedTuple):
    """Exit code and output of a command."""

    code: int
    out: str
    err: str


class Start(Protocol):
    """Starts the installed command; `prelude` is Python that its process runs first."""

    def __call__(
        self, *arguments: str, prelude: str = "", **options: Any
    ) -> subprocess.Popen[str]: ...


@pytest.fixture
def attempt(request: pytest.FixtureRequest) -> int:
    """Number of tries of this test, this one included: shared fixtures are made again then."""
    return getattr(request.node, "execution_count", 1)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """An empty folder, in which commands run."""
    folder = tmp_path / "a place"
    folder.mkdir()
    return folder


@pytest.fixture
def perhop(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Outcome]:
    """Runs a command in this process."""
    monkeypatch.chdir(place)

    def run(*arguments: str) -> Outcome:
        handler = signal.getsignal(signal.SIGTERM)
        try:
            with pytest.raises(SystemExit) as ended:
                main(arguments)
        finally:
            signal.signal(signal.SIGTERM, handler)
        assert isinstance(ended.value.code, int)
        return Outcome(ended.value.code, *capsys.readouterr())

    return run


@pytest.fixture
def start(place: Path) -> Iterator[Start]:
    """Starts commands as processes, which end with the test."""
    started: list[subprocess.Popen[str]] = []

    def spawn(*arguments: str, prelude: str = "", **options: Any) -> subprocess.Popen[str]:
        program = [str(PERHOP)]
        if prelude:
            program = [sys.executable, "-c", f"{prelude}\nfrom perhop.cli import main\nmain()"]
        usual = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "cwd": place}
        process = subprocess.Popen([*program, *arguments], **{**usual, **options})
        started.append(process)
        return process

    yield spawn
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def lab_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder in which only this test's labs are listed. None is up after it, whatever happens."""
    from perhop.lab import Lab, records

    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    yield tmp_path
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    (tmp_path / "perhop").mkdir(mode=0o700, exist_ok=True)
    (tmp_path / "perhop").chmod(0o700)
    for record in records(starting=True):
        Lab(record).down()


def ended(process: subprocess.Popen[str]) -> Outcome:
    """Wait for a command to end."""
    out, err = process.communicate(timeout=60)
    return Outcome(process.returncode, out, err)


OFTEN = "from perhop import engines; engines.CHECKPOINT_S = 0.2"
"""Has a run saved many times a second."""


def under_way(start: Start, file: str, folder: Path, *arguments: str) -> Callable[[int], Outcome]:
    """Start a run that saves often; when it has, return what sends it a signal and waits."""
    process = start("run", file, "--out", str(folder), *arguments, prelude=OFTEN)
    deadline = time.monotonic() + 60
    while not (folder / "manifest.json").exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)

    def send(number: int) -> Outcome:
        process.send_signal(number)
        return ended(process)

    return send


def tree(folder: Path) -> dict[str, bytes | None]:
    """Return the content of a folder: files with their content, folders with None."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }
