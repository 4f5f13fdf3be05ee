"""Plans as the core takes them: the types of `perhop-plan` and its neighbours, by the same names.

Rates are bits per second, times picoseconds, sizes bytes, shares parts per billion. What a plan
means is said where the core defines it; `tests/test_plans.py` holds these types against its schema.
"""

# ruff: noqa: D101 (what a plan means is said in the core)
from __future__ import annotations

from typing import Literal, TypedDict

# Queues


class _PacketLimit(TypedDict):
    packets: int


class _ByteLimit(TypedDict):
    bytes: int


Limit = _PacketLimit | _ByteLimit


class FifoConfig(TypedDict):
    limit: Limit
    drop: Literal["tail", "head"]


class _Mean(TypedDict):
    mean: int


class _ByteMeasure(TypedDict):
    bytes: _Mean


Measure = Literal["packets"] | _ByteMeasure


class RedConfig(TypedDict):
    limit: Limit
    measure: Measure
    weight: int
    packet_time: int
    gentle: bool
    ecn: bool
    harddrop: bool


class RedProfile(TypedDict):
    min: int
    max: int
    probability: int


class RedRule(TypedDict):
    dscps: list[int]
    thresholds: RedProfile


class RedSpec(TypedDict):
    config: RedConfig
    rules: list[RedRule]


class CodelConfig(TypedDict):
    limit: Limit
    target: int
    interval: int
    ecn: bool


class FqCodelConfig(TypedDict):
    codel: CodelConfig
    flows: int
    quantum: int
    standing: Literal["all", "flow"]


class Framing(TypedDict):
    overhead: int
    mpu: int
    coding: Literal["none", "atm", "ptm"]


class CakeConfig(TypedDict):
    limit: Limit
    bandwidth: int | None
    framing: Framing
    diffserv: Literal["besteffort", "precedence", "diffserv3", "diffserv4", "diffserv8"]
    isolation: Literal[
        "flowblind",
        "srchost",
        "dsthost",
        "hosts",
        "flows",
        "dual-srchost",
        "dual-dsthost",
        "triple-isolate",
    ]
    rtt: int
    target: int
    ack_filter: Literal["off", "on", "aggressive"]
    wash: bool
    ingress: bool


class PieConfig(TypedDict):
    limit: Limit
    target: int
    update: int
    burst: int
    ecn: bool


class FqPieConfig(TypedDict):
    pie: PieConfig
    flows: int
    quantum: int


class SfqConfig(TypedDict):
    limit: Limit
    depth: int
    flows: int
    divisor: int
    quantum: int
    perturb: int
    drop: Literal["tail", "head"]


class DualPi2Config(TypedDict):
    limit: Limit
    target: int
    max_rtt: int
    coupling: int
    threshold: int
    range: int
    classic_share: int


class _Fifo(TypedDict):
    fifo: FifoConfig


class _Red(TypedDict):
    red: RedSpec


class _Codel(TypedDict):
    codel: CodelConfig


_FqCodel = TypedDict("_FqCodel", {"fq-codel": FqCodelConfig})


class _Cake(TypedDict):
    cake: CakeConfig


class _Pie(TypedDict):
    pie: PieConfig


_FqPie = TypedDict("_FqPie", {"fq-pie": FqPieConfig})


class _Sfq(TypedDict):
    sfq: SfqConfig


class _DualPi2(TypedDict):
    dualpi2: DualPi2Config


QueueConfig = _Fifo | _Red | _Codel | _FqCodel | _Cake | _Pie | _FqPie | _Sfq | _DualPi2

# Classes


class MatchPlan(TypedDict):
    dscp: list[int]
    protocol: list[Literal["icmp", "tcp", "udp"]]
    port: list[tuple[int, int]]
    source_port: list[tuple[int, int]]
    destination_port: list[tuple[int, int]]
    source: list[str] | None
    destination: list[str] | None


class MatchRulePlan(TypedDict):
    permit: bool
    conditions: MatchPlan


class Shape(TypedDict):
    rate: int
    burst: int


class _Remark(TypedDict):
    remark: int


Action = Literal["send", "drop"] | _Remark


class PolicePlan(TypedDict):
    rate: int
    burst: int
    excess_burst: int | None
    peak: Shape | None
    colour_aware: bool
    conform: Action
    exceed: Action
    violate: Action


class ClassPlan(TypedDict):
    name: str
    match: list[MatchRulePlan]
    mark: int | None
    weight: int | None
    priority: int
    police: PolicePlan | None
    shape: Shape | None
    discipline: DisciplinePlan


Sharing = Literal["wfq", "drr", "drr-quanta", "link-sharing"]


class ClassesPlan(TypedDict):
    scheduler: Sharing
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
    mark: int | None
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
    mark: int | None
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
    classes: list[HfscClassPlan]


class _Queue(TypedDict):
    queue: QueueConfig


class _Classes(TypedDict):
    classes: ClassesPlan


_AltqCbq = TypedDict("_AltqCbq", {"altq-cbq": CbqPlan})


class _Hfsc(TypedDict):
    hfsc: HfscPlan


DisciplinePlan = _Queue | _Classes | _AltqCbq | _Hfsc

# Networks


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
    shape: Shape | None
    trace: TracePlan | None
    remark: list[RemarkPlan]


class ReorderPlan(TypedDict):
    share: int
    by: int


class GilbertPlan(TypedDict):
    p: int
    r: int
    good: int
    bad: int


class MediumPlan(TypedDict):
    rate: int
    delay: int
    jitter: int
    loss: int
    duplicate: int
    reorder: ReorderPlan | None
    gilbert: GilbertPlan | None
    overhead: Overhead


class LinkPlan(TypedDict):
    ends: tuple[EndPlan, EndPlan]
    mtu: int | None


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
    shape: Shape | None


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
    changes: list[ChangePlan]


# Flows and pings


class TcpPlan(TypedDict):
    congestion_control: Literal["reno", "cubic", "ledbat++", "dctcp", "prague", "bbr", "bbr1"]
    send_window: int
    receive_window: int
    autotuning: bool
    quick_acks: bool
    mss: int
    hystart: Literal["none", "hystart++", "linux"]
    cubic: Literal["rfc9438", "linux"]
    decrease_from: Literal["flight", "window"]
    reno_friendly: bool
    sack: bool
    dsack: bool
    rack: bool
    adaptive_reordering: bool
    undo: bool
    frto: bool
    prr: bool
    window_scaling: bool
    timestamps: bool
    limited_transmit: bool
    initial_window: int
    rto_rule: Literal["rfc6298", "linux"]
    min_rto: int
    delayed_ack: int
    ecn: Literal["off", "classic", "dctcp", "accurate"]
    pacing: bool
    small_queues: bool


class _Pareto(TypedDict):
    pareto: int


LengthsPlan = Literal["constant", "exponential"] | _Pareto


class BurstsPlan(TypedDict):
    on: int
    off: int
    lengths: LengthsPlan
    stationary: bool


class ReplayPlan(TypedDict):
    packets: list[tuple[int, int]]
    repeat: bool


class _Retry(TypedDict):
    retry: int


WhenFull = Literal["drop", "wait"] | _Retry
DistributionPlan = Literal["constant", "exponential"]


class ExtremePlan(TypedDict):
    gap: tuple[int, int]
    size: tuple[int, int]


class _FixedBuffer(TypedDict):
    fixed: int


BufferPlan = Literal["adaptive"] | _FixedBuffer


class PlayoutPlan(TypedDict):
    frame: int
    buffer: BufferPlan


class _Mix(TypedDict):
    mix: list[tuple[int, int]]


DatagramSizesPlan = Literal["constant", "exponential"] | _Mix


class UdpPlan(TypedDict):
    rate: int
    size: int
    ecn: Literal["ect0", "ect1"] | None
    when_full: WhenFull
    layer: Literal["application", "ip"]
    gaps: DistributionPlan
    sizes: DatagramSizesPlan
    bursts: BurstsPlan | None
    replay: ReplayPlan | None
    extreme: ExtremePlan | None
    spread: int
    playout: PlayoutPlan | None


class _Tcp(TypedDict):
    tcp: TcpPlan


class _Udp(TypedDict):
    udp: UdpPlan


TransportPlan = _Tcp | _Udp


class GapsPlan(TypedDict):
    mean: int
    exponential: bool


class _Open(TypedDict):
    open: GapsPlan


class _Closed(TypedDict):
    closed: GapsPlan


class _ConstantSize(TypedDict):
    constant: int


class _ExponentialSizes(TypedDict):
    exponential: int


class _ParetoSizes(TypedDict):
    pareto: tuple[int, int]


class _LognormalSizes(TypedDict):
    lognormal: tuple[int, int]


class _TableOfSizes(TypedDict):
    table: list[tuple[int, int]]


SizesPlan = _ConstantSize | _ExponentialSizes | _ParetoSizes | _LognormalSizes | _TableOfSizes


class ExchangesPlan(TypedDict):
    arrivals: _Open | _Closed
    request: SizesPlan
    response: SizesPlan
    server_time: int
    reuse: bool
    connections: int


class ObjectPlan(TypedDict):
    after: int | None
    host: int
    request: int
    response: int
    server_time: int


class WebPlan(TypedDict):
    objects: list[ObjectPlan]
    multiplexed: bool
    connections: int
    pause: GapsPlan


class VideoPlan(TypedDict):
    bitrates: list[int]
    segment: int
    buffer: int
    startup: int
    length: int | None
    algorithm: Literal["throughput", "buffer"]
    request: int


class _Transfers(TypedDict):
    transfers: ExchangesPlan


class _Rpc(TypedDict):
    rpc: ExchangesPlan


class _Web(TypedDict):
    web: WebPlan


class _Video(TypedDict):
    video: VideoPlan


ApplicationPlan = _Transfers | _Rpc | _Web | _Video

FlowPlan = TypedDict(
    "FlowPlan",
    {
        "name": str,
        "from": str,
        "to": str,
        "dscp": int,
        "port": int,
        "source_port": int | None,
        "streams": int,
        "start": int,
        "starts": list[int],
        "stop": int | None,
        "volume": int | None,
        "transport": TransportPlan,
        "application": ApplicationPlan | None,
    },
)

PingPlan = TypedDict(
    "PingPlan",
    {
        "name": str,
        "from": str,
        "to": str,
        "dscp": int,
        "ecn": Literal["ect0", "ect1"] | None,
        "every": int,
        "size": int,
        "start": int,
        "stop": int,
        "ttl": tuple[int, int],
        "train": int,
        "udp_port": int | None,
    },
)

# Plans of engines


class Plan(TypedDict):
    network: NetworkPlan
    cuts: list[int]
    flows: list[FlowPlan]
    pings: list[PingPlan]


class HostPlan(TypedDict):
    mtu: int
    offload: bool
    backpressure: bool


FlowKeyPlan = TypedDict(
    "FlowKeyPlan",
    {
        "name": str,
        "from": str,
        "to": str,
        "protocol": Literal["icmp", "tcp", "udp"],
        "port": int,
        "source_ports": tuple[int, int] | None,
    },
)


class EmulationPlan(TypedDict):
    network: NetworkPlan
    hosts: dict[str, HostPlan]
    congestion_control: str | None
    flows: list[FlowKeyPlan]
    stall_threshold: int | None


class NodeJob(TypedDict):
    name: str
    namespace: int | None
    addresses: list[str]
    settings: list[tuple[str, str]]


class Timers(TypedDict):
    min_rto: int
    delayed_ack: int


class Iperf3Server(TypedDict):
    end: Literal["source", "destination"]
    address: str


class LiveFlow(TypedDict):
    opens: Literal["source", "destination"]
    server: Iperf3Server | None


class LiveJob(TypedDict):
    token: str
    flows: list[LiveFlow]
    reflectors: list[int | None]


class Job(TypedDict):
    seed: int
    marks: list[int]
    cuts: list[int]
    nodes: list[NodeJob]
    timers: Timers
    flows: list[FlowPlan]
    pings: list[PingPlan]
    stall_threshold: int | None
    real_time: bool
    live: LiveJob | None


class InterfacePlan(TypedDict):
    name: str
    description: str
    speed: int


class CapturePlan(TypedDict):
    snaplen: int
    application: str
    comment: str
    interfaces: list[InterfacePlan]
