"""Places of a network's nodes in a drawing."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["places"]

_SWEEPS: Final = 4
"""Passes over the columns, in which nodes move towards their neighbours."""


def places(
    nodes: Sequence[str], links: Iterable[tuple[str, str]]
) -> dict[str, tuple[float, float]]:
    """Return a place for each node: its column, and its row relative to the middle of the column.

    Columns are distances from a node at the edge of the network, so that links run from left to
    right. Within a column, nodes are in the order of their neighbours' rows, which avoids crossings
    (the barycenter method of Sugiyama, Tagawa and Toda, 1981). Parts of the network without a link
    between them are side by side.
    """
    near: dict[str, list[str]] = {node: [] for node in nodes}
    for one, two in links:
        near[one].append(two)
        near[two].append(one)
    columns: list[list[str]] = []
    placed: set[str] = set()
    for node in nodes:
        if node not in placed:
            # The node that is farthest from any other one is at an edge.
            edge = [*_distances(near, node)][-1]
            distances = _distances(near, edge)
            placed |= distances.keys()
            part: list[list[str]] = [[] for _ in range(max(distances.values()) + 1)]
            for each, distance in distances.items():
                part[distance].append(each)
            columns += part
    column_of = {node: number for number, column in enumerate(columns) for node in column}
    beside = {
        node: [other for other in others if column_of[other] != column_of[node]]
        for node, others in near.items()
    }
    rows = {node: row for column in columns for node, row in _rows(column).items()}
    for sweep in range(_SWEEPS):
        for column in columns if sweep % 2 == 0 else reversed(columns):
            means = {
                node: sum(rows[other] for other in beside[node]) / len(beside[node])
                if beside[node]
                else rows[node]
                for node in column
            }
            column.sort(key=means.__getitem__)
            rows.update(_rows(column))
    return {node: (float(column_of[node]), rows[node]) for node in nodes}


def _distances(near: Mapping[str, Sequence[str]], first: str) -> dict[str, int]:
    """Return the distance of each node that can be reached, the nearest first."""
    found = {first: 0}
    todo = deque([first])
    while todo:
        node = todo.popleft()
        for each in near[node]:
            if each not in found:
                found[each] = found[node] + 1
                todo.append(each)
    return found


def _rows(column: Sequence[str]) -> dict[str, float]:
    return {node: row - (len(column) - 1) / 2 for row, node in enumerate(column)}
