"""What Junos prints of queues and of filters, as text.

`show interfaces queue`, `show firewall`, and the tables of `show interfaces extensive` and `show
class-of-service interface comprehensive`; as XML in `junos_xml`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from perhop.routers.counters.reading import LONGEST, Counts, Reading, begin, number, put, total
from perhop.routers.reading import Place, scenario_name

if TYPE_CHECKING:
    from collections.abc import Collection

    from perhop.routers.reading import Direction, Source

_INTERFACE: Final = re.compile(r"(?:Physical|Logical) interface:? ([^\s,]+)")
_QUEUE: Final = re.compile(r"Queue: [0-9]+, Forwarding classes: ([^\s,]+)", re.ASCII)
_COUNTER: Final = re.compile(
    r"([A-Z][A-Za-z -]*?) *: *(Not Available|\S+)(?: +([0-9]{1,18}) (pps|bps))?$"
)
_FILTER: Final = re.compile(r"Filter: (\S+)")
_AT: Final = re.compile(r"(.+)-([a-z][a-z0-9]*-[0-9/:]+\.[0-9]+|[a-z]+[0-9]*\.[0-9]+)-([io])")
_ROW: Final = re.compile(r"(\S+)((?: +[0-9]{1,18}){1,2})", re.ASCII)
_TABLE: Final = re.compile(r"^ *Queue counters:", re.MULTILINE)
_TABLE_ROW: Final = re.compile(r"([0-9]{1,2})(?: (\S+))?((?: +[0-9]{1,18}){3})", re.ASCII)
_MAPPED: Final = re.compile(r"([0-9]{1,2}) +([^\s,]+)", re.ASCII)

_COLUMNS: Final = {
    ("Queued", "Packets"): ("offered_packets", ""),
    ("Queued", "Bytes"): ("offered_bytes", "offered_bps"),
    ("Transmitted", "Packets"): ("sent_packets", ""),
    ("Transmitted", "Bytes"): ("sent_bytes", "sent_bps"),
    ("Transmitted", "Tail-dropped packets"): ("dropped_limit", ""),
    ("Transmitted", "RL-dropped packets"): ("dropped_policer", ""),
    ("Transmitted", "RED-dropped packets"): ("dropped_early", ""),
    ("Transmitted", "Total-dropped packets"): ("dropped_packets", ""),
    ("Queue-depth bytes", "Current"): ("backlog_bytes", ""),
}


def applies(text: str) -> bool:
    """Return whether a text is the output of one of these commands."""
    return (
        bool(_QUEUE.search(text))
        or bool(_TABLE.search(text))
        or bool(_FILTER.search(text) and re.search(r"^ *(Counters|Policers):", text, re.MULTILINE))
    )


def hint(text: str) -> str:
    """Return what to do about an output without counters; "" if it is none of Junos."""
    if "Scheduler map: " in text or "<cos-interface-information" in text:
        return (
            "; `show class-of-service interface` prints counters with the option `comprehensive` "
            "only"
        )
    return ""


def read(source: Source) -> list[Reading]:
    """Return the readings in a file, in their order."""
    readings: list[Reading] = []
    interface, part = "", ""
    direction: Direction | None = None
    reading: Reading | None = None
    queue: Counts | None = None
    tables: list[_Table] = []
    unknown: set[tuple[int, str]] = (
        set()
    )  # counters without a number, by the identity of their queue
    for line, text in enumerate(source.text.split("\n"), 1):
        said = text[:LONGEST].strip()
        place = Place(source.file, line)
        if named := _INTERFACE.match(said):
            interface, direction = named[1], None
            reading = queue = None
            tables, part = [], ""
        elif said.startswith(("Egress queues:", "Ingress queues:")):
            direction = "in" if said.startswith("Ingress") else "out"
            reading = queue = None
            part = ""
        elif said.startswith(("Queue counters:", "Queue number:")):
            part, queue = said[: len("Queue counters:")].strip(), None
            if part == "Queue counters:":
                reading = Reading(place, "junos", _TABLES, interface, direction)
                tables.append((begin(readings, reading), {}))
        elif part == "Queue counters:" and tables and (row := _TABLE_ROW.fullmatch(said)):
            _table_row(tables[-1], row[1], row[2], row[3].split())
        elif part == "Queue number:" and (row := _MAPPED.match(said)):
            for table in tables:
                _rename(table, row[1], row[2])
        elif filtered := _FILTER.match(said):
            reading = begin(readings, of_filter(place, filtered[1]))
            queue, part = None, ""
        elif named := _QUEUE.match(said):
            name = scenario_name(named[1])
            if reading is None or reading.command != QUEUES or name in reading.classes:
                reading = begin(readings, Reading(place, "junos", QUEUES, interface, direction))
            queue, part = reading.add(name), ""
        elif reading is not None and reading.command == _FILTERS:
            if said in ("Counters:", "Policers:"):
                part = said
            elif row := _ROW.fullmatch(said):
                add_row(reading, part, row[1], row[2].split())
        elif queue is not None:
            if said.rstrip(" :") in ("Queued", "Transmitted", "Queue-depth bytes"):
                part = said.rstrip(" :")
            elif counter := _COUNTER.match(said):
                name, rate = _COLUMNS.get((part, counter[1]), ("", ""))
                if name:
                    put(queue, {name: number(counter[2])})
                    if number(counter[2]) is None:
                        unknown.add((id(queue), name))
                if rate and counter[4] == "bps":
                    put(queue, {rate: number(counter[3])})
    for each in readings:
        if each.command == QUEUES:
            for counts in each.classes.values():
                add_drops(counts, {name for name in DROPS if (id(counts), name) in unknown})
    return [each for each in readings if each.classes]


QUEUES: Final = "show interfaces queue"
"""The command that prints the counters of queues."""

_TABLES: Final = "show interfaces"
_FILTERS: Final = "show firewall"

_Table = tuple[Reading, dict[str, str]]
"""A table of queues, and the class of each number."""


def _table_row(table: _Table, number_of: str, name: str | None, values: list[str]) -> None:
    """Add a row; names of classes are cut in the table, or left out."""
    reading, classes = table
    classes[number_of] = scenario_name(name or f"queue-{number_of}")
    counted = zip(("offered_packets", "sent_packets", "dropped_packets"), values, strict=True)
    put(reading.add(classes[number_of]), {key: number(value) for key, value in counted})


def _rename(table: _Table, number_of: str, name: str) -> None:
    """Give the class of a number its whole name."""
    reading, classes = table
    old = classes.get(number_of)
    if old is not None:
        classes[number_of] = scenario_name(name)
        reading.classes = {
            classes[number_of] if path == old else path: counts
            for path, counts in reading.classes.items()
        }


def of_filter(place: Place, name: str) -> Reading:
    """Return the reading of a filter, which begins here.

    Its name can end with its interface and direction; otherwise both are unknown.
    """
    at = _AT.fullmatch(name)
    direction: Direction | None = None
    if at is not None:
        direction = "in" if at[3] == "i" else "out"
    return Reading(place, "junos", _FILTERS, at[2] if at else name, direction)


DROPS: Final = ("dropped_limit", "dropped_policer", "dropped_early")
"""The counters of packets that a queue dropped, by cause."""


def add_drops(counts: Counts, unknown: Collection[str] = ()) -> None:
    """Add up the drops of a queue, if it tells those of a full queue.

    Args:
        counts: The counters of the queue.
        unknown: Counters that the router names, but does not know.
    """
    if "dropped_packets" not in counts and "dropped_limit" in counts and not unknown:
        put(counts, {"dropped_packets": total([counts.get(kind) for kind in DROPS])})


def add_row(reading: Reading, part: str, name: str, values: list[str]) -> None:
    """Add a row of a filter: a counter, or what exceeded a policer.

    The name of a policer ends with that of its term. It belongs to the counter of that name.
    """
    size, packets = values if len(values) == 2 else (None, values[0])
    if part == "Counters:":
        put(
            reading.add(scenario_name(name)),
            {"offered_packets": number(packets), "offered_bytes": number(size)},
        )
    elif part == "Policers:":
        key = scenario_name(name)
        parts = key.split("-")[:16]
        ends = ("-".join(parts[start:]) for start in range(1, len(parts)))
        term = next((end for end in ends if end in reading.classes), key)
        put(
            reading.add(term),
            {"exceeded_packets": number(packets), "exceeded_bytes": number(size)},
        )
