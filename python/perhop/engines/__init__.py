"""Engines: functions from a scenario to a dataset.

Nothing above this layer knows which engine ran, and nothing below it knows that there are several.
An engine is a module that starts a `Run`; `run` drives it in slices, so that progress, checkpoints
and Ctrl-C need no callbacks into the engine.
"""

from __future__ import annotations

import math
import platform
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from importlib.metadata import version
from itertools import chain
from typing import TYPE_CHECKING, Final, Protocol

from perhop.engines.captures import SNAPLEN, planned, writing
from perhop.engines.lateness import late
from perhop.errors import UnsupportedError, UsageError
from perhop.hints import did_you_mean
from perhop.interruption import uninterruptible
from perhop.scenario.rules.findings import Finding
from perhop.scenario.rules.warnings import unused_seed, warnings
from perhop.stores import ObjectPath, place

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Mapping
    from io import FileIO

    import polars as pl

    from perhop.dataset import Dataset, Live
    from perhop.engines.captures import Capture
    from perhop.scenario import Scenario

__all__ = ["ENGINES", "Engine", "Progress", "Run", "check", "run"]

ENGINES: Final = ("sim", "emu", "kernel", "live")
"""The engines; each is a module of this package with a function `start`."""

MOST_THREADS: Final = 1024

CHECKPOINT_S: Final = 5.0
"""The seconds of wall time between two checkpoints of a run that is saved."""


class Run(Protocol):
    """A run in progress."""

    @property
    def now_s(self) -> float:
        """The seconds of the scenario that have been run."""

    @property
    def finished(self) -> bool:
        """True if the whole scenario has been run."""

    @property
    def counters(self) -> Mapping[str, int]:
        """The engine's own counters so far."""

    @property
    def live(self) -> Live | None:
        """The agents and their clocks so far; None where there are none."""

    @property
    def stalled_us(self) -> Mapping[str, int] | None:
        """Total stall on the host of each agent in microseconds; None where there are none."""

    @property
    def missing(self) -> Iterable[str]:
        """Return the measurements that were not possible so far, with the reasons."""

    def capture(self, capture: Capture, file: FileIO) -> None:
        """Write the packets at the capture's interfaces from now on to `file`, as pcapng."""

    def advance(self) -> None:
        """Continue for a slice: at most about a tenth of a second of wall time.

        Raises:
            OSError: If a capture cannot be written; it names the file, which ends with a whole
                packet.
        """

    def delivered(self) -> dict[str, int]:
        """Return the bytes that each flow has delivered so far."""

    def tables(self) -> dict[str, pl.DataFrame]:
        """Return the dataset's tables up to now; the run can continue."""

    def stop(self) -> None:
        """End the run; its tables then end at the current time."""


class Engine(Protocol):
    """The interface of an engine's module."""

    def start(self, scenario: Scenario, seed: int, **options: int) -> Run:
        """Start a run. Only `sim` has an option: `threads`.

        Raises:
            UnsupportedError: If this machine, or this engine, cannot run the scenario.
        """


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a run.

    Attributes:
        now_s: The seconds of the scenario that have been run.
        end_s: The seconds of the whole scenario.
        wall_s: The wall time so far in seconds.
        throughput_bps: The rate of each flow in the last slice, in bit/s.
    """

    now_s: float
    end_s: float
    wall_s: float
    throughput_bps: Mapping[str, float]


def _engine(name: str) -> Engine:
    if name not in ENGINES:
        hint = did_you_mean(name, ENGINES) or f"there is {', '.join(ENGINES)}"
        raise UsageError(f"{name!r} is not an engine; {hint}")
    module: Engine = import_module(f"perhop.engines.{name}")
    return module


def _check_threads(threads: int, engine: str, captures: object) -> None:
    """Check that a run can have so many threads."""
    if not 1 <= threads <= MOST_THREADS:
        raise UsageError(f"{threads} threads: expected 1 to {MOST_THREADS}")
    if engine != "sim":
        raise UsageError(f"the engine {engine} has no choice of threads; only sim has")
    if captures:
        raise UsageError("packets are captured on one thread only: drop the captures or threads")


def check(scenario: Scenario, engine: str) -> None:
    """Check that an engine can run a scenario on this machine, by starting a run.

    Raises:
        UsageError: If the engine is unknown.
        UnsupportedError: If the engine cannot run the scenario here.
    """
    _engine(engine).start(scenario, 0).stop()


def run(
    scenario: Scenario,
    *,
    engine: str = "sim",
    seed: int = 1,
    out: str | os.PathLike[str] | None = None,
    captures: Mapping[str, str | os.PathLike[str]] | None = None,
    snaplen: int = SNAPLEN,
    threads: int = 1,
    watch: Callable[[Progress], None] | None = None,
    ended: Callable[[Run], None] | None = None,
) -> Dataset:
    """Run a scenario.

    Ctrl-C (`KeyboardInterrupt`) ends the run early. The dataset then ends there, and its manifest
    has `complete: false`.

    Args:
        scenario: The scenario.
        engine: One of `ENGINES`.
        seed: The seed of all random numbers; the same scenario and seed give the same tables.
        out: The folder in which the dataset is saved, every few seconds and at the end, or the URL
            of one in an object store, at the end; None to keep it in memory.
        captures: Files for packets as pcapng, by the link where they are captured: a direction
            "r1>r2" for the packets that r1 sends and receives there, or a node with one link.
            An existing capture is replaced when the run starts.
        snaplen: The bytes of each packet to keep; 0 for all.
        threads: The greatest number of threads of a simulation. The tables do not depend on it.
            A warning of the dataset says why a run had fewer.
        watch: A function to call after every slice.
        ended: A function that gets the run when it has ended, before its dataset is made.

    Raises:
        UsageError: If the engine or a link is unknown, the seed is not in 0..2^64, several
            threads are asked for with another engine or with captures, or the scenario has no
            flow and no ping.
        UnsupportedError: If the engine cannot run the scenario here.
        OutputError: If `out` or a capture cannot be written.
    """
    # Labs use parts of engines, but no tables, which take as long to import as all the rest.
    from perhop.dataset import TABLES, Dataset, Host, Manifest, Warned

    module = _engine(engine)
    if not scenario.flows and not scenario.pings:
        raise UsageError(
            f"{scenario.name} has nothing to run: no flow and no ping; add one below `flows`, or "
            "keep the network up for programs of your own with `perhop lab up`"
        )
    if not 0 <= seed < 2**64:
        raise UsageError(f"{seed} is not a seed; expected 0 to 2^64 - 1")
    if threads != 1:
        _check_threads(threads, engine, captures)
    if out is not None:
        Dataset.check_writable(out)
    files = planned(scenario, engine, captures or {}, snaplen, out)
    findings = tuple(chain(warnings(scenario), unused_seed(scenario, engine, seed)))
    started, began = datetime.now(UTC), time.perf_counter()
    options = {} if threads == 1 else {"threads": threads}
    under_way = module.start(scenario, seed, **options)

    def dataset() -> Dataset:
        counters, now_s = dict(under_way.counters), under_way.now_s
        lacking = (Finding((), message) for message in under_way.missing)
        found = chain(findings, late(scenario, counters, now_s, under_way.stalled_us), lacking)
        manifest = Manifest(
            perhop=version("perhop"),
            engine=engine,
            seed=seed,
            started=started.isoformat(timespec="seconds"),
            wall_s=time.perf_counter() - began,
            duration_s=now_s,
            complete=under_way.finished,
            host=Host(
                system=f"{platform.system()} {platform.release()}",
                machine=platform.machine(),
                python=platform.python_version(),
            ),
            counters=counters,
            warnings=tuple(Warned(path=each.path, message=each.message) for each in found),
            live=under_way.live,
        )
        tables = under_way.tables()
        return Dataset(scenario, manifest, **{name: tables[name] for name in TABLES})

    saved = began
    # A store has no dataset while it is replaced.
    every_s = math.inf if isinstance(place(out or ""), ObjectPath) else CHECKPOINT_S
    with writing(files) as opened, uninterruptible() as signals:
        for capture, file in zip(files, opened, strict=True):
            under_way.capture(capture, file)
        try:
            before_s, before = 0.0, under_way.delivered()
            rates = dict.fromkeys(before, 0.0)
            while not under_way.finished and not signals.came:
                under_way.advance()
                now = time.perf_counter()
                if watch is not None:
                    now_s, delivered = under_way.now_s, under_way.delivered()
                    if now_s > before_s:  # while results are collected, it is at its end
                        rates = {
                            flow: 8 * (delivered[flow] - before[flow]) / (now_s - before_s)
                            for flow in delivered
                        }
                        before_s, before = now_s, delivered
                    watch(Progress(now_s, scenario.end_ps / 1e12, now - began, rates))
                if out is not None and now - saved >= every_s:
                    dataset().write(out)
                    saved = time.perf_counter()
        except KeyboardInterrupt:
            under_way.stop()
        except UnsupportedError as error:
            under_way.stop()
            if out is None:
                raise
            # What was measured before the failure is kept.
            kept = dataset().write(out)
            raise UnsupportedError(f"{error}\n  what was measured until then: {kept}") from error
        if signals.came:
            under_way.stop()
            signals.answer()
        if ended is not None:
            ended(under_way)
        result = dataset()
        if out is not None:
            result.write(out)
    return result
