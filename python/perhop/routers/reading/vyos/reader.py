"""Reading VyOS: its policies as the qdiscs that it makes of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from perhop.routers.reading.configuration import (
    AS_STATED,
    Attachment,
    Configuration,
    Fault,
    Place,
    Refusal,
)
from perhop.routers.reading.linux.ledger import Ledger
from perhop.routers.reading.translation import note_of
from perhop.routers.reading.vyos.matches import in_order
from perhop.routers.reading.vyos.policies import Builder
from perhop.routers.reading.vyos.refusals import refused
from perhop.routers.reading.vyos.tree import Node, parse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from perhop.routers.reading.configuration import Direction, Source

__all__ = ["read"]

_ELSEWHERE: Final = {
    "traffic-control": "queues of EdgeOS (`traffic-control`) are not modelled",
    "redirect": "perhop has no interface for received packets: redirected packets are not modelled",
    "policy": "rules of policy routes that set the code point are not modelled",
}
"""Statements about quality of service that are not policies."""

_WORDING: Final = {
    "no filter leads packets to this class": "no match leads packets to this class",
    "no filter leads packets to its class": "no match leads packets to this class",
    "packets without a class pass HTB unshaped; here the rate of the interface includes them": (
        "the policy has no `default`: packets that no match leads to a class pass the shaper; here "
        "its bandwidth includes them"
    ),
    "the class has no rate that": "the class has no bandwidth that",
    "of the class above in proportion": "of the shaper in proportion",
}
"""Phrases of notes about tc, and those for the configuration that VyOS makes its commands from."""

MOST_POLICIES: Final = 2**14
"""The most policies, and the most interfaces with one, that are read."""


def read(texts: Sequence[Source], rates: Mapping[str, int] = AS_STATED) -> Configuration:
    """Return the policies of a router with VyOS.

    Args:
        texts: The configuration.
        rates: Rates of interfaces in bit/s in place of its own, as for `detect.read`.
    """
    ledger = Ledger([text.file for text in texts], _WORDING)
    top = Node("", Place("", 0), "")
    told = []
    for text in texts:
        for place, line, path in parse(ledger.bounded(text), top):
            words = [node.word for node in path[1:]]
            elsewhere = _elsewhere(words)
            if elsewhere:
                ledger.about(place, line)
                ledger.ignored(place, elsewhere)
            elif words[:1] in (["qos"], ["traffic-policy"]) or "traffic-policy" in words[1:]:
                ledger.about(place, line)
                told.append((place, path))
    faults = refused(top)
    for node, reason, undefined in faults:
        if not undefined:
            ledger.ignored(node.place, f"VyOS refuses it: {reason}", Fault.REFUSED)
    found = _Reader(top, ledger, rates).read()
    for place, path in told:
        if any(node.deleted for node in path):
            ledger.ignored(place, "a later line deletes or replaces it")
            continue
        unknown = next((node for node in path[1:] if not node.used), None)
        if unknown is None:
            continue
        if path[1:3] and [node.word for node in path[1:3]] == ["qos", "traffic-match-group"]:
            ledger.ignored(place, "no class refers to the group of matches")
        else:
            ledger.ignored(place, f"`{unknown.word[:40]}` is not modelled")
    if not faults:
        return Configuration("vyos", ledger.lines(), ledger.defaults(), tuple(found))
    first = faults[0]
    interfaces = [each.word for each in top.each("qos", "interface")]
    refusals = [Refusal(name, first.node.place, first.reason) for name in interfaces]
    return Configuration("vyos", ledger.lines(), ledger.defaults(), refusals=tuple(refusals))


def _elsewhere(words: list[str]) -> str:
    """Return why a statement about quality of service is not modelled; "" for other statements."""
    if words[:1] == ["traffic-control"]:
        return _ELSEWHERE["traffic-control"]
    if words[:1] == ["interfaces"] and "redirect" in words[2:-1]:
        return _ELSEWHERE["redirect"]
    if words[:1] == ["policy"] and "set" in words and "dscp" in words[words.index("set") :]:
        return _ELSEWHERE["policy"]
    return ""


class _Reader:
    """The policies of a configuration and their interfaces."""

    def __init__(self, top: Node, ledger: Ledger, rates: Mapping[str, int]) -> None:
        self.top = top
        self.ledger = ledger
        self.rates = rates
        self.policies: dict[str, tuple[str, Node, bool]] = {}
        self._made: dict[tuple[str, int | None], Attachment | None] = {}

    def read(self) -> list[Attachment]:
        """Return the policies at interfaces, then the others."""
        for root, older in (
            (self.top.get("qos", "policy"), False),
            (self.top.get("traffic-policy"), True),
        ):
            for kind in root.each() if root is not None else ():
                for policy in kind.each():
                    if len(self.policies) < MOST_POLICIES:
                        self.policies[policy.word] = kind.word, policy, older
                    else:
                        note = f"perhop reads {MOST_POLICIES:,} policies at most"
                        self.ledger.ignored(policy.place, note)
        found: list[Attachment] = []
        used: set[str] = set()
        for interface, direction, name, speed in self._interfaces():
            used.add(name.word)
            if len(found) >= MOST_POLICIES:
                note = f"perhop reads {MOST_POLICIES:,} interfaces with a policy at most"
                self.ledger.ignored(name.place, note)
                continue
            if name.word not in self.policies:
                note = f"there is no policy {name.word[:40]}"
                self.ledger.ignored(name.place, note, Fault.UNDEFINED)
                continue
            made = self._policy(name.word, None if speed is None else speed[0])
            if made is None:
                continue
            way: Direction = "out" if direction in ("egress", "out") else "in"
            if way != made.direction:
                self.ledger.ignored(name.place, f"its policy is not for direction {way}")
                continue
            rate, rate_place = speed or (None, made.rate_place)
            found.append(replace(made, interface=interface, rate=rate, rate_place=rate_place))
            self._translated(interface, way, self.policies[name.word][1])
        rate = self.rates.get("")
        rest = [self._policy(name, rate) for name in self.policies if name not in used]
        return [*found, *(replace(each, rate=rate) for each in rest if each is not None)]

    def _policy(self, name: str, speed: int | None) -> Attachment | None:
        """Return a policy at an interface of this speed."""
        if (name, speed) not in self._made:
            kind, node, older = self.policies[name]
            groups = self.top.get("qos", "traffic-match-group")
            builder = Builder(self.ledger, groups, speed, older=older)
            self._made[name, speed] = builder.build(kind, node)
        return self._made[name, speed]

    def _translated(self, interface: str, way: Direction, policy: Node) -> None:
        """Note the matches of a policy on addresses that its interface translates (NAT)."""
        rules = [
            (rule, version)
            for table, version in (("nat", "ip"), ("nat66", "ipv6"))
            for rule in _below(self.top, table, "source", "rule")
            if "translation" in rule.children
            and not rule.deleted
            and not {"disable", "exclude"} & rule.children.keys()
            and _leaves(rule, interface)
        ]
        groups = self.top.get("qos", "traffic-match-group")
        for each in _below(policy, "class") if rules else ():
            for match in in_order(each, groups, self.ledger):
                for rule, version in rules:
                    side = "source" if way == "out" else "destination"
                    if _below(match, version, side, "address"):
                        self.ledger.approximated(match.place, note_of(way, rule.place))
                        break

    def _interfaces(self) -> Iterator[tuple[str, str, Node, tuple[int, Place | None] | None]]:
        """Yield interfaces with a policy: direction, the policy's name, and speed in bit/s."""
        speeds: dict[str, tuple[int, Place]] = {}
        found = []
        todo = [
            (name.word, name)
            for kind in self.top.each("interfaces")
            for name in kind.children.values()
        ]
        for label, node in todo:
            node.used = True
            outer = label.partition(".")[0]
            speed = next(iter(node.children["speed"].children.values()), None) if (
                "speed" in node.children
            ) else None  # fmt: skip
            if speed is not None and speed.word.isdecimal() and 0 < len(speed.word) < 8:
                speeds[label] = int(speed.word) * 10**6, speed.place
            elif outer in speeds:
                speeds[label] = speeds[outer]
            for key, child in node.children.items():
                if key in ("vif", "vif-s", "vif-c"):
                    todo += [(f"{label}.{sub.word}", sub) for sub in child.children.values()]
                    child.used = True
            if "traffic-policy" in node.children:
                for direction in node.each("traffic-policy"):
                    value = direction.value()
                    if direction.word in ("in", "out") and value is not None:
                        found.append((label, direction.word, value))
        for interface in self.top.each("qos", "interface"):
            for direction in interface.each():
                value = direction.value()
                if direction.word in ("egress", "ingress") and value is not None:
                    found.append((interface.word, direction.word, value))
        for label, way, name in found:
            known = speeds.get(label) or speeds.get(label.partition(".")[0])
            yield label, way, name, (self.rates[label], None) if label in self.rates else known


def _below(node: Node, *path: str) -> list[Node]:
    """Return the nodes below a path, without a word on whether the reader knows them."""
    for word in path:
        if word not in node.children:
            return []
        node = node.children[word]
    return list(node.children.values())


def _leaves(rule: Node, interface: str) -> bool:
    """Return whether a rule of NAT takes packets that leave by an interface."""
    named = _below(rule, "outbound-interface")
    if named and named[0].word in ("name", "interface-name"):
        named = _below(rule, "outbound-interface", named[0].word)
    if not named or named[0].word in ("any", "group"):
        return True
    word = named[-1].word
    if word.startswith("!"):
        return interface != word[1:]
    return interface == word or (word.endswith("+") and interface.startswith(word[:-1]))
