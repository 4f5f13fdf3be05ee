"""The reservations of each user, for quotas."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from perhop._core import Booking, Calendar, CalendarLink
from perhop_services.common.errors import ConflictError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from perhop_services.common.users import Quota
    from perhop_services.reservations.model import Terms

_BOUNDLESS: Final = 1 << 61
"""Capacity of the calendar that counts the holdings of users."""


class Holdings:
    """The number of reservations of each user, and with a quota of rate their rates over time."""

    def __init__(self) -> None:
        self._held: Counter[int] = Counter()
        self._rates: dict[int, Calendar] = {}

    def count(self, held: Mapping[int, int]) -> None:
        """Add reservations on file: how many each owner has."""
        self._held.update(held)

    def knows_rates_of(self, owner: int) -> bool:
        """Return whether the rates of a user are known, as a quota of rate needs."""
        return owner in self._rates

    def learn_rates_of(
        self, owner: int, origin: int, rows: Iterable[tuple[int, int, int, int]]
    ) -> None:
        """Take in what a user has that is not over at `origin`: number, start, end, rate."""
        own = self._rates[owner] = Calendar(origin, [CalendarLink(0, 1, 0, _BOUNDLESS, [])])
        ahead = [row for row in rows if row[2] > origin]
        own.restore(
            {
                id_: Booking([0], None, max(start, origin), end, rate)
                for id_, start, end, rate in ahead
            }
        )

    def forget(self) -> None:
        """Forget the rates of users, until they are read again."""
        self._rates.clear()

    def check_number(self, owner: int, quota: Quota) -> None:
        """Check that a user may have another reservation.

        Raises:
            ConflictError: The quota is used up.
        """
        held = self._held[owner]
        if quota.reservations is not None and held >= quota.reservations:
            raise ConflictError(
                f"you have {held} reservations, and may have {quota.reservations}; cancel one, or "
                "ask an administrator for more",
                {"quota": "reservations", "limit": quota.reservations},
            )

    def check_rate(
        self, owner: int, id_: int | None, terms: Terms, quota: Quota, start: int
    ) -> int | None:
        """Return a user's rate from `start` on, without `id_`, if `terms` would exceed a quota."""
        if quota.rate is None or start >= terms.end:
            return None
        asked = min(_BOUNDLESS, _BOUNDLESS - quota.rate + terms.rate)
        short = self._rates[owner].check(Booking([0], None, start, terms.end, asked), id_)
        if short is None and terms.rate <= quota.rate:
            return None
        return 0 if short is None else _BOUNDLESS - short.free

    def fit(
        self, owner: int, id_: int | None, terms: Terms, quota: Quota, until: int
    ) -> tuple[int | None, int]:
        """Return the earliest start at which the quota suffices, and the end of the search."""
        if quota.rate is None:
            return terms.start, terms.start
        if terms.rate > quota.rate or terms.start >= until:
            return None, until
        # So much is left of the calendar where so much is left of what is allowed.
        asked, seconds = _BOUNDLESS - quota.rate + terms.rate, terms.end - terms.start
        fit = self._rates[owner].fit([[0]], None, terms.start, until, seconds, asked, [], id_)
        return fit.start, fit.searched

    def add(self, owner: int, id_: int, start: int, terms: Terms) -> None:
        """Count another reservation of a user."""
        self._held[owner] += 1
        if owner in self._rates:
            self._rates[owner].book(id_, Booking([0], None, start, terms.end, terms.rate))

    def change(self, owner: int, id_: int, start: int, terms: Terms) -> None:
        """Change the terms of a user's reservation."""
        if owner in self._rates:
            self._rates[owner].change(id_, Booking([0], None, start, terms.end, terms.rate))

    def remove(self, owner: int, id_: int) -> None:
        """Remove a reservation of a user."""
        self._held[owner] -= 1
        if owner in self._rates:
            # It may have been over when the rates were learnt.
            with suppress(ValueError):
                self._rates[owner].release(id_)
