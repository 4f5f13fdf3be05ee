"""Structured logs: each line has a time, a level, a thread, a message, and fields by name.

As text a line is ``2026-11-22T12:00:00.000+00:00 ERROR perhop-writer: message key=value``, followed
by the traceback of an error. As JSON it is one object with the keys ``at``, ``level``, ``thread``,
``message``, ``error`` (the traceback) and those of the fields.
"""

from __future__ import annotations

import json
import logging
import math
import re
import threading
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from perhop.printable import printable, printable_lines
from perhop_services.common.errors import ServiceError, first_line, is_outage

if TYPE_CHECKING:
    from collections.abc import Mapping

LOG: Final = logging.getLogger("perhop_services")
"""The logger of all services."""


def fields(**values: object) -> Mapping[str, object]:
    """Return the argument `extra` of a logging call that has these fields."""
    return {"fields": values}


REPEATED: Final = 60.0
"""Seconds in which the same outage is logged once."""

_KINDS: Final = 1000
"""Number of outages that are told apart; more are forgotten, and logged again."""


class _Outages:
    """Outages that were logged, with the time, and how many followed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._told: dict[tuple[str, str], tuple[float, int]] = {}

    def count(self, kind: tuple[str, str]) -> int | None:
        """Return how many of this kind were not logged since the last; None if this is not."""
        now = time.monotonic()
        with self._lock:
            at, unsaid = self._told.get(kind, (-math.inf, 0))
            if now - at < REPEATED:
                self._told[kind] = (at, unsaid + 1)
                return None
            if len(self._told) >= _KINDS:
                self._told.clear()
            self._told[kind] = (now, 0)
            return unsaid


_OUTAGES: Final = _Outages()


def failed(message: str, error: BaseException, **about: object) -> bool:
    """Log a failure: a bug with its traceback, an outage as one line at most every `REPEATED` s.

    Returns whether a line was written.

    Args:
        message: What failed.
        error: The error; `is_outage` tells whether it is an outage.
        about: Fields of the line.
    """
    if not is_outage(error):
        LOG.error("%s: %s", message, error, exc_info=error, extra=fields(**about))
        return True
    cause = error.__cause__ if error.__cause__ is not None else error
    said = [type(cause).__name__, *filter(None, [first_line(cause)])]
    if isinstance(error, ServiceError):
        said = [str(error), *(said if cause is not error else ())]
    text = ": ".join(said)
    unsaid = _OUTAGES.count((message, re.sub(r"\d+", "", text)))
    if unsaid is None:
        return False
    if unsaid:
        about = {**about, "repeated": unsaid}
    level = logging.WARNING if isinstance(error, ServiceError) else logging.ERROR
    LOG.log(level, "%s: %s", message, text, extra=fields(**about))
    return True


class Lines(logging.Formatter):
    """Formats records as lines of text, or of JSON."""

    def __init__(self, *, as_json: bool) -> None:
        super().__init__()
        self._as_json = as_json

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, with the traceback of its error if there is one."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        own: Mapping[str, object] = getattr(record, "fields", {})
        error = self.formatException(record.exc_info) if record.exc_info else ""
        if self._as_json:
            line: dict[str, object] = {
                "at": at,
                "level": record.levelname,
                "thread": record.threadName,
            }
            line |= {"message": record.getMessage(), **own}
            return json.dumps(line | ({"error": error} if error else {}), default=str)
        words = [f"{at} {record.levelname} {record.threadName}: {printable(record.getMessage())}"]
        words += [f"{key}={_value(each)}" for key, each in own.items()]
        return " ".join(words) + (f"\n{printable_lines(error)}" if error else "")


def configure(*, as_json: bool) -> None:
    """Send all logs of this process to standard error, errors that end a thread among them."""
    handler = logging.StreamHandler()
    handler.setFormatter(Lines(as_json=as_json))
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    LOG.setLevel(logging.INFO)
    threading.excepthook = _ended


def _ended(ended: threading.ExceptHookArgs) -> None:
    LOG.critical("the thread ended", exc_info=ended.exc_value)


def _value(given: Any) -> str:
    """Return a value as text that is one word, quoted if need be."""
    text = str(given)
    return text if text.isprintable() and text and not set(text) & set(' "=') else json.dumps(text)
