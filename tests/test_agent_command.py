"""`perhop agent`: the program perhop-agent, from Python."""

import signal
import subprocess
from pathlib import Path

import pytest

from conftest import PERHOP, SLOW, Outcome, Start


def agent(*arguments: str, folder: Path) -> Outcome:
    """Runs `perhop agent`, as a process: it writes to the output without Python."""
    whole = [str(PERHOP), "agent", *arguments]
    done = subprocess.run(whole, cwd=folder, capture_output=True, text=True)
    return Outcome(done.returncode, done.stdout, done.stderr)


@SLOW
def test_a_key_is_made_once(place: Path) -> None:
    made = agent("key", "agent.key", folder=place)
    assert (made.code, made.err) == (0, "")
    assert made.out.startswith("perhop-ed25519 ")
    assert agent("key", "agent.key", folder=place) == made
    assert (place / "agent.key.pub").read_text() == made.out
    assert (place / "agent.key").stat().st_mode & 0o777 == 0o600


@SLOW
@pytest.mark.parametrize("arguments", [[], ["servve"], ["serve"], ["serve", "--alow", "x"]])
def test_wrong_arguments_are_exit_code_2(arguments: list[str], place: Path) -> None:
    found = agent(*arguments, folder=place)
    assert (found.code, found.out) == (2, "")
    assert found.err


@SLOW
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_an_agent_that_serves(start: Start, place: Path, number: int) -> None:
    key = agent("key", "key", folder=place).out.strip()
    serving = start("agent", "serve", "--allow", key, "--key", "key", "--listen", "127.0.0.1:0")
    assert serving.stdout is not None
    assert "serves at 127.0.0.1:" in serving.stdout.readline()
    serving.send_signal(number)
    assert serving.wait(timeout=10) == 128 + number
