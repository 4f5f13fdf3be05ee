"""The shell of a lab: what it runs, and what it completes."""

import os
import pty
import select
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from conftest import PERHOP, REAL_HOSTS
from perhop.cli.lab import lab as commands
from perhop.cli.lab_shell import Shell
from perhop.errors import UnsupportedError, UsageError
from perhop.lab import Lab, Record, up
from perhop.scenario import parse
from test_lab import SCENARIO
from tools import unable

STATUS = {
    "nodes": {"a": "host", "r": "router", "b": "host"},
    "policies": ["edge", "strict"],
    "links": {"a>r": {"classes": {"all": {}}}, "r>b": {"classes": {"reserved": {}, "rest": {}}}},
}


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Shell:
    monkeypatch.chdir(tmp_path)
    assert isinstance(commands, click.Group)
    monkeypatch.setattr(Lab, "status", lambda _: STATUS)
    pid = os.getpid()
    record = Record("office", "office", "/", 0, pid, 0, pid, 0, {"a": 3, "b": 4}, [])
    return Shell(Lab(record), commands)


@pytest.mark.parametrize(
    ("before", "word", "found"),
    [
        ("", "a", ["a "]),
        ("", "st", ["status "]),
        ("", "ex", ["exec "]),
        ("", "li", []),
        ("exec ", "", ["a ", "b "]),
        ("exec b ", "getco", ["getconf "]),
        ("a ping ", "r", ["r "]),
        ("a ping ", "/etc/hostn", ["/etc/hostname "]),
        ("a ls ", "/et", ["/etc/"]),
        ("policy ", "r", ["r>b "]),
        ("policy r>b ", "", ["edge ", "strict ", "none "]),
        ("policy r>b ", "--s", ["--set "]),
        ("change ", "o", ["on="]),
        ("change on=r>b ", "pol", ["policy=", "police.rate=", "police.burst="]),
        ("change ", "on=r", ["on=r>b "]),
        ("change on=r>b ", "class=re", ["class=reserved ", "class=rest "]),
        ("change on=r>b ", "policy=n", ["policy=none "]),
        ("capture ", "a", ["a>r="]),
        ("status ", "--j", ["--json "]),
        ("nothing ", "", []),
    ],
)
def test_completion(shell: Shell, before: str, word: str, found: list[str]) -> None:
    offered = shell.complete(before, word)
    assert set(found) <= set(offered) if before == "exec b " else offered == found


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("statu", "`statu` is neither a host nor a command; did you mean `status`"),
        ("zzzzzz", "`help` lists both"),
        ("a 'ping", "No closing quotation"),
        ("exec", "name a host"),
        ("exec c true", "`c` is not a host"),
    ],
)
def test_wrong_commands_are_explained(shell: Shell, line: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        shell.execute(line)


@pytest.fixture
def running(lab_folder: object) -> Iterator[Lab]:
    assert lab_folder
    try:
        yield up(parse(SCENARIO, "office.yaml"))
    except UnsupportedError as error:
        unable(error)


@REAL_HOSTS
def test_a_session_on_a_terminal_and_from_a_pipe(running: Lab) -> None:
    piped = subprocess.run(
        [PERHOP, "lab", "shell"],
        input="# a comment\n\na hostname\nchange on=r>b delay='7 ms'\nb sh -c 'exit 5'\nquit\n",
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (piped.returncode, piped.stdout, piped.stderr) == (5, "a\n", "")
    assert running.status()["changes"] == 1

    pid, terminal = pty.fork()
    if not pid:
        os.execve(PERHOP, [str(PERHOP), "lab", "shell"], {**os.environ, "TERM": "dumb"})
    said = ""

    def until(text: str) -> None:
        nonlocal said
        deadline = time.monotonic() + 30
        while text not in said:
            assert time.monotonic() < deadline, said
            if select.select([terminal], [], [], 0.1)[0]:
                said += os.read(terminal, 65536).decode()
        said = said.partition(text)[2]

    try:
        until("office> ")
        os.write(terminal, b"b hostn\t\n")  # the tabulator completes it
        until("\nb\r")
        until("office> ")
        os.write(terminal, b"nonsense\n")
        until("neither a host")
        until("office> ")
        os.write(terminal, b"a sleep 100\n")
        until("sleep 100")
        while b"sleep" not in b"".join(children(pid)):
            time.sleep(0.02)
        os.write(terminal, b"\x03")  # ends the program, not the shell
        until("office> ")
        os.write(terminal, b"down\n")
        until("lab office is down")
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    finally:
        os.close(terminal)


def children(pid: int) -> list[bytes]:
    """The commands of a process's children."""
    found = subprocess.run(
        ["ps", "--ppid", str(pid), "-o", "args="], capture_output=True, check=False
    )
    return found.stdout.splitlines()
