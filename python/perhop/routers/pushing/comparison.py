"""What a router has, compared with the policy that it was given."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from perhop.routers.reading import Attachment, Configuration

__all__ = ["Policies", "altered", "differences", "policies"]

Policies = dict[tuple[str, str], object]
"""The policy of each interface and direction, for comparison."""


def differences(
    wanted: Sequence[str],
    found: Sequence[str],
    owned: Collection[str],
    same: Callable[[str], str] = str,
) -> list[str]:
    """Return how the statements of a router differ from those of a policy, as messages.

    Args:
        wanted: The statements of the policy.
        found: Those of the router.
        owned: The beginnings of statements of which the router must have no others.
        same: Returns equal texts for statements that say the same.
    """
    there, given = set(map(same, found)), set(map(same, wanted))
    prefixes = tuple(owned)
    return [
        *(f"lacks: {line}" for line in wanted if same(line) not in there),
        *(
            f"also has: {line}"
            for line in found
            if line.startswith(prefixes) and same(line) not in given
        ),
    ]


def policies(found: Configuration) -> Policies:
    """Return what a reader finds at each interface."""
    return {
        (each.interface, each.direction): _meaning(each)
        for each in found.attachments
        if each.interface
    }


def altered(wanted: Mapping[tuple[str, str], object], found: Policies) -> list[str]:
    """Return the interfaces at which a reader finds another policy than that pushed."""
    return [
        f"has another policy at {interface}, direction {direction}: other statements of the "
        "router change what these do"
        for (interface, direction), policy in wanted.items()
        if found.get((interface, direction)) != policy
    ]


def _meaning(found: Attachment) -> object:
    return _ordered(found.policy), found.rate, found.shape


def _ordered(value: object) -> object:
    """Return a policy with its classes in a list: the first one that matches decides."""
    if not isinstance(value, dict):
        return value
    return {
        key: [(name, _ordered(each)) for name, each in inner.items()]
        if key == "classes"
        else _ordered(inner)
        for key, inner in value.items()
    }
