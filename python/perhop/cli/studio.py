"""`perhop studio`: a page on which one plays with a scenario."""

from __future__ import annotations

import click

from perhop.cli import options
from perhop.cli.output import echo

__all__ = ["studio"]


@click.command()
@options.scenario_or_none
@click.option(
    "--port",
    default=0,
    type=click.IntRange(0, 65535),
    help="The port on the loopback device; by default a free one.",
)
@click.option("--no-browser", is_flag=True, help="Print the address only.")
def studio(scenario: str | None, port: int, no_browser: bool) -> int:
    """Open a page on which one plays with a scenario.

    SCENARIO is a file, or a name that `perhop list` prints. The page has its text, its network, a
    slider for each quantity, and results that follow. It writes the file
    only when you save. Ctrl-C ends it.
    """
    import gc
    import os

    # Tables of a run are small: to wake threads for each query takes longer than the query.
    os.environ.setdefault("POLARS_MAX_THREADS", "1")

    from perhop.studio import Studio

    with Studio(scenario, port) as page:
        # To look for garbage among all modules takes as long as a run.
        gc.freeze()
        echo(page.address)
        if not no_browser:
            import webbrowser

            webbrowser.open(page.address)
        page.wait()
    return 0
