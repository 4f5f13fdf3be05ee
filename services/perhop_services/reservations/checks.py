"""Checks of requests that do not depend on other reservations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perhop_services.common.errors import BadRequestError, ConflictError, ForbiddenError
from perhop_services.reservations.admission import HORIZON
from perhop_services.reservations.model import State

if TYPE_CHECKING:
    from perhop_services.common.users import User
    from perhop_services.reservations.model import Reservation, Terms
    from perhop_services.reservations.network import Network

LATE: Final = 60
"""A start this many seconds ago is still taken as now: clocks differ, and requests travel."""

LONGEST_HOLD: Final = 3600
"""For how many seconds a reservation may be held before it is committed."""


def check_new(network: Network, user: User, terms: Terms, now: int, hold: int | None) -> None:
    """Check a request for a reservation, to be held for `hold` seconds unless that is None."""
    if user.disabled:
        raise ForbiddenError(f"{user.name} may no longer book")
    check_times(terms, now)
    for end in (terms.source, terms.destination):
        if end not in network.hosts:
            raise BadRequestError(
                f"{end!r} is no host of {network.name}; expected one of "
                + ", ".join(network.hosts[:20])
            )
    _check_length(user, terms)
    if hold is not None and not 1 <= hold <= LONGEST_HOLD:
        raise BadRequestError(f"a hold lasts from 1 to {LONGEST_HOLD} seconds, not {hold}")


def check_times(terms: Terms, now: int) -> None:
    """Check rate, start and end."""
    if terms.rate < 1:
        raise BadRequestError("a rate of nothing; expected one above zero")
    if terms.start < now - LATE:
        raise BadRequestError("it starts in the past; expected now, or later")
    if terms.end <= max(terms.start, now):
        raise BadRequestError("it ends before it starts; expected an end behind the start")
    if terms.end > now + HORIZON:
        raise BadRequestError(f"it ends more than {HORIZON // 86400} days ahead")


def _check_length(user: User, terms: Terms) -> None:
    longest = user.quota.seconds
    if longest is not None and terms.end - terms.start > longest:
        raise ConflictError(
            f"it lasts {terms.end - terms.start} s, and yours may last {longest} s",
            {"quota": "seconds", "limit": longest},
        )


def check_change(user: User, own: Reservation, new: Terms, now: int) -> None:
    """Check a request for new terms of a reservation."""
    if own.terms.end <= now:
        raise ConflictError(f"reservation {own.id} is over; it can no longer change")
    if new.rate < 1 or new.burst < 1:
        raise BadRequestError("a rate or burst of nothing; expected one above zero")
    if new.start != own.terms.start and (own.state is State.ACTIVE or new.start < now):
        raise BadRequestError("the start can be moved only before it, and not into the past")
    if new.end <= max(new.start, now):
        raise BadRequestError(
            "it would end in the past, or before it starts; to end it now, cancel it"
        )
    if new.end > now + HORIZON:
        raise BadRequestError(f"it would end more than {HORIZON // 86400} days ahead")
    if not user.sees_all:
        _check_length(user, new)
