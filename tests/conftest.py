"""The command line, in this process and as a process of its own, in a folder with a space."""

import signal
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import hypothesis
import pytest

from perhop.cli import main

# How long an example takes says more about the machine than about perhop.
hypothesis.settings.register_profile("perhop", deadline=None)
hypothesis.settings.load_profile("perhop")

PERHOP = Path(sysconfig.get_path("scripts"), "perhop")
"""The command as it is installed."""


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


def ended(process: subprocess.Popen[str]) -> Outcome:
    """Wait for a command to end."""
    out, err = process.communicate(timeout=60)
    return Outcome(process.returncode, out, err)


def tree(folder: Path) -> dict[str, bytes | None]:
    """What is in a folder: files with their content, folders with None."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }
