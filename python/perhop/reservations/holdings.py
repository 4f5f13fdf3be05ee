"""What each user has, and may have."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from perhop._core import Calendar
from perhop.reservations.errors import ConflictError, when
from perhop.units import format_rate

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from perhop.reservations.model import Quota, Terms

_BOUNDLESS: Final = 1 << 62
"""What can be reserved in the calendar that counts what a user has."""


class Holdings:
    """How many reservations each user has, and for those with a quota of rate how much when."""

    def __init__(self) -> None:
        self._held: Counter[int] = Counter()
        self._rates: dict[int, Calendar] = {}

    def count(self, held: Mapping[int, int]) -> None:
        """Add reservations on file: how many each owner has."""
        self._held.update(held)

    def knows_rates_of(self, owner: int) -> bool:
        """Whether what a user has when is known, as a quota of rate needs."""
        return owner in self._rates

    def learn_rates_of(
        self, owner: int, origin: int, rows: Iterable[tuple[int, int, int, int]]
    ) -> None:
        """Take in what a user has that is not over at `origin`: number, start, end, rate."""
        own = self._rates[owner] = Calendar(origin, [(0, 1, 0, _BOUNDLESS, [])])
        entries: list[tuple[int, int, int | None, int, int, int]] = [
            (id_, 0, None, max(start, origin), end, rate)
            for id_, start, end, rate in rows
            if end > origin
        ]
        own.restore([[0]], entries)

    def check_number(self, owner: int, quota: Quota) -> None:
        """Whether a user may have one more.

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
        self, owner: int, id_: int | None, terms: Terms, quota: Quota, start: int, horizon: int
    ) -> None:
        """Whether a user may have so much at once, from `start` on, in the place of `id_`.

        Raises:
            ConflictError: It is more than the quota; it says when it would not be, if that is
                before `horizon`.
        """
        if quota.rate is None or start >= terms.end:
            return
        own = self._rates[owner]
        before = own.release(id_) if id_ is not None else None
        least = min(free for _, _, free in own.free([0], None, start, terms.end))
        # So much is left of the calendar where so much is left of what is allowed.
        asked = _BOUNDLESS - quota.rate + terms.rate
        earliest = None
        if least < asked and terms.rate <= quota.rate and start < horizon:
            earliest = own.earliest([0], None, start, horizon, terms.end - start, asked)
        if before is not None and id_ is not None:
            own.book(id_, *before)
        if least < asked:
            other = (
                f", or a time from {when(earliest)}"
                if earliest is not None
                else "; there is no other time for as long"
            )
            raise ConflictError(
                f"you have {format_rate(_BOUNDLESS - least)} in that time, and may have "
                f"{format_rate(quota.rate)} at once; expected less{other}",
                {
                    "quota": "rate",
                    "limit": quota.rate,
                    "booked": _BOUNDLESS - least,
                    "earliest": earliest,
                },
            )

    def add(self, owner: int, id_: int, start: int, terms: Terms) -> None:
        """A user has one more."""
        self._held[owner] += 1
        if owner in self._rates:
            self._rates[owner].book(id_, [0], None, start, terms.end, terms.rate)

    def change(self, owner: int, id_: int, start: int, terms: Terms) -> None:
        """What a user has is of other terms."""
        if owner in self._rates:
            self._rates[owner].change(id_, [0], None, start, terms.end, terms.rate)

    def remove(self, owner: int, id_: int) -> None:
        """A user has one less."""
        self._held[owner] -= 1
        if owner in self._rates:
            # It may have been over when the rates were learnt.
            with suppress(ValueError):
                self._rates[owner].release(id_)
