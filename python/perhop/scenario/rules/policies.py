"""Rules on policies: classes that can be reached, and guarantees that can be kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perhop.hints import did_you_mean
from perhop.scenario.model.cbq import ALTQ_CBQ
from perhop.scenario.model.changes import NO_POLICY
from perhop.scenario.model.classes import MAX_CLASSES, MOST_SHARED
from perhop.scenario.model.htb import HTB
from perhop.scenario.model.matching import match_rules, matches_any
from perhop.scenario.resolve import nesting
from perhop.scenario.resolve.elements import classes, policers, polices
from perhop.scenario.resolve.nesting import has_cycles, references, with_nested
from perhop.scenario.resolve.packets import Index, Selection, sent
from perhop.scenario.resolve.shares import guarantee, rates, rest
from perhop.scenario.resolve.steps import attachments
from perhop.scenario.rules.findings import Finding
from perhop.scenario.rules.marking import matches
from perhop.units import WHOLE, format_rate, format_share, quote

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from perhop.scenario.model.base import Loc
    from perhop.scenario.model.classes import Class, Police, Policy
    from perhop.scenario.resolve.scenario import ResolvedScenario
    from perhop.scenario.resolve.steps import Attachment

MAX_RULES = 65_535
"""The most elements of all matches of a policy, nested ones apart."""


def last_classes(scenario: ResolvedScenario) -> Iterator[Finding]:
    """Find policies whose classes leave packets without a class."""
    for loc, policy in scenario.all_policies():
        if not any(matches_any(class_.match) for class_ in policy.classes.values()):
            yield Finding(
                loc, "leaves packets without a class; expected the last one to have `match: any`"
            )


def combinations(scenario: ResolvedScenario) -> Iterator[Finding]:
    """Find keys of a class that exclude each other."""
    for loc, policy, class_ in classes(scenario):
        strict = "`priority: strict`" if class_.priority == "strict" else "`scheduler: priority`"
        if policy.strict(class_) and class_.bandwidth is not None:
            yield Finding(
                (*loc, "bandwidth"),
                f"is given beside {strict}; expected one of the two "
                "(`police` limits a strict class)",
                at_key=True,
            )
        if policy.strict(class_) and not class_.borrow:
            yield Finding(
                (*loc, "borrow"),
                f"is given beside {strict}; expected one of the two (`limit` is a ceiling)",
                at_key=True,
            )
        if class_.borrows_late and policy.effective_scheduler not in (
            "link-sharing",
            HTB,
            ALTQ_CBQ,
        ):
            yield Finding(
                (*loc, "priority"),
                f"is a number, which `scheduler: {policy.scheduler}` has no use for; "
                "expected `scheduler: link-sharing`",
            )
        for key, have in (("policy", "whose classes have"), ("classes", "which have")):
            if getattr(class_, key) is not None and class_.queue is not None:
                yield Finding(
                    (*loc, "queue"),
                    f"is given beside `{key}`, {have} the queues; expected one of the two",
                    at_key=True,
                )
        if class_.policy is not None and class_.classes is not None:
            yield Finding(
                (*loc, "classes"), "is given beside `policy`; expected one of the two", at_key=True
            )
        ceilings = [
            key
            for key, given in (
                ("borrow", not class_.borrow),
                ("limit", class_.limit is not None),
                ("shape", class_.shape is not None),
            )
            if given
        ]
        for key in ceilings[1:]:
            yield Finding(
                (*loc, key),
                f"is given beside `{ceilings[0]}`, another ceiling; expected one of the two",
                at_key=True,
            )
        if class_.policy is not None and class_.policy not in scenario.policies:
            yield Finding(
                (*loc, "policy"),
                f"{quote(class_.policy)} is not a policy",
                did_you_mean(class_.policy, scenario.policies),
            )


def quanta(scenario: ResolvedScenario) -> Iterator[Finding]:
    """Find quanta without a use, and classes that have none beside others that have one."""
    for loc, policy, class_ in classes(scenario):
        other = "`priority: strict`" if policy.strict(class_) else "`bandwidth`"
        turns = policy.effective_scheduler in ("drr", "link-sharing", HTB)
        shares = policy.scheduler == "drr" and class_.bandwidth is not None
        if class_.quantum is not None and not turns:
            yield Finding(
                (*loc, "quantum"),
                f"is given without `scheduler: drr`, `link-sharing` or `{HTB}`",
                at_key=True,
            )
        elif class_.quantum is not None and (policy.strict(class_) or shares):
            yield Finding(
                (*loc, "quantum"),
                f"is given beside {other}; expected one of the two",
                at_key=True,
            )
        elif (
            policy.effective_scheduler in ("drr", "link-sharing")
            and any(each.quantum is not None for each in policy.classes.values())
            and class_.quantum is None
            and not policy.strict(class_)
        ):
            yield Finding(
                loc, "has no `quantum`, but other classes beside it have one; expected one, too"
            )


def turns_beside_strict(scenario: ResolvedScenario) -> Iterator[Finding]:
    """Find classes that can take no turns with strict ones."""
    for loc, policy, class_ in classes(scenario):
        if not class_.beside_strict:
            continue
        if policy.effective_scheduler != "link-sharing":
            yield Finding(
                (*loc, "beside_strict"), "is given without `scheduler: link-sharing`", at_key=True
            )
        elif policy.strict(class_):
            yield Finding(
                (*loc, "beside_strict"),
                "is given beside `priority: strict`; expected one of the two",
                at_key=True,
            )


def colours(scenario: ResolvedScenario) -> Iterator[Finding]:
    """Find policers that are neither a two-colour nor one kind of three-colour policer."""
    for at, _, police in polices(scenario):
        peak = (police.peak_rate, police.peak_burst)
        if police.excess_burst is not None and peak != (None, None):
            key = "peak_rate" if police.peak_rate is not None else "peak_burst"
            yield Finding(
                (*at, "excess_burst"),
                f"is given beside `{key}`; expected one of the two "
                "(a single rate with an excess burst, or two rates)",
                at_key=True,
            )
        elif (police.peak_rate is None) != (police.peak_burst is None):
            given, missing = ("peak_rate", "peak_burst")[:: 1 if police.peak_rate else -1]
            yield Finding((*at, given), f"is given without `{missing}`; expected both", at_key=True)
        elif police.violate is not None and not police.three_colours:
            yield Finding(
                (*at, "violate"),
                "is given without `excess_burst`, or `peak_rate` and `peak_burst`, so that no "
                "packet can violate",
                at_key=True,
            )


def names_of_policers(scenario: ResolvedScenario) -> Iterator[Finding]:
    """Find policers before classes that have the name of a class, by which results tell them."""
    for loc, _ in policers(scenario):
        if loc[-1] in scenario.policies[str(loc[1])].classes:
            yield Finding(
                loc, "has the name of a class; expected another, as both have results", at_key=True
            )


def number_of_classes(scenario: ResolvedScenario) -> Iterator[Finding]:
    """Find too many classes."""
    total = sum(len(policy.classes) for _, policy in scenario.all_policies())
    if total > MAX_CLASSES:
        yield Finding(
            ("policies",), f"have {total:,} classes together; expected at most {MAX_CLASSES:,}"
        )


def class_matches(scenario: ResolvedScenario) -> Iterator[Finding]:
    """Find matches with unknown nodes, and elements of a match that have no effect."""
    for loc, _, class_ in classes(scenario):
        yield from matches(class_.match, scenario.nodes, (*loc, "match"))
    for loc, policer in policers(scenario):
        yield from matches(policer.match, scenario.nodes, (*loc, "match"))


def number_of_rules(scenario: ResolvedScenario) -> Iterator[Finding]:
    """Find policies whose matches have too many elements."""
    for loc, policy in scenario.all_policies():
        found = [class_.match for class_ in policy.classes.values()]
        found += [policer.match for policer in policy.policers.values()]
        total = sum(len(match_rules(match)) for match in found)
        if total > MAX_RULES:
            yield Finding(
                loc, f"match by {total:,} elements together; expected at most {MAX_RULES:,}"
            )


def cycles(scenario: ResolvedScenario) -> Iterator[Finding]:
    """Find policies that contain themselves."""
    for cycle in nesting.cycles(scenario):
        policy, keys = cycle[0]
        yield Finding(
            ("policies", policy, "classes", *keys, "policy"),
            f"makes a cycle: {' > '.join([name for name, _ in cycle] + [policy])}",
        )


def unused_policies(scenario: ResolvedScenario) -> Iterator[Finding]:
    """Find policies that no link or tunnel uses and that are not `unused`."""
    reached = [policy for link in scenario.links for policy in link.egress.values()]
    reached += [name for tunnel in scenario.tunnels.values() for name in tunnel.egress.values()]
    reached += [name for name, policy in scenario.policies.items() if policy.unused]
    later = (change.policy for change in scenario.changes)
    reached += [policy for policy in later if policy is not None and policy != NO_POLICY]
    nested = {named for policy in scenario.policies.values() for _, named in references(policy)}
    if not {*reached, *nested} <= scenario.policies.keys():
        return  # a misspelt name is the cause
    used = with_nested(scenario, reached)
    for name in scenario.policies:
        if name not in used:
            yield Finding(
                ("policies", name),
                "is used by no link or tunnel; expected an `egress` that names it, or "
                "`unused: true`",
                at_key=True,
            )


def guarantees(
    scenario: ResolvedScenario, attached: Iterable[Attachment] | None = None
) -> Iterator[Finding]:
    """Find policies that guarantee more than their link or class has.

    Args:
        scenario: The policies, and the network.
        attached: Where policies stand; by default wherever the scenario ever has them.
    """
    if has_cycles(scenario):
        return
    sizes = _sizes(scenario)
    told: set[tuple[Loc, int]] = set()
    for place, directed, name, divided in attached or attachments(scenario):
        if name not in scenario.policies:
            continue
        if divided > MOST_SHARED:
            yield Finding(
                place,
                f"{quote(name)} divides the {format_rate(divided)} of link {quote(directed)}; "
                f"expected at most {format_rate(MOST_SHARED)} where there are classes",
            )
        if sizes[name] > MAX_CLASSES:
            yield Finding(
                place,
                f"{quote(name)} makes {sizes[name]:,} classes, nested ones included; "
                f"expected at most {MAX_CLASSES:,}",
            )
            continue
        top: Loc = ("policies", name, "classes")
        policy = scenario.policies[name]
        capacity = policy.root(divided)
        where = f"link {quote(directed)}" if capacity == divided else f"the root of {quote(name)}"
        for key, policer in policy.policers.items():
            at: Loc = ("policies", name, "policers", key, "police")
            yield from _tiny_rates(at, policer.police, divided, where)
        todo = [(top, policy, capacity, where)]
        while todo:
            loc, policy, capacity, where = todo.pop()
            if (loc, capacity) not in told:
                told.add((loc, capacity))
                yield from excess_guarantees(loc, policy, capacity, where)
                todo += _divided(scenario, loc, policy, capacity)


def shadowed_classes(scenario: ResolvedScenario) -> Iterator[Finding]:
    """Find classes whose packets an earlier class takes, and that are not `unused`."""
    if any(class_matches(scenario)) or any(number_of_classes(scenario)):
        return
    addresses = scenario.all_addresses
    for loc, policy in scenario.all_policies():
        # By a value that packets must have to be theirs, so that few need to be compared.
        earlier: dict[object, list[tuple[int, str, Selection, int]]] = {}
        for index, (key, class_) in enumerate(policy.classes.items()):
            selection = Selection.of(class_.match, addresses)
            permitted = list(selection.permitted())
            takers = []
            for _, packets in permitted:
                near = (earlier.get(handle, ()) for handle in packets.samples())
                of_rule = [t[:2] for group in near for t in group if t[2].takes(t[3], packets)]
                takers += [min(of_rule)] if of_rule else []
            if not permitted and not class_.unused:
                yield Finding(
                    (*loc, key, "match"),
                    "matches no packet: its `except` elements exclude all that the others match",
                )
            elif len(takers) == len(permitted) and not class_.unused:
                names = " and ".join(quote(name) for _, name in sorted(set(takers)))
                take = "takes" if len(set(takers)) == 1 else "take"
                yield Finding(
                    (*loc, key),
                    f"gets no packets: {names} before it {take} all that it matches",
                    at_key=True,
                )
            for number, packets in permitted:
                for handle in packets.handles():
                    earlier.setdefault(handle, []).append((index, key, selection, number))


def unmatched_classes(scenario: ResolvedScenario) -> Iterator[Finding]:
    """Find classes that match no packet of the scenario and are not `unused`."""
    if any(class_matches(scenario)) or any(number_of_classes(scenario)):
        return
    if not scenario.flows and not scenario.pings:
        return  # the traffic is up to the users of the network
    packets = Index(sent(scenario))
    addresses = scenario.all_addresses
    for loc, _, class_ in classes(scenario):
        if class_.unused or matches_any(class_.match):
            continue
        selection = Selection.of(class_.match, addresses)
        # A match that selects nothing at all has a finding of its own.
        if any(selection.permitted()) and not packets.any_of(selection):
            yield Finding(
                loc,
                "matches no packet of any flow or ping; expected another match, or `unused: true`",
                at_key=True,
            )


# Promises


def excess_guarantees(loc: Loc, policy: Policy, capacity: int, where: str) -> Iterator[Finding]:
    """Find guarantees of a policy above `capacity` bits per second, `where` being their source."""
    if policy.scheduler == HTB:
        return  # a class within its guarantee sends, whatever the class above has
    classes = policy.classes
    given_to = {key: guarantee(policy, class_) for key, class_ in classes.items()}
    given = [bandwidth for bandwidth in given_to.values() if bandwidth is not None]
    # In billionths of a bit per second, so that nothing is rounded.
    total = sum(
        capacity * bandwidth.share if bandwidth.share is not None else (bandwidth.rate or 0) * WHOLE
        for bandwidth in given
    )
    if policy.scheduler == ALTQ_CBQ:
        # Classes that have more than there is in sum take turns by their rates.
        for key, bandwidth in given_to.items():
            if bandwidth is not None and bandwidth.of(capacity) > capacity:
                yield Finding(
                    (*loc, key, "bandwidth"),
                    f"is more than the {format_rate(capacity)} of {where}; expected no more",
                )
    elif total > capacity * WHOLE:
        if all(bandwidth.share is not None for bandwidth in given):
            said = f"guarantee {format_share(total // capacity)} in sum"
        else:
            said = (
                f"guarantee {format_rate(total // WHOLE)} of the {format_rate(capacity)} of {where}"
            )
        strict = [
            quote(key) for key, class_ in classes.items() if policy.strict(class_) and given_to[key]
        ]
        counted = (
            f", what the policer of {' and '.join(strict)} lets pass included" if strict else ""
        )
        yield Finding(loc, f"{said}; expected at most 100%{counted}")
        return
    left, guaranteed = rest(policy, capacity), rates(policy, capacity)
    for key, class_ in classes.items():
        bandwidth = given_to[key]
        if bandwidth is not None and bandwidth.of(capacity) < 1:
            yield Finding(
                (*loc, key, "police" if policy.strict(class_) else "bandwidth"),
                f"is less than 1 bps of the {format_rate(capacity)} of {where}",
            )
        elif bandwidth is None and not (policy.strict(class_) or class_.discards) and left < 1:
            yield Finding(
                (*loc, key),
                "has no `bandwidth`, and the other classes leave nothing; expected less for them",
                at_key=True,
            )
        elif class_.quantum is not None and (guaranteed[key] or 0) < 1:
            yield Finding(
                (*loc, key, "quantum"),
                f"gives the class less than 1 bps of the {format_rate(capacity)} of {where}",
            )
        else:
            yield from _ceilings((*loc, key), class_, guaranteed[key], capacity, where)


def _ceilings(
    loc: Loc, class_: Class, rate: int | None, capacity: int, where: str
) -> Iterator[Finding]:
    """Find ceilings of a class below its guaranteed `rate`, and peak rates below the rate."""
    ceilings = (
        (("limit",), class_.limit),
        (("shape", "rate"), class_.shape.rate if class_.shape is not None else None),
    )
    for key, ceiling in ceilings:
        if ceiling is None:
            continue
        if ceiling.of(capacity) < 1:
            yield Finding(
                (*loc, *key), f"is less than 1 bps of the {format_rate(capacity)} of {where}"
            )
        elif rate is not None and ceiling.of(capacity) < rate:
            yield Finding(
                (*loc, *key),
                f"is less than the {format_rate(rate)} that the class is guaranteed; "
                "expected no less",
            )
    if class_.police is not None:
        yield from _tiny_rates((*loc, "police"), class_.police, capacity, where)


def _tiny_rates(loc: Loc, police: Police, capacity: int, where: str) -> Iterator[Finding]:
    """Find rates of a policer that are less than nothing, or than each other."""
    if police.rate.of(capacity) < 1:
        yield Finding(
            (*loc, "rate"),
            f"is less than 1 bps of the {format_rate(capacity)} of {where}",
        )
    elif police.peak_rate is not None and police.peak_rate.of(capacity) < police.rate.of(capacity):
        yield Finding(
            (*loc, "peak_rate"),
            f"is less than the committed {format_rate(police.rate.of(capacity))}; expected no less",
        )


def _divided(
    scenario: ResolvedScenario, loc: Loc, policy: Policy, capacity: int
) -> Iterator[tuple[Loc, Policy, int, str]]:
    """Yield the policies that divide classes of `policy`, with their place, capacity and owner."""
    for key, rate in rates(policy, capacity).items():
        class_ = policy.classes[key]
        nested = scenario.divided(policy, class_)
        if nested is not None and rate != 0:
            named = class_.policy is not None
            place: Loc = (
                ("policies", str(class_.policy), "classes") if named else (*loc, key, "classes")
            )
            path = "/".join(map(str, (*loc[1::2], key)))
            yield place, nested, rate or capacity, f"class {quote(path)}"


def _sizes(scenario: ResolvedScenario) -> dict[str, int]:
    """Return the number of classes of each policy, including nested ones."""
    sizes: dict[str, int] = {}

    def size(name: str) -> int:
        if name not in sizes:
            sizes[name] = count(scenario.policies[name])
        return sizes[name]

    def count(policy: Policy) -> int:
        inside = [policy.inside(class_) for class_ in policy.classes.values()]
        named = [class_.policy for class_ in policy.classes.values()]
        return (
            len(policy.classes)
            + sum(count(nested) for nested in inside if nested is not None)
            + sum(size(str(name)) for name in named if name in scenario.policies)
        )

    for name in scenario.policies:
        size(name)
    return sizes
