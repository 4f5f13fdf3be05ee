"""Tables of runs with several seeds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perhop.report import text
from perhop.report.tables import Column, Table
from perhop.report.timeline import MOST_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from perhop.analysis import Spread

__all__ = ["spread_tables"]

_STATISTICS: Final = ("median", "p95", "p99")
_SHOWN: Final = frozenset(
    {
        *("throughput", "loss", "jitter", "utilisation", "mos", "mos_worst", "late"),
        *("startup", "stalls", "stall_time", "bitrate"),
        *(f"{of}_{part}" for of in ("rtt", "owd", "queueing") for part in _STATISTICS),
        *(f"{of}_{part}" for of in ("page_load", "completion", "slowdown") for part in _STATISTICS),
    }
)
"""The metrics of the table; the others are in `--json`."""

_UNITS: Final = {"bit/s": "bps", "count": "packets"}


def spread_tables(
    throughput: Mapping[tuple[float, float, str], Spread],
    metrics: Mapping[tuple[str, str, str], Spread],
) -> Iterator[Table]:
    """Yield the throughput by phase and the metrics of `perhop.ensembles.Ensemble`."""
    spreads = [*throughput.values(), *metrics.values()]
    runs = max((each.runs for each in spreads), default=1)
    note = f"Medians of {runs} runs, with their 95% intervals." if runs > 1 else ""
    flows = list(dict.fromkeys(flow for _, _, flow in throughput))
    spans = dict.fromkeys((start, end) for start, end, _ in throughput)
    if len(spans) > 1 and len(flows) <= MOST_COLUMNS:
        rows = [
            (text.window(*span), *(_cell(throughput[*span, flow], "bps") for flow in flows))
            for span in spans
        ]
        columns = (Column("phase", "left"), *map(Column, flows))
        yield Table("Throughput by phase", columns, tuple(rows), note)
    rows = []
    for (target, metric, unit), found in metrics.items():
        if metric in _SHOWN:
            unit = _UNITS.get(unit, unit)
            ends = (text.quantity(end, unit) for end in (found.low, found.high))
            cells = (text.quantity(found.median, unit), " to ".join(ends))
            rows.append((target, metric, *cells[: 1 + (runs > 1)]))
    heads = ("median", "95% interval") if runs > 1 else ("measured",)
    columns = (Column("of", "left"), Column("metric", "left"), *map(Column, heads))
    yield Table("Metrics", columns, tuple(rows), note)


def _cell(found: Spread, unit: str) -> str:
    """Return a median with its interval, if it has one."""
    median = text.quantity(found.median, unit)
    if found.runs == 1 or found.median is None:
        return median
    ends = (text.quantity(end, unit) for end in (found.low, found.high))
    return f"{median} ({' to '.join(ends)})"
