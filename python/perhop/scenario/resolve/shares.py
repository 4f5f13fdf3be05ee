"""The guarantees of classes, and all classes at the end of a link."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perhop.scenario.model.classes import Class, Policy
    from perhop.scenario.model.network import Bandwidth
    from perhop.scenario.resolve.scenario import ResolvedScenario


def guarantee(policy: Policy, class_: Class) -> Bandwidth | None:
    """Return the guarantee of a class: its bandwidth, or the policer's rate of a strict class.

    With service curves it is the rate of link sharing in the long run. A strict class whose policer
    drops all packets has none.
    """
    if policy.strict(class_):
        return None if class_.police is None or class_.discards else class_.police.rate
    if class_.bandwidth is None and class_.linkshare is not None:
        return class_.linkshare.last
    return class_.bandwidth


@dataclass(frozen=True, slots=True)
class Placed:
    """A class at the end of a link.

    Attributes:
        path: Its name in results.
        class_: The class.
        policy: The policy that it belongs to.
        capacity: The bandwidth that the policy divides, in bit/s.
    """

    path: str
    class_: Class
    policy: Policy
    capacity: int

    @property
    def name(self) -> str:
        """The name of the class in its policy."""
        return self.path.rpartition("/")[2]


def walk(scenario: ResolvedScenario, policy: Policy, capacity: int) -> Iterator[Placed]:
    """Yield every class of a policy, each before the nested ones."""
    capacity = policy.root(capacity)
    for name, rate in rates(policy, capacity).items():
        class_ = policy.classes[name]
        yield Placed(name, class_, policy, capacity)
        nested = scenario.divided(policy, class_)
        if nested is not None:
            for inner in walk(scenario, nested, rate or capacity):
                yield replace(inner, path=f"{name}/{inner.path}")


def rates(policy: Policy, capacity: int) -> dict[str, int | None]:
    """Return the guarantee of each class of `policy` from `capacity`, in bit/s.

    None stands for a strict class without a policer, which may use the whole capacity. Classes
    without a bandwidth share the rest equally, but none gets more than its ceiling. A class that
    discards all packets takes nothing from the others: its own part is what each has.
    """
    left, takers = _rest(policy, capacity)
    quanta = sum(
        class_.quantum or 0
        for class_ in policy.classes.values()
        if guarantee(policy, class_) is None
    )
    capped: dict[str, int] = {}
    for ceiling, name in sorted(_ceilings_of_takers(policy, capacity)):
        if ceiling < left // takers:
            capped[name] = ceiling
            left, takers = left - ceiling, takers - 1

    def rate(name: str, class_: Class) -> int | None:
        bandwidth = guarantee(policy, class_)
        if bandwidth is not None:
            return bandwidth.of(capacity)
        if policy.strict(class_):
            return None
        if name in capped:
            return capped[name]
        if class_.quantum:
            return left * class_.quantum // quanta
        return max(left // max(takers, 1), 1 if class_.discards else 0)

    return {name: rate(name, class_) for name, class_ in policy.classes.items()}


def _ceilings_of_takers(policy: Policy, capacity: int) -> Iterator[tuple[int, str]]:
    """Yield ceilings in bit/s and names of classes that share the rest equally.

    A ceiling of less than 1 bit/s, which is an error, counts as none.
    """
    for name, class_ in policy.classes.items():
        others = policy.strict(class_) or class_.discards or class_.quantum is not None
        if guarantee(policy, class_) is None and not others:
            shape = class_.shape.rate if class_.shape is not None else None
            given = [each.of(capacity) for each in (class_.limit, shape) if each is not None]
            if given and min(given) > 0:
                yield min(given), name


def rest(policy: Policy, capacity: int) -> int:
    """Return the share of each class without a bandwidth in bit/s: equal parts of the rest."""
    left, takers = _rest(policy, capacity)
    return left // takers if takers else 0


def _rest(policy: Policy, capacity: int) -> tuple[int, int]:
    """Return what is guaranteed to no class in bit/s, and the number of classes that share it."""
    classes = policy.classes.values()
    given = [guarantee(policy, class_) for class_ in classes]
    left = capacity - sum(bandwidth.of(capacity) for bandwidth in given if bandwidth is not None)
    takers = sum(
        guarantee(policy, class_) is None and not policy.strict(class_) and not class_.discards
        for class_ in classes
    )
    return left, takers
