"""Plans of flows and pings: the types of `perhop-workload`."""

from __future__ import annotations

from typing import Literal, TypedDict

from perhop.engines.plans.applications import ApplicationPlan

CongestionPlan = Literal["reno", "cubic", "ledbat++", "dctcp", "prague", "bbr", "bbr1"]


class WritesPlan(TypedDict):
    rate: int
    block: int


class TcpPlan(TypedDict):
    congestion_control: CongestionPlan
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
    writes: WritesPlan | None


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
    layer: Literal["application", "ip", "ipv6"]
    gaps: DistributionPlan
    sizes: DatagramSizesPlan
    bursts: BurstsPlan | None
    replay: ReplayPlan | None
    extreme: ExtremePlan | None
    spread: int
    playout: PlayoutPlan | None


class AckFrequencyPlan(TypedDict):
    threshold: int
    max_delay: int
    reordering: int


class QuicPlan(TypedDict):
    congestion_control: CongestionPlan
    hystart: Literal["none", "hystart++", "linux"]
    streams: int
    window: int
    stream_window: int
    datagram: int
    max_datagram: int
    initial_window: int | None
    pacing: bool
    ecn: bool
    ack_frequency: AckFrequencyPlan | None
    certificates: int
    waits: bool


class _Tcp(TypedDict):
    tcp: TcpPlan


class _Udp(TypedDict):
    udp: UdpPlan


class _Quic(TypedDict):
    quic: QuicPlan


TransportPlan = _Tcp | _Udp | _Quic


FlowPlan = TypedDict(
    "FlowPlan",
    {
        "name": str,
        "from": str,
        "to": str,
        "ipv6": bool,
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
        "ipv6": bool,
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
