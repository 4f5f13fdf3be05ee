"""Queues of pf.conf: `altq on` with its queues, and the queues of OpenBSD since 5.5."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from perhop.routers.reading.altq.syntax import bare, items
from perhop.routers.reading.altq.values import count, milliseconds, rate, share, size
from perhop.scenario.model.hfsc import CURVES
from perhop.units import WHOLE, quote

if TYPE_CHECKING:
    from perhop.routers.reading.altq.ledger import Ledger, Statement

SCHEDULERS: Final = {
    "cbq": "altq-cbq",
    "priq": "priority",
    "hfsc": "wfq",
    "codel": "wfq",
    "codelq": "wfq",
}
"""The disciplines of `altq on` that perhop has, and their schedulers."""

_FLAGS: Final = frozenset(("borrow", "default", "red", "ecn", "rio", "codel"))
_OPTIONS: Final = {
    "cbq": ("default", "borrow", "red", "ecn", "rio", "codel"),
    "priq": ("default", "red", "ecn", "rio", "codel"),
    "hfsc": ("default", "red", "ecn", "rio", "codel", *CURVES),
}
"""The options of disciplines; those of others are not checked."""

_CURVES: Final = {"bandwidth": "linkshare", "min": "realtime", "max": "upperlimit"}
"""The curves of OpenBSD's words for rates, which bursts complete."""

_MOST: Final = {
    "priority": ("priority", 255),
    "qlimit": ("qlimit", 65_535),
    "flows": ("number of flows", 32_767),
    "quantum": ("quantum", 65_535),
    "tbrsize": ("tbrsize", 65_535),
}
"""Settings with a number: their names in reasons, and their greatest values."""

_BANDWIDTH: Final = re.compile(r"([0-9]+(?:\.[0-9]*)?)(.*)", re.DOTALL)
_UNITS: Final = re.compile(r"b|[KMG](?:B|b|Bit|bit)?")

Bandwidth = tuple[int | None, int | None]
"""A share in parts per billion, or a rate in bit/s."""

_NONE: Final[Bandwidth] = (None, None)

ServiceCurve = tuple[Bandwidth, int, Bandwidth]
"""The first slope, the time for which it lasts in picoseconds, and the second slope."""


@dataclass(slots=True)
class Definition:
    """A statement `altq on` or `queue`, as written.

    Attributes:
        statement: The statement.
        name: The name of the queue; "" for `altq on`.
        interfaces: The interfaces that it names.
        discipline: The word for its discipline; "" if it names none.
        children: The names of the queues below it.
        parent: The name of the queue above it (OpenBSD).
        bandwidth: Its bandwidth.
        curves: Its service curves, by the keys of a scenario. Without one for link sharing, its
            bandwidth is this curve.
        flags: The options of its discipline without a value, and `default`.
        numbers: Settings with a number: `priority`, `qlimit`, `flows`, `quantum`, …
    """

    statement: Statement
    name: str = ""
    interfaces: list[str] = field(default_factory=list)
    discipline: str = ""
    children: list[str] = field(default_factory=list)
    parent: str = ""
    bandwidth: Bandwidth = (None, None)
    curves: dict[str, ServiceCurve] = field(default_factory=dict)
    flags: set[str] = field(default_factory=set)
    numbers: dict[str, int] = field(default_factory=dict)

    @property
    def codel(self) -> dict[str, Any]:
        """Return the settings of CoDel."""
        found: dict[str, Any] = {"ecn": "ecn" in self.flags}
        for word in ("target", "interval"):
            if self.numbers.get(word):
                found[word] = f"{self.numbers[word]} ms"
        return {"codel": found}


class _Parser:
    """Reads a definition word by word."""

    def __init__(
        self, ledger: Ledger, statement: Statement, words: list[str], *, altq: bool
    ) -> None:
        self.ledger = ledger
        self.altq = altq
        self.given: set[str] = set()
        self.found = Definition(statement)
        self.words = words
        self.at = 0
        self.last: tuple[str, Bandwidth] | None = None

    def next(self) -> str:
        """Take a word."""
        self.at += 1
        return self.words[self.at - 1] if self.at <= len(self.words) else ""

    def approximated(self, note: str) -> None:
        """Say how the statement is approximated."""
        self.ledger.approximated(self.found.statement, note)

    def refused(self, reason: str) -> None:
        """Say that pfctl refuses the statement."""
        self.ledger.refused(self.found.statement, reason)

    def once(self, word: str) -> None:
        """Refuse an option that is given twice."""
        if word in self.given:
            self.refused(f"{word} cannot be respecified")
        self.given.add(word)

    def number(self, word: str) -> None:
        """Take a number."""
        text = bare(self.next())
        name, most = _MOST.get(word, (word, 2**31))
        self.once(name)
        value = (size if word in ("tbrsize", "quantum") else count)(text)
        if value is None or (not value and word != "priority"):
            self.approximated(f"{word}: {quote(text)} is no number above zero")
        elif value > most:
            out = "too big" if word == "tbrsize" else "out of range"
            self.refused(f"{name} {out}: max {most}")
        else:
            self.found.numbers[word] = min(value, 10**6)

    def bandwidth(self, word: str) -> Bandwidth:
        """Take a share or a rate above zero; that of `min` may be zero."""
        text = bare(self.next())
        found = self.spelt(text)
        if found is None or (0 in found and word != "min"):
            self.approximated(f"{word}: {quote(text)} is no bandwidth above zero")
            return _NONE
        return found

    def spelt(self, text: str) -> Bandwidth | None:
        """Return a share or a rate, perhaps zero; None if it is none, or not one of pf."""
        reason = _refused(text, altq=self.altq)
        if reason is not None and text[:1].isdigit():
            self.refused(reason)
            return None
        return _bandwidth(text, whole_percent=self.altq)

    def curve(self, word: str) -> None:
        """Take a service curve: a bandwidth, or two with a time in parentheses."""
        if word in self.found.curves:
            self.refused(f"{word} already specified")
        if self.words[self.at : self.at + 1] != ["("]:
            self.set_curve(word, _NONE, 0, self.bandwidth(word))
            return
        self.at += 1
        inner: list[str] = []
        while self.at < len(self.words) and self.words[self.at] != ")":
            inner.append(bare(self.next()))
        self.at += 1
        texts = [each for each in inner if each != ","]
        first, last = (self.spelt(texts[index]) if texts else None for index in (0, -1))
        time = milliseconds(texts[1]) if len(texts) == 3 else None
        if first is None or last is None or (time is None and len(texts) != 1):
            self.approximated(f"{word}: the service curve is not understood")
        else:
            self.set_curve(word, first, time or 0, last)

    def set_curve(self, word: str, first: Bandwidth, time: int, last: Bandwidth) -> None:
        """Set a service curve; one of zero is none."""
        first = _NONE if 0 in first else first
        if 0 in last or last == _NONE:
            if self.altq and first != _NONE:
                self.refused(f"m2 is zero for {self.found.name}")
            elif time and first != _NONE:
                self.approximated(f"{word}: perhop has no curve whose second slope is zero")
            return
        self.found.curves[_CURVES.get(word, word)] = first, time, last

    def rate(self, word: str) -> None:
        """Take a rate of OpenBSD, to which a burst may belong."""
        self.once(word)
        found = self.bandwidth(word)
        self.last = word, found
        if word == "bandwidth":
            self.found.bandwidth = found
        else:
            self.set_curve(word, _NONE, 0, found)

    def burst(self) -> None:
        """Take the first slope of the curve before it, and its time."""
        text, time = bare(self.next()), None
        first = self.spelt(text)
        if self.words[self.at : self.at + 1] == ["for"]:
            self.at += 1
            spelt = bare(self.next())
            time = milliseconds(spelt.removesuffix("ms"))
            if not spelt.endswith("ms"):
                self.refused("time in scspec must be in ms")
        if first is None or time is None or self.last is None:
            self.approximated(f"burst: {quote(text)} is no bandwidth for a time")
        else:
            word, last = self.last
            self.set_curve(word, first, time, last)

    def options(self, discipline: str) -> None:
        """Take the options of a discipline in parentheses."""
        if self.words[self.at : self.at + 1] != ["("]:
            return
        self.at += 1
        while self.at < len(self.words):
            word = bare(self.next())
            if word == ")":
                return
            if word not in (",", *_OPTIONS.get(discipline, (word,))):
                self.refused(f'unknown {discipline} flag "{word}"')
            if word in CURVES:
                self.curve(word)
            elif word in _FLAGS:
                self.found.flags.add(word)
            elif word in ("target", "interval"):
                self.number(word)
            elif word != ",":
                self.approximated(f"{quote(word)} is not modelled")

    def option(self, word: str) -> None:
        """Take an option of the statement."""
        found = self.found
        if word in SCHEDULERS or word in ("fairq", "wfq", "blue", "rio", "red"):
            self.once("scheduler")
            found.discipline = word
            self.options(word)
        elif word in _CURVES:
            self.rate(word)
        elif word in ("priority", "qlimit", "tbrsize", "flows", "quantum"):
            self.number(word)
        elif word == "burst":
            self.burst()
        elif word == "default":
            self.once(word)
            found.flags.add(word)
        elif word == "parent":
            self.once(word)
            found.parent = bare(self.next())
        elif word == "queue" and not found.name:
            found.children, self.at = items(self.words, self.at)
        elif word == "{":
            found.children, self.at = items(self.words, self.at - 1)
        elif word not in (",", "}", ")"):
            self.approximated(f"{quote(word)} is not modelled")


def _refused(text: str, *, altq: bool) -> str | None:
    """Return why pfctl refuses a bandwidth; None if it takes it."""
    match = _BANDWIDTH.fullmatch(text)
    number, unit = ("0", text) if match is None else match.groups()
    if unit == "%":
        if float(number) > 100:
            return "bandwidth spec out of range"
        return None if altq else "no bandwidth in % yet"
    if _UNITS.fullmatch(unit) or (not unit and number.isdigit()):
        return None
    return f"unknown unit {unit}" if altq else f'unknown unit "{unit}"'


def _bandwidth(text: str, *, whole_percent: bool) -> Bandwidth | None:
    """Return a share or a rate, perhaps zero; None if it is none.

    Args:
        text: As written.
        whole_percent: Leave out fractions of a percent, for which pfctl has an integer.
    """
    if not text.endswith("%"):
        value = rate(text)
        return None if value is None else (None, value)
    part = share(text)
    if part is not None and whole_percent:
        part -= part % (WHOLE // 100)
    return None if part is None else (part, None)


def parse(ledger: Ledger, statement: Statement, words: list[str], *, altq: bool) -> Definition:
    """Read a statement `altq on …` or `queue …`, with macros replaced.

    Args:
        ledger: The account of lines that this changes.
        statement: The statement.
        words: Its words.
        altq: True for ALTQ, False for the queues of OpenBSD since 5.5.
    """
    parser = _Parser(ledger, statement, words, altq=altq)
    found = parser.found
    if parser.next() == "queue":
        found.name = bare(parser.next())
    while parser.at < len(words):
        word = bare(parser.next())
        if word == "on" and not found.interfaces:
            negated = words[parser.at : parser.at + 1] == ["!"]
            found.interfaces, parser.at = items(words, parser.at + negated)
            found.interfaces = ["!" * negated + name for name in found.interfaces]
        else:
            parser.option(word)
    return found
