"""Class maps as sets of packets."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from perhop.routers.reading.configuration import Fault
from perhop.routers.reading.ios.access_lists import EVERY
from perhop.routers.reading.ios.numbers import dscp, precedence, whole
from perhop.routers.reading.matching import Conditions, Rules, TooManyRulesError
from perhop.routers.reading.translation import note_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perhop.routers.reading.configuration import Direction, Place
    from perhop.routers.reading.ios.access_lists import AccessLists
    from perhop.routers.reading.ios.account import Account
    from perhop.routers.reading.ios.tree import Statement

MAX_DEPTH: Final = 16
"""The most class maps within each other."""

MAX_WORK: Final = 2**20
"""The most rules of access lists and classes that all operations on sets of packets look at."""

DEFAULT_CLASS: Final = "class-default"

_VERSIONS: Final = {"ip": 4, "ipv6": 6}
"""The version of IP of `match ip dscp` and its like; without such a word, both match."""

_MOST_POINTS: Final = {"precedence": 4}
"""The most values of a `match` (Cisco IOS Quality of Service Solutions Command Reference)."""

_PROTOCOLS: Final = frozenset({"tcp", "udp", "icmp"})


@dataclass(slots=True)
class ClassMap:
    """A class map: its statements, and whether one of them is enough."""

    any: bool
    headers: list[Statement] = field(default_factory=list)
    statements: list[Statement] = field(default_factory=list)


class ClassMaps:
    """The class maps of a configuration; the account has those that are used."""

    def __init__(
        self, statements: Sequence[Statement], lists: AccessLists, account: Account
    ) -> None:
        """Find the class maps among the statements of the top level."""
        self._account = account
        self._lists = lists
        self._maps: dict[str, ClassMap] = {}
        self._read: dict[str, Rules | None] = {}
        self._open: list[str] = []
        self._others: list[Statement] = []
        self._work = 0
        for statement in statements:
            if statement.kind == "class-map":
                self._add(statement)
            elif statement.starts("no", "class-map"):
                removed = self._maps.pop(statement.words[-1], None)
                account.removed(removed.headers if removed is not None else (), statement)

    def _add(self, statement: Statement) -> None:
        words = statement.words[1:]
        if words[:1] == ["type"]:
            if statement.word(2) not in ("qos", "queuing", "traffic"):
                self._others.append(statement)
                return
            words = words[2:]
        mode = words[0].lower() if words else ""
        if mode in ("match-any", "match-all"):
            words = words[1:]
        if len(words) != 1:
            self._others.append(statement)
            return
        found = self._maps.setdefault(words[0], ClassMap(any=mode == "match-any"))
        if mode:
            found.any = mode == "match-any"
        found.headers.append(statement)
        found.statements += statement.children

    def rules(self, name: str) -> Rules | None:
        """Return the packets of a class; None if there is no such class map.

        Raises:
            TooManyRulesError: It takes too many conditions.
        """
        if name.lower() == DEFAULT_CLASS:
            return Rules.any()
        if name not in self._maps:
            return None
        if name not in self._read:
            self._open.append(name)
            try:
                self._read[name] = self._class(self._maps[name])
            except TooManyRulesError:
                self._read[name] = None
            finally:
                self._open.pop()
        found = self._read[name]
        if found is None:
            raise TooManyRulesError(f"class map {name} needs too many rules")
        return found

    def spend(self, *sets: Rules) -> None:
        """Count the rules of some sets, with which something is about to be done.

        Raises:
            TooManyRulesError: All operations together take too many rules.
        """
        self._work += sum(1 + len(each.rules) for each in sets)
        if self._work > MAX_WORK:
            raise TooManyRulesError(f"all classes take more than {MAX_WORK:,} rules")

    def translated(self, name: str, direction: Direction, translation: Place) -> None:
        """Note the conditions of a class on addresses that an interface translates (NAT)."""
        seen: set[str] = set()
        todo = [name]
        while todo:
            current = todo.pop()
            if current in seen or current not in self._maps:
                continue
            seen.add(current)
            for statement in self._maps[current].statements:
                words = [word for word in statement.words if word.lower() not in ("not", "name")]
                if statement.word(0) != "match" or len(words) < 3:
                    continue
                if words[1].lower() in ("class-map", "class"):
                    todo.append(words[2])
                elif words[1].lower() == "access-group" and self._lists.compare(
                    words[2], direction
                ):
                    self._account.approximated(statement, note_of(direction, translation))

    def finish(self) -> None:
        """Note the class maps that no policy uses."""
        for name, each in self._maps.items():
            if name not in self._read:
                self._account.ignored([*each.headers, *each.statements], "no policy uses it")
        for statement in self._others:
            typed = statement.word(1) == "type"
            note = f"class maps of type {statement.word(2)} are not modelled" if typed else ""
            self._account.ignored([statement], note or "expected one name")

    def _class(self, each: ClassMap) -> Rules:
        account = self._account
        for header in each.headers:
            account.modelled(header)
        sets: list[Rules] = []
        missing: list[Statement] = []
        for statement in self._kept(each.statements):
            account.ignored(statement.children, "unknown statement")
            if statement.starts("description"):
                account.modelled(statement)
                continue
            if not statement.starts("match"):
                account.not_modelled(statement)
                continue
            negated = statement.word(1) == "not"
            words = statement.words[2 if negated else 1 :]
            account.modelled(statement)
            found = self._match(statement, words)
            if found is None:
                missing.append(statement)
            else:
                self.spend(found)
                sets.append(~found if negated else found)
        if each.any:
            return Rules.union(sets).simplified()
        if missing and sets:
            for statement in missing:
                account.not_modelled(
                    statement, f"{_reason(statement)}; the class has the other conditions only"
                )
        return Rules.intersection(sets).simplified() if sets else Rules.never()

    def _kept(self, statements: Sequence[Statement]) -> list[Statement]:
        """Return the statements that no later one, such as ``no match any``, removes."""
        kept: dict[str, list[Statement]] = {}
        for statement in statements:
            spelt = " ".join(statement.words).lower()
            if statement.starts("no", "match"):
                self._account.removed(kept.pop(spelt[3:], ()), statement)
            else:
                kept.setdefault(spelt, []).append(statement)
        return [statement for same in kept.values() for statement in same]

    def _match(self, statement: Statement, words: list[str]) -> Rules | None:
        """Return the packets that a statement matches; None if that is not modelled."""
        version = _VERSIONS.get(words[0].lower()) if len(words) > 1 else None
        if version is None:
            return self._criterion(statement, words)
        packets = self._criterion(statement, words[1:])
        return None if packets is None else packets & _of(version)

    def _criterion(self, statement: Statement, words: list[str]) -> Rules | None:
        """Return the packets of both versions of IP that a statement matches."""
        lower = [word.lower() for word in words]
        values = lower[1:]
        most = _MOST_POINTS.get(lower[0]) if lower else None
        if most is not None and len(values) > most:
            note = f"IOS refuses it: `match {lower[0]}` takes at most {most} values"
            self._account.not_modelled(statement, note, Fault.REFUSED)
            return None
        match lower[:1]:
            case ["any"]:
                return Rules.any()
            case ["dscp"] if values:
                return self._points(statement, [p for word in values for p in _dscps(word)])
            case ["precedence"] if values:
                ranges = [
                    None if value is None else range(8 * value, 8 * value + 8)
                    for value in map(precedence, values)
                ]
                points = [
                    point for each in ranges for point in (each if each is not None else (None,))
                ]
                return self._points(statement, points)
            case ["cos"] if values and values[0] != "inner":
                return self._link_class(statement, "pcp", values)
            case ["mpls"] if values[:1] == ["experimental"]:
                codes = values[2:] if values[1:2] == ["topmost"] else values[1:]
                return self._link_class(statement, "mpls_tc", codes)
            case ["access-group"] if values:
                return self._access_group(statement, words[2 if values[0] == "name" else 1 :])
            case ["class-map" | "class"] if len(values) == 1:
                return self._nested(statement, words[1])
            case ["protocol"] if values:
                return self._protocol(statement, values)
            case ["rtp"] if len(values) == 2:
                return self._rtp(statement, values)
        self._account.not_modelled(statement, _reason(statement))
        return None

    def _points(self, statement: Statement, values: Sequence[int | None]) -> Rules | None:
        known = frozenset(value for value in values if value is not None)
        if not known:
            self._account.not_modelled(statement, "no code point")
            return None
        if len(known) < len(set(values)):
            self._account.approximated(statement, "only the words that are code points")
        return Rules.of(Conditions(dscp=known))

    def _link_class(self, statement: Statement, key: str, words: list[str]) -> Rules | None:
        """Return the packets with classes at layer 2: numbers, or lists such as ``1-3,5``."""
        codes = [point for word in words for point in _dscps(word)]
        known = frozenset(code for code in codes if code is not None and code < 8)
        if not known or len(known) < len(set(codes)):
            self._account.not_modelled(statement, "expected values from 0 to 7")
            return None
        return Rules.of(Conditions(**{key: known}))  # type: ignore[arg-type]

    def _access_group(self, statement: Statement, names: list[str]) -> Rules | None:
        if len(names) != 1:
            self._account.not_modelled(statement)
            return None
        rules = self._lists.rules(names[0])
        if rules is None:
            self._account.undefined(statement, f"access list {names[0]}")
        return rules

    def _nested(self, statement: Statement, name: str) -> Rules | None:
        if name in self._open or len(self._open) >= MAX_DEPTH:
            self._account.not_modelled(
                statement, "contains itself" if name in self._open else "too many class maps deep"
            )
            return None
        rules = self.rules(name)
        if rules is None:
            self._account.undefined(statement, f"class map {name}")
        return rules

    def _protocol(self, statement: Statement, values: list[str]) -> Rules | None:
        if values[0] in _PROTOCOLS and len(values) == 1:
            return Rules.of(Conditions(protocols=frozenset(values)))
        if len(values) == 1 and values[0] in _VERSIONS:
            return _of(_VERSIONS[values[0]])
        self._account.not_modelled(statement, _reason(statement))
        return None

    def _rtp(self, statement: Statement, values: list[str]) -> Rules | None:
        first, count = (whole(value, 0, 65535) for value in values)
        if first is None or count is None:
            self._account.not_modelled(statement, "no range of ports")
            return None
        self._account.approximated(statement, "all UDP ports of the range; IOS: the even ones")
        ports = ((first, first + count),)
        return Rules.of(Conditions(protocols=frozenset({"udp"}), destination_ports=ports))


def _of(version: int) -> Rules:
    """Return the packets of a version of IP."""
    return Rules.of(Conditions(source=EVERY[version]))


def _dscps(word: str) -> list[int | None]:
    """Return the code points of words such as ``ef``, ``8-10,12``; None for what is none."""
    found: list[int | None] = []
    for part in word.split(","):
        low, dash, high = part.partition("-")
        first, last = whole(low, 0, 63), whole(high, 0, 63)
        if dash and first is not None and last is not None:
            found += range(first, last + 1)
        else:
            found.append(dscp(part))
    return found


def _reason(statement: Statement) -> str:
    """Return why a `match` is not modelled."""
    words = [word for word in statement.words[1:] if word.lower() != "not"]
    words[:1] = [word.lower() for word in words[:1]]
    if words[:1] == ["protocol"] and len(words) > 1:
        if words[1] in ("arp", "cdp", "clns", "ipx", "appletalk", "decnet"):
            return f"scenarios have no packets of {words[1]}"
        return f"NBAR's recognition of {' '.join(words[1:])} is not modelled"
    known = {
        "cos": "the inner of two VLAN tags is not looked at",
        "input-interface": "a policy does not know where a packet arrived",
        "qos-group": "there are no QoS groups",
        "mpls": "of MPLS labels, perhop reads the traffic class only",
        "discard-class": "there are no discard classes",
        "vlan": "there are no VLANs",
        "packet": "the length of packets is not compared",
        "flow": "there are no flow records",
    }
    if words[:1] and words[0] in known:
        return known[words[0]]
    return f"`match {' '.join(words[:2])}` is not modelled"
