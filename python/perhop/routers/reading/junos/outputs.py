"""The policy of an output: its queues, with the packets that reach each."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

from perhop.routers.reading.configuration import Default, Fault, scenario_name
from perhop.routers.reading.junos import shares
from perhop.routers.reading.junos.classification import LOSS_PRIORITIES, QUEUES
from perhop.routers.reading.junos.link_classes import codes_by_class, link_marks, written
from perhop.routers.reading.junos.policies import DISCARD, QueueClass, assemble, packets_of
from perhop.routers.reading.junos.schedulers import (
    BUFFER_SOURCE,
    LEAST_SOURCE,
    MAX_QUEUES,
    TRANSMIT_SOURCE,
    Amount,
    default_scheduler,
)
from perhop.routers.reading.matching import Conditions, Rules, TooManyRulesError
from perhop.scenario.model.quantities import QUANTA
from perhop.units import WHOLE, format_share, format_size

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from perhop.routers.reading.configuration import Loc, Place
    from perhop.routers.reading.junos.classification import Classes, Classifier
    from perhop.routers.reading.junos.filters import Filter
    from perhop.routers.reading.junos.policies import Built, Decisions, RewriteTable
    from perhop.routers.reading.junos.schedulers import Scheduler
    from perhop.routers.reading.junos.tree import Node

CLASSIFIER_SOURCE: Final = "Junos CoS guide, default forwarding classes and classifiers"
_LATE: Final = (
    "decides which class borrows first; within their guarantees, classes share by weight, where "
    "Junos serves them in the order of priority"
)
_TURNS: Final = (
    "takes turns with the strict-high queue, packet by packet, until it has used its transmit "
    "rate, and borrows first; within their guarantees, other classes share by weight"
)
NO_PACKETS: Final = "no packet has this forwarding class, so the policy has no class for it"
NO_CLASS: Final = "the configuration has no such forwarding class"
_NO_SCHEDULER: Final = "no scheduler: 1% of the interface, or less, and the least buffer"
_NO_RATE: Final = (
    "its scheduler has no `transmit-rate`: it gets an equal share of what the others leave; in "
    "Junos that depends on the queue and the platform"
)

_TURN: Final = 1514
"""The bytes of a turn for a weight of 1: a full frame."""

_REMAINDER: Final = (
    "what the other classes leave; whether the transmit rate of a strict-high class counts, "
    "documents do not tell"
)


@dataclass(slots=True)
class Output:
    """What is known of an output.

    Attributes:
        entries: The scheduler of each forwarding class, and the statement that says so; None for
            the default map.
        classifier: The classifier of packets that reach it.
        fixed: The forwarding class of packets by conditions, before the classifier; None where the
            classifier decides.
        filter: The filter at the output.
        rewrite: The rewrite rule.
        rewritten: The statement of the rewrite rule.
        link_rewrites: The rewrite rules of tags and labels and their statements, by key.
        rate: The rate in bit/s, or None.
        buffers: The rate in bit/s by which the buffers are sized, or None.
        place: The line of the policy.
    """

    entries: dict[str, tuple[Scheduler, Node]] | None
    classifier: Classifier
    fixed: Sequence[tuple[Rules, str | None]] = ()
    filter: Filter | None = None
    rewrite: RewriteTable = field(default_factory=dict)
    rewritten: Node | None = None
    link_rewrites: dict[str, tuple[RewriteTable, Node]] = field(default_factory=dict)
    rate: int | None = None
    buffers: int | None = None
    place: Place | None = None


def decide(
    fixed: Sequence[tuple[Rules, str | None]], classifier: Classifier, rest: str
) -> Decisions:
    """Return the classification of packets: fixed classes first, then a classifier.

    Args:
        fixed: Packets with their forwarding class; None leaves them to the classifier.
        classifier: The classifier.
        rest: The forwarding class of code points that it does not name.
    """
    codes: dict[str, set[int]] = {}
    for code, (name, _) in sorted(classifier.table.items()):
        codes.setdefault(name, set()).add(code)
    usual = [
        (Rules.of(Conditions(**{each.key: frozenset(points)})), name)  # type: ignore[arg-type]
        for each in classifier.before
        for name, points in codes_by_class(each, rest).items()
    ]
    usual += [
        (Rules.of(Conditions(dscp=frozenset(points))), name)
        for name, points in codes.items()
        if name != rest
    ]
    usual.append((Rules.any(), rest))
    found: Decisions = []
    for packets, forwarding in fixed:
        if forwarding is not None:
            found.append((packets, forwarding))
        elif packets.is_any:
            break
        else:
            found += [(packets & rules, name) for rules, name in usual]
        if packets.is_any:
            return found
    return found + usual


class Outputs:
    """Builds the policies of outputs.

    Attributes:
        classes: The forwarding classes.
        defaults: The defaults of the platform that policies contain.
        reachable: The forwarding classes that any input gives to packets.
    """

    def __init__(self, classes: Classes) -> None:
        self.classes = classes
        self.defaults: dict[Default, None] = {}
        self.reachable: frozenset[str] = frozenset()

    def default(self, place: Place, setting: str, value: str, source: str) -> None:
        """Record a default."""
        self.defaults[Default(place, setting, value, source)] = None

    def build(self, output: Output, place: Place) -> Built:
        """Return the policy of an output.

        Raises:
            TooManyRulesError: If a set of packets is too large.
        """
        if output.classifier.place is None:
            self.default(place, "classifiers", output.classifier.name, CLASSIFIER_SOURCE)
        if not self.classes.places:
            named = ", ".join(f"{name} in queue {queue}" for name, queue in QUEUES.items())
            self.default(place, "forwarding-classes", named, CLASSIFIER_SOURCE)
        rest = self.classes.default("best-effort")
        decisions = decide(output.fixed, output.classifier, rest)
        own = [
            (term.packets, term.actions.forwarding_class)
            for term in (output.filter.terms if output.filter is not None else ())
        ]
        if any(name is not None for _, name in own):
            decisions = _refined(own, decisions)
        queues = self._queues(output, decisions, place)
        if len(queues) > 2 * MAX_QUEUES:
            raise TooManyRulesError(f"needs more than {2 * MAX_QUEUES} forwarding classes")
        schedulers = {name: scheduler for name, (_, scheduler, _) in queues.items()}
        amounts, note = shares.guarantees(schedulers, output.rate)
        order = shares.levels(list(schedulers.values()))
        turns = any(each is not None and each.strict for each in schedulers.values())
        _remainders([each for each in schedulers.values() if each is not None])
        share = shares.remaining_buffer(list(schedulers.values()), output.buffers)
        default = {name for name, (names, _, _) in queues.items() if decisions[-1][1] in names}
        found: list[QueueClass] = []
        schedulers_of: list[Scheduler | None] = []
        earlier: set[str] = set()
        for name in self._order(queues, decisions, default):
            names, scheduler, at = queues[name]
            packets = (
                Rules.any() if name in default else packets_of(decisions, names, earlier)
            ).simplified()
            earlier |= set(names)
            if packets.rules:
                found.append(QueueClass(name, names, packets, {}, {}, at, False))
                schedulers_of.append(scheduler)
                if scheduler is not None:
                    scheduler.used = True
                continue
            for each_name in names:
                if output.entries is not None and each_name in output.entries:
                    self._without_packets(each_name, output.entries[each_name][1])
        if len(found) < len(queues):
            amounts = shares.explicit(amounts, output.rate)
        for each, scheduler in zip(found, schedulers_of, strict=True):
            self._settings(each, scheduler, amounts.get(each.name), order, share, output, note)
        if turns:
            _turns(found, schedulers_of)
        _excess(found, schedulers_of, amounts, output.rate)
        room = Fraction(1) - sum(
            (
                shares.share_of(amount, output.rate) or Fraction(0)
                for amount in amounts.values()
                if amount
            ),
            Fraction(0),
        )
        if any(amount is None for amount in amounts.values()):
            room -= Fraction(1, 100)
        on_link = link_marks(output.link_rewrites, output.classifier, found)
        marks = written(self._marks(output, found, decisions), on_link)
        return assemble(
            found, decisions, output.filter, output.rewrite, marks, output.rate, room, place
        )

    def _queues(
        self, output: Output, decisions: Decisions, place: Place
    ) -> dict[str, tuple[list[str], Scheduler | None, Place]]:
        """Return for each queue its forwarding classes, scheduler and line, by its name."""
        found: dict[int | str, tuple[list[str], Scheduler | None, Place]] = {}
        entries = output.entries
        if entries is None:
            self.default(place, "scheduler-map", "queue 0: 95%, queue 3: 5%", TRANSMIT_SOURCE)
        reached = {name for _, name in decisions}
        for name, (scheduler, node) in (entries or {}).items():
            at = node.place
            queue = self.classes.queue(name)
            if isinstance(queue, str) and name not in reached:
                if self.classes.places:
                    node.undefined(NO_CLASS)
                else:
                    self._without_packets(name, node)
            elif queue in found:
                names, first, _ = found[queue]
                if scheduler is not first:
                    node.ignored(f"its queue has the scheduler of forwarding class `{names[0]}`")
                names.append(name)
            else:
                found[queue] = ([name], scheduler, at)
                scheduler.counted = True
        for name in dict.fromkeys(name for _, name in decisions):
            queue = self.classes.queue(name)
            if queue in found:
                if name not in found[queue][0]:
                    found[queue][0].append(name)
                continue
            missing = default_scheduler(queue, place) if entries is None else None
            at = self.classes.places.get(name, place)
            found[queue] = ([name], missing, at)
            if missing is None:
                self.default(
                    at, f"scheduler of forwarding class {name}", _NO_SCHEDULER, LEAST_SOURCE
                )
        named: dict[str, tuple[list[str], Scheduler | None, Place]] = {}
        for names, scheduler_, at in found.values():
            named[scenario_name(names[0], named)] = (names, scheduler_, at)
        return named

    def _without_packets(self, name: str, node: Node) -> None:
        """Note a class of a scheduler map that no packet has, apart from the router's own."""
        node.ignored(NO_PACKETS)
        if name not in self.classes.own | self.reachable:
            node.faulty(Fault.UNUSED, NO_PACKETS)

    def _order(
        self,
        queues: Mapping[str, tuple[list[str], Scheduler | None, Place]],
        decisions: Decisions,
        default: Iterable[str],
    ) -> list[str]:
        """Return the names of queues in the order in which packets are matched."""
        first: dict[str, int] = {}
        for index, (_, forwarding) in enumerate(decisions):
            first.setdefault(forwarding, index)
        position = {
            name: min(first.get(each, len(decisions)) for each in names)
            for name, (names, _, _) in queues.items()
        }
        return sorted(queues, key=lambda name: (name in default, position[name]))

    def _settings(
        self,
        each: QueueClass,
        scheduler: Scheduler | None,
        amount: Amount | None,
        order: Mapping[str, int] | None,
        share: Fraction,
        output: Output,
        note: str,
    ) -> None:
        """Fill in what the scheduler of a queue says."""
        settings, places = each.settings, each.places
        nodes = scheduler.nodes if scheduler is not None else {}
        at = scheduler.place if scheduler is not None else each.place

        def where(key: Loc, statement: str) -> None:
            places[key] = nodes[statement].place if statement in nodes else at

        transmit = nodes.get("transmit-rate")
        each.strict = scheduler is not None and scheduler.strict
        if scheduler is not None and scheduler.drops_all:
            settings["police"] = dict(DISCARD)
            where(("police",), "transmit-rate")
        if each.strict:
            settings["priority"] = "strict"
            where(("priority",), "priority")
        elif amount is not None:
            settings["bandwidth"] = shares.bandwidth_of(amount)
            where(("bandwidth",), "transmit-rate")
            if note and transmit is not None:
                transmit.approximated(note)
        elif scheduler is not None and scheduler.transmit is None and output.entries is not None:
            for name in each.forwarding:
                if name in output.entries and len(output.entries) > 1:
                    output.entries[name][1].approximated(_NO_RATE)
        if scheduler is not None:
            _ceilings(each, scheduler, amount, output.rate, where)
            if "priority" not in nodes and output.entries is not None:
                self.default(at, "priority", "low", "Junos CoS guide, priority (schedulers)")
        if order is not None and not each.strict:
            settings["priority"] = order[scheduler.borrows if scheduler is not None else "low"]
            stated = "excess-priority" if "excess-priority" in nodes else "priority"
            where(("priority",), stated)
            if "priority" in nodes:
                nodes["priority"].approximated(_LATE)
        limit = shares.buffer_limit(scheduler, amount, output.buffers, share)
        if scheduler is None:
            self.default(at, "buffer-size", limit.written(), LEAST_SOURCE)
        elif scheduler.buffer is None or output.entries is None:
            self.default(
                at, "buffer-size", f"{limit.written()} at the guaranteed rate", BUFFER_SOURCE
            )
        elif scheduler.buffer.kind == "percent":
            self.default(at, "total buffer", "100 ms of the interface's rate", BUFFER_SOURCE)
        profiles = scheduler.drops if scheduler is not None else {}
        codes: dict[str, list[int]] = {}
        for code, (name, loss) in sorted(output.classifier.table.items()):
            if name in each.forwarding:
                codes.setdefault(loss, []).append(code)
        guaranteed = None
        if output.rate:
            part = shares.share_of(amount, output.rate) if amount is not None else None
            guaranteed = int(part * output.rate) if part else output.rate if each.strict else None
        ecn = scheduler is not None and scheduler.ecn
        settings["queue"], told = shares.queue(limit, profiles, codes, guaranteed, ecn=ecn)
        if told and "drop-profile-map" in nodes:
            nodes["drop-profile-map"].approximated(told)
        where(("queue", "limit"), "buffer-size")
        if profiles:
            where(("queue", "wred" if "wred" in settings["queue"] else "red"), "drop-profile-map")

    def _marks(
        self, output: Output, classes: Sequence[QueueClass], decisions: Decisions
    ) -> dict[str, int]:
        """Return the code point that a rewrite rule gives to each class, where it changes any."""
        found: dict[str, int] = {}
        node = output.rewritten
        filtered = {name for _, name in output.fixed if name is not None} | {
            term.actions.forwarding_class
            for term in (output.filter.terms if output.filter is not None else ())
        }
        for each in classes:
            table = output.classifier.table
            codes = {code: key for code, key in table.items() if key[0] in each.forwarding}
            changes = {
                code: output.rewrite[key] for code, key in codes.items() if key in output.rewrite
            }
            known = not filtered & set(each.forwarding) and decisions[-1][1] not in each.forwarding
            if known and all(code == new for code, new in changes.items()):
                continue
            # Filters leave the loss priority low; that of a policer is the policer's mark.
            losses = {loss for _, loss in codes.values()} | (set() if known else {"low"})
            first = next((loss for loss in LOSS_PRIORITIES if loss in losses), "low")
            keys = [(name, first) for name in each.forwarding]
            wanted = next((output.rewrite[key] for key in keys if key in output.rewrite), None)
            if wanted is None and not changes:
                continue
            if wanted is not None:
                found[each.name] = wanted
            if node is not None and "wred" in each.settings.get("queue", {}):
                node.approximated(
                    "classes are marked before their queue, so that their drop profiles see the "
                    "new code point only"
                )
            if node is not None and len(set(changes.values()) | {wanted}) > 1:
                node.approximated(
                    "the packets of a class get one code point: that of their lowest loss priority"
                )
        return found


def _refined(own: Sequence[tuple[Rules, str | None]], before: Decisions) -> Decisions:
    """Return a classification that a filter at the output changes."""
    found: Decisions = []
    for packets, forwarding in own:
        if forwarding is not None:
            found.append((packets, forwarding))
        elif packets.is_any:
            return found + before
        else:
            found += [(packets & rules, name) for rules, name in before]
        if packets.is_any:
            return found
    return found + before


def _ceilings(
    each: QueueClass,
    scheduler: Scheduler,
    amount: Amount | None,
    rate: int | None,
    where: Any,
) -> None:
    """Add the ceiling of a class: a shaping rate, or a guarantee that is also a limit."""
    settings, transmit = each.settings, scheduler.nodes.get("transmit-rate")
    if scheduler.drops_all:
        return
    # A strict-high queue may use the whole interface (Juniper, Priority Scheduling Overview).
    if each.strict and scheduler.bound and scheduler.transmit is not None:
        settings["limit"] = shares.bandwidth_of(scheduler.transmit)
        where(("limit",), "transmit-rate")
    if scheduler.shaping is not None:
        ceiling, burst = scheduler.shaping
        settings.pop("limit", None)
        written = shares.bandwidth_of(ceiling)
        if burst:
            settings["shape"] = {"rate": written, "burst": format_size(burst)}
        else:
            settings["limit"] = written
        where(("shape" if burst else "limit",), "shaping-rate")
        most, least = shares.share_of(ceiling, rate), None
        if amount is not None:
            least = shares.share_of(amount, rate)
        if most is not None and least is not None and least > most:
            settings["bandwidth"] = written
            if transmit is not None:
                transmit.approximated("the guarantee is no more than the shaping rate")
    elif scheduler.bound and not each.strict and amount is not None:
        settings["borrow"] = False
        where(("borrow",), "transmit-rate")
    elif scheduler.bound and not each.strict and transmit is not None:
        transmit.approximated("the part of the remainder is a guarantee, and no ceiling")
    if scheduler.bound == "rate-limit" and transmit is not None:
        transmit.approximated("packets above the rate wait in the queue instead of being dropped")


def _remainders(schedulers: Sequence[Scheduler]) -> None:
    """Note parts of the remainder that the rate of a strict-high queue may make smaller.

    Juniper CLI reference, transmit-rate: "Use the remaining rate available."
    """
    others = [each for each in schedulers if not each.strict]
    if len(others) == len(schedulers) or len(others) < 2:
        return
    if any(each.strict and each.transmit is not None for each in schedulers):
        for each in others:
            if each.transmit is not None and each.transmit.kind == "remainder":
                each.nodes["transmit-rate"].approximated(_REMAINDER)


def _turns(found: Sequence[QueueClass], schedulers: Sequence[Scheduler | None]) -> None:
    """Let queues of priority `high` take turns with a strict-high one.

    Source: Juniper, Priority Scheduling Overview: "Queues with strict-high and high priority take
    turns transmitting packets until the strict-high queue is empty, the high priority queues are
    empty, or the high priority queues run out of bandwidth credit."
    """
    for each, scheduler in zip(found, schedulers, strict=True):
        if scheduler is not None and scheduler.priority == "high":
            each.settings["beside_strict"] = True
            node = scheduler.nodes["priority"]
            each.places["beside_strict",] = node.place
            node.approximated(_TURNS)


def _excess(
    found: Sequence[QueueClass],
    schedulers: Sequence[Scheduler | None],
    amounts: Mapping[str, Amount | None],
    rate: int | None,
) -> None:
    """Give classes the weights by which they share what exceeds the guarantees, if any states one.

    Without one it is the transmit rate (Juniper CLI reference, `excess-rate`).
    """
    if all(scheduler is None or scheduler.excess is None for scheduler in schedulers):
        return
    weights = {}
    for each, scheduler in zip(found, schedulers, strict=True):
        amount = amounts.get(each.name)
        part = shares.share_of(amount, rate) if amount is not None else None
        weight = (part or Fraction(0)) * 100
        if scheduler is not None and scheduler.excess is not None:
            weight = scheduler.excess
            each.places["quantum",] = scheduler.nodes["excess-rate"].place
        if not each.strict:
            weights[each.name] = weight
    guaranteed = any("bandwidth" in each.settings for each in found)
    total = max(sum(weights.values()), Fraction(1))
    for each in found:
        if each.name not in weights:
            continue
        weight = weights[each.name]
        if guaranteed:
            size = min(max(int(weight * _TURN), QUANTA[0]), QUANTA[1])
            each.settings["quantum"] = format_size(size)
        else:
            each.settings["bandwidth"] = format_share(max(int(weight * WHOLE / total), 1))
