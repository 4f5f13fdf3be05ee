"""The client of the service, for the command line and for programs."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, Self, TypeVar

import httpx
from pydantic import TypeAdapter

from perhop_services.common import errors
from perhop_services.common.tls import trusted
from perhop_services.reservations import messages as m

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType

    from perhop_services.reservations.model import State

T = TypeVar("T")

URL = "http://127.0.0.1:8471"
"""Default address of the service."""

_ERRORS: dict[int, type[errors.ServiceError]] = {
    each.status: each
    for each in (
        errors.BadRequestError,
        errors.NotAuthenticatedError,
        errors.ForbiddenError,
        errors.NotFoundError,
        errors.ConflictError,
        errors.ThrottledError,
        errors.UnavailableError,
    )
}

_RESERVATION = TypeAdapter(m.ReservationMessage)


_LOG_PAGE = 1000


class Client:
    """A service, by its address.

    >>> with Client(token="perhop_…") as client:  # doctest: +SKIP
    ...     client.book(m.Booking(source="a", destination="b", rate=10**7, seconds=3600))

    Every method raises a `ServiceError` as the service answers it.
    """

    def __init__(
        self, url: str = URL, *, token: str = "", timeout: float = 30.0, verify: Any = True
    ) -> None:
        """Set the address, a token, and the verification of certificates, as in httpx."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        known = trusted() if verify is True else verify
        self._http = httpx.Client(base_url=url, headers=headers, timeout=timeout, verify=known)
        self._url = url

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def log_in(self, name: str, password: str) -> str:
        """Log in with a name and a password; this client uses the new token, which is returned."""
        body = m.LogIn(name=name, password=password)
        token = self._ask("POST", "/api/token", m.Token, body).token
        self._http.headers["Authorization"] = f"Bearer {token}"
        return token

    def log_out(self) -> None:
        """Revoke the token of this client."""
        self._send("DELETE", "/api/session")

    def new_token(self, token: m.NewToken) -> m.Token:
        """Create a token for a program or a calendar feed; only this answer contains it."""
        return self._ask("POST", "/api/tokens", m.Token, token)

    def tokens(self) -> list[m.TokenMessage]:
        """Return your tokens and logins."""
        return self._ask("GET", "/api/tokens", list[m.TokenMessage])

    def revoke(self, number: int) -> None:
        """Revoke one of your tokens."""
        self._send("DELETE", f"/api/tokens/{number}")

    def network(self) -> m.NetworkMessage:
        """Return the links that can be reserved."""
        return self._ask("GET", "/api/network", m.NetworkMessage)

    def free(
        self, source: str, destination: str, start: int, end: int, rate: int = 1, **others: Any
    ) -> m.FreeMessage:
        """Return the free bandwidth; `others` are the other fields of `FreeQuestion`."""
        asked = m.FreeQuestion(
            source=source, destination=destination, start=start, end=end, rate=rate, **others
        )
        params = asked.model_dump(mode="json", by_alias=True, exclude_none=True)
        return self._ask("GET", "/api/free", m.FreeMessage, params=params)

    def timeline(self, start: int, end: int) -> dict[str, list[m.Stretch]]:
        """Return the free bandwidth of every link."""
        params = {"start": start, "end": end}
        return self._ask("GET", "/api/timeline", dict[str, list[m.Stretch]], params=params)

    def book(self, booking: m.Booking, key: str | None = None) -> m.ReservationMessage:
        """Book or hold; repeated requests with the same `key` book once."""
        headers = {"Idempotency-Key": key or secrets.token_urlsafe(16)}
        return self._ask(
            "POST", "/api/reservations", m.ReservationMessage, booking, headers=headers
        )

    def reservations(
        self,
        states: Iterable[State] = (),
        *,
        mine: bool = False,
        after: int = 0,
        limit: int = 100,
    ) -> list[m.ReservationMessage]:
        """Return your reservations; operators get those of all users."""
        params = {
            "state": [each.value for each in states],
            "mine": mine,
            "after": after,
            "limit": limit,
        }
        return self._ask("GET", "/api/reservations", list[m.ReservationMessage], params=params)

    def show(self, number: int) -> m.ReservationMessage:
        """Return a reservation."""
        return self._ask("GET", f"/api/reservations/{number}", m.ReservationMessage)

    def change(self, number: int, change: m.Change) -> m.ReservationMessage:
        """Change a reservation in place."""
        return self._ask("PATCH", f"/api/reservations/{number}", m.ReservationMessage, change)

    def commit(self, number: int) -> m.ReservationMessage:
        """Commit a held reservation."""
        return self._ask("POST", f"/api/reservations/{number}/commit", m.ReservationMessage)

    def cancel(self, number: int, reason: str = "") -> m.ReservationMessage:
        """Cancel a reservation."""
        body = m.Reason(reason=reason)
        return self._ask("POST", f"/api/reservations/{number}/cancel", m.ReservationMessage, body)

    def confirm(self, number: int) -> m.ReservationMessage:
        """Confirm that the routers were configured by hand."""
        return self._ask("POST", f"/api/reservations/{number}/confirm", m.ReservationMessage)

    def configuration(self, number: int, what: str = "set") -> str:
        """Return the router configuration to `set`, `change` or `remove` a reservation."""
        path, params = f"/api/reservations/{number}/configuration", {"what": what}
        return self._ask("GET", path, dict[str, str], params=params)["configuration"]

    def log(self, number: int) -> list[m.LogMessage]:
        """Return the log of a reservation."""
        found: list[m.LogMessage] = []
        while True:
            params = {"after": found[-1].id if found else 0, "limit": _LOG_PAGE}
            path = f"/api/reservations/{number}/log"
            page = self._ask("GET", path, list[m.LogMessage], params=params)
            found += page
            if len(page) < _LOG_PAGE:
                return found

    def counters(self, number: int, most: int = 10_000) -> list[m.CountersMessage]:
        """Return the readings of the counters, at most about `most` of them."""
        path, params = f"/api/reservations/{number}/counters", {"most": most}
        return self._ask("GET", path, list[m.CountersMessage], params=params)

    def clear_counters(self, number: int) -> None:
        """Clear the counters of a reservation."""
        self._send("DELETE", f"/api/reservations/{number}/counters")

    def change_password(self, old: str, new: str) -> None:
        """Change your password; ends all your sessions."""
        self._send("POST", "/api/password", m.OwnPassword(old=old, new=new))

    def audit(self, after: int = 0, limit: int = 1000) -> list[m.AuditMessage]:
        """Return logins and changes of users, as an administrator."""
        params = {"after": after, "limit": limit}
        return self._ask("GET", "/api/audit", list[m.AuditMessage], params=params)

    def users(self) -> list[m.UserMessage]:
        """Return all users."""
        return self._ask("GET", "/api/users", list[m.UserMessage])

    def add_user(self, user: m.NewUser) -> m.UserMessage:
        """Create a user."""
        return self._ask("POST", "/api/users", m.UserMessage, user)

    def set_user(self, name: str, change: m.UserChange) -> m.UserMessage:
        """Change a user."""
        return self._ask("PATCH", f"/api/users/{name}", m.UserMessage, change)

    def webhooks(self) -> list[m.WebhookMessage]:
        """Return your webhooks."""
        return self._ask("GET", "/api/webhooks", list[m.WebhookMessage])

    def add_webhook(self, webhook: m.NewWebhook) -> m.Webhook:
        """Send every entry of the log to an address; only this answer contains the secret."""
        return self._ask("POST", "/api/webhooks", m.Webhook, webhook)

    def remove_webhook(self, number: int) -> None:
        """Remove a webhook."""
        self._send("DELETE", f"/api/webhooks/{number}")

    def _ask(
        self, method: str, path: str, kind: type[T], body: m.Message | None = None, **others: Any
    ) -> T:
        answer = self._send(method, path, body, **others)
        return TypeAdapter(kind).validate_json(answer.content)

    def _send(
        self, method: str, path: str, body: m.Message | None = None, **others: Any
    ) -> httpx.Response:
        if body is not None:
            others["json"] = body.model_dump(mode="json", by_alias=True, exclude_none=True)
        try:
            answer = self._http.request(method, path, **others)
        except httpx.HTTPError as error:
            raise errors.UnavailableError(f"{self._url} does not answer: {error}") from None
        if answer.is_success:
            return answer
        try:
            said = answer.json()
            message, detail = str(said["error"]), dict(said["detail"])
        except (ValueError, KeyError, TypeError):
            message, detail = f"answered {answer.status_code}", {}
        raise _ERRORS.get(answer.status_code, errors.ServiceError)(message, detail)
