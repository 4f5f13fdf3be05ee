"""Policies of scenarios from filters, classifiers and schedulers."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

from perhop.routers.reading.configuration import scenario_name
from perhop.routers.reading.junos.filters import VERSIONS
from perhop.routers.reading.matching import Rules, TooManyRulesError
from perhop.scenario.model.dscp import format_dscp
from perhop.units import parse_rate

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence

    from perhop.routers.reading.configuration import Loc, Place
    from perhop.routers.reading.junos.filters import Actions, Filter, Term
    from perhop.routers.reading.junos.policers import Policer
    from perhop.routers.reading.junos.tree import Node
    from perhop.routers.reading.matching import Rule

Decisions = list[tuple[Rules, str]]
"""Packets and their forwarding class: the first that applies decides, and the last one always."""

RewriteTable = dict[tuple[str, str], int]
"""The code point of each forwarding class and loss priority."""

MAX_EXCEPTED: Final = 50_000
"""The most exceptions in the conditions of terms, times the number of terms."""

MAX_INSIDE: Final = 100
"""The most terms of a filter at an output that apply to a class."""

OWN_QUEUE: Final = "the packets of this term have a queue of their own in the class"

DISCARD: Final = {"rate": "1 bps", "burst": "1 B"}
"""A policer to which no packet conforms."""


@dataclass(slots=True)
class Built:
    """A policy with the lines of its values."""

    policy: dict[str, Any] = field(default_factory=dict)
    places: dict[Loc, Place] = field(default_factory=dict)


def too_many(decisions: Decisions) -> bool:
    """Return whether a classification has so many exceptions that it would take too long."""
    excepted = sum(not permit for rules, _ in decisions for permit, _ in rules.rules)
    return excepted * len(decisions) > MAX_EXCEPTED


def packets_of(decisions: Decisions, wanted: Iterable[str], earlier: Iterable[str] = ()) -> Rules:
    """Return the packets of some forwarding classes.

    Args:
        decisions: The classification.
        wanted: The forwarding classes.
        earlier: Forwarding classes whose packets may be in the result, as they are matched before.

    Raises:
        TooManyRulesError: If the result is too large, or would take too long.
    """
    if too_many(decisions):
        raise TooManyRulesError("has too many exceptions")
    wanted, earlier = set(wanted), set(earlier)
    found: deque[Rule] = deque()
    for packets, name in reversed(decisions):
        if name in earlier:
            continue
        inside = name in wanted
        if all(permit for permit, _ in packets.rules):
            # As one rule after another: the first that applies decides.
            found.extendleft((inside, each) for _, each in reversed(packets.rules))
            continue
        after = Rules(tuple(found))
        found = deque((packets | after if inside else ~packets & after).rules)
    return Rules(tuple(found))


def police_of(policer: Policer, rewrite: RewriteTable, forwarding: str | None) -> dict[str, Any]:
    """Return a policer as a scenario states it; loss priorities become the marks they lead to."""
    police = dict(policer.police)
    for action, loss in policer.loss.items():
        code = rewrite.get((forwarding, loss)) if forwarding is not None else None
        usual = rewrite.get((forwarding, "low")) if forwarding is not None else None
        if code is not None and code != usual:
            police[action] = {"remark": format_dscp(code)}
    return police


def limited(
    actions: Actions,
    at: Loc,
    places: dict[Loc, Place],
    rewrite: RewriteTable,
    forwarding: str | None,
) -> dict[str, Any]:
    """Return the policer and the mark of a class, from the actions of a term."""
    found: dict[str, Any] = {}
    if actions.drops:
        found["police"] = dict(DISCARD)
    elif actions.policer is not None:
        found["police"] = police_of(actions.policer, rewrite, forwarding)
        places[*at, "police"] = actions.policer.place
        for key, place in actions.policer.places.items():
            places[*at, "police", key] = place
    if actions.dscp is not None and not actions.drops:
        found["mark"] = format_dscp(actions.dscp)
    if found and actions.then is not None:
        for key in found:
            places.setdefault((*at, key), actions.then)
    return found


def filter_policy(found: Filter, rewrite: RewriteTable | None = None) -> Built | None:
    """Return a filter as a policy; None if it polices, marks and discards nothing."""
    terms = [term for term in found.terms if not term.packets.is_never]
    if not any(term.actions.limits for term in terms):
        return None
    built = Built({"classes": {}}, {(): found.place})
    buckets = buckets_of(terms)
    own = {key for key, bucket in buckets.items() if len(bucket.terms) == 1 and not bucket.before}
    stripped = [_without(term, own) for term in terms]
    _add_terms(built, built.policy["classes"], ("classes",), stripped, rewrite or {}, None)
    _add_buckets(built, terms, buckets, own)
    return built


@dataclass(slots=True)
class Bucket:
    """An instance of a policer.

    Junos makes one for each term that refers to a policer, or with `filter-specific` one for all
    terms of a filter (Juniper, Filter-Specific Policer Overview), or with
    `logical-interface-policer` one for all terms and families of a unit. Packets that go on with
    the next term have passed the policer, whichever later term takes them.

    Attributes:
        policer: The policer.
        terms: The terms whose packets it measures.
        before: True if a packet may pass another policer after it.
    """

    policer: Policer
    terms: list[Term] = field(default_factory=list)
    before: bool = False


def _key(policer: Policer, node: Node) -> Hashable:
    return policer.name if policer.shared or policer.of_unit else id(node)


def buckets_of(terms: Sequence[Term]) -> dict[Hashable, Bucket]:
    """Return the buckets of terms, in the order in which packets pass them."""
    found: dict[Hashable, Bucket] = {}
    for term in terms:
        passed = term.actions.policers
        for index, (policer, node) in enumerate(passed):
            bucket = found.setdefault(_key(policer, node), Bucket(policer))
            if not any(each is term for each in bucket.terms):
                bucket.terms.append(term)
            bucket.before = bucket.before or index < len(passed) - 1
    return found


def _without(term: Term, own: Collection[Hashable]) -> Term:
    """Return a term with those of its policers alone that are a class's own."""
    mine = [each for each in term.actions.policers if _key(*each) in own]
    policer, node = mine[-1] if mine else (None, None)
    return replace(term, actions=replace(term.actions, policer=policer, node=node, before=()))


def _add_buckets(
    built: Built,
    terms: Sequence[Term],
    buckets: Mapping[Hashable, Bucket],
    own: Collection[Hashable],
) -> None:
    """Add the buckets that are not a class's own as policers before the classes.

    Raises:
        TooManyRulesError: It takes too many rules to tell the packets of one.
    """
    policers: dict[str, Any] = {}
    for key, bucket in buckets.items():
        if key in own:
            continue
        inside = [any(each is term for each in bucket.terms) for term in terms]
        decisions = [
            (term.packets, "in" if measured else "out")
            for term, measured in zip(terms, inside, strict=True)
        ]
        packets = packets_of(decisions, {"in"})
        if packets.is_never:
            continue
        _add_policer(built, policers, bucket.policer, packets)
    if policers:
        built.policy["policers"] = policers


def _add_policer(built: Built, policers: dict[str, Any], policer: Policer, packets: Rules) -> None:
    """Add a policer before the classes of a policy to those that there are."""
    others = (*built.policy.get("classes", ()), *built.policy.get("policers", ()))
    name = scenario_name(policer.name, {*others, *policers})
    policers[name] = {"match": packets.written(), "police": police_of(policer, {}, None)}
    built.places["policers", name] = policer.place
    built.places["policers", name, "police"] = policer.place


def _add_terms(
    built: Built,
    classes: dict[str, Any],
    at: Loc,
    terms: Sequence[Term],
    rewrite: RewriteTable,
    forwarding: str | None,
) -> None:
    """Add a class for each term; the last one gets all packets that are left."""
    for index, term in enumerate(terms):
        last = index == len(terms) - 1
        name = scenario_name(term.name, classes)
        here = (*at, name)
        match = "any" if last else term.packets.written()
        classes[name] = {
            "match": match,
            **limited(
                term.actions,
                here,
                built.places,
                rewrite,
                forwarding or term.actions.forwarding_class,
            ),
        }
        built.places[here] = term.place


def inside(
    built: Built,
    policers: Sequence[tuple[str, Policer]],
    families: Collection[str],
    rewrite: RewriteTable,
) -> Built:
    """Return a policy whose packets pass the policers of a unit first.

    Args:
        built: The policy.
        policers: The policers, with the families whose packets pass each.
        families: The families of the unit.
        rewrite: The rewrite rule of the output.
    """
    (family, policer), *others = policers
    if others:
        whole = policer.of_unit and all(each is policer for _, each in others)
    else:
        whole = family not in VERSIONS or not (VERSIONS.keys() - {family}) & set(families)
    if whole:
        return _inside(built, policer, rewrite)
    found = Built({**built.policy}, {**built.places})  # other units may have it, too
    found.policy.setdefault("classes", {"others": {"match": "any"}})
    first: dict[str, Any] = {}
    for family, policer in policers:
        _add_policer(found, first, policer, VERSIONS.get(family, Rules.any()))
    found.policy["policers"] = first | found.policy.get("policers", {})
    return found


def _inside(built: Built, policer: Policer, rewrite: RewriteTable) -> Built:
    """Return a policy all packets of which pass a policer first."""
    name = scenario_name(policer.name)
    places: dict[Loc, Place] = {
        (): built.places[()],
        ("classes", name): policer.place,
        ("classes", name, "police"): policer.place,
    }
    places |= {("classes", name, "police", key): at for key, at in policer.places.items()}
    places |= {("classes", name, *loc): at for loc, at in built.places.items() if loc}
    outer: dict[str, Any] = {"match": "any", "police": police_of(policer, rewrite, None)}
    if built.policy.get("classes"):
        outer["classes"] = built.policy["classes"]
    before = {key: built.policy[key] for key in ("policers",) if key in built.policy}
    places |= {loc: at for loc, at in built.places.items() if loc[:1] == ("policers",)}
    return Built({**before, "classes": {name: outer}}, places)


@dataclass(slots=True)
class QueueClass:
    """A class of a policy at an output: a queue, with the forwarding classes that use it.

    Attributes:
        name: Its name in the scenario.
        forwarding: The forwarding classes.
        packets: Its packets.
        settings: What the scheduler says: `bandwidth`, `queue` and so on.
        places: The lines of these.
        place: The line of the class.
        strict: True if it is served before all others.
    """

    name: str
    forwarding: list[str]
    packets: Rules
    settings: dict[str, Any]
    places: dict[Loc, Place]
    place: Place
    strict: bool


def assemble(
    classes: Sequence[QueueClass],
    decisions: Decisions,
    output: Filter | None,
    rewrite: RewriteTable,
    marks: Mapping[str, Any],
    rate: int | None,
    room: Fraction,
    place: Place,
) -> Built:
    """Return the policy of an output.

    Args:
        classes: Its queues; the last one gets all packets that are left.
        decisions: The forwarding class of packets.
        output: The filter at the output.
        rewrite: The rewrite rule of the output.
        marks: The marks that the packets of each class get, as a scenario states them.
        rate: The rate in bit/s, or None.
        room: The part of the rate that is not guaranteed to classes. Guarantees of a policy contain
            what the policers of its strict classes let pass, unless these are nested.
        place: The line of the policy.
    """
    built = Built({"classes": {}}, {(): place})
    buckets = buckets_of(output.terms) if output is not None else {}
    relevant = [
        _relevant(output.terms, each.forwarding, packets_of(decisions, each.forwarding))
        for each in classes
        if output is not None
    ]
    own: set[Hashable] = set()
    for key, bucket in buckets.items():
        # A class whose terms all have the bucket, which no other class has, polices by itself.
        those = {id(term) for term in bucket.terms}
        holders = [{id(t) for t in terms} for terms in relevant]
        holders = [terms for terms in holders if terms & those]
        if not bucket.before and len(holders) == 1 and (len(those) == 1 or holders[0] == those):
            own.add(key)
    for index, each in enumerate(classes):
        at: Loc = ("classes", each.name)
        last = index == len(classes) - 1
        entry: dict[str, Any] = {"match": "any" if last else each.packets.written()}
        entry |= each.settings
        if each.name in marks:
            entry["mark"] = marks[each.name]
        built.places[at] = each.place
        built.places |= {(*at, *loc): where for loc, where in each.places.items()}
        if output is not None:
            terms = [_without(term, own) for term in relevant[index]]
            room -= _police(built, entry, at, terms, rewrite, each, rate, room)
        built.policy["classes"][each.name] = entry
    if output is not None:
        _add_buckets(built, output.terms, buckets, own)
    return built


def _relevant(terms: Sequence[Term], forwarding: Sequence[str], packets: Rules) -> list[Term]:
    """Return the terms that apply to packets of a class, up to one that takes the rest."""
    few = len(terms) * len(packets.rules) <= MAX_EXCEPTED
    found: list[Term] = []
    for term in terms:
        goes_to = term.actions.forwarding_class
        if goes_to is not None and goes_to not in forwarding:
            continue
        exact = not term.packets.is_any and few
        if exact and goes_to is None and (term.packets & packets).is_never:
            continue
        found.append(term)
        if len(found) > MAX_INSIDE:
            raise TooManyRulesError(f"has more than {MAX_INSIDE} terms in a class")
        if term.packets.is_any or (exact and (~term.packets & packets).is_never):
            break
    # Terms at the end that do nothing are one.
    while len(found) > 1 and not found[-1].actions.limits and not found[-2].actions.limits:
        found.pop(-2)
    return found


def _police(
    built: Built,
    entry: dict[str, Any],
    at: Loc,
    terms: Sequence[Term],
    rewrite: RewriteTable,
    each: QueueClass,
    rate: int | None,
    room: Fraction,
) -> Fraction:
    """Add the policers and marks of an output filter to a class; return what is guaranteed more."""
    if not any(term.actions.limits for term in terms):
        return Fraction(0)
    forwarding = each.forwarding[0]
    if len(terms) == 1 or _alike(terms):
        limits = limited(terms[0].actions, at, built.places, rewrite, forwarding)
        share = _share(limits.get("police", {}), rate) if each.strict else Fraction(0)
        if share <= room:
            entry |= limits
            return share
    queue = entry.pop("queue", None)
    mark = entry.pop("mark", None)
    nested: dict[str, Any] = {}
    _add_terms(built, nested, (*at, "classes"), terms, rewrite, forwarding)
    for name, inner in nested.items():
        if mark is not None:
            inner.setdefault("mark", mark)
        if queue is not None:
            inner["queue"] = queue
        for key in ("queue", "mark"):
            for loc, where in list(built.places.items()):
                if loc[: len(at) + 1] == (*at, key):
                    built.places.setdefault((*at, "classes", name, *loc[len(at) :]), where)
    for term in terms:
        if term.actions.node is not None and len(terms) > 1:
            term.actions.node.approximated(OWN_QUEUE)
    entry["classes"] = nested
    return Fraction(0)


def _alike(terms: Sequence[Term]) -> bool:
    """Return whether several terms have one bucket, and else do the same."""
    first = terms[0].actions
    if first.policer is None or not first.policer.shared:
        return False
    return all(
        (each.actions.policer, each.actions.dscp, each.actions.drops)
        == (first.policer, first.dscp, first.drops)
        for each in terms
    )


def _share(police: Mapping[str, Any], rate: int | None) -> Fraction:
    """Return the part of an interface that a policer lets pass; 0 if unknown."""
    text = str(police.get("rate", "0%"))
    if text.endswith("%"):
        return Fraction(text[:-1]) / 100
    return Fraction(parse_rate(text), rate) if rate else Fraction(0)
