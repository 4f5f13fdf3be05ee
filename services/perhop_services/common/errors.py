"""The errors of services, with a message for people and details for programs.

::

    ServiceError (PerhopError)
    ├── BadRequestError       422   malformed request
    ├── NotAuthenticatedError 401   not authenticated
    ├── ForbiddenError        403   not allowed for this user
    ├── NotFoundError         404   unknown, or of another user
    ├── ConflictError         409   conflict with the present state
    ├── ThrottledError        429   too many requests: when to try again
    └── UnavailableError      503   the database or an enforcing router does not answer
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, ClassVar

import sqlalchemy as sa

from perhop.errors import PerhopError

if TYPE_CHECKING:
    from collections.abc import Mapping


def is_outage(error: BaseException) -> bool:
    """Return whether an error is of the surroundings: a database, disk or router, not a bug."""
    if isinstance(error, (sa.exc.IntegrityError, sa.exc.DataError)):
        return False
    return isinstance(error, (ServiceError, sa.exc.SQLAlchemyError, OSError))


def first_line(error: BaseException) -> str:
    """Return the first line of the text of an error, or of the database's error behind it."""
    cause = getattr(error, "orig", None) or error
    if isinstance(cause, Exception) and cause.args and isinstance(cause.args[0], dict):
        return str(cause.args[0].get("M", cause))  # of PostgreSQL
    return (str(cause).splitlines() or [""])[0]


def when(second: int) -> str:
    """Format a second as in messages, in UTC."""
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


class ServiceError(PerhopError):
    """The root of all errors of services.

    Attributes:
        detail: The same for programs, by name.
    """

    status: ClassVar[int] = 500
    """The HTTP status of the answer."""

    def __init__(self, message: str, detail: Mapping[str, object] | None = None) -> None:
        super().__init__(message)
        self.detail = dict(detail or {})


class BadRequestError(ServiceError):
    """Malformed or inconsistent request."""

    status = 422


class NotAuthenticatedError(ServiceError):
    """Not authenticated."""

    status = 401


class ForbiddenError(ServiceError):
    """Not allowed for this user."""

    status = 403


class NotFoundError(ServiceError):
    """Unknown, or the property of another user."""

    status = 404


class ConflictError(ServiceError):
    """Something is in the way."""

    status = 409


class ThrottledError(ServiceError):
    """Too often; `detail` has after how many seconds to try again."""

    status = 429


class UnavailableError(ServiceError):
    """The database or an enforcing router does not answer."""

    status = 503
