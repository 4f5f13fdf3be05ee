"""Users of a service: what they may do, and what they may have."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    """What a user may do: book; look after everybody's; also look after users."""

    REQUESTER = "requester"
    OPERATOR = "operator"
    ADMINISTRATOR = "administrator"


@dataclass(frozen=True, slots=True)
class Quota:
    """What a user may have; what is None is not limited.

    Attributes:
        reservations: How many reservations that are not over.
        rate: How much at any one time, in bits per second, in all.
        seconds: How long one may last.
    """

    reservations: int | None = None
    rate: int | None = None
    seconds: int | None = None


@dataclass(frozen=True, slots=True)
class User:
    """Somebody who may log in.

    Attributes:
        id: Their number; names may change hands, numbers do not.
        name: The name to log in with.
        role: What they may do.
        quota: What they may have.
        disabled: Whether they may no longer log in.
    """

    id: int
    name: str
    role: Role
    quota: Quota = Quota()
    disabled: bool = False

    @property
    def sees_all(self) -> bool:
        """Whether they may see and change what others have booked."""
        return self.role in (Role.OPERATOR, Role.ADMINISTRATOR)
