"""What hosts send: flows over TCP and UDP, and pings."""

from typing import Literal

from pydantic import Field, GetJsonSchemaHandler, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from perhop.scenario.model.base import Model
from perhop.scenario.model.dscp import Dscp
from perhop.scenario.model.names import Name
from perhop.scenario.model.quantities import (
    USUAL_TTL,
    DatagramSize,
    Duration,
    EchoSize,
    ParetoShape,
    Port,
    PositiveDuration,
    Rate,
    Size,
    Streams,
    Ttls,
    WhenFull,
)
from perhop.scenario.model.replay import Replay
from perhop.scenario.model.tcp import Tcp
from perhop.units import SECOND

TRACEROUTE_PORT = 33434
"""Where traceroute begins to look for a port on which nobody listens."""


class Bursts(Model):
    """Bursts and pauses in turn, a burst first."""

    on: PositiveDuration
    """The mean length of a burst."""

    off: PositiveDuration
    """The mean length of a pause."""

    lengths: Literal["equal", "exponential", "pareto"] = "exponential"
    """Whether bursts and pauses are always as long as the mean, or how their lengths are
    distributed."""

    shape: ParetoShape | None = None
    """The shape of a Pareto distribution; 1.5, whose variance is infinite."""

    @property
    def effective_shape(self) -> int:
        """The shape in thousandths."""
        return 1500 if self.shape is None else self.shape


class Udp(Model):
    """A stream of datagrams."""

    rate: Rate | None = None
    """How many bits a second it sends on average while it does not pause, of the payload unless
    `layer` says otherwise."""

    size: DatagramSize = 1470
    """How large a datagram is, on average, of the payload unless `layer` says otherwise."""

    pattern: Literal["constant", "poisson"] = "constant"
    """When datagrams come: at regular times, or at random ones, independently of each other."""

    sizes: Literal["equal", "exponential"] = "equal"
    """Whether all are as large as `size`, or exponentially distributed with that mean, as far as
    whole bytes and what a packet holds allow."""

    bursts: Bursts | None = None
    """When it sends and when it pauses; by default it does not."""

    layer: Literal["application", "ip"] = "application"
    """Whose bytes `rate` and `size` count: the application's, or those of IP packets."""

    replay: Replay | None = None
    """The datagrams one by one, instead of `rate`, `size`, `pattern`, `sizes` and `bursts`."""

    when_full: WhenFull = "wait"
    """What the sender does when its host cannot take a datagram. ``wait``: it sleeps until there is
    room in its socket's buffer, as Linux programs do that send to a blocking socket. A duration: it
    tries again after this time if the queue of its own interface has no room, as BSD programs do
    about ENOBUFS. ``drop``: it does not notice, and the datagram is lost."""

    ecn: Literal["ect0", "ect1"] | None = None
    """What its packets say of ECN (RFC 3168): that routers may mark them, and, with ``ect1``, that
    they belong in the queue for L4S (RFC 9331). The application takes no notice of marks."""

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """A `rate`, or a `replay` and nothing that it stands for."""
        whole = handler.resolve_ref_schema(handler(schema))
        instead = [{"required": [key]} for key in REPLAYED]
        whole["oneOf"] = [
            {"required": ["rate"], "not": {"required": ["replay"]}},
            {"required": ["replay"], "not": {"anyOf": instead}},
        ]
        return whole


REPLAYED = ("rate", "size", "pattern", "sizes", "bursts")
"""What a replay stands for."""


class Flow(Model):
    """Data from one host to another: TCP by default, or UDP."""

    source: Name = Field(alias="from")
    """The host that sends."""

    destination: Name = Field(alias="to")
    """The host that receives."""

    tcp: Tcp | None = None
    """TCP settings; the default where `udp` is not given."""

    udp: Udp | None = None
    """UDP settings."""

    dscp: Dscp = 0
    """The code point of its packets, and of the acknowledgements that they cause."""

    start: Duration = 0
    """When it starts to send."""

    stop: Duration | None = None
    """When it stops to send; by default the end of the scenario."""

    volume: Size | None = None
    """How much each stream sends, instead of `stop`."""

    port: Port | None = None
    """The receiver's port; by default 5001 for the first flow, 5002 for the second and so on."""

    streams: Streams = 1
    """How many connections it is made of."""

    @model_validator(mode="before")
    @classmethod
    def _tcp_by_default(cls, value: object) -> object:
        if isinstance(value, dict) and value.get("tcp") is None and value.get("udp") is None:
            return {**value, "tcp": {}}
        return value

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Not both of `tcp` and `udp`, nor both of `stop` and `volume`."""
        whole = handler.resolve_ref_schema(handler(schema))
        whole["allOf"] = [
            {"not": {"required": ["tcp", "udp"]}},
            {"not": {"required": ["stop", "volume"]}},
        ]
        return whole


class Ping(Model):
    """ICMP echo requests at regular times, or probes of each router on the way.

    A reply carries the code point of its request. Whoever uses up a packet's time to live answers
    in the destination's stead.
    """

    source: Name = Field(alias="from")
    """The host that asks."""

    destination: Name = Field(alias="to")
    """The host or router that answers."""

    dscp: Dscp = 0
    """The code point of requests and replies."""

    every: PositiveDuration = SECOND
    """The time between two requests of the same `ttl`."""

    size: EchoSize = 56
    """The payload of a request."""

    ttl: Ttls = (USUAL_TTL, USUAL_TTL)
    """How many routers a request may reach: the third one answers those with 3. A range such as
    ``1..8`` asks each in turn, as traceroute does, until the destination has answered."""

    protocol: Literal["icmp", "udp"] = "icmp"
    """``udp`` sends datagrams to a port on which nobody listens, which the destination reports."""

    port: Port | None = None
    """That port; 33434 unless set. It stays the same, so that load sharing by flow does not."""

    train: Streams = 1
    """How many requests are sent back to back each time."""

    @property
    def effective_port(self) -> int | None:
        """The port that datagrams go to; None for echo requests."""
        return (self.port or TRACEROUTE_PORT) if self.protocol == "udp" else None

    @property
    def is_trace(self) -> bool:
        """Whether it asks more than one node."""
        return self.ttl[0] < self.ttl[1]

    @property
    def requests(self) -> int:
        """How many requests it sends in the time `every`, at most."""
        return self.train * (1 + self.ttl[1] - self.ttl[0])

    start: Duration = 0
    """When the first request is sent."""

    stop: Duration | None = None
    """When the requests end; by default the end of the scenario."""
