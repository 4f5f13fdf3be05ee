"""Classes of VLAN tags and MPLS labels at outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perhop.routers.reading.junos.classification import LOSS_PRIORITIES
from perhop.scenario.model.dscp import format_dscp

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perhop.routers.reading.junos.classification import Classifier
    from perhop.routers.reading.junos.policies import QueueClass, RewriteTable
    from perhop.routers.reading.junos.tree import Node


def codes_by_class(classifier: Classifier, rest: str) -> dict[str, list[int]]:
    """Return all classes at layer 2 by the forwarding class that a classifier gives them."""
    found: dict[str, list[int]] = {}
    for code in range(8):
        found.setdefault(classifier.table.get(code, (rest, ""))[0], []).append(code)
    return found


def link_marks(
    rewrites: Mapping[str, tuple[RewriteTable, Node]],
    classifier: Classifier,
    classes: Sequence[QueueClass],
) -> dict[str, dict[str, int]]:
    """Return the classes at layer 2 that rewrite rules give to each class, by key.

    Args:
        rewrites: The rewrite rules of tags and labels and their statements, by key.
        classifier: The classifier of packets, for the loss priorities that they may have.
        classes: The classes of a policy.
    """
    found: dict[str, dict[str, int]] = {}
    for key, (table, node) in rewrites.items():
        for each in classes:
            given = (
                entry for own in (classifier, *classifier.before) for entry in own.table.values()
            )
            losses = {"low", *(loss for name, loss in given if name in each.forwarding)}
            wanted = [
                table[name, loss]
                for name in each.forwarding
                for loss in LOSS_PRIORITIES
                if loss in losses and (name, loss) in table
            ]
            if wanted:
                found.setdefault(each.name, {})[key] = wanted[0]
            if len(set(wanted)) > 1:
                node.approximated("the packets of a class get one value: that of low loss priority")
    return found


def written(
    points: Mapping[str, int], on_link: Mapping[str, Mapping[str, int]]
) -> dict[str, str | int | dict[str, Any]]:
    """Return the marks of classes as a scenario states them, from DSCPs and classes at layer 2."""
    found: dict[str, Any] = {name: format_dscp(point) for name, point in points.items()}
    for name, marks in on_link.items():
        found[name] = ({"dscp": found[name]} if name in found else {}) | dict(marks)
    return found
