"""`pfctl -vsq` of FreeBSD, NetBSD and OpenBSD."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from perhop.routers.counters.reading import LONGEST, MAX_DEPTH, Counts, Reading, begin, number, put
from perhop.routers.reading import Place, scenario_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perhop.routers.reading import Source

_QUEUE: Final = re.compile(
    r"queue\s+(\S+)(?:\s+parent (\S+))?(?:\s+on (\S+))?(?:\s[^{]*)?(?:\{([^}]*)\}?)?"
)
_COUNTED: Final = re.compile(
    r"\[ pkts: *([0-9]{1,18}) +bytes: *([0-9]{1,18}) +dropped pkts: *([0-9]{1,18}) ", re.ASCII
)
_LENGTH: Final = re.compile(r"\[ qlength: *([0-9]{1,18})/", re.ASCII)


def applies(text: str) -> bool:
    """Return whether a text is the output of this command."""
    return bool(re.search(r"^ *\[ pkts: .*dropped pkts:", text, re.MULTILINE))


def read(source: Source) -> list[Reading]:
    """Return the readings in a file, in their order.

    Only queues without others inside count packets; a class around others has their sums. The
    root queue is the interface.
    """
    readings: list[Reading] = []
    open_: dict[str, Reading] = {}
    counts: Counts = {}
    for line, text in enumerate(source.text.split("\n"), 1):
        said = text[: 50 * LONGEST].strip()  # with the names of all queues inside
        if queue := _QUEUE.match(said):
            name, parent, interface, children = queue.groups()
            if interface is None:  # OpenBSD says it of some queues only: that of the one above
                interface = next((on for on, each in open_.items() if parent in each.classes), None)
                if interface is None:
                    counts = {}
                    continue
            reading = open_.get(interface)
            if reading is None or name in reading.classes:
                place = Place(source.file, line)
                reading = begin(readings, Reading(place, "pf", "pfctl -vsq", interface, "out"))
                open_[interface] = reading
            counts = reading.add(name)
            if parent:
                reading.parents[name] = parent
            for child in re.split(r"[,\s]+", children or ""):
                if child:
                    reading.parents[child] = name
        elif counted := _COUNTED.match(said):
            put(
                counts,
                {
                    "sent_packets": number(counted[1]),
                    "sent_bytes": number(counted[2]),
                    "dropped_packets": number(counted[3]),
                },
            )
        elif length := _LENGTH.match(said):
            put(counts, {"backlog_packets": number(length[1])})
    for each in readings:
        each.classes = _paths(each.classes, each.parents)
        each.parents = {}
    return [each for each in readings if each.classes]


def _paths(classes: dict[str, Counts], parents: dict[str, str]) -> dict[str, Counts]:
    """Return the queues by path, below the root queue; a queue around others has their sums."""
    above = {parent for name, parent in parents.items() if name in classes}
    roots = {name for name in classes if parents.get(name) not in classes and name in above}
    found: dict[str, Counts] = {}
    own: list[tuple[str, Counts]] = []
    for name, counts in classes.items():
        if name in roots:
            continue
        path, outer = [name], parents.get(name)
        while outer in classes and outer not in roots and len(path) < MAX_DEPTH:
            path.append(outer)
            outer = parents.get(outer)
        keys = [scenario_name(part) for part in reversed(path)]
        key = "/".join(keys)
        found[key] = dict(counts)
        own.append((key, counts))
    for key, counts in own:
        for outer_key in _outer(key):
            if outer_key in found:
                for name, value in counts.items():
                    found[outer_key][name] = found[outer_key].get(name, 0) + value
    return found


def _outer(path: str) -> Iterable[str]:
    parts = path.split("/")
    return ("/".join(parts[:number]) for number in range(1, len(parts)))
