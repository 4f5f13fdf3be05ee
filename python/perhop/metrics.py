"""Every metric of `expect` as a function of a dataset.

>>> import perhop
>>> run = perhop.run(perhop.load("qbss-1-70"))
>>> rate = perhop.metrics.throughput(run, "priority", during="62 s..90 s")

Rates are bits per second, times seconds, shares 0 to 1, sizes bytes. A function returns None if
nothing was measured, or if the run ended before the end of `during`. `table` has all metrics of a
run at once.

The functions are made from `perhop.scenario.METRICS`, which scenarios, the schema and the reference
have, too.
"""

from __future__ import annotations

from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any, Final

from perhop.analysis import Window, evaluate, seconds
from perhop.errors import UsageError
from perhop.scenario import METRICS, Metric
from perhop.scenario.model.metrics import CLASS, RADIO, metric_hint
from perhop.scenario.model.quantities import parse_window

if TYPE_CHECKING:
    from collections.abc import Callable

    import polars as pl

    from perhop.dataset import Dataset

__all__ = [*METRICS, "table"]

UNITS: Final = {
    "rate": "bit/s",
    "duration": "s",
    "share": "share",
    "size": "B",
    "count": "count",
    "ratio": "ratio",
}
"""The unit in which functions and `table` return each kind of quantity."""

TARGETS: Final = {
    "flow": "a flow",
    "ping": "a ping",
    "link": "a directed link",
    "channel": "a radio channel",
    "tunnel": "a tunnel",
    "total": '"total"',
}
"""The kinds of targets in words."""

_PHRASES: Final = {
    "rate": ", in bits per second",
    "duration": ", in seconds",
    "share": ", from 0 to 1",
    "size": ", in bytes",
    "count": "",
    "ratio": "",
}


def table(dataset: Dataset, during: str | Window | None = None) -> pl.DataFrame:
    """Return the value of every metric of one target that a run has.

    Args:
        dataset: The run.
        during: The window, as text such as ``10 s..30 s`` or in seconds; the whole run by default.

    Returns:
        A row per target and metric: `target` (a flow, a ping, a directed link, a radio channel, a
        tunnel or "total"), `metric`, `value` and `unit`. Metrics that need a class or several
        targets are left out.

    Raises:
        UsageError: `during` is no window.
    """
    import polars as pl

    window = _window(during)
    rows = [
        (target, metric.name, evaluate(dataset, metric.name, [target], window), unit)
        for metric in METRICS.values()
        if metric.several[0] == 1 and not metric.needs
        for unit in [UNITS[metric.quantity]]
        for target in _targets(dataset, metric)
    ]
    measured = [row for row in rows if row[2] is not None]
    schema = {"target": pl.String, "metric": pl.String, "value": pl.Float64, "unit": pl.String}
    return pl.DataFrame(measured, schema=schema, orient="row").sort("target", maintain_order=True)


def _targets(dataset: Dataset, metric: Metric) -> list[str]:
    """Return the targets of a run that have a metric."""
    scenario = dataset.scenario
    found = {
        "flow": [
            name
            for name, flow in scenario.flows.items()
            if flow.kind in metric.kinds
            and (not metric.applications or {*metric.applications} & {*flow.applications})
        ],
        "ping": list(scenario.pings),
        "link": [
            name
            for name, (link, _) in scenario.queueing.items()
            if (metric.name not in RADIO or link.channel is not None)
            and (name in scenario.directions or CLASS in metric.takes)
        ],
        "channel": list(scenario.channels),
        "tunnel": list(scenario.tunnels),
        "total": ["total"] if scenario.flows else [],
    }
    return [name for kind in metric.targets for name in found[kind]]


def _window(during: str | Window | None) -> Window | None:
    if not isinstance(during, str):
        return during
    try:
        return seconds(parse_window(during))
    except ValueError as error:
        raise UsageError(str(error)) from None


def _function(metric: Metric) -> Callable[..., float | None]:
    """Return the function of a metric, with its signature and its documentation."""
    keys = metric.takes

    def measured(
        dataset: Dataset,
        *targets: str,
        during: str | Window | None = None,
        **more: Any,
    ) -> float | None:
        if unknown := [key for key in more if key not in keys]:
            raise TypeError(f"{metric.name}() has no argument {unknown[0]!r}")
        if missing := [key for key in metric.needs if more.get(key) is None]:
            raise TypeError(f"{metric.name}() needs the argument {missing[0]!r}")
        return evaluate(dataset, metric.name, targets, _window(during), **more)

    measured.__name__ = measured.__qualname__ = metric.name
    measured.__doc__ = _documentation(metric)
    window = Parameter("during", Parameter.KEYWORD_ONLY, default=None)
    given = [
        Parameter(
            key,
            Parameter.KEYWORD_ONLY,
            default=Parameter.empty if key in metric.needs else _DEFAULTS.get(key),
        )
        for key in keys
    ]
    one = metric.several == (1, 1)
    named = Parameter("target", Parameter.POSITIONAL_ONLY) if one else _SEVERAL
    first = Parameter("dataset", Parameter.POSITIONAL_ONLY)
    measured.__signature__ = Signature([first, named, window, *given])  # type: ignore[attr-defined]
    return measured


_DEFAULTS: Final = {"of": "throughput"}
_SEVERAL: Final = Parameter("targets", Parameter.VAR_POSITIONAL)

_CUT: Final = (
    "Percentiles come from histograms, which a run cuts at the windows of `expect` and",
    "`published`. Of another window, they are those of all histograms that overlap it.",
)

_ARGUMENTS: Final = {
    "of": "The metric of each target; a name of this module.",
    "class_": "The class of the link, such as ``voice`` or ``wan/voice``; by default all.",
    "cause": "The cause of drops: ``full queue``, ``policer`` or ``early drop``; by default all.",
    "entry": "The end at which packets enter; by default both directions together.",
}


def _documentation(metric: Metric) -> str:
    """Return the docstring of a metric's function."""
    of = " or ".join(TARGETS[kind] for kind in metric.targets)
    one = metric.several == (1, 1)
    first, *rest = metric.description.removesuffix(".").split(". ")
    lines = [
        f"Return {first[0].lower()}{first[1:]}{_PHRASES[metric.quantity]}.",
        *(["", ". ".join(rest) + "."] if rest else []),
        *(["", *_CUT] if metric.cuts else []),
        "",
        "Args:",
        "    dataset: The run.",
        f"    {'target' if one else '*targets'}: {'The name' if one else 'The names'} of {of}.",
        "    during: Text such as ``10 s..30 s``, or (start, end) in seconds; by default all.",
        *(f"    {key}: {_ARGUMENTS[key]}" for key in metric.takes),
        "",
        "Raises:",
        "    UsageError: Unknown target, or a wrong window.",
    ]
    return "\n".join(lines)


for _metric in METRICS.values():
    globals()[_metric.name] = _function(_metric)


def __getattr__(name: str) -> Callable[..., float | None]:
    """Say which metric was meant; for type checkers, the type of each function."""
    raise AttributeError(f"{name!r} is not a metric; {metric_hint(name)}")
