"""Messages about users: sessions, tokens, users, webhooks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from perhop_services.common.messages.basics import MAX_RATE, MAX_SECOND, Message
from perhop_services.common.users import Quota, Role

if TYPE_CHECKING:
    from perhop_services.common.users import User


class LogIn(Message):
    """A name and a password."""

    name: Annotated[str, Field(max_length=64, pattern=r"^[^\x00]*$")]
    password: Annotated[str, Field(max_length=1000)]


class Session(Message):
    """The user of a session."""

    user: str
    role: Role
    csrf: str
    """Value of the header `X-CSRF-Token` for every change."""


class NewToken(Message):
    """A request for a token."""

    label: Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[^\x00-\x1f\x7f]+$")]
    kind: Literal["api", "feed"] = "api"
    seconds: Annotated[int, Field(ge=60, le=10 * 366 * 86_400)] | None = None


class Token(Message):
    """A new token with its secret, which is shown only once."""

    token: str


class TokenMessage(Message):
    """A token without its secret."""

    id: int
    kind: str
    label: str
    created: int
    expires: int | None


class QuotaMessage(Message):
    """The quota of a user."""

    reservations: Annotated[int, Field(ge=0, le=2**53)] | None = None
    rate: Annotated[int, Field(ge=0, le=MAX_RATE)] | None = None
    seconds: Annotated[int, Field(ge=0, le=MAX_SECOND)] | None = None

    def quota(self) -> Quota:
        """Return the same values for the service."""
        return Quota(self.reservations, self.rate, self.seconds)

    @classmethod
    def of(cls, quota: Quota) -> QuotaMessage:
        """Return the same values for HTTP."""
        return cls._of(quota)


class NewUser(Message):
    """A request for a user."""

    name: Annotated[str, Field(min_length=1, max_length=64)]
    password: Annotated[str, Field(min_length=1, max_length=1000)]
    role: Annotated[Role, Field(strict=False)] = Role.REQUESTER
    quota: QuotaMessage | None = None
    """Quota; the service's default for new users unless given."""


class OwnPassword(Message):
    """A new password of the user who sends it."""

    old: Annotated[str, Field(max_length=1000)]
    new: Annotated[str, Field(min_length=1, max_length=1000)]


class AuditMessage(Message):
    """A login, or a change of a user."""

    id: int
    at: int
    author: str
    action: str
    subject: str
    address: str
    detail: str


class UserChange(Message):
    """Changes of a user."""

    password: Annotated[str, Field(min_length=1, max_length=1000)] | None = None
    role: Annotated[Role | None, Field(strict=False)] = None
    disabled: bool | None = None
    quota: QuotaMessage | None = None


class UserMessage(Message):
    """A user."""

    name: str
    role: Role
    disabled: bool
    quota: QuotaMessage

    @classmethod
    def of(cls, user: User) -> UserMessage:
        """Return the same values for HTTP."""
        return cls._of(user, quota=QuotaMessage.of(user.quota))


class NewWebhook(Message):
    """A request for a webhook."""

    url: Annotated[str, Field(min_length=8, max_length=2000, pattern=r"^https?://[!-~]+$")]

    @field_validator("url")
    @classmethod
    def _leads_somewhere(cls, url: str) -> str:
        parts = urlsplit(url)  # a ValueError of its own where brackets are left open
        if not parts.hostname or parts.port == 0:
            raise ValueError("expected the address of a host, such as https://example.org/told")
        return url


class WebhookMessage(Message):
    """A webhook."""

    id: int
    url: str
    delivered: int
    trouble: str


class Webhook(WebhookMessage):
    """A new webhook, with the secret that signs deliveries."""

    secret: str
