"""Progress of a run: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from perhop.printable import printable
from perhop.units import format_rate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from perhop.engines import Progress

    # Takes how much is done, 0 to 1, and the state in words.
    Show = Callable[[float, str], None]

__all__ = ["counting", "watching"]

_LINE_EVERY_S: Final = 10.0
_FLOWS_SHOWN: Final = 4
_BAR_WIDTH: Final = 20


@contextmanager
def watching(name: str) -> Iterator[Callable[[Progress], None]]:
    """Yield a function to call with the progress of a run."""
    with _showing(name) as show:
        yield lambda progress: show(progress.now_s / progress.end_s, _state(progress))


@contextmanager
def counting(name: str) -> Iterator[Callable[[int, int], None]]:
    """Yield a function to call with the numbers of finished runs and of all runs."""
    with _showing(name) as show:
        yield lambda done, count: show(done / count, f"{done} of {count} runs")


@contextmanager
def _showing(name: str) -> Iterator[Show]:
    """Show progress on stderr, so that stdout has only results."""
    name = printable(name)
    if sys.stderr.isatty():
        with _bar(name) as show:
            yield show
    else:
        yield _lines(name)


@contextmanager
def _bar(name: str) -> Iterator[Show]:
    import rich.progress
    from rich.console import Console
    from rich.table import Column

    # On a narrow terminal the state is cut short, and the bar stays.
    rest = Column(ratio=1, no_wrap=True, overflow="ellipsis")
    columns = (
        rich.progress.TextColumn("{task.description}", markup=False),
        rich.progress.BarColumn(bar_width=_BAR_WIDTH),
        rich.progress.TaskProgressColumn(),
        rich.progress.TextColumn("{task.fields[state]}", markup=False, table_column=rest),
    )
    console = Console(stderr=True)
    with rich.progress.Progress(*columns, console=console, transient=True, expand=True) as bar:
        task = bar.add_task(name, total=1.0, state="")
        yield lambda done, state: bar.update(task, completed=done, state=state)


def _lines(name: str) -> Show:
    due = time.monotonic() + _LINE_EVERY_S

    def show(_done: float, state: str) -> None:
        nonlocal due
        if time.monotonic() >= due:
            due = time.monotonic() + _LINE_EVERY_S
            print(f"{name}: {state}", file=sys.stderr, flush=True)

    return show


def _state(progress: Progress) -> str:
    """Simulated time, speed, and the busiest flows' rates."""
    speed = progress.now_s / max(progress.wall_s, 1e-9)
    rates = sorted(progress.throughput_bps.items(), key=lambda item: -item[1])
    shown = [f"{flow} {_rate(bps)}" for flow, bps in rates[:_FLOWS_SHOWN]]
    more = len(rates) - len(shown)
    flows = ", ".join([*shown, *([f"{more} more"] if more > 0 else [])])
    return printable(f"{progress.now_s:.1f} of {progress.end_s:g} s, {speed:.0f}x: {flows}")


def _rate(bps: float) -> str:
    """A rate to three digits."""
    return format_rate(int(float(f"{bps:.3g}")))
