"""Rules on marks across policies: code points that are set, matched and trusted."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from perhop.routers.lint.findings import Finding, Rule, Severity
from perhop.routers.lint.wording import listed
from perhop.scenario.model.dscp import format_dscp
from perhop.units import quote

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from perhop.routers.lint.findings import Settings
    from perhop.routers.lint.policies import AttachedPolicy, JudgedClass
    from perhop.routers.reading import Loc

UNKNOWN: Final = Rule(
    "unknown-mark",
    Severity.WARNING,
    "A code point that a class or policer sets, and that no other policy of the files matches.",
    "The packets are in the default class of each later policy, as if they had not been marked. "
    "Give the configurations of the next hops as further files, if these match the code point.",
    "Match the code point in a class of the output policy, or set one that is matched.",
    "RFC 2475, section 2.3.3: marking is of use only if later nodes select by it",
)

OUTGOING: Final = Rule(
    "outgoing-mark",
    Severity.NOTE,
    "A code point that an output policy sets, and that no class of the file matches.",
    "The mark is for the next hop. perhop cannot tell whether it has a class for the code point.",
    "Give the configuration of the next hop as a further file, or ignore the rule.",
)

UNSET: Final = Rule(
    "unset-code-point",
    Severity.NOTE,
    "A class for code points that no input policy sets, where input policies mark all packets.",
    "Each input policy gives every packet a code point, and none of them is one of this class: it "
    "gets no packets, except from interfaces without an input policy and from the router itself.",
    "Set the code point in an input policy, or remove the class.",
)

UNTRUSTED: Final = Rule(
    "untrusted-dscp",
    Severity.WARNING,
    "An interface that was named as untrusted, and whose packets keep their DSCP, while output "
    "policies select by DSCP.",
    "Its senders choose their class themselves: whoever sets EF is served first.",
    "Mark all packets of the interface in an input policy, in the default class, too.",
    "RFC 2475, section 2.3.1; Cisco Enterprise QoS Solution Reference Network Design Guide: trust "
    "boundary",
)

RULES: Final = (UNKNOWN, OUTGOING, UNSET, UNTRUSTED)

_BEST_EFFORT: Final = 0
_CONTROL: Final = frozenset(range(48, 64))
"""Code points that routers themselves send."""


def findings(policies: Sequence[AttachedPolicy], settings: Settings) -> Iterator[Finding]:
    """Find code points that are set in vain, matched in vain, or trusted."""
    yield from _unknown(policies)
    yield from _unset(policies)
    yield from _untrusted(policies, settings.untrusted)


def _unknown(policies: Sequence[AttachedPolicy]) -> Iterator[Finding]:
    """Find marks that no other policy matches."""
    outputs = _Outputs(policies)
    known = frozenset().union(*map(_matched, policies))
    for policy in policies:
        if not outputs.look_at_marks(policy):
            continue
        for judged in policy.classes:
            for keys, point in _marks(judged):
                if point in known or point == _BEST_EFFORT:
                    continue
                name = format_dscp(point)
                if outputs.are_before(policy):
                    yield Finding(
                        OUTGOING,
                        judged.place(*keys),
                        f"{judged} marks packets {name} for the next hop, and no class of this "
                        "file matches that",
                        f"match {name} at the next hop, or give its configuration, too",
                    )
                else:
                    yield Finding(
                        UNKNOWN,
                        judged.place(*keys),
                        f"{judged} marks packets {name}, and no class matches that: they are in "
                        "the default class of each output policy",
                        f"match {name} in a class of the output policy",
                    )


class _Outputs:
    """The output policies in which a mark may take effect: those that are not the marking one.

    A policy at many interfaces is one: policies are compared by what they say.
    """

    def __init__(self, policies: Sequence[AttachedPolicy]) -> None:
        self._said = {policy: policy.policy.model_dump_json() for policy in policies}
        self._selecting: set[str] = set()
        self._by_file: dict[str, set[str]] = {}
        for policy in policies:
            if policy.is_output:
                said = self._said[policy]
                self._by_file.setdefault(policy.place.file, set()).add(said)
                if _matched(policy):
                    self._selecting.add(said)

    def look_at_marks(self, policy: AttachedPolicy) -> bool:
        """Return whether another output policy than this one selects by code points."""
        return len(self._selecting) > (self._said[policy] in self._selecting)

    def are_before(self, policy: AttachedPolicy) -> bool:
        """Return whether packets that a policy marks have left the routers of the files."""
        if not policy.is_output or policy.family == "scenario":
            return False
        own = {self._said[policy]}
        return all(said <= own for file, said in self._by_file.items() if file != policy.place.file)


def _unset(policies: Sequence[AttachedPolicy]) -> Iterator[Finding]:
    """Find classes for code points that no packet has."""
    inputs = [policy for policy in policies if not policy.is_output and policy.attachment.interface]
    if not inputs or any(_kept(policy) is not None for policy in inputs):
        return
    marks = {
        point for policy in policies for judged in policy.classes for _, point in _marks(judged)
    }
    for policy in policies:
        if not policy.is_output or not policy.attachment.interface:
            continue
        for judged in policy.classes:
            points = judged.code_points
            if points and points.isdisjoint(marks) and points.isdisjoint(_CONTROL):
                yield Finding(
                    UNSET,
                    judged.place("match"),
                    f"{judged} matches {listed(points)}, and input policies give all packets other "
                    "code points",
                    "set the code point in an input policy, or remove the class",
                )


def _untrusted(policies: Sequence[AttachedPolicy], untrusted: Iterable[str]) -> Iterator[Finding]:
    """Find untrusted interfaces whose packets keep their DSCP."""
    trusting = next((p for p in policies if p.is_output and _matched(p)), None)
    if trusting is None:
        return
    for pattern in untrusted:
        at = [
            policy
            for policy in policies
            if not policy.is_output and matches_interface(policy.attachment.interface, pattern)
        ]
        relies = f"and policy {quote(trusting.attachment.name)} selects by it"
        if not at:
            yield Finding(
                UNTRUSTED,
                trusting.place,
                f"the untrusted interface {quote(pattern)} has no input policy: its packets keep "
                f"their DSCP, {relies}",
                "attach an input policy that marks all packets",
            )
        for policy in at:
            kept = _kept(policy)
            if kept is not None:
                yield Finding(
                    UNTRUSTED,
                    kept.place(),
                    f"packets of {kept} from the untrusted interface "
                    f"{quote(policy.attachment.interface)} keep their DSCP, {relies}",
                    "mark the packets of the class, such as be",
                )


def matches_interface(interface: str, pattern: str) -> bool:
    """Return whether a pattern such as ``ge-0/0/*`` is an interface's name, in any case."""
    return fnmatchcase(interface.lower(), pattern.lower())


def _kept(policy: AttachedPolicy) -> JudgedClass | None:
    """Return a class of an input policy whose packets keep the DSCP of their sender."""
    for judged in policy.classes:
        police = judged.class_.police
        # All that conforms is marked, and what does not is marked or dropped.
        marked = police is not None and all(
            action.drops or action.remark is not None for action in police.actions
        )
        if judged.mark is None and not marked and judged.is_leaf:
            return judged
    return None


def _matched(policy: AttachedPolicy) -> frozenset[int]:
    """Return the code points that classes of a policy select, perhaps beside other packets."""
    return frozenset().union(*(judged.named_code_points for judged in policy.classes))


def _marks(judged: JudgedClass) -> Iterator[tuple[Loc, int]]:
    """Yield the code points that a class sets, with their keys."""
    if judged.mark is not None:
        yield ("mark",), judged.mark
    police = judged.class_.police
    if police is not None:
        actions = police.actions if police.three_colours else police.actions[:2]
        for key, action in zip(("conform", "exceed", "violate"), actions, strict=False):
            if action.remark is not None:
                yield ("police", key), action.remark
