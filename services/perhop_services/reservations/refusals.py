"""The reasons of refusals, and the earliest start without conflict."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from perhop.units import format_rate
from perhop_services.common.errors import ConflictError, when
from perhop_services.reservations.errors import RefusedError
from perhop_services.reservations.routes import ALTERNATIVES

if TYPE_CHECKING:
    from perhop._core import Calendar, Shortage
    from perhop_services.common.users import Quota
    from perhop_services.reservations.holdings import Holdings
    from perhop_services.reservations.model import Terms
    from perhop_services.reservations.network import Network
    from perhop_services.reservations.packets import Claim, Packets

_ROUNDS: Final = 8
"""Number of alternations between the searches for room and for quota."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request for admission.

    Attributes:
        id: For which reservation.
        owner: The number of the user whose it is.
        terms: On what terms.
        quota: Quota of the user.
        now: The time.
    """

    id: int
    owner: int
    terms: Terms
    quota: Quota
    now: int


class Refusals:
    """Makes errors that name the earliest start without conflict.

    A suggestion has room on one of the paths, free packets, and keeps to the quota of rate.
    """

    def __init__(
        self,
        network: Network,
        origin: int,
        calendar: Calendar,
        packets: Packets,
        holdings: Holdings,
        horizon: int,
    ) -> None:
        """Take the reservations, and the horizon of bookings in seconds."""
        self._network = network
        self.origin = origin
        self._calendar = calendar
        self._packets = packets
        self._holdings = holdings
        self._horizon = horizon

    def too_much(self, asked: Asked, booked: int, paths: list[list[int]]) -> ConflictError:
        """Return the error of terms that exceed a user's quota of rate."""
        earliest, until = self._fits(asked, paths)
        allowed = asked.quota.rate or 0
        return ConflictError(
            f"you have {format_rate(booked)} in that time, and may have "
            f"{format_rate(allowed)} at once; expected less{_or_a_time(earliest, until)}",
            {
                "quota": "rate",
                "limit": allowed,
                "booked": booked,
                "earliest": earliest,
                "searched": until,
            },
        )

    def claimed(self, asked: Asked, claim: Claim, paths: list[list[int]]) -> ConflictError:
        """Return the error of terms whose packets another reservation has."""
        earliest, until = self._fits(asked, paths)
        return ConflictError(
            f"reservation {claim.reservation} is for some of the packets from {claim.source} to "
            f"{claim.destination} at that time already ({claim.selector}), up to "
            f"{when(claim.end)}; expected other ports, another protocol or DSCP"
            + _or_a_time(earliest, until),
            {
                "reservation": claim.reservation,
                "selector": str(claim.selector),
                "until": claim.end,
                "earliest": earliest,
                "searched": until,
            },
        )

    def too_little(
        self,
        asked: Asked,
        shortage: Shortage,
        paths: list[list[int]],
    ) -> RefusedError:
        """Return the error of terms that do not fit on any path."""
        link, free = self._network.links[shortage.link].name, shortage.free
        start, end = shortage.start, shortage.end
        class_ = None if shortage.class_ is None else self._network.classes[shortage.class_]
        where = link if class_ is None else f"class {class_} of {link}"
        earliest, until = self._fits(asked, paths)
        message = (
            f"{format_rate(asked.terms.rate)} is not free on {where}: {format_rate(free)} is, from "
            f"{when(start)} to {when(end)}"
        )
        message += (
            f"; it would be free from {when(earliest)}"
            if earliest is not None
            else f"; it is not free for as long before {when(until)}"
        )
        if len(paths) >= ALTERNATIVES:
            message += f", on the {len(paths)} ways that were looked at"
        detail = {
            "link": link,
            "class": class_,
            "free": free,
            "from": start,
            "until": end,
            "earliest": earliest,
            "searched": until,
            "ways": len(paths),
        }
        return RefusedError(message, detail)

    def _fits(self, asked: Asked, paths: list[list[int]]) -> tuple[int | None, int]:
        """Return the earliest start at which terms would be admitted, and the end of the search.

        Then one of the paths has room, the packets are free, and the quota of rate is kept.
        What the reservation itself has is not in the way.
        """
        id_, terms = asked.id, asked.terms
        class_, until = self._network.class_number(terms.class_), asked.now + self._horizon
        ways = [self._network.reserved(path, terms.direction) for path in paths]
        seconds = terms.end - terms.start
        packets, start = self._packets.sets(terms), max(terms.start, self.origin, asked.now)
        for _ in range(_ROUNDS):
            if start >= until:
                return None, until
            fit = self._calendar.fit(ways, class_, start, until, seconds, terms.rate, packets, id_)
            if fit.start is None:
                return None, fit.searched
            later = replace(terms, start=fit.start, end=fit.start + seconds)
            allowed, searched = self._holdings.fit(asked.owner, id_, later, asked.quota, until)
            if allowed is None or allowed == fit.start:
                return allowed, searched
            start = allowed
        return None, start


def _or_a_time(earliest: int | None, until: int) -> str:
    if earliest is not None:
        return f", or a time from {when(earliest)}"
    return f"; there is no other time for as long before {when(until)}"
