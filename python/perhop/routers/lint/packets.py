"""Sets of packets, and whether some of them contain another.

A set is a union of boxes. A box has one set of numbers for each property of a packet. The
difference of two boxes is a few boxes, so that coverage by several earlier classes is exact. Some
boxes contain packets that do not exist, such as a source of IPv4 and a destination of IPv6. They
can only hide that a set is covered.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_network
from typing import TYPE_CHECKING, Any, Final

from perhop.ranges import Ranges, difference, joined
from perhop.ranges import common as common_numbers
from perhop.scenario import Match
from perhop.scenario.model.names import EVERY_ADDRESS
from perhop.scenario.resolve.packets import addresses_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from ipaddress import IPv4Address, IPv6Address

    Address = IPv4Address | IPv6Address

Box = tuple[Ranges, Ranges, Ranges, Ranges, Ranges, Ranges, Ranges]
"""Code points, protocols, source and destination ports, source and destination addresses, and
classes at layer 2."""

_PROTOCOLS: Final = {"icmp": 1, "tcp": 6, "udp": 17}
_REAL_PORTS: Final = ((1, 65535),)
_NO_PORT: Final = ((0, 0),)
_PORTS: Final = ((0, 65535),)
_ADDRESSES: Final = ((0, 2**32 + 2**128 - 1),)
_LINK_CLASSES: Final = {"pcp": 0, "mpls_tc": 8}
"""The first number of each kind of classes at layer 2."""

EVERYTHING: Final[Box] = (
    *(((0, 63),), ((0, 255),), _PORTS, _PORTS, _ADDRESSES, _ADDRESSES),
    ((0, 16),),
)
"""All packets. Those of protocols without ports have port 0. IPv6 addresses follow those of
IPv4. Packets with neither tag nor label have class 16 at layer 2."""

MAX_STEPS: Final = 500_000
"""The differences of boxes that all questions of a command may take."""


class TooComplexError(Exception):
    """A question that takes more than `MAX_STEPS`, or is about a node without an address."""


@dataclass(slots=True)
class Budget:
    """The steps that are left."""

    steps: int = MAX_STEPS

    def spend(self) -> None:
        """Take a step.

        Raises:
            TooComplexError: If none is left.
        """
        self.steps -= 1
        if self.steps < 0:
            raise TooComplexError


def packets_of(match: Any, addresses: Mapping[str, Sequence[Address]], budget: Budget) -> list[Box]:
    """Return the packets that a match in the form of scenarios selects, as disjoint boxes.

    Args:
        match: ``any``, conditions, or a list of these and of ``{except: conditions}``, of which the
            first that applies to a packet decides.
        addresses: The addresses of nodes by name.
        budget: The steps that the answer may take.

    Raises:
        TooComplexError: If the answer takes too many steps.
    """
    found: list[Box] = []
    decided: list[Box] = []
    for element in match if isinstance(match, (list, tuple)) else [match]:
        permits = not (isinstance(element, dict) and "except" in element)
        for box in _boxes(element if permits else element["except"], addresses):
            rest = without([box], decided, budget) if all(box) else []
            found += rest if permits else []
            decided += rest
    return found


def without(boxes: Iterable[Box], taken: Iterable[Box], budget: Budget) -> list[Box]:
    """Return the packets of `boxes` that are in none of `taken`.

    Raises:
        TooComplexError: If the answer takes too many steps.
    """
    left = list(boxes)
    for other in taken:
        if not left:
            break
        kept: list[Box] = []
        for box in left:
            budget.spend()
            kept += _difference(box, other)
        left = kept
    return left


def overlap(some: Iterable[Box], others: Iterable[Box]) -> bool:
    """Return whether two sets have a packet in common."""
    others = list(others)
    return any(common(box, other) is not None for box in some for other in others)


def common(box: Box, other: Box) -> Box | None:
    """Return the packets that are in both boxes; None without any."""
    shared: list[Ranges] = []
    for mine, theirs in zip(box, other, strict=True):
        if mine is theirs:
            shared.append(mine)
            continue
        if mine[-1][1] < theirs[0][0] or theirs[-1][1] < mine[0][0]:
            return None
        both = common_numbers(mine, theirs)
        if not both:
            return None
        shared.append(both)
    return tuple(shared)  # type: ignore[return-value]


def code_points(boxes: Iterable[Box]) -> frozenset[int]:
    """Return the code points of the packets of a set."""
    return frozenset(
        point for box in boxes for low, high in box[0] for point in range(low, high + 1)
    )


def protocols(boxes: Iterable[Box]) -> frozenset[int]:
    """Return the numbers of the IP protocols of the packets of a set."""
    return frozenset(
        number for box in boxes for low, high in box[1] for number in range(low, high + 1)
    )


def _boxes(conditions: Any, addresses: Mapping[str, Sequence[Address]]) -> Iterator[Box]:
    """Yield the packets that meet all of some conditions."""
    match = Match.model_validate({} if conditions == "any" else conditions)
    if match.is_any:
        yield EVERYTHING
        return
    dscps, numbers, sources, destinations, origins, goals, link_classes = EVERYTHING
    for key, first in _LINK_CLASSES.items():
        values = getattr(match, key)
        if values is not None:
            numbered = joined((first + each, first + each) for each in values)
            link_classes = common_numbers(link_classes, numbered)
    if match.dscp is not None:
        dscps = joined((point, point) for point in match.dscp)
    with_ports = (match.port, match.source_port, match.destination_port) != (None, None, None)
    if match.protocol is not None or with_ports:
        names = set(_PROTOCOLS if match.protocol is None else match.protocol)
        names -= {"icmp"} if with_ports else set()
        numbers = joined((_PROTOCOLS[name],) * 2 for name in names)
        if "icmp" not in names:
            sources = destinations = _REAL_PORTS
        elif names == {"icmp"}:
            sources = destinations = _NO_PORT
    if match.source_port is not None:
        sources = joined(match.source_port)
    if match.destination_port is not None:
        destinations = joined(match.destination_port)

    def known(ends: Iterable[Any]) -> Iterator[Any]:
        for end in ends:
            if isinstance(end, str) and end not in addresses:
                raise TooComplexError
            yield end

    def ranges(ends: Iterable[Any]) -> Ranges:
        return joined(
            addresses_of(prefix)
            for end in known(ends)
            for prefix in (map(ip_network, addresses[end]) if isinstance(end, str) else [end])
        )

    if match.source is not None:
        origins = ranges(match.source)
    if match.destination is not None:
        goals = ranges(match.destination)
    if match.ip is not None:
        versions = joined(addresses_of(EVERY_ADDRESS[ip]) for ip in match.ip)
        origins = common_numbers(origins, versions)
    if match.port is None:
        yield dscps, numbers, sources, destinations, origins, goals, link_classes
        return
    either = joined(match.port)
    ends = origins, goals, link_classes
    yield dscps, numbers, common_numbers(sources, either), destinations, *ends
    yield dscps, numbers, sources, common_numbers(destinations, either), *ends


def _difference(box: Box, other: Box) -> Iterator[Box]:
    """Yield the packets of `box` that are not in `other`."""
    both = common(box, other)
    if both is None:
        yield box
        return
    left = list(box)
    for index, shared in enumerate(both):
        rest = difference(left[index], shared)
        if rest:
            yield (*left[:index], rest, *left[index + 1 :])  # type: ignore[misc]
        left[index] = shared
