"""Charts of the distributions of delays of several runs, for comparisons."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from perhop import analysis
from perhop.report.delays import distribution_chart

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from perhop.dataset import Dataset
    from perhop.report.style import Spec

__all__ = ["MOST_CHARTS", "compared_delays"]

MOST_CHARTS: Final = 12
"""Greatest number of flows and pings of which a comparison draws the delays."""


def compared_delays(datasets: Sequence[Dataset], names: Sequence[str]) -> list[tuple[str, Spec]]:
    """Return a chart of the delays of each flow and ping, with a line for each run.

    A flow's delays are those of its packets one way, or if the runs have none the round-trip times
    of its segments; a ping's are the round-trip times of requests that were answered.

    Args:
        datasets: The runs.
        names: A name for each.

    Returns:
        Flows and pings, each with its chart, in the order of the first run: those with delays in
        two runs at least, and no more than `MOST_CHARTS`.
    """
    runs = dict(zip(names, datasets, strict=True))
    looks = {name: number for number, name in enumerate(runs)}
    found: list[tuple[str, Spec]] = []
    for name, across, curves in _curves(runs):
        caption = f"distribution of the {across} in each run"
        up = (
            "answered within this time"
            if name in datasets[0].scenario.pings
            else "within this time"
        )
        spec = distribution_chart(name, curves, across, up, [caption], looks)
        if spec is not None and len(curves) > 1:
            found.append((name, spec))
        if len(found) == MOST_CHARTS:
            break
    return found


def _curves(runs: dict[str, Dataset]) -> Iterator[tuple[str, str, dict[str, pl.DataFrame]]]:
    """Yield each flow and ping, the kind of its delays, and their histogram in each run."""
    first = next(iter(runs.values())).scenario
    for flow in first.flows:
        for table, across in (("owd", "one-way delay"), ("rtt", "round-trip time")):
            histograms = {
                run: analysis.histogram(dataset, flow, table)
                for run, dataset in runs.items()
                if flow in dataset.scenario.flows
            }
            curves = {run: b for run, b in histograms.items() if b is not None and len(b)}
            if len(curves) > 1:
                yield flow, across, curves
                break
    for ping, settings in first.pings.items():
        if settings.is_trace:
            continue
        curves = {
            run: bins
            for run, dataset in runs.items()
            if ping in dataset.scenario.pings and len(bins := _answered(dataset, ping))
        }
        yield ping, "round-trip time", curves


def _answered(dataset: Dataset, ping: str) -> pl.DataFrame:
    """Return the round-trip times of a ping as a histogram of bins without a width."""
    times = analysis.sent(dataset, ping)["rtt_s"].drop_nulls().sort()
    return pl.DataFrame(
        {"low_s": times, "high_s": times, "samples": pl.repeat(1, len(times), eager=True)}
    )
