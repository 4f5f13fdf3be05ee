"""Traffic of hosts: flows over TCP and UDP, and pings."""

from itertools import combinations
from typing import Literal

from pydantic import Field, GetJsonSchemaHandler, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from perhop.scenario.model.applications import APPLICATIONS, Rpc, Transfers, Video, Web
from perhop.scenario.model.base import Model
from perhop.scenario.model.dscp import Dscp
from perhop.scenario.model.game import GAMES, Game
from perhop.scenario.model.metrics import DATAGRAMS, KINDS, FlowKind
from perhop.scenario.model.names import IpVersion, Name
from perhop.scenario.model.network import PortRange
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
from perhop.scenario.model.quic import Quic
from perhop.scenario.model.replay import Replay
from perhop.scenario.model.starts import FlowStart, Starts, random_delay
from perhop.scenario.model.tcp import Tcp
from perhop.scenario.model.voice import PAUSE, TALK_SPURT, Voice
from perhop.units import SECOND

TRACEROUTE_PORT = 33434
"""The first port that traceroute uses, which is closed on most hosts."""


class Bursts(Model):
    """Bursts and pauses in turn, a burst first."""

    on: PositiveDuration
    """The mean length of a burst."""

    off: PositiveDuration
    """The mean length of a pause."""

    lengths: Literal["equal", "exponential", "pareto"] = "exponential"
    """The distribution of the lengths of bursts and pauses."""

    shape: ParetoShape | None = None
    """The shape of a Pareto distribution; 1.5, with infinite variance."""

    begin: Literal["burst", "stationary"] = "burst"
    """The start: with a burst, or as if bursts and pauses had always taken turns."""

    @property
    def effective_shape(self) -> int:
        """The shape in thousandths."""
        return 1500 if self.shape is None else self.shape


class Udp(Model):
    """A stream of datagrams."""

    rate: Rate | None = None
    """The mean rate in bits per second outside pauses, of the payload unless `layer` is set."""

    size: DatagramSize = 1470
    """The mean size of a datagram, of the payload unless `layer` is set."""

    pattern: Literal["constant", "poisson"] = "constant"
    """The times of datagrams: at equal intervals, or a Poisson process."""

    sizes: Literal["equal", "exponential", "imix"] = "equal"
    """The distribution of sizes: all equal; exponential, within the limits of whole bytes and of
    the longest packet; or the simple Internet mix, IP packets of 40, 576 and 1500 B in the ratio
    7:4:1, which needs `layer: ip`. Over IPv6 the first two have 60 and 596 B."""

    bursts: Bursts | None = None
    """Bursts and pauses; none by default."""

    layer: Literal["application", "ip"] = "application"
    """The bytes that `rate` and `size` count: of the payload, or of IP packets."""

    replay: Replay | None = None
    """The datagrams one by one, instead of `rate`, `size`, `pattern`, `sizes` and `bursts`."""

    when_full: WhenFull = "wait"
    """Behaviour of the sender if its host cannot take a datagram. ``wait``: it waits for room in
    its socket's buffer, as Linux programs do that send to a blocking socket. A duration: it tries
    again after this time if the queue of its interface is full, as BSD programs do after ENOBUFS.
    ``drop``: the datagram is lost."""

    ecn: Literal["ect0", "ect1"] | None = None
    """The ECN field of its packets (RFC 3168): routers may mark them, and with ``ect1`` they belong
    in the L4S queue (RFC 9331). The application ignores marks."""

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


IMIX: dict[IpVersion, tuple[tuple[int, int], ...]] = {
    4: ((40, 7), (576, 4), (1500, 1)),
    6: ((60, 7), (596, 4), (1500, 1)),
}
"""The simple Internet mix (IMIX) of test equipment: lengths of IP packets, and their weights.

It is defined for IPv4. Over IPv6, packets carry the same, as far as they fit 1500 B.
"""


def imix_mean(ip: IpVersion) -> int:
    """Return the mean length of the mix in bytes."""
    mix = IMIX[ip]
    return round(sum(size * weight for size, weight in mix) / sum(weight for _, weight in mix))


REPLAYED = ("rate", "size", "pattern", "sizes", "bursts")
"""Flow settings that a replay replaces."""


class Flow(Model):
    """Data from one host to another: TCP by default, UDP, QUIC, calls or a game."""

    source: Name = Field(alias="from")
    """The sending host."""

    destination: Name = Field(alias="to")
    """The receiving host."""

    tcp: Tcp | None = None
    """TCP settings; the default without `udp`."""

    udp: Udp | None = None
    """UDP settings."""

    quic: Quic | None = None
    """QUIC settings: data, or an application, over QUIC connections."""

    voice: Voice | None = None
    """Calls, one per stream: a codec such as ``g711``, or settings."""

    game: Game | None = None
    """The datagrams of a game: those of its server to a player (``fps-server``), or those of the
    player (``fps-client``)."""
    transfers: Transfers | None = None
    """Clients at the destination that request data from the source, over TCP or with `quic`."""

    rpc: Rpc | None = None
    """Clients at the destination that call procedures at the source, over TCP or with `quic`."""

    web: Web | None = None
    """Clients at the destination that load pages from the source, over TCP or with `quic`."""

    video: Video | None = None
    """Clients at the destination that play a video from the source, over TCP or with `quic`."""

    ip: IpVersion | None = None
    """The version of the internet protocol, 4 or 6; by default that of the scenario."""

    dscp: Dscp = 0
    """The DSCP of its packets, and of their acknowledgements."""

    start: FlowStart = 0
    """The start of the flow; or several starts such as ``[0 s, 30 s]``, or a random one such as
    ``{at: 1 s, jitter: 500 ms}``."""

    stop: Duration | None = None
    """The end of the flow; by default the end of the scenario."""

    volume: Size | None = None
    """The bytes that each stream sends, instead of `stop`."""

    port: Port | None = None
    """The destination port, or the port of an application's server; by default 5001 for the first
    flow, 5002 for the second and so on."""

    source_port: Port | None = None
    """The source port; of several `streams` that of the first, and each further one has the next
    port. By default hosts choose ports from 49152 on."""

    streams: Streams = 1
    """The number of parallel connections, of sequences of datagrams, or of clients of an
    application, from each start on."""

    @property
    def applications(self) -> list[str]:
        """The keys of applications that are set; at most one, in a valid scenario."""
        return [key for key in APPLICATIONS if getattr(self, key) is not None]

    @property
    def exchanges(self) -> Transfers | Rpc | None:
        """The transfers or calls of the flow, if it has any."""
        return self.transfers or self.rpc

    @property
    def starts(self) -> tuple[int, ...]:
        """The starts in picoseconds without jitter, sorted."""
        return tuple(sorted(self.start.at)) if isinstance(self.start, Starts) else (self.start,)

    @property
    def jitter(self) -> int:
        """The largest random delay of a start, in picoseconds."""
        return (self.start.jitter or 0) if isinstance(self.start, Starts) else 0

    @property
    def all_streams(self) -> int:
        """The number of streams of all starts."""
        return self.streams * len(self.starts)

    def stream_starts(self, name: str, seed: int) -> list[int]:
        """Return the start of each stream of the flow `name` in picoseconds."""
        at = [start for start in self.starts for _ in range(self.streams)]
        if not self.jitter:
            return at
        return [
            start + random_delay(self.jitter, seed, name, stream) for stream, start in enumerate(at)
        ]

    @property
    def kind(self) -> FlowKind:
        """The kind of its traffic, which is the key of its settings."""
        return next(kind for kind in KINDS if getattr(self, kind) is not None)

    @property
    def datagrams(self) -> Udp | None:
        """The datagrams of a flow over UDP with their settings, whatever its kind.

        None for TCP and QUIC.

        A game has the means of its times and sizes.
        """
        if self.voice is not None:
            voice = self.voice
            rate = 8 * voice.size * SECOND // voice.effective_ptime
            spurts = Bursts.model_construct(on=TALK_SPURT, off=PAUSE)
            bursts = spurts if voice.silence_suppression else None
            return Udp.model_construct(rate=rate, size=voice.size, bursts=bursts)
        if self.game is not None:
            size, gap = GAMES[self.game].means
            return Udp.model_construct(rate=8 * size * SECOND // gap, size=size)
        return self.udp

    @property
    def source_ports(self) -> PortRange | None:
        """The first and last source port of the streams; None if the host chooses them."""
        first = self.source_port
        return None if first is None else (first, first + self.all_streams - 1)

    @model_validator(mode="before")
    @classmethod
    def _tcp_by_default(cls, value: object) -> object:
        if isinstance(value, dict) and all(value.get(kind) is None for kind in KINDS):
            return {**value, "tcp": {}}
        return value

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Not two kinds, nor both of `stop` and `volume`; one application, over TCP or QUIC."""
        whole = handler.resolve_ref_schema(handler(schema))
        apart = [("stop", "volume"), *combinations(KINDS, 2), *combinations(APPLICATIONS, 2)]
        apart += [(key, other) for key in APPLICATIONS for other in (*DATAGRAMS, "volume")]
        whole["allOf"] = [{"not": {"required": [*pair]}} for pair in apart]
        return whole


class Ping(Model):
    """ICMP echo requests at regular times, or probes of each router on the way.

    A reply carries the code point of its request. A node at which a packet's time to live is used
    up answers in place of the destination.
    """

    source: Name = Field(alias="from")
    """The host that sends requests."""

    destination: Name = Field(alias="to")
    """The host or router that answers."""

    ip: IpVersion | None = None
    """The version of the internet protocol, 4 or 6; by default that of the scenario."""

    dscp: Dscp = 0
    """The DSCP of requests and replies."""

    ecn: Literal["ect0", "ect1"] | None = None
    """The ECN field of requests (RFC 3168); a reply is sent with that of its request on arrival."""

    every: PositiveDuration = SECOND
    """The time between two requests of the same `ttl`."""

    size: EchoSize = 56
    """The payload of a request in bytes."""

    ttl: Ttls = (USUAL_TTL, USUAL_TTL)
    """The time to live of requests: the third router answers requests with 3. A range such as
    ``1..8`` uses each in turn, as traceroute does, until the destination has answered."""

    protocol: Literal["icmp", "udp"] = "icmp"
    """``udp`` sends datagrams to a closed port, which the destination answers with an ICMP
    error."""

    port: Port | None = None
    """This port; 33434 unless set. It is constant, so that per-flow load sharing uses one path."""

    train: Streams = 1
    """The number of requests that are sent back to back."""

    @property
    def effective_port(self) -> int | None:
        """The port that datagrams go to; None for echo requests."""
        return (self.port or TRACEROUTE_PORT) if self.protocol == "udp" else None

    @property
    def is_trace(self) -> bool:
        """True if it asks more than one node."""
        return self.ttl[0] < self.ttl[1]

    @property
    def requests(self) -> int:
        """Return the maximum number of requests in each interval `every`."""
        return self.train * (1 + self.ttl[1] - self.ttl[0])

    start: Duration = 0
    """The time of the first request."""

    stop: Duration | None = None
    """The end of the requests; by default the end of the scenario."""
