"""Idempotency keys, which identify repeated requests."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Final

import sqlalchemy as sa

from perhop_services.common.errors import ConflictError
from perhop_services.reservations.schema import KEYS

if TYPE_CHECKING:
    from perhop_services.common.users import User
    from perhop_services.common.writer import Batch

REMEMBERED: Final = 7 * 86_400
"""For how many seconds a request is known by its key."""


class Keys:
    """The keys that may have been used, so that most new keys need no query."""

    def __init__(self, connection: sa.Connection) -> None:
        used = connection.execute(sa.select(KEYS.c.owner_id, KEYS.c.key))
        self._used = {_trace(owner, key) for owner, key in used}

    @staticmethod
    def forget(connection: sa.Connection, now: int) -> None:
        """Forget old keys."""
        connection.execute(KEYS.delete().where(KEYS.c.at <= now - REMEMBERED))

    @classmethod
    def tidied(cls, batch: Batch, now: int) -> Keys:
        """Forget old keys, and return the rest."""
        batch.flush()
        cls.forget(batch.connection, now)
        return cls(batch.connection)

    def find(self, batch: Batch, user: User, key: str, asked: str) -> int | None:
        """Return the number of the reservation that a key has booked.

        Raises:
            ConflictError: The key was used for another request.
        """
        if _trace(user.id, key) not in self._used:
            return None
        k = KEYS.c
        select = sa.select(k.reservation_id, k.asked).where(k.owner_id == user.id, k.key == key)
        row = batch.execute(select).first()
        if row is None:
            return None
        if row.asked != asked:
            raise ConflictError(
                f"the key {key!r} was used for reservation {row.reservation_id}, which is another "
                "request",
                {"reservation": row.reservation_id},
            )
        return int(row.reservation_id)

    def add(self, batch: Batch, user: User, key: str, asked: str, id_: int, now: int) -> None:
        """Store the reservation of a key."""
        row = {
            "owner_id": user.id,
            "key": key,
            "reservation_id": id_,
            "asked": asked,
            "at": now,
        }
        batch.insert(KEYS, row)
        self._used.add(_trace(user.id, key))


def digest(request: object) -> str:
    """A short text that is equal for equal requests."""
    text = json.dumps(request, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def _trace(owner: int, key: str) -> int:
    return hash((owner, key))
