"""The shell of a lab: its commands and programs in its hosts, with completion of names."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from contextlib import suppress
from subprocess import DEVNULL
from typing import TYPE_CHECKING, Any, Final

import click

from perhop.cli.output import echo
from perhop.errors import PerhopError, UsageError
from perhop.hints import did_you_mean
from perhop.units import quote

if TYPE_CHECKING:
    from collections.abc import Iterable
    from subprocess import Popen

    from perhop.lab import Lab

__all__ = ["Shell", "login_shell", "wait_for"]

_OWN: Final = ("exec", "help", "quit")
"""Commands of the shell itself."""

_ELSEWHERE: Final = {"exec", "list", "shell", "up"}
"""Commands of `perhop lab` that the shell does not take from there."""

_CHANGES: Final = ("on", "node", "balance", "rate", "delay", "loss", "state", "policy", "class")
_KEYS: Final = (*_CHANGES, "police.rate", "police.burst", "clear")
"""Keys of `change`, as far as they are completed."""

_MOST: Final = 200
"""Programs and files that are offered."""


class Shell:
    """Reads commands and runs them, for one lab."""

    def __init__(self, lab: Lab, commands: click.Group) -> None:
        """Take the lab, and the commands of `perhop lab`."""
        self._lab = lab
        self._commands = {
            name: command for name, command in commands.commands.items() if name not in _ELSEWHERE
        }
        self._offered: list[str] = []
        self._over = False

    def run(self) -> int:
        """Run commands from standard input until its end.

        On a terminal the shell goes on after errors. Otherwise it ends at the first command that
        fails, with its exit code.
        """
        if not sys.stdin.isatty():
            for line in sys.stdin:
                code = self._report(line)
                if code or self._over:
                    return code
            return 0
        self._prepare_terminal()
        listening = signal.signal(signal.SIGINT, signal.default_int_handler)
        echo(f"hosts: {', '.join(self._lab.record.hosts)}; `help` lists the commands")
        try:
            while not self._over:
                try:
                    self._report(input(f"{self._lab.name}> "))
                except EOFError:
                    echo()
                    break
                except KeyboardInterrupt:
                    echo()
        finally:
            signal.signal(signal.SIGINT, listening)
        return 0

    def execute(self, line: str) -> int:
        """Run a command; return its exit code.

        Raises:
            PerhopError: The command is wrong, or failed.
            click.ClickException: Its arguments are wrong.
        """
        try:
            words = shlex.split(line, comments=True)
        except ValueError as error:
            raise UsageError(f"{error}: {line.strip()}") from None
        if not words:
            return 0
        first, *rest = words
        if first in self._commands:
            return self._perhop(first, rest)
        if first in ("quit", "exit"):
            self._over = True
            return 0
        if first == "help":
            self._help()
            return 0
        hosts = self._lab.record.hosts
        if first == "exec":
            return self._program(rest)
        if first in hosts:
            return self._program(words)
        hint = did_you_mean(first, [*hosts, *self._commands, *_OWN])
        said = f"{quote(first)} is neither a host nor a command"
        raise UsageError(f"{said}; {hint or '`help` lists both'}")

    def complete(self, before: str, word: str) -> list[str]:
        """Return the words that `word` may become; `before` is the text of the line before it."""
        first, *rest = before.split() or [""]
        hosts = self._lab.record.hosts
        if first == "exec":
            first, *rest = rest or ["exec"]
        if not first:
            offered: Iterable[str] = [*hosts, *self._commands, *_OWN]
        elif first == "exec":
            offered = hosts
        elif first in self._commands:
            return self._arguments(first, len(rest), word)
        elif first in hosts and not rest and "/" not in word:
            offered = _programs(word)
        elif first in hosts:
            offered = [*self._nodes(), *_files(word)]
        else:
            offered = ()
        return [_whole(each) for each in offered if each.startswith(word)]

    def _arguments(self, command: str, place: int, word: str) -> list[str]:
        """Return what an argument of a command of the lab may become."""
        parameters = self._commands[command].params
        if word.startswith("-"):
            options = [name for each in parameters for name in each.opts if name[:2] == "--"]
            return [f"{each} " for each in [*options, "--help"] if each.startswith(word)]
        key, equals, value = word.partition("=")
        if command == "change":
            offered = [f"{each}=" for each in _KEYS]
            if equals:
                values: dict[str, Iterable[str]] = {
                    "on": self._status("links"),
                    "policy": [*self._status("policies"), "none"],
                    "class": self._classes(),
                    "node": self._nodes(),
                    "state": ("up", "down"),
                    "clear": ("counters",),
                }
                offered = [f"{key}={each}" for each in values.get(key, ()) if value in each]
        elif command == "policy":
            offered = [*self._status("links")]
            if place:
                offered = [*self._status("policies"), "none"]
        elif command == "capture":
            offered = [f"{link}=" for link in self._status("links")]
        elif command == "open":
            offered = [*self._status("links"), *self._nodes()]
        else:
            offered = []
        return [_whole(each) for each in offered if each.startswith(word)]

    def _status(self, key: str) -> Iterable[str]:
        found: Iterable[str] = self._lab.status()[key]
        return found

    def _nodes(self) -> Iterable[str]:
        return self._status("nodes")

    def _classes(self) -> Iterable[str]:
        links: dict[str, Any] = self._lab.status()["links"]
        return dict.fromkeys(name for link in links.values() for name in link["classes"])

    def _report(self, line: str) -> int:
        """Run a command, print its error, and return its exit code."""
        try:
            return self.execute(line)
        except click.exceptions.Exit as done:
            return done.exit_code
        except click.ClickException as error:
            error.show()
            return error.exit_code
        except PerhopError as error:
            echo(f"perhop: {error}", err=True)
            self._over = not self._lab.record.alive
            return error.exit_code

    def _perhop(self, name: str, arguments: list[str]) -> int:
        """Run a command of `perhop lab` for this lab."""
        command = self._commands[name]
        given = ["--lab", self._lab.name, *arguments]
        with command.make_context(name, given) as context:
            code = int(command.invoke(context) or 0)
        self._over = name == "down"
        return code

    def _program(self, words: list[str]) -> int:
        """Run a program in a host, a shell by default."""
        if not words:
            raise UsageError("name a host, such as `exec HOST PROGRAM`")
        host, *command = words
        # What comes from a pipe are commands, not a program's input.
        stdin = None if sys.stdin.isatty() else DEVNULL
        return wait_for(self._lab.start(host, command or login_shell(), stdin=stdin))

    def _help(self) -> None:
        echo("HOST              a shell in this host")
        echo("HOST PROGRAM …    a program in this host; `exec HOST PROGRAM …` does the same")
        for name, command in sorted(self._commands.items()):
            echo(f"{name:<18}{command.get_short_help_str(60)}")
        echo("quit              end this shell; the lab goes on")

    def _prepare_terminal(self) -> None:
        """Edit lines, with completion by the tabulator."""
        try:
            import readline
        except ImportError:  # a Python that was built without it has plain lines
            return

        def offer(word: str, number: int) -> str | None:
            if number == 0:
                before = readline.get_line_buffer()[: readline.get_begidx()]
                self._offered = []
                with suppress(PerhopError, OSError):
                    self._offered = self.complete(before, word)
            return self._offered[number] if number < len(self._offered) else None

        readline.set_completer_delims(" \t\n")
        readline.set_completer(offer)
        readline.parse_and_bind("tab: complete")


def login_shell() -> list[str]:
    """Return the command of the user's shell."""
    return [os.environ.get("SHELL") or "/bin/sh"]


def wait_for(process: Popen[bytes]) -> int:
    """Wait for a program that has the terminal; Ctrl-C is for the program alone.

    Returns:
        Its exit code; 128 and the number of the signal that ended it.
    """
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        code = process.wait()
    finally:
        signal.signal(signal.SIGINT, before)
    return code if code >= 0 else 128 - code


def _whole(word: str) -> str:
    """Return a word that completes an argument; `KEY=` and folders go on."""
    return word if word.endswith(("=", "/")) else f"{word} "


def _programs(word: str) -> list[str]:
    """Return the programs of this machine that begin with `word`; none for an empty one."""
    found: set[str] = set()
    for folder in os.get_exec_path() if word else ():
        with suppress(OSError):
            found |= {
                each.name
                for each in os.scandir(folder)
                if each.name.startswith(word) and os.access(each.path, os.X_OK)
            }
    return sorted(found)[:_MOST]


def _files(word: str) -> list[str]:
    """Return the files whose path begins with `word`; none for an empty one."""
    if not word:
        return []
    folder, slash, _ = word.rpartition("/")
    found = []
    with suppress(OSError):
        for each in os.scandir((folder or "/") if slash else "."):
            path = f"{folder}{slash}{each.name}"
            if path.startswith(word):
                found.append(f"{path}/" if each.is_dir() else path)
    return sorted(found)[:_MOST]
