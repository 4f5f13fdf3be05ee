"""Rules on applications."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from perhop.hints import did_you_mean
from perhop.scenario.model.applications import MOST_OBJECTS, TABLES
from perhop.scenario.model.metrics import RELIABLE
from perhop.scenario.resolve.applications import mean_gap
from perhop.scenario.rules.findings import Finding
from perhop.scenario.rules.network import egress_policies, link_ends
from perhop.units import format_duration, format_rate, quote

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perhop.scenario.model.applications import Rpc, Transfers, Video, Web
    from perhop.scenario.model.base import Loc
    from perhop.scenario.model.quic import Quic
    from perhop.scenario.model.traffic import Flow
    from perhop.scenario.resolve.scenario import ResolvedScenario

MOST_REQUESTS = 10_000_000
"""The most requests that a flow may send on average."""


def applications(scenario: ResolvedScenario) -> Iterator[Finding]:
    """Find flows with several applications, or with contradictory or missing settings of one."""
    for name, flow in scenario.flows.items():
        if not flow.applications:
            continue
        first, *others = flow.applications
        loc: Loc = ("flows", name)
        for other in others:
            yield Finding(
                (*loc, other), f"is given beside `{first}`; expected one of the two", at_key=True
            )
        if flow.kind not in RELIABLE:
            yield Finding(
                (*loc, flow.kind),
                f"`{first}` is over TCP or QUIC; expected `tcp` or `quic`",
                at_key=True,
            )
        if flow.quic is not None:
            yield from _over_quic(loc, flow, flow.quic)
        if flow.volume is not None:
            yield Finding(
                (*loc, "volume"),
                f"`{first}` has sizes of its own; expected no volume of the flow",
                at_key=True,
            )
        if flow.source_port is not None:
            yield Finding(
                (*loc, "source_port"),
                f"the connections of `{first}` come from ports that the clients choose; "
                "expected only `port`, that of the server",
                at_key=True,
            )
        if flow.exchanges is not None:
            yield from _exchanges((*loc, first), flow.exchanges)
        if flow.transfers is not None:
            yield from _sizes((*loc, "transfers"), flow.transfers)
        if flow.web is not None:
            yield from _page((*loc, "web", "objects"), flow.web)
        if flow.video is not None:
            yield from _video((*loc, "video"), flow.video)


def _over_quic(loc: Loc, flow: Flow, quic: Quic) -> Iterator[Finding]:
    if quic.streams != 1:
        yield Finding(
            (*loc, "quic", "streams"),
            f"each request of `{flow.applications[0]}` has a stream of its own; expected no number",
            at_key=True,
        )
    if flow.web is not None and flow.web.connections == "http1":
        yield Finding(
            (*loc, "web", "connections"), "HTTP/1.1 is over TCP; expected `multiplexed` with `quic`"
        )


def rates_of_requests(scenario: ResolvedScenario) -> Iterator[Finding]:
    """Find loads of paths that fork, and too many requests."""
    if any(True for _ in (*link_ends(scenario), *egress_policies(scenario))):
        return  # the network has no paths and rates
    for name, flow in scenario.flows.items():
        exchanges = flow.exchanges
        if exchanges is None or len(exchanges.pace) != 1:
            continue
        key = exchanges.pace[0]
        loc: Loc = ("flows", name, *flow.applications[:1], key)
        if {flow.source, flow.destination} <= scenario.nodes.keys():
            yield from _rate(scenario, flow, loc)


def _rate(scenario: ResolvedScenario, flow: Flow, loc: Loc) -> Iterator[Finding]:
    key = loc[-1]
    gap = mean_gap(scenario, flow)
    if gap is None:
        yield Finding(loc, "the paths of the flow fork; expected `every` or `think` instead")
        return
    start, stop = scenario.active_ps(flow)
    if key != "think" and (stop - start) * flow.all_streams > gap * MOST_REQUESTS:
        yield Finding(
            loc,
            f"makes a request every {format_duration(gap)}, more than {MOST_REQUESTS:,} in sum; "
            "expected fewer",
        )


def _exchanges(loc: Loc, exchanges: Transfers | Rpc) -> Iterator[Finding]:
    if not exchanges.pace:
        yield Finding(loc, "says no time of requests; expected `every`, `load` or `think`")
    for other in exchanges.pace[1:]:
        yield Finding(
            (*loc, other),
            f"is given beside `{exchanges.pace[0]}`; expected one of the two",
            at_key=True,
        )


def _sizes(loc: Loc, transfers: Transfers) -> Iterator[Finding]:
    if transfers.sizes in TABLES and transfers.size is not None:
        yield Finding(
            (*loc, "size"),
            f"{quote(transfers.sizes)} has sizes of its own; expected none",
            at_key=True,
        )
    if transfers.sizes not in TABLES and transfers.size is None:
        yield Finding((*loc, "size"), "is missing; expected a size such as `100 kB`")
    if transfers.shape is not None and transfers.sizes != "pareto":
        yield Finding((*loc, "shape"), "means nothing without `sizes: pareto`", at_key=True)
    if transfers.sigma is not None and transfers.sizes != "lognormal":
        yield Finding((*loc, "sigma"), "means nothing without `sizes: lognormal`", at_key=True)


def _page(loc: Loc, web: Web) -> Iterator[Finding]:
    above: list[str] = []
    for name, group in web.objects.items():
        if group.after is not None and group.after not in above:
            known = f"one of {', '.join(above)}" if above else "none in the first entry"
            yield Finding(
                (*loc, name, "after"),
                f"{quote(group.after)} is not above; expected {known}",
                did_you_mean(group.after, above),
            )
        above.append(name)
    if all(group.after is not None for group in web.objects.values()):
        yield Finding(loc, "nothing begins the page; expected objects without `after`")
    if web.number > MOST_OBJECTS:
        yield Finding(loc, f"are {web.number:,}; expected at most {MOST_OBJECTS:,}")


def _video(loc: Loc, video: Video) -> Iterator[Finding]:
    for number, (low, high) in enumerate(pairwise(video.bitrates), 1):
        if low >= high:
            yield Finding(
                (*loc, "bitrates", number),
                f"{format_rate(high)} is not above {format_rate(low)}; expected rising bit rates",
            )
    if video.buffer < video.segment:
        yield Finding(
            (*loc, "buffer"),
            f"{format_duration(video.buffer)} is less than a segment, "
            f"{format_duration(video.segment)}; expected at least that",
        )
    elif video.effective_startup > video.buffer:
        yield Finding(
            (*loc, "startup"),
            f"{format_duration(video.effective_startup)} is more than the buffer, "
            f"{format_duration(video.buffer)}; expected at most that",
        )
