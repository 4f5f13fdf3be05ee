"""SIGINT and SIGTERM at random moments: what was measured is kept, and nothing is left behind.

PERHOP_SIGNALS is how many times each command is interrupted.
"""

import os
import random
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from conftest import DEADLINES, PERHOP, SLOW
from perhop import interruption
from perhop.dataset import Dataset
from perhop.engines import run
from perhop.errors import OutputError
from perhop.scenario import load
from tools import unable

pytestmark = [DEADLINES, SLOW]

ROUNDS = int(os.environ.get("PERHOP_SIGNALS", "2"))

SCENARIO = """\
perhop: 1
name: long
nodes: {a: host, r: router, b: host}
links:
  - {ends: [a, r], rate: 1 Gbps, delay: 1 ms}
  - {ends: [r, b], rate: 50 Mbps, delay: 10 ms}
flows:
  bulk: {from: a, to: b, streams: 2}
  constant: {from: a, to: b, udp: {rate: 2 Mbps}}
pings:
  meanwhile: {from: a, to: b}
duration: %s
"""

SAVE_OFTEN = "import perhop.engines; perhop.engines.CHECKPOINT_S = 0.05"
"""What Python runs before the command, once it listens to signals."""

END_S = 30
"""Time limit for the end of a command."""


@dataclass(frozen=True)
class Command:
    """A command, and how long it takes uninterruptible, in seconds."""

    arguments: tuple[str, ...]
    lasts_s: float
    results: Callable[[Path], None]


def no_half_dataset(place: Path) -> None:
    """Check that every folder of a dataset holds one that loads."""
    for manifest in place.rglob("manifest.json"):
        Dataset.read(manifest.parent)


COMMANDS = {
    "run": Command(("run", "long.yaml", "--out", "out"), 2, no_half_dataset),
    "run to its end": Command(("run", "short.yaml", "--json"), 1.5, no_half_dataset),
    "sweep": Command(
        ("sweep", "short.yaml", "--vary", "links.1.rate=10 Mbps,20 Mbps,30 Mbps", "--out", "out"),
        5,
        no_half_dataset,
    ),
    "reproduce": Command(
        ("reproduce", "oscars-1M", "--runs", "3", "--out", "out"), 4, no_half_dataset
    ),
    "report": Command(("report", "made", "--out", "out"), 4, no_half_dataset),
}
REAL = {
    engine: Command(("run", "short.yaml", "--engine", engine, "--out", "out"), 4, no_half_dataset)
    for engine in ("emu", "kernel")
}


def listens(process: subprocess.Popen[str]) -> bool:
    """Return whether a process handles SIGTERM: from then on perhop answers for what happens."""
    try:
        status = Path(f"/proc/{process.pid}/status").read_text()
    except OSError:
        return False
    caught = next(int(line.split()[1], 16) for line in status.splitlines() if "SigCgt" in line)
    return bool(caught >> (signal.SIGTERM - 1) & 1)


def of_session(session: int) -> list[int]:
    """The processes of a session that are alive."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == session and fields[0] != "Z":
                found.append(int(entry.name))
    return found


def disturb(place: Path, command: Command, chance: random.Random) -> str:
    """Start a command, send it signals at random moments, and check what comes of it.

    Returns:
        What is wrong; nothing if all is well.
    """
    before = set(place.iterdir())
    process = subprocess.Popen(
        [str(PERHOP), *command.arguments],
        cwd=place,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    while not listens(process) and process.poll() is None:
        time.sleep(0.001)
    # Most of what can be torn apart happens soon after the start, and soon after a signal.
    moment = command.lasts_s * chance.random() ** 2
    number = chance.choice((signal.SIGINT, signal.SIGTERM))
    everybody = chance.random() < 0.5
    signals = chance.choice((1, 1, 2, 3))
    said = [f"{number.name} x{signals} after {moment:.3f} s to {'all' if everybody else 'one'}"]
    try:
        for again in range(signals):
            time.sleep(moment if not again else 0.5 * chance.random() ** 3)
            if process.poll() is None:
                (os.killpg if everybody else os.kill)(process.pid, number)
        _, err = process.communicate(timeout=END_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        _, err = process.communicate()
        said.append("did not end")
    wrong = list(said)
    if process.returncode not in (0, 1, 128 + number):
        wrong.append(f"exit code {process.returncode}")
    if "Traceback" in err or "Exception" in err or "Error" in err:
        wrong.append(err)
    deadline = time.monotonic() + 5
    while (left := of_session(process.pid)) and time.monotonic() < deadline:
        time.sleep(0.02)
    if left:
        wrong.append(f"processes are left: {left}")
        os.killpg(process.pid, signal.SIGKILL)
    wrong += [f"left behind: {path}" for path in place.rglob(".*")]
    try:
        command.results(place)
    except OutputError as error:
        wrong.append(str(error))
    for path in set(place.iterdir()) - before:
        subprocess.run(["rm", "-rf", str(path)], check=True)
    return "; ".join(wrong) if len(wrong) > 1 or "did not end" in said else ""


@pytest.fixture
def ready(place: Path) -> Path:
    """A folder with scenarios, and a run."""
    (place / "long.yaml").write_text(SCENARIO % "100 h")
    (place / "short.yaml").write_text(SCENARIO % "3 s")
    run(load(place / "short.yaml"), out=place / "made")
    return place


@pytest.mark.parametrize("name", COMMANDS)
def test_signals_end_a_command_at_any_moment(ready: Path, name: str) -> None:
    chance = random.Random(os.environ.get("PERHOP_SIGNALS_SEED", "1") + name)
    wrong = [disturb(ready, COMMANDS[name], chance) for _ in range(ROUNDS)]
    assert not any(wrong), "\n".join(filter(None, wrong))


@pytest.mark.parametrize("engine", REAL)
def test_signals_end_a_run_in_real_time_at_any_moment(ready: Path, engine: str) -> None:
    once = subprocess.run(
        [str(PERHOP), *REAL[engine].arguments], cwd=ready, capture_output=True, text=True
    )
    if once.returncode == 3:
        unable(once.stderr)
    chance = random.Random(os.environ.get("PERHOP_SIGNALS_SEED", "1") + engine)
    wrong = [disturb(ready, REAL[engine], chance) for _ in range(ROUNDS)]
    assert not any(wrong), "\n".join(filter(None, wrong))


def test_a_signal_that_comes_where_nothing_can_be_raised_comes_again(
    capfd: pytest.CaptureFixture[str],
) -> None:
    class Dying:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGTERM)

    with pytest.raises(KeyboardInterrupt), interruption.listening():
        Dying()
        time.sleep(5)
    assert capfd.readouterr().err == ""
    assert interruption.exit_code() == 128 + signal.SIGTERM


def test_a_signal_that_comes_again_too_early_comes_once_more(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    starts = []

    class SlowTimer(threading.Timer):
        def start(self) -> None:
            super().start()
            starts.append(self)
            if len(starts) == 1:
                time.sleep(0.1)

    monkeypatch.setattr(interruption.threading, "Timer", SlowTimer)

    class Dying:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGTERM)

    with pytest.raises(KeyboardInterrupt), interruption.listening():
        Dying()
        time.sleep(5)
    assert capfd.readouterr().err == ""
    assert len(starts) == 2
