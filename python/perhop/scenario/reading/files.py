"""Files that a scenario refers to."""

from __future__ import annotations

from pathlib import Path

from perhop.units import quote


def beside(name: str, folder: Path) -> Path:
    """Return the path of a file that a scenario names: in its folder, or below.

    Raises:
        ValueError: The name leads elsewhere.
    """
    if Path(name).is_absolute() or ".." in Path(name).parts:
        raise ValueError(
            f"{quote(name)} is outside the scenario's folder; expected a file in it or below"
        )
    return folder / name
