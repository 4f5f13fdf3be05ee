"""Measure how accurate `perhop path --available` is: labs with cross traffic of a known rate.

    python bench/available.py [FILE [FIRST [LAST]]]

Cross traffic is iperf3's. Its true rate is what its receiver's counters, read every 2 ms, say of
the times of the probes' streams, in the median stream: a busy host may send less of it during them
than on average.
What is found of each case goes into FILE as a line of JSON, if given; the table is of all lines of
FILE, so that the cases from FIRST to LAST can be measured in several slices.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import time
from bisect import bisect
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from slices import measured

from perhop.lab import Lab, up
from perhop.scenario import parse

PERHOP = Path(sysconfig.get_path("scripts"), "perhop")

SCENARIO = """
perhop: 1
name: available
nodes: {{a: host, c: host, r1: router, r2: router, b: host, d: host}}
links:
  - {{ends: [a, r1], rate: 2 Gbps, delay: 500 us}}
  - {{ends: [c, r1], rate: 2 Gbps, delay: 500 us}}
  - {{ends: [r1, r2], rate: {rate} Mbps, delay: 2 ms{egress}}}
  - {{ends: [r2, b], rate: 2 Gbps, delay: 500 us}}
  - {{ends: [r2, d], rate: 2 Gbps, delay: 500 us}}
"""

CLASSES = """
policies:
  edge:
    classes:
      voice: {match: {dscp: ef}, bandwidth: 30%, unused: true}
      rest: {match: any}
"""


@dataclass(frozen=True)
class Case:
    """A link and its cross traffic."""

    rate: int
    """Rate of the link in Mb/s."""
    kind: str
    """Kind of cross traffic: `udp`, `tcp` (with a bounded rate), `greedy` (TCP without), `class`
    (UDP of more than the link's rate in another class than the probes')."""
    share: float
    """Its rate as a share of the link's."""


CASES = [
    *(Case(rate, "udp", share) for rate in (10, 100, 500) for share in (0, 0.3, 0.6, 0.9)),
    *(Case(rate, "tcp", share) for rate in (10, 100, 500) for share in (0.3, 0.6)),
    Case(1000, "udp", 0),
    Case(1000, "udp", 0.5),
    *(Case(rate, "class", 1.2) for rate in (10, 100)),
    *(Case(rate, "greedy", 1) for rate in (10, 100)),
]


COUNTER = """
import sys, time
with open("/proc/net/dev") as counters, open(sys.argv[1], "w", buffering=1 << 16) as out:
    while True:
        counters.seek(0)
        total = 0
        for line in counters.read().splitlines()[2:]:
            name, numbers = line.split(":", 1)
            if name.strip() != "lo":
                total += int(numbers.split()[0])
        out.write(f"{time.time()} {total}\\n")
        time.sleep(0.002)
"""
"""Writes the time and the bytes of IP packets that its host has received, every 2 ms."""


@dataclass
class Counter:
    """Bytes that a host has received at some times, in seconds since 1970."""

    times: list[float]
    totals: list[int]

    @classmethod
    def read(cls, file: Path) -> Counter:
        """Read what `COUNTER` has written."""
        lines = [line.split() for line in file.read_text("utf-8").splitlines()]
        whole = [line for line in lines if len(line) == 2][:-1]
        return cls([float(time) for time, _ in whole], [int(total) for _, total in whole])

    def at(self, time: float) -> float:
        """The bytes until a time, between readings in proportion."""
        after = min(max(bisect(self.times, time), 1), len(self.times) - 1)
        (t0, t1), (n0, n1) = self.times[after - 1 : after + 1], self.totals[after - 1 : after + 1]
        return n0 + (n1 - n0) * (time - t0) / (t1 - t0)

    def mbps(self, begin: float, end: float) -> float:
        """The rate between two times."""
        return 8e-6 * (self.at(end) - self.at(begin)) / (end - begin)


def load(lab: Lab, case: Case, stack: ExitStack) -> None:
    """Begin the cross traffic."""
    if not case.share:
        return
    serve = ["iperf3", "-s", "--forceflush"]
    server = stack.enter_context(lab.start("d", serve, stdout=subprocess.PIPE, text=True))
    stack.callback(server.terminate)
    while server.stdout is not None and "listening" not in server.stdout.readline():
        continue
    rate = case.share * case.rate * 1e6
    # Probes have real-time priority, and would keep a sender without it from the processors.
    command = ["chrt", "--fifo", "1", "iperf3", "-c", "d", "-t", "280"]
    if case.kind in {"udp", "class"}:
        command += ["-u", "-l", "1400", "-b", str(int(rate * 1400 / 1428))]
    elif case.kind == "tcp":
        command += ["--fq-rate", str(int(rate))]
    client = stack.enter_context(lab.start("c", command, stdout=subprocess.DEVNULL))
    stack.callback(client.terminate)
    time.sleep(2)


def measure(case: Case) -> dict[str, Any]:
    """Measure one case."""
    egress = ", egress: {r1: edge}" if case.kind == "class" else ""
    text = SCENARIO.format(rate=case.rate, egress=egress) + (CLASSES if egress else "")
    lab = up(parse(text, "available.yaml"), f"available-{os.getpid()}")
    with ExitStack() as stack:
        stack.callback(lab.down)
        load(lab, case, stack)
        responder = lab.start(
            "b", [str(PERHOP), "path", "--respond", "--listen", "0.0.0.0", "--max-rate=2Gbps"]
        )
        stack.enter_context(responder)
        stack.callback(responder.terminate)
        dscp = "ef" if egress else "be"
        options = ["--available", "--no-multipath", "--count=1", "--max-rate=2Gbps", "--json"]
        command = [str(PERHOP), "path", "b", "-4", f"--dscp={dscp}", *options]
        readings = Path(stack.enter_context(TemporaryDirectory()), "readings")
        count = ["chrt", "--fifo", "60", sys.executable, "-c", COUNTER, str(readings)]
        counting = stack.enter_context(lab.start("d", count))
        stack.callback(counting.terminate)
        begun = time.time()
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with lab.start("a", command, **streams) as process:
            out, err = process.communicate(timeout=300)
        ended = time.time()
        counting.terminate()
        counting.wait(timeout=30)
        counter = Counter.read(readings)
        if process.returncode:
            raise SystemExit(err.decode())
    (found,) = json.loads(out)["available"]
    streams = found["each"]
    for stream in streams:
        # Packets of both arrive at the counter 3 ms after they are sent, see SCENARIO.
        begin = stream["at_s"] + 0.003
        stream["cross"] = counter.mbps(begin, begin + stream["duration_s"])
    # As the verdicts, not by few streams.
    cross = median(stream["cross"] for stream in streams)
    average = counter.mbps(begun, ended)
    true = case.rate * 0.3 if egress else case.rate - cross
    result = {"cross": cross, "average": average, "true": true, "found": found}
    return {**vars(case), **result, "seconds": ended - begun}


def table(results: list[dict[str, Any]]) -> None:
    """Print what was found beside what is true, in Mb/s."""
    heads = f"{'link':>6} {'cross traffic':>14} {'on average':>10} {'true':>7} {'found':>7}"
    print(f"{heads} {'interval':>17}  error")
    errors, inside, known = [], 0, 0
    for one in results:
        found, bps = one["found"], one["found"]["bps"]
        name = f"{one['kind']} {one['cross']:.1f}"
        if bps is None:
            said = f"{found['unknown']}, {found['at_least_bps'] / 1e6:.1f} at least"
            rates = f"{one['rate']:6} {name:>14} {one['average']:10.1f} {one['true']:7.1f}"
            print(f"{rates} unknown ({said})")
            continue
        value, low, high = (bps[key] / 1e6 for key in ("value", "low", "high"))
        error = (value - one["true"]) / one["rate"]
        errors.append(abs(error))
        known += 1
        inside += low - 0.01 * one["rate"] <= one["true"] <= high + 0.01 * one["rate"]
        interval = f"{low:.1f} to {high:.1f}"
        rates = f"{one['rate']:6} {name:>14} {one['average']:10.1f} {one['true']:7.1f} {value:7.1f}"
        print(f"{rates} {interval:>17}  {error:+.1%}")
    errors.sort()
    if errors:
        print(f"known {known} of {len(results)}; errors as shares of the link's rate:")
        print(f"median {errors[len(errors) // 2]:.1%}, largest {errors[-1]:.1%};")
        print(f"the truth is within the interval, or 1% of the rate from it: {inside} of {known}")


if __name__ == "__main__":
    given = sys.argv[1:]
    file = Path(given[0]) if given else None
    first = int(given[1]) if len(given) > 1 else 1
    last = int(given[2]) if len(given) > 2 else len(CASES)
    table(measured(CASES[first - 1 : last], measure, file))
