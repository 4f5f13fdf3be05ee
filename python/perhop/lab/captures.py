"""Captures of a lab, which a slow or full file cannot block."""

from __future__ import annotations

import os
import select
import stat
import threading
import time
from collections import deque
from contextlib import suppress
from errno import EPIPE
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from perhop.engines.captures import Capture

__all__ = ["MOST", "Writer", "captured_as", "open_for_capture"]

MOST: Final = 32
"""Captures that may go on at once."""

_WAITING: Final = 2**26
"""Bytes that may wait for a file; more are left out."""


_LOOK_EVERY_S: Final = 0.5
"""Time without packets after which the reader of a pipe is looked for."""


def captured_as(file: str | os.PathLike[str]) -> str:
    """Return the name of a capture's file: its absolute path."""
    return "-" if os.fspath(file) == "-" else str(Path(file).absolute())


def open_for_capture(file: str | os.PathLike[str]) -> tuple[int, bool]:
    """Open a file to capture to, as it is; "-" is standard output. A pipe waits for its reader.

    Returns:
        The file descriptor, and whether the file is new.

    Raises:
        OSError: It cannot be opened.
        OutputError: It has something else than a capture in it.
    """
    # This import starts threads, with which a process cannot enter the hosts of a lab.
    from perhop.engines.captures import refuse_foreign

    if os.fspath(file) == "-":
        return os.dup(1), False
    path = Path(file)
    refuse_foreign(path)
    flags = os.O_WRONLY | os.O_CLOEXEC
    with suppress(FileExistsError):
        return os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o666), True
    return os.open(path, flags), False


def _has_no_reader(file: int) -> bool:
    """Return whether a file is a pipe that nobody reads."""
    poll = select.poll()
    poll.register(file, 0)
    return any(event & select.POLLERR for _, event in poll.poll(0))


class Writer:
    """Writes a capture to a file, in a thread of its own.

    A file that cannot be written to, because its disk is full or its pipe has no reader, ends the
    capture. A pipe whose reader is too slow loses packets, which are counted in bytes.
    """

    def __init__(self, capture: Capture, file: int) -> None:
        """Begin to write to a file descriptor, which is closed at the end."""
        self._capture = capture
        self._file = file
        self._since = time.time()
        self._ended: float | None = None
        self._reason = ""
        self._written = 0
        self._left_out = 0
        self._blocks: deque[bytes] = deque()
        self._waiting = 0
        self._last = False
        self._changed = threading.Condition()
        with suppress(OSError):
            if stat.S_ISREG(os.fstat(file).st_mode):
                os.ftruncate(file, 0)
        self._thread = threading.Thread(target=self._write_all, name="capture", daemon=True)
        self._thread.start()

    @property
    def ended(self) -> bool:
        """True if the file is closed."""
        return self._ended is not None

    def status(self) -> dict[str, Any]:
        """The state of the capture."""
        return {
            "file": str(self._capture.path),
            "links": list(self._capture.interfaces),
            "since": self._since,
            "ended": self._ended,
            "reason": self._reason,
            "bytes": self._written,
            "left_out_bytes": self._left_out,
        }

    def write(self, blocks: bytes) -> int:
        """Queue whole blocks without blocking; ignore them if the capture has ended."""
        with self._changed:
            if self.ended:
                return len(blocks)
            if self._blocks and self._waiting + len(blocks) > _WAITING:
                self._left_out += len(blocks)
            else:
                self._blocks.append(blocks)
                self._waiting += len(blocks)
                self._changed.notify()
        return len(blocks)

    def close(self, seconds: float | None = None) -> None:
        """Close the file once everything is written; wait for that, if `seconds` are given."""
        with self._changed:
            self._last = True
            self._changed.notify()
        if seconds is not None:
            self._thread.join(seconds)

    def _write_all(self) -> None:
        reason = "stopped"
        try:
            while (blocks := self._next()) is not None:
                self._write_blocks(blocks)
        except OSError as error:
            reason = error.strerror or str(error)
            with suppress(OSError):
                os.ftruncate(self._file, self._written)  # blocks that are not whole
        with self._changed:
            self._ended, self._reason = time.time(), reason
            self._blocks.clear()
        with suppress(OSError):
            os.close(self._file)

    def _next(self) -> bytes | None:
        """Return the next blocks; None after the last.

        Raises:
            BrokenPipeError: The file is a pipe whose reader has ended.
        """
        with self._changed:
            while not self._blocks and not self._last:
                if not self._changed.wait(_LOOK_EVERY_S) and _has_no_reader(self._file):
                    raise BrokenPipeError(EPIPE, os.strerror(EPIPE))
            if not self._blocks:
                return None
            blocks = self._blocks.popleft()
            self._waiting -= len(blocks)
            return blocks

    def _write_blocks(self, blocks: bytes) -> None:
        rest = memoryview(blocks)
        while rest:
            try:
                rest = rest[os.write(self._file, rest) :]
            except BlockingIOError:
                select.select([], [self._file], [])
        self._written += len(blocks)
