"""The packets of each queue of pf.conf, as rules assign and block them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from perhop.routers.reading.altq.rules import is_group
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

_MAX_KEPT: Final = 2**14
"""The most entries of an interface that come from rules which leave packets their queue."""

_MAX_SILENT: Final = 64
"""The most rules without a queue that are compared with each rule at another interface."""

_MAX_BLOCKED: Final = 2**17
"""The most pairs of rules, of which one blocks packets and one assigns a queue, at an interface."""


def assign(
    ledger: Ledger,
    devices: Sequence[Device],
    lost: Collection[str],
    rules: Sequence[Rule],
    skips: Sequence[Rule],
) -> None:
    """Set the packets of the classes of each interface, as the rules assign them.

    Args:
        ledger: The account of lines that this changes.
        devices: The interfaces.
        lost: Names of queues that are not modelled.
        rules: The rules in the order of the file.
        skips: Rules at the interfaces whose packets pf does not look at.
    """
    known: set[str] = set()
    for device in devices:
        skipped = [each.statement for each in skips if each.at(device.interface)]
        for statement in skipped:
            ledger.modelled(statement)
        nodes = _by_name(device)
        known |= nodes.keys()
        if device.scheduler == "wfq":
            nodes = _undivided(device, nodes, rules, ledger)
        device.entries = _entries(device, nodes, rules, _Blocks(ledger), skipped=bool(skipped))
    replies = False
    for rule in rules:
        for name in {rule.queue, rule.urgent} - {""}:
            if name not in known and name in lost:
                ledger.ignored(rule.statement, f"the queue {quote(name)} is not modelled")
            elif name not in known and not rule.blocks:
                note = f"{quote(name)} is not a queue of an interface"
                ledger.ignored(rule.statement, note, Fault.UNDEFINED)
        assigns = rule.queue and not rule.blocks
        if assigns:
            _note_groups(ledger, devices, rule)
        if assigns and rule.direction != "out" and rule.stateful and not replies:
            ledger.approximated(
                rule.statement,
                "replies, which follow the state of a connection: perhop takes all packets in the "
                "opposite direction for replies, here and in similar rules",
            )
            replies = True


def _note_groups(ledger: Ledger, devices: Sequence[Device], rule: Rule) -> None:
    """Note the groups of interfaces that a rule names (ifconfig(8), `group`)."""
    for name in rule.interfaces:
        if name == "egress":
            note = "perhop takes every interface for one with a default route (`egress`)"
        elif is_group(name) and not any(
            replace(rule, interfaces=(name,), others=False).at(device.interface)
            for device in devices
        ):
            note = f"perhop takes {quote(name)} for interfaces without queues"
        else:
            continue
        ledger.approximated(rule.statement, note)


def _undivided(
    device: Device, nodes: Mapping[str, Node], rules: Sequence[Rule], ledger: Ledger
) -> dict[str, Node]:
    """Return the queues of HFSC that take packets: those of divided ones are in the default one.

    Source: `hfsc_enqueue` of FreeBSD's altq_hfsc.c.
    """
    for rule in rules:
        for name in (rule.queue, rule.urgent):
            if name in nodes and nodes[name].children and not rule.blocks:
                note = (
                    f"the queue {quote(name)} has no effect: HFSC puts packets of a divided queue "
                    "into the default one"
                )
                ledger.approximated(rule.statement, note, Fault.WITHOUT_EFFECT)
    default = device.default
    return {
        name: default if node.children and default is not None else node
        for name, node in nodes.items()
    }


def _by_name(device: Device) -> dict[str, Node]:
    found: dict[str, Node] = {}
    todo = list(device.top)
    while todo:
        node = todo.pop()
        found.setdefault(node.name, node)
        todo += node.children
    return found


def _entries(
    device: Device,
    nodes: Mapping[str, Node],
    rules: Sequence[Rule],
    blocks: _Blocks,
    *,
    skipped: bool,
) -> list[Entry]:
    """Return the packets that an interface sends, and the class of each; the first one decides.

    Packets get a queue of, in this order: the rule whose reply they are, if it names a port; the
    last rule for sending at the interface, or an earlier `quick` one; other rules whose reply they
    are; rules at other interfaces. A rule without a queue leaves a packet the one that it has
    (`pf_test` of FreeBSD and OpenBSD set a queue if the state or the rule has one).
    """
    here = [rule for rule in rules if rule.at(device.interface) and not skipped]
    received = [rule for rule in here if rule.direction != "out" and rule.stateful]
    services = [rule for rule in received if rule.blocks or rule.conditions.destination_ports]
    others = [rule for rule in received if rule.blocks or not rule.conditions.destination_ports]
    sent = [rule for rule in here if rule.direction != "in"]
    elsewhere = [rule for rule in rules if rule.elsewhere(device.interface)]
    arrived = [rule for rule in elsewhere if rule.direction != "out"]
    left = [rule for rule in elsewhere if rule.direction == "out"]

    def decided(group: Iterator[Rule], *, reply: bool) -> Iterator[tuple[Conditions, Node | None]]:
        """Yield packets and their class; None if a rule leaves them the queue that they have."""
        for rule in blocks.passing(group, reply=reply):
            packets = rule.packets(reply=reply)
            urgent = nodes.get(rule.urgent)
            if urgent is not None:
                yield packets & Conditions(_LOW_DELAY), urgent
            told = rule.blocks or rule.queue
            yield packets, nodes.get(rule.queue, device.default) if told else None

    def known(group: Iterator[Rule], *, reply: bool) -> Iterator[Entry]:
        """Yield those of a group that have a class of the interface, or are blocked."""
        some = (rule for rule in group if rule.blocks or rule.queue in nodes)
        for packets, node in decided(some, reply=reply):
            if node is not None:
                yield packets, node

    before = [
        *known(_assigning(arrived), reply=False),
        *known(_assigning(left), reply=True),
    ]
    found: list[Entry] = []
    for packets, node in (
        *decided(_first_decides(services), reply=True),
        *decided(_first_decides(sent), reply=False),
    ):
        if node is not None:
            found.append((packets, node))
            continue
        for conditions, kept in before:
            if len(found) < _MAX_KEPT and not conditions.disjoint(packets):
                found.append((packets & conditions, kept))
        if device.default is not None:
            found.append((packets, device.default))
    return [*found, *known(_first_decides(others), reply=True), *before]


def _assigning(rules: Sequence[Rule]) -> Iterator[Rule]:
    """Yield rules at other interfaces that assign or block, unless one without a queue decides.

    It does if it comes before them in the order of decision, at all of their interfaces, for all of
    their packets.
    """
    silent: list[Rule] = []
    for rule in _first_decides(rules):
        if rule.blocks or rule.queue:
            if not any(each.covers(rule) for each in silent):
                yield rule
        elif len(silent) < _MAX_SILENT:
            silent.append(rule)


def _first_decides(rules: Sequence[Rule]) -> Iterator[Rule]:
    """Return rules, of which the last one or a `quick` one decides, so that the first one does.

    Where that one has no queue, the last `match` rule with a queue assigns it: of all, or of those
    before a `quick` one (`pf_test_rule` of OpenBSD and FreeBSD).
    """
    matches: list[Rule] = []
    quick: list[tuple[Rule, int]] = []
    last: list[Rule] = []
    for rule in rules:
        if rule.matches:
            matches += [rule] if rule.queue else []
        elif rule.quick:
            quick.append((rule, len(matches)))
        else:
            last.append(rule)
    pairs = 0
    for rule, before in (*quick, *((each, len(matches)) for each in reversed(last))):
        for match in reversed(matches[:before] if not (rule.queue or rule.blocks) else ()):
            pairs += 1
            if pairs <= _MAX_KEPT and not match.conditions.disjoint(rule.conditions):
                yield replace(match, conditions=match.conditions & rule.conditions)
        yield rule
    yield from reversed(matches)


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
