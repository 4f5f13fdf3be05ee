"""Per-hop policies: classes with their marks, policers, shapers and queues."""

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    Field,
    GetJsonSchemaHandler,
    ModelWrapValidatorHandler,
    PrivateAttr,
    SerializerFunctionWrapHandler,
    StrictBool,
    model_serializer,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from perhop.hints import did_you_mean
from perhop.scenario.model.base import Model, with_short_form
from perhop.scenario.model.cake import Framing, FramingBytes
from perhop.scenario.model.cbq import Cbq
from perhop.scenario.model.dscp import Dscp
from perhop.scenario.model.encapsulation import Mark
from perhop.scenario.model.hfsc import Curve
from perhop.scenario.model.htb import HTB, Htb
from perhop.scenario.model.matching import Matching
from perhop.scenario.model.names import Name
from perhop.scenario.model.network import ClassBandwidth
from perhop.scenario.model.quantities import Priority, Quantum, Size
from perhop.scenario.model.queues import CLASS_LIMIT, Queue
from perhop.scenario.model.script import Script
from perhop.units import quote

MAX_CLASSES = 16_384
"""The most classes of all policies, and, nested ones included, at one end of a link."""

MOST_SHARED = 2**48
"""The most that a policy can divide, in bits per second: classes weigh as much as their rates, and
virtual time must not overflow."""

CLASS_QUEUE = Queue.model_construct(limit=CLASS_LIMIT)


class Shape(Model):
    """A token bucket that makes packets wait: in a time t no more leaves than burst + rate · t."""

    rate: ClassBandwidth
    """The rate of tokens, one for each byte of an IP packet: a rate, or a share of the link."""

    burst: Size = 0
    """The size of the bucket in bytes. Without it the bucket is leaky: packets are spaced as on a
    link of `rate`. A packet longer than the burst waits for a full bucket."""


class LinkShape(Shape):
    """A token bucket for all that an end sends into a link: it makes packets wait."""

    overhead: FramingBytes = Framing()
    """The bytes of layer 2 that the bucket counts for each packet: keywords and bytes as for
    `cake`. By default it counts IP packets, whatever the overhead of the link."""


class Action(Model):
    """Action of a policer on packets: ``send``, ``drop``, or ``{remark: DSCP}``."""

    short_form: ClassVar[str] = "`send`, `drop`"

    remark: Dscp | None = None
    """The new DSCP of the packets; without it they are dropped."""

    _sends: bool = PrivateAttr(default=False)

    @property
    def drops(self) -> bool:
        """True if the packets are dropped."""
        return self.remark is None and not self._sends

    @model_validator(mode="wrap")
    @classmethod
    def _from_text(cls, value: object, handler: ModelWrapValidatorHandler[Self]) -> Self:
        if not isinstance(value, str):
            return handler(value)
        if value not in ("send", "drop"):
            message = (
                f"{quote(value)} is not a valid action; expected `send`, `drop` or {{remark: DSCP}}"
            )
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
    """The rate of tokens: a rate, or a share of the link."""

    burst: Size
    """The size of the bucket in bytes."""

    excess_burst: Size | None = None
    """The bytes that may exceed after idle time, in addition to the `burst` that conforms."""

    peak_rate: ClassBandwidth | None = None
    """The rate above which packets violate."""

    peak_burst: Size | None = None
    """The size of the bucket of the peak rate in bytes."""

    overhead: FramingBytes = Framing()
    """The bytes of layer 2 that buckets count for each packet, as `police` of Linux counts 14 B at
    an Ethernet: keywords and bytes as for `cake`. By default buckets count IP packets."""

    colour_aware: StrictBool = False
    """With `true`, the DSCP of a packet limits its colour: AFx2 is yellow at best, AFx3 is red (RFC
    2597)."""

    conform: Action = SEND
    """The action on packets that conform."""

    exceed: Action | None = None
    """The action on packets that exceed; by default `drop`, or `send` if packets can violate."""

    violate: Action | None = None
    """The action on packets that violate; by default `drop`."""

    @property
    def three_colours(self) -> bool:
        """True if packets may violate."""
        return any((self.excess_burst, self.peak_rate, self.peak_burst))

    @property
    def effective_exceed(self) -> Action:
        """The action on packets that exceed."""
        return self.exceed or (SEND if self.three_colours else DROP)

    @property
    def effective_violate(self) -> Action:
        """The action on packets that violate."""
        return self.violate or DROP

    @property
    def actions(self) -> tuple[Action, Action, Action]:
        """The actions on packets that conform, exceed and violate."""
        return self.conform, self.effective_exceed, self.effective_violate

    @property
    def discards(self) -> bool:
        """True if it lets no packet pass: also where its bucket holds less than an IP header."""
        none_conforms = self.conform.drops or self.burst < self.overhead.charge(IP_HEADER)
        return none_conforms and all(
            action.drops for action in self.actions[1 : 3 if self.three_colours else 2]
        )


IP_HEADER = 20
"""The bytes of the shortest IP packet: a bucket that holds less never lets one conform."""

CEILING_BURST = 6000
"""The bytes that a class with a ceiling may send at once: four full packets, to make up for the
time in which other classes' packets are sent."""


class Class(Model):
    """Packets that are treated alike at the end of a link."""

    match: Matching
    """The packets of the class, among those that no earlier class matched."""

    mark: Mark | None = None
    """The marks that packets of the class get after they are classified, before the policer and the
    queue: a DSCP, which a policer's `remark` replaces, or classes at layer 2 on the next link."""

    bandwidth: ClassBandwidth | None = None
    """The guaranteed bandwidth; the class may borrow what others do not use. By default, an equal
    share of the bandwidth that is not guaranteed to others."""

    quantum: Quantum | None = None
    """The bytes that each turn of the class adds to what it may send. With `scheduler: drr`,
    instead of `bandwidth`: classes share in proportion to their quanta. With `link-sharing` and
    `htb`, beside `bandwidth`: they share in this proportion what exceeds the guarantees."""

    realtime: Curve | None = None
    """With `scheduler: hfsc`: the service that is guaranteed, whatever other classes do."""

    linkshare: Curve | None = None
    """With `scheduler: hfsc`: the share of the bandwidth, instead of `bandwidth`."""

    upperlimit: Curve | None = None
    """With `scheduler: hfsc`: the most that sharing gives; `realtime` goes before it."""

    limit: ClassBandwidth | None = None
    """The ceiling of its bandwidth, however much other classes leave unused."""

    borrow: StrictBool = True
    """With `true`, the class may exceed its guarantee."""

    priority: Priority | None = None
    """``strict``: the class is served before every other class. A number from 0, first, to 7: the
    order of borrowing."""

    beside_strict: StrictBool = False
    """With `true` and `link-sharing`: while the class is within its guarantee, it precedes the
    other classes and takes turns with the strict ones, which thus do not starve it."""

    police: Police | None = None
    """A policer before the queue."""

    shape: Shape | None = None
    """A shaper behind the queue."""

    queue: Queue | None = None
    """The queue; by default 64 packets."""

    policy: Name | None = None
    """A policy that divides the bandwidth of the class, instead of a queue."""

    classes: Annotated[dict[Name, "Class"], Field(min_length=1, max_length=MAX_CLASSES)] | None = (
        None
    )
    """Classes that divide the bandwidth of the class, instead of a queue."""

    unused: StrictBool = False
    """With `true`, perhop accepts that no traffic of the scenario matches the class, or that an
    earlier class takes its packets."""

    @property
    def dscp_mark(self) -> int | None:
        """The DSCP that its packets get."""
        return None if self.mark is None else self.mark.dscp

    @property
    def effective_queue(self) -> Queue:
        """The queue, or the default one."""
        return self.queue or CLASS_QUEUE

    @property
    def discards(self) -> bool:
        """True if its policer drops every packet, so that it needs no bandwidth."""
        return self.police is not None and self.police.discards

    @property
    def borrows_late(self) -> bool:
        """True if its priority is a number."""
        return isinstance(self.priority, int)


Scheduler = Literal["wfq", "drr", "priority", "link-sharing", "hfsc", "htb", "altq-cbq"]
"""The schedulers of classes that are not strict."""


FROM = "from"
"""The key of a policy that refers to the configuration of a router."""


class PolicyReference(Model):
    """A policy in the configuration of a router; reading a scenario replaces it by that policy."""

    file: str = Field(alias=FROM)
    """The file with the configuration, in the folder of the scenario or below."""

    interface: str | None = None
    """The interface with the policy, such as ``GigabitEthernet0/1`` or ``Gi0/1``; by default the
    only one with a policy."""

    direction: Literal["in", "out"] | None = None
    """The direction of the policy; by default the interface's only one, or ``out``."""

    policy: str | None = None
    """The name of the policy, for one that no interface uses."""

    family: str | None = None
    """The family of the configuration; by default it is detected."""


class Policer(Model):
    """A policer before the classes of a policy: one bucket for packets of any class."""

    match: Matching
    """The packets that the policer measures."""

    police: Police
    """Its bucket and its actions. A new DSCP counts for later policers and for the classes."""


class Policy(Model):
    """Traffic classes at an end of a link; the first class that a packet matches decides."""

    short_form: ClassVar[str] = "`{from: FILE}`"

    scheduler: Scheduler | None = None
    """Scheduler of the classes that are not strict. `wfq`, the default: weighted fair queueing
    (WF2Q+). `drr`: deficit round robin. `priority`: in the order of the classes. `link-sharing`:
    guarantees first, then borrowing by `priority`; the default if a class has a number there,
    `beside_strict`, or a `quantum` beside its `bandwidth`.
    `hfsc`: hierarchical fair service curves. `htb`: hierarchical token buckets as in Linux.
    `altq-cbq`: ALTQ's class-based queueing."""

    cbq: Cbq | None = None
    """Settings of ALTQ's class-based queueing."""

    htb: Htb | None = None
    """Settings of hierarchical token buckets."""

    overhead: FramingBytes = Framing()
    """The bytes of layer 2 that shares, quanta, curves and ceilings of its classes count for each
    packet: keywords and bytes as for `cake`. By default they count IP packets, whatever the
    overhead of the link. With `scheduler: htb` it is a setting of `htb`."""

    policers: Annotated[dict[Name, Policer], Field(max_length=1024, default_factory=dict)]
    """Policers before the classes, in the order in which they measure packets. What one drops
    reaches no later one and no class."""

    classes: Annotated[dict[Name, Class], Field(min_length=1, max_length=MAX_CLASSES)]
    """The classes in the order of matching; the last one matches ``any``."""

    unused: StrictBool = False
    """With `true`, perhop does not warn if no link uses the policy; `perhop lab policy` can attach
    it."""

    notes: Annotated[tuple[str, ...], Field(max_length=100)] = ()
    """Remarks about the policy, such as lines of a configuration that it leaves out; each is a
    warning of a run."""

    script: Script | None = None
    """The commands of Linux that the policy was read from; the kernel engine runs them."""

    def strict(self, class_: Class) -> bool:
        """Return whether a class of this policy is strict: served before all classes after it."""
        return class_.priority == "strict" or self.scheduler == "priority"

    @property
    def has_quanta(self) -> bool:
        """True if its classes that are not strict share by deficit round robin with quanta."""
        return self.scheduler == "drr" and any(
            class_.quantum is not None for class_ in self.classes.values()
        )

    @property
    def effective_scheduler(self) -> Scheduler:
        """The scheduler, or the default one."""
        if self.scheduler is not None:
            return self.scheduler
        late = any(
            class_.borrows_late
            or class_.beside_strict
            or (class_.quantum is not None and class_.bandwidth is not None)
            for class_ in self.classes.values()
        )
        return "link-sharing" if late else "wfq"

    def root(self, capacity: int) -> int:
        """Return the bandwidth that the policy divides, in bit/s, on a link of `capacity`."""
        own = self.htb if self.scheduler == HTB else self.cbq
        return capacity if own is None or own.rate is None else own.rate

    def inside(self, class_: Class) -> "Policy | None":
        """Return the policy that the `classes` of a class form.

        Its scheduler and its overhead are those of this one.
        """
        if class_.classes is None:
            return None
        return Policy.model_construct(
            scheduler=self.scheduler, overhead=self.overhead, policers={}, classes=class_.classes
        )
