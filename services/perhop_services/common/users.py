"""Users of a service: what they may do, and what they may have."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    """Role of a user: books reservations, manages those of all users, or also manages users."""

    REQUESTER = "requester"
    OPERATOR = "operator"
    ADMINISTRATOR = "administrator"


@dataclass(frozen=True, slots=True)
class Quota:
    """Limits of a user; None is no limit.

    Attributes:
        reservations: Greatest number of reservations that are not over.
        rate: Greatest rate of all at any time, in bits per second.
        seconds: Greatest duration of one.
    """

    reservations: int | None = None
    rate: int | None = None
    seconds: int | None = None


@dataclass(frozen=True, slots=True)
class User:
    """A user who may log in.

    Attributes:
        id: Their number; names may change hands, numbers do not.
        name: The name to log in with.
        role: Permissions.
        quota: Limits.
        disabled: True if the user may no longer log in.
    """

    id: int
    name: str
    role: Role
    quota: Quota = Quota()
    disabled: bool = False

    @property
    def sees_all(self) -> bool:
        """True if the user may see and change the reservations of others."""
        return self.role in (Role.OPERATOR, Role.ADMINISTRATOR)
