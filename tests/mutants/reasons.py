"""Faults that no test sees, each with the reason.

`equivalents.txt` has those that change no result, which are not tried. `survivors.txt` has those
that were alive when they were last tried: a test could see them, and none does. A paragraph of
either has the file, the line, the line with the fault, and the reason.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

EQUIVALENTS: Final = Path(__file__).with_name("equivalents.txt")
SURVIVORS: Final = Path(__file__).with_name("survivors.txt")
UNKNOWN: Final = "No test yet."

Key = tuple[str, str, str]
"""The key of a fault."""


def reasons(path: Path) -> dict[Key, str]:
    """Return the reasons by the keys of faults.

    Raises:
        ValueError: If a paragraph has other lines.
    """
    found: dict[Key, str] = {}
    for paragraph in path.read_text("utf-8").split("\n\n"):
        lines = [line for line in paragraph.splitlines() if not line.startswith("#")]
        if not lines:
            continue
        file, line, mutated, *reason = lines
        if not (line.startswith("- ") and mutated.startswith("+ ") and reason):
            raise ValueError(f"not a file, a line, the line with the fault and a reason: {lines}")
        found[file, line[2:], mutated[2:]] = " ".join(reason)
    return found


def keep_survivors(alive: set[Key], killed: set[Key]) -> None:
    """Add faults to `survivors.txt`, and take others out."""
    head, _, _ = SURVIVORS.read_text("utf-8").partition("\n\n")
    known = {key: reason for key, reason in reasons(SURVIVORS).items() if key not in killed}
    found = known | {key: known.get(key, UNKNOWN) for key in alive}
    texts = [
        f"{file}\n- {line}\n+ {mutated}\n{reason}"
        for (file, line, mutated), reason in sorted(found.items())
    ]
    SURVIVORS.write_text("\n\n".join([head.rstrip(), *texts]) + "\n", "utf-8")
