"""Access lists, numbered and named, for IPv4 and IPv6, as sets of packets."""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network
from typing import TYPE_CHECKING, Final

from perhop.routers.reading.ios.entries import Entry
from perhop.routers.reading.ios.numbers import whole
from perhop.routers.reading.matching import Rules, TooManyRulesError
from perhop.routers.reading.translation import compared

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perhop.routers.reading.conditions import Networks
    from perhop.routers.reading.configuration import Direction
    from perhop.routers.reading.ios.account import Account
    from perhop.routers.reading.ios.groups import Groups
    from perhop.routers.reading.ios.tree import Statement
    from perhop.routers.reading.matching import Rule

EVERY: Final[dict[int, Networks]] = {
    4: (IPv4Network("0.0.0.0/0"),),
    6: (IPv6Network("::/0"),),
}
"""All addresses of each version of IP."""

MAX_ADDRESSES: Final = 2**18
"""The most prefixes of all access lists, those of object groups at each reference."""


class AccessLists:
    """The access lists of a configuration.

    The account has the lines of a list as soon as something refers to it.
    """

    def __init__(self, statements: Sequence[Statement], groups: Groups, account: Account) -> None:
        """Find the lists among the statements of the top level."""
        self._account = account
        self._groups = groups
        self._entries: dict[str, list[Statement]] = {}
        self._headers: dict[str, list[Statement]] = {}
        self._removed: dict[str, list[tuple[list[Statement], Statement]]] = {}
        self._standard: set[str] = set()
        self._ipv6: set[str] = set()
        self._read: dict[str, Rules | None] = {}
        self._work = 0
        for statement in statements:
            if statement.starts("access-list") and len(statement.words) > 2:
                self._numbered(statement)
            elif statement.kind == "access-list":
                self._named(statement)
            elif statement.starts("no"):
                self._taken_back(statement)

    def _numbered(self, statement: Statement) -> None:
        name = statement.words[1]
        self._entries.setdefault(name, []).append(statement)
        if _is_standard(name):
            self._standard.add(name)

    def _taken_back(self, statement: Statement) -> None:
        """Remove the list that ``no access-list N`` or ``no ip access-list … NAME`` names."""
        if statement.starts("no", "access-list"):
            index, entry = 2, statement.words[3:]
        elif statement.word(1) in ("ip", "ipv6") and statement.word(2) == "access-list":
            index, entry = 4 if statement.word(3) in _TYPES else 3, []
        else:
            return
        name = statement.words[index] if index < len(statement.words) else ""
        if entry:
            self._removed.setdefault(name, []).append(([], statement))
            return
        before = self._headers.pop(name, []) + self._entries.pop(name, [])
        if before:
            self._removed.setdefault(name, []).append((before, statement))
        self._standard.discard(name)
        self._ipv6.discard(name)

    def _named(self, statement: Statement) -> None:
        index = 3 if statement.word(2) in _TYPES else 2
        if index >= len(statement.words):
            return
        name = statement.words[index]
        if statement.starts("ipv6"):
            self._ipv6.add(name)
        elif statement.word(2) == "standard" or (index == 2 and _is_standard(name)):
            self._standard.add(name)
        self._headers.setdefault(name, []).append(statement)
        self._entries.setdefault(name, []).extend(statement.children)

    def rules(self, name: str) -> Rules | None:
        """Return the packets that a list permits; None if there is no such list.

        Raises:
            TooManyRulesError: It has too many entries.
        """
        for before, statement in self._removed.pop(name, ()):
            if before:
                self._account.removed(before, statement)
            else:
                self._account.not_modelled(statement, "IOS may remove the whole list")
        if name not in self._entries:
            return None
        if name not in self._read:
            self._read[name] = None
            self._read[name] = self._list(name)
        found = self._read[name]
        if found is None:
            raise TooManyRulesError(f"access list {name} has too many entries")
        return found

    def compare(self, name: str, direction: Direction) -> bool:
        """Return whether a list compares addresses that NAT changes in a direction."""
        found = self._read.get(name)
        return found is not None and any(compared(each, direction) for _, each in found.rules)

    def _list(self, name: str) -> Rules | None:
        account = self._account
        for header in self._headers.get(name, ()):
            account.modelled(header)
        rules: list[Rule] = []
        entries = self._entries[name]
        kept, taken = _ordered(entries)
        for before, statement in taken:
            account.removed([before], statement)
        for statement in kept:
            if self._work > MAX_ADDRESSES:
                account.not_modelled(statement, f"more than {MAX_ADDRESSES:,} prefixes in all")
                continue
            words = statement.words[2:] if statement.starts("access-list") else statement.words
            account.modelled(statement)
            entry = Entry(
                statement,
                words,
                account,
                self._groups,
                standard=name in self._standard,
                every=EVERY[6 if name in self._ipv6 else 4],
            )
            found = entry.rules()
            self._work += sum(
                len(each.source or ()) + len(each.destination or ()) for _, each in found
            )
            rules += found if self._work <= MAX_ADDRESSES else []
            account.ignored(statement.children, "unknown statement")
        if self._work > MAX_ADDRESSES:
            return None
        try:
            return Rules(tuple(rules)).simplified()
        except TooManyRulesError:
            return None


def _ordered(
    entries: Sequence[Statement],
) -> tuple[list[Statement], list[tuple[Statement, Statement]]]:
    """Return entries by their sequence numbers, and those that later statements take back.

    An entry without a number follows the last one, in steps of ten.
    """
    keyed: list[tuple[int, Statement]] = []
    by_number: dict[int, Statement] = {}
    taken: list[tuple[Statement, Statement]] = []
    last = 0
    for entry in entries:
        if entry.starts("no") and len(entry.words) == 2 and entry.word(1).isdigit():
            gone = by_number.pop(whole(entry.word(1), 0, 2**32) or 0, None)
            if gone is not None:
                taken.append((gone, entry))
                continue
        number = _number(entry)
        if number is None:
            plain = entry.word(0) in ("permit", "deny", "access-list")
            number = last + 10 if plain else last
        last = max(last, number)
        keyed.append((number, entry))
        by_number[number] = entry
    without = {id(entry) for entry, _ in taken}
    ordered = sorted(keyed, key=lambda pair: pair[0])
    return [entry for _, entry in ordered if id(entry) not in without], taken


_TYPES: Final = frozenset({"standard", "extended", "role-based", "fqdn"})


def _number(entry: Statement) -> int | None:
    """Return the sequence number of an entry, which stands before or after the rest of it."""
    last = len(entry.words) - 1
    at = 1 if entry.starts("sequence") else last if entry.word(last - 1) == "sequence" else 0
    return whole(entry.word(at), 0, 2**32)


_STANDARD: Final = (range(1, 100), range(1300, 2000))


def _is_standard(name: str) -> bool:
    if not (name.isascii() and name.isdigit() and len(name) < 6):
        return False
    return any(int(name) in numbers for numbers in _STANDARD)
