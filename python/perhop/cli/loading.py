"""Scenarios as commands take them: a file, a name of the gallery, or a router's configuration."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from perhop.files import read_file

if TYPE_CHECKING:
    from perhop.scenario import Overrides, Scenario

__all__ = ["is_configuration", "load", "refuse_other"]

_SCENARIO = re.compile(r"""^[ \t{]*["']?perhop["']?[ \t]*:""", re.MULTILINE)
"""The first key of a scenario."""


def load(
    source: str,
    *,
    overrides: Overrides = (),
    agents: str | None = None,
    rate: int | None = None,
) -> Scenario:
    """Return the scenario in a file or of the gallery, or that a configuration amounts to.

    Args:
        source: A path, or the name of a scenario of the gallery.
        overrides: Changes to make first, as for `perhop.load`.
        agents: A file with the section `agents`, which replaces the scenario's.
        rate: The rate of a configuration's interface in bit/s; by default as the file says.

    Raises:
        ScenarioError: There is no such file or name, or it is not a scenario after the changes.
        UsageError: A configuration has no policy, or nothing tells the rate of its interface; or
            there is a rate for a scenario.
    """
    if agents is None and is_configuration(source):
        from perhop.routers.scenario import build

        return build([source], rate=rate).scenario(overrides)
    from perhop import gallery
    from perhop.cli import options

    refuse_other(source)
    options.no_rate(rate, source)
    return gallery.load(source, overrides=overrides, agents=agents)


def refuse_other(source: str) -> None:
    """Refuse a file that is neither a scenario nor a configuration of a family that is recognised.

    A file with the suffix of YAML, or with the first key of a scenario, is a scenario with errors.

    Raises:
        UsageError: The file is none of these.
    """
    from perhop import gallery
    from perhop.errors import UsageError
    from perhop.routers.reading import MAX_SIZE, Source, detect

    path = Path(source)
    if path.suffix in (".yaml", ".yml") or not path.is_file() or source in gallery.names():
        return
    try:
        text = read_file(source, MAX_SIZE).decode("utf-8", "replace")
    except ValueError:
        return
    if not _SCENARIO.search(text):
        detect.refuse_unread([Source(source, text)], option="`perhop import --family`")
        raise UsageError(
            f"{source}: is neither a scenario, which has a key `perhop`, nor a configuration whose "
            "family perhop recognises; `perhop import --family NAME` reads one"
        )


def is_configuration(source: str) -> bool:
    """Return whether a file is the configuration of a router: of a family, and not a scenario.

    As everywhere, the name of a scenario of the gallery is not that of a file.
    """
    if Path(source).suffix in (".yaml", ".yml") or not Path(source).is_file():
        return False
    from perhop import gallery

    if source in gallery.names():
        return False
    from perhop.errors import UsageError
    from perhop.routers.reading import MAX_SIZE, detect
    from perhop.routers.reading import source as text_of

    try:
        text = text_of(read_file(source, MAX_SIZE), source)
        return not _SCENARIO.search(text.text) and bool(detect.detect([text]))
    except (UsageError, ValueError):
        return False
