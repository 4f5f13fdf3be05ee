"""Queues: how much they hold, and by which discipline they drop or mark before they are full."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Final, Literal

from pydantic import BeforeValidator, Field, GetJsonSchemaHandler, StrictBool
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from perhop.scenario.model.base import Model
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
    """A scalar stands for a list of one; no list is empty."""
    if isinstance(value, (list, tuple)) and not value:
        raise ValueError("is empty; expected one or more")
    return value if value is None or isinstance(value, (list, tuple)) else [value]


class _Discipline(Model):
    """By which a queue drops or marks packets before it is full."""

    usual_limit: ClassVar[Limit]
    """What the queue holds unless it says."""

    random: ClassVar[bool]
    """Whether chance decides."""

    def aim(self, limit: Limit) -> Limit:
        """What the discipline lets wait in the long run, in a queue that holds `limit`."""
        return limit


class Red(_Discipline):
    """Random early detection (Floyd and Jacobson, 1993).

    The longer the queue has been on average, the more arrivals are dropped or marked at random.
    """

    usual_limit = Limit(1000, "packets")
    random = True

    min: QueueLimit = Limit(5, "packets")
    """The average from which some are."""

    max: QueueLimit | None = None
    """The average at which `probability` is reached; by default three times `min`."""

    probability: Share = _TENTH
    """The share at `max`."""

    weight: Share = 2_000_000
    """The weight of the present length in the average."""

    gentle: StrictBool = True
    """Whether the share rises on to one at twice `max`; if not, all above `max` are dropped."""

    ecn: StrictBool = True
    """Whether packets that understand ECN are marked where chance decides."""

    harddrop: StrictBool = True
    """Whether such packets are dropped where all are (RFC 3168, section 7), and not marked."""

    packet: PacketSize = 1000
    """A usual packet, by which idle time is counted, and lengths where thresholds are bytes."""

    @property
    def effective_max(self) -> Limit:
        """The upper threshold."""
        return self.max or Limit(3 * self.min.amount, self.min.unit)

    def aim(self, limit: Limit) -> Limit:
        """The average from which packets are dropped."""
        del limit
        return self.min


class WredProfile(Model):
    """Thresholds of some code points."""

    dscp: Annotated[tuple[Dscp, ...], BeforeValidator(one_or_more)]
    """The code points."""

    min: QueueLimit
    """The average from which some of their packets are dropped."""

    max: QueueLimit
    """The average from which all are."""

    probability: Share = _TENTH
    """The share just below `max`."""

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


class Wred(_Discipline):
    """RED with thresholds for each code point, and the defaults of Cisco's IOS."""

    usual_limit = Limit(64, "packets")
    random = True

    by: Literal["precedence", "dscp"] = "precedence"
    """Whose defaults: `random-detect`, or `random-detect dscp-based`."""

    profiles: Annotated[tuple[WredProfile, ...], Field(default=(), max_length=64)]
    """Thresholds instead of the defaults."""

    weight: Share = 10**9 // 512
    """The weight of the present length in the average: 2 to the power of -9."""

    ecn: StrictBool = False
    """Whether packets that understand ECN are marked where chance decides."""

    packet: PacketSize = 1000
    """A usual packet, by which idle time is counted, and lengths where thresholds are bytes."""


class _Codel(_Discipline):
    """What CoDel is told wherever it works."""

    target: PositiveDuration = 5 * MILLISECOND
    """The standing delay that is acceptable."""

    interval: PositiveDuration = 100 * MILLISECOND
    """Over how long a delay above it makes a standing queue: a long round-trip time."""

    ecn: StrictBool = True
    """Whether packets that understand ECN are marked instead of dropped."""

    def aim(self, limit: Limit) -> Limit:
        """The delay that is aimed at."""
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
    """How many queues flows are spread over by hash."""

    quantum: PacketSize = 1514
    """What a queue sends in its turn."""

    standing: Literal["all", "flow"] = "all"
    """Whose backlog must exceed one packet before a delay counts: that of all queues together, as
    in Linux, or that of the flow's own, as the RFC's text has it."""


class Pie(_Discipline):
    """Proportional integral controller enhanced (RFC 8033)."""

    usual_limit = Limit(1000, "packets")
    random = True

    target: PositiveDuration = 15 * MILLISECOND
    """The delay that is aimed at."""

    update: PositiveDuration = 15 * MILLISECOND
    """The time between two updates of the probability."""

    burst: Duration = 150 * MILLISECOND
    """How long after a calm time nothing is dropped early."""

    ecn: StrictBool = True
    """Whether packets that understand ECN are marked, up to a probability of a tenth."""

    def aim(self, limit: Limit) -> Limit:
        """The delay that is aimed at."""
        del limit
        return Limit(self.target, "time")


class DualPi2(_Discipline):
    """Two coupled queues, one kept short for L4S packets: ECT(1) and CE (RFC 9332)."""

    usual_limit = Limit(250 * MILLISECOND, "time")
    random = False

    target: PositiveDuration = 15 * MILLISECOND
    """The delay of the Classic queue that is aimed at."""

    max_rtt: PositiveDuration = 100 * MILLISECOND
    """The longest round-trip time that is usual."""

    coupling: Coupling = 2
    """How the share of L4S packets that are marked goes with the root of that of Classic drops."""

    threshold: Duration = 800 * _MICROSECOND
    """The delay from which L4S packets are marked for their own queue."""

    range: Duration = 400 * _MICROSECOND
    """How much longer the delay is from which all are; 0 s for a step."""

    classic_share: Share = 62_500_000
    """The Classic queue's share of the link while both have packets: 1/16."""

    def aim(self, limit: Limit) -> Limit:
        """The delay that is aimed at."""
        del limit
        return Limit(self.target, "time")


@dataclass(frozen=True, slots=True)
class Threshold:
    """Thresholds of WRED in packets."""

    min: int
    max: int


def wred_defaults(by: str, *, in_class: bool) -> Mapping[int, Threshold]:
    """The lower and upper threshold that IOS gives each code point, in packets.

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


Discipline = Red | Wred | Codel | FqCodel | Pie | DualPi2
"""Any discipline. Whoever must know all of them ends in `assert_never`."""


class Queue(Model):
    """A queue that serves in order of arrival, unless its discipline says otherwise.

    One discipline may be named; without one it drops what arrives when it is full.
    """

    limit: QueueLimit | None = None
    """How much it holds: packets, bytes, or the time it takes to drain at its guaranteed rate. By
    default what is usual for its discipline; a plain one holds 1000 packets, in a class 64."""

    drop: Literal["tail", "head"] = "tail"
    """What goes when it is full: what arrives, or what has waited longest."""

    red: Red | None = None
    """Random early detection; 1000 packets."""

    wred: Wred | None = None
    """RED by code point; 64 packets."""

    codel: Codel | None = None
    """CoDel; 1000 packets."""

    fq_codel: FqCodel | None = Field(default=None, alias="fq-codel")
    """FQ-CoDel; 10240 packets."""

    pie: Pie | None = None
    """PIE; 1000 packets."""

    dualpi2: DualPi2 | None = None
    """DualPI2; 250 ms."""

    @property
    def discipline(self) -> Discipline | None:
        """The discipline; None for a queue that drops only what it cannot hold."""
        return next(iter(self.disciplines.values()), None)

    @property
    def disciplines(self) -> dict[str, Discipline]:
        """Every discipline that is given, by the name that files have for it."""
        found = {word: getattr(self, name) for word, name in DISCIPLINES.items()}
        return {word: value for word, value in found.items() if value is not None}

    def effective_limit(self, plain: Limit) -> Limit:
        """The limit, or what is usual: `plain` for a queue without a discipline."""
        if self.limit is not None:
            return self.limit
        return plain if self.discipline is None else self.discipline.usual_limit


# Every field but these, so that a discipline that nobody knows is never taken for none.
DISCIPLINES: Final[Mapping[str, str]] = {
    field.alias or name: name
    for name, field in Queue.model_fields.items()
    if name not in ("limit", "drop")
}
"""By the word that files have for a discipline, its field of `Queue`."""

LINK_LIMIT: Final = Limit(1000, "packets")
"""What a link's plain queue holds."""

CLASS_LIMIT: Final = Limit(64, "packets")
"""What a class's plain queue holds."""
