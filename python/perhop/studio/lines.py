"""The lines of the charts, from the columns of the core as a run ends.

They need no query and no dataset, so that the page draws while verdicts and means are worked out.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from perhop.report.colours import drawn_together, looks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perhop.engines.sim import SimRun
    from perhop.scenario import Scenario

__all__ = ["lines"]

_MOST: Final = 400
"""Points of a line; with more, intervals are put together."""

_COLOURS: Final = 8
"""Colours of the page, in its style sheet."""

Line = list[float | None]
"""A number for each interval; None if nothing is known of it."""


def lines(scenario: Scenario, run: SimRun) -> dict[str, Any]:
    """Return the lines of a run that has ended, as JSON.

    `step_s` is the length of an interval. Lines have a number for each interval of the run, null if
    nothing is known of it: `rate_bps` of flows and classes, and `rtt_s` of flows and pings, whose
    round-trip times are the largest of each interval. `colours` has the number of the colour of
    each flow, ping and class, by its name.
    """
    interval_s = scenario.report.interval / 1e12
    end_s = scenario.end_ps / 1e12
    covered_s = end_s if run.finished else min(end_s, run.now_s)
    # The run may end a rounding error after the end of an interval.
    intervals = max(1, math.ceil(covered_s / interval_s - 1e-9))
    together = math.ceil(intervals / _MOST)
    grid = _Grid(interval_s * together, math.ceil(intervals / together))
    tables = run.columns()
    links = _links(scenario, tables["queues"], grid)
    return {
        "duration_s": end_s,
        "step_s": grid.step,
        "cells": grid.cells,
        "flows": _flows(scenario, tables["intervals"], grid),
        "pings": _pings(scenario, tables["pings"], grid),
        "links": links,
        "colours": _colours(scenario, links),
    }


class _Grid:
    """The intervals of lines."""

    def __init__(self, step: float, cells: int) -> None:
        self.step = step
        self.cells = cells

    def of(self, start_s: float, end_s: float) -> int:
        """Return the cell in which the middle of a stretch is; the last one at most."""
        return min(self.cells - 1, int((start_s + end_s) / 2 / self.step))


class _Rates:
    """The rate of one thing in each cell, from bytes in stretches of time."""

    def __init__(self, grid: _Grid) -> None:
        self._from = [math.inf] * grid.cells
        self._to = [0.0] * grid.cells
        self._bytes: list[int | None] = [None] * grid.cells

    def add(self, cell: int, start_s: float, end_s: float, octets: int) -> None:
        """Count a stretch; a negative number of bytes is an unknown one."""
        self._from[cell] = min(self._from[cell], start_s)
        self._to[cell] = max(self._to[cell], end_s)
        if octets >= 0:
            self._bytes[cell] = (self._bytes[cell] or 0) + octets

    def line(self) -> Line:
        """Return the rates in bit/s."""
        stretches = zip(self._from, self._to, self._bytes, strict=True)
        return [None if n is None else round(8 * n / (end - start)) for start, end, n in stretches]


def _flows(scenario: Scenario, table: dict[str, Any], grid: _Grid) -> list[dict[str, Any]]:
    """Return the throughput and the smoothed round-trip times of each flow."""
    rates = {name: _Rates(grid) for name in scenario.flows}
    # The sum of the samples of each cell, and their number.
    rtts = {name: [(0.0, 0)] * grid.cells for name in scenario.flows}
    columns = ("flow", "start_s", "end_s", "bytes", "srtt_s", "srtt_samples")
    for flow, start_s, end_s, octets, srtt_s, samples in _rows(table, columns):
        cell = grid.of(start_s, end_s)
        rates[flow].add(cell, start_s, end_s, octets)
        if samples > 0 and not math.isnan(srtt_s):
            total, before = rtts[flow][cell]
            rtts[flow][cell] = total + srtt_s * samples, before + samples
    return [
        {
            "name": name,
            "rate_bps": rate.line(),
            "rtt_s": [round(total / n, 6) if n else None for total, n in rtts[name]],
        }
        for name, rate in rates.items()
    ]


def _pings(scenario: Scenario, table: dict[str, Any], grid: _Grid) -> list[dict[str, Any]]:
    """Return the round-trip times of each ping to one node."""
    lines: dict[str, Line] = {name: [None] * grid.cells for name in scenario.pings}
    for name, sent_s, rtt_s in _rows(table, ("ping", "sent_s", "rtt_s")):
        if not math.isnan(rtt_s):
            cell = grid.of(sent_s, sent_s)
            # Microseconds are finer than any pixel.
            lines[name][cell] = max(lines[name][cell] or 0.0, round(rtt_s, 6))
    return [
        {"name": name, "rtt_s": lines[name]}
        for name, ping in scenario.pings.items()
        if not ping.is_trace
    ]


def _links(scenario: Scenario, table: dict[str, Any], grid: _Grid) -> list[dict[str, Any]]:
    """Return what the classes of each direction of the links send and drop."""
    rates: dict[str, dict[str, _Rates]] = {}
    totals: dict[tuple[str, str], tuple[int, int]] = {}
    columns = ("link", "class", "start_s", "end_s", "sent_bytes", "dropped_packets")
    for link, name, start_s, end_s, sent, dropped in _rows(table, columns):
        if name:  # the queue of a link with classes has none, and their counters
            own = rates.setdefault(link, {})
            if name not in own:
                own[name] = _Rates(grid)
            own[name].add(grid.of(start_s, end_s), start_s, end_s, sent)
            before = totals.get((link, name), (0, 0))
            totals[link, name] = before[0] + max(0, sent), before[1] + max(0, dropped)
    hidden = scenario.background_hosts
    found = []
    for name, (link, node) in scenario.queueing.items():
        if hidden.isdisjoint(link.ends):
            own = rates.get(name, {})
            # The classes inside of a class have its packets.
            divided = {each.rpartition("/")[0] for each in own}
            classes = [
                {
                    "name": each,
                    "rate_bps": line.line(),
                    "sent_bytes": totals[name, each][0],
                    "dropped": totals[name, each][1],
                }
                for each, line in own.items()
                if each not in divided
            ]
            found.append({"name": name, "rate_bps": link.capacity(node), "classes": classes})
    return found


def _colours(scenario: Scenario, links: list[dict[str, Any]]) -> dict[str, int]:
    """Return the number of the colour of each name; classes have theirs without an outer class."""
    classes = ([each["name"].rpartition("/")[2] for each in link["classes"]] for link in links)
    found = looks([*drawn_together(scenario), *classes], _COLOURS)
    return {name: look % _COLOURS for name, look in found.items()}


def _rows(table: dict[str, Any], columns: tuple[str, ...]) -> Iterator[tuple[Any, ...]]:
    """Return the rows of some columns of the core, of which NaN and negative numbers are nulls."""
    return zip(*(_values(table[name]) for name in columns), strict=True)


def _values(column: Any) -> list[Any]:
    """Return a column of the core, `perhop._core.Column`, as a list."""
    if isinstance(column, tuple):
        names, places = column
        return [names[place] for place in places.tolist()]
    values: list[Any] = column.tolist()
    return values
