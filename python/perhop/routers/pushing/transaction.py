"""A policy set in one transaction: all of it, confirmed by what the router reads back, or none."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from perhop.printable import printable
from perhop.routers.pushing.errors import PushError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from xml.etree.ElementTree import Element

    from perhop.routers.pushing.netconf import Router

__all__ = ["Outcome", "PushError", "transact"]

_SHOWN = 5
"""The most differences in a message."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of a push without an error.

    Attributes:
        state: ``unchanged`` if the router had the policy before, ``dry run``, ``not approved``, or
            ``set``.
        changes: The statements that differ, with ``-`` for those of before and ``+`` for those of
            after.
    """

    state: str
    changes: tuple[str, ...]


class Policy(Protocol):
    """A policy in the words of a family of routers."""

    filter: str
    """The parts of a configuration to ask the router for, as XML."""

    @property
    def remedies(self) -> Mapping[str, str]:
        """What to do about a missing capability, by its name."""

    def edit(self, current: Element | None) -> str:
        """Return the edit that gives a router the policy, as XML."""

    def lines(self, configuration: Element | None) -> tuple[str, ...]:
        """Return the statements of a configuration."""

    def differences(self, configuration: Element | None) -> list[str]:
        """Return how what a router has differs from the policy."""


def transact(
    router: Router,
    policy: Policy,
    *,
    seconds: int,
    approve: Callable[[tuple[str, ...]], bool],
    dry: bool = False,
) -> Outcome:
    """Set a policy on a router, by RFC 6241: candidate (8.3), confirmed commit (8.4).

    The candidate configuration is locked, edited, compared with the policy, validated and dropped.
    With approval, it is edited again and committed. After the commit, the running configuration
    must read back as the policy; only then is the commit confirmed. If anything fails before, the
    router returns to what it had: at once where it can cancel a commit, otherwise when the session
    ends or after `seconds`.

    Args:
        router: The router.
        policy: The policy.
        seconds: The time until an unconfirmed commit is undone.
        approve: Called with the changes that the router would make; False leaves it as it is.
        dry: True to stop before the commit.

    Raises:
        PushError: If the router does not have the policy; the message says what it has.
    """
    for name, versions in (("candidate", ("1.0",)), ("confirmed-commit", ("1.0", "1.1"))):
        if not router.has(name, *versions):
            raise PushError(
                f"{router.target}: the router has no {name} capability, without which a failed "
                f"change could not be undone; {policy.remedies[name]}"
            )
    router.lock()
    try:
        before = router.configuration("running", policy.filter)
        edited = policy.edit(before)
        changes = _rehearse(router, policy, edited, before)
        state = "unchanged" if not changes else "dry run" if dry else ""
        if not state and not approve(changes):
            state = "not approved"
        if not state:
            _commit(router, policy, edited, policy.lines(before), seconds)
        return Outcome(state or "set", changes)
    finally:
        with suppress(PushError):
            router.unlock()


def _rehearse(
    router: Router, policy: Policy, edited: str, before: Element | None
) -> tuple[str, ...]:
    """Return the changes that an edit makes, after the router has checked it and dropped it.

    The candidate is edited again for the commit: netconfd 2.13 takes the changes of a candidate
    that it has validated for committed ones.
    """
    try:
        router.edit(edited)
        after = router.configuration("candidate", policy.filter)
        if found := policy.differences(after):
            raise PushError(
                f"{router.target}: the router would have another policy, and nothing was changed: "
                f"{_few(found)}"
            )
        router.validate()
    finally:
        with suppress(PushError):
            router.discard()
    changes = _changes(policy.lines(before), policy.lines(after))
    if not changes and policy.differences(before):
        return _moves(policy.lines(before), policy.lines(after))
    return changes


def _commit(
    router: Router, policy: Policy, edited: str, before: tuple[str, ...], seconds: int
) -> None:
    """Commit an edit; confirm it if it reads back as the policy, and undo it otherwise."""
    try:
        router.edit(edited)
        router.commit(seconds)
        if found := policy.differences(router.configuration("running", policy.filter)):
            raise PushError(f"{router.target}: reads back another policy: {_few(found)}")
        router.confirm()
    except BaseException as error:
        with suppress(PushError):
            router.discard()
        said = _undone(router, policy, before, seconds)
        if isinstance(error, PushError):
            raise PushError(f"{error}; {said}") from None
        raise


def _undone(router: Router, policy: Policy, before: tuple[str, ...], seconds: int) -> str:
    """Undo a commit, and return what the router has then."""
    with suppress(PushError):
        router.cancel()
    with suppress(PushError):
        if policy.lines(router.configuration("running", policy.filter)) == before:
            return "the router has its previous configuration"
    return f"the router restores its previous configuration within {seconds} s"


def _changes(before: tuple[str, ...], after: tuple[str, ...]) -> tuple[str, ...]:
    old, new = set(before), set(after)
    return (
        *(f"-{line}" for line in before if line not in new),
        *(f"+{line}" for line in after if line not in old),
    )


def _moves(before: tuple[str, ...], after: tuple[str, ...]) -> tuple[str, ...]:
    """Return the statements that change their places."""
    from difflib import SequenceMatcher

    return tuple(
        f"{sign}{line}"
        for _, *old, start, end in SequenceMatcher(None, before, after, False).get_opcodes()
        if before[slice(*old)] != after[start:end]
        for sign, lines in (("-", before[slice(*old)]), ("+", after[start:end]))
        for line in lines
    )


def _few(messages: list[str]) -> str:
    more = f", and {len(messages) - _SHOWN} more" if len(messages) > _SHOWN else ""
    return printable(f"{'; '.join(messages[:_SHOWN])}{more}")
