"""What is wrong with a scenario, before it is known where in a file that stands."""

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
    """Something wrong at a place of a scenario.

    Attributes:
        loc: The place.
        message: What is wrong, and what was expected.
        hint: ``did you mean `x`?``, or "".
        at_key: Whether it is about the key, rather than about the value that stands there.
    """

    loc: Loc
    message: str
    hint: str = ""
    at_key: bool = False


class Source(Protocol):
    """Where the parts of a scenario come from."""

    @property
    def broken(self) -> bool:
        """Whether parts are missing, so that little can be said of how the others agree."""

    def place(self, loc: Loc, *, at_key: bool) -> tuple[str, int, int]:
        """File, line and column of `loc`, or of the part of it that exists."""


class Nowhere:
    """The source of a scenario that was built in Python."""

    broken = False

    def place(self, loc: Loc, *, at_key: bool) -> tuple[str, int, int]:
        """No file, no line."""
        del loc, at_key
        return "", 0, 0


def problems(findings: Iterable[Finding], source: Source, data: object) -> list[Problem]:
    """The findings with their place in `source`, at most one for each place.

    Args:
        findings: What is wrong; of two at one place the first counts.
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
    """The part of `loc` that `data` has, and the key after it where a mapping lacks one."""
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
    """A finding unless `name` is one of `names`."""
    if name not in names:
        hint = did_you_mean(name, names)
        few = "" if hint else listed(names)
        yield Finding(loc, f"{quote(name)} is not a {kind}{few}", hint)
