"""A scenario as the configuration of a family of routers."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

from perhop.errors import UsageError
from perhop.hints import did_you_mean
from perhop.linux import one_line
from perhop.linux.gaps import framed, link_class_gaps, policer_gaps, tunnel_gaps
from perhop.routers.reading.matching import TooManyRulesError
from perhop.routers.writing import altq, ios, junos, pf, tc, vyos
from perhop.routers.writing.draft import Draft
from perhop.routers.writing.plan import ends, only_polices, opposite
from perhop.units import format_duration, quote

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from perhop.linux import Gap
    from perhop.routers.writing.plan import End
    from perhop.scenario import Scenario

__all__ = ["FAMILIES", "Family", "write"]

Family = Literal["ios", "junos", "vyos", "tc", "altq", "pf"]
"""The families and syntaxes that can be written."""

FAMILIES: Final[dict[Family, str]] = {
    "ios": "IOS",
    "junos": "Junos",
    "vyos": "VyOS",
    "tc": "Linux",
    "altq": "altq.conf",
    "pf": "pf.conf",
}
"""The name of each family in messages."""

_INTERFACE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./:@-]{0,63}")


@dataclass(frozen=True, slots=True)
class _Writer:
    """A family with interfaces whose names perhop can choose.

    Attributes:
        comment: The character that begins a comment.
        interface: The default name of an interface, with ``{}`` for its number.
        write: Returns the configuration of a router from the ends of its links.
        polices_received: True if a policy that only polices is one of the receiving end.
        link_classes: True if it has matches and marks of VLAN tags and MPLS labels.
        turns: True if it has classes that take turns with strict ones.
    """

    comment: str
    interface: str
    write: Callable[[Sequence[End], Draft], list[str]]
    polices_received: bool = False
    link_classes: bool = False
    turns: bool = False


_WRITERS: Final = {
    "ios": _Writer("!", "GigabitEthernet0/{}", ios.write, link_classes=True),
    "junos": _Writer("#", "ge-0/0/{}", junos.write, link_classes=True, turns=True),
    "vyos": _Writer("#", "eth{}", vyos.write, polices_received=True),
    "altq": _Writer("#", "em{}", altq.write),
    "pf": _Writer("#", "em{}", pf.write),
}


def write(
    scenario: Scenario,
    family: Family,
    *,
    links: Collection[str] = (),
    interfaces: Mapping[str, str] | None = None,
    approximate: bool = False,
    police: Literal["tc", "nft"] = "tc",
) -> tuple[str, tuple[Gap, ...]]:
    """Return the configuration of a scenario's routers, and what the family cannot express.

    The text is complete only if there are no gaps. It describes the network at the start of the
    scenario; a comment names each later change.

    Args:
        scenario: The scenario.
        family: The family and syntax.
        links: The directed links to cover; by default all that have a policy, a shaper, a queue or
            marking. For `tc`, every link.
        interfaces: The name of the interface of each directed link.
        approximate: True to write approximations, each with a comment; otherwise they are gaps.
        police: For `tc`, the kind of policers; see `perhop.linux.mapping`.

    Raises:
        UsageError: If there is no such link, or the name of an interface is malformed.
    """
    scenario = scenario.without_background()
    named = dict(interfaces or {})
    for link in [*links, *named]:
        if link not in scenario.directions:
            hint = did_you_mean(link, scenario.directions) or "expected one such as r1>r2"
            raise UsageError(f"{quote(link)}: there is no such link in {scenario.name}; {hint}")
    for link, name in named.items():
        if not _INTERFACE.fullmatch(name):
            raise UsageError(
                f"{link}={quote(name)}: is not the name of an interface; expected eth1"
            )
    if family == "tc":
        return tc.write(scenario, links, named, police)
    writer = _WRITERS[family]
    missing = [*([] if writer.link_classes else link_class_gaps(scenario)), *tunnel_gaps(scenario)]
    used = dict.fromkeys(
        policy
        for name in links or scenario.directions
        for link, node in (scenario.directions[name],)
        if (policy := link.egress.get(node)) is not None
    )
    missing += policer_gaps(scenario, used)
    draft = Draft(approximate, missing, versions=scenario.ip_versions)
    lines = [scenario.title or scenario.name, *_changes(scenario, links)]
    head = [f"{writer.comment} {one_line(line)}" for line in lines]
    found = ends(scenario, links, named)
    if writer.polices_received:
        found = [each for end in found for each in _received(scenario, end, named)]
    found = [
        replace(
            end,
            interface=end.interface or writer.interface.format(end.number),
            inputs={at: name or writer.interface.format(at) for at, name in end.inputs.items()},
        )
        for end in found
    ]
    text = list(head)
    if not found:
        reason = f"{scenario.name} has no policy, shaper, queue or marking for a router"
        text.append(f"{writer.comment} {reason}")
    for node in dict.fromkeys(end.node for end in found):
        own = [end for end in found if end.node == node]
        draft.notes.clear()
        for end in own:
            for place in framed(scenario, end.direction):
                draft.near(place, "perhop writes rates of IP packets", "the same rates of these")
            for _, part in end.division.walk() if end.division is not None else ():
                if not part.rules.rules:
                    draft.gap(f"{part.place}.match", "no packet meets it; expected another match")
                if part.class_.beside_strict and not writer.turns:
                    draft.gap(
                        f"{part.place}.beside_strict",
                        "the family has no classes that take turns with strict ones; "
                        "Junos has priority `high`",
                    )
        try:
            body = writer.write(own, draft)
        except TooManyRulesError as error:
            draft.gap(f"nodes.{node}", f"a match {error}")
            continue
        text += [writer.comment, f"{writer.comment} {'=' * 8} {node} {'=' * 8}"]
        text += [f"{writer.comment} {end.interface}: {end.direction}" for end in own]
        text += [f"{writer.comment} {one_line(note)}" for note in draft.notes]
        text += body
    return "\n".join(text) + "\n", tuple(dict.fromkeys(draft.gaps))


def _received(scenario: Scenario, end: End, interfaces: Mapping[str, str]) -> list[End]:
    """Return an end of a link, with a policy that only polices at the other one."""
    if end.shape is not None or not only_polices(end.division):
        return [end]
    other = opposite(scenario, end, interfaces)
    if scenario.nodes[other.node].kind != "router":
        return [end]
    return [*([replace(end, division=None)] if end.marks else []), other]


def _changes(scenario: Scenario, links: Collection[str]) -> list[str]:
    """Return a line for each change of a configuration during the run."""
    return [
        f"not included: changes.{number}, at {format_duration(change.at)} "
        f"({'policer' if change.police else 'policy'} at {change.on})"
        for number, change in enumerate(scenario.changes)
        if (change.policy is not None or change.police is not None)
        and (not links or change.on in links)
    ]
