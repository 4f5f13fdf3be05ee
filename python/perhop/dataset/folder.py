"""Folders of datasets, which are replaced in one step."""

import ctypes
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from glob import escape
from pathlib import Path
from typing import Final
from uuid import uuid4

from perhop.dataset.manifest import MANIFEST, read_manifest
from perhop.errors import OutputError
from perhop.interruption import uninterruptible
from perhop.stores import ObjectPath, Place

__all__ = ["explained", "present", "refuse_foreign", "sibling", "swap", "write_contents"]

_OLD: Final = ".old"

# The kernel's AT_FDCWD, and the flag of renameat2(2).
_HERE: Final = -100
_RENAME_EXCHANGE: Final = 2

# Files that perhop itself puts into a dataset's folder, and may therefore replace.
_OWN_SUFFIXES: Final = {".parquet", ".json", ".html", ".png", ".svg"}


def refuse_foreign(target: Path) -> None:
    """Raise OutputError if `target` holds files that are not perhop's."""
    if not target.exists():
        return
    if not target.is_dir():
        raise OutputError(f"{target} exists and is not a folder; give another folder")
    entries = sorted(target.iterdir())
    if not entries:
        return
    read_manifest(target / MANIFEST)  # of any format
    for entry in entries:
        if entry.suffix not in _OWN_SUFFIXES or not entry.is_file():
            raise OutputError(
                f"{target} also holds {entry.name}, which is not perhop's; give another folder"
            )


def write_contents(folder: Place, contents: Mapping[str, bytes]) -> Place:
    """Write the files of a dataset into a folder, completely or not at all.

    Returns:
        The folder, as an absolute path.

    Raises:
        OutputError: The folder cannot be written, or holds files of others. It is then unchanged.
    """
    if isinstance(folder, ObjectPath):
        with explained(f"cannot write {folder}", "give another folder"):
            folder.write_all(contents, MANIFEST)
        return folder
    target = folder.resolve()
    with uninterruptible(), explained(f"cannot write {target}", "give another folder"):
        refuse_foreign(target)
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh = sibling(target)
        try:
            fresh.mkdir()
            for name, content in contents.items():
                (fresh / name).write_bytes(content)
            swap(fresh, target)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    return target


def swap(fresh: Path, target: Path) -> None:
    """Put the folder `fresh` where `target` is; `read` finds one of them at every instant."""
    if not target.exists():
        fresh.rename(target)
    elif not _exchange(fresh, target):
        old = target.with_name(f".{target.name}.{uuid4().hex[:8]}{_OLD}")
        target.rename(old)
        try:
            fresh.rename(target)
        except BaseException:
            old.rename(target)
            raise
    for old in _set_aside(target):
        shutil.rmtree(old, ignore_errors=True)


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two folders in one step, by renameat2(2); False if the system cannot."""
    renameat2 = getattr(ctypes.CDLL(None), "renameat2", None)
    paths = os.fsencode(one), os.fsencode(other)
    return renameat2 is not None and not renameat2(
        _HERE, paths[0], _HERE, paths[1], _RENAME_EXCHANGE
    )


def _set_aside(target: Path) -> list[Path]:
    """Return the folders to which datasets in `target` were moved to be replaced."""
    return [*target.parent.glob(f".{escape(target.name)}.????????{_OLD}")]


def present(folder: Path) -> Path:
    """Return where the dataset of a folder is, also when its replacement was cut short."""
    return folder if folder.exists() else next(iter(_set_aside(folder)), folder)


def sibling(target: Path) -> Path:
    """Return a new hidden name beside a folder."""
    return target.with_name(f".{target.name}.{uuid4().hex[:8]}")


@contextmanager
def explained(failure: str, advice: str) -> Iterator[None]:
    """Report errors of the system as `OutputError`, with what failed and what to do."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise OutputError(f"{failure}: {reason}; {advice}") from error
