"""Messages about reservations and about the network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import ConfigDict, Field, model_validator

from perhop_services.common.messages.basics import (
    MAX_SECOND,
    BurstBytes,
    Message,
    Name,
    Number,
    PortNumber,
    RateBps,
    Second,
    Text,
)
from perhop_services.reservations.model import Direction, Protocol, Selector, State, Terms, Wishes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perhop import _core
    from perhop_services.reservations.admission import Free
    from perhop_services.reservations.model import LogEntry, Reservation
    from perhop_services.reservations.network import Network


class SelectorMessage(Message):
    """The packets between source and destination; a field that is not set matches every packet."""

    protocol: Protocol | None = None
    """tcp, udp or icmp."""
    source_ports: tuple[PortNumber, PortNumber] | None = Field(default=None, strict=False)
    """First and last port at the source."""
    destination_ports: tuple[PortNumber, PortNumber] | None = Field(default=None, strict=False)
    """First and last port at the destination."""
    dscp: Annotated[int, Field(ge=0, le=63)] | None = None
    """The code point."""

    @model_validator(mode="after")
    def _ordered(self) -> SelectorMessage:
        for ports in (self.source_ports, self.destination_ports):
            if ports is not None and ports[0] > ports[1]:
                raise ValueError(f"ports {ports[0]}-{ports[1]} end before they start")
        if self.protocol == "icmp" and (self.source_ports or self.destination_ports):
            raise ValueError("icmp has no ports")
        return self

    def selector(self) -> Selector:
        """Return the same values for the service."""
        return Selector(self.protocol, self.source_ports, self.destination_ports, self.dscp)

    @classmethod
    def of(cls, selector: Selector) -> SelectorMessage:
        """Return the same values for HTTP."""
        return cls._of(selector)


class WishesMessage(Message):
    """Conditions for the path."""

    avoid_nodes: Annotated[list[Name], Field(max_length=100)] = Field(default_factory=list)
    avoid_links: Annotated[list[Name], Field(max_length=100)] = Field(default_factory=list)
    via: Annotated[list[Name], Field(max_length=10)] = Field(default_factory=list)
    max_hops: Annotated[int, Field(ge=1, le=1000)] | None = None
    max_delay_ns: Annotated[int, Field(ge=0, le=2**53)] | None = None

    def wishes(self) -> Wishes:
        """Return the same values for the service."""
        return Wishes(
            tuple(self.avoid_nodes),
            tuple(self.avoid_links),
            tuple(self.via),
            self.max_hops,
            self.max_delay_ns,
        )


class Booking(Message):
    """A request for a reservation."""

    source: Name
    """Source host of the packets."""
    destination: Name
    """Destination host of the packets."""
    rate: RateBps
    """Rate, in bits per second."""
    start: Second | None = None
    """Start, in seconds since 1970, UTC; now unless given."""
    end: Second | None = None
    """End, in seconds since 1970, UTC: the first second after the reservation."""
    seconds: Annotated[int, Field(ge=1, le=MAX_SECOND)] | None = None
    """Duration in seconds, in place of `end`."""
    burst: BurstBytes | None = None
    """Greatest burst, in bytes; a tenth of a second of the rate, or 15,000, unless given."""
    direction: Direction = "forward"
    selector: SelectorMessage = SelectorMessage()
    class_: Annotated[Name | None, Field(alias="class")] = None
    """The class of service; null for the links as a whole."""
    purpose: Text = ""
    path: Annotated[list[Name], Field(min_length=1, max_length=64)] | None = None
    """The links of the path, as `r1>r2`; the shortest path with room unless given."""
    wishes: WishesMessage = WishesMessage()
    hold: Annotated[int, Field(ge=1, le=3600)] | None = None
    """Seconds for which it is only held, until it is committed or expires."""

    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True)

    @model_validator(mode="after")
    def _ends(self) -> Booking:
        if (self.end is None) == (self.seconds is None):
            raise ValueError("expected either `end` or `seconds`")
        return self

    def terms(self, now: int) -> Terms:
        """Return the same values for the service, at a time."""
        start = now if self.start is None else self.start
        end = self.end if self.end is not None else start + (self.seconds or 0)
        return Terms(
            source=self.source,
            destination=self.destination,
            rate=self.rate,
            start=start,
            end=end,
            burst=default_burst(self.rate) if self.burst is None else self.burst,
            direction=self.direction,
            selector=self.selector.selector(),
            class_=self.class_,
            purpose=self.purpose,
        )


def default_burst(rate: int) -> int:
    """Return the default burst: the bytes of 0.1 s, but at least ten full packets."""
    return min(max(rate // 80, 15_000), 2**31 - 1)


class Change(Message):
    """Changes of a reservation; fields that are not set keep their values."""

    rate: RateBps | None = None
    burst: BurstBytes | None = None
    start: Second | None = None
    end: Second | None = None
    selector: SelectorMessage | None = None
    purpose: Text | None = None
    reason: Text = ""
    version: Number | None = None
    """The version that the client knows; if the present one differs, nothing changes."""

    def changes(self) -> dict[str, Any]:
        """Return the same values for the service."""
        names = ("rate", "burst", "start", "end", "purpose")
        found = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        if self.selector is not None:
            found["selector"] = self.selector.selector()
        return found


class Reason(Message):
    """The reason of a request."""

    reason: Text = ""


class ReservationMessage(Message):
    """A stored reservation."""

    id: int
    owner: str
    source: str
    destination: str
    rate: int
    burst: int
    start: int
    end: int
    direction: Direction
    selector: SelectorMessage
    class_: Annotated[str | None, Field(alias="class", serialization_alias="class")]
    purpose: str
    path: list[str]
    state: State
    hold_until: int | None
    version: int
    created: int
    started: int | None
    changing: bool
    """True while new terms are being put in place."""
    trouble: str
    """Problem of its enforcement, or empty."""

    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True)

    @classmethod
    def of(cls, reservation: Reservation) -> ReservationMessage:
        """Return the same values for HTTP."""
        return cls._of(
            reservation,
            reservation.terms,
            owner=reservation.owner_name,
            selector=SelectorMessage.of(reservation.terms.selector),
            path=list(reservation.path),
            changing=reservation.pending is not None,
        )


class LogMessage(Message):
    """An entry of the log of a reservation."""

    id: int
    reservation: int
    at: int
    author: str
    action: str
    state: State
    reason: str
    detail: dict[str, Any]

    @classmethod
    def of(cls, entry: LogEntry) -> LogMessage:
        """Return the same values for HTTP."""
        return cls._of(entry, detail=dict(entry.detail))


class CountersMessage(Message):
    """A reading of a reservation's counters."""

    at_ms: int
    epoch: int
    """Number of times that the counters had been cleared."""
    conformed_packets: int
    conformed_bytes: int
    exceeded_packets: int
    exceeded_bytes: int


class Stretch(Message):
    """The free bandwidth in an interval."""

    start: int
    end: int
    free: int

    @classmethod
    def all(cls, stretches: Iterable[_core.Stretch]) -> list[Stretch]:
        """Return the same values for HTTP."""
        return [cls(start=one.start, end=one.end, free=one.free) for one in stretches]


class FreeQuestion(WishesMessage):
    """A search for free bandwidth."""

    source: Annotated[str, Field(max_length=64)]
    destination: Annotated[str, Field(max_length=64)]
    start: Second
    end: Second
    rate: RateBps = 1
    """Rate of the wanted reservation, in bits per second."""
    class_: Annotated[str | None, Field(alias="class", max_length=64)] = None
    direction: Direction = "forward"
    until: Second | None = None
    """Instant up to which a fit is searched; the end of the horizon unless given."""

    model_config = ConfigDict(strict=False, validate_by_name=True, validate_by_alias=True)

    def terms(self) -> Terms:
        """Return the same values for the service."""
        return Terms(
            self.source,
            self.destination,
            self.rate,
            self.start,
            self.end,
            burst=1,
            direction=self.direction,
            class_=self.class_,
        )


class FreeMessage(Message):
    """Free bandwidth between two hosts."""

    path: list[str]
    stretches: list[Stretch]
    earliest: int | None
    """Earliest start at which the rate is free throughout; null if it is not before `searched`."""
    searched: int
    """Instant up to which the search went."""
    widest: list[str]
    widest_rate: int
    alternatives: list[list[str]]

    @classmethod
    def of(cls, free: Free) -> FreeMessage:
        """Return the same values for HTTP."""
        return cls._of(
            free,
            path=list(free.path),
            stretches=Stretch.all(free.stretches),
            widest=list(free.widest),
            alternatives=[list(path) for path in free.alternatives],
        )


class LinkMessage(Message):
    """A link in one direction."""

    name: str
    source: str
    target: str
    rate: int
    delay_ns: int
    reservable: int
    classes: dict[str, int]
    hosts: tuple[str, str] | None
    """Two hosts whose shortest path contains it; null if there are none."""


class NetworkMessage(Message):
    """The links that can be reserved."""

    name: str
    title: str
    hosts: list[str]
    routers: list[str]
    classes: list[str]
    links: list[LinkMessage]

    @classmethod
    def of(cls, network: Network) -> NetworkMessage:
        """Return the same values for HTTP."""
        return cls._of(
            network,
            routers=[node for node in network.nodes if node not in network.hosts],
            links=[
                LinkMessage._of(
                    link,
                    delay_ns=link.delay,
                    classes=dict(zip(network.classes, link.classes, strict=True)),
                    hosts=hosts,
                )
                for link, hosts in zip(network.links, network.host_pairs, strict=True)
            ],
        )
