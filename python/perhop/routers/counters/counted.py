"""What routers counted, from all files of a command; as a dataset of engine `router`."""

from __future__ import annotations

import platform
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from perhop.dataset import ROUTER, TABLES, Dataset, Host, Manifest, Warned
from perhop.errors import UsageError
from perhop.files import read_file
from perhop.routers.counters import ios, junos, junos_xml, pf, tc
from perhop.routers.counters.reading import LARGEST, Counts, Reading, difference
from perhop.routers.reading import scenario_name, source
from perhop.scenario import Scenario
from perhop.units import MAX_DURATION, quote

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping, Sequence

    from perhop.routers.reading import Direction, Source

MAX_SIZE: Final = 2**22
"""The largest file, in bytes."""

OUT: Final = "edge>next"
IN: Final = "previous>edge"
"""The link with the policy in the scenarios of `perhop import`, by the policy's direction."""

READERS: Final[tuple[tuple[Callable[[str], bool], Callable[[Source], list[Reading]]], ...]] = (
    (ios.applies, ios.read),
    (junos_xml.applies, junos_xml.read),
    (junos.applies, junos.read),
    (pf.applies, pf.read),
    (tc.applies, tc.read),
)
"""For each family, whether a text has its counters, and the reader."""

_SECOND: Final = 10**12

_Key = tuple[str, str, "Direction | None", str]
"""Family, interface, direction and policy."""

_Groups = dict[_Key, dict[str, list[Reading]]]
"""Readings by command."""


@dataclass(frozen=True, slots=True)
class Counted:
    """What was counted at one interface in one direction.

    Attributes:
        family: ``ios``, ``junos``, ``tc`` or ``pf``.
        interface: The interface as the router spells it; "" if its output does not name it.
        direction: The packets that are counted; None if the output does not tell.
        policy: The policy, if several count at the interface in this direction; "" otherwise.
        classes: The counters of each class, by path; what the router does not print is not there.
        readings: 1: since the counters were cleared; 2: between two readings.
        over_s: The time in which it was counted, by the router's clock; None if unknown.
        notes: Classes that only one of the readings has, and lines that were not read.
    """

    family: str
    interface: str
    direction: Direction | None
    policy: str
    classes: Mapping[str, Counts]
    readings: int
    over_s: float | None
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Return the interface, direction and policy in words."""
        at = quote(self.interface)[1:-1] or "the interface"
        way = self.direction or "direction unknown"
        return f"{at}, {way}, policy {self.policy}" if self.policy else f"{at}, {way}"


def read(files: Sequence[str | os.PathLike[str]]) -> tuple[Counted, ...]:
    """Return what the outputs of routers in some files count, by interface and direction.

    If there are several readings of an interface, in one file or in several, the result is the
    difference between the first and the last one. Policies of different names at one interface are
    apart.

    Raises:
        UsageError: A file cannot be read, has no counters, or has smaller ones than an earlier one.
    """
    groups: _Groups = {}
    for file in files:
        try:
            text = source(read_file(str(file), MAX_SIZE), str(file))
        except ValueError as error:
            raise UsageError(f"{file}: {error}") from None
        for reading in _readings(text):
            key = (reading.family, reading.interface, reading.direction, reading.policy)
            groups.setdefault(key, {}).setdefault(reading.command, []).append(reading)
    _name_tc(groups)
    several = Counter(key[:3] for key in groups)
    return tuple(
        _counted(key if several[key[:3]] > 1 else (*key[:3], ""), found)
        for key, found in groups.items()
    )


def _readings(text: Source) -> list[Reading]:
    for applies, of in READERS:
        if applies(text.text) and (found := of(text)):
            return found
    raise UsageError(
        f"{text.file}:1: has no counters; expected the output of `show policy-map interface`, "
        "`show interfaces queue`, `show firewall` (as text or XML), `tc -s qdisc`, `tc -s class` "
        f"or `pfctl -vsq`{junos.hint(text.text)}"
    )


def _name_tc(groups: _Groups) -> None:
    """Join the outputs of tc for one interface: only some of them name it."""
    unnamed = groups.get(("tc", "", "out", ""))
    others = [key for key in groups if key[0] == "tc" and key[1]]
    if unnamed and len(others) == 1 and not unnamed.keys() & groups[others[0]].keys():
        groups[others[0]] |= groups.pop(("tc", "", "out", ""))


def _counted(key: _Key, commands: dict[str, list[Reading]]) -> Counted:
    found = []
    notes = []
    over = None
    for readings in commands.values():
        first, last = readings[0], readings[-1]
        notes += last.unread
        if len(readings) == 1:
            found.append(last)
            continue
        found.append(difference(first, last))
        if first.at is not None and last.at is not None and last.at > first.at:
            over = (last.at - first.at).total_seconds()
        notes += [
            f"{last.place}: only one of the two readings has class {path}"
            for path in sorted(first.classes.keys() ^ last.classes.keys())[:20]
        ]
    if key[0] == "tc":
        classes = tc.named(found)
    else:
        classes = {}
        for reading in found:
            for path, counts in reading.classes.items():
                classes[path] = classes.get(path, {}) | counts
    several = min(2, max(map(len, commands.values())))
    return Counted(*key, classes, several, over, tuple(notes))


def dataset(
    counted: Mapping[str, Counted], name: str, over_ps: int | None, files: Sequence[str]
) -> Dataset:
    """Return counters as a dataset of engine `router`.

    Its scenario has the links and nothing else: the traffic is unknown, and so are the rates.

    Args:
        counted: What was counted at the end of each directed link, such as ``edge>next``.
        name: A name for the scenario.
        over_ps: The time in which it was counted, in picoseconds; by default that which the
            router's clock tells.
        files: The names of the files, for the description.

    Raises:
        UsageError: The time is unknown, or differs between interfaces, or a link has no two ends.
    """
    if over_ps is None:
        times = {each.over_s for each in counted.values()}
        known = times.pop() if len(times) == 1 else None
        if known is None:
            raise UsageError(
                "the time in which this was counted is unknown: give it with --over, such as "
                "`--over 5min`"
            )
        over_ps = round(known * _SECOND)
    if over_ps > MAX_DURATION:
        raise UsageError(f"{files[-1]}: its readings are further apart than 200 days")
    nodes = {end: "router" for link in counted for end in _ends(link)}
    pairs = dict.fromkeys(tuple(sorted(_ends(link))) for link in counted)
    at = "; ".join(f"{link} is {each.name}" for link, each in counted.items())
    described = f"{at}\n\nCounted by a router. Traffic, and rates of links, are unknown."
    scenario = Scenario.model_validate(
        {
            "perhop": 1,
            "name": name,
            "title": f"Counters of {', '.join(each.name for each in counted.values())}"[:200],
            "description": described,
            "nodes": nodes,
            "links": [{"ends": list(pair), "rate": "100 Gbps"} for pair in pairs],
            "duration": f"{max(over_ps // 10**6, 1)} us",
        }
    )
    end = scenario.end_ps / _SECOND
    rows = [
        {"link": link, "class": path, "start_s": 0.0, "end_s": end, **_row(counts)}
        for link, each in counted.items()
        for path, counts in each.classes.items()
    ]
    tables = {table: pl.DataFrame(schema=schema) for table, schema in TABLES.items()}
    tables["queues"] = pl.DataFrame(rows, schema=TABLES["queues"], orient="row")
    manifest = Manifest(
        perhop=version("perhop"),
        engine=ROUTER,
        seed=0,
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        wall_s=0.0,
        duration_s=end,
        complete=True,
        host=Host(
            system=f"{platform.system()} {platform.release()}",
            machine=platform.machine(),
            python=platform.python_version(),
        ),
        counters={"files": len(files)},
        warnings=tuple(
            Warned(path="", message=note) for each in counted.values() for note in each.notes
        ),
    )
    return Dataset(scenario, manifest, **tables)


def _row(counts: Counts) -> dict[str, int]:
    known = TABLES["queues"]
    return {name: value for name, value in counts.items() if name in known and value < LARGEST}


def _ends(link: str) -> tuple[str, str]:
    first, _, second = link.partition(">")
    if first == second or any(scenario_name(end) != end for end in (first, second)):
        raise UsageError(f"{quote(link)} is not a directed link; expected one such as `{OUT}`")
    return first, second


def as_object(counted: Sequence[Counted]) -> list[dict[str, Any]]:
    """Return counters as objects of JSON types."""
    return [
        {
            "family": each.family,
            "interface": each.interface or None,
            "direction": each.direction,
            "policy": each.policy or None,
            "readings": each.readings,
            "over_s": each.over_s,
            "classes": {path: dict(counts) for path, counts in each.classes.items()},
            "notes": list(each.notes),
        }
        for each in counted
    ]
