"""The model of a reservation: its terms, its packets, and its states."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

Direction = Literal["forward", "reverse", "both"]
"""Direction of packets: from source to destination, from destination to source, or both."""

Protocol = Literal["tcp", "udp", "icmp"]
"""A transport protocol, as a selector names it."""


class State(StrEnum):
    """State of a reservation. `held` comes before `planned`; the last three are final."""

    HELD = "held"
    PLANNED = "planned"
    ACTIVE = "active"
    FINISHED = "finished"
    CANCELLED = "cancelled"
    FAILED = "failed"

    @property
    def is_live(self) -> bool:
        """True if it takes bandwidth in the calendar."""
        return self in LIVE


LIVE = frozenset({State.HELD, State.PLANNED, State.ACTIVE})
"""The states in which a reservation takes up room."""


@dataclass(frozen=True, slots=True)
class Selector:
    """Filter of packets between two hosts; a field that is None matches every packet.

    Attributes:
        protocol: The transport protocol.
        source_ports: First and last port at the source.
        destination_ports: First and last port at the destination.
        dscp: The code point, 0 to 63 (RFC 2474).
    """

    protocol: Protocol | None = None
    source_ports: tuple[int, int] | None = None
    destination_ports: tuple[int, int] | None = None
    dscp: int | None = None

    def overlaps(self, other: Selector) -> bool:
        """Return whether a packet can match both."""
        if None not in (self.protocol, other.protocol) and self.protocol != other.protocol:
            return False
        if None not in (self.dscp, other.dscp) and self.dscp != other.dscp:
            return False
        return _meet(self.source_ports, other.source_ports) and _meet(
            self.destination_ports, other.destination_ports
        )

    def reversed(self) -> Selector:
        """The packets the other way: what was at the source is at the destination."""
        return Selector(self.protocol, self.destination_ports, self.source_ports, self.dscp)

    def __str__(self) -> str:
        parts: list[str] = [self.protocol or "any protocol"]
        for name, ports in (("from", self.source_ports), ("to", self.destination_ports)):
            if ports is not None:
                low, high = ports
                parts.append(f"{name} port {low}" + (f"-{high}" if high > low else ""))
        if self.dscp is not None:
            parts.append(f"DSCP {self.dscp}")
        return ", ".join(parts)


def _meet(one: tuple[int, int] | None, other: tuple[int, int] | None) -> bool:
    return one is None or other is None or (one[0] <= other[1] and other[0] <= one[1])


@dataclass(frozen=True, slots=True)
class Terms:
    """Requested terms of a reservation.

    Attributes:
        source: The host that packets come from.
        destination: The host that they go to.
        rate: Bits per second.
        start: Start, in seconds since 1970, UTC.
        end: The first second in which it is over.
        burst: Greatest burst, in bytes.
        direction: Direction.
        selector: Selector of packets between the two.
        class_: The class of service on each link, or None for the links as a whole.
        purpose: Purpose.
    """

    source: str
    destination: str
    rate: int
    start: int
    end: int
    burst: int
    direction: Direction = "forward"
    selector: Selector = Selector()
    class_: str | None = None
    purpose: str = ""

    @property
    def packets(self) -> list[tuple[str, str, Selector]]:
        """The packets in each direction: source, destination and selector."""
        forward = (self.source, self.destination, self.selector)
        reverse = (self.destination, self.source, self.selector.reversed())
        match self.direction:
            case "forward":
                return [forward]
            case "reverse":
                return [reverse]
            case "both":
                return [forward, reverse]


@dataclass(frozen=True, slots=True)
class Wishes:
    """Constraints of the path.

    Attributes:
        avoid_nodes: Nodes that it must not touch.
        avoid_links: Links that it must not use, as ``r1>r2``.
        via: Nodes that it must touch, in any order.
        max_hops: Greatest number of links.
        max_delay: Greatest delay, in nanoseconds.
    """

    avoid_nodes: tuple[str, ...] = ()
    avoid_links: tuple[str, ...] = ()
    via: tuple[str, ...] = ()
    max_hops: int | None = None
    max_delay: int | None = None


@dataclass(frozen=True, slots=True)
class Reservation:
    """A reservation as it is on file.

    Attributes:
        id: Its number.
        owner: The number of the user whose it is.
        owner_name: That user's name.
        terms: Granted terms.
        path: The links, each with its direction, as ``r1>r2``.
        state: State.
        hold_until: Until when it is held, while it is.
        version: Number of times that its terms have been set; from 1.
        created: Time of its creation.
        pending: Terms that are being put in place of those in force, or None.
        trouble: Problem of its enforcement, or "".
        started: Time at which its rules were found in place, or None.
    """

    id: int
    owner: int
    owner_name: str
    terms: Terms
    path: tuple[str, ...]
    state: State
    hold_until: int | None
    version: int
    created: int
    pending: Terms | None = None
    trouble: str = ""
    started: int | None = None


@dataclass(frozen=True, slots=True)
class LogEntry:
    """Something that happened to a reservation. The log only ever grows.

    Attributes:
        id: Its number; entries are in order of it.
        reservation: The number of the reservation.
        at: Time, in seconds since 1970.
        author: Author: a user's name, or ``perhop``.
        action: Action, such as ``book`` or ``change``.
        state: The reservation's state from then on.
        reason: Why.
        detail: Changes, by name: the old value and the new one.
    """

    id: int
    reservation: int
    at: int
    author: str
    action: str
    state: State
    reason: str
    detail: Mapping[str, object] = field(default_factory=dict)
