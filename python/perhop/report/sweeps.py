"""The table and the chart of a sweep."""

from typing import Final

import polars as pl

from perhop.report import text
from perhop.report.plots import heat_layers
from perhop.report.style import CONFIG, SCHEMA, Spec, titled
from perhop.report.tables import Column, Table
from perhop.scenario import METRICS

_QUANTITIES: Final = {"rate": "bps", "duration": "s", "size": "B", "count": "packets"}
_UNITS: Final = {
    **{each.name: _QUANTITIES.get(each.quantity, each.quantity) for each in METRICS.values()},
    **dict.fromkeys(("bytes", "reordered", "failed_expectations"), "packets"),
}
"""The unit of each metric, as `text.quantity` names it; round-trip times are in seconds."""

_CELL: Final = 84
_MOST_CELLS: Final = 30
"""Number of adjacent cells of full size, with their values; more are drawn smaller."""

_MOST_MAPS: Final = 12
"""Greatest number of heat maps in a chart."""


def unit_of(metric: str) -> str:
    """Return the unit of a metric, as `text.quantity` names it."""
    return _UNITS.get(metric, "s")


def chosen(table: pl.DataFrame, metric: str, target: str) -> pl.DataFrame:
    """Return the mean of one metric over the seeds, for each combination of the varied values.

    Args:
        table: As `perhop.sweep.Sweep.run` returns it.
        metric: One of its metrics.
        target: One of its targets.

    Returns:
        A column for each path that is varied, `mean`, `low` and `high` over the seeds, `seeds`:
        how many of them have a value. Combinations stand in the order of the sweep.

    Raises:
        ValueError: If the table has no such metric of that target.
    """
    rows = table.filter((pl.col("metric") == metric) & (pl.col("target") == target))
    if rows.is_empty():
        pairs = table.select("metric", "target").unique(maintain_order=True).iter_rows()
        there = ", ".join(f"{known}={name}" for known, name in pairs)
        raise ValueError(f"the sweep has no {metric} of {target}; it has {there}")
    value = pl.col("value")
    return rows.group_by(_paths(table), maintain_order=True).agg(
        value.mean().alias("mean"),
        value.min().alias("low"),
        value.max().alias("high"),
        value.count().alias("seeds"),
    )


def sweep_table(table: pl.DataFrame, metric: str, target: str) -> Table:
    """Return one metric at each combination: a grid if two paths are varied, otherwise a list."""
    rows = chosen(table, metric, target)
    paths = _paths(table)
    unit = unit_of(metric)
    seeds = table["seed"].n_unique()
    note = f"Means over {seeds} seeds." if seeds > 1 else ""
    if seeds > 1 and (rows["low"] == rows["high"]).fill_null(True).all():
        note += " Every seed gave the same: nothing that is shown here is random."
    title = f"{metric} of {target}"
    if len(paths) == 2:
        down, across = paths
        heads = rows[across].unique(maintain_order=True).to_list()
        lines = [
            (str(name), *(text.quantity(mean, unit) for mean in cells["mean"]))
            for (name,), cells in rows.group_by(down, maintain_order=True)
        ]
        columns = (Column(f"{down} \\ {across}", "left"), *map(Column, heads))
        return Table(title, columns, tuple(lines), note)
    spread = ["mean", "low", "high"] if seeds > 1 else ["mean"]
    lines = [
        (*(str(row[path]) for path in paths), *(text.quantity(row[name], unit) for name in spread))
        for row in rows.iter_rows(named=True)
    ]
    heads = ["mean", "least", "most"] if seeds > 1 else [title]
    columns = (*(Column(path, "left") for path in paths), *map(Column, heads))
    return Table(title, columns, tuple(lines), note)


def sweep_chart(table: pl.DataFrame, metric: str, target: str) -> Spec:
    """One metric over what is varied.

    A line with the range over the seeds for one path, a heat map for two, and for more a heat map
    of the first two for each combination of the others.
    """
    rows = chosen(table, metric, target)
    paths = _paths(table)
    unit = unit_of(metric)
    greatest = float(rows["high"].drop_nulls().cast(pl.Float64).max() or 1.0)  # type: ignore[arg-type]
    factor, name = {
        "bps": text.rate_unit(greatest),
        "s": text.time_unit(greatest),
        "share": (0.01, "%"),
        "packets": (1.0, ""),
        "ratio": (1.0, ""),
    }[unit]
    axis = f"{metric} of {target}" + (f" ({name})" if name else "")
    values = [
        {
            **{f"p{place}": row[path] for place, path in enumerate(paths)},
            **{key: _scaled(row[key], factor) for key in ("mean", "low", "high")},
            "shown": text.quantity(row["mean"], unit),
        }
        for row in rows.iter_rows(named=True)
    ]
    spec: Spec = {"$schema": SCHEMA, "data": {"values": values}, "background": "white"}
    spec["config"] = CONFIG
    if len(paths) < 2:
        return {**spec, **_line(paths, axis)}
    sizes = [rows[path].n_unique() for path in paths[:2]]
    heat = _heat(paths, axis, sizes)
    heading = f"{metric} of {target} by {paths[0]} and {paths[1]}"
    spec |= {"title": titled(heading, []), "padding": 12}
    if len(paths) == 2:
        return {**spec, **heat}
    spec["transform"] = [
        {
            "calculate": " + ', ' + ".join(
                f"'{_quoted(path)}: ' + datum.p{place}"
                for place, path in enumerate(paths)
                if place > 1
            ),
            "as": "others",
        }
    ]
    # What the columns of the data are that have no axis.
    more = [{"field": f"p{place}", "title": path} for place, path in enumerate(paths[2:], 2)]
    spec["usermeta"] = {"columns": more}
    others = [tuple(row[path] for path in paths[2:]) for row in rows.iter_rows(named=True)]
    shown = list(dict.fromkeys(others))
    if len(shown) > _MOST_MAPS:
        kept = {*shown[:_MOST_MAPS]}
        pairs = zip(values, others, strict=True)
        spec["data"] = {"values": [value for value, other in pairs if other in kept]}
        which = f"{_MOST_MAPS} of {len(shown)} combinations; all are in the table"
        spec["title"] = titled(f"{heading}: {which}", [])
    facet: Spec = {"field": "others", "type": "nominal", "title": None, "sort": None}
    # Above the title of the vertical axis.
    facet["header"] = {"labelFontSize": 12, "labelAnchor": "start", "labelPadding": 24}
    return {**spec, "facet": facet, "columns": 2, "spec": heat}


def _paths(table: pl.DataFrame) -> list[str]:
    return table.columns[1 : table.columns.index("seed")]


def _line(paths: list[str], axis: str) -> Spec:
    field = "p0" if paths else "shown"
    title = paths[0] if paths else None
    x: Spec = {"field": field, "type": "ordinal", "sort": None, "title": title}
    x["axis"] = {"labelAngle": 0}
    y: Spec = {"field": "mean", "type": "quantitative", "title": axis}
    return {
        "width": 620,
        "height": 320,
        "layer": [
            {
                "mark": {"type": "rule", "color": "#0072B2", "strokeWidth": 2, "opacity": 0.5},
                "encoding": {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}},
            },
            {
                "mark": {"type": "line", "color": "#0072B2", "point": {"size": 60, "filled": True}},
                "encoding": {"x": x, "y": y},
            },
        ],
    }


def _heat(paths: list[str], axis: str, sizes: list[int]) -> Spec:
    down, across = max(2, sizes[0]), max(3, sizes[1])
    layers = heat_layers(paths[1], paths[0], axis, ("p1", "p0", "mean"))
    if max(sizes) > _MOST_CELLS:
        del layers[1:]  # what would be written into the cells
        for side in ("x", "y"):
            encoding = layers[0]["encoding"][side]
            encoding["axis"] = {**encoding["axis"], "labelAngle": 0, "labelOverlap": True}
    return {
        "width": min(across, _MOST_CELLS) * _CELL,
        "height": min(down, _MOST_CELLS) * _CELL // 2,
        "layer": layers,
    }


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value / factor


def _quoted(path: str) -> str:
    """A path inside an expression of Vega's: whatever it holds, it is text."""
    return "".join(character for character in path if character.isalnum() or character in "._-")
