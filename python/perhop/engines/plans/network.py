"""Plans of networks and of their changes: the types of `perhop-plan`."""

from __future__ import annotations

from typing import Literal, TypedDict

from perhop.engines.plans.classes import DisciplinePlan, MatchPlan, MatchRulePlan, Shape, ShaperPlan
from perhop.engines.plans.queues import Limit
from perhop.engines.plans.tunnels import TunnelPlan


class _Limits(TypedDict):
    every: int
    burst: int


class _Limited(TypedDict):
    limited: _Limits


IcmpErrors = Literal["all", "none"] | _Limited


class NodePlan(TypedDict):
    name: str
    kind: Literal["host", "router"]
    address: str
    address_v6: str
    balance: Literal["per-flow", "per-destination", "per-packet"]
    icmp_errors: IcmpErrors


class _Fixed(TypedDict):
    fixed: int


Overhead = Literal["atm"] | _Fixed


class RemarkPlan(TypedDict):
    match: list[MatchRulePlan]
    dscp: int


class RatesPlan(TypedDict):
    at: list[int]
    rate: list[int]
    delay: list[int] | None
    jitter: list[int] | None
    loss: list[int] | None
    period: int | None


class OpportunitiesTrace(TypedDict):
    opportunities: list[int]


class RatesTrace(TypedDict):
    rates: RatesPlan


TracePlan = OpportunitiesTrace | RatesTrace


class EndPlan(TypedDict):
    node: str
    name: str
    medium: MediumPlan
    discipline: DisciplinePlan
    shape: ShaperPlan | None
    trace: TracePlan | None
    remark: list[RemarkPlan]


class ReorderPlan(TypedDict):
    share: int
    by: int
    gap: int


class VariationPlan(TypedDict):
    by: int
    distribution: Literal["uniform", "normal", "pareto", "paretonormal"]
    in_order: bool


class GilbertPlan(TypedDict):
    p: int
    r: int
    good: int
    bad: int


class MediumPlan(TypedDict):
    rate: int
    delay: int
    jitter: int
    variation: VariationPlan | None
    delay_limit: int | None
    loss: int
    duplicate: int
    reorder: ReorderPlan | None
    gilbert: GilbertPlan | None
    overhead: Overhead


class LinkPlan(TypedDict):
    ends: tuple[EndPlan, EndPlan]
    mtu: int | None
    encapsulation: Literal["dot1q", "mpls"] | None


class WifiPlan(TypedDict):
    slot: int
    sifs: int
    aifsn: int
    cw_min: int
    cw_max: int
    preamble: int
    symbol: int
    ack: int
    block_ack: int
    header: int
    frames: int
    bytes: int
    airtime: int
    retries: int
    airtime_fairness: bool


class LtePlan(TypedDict):
    resource_blocks: int
    scheduler: Literal["round-robin", "proportional-fair"]
    bler: int
    retries: int
    combining: int
    request_period: int
    grant: int
    reordering: int


class CellPlan(TypedDict):
    base: str
    settings: LtePlan


class _Wifi(TypedDict):
    wifi: WifiPlan


class _Lte(TypedDict):
    lte: CellPlan


AccessPlan = _Wifi | _Lte


class ChannelPlan(TypedDict):
    name: str
    on: list[str]
    access: AccessPlan


class WirePlan(TypedDict):
    on: str
    rate: int
    delay: int
    loss: int
    gilbert: GilbertPlan | None


class BalanceChangePlan(TypedDict):
    node: str
    balance: Literal["per-flow", "per-destination", "per-packet"]


class StatePlan(TypedDict):
    on: str
    up: bool


class DisciplineChangePlan(TypedDict):
    on: str
    discipline: DisciplinePlan
    shape: ShaperPlan | None


PoliceChangePlan = TypedDict(
    "PoliceChangePlan", {"on": str, "class": str, "rate": int, "burst": int}
)


class ReservedPlan(TypedDict):
    name: str
    match: MatchPlan
    police: Shape | None
    limit: Limit


class ReservationsPlan(TypedDict):
    on: str
    classes: list[ReservedPlan]


class _Wire(TypedDict):
    wire: WirePlan


class _State(TypedDict):
    state: StatePlan


class _Discipline(TypedDict):
    discipline: DisciplineChangePlan


class _Police(TypedDict):
    police: PoliceChangePlan


class _Reserved(TypedDict):
    reserved: ReservationsPlan


class _Balance(TypedDict):
    balance: BalanceChangePlan


EffectPlan = _Wire | _State | _Balance | _Discipline | _Police | _Reserved


class ChangePlan(TypedDict):
    at: int
    effect: EffectPlan


class NetworkPlan(TypedDict):
    seed: int
    marks: list[int]
    nodes: list[NodePlan]
    links: list[LinkPlan]
    tunnels: list[TunnelPlan]
    channels: list[ChannelPlan]
    changes: list[ChangePlan]
