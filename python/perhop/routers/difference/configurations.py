"""Two configurations under traffic that reaches every class of both."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from perhop.routers.difference.flows import flows
from perhop.routers.difference.results import Difference
from perhop.routers.network import FAST, network, rates
from perhop.routers.reading import caution, scenario_name
from perhop.routers.reading.selection import policy as policy_of
from perhop.routers.scenario import marks
from perhop.routers.traffic import Traffic, is_strict, phase_ps
from perhop.scenario.reading.document import Document
from perhop.scenario.reading.loader import validated
from perhop.units import format_duration

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from perhop.routers.difference.sides import Runs, Side
    from perhop.routers.reading import Attachment, Configuration
    from perhop.scenario import Scenario

ALONE: Final = "each class alone"
WITHOUT_STRICT: Final = "all classes that are not strict"
TOGETHER: Final = "all classes together"
"""Loads of a comparison of configurations."""

MOST_ALONE: Final = 100
"""The most runs of `ALONE`. Each class has one of its own, so that it meets no packets of another
class; if there are more classes, several take turns in a run, with as much time to drain between
them."""


@dataclass(frozen=True, slots=True)
class _Placed:
    """A policy of a configuration.

    Attributes:
        side: The side of the comparison.
        configuration: All that the configuration says.
        attachment: The policy.
        policy: The policy as scenarios have it.
    """

    side: Side
    configuration: Configuration
    attachment: Attachment
    policy: dict[str, Any]

    @classmethod
    def of(cls, side: Side) -> _Placed:
        """Read a configuration."""
        configuration, attachment = side.read()
        policy = policy_of(configuration, attachment, unused=True)
        return cls(side, configuration, attachment, policy)

    @property
    def rate(self) -> int | None:
        """The rate of the interface in bit/s, if it is known."""
        return self.side.rate or self.attachment.rate

    def at(self, rate: int | None) -> _Placed:
        """Return the policy at an interface of `rate` bit/s, if its own rate is unknown."""
        if rate is None or self.rate is not None:
            return self
        return _Placed.of(replace(self.side, rate=rate))


def compare_configurations(one: Side, other: Side, names: tuple[str, str], run: Runs) -> Difference:
    """Compare two configurations under traffic that reaches every class of both."""
    old, new = _Placed.of(one), _Placed.of(other)
    sides_of_files = ((names[0], old), (names[1], new))
    remarks = [
        f"warning: {name}: {said}"
        for name, each in sides_of_files
        if (said := caution(each.configuration)) is not None
    ]
    # The interface is the same one: where one side does not tell its rate, the other one may.
    spare = old.rate or new.rate
    sides = old, new = old.at(spare), new.at(spare)
    links = [rates(each.attachment, each.side.file, each.rate, remarks) for each in sides]
    capacity = max(capacity for _, capacity in links)
    chosen, moved = flows(old.policy, new.policy, names, remarks)
    strict = {
        name
        for name, each in chosen.items()
        if is_strict(old.policy, each.old) or is_strict(new.policy, each.new)
    }
    traffic = Traffic()
    traffic.reserve(each.headers for each in chosen.values())
    for name, each in list(chosen.items()):
        why = traffic.add(name, each.headers, strict=name in strict, capacity=capacity)
        if why:
            remarks.append(f"{names[0]}: class {'/'.join(each.old)} has no flow: {why}")
            del chosen[name]
    fast = FAST * max(link for link, _ in links)

    def scenarios(
        load: str, senders: Mapping[str, tuple[int, int]], end: int
    ) -> Iterator[Scenario]:
        """Yield the scenarios of both sides, with senders that start and stop at given times."""
        for each, (link, _) in zip(sides, links, strict=True):
            yield validated(_document(each, traffic, link, fast, load, senders, end))

    length = phase_ps(capacity)
    loose = [name for name in chosen if name not in strict]
    loads: list[tuple[str, dict[str, tuple[int, int]], int]] = []
    if strict and loose:
        loads.append((WITHOUT_STRICT, dict.fromkeys(loose, (0, length)), length))
    loads.append((TOGETHER, dict.fromkeys(chosen, (0, length)), length))
    turn = max(2 * length // max(len(chosen), 2), min(length, phase_ps(10**10)))
    alone = (scenarios(ALONE, turns, end) for turns, end in _turns(list(chosen), turn))
    return Difference(
        names,
        (
            run.one_by_one(ALONE, alone),
            *(run(load, scenarios(load, senders, end)) for load, senders, end in loads),
        ),
        {name: ("/".join(each.old), "/".join(each.new)) for name, each in chosen.items()},
        tuple(moved),
        tuple(remarks),
    )


def _turns(names: Sequence[str], turn: int) -> Iterator[tuple[dict[str, tuple[int, int]], int]]:
    """Yield the senders of each run of `ALONE` with their times, and the end of the run.

    A run ends with its last sender: packets that are still in a queue then count in no other one.

    Args:
        names: The senders.
        turn: The time that each sends, in picoseconds.
    """
    size = max(-(-len(names) // MOST_ALONE), 1)
    for first in range(0, max(len(names), 1), size):
        part = names[first : first + size]
        turns = {name: (2 * n * turn, (2 * n + 1) * turn) for n, name in enumerate(part)}
        yield turns, max(2 * len(part) - 1, 1) * turn


def _document(
    placed: _Placed,
    traffic: Traffic,
    link: int,
    fast: int,
    load: str,
    senders: Mapping[str, tuple[int, int]],
    end: int,
) -> Document:
    """Return the scenario of a policy under a load."""
    sections: dict[str, Any] = {}
    for kind, found in traffic.sections().items():
        for name, sender in found.items():
            if name in senders:
                start, stop = map(format_duration, senders[name])
                sections.setdefault(kind, {})[name] = {**sender, "start": start, "stop": stop}
    mapping = {
        "perhop": 1,
        "name": scenario_name(Path(placed.side.file).stem),
        "title": f"{Path(placed.side.file).name}: {load}",
        **network(placed.configuration, placed.attachment, traffic, link, fast),
        "policies": {scenario_name(placed.attachment.name): placed.policy},
        **sections,
        "duration": format_duration(end),
        "report": {"interval": format_duration(end // 20)},
    }
    places = marks(placed.attachment, len(traffic.hosts[0]))
    return Document(placed.side.file, mapping, places)
