"""Decision lists: conditions with a class each, of which the first that a packet meets decides."""

from __future__ import annotations

from bisect import bisect, insort
from collections import Counter
from heapq import merge
from typing import TYPE_CHECKING, Final

from perhop.routers.reading.matching import (
    MAX_PAIRS,
    Conditions,
    Networks,
    Rules,
    TooManyRulesError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

__all__ = ["matches"]

_MOST_PAIRS: Final = 8 * MAX_PAIRS


def matches(
    found: Sequence[tuple[Conditions, Hashable]], order: Sequence[Hashable]
) -> dict[Hashable, Rules]:
    """Return the packets of each class, among those that no class before it takes.

    Args:
        found: A decision list: conditions, and the class.
        order: The classes in the order in which they match; the last one takes the rest.

    Raises:
        TooManyRulesError: If that takes too many rules.
    """
    entries: dict[Hashable, list[int]] = {key: [] for key in order}
    for index, (_, key) in enumerate(found):
        entries[key].append(index)
    later = _Later([conditions for conditions, _ in found])
    later.add(entries[order[-1]])
    result: dict[Hashable, Rules] = {order[-1]: Rules.any()}
    pairs = 0
    for key in reversed(order[:-1]):
        own = entries[key]
        # What classes after this one get, although entries before its own are theirs.
        rivals = later.rivals(own)
        pairs += sum(len(others) for _, others in rivals) + len(own)
        if pairs > _MOST_PAIRS:
            raise TooManyRulesError(f"compares more than {_MOST_PAIRS:,} pairs of rules")
        excepted = [
            index
            for index, others in rivals
            if any(not (found[index][0] & found[each][0]).is_never for each in others)
        ]
        kept = set(excepted)
        rules = [(index not in kept, found[index][0]) for index in merge(excepted, own)]
        result[key] = Rules(tuple(rules)).simplified()
        later.add(own)
    return {key: result[key] for key in order}


class _Later:
    """Entries of the classes after one, by the only value that they have of one property.

    Entries of lists with thousands of classes mostly differ in one address, port or code point.
    Two entries with different ones have no packet in common.
    """

    def __init__(self, conditions: Sequence[Conditions]) -> None:
        self._conditions = conditions
        counts = Counter(
            name for each in conditions for name, only in _ONLY.items() if only(each) is not None
        )
        most = max(_ONLY, key=lambda name: counts[name])
        self._only = _ONLY[most]
        self._all: list[int] = []
        self._by_value: dict[Hashable, list[int]] = {}

    def add(self, indices: Sequence[int]) -> None:
        """Add entries of a class."""
        for index in indices:
            insort(self._all, index)
            insort(self._by_value.setdefault(self._only(self._conditions[index]), []), index)

    def rivals(self, own: Sequence[int]) -> list[tuple[int, Sequence[int]]]:
        """Return, in order, the entries before the last one of `own` that may share packets.

        Each has the entries of `own` that it may share them with.
        """
        if not own:
            return []
        by_value: dict[Hashable, list[int]] = {}
        for index in own:
            by_value.setdefault(self._only(self._conditions[index]), []).append(index)
        wide = by_value.get(None, [])
        lists = (
            [self._all] if wide else [self._by_value.get(value, []) for value in (None, *by_value)]
        )
        found: list[tuple[int, Sequence[int]]] = []
        for index in merge(*(each[: bisect(each, own[-1])] for each in lists)):
            value = self._only(self._conditions[index])
            found.append((index, own if value is None else [*by_value.get(value, ()), *wide]))
        return found


def _only_destination(conditions: Conditions) -> Hashable:
    return _only_host(conditions.destination)


def _only_source(conditions: Conditions) -> Hashable:
    return _only_host(conditions.source)


def _only_host(networks: Networks | None) -> Hashable:
    if networks is None or len(networks) != 1:
        return None
    (network,) = networks
    return network if network.prefixlen == network.max_prefixlen else None


def _only_port(conditions: Conditions) -> Hashable:
    ports = conditions.destination_ports
    single = ports is not None and len(ports) == 1 and ports[0][0] == ports[0][1]
    return ports[0][0] if ports and single else None


def _only_dscp(conditions: Conditions) -> Hashable:
    points = conditions.dscp
    return min(points) if points is not None and len(points) == 1 else None


_ONLY: Final[dict[str, Callable[[Conditions], Hashable]]] = {
    "destination": _only_destination,
    "source": _only_source,
    "port": _only_port,
    "dscp": _only_dscp,
}
"""The only value that conditions have of a property; None if they have others."""
