"""The policy of a scenario for the classes of an interface."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perhop.routers.reading.altq.nodes import Device, Entry, Node
from perhop.routers.reading.altq.shares import Guarantee, bandwidths
from perhop.routers.reading.configuration import Attachment, Fault, scenario_name
from perhop.routers.reading.decisions import matches
from perhop.routers.reading.matching import Conditions, TooManyRulesError
from perhop.scenario.model.cbq import ALTQ_CBQ
from perhop.scenario.model.hfsc import HFSC
from perhop.units import WHOLE, format_rate, format_share, format_size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perhop.routers.reading.altq.ledger import Ledger
    from perhop.routers.reading.configuration import Loc, Place

_FEW_ENTRIES: Final = 128
"""The most entries that are compared in pairs."""

ANY: Final = Conditions()


def attachment(device: Device, ledger: Ledger) -> Attachment | None:
    """Return the policy of an interface; None if it has no class."""
    if not device.top:
        ledger.ignored(device.statement, "the interface has no class")
        return None
    if device.default is None:
        ledger.approximated(
            device.statement,
            "no class is the default one: the last one takes all other packets",
        )
        device.default = device.top[-1]
    _own_packets(device, ledger)
    _service_curves(device)
    writer = _Writer(device, ledger)
    writer.places[()] = device.statement.place
    policy: dict[str, Any] = {}
    if device.scheduler != "wfq":
        policy["scheduler"] = device.scheduler
    if device.cbq:
        policy["cbq"] = dict(device.cbq)
    top = device.top
    if device.scheduler == ALTQ_CBQ and len(top) == 1 and top[0].children:
        top = top[0].children  # the root class is the policy itself
    try:
        classes = writer.classes(top, writer.entries(), device.default, device.rate, ())
    except TooManyRulesError as error:
        ledger.ignored(device.statement, f"the rules for its classes: {error}")
        return None
    policy["classes"] = classes
    shape = None
    if device.burst is not None and device.rate is not None and device.scheduler != ALTQ_CBQ:
        shape = {"rate": format_rate(device.rate), "burst": format_size(device.burst)}
    elif device.portion is not None and device.portion < WHOLE:
        shape = {"rate": format_share(device.portion)}
    return Attachment(
        device.interface,
        "out",
        device.interface,
        policy,
        writer.places,
        rate=device.rate,
        rate_place=None if device.rate is None else device.statement.place,
        shape=shape,
    )


def _service_curves(device: Device) -> None:
    """Decide whether the scenario has service curves: where they say more than shares.

    Upper limits that the interface never exceeds are none.
    """
    nodes = list(device.top)
    for node in nodes:
        nodes += node.children
        limit = node.curves.upperlimit
        if limit is not None and not limit.is_below(device.rate):
            node.curves.upperlimit = None
        if any(node.curves.beyond_shares(leaf=not node.children)) or node.curves.is_capped:
            device.scheduler = HFSC


def _own_packets(device: Device, ledger: Ledger) -> None:
    """Give classes with both packets and children a child for these packets."""
    owners: dict[int, Node] = {}

    def leaf(node: Node) -> Node:
        if not node.children:
            return node
        if id(node) not in owners:
            ledger.approximated(
                node.statement,
                "the class has packets of its own beside classes below it: these packets are a "
                f"class {node.name}_own with the rest of its bandwidth",
            )
            own = Node(
                f"{node.name}_own", node.statement, node, rank=node.rank, limit=node.limit,
                red=node.red, ecn=node.ecn, discipline=node.discipline, rest=True,
            )  # fmt: skip
            owners[id(node)] = own
        return owners[id(node)]

    device.entries = [(conditions, leaf(node)) for conditions, node in device.entries]
    if device.default is not None:
        device.default = leaf(device.default)
    for own in owners.values():
        if own.parent is not None:
            own.parent.children.append(own)


class _Writer:
    """Writes the classes of an interface."""

    def __init__(self, device: Device, ledger: Ledger) -> None:
        self.device = device
        self.ledger = ledger
        self.places: dict[Loc, Place] = {}
        self._assigned = {id(node) for _, node in device.entries}
        self._ranked = len({node.rank for node in _leaves(device.top)}) > 1

    def entries(self) -> list[Entry]:
        """Return the entries without those that no packet reaches."""
        found: dict[Conditions, Node] = {}
        for conditions, node in self.device.entries:
            if not conditions.is_never:
                found.setdefault(conditions, node)
            if conditions.is_any:
                break
        kept: list[Entry] = list(found.items())
        if len(kept) <= _FEW_ENTRIES:
            kept = [
                (conditions, node)
                for index, (conditions, node) in enumerate(kept)
                if not any(earlier.contains(conditions) for earlier, _ in kept[:index])
            ]
        return kept

    def classes(
        self,
        nodes: Sequence[Node],
        entries: Sequence[Entry],
        default: Node | None,
        rate: int | None,
        loc: Loc,
    ) -> dict[str, Any]:
        """Return classes that divide `rate` bit/s, at `loc`.

        Args:
            nodes: The classes.
            entries: The packets of these classes and of those below them.
            default: The class, one of these or below them, that takes packets without an entry.
            rate: The bandwidth that they divide.
            loc: The keys to the mapping that contains them.
        """
        inside = {id(leaf): node for node in nodes for leaf in _leaves([node])}
        owned: dict[int, list[Entry]] = {}
        for entry in entries:
            owned.setdefault(id(inside[id(entry[1])]), []).append(entry)
        fallback = None if default is None else inside[id(default)]
        used = [node for node in nodes if id(node) in owned or node is fallback]
        for node in nodes:
            if id(node) not in owned and node is not fallback:
                self._unreached(node)
        if self.device.scheduler == "priority":
            used.sort(key=lambda node: node.rank)
        elif fallback is not None:
            used.sort(key=lambda node: node is fallback)
        index = {id(node): number for number, node in enumerate(used)}
        indexed = [(conditions, index[id(inside[id(node)])]) for conditions, node in entries]
        if fallback is not None:
            indexed.append((ANY, index[id(fallback)]))
        rules = matches(indexed, range(len(used)))
        guarantees = bandwidths(used, rate, self.device.scheduler, self.ledger)
        written: dict[str, Any] = {}
        for number, node in enumerate(used):
            match = rules[number].written()
            if match == []:
                self._unreached(node)
                continue
            name = scenario_name(node.name, written)
            here = (*loc, "classes", name)
            self.places[here] = node.statement.place
            own = owned.get(id(node), [])
            given = guarantees[id(node)]
            written[name] = {
                "match": match,
                **self._settings(node, given),
                **self._inside(node, own, default if node is fallback else None, given.rate, here),
                **({"unused": True} if node.implicit else {}),
            }
            if match == "any" and number < len(used) - 1:
                for later in used[number + 1 :]:
                    self._unreached(later)
                break
        return written

    def _unreached(self, node: Node) -> None:
        if self._assigned.intersection(map(id, _leaves([node]))):
            note = (
                "other rules, which decide, take all packets that its rules assign to the class: "
                "perhop leaves it out"
            )
            self.ledger.approximated(node.statement, note, Fault.SHADOWED)
            return
        note = "no rule assigns packets to the class, so that perhop leaves it out"
        self.ledger.approximated(node.statement, note, Fault.UNUSED)

    def _settings(self, node: Node, given: Guarantee) -> dict[str, Any]:
        """Return bandwidth, borrowing, ceiling, priority and service curves of a class."""
        leaf = not node.children
        limit = node.curves.limit(leaf=leaf)
        found: dict[str, Any] = {} if given.text is None else {"bandwidth": given.text}
        if self.device.scheduler == ALTQ_CBQ:
            if not node.borrow:
                found["borrow"] = False
            if self._ranked and not node.children:
                found["priority"] = node.rank
        elif self.device.scheduler == HFSC:
            node.curves.apply(found, leaf=leaf, part=given.part, whole=given.whole)
        elif limit is not None:
            found["limit"] = str(limit.m2)
            if not limit.m2.share and limit.m2.amount < (given.rate or 0):
                self.ledger.approximated(
                    node.statement, "the limit is below the guarantee, which perhop takes as limit"
                )
                found["limit"] = format_rate(given.rate or 1)
        return found

    def _inside(
        self, node: Node, entries: Sequence[Entry], default: Node | None, got: int | None, loc: Loc
    ) -> dict[str, Any]:
        """Return the classes in a class, or its queue."""
        if node.children:
            classes = self.classes(node.children, entries, default, got, loc)
            return {"classes": classes}
        return {"queue": queue(node)}


def queue(node: Node) -> dict[str, Any]:
    """Return the queue of a class: that of ALTQ, with its RED or other discipline."""
    limit = f"{node.limit} packets"
    if node.discipline is not None:
        return {"limit": limit, **node.discipline}
    if not node.red:
        return {"limit": limit}
    low = max(node.limit // 10, 1)
    red = {
        "min": f"{low} packets",
        "max": f"{max(node.limit * 3 // 10, low + 1)} packets",
        "probability": "10%",
        "weight": "0.1953125%",
        "gentle": False,
        "ecn": node.ecn,
        **node.thresholds,
    }
    return {"limit": limit, "red": red}


def _leaves(nodes: Sequence[Node]) -> list[Node]:
    """Return the classes without children, of these and those below them."""
    found: list[Node] = []
    todo = list(reversed(nodes))
    while todo:
        node = todo.pop()
        todo += reversed(node.children)
        if not node.children:
            found.append(node)
    return found
