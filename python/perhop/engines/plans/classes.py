"""Plans of classes and of disciplines that have them: the types of `perhop-plan`."""

from __future__ import annotations

from typing import Literal, TypedDict

from perhop.engines.plans.queues import Framing, QueueConfig


class MatchPlan(TypedDict):
    dscp: list[int]
    ipv6: bool | None
    protocol: list[Literal["icmp", "tcp", "udp"]]
    port: list[tuple[int, int]]
    source_port: list[tuple[int, int]]
    destination_port: list[tuple[int, int]]
    source: list[str] | None
    destination: list[str] | None
    pcp: list[int]
    mpls_tc: list[int]


class MatchRulePlan(TypedDict):
    permit: bool
    conditions: MatchPlan


class Shape(TypedDict):
    rate: int
    burst: int


class ShaperPlan(TypedDict):
    rate: int
    burst: int
    framing: Framing


class _Remark(TypedDict):
    remark: int


Action = Literal["send", "drop"] | _Remark


class PolicePlan(TypedDict):
    rate: int
    burst: int
    excess_burst: int | None
    peak: Shape | None
    colour_aware: bool
    framing: Framing
    conform: Action
    exceed: Action
    violate: Action


class MarkPlan(TypedDict):
    dscp: int | None
    link: int | None


class ClassPlan(TypedDict):
    name: str
    match: list[MatchRulePlan]
    mark: MarkPlan | None
    weight: int | None
    priority: int
    excess: int | None
    beside_strict: bool
    police: PolicePlan | None
    shape: ShaperPlan | None
    discipline: DisciplinePlan


Sharing = Literal["wfq", "drr", "drr-quanta", "link-sharing"]


class ClassesPlan(TypedDict):
    scheduler: Sharing
    framing: Framing
    classes: list[ClassPlan]


class CbqConfig(TypedDict):
    rate: int
    tick: int
    packet: int
    maxburst: int | None
    minburst: int
    token_bucket: bool
    efficient: bool
    kick: bool


class CbqLeafPlan(TypedDict):
    priority: int
    mark: MarkPlan | None
    police: PolicePlan | None
    queue: QueueConfig


class _Leaf(TypedDict):
    leaf: CbqLeafPlan


class _Interior(TypedDict):
    interior: list[CbqClassPlan]


CbqClassKindPlan = _Leaf | _Interior


class CbqClassPlan(TypedDict):
    name: str
    match: list[MatchRulePlan]
    rate: int
    borrow: bool
    kind: CbqClassKindPlan


class CbqPlan(TypedDict):
    config: CbqConfig
    classes: list[CbqClassPlan]


class ServiceCurve(TypedDict):
    m1: int
    d: int
    m2: int


class HfscCurves(TypedDict):
    realtime: ServiceCurve | None
    linkshare: ServiceCurve | None
    upperlimit: ServiceCurve | None


class HfscLeafPlan(TypedDict):
    mark: MarkPlan | None
    police: PolicePlan | None
    queue: QueueConfig


class _HfscLeaf(TypedDict):
    leaf: HfscLeafPlan


class _HfscInterior(TypedDict):
    interior: list[HfscClassPlan]


HfscClassKindPlan = _HfscLeaf | _HfscInterior


class HfscClassPlan(TypedDict):
    name: str
    match: list[MatchRulePlan]
    curves: HfscCurves
    kind: HfscClassKindPlan


class HfscPlan(TypedDict):
    framing: Framing
    classes: list[HfscClassPlan]


class HtbRates(TypedDict):
    rate: int
    burst: int
    ceil: int
    cburst: int
    priority: int
    quantum: int


class HtbLeafPlan(TypedDict):
    rates: HtbRates | None
    content: ClassPlan


class HtbInteriorPlan(TypedDict):
    rates: HtbRates
    name: str
    match: list[MatchRulePlan]
    classes: list[HtbClassPlan]


class _HtbLeaf(TypedDict):
    leaf: HtbLeafPlan


class _HtbInterior(TypedDict):
    interior: HtbInteriorPlan


HtbClassPlan = _HtbLeaf | _HtbInterior


class HtbPlan(TypedDict):
    root: HtbRates
    framing: Framing
    classes: list[HtbClassPlan]


class _Queue(TypedDict):
    queue: QueueConfig


class _Classes(TypedDict):
    classes: ClassesPlan


_AltqCbq = TypedDict("_AltqCbq", {"altq-cbq": CbqPlan})


class _Hfsc(TypedDict):
    hfsc: HfscPlan


class _Htb(TypedDict):
    htb: HtbPlan


class PolicerPlan(TypedDict):
    name: str
    match: list[MatchRulePlan]
    police: PolicePlan


class PolicedPlan(TypedDict):
    policers: list[PolicerPlan]
    discipline: DisciplinePlan


class _Policed(TypedDict):
    policed: PolicedPlan


DisciplinePlan = _Queue | _Classes | _AltqCbq | _Hfsc | _Htb | _Policed
