"""Authentication, and protection against cross-site requests.

A program sends its token in the header `Authorization`. A browser sends its session's token in a
cookie, which other sites cannot read but can have sent. A change by cookie therefore needs the
second secret of the session in the header `X-CSRF-Token`, and must not come from another site
(OWASP, Cross-Site Request Forgery Prevention).
"""

import hmac
from typing import Annotated, Any, Final

from fastapi import Depends, Query, Request, Security
from fastapi.security import APIKeyCookie, HTTPBearer
from fastapi.security.http import HTTPAuthorizationCredentials

from perhop_services.common.errors import ForbiddenError, NotAuthenticatedError
from perhop_services.common.people import Identity, People, may
from perhop_services.common.users import Role

COOKIE: Final = "perhop_session"
HEADER: Final = "X-CSRF-Token"

_READS: Final = {"GET", "HEAD", "OPTIONS"}

_bearer = HTTPBearer(auto_error=False, description="A token, from `POST /api/tokens`.")
_cookie = APIKeyCookie(name=COOKIE, auto_error=False, description="A browser's session.")


async def identity(
    request: Request,
    bearer: Annotated[HTTPAuthorizationCredentials | None, Security(_bearer)],
    session: Annotated[str | None, Security(_cookie)],
) -> Identity:
    """Return the user of a request.

    Raises:
        NotAuthenticatedError: The request is not authenticated.
        ForbiddenError: The request may come from another site.
    """
    people: People = request.app.state.people
    if bearer is not None:
        who = people.who(bearer.credentials)
        if who.kind == "feed":
            raise NotAuthenticatedError("this token is for the calendar feed alone")
        return who
    if not session:
        raise NotAuthenticatedError("log in, or show a token")
    who = people.who(session)
    if who.kind != "session":
        raise NotAuthenticatedError("this token goes into the header `Authorization`")
    if request.method not in _READS:
        own_site(request)
        told = request.headers.get(HEADER, "")
        if not hmac.compare_digest(told.encode(), who.csrf.encode()):
            raise ForbiddenError(f"the header {HEADER} is missing or wrong; log in again")
    return who


def own_site(request: Request) -> None:
    """Raise ForbiddenError if a browser says that the request comes from another site."""
    site = request.headers.get("sec-fetch-site", "same-origin")
    if site not in ("same-origin", "none"):
        raise ForbiddenError("another site asked for this")
    origin = request.headers.get("origin")
    if origin is not None and origin.partition("://")[2] != request.headers.get("host"):
        raise ForbiddenError("another site asked for this")


async def feed_identity(
    request: Request, token: Annotated[str, Query(min_length=1, max_length=200)]
) -> Identity:
    """Return the owner of a calendar feed."""
    people: People = request.app.state.people
    who = people.who(token)
    if who.kind != "feed":
        raise NotAuthenticatedError("expected a token of the kind `feed`")
    return who


def _of_roles(*roles: Role) -> Any:
    async def check(who: Who) -> Identity:
        may(who.user, *roles)
        return who

    return check


Who = Annotated[Identity, Depends(identity)]
"""Identity of the authenticated user."""

Operator = Annotated[Identity, Depends(_of_roles(Role.OPERATOR, Role.ADMINISTRATOR))]
"""An operator, or an administrator, who asks."""

Administrator = Annotated[Identity, Depends(_of_roles(Role.ADMINISTRATOR))]
"""An administrator who asks."""

Feed = Annotated[Identity, Depends(feed_identity)]
"""Identity that belongs to the address of a feed."""
