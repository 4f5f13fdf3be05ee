"""`tc -s qdisc` and `tc -s class` of Linux, as text or JSON."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from perhop.routers.counters.reading import (
    LARGEST,
    LONGEST,
    MAX_DEPTH,
    Counts,
    Reading,
    begin,
    number,
    put,
)
from perhop.routers.reading import Place, scenario_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perhop.routers.reading import Source

_HEAD: Final = re.compile(r"(qdisc|class) (\S+) ([0-9a-f]{0,8}:[0-9a-f]{0,8})(?: (.*))?", re.ASCII)
_HANDLE: Final = re.compile("[0-9a-f]{0,8}:[0-9a-f]{0,8}", re.ASCII)
_DEVICE: Final = re.compile(r"\bdev (\S+)")
_PARENT: Final = re.compile(r"\bparent ([0-9a-f]{0,8}:[0-9a-f]{0,8})(?: |$)")
_SENT: Final = re.compile(
    r"Sent ([0-9]{1,18}) bytes ([0-9]{1,18}) pkts?(?: \(dropped ([0-9]{1,18}),)?", re.ASCII
)
_BACKLOG: Final = re.compile(r"backlog ([0-9]{1,18})b ([0-9]{1,18})p\b", re.ASCII)
_MARKS: Final = re.compile(r"\b(?:ecn_mark|marked) ([0-9]{1,18})\b", re.ASCII)
_FULL: Final = re.compile(r"\bdrop_overlimit ([0-9]{1,18})\b", re.ASCII)
_EARLY: Final = re.compile(r"\bearly ([0-9]{1,18})\b", re.ASCII)

_RECEIVING: Final = ("ingress", "clsact")
"""Qdiscs for received packets, which have no queue."""

ROOT: Final = "root"
"""The parent of a root qdisc."""


def applies(text: str) -> bool:
    """Return whether a text is the output of these commands."""
    if text.lstrip().startswith("["):
        return '"kind"' in text or '"class"' in text
    return bool(re.search(rf"^{_HEAD.pattern}", text, re.MULTILINE | re.ASCII))


def read(source: Source) -> list[Reading]:
    """Return the readings in a file, in their order: one for each command and interface."""
    if source.text.lstrip().startswith("["):
        found = _json(source)
        if found is not None:
            return found
    readings: list[Reading] = []
    open_: dict[tuple[str, str], Reading] = {}
    counts: Counts = {}
    kind = ""
    for line, text in enumerate(source.text.split("\n"), 1):
        said = text[:LONGEST].strip()
        if head := _HEAD.fullmatch(said):
            if head[2] in _RECEIVING:
                counts = {}
                continue
            rest = head[4] or ""
            device, parent = _DEVICE.search(rest), _PARENT.search(rest)
            kind = head[2]
            counts = _add(
                source.file,
                line,
                (head[1], device[1] if device else ""),
                head[3],
                parent[1] if parent else ROOT,
                readings,
                open_,
            )
        elif sent := _SENT.match(said):
            put(
                counts,
                {
                    "sent_bytes": number(sent[1]),
                    "sent_packets": number(sent[2]),
                    "dropped_packets": number(sent[3]),
                },
            )
        elif backlog := _BACKLOG.match(said):
            put(
                counts,
                {"backlog_bytes": number(backlog[1]), "backlog_packets": number(backlog[2])},
            )
        else:
            extra = {
                name: int(match[1])
                for name, pattern in (("ecn", _MARKS), ("full", _FULL), ("early", _EARLY))
                if (match := pattern.search(said))
            }
            _causes(counts, kind, extra)
    return readings


def _add(
    file: str,
    line: int,
    key: tuple[str, str],
    handle: str,
    parent: str,
    readings: list[Reading],
    open_: dict[tuple[str, str], Reading],
) -> Counts:
    """Return the counters of a qdisc or class; one that comes again begins another reading."""
    command, device = key
    # The counters of a qdisc are those of the class that it is in.
    name = (parent if parent == ROOT else _full(parent)) if command == "qdisc" else _full(handle)
    reading = open_.get(key)
    if reading is None or name in reading.classes:
        reading = begin(
            readings, Reading(Place(file, line), "tc", f"tc -s {command}", device, "out")
        )
        open_[key] = reading
    if command == "class" and parent != ROOT:
        reading.parents[name] = _full(parent)
    return reading.add(name)


def _full(handle: str) -> str:
    """Return ``1:a`` of ``1:a``; ``:a`` and ``1:`` have a zero."""
    major, _, minor = handle.partition(":")
    return f"{major.lower() or '0'}:{minor.lower() or '0'}"


def _causes(counts: Counts, kind: str, extra: Mapping[str, int]) -> None:
    """Divide the drops of a qdisc by cause, where its kind tells, and count marks."""
    if "ecn" in extra:
        counts["marked_packets"] = extra["ecn"]
    drops = counts.get("dropped_packets")
    if drops is None:
        return
    if kind == "red" and "early" in extra:
        early = min(extra["early"], drops)
    elif kind in ("codel", "fq_codel") and "full" in extra:
        early = drops - min(drops, extra["full"])
    else:
        return
    counts |= {"dropped_early": early, "dropped_limit": drops - early}


def _json(source: Source) -> list[Reading] | None:
    """Return the readings in JSON; None if it is none, as tc prints some classes as text."""
    try:
        rows = json.loads(source.text)
    except (ValueError, RecursionError):
        return None
    readings: list[Reading] = []
    open_: dict[tuple[str, str], Reading] = {}
    for row in rows if isinstance(rows, list) else ():
        if not isinstance(row, dict):
            continue
        command = "class" if "class" in row else "qdisc"
        kind, handle, parent, device = (
            _text(row.get(name)) for name in ("kind", "handle", "parent", "dev")
        )
        if (
            kind in _RECEIVING
            or not _HANDLE.fullmatch(handle)
            or (parent and not _HANDLE.fullmatch(parent))
        ):
            continue
        counts = _add(source.file, 1, (command, device), handle, parent or ROOT, readings, open_)
        stats = row.get("stats", row)
        stats = stats if isinstance(stats, dict) else row
        put(
            counts,
            {
                "sent_bytes": _whole(stats.get("bytes")),
                "sent_packets": _whole(stats.get("packets")),
                "dropped_packets": _whole(stats.get("drops")),
                "backlog_bytes": _whole(stats.get("backlog")),
                "backlog_packets": _whole(stats.get("qlen")),
            },
        )
        extra = {
            "ecn": _whole(row.get("ecn_mark", row.get("marked"))),
            "full": _whole(row.get("drop_overlimit")),
            "early": _whole(row.get("early")),
        }
        known = {name: value for name, value in extra.items() if value is not None}
        _causes(counts, kind or _text(row.get("class")), known)
    return readings


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _whole(value: Any) -> int | None:
    known = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < LARGEST
    return value if known else None


def named(readings: Sequence[Reading]) -> dict[str, Counts]:
    """Return the counters of the classes of an interface, by path.

    Classes have the names that configurations of tc give them, such as ``c10`` for 1:10. A single
    class around all others is the shaper of the interface, and does not count.

    Args:
        readings: What `tc -s qdisc` and `tc -s class` print of the interface. Of a class with a
            qdisc, the counters of the qdisc count: it is the one that drops and marks packets.
    """
    counts: dict[str, Counts] = {}
    parents: dict[str, str] = {}
    for reading in sorted(readings, key=lambda each: each.command):  # classes, then qdiscs
        parents |= reading.parents
        for handle, own in reading.classes.items():
            counts[handle] = counts.get(handle, {}) | own
    whole = counts.pop(ROOT, None)
    if not counts:
        return {} if whole is None else {"all": whole}
    above = {parent for handle, parent in parents.items() if handle in counts}
    top = [handle for handle in counts if parents.get(handle) not in counts]
    shaper = top[0] if len(top) == 1 and top[0] in above else None
    found: dict[str, Counts] = {}
    for handle, each in counts.items():
        if handle == shaper:
            continue
        path, outer = [handle], parents.get(handle)
        while outer in counts and outer != shaper and len(path) < MAX_DEPTH:
            path.append(outer)
            outer = parents.get(outer)
        key = "/".join(f"c{part.partition(':')[2]}" for part in reversed(path))
        found[scenario_name(key, found) if "/" not in key else key] = each
    return found
