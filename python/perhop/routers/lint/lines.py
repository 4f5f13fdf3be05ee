"""Rules on lines that a reader could not use because of a fault in the configuration."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from perhop.routers.lint.classes import EMPTY, SHADOWED
from perhop.routers.lint.exactness import selects
from perhop.routers.lint.findings import Finding, Rule, Severity
from perhop.routers.lint.guarantees import ABOVE_PARENT
from perhop.routers.lint.invalid import INVALID_VALUE
from perhop.routers.reading import Fault, Treatment
from perhop.units import quote

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perhop.routers.reading import Configuration, Line, Place

UNDEFINED: Final = Rule(
    "undefined-name",
    Severity.WARNING,
    "A class map, access list, policy map, policer or other name that the files do not define.",
    "A class that refers to an access list that does not exist, or whose name has a typing error, "
    "gets no packets or all of them, by platform; a policy map that does not exist does nothing.",
    "Define the name, or correct it. If another file defines it, give that file, too, or ignore "
    "the rule.",
)

UNUSED: Final = Rule(
    "unused-class",
    Severity.WARNING,
    "A class of Linux, VyOS or ALTQ to which no filter, match or rule leads packets.",
    "Its packets are in the default class, and its guarantee keeps bandwidth from the other "
    "classes. Often a filter names another class by mistake.",
    "Lead packets to the class, or remove it.",
)

REFUSED: Final = Rule(
    "refused-line",
    Severity.ERROR,
    "A line that the router refuses, with its reason.",
    "The command ends with an error and changes nothing. What it should have set up is not there, "
    "and often nothing after it.",
    "Correct the line.",
)

SHORT_LINE: Final = Rule(
    "short-delay-line",
    Severity.WARNING,
    "netem whose `limit` is less than the packets that the rate brings in its delay.",
    "The delay line holds 1000 packets by default and drops the rest: at 100 ms no more than "
    "120 Mb/s of full packets pass, whatever the rate is.",
    "Give netem a `limit` of rate times delay at least, and what queues need.",
)

RULES: Final = (REFUSED, SHORT_LINE, UNDEFINED, UNUSED)

_QUEUE: Final = re.compile(r"^queue (\S+)")
"""The definition of a queue in pf.conf."""

_ASSIGNS: Final = re.compile(r"^(?:pass|match)\b.*\bqueue\b")
"""A rule of pf.conf that assigns packets to a queue."""


def findings(configuration: Configuration, inexact: frozenset[Place] | None) -> Iterator[Finding]:
    """Find names that are not defined, classes that a reader left out, and reduced guarantees.

    Args:
        configuration: The configuration.
        inexact: Lines of classes whose packets are not known exactly; None if all may be.
    """
    told: set[tuple[str, str]] = set()
    for line in configuration.lines:
        about = f"{quote(line.text, 80)}: {line.fault_note}"
        match line.fault:
            case Fault.UNDEFINED:
                yield Finding(
                    UNDEFINED,
                    line.place,
                    about,
                    "define it, or correct the name",
                )
            case Fault.SHADOWED:
                # Each line of the class has it.
                if (line.place.file, line.fault_note) not in told:
                    told.add((line.place.file, line.fault_note))
                    yield Finding(SHADOWED, line.place, about, "change the order, or remove it")
            case Fault.ABOVE_PARENT:
                # Each of the classes that share has the note.
                if (line.place.file, line.fault_note) not in told:
                    told.add((line.place.file, line.fault_note))
                    yield Finding(
                        ABOVE_PARENT,
                        line.place,
                        about,
                        "lower guarantees until they fit",
                    )
            case Fault.UNUSED:
                if not _may_be_used(line, configuration):
                    yield Finding(
                        UNUSED, line.place, about, "lead packets to the class, or remove it"
                    )
            case Fault.REFUSED:
                yield Finding(REFUSED, line.place, about, "correct it")
            case Fault.SHORT_LINE:
                yield Finding(SHORT_LINE, line.place, about, "raise `limit`")
            case Fault.INVALID:
                yield Finding(INVALID_VALUE, line.place, about, "correct it")
            case Fault.EMPTY:
                if inexact is not None and line.place not in inexact:
                    yield Finding(
                        EMPTY,
                        line.place,
                        f"{quote(line.text, 80)} matches no packet: its conditions exclude each "
                        "other",
                        "let a packet meet any of the conditions (`match-any`), or correct them",
                    )


def _may_be_used(line: Line, configuration: Configuration) -> bool:
    """Return whether lines that a reader does not model may lead packets to a class.

    Rules of pf name the queue; filters, and rules of iptables, may set marks that others look at.
    """
    unread = [
        other
        for other in configuration.lines
        if other.treatment is Treatment.NOT_MODELLED and other.fault is None and selects(other)
    ]
    queue = _QUEUE.search(line.text)
    if queue is None:
        return bool(unread)
    if not any(_ASSIGNS.search(other.text) for other in configuration.lines):
        return True  # the rules are in another file
    name = re.compile(rf"(?<![\w-]){re.escape(queue[1])}(?![\w-])")
    return any(name.search(other.text) for other in unread)
