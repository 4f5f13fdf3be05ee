"""The command line, in this process and as a process of its own, in a folder with a space."""

import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

import hypothesis
import pytest

from perhop.cli import main
from tools import left_out

# How long an example takes says more about the machine than about perhop.
hypothesis.settings.register_profile("perhop", deadline=None)
hypothesis.settings.load_profile("perhop")

REAL_TIME: Final = pytest.mark.flaky(reruns=2)
"""For tests that measure real hosts in real time, where any process of this machine can take the
processor at the wrong moment: they are tried again."""

PERHOP = Path(sysconfig.get_path("scripts"), "perhop")
"""The command as it is installed."""


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What was left out for want of programs, and the packages to install."""
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = [str(report.longrepr[2]) for report in skipped if isinstance(report.longrepr, tuple)]
    for line in left_out(reasons):
        terminalreporter.write_line(line, yellow=True)


class Outcome(NamedTuple):
    """How a command ended, and what it printed."""

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
    """How often this test has been tried, with this time: what tests share is made again then."""
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
    """Where this test's labs are known, and no others. None is up after it, whatever happens."""
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
    """What is in a folder: files with their content, folders with None."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }
