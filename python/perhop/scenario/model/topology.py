"""The network of a scenario: nodes, and the links between them."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    Field,
    GetJsonSchemaHandler,
    SerializerFunctionWrapHandler,
    StrictBool,
    model_serializer,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from perhop.scenario.model.base import Model, with_short_form
from perhop.scenario.model.classes import Shape
from perhop.scenario.model.marking import Marking
from perhop.scenario.model.names import Address, Name
from perhop.scenario.model.network import ClassBandwidth, LinkOverhead, Overhead
from perhop.scenario.model.quantities import (
    Chance,
    Duration,
    Loss,
    Mtu,
    PositiveDuration,
    Rate,
    Share,
    Streams,
    schema_of,
)
from perhop.scenario.model.queues import LINK_LIMIT, Queue
from perhop.units import RATE, SHARE


class Node(Model):
    """A host, which sends and receives, or a router, which forwards.

    Written ``host``, ``router`` or ``{kind: host, address: 192.0.2.1}``.
    """

    short_form: ClassVar[str] = "`host`, `router`"

    kind: Literal["host", "router"]
    """What it is. Only routers forward: a host is never in the middle of a path."""

    address: Address | None = None
    """Its IPv4 address; by default the next free one from 10.0.0.1, in the order of the file."""

    balance: Literal["per-flow", "per-destination", "per-packet"] = "per-flow"
    """How it chooses among parallel links, and paths that cost the same: by a hash of addresses,
    ports and protocol, by one of the destination's address, or in turn."""

    backpressure: StrictBool = True
    """Whether a host's own queue holds up its senders, as sockets that are charged for what waits
    there do in Linux; `false` lets them send whatever the queue holds already."""

    offload: StrictBool = True
    """Whether a host's device takes over checksums and the division into packets, as network
    cards do: what captures in a host see has neither then. In `emu` and labs only."""

    icmp_errors: StrictBool = True
    """Whether it tells a packet's source that the packet goes no further: its time to live was used
    up, no path leads to its destination, or nobody listens there."""

    icmp_interval: Duration = 0
    """The least time between two such errors, once `icmp_burst` of them have been sent."""

    icmp_burst: Streams | None = None
    """How many errors it may send at once; 1 unless set."""

    remark: Marking = ()
    """How it marks what it receives, by whatever link; a link's own `remark` goes first."""

    @model_validator(mode="before")
    @classmethod
    def _from_kind(cls, value: object) -> object:
        return {"kind": value} if isinstance(value, str) else value

    @model_serializer(mode="wrap")
    def _to_kind(self, handler: SerializerFunctionWrapHandler) -> Any:
        return self.kind if self == type(self)(kind=self.kind) else handler(self)

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """A kind, or a mapping."""
        return with_short_form(schema, handler, {"enum": ["host", "router"]})


LINK_QUEUE = Queue.model_construct(limit=LINK_LIMIT)


class Reorder(Model):
    """Some packets take longer, and those behind overtake them."""

    share: Share
    """The share of packets that do, at random."""

    by: PositiveDuration
    """How much longer."""


class Reservable(Model):
    """What of a link, in each direction, can be reserved.

    Written ``50%``, ``2 Gbps`` or ``{total: 50%, classes: {gold: 20%}}``.
    """

    short_form: ClassVar[str] = "a share such as `50%`, a rate such as `2 Gbps`"

    total: ClassBandwidth
    """How much in all: a rate, or a share of the link."""

    classes: dict[Name, ClassBandwidth] = Field(default_factory=dict)
    """How much of that in each class; together they may be more than the total."""

    @model_validator(mode="before")
    @classmethod
    def _from_total(cls, value: object) -> object:
        return {"total": value} if isinstance(value, (str, int, float)) else value

    @model_serializer(mode="wrap")
    def _to_total(self, handler: SerializerFunctionWrapHandler) -> Any:
        written = handler(self)
        return written if self.classes else written["total"]

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """A total, or a mapping."""
        short = {"anyOf": [schema_of(SHARE), schema_of(RATE)]}
        return with_short_form(schema, handler, short)


class Link(Model):
    """A full-duplex link between two nodes, the same in both directions except for `egress`."""

    ends: tuple[Name, Name]
    """The two nodes."""

    name: Name | None = None
    """What tells it from other links between the same nodes, in results: ``r1>r2#name``."""

    rate: Rate
    """What it sends in each direction, layer-2 overhead included."""

    delay: Duration = 0
    """How long a bit takes from one end to the other."""

    jitter: Duration = 0
    """The largest random extra delay of a packet: uniform from zero, order kept."""

    loss: Loss = 0
    """The probability that a packet is lost on the way, apart from queues."""

    duplicate: Chance = 0
    """The probability that a copy arrives right behind a packet."""

    reorder: Reorder | None = None
    """Which packets take longer and are overtaken; by default none."""

    overhead: LinkOverhead = Overhead(0)
    """What layer 2 adds to every packet: none, ethernet, pos, atm, or bytes."""

    mtu: Mtu | None = None
    """The longest IP packet that it takes, layer-2 overhead apart; any unless set. Routers send
    back what is longer, as packets of modelled hosts forbid to be divided."""

    egress: dict[Name, Name] = Field(default_factory=dict)
    """The policy by which an end sends into the link, by node."""

    queue: Queue = LINK_QUEUE
    """The queue of an end that has no policy."""

    shape: Annotated[dict[Name, Shape], Field(default={})]
    """What an end sends into the link at most, by node."""

    reservable: Reservable | None = None
    """What of it `perhop reserve` may give away, in each direction; by default nothing."""

    remark: dict[Name, Marking] = Field(default_factory=dict)
    """How an end marks what it receives over the link, by node."""

    def capacity(self, node: str) -> int:
        """What `node` can send into the link, in bits per second."""
        shape = self.shape.get(node)
        return self.rate if shape is None else min(self.rate, shape.rate.of(self.rate))

    def other(self, node: str) -> str:
        """The end that is not `node`."""
        first, second = self.ends
        return second if node == first else first
