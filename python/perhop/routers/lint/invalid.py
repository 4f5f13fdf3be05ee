"""Values of policies that have no meaning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from perhop.routers.lint.findings import Finding, Rule, Severity
from perhop.scenario.model.classes import Policy
from perhop.units import quote

if TYPE_CHECKING:
    from perhop.routers.reading import Attachment, Loc

INVALID_VALUE: Final = Rule(
    "invalid-value",
    Severity.WARNING,
    "A value that has no meaning, such as a rate of zero.",
    "perhop ignores the value, and the other rules do not see it. A router refuses it, or its "
    "effect depends on the release.",
    "Give a value in the range that the platform accepts.",
)

_MAX_INVALID: Final = 100
"""The invalid values of a policy that are removed one after the other."""


def valid(attachment: Attachment, raw: dict[str, Any], invalid: list[Finding]) -> Policy:
    """Return a policy, after invalid values were removed from `raw` with a finding for each."""
    for _ in range(_MAX_INVALID):
        try:
            return Policy.model_validate(raw)
        except ValidationError as error:
            detail = error.errors(include_url=False)[0]
            loc = _remove(raw, detail["loc"])
            said = str(detail.get("ctx", {}).get("error", detail["msg"]))
            path = ".".join(map(str, loc)) or attachment.name
            place = attachment.place(loc)
            invalid.append(
                Finding(INVALID_VALUE, place, f"{quote(path, 80)}: {said}", "correct it")
            )
            if not loc:
                break
    raw.clear()
    raw["classes"] = {"default": {"match": "any"}}
    return Policy.model_validate(raw)


def _remove(raw: dict[str, Any], loc: Loc) -> Loc:
    """Remove the value at `loc`, or the nearest around it, and return its path."""
    data: Any = raw
    path: list[str | int] = []
    parents: list[tuple[dict[str, Any], str]] = []
    for step in loc:
        if not (isinstance(data, dict) and isinstance(step, str) and step in data):
            break
        parents.append((data, step))
        path.append(step)
        data = data[step]
    while parents:
        parent, key = parents.pop()
        # A class without a match, or a policer without a rate, has no meaning either.
        if key not in ("match", "rate", "burst", "min", "max", "dscp", "classes"):
            del parent[key]
            return tuple(path[: len(parents) + 1])
    return ()
