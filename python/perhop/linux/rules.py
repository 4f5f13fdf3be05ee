"""Classes, policers, marks and per-packet load balancing as rules of nftables.

What a class is, a packet's priority says: the number of an HTB class, which HTB takes as it is.
Rules stand where packets leave (`postrouting`), so that a router's own errors are classified, too,
and lengths are those of IP packets. Marks are set where packets arrive, before anything else.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from perhop.linux.gaps import Gap
from perhop.linux.nft import Chain, conditions, one_of
from perhop.linux.policers import by_limit, marked
from perhop.linux.routes import FIRST_MARK, per_packet_groups, routed_versions
from perhop.scenario.model.matching import match_rules
from perhop.scenario.resolve import rates
from perhop.units import SECOND

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from perhop.linux.tree import Htb
    from perhop.scenario import Class, Match, PoliceChange, Policy, Scenario
    from perhop.scenario.model.marking import MarkRule
    from perhop.scenario.model.matching import Matching
    from perhop.scenario.model.names import IpVersion
    from perhop.scenario.resolve import NextHops

__all__ = ["classify", "errors", "matches", "per_packet", "remark"]

_UNITS: Final = (("second", 1), ("minute", 60), ("hour", 3600), ("day", 86400))
_ERRORS: Final[dict[IpVersion, str]] = {
    4: "icmp type { destination-unreachable, time-exceeded }",
    6: "icmpv6 type { destination-unreachable, packet-too-big, time-exceeded }",
}


def matches(scenario: Scenario, match: Match) -> list[str]:
    """The conditions of nftables under which a packet matches; see `nft.conditions`."""
    sources, destinations = scenario.match_prefixes(match)
    return conditions(
        dscp=match.dscp,
        protocols=match.protocol,
        port=match.port,
        source_port=match.source_port,
        destination_port=match.destination_port,
        sources=sources,
        destinations=destinations,
    )


def classify(
    scenario: Scenario,
    policy: str | None,
    htb: Htb,
    name: str,
    capacity: int,
    police: Mapping[str, PoliceChange] | None = None,
    policed: Collection[str] = (),
) -> tuple[list[Chain], list[Gap]]:
    """Chains that give what leaves by an interface its class; the last one is `name`.

    Args:
        scenario: Scenario with the policies.
        policy: The policy's name; None for a queue.
        htb: The classes.
        name: Name of the chain, and prefix of the names of others.
        capacity: Rate that the policy divides.
        police: Changed settings of its policers, by the path of the class.
        policed: The paths of the classes that tc polices: their packets are marked for it.

    Returns:
        Nothing for a queue, which takes everything.
    """
    if policy is None:
        return [], []
    chains: list[Chain] = []
    gaps: list[Gap] = []
    numbers = {node.path: node for node in htb.nodes}
    changed = police or {}
    by_tc = set(marked(htb, policed))

    def walk(
        policy: Policy, path: str, called: str, place: str, rate: int, above: int | None
    ) -> None:
        rules: list[str] = []
        guaranteed = rates(policy, rate)
        for key, class_ in policy.classes.items():
            own = f"{path}/{key}" if path else key
            node = numbers.get(own)
            if node is None:
                continue
            at = f"{place}.{key}"
            label = f"{name}_{node.minor:x}"
            nested = scenario.divided(policy, class_)
            if nested is not None and nested.policers:
                reason = "perhop writes policers before the classes of an interface only"
                gaps.append(Gap(f"policies.{class_.policy}.policers", reason))
            mark = above if class_.dscp_mark is None else class_.dscp_mark
            # Classes inside classify by the DSCP that a packet had.
            inside = _marks(mark) if mark is not None and nested is None else []
            if mark is not None and nested is not None and _remarks(class_):
                reason = "its rules mark after the policer, and would undo its marks"
                gaps.append(
                    Gap(f"{at}.police" if class_.dscp_mark is None else f"{at}.mark", reason)
                )
            counters: list[str] = []
            if class_.police is not None and own not in policed:
                now = (
                    class_.police.model_copy(update=changed[own].given) if own in changed else None
                )
                inside += by_limit(now or class_.police, rate, label, f"{at}.police", gaps)
                counters += [f"{label}_conform", f"{label}_exceed"]
            if own in by_tc:
                inside.append(f"meta mark set {node.minor:#x} accept")
            elif node.leaf is not None:
                inside.append(f"meta priority set {node.handle} accept")
            else:
                assert nested is not None
                within = f"policies.{class_.policy}.classes" if class_.policy else f"{at}.classes"
                walk(nested, own, f"{label}_in", within, guaranteed[key] or rate, mark)
                inside.append(f"goto {label}_in")
            chains.append(Chain(label, tuple(inside), counters=tuple(counters)))
            first, more = _chosen(scenario, class_.match, [f"goto {label}"], f"{label}_match")
            chains.extend(more)
            rules += first
        chains.append(Chain(called, tuple(rules)))

    walk(scenario.policies[policy], "", name, f"policies.{policy}.classes", capacity, None)
    first: list[str] = []
    for number, (key, policer) in enumerate(scenario.policies[policy].policers.items()):
        label, place = f"{name}_before{number}", f"policies.{policy}.policers.{key}.police"
        limit = by_limit(policer.police, capacity, f"{label}_limit", place, gaps)
        counters = (f"{label}_limit_conform", f"{label}_limit_exceed")
        chains.insert(0, Chain(f"{label}_limit", tuple(limit), counters=counters))
        rules, more = _chosen(scenario, policer.match, [f"goto {label}_limit"], f"{label}_match")
        chains[1:1] = [*more, Chain(label, tuple(rules))]
        first.append(f"jump {label}")
    chains[-1] = replace(chains[-1], rules=(*first, *chains[-1].rules))
    return chains, gaps


def _marks(dscp: int) -> list[str]:
    """Return rules that give every packet a DSCP."""
    return [f"ip dscp set {dscp}", f"ip6 dscp set {dscp}"]


def _remarks(class_: Class) -> bool:
    """Return whether the policer of a class, if any, remarks packets."""
    actions = class_.police.actions if class_.police is not None else ()
    return any(action.remark is not None for action in actions)


def _chosen(
    scenario: Scenario, match: Matching, actions: Sequence[str], name: str
) -> tuple[list[str], list[Chain]]:
    """Return rules that apply `actions` to the packets that match.

    Each action ends in a verdict, after which no further rule is examined.

    Args:
        scenario: Scenario with the nodes.
        match: The match.
        actions: Actions of nftables, one of each IP version or one of both.
        name: Name for a chain of exceptions.

    Returns:
        The rules, and a chain that they jump to if the match has exceptions: it returns from those.
    """
    rules: list[str] = []
    for rule in match_rules(match):
        for condition in matches(scenario, rule.conditions):
            for action in actions if rule.permit else ("return",):
                # A condition on addresses of one version and an action on the other's header.
                words = f" {condition} {action}".split(" ")
                if not {"ip", "ip6"} <= {*words}:
                    rules.append(f"{condition} {action}".lstrip())
    if all(permit for permit, _ in match_rules(match)):
        return rules, []
    return [f"jump {name}"], [Chain(name, tuple(rules))]


def remark(scenario: Scenario, rules: Sequence[MarkRule], name: str) -> list[Chain]:
    """Return the chains that remark arriving packets, of which the last is `name`.

    The first rule that matches decides.
    """
    written: list[str] = []
    chains: list[Chain] = []
    for number, rule in enumerate(rules):
        # From a chain of exceptions, packets must not return to the next rule.
        single = all(permit for permit, _ in match_rules(rule.match))
        verdict = "return" if single else "accept"
        actions = [f"{mark} {verdict}" for mark in _marks(rule.dscp)]
        first, more = _chosen(scenario, rule.match, actions, f"{name}_{number}")
        written += first
        chains += more
    return [*chains, Chain(name, tuple(written))]


def per_packet(scenario: Scenario, node: str, found: NextHops) -> list[Chain]:
    """Return chains by which packets to the same nodes take several next hops in turn.

    A mark is the number of the next hop's routing table.
    """
    rules = []
    for version in routed_versions(scenario):
        word = "ip" if version == 4 else "ip6"
        addresses = scenario.addresses_in(version)
        mark = FIRST_MARK
        for directions, destinations in per_packet_groups(scenario, node, found):
            to = one_of([addresses[destination] for destination in destinations])
            number = f"numgen inc mod {len(directions)} offset {mark}"
            rules.append(f"{word} daddr {to} meta mark set {number}")
            mark += len(directions)
    if not rules:
        return []
    numbered = tuple(rules)
    return [
        Chain("per_packet", numbered, "type filter hook prerouting priority mangle"),
        Chain("own_per_packet", numbered, "type route hook output priority mangle"),
    ]


def errors(scenario: Scenario, name: str) -> tuple[list[Chain], list[Gap]]:
    """Return the chains that limit the ICMP errors of a node."""
    node, place = scenario.nodes[name], f"nodes.{name}"
    hook = "type filter hook output priority filter"
    kinds = [_ERRORS[version] for version in routed_versions(scenario)]
    if not node.icmp_errors:
        return [Chain("errors", tuple(f"{kind} drop" for kind in kinds), hook)], []
    if not node.icmp_interval:
        return [], []
    for unit, seconds in _UNITS:
        number, rest = divmod(seconds * SECOND, node.icmp_interval)
        if number and not rest:
            burst = node.icmp_burst or 1
            rule = f"limit rate over {number}/{unit} burst {burst} packets drop"
            if len(kinds) == 1:
                return [Chain("errors", (f"{kinds[0]} {rule}",), hook)], []
            # One limit for the errors of both versions.
            jumps = tuple(f"{kind} jump errors_limit" for kind in kinds)
            return [Chain("errors_limit", (rule,)), Chain("errors", jumps, hook)], []
    reason = "its nft limit has a whole number of packets a second, minute, hour or day"
    return [], [Gap(f"{place}.icmp_interval", reason)]
