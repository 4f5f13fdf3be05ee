"""The packets of reservations over time: no two reservations may have the same packets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from perhop._core import PacketSet

if TYPE_CHECKING:
    from perhop._core import Calendar
    from perhop_services.reservations.model import Selector, Terms

_PROTOCOLS: Final = {"icmp": 1, "tcp": 6, "udp": 17}
"""Numbers of protocols (IANA)."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Another reservation for some of the same packets.

    Attributes:
        source: The host that they come from.
        destination: The host that they go to.
        reservation: Its number.
        selector: Selector of its packets.
        end: Its end.
    """

    source: str
    destination: str
    reservation: int
    selector: Selector
    end: int


class Packets:
    """The packets of reservations, by their two ends and by time."""

    def __init__(self, calendar: Calendar) -> None:
        self._calendar = calendar
        self._pairs: dict[tuple[str, str], int] = {}
        self._selectors: dict[Selector, int] = {}
        self._by_number: dict[int, Selector] = {}

    def claim(self, id_: int, terms: Terms) -> Claim | None:
        """Return the first reservation, other than `id_`, for some of the packets of terms."""
        found = self._calendar.claim(self.sets(terms), id_, terms.start, terms.end)
        if found is None:
            return None
        source, destination, _ = terms.packets[found.packets]
        selector = self._by_number[found.selector]
        return Claim(source, destination, found.number, selector, found.end)

    def sets(self, terms: Terms) -> list[PacketSet]:
        """Return the packets of terms, as the calendar numbers them."""
        return [
            PacketSet(self.pair(source, destination), self.selector(selector))
            for source, destination, selector in terms.packets
        ]

    def occupy(self, id_: int, terms: Terms, *, held: bool = False) -> None:
        """Add the packets of a reservation, or those `held` for it beside them."""
        for source, destination, selector in terms.packets:
            pair, which = self.pair(source, destination), self.selector(selector)
            self._calendar.occupy(pair, id_, held, which, terms.start, terms.end)

    def vacate(self, id_: int, terms: Terms, *, held: bool = False) -> None:
        """Remove the packets of a reservation, or those `held` for it."""
        for source, destination, _ in terms.packets:
            pair = self.pair(source, destination)
            self._calendar.vacate(pair, id_, held, terms.start, terms.end)

    def pair(self, source: str, destination: str) -> int:
        """Return the number of two ends."""
        return self._pairs.setdefault((source, destination), len(self._pairs))

    def selector(self, selector: Selector) -> int:
        """Return the number of a selector."""
        number = self._selectors.get(selector)
        if number is None:
            number = self._selectors[selector] = self._calendar.selector(
                None if selector.protocol is None else _PROTOCOLS[selector.protocol],
                selector.source_ports,
                selector.destination_ports,
                selector.dscp,
            )
            self._by_number[number] = selector
        return number
