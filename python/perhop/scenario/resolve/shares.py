"""What the classes of a policy are guaranteed, and all classes at the end of a link."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perhop.scenario.model.classes import Class, Policy
    from perhop.scenario.model.network import Bandwidth
    from perhop.scenario.resolve.scenario import ResolvedScenario


def promised(policy: Policy, part: Class) -> Bandwidth | None:
    """What a class is guaranteed: its bandwidth, or what a policer lets into a strict class."""
    if policy.strict(part):
        return part.police.rate if part.police is not None else None
    return part.bandwidth


@dataclass(frozen=True, slots=True)
class Placed:
    """A class at the end of a link.

    Attributes:
        path: What results call it.
        part: The class.
        policy: The policy that it belongs to.
        capacity: What that policy divides, in bits per second.
    """

    path: str
    part: Class
    policy: Policy
    capacity: int

    @property
    def name(self) -> str:
        """What its policy calls it."""
        return self.path.rpartition("/")[2]


def walk(scenario: ResolvedScenario, policy: Policy, capacity: int) -> Iterator[Placed]:
    """Every class of a policy, those of nested ones after the class that they divide."""
    capacity = policy.root(capacity)
    for name, rate in rates(policy, capacity).items():
        part = policy.classes[name]
        yield Placed(name, part, policy, capacity)
        nested = scenario.divided(policy, part)
        if nested is not None:
            for inner in walk(scenario, nested, rate or capacity):
                yield replace(inner, path=f"{name}/{inner.path}")


def rates(policy: Policy, capacity: int) -> dict[str, int | None]:
    """What each class of `policy` is guaranteed of `capacity`, in bits per second.

    None stands for a strict class without a policer, which may take everything.
    """
    left = rest(policy, capacity)

    def rate(part: Class) -> int | None:
        bandwidth = promised(policy, part)
        if bandwidth is not None:
            return bandwidth.of(capacity)
        return None if policy.strict(part) else left

    return {name: rate(part) for name, part in policy.classes.items()}


def rest(policy: Policy, capacity: int) -> int:
    """What each class without a bandwidth gets: an equal part of what the others leave."""
    parts = policy.classes.values()
    given = [promised(policy, part) for part in parts]
    left = capacity - sum(bandwidth.of(capacity) for bandwidth in given if bandwidth is not None)
    takers = sum(part.bandwidth is None and not policy.strict(part) for part in parts)
    return left // takers if takers else 0
