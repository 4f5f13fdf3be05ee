"""Rules on UDP flows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perhop.scenario.model.traffic import REPLAYED, imix_mean
from perhop.scenario.resolve.sizes import datagram_headers
from perhop.scenario.rules.findings import Finding
from perhop.units import SECOND, format_duration, format_rate, format_size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perhop.scenario.model.base import Loc
    from perhop.scenario.model.names import IpVersion
    from perhop.scenario.model.replay import Replay
    from perhop.scenario.model.traffic import Udp
    from perhop.scenario.resolve.scenario import ResolvedScenario

MAX_REPLAYED = 100_000
"""The most packets that all replays of a scenario may have together."""


def datagrams(scenario: ResolvedScenario) -> Iterator[Finding]:
    """Find flows with several patterns, empty packets, and bursts shorter than a packet."""
    replayed = 0
    for name, flow in scenario.flows.items():
        if flow.udp is None:
            continue
        loc: Loc = ("flows", name, "udp")
        ip = scenario.ip_of(flow)
        if flow.udp.replay is not None:
            replayed += len(flow.udp.replay.packets)
            yield from _replay(loc, flow.udp, flow.udp.replay, ip)
        elif flow.udp.rate is None:
            yield Finding((*loc, "rate"), "is missing; expected a rate such as `10 Mbps`")
        else:
            yield from _drawn(loc, flow.udp, flow.udp.rate, ip)
    if replayed > MAX_REPLAYED:
        yield Finding(
            ("flows",),
            f"replay {replayed:,} packets together; expected at most {MAX_REPLAYED:,}",
        )


def calls(scenario: ResolvedScenario) -> Iterator[Finding]:
    """Find calls whose codec has no such packets or rate, and calls with a volume."""
    for name, flow in scenario.flows.items():
        if flow.voice is None:
            continue
        voice, loc = flow.voice, ("flows", name, "voice")
        codec = voice.preset
        if voice.effective_ptime not in codec.frames:
            known = ", ".join(format_duration(each) for each in sorted(codec.frames))
            yield Finding(
                (*loc, "ptime"),
                f"{codec.name} has no packets of {format_duration(voice.effective_ptime)}; "
                f"expected one of {known}",
            )
        if voice.rate is not None:
            if codec.rates is None:
                yield Finding(
                    (*loc, "rate"), f"means nothing for {codec.name}, which has one", at_key=True
                )
            elif not codec.rates[0] <= voice.rate <= codec.rates[1]:
                low, high = map(format_rate, codec.rates)
                yield Finding(
                    (*loc, "rate"),
                    f"{format_rate(voice.rate)} is out of range; expected {low} to {high}",
                )
        if flow.volume is not None:
            yield Finding(
                ("flows", name, "volume"), "means nothing for calls; expected `stop`", at_key=True
            )


def _replay(loc: Loc, udp: Udp, replay: Replay, ip: IpVersion) -> Iterator[Finding]:
    for key in REPLAYED:
        if key in udp.model_fields_set:
            yield Finding(
                (*loc, key), "is given beside `replay`; expected one of the two", at_key=True
            )
    smallest = min(size for _, size in replay.packets)
    if udp.layer == "ip" and smallest <= datagram_headers(ip):
        yield Finding((*loc, "replay"), _no_payload(smallest, ip))
    if replay.repeat and sum(gap for gap, _ in replay.packets) < len(replay.packets):
        yield Finding((*loc, "replay"), "has no duration; expected gaps, because it repeats")


def _drawn(loc: Loc, udp: Udp, rate: int, ip: IpVersion) -> Iterator[Finding]:
    size = udp.size
    if udp.sizes == "imix":
        size = imix_mean(ip)
        if "size" in udp.model_fields_set:
            yield Finding((*loc, "size"), "is given beside `sizes: imix`; expected one of the two")
        if udp.layer != "ip":
            yield Finding((*loc, "sizes"), "`imix` is a mix of IP packets; expected `layer: ip`")
    elif udp.layer == "ip" and udp.size <= datagram_headers(ip):
        yield Finding((*loc, "size"), _no_payload(udp.size, ip))
    if udp.bursts is None:
        return
    gap = -(-8 * size * SECOND // rate)
    if udp.bursts.on < gap:
        yield Finding(
            (*loc, "bursts", "on"),
            f"{format_duration(udp.bursts.on)} is less than the time between datagrams, "
            f"{format_duration(gap)}; expected longer bursts",
        )
    if udp.bursts.shape is not None and udp.bursts.lengths != "pareto":
        yield Finding(
            (*loc, "bursts", "shape"), "means nothing without `lengths: pareto`", at_key=True
        )


def _no_payload(size: int, ip: IpVersion) -> str:
    return (
        f"{format_size(size)} is no more than the headers of IP and UDP, {datagram_headers(ip)} B; "
        "expected a larger packet"
    )
