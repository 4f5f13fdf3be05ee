"""Scenarios that are refused, each as a change of `valid.yaml` and the messages that it causes.

A table is a text file of cases::

    # name of the case
    - text that stands in the scenario once
    + what replaces it
    ! LINE:COLUMN: message

Several lines of one sign belong together. `+` without `-` is put at the end, `=` is a scenario of
its own, `…` in a message leaves something out, and what stands before the first case is common to
all. `PYTHONPATH=tests python -m broken NAME` prints a case's scenario, and what is said of it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
VALID: Final = HERE.parent / "valid.yaml"
REPLAYS: Final = HERE / "replays"
"""Files that some of the scenarios name, as beside themselves."""


@dataclass(frozen=True, slots=True)
class Case:
    """A scenario, and the messages that refuse it, in their order."""

    name: str
    text: str
    messages: tuple[str, ...]


def cases() -> dict[str, Case]:
    """Return the cases of all tables by name."""
    found: dict[str, Case] = {}
    for table in sorted(HERE.glob("*.txt")):
        for case in read(table.read_text("utf-8"), VALID.read_text("utf-8")):
            assert case.name not in found, f"{table}: {case.name} stands here twice"
            found[case.name] = case
    return found


def read(table: str, base: str) -> Iterator[Case]:
    """Yield the cases of a table whose changes apply to the scenario `base`."""
    common, *parts = f"\n{table}".split("\n# ")
    base = change(base, common.splitlines())
    for part in parts:
        name, *lines = part.splitlines()
        messages = tuple(line[2:] for line in lines if line.startswith("! "))
        yield Case(name, change(base, [each for each in lines if each[:2] != "! "]), messages)


def change(text: str, lines: list[str]) -> str:
    """Return a scenario with the changes that some lines of a table say.

    Raises:
        ValueError: A line has no sign, or what it replaces does not stand in the text once.
    """
    old = ""
    for sign, group in groupby(filter(None, lines), lambda line: line[:1]):
        block = "\n".join(line[2:] for line in group)
        match sign:
            case "-" if text.count(block) == 1 and not old:
                old = block
            case "+" if old:
                text, old = text.replace(old, block), ""
            case "+":
                text += f"{block}\n"
            case "=" if not old:
                text = block
            case _:
                raise ValueError(f"`{sign} {block}` is no change, or not in the scenario once")
    if old:
        raise ValueError(f"nothing replaces `{old}`")
    return text
