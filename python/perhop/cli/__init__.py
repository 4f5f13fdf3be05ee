"""The command line: each command parses, calls one function of the library, and renders.

Commands live in modules of their own and import what they need when they run, so that `--help`
answers at once. Exit codes: 0 success, 1 an expectation failed, 2 the input is wrong, 3 this
machine, or a family of routers to write for, lacks a feature, 69 processes that make runs, or their
scheduler, have ended, 130 interrupted, 143 terminated
(measurements so far are kept).
"""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from typing import TYPE_CHECKING, Final

import click

from perhop import interruption
from perhop.cli.advise import advise
from perhop.cli.agent import agent
from perhop.cli.catalogue import list_
from perhop.cli.compare import compare
from perhop.cli.completion import complete, completion
from perhop.cli.counters import counters
from perhop.cli.crosscheck import crosscheck
from perhop.cli.diff import diff
from perhop.cli.doctor import doctor
from perhop.cli.export import export, tc
from perhop.cli.find import find
from perhop.cli.import_ import import_
from perhop.cli.lab import lab
from perhop.cli.lint import lint
from perhop.cli.new import new
from perhop.cli.output import document, echo
from perhop.cli.path import path
from perhop.cli.plugins import PLUGINS
from perhop.cli.report import report
from perhop.cli.reproduce import reproduce
from perhop.cli.run import run
from perhop.cli.runs import runs
from perhop.cli.schema import schema
from perhop.cli.studio import studio
from perhop.cli.sweep import sweep
from perhop.cli.test import check, test
from perhop.cli.version import version
from perhop.errors import PerhopError, ScenarioError
from perhop.printable import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main", "perhop"]

_BUG: Final = 70
"""The exit code of a bug: EX_SOFTWARE of sysexits(3). Python's own, 1, says that an expectation
failed."""


_EXAMPLES: Final = """\b
Examples:
  perhop new dsl            write a scenario to start from
  perhop list               the scenarios that come with perhop
  perhop run qbss-1-70      run one; a path runs your own
"""


@click.group(context_settings={"help_option_names": ["-h", "--help"]}, epilog=_EXAMPLES)
@version
def perhop() -> None:
    """What does each class of traffic really get?

    A scenario file describes a network, its policies and its traffic. perhop runs it and reports
    the throughput, loss and delay of every flow.
    """


for command in (
    run,
    test,
    check,
    new,
    studio,
    report,
    runs,
    compare,
    crosscheck,
    reproduce,
    sweep,
    find,
    advise,
    import_,
    diff,
    counters,
    export,
    lab,
    path,
    list_,
    schema,
    lint,
    tc,
    agent,
    doctor,
    completion,
    *PLUGINS,
):
    perhop.add_command(command)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit."""
    complete(perhop)
    with interruption.listening():
        try:
            code = _run(sys.argv[1:] if arguments is None else list(arguments))
        except KeyboardInterrupt:
            code = interruption.exit_code()
    sys.exit(code)


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    """Print a warning of the library, without its place in perhop's code."""
    echo(f"perhop: warning: {printable(str(message))}", err=True)


def _run(arguments: list[str]) -> int:
    """Run a command, print its error and its warnings, and return the exit code."""
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            code = _invoke(arguments)
        # Otherwise the interpreter would flush at exit, where errors cannot be reported.
        sys.stdout.flush()
    except click.exceptions.Abort:
        code = interruption.exit_code()
    except click.ClickException as error:
        vars(error)["message"] = printable(error.message)
        error.show()
        code = error.exit_code
    except ScenarioError as error:
        # Each line begins with its place, as editors expect it.
        document(str(error), err=True)
        code = error.exit_code
    except PerhopError as error:
        echo(f"perhop: {error}", err=True)
        code = error.exit_code
    except BrokenPipeError:
        # The reader of the output has gone, so that no message can reach it.
        _abandon_stdout()
        code = 141
    except OSError as error:
        # The library explains its own; what is left is the stream that results are printed on.
        echo(f"perhop: {error.filename or 'standard output'}: {error.strerror}", err=True)
        _abandon_stdout()
        code = 2
    except Exception:
        document(traceback.format_exc(), err=True, nl=False)
        echo("perhop: this is a bug in perhop; please report it with the lines above", err=True)
        code = _BUG
    return code


def _invoke(arguments: list[str]) -> int:
    """Run a command and return its exit code.

    Unlike click's `main` it does not turn an `OSError` into the exit code 1.
    """
    try:
        with perhop.make_context("perhop", arguments) as context:
            return int(perhop.invoke(context) or 0)
    except click.exceptions.Exit as done:
        return done.exit_code


def _abandon_stdout() -> None:
    """Discard buffered output, so that the interpreter ends without a warning."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
