"""Rules on lines that a reader could not use because of a fault in the configuration."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from perhop.routers.lint.classes import EMPTY, SHADOWED, UNCLASSIFIED, WITH_DEFAULT
from perhop.routers.lint.exactness import selects
from perhop.routers.lint.findings import Finding, Rule, Severity
from perhop.routers.lint.guarantees import ABOVE_PARENT, CEILING
from perhop.routers.lint.invalid import INVALID_VALUE
from perhop.routers.reading import Fault, Treatment, decisive
from perhop.routers.reading.junos.attachments import NO_TERM
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
    "A class of Linux, Junos, VyOS or ALTQ to which no filter, classifier, match or rule leads "
    "packets.",
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

UNREAD: Final = Rule(
    "unread-line",
    Severity.WARNING,
    "A line that perhop does not model, or only approximates, and that can change what a class "
    "gets by more than 5%.",
    "perhop judges and runs the policy without the line, or with something similar: other rules, "
    "and the results of a run, may be wrong about its classes.",
    "See how `perhop import` reads the line. Write it in another way that perhop models, or keep "
    "in mind that results go without it.",
)

WITHOUT_EFFECT: Final = Rule(
    "line-without-effect",
    Severity.WARNING,
    "A line that the device accepts, and that does nothing there.",
    "The line promises what does not happen, such as borrowing by a class with nobody to borrow "
    "from.",
    "Remove the line, or change what it depends on.",
)

UNCONGESTED: Final = Rule(
    "queue-without-congestion",
    Severity.WARNING,
    "Queues at a port that sends faster than its `bandwidth`, without a shaper.",
    "`bandwidth` informs routing protocols and the shares of classes; the port sends at its own "
    "speed. Packets wait where the path is slower, in the provider's network, and the policy never "
    "decides between them.",
    "Put the policy into a class that shapes all packets to the rate of the service.",
    "Cisco IOS Quality of Service Solutions Configuration Guide, Hierarchical Queueing: a policy "
    "of queues needs a shaper around it where the interface is faster than the service",
)

DISCARD: Final = Rule(
    "implicit-discard",
    Severity.WARNING,
    "A filter of Junos whose last term does not match all packets.",
    "The filter discards the packets that no term matches, in silence: traffic stops when the "
    "filter is attached.",
    "Add a last term that accepts, or one that discards and counts, so that the choice is visible.",
    "Junos OS Routing Policies, Firewall Filters, and Traffic Policers User Guide, How Firewall "
    "Filters Evaluate Packets: the implicit term discards",
)

RULES: Final = (
    REFUSED,
    SHORT_LINE,
    DISCARD,
    UNDEFINED,
    UNUSED,
    UNREAD,
    WITHOUT_EFFECT,
    UNCONGESTED,
)

_QUEUE: Final = re.compile(r"^queue (\S+)")
"""The definition of a queue in pf.conf."""

_TAKER: Final = re.compile(r"class (\S+) before it")
"""The class of IOS that takes all packets, in a note."""

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
                    if not (inexact and _takes_inexactly(line, configuration, inexact)):
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
            case Fault.BELOW_GUARANTEE:
                yield Finding(
                    CEILING, line.place, about, "raise the ceiling, or lower the guarantee"
                )
            case Fault.UNUSED:
                if not _may_be_used(line, configuration):
                    yield Finding(
                        UNUSED, line.place, about, "lead packets to the class, or remove it"
                    )
            case Fault.REFUSED:
                yield Finding(REFUSED, line.place, about, "correct it")
            case Fault.UNCLASSIFIED:
                yield Finding(UNCLASSIFIED, line.place, about, WITH_DEFAULT)
            case Fault.SHORT_LINE:
                yield Finding(SHORT_LINE, line.place, about, "raise `limit`")
            case Fault.WITHOUT_EFFECT:
                yield Finding(WITHOUT_EFFECT, line.place, about, "remove it")
            case Fault.UNCONGESTED:
                yield Finding(
                    UNCONGESTED,
                    line.place,
                    about,
                    "shape all packets to the rate of the service, with this policy inside",
                )
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


def unread(configuration: Configuration) -> Iterator[Finding]:
    """Find lines that a reader could not use, or only in part, and whose effect may be large.

    Lines with the same note are one finding.
    """
    alike: dict[tuple[str, str], list[Line]] = {}
    for line in decisive(configuration):
        if line.fault is None:  # else it is a finding of another rule
            alike.setdefault((line.place.file, line.note), []).append(line)
    for (_, note), lines in alike.items():
        first = lines[0]
        how = "is not modelled" if first.treatment is Treatment.NOT_MODELLED else "is approximated"
        more = f"; the same for {len(lines) - 1:,} more lines" if len(lines) > 1 else ""
        yield Finding(
            UNREAD,
            first.place,
            f"{quote(first.text, 80)} {how} ({note}), and can change what a class gets{more}",
            "keep in mind that perhop goes without it",
        )


def implicit(configuration: Configuration) -> Iterator[Finding]:
    """Find filters that discard what none of their terms matches."""
    for place in dict.fromkeys(
        each.place for each in configuration.defaults if each.setting == NO_TERM
    ):
        yield Finding(
            DISCARD,
            place,
            "the filter discards packets that no term matches, as it has no last term for all",
            "add a last term: `then accept`, or `then { count rest; discard; }`",
        )


def _takes_inexactly(line: Line, configuration: Configuration, inexact: frozenset[Place]) -> bool:
    """Return whether the class of IOS that shadows another may have fewer packets than known."""
    taker = _TAKER.match(line.fault_note)
    return taker is not None and any(
        other.place in inexact and other.text.split()[:2] == ["class", taker[1]]
        for other in configuration.lines
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
