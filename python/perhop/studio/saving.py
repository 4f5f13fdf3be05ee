"""The file with which the studio began, and writing it."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Final
from uuid import uuid4

from perhop.errors import OutputError
from perhop.files import read_file
from perhop.interruption import uninterruptible
from perhop.units import quote

__all__ = ["ScenarioFile"]

_ELSEWHERE: Final = "Download keeps your text beside it"


class ScenarioFile:
    """A scenario's file, which is replaced if nobody else has changed it.

    Args:
        path: The file; a symbolic link stays, and the file that it names is replaced.
        content: Its content when it was read.
    """

    def __init__(self, path: str, content: bytes) -> None:
        self._path = Path(path).resolve()
        self._known = content
        self._lock = threading.Lock()
        self.name = Path(path).name

    def save(self, text: str) -> None:
        """Write a text to the file, whole or not at all, with the file's ends of lines.

        Raises:
            OutputError: The file has changed since it was read or written here, or it cannot be
                written. It then stays as it is.
        """
        ends = "\r\n" if b"\r\n" in self._known else "\n"
        try:
            content = text.replace("\r\n", "\n").replace("\n", ends).encode()
        except UnicodeEncodeError as error:
            raise OutputError(f"the text is not Unicode: {error.reason}") from None
        with self._lock:
            self._check(len(content))
            try:
                _replace(self._path, content)
            except OSError as error:
                reason = error.strerror or str(error)
                message = f"cannot write {quote(self.name)}: {reason}; {_ELSEWHERE}"
                raise OutputError(message) from error
            self._known = content

    def _check(self, size: int) -> None:
        """Raise OutputError unless the file on disk is the one that is known."""
        name = quote(self.name)
        try:
            found = read_file(str(self._path), max(size, len(self._known)))
            self._known.decode()
        except UnicodeDecodeError:
            raise OutputError(f"{name} is not UTF-8; {_ELSEWHERE}") from None
        except ValueError as error:
            raise OutputError(f"{name} {error}; {_ELSEWHERE}") from None
        if found != self._known:
            raise OutputError(f"{name} was changed by another program meanwhile; {_ELSEWHERE}")


def _replace(path: Path, content: bytes) -> None:
    """Replace a file by a new one with its rights, which is on the disk before it has the name."""
    fresh = path.with_name(f".{path.name}.{uuid4().hex[:8]}")
    with uninterruptible():
        try:
            with fresh.open("xb") as file:
                os.fchmod(file.fileno(), path.stat().st_mode & 0o7777)
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            fresh.replace(path)
        finally:
            fresh.unlink(missing_ok=True)
