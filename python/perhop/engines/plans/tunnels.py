"""Plans of tunnels: the types of `perhop-plan` and of `perhop-net`."""

from __future__ import annotations

from typing import Literal, TypedDict

from perhop.engines.plans.classes import DisciplinePlan, ShaperPlan


class TunnelOverhead(TypedDict):
    headers: int
    trailer: int
    multiple: int
    capped: bool


class _Ip(TypedDict):
    ip: int


class _Udp(TypedDict):
    udp: int


class _Hashed(TypedDict):
    hashed: int


Carrier = _Ip | _Udp | _Hashed


InnerFlow = Literal["hidden", "at-entry", "dissected"]


class DevicePlan(TypedDict):
    name: str
    discipline: DisciplinePlan
    shape: ShaperPlan | None


class TunnelPlan(TypedDict):
    name: str
    ends: tuple[str, str]
    overhead: TunnelOverhead
    carrier: Carrier
    flows: InnerFlow
    mtu: int
    dscp: int | None
    uniform: bool
    devices: tuple[DevicePlan | None, DevicePlan | None]
