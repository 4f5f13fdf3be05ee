"""The common result of all readers of counters."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from perhop.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from perhop.routers.reading import Direction, Place

GAUGES: Final = ("backlog_packets", "backlog_bytes", "offered_bps", "sent_bps", "dropped_bps")
"""What rises and falls: a reading has its current value. All other counts only grow, until they are
cleared."""

MAX_CLASSES: Final = 10_000
"""The most classes in the files of one command."""

MAX_DEPTH: Final = 16
"""The most classes inside each other."""

MAX_UNREAD: Final = 20
"""The most lines of a reading that are named as not read."""

MAX_READINGS: Final = 1000
"""The most readings in a file."""

LARGEST: Final = 10**18
"""Counters are less than this."""

LONGEST: Final = 400
"""Characters of a line that are read."""

Counts = dict[str, int]
"""Counters and gauges of a class by name. What the router does not print is not there."""

_NUMBER: Final = re.compile(r"[0-9]{1,18}", re.ASCII)


@dataclass(slots=True)
class Reading:
    """What a command printed of one interface and direction at one time.

    Attributes:
        place: The line at which it begins.
        family: ``ios``, ``junos``, ``tc`` or ``pf``.
        command: Which of the family's outputs this is; two of the same are readings at different
            times, and different ones add to each other.
        interface: The interface as the router spells it; "" if the output does not name it.
        direction: The packets that are counted; None if the output does not tell.
        classes: The counters of each class, by path: ``outer/inner``.
        parents: The class in which another one is; for families that name classes by number.
        at: The router's clock, without its time zone, if the output has it.
        unread: Lines with counters that perhop does not know, with their places.
        policy: The policy that counts, if the output names it; those of different policies are not
            readings of one.
    """

    place: Place
    family: str
    command: str
    interface: str
    direction: Direction | None
    classes: dict[str, Counts] = field(default_factory=dict)
    parents: dict[str, str] = field(default_factory=dict)
    at: datetime | None = None
    unread: list[str] = field(default_factory=list)
    policy: str = ""

    def add(self, path: str) -> Counts:
        """Return the counters of a class, which begins here.

        Raises:
            UsageError: The output has too many classes.
        """
        if len(self.classes) >= MAX_CLASSES:
            raise UsageError(f"{self.place}: has more than {MAX_CLASSES:,} classes")
        return self.classes.setdefault(path, {})


def begin(readings: list[Reading], reading: Reading) -> Reading:
    """Add a reading to those of a file, and return it.

    Raises:
        UsageError: The file has too many.
    """
    if len(readings) >= MAX_READINGS:
        raise UsageError(f"{reading.place}: has more than {MAX_READINGS:,} readings of counters")
    readings.append(reading)
    return reading


def number(text: str | None) -> int | None:
    """Return a counter, or None if the text is not one, such as ``Not Available``."""
    return int(text) if text is not None and _NUMBER.fullmatch(text) else None


def put(counts: Counts, values: Mapping[str, int | None]) -> None:
    """Set the values that are known."""
    counts.update({name: value for name, value in values.items() if value is not None})


def total(counts: Sequence[int | None]) -> int | None:
    """Return the sum of what is known; None if nothing is."""
    known = [each for each in counts if each is not None]
    return sum(known) if known else None


def difference(earlier: Reading, later: Reading) -> Reading:
    """Return a reading with what was counted between two readings.

    Classes and counters that the earlier one does not have are left out.

    Raises:
        UsageError: A counter fell, because it was cleared in between.
    """
    found = Reading(later.place, later.family, later.command, later.interface, later.direction)
    found.parents = later.parents
    for path, now in later.classes.items():
        then = earlier.classes.get(path)
        if then is None:
            continue
        counts = found.add(path)
        for name, value in now.items():
            if name in GAUGES:
                counts[name] = value
            elif name in then:
                if value < then[name]:
                    raise UsageError(
                        f"{later.place}: {name} of class {path} fell from {then[name]:,} "
                        f"({earlier.place}) to {value:,}: give the earlier reading first; if "
                        "the counters were cleared in between, give the later one alone"
                    )
                counts[name] = value - then[name]
    return found
