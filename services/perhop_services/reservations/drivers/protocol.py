"""What enforcement asks of a router, and what the router answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perhop_services.reservations.model import Selector


class DriverError(Exception):
    """A router did not do it; the message says why."""


class RefusedError(DriverError):
    """A router will not do it, however often it is asked."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A policer for the packets of a reservation in one direction.

    Attributes:
        name: Its name on the router: ``perhop_SERVICE_91``, or with ``_back`` for the other way.
        source: The address that packets come from.
        destination: The address that they go to.
        selector: Which packets between the two.
        rate: Bits per second.
        burst: How many bytes may come at once.
        class_: The class of service, or None.
        link_rate: What the link can carry that the router sends them into, in bits per second; 0
            where nobody knows.
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
        """Which packets, as text that is equal for equal ones."""
        return f"{self.source} > {self.destination}, {self.selector}"


@dataclass(frozen=True, slots=True)
class Setting:
    """What a router has in place under a name, as far as it can tell.

    Attributes:
        rate: Bits per second.
        burst: The bytes that the policer lets through at once.
        packets: Which packets, in words that are equal for equal ones.
        guaranteed: What they get whatever else is sent, in bits per second; None where the router
            only polices.
    """

    rate: int
    burst: int
    packets: str
    guaranteed: int | None = None


@dataclass(frozen=True, slots=True)
class PolicerCounters:
    """What came since the policer was made, or its counters cleared.

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
    """A router. Every call may take seconds, fail, or never return; enforcement sees to that."""

    @property
    def needs_people(self) -> bool:
        """Whether people apply what `configuration` says; the rest is not called then."""

    def configuration(self, rule: Rule, old: Rule | None = None, *, remove: bool = False) -> str:
        """What is told the router to set, change or remove a rule, as text."""

    def expected(self, rule: Rule) -> Setting:
        """What `installed` says once a rule is in place: the router's own units may round it."""

    def set(self, rule: Rule) -> None:
        """Put a rule in place, or in the place of one of the same name, whose counters stay.

        Raises:
            DriverError: It is not in place; what was there before still is.
        """

    def remove(self, name: str) -> None:
        """Remove a rule; nothing happens if there is none.

        Raises:
            DriverError: It is still there.
        """

    def installed(self) -> Mapping[str, Setting]:
        """The rules of perhop's that are in place, by name.

        Raises:
            DriverError: The router does not say.
        """

    def counters(self) -> Mapping[str, PolicerCounters]:
        """The counters of perhop's rules, by name.

        Raises:
            DriverError: The router does not say.
        """

    def clear(self, name: str) -> None:
        """Set a rule's counters to zero.

        Raises:
            DriverError: They are not.
        """
