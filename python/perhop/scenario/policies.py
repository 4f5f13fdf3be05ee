"""What must hold in policies: classes that can be reached, and promises that can be kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perhop.scenario.findings import Finding
from perhop.scenario.packets import Packets, sent
from perhop.scenario.text import did_you_mean
from perhop.units import WHOLE, format_rate, format_share, quote

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from perhop.scenario.findings import Loc
    from perhop.scenario.model import Class, Policy, Scenario
    from perhop.scenario.network import Bandwidth

MAX_CLASSES = 1000
"""The most classes in all policies, and, nested ones included, at one end of a link."""


def last_classes(scenario: Scenario) -> Iterator[Finding]:
    """The last class takes what no other takes."""
    for name, policy in scenario.policies.items():
        if not any(part.match.is_any for part in policy.classes.values()):
            yield Finding(
                ("policies", name, "classes"),
                "leaves packets without a class; expected the last one to have `match: any`",
            )


def combinations(scenario: Scenario) -> Iterator[Finding]:
    """Keys of a class that exclude each other."""
    for policy, name, part in _classes(scenario):
        loc = ("policies", policy, "classes", name)
        if part.priority is not None and part.bandwidth is not None:
            yield Finding(
                (*loc, "bandwidth"),
                "is given beside `priority: strict`; expected one of the two "
                "(`police` limits a strict class)",
                at_key=True,
            )
        if part.policy is not None and part.queue is not None:
            yield Finding(
                (*loc, "queue"),
                "is given beside `policy`, whose classes have the queues; expected one of the two",
                at_key=True,
            )
        if part.policy is not None and part.policy not in scenario.policies:
            yield Finding(
                (*loc, "policy"),
                f"{quote(part.policy)} is not a policy",
                did_you_mean(part.policy, scenario.policies),
            )


def number_of_classes(scenario: Scenario) -> Iterator[Finding]:
    """Policies are few enough to compare."""
    total = sum(len(policy.classes) for policy in scenario.policies.values())
    if total > MAX_CLASSES:
        yield Finding(
            ("policies",), f"have {total:,} classes together; expected at most {MAX_CLASSES:,}"
        )


def match_nodes(scenario: Scenario) -> Iterator[Finding]:
    """Matches name nodes that exist."""
    for policy, name, part in _classes(scenario):
        for key in ("source", "destination"):
            for index, end in enumerate(getattr(part.match, key) or ()):
                if isinstance(end, str) and end not in scenario.nodes:
                    yield Finding(
                        ("policies", policy, "classes", name, "match", key, index),
                        f"{quote(end)} is not a node",
                        did_you_mean(end, scenario.nodes),
                    )


def cycles(scenario: Scenario) -> Iterator[Finding]:
    """No policy divides itself."""
    for cycle in _cycles(scenario):
        yield Finding(
            ("policies", cycle[0][0], "classes", cycle[0][1], "policy"),
            f"makes a cycle: {' > '.join([policy for policy, _ in cycle] + [cycle[0][0]])}",
        )


def unused_policies(scenario: Scenario) -> Iterator[Finding]:
    """Every policy is at the end of a link, or part of one that is."""
    reached = [policy for link in scenario.links for policy in link.egress.values()]
    nested = {part.policy for _, _, part in _classes(scenario) if part.policy is not None}
    if not {*reached, *nested} <= scenario.policies.keys():
        return  # a misspelt name is the cause
    used: set[str] = set()
    while reached:
        name = reached.pop()
        if name not in used and name in scenario.policies:
            used.add(name)
            parts = scenario.policies[name].classes.values()
            reached += [part.policy for part in parts if part.policy is not None]
    for name in scenario.policies:
        if name not in used:
            yield Finding(
                ("policies", name),
                "is used by no link; expected an `egress` that names it",
                at_key=True,
            )


def guarantees(scenario: Scenario) -> Iterator[Finding]:
    """No policy promises more than its link, or the class that it divides, has."""
    if next(_cycles(scenario), None) is not None:
        return
    sizes = _sizes(scenario)
    told: set[tuple[str, int]] = set()
    for index, link in enumerate(scenario.links):
        for node, name in link.egress.items():
            if name not in scenario.policies:
                continue
            if sizes[name] > MAX_CLASSES:
                yield Finding(
                    ("links", index, "egress", node),
                    f"{quote(name)} makes {sizes[name]:,} classes, nested ones included; "
                    f"expected at most {MAX_CLASSES:,}",
                )
                continue
            todo = [(name, link.rate, f"link {quote(link.directed(node))}")]
            while todo:
                policy, capacity, where = todo.pop()
                if (policy, capacity) not in told:
                    told.add((policy, capacity))
                    yield from _promises(scenario, policy, capacity, where)
                    todo += _divided(scenario, policy, capacity)


def shadowed_classes(scenario: Scenario) -> Iterator[Finding]:
    """No class comes after one that takes all that it matches."""
    if any(match_nodes(scenario)) or any(number_of_classes(scenario)):
        return
    addresses = scenario.addresses
    for name, policy in scenario.policies.items():
        earlier: list[tuple[str, Packets]] = []
        for key, part in policy.classes.items():
            packets = Packets.of(part.match, addresses)
            taker = next((other for other, taken in earlier if taken.contains(packets)), None)
            if taker is not None:
                yield Finding(
                    ("policies", name, "classes", key),
                    f"gets no packets: {quote(taker)} before it takes all that it matches",
                    at_key=True,
                )
            earlier.append((key, packets))


def unmatched_classes(scenario: Scenario) -> Iterator[Finding]:
    """Every class but one that matches any, or says that it is unused, has packets."""
    if any(match_nodes(scenario)) or any(number_of_classes(scenario)):
        return
    packets = sent(scenario)
    addresses = scenario.addresses
    for policy, name, part in _classes(scenario):
        if part.unused or part.match.is_any:
            continue
        taken = Packets.of(part.match, addresses)
        if not any(taken.meets(some) for some in packets):
            yield Finding(
                ("policies", policy, "classes", name),
                "matches no packet of any flow or ping; expected another match, or `unused: true`",
                at_key=True,
            )


# Promises


def _promised(part: Class) -> Bandwidth | None:
    """What a class is guaranteed: its bandwidth, or what a policer lets into a strict class."""
    if part.priority is not None:
        return part.police.rate if part.police is not None else None
    return part.bandwidth


def _promises(scenario: Scenario, name: str, capacity: int, where: str) -> Iterator[Finding]:
    """What policy `name` promises of `capacity` bits per second, `where` being their source."""
    classes = scenario.policies[name].classes
    loc: Loc = ("policies", name, "classes")
    promised = {key: _promised(part) for key, part in classes.items()}
    given = [bandwidth for bandwidth in promised.values() if bandwidth is not None]
    # In billionths of a bit per second, so that nothing is rounded.
    total = sum(
        capacity * bandwidth.share if bandwidth.share is not None else (bandwidth.rate or 0) * WHOLE
        for bandwidth in given
    )
    if total > capacity * WHOLE:
        if all(bandwidth.share is not None for bandwidth in given):
            said = f"promise {format_share(total // capacity)} in sum"
        else:
            said = (
                f"promise {format_rate(total // WHOLE)} of the {format_rate(capacity)} of {where}"
            )
        yield Finding(loc, f"{said}; expected at most 100%")
        return
    for key, part in classes.items():
        bandwidth = promised[key]
        if bandwidth is not None and bandwidth.of(capacity) < 1:
            yield Finding(
                (*loc, key, "police" if part.priority else "bandwidth"),
                f"is less than 1 bps of the {format_rate(capacity)} of {where}",
            )
        elif bandwidth is None and part.priority is None and _rest(classes, capacity) < 1:
            yield Finding(
                (*loc, key),
                "has no `bandwidth`, and the other classes leave nothing; expected less for them",
                at_key=True,
            )


def rates(policy: Policy, capacity: int) -> dict[str, int | None]:
    """What each class of `policy` is guaranteed of `capacity`, in bits per second.

    None stands for a strict class without a policer, which may take everything.
    """
    rest = _rest(policy.classes, capacity)

    def rate(part: Class) -> int | None:
        promised = _promised(part)
        if promised is not None:
            return promised.of(capacity)
        return None if part.priority is not None else rest

    return {name: rate(part) for name, part in policy.classes.items()}


def _rest(classes: Mapping[str, Class], capacity: int) -> int:
    """What each class without a bandwidth gets: an equal part of what the others leave."""
    given = [_promised(part) for part in classes.values()]
    left = capacity - sum(bandwidth.of(capacity) for bandwidth in given if bandwidth is not None)
    takers = sum(p.bandwidth is None and p.priority is None for p in classes.values())
    return left // takers if takers else 0


def _divided(scenario: Scenario, name: str, capacity: int) -> Iterator[tuple[str, int, str]]:
    """The policies that divide classes of policy `name`: which, how much, and whose it is."""
    policy = scenario.policies[name]
    for key, rate in rates(policy, capacity).items():
        nested = policy.classes[key].policy
        if nested in scenario.policies and rate != 0:
            yield str(nested), rate or capacity, f"class {quote(f'{name}/{key}')}"


def _sizes(scenario: Scenario) -> dict[str, int]:
    """How many classes each policy makes, nested ones included; policies have no cycles."""
    sizes: dict[str, int] = {}

    def size(name: str) -> int:
        if name not in sizes:
            parts = scenario.policies[name].classes.values()
            nested = [part.policy for part in parts if part.policy in scenario.policies]
            sizes[name] = len(parts) + sum(size(str(policy)) for policy in nested)
        return sizes[name]

    for name in scenario.policies:
        size(name)
    return sizes


def _cycles(scenario: Scenario) -> Iterator[list[tuple[str, str]]]:
    """Cycles of policies, each as the classes that close it; no two share all their policies."""
    done: set[str] = set()

    def walk(name: str, path: list[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
        above = [policy for policy, _ in path]
        if name in above:
            yield path[above.index(name) :]
        elif name not in done:
            for key, part in scenario.policies[name].classes.items():
                if part.policy in scenario.policies:
                    yield from walk(str(part.policy), [*path, (name, key)])
            done.add(name)

    for name in scenario.policies:
        yield from walk(name, [])


def _classes(scenario: Scenario) -> Iterator[tuple[str, str, Class]]:
    for name, policy in scenario.policies.items():
        for key, part in policy.classes.items():
            yield name, key, part
