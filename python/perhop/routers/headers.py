"""A header for each class of a policy: one that this class matches, and no class before it.

A match is a list of boxes: products of sets of values, one for each property of a packet. The
search takes the box of a class, and removes the boxes of earlier classes one after another: of each
it removes the values of one property, and takes the next property where nothing would be left.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_network
from typing import TYPE_CHECKING, Any, Final

from perhop.ranges import common, difference, joined
from perhop.scenario import EPHEMERAL_PORTS, parse_dscp
from perhop.scenario.resolve.packets import addresses_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from perhop.ranges import Ranges
    from perhop.scenario.model.names import IpVersion

MAX_STEPS: Final = 100_000
"""The most boxes that the search for all headers of a policy compares."""

PROTOCOLS: Final = ("tcp", "udp", "icmp")

DSCP, PORT, DESTINATION, SOURCE, PROTOCOL, SOURCE_PORT, LINK_CLASS = range(7)
"""The properties of packets, in the order in which the search tries to remove values of them."""

Box = tuple["Ranges", ...]
"""A set of packets: the values of each property."""

_V6: Final = 2**32
"""The number of the first IPv6 address; those of IPv4 come before."""

_ADDRESSES: Final = {4: ((0, _V6 - 1),), 6: ((_V6, _V6 + 2**128 - 1),)}
_EVERY_ADDRESS: Final = joined((*_ADDRESSES[4], *_ADDRESSES[6]))

_ALL: Final[Box] = (
    ((0, 63),),
    ((1, 65535),),
    _EVERY_ADDRESS,
    _EVERY_ADDRESS,
    ((0, 255),),
    ((1, 65535),),
    ((0, 16),),
)

LINK_CLASSES: Final[dict[str, tuple[int, int]]] = {"pcp": (0, 7), "mpls_tc": (8, 15)}
"""Priority code points and traffic classes of MPLS labels in a box; 16 is a packet without both."""

_UNICAST: Final = (
    ((0x01000001, 0x7EFFFFFE), (0x80000001, 0xDFFFFFFE)),
    tuple(addresses_of(IPv6Network(each)) for each in ("2000::/3", "fc00::/7")),
)
"""Addresses of hosts: from 1.0.0.1 to 126.255.255.254, and from 128.0.0.1 to 223.255.255.254; of
IPv6 global and unique local unicast (RFC 4291, RFC 4193)."""

_SENT: Final[tuple[Box, ...]] = tuple(
    (
        ((0, 63),),
        ((1, 65535),),
        unicast,
        unicast,
        ((0, len(PROTOCOLS) - 1),),
        (EPHEMERAL_PORTS,),
        ((16, 16),),
    )
    for unicast in _UNICAST
)
"""The packets of flows and pings over IPv4, and over IPv6, whose hosts choose source ports; any of
them may come."""

ClassPath = tuple[str, ...]
"""The name of a class, after those of the classes that contain it."""


@dataclass(frozen=True, slots=True)
class Headers:
    """The headers of packets of a class: every combination of these values.

    Attributes:
        box: The values of each property.
    """

    box: Box

    def allows(self, index: int, value: int) -> bool:
        """Return whether packets of the class may have `value` of a property."""
        return any(low <= value <= high for low, high in self.box[index])

    def first(self, index: int, preferred: Iterable[int] = ()) -> int:
        """Return the first preferred value of a property that the class has, or its lowest."""
        values = (value for value in preferred if self.allows(index, value))
        return next(values, self.box[index][0][0])

    def with_values(self, index: int, values: Ranges) -> Headers:
        """Return the headers with other values of a property."""
        return Headers((*self.box[:index], values, *self.box[index + 1 :]))

    @property
    def protocols(self) -> list[str]:
        """The protocols of these packets."""
        return [name for code, name in enumerate(PROTOCOLS) if self.allows(PROTOCOL, code)]

    @property
    def version(self) -> IpVersion:
        """The version of the internet protocol of these packets."""
        return 4 if self.box[SOURCE][0][0] < _V6 else 6

    def address(
        self, index: int, preferred: Iterable[IPv4Address | IPv6Address]
    ) -> IPv4Address | IPv6Address:
        """Return a preferred address, or the second lowest: the lowest is often a network's own."""
        second = self.box[index][0][0] + 1
        number = self.first(index, [*map(number_of, preferred), second])
        return IPv4Address(number) if number < _V6 else IPv6Address(number - _V6)


def number_of(address: IPv4Address | IPv6Address) -> int:
    """Return the number of an address in a box."""
    return int(address) + (_V6 if address.version == 6 else 0)


@dataclass(frozen=True, slots=True)
class _Rule:
    """A rule of a match: packets in `box` match it, or are excluded."""

    permit: bool
    box: Box


@dataclass(frozen=True, slots=True)
class Shared:
    """Packets of a class of one policy that belong to a class of another one.

    Attributes:
        old: The class of the first policy.
        new: The class of the second policy.
        headers: Headers of such packets.
    """

    old: ClassPath
    new: ClassPath
    headers: Headers


def headers(policy: Mapping[str, Any]) -> dict[ClassPath, Headers | None]:
    """Return the headers of each class with a queue: of all classes without classes inside.

    Args:
        policy: A policy as scenarios state it.

    Returns:
        The headers by class, with all source ports that hosts choose if the class matches those;
        None if no flow or ping can send such packets, because earlier classes match them all. So
        does a class whose search takes more than its part of `MAX_STEPS`. Headers are of IPv6 only
        if no packet of IPv4 belongs to the class.
    """
    leaves = list(_leaves(policy, (), [], []))
    key = link_class(policy)
    each = max(MAX_STEPS // max(len(leaves), 1), 1000)
    return {path: _search(wanted, taken, _Budget(each), key) for path, wanted, taken in leaves}


def shared(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Shared]:
    """Yield headers for the classes of two policies that have packets in common.

    Pairs of classes that are searched after more than `MAX_STEPS` steps are left out; those of
    equal names come first.
    """
    pairs = [(a, b) for a in _leaves(old, (), [], []) for b in _leaves(new, (), [], [])]
    budget, key = _Budget(MAX_STEPS), link_class(old) or link_class(new)
    for (a, *of_old), (b, *of_new) in sorted(pairs, key=lambda pair: pair[0][0] != pair[1][0]):
        wanted, taken = ([*one, *two] for one, two in zip(of_old, of_new, strict=True))
        found = _search(wanted, taken, budget, key)
        if found is not None:
            yield Shared(a, b, found)


def unreachable(policy: Mapping[str, Any], path: ClassPath) -> str:
    """Return why `headers` has no packet for a class, in words.

    Args:
        policy: A policy as scenarios state it.
        path: A class without classes inside.
    """
    wanted, taken = next(found for leaf, *found in _leaves(policy, (), [], []) if leaf == path)
    if not all(any(rule.permit for rule in match) for match in wanted):
        return "its conditions exclude each other"
    budget, key = _Budget(MAX_STEPS), link_class(policy)
    if _search(wanted, taken, budget, key) is not None or not budget.spend():
        return "the search for its packets takes too long"
    if _search(wanted, [], _Budget(MAX_STEPS), key) is None:
        return "no host can send the packets that it matches"
    return "earlier classes take all packets that it matches"


def ipv6_prefixes(class_: Mapping[str, Any]) -> list[str]:
    """Return the IPv6 prefixes that the match of a class permits."""
    match = class_.get("match", "any")
    return [
        str(prefix)
        for element in _listed(match)
        if isinstance(element, dict)
        for key in ("source", "destination")
        for prefix in _listed(element.get(key, []))
        if ":" in str(prefix)
    ]


def link_class(policy: Mapping[str, Any]) -> str | None:
    """Return the key of the classes at layer 2 that a policy matches: ``pcp`` before ``mpls_tc``.

    Its packets arrive with these; None if no class matches any.
    """
    todo, found = [policy], set[str]()
    while todo:
        for class_ in todo.pop()["classes"].values():
            todo += [class_] if "classes" in class_ else []
            for element in _listed(class_.get("match", "any")):
                conditions = element.get("except", element) if isinstance(element, dict) else {}
                found |= {*conditions} & {*LINK_CLASSES} if isinstance(conditions, dict) else set()
    return next((key for key in LINK_CLASSES if key in found), None)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


class _Budget:
    """The number of steps that a search may still take."""

    def __init__(self, steps: int) -> None:
        self._left = steps

    def spend(self) -> bool:
        """Take a step, if there is one left."""
        self._left -= 1
        return self._left >= 0


_Match = list[_Rule]


def _leaves(
    policy: Mapping[str, Any], path: ClassPath, wanted: list[_Match], taken: list[_Match]
) -> Iterator[tuple[ClassPath, list[_Match], list[_Match]]]:
    """Yield each class without classes inside, the matches it needs, and those to be avoided."""
    earlier = list(taken)
    for name, class_ in policy["classes"].items():
        match = list(_rules(class_.get("match", "any")))
        inner = (*path, name)
        if "classes" in class_:
            yield from _leaves(class_, inner, [*wanted, match], earlier)
        else:
            yield inner, [*wanted, match], list(earlier)
        earlier.append(match)


def _rules(match: Any) -> Iterator[_Rule]:
    """Yield the rules of a match."""
    for element in _listed(match):
        excludes = isinstance(element, dict) and "except" in element
        conditions = element["except"] if excludes else element
        yield from (_Rule(not excludes, box) for box in _boxes(conditions))


def _boxes(conditions: Any) -> Iterator[Box]:
    """Yield the boxes of the packets that meet some conditions."""
    if conditions == "any":
        yield _ALL
        return
    box = list(_ALL)
    either: Ranges | None = None
    for key, value in conditions.items():
        values = _listed(value)
        match key:
            case "dscp":
                box[DSCP] = joined((code, code) for code in map(_dscp, values))
            case "protocol":
                codes = [PROTOCOLS.index(each) for each in values]
                box[PROTOCOL] = common(box[PROTOCOL], joined((code, code) for code in codes))
            case "source" | "destination":
                index = SOURCE if key == "source" else DESTINATION
                prefixes = joined(addresses_of(ip_network(str(prefix))) for prefix in values)
                box[index] = common(box[index], prefixes)
            case "pcp" | "mpls_tc":
                first = LINK_CLASSES[key][0]
                codes_ = joined((first + each, first + each) for each in values)
                box[LINK_CLASS] = common(box[LINK_CLASS], codes_)
            case "ip":
                of_versions = joined(each for ip in values for each in _ADDRESSES[ip])
                for index in (SOURCE, DESTINATION):
                    box[index] = common(box[index], of_versions)
            case "port" | "source_port" | "destination_port":
                box[PROTOCOL] = common(box[PROTOCOL], ((0, 1),))
                ports = joined(map(_ports, values))
                if key == "port":
                    either = ports
                else:
                    box[SOURCE_PORT if key == "source_port" else PORT] = ports
    for index in (PORT,) if either is None else (PORT, SOURCE_PORT):
        whole = [*box]
        if either is not None:
            whole[index] = common(box[index], either)
        if all(whole):
            yield tuple(whole)


def _dscp(value: Any) -> int:
    return value if isinstance(value, int) else parse_dscp(str(value))


def _ports(value: Any) -> tuple[int, int]:
    low, _, high = str(value).partition("-")
    return int(low), int(high or low)


# The search


def _search(
    wanted: list[_Match], taken: list[_Match], budget: _Budget, key: str | None = None
) -> Headers | None:
    """Return packets that every match in `wanted` has and none in `taken`.

    With a key of `LINK_CLASSES` they arrive with the class that follows from their DSCP, if some
    match looks at it. They are of IPv4 if possible. If possible, all source ports that hosts choose
    are among theirs.
    """
    boxes = [rule.box for match in (*wanted, *taken) for rule in match]

    def decides(index: int) -> bool:
        return any(box[index] != _ALL[index] for box in boxes)

    by_version = decides(SOURCE) or decides(DESTINATION)
    sent_boxes = _SENT if by_version else _SENT[:1]
    if key is not None and decides(LINK_CLASS):
        sent_boxes = tuple(each for sent in sent_boxes for each in _tagged(sent, key))
    for sent in sent_boxes:
        found = _search_in(sent, wanted, taken, budget, divide=False)
        if found is None and decides(SOURCE_PORT):
            # Also packets of flows with a source port.
            every = (*sent[:SOURCE_PORT], _ALL[SOURCE_PORT], *sent[LINK_CLASS:])
            found = _search_in(every, wanted, taken, budget, divide=True)
        if found is not None:
            return found
    return None


def _tagged(sent: Box, key: str) -> Iterator[Box]:
    """Yield packets that are sent, by the class at layer 2 that is the begin of their DSCP."""
    first = LINK_CLASSES[key][0]
    for code in range(8):
        yield (
            ((8 * code, 8 * code + 7),),
            *sent[1:LINK_CLASS],
            ((first + code, first + code),),
        )


def _search_in(
    sent: Box, wanted: list[_Match], taken: list[_Match], budget: _Budget, *, divide: bool
) -> Headers | None:
    """Return packets of `sent` that every match in `wanted` has and none in `taken`.

    They have all source ports of `sent`, unless these are to be divided.
    """
    forbidden = [
        (rule.box, [other.box for other in match[:place] if not other.permit])
        for match in taken
        for place, rule in enumerate(match)
        if rule.permit
    ]
    # Each state is a box, and the number of constraints that it meets.
    for start, more in _starts(wanted, sent, divide=divide):
        constraints = [*((box, []) for box in more), *forbidden]
        states = [(start, 0)]
        while states:
            box, place = states.pop()
            while place < len(constraints) and not _meet(box, constraints[place][0]):
                place += 1
                if not budget.spend():
                    return None
            if place == len(constraints):
                return Headers(box)
            if not budget.spend():
                return None
            avoided, unless = constraints[place]
            choices = [*_without(box, avoided, divide=divide), *_within(box, unless, divide=divide)]
            states += ((choice, place + 1) for choice in reversed(choices))
    return None


def _starts(wanted: Sequence[_Match], box: Box, *, divide: bool) -> Iterator[tuple[Box, list[Box]]]:
    """Yield boxes of packets of all matches, each with the boxes that it must avoid."""
    if not wanted:
        yield box, []
        return
    match, *others = wanted
    for place, rule in enumerate(match):
        inner = _intersection(box, rule.box, divide=divide)
        if rule.permit and inner is not None:
            excluded = [other.box for other in match[:place] if not other.permit]
            for found, avoided in _starts(others, inner, divide=divide):
                yield found, [*excluded, *avoided]


def _intersection(box: Box, other: Box, *, divide: bool) -> Box | None:
    """Return the packets of both boxes; None if there are none, or only some source ports."""
    both = tuple(map(common, box, other))
    if not divide and both[SOURCE_PORT] != box[SOURCE_PORT]:
        return None
    return both if all(both) else None


def _meet(box: Box, other: Box) -> bool:
    return all(map(common, box, other))


def _without(box: Box, other: Box, *, divide: bool) -> Iterator[Box]:
    """Yield boxes without the packets of `other`: without its values of one property each."""
    ports = (SOURCE_PORT,) if divide else ()
    for index in (DSCP, PORT, DESTINATION, SOURCE, PROTOCOL, LINK_CLASS, *ports):
        left = difference(box[index], other[index])
        if left:
            yield (*box[:index], left, *box[index + 1 :])


def _within(box: Box, others: Iterable[Box], *, divide: bool) -> Iterator[Box]:
    found = (_intersection(box, other, divide=divide) for other in others)
    return (inner for inner in found if inner is not None)
