"""What Junos prints of queues and of filters, as XML (``| display xml``, or over NETCONF).

Expat reads the replies inside an element of perhop's own, where XML has no document types. So no
entity can be declared, and nothing expands. Namespaces do not matter, as their names have the
release in them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from xml.parsers import expat

from perhop.errors import UsageError
from perhop.routers.counters.junos import DROPS, QUEUES, add_drops, add_row, of_filter
from perhop.routers.counters.reading import LONGEST, Reading, begin, number, put
from perhop.routers.reading import Place, scenario_name

if TYPE_CHECKING:
    from perhop.routers.reading import Direction, Source

MAX_DEPTH: Final = 64
"""The most elements inside each other."""

_ABOUT: Final = re.compile(
    r"<(?:[\w.-]{1,64}:)?(?:ingress-)?(?:queue-counters|filter-information)\b"
)
_BETWEEN: Final = re.compile(r"<\?xml[^<>]{0,256}\?>|\]\]>\]\]>")
"""What stands between the replies of a session."""

_COLUMNS: Final = {
    "queue-counters-queued-packets": "offered_packets",
    "queue-counters-queued-bytes": "offered_bytes",
    "queue-counters-queued-bytes-rate": "offered_bps",
    "queue-counters-trans-packets": "sent_packets",
    "queue-counters-trans-bytes": "sent_bytes",
    "queue-counters-trans-bytes-rate": "sent_bps",
    "queue-counters-tail-drop-packets": "dropped_limit",
    "queue-counters-rate-limit-drop-packets": "dropped_policer",
    "queue-counters-rl-drop-packets": "dropped_policer",
    "queue-counters-red-packets": "dropped_early",
    "queue-counters-total-drop-packets": "dropped_packets",
}
_NAMES: Final = frozenset(("name", "interface-name", "i-logical-name"))
_ROWS: Final = {"counter": "Counters:", "policer": "Policers:"}


def applies(text: str) -> bool:
    """Return whether a text is the output of one of these commands."""
    return _ABOUT.search(text) is not None


def read(source: Source) -> list[Reading]:
    """Return the readings in a file, in their order.

    Raises:
        UsageError: It is not well-formed, has a document type, or is nested too deeply.
    """
    if (at := source.text.find("<!DOCTYPE")) >= 0:
        line = source.text.count("\n", 0, at) + 1
        raise UsageError(
            f"{source.file}:{line}: has a document type (`<!DOCTYPE`); expected the XML of Junos, "
            "which has none"
        )
    reader = _Reader(source)
    parser = expat.ParserCreate("utf-8")
    parser.buffer_text = True
    parser.StartElementHandler = lambda name, _: reader.start(name, parser.CurrentLineNumber)
    parser.EndElementHandler = lambda _: reader.end()
    parser.CharacterDataHandler = reader.text
    # Several replies are one document; prompts between them are text.
    whole = f"<replies>{_BETWEEN.sub('', source.text)}</replies>"
    try:
        parser.Parse(whole.encode(), True)
    except expat.ExpatError as error:
        line = min(error.lineno, source.text.count("\n") + 1)
        reason = expat.ErrorString(error.code)
        raise UsageError(f"{source.file}:{line}: is not well-formed XML: {reason}") from None
    return [each for each in reader.readings if each.classes]


class _Reader:
    """The state of reading one file.

    Attributes:
        readings: The readings so far.
        path: The elements that are open, without prefixes.
        names: The name of the interface at each level.
        leaf: The text of the innermost element.
        values: The texts of the elements of a queue, counter or policer.
        queues: The reading of the open `queue-counters`.
        kind: The kind of its queues in words, such as ``Egress queues``.
        filter: The name of the open filter.
        rows: Its counters and policers.
    """

    def __init__(self, source: Source) -> None:
        self.file = source.file
        self.readings: list[Reading] = []
        self.path: list[str] = []
        self.names: list[str] = []
        self.place = Place(source.file, 1)
        self.leaf = ""
        self.values: dict[str, str] = {}
        self.queues: Reading | None = None
        self.kind = ""
        self.filter = ""
        self.rows: list[tuple[str, str, list[str]]] = []

    def start(self, name: str, line: int) -> None:
        """Begin an element."""
        if len(self.path) >= MAX_DEPTH:
            raise UsageError(f"{self.file}:{line}: is nested deeper than {MAX_DEPTH} elements")
        self.place = Place(self.file, line)
        self.path.append(name.rpartition(":")[2])
        self.names.append(self.names[-1] if self.names else "")
        self.leaf = ""
        match self.path[-1]:
            case "queue" | "counter" | "policer":
                self.values = {}
            case "filter-information":
                self.filter, self.rows = "", []

    def text(self, text: str) -> None:
        """Add text to an element."""
        if len(self.leaf) < LONGEST:
            self.leaf += text[:LONGEST]

    def end(self) -> None:
        """End the innermost element."""
        name, said = self.path.pop(), self.leaf.strip()[:LONGEST]
        self.names.pop()
        self.leaf = ""
        above = self.path[-1] if self.path else ""
        if name in _NAMES and self.names:
            self.names[-1] = said
        elif above in ("queue", "counter", "policer"):
            self.values[name] = said
        elif name == "queue" and above.endswith("queue-counters"):
            self._queue(self._direction(above))
        elif name in _ROWS and above == "filter-information":
            values = [self.values.get(key, "") for key in ("byte-count", "packet-count")]
            self.rows.append((_ROWS[name], self.values.get(f"{name}-name", ""), values))
        elif name == "intf-cos-queue-type":
            self.kind = said
        elif name == "filter-name":
            self.filter = said
        elif name.endswith("queue-counters"):
            self.queues, self.kind = None, ""
        elif name == "filter-information" and self.rows:
            reading = begin(self.readings, of_filter(self.place, self.filter))
            # A policer belongs to the counter of its term.
            for part, row, values in sorted(self.rows, key=lambda each: each[0]):
                if row:
                    add_row(reading, part, row, values)

    def _direction(self, above: str) -> Direction | None:
        """Return the direction of the open counters; None if the output does not tell.

        `show interfaces` has elements of their own for queues at inputs; `show class-of-service
        interface` names the kind of queues, or neither.
        """
        if above.startswith("ingress") or self.kind.startswith("Ingress"):
            return "in"
        told = self.kind.startswith("Egress")
        return "out" if told or not any(each.startswith("cos-") for each in self.path) else None

    def _queue(self, direction: Direction | None) -> None:
        """Add a queue."""
        default = f"queue-{self.values.get('queue-number', '')}"
        name = scenario_name(self.values.get("forwarding-class-name") or default)
        if self.queues is None:
            interface = self.names[-1] if self.names else ""
            self.queues = Reading(self.place, "junos", QUEUES, interface, direction)
            begin(self.readings, self.queues)
        counts = self.queues.add(name)
        found = {key: self.values[tag] for tag, key in _COLUMNS.items() if tag in self.values}
        put(counts, {key: number(value) for key, value in found.items()})
        add_drops(counts, {key for key in found if key in DROPS and key not in counts})
