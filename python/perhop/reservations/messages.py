"""What goes over HTTP: requests as they are checked, answers as they are promised."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from perhop.reservations.model import (
    Direction,
    Protocol,
    Role,
    Selector,
    State,
    Terms,
    Wishes,
)

if TYPE_CHECKING:
    from perhop.reservations.model import LogEntry, Reservation, User

MAX_RATE = 2**61
MAX_SECOND = 2**40

Name = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[^\x00-\x1f\x7f]+$")]
Text = Annotated[str, Field(max_length=1000, pattern=r"^[^\x00]*$")]
Second = Annotated[int, Field(ge=0, le=MAX_SECOND)]
RateBps = Annotated[int, Field(ge=1, le=MAX_RATE)]
BurstBytes = Annotated[int, Field(ge=1500, le=2**31 - 1)]
PortNumber = Annotated[int, Field(ge=1, le=65535)]
Number = Annotated[int, Field(ge=1, le=2**53)]


class Message(BaseModel):
    """The base of all: nothing unknown, nothing converted, nothing changed."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class SelectorMessage(Message):
    """Which packets between source and destination; what is not given matches every packet."""

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
        """The same for the service."""
        return Selector(self.protocol, self.source_ports, self.destination_ports, self.dscp)

    @classmethod
    def of(cls, selector: Selector) -> SelectorMessage:
        """The same for HTTP."""
        return cls(
            protocol=selector.protocol,
            source_ports=selector.source_ports,
            destination_ports=selector.destination_ports,
            dscp=selector.dscp,
        )


class WishesMessage(Message):
    """What the path must keep to."""

    avoid_nodes: Annotated[list[Name], Field(max_length=100)] = []
    avoid_links: Annotated[list[Name], Field(max_length=100)] = []
    via: Annotated[list[Name], Field(max_length=10)] = []
    max_hops: Annotated[int, Field(ge=1, le=1000)] | None = None
    max_delay_ns: Annotated[int, Field(ge=0, le=2**53)] | None = None

    def wishes(self) -> Wishes:
        """The same for the service."""
        return Wishes(
            tuple(self.avoid_nodes),
            tuple(self.avoid_links),
            tuple(self.via),
            self.max_hops,
            self.max_delay_ns,
        )


class Booking(Message):
    """A reservation that is asked for."""

    source: Name
    """The host that packets come from."""
    destination: Name
    """The host that they go to."""
    rate: RateBps
    """Bits per second."""
    start: Second | None = None
    """When it begins, in seconds since 1970, UTC; now unless given."""
    end: Second | None = None
    """The first second in which it is over."""
    seconds: Annotated[int, Field(ge=1, le=MAX_SECOND)] | None = None
    """How long it lasts, instead of `end`."""
    burst: BurstBytes | None = None
    """How many bytes may come at once; a tenth of a second of the rate, or 15,000, unless given."""
    direction: Direction = "forward"
    selector: SelectorMessage = SelectorMessage()
    class_: Annotated[Name | None, Field(alias="class")] = None
    """The class of service; none for the links as a whole."""
    purpose: Text = ""
    path: Annotated[list[Name], Field(min_length=1, max_length=64)] | None = None
    """The links to take, as `r1>r2`; the shortest path with room unless given."""
    wishes: WishesMessage = WishesMessage()
    hold: Annotated[int, Field(ge=1, le=3600)] | None = None
    """For how many seconds it is only held, to be committed or forgotten."""

    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True)

    @model_validator(mode="after")
    def _ends(self) -> Booking:
        if (self.end is None) == (self.seconds is None):
            raise ValueError("expected either `end` or `seconds`")
        return self

    def terms(self, now: int) -> Terms:
        """The same for the service, at a time."""
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
    """The burst of a reservation that names none: what comes in 0.1 s, but ten full packets."""
    return min(max(rate // 80, 15_000), 2**31 - 1)


class Change(Message):
    """What is to change; what is not given stays."""

    rate: RateBps | None = None
    burst: BurstBytes | None = None
    start: Second | None = None
    end: Second | None = None
    selector: SelectorMessage | None = None
    purpose: Text | None = None
    reason: Text = ""
    version: Number | None = None
    """The version that was seen; if it is another by now, nothing changes."""

    def changes(self) -> dict[str, Any]:
        """The same for the service."""
        names = ("rate", "burst", "start", "end", "purpose")
        found = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        if self.selector is not None:
            found["selector"] = self.selector.selector()
        return found


class Reason(Message):
    """Why."""

    reason: Text = ""


class ReservationMessage(Message):
    """A reservation as it is on file."""

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
    """Whether new terms are being put in place."""
    trouble: str
    """What is wrong with its enforcement."""

    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True)

    @classmethod
    def of(cls, reservation: Reservation) -> ReservationMessage:
        """The same for HTTP."""
        terms = reservation.terms
        return cls.model_construct(
            id=reservation.id,
            owner=reservation.owner_name,
            source=terms.source,
            destination=terms.destination,
            rate=terms.rate,
            burst=terms.burst,
            start=terms.start,
            end=terms.end,
            direction=terms.direction,
            selector=SelectorMessage.of(terms.selector),
            class_=terms.class_,
            purpose=terms.purpose,
            path=list(reservation.path),
            state=reservation.state,
            hold_until=reservation.hold_until,
            version=reservation.version,
            created=reservation.created,
            started=reservation.started,
            changing=reservation.pending is not None,
            trouble=reservation.trouble,
        )


class LogMessage(Message):
    """Something that happened to a reservation."""

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
        """The same for HTTP."""
        return cls(
            id=entry.id,
            reservation=entry.reservation,
            at=entry.at,
            author=entry.author,
            action=entry.action,
            state=entry.state,
            reason=entry.reason,
            detail=dict(entry.detail),
        )


class CountersMessage(Message):
    """A reading of a reservation's counters."""

    at_ms: int
    epoch: int
    """How often they had been cleared."""
    conformed_packets: int
    conformed_bytes: int
    exceeded_packets: int
    exceeded_bytes: int


class Stretch(Message):
    """How much is free for a time."""

    start: int
    end: int
    free: int


class FreeMessage(Message):
    """What is free between two hosts."""

    path: list[str]
    stretches: list[Stretch]
    earliest: int | None
    """From when on the rate is free for as long as asked."""
    widest: list[str]
    widest_rate: int
    alternatives: list[list[str]]


class LinkMessage(Message):
    """A link in one direction."""

    name: str
    source: str
    target: str
    rate: int
    delay_ns: int
    reservable: int
    classes: dict[str, int]


class NetworkMessage(Message):
    """What there is to reserve."""

    name: str
    title: str
    hosts: list[str]
    routers: list[str]
    classes: list[str]
    links: list[LinkMessage]


class LogIn(Message):
    """A name and a password."""

    name: Annotated[str, Field(max_length=64)]
    password: Annotated[str, Field(max_length=1000)]


class Session(Message):
    """Who is logged in."""

    user: str
    role: Role
    csrf: str
    """What to say in the header `X-CSRF-Token` with every change."""


class NewToken(Message):
    """A token that is asked for."""

    label: Annotated[str, Field(min_length=1, max_length=128)]
    kind: Literal["api", "feed"] = "api"
    seconds: Annotated[int, Field(ge=60, le=10 * 366 * 86_400)] | None = None


class Token(Message):
    """A token, told once."""

    token: str


class TokenMessage(Message):
    """A token without its secret."""

    id: int
    kind: str
    label: str
    created: int
    expires: int | None


class QuotaMessage(Message):
    """What a user may have."""

    reservations: Annotated[int, Field(ge=0, le=2**53)] | None = None
    rate: Annotated[int, Field(ge=0, le=MAX_RATE)] | None = None
    seconds: Annotated[int, Field(ge=0, le=MAX_SECOND)] | None = None


class NewUser(Message):
    """A user who is to be."""

    name: Annotated[str, Field(min_length=1, max_length=64)]
    password: Annotated[str, Field(min_length=1, max_length=1000)]
    role: Annotated[Role, Field(strict=False)] = Role.REQUESTER
    quota: QuotaMessage = QuotaMessage()


class UserChange(Message):
    """What of a user is to change."""

    password: Annotated[str, Field(min_length=1, max_length=1000)] | None = None
    role: Annotated[Role | None, Field(strict=False)] = None
    disabled: bool | None = None
    quota: QuotaMessage | None = None


class UserMessage(Message):
    """A user."""

    name: str
    role: Role
    disabled: bool
    quota: QuotaMessage

    @classmethod
    def of(cls, user: User) -> UserMessage:
        """The same for HTTP."""
        quota = QuotaMessage.model_construct(
            reservations=user.quota.reservations, rate=user.quota.rate, seconds=user.quota.seconds
        )
        return cls(name=user.name, role=user.role, disabled=user.disabled, quota=quota)


class NewWebhook(Message):
    """Where to tell what happens."""

    url: Annotated[str, Field(min_length=8, max_length=2000, pattern=r"^https?://[!-~]+$")]


class WebhookMessage(Message):
    """Where is told what happens."""

    id: int
    url: str
    delivered: int
    trouble: str


class Webhook(WebhookMessage):
    """The same when it is made: with the secret that deliveries are signed with."""

    secret: str


class Problem(Message):
    """Why something was not done."""

    error: str
    detail: dict[str, Any] = {}
