"""Policies of scenarios from policy maps."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from perhop.routers.reading.configuration import scenario_name
from perhop.routers.reading.ios import police, queues
from perhop.routers.reading.ios.classes import DEFAULT_CLASS
from perhop.routers.reading.ios.defaults import COMMANDS, priority_bytes
from perhop.routers.reading.ios.police import Rate
from perhop.routers.reading.ios.shares import guarantees, strict_total
from perhop.routers.reading.matching import TooManyRulesError
from perhop.scenario.model.classes import MAX_CLASSES
from perhop.scenario.model.dscp import format_dscp
from perhop.units import WHOLE, format_rate, format_size

if TYPE_CHECKING:
    from perhop.routers.reading.configuration import Direction, Loc, Place
    from perhop.routers.reading.ios.account import Account
    from perhop.routers.reading.ios.actions import Settings
    from perhop.routers.reading.ios.defaults import Platform
    from perhop.routers.reading.ios.policies import Member, PolicyMaps
    from perhop.routers.reading.matching import Rules

MAX_BUILT: Final = 20_000
"""The most classes of all attachments, so that a small file cannot fill the memory."""

MOST_STRICT: Final = WHOLE * 95 // 100
"""The most of the guarantee of a class that the priority classes inside it are guaranteed."""

MAX_OWN: Final = 64
"""The most rules of a match that is not shared by classes in memory."""

MAX_DEPTH: Final = 8
"""The most policies within each other."""


@dataclass(slots=True)
class Built:
    """A policy as a scenario states it.

    Attributes:
        policy: The policy.
        places: The lines of its values.
        shape: A shaper of all packets, or None.
    """

    policy: dict[str, Any]
    places: dict[Loc, Place]
    shape: dict[str, str] | None = None


class Builder:
    """Writes policy maps as policies, for the rates of the interfaces that they are at."""

    def __init__(self, maps: PolicyMaps, platform: Platform, account: Account) -> None:
        """Begin with no policy."""
        self._maps = maps
        self._platform = platform
        self._account = account
        self._built: dict[tuple[str, int, str], Built | None] = {}
        self._matches: dict[int, tuple[Rules, object]] = {}
        self._open: list[str] = []
        self._count = 0

    def build(self, name: str, rate: int, direction: Direction) -> Built | None:
        """Return a policy at an interface with a rate in bit/s; None if it is too large."""
        key = (name, rate, direction)
        if key not in self._built:
            self._built[key] = None
            if self._count < MAX_BUILT:
                self._built[key] = self._policy(name, rate, direction)
        return self._built[key]

    def _policy(self, name: str, rate: int, direction: Direction) -> Built | None:
        """Return a policy that is not inside another."""
        self._open.append(name)
        try:
            members = self._maps.members(name)
            if direction == "in":
                return self._conditioned(name, members, rate)
            if len(members) == 1:
                shaped = self._shaped(name, members[0], rate)
                if shaped is not None:
                    return shaped
            return self._queued(name, members, rate)
        finally:
            self._open.pop()

    def _shaped(self, name: str, member: Member, rate: int) -> Built | None:
        """Return a policy whose only class shapes all packets as a shaper of the interface."""
        settings = member.settings
        shaper = settings.shape
        if shaper is None or settings.police or settings.drop or settings.level:
            return None
        if settings.child is not None and settings.marks is not None:
            return None
        shape = self._shape(settings, rate)
        if shape is None:
            return None
        bits, written = shape
        written = {**written, "rate": format_rate(bits)}
        places: dict[Loc, Place] = {(): self._maps.place(name)}
        if settings.child is None or not self._child_is_known(settings):
            queued = self._queued(name, [replace(member, settings=_unshaped(settings))], bits)
            return Built(queued.policy, queued.places, written) if queued is not None else None
        for key in ("bandwidth", "remaining"):
            if key in settings.statements:
                self._account.not_modelled(
                    settings.statements[key], "the only class has all of the shaper's rate"
                )
        for statement in settings.queue.statements:
            self._account.not_modelled(statement, "the policy inside has the queues")
        inner = self._policy_inside(settings, bits, bits)
        if inner is None:
            return None
        places |= inner.places
        return Built(inner.policy, places, written)

    def _child_is_known(self, settings: Settings) -> bool:
        """Return whether the policy inside a class can be read, and note why not."""
        statement = settings.statements["child"]
        if str(settings.child) not in self._maps:
            self._account.undefined(statement, f"policy map {settings.child}")
        elif settings.child in self._open:
            self._account.not_modelled(statement, "contains itself")
        elif len(self._open) >= MAX_DEPTH or self._count >= MAX_BUILT:
            self._account.not_modelled(statement, "too many policies within each other")
        else:
            return True
        return False

    def _policy_inside(self, settings: Settings, rate: int, own: int) -> Built | None:
        """Return the policy inside a class of a rate, of which `own` is guaranteed, in bit/s."""
        name = str(settings.child)
        self._open.append(name)
        try:
            members = self._maps.members(name)
            strict = strict_total([member.settings for member in members], rate)
            if own < rate and strict > own * MOST_STRICT:
                self._account.approximated(
                    settings.statements["child"],
                    "its priority classes are reduced to what the class is guaranteed",
                )
                members = [
                    replace(each, settings=reduced(each.settings, rate, own * MOST_STRICT, strict))
                    for each in members
                ]
            return self._queued(name, members, rate, own)
        finally:
            self._open.pop()

    # Classes with queues

    def _queued(
        self, name: str, members: list[Member], rate: int, own: int | None = None
    ) -> Built | None:
        self._count += len(members)
        if self._count > MAX_BUILT:
            return None
        shapes = [self._shape(member.settings, rate) for member in members]
        ceilings = [None if shape is None else shape[0] for shape in shapes]
        settings = [member.settings for member in members]
        bandwidths = guarantees(
            settings, ceilings, rate, own or rate, self._platform, self._account
        )
        classes: dict[str, Any] = {}
        places: dict[Loc, Place] = {(): self._maps.place(name)}
        for member, shape, bandwidth in zip(members, shapes, bandwidths, strict=True):
            key = scenario_name(member.name, classes)
            at: Loc = ("classes", key)
            each = self._start(member, at, places)
            classes[key] = each
            if member.settings.level:
                each["priority"] = "strict"
            if bandwidth.bandwidth is not None:
                each["bandwidth"] = bandwidth.bandwidth
            if bandwidth.quantum is not None:
                each["quantum"] = f"{bandwidth.quantum} B"
            self._condition(member.settings, each, rate)
            if shape is not None:
                each["shape"] = shape[1]
            self._inside(member, each, at, places, bandwidth.rate, rate)
            if bandwidth.quantum is not None and member.settings.bandwidth is None:
                _in_bytes(each.get("queue", {}), bandwidth.rate)
        return Built({"classes": classes}, places)

    def _start(self, member: Member, at: Loc, places: dict[Loc, Place]) -> dict[str, Any]:
        """Return a class with its match, and note the lines of its values."""
        statements = member.settings.statements
        places[at] = member.settings.header.place
        for key, name in (
            ("bandwidth", "remaining"),
            ("bandwidth", "bandwidth"),
            ("quantum", "remaining"),
            ("priority", "priority"),
            ("police", "priority"),
            ("police", "police"),
            ("shape", "shape"),
            ("mark", "mpls_tc"),
            ("mark", "pcp"),
            ("mark", "mark"),
            ("classes", "child"),
        ):
            if name in statements:
                places[*at, key] = statements[name].place
        if member.settings.queue.statements:
            places[*at, "queue"] = member.settings.queue.statements[-1].place
        if len(member.rules.rules) <= MAX_OWN:
            return {"match": member.rules.written()}
        # Many classes may have thousands of rules each: they share what a scenario states.
        if id(member.rules) not in self._matches:
            self._matches[id(member.rules)] = (member.rules, member.rules.written())
        return {"match": self._matches[id(member.rules)][1]}

    def _inside(
        self,
        member: Member,
        each: dict[str, Any],
        at: Loc,
        places: dict[Loc, Place],
        own: int,
        rate: int,
    ) -> None:
        """Add the queue of a class, or the classes inside it."""
        settings, account = member.settings, self._account
        shape = self._shape(settings, rate)
        divided = shape[0] if shape is not None else own
        if settings.child is not None and self._child_is_known(settings):
            inner = self._policy_inside(settings, divided, min(own, divided))
            if inner is None:
                account.not_modelled(settings.statements["child"], "too many classes")
                return
            each["classes"] = inner.policy["classes"]
            places.update(((*at, *loc), place) for loc, place in inner.places.items() if loc)
            for statement in settings.queue.statements:
                account.not_modelled(statement, "the policy inside has the queues")
            return
        if settings.drop is None:
            each["queue"] = queues.written(
                settings.queue,
                settings.header,
                shape[0] if shape is not None else rate,
                self._platform,
                account,
                priority=bool(settings.level),
            )
            if settings.queue.wred is not None:
                profiles = each["queue"]["wred"].get("profiles", ())
                for index, place in settings.queue.wred.places(profiles).items():
                    places[*at, "queue", "wred", "profiles", index] = place
        if not settings.queues and member.name != DEFAULT_CLASS and settings.drop is None:
            account.approximated(
                settings.header,
                "has a queue of its own; IOS keeps its packets in the queue of class-default",
            )

    def _condition(self, settings: Settings, each: dict[str, Any], rate: int) -> None:
        """Add the mark and the policer of a class."""
        nested = len(self._open) > 1
        if settings.marks is not None:
            each["mark"] = settings.marks
        policer: dict[str, Any] | None = None
        if settings.drop is not None:
            policer = {"rate": "8 kbps", "burst": "1 B", "conform": "drop", "exceed": "drop"}
        elif settings.limits_priority(rate):
            if settings.police is not None:
                self._account.approximated(
                    settings.statements["police"], "the lower rate of `priority` decides"
                )
            policer = self._priority_policer(settings, rate, absolute=nested)
        elif settings.police is not None:
            statement = settings.statements["police"]
            policer = police.written(
                settings.police, statement, rate, self._account, absolute=nested
            )
        if policer is not None:
            each["police"] = policer

    def _priority_policer(self, settings: Settings, rate: int, *, absolute: bool) -> dict[str, Any]:
        assert settings.priority is not None
        statement = settings.statements["priority"]
        bits = max(settings.priority.of(rate), 1)
        burst = settings.priority_burst
        size = burst.of(bits) if burst is not None else priority_bytes(bits)
        if burst is None:
            source = f"{COMMANDS}, priority: 200 ms"
            self._account.default(statement.place, "burst", format_size(size), source)
        self._account.approximated(
            statement, "its policer acts always; that of IOS acts under congestion only"
        )
        text = format_rate(bits) if absolute else settings.priority.text()
        return {"rate": text, "burst": format_size(size), "exceed": "drop"}

    def _shape(self, settings: Settings, rate: int) -> tuple[int, dict[str, str]] | None:
        """Return the rate of a shaper in bit/s, and the shaper as a scenario states it."""
        shaper = settings.shape
        if shaper is None:
            return None
        if settings.level:
            self._account.not_modelled(shaper.statement, "a strict class is not shaped")
            return None
        bits = shaper.rate.of(rate)
        if bits < 1:
            self._account.not_modelled(shaper.statement, "less than 1 bit/s")
            return None
        usual = self._platform.shape_bits(bits)
        size = usual
        if shaper.bits is not None:
            size = bits * shaper.bits.time // 10**6 if shaper.bits.time else shaper.bits.bytes
        else:
            self._account.default(
                shaper.statement.place, "bc", f"{usual} bits", self._platform.source
            )
        excess = shaper.excess
        more = 0
        if excess is not None:
            more = bits * excess.time // 10**6 if excess.time else excess.bytes
        elif shaper.peak:
            more = size
            self._account.default(shaper.statement.place, "be", f"{more} bits", COMMANDS)
        if shaper.peak and size > 0:
            bits += bits * more // size
        burst = max((size + more) // 8, 1)
        text = shaper.rate.text() if len(self._open) == 1 and not shaper.peak else ""
        return bits, {"rate": text or format_rate(bits), "burst": format_size(burst)}

    # Classes that police and mark what arrives

    def _conditioned(self, name: str, members: list[Member], rate: int) -> Built | None:
        """Return the policy of packets that arrive: classes of one level, which only condition."""
        classes: dict[str, Any] = {}
        places: dict[Loc, Place] = {(): self._maps.place(name)}
        todo: list[tuple[Member, Member | None]] = [(each, None) for each in reversed(members)]
        while todo and len(classes) < MAX_CLASSES:
            member, outer = todo.pop()
            settings = member.settings
            for key in settings.link_marks:
                self._account.not_modelled(
                    settings.statements[key], "of packets that arrive, only the DSCP is marked"
                )
            if settings.child is not None and outer is None and self._child_is_known(settings):
                inner = self._opened(member)
                if inner is not None:
                    todo += [(each, member) for each in reversed(inner)]
                    continue
            elif settings.child is not None and outer is not None:
                self._account.not_modelled(
                    settings.statements["child"], "three policies within each other"
                )
            key = scenario_name(member.name, classes)
            each = self._start(member, ("classes", key), places)
            if outer is not None and outer.settings.mark is not None:
                each["mark"] = format_dscp(outer.settings.mark)
            self._condition(replace(settings, link_marks={}), each, rate)
            classes[key] = each
        self._count += len(classes)
        return Built({"classes": classes}, places) if not todo else None

    def _opened(self, member: Member) -> list[Member] | None:
        """Return the classes inside a class as classes beside it, or note why they cannot be."""
        settings = member.settings
        statement = settings.statements["child"]
        if settings.police is not None or settings.drop is not None:
            self._account.not_modelled(statement, "its class polices all of its packets")
            return None
        try:
            inner = self._maps.within(member.rules, self._maps.members(str(settings.child)))
        except TooManyRulesError as error:
            self._account.not_modelled(statement, str(error))
            return None
        return [
            replace(each, name=member.name if each.name == DEFAULT_CLASS else each.name)
            for each in inner
        ]


def _in_bytes(queue: dict[str, Any], rate: int) -> None:
    """State the limit of a queue without a guarantee in bytes at `rate`, which the class gets."""
    found = re.fullmatch(r"(\d+) (ms|us)", str(queue.get("limit", "")))
    if found is not None:
        per_second = {"ms": 10**3, "us": 10**6}[found[2]]
        queue["limit"] = format_size(max(int(found[1]) * rate // 8 // per_second, 1500))


def _unshaped(settings: Settings) -> Settings:
    """Return the settings of the only class of a policy without its shaper and its share."""
    statements = {
        key: each
        for key, each in settings.statements.items()
        if key not in ("shape", "bandwidth", "remaining")
    }
    return replace(
        settings, shape=None, bandwidth=None, remaining=None, ratio=None, statements=statements
    )


def reduced(settings: Settings, rate: int, most: int, strict: int) -> Settings:
    """Return settings whose priority rates are `most` of `strict` of what they are at a rate."""
    police, priority = settings.police, settings.priority
    if not settings.level:
        return settings
    if priority is not None:
        priority = Rate(max(priority.of(rate) * most // strict, 1))
    if police is not None and police.rate is not None:
        bits = max(police.rate.of(rate) * most // strict, 1)
        police = replace(police, rate=Rate(bits))
    return replace(settings, police=police, priority=priority)
