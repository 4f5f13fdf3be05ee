"""`show policy-map interface` of Cisco IOS and IOS-XE."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Final

from perhop.routers.counters.reading import (
    LONGEST,
    MAX_DEPTH,
    MAX_UNREAD,
    Counts,
    Reading,
    begin,
    number,
    put,
    total,
)
from perhop.routers.reading import Place, scenario_name
from perhop.units import quote

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from perhop.routers.reading import Source

_N = "([0-9]{1,18})"
_INTERFACE: Final = re.compile(
    r"(?:Interface )?([A-Za-z][A-Za-z-]*[0-9][0-9/.]*(?::[0-9]+)?|[A-Z][A-Za-z-]+ [0-9][0-9/.]*"
    r"|Control Plane(?: [a-z-]+)?|SSS session identifier [0-9]+)"
    r"(?:\s*(?::|(?=<-->))\s*(.*?))?[\s-]*",
    re.ASCII,
)
_POLICY: Final = re.compile(
    r"Service-policy *(?:(?:queue?ing|qos) +)?(?:(input|output) *)?: *(\S+)", re.IGNORECASE
)
_CLASS: Final = re.compile(r"Class-map: *(\S+)", re.IGNORECASE)
_MATCHED: Final = re.compile(rf"{_N} packets(?:, {_N} bytes)?", re.ASCII)
_RATE: Final = re.compile(
    rf"[0-9]+ (?:second|minute|sec|min)s? (?:offered )?rate {_N} bps(?:, drop rate {_N} bps)?",
    re.ASCII,
)
_QUEUE: Final = re.compile(
    rf"(?:depth|total queued)/total drops(?:/[a-z -]+)*\) *{_N}/{_N}", re.ASCII
)
_DROPS: Final = re.compile(rf"\(total drops/bytes drops\) *{_N}/{_N}", re.ASCII)
_SWITCH: Final = re.compile(rf"\((total drops|bytes output)\) *{_N}", re.ASCII)
_SHAPED: Final = re.compile(rf"\S+ +{_N} +{_N} +{_N} +[0-9]+ +[0-9]+ +(?:yes|no)", re.ASCII)
_OUTPUT: Final = re.compile(rf"\(pkts output/bytes output\) *{_N}/{_N}", re.ASCII)
_POLICED: Final = re.compile(
    rf"(conformed|exceeded|violated) (?:{_N} packets, )?{_N} bytes[;,] *actions?: *(.*)", re.ASCII
)
_STRICT: Final = re.compile(r"Priority:|Strict Priority$")
_EXCEED: Final = re.compile(rf"b/w exceed drops: {_N}", re.ASCII)
_LEVEL: Final = re.compile(r"[Pp]riority [Ll]evel:? ([0-9]{1,2})", re.ASCII)
_PAIRS: Final = re.compile(rf"\S+((?: +{_N}/{_N})+)(?: .*)?", re.ASCII)
_CLOCK: Final = re.compile(
    r"(?:Time source is|No time source).*?([0-9]{1,2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?) \S+ "
    r"[A-Z][a-z]{2} ([A-Z][a-z]{2} [0-9]{1,2} [0-9]{4})",
    re.ASCII,
)
_COUNTERS: Final = re.compile(r"\b(?:packets?|bytes|pkts|drops?|dropped)\b", re.IGNORECASE)
_NOT_ZERO: Final = re.compile(r"(?<![A-Za-z0-9_.-])[0-9]*[1-9]")
_KNOWN: Final = re.compile(
    r"match\b|queue[ -]limit|bandwidth|priority|(?:cir|pir|rate|police)\b|shape|target|mean queue"
    r"|fair-queue|packets marked|\(pkts (?:matched|queued)|[0-9]+ packets|max(?:imum)?\b"
    r"|[0-9]+ (?:bps|second|minute|sec|min)|output queue|exp-weight"
    r"|(?:conform|exceed|violat)ed .*bps",
    re.IGNORECASE,
)
"""Beginnings of lines that say what is configured, or what other lines say."""

_ACTION: Final = re.compile(r"(transmit|drop|set-\S+(?: \S+)?)$")


def applies(text: str) -> bool:
    """Return whether a text is the output of this command."""
    return bool(_POLICY.search(text) and _CLASS.search(text))


@dataclass(slots=True)
class _Class:
    """A class, while its lines are read.

    `unknown`: some of its packets were dropped, and it is unknown how many. `switched`: it is a
    class of a switch, which counts what it sent in bytes only.
    """

    path: str
    counts: Counts
    policed: list[tuple[str, int | None, int | None, list[str]]] = field(default_factory=list)
    level: str | None = None
    early: int | None = None
    tail: int | None = None
    drops: int | None = None
    lost: int | None = None
    unknown: bool = False
    switched: bool = False
    in_bytes: bool = False
    discards: bool = False
    shapes: bool = False


@dataclass(slots=True)
class _Policy:
    """A policy map, while its lines are read.

    `shared` has the queue of all priority classes of a level.
    """

    indent: int
    prefix: str
    names: set[str] = field(default_factory=set)
    classes: list[_Class] = field(default_factory=list)
    shared: dict[str, _Class] = field(default_factory=dict)


def read(source: Source) -> list[Reading]:
    """Return the readings in a file, in their order."""
    found: list[Reading] = []
    for reading in _Reader(source).readings():
        begin(found, reading)
    return found


class _Reader:
    def __init__(self, source: Source) -> None:
        self._source = source
        self._open: list[_Policy] = []
        self._all: list[_Policy] = []
        self._class: _Class | None = None
        self._mode = ""
        self._reading: Reading | None = None
        self._skip = False
        self._partial = ""

    def readings(self) -> Iterator[Reading]:
        interface, at = "", None
        lines = self._source.text.split("\n")
        for line, text in enumerate(lines, 1):
            indent = len(text) - len(text.lstrip(" "))
            said = text[:LONGEST].strip()
            if not said:
                continue
            if clock := _CLOCK.search(said):
                at = _time(*clock.groups())
            elif (named := _INTERFACE.fullmatch(said)) and (
                indent <= 1 or _POLICY.match(_next(lines, line))
            ):
                yield from self._ended()
                interface = f"{named[1]} {named[2] or ''}".strip()
            elif policy := _POLICY.match(said):
                if policy[1] is not None:
                    yield from self._ended()
                    self._reading = Reading(
                        Place(self._source.file, line),
                        "ios",
                        "show policy-map interface",
                        interface,
                        "in" if policy[1].lower() == "input" else "out",
                        at=at,
                        policy=policy[2],
                    )
                    self._begin(_Policy(indent, ""))
                elif self._class is not None and self._open:
                    self._begin(_Policy(indent, f"{self._class.path}/"))
            elif self._reading is not None:
                self._line(line, indent, said)
        yield from self._ended()

    def _begin(self, policy: _Policy) -> None:
        self._skip = len(self._open) >= MAX_DEPTH
        if not self._skip:
            self._open.append(policy)
            self._all.append(policy)
        self._class = None

    def _line(self, line: int, indent: int, said: str) -> None:
        said, self._partial = f"{self._partial} {said}".lstrip(), ""
        if named := _CLASS.match(said):
            self._classed(indent, named[1])
        elif said.startswith("queue stats for all priority classes"):
            if self._open:
                self._class = _Class("", {})
                self._open[-1].shared.setdefault("", self._class)
                self._mode = ""
        elif said.endswith("drops:"):
            self._partial = said  # a terminal broke the line
        elif self._class is not None and not self._counted(self._class, said):
            self._unread(line, said)

    def _unread(self, line: int, said: str) -> None:
        """Note a line that seems to have counters."""
        if self._reading is None or len(self._reading.unread) >= MAX_UNREAD:
            return
        if _COUNTERS.search(said) and _NOT_ZERO.search(said) and not _KNOWN.match(said):
            place = Place(self._source.file, line)
            self._reading.unread.append(f"{place}: not read: {quote(said, 80)}")

    def _classed(self, indent: int, name: str) -> None:
        """Begin a class; the policies that are more indented than it have ended."""
        while len(self._open) > 1 and indent < self._open[-1].indent:
            self._open.pop()
            self._skip = False
        self._mode = ""
        if self._skip or self._reading is None:
            self._class = None
            return
        policy = self._open[-1]
        key = scenario_name(name, policy.names)
        policy.names.add(key)
        path = policy.prefix + key
        self._class = _Class(path, self._reading.add(path))
        policy.classes.append(self._class)

    def _counted(self, found: _Class, said: str) -> bool:
        """Read a line of a class, and return whether it is a known one."""
        counts = found.counts
        if level := _LEVEL.match(said):
            if found.path:
                found.level = level[1]
            else:  # the queue of the next level has its own numbers
                self._class = _Class("", {})
                self._open[-1].shared[level[1]] = self._class
        elif _STRICT.match(said):
            found.level = found.level or ""
            if dropped := _EXCEED.search(said):
                put(counts, {"dropped_policer": number(dropped[1])})
        elif matched := _MATCHED.fullmatch(said):
            # Later numbers of packets are those of one `match`.
            if "offered_packets" not in counts and not self._mode:
                put(
                    counts,
                    {"offered_packets": number(matched[1]), "offered_bytes": number(matched[2])},
                )
        elif rate := _RATE.match(said):
            if "offered_bps" not in counts and "offered rate" in said:
                put(counts, {"offered_bps": number(rate[1]), "dropped_bps": number(rate[2])})
        elif said.startswith("queue limit"):
            found.in_bytes = said.endswith("bytes")
        elif queue := _QUEUE.search(said):
            name = "backlog_bytes" if found.in_bytes else "backlog_packets"
            put(counts, {name: number(queue[1])})
            found.drops = number(queue[2])
        elif dropped := _DROPS.search(said):
            if found.level is not None:
                put(counts, {"dropped_policer": number(dropped[1])})
            else:
                found.drops = number(dropped[1])
        elif switch := _SWITCH.search(said):
            found.switched = True
            if switch[1] == "bytes output":
                put(counts, {"sent_bytes": number(switch[2])})
                # The queue of a switch counts its drops in the unit of its output.
                put(counts, {"dropped_bytes": found.lost})
            elif int(switch[2]) > 0:  # it is unknown how many packets these are
                found.unknown = True
                found.lost = number(switch[2])
            else:
                found.drops = found.lost = 0
        elif shaped := _SHAPED.fullmatch(said):
            names = ("backlog_packets", "sent_packets", "sent_bytes")
            put(counts, dict(zip(names, map(number, shaped.groups()), strict=True)))
        elif output := _OUTPUT.search(said):
            put(counts, {"sent_packets": number(output[1]), "sent_bytes": number(output[2])})
        elif policed := _POLICED.fullmatch(said):
            actions = [policed[4].strip()] if policed[4].strip() else []
            found.policed.append((policed[1], number(policed[2]), number(policed[3]), actions))
            self._mode = "police"
        elif self._mode == "police" and _ACTION.match(said):
            found.policed[-1][3].append(said)
        elif said == "drop":
            found.discards = True
        elif "Random drop" in said:
            self._mode = "wred"
        elif "ECN Mark" in said:
            self._mode = "ecn"
        elif self._mode in ("wred", "ecn") and (row := _PAIRS.fullmatch(said)):
            pairs = [int(pair.split("/")[0]) for pair in row[1].split()]
            if self._mode == "ecn":
                counts["marked_packets"] = counts.get("marked_packets", 0) + pairs[-1]
            elif len(pairs) == 2:
                self._partial = said  # a terminal broke the line
            elif len(pairs) >= 3:
                found.early = (found.early or 0) + pairs[1]
                found.tail = (found.tail or 0) + pairs[2]
        elif said.startswith(("shape (", "Traffic Shaping", "target shape rate")):
            found.shapes = True
        else:
            return False
        return True

    def _ended(self) -> Iterator[Reading]:
        """Complete the counters of a reading."""
        reading = self._reading
        if reading is not None and reading.classes:
            for policy in self._all:
                self._strict(policy)
            for policy in reversed(self._all):  # those inside a class before it
                for each in policy.classes:
                    inside = [p for p in self._all if p.prefix == f"{each.path}/"]
                    _complete(each, [inner for p in inside for inner in p.classes])
            top = self._all[0].classes
            inner = f"{top[0].path}/" if top else ""
            if len(top) == 1 and top[0].shapes and any(p.prefix == inner for p in self._all):
                # The shaper of the interface: its classes are those of the link.
                del reading.classes[top[0].path]
                reading.classes = {
                    path.removeprefix(inner): counts for path, counts in reading.classes.items()
                }
            yield reading
        self._open, self._all, self._class, self._reading = [], [], None, None

    @staticmethod
    def _strict(policy: _Policy) -> None:
        """Give the queue of all priority classes to its only class.

        If several classes share it, packets that the queue dropped cannot be told apart.
        """
        strict = [each for each in policy.classes if each.level is not None]
        for level, queue in policy.shared.items():
            if not queue.counts:
                continue
            levels = {level} if level else {None, *policy.shared} - {""}
            members = [each for each in strict if (each.level in levels) == bool(level)]
            if len(members) == 1:
                [only] = members
                only.counts.update(queue.counts)
                only.drops = queue.drops
                only.unknown, only.switched = queue.unknown, queue.switched
            elif queue.drops or queue.unknown:
                for each in members:
                    each.unknown = True


def _complete(each: _Class, inner: Sequence[_Class] = ()) -> None:
    """Add up a class's drops, and what it sent if it has no queue of its own.

    Args:
        each: The class.
        inner: The classes of the policy inside it, which are complete. What they drop, the class
            drops; the queue of a shaper counts the drops of the queues inside, and no policer's.
    """
    counts = each.counts
    if each.policed:
        _police(each)
    drops, unknown = each.drops, each.unknown
    if each.discards and not each.policed and drops is None:
        put(counts, {"dropped_packets": counts.get("offered_packets")})
        counts |= {"sent_packets": 0, "sent_bytes": 0}
        return
    if drops is not None:
        early = each.early
        exceeded = counts.get("dropped_policer", 0) if each.level is not None else 0
        sent = counts.get("sent_packets")
        if exceeded and sent is not None and counts.get("offered_packets") == sent + drops:
            drops -= min(exceeded, drops)  # releases differ in whether the queue counts them
        counts["dropped_limit"] = max(drops - (early or 0), 0)
        if early is not None:
            counts["dropped_early"] = early
    elif each.early is not None and each.tail is not None and not unknown:
        counts |= {"dropped_early": each.early, "dropped_limit": each.tail}
    kinds = ("dropped_limit", "dropped_policer", "dropped_early")
    dropped = total([counts.get(kind) for kind in kinds])
    if inner:
        inside = [_lost(one, policed=drops is not None) for one in inner]
        below = _all(inside)
        unknown = unknown or below is None
        if below:
            dropped = (dropped or 0) + below
    if dropped is not None and not unknown:
        counts["dropped_packets"] = dropped
    unknown = unknown or each.switched
    if "sent_packets" in counts or unknown or "offered_packets" not in counts:
        return
    lost = 0 if dropped is None else dropped  # without a counter of drops, the class has no queue
    if lost <= counts["offered_packets"]:
        counts["sent_packets"] = counts["offered_packets"] - lost
    if "offered_bytes" in counts:
        if inner and lost:
            put(counts, {"sent_bytes": _all([one.counts.get("sent_bytes") for one in inner])})
        elif not lost:
            counts["sent_bytes"] = counts["offered_bytes"]
        elif each.policed and lost == counts.get("dropped_policer"):
            gone = _all([size for _, _, size, actions in each.policed if _drops(actions)])
            if gone is not None and gone <= counts["offered_bytes"]:
                counts["sent_bytes"] = counts["offered_bytes"] - gone


def _lost(each: _Class, *, policed: bool) -> int | None:
    """Return the packets that a complete class dropped; None if that is unknown.

    Args:
        each: The class.
        policed: True for those that policers dropped.
    """
    counts = each.counts
    if each.unknown:
        return None
    if policed:
        return 0 if each.discards else counts.get("dropped_policer", 0)
    if "dropped_packets" in counts:
        return counts["dropped_packets"]
    sent = counts.get("sent_packets")
    return None if sent is None else counts.get("offered_packets", sent) - sent


def _police(each: _Class) -> None:
    dropped: list[int | None] = []
    remarked: list[int | None] = []
    sent: list[int | None] = []
    lost: list[int | None] = []
    for name, counted, size, actions in each.policed:
        packets = 0 if counted is None and size == 0 else counted
        put(each.counts, {f"{name}_packets": packets, f"{name}_bytes": size})
        if _drops(actions):
            dropped.append(packets)
            lost.append(size)
            continue
        sent.append(size)
        if name != "conformed" and any(action.startswith("set-") for action in actions):
            remarked.append(packets)
    put(each.counts, {"dropped_policer": _all(dropped), "remarked_packets": _all(remarked)})
    if None in dropped:  # switches count the bytes only
        each.unknown = True
        put(each.counts, {"dropped_bytes": _all(lost)})
        if "sent_bytes" not in each.counts:
            put(each.counts, {"sent_bytes": _all(sent)})


def _all(counts: Sequence[int | None]) -> int | None:
    """Return the sum of some counts; None if one of them is unknown."""
    known = [each for each in counts if each is not None]
    return sum(known) if len(known) == len(counts) else None


def _drops(actions: list[str]) -> bool:
    return any(action == "drop" for action in actions)


def _next(lines: Sequence[str], start: int) -> str:
    """Return the first line with text from an index on, among the next few."""
    return next((line.strip() for line in lines[start : start + 3] if line.strip()), "")


def _time(clock: str, day: str) -> datetime | None:
    form = "%H:%M:%S.%f %b %d %Y" if "." in clock else "%H:%M:%S %b %d %Y"
    try:
        return datetime.strptime(f"{clock} {day}", form)
    except ValueError:
        return None
