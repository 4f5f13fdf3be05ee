"""Interfaces: their rates, the policies at them, and the older statements of QoS."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from perhop.routers.reading.configuration import Attachment, Direction, Fault, Refusal
from perhop.routers.reading.ios.defaults import ASSUMED_RATE, COMMANDS, kind_rate, same_interface
from perhop.routers.reading.ios.ignored import is_qos, reason
from perhop.routers.reading.ios.legacy import Legacy
from perhop.routers.reading.ios.numbers import number
from perhop.routers.reading.ios.police import MAX_RATE
from perhop.routers.reading.ios.tree import INTERFACE
from perhop.units import format_rate, format_size

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from perhop.routers.reading.configuration import Place
    from perhop.routers.reading.ios.access_lists import AccessLists
    from perhop.routers.reading.ios.account import Account
    from perhop.routers.reading.ios.building import Builder, Built
    from perhop.routers.reading.ios.defaults import Platform
    from perhop.routers.reading.ios.policies import PolicyMaps
    from perhop.routers.reading.ios.tree import Statement

_DIRECTIONS: Final[dict[str, Direction]] = {
    "input": "in",
    "output": "out",
    "in": "in",
    "out": "out",
}


_LOGICAL: Final = re.compile(r"tu|lo|mu|di|port|vl|bv|bd|virtual", re.I)
"""The beginnings of the names of interfaces that are no ports."""

_PORTS: Final = frozenset({"Ethernet", "T1"})


@dataclass(slots=True)
class _Point:
    """What can have policies: an interface, or a circuit of it."""

    name: str
    header: Statement
    statements: list[Statement] = field(default_factory=list)
    rate: int | None = None
    rate_place: Place | None = None
    inherited: str = ""
    """The map class that the header names."""
    given: bool = False
    """True if its rate is given in place of what the configuration says."""
    circuit: bool = False
    """True for a circuit, and for what a map class gives one."""

    @property
    def never_congested(self) -> str:
        """A subinterface of an Ethernet or serial port, a tunnel, or "" for others."""
        if self.circuit:
            return ""
        if re.match(r"tu(nnel)? *\d", self.name, re.I):
            return "tunnel"
        kind = kind_rate(self.name)
        ports = "." in self.name and kind is not None and kind[1] in _PORTS
        return "subinterface" if ports else ""


class Interfaces:
    """The interfaces of a configuration and what is attached to them."""

    def __init__(
        self,
        statements: Sequence[Statement],
        policies: PolicyMaps,
        builder: Builder,
        lists: AccessLists,
        platform: Platform,
        account: Account,
        rates: Mapping[str, int],
    ) -> None:
        """Find the interfaces and frame-relay map classes among the statements of the top level."""
        self._policies = policies
        self._builder = builder
        self._lists = lists
        self._platform = platform
        self._account = account
        self._given = rates
        self._interfaces: dict[str, list[Statement]] = {}
        self._names: dict[str, str] = {}
        self._map_classes: dict[str, Statement] = {}
        self._translations = {
            side: next((s.place for s in statements if s.starts("ip", "nat", *rule)), None)
            # The virtual interface of NAT has no sides (`ip nat enable`).
            for side, rule in (("outside", ("inside", "source")), ("enable", ("source",)))
        }
        self.balance: str | None = None
        self.refusals: list[Refusal] = []
        for statement in statements:
            if statement.kind == "interface" and len(statement.words) > 1:
                name = " ".join(statement.words[1:])
                for kind in ("point-to-point", "multipoint"):
                    name = name.removesuffix(f" {kind}")
                self._interfaces.setdefault(same_interface(name), []).append(statement)
                self._names.setdefault(same_interface(name), name)
            elif statement.word(0) in ("default", "no") and statement.word(1) in INTERFACE:
                self._reset(statement)
            elif statement.kind == "map-class":
                known = self._map_classes.setdefault(statement.words[-1], statement)
                if known is not statement:
                    known.add(*statement.children)

    def _reset(self, statement: Statement) -> None:
        """Take back the statements of an interface that ``default interface`` names.

        ``no interface`` removes those that are no ports.
        """
        name = " ".join(statement.words[2:])
        if statement.starts("no") and not ("." in name or _LOGICAL.match(name)):
            return
        before = [
            child
            for header in self._interfaces.pop(same_interface(name), ())
            for child in header.children
            if is_qos((child.word(0), child.word(1)))
        ]
        self._names.pop(same_interface(name), None)
        if before:
            self._account.removed(before, statement)

    def attachments(self) -> list[Attachment]:
        """Return the policies at interfaces."""
        found: list[Attachment] = []
        for name in self._names.values():
            for point in self._points(name):
                found += self._at(point)
        for statement in self._map_classes.values():
            inside = [
                child
                for child in statement.children
                if child.starts("frame-relay") or is_qos((child.word(0),))
            ]
            if inside and not self._account.has(statement):
                self._account.not_modelled(statement, "nothing uses it")
                self._account.ignored(inside, "nothing uses it")
        return found

    def _points(self, name: str) -> Iterator[_Point]:
        headers = self._interfaces[same_interface(name)]
        statements = [child for header in headers for child in header.children]
        rate, place = self._rate(name)
        whole = _Point(name, headers[0], rate=rate, rate_place=place)
        circuits: list[_Point] = []
        for statement in statements:
            if statement.kind == "pvc":
                circuits.append(self._pvc(name, statement, rate))
            elif statement.starts("service", "instance") or statement.starts(
                "frame-relay", "interface-dlci"
            ):
                text = " ".join(statement.words[:3])
                inner = _Point(
                    f"{name} {text}", statement, rate=rate, rate_place=place, circuit=True
                )
                inner.statements = list(statement.children)
                if statement.starts("frame-relay") and statement.words[-2].lower() == "class":
                    inner.inherited = statement.words[-1]
                circuits.append(inner)
                whole.statements.append(statement)
            else:
                whole.statements.append(statement)
        for point in (whole, *circuits):
            if point.name in self._given:
                point.rate, point.rate_place, point.given = self._given[point.name], None, True
            yield point

    def _pvc(self, name: str, statement: Statement, rate: int | None) -> _Point:
        text = " ".join(statement.words)
        point = _Point(f"{name} {text}", statement, list(statement.children), rate, circuit=True)
        point.rate_place = statement.place if rate is not None else None
        for child in statement.children:
            kind = child.word(0)
            if kind in ("vbr-nrt", "vbr-rt", "cbr", "ubr"):
                values = [number(word) for word in child.words[1:3]]
                index = 1 if kind.startswith("vbr") and len(values) > 1 else 0
                value = values[index] if index < len(values) else None
                if value:
                    point.rate, point.rate_place = min(value * 1000, MAX_RATE), child.place
                    note = "the sustained rate, without bursts at the peak rate"
                    if any(each.starts("service-policy") for each in statement.children):
                        self._account.approximated(child, note if index else "the rate of the link")
        return point

    # Rates

    def _rate(self, name: str) -> tuple[int | None, Place | None]:
        """Return the rate of an interface, or of its parent, in bit/s, and the line of it."""
        for each in (name, name.partition(".")[0]):
            for statement in self._statements(each):
                if statement.starts("bandwidth"):
                    value = _bandwidth(statement)
                    if value:
                        return value, statement.place
        for statement in self._statements(name.partition(".")[0]):
            value = number(statement.word(1)) if statement.starts("speed") else None
            if value:
                return min(value * 10**6, MAX_RATE), statement.place
        return None, None

    def _port(self, name: str) -> int:
        """Return the rate in bit/s at which an Ethernet port sends; 0 for other interfaces."""
        kind = kind_rate(name)
        if kind is None or kind[1] != "Ethernet":
            return 0
        speeds = (
            number(statement.word(1))
            for statement in self._statements(name.partition(".")[0])
            if statement.starts("speed")
        )
        return next((speed * 10**6 for speed in speeds if speed), kind[0])

    def _statements(self, name: str) -> Iterator[Statement]:
        for header in self._interfaces.get(same_interface(name), ()):
            yield from header.children

    def _effective_rate(self, point: _Point) -> int:
        """Return the rate of an interface in bit/s: stated, of its kind, or assumed."""
        if point.rate is not None:
            return point.rate
        kind = kind_rate(point.name)
        place = point.header.place
        if kind is None:
            text = format_rate(ASSUMED_RATE)
            source = "assumption: no line tells the rate; times and shares are converted at it"
            self._account.default(place, "rate", text, source)
            return ASSUMED_RATE
        point.rate, point.rate_place = kind[0], place
        self._account.default(
            place, "rate", format_rate(kind[0]), f"the kind of interface: {kind[1]}"
        )
        return kind[0]

    # Attachments

    def _at(self, point: _Point) -> list[Attachment]:
        account = self._account
        wanted: dict[Direction, tuple[str, Statement]] = {}
        legacy = Legacy(self._lists, self._platform, account)
        told: list[Statement] = []
        mapped = self._map_classes.get(point.inherited)
        for statement in point.statements:
            words = tuple(word.lower() for word in statement.words)
            if words[:1] == ("service-policy",):
                self._wanted(statement, words, wanted)
            elif words[:1] == ("no",) and is_qos(words[1:]):
                account.modelled(statement)
                if words[1:2] == ("service-policy",):
                    self._removed(statement, wanted)
            elif words[:2] == ("ip", "load-sharing"):
                self._balance(statement, words)
            elif words[:2] == ("frame-relay", "traffic-shaping"):
                account.modelled(statement)
            elif words[:2] == ("frame-relay", "class") or words[:1] == ("class",):
                mapped = self._map_classes.get(statement.words[-1])
                account.modelled(statement)
                if mapped is None:
                    account.undefined(statement, f"map class {statement.words[-1]}")
            elif words[:1] in (("bandwidth",), ("speed",)):
                told.append(statement)
            elif legacy.takes(statement, words):
                continue
            elif (why := reason(words)) is not None:
                account.not_modelled(statement, why)
                account.ignored(statement.children, why)
        found: list[Attachment] = []
        if mapped is not None:
            found += self._mapped(point, mapped)
        if wanted or legacy.any:
            self._effective_rate(point)
        for direction in ("out", "in"):
            directed: Direction = "out" if direction == "out" else "in"
            if directed in wanted:
                name, statement = wanted[directed]
                built = self._built(name, statement, point, directed)
                if built is not None and (nat := self._translation(point)) is not None:
                    self._policies.translated(name, directed, nat)
                legacy.beside(directed)
            else:
                name, built = "", legacy.built(directed, point.header, self._effective(point))
            if built is not None:
                found.append(self._attachment(point, directed, name, built))
        if found:
            account.modelled(point.header)
            self._told(point, told, queues=any(map(_queues_unshaped, found)))
        return found

    def _translation(self, point: _Point) -> Place | None:
        """Return the line of the NAT of an interface's addresses; None if there is none."""
        sides: set[str] = set()
        for statement in point.statements:
            if statement.starts("ip", "nat"):
                sides.add(statement.word(2))
            elif statement.starts("no", "ip", "nat"):
                sides.discard(statement.word(3))
        found = (place for side, place in self._translations.items() if side in sides)
        return next((place for place in found if place is not None), None)

    def _effective(self, point: _Point) -> int:
        return point.rate if point.rate is not None else ASSUMED_RATE

    def _attachment(
        self, point: _Point, direction: Direction, name: str, built: Built
    ) -> Attachment:
        return Attachment(
            interface=point.name,
            direction=direction,
            name=name or "interface",
            policy=built.policy,
            places=built.places,
            rate=point.rate,
            rate_place=point.rate_place,
            shape=built.shape,
        )

    def _wanted(
        self,
        statement: Statement,
        words: tuple[str, ...],
        wanted: dict[Direction, tuple[str, Statement]],
    ) -> None:
        account = self._account
        spelt = statement.words
        if words[1:2] == ("type",):
            if words[2:3] not in (("qos",), ("queuing",), ("queueing",)):
                account.not_modelled(statement, f"policies of type {' '.join(words[2:3])}")
                return
            words, spelt = (words[0], *words[3:]), [spelt[0], *spelt[3:]]
        if len(words) != 3 or words[1] not in _DIRECTIONS:
            account.not_modelled(statement, "expected `input` or `output` and a policy map")
            return
        direction = _DIRECTIONS[words[1]]
        if spelt[2] not in self._policies:
            account.undefined(statement, f"policy map {spelt[2]}")
            return
        if direction in wanted:
            account.not_modelled(wanted[direction][1], f"replaced in line {statement.place.line}")
        account.modelled(statement)
        wanted[direction] = (spelt[2], statement)

    def _removed(
        self, statement: Statement, wanted: dict[Direction, tuple[str, Statement]]
    ) -> None:
        """Remove the policy that ``no service-policy DIRECTION NAME`` names."""
        direction = _DIRECTIONS.get(statement.word(2), "out")
        name, before = wanted.get(direction, ("", statement))
        if name and statement.words[3:] in ([], [name]):
            del wanted[direction]
            self._account.not_modelled(before, f"removed in line {statement.place.line}")

    def _built(
        self, name: str, statement: Statement, point: _Point, direction: Direction
    ) -> Built | None:
        refused = self._policies.refused(name)
        if refused is not None:
            line, reason = refused
            self.refusals.append(Refusal(point.name, line.place, reason))
            note = f"the interface has no policy, as IOS refuses line {line.place.line}"
            self._account.not_modelled(statement, note)
            return None
        rate = self._effective_rate(point)
        refused = self._policies.refused_at(
            name,
            direction,
            kind=point.never_congested,
            rate=rate,
            reserved=_reserved(point),
        )
        if refused is not None:
            line, reason = refused
            reason = f"{reason} (`{line.text}` in line {line.place.line})"
            self.refusals.append(Refusal(point.name, statement.place, reason))
            self._account.not_modelled(statement, f"IOS refuses it: {reason}", Fault.REFUSED)
            return None
        built = self._builder.build(name, rate, direction)
        if built is None:
            self._account.not_modelled(statement, "too many classes")
        return built

    def _told(self, point: _Point, told: Sequence[Statement], *, queues: bool) -> None:
        """Note the lines that tell the rate of an interface with a policy.

        Args:
            point: The interface.
            told: These lines.
            queues: True if the policy has queues behind no shaper.
        """
        own = [*told]
        main = point.name.partition(".")[0]
        own += [each for each in self._statements(main) if each.place == point.rate_place]
        for statement in own:
            if point.given:
                self._account.not_modelled(statement, "another rate is given in its place")
            elif statement.place == point.rate_place:
                kind = kind_rate(point.name)
                port = self._port(point.name)
                if statement.starts("bandwidth") and queues and port > (point.rate or 0):
                    self._account.approximated(
                        statement,
                        "taken as the rate of the interface, but it sends at "
                        f"{format_rate(port)}: without a shaper, no queue of the policy fills",
                        Fault.UNCONGESTED,
                    )
                elif statement.starts("bandwidth") and (kind is None or kind[0] != point.rate):
                    self._account.approximated(statement, "taken as the rate of the interface")
                else:
                    self._account.modelled(statement)
            elif statement.starts("bandwidth"):
                self._account.not_modelled(statement, "no bandwidth, or not the one that counts")
            else:
                note = "`bandwidth` tells the rate" if number(statement.word(1)) else "no rate"
                self._account.not_modelled(statement, note)

    def _balance(self, statement: Statement, words: tuple[str, ...]) -> None:
        kind = words[2] if len(words) > 2 else ""
        if kind not in ("per-packet", "per-destination"):
            self._account.not_modelled(statement)
        elif self.balance not in (None, kind):
            self._account.not_modelled(statement, f"another interface has {self.balance}")
        else:
            if kind == "per-packet":
                self._account.modelled(statement)
            else:
                self._account.approximated(
                    statement, "by the destination; IOS: by source and destination"
                )
            self.balance = kind

    def _mapped(self, point: _Point, mapped: Statement) -> list[Attachment]:
        """Return what a frame-relay map class attaches: a shaper and policies."""
        account = self._account
        account.modelled(mapped)
        legacy = Legacy(self._lists, self._platform, account)
        inner = replace(point, statements=[], inherited="", circuit=True)
        bits = burst = None
        for child in mapped.children:
            words = tuple(word.lower() for word in child.words)
            value = number(words[-1])
            if words[:2] == ("frame-relay", "cir") and value:
                account.modelled(child)
                bits = value
            elif words[:2] == ("frame-relay", "bc") and value:
                account.modelled(child)
                burst = value
            elif words[:2] == ("frame-relay", "fair-queue"):
                legacy.takes(child, words[1:2])
            elif words[:1] == ("service-policy",):
                inner.statements.append(child)
            elif words[:1] == ("no",):
                account.modelled(child)
            else:
                account.not_modelled(child, "not modelled in map classes")
        if bits is not None:
            inner.rate, inner.rate_place = bits, mapped.place
        found = self._at(inner)
        if bits is None:
            return found
        size = max((burst or self._platform.shape_bits(bits)) // 8, 1)
        if burst is None:
            account.default(mapped.place, "bc", f"{8 * size} bits", COMMANDS)
        shape = {"rate": format_rate(bits), "burst": format_size(size)}
        if any(each.direction == "out" for each in found):
            legacy.beside("out")
        else:
            found.append(self._attachment(inner, "out", "", legacy.plain(mapped, bits)))
        return [
            replace(each, shape=each.shape or shape) if each.direction == "out" else each
            for each in found
        ]


def _reserved(point: _Point) -> int:
    """Return the percentage of an interface that classes may be guaranteed; 0 for a circuit."""
    if point.circuit:
        return 0
    stated = (
        number(each.word(1)) for each in point.statements if each.starts("max-reserved-bandwidth")
    )
    return next((each for each in stated if each), 75)


def _queues_unshaped(attachment: Attachment) -> bool:
    """Return whether a policy divides the bandwidth of an interface without a shaper."""
    if attachment.direction != "out" or attachment.shape is not None:
        return False
    classes = attachment.policy["classes"].values()
    return any(key in each for each in classes for key in ("bandwidth", "priority"))


def _bandwidth(statement: Statement) -> int | None:
    """Return the rate that ``bandwidth [qos-reference] N`` states in bit/s."""
    word = statement.word(2) if statement.word(1) == "qos-reference" else statement.word(1)
    value = number(word)
    return min(value * 1000, MAX_RATE) if value else None
