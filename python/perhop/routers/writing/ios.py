"""Cisco IOS and IOS-XE: the modular QoS command line (MQC).

Commands and ranges are those of the Cisco IOS Quality of Service Solutions Command Reference. Rates
of `bandwidth` are kb/s or whole per cent, those of `police` and `shape` bit/s; bursts of `police`
are bytes, those of `shape` bits.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Final

from perhop.routers.writing.draft import Definitions, Names
from perhop.routers.writing.ios_acl import LINK_CLASS, class_map, dscp_name, has_class_map
from perhop.routers.writing.ios_queues import queue
from perhop.scenario.model.hfsc import HFSC
from perhop.scenario.model.htb import HTB
from perhop.units import WHOLE, format_rate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perhop.routers.reading.matching import Rules
    from perhop.routers.writing.draft import Draft
    from perhop.routers.writing.plan import Ceiling, Division, End, Part
    from perhop.scenario.model.classes import Action, Police

__all__ = ["write"]

DEFAULT: Final = "class-default"
_LONGEST_NAME: Final = 40
_LEVELS: Final = 2
_LEAST_POLICED: Final = 8_000
_LEAST_BURST: Final = 1_000
_MOST_BURST: Final = 512_000_000
_MOST_SHAPED_BITS: Final = 154_400_000
_PACKET: Final = 1_500


def write(ends: Sequence[End], draft: Draft) -> list[str]:
    """Return the configuration of a router."""
    return _Writer(draft).write(ends)


class _Writer:
    """The configuration of one router."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.lists = Definitions(Names(_LONGEST_NAME))
        self.classes = Definitions(Names.besides([DEFAULT], _LONGEST_NAME))
        self.policies = Definitions(Names(_LONGEST_NAME))

    def write(self, ends: Sequence[End]) -> list[str]:
        interfaces = [line for end in ends for line in self.end(end)]
        lines = []
        for name, body in self.lists.bodies.items():
            lines += [f"{body[0]} {name}", *(f" {line}" for line in body[1:]), "!"]
        for name, body in self.classes.bodies.items():
            lines += [f"class-map {body[0]} {name}", *(f" {line}" for line in body[1:]), "!"]
        for name, body in self.policies.bodies.items():
            lines += [f"policy-map {name}", *(f" {line}" for line in body), "!"]
        return [*lines, *interfaces]

    def end(self, end: End) -> list[str]:
        """Return the commands of an interface."""
        lines = [f"interface {end.interface}"]
        kbps = self.kbps(end.link.medium(end.node).rate, f"{end.place}.rate")
        lines.append(f" bandwidth {kbps}")
        if end.marks:
            lines.append(f" service-policy input {self.marking(end)}")
        name = None if end.division is None else self.division(end.division)
        if end.shape is not None:
            body = [f"class {DEFAULT}", *(f" {line}" for line in self.shape(end.shape))]
            body += [f" service-policy {name}"] if name else []
            name = self.policies.define(f"{name or end.node}-shape", body)
        elif name is not None:
            self.draft.unshaped(end, "`bandwidth` informs routing protocols and per cent")
        if name is not None:
            lines.append(f" service-policy output {name}")
        return [*lines, "!"]

    def marking(self, end: End) -> str:
        """Return the policy map that marks what an interface receives."""
        body: list[str] = []
        for mark in end.marks:
            name = DEFAULT
            if not has_class_map(mark.rules):
                self.draft.gap(f"{mark.place}.match", LINK_CLASS)
            if not mark.rules.is_any:
                name = self.class_map(f"to-{dscp_name(mark.dscp)}", mark.rules)
            body += [f"class {name}", f" set dscp {dscp_name(mark.dscp)}"]
            if name == DEFAULT:
                break
        return self.policies.define(f"{end.node}-input", body)

    def class_map(self, wanted: str, rules: Rules) -> str:
        """Return the class map of some packets."""
        return self.classes.define(
            wanted, class_map(wanted, rules, self.lists, self.draft.versions)
        )

    def division(self, division: Division, whole: int | None = None) -> str:
        """Return the policy map of a policy.

        Args:
            division: The policy.
            whole: The rate of the shaper around it, in bit/s; None without one.
        """
        self.draft.whole(division)
        body: list[str] = []
        if division.scheduler == "drr":
            self.draft.near(
                f"{division.place}.scheduler",
                "IOS has no deficit round robin",
                "class-based weighted fair queueing",
            )
        elif division.scheduler in ("link-sharing", "altq-cbq", HFSC, HTB):
            place = f"{division.place}.scheduler"
            reason = "IOS has class-based weighted fair queueing, without an order of borrowing"
            weighted = [part.place for part in division.parts if part.class_.quantum is not None]
            if division.scheduler == HFSC:
                reason = "IOS has no service curves"
            elif weighted and division.scheduler == "link-sharing":
                place = f"{weighted[0]}.quantum"
                reason = (
                    "IOS has no weights for what exceeds the guarantees: classic IOS divides it in "
                    "proportion to `bandwidth`, IOS-XE equally"
                )
            self.draft.gap(place, reason)
        strict = [part for part in division.parts[:-1] if part.strict]
        for part in strict[_LEVELS:]:
            self.draft.gap(part.place, f"IOS has {_LEVELS} levels of priority")
        last = division.parts[-1]
        if last.strict and division.scheduler != "priority":
            self.draft.gap(f"{last.place}.priority", f"IOS has no priority for {DEFAULT}")
        guarantees = self.guarantees(division, whole)
        for part in division.parts:
            if not has_class_map(part.rules):
                self.draft.gap(f"{part.place}.match", LINK_CLASS)
            name = DEFAULT if part is last else self.class_map(part.name, part.rules)
            body.append(f"class {name}")
            if part.strict and part is not last:
                level = f" level {strict.index(part) + 1}" if len(strict) > 1 else ""
                body.append(f" priority{level}")
            elif part.name in guarantees:
                body.append(f" bandwidth {guarantees[part.name]}")
            body += [f" {line}" for line in self.part(part)]
        return self.policies.define(division.name, body)

    def guarantees(self, division: Division, whole: int | None) -> dict[str, str]:
        """Return the arguments of `bandwidth` by class, all in one unit, as IOS requires.

        IOS divides the rate of the shaper around a policy, not the guarantee of its class.
        """
        parts = [part for part in division.parts if not part.strict]
        last = division.parts[-1]
        if len(division.parts) == 1:
            return {}
        if not last.strict and (last.rate or 0) * 100 < division.capacity:
            self.draft.gap(last.place, f"IOS keeps 1% for {DEFAULT}, which is its last class")
        given = [part for part in parts if part.class_.bandwidth is not None or part is not last]
        shares = [None if p.class_.bandwidth is None else p.class_.bandwidth.share for p in given]
        if all(share is not None and share % (WHOLE // 100) == 0 for share in shares):
            return {
                part.name: f"percent {(share or 0) * 100 // WHOLE}"
                for part, share in zip(given, shares, strict=True)
            }
        scale = Fraction(whole or division.capacity, max(division.capacity, 1))
        return {
            part.name: str(self.kbps(int((part.rate or 0) * scale), f"{part.place}.bandwidth"))
            for part in given
        }

    def part(self, part: Part) -> list[str]:
        """Return the commands of a class, apart from its guarantee."""
        lines = []
        class_ = part.class_
        if class_.police is not None:
            lines.append(self.police(class_.police, part))
        if part.mark is not None:
            lines.append(f"set dscp {dscp_name(part.mark)}")
        if class_.mark is not None:
            if class_.mark.pcp is not None:
                lines.append(f"set cos {class_.mark.pcp}")
            if class_.mark.mpls_tc is not None:
                lines.append(f"set mpls experimental topmost {class_.mark.mpls_tc}")
        if part.ceiling is not None:
            lines += self.shape(part.ceiling)
        if part.inside is not None:
            if part.strict:
                self.draft.gap(part.place, "IOS divides no class with priority")
            whole = None if part.ceiling is None else part.ceiling.rate
            lines.append(f"service-policy {self.division(part.inside, whole)}")
        else:
            lines += queue(part, self.draft)
        return lines

    def police(self, police: Police, part: Part) -> str:
        """Return the command `police` of a class."""
        place = f"{part.place}.police"
        rate = police.rate.of(part.capacity)
        if rate < _LEAST_POLICED:
            reason = f"IOS polices from {format_rate(_LEAST_POLICED)}"
            self.draft.gap(f"{place}.rate", reason)
        words = [f"police cir {rate} bc {police.burst}"]
        bursts = {"burst": police.burst}
        if police.peak_rate is not None and police.peak_burst is not None:
            words.append(f"pir {police.peak_rate.of(part.capacity)} be {police.peak_burst}")
            bursts["peak_burst"] = police.peak_burst
        elif police.excess_burst is not None:
            words.append(f"be {police.excess_burst}")
            bursts["excess_burst"] = police.excess_burst
        for key, burst in bursts.items():
            if not _LEAST_BURST <= burst <= _MOST_BURST:
                reason = f"IOS has bursts from {_LEAST_BURST:,} to {_MOST_BURST:,} B"
                self.draft.gap(f"{place}.{key}", reason)
        if police.colour_aware:
            reason = "IOS takes colours from class maps, which perhop does not write"
            self.draft.gap(f"{place}.colour_aware", reason)
        outcomes = ("conform", "exceed", "violate")[: 3 if police.three_colours else 2]
        for outcome, action in zip(outcomes, police.actions, strict=False):
            words.append(f"{outcome}-action {_action(action)}")
        return " ".join(words)

    def shape(self, ceiling: Ceiling) -> list[str]:
        """Return the command `shape` of a ceiling: bursts in bits, and no excess burst."""
        burst = ceiling.burst
        if not burst:
            self.draft.near(
                ceiling.place,
                "the shaper of IOS has a burst",
                f"a burst of {_PACKET} B",
            )
            burst = _PACKET
        if ceiling.rate < _LEAST_POLICED:
            reason = f"IOS shapes from {format_rate(_LEAST_POLICED)}"
            self.draft.gap(ceiling.place, reason)
        if 8 * burst > _MOST_SHAPED_BITS:
            reason = f"IOS shapes with bursts up to {_MOST_SHAPED_BITS:,} bits"
            self.draft.gap(ceiling.place, reason)
        return [f"shape average {ceiling.rate} {8 * burst} 0"]

    def kbps(self, rate: int, place: str) -> int:
        """Return a rate in kb/s, the unit of `bandwidth`."""
        kbps = max(rate // 1000, 1)
        if rate != 1000 * kbps:
            self.draft.near(
                place,
                f"IOS has bandwidths in kb/s and in whole per cent, not {format_rate(rate)}",
                f"{kbps} kb/s",
            )
        return kbps


def _action(action: Action) -> str:
    if action.remark is not None:
        return f"set-dscp-transmit {dscp_name(action.remark)}"
    return "drop" if action.drops else "transmit"
