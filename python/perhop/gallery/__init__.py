"""The gallery: published experiments as scenarios, with the figures of their documents.

Each is a YAML file beside this one, named for the scenario in it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from perhop import templates
from perhop.errors import Problem, ScenarioError
from perhop.hints import did_you_mean, near_file
from perhop.scenario import Scenario, to_mapping
from perhop.scenario.reading import loader
from perhop.units import quote

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perhop.scenario import Overrides


@cache
def names() -> tuple[str, ...]:
    """The names of the gallery's scenarios, sorted."""
    entries = (entry.name for entry in files(__name__).iterdir())
    return tuple(sorted(name.removesuffix(".yaml") for name in entries if name.endswith(".yaml")))


def text(name: str) -> str:
    """The file of the gallery's scenario `name`; KeyError if there is none."""
    if name not in names():
        raise KeyError(name)
    return files(__name__).joinpath(f"{name}.yaml").read_text("utf-8")


def load(
    source: str | os.PathLike[str] | Mapping[str, Any] | Scenario,
    *,
    overrides: Overrides = (),
    agents: str | os.PathLike[str] | None = None,
) -> Scenario:
    """Return the scenario in a file, a text or a mapping, or of the gallery.

    Args:
        source: A path, or the name of a scenario of the gallery. A file whose name is that of one
            is meant by a path such as ``./qbss-1-70``. Text of several lines is the content of a
            file; so is a mapping, with keys and values as in a file. A scenario is taken as it is.
        overrides: Changes to make first, such as ``{"links.1.rate": "5 Mbps"}`` or
            ``["links.1.rate=5 Mbps"]``.
        agents: A file with the section `agents`, which replaces the scenario's.

    Raises:
        ScenarioError: There is no such file or name, or it is not a scenario as changed.
    """
    if isinstance(source, Scenario):
        source = to_mapping(source)
    if isinstance(source, Mapping):
        return loader.build(source, overrides=overrides, agents=agents)
    if isinstance(source, str) and "\n" in source:
        return loader.parse(source, overrides=overrides, agents=agents)
    return read(source).load(overrides=overrides, agents=agents)


def locate(
    source: str | os.PathLike[str], paths: Iterable[str], *, overrides: Overrides = ()
) -> dict[str, str]:
    """The place of each value of a scenario that `load` read; see `loader.locate`.

    Args:
        source: A path or name, as for `load`.
        paths: Dotted paths of values.
        overrides: The changes with which the scenario was read.
    """
    return read(source).locate(paths, overrides=overrides)


@dataclass(frozen=True, slots=True)
class Source:
    """The text of a scenario, as UTF-8 if it is bytes, and the name of its file in messages."""

    text: str | bytes
    filename: str

    def load(
        self, *, overrides: Overrides = (), agents: str | os.PathLike[str] | None = None
    ) -> Scenario:
        """The scenario; see `load`."""
        return loader.parse(self.text, self.filename, overrides=overrides, agents=agents)

    def locate(self, paths: Iterable[str], *, overrides: Overrides = ()) -> dict[str, str]:
        """The places of values in the text; see `locate`."""
        return loader.locate(self.text, self.filename, paths, overrides=overrides)

    def positions(
        self, paths: Iterable[str], *, overrides: Overrides = ()
    ) -> dict[str, tuple[str, int, int]]:
        """The same places as file, line and column; line and column are 0 for a whole file."""
        return loader.positions(loader.changed(self.text, self.filename, overrides), paths)


def read(source: str | os.PathLike[str]) -> Source:
    """The text of a file, or of a scenario of the gallery.

    Raises:
        ScenarioError: There is no such file or name.
    """
    if isinstance(source, str) and source in names():
        return Source(text(source), f"{source}.yaml")
    if isinstance(source, str) and _BARE_NAME.fullmatch(source) and not os.path.lexists(source):
        message = f"{quote(source)} is neither a file nor in the gallery ({', '.join(names())})"
        raise ScenarioError([Problem("", 0, 0, "", message, _hint(source))])
    if Path(source, "manifest.json").is_file():
        message = f"is the dataset of a run; expected a scenario; `perhop report {source}` draws it"
        raise ScenarioError([Problem(os.fspath(source), 0, 0, "", message)])
    return Source(loader.read(source), os.fspath(source))


def read_stream(stream: BinaryIO, filename: str) -> Source:
    """The text that a stream has, such as standard input."""
    return Source(stream.read(loader.MAX_FILE + 1), filename)


def _hint(name: str) -> str:
    """Return what to do with a name that is neither a file's nor in the gallery."""
    if name in templates.names():
        return f"`perhop new {name}` writes the template of this name to {name}.yaml"
    return did_you_mean(name, names()) or near_file(name)


_BARE_NAME = re.compile(r"[A-Za-z0-9_-]+")
