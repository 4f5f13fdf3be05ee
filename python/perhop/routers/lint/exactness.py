"""Classes whose packets a reader of configurations does not know exactly.

Such a class may get fewer packets, or others, than its match in the form of scenarios says, so that
nothing can be concluded about it and the classes after it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from perhop.routers.reading import Place, Treatment

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from perhop.routers.reading import Configuration, Line, Source

_MATCHING: Final = re.compile(
    r"\b(match|from|filter|term|u32|flower|source|destination|protocol|port|dscp|precedence"
    r"|permit|deny|pass|block|class-map|access-list|mark|vif|ether|iptables|ip6tables)\b",
    re.I,
)
"""Words of statements that select packets."""

_CLASS_MAP: Final = re.compile(r"class-map (?:type \S+ )?(?:match-\w+ )?(\S+)\s*$", re.I)
_LIST: Final = re.compile(r"(?:ip |ipv6 )?access-list (?:extended |standard )?(\S+)", re.I)
_GROUP: Final = re.compile(r"object-group \S+ (\S+)", re.I)
_REFERENCE: Final = re.compile(
    r"(?:access-group(?: name)?|match(?: not)? class-map|object-group) (\S+)", re.I
)
_CLASS: Final = re.compile(r"\s+class (\S+)", re.I)


def inexact_places(
    configuration: Configuration, texts: Sequence[Source]
) -> frozenset[Place] | None:
    """Return the lines of classes whose packets are not known exactly; None if all may be.

    Args:
        configuration: The configuration.
        texts: Its files.
    """
    wrong = frozenset(
        line.place
        for line in configuration.lines
        if line.treatment is not Treatment.MODELLED and selects(line)
    )
    if not configuration.family.startswith("ios"):
        return None if wrong else frozenset()
    names = _inexact_names(texts, wrong)
    return frozenset(
        Place(text.file, number)
        for text in texts
        for number, line in enumerate(text.text.split("\n"), 1)
        if (found := _CLASS.match(line)) and found[1] in names
    )


def selects(line: Line) -> bool:
    """Return whether a line selects packets: as its reader tells, or else by its words."""
    return bool(_MATCHING.search(line.text)) if line.selects is None else line.selects


def _inexact_names(texts: Sequence[Source], wrong: frozenset[Place]) -> set[str]:
    """Return the names of class maps of IOS that contain or refer to `wrong` lines.

    Class maps without a condition count, too: those of a system, such as `system-cpp-…`, have
    conditions that the configuration does not show.
    """
    inexact: set[str] = set()
    empty: dict[str, bool] = {}
    references: dict[str, set[str]] = {}
    for text in texts:
        for name, number, line in _statements(text.text):
            references.setdefault(name, set()).update(_REFERENCE.findall(line))
            if Place(text.file, number) in wrong:
                inexact.add(name)
            if _CLASS_MAP.match(line):
                empty.setdefault(name, True)
            elif line.split()[:1] == ["match"]:
                empty[name] = False
    inexact |= {name for name, without in empty.items() if without}
    changed = True
    while changed:
        found = {name for name, used in references.items() if used & inexact} - inexact
        inexact |= found
        changed = bool(found)
    return inexact


def _statements(text: str) -> Iterator[tuple[str, int, str]]:
    """Yield the lines of class maps, access lists and groups, with the name that they define."""
    name = ""
    for number, line in enumerate(text.split("\n"), 1):
        if line[:1] not in (" ", "\t"):
            found = _CLASS_MAP.match(line) or _LIST.match(line) or _GROUP.match(line)
            name = found[1] if found else ""
        if name:
            yield name, number, line
