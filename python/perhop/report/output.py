"""A report on disk: the page, and the throughput chart as pictures."""

from __future__ import annotations

import json
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeVar, cast

import vl_convert

from perhop.dataset import Dataset
from perhop.dataset.ensembles import ENSEMBLE, PAGE, single_run
from perhop.errors import OutputError
from perhop.report.calls import mos_chart
from perhop.report.charts import Spec, throughput_chart
from perhop.report.comparison import comparison_chart
from perhop.report.document import comparison_page, page
from perhop.report.drawing import svg
from perhop.report.ensemble_page import ensemble_page
from perhop.report.links import page_of
from perhop.report.replacing import replace
from perhop.report.sweep_page import line_chart, sweep_page
from perhop.report.sweeps import sweep_chart
from perhop.stores import ObjectPath, Place, place

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    import polars as pl

    from perhop.analysis import RunComparison
    from perhop.ensembles import Ensemble

_PIXEL_RATIO: Final = 2


def write(dataset: Dataset, folder: str | os.PathLike[str] | ObjectPath) -> list[Place]:
    """Write `report.html`, and `throughput` and `throughput-log` as PNG and SVG, into `folder`.

    A run with calls has `mos`, too.

    The folder is made if need be; earlier files of these names are replaced, each whole or not at
    all.

    Returns:
        The files, the page first.

    Raises:
        OutputError: If the folder cannot be written.
    """
    target = place(folder).resolve()
    linear, log = throughput_chart(dataset), throughput_chart(dataset, "log")
    contents = {
        "report.html": page(dataset).encode(),
        **pictures("throughput", linear),
        **pictures("throughput-log", log),
    }
    scores = mos_chart(dataset)
    if scores is not None:
        contents |= pictures("mos", scores)
    return write_all(target, contents)


def save_sweep(
    table: pl.DataFrame, metric: str, target: str, folder: Place, title: str | None = None
) -> list[Place]:
    """Write a sweep's table as Parquet and CSV, its page, and one metric as PNG and SVG.

    Args:
        table: As `perhop.sweep.Sweep.run` returns it.
        metric: One of its metrics.
        target: One of its targets.
        folder: The folder.
        title: The title of the page; the folder's name by default.

    Raises:
        OutputError: If the folder cannot be written.
    """
    varied = table.columns.index("seed") - 1
    numbers = table["point"].unique(maintain_order=True).to_list()
    # A store would be asked for each.
    pages = [
        page_of(folder / "points" / str(number), folder) if isinstance(folder, Path) else None
        for number in numbers
    ]
    lines = line_chart(table, metric, target) if varied == 1 else None
    buffer = BytesIO()
    table.write_parquet(buffer, compression="zstd")
    return write_all(
        folder.resolve(),
        {
            "sweep.parquet": buffer.getvalue(),
            "sweep.csv": table.write_csv().encode(),
            "sweep.html": sweep_page(
                table, metric, target, title or folder.name, pages, str(folder)
            ).encode(),
            **pictures("sweep", lines or sweep_chart(table, metric, target)),
        },
    )


def save_ensemble(
    found: Ensemble, folder: Place, shown: Place | None = None, *, singles: bool = False
) -> list[Place]:
    """Write `ensemble.json` and the page of an ensemble, `ensemble.html`, into its folder.

    Args:
        found: The ensemble.
        folder: The folder, which has the datasets of the runs.
        shown: The folder as commands on the page name it; by default `folder`.
        singles: Whether to write the reports of the runs first, which the page then links.

    Raises:
        OutputError: The folder cannot be written, or a run is damaged.
    """
    places = [single_run(folder, seed) for seed in range(1, found.runs + 1)]
    if singles:
        for single in places:
            write(Dataset.read(single), single)
    described = json.dumps(found.as_object(), indent=2, ensure_ascii=False, allow_nan=False)
    # A store would be asked for each.
    links = [
        page_of(each, folder) if isinstance(folder, Path) and isinstance(each, Path) else None
        for each in places
    ]
    page_of_all = ensemble_page(found, links, str(shown or folder))
    # The latter makes the folder that of an ensemble.
    contents = {PAGE: page_of_all.encode(), ENSEMBLE: f"{described}\n".encode()}
    written: list[Place] = [*write_all(folder.resolve(), contents)]
    return written[::-1]


def save_comparison(
    compared: RunComparison,
    title: str,
    folder: str | os.PathLike[str],
    datasets: Sequence[Dataset] = (),
) -> list[Path]:
    """Write `compare.html`, the page, and its chart as PNG and SVG where runs have flows.

    The page has distributions of delays if the runs are given.

    Raises:
        OutputError: If the folder cannot be written.
    """
    contents = {"compare.html": comparison_page(compared, title, datasets).encode()}
    chart = comparison_chart(compared)
    if chart is not None:
        contents |= pictures("compare", chart)
    return write_all(Path(folder).resolve(), contents)


def pictures(name: str, spec: Spec) -> dict[str, bytes]:
    """Return a chart as the files `NAME.png`, of twice its nominal size, and `NAME.svg`."""
    drawn = svg(spec)
    # Vega lays the chart out once for both.
    return {f"{name}.png": pixels(drawn), f"{name}.svg": drawn.encode()}


def picture(spec: Spec, kind: Literal["png", "svg"]) -> bytes:
    """Return a chart as PNG, of twice its nominal size, or as SVG."""
    drawn = svg(spec)
    return drawn.encode() if kind == "svg" else pixels(drawn)


def pixels(drawn: str) -> bytes:
    """Return a drawing in SVG as PNG of twice its nominal size."""
    return vl_convert.svg_to_png(drawn, scale=_PIXEL_RATIO)


_Place = TypeVar("_Place", bound=Place)


def write_all(folder: _Place, contents: Mapping[str, bytes]) -> list[_Place]:
    """Write files of some contents into a folder, each whole or not at all.

    Raises:
        OutputError: If the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():
            path = folder / name
            if isinstance(path, Path):
                replace(path, content)
            else:
                path.write_bytes(content)
    except OSError as error:
        reason = error.strerror or str(error)
        raise OutputError(f"cannot write {folder}: {reason}; give another folder") from error
    return [cast("_Place", folder / name) for name in contents]
