"""What changes for each class from one policy to another: both run under the same traffic."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from perhop import analysis, engines, gallery
from perhop.errors import ScenarioError, UsageError
from perhop.routers.headers import DESTINATION, DSCP, PORT, PROTOCOLS, SOURCE, Shared, shared
from perhop.routers.reading import detect, scenario_name, select
from perhop.routers.reading.selection import policy as policy_of
from perhop.routers.scenario import (
    FAST,
    FIRST_PORT,
    RECEIVER,
    SENDER,
    Traffic,
    is_strict,
    marks,
    network,
    phase_ps,
    rates,
)
from perhop.scenario import format_dscp
from perhop.scenario.reading.document import Document
from perhop.scenario.reading.loader import to_mapping, validated
from perhop.units import format_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from perhop.analysis import ComparedQuantity, RunComparison
    from perhop.engines import Progress
    from perhop.routers.headers import ClassPath
    from perhop.routers.reading import Attachment, Configuration, Direction
    from perhop.scenario import Scenario

__all__ = [
    "Difference",
    "Load",
    "Moved",
    "Row",
    "Side",
    "as_object",
    "changes",
    "compare",
    "rows",
]

ALONE: Final = "each class alone"
WITHOUT_STRICT: Final = "all classes that are not strict"
TOGETHER: Final = "all classes together"
"""Loads of a comparison of configurations."""

OWN: Final = "the scenario's own traffic"
"""The load of a comparison with a scenario."""

NOTABLE: Final = 0.01
"""A change of throughput that `changes` returns, in parts of the first value."""

GAP: Final = 10
"""Between two flows of `ALONE`: this part of a flow's time, so that queues drain."""


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a comparison.

    Attributes:
        file: A scenario, or the configuration of a router.
        is_configuration: True for a configuration.
        family: The family of the configuration; detected by default.
        interface: The interface whose policy is meant; by default the first with a policy.
        direction: The direction of the policy.
        rate: The rate of the interface in bit/s; by default that in the configuration.
    """

    file: str
    is_configuration: bool = False
    family: str | None = None
    interface: str | None = None
    direction: Direction | None = None
    rate: int | None = None


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


def compare(
    old: Side, new: Side, *, seed: int = 1, watch: Callable[[Progress], None] | None = None
) -> Difference:
    """Run two policies under the same traffic.

    Configurations get flows that saturate each class alone, all classes that are not strict, and
    all together. A scenario runs with its own traffic; the first one's if both are scenarios. A
    configuration beside a scenario takes the place of its only policy.

    Args:
        old: The policy before the change.
        new: The policy after it.
        seed: The seed of random numbers.
        watch: A function to call with the progress of each run.

    Raises:
        UsageError: A file cannot be read, has no such policy, or the two do not fit each other.
        ScenarioError: A policy is not one that perhop can run.
    """
    names = _names(old.file, new.file)
    run = _Runs(names, seed, watch)
    if not old.is_configuration and not new.is_configuration:
        first = gallery.load(old.file)
        pair = (
            _with_traffic(scenario, first, side.file, old.file)
            for scenario, side in ((first, old), (gallery.load(new.file), new))
        )
        return Difference(names, (run(OWN, *pair),), {}, (), ())
    if old.is_configuration and new.is_configuration:
        return _configurations(_Placed.of(old), _Placed.of(new), names, run)
    scenario, configuration = (new, old) if old.is_configuration else (old, new)
    remarks: list[str] = []
    loaded = _bare(gallery.load(scenario.file))
    changed = _in_place(loaded, scenario.file, configuration, remarks)
    same = _with_traffic(loaded, loaded, scenario.file, scenario.file)
    ordered = (changed, same) if old.is_configuration else (same, changed)
    return Difference(names, (run(OWN, *ordered),), {}, (), tuple(remarks))


def _names(old: str, new: str) -> tuple[str, str]:
    """Return short distinct names of two files."""
    first, second = Path(old).name, Path(new).name
    if first == second:
        first, second = old, new
    return (first, second) if first != second else (f"{first} (old)", f"{second} (new)")


@dataclass(slots=True)
class _Runs:
    """Runs two scenarios and compares them.

    Attributes:
        names: Names of the two sides.
        seed: The seed.
        watch: A function to call with the progress of each run.
    """

    names: tuple[str, str]
    seed: int
    watch: Callable[[Progress], None] | None

    def __call__(self, load: str, *scenarios: Scenario) -> Load:
        """Run both scenarios."""
        datasets = []
        for scenario in scenarios:
            datasets.append(engines.run(scenario, seed=self.seed, watch=self.watch))
            if not datasets[-1].manifest.complete:
                raise KeyboardInterrupt
        return Load(load, analysis.compare(datasets, self.names))


# Scenarios


def _bare(scenario: Scenario) -> Scenario:
    """Return a scenario without expectations and published values."""
    return scenario.model_copy(update={"expect": (), "published": ()})


def _with_traffic(scenario: Scenario, of: Scenario, file: str, of_file: str) -> Scenario:
    """Return a scenario with the traffic and the duration of another one."""
    mapping = to_mapping(_bare(scenario))
    other = to_mapping(of)
    for section in ("flows", "pings", "duration", "report"):
        mapping.pop(section, None)
        if section in other:
            mapping[section] = other[section]
    _accept_unused(mapping)
    try:
        return validated(Document(file, mapping))
    except ScenarioError as error:
        raise UsageError(
            f"{file} does not run with the traffic of {of_file}: {error.problems[0]}"
        ) from None


def _accept_unused(mapping: dict[str, Any]) -> None:
    """Mark every class of a scenario as `unused`: the traffic need not be its own."""
    todo = list(mapping.get("policies", {}).values())
    while todo:
        for class_ in todo.pop()["classes"].values():
            class_["unused"] = True
            if "classes" in class_:
                todo.append(class_)


def _in_place(scenario: Scenario, file: str, side: Side, remarks: list[str]) -> Scenario:
    """Return a scenario with the policy of a configuration in place of its only one."""
    used = {name for link in scenario.links for name in link.egress.values()}
    if len(used) != 1:
        raise UsageError(
            f"{file}: {len(used)} policies are at its links; expected one, which that of "
            f"{side.file} can replace, or a scenario with {{from: {side.file}}}"
        )
    [name] = used
    configuration = detect.read([side.file], side.family)
    attachment = _selected(configuration, side)
    mapping = to_mapping(scenario)
    policy = policy_of(configuration, attachment, unused=True)
    mapping["policies"] = {**mapping["policies"], name: policy}
    if attachment.shape is not None:
        remarks.append(f"{attachment.place(())}: the shaper of the interface does not take part")
    _accept_unused(mapping)
    document = Document(side.file, mapping, marks(replace(attachment, name=name)))
    return validated(document)


# Configurations


def _selected(configuration: Configuration, side: Side) -> Attachment:
    return select(
        configuration,
        side.file,
        interface=side.interface,
        direction=side.direction,
        any_of_several=True,
    )


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
        configuration = detect.read([side.file], side.family)
        attachment = _selected(configuration, side)
        policy = policy_of(configuration, attachment, unused=True)
        return cls(side, configuration, attachment, policy)


def _configurations(old: _Placed, new: _Placed, names: tuple[str, str], run: _Runs) -> Difference:
    """Compare two configurations under traffic that reaches every class of both."""
    remarks: list[str] = []
    sides = (old, new)
    known = [each.side.rate or each.attachment.rate for each in sides]
    # The interface is the same one: where one side does not tell its rate, the other one may.
    spare = next((rate for rate in known if rate), None)
    links = [
        rates(each.attachment, each.side.file, each.side.rate or (rate or spare), remarks)
        for each, rate in zip(sides, known, strict=True)
    ]
    capacity = max(capacity for _, capacity in links)
    chosen, moved = _flows(old.policy, new.policy, names, remarks)
    strict = {
        name
        for name, each in chosen.items()
        if is_strict(old.policy, each.old) or is_strict(new.policy, each.new)
    }
    traffic = Traffic()
    for name, each in chosen.items():
        traffic.add(name, each.headers, strict=name in strict, capacity=capacity)
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
    turns = {}
    turn = max(2 * length // max(len(chosen), 2), min(length, phase_ps(10**10)))
    for number, name in enumerate(chosen):
        start = number * (turn + turn // GAP)
        turns[name] = (start, start + turn)
    loads.append((ALONE, turns, len(chosen) * (turn + turn // GAP)))
    if strict and loose:
        loads.append((WITHOUT_STRICT, dict.fromkeys(loose, (0, length)), length))
    loads.append((TOGETHER, dict.fromkeys(chosen, (0, length)), length))
    return Difference(
        names,
        tuple(run(load, *scenarios(load, senders, end)) for load, senders, end in loads),
        {name: ("/".join(each.old), "/".join(each.new)) for name, each in chosen.items()},
        tuple(moved),
        tuple(remarks),
    )


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
    return Document(placed.side.file, mapping, marks(placed.attachment))


def _flows(
    old: dict[str, Any], new: dict[str, Any], names: tuple[str, str], remarks: list[str]
) -> tuple[dict[str, Shared], list[Moved]]:
    """Return a flow for each class of both policies, and other packets that change their class.

    A class has a flow of packets that belong to its partner, too, if there are such packets; or
    else to the last class of the other policy that has some of them.
    """
    common: dict[tuple[ClassPath, ClassPath], Shared] = {
        (each.old, each.new): each for each in shared(old, new)
    }
    partners = _partners(old, new, common)
    kept: dict[tuple[ClassPath, ClassPath], Shared] = {}
    for side, policy in enumerate((old, new)):
        for path in _paths(policy, ()):
            if any(pair[side] == path for pair in kept):
                continue
            pairs = [pair for pair in common if pair[side] == path]
            best = next((pair for pair in pairs if pair in partners), pairs[-1] if pairs else None)
            if best is None:
                remarks.append(
                    f"{names[side]}: class {'/'.join(path)} has no flow: no packet that hosts send "
                    "over IPv4 from a source port of their choice reaches it"
                )
            else:
                kept[best] = common[best]
    chosen: dict[str, Shared] = {}
    for (first, second), each in kept.items():
        taken = {*chosen, "total"}
        path = first if "-".join(first) not in taken else second
        chosen[scenario_name("-".join(path), taken)] = each
    moved = [
        Moved(_packets(each), "/".join(each.old), "/".join(each.new))
        for pair, each in common.items()
        if pair not in kept
    ]
    return chosen, moved


def _partners(
    old: dict[str, Any],
    new: dict[str, Any],
    common: Iterable[tuple[ClassPath, ClassPath]],
) -> set[tuple[ClassPath, ClassPath]]:
    """Pair classes: by name, or else by their match, or else if they have packets in common."""
    found: set[tuple[ClassPath, ClassPath]] = set()
    rules: Sequence[Callable[[ClassPath, ClassPath], bool]] = (
        lambda a, b: a == b,
        lambda a, b: _plain(a) == _plain(b),
        lambda a, b: _match(old, a) == _match(new, b),
        lambda *_: True,
    )
    common = list(common)
    for same in rules:
        firsts, seconds = {a for a, _ in found}, {b for _, b in found}
        free = [pair for pair in common if pair[0] not in firsts and pair[1] not in seconds]
        for a, b in free:
            if a not in firsts and b not in seconds and same(a, b):
                found.add((a, b))
                firsts.add(a)
                seconds.add(b)
    return found


def _plain(path: ClassPath) -> str:
    """Return the name of a class without what differs between families: case, `_`, `class`."""
    return path[-1].lower().replace("_", "-").removeprefix("class-")


def _paths(policy: Mapping[str, Any], above: ClassPath) -> Iterator[ClassPath]:
    """Yield the classes of a policy that have no classes inside."""
    for name, class_ in policy["classes"].items():
        if "classes" in class_:
            yield from _paths(class_, (*above, name))
        else:
            yield (*above, name)


def _match(policy: Mapping[str, Any], path: ClassPath) -> list[Any]:
    """Return the matches of a class and of those that contain it."""
    found, inside = [], policy
    for name in path:
        inside = inside["classes"][name]
        found.append(inside.get("match"))
    return found


def _packets(each: Shared) -> str:
    """Return an example of packets in words."""
    box = each.headers
    words = [f"DSCP {format_dscp(box.first(DSCP, [0]))}"]
    if len(box.protocols) < len(PROTOCOLS):
        words.append("/".join(box.protocols))
    if not box.allows(PORT, FIRST_PORT):
        words.append(f"port {box.first(PORT)}")
    for index, kind, usual in ((SOURCE, "from", SENDER), (DESTINATION, "to", RECEIVER)):
        if not box.allows(index, int(usual)):
            words.append(f"{kind} {box.address(index, [])}")
    return ", ".join(words)
