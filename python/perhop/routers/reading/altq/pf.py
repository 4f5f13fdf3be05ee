"""pf.conf: its queues, and the rules that assign packets to them."""

from __future__ import annotations

from ipaddress import collapse_addresses
from typing import TYPE_CHECKING, Final

from perhop.routers.reading.altq import (
    assignment,
    devices,
    prefixes,
    queues,
    refusals,
    rules,
    syntax,
)
from perhop.routers.reading.altq.ledger import Ledger
from perhop.routers.reading.altq.policy import attachment
from perhop.routers.reading.altq.values import network
from perhop.routers.reading.configuration import Configuration

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perhop.routers.reading.altq.ledger import Statement
    from perhop.routers.reading.configuration import Source
    from perhop.routers.reading.matching import Network

_ASSIGN: Final = frozenset(("queue", "prio"))
_DELAYS: Final = frozenset(("dnpipe", "dnqueue"))
_SETTINGS: Final = frozenset(("tos", "delay"))
"""Words of rules about quality of service: at any place, and after `set`."""

_MAX_TABLE: Final = 100_000
_MAX_EXCEPTIONS: Final = 100


class _Reader:
    """Reads the statements of pf.conf one after the other."""

    def __init__(self) -> None:
        self.ledger = Ledger("pfctl")
        self.macros = syntax.Macros()
        self.tables: dict[str, prefixes.Networks | None] = {}
        self.queues: list[tuple[Statement, list[str]]] = []
        """The statements `altq on` and `queue`, with macros replaced."""
        self.rules: list[rules.Rule] = []
        self.unknown: list[tuple[Statement, str]] = []
        """Rules without a queue whose packets perhop cannot tell, and why."""
        self.skips: list[rules.Rule] = []
        """The statements `set skip`, as rules at their interfaces."""
        self.elsewhere: list[Statement] = []
        self.translated = False
        """True if a statement before translates addresses, and later ones compare the result."""

    def statement(self, statement: Statement) -> None:
        """Read a statement."""
        words = statement.words
        first = words[0]
        if words[1:2] == ("=",):
            self.macros.define(statement)
        elif first == "table" and len(words) > 1:
            self._table(statement)
        elif first in ("pass", "match"):
            self._rule(statement)
        elif first == "queue" or (first == "altq" and words[1:2] == ("on",)):
            self.queues.append((statement, self._expanded(statement)))
        elif first == "block":
            self._block(statement)
        elif words[:3] == ("set", "skip", "on"):
            expanded, _ = self.macros.expand(words)
            names = (each for each in syntax.items(expanded, 3)[0] if each != ",")
            self.skips.append(rules.Rule(statement, interfaces=tuple(names)))
        elif first in ("nat", "rdr", "binat"):
            self.translated = True
        elif first in syntax.ANCHORS or first in ("include", "load"):
            self.elsewhere.append(statement)
        elif (first == "scrub" and "set-tos" in words) or (
            first not in ("set", "no", "antispoof", "scrub", "table")
            and _ASSIGN.intersection(words)
        ):
            self.ledger.ignored(statement, "unknown statement about queues or code points")

    def _expanded(self, statement: Statement) -> list[str]:
        """Enter a statement and the macros in it; return its words."""
        words, used = self.macros.expand(statement.words)
        self._entered(statement, used)
        return words

    def _entered(self, statement: Statement, used: Sequence[str]) -> None:
        self.ledger.modelled(statement)
        for name in used:
            self.ledger.modelled(self.macros.statements[name])

    def _rule(self, statement: Statement) -> None:
        words, used = self.macros.expand(statement.words)
        assigns = bool((_ASSIGN | _DELAYS).intersection(words)) or (
            "set" in words and bool(_SETTINGS.intersection(words))
        )
        if assigns:
            self._entered(statement, used)
        try:
            rule = rules.parse(statement, words, self.tables)
        except rules.RuleError as error:
            if assigns:
                self.ledger.ignored(statement, f"{error}")
            elif words[0] == "pass":
                self.unknown.append((statement, str(error)))
            return
        if assigns and not rule.queue:
            note = "; ".join(rule.notes) or "it assigns no queue"
            self.ledger.ignored(statement, note)
        elif assigns:
            for note in rule.notes:
                self.ledger.approximated(statement, note)
            of = rule.conditions
            if self.translated and not (of.source is None and of.destination is None):
                note = "its addresses are compared after a translation (NAT); perhop has none"
                self.ledger.approximated(statement, note)
            if rule.urgent:
                self.ledger.approximated(
                    statement,
                    f"{rule.urgent} gets packets of low delay; empty acknowledgements, which pf "
                    f"puts there too, are in {rule.queue}",
                )
        self.rules.append(rule)
        self.translated = self.translated or (rule.translates and rule.matches)

    def _block(self, statement: Statement) -> None:
        """Read a rule that blocks packets, if the configuration tells which."""
        words, _ = self.macros.expand(statement.words)
        if _ASSIGN.intersection(words):
            self.ledger.ignored(
                statement,
                "the queue is that of pf's answers to blocked packets, which perhop does not have",
            )
        try:
            rule = rules.parse(statement, words, self.tables)
        except rules.RuleError:
            return
        if not rule.notes:
            self.rules.append(rule)

    def _table(self, statement: Statement) -> None:
        """Read a table; its addresses are known unless they are in a file."""
        words, _ = self.macros.expand(statement.words)
        name = words[1].strip("<>") if len(words) > 1 else ""
        found: list[tuple[Network, bool]] = []
        self.tables[name] = None
        if "file" in words or "{" not in words:
            return
        texts, _ = syntax.items(words, words.index("{"))
        excepted = False
        for text in texts[:_MAX_TABLE]:
            if text == "!":
                excepted = True
                continue
            each = network(text)
            if each is None:  # a name or an interface
                return
            found.append((each, excepted))
            excepted = False
        if sum(excepted for _, excepted in found) > _MAX_EXCEPTIONS:
            return
        # The entry with the longest prefix decides, so that it changes what shorter ones say.
        inside: set[Network] = set()
        for each, excepted in sorted(found, key=lambda entry: entry[0].prefixlen):
            if excepted:
                inside = {part for one in inside for part in prefixes.outside(one, each)}
            else:
                inside.add(each)
        self.tables[name] = (
            *collapse_addresses(each for each in inside if each.version == 4),
            *collapse_addresses(each for each in inside if each.version == 6),
        )

    def anchors(self) -> None:
        """Enter the anchors that say something about queues, and those whose rules are elsewhere.

        Rules in other files count if this file has queues.
        """
        for statement in self.elsewhere:
            if _ASSIGN.intersection(statement.words):
                note = "anchors are not modelled"
            elif self.queues:
                note = "the rules of anchors and of other files are not modelled"
            else:
                continue
            self.ledger.ignored(statement, note)

    def _without_ecn(self) -> None:
        """Note rules that compare the ECN field, which conditions of scenarios do not have.

        Rules for all its values are rules for a code point.
        """
        octets = frozenset(octet for rule in self.rules for octet in rule.octets)
        for rule in self.rules:
            if rule.queue and not all({octet & 0xFC | n for n in range(4)} <= octets
                                      for octet in rule.octets):  # fmt: skip
                note = "pf compares the whole octet: packets with another value of ECN do not match"
                self.ledger.approximated(rule.statement, note)

    def read(self, texts: Sequence[Source], rates: Mapping[str, int]) -> Configuration:
        """Return what the files say."""
        for source in texts:
            for statement in syntax.statements(source):
                self.statement(statement)
        self.anchors()
        if any(rule.queue and not rule.blocks for rule in self.rules):
            for statement, reason in self.unknown:
                note = f"{reason}: its packets have the queue of another rule, not the default one"
                self.ledger.ignored(statement, note)
        altq = any(words[0] == "altq" for _, words in self.queues)
        definitions = [
            queues.parse(self.ledger, statement, words, altq=altq)
            for statement, words in self.queues
        ]
        complete = not any(each.words[0] in ("include", "load") for each in self.elsewhere)
        if altq:
            refusals.altq(self.ledger, definitions, rates, complete=complete)
        else:
            refusals.openbsd(self.ledger, definitions, complete=complete)
            if complete and definitions and self.ledger.refusal is None:
                refusals.rules(self.ledger, self.rules, definitions)
        self._without_ecn()
        roots = [each for each in definitions if not each.name]
        below = [each for each in definitions if each.name]
        found, lost = devices.build(self.ledger, roots, below, rates)
        assignment.assign(self.ledger, found, lost, self.rules, self.skips)
        attached = [attachment(device, self.ledger) for device in found]
        tops = roots or [each for each in below if not each.parent]
        refused = self.ledger.refusals(name for each in tops for name in each.interfaces)
        return Configuration(
            "pf",
            self.ledger.lines([source.file for source in texts]),
            attachments=tuple(each for each in attached if each is not None and not refused),
            defaults=self.ledger.defaults(),
            refusals=refused,
        )


def read(texts: Sequence[Source], rates: Mapping[str, int]) -> Configuration:
    """Return what files of pf.conf say."""
    return _Reader().read(texts, rates)
