"""Classes of altq.conf."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perhop.routers.reading.altq.admission import Admission
from perhop.routers.reading.altq.interface import OTHERS, Filter
from perhop.routers.reading.altq.nodes import MAX_DEPTH, Node
from perhop.routers.reading.altq.values import count, milliseconds, rate, size
from perhop.routers.reading.configuration import too_many_classes
from perhop.routers.reading.curves import Curve, Curves, Slope
from perhop.routers.reading.matching import Conditions
from perhop.scenario.model.classes import MAX_CLASSES
from perhop.units import WHOLE, format_rate, format_share, quote

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from perhop.routers.reading.altq.interface import Interface
    from perhop.routers.reading.altq.ledger import Ledger, Statement

_MAN: Final = "altq.conf(5)"
_SOURCE: Final = "libaltq of KAME, qop_cbq.c"
_CONTROL_SHARE: Final = 2
"""The bandwidth of the control class in percent of the interface's."""

_CBQ_LIMIT: Final = 30
_CBQ_RED_LIMIT: Final = 60
_PACKET: Final = 1500
_BURSTS: Final = {
    "maxburst": "maxburst",
    "minburst": "minburst",
    "packetsize": "packet",
    "maxpacketsize": "packet",
}
_KINDS: Final = {
    "s": ("realtime", "linkshare"),
    "r": ("realtime",),
    "l": ("linkshare",),
    "u": ("upperlimit",),
}
"""The curves of `sc`, `rt`, `ls` and `ul`; altqd reads the first letter."""

_SHORT: Final = {"pshare": "l", "grate": "r", "bandwidth": "s", "ulimit": "u"}
"""What stands for curves of one slope."""


def read(
    ledger: Ledger,
    interface: Interface,
    statement: Statement,
    discipline: str,
    words: Sequence[str],
) -> None:
    """Read a class, after its discipline and the name of its interface."""
    of_interface = interface.discipline.partition("-")[0]
    if of_interface in OTHERS:
        ledger.ignored(statement, f"perhop does not have {OTHERS[of_interface]}")
        interface.lost.update(words[:1])
        return
    if of_interface not in ("cbq", "priq", "hfsc"):
        ledger.refused(statement, f"class can't be specified for {of_interface or 'null'}")
        return
    if discipline.partition("-")[0] != of_interface:
        ledger.refused(statement, "qname doesn't match the interface")
        return
    if len(words) < 2:
        ledger.refused(statement, "missing parent class" if words else "missing class name")
        return
    name, above = words[:2]
    parent = interface.nodes.get(above)
    top = above.lower() == "null" or (of_interface == "hfsc" and above == "root")
    note = ""
    if parent is None and not top:
        ledger.refused(
            statement,
            f"{of_interface}: bad class: can't add class '{name}' on interface "
            f"'{interface.device.interface}', as no class is {above}",
        )
        return
    if name in interface.nodes:
        note = "the interface has a class of this name"
    elif len(interface.nodes) >= MAX_CLASSES - 1:
        raise too_many_classes(statement.place, interface.device.interface)
    elif parent is not None and parent.depth + 2 >= MAX_DEPTH:
        note = f"perhop reads {MAX_DEPTH} levels of classes"
    if note:
        ledger.ignored(statement, note)
        return
    node = Node(name, statement, parent)
    _Class(ledger, interface, node, iter(words[2:])).read(of_interface)
    interface.nodes[name] = node
    if parent is not None:
        parent.children.append(node)
    else:
        interface.device.top.append(node)


class _Class:
    """Reads the options of a class."""

    def __init__(
        self, ledger: Ledger, interface: Interface, node: Node, words: Iterator[str]
    ) -> None:
        self.ledger = ledger
        self.interface = interface
        self.node = node
        self.words = words
        self.whole = interface.device.rate or 0
        self.limit: int | None = None
        self.delay: int | None = None
        self.packet = _PACKET
        self.flags: set[str] = set()
        self.rank: int | None = None
        self.curves: dict[str, tuple[int, int, int]] = {}

    def _approximated(self, note: str) -> None:
        self.ledger.approximated(self.node.statement, note)

    def _refused(self, reason: str) -> None:
        self.ledger.refused(self.node.statement, reason)

    def _not_added(self, error: str) -> None:
        """Refuse the class, with an error of libaltq (`qop_errlist`)."""
        discipline, name = self.interface.discipline, self.interface.device.interface
        self._refused(
            f"{discipline}: {error}: can't add class '{self.node.name}' on interface '{name}'"
        )

    def _count(self, word: str) -> int | None:
        text = next(self.words, "")
        value = count(text)
        if value is None:
            self._approximated(f"{word}: {quote(text)} is no number")
        return value

    def _rate(self, word: str) -> int | None:
        text = next(self.words, "")
        value = rate(text)
        if value is None:
            self._approximated(f"{word}: {quote(text)} is no rate")
        return value

    def read(self, discipline: str) -> None:
        """Read the options, and set what follows from them."""
        percent: int | None = None
        exact: int | None = None
        self.node.borrow = False
        for word in self.words:
            if word == "priority":
                self.rank = self._count(word)
            elif word == "pbandwidth" and discipline == "cbq":
                percent = self._count(word)
            elif word == "exactbandwidth" and discipline == "cbq":
                exact = self._rate(word)
            elif word in _BURSTS and discipline == "cbq":
                self._burst(word)
            elif word == "maxdelay" and discipline == "cbq":
                self.delay = self._count(word)
            elif word == "qlimit" and discipline != "cbq":
                self.limit = self._count(word)
            elif word == "admission":
                next(self.words, None)
            elif discipline == "hfsc" and self._curve(word):
                pass
            elif word in ("default", "control", "red", "rio", "ecn", "flowvalve", "borrow"):
                self.flags.add(word)
            elif word == "cleardscp":
                self.flags.add(word)
                self._approximated("clearing the code point is not modelled")
            elif self.node.parent is None or word != self.node.parent.name:  # of an old `borrow`
                self._refused(f"Unknown keyword '{word}'")
        self._queue()
        if discipline == "cbq":
            self._cbq(percent, exact)
        elif discipline == "priq":
            self._priq()
        else:
            self._hfsc()
        if "default" in self.flags:
            if self.interface.device.default is not None:
                self._not_added("bad class value")  # a second default class
            else:
                self.interface.device.default = self.node

    def _burst(self, word: str) -> None:
        setting = _BURSTS[word]
        text = next(self.words, "")
        value = (size if setting == "packet" else count)(text)
        most = 65535 if setting == "packet" else 1000
        if not value or value > most or (setting == "packet" and value < 64):
            self._approximated(f"{word}: {quote(text)} is out of range; perhop uses the default")
        else:
            if word == "packetsize":
                self.packet = min(value, _PACKET)
            values = self.interface.bursts.setdefault(setting, {})
            values.setdefault(value, []).append(self.node.statement)

    def _queue(self) -> None:
        node = self.node
        if {"red", "rio"} <= self.flags and self.interface.discipline.startswith("cbq"):
            self._refused(
                f"both red and rio defined on interface '{self.interface.device.interface}'"
            )
        node.red = bool(self.flags & {"red", "rio", "ecn", "flowvalve"})
        node.ecn = "ecn" in self.flags
        if "rio" in self.flags:
            self._approximated("RIO is RED for all drop precedences")
        if "flowvalve" in self.flags:
            self._approximated("perhop has RED without a flow valve")
        if node.red:
            self.ledger.default(
                node.statement.place,
                "RED thresholds",
                "10% and 30% of the queue limit, probability 1/10",
                "altq_rmclass.c, altq_red.h",
            )
        if self.limit:
            node.limit = self.limit

    def _cbq(self, percent: int | None, exact: int | None) -> None:
        node, whole = self.node, self.whole
        if percent is not None and percent > 100:
            self._refused(f"bad pbandwidth {percent} for {node.name}!")
        given = exact if exact is not None else (percent or 0) * (whole // 100)
        rank = 1 if self.rank is None else self.rank
        if self.rank is None:
            self.ledger.default(node.statement.place, "priority", "1", _MAN)
        if rank > 7:
            self._approximated("the highest priority is 7")
        node.rank = 7 - min(rank, 7)
        node.borrow = "borrow" in self.flags and node.parent is not None
        if not self.delay:
            # `cbq_class_spec` of libaltq's qop_cbq.c; the manual tells the first one only.
            node.limit = _CBQ_RED_LIMIT if node.red else _CBQ_LIMIT
            limit = f"{node.limit} packets"
            self.ledger.default(node.statement.place, "queue limit", limit, _SOURCE)
        if node.parent is None:
            self._root(given)
            return
        for setting, value in (
            ("maxburst", "16 packets, or 4 below about 1 Mbps"),
            ("minburst", "2 packets"),
        ):
            if setting not in node.statement.words:
                self.ledger.default(node.statement.place, setting, value, _MAN)
        self._admit(node, given)  # with what its control class gets
        if "default" in self.flags and not self.interface.no_control:
            given = self._implicit_control(given)
        if self.delay:
            packets = self.delay * given // (8 * self.packet * 1000)
            node.limit = min(max(packets, 4), 10**6)
        self._bandwidth(given)
        if "control" in self.flags or node.name == "ctl_class":
            self._control(node)

    def _admit(self, node: Node, given: int) -> None:
        """Admit a class by what its siblings have left (`qop_cbq_add_class`)."""
        allocated = self.interface.allocated
        above = _rate_of(node.parent, self.interface)
        left = above - allocated.get(id(node.parent), 0)
        if given > left:
            self._refused(
                f"cbq admission failed! {given // 1000}K requested but only {left // 1000}K "
                f"available ({(above - left) // 1000}K already allocated)"
            )
        allocated[id(node.parent)] = above - left + given

    def _root(self, given: int) -> None:
        """Set the root class: its rate is that of the policy, and its children are the top."""
        device = self.interface.device
        if given and given != device.rate:
            device.cbq["rate"] = format_rate(given)
            device.rate = given
        self.node.share = WHOLE
        self.node.borrow = True
        if len(device.top):
            self._not_added("bad class value")  # a second root class

    def _bandwidth(self, given: int) -> None:
        """Set the bandwidth as a share of the parent's, where that is exact."""
        node = self.node
        node.rate = given
        above = _rate_of(node.parent, self.interface) if node.parent is not None else self.whole
        if above and given * WHOLE % above == 0 and given <= above:
            node.share, node.rate = given * WHOLE // above, None

    def _implicit_control(self, given: int) -> int:
        """Create the control class unless there is one; return what is left of `given` bit/s."""
        node, interface = self.node, self.interface
        if interface.control is not None or node.name == "ctl_class":
            return given
        reserved = self.whole // 100 * _CONTROL_SHARE
        control = Node(
            "ctl_class", node.statement, node.parent, rank=1, limit=node.limit,
            borrow=node.borrow, implicit=True,
        )  # fmt: skip
        reserved = min(reserved, given)
        above = _rate_of(node.parent, interface) if node.parent is not None else self.whole
        control.rate = reserved
        if above and reserved * WHOLE % above == 0:
            control.share, control.rate = reserved * WHOLE // above, None
        interface.nodes.setdefault("ctl_class", control)
        if node.parent is not None:
            node.parent.children.append(control)
        self._control(control)
        self.ledger.default(
            node.statement.place,
            "control class",
            f"ctl_class with {format_share(_CONTROL_SHARE * WHOLE // 100)} of the interface, taken "
            "from the default class, and priority 6, for ICMP, IGMP and RSVP",
            _MAN,
        )
        return given - reserved

    def _control(self, node: Node) -> None:
        self.interface.control = node
        # Its filters for ICMP, IGMP and RSVP; scenarios have ICMP.
        self.interface.filters.append(
            Filter(
                node.statement,
                Conditions(protocols=frozenset(("icmp",))),
                node.name,
                node=node,
            )
        )

    def _priq(self) -> None:
        node = self.node
        if self.rank is None:
            self.ledger.default(node.statement.place, "priority", "0", _MAN)
        self._default_limit()
        node.rank = 15 - min(self.rank or 0, 15)
        taken = any(each.rank == node.rank for each in self.interface.nodes.values())
        if taken or (self.rank or 0) > 15:
            self._not_added("syscall error")  # EBUSY or EINVAL of `priqcmd_add_class`

    def _default_limit(self) -> None:
        if self.limit is None:
            self.ledger.default(self.node.statement.place, "qlimit", "50 packets", _MAN)

    def _curve(self, word: str) -> bool:
        """Read a service curve of HFSC; return whether `word` begins one."""
        if word in _SHORT:
            whole = self.whole // 100
            value = self._count(word) if word == "pshare" else self._rate(word)
            if value is not None:
                for kind in _KINDS[_SHORT[word]]:
                    m1, time, _ = self.curves.get(kind, (0, 0, 0))
                    self.curves[kind] = m1, time, value * whole if word == "pshare" else value
            return True
        if word[:1] != "[":
            return False
        kinds = _KINDS.get((word[1:2] or next(self.words, "")[:1]).lower(), ())
        first, length, last = (next(self.words, "") for _ in range(3))
        if not last.endswith("]"):
            next(self.words, "")
        slopes, d = (rate(first), rate(last.removesuffix("]"))), milliseconds(length)
        if not kinds or d is None or slopes[0] is None or slopes[1] is None:
            self._refused("Bad service curve")
        elif slopes[0] and d and not slopes[1]:
            self._approximated(f"{quote(word)}: perhop has no curve that ends with 0")
        else:
            self.curves |= dict.fromkeys(kinds, (slopes[0], d, slopes[1]))
        return True

    def _hfsc(self) -> None:
        node = self.node
        if self.rank is not None:
            self._refused("Unknown keyword 'priority'")
        if not self.curves.keys() & {"realtime", "linkshare"}:
            self._refused("hfsc: service curve not specified")
        guarantee, share = (self.curves.get(key, (0, 0, 0)) for key in ("realtime", "linkshare"))
        own = Admission(guarantee, share)
        admitted = self.interface.admitted
        reason = admitted.setdefault(id(node.parent), Admission.interface(self.whole)).refusal(own)
        admitted[id(node)] = own
        if reason is not None:
            self._not_added(reason)
        node.curves = Curves(
            **{
                kind: Curve(Slope(m2), Slope(m1) if m1 else None, d)
                for kind, (m1, d, m2) in self.curves.items()
                if m2
            }
        )
        shared = node.curves.linkshare or node.curves.realtime
        self._bandwidth(0 if shared is None else shared.m2.amount)
        self._default_limit()


def _rate_of(node: Node | None, interface: Interface) -> int:
    """Return the bandwidth of a class in bit/s."""
    shares = []
    while node is not None and node.rate is None:
        shares.append(node.share or 0)
        node = node.parent
    value = interface.device.rate or 0 if node is None else node.rate or 0
    for share in reversed(shares):
        value = value * share // WHOLE
    return value
