"""Source NAT by iptables and nft, which the filters of tc see the result of.

Netfilter's hook `postrouting` translates packets before the qdisc of an interface has them, and
qdiscs and filters for received packets have those before it translates replies.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from ipaddress import ip_network
from typing import TYPE_CHECKING, Final

from perhop.routers.reading.linux.model import CLSACT_INGRESS
from perhop.routers.reading.linux.output import Object
from perhop.routers.reading.translation import compared, note_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from perhop.routers.reading.conditions import Network, Networks
    from perhop.routers.reading.configuration import Direction, Place
    from perhop.routers.reading.linux.ledger import Ledger
    from perhop.routers.reading.linux.model import Device, Filter

__all__ = ["Translations"]

_TARGETS: Final = frozenset({"MASQUERADE", "SNAT", "NETMAP"})
_ENDS: Final = frozenset({"ACCEPT", "RETURN", "LOG", "DROP", "DNAT", "REDIRECT"})
_COMMENT: Final = re.compile(r"comment \"[^\"]*\"|#.*")
_DEFINE: Final = re.compile(r"^\s*define (\w+) = (.+)$")
_CHAIN: Final = re.compile(r"\bchain (?:(?:ip6?|inet) )?(?:\S+ )?(\S+) ?\{")
_RULE: Final = re.compile(r"\b(?:add|insert) rule (?:(?:ip6?|inet) )?(\S+) (\S+)")
_TABLE: Final = re.compile(r"\b(?:table|rule|chain) (ip6?|inet) \S")
_HOOK: Final = re.compile(r"\btype nat hook postrouting\b")
_CHANGES: Final = re.compile(
    r"\bmasquerade\b|(?<!status )\bsnat (?:ip6? )?(?:prefix )?(?:to )?[\w$\[{]"
)
_JUMP: Final = re.compile(r"\b(?:jump|goto) (\S+)")
_LEAVES: Final = re.compile(r"\boif(?:name)? (!= )?(\{[^}]*\}|\S+)")
_FROM: Final = re.compile(r"\bip6? saddr (!= )?(\{[^}]*\}|\S+)")
_VERSIONS: Final = (
    (4, re.compile(r"\bip (?:saddr|daddr)\b|\bnfproto ipv4\b|\bsnat ip\b")),
    (6, re.compile(r"\bip6 (?:saddr|daddr)\b|\bnfproto ipv6\b|\bsnat ip6\b")),
)
_BOTH: Final = frozenset({4, 6})
_DEEPEST: Final = 8
_MOST: Final = 256
"""The most rules that are kept, and prefixes of a rule."""


@dataclass(slots=True)
class _Rule:
    """A rule that translates, or that leads to another chain.

    Attributes:
        place: Its line.
        chain: Its chain, with the tool.
        to: The chain that it leads to; "" for one that translates.
        devices: The interfaces that its packets leave by; None for any.
        networks: Their sources; None for any.
        versions: Their versions of IP.
        words: Its words, which tell the one to delete.
    """

    place: Place
    chain: str
    to: str = ""
    devices: tuple[str, ...] | None = None
    networks: Networks | None = None
    versions: frozenset[int] = _BOTH
    words: tuple[str, ...] = ()

    def leaves(self, device: str) -> bool:
        """Return whether packets that leave by an interface meet the rule."""
        return self.devices is None or any(
            device.startswith(each.rstrip("+*")) if each[-1:] in ("+", "*") else device == each
            for each in self.devices
        )

    def changes(self, prefixes: Sequence[Network]) -> bool:
        """Return whether the rule translates packets with some of these addresses, or to them.

        A rule that names an interface may translate to any address; others need to overlap.
        """
        left = [each for each in prefixes if each.version in self.versions]
        if self.devices is not None or self.networks is None:
            return bool(left)
        return any(_overlap(one, each) for one in left for each in self.networks)


@dataclass(slots=True)
class Translations:
    """The rules of a host that change sources, in the order in which a script sets them."""

    ledger: Ledger
    _rules: list[_Rule] = field(default_factory=list)
    _hooked: set[str] = field(default_factory=set)
    _defined: dict[str, str] = field(default_factory=dict)

    def iptables(self, words: Sequence[str], place: Place, *, ipv6: bool, branch: bool) -> None:
        """Read a command of iptables, if it is about the table `nat`."""
        if "nat" not in words:
            return
        tool = "ip6tables" if ipv6 else "iptables"
        self._hooked.add(f"{tool} POSTROUTING")
        said = list(words)
        action = chain = table = target = ""
        rest: list[str] = []
        rule = _Rule(place, "", versions=frozenset({6 if ipv6 else 4}))
        while said:
            word = said.pop(0)
            follows = said[0] if said else ""
            if word in ("-t", "--table"):
                table = follows
            elif re.fullmatch("-[AIDFR]|--(?:append|insert|delete|flush|replace)", word):
                action, chain = word.lstrip("-")[0].upper(), follows
            else:
                rest.append(word)
                if word in ("-o", "--out-interface"):
                    rule.devices = None if rest[-2:-1] == ["!"] else (follows,)
                elif word in ("-s", "--source", "--src"):
                    rule.networks = None if rest[-2:-1] == ["!"] else _networks(follows)
                elif word in ("-j", "--jump", "-g", "--goto"):
                    target = follows
                continue
            said = said[1:]
        if table != "nat":
            return
        rule.chain, rule.words = f"{tool} {chain}", tuple(rest)
        if action in ("A", "I", "R") and target not in _ENDS and target:
            rule.to = "" if target in _TARGETS else f"{tool} {target}"
            self._add(rule)
        elif action == "F" and not branch:
            every = not chain or chain.startswith("-")
            self._keep(
                each
                for each in self._rules
                if not each.chain.startswith(f"{tool} ") or not (every or each.chain == rule.chain)
            )
        elif action == "D" and not branch:
            same = (each for each in self._rules if each.chain == rule.chain)
            gone = next((each for each in same if each.words == rule.words), None)
            self._keep(each for each in self._rules if each is not gone)

    def nft(self, lines: Iterable[tuple[Place, str]]) -> None:
        """Read lines of a ruleset, or commands."""
        chain, family = "", "inet"
        for place, line in lines:
            if "flush ruleset" in line:
                self._keep(each for each in self._rules if not each.chain.startswith("nft "))
            text = _COMMENT.sub("", line)
            if defined := _DEFINE.match(text):
                self._defined[f"${defined[1]}"] = defined[2].strip()
            for part in text.split(";"):
                if named := _TABLE.search(part):
                    family = named[1]
                elif re.search(r"\btable \S+ ?\{", part):
                    family = "ip"
                if opened := _CHAIN.search(part):
                    chain = f"nft {opened[1]}"
                elif added := _RULE.search(part):
                    chain = f"nft {added[2]}"
                if _HOOK.search(part):
                    self._hooked.add(chain)
                to = _JUMP.search(part)
                if not to and not _CHANGES.search(part):
                    continue
                versions = frozenset({"ip": {4}, "ip6": {6}}.get(family, _BOTH))
                for version, said in _VERSIONS:
                    if said.search(part):
                        versions = versions & {version}
                devices, networks = self._listed(_LEAVES, part), self._listed(_FROM, part)
                self._add(
                    _Rule(
                        place,
                        chain,
                        f"nft {to[1]}" if to else "",
                        devices,
                        None if networks is None else _networks(",".join(networks)),
                        versions,
                    )
                )

    def shown(self, value: Object, place: Place) -> None:
        """Read an object that `nft -j list ruleset` prints."""
        own = value.inner("chain")
        if own.get("type") == "nat" and own.get("hook") == "postrouting":
            self._hooked.add(f"nft {own.get('name')}")
        own = value.inner("rule")
        rule = _Rule(place, f"nft {own.get('chain')}")
        rule.versions = frozenset({"ip": {4}, "ip6": {6}}.get(str(own.get("family")), _BOTH))
        expressions = own.get("expr")
        found = False
        for each in expressions if isinstance(expressions, list) else ():
            if not isinstance(each, Object):
                continue
            found = found or "masquerade" in each or "snat" in each
            for verdict in ("jump", "goto"):
                if verdict in each:
                    rule.to = f"nft {each.inner(verdict).get('target')}"
            match = each.inner("match")
            left = match.inner("left")
            right = match.get("right")
            if match.get("op") == "==" and isinstance(right, str):
                if str(left.inner("meta").get("key")).startswith("oif"):
                    rule.devices = (right,)
                elif left.inner("payload").get("field") == "saddr":
                    rule.networks = _networks(right)
        if found or rule.to:
            self._add(rule)

    def note(self, devices: Mapping[str, Device], refused: Iterable[str]) -> None:
        """Note the filters that compare addresses of packets that these rules translate.

        Args:
            devices: The interfaces of the host, by name.
            refused: The names of those without a policy.
        """
        without = frozenset(refused)
        for name, device in devices.items() if self._rules else ():
            rules = [] if name in without else self._at(name.rpartition("/")[2])
            for each in device.filters if rules else ():
                if each.parent != CLSACT_INGRESS:
                    self._filter(each, "out", rules)
                    continue
                self._filter(each, "in", rules)
                for action in each.actions:
                    other = action.values.get("dev", "") if action.kind == "mirred" else ""
                    if other in devices and other not in without:
                        for inner in devices[other].filters:
                            self._filter(inner, "in", rules)

    def _at(self, device: str) -> list[_Rule]:
        """Return the rules that translate packets that leave by an interface."""
        taken = [each for each in self._rules if each.leaves(device)]
        reached = set(self._hooked)
        for _ in range(_DEEPEST):
            more = {each.to for each in taken if each.to and each.chain in reached} - reached
            if not more:
                break
            reached |= more
        return [each for each in taken if not each.to and each.chain in reached]

    def _filter(self, filter_: Filter, direction: Direction, rules: Sequence[_Rule]) -> None:
        prefixes = [p for test in filter_.tests or () for p in compared(test.header, direction)]
        for rule in rules if prefixes else ():
            if rule.changes(prefixes):
                self.ledger.approximated(filter_.place, note_of(direction, rule.place))
                return

    def _listed(self, pattern: re.Pattern[str], text: str) -> tuple[str, ...] | None:
        """Return the values of a condition of nft; None if it has none, or excludes them."""
        found = pattern.search(text)
        if found is None or found[1]:
            return None
        said = self._defined.get(found[2], found[2]).strip("{} ")
        return tuple(each.strip(' "') for each in said.split(","))

    def _add(self, rule: _Rule) -> None:
        if len(self._rules) < _MOST:
            self._rules.append(rule)

    def _keep(self, rules: Iterable[_Rule]) -> None:
        self._rules = list(rules)


def _overlap(one: Network, other: Network) -> bool:
    return one.version == other.version and one.overlaps(other)


def _networks(text: str) -> Networks | None:
    """Return prefixes; None, for all, if some are not told."""
    try:
        return tuple(ip_network(each.strip(), strict=False) for each in text.split(",")[:_MOST])
    except ValueError:
        return None
