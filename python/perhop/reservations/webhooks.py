"""Tells other services what happens: each entry of the log, in order, at least once.

A delivery is a POST of JSON with the header ``X-Perhop-Signature: sha256=…``, the HMAC (RFC 2104)
of the body with the webhook's secret. What is not answered by 2xx is tried again, later and later.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import threading
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import httpx
import sqlalchemy as sa

from perhop.reservations.errors import ConflictError, NotFoundError
from perhop.reservations.schema import LOG, WEBHOOKS

if TYPE_CHECKING:
    from perhop.reservations.model import LogEntry, User
    from perhop.reservations.service import Service

PATIENCE: Final = 5.0
"""Seconds within which a delivery is to be answered."""

LONGEST_WAIT: Final = 600.0
"""Seconds between two tries, at most."""


class Webhooks:
    """The webhooks of a service."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._database = service.database

    def add(self, user: User, url: str) -> dict[str, Any]:
        """A new webhook, with its secret; it is told what happens from now on.

        Raises:
            ConflictError: The user has one of that address.
        """
        with self._database.writing() as connection:
            last = connection.scalar(sa.select(sa.func.max(LOG.c.id))) or 0
            row = {
                "user_id": user.id,
                "url": url,
                "secret": secrets.token_hex(32),
                "delivered": last,
                "trouble": "",
            }
            try:
                done = connection.execute(WEBHOOKS.insert(), row)
            except sa.exc.IntegrityError:
                raise ConflictError(f"you have a webhook for {url} already") from None
            key = done.inserted_primary_key
            assert key is not None
        return {"id": key[0], "url": url, "delivered": last, "trouble": "", "secret": row["secret"]}

    def all(self, user: User) -> list[dict[str, Any]]:
        """A user's webhooks, without their secrets."""
        w = WEBHOOKS.c
        select = sa.select(w.id, w.url, w.delivered, w.trouble).where(w.user_id == user.id)
        with self._database.engine.connect() as connection:
            return [dict(row) for row in connection.execute(select.order_by(w.id)).mappings()]

    def remove(self, user: User, number: int) -> None:
        """Remove one of a user's webhooks.

        Raises:
            NotFoundError: The user has none of that number.
        """
        w = WEBHOOKS.c
        mine = WEBHOOKS.delete().where(w.id == number, w.user_id == user.id)
        with self._database.writing() as connection:
            if not connection.execute(mine).rowcount:
                raise NotFoundError(f"you have no webhook {number}")


class Deliveries:
    """A thread that delivers."""

    def __init__(self, service: Service, *, beat: float = 0.5) -> None:
        self._service = service
        self._beat = beat
        self._ending = threading.Event()
        self._waits: dict[int, tuple[float, float]] = {}
        self._thread = threading.Thread(target=self._run, name="perhop-webhooks", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop; what is not delivered is, after the next start."""
        self._ending.set()
        self._thread.join()

    def _run(self) -> None:
        with httpx.Client(timeout=PATIENCE, follow_redirects=False, trust_env=False) as client:
            while not self._ending.wait(self._beat):
                try:
                    self._look(client)
                except sa.exc.SQLAlchemyError:
                    continue  # the database is away

    def _look(self, client: httpx.Client) -> None:
        with self._service.database.engine.connect() as connection:
            hooks = connection.execute(sa.select(WEBHOOKS)).mappings().all()
        for hook in hooks:
            wait, until = self._waits.get(hook["id"], (0.0, 0.0))
            if time.monotonic() < until:
                continue
            for entry in self._service.log(after=hook["delivered"], limit=50):
                if self._ending.is_set():
                    return
                trouble = _deliver(client, hook["url"], hook["secret"], entry)
                self._note(hook["id"], None if trouble else entry.id, trouble)
                if trouble:
                    wait = min(LONGEST_WAIT, max(1.0, wait * 2))
                    self._waits[hook["id"]] = (wait, time.monotonic() + wait)
                    break
                self._waits.pop(hook["id"], None)

    def _note(self, number: int, delivered: int | None, trouble: str) -> None:
        values: dict[str, Any] = {"trouble": trouble}
        if delivered is not None:
            values["delivered"] = delivered
        with self._service.database.writing() as connection:
            mine = WEBHOOKS.update().where(WEBHOOKS.c.id == number)
            connection.execute(mine.values(values))


def signature(secret: str, body: bytes) -> str:
    """What the header `X-Perhop-Signature` of a delivery says."""
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def _deliver(client: httpx.Client, url: str, secret: str, entry: LogEntry) -> str:
    """Deliver an entry; answers what went wrong, or ""."""
    body = json.dumps(asdict(entry)).encode()
    headers = {"Content-Type": "application/json", "X-Perhop-Signature": signature(secret, body)}
    try:
        answer = client.post(url, content=body, headers=headers)
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        return f"{type(error).__name__}: {error}"[:300]
    return "" if answer.is_success else f"answered {answer.status_code}"
