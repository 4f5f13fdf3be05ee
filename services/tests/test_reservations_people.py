"""Users, their passwords and tokens, and what is on file of them."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from conftest import SLOW
from perhop_services.common.errors import ConflictError, NotAuthenticatedError, ServiceError
from perhop_services.common.people import People
from perhop_services.common.users import Quota, Role
from perhop_services.reservations import messages as m
from perhop_services.reservations.client import Client
from reserving import MBPS, PASSWORD, Clock
from reserving_http import ask, booking, client, served, service

pytestmark = SLOW

__all__ = ["service"]


def test_administrators_look_after_users(service: tuple[str, People]) -> None:
    url, _ = service
    with client(service, "root") as root:
        made = root.add_user(m.NewUser(name="new", password=PASSWORD, role=Role.REQUESTER))
        assert (made.role, made.disabled) == ("requester", False)
        with pytest.raises(ConflictError, match="there is a user 'new' already"):
            root.add_user(m.NewUser(name="new", password=PASSWORD))
        with Client(url) as new:
            new.log_in("new", PASSWORD)
            quota = m.QuotaMessage(reservations=0)
            root.set_user("new", m.UserChange(quota=quota))
            with pytest.raises(ConflictError, match="may have 0"):
                new.book(booking())
            root.set_user("new", m.UserChange(disabled=True))
            with pytest.raises(ServiceError, match="unknown token"):
                new.network()
            with pytest.raises(ServiceError, match="the name or the password is wrong"):
                new.log_in("new", PASSWORD)
        with pytest.raises(ConflictError, match="root is the last administrator"):
            root.set_user("root", m.UserChange(role=Role.OPERATOR))
        for wrong in ("perhop", "Root", "a b", "x" * 65):
            with pytest.raises((ServiceError, ValueError)):
                root.add_user(m.NewUser(name=wrong, password=PASSWORD))
        with pytest.raises(ServiceError, match="a password has 12"):
            root.add_user(m.NewUser(name="short", password="secret"))


def test_a_new_password_ends_every_token(service: tuple[str, People]) -> None:
    url, _ = service
    with client(service, "root") as root, Client(url) as moved:
        root.add_user(m.NewUser(name="moved", password=PASSWORD))
        moved.log_in("moved", PASSWORD)
        feed = moved.new_token(m.NewToken(label="cal", kind="feed")).token
        calendar = f"{url}/api/calendar.ics?token={feed}"
        assert ask("GET", calendar).status_code == 200
        root.set_user("moved", m.UserChange(password="another one, and long"))
        with pytest.raises(NotAuthenticatedError, match="unknown token"):
            moved.network()
        assert ask("GET", calendar).status_code == 401
        with pytest.raises(NotAuthenticatedError, match="the name or the password is wrong"):
            moved.log_in("moved", PASSWORD)
        moved.log_in("moved", "another one, and long")
        assert moved.network().name == "square"


def test_a_token_does_not_survive_in_the_cache(
    service: tuple[str, People], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A token is looked up while its user is being disabled, before the commit or across it."""
    people = People(service[1]._database)
    user = people.add("late", PASSWORD, Role.REQUESTER)
    writing = people._database.writing
    for moment in ("before the commit", "after the commit"):
        people.set("late", disabled=False)
        token = people.make_token(user, "api", "t", None)
        look_up = people._look_up

        @contextmanager
        def slow() -> Iterator[Any]:
            with writing() as connection:
                yield connection
                people.who(token)  # noqa: B023 - what others see is not committed yet

        def late(digest: str) -> Any:
            found = look_up(digest)  # noqa: B023
            people.set("late", disabled=True)
            return found

        with monkeypatch.context() as patched:
            if moment == "before the commit":
                patched.setattr(people._database, "writing", slow)
                people.set("late", disabled=True)
            else:
                patched.setattr(people, "_look_up", late)
                people.who(token)
        with pytest.raises(NotAuthenticatedError):
            people.who(token)


def test_one_changes_ones_own_password_and_all_is_audited(tmp_path: Path) -> None:
    quota = Quota(reservations=1, rate=5 * MBPS)
    with served(str(tmp_path / "b.db"), tmp_path, quota=quota) as it, client(it, "root") as root:
        made = root.add_user(m.NewUser(name="amy", password=PASSWORD))
        assert (made.quota.reservations, made.quota.rate) == (1, 5 * MBPS), "the service's own"
        free = m.NewUser(name="bob", password=PASSWORD, quota=m.QuotaMessage())
        assert root.add_user(free).quota == m.QuotaMessage()
        with Client(it[0]) as amy:
            amy.log_in("amy", PASSWORD)
            with pytest.raises(NotAuthenticatedError, match="the password is wrong"):
                amy.change_password("wrong password", "another one, and long")
            with pytest.raises(ServiceError, match="a password has 12"):
                amy.change_password(PASSWORD, "short")
            amy.change_password(PASSWORD, "another one, and long")
            with pytest.raises(NotAuthenticatedError):
                amy.network()
            amy.log_in("amy", "another one, and long")
            with pytest.raises(ServiceError, match="this is for administrator"):
                amy.audit()
        root.set_user("amy", m.UserChange(disabled=True, password="a third one, and long"))
        told = [(each.author, each.action, each.subject) for each in root.audit()]
        assert told == [
            ("root", "add", "amy"),
            ("root", "add", "bob"),
            ("amy", "log-in", "amy"),
            ("", "log-in failed", "amy"),
            ("amy", "password", "amy"),
            ("amy", "log-in", "amy"),
            ("root", "set", "amy"),
        ]
        assert all(each.address == "127.0.0.1" for each in root.audit())
        assert "long" not in "".join(each.detail for each in root.audit())
        assert root.audit(after=root.audit()[4].id)[0].action == "log-in"


def test_who_there_is_is_not_told(tmp_path: Path) -> None:
    with served(str(tmp_path / "b.db"), tmp_path) as (url, _):
        known = ask("POST", f"{url}/api/token", json={"name": "les", "password": "wrong-wrong!"})
        nobody = ask("POST", f"{url}/api/token", json={"name": "none", "password": "wrong-wrong!"})
    assert known.status_code == nobody.status_code == 401
    assert known.json() == nobody.json()


def test_secrets_are_not_on_file(service: tuple[str, People]) -> None:
    _, people = service
    token = people.make_token(people.named("les"), "api", "t", None)
    path = Path(str(people._database.url.database))
    held = b"".join(each.read_bytes() for each in path.parent.glob("b.db*"))
    assert token.encode() not in held
    assert PASSWORD.encode() not in held
    assert b"$argon2id$" in held


def test_tokens_end(service: tuple[str, People]) -> None:
    with client(service, "eve") as eve:
        token = eve._ask("POST", "/api/tokens", m.Token, m.NewToken(label="x")).token
        with Client(service[0], token=token) as other:
            other.network()
            number = eve._ask("GET", "/api/tokens", list[m.TokenMessage])[-1].id
            eve._send("DELETE", f"/api/tokens/{number}")
            with pytest.raises(ServiceError, match="unknown token"):
                other.network()
    _, people = service
    clock = Clock(time.time())
    later = People(people._database, clock=clock)
    token = later.make_token(later.named("eve"), "api", "short", 60)
    later.who(token)
    clock.now += 61
    with pytest.raises(ServiceError, match="expired"):
        later.who(token)
