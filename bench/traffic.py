"""Our senders beside iperf3 and iperf, in one run: `python bench/traffic.py [SECONDS] [ROUNDS]`.

Between two network namespaces that a veth pair joins, each program in turn and again: TCP's
throughput and what it costs, datagrams a second, and how evenly they come at 100 Mb/s. Costs are
CPU time of sender and receiver together, by getrusage(2); when datagrams arrive is what the kernel
says to the same packet socket for everybody. It needs Debian's iproute2, iperf3 and iperf, and
root.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import statistics
import sys
import threading
import time
from dataclasses import dataclass
from itertools import count, pairwise
from typing import TYPE_CHECKING, Any

import polars as pl

from perhop._core import Namespaces
from perhop.engines.traffic import Traffic
from perhop.scenario import parse

if TYPE_CHECKING:
    from collections.abc import Callable

LISTEN = """
import socket, struct, sys, time
seconds = float(sys.argv[1])
raw = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x800))
raw.setsockopt(socket.SOL_SOCKET, 35, 1)  # SO_TIMESTAMPNS
raw.setsockopt(socket.SOL_SOCKET, 33, 1 << 26)  # SO_RCVBUFFORCE
raw.settimeout(0.2)
until = time.monotonic() + seconds
while time.monotonic() < until:
    try:
        packet, control, _, address = raw.recvmsg(64, 64)
    except TimeoutError:
        continue
    if address[2] == 4 or packet[9] != 17 or packet[2:4] != (1428).to_bytes(2, "big"):
        continue
    seconds, nanos = struct.unpack("qq", control[0][2])
    print(seconds * 10**9 + nanos)
"""
"""Prints when each datagram of 1400 B came."""


@dataclass
class Measured:
    """Result of a program.

    Attributes:
        bits: Bits a second that were received.
        cost: Seconds of CPU time for a gigabit.
        datagrams: Datagrams a second that were sent.
        received: Datagrams a second that were received.
    """

    bits: float = 0.0
    cost: float = 0.0
    datagrams: float = 0.0
    received: float = 0.0


def lab() -> Namespaces:
    """Two hosts."""
    namespaces = Namespaces(2)
    there = f"/proc/{os.getpid()}/fd/{namespaces.fd(1)}"
    run(
        namespaces,
        0,
        "ip",
        "link",
        "add",
        "out",
        "type",
        "veth",
        "peer",
        "name",
        "in",
        "netns",
        there,
    )
    for host, device in enumerate(("out", "in")):
        run(namespaces, host, "ip", "address", "add", f"10.0.0.{host + 1}/24", "dev", device)
        run(namespaces, host, "ip", "link", "set", device, "up")
    return namespaces


def run(namespaces: Namespaces, host: int, *command: str) -> str:
    """Return the output of a command."""
    code, output, errors = namespaces.run(host, list(command), b"")
    if code != 0:
        raise SystemExit(f"{' '.join(command)}: {errors.decode() or output.decode()}")
    return output.decode()


def beside(work: Callable[[], Any]) -> Callable[[], Any]:
    """Does `work` in a thread; the function that is returned waits for its result."""
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(work()))
    thread.start()

    def wait() -> Any:
        thread.join()
        return results[0]

    return wait


PORTS = count(6000)
"""A port for each run: the connection before has not been forgotten yet."""


def scenario(flow: str, seconds: float) -> str:
    """One flow between two hosts."""
    return f"""
perhop: 1
name: bench
nodes: {{a: host, b: host}}
links: [{{ends: [a, b], rate: 100 Gbps}}]
flows: {{x: {{from: a, to: b, stop: {seconds} s, port: {next(PORTS)}, {flow}}}}}
duration: {seconds + 0.3:g} s
"""


def ours(namespaces: Namespaces, flow: str, seconds: float) -> Measured:
    """Our senders and receivers."""
    before = resource.getrusage(resource.RUSAGE_SELF)
    traffic = Traffic(parse(scenario(flow, seconds), "bench"), 1, namespaces)
    traffic.start(time.monotonic_ns() + 1_000_000)
    while not traffic.finished:
        time.sleep(0.05)
    sums = traffic.tables()["intervals"].select(pl.col("bytes", "packets", "lost").sum())
    size, packets, lost = sums.row(0)
    after = resource.getrusage(resource.RUSAGE_SELF)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    bits = 8 * size
    return Measured(
        bits / seconds, spent / (bits / 1e9), (packets + lost) / seconds, packets / seconds
    )


def iperf3(namespaces: Namespaces, arguments: list[str], seconds: float) -> Measured:
    """The same of iperf3."""
    server = beside(lambda: run(namespaces, 1, "iperf3", "-s", "-1", "-J"))
    time.sleep(0.3)
    client = ["iperf3", "-c", "10.0.0.2", "-t", str(round(seconds)), "-J", *arguments]
    end = json.loads(run(namespaces, 0, *client))["end"]
    server()
    used = end["cpu_utilization_percent"]
    spent = (used["host_total"] + used["remote_total"]) / 100 * seconds
    if "packets" not in end.get("sum", {}):
        bits = end["sum_received"]["bits_per_second"]
        return Measured(bits, spent / (bits * seconds / 1e9))
    total = end["sum"]
    sent, lost, seconds = total["packets"], total["lost_packets"], total["seconds"]
    bits = total["bits_per_second"]
    return Measured(bits, spent / (bits * seconds / 1e9), sent / seconds, (sent - lost) / seconds)


def iperf(namespaces: Namespaces, size: int, seconds: float) -> Measured:
    """Datagrams a second that iperf 2 sends."""
    serve = f"timeout {seconds + 2} iperf -s -u -l {size} || true"
    server = beside(lambda: run(namespaces, 1, "sh", "-c", serve))
    time.sleep(0.3)
    client = ["iperf", "-c", "10.0.0.2", "-u", "-b", "100g", "-l", str(size), "-y", "C"]
    lines = run(namespaces, 0, *client, "-t", str(round(seconds))).splitlines()
    bits = float(lines[0].split(",")[8])
    server()
    return Measured(bits, 0.0, bits / 8 / size)


def unevenness(namespaces: Namespaces, send: Callable[[], Any], seconds: float) -> float:
    """The standard deviation of the times between arrivals, in microseconds."""
    listener = beside(lambda: run(namespaces, 1, sys.executable, "-c", LISTEN, str(seconds + 1.5)))
    time.sleep(0.5)
    send()
    arrived = [int(line) for line in listener().split()]
    gaps = [(b - a) / 1e3 for a, b in pairwise(arrived)]
    # What iperf3 sends before and after its test is not of it.
    return statistics.pstdev(gap for gap in gaps if gap < 1e5)


def main() -> None:
    """Measure, and print a line a program."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 3.0
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    for program in ("ip", "iperf3", "iperf"):
        if shutil.which(program) is None:
            raise SystemExit(f"{program} is missing; on Debian: apt install iproute2 iperf3 iperf")
    namespaces = lab()
    print(f"load {os.getloadavg()[0]:.1f}, medians of {rounds} rounds of {seconds:g} s")

    found: dict[str, list[Measured]] = {}
    for _ in range(rounds):
        found.setdefault("perhop", []).append(ours(namespaces, "tcp: {}", seconds))
        found.setdefault("iperf3", []).append(iperf3(namespaces, [], seconds))
        found.setdefault("iperf3 -Z", []).append(iperf3(namespaces, ["-Z"], seconds))
    print("\nTCP, one stream           Gb/s   CPU ms a gigabit")
    for name, all_of in found.items():
        rate = statistics.median(each.bits for each in all_of) / 1e9
        cost = statistics.median(each.cost for each in all_of) * 1e3
        print(f"  {name:20} {rate:8.2f} {cost:12.1f}")

    for size in (64, 1400):
        found = {}
        for _ in range(rounds):
            flow = f"udp: {{rate: 90 Gbps, size: {size} B}}"
            found.setdefault("perhop", []).append(ours(namespaces, flow, seconds))
            most = ["-u", "-b", "0", "-l", str(size)]
            found.setdefault("iperf3", []).append(iperf3(namespaces, most, seconds))
            found.setdefault("iperf", []).append(iperf(namespaces, size, seconds))
        print(f"\nUDP, {size:4} B          sent/s  received/s  of iperf3")
        rates = {
            name: statistics.median(each.datagrams for each in all_of)
            for name, all_of in found.items()
        }
        for name, all_of in found.items():
            received = statistics.median(each.received for each in all_of)
            ratio = rates[name] / rates["iperf3"]
            print(f"  {name:18} {rates[name]:8.0f} {received:11.0f} {ratio:10.2f}")

    spread: dict[str, list[float]] = {}
    flow = "udp: {rate: 100 Mbps, size: 1400 B}"
    paced = ["-u", "-b", "100M", "-l", "1400"]
    for _ in range(rounds):
        spread.setdefault("perhop", []).append(
            unevenness(namespaces, lambda: ours(namespaces, flow, seconds), seconds)
        )
        spread.setdefault("iperf3", []).append(
            unevenness(namespaces, lambda: iperf3(namespaces, paced, seconds), seconds)
        )
    print("\nUDP, 1400 B at 100 Mb/s: standard deviation of interarrival times")
    for name, deviations in spread.items():
        print(f"  {name:20} {statistics.median(deviations):8.1f} us")


if __name__ == "__main__":
    main()
