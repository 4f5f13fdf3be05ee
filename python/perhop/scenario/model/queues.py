"""Queues: how much they hold, and by which discipline they drop or mark before they are full."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final, Literal

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


class Red(Model):
    """Random early detection (Floyd and Jacobson, 1993).

    The longer the queue has been on average, the more arrivals are dropped or marked at random.
    """

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


class Wred(Model):
    """RED with thresholds for each code point, and the defaults of Cisco's IOS."""

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


class Codel(Model):
    """Controlled delay (RFC 8289)."""

    target: PositiveDuration = 5 * MILLISECOND
    """The standing delay that is acceptable."""

    interval: PositiveDuration = 100 * MILLISECOND
    """Over how long a delay above it makes a standing queue: a long round-trip time."""

    ecn: StrictBool = True
    """Whether packets that understand ECN are marked instead of dropped."""


class FqCodel(Codel):
    """Flow queues, each with CoDel, served by deficit round robin (RFC 8290)."""

    flows: FlowQueues = 1024
    """How many queues flows are spread over by hash."""

    quantum: PacketSize = 1514
    """What a queue sends in its turn."""

    standing: Literal["all", "flow"] = "all"
    """Whose backlog must exceed one packet before a delay counts: that of all queues together, as
    in Linux, or that of the flow's own, as the RFC's text has it."""


class Pie(Model):
    """Proportional integral controller enhanced (RFC 8033)."""

    target: PositiveDuration = 15 * MILLISECOND
    """The delay that is aimed at."""

    update: PositiveDuration = 15 * MILLISECOND
    """The time between two updates of the probability."""

    burst: Duration = 150 * MILLISECOND
    """How long after a calm time nothing is dropped early."""

    ecn: StrictBool = True
    """Whether packets that understand ECN are marked, up to a probability of a tenth."""


class DualPi2(Model):
    """Two coupled queues, one kept short for L4S packets: ECT(1) and CE (RFC 9332)."""

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
    def disciplines(self) -> list[str]:
        """The names of the disciplines that are given, as files spell them."""
        return [name for name in DEFAULT_LIMITS if getattr(self, name.replace("-", "_"))]

    def effective_limit(self, plain: Limit) -> Limit:
        """The limit, or what is usual: `plain` for a queue without a discipline."""
        if self.limit is not None:
            return self.limit
        return next((DEFAULT_LIMITS[name] for name in self.disciplines), plain)


DEFAULT_LIMITS: Final[Mapping[str, Limit]] = {
    "red": Limit(1000, "packets"),
    "wred": Limit(64, "packets"),
    "codel": Limit(1000, "packets"),
    "fq-codel": Limit(10240, "packets"),
    "pie": Limit(1000, "packets"),
    "dualpi2": Limit(250 * MILLISECOND, "time"),
}
"""What a queue holds unless it says: IOS's `queue-limit`, RFC 8290, section 5.2.3, and RFC 9332,
appendix A.1, where they say; where they do not, enough not to matter."""

LINK_LIMIT: Final = Limit(1000, "packets")
"""What a link's plain queue holds."""

CLASS_LIMIT: Final = Limit(64, "packets")
"""What a class's plain queue holds."""
