"""Measure how well the clocks of two hosts are told apart, in a lab whose hosts have one clock.

    python bench/clocks.py AGENT [RUNS]

AGENT is the program `perhop-agent`. In every run a reflector's clock is put off by up to 5 s and
drifts by 50 ppm, one way or the other, and a sender measures for half a second. The offset at the
end is known, because both hosts are this machine. The path is idle, or a stream shares the way
forward.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

from perhop.lab import up
from perhop.scenario import parse

SCENARIO = """
perhop: 1
name: clocks
nodes: {a: host, r: router, b: host}
links:
  - {ends: [a, r], rate: 100 Mbps, delay: 1 ms}
  - {ends: [r, b], rate: 20 Mbps, delay: 1 ms}
"""
PORT = 8620
LOAD_PORT = 8999
ALLOWED_NS = 50_000
"""An error that is allowed whatever the bound is."""


def inside(lab: str, host: str, script: str) -> subprocess.Popen[str]:
    """Run a script of the shell in a host."""
    perhop = str(Path(sys.executable).with_name("perhop"))
    command = [perhop, "lab", "exec", "--lab", lab, host, "--", "sh", "-c", script]
    quiet = subprocess.DEVNULL
    return subprocess.Popen(command, stdin=quiet, stdout=subprocess.PIPE, stderr=quiet, text=True)


def batch(lab: str, agent: str, runs: int, load: bool) -> list[tuple[float, float]]:
    """Return the errors of the offset and their bounds, in nanoseconds."""
    clocks = [(round(random.uniform(-5, 5), 6), random.choice((-50, 50))) for _ in range(runs)]
    listen = [
        f"date +%s%N; {agent} stamp reflect --listen 0.0.0.0:{PORT + number} "
        f"--clock-offset {offset}s --clock-drift {drift}ppm > /dev/null &"
        for number, (offset, drift) in enumerate(clocks)
    ]
    # They end with the lab.
    reflectors = inside(lab, "b", "\n".join([*listen, "echo", "wait"]))
    assert reflectors.stdout is not None
    since = [int(line) for line in iter(reflectors.stdout.readline, "\n")]
    time.sleep(0.5)
    send = [
        f"{agent} stamp send b:{PORT + number} --count 50 --every 10ms --json | tr -d '\\n'; echo"
        for number in range(runs)
    ]
    if load:
        # 60% of the slower link, in packets of 1,400 B that nobody answers.
        stream = f"{agent} stamp send b:{LOAD_PORT} --size 1400 --every 0.93ms --count 1000000"
        send = [f"{stream} > /dev/null & stream=$!; sleep 0.3", *send, "kill $stream"]
    output, _ = inside(lab, "a", "\n".join(send)).communicate()
    results = []
    for line, (offset, drift), started in zip(output.splitlines(), clocks, since, strict=True):
        clock = json.loads(line)["clock"]
        truth = offset * 1e9 + (clock["at_ns"] - started) * drift * 1e-6
        results.append((clock["offset_ns"] - truth, clock["bound_ns"]))
    reflectors.terminate()
    return results


def main(agent: str, runs: int) -> None:
    """Print the table."""
    random.seed(1)
    name = f"clocks-{os.getpid()}"
    print("| path | runs | within the bound | median error | largest error | median bound |")
    print("|---|---|---|---|---|---|")
    for path, load in (("idle", False), ("a stream of 12 Mb/s forward", True)):
        lab = up(parse(SCENARIO), name)
        try:
            results = batch(name, agent, runs // 2, load)
        finally:
            lab.down()
        within = sum(abs(error) <= max(bound, ALLOWED_NS) for error, bound in results)
        errors = sorted(abs(error) / 1e3 for error, _ in results)
        bound = sorted(bound / 1e3 for _, bound in results)[len(results) // 2]
        middle = errors[len(errors) // 2]
        row = f"{middle:.1f} µs | {errors[-1]:.1f} µs | {bound:.0f} µs |"
        print(f"| {path} | {len(results)} | {within} | {row}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 100)
