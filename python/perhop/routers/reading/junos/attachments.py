"""Policies at interfaces, and named ones that no interface uses."""

from __future__ import annotations

from collections import ChainMap, Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from perhop.routers.reading.configuration import Attachment
from perhop.routers.reading.junos import settings
from perhop.routers.reading.junos.classification import CodePoints, read_classes
from perhop.routers.reading.junos.filters import POLICERS, Filters
from perhop.routers.reading.junos.inputs import Inputs
from perhop.routers.reading.junos.interfaces import TO_ROUTER, PlacedAll, of_router, read_interfaces
from perhop.routers.reading.junos.outputs import Output, Outputs, decide
from perhop.routers.reading.junos.policers import ONE_INSTANCE
from perhop.routers.reading.junos.policies import (
    Built,
    filter_policy,
    inside,
    packets_of,
    too_many,
)
from perhop.routers.reading.junos.schedulers import Schedulers
from perhop.routers.reading.junos.tree import Node
from perhop.routers.reading.junos.unread import note_interfaces, note_unread, note_unused
from perhop.routers.reading.matching import TooManyRulesError
from perhop.units import format_rate

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from perhop.routers.reading.configuration import Direction, Place
    from perhop.routers.reading.junos.classification import Classifier
    from perhop.routers.reading.junos.filters import Filter
    from perhop.routers.reading.junos.inputs import Input
    from perhop.routers.reading.junos.interfaces import Interface, Placed, Unit
    from perhop.routers.reading.junos.policers import Policer
    from perhop.routers.reading.matching import Rules

NO_TERM: Final = "packets that no term matches"
"""The setting of the default that a filter without a last term for all packets has."""

_UNSCHEDULED: Final = (
    "taken as the scheduler map of the unit, but Junos gives units one only with "
    "`per-unit-scheduler`, or `hierarchical-scheduler`, at their interface"
)

_APART: Final = (
    "the policy of the interface does not have it: one of several units, it is a policy of its own"
)

_SCHEDULING: Final = ("scheduler-map", "output-traffic-control-profile", "shaping-rate")


class Router:
    """The configuration of a router, and the policies that it makes.

    Attributes:
        outputs: Builds policies of outputs, and has the defaults that they contain.
    """

    def __init__(self, root: Node, rates: Mapping[str, int]) -> None:
        self.root = root
        nowhere = Node("", root.place)
        self.cos = root.get("class-of-service") or nowhere
        self.filters = Filters(root.get("firewall"), root.get("policy-options", "prefix-list"))
        self.classes = read_classes(self.cos)
        self.codes = CodePoints(self.cos, self.classes)
        self.schedulers = Schedulers(self.cos)
        self.outputs = Outputs(self.classes)
        self.interfaces = read_interfaces(root.get("interfaces"), rates)
        self.placed = PlacedAll(self.cos.get("interfaces"))
        self.inputs = Inputs(self.codes, self.filters, self.outputs)
        self._built: dict[Any, Built | None] = {}
        self._limited: dict[Any, Built | None] = {}
        self._by_class: dict[Any, Filter | TooManyRulesError | None] = {}
        self._used_filters: set[tuple[str, str]] = set()
        self._filters_of_router: set[tuple[str, str]] = set()

    def attachments(self) -> list[Attachment]:
        """Return the policies at interfaces, then those that no interface uses."""
        names = self.placed.names(self.interfaces)
        everywhere = dict.fromkeys((*names, *self.interfaces.all))
        for name in [each for each in everywhere if of_router(each)]:
            del everywhere[name]
            self._leave_out(name)
        for name in everywhere:
            self.inputs.add(name, self.placed.of(name), self.interfaces.all.get(name))
        self.outputs.reachable = self.inputs.reachable()
        found: list[Attachment] = []
        for name in list(everywhere):
            place = self.placed.exact[name].place if name in self.placed.exact else self.cos.place
            interface = self.interfaces.get(name, place)
            found += self._at(interface, self.placed.of(name), queues=name in names)
        return [*found, *self._unused()]

    # Interfaces

    def _leave_out(self, name: str) -> None:
        """Note what stands at an interface that forwards no packets."""
        if name in self.placed.exact:
            self.placed.exact[name].ignored(TO_ROUTER)
        interface = self.interfaces.all.get(name)
        for unit in interface.units.values() if interface is not None else ():
            for direction in ("in", "out"):
                for family, each in self.inputs.filters_of(unit, direction):
                    each.ignored(TO_ROUTER)
                    self._filters_of_router.add((family, each.word))
                for _, policer in unit.policers.get(direction, ()):
                    policer.ignored(TO_ROUTER)

    def _at(self, interface: Interface, placed: Placed, *, queues: bool) -> Iterator[Attachment]:
        """Yield the policies of an interface and its units."""
        note_unread(placed)
        numbers = dict.fromkeys((*interface.units, *(placed.numbers if queues else ())))
        units = {each: placed.unit(each) for each in numbers}
        for at in units.values():
            note_unread(at)
        apart = {each for each, at in units.items() if any(at.value(key) for key in _SCHEDULING)}
        shared = [each for each in numbers if each not in apart]
        whole = queues and (not apart or any(placed.value(key) for key in _SCHEDULING))
        limiting = [
            each
            for each in shared
            if (unit := interface.units.get(each)) is not None
            and (any(self.inputs.filters_of(unit, "out")) or "out" in unit.policers)
        ]
        merged = limiting[0] if whole and len(limiting) == 1 and len(shared) == 1 else None
        if whole:
            unit = interface.units.get(merged) if merged is not None else None
            marking = (each for each in shared if settings.marks(units[each]))
            leading = merged or next(marking, None) or next(iter(shared), "*")
            first = units[leading] if leading in units else placed.unit(leading)
            yield from self._output(interface.name, interface, placed, first, unit)
            settings.note_other_marks(first, leading, [units[each] for each in shared])
        for each in limiting if whole else ():
            if each != merged:
                self._note_apart(interface.units[each])
        for each in numbers:
            unit = interface.units.get(each)
            name = f"{interface.name}.{each}"
            if each in apart:
                yield from self._output(name, interface, units[each], units[each], unit)
            elif each in limiting and each != merged and unit is not None:
                yield from self._limits(unit, interface, "out", units[each])
            if unit is not None:
                yield from self._limits(unit, interface, "in", units[each])

    def _note_apart(self, unit: Unit) -> None:
        """Note the filters and policers of a unit whose policy is beside that of the port."""
        for _, each in (*self.inputs.filters_of(unit, "out"), *unit.policers.get("out", ())):
            each.approximated(_APART)

    def _output(
        self, name: str, interface: Interface, placed: Placed, first: Placed, unit: Unit | None
    ) -> Iterator[Attachment]:
        """Yield the policy of an output with queues."""
        profile = settings.profile(self.cos, placed)
        chosen_map = placed.value("scheduler-map")
        if chosen_map is None and profile is not None:
            chosen_map = profile.value("scheduler-map")
        entries = self.schedulers.map(chosen_map.word) if chosen_map is not None else None
        if chosen_map is not None:
            if entries is None:
                chosen_map.undefined("the configuration has no such scheduler map")
            else:
                chosen_map.modelled()
                if interface.unscheduled and name != interface.name:
                    chosen_map.approximated(_UNSCHEDULED)
        place = self._place(chosen_map, placed, interface)
        shape, shaped = settings.shape(placed, profile, interface.rate)
        if shape is not None and "burst" not in shape and shaped == interface.rate:
            shape = None  # the interface itself sends no faster
        source = self.interfaces.rate_used(interface)
        if source and interface.rate is not None:
            self.outputs.default(interface.place, "speed", format_rate(interface.rate), source)
        rate = min((each for each in (shaped, interface.rate) if each), default=None)
        buffers = rate
        if profile is not None and (delay := profile.value("delay-buffer-rate")) is not None:
            buffers = settings.bits(delay, rate) or buffers
        families = {family for each in interface.units.values() for family in each.families}
        rewrite, rewritten = settings.rewrite(self.codes, first, placed, families)
        link_rewrites = settings.link_rewrites(self.codes, first, placed)
        incoming = self.inputs.before(interface.name, place)
        filters = tuple(f"{f} {n.word}" for f, n in self.inputs.filters_of(unit, "out"))
        key = (
            chosen_map.word if entries is not None and chosen_map is not None else None,
            (rate, buffers, incoming, filters),
            rewritten.word if rewritten is not None else None,
            tuple((key, node.word) for key, (_, node) in link_rewrites.items()),
            tuple((family, node.word) for family, node in unit.policers.get("out", ()))
            if unit is not None
            else (),
            frozenset(unit.families) if unit is not None else frozenset(),
        )
        if key not in self._built:
            output = Output(
                entries,
                self.inputs.classifier(incoming),
                self.inputs.fixed(incoming),
                None,
                rewrite,
                rewritten,
                link_rewrites,
                rate,
                buffers,
            )
            self._built[key] = self._build(output, unit, place)
        else:
            self._used_again(unit)
        built = self._built[key]
        if built is None:
            return
        policy = chosen_map.word if chosen_map is not None and entries is not None else "default"
        yield Attachment(
            name, "out", policy, built.policy, ChainMap({(): place}, built.places),
            interface.rate, interface.rate_place, shape,
        )  # fmt: skip

    def _place(self, chosen_map: Node | None, placed: Placed, interface: Interface) -> Place:
        if chosen_map is not None:
            return chosen_map.place
        return placed.nodes[0].place if placed.nodes else interface.place

    def _build(self, output: Output, unit: Unit | None, place: Place) -> Built | None:
        """Return the policy of an output, without its filter if that is too large."""
        rest = self.classes.default("best-effort")
        decisions = decide(output.fixed, output.classifier, rest)
        nodes = list(self.inputs.filters_of(unit, "out"))
        if nodes:
            try:
                classes = self._classes(output.fixed, output.classifier)
                output.filter = self._together(nodes, classes)
                return self._policed(self.outputs.build(output, place), unit, output)
            except TooManyRulesError as error:
                for _, each in nodes:
                    each.ignored(f"a set of packets {error}")
                output.filter = None
        if too_many(decisions):
            output.fixed = ()
            name = output.classifier.name
            why = "perhop: the filters at inputs have too many terms"
            self.outputs.default(place, "classification at inputs", f"classifier {name}", why)
        try:
            return self._policed(self.outputs.build(output, place), unit, output)
        except TooManyRulesError as error:
            for _, entry in (output.entries or {}).values():
                entry.ignored(f"a set of packets {error}")
            return None

    def _classes(
        self, fixed: Sequence[tuple[Rules, str | None]], classifier: Classifier
    ) -> dict[str, Rules]:
        """Return the packets of each forwarding class at an output.

        Raises:
            TooManyRulesError: If a set of packets is too large.
        """
        decisions = decide(fixed, classifier, self.classes.default("best-effort"))
        if too_many(decisions):
            raise TooManyRulesError("depends on filters with too many terms")
        return {
            name: packets_of(decisions, [name])
            for name in dict.fromkeys(name for _, name in decisions)
        }

    def _used_again(self, unit: Unit | None) -> None:
        """Record the statements of a unit that has the same policy as an earlier one."""
        nodes = list(self.inputs.filters_of(unit, "out"))
        if not self.filters.by_class([(family, each.word) for family, each in nodes]):
            with suppress(TooManyRulesError):
                self._together(nodes)
        for _, each in nodes:
            if each.treatment is None:
                each.modelled()
        self._policers(unit, "out")

    def _policed(self, built: Built, unit: Unit | None, output: Output) -> Built:
        found = self._policers(unit, "out")
        families = unit.families if unit is not None else ()
        return inside(built, found, families, output.rewrite) if found else built

    def _policers(self, unit: Unit | None, direction: Direction) -> list[tuple[str, Policer]]:
        """Return the families and policers of a unit."""
        limits: list[tuple[str, Policer]] = []
        for family, node in unit.policers.get(direction, ()) if unit is not None else ():
            found = self.filters.policer("policer", node.word)
            if found is None:
                self.filters.refuse("policer", node)
            else:
                node.modelled()
                limits.append((family, found))
        return limits

    def _limits(
        self, unit: Unit, interface: Interface, direction: Direction, placed: Placed
    ) -> Iterator[Attachment]:
        """Yield the policy of a unit with a filter or policer, but no queues."""
        policers = self._policers(unit, direction)
        rewrite, _ = (
            settings.rewrite(self.codes, placed, placed, unit.families)
            if direction == "out"
            else ({}, None)
        )
        nodes = list(self.inputs.filters_of(unit, direction))
        built: Built | None = None
        used = ""
        if nodes:
            names = tuple((family, each.word) for family, each in nodes)
            key: Any = (names, bool(rewrite))
            try:
                if direction == "out" and self.filters.by_class(names):
                    incoming = self.inputs.before(interface.name, nodes[0][1].place)
                    key = (*key, incoming)
                    found = self._sorted(nodes, incoming)
                else:
                    found = self._together(nodes)
                if key not in self._limited:
                    self._limited[key] = filter_policy(found, rewrite) if found else None
                built, used = self._limited[key], found.name if found else ""
                if found is not None and found.implicit and built is not None:
                    self._discards(found)
            except TooManyRulesError as error:
                for _, each in nodes:
                    each.ignored(f"a set of packets {error}")
        if policers:
            first = policers[0][1]
            built = inside(built or Built({}, {(): first.place}), policers, unit.families, rewrite)
            used = used or first.name
        if built is not None:
            self.interfaces.rate_used(interface)
            yield Attachment(
                unit.name, direction, used, built.policy, built.places,
                interface.rate, interface.rate_place,
            )  # fmt: skip

    def _sorted(self, nodes: Sequence[tuple[str, Node]], incoming: Input) -> Filter | None:
        """Return the filters at an output, with conditions on forwarding classes.

        Raises:
            TooManyRulesError: If a set of packets is too large.
        """
        key = tuple((family, each.word) for family, each in nodes), incoming
        if key in self._by_class:
            for _, each in nodes:
                each.modelled()
        else:
            fixed, classifier = self.inputs.fixed(incoming), self.inputs.classifier(incoming)
            try:
                self._by_class[key] = self._together(nodes, self._classes(fixed, classifier))
            except TooManyRulesError as error:
                self._by_class[key] = error
        found = self._by_class[key]
        if isinstance(found, TooManyRulesError):
            raise found
        return found

    def _discards(self, found: Filter) -> None:
        """Record the implicit term of a filter."""
        source = "Junos guide to firewall filters, implicit discard"
        self.outputs.default(found.place, NO_TERM, "discard", source)

    def _together(
        self, nodes: Sequence[tuple[str, Node]], classes: Mapping[str, Rules] | None = None
    ) -> Filter | None:
        """Return the filters at one place as one, and note those that it does not contain."""
        names = [(family, each.word) for family, each in nodes]
        self._used_filters.update(names)
        found, used = self.filters.together(names, classes)
        for (family, each), key in zip(nodes, names, strict=True):
            if key in used:
                each.modelled()
            elif self.filters.filter(family, each.word) is None:
                each.ignored("the filter cannot be read")
            else:
                each.ignored(f"perhop has one filter here: that of family {next(iter(used))[0]}")
        return found

    # Policies that no interface uses

    def _unused(self) -> Iterator[Attachment]:
        """Yield scheduler maps and filters that no interface uses, as policies of their own."""
        used = {key[0] for key in self._built}
        for node in self.cos.under("scheduler-maps"):
            if node.word in used:
                continue
            entries = self.schedulers.map(node.word)
            incoming = self.inputs.before("", node.place)
            output = Output(entries, self.inputs.classifier(incoming), self.inputs.fixed(incoming))
            output.rate = output.buffers = rate = self.interfaces.given.get("")
            built = self._build(output, None, node.place)
            if built is not None:
                yield Attachment("", "out", node.word, built.policy, built.places, rate)
        for family, node in self.filters.all():
            if (family, node.word) in self._used_filters:
                continue
            if family not in ("inet", "inet6", "any"):
                node.ignored(f"packets of family {family} are not modelled")
                continue
            found = self.filters.filter(family, node.word)
            try:
                built = filter_policy(found) if found is not None else None
                if found is not None and found.implicit and built is not None:
                    self._discards(found)
            except TooManyRulesError as error:
                node.ignored(f"a set of packets {error}")
                continue
            if built is not None:
                yield Attachment("", "in", node.word, built.policy, built.places)
            elif (family, node.word) in self._filters_of_router:
                node.ignored(TO_ROUTER)

    def finish(self) -> None:
        """Record why the remaining statements have no effect."""
        for interface in self.interfaces.all.values():
            for unit in interface.units.values():
                for direction in ("in", "out"):
                    for _, each in self.inputs.filters_of(unit, direction):
                        if each.treatment is None:
                            each.ignored("the filter cannot be read")
        self._note_shared_filters()
        self.inputs.finish()
        self.schedulers.finish()
        note_unused(self.root, self.cos)
        note_interfaces(self.root, {node.word for _, node in self.filters.all()})

    def _note_shared_filters(self) -> None:
        """Note the policers of filters of which Junos has one instance for several places.

        A list of filters has instances of its own (Juniper, Multiple Firewall Filters Applied as
        a List).
        """
        places: Counter[Node] = Counter()
        for interface in self.interfaces.all.values():
            for unit in interface.units.values() if not of_router(interface.name) else ():
                for direction in ("in", "out"):
                    found = list(self.inputs.filters_of(unit, direction))
                    listed = len(found) > len({family for family, _ in found})
                    for family, each in found if not listed else ():
                        if (node := self.filters.node(family, each.word)) is not None:
                            places[node] += 1
        for node, count in places.items():
            if count > 1 and node.get("interface-specific") is None:
                for term in (*node.under("term"), node):
                    for kind in POLICERS:
                        for name in term.under("then", kind):
                            name.approximated(ONE_INSTANCE)
