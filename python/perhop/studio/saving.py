"""The file with which the studio began, and writing it."""

from __future__ import annotations

import hashlib
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

_MOST_BYTES: Final = 2**22
"""The largest file that is read; the text of a page may be as long."""


class ScenarioFile:
    """A scenario's file, which is replaced if it is still the one that a page knows.

    Args:
        path: The file; a symbolic link stays, and the file that it names is replaced.
    """

    def __init__(self, path: str) -> None:
        self._path = Path(path).resolve()
        self._lock = threading.Lock()
        self.name = Path(path).name

    def read(self) -> tuple[str, str]:
        """Return the text of the file, and its version, which `save` wants to be told.

        Raises:
            OutputError: It cannot be read.
        """
        content = self._content()
        return content.decode("utf-8", "replace"), _version(content)

    def save(self, text: str, version: str) -> str:
        """Write a text to the file, whole or not at all, with the file's ends of lines.

        Returns:
            The new version of the file.

        Raises:
            OutputError: The file is of another version, or it cannot be written. It then stays as
                it is.
        """
        name = quote(self.name)
        with self._lock:
            known = self._content()
            if _version(known) != version:
                raise OutputError(f"{name} was changed elsewhere meanwhile; {_ELSEWHERE}")
            try:
                known.decode()
            except UnicodeDecodeError:
                raise OutputError(f"{name} is not UTF-8; {_ELSEWHERE}") from None
            ends = "\r\n" if b"\r\n" in known else "\n"
            try:
                content = text.replace("\r\n", "\n").replace("\n", ends).encode()
            except UnicodeEncodeError as error:
                raise OutputError(f"the text is not Unicode: {error.reason}") from None
            try:
                _replace(self._path, content)
            except OSError as error:
                reason = error.strerror or str(error)
                message = f"cannot write {name}: {reason}; {_ELSEWHERE}"
                raise OutputError(message) from error
        return _version(content)

    def _content(self) -> bytes:
        """Return what the file has now."""
        try:
            return read_file(str(self._path), _MOST_BYTES)
        except ValueError as error:
            raise OutputError(f"{quote(self.name)} {error}; {_ELSEWHERE}") from None


def _version(content: bytes) -> str:
    """Return what tells a content from others."""
    return hashlib.sha256(content).hexdigest()


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
