"""Qdiscs with classes, as policies of scenarios."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from perhop.routers.reading.configuration import (
    Fault,
    Loc,
    Place,
    scenario_name,
    too_many_classes,
)
from perhop.routers.reading.linux.cake import ETHERNET, cake
from perhop.routers.reading.linux.classify import (
    MOST_PAIRS,
    Packets,
    Verdict,
    classify,
    matches,
    priority,
    within,
)
from perhop.routers.reading.linux.handles import ROOT_TABLE
from perhop.routers.reading.linux.model import Test
from perhop.routers.reading.linux.netem import medium, waiting
from perhop.routers.reading.linux.policers import DROPS, Buckets
from perhop.routers.reading.linux.queues import PLAIN, queue
from perhop.routers.reading.linux.sharing import CLASSFUL, Shares, direct, shares
from perhop.routers.reading.matching import OF_VERSION, Conditions, Rules, TooManyRulesError
from perhop.scenario.model.classes import MAX_CLASSES
from perhop.scenario.model.dscp import format_dscp
from perhop.scenario.model.hfsc import HFSC
from perhop.scenario.model.htb import HTB, slack
from perhop.scenario.model.quantities import format_packets
from perhop.units import WHOLE, format_rate, format_share, format_size, parse_rate, parse_share

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence, Set

    from perhop.routers.reading.linux.ledger import Ledger
    from perhop.routers.reading.linux.model import Device, Filter, Qdisc

__all__ = ["Part", "Tree", "fit_shares"]

_DEEPEST: Final = 8
_PACKET: Final = 1500
_ANY_RATE: Final = 10**12
_PRIOMAP: Final = (1, 2, 2, 2, 1, 2, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1)
_LEAVES: Final = PLAIN | {"cake"}
"""The qdiscs of leaves that leave the shares to the qdisc above."""

_SHARING: Final = frozenset({"htb", "hfsc", "drr", "ets", "cbq"})
"""The qdiscs whose rates or quanta count bytes."""

_HELD: Final = frozenset({"hfsc", "drr", "ets"})
"""The qdiscs that send nothing while a class whose turn it is waits for a bucket of its own."""

_PASSING: Final = frozenset({"prio", "tbf", "netem"})
"""The qdiscs between that have nothing to send then, unless another class inside has."""

NAMES: Final = {0: "unclassified", -1: "dropped"}


@dataclass(slots=True)
class Part:
    """What a qdisc does to the packets of a class or interface.

    Attributes:
        keys: Keys of the class: `queue`, or `classes`.
        quanta: The quanta of classes that share by deficit round robin, by name.
        shape: The rate and burst of everything, in bit/s and bytes.
        places: The lines of values, by their keys.
    """

    keys: dict[str, Any]
    shape: tuple[int, int] | None = None
    places: dict[Loc, Place] = field(default_factory=dict)
    shape_place: Place | None = None
    quanta: dict[str, int] = field(default_factory=dict)

    def policy(self) -> dict[str, Any]:
        """Return the keys of a policy of a link. Classes inside a class have shares instead."""
        if not self.quanta:
            return self.keys
        classes = {
            name: {key: value for key, value in each.items() if key != "bandwidth"}
            | ({"quantum": format_size(self.quanta[name])} if name in self.quanta else {})
            for name, each in self.keys["classes"].items()
        }
        return {**self.keys, "scheduler": "drr", "classes": classes}


class Tree:
    """The policy of an interface."""

    def __init__(self, device: Device, ledger: Ledger, buckets: Buckets | None = None) -> None:
        self.device = device
        self.policers = (
            Buckets(device, ledger, device.framing or "") if buckets is None else buckets
        )
        self.ledger = ledger
        self.reached: set[int] = set()
        self.asked: set[int] = set()
        """The qdiscs and classes whose filters were applied."""
        self.counts = False
        """True if classes have rates or quanta, in bytes of frames."""
        self.medium: dict[str, str] = {}
        self._count = 0
        self._joined: dict[tuple[int, int], Filter] = {}
        self._landed: Sequence[tuple[Verdict, int]] = ()
        """The packets of the discipline that is being read, with their leaves."""
        self._level: Sequence[Packets] = ()
        self._within = Rules.any()
        """All packets that reach this discipline."""

    def part(
        self, qdisc: Qdisc | None, arriving: Sequence[Packets], place: Place, depth: int = 0
    ) -> Part:
        """Return what a qdisc does; None is the kernel's default."""
        if qdisc is not None:
            place = qdisc.place
            if depth > _DEEPEST:
                self.ledger.ignored(place, f"qdiscs more than {_DEEPEST} levels deep")
                qdisc = None
            elif qdisc.kind == "tbf":
                return self._tbf(qdisc, arriving, depth)
            elif qdisc.kind in ("netem", "mq", "noqueue", "mqprio", "cake"):
                return self._other(qdisc, arriving, depth)
            elif qdisc.kind in CLASSFUL and depth < _DEEPEST:
                try:
                    return self._classful(qdisc, arriving, depth)
                except TooManyRulesError as error:
                    self.ledger.ignored(place, f"its filters: {error}")
                    self._refused(qdisc.handle)
                    return Part({"queue": queue(None, place, self.device.length, self.ledger)})
        found = queue(qdisc, place, self.device.length, self.ledger)
        return Part({"queue": found}, places={("queue",): place})

    def _refused(self, major: int) -> None:
        """Note the classes and filters of a qdisc that is not modelled."""
        found = [each for each in self.device.classes.values() if each.classid >> 16 == major]
        for each in found:
            self.reached.add(each.classid)
        filters = [each for each in self.device.filters if each.parent >> 16 == major]
        for place in [each.place for each in found] + [each.place for each in filters]:
            self.ledger.ignored(place, "its qdisc is not modelled")

    def _tbf(self, qdisc: Qdisc, arriving: Sequence[Packets], depth: int) -> Part:
        options = qdisc.options
        rate = options.rate("rate")
        burst = options.size("burst", "buffer", "maxburst") or 0
        if not rate:
            self.ledger.ignored(qdisc.place, "TBF needs a `rate`")
            rate = None
        for key in options.values:
            if key not in ("rate", "burst", "buffer", "maxburst", "limit", "latency"):
                self.ledger.approximated(options.at(key), f"`{key[:30]}` is not modelled")
        inner = self._inner(qdisc)
        if inner is not None:
            part = self.part(inner, arriving, qdisc.place, depth + 1)
        else:
            limit, latency = options.size("limit"), options.time("latency")
            if limit is None:
                limit = (rate or 0) * (latency or 0) // (8 * 10**12) + burst
            part = Part({"queue": {"limit": format_size(max(limit, _PACKET))}})
            part.places[("queue",)] = qdisc.place
        if rate and part.shape is None:
            part.shape, part.shape_place = (rate, burst), qdisc.place
        if rate:
            self._hold(qdisc, depth)
            self._too_long(qdisc, burst, part)
        return part

    def _hold(self, qdisc: Qdisc, depth: int) -> None:
        """Note what a qdisc with a rate of its own, at this depth, keeps from sending."""
        self.counts |= depth > 0
        below, above = qdisc, self.device.numbered(qdisc.parent >> 16)
        while above is not None and above.kind in _PASSING:
            below, above = above, self.device.numbered(above.parent >> 16)
        if above is None or above.kind not in _HELD:
            return
        # A strict band of ETS, `dequeue` of which is tried first, holds no other.
        strict = above.options.number("strict") or 0
        if above.kind != "ets" or below.parent & 0xFFFF > strict:
            note = f"{above.kind.upper()} sends nothing while this class, in turn, has to wait"
            self.ledger.approximated(qdisc.place, note)

    def _too_long(self, qdisc: Qdisc, burst: int, part: Part) -> None:
        """Drop packets that are longer than a bucket of TBF, which never holds enough for them."""
        largest = burst
        if "peakrate" in qdisc.options.values:
            largest = min(burst, qdisc.options.size("mtu", "minburst") or burst)
        header = ETHERNET if self.device.framing else 0
        if largest >= _PACKET + header:
            return
        said = f"`burst` holds {format_size(largest)}: TBF drops every longer frame"
        if "police" in part.keys or "classes" in part.keys:
            self.ledger.ignored(qdisc.place, said)
            return
        # A bucket that is always full: it only measures lengths.
        size = format_size(max(largest - header, 1))
        part.keys["police"] = {"rate": format_rate(_ANY_RATE), "burst": size}
        part.places[("police",)] = qdisc.place
        self.ledger.fault(qdisc.place, said, Fault.INVALID)

    def buckets(self, part: Part, policy: dict[str, Any]) -> dict[str, Any]:
        """Return a policy below a shaper, with the shaper as the class of HTB above all."""
        root: dict[str, Any] = {}
        if part.shape is not None:
            # It lends, but does not hold back what is within guarantees.
            rate, burst = part.shape
            root |= {"rate": format_rate(rate)}
            root |= {"burst": format_size(burst - _PACKET)} if burst > _PACKET else {}
            part.shape = None
        if self.device.framing:
            root["overhead"] = self.device.framing
        return {"scheduler": HTB, **({"htb": root} if root else {}), **policy}

    def _inner(self, qdisc: Qdisc) -> Qdisc | None:
        found = (each for each in self.device.qdiscs.values() if each.parent >> 16 == qdisc.handle)
        first = next(found, None)
        for each in found:
            settings = each.kind, each.options.values
            if first is not None and settings == (first.kind, first.options.values):
                continue
            note = f"the first of the queues of {qdisc.kind} stands for all: not modelled"
            self.ledger.ignored(each.place, note)
        return first

    def _other(self, qdisc: Qdisc, arriving: Sequence[Packets], depth: int) -> Part:
        """Disciplines that belong to links, or that a queue stands for."""
        place, ledger = qdisc.place, self.ledger
        if qdisc.kind == "cake":
            found = cake(qdisc, ip_sizes=self.device.ip_sizes, ledger=ledger)
            return Part({"queue": found}, places={("queue",): place})
        notes = {
            "mq": "one queue instead of one for each queue of the card",
            "mqprio": "the card schedules its queues",
            "noqueue": "a link of a scenario has a queue",
        }
        if qdisc.kind == "netem":
            rate = qdisc.options.rate("rate") or self.device.speed
            if depth:
                ledger.ignored(place, "delay and loss of a class are not modelled")
                medium(qdisc, rate, ledger)
            else:
                self.medium = medium(qdisc, rate, ledger)
        else:
            report = ledger.approximated if qdisc.kind in ("mq", "noqueue") else ledger.ignored
            report(place, notes[qdisc.kind])
        inner = self._inner(qdisc)
        part = self.part(inner, arriving, place, depth + 1)
        if qdisc.kind == "netem":
            rate = qdisc.options.rate("rate")
            if rate:
                self._hold(qdisc, depth)
            if rate and part.shape is None:
                part.shape, part.shape_place = (rate, 0), place
                if inner is None:
                    limit = format_packets(waiting(qdisc, rate, ledger))
                    part.keys["queue"] = {"limit": limit}
        return part

    # Classes

    def _classful(self, qdisc: Qdisc, arriving: Sequence[Packets], depth: int) -> Part:
        above = self._landed, self._level, self._within
        if depth:
            self._within = self._of_class(arriving)
        try:
            return self._classes_of(qdisc, arriving, depth)
        finally:
            self._landed, self._level, self._within = above

    def _of_class(self, arriving: Sequence[Packets]) -> Rules:
        """Return the packets that reach a discipline in a class, if its filters police any."""
        if not any(action.kind == "police" for f in self.device.filters for action in f.actions):
            return Rules.any()
        origins = {packets.origin for packets in arriving}
        found = [(v.packets.origin, v.packets.origin in origins) for v, _ in self._landed]
        if not found or all(inside for _, inside in found):
            return self._within
        return self._within & matches(found, [True, False])[True]

    def _classes_of(self, qdisc: Qdisc, arriving: Sequence[Packets], depth: int) -> Part:
        verdicts = self._verdicts(qdisc, arriving)
        found = shares(qdisc, self.device, self.ledger)
        default = direct(qdisc, found, self.ledger)
        landed = [
            (each, each.target if each.target in found.leaves or each.target == -1 else default)
            for each in self._by_priority(qdisc, found, verdicts)
        ]
        for verdict in verdicts:
            known = verdict.target in found.places or not verdict.target & 0xFFFF
            if verdict.filter is not None and verdict.target >> 16 == qdisc.handle and not known:
                name = f"{qdisc.handle:x}:{verdict.target & 0xFFFF:x}"
                if not self.ledger.unread_class:
                    note = f"there is no class {name}"
                    self.ledger.approximated(verdict.filter.place, note, Fault.UNDEFINED)
        landed, self._level = self._before(qdisc, landed)
        self._landed = landed
        self.policers.reached(arriving, self._level, self._within)
        used = {key for _, key in landed}
        if len(used) > MAX_CLASSES:
            raise too_many_classes(qdisc.place, self.device.name)
        inside = (each.kind for each in self.device.qdiscs.values() if each.parent in found.leaves)
        unclassified = used & ({-1} if qdisc.kind == "htb" else {-1, 0})
        possible = depth == 0 and not unclassified and _LEAVES.issuperset(inside)
        framing = self.device.framing
        if qdisc.kind == "htb" and framing is None:
            possible = False
        found.decide(possible=possible, framed=bool(framing))
        if framing is not None and not found.by_buckets and found.needs_buckets(framed=False):
            note = "classes share what is lent by their guarantees here, not by HTB's quanta"
            self.ledger.approximated(qdisc.place, note)
        self.counts |= qdisc.kind in _SHARING
        part = self._tree(found, used, landed, depth)
        if found.by_curves and "classes" in part.keys:
            part.keys = {"scheduler": HFSC, **part.keys}
        if found.by_buckets and "classes" in part.keys:
            part.keys = self.buckets(part, part.keys)
        return part

    def _before(
        self, qdisc: Qdisc, landed: list[tuple[Verdict, int]]
    ) -> tuple[list[tuple[Verdict, int]], list[Packets]]:
        """Return packets with their leaves, and all packets with their policers.

        Those that no class gets are dropped before the classes, so that any class may match them.
        """
        level = [verdict.packets for verdict, _ in landed]
        kept = [each for each in landed if each[1] != -1]
        if not kept or len(kept) == len(landed):
            return landed, level
        for index, (verdict, leaf) in enumerate(landed):
            if leaf == -1:
                place = verdict.filter.place if verdict.filter is not None else qdisc.place
                if verdict.filter is None:
                    note = "packets that no filter leads to a class are dropped"
                    self.ledger.fault(place, note, Fault.UNCLASSIFIED)
                identity = ("drop", verdict.packets.policers)
                key = self.policers.add(identity, place, "dropped", DROPS, "")
                keys = (*verdict.packets.policers, key)
                level[index] = replace(verdict.packets, policers=keys)
        last, leaf = landed[-1]
        return kept if leaf != -1 else [*kept, (last, kept[-1][1])], level

    def _tree(
        self, found: Shares, used: Set[int], landed: Sequence[tuple[Verdict, int]], depth: int
    ) -> Part:
        """Return the classes of a qdisc; one class for everything shapes the interface."""
        top = found.top
        if len(top) == 1 and used <= set(found.below(top[0])) and found.is_interface(top[0]):
            only = top[0]
            self.reached.add(only)
            rate, burst = found.whole(only)
            part = self._group(found, only, landed, depth)
            if rate and part.shape is None:
                small = burst <= slack(rate)
                part.shape = (rate, 0 if small else burst + _PACKET)
                part.shape_place = found.places[only]
            return part
        return self._group(found, None, landed, depth)

    def _group(
        self,
        found: Shares,
        parent: int | None,
        landed: Sequence[tuple[Verdict, int]],
        depth: int,
    ) -> Part:
        """Return the classes below `parent`, or its queue."""
        if parent is not None and parent in found.leaves:
            place = found.places[parent]
            inner = self.device.qdiscs.get(parent)
            return self.part(inner, [verdict.packets for verdict, _ in landed], place, depth + 1)
        children = found.top if parent is None else found.children[parent]
        above = {leaf: child for child in children for leaf in found.below(child)}
        groups: dict[int, list[tuple[Verdict, int]]] = defaultdict(list)
        for verdict, leaf in landed:
            groups[above.get(leaf, leaf)].append((verdict, leaf))
        order = self._order(found, parent, list(groups), landed, above)
        conditions = [(v.packets.header, above.get(leaf, leaf)) for v, leaf in landed]
        rules = matches(conditions, order)
        order = [key for key in order if not rules[key].is_never]
        settings = found.settings(parent, [key for key in order if key > 0])
        classes: dict[str, Any] = {}
        places: dict[Loc, Place] = {}
        names: dict[str, int] = {}
        for key in order:
            self._count += 1
            if self._count > MAX_CLASSES:
                raise too_many_classes(found.place, self.device.name)
            self.reached.add(key)
            own = groups[key]
            label = (
                NAMES.get(key)
                or self.device.names.get(key)
                or found.names.get(key)
                or f"c{key & 0xFFFF:x}"
            )
            name = scenario_name(label, classes)
            written = {"match": rules[key].written()}
            loc: Loc = ("classes", name)
            if key == -1:
                classes[name] = {**written, "police": dict(DROPS), "priority": "strict"}
                continue
            if key == 0:
                queued = queue(None, found.place, self.device.length, self.ledger)
                classes[name] = {**written, "priority": "strict", "queue": queued}
                if found.kind == "cbq":
                    # The root class has the last priority but one (`cbq_init`).
                    classes[name]["priority"] = 7
                    note = (
                        "packets without a class, which CBQ serves last, are a class of their own"
                    )
                    self.ledger.approximated(found.place, note)
                continue
            places[loc], names[name] = found.places[key], key
            written |= settings[key]
            leaf = key in found.leaves or not (found.by_buckets or found.by_curves)
            written |= self._marks(own, found.places[key], leaf=leaf)
            outer = [verdict.packets.header for verdict, _ in own]
            inner_landed = [
                (self._relative(verdict, outer if len(outer) == 1 else ()), leaf)
                for verdict, leaf in own
            ]
            part = self._group(found, key, inner_landed, depth + 1)
            written |= part.keys
            if part.shape is not None:
                if any(word in written for word in ("limit", "borrow", "shape")):
                    note = "the ceiling of its class is used in place of this rate"
                    self.ledger.approximated(part.shape_place or places[loc], note)
                else:
                    rate, burst = part.shape
                    sizes = {"burst": format_size(burst)} if burst else {}
                    written["shape"] = {"rate": format_rate(rate), **sizes}
            classes[name] = written
            places |= {(*loc, *inner): place for inner, place in part.places.items()}
        if len(classes) == 1 and set(next(iter(classes.values()))) <= {"match", "queue"}:
            ((name, only),) = classes.items()
            kept: dict[Loc, Place] = (
                {("queue",): places[("classes", name)]} if ("classes", name) in places else {}
            )
            if parent is not None:
                return Part({"queue": only.get("queue")}, places=kept)
        return Part({"classes": classes}, places=places, quanta=found.turns(names))

    def _relative(self, verdict: Verdict, outer: Sequence[Conditions]) -> Verdict:
        header = within(verdict.packets.header, outer)
        packets = replace(verdict.packets, header=header)
        return Verdict(packets, verdict.target, verdict.filter)

    def _order(
        self,
        found: Shares,
        parent: int | None,
        keys: list[int],
        landed: Sequence[tuple[Verdict, int]],
        above: dict[int, int],
    ) -> list[int]:
        """Return the classes in the order of matching; the last one takes the rest."""
        strict = found.strict(parent, keys)
        ranked = [key for key in strict if key in keys]
        rest = [key for key in keys if key not in set(ranked)]
        last = above.get(landed[-1][1], landed[-1][1]) if landed else None
        if last in rest:
            rest.remove(last)
            rest.append(last)
        elif last == 0 or last == -1:
            pass
        # Served first, and matched first: dropped and unclassified packets.
        first = [key for key in (-1, 0) if key in rest and key != last]
        return [*first, *ranked, *(key for key in rest if key not in first)]

    def _marks(
        self, own: Sequence[tuple[Verdict, int]], place: Place, *, leaf: bool
    ) -> dict[str, Any]:
        """Return the new code point and the policer of a class, if all its packets share them."""
        written: dict[str, Any] = {}
        points = {verdict.packets.dscp for verdict, _ in own}
        if len(points) > 1:
            of_ipv4, of_ipv6 = ({p for p in points if _some(own, p, version)} for version in (4, 6))
            points = of_ipv4 | of_ipv6
            if len(points) > 1 and len(of_ipv4) == 1:
                points = of_ipv4
                note = "its packets of IPv6 get the code point of those of IPv4"
                self.ledger.approximated(place, note)
        if len(points) == 1:
            (point,) = points
            if point is not None:
                written["mark"] = format_dscp(point)
        elif points:
            self.ledger.approximated(place, "its packets get different code points: not modelled")
        if leaf:
            measured = [verdict.packets for verdict, _ in own]
            police = self.policers.claim(measured, self._level, self._within)
            if police is not None:
                written["police"] = police
        return written

    # Classification

    def _verdicts(self, qdisc: Qdisc, arriving: Sequence[Packets]) -> list[Verdict]:
        """Return where the filters of a qdisc, and those of its classes, lead packets."""
        found = classify(arriving, self._filters(qdisc.handle << 16), self.policers.of_actions)
        inner = {each.classid for each in self.device.classes.values()}
        parents = {each.parent for each in self.device.filters}
        for _ in range(_DEEPEST):
            again: list[Verdict] = []
            changed = False
            for verdict in found:
                target = verdict.target
                if target in parents and target in inner:
                    nested = classify(
                        [verdict.packets], self._filters(target), self.policers.of_actions
                    )
                    changed = changed or any(each.target != target for each in nested)
                    again += nested
                else:
                    again.append(verdict)
                if len(again) > MOST_PAIRS:
                    raise TooManyRulesError("too many combinations")
            found = again
            if not changed:
                break
        return found

    def _filters(self, parent: int) -> list[Filter]:
        self.asked.add(parent)
        own = [each for each in self.device.filters if each.parent == parent]
        own.sort(key=lambda each: (each.prio, each.order))
        tables: dict[int, list[Filter]] = defaultdict(list)
        for each in own:
            if 0 < each.table < ROOT_TABLE:
                tables[each.table].append(each)
        for some in tables.values():
            some.sort(key=lambda each: (each.bucket, each.order))
        if not tables:
            return own
        flat: list[Filter] = []
        for each in own:
            if 0 < each.table < ROOT_TABLE:
                continue
            inside = self._searched(each, tables[each.link]) if each.link else ()
            flat += [self._linked(each, inner) for inner in inside] if each.link else [each]
        return flat

    def _searched(self, link: Filter, table: Sequence[Filter]) -> list[Filter]:
        """Return the filters of a hash table that a link leads to: of bucket 0 without a key."""
        if not link.hashed:
            for each in table:
                if each.bucket < 0:
                    note = "the bucket of `sample` is taken for the one that a link leads to"
                    self.ledger.approximated(each.place, note)
        return [each for each in table if link.hashed or each.bucket <= 0]

    def _linked(self, link: Filter, inner: Filter) -> Filter:
        """Return a filter of a hash table, for the packets that a filter leads there."""
        key = (id(link), id(inner))
        if key not in self._joined:
            tests = tuple(
                Test(one.header & other.header, one.marks + other.marks)
                for one in link.tests or ()
                for other in inner.tests or ()
            )
            self._joined[key] = replace(inner, tests=tests)
        return self._joined[key]

    def _by_priority(
        self, qdisc: Qdisc, found: Shares, verdicts: Sequence[Verdict]
    ) -> list[Verdict]:
        """Return the verdicts, with the classes that a packet's priority tells."""
        result = []
        prios = found.by_priority
        for verdict in verdicts:
            packets = verdict.packets
            given, target = packets.priority, verdict.target
            if qdisc.kind in ("prio", "ets") and verdict.filter is not None and target != -1:
                # Their bands have the number alone of a class (`prio_classify`, `ets_classify`).
                target = qdisc.handle << 16 | target & 0xFFFF
                verdict = replace(verdict, target=target)
            if given is not None and given >> 16 == qdisc.handle and given in found.leaves:
                result.append(Verdict(packets, given, verdict.filter))
            elif given is not None and qdisc.handle and given >> 16 == qdisc.handle and prios:
                result.append(Verdict(packets, prios[0], verdict.filter))
            elif verdict.target in found.leaves or verdict.target == -1 or not prios:
                result.append(verdict)
            elif verdict.filter is not None:
                # A filter without a class of the discipline (`prio_classify`).
                result.append(Verdict(packets, prios[0], verdict.filter))
            elif given is not None:
                result.append(Verdict(packets, prios[given & 15], verdict.filter))
            else:
                result += _by_dscp(verdict, prios)
        return result


def fit_shares(classes: Mapping[str, Any], capacity: int) -> None:
    """Reduce shares so that they fit beside the policers of strict classes and below ceilings.

    Quanta and weights of qdiscs tell only proportions, which remain: a scenario's guarantees add up
    to the whole with what these policers let pass, and none is above the ceiling of its class.

    Args:
        classes: Classes as a scenario has them; their shares are changed.
        capacity: What they divide, in bit/s.
    """
    rates: dict[str, int] = {}
    shares: dict[str, int] = {}
    for name, each in classes.items():
        police = each.get("police", DROPS)
        strict = each.get("priority") == "strict"
        given = each.get("bandwidth", "0 bps")
        if strict and police != DROPS:
            rates[name] = parse_rate(police["rate"])
        elif not strict and given.endswith("%"):
            shares[name] = parse_share(given)
        elif not strict and "bandwidth" in each:
            rates[name] = parse_rate(given)
    room = WHOLE - -(-sum(rates.values()) * WHOLE // capacity)
    fits = [(room, sum(shares.values()))]
    for name, share in shares.items():
        ceiling = classes[name].get("limit") or classes[name].get("shape", {}).get("rate")
        if ceiling is not None:
            fits.append((parse_rate(ceiling) * WHOLE // capacity, share))
    part, whole = min(fits, key=lambda fit: fit[0] / max(fit[1], 1))
    if part < whole:
        shares = {name: max(share * part // whole, 1) for name, share in shares.items()}
        for name, share in shares.items():
            classes[name]["bandwidth"] = format_share(share)
    rates |= {name: share * capacity // WHOLE for name, share in shares.items()}
    rest = max(capacity - sum(rates.values()), 0)
    takers = sum(
        name not in rates and each.get("priority") != "strict" for name, each in classes.items()
    )
    for name, each in classes.items():
        if "classes" in each:
            own = rest // max(takers, 1) if each.get("priority") != "strict" else capacity
            fit_shares(each["classes"], max(rates.get(name, own), 1))


def _some(own: Sequence[tuple[Verdict, int]], point: int | None, version: int) -> bool:
    """Return whether a class has packets of a version of IP that get a code point."""
    listed = [(verdict.packets.header, verdict.packets.dscp == point) for verdict, _ in own]
    rules = matches([*listed, (Conditions(), False)], [True, False])[True]
    return not (rules & Rules.of(OF_VERSION[version])).is_never


def _by_dscp(verdict: Verdict, prios: Sequence[int]) -> list[Verdict]:
    """Return the bands of packets by their DSCP, which Linux turns into priorities.

    It does so where it forwards packets of IPv4; those of IPv6 keep priority 0 (`ip6_forward`).
    """
    packets = verdict.packets
    bands: dict[int, set[int]] = defaultdict(set)
    for dscp in range(64) if packets.dscp is None else (packets.dscp,):
        bands[prios[priority(dscp)]].add(dscp)
    found = []
    for band, points in sorted(bands.items()):
        some = packets.narrowed(Conditions(dscp=frozenset(points)) & OF_VERSION[4])
        if band != prios[0] and some is not None:
            found.append(Verdict(some, band, verdict.filter))
    return [*found, Verdict(packets, prios[0], verdict.filter)]
