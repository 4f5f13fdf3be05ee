"""Plans of queue disciplines: the types of `perhop-queue`."""

from __future__ import annotations

from typing import Literal, TypedDict


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
