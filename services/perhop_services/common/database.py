"""A database, open: one process at a time, with every step of `migrations` taken.

SQLite commits to the disk before it answers (`synchronous=FULL`), and readers see the last commit
while the writer works on the next (write-ahead log). PostgreSQL is spoken to by pg8000.
"""

from __future__ import annotations

import fcntl
import json
import os
import ssl
import time
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.util import CommandError

from perhop.errors import OutputError, PerhopError, UsageError
from perhop_services.common.errors import UnavailableError, first_line
from perhop_services.common.schema import SERVICE

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Mapping, Sequence

_ADVISORY: Final = 0x70657268  # "perh": of all advisory locks of a PostgreSQL database, ours

_HOLDER: Final = sa.text(
    "SELECT pid FROM pg_locks JOIN pg_database ON pg_database.oid = pg_locks.database "
    f"WHERE locktype = 'advisory' AND granted AND classid = 0 AND objid = {_ADVISORY} "
    "AND datname = current_database()"
)
"""Query of the process of PostgreSQL whose session has the lock."""

LOCK_TIMEOUT: Final = 20.0
"""Time limit for the lock of a PostgreSQL database, in seconds. The server takes `SILENCE` to drop
the session of a process that held it and no longer speaks."""

_PAGE: Final = 100_000

_UNREADABLE: Final = (
    sa.exc.SQLAlchemyError,
    OSError,
    CommandError,
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
    AssertionError,
)
"""Errors of code that reads what perhop would not have written."""

_SURROUNDINGS: Final = (
    "disk is full",
    "unable to open",
    "readonly",
    "disk I/O error",
    "is locked",
)
"""Parts of SQLite's errors that are no damage of the file (its `sqlite3ErrStr`)."""


@dataclass(frozen=True)
class Schema:
    """Tables of a service, and how they came to be.

    Attributes:
        about: Subject of the database, in messages.
        make: The command that makes a database, in messages.
        metadata: All tables.
        written: Tables of which every transaction of the writer's writes to one at least.
        versions: Folder of the migrations' steps.
    """

    about: str
    make: str
    metadata: sa.MetaData
    written: tuple[sa.Table, ...]
    versions: Path


class Database:
    """A database with the tables of a schema, held against other processes until it is closed."""

    def __init__(self, url: str, schema: Schema, *, create: bool = True) -> None:
        """Open, lock, check and migrate.

        Args:
            url: A path, ``sqlite:///PATH`` or ``postgresql://USER:PASSWORD@HOST/NAME``, with
                ``?sslmode=verify-full`` and ``sslrootcert=FILE`` for TLS.
            schema: Tables of the service.
            create: True if a missing database is made.

        Raises:
            UsageError: The URL is of another kind, there is no database, or another process has it.
            OutputError: The database cannot be opened, or is damaged.
        """
        self.url = _url(url)
        self.schema = schema
        self.tables = schema.metadata.sorted_tables
        """All tables, those that others refer to first."""
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        self._lock: int | None = None
        self._held: int | None = None
        self._guard: sa.Connection | None = None
        self._session: tuple[Any, ...] | None = None
        """Process and start of the server's session that has the lock, or had it last."""
        try:
            if not create:
                self._find_file()
            self._lock_file()
            with self.loading():
                self.engine = self._engine()
                self._lock_server()
                self._check(create=create)
                self._migrate()
                self._outlast()
                with self.engine.connect() as connection:
                    identity = sa.select(SERVICE.c.value).where(SERVICE.c.key == "identity")
                    self.identity: str = connection.scalar(identity) or ""
                    """Identity of the service in the names of rules."""
        except BaseException:
            self.close()
            raise

    @property
    def name(self) -> str:
        """Its name in messages, without a password."""
        return str(self.url.database) if self.is_sqlite else self.url.render_as_string()

    def close(self) -> None:
        """Let go of it."""
        if self._guard is not None:
            self._guard.close()
        if hasattr(self, "engine"):
            self.engine.dispose()
        # After the engine: a file that is closed takes all of SQLite's locks on it along.
        for held in (self._held, self._lock):
            if held is not None:
                os.close(held)
        self._held = self._lock = None

    @contextmanager
    def loading(self) -> Iterator[None]:
        """Code that reads at the start what is on file, where all that it cannot use is damage.

        Raises:
            OutputError: The database is damaged, or cannot be opened.
        """
        try:
            yield
        except UnavailableError as error:
            raise self._unusable(error.__cause__ or error) from error
        except PerhopError:
            raise
        except _UNREADABLE as error:
            raise self._unusable(error) from error

    def _unusable(self, error: BaseException) -> OutputError:
        """Return the error of a database that does not load."""
        text = first_line(error)
        away = isinstance(error, (sa.exc.SQLAlchemyError, OSError))  # OSError: TLS
        if away and (not self.is_sqlite or any(each in text for each in _SURROUNDINGS)):
            return OutputError(f"{self.name}: {text}")
        return OutputError(
            f"{self.name} is damaged ({type(error).__name__}: {text[:200]}); expected a whole one: "
            "restore a backup"
        )

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """A transaction that only reads.

        Raises:
            UnavailableError: The database does not answer.
        """
        with _answering(), self.engine.connect() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """A transaction that writes; committed at the end, or not at all.

        Raises:
            UnavailableError: The database does not answer.
        """
        with (
            _answering(),
            self.engine.connect().execution_options(writes=True) as connection,
            connection.begin(),
        ):
            yield connection

    @contextmanager
    def deciding(self) -> Iterator[sa.Connection]:
        """A transaction of the one writer's; committed at the end, or not at all.

        On PostgreSQL it is on the connection that holds the lock, so that nothing can be written
        when the lock is lost.
        """
        if self.is_sqlite:
            with (
                self.engine.connect().execution_options(writes=True) as connection,
                connection.begin(),
            ):
                yield connection
            return
        guard = self._guard
        if guard is None or guard.invalidated:
            raise sa.exc.InvalidRequestError("the connection that holds the lock is lost")
        with guard.begin():
            yield guard

    def insert(
        self, connection: sa.Connection, table: sa.Table, rows: Sequence[Mapping[str, Any]]
    ) -> None:
        """Insert many rows, at one go where the server is a round trip away."""
        if not rows:
            return
        if self.is_sqlite:
            connection.execute(table.insert(), list(rows))
            return
        names = ", ".join(f'"{column.name}"' for column in table.columns if column.name in rows[0])
        statement = (
            f"INSERT INTO {table.name} ({names}) SELECT {names} "
            f"FROM json_populate_recordset(NULL::{table.name}, CAST(:rows AS json))"
        )
        connection.execute(sa.text(statement), {"rows": json.dumps(list(rows))})

    def pages(self, select: sa.Select[Any]) -> Iterator[str]:
        """The rows of a query as text, many at a time: a line each, with tabs between the columns.

        The first column is a number above -1, which tells rows apart. Columns are whole numbers, or
        text without tabs and line breaks; what is null is empty. The database makes the text, in
        less time than it takes to read rows value by value.
        """
        key = next(iter(select.selected_columns))
        after = -1
        with self.reading() as connection:
            while True:
                page = select.where(key > after).order_by(key).limit(_PAGE).subquery()
                texts = [sa.func.coalesce(sa.cast(column, sa.Text), "") for column in page.c]
                line: sa.ColumnElement[str] = texts[0]
                for text in texts[1:]:
                    line = line + "\t" + text
                all_ = sa.select(sa.func.max(page.c[0]), sa.func.aggregate_strings(line, "\n"))
                last, lines = connection.execute(all_).one()
                if last is None:
                    return
                after = last
                yield lines

    def _engine(self) -> sa.Engine:
        if not self.is_sqlite:
            from perhop_services.common.postgresql import Connection

            url, tls = _tls(self.url)
            engine = sa.create_engine(url, pool_size=8, pool_pre_ping=True, connect_args=tls)
            sa.event.listen(
                engine, "do_connect", lambda _dialect, _record, _, given: Connection(**given)
            )
            sa.event.listen(engine, "handle_error", _end_read_only_session)
            return engine
        engine = sa.create_engine(
            self.url, connect_args={"check_same_thread": False, "timeout": 30}, pool_size=8
        )

        @sa.event.listens_for(engine, "connect")
        def _prepare(connection: sqlite3.Connection, _record: object) -> None:
            # SQLAlchemy says when a transaction begins, not the driver.
            connection.isolation_level = None
            for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
                connection.execute(f"PRAGMA {pragma}")

        @sa.event.listens_for(engine, "begin")
        def _begin(connection: sa.Connection) -> None:
            # A transaction that will write waits for its turn here, not in the middle.
            writes = connection.get_execution_options().get("writes")
            connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

        return engine

    def _find_file(self) -> None:
        path = self.url.database
        if self.is_sqlite and not (path and Path(path).is_file() and Path(path).stat().st_size):
            raise self._nothing()

    def _nothing(self) -> UsageError:
        return UsageError(
            f"there is no database of {self.schema.about} at {self.name}; make one with "
            f"`{self.schema.make}`"
        )

    def _make_file(self) -> None:
        """Make SQLite's file readable by its owner only; the files beside it inherit that."""
        path = self.url.database
        if not self.is_sqlite or path in (None, "", ":memory:"):
            return
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            for each in Path(path).parent.glob(f"{Path(path).name}*"):
                if each.name.removeprefix(Path(path).name) in ("", "-wal", "-shm", ".lock"):
                    each.chmod(0o600)
        except OSError as error:
            raise OutputError(f"{path}: {error.strerror}") from None

    def _check(self, *, create: bool) -> None:
        """See that it is whole, and one of perhop's."""
        with self.engine.connect() as connection:
            if self.is_sqlite:
                said = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar()
                if said != "ok":
                    raise OutputError(
                        f"{self.name} is damaged ({said}); expected a whole one: restore a backup"
                    )
            tables = sa.inspect(connection).get_table_names()
        if not create and "alembic_version" not in tables:
            raise self._nothing()

    def _lock_file(self) -> None:
        """Hold the file beside SQLite's that says that a process has it."""
        path = self.url.database
        if not self.is_sqlite or path in (None, "", ":memory:"):
            return
        place = Path(f"{path}.lock")
        try:
            self._lock = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise OutputError(f"{place}: {error.strerror}") from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.pread(self._lock, 32, 0).decode("ascii", "replace").strip()
            raise UsageError(
                f"{path} is in use by process {holder or '?'}; one process at a time may have it. "
                "Stop that one, or ask it over HTTP"
            ) from None
        # The file itself, too: another name may lead to it.
        self._make_file()
        self._held = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.flock(self._held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UsageError(
                f"{path} is in use by another perhop under another name; one process at a time may "
                "have it. Stop that one, or ask it over HTTP"
            ) from None
        try:
            os.ftruncate(self._lock, 0)
            os.pwrite(self._lock, f"{os.getpid()}\n".encode(), 0)
        except OSError as error:
            raise OutputError(f"{place}: {error.strerror}") from None

    def _lock_server(self) -> None:
        """Hold the advisory lock of a PostgreSQL database, for as long as the connection lives."""
        if self.is_sqlite:
            return
        from perhop_services.common.postgresql import SILENCE, set_settings

        guard = self.engine.connect()
        until = time.monotonic() + LOCK_TIMEOUT
        try:
            while not guard.execute(sa.select(sa.func.pg_try_advisory_lock(_ADVISORY))).scalar():
                guard.commit()
                if time.monotonic() > until:
                    holder = guard.scalar(_HOLDER) or "?"
                    raise UsageError(
                        f"{self.name} is in use by another perhop; one process at a time may have "
                        "it. Stop that one, or ask it over HTTP; if none runs, end process "
                        f"{holder} of PostgreSQL, which keeps its session"
                    )
                time.sleep(0.1)
            # A session that nobody can reach must not keep the lock: `holds_lock` is its sign of
            # life. PostgreSQL before 14 has no such setting.
            set_settings(guard, idle_session_timeout=f"{SILENCE}s")
            own = sa.text(
                "SELECT pid, backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()"
            )
            self._session = tuple(guard.execute(own).one())
            guard.commit()
        except BaseException:
            guard.invalidate()
            guard.close()
            raise
        self._guard = guard

    def _end_session(self) -> None:
        """End the lost session that held the lock, which the server may take to be alive."""
        if self._session is None:
            return
        same = (
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE (pid, backend_start) = "
        )
        with self.engine.begin() as connection:
            pid, start = self._session
            connection.execute(sa.text(f"{same} (:pid, :start)"), {"pid": pid, "start": start})
        self._session = None

    def _outlast(self) -> None:
        """Wait until PostgreSQL has finished what was asked of it on connections that are lost.

        A commit that a process sent before it was killed may still be under way, and counts once it
        is done. What it wrote to is locked until then.
        """
        if self.is_sqlite:
            return
        for table in self.schema.written:
            # One after the other: two that hold one lock and wait for the other would never end.
            with self.engine.connect() as connection, _patient(connection), connection.begin():
                connection.execute(sa.text("SET LOCAL lock_timeout = '60s'"))
                connection.execute(sa.text(f"LOCK TABLE {table.name} IN SHARE MODE"))

    def holds_lock(self) -> bool:
        """Return whether the lock is held; a connection that was lost has lost its lock.

        PostgreSQL drops the session with the lock when this is not called for `SILENCE` seconds.
        """
        if self.is_sqlite:
            return True
        if self._guard is None or self._guard.invalidated:
            return False
        try:
            self._guard.execute(sa.text("SELECT 1"))
            self._guard.commit()
        except sa.exc.SQLAlchemyError:
            return False
        return True

    def lock_again(self) -> None:
        """Take the lock again after the connection was lost; it may be tried again and again.

        Raises:
            UsageError: Another process was faster.
            sqlalchemy.exc.SQLAlchemyError: The server does not answer.
        """
        if self.is_sqlite:
            return
        guard, self._guard = self._guard, None
        if guard is not None:
            with suppress(sa.exc.SQLAlchemyError):
                guard.invalidate()
            with suppress(sa.exc.SQLAlchemyError):
                guard.close()
        self._end_session()
        self._lock_server()
        self._outlast()

    def _migrate(self) -> None:
        config = Config()
        config.set_main_option("script_location", "perhop_services:common/migrations")
        config.set_main_option("path_separator", "newline")
        config.set_main_option("version_locations", str(self.schema.versions).replace("%", "%%"))
        config.attributes["metadata"] = self.schema.metadata
        with self.engine.connect() as connection:
            config.attributes["connection"] = connection
            try:
                with _patient(connection):
                    command.upgrade(config, "head")
            except Exception as error:
                if "Can't locate revision" in str(error):
                    raise UsageError(
                        f"{self.name} was made by a newer perhop; expected one of this version"
                    ) from None
                raise
            connection.commit()


def _patient(connection: sa.Connection) -> AbstractContextManager[None]:
    """Let the statements of a connection to PostgreSQL take their time."""
    if connection.dialect.name == "sqlite":
        return nullcontext()
    from perhop_services.common.postgresql import patient

    return patient(connection)


@contextmanager
def _answering() -> Iterator[None]:
    """Map the errors of a database that does not answer; others are bugs, or the caller's."""
    try:
        yield
    except (sa.exc.IntegrityError, sa.exc.DataError):
        raise
    except (sa.exc.DBAPIError, sa.exc.TimeoutError, sa.exc.ResourceClosedError, OSError) as error:
        cause = getattr(error, "orig", None)
        what = "is read-only" if cause and _is_read_only(cause) else "does not answer"
        raise UnavailableError(f"the database {what}; try again") from error


def _is_read_only(error: BaseException) -> bool:
    """Return whether PostgreSQL refused to write in a read-only transaction."""
    said = error.args[0] if error.args else None
    return isinstance(said, dict) and said.get("C") == "25006"


def _end_read_only_session(context: sa.engine.ExceptionContext) -> None:
    """Take a session for lost that may not write: it keeps this setting from its beginning on."""
    if _is_read_only(context.original_exception):
        context.is_disconnect = True


def _url(text: str) -> sa.URL:
    if "://" not in text:
        return sa.URL.create("sqlite", database=text)
    try:
        url = sa.make_url(text)
    except (sa.exc.ArgumentError, ValueError):
        # The text is not repeated: it may have a password.
        raise UsageError(
            "the URL of the database is malformed; expected postgresql://USER@HOST/NAME, or a path"
        ) from None
    match url.get_backend_name():
        case "sqlite":
            if url.query:
                # With `uri=true` the name is not that of the file that is locked.
                raise UsageError(f"{text}: expected the path of an SQLite file without options")
            return url
        case "postgresql":
            if "password" in url.query:
                raise UsageError(
                    "expected the password in PGPASSWORD, or as postgresql://USER:PASSWORD@HOST, "
                    "not behind the `?` of a URL"
                )
            password = url.password or os.environ.get("PGPASSWORD")
            return url.set(drivername="postgresql+pg8000", password=password)
        case other:
            raise UsageError(
                f"{other} is not a database of perhop's; expected sqlite or postgresql"
            )


def _tls(url: sa.URL) -> tuple[sa.URL, dict[str, Any]]:
    """Return the URL without libpq's `sslmode` and `sslrootcert`, and those for pg8000.

    Raises:
        UsageError: There is no such mode, or no such file.
    """
    mode, root = url.query.get("sslmode", "disable"), url.query.get("sslrootcert")
    rest = url.difference_update_query(["sslmode", "sslrootcert"])
    if mode == "disable":
        return rest, {}
    if mode not in ("require", "verify-ca", "verify-full"):
        raise UsageError(f"sslmode={mode}: expected disable, require, verify-ca or verify-full")
    try:
        context = ssl.create_default_context(cafile=None if root is None else str(root))
    except OSError as error:
        raise UsageError(f"sslrootcert={root}: {error.strerror or error}") from None
    context.check_hostname = mode == "verify-full"
    if mode == "require" and root is None:
        context.verify_mode = ssl.CERT_NONE
    return rest, {"ssl_context": context}
