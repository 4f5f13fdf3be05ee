"""Growth of costs with a tenfold scenario: processor seconds at n and 10 n, and the exponent.

Run by ``make bench``. Each measurement is a process of its own. An exponent of 1 is linear; a cost
that grows faster in what a user can write down is a fault. `tests/test_costs.py` holds the same
scenarios to it by counts of calls and rows, which do not depend on the machine.

    python bench/costs.py [NAME...]
"""

import io
import json
import math
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path

LIMIT_S = 60
"""Time limit of a measurement."""

HEAD = """\
perhop: 1
name: costs
nodes: {a: host, r: router, b: host}
links:
  - {ends: [a, r], rate: 1 Gbps, delay: 1 ms}
  - {ends: [r, b], rate: 500 Mbps, delay: 10 ms%s}
"""


def flows(n: int, more: Callable[[int], str] = lambda _: "") -> str:
    """The flows f0, f1, …, slow ones of UDP, each with some more settings."""
    udp = "udp: {rate: 8 kbps, size: 100 B}"
    return "flows:\n" + "".join(f"  f{i}: {{from: a, to: b, {udp}{more(i)}}}\n" for i in range(n))


def end(seconds: float, interval: str = "1 s") -> str:
    """The end of a scenario."""
    return f"duration: {round(1000 * seconds)} ms\nreport: {{interval: {interval}}}\n"


def many_flows(n: int) -> str:
    """Flows over 100 intervals."""
    return HEAD % "" + flows(n) + end(100)


def many_intervals(n: int) -> str:
    """A flow over many intervals."""
    return HEAD % "" + flows(1) + end(n)


def staggered(n: int) -> str:
    """Flows that start one after the other, so that there are as many phases."""
    return HEAD % "" + flows(n, lambda i: f", start: {100 * i} ms") + end(0.1 * n, "10 s")


def many_changes(n: int) -> str:
    """A link whose delay changes all the time."""
    lines = (f"  - {{at: {10 * i + 5} ms, on: r>b, delay: {10 + i % 2} ms}}\n" for i in range(n))
    return HEAD % "" + flows(1) + "changes:\n" + "".join(lines) + end(0.01 * n + 1, "10 s")


def many_clears(n: int) -> str:
    """Counters that are read and cleared all the time."""
    lines = (f"  - {{at: {10 * i + 5} ms, clear: counters}}\n" for i in range(n))
    return HEAD % "" + flows(1) + "changes:\n" + "".join(lines) + end(0.01 * n + 1, "10 s")


def many_pings(n: int) -> str:
    """Pings that ask each second."""
    lines = (f"  p{i}: {{from: a, to: b, every: 1 s}}\n" for i in range(n))
    return HEAD % "" + "pings:\n" + "".join(lines) + end(20)


def long_ping(n: int) -> str:
    """A ping that asks often."""
    return HEAD % "" + "pings: {p: {from: a, to: b, every: 10 ms}}\n" + end(0.01 * n)


def many_expectations(n: int) -> str:
    """Expectations, each over a window of its own."""
    line = "  - {{throughput: f0, during: {} ms..{} ms, at_least: 1 bps}}\n"
    lines = (line.format(10 * i, 10 * i + 200) for i in range(n))
    return HEAD % "" + flows(1) + "expect:\n" + "".join(lines) + end(0.01 * n + 1)


def many_classes(n: int) -> str:
    """A policy with many classes, a flow for each."""
    match = "{{protocol: udp, destination_port: {0}}}"
    classes = "".join(
        f"      c{i}: {{match: {match.format(2000 + i)}, bandwidth: 10 kbps}}\n" for i in range(n)
    )
    policy = f"policies:\n  many:\n    classes:\n{classes}      rest: {{match: any}}\n"
    some = flows(n, lambda i: f", port: {2000 + i}")
    return HEAD % ", egress: {r: many}" + policy + some + end(10)


def long_match(n: int) -> str:
    """A class that matches a long list of ports."""
    ports = ", ".join(str(2000 + 2 * i) for i in range(n))
    match = f"{{protocol: udp, destination_port: [{ports}]}}"
    policy = (
        f"policies:\n  many: {{classes: {{listed: {{match: {match}}}, rest: {{match: any}}}}}}\n"
    )
    return HEAD % ", egress: {r: many}" + policy + flows(1, lambda _: ", port: 2000") + end(10)


def deep(n: int) -> str:
    """Policies, each inside a class of the one before."""
    rest = "rest: {match: any, unused: true}"
    lines = "".join(
        f"  p{i}: {{classes: {{in: {{match: {{protocol: udp}}, policy: p{i + 1}}}, {rest}}}}}\n"
        for i in range(n)
    )
    last = f"  p{n}: {{classes: {{in: {{match: {{protocol: udp}}}}, {rest}}}}}\n"
    return HEAD % ", egress: {r: p0}" + "policies:\n" + lines + last + flows(1) + end(10)


def many_nodes(n: int) -> str:
    """A line of routers with a host at each."""
    nodes = "".join(f"  r{i}: router\n  h{i}: host\n" for i in range(n))
    links = "".join(f"  - {{ends: [h{i}, r{i}], rate: 1 Gbps}}\n" for i in range(n))
    links += "".join(f"  - {{ends: [r{i}, r{i + 1}], rate: 1 Gbps}}\n" for i in range(n - 1))
    flow = f"flows: {{f: {{from: h0, to: h{n - 1}, udp: {{rate: 8 kbps, size: 100 B}}}}}}\n"
    return f"perhop: 1\nname: costs\nnodes:\n{nodes}links:\n{links}{flow}" + end(10)


def flapping(n: int) -> str:
    """A large network in which a link goes down and up all the time."""
    flip = "  - {{at: {} ms, on: h1>r1, state: {}}}\n"
    lines = (flip.format(10 * i + 5, ("down", "up")[i % 2]) for i in range(n))
    return many_nodes(200) + "changes:\n" + "".join(lines)


def many_pairs(n: int) -> str:
    """A star of hosts, each of which sends to the next."""
    nodes = "".join(f"  h{i}: host\n" for i in range(n))
    links = "".join(f"  - {{ends: [h{i}, r], rate: 1 Gbps}}\n" for i in range(n))
    udp = "udp: {rate: 8 kbps, size: 100 B}"
    pairs = "".join(f"  f{i}: {{from: h{i}, to: h{(i + 1) % n}, {udp}}}\n" for i in range(n))
    nodes += "  r: router\n"
    return f"perhop: 1\nname: costs\nnodes:\n{nodes}links:\n{links}flows:\n{pairs}" + end(10)


def holes(n: int) -> str:
    """A window of n MB on a fast, long link that loses at random."""
    tcp = f"tcp: {{window: {n} MB, congestion_control: bbr, stack: linux-6}}"
    return (
        "perhop: 1\nname: costs\nnodes: {a: host, b: host}\n"
        f"links: [{{ends: [a, b], rate: {8 * n} Mbps, delay: 500 ms, loss: 1%, "
        "queue: {limit: 1 s}}]\n"
        f"flows: {{f: {{from: a, to: b, {tcp}}}}}\n" + end(8)
    )


def reordered(n: int) -> str:
    """Packets of which a third are overtaken by up to n others."""
    wire = f", reorder: {{share: 30%, by: {n} ms}}"
    udp = "flows: {f: {from: a, to: b, udp: {rate: 80 Mbps, size: 1000 B}}}\n"
    return HEAD % wire + udp + end(12)


def tiny_intervals(n: int) -> str:
    """Reports every millisecond."""
    return HEAD % "" + flows(2) + end(0.001 * n, "1 ms")


def years(n: int) -> str:
    """Some packets in n days."""
    udp = "udp: {rate: 8 bps, size: 10000 B}"
    flow = f"flows: {{f: {{from: a, to: b, {udp}}}}}\n"
    return HEAD % "" + flow + end(86400 * n, "1 h")


def load(text: str) -> dict[str, float]:
    """Seconds to load, to run, to sum up, to print and to draw."""
    from perhop import analysis, engines, report
    from perhop.cli.run import print_tables
    from perhop.report.charts import throughput_chart
    from perhop.report.drawing import svg
    from perhop.scenario import parse

    spent: dict[str, float] = {}

    def timed(name, function):  # type: ignore[no-untyped-def]
        began = time.process_time()
        result = function()
        spent[name] = time.process_time() - began
        return result

    scenario = timed("load", lambda: parse(text))
    svg({"mark": "point", "data": {"values": []}})  # the first drawing takes long, whatever it is
    dataset = timed("run", lambda: engines.run(scenario))
    with tempfile.TemporaryDirectory() as folder:
        timed("save", lambda: dataset.write(Path(folder, "run")))
        fresh = timed("read", lambda: type(dataset).read(Path(folder, "run")))
    timed("json", lambda: json.dumps(analysis.summary(fresh)))
    with redirect_stdout(io.StringIO()):
        timed("text", lambda: print_tables(dataset, Path("x")))
    timed("page", lambda: report.page(dataset))
    if scenario.flows:
        timed("picture", lambda: svg(throughput_chart(dataset)))
    spent["MB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return spent


CASES: dict[str, tuple[Callable[[int], str], int]] = {
    "flows in 100 intervals": (many_flows, 100),
    "intervals of a flow": (many_intervals, 1000),
    "flows, each with a phase": (staggered, 50),
    "changes": (many_changes, 100),
    "counters cleared": (many_clears, 100),
    "pings": (many_pings, 100),
    "requests of a ping": (long_ping, 10_000),
    "expectations": (many_expectations, 100),
    "classes": (many_classes, 100),
    "ports in a match": (long_match, 1000),
    "policies in policies": (deep, 2),
    "routers in a line": (many_nodes, 50),
    "changes of 400 nodes": (flapping, 90),
    "hosts around a router": (many_pairs, 99),
    "MB in a window, 1% lost": (holes, 10),
    "packets overtaken by": (reordered, 1000),
    "milliseconds of intervals": (tiny_intervals, 1000),
    "days of silence": (years, 19),
}


def main(names: list[str]) -> int:
    """Print the table."""
    print(f"{'':<26} {'n':>7} {'stage':<9} {'n':>9} {'10 n':>9}  exponent")
    for name, (_, n) in CASES.items():
        if names and name not in names:
            continue
        small, large = (measured(name, size) for size in (n, 10 * n))
        for stage in small if isinstance(small, dict) else ["all"]:
            if isinstance(large, str) or isinstance(small, str):
                print(f"{name:<26} {n:>7} {small} {large}", flush=True)
                break
            one, ten = small[stage], large[stage]
            grows = math.log10(max(ten, 1e-9) / max(one, 1e-9))
            if stage == "MB" or ten > 0.05:
                print(
                    f"{name:<26} {n:>7} {stage:<9} {one:>9.3f} {ten:>9.3f}  {grows:>8.2f}",
                    flush=True,
                )
    return 0


def measured(name: str, size: int) -> dict[str, float] | str:
    """Measure the cost of a scenario in a process of its own."""
    try:
        command = [sys.executable, __file__, "--one", name, str(size)]
        run = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        return f"more than {LIMIT_S} s"
    return json.loads(run.stdout) if run.returncode == 0 else run.stderr.strip()[-300:]


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        made, _ = CASES[sys.argv[2]]
        print(json.dumps(load(made(int(sys.argv[3])))))
        sys.exit()
    sys.exit(main(sys.argv[1:]))
