"""Files that are written whole or not at all."""

from pathlib import Path
from uuid import uuid4

from perhop.interruption import uninterruptible


def replace(path: Path, content: bytes) -> None:
    """Write a file, or replace it, whole or not at all.

    Raises:
        OSError: If it cannot be written.
    """
    fresh = path.with_name(f".{path.name}.{uuid4().hex[:8]}")
    with uninterruptible():
        try:
            fresh.write_bytes(content)
            fresh.replace(path)
        finally:
            fresh.unlink(missing_ok=True)
