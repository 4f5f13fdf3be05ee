"""Calls: packets that were not played, delay from mouth to ear, and the E-model's rating."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean, median
from typing import TYPE_CHECKING

import polars as pl

from perhop.analysis import emodel
from perhop.analysis.cache import cached, of_flow
from perhop.analysis.windows import Window, clip, cut, weighed
from perhop.units import SECOND

if TYPE_CHECKING:
    from perhop.dataset import Dataset

__all__ = ["Call", "Quality", "calls", "mos_over_time", "of_calls", "quality"]


@dataclass(frozen=True, slots=True)
class Call:
    """What a listener got of a call in a window.

    Attributes:
        number: Number of the call in its flow, from 0.
        packets: Packets whose time of playout was in the window.
        lost: Share of them that did not arrive.
        late: Share of them that arrived after their time of playout.
        burst_ratio: Burst ratio of both (G.107: BurstR).
        mouth_to_ear_s: Mean delay from mouth to ear: packetisation, look-ahead, network and jitter
            buffer. None if nothing was played.
        r_factor: Rating factor by ITU-T G.107; None if the codec has no impairment factors, or if
            nothing was played.
        mos: Its mean opinion score, 1 to 4.5. 1 if nothing was played.
    """

    number: int
    packets: float
    lost: float
    late: float
    burst_ratio: float
    mouth_to_ear_s: float | None
    r_factor: float | None
    mos: float | None


_SUMS = ("packets", "played", "late", "bursts", "delay_s")


@cached
def calls(dataset: Dataset, flow: str, window: Window | None = None) -> list[Call]:
    """Return the calls of a flow of kind `voice` with packets in a window, in their order.

    An empty list for other flows.
    """
    part = clip(dataset, window) or (0.0, 0.0)
    rows = cut(of_flow(dataset, "calls", flow), part)
    sums = rows.group_by("stream", maintain_order=True).agg(
        *(weighed(name).alias(name) for name in _SUMS)
    )
    found = sums.filter(pl.col("packets") > 0).sort("stream")
    return [_call(dataset, flow, row) for row in found.iter_rows(named=True)]


def _call(dataset: Dataset, flow: str, row: dict[str, float]) -> Call:
    voice = dataset.scenario.flows[flow].voice
    assert voice is not None
    packets, played = row["packets"], row["played"]
    missed = packets - played
    late = min(row["late"], missed)
    ratio = emodel.burst_ratio(packets, missed, row["bursts"])
    delay = row["delay_s"] / played + voice.codec_delay / SECOND if played else None
    rating = score = None
    if voice.impairment is not None:
        ie, bpl = voice.impairment
        if delay is None:
            score = 1.0
        else:
            rating = emodel.rating(
                emodel.Parameters.of_delay(
                    delay, Ppl=100 * missed / packets, BurstR=ratio, Ie=ie, Bpl=bpl
                )
            )
            score = emodel.mos(rating)
    return Call(
        number=int(row["stream"]),
        packets=packets,
        lost=(missed - late) / packets,
        late=late / packets,
        burst_ratio=ratio,
        mouth_to_ear_s=delay,
        r_factor=rating,
        mos=score,
    )


@dataclass(frozen=True, slots=True)
class Quality:
    """A value of all calls of a flow: their mean, their median, and that of the worst call."""

    mean: float
    median: float
    worst: float


def of_calls(found: list[Call], name: str) -> Quality | None:
    """Return a value of calls, by the name of an attribute; None if no call has it."""
    values = [value for call in found if (value := getattr(call, name)) is not None]
    if not values:
        return None
    worst = min if name in ("mos", "r_factor") else max
    return Quality(fmean(values), median(values), worst(values))


def quality(dataset: Dataset, flow: str, metric: str, window: Window | None = None) -> float | None:
    """Return a metric of the calls of a flow.

    Args:
        dataset: The run.
        flow: A flow of kind `voice`.
        metric: `mos`, `r_factor`, `mouth_to_ear` (seconds) or `late` (0 to 1), the mean of its
            calls; with `_worst` at the end, that of the worst call.
        window: Seconds of the run; the whole run by default.

    Returns:
        None if no packet of a call was due, or if the codec has no impairment factors.
    """
    name = metric.removesuffix("_worst")
    attribute = "mouth_to_ear_s" if name == "mouth_to_ear" else name
    found = of_calls(calls(dataset, flow, window), attribute)
    if found is None:
        return None
    return found.mean if name == metric else found.worst


def mos_over_time(dataset: Dataset) -> pl.DataFrame:
    """Return the score of the worst call of each flow in each report interval.

    Returns:
        Columns `flow`, `start_s`, `end_s` and `mos`, without intervals in which no packet was due.
    """
    rows: list[tuple[str, float, float, float]] = []
    for name, flow in dataset.scenario.flows.items():
        if flow.voice is None:
            continue
        table = of_flow(dataset, "calls", name).filter(pl.col("packets") > 0)
        worst: dict[tuple[float, float], float] = {}
        for row in table.iter_rows(named=True):
            score = _call(dataset, name, row).mos
            if score is not None:
                edges = row["start_s"], row["end_s"]
                worst[edges] = min(score, worst.get(edges, score))
        rows += [(name, *edges, score) for edges, score in worst.items()]
    schema = {"flow": pl.String, "start_s": pl.Float64, "end_s": pl.Float64, "mos": pl.Float64}
    return pl.DataFrame(rows, schema=schema, orient="row")
