"""Faults that change no result.

`equivalents.txt` has a paragraph for each: the file, the line, the line with the fault, and why no
test can see it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

TEXT: Final = Path(__file__).with_name("equivalents.txt")


def equivalents() -> dict[tuple[str, str, str], str]:
    """Return the reasons by the keys of faults.

    Raises:
        ValueError: If a paragraph has other lines.
    """
    reasons: dict[tuple[str, str, str], str] = {}
    for paragraph in TEXT.read_text("utf-8").split("\n\n"):
        lines = [line for line in paragraph.splitlines() if not line.startswith("#")]
        if not lines:
            continue
        path, line, mutated, *reason = lines
        if not (line.startswith("- ") and mutated.startswith("+ ") and reason):
            raise ValueError(f"not a file, a line, the line with the fault and a reason: {lines}")
        reasons[path, line[2:], mutated[2:]] = " ".join(reason)
    return reasons
