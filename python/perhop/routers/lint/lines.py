"""Rules on lines that a reader could not use because of a fault in the configuration."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from perhop.routers.lint.classes import EMPTY
from perhop.routers.lint.findings import Finding, Rule, Severity
from perhop.routers.lint.guarantees import ABOVE_PARENT
from perhop.routers.reading import Treatment
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

_NO_SUCH: Final = re.compile(
    r"no (access list|class map|policy map|map class|object group) (\S+)"
    r"|(there is no such \w+|no usable policer has this name)"
)
"""Notes of readers about names that are not defined."""

_SCALED: Final = re.compile(r"guarantees of (.+?) share the (.+?) of the class above")
"""The note of readers about guarantees that they reduced."""

_NO_PACKET: Final = "matches no packet that a scenario can state"
"""The note of readers about classes that they leave out."""


def findings(configuration: Configuration, inexact: frozenset[Place] | None) -> Iterator[Finding]:
    """Find names that are not defined, and classes that a reader left out as empty.

    Args:
        configuration: The configuration.
        inexact: Lines of classes whose packets are not known exactly; None if all may be.
    """
    told: set[str] = set()
    for line in configuration.lines:
        if line.treatment is Treatment.APPROXIMATED:
            scaled = _SCALED.match(line.note)
            if scaled is not None and line.note not in told:
                told.add(line.note)
                yield Finding(
                    ABOVE_PARENT,
                    line.place,
                    f"{quote(line.text, 80)}: this class and those beside it are guaranteed "
                    f"{scaled[1]} of the {scaled[2]} of the class around them",
                    "lower guarantees until they fit",
                )
            continue
        if line.treatment is Treatment.MODELLED:
            continue
        missing = _NO_SUCH.match(line.note)
        if missing is not None:
            said = f"there is no {missing[1]} {quote(missing[2])}" if missing[1] else missing[3]
            yield Finding(
                UNDEFINED,
                line.place,
                f"{quote(line.text)}: {said}",
                "define it, or correct the name",
            )
        elif line.note == _NO_PACKET and inexact is not None and line.place not in inexact:
            yield Finding(
                EMPTY,
                line.place,
                f"{quote(line.text)} matches no packet: its conditions exclude each other",
                "let a packet meet any of the conditions (`match-any`), or correct them",
            )
