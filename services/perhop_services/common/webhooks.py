"""Tells other services what happens: each entry of the log, in order, at least once.

A delivery is a POST of JSON with the header ``X-Perhop-Signature: sha256=…``, the HMAC (RFC 2104)
of the body with the webhook's secret. What is not answered by 2xx is tried again, later and later.
Webhooks lead to public addresses, and to those of networks that are allowed.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import secrets
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol

import httpx
import sqlalchemy as sa

from perhop_services.common.destinations import addresses
from perhop_services.common.errors import BadRequestError, ConflictError, NotFoundError
from perhop_services.common.logs import failed
from perhop_services.common.schema import USERS, WEBHOOKS
from perhop_services.common.supervised import Supervised
from perhop_services.common.tls import trusted
from perhop_services.common.users import Role

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perhop_services.common.database import Database
    from perhop_services.common.destinations import Network
    from perhop_services.common.users import User

TIMEOUT: Final = 5.0
"""Seconds within which a delivery is to be answered, from the name's address to the last byte."""

LARGEST_ANSWER: Final = 64 * 1024
"""Bytes of an answer that are read at most."""

LONGEST_WAIT: Final = 600.0
"""Seconds between two tries, at most."""


class Entry(Protocol):
    """An entry of a service's log: a frozen dataclass, which is delivered as JSON."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def id(self) -> int:
        """Its number; entries are in order of it."""
        ...


class Log(Protocol):
    """Reads entries of a service's log in order: those after a number, so many at most."""

    def __call__(self, *, after: int, limit: int) -> Sequence[Entry]:
        """Read them."""
        ...


class Webhooks:
    """The webhooks of a service."""

    def __init__(self, database: Database, entries: sa.Table) -> None:
        """Take the database, and the table of its log, whose `id` grows from entry to entry."""
        self._database = database
        self._entries = entries

    def add(self, user: User, url: str) -> dict[str, Any]:
        """A new webhook, with its secret; it is told what happens from now on.

        Raises:
            ConflictError: The user has one of that address.
        """
        with self._database.writing() as connection:
            last = connection.scalar(sa.select(sa.func.max(self._entries.c.id))) or 0
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
        with self._database.reading() as connection:
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
    """A thread that delivers, with a task for each webhook: one that is slow delays no other."""

    def __init__(
        self,
        database: Database,
        log: Log,
        *,
        allowed: Sequence[Network] = (),
        beat: float = 0.5,
        timeout: float = TIMEOUT,
    ) -> None:
        """Start.

        Args:
            database: Where the webhooks are.
            log: Reads the service's log.
            allowed: Networks beside the public internet to which webhooks may lead.
            beat: Seconds between two looks at the log.
            timeout: Seconds within which a delivery is to be answered, from beginning to end.
        """
        self._database = database
        self._log = log
        self._allowed = allowed
        self._beat = beat
        self._timeout = timeout
        self._waits: dict[int, tuple[float, float]] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._loop = asyncio.new_event_loop()
        self.thread = Supervised("perhop-webhooks", self._step, beat, self._finish)

    def close(self) -> None:
        """Stop; what is not delivered is, after the next start."""
        self.thread.close()

    def _finish(self) -> None:
        self._loop.run_until_complete(self._end())
        self._loop.close()

    async def _end(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        await self._loop.shutdown_default_executor()

    def _step(self) -> None:
        self._loop.run_until_complete(self._look())

    async def _look(self) -> None:
        hooks = {hook["id"]: hook for hook in await asyncio.to_thread(self._all)}
        for number, task in [*self._tasks.items()]:
            if task.done():
                del self._tasks[number]
                if not task.cancelled() and (error := task.exception()) is not None:
                    failed("a delivery failed", error, webhook=number)
            elif number not in hooks:
                task.cancel()  # it is no more, or its user may not any more
        self._waits = {number: each for number, each in self._waits.items() if number in hooks}
        for number, hook in hooks.items():
            due = time.monotonic() >= self._waits.get(number, (0.0, 0.0))[1]
            if number not in self._tasks and due:
                self._tasks[number] = asyncio.create_task(self._deliver_all(hook))
        # Deliveries in progress continue until the next check.
        if self._tasks:
            await asyncio.wait(self._tasks.values(), timeout=self._beat)

    def _all(self) -> list[dict[str, Any]]:
        """The webhooks of those who may have some."""
        select = sa.select(WEBHOOKS).join(USERS, USERS.c.id == WEBHOOKS.c.user_id)
        roles = [Role.OPERATOR.value, Role.ADMINISTRATOR.value]
        select = select.where(USERS.c.role.in_(roles), USERS.c.disabled.is_(False))
        with self._database.reading() as connection:
            return [dict(row) for row in connection.execute(select).mappings()]

    async def _deliver_all(self, hook: Mapping[str, Any]) -> None:
        wait = self._waits.get(hook["id"], (0.0, 0.0))[0]
        entries = await asyncio.to_thread(self._log, after=hook["delivered"], limit=50)
        for entry in entries:
            trouble = await self._deliver(hook["url"], hook["secret"], entry)
            delivered = None if trouble else entry.id
            await asyncio.to_thread(self._note, hook["id"], delivered, trouble)
            if trouble:
                wait = min(LONGEST_WAIT, max(1.0, wait * 2))
                self._waits[hook["id"]] = (wait, time.monotonic() + wait)
                break
            self._waits.pop(hook["id"], None)

    async def _deliver(self, url: str, secret: str, entry: Entry) -> str:
        """Deliver an entry; answers what went wrong, or ""."""
        body = json.dumps(asdict(entry)).encode()
        try:
            async with asyncio.timeout(self._timeout):
                return await self._post(httpx.URL(url), body, signature(secret, body))
        except TimeoutError:
            return f"not answered within {self._timeout:g} s"
        except (BadRequestError, httpx.HTTPError, httpx.InvalidURL, ValueError, OSError) as error:
            return f"{type(error).__name__}: {error}"[:300]

    async def _post(self, url: httpx.URL, body: bytes, signed: str) -> str:
        port = url.port or (443 if url.scheme == "https" else 80)
        # Connected to is what was checked, whatever the name leads to in a moment.
        found = await asyncio.to_thread(addresses, url.host, port, self._allowed)
        headers = {
            "Host": url.netloc.decode(),
            "Content-Type": "application/json",
            "X-Perhop-Signature": signed,
        }
        async with (
            httpx.AsyncClient(timeout=self._timeout, trust_env=False, verify=trusted()) as client,
            client.stream(
                "POST",
                url.copy_with(host=found[0]),
                content=body,
                headers=headers,
                extensions={"sni_hostname": url.host},
            ) as answer,
        ):
            size = 0
            async for chunk in answer.aiter_raw():
                size += len(chunk)
                if size > LARGEST_ANSWER:
                    return f"answered with more than {LARGEST_ANSWER} bytes"
            return "" if answer.is_success else f"answered {answer.status_code}"

    def _note(self, number: int, delivered: int | None, trouble: str) -> None:
        values: dict[str, Any] = {"trouble": trouble}
        if delivered is not None:
            values["delivered"] = delivered
        with self._database.writing() as connection:
            mine = WEBHOOKS.update().where(WEBHOOKS.c.id == number)
            connection.execute(mine.values(values))


def signature(secret: str, body: bytes) -> str:
    """Return the header `X-Perhop-Signature` of a delivery."""
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
