"""The database: one process uses it, only its owner can read it, and it is whole."""

import errno
import os
import random
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from conftest import SLOW
from perhop.errors import OutputError, PerhopError, UsageError
from perhop_services.common.errors import UnavailableError
from perhop_services.common.schema import METADATA
from perhop_services.reservations.schema import open_database
from postgres import server
from reserving import Clock, port, service, terms, user


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    with server() as url:
        yield url


@pytest.fixture
def clock() -> Clock:
    return Clock()


def schema_is_as_declared(url: str) -> None:
    database = open_database(url)
    try:
        with database.engine.connect() as connection:
            context = MigrationContext.configure(connection)
            assert compare_metadata(context, METADATA) == []
    finally:
        database.close()


@SLOW
def test_migrations_make_what_is_declared(tmp_path: Path, postgres: str) -> None:
    schema_is_as_declared(str(tmp_path / "b.db"))
    schema_is_as_declared(postgres)


def test_one_process_has_a_database(tmp_path: Path, clock: Clock) -> None:
    with (
        service(tmp_path / "b.db", clock),
        pytest.raises(UsageError, match=f"in use by process {os.getpid()}; one process at a time"),
    ):
        open_database(str(tmp_path / "b.db"))


@SLOW
@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("mysql://host/db", "mysql is not a database of perhop's"),
        ("postgresql://nobody@127.0.0.1:1/none", "127.0.0.1"),
        ("/nowhere/at/all.db", "No such file"),
        ("sqlite:///file:b.db?uri=true", "without options"),
        ("postgresql://u:secret@host:port/n", "malformed"),
        ("postgresql://u@127.0.0.1:1/n?password=secret", "PGPASSWORD"),
    ],
)
def test_a_database_that_cannot_be_had_is_explained(url: str, message: str) -> None:
    with pytest.raises(PerhopError, match=message) as told:
        open_database(url)
    assert "secret" not in str(told.value)


@SLOW
def test_a_database_is_not_made_by_serving(tmp_path: Path) -> None:
    for url in (str(tmp_path / "typo.db"), str(tmp_path)):
        with pytest.raises(UsageError, match="there is no database of reservations at"):
            open_database(url, create=False)
    assert not list(tmp_path.iterdir())
    with server() as url, pytest.raises(UsageError, match="make one with"):
        open_database(url, create=False)
    (tmp_path / "other.db").write_bytes(b"")
    with pytest.raises(UsageError, match="make one with"):
        open_database(str(tmp_path / "other.db"), create=False)


def test_nobody_else_may_read_a_database(tmp_path: Path, clock: Clock) -> None:
    old = os.umask(0)
    try:
        with service(tmp_path / "b.db", clock) as running:
            running.book(user(running), terms()).result()
            modes = {each.name: each.stat().st_mode & 0o777 for each in tmp_path.iterdir()}
            assert modes == dict.fromkeys(("b.db", "b.db-wal", "b.db-shm", "b.db.lock"), 0o600)
        (tmp_path / "b.db").chmod(0o644)
        open_database(str(tmp_path / "b.db")).close()
        assert (tmp_path / "b.db").stat().st_mode & 0o777 == 0o600
    finally:
        os.umask(old)


def test_a_damaged_database_is_refused(tmp_path: Path, clock: Clock) -> None:
    """The damage is in pages of the log, which nothing reads at the start but the check."""
    with service(tmp_path / "b.db", clock) as running:
        who = user(running)
        own = running.book(who, terms(selector=port(1))).result()
        for number in range(1, 60):
            running.change(who, own.id, {"rate": number * 1000}, reason="why " * 100).result()
    data = bytearray((tmp_path / "b.db").read_bytes())
    pages = [n for n in range(0, len(data), 4096) if b"why " * 90 in data[n : n + 4096]]
    assert len(pages) > 5
    for page in pages[1:-2]:
        data[page : page + 100] = bytes(100)
    (tmp_path / "b.db").write_bytes(data)
    with pytest.raises(OutputError, match=r"(?s)b\.db is damaged .*: restore a backup"):
        open_database(str(tmp_path / "b.db"))


def test_a_backup_of_a_running_service_is_whole(tmp_path: Path, clock: Clock) -> None:
    """As the documentation has it: SQLite's own backup, while the service books."""
    copy = tmp_path / "copy.db"
    with service(tmp_path / "b.db", clock) as running:
        own = running.book(user(running), terms(selector=port(1))).result()
        source, target = sqlite3.connect(tmp_path / "b.db"), sqlite3.connect(copy)
        source.backup(target)
        for each in (source, target):
            each.close()
        running.cancel(user(running), own.id, "later").result()
    with service(copy, clock) as restored:
        assert restored.register.reservation(own.id) == own
        assert restored.admission.bookings == 1


def test_a_full_disk_is_named_when_a_database_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has no block for the file that says which process has the database."""

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(OutputError, match=r"b\.db\.lock: No space left on device"):
        open_database(str(tmp_path / "b.db"))


def test_a_newer_database_is_left_alone(tmp_path: Path) -> None:
    database = open_database(str(tmp_path / "b.db"))
    with database.writing() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    database.close()
    with pytest.raises(UsageError, match="made by a newer perhop"):
        open_database(str(tmp_path / "b.db"))


def _statements(*statements: str) -> Callable[[Path, bytes], None]:
    def damage(path: Path, _whole: bytes) -> None:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA foreign_keys = off")
            for statement in statements:
                connection.execute(statement)
            connection.commit()

    return damage


DAMAGES: dict[str, Callable[[Path, bytes], None]] = {
    "no version": _statements("DELETE FROM alembic_version"),
    "two versions": _statements("INSERT INTO alembic_version VALUES ('0001')"),
    "log gone": _statements("DROP TABLE log"),
    "users gone": _statements("DROP TABLE users"),
    "service gone": _statements("DROP TABLE service"),
    "a column gone": _statements("ALTER TABLE reservations RENAME COLUMN rate TO other"),
    "links no JSON": _statements("UPDATE paths SET links = '{'"),
    "links no text": _statements("UPDATE paths SET links = CAST(x'ff' AS text)"),
    "path unknown": _statements("UPDATE reservations SET path_id = 999"),
    "about no JSON": _statements("UPDATE reservations SET about = '{'"),
    "about bytes": _statements("UPDATE reservations SET about = x'ff00'"),
    "state unknown": _statements("UPDATE reservations SET state = 'odd'"),
    "rate text": _statements("UPDATE reservations SET rate = 'x'"),
    "rate huge": _statements("UPDATE reservations SET rate = 9223372036854775807"),
    "end first": _statements("UPDATE reservations SET end_at = start_at - 5"),
    "pending a list": _statements("UPDATE reservations SET pending = '[1]'"),
    "pending no JSON": _statements("UPDATE reservations SET pending = '{'"),
    "another file": lambda path, _: path.write_bytes(b"x" * 9000) and None,
    "cut": lambda path, whole: path.write_bytes(whole[: len(whole) // 2 + 100]) and None,
    "header": lambda path, whole: path.write_bytes(whole[:16] + bytes(84) + whole[100:]) and None,
}


def test_every_damage_of_a_file_is_named_as_one(tmp_path: Path, clock: Clock) -> None:
    """By statements, and by bits of pages: it opens whole, or is said to be damaged."""
    with service(tmp_path / "b.db", clock) as running:
        who = user(running)
        for number in range(1, 20):
            own = running.book(who, terms(selector=port(number)), key=str(number)).result()
            running.change(who, own.id, {"rate": number * 500}, reason="x" * 300).result()
    whole = (tmp_path / "b.db").read_bytes()

    def told(number: int, damage: Callable[[Path, bytes], None]) -> str:
        path = tmp_path / str(number) / "b.db"
        path.parent.mkdir()
        path.write_bytes(whole)
        damage(path, whole)
        try:
            with service(path, clock) as running:
                running.register.listed()
        except (OutputError, UnavailableError) as error:
            assert error.exit_code == 2
            return str(error)
        return ""

    for number, (name, damage) in enumerate(DAMAGES.items()):
        assert "b.db is damaged (" in told(number, damage), name
        assert "restore a backup" in told(1000 + number, damage), name
    rng = random.Random(30)

    def flip(path: Path, whole: bytes) -> None:
        changed = bytearray(whole)
        page = rng.randrange(len(whole) // 4096) * 4096
        for _ in range(rng.randrange(1, 40)):
            changed[page + rng.randrange(4096)] ^= 1 << rng.randrange(8)
        path.write_bytes(changed)

    for number in range(2000, 2060):
        said = told(number, flip)
        assert not said or "restore a backup" in said
