"""Findings about a scenario, and their places in a file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from perhop.errors import Problem
from perhop.hints import did_you_mean, listed
from perhop.units import quote

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from perhop.scenario.model.base import Loc


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem at a place of a scenario.

    Attributes:
        loc: The place.
        message: The problem, and what was expected.
        hint: ``did you mean `x`?``, or "".
        at_key: True if it is about the key, not about its value.
    """

    loc: Loc
    message: str
    hint: str = ""
    at_key: bool = False

    @property
    def path(self) -> str:
        """The place as a path, such as `flows.voice.udp`; "" for the scenario as a whole."""
        return ".".join(map(str, self.loc))


class Source(Protocol):
    """The origin of a scenario's data."""

    @property
    def broken(self) -> bool:
        """True if parts of the data are missing, so that rules between them cannot be checked."""

    def place(self, loc: Loc, *, at_key: bool) -> tuple[str, int, int]:
        """Return file, line and column of `loc`, or of the part of it that exists."""


class Nowhere:
    """The origin of a scenario that was built in Python."""

    broken = False

    def place(self, loc: Loc, *, at_key: bool) -> tuple[str, int, int]:
        """Return no file and no line."""
        del loc, at_key
        return "", 0, 0


def problems(findings: Iterable[Finding], source: Source, data: object) -> list[Problem]:
    """The findings with their place in `source`, at most one for each place.

    Args:
        findings: Problems; of two at one place the first counts.
        source: Where `data` comes from.
        data: The scenario as it is written, by which paths are shown.
    """
    by_loc: dict[tuple[Loc, bool], Problem] = {}
    for finding in findings:
        loc = written(finding.loc, data)
        file, line, column = source.place(loc, at_key=finding.at_key)
        path = ".".join(map(str, loc))
        by_loc.setdefault(
            (loc, finding.at_key), Problem(file, line, column, path, finding.message, finding.hint)
        )
    return list(by_loc.values())


def written(loc: Loc, data: object) -> Loc:
    """Return the part of `loc` that `data` has, and the first missing key after it."""
    for depth, step in enumerate(loc):
        if isinstance(data, dict) and isinstance(step, str):
            if step not in data:
                return loc[: depth + 1]
            data = data[step]
        elif isinstance(data, (list, tuple)) and isinstance(step, int) and step < len(data):
            data = data[step]
        else:
            return loc[:depth]
    return loc


def known(name: str, names: Iterable[str], kind: str, loc: Loc) -> Iterator[Finding]:
    """Yield a finding unless `name` is one of `names`."""
    if name not in names:
        hint = did_you_mean(name, names)
        few = "" if hint else listed(names)
        yield Finding(loc, f"{quote(name)} is not a {kind}{few}", hint)


def not_an_end(
    node: str, ends: tuple[str, str], kind: str, loc: Loc, expected: str = ""
) -> Finding:
    """Return the finding at a key for a node that is not among the two ends of a link or tunnel."""
    first, second = ends
    return Finding(
        loc,
        f"{quote(node)} is not an end of this {kind}; "
        f"expected {quote(first)} or {quote(second)}{expected}",
        did_you_mean(node, ends),
        at_key=True,
    )
