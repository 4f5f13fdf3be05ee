"""The protocol between enforcement and the driver of a router."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perhop_services.reservations.model import Selector

RULE_NAME: Final = re.compile(r"perhop_([a-z]+_)?[0-9]+(_back)?")
"""The names of our rules on a router."""


class DriverError(Exception):
    """A failure of a router; the message has the reason."""


class NotCountedError(DriverError):
    """A router whose counters the driver cannot read."""


class RefusedError(DriverError):
    """A permanent refusal of a router."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A policer for the packets of a reservation in one direction.

    Attributes:
        name: Its name on the router: ``perhop_SERVICE_91``, or with ``_back`` for the other way.
        source: The address that packets come from.
        destination: The address that they go to.
        selector: Selector of packets between the two.
        rate: Bits per second.
        burst: Greatest burst, in bytes.
        class_: The class of service, or None.
        link_rate: What the link can carry that the router sends them into, in bits per second; 0
            if unknown.
        links: The links that routers send them into, in order, as ``r1>r2``.
    """

    name: str
    source: str
    destination: str
    selector: Selector
    rate: int
    burst: int
    class_: str | None = None
    link_rate: int = 0
    links: tuple[str, ...] = ()

    @property
    def packets(self) -> str:
        """The packets, as text that is equal for equal ones."""
        return f"{self.source} > {self.destination}, {self.selector}"


@dataclass(frozen=True, slots=True)
class Setting:
    """The rule that a router has under a name, as far as it can tell.

    Attributes:
        rate: Bits per second.
        burst: The bytes that the policer lets through at once.
        packets: Packets, as text that is equal for equal ones.
        guaranteed: What they get whatever else is sent, in bits per second; None where the router
            only polices.
        policer: Kind of policer, if a router has several: ``tc`` or ``nft``.
    """

    rate: int
    burst: int
    packets: str
    guaranteed: int | None = None
    policer: str = ""


@dataclass(frozen=True, slots=True)
class PolicerCounters:
    """The counters of a policer, since it was made or they were cleared.

    Attributes:
        conformed_packets: Packets that the policer let through.
        conformed_bytes: Their bytes, IP header included.
        exceeded_packets: Packets that it dropped.
        exceeded_bytes: Their bytes.
    """

    conformed_packets: int = 0
    conformed_bytes: int = 0
    exceeded_packets: int = 0
    exceeded_bytes: int = 0


class Driver(Protocol):
    """A driver. Every call may take seconds, fail, or never return; enforcement handles this."""

    @property
    def needs_people(self) -> bool:
        """True if people apply `configuration`; the other methods are not called then."""

    def configuration(self, rule: Rule, old: Rule | None = None, *, remove: bool = False) -> str:
        """Return the configuration that sets, changes or removes a rule, as text."""

    def expected(self, rule: Rule) -> Setting:
        """Return what `installed` returns for a rule, rounded to the router's units."""

    def set(self, rule: Rule) -> None:
        """Install a rule, or replace one of the same name, whose counters stay.

        Raises:
            DriverError: It is not in place; what was there before still is.
        """

    def remove(self, name: str) -> None:
        """Remove a rule; do nothing if it does not exist.

        Raises:
            DriverError: It is still there.
        """

    def installed(self) -> Mapping[str, Setting]:
        """Return perhop's rules that are installed, by name.

        Raises:
            DriverError: The router does not say.
        """

    def counters(self) -> Mapping[str, PolicerCounters]:
        """Return the counters of perhop's rules, by name.

        Raises:
            NotCountedError: The driver reads no counters.
            DriverError: The router does not say.
        """

    def clear(self, name: str) -> None:
        """Clear the counters of a rule.

        Raises:
            DriverError: They are not.
        """
