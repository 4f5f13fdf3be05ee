"""A report on disk: the page, and the throughput chart as pictures."""

import os
from pathlib import Path
from typing import Final
from uuid import uuid4

import vl_convert

from perhop.dataset import Dataset
from perhop.errors import OutputError
from perhop.report.charts import Spec, throughput_chart
from perhop.report.document import VEGA_LITE, page

_PIXEL_RATIO: Final = 2


def write(dataset: Dataset, folder: str | os.PathLike[str]) -> list[Path]:
    """Write `report.html`, and `throughput` and `throughput-log` as PNG and SVG, into `folder`.

    The folder is made if need be; earlier files of these names are replaced, each whole or not at
    all.

    Returns:
        The files, the page first.

    Raises:
        OutputError: If the folder cannot be written.
    """
    target = Path(folder).resolve()
    linear, log = throughput_chart(dataset), throughput_chart(dataset, "log")
    contents = {
        "report.html": page(dataset).encode(),
        "throughput.png": png(linear),
        "throughput.svg": svg(linear).encode(),
        "throughput-log.png": png(log),
        "throughput-log.svg": svg(log).encode(),
    }
    try:
        target.mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():
            _replace(target / name, content)
    except OSError as error:
        reason = error.strerror or str(error)
        raise OutputError(f"cannot write {target}: {reason}; give another folder") from error
    return [target / name for name in contents]


def png(spec: Spec) -> bytes:
    """A chart as a PNG of twice its nominal size."""
    return vl_convert.vegalite_to_png(
        spec, vl_version=VEGA_LITE, scale=_PIXEL_RATIO, allowed_base_urls=[]
    )


def svg(spec: Spec) -> str:
    """A chart as SVG."""
    return vl_convert.vegalite_to_svg(spec, vl_version=VEGA_LITE, allowed_base_urls=[])


def _replace(path: Path, content: bytes) -> None:
    fresh = path.with_name(f".{path.name}.{uuid4().hex[:8]}")
    try:
        fresh.write_bytes(content)
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)
