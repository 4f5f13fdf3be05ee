"""Plans of runs, each as an engine takes it."""

from __future__ import annotations

from typing import Literal, TypedDict

from perhop.engines.plans.network import NetworkPlan
from perhop.engines.plans.traffic import FlowPlan, PingPlan


class Plan(TypedDict):
    network: NetworkPlan
    cuts: list[int]
    flows: list[FlowPlan]
    pings: list[PingPlan]


class HostPlan(TypedDict):
    mtu: int
    offload: bool
    backpressure: bool
    namespace: str | None
    behind: list[tuple[str, int]]
    routes: list[tuple[str, int]]


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
