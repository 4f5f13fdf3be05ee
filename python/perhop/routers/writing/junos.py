"""Junos: class of service and firewall filters, in braces.

A filter at the output of an interface gives each packet its forwarding class, so that the policies
of several interfaces are independent of each other. Statements and ranges are those of the Junos
Class of Service User Guide and of the Routing Policies, Firewall Filters, and Traffic Policers
User Guide; rates are bit/s, sizes bytes.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from perhop.routers.writing.draft import Definitions, Names
from perhop.routers.writing.junos_drops import buffer, drop_profile
from perhop.routers.writing.junos_filters import (
    FAMILIES,
    block,
    conditions,
    dscp_name,
    levels,
    losses,
    policer,
    versions,
    with_either_port,
)
from perhop.routers.writing.junos_link_classes import RESERVED, LinkClasses, looks, of_link
from perhop.routers.writing.packets import decisions
from perhop.scenario.model.hfsc import HFSC
from perhop.scenario.model.htb import HTB
from perhop.scenario.model.queues import Red
from perhop.units import WHOLE, format_rate

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from perhop.routers.reading.matching import Conditions
    from perhop.routers.writing.draft import Draft
    from perhop.routers.writing.plan import Division, End, Part

__all__ = ["write"]

_LONGEST_NAME: Final = 64
_QUEUES: Final = 8
_PRIORITIES: Final = ("high", "medium-high", "medium-low", "low")
_LEAST_RATE: Final = 3_200
_PACKET: Final = 1_500
_UNDIVIDED: Final = (
    "Junos divides no forwarding class further; only one class around all others can be written, "
    "with a policer that drops"
)
_TWO_BUCKETS: Final = (
    "a policer of Junos has a bucket for each version of IP; expected addresses of one version"
)
_LOSS_PRIORITIES: Final = (
    "Junos chooses drop profiles by loss priority, which the classifiers of other interfaces set; "
    "expected `red`"
)
_LATE: Final = "filters of Junos at inputs see neither VLAN tags nor MPLS labels"
_NO_DISCIPLINE: Final = "Junos has drop profiles, and no such discipline; expected `red`"


def write(ends: Sequence[End], draft: Draft) -> list[str]:
    """Return the configuration of a router."""
    return _Writer(draft).write(ends)


class _Writer:
    """The configuration of one router."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.queues: dict[str, int] = {}
        self.reserved: int | None = None
        self.schedulers = Definitions(Names(_LONGEST_NAME))
        self.maps = Definitions(Names(_LONGEST_NAME))
        self.profiles = Definitions(Names(_LONGEST_NAME))
        self.rewrites = Definitions(Names(_LONGEST_NAME))
        self.rewrites_6: dict[str, None] = {}
        self.links = LinkClasses()
        self.policers = Definitions(Names(_LONGEST_NAME))
        self.drops = Definitions(Names(_LONGEST_NAME))
        self.filters = {family: Definitions(Names(_LONGEST_NAME)) for family in FAMILIES}

    def write(self, ends: Sequence[End]) -> list[str]:
        cos, interfaces = [], []
        divided = [(end, policy) for end in ends if (policy := _own(end)) is not None]
        if any(looks(division) for _, division in divided):
            self.reserved = RESERVED
            for _, division in divided:
                for part in division.parts:
                    self.forwarding_class(division, part)
            # Further classes tell tags and labels apart. They keep no packets.
            spare = {f"input-{number}": number for number in self.free()}
            self.links.classify(divided, self.queues | spare, self.draft)
            self.queues |= {name: spare[name] for name in spare if name in self.links.labels}
        for end in ends:
            there, own = self.end(end)
            interfaces += there
            cos += own
        for name, statements in self.links.units.items():
            physical, _, unit = name.partition(".")
            cos += block(physical, block(f"unit {unit or 0}", statements))
        top: list[str] = []
        if self.queues:
            numbered = [f"class {name} queue-num {n};" for name, n in self.queues.items()]
            top += block("forwarding-classes", numbered)
        top += block("classifiers", self.links.written()) if self.links.kinds else []
        for title, found in (
            ("drop-profiles", self.drops),
            ("schedulers", self.schedulers),
            ("scheduler-maps", self.maps),
            ("traffic-control-profiles", self.profiles),
            ("rewrite-rules", self.rewrites),
        ):
            inside = _blocks(found, "dscp " if title == "rewrite-rules" else "")
            if title == "rewrite-rules":
                for name in self.rewrites_6:
                    inside += block(f"dscp-ipv6 {name}", found.bodies[name])
                for kind, rules in self.links.rewrites.items():
                    inside += _blocks(rules, f"{kind} ")
            top += block(title, inside) if inside else []
        top += block("interfaces", cos) if cos else []
        firewall: list[str] = []
        for name, (kind, *body) in self.policers.bodies.items():
            firewall += block(f"{kind} {name}", body)
        for family, definitions in self.filters.items():
            filters = _blocks(definitions, "filter ")
            firewall += block(f"family {family}", filters) if filters else []
        return [
            *block("interfaces", interfaces),
            *(block("class-of-service", top) if top else []),
            *(block("firewall", firewall) if firewall else []),
        ]

    def end(self, end: End) -> tuple[list[str], list[str]]:
        """Return the blocks of an interface in `interfaces` and in `class-of-service`."""
        physical, _, unit = end.interface.partition(".")
        families: dict[str, list[str]] = {"inet": []}
        for family, name in (self.marking(end) if end.marks else {}).items():
            families.setdefault(family, []).append(f"input {name};")
        body: list[str] = []
        rewrite: list[str] = []
        division, limit = _own(end), ""
        if end.division is not None and _is_policed(end.division):
            self.draft.whole(end.division)
            limit = self.whole(end.division.parts[0])
        if division is not None:
            for family, name in self.filter(division).items():
                families.setdefault(family, []).append(f"output {name};")
            body = [f"scheduler-map {self.scheduler_map(division)};"]
            if end.shape is None:
                rate = end.link.medium(end.node).rate
                body.append(f"shaping-rate {self.rate(rate, f'{end.place}.rate')};")
            rewrite = self.rewrite(division, families)
        if limit and len(families) > 1:
            self.draft.gap(f"{end.place}.egress", _TWO_BUCKETS)
        if end.shape is not None:
            burst = end.shape.burst or self.one_packet(end.shape.place)
            shaping = f"shaping-rate {self.rate(end.shape.rate, end.shape.place)}"
            profile = [*body, f"{shaping} burst-size {burst};"]
            wanted = f"{end.division.name if end.division else end.node}-shape"
            body = [f"output-traffic-control-profile {self.profiles.define(wanted, profile)};"]
        own = self.links.units.pop(end.interface, [])
        own += block("rewrite-rules", rewrite) if rewrite else []
        body += block(f"unit {unit or 0}", own) if own else []
        inside: list[str] = []
        for family, lines in families.items():
            policed = block("policer", [f"output {limit};"]) if limit else []
            filters = block("filter", lines) if lines else []
            found = [*policed, *filters]
            inside += block(f"family {family}", found) if found else [f"family {family};"]
        logical = block(
            f"unit {unit or 0}", [f"bandwidth {end.link.medium(end.node).rate};", *inside]
        )
        return block(physical, logical), block(physical, body) if body else []

    def families(self, found: Sequence[Conditions]) -> list[str]:
        """Return the families of filters: those of the traffic and of all addresses."""
        wanted = versions(found) | {*self.draft.versions}
        return [family for family, (version, *_) in FAMILIES.items() if version in wanted]

    def marking(self, end: End) -> dict[str, str]:
        """Return the filters that mark what an interface receives, by family."""
        for mark in end.marks:
            if any(of_link(each) for _, each in mark.rules.rules):
                self.draft.gap(f"{mark.place}.match", _LATE)
        found = decisions([mark.rules for mark in end.marks])
        names = {}
        for family in self.families([each for _, each in found]):
            body: list[str] = []
            for number, (index, each) in enumerate(found):
                terms = conditions(each, family)
                if terms is None:
                    continue
                word = FAMILIES[family][1]
                marked = index < len(end.marks)
                new = [f"{word} {dscp_name(end.marks[index].dscp)};"] if marked else []
                body += block(f"term mark-{number}", [*terms, *block("then", [*new, "accept;"])])
            if not found or not found[-1][1].is_any:
                body += block("term rest", ["then accept;"])
            names[family] = self.filters[family].define(f"{end.node}-input", body)
        return names

    def filter(self, division: Division) -> dict[str, str]:
        """Return the filters that classify and police what an interface sends, by family."""
        found = with_either_port(decisions([part.rules for part in division.parts]))
        names = {}
        policed: set[str] = set()
        for family in self.families([each for _, each, _ in found]):
            written = [
                (division.parts[index], terms)
                for index, each, either in found
                for classes in [self.links.before(each)]
                if (terms := conditions(each, family, either=either, classes=classes)) is not None
            ]
            names[family] = self._filter(division, family, written)
            own = {part.name: part for part, _ in written if part.class_.police is not None}
            for name in policed & own.keys():
                self.draft.gap(f"{own[name].place}.police", _TWO_BUCKETS)
            policed |= own.keys()
        return names

    def _filter(
        self, division: Division, family: str, written: Sequence[tuple[Part, list[str]]]
    ) -> str:
        """Return the filter of a family, from the conditions of its terms."""
        count = Counter(part.name for part, _ in written)
        body: list[str] = []
        names = Names(_LONGEST_NAME)
        for part, terms in written:
            then = []
            if part.class_.police is not None:
                kind, lines = policer(part, part.class_.police, self.draft, terms=count[part.name])
                name = self.policers.define(f"{division.name}-{part.name}", [kind, *lines])
                if kind == "policer":
                    then.append(f"policer {name};")
                else:
                    rates = "two-rate" if part.class_.police.peak_rate else "single-rate"
                    then += block(kind, [f"{rates} {name};"])
            then += [f"forwarding-class {self.forwarding_class(division, part)};", "accept;"]
            body += block(f"term {names.unique(part.name)}", [*terms, *block("then", then)])
        return self.filters[family].define(division.name, body)

    def whole(self, part: Part) -> str:
        """Return the policer of everything that an interface sends."""
        police = part.class_.police
        if police is None:
            return ""
        kind, lines = policer(part, police, self.draft, terms=1)
        return self.policers.define(part.name, [kind, *lines])

    def forwarding_class(self, division: Division, part: Part) -> str:
        """Return the forwarding class of a class; the last one of the first policy has queue 0."""
        if not self.queues:
            self.queues[division.parts[-1].name] = 0
        if part.name not in self.queues:
            free = self.free()
            if not free:
                self.draft.gap(part.place, f"Junos has {_QUEUES} queues at an interface")
                return part.name
            self.queues[part.name] = free[0]
        return part.name

    def free(self) -> list[int]:
        """Return the queues without a forwarding class."""
        taken = {*self.queues.values(), self.reserved}
        return [number for number in range(_QUEUES) if number not in taken]

    def scheduler_map(self, division: Division) -> str:
        """Return the scheduler map of a policy."""
        if division.scheduler == "drr":
            self.draft.near(
                f"{division.place}.scheduler",
                "the scheduler of Junos is not specified as deficit round robin",
                "its weighted scheduler",
            )
        elif division.scheduler == "altq-cbq":
            self.draft.gap(f"{division.place}.scheduler", "Junos has no class-based queueing")
        elif division.scheduler == HFSC:
            self.draft.gap(f"{division.place}.scheduler", "Junos has no service curves")
        elif division.scheduler == HTB:
            self.draft.gap(f"{division.place}.scheduler", "Junos does not lend as Linux's HTB")
        last = division.parts[-1]
        strict = [
            part
            for part in division.parts
            if part.strict and (part is not last or division.scheduler != "priority")
        ]
        for part in strict[1:]:
            self.draft.gap(part.place, "Junos has one strict-high queue at an interface")
        priorities = self.priorities(division)
        entries = []
        for part in division.parts:
            lines = []
            if part in strict:
                lines.append("priority strict-high;")
            else:
                lines.append(f"transmit-rate {self.transmit(division, part)};")
                lines.append(f"priority {priorities[part.name]};")
            lines += self.scheduler(part, division)
            name = self.schedulers.define(f"{division.name}-{part.name}", lines)
            entries.append(f"forwarding-class {part.name} scheduler {name};")
        return self.maps.define(division.name, entries)

    def priorities(self, division: Division) -> dict[str, str]:
        """Return the priority of each class that is not strict.

        Queues of priority `high` take turns with a strict-high one.
        """
        if division.scheduler != "link-sharing":
            return {part.name: "low" for part in division.parts}
        strict = any(part.strict for part in division.parts)
        names = _PRIORITIES[1:] if strict else _PRIORITIES
        found: dict[str, str] = {}
        numbers: dict[str, int] = {}
        for part in division.parts:
            if not part.strict and not part.class_.beside_strict:
                numbers[part.name] = int(part.class_.priority or 0)
        for part in division.parts:
            if part.class_.beside_strict:
                found[part.name] = "high"
                if not strict:
                    self.draft.gap(f"{part.place}.beside_strict", "there is no strict class")
                if int(part.class_.priority or 0) >= min(numbers.values(), default=_QUEUES):
                    reason = "queues of Junos that take turns with strict-high borrow first"
                    self.draft.gap(f"{part.place}.priority", reason)
        ranks = sorted(set(numbers.values()))
        if len(ranks) == 1 and not found:
            self.draft.near(
                f"{division.place}.scheduler",
                "the scheduler of Junos lends in an order of priorities",
                "its weighted scheduler",
            )
        for part in division.parts:
            if part.name in numbers and ranks.index(numbers[part.name]) >= len(names):
                reason = f"Junos has {len(names)} priorities below strict-high"
                if strict:
                    reason += " and beside `high`, which takes turns with it"
                self.draft.gap(f"{part.place}.priority", reason)
        most = len(names) - 1
        first = max(len(names) - len(ranks), 0)
        return found | {
            name: names[min(first + ranks.index(number), most)] for name, number in numbers.items()
        }

    def transmit(self, division: Division, part: Part) -> str:
        """Return the guarantee of a class."""
        exact = "" if part.class_.borrow else " exact"
        bandwidth = part.class_.bandwidth
        if bandwidth is None and not exact and not any(each.strict for each in division.parts):
            return "remainder"
        if bandwidth is not None and bandwidth.share is not None:
            percent, rest = divmod(bandwidth.share, WHOLE // 100)
            if not rest:
                return f"percent {percent}{exact}"
        return f"{self.rate(part.rate or 0, f'{part.place}.bandwidth')}{exact}"

    def scheduler(self, part: Part, division: Division) -> list[str]:
        """Return the statements of a scheduler, apart from guarantee and priority."""
        lines = []
        whole, whole_name = division.capacity, division.name
        ceiling, class_ = part.ceiling, part.class_
        if ceiling is not None and class_.borrow:
            burst = "" if class_.limit is not None else ceiling.burst
            if burst == 0:
                burst = self.one_packet(ceiling.place)
            words = f"shaping-rate {self.rate(ceiling.rate, ceiling.place)}"
            lines.append(f"{words} burst-size {burst};" if burst else f"{words};")
        if part.inside is not None:
            self.draft.gap(part.place, _UNDIVIDED)
            return lines
        queue, place = part.queue, f"{part.place}.queue"
        if queue.drop == "head":
            self.draft.gap(f"{place}.drop", "Junos drops at the tail")
        for key, discipline in queue.disciplines.items():
            if isinstance(discipline, Red):
                body = drop_profile(discipline, part, place, self.draft)
                name = self.drops.define(f"{whole_name}-{part.name}", body)
                target = f"loss-priority any protocol any drop-profile {name}"
                lines.append(f"drop-profile-map {target};")
                lines += ["explicit-congestion-notification;"] if discipline.ecn else []
            else:
                reason = _LOSS_PRIORITIES if key == "wred" else _NO_DISCIPLINE
                self.draft.gap(f"{place}.{key}", reason)
        if queue.disciplines.keys() <= {"red"}:
            limit = queue.effective_limit(in_class=part.in_class)
            lines.append(buffer(limit, part, whole, f"{place}.limit", self.draft))
        return lines

    def rewrite(self, division: Division, families: Collection[str]) -> list[str]:
        """Return the rewrite rules of a policy, for an interface with these families."""
        rules = self.links.rewrite(division)
        body = []
        for part in division.parts:
            marks = (
                {} if part.mark is None else dict.fromkeys(levels(part.class_.police), part.mark)
            )
            marks |= {
                loss: action.remark
                for loss, action in losses(part.class_.police).items()
                if action.remark is not None
            }
            lines = [f"loss-priority {loss} code-point {dscp:06b};" for loss, dscp in marks.items()]
            body += block(f"forwarding-class {part.name}", lines) if lines else []
        if not body:
            return rules
        name = self.rewrites.define(division.name, body)
        if "inet6" in families:
            self.rewrites_6[name] = None
            rules.insert(0, f"dscp-ipv6 {name};")
        return [f"dscp {name};", *rules]

    def one_packet(self, place: str) -> int:
        """Return the burst of a shaper that has none."""
        self.draft.near(place, "the shaper of Junos has a burst", f"a burst of {_PACKET} B")
        return _PACKET

    def rate(self, rate: int, place: str) -> int:
        """Return a rate of a scheduler in bit/s."""
        if rate < _LEAST_RATE:
            self.draft.gap(place, f"Junos has rates from {format_rate(_LEAST_RATE)}")
        return rate


def _own(end: End) -> Division | None:
    """Return the policy of an end that divides; inside a policer of everything, if it has one."""
    division = end.division
    if division is not None and _is_policed(division):
        return division.parts[0].inside
    return division


def _is_policed(division: Division) -> bool:
    """Return whether a policy is another one behind a policer that drops."""
    part = division.parts[0]
    police = part.class_.police
    return (
        len(division.parts) == 1
        and part.inside is not None
        and police is not None
        and not police.three_colours
        and police.actions[1].drops
        and part.mark is None
        and part.ceiling is None
    )


def _blocks(found: Definitions, kind: str = "") -> list[str]:
    """Return named blocks in braces."""
    return [line for name, body in found.bodies.items() for line in block(kind + name, body)]
