"""Policies that divide classes of other policies."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from perhop.scenario.model.classes import Policy
    from perhop.scenario.resolve.scenario import ResolvedScenario


def with_nested(scenario: ResolvedScenario, names: Iterable[str]) -> set[str]:
    """Return these policies, and the policies that divide their classes at any depth."""
    todo = list(names)
    found: set[str] = set()
    while todo:
        name = todo.pop()
        if name not in found and name in scenario.policies:
            found.add(name)
            todo += [named for _, named in references(scenario.policies[name])]
    return found


def has_cycles(scenario: ResolvedScenario) -> bool:
    """Return whether a policy divides itself."""
    return next(cycles(scenario), None) is not None


Cycle = list[tuple[str, tuple[str, ...]]]
"""Policies, each with the path in it of the class that the next policy divides."""


def cycles(scenario: ResolvedScenario) -> Iterator[Cycle]:
    """Yield cycles of policies; no two of them have the same policies."""
    done: set[str] = set()

    def walk(name: str, path: Cycle) -> Iterator[Cycle]:
        above = [policy for policy, _ in path]
        if name in above:
            yield path[above.index(name) :]
        elif name not in done:
            for place, named in references(scenario.policies[name]):
                if named in scenario.policies:
                    yield from walk(named, [*path, (name, place)])
            done.add(name)

    for name in scenario.policies:
        yield from walk(name, [])


def references(policy: Policy) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the policies that classes of `policy` name, with the path of the class in it."""
    for key, class_ in policy.classes.items():
        if class_.policy is not None:
            yield (key,), class_.policy
        inside = policy.inside(class_)
        if inside is not None:
            yield from (((key, "classes", *place), named) for place, named in references(inside))
