"""What must hold for UDP flows, as far as their parts do not say it themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perhop.scenario.findings import Finding
from perhop.units import SECOND, format_duration, format_size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perhop.scenario.findings import Loc
    from perhop.scenario.model import Scenario

DATAGRAM_HEADER = 28
"""The bytes of an IPv4 and a UDP header."""


def datagrams(scenario: Scenario) -> Iterator[Finding]:
    """UDP packets have a payload, and bursts hold one of them."""
    for name, flow in scenario.flows.items():
        udp = flow.udp
        if udp is None:
            continue
        loc: Loc = ("flows", name, "udp")
        if udp.layer == "ip" and udp.size <= DATAGRAM_HEADER:
            yield Finding(
                (*loc, "size"),
                f"{format_size(udp.size)} is no more than the headers of IP and UDP, "
                f"{DATAGRAM_HEADER} B; expected a larger packet",
            )
        if udp.bursts is None:
            continue
        gap = -(-8 * udp.size * SECOND // udp.rate)
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
