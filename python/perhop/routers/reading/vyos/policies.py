"""Policies of VyOS, as the qdiscs, classes and filters that it makes of them.

Source: `python/vyos/qos` of VyOS 1.4; for `traffic-policy`, `lib/Vyatta/Qos` of VyOS 1.3.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from perhop.routers.reading.configuration import Attachment, Fault
from perhop.routers.reading.linux.model import ROOT, Class, Device, Filter, Options, Qdisc, Test
from perhop.routers.reading.linux.reader import attachments
from perhop.routers.reading.vyos import queues, rates
from perhop.routers.reading.vyos.limiters import limiter
from perhop.routers.reading.vyos.matches import dscp
from perhop.routers.reading.vyos.rates import Rate
from perhop.routers.reading.vyos.statements import Statements
from perhop.scenario.model.dscp import format_dscp
from perhop.units import WHOLE, format_rate, format_share

if TYPE_CHECKING:
    from perhop.routers.reading.linux.ledger import Ledger
    from perhop.routers.reading.vyos.tree import Node

__all__ = ["Builder"]

_DEFAULT_PRIORITY: Final = 7
_QUANTUM: Final = "1514"
_LEAST_QUANTUM: Final = 1000
_MOST_QUANTUM: Final = 200_000
"""The greatest quantum of HTB in Linux, in bytes."""

_NO_CURVE: Final = "VyOS makes no curve of it: its classes have `linkshare` only"
_NO_QUANTUM: Final = "as documented; the script of VyOS 1.5 (2024) passes no quantum to its classes"
_NO_FILTER: Final = (
    "as documented; the script of VyOS 1.5 (2024) leads no packets to the default class of rounds"
)
_NO_MARK: Final = "as documented; the script of VyOS 1.5 (2024) marks no packets"
_OLD_MARK: Final = (
    "as documented; the script of VyOS 1.3 leads packets to a class with `set-dscp` by their DSCP "
    "alone"
)
_OLD_RED: Final = (
    "the thresholds of RED are 250 ms of the shaper's bandwidth, which the configuration does not "
    "tell: they are those of 1 Gb/s"
)
_CURVES: Final = {"linkshare": "ls", "realtime": "rt", "upperlimit": "ul"}
_EMULATED: Final = (
    *("delay", "loss", "corruption", "reordering", "duplicate"),
    *("network-delay", "packet-loss", "packet-corruption", "packet-reordering"),
)

_ISOLATIONS: Final = {
    "blind": "flowblind",
    "src-host": "srchost",
    "dst-host": "dsthost",
    "host": "hosts",
    "flow": "flows",
    "dual-src-host": "dual-srchost",
    "dual-dst-host": "dual-dsthost",
    "triple-isolate": "triple-isolate",
}
"""The words of CAKE's flow isolation, and those of tc (VyOS 1.4, qos/cake.py)."""


class Builder(Statements):
    """Builds the policy of an interface."""

    def __init__(
        self, ledger: Ledger, groups: Node | None, speed: int | None, *, older: bool
    ) -> None:
        super().__init__(ledger, groups, speed, older=older)
        self._whole = self.interface
        self._overbooked = 0  # the sum of shares of an unknown rate
        self._marks: dict[str, str | int] = {}
        self._shares: dict[tuple[str, str], int] = {}

    def build(self, kind: str, node: Node) -> Attachment | None:
        """Return the policy that a node states; None if its kind is not modelled."""
        node.value("description")
        device = Device("", framing=None)
        match kind:
            case "limiter":
                return limiter(self, node)
            case "shaper":
                self._shaper(device, node)
            case "shaper-hfsc":
                self._hfsc(device, node)
            case "priority-queue":
                self._priority(device, node)
            case "round-robin":
                self._round_robin(device, node)
            case "rate-control":
                self._rate_control(device, node)
            case "network-emulator":
                return self._emulator(device, node)
            case "random-detect":
                return self._random_detect(node)
            case "cake":
                self._cake(device, node)
            case "fair-queue" | "fq-codel" | "drop-tail":
                self._queue(device, node, kind, ROOT)
            case _:
                for each in node.walk():
                    each.used = True
                    note = f"policies of kind {kind[:30]} are not modelled"
                    self.ledger.ignored(each.place, note)
                return None
        return self._attached(device, node)

    def _attached(self, device: Device, node: Node) -> Attachment | None:
        found = attachments([device], self.ledger, None)
        if not found:
            return None
        made = found[0]
        classes = made.policy["classes"]
        for name, point in self._marks.items():
            if name in classes:
                classes[name]["mark"] = point
        for (name, key), share in self._shares.items():
            if not str(classes.get(name, {}).get(key, "%")).endswith("%"):
                classes[name][key] = format_share(share)
        shape = self._shape(made.shape)
        return replace(made, name=node.word, shape=shape, places={**made.places, (): node.place})

    def _shape(self, shape: dict[str, str] | None) -> dict[str, str] | None:
        """Return a shaper whose rate may be a share of an unknown one; None for all of it."""
        if shape is None or self._whole.share is None:
            return shape
        if self._whole.share >= WHOLE and "burst" not in shape:
            return None
        return {**shape, "rate": format_share(min(self._whole.share, WHOLE))}

    def _policy_rate(self, node: Node) -> Rate:
        """Return the bandwidth of a shaper, and take it for the whole of its classes."""
        found = self.rate(node, "bandwidth", self.interface)
        if "bandwidth" not in node.children:
            self.default(node, "bandwidth", "auto")
        self._whole = self.interface if found is None else found
        return self._whole

    def _name(self, device: Device, node: Node, classid: int) -> str:
        minor = classid & 0xFFFF
        device.names[classid] = f"class{minor}" if node.word.isdecimal() else "default"
        node.value("description")
        return device.names[classid]

    # Policies

    def _shaper(self, device: Device, node: Node) -> None:
        whole = self._policy_rate(node)
        classes = self.classes(node)
        options = {"r2q": str(self._r2q(node, classes, whole))} if self.older else {}
        device.put(Qdisc("htb", 1, ROOT, self.options(node, options), node.place))
        last = int(classes[-1].word) + 1 if classes else 2
        values = {"rate": f"{whole.bits}bit"}
        device.names[0x10001] = "shaper"
        if whole.share is not None:
            self._shares["shaper", "bandwidth"] = whole.share
        device.classes[0x10001] = Class(
            "htb", 0x10001, 0x10000, self.options(node, values), node.place
        )
        default = node.get("default")
        rest = []
        if default is not None:
            device.qdiscs[ROOT].options.values["default"] = f"{last:x}"
            rest = [(last, default)]
        self.filters(device, classes, shaped=True)
        if whole.share is not None:
            reached = {each.target for each in device.filters}
            counted = [each for each in classes if 0x10000 + int(each.word) in reached]
            given = [self._guaranteed(each, whole) for each in (*counted, *(d for _, d in rest))]
            total = sum(each.bits for each in given if each is not None)
            self._overbooked = total * WHOLE // whole.bits
        for minor, each in [*((int(each.word), each) for each in classes), *rest]:
            self._shaped(device, each, 0x10000 + minor, whole)
        if not self.older:
            self._turns(device)

    def _shaped(self, device: Device, node: Node, classid: int, whole: Rate) -> None:
        """Add a class of a shaper."""
        name = self._name(device, node, classid)
        is_default = not node.word.isdecimal()
        rate = given = self._guaranteed(node, whole)
        if rate is not None and self._overbooked > WHOLE:
            rate = replace(rate, bits=max(rate.bits * WHOLE // self._overbooked, 1))
            if rate.share is not None:
                rate = replace(rate, share=max(rate.share * WHOLE // self._overbooked, 1))
            self.ledger.approximated(
                node.place,
                f"the bandwidths of the classes are {format_share(self._overbooked)} of the "
                "shaper's; perhop reduces them in proportion",
                Fault.ABOVE_PARENT,
            )
        values = {} if rate is None else {"rate": f"{rate.bits}bit"}
        values["burst"] = node.text_of("burst") or "15k"
        self.default(node, "burst", "15k")
        read = self.rate if is_default else self.of_interface
        ceiling = read(node, "ceiling", whole) or given
        if ceiling is not None:
            values["ceil"] = f"{ceiling.bits}bit"
        for key, bandwidth in (("bandwidth", rate), ("limit", ceiling)):
            if bandwidth is not None and bandwidth.share is not None:
                self._shares[name, key] = bandwidth.share
        prio = node.text_of("priority")
        if prio is None and is_default and not self.older:
            prio = str(_DEFAULT_PRIORITY)
            self.default(node, "priority", f"{prio}, after other classes")
        if prio:
            values["prio"] = prio
        if not self.older:
            values["quantum"] = node.text_of("codel-quantum") or _QUANTUM
            self.default(node, "codel-quantum", f"{_QUANTUM} B")
        parent = 0x10001
        device.classes[classid] = Class(
            "htb", classid, parent, self.options(node, values), node.place
        )
        kind = node.text_of("queue-type")
        if kind is None:
            kind = "fq-codel"
            self.default(node, "queue-type", kind)
        self._queue(device, node, kind, classid, whole)
        self._mark(node, name)

    def _r2q(self, node: Node, classes: list[Node], whole: Rate) -> int:
        """Return what VyOS 1.3 divides rates by for the quanta of HTB (`_r2q`)."""
        default = node.get("default")
        given = [self._guaranteed(each, whole) for each in (*classes, default) if each is not None]
        most = whole.bits // 8
        least = min([most, *(each.bits // 8 for each in given if each is not None)])
        if most >= 10 * _MOST_QUANTUM:
            return -(-most // _MOST_QUANTUM)
        found = 10
        while found > 1 and least < _LEAST_QUANTUM * found and most < _MOST_QUANTUM * (found - 1):
            found -= 1
        return found

    def _guaranteed(self, node: Node, whole: Rate) -> Rate | None:
        """Return the bandwidth of a class of a shaper."""
        if "bandwidth" in node.children:
            return self.rate(node, "bandwidth", whole)
        self.default(node, "bandwidth", "100%")
        return Rate(whole.bits, None if whole.share is None else WHOLE)

    def _turns(self, device: Device) -> None:
        """Note classes that borrow in turns of bytes that are not in proportion to their rates."""
        groups: dict[str, list[tuple[Class, float]]] = {}
        for each in device.classes.values():
            rate, ceiling = each.options.rate("rate"), each.options.rate("ceil")
            quantum = each.options.size("quantum")
            if rate and ceiling and quantum and ceiling > rate:
                prio = each.options.values.get("prio", "0")
                groups.setdefault(prio, []).append((each, quantum / rate))
        for group in groups.values():
            ratios = [ratio for _, ratio in group]
            if max(ratios) > 1.01 * min(ratios):
                for each, _ in group:
                    self.ledger.approximated(
                        each.place,
                        "the class borrows in turns of `codel-quantum` bytes; perhop lends in "
                        "proportion to bandwidths",
                    )

    def _without_effect(self, node: Node, note: str) -> None:
        """Note all lines below a node as not modelled."""
        for each in node.walk():
            each.used = True
            self.ledger.ignored(each.place, note)

    def _mark(self, node: Node, name: str) -> None:
        value = node.value("set-dscp")
        if value is not None:
            self.ledger.approximated(value.place, _OLD_MARK if self.older else _NO_MARK)
            try:
                self._marks[name] = format_dscp(dscp(value.word))
            except ValueError as error:
                self.ledger.ignored(value.place, str(error)[:160])

    def _hfsc(self, device: Device, node: Node) -> None:
        """Add the classes of HFSC, each with its service curves."""
        whole = self._policy_rate(node)
        classes = self.classes(node)
        last = int(classes[-1].word) + 1 if classes else 2
        values = {"default": f"{last:x}"}
        device.put(Qdisc("hfsc", 1, ROOT, self.options(node, values), node.place))
        rate = f"rate {whole.bits}bit"
        device.classes[0x10001] = Class(
            "hfsc", 0x10001, 0x10000, self.options(node, {"sc": rate, "ul": rate}), node.place
        )
        default = node.get("default")
        rest = [(last, default)] if default is not None else []
        for minor, each in [*((int(each.word), each) for each in classes), *rest]:
            classid = 0x10000 + minor
            name = self._name(device, each, classid)
            curves, places = {}, {}
            for word, short in _CURVES.items():
                curve = each.get(word)
                if curve is not None and short != "ls" and not self.older:
                    self._without_effect(curve, _NO_CURVE)
                    continue
                slope = self._slope(curve, "m2", whole, each) if curve is not None else None
                if curve is None or slope is None:
                    continue
                first = self._slope(curve, "m1", whole, each)
                curve.value("d")
                key = "limit" if short == "ul" else "bandwidth"
                if slope.share is not None:
                    self._shares[name, key] = slope.share
                burst = "" if first is None or first == slope else f"m1 {first.bits}bit "
                curves[short], places[short] = f"{burst}m2 {slope.bits}bit", curve.place
            options = Options(each.place, curves, self.ledger, places)
            device.classes[classid] = Class("hfsc", classid, 0x10001, options, each.place)
            self._queue(device, each, "fair-queue", classid)
        self.filters(device, classes, shaped=True)

    def _slope(self, curve: Node, key: str, whole: Rate, of: Node) -> Rate | None:
        """Return a slope of a curve of HFSC.

        VyOS takes the share of the default class twice, of the speed of the interface
        (`trafficshaper.py`).
        """
        if self.older or (not of.word.isdecimal() and self.speed is None):
            return self.of_interface(curve, key, whole)
        if of.word.isdecimal():
            return self.rate(curve, key, whole)
        once = self.rate(curve, key, self.interface)
        value = curve.text_of(key)
        return self.rate(curve, key, once) if once and value and rates.share(value) else once

    def _rate_control(self, device: Device, node: Node) -> None:
        rate = self._policy_rate(node)
        values = {"rate": f"{rate.bits}bit", "burst": node.text_of("burst") or "15k"}
        latency = node.text_of("latency") or "50"
        values["latency"] = f"{latency}ms" if latency.isdecimal() else latency
        self.default(node, "burst", "15k", "latency", "50 ms")
        device.put(Qdisc("tbf", 1, ROOT, self.options(node, values), node.place))

    def _cake(self, device: Device, node: Node) -> None:
        values = {}
        if "bandwidth" in node.children:
            values["bandwidth"] = f"{self._policy_rate(node).bits}bit"
        rtt = node.text_of("rtt")
        if rtt is not None:
            values["rtt"] = f"{rtt}ms"
        for each in node.each("flow-isolation"):
            if each.word == "nat":
                self.ledger.ignored(each.place, "connections are not looked up")
            elif each.word in _ISOLATIONS:
                values[_ISOLATIONS[each.word]] = ""
            else:
                self.ledger.ignored(each.place, f"`flow-isolation {each.word[:30]}` is unknown")
        if (nat := node.get("flow-isolation-nat")) is not None:
            self.ledger.ignored(nat.place, "connections are not looked up")
        device.put(Qdisc("cake", 1, ROOT, self.options(node, values), node.place))

    def _emulator(self, device: Device, node: Node) -> Attachment | None:
        """Return the rate and the queue of an emulated network."""
        for key in _EMULATED:
            value = node.value(key)
            if value is not None:
                note = "delay, loss and reordering belong to the link of a scenario"
                self.ledger.ignored(value.place, note)
        shape = None
        if "bandwidth" in node.children:
            shape = self._shape({"rate": format_rate(self._policy_rate(node).bits)})
        node.value("burst")
        limit = node.text_of("queue-limit") or "1000"
        self.default(node, "queue-limit", "1000")
        device.put(Qdisc("pfifo", 1, ROOT, self.options(node, {"limit": limit}), node.place))
        made = self._attached(device, node)
        return None if made is None else replace(made, shape=shape)

    def _random_detect(self, node: Node) -> Attachment:
        node.value("bandwidth")  # of idle times only
        found = queues.random_detect(node, self.ledger, self.source, older=self.older)
        classes = {"all": {"match": "any", "queue": dict(found or {})}}
        return Attachment("", "out", node.word, {"classes": classes}, {(): node.place})

    def _queue(
        self, device: Device, node: Node, kind: str, parent: int, whole: Rate | None = None
    ) -> None:
        """Add a queue, in a class of a shaper of this bandwidth."""
        qdisc, red = queues.KINDS.get(kind, kind), None
        if self.older and qdisc == "red":
            red = queues.older_red(node, None if whole is None else whole.bits)
            if whole is not None and whole.share is not None:
                self.ledger.approximated(node.place, _OLD_RED)
        queues.put(device, node, qdisc, parent, self.ledger, self.source, red)

    def _priority(self, device: Device, node: Node) -> None:
        classes = [each for each in self.classes(node) if each.word in set("1234567")]
        qdisc = Qdisc("prio", 1, ROOT, self.options(node, {"bands": "8"}), node.place)
        last = max([int(each.word) for each in classes], default=0) + 1
        qdisc.lists = {**qdisc.lists, "priomap": (str(min(last - 1, 7)),) * 16}
        device.put(qdisc)
        for minor, each in [
            *((int(each.word), each) for each in classes),
            (last, node.get("default")),
        ]:
            if each is None:
                continue
            self._name(device, each, 0x10000 + minor)
            kind = each.text_of("queue-type") or "drop-tail"
            self.default(each, "queue-type", "drop-tail")
            self._queue(device, each, kind, 0x10000 + minor)
        self.filters(device, classes, shaped=False)

    def _round_robin(self, device: Device, node: Node) -> None:
        device.put(Qdisc("drr", 1, ROOT, self.options(node, {}), node.place))
        classes = self.classes(node)
        default = node.get("default")
        for minor, each in [*((int(each.word), each) for each in classes), (65001, default)]:
            if each is None:
                continue
            classid = 0x10000 + minor
            self._name(device, each, classid)
            quantum = each.value("quantum")
            if quantum is not None and not self.older:
                self.ledger.approximated(quantum.place, _NO_QUANTUM)
            values = {"quantum": _QUANTUM if quantum is None else quantum.word}
            device.classes[classid] = Class(
                "drr", classid, 0x10000, self.options(each, values), each.place
            )
            usual = "fair-queue" if each is default else "drop-tail"
            kind = each.text_of("queue-type") or usual
            self.default(each, "quantum", f"{_QUANTUM} B", "queue-type", usual)
            self._queue(device, each, kind, classid)
        self.filters(device, classes, shaped=False)
        if default is not None:
            if not self.older:
                self.ledger.approximated(default.place, _NO_FILTER)
            every = Filter(
                0x10000, 60000, "basic", "all", "", (Test(),), 0x10000 + 65001, (), default.place
            )
            device.filters.append(every)
