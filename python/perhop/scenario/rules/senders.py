"""Rules on flows and pings: their ends, times and transport."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perhop.scenario.model.metrics import KINDS
from perhop.scenario.model.quantities import EPHEMERAL_PORTS
from perhop.scenario.model.starts import Starts
from perhop.scenario.model.tcp import BBR, FEEDBACK, PACED
from perhop.scenario.model.traffic import Flow
from perhop.scenario.resolve.elements import measured, senders
from perhop.scenario.resolve.paths import regions
from perhop.scenario.rules.findings import Finding, known
from perhop.scenario.rules.network import link_ends
from perhop.units import format_duration, format_size, quote

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perhop.scenario.model.base import Loc
    from perhop.scenario.model.network import PortRange
    from perhop.scenario.model.quic import Quic
    from perhop.scenario.resolve.scenario import ResolvedScenario


LAST_PORT = 65535
"""The highest port of TCP and UDP."""

MAX_INTERVALS = 1_000_000
"""The most reports of a flow that a scenario may ask for."""

MAX_REQUESTS = 10_000_000
"""The most requests that a ping may send."""

MAX_STREAMS = (1 << 16) - 1
"""The most streams of a flow, those of all starts."""

MAX_ENDPOINTS = 1 << 20
"""The most ends of flows and pings: `MOST_ENDPOINTS` of the simulator."""


def paths(scenario: ResolvedScenario) -> Iterator[Finding]:
    """Find flows and pings without a path between their ends."""
    touched = regions(scenario)
    joined = next(link_ends(scenario), None) is None
    for section, name, sender in senders(scenario):
        ends = (("from", sender.source), ("to", sender.destination))
        unknown = [
            finding
            for key, node in ends
            for finding in known(node, scenario.nodes, "node", (section, name, key))
        ]
        yield from unknown
        if unknown:
            continue
        if sender.source == sender.destination:
            yield Finding(
                (section, name, "to"), f"is {quote(sender.source)} too; expected another host"
            )
            continue
        # Routers answer pings, and send and receive nothing else.
        hosts = ends if section == "flows" else ends[:1]
        routers = [end for end in hosts if scenario.nodes[end[1]].kind == "router"]
        for key, node in routers:
            yield Finding((section, name, key), f"{quote(node)} is a router; expected a host")
        if joined and not routers and not touched[sender.source] & touched[sender.destination]:
            yield Finding(
                (section, name, "to"),
                f"{quote(sender.destination)} cannot be reached from {quote(sender.source)}; "
                "expected a path of links and routers between them",
            )


def names_of_senders(scenario: ResolvedScenario) -> Iterator[Finding]:
    """Find equal names of flows and pings, and the name `total`."""
    for section, name, _ in senders(scenario):
        if name == "total":
            yield Finding(
                (section, name),
                "`total` is the sum of all flows; expected another name",
                at_key=True,
            )
        elif section == "pings" and name in scenario.flows:
            yield Finding(
                (section, name),
                f"{quote(name)} is a flow already; expected another name",
                at_key=True,
            )


def transports(scenario: ResolvedScenario) -> Iterator[Finding]:
    """Find flows with both TCP and UDP, with several ends, or with windows below a segment."""
    for name, flow in scenario.flows.items():
        loc: Loc = ("flows", name)
        first, *others = (kind for kind in KINDS if getattr(flow, kind) is not None)
        for kind in others:
            yield Finding(
                (*loc, kind), f"is given beside `{first}`; expected one of the two", at_key=True
            )
        if flow.stop is not None and flow.volume is not None:
            yield Finding(
                (*loc, "volume"), "is given beside `stop`; expected one of the two", at_key=True
            )
        if flow.quic is not None:
            yield from _quic((*loc, "quic"), flow.quic)
        if flow.tcp is None:
            continue
        if flow.tcp.write is not None and flow.tcp.rate is None:
            yield Finding((*loc, "tcp", "write"), "means nothing without `rate`", at_key=True)
        if flow.tcp.rate is not None and flow.applications:
            yield Finding(
                (*loc, "tcp", "rate"),
                f"means nothing beside `{flow.applications[0]}`, whose server writes at once; "
                "expected one of the two",
                at_key=True,
            )
        if flow.tcp.loss_detection == "rack" and not flow.tcp.sack:
            yield Finding(
                (*loc, "tcp", "loss_detection"),
                "`rack` needs selective acknowledgements; expected `sack: true` beside it",
            )
        control = flow.tcp.congestion_control
        feedback = FEEDBACK.get(control, (flow.tcp.effective_ecn,))
        if flow.tcp.effective_ecn not in feedback:
            yield Finding(
                (*loc, "tcp", "ecn"),
                f"{quote(control)} needs to know how much is marked; "
                f"expected {' or '.join(map(quote, feedback))}",
            )
        if control in BBR and not flow.tcp.sack:
            yield Finding(
                (*loc, "tcp", "sack"),
                f"{quote(control)} needs selective acknowledgements; expected `true`",
            )
        if control in BBR and flow.tcp.effective_ecn != "off":
            yield Finding(
                (*loc, "tcp", "ecn"),
                f"{quote(control)} does not respond to marks; expected `off`",
            )
        if control in PACED and not flow.tcp.effective_pacing:
            yield Finding(
                (*loc, "tcp", "pacing"), f"{quote(control)} sends by pacing; expected `true`"
            )
        fixed = next((k for k in ("receive_window", "window") if getattr(flow.tcp, k)), None)
        if flow.tcp.autotuning and fixed:
            yield Finding(
                (*loc, "tcp", fixed), "the receive window is autotuned; expected no size of it"
            )
        mss = flow.tcp.effective_mss(scenario.ip_of(flow))
        windows = (
            ("send_window", flow.tcp.effective_send_window, flow.tcp.send_window),
            ("receive_window", flow.tcp.effective_receive_window, flow.tcp.receive_window),
        )
        for key, size, own in windows:
            if size < mss:
                yield Finding(
                    (*loc, "tcp", key if own else "window"),
                    f"{format_size(size)} is less than one segment; "
                    f"expected at least the mss, {format_size(mss)}",
                )
        if flow.tcp.timestamps and flow.tcp.mss > 65495 - 12:
            yield Finding(
                (*loc, "tcp", "mss"),
                f"{format_size(flow.tcp.mss)} and timestamps do not fit a packet; "
                "expected at most 65483 B",
            )


def _quic(loc: Loc, quic: Quic) -> Iterator[Finding]:
    control = quic.congestion_control
    if control in BBR and quic.effective_ecn:
        yield Finding(
            (*loc, "ecn"), f"{quote(control)} does not respond to marks; expected `false`"
        )
    if control in FEEDBACK and not quic.effective_ecn:
        yield Finding((*loc, "ecn"), f"{quote(control)} needs marks; expected `true`")
    if control in PACED and not quic.pacing:
        yield Finding((*loc, "pacing"), f"{quote(control)} sends by pacing; expected `true`")


def source_ports(scenario: ResolvedScenario) -> Iterator[Finding]:
    """Find source ports above the last port, and flows with the same addresses and ports.

    Flows without `source_port` may have equal ports in the simulator; real hosts choose others.
    """
    alike: dict[tuple[str, ...], list[tuple[PortRange, str]]] = {}
    for name, flow in scenario.flows.items():
        first, last = flow.source_ports or (
            EPHEMERAL_PORTS[0],
            EPHEMERAL_PORTS[0] + flow.all_streams - 1,
        )
        if flow.source_port is not None and last > LAST_PORT:
            yield Finding(
                ("flows", name, "source_port"),
                f"{flow.all_streams} streams have the ports {first} to {last}; "
                f"expected at most {LAST_PORT + 1 - flow.all_streams}",
            )
        protocol = "udp" if flow.tcp is None else "tcp"
        key = (flow.source, flow.destination, protocol, str(scenario.port_of(name)))
        alike.setdefault(key, []).append(((first, last), name))
    for (source, destination, _, port), found in alike.items():
        # The ports that reach the furthest so far: of all flows, and of those with `source_port`.
        any_last, given_last = (-1, ""), (-1, "")
        for (first, last), name in sorted(found):
            given = scenario.flows[name].source_port is not None
            before, other = any_last if given else given_last
            if first <= before:
                at, other = (name, other) if given else (other, name)
                yield Finding(
                    ("flows", at, "source_port"),
                    f"{quote(other)} sends from port {first} of {quote(source)} to port {port} of "
                    f"{quote(destination)} too; expected another source port",
                )
            any_last = max(any_last, (last, name))
            given_last = max(given_last, (last, name)) if given else given_last


def times(scenario: ResolvedScenario) -> Iterator[Finding]:
    """Find flows and pings that stop before they start, or outside the scenario."""
    open_ended = [
        (section, name)
        for section, name, sender in senders(scenario)
        if section == "flows" and sender.stop is None
    ]
    for section, name, sender in senders(scenario):
        loc: Loc = (section, name)
        last = "the start"
        if not isinstance(sender, Flow):
            start = sender.start
        else:
            start = sender.starts[-1] + sender.jitter
            last = "the last start" if isinstance(sender.start, Starts) else last
            if len({*sender.starts}) < len(sender.starts):
                yield Finding((*loc, "start"), "has an instant twice; expected more `streams`")
        if sender.stop is not None and start >= sender.stop:
            yield Finding(
                (*loc, "stop"),
                f"{format_duration(sender.stop)} is not after {last}, {format_duration(start)}",
            )
        elif scenario.duration is not None:
            end = format_duration(scenario.duration)
            if sender.stop is not None and sender.stop > scenario.duration:
                yield Finding(
                    (*loc, "stop"),
                    f"{format_duration(sender.stop)} is after the end of the scenario, {end}",
                )
            elif start >= scenario.duration:
                yield Finding(
                    (*loc, "start"),
                    f"{format_duration(start)} is not before the end of the scenario, {end}",
                )
    if scenario.duration is None:
        for section, name in open_ended:
            yield Finding(
                (section, name),
                "has no `stop`, and the scenario no `duration`; expected one of them",
                at_key=True,
            )
        if not open_ended and not scenario.end_ps and (scenario.flows or scenario.pings):
            yield Finding(("duration",), "is missing; expected a duration such as `60 s`")


def instants(scenario: ResolvedScenario) -> Iterator[Finding]:
    """Find different instants that are equal in results, which have them in seconds."""
    taken: dict[float, tuple[int, str]] = {}
    for loc, at in _instants(scenario):
        first, place = taken.setdefault(at / 1e12, (at, ".".join(map(str, loc))))
        if first != at:
            yield Finding(
                loc,
                f"{format_duration(at)} cannot be told from {place}, {format_duration(first)}, "
                "that late; expected the same, or microseconds between them",
            )


def _instants(scenario: ResolvedScenario) -> Iterator[tuple[Loc, int]]:
    """Everything that cuts results, and its place."""
    yield ("duration",), scenario.end_ps
    for name, flow in scenario.flows.items():
        _, stop = scenario.active_ps(flow)
        yield from ((("flows", name, "start"), start) for start in flow.starts)
        yield ("flows", name, "stop"), stop
    yield from ((("changes", index, "at"), each.at) for index, each in enumerate(scenario.changes))
    for loc, item in measured(scenario):
        yield from (((*loc, "during"), edge) for edge in item.during or ())


def amounts(scenario: ResolvedScenario) -> Iterator[Finding]:
    """Find too many streams, reports and echo requests."""
    end = scenario.end_ps
    if end > scenario.report.interval * MAX_INTERVALS:
        yield Finding(
            ("report", "interval"),
            f"{format_duration(scenario.report.interval)} makes more than {MAX_INTERVALS:,} "
            f"intervals of {format_duration(end)}; expected a longer one",
        )
    for name, flow in scenario.flows.items():
        if flow.all_streams > MAX_STREAMS:
            yield Finding(
                ("flows", name, "start"),
                f"has {len(flow.starts)} instants, each with {flow.streams} streams, which are "
                f"{flow.all_streams:,}; expected at most {MAX_STREAMS:,} streams",
            )
    # An application has one end until it opens connections.
    ends = sum(
        flow.all_streams * (1 if flow.applications else 2) for flow in scenario.flows.values()
    )
    if ends + len(scenario.pings) > MAX_ENDPOINTS:
        streams = sum(flow.all_streams for flow in scenario.flows.values())
        yield Finding(
            ("flows",),
            f"have {streams:,} streams together; expected at most {MAX_ENDPOINTS // 2:,}",
            at_key=True,
        )
    for name, ping in scenario.pings.items():
        start, stop = scenario.active_ps(ping)
        if (stop - start) * ping.requests > ping.every * MAX_REQUESTS:
            yield Finding(
                ("pings", name, "every"),
                f"{format_duration(ping.every)} makes more than {MAX_REQUESTS:,} requests; "
                "expected a longer time",
            )
