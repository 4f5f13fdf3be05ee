"""The script that draws the charts of a page."""

import hashlib
import os
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Final

import vl_convert

from perhop.files import read_file
from perhop.report.replacing import replace

VEGA_LITE: Final = "6.4"
"""The version of Vega-Lite that draws the charts, here and in PNG and SVG."""

_DRAW: Final = """
for (const figure of document.querySelectorAll("figure[data-chart]")) {
  const spec = JSON.parse(document.getElementById(figure.dataset.chart).textContent);
  vegaEmbed(figure.firstChild, spec, {renderer: "svg", actions: false, tooltip: false})
    .then(() => { figure.dataset.drawn = "yes"; })
    .catch((error) => { console.error(error); figure.append(`This chart failed: ${error}`); });
}
"""

_LARGEST: Final = 16 << 20
"""Size limit of a kept script, in bytes."""


@cache
def drawing_script() -> str:
    """Return Vega and what draws with it, in a scope that hides no name of the browser.

    Bundling takes over a second and gives the same for every page. The user's cache folder keeps
    the result ($XDG_CACHE_HOME of the XDG Base Directory Specification), after its SHA-256, so
    that a damaged file is bundled again.
    """
    versions = (version("vl-convert-python"), VEGA_LITE, _DRAW)
    name = f"charts-{hashlib.sha256(repr(versions).encode()).hexdigest()[:16]}.js"
    kept = _cache_folder()
    if kept is not None and (found := _read(kept / name)) is not None:
        return found
    script = f"(() => {{{vl_convert.javascript_bundle(_DRAW, VEGA_LITE)}}})();"
    if kept is not None:
        _keep(kept / name, script)
    return script


def _cache_folder() -> Path | None:
    """Return perhop's folder in the user's cache; None for users without a home."""
    place = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if place.is_absolute():
        return place / "perhop"
    try:
        return Path.home() / ".cache" / "perhop"
    except RuntimeError:
        return None


def _read(file: Path) -> str | None:
    """Return the script that a file keeps; None if there is none, or not as it was written."""
    try:
        digest, _, script = read_file(str(file), _LARGEST).partition(b"\n")
    except ValueError:
        return None
    if digest != hashlib.sha256(script).hexdigest().encode():
        return None
    return script.decode()


def _keep(file: Path, script: str) -> None:
    """Write a script into a file, whole or not at all; do nothing if that is impossible."""
    content = script.encode()
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        replace(file, hashlib.sha256(content).hexdigest().encode() + b"\n" + content)
