"""The parts of a scenario that its target, such as Linux or a router, cannot express."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from perhop.errors import UnsupportedError
from perhop.scenario.model.cake import Framing
from perhop.scenario.resolve.elements import link_classes, polices
from perhop.scenario.resolve.nesting import with_nested

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perhop.scenario import Scenario

__all__ = ["Gap", "framed", "link_class_gaps", "policer_gaps", "refuse", "tunnel_gaps"]


@dataclass(frozen=True, slots=True)
class Gap:
    """A part of a scenario that has no counterpart in its target.

    Attributes:
        path: Its place in the scenario, such as ``policies.wan.classes.voice.police``.
        reason: Feature that the target lacks, and the effect.
        place: Its place in a file, such as ``wan.yaml:12:7``; "" if it is not known.
    """

    path: str
    reason: str
    place: str = ""

    def __str__(self) -> str:
        said = f"{self.path}: {self.reason}"
        return f"{self.place}: {said}" if self.place else said


def link_class_gaps(scenario: Scenario) -> list[Gap]:
    """Return the matches and marks of classes at layer 2, which perhop writes for no target."""
    reason = "perhop writes no matches or marks of VLAN tags and MPLS labels"
    return [Gap(".".join(map(str, loc)), reason) for loc in link_classes(scenario)]


def policer_gaps(scenario: Scenario, policies: Iterable[str]) -> list[Gap]:
    """Return the policers before classes, and those that count layer 2, of these policies."""
    reason = "perhop writes policers of single classes only"
    named = sorted(with_nested(scenario, policies))
    return [
        Gap(f"policies.{name}.policers", reason)
        for name in named
        if scenario.policies[name].policers
    ] + [
        Gap(".".join(map(str, (*loc, "overhead"))), "perhop writes policers of IP packets only")
        for loc, _, police in polices(scenario)
        if loc[1] in named and loc[2] == "classes" and police.overhead != Framing()
    ]


def framed(scenario: Scenario, direction: str) -> list[str]:
    """Return the places of the shaper and the policies of a directed link that count frames."""
    link, node = scenario.directions[direction]
    shape, policy = link.shape.get(node), link.egress.get(node)
    number = next(at for at, each in enumerate(scenario.links) if each is link)
    found = [f"links.{number}.shape.{node}.overhead"]
    if shape is None or shape.overhead == Framing():
        found.clear()
    return found + [
        f"policies.{name}.overhead"
        for name in sorted(with_nested(scenario, () if policy is None else (policy,)))
        if scenario.policies[name].overhead != Framing()
    ]


def tunnel_gaps(scenario: Scenario) -> list[Gap]:
    """Return the tunnels of a scenario, for targets where perhop sets up none."""
    reason = "perhop sets up no tunnels there; the engines `sim` and `emu` carry them"
    return [Gap(f"tunnels.{name}", reason) for name in scenario.tunnels]


def refuse(gaps: Iterable[Gap], name: str, who: str = "Linux cannot express") -> None:
    """Raise UnsupportedError with every gap, one a line, if there are any.

    Args:
        gaps: Missing features.
        name: Name of the scenario.
        who: Who lacks them, and the verb.
    """
    found = list(dict.fromkeys(gaps))
    if found:
        lines = "\n".join(f"  {gap}" for gap in found)
        raise UnsupportedError(f"{who} all of {name}:\n{lines}")
