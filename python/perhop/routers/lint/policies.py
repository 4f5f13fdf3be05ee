"""Policies of attachments, with the rates of their classes, as rules look at them."""

from __future__ import annotations

import re
from collections import Counter
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from perhop.routers.lint.invalid import valid
from perhop.routers.lint.packets import (
    EVERYTHING,
    Box,
    Budget,
    TooComplexError,
    code_points,
    packets_of,
    protocols,
)
from perhop.scenario import Match
from perhop.scenario.model.classes import Class, LinkShape, Policy
from perhop.scenario.model.dscp import DSCP_NAMES
from perhop.scenario.resolve.shares import guarantee, rest
from perhop.units import quote

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from ipaddress import IPv4Address, IPv6Address

    from perhop.routers.lint.findings import Finding
    from perhop.routers.reading import Attachment, Configuration, Loc, Place, Source
    from perhop.scenario.model.network import Bandwidth

_QUEUE_SETTINGS: Final = ("queue-limit", "qdisc", "buffer-size", "total buffer")
"""The names of defaults of readers for the limit of a queue."""

_WORD: Final = re.compile(r"[^\s;{}\"]+")

EXPEDITED: Final = frozenset({46, 44})
"""The code points of telephony: EF (RFC 3246) and VOICE-ADMIT (RFC 5865)."""

SIGNALLING: Final = frozenset(DSCP_NAMES[name] for name in ("cs3", "cs5", "af31"))
"""Code points of the signalling of calls: CS5 in RFC 4594; in Cisco's guides CS3, earlier AF31."""


@dataclass(frozen=True, eq=False)
class JudgedClass:
    """A class of a policy.

    Attributes:
        loc: Its path in the policy of the attachment.
        name: Its name, with those of the classes around it: ``parent/voice``.
        class_: The class.
        policy: The policy that it belongs to.
        match: Its match in the form of scenarios.
        mark: The code point that its packets get; None if they keep theirs.
        capacity: The bandwidth that its policy divides, in bit/s; None if unknown.
        reach: The rate that it can have if no other class sends, in bit/s; None if unknown.
        attached: The policy at the interface.
        siblings: The classes of its policy, with those after it once all are known.
        number: Its number among them.
    """

    loc: Loc
    name: str
    class_: Class
    policy: Policy
    match: Any
    mark: int | None
    capacity: int | None
    reach: int | None
    attached: AttachedPolicy = field(repr=False)
    siblings: Sequence[JudgedClass] = field(repr=False)
    number: int

    @property
    def earlier(self) -> Iterator[JudgedClass]:
        """The classes before it in its policy."""
        return islice(self.siblings, self.number)

    @property
    def class_name(self) -> str:
        """Its name in its policy."""
        return str(self.loc[-1])

    @property
    def strict(self) -> bool:
        """True if it is served before other classes."""
        return self.policy.strict(self.class_)

    @property
    def is_default(self) -> bool:
        """True if it takes the packets that no other class matches."""
        return bool(self.match == "any")

    @property
    def polices(self) -> bool:
        """True if it has a policer that drops packets."""
        police = self.class_.police
        if police is None:
            return False
        actions = police.actions if police.three_colours else police.actions[:2]
        return any(action.drops for action in actions)

    @property
    def discards(self) -> bool:
        """True if it drops every packet on purpose, as readers write `drop` and `discard`."""
        return self.class_.discards

    @property
    def is_unclassified(self) -> bool:
        """True if it has the packets that no filter of Linux leads to a class."""
        return self.is_default and (self.place(), "default") in self.attached.defaults

    @property
    def guaranteed_or_rest(self) -> int | None:
        """Its guarantee, or its equal part of what the others leave, in bit/s; None if unknown."""
        if self.strict or self.has_share or self.capacity is None:
            return self.guaranteed
        return max(rest(self.policy, self.capacity), self.guaranteed or 0)

    @property
    def has_share(self) -> bool:
        """True if it has a bandwidth, or a curve of link sharing."""
        return self.class_.bandwidth is not None or self.class_.linkshare is not None

    @property
    def is_leaf(self) -> bool:
        """True if it has a queue, and no classes."""
        return self.class_.classes is None and self.class_.policy is None

    @property
    def ceilings(self) -> list[Bandwidth]:
        """Its limit, and the rate of its shaper."""
        shape = self.class_.shape
        found = (self.class_.limit, shape.rate if shape is not None else None)
        return [limit for limit in found if limit is not None]

    @property
    def ceiling(self) -> int | None:
        """The least of its limits, in bit/s; None without one, or if unknown.

        A guarantee in real time goes before an upper limit.
        """
        known = [self.of(limit) for limit in self.ceilings]
        curves = [each for each in (self.class_.upperlimit, self.class_.realtime) if each]
        if self.class_.upperlimit is not None:
            known.append(max(self.of(curve.last) or 0 for curve in curves) or None)
        return min((rate for rate in known if rate is not None), default=None)

    @property
    def guaranteed(self) -> int | None:
        """The bandwidth that the configuration guarantees it, in bit/s; None without, or unknown.

        For a strict class, it is the rate of its policer. With service curves, it is the larger of
        its share and its guarantee in real time, in the long run.
        """
        curve = self.class_.realtime
        known = (self.share, None if curve is None else self.of(curve.last))
        return max((rate for rate in known if rate is not None), default=None)

    @property
    def share(self) -> int | None:
        """Its part of the bandwidth that classes share, in bit/s; None without, or unknown."""
        bandwidth = guarantee(self.policy, self.class_)
        return None if bandwidth is None else self.of(bandwidth)

    def of(self, bandwidth: Bandwidth) -> int | None:
        """Return a bandwidth in bit/s; None for a share of an unknown rate."""
        if bandwidth.rate is not None:
            return bandwidth.rate
        return None if self.capacity is None else bandwidth.of(self.capacity)

    @cached_property
    def packets(self) -> list[Box] | None:
        """The packets that its match selects; None if they are not known exactly."""
        inexact = self.attached.inexact
        if self.match != "any" and (inexact is None or self.place() in inexact):
            return None
        try:
            return packets_of(self.match, self.attached.addresses, Budget())
        except TooComplexError:
            return None

    @cached_property
    def code_points(self) -> frozenset[int]:
        """The code points that its match names; none if it does not look at them."""
        points = code_points(self.packets or [])
        return points if len(points) < 64 else frozenset()

    @cached_property
    def named_code_points(self) -> frozenset[int]:
        """The code points that conditions of its match name, perhaps beside other conditions."""
        elements = self.match if isinstance(self.match, list) else [self.match]
        conditions = [each for each in elements if isinstance(each, dict) and "except" not in each]
        return frozenset(
            point for each in conditions for point in Match.model_validate(each).dscp or ()
        )

    @cached_property
    def protocols(self) -> frozenset[int]:
        """The IP protocols that its match permits, even if its packets are not known exactly."""
        try:
            return protocols(packets_of(self.match, self.attached.addresses, Budget()))
        except TooComplexError:
            return protocols([EVERYTHING])

    @property
    def is_voice(self) -> bool:
        """True if it is for telephony: strict beside others, or for its code points only."""
        by_order = self.attached.is_order(self.policy)
        return (self.strict and not by_order) or (
            bool(self.code_points) and self.code_points <= EXPEDITED
        )

    @property
    def is_signalling(self) -> bool:
        """True if it is for the signalling of calls, which waits and is sent again without harm."""
        return bool(self.code_points) and self.code_points <= SIGNALLING

    @property
    def has_default_queue(self) -> bool:
        """True if the platform chose the limit of its queue."""
        places = {self.place(), self.place("queue"), self.place("queue", "limit")}
        given = {(place, setting) for place in places for setting in _QUEUE_SETTINGS}
        return not given.isdisjoint(self.attached.defaults)

    def place(self, *keys: str | int) -> Place:
        """Return the line of a value in the class, or of the class."""
        return self.attached.attachment.place((*self.loc, *keys))

    def __str__(self) -> str:
        """Return the name for messages, with that of the policy."""
        return f"class {quote(self.name)} of policy {quote(self.attached.attachment.name)}"


@dataclass(frozen=True, eq=False)
class AttachedPolicy:
    """A policy at an interface.

    Attributes:
        attachment: The policy as it was read.
        family: The family of the configuration, such as ``ios``.
        platform_limit: The share of an interface that can be guaranteed, in parts per billion;
            None for the whole.
        policy: The policy; its classes are only those outermost.
        raw: The policy as mappings, without invalid values.
        addresses: The addresses of nodes that matches name.
        inexact: Lines of classes whose packets are not known exactly; None if all may be.
        defaults: Lines to which the platform added values.
        referenced: True if the files name the policy more often than once.
        invalid: Values that were removed.
    """

    attachment: Attachment
    family: str
    platform_limit: int | None
    policy: Policy
    raw: dict[str, Any]
    addresses: Mapping[str, Sequence[IPv4Address | IPv6Address]]
    inexact: frozenset[Place] | None
    defaults: frozenset[tuple[Place, str]]
    referenced: bool
    invalid: tuple[Finding, ...]

    @property
    def is_output(self) -> bool:
        """True if it applies to the packets that the interface sends."""
        return self.attachment.direction == "out"

    @cached_property
    def shape(self) -> LinkShape | None:
        """The shaper of everything that the interface sends."""
        given = self.attachment.shape
        try:
            return None if given is None else LinkShape.model_validate(given)
        except ValidationError:
            return None

    @cached_property
    def capacity(self) -> int | None:
        """The bandwidth that the policy divides, in bit/s; None if unknown."""
        capacity = self.attachment.rate
        if self.shape is not None:
            # Even above the interface's rate, so that such a shaper is one finding, not several.
            given = self.shape.rate
            shaped = given.rate if capacity is None else given.of(capacity)
            capacity = capacity if shaped is None else shaped
        root = self.policy.cbq.rate if self.policy.cbq is not None else None
        return capacity if root is None else root

    @cached_property
    def classes(self) -> tuple[JudgedClass, ...]:
        """Its classes, each before the classes in it."""
        top = self.policy, self.raw, self.capacity, self.capacity
        return tuple(self._classes((), "", *top))

    @cached_property
    def levels(self) -> list[tuple[JudgedClass | None, tuple[JudgedClass, ...]]]:
        """The classes that divide one bandwidth, with the class around them."""
        by_loc = {judged.loc: judged for judged in self.classes}
        groups: dict[Loc, list[JudgedClass]] = {}
        for judged in self.classes:
            groups.setdefault(judged.loc[:-2], []).append(judged)
        return [(by_loc.get(loc), tuple(group)) for loc, group in groups.items()]

    def is_order(self, policy: Policy) -> bool:
        """Return whether strict priority is a mere order: three or more classes, all but the last.

        Args:
            policy: This policy, or one inside a class.
        """
        if id(policy) not in self._orders:
            strict = sum(map(policy.strict, policy.classes.values()))
            self._orders[id(policy)] = strict >= max(len(policy.classes) - 1, 2)
        return self._orders[id(policy)]

    @cached_property
    def _orders(self) -> dict[int, bool]:
        return {}

    @property
    def place(self) -> Place:
        """The line of the policy."""
        return self.attachment.place(())

    @property
    def where(self) -> str:
        """The interface and direction, for messages."""
        interface = self.attachment.interface
        if not interface:
            return f"policy {quote(self.attachment.name)}"
        into = "output" if self.is_output else "input"
        return f"the {into} of {quote(interface)}"

    def _classes(
        self,
        loc: Loc,
        prefix: str,
        policy: Policy,
        raw: dict[str, Any],
        capacity: int | None,
        reach: int | None,
    ) -> Iterator[JudgedClass]:
        siblings: list[JudgedClass] = []
        for name, class_ in policy.classes.items():
            given = raw["classes"][name]
            here: Loc = (*loc, "classes", name)
            judged = JudgedClass(
                here,
                f"{prefix}{name}",
                class_,
                policy,
                given["match"],
                getattr(class_, "dscp_mark", None),
                capacity,
                reach,
                self,
                siblings,
                len(siblings),
            )
            ceilings = (judged.ceiling, None if class_.borrow else judged.guaranteed)
            most = min((rate for rate in (reach, *ceilings) if rate is not None), default=None)
            judged = replace(judged, reach=most)
            yield judged
            siblings.append(judged)
            inside = policy.inside(class_)
            if inside is not None:
                divided = judged.ceiling or judged.guaranteed or capacity
                yield from self._classes(here, f"{prefix}{name}/", inside, given, divided, most)


def attached_policies(
    configuration: Configuration,
    *,
    platform_limit: int | None = None,
    addresses: Mapping[str, Sequence[IPv4Address | IPv6Address]] | None = None,
    inexact: frozenset[Place] | None = frozenset(),
    texts: Sequence[Source] = (),
) -> Iterator[AttachedPolicy]:
    """Yield the policies of a configuration, without the values that have no meaning.

    Args:
        configuration: The configuration.
        platform_limit: The share of an interface that can be guaranteed; None for the whole.
        addresses: The addresses of nodes that matches name.
        inexact: Lines of classes whose packets are not known exactly; None if all may be.
        texts: The files of the configuration.
    """
    defaults = frozenset((each.place, each.setting) for each in configuration.defaults)
    words = Counter(word for text in texts for word in _WORD.findall(text.text))
    for attachment in configuration.attachments:
        raw = deepcopy(attachment.policy)
        invalid: list[Finding] = []
        policy = valid(attachment, raw, invalid)
        yield AttachedPolicy(
            attachment=attachment,
            family=configuration.family,
            platform_limit=platform_limit,
            policy=policy,
            raw=raw,
            addresses=addresses or {},
            inexact=inexact,
            defaults=defaults,
            referenced=words[attachment.name] > 1,
            invalid=tuple(invalid),
        )
