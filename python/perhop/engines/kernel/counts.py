"""Linux's counters as the tables `queues`, `links` and `tunnels` of a dataset."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from perhop.dataset import TABLES
from perhop.scenario.resolve import walk

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from perhop.engines.kernel.network import Network
    from perhop.linux.mapping import Interface
    from perhop.scenario import Scenario

__all__ = ["Recorder"]

_FULL: Final = {
    "codel": "drop_overlimit",
    "fq_codel": "drop_overlimit",  # those for want of memory are among them
    "pie": "overlimit",
    "fq_pie": "overlimit",
}
"""The counters of drops by full queues, by discipline; `drops` counts all drops."""

_FIFO: Final = ("pfifo", "bfifo", "pfifo_head_drop", "sfq")
"""Disciplines that drop packets of full queues only, and mark none."""

_MARKS: Final = {
    "red": "marked",
    "codel": "ecn_mark",
    "fq_codel": "ecn_mark",
    "pie": "ecn_mark",
    "fq_pie": "ecn_mark",
}
"""The counters of marked packets, by discipline."""

_CARRIED: Final = (
    "sent_packets",
    "sent_bytes",
    "lost_packets",
    "duplicated_packets",
    "reordered_packets",
)
"""The counters of a direction in `links`."""

Counts = dict[str, int | None]
"""Values of the columns of `queues` or `links`, by name; None for a counter that is unknown."""


@dataclass(slots=True)
class Recorder:
    """Readings of counters, and rows with the differences between two readings.

    Attributes:
        scenario: The scenario.
        network: Its network, whose counters are read.
        longest_s: The longest time, in seconds, between the first and the last counter of a
            reading, or between the last reading of classes and their replacement.
    """

    scenario: Scenario
    network: Network
    longest_s: float = 0.0
    _since_s: float = 0.0
    _ended_s: float = 0.0
    _before: dict[str, dict[str, Counts]] = field(default_factory=dict)
    _removed: dict[str, list[tuple[str, bool, Counts]]] = field(default_factory=dict)
    _wires: dict[str, dict[str, int]] = field(default_factory=dict)
    _queues: list[dict[str, Any]] = field(default_factory=list)
    _links: list[dict[str, Any]] = field(default_factory=list)
    _ends: dict[tuple[str, str], dict[str, int]] = field(default_factory=dict)
    _tunnels: list[dict[str, Any]] = field(default_factory=list)
    _sent: dict[str, tuple[int, int]] = field(default_factory=dict)

    def read(self, now_s: float, rates: Mapping[str, int]) -> None:
        """Add rows for the time from the last reading to `now_s`, with these rates by direction."""
        began = time.monotonic()
        found, wires = self._found(), self.network.wires()
        ends = self.network.tunnels()
        self.longest_s = max(self.longest_s, time.monotonic() - began)
        if now_s > self._since_s:
            for name, classes in found.items():
                stretch = {"link": name, "start_s": self._since_s, "end_s": now_s}
                parts = self._parts(name, classes)
                for path, row in _by_class(parts).items():
                    self._queues.append({**stretch, "class": path, **row})
                if name not in self.scenario.directions:
                    continue  # the device of a tunnel sends into no link
                carried = self._link(name, parts, wires)
                # The share of the time that its packets take to send.
                size, possible = carried["sent_bytes"], rates[name] * (now_s - self._since_s)
                part = None if size is None else min(size * 8 / possible, 1.0)
                self._links.append({**stretch, **carried, "utilisation": part})
            self._tunnels += self._passed(ends, now_s)
        self._before, self._wires, self._ends, self._since_s = found, wires, ends, now_s

    def end(self, direction: str) -> None:
        """Read the counters of an interface for the last time, before it gets new classes."""
        self._ended_s = time.monotonic()
        parts = self._parts(direction, self._found()[direction])
        gone = dict.fromkeys(("backlog_packets", "backlog_bytes"), 0)
        self._removed[direction] = [(path, leaf, {**row, **gone}) for path, leaf, row in parts]
        self._before.pop(direction, None)

    def tables(self) -> dict[str, pl.DataFrame]:
        """Return the tables up to the last reading; those that Linux does not count are empty."""
        rows: dict[str, list[dict[str, Any]]] = {
            "queues": self._queues,
            "links": self._links,
            "tunnels": self._tunnels,
        }
        return {
            name: pl.DataFrame(rows.get(name, []), schema=TABLES[name], orient="row")
            for name in ("queues", "links", "stations", "tunnels", "losses")
        }

    def replaced(self) -> None:
        """Take note that an interface has new classes since `end`."""
        self.longest_s = max(self.longest_s, time.monotonic() - self._ended_s)

    def _parts(self, name: str, classes: Mapping[str, Counts]) -> list[tuple[str, bool, Counts]]:
        """Return the rows of a direction since the last reading, those of removed classes, too.

        Each has the path of its class, and whether a queue counted it.
        """
        before = self._before.get(name, {})
        leaves = self.network.interfaces[name].htb.leaves
        now = [
            (path, path in leaves, _since(counts, before.get(path, {})))
            for path, counts in classes.items()
        ]
        return [*self._removed.pop(name, []), *now]

    def _link(
        self,
        name: str,
        rows: Iterable[tuple[str, bool, Counts]],
        wires: Mapping[str, Mapping[str, int]],
    ) -> Counts:
        """Return the counters of a direction since the last reading."""
        if name in self.network.given and name not in wires:
            now, last = self.network.sent(name), self._sent.get(name, (0, 0))
            self._sent[name] = now
            sent = {"sent_packets": now[0] - last[0], "sent_bytes": now[1] - last[1]}
            return {**dict.fromkeys(_CARRIED, 0), **sent}
        if name in wires:
            then = self._wires.get(name, {})
            return {key: wires[name][key] - then.get(key, 0) for key in _CARRIED}
        parts = [row for _, leaf, row in rows if leaf]
        packets, size = (
            _sum(part[key] for part in parts) for key in ("sent_packets", "sent_bytes")
        )
        link, node = self.scenario.directions[name]
        overhead = link.medium(node).overhead.size
        size = None if packets is None or size is None else size + packets * overhead
        return {**dict.fromkeys(_CARRIED, 0), "sent_packets": packets, "sent_bytes": size}

    def _passed(
        self, ends: Mapping[tuple[str, str], Mapping[str, int]], now_s: float
    ) -> Iterator[dict[str, Any]]:
        """Yield the rows of `tunnels` since the last reading."""
        since = {
            end: {key: count - self._ends.get(end, {}).get(key, 0) for key, count in now.items()}
            for end, now in ends.items()
        }
        directions = [
            (name, end, tunnel.other(end))
            for name, tunnel in self.scenario.tunnels.items()
            for end in tunnel.ends
        ]
        for name, entry, exit_ in directions:
            entered, left = since[name, entry], since[name, exit_]
            # Linux takes packets that the queue of the outer packet drops at once for unsent, and
            # does not know their bytes.
            known = not entered["tx_dropped"]
            yield {
                "tunnel": name,
                "entry": entry,
                "start_s": self._since_s,
                "end_s": now_s,
                "encapsulated_packets": entered["tx_packets"] + entered["tx_dropped"],
                "encapsulated_bytes": entered["tx_bytes"] if known else None,
                "outer_bytes": None,
                "dropped_too_long": None,
                "dropped_no_route": entered["tx_carrier_errors"],
                "decapsulated_packets": left["rx_packets"],
                "decapsulated_bytes": left["rx_bytes"],
                "dropped_ecn": left["rx_frame_errors"],
            }

    def _found(self) -> dict[str, dict[str, Counts]]:
        """Return the current counters, by direction and class."""
        queues = self.network.queues()
        policers = self.network.policers()
        return {
            name: self._of_script(name)
            if name in self.network.given
            else self._classes(interface, queues.get(name, {}), policers.get(interface.node, {}))
            for name, interface in self.network.interfaces.items()
        }

    def _of_script(self, name: str) -> dict[str, Counts]:
        """Return the counters of the classes whose classes of Linux are known; None for others."""
        link, node = self.scenario.directions[name]
        policy = self.scenario.policies[str(link.egress.get(node))]
        known = {} if policy.script is None else policy.script.classes
        rows = self.network.classes(name)
        counted = self.network.given[name].counted
        found: dict[str, Counts] = {}
        for placed in walk(self.scenario, policy, link.capacity(node)):
            counts: Counts = dict.fromkeys(_COLUMNS)
            if placed.class_.classes is None:
                counts |= _queue(rows.get(known.get(placed.path, "")), counted)
            found[placed.path] = counts
        return found

    def _classes(
        self,
        interface: Interface,
        rows: Mapping[int, dict[str, Any]],
        policers: Mapping[str, tuple[int, int]],
    ) -> dict[str, Counts]:
        found: dict[str, Counts] = {}
        for node in interface.htb.nodes:
            if not node.path:
                continue
            counted = interface.htb.counted
            counts = dict(_EMPTY) if node.leaf is None else _queue(rows.get(node.minor), counted)
            label = f"{interface.chain}_{node.minor:x}"
            action = self._exceed(interface, node.path)
            absent = (None, None) if action else (0, 0)  # without a policer nothing is counted
            conform = policers.get(f"{label}_conform", absent)
            exceed = policers.get(f"{label}_exceed", absent)
            counts["conformed_packets"], counts["conformed_bytes"] = conform
            counts["exceeded_packets"], counts["exceeded_bytes"] = exceed
            # Rules of nftables, and tc's actions, tell two colours apart.
            counts["violated_packets"] = counts["violated_bytes"] = 0
            counts["dropped_policer"] = exceed[0] if action == "drop" else 0
            counts["remarked_packets"] = exceed[0] if action == "remark" else 0
            parts = (counts["dropped_packets"], counts["dropped_policer"])
            counts["dropped_packets"] = _sum(parts)
            found[node.path] = counts
        for path in [path for path in found if "/" in path]:
            # The counters of a class include those of its nested classes.
            for above in _above(path):
                _add(found[above], found[path])
        return found

    def _exceed(self, interface: Interface, path: str) -> str:
        """Return the action of a class's policer on packets that exceed."""
        if interface.policy is None:
            return ""
        link, _ = self.scenario.queueing[interface.direction]
        policy = self.scenario.policies[interface.policy]
        for placed in walk(self.scenario, policy, link.capacity(interface.node)):
            if placed.path == path and placed.class_.police is not None:
                action = placed.class_.police.effective_exceed
                return "drop" if action.drops else "remark" if action.remark is not None else "send"
        return ""


_QUEUED: Final = (
    "sent_packets",
    "sent_bytes",
    "dropped_packets",
    "dropped_limit",
    "dropped_early",
    "marked_packets",
    "backlog_packets",
    "backlog_bytes",
)
"""The columns of `queues` that a queue counts."""

_EMPTY: Final[Mapping[str, int | None]] = dict.fromkeys(_QUEUED, 0)
"""The counters of a class without a queue, before those of its nested classes are added."""


def _queue(row: Mapping[str, Any] | None, counted: int | None) -> Counts:
    """Return tc's counters of a queue, by column of `queues`; None for those that it lacks.

    Args:
        row: The counters.
        counted: The bytes of layer 2 in each packet's; None if they differ from packet to packet.

    Source: net/sched/sch_*.c of Linux. The counters `dropped` of PIE and FQ-PIE have the drops of
    full queues, too; CAKE does not tell its causes of drops and its marks for the whole queue.
    """
    row = {} if row is None else row
    kind, drops = str(row.get("kind", "")), row.get("drops")
    full = early = None
    if drops is not None:
        if kind in _FIFO:
            full = drops
        elif (of_limit := row.get(_FULL.get(kind, ""))) is not None:
            full = min(drops, of_limit)
        elif kind == "red" and row.get("early") is not None:
            full = max(drops - row["early"], 0)
        early = None if full is None else drops - full
    counts = {
        "sent_packets": row.get("packets"),
        "sent_bytes": row.get("bytes"),
        "dropped_packets": drops,
        "dropped_limit": full,
        "dropped_early": early,
        "marked_packets": 0 if kind in _FIFO else row.get(_MARKS.get(kind, "")),
        "backlog_packets": row.get("qlen"),
        "backlog_bytes": row.get("backlog"),
    }
    for what in ("sent", "backlog"):
        packets, size = counts[f"{what}_packets"], counts[f"{what}_bytes"]
        counts[f"{what}_bytes"] = None
        if counted is not None and packets is not None and size is not None:
            counts[f"{what}_bytes"] = size - counted * packets
    return counts


def _sum(counts: Iterable[int | None]) -> int | None:
    """Return the sum of some counters; None if one of them is unknown."""
    total = 0
    for count in counts:
        if count is None:
            return None
        total += count
    return total


def _by_class(rows: Iterable[tuple[str, bool, Counts]]) -> dict[str, Counts]:
    """Return the rows of classes; one of two policies in turn has the sum of both."""
    found: dict[str, Counts] = {}
    for path, _, row in rows:
        earlier = found.get(path)
        found[path] = (
            row if earlier is None else {key: _sum((earlier[key], row[key])) for key in row}
        )
    return found


def _above(path: str) -> list[str]:
    """Return the classes that contain a class: "a" and "a/b" for "a/b/c"."""
    parts = path.split("/")
    return ["/".join(parts[:number]) for number in range(1, len(parts))]


def _add(counts: Counts, more: Counts) -> None:
    """Add the counters of a nested class to those of a class around it."""
    for key in (*_QUEUED, "dropped_policer"):
        counts[key] = _sum((counts[key], more[key]))


def _since(now: Mapping[str, int | None], then: Mapping[str, int | None]) -> Counts:
    """Return a row of `queues`: the increase of the counters, and the current backlog.

    Args:
        now: The counters.
        then: Those of the last reading; none of a class that is new, whose counters began at zero.
    """
    found: Counts = {}
    for name in _COLUMNS:
        count, before = now[name], 0 if name.startswith("backlog") else then.get(name, 0)
        found[name] = None if count is None or before is None else count - before
    return found


_COLUMNS: Final = [name for name, kind in TABLES["queues"].items() if kind == pl.Int64]
