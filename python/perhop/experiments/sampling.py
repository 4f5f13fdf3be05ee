"""Latin hypercube samples: points spread evenly over every range at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random


def latin_hypercube(count: int, dimensions: int, random: Random) -> list[tuple[float, ...]]:
    """Draw a Latin hypercube sample of the unit cube.

    Each dimension is divided into `count` strata of equal length, and each stratum has one point,
    at a random place in it; strata of different dimensions are paired at random. The variance of a
    mean over the points is then free of what the function adds up from single dimensions.

    Args:
        count: The number of points.
        dimensions: The number of coordinates of each.
        random: The source of all random numbers.

    Returns:
        The points, with coordinates from 0 to below 1.

    Source: McKay, Beckman and Conover, A Comparison of Three Methods for Selecting Values of Input
    Variables in the Analysis of Output from a Computer Code, Technometrics 21 (1979).
    """
    columns = []
    for _ in range(dimensions):
        strata = list(range(count))
        random.shuffle(strata)
        columns.append([(stratum + random.random()) / count for stratum in strata])
    return list(zip(*columns, strict=True)) if columns else [()] * count
