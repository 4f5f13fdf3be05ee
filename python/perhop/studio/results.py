"""A run as the numbers that the page draws."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from perhop import analysis
from perhop.report import text

if TYPE_CHECKING:
    from collections.abc import Callable

    from perhop.dataset import Dataset

__all__ = ["results"]

_MOST: Final = 400
"""Points of a line; with more, intervals are put together."""


def results(dataset: Dataset) -> dict[str, Any]:
    """Return the lines and the verdicts of a run, as JSON.

    `step_s` is the length of an interval. Lines have a number for each interval of the run, null if
    nothing is known of it: `rate_bps` of flows and classes, and `rtt_s` of flows and pings, whose
    round-trip times are the largest of each interval.
    """
    interval_s = dataset.scenario.report.interval / 1e12
    # The run may end a rounding error after the end of an interval.
    intervals = max(1, math.ceil(dataset.covered_s / interval_s - 1e-9))
    together = math.ceil(intervals / _MOST)
    grid = _Grid(interval_s * together, math.ceil(intervals / together))
    manifest = dataset.manifest
    return {
        "duration_s": dataset.scenario.end_ps / 1e12,
        "step_s": grid.step,
        "cells": grid.cells,
        "wall_s": round(manifest.wall_s, 4),
        "complete": manifest.complete,
        "warnings": [warned.model_dump() for warned in manifest.warnings],
        "verdicts": [
            {
                "text": verdict.text,
                "ok": verdict.ok,
                "measured": text.quantity(verdict.measured, verdict.unit),
            }
            for verdict in analysis.verdicts(dataset)
        ],
        "flows": _flows(dataset, grid),
        "pings": _pings(dataset, grid),
        "links": _links(dataset, grid),
    }


class _Grid:
    """The intervals of lines."""

    def __init__(self, step: float, cells: int) -> None:
        self.step = step
        self.cells = cells

    def cell(self) -> pl.Expr:
        """Return the interval of a row of a table."""
        middle = (pl.col("start_s") + pl.col("end_s")) / 2
        return (middle / self.step).floor().cast(pl.Int64).alias("cell")

    def lines(
        self, rows: pl.DataFrame, by: list[str], column: str, shown: Callable[[float], float]
    ) -> dict[tuple[str, ...], list[float | None]]:
        """Return the line of each thing in `rows`, which `by` names; None where it has no row."""
        found: dict[tuple[str, ...], list[float | None]] = {}
        for *names, cell, value in rows.select(*by, "cell", column).iter_rows():
            line = found.setdefault(tuple(names), [None] * self.cells)
            if value is not None and 0 <= cell < self.cells:
                line[cell] = shown(value)
        return found


def _flows(dataset: Dataset, grid: _Grid) -> list[dict[str, Any]]:
    """Return the throughput and the smoothed round-trip times of each flow."""
    samples = pl.col("srtt_samples")
    rows = (
        dataset.intervals.group_by("flow", grid.cell(), maintain_order=True)
        .agg(
            pl.min("start_s"),
            pl.max("end_s"),
            pl.when(pl.col("bytes").count() > 0).then(pl.sum("bytes")).alias("bytes"),
            ((pl.col("srtt_s") * samples).sum() / samples.sum()).fill_nan(None).alias("rtt_s"),
        )
        .with_columns(rate=8 * pl.col("bytes") / (pl.col("end_s") - pl.col("start_s")))
    )
    rates = grid.lines(rows, ["flow"], "rate", round)
    rtts = grid.lines(rows, ["flow"], "rtt_s", _rounded)
    found = []
    for name in dataset.scenario.flows:
        window = analysis.active(dataset, name)
        mean = analysis.throughput(dataset, name, window) if window else None
        found.append(
            {
                "name": name,
                "mean": text.rate(mean),
                "mean_bps": mean,
                "rate_bps": rates.get((name,), [None] * grid.cells),
                "rtt_s": rtts.get((name,), [None] * grid.cells),
            }
        )
    return found


def _pings(dataset: Dataset, grid: _Grid) -> list[dict[str, Any]]:
    """Return the round-trip times of each ping to one node."""
    cell = (pl.col("sent_s") / grid.step).floor().cast(pl.Int64).alias("cell")
    rows = dataset.pings.group_by("ping", cell, maintain_order=True).agg(pl.max("rtt_s"))
    lines = grid.lines(rows, ["ping"], "rtt_s", _rounded)
    found = []
    for name, ping in dataset.scenario.pings.items():
        if not ping.is_trace:
            times = analysis.rtt(dataset, name)
            found.append(
                {
                    "name": name,
                    "p99": text.duration(times.p99 if times else None),
                    "loss": text.share(analysis.loss(dataset, name)),
                    "rtt_s": lines.get((name,), [None] * grid.cells),
                }
            )
    return found


def _links(dataset: Dataset, grid: _Grid) -> list[dict[str, Any]]:
    """Return the use of each direction of the links, and what its classes send."""
    rows = (
        dataset.queues.group_by("link", "class", grid.cell(), maintain_order=True)
        .agg(pl.min("start_s"), pl.max("end_s"), pl.sum("sent_bytes"), pl.sum("dropped_packets"))
        .with_columns(rate=8 * pl.col("sent_bytes") / (pl.col("end_s") - pl.col("start_s")))
    )
    rates = grid.lines(rows, ["link", "class"], "rate", round)
    totals = rows.group_by("link", "class", maintain_order=True).agg(
        pl.sum("sent_bytes"), pl.sum("dropped_packets")
    )
    classes: dict[str, list[dict[str, Any]]] = {}
    for link, name, sent, dropped in totals.iter_rows():
        one = {"name": name, "rate_bps": rates[link, name], "sent_bytes": sent, "dropped": dropped}
        classes.setdefault(link, []).append(one)
    used = dict(analysis.link_loads(dataset).select("link", "utilisation").iter_rows())
    hidden = dataset.scenario.background_hosts
    found = []
    for name, (link, node) in dataset.scenario.directions.items():
        if hidden.isdisjoint(link.ends):
            own = classes.get(name, [])
            divided = {each["name"].rpartition("/")[0] for each in own}
            found.append(
                {
                    "name": name,
                    "rate_bps": link.capacity(node),
                    "utilisation": round(used.get(name) or 0.0, 4),
                    # The classes inside of a class have its packets.
                    "classes": [each for each in own if each["name"] not in divided],
                }
            )
    return found


def _rounded(seconds: float) -> float:
    """Return seconds with microseconds, which is finer than any pixel."""
    return round(seconds, 6)
