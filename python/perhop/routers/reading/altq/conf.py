"""altq.conf: the configuration of ALTQ before pf, as of KAME and NetBSD."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from perhop.routers.reading.altq import classes, conditioners, filters
from perhop.routers.reading.altq.interface import OTHERS, Interface
from perhop.routers.reading.altq.ledger import Ledger, Statement
from perhop.routers.reading.altq.nodes import Device, Node
from perhop.routers.reading.altq.policy import attachment
from perhop.routers.reading.altq.values import count, rate, size
from perhop.routers.reading.configuration import Configuration, Place
from perhop.units import WHOLE, format_rate, format_share, format_size, quote

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from perhop.routers.reading.configuration import Attachment, Source

MAN: Final = "altq.conf(5)"
_SOURCE: Final = "libaltq of KAME"

DISCIPLINES: Final = {
    "cbq": "altq-cbq",
    "cbq-wrr": "altq-cbq",
    "cbq-prr": "altq-cbq",
    "priq": "priority",
    "hfsc": "wfq",
    "fifoq": "wfq",
    "red": "wfq",
    "rio": "wfq",
}
"""The disciplines that perhop has, and the scheduler of each."""

_RED: Final = {
    "thmin": "min",
    "thmax": "max",
    "invpmax": "probability",
    "weight": "weight",
    "packetsize": "packet",
}
"""Settings of RED and their keys in scenarios."""

_RED_DEFAULTS: Final = {"min": "5 packets", "max": "15 packets"}
"""The thresholds of RED at an interface: `TH_MIN` and `TH_MAX` of altq_red.c."""

_RIO: Final = re.compile(r"(lo|med|hi)_(thmin|thmax|invpmax)|packetsize|weight")
_LIMITS: Final = {"fifoq": 50, "red": 60, "rio": 60}
"""The default queue limits of disciplines without classes, in packets."""


class Reader:
    """Reads the commands of altq.conf one after the other."""

    def __init__(self, rates: Mapping[str, int]) -> None:
        """Begin without interfaces."""
        self.ledger = Ledger("altqd")
        self.rates = rates
        self.interfaces: dict[str, Interface] = {}
        self.current = ""

    def command(self, statement: Statement) -> None:
        """Read a command."""
        word, *words = statement.words
        self.ledger.modelled(statement)
        if self.ledger.refusal is not None:
            return  # altqd reads no further
        match word:
            case "interface":
                self._interface(statement, words)
            case "class" if words:
                interface = self._known(words, 1)
                if interface is None:
                    self.ledger.refused(statement, "missing interface name")
                else:
                    rest = words[2:] if words[1:2] == [interface.device.interface] else words[1:]
                    classes.read(self.ledger, interface, statement, words[0], rest)
            case "filter" | "filter6":
                interface = self._known(words, 0)
                if interface is None:
                    self.ledger.refused(statement, "missing interface name")
                else:
                    rest = words[1:] if words[:1] == [interface.device.interface] else words
                    filters.read(self.ledger, interface, statement, rest)
            case "conditioner":
                interface = self._known(words, 0)
                if interface is None:
                    self.ledger.refused(statement, "missing interface name")
                else:
                    rest = words[1:] if words[:1] == [interface.device.interface] else words
                    conditioners.read(self.ledger, interface, statement, rest)
            case "red" | "rio":
                self.ledger.ignored(
                    statement, f"perhop sets the thresholds of {word} from the queue limit"
                )
            case _:
                self.ledger.refused(statement, f"unknown command: {word}")

    def _known(self, words: Sequence[str], index: int) -> Interface | None:
        """Return the interface that a command names at `index`, or else the last one named."""
        if len(words) > index and words[index] in self.interfaces:
            self.current = words[index]
        return self.interfaces.get(self.current)

    def _interface(self, statement: Statement, words: Sequence[str]) -> None:
        if not words:
            self.ledger.refused(statement, "missing interface name")
            return
        name, todo = words[0], iter(words[1:])
        if name in self.interfaces:
            self.ledger.refused(statement, f"qop_add_if: {name} already exists!")
            return
        if len(self.interfaces) >= 1024:
            self.ledger.ignored(statement, "the file has more than 1,024 interfaces")
            return
        self.current = name
        interface = Interface(Device(name, statement, "wfq"))
        self.interfaces[name] = interface
        device, limit = interface.device, 0
        for word in todo:
            if word == "bandwidth":
                device.rate = rate(next(todo, "")) or None
                if device.rate is None:
                    self.ledger.approximated(statement, "the bandwidth is no rate above zero")
            elif word == "tbrsize":
                device.burst = size(next(todo, "")) or None
                if device.burst is None:
                    self.ledger.approximated(statement, "the size of the token bucket is no size")
            elif word in DISCIPLINES:
                interface.discipline = word
            elif word in OTHERS:
                interface.discipline = word
                self.ledger.ignored(statement, f"perhop does not have {OTHERS[word]}")
            elif word == "efficient":
                device.cbq["efficient"] = True
            elif word == "no-tbr":
                device.cbq["token_bucket"] = False
            elif word == "no-control":
                interface.no_control = True
            elif word == "qlimit":
                limit = count(next(todo, "")) or 0
            elif word in _RED and interface.discipline == "red":
                self._threshold(interface, word, next(todo, ""))
            elif word == "ecn" and interface.discipline in ("red", "rio"):
                interface.thresholds["ecn"] = True
            elif _RIO.fullmatch(word) and interface.discipline == "rio":
                next(todo, None)
                self.ledger.approximated(
                    statement, "perhop sets the thresholds of RIO from the queue limit"
                )
            elif interface.discipline in OTHERS:
                next(todo, None)
            else:
                self.ledger.refused(statement, f"Unknown keyword '{word}'")
        if name in self.rates:
            if device.rate is not None:
                note = "another rate is given in place of its bandwidth"
                self.ledger.approximated(statement, note)
            device.rate = self.rates[name]
        self._complete(interface, limit)

    def _threshold(self, interface: Interface, word: str, text: str) -> None:
        """Read a setting of RED for the queue of an interface."""
        number = count(text)
        if not number or number > 10**6:
            note = f"{word}: {quote(text)} is no number above zero"
            self.ledger.approximated(interface.device.statement, note)
        elif word in ("thmin", "thmax"):
            interface.thresholds[_RED[word]] = f"{number} packets"
        elif word == "packetsize":
            interface.thresholds["packet"] = f"{min(max(number, 64), 65535)} B"
        else:
            interface.thresholds[_RED[word]] = format_share(max(WHOLE // number, 1))

    def _complete(self, interface: Interface, limit: int) -> None:
        """Set what follows from the options of an interface."""
        device, statement, word = interface.device, interface.device.statement, interface.discipline
        if not word or word in OTHERS:
            return
        if device.rate is None:
            device.rate = 100_000_000
            self.ledger.default(statement.place, "bandwidth", "100 Mbps", f"{_SOURCE}, {word}")
        if device.burst is None and device.cbq.get("token_bucket", True):
            depth = next(n for most, n in _DEPTHS if device.rate <= most) * 1500
            self.ledger.default(statement.place, "tbrsize", format_size(depth), _SOURCE)
        if DISCIPLINES[word] == "altq-cbq":
            device.scheduler = "altq-cbq"
            device.cbq = {"rate": format_rate(device.rate), **device.cbq}
            if word == "cbq-prr":
                self.ledger.approximated(statement, "perhop has the weighted round robin of CBQ")
            if device.burst is not None:
                self.ledger.approximated(
                    statement, "perhop sets the size of the token bucket from the rate"
                )
            return
        for key in device.cbq:
            self.ledger.approximated(statement, f"{key} is a setting of CBQ")
        device.cbq = {}
        if DISCIPLINES[word] == "priority":
            device.scheduler = "priority"
        if word in _LIMITS:
            if not limit:
                limit = _LIMITS[word]
                self.ledger.default(statement.place, "qlimit", f"{limit} packets", MAN)
            if word == "rio":
                self.ledger.approximated(statement, "RIO is RED for all drop precedences")
            node = Node(word, statement, share=10**9, limit=limit, red=word in ("red", "rio"))
            node.thresholds = interface.thresholds
            if node.red:
                node.thresholds = {**_RED_DEFAULTS, **interface.thresholds}
                low, high = (count(str(node.thresholds[k]).split()[0]) or 0 for k in ("min", "max"))
                if high <= low:
                    node.thresholds["max"] = f"{low + 1} packets"
            device.top, device.default = [node], node

    def attachments(self) -> Iterator[Attachment]:
        """Return the policies of the interfaces."""
        for interface in self.interfaces.values():
            device = interface.device
            if interface.discipline in DISCIPLINES:
                if self.ledger.refusal is None:
                    self._enable(interface)
                self._bursts(interface)
                device.entries = filters.entries(interface.filters)
                found = attachment(device, self.ledger)
                if found is not None:
                    yield found
            yield from conditioners.attachments(self.ledger, interface)

    def _enable(self, interface: Interface) -> None:
        """Refuse an interface that altqd cannot enable (`qop_cbq_enable_hook` and others)."""
        device, word = interface.device, interface.discipline.partition("-")[0]
        reason = ""
        if word == "cbq" and not device.top:
            reason = f"cbq: no root class on interface {device.interface}!"
        elif device.default is None:
            reason = f"{word}: no default class on interface {device.interface}!"
        elif word == "hfsc" and device.default.children:
            reason = f"hfsc: default class on {device.interface} must be a leaf!"
        elif word == "hfsc":
            inner = [each.node for each in interface.filters if each.node and each.node.children]
            if inner:
                reason = f'hfsc: internal class "{inner[0].name}" should not have a filter!'
        if reason:
            self.ledger.refused(device.statement, reason)

    def _bursts(self, interface: Interface) -> None:
        """Set what scenarios say for all classes together."""
        classes = sum(1 for node in interface.nodes.values() if node.parent is not None)
        for setting, values in interface.bursts.items():
            chosen = max(values)
            text = f"{chosen} B" if setting == "packet" else chosen
            interface.device.cbq[setting] = text
            setters = [each for statements_ in values.values() for each in statements_]
            if len(values) > 1 or len(setters) < classes:
                for statement in setters:
                    self.ledger.approximated(
                        statement, f"all classes of the interface have {setting} {text}"
                    )


_DEPTHS: Final = ((10**6, 1), (10**7, 4), (2 * 10**8, 8), (2**64, 24))
"""The depths of token buckets in packets, up to a rate in bit/s."""


def statements(source: Source) -> Iterator[Statement]:
    """Return the commands of a file: lines, joined where one ends in a backslash."""
    lines: list[tuple[Place, str]] = []
    text = ""
    for number, line in enumerate(source.text.split("\n"), 1):
        if line.strip() or lines:
            lines.append((Place(source.file, number), line.strip()))
        text += line.removesuffix("\\")
        if line.endswith("\\") and len(lines) < 64:
            text += " "
            continue
        words = text.partition("#")[0].split()
        if words:
            yield Statement(tuple(each for each in lines if each[1]), tuple(words))
        lines, text = [], ""
    words = text.partition("#")[0].split()
    if words and lines:
        yield Statement(tuple(each for each in lines if each[1]), tuple(words))


def read(texts: Sequence[Source], rates: Mapping[str, int]) -> Configuration:
    """Return what files of altq.conf say."""
    reader = Reader(rates)
    for source in texts:
        for statement in statements(source):
            reader.command(statement)
    found = tuple(reader.attachments())
    refused = reader.ledger.refusals(reader.interfaces)
    return Configuration(
        "altq",
        reader.ledger.lines([source.file for source in texts]),
        reader.ledger.defaults(),
        () if refused else found,
        refusals=refused,
    )
