"""Queues: their limits, and the disciplines that drop or mark packets before they are full."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, Field, GetJsonSchemaHandler, StrictBool
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from perhop.scenario.model.base import Model
from perhop.scenario.model.cake import Cake
from perhop.scenario.model.disciplines import DisciplineModel
from perhop.scenario.model.dscp import DSCP_NAMES, Dscp
from perhop.scenario.model.network import Limit, QueueLimit
from perhop.scenario.model.quantities import (
    Coupling,
    Duration,
    FlowQueues,
    PacketSize,
    PositiveDuration,
    Share,
)
from perhop.units import MILLISECOND

_MICROSECOND: Final = MILLISECOND // 1000
_TENTH: Final = 10**8


def one_or_more(value: object) -> object:
    """Return a list; a scalar becomes a list of one, and an empty list is an error."""
    if isinstance(value, (list, tuple)) and not value:
        raise ValueError("is empty; expected one or more")
    return value if value is None or isinstance(value, (list, tuple)) else [value]


class Red(DisciplineModel):
    """Random early detection (Floyd and Jacobson, 1993).

    The probability of a drop or mark rises with the average length of the queue.
    """

    usual_limit = Limit(1000, "packets")
    random = True

    min: QueueLimit = Limit(5, "packets")
    """The average length from which packets are dropped or marked."""

    max: QueueLimit | None = None
    """The average length at which `probability` is reached; by default three times `min`."""

    probability: Share = _TENTH
    """The probability of a drop or mark at `max`."""

    weight: Share = 2_000_000
    """The weight of the current length in the average."""

    gentle: StrictBool = True
    """With `true`, the drop probability rises to 1 between `max` and twice `max`. With `false`, all
    packets above `max` are dropped."""

    ecn: StrictBool = True
    """With `true`, ECN-capable packets are marked instead of dropped at random."""

    harddrop: StrictBool = True
    """With `true`, ECN-capable packets are dropped, and not marked, where all packets are dropped
    (RFC 3168, section 7)."""

    packet: PacketSize = 1000
    """The size of a typical packet: the unit of idle time, and of lengths if thresholds are in
    bytes."""

    @property
    def effective_max(self) -> Limit:
        """The upper threshold: `max`, or its default."""
        return self.max or Limit(3 * self.min.amount, self.min.unit)

    def aim(self, limit: Limit) -> Limit:
        """Return the average length from which packets are dropped."""
        del limit
        return self.min


class WredProfile(Model):
    """The thresholds of some code points."""

    dscp: Annotated[tuple[Dscp, ...], BeforeValidator(one_or_more)]
    """The code points."""

    min: QueueLimit
    """The average length from which some of their packets are dropped."""

    max: QueueLimit
    """The average length from which all of their packets are dropped."""

    probability: Share = _TENTH
    """The probability of a drop just below `max`."""

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """One code point, or a list."""
        whole = handler.resolve_ref_schema(handler(schema))
        lists = whole["properties"]["dscp"]
        text = {key: lists.pop(key) for key in ("description", "title") if key in lists}
        whole["properties"]["dscp"] = {**text, "anyOf": [lists["items"], {**lists, "minItems": 1}]}
        return whole


class Wred(DisciplineModel):
    """RED with thresholds for each code point, and the defaults of Cisco's IOS."""

    usual_limit = Limit(64, "packets")
    random = True

    by: Literal["precedence", "dscp"] = "precedence"
    """The defaults of the thresholds: those of `random-detect` (by precedence), or of
    `random-detect dscp-based`."""

    profiles: Annotated[tuple[WredProfile, ...], Field(default=(), max_length=64)]
    """Thresholds that replace the defaults."""

    weight: Share = 10**9 // 512
    """The weight of the current length in the average: 2 to the power of -9."""

    ecn: StrictBool = False
    """With `true`, ECN-capable packets are marked instead of dropped at random."""

    packet: PacketSize = 1000
    """The size of a typical packet: the unit of idle time, and of lengths if thresholds are in
    bytes."""


class _Codel(DisciplineModel):
    """The settings that CoDel and FQ-CoDel share."""

    target: PositiveDuration = 5 * MILLISECOND
    """The acceptable standing delay."""

    interval: PositiveDuration = 100 * MILLISECOND
    """The time for which the delay must exceed `target` before packets are dropped or marked; a
    long round-trip time."""

    ecn: StrictBool = True
    """With `true`, ECN-capable packets are marked instead of dropped."""

    def aim(self, limit: Limit) -> Limit:
        """Return the target of the delay."""
        del limit
        return Limit(self.target, "time")


class Codel(_Codel):
    """Controlled delay (RFC 8289)."""

    usual_limit = Limit(1000, "packets")
    random = False


class FqCodel(_Codel):
    """Flow queues, each with CoDel, served by deficit round robin (RFC 8290)."""

    usual_limit = Limit(10240, "packets")
    random = True

    flows: FlowQueues = 1024
    """The number of queues, to which flows are assigned by a hash."""

    quantum: PacketSize = 1514
    """The bytes that a queue sends in a round."""

    standing: Literal["all", "flow"] = "all"
    """The backlog that must exceed one packet before a delay counts: that of all queues together,
    as in Linux, or that of the flow's own queue, as in the text of the RFC."""


class Pie(DisciplineModel):
    """Proportional integral controller enhanced (RFC 8033)."""

    usual_limit = Limit(1000, "packets")
    random = True

    target: PositiveDuration = 15 * MILLISECOND
    """The target of the delay."""

    update: PositiveDuration = 15 * MILLISECOND
    """The time between two updates of the probability."""

    burst: Duration = 150 * MILLISECOND
    """The time after an uncongested period in which no packets are dropped early."""

    ecn: StrictBool = True
    """With `true`, ECN-capable packets are marked instead of dropped, up to a probability of
    0.1."""

    def aim(self, limit: Limit) -> Limit:
        """Return the target of the delay."""
        del limit
        return Limit(self.target, "time")


class FqPie(Pie):
    """Flow queues, each with PIE, served by deficit round robin (draft-tahiliani-tsvwg-fq-pie)."""

    usual_limit = Limit(10240, "packets")

    flows: FlowQueues = 1024
    """The number of queues, to which flows are assigned by a hash."""

    quantum: PacketSize = 1514
    """The bytes that a queue sends in a round."""


class Sfq(DisciplineModel):
    """Stochastic fairness queueing (McKenney, 1990), as in Linux: flow queues that take turns."""

    usual_limit = Limit(127, "packets")
    random = True

    depth: FlowQueues = 127
    """The most packets of one queue."""

    flows: FlowQueues = 127
    """The most queues that hold packets at a time."""

    divisor: FlowQueues = 1024
    """The number of values of the hash that assigns flows to queues."""

    quantum: PacketSize = 1514
    """The bytes that a queue sends in a round."""

    perturb: Duration = 0
    """The time after which the hash changes; never with 0 s."""

    drop: Literal["tail", "head"] = "tail"
    """The packet that the longest queue drops when all are full: its last, or its first."""


class DualPi2(DisciplineModel):
    """Two coupled queues, one kept short for L4S packets: ECT(1) and CE (RFC 9332)."""

    usual_limit = Limit(250 * MILLISECOND, "time")
    random = False

    target: PositiveDuration = 15 * MILLISECOND
    """The target of the Classic queue's delay."""

    max_rtt: PositiveDuration = 100 * MILLISECOND
    """The maximum round-trip time that is expected."""

    coupling: Coupling = 2
    """The factor between the square root of the Classic drop probability and the marking
    probability of L4S packets."""

    threshold: Duration = 800 * _MICROSECOND
    """The delay of the L4S queue from which its packets are marked."""

    range: Duration = 400 * _MICROSECOND
    """The further delay at which all L4S packets are marked; 0 s for a step."""

    classic_share: Share = 62_500_000
    """The Classic queue's share of the link while both queues have packets: 1/16."""

    def aim(self, limit: Limit) -> Limit:
        """Return the target of the delay."""
        del limit
        return Limit(self.target, "time")


@dataclass(frozen=True, slots=True)
class Threshold:
    """Thresholds of WRED in packets."""

    min: int
    max: int


def wred_defaults(by: str, *, in_class: bool) -> Mapping[int, Threshold]:
    """Return the lower and upper threshold of each code point in IOS, in packets.

    By precedence, the lower ones of precedence 5 to 7 are one less in a class than at an interface.
    By DSCP, assured forwarding goes by drop precedence, and code points without a row of their own
    (IOS command reference, `random-detect dscp`) are treated as best effort.
    """
    if by == "precedence":
        lower = [20, 22, 24, 26, 28, 31 - in_class, 33 - in_class, 35 - in_class]
        return {dscp: Threshold(lower[dscp >> 3], 40) for dscp in range(64)}
    rows = {DSCP_NAMES[f"cs{c}"]: 20 + 2 * c for c in range(1, 8)} | {DSCP_NAMES["ef"]: 36}
    for drop, low in ((1, 32), (2, 28), (3, 24)):
        rows |= {DSCP_NAMES[f"af{c}{drop}"]: low for c in range(1, 5)}
    return {dscp: Threshold(rows.get(dscp, 20), 40) for dscp in range(64)}


Discipline = Red | Wred | Codel | FqCodel | Cake | Pie | FqPie | Sfq | DualPi2
"""The union of all disciplines. A function that handles each of them ends in `assert_never`."""


class Queue(Model):
    """A queue that serves in order of arrival, unless its discipline has another order.

    It has one discipline at most; without one it drops packets only when it is full.
    """

    limit: QueueLimit | None = None
    """The limit in packets, bytes, or the time to drain at the guaranteed rate. The default depends
    on the discipline; a queue without one holds 1000 packets, in a class 64."""

    drop: Literal["tail", "head"] = "tail"
    """The packet that a full queue drops: the arriving one, or the one at its head."""

    red: Red | None = None
    """Random early detection; 1000 packets."""

    wred: Wred | None = None
    """RED by code point; 64 packets."""

    codel: Codel | None = None
    """CoDel; 1000 packets."""

    fq_codel: FqCodel | None = Field(default=None, alias="fq-codel")
    """FQ-CoDel; 10240 packets."""

    cake: Cake | None = None
    """CAKE; four times the bytes of a round trip."""

    pie: Pie | None = None
    """PIE; 1000 packets."""

    fq_pie: FqPie | None = Field(default=None, alias="fq-pie")
    """FQ-PIE; 10240 packets."""

    sfq: Sfq | None = None
    """SFQ; 127 packets."""

    dualpi2: DualPi2 | None = None
    """DualPI2; 250 ms."""

    @property
    def discipline(self) -> Discipline | None:
        """The discipline; None for a queue that drops only what it cannot hold."""
        return next(iter(self.disciplines.values()), None)

    @property
    def disciplines(self) -> dict[str, Discipline]:
        """The disciplines that are set, by their keys in files."""
        found = {word: getattr(self, name) for word, name in DISCIPLINES.items()}
        return {word: value for word, value in found.items() if value is not None}

    def effective_limit(self, *, in_class: bool) -> Limit:
        """Return the limit, or its default, which for plain queues depends on where they are.

        Args:
            in_class: True for a class's queue, false for a link's.
        """
        if self.limit is not None:
            return self.limit
        if self.discipline is not None:
            return self.discipline.default_limit()
        return CLASS_LIMIT if in_class else LINK_LIMIT


# Every field but these two, so that a new discipline cannot be overlooked.
DISCIPLINES: Final[Mapping[str, str]] = {
    field.alias or name: name
    for name, field in Queue.model_fields.items()
    if name not in ("limit", "drop")
}
"""The fields of `Queue` that hold disciplines, by the keys of files."""

LINK_LIMIT: Final = Limit(1000, "packets")
"""The limit of a link's queue without a discipline."""

CLASS_LIMIT: Final = Limit(64, "packets")
"""The limit of a class's queue without a discipline."""
