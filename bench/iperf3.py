"""Our server of iperf3 beside iperf3's own, same client: `python bench/iperf3.py [ROUNDS]`.

Between two network namespaces that a veth pair joins, tests of 2 seconds in alternating pairs.
Printed are medians: the rate that the receiver reports and the CPU time of the server's process
(what /proc says, for a gigabit or a million datagrams that were received). It needs Debian's
iproute2 and iperf3, and root.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from traffic import lab, run

if TYPE_CHECKING:
    from perhop._core import Namespaces

PERHOP = Path(sys.executable).with_name("perhop")
SERVERS = {
    "perhop": [str(PERHOP), "agent", "iperf3", "--listen", "10.0.0.2:5301"],
    "iperf3": ["iperf3", "-s", "-p", "5302"],
}
PORTS = {"perhop": "5301", "iperf3": "5302"}
TESTS = ["", "-P 4", "-R", "-P 4 -R", "-u -b 0 -l 1448", "-u -b 0 -l 200", "-u -b 0 -l 1448 -R"]


def spent(server: subprocess.Popen[bytes]) -> float:
    """Seconds of CPU time of a process."""
    fields = Path(f"/proc/{server.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(
    namespaces: Namespaces, server: subprocess.Popen[bytes], port: str, options: list[str]
) -> tuple[float, float, float]:
    """The rate (bit/s, or datagrams/s), seconds of CPU for so much, and the share that was lost."""
    before = spent(server)
    client = ["iperf3", "-c", "10.0.0.2", "-p", port, "-t", "2", "--json", *options]
    end = json.loads(run(namespaces, 0, *client))["end"]
    time.sleep(0.3)  # iperf3's server ends its test after its client.
    cost = spent(server) - before
    if "-u" in options:
        total = end["sum"]
        received = total["packets"] - total["lost_packets"]
        return (
            received / total["seconds"],
            cost / received,
            total["lost_packets"] / total["packets"],
        )
    total = end["sum_received"]
    return total["bits_per_second"], cost / (8 * total["bytes"]), 0.0


def main() -> None:
    """Measure, and print a line a test."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    for program in ("ip", "iperf3", "nsenter"):
        if shutil.which(program) is None:
            raise SystemExit(f"{program} is missing; on Debian: apt install iproute2 iperf3")
    namespaces = lab()
    inside = ["nsenter", f"--net=/proc/{os.getpid()}/fd/{namespaces.fd(1)}"]
    servers = {
        name: subprocess.Popen(
            [*inside, *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        for name, command in SERVERS.items()
    }
    time.sleep(1)
    print(f"load {os.getloadavg()[0]:.1f}, medians of {rounds} alternating pairs of 2 s")
    print("UDP: million datagrams/s and CPU seconds a million; TCP: Gb/s and CPU seconds a gigabit")
    names = ("perhop", "iperf3", "ratio", "CPU", "iperf3", "ratio", "lost", "iperf3")
    print(f"{'client':20} " + " ".join(f"{name:>8}" for name in names))
    try:
        for test in TESTS:
            found: dict[str, list[tuple[float, float, float]]] = {name: [] for name in servers}
            for turn in range(rounds):
                for name in sorted(servers, reverse=turn % 2 == 1):
                    found[name].append(
                        measure(namespaces, servers[name], PORTS[name], test.split())
                    )
            scale = 1e6 if "-u" in test else 1e9
            (ours, cost, lost), (theirs, cost_there, lost_there) = (
                tuple(statistics.median(each[part] for each in found[name]) for part in range(3))
                for name in servers
            )
            rates = f"{ours / scale:8.3f} {theirs / scale:8.3f} {ours / theirs:8.2f}"
            costs = f"{cost * scale:8.3f} {cost_there * scale:8.3f} {cost / cost_there:8.2f}"
            print(f"{test:20} {rates} {costs} {lost:8.1%} {lost_there:8.1%}", flush=True)
    finally:
        for server in servers.values():
            server.terminate()


if __name__ == "__main__":
    main()
