"""Costs that grow no faster than what they are of: counted in calls and rows, never in seconds."""

import cProfile
import io
import json
import pstats
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from bench.costs import CASES
from conftest import SLOW
from perhop import analysis, report
from perhop.cli.run import print_tables
from perhop.dataset import TABLES, Dataset
from perhop.engines import run
from perhop.engines.plan import plan
from perhop.scenario import dump, parse

pytestmark = SLOW

GROWTH = 3
"""Ratio of the larger to the smaller scenario."""

SLACK = 1.25
"""Tolerance of the growth of a cost: less than a factor of the logarithm."""

_LOOKS_AT_ROWS = ("filter", "select", "with_columns", "group_by", "sort", "join", "partition_by")


class Cost:
    """Cost of an operation: the functions that it calls, and the rows of tables that it reads."""

    calls = 0
    rows = 0


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cost]:
    """Count what is done inside."""
    cost = Cost()

    def looking(method: Callable[..., Any]) -> Callable[..., Any]:
        def look(self: pl.DataFrame, *args: Any, **kwargs: Any) -> Any:
            cost.rows += self.height
            return method(self, *args, **kwargs)

        return look

    profile = cProfile.Profile()
    with monkeypatch.context() as patch:
        for name in _LOOKS_AT_ROWS:
            patch.setattr(pl.DataFrame, name, looking(getattr(pl.DataFrame, name)))
        profile.enable()
        try:
            yield cost
        finally:
            profile.disable()
    cost.calls = pstats.Stats(profile).total_calls  # type: ignore[attr-defined]


def costs(name: str, size: int, monkeypatch: pytest.MonkeyPatch) -> tuple[int, dict[str, Cost]]:
    """The rows of a scenario's tables, and what each thing that is done with it costs."""
    text = CASES[name][0](size)
    found: dict[str, Cost] = {}
    with counted(monkeypatch) as found["load"]:
        scenario = parse(text)
    with counted(monkeypatch) as found["plan"]:
        json.dumps(plan(scenario, 1))
    with counted(monkeypatch) as found["dump"]:
        dump(scenario)
    dataset = run(scenario)
    for stage, work in {
        "json": lambda data: json.dumps(analysis.summary(data)),
        "text": lambda data: print_tables(data, Path("results")),
        "page": report.page,
        "compare": lambda data: analysis.compare([data, data]),
    }.items():
        fresh = copied(dataset)
        with redirect_stdout(io.StringIO()), counted(monkeypatch) as found[stage]:
            work(fresh)
    tables = (dataset.intervals, dataset.pings, dataset.queues, dataset.links, dataset.codepoints)
    return sum(table.height for table in tables), found


def copied(dataset: Dataset) -> Dataset:
    """A dataset of which nothing has been asked yet."""
    tables = {name: getattr(dataset, name) for name in TABLES}
    return Dataset(parse(dump(dataset.scenario)), dataset.manifest, **tables)


SIZES = {
    "flows in 100 intervals": 20,
    "intervals of a flow": 300,
    "flows, each with a phase": 15,
    "changes": 30,
    "counters cleared": 30,
    "pings": 30,
    "requests of a ping": 3000,
    "expectations": 30,
    "classes": 30,
    "ports in a match": 300,
    "policies in policies": 6,
    "routers in a line": 15,
    "hosts around a router": 30,
    "milliseconds of intervals": 300,
}


@pytest.mark.parametrize("name", SIZES)
def test_costs_grow_as_what_they_are_of(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    report.page(run(parse(CASES[name][0](2))))  # what is done once
    size, small = costs(name, SIZES[name], monkeypatch)
    larger, large = costs(name, GROWTH * SIZES[name], monkeypatch)
    grows = max(GROWTH, larger / size)
    grown = {
        f"{stage}: {kind}": getattr(large[stage], kind) / max(getattr(small[stage], kind), 1000)
        for stage in small
        for kind in ("calls", "rows")
        # Each expectation looks at the rows of its flow, and there are at most 1000.
        if (name, kind) != ("expectations", "rows")
    }
    assert {what: by for what, by in grown.items() if by > SLACK * grows} == {}


def test_packets_that_are_overtaken_cost_the_same_however_many_overtake_them() -> None:
    def seconds(by_ms: int) -> float:
        udp = "{rate: 80 Mbps, size: 1000 B}"
        scenario = parse(
            "perhop: 1\nname: overtaken\nnodes: {a: host, b: host}\n"
            f"links: [{{ends: [a, b], rate: 1 Gbps, reorder: {{share: 30%, by: {by_ms} ms}}}}]\n"
            f"flows: {{f: {{from: a, to: b, udp: {udp}}}}}\nduration: 12 s\n"
        )
        began = time.process_time()
        run(scenario)
        return time.process_time() - began

    # A hundred times as many overtake each; packet by packet that took fifty times as long.
    assert min(seconds(5000) for _ in range(2)) < 8 * min(seconds(50) for _ in range(2))
