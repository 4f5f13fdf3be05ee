"""A policy set on a router."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from perhop.errors import UsageError
from perhop.routers.pushing.connection import connect, need_libraries
from perhop.routers.pushing.iosxe import IosXe
from perhop.routers.pushing.junos import Junos
from perhop.routers.pushing.linux import Machine, set_policy

if TYPE_CHECKING:
    from collections.abc import Callable

    from perhop.routers.pushing.target import Scheme, Target
    from perhop.routers.pushing.transaction import Outcome, Policy
    from perhop.routers.writing import Family

__all__ = ["SCHEMES", "Settings", "check", "push"]

SCHEMES: Final[dict[str, Scheme]] = {"junos": "netconf", "ios": "netconf", "tc": "ssh"}
"""The protocol by which each family is configured."""

_POLICIES: Final[dict[str, Callable[[str], Policy]]] = {"junos": Junos, "ios": IosXe}
"""The policies of the families that NETCONF configures."""

_HEADING: Final = re.compile(r"^[#!] ={8} (.+) ={8}$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Settings:
    """How a router is reached, and how long perhop waits for it.

    Attributes:
        key: A file with the private key; None for those of the agent and of `~/.ssh`.
        password: The password of the user or of the key; None for none.
        known_hosts: A file with host keys; None for `~/.ssh/known_hosts`.
        timeout: The longest wait for a reply, in seconds.
        confirm: The time after which the router undoes a change that is not confirmed, in seconds.
        dry: True to change nothing.
    """

    key: str | None = None
    password: str | None = None
    known_hosts: str | None = None
    timeout: float = 30
    confirm: int = 120
    dry: bool = False

    def __repr__(self) -> str:
        """Return the settings without the password."""
        return f"Settings(key={self.key!r}, timeout={self.timeout}, confirm={self.confirm})"


def push(
    target: Target,
    family: Family,
    text: str,
    settings: Settings,
    approve: Callable[[tuple[str, ...]], bool],
) -> Outcome:
    """Set a policy on a router.

    Args:
        target: The router.
        family: Its family.
        text: The configuration as `perhop.routers.writing` writes it, for this router only.
        settings: The keys and times.
        approve: Called with the changes before they are made; False leaves the router as it is.

    Raises:
        PushError: If the router does not have the policy.
        UnsupportedError: If a library is missing, or the router's models cannot express the policy.
        UsageError: If the family is configured in another way, or not at all, or the text is for
            several routers or none.
    """
    check(target, family)
    one_router(text)
    need_libraries()
    policy = _POLICIES[family](text) if target.scheme == "netconf" else None
    client = connect(
        target,
        key=settings.key,
        password=settings.password,
        known_hosts=settings.known_hosts,
        timeout=settings.timeout,
    )
    if policy is None:
        with client:
            machine = Machine(client, target, settings.timeout)
            return set_policy(
                machine, text, seconds=settings.confirm, approve=approve, dry=settings.dry
            )
    from perhop.routers.pushing.netconf import Router
    from perhop.routers.pushing.transaction import transact

    with Router(client, target, settings.timeout) as router:
        return transact(router, policy, seconds=settings.confirm, approve=approve, dry=settings.dry)


def check(target: Target, family: Family) -> None:
    """Check that routers of a family are configured by a protocol.

    Raises:
        UsageError: If not.
    """
    if SCHEMES.get(family) != target.scheme:
        known = ", ".join(f"{scheme}:// for {name}" for name, scheme in SCHEMES.items())
        raise UsageError(f"--push: {target} does not go with --to {family}; expected {known}")


def one_router(text: str) -> None:
    """Check that a configuration is for one router.

    Raises:
        UsageError: If not.
    """
    found = _HEADING.findall(text)
    if not found:
        raise UsageError(
            "--push: there is nothing to set: these links have no policy, shaper, queue or marking"
        )
    if len(found) > 1:
        raise UsageError(
            f"--push: the configuration is for {', '.join(found)}; expected links of one router in "
            "--interface and --link"
        )
