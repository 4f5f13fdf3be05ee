"""What a run says beside its lines: verdicts, warnings, means."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perhop import analysis
from perhop.report import text

if TYPE_CHECKING:
    from perhop.dataset import Dataset

__all__ = ["results"]


def results(dataset: Dataset) -> dict[str, Any]:
    """Return the verdicts and warnings of a run, and the numbers of its things by name, as JSON."""
    manifest = dataset.manifest
    hidden = dataset.scenario.background_hosts
    used = dict(analysis.link_loads(dataset).select("link", "utilisation").iter_rows())
    return {
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
        "flows": {name: text.rate(_mean(dataset, name)) for name in dataset.scenario.flows},
        "pings": {
            name: _ping(dataset, name)
            for name, ping in dataset.scenario.pings.items()
            if not ping.is_trace
        },
        "utilisation": {
            name: None if used.get(name) is None else round(used[name], 4)
            for name, (link, _) in dataset.scenario.directions.items()
            if hidden.isdisjoint(link.ends)
        },
    }


def _mean(dataset: Dataset, flow: str) -> float | None:
    """Return the throughput of a flow while it sends, in bit/s."""
    window = analysis.active(dataset, flow)
    return analysis.throughput(dataset, flow, window) if window else None


def _ping(dataset: Dataset, name: str) -> str:
    """Return the round-trip times and the loss of a ping in words."""
    times = analysis.rtt(dataset, name)
    p99 = text.duration(times.p99 if times else None)
    return f"p99 {p99}, loss {text.share(analysis.loss(dataset, name))}"
