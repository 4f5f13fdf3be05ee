"""Classes, policers, marks and turns as rules of nftables.

What a class is, a packet's priority says: the number of an HTB class, which HTB takes as it is.
Rules stand where packets leave (`postrouting`), so that a router's own errors are classified, too,
and lengths are those of IP packets. Marks are set where packets arrive, before anything else.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network
from itertools import product
from typing import TYPE_CHECKING, Final

from perhop.linux.gaps import Gap
from perhop.linux.policers import by_limit, marked
from perhop.linux.ways import FIRST_MARK
from perhop.scenario.resolve import rates
from perhop.units import SECOND

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from perhop.linux.tree import Htb
    from perhop.scenario import Match, Node, PoliceChange, Policy, Scenario
    from perhop.scenario.model.marking import MarkRule

__all__ = ["TABLE", "Chain", "classify", "errors", "matches", "remark", "take_turns", "text"]

TABLE: Final = "inet perhop"
"""The table that everything is in."""

_UNITS: Final = (("second", 1), ("minute", 60), ("hour", 3600), ("day", 86400))
_ERRORS: Final = "icmp type { destination-unreachable, time-exceeded }"


@dataclass(frozen=True, slots=True)
class Chain:
    """A chain of rules.

    Attributes:
        name: What others jump to.
        rules: Its rules.
        hook: When it comes by itself, such as ``type filter hook postrouting priority mangle``.
        counters: The names of counters that the rules use.
    """

    name: str
    rules: tuple[str, ...]
    hook: str = ""
    counters: tuple[str, ...] = field(default=())


def text(chains: Sequence[Chain], *, again: bool = False) -> str:
    """Chains as a file for ``nft -f``, which changes everything at once.

    Args:
        chains: The chains, each after those that it jumps to.
        again: Whether they are there already, and only get other rules.
    """
    counters = [name for chain in chains for name in chain.counters]
    lines = [f"add table {TABLE}"]
    if again:
        lines += [f"flush chain {TABLE} {chain.name}" for chain in chains]
    lines.append(f"table {TABLE} {{")
    if not again:
        lines += [line for name in counters for line in (f"  counter {name} {{", "  }")]
    for chain in chains:
        lines.append(f"  chain {chain.name} {{")
        if chain.hook and not again:
            lines.append(f"    {chain.hook};")
        lines += [f"    {rule}" for rule in chain.rules]
        lines.append("  }")
    return "\n".join([*lines, "}"])


def matches(scenario: Scenario, match: Match) -> list[str]:
    """The conditions under which a packet matches: any of them, each in nft's words.

    A match without conditions is one that is empty. None at all means that no packet matches.
    """
    alternatives: list[list[str]] = []
    families = [[""]]
    if match.dscp is not None:
        points = _set(match.dscp)
        families = [[f"ip dscp {points}"], [f"ip6 dscp {points}"]]
    protocols = set(match.protocol or ())
    ports = (match.port, match.source_port, match.destination_port)
    if any(each is not None for each in ports):
        # Only these have ports.
        protocols = (protocols or {"tcp", "udp"}) & {"tcp", "udp"}
        if not protocols:
            return []
    if protocols:
        names: list[str] = sorted(protocols)
        names += ["ipv6-icmp"] * ("icmp" in protocols)
        alternatives.append([f"meta l4proto {_set(names)}"])
    if match.source_port is not None:
        alternatives.append([f"th sport {_ports(match.source_port)}"])
    if match.destination_port is not None:
        alternatives.append([f"th dport {_ports(match.destination_port)}"])
    if match.port is not None:
        either = _ports(match.port)
        alternatives.append([f"th sport {either}", f"th dport {either}"])
    for side, ends in (("saddr", match.source), ("daddr", match.destination)):
        if ends is not None:
            alternatives.append(_prefixes(side, scenario.prefixes(ends)))
    found = []
    for family in families:
        for chosen in product(family, *alternatives):
            condition = " ".join(part for part in chosen if part)
            # An address of one family and a mark of the other: nothing is both.
            if not ("ip " in f" {condition}" and "ip6 " in f" {condition}"):
                found.append(condition)
    return found


def _prefixes(side: str, prefixes: tuple[IPv4Network | IPv6Network, ...]) -> list[str]:
    found = []
    for kind, word in ((IPv4Network, "ip"), (IPv6Network, "ip6")):
        own = [str(prefix) for prefix in prefixes if isinstance(prefix, kind)]
        if own:
            found.append(f"{word} {side} {_set(own)}")
    return found


def _ports(ports: Sequence[tuple[int, int]]) -> str:
    return _set([str(low) if low == high else f"{low}-{high}" for low, high in ports])


def _set(values: Sequence[object]) -> str:
    words = [str(value) for value in dict.fromkeys(values)]
    return words[0] if len(words) == 1 else f"{{ {', '.join(words)} }}"


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
        scenario: Whose policies there are.
        policy: The policy's name; None for a queue.
        htb: The classes.
        name: What the chain is called, and how the names of others begin.
        capacity: What the policy divides.
        police: What has changed of its policers by now, by the path of the class.
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

    def walk(policy: Policy, path: str, called: str, place: str, rate: int) -> None:
        rules: list[str] = []
        guaranteed = rates(policy, rate)
        for key, part in policy.classes.items():
            own = f"{path}/{key}" if path else key
            node = numbers.get(own)
            if node is None:
                continue
            at = f"{place}.{key}"
            label = f"{name}_{node.minor:x}"
            inside: list[str] = []
            counters: list[str] = []
            if part.police is not None and own not in policed:
                now = part.police.model_copy(update=changed[own].given) if own in changed else None
                inside += by_limit(now or part.police, rate, label, f"{at}.police", gaps)
                counters += [f"{label}_conform", f"{label}_exceed"]
            if own in by_tc:
                inside.append(f"meta mark set {node.minor:#x} accept")
            elif node.leaf is not None:
                inside.append(f"meta priority set 1:{node.minor:x} accept")
            else:
                nested = scenario.divided(policy, part)
                assert nested is not None
                within = f"policies.{part.policy}.classes" if part.policy else f"{at}.classes"
                walk(nested, own, f"{label}_in", within, guaranteed[key] or rate)
                inside.append(f"goto {label}_in")
            chains.append(Chain(label, tuple(inside), counters=tuple(counters)))
            rules += [
                f"{condition} goto {label}".lstrip() for condition in matches(scenario, part.match)
            ]
        chains.append(Chain(called, tuple(rules)))

    walk(scenario.policies[policy], "", name, f"policies.{policy}.classes", capacity)
    return chains, gaps


def remark(scenario: Scenario, rules: Sequence[MarkRule], name: str) -> Chain:
    """A chain that marks what arrives; the first rule that matches decides."""
    written = []
    for rule in rules:
        for condition in matches(scenario, rule.match):
            if "ip6 " not in f" {condition}":
                written.append(f"{condition} ip dscp set {rule.dscp} return".lstrip())
            if "ip " not in f" {condition}":
                written.append(f"{condition} ip6 dscp set {rule.dscp} return".lstrip())
    return Chain(name, tuple(written))


def take_turns(
    groups: Sequence[tuple[Sequence[str], Sequence[str]]],
) -> list[Chain]:
    """Chains by which packets to the same addresses take several ways in turn.

    Args:
        groups: The ways, and the addresses to which they lead; ways are numbered through, as the
            routing tables are.
    """
    rules = []
    mark = FIRST_MARK
    for directions, addresses in groups:
        rules.append(
            f"ip daddr {_set(addresses)} meta mark set "
            f"numgen inc mod {len(directions)} offset {mark}"
        )
        mark += len(directions)
    if not rules:
        return []
    turns = tuple(rules)
    return [
        Chain("turns", turns, "type filter hook prerouting priority mangle"),
        Chain("own_turns", turns, "type route hook output priority mangle"),
    ]


def errors(node: Node, place: str) -> tuple[list[Chain], list[Gap]]:
    """A chain that limits what ICMP errors a node sends."""
    hook = "type filter hook output priority filter"
    if not node.icmp_errors:
        return [Chain("errors", (f"{_ERRORS} drop",), hook)], []
    if not node.icmp_interval:
        return [], []
    for unit, seconds in _UNITS:
        number, rest = divmod(seconds * SECOND, node.icmp_interval)
        if number and not rest:
            burst = node.icmp_burst or 1
            rule = f"{_ERRORS} limit rate over {number}/{unit} burst {burst} packets drop"
            return [Chain("errors", (rule,), hook)], []
    reason = "its nft limit has a whole number of packets a second, minute, hour or day"
    return [], [Gap(f"{place}.icmp_interval", reason)]
