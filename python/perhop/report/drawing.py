"""Charts as SVG: pictures of their own, and figures of pages that need no script."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import vl_convert

from perhop.printable import printable, printable_data
from perhop.report.html import Html
from perhop.report.style import TITLE_HEIGHT

if TYPE_CHECKING:
    from perhop.report.style import Spec

VEGA_LITE: Final = "6.4"
"""The version of Vega-Lite that draws the charts."""

_LINE: Final = 120
"""Number of characters of a subtitle that are no wider than a chart."""

_NAMESPACE: Final = "http://www.w3.org/2000/svg"
_COMMAND: Final = re.compile(r"([A-Za-z])([^A-Za-z]*)")
_NUMBER: Final = re.compile(r"-?\d+\.\d{3,}")
_DROPPED: Final = ("role", "aria-hidden", "aria-roledescription", "pointer-events", "font-family")
_DEFAULTS: Final = {"opacity": "1", "stroke-width": "1"}
_UNIT: Final = re.compile(r"(.*) \(([^()]+)\)")


def svg(spec: Spec) -> str:
    """Return a chart as SVG.

    Its texts are made printable before: a control character would abort the process in Vega's
    renderer.
    """
    text = json.dumps(spec, ensure_ascii=False)
    if "\\" in text or not text.isprintable():
        text = json.dumps(printable_data(spec))
    return _svg(text)


@lru_cache(maxsize=16)
def _svg(spec: str) -> str:
    """Return a chart as SVG; a report has some as files and in its page."""
    return vl_convert.vegalite_to_svg(spec, vl_version=VEGA_LITE, allowed_base_urls=[])


def inline_svg(spec: Spec) -> Html:
    """Return a chart as an element of a page, without its title, which the page has as text.

    It is an image with a description to assistive technology. What Vega says of single marks stays
    in `data-label`. Coordinates have two decimals of a pixel.
    """
    ElementTree.register_namespace("", _NAMESPACE)
    title = spec.get("title")
    if isinstance(title, dict) and title.get("text") and 0 < len(title["subtitle"]) < _LINE:
        root = ElementTree.fromstring(svg(spec))
        _untitle(root)
    else:
        bare = {key: value for key, value in spec.items() if key != "title"}
        root = ElementTree.fromstring(svg(bare))
    _clean(root)
    for name in ("class", "version"):
        root.attrib.pop(name, None)
    root.attrib |= {"role": "img", "aria-label": printable(spec.get("description", "Chart"))}
    root.remove(root[0])  # the white background
    return Html(ElementTree.tostring(root, encoding="unicode"))


def _untitle(root: ElementTree.Element) -> None:
    """Take the title and the subtitle out of a drawing, and their height."""
    frame = root[1]
    left, top = frame.attrib["transform"].removeprefix("translate(").rstrip(")").split(",")
    frame.set("transform", f"translate({left},{_short(float(top) - TITLE_HEIGHT)})")
    height = _short(float(root.attrib["height"]) - TITLE_HEIGHT)
    root.attrib |= {"height": height, "viewBox": f"0 0 {root.attrib['width']} {height}"}
    _drop_titles(frame)


def _drop_titles(group: ElementTree.Element) -> None:
    """Remove titles from a group, but those of rows and columns."""
    for child in list(group):
        roles = child.get("class", "")
        if "role-title" in roles.split():
            group.remove(child)
        elif "-header" not in roles:
            _drop_titles(child)


def scales(spec: Spec) -> dict[str, Any] | None:
    """Return the axes and lines of a chart for the page's script; None for other charts.

    Axes have their `domain`, `log`, their `name` and their `unit`. `lines` are names with colours
    and dashes. `step` says that lines hold each value until the next one, `time` that the
    horizontal axis is the time of the run, `points` that there are points without lines. The cells
    of a heat map have their values, and nothing that could be zoomed.
    """
    layers = spec.get("layer", [])
    lines = [layer for layer in layers if _kind(layer) == "line"]
    drawn = lines or [layer for layer in layers if _kind(layer) == "point"]
    if not drawn or "width" not in spec:
        return None
    encoding = drawn[0]["encoding"]
    if any("domain" not in encoding[axis].get("scale", {}) for axis in ("x", "y")):
        return None
    colour, dash = (encoding.get(key, {}).get("scale", {}) for key in ("color", "strokeDash"))
    if "domain" not in colour:
        return None
    dashes = dash.get("range", [[1, 0]] * len(colour["domain"]))
    return {
        "width": spec["width"],
        "height": spec["height"],
        **{axis: _scale(encoding[axis]) for axis in ("x", "y")},
        "step": drawn[0]["mark"].get("interpolate") == "step-after",
        "time": encoding["x"]["title"] == "time (s)",
        "points": not lines,
        "lines": [
            list(each) for each in zip(colour["domain"], colour["range"], dashes, strict=True)
        ],
    }


def _kind(layer: Spec) -> str:
    """Return the kind of mark of a layer."""
    mark = layer["mark"]
    return str(mark if isinstance(mark, str) else mark["type"])


def _scale(channel: Spec) -> dict[str, Any]:
    title = channel.get("title") or ""
    named = _UNIT.fullmatch(title)
    percent = "%" in channel.get("axis", {}).get("format", "")
    return {
        "domain": channel["scale"]["domain"],
        "log": channel["scale"].get("type") == "log",
        "name": named[1] if named else title,
        "unit": "%" if percent else named[2] if named else "",
        "factor": 100 if percent else 1,
        **({"whole": True} if channel.get("axis", {}).get("tickMinStep") == 1 else {}),
    }


def _clean(element: ElementTree.Element) -> None:
    """Shorten an element of a drawing, and drop what draws nothing."""
    for name in _DROPPED:
        element.attrib.pop(name, None)
    for name, value in _DEFAULTS.items():
        if element.get(name) == value:
            del element.attrib[name]
    if label := element.attrib.pop("aria-label", None):
        element.set("data-label", label)
    if "d" in element.attrib:
        element.set("d", short_path(element.attrib["d"]))
    if "transform" in element.attrib:
        moved = _NUMBER.sub(lambda found: _short(float(found[0])), element.attrib["transform"])
        element.set("transform", moved)
    for child in list(element):
        frame = child.get("class") in ("background", "foreground")
        if frame and not {"fill", "stroke"} & set(child.keys()):
            element.remove(child)
        else:
            _clean(child)


def short_path(drawn: str) -> str:
    """Return a path of lines with two decimals, without points that change nothing.

    Curves stay as they are.
    """
    steps = [(name, values.replace(" ", ",")) for name, values in _COMMAND.findall(drawn)]
    if {name for name, _ in steps} - {"M", "L"}:
        return drawn
    points: list[tuple[str, str, str]] = []
    for name, values in steps:
        x, y = (_short(float(value)) for value in values.split(","))
        if name == "L" and points[-1][1:] == (x, y):
            continue
        if name == "L" and _between(points[-2:], x, y):
            points[-1] = name, x, y
        else:
            points.append((name, x, y))
    text = []
    for place, (name, x, y) in enumerate(points):
        last = points[place - 1]
        if name == "L" and last[2] == y:
            text.append(f"H{x}")
        elif name == "L" and last[1] == x:
            text.append(f"V{y}")
        else:
            text.append(f"{name}{x},{y}")
    return "".join(text)


def _between(before: list[tuple[str, str, str]], x: str, y: str) -> bool:
    """Return whether the last point lies between the one before it and a new one."""
    if len(before) < 2 or before[1][0] == "M" or not before[0][2] == before[1][2] == y:
        return False
    return float(before[0][1]) <= float(before[1][1]) <= float(x)


def _short(number: float) -> str:
    return f"{number:.2f}".rstrip("0").rstrip(".")
