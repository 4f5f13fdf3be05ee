"""Warnings: settings of a sound scenario that may make its results misleading.

A finding here refuses nothing: it goes into the results of a run, with its place in the scenario.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perhop.scenario.model.encapsulation import CLASS_KEYS
from perhop.scenario.model.quic import LEAST_DATAGRAM
from perhop.scenario.resolve.elements import link_classes, polices
from perhop.scenario.resolve.packets import Packets, Selection, sent
from perhop.scenario.resolve.paths import agreed_mtu, next_hops, path_mtu, path_mtus
from perhop.scenario.resolve.sizes import datagram_headers, packet_size
from perhop.scenario.resolve.steps import steps
from perhop.scenario.rules.background import placed
from perhop.scenario.rules.findings import Finding
from perhop.scenario.rules.hfsc import realtime_curves
from perhop.scenario.rules.tunnels import hidden_headers, hosts_in_tunnels, idle_tunnels
from perhop.units import format_duration, format_rate, format_size, quote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from perhop.scenario.model.traffic import Flow
    from perhop.scenario.resolve.scenario import ResolvedScenario

__all__ = ["is_random", "unused_seed", "unused_seeds", "warnings"]

UNSETTLED: Final = 0.2
"""The deviation of a mean, as a part of it, from which a warning is due."""


_NEAR: Final = 1.25
"""The ratio of a trace's mean to its link's rate from which a warning is due."""


def warnings(scenario: ResolvedScenario) -> Iterator[Finding]:
    """Return all warnings about `scenario`."""
    for rule in _RULES:
        yield from (placed(scenario, finding) for finding in rule(scenario))


def unused_seed(scenario: ResolvedScenario, engine: str, seed: int) -> Iterator[Finding]:
    """Warn of a seed other than the default without effect."""
    if engine == "sim" and seed != 1 and not is_random(scenario):
        yield Finding((), f"seed {seed} changes nothing: nothing in the scenario is random")


def unused_seeds(scenario: ResolvedScenario, engine: str, seeds: Sequence[int]) -> Iterator[str]:
    """Yield a warning if several seeds give equal results."""
    if engine == "sim" and len(seeds) > 1 and not is_random(scenario):
        yield (
            f"all {len(seeds)} seeds give the same results, because nothing in the scenario is "
            "random; one way to vary them is `start: {at: 0 s, jitter: 1 s}` in a flow"
        )


def is_random(scenario: ResolvedScenario) -> bool:
    """Return whether the simulator draws random numbers for a scenario.

    Links that lose, delay or duplicate at random do, channels, routers that share load by a hash,
    RED, WRED, PIE, FQ-CoDel, FQ-PIE and SFQ, the random patterns of UDP and of requests, BBR, and
    random starts.
    """
    links = any(
        link.channel
        or medium.loss
        or medium.jitter
        or medium.duplicate
        or medium.reorder is not None
        or medium.variation is not None
        for link in scenario.links
        for medium in link.media
    ) or any(change.loss for change in scenario.changes)
    traces = (trace for link in scenario.links for trace in link.trace.values() if trace.steps)
    traced = any(step.jitter or step.loss for trace in traces for step in trace.effective_steps)
    balance = [(name, node.balance) for name, node in scenario.nodes.items()]
    later = (each for each in scenario.changes if each.balance is not None)
    balance += [(str(each.node), each.balance or "per-flow") for each in later]
    hashing = {name for name, how in balance if how != "per-packet"}
    found = next_hops(scenario) if hashing else {}
    balanced = any(len(next_links) > 1 for name in hashing for next_links in found[name].values())
    queues = [link.queue_of(end) for link in scenario.links for end in link.ends]
    for _, policy in scenario.all_policies():
        queues += [class_.queue for class_ in policy.classes.values() if class_.queue is not None]
    drawn = any(queue.discipline is not None and queue.discipline.random for queue in queues)
    return links or traced or balanced or drawn or any(map(_is_random, scenario.flows.values()))


def _is_random(flow: Flow) -> bool:
    if flow.jitter:
        return True
    if flow.tcp is not None:
        return flow.tcp.congestion_control.startswith("bbr") or _has_random_requests(flow)
    if flow.quic is not None:
        return flow.quic.congestion_control.startswith("bbr") or _has_random_requests(flow)
    udp = flow.datagrams
    assert udp is not None
    if flow.voice is not None or flow.game is not None:
        return True
    bursts = udp.bursts is not None and (
        udp.bursts.lengths != "equal" or udp.bursts.begin == "stationary"
    )
    return bursts or udp.pattern != "constant" or udp.sizes != "equal"


def _has_random_requests(flow: Flow) -> bool:
    if flow.web is not None:
        return flow.web.think > 0 and flow.web.pattern == "poisson"
    sizes = flow.transfers is not None and flow.transfers.sizes != "equal"
    return sizes or (flow.exchanges is not None and flow.exchanges.effective_pattern == "poisson")


def traces_of_another_rate(scenario: ResolvedScenario) -> Iterator[Finding]:
    """Warn of traces whose mean is not the rate that shares and limits in time refer to."""
    for index, link in enumerate(scenario.links):
        for node, trace in link.trace.items():
            mean, rate = trace.mean_rate, link.medium(node).rate
            if mean is not None and not 1 / _NEAR < mean / rate < _NEAR:
                yield Finding(
                    ("links", index, "trace", node),
                    f"has a mean of {format_rate(round(mean))}, but shares and limits in time "
                    f"refer to the link's rate of {format_rate(rate)}",
                )


def marks_without_a_tag(scenario: ResolvedScenario) -> Iterator[Finding]:
    """Warn of matches and marks of classes at layer 2 that no link of the scenario carries."""
    kinds = {link.encapsulation.kind for link in scenario.links if link.encapsulation is not None}
    carried = {CLASS_KEYS[kind]: kind for kind in CLASS_KEYS if kind in kinds}
    for loc in link_classes(scenario):
        if loc[-1] not in carried:
            kind = next(kind for kind, key in CLASS_KEYS.items() if key == loc[-1])
            yield Finding(loc, f"has no effect: no link has `encapsulation: {kind}`")


def isolated_nodes(scenario: ResolvedScenario) -> Iterator[Finding]:
    """Warn of nodes without a link."""
    linked = {end for link in scenario.links for end in link.ends}
    for name in scenario.nodes:
        if name not in linked:
            yield Finding(("nodes", name), "has no link, so that nothing reaches it")


def heavy_tails(scenario: ResolvedScenario) -> Iterator[Finding]:
    """Warn of bursts whose mean length does not converge in a run of this length.

    With a Pareto distribution of a shape a between 1 and 2 the variance is infinite, and the mean
    of n lengths deviates from its expectation by about n to the power of -(1 - 1/a): the
    generalised central limit theorem (Gnedenko and Kolmogorov, 1954).
    """
    for name, flow in scenario.flows.items():
        bursts = flow.udp.bursts if flow.udp is not None else None
        if bursts is None or bursts.lengths != "pareto":
            continue
        start, stop = scenario.active_ps(flow)
        shape = bursts.effective_shape / 1000
        number = max(flow.all_streams * (stop - start) / (bursts.on + bursts.off), 1.0)
        deviation = number ** -(1 - 1 / shape) if shape < 2 else 0.0
        if deviation > UNSETTLED:
            yield Finding(
                ("flows", name, "udp", "bursts"),
                f"{number:,.0f} bursts with a Pareto shape of {shape:g} leave the mean rate "
                f"uncertain by about {deviation:.0%}, as their variance is infinite; run longer or "
                "over many seeds",
            )


def small_buckets(scenario: ResolvedScenario) -> Iterator[Finding]:
    """Warn of policers whose burst is smaller than a packet, which never conforms."""
    largest: list[tuple[Packets, tuple[int, str]]] = []
    for name, flow in scenario.flows.items():
        pinned = flow.model_copy(update={"port": scenario.port_of(name)})
        alone = scenario.model_copy(update={"flows": {name: pinned}, "pings": {}})
        largest.append((sent(alone)[0], (packet_size(flow, scenario.ip_of(flow)), name)))
    for loc, match, police in polices(scenario):
        taken = Selection.of(match, scenario.all_addresses)
        met = (size for packets, size in largest if taken.meets(packets))
        size, name = max(met, default=(0, ""))
        size = police.overhead.charge(size) if size else 0
        if police.burst < size:
            yield Finding(
                (*loc, "burst"),
                f"{format_size(police.burst)} is less than a packet of {quote(name)}, "
                f"{format_size(size)}, which therefore never conforms",
            )


def roots_above_links(scenario: ResolvedScenario) -> Iterator[Finding]:
    """Warn of roots of class-based queueing above the rate that a change leaves their link."""
    for step in steps(scenario):
        policy = scenario.policies.get(step.policy or "")
        if policy is None or policy.cbq is None or policy.cbq.rate is None:
            continue
        capacity = min(step.link.capacity(step.node), step.link.medium(step.node).rate)
        if policy.cbq.rate > capacity:
            yield Finding(
                step.loc,
                f"leaves {quote(str(step.change.on))} with {format_rate(capacity)}, less than the "
                f"root of {quote(step.policy or '')}, {format_rate(policy.cbq.rate)}: its classes "
                "no longer share by their rates",
            )


def small_mtus(scenario: ResolvedScenario) -> Iterator[Finding]:
    """Warn of flows whose packets exceed the MTU of their path."""
    for name, flow in scenario.flows.items():
        mtu = path_mtu(scenario, flow.source, flow.destination)
        size = packet_size(flow, scenario.ip_of(flow))
        if mtu is None or size <= mtu:
            continue
        place = ("flows", name, flow.kind)
        silent = None if flow.quic else _black_hole(scenario, flow, size)
        if flow.quic is not None and mtu < LEAST_DATAGRAM + datagram_headers(scenario.ip_of(flow)):
            what = f"QUIC needs datagrams of {LEAST_DATAGRAM} B (RFC 9000, section 14)"
        elif flow.quic is not None:
            what = f"they are lost, until QUIC sends datagrams of {LEAST_DATAGRAM} B"
        elif silent is not None:
            what = f"{quote(silent)} drops them and sends no ICMP errors: a black hole (RFC 2923)"
        elif flow.tcp is None:
            what = "the sending host fragments them"
        else:
            agreed = agreed_mtu(scenario, flow.source, flow.destination)
            how = (
                "by path MTU discovery" if agreed is None or agreed > mtu else "as both ends agree"
            )
            what = f"TCP sends shorter ones, {how}"
        lengths = f"packets of {format_size(size)}", f"the path's MTU of {format_size(mtu)}"
        yield Finding(place, f"{lengths[0]} do not fit {lengths[1]}: {what}")


def _black_hole(scenario: ResolvedScenario, flow: Flow, size: int) -> str | None:
    """Return a router that drops packets of a flow and never says so; None if there is none.

    Packets are as long as the MTUs permit that the sender knows: that of its own link, with TCP
    that on which both ends agree, and those in the errors of routers.
    """
    told, silent = size, []
    if flow.tcp is not None:
        told = min(size, agreed_mtu(scenario, flow.source, flow.destination) or size)
    for node, mtu in path_mtus(scenario, flow.source, flow.destination):
        if scenario.nodes[node].icmp_errors or node == flow.source:
            told = min(told, mtu)
        else:
            silent.append((node, mtu))
    return next((node for node, mtu in silent if mtu < told), None)


def late_replays(scenario: ResolvedScenario) -> Iterator[Finding]:
    """Warn of replays whose first packet is due after their flow's end."""
    for name, flow in scenario.flows.items():
        if flow.udp is None or flow.udp.replay is None:
            continue
        start, stop = scenario.active_ps(flow)
        first = flow.udp.replay.packets[0][0]
        if first >= stop - start:
            yield Finding(
                ("flows", name, "udp", "replay"),
                f"sends nothing: its first packet is due {format_duration(first)} after the flow's "
                f"start, and the flow lasts {format_duration(stop - start)}; expected times since "
                "the flow's start",
            )


def notes(scenario: ResolvedScenario) -> Iterator[Finding]:
    """Warn of what policies say about themselves."""
    for name, policy in scenario.policies.items():
        yield from (Finding(("policies", name), note) for note in policy.notes)


_RULES: Final[tuple[Callable[[ResolvedScenario], Iterator[Finding]], ...]] = (
    isolated_nodes,
    marks_without_a_tag,
    idle_tunnels,
    hidden_headers,
    hosts_in_tunnels,
    traces_of_another_rate,
    small_mtus,
    heavy_tails,
    late_replays,
    small_buckets,
    roots_above_links,
    realtime_curves,
    notes,
)
