"""Measure what a change of a lab costs, and what many leave behind.

    python bench/lab.py [CHANGES]

Every kind of change is asked for in turn, 10,000 times in all, from a process that waits for each.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from perhop.lab import Lab, up
from perhop.scenario import parse

if TYPE_CHECKING:
    from collections.abc import Callable

SCENARIO = """
perhop: 1
name: bench
nodes: {a: host, r: router, b: host}
links:
  - {ends: [a, r], rate: 100 Mbps, delay: 1 ms}
  - {ends: [r, b], rate: 20 Mbps, delay: 4 ms, egress: {r: edge}}
policies:
  edge:
    classes:
      reserved: {match: {port: 5011}, bandwidth: 50%, police: {rate: 2 Mbps, burst: 20 kB}}
      rest: {match: any, bandwidth: 50%}
  strict:
    unused: true
    classes:
      rest: {match: any, bandwidth: 10%, limit: 4 Mbps}
"""


def kinds(lab: Lab) -> dict[str, Callable[[int], None]]:
    """Changes by name; each takes its number."""

    def police(i: int) -> None:
        lab.change({"on": "r>b", "class": "reserved", "police": {"rate": f"{1 + i % 5} Mbps"}})

    return {
        "rate": lambda i: lab.change({"on": "r>b", "rate": f"{10 + i % 20} Mbps"}),
        "delay": lambda i: lab.change({"on": "r>b", "delay": f"{i % 20} ms"}),
        "loss": lambda i: lab.change({"on": "r>b", "loss": f"{i % 5}%"}),
        "state": lambda i: lab.change({"on": "a>r", "state": ("down", "up")[i % 2]}),
        "policy": lambda i: lab.policy("r>b", ("strict", "edge")[i % 2]),
        "policy --set": lambda i: lab.policy(
            "r>b", "edge", overrides=[f"classes.rest.limit={60 + i % 4}%"]
        ),
        "police": police,
    }


def memory(lab: Lab) -> float:
    """Return the memory of the lab's process, in MiB."""
    lines = Path(f"/proc/{lab.record.pid}/status").read_text("utf-8").splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS:")).split()[1]) / 1024


def main(changes: int) -> None:
    """Print the times and the memory."""
    lab = up(parse(SCENARIO), f"bench-{os.getpid()}")
    try:
        asked = kinds(lab)
        times: dict[str, list[float]] = {name: [] for name in asked}
        at_first = memory(lab)
        for number in range(changes):
            name = list(asked)[number % len(asked)]
            begun = time.perf_counter()
            asked[name](number // len(asked))
            times[name].append((time.perf_counter() - begun) * 1e3)
        print(f"{changes:,} changes; memory {at_first:.1f} MiB at first, {memory(lab):.1f} at last")
        for name, found in [*times.items(), ("all", [t for each in times.values() for t in each])]:
            found.sort()
            median, most = found[len(found) // 2], found[len(found) * 99 // 100]
            print(f"{name:14} median {median:5.2f} ms, 99 of 100 below {most:6.2f} ms")
    finally:
        lab.down()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
