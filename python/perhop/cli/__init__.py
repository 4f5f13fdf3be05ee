"""The command line: each command parses, calls one function of the library, and renders.

Commands live in modules of their own and import what they need when they run, so that `--help`
answers at once. Exit codes: 0 done, 1 an expectation failed, 2 the input is wrong, 3 this machine
cannot do it, 130 interrupted (what was measured is kept).
"""

from __future__ import annotations

import signal
import sys
import traceback
from typing import TYPE_CHECKING, Final

import click

from perhop.cli.catalogue import list_
from perhop.cli.report import report
from perhop.cli.run import run
from perhop.cli.schema import schema
from perhop.errors import PerhopError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

__all__ = ["main", "perhop"]

_BUG: Final = 70
"""The exit code of a bug: EX_SOFTWARE of sysexits(3). Python's own, 1, says that an expectation
failed."""


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="perhop", message="%(prog)s %(version)s")
def perhop() -> None:
    r"""What does each class of traffic really get?

    A scenario file describes a network, its per-hop policies and its traffic; perhop runs it and
    says what every flow got.

    \b
      perhop list               the scenarios that come with perhop
      perhop run qbss-1-70      run one; a path runs your own
    """


for command in (run, report, list_, schema):
    perhop.add_command(command)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit."""
    # A run that is asked to end keeps what it has measured, as with Ctrl-C.
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        code = perhop(arguments, prog_name="perhop", standalone_mode=False)
    except click.exceptions.Abort:
        code = 130
    except KeyboardInterrupt:
        code = 130
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except PerhopError as error:
        click.echo(f"perhop: {error}", err=True)
        code = error.exit_code
    except BrokenPipeError:
        # Whoever read the output has gone; nothing is left to say.
        sys.stderr.close()
        code = 141
    except Exception:
        traceback.print_exc()
        click.echo(
            "perhop: this is a bug in perhop; please report it with the lines above", err=True
        )
        code = _BUG
    sys.exit(code)


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
