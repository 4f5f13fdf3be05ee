"""Classes of VLAN tags and MPLS labels: classifiers at the inputs of Junos, and rewrite rules.

Filters of IP see neither tags nor labels. A classifier at the other interfaces therefore gives
packets a forwarding class by their code point; the filter at the output looks at that class, and
then sets the one whose queue is meant. See "ieee-802.1" and "exp" in the Junos Class of Service
User Guide.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from perhop.routers.writing.draft import Definitions, Names
from perhop.routers.writing.junos_filters import block, levels, one_of
from perhop.routers.writing.packets import decisions

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from perhop.routers.reading.matching import Conditions
    from perhop.routers.writing.draft import Draft
    from perhop.routers.writing.plan import Division, End, Part

__all__ = ["RESERVED", "LinkClasses", "looks", "of_link"]

_LONGEST_NAME: Final = 64
KINDS: Final = {"pcp": "ieee-802.1", "mpls_tc": "exp"}
"""The classifiers and rewrite rules of each key of a scenario."""

RESERVED: Final = 3
"""The queue of `network-control`: the default classifiers give it to packets of IP."""

Code = tuple[str, int]
"""A key of `KINDS` and a code point."""

Labels = dict[Code, str]
"""The forwarding class at inputs of code points."""

_TOO_FEW: Final = "Junos tells tags and labels apart by forwarding classes, of which it has too few"


class LinkClasses:
    """The classifiers and rewrite rules of tags and labels of one router.

    Attributes:
        kinds: The classifiers, by kind.
        rewrites: The rewrite rules, by kind.
        units: The classifiers of each interface with packets for a policy that looks at them.
    """

    def __init__(self) -> None:
        self.kinds: dict[str, list[str]] = {}
        self.rewrites = {kind: Definitions(Names(_LONGEST_NAME)) for kind in KINDS.values()}
        self.units: dict[str, list[str]] = {}
        self._name = ""
        self._of_code: Labels = {}

    def classify(
        self, ends: Sequence[tuple[End, Division]], queues: Mapping[str, int], draft: Draft
    ) -> None:
        """Set the forwarding classes of packets at inputs, with which filters at outputs begin.

        Args:
            ends: Ends of links and their policies, one of which looks at tags or labels.
            queues: The queues of all forwarding classes.
            draft: Where gaps are added.
        """
        divisions = [division for _, division in ends]
        self._name = divisions[0].name
        self._of_code = _labels(divisions, queues, draft)
        rest = next(name for name, queue in queues.items() if queue == 0)
        self.kinds = _classifiers(self._of_code, rest)
        statements = [f"{kind} {self._name};" for kind in self.kinds]
        for end, division in ends:
            for interface in end.inputs.values() if looks(division) else ():
                self.units[interface] = block("classifiers", statements)

    @property
    def labels(self) -> set[str]:
        """The forwarding classes of code points at inputs."""
        return {*self._of_code.values()}

    def written(self) -> list[str]:
        """Return the classifiers as statements."""
        return [
            line
            for kind, body in self.kinds.items()
            for line in block(f"{kind} {self._name}", body)
        ]

    def before(self, found: Conditions) -> list[str]:
        """Return the forwarding classes at inputs of packets that meet some conditions.

        It is empty if the conditions do not look at tags and labels.
        """
        wanted = sorted(of_link(found) or ())
        return list(dict.fromkeys(self._of_code[code] for code in wanted if code in self._of_code))

    def rewrite(self, division: Division) -> list[str]:
        """Define the rewrite rules of a policy, and return the statements that apply them."""
        rules = []
        for key, kind in KINDS.items():
            body: list[str] = []
            for part in division.parts:
                code = None if part.class_.mark is None else getattr(part.class_.mark, key)
                if code is not None:
                    losses = levels(part.class_.police)
                    lines = [f"loss-priority {loss} code-point {code:03b};" for loss in losses]
                    body += block(f"forwarding-class {part.name}", lines)
            if body:
                rules.append(f"{kind} {self.rewrites[kind].define(division.name, body)};")
        return rules


def looks(division: Division) -> bool:
    """Return whether a policy matches tags or labels."""
    return any(of_link(each) for part in division.parts for _, each in part.rules.rules)


def of_link(found: Conditions) -> frozenset[Code] | None:
    """Return the code points of tags and labels that meet some conditions; None if all packets."""
    given = {key: getattr(found, key) for key in KINDS}
    if all(values is None for values in given.values()):
        return None
    return frozenset((key, code) for key, values in given.items() for code in values or ())


def _labels(divisions: Iterable[Division], queues: Mapping[str, int], draft: Draft) -> Labels:
    """Return the forwarding class of each code point that a condition tells from others.

    Code points that no condition tells apart share one. It is not a class that packets without tags
    and labels have by default.
    """
    uses: dict[Code, set[tuple[int, Conditions]]] = {}
    places: dict[Code, Part] = {}
    run = 0
    for division in divisions:
        before = -1
        for index, each in decisions([part.rules for part in division.parts]):
            # Conditions of one class that follow each other may be exchanged.
            run += index != before
            before = index
            for code in sorted(of_link(each) or ()):
                bare = replace(each, pcp=None, mpls_tc=None)
                uses.setdefault(code, set()).add((run, bare))
                places.setdefault(code, division.parts[min(index, len(division.parts) - 1)])
    free = [name for name, queue in queues.items() if queue not in (0, RESERVED)]
    found: Labels = {}
    known: list[tuple[set[tuple[int, Conditions]], str]] = []
    for code, use in uses.items():
        label = next((name for other, name in known if other == use), "")
        if not label:
            part = places[code]
            if not free:
                draft.gap(f"{part.place}.match", _TOO_FEW)
                break
            label = part.name if part.name in free else free[0]
            free.remove(label)
            known.append((use, label))
        found[code] = label
    return found


def _classifiers(given: Labels, rest: str) -> dict[str, list[str]]:
    """Return the classifiers that give each code point its forwarding class, by kind.

    Args:
        given: The forwarding classes of code points.
        rest: That of all others.
    """
    found = {}
    for key in dict.fromkeys(key for key, _ in given):
        by_class: dict[str, list[str]] = {}
        for code in range(8):
            by_class.setdefault(given.get((key, code), rest), []).append(f"{code:03b}")
        found[KINDS[key]] = [
            line
            for name, points in by_class.items()
            for line in block(
                f"forwarding-class {name}", [f"loss-priority low code-points {one_of(points)};"]
            )
        ]
    return found
