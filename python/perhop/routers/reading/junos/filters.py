"""Firewall filters: their terms in order, with the packets and the actions of each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from perhop.routers.reading.configuration import Fault
from perhop.routers.reading.junos import policers, values
from perhop.routers.reading.junos.conditions import BY_CLASS, Matcher
from perhop.routers.reading.matching import OF_VERSION, Rules, TooManyRulesError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from perhop.routers.reading.configuration import Place
    from perhop.routers.reading.junos.policers import Policer
    from perhop.routers.reading.junos.tree import Node

FAMILIES: Final = ("inet", "inet6", "any")
"""Families whose filters see IP headers."""

MAX_TERMS: Final = 1000
"""The most terms of a filter that becomes a policy."""

VERSIONS: Final = {
    "inet": Rules.of(OF_VERSION[4]),
    "inet6": Rules.of(OF_VERSION[6]),
}
"""The packets of families."""

_MAX_NEXT: Final = 64
_MOST_COMPARED: Final = 64
"""The most terms that end with `next term`."""

POLICERS: Final = ("policer", "three-color-policer", "hierarchical-policer")
"""Actions that police packets."""

_ABOUT_QOS: Final = frozenset(
    (
        *(*POLICERS, "prefix-action", "dscp"),
        *("enhanced-hierarchical-policer", "policer-list"),
        *("forwarding-class", "loss-priority", "traffic-class", "traffic-class-count"),
    )
)
_WITHOUT_EFFECT: Final = frozenset(
    (
        *("count", "log", "syslog", "sample", "accept", "service-accounting", "packet-mode"),
        *("service-filter-hit", "port-mirror", "port-mirror-instance", "hw-counter"),
    )
)


NOT_POLICED: Final = {
    "prefix-action": "policers for each prefix are not modelled",
    "enhanced-hierarchical-policer": "policers with guarantees inside are not modelled",
}
"""Kinds of policers that perhop does not have."""


@dataclass(frozen=True, slots=True)
class Actions:
    """What a filter does with packets.

    Attributes:
        policer: The policer that they pass.
        forwarding_class: Their new forwarding class.
        dscp: Their new code point.
        drops: True if they are discarded.
        then: The line of the actions.
        node: The statement of the policer.
        before: Policers of terms that went on with the next one, and their statements.
    """

    policer: Policer | None = None
    forwarding_class: str | None = None
    dscp: int | None = None
    drops: bool = False
    then: Place | None = None
    node: Node | None = None
    before: tuple[tuple[Policer, Node], ...] = ()

    @property
    def limits(self) -> bool:
        """True if the packets are policed, marked or discarded."""
        policed = self.policer is not None or bool(self.before)
        return policed or self.dscp is not None or self.drops

    @property
    def policers(self) -> tuple[tuple[Policer, Node], ...]:
        """The policers that the packets pass, in order, with their statements."""
        if self.policer is None or self.node is None:
            return self.before
        return (*self.before, (self.policer, self.node))


@dataclass(frozen=True, slots=True)
class Term:
    """A term of a filter.

    Attributes:
        name: Its name.
        packets: The packets that meet its conditions, whatever earlier terms take.
        actions: What becomes of them.
        place: Its line.
    """

    name: str
    packets: Rules
    actions: Actions
    place: Place


@dataclass(frozen=True, slots=True)
class Filter:
    """A firewall filter: the first term that applies decides, and the last one discards the rest.

    Attributes:
        name: Its name.
        terms: Its terms; the last one matches all packets.
        place: Its line.
        implicit: True if the last term is the implicit one, which discards.
        stated: Its terms as the configuration states them, each with whether packets go on to the
            next one.
    """

    name: str
    terms: tuple[Term, ...]
    place: Place
    implicit: bool
    stated: tuple[tuple[Term, bool], ...]


def about_qos(node: Node) -> bool:
    """Return whether a filter does more than to accept and discard packets."""
    for term in (*node.under("term"), node):
        then = term.get("then")
        if any(each.word in _ABOUT_QOS and not each.emptied for each in then or ()):
            return True
    return False


class Filters:
    """The firewall of a router.

    Attributes:
        matcher: Reads conditions.
        used: Names of policers that something refers to.
    """

    def __init__(self, firewall: Node | None, prefixes: Node | None) -> None:
        self.firewall = firewall
        self.prefixes = prefixes
        self.used: set[tuple[str, str]] = set()
        self._nodes: dict[tuple[str, str], Node | None] = {}
        self._policers: dict[tuple[str, str], Policer | None] = {}
        self._filters: dict[tuple[str, str], Filter | None] = {}
        self._by_class: dict[tuple[str, str], bool] = {}

    def all(self) -> Iterator[tuple[str, Node]]:
        """Yield the family and the node of every filter about quality of service."""
        if self.firewall is None:
            return
        for family in self.firewall.under("family"):
            for node in family.under("filter"):
                if about_qos(node):
                    yield family.word, node
        for node in self.firewall.under("filter"):
            if about_qos(node):
                yield "inet", node

    def node(self, family: str, name: str) -> Node | None:
        """Return a filter about quality of service; those without a family are of `inet`."""
        key = (family, name)
        if key not in self._nodes:
            self._nodes[key] = self._node(family, name)
        return self._nodes[key]

    def _node(self, family: str, name: str) -> Node | None:
        found = self.defined(family, name)
        return found if found is not None and about_qos(found) else None

    def has_any(self, family: str) -> bool:
        """Return whether the configuration defines filters of a family."""
        return self.firewall is not None and bool(self.firewall.under("family", family, "filter"))

    def defined(self, family: str, name: str) -> Node | None:
        """Return a filter, whatever it is about."""
        if self.firewall is None:
            return None
        found = self.firewall.get("family", family, "filter", name)
        if found is None:
            found = self.firewall.get("family", "any", "filter", name)
        return found or self.firewall.get("filter", name)

    def by_class(self, names: Iterable[tuple[str, str]]) -> bool:
        """Return whether one of some filters has a condition on forwarding classes."""
        for key in names:
            if key not in self._by_class:
                node = self.defined(*key)
                terms = (*node.under("term"), node) if node is not None else ()
                self._by_class[key] = any(
                    term.get("from", word) is not None for term in terms for word in BY_CLASS
                )
        return any(self._by_class[key] for key in names)

    def policer(self, kind: str, name: str) -> Policer | None:
        """Return a policer of a kind, such as ``policer``, by name; None if it is unknown."""
        key = (kind, name)
        self.used.add(key)
        if key not in self._policers:
            node = self.firewall.get(kind, name) if self.firewall is not None else None
            read = {
                "policer": policers.read_policer,
                "three-color-policer": policers.read_colours,
                "hierarchical-policer": policers.read_hierarchical,
            }[kind]
            self._policers[key] = read(node) if node is not None else None
        return self._policers[key]

    def refuse(self, kind: str, name: Node) -> None:
        """Note that a statement names a policer that is not defined, or that has no meaning."""
        if self.firewall is not None and self.firewall.get(kind, name.word) is not None:
            name.ignored("no usable policer has this name")
        else:
            name.undefined("the configuration has no such policer")

    def filter(
        self, family: str, name: str, classes: Mapping[str, Rules] | None = None
    ) -> Filter | None:
        """Return a filter by family and name.

        Args:
            family: A family of `FAMILIES`.
            name: The filter's name.
            classes: For a filter at an output, the packets of each forwarding class.

        Returns:
            None if there is none, or if it is too large.
            One without a name accepts all packets.
        """
        if not name and self.firewall is not None:
            place = self.firewall.place
            return _filter(name, place, [(Term("others", Rules.any(), Actions(), place), False)])
        key = (family, name)
        if classes is None and key in self._filters:
            return self._filters[key]
        node = self.defined(family, name)
        found = None
        if node is not None:
            try:
                found = self._read(node, Matcher(self.prefixes, classes or {}, family))
            except TooManyRulesError as error:
                node.ignored(f"a set of packets {error}")
        if classes is None:
            self._filters[key] = found
        return found

    def together(
        self, names: Sequence[tuple[str, str]], classes: Mapping[str, Rules] | None = None
    ) -> tuple[Filter | None, set[tuple[str, str]]]:
        """Return the filters at one place as one filter, and which of them it contains.

        Those of one family apply one after another; those of `inet` and `inet6` to addresses of
        their version.

        Raises:
            TooManyRulesError: If a set of packets is too large.
        """
        families: dict[str, list[tuple[str, Filter]]] = {}
        for family, name in names:
            each = self.filter(family, name, classes)
            if each is not None:
                families.setdefault(family, []).append((name, each))
        if not families.keys() >= {"inet", "inet6"}:
            families = dict(list(families.items())[:1])
        else:
            families = {family: families[family] for family in ("inet", "inet6")}
        used = {(family, name) for family, all_ in families.items() for name, _ in all_}
        chains = {family: _chained([each for _, each in all_]) for family, all_ in families.items()}
        found = list(chains.values())
        if len(found) < 2:
            return (found[0] if found else None), used
        terms = [
            replace(term, packets=term.packets & VERSIONS[family])
            for family, chain in chains.items()
            for term in chain.terms
        ]
        terms[-1] = replace(terms[-1], packets=Rules.any())
        name = "_".join(each.name for each in found if each.name)
        return Filter(name, tuple(terms), found[0].place, found[1].implicit, ()), used

    def _read(self, node: Node, matcher: Matcher) -> Filter | None:
        """Return a filter; None if it is too large, which is noted.

        Raises:
            TooManyRulesError: If a set of packets is too large.
        """
        nodes = node.under("term")
        if node.get("then") is not None or node.get("from") is not None:
            nodes = [*nodes, node]
        if len(nodes) > MAX_TERMS:
            node.ignored(f"has {len(nodes):,} terms; perhop reads at most {MAX_TERMS:,}")
            return None
        node.mark_name()
        for setting in node:
            if setting.word in ("interface-specific", "physical-interface-filter"):
                setting.modelled()
        following: list[tuple[Term, bool]] = []
        taker = ""
        for each in nodes:
            term, goes_on = self._term(each, matcher)
            if term is None:
                continue
            following.append((term, goes_on))
            if taker:
                said = f"term `{each.word}` gets no packets: `{taker}` before it takes all"
                each.faulty(Fault.SHADOWED, said)
            elif term.packets.is_any and not goes_on:
                taker = term.name
        return _filter(node.word, node.place, following)

    def _term(self, node: Node, matcher: Matcher) -> tuple[Term | None, bool]:
        """Return a term, and whether packets go on to the next one."""
        if (nested := node.get("filter")) is not None:
            nested.ignored("perhop does not follow filters in terms")
        packets = matcher.rules(node.get("from"))
        if packets is None:
            node.ignored("perhop knows none of its conditions: the term is left out")
            return None, False
        node.mark_name()
        actions, goes_on = self._actions(node.get("then"))
        return Term(node.word, packets, actions, node.place), goes_on

    def _actions(self, then: Node | None) -> tuple[Actions, bool]:
        actions = Actions(then=then.place if then is not None else None)
        goes_on = False
        for each in then or ():
            word = each.word
            if each.emptied and word in _ABOUT_QOS:
                continue
            if word in POLICERS:
                actions = self._police(each, actions)
            elif word == "forwarding-class":
                if (name := then and then.value(word)) is not None:
                    actions = replace(actions, forwarding_class=name.word)
                    name.modelled()
            elif word == "loss-priority" and each.get("low") is not None:
                each.modelled()
            elif word == "loss-priority":
                each.approximated("drop profiles go by code point, not by what filters set")
            elif word in ("dscp", "traffic-class"):
                value = then.value(word) if then is not None else None
                code = values.filter_dscp(value.word) if value is not None else None
                if code is None:
                    each.ignored("is not a code point")
                else:
                    actions = replace(actions, dscp=code)
                    each.modelled()
            elif word in ("discard", "reject"):
                actions = replace(actions, drops=True)
                each.modelled()
            elif word == "next":
                goes_on = each.get("term") is not None
                each.modelled()
            elif word in _WITHOUT_EFFECT:
                each.modelled()
            elif word in NOT_POLICED:
                each.ignored(NOT_POLICED[word])
            elif word in ("routing-instance", "next-ip", "next-ip6", "next-interface"):
                each.ignored("packets go by perhop's routes")
            else:
                each.ignored("unknown action")
        return actions, goes_on

    def _police(self, node: Node, actions: Actions) -> Actions:
        names = [each for each in node if each.word not in ("single-rate", "two-rate")]
        names += [name for kind in ("single-rate", "two-rate") for name in node.under(kind)]
        for name in names:
            found = self.policer(node.word, name.word)
            if found is None:
                self.refuse(node.word, name)
            elif actions.policer is not None:
                name.ignored("perhop polices packets once: by the first policer")
            else:
                actions = replace(actions, policer=found, node=name)
                name.modelled()
        return actions


def _filter(name: str, place: Place, stated: Sequence[tuple[Term, bool]]) -> Filter:
    """Return a filter of terms, each with whether packets go on to the next one.

    Raises:
        TooManyRulesError: Too many combinations of terms apply to packets.
    """
    if sum(goes_on for _, goes_on in stated) > _MAX_NEXT:
        raise TooManyRulesError(f"depends on more than {_MAX_NEXT} terms with `next term`")
    last = Term("discarded", Rules.any(), Actions(drops=True), place)
    terms = [last]
    for term, goes_on in reversed(stated):
        if not goes_on:
            terms = [term] if term.packets.is_any else [term, *terms]
            continue
        both = [_joined(term, later) for later in terms[: _reach(term, terms)]]
        inside = [each for each in both if each.packets.rules]
        terms = inside if term.packets.is_any else [*inside, *terms]
        if len(terms) > MAX_TERMS:
            raise TooManyRulesError("depends on too many combinations of terms by `next term`")
    return Filter(name, tuple(terms), place, terms[-1] is last, tuple(stated))


def _chained(filters: Sequence[Filter]) -> Filter:
    """Return the filters of a list as one: only the last one discards what no term takes.

    Packets that go on after the last term of a filter come to the next filter (Juniper, Multiple
    Firewall Filters Applied as a List: "a single concatenated filter").

    Raises:
        TooManyRulesError: Too many combinations of terms apply to packets.
    """
    if len(filters) == 1:
        return filters[0]
    stated = [each for found in filters for each in found.stated]
    return _filter(filters[0].name, filters[0].place, stated)


def _reach(term: Term, terms: Sequence[Term]) -> int:
    """Return how many later terms the packets of a term can reach, if there are few terms."""
    if len(terms) <= _MOST_COMPARED:
        for count, later in enumerate(terms, 1):
            try:
                left = (term.packets & ~later.packets).simplified()
            except TooManyRulesError:
                break
            if left.is_never:
                return count
    return len(terms)


def _joined(first: Term, later: Term) -> Term:
    """Return a term of the packets that a term passes on to another, with the actions of both."""
    a, b = first.actions, later.actions
    actions = Actions(
        b.policer,
        b.forwarding_class or a.forwarding_class,
        b.dscp if b.dscp is not None else a.dscp,
        b.drops,
        b.then or a.then,
        b.node,
        (*a.policers, *b.before),
    )
    whole = later.packets.is_any
    packets = first.packets if whole else first.packets & later.packets
    name = first.name if whole else f"{first.name}_{later.name}"
    return Term(name[:60], packets, actions, first.place)
