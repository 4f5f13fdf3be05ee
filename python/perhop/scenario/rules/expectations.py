"""Rules on expectations and published figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perhop.hints import did_you_mean, listed
from perhop.scenario.model.dscp import format_dscp
from perhop.scenario.model.metrics import (
    CAUSE,
    CLASS,
    ENTRY,
    LINK,
    METRICS,
    RADIO,
    SCORES,
    metric_hint,
)
from perhop.scenario.resolve.elements import measured
from perhop.scenario.resolve.nesting import has_cycles
from perhop.scenario.resolve.shares import walk
from perhop.scenario.resolve.steps import attachments
from perhop.scenario.rules.findings import Finding
from perhop.units import format_duration, quote

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from perhop.scenario.model.base import Loc
    from perhop.scenario.model.expectations import Expectation, Measured
    from perhop.scenario.model.metrics import FlowKind, Metric
    from perhop.scenario.model.queues import Queue
    from perhop.scenario.model.topology import Link
    from perhop.scenario.resolve.scenario import ResolvedScenario


def metrics(scenario: ResolvedScenario) -> Iterator[Finding]:
    """Find expectations without exactly one metric, or with invalid values."""
    for loc, item in measured(scenario):
        named = item.named
        if not named:
            yield Finding(loc, f"names no metric; {metric_hint(None)}")
        for other in named[1:]:
            yield Finding(
                (*loc, other), f"is given beside `{named[0]}`; expected one metric", at_key=True
            )
    for index, wanted in enumerate(scenario.expect):
        yield from _bounds(("expect", index), wanted)


def targets(scenario: ResolvedScenario) -> Iterator[Finding]:
    """Find expectations of unknown flows and pings, and of the wrong number of targets."""
    for loc, item in measured(scenario):
        if len(item.named) != 1:
            continue
        metric = item.metric
        least, most = metric.several
        if not least <= len(item.targets) <= most:
            wanted = "one target" if most == 1 else f"{least} targets such as `[web, bulk]`"
            given = "one target" if len(item.targets) == 1 else f"{len(item.targets)} targets"
            yield Finding((*loc, metric.name), f"has {given}; expected {wanted}")
            continue
        wrong = list(_keys(loc, item))
        yield from wrong
        if not wrong and LINK not in metric.targets:
            for target in item.targets:
                yield from _target(scenario, (*loc, metric.name), item.measured_metric, target)
            if metric.name == "rpm":
                yield from _probes_and_load(scenario, (*loc, "rpm"), item.targets)
            if item.entry is not None and item.targets[0] in scenario.tunnels:
                ends = scenario.tunnels[item.targets[0]].ends
                if item.entry not in ends:
                    message = f"{quote(item.entry)} is no end of {quote(item.targets[0])}"
                    yield Finding((*loc, "entry"), f"{message}; expected {' or '.join(ends)}")


def links(scenario: ResolvedScenario) -> Iterator[Finding]:
    """Find expectations of unknown directed links and classes."""
    for loc, item in measured(scenario):
        if len(item.named) != 1 or LINK not in item.metric.targets or len(item.targets) != 1:
            continue
        [link] = item.targets
        if "channel" in item.metric.targets and link in scenario.channels:
            continue
        if link not in _links(scenario, item.metric):
            yield from _target(scenario, (*loc, item.metric.name), item.metric, link)
        elif item.class_ is not None and not has_cycles(scenario):
            yield from _class(scenario, (*loc, "class"), link, item.class_)
        elif item.metric.name in RADIO and scenario.directions[link][0].channel is None:
            known = [name for name, (own, _) in scenario.directions.items() if own.channel]
            message = f"{quote(link)} is on no radio channel; expected one that is{listed(known)}"
            yield Finding((*loc, item.metric.name), message, did_you_mean(link, known))


def _links(scenario: ResolvedScenario, metric: Metric) -> Mapping[str, tuple[Link, str]]:
    """Return the directed links, and for metrics of queues the devices of tunnels."""
    return scenario.queueing if CLASS in metric.takes else scenario.directions


def _keys(loc: Loc, item: Measured) -> Iterator[Finding]:
    """Find keys that a metric lacks or does not have."""
    metric, keys = item.metric, {CLASS: "class", CAUSE: "cause", ENTRY: "entry", "of": "of"}
    for field, key in keys.items():
        given = getattr(item, field) is not None
        if given and field not in metric.takes:
            takers = [f"`{each.name}`" for each in METRICS.values() if field in each.takes]
            message = f"means nothing for `{metric.name}`; expected it with {', '.join(takers)}"
            yield Finding((*loc, key), message, at_key=True)
        elif not given and field in metric.needs:
            yield Finding(loc, f"`{metric.name}` lacks a `{key}`; expected one")
    if item.of is not None and "of" in metric.takes:
        of = item.measured_metric
        if of.several != (1, 1) or not {"flow", "ping"} & {*of.targets}:
            message = f"`{of.name}` has no ratio; expected a metric of one flow or ping"
            yield Finding((*loc, "of"), message)


def _target(scenario: ResolvedScenario, loc: Loc, metric: Metric, target: str) -> Iterator[Finding]:
    kinds: dict[str, Iterable[str]] = {
        "flow": scenario.flows,
        "ping": scenario.pings,
        LINK: _links(scenario, metric) if LINK in metric.targets else [],
        "channel": scenario.channels,
        "tunnel": scenario.tunnels,
        "total": ["total"],
    }
    candidates = [name for kind in metric.targets for name in kinds[kind]]
    if target not in candidates:
        words = {"total": "`total`", LINK: "a directed link", "channel": "a radio channel"}
        known = " or ".join(words.get(kind, f"a {kind}") for kind in metric.targets)
        actual = next((k for k, names in kinds.items() if target in names), None)
        what = "is unknown" if actual in (None, "total") else f"is a {actual}"
        message = f"{quote(target)} {what}; expected {known}{listed(candidates)}"
        hint = _counterpart(scenario, metric, target) or did_you_mean(target, candidates)
        yield Finding(loc, message, hint)
    elif target in scenario.pings and scenario.pings[target].is_trace:
        yield Finding(loc, f"{quote(target)} asks several nodes; expected a ping with one `ttl`")
    elif target in scenario.pings and metric.name == "bufferbloat":
        first = min((flow.starts[0] for flow in scenario.flows.values()), default=0)
        if scenario.pings[target].start >= first:
            message = "sends no request before the first flow starts at"
            wanted = "a time without load, to compare with"
            yield Finding(
                loc, f"{quote(target)} {message} {format_duration(first)}; expected {wanted}"
            )
    elif target in scenario.flows:
        flow = scenario.flows[target]
        if flow.kind not in metric.kinds:
            wanted = " or ".join(f"{_article(kind)} flow" for kind in metric.kinds)
            yield Finding(loc, f"{quote(target)} is {_article(flow.kind)} flow; expected {wanted}")
        elif metric.applications and not {*metric.applications} & {*flow.applications}:
            keys = " or ".join(f"`{key}`" for key in metric.applications)
            yield Finding(loc, f"{quote(target)} has no {keys}; expected a flow that has one")
        elif metric.name == "completion" and flow.volume is None:
            yield Finding(loc, f"{quote(target)} has no `volume`; expected a flow that has one")
        elif metric.name in SCORES and flow.voice is not None and flow.voice.impairment is None:
            message = f"ITU-T G.113 has no impairment factors of {flow.voice.codec}"
            keys = f"`ie` and `bpl` in `flows.{target}.voice`"
            yield Finding(loc, f"{message}; expected {keys}")


def _counterpart(scenario: ResolvedScenario, metric: Metric, target: str) -> str:
    """Return how a quantity of pings is had for a flow, or one of flows for a ping; or ""."""
    if target in scenario.flows and "ping" in metric.targets:
        flow = scenario.flows[target]
        for name, ping in scenario.pings.items():
            if (ping.source, ping.destination, ping.dscp) == (
                flow.source,
                flow.destination,
                flow.dscp,
            ):
                return f"did you mean {quote(name)}, which has the ends and the DSCP of this flow?"
        sends = f"from: {flow.source}, to: {flow.destination}, dscp: {format_dscp(flow.dscp)}"
        add = f"add a ping beside it, such as `pings: {{{target}-rtt: {{{sends}}}}}`"
        return f"{add}, and expect `{metric.name}: {target}-rtt`"
    if target in scenario.pings and "flow" in metric.targets:
        own = ", ".join(f"`{each.name}`" for each in METRICS.values() if "ping" in each.targets)
        return f"the metrics of pings are {own}"
    return ""


def _probes_and_load(
    scenario: ResolvedScenario, loc: Loc, targets: tuple[str, ...]
) -> Iterator[Finding]:
    """Find flows that do not probe, or do not load a path, in a measurement of responsiveness."""
    probes, *load = targets
    rpc = scenario.flows[probes].rpc if probes in scenario.flows else None
    if probes in scenario.flows and (rpc is None or rpc.connections != "new"):
        yield Finding(
            loc,
            f"{quote(probes)} comes first and has no `rpc` with `connections: new`; expected one "
            "that probes, and then the flows that load the path",
        )
    for name in load:
        if name in scenario.flows and scenario.flows[name].applications:
            message = f"{quote(name)} has an application; expected a TCP or QUIC flow without one"
            yield Finding(loc, message)


def _article(kind: FlowKind) -> str:
    """Return the name of a kind of flow with its article."""
    return f"a {kind.upper()}" if kind in ("tcp", "udp", "quic") else f"a `{kind}`"


def _classes(scenario: ResolvedScenario, link: str) -> Iterator[str]:
    """Yield the classes of a directed link, and the tins of CAKE in them."""
    for _, direction, policy, capacity in attachments(scenario):
        if direction == link and policy in scenario.policies:
            for placed in walk(scenario, scenario.policies[policy], capacity):
                yield placed.path
                yield from _tins(placed.path, placed.class_.queue)
    own, sender = scenario.queueing[link]
    if sender not in own.egress:
        yield from _tins("all", own.queue_of(sender))


def _tins(path: str, queue: Queue | None) -> Iterator[str]:
    cake = None if queue is None else queue.cake
    yield from () if cake is None else (f"{path}/{tin}" for tin in cake.tins)


def _class(scenario: ResolvedScenario, loc: Loc, link: str, name: str) -> Iterator[Finding]:
    known = dict.fromkeys(_classes(scenario, link))
    if name not in known:
        expected = listed(known) if known else "; this link has no policy"
        message = f"{quote(name)} is not a class of {quote(link)}{expected}"
        yield Finding(loc, message, did_you_mean(name, known))


def windows(scenario: ResolvedScenario) -> Iterator[Finding]:
    """Find windows outside the scenario."""
    end = scenario.end_ps
    for loc, item in measured(scenario):
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
