"""Reading of untrusted files."""

from __future__ import annotations

import os
import stat

from perhop.hints import near_file


def read_file(path: str, limit: int) -> bytes:
    """Return the bytes of a regular file of limited size, without blocking.

    Raises:
        ValueError: The reason, as a continuation of a sentence that begins with the file's name.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError as error:
        hint = near_file(path) if isinstance(error, FileNotFoundError) else ""
        said = f"cannot be read: {error.strerror or error}"
        raise ValueError("; ".join(filter(None, [said, hint]))) from None
    except ValueError:
        raise ValueError("cannot be read: its name has a null character") from None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise ValueError(f"is {_kind(status.st_mode)}; expected a file")
        if status.st_size > limit:
            raise too_large(f"{status.st_size:,} bytes", limit)
        with open(descriptor, "rb", closefd=False) as file:
            content = file.read(limit + 1)
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror or error}") from None
    finally:
        os.close(descriptor)
    if len(content) > limit:
        raise too_large(f"more than {limit:,} bytes", limit)
    return content


def too_large(size: str, limit: int) -> ValueError:
    """Return the error for a file of this size."""
    return ValueError(f"is too large: {size}; expected at most {limit:,} bytes")


def _kind(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "a folder"
    return "a pipe" if stat.S_ISFIFO(mode) else "a device or socket"
