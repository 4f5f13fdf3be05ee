"""Comparisons with a scenario: both sides run with its own traffic."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from perhop.errors import ScenarioError, UsageError
from perhop.routers.reading.selection import policy as policy_of
from perhop.routers.scenario import marks
from perhop.scenario.reading.document import Document
from perhop.scenario.reading.loader import to_mapping, validated

if TYPE_CHECKING:
    from perhop.routers.difference.sides import Side
    from perhop.scenario import Scenario

OWN: Final = "the scenario's own traffic"
"""The load of a comparison with a scenario."""


def bare(scenario: Scenario) -> Scenario:
    """Return a scenario without expectations and published values."""
    return scenario.model_copy(update={"expect": (), "published": ()})


def with_traffic(scenario: Scenario, of: Scenario, file: str, of_file: str) -> Scenario:
    """Return a scenario with the traffic and the duration of another one."""
    mapping = to_mapping(bare(scenario))
    other = to_mapping(of)
    for section in ("flows", "pings", "duration", "report"):
        mapping.pop(section, None)
        if section in other:
            mapping[section] = other[section]
    _accept_unused(mapping)
    try:
        return validated(Document(file, mapping))
    except ScenarioError as error:
        raise UsageError(
            f"{file} does not run with the traffic of {of_file}: {error.problems[0]}"
        ) from None


def _accept_unused(mapping: dict[str, Any]) -> None:
    """Mark every class of a scenario as `unused`: the traffic need not be its own."""
    todo = list(mapping.get("policies", {}).values())
    while todo:
        for class_ in todo.pop()["classes"].values():
            class_["unused"] = True
            if "classes" in class_:
                todo.append(class_)


def in_place(scenario: Scenario, file: str, side: Side, remarks: list[str]) -> Scenario:
    """Return a scenario with the policy of a configuration in place of its only one."""
    used = {name for link in scenario.links for name in link.egress.values()}
    if len(used) != 1:
        raise UsageError(
            f"{file}: {len(used)} policies are at its links; expected one, which that of "
            f"{side.file} can replace, or a scenario with {{from: {side.file}}}"
        )
    [name] = used
    configuration, attachment = side.read()
    mapping = to_mapping(scenario)
    policy = policy_of(configuration, attachment, unused=True)
    mapping["policies"] = {**mapping["policies"], name: policy}
    if attachment.shape is not None:
        remarks.append(f"{attachment.place(())}: the shaper of the interface does not take part")
    _accept_unused(mapping)
    document = Document(side.file, mapping, marks(replace(attachment, name=name)))
    return validated(document)
