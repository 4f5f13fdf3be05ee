"""`python -m validation.hosts [--rows NAME…] [--sim] [--write]`: modelled hosts beside Linux's.

The same settings of TCP in `sim`, with `stack: linux-6`, and in `emu`, where the hosts are this
machine's kernel and the network is the simulator's. What is printed last is kept in HOSTS.md.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import statistics
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import comb
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import polars as pl

import perhop
from perhop import analysis
from perhop.scenario import Scenario

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

KEPT: Final = Path(__file__).parent / "HOSTS.md"

SEEDS: Final = range(1, 11)
"""The seeds of the runs in `sim`."""

REPETITIONS: Final = 10
"""Runs in `emu` of a setting, side by side where the machine can carry them."""

CARRIED_MBPS: Final = 400
"""Goodput that `emu` carries at once here without being late."""

CANARY_MS: Final = 1
"""Round-trip time of the path that a small request takes in each run in `emu`."""

LATE_SHARE: Final = 0.02
"""Lateness that a run in `emu` bears at the 99th percentile: a share of the round-trip time, …"""

LATE_US: Final = 300
"""… or so many microseconds, whichever is more."""

ATTEMPTS: Final = 4
"""Attempts at a run in `emu` that bears its lateness."""


@dataclass(frozen=True)
class Metric:
    """A quantity that is compared.

    Attributes:
        title: The heading of its column, with its unit.
        digits: The decimal places that are printed.
        tolerance: The greatest difference of the medians, as a share of Linux's.
        slack: The difference that is never too much, in the unit.
    """

    title: str
    digits: int
    tolerance: float
    slack: float = 0.0


METRICS: Final[Mapping[str, Metric]] = {
    "goodput": Metric("goodput (Mb/s)", 3, 0.05),
    "share": Metric("first flow's share (%)", 1, 0.1, 2.0),
    "completion": Metric("completion (ms)", 1, 0.05, 1.0),
    "completion_p90": Metric("completion, 90% (ms)", 1, 0.1, 1.0),
    "lost": Metric("lost", 0, 0.1, 2.0),
    "marked": Metric("marked", 0, 0.1, 2.0),
    "resent": Metric("retransmitted", 0, 0.1, 2.0),
    "rtt": Metric("RTT (ms)", 2, 0.1, 0.3),
    "ping": Metric("ping (ms)", 2, 0.1, 0.3),
}


@dataclass(frozen=True)
class Part:
    """One instance of a setting's network and traffic, as a scenario writes them.

    Attributes:
        nodes, links, flows, pings, policies: Keys of the scenario.
        forward: Directed links that data takes.
    """

    nodes: dict[str, Any]
    links: list[dict[str, Any]]
    flows: dict[str, Any]
    pings: dict[str, Any]
    forward: tuple[str, ...]
    policies: dict[str, Any] = field(default_factory=dict)


CANARY: Final = Part(
    nodes={"canary-a": "host", "canary-b": "host"},
    links=[{"ends": ["canary-a", "canary-b"], "rate": "1 Gbps", "delay": f"{CANARY_MS / 2} ms"}],
    flows={
        "canary": {
            "from": "canary-a",
            "to": "canary-b",
            "rpc": {"every": "15 ms", "request": "100 B", "response": "100 B"},
        }
    },
    pings={},
    forward=(),
)
"""A small request every 15 ms on a path of its own.

The network tells how late its own packets are. The canary tells how late the hosts' sockets and
programs are, too.
"""


def canary_us(dataset: perhop.Dataset) -> float:
    """Return by how much the canary's requests exceed their path, in µs: the 99th percentile.

    A request without an answer, but for those of the last half second, is late without end.
    """
    # The first one opens the connection.
    own = (pl.col("flow") == "canary") & (pl.col("opened").fill_null(0) == 0)
    calls = dataset.completions.filter(own).sort("start_s")
    started = calls["start_s"]
    if calls.is_empty():
        return float("inf")
    took = (calls["end_s"] - started).filter(started < started[-1] - 0.5).fill_null(float("inf"))
    late = took.quantile(0.99, interpolation="higher")
    return float("inf") if late is None else late * 1e6 - CANARY_MS * 1000


@dataclass(frozen=True)
class Reason:
    """Explanation of a difference.

    Attributes:
        least, most: The ratios sim / emu of the medians for which it was looked into; any other is
            a failure still.
        why: The cause, and how it was found; or what was tried.
        unsolved: Whether the cause was not found.
    """

    least: float
    most: float
    why: str
    unsolved: bool = False


@dataclass(frozen=True)
class Setting:
    """A row of the table.

    Attributes:
        name: Its name on the command line.
        title: The setting in words.
        part: A function that makes the instance of a number.
        seconds: Its duration.
        mbps: The goodput to reckon with, which says how many instances run at once.
        rtt_ms: The round-trip time without queues.
        metrics: Names of `METRICS` that are compared.
        reasons: By metric: the cause of a difference that is more than the metric's tolerance.
    """

    name: str
    title: str
    part: Callable[[int], Part]
    seconds: float
    mbps: float
    rtt_ms: float
    metrics: tuple[str, ...] = ("goodput", "lost", "resent", "rtt", "ping")
    reasons: Mapping[str, Reason] = field(default_factory=dict)

    def scenario(self, instances: Iterable[int], *, watched: bool = False) -> Scenario:
        """The scenario of some instances, which share nothing but the machine.

        Args:
            instances: Their numbers.
            watched: Whether a canary runs beside them.
        """
        parts = [self.part(number) for number in instances] + ([CANARY] if watched else [])
        merged: dict[str, dict[str, Any]] = {
            key: {name: value for part in parts for name, value in getattr(part, key).items()}
            for key in ("nodes", "flows", "pings", "policies")
        }
        return Scenario.model_validate(
            {
                "perhop": 1,
                "name": self.name,
                **{key: value for key, value in merged.items() if value},
                "links": [link for part in parts for link in part.links],
                "duration": f"{self.seconds} s",
                "report": {"interval": "1 s"},
            }
        )

    @property
    def late_us(self) -> float:
        """Lateness that a run bears at the 99th percentile, in microseconds."""
        return max(LATE_US, LATE_SHARE * self.rtt_ms * 1000)


@dataclass(frozen=True)
class Figure:
    """The median of some runs, and the interval in which the median of all runs lies.

    The interval goes from one order statistic to another, the innermost two that hold the median
    with a probability of at least 95% (or all, where there are five runs or less).
    """

    low: float
    median: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Figure:
        """The figure of at least one value."""
        ordered = sorted(values)
        rank = inner_rank(len(ordered))
        return cls(ordered[rank], statistics.median(ordered), ordered[-1 - rank])

    def text(self, digits: int) -> str:
        """Median and interval."""
        return f"{self.median:.{digits}f} [{self.low:.{digits}f}, {self.high:.{digits}f}]"


def inner_rank(runs: int, coverage: float = 0.95) -> int:
    """The greatest k for which the k-th least and k-th greatest (from 0) still hold the median.

    The number of runs below the median is binomial, whatever the distribution (H. David and
    H. Nagaraja, *Order Statistics*, 2003, section 7.1).
    """
    rank, outside = 0, 2 / 2**runs
    while outside + 2 * comb(runs, rank + 1) / 2**runs <= 1 - coverage:
        rank += 1
        outside += 2 * comb(runs, rank) / 2**runs
    return rank


def _sum(rows: pl.DataFrame, column: str) -> float:
    return float(rows[column].sum())


def measured(setting: Setting, dataset: perhop.Dataset, number: int) -> dict[str, float]:
    """Return the metrics of a dataset for one instance; NaN without a sample."""
    part = setting.part(number)
    rows = dataset.intervals.filter(pl.col("flow").is_in(list(part.flows)))
    queues = dataset.queues.filter(pl.col("link").is_in(part.forward))
    links = dataset.links.filter(pl.col("link").is_in(part.forward))
    first = rows.filter(pl.col("flow") == next(iter(part.flows)))
    total = _sum(rows, "bytes")
    srtts = [each.median for flow in part.flows if (each := analysis.flow_srtt(dataset, flow))]
    echoes = dataset.pings.filter(pl.col("ping").is_in(list(part.pings)))["rtt_s"].drop_nulls()
    took = [each for each in rows["completion_s"] if each is not None]
    nothing = float("nan")
    found = {
        "goodput": total * 8e-6 / setting.seconds,
        "share": 100 * _sum(first, "bytes") / total if total else nothing,
        "lost": _sum(queues, "dropped_packets") + _sum(links, "lost_packets"),
        "marked": _sum(queues, "marked_packets"),
        "resent": _sum(rows, "retransmits"),
        "rtt": statistics.median(srtts) * 1e3 if srtts else nothing,
        "ping": statistics.median(echoes) * 1e3 if len(echoes) else nothing,
        "completion": statistics.median(took) * 1e3 if took else nothing,
        "completion_p90": statistics.quantiles(took, n=10)[-1] * 1e3 if took else nothing,
    }
    return {metric: found[metric] for metric in setting.metrics}


def simulated(setting: Setting, seeds: Iterable[int] = SEEDS) -> list[dict[str, float]]:
    """Return the measurements of `sim`, for each seed."""
    scenario = setting.scenario([0])
    return [measured(setting, perhop.run(scenario, seed=seed), 0) for seed in seeds]


@contextmanager
def real_time() -> Iterator[None]:
    """Run this process, and the threads that it starts, before all others if it may.

    Otherwise whatever else the machine does holds the sockets' threads up for some 10 ms now and
    then: a sender sends what it has missed as one burst, which a short queue drops.
    """
    before = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except PermissionError:
        yield
        return
    try:
        yield
    finally:
        os.sched_setscheduler(0, *before)


@contextmanager
def awake() -> Iterator[None]:
    """Keep each processor busy with a process that runs when nothing else wants to.

    An idle processor of a virtual machine is given away, and comes back late: without this, a
    machine that did nothing else answered the canary up to 9 ms late, and in some runs all first
    slow starts overshot by a whole window, as their round-trip times were noise. Not with it.
    """
    spinning = (
        "import os\nos.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))\nwhile 1: pass"
    )
    busy = [subprocess.Popen([sys.executable, "-c", spinning]) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def emulated(setting: Setting) -> tuple[list[dict[str, float]], list[float], int]:
    """Return the measurements of `emu`, in each instance.

    Returns:
        The measurements; the 99th percentile of the lateness of each run, that of the network or
        of the canary, whichever is more, in microseconds; and how many runs were made again because
        they were later than they bear.
    """
    at_once = max(1, min(REPETITIONS, int(CARRIED_MBPS // setting.mbps)))
    rounds = -(-max(6, REPETITIONS // 2) // at_once) if at_once < REPETITIONS else 1
    found: list[dict[str, float]] = []
    late: list[float] = []
    again = 0
    for turn in range(rounds):
        scenario = setting.scenario(range(at_once), watched=True)
        for attempt in range(ATTEMPTS):
            with awake(), real_time():
                dataset = perhop.run(scenario, engine="emu", seed=turn + 1)
            counters = dataset.manifest.counters
            lateness = max(counters["late_p99_ns"] / 1e3, canary_us(dataset))
            lost = counters["overruns"] + counters["refused"] + counters["overflow"]
            if (lateness <= setting.late_us and not lost) or attempt == ATTEMPTS - 1:
                break
            again += 1
        late.append(lateness)
        found += [measured(setting, dataset, number) for number in range(at_once)]
    return found, late, again


@dataclass(frozen=True)
class Outcome:
    """A measured row.

    Attributes:
        setting: The setting.
        sim, emu: The figures by metric.
        late_us: The worst lateness of a run in `emu` at the 99th percentile.
        again: How many runs in `emu` were made again.
    """

    setting: Setting
    sim: dict[str, Figure]
    emu: dict[str, Figure]
    late_us: float
    again: int

    def ratio(self, metric: str) -> float:
        """The ratio of the medians, sim / emu; infinite where emu has 0."""
        own, other = self.sim[metric].median, self.emu[metric].median
        return own / other if other else (1.0 if own == 0 else float("inf"))

    def verdict(self, metric: str) -> str:
        """`in`, `spread` (out, but the intervals overlap), `explained`, `open` or `out`."""
        limits, own, other = METRICS[metric], self.sim[metric], self.emu[metric]
        difference = abs(own.median - other.median)
        if difference <= max(limits.tolerance * other.median, limits.slack):
            return "in"
        if own.low <= other.high and other.low <= own.high:
            return "spread"
        reason = self.setting.reasons.get(metric)
        if reason is not None and reason.least <= self.ratio(metric) <= reason.most:
            return "open" if reason.unsolved else "explained"
        return "out"

    def unexplained(self) -> list[str]:
        """Metrics that are out and have no reason that covers them."""
        out = [metric for metric in self.setting.metrics if self.verdict(metric) == "out"]
        return [*out, *(["lateness"] if self.late_us > self.setting.late_us else [])]

    def markdown(self) -> str:
        """Its section."""
        setting = self.setting
        marks = {"in": "yes", "out": "**no**"}
        lines = [
            f"## `{setting.name}`",
            "",
            f"{setting.title}; {setting.seconds:g} s.",
            "",
            "| | sim | emu | sim / emu | ok |",
            "|---|---|---|---|---|",
        ]
        for metric in setting.metrics:
            limits, verdict = METRICS[metric], self.verdict(metric)
            lines.append(
                f"| {limits.title} | {self.sim[metric].text(limits.digits)} | "
                f"{self.emu[metric].text(limits.digits)} | {self.ratio(metric):.3f} | "
                f"{marks.get(verdict, verdict)} |"
            )
        bears = setting.late_us
        late = f"Lateness of emu, 99th percentile: {self.late_us:.0f} µs of {bears:.0f} µs"
        late += f"; runs made again: {self.again}" if self.again else ""
        late += " **no**" if self.late_us > bears else ""
        lines += ["", f"{late}."]
        whys: dict[str, list[str]] = {}
        for metric in setting.metrics:
            if self.verdict(metric) in ("explained", "open"):
                whys.setdefault(setting.reasons[metric].why, []).append(METRICS[metric].title)
        for why, names in whys.items():
            lines += ["", f"{', '.join(names)}: {why}"]
        return "\n".join(lines) + "\n"


def compare(setting: Setting, kept: str | None = None) -> Outcome:
    """Measure a row.

    Args:
        setting: The row.
        kept: Its section of the kept file, of which Linux's figures are taken; None to measure
            them.
    """

    def figures(found: Sequence[Mapping[str, float]]) -> dict[str, Figure]:
        return {metric: Figure.of([each[metric] for each in found]) for metric in setting.metrics}

    sim = figures(simulated(setting))
    if kept is not None:
        return Outcome(setting, sim, *read_emu(setting, kept))
    found, late, again = emulated(setting)
    return Outcome(setting, sim, figures(found), max(late), again)


def read_emu(setting: Setting, section: str) -> tuple[dict[str, Figure], float, int]:
    """Linux's figures, the lateness in microseconds and the runs made again, of a section."""
    figures: dict[str, Figure] = {}
    for metric in setting.metrics:
        title = re.escape(METRICS[metric].title)
        found = re.search(rf"^\| {title} \|[^|]*\| (\S+) \[(\S+), (\S+)\]", section, re.MULTILINE)
        assert found is not None, f"{setting.name} has no {metric}"
        median, low, high = map(float, found.groups())
        figures[metric] = Figure(low, median, high)
    late = re.search(r"percentile: (\d+) µs of \d+ µs(?:; runs made again: (\d+))?", section)
    assert late is not None, f"{setting.name} has no lateness"
    return figures, float(late[1]), int(late[2] or 0)


HEADING = """\
# Modelled hosts beside Linux's

Made by `make validate-hosts`, with {kernel}. Each setting of TCP runs in `sim`, whose hosts are
modelled (`stack: linux-6`), and in `emu`, whose hosts are the kernel's and whose network is that of
`sim`. A figure is the median of {seeds} seeds in `sim`, and of 6 to {runs} runs in `emu`, followed
by an interval of order statistics that holds the median with 95% or more. Hosts have links of
1 Gb/s, which add up to 100 µs at random, so that seeds matter.

Goodput is of the whole run. Lost are packets of data that queues, policers and wires dropped, as
the network counts them in both engines. RTT is the median of the senders' smoothed round-trip
time, read every 10 ms, ping that of echo requests on the same path: one every 50 ms on average,
from ten pings whose intervals have no common multiple.

A run in `emu` counts if it is not late: neither the network's packets nor the answers to a small
request that hosts on a path of their own send every 15 ms, at the 99th percentile.

A figure is ok (yes) if the medians differ by no more than 5% (goodput, completion) or 10%. *Spread*
is a difference that is more, with intervals that overlap. *Explained* is one whose cause is known
and told below; *open* is one whose cause is not known; what was tried, if anything, is
told below. Both hold within bounds that are kept with them. Any other is **no**, and a failure.
"""


def sections(text: str) -> dict[str, str]:
    """The sections of a kept file, by the name of their setting."""
    parts = re.split(r"^## `([^`]+)`\n", text, flags=re.MULTILINE)[1:]
    pairs = zip(parts[::2], parts[1::2], strict=True)
    return {name: f"## `{name}`\n{body.rstrip()}\n" for name, body in pairs}


def main() -> int:
    """Measure the rows that are asked for; exit with 1 if one has a difference without a cause."""
    from validation.host_settings import SETTINGS

    names = [setting.name for setting in SETTINGS]
    parser = argparse.ArgumentParser(prog="validation.hosts", description=__doc__)
    parser.add_argument("--rows", nargs="+", metavar="NAME", default=names, help=", ".join(names))
    parser.add_argument(
        "--sim", action="store_true", help="measure the simulator, and take Linux's of HOSTS.md"
    )
    parser.add_argument("--write", action="store_true", help="keep them in HOSTS.md")
    options = parser.parse_args()
    if unknown := set(options.rows) - set(names):
        parser.error(f"{', '.join(sorted(unknown))}: unknown; expected {', '.join(names)}")
    kept = sections(KEPT.read_text("utf-8")) if KEPT.exists() else {}
    failures: list[str] = []
    for setting in SETTINGS:
        if setting.name not in options.rows:
            continue
        outcome = compare(setting, kept[setting.name] if options.sim else None)
        kept[setting.name] = outcome.markdown()
        print(kept[setting.name], flush=True)
        failures += [f"{setting.name}: {metric}" for metric in outcome.unexplained()]
        if options.write:
            heading = HEADING.format(
                kernel=f"Linux {'.'.join(platform.release().split('.')[:2])}",
                seeds=len(SEEDS),
                runs=REPETITIONS,
            )
            rows = [kept[name] for name in names if name in kept]
            KEPT.write_text("\n".join([heading, *rows]), encoding="utf-8")
    print(f"differences without a cause: {len(failures)}", *failures, sep="\n", file=sys.stderr)
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main())
