"""Rules of nftables that mark packets, or give them a priority, a code point or a policer."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from perhop.routers.reading.linux import iptables
from perhop.routers.reading.linux.classify import EVERY, Packets, meet
from perhop.routers.reading.linux.nft_rule import ALL, POLICE, VERSIONS, Rule, read
from perhop.routers.reading.linux.nft_text import named, statements
from perhop.routers.reading.linux.policers import DROPS
from perhop.routers.reading.matching import OF_VERSION, Conditions, Rules, TooManyRulesError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from perhop.routers.reading.configuration import Place
    from perhop.routers.reading.linux.iptables import Parsed
    from perhop.routers.reading.linux.ledger import Ledger
    from perhop.routers.reading.linux.nft_text import Statement
    from perhop.routers.reading.linux.policers import Buckets

__all__ = ["Ruleset"]

_HOOKS: Final = ("ingress", "prerouting", "forward", "output", "postrouting", "egress")
_ETHERNET: Final = "14 B"
_FOREIGN: Final = frozenset({"arp", "bridge"})
"""Families whose chains see no packets that a router forwards."""

_VERBS: Final = frozenset(
    ("add", "insert", "create", "delete", "destroy", "flush", "replace", "rename", "list")
)
_SAYS: Final = re.compile(r"\bset\b|limit rate|\bgoto\b|\bjump\b|\bpolice")
_VERDICT: Final = re.compile(r"\b(accept|return|drop|reject|jump|goto)\b(?: (\S+))?")
_SAYS_IPTABLES: Final = re.compile(
    r"\b(?:(?:CONN)?MARK|CLASSIFY|DSCP|TOS) --"
    r"|mangle (?=.*(?:-A|-I|--append|--insert) )(?=.*-[jg] (?!TCPMSS|N?F?LOG|TTL|HL|TPROXY|CT\b))"
)
"""Rules about quality of service, and jumps and verdicts among them."""

_PRIORITIES: Final = {
    "": 0,
    "raw": -300,
    "mangle": -150,
    "dstnat": -100,
    "filter": 0,
    "security": 50,
    "srcnat": 100,
}
"""The names of priorities of chains (nft(8), Standard priority names)."""

_UNREAD: Final = "the rule is not modelled"
_ARRIVES: Final = "the interface of arrival is no condition of a scenario"
_ENDS: Final = frozenset({"accept", "return", "goto", "vmap"})
"""Verdicts because of which packets may not get to the rest of a chain; `vmap` is any verdict."""

_LEGACY: Final = "it removes rules of iptables, but would not remove those of `iptables-legacy`"
_IN_BRANCH: Final = "it is in a branch, which may not be taken"
_LIKE_OTHERS: Final = "packets that exceed the limit are sent like others"
_MOST_STEPS = 150_000
_MOST_COMPARED: Final = 2**14
_DEEPEST: Final = 100


_MOST_RULES: Final = 2**15
_MOST_LINE: Final = 2**16


@dataclass(slots=True)
class _Chain:
    """A chain; `version` is that of IP of its packets, and `devices` are those of a `netdev` hook.

    Chains of a hook with a lower `priority` come first. `drops` is the place and the text of a
    policy that drops what no rule decides.
    """

    version: int | None = None
    hook: str = ""
    devices: tuple[str, ...] = ()
    drops: tuple[Place, str] | None = None
    priority: int = 0
    rules: list[Rule] = field(default_factory=list)


class Ruleset:
    """The chains of a host."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self._chains: dict[str, _Chain] = {}
        self._steps = self._count = 0
        self._limited: dict[int, str] = {}
        """The first interface whose packets each limit measures."""
        self._passing: dict[Place, tuple[Rule, Place | None]] = {}
        """Rules that may end a chain for packets that perhop cannot tell, and the one before."""
        self._dormant: set[str] = set()
        """Tables whose chains see no packets."""
        self._compared: set[str] = set()
        """Hooks whose chains of one priority were compared."""

    def __bool__(self) -> bool:
        return any(each.rules or each.drops for each in self._chains.values())

    def unused(self, *, policed: bool) -> None:
        """Note that no interface has a policy that sees what the rules set.

        Args:
            policed: True if what interfaces receive is policed.
        """
        for chain in self._chains.values():
            for rule in chain.rules:
                if rule.unread or (policed and rule.changes.keys() <= POLICE):
                    continue
                if rule.changes:
                    note = "no interface of these files has a policy that it could act on"
                    self.ledger.ignored(rule.place, note)

    def command(
        self,
        words: Sequence[str],
        place: Place,
        text: str,
        *,
        branch: bool = False,
        unread: str = "",
    ) -> None:
        """Read a command such as ``add rule inet t c ip dscp ef meta priority set 1:10``.

        Args:
            words: The words after its name.
            place: Its line.
            text: The text of its line.
            branch: True if it depends on a condition.
            unread: Why its words are not all known; "" if they are.
        """
        rest = [word for word in words if word not in ("-a", "-e")]
        if rest[:1] and re.fullmatch("-[a-zA-Z]*f|--file", rest[0]):
            return  # `elsewhere` tells of a file that is not read
        for each in statements((place, line) for line in " ".join(rest).split("\n")):
            self._statement(replace(each, text=text), branch=branch, unread=unread)

    def _statement(self, found: Statement, *, branch: bool, unread: str) -> None:
        place, text, words = found.place, found.text, found.words
        if found.chain:
            if words[0] == "chain" or words[1:2] == ["chain"]:
                self._chain(found.table, found.chain)
            elif words[0] in ("type", "policy"):
                self.chain(found.table, found.chain, words, place, text)
            elif words[0] != "comment":
                chain = self._chain(found.table, found.chain)
                self._rule(chain, found.table, words, place, text, unread=unread)
            return
        if found.table:
            if words[0] == "flags" and "dormant" in words:
                self._dormant.add(found.table)
            return
        verb, *rest = words if words[0] in _VERBS else ("add", *words)
        kind, (table, rest) = rest[0] if rest else "", named(rest[1:])
        if kind in ("rule", "chain") and rest and verb in ("add", "insert", "create"):
            chain = self._chain(table, rest[0])
            if kind == "rule" and verb != "create":
                first = verb == "insert"
                self._rule(chain, table, rest[1:], place, text, first=first, unread=unread)
                return
            if kind == "chain":
                self.chain(table, rest[0], rest[1:], place, text)
                return
        note = _UNREAD
        if verb in ("flush", "delete", "destroy") and kind in ("chain", "table", "ruleset"):
            name = f"{table}/{rest[0] if rest and kind == 'chain' else ''}"
            if kind == "ruleset":
                name = table if words[2:3] else ""
            chains = [key for key in self._chains if key.startswith(name)]
            if kind == "chain":
                chains = [key for key in chains if key == name]
            told = any(self._chains[key].rules or self._chains[key].drops for key in chains)
            if not told and "$" not in name:
                return
            note = unread or (_IN_BRANCH if branch else "" if told else _UNREAD)
            if not note:
                self._remove(chains, place, text, kept=verb == "flush" and kind != "ruleset")
                return
        elif words[0] == "include":
            note = "the rules are in another file: read it, too"
        elif verb in ("delete", "destroy", "replace") and kind == "rule":
            if rest and not self._chain(table, rest[0]).rules:
                return
            note = "perhop does not know the handles of rules, and changes none"
        elif verb == "rename":
            note = "perhop does not rename chains"
        elif _SAYS.search(" ".join(words)) is None:
            return
        self.ledger.about(place, text)
        self.ledger.ignored(place, note)

    def _remove(self, names: Iterable[str], place: Place, text: str, *, kept: bool) -> None:
        """Remove chains, or only their rules if the chains are kept."""
        for name in names:
            chain = self._chains[name]
            for rule in chain.rules:
                if rule.changes:
                    self.ledger.ignored(rule.place, f"deleted by line {place.line}")
                if rule.words:
                    self.ledger.about(place, text)
                    self.ledger.approximated(place, _LEGACY)
            if kept:
                chain.rules = []
            else:
                del self._chains[name]

    def chain(self, table: str, name: str, words: Sequence[str], place: Place, text: str) -> None:
        """Add a chain of a table, whose name stands after its family.

        The words tell its hook; a chain that only rules call has none.
        """
        chain = self._chain(table, name)
        if table.partition(" ")[0] in _FOREIGN:
            return
        if "hook" in words[:-1]:
            chain.hook = words[words.index("hook") + 1]
        if "priority" in words[:-1]:
            chain.priority = _priority(words[words.index("priority") + 1 :])
        if named := [at for at, word in enumerate(words) if word in ("device", "devices")]:
            said = " ".join(words[named[0] + 1 :]).removeprefix("= ")
            listed = said[1:].partition("}")[0] if said[:1] == "{" else said.partition(" ")[0]
            chain.devices = tuple(each.strip(' "') for each in listed.split(","))
        if "policy" in words[:-1]:
            drops = words[words.index("policy") + 1] == "drop"
            chain.drops = (place, text) if drops else None

    def rule(self, table: str, chain: str, words: list[str], place: Place, text: str) -> None:
        """Add a rule, in the words of nft, at the end of a chain."""
        self._rule(self._chain(table, chain), table, words, place, text)

    def _chain(self, table: str, name: str) -> _Chain:
        version = VERSIONS.get(table.partition(" ")[0])
        return self._chains.setdefault(f"{table}/{name}", _Chain(version))

    def iptables(
        self,
        words: Sequence[str],
        place: Place,
        text: str,
        *,
        ipv6: bool,
        branch: bool = False,
        unread: str = "",
    ) -> None:
        """Read a command of iptables.

        Args:
            words: The words after its name.
            place: Its line.
            text: The text of its line.
            ipv6: True for `ip6tables`.
            branch: True if it depends on a condition.
            unread: Why its words are not all known; "" if they are.
        """
        quality = _SAYS_IPTABLES.search(" ".join(words)) is not None
        if quality:
            self.ledger.about(place, text)
        try:
            found = iptables.parse(words, ipv6=ipv6)
            if found is None:
                raise ValueError("it adds no rule to a table that all packets pass")
            if unread or found.unread:
                found.unread = unread or f"{_UNREAD}: {found.unread[:120]}"
            self._iptables(found, place, text, ipv6=ipv6, branch=branch)
        except ValueError as error:
            if quality:
                self.ledger.ignored(place, unread or f"{_UNREAD}: {str(error)[:120]}")
            return
        if quality and found.unread:
            self.ledger.ignored(place, found.unread)
        elif found.note:
            self.ledger.approximated(place, found.note)

    def _iptables(
        self, found: Parsed, place: Place, text: str, *, ipv6: bool, branch: bool
    ) -> None:
        # The names of tables and chains are those that iptables gives them in nftables.
        table = f"{'ip6' if ipv6 else 'ip'} {found.table}"
        if found.action == "flush" and not found.chain:
            emptied = [each for name, each in self._chains.items() if name.startswith(f"{table}/")]
        else:
            chain = self._chain(table, found.chain)
            chain.hook = iptables.HOOKS.get(found.chain, "")
            chain.priority = _PRIORITIES[found.table]
            emptied = [chain]
        at = 0 if found.number is None else found.number - 1
        if "$" in f"{found.chain}{found.to}{found.verdict}" and found.chain != "INPUT":
            self.ledger.about(place, text)
            self.ledger.ignored(place, found.unread or _UNREAD)
            if found.action == "policy":
                return
            found.verdict = "accept"
        if found.action == "policy":
            drops = (place, text) if found.verdict == "drop" else None
            if branch and drops is None and chain.drops is not None:
                self.ledger.about(place, text)
                self.ledger.ignored(place, _IN_BRANCH)
            else:
                chain.drops = drops
            return
        if found.action in ("delete", "flush", "replace"):
            gone = [rule for each in emptied for rule in each.rules]
            if found.action != "flush" and found.number is not None:
                gone = gone[at : at + 1]
            elif found.action == "delete":
                gone = [rule for rule in gone if rule.words == found.words][:1]
            if branch and gone:
                self.ledger.about(place, text)
                self.ledger.ignored(place, _IN_BRANCH)
                return
            for rule in gone:
                if rule.changes:
                    self.ledger.ignored(rule.place, f"deleted by line {place.line}")
            lost = {id(rule) for rule in gone}
            for each in emptied:
                each.rules = [rule for rule in each.rules if id(rule) not in lost]
            if found.action != "replace":
                return
        self._count += 1
        if self._count > _MOST_RULES:
            self.ledger.about(place, text)
            self.ledger.ignored(place, f"perhop reads {_MOST_RULES:,} rules at most")
            return
        rule = Rule(place, found.tests, found.device, found.changes, found.verdict, text=text)
        rule.to, rule.kept, rule.arrives = f"{table}/{found.to}", found.kept, found.arrives
        rule.words, rule.unread = found.words, found.unread
        chain.rules.insert(len(chain.rules) if found.action == "add" else at, rule)

    def lines(self, lines: Iterable[tuple[Place, str]], *, branch: bool = False) -> None:
        """Read a file of rules; `branch` is true if it depends on a condition."""
        for found in statements(self._short(lines)):
            self._statement(found, branch=branch, unread="")

    def _short(self, lines: Iterable[tuple[Place, str]]) -> Iterator[tuple[Place, str]]:
        for place, line in lines:
            if len(line) > _MOST_LINE:
                self.ledger.about(place, line[:_MOST_LINE])
                self.ledger.ignored(place, f"it is longer than {_MOST_LINE:,} characters")
            else:
                yield place, line

    def _rule(
        self,
        chain: _Chain,
        table: str,
        words: list[str],
        place: Place,
        text: str,
        *,
        first: bool = False,
        unread: str = "",
    ) -> None:
        if "vmap" in words:
            listed = _of_map(words)
            for each in listed:
                self._rule(chain, table, each, place, text, first=first, unread=unread)
            if listed:
                return
        said, family = " ".join(words), table.partition(" ")[0]
        quality = _SAYS.search(said) is not None
        if quality:
            self.ledger.about(place, text)
        rule = Rule(place, text=text)
        if chain.version is not None:
            rule.narrow(OF_VERSION[chain.version])
        self._count += 1
        try:
            if self._count > _MOST_RULES:
                raise ValueError(f"perhop reads {_MOST_RULES:,} rules at most")
            if not unread and "$" in said:
                part = next((word for word in words if "$" in word and word[0] != '"'), "")
                unread = f"the value of {part[:30]} is not in the file" if part else ""
            if unread:
                raise ValueError(unread)
            if family in _FOREIGN:
                raise ValueError(f"packets that are routed pass no chain of `{family}`")
            read(rule, list(words), table, self.ledger)
        except (ValueError, IndexError) as error:
            rule.unread = unread or f"{_UNREAD}: {str(error)[:120] or 'it ends too early'}"
            if quality:
                self.ledger.ignored(place, rule.unread)
            verdicts = dict(_VERDICT.findall(said))
            if len(verdicts) == 1:
                ((verdict, to),) = verdicts.items()
                rule.verdict = "drop" if verdict == "reject" else verdict
                rule.to = f"{table}/{to}"
            elif verdicts or "vmap" in said:
                rule.verdict = "vmap"
            chain.rules.insert(0 if first else len(chain.rules), rule)
            return
        if rule.arrives is not None and rule.verdict in ("jump", "goto") and quality:
            self.ledger.approximated(place, "only policers are modelled by interface of arrival")
        if rule.within:
            if rule.verdict not in ("accept", "return"):
                if quality:
                    note = "the rule is not modelled: a limit that neither drops nor accepts"
                    self.ledger.ignored(place, note)
                return
        elif "police" in rule.changes and rule.verdict != "drop":
            # Only packets that exceed get to what follows the limit.
            before = rule.earlier
            after = {key: each for key, each in rule.changes.items() if each != before.get(key)}
            rule.changes = {**before, "police": after.pop("police")}
            rule.exceeding = after.pop("mark", None)
            rule.exceed(after.pop("dscp", None))
            if after:
                self.ledger.approximated(place, _LIKE_OTHERS)
        elif not first and self._of_policer(chain, rule):
            return
        chain.rules.insert(0 if first else len(chain.rules), rule)

    def _of_policer(self, chain: _Chain, rule: Rule) -> bool:
        """Add a rule for the packets that exceed a policer's limit to the policer before it."""
        for before in chain.rules[-2:]:
            mark = before.exceeding
            if mark is None or any(test.marks != ((mark, ALL),) for test in rule.tests):
                continue
            if rule.changes.keys() <= {"dscp", "mark"} and not rule.verdict:
                if "dscp" in rule.changes:
                    before.exceed(rule.changes["dscp"])
                return True
            self.ledger.approximated(rule.place, _LIKE_OTHERS)
        return False

    # Evaluation

    def devices(self, known: Collection[str]) -> list[str]:
        """Return the interfaces of policers that no command of tc names.

        "" stands for all, if no interface is named at all.
        """
        policing = [
            (chain, rule)
            for chain in self._chains.values()
            for rule in chain.rules
            if "police" in rule.changes and not rule.unread
        ]
        named = {
            name
            for chain in self._chains.values()
            for name in (*chain.devices, *(n for r in chain.rules for n in (r.device, r.arrives)))
            if name is not None and policing
        }
        if policing and not named and not known:
            return [""]
        return sorted(named - set(known))

    def packets(self, device: str, buckets: Buckets) -> list[Packets]:
        """Return all packets that leave by an interface, with what the rules make of them.

        Args:
            device: The interface.
            buckets: Its policers, to which those of the rules are added.

        Raises:
            TooManyRulesError: If the rules have too many combinations.
        """
        return self._hooks(_Way(device, buckets, sent=True), _HOOKS)

    def received(self, device: str, buckets: Buckets) -> list[Packets]:
        """Return all packets that come by an interface, as `packets` does those that leave."""
        return self._hooks(_Way(device, buckets, sent=False), ("ingress", "prerouting", "forward"))

    def _hooks(self, way: _Way, hooks: Sequence[str]) -> list[Packets]:
        now = [EVERY]
        awake = (
            chain
            for name, chain in self._chains.items()
            if name.partition("/")[0] not in self._dormant
        )
        ordered = sorted(awake, key=lambda chain: chain.priority)
        for hook in hooks:
            self._compare(hook, ordered)
            for chain in ordered:
                foreign = chain.devices and way.device not in chain.devices
                if chain.hook != hook or (foreign and (hook == "egress" or not way.sent)):
                    continue
                # Where a device is about to send, a packet has its Ethernet header.
                way.overhead = _ETHERNET if hook == "egress" else ""
                way.polices = way.sent != (hook == "ingress" and bool(chain.devices))
                way.own = hook == "output"
                now = [each for packets in now for each in self._through(chain, packets, way)]
            if hook == "prerouting" and way.sent:
                now = [each for packets in now for each in _forwarded(packets)]
        way.buckets.reached([EVERY], now, Rules.any())
        return now

    def _compare(self, hook: str, ordered: Iterable[_Chain]) -> None:
        """Note chains of a hook whose order matters, but is that of no document."""
        if hook in self._compared:
            return
        self._compared.add(hook)
        before: dict[tuple[int, tuple[str, ...]], list[Rule]] = {}
        left = _MOST_COMPARED
        for chain in ordered:
            if chain.hook != hook or left < 0:
                continue
            rules = self._below(chain)
            others = before.setdefault((chain.priority, chain.devices), [])
            left -= len(rules)
            for one, other in ((one, other) for other in others for one in rules):
                left -= 1
                if left < 0:
                    break
                if _interfere(one, other):
                    note = f"no document tells whether its chain or that of {other.place} is first"
                    self.ledger.approximated(one.place, note)
            others += rules

    def _below(self, chain: _Chain) -> list[Rule]:
        """Return the rules of a chain and of those that it calls."""
        found, called = list(chain.rules), set()
        for rule in found:
            if rule.to not in called and rule.verdict in ("jump", "goto") and not rule.unread:
                called.add(rule.to)
                found += self._chains[rule.to].rules if rule.to in self._chains else []
        return [rule for rule in found if not rule.unread]

    def _through(self, chain: _Chain, packets: Packets, way: _Way) -> list[Packets]:
        """Return what a chain of a hook makes of packets."""
        if way.dropped.intersection(packets.policers):
            return [packets]
        found = []
        for each, final in self._walk(chain, 0, packets, way, 0):
            drops = None if final or not way.polices else chain.drops
            header = Conditions() if chain.version is None else OF_VERSION[chain.version]
            those = None if drops is None else each.narrowed(header)
            if drops is not None and those is not None:
                found.append(replace(self._dropped(those, way, *drops), unsure=None))
            if those is None or those.header != each.header:
                found.append(replace(each, unsure=None))
        return found

    def _dropped(self, packets: Packets, way: _Way, place: Place, text: str) -> Packets:
        """Return packets that a rule or the policy of a chain drops."""
        self.ledger.about(place, text)
        if way.own:
            note = "what it drops is sent: only packets of the machine itself pass `output`"
            self.ledger.ignored(place, note)
            return packets
        if packets.unsure is not None:
            note = f"what it drops is sent, as perhop cannot tell what {packets.unsure} lets pass"
            self.ledger.ignored(place, note)
            return packets
        # Policers have the order of their keys: packets get to these after those that they passed.
        key = way.buckets.add(("drop", packets.policers), place, "dropped", DROPS, "")
        way.dropped.add(key)
        return replace(packets, policers=(*packets.policers, key))

    def _beside(self, rule: Rule, packets: Packets, way: _Way) -> Packets:
        """Return packets after a rule that is not modelled, or that depends on another interface.

        Such a rule may let them pass, and then no later rule of the chain applies to them.
        """
        if way.sent and rule.arrives == "lo":
            return packets  # a router does not forward what comes from itself
        named, other = (rule.device, rule.arrives) if way.sent else (rule.arrives, rule.device)
        if named not in (None, way.device) or not (rule.unread or other):
            return packets
        verdicts = self._verdicts(rule)
        if verdicts & {"drop", "vmap"} and rule.unread:
            self.ledger.about(rule.place, rule.text)
            self.ledger.ignored(rule.place, rule.unread)
        if not verdicts & _ENDS:
            return packets
        self._passing.setdefault(rule.place, (rule, packets.unsure))
        return replace(packets, unsure=rule.place)

    def _tell(self, rule: Rule, packets: Packets) -> None:
        """Note that a rule applies to packets that may not get to it, and the rules before it."""
        place = packets.unsure
        if place is None:
            return
        note = f"it applies to all packets here, as perhop cannot tell what {place} lets pass"
        self.ledger.about(rule.place, rule.text)
        self.ledger.approximated(rule.place, note)
        while place is not None:
            before, earlier = self._passing[place]
            self.ledger.about(place, before.text)
            self.ledger.ignored(place, before.unread or _ARRIVES)
            place = earlier

    def _after(self, packets: Packets, before: Packets) -> Packets:
        """Return packets that come back from a chain, whose `return` ends no other chain."""
        place = packets.unsure
        while place is not None and place != before.unsure:
            rule, earlier = self._passing[place]
            if self._verdicts(rule) & (_ENDS - {"return"}):
                return replace(packets, unsure=place)
            place = earlier
        return replace(packets, unsure=before.unsure)

    def _verdicts(self, rule: Rule) -> set[str]:
        """Return the verdict of a rule, and those of the chains that it calls."""
        found, called, todo = {rule.verdict}, set(), [rule]
        while todo:
            each = todo.pop()
            self._steps += 1
            if each.verdict not in ("jump", "goto"):
                found |= {each.verdict} - {"return"}
            elif each.to in self._chains and each.to not in called:
                called.add(each.to)
                todo += self._chains[each.to].rules
        return found

    def _walk(
        self, chain: _Chain, start: int, packets: Packets, way: _Way, depth: int
    ) -> list[tuple[Packets, bool]]:
        """Return what a chain makes of packets, and whether that is final."""
        if depth > _DEEPEST:
            raise TooManyRulesError("rules are nested too deep")
        found: list[tuple[Packets, bool]] = []
        for index in range(start, len(chain.rules)):
            rule = chain.rules[index]
            self._steps += 1
            if self._steps > _MOST_STEPS:
                raise TooManyRulesError("rules have too many combinations")
            if rule.unread or not way.sees(rule):
                packets = self._beside(rule, packets, way)
                continue
            whole = False
            for test in rule.tests:
                met = meet(packets, test)
                if met is not None:
                    whole = whole or met.header == packets.header
                    found += self._apply(chain, index, rule, met, way, depth)
            if whole:
                return found
        return [*found, (packets, False)]

    def _apply(
        self, chain: _Chain, index: int, rule: Rule, met: Packets, way: _Way, depth: int
    ) -> list[tuple[Packets, bool]]:
        changes = {name: value for name, value in rule.changes.items() if name != "police"}
        changed = replace(met, **changes)
        if rule.kept and "mark" in rule.changes:
            changed = replace(changed, mark=met.mark & rule.kept | changed.mark)
        verdict = rule.verdict
        if "police" in rule.changes or (way.sent and rule.changes):
            self._tell(rule, met)
        if "priority" in rule.changes and way.sent and chain.hook in ("ingress", "prerouting"):
            note = "Linux gives packets of IPv4 another priority where it forwards them"
            of_ipv6 = met.narrowed(OF_VERSION[6]) is not None
            (self.ledger.approximated if of_ipv6 else self.ledger.ignored)(rule.place, note)
        if chain.hook == "output" and way.sent and rule.changes:
            note = "only packets of the machine itself pass `output`; here all do"
            self.ledger.approximated(rule.place, note)
        if "police" in rule.changes:
            if rule.within and not self._drops(chain, index + 1, changed, way):
                note = "what exceeds the limit is treated as what does not"
                self.ledger.approximated(rule.place, note)
            elif way.polices or rule.arrives is not None:
                police = of_text(rule.changes["police"])
                key = way.buckets.add(id(rule), rule.place, "limit", police, way.overhead)
                if self._limited.setdefault(id(rule), way.device) != way.device:
                    note = "several interfaces share its bucket; here each has one"
                    self.ledger.approximated(rule.place, note)
                changed = replace(changed, policers=(*changed.policers, key))
            if rule.within:
                return [(changed, verdict == "accept")]
            # Conforming packets pass over the verdict.
            return self._walk(chain, index + 1, changed, way, depth + 1)
        if verdict == "drop" and (way.polices or rule.arrives is not None):
            return [(self._dropped(changed, way, rule.place, rule.text), True)]
        if verdict in ("accept", "drop"):
            return [(changed, True)]
        if verdict == "return":
            return [(changed, False)]
        if verdict in ("jump", "goto"):
            inner = self._chains.get(rule.to, _Chain())
            found = []
            for each, final in self._walk(inner, 0, changed, way, depth + 1):
                if final or verdict == "goto":
                    found.append((each, final))
                else:
                    back = self._after(each, changed)
                    found += self._walk(chain, index + 1, back, way, depth + 1)
            return found
        return self._walk(chain, index + 1, changed, way, depth + 1)

    def _drops(self, chain: _Chain, start: int, packets: Packets, way: _Way) -> bool:
        """Return whether the rest of a chain drops all packets that it gets."""
        for rule in chain.rules[start:]:
            seen = not rule.unread and way.sees(rule)
            met = [meet(packets, test) for test in rule.tests] if seen else []
            if not any(each is not None for each in met):
                continue
            whole = any(each is not None and each.header == packets.header for each in met)
            return rule.verdict == "drop" and "police" not in rule.changes and whole
        return chain.drops is not None


@dataclass(slots=True)
class _Way:
    """The way of packets by an interface.

    Attributes:
        device: The interface.
        buckets: Its policers.
        sent: True if it sends the packets, false if it receives them.
        overhead: The bytes beside an IP packet that limits count at a hook.
        polices: True if the limits and drops at a hook are those of this way.
        own: True if only packets of the machine itself pass a hook.
        dropped: The keys of policers of packets that rules drop.
    """

    device: str
    buckets: Buckets
    sent: bool
    overhead: str = ""
    polices: bool = True
    own: bool = False
    dropped: set[int] = field(default_factory=set)

    def sees(self, rule: Rule) -> bool:
        """Return whether a rule applies to packets on this way."""
        if self.sent:
            return rule.arrives is None and rule.device in (None, self.device)
        return rule.arrives in (None, self.device) and rule.device is None


def _forwarded(packets: Packets) -> list[Packets]:
    """Return packets where Linux forwards them: IPv4 gets its priority anew (`ip_forward`)."""
    if packets.priority is None:
        return [packets]
    of_ipv4, of_ipv6 = packets.narrowed(OF_VERSION[4]), packets.narrowed(OF_VERSION[6])
    again = None if of_ipv4 is None else replace(of_ipv4, priority=None)
    return [each for each in (again, of_ipv6) if each is not None]


def _interfere(one: Rule, other: Rule) -> bool:
    """Return whether packets of two rules differ by the order of the rules."""
    sets = [
        {key: each for key, each in rule.changes.items() if key != "police"}
        for rule in (one, other)
    ]
    asks = [
        {"mark" for test in rule.tests if test.marks or test.negated}
        | {"dscp" for test in rule.tests if test.header.dscp is not None}
        for rule in (one, other)
    ]
    different = any(sets[0][key] != sets[1][key] for key in sets[0].keys() & sets[1].keys())
    if not different and not sets[0].keys() & asks[1] and not sets[1].keys() & asks[0]:
        return False
    if None not in (one.device, other.device) and one.device != other.device:
        return False
    return any(
        not (replace(a.header, dscp=None) & replace(b.header, dscp=None)).is_never
        for a in one.tests
        for b in other.tests
    )


def of_text(police: tuple[tuple[str, Any], ...]) -> dict[str, Any]:
    """Return a policer from its settings; what is a mapping in it is pairs, too."""
    return {key: dict(value) if isinstance(value, tuple) else value for key, value in police}


def _priority(words: Sequence[str]) -> int:
    """Return the priority of a chain from ``mangle``, ``-150`` or ``mangle + 10``."""
    said = "".join(words).partition(";")[0]
    match = re.fullmatch(r"([a-z]*)([+-]?[0-9]{1,9})?", said, re.ASCII)
    if match is None or match[1] not in _PRIORITIES:
        return 0
    return _PRIORITIES[match[1]] + int(match[2] or 0)


def _of_map(words: list[str]) -> list[list[str]]:
    """Return the rules that a map of verdicts in a rule stands for; none if it is not there."""
    at = words.index("vmap")
    if words[at + 1 : at + 2] != ["{"] or "}" not in words[at:]:
        return []
    end = words.index("}", at)
    found = []
    for element in " ".join(words[at + 2 : end]).split(","):
        key, _, verdict = element.rpartition(":")
        if key and verdict.strip():
            found.append([*words[:at], *key.split(), *verdict.split(), *words[end + 1 :]])
    return found
