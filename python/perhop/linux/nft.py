"""nftables: chains of rules as a file for ``nft -f``, and what matches packets in its words."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network
from itertools import product
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    Prefix = IPv4Network | IPv6Network
    Ports = Sequence[tuple[int, int]]

__all__ = ["TABLE", "Chain", "conditions", "one_of", "read", "removal", "replacement", "text"]

TABLE: Final = "inet perhop"
"""The table that everything is in."""


@dataclass(frozen=True, slots=True)
class Chain:
    """A chain of rules.

    Attributes:
        name: Name that jumps refer to.
        rules: Its rules.
        hook: Hook that calls it, such as ``type filter hook postrouting priority mangle``.
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
        again: True if they exist already, and only get other rules.
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


def replacement(chain: Chain) -> str:
    """A chain as a file for ``nft -f`` that puts it in the place of one of the same name, if any.

    Between the old rules and the new ones no packet passes; counters go on.
    """
    hook = f" {{ {chain.hook}; }}" if chain.hook else ""
    return "\n".join(
        [
            f"add table {TABLE}",
            f"add chain {TABLE} {chain.name}{hook}",
            f"flush chain {TABLE} {chain.name}",
            text([chain]),
            "",
        ]
    )


def removal(chain: Chain) -> str:
    """A file for ``nft -f`` that removes a chain and its counters."""
    lines = [f"flush chain {TABLE} {chain.name}", f"delete chain {TABLE} {chain.name}"]
    lines += [f"delete counter {TABLE} {name}" for name in chain.counters]
    return "".join(f"{line}\n" for line in lines)


def read(said: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the objects of `TABLE` that ``nft -j list ruleset`` prints, each after its kind."""
    family, table = TABLE.split()
    for item in json.loads(said)["nftables"]:
        ((kind, own),) = item.items()
        if (own.get("family"), own.get("table")) == (family, table):
            yield kind, own


def conditions(
    *,
    dscp: Sequence[object] | None = None,
    protocols: Sequence[str] | None = None,
    port: Ports | None = None,
    source_port: Ports | None = None,
    destination_port: Ports | None = None,
    sources: Sequence[Prefix] | None = None,
    destinations: Sequence[Prefix] | None = None,
) -> list[str]:
    """The conditions under which a packet matches: any of them, each in nft's words.

    No argument at all makes one condition, which is empty. No condition means that no packet
    matches.

    Args:
        dscp: The code points.
        protocols: ``tcp``, ``udp``, ``icmp``, …; ``icmp`` is that of IPv6 as well.
        port: Port numbers, from each to each, of either end.
        source_port: Those of the sender.
        destination_port: Those of the receiver.
        sources: Where packets come from.
        destinations: Where they go.
    """
    alternatives: list[list[str]] = []
    families = [[""]]
    if dscp is not None:
        points = one_of(dscp)
        families = [[f"ip dscp {points}"], [f"ip6 dscp {points}"]]
    wanted = set(protocols or ())
    if any(each is not None for each in (port, source_port, destination_port)):
        # Only these have ports.
        wanted = (wanted or {"tcp", "udp"}) & {"tcp", "udp"}
        if not wanted:
            return []
    if wanted:
        names: list[str] = sorted(wanted)
        names += ["ipv6-icmp"] * ("icmp" in wanted)
        alternatives.append([f"meta l4proto {one_of(names)}"])
    if source_port is not None:
        alternatives.append([f"th sport {_ports(source_port)}"])
    if destination_port is not None:
        alternatives.append([f"th dport {_ports(destination_port)}"])
    if port is not None:
        either = _ports(port)
        alternatives.append([f"th sport {either}", f"th dport {either}"])
    for side, prefixes in (("saddr", sources), ("daddr", destinations)):
        if prefixes is not None:
            alternatives.append(_prefixes(side, prefixes))
    found = []
    for family in families:
        for chosen in product(family, *alternatives):
            condition = " ".join(part for part in chosen if part)
            # An address of one family and a mark of the other: nothing is both.
            if not ("ip " in f" {condition}" and "ip6 " in f" {condition}"):
                found.append(condition)
    return found


def _prefixes(side: str, prefixes: Sequence[Prefix]) -> list[str]:
    found = []
    for kind, word in ((IPv4Network, "ip"), (IPv6Network, "ip6")):
        own = [str(prefix) for prefix in prefixes if isinstance(prefix, kind)]
        if own:
            found.append(f"{word} {side} {one_of(own)}")
    return found


def _ports(ports: Ports) -> str:
    return one_of([str(low) if low == high else f"{low}-{high}" for low, high in ports])


def one_of(values: Sequence[object]) -> str:
    """A value of nftables that equals any of `values`, which may be one."""
    words = [str(value) for value in dict.fromkeys(values)]
    return words[0] if len(words) == 1 else f"{{ {', '.join(words)} }}"
