"""Speed of the simulator beside ns-3's, in one run: each case in both, pair by pair.

Needs ns-3 (Debian: libns3-dev) and g++; the programs for ns-3 are ns3/line.cc and ns3/dumbbell.cc.
`make bench-peers` calls it.

    python bench/peers.py [--pairs=5] [--seconds=10]

CPU time, not wall time, from the description of the network to the results: in perhop all of
`perhop.run`, tables included; in ns-3 the topology, its routes and the simulation. Neither includes
the start of the process. Ratios are of the two runs of a pair, so that a busy machine slows both.

Where valgrind is installed, instructions a packet-hop, too, which a busy machine does not change:
in ns-3 between two instants of the simulation, as it runs fifty times slower below the instrument;
in perhop of the same case of its benchmark in Rust, with its start.

What is the same in both: datagrams and segments, rates, delays and overhead of links, drop-tail
queues, buffers of 8 MiB, SACK, timestamps, delayed acknowledgements, CUBIC without its
Reno-friendly region but with HyStart, proportional rate reduction, no limited transmit, and a
least timeout of 1 s. Debian's ns-3 is no `optimized` build: assertions are off, but logging is
compiled in and asked at run time whether it is on, which takes at least 4% of its instructions.
"""

import argparse
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median

from instructions import compiled, counted
from ns3.compare import Setting, build, ns3_command, ns3_version, printed
from ns3.compare import scenario as dumbbell

import perhop
from perhop import _core, analysis
from perhop.dataset import Dataset
from perhop.scenario import Scenario


@dataclass(frozen=True)
class Work:
    """What a simulator did."""

    hops: int
    goodput_bps: float
    sent: int
    """Packets into the bottleneck; in the first case from the host."""
    dropped: int
    cpu_s: float


@dataclass(frozen=True)
class Case:
    """A network in both simulators."""

    name: str
    program: str
    """Name of the program for ns-3."""
    command: Callable[[Path, float], list[str]]
    """Its command, for so many simulated seconds."""
    scenario: Callable[[int], Scenario]
    bottleneck: str
    simulated: bool
    """Whether the speed is given as simulated seconds, or as packet-hops a second."""
    counted: tuple[float, float]
    """Between which seconds ns-3's instructions are counted."""
    benchmark: str
    """Name of the case in perhop's benchmark in Rust."""


def line(seconds: int) -> Scenario:
    """A host, five routers, a host: a datagram of 1,500 B every 12 us."""
    nodes = ["a", *(f"r{i}" for i in range(5)), "b"]
    wire = {
        "rate": "10 Gbps",
        "delay": "1 ms",
        "overhead": "2 B",
        "queue": {"limit": "1000 packets"},
    }
    udp = {"rate": "981.333333 Mbps", "size": "1472 B"}
    return Scenario.model_validate(
        {
            "perhop": 1,
            "name": "line",
            "nodes": {node: "router" if node.startswith("r") else "host" for node in nodes},
            "links": [{"ends": ends, **wire} for ends in pairwise(nodes)],
            "flows": {"f": {"from": "a", "to": "b", "udp": udp}},
            "duration": f"{seconds} s",
        }
    )


def cubic(seconds: float) -> Setting:
    """Twenty flows over 500 Mb/s."""
    return Setting("its cubic", 500, 10, 1000, 20, start_s=0, end_s=seconds)


CASES = (
    Case(
        "1 Gb/s of 1500 B UDP over 6 links of 10 Gb/s",
        "line",
        lambda program, seconds: [str(program), f"--to={seconds}"],
        line,
        "a>r0",
        False,
        (0.1, 0.2),
        "1 Gb/s of 1500 B UDP",
    ),
    Case(
        "20 CUBIC flows over 500 Mb/s",
        "dumbbell",
        lambda program, seconds: ns3_command(program, cubic(seconds)),
        lambda seconds: dumbbell(cubic(seconds)),
        "left>right",
        True,
        (0.3, 0.5),
        "20 CUBIC flows over 500 Mb/s",
    ),
)


def theirs(command: list[str]) -> Work:
    """Run a case in ns-3."""
    said = printed(command)
    return Work(
        int(said["hops"]), said["goodput_bps"], said["sent"], said["dropped"], said["cpu_s"]
    )


def ours(case: Case, seconds: int) -> Work:
    """Run a case in perhop."""
    scenario = case.scenario(seconds)
    began = time.process_time()
    dataset = perhop.run(scenario)
    cpu_s = time.process_time() - began
    return Work(
        dataset.manifest.counters["packet_hops"],
        analysis.throughput(dataset, "total", (0, seconds)) or 0,
        *bottleneck(dataset, case.bottleneck),
        cpu_s,
    )


def bottleneck(dataset: Dataset, link: str) -> tuple[int, int]:
    """Return the packets that a link sent, and that its queue dropped."""
    rows = dataset.queues.filter(dataset.queues["link"] == link)
    return int(rows["sent_packets"].sum()), int(rows["dropped_packets"].sum())


def main() -> int:
    """Print a table for each case."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=5, help="pairs of runs (default: 5)")
    parser.add_argument("--seconds", type=int, default=10, help="simulated seconds (default: 10)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        programs = {case.program: build(Path(folder), case.program) for case in CASES}
        print(
            f"ns-3 {ns3_version()} of this system,"
            f" perhop {perhop.__version__} ({_core.BUILD} build)"
        )
        print(f"{processor()}, {platform.platform()}")
        if _core.BUILD != "release":
            print("perhop is a build for development: its speed says nothing")
        for case in CASES:
            compare(case, programs[case.program], options.pairs, options.seconds)
        if shutil.which("valgrind") is None:
            print("instructions a packet-hop: not counted, as valgrind is not installed")
        else:
            instructions(programs)
    return 0


def compare(case: Case, program: Path, pairs: int, seconds: int) -> None:
    """Run a case in turn in both, and print speeds, their ratios, and what both have simulated."""
    unit, scale = ("simulated s/s", seconds) if case.simulated else ("M packet-hops/s", 0)
    print(f"\n{f'{case.name}, {seconds} s':50} {'ns-3':>10} {'perhop':>10} {'ratio':>8}")
    ours(case, 1)  # imports what the first run needs
    both, ratios = [], []
    for number in range(1, pairs + 1):
        pair = theirs(case.command(program, seconds)), ours(case, seconds)
        both.append(pair)
        speeds = [(scale or work.hops / 1e6) / work.cpu_s for work in pair]
        ratios.append(speeds[1] / speeds[0])
        row(f"{unit}, pair {number}", *speeds, ratios[-1])
    middle = [
        median((scale or w.hops / 1e6) / w.cpu_s for w in side) for side in zip(*both, strict=True)
    ]
    row(f"{unit}, median", *middle, median(ratios))
    print(f"{'ratio, range':72} {min(ratios):.0f} to {max(ratios):.0f}")
    a, b = both[-1]
    row("goodput (Mb/s)", a.goodput_bps / 1e6, b.goodput_bps / 1e6)
    row("packets into the bottleneck", a.sent, b.sent)
    row("dropped there", a.dropped, b.dropped)
    row("packet-hops", a.hops, b.hops)


def row(what: str, a: float, b: float, ratio: float | None = None) -> None:
    """Print a line of the table; the ratio is perhop's figure to ns-3's."""
    shown = b / a if ratio is None and a else ratio
    told = "" if shown is None else f"{shown:8.3f}" if shown < 10 else f"{shown:8.1f}"
    print(f"{what:50} {number(a):>10} {number(b):>10} {told:>8}", flush=True)


def number(value: float) -> str:
    """Return counts in full, and figures with three digits."""
    return f"{value:,}" if isinstance(value, int) else f"{value:.2f}"


def instructions(programs: dict[str, Path]) -> None:
    """Print the instructions of a packet-hop."""
    benchmark = compiled()
    print(f"\n{'instructions a packet-hop':50} {'ns-3':>10} {'perhop':>10} {'ratio':>8}")
    for case in CASES:
        ends = [case.command(programs[case.program], end) for end in case.counted]
        (first, before), (last, after) = (counted(end) for end in ends)
        there = (last - first) / (hops(after) - hops(before))
        count, said = counted([benchmark, "--once", case.benchmark])
        row(case.name, there, count / int(said.split("packet hops: ")[1].split()[0]))


def hops(said: str) -> int:
    """Return the packet-hops that a program for ns-3 prints."""
    return int(said.split('"hops": ')[1].split(",")[0])


def processor() -> str:
    """Return the name of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.machine()
    return next((text.split(": ")[1] for text in lines if text.startswith("model name")), "")


if __name__ == "__main__":
    sys.exit(main())
