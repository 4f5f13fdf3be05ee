"""Classes whose packets a reader of configurations does not know exactly.

Such a class may get fewer packets, or others, than its match in the form of scenarios says, so that
nothing can be concluded about it and the classes after it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from perhop.routers.reading import Treatment
from perhop.routers.reading.ios.tree import read_tree, walk

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from perhop.routers.reading import Configuration, Line, Place, Source
    from perhop.routers.reading.ios.tree import Statement

_MATCHING: Final = re.compile(
    r"\b(match|from|filter|term|u32|flower|source|destination|protocol|port|dscp|precedence"
    r"|permit|deny|pass|block|class-map|access-list|mark|vif|ether|iptables|ip6tables)\b",
    re.I,
)
"""Words of statements that select packets."""

_DEFINES: Final = re.compile(
    r"class-map (?:type \S+ )?(?:match-\w+ )?(\S+)$"
    r"|(?:ip |ipv6 )?access-list (?:extended |standard )?(\S+)|object-group \S+ (\S+)",
    re.I,
)
_REFERENCE: Final = re.compile(
    r"(?:access-group(?: name)?|match(?: not)? class-map|object-group) (\S+)", re.I
)


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
    top = [statement for text in texts for statement in read_tree(text)]
    names = _inexact_names(top, wrong)
    return frozenset(
        child.place
        for statement in top
        if statement.kind == "policy-map"
        for child in statement.children
        if child.kind == "class" and names & {*child.words[1:2], *child.words[3:]}
    )


def selects(line: Line) -> bool:
    """Return whether a line selects packets: as its reader tells, or else by its words."""
    return bool(_MATCHING.search(line.text)) if line.selects is None else line.selects


def _inexact_names(top: Sequence[Statement], wrong: frozenset[Place]) -> set[str]:
    """Return the names of class maps of IOS that contain or refer to `wrong` lines.

    Class maps without a condition count, too: those of a system, such as `system-cpp-…`, have
    conditions that the configuration does not show.
    """
    inexact: set[str] = set()
    empty: dict[str, bool] = {}
    references: dict[str, set[str]] = {}
    for name, statement in _definitions(top):
        references.setdefault(name, set()).update(_REFERENCE.findall(statement.text))
        if statement.place in wrong:
            inexact.add(name)
        if statement.kind == "class-map":
            empty.setdefault(name, True)
        elif statement.starts("match"):
            empty[name] = False
    inexact |= {name for name, without in empty.items() if without}
    changed = True
    while changed:
        found = {name for name, used in references.items() if used & inexact} - inexact
        inexact |= found
        changed = bool(found)
    return inexact


def _definitions(top: Sequence[Statement]) -> Iterator[tuple[str, Statement]]:
    """Yield statements of class maps, access lists and groups, with the name that they define."""
    for statement in top:
        found = _DEFINES.match(" ".join(statement.words))
        if found is not None:
            name = found[found.lastindex or 0]
            for each in walk([statement]):
                yield name, each
