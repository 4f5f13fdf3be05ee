"""The network of a scenario: nodes, and the links between them."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final, Literal, TypeVar

from pydantic import (
    BeforeValidator,
    Field,
    GetJsonSchemaHandler,
    SerializerFunctionWrapHandler,
    StrictBool,
    ValidationInfo,
    model_serializer,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticKnownError

from perhop.scenario.model.base import Model, with_short_form
from perhop.scenario.model.classes import LinkShape
from perhop.scenario.model.encapsulation import Encapsulation
from perhop.scenario.model.ends import ByEnd, of_end
from perhop.scenario.model.loss import BurstLoss, LinkLoss
from perhop.scenario.model.marking import Marking
from perhop.scenario.model.names import Address, AddressV6, Name
from perhop.scenario.model.network import ClassBandwidth, LinkOverhead, Overhead
from perhop.scenario.model.quantities import (
    Chance,
    DelayLimit,
    Duration,
    Gap,
    Mtu,
    PositiveDuration,
    Rate,
    Share,
    Streams,
    schema_of,
)
from perhop.scenario.model.queues import LINK_LIMIT, Queue
from perhop.scenario.model.trace import Trace
from perhop.units import RATE, SHARE, format_rate

_Value = TypeVar("_Value")

Balance = Literal["per-flow", "per-destination", "per-packet"]
"""How a node shares load among next hops of equal cost."""


class Node(Model):
    """A host, which sends and receives, or a router, which forwards.

    Written ``host``, ``router`` or ``{kind: host, address: 192.0.2.1}``.
    """

    short_form: ClassVar[str] = "`host`, `router`"

    kind: Literal["host", "router"]
    """The kind of the node. Only routers forward: a host is never in the middle of a path."""

    address: Address | None = None
    """Its IPv4 address; by default the next free one from 10.0.0.1, in the order of the file."""

    address_v6: AddressV6 | None = None
    """Its IPv6 address; by default one in fd70:6572:686f:7000::/64 that ends with its IPv4
    address."""

    balance: Balance = "per-flow"
    """Load balancing among next hops of equal cost: by a hash of addresses, ports and protocol, by
    a hash of the destination's address, or in turn."""

    backpressure: StrictBool = True
    """With `true`, the queue of a host's interface holds up the host's senders, as in Linux, where
    sockets are charged for packets in it. With `false` they send without regard to the queue."""

    offload: StrictBool = True
    """With `true`, a host's device computes checksums and segments data, as network cards do;
    captures inside the host then show unsegmented data without checksums. In `emu` and labs
    only."""

    icmp_errors: StrictBool = True
    """With `true`, the node sends ICMP errors: if the time to live expires, if there is no route to
    the destination, or if the port is closed."""

    icmp_interval: Duration = 0
    """The least time between two ICMP errors, after a burst of `icmp_burst`."""

    icmp_burst: Streams | None = None
    """The number of ICMP errors that may be sent at once; 1 unless set."""

    mss_clamp: StrictBool = False
    """With `true`, a router lowers the maximum segment size in the SYNs that it forwards to what
    fits the MTUs of the links on both sides, as routers of access networks do."""

    remark: Marking = ()
    """Remarking of packets that the node receives over any link; a link's `remark` has
    precedence."""

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
    """Some packets take longer and are overtaken, or with `gap` skip the delay and overtake."""

    share: Share
    """The share of packets that are delayed, at random; with `gap`, of those that may skip the
    delay."""

    by: PositiveDuration | None = None
    """The additional delay; not beside `gap`."""

    gap: Gap | None = None
    """Packets skip the delay of the link, as with netem's `reorder`: one of this number at most,
    which has `gap` - 1 delayed ones before it."""


class Variation(Model):
    """A random part of the delay above and below zero, as netem's jitter."""

    by: PositiveDuration
    """The unit of the distribution: half of the width of the uniform one, about the standard
    deviation of the others."""

    distribution: Literal["uniform", "normal", "pareto", "paretonormal"] = "uniform"
    """The distribution in these units: that of netem's table of this name, up to 4."""

    in_order: StrictBool = False
    """With `true`, a packet waits for those before it instead of overtaking them."""


class Reservable(Model):
    """Reservable bandwidth of a link, in each direction.

    Written ``50%``, ``2 Gbps`` or ``{total: 50%, classes: {gold: 20%}}``.
    """

    short_form: ClassVar[str] = "a share such as `50%`, a rate such as `2 Gbps`"

    total: ClassBandwidth
    """The bandwidth that can be reserved in all: a rate, or a share of the link."""

    classes: dict[Name, ClassBandwidth] = Field(default_factory=dict)
    """The bandwidth that can be reserved in each class; the sum may exceed the total."""

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


def _both_ends(value: object, info: ValidationInfo) -> object:
    """Give the trace of a link to both of its ends."""
    one = isinstance(value, (str, Trace)) or (
        isinstance(value, dict) and any(key in Trace.model_fields for key in value)
    )
    return dict.fromkeys(info.data["ends"], value) if one and "ends" in info.data else value


class _OneTrace:
    """The form of a single trace in the JSON Schema."""

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        by_end = handler(schema)
        (one,) = by_end["patternProperties"].values()
        return {"anyOf": [one, by_end]}


Traces = Annotated[dict[Name, Trace], BeforeValidator(_both_ends), _OneTrace()]
"""Traces by sending end."""


_UNWRITTEN: Final[Any] = object()
"""The place of a `rate` that a link does not have."""


def _rate_of_traces(value: object, info: ValidationInfo) -> object:
    """Return the rate as it is written, or the mean rates of the traces of both ends."""
    if value is not _UNWRITTEN:
        return value
    traces: dict[str, Trace] | None = info.data.get("trace")
    if traces is not None and not traces:
        raise PydanticKnownError("missing")
    if traces is None or "ends" not in info.data:
        return "1 bps"  # the link is refused for its traces or ends
    means: dict[str, str] = {}
    for end in info.data["ends"]:
        mean = traces[end].mean_rate if end in traces else None
        if mean is None:
            why = "whose trace does not repeat" if end in traces else "which has no trace"
            raise ValueError(f"is missing for {end}, {why}; expected a rate such as `10 Mbps`")
        means[end] = format_rate(max(round(mean), 1))
    return next(iter(means.values())) if len({*means.values()}) == 1 else means


@dataclass(frozen=True, slots=True)
class Medium:
    """The transmission medium of a link in one direction: see `Link` for the attributes."""

    rate: int
    delay: int
    jitter: int
    variation: Variation | None
    delay_limit: int | None
    loss: int | BurstLoss
    duplicate: int
    reorder: Reorder | None
    overhead: Overhead


def _of_some(value: _Value | dict[Name, _Value] | None, node: str) -> _Value | None:
    """Return the value of an end, which has none by default."""
    return value.get(node) if isinstance(value, dict) else value


BY_SENDER = (
    "rate",
    "delay",
    "jitter",
    "variation",
    "delay_limit",
    "loss",
    "duplicate",
    "reorder",
    "overhead",
    "queue",
)
"""The keys of a link that take one value, or a value for each sending end."""


def refuse_shaper_without_end(value: object, info: ValidationInfo) -> object:
    """Refuse a shaper that does not name its end."""
    if isinstance(value, dict) and any(
        key in LinkShape.model_fields and not isinstance(each, dict) for key, each in value.items()
    ):
        first, second = info.data.get("ends", ("r1", "r2"))
        raise ValueError(
            f"expected the shapers of ends by node, {first} or {second}, "
            f"such as `{{{first}: {{rate: 1 Mbps, burst: 10 kB}}}}`"
        )
    return value


Shapers = Annotated[dict[Name, LinkShape], BeforeValidator(refuse_shaper_without_end)]
"""Shapers of ends, by node."""


class Link(Model):
    """A full-duplex link between two nodes.

    The values of its medium and its queue are those of both directions, or mappings from the
    sending end to the value of that direction. An end that a mapping leaves out has the default.
    """

    ends: tuple[Name, Name]
    """The two nodes."""

    name: Name | None = None
    """A name that distinguishes it from parallel links, in results: ``r1>r2#name``."""

    trace: Traces = Field(default_factory=dict)
    """The rates at which the ends send, by node, in place of `rate`; one trace is that of both
    ends."""

    rate: Annotated[Rate | dict[Name, Rate], ByEnd(), BeforeValidator(_rate_of_traces)] = Field(
        default_factory=lambda: _UNWRITTEN, validate_default=True
    )
    """The rate in each direction, including layer-2 overhead; by default the mean rate of the
    repeating traces of both ends."""

    delay: Annotated[Duration | dict[Name, Duration], ByEnd()] = 0
    """The propagation delay."""

    jitter: Annotated[Duration | dict[Name, Duration], ByEnd()] = 0
    """The largest random extra delay of a packet: uniform from zero, order kept."""

    variation: Annotated[Variation | dict[Name, Variation], ByEnd()] | None = None
    """The variation of the delay, with which packets overtake each other; none by default."""

    delay_limit: Annotated[DelayLimit | dict[Name, DelayLimit], ByEnd()] | None = None
    """The packets that the delay holds at the same time; the link drops those that find it full.
    netem's `limit`. No limit by default."""

    loss: Annotated[LinkLoss | dict[Name, LinkLoss], ByEnd()] = 0
    """The probability that a packet is lost on the link, apart from queues; or a model of losses
    that come in bursts, such as ``{gilbert: {mean: 1%, burst: 5}}``. Each direction has losses of
    its own."""

    duplicate: Annotated[Chance | dict[Name, Chance], ByEnd()] = 0
    """The probability that a packet arrives twice."""

    reorder: Annotated[Reorder | dict[Name, Reorder], ByEnd()] | None = None
    """The packets that are delayed and overtaken; none by default."""

    overhead: Annotated[LinkOverhead | dict[Name, LinkOverhead], ByEnd()] = Overhead(0)
    """The layer-2 overhead of every packet: none, ethernet, pos, atm, or bytes."""

    channel: Name | None = None
    """The channel that the link shares with others, of which `rate` is the physical rate; none by
    default: a link of its own."""

    encapsulation: Encapsulation | None = None
    """The VLAN tags (`dot1q`) or MPLS labels (`mpls`) of all packets, each 4 bytes in addition to
    `overhead`; none by default."""

    mtu: Mtu | None = None
    """The longest IP packet, without layer-2 overhead; no limit by default. Routers answer longer
    ones with an ICMP error, because modelled hosts forbid fragmentation."""

    egress: dict[Name, Name] = Field(default_factory=dict)
    """The policies of the ends, by node."""

    queue: Annotated[Queue | dict[Name, Queue], ByEnd()] = LINK_QUEUE
    """The queue of an end without a policy."""

    shape: Annotated[Shapers, Field(default={})]
    """Shapers of the ends, by node."""

    reservable: Reservable | None = None
    """The bandwidth that `perhop reserve` may book, in each direction; none by default."""

    remark: dict[Name, Marking] = Field(default_factory=dict)
    """Remarking of packets that an end receives over the link, by node."""

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """A `rate`, or a `trace` that has one."""
        whole = handler.resolve_ref_schema(handler(schema))
        whole["anyOf"] = [{"required": ["rate"]}, {"required": ["trace"]}]
        return whole

    def capacity(self, node: str) -> int:
        """Return the rate at which `node` can send into the link, in bits per second."""
        rate, shape = of_end(self.rate, node), self.shape.get(node)
        return rate if shape is None else min(rate, shape.rate.of(rate))

    def medium(self, node: str) -> Medium:
        """Return the transmission medium into which `node` sends."""
        overhead = of_end(self.overhead, node, Overhead(0))
        if self.encapsulation is not None:
            overhead = Overhead(overhead.size + self.encapsulation.size, overhead.cells)
        return Medium(
            rate=of_end(self.rate, node),
            delay=of_end(self.delay, node, 0),
            jitter=of_end(self.jitter, node, 0),
            variation=_of_some(self.variation, node),
            delay_limit=_of_some(self.delay_limit, node),
            loss=self.loss.get(node, 0) if isinstance(self.loss, dict) else self.loss,
            duplicate=of_end(self.duplicate, node, 0),
            reorder=_of_some(self.reorder, node),
            overhead=overhead,
        )

    def queue_of(self, node: str) -> Queue:
        """Return the queue of `node` if its end has no policy."""
        return of_end(self.queue, node, LINK_QUEUE)

    @property
    def media(self) -> tuple[Medium, Medium]:
        """The media in both directions, in the order of `ends`."""
        first, second = self.ends
        return self.medium(first), self.medium(second)

    def other(self, node: str) -> str:
        """The end that is not `node`."""
        first, second = self.ends
        return second if node == first else first
