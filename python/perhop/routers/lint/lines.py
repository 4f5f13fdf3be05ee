"""Rules on lines that a reader could not use because of a fault in the configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perhop.routers.lint.classes import EMPTY
from perhop.routers.lint.findings import Finding, Rule, Severity
from perhop.routers.lint.guarantees import ABOVE_PARENT
from perhop.routers.reading import Fault
from perhop.units import quote

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perhop.routers.reading import Configuration, Place

UNDEFINED: Final = Rule(
    "undefined-name",
    Severity.WARNING,
    "A class map, access list, policy map, policer or other name that the files do not define.",
    "A class that refers to an access list that does not exist, or whose name has a typing error, "
    "gets no packets or all of them, by platform; a policy map that does not exist does nothing.",
    "Define the name, or correct it. If another file defines it, give that file, too, or ignore "
    "the rule.",
)

RULES: Final = (UNDEFINED,)


def findings(configuration: Configuration, inexact: frozenset[Place] | None) -> Iterator[Finding]:
    """Find names that are not defined, classes that a reader left out, and reduced guarantees.

    Args:
        configuration: The configuration.
        inexact: Lines of classes whose packets are not known exactly; None if all may be.
    """
    told: set[str] = set()
    for line in configuration.lines:
        match line.fault:
            case Fault.UNDEFINED:
                yield Finding(
                    UNDEFINED,
                    line.place,
                    f"{quote(line.text, 80)}: {line.note}",
                    "define it, or correct the name",
                )
            case Fault.ABOVE_PARENT:
                # Each of the classes that share has the note.
                if line.note not in told:
                    told.add(line.note)
                    yield Finding(
                        ABOVE_PARENT,
                        line.place,
                        f"{quote(line.text, 80)}: {line.note}",
                        "lower guarantees until they fit",
                    )
            case Fault.EMPTY:
                if inexact is not None and line.place not in inexact:
                    yield Finding(
                        EMPTY,
                        line.place,
                        f"{quote(line.text, 80)} matches no packet: its conditions exclude each "
                        "other",
                        "let a packet meet any of the conditions (`match-any`), or correct them",
                    )
