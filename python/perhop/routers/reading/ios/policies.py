"""Policy maps: their classes, each with the packets that it matches."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from perhop.routers.reading.configuration import Fault, too_many_classes
from perhop.routers.reading.ios.actions import Settings, read_settings
from perhop.routers.reading.ios.classes import DEFAULT_CLASS
from perhop.routers.reading.ios.refusals import (
    refused,
    refused_for_input,
    refused_reserve,
    refused_unshaped,
)
from perhop.routers.reading.matching import Rules, TooManyRulesError
from perhop.scenario.model.classes import MAX_CLASSES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from perhop.routers.reading.configuration import Direction, Place
    from perhop.routers.reading.ios.account import Account
    from perhop.routers.reading.ios.classes import ClassMaps
    from perhop.routers.reading.ios.defaults import Platform
    from perhop.routers.reading.ios.tree import Statement


@dataclass(slots=True)
class PolicyMap:
    """The statements of a policy map, and of each of its classes."""

    headers: list[Statement] = field(default_factory=list)
    classes: dict[str, tuple[Statement, list[Statement]]] = field(default_factory=dict)


@dataclass(slots=True)
class Member:
    """A class with its packets."""

    name: str
    settings: Settings
    rules: Rules


class PolicyMaps:
    """The policy maps of a configuration."""

    def __init__(
        self,
        statements: Sequence[Statement],
        classes: ClassMaps,
        account: Account,
        platform: Platform,
    ) -> None:
        """Find the policy maps among the statements of the top level."""
        self._account = account
        self._platform = platform
        self._classes = classes
        self._maps: dict[str, PolicyMap] = {}
        self._members: dict[str, list[Member]] = {}
        self._used: set[str] = set()
        self._inside: set[str] = set()
        self._others: list[Statement] = []
        for statement in statements:
            if statement.kind == "policy-map":
                self._add(statement)
            elif statement.starts("no", "policy-map"):
                removed = self._maps.pop(statement.words[-1], PolicyMap())
                account.removed(removed.headers, statement)

    def _add(self, statement: Statement) -> None:
        words = statement.words[1:]
        if words[:1] == ["type"]:
            if statement.word(2) not in ("qos", "queuing", "queueing"):
                self._others.append(statement)
                return
            words = words[2:]
        if len(words) != 1:
            self._others.append(statement)
            return
        found = self._maps.setdefault(words[0], PolicyMap())
        found.headers.append(statement)
        self._account.modelled(statement)
        for child in statement.children:
            if child.kind == "class" and len(child.words) > 1:
                typed = child.word(1) == "type" and len(child.words) > 3
                name = child.words[3 if typed else 1]
                name = DEFAULT_CLASS if name.lower() == DEFAULT_CLASS else name
                self._account.modelled(child)
                self._inside |= {
                    inner.words[1]
                    for inner in child.children
                    if inner.starts("service-policy") and inner.words[1:] not in ([], [words[0]])
                }
                known = found.classes.get(name)
                found.classes[name] = (child, [*(known[1] if known else ()), *child.children])
                if known is None and child.word(2) == "insert-before":
                    _put_before(found.classes, name, child.words[-1])
            elif child.starts("no", "class") and len(child.words) == 3:
                before = found.classes.pop(child.words[2], None)
                inside = () if before is None else (before[0], *before[1])
                self._account.removed(inside, child)
            elif child.starts("description"):
                self._account.modelled(child)
            else:
                self._account.not_modelled(child)
                self._account.ignored(child.children, "unknown statement")

    def __contains__(self, name: str) -> bool:
        """Return whether there is such a policy map."""
        return name in self._maps

    def place(self, name: str) -> Place:
        """Return the line of a policy map."""
        return self._maps[name].headers[0].place

    @property
    def unused(self) -> list[str]:
        """The names of the policy maps that nothing has used."""
        return [name for name in self._maps if name not in self._used]

    def within(self, outer: Rules, members: Sequence[Member]) -> list[Member]:
        """Return classes with those of their packets that are in a set.

        Raises:
            TooManyRulesError: It takes too many conditions.
        """
        self._classes.spend(*(outer for _ in members), *(each.rules for each in members))
        found = [replace(each, rules=(each.rules & outer).simplified()) for each in members]
        return [each for each in found if not each.rules.is_never]

    def is_inside(self, name: str) -> bool:
        """Return whether another policy map contains this one."""
        return name in self._inside

    def has_queues(self, name: str) -> bool:
        """Return whether a policy, or one inside it, says something about queues."""
        return any(each.queues for settings in self._with_inner(name) for each in settings)

    def refused(self, name: str) -> tuple[Statement, str] | None:
        """Return a statement of a policy, or of one inside it, that IOS refuses, and why.

        The account has it.
        """
        for settings in self._with_inner(name):
            refusal = refused(settings, self._inside_of, xe=self._platform.xe)
            if refusal is not None:
                statement, reason = refusal
                self._account.not_modelled(statement, f"IOS refuses it: {reason}", Fault.REFUSED)
                return refusal
        return None

    def refused_at(
        self, name: str, direction: Direction, *, kind: str, rate: int, reserved: int
    ) -> tuple[Statement, str] | None:
        """Return a statement because of which IOS refuses a policy at an interface, and why.

        Args:
            name: The policy.
            direction: Its direction.
            kind: The kind of the interface, if it is never congested itself; else "".
            rate: The rate of the interface in bit/s.
            reserved: What the interface reserves for classes, in per cent; 0 for no limit.
        """
        if direction == "in":
            refusals = map(refused_for_input, self._with_inner(name))
            return next((each for each in refusals if each is not None), None)
        settings = [member.settings for member in self.members(name)]
        if kind:
            return refused_unshaped(settings, self._inside_of, kind)
        limited = self._platform.reserves and reserved > 0
        return refused_reserve(settings, rate, reserved) if limited else None

    def translated(self, name: str, direction: Direction, translation: Place) -> None:
        """Note the conditions of a policy on addresses that its interface translates (NAT)."""
        names = [name, *(c.child for each in self._with_inner(name) for c in each if c.child)]
        for key in {
            key: None for each in names if each in self._maps for key in self._maps[each].classes
        }:
            self._classes.translated(key, direction, translation)

    def _inside_of(self, settings: Settings) -> list[Settings]:
        """Return the settings of the classes of the policy inside a class; none without one."""
        known = settings.child is not None and settings.child in self._maps
        return [member.settings for member in self.members(str(settings.child))] if known else []

    def _with_inner(self, name: str) -> Iterator[list[Settings]]:
        """Yield the settings of the classes of a policy, and of each one inside it, once."""
        seen: set[str] = set()
        todo = [name]
        while todo:
            current = todo.pop()
            if current in seen or current not in self._maps:
                continue
            seen.add(current)
            settings = [member.settings for member in self.members(current)]
            yield settings
            todo += [each.child for each in settings if each.child is not None]

    def finish(self) -> None:
        """Note the policy maps that are no QoS."""
        for statement in self._others:
            typed = statement.word(1) == "type"
            note = f"policy maps of type {statement.word(2)} are not modelled" if typed else ""
            self._account.ignored([statement], note or "expected one name")
        for each in self._maps.values():
            for header, statements in each.classes.values():
                self._account.ignored([header, *statements], "its class matches no packet")

    def members(self, name: str) -> list[Member]:
        """Return the classes of a policy in the order of matching, the last with all packets."""
        if name not in self._members:
            self._members[name] = self._read(name)
        return self._members[name]

    def _read(self, name: str) -> list[Member]:
        account = self._account
        found: list[Member] = []
        each = self._maps[name]
        self._used.add(name)
        ordered = [key for key in each.classes if key != DEFAULT_CLASS]
        taker = ""
        if len(ordered) >= MAX_CLASSES:
            raise too_many_classes(each.classes[ordered[MAX_CLASSES - 1]][0].place, name)
        for key in [*ordered, *(k for k in each.classes if k == DEFAULT_CLASS)]:
            header, statements = each.classes[key]
            if taker:
                note = f"class {taker} before it takes all packets"
                account.ignored(statements, note)
                shadowed = key != DEFAULT_CLASS or bool(statements)
                account.not_modelled(header, note, Fault.SHADOWED if shadowed else None)
                continue
            rules = self._rules(key, header)
            if rules is None:
                account.ignored(statements, "its class is not modelled")
                continue
            found.append(Member(key, read_settings(header, statements, account), rules))
            if rules.is_any:
                taker = key
        if not taker:
            found.append(Member(DEFAULT_CLASS, Settings(each.headers[0]), Rules.any()))
        return self._by_level(found)

    def _rules(self, name: str, header: Statement) -> Rules | None:
        try:
            rules = self._classes.rules(name)
        except TooManyRulesError as error:
            self._account.not_modelled(header, str(error))
            return None
        if rules is None:
            self._account.undefined(header, f"class map {name}")
        elif rules.is_never:
            note = "matches no packet that a scenario can state"
            self._account.not_modelled(header, note, Fault.EMPTY)
            return None
        return rules

    def _by_level(self, members: list[Member]) -> list[Member]:
        """Put priority classes before those of later levels, without a change of matching."""
        found: list[Member] = []
        for each in members:
            level = each.settings.level
            if not level or each.rules.is_any:
                found.append(each)
                continue
            levels = [other.settings.level for other in found]
            later = next((i for i, other in enumerate(levels) if level < other), None)
            if level in levels and "priority" in each.settings.statements:
                self._account.approximated(
                    each.settings.statements["priority"],
                    "served after the priority classes before it; IOS: with them, as packets "
                    "arrive",
                )
            if later is None:
                found.append(each)
                continue
            try:
                self._classes.spend(each.rules, *(other.rules for other in found[later:]))
                passed = Rules.union(other.rules for other in found[later:])
                found.insert(later, replace(each, rules=(each.rules & ~passed).simplified()))
            except TooManyRulesError:
                found.append(each)
                self._account.not_modelled(each.settings.header, "served in the order of classes")
        return [each for each in found if not each.rules.is_never]


def _put_before(classes: dict[str, Any], name: str, other: str) -> None:
    """Move the last class before another, if there is such a class."""
    later = [key for key in classes if key != name]
    later = later[later.index(other) :] if other in later else []
    for key in later:
        classes[key] = classes.pop(key)
