"""Users, their passwords and tokens, and limits of attempts to log in.

Passwords are kept as Argon2id hashes (RFC 9106), tokens as SHA-256 digests: a token has 256 random
bits, so that trying them all is infeasible. Both are shown once, when they are made.
"""

from __future__ import annotations

import hashlib
import ipaddress
import re
import secrets
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal

import sqlalchemy as sa
from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from perhop_services.common.errors import (
    BadRequestError,
    ConflictError,
    ForbiddenError,
    NotAuthenticatedError,
    NotFoundError,
    ThrottledError,
)
from perhop_services.common.schema import AUDIT, TOKENS, USERS
from perhop_services.common.users import Quota, Role, User

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from perhop_services.common.database import Database

Kind = Literal["session", "api", "feed"]
"""Purposes of a token: a browser session, a program, or reading a calendar feed."""

SESSION: Final = 12 * 3600
"""Lifetime of a session, in seconds."""

SHORTEST_PASSWORD: Final = 12
LONGEST_PASSWORD: Final = 1000

_NAME = re.compile(r"[a-z][a-z0-9._-]{0,63}")

FREE_GUESSES: Final = 5
"""Wrong passwords for a name from an address before one must wait."""

FREE_OF_ADDRESS: Final = 20
"""Wrong passwords from an address, for whatever names, before one must wait."""

LONGEST_WAIT: Final = 900
"""Longest wait between two attempts to log in, in seconds."""

_MOST_WAITING: Final = 16
"""Passwords that are checked or wait for that: each takes a thread."""

_AT_ONCE: Final = 2
"""Passwords that are checked at once: each takes 64 MiB and most of a core for a moment."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The user of a request, and the means of authentication.

    Attributes:
        user: The user.
        kind: Kind of the token.
        token: The number of that token.
        csrf: What a browser must say again in a header when it changes something (OWASP's
            synchronizer token); "" for other tokens.
    """

    user: User
    kind: Kind
    token: int
    csrf: str


class People:
    """The users of a database."""

    def __init__(
        self,
        database: Database,
        *,
        clock: Callable[[], float] = time.time,
        quota: Quota | None = None,
    ) -> None:
        """Take the database, the time, and the quota of new users that are given none."""
        self._database = database
        self._quota = quota or Quota()
        self._clock = clock
        self._hasher = PasswordHasher()
        self._checking = threading.BoundedSemaphore(_AT_ONCE)
        self._throttle = Throttle(clock)
        self._known: dict[str, tuple[Identity, int | None]] = {}
        self._age = 0
        self._waiting = 0
        self._lock = threading.Lock()
        self._changing = threading.Lock()

    # Users

    def add(self, name: str, password: str, role: Role, quota: Quota | None = None) -> User:
        """Make a user.

        Raises:
            BadRequestError: The name or the password will not do.
            ConflictError: A user of that name exists.
        """
        if not _NAME.fullmatch(name) or name == "perhop":
            raise BadRequestError(
                f"{name!r} is not a name for a user; expected up to 64 of a-z, 0-9, '.', '_', '-', "
                "beginning with a letter, and not `perhop`"
            )
        row = {
            "name": name,
            "password": self._hash(password),
            "role": Role(role).value,
            "disabled": False,
            **_quota_row(quota or self._quota),
            "created": int(self._clock()),
        }
        try:
            with self._database.writing() as connection:
                connection.execute(USERS.insert(), row)
        except sa.exc.IntegrityError:
            raise ConflictError(f"there is a user {name!r} already") from None
        return self.named(name)

    def set(
        self,
        name: str,
        *,
        password: str | None = None,
        role: Role | None = None,
        disabled: bool | None = None,
        quota: Quota | None = None,
    ) -> User:
        """Change a user; one who is disabled or gets a new password is logged out everywhere.

        Raises:
            BadRequestError: The password will not do.
            ConflictError: No administrator would be left.
            NotFoundError: No user has that name.
        """
        user = self.named(name)
        changes: dict[str, Any] = _quota_row(quota) if quota is not None else {}
        if role is not None:
            changes["role"] = Role(role).value
        if disabled is not None:
            changes["disabled"] = disabled
        if password is not None:
            changes["password"] = self._hash(password)
        with self._changing, self._database.writing() as connection:
            if changes:
                mine = USERS.c.id == user.id
                connection.execute(USERS.update().where(mine).values(changes))
                count = sa.select(sa.func.count()).where(
                    USERS.c.role == Role.ADMINISTRATOR.value, USERS.c.disabled.is_(False)
                )
                if user.role is Role.ADMINISTRATOR and not connection.scalar(count):
                    raise ConflictError(f"{name} is the last administrator")
            if password is not None or disabled:
                connection.execute(TOKENS.delete().where(TOKENS.c.user_id == user.id))
        self._forget_known()
        return self.named(name)

    def change_password(self, user: User, old: str, new: str, address: str) -> None:
        """Change one's own password; one is logged out everywhere.

        Raises:
            NotAuthenticatedError: The old one is wrong.
            BadRequestError: The new one will not do.
            ThrottledError: There were too many wrong ones.
        """
        self._check_password(user.name, old, address)
        self.set(user.name, password=new)
        self.audit(user.name, "password", user.name, address, "changed by the user")

    def audit(
        self, author: str, action: str, subject: str, address: str = "", detail: str = ""
    ) -> None:
        """Record an action on a user in the audit log."""
        row = {
            "at": int(self._clock()),
            "author": author[:64],
            "action": action,
            "subject": subject[:64],
            "address": address[:64],
            "detail": detail[:1000],
        }
        with self._database.writing() as connection:
            connection.execute(AUDIT.insert(), row)

    def audited(self, after: int = 0, limit: int = 1000) -> list[dict[str, Any]]:
        """Return the entries of the audit log, in order."""
        select = sa.select(AUDIT).where(AUDIT.c.id > after).order_by(AUDIT.c.id).limit(limit)
        with self._database.reading() as connection:
            return [dict(row) for row in connection.execute(select).mappings()]

    def named(self, name: str) -> User:
        """The user of a name.

        Raises:
            NotFoundError: There is none.
        """
        with self._database.reading() as connection:
            row = (
                connection.execute(sa.select(USERS).where(USERS.c.name == name)).mappings().first()
            )
        if row is None:
            raise NotFoundError(f"there is no user {name!r}")
        return _user(dict(row))

    def all(self) -> list[User]:
        """Everybody, by name."""
        with self._database.reading() as connection:
            rows = connection.execute(sa.select(USERS).order_by(USERS.c.name)).mappings()
            return [_user(dict(row)) for row in rows]

    # Authentication

    def log_in(
        self, name: str, password: str, address: str, kind: Kind = "session"
    ) -> tuple[str, Identity]:
        """Check a password, and make a token.

        Raises:
            NotAuthenticatedError: It is wrong; whether the name or the password is not said.
            ThrottledError: There were too many wrong ones, for the name from there, or from there.
        """
        row = self._check_password(name, password, address)
        user = _user(row)
        self.audit(user.name, "log-in", user.name, address, kind)
        token = self.make_token(user, kind, "log-in", SESSION)
        return token, self.who(token)

    def _check_password(self, name: str, password: str, address: str) -> dict[str, Any]:
        """The row of the user of a name, whose password it is."""
        # By name *and* address, so that users elsewhere are not locked out.
        place = _place(address)
        keys = (f"name {name[:64]} from {place}", f"address {place}")
        self._throttle.check(keys)
        with self._database.reading() as connection:
            select = sa.select(USERS).where(USERS.c.name == name[:64])
            row = connection.execute(select).mappings().first()
        kept = row["password"] if row else self._nobody
        with self._turn():
            # Others may have guessed meanwhile.
            self._throttle.check(keys)
            right = len(password) <= LONGEST_PASSWORD and self._verify(kept, password)
            if row is None or not right or row["disabled"]:
                self._throttle.failed(keys)
                self._audit_failure(row, place)
                raise NotAuthenticatedError("the name or the password is wrong")
        self._throttle.succeeded(keys[:1])
        if self._hasher.check_needs_rehash(kept):
            with self._database.writing() as connection:
                mine = USERS.c.id == row["id"]
                values = {"password": self._hasher.hash(password)}
                connection.execute(USERS.update().where(mine).values(values))
        return dict(row)

    def make_token(self, user: User, kind: Kind, label: str, seconds: int | None) -> str:
        """A new token of a user's; it is told once.

        Args:
            user: Owner of the token.
            kind: Purpose of the token.
            label: Its name in lists.
            seconds: Its validity; None for unlimited.
        """
        token = f"perhop_{secrets.token_urlsafe(32)}"
        now = int(self._clock())
        row = {
            "user_id": user.id,
            "kind": kind,
            "digest": _digest(token),
            "csrf": secrets.token_urlsafe(24) if kind == "session" else "",
            "label": label[:128],
            "created": now,
            "expires": None if seconds is None else now + seconds,
        }
        with self._database.writing() as connection:
            connection.execute(TOKENS.insert(), row)
            expired = TOKENS.c.expires <= now
            connection.execute(TOKENS.delete().where(expired))
        return token

    def who(self, token: str) -> Identity:
        """Whose token it is.

        Raises:
            NotAuthenticatedError: It is unknown, or no longer valid.
        """
        digest = _digest(token)
        found = self._known.get(digest)
        if found is None:
            age = self._age
            found = self._look_up(digest)
            with self._lock:
                if len(self._known) > 10_000:
                    self._known.clear()
                # A row read before a change was committed may be outdated by now.
                if age == self._age:
                    self._known[digest] = found
        identity, expires = found
        if expires is not None and expires <= self._clock():
            raise NotAuthenticatedError("the token has expired; log in again")
        return identity

    def _forget_known(self) -> None:
        """Look all tokens up again: something was changed, and is committed."""
        with self._lock:
            self._age += 1
            self._known.clear()

    def _look_up(self, digest: str) -> tuple[Identity, int | None]:
        select = sa.select(
            USERS, TOKENS.c.id.label("token"), TOKENS.c.kind, TOKENS.c.csrf, TOKENS.c.expires
        ).join(TOKENS, TOKENS.c.user_id == USERS.c.id)
        with self._database.reading() as connection:
            row = connection.execute(select.where(TOKENS.c.digest == digest)).mappings().first()
        if row is None or row["disabled"]:
            raise NotAuthenticatedError("unknown token; log in, or make another")
        user = _user(dict(row))
        return Identity(user, row["kind"], row["token"], row["csrf"]), row["expires"]

    def tokens(self, user: User) -> list[Mapping[str, Any]]:
        """A user's tokens, without the secret: id, kind, label, created, expires."""
        t = TOKENS.c
        select = sa.select(t.id, t.kind, t.label, t.created, t.expires).where(t.user_id == user.id)
        with self._database.reading() as connection:
            return [dict(row) for row in connection.execute(select.order_by(t.id)).mappings()]

    def revoke(self, user: User, token: int) -> None:
        """End one of a user's tokens.

        Raises:
            NotFoundError: The user has none of that number.
        """
        t = TOKENS.c
        with self._changing, self._database.writing() as connection:
            gone = connection.execute(TOKENS.delete().where(t.id == token, t.user_id == user.id))
            if not gone.rowcount:
                raise NotFoundError(f"you have no token {token}")
        self._forget_known()

    def _audit_failure(self, row: Any, place: str) -> None:
        """Put a failed log-in on file, of users that there are: others would fill the disk."""
        if row is not None:
            self.audit("", "log-in failed", row["name"], place)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Check a password, without blocking other users if too many wait for a check."""
        with self._lock:
            crowded = self._waiting >= _MOST_WAITING
            self._waiting += not crowded
        if crowded:
            raise ThrottledError(
                "too many logins at the same time; try again in 2 s", {"retry_after": 2}
            )
        try:
            with self._checking:
                yield
        finally:
            with self._lock:
                self._waiting -= 1

    def _hash(self, password: str) -> str:
        if not SHORTEST_PASSWORD <= len(password) <= LONGEST_PASSWORD:
            raise BadRequestError(
                f"a password has {SHORTEST_PASSWORD} to {LONGEST_PASSWORD} characters"
            )
        with self._checking:
            return self._hasher.hash(password)

    @cached_property
    def _nobody(self) -> str:
        """A password that is checked for names that there are not, so that they take as long."""
        return self._hasher.hash(secrets.token_hex())

    def _verify(self, kept: str, password: str) -> bool:
        try:
            return self._hasher.verify(kept, password)
        except (VerificationError, InvalidHashError):
            return False


class Throttle:
    """Counts failed logins: after some free attempts, each wait is twice the one before."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._failures: dict[str, tuple[int, float]] = {}
        self._lock = threading.Lock()

    def check(self, keys: tuple[str, ...]) -> None:
        """Raise ThrottledError while one must wait."""
        with self._lock:
            now = self._clock()
            wait = max(self._until(key) - now for key in keys)
        if wait > 0:
            seconds = int(wait) + 1
            raise ThrottledError(
                f"too many wrong passwords; try again in {seconds} s", {"retry_after": seconds}
            )

    def failed(self, keys: tuple[str, ...]) -> None:
        """Count a wrong guess."""
        with self._lock:
            now = self._clock()
            if len(self._failures) > 100_000:
                # An attacker with many addresses must not exhaust the memory.
                recent = sorted(self._failures.items(), key=lambda item: item[1][1])
                self._failures = dict(recent[-50_000:])
            for key in keys:
                count, last = self._failures.get(key, (0, now))
                # A day without a failure is a new beginning.
                self._failures[key] = (1 if now - last > 86_400 else count + 1, now)

    def succeeded(self, keys: tuple[str, ...]) -> None:
        """Forget wrong guesses."""
        with self._lock:
            for key in keys:
                self._failures.pop(key, None)

    def _until(self, key: str) -> float:
        count, last = self._failures.get(key, (0, 0.0))
        free = FREE_OF_ADDRESS if key.startswith("address ") else FREE_GUESSES
        if count < free:
            return 0.0
        return last + min(LONGEST_WAIT, 2.0 ** min(count - free, 30))


def _place(address: str) -> str:
    """Return the key of an address for limits: of IPv6 the /64 prefix, which one party has."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if found.version == 4:
        return str(found)
    return str(found.ipv4_mapped or ipaddress.ip_network((int(found) >> 64 << 64, 64)))


def may(user: User, *roles: Role) -> None:
    """Raise ForbiddenError unless a user has one of some roles."""
    if user.role not in roles:
        raise ForbiddenError(f"{user.name} is {user.role}; this is for {' and '.join(roles)}s")


def _quota_row(quota: Quota) -> dict[str, int | None]:
    return {
        "max_reservations": quota.reservations,
        "max_rate": quota.rate,
        "max_seconds": quota.seconds,
    }


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _user(row: Mapping[str, Any]) -> User:
    """Return the user of a row."""
    return User(
        id=row["id"],
        name=row["name"],
        role=Role(row["role"]),
        quota=Quota(row["max_reservations"], row["max_rate"], row["max_seconds"]),
        disabled=bool(row["disabled"]),
    )
