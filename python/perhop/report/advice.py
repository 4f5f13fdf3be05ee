"""Advice on policers as sentences, tables, a chart and a page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from perhop.report import text
from perhop.report.document import document, figure, grid
from perhop.report.html import element, join
from perhop.report.output import pictures, write_all
from perhop.report.plots import Scale, line_plot
from perhop.report.tables import Column, Table
from perhop.units import SECOND, WHOLE

if TYPE_CHECKING:
    import os

    from perhop.advice import PolicerAdvice
    from perhop.report.style import Spec

__all__ = ["advice_chart", "advice_lines", "advice_tables", "save_advice"]

_APART: Final = 1.1
"""Ratio of two bursts below which one line of the chart stands for both rules."""

_NAMES: Final = {"bbr": "BBRv3", "bbr1": "BBRv1", "dctcp": "DCTCP", "ledbat++": "LEDBAT++"}


def advice_lines(advice: PolicerAdvice) -> list[str]:
    """Return the advice in sentences."""
    asked = advice.question
    lines = []
    for goal in asked.goals:
        burst = advice.for_all(goal)
        controls = text.listed([_name(each) for each in asked.controls])
        share = text.stated(goal / WHOLE, "share")
        if burst is None:
            lines.append(f"No simulated burst gives {controls} {share} of the rate.")
        else:
            lines.append(
                f"{_size(burst)} give {controls} {share} of the rate or more: "
                f"{text.duration(burst * 8 / asked.rate)} of the rate, "
                f"{text.ratio(burst / asked.product)} times rate x RTT."
            )
    return lines


def advice_tables(advice: PolicerAdvice) -> list[Table]:
    """Return the smallest bursts, the rules of thumb, and what TCP gets for each burst."""
    return [_smallest(advice), _rules(advice), _points(advice)]


def advice_chart(advice: PolicerAdvice) -> Spec:
    """Chart the share of the rate over the burst, with the bursts of the rules."""
    asked = advice.question
    factor, unit = (1e6, "MB") if asked.product >= 1e6 else (1e3, "kB")
    series = {
        _name(control): [(point.burst / factor, 100 * point.share) for point in advice.of(control)]
        for control in asked.controls
    }
    spec = line_plot(
        _title(advice),
        Scale(f"burst ({unit})", "log"),
        Scale("goodput in IP packets (% of the policer's rate)", domain=(0, 105)),
        series,
    )
    return {**spec, "layer": [*spec["layer"], *_rule_marks(advice, factor)]}


def save_advice(advice: PolicerAdvice, folder: str | os.PathLike[str]) -> list[Path]:
    """Write `policer.html`, the page, and its chart as PNG and SVG.

    Raises:
        OutputError: If the folder cannot be written.
    """
    chart = advice_chart(advice)
    title = _title(advice)
    body = join(
        element("h1", title),
        *(element("p", line, class_="lead") for line in advice_lines(advice)),
        figure("policer", chart),
        *(grid(table) for table in advice_tables(advice)),
    )
    page = document(title, body).encode()
    return write_all(Path(folder).resolve(), {"policer.html": page, **pictures("policer", chart)})


def _title(advice: PolicerAdvice) -> str:
    asked = advice.question
    streams = "" if asked.streams == 1 else f", {asked.streams} streams"
    rate = text.stated(asked.rate, "bps")
    return f"TCP through a policer of {rate} at a round-trip time of {_rtt(advice)}{streams}"


def _rtt(advice: PolicerAdvice) -> str:
    return text.stated(advice.question.rtt / SECOND, "s")


def _name(control: str) -> str:
    return _NAMES.get(control, control.upper() if control == "cubic" else control.capitalize())


def _size(burst: int) -> str:
    return text.size(burst)


def _smallest(advice: PolicerAdvice) -> Table:
    asked = advice.question
    rows = []
    for each in advice.smallest:
        known = each.burst is not None
        rows.append(
            (
                _name(each.control),
                text.stated(each.goal / WHOLE, "share"),
                _size(each.burst) if each.burst is not None else text.ABSENT,
                text.duration(each.burst * 8 / asked.rate) if each.burst else text.ABSENT,
                text.ratio(each.burst / asked.product) if each.burst else text.ABSENT,
                text.share(advice.share(each.control, each.burst)) if each.burst else text.ABSENT,
                _size(each.below) if known and each.below else text.ABSENT,
            )
        )
    heads = ("goal", "burst", "of the rate", "of rate x RTT", "share", "too small")
    return Table(
        "Smallest burst for a share of the rate",
        (Column("congestion control", "left"), *map(Column, heads)),
        tuple(rows),
        "Every larger burst that was simulated reaches the goal, too. The column \u201ctoo "
        "small\u201d has the next smaller one.",
    )


def _rules(advice: PolicerAdvice) -> Table:
    asked = advice.question
    rows = [
        (
            rule.name,
            _size(rule.burst),
            *(text.share(advice.share(control, rule.burst)) for control in asked.controls),
            rule.formula,
            rule.source,
        )
        for rule in advice.rules
    ]
    return Table(
        "Rules of thumb",
        (
            Column("rule", "left"),
            Column("burst"),
            *(Column(_name(control)) for control in asked.controls),
            Column("formula", "left"),
            Column("source", "left"),
        ),
        tuple(rows),
        f"Shares of the policer's rate. The interface has {text.stated(asked.interface, 'bps')}.",
    )


def _points(advice: PolicerAdvice) -> Table:
    asked = advice.question
    bursts = sorted({point.burst for point in advice.points})
    by_place = {(point.control, point.burst): point for point in advice.points}
    rows = []
    for burst in bursts:
        cells = []
        for control in asked.controls:
            point = by_place[control, burst]
            share = text.share(point.share)
            if advice.seeds > 1:
                share += f" ({_percent(point.least)} to {_percent(point.most)})"
            cells += [share, text.share(point.loss)]
        rows.append((_size(burst), *cells))
    heads = [
        Column(name) for control in asked.controls for name in (f"{_name(control)}: share", "loss")
    ]
    runs = "one run" if advice.seeds == 1 else f"{advice.seeds} runs, with the least and the most"
    return Table(
        "What TCP gets for each burst",
        (Column("burst"), *heads),
        tuple(rows),
        f"Goodput in IP packets as a share of the policer's rate: the mean of {runs}. Each run has "
        f"{advice.duration_s} s, of which the first third does not count.",
    )


def _percent(share: float) -> str:
    return f"{100 * share:.3g}"


def _rule_marks(advice: PolicerAdvice, factor: float) -> list[Spec]:
    """Return vertical lines at the bursts of the rules, with their names."""
    names: dict[int, list[str]] = {}
    for rule in advice.rules:
        place = next((burst for burst in names if rule.burst < _APART * burst), rule.burst)
        names.setdefault(place, []).append(rule.name)
    values = [{"burst": burst / factor, "rule": ", ".join(of)} for burst, of in names.items()]
    x = {"field": "burst", "type": "quantitative"}
    return [
        {
            "data": {"values": values},
            "mark": {"type": "rule", "color": "#888888", "strokeDash": [3, 3]},
            "encoding": {"x": x},
        },
        {
            "data": {"values": values},
            "mark": {
                "type": "text",
                "angle": 270,
                "align": "left",
                "baseline": "bottom",
                "dx": 4,
                "dy": -3,
                "color": "#555555",
                "fontSize": 11,
            },
            "encoding": {"x": x, "y": {"datum": 0}, "text": {"field": "rule"}},
        },
    ]
