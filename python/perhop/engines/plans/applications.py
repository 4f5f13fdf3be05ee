"""Plans of applications: the types of `perhop-app`."""

from __future__ import annotations

from typing import Literal, TypedDict


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
