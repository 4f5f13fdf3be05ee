"""What every dataset conserves: bits of links, packets of classes, and no more than was offered.

`watch` checks each dataset that tests make or read; `conftest.py` starts it for all tests.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from math import ceil, inf, isnan, nan
from operator import itemgetter
from typing import Any, Final

import polars as pl

from datasets import MADE_UP
from perhop.dataset import Dataset
from perhop.scenario import Scenario
from perhop.scenario.resolve import steps

_ROUNDING: Final = 1e-6
_KEYS: Final = ("link", "start_s", "end_s")
_SUMMED: Final = ("sent_packets", "sent_bytes", "backlog_packets", "backlog_bytes")

faults: Final[list[str]] = []
"""What datasets did not conserve since a test last looked."""

_trusted = 0
"""The number of blocks that make false data on purpose."""


def watch() -> None:
    """Check every dataset of this process from now on, and add to `faults` what it breaks.

    Workers are forks: they raise, because their `faults` are lost with them.
    """
    process, check = os.getpid(), Dataset.__post_init__

    def checked(dataset: Dataset) -> None:
        check(dataset)
        if _trusted or dataset.manifest.started == MADE_UP:
            return
        wrong = [f"{dataset!r}: {each}" for each in broken(dataset)]
        if wrong and os.getpid() != process:
            raise AssertionError("\n".join(wrong))
        faults.extend(wrong)

    Dataset.__post_init__ = checked  # type: ignore[method-assign]


@contextmanager
def false_data() -> Iterator[None]:
    """Leave datasets unchecked that a test falsifies. Those of `datasets.dataset` always are."""
    global _trusted
    _trusted += 1
    try:
        yield
    finally:
        _trusted -= 1


def broken(dataset: Dataset) -> list[str]:
    """Return what a dataset does not conserve, in words; empty if it conserves everything.

    * A link is busy for the bits that it sent, at its rate at the time.
    * The outermost classes of a link send what the link sends.
    * Nested classes send and hold what the class around them does.
    * Packets that came to a class were sent, were dropped, or wait in it.
    * A policer counts every packet that comes to it, once.
    * A tunnel takes what its device sends.
    * A router sends, drops and keeps no more packets than links have brought it.
    * A host receives no more packets than links have brought it, and no more than was offered.

    What is unknown conserves. It is NaN, which is neither more nor less than anything.
    """
    outer, spare = _outer(dataset), _spare(dataset)
    brought = _brought(dataset, spare)
    return [
        *_busy(dataset),
        *_classes_of_links(dataset, outer, spare),
        *_nested(dataset),
        *_policed(dataset),
        *_devices(dataset, outer),
        *_routers(dataset, outer, brought),
        *_hosts(dataset, brought),
        *_flows(dataset),
    ]


Key = tuple[str, float, float]
"""A link, and the start and end of a stretch."""


def _rows(table: pl.DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    """Return some columns of a table, in order of time.

    Lists of Python, because a query of Polars takes longer than a loop over the rows of a test.
    """
    values = []
    for name in ("start_s", *columns):
        column = table[name]
        values.append([nan if value is None else value for value in column.to_list()])
    return [row[1:] for row in sorted(zip(*values, strict=True), key=itemgetter(0))]


def _busy(dataset: Dataset) -> Iterator[str]:
    rates: dict[str, list[tuple[float, int]]] = {
        name: [(0.0, link.medium(node).rate)]
        for name, (link, node) in dataset.scenario.directions.items()
        if not link.trace and link.channel is None
    }
    for step in steps(dataset.scenario):
        for name, node in step.rewired:
            if name in rates:
                rates[name].append((step.change.at / 1e12, step.link.medium(node).rate))
    for name, start, end, sent, busy in _rows(dataset.links, *_KEYS, "sent_bytes", "utilisation"):
        if name not in rates:
            continue
        possible = sum(
            max(min(end, until) - max(start, since), 0.0) * rate
            for (since, rate), (until, _) in pairwise([*rates[name], (inf, 0)])
        )
        share = sent * 8 / possible
        if dataset.manifest.engine == "kernel":
            share = min(share, 1.0)  # a burst of tokens leaves faster than its link
        if abs(busy - share) > _ROUNDING * max(share, 1.0):
            yield f"{_at(name, start, end)} is busy {busy}, and sent {share} of what it can"


def _outer(dataset: Dataset) -> dict[Key, tuple[float, float, float]]:
    """Return the packets that all classes of each link sent, dropped and hold."""
    sums: dict[Key, tuple[float, float, float]] = {}
    counters = ("sent_packets", "dropped_packets", "backlog_packets")
    for name, start, end, class_, sent, dropped, waits in _rows(
        dataset.queues, *_KEYS, "class", *counters
    ):
        if "/" not in class_:
            before = sums.get((name, start, end), (0, 0, 0))
            sums[name, start, end] = before[0] + sent, before[1] + dropped, before[2] + waits
    return sums


def _spare(dataset: Dataset) -> dict[str, int]:
    """Return the packets that each link may send while Linux's counters are read.

    `sim` and `emu` read all counters of their network at one instant. `kernel` reads those of one
    namespace after the other, for as long as its manifest says; meanwhile packets pass, twice as
    many as usual if they are short.
    """
    reading_s = dataset.manifest.counters.get("reading_us", 0) / 1e6
    if not reading_s:
        return {}
    sums = dataset.links.group_by("link").agg(pl.sum("sent_bytes"), pl.sum("sent_packets"))
    directions = dataset.scenario.directions
    return {
        name: ceil(2 * directions[name][0].capacity(directions[name][1]) * reading_s / 8 / size)
        for name, size in ((name, size / (count or nan)) for name, size, count in sums.iter_rows())
        if size > 0
    }


def _driver_queues(scenario: Scenario, name: str) -> bool:
    link, node = scenario.directions[name]
    policy = scenario.policies.get(link.egress.get(node) or "")
    return policy is not None and policy.cbq is not None and not policy.cbq.kick


def _classes_of_links(
    dataset: Dataset, outer: Mapping[Key, tuple[float, float, float]], spare: Mapping[str, int]
) -> Iterator[str]:
    apart: dict[str, float] = {}
    for *key, sent in _rows(dataset.links, *_KEYS, "sent_packets"):
        name, start, end = key
        of_classes, _, _ = outer.get((name, start, end), (nan, nan, nan))
        apart[name] = apart.get(name, 0) + of_classes - sent
        # A packet may have left its class, and not yet begun on the link; any number may wait in a
        # driver that takes what it is given.
        least, most = -spare.get(name, 0), 1 + spare.get(name, 0)
        most = inf if _driver_queues(dataset.scenario, name) else most
        if apart[name] < least or apart[name] > most:
            said = f"classes sent {apart[name]:+} packets more than the link"
            yield f"{_at(name, start, end)}: {said}"


def _nested(dataset: Dataset) -> Iterator[str]:
    if not any("/" in class_ for class_ in dataset.queues["class"].unique()):
        return
    of_class: dict[tuple[Key, str], list[float]] = {}
    inside: dict[tuple[Key, str], list[float]] = {}
    for name, start, end, class_, *counts in _rows(dataset.queues, *_KEYS, "class", *_SUMMED):
        key = (name, start, end)
        of_class[key, class_] = counts
        around = class_.rpartition("/")[0]
        if around:
            sums = inside.setdefault((key, around), [0] * len(_SUMMED))
            inside[key, around] = [a + b for a, b in zip(sums, counts, strict=True)]
    for (key, class_), sums in inside.items():
        counts = of_class[key, class_]
        for what, whole, parts in zip(_SUMMED, counts, sums, strict=True):
            if whole < parts or whole > parts:
                yield f"{_at(*key)}, {class_}: {what} {whole}, inside {parts}"


def _policed(dataset: Dataset) -> Iterator[str]:
    waiting: dict[tuple[str, str], float] = {}
    before_classes = {
        name for policy in dataset.scenario.policies.values() for name in policy.policers
    }
    judged_by = [f"{name}_packets" for name in ("conformed", "exceeded", "violated")]
    counters = ("class", "sent_packets", "dropped_packets", "backlog_packets", *judged_by)
    for name, start, end, class_, sent, dropped, waits, *judged in _rows(
        dataset.queues, *_KEYS, *counters
    ):
        if class_ in before_classes:
            continue  # what conforms goes on to a class
        before, waiting[name, class_] = waiting.get((name, class_), 0), waits
        came, counted = sent + dropped + waits - before, sum(judged)
        if counted > 0 and (came < counted or came > counted):
            said = f"{came} packets came, a policer counted {counted}"
            yield f"{_at(name, start, end)}, {class_}: {said}"


def _devices(dataset: Dataset, outer: Mapping[Key, tuple[float, float, float]]) -> Iterator[str]:
    if "reading_us" in dataset.manifest.counters or _divides(dataset.scenario):
        return  # the counters of one instant of the same packets alone
    devices = {
        (device.name, node): name for name, (device, node) in dataset.scenario.devices.items()
    }
    lost = ("dropped_too_long", "dropped_no_route")
    counters = ("tunnel", "entry", "start_s", "end_s", "encapsulated_packets", *lost)
    apart: dict[str, tuple[float, float]] = {}
    for tunnel, entry, start, end, entered, *dropped in _rows(dataset.tunnels, *counters):
        name = devices.get((tunnel, entry))
        if name is None:
            continue
        sent, _, _ = outer[name, start, end]
        before = apart.get(name, (0, 0))
        least, most = apart[name] = before[0] + sent - entered, before[1] + sum(dropped)
        # A packet takes a picosecond from the device, and some are lost before it.
        if least < 0 or least > most + 1:
            yield f"{_at(name, start, end)}: sent {least:+} packets more than entered"


def _brought(dataset: Dataset, spare: Mapping[str, int]) -> dict[tuple[str, float], float]:
    """Return the packets that links have brought each node until the end of each stretch."""
    directions = dataset.scenario.directions.items()
    ends = {name: link.other(node) for name, (link, node) in directions}
    counters = ("sent_packets", "lost_packets", "duplicated_packets")
    so_far: dict[str, float] = {}
    brought: dict[tuple[str, float], float] = {}
    for name, end, sent, lost, copies in _rows(dataset.links, "link", "end_s", *counters):
        so_far[name] = so_far.get(name, spare.get(name, 0)) + sent - lost + copies
        key = (ends[name], end)
        brought[key] = brought.get(key, 0) + so_far[name]
    return brought


def _routers(
    dataset: Dataset,
    outer: Mapping[Key, tuple[float, float, float]],
    brought: Mapping[tuple[str, float], float],
) -> Iterator[str]:
    scenario = dataset.scenario
    if _divides(scenario):
        return
    so_far: dict[str, float] = {}
    came: dict[tuple[str, float], float] = {}
    for (name, _, end), (sent, dropped, waits) in outer.items():
        # What a tunnel's device sends comes to the queue of a link.
        on = sent if name in scenario.directions else 0
        so_far[name] = so_far.get(name, 0) + on + dropped
        key = (scenario.queueing[name][1], end)
        came[key] = came.get(key, 0) + so_far[name] + waits
    for (node, end), packets in came.items():
        arrived = brought.get((node, end), nan)
        if scenario.nodes[node].kind == "router" and packets > arrived:
            yield f"{node} until {end} s: {arrived} packets came, {packets} went on"


def _known(count: float) -> int:
    """Return a count, or 0 if it is unknown: what is known of a flow is no more than all of it."""
    return 0 if isnan(count) else int(count)


def _divides(scenario: Scenario) -> bool:
    """Return whether nodes may divide datagrams: fragments are more packets."""
    short = bool(scenario.tunnels) or any(link.mtu for link in scenario.links)
    return short and (
        bool(scenario.pings) or any(flow.datagrams for flow in scenario.flows.values())
    )


def _hosts(dataset: Dataset, brought: Mapping[tuple[str, float], float]) -> Iterator[str]:
    to = {name: flow.destination for name, flow in dataset.scenario.flows.items()}
    arrived: dict[str, dict[float, int]] = {}
    for flow, end, packets in _rows(dataset.intervals, "flow", "end_s", "packets"):
        at = arrived.setdefault(to[flow], {})
        at[end] = at.get(end, 0) + _known(packets)
    for node, at in arrived.items():
        total = 0
        for end, packets in at.items():
            total += packets
            if total > brought.get((node, end), nan):
                came = f"{brought[node, end]} packets came, {total} of flows arrived"
                yield f"{node} until {end} s: {came}"


def _flows(dataset: Dataset) -> Iterator[str]:
    """Datagrams at equal intervals, and streams with a volume, have a known offer."""
    scenario, engine = dataset.scenario, dataset.manifest.engine
    gaps, volumes = {}, {}
    for name, flow in scenario.flows.items():
        if flow.volume is not None:
            volumes[name] = flow.volume * flow.all_streams
        udp = flow.udp
        equal = udp is not None and (udp.pattern, udp.sizes) == ("constant", "equal")
        # A client of iperf3 sends datagrams that are due soon at once.
        if udp is not None and equal and udp.rate and engine != "iperf3":
            gaps[name] = udp.size * 8 / udp.rate
    if not gaps and not volumes:
        return
    so_far: dict[str, tuple[int, int]] = {}
    for name, end, *counts in _rows(dataset.intervals, "flow", "end_s", "bytes", "packets", "lost"):
        size, packets, lost = map(_known, counts)
        before = so_far.get(name, (0, 0))
        total, count = so_far[name] = before[0] + size, before[1] + packets + lost
        if total > volumes.get(name, inf):
            yield f"{name} until {end} s: {total} B arrived, {volumes[name]} B were offered"
        if name in gaps:
            flow = scenario.flows[name]
            stop = min(end, scenario.active_ps(flow)[1] / 1e12)
            spans = (stop - start / 1e12 for start in flow.starts)
            most = sum(int(span / gaps[name] + _ROUNDING) + 1 for span in spans if span >= 0)
            if count > most * flow.streams:
                said = f"{count} packets arrived or were lost, {most * flow.streams} were offered"
                yield f"{name} until {end} s: {said}"


def _at(name: str, start: float, end: float) -> str:
    return f"{name}, {start} to {end} s"
