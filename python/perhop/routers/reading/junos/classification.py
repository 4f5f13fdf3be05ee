"""Forwarding classes, and the classifiers and rewrite rules that link them with code points."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from perhop.routers.reading.junos.tree import chosen
from perhop.routers.reading.junos.values import (
    DSCP_ALIASES,
    LINK_ALIASES,
    PRECEDENCE_ALIASES,
    code_point,
)

if TYPE_CHECKING:
    from perhop.routers.reading.configuration import Place
    from perhop.routers.reading.junos.tree import Node

LOSS_PRIORITIES: Final = ("low", "medium-low", "medium-high", "high")

QUEUES: Final = {
    "best-effort": 0,
    "expedited-forwarding": 1,
    "assured-forwarding": 2,
    "network-control": 3,
}
"""The queues of the forwarding classes that every router has."""

BITS: Final = {"dscp": 6, "dscp-ipv6": 6, "inet-precedence": 3, "ieee-802.1": 3, "exp": 3}
"""The bits of a code point of each kind of classifier."""

LINK_KINDS: Final = {"ieee-802.1": "pcp", "exp": "mpls_tc"}
"""Kinds of code points at layer 2, and their keys in scenarios."""

NO_HEADER: Final = {
    "ieee-802.1ad": "the drop eligibility of VLAN tags is not modelled",
    "ieee-802.1p": "the code points of VLAN tags are `ieee-802.1`",
}
"""Kinds of code points in headers that perhop does not have."""


def _default_precedence() -> dict[int, tuple[str, str]]:
    table = {code: ("best-effort", ("low", "high")[code % 2]) for code in range(6)}
    return table | {6: ("network-control", "low"), 7: ("network-control", "high")}


def _explicit_precedence() -> dict[int, tuple[str, str]]:
    table = dict.fromkeys(range(8), ("best-effort", "low"))
    table |= {1: ("assured-forwarding", "low"), 5: ("expedited-forwarding", "low")}
    return table | {6: ("network-control", "low"), 7: ("network-control", "high")}


def _default_dscp() -> dict[int, tuple[str, str]]:
    table = dict.fromkeys(range(64), ("best-effort", "low"))
    table |= {10: ("assured-forwarding", "low"), 46: ("expedited-forwarding", "low")}
    table |= dict.fromkeys((12, 14), ("assured-forwarding", "high"))
    return table | {48: ("network-control", "low"), 56: ("network-control", "low")}


_DEFAULT_LINK: Final = {
    code: (name, loss)
    for code, (name, loss) in enumerate((name, loss) for name in QUEUES for loss in ("low", "high"))
}
"""The default classifiers of MPLS labels and VLAN tags."""

IMPLICIT: Final = "ipprec-compatibility"
"""The classifier of IP precedences that applies where no other one does."""

DEFAULT_CLASSIFIERS: Final = {
    **dict.fromkeys(LINK_KINDS, _DEFAULT_LINK),
    IMPLICIT: _default_precedence(),
    "inet-precedence": _explicit_precedence(),
    "dscp": _default_dscp(),
    "dscp-ipv6": _default_dscp(),
}
"""The implicit classifier, and those that ``default`` stands for (Juniper, Default IP Precedence
Classifier, Default DSCP and DSCP IPv6 Classifiers, Default MPLS EXP Classifier)."""

_DEFAULT_REWRITE: Final = {
    ("expedited-forwarding", "low"): 46,
    ("expedited-forwarding", "high"): 46,
    ("assured-forwarding", "low"): 10,
    ("assured-forwarding", "high"): 12,
    ("best-effort", "low"): 0,
    ("best-effort", "high"): 0,
    ("network-control", "low"): 48,
    ("network-control", "high"): 56,
}


_DEFAULT_LINK_REWRITE: Final = {
    ("expedited-forwarding", "low"): 2,
    ("expedited-forwarding", "high"): 2,
    ("assured-forwarding", "low"): 4,
    ("assured-forwarding", "high"): 5,
    ("best-effort", "low"): 0,
    ("best-effort", "high"): 0,
    ("network-control", "low"): 6,
    ("network-control", "high"): 7,
}
"""The default rewrite rule of MPLS labels (Junos CoS guide, applying default rewrite rules)."""


@dataclass(frozen=True, slots=True)
class Classifier:
    """A behaviour aggregate classifier.

    Attributes:
        name: Its name in the configuration, or that of the default.
        table: The forwarding class and loss priority of each DSCP, or of each class at layer 2;
            others are best effort.
        place: Its line; None for a default.
        key: The key of the classes at layer 2 in scenarios; "" for DSCPs.
        before: The classifiers of packets with tags and labels, which decide first.
    """

    name: str
    table: dict[int, tuple[str, str]]
    place: Place | None
    key: str = ""
    before: tuple[Classifier, ...] = ()


@dataclass(slots=True)
class Classes:
    """The forwarding classes of a router.

    Attributes:
        queues: The queue of each class.
        places: The line of each class that the configuration defines.
        own: The classes of packets that the router itself sends.
    """

    queues: dict[str, int] = field(default_factory=dict)
    places: dict[str, Place] = field(default_factory=dict)
    own: frozenset[str] = frozenset()

    def queue(self, name: str) -> int | str:
        """Return the queue of a class; of an undefined class, its name."""
        return self.queues.get(name, name)

    def default(self, name: str) -> str:
        """Return the class that stands where the platform's own has this name."""
        if name in self.queues:
            return name
        queue = QUEUES[name]
        return next((own for own, number in self.queues.items() if number == queue), name)


def read_classes(cos: Node) -> Classes:
    """Return the forwarding classes of a configuration, and the platform's own."""
    host = cos.under("host-outbound-traffic", "forwarding-class")
    classes = Classes(own=frozenset(each.word for each in host))
    top = cos.get("forwarding-classes")
    for name in top.under("class") if top is not None else []:
        number = name.value("queue-num")
        if number is not None and number.word.isdecimal() and len(number.word) < 3:
            classes.queues[name.word] = int(number.word)
            name.modelled(whole=False)
            number.modelled()
        else:
            name.ignored("names no queue", whole=False)
        classes.places[name.word] = name.place
        for key in ("no-loss", "priority", "policing-priority", "pfc-priority"):
            if (setting := name.get(key)) is not None:
                setting.ignored("belongs to the fabric or to other platforms' queues")
    for queue in top.under("queue") if top is not None else []:
        if not queue.word.isdecimal() or len(queue.word) > 2:
            continue
        last = chosen(list(queue))
        if last is not None and last.word not in classes.queues:
            classes.queues[last.word] = int(queue.word)
            classes.places[last.word] = last.place
            last.modelled(whole=False)
            for setting in last:
                setting.ignored("belongs to the fabric")
    taken = set(classes.queues.values())
    for name_, number_ in QUEUES.items():
        if name_ not in classes.queues and number_ not in taken:
            classes.queues[name_] = number_
    return classes


class CodePoints:
    """The code points of a router: aliases, classifiers and rewrite rules."""

    def __init__(self, cos: Node, classes: Classes) -> None:
        self.cos = cos
        self.classes = classes
        self.aliases: dict[str, dict[str, int]] = {
            "dscp": dict(DSCP_ALIASES),
            "dscp-ipv6": dict(DSCP_ALIASES),
            "inet-precedence": dict(PRECEDENCE_ALIASES),
            **{kind: dict(LINK_ALIASES) for kind in LINK_KINDS},
        }
        for kind in cos.under("code-point-aliases"):
            if kind.word in NO_HEADER:
                kind.ignored(NO_HEADER[kind.word])
                continue
            for alias in kind if kind.word in BITS else ():
                bits = next(iter(alias), None)
                value = code_point(bits.word, BITS[kind.word], {}) if bits is not None else None
                if value is None:
                    alias.ignored(f"expected {BITS[kind.word]} binary digits")
                else:
                    self.aliases[kind.word][alias.word] = value
                    alias.modelled()
        self._read: dict[tuple[str, str], Classifier | None] = {}

    def default_classifier(self, kind: str) -> Classifier:
        """Return the platform's classifier of a kind, or the one named `IMPLICIT`."""
        rename = self.classes.default
        table = {
            code: (rename(name), loss) for code, (name, loss) in DEFAULT_CLASSIFIERS[kind].items()
        }
        if kind == IMPLICIT:
            return Classifier(kind, _by_dscp(table, "inet-precedence"), None)
        return Classifier(f"{kind}-default", _by_dscp(table, kind), None, LINK_KINDS.get(kind, ""))

    def classifier(self, kind: str, name: str) -> Classifier | None:
        """Return a classifier of a kind in `BITS` by name; None if there is none."""
        key = (kind, name)
        if key not in self._read:
            self._read[key] = None  # for one that imports itself
            self._read[key] = self._classifier(kind, name)
        return self._read[key]

    def _classifier(self, kind: str, name: str) -> Classifier | None:
        node = self.cos.get("classifiers", kind, name)
        if node is None:
            if name == IMPLICIT and kind == "inet-precedence":
                return self.default_classifier(IMPLICIT)
            if name in ("default", f"{kind}-default", "ipprec-default", "ieee8021p-default"):
                return self.default_classifier(kind)
            return None
        table: dict[int, tuple[str, str]] = {}
        imported = node.value("import")
        if imported is not None:
            if imported.word == "default":
                other: Classifier | None = self.default_classifier(kind)
            else:
                other = self.classifier(kind, imported.word)
            if other is None:
                imported.undefined("there is no such classifier")
            else:
                table |= other.table
                imported.modelled()
        for forwarding in node.under("forwarding-class"):
            for loss in forwarding.under("loss-priority"):
                known = loss.word in LOSS_PRIORITIES
                for points in (*loss.under("code-points"), *loss.under("code-point")):
                    value = code_point(points.word, BITS[kind], self.aliases[kind])
                    if value is None:
                        points.ignored(f"is no code point of {BITS[kind]} bits")
                    elif not known:
                        points.ignored(f"expected one of {', '.join(LOSS_PRIORITIES)}")
                    else:
                        entry = {value: (forwarding.word, loss.word)}
                        table |= _by_dscp(entry, kind)
                        points.modelled()
        return Classifier(name, table, node.place, LINK_KINDS.get(kind, ""))

    def rewrite(self, kind: str, name: str) -> dict[tuple[str, str], int] | None:
        """Return what a rewrite rule of a kind in `BITS` gives; None if there is none.

        It gives DSCPs, or the classes at layer 2 of a kind in `LINK_KINDS`.
        """
        node = self.cos.get("rewrite-rules", kind, name)
        rename = self.classes.default
        usual = _DEFAULT_LINK_REWRITE if kind in LINK_KINDS else _DEFAULT_REWRITE
        default = {(rename(each), loss): code for (each, loss), code in usual.items()}
        if node is None:
            return default if name in ("default", f"{kind}-default") else None
        table: dict[tuple[str, str], int] = {}
        imported = node.value("import")
        if imported is not None:
            if imported.word == "default":
                table |= default
                imported.modelled()
            else:
                imported.ignored("perhop imports only the default rewrite rule")
        for forwarding in node.under("forwarding-class"):
            for loss in forwarding.under("loss-priority"):
                point = loss.value("code-point") or loss.value("code-points")
                value = (
                    code_point(point.word, BITS[kind], self.aliases[kind])
                    if point is not None
                    else None
                )
                if value is None:
                    loss.ignored(f"expected a code point of {BITS[kind]} bits")
                elif kind == "inet-precedence":
                    table[forwarding.word, loss.word] = value << 3
                    loss.approximated("the last three bits of the code point become 0")
                else:
                    table[forwarding.word, loss.word] = value
                    loss.modelled()
        return table


def _by_dscp(table: dict[int, tuple[str, str]], kind: str) -> dict[int, tuple[str, str]]:
    """Return a table of precedences as one of DSCPs."""
    if kind != "inet-precedence":
        return table
    return {code << 3 | rest: value for code, value in table.items() for rest in range(8)}
