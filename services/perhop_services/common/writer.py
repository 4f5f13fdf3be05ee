"""The one writer: decisions are taken one after the other, and committed in groups.

A caller that needs a decision hands over a function and gets a future. The writer takes all that
wait, lets each decide in turn, writes what they decided in one transaction, and only then answers.
A disk that takes milliseconds for a commit is thus asked once for many.
"""

from __future__ import annotations

import queue
from collections import defaultdict
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final, TypeVar

import sqlalchemy as sa

from perhop.errors import UsageError
from perhop_services.common.errors import ServiceError, UnavailableError, first_line
from perhop_services.common.logs import failed
from perhop_services.common.supervised import Supervised

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from perhop_services.common.database import Database

T = TypeVar("T")

MOST: Final = 256
"""Greatest number of decisions in one transaction."""


_BEAT: Final = 1.0
"""Seconds for which a step waits for something to decide."""


class Batch:
    """The writes of some decisions: one transaction, with rows collected until the next read."""

    def __init__(self, database: Database, connection: sa.Connection) -> None:
        self._database = database
        self.connection = connection
        self._rows: dict[sa.Table, list[Mapping[str, Any]]] = defaultdict(list)

    def insert(self, table: sa.Table, row: Mapping[str, Any]) -> None:
        """Add a row, with every column."""
        self._rows[table].append(row)

    def execute(self, statement: sa.Executable) -> sa.CursorResult[Any]:
        """Run a statement after everything that was added before."""
        self.flush()
        return self.connection.execute(statement)

    def read(self, select: sa.Select[Any]) -> sa.CursorResult[Any]:
        """Read what was committed, and what was flushed; not the rows that still wait."""
        return self.connection.execute(select)

    def flush(self) -> None:
        """Write the rows that wait, in the order in which tables refer to each other."""
        for table in self._database.tables:
            if table in self._rows:
                self._database.insert(self.connection, table, self._rows.pop(table))


class Writer:
    """A thread that decides and commits."""

    def __init__(self, database: Database, reload: Callable[[], None]) -> None:
        """Start.

        Args:
            database: Where to.
            reload: Brings what is in memory in line with the database. It is called before the
                next decision when a commit has failed, because it is then unknown what was written.
        """
        self.database = database
        self._reload = reload
        self._stale = False
        self._waiting: queue.SimpleQueue[tuple[Callable[[Batch], Any], Future[Any]] | None]
        self._waiting = queue.SimpleQueue()
        self._closed = False
        self.read_only = ""
        """Reason why nothing may be changed; "" if anything may."""
        self.thread = Supervised("perhop-writer", self._step, 0.0, self._finish)

    def check(self) -> None:
        """Check that something may be changed.

        Raises:
            UnavailableError: Nothing may, for the reason `read_only`.
        """
        if self.read_only:
            raise UnavailableError(self.read_only)

    def submit(self, decide: Callable[[Batch], T], *, reads: bool = False) -> Future[T]:
        """Have something decided; the future has the result once it is on the disk.

        What `decide` raises is the future's. It must raise before it changes anything. With `reads`
        it changes nothing, and is also decided while the writer is `read_only`.
        """
        future: Future[T] = Future()
        if self.read_only and not reads:
            future.set_exception(UnavailableError(self.read_only))
        elif self._closed:
            future.set_exception(UnavailableError("the service is ending"))
        else:
            self._waiting.put((decide, future))
        return future

    def close(self) -> None:
        """Finish what waits, and end."""
        self._closed = True
        self._waiting.put(None)
        self.thread.close()

    def _step(self) -> None:
        try:
            taken = [self._waiting.get(timeout=_BEAT)]
        except queue.Empty:
            # The sign of life of the session with the lock; what was lost is replaced.
            if self._stale or not self.database.holds_lock():
                self._stale = True
                self._renew()
            return
        while len(taken) < MOST and not self._waiting.empty():
            taken.append(self._waiting.get())
        work = [each for each in taken if each is not None]
        if work:
            self._commit([each for each in work if each[1].set_running_or_notify_cancel()])

    def _finish(self) -> None:
        while not self._waiting.empty():
            self._step()

    def _commit(self, work: list[tuple[Callable[[Batch], Any], Future[Any]]]) -> None:
        answers: list[tuple[Future[Any], Any, BaseException | None]] = []
        try:
            if self._stale:
                self._renew()
            with self.database.deciding() as connection:
                batch = Batch(self.database, connection)
                for decide, future in work:
                    try:
                        answers.append((future, decide(batch), None))
                    except ServiceError as error:
                        answers.append((future, None, error))
                batch.flush()
        except BaseException as error:
            # Nothing of it counts, and what is in memory may be ahead of the database.
            self._stale = True
            failure = _failure(error)
            failed("decisions are not on file", error, decisions=len(work))
            for number, (_, future) in enumerate(work):
                # Where a decision broke, those beside it may be asked again.
                beside = number != len(answers) and not isinstance(failure, UnavailableError)
                other = UnavailableError("the transaction failed; try again")
                future.set_exception(other if beside else failure)
            return
        for future, answer, refusal in answers:
            if refusal is None:
                future.set_result(answer)
            else:
                future.set_exception(refusal)

    def _renew(self) -> None:
        """Bring lock and memory in line with the database after a failure."""
        if not self.database.holds_lock():
            try:
                self.database.lock_again()
            except UsageError as error:
                raise UnavailableError(str(error)) from None
        self._reload()
        self._stale = False


def _failure(error: BaseException) -> BaseException:
    if isinstance(error, (sa.exc.SQLAlchemyError, OSError)):
        return UnavailableError(f"the database rejected it: {first_line(error)}")
    return error
