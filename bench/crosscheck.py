"""Differences of the engines on one scenario: `make bench-emu` prints them after the emulation's.

Two experiments: three classes that share 10 Mb/s, and CUBIC over 100 Mb/s and 20 ms through a
buffer of one bandwidth-delay product. Engines that cannot run here are named with what they lack.
"""

from __future__ import annotations

import os
import sys

from perhop.cli.render import print_table
from perhop.crosscheck import crosscheck
from perhop.report import agreement_table
from perhop.scenario import parse

NETWORK = """
perhop: 1
name: {name}
nodes: {{a: host, r1: router, r2: router, b: host}}
links:
  - {{ends: [a, r1], rate: {access}, overhead: ethernet}}
  - {{ends: [r1, r2], rate: {rate}, delay: {delay}, overhead: ethernet, {end}}}
  - {{ends: [r2, b], rate: 1 Gbps, overhead: ethernet}}
{rest}
"""

THREE = NETWORK.format(
    name="three-classes",
    access="100 Mbps",
    rate="10 Mbps",
    delay="200 us",
    end="egress: {r1: shared}",
    rest="""
policies:
  shared:
    classes:
      scavenger: {match: {dscp: cs1}, bandwidth: 1%}
      priority: {match: {dscp: af11}, bandwidth: 70%}
      best_effort: {match: any, bandwidth: 29%}
flows:
  scavenger: {from: a, to: b, dscp: cs1, tcp: {window: 64 KiB}, stop: 25 s}
  best_effort: {from: a, to: b, tcp: {window: 64 KiB}, start: 5 s, stop: 20 s}
  priority: {from: a, to: b, dscp: af11, tcp: {window: 64 KiB}, start: 10 s, stop: 15 s}
pings:
  idle: {from: a, to: b, dscp: af11, every: 100 ms}
""",
)

CUBIC = NETWORK.format(
    name="cubic",
    access="1 Gbps",
    rate="100 Mbps",
    delay="10 ms",
    end="queue: {limit: 250 kB}",
    rest="flows: {cubic: {from: a, to: b, tcp: {stack: linux-6}, stop: 30 s}}",
)


def main() -> int:
    """Print both; 1 if engines differ by more than they may."""
    agree = True
    for text in (THREE, CUBIC):
        scenario = parse(text)
        print(f"\n{scenario.name}: load average {os.getloadavg()[0]:.1f}")
        found = crosscheck(scenario)
        for engine, reason in found.lacking.items():
            print(f"{engine} cannot run it: {reason}")
        if found.compared is not None:
            print_table(agreement_table(found.compared, found.deviations))
        agree &= found.ok
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
