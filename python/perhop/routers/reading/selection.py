"""The policy of a configuration that is meant: by interface and direction, or by name."""

from __future__ import annotations

import re
from copy import deepcopy
from typing import TYPE_CHECKING, Any

from perhop.errors import UsageError
from perhop.hints import did_you_mean
from perhop.routers.reading.configuration import Treatment
from perhop.routers.reading.effect import caution, shown
from perhop.units import format_rate, quote

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perhop.routers.reading.configuration import Attachment, Configuration, Direction, Line

_MOST_NOTES = 20
"""Greatest number of lines in the notes of a policy."""

_MOST_LISTED = 12
"""Greatest number of policies that a message lists."""


def select(
    configuration: Configuration,
    file: str,
    *,
    interface: str | None = None,
    direction: Direction | None = None,
    policy: str | None = None,
    any_of_several: bool = False,
) -> Attachment:
    """Return the policy at an interface, or of a name.

    Args:
        configuration: The configuration.
        file: Its name in messages.
        interface: The interface; as on routers, its kind may be abbreviated, such as ``Gi0/1``.
            By default the only one with a policy.
        direction: By default the interface's only one, or `out`.
        policy: The name of the policy in the configuration.
        any_of_several: Return the first policy instead of an error if there are several. Those at
            interfaces come before others, and those for sending before those for receiving.

    Raises:
        UsageError: There is no such policy, or there are several.
    """
    found = list(configuration.attachments)
    refused = {each.interface: each for each in configuration.refusals}
    names = meant(interface, list(refused)) if interface is not None else list(refused)
    if names and not (interface is None and policy is not None):
        name, place, reason = refused[names[0]]
        raise UsageError(
            f"{place}: the router refuses this line, so that {name} has no policy: {reason}"
        )
    if not found:
        lost = _left_out(configuration)
        why = f"; not modelled: {shown(lost)}" if lost else ""
        raise UsageError(f"{file}: has no policy about quality of service{why}")
    if interface is not None:
        found = _at(found, interface, file)
    if policy is not None:
        names = [each.name for each in found]
        if policy not in names:
            hint = did_you_mean(policy, names) or f"there is {_listed(found)}"
            raise UsageError(f"{file}: {quote(policy)} is not the name of a policy; {hint}")
        found = [each for each in found if each.name == policy]
    if direction is not None:
        wanted = [each for each in found if each.direction == direction]
        if not wanted:
            raise UsageError(
                f"{file}: has no policy with direction `{direction}`; there is {_listed(found)}"
            )
        found = wanted
    elif interface is not None or any_of_several:
        found = [each for each in found if each.direction == "out"] or found
    if any_of_several:
        return next((each for each in found if each.interface), found[0])
    # A policy at several interfaces is one where the interfaces do not matter.
    different = [each for each in found if each.policy != found[0].policy]
    if different and policy is None:
        raise UsageError(
            f"{file}: has several policies; expected an `interface`, and perhaps a `direction`: "
            f"{_listed(found)}"
        )
    return found[0]


def _left_out(configuration: Configuration) -> list[Line]:
    return [line for line in configuration.lines if line.treatment is Treatment.NOT_MODELLED]


def policy(configuration: Configuration, attachment: Attachment, *, unused: bool) -> dict[str, Any]:
    """Return a policy as a scenario has it, with what it leaves out as its `notes`.

    Args:
        configuration: The configuration.
        attachment: The policy in it.
        unused: Mark every class as `unused`: traffic need not match it.
    """
    left_out = _left_out(configuration)
    notes = [
        f"{line.place}: {quote(line.text)} is not modelled: {line.note}"
        for line in left_out[:_MOST_NOTES]
    ]
    if len(left_out) > len(notes):
        notes.append(f"{len(left_out) - len(notes)} more lines are not modelled")
    if number := configuration.counts[Treatment.APPROXIMATED]:
        lines = "line is" if number == 1 else "lines are"
        notes.append(f"{number} {lines} approximated; `perhop import` prints how")
    if (said := caution(configuration)) is not None:
        notes.insert(0, said)
    found = deepcopy(attachment.policy)
    todo = [found]
    while todo and unused:
        for class_ in todo.pop()["classes"].values():
            class_["unused"] = True
            if "classes" in class_:
                todo.append(class_)
    return {**found, "notes": notes}


def described(attachment: Attachment) -> str:
    """Return a policy and its interface in words, such as ``WAN (Serial0, out, 2 Mbps)``."""
    if not attachment.interface:
        return f"{attachment.name} (at no interface)"
    rate = f", {format_rate(attachment.rate)}" if attachment.rate else ""
    return f"{attachment.name} ({attachment.interface}, {attachment.direction}{rate})"


def _at(found: Sequence[Attachment], interface: str, file: str) -> list[Attachment]:
    """Return the policies at an interface."""
    names = list(dict.fromkeys(each.interface for each in found if each.interface))
    those = meant(interface, names)
    if not those:
        hint = did_you_mean(interface, names) or f"there is {_listed(found)}"
        raise UsageError(f"{file}: {quote(interface)} is not an interface with a policy; {hint}")
    if len(those) > 1:
        raise UsageError(
            f"{file}: {quote(interface)} could be {' or '.join(those)}; expected the whole name"
        )
    return [each for each in found if each.interface == those[0]]


def meant(interface: str, names: Sequence[str]) -> list[str]:
    """Return the interfaces that a name stands for: itself, or those that it abbreviates."""
    exact = [name for name in names if name == interface]
    exact = exact or [name for name in names if _kind(name) == _kind(interface)]
    return exact or [name for name in names if _abbreviates(interface, name)]


def _abbreviates(short: str, name: str) -> bool:
    """Return whether `short` is `name` with fewer letters before its numbers."""
    (few, place), (all_, number) = _kind(short), _kind(name)
    return bool(few) and all_.startswith(few) and place == number


def _kind(name: str) -> tuple[str, str]:
    """Return the kind of an interface in lower case, and its number, without spaces."""
    kind, number = re.fullmatch(r"([A-Za-z-]*)\s*(.*)", name, re.DOTALL).groups()  # type: ignore[union-attr]
    return kind.lower(), number.strip().lower()


def _listed(found: Sequence[Attachment]) -> str:
    more = len(found) - _MOST_LISTED
    shown = ", ".join(map(described, found[:_MOST_LISTED]))
    return f"{shown} and {more} more" if more > 0 else shown
