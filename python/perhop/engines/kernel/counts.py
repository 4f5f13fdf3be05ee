"""Linux's counters as the tables `queues`, `links` and `tunnels` of a dataset."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from perhop.dataset import TABLES
from perhop.scenario.resolve import walk

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from perhop.engines.kernel.network import Network
    from perhop.linux.mapping import Interface
    from perhop.scenario import Scenario

__all__ = ["Recorder"]

_EARLY: Final = {
    # The counters of early drops, by discipline; `drops` counts all drops.
    "red": ("early",),
    "pie": ("dropped",),
}
_FULL: Final = {
    "codel": ("drop_overlimit",),
    "fq_codel": ("drop_overlimit", "drop_overmemory"),
    "fq_pie": ("overlimit",),
}
"""The counters of drops by full queues, by discipline."""

_CARRIED: Final = (
    "sent_packets",
    "sent_bytes",
    "lost_packets",
    "duplicated_packets",
    "reordered_packets",
)
"""The counters of a direction in `links`."""

Counts = dict[str, int]
"""Values of the columns of `queues`, by name."""


@dataclass(slots=True)
class Recorder:
    """Readings of counters, and rows with the differences between two readings.

    Attributes:
        scenario: The scenario.
        network: Its network, whose counters are read.
    """

    scenario: Scenario
    network: Network
    _since_s: float = 0.0
    _before: dict[str, dict[str, Counts]] = field(default_factory=dict)
    _wires: dict[str, dict[str, int]] = field(default_factory=dict)
    _queues: list[dict[str, Any]] = field(default_factory=list)
    _links: list[dict[str, Any]] = field(default_factory=list)
    _ends: dict[tuple[str, str], Counts] = field(default_factory=dict)
    _tunnels: list[dict[str, Any]] = field(default_factory=list)

    def read(self, now_s: float, rates: Mapping[str, int]) -> None:
        """Add rows for the time from the last reading to `now_s`, with these rates by direction."""
        found, wires = self._found(), self.network.wires()
        ends = self.network.tunnels()
        if now_s > self._since_s:
            for name, classes in found.items():
                stretch = {"link": name, "start_s": self._since_s, "end_s": now_s}
                before = self._before.get(name, {})
                for path, counts in classes.items():
                    row = _since(counts, before.get(path, {}))
                    self._queues.append({**stretch, "class": path, **row})
                carried = self._link(name, classes, before, wires)
                # The share of the time that its packets take to send.
                part = carried["sent_bytes"] * 8 / (rates[name] * (now_s - self._since_s))
                self._links.append({**stretch, **carried, "utilisation": min(part, 1.0)})
            self._tunnels += self._passed(ends, now_s)
        self._before, self._wires, self._ends, self._since_s = found, wires, ends, now_s

    def begin(self, direction: str) -> None:
        """Start counters at zero, after an interface was given new classes."""
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

    def _link(
        self,
        name: str,
        classes: Mapping[str, Counts],
        before: Mapping[str, Counts],
        wires: Mapping[str, Counts],
    ) -> Counts:
        """Return the counters of a direction since the last reading."""
        if name in wires:
            then = self._wires.get(name, {})
            return {key: wires[name][key] - then.get(key, 0) for key in _CARRIED}
        leaves = self.network.interfaces[name].htb.leaves
        parts = [_since(classes[path], before.get(path, {})) for path in leaves]
        packets = sum(part["sent_packets"] for part in parts)
        link, node = self.scenario.directions[name]
        overhead = link.medium(node).overhead.size
        size = sum(part["sent_bytes"] for part in parts) + packets * overhead
        return {**dict.fromkeys(_CARRIED, 0), "sent_packets": packets, "sent_bytes": size}

    def _passed(
        self, ends: Mapping[tuple[str, str], Counts], now_s: float
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
            name: self._classes(interface, queues.get(name, {}), policers.get(interface.node, {}))
            for name, interface in self.network.interfaces.items()
        }

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
            counts = _queue(rows.get(node.minor, {})) if node.leaf is not None else {}
            label = f"{interface.chain}_{node.minor:x}"
            conform = policers.get(f"{label}_conform", (0, 0))
            exceed = policers.get(f"{label}_exceed", (0, 0))
            counts["conformed_packets"], counts["conformed_bytes"] = conform
            counts["exceeded_packets"], counts["exceeded_bytes"] = exceed
            action = self._exceed(interface, node.path)
            counts["dropped_policer"] = exceed[0] if action == "drop" else 0
            counts["remarked_packets"] = exceed[0] if action == "remark" else 0
            counts["dropped_packets"] = sum(
                counts.get(key, 0) for key in ("dropped_limit", "dropped_early", "dropped_policer")
            )
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
        link, _ = self.scenario.directions[interface.direction]
        policy = self.scenario.policies[interface.policy]
        for placed in walk(self.scenario, policy, link.capacity(interface.node)):
            if placed.path == path and placed.class_.police is not None:
                action = placed.class_.police.effective_exceed
                return "drop" if action.drops else "remark" if action.remark is not None else "send"
        return ""


def _queue(row: Mapping[str, Any]) -> Counts:
    """Return tc's counters of a queue, by column of `queues`."""
    kind, drops = str(row.get("kind", "")), int(row.get("drops", 0))
    early = sum(int(row.get(key, 0)) for key in _EARLY.get(kind, ()))
    if kind in _FULL:
        early = drops - min(drops, sum(int(row.get(key, 0)) for key in _FULL[kind]))
    return {
        "sent_packets": int(row.get("packets", 0)),
        "sent_bytes": int(row.get("bytes", 0)),
        "dropped_limit": max(drops - early, 0),
        "dropped_early": early,
        "marked_packets": int(row.get("ecn_mark", row.get("marked", 0))),
        "backlog_packets": int(row.get("qlen", 0)),
        "backlog_bytes": int(row.get("backlog", 0)),
    }


def _above(path: str) -> list[str]:
    """Return the classes that contain a class: "a" and "a/b" for "a/b/c"."""
    parts = path.split("/")
    return ["/".join(parts[:number]) for number in range(1, len(parts))]


def _add(counts: Counts, more: Mapping[str, int]) -> None:
    for key in (
        "sent_packets",
        "sent_bytes",
        "dropped_limit",
        "dropped_early",
        "marked_packets",
        "backlog_packets",
        "backlog_bytes",
        "dropped_policer",
        "dropped_packets",
    ):
        counts[key] = counts.get(key, 0) + more.get(key, 0)


def _since(now: Mapping[str, int], then: Mapping[str, int]) -> Counts:
    """Return a row of `queues`: the increase of the counters, and the current backlog."""
    columns = [name for name, kind in TABLES["queues"].items() if kind == pl.Int64]
    return {
        name: now.get(name, 0) - (0 if name.startswith("backlog") else then.get(name, 0))
        for name in columns
    }
