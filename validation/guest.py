"""The first program of a User Mode Linux: sends packets through queueing disciplines.

`guest.py JOB RESULT`: the job has the modules to load and runs, each with commands of tc for the
interface `v0` and packets. The result has, for each run, the times at which packets were sent, and
those at which they arrived, by their numbers; and the longest time for which nothing ran.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import socket
import struct
import subprocess
import sys
import time
import traceback
from pathlib import Path
from typing import Any

LIBC = ctypes.CDLL(None, use_errno=True)
FINIT_MODULE = 313  # x86-64
POWER_OFF = 0x4321FEDC
SO_TIMESTAMPNS = 35
SO_SNDBUFFORCE, SO_RCVBUFFORCE = 32, 33
MARK = b"perhop"
STEP_S = 0.005
"""The longest time between two looks at the clock, if the machine is not busy."""

QUIET_S = 1.0
"""A run ends when no packet has arrived for this time."""


def main(job: str, result: str) -> None:
    """Perform the runs of a job."""
    for kind, place in (("proc", "/proc"), ("sysfs", "/sys")):
        LIBC.mount(kind.encode(), place.encode(), kind.encode(), 0, None)
    found = json.loads(Path(job).read_text("utf-8"))
    for module in found["modules"]:
        descriptor = os.open(module, os.O_RDONLY)
        if LIBC.syscall(FINIT_MODULE, descriptor, b"", 0):
            print(module, os.strerror(ctypes.get_errno()), flush=True)
        os.close(descriptor)
    os.environ["PATH"] = "/usr/sbin:/usr/bin:/sbin:/bin"  # the first process has none
    call("ip link add v0 type veth peer name v1")
    for name in ("v0", "v1"):
        call(f"ip link set {name} up")
    rows = [run(each) for each in found["runs"]]
    Path(result).write_text(json.dumps(rows), "utf-8")


def call(command: str) -> None:
    """Run a program."""
    made = subprocess.run(command.split(), capture_output=True, text=True, check=False)
    if made.returncode:
        raise RuntimeError(f"{command}: {made.stderr}")


def run(each: dict[str, Any]) -> dict[str, Any]:
    """Send the packets of a run; return when each was sent, and when those that arrive did."""
    for command in each["commands"]:
        call(command)
    sender = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    sender.bind(("v0", 0))
    sender.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 2**28)
    receiver = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
    receiver.bind(("v1", 0))
    receiver.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 2**28)
    receiver.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    tunnel = each["tunnel"] and (each["tunnel"]["protocol"], bytes(each["tunnel"]["bytes"]))
    frames = [
        frame(number, port, size, dscp, tunnel)
        for number, (_, port, size, dscp, _) in enumerate(each["packets"])
    ]
    mark = frames[0].index(MARK)
    begin = time.clock_gettime(time.CLOCK_REALTIME) + 0.05
    sent: dict[int, float] = {}
    arrived: dict[int, float] = {}
    quiet_since = begin
    packets = [(number, *packet) for number, packet in enumerate(each["packets"])]
    priority, stall, before = None, 0.0, begin
    while packets or time.clock_gettime(time.CLOCK_REALTIME) < quiet_since + QUIET_S:
        now = time.clock_gettime(time.CLOCK_REALTIME)
        stall = max(stall, now - before - STEP_S)
        while packets and begin + packets[0][1] <= now:
            number, *_, wanted = packets.pop(0)
            if wanted != priority:
                sender.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, wanted)
                priority = wanted
            quiet_since = time.clock_gettime(time.CLOCK_REALTIME)
            sent[number] = quiet_since - begin
            with contextlib.suppress(OSError):  # a full queue may say so
                sender.send(frames[number])
        before = time.clock_gettime(time.CLOCK_REALTIME)
        wait = begin + packets[0][1] - time.clock_gettime(time.CLOCK_REALTIME) if packets else 1.0
        wait = min(wait, STEP_S)
        while select.select([receiver], [], [], max(wait, 0.0))[0]:
            data, notes, _, _ = receiver.recvmsg(2048, 64)
            if data[mark:].startswith(MARK):
                stamp = struct.unpack("qq", notes[0][2])
                number = struct.unpack_from("!I", data, mark + len(MARK))[0]
                arrived[number] = stamp[0] + stamp[1] / 1e9 - begin
                quiet_since = time.clock_gettime(time.CLOCK_REALTIME)
            wait, before = 0.0, time.clock_gettime(time.CLOCK_REALTIME)
    sender.close()
    receiver.close()
    call("tc qdisc del dev v0 root")
    return {"sent": sent, "arrived": arrived, "stall": stall}


def frame(number: int, port: int, size: int, dscp: int, tunnel: tuple[int, bytes] | None) -> bytes:
    """Return an Ethernet frame with a datagram; `size` is that of the IP packet.

    With a tunnel, an outer packet of its protocol has its bytes before the IP packet.
    """
    udp = struct.pack("!HHHH", port, 5001, size - 20, 0)
    body = udp + MARK + struct.pack("!I", number)
    packet = ip(number, 17, dscp, body.ljust(size - 20, b"\0"), 1)
    if tunnel is not None:
        packet = ip(number, tunnel[0], dscp, tunnel[1] + packet, 3)
    return b"\xff" * 6 + b"\x02\x00\x00\x00\x00\x01" + b"\x08\x00" + packet


def ip(number: int, protocol: int, dscp: int, body: bytes, host: int) -> bytes:
    """Return an IP packet from a host to the next one."""
    ends = bytes((192, 0, 2, host)), bytes((192, 0, 2, host + 1))
    size = 20 + len(body)
    head = struct.pack("!BBHHHBBH", 0x45, dscp << 2, size, number & 0xFFFF, 0, 64, protocol, 0)
    words = struct.unpack("!10H", head + ends[0] + ends[1])
    total = sum(words)
    total = (total & 0xFFFF) + (total >> 16)
    checksum = struct.pack("!H", ~(total + (total >> 16)) & 0xFFFF)
    return head[:10] + checksum + ends[0] + ends[1] + body


if __name__ == "__main__":
    try:
        main(*sys.argv[1:3])
    except BaseException:  # the first program must not end
        traceback.print_exc()
    os.sync()
    LIBC.reboot(ctypes.c_int(POWER_OFF))
