"""Reading VyOS: its policies as the qdiscs that it makes of them.

Source: `python/vyos/qos` of VyOS 1.4, whose commands of tc the policies are.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from perhop.routers.reading.configuration import Attachment, Configuration, Fault, Place
from perhop.routers.reading.linux.classify import EVERY, classify, matches
from perhop.routers.reading.linux.ledger import Ledger
from perhop.routers.reading.linux.model import ROOT, Class, Device, Filter, Options, Qdisc, Test
from perhop.routers.reading.linux.reader import attachments
from perhop.routers.reading.matching import TooManyRulesError
from perhop.routers.reading.vyos.matches import test_of
from perhop.routers.reading.vyos.tree import Node, parse
from perhop.scenario.model.dscp import format_dscp, parse_dscp
from perhop.units import format_rate, format_size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perhop.routers.reading.configuration import Loc, Source

__all__ = ["read"]

_SOURCE: Final = "VyOS 1.4, python/vyos/qos"
_RATE: Final = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,6})?)([a-z]*)")
_POWERS: Final = {"": 0, "k": 1, "ki": 1, "m": 2, "mi": 2, "g": 3, "gi": 3, "t": 4, "ti": 4}
_QUEUES: Final = {
    "fair-queue": "sfq",
    "fq-codel": "fq_codel",
    "drop-tail": "pfifo",
    "priority": "prio",
    "random-detect": "red",
    "rate-control": "tbf",
    "cake": "cake",
}
_SETTINGS: Final = {
    "queue-limit": "limit",
    "codel-quantum": "quantum",
    "flows": "flows",
    "interval": "interval",
    "target": "target",
    "hash-interval": "perturb",
    "quantum": "quantum",
}


def read(texts: Sequence[Source]) -> Configuration:
    """Return the policies of a router with VyOS."""
    ledger = Ledger([text.file for text in texts])
    top = Node("", Place("", 0), "")
    statements = [each for text in texts for each in parse(text, top)]
    told = []
    for place, line, path in statements:
        words = [node.word for node in path[1:]]
        if words[:1] in (["qos"], ["traffic-policy"]) or "traffic-policy" in words[1:]:
            ledger.about(place, line)
            told.append((place, path))
    found = _Reader(top, ledger).read()
    for place, path in told:
        if not all(node.used for node in path[1:] if node.word not in ("{",)):
            last = next(node for node in path[1:] if not node.used)
            ledger.ignored(place, f"`{last.word[:40]}` is not modelled")
    return Configuration("vyos", ledger.lines(), ledger.defaults(), tuple(found))


class _Reader:
    """The policies of a configuration and their interfaces."""

    def __init__(self, top: Node, ledger: Ledger) -> None:
        self.top = top
        self.ledger = ledger
        self._marks: dict[str, Any] = {}

    def read(self) -> list[Attachment]:
        """Return the policies at interfaces, then the others."""
        policies: dict[str, tuple[str, Node]] = {}
        for root in (self.top.get("qos", "policy"), self.top.get("traffic-policy")):
            for kind in root.each() if root is not None else ():
                for policy in kind.each():
                    policies[policy.word] = kind.word, policy
        made = {name: self._policy(kind, node) for name, (kind, node) in policies.items()}
        found: list[Attachment] = []
        used: set[str] = set()
        for interface, direction, name in self._interfaces():
            attachment = made.get(name.word)
            used.add(name.word)
            if name.word not in made:
                note = f"there is no policy {name.word[:40]}"
                self.ledger.ignored(name.place, note, Fault.UNDEFINED)
            elif attachment is not None:
                way = "out" if direction in ("egress", "out") else "in"
                if way != attachment.direction:
                    self.ledger.ignored(name.place, f"its policy is not for direction {way}")
                    continue
                found.append(replace(attachment, interface=interface))
        rest = [each for name, each in made.items() if each is not None and name not in used]
        return [*found, *rest]

    def _interfaces(self) -> list[tuple[str, str, Node]]:
        found = []
        for interface in self.top.each("qos", "interface"):
            for direction in interface.each():
                value = direction.value()
                if direction.word in ("egress", "ingress") and value is not None:
                    found.append((interface.word, direction.word, value))
        todo = [
            (name.word, name)
            for kind in self.top.each("interfaces")
            for name in kind.children.values()
        ]
        for label, node in todo:
            node.used = True
            for key, child in node.children.items():
                if key in ("vif", "vif-s", "vif-c"):
                    todo += [(f"{label}.{sub.word}", sub) for sub in child.children.values()]
                    child.used = True
            if "traffic-policy" in node.children:
                for direction in node.each("traffic-policy"):
                    value = direction.value()
                    if direction.word in ("in", "out") and value is not None:
                        found.append((label, direction.word, value))
        return found

    # Policies

    def _policy(self, kind: str, node: Node) -> Attachment | None:
        node.value("description")
        if kind == "limiter":
            return self._limiter(node)
        device = Device("")
        match kind:
            case "shaper" | "shaper-hfsc":
                self._shaper(device, node)
            case "priority-queue":
                self._priority(device, node)
            case "round-robin":
                self._round_robin(device, node)
            case "rate-control":
                rate = self._rate(node, "bandwidth", None)
                values = {"rate": f"{rate or 0}bit", "burst": node.text_of("burst") or "15k"}
                latency = node.text_of("latency") or "50"
                values["latency"] = f"{latency}ms" if latency.isdigit() else latency
                self._default(node, "burst", "15k", "latency", "50 ms")
                device.put(Qdisc("tbf", 1, ROOT, self._options(node, values), node.place))
            case "fair-queue" | "fq-codel" | "drop-tail" | "cake":
                self._queue(device, node, _QUEUES[kind], ROOT)
            case _:
                for each in node.walk():
                    each.used = True
                    self.ledger.ignored(
                        each.place, f"policies of kind {kind[:30]} are not modelled"
                    )
                return None
        return self._attached(device, node)

    def _attached(self, device: Device, node: Node) -> Attachment | None:
        found = attachments([device], self.ledger, None)
        if not found:
            return None
        made = found[0]
        marks = self._marks
        for name, point in marks.items():
            if name in made.policy["classes"]:
                made.policy["classes"][name]["mark"] = point
        marks.clear()
        return replace(made, name=node.word, places={**made.places, (): node.place})

    def _default(self, node: Node, *settings: str) -> None:
        for key, value in zip(settings[::2], settings[1::2], strict=True):
            if key not in node.children:
                self.ledger.default(node.place, key, value, _SOURCE)

    def _options(self, node: Node, values: dict[str, str]) -> Options:
        return Options(node.place, values, self.ledger)

    def _rate(self, node: Node, key: str, whole: int | None) -> int | None:
        """Return a bandwidth in bit/s: ``10mbit``, ``50%`` of `whole`, or kbit/s."""
        value = node.value(key)
        if value is None:
            return None
        text = value.word.lower()
        if text == "auto" or text.endswith("%"):
            if whole is None:
                self.ledger.ignored(value.place, "the rate of the interface is not told")
                return None
            share = text.removesuffix("%") if text != "auto" else "100"
            if not re.fullmatch(r"[0-9]{1,3}(\.[0-9]{1,6})?", share):
                self.ledger.ignored(value.place, f"`{text[:40]}` is not a bandwidth")
                return None
            return int(whole * float(share) / 100)
        match = _RATE.fullmatch(text)
        unit = match[2] if match is not None else ""
        scale, bits = (unit.removesuffix("bit"), 1)
        if unit.endswith("bps"):
            scale, bits = unit.removesuffix("bps"), 8
        if match is None or scale not in _POWERS or unit in ("k", "m", "g"):
            self.ledger.ignored(value.place, f"`{text[:40]}` is not a bandwidth")
            return None
        if not unit:
            return int(float(match[1]) * 1000)
        base = 1024 if scale.endswith("i") else 1000
        return int(float(match[1]) * bits * base ** _POWERS[scale])

    def _shaper(self, device: Device, node: Node) -> None:
        whole = self._rate(node, "bandwidth", None)
        device.put(Qdisc("htb", 1, ROOT, self._options(node, {}), node.place))
        classes = [each for each in node.each("class") if each.word.isdigit()]
        classes = sorted((each for each in classes if int(each.word) < 65000), key=_number)
        last = int(classes[-1].word) + 1 if classes else 2
        if whole is not None:
            values = {"rate": f"{whole}bit"}
            device.classes[0x10001] = Class(
                "htb", 0x10001, 0x10000, self._options(node, values), node.place
            )
        default = node.get("default")
        if default is not None:
            device.qdiscs[ROOT].options.values["default"] = f"{last:x}"
        rest = [(last, default)] if default is not None else []
        for minor, each in [*((int(each.word), each) for each in classes), *rest]:
            self._shaped(device, each, 0x10000 + minor, whole)
        self._filters(device, classes)

    def _shaped(self, device: Device, node: Node, classid: int, whole: int | None) -> None:
        rate = self._rate(node, "bandwidth", whole)
        if rate is None and "bandwidth" not in node.children and whole:
            rate = whole
            self.ledger.default(node.place, "bandwidth", "100%", _SOURCE)
        values = {"rate": f"{rate or 0}bit", "burst": node.text_of("burst") or "15k"}
        if rate is None:
            values.pop("rate")
        self._default(node, "burst", "15k")
        ceiling = self._rate(node, "ceiling", whole)
        if ceiling:
            values["ceil"] = f"{ceiling}bit"
        prio = node.text_of("priority")
        if prio:
            values["prio"] = prio
        node.value("description")
        number = classid & 0xFFFF
        device.names[classid] = f"class{number}" if node.word.isdigit() else "default"
        parent = 0x10001 if 0x10001 in device.classes else 0x10000
        device.classes[classid] = Class(
            "htb", classid, parent, self._options(node, values), node.place
        )
        kind = node.text_of("queue-type")
        if kind is None:
            kind = "fq-codel"
            self.ledger.default(node.place, "queue-type", "fq-codel", _SOURCE)
        self._queue(device, node, _QUEUES.get(kind, kind), classid)
        self._mark(node, device.names[classid])

    def _mark(self, node: Node, name: str) -> None:
        value = node.value("set-dscp")
        if value is not None:
            try:
                self._marks[name] = format_dscp(parse_dscp(value.word))
            except ValueError as error:
                self.ledger.ignored(value.place, str(error))

    def _queue(self, device: Device, node: Node, kind: str, parent: int) -> None:
        values: dict[str, str] = {}
        for key, word in _SETTINGS.items():
            text = node.text_of(key)
            if text is None or word in values:
                continue
            if key in ("interval", "target") and text.isdigit():
                text += "ms"
            if word in ("flows", "interval", "target") and kind != "fq_codel":
                continue
            if word == "quantum" and kind not in ("fq_codel", "sfq"):
                continue
            values[word] = text
        if kind == "fq_codel":
            values["noecn"] = ""
        if kind == "cake":
            rate = self._rate(node, "bandwidth", None)
            values = {"bandwidth": f"{rate}bit"} if rate else {}
            for each in ("flow-isolation", "rtt"):
                node.value(each)
        if kind == "prio":
            values = {}
        if kind == "red":
            self.ledger.approximated(node.place, "random-detect without thresholds is a FIFO")
            kind, values = "pfifo", {}
        device.put(
            Qdisc(kind, device.new_handle(), parent, self._options(node, values), node.place)
        )

    def _filters(self, device: Device, classes: Sequence[Node]) -> None:
        """Add a filter for each match, in the order of classes and matches."""
        for index, each in enumerate(classes):
            for match in each.each("match"):
                test = test_of(match, self.ledger)
                if test is not None:
                    target = 0x10000 + int(each.word)
                    device.filters.append(
                        Filter(
                            0x10000, index + 1, "u32", "all", "", (test,), target, (), match.place
                        )
                    )

    def _priority(self, device: Device, node: Node) -> None:
        classes = [each for each in node.each("class") if each.word in "1234567"]
        values = {"bands": "8"}
        qdisc = Qdisc("prio", 1, ROOT, self._options(node, values), node.place)
        last = max([int(each.word) for each in classes], default=0) + 1
        qdisc.lists["priomap"] = (str(min(last - 1, 7)),) * 16
        device.put(qdisc)
        rest = [(last, node.get("default"))]
        for minor, each in [*((int(each.word), each) for each in classes), *rest]:
            if each is None:
                continue
            each.value("description")
            device.names[0x10000 + minor] = f"class{minor}" if each.word.isdigit() else "default"
            kind = each.text_of("queue-type") or "drop-tail"
            self._default(each, "queue-type", "drop-tail")
            self._queue(device, each, _QUEUES.get(kind, kind), 0x10000 + minor)
        self._filters(device, sorted(classes, key=_number))

    def _round_robin(self, device: Device, node: Node) -> None:
        device.put(Qdisc("htb", 1, ROOT, self._options(node, {}), node.place))
        device.qdiscs[ROOT].kind = "drr"
        classes = [each for each in node.each("class") if each.word.isdigit()]
        classes = sorted((each for each in classes if int(each.word) < 65000), key=_number)
        default = node.get("default")
        for minor, each in [*((int(each.word), each) for each in classes), (65001, default)]:
            if each is None:
                continue
            each.value("description")
            values = {"quantum": each.text_of("quantum") or "1514"}
            classid = 0x10000 + minor
            device.names[classid] = f"class{minor}" if each.word.isdigit() else "default"
            device.classes[classid] = Class(
                "drr", classid, 0x10000, self._options(each, values), each.place
            )
            kind = each.text_of("queue-type") or "fq-codel"
            self._queue(device, each, _QUEUES.get(kind, kind), classid)
        self._filters(device, classes)
        if default is not None:
            every = Filter(
                0x10000, 60000, "basic", "all", "", (Test(),), 0x10000 + 65001, (), default.place
            )
            device.filters.append(every)

    def _limiter(self, node: Node) -> Attachment | None:
        """Return the policers of received packets."""
        device = Device("")
        classes = [each for each in node.each("class") if each.word.isdigit()]
        classes = sorted((each for each in classes if int(each.word) < 65000), key=_number)
        self._filters(device, classes)
        try:
            verdicts = classify([EVERY], device.filters)
            keys = list(dict.fromkeys(verdict.target for verdict in verdicts))
            rules = matches([(v.packets.header, v.target) for v in verdicts], keys)
        except TooManyRulesError as error:
            self.ledger.ignored(node.place, f"its classes: {error}")
            return None
        nodes = {0x10000 + int(each.word): each for each in classes}
        found: dict[str, Any] = {}
        places: dict[Loc, Place] = {(): node.place}
        default = node.get("default")
        for key in keys:
            own = nodes.get(key, default)
            name = f"class{key & 0xFFFF}" if key else "default"
            found[name] = {"match": rules[key].written()}
            if own is None:
                continue
            places["classes", name] = own.place
            rate = self._rate(own, "bandwidth", None)
            burst = self._options(own, {"burst": own.text_of("burst") or "15k"}).size("burst")
            self._default(own, "burst", "15k")
            own.value("description")
            if rate:
                found[name]["police"] = {
                    "rate": format_rate(rate),
                    "burst": format_size(burst or 15360),
                }
        for each in classes:
            if 0x10000 + int(each.word) not in keys:
                self.ledger.ignored(each.place, "no match leads packets to this class")
        return Attachment("", "in", node.word, {"classes": found}, places)


def _number(node: Node) -> int:
    return int(node.word)
