"""The scenario: what is connected to what, who sends what, and what each class is promised.

Read it from the bottom: a `Scenario` has nodes, links between them, policies at the links' ends,
flows and pings across them, and what is expected of the run. Files say everything in text with
units; the model holds whole numbers of base units (see `perhop.units`).

Models are frozen. A model made in Python takes the same text that a file does, under the same
names: ``Link(ends=("a", "b"), rate="10 Mbps")``.
"""

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Network
from itertools import count, pairwise
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    BeforeValidator,
    Field,
    GetJsonSchemaHandler,
    ModelWrapValidatorHandler,
    PrivateAttr,
    SerializerFunctionWrapHandler,
    StrictBool,
    ValidationInfo,
    model_serializer,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from perhop.scenario.base import Model, with_short_form
from perhop.scenario.dscp import Dscp
from perhop.scenario.expectations import Expectation, Published
from perhop.scenario.names import Address, MatchEnd, Name
from perhop.scenario.network import ClassBandwidth, LinkOverhead, MatchPorts, Overhead
from perhop.scenario.quantities import (
    DatagramSize,
    Duration,
    EchoSize,
    Loss,
    Port,
    PositiveDuration,
    Priority,
    Rate,
    Size,
    Streams,
    Version,
)
from perhop.scenario.queues import CLASS_LIMIT, LINK_LIMIT, Queue, one_or_more
from perhop.scenario.tcp import Tcp
from perhop.scenario.text import did_you_mean
from perhop.scenario.validation import validate
from perhop.units import SECOND, quote

FIRST_PORT = 5001
"""The receiver's port of the first flow that names none; the next flow's is one more."""


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
CLASS_QUEUE = Queue.model_construct(limit=CLASS_LIMIT)


class Shape(Model):
    """A token bucket that makes packets wait: in a time t no more leaves than burst + rate · t."""

    rate: ClassBandwidth
    """How fast tokens come, one for each byte of an IP packet: a rate, or a share of the link."""

    burst: Size = 0
    """How many bytes the full bucket holds; without one the bucket is leaky, and packets are spaced
    as a link of `rate` spaces them. A packet longer than the burst waits for a full bucket."""


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

    overhead: LinkOverhead = Overhead(0)
    """What layer 2 adds to every packet: none, ethernet, pos, atm, or bytes."""

    egress: dict[Name, Name] = Field(default_factory=dict)
    """The policy by which an end sends into the link, by node."""

    queue: Queue = LINK_QUEUE
    """The queue of an end that has no policy."""

    shape: Annotated[dict[Name, Shape], Field(default={})]
    """What an end sends into the link at most, by node."""

    def capacity(self, node: str) -> int:
        """What `node` can send into the link, in bits per second."""
        shape = self.shape.get(node)
        return self.rate if shape is None else min(self.rate, shape.rate.of(self.rate))

    def other(self, node: str) -> str:
        """The end that is not `node`."""
        first, second = self.ends
        return second if node == first else first


class Match(Model):
    """Which packets belong to a class: those that meet every condition given.

    A condition that is a list is met by any of its elements. No condition at all, written ``any``,
    matches every packet.
    """

    short_form: ClassVar[str] = "`any`"

    dscp: Annotated[tuple[Dscp, ...] | None, BeforeValidator(one_or_more)] = None
    """Code points: names such as ``cs1``, ``af11``, ``ef``, ``le``, or numbers from 0 to 63."""

    protocol: Annotated[
        tuple[Literal["tcp", "udp", "icmp"], ...] | None, BeforeValidator(one_or_more)
    ] = None
    """Protocols."""

    port: Annotated[tuple[MatchPorts, ...] | None, BeforeValidator(one_or_more)] = None
    """Ports of either side, singly or as ranges."""

    source_port: Annotated[tuple[MatchPorts, ...] | None, BeforeValidator(one_or_more)] = None
    """Ports of the packet's sender."""

    destination_port: Annotated[tuple[MatchPorts, ...] | None, BeforeValidator(one_or_more)] = None
    """Ports of the packet's receiver."""

    source: Annotated[tuple[MatchEnd, ...] | None, BeforeValidator(one_or_more)] = None
    """Where the packet comes from: nodes, or address prefixes."""

    destination: Annotated[tuple[MatchEnd, ...] | None, BeforeValidator(one_or_more)] = None
    """Where the packet goes to: nodes, or address prefixes."""

    @property
    def is_any(self) -> bool:
        """Whether every packet matches."""
        return all(getattr(self, name) is None for name in type(self).model_fields)

    @model_serializer(mode="wrap")
    def _to_text(self, handler: SerializerFunctionWrapHandler) -> Any:
        if self.is_any:
            return "any"
        written = handler(self)
        return {
            key: value[0] if isinstance(value, (list, tuple)) and len(value) == 1 else value
            for key, value in written.items()
        }

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """``any``, or conditions, each one value or a list."""
        whole = with_short_form(schema, handler, {"const": "any"})
        conditions = whole["anyOf"][1]
        conditions["minProperties"] = 1
        for condition in conditions["properties"].values():
            lists = next(form for form in condition.pop("anyOf") if form.get("type") == "array")
            condition["anyOf"] = [lists["items"], {**lists, "minItems": 1}]
        return whole


def _match_from_text(value: object) -> object:
    """``any`` is the match without conditions; a mapping must have one."""
    if isinstance(value, str):
        if value != "any":
            hint = did_you_mean(value, ["any"])
            message = f"{quote(value)} is no match; expected `any` or conditions like {{dscp: cs1}}"
            raise ValueError(f"{message}; {hint}" if hint else message)
        return {}
    if value == {}:
        raise ValueError("has no condition; expected one such as {dscp: cs1}, or `any`")
    return value


class Action(Model):
    """What a policer does with packets: ``send``, ``drop``, or ``{remark: DSCP}``."""

    short_form: ClassVar[str] = "`send`, `drop`"

    remark: Dscp | None = None
    """The DSCP that they get; without one they are dropped."""

    _sends: bool = PrivateAttr(default=False)

    @property
    def drops(self) -> bool:
        """Whether the packets go no further."""
        return self.remark is None and not self._sends

    @model_validator(mode="wrap")
    @classmethod
    def _from_text(cls, value: object, handler: ModelWrapValidatorHandler[Self]) -> Self:
        if not isinstance(value, str):
            return handler(value)
        if value not in ("send", "drop"):
            message = f"{quote(value)} is no action; expected `send`, `drop` or {{remark: DSCP}}"
            hint = did_you_mean(value, ["send", "drop"])
            raise ValueError(f"{message}; {hint}" if hint else message)
        action = handler({})
        action._sends = value == "send"
        return action

    @model_serializer(mode="wrap")
    def _to_text(self, handler: SerializerFunctionWrapHandler) -> Any:
        if self.remark is not None:
            return handler(self)
        return "drop" if self.drops else "send"

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """``send``, ``drop``, or a remark."""
        whole = with_short_form(schema, handler, {"enum": ["send", "drop"]})
        whole["anyOf"][1]["required"] = ["remark"]
        return whole


DROP = Action.model_validate("drop")
SEND = Action.model_validate("send")


class Police(Model):
    """A token bucket that packets of a class must pass: above `rate` only `burst` conforms.

    With `excess_burst` it is the single-rate three-colour marker of RFC 2697, with `peak_rate` and
    `peak_burst` the two-rate one of RFC 2698: packets conform, exceed or violate.
    """

    rate: ClassBandwidth
    """How fast tokens come: a rate, or a share of the link."""

    burst: Size
    """How many bytes the full bucket holds."""

    excess_burst: Size | None = None
    """How many bytes may exceed after a silence, beside the `burst` that conforms."""

    peak_rate: ClassBandwidth | None = None
    """The rate above which packets violate."""

    peak_burst: Size | None = None
    """How many bytes the bucket of the peak rate holds."""

    colour_aware: StrictBool = False
    """Whether a packet is never better than its mark: AFx2 exceeds, AFx3 violates (RFC 2597)."""

    conform: Action = SEND
    """What happens to the packets that find enough tokens."""

    exceed: Action | None = None
    """What happens to the packets that find too few; by default they are dropped, or, where others
    violate, sent."""

    violate: Action | None = None
    """What happens to the packets that violate; by default they are dropped."""

    @property
    def three_colours(self) -> bool:
        """Whether packets may violate."""
        return any((self.excess_burst, self.peak_rate, self.peak_burst))

    @property
    def effective_exceed(self) -> Action:
        """What happens to the packets that exceed."""
        return self.exceed or (SEND if self.three_colours else DROP)

    @property
    def effective_violate(self) -> Action:
        """What happens to the packets that violate."""
        return self.violate or DROP

    @property
    def actions(self) -> tuple[Action, Action, Action]:
        """What happens to the packets that conform, exceed and violate."""
        return self.conform, self.effective_exceed, self.effective_violate


CEILING_BURST = 6000
"""What a class with a ceiling may send at once, in bytes: four full packets, so that it can make up
for the time that others' packets take from it."""


class Class(Model):
    """Packets that are treated alike at the end of a link."""

    match: Annotated[Match, BeforeValidator(_match_from_text)]
    """Which packets belong to it, among those that no earlier class matched."""

    bandwidth: ClassBandwidth | None = None
    """What it is guaranteed; it may borrow what others leave. By default, an equal part of what the
    classes with a bandwidth leave."""

    limit: ClassBandwidth | None = None
    """What it may not exceed, whatever others leave (a ceiling)."""

    borrow: StrictBool = True
    """Whether it may have more than it is guaranteed."""

    priority: Priority | None = None
    """``strict``: its packets go before those of every other class. A number from 0, first, to 7:
    when it may borrow what others leave."""

    police: Police | None = None
    """A limit on what may enter its queue."""

    shape: Shape | None = None
    """A limit on what may leave it, more of which waits."""

    queue: Queue | None = None
    """Its queue; by default 64 packets."""

    policy: Name | None = None
    """A policy that divides its bandwidth further, instead of a queue."""

    classes: Annotated[dict[Name, "Class"], Field(min_length=1, max_length=64)] | None = None
    """Classes that divide its bandwidth further, instead of a queue."""

    unused: StrictBool = False
    """Whether no packet of the scenario has to match it."""

    @property
    def effective_queue(self) -> Queue:
        """The queue, or the default one."""
        return self.queue or CLASS_QUEUE

    @property
    def borrows_late(self) -> bool:
        """Whether its priority is a number."""
        return isinstance(self.priority, int)


class Policy(Model):
    """How the end of a link treats packets, class by class; the first match decides."""

    scheduler: Literal["wfq", "drr", "priority", "link-sharing"] | None = None
    """How classes that are not strict share: by weighted fair queueing (WF2Q+) unless set; by
    deficit round robin; by priority, in their order; or guarantees first and the rest by their
    `priority`, which is the default where one of them has a number."""

    classes: Annotated[dict[Name, Class], Field(min_length=1, max_length=64)]
    """The classes in the order of matching; the last one matches ``any``."""

    def strict(self, part: Class) -> bool:
        """Whether a class of this policy goes before those after it, rather than sharing."""
        return part.priority == "strict" or self.scheduler == "priority"

    @property
    def effective_scheduler(self) -> str:
        """The scheduler, or the default one."""
        if self.scheduler is not None:
            return self.scheduler
        late = any(part.borrows_late for part in self.classes.values())
        return "link-sharing" if late else "wfq"

    def inside(self, part: Class) -> "Policy | None":
        """The policy that the `classes` of a class make; its scheduler is this one's."""
        if part.classes is None:
            return None
        return Policy.model_construct(scheduler=self.scheduler, classes=part.classes)


class Udp(Model):
    """A constant stream of datagrams."""

    rate: Rate
    """Payload bits per second, headers not counted."""

    size: DatagramSize = 1470
    """The payload of a datagram."""

    ecn: Literal["ect0", "ect1"] | None = None
    """What its packets say of ECN (RFC 3168): that routers may mark them, and, with ``ect1``, that
    they belong in the queue for L4S (RFC 9331). The application takes no notice of marks."""


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
    """ICMP echo requests at regular times; a reply carries the code point of its request."""

    source: Name = Field(alias="from")
    """The host that asks."""

    destination: Name = Field(alias="to")
    """The host that answers."""

    dscp: Dscp = 0
    """The code point of requests and replies."""

    every: PositiveDuration = SECOND
    """The time between two requests."""

    size: EchoSize = 56
    """The payload of a request."""

    start: Duration = 0
    """When the first request is sent."""

    stop: Duration | None = None
    """When the requests end; by default the end of the scenario."""


class Report(Model):
    """How results are laid out."""

    interval: PositiveDuration = SECOND
    """The time between two reports of a flow."""


class Scenario(Model):
    """An experiment: a network, what is sent across it and when, and what should come of it.

    However it is made, from a file or in Python, a scenario that exists is sound: names refer to
    something, hosts reach each other, classes can be reached, and times lie in the scenario.

    Raises:
        ScenarioError: On construction, with everything that is wrong.
    """

    perhop: Version
    """The version of the scenario format."""

    name: Name
    """What the scenario is called in commands and results."""

    title: str = ""
    """One line for the head of a report."""

    source: str = ""
    """Where the experiment was published."""

    description: str = ""
    """What the experiment shows, what is assumed, and where results may differ and why."""

    nodes: Annotated[dict[Name, Node], Field(min_length=1, max_length=1000)]
    """Hosts and routers by name."""

    links: Annotated[tuple[Link, ...], Field(max_length=2000)]
    """What connects them."""

    policies: Annotated[dict[Name, Policy], Field(max_length=100)] = Field(default_factory=dict)
    """How links' ends treat packets, by name."""

    flows: Annotated[dict[Name, Flow], Field(max_length=1000)]
    """Who sends what, by name."""

    pings: Annotated[dict[Name, Ping], Field(max_length=1000)] = Field(default_factory=dict)
    """Who measures round trips, by name."""

    duration: PositiveDuration | None = None
    """How long it lasts; by default until the last flow or ping stops."""

    report: Report = Report()
    """How results are laid out."""

    expect: Annotated[tuple[Expectation, ...], Field(max_length=1000)] = ()
    """What must come of it."""

    published: Annotated[tuple[Published, ...], Field(max_length=1000)] = ()
    """What a document says came of it."""

    @model_validator(mode="wrap")
    @classmethod
    def _sound(
        cls, data: Any, handler: ModelWrapValidatorHandler[Self], info: ValidationInfo
    ) -> Self:
        return validate(cls, data, handler, info.context)

    @property
    def end_ps(self) -> int:
        """When the scenario ends, in picoseconds: its `duration`, or the last stop."""
        if self.duration is not None:
            return self.duration
        senders: list[Flow | Ping] = [*self.flows.values(), *self.pings.values()]
        return max((sender.stop for sender in senders if sender.stop is not None), default=0)

    @property
    def changes_ps(self) -> list[int]:
        """When flows start or stop, sorted, each instant once, from 0 to the end."""
        spans = [self.active_ps(flow) for flow in self.flows.values()]
        return sorted({instant for span in spans for instant in span})

    @property
    def phases_ps(self) -> list[tuple[int, int]]:
        """The stretches between changes, from 0 to the end: in each, the same flows are active."""
        instants = sorted({0, *self.changes_ps, self.end_ps})
        return list(pairwise(instants))

    @property
    def marks_ps(self) -> list[int]:
        """Where results are cut, sorted, each instant once, from 0 to the end.

        The report's grid, every change, and both edges of every stretch that an expectation or a
        published figure is about, so that each such stretch is a union of results.
        """
        measured = (*self.expect, *self.published)
        edges = (edge for item in measured if item.during for edge in item.during)
        grid = range(0, self.end_ps, self.report.interval)
        return sorted({*grid, *self.changes_ps, *edges, self.end_ps})

    @property
    def directions(self) -> dict[str, tuple[Link, str]]:
        """Both directions of every link by their names in results: the link, and who sends.

        The direction in which r1 sends to r2 is ``r1>r2``; of a link with a name ``r1>r2#name``, of
        the second one without a name between them ``r1>r2#2``.
        """
        found: dict[str, tuple[Link, str]] = {}
        numbers: dict[frozenset[str], int] = {}
        for link in self.links:
            number = numbers[frozenset(link.ends)] = numbers.get(frozenset(link.ends), 0) + 1
            which = f"#{link.name or number}" if link.name or number > 1 else ""
            found |= {f"{end}>{link.other(end)}{which}": (link, end) for end in link.ends}
        return found

    def active_ps(self, sender: Flow | Ping) -> tuple[int, int]:
        """When `sender` starts and, at the latest, stops."""
        return sender.start, self.end_ps if sender.stop is None else sender.stop

    def address_of(self, node: str) -> IPv4Address:
        """The address of `node`: its own, or the one it gets by its place in the file."""
        return self.addresses[node]

    @property
    def addresses(self) -> dict[str, IPv4Address]:
        """The address of every node."""
        taken = {node.address for node in self.nodes.values() if node.address}
        free = (a for a in map(_FIRST_ADDRESS.__add__, count()) if a not in taken)
        return {name: node.address or next(free) for name, node in self.nodes.items()}

    def prefixes(
        self, ends: tuple[str | IPv4Network | IPv6Network, ...]
    ) -> tuple[IPv4Network | IPv6Network, ...]:
        """The address prefixes of a match's `ends`, nodes replaced by their address."""
        addresses = self.addresses
        return tuple(IPv4Network(addresses[e]) if isinstance(e, str) else e for e in ends)

    def all_policies(self) -> Iterator[tuple[tuple[str, ...], Policy]]:
        """Every policy, and every one that the `classes` of a class make, with its place."""
        todo: list[tuple[tuple[str, ...], Policy]]
        todo = [((name,), policy) for name, policy in self.policies.items()]
        while todo:
            path, policy = todo.pop(0)
            yield ("policies", path[0], "classes", *path[1:]), policy
            for key, part in policy.classes.items():
                inside = policy.inside(part)
                if inside is not None:
                    todo.append(((*path, key, "classes"), inside))

    def divided(self, policy: Policy, part: Class) -> Policy | None:
        """The policy that divides a class of `policy`; None if it has a queue."""
        if part.policy is not None:
            return self.policies.get(part.policy)
        return policy.inside(part)

    def port_of(self, flow: str) -> int:
        """The receiver's port of `flow`: its own, or the one it gets by its place in the file."""
        own = self.flows[flow].port
        return FIRST_PORT + list(self.flows).index(flow) if own is None else own


_FIRST_ADDRESS = IPv4Address("10.0.0.1")
