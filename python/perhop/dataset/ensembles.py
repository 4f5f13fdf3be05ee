"""The folder of an ensemble: `ensemble.json`, its page, and the datasets of its runs."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from perhop.dataset.folder import explained, sibling, swap
from perhop.errors import OutputError
from perhop.interruption import uninterruptible

__all__ = ["ENSEMBLE", "replacing", "single_run"]

ENSEMBLE: Final = "ensemble.json"
"""The file that makes a folder one of an ensemble; it has what `perhop run --json` prints."""


def single_run(folder: Path, seed: int) -> Path:
    """Return the folder of the run with a seed, in the folder of an ensemble."""
    return folder / "runs" / str(seed)


@contextmanager
def replacing(folder: Path) -> Iterator[Path]:
    """Yield a folder that takes the place of `folder` at the end, or is removed after an error.

    Raises:
        OutputError: `folder` holds something else than an ensemble, or it cannot be written.
    """
    target = folder.resolve()
    with explained(f"cannot write {target}", "give another folder"):
        own = not target.exists() or (target / ENSEMBLE).is_file()
        if not own and (not target.is_dir() or any(target.iterdir())):
            raise OutputError(f"{target} is not empty, and no ensemble; give another folder")
        fresh = sibling(target)
        fresh.mkdir(parents=True)
    try:
        yield fresh
        with uninterruptible(), explained(f"cannot write {target}", "give another folder"):
            swap(fresh, target)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
