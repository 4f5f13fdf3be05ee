"""Growth of a packet-hop's cost with streams, and the memory of a stream: `make bench`.

CUBIC streams over 10 Gb/s and 20 ms of round trip, 2 s, at most 1000 in a flow. CPU time of the
simulation alone; each number of streams in turn with 10 streams, in processes of their own, so that
a busy machine slows both. Memory is the resident set at the end of the simulation, and its maximum
after the tables are made: what each stream adds to that of the row before.

    python bench/streams.py [PAIRS]
"""

import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

NUMBERS = (100, 1000, 10_000)
FEW = 10

SCENARIO = """
perhop: 1
name: streams
nodes: {{a: host, r1: router, r2: router, b: host}}
links:
  - {{ends: [a, r1], rate: 40 Gbps, delay: 1 ms, overhead: 2 B, queue: {{limit: 100000 packets}}}}
  - {{ends: [r1, r2], rate: 10 Gbps, delay: 8 ms, overhead: 2 B, queue: {{limit: 8333 packets}}}}
  - {{ends: [r2, b], rate: 40 Gbps, delay: 1 ms, overhead: 2 B, queue: {{limit: 100000 packets}}}}
flows: {{{flows}}}
duration: 2 s
report: {{interval: 2 s}}
"""


def resident_kib() -> int:
    """Return the resident set of this process."""
    lines = Path("/proc/self/status").read_text("ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


FLOW = "f{}: {{from: a, to: b, streams: {}, tcp: {{window: 8 MiB, timestamps: true}}}}"

MOST_IN_A_FLOW = 1000


def scenario(streams: int) -> str:
    """Return the text of the scenario."""
    each = min(streams, MOST_IN_A_FLOW)
    flows = (FLOW.format(number, each) for number in range(streams // each))
    return SCENARIO.format(flows=", ".join(flows))


def simulate(streams: int) -> dict[str, float]:
    """Run the case, and return its cost and memory."""
    from perhop.engines.sim import start
    from perhop.scenario import parse

    run = start(parse(scenario(streams)), 1)
    before = resident_kib()
    began = time.process_time()
    while not run.finished:
        run.advance()
    cpu_s = time.process_time() - began
    at_end = resident_kib()
    run.tables()
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    counters = run.counters
    return {**counters, "cpu_s": cpu_s, "before": before, "at_end": at_end, "most": most}


def simulated(streams: int) -> dict[str, float]:
    """Run the case in a process of its own."""
    command = [sys.executable, __file__, "--one", str(streams)]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


def ns(run: dict[str, float]) -> float:
    """Return the CPU nanoseconds of a packet-hop."""
    return run["cpu_s"] / run["packet_hops"] * 1e9


def main(pairs: int) -> int:
    """Print the table."""
    heads = (
        f"{'CPU ns a hop':>13} {'ratio':>6} {'range':>13} {'B a stream':>11} {'with tables':>12}"
    )
    print(f"\n{'CUBIC streams over 10 Gb/s':<28} {'M hops':>7} {heads}")
    few: list[dict[str, float]] = []
    rows = []
    for number in NUMBERS:
        runs = []
        for _ in range(pairs):
            few.append(simulated(FEW))
            runs.append(simulated(number))
        ratios = [ns(run) / ns(one) for run, one in zip(runs, few[-pairs:], strict=True)]
        rows.append((number, runs, ratios))
    print(f"{FEW:<28,} {few[0]['packet_hops'] / 1e6:>7.2f} {median(map(ns, few)):>13.1f}")
    fewer, before = FEW, few
    for number, runs, ratios in rows:
        at_end, most = (
            1024
            * (median(r[key] for r in runs) - median(r[key] for r in before))
            / (number - fewer)
            for key in ("at_end", "most")
        )
        fewer, before = number, runs
        spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
        cost = f"{median(map(ns, runs)):>13.1f} {median(ratios):>6.2f} {spread:>13}"
        hops = runs[0]["packet_hops"] / 1e6
        print(f"{number:<28,} {hops:>7.2f} {cost} {at_end:>11,.0f} {most:>12,.0f}")
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(simulate(int(sys.argv[2]))))
        sys.exit()
    sys.exit(main(int(sys.argv[1]) if sys.argv[1:] else 5))
