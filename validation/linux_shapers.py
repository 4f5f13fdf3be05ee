"""`python -m validation.linux_shapers [--write] [NAME ...]`: shapers of this kernel, measured.

Measures the throughputs in `tests/linux_shapers.json`, with which tests compare the simulator. Each
case sends through one end of a `veth` in a network namespace of its own. It needs root.
"""

from __future__ import annotations

import argparse
import json
import platform
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

from validation.table import Row

RECORDED: Final = Path(__file__).parents[1] / "tests" / "linux_shapers.json"
TOLERANCE: Final = 0.05
"""How far two measurements of one kernel may differ, as a share. Most are within 0.5%; a bucket of
a single packet loses tokens with each late timer."""

WARM_UP_S: Final = 1.0
MEASURED_S: Final = 3.0
ROUND_S: Final = 0.002
"""The time between two attempts to fill the queues."""

BURST: Final = 64
"""The packets of a flow in such an attempt: at least 200 Mb/s of 1,500-byte packets."""

PORT: Final = 50_000
HEADERS: Final = 28
"""The bytes of the headers of IPv4 and UDP."""

ETHERTYPE_IP: Final = 0x0800
SO_SNDBUFFORCE: Final = 32
SO_RCVBUFFORCE: Final = 33
"""Constants of `asm-generic/socket.h` that the library of Python lacks."""
WIRE: Final = """
link add eth0 type veth peer name far
link set lo up
link set far up
link set eth0 up
address add 192.0.2.1/24 dev eth0
neighbour add 192.0.2.2 lladdr 02:00:00:00:00:02 dev eth0 nud permanent
"""


def class_priority(classid: str) -> int:
    """Return the priority of a socket (`SO_PRIORITY`) that selects a class."""
    major, minor = classid.split(":")
    return int(major, 16) << 16 | int(minor, 16)


def sender(number: int, classid: str) -> socket.socket:
    """Return a socket whose packets go to a class, unless it is `0:0`."""
    flow = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    flow.setblocking(False)
    flow.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 8 << 20)
    if classid != "0:0":
        flow.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, class_priority(classid))
    flow.connect(("192.0.2.2", PORT + number))
    return flow


def measure(case: dict[str, Any]) -> list[float]:
    """Return the throughput of each flow of a case in Mb/s, in bytes of IP packets."""
    for line in WIRE.strip().splitlines():
        subprocess.run(["ip", *line.split()], check=True)
    for command in case["commands"]:
        subprocess.run(["tc", *command.split()], check=True)
    sizes = [size for _, size in case["flows"]]
    senders = [sender(number, classid) for number, (classid, _) in enumerate(case["flows"])]
    far = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETHERTYPE_IP))
    far.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 64 << 20)
    far.bind(("far", ETHERTYPE_IP))
    far.setblocking(False)
    packets = [0] * len(senders)
    start = time.monotonic()
    while (elapsed := time.monotonic() - start) < WARM_UP_S + MEASURED_S:
        for flow, size in zip(senders, sizes, strict=True):
            fill(flow, bytes(size - HEADERS))
        for number in arrivals(far):
            packets[number] += elapsed >= WARM_UP_S
        time.sleep(ROUND_S)
    return [8e-6 * n * size / MEASURED_S for n, size in zip(packets, sizes, strict=True)]


def fill(flow: socket.socket, payload: bytes) -> None:
    """Send up to `BURST` packets, or until the buffer of the socket is full."""
    for _ in range(BURST):
        try:
            flow.send(payload)
        except OSError:
            return


def arrivals(far: socket.socket) -> list[int]:
    """Return the flow of each packet that has arrived."""
    numbers: list[int] = []
    while True:
        try:
            head = far.recv(24)
        except BlockingIOError:
            return numbers
        port = int.from_bytes(head[22:24], "big")
        if head[9] == socket.IPPROTO_UDP and port >= PORT:
            numbers.append(port - PORT)


def measure_apart(case: dict[str, Any]) -> list[float]:
    """Return the throughputs of a case, measured in a network namespace of its own."""
    command = ["unshare", "--net", sys.executable, "-m", "validation.linux_shapers", "--child"]
    done = subprocess.run(
        command, input=json.dumps(case), stdout=subprocess.PIPE, text=True, check=True
    )
    throughputs: list[float] = json.loads(done.stdout)
    return throughputs


def main() -> int:
    """Measure the cases; return 1 if one differs from what is recorded."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="the cases; all if none is given")
    parser.add_argument("--write", action="store_true", help="record what is measured")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(measure(json.load(sys.stdin))))
        return 0
    cases = json.loads(RECORDED.read_text("utf-8"))
    print(f"Linux {platform.release()}: Mb/s recorded, measured, their ratio, tolerance, within?")
    agree = True
    for case in cases:
        if arguments.names and case["name"] not in arguments.names:
            continue
        throughputs = measure_apart(case)
        for recorded, measured, (classid, _) in zip(
            case["mbps"], throughputs, case["flows"], strict=True
        ):
            setting = f"{case['name']}, {classid}"
            row = Row(setting, recorded, measured, TOLERANCE, slack=0.02)
            agree &= row.ok
            print(row.markdown(), flush=True)
        case["mbps"] = [float(f"{mbps:.4g}") for mbps in throughputs]
    if arguments.write:
        lines = ",\n".join(json.dumps(case) for case in cases)
        RECORDED.write_text(f"[\n{lines}\n]\n", "utf-8")
    return 0 if agree or arguments.write else 1


if __name__ == "__main__":
    sys.exit(main())
