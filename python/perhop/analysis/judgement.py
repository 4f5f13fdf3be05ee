"""Expectations and published values, compared with measured ones."""

from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from perhop.analysis.arrivals import jitter, order
from perhop.analysis.codepoints import dscp_kept
from perhop.analysis.distributions import count, loss, owd, rtt, sack_share
from perhop.analysis.throughput import settling, throughput
from perhop.analysis.windows import Window, clip, seconds
from perhop.dataset import Dataset
from perhop.errors import UsageError
from perhop.hints import did_you_mean
from perhop.scenario import Basis, Expectation
from perhop.scenario.model.metrics import METRICS
from perhop.units import quote

# The unit of each kind of quantity in results, and how many of the scenario's units make one.
_UNITS: Final = {
    "rate": ("bps", 1),
    "duration": ("s", 10**12),
    "share": ("share", 10**9),
    "count": ("packets", 1),
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of an expectation.

    `measured` is in `unit`: "bps", "s", "share" (0 to 1) or "packets". It is None if nothing was
    measured, and `ok` is false. If the run ended before the window's end, both are None: the
    expectation was not reached.
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
    dataset: Dataset, metric: str, target: str, window: Window | None = None
) -> float | None:
    """The value of a metric as `expect` and `published` name it.

    Args:
        dataset: The run.
        metric: `throughput` (of a flow or "total", bit/s); `rtt_min`, `rtt_mean`, `rtt_median`,
            `rtt_p95`, `rtt_p99`, `rtt_max` (of a ping, seconds); `loss` (of a flow or a ping, 0 to
            1); `reordered`, `sack_share` (of a flow, 0 to 1); `retransmits`, `duplicates` (of a
            flow, packets);
            `owd_min` and so on, as of the RTT, `jitter`, `settling` (of a flow, seconds).
        target: The name of the flow or ping.
        window: Seconds of the run; the whole scenario by default.

    Returns:
        The value, or None if there is nothing to measure.

    Raises:
        UsageError: If the metric is unknown, or the run has no such flow or ping.
    """
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
        case "rtt_min" | "rtt_mean" | "rtt_median" | "rtt_p95" | "rtt_p99" | "rtt_max":
            found = rtt(dataset, target, window)
            return getattr(found, metric.removeprefix("rtt_")) if found else None
        case "owd_min" | "owd_mean" | "owd_median" | "owd_p95" | "owd_p99" | "owd_max":
            found = owd(dataset, target, window)
            return getattr(found, metric.removeprefix("owd_")) if found else None
    hint = did_you_mean(metric, METRICS) or f"expected one of {', '.join(METRICS)}"
    raise UsageError(f"{quote(metric)} is not a metric; {hint}")


def verdicts(dataset: Dataset) -> list[Verdict]:
    """Check every expectation of the scenario, in its order."""
    judged = []
    for expectation in dataset.scenario.expect:
        value = _measured(dataset, expectation.metric.name, expectation.target, expectation.during)
        unit, scale = _UNITS[expectation.metric.quantity]
        reached = _covers(dataset, _window(dataset, expectation.during))
        holds = value is not None and _holds(expectation, value * scale)
        ok = holds if reached else None
        judged.append(Verdict(expectation.text, ok, value, unit))
    return judged


def against_published(dataset: Dataset) -> list[Comparison]:
    """Compare every published value of the scenario with the measured one, in its order."""
    compared = []
    for item in dataset.scenario.published:
        unit, scale = _UNITS[item.metric.quantity]
        value = _measured(dataset, item.metric.name, item.target, item.during)
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


def _measured(
    dataset: Dataset, metric: str, target: str, during: tuple[int, int] | None
) -> float | None:
    """Return the metric over a window that the run covers completely; None if it does not."""
    window = _window(dataset, during)
    return measure(dataset, metric, target, window) if _covers(dataset, window) else None


def _covers(dataset: Dataset, window: Window) -> bool:
    """Return whether the run lasted until the end of a window."""
    return clip(dataset, window) == window


def _window(dataset: Dataset, during: tuple[int, int] | None) -> Window:
    return seconds(during or (0, dataset.scenario.end_ps))


def _holds(expectation: Expectation, value: float) -> bool:
    """Return whether a value, in the scenario's integer unit, meets an expectation."""
    least, most = expectation.bounds
    return (least is None or value >= least) and (most is None or value <= most)
