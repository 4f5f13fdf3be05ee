"""First-order sensitivity indices: the share of a result's variance that one input explains.

The index of an input X is Var(E[Y | X]) / Var(Y), by Sobol (1993). It is estimated from the sample
that is there, whatever made it: the sample is divided into bins of X, and the variance of the bins'
means is compared with the whole (Plischke, Borgonovo and Smith, 2013). What random bins would have
is taken off, so that the index of an input without influence is 0 on average.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import isqrt, sqrt
from random import Random
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

_PERMUTATIONS: Final = 400
_SURE: Final = 0.99
_GROUPS: Final = 20


@dataclass(frozen=True, slots=True)
class Influence:
    """Share of a result's variance that an input explains.

    Attributes:
        index: The first-order index, 0 to 1; an estimate may come out a little below 0.
        error: Its standard error, by a jackknife of 20 groups.
        noise: Value that 99 of 100 inputs without influence do not exceed, by permutations.
    """

    index: float
    error: float
    noise: float

    @property
    def shown(self) -> bool:
        """True if it is significant."""
        return self.index > self.noise


def first_order(
    inputs: Sequence[Sequence[float | str]], results: Sequence[float], *, seed: int = 1
) -> list[Influence]:
    """Estimate the first-order index of each input.

    Numbers go into about as many bins of equal size as the square root of the sample's size; texts
    are a bin each.

    Args:
        inputs: For each input its values in the sample.
        results: The results of the sample, in the same order.
        seed: Decides the permutations and the groups of the jackknife.

    Returns:
        An `Influence` for each input; all zero if the results do not vary.
    """
    random = Random(seed)
    count = len(results)
    if count < 2 * _GROUPS or min(results) == max(results):
        return [Influence(0.0, 0.0, 0.0) for _ in inputs]
    groups = [number % _GROUPS for number in range(count)]
    random.shuffle(groups)
    kept = [[at for at in range(count) if groups[at] != left] for left in range(_GROUPS)]
    shuffled = list(results)
    permutations = []
    for _ in range(_PERMUTATIONS):
        random.shuffle(shuffled)
        permutations.append(tuple(shuffled))
    # Random results fall into bins of the same sizes alike, whatever the input.
    noise: dict[tuple[int, ...], float] = {}
    found = []
    for values in inputs:
        bins = _bins(values)
        sizes = tuple(sorted(map(len, bins)))
        if sizes not in noise:
            null = sorted(_explained(bins, each) for each in permutations)
            noise[sizes] = null[int(_SURE * len(null))]
        found.append(
            Influence(_explained(bins, results), _error(values, results, kept), noise[sizes])
        )
    return found


def _bins(values: Sequence[float | str]) -> list[list[int]]:
    """Return the indices of the sample in each bin of an input."""
    if any(isinstance(value, str) for value in values):
        named: dict[Hashable, list[int]] = {}
        for place, value in enumerate(values):
            named.setdefault(value, []).append(place)
        return list(named.values())
    order = sorted(range(len(values)), key=lambda place: values[place])
    number = isqrt(len(order))
    edges = [len(order) * edge // number for edge in range(number + 1)]
    return [order[low:high] for low, high in pairwise(edges)]


def _explained(bins: Sequence[Sequence[int]], results: Sequence[float]) -> float:
    """The share of the variance between bins, less what random bins would have (epsilon squared).

    Source: Kelley, An Unbiased Correlation Ratio Measure, PNAS 21 (1935).
    """
    count = sum(map(len, bins))
    mean = sum(results[place] for places in bins for place in places) / count
    within = total = 0.0
    for places in bins:
        part = sum(results[place] for place in places) / len(places)
        within += sum((results[place] - part) ** 2 for place in places)
        total += sum((results[place] - mean) ** 2 for place in places)
    if not total or count == len(bins):
        return 0.0
    return 1 - (within / (count - len(bins))) / (total / (count - 1))


def _error(
    values: Sequence[float | str], results: Sequence[float], kept: Sequence[Sequence[int]]
) -> float:
    """Return the standard error of an index, from the indices without each group in turn."""
    without = []
    for places in kept:
        bins = _bins([values[place] for place in places])
        without.append(_explained(bins, [results[place] for place in places]))
    mean = sum(without) / len(without)
    spread = sum((each - mean) ** 2 for each in without)
    return sqrt(spread * (len(without) - 1) / len(without))
