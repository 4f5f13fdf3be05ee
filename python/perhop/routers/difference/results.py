"""What a comparison of two policies returns."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from perhop.analysis import ComparedQuantity, RunComparison

NOTABLE: Final = 0.01
"""A change of throughput that `changes` returns, in parts of the first value."""


@dataclass(frozen=True, slots=True)
class Load:
    """Both policies under one traffic.

    Attributes:
        name: The traffic, in words.
        compared: The runs beside each other.
    """

    name: str
    compared: RunComparison


@dataclass(frozen=True, slots=True)
class Moved:
    """Packets that belong to another class in the second policy.

    Attributes:
        packets: An example, in words.
        old: The class in the first policy.
        new: The class in the second policy.
    """

    packets: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Difference:
    """What changes from one policy to another.

    Attributes:
        names: Names of both sides.
        loads: The runs.
        classes: By flow or ping, its class in each policy; empty if the scenario's own traffic ran.
        moved: Packets that change their class in other ways than whole classes do.
        remarks: Assumptions, and classes without traffic.
    """

    names: tuple[str, str]
    loads: tuple[Load, ...]
    classes: dict[str, tuple[str, str]]
    moved: tuple[Moved, ...]
    remarks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """A flow or ping under a load, before the change and after it.

    Attributes:
        name: The flow or ping.
        classes: Its class in each policy; None if the scenario's own traffic ran.
        throughput: Its goodput in bit/s; None for pings.
        delay: The median of the one-way delay; of a ping, of the round-trip time.
        delay_p99: The 99th percentile of that.
        loss: The share of lost packets, 0 to 1.
    """

    name: str
    classes: tuple[str, str] | None
    throughput: ComparedQuantity | None
    delay: ComparedQuantity | None
    delay_p99: ComparedQuantity | None
    loss: ComparedQuantity | None

    @property
    def change(self) -> float | None:
        """The change of the throughput, in parts of the first: 0.1 is 10% more."""
        ratio = None if self.throughput is None else self.throughput.ratios[1]
        return None if ratio is None else ratio - 1


def rows(difference: Difference, load: Load) -> list[Row]:
    """Return the flows and pings that were active under a load."""
    found = []
    for kind, delay in ((load.compared.flows, "owd"), (load.compared.pings, "rtt")):
        for name, quantities in kind.items():
            row = Row(
                name,
                difference.classes.get(name),
                quantities.get("throughput"),
                quantities.get(f"{delay}_median"),
                quantities.get(f"{delay}_p99"),
                quantities.get("loss"),
            )
            found.append(row)
    return found


def changes(difference: Difference) -> list[tuple[Load, Row]]:
    """Return the largest change of each flow's throughput, if above `NOTABLE`, largest first."""
    largest: dict[str, tuple[float, Load, Row]] = {}
    for load in difference.loads:
        for row in rows(difference, load):
            if row.throughput is None or None in row.throughput.values:
                continue
            second = row.throughput.values[1]
            # From nothing to something is more than any ratio.
            size = (inf if second else 0.0) if row.change is None else abs(row.change)
            if size > max(NOTABLE, largest.get(row.name, (0.0,))[0]):
                largest[row.name] = (size, load, row)
    return [(load, row) for _, load, row in sorted(largest.values(), key=lambda each: -each[0])]


def as_object(difference: Difference) -> dict[str, Any]:
    """Return a comparison as an object of JSON types."""

    def quantity(found: ComparedQuantity | None) -> dict[str, Any] | None:
        if found is None:
            return None
        ratio = found.ratios[1]
        change = None if ratio is None else ratio - 1
        return {"old": found.values[0], "new": found.values[1], "change": change}

    return {
        "names": list(difference.names),
        "loads": {
            load.name: {
                row.name: {
                    "old_class": row.classes and row.classes[0],
                    "new_class": row.classes and row.classes[1],
                    "throughput_bps": quantity(row.throughput),
                    "delay_median_s": quantity(row.delay),
                    "delay_p99_s": quantity(row.delay_p99),
                    "loss": quantity(row.loss),
                }
                for row in rows(difference, load)
            }
            for load in difference.loads
        },
        "moved": [
            {"packets": each.packets, "old_class": each.old, "new_class": each.new}
            for each in difference.moved
        ],
        "remarks": list(difference.remarks),
    }
