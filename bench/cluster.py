"""What a run costs on a cluster beside itself: 10,000 calls of 10 ms, and a sweep of short runs.

The calls sleep, so that their 10 ms are exact and everything else that the processors do is
overhead. The sweep has datasets, and is compared with one on local processes. Prints wall time and
CPU time of this process, the scheduler included, and of the workers. `make bench-cluster` runs it.
The argument is the number of calls.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Final

from perhop.cluster import connect
from perhop.sweep import Sweep
from perhop.workers import cores

CALL_S: Final = 0.01
RUNS: Final = 400

SCENARIO: Final = """
perhop: 1
name: short
nodes: {a: host, r: router, b: host}
links:
  - {ends: [a, r], rate: 100 Mbps}
  - {ends: [r, b], rate: 10 Mbps, loss: 0.1%}
flows:
  bulk: {from: a, to: b, stop: 1 s}
"""


def pause(number: int) -> int:
    time.sleep(CALL_S)
    return number


def used_s(who: int) -> float:
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def main(calls: int) -> None:
    workers = cores()
    own = used_s(resource.RUSAGE_SELF)
    with connect(f"local:{workers}") as cluster:
        with closing(cluster.call(pause, ((n,) for n in range(100 * workers)))) as warm:
            assert len([*warm]) == 100 * workers
        own, began = used_s(resource.RUSAGE_SELF), time.perf_counter()
        with closing(cluster.call(pause, ((n,) for n in range(calls)))) as made:
            assert sorted(number for number, _ in made) == [*range(calls)]
        wall, own = time.perf_counter() - began, used_s(resource.RUSAGE_SELF) - own
    others = used_s(resource.RUSAGE_CHILDREN)
    overhead = wall * workers / calls - CALL_S
    print(f"{calls:,} calls of {CALL_S * 1e3:g} ms, {workers} workers: {wall:.1f} s, overhead")
    print(f"  of wall time {overhead * 1e3:.2f} ms a call and worker")
    print(f"  of CPU time  {own / calls * 1e3:.2f} ms a call, command and scheduler")
    print(f"  of CPU time  {others:.1f} s, workers with their start")
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "short.yaml")
        source.write_text(SCENARIO)

        def swept(name: str) -> Sweep:
            return Sweep(str(source), {}, Path(folder, name), seeds=range(1, RUNS + 1))

        began = time.perf_counter()
        swept("processes").run()
        processes = time.perf_counter() - began
        with connect(f"local:{workers}") as cluster:
            began = time.perf_counter()
            swept("cluster").run(cluster=cluster)
            wall = time.perf_counter() - began
    print(f"a sweep of {RUNS} runs: {processes:.1f} s on processes, which start in it, and")
    print(f"  {wall:.1f} s on a cluster")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
