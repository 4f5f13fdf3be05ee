"""Reproductions under way: what another one continues with if they are interrupted."""

from __future__ import annotations

import json
import time
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from perhop.dataset.folder import explained
from perhop.report.output import write_all

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from perhop.stores import Place
    from perhop.workers import Task

__all__ = ["Unfinished"]

_FILE: Final = "unfinished.json"

_SAVED_EVERY_S: Final = 5.0


class Unfinished:
    """A file beside a reproduction's runs, as long as they are not all made.

    It has the results of an ensemble's members, which are in no dataset.
    """

    def __init__(self, folder: Place, definition: str) -> None:
        """Continue a reproduction of the same definition, or begin one.

        Raises:
            OutputError: The folder cannot be written.
        """
        self.results: dict[int, list[float | None]] = {}
        self._folder, self._definition = folder, definition
        self._began = datetime.now(UTC).isoformat(timespec="seconds")
        self._saved = 0.0
        # Of an earlier perhop, or of something else, there is nothing to continue.
        with suppress(OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            stored = json.loads((folder / _FILE).read_bytes())
            results = {int(number): [*each] for number, each in stored["results"].items()}
            if stored["definition"] == definition:
                self.results, self._began = results, str(stored["began"])
        self._save()

    @contextmanager
    def saving(self) -> Iterator[None]:
        """Save all results if the block is left by an error, and otherwise remove the file."""
        try:
            yield
        except BaseException:
            self._save()
            raise
        with explained(f"cannot write {self._folder}", "give another folder"):
            (self._folder / _FILE).unlink()

    def made(self, task: Task) -> bool:
        """Return whether a run has been made since the reproduction began."""
        found = task.finished()
        return found is not None and found.manifest.started >= self._began

    def add(self, number: int, results: Sequence[float | None]) -> None:
        """Keep the results of a member."""
        self.results[number] = [*results]
        if time.monotonic() > self._saved + _SAVED_EVERY_S:
            self._save()

    def _save(self) -> None:
        stored = {"definition": self._definition, "began": self._began, "results": self.results}
        write_all(self._folder, {_FILE: json.dumps(stored).encode()})
        self._saved = time.monotonic()
