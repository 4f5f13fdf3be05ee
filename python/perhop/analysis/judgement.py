"""Expectations and published values, compared with measured ones."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from perhop.analysis.arrivals import jitter, order
from perhop.analysis.calls import quality
from perhop.analysis.channels import (
    TUNNEL_METRICS,
    airtime,
    channel_utilisation,
    retries,
    tunnel_metric,
)
from perhop.analysis.codepoints import dscp_kept
from perhop.analysis.completions import completions, page_loads, slowdowns, video
from perhop.analysis.distributions import (
    completion,
    count,
    flow_srtt,
    loss,
    owd,
    queueing,
    rtt,
    sack_share,
)
from perhop.analysis.links import DROPS, class_counts, utilisation
from perhop.analysis.responsiveness import bufferbloat, responsiveness
from perhop.analysis.spreads import fairness, stream_rates
from perhop.analysis.throughput import settling, throughput
from perhop.analysis.windows import Window, clip, seconds
from perhop.dataset import Dataset
from perhop.errors import UsageError
from perhop.scenario import Basis, Expectation, Measured, Metric
from perhop.scenario.model.metrics import CALLS, METRICS, metric_hint
from perhop.units import quote

# The unit of each kind of quantity in results, and how many of the scenario's units make one.
_UNITS: Final = {
    "rate": ("bps", 1),
    "duration": ("s", 10**12),
    "share": ("share", 10**9),
    "size": ("B", 1),
    "count": ("packets", 1),
    "ratio": ("ratio", 10**6),
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of an expectation.

    `measured` is in `unit`: "bps", "s", "share" (0 to 1), "B", "packets" or "ratio". It is None if
    nothing was measured, and `ok` is false. If the run ended before the window's end, both are
    None: the expectation was not reached.
    """

    text: str
    ok: bool | None
    measured: float | None
    unit: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """A published value and the measured one, both in `unit`.

    `published` is None if the document has it only in a picture. `difference` is (measured -
    published) / published, None if that is undefined. `within` is the relative tolerance. `basis`
    says whether the document states the value at all. `precision` is half the width of the interval
    that the printed value stands for, if its digits do not say it. An ensemble's interval that
    contains `rival` is undecided. Values of the same `number` are one number of the document.
    """

    label: str
    metric: str
    target: str
    window: Window
    published: float | None
    qualifier: str
    measured: float | None
    difference: float | None
    unit: str
    note: str
    within: float | None = None
    basis: Basis = "stated"
    precision: float | None = None
    rival: float | None = None
    number: str = ""

    @property
    def stands_for(self) -> tuple[float, float] | None:
        """The values for which the printed one stands; None without a printed one.

        By default those that round to it: half a unit of its last digit that is not zero, so that
        0.944 Mb/s are 0.9435 to 0.9445 Mb/s, and 150 are 145 to 155. A zero stands for itself.
        """
        if self.published is None:
            return None
        half = self.precision
        if half is None:
            exponent = Decimal(repr(self.published)).normalize().as_tuple().exponent
            half = 0.5 * 10.0 ** int(exponent) if self.published else 0.0
        return self.published - half, self.published + half

    @property
    def agrees(self) -> bool | None:
        """True if the measured value agrees with the published one; None without a criterion."""
        if self.measured is None or self.published is None:
            return None
        if self.qualifier == "above":
            return self.measured >= self.published
        if self.qualifier == "below":
            return self.measured <= self.published
        if self.within is None:
            return None
        return abs(self.measured - self.published) <= self.within * abs(self.published)


def measure(
    dataset: Dataset,
    metric: str,
    target: str,
    window: Window | None = None,
    *,
    class_: str | None = None,
    cause: str | None = None,
    entry: str | None = None,
) -> float | None:
    """The value of a metric of one target as `expect` and `published` name it.

    Args:
        dataset: The run.
        metric: A key of `perhop.scenario.METRICS` of one target; not `ratio` or `rpm`.
        target: The name of the flow, ping, directed link, radio channel or tunnel, or "total".
        window: Seconds of the run; the whole scenario by default.
        class_: The class of the directed link; all classes by default.
        cause: The cause of drops, as in `perhop.dataset.CAUSES`; all causes by default.
        entry: The end of the tunnel at which packets enter; both directions by default.

    Returns:
        The value: rates in bit/s, times in seconds, shares from 0 to 1, sizes in bytes; or None if
        there is nothing to measure.

    Raises:
        UsageError: If the metric is unknown, or the run has no such flow, ping, link, class or
            tunnel.
    """
    found = _OF_LINKS.get(metric)
    if found is not None:
        return found(class_counts(dataset, target, class_, window), cause)
    match metric:
        case "throughput":
            return throughput(dataset, target, window)
        case "loss":
            return loss(dataset, target, window)
        case "jitter":
            return jitter(dataset, target, window)
        case "reordered":
            return order(dataset, target, window).share
        case "duplicates":
            return order(dataset, target, window).duplicates
        case "retransmits":
            return count(dataset, target, "retransmits", window)
        case "sack_share":
            return sack_share(dataset, target, window)
        case "dscp_kept":
            return dscp_kept(dataset, target, window)
        case "settling":
            return settling(dataset, target, window)
        case "completion":
            return completion(dataset, target)
        case "startup" | "stalls" | "stall_time" | "bitrate" | "switches":
            value = getattr(video(dataset, target, window), metric)
            return None if value is None else float(value)
        case "bufferbloat":
            bloat = bufferbloat(dataset, target, window)
            return None if bloat is None else bloat.increase
        case "fairness":
            return fairness(stream_rates(dataset, target, window))
        case "airtime":
            return airtime(dataset, target, window)
        case "retries":
            return retries(dataset, target, window)
        case "utilisation" if target in dataset.scenario.channels:
            return channel_utilisation(dataset, target, window)
        case "utilisation":
            return utilisation(dataset, target, window)
        case "sent_rate":
            return _sent_rate(dataset, target, class_, window)
        case "share":
            return _share(dataset, target, class_, window)
    if metric in TUNNEL_METRICS:
        return tunnel_metric(dataset, metric, target, entry, window)
    if metric in CALLS:
        return quality(dataset, target, metric, window)
    name, _, statistic = metric.rpartition("_")
    if metric in METRICS and name in _DELAYS:
        delays = _DELAYS[name](dataset, target, window)
        return getattr(delays, statistic) if delays else None
    what = "is a metric of two targets" if metric in METRICS else "is not a metric"
    raise UsageError(f"{quote(metric)} {what}; {metric_hint(metric, beside=[metric])}")


_DELAYS: Final = {
    "rtt": rtt,
    "srtt": flow_srtt,
    "owd": owd,
    "queueing": queueing,
    "completion": completions,
    "slowdown": slowdowns,
    "page_load": page_loads,
}
"""The distributions of which metrics have statistics."""

_Counts = dict[str, float | None]


def _drops(counts: _Counts, cause: str | None) -> float | None:
    return counts["dropped_packets" if cause is None else DROPS[cause]]


def _drop_share(counts: _Counts, cause: str | None) -> float | None:
    sent, every, drops = counts["sent_packets"], counts["dropped_packets"], _drops(counts, cause)
    if sent is None or every is None or drops is None or not sent + every:
        return None
    return drops / (sent + every)


_OF_LINKS: Final[Mapping[str, Callable[[_Counts, str | None], float | None]]] = {
    "drops": _drops,
    "drop_share": _drop_share,
    "marks": lambda counts, _: counts["marked_packets"],
    "backlog_mean": lambda counts, _: counts["backlog_bytes"],
    "backlog_max": lambda counts, _: counts["backlog_bytes_max"],
}
"""Metrics of the counters of a directed link."""


def _sent_rate(
    dataset: Dataset, link: str, class_: str | None, window: Window | None
) -> float | None:
    part, sent = clip(dataset, window), class_counts(dataset, link, class_, window)["sent_bytes"]
    return None if part is None or sent is None else 8 * sent / (part[1] - part[0])


def _share(dataset: Dataset, link: str, class_: str | None, window: Window | None) -> float | None:
    sent, total = (class_counts(dataset, link, of, window)["sent_bytes"] for of in (class_, None))
    return sent / total if total and sent is not None else None


def evaluate(
    dataset: Dataset,
    metric: str,
    targets: Sequence[str],
    window: Window | None = None,
    *,
    of: str = "throughput",
    class_: str | None = None,
    cause: str | None = None,
    entry: str | None = None,
) -> float | None:
    """Return the value of any metric, as expectations have it.

    Args:
        dataset: The run.
        metric: A key of `perhop.scenario.METRICS`.
        targets: The names of flows, pings, or one link, channel or tunnel, or "total".
        window: Seconds of the run, which it must cover; the whole scenario by default.
        of: The metric of each target of `ratio`.
        class_: The class of the directed link, as for `measure`.
        cause: The cause of drops, as for `measure`.
        entry: The end of the tunnel at which packets enter, as for `measure`.

    Returns:
        The value in the unit of verdicts; None if nothing was measured, or if the run ended before
        the window's end.

    Raises:
        UsageError: Unknown metric, or a target or number of targets that it does not have.
    """
    if metric in METRICS:
        _refuse_number(METRICS[metric], targets)
    window = _window(dataset, None) if window is None else window
    if not _covers(dataset, window):
        return None
    if metric == "fairness" and len(targets) > 1:
        rates = [throughput(dataset, flow, window) for flow in targets]
        return None if None in rates else fairness([rate for rate in rates if rate is not None])
    if metric == "rpm":
        answered = responsiveness(dataset, targets[0], tuple(targets[1:]), window)
        return None if answered is None else answered.rpm
    each = of if metric == "ratio" else metric
    values = [
        measure(dataset, each, target, window, class_=class_, cause=cause, entry=entry)
        for target in targets
    ]
    if metric != "ratio":
        return values[0]
    first, second = values
    return first / second if first is not None and second else None


def _refuse_number(metric: Metric, targets: Sequence[str]) -> None:
    least, most = metric.several
    if not least <= len(targets) <= most:
        wanted = "one" if most == 1 else f"{least}" if least == most else f"at least {least}"
        raise UsageError(f"`{metric.name}` has {len(targets)} targets; expected {wanted}")


def _of_item(dataset: Dataset, item: Measured) -> float | None:
    """Return an expected or published metric over a window that the run covers completely."""
    window = _window(dataset, item.during)
    return evaluate(
        dataset,
        item.metric.name,
        item.targets,
        window,
        of=item.measured_metric.name,
        class_=item.class_,
        cause=item.cause,
        entry=item.entry,
    )


def expected(dataset: Dataset, metric: str) -> list[tuple[Measured, Window]]:
    """Return the expectations and published figures of a metric that the run reached."""
    scenario = dataset.scenario
    items = (item for item in (*scenario.expect, *scenario.published) if item.metric.name == metric)
    both = [(item, _window(dataset, item.during)) for item in items]
    return [(item, window) for item, window in both if _covers(dataset, window)]


def verdicts(dataset: Dataset) -> list[Verdict]:
    """Check every expectation of the scenario, in its order."""
    judged = []
    for expectation in dataset.scenario.expect:
        value = _of_item(dataset, expectation)
        unit, _ = _UNITS[expectation.metric.quantity]
        reached = _covers(dataset, _window(dataset, expectation.during))
        holds = value is not None and not side(expectation, value)
        ok = holds if reached else None
        judged.append(Verdict(expectation.text, ok, value, unit))
    return judged


def side(expectation: Expectation, value: float) -> int:
    """Return where a value is, in the unit of verdicts: -1 below the bounds, 0 within, 1 above."""
    least, most = expectation.bounds
    _, scale = _UNITS[expectation.metric.quantity]
    if least is not None and value * scale < least:
        return -1
    return int(most is not None and value * scale > most)


def against_published(dataset: Dataset) -> list[Comparison]:
    """Compare every published value of the scenario with the measured one, in its order."""
    compared = []
    for item in dataset.scenario.published:
        unit, scale = _UNITS[item.metric.quantity]
        value = _of_item(dataset, item)
        published = item.value / scale
        compared.append(
            Comparison(
                label=item.label,
                metric=item.metric.name,
                target=item.target,
                window=_window(dataset, item.during),
                published=published,
                qualifier=item.qualifier,
                measured=value,
                difference=None if value is None or not published else value / published - 1,
                unit=unit,
                note=item.note,
                within=None if item.within is None else item.within / 10**9,
                basis=item.basis,
                precision=None if item.precision is None else item.precision / scale,
            )
        )
    return compared


def _covers(dataset: Dataset, window: Window) -> bool:
    """Return whether the run lasted until the end of a window."""
    return clip(dataset, window) == window


def _window(dataset: Dataset, during: tuple[int, int] | None) -> Window:
    return seconds(during or (0, dataset.scenario.end_ps))
