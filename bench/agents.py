"""Traffic between two agents beside iperf3: `python bench/agents.py [SECONDS] [PAIRS]`.

The agents run in two network namespaces that a veth pair joins, and a controller tells them to
send: the whole of `perhop run --engine live`. Each pair is such a run and a test of iperf3, in
alternating order. A ratio is the median over the pairs, with the smallest and the largest. For six
independent pairs, these two enclose the true median with a probability of 97% (1 - 2 / 2**6).
Costs are CPU time of both ends, whole processes. It needs Debian's iproute2 and iperf3, and root.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
from iperf3 import spent
from traffic import lab, scenario

from perhop.dataset import Dataset

if TYPE_CHECKING:
    from collections.abc import Callable

    from perhop._core import Namespaces

ROOT = Path(__file__).parent.parent
AGENT = ROOT / "target/release/perhop-agent"
PERHOP = Path(sysconfig.get_path("scripts"), "perhop")
PORT = 5309
"""Port of iperf3's server."""
TESTS = {
    "TCP": ("tcp: {}", []),
    "UDP, 64 B": ("udp: {rate: 90 Gbps, size: 64 B}", ["-u", "-b", "0", "-l", "64"]),
    "UDP, 1400 B": ("udp: {rate: 90 Gbps, size: 1400 B}", ["-u", "-b", "0", "-l", "1400"]),
}
"""The flow of a scenario, and the options of iperf3's client, by name."""


@dataclass(frozen=True)
class Measured:
    """Result of a run.

    Attributes:
        bits: Bits a second that were received.
        sent: Datagrams a second that were sent; 0 for TCP.
        received: Datagrams a second that were received.
        cost: Seconds of CPU time for a received gigabit.
    """

    bits: float
    sent: float
    received: float
    cost: float


@dataclass(frozen=True)
class Host:
    """A namespace with an agent."""

    inside: list[str]
    """Command that starts another one in it."""
    agent: subprocess.Popen[str]


def serve(namespaces: Namespaces, folder: Path) -> list[Host]:
    """Start an agent in each namespace, and write down where it is."""
    build = ["build", "--quiet", "--release", "--package", "perhop-agent"]
    subprocess.run([os.environ.get("CARGO", "cargo"), *build], cwd=ROOT, check=True)
    key = subprocess.run([AGENT, "key"], check=True, stdout=subprocess.PIPE).stdout
    (folder / "controller.pub").write_bytes(key)
    hosts: list[Host] = []
    written = {}
    for number, name in enumerate("ab"):
        inside = ["nsenter", f"--net=/proc/{os.getpid()}/fd/{namespaces.fd(number)}"]
        subprocess.run([*inside, "ip", "link", "set", "lo", "up"], check=True)
        address = f"10.0.0.{number + 1}"
        options = ["--key", f"{name}.key", "--allow", "controller.pub", "--max-rate", "none"]
        command = [*inside, str(AGENT), "serve", *options, "--listen", f"{address}:4861"]
        agent = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
        assert agent.stdout is not None
        agent.stdout.readline()
        public = agent.stdout.readline().removeprefix("key: ").strip()
        written[name] = {"address": address, "key": public}
        hosts.append(Host(inside, agent))
    (folder / "agents.yaml").write_text(json.dumps(written))
    return hosts


def ours(hosts: list[Host], folder: Path, flow: str, seconds: float) -> Measured:
    """A run between the agents."""
    (folder / "bench.yaml").write_text(scenario(flow, seconds))
    before = sum(spent(host.agent) for host in hosts)
    options = ["--engine", "live", "--agents", "agents.yaml", "--out", "run"]
    command = [*hosts[0].inside, str(PERHOP), "run", "bench.yaml", *options]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    cost = sum(spent(host.agent) for host in hosts) - before
    found = Dataset.read(folder / "run").intervals.select(pl.col("bytes", "packets", "lost").sum())
    size, packets, lost = found.row(0)
    sent = 0 if flow.startswith("tcp") else packets + lost
    return Measured(8 * size / seconds, sent / seconds, packets / seconds, cost / (8e-9 * size))


def iperf3(
    hosts: list[Host], server: subprocess.Popen[bytes], options: list[str], seconds: float
) -> Measured:
    """A test of iperf3."""

    def used() -> float:
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return spent(server) + children.ru_utime + children.ru_stime

    before = used()
    test = ["iperf3", "-c", "10.0.0.2", "-p", str(PORT), "-t", str(round(seconds)), "--json"]
    command = [*hosts[0].inside, *test, *options]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    cost = used() - before
    end = json.loads(done.stdout)["end"]
    if "-u" not in options:
        total = end["sum_received"]
        return Measured(total["bits_per_second"], 0, 0, cost / (8e-9 * total["bytes"]))
    total = end["sum"]
    received = total["packets"] - total["lost_packets"]
    bits = 8 * received * int(options[-1])
    seconds = total["seconds"]
    return Measured(
        bits / seconds, total["packets"] / seconds, received / seconds, cost / (bits / 1e9)
    )


def ratio(
    pairs: list[tuple[Measured, Measured]], part: Callable[[Measured], float]
) -> tuple[float, float, float]:
    """The median, the smallest and the largest ratio of ours to iperf3's."""
    ratios = [part(own) / part(other) for own, other in pairs]
    return statistics.median(ratios), min(ratios), max(ratios)


def show(name: str, pairs: list[tuple[Measured, Measured]]) -> None:
    """Print the lines of a test."""
    parts: dict[str, Callable[[Measured], float]] = {
        "Gb/s received": lambda each: each.bits / 1e9,
        "CPU ms a gigabit": lambda each: each.cost * 1e3,
    }
    if name != "TCP":
        parts["1000 datagrams/s sent"] = lambda each: each.sent / 1e3
        parts["1000 datagrams/s received"] = lambda each: each.received / 1e3
    for title, part in parts.items():
        own, other = (statistics.median(part(pair[side]) for pair in pairs) for side in (0, 1))
        middle, least, most = ratio(pairs, part)
        found = f"{own:10.1f} {other:10.1f} {middle:8.2f}   {least:.2f} to {most:.2f}"
        print(f"{name:12} {title:26} {found}", flush=True)


def main() -> None:
    """Measure, and print a line for each quantity."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 2.0
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 6
    for program in ("ip", "iperf3", "nsenter"):
        if shutil.which(program) is None:
            raise SystemExit(f"{program} is missing; on Debian: apt install iproute2 iperf3")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["XDG_CONFIG_HOME"] = name
        namespaces = lab()
        hosts = serve(namespaces, folder)
        command = [*hosts[1].inside, "iperf3", "-s", "-p", str(PORT)]
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            print(f"load {os.getloadavg()[0]:.1f}, {count} pairs of {seconds:g} s")
            print(f"{'':39} {'agents':>10} {'iperf3':>10} {'ratio':>8}   of the pairs")
            for test, (flow, options) in TESTS.items():
                pairs = []
                for turn in range(count):
                    works: list[Callable[[], Measured]] = [
                        lambda flow=flow: ours(hosts, folder, flow, seconds),
                        lambda options=options: iperf3(hosts, server, options, seconds),
                    ]
                    found = [work() for work in works[:: -1 if turn % 2 else 1]]
                    pairs.append((found[turn % 2], found[1 - turn % 2]))
                show(test, pairs)
        finally:
            server.terminate()
            for host in hosts:
                host.agent.terminate()


if __name__ == "__main__":
    main()
