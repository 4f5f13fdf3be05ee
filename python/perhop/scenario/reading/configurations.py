"""Policies that a scenario takes from the configuration of a router.

``{from: edge1.cfg, interface: GigabitEthernet0/1, direction: out}`` stands for the policy at this
interface, and is replaced by it before the scenario is validated.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from perhop.errors import Problem, UsageError
from perhop.hints import did_you_mean
from perhop.scenario.model.classes import FROM, PolicyReference
from perhop.scenario.model.text import kind_of
from perhop.scenario.reading.document import Mark
from perhop.scenario.reading.files import beside
from perhop.units import quote

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perhop.routers.reading import Attachment
    from perhop.scenario.model.base import Loc
    from perhop.scenario.reading.document import Document

_KEYS: Final = {field.alias or name for name, field in PolicyReference.model_fields.items()}

_NOTHING: Final = {"classes": {"rest": {"match": "any"}}}
"""A policy in place of one that could not be read, so that no other message follows from it."""


def expand(document: Document) -> None:
    """Replace references to configurations by their policies, in place.

    Values of the policies have the places of their lines. Problems are added to those of the
    document.
    """
    policies = document.data.get("policies") if isinstance(document.data, dict) else None
    if not isinstance(policies, dict):
        return
    for name, reference in policies.items():
        if isinstance(reference, dict) and FROM in reference:
            loc: Loc = ("policies", name)
            problems = list(_problems(document, loc, reference))
            if not problems:
                try:
                    policies[name] = _policy(document, loc, reference)
                    continue
                except (UsageError, ValueError) as error:
                    problems = [_problem(document, (*loc, FROM), str(error))]
            document.problems += problems
            policies[name] = _NOTHING


def changes_reference(document: Document, steps: Sequence[str]) -> bool:
    """Return whether a path, such as ``policies.wan.from``, leads to a part of a reference."""
    value: Any = document.data
    for step in steps[:-1]:
        value = value.get(step) if isinstance(value, dict) else None
    at_policy = len(steps) == 3 and steps[0] == "policies"
    return at_policy and isinstance(value, dict) and FROM in value and steps[-1] in _KEYS


def _problems(document: Document, loc: Loc, reference: dict[str, Any]) -> list[Problem]:
    """Return the problems of a reference's form."""
    found = []
    for key, value in reference.items():
        at = (*loc, key)
        if key not in _KEYS:
            hint = did_you_mean(key, _KEYS)
            message = f"unknown key; beside `{FROM}`, expected one of {', '.join(sorted(_KEYS))}"
            found.append(_problem(document, at, message, hint, at_key=True))
        elif not isinstance(value, str):
            found.append(_problem(document, at, f"{kind_of(value)}; expected text"))
        elif key == "direction" and value not in ("in", "out"):
            found.append(_problem(document, at, f"{quote(value)} is neither `in` nor `out`"))
    return found


def _problem(
    document: Document, loc: Loc, message: str, hint: str = "", *, at_key: bool = False
) -> Problem:
    return Problem(*document.place(loc, at_key=at_key), ".".join(map(str, loc)), message, hint)


def _policy(document: Document, loc: Loc, reference: dict[str, str]) -> dict[str, Any]:
    """Return the policy that a reference means, and give its values their places.

    Raises:
        UsageError: The file is no configuration, or has no such policy.
        ValueError: The file is outside the scenario's folder.
    """
    # Few scenarios have such policies, and the readers take a while to import.
    from perhop.routers.reading import detect, selection

    path = beside(reference[FROM], Path(document.file).parent)
    file = str(path)
    configuration = detect.read([file], reference.get("family"), option="`family`")
    attachment = selection.select(
        configuration,
        file,
        interface=reference.get("interface"),
        direction=reference.get("direction"),  # type: ignore[arg-type]
        policy=reference.get("policy"),
    )
    policy = selection.policy(configuration, attachment, unused=True)
    policy["notes"] += _unshaped(document, loc, attachment)
    places = {(key,): attachment.place((key,)) for key in attachment.policy}
    for inner, place in (places | dict(attachment.places)).items():
        if inner:
            line = max(place.line, 1)
            document.marks[(*loc, *inner)] = Mark(line, 1, line, 1, place.file)
    return policy


def _unshaped(document: Document, loc: Loc, attachment: Attachment) -> list[str]:
    """Return a note if the interface is shaped, and a link with the policy is not."""
    from perhop.routers.reading import CAUTION

    links = document.data.get("links")
    if attachment.shape is None or not isinstance(links, list):
        return []
    bare = any(
        isinstance(link, dict)
        and isinstance(link.get("egress"), dict)
        and loc[1] in link["egress"].values()
        and "shape" not in link
        for link in links
    )
    rate = attachment.shape.get("rate", "")
    said = f"{attachment.place(())}: the interface is shaped to {rate}, and the link is not"
    return [f"{said}, which {CAUTION}; expected a `shape` of the link"] if bare else []
