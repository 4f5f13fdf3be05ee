"""Why the service says no. Each error is what it says to people, and what it says to programs.

::

    ReservationError (PerhopError)
    ├── BadRequestError       422   it makes no sense
    ├── NotAuthenticatedError 401   nobody knows who asks
    ├── ForbiddenError        403   this user may not
    ├── NotFoundError         404   there is none, or it is not theirs to see
    ├── ConflictError         409   something is in the way
    │   └── RefusedError      409   too little is free: where, how much, and when there would be
    ├── ThrottledError        429   too often; when to try again
    └── UnavailableError      503   the database or an enforcing router does not answer
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, ClassVar

from perhop.errors import PerhopError

if TYPE_CHECKING:
    from collections.abc import Mapping


def when(second: int) -> str:
    """A second as messages write it, in UTC."""
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


class ReservationError(PerhopError):
    """The root of what the service answers instead of doing something.

    Attributes:
        detail: The same for programs, by name.
    """

    status: ClassVar[int] = 500
    """The HTTP status of the answer."""

    def __init__(self, message: str, detail: Mapping[str, object] | None = None) -> None:
        super().__init__(message)
        self.detail = dict(detail or {})


class BadRequestError(ReservationError):
    """What was asked makes no sense."""

    status = 422


class NotAuthenticatedError(ReservationError):
    """Nobody knows who asks."""

    status = 401


class ForbiddenError(ReservationError):
    """This user may not do that."""

    status = 403


class NotFoundError(ReservationError):
    """There is no such thing, or it is not this user's to see."""

    status = 404


class ConflictError(ReservationError):
    """Something is in the way."""

    status = 409


class RefusedError(ConflictError):
    """Too little is free. `detail` has what is in the way, and when there would be room."""


class ThrottledError(ReservationError):
    """Too often; `detail` has after how many seconds to try again."""

    status = 429


class UnavailableError(ReservationError):
    """The database or an enforcing router does not answer."""

    status = 503
