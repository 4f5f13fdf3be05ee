"""Sets of numbers as ranges, compared with sets of numbers."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from perhop.ranges import Ranges, common, difference, joined, overlap

RANGES = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 6)), max_size=8).map(
    lambda found: [(first, first + more) for first, more in found]
)


def numbers(ranges: Ranges | list[tuple[int, int]]) -> set[int]:
    return {number for first, last in ranges for number in range(first, last + 1)}


def canonical(ranges: Ranges) -> bool:
    return all(last + 1 < first for (_, last), (first, _) in itertools.pairwise(ranges))


@given(RANGES, RANGES)
def test_ranges_are_sets_of_numbers(some: list[tuple[int, int]], others: Ranges) -> None:
    one, other = joined(some), joined(others)
    assert canonical(one) and numbers(one) == numbers(some)
    assert numbers(common(one, other)) == numbers(one) & numbers(other)
    assert numbers(difference(one, other)) == numbers(one) - numbers(other)
    for found in (common(one, other), difference(one, other)):
        assert all(first <= last for first, last in found)
        assert all(last < first for (_, last), (first, _) in itertools.pairwise(found))
    assert overlap(some, others) == bool(numbers(one) & numbers(other))
