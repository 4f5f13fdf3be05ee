"""Routes for users: sessions, tokens, users, webhooks."""

import json
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response

from perhop_services.common.http.access import COOKIE, Administrator, Operator, Who, own_site
from perhop_services.common.http.problems import PROBLEMS
from perhop_services.common.messages import people as m
from perhop_services.common.people import SESSION, Identity, People
from perhop_services.common.webhooks import Webhooks

router = APIRouter(prefix="/api", responses=PROBLEMS, tags=["people"])

Id = Annotated[int, Path(ge=1, le=2**53)]
UserName = Annotated[str, Path(pattern=r"^[a-z][a-z0-9._-]{0,63}$")]


def _people(request: Request) -> People:
    found: People = request.app.state.people
    return found


def _webhooks(request: Request) -> Webhooks:
    found: Webhooks = request.app.state.webhooks
    return found


def _address(request: Request) -> str:
    return request.client.host if request.client else ""


def _session(who: Identity) -> m.Session:
    return m.Session(user=who.user.name, role=who.user.role, csrf=who.csrf)


@router.post("/session", status_code=201)
def log_in(request: Request, response: Response, body: m.LogIn) -> m.Session:
    """Log in from a browser; sets a session cookie."""
    own_site(request)
    token, who = _people(request).log_in(body.name, body.password, _address(request))
    secure = bool(request.app.state.secure)
    response.set_cookie(
        COOKIE, token, max_age=SESSION, httponly=True, samesite="strict", secure=secure
    )
    return _session(who)


@router.post("/token", status_code=201)
def log_in_program(request: Request, body: m.LogIn) -> m.Token:
    """Log in from a program; returns a token that is valid for twelve hours."""
    own_site(request)
    token, _ = _people(request).log_in(body.name, body.password, _address(request), "api")
    return m.Token(token=token)


@router.get("/session")
async def session(who: Who) -> m.Session:
    """The user of this session."""
    return _session(who)


@router.delete("/session", status_code=204)
def log_out(request: Request, response: Response, who: Who) -> None:
    """Log out: revoke the session or token of this request."""
    _people(request).revoke(who.user, who.token)
    response.delete_cookie(COOKIE, httponly=True, samesite="strict")


@router.post("/password", status_code=204)
def change_password(request: Request, who: Who, body: m.OwnPassword) -> None:
    """Change your password; ends all your sessions."""
    _people(request).change_password(who.user, body.old, body.new, _address(request))


@router.post("/tokens", status_code=201)
def new_token(request: Request, who: Who, body: m.NewToken) -> m.Token:
    """Create a token for a program or a calendar feed."""
    token = _people(request).make_token(who.user, body.kind, body.label, body.seconds)
    return m.Token(token=token)


@router.get("/tokens")
def tokens(request: Request, who: Who) -> list[m.TokenMessage]:
    """Your tokens and sessions."""
    return [m.TokenMessage(**each) for each in _people(request).tokens(who.user)]


@router.delete("/tokens/{number}", status_code=204)
def revoke(request: Request, who: Who, number: Id) -> None:
    """Revoke one of your tokens."""
    _people(request).revoke(who.user, number)


@router.get("/users")
def users(request: Request, _who: Administrator) -> list[m.UserMessage]:
    """All users."""
    return [m.UserMessage.of(user) for user in _people(request).all()]


@router.post("/users", status_code=201)
def add_user(request: Request, who: Administrator, body: m.NewUser) -> m.UserMessage:
    """Create a user."""
    people, quota = _people(request), None if body.quota is None else body.quota.quota()
    made = people.add(body.name, body.password, body.role, quota)
    people.audit(who.user.name, "add", made.name, _address(request), made.role)
    return m.UserMessage.of(made)


@router.patch("/users/{name}")
def set_user(
    request: Request, who: Administrator, name: UserName, body: m.UserChange
) -> m.UserMessage:
    """Change a user."""
    people = _people(request)
    quota = None if body.quota is None else body.quota.quota()
    changed = people.set(
        name, password=body.password, role=body.role, disabled=body.disabled, quota=quota
    )
    given = body.model_dump(mode="json", exclude_none=True, exclude={"password"})
    what = json.dumps(given | ({"password": "new"} if body.password is not None else {}))
    people.audit(who.user.name, "set", name, _address(request), what)
    return m.UserMessage.of(changed)


@router.get("/audit")
def audit(
    request: Request,
    _who: Administrator,
    after: Annotated[int, Query(ge=0, le=2**53)] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 1000,
) -> list[m.AuditMessage]:
    """Logins and changes of users. The next page begins after the last number."""
    return [m.AuditMessage(**each) for each in _people(request).audited(after, limit)]


@router.get("/webhooks")
def webhooks(request: Request, who: Operator) -> list[m.WebhookMessage]:
    """Your webhooks."""
    return [m.WebhookMessage(**each) for each in _webhooks(request).all(who.user)]


@router.post("/webhooks", status_code=201)
def add_webhook(request: Request, who: Operator, body: m.NewWebhook) -> m.Webhook:
    """Send every new entry of the log to an address."""
    return m.Webhook(**_webhooks(request).add(who.user, body.url))


@router.delete("/webhooks/{number}", status_code=204)
def remove_webhook(request: Request, who: Operator, number: Id) -> None:
    """Remove a webhook."""
    _webhooks(request).remove(who.user, number)
