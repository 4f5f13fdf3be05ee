"""The packets of each queue of pf.conf, as rules assign and block them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perhop.routers.reading.altq.values import tos_dscps
from perhop.routers.reading.configuration import Fault
from perhop.routers.reading.matching import Conditions
from perhop.units import quote

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from perhop.routers.reading.altq.ledger import Ledger
    from perhop.routers.reading.altq.nodes import Device, Entry, Node
    from perhop.routers.reading.altq.rules import Rule

__all__ = ["assign"]

_LOW_DELAY: Final = frozenset(range(64)) - tos_dscps(0, 0x10)
"""The code points of an octet with the bit of low delay."""

_MAX_BLOCKED: Final = 2**17
"""The most pairs of rules, of which one blocks packets and one assigns a queue, at an interface."""


def assign(
    ledger: Ledger, devices: Sequence[Device], lost: Collection[str], rules: Sequence[Rule]
) -> None:
    """Set the packets of the classes of each interface, as the rules assign them.

    Args:
        ledger: The account of lines that this changes.
        devices: The interfaces.
        lost: Names of queues that are not modelled.
        rules: The rules in the order of the file.
    """
    known: set[str] = set()
    for device in devices:
        nodes = _by_name(device)
        known |= nodes.keys()
        device.entries = _entries(device, nodes, rules, _Blocks(ledger))
    replies = False
    for rule in rules:
        for name in {rule.queue, rule.urgent} - {""}:
            if name not in known and name in lost:
                ledger.ignored(rule.statement, f"the queue {quote(name)} is not modelled")
            elif name not in known and not rule.blocks:
                note = f"{quote(name)} is not a queue of an interface"
                ledger.ignored(rule.statement, note, Fault.UNDEFINED)
        assigns = rule.queue and not rule.blocks
        if assigns and rule.direction != "out" and rule.stateful and not replies:
            ledger.approximated(
                rule.statement,
                "replies, which follow the state of a connection: perhop takes all packets in the "
                "opposite direction for replies, here and in similar rules",
            )
            replies = True


def _by_name(device: Device) -> dict[str, Node]:
    found: dict[str, Node] = {}
    todo = list(device.top)
    while todo:
        node = todo.pop()
        found.setdefault(node.name, node)
        todo += node.children
    return found


def _entries(
    device: Device, nodes: Mapping[str, Node], rules: Sequence[Rule], blocks: _Blocks
) -> list[Entry]:
    """Return the packets that an interface sends, and the class of each; the first one decides.

    Packets get a queue of, in this order: the rule whose reply they are, if it names a port; the
    last rule for sending at the interface, or an earlier `quick` one; other rules whose reply they
    are; rules at other interfaces, whose queue a packet keeps.
    """
    here = [rule for rule in rules if rule.at(device.interface)]
    received = [rule for rule in here if rule.direction != "out" and rule.stateful]
    services = [rule for rule in received if rule.blocks or rule.conditions.destination_ports]
    others = [rule for rule in received if rule.blocks or not rule.conditions.destination_ports]
    sent = [rule for rule in here if rule.direction != "in"]
    if any(rule.matches and rule.queue for rule in sent):
        # Rules to pass without a queue keep the queue of an earlier `match`.
        sent = [rule for rule in sent if rule.queue or (rule.quick and not rule.matches)]
    else:
        sent = [rule for rule in sent if not rule.matches]
    elsewhere = [
        rule
        for rule in rules
        if (rule.queue or rule.blocks) and rule.interfaces and not rule.at(device.interface)
    ]
    found: list[Entry] = []
    for group, reply, plain in (
        (services, True, True),
        (sent, False, True),
        (others, True, False),
        ([rule for rule in elsewhere if rule.direction != "out"], False, False),
        ([rule for rule in elsewhere if rule.direction == "out"], True, False),
    ):
        for rule in blocks.passing(_first_decides(group), reply=reply):
            node = nodes.get(rule.queue, device.default)
            if node is None or (rule.queue not in nodes and not plain and not rule.blocks):
                continue
            if rule.matches and not rule.queue:
                continue
            packets = rule.packets(reply=reply)
            urgent = nodes.get(rule.urgent)
            if urgent is not None:
                found.append((packets & Conditions(_LOW_DELAY), urgent))
            found.append((packets, node))
    return found


def _first_decides(rules: Sequence[Rule]) -> Iterator[Rule]:
    """Return rules, of which the last one or a `quick` one decides, so that the first one does."""
    yield from (rule for rule in rules if rule.quick and not rule.matches)
    yield from (rule for rule in reversed(rules) if not rule.quick or rule.matches)


class _Blocks:
    """The rules that block packets of other rules.

    Blocked packets get no queue of a rule. They are in no class in pf, and in the default one here.
    """

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self._pairs = 0

    def passing(self, rules: Iterator[Rule], *, reply: bool) -> Iterator[Rule]:
        """Yield rules of which the first one decides, with the blocks that others come after.

        Args:
            rules: The rules.
            reply: Whether the packets in question are replies. Nothing replies to what is blocked:
                rules all of whose packets are blocked are left out.
        """
        waiting: list[Rule] = []
        used: set[int] = set()
        for rule in rules:
            if rule.blocks:
                waiting.append(rule)
                continue
            gone = False
            self._pairs += len(waiting) if rule.queue else 0
            for block in waiting if rule.queue and self._pairs <= _MAX_BLOCKED else ():
                inside = block.conditions.contains(rule.conditions)
                gone = gone or (inside and reply)
                if not reply and id(block) not in used and not block.conditions.disjoint(
                    rule.conditions
                ):  # fmt: skip
                    used.add(id(block))
                    self.ledger.approximated(
                        block.statement,
                        "its packets get no queue of a rule; perhop leaves them to the default one",
                    )
                    yield block
            if gone:
                self.ledger.approximated(
                    rule.statement, "a rule before it or a `quick` one blocks all its packets"
                )
            else:
                yield rule
        if self._pairs > _MAX_BLOCKED:
            for rule in waiting[:1]:
                note = "perhop follows the first rules that block only: there are too many"
                self.ledger.approximated(rule.statement, note)
