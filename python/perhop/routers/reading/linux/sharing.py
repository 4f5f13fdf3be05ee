"""The shares of classes: HTB, HFSC, CBQ, DRR, ETS and prio."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from perhop.routers.reading.configuration import Fault
from perhop.routers.reading.curves import Curve, Curves, Slope
from perhop.routers.reading.linux import units
from perhop.scenario.model.htb import default_quantum, slack
from perhop.scenario.model.quantities import QUANTA
from perhop.units import WHOLE, format_rate, format_share, format_size

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from perhop.routers.reading.configuration import Place
    from perhop.routers.reading.linux.ledger import Ledger
    from perhop.routers.reading.linux.model import Class, Device, Options, Qdisc

__all__ = ["CLASSFUL", "Shares", "direct", "shares"]

_MOST_PRIO: Final = 7
"""The last priority of HTB (`TC_HTB_NUMPRIO`)."""

CLASSFUL: Final = frozenset({"htb", "hfsc", "cbq", "drr", "ets", "prio", "pfifo_fast"})
"""The qdiscs whose classes are modelled."""

_KEYS: Final = {
    "rt": ("realtime",),
    "ls": ("linkshare",),
    "sc": ("realtime", "linkshare"),
    "ul": ("upperlimit",),
}
"""The keys of a scenario for each curve."""

_PRIOMAP: Final = (1, 2, 2, 2, 1, 2, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1)
_STRICT_SHARE: Final = 1000
_PACKET: Final = 1500
_LIMIT_BURST: Final = 4500
_FRAME: Final = 1514
"""The bytes of a full frame; a turn of HTB sends one at least."""

_ALIKE: Final = 0.98
"""The least ratio of two numbers that are taken for equal."""

_UNLIMITED: Final = 2**60
_KNOWN: Final = {
    "htb": "rate ceil burst buffer maxburst cburst cbuffer cmaxburst prio quantum mtu mpu",
    "cbq": "split rate bandwidth prio bounded isolated weight allot avpkt cell maxburst minburst",
    "hfsc": "sc rt ls ul",
    "drr": "quantum",
    "ets": "quantum",
    "prio": "",
}


@dataclass(slots=True)
class Shares:
    """The classes of a qdisc.

    Attributes:
        kind: The qdisc.
        place: Its line.
        children: The classes below each class.
        top: The classes below none.
        places: The line of each class.
        rates: The rate and burst of each class, where it has them.
        ceilings: The greatest rate of each class, and its burst if the configuration tells.
        prios: The priorities of classes.
        quanta: The bytes that each class sends in its turn.
        bands: The strict classes, first first; empty without bands.
        by_priority: The class of each priority of a packet; empty if it tells no class.
        default: The class of packets without one; 0 for none.
        leaves: The classes without classes below.
        curves: The service curves of classes.
        shared: The rates by which classes with curves share.
        left_out: What is lost where a scenario does not have the curves.
        by_curves: True if the scenario has them.
        speed: The rate of the interface; None if it is not known.
        by_buckets: True if the scenario has HTB's token buckets: where shares say less.
    """

    kind: str
    place: Place
    ledger: Ledger
    children: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    top: list[int] = field(default_factory=list)
    places: dict[int, Place] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    rates: dict[int, tuple[int, int]] = field(default_factory=dict)
    ceilings: dict[int, tuple[int, int | None]] = field(default_factory=dict)
    prios: dict[int, int] = field(default_factory=dict)
    quanta: dict[int, int] = field(default_factory=dict)
    bands: list[int] = field(default_factory=list)
    by_priority: list[int] = field(default_factory=list)
    default: int = 0
    leaves: set[int] = field(default_factory=set)
    curves: dict[int, Curves] = field(default_factory=dict)
    shared: dict[int, int] = field(default_factory=dict)
    left_out: list[tuple[Place, str]] = field(default_factory=list)
    by_curves: bool = False
    speed: int | None = None
    by_buckets: bool = False

    def decide(self, *, possible: bool, framed: bool) -> None:
        """Decide whether the scenario has service curves: where they say more than shares.

        Args:
            possible: True if nothing beside the curves needs another scheduler.
            framed: True if rates count more than IP packets.
        """
        self.by_buckets = possible and self.needs_buckets(framed=framed)
        if self.kind == "hfsc":
            self.left_out += self._beyond_link_sharing(self.top, self.speed)
        self.by_curves = possible and bool(self.left_out)
        if self.by_curves:
            self.rates = {key: (rate, 0) for key, rate in self.shared.items()}
            return
        for place, note in self.left_out:
            self.ledger.approximated(place, note)

    def _beyond_link_sharing(
        self, keys: Sequence[int], capacity: int | None
    ) -> Iterator[tuple[Place, str]]:
        """Yield the leaves whose guarantee in real time is more than link sharing gives them.

        Real time comes first (`hfsc_dequeue`), whatever the classes around have, and upper limits
        bound link sharing alone (`vttree_get_minvt`).

        Args:
            keys: The classes below one class.
            capacity: What they share, in bit/s; None if it is not known.
        """
        shared = {key: self.shared[key] for key in keys if key in self.shared}
        whole = max(sum(shared.values()), 1)
        for key, rate in shared.items():
            own = rate if capacity is None else capacity * rate // whole
            curves = self.curves[key]
            if curves.upperlimit is not None:
                own = min(own, curves.upperlimit.m2.amount)
            if key not in self.leaves:
                yield from self._beyond_link_sharing(self.children[key], own)
            elif (due := curves.realtime) is not None and due.m2.amount * _ALIKE > own:
                note = f"link sharing gives it {format_rate(own)}, in place of its guarantee"
                yield self.places[key], note

    def is_interface(self, key: int) -> bool:
        """Return whether a class above all others limits everything that the interface sends."""
        limit = self.ceilings.get(key, (_UNLIMITED, None))[0]
        due = (self.curves[leaf].realtime for leaf in self.below(key) if leaf in self.curves)
        return not self.by_curves or sum(each.m2.amount for each in due if each) <= limit

    def needs_buckets(self, *, framed: bool) -> bool:
        """Return whether shares in proportion to guarantees are not what HTB does.

        A class within its guarantee does not ask those above it, and classes borrow by quantum,
        whatever their guarantees: all that borrow from a class, at any depth, take turns.

        Args:
            framed: True if rates count more than IP packets.
        """
        groups = [(None, self.top), *self.children.items()]
        if self.kind != "htb" or any(self.strict(parent, keys) for parent, keys in groups):
            return False  # priorities alone decide
        if not self.places.keys() <= self.rates.keys():
            return False  # a rate is not known
        if framed:
            return True
        root = self.top[0] if len(self.top) == 1 else None
        for parent, keys in self.children.items():
            whole = self.rates[parent][0]
            total = sum(self.rates[key][0] for key in keys)
            if total > whole or (parent != root and total < whole * _ALIKE):
                return True
            if len(keys) < 3 and total >= whole * _ALIKE:
                continue  # if one is idle, the other borrows all
            turns = defaultdict(list)
            for key in keys:
                inside = [each for each in self.below(key) if each in self.quanta]
                turn = sum(max(self.quanta[each], _FRAME) for each in inside)
                turns[self.prios.get(key, 0)].append(turn / max(self.rates[key][0], 1))
            if any(min(each) < max(each) * _ALIKE for each in turns.values()):
                return True
        return False

    def below(self, key: int) -> list[int]:
        """Return the leaves below a class, or the class itself."""
        todo, found = [key], []
        while todo:
            now = todo.pop()
            if self.children.get(now):
                todo += self.children[now]
            else:
                found.append(now)
        return found

    def whole(self, key: int) -> tuple[int | None, int]:
        """Return the rate and burst of a class for everything; None if it has no limit."""
        rate, burst = self.rates.get(key, (None, 0))
        if self.kind == "htb":
            return rate, burst  # Without a class above, it never borrows.
        ceiling, _ = self.ceilings.get(key, (_UNLIMITED, None))
        return (None if ceiling == _UNLIMITED else ceiling), burst

    def _tiny(self, parent: int | None, keys: Sequence[int]) -> bool:
        """Return whether guarantees are so small that the priorities alone decide."""
        whole = self.rates.get(parent, (0, 0))[0] if parent is not None else 0
        known = [self.rates.get(key, (0, 0))[0] for key in keys]
        return (
            self.kind == "htb"
            and bool(whole)
            and len({self.prios.get(key, 0) for key in keys}) > 1
            and sum(known) * _STRICT_SHARE <= whole + 64 * _STRICT_SHARE * len(keys)
        )

    def strict(self, parent: int | None, keys: Sequence[int]) -> list[int]:
        """Return the classes that go before all after them."""
        own = [key for key in keys if key > 0]
        if self.bands:
            return [key for key in self.bands if key in own]
        if not self._tiny(parent, own):
            return []
        ranks: dict[int, list[int]] = defaultdict(list)
        for key in own:
            ranks[self.prios.get(key, 0)].append(key)
        *first, _ = sorted(ranks)
        if any(len(ranks[rank]) > 1 for rank in first):
            return []
        return [ranks[rank][0] for rank in first]

    def settings(self, parent: int | None, keys: Sequence[int]) -> dict[int, dict[str, Any]]:
        """Return the keys of the classes below `parent` that share its bandwidth."""
        found: dict[int, dict[str, Any]] = {key: {} for key in keys}
        if self.by_buckets:
            self._above_parent(parent, keys)
            for key in keys:
                self._buckets(key, found[key], top=parent is None)
            return found
        strict = self.strict(parent, keys)
        rest = [key for key in keys if key not in strict]
        for key in strict:
            found[key]["priority"] = "strict"
        if self.kind in ("drr", "ets") or strict:
            turns = {key: self.quanta.get(key) for key in rest}
            if len(rest) > 1 and all(turns.values()):
                for key, share in _parts({k: v or 1 for k, v in turns.items()}).items():
                    found[key]["bandwidth"] = share
        elif self.kind not in ("prio", "pfifo_fast"):
            self._guarantees(parent, rest, found)
        whole = self.rates.get(parent, (0, 0))[0] if parent is not None else 0
        if self.by_curves:
            total = sum(self.rates.get(key, (0, 0))[0] for key in keys)
            part = min(whole, total) if whole else total
            for key in keys:
                own = self.curves.get(key, Curves())
                own.apply(found[key], leaf=key in self.leaves, part=part or 1, whole=total or 1)
        elif self.kind in ("htb", "cbq", "hfsc"):
            for key in keys:
                self._ceiling(key, whole, found[key], top=parent is None)
        return found

    def turns(self, names: Mapping[str, int]) -> dict[str, int]:
        """Return the quanta of the classes with these names that take turns.

        Nothing if perhop does not have each of them, or if they are out of its range.
        """
        if self.kind not in ("drr", "ets"):
            return {}
        found = {
            name: self.quanta.get(key, 0) for name, key in names.items() if key not in self.bands
        }
        return found if all(QUANTA[0] <= each <= QUANTA[1] for each in found.values()) else {}

    def _guarantees(
        self, parent: int | None, keys: Sequence[int], found: dict[int, dict[str, Any]]
    ) -> None:
        whole = self.rates.get(parent, (0, 0))[0] if parent is not None else 0
        if parent is None and self.kind == "hfsc" and self.speed:
            whole = self.speed
        given = {key: self.rates[key][0] for key in keys if key in self.rates}
        if len(keys) > 1 or parent is None:
            if whole and sum(given.values()) > whole:
                said = f"guarantees of {format_rate(sum(given.values()))} share the"
                note = f"{said} {format_rate(whole)} of the class above in proportion"
                for key, share in _parts(given).items():
                    found[key]["bandwidth"] = share
                    if self.kind == "hfsc":
                        continue  # link sharing goes by the proportion of curves alone
                    self.ledger.approximated(self.places[key], note, Fault.ABOVE_PARENT)
            else:
                for key, rate in given.items():
                    found[key]["bandwidth"] = format_rate(rate)
        prios = {key: self.prios.get(key, 0) for key in keys}
        if len(set(prios.values())) > 1:
            for key, prio in prios.items():
                found[key]["priority"] = min(prio, 7)

    def _above_parent(self, parent: int | None, keys: Sequence[int]) -> None:
        """Note guarantees that exceed the rate of the class around them."""
        total = sum(self.rates[key][0] for key in keys)
        whole = total if parent is None else self.rates[parent][0]
        if total > whole:
            note = (
                f"guarantees of {format_rate(total)} exceed the {format_rate(whole)} of the class "
                "above, which does not hold them: a class within its rate does not ask it"
            )
            for key in keys:
                self.ledger.fault(self.places[key], note, Fault.ABOVE_PARENT)

    def _buckets(self, key: int, own: dict[str, Any], *, top: bool) -> None:
        """Give a class its guarantee, ceiling, priority and quantum."""
        rate, _ = self.rates[key]
        own["bandwidth"] = format_rate(rate)
        root = self.rates[self.top[0]][0] if len(self.top) == 1 else 0
        self._ceiling(key, root, own, top=top)
        if key in self.leaves:
            if self.prios.get(key):
                own["priority"] = min(self.prios[key], 7)
            own["quantum"] = format_size(min(max(self.quanta[key], QUANTA[0]), QUANTA[1]))

    def _ceiling(self, key: int, whole: int, own: dict[str, Any], *, top: bool) -> None:
        rate = self.rates.get(key, (0, 0))[0]
        ceiling, burst = self.ceilings.get(key, (rate, None))
        if top and self.kind == "htb" and rate:
            if ceiling > rate:
                note = "a class without a parent never borrows: its `ceil` has no effect"
                self.ledger.approximated(self.places[key], note, Fault.WITHOUT_EFFECT)
            ceiling = rate
        if not ceiling or ceiling == _UNLIMITED or (whole and ceiling >= whole and not top):
            return
        strict = own.get("priority") == "strict"
        scaled = str(own.get("bandwidth", "")).endswith("%") and not strict
        if burst is not None and burst > max(_LIMIT_BURST, slack(ceiling)):
            own["shape"] = {"rate": format_rate(ceiling), "burst": format_size(burst + _PACKET)}
        elif ceiling <= rate and "bandwidth" in own and not scaled:
            own["bandwidth"] = format_rate(ceiling)
            own["borrow"] = False
        else:
            own["limit"] = format_rate(ceiling)
        if rate and not strict and "bandwidth" not in own:
            own["bandwidth"] = format_rate(min(rate, ceiling))


def _parts(weights: dict[int, int]) -> dict[int, str]:
    """Return shares of 100% in proportion to weights."""
    whole = max(sum(weights.values()), 1)
    return {key: format_share(max(weight * WHOLE // whole, 1)) for key, weight in weights.items()}


def direct(qdisc: Qdisc, found: Shares, ledger: Ledger) -> int:
    """Return the class of packets that no filter leads to a class."""
    if found.default in found.leaves:
        return found.default
    if found.by_priority:
        return found.by_priority[0]
    if found.kind in ("drr", "hfsc"):
        ledger.default(qdisc.place, "default", "drop", f"Linux, {found.kind}_classify")
        return -1
    note = "packets without a class pass HTB unshaped; here the rate of the interface includes them"
    if found.kind == "htb":
        ledger.default(qdisc.place, "default", "none: before all classes", "Linux, htb_enqueue")
        ledger.approximated(qdisc.place, note)
    return 0


def shares(qdisc: Qdisc, device: Device, ledger: Ledger) -> Shares:
    """Return the classes of a qdisc, with their shares."""
    found = Shares(qdisc.kind, qdisc.place, ledger, speed=device.speed)
    major = qdisc.handle << 16
    if qdisc.kind in ("prio", "pfifo_fast", "ets"):
        _bands(qdisc, device, found)
        found.leaves = set(found.places)
        return found
    own = [each for each in device.classes.values() if each.classid >> 16 == qdisc.handle]
    known = {each.classid for each in own}
    for each in own:
        # DRR has no classes in classes, whatever `parent` says (`drr_change_class`).
        if each.parent in known and each.parent != each.classid and qdisc.kind != "drr":
            found.children[each.parent].append(each.classid)
        else:
            found.top.append(each.classid)
        found.places[each.classid] = each.place
    found.leaves = {key for key in found.places if not found.children.get(key)}
    for each in own:
        _class(each, found, ledger, qdisc)
    minor = qdisc.options.hexadecimal("default")
    found.default = major | minor if minor else 0
    return found


def _class(each: Class, found: Shares, ledger: Ledger, qdisc: Qdisc) -> None:
    options, key = each.options, each.classid
    known = _KNOWN.get(qdisc.kind, "").split()
    for word in options.values:
        if word in ("overhead", "linklayer", "mpu"):
            note = "a link's overhead belongs to the link of a scenario (`overhead`)"
            ledger.approximated(options.at(word), note)
        elif word not in known:
            ledger.approximated(options.at(word), f"`{word[:30]}` is not modelled")
    if qdisc.kind == "hfsc":
        _curves(each, found, ledger)
        return
    quantum = options.size("quantum")
    if quantum:
        found.quanta[key] = quantum
    if qdisc.kind == "drr":
        if not quantum:
            found.quanta[key] = 1514
            ledger.default(each.place, "quantum", "1514 B", "Linux, drr_change_class")
        return
    rate = options.rate("rate")
    if not rate:
        ledger.ignored(each.place, "the class has no rate that perhop can read")
        return
    burst = options.size("burst", "buffer", "maxburst") if qdisc.kind == "htb" else None
    found.rates[key] = rate, burst or 0
    found.prios[key] = options.number("prio") or 0
    if qdisc.kind == "htb" and found.prios[key] > _MOST_PRIO:
        note = f"HTB has priorities 0 to {_MOST_PRIO}: Linux takes {_MOST_PRIO} for a greater one"
        ledger.fault(each.options.at("prio"), note, Fault.WITHOUT_EFFECT)
        found.prios[key] = _MOST_PRIO
    if qdisc.kind == "cbq":
        ledger.approximated(each.place, "link sharing by HTB's rules in place of CBQ's estimator")
        found.prios[key] = max(found.prios[key] - 1, 0)
        bounded = "bounded" in options.values
        found.ceilings[key] = (rate if bounded else _UNLIMITED, None)
        return
    _htb(each, found, ledger, qdisc.options, rate, burst)


def _htb(
    each: Class, found: Shares, ledger: Ledger, options: Options, rate: int, burst: int | None
) -> None:
    key = each.classid
    ceiling = each.options.rate("ceil") or rate
    cburst = each.options.size("cburst", "cbuffer", "cmaxburst")
    found.ceilings[key] = ceiling, cburst
    if ceiling < rate:
        note = f"`ceil` is below `rate`: the class gets no more than {format_rate(ceiling)}"
        ledger.fault(each.options.at("ceil"), note, Fault.BELOW_GUARANTEE)
        found.rates[key] = ceiling, cburst or 0
    if burst is None:
        ledger.default(each.place, "burst", "1600 B", "iproute2, q_htb.c: rate / HZ + mtu")
    if key not in found.quanta:
        r2q = options.number("r2q") or 10
        if "r2q" not in options.values:
            ledger.default(options.place, "r2q", "10", "iproute2, q_htb.c: rate2quantum")
        quantum = default_quantum(rate, r2q)
        found.quanta[key] = quantum
        ledger.default(each.place, "quantum", f"{quantum} B", "Linux, htb_change_class")


def _curves(each: Class, found: Shares, ledger: Ledger) -> None:
    """Read the service curves of HFSC.

    Where a scenario cannot have curves, only their slopes in the long run count. What that leaves
    out is noted later, when it is known.
    """
    key, own = each.classid, Curves()
    places: dict[str, Place] = {}
    for name, keys in _KEYS.items():
        text = each.options.values.get(name)
        if text is None:
            continue
        try:
            curve = service_curve(text)
        except ValueError as error:
            ledger.approximated(each.options.at(name), f"{name}: {error}")
            continue
        for kind in keys:
            setattr(own, kind, curve)
            places[kind] = each.options.at(name)
    leaf = key in found.leaves
    share = own.linkshare or own.realtime or own.upperlimit
    if share is None:
        ledger.ignored(each.place, "the class has no rate that perhop can read")
        return
    if not leaf and own.linkshare is None:
        note = "a class around others without `ls`: HFSC serves their `rt` alone"
        ledger.approximated(each.place, note)
    guarantee = own.realtime if leaf and own.realtime is not None else share
    limit = own.limit(leaf=leaf)
    found.rates[key] = guarantee.m2.amount, 0
    found.ceilings[key] = _UNLIMITED if limit is None else limit.m2.amount, None
    found.shared[key] = share.m2.amount
    found.curves[key] = own
    found.left_out += [(places[kind], note) for kind, note in own.beyond_shares(leaf=leaf)]


def service_curve(text: str) -> Curve:
    """Return a curve.

    Raises:
        ValueError: If it is none, or if nothing is due in the long run.
    """
    words = text.split()
    given = dict(zip(words[::2], words[1::2], strict=False))
    rate = units.rate(given.get("rate", "") or given.get("m2", ""))
    if not rate:
        raise ValueError("a curve without a second slope is not modelled")
    time = units.time(given.get("dmax", "") or given.get("d", "") or "0") or 0
    umax = units.size(given.get("umax", "0")) or None
    first = units.rate(given.get("m1", "0"))
    return Curve(Slope(rate), Slope(first) if first else None, time, umax)


def _bands(qdisc: Qdisc, device: Device, found: Shares) -> None:
    major = qdisc.handle << 16
    count = min(max(qdisc.options.number("bands") or 3, 1), 16)
    strict = count
    ledger = found.ledger
    for word in qdisc.options.values:
        if word not in ("bands", "strict"):
            ledger.approximated(qdisc.options.at(word), f"`{word[:30]}` is not modelled")
    names = [f"band{number}" for number in range(count)]
    if qdisc.kind == "ets":
        quanta = [units.number(each) for each in qdisc.lists.get("quanta", ())]
        count = min(qdisc.options.number("bands") or 0, 16)
        strict = min(qdisc.options.number("strict") or 0, 16)
        count = max(count, strict + len(quanta), 1)
        names = [f"band{number}" for number in range(count)]
        for number in range(strict, count):
            index = number - strict
            found.quanta[major + number + 1] = quanta[index] if index < len(quanta) else 1514
    usual = [min(count - 1, each) for each in _PRIOMAP] if qdisc.kind != "ets" else [count - 1] * 16
    given = [int(each) for each in qdisc.lists.get("priomap", ()) if len(each) < 3]
    if not given:
        ledger.default(qdisc.place, "priomap", " ".join(map(str, usual)), f"tc-{qdisc.kind}(8)")
    if qdisc.kind != "ets" and "bands" not in qdisc.options.values:
        ledger.default(qdisc.place, "bands", "3", "tc-prio(8)")
    table = (given + usual[len(given) :])[:16]
    for number in range(count):
        key = major + number + 1
        known = device.classes.get(key)
        found.top.append(key)
        found.places[key] = known.place if known is not None else qdisc.place
        found.names[key] = names[number]
        quantum = known.options.size("quantum") if known is not None else None
        if quantum and key in found.quanta:
            found.quanta[key] = quantum
    found.bands = [major + number + 1 for number in range(strict)]
    found.by_priority = [major + min(band, count - 1) + 1 for band in table]
