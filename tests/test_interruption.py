"""Runs that end before their scenario: what was measured is kept."""

import os
import pty
import re
import signal
import time
from pathlib import Path

import polars as pl
import pytest

from conftest import OFTEN, SLOW, Start, ended, tree, under_way
from perhop import analysis, report
from perhop.dataset import Dataset
from perhop.engines import Progress, run
from perhop.scenario import parse

pytestmark = SLOW

LONG = """\
perhop: 1
name: long
nodes: {a: host, r: router, b: host}
links:
  - {ends: [a, r], rate: 1 Gbps, delay: 1 ms}
  - {ends: [r, b], rate: 500 Mbps, delay: 10 ms}
flows:
  bulk: {from: a, to: b, streams: 2}
  constant: {from: a, to: b, udp: {rate: 20 Mbps}}
pings:
  meanwhile: {from: a, to: b}
duration: 100 h
report: {interval: 10 s}
"""
"""A scenario that no machine simulates within a test."""


@pytest.fixture
def long(place: Path) -> Path:
    path = place / "long.yaml"
    path.write_text(LONG)
    return path


def consistent(run: Dataset) -> None:
    """Check that all tables of an unfinished run go as far as its manifest says, and no further."""
    covered = run.manifest.duration_s
    assert not run.manifest.complete
    assert 0 < covered < run.scenario.end_ps / 1e12
    for table in (run.intervals, run.queues, run.links):
        assert table.select(pl.max("end_s")).item() == covered
    assert run.pings.select(pl.max("sent_s")).item() <= covered


@pytest.mark.usefixtures("long")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_keeps_what_it_measured(
    start: Start, place: Path, number: signal.Signals
) -> None:
    code, out, err = under_way(start, "long.yaml", place / "run")(number)
    assert (code, err) == (128 + number, "")
    assert re.search(r"\ncharts:  perhop report ", out)
    assert ", interrupted\n" in out
    run = Dataset.read(place / "run")
    consistent(run)
    assert all((analysis.throughput(run, flow) or 0) > 1e6 for flow in run.scenario.flows)
    assert sorted(path.name for path in place.iterdir()) == ["long.yaml", "run"]


@pytest.mark.usefixtures("long")
def test_an_interrupted_run_is_reported(start: Start, place: Path) -> None:
    code, out, _ = under_way(start, "long.yaml", place / "run", "--json")(signal.SIGINT)
    assert code == 130
    assert '"complete": false' in out
    run = Dataset.read(place / "run")
    assert "The run was cut off at" in report.lead(run)
    for path in report.write(run, place / "run"):
        assert path.stat().st_size > 1000


@pytest.mark.usefixtures("long")
def test_a_killed_run_leaves_its_last_checkpoint(start: Start, place: Path) -> None:
    folder = place / "run"
    code, _, _ = under_way(start, "long.yaml", folder)(signal.SIGKILL)
    assert code == -signal.SIGKILL
    first = Dataset.read(folder)
    assert not first.manifest.complete
    # And another run may take its place, even one that is killed in turn.
    before = tree(folder)
    process = start("run", "long.yaml", "--out", "run", "--seed", "2", prelude=OFTEN)
    deadline = time.monotonic() + 60
    while tree(folder)["manifest.json"] == before["manifest.json"]:
        assert time.monotonic() < deadline
        time.sleep(0.3)
    process.kill()
    process.wait()
    assert Dataset.read(folder).manifest.seed == 2


def test_interrupted_where_it_begins(tmp_path: Path) -> None:
    def stop(_: Progress) -> None:
        raise KeyboardInterrupt

    for scenario in (parse(LONG), parse(LONG.replace("100 h", "1 ps"))):
        dataset = run(scenario, out=tmp_path / "run", watch=stop)
        back = Dataset.read(tmp_path / "run")
        assert back.manifest == dataset.manifest
        assert analysis.summary(back)["complete"] is (back.covered_s == scenario.end_ps / 1e12)


def test_interrupted_while_it_is_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perhop.engines.CHECKPOINT_S", 0)
    write = Dataset.write
    pressed: list[bool] = []

    def interrupted(self: Dataset, folder: str | os.PathLike[str]) -> Path:
        written = write(self, folder)
        if not pressed:
            pressed.append(True)
            raise KeyboardInterrupt
        return written

    monkeypatch.setattr(Dataset, "write", interrupted)
    run(parse(LONG), out=tmp_path / "run")
    consistent(Dataset.read(tmp_path / "run"))
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


# On a terminal


class Terminal:
    """A terminal in which a command runs."""

    def __init__(self, start: Start, *arguments: str, columns: int) -> None:
        master, slave = pty.openpty()
        # The command becomes the foreground of this terminal, so that Ctrl-C reaches it.
        attach = "import fcntl, termios; fcntl.ioctl(2, termios.TIOCSCTTY, 0)"
        self.process = start(
            *arguments,
            prelude=attach,
            stdin=slave,
            stderr=slave,
            start_new_session=True,
            env={**os.environ, "COLUMNS": str(columns), "TERM": "xterm-256color"},
        )
        os.close(slave)
        self._master = master
        self.shown = ""

    def wait_for(self, pattern: str) -> re.Match[str]:
        """Read on until something on the screen matches."""
        deadline = time.monotonic() + 60
        while not (found := re.search(pattern, self.shown)):
            assert time.monotonic() < deadline, self.shown
            self.shown += re.sub(r"\x1b\[[0-9;?]*\w", "", os.read(self._master, 4096).decode())
        return found

    def press(self, key: bytes) -> None:
        os.write(self._master, key)

    def close(self) -> None:
        os.close(self._master)


@pytest.mark.usefixtures("long")
@pytest.mark.parametrize("columns", [80, 140])
def test_a_terminal_shows_how_far_a_run_is(start: Start, place: Path, columns: int) -> None:
    terminal = Terminal(start, "run", "long.yaml", "--out", "run", "--json", columns=columns)
    shown = r"long .*━+ +0% \d+\.\d of 360000 s, \d+x: bulk \d+(\.\d+)? Mbps, constant \d"
    terminal.wait_for(shown if columns > 80 else shown.split(",")[0])
    terminal.press(b"\x03")
    out, _ = terminal.process.communicate(timeout=60)
    terminal.close()
    assert terminal.process.returncode == 130
    assert out.startswith("{\n")
    consistent(Dataset.read(place / "run"))


@pytest.mark.usefixtures("long")
def test_elsewhere_a_line_is_printed_now_and_then(start: Start) -> None:
    often = "from perhop.cli import progress; progress._LINE_EVERY_S = 0.2"
    process = start("run", "long.yaml", prelude=often)
    assert process.stderr is not None
    line = process.stderr.readline()
    process.send_signal(signal.SIGINT)
    assert re.fullmatch(r"long: \d+\.\d of 360000 s, \d+x: bulk \d+\S* M?bps, constant .*\n", line)
    assert ended(process).code == 130
