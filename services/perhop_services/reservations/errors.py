"""The errors of the reservation service, with a message for people and details for programs.

::

    ReservationError (PerhopError)
    ├── BadRequestError       422   malformed request
    ├── NotAuthenticatedError 401   not authenticated
    ├── ForbiddenError        403   not allowed for this user
    ├── NotFoundError         404   unknown, or of another user
    ├── ConflictError         409   conflict with the state or with another reservation
    │   └── RefusedError      409   not enough bandwidth: where, how much, and the earliest start
    ├── ThrottledError        429   too many requests: when to try again
    └── UnavailableError      503   the database or an enforcing router does not answer
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, ClassVar

from perhop.errors import PerhopError

if TYPE_CHECKING:
    from collections.abc import Mapping


def when(second: int) -> str:
    """Format a second as in messages, in UTC."""
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


class ReservationError(PerhopError):
    """The root of all errors of the service.

    Attributes:
        detail: The same for programs, by name.
    """

    status: ClassVar[int] = 500
    """The HTTP status of the answer."""

    def __init__(self, message: str, detail: Mapping[str, object] | None = None) -> None:
        super().__init__(message)
        self.detail = dict(detail or {})


class BadRequestError(ReservationError):
    """Malformed or inconsistent request."""

    status = 422


class NotAuthenticatedError(ReservationError):
    """Not authenticated."""

    status = 401


class ForbiddenError(ReservationError):
    """Not allowed for this user."""

    status = 403


class NotFoundError(ReservationError):
    """Unknown, or the property of another user."""

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
