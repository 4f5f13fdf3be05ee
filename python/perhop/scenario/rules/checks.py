"""What must hold between the parts of a well-formed scenario.

Each check is a generator of findings over a scenario, and says which sections it reads: where one
of them is malformed, the check is left out, so that no message follows from another one's cause.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perhop.hints import did_you_mean, listed
from perhop.scenario.model.metrics import METRICS
from perhop.scenario.model.tcp import BBR, FEEDBACK, PACED
from perhop.scenario.rules.cbq import altq_cbq
from perhop.scenario.rules.datagrams import datagrams
from perhop.scenario.rules.disciplines import disciplines
from perhop.scenario.rules.findings import Finding
from perhop.scenario.rules.ipv6 import ipv6_links
from perhop.scenario.rules.marking import marking_rules
from perhop.scenario.rules.policies import (
    combinations,
    cycles,
    guarantees,
    last_classes,
    match_nodes,
    number_of_classes,
    policers,
    shadowed_classes,
    unmatched_classes,
    unused_policies,
)
from perhop.scenario.rules.probes import icmp_limits, of_hosts, probes
from perhop.scenario.rules.timeline import changes, policies_of_changes
from perhop.units import format_duration, format_rate, format_size, quote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from perhop.scenario.model.base import Loc
    from perhop.scenario.model.expectations import Expectation, Measured
    from perhop.scenario.model.traffic import Flow, Ping
    from perhop.scenario.resolve.scenario import ResolvedScenario

MAX_INTERVALS = 1_000_000
"""The most reports of a flow that a scenario may ask for."""

MAX_REQUESTS = 10_000_000
"""The most requests that a ping may send."""


def check(scenario: ResolvedScenario, sound: set[str]) -> Iterator[Finding]:
    """Everything that is wrong with `scenario`, as far as its `sound` sections tell."""
    for rule, sections in RULES:
        if sections <= sound:
            yield from rule(scenario)


# Nodes and links


def addresses(scenario: ResolvedScenario) -> Iterator[Finding]:
    """Every address belongs to one node."""
    owners: dict[object, str] = {}
    for name, node in scenario.nodes.items():
        if node.address is not None and owners.setdefault(node.address, name) != name:
            yield Finding(
                ("nodes", name, "address"),
                f"{node.address} is already the address of {quote(owners[node.address])}",
            )


def link_ends(scenario: ResolvedScenario) -> Iterator[Finding]:
    """Links join two different nodes that exist; names tell those between the same two apart."""
    seen: dict[tuple[frozenset[str], str], int] = {}
    for index, link in enumerate(scenario.links):
        loc: Loc = ("links", index, "ends")
        for position, end in enumerate(link.ends):
            yield from _known(end, scenario.nodes, "node", (*loc, position))
        first, second = link.ends
        if first == second:
            yield Finding(loc, f"joins {quote(first)} to itself; expected two different nodes")
            continue
        if link.name is not None:
            earlier = seen.setdefault((frozenset(link.ends), link.name), index)
            if earlier != index:
                yield Finding(
                    ("links", index, "name"),
                    f"{quote(link.name)} is already the name of links.{earlier} between "
                    f"{quote(first)} and {quote(second)}; expected another name",
                )


def link_policies(scenario: ResolvedScenario) -> Iterator[Finding]:
    """An egress, a shape and a remark name an end of their link; a shape lets something pass."""
    for index, link in enumerate(scenario.links):
        keys = (("egress", [*link.egress]), ("shape", [*link.shape]), ("remark", [*link.remark]))
        for key, node in ((key, node) for key, nodes in keys for node in nodes):
            if node not in link.ends:
                first, second = link.ends
                yield Finding(
                    ("links", index, key, node),
                    f"{quote(node)} is not an end of this link; "
                    f"expected {quote(first)} or {quote(second)}",
                    did_you_mean(node, link.ends),
                    at_key=True,
                )
        for node, shape in link.shape.items():
            if shape.rate.of(link.rate) < 1:
                yield Finding(
                    ("links", index, "shape", node, "rate"),
                    f"is less than 1 bps of the link's {format_rate(link.rate)}",
                )


def reservable(scenario: ResolvedScenario) -> Iterator[Finding]:
    """No more can be reserved than a link has, nor in a class than in all."""
    for index, link in enumerate(scenario.links):
        if link.reservable is None:
            continue
        loc: Loc = ("links", index, "reservable")
        total = link.reservable.total.of(link.rate)
        if total > link.rate:
            yield Finding(
                loc,
                f"{format_rate(total)} is more than the link's {format_rate(link.rate)}; "
                "expected at most that",
            )
        for name, part in link.reservable.classes.items():
            if part.of(link.rate) > total:
                yield Finding(
                    (*loc, "classes", name),
                    f"{format_rate(part.of(link.rate))} is more than the {format_rate(total)} "
                    "that can be reserved in all",
                )


def egress_policies(scenario: ResolvedScenario) -> Iterator[Finding]:
    """An egress names a policy that exists."""
    for index, link in enumerate(scenario.links):
        for node, policy in link.egress.items():
            yield from _known(policy, scenario.policies, "policy", ("links", index, "egress", node))


def paths(scenario: ResolvedScenario) -> Iterator[Finding]:
    """Flows and pings go from one host to another that routers lead to."""
    regions = _regions(scenario)
    joined = next(link_ends(scenario), None) is None
    for section, name, sender in _senders(scenario):
        ends = (("from", sender.source), ("to", sender.destination))
        unknown = [
            finding
            for key, node in ends
            for finding in _known(node, scenario.nodes, "node", (section, name, key))
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
        if joined and not routers and not regions[sender.source] & regions[sender.destination]:
            yield Finding(
                (section, name, "to"),
                f"{quote(sender.destination)} cannot be reached from {quote(sender.source)}; "
                "expected a path of links and routers between them",
            )


def _regions(scenario: ResolvedScenario) -> dict[str, set[object]]:
    """For each node the connected sets of routers, and single links, that it touches.

    Two hosts reach each other where these meet: only routers forward.
    """
    root: dict[str, str] = {name: name for name in scenario.nodes}

    def find(node: str) -> str:
        while root[node] != node:
            root[node] = root[root[node]]
            node = root[node]
        return node

    links = [link.ends for link in scenario.links if set(link.ends) <= scenario.nodes.keys()]
    routers = {name for name, node in scenario.nodes.items() if node.kind == "router"}
    for first, second in links:
        if {first, second} <= routers:
            root[find(first)] = find(second)
    regions: dict[str, set[object]] = {name: set() for name in scenario.nodes}
    for router in routers:
        regions[router].add(find(router))
    for index, (first, second) in enumerate(links):
        for node, other in ((first, second), (second, first)):
            regions[node].add(find(other) if other in routers else index)
    return regions


# Flows and pings


def names_of_senders(scenario: ResolvedScenario) -> Iterator[Finding]:
    """Flows and pings have different names, and none is called total."""
    for section, name, _ in _senders(scenario):
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
    """A flow is TCP or UDP, ends in one way, and its windows hold a segment."""
    for name, flow in scenario.flows.items():
        loc: Loc = ("flows", name)
        if flow.tcp is not None and flow.udp is not None:
            yield Finding(
                (*loc, "udp"), "is given beside `tcp`; expected one of the two", at_key=True
            )
        if flow.stop is not None and flow.volume is not None:
            yield Finding(
                (*loc, "volume"), "is given beside `stop`; expected one of the two", at_key=True
            )
        if flow.tcp is None:
            continue
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
        windows = (
            ("send_window", flow.tcp.effective_send_window, flow.tcp.send_window),
            ("receive_window", flow.tcp.effective_receive_window, flow.tcp.receive_window),
        )
        for key, size, own in windows:
            if size < flow.tcp.mss:
                yield Finding(
                    (*loc, "tcp", key if own else "window"),
                    f"{format_size(size)} is less than one segment; "
                    f"expected at least the mss, {format_size(flow.tcp.mss)}",
                )
        if flow.tcp.timestamps and flow.tcp.mss > 65495 - 12:
            yield Finding(
                (*loc, "tcp", "mss"),
                f"{format_size(flow.tcp.mss)} and timestamps do not fit a packet; "
                "expected at most 65483 B",
            )


def times(scenario: ResolvedScenario) -> Iterator[Finding]:
    """Flows and pings start before they stop, within a scenario that has an end."""
    open_ended = [
        (section, name)
        for section, name, sender in _senders(scenario)
        if section == "flows" and sender.stop is None
    ]
    for section, name, sender in _senders(scenario):
        loc: Loc = (section, name)
        if sender.stop is not None and sender.start >= sender.stop:
            yield Finding(
                (*loc, "stop"),
                f"{format_duration(sender.stop)} is not after the start, "
                f"{format_duration(sender.start)}",
            )
        elif scenario.duration is not None:
            end = format_duration(scenario.duration)
            if sender.stop is not None and sender.stop > scenario.duration:
                yield Finding(
                    (*loc, "stop"),
                    f"{format_duration(sender.stop)} is after the end of the scenario, {end}",
                )
            elif sender.start >= scenario.duration:
                yield Finding(
                    (*loc, "start"),
                    f"{format_duration(sender.start)} is not before the end of the scenario, {end}",
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
    """Instants differ in results, too, which have them in seconds: by 1 ps up to two hours."""
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
        start, stop = scenario.active_ps(flow)
        yield ("flows", name, "start"), start
        yield ("flows", name, "stop"), stop
    yield from ((("changes", index, "at"), each.at) for index, each in enumerate(scenario.changes))
    for loc, item in _measured(scenario):
        yield from (((*loc, "during"), edge) for edge in item.during or ())


def amounts(scenario: ResolvedScenario) -> Iterator[Finding]:
    """Reports and echo requests are few enough to keep."""
    end = scenario.end_ps
    if end > scenario.report.interval * MAX_INTERVALS:
        yield Finding(
            ("report", "interval"),
            f"{format_duration(scenario.report.interval)} makes more than {MAX_INTERVALS:,} "
            f"intervals of {format_duration(end)}; expected a longer one",
        )
    for name, ping in scenario.pings.items():
        start, stop = scenario.active_ps(ping)
        if (stop - start) * ping.requests > ping.every * MAX_REQUESTS:
            yield Finding(
                ("pings", name, "every"),
                f"{format_duration(ping.every)} makes more than {MAX_REQUESTS:,} requests; "
                "expected a longer time",
            )


# Expectations and published figures


def metrics(scenario: ResolvedScenario) -> Iterator[Finding]:
    """Each names exactly one metric, and its values make sense."""
    for loc, item in _measured(scenario):
        named = item.named
        if not named:
            yield Finding(loc, f"names no metric; expected one of {', '.join(METRICS)}")
        for other in named[1:]:
            yield Finding(
                (*loc, other), f"is given beside `{named[0]}`; expected one metric", at_key=True
            )
    for index, wanted in enumerate(scenario.expect):
        yield from _bounds(("expect", index), wanted)


def targets(scenario: ResolvedScenario) -> Iterator[Finding]:
    """What is measured exists."""
    for loc, item in _measured(scenario):
        if len(item.named) != 1:
            continue
        metric, target = item.metric, item.target
        kinds: dict[str, Iterable[str]] = {
            "flow": scenario.flows,
            "ping": scenario.pings,
            "total": ["total"],
        }
        candidates = [name for kind in metric.targets for name in kinds[kind]]
        if target not in candidates:
            known = " or ".join(f"a {k}" if k != "total" else "`total`" for k in metric.targets)
            actual = next((k for k, names in kinds.items() if target in names), None)
            what = f"is a {actual}" if actual in ("flow", "ping") else "is unknown"
            yield Finding(
                (*loc, metric.name),
                f"{quote(target)} {what}; expected {known}{listed(candidates)}",
                did_you_mean(target, candidates),
            )
        elif target in scenario.pings and scenario.pings[target].is_trace:
            yield Finding(
                (*loc, metric.name),
                f"{quote(target)} asks several nodes; expected a ping with one `ttl`",
            )
        elif (
            metric.name in ("retransmits", "sack_share") and scenario.flows[target].udp is not None
        ):
            yield Finding(
                (*loc, metric.name), f"{quote(target)} is a UDP flow; expected a TCP flow"
            )
        elif metric.name in ("jitter", "duplicates") and scenario.flows[target].udp is None:
            yield Finding(
                (*loc, metric.name), f"{quote(target)} is a TCP flow; expected a UDP flow"
            )


def windows(scenario: ResolvedScenario) -> Iterator[Finding]:
    """What is measured lies within the scenario."""
    end = scenario.end_ps
    for loc, item in _measured(scenario):
        if item.during is not None and end and item.during[1] > end:
            yield Finding(
                (*loc, "during"),
                f"{format_duration(item.during[1])} is after the end of the scenario, "
                f"{format_duration(end)}",
            )


def _bounds(loc: Loc, wanted: Expectation) -> Iterator[Finding]:
    if len(wanted.named) != 1:
        return
    bounds = [key for key in ("at_least", "at_most", "about") if getattr(wanted, key) is not None]
    if not bounds:
        yield Finding(loc, "expects nothing; expected at_least, at_most, or about with within")
    if wanted.about is not None:
        for key in ("at_least", "at_most"):
            if key in bounds:
                yield Finding(
                    (*loc, key), "is given beside `about`; expected one of the two", at_key=True
                )
        if wanted.within is None:
            yield Finding(
                (*loc, "within"), "is missing; expected a share such as `5%` beside `about`"
            )
    elif wanted.within is not None:
        yield Finding((*loc, "within"), "means nothing without `about`", at_key=True)
    if (
        wanted.at_least is not None
        and wanted.at_most is not None
        and wanted.at_least > wanted.at_most
    ):
        show = wanted.metric.format
        yield Finding(
            (*loc, "at_most"),
            f"{show(wanted.at_most)} is less than at_least, {show(wanted.at_least)}",
        )


# Helpers


def _known(name: str, names: Iterable[str], kind: str, loc: Loc) -> Iterator[Finding]:
    """A finding unless `name` is one of `names`."""
    if name not in names:
        hint = did_you_mean(name, names)
        few = "" if hint else listed(names)
        yield Finding(loc, f"{quote(name)} is not a {kind}{few}", hint)


def _senders(scenario: ResolvedScenario) -> Iterator[tuple[str, str, Flow | Ping]]:
    yield from (("flows", name, flow) for name, flow in scenario.flows.items())
    yield from (("pings", name, ping) for name, ping in scenario.pings.items())


def _measured(scenario: ResolvedScenario) -> Iterator[tuple[Loc, Measured]]:
    yield from ((("expect", index), item) for index, item in enumerate(scenario.expect))
    yield from ((("published", index), item) for index, item in enumerate(scenario.published))


NETWORK = {"nodes", "links"}
TRAFFIC = {"flows", "pings"}
TIMES = {*TRAFFIC, "duration"}
MEASURED = {"expect", "published"}

RULES: tuple[tuple[Callable[[ResolvedScenario], Iterator[Finding]], set[str]], ...] = (
    (addresses, {"nodes"}),
    (link_ends, NETWORK),
    (link_policies, {"links"}),
    (reservable, {"links"}),
    (egress_policies, {"links", "policies"}),
    (paths, {*NETWORK, *TRAFFIC}),
    (names_of_senders, TRAFFIC),
    (transports, {"flows"}),
    (datagrams, {"flows"}),
    (probes, TRAFFIC),
    (of_hosts, {"nodes"}),
    (icmp_limits, {"nodes"}),
    (marking_rules, NETWORK),
    (ipv6_links, {*NETWORK, "policies"}),
    (times, TIMES),
    (amounts, {*TIMES, "report"}),
    (instants, {*TIMES, *MEASURED, "changes"}),
    (changes, {*NETWORK, *TIMES, "changes"}),
    (policies_of_changes, {"links", "policies", "changes"}),
    (metrics, MEASURED),
    (targets, {*MEASURED, *TRAFFIC}),
    (windows, {*MEASURED, *TIMES}),
    (last_classes, {"policies"}),
    (combinations, {"policies"}),
    (altq_cbq, {"links", "policies"}),
    (policers, {"policies"}),
    (match_nodes, {"nodes", "policies"}),
    (number_of_classes, {"policies"}),
    (disciplines, {"links", "policies"}),
    (cycles, {"policies"}),
    (unused_policies, {"links", "policies", "changes"}),
    (guarantees, {"links", "policies", "changes"}),
    (shadowed_classes, {"nodes", "policies"}),
    (unmatched_classes, {"nodes", "policies", *TRAFFIC, "links"}),
)
"""Every check, and the sections that it reads."""
