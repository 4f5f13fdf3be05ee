"""The folder of an ensemble: `ensemble.json`, its page, and the datasets of its runs."""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from perhop.dataset.folder import explained, swap
from perhop.errors import OutputError
from perhop.interruption import uninterruptible
from perhop.stores import ObjectPath, Place

__all__ = ["ENSEMBLE", "PAGE", "replacing", "single_run"]

ENSEMBLE: Final = "ensemble.json"
"""The file that makes a folder one of an ensemble; it has what `perhop run --json` prints."""

PAGE: Final = "ensemble.html"

_RUNS: Final = "runs"


def single_run(folder: Place, seed: int) -> Place:
    """Return the folder of the run with a seed, in the folder of an ensemble."""
    return folder / _RUNS / str(seed)


def _holds_others(folder: ObjectPath) -> bool:
    """Return whether a folder holds something else than the page and the runs of an ensemble."""
    runs = [each.name for each in (folder / _RUNS).iterdir()]
    others = {each.name for each in folder.iterdir()} - {_RUNS, PAGE}
    return bool(others) or not all(name.isdecimal() for name in runs)


@contextmanager
def replacing(folder: Place) -> Iterator[Place]:
    """Yield a folder that takes the place of `folder` at the end.

    If the block raises an error, runs stay in the folder that was yielded, and the next call yields
    it again. An object store cannot rename folders: there it is `folder` itself, which is an
    ensemble's once it has `ensemble.json`.

    Raises:
        OutputError: `folder` holds something else than an ensemble, it cannot be written, or
            another process makes the same.
    """
    if isinstance(folder, ObjectPath):
        with explained(f"cannot write {folder}", "give another folder"):
            if (folder / ENSEMBLE).is_file():
                (folder / ENSEMBLE).remove()
                (folder / _RUNS).remove()
            elif _holds_others(folder):
                raise OutputError(f"{folder} is not empty, and no ensemble; give another folder")
        yield folder
        return
    target = folder.resolve()
    with explained(f"cannot write {target}", "give another folder"):
        own = not target.exists() or (target / ENSEMBLE).is_file()
        if not own and (not target.is_dir() or any(target.iterdir())):
            raise OutputError(f"{target} is not empty, and no ensemble; give another folder")
        fresh = target.with_name(f".{target.name}.unfinished")
        fresh.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(fresh, os.O_RDONLY)
    try:
        with suppress(OSError):  # not every file system has locks
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                message = f"another process is writing {target}; give another folder"
                raise OutputError(message) from None
        try:
            yield fresh
            with uninterruptible(), explained(f"cannot write {target}", "give another folder"):
                swap(fresh, target)
                shutil.rmtree(fresh, ignore_errors=True)
        except BaseException:
            if not any(fresh.glob(f"{_RUNS}/*")):
                shutil.rmtree(fresh, ignore_errors=True)
            raise
    finally:
        os.close(descriptor)
