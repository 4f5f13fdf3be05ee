"""Per-hop policies: classes, what matches them, and what each may send."""

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    BeforeValidator,
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
from perhop.scenario.model.cbq import Cbq
from perhop.scenario.model.dscp import Dscp
from perhop.scenario.model.names import MatchEnd, Name
from perhop.scenario.model.network import ClassBandwidth, MatchPorts
from perhop.scenario.model.quantities import Priority, Size
from perhop.scenario.model.queues import CLASS_LIMIT, Queue, one_or_more
from perhop.units import quote

CLASS_QUEUE = Queue.model_construct(limit=CLASS_LIMIT)


class Shape(Model):
    """A token bucket that makes packets wait: in a time t no more leaves than burst + rate · t."""

    rate: ClassBandwidth
    """How fast tokens come, one for each byte of an IP packet: a rate, or a share of the link."""

    burst: Size = 0
    """How many bytes the full bucket holds; without one the bucket is leaky, and packets are spaced
    as a link of `rate` spaces them. A packet longer than the burst waits for a full bucket."""


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


def match_from_text(value: object) -> object:
    """``any`` is the match without conditions; a mapping must have one."""
    if isinstance(value, str):
        if value != "any":
            hint = did_you_mean(value, ["any"])
            expected = "expected `any` or conditions like {dscp: cs1}"
            message = f"{quote(value)} is not a valid match; {expected}"
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

    match: Annotated[Match, BeforeValidator(match_from_text)]
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

    classes: Annotated[dict[Name, "Class"], Field(min_length=1, max_length=1024)] | None = None
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


Scheduler = Literal["wfq", "drr", "priority", "link-sharing", "altq-cbq"]
"""How classes share."""


class Policy(Model):
    """How the end of a link treats packets, class by class; the first match decides."""

    scheduler: Scheduler | None = None
    """How classes that are not strict share: by weighted fair queueing (WF2Q+) unless set; by
    deficit round robin; by priority, in their order; guarantees first and the rest by their
    `priority`, which is the default where one of them has a number; or as ALTQ's class-based
    queueing does."""

    cbq: Cbq | None = None
    """Settings of ALTQ's class-based queueing."""

    classes: Annotated[dict[Name, Class], Field(min_length=1, max_length=1024)]
    """The classes in the order of matching; the last one matches ``any``."""

    unused: StrictBool = False
    """Whether no link uses it, and that is intended: `perhop lab policy` may put it on one."""

    def strict(self, class_: Class) -> bool:
        """Whether a class of this policy goes before those after it, rather than sharing."""
        return class_.priority == "strict" or self.scheduler == "priority"

    @property
    def effective_scheduler(self) -> Scheduler:
        """The scheduler, or the default one."""
        if self.scheduler is not None:
            return self.scheduler
        late = any(class_.borrows_late for class_ in self.classes.values())
        return "link-sharing" if late else "wfq"

    def root(self, capacity: int) -> int:
        """What there is to share of `capacity`, in bits per second."""
        return capacity if self.cbq is None or self.cbq.rate is None else self.cbq.rate

    def inside(self, class_: Class) -> "Policy | None":
        """The policy that the `classes` of a class make; its scheduler is this one's."""
        if class_.classes is None:
            return None
        return Policy.model_construct(scheduler=self.scheduler, classes=class_.classes)
