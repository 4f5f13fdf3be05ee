"""`python -m validation.kernel_receiver FILE SEED COUNT`: how this machine's Linux receives TCP.

The peer sends segments at a constant rate, as far as the window permits, through a TUN device in a
namespace of its own; some come late, and some of these twice. Its application reads at once. A
recording is a line of JSON: `P`, the settings of the path, and `log`, a list of events with times
in seconds: `["syn", t, timestamp]`, `["synack", t, timestamp]`, `["data", t, position, length,
timestamp, echoed timestamp]` and `["ack", t, position, SACK blocks, window]`. Positions count from
the SYN.
"""

from __future__ import annotations

import json
import os
import random
import select
import socket
import struct
import sys
import time
from bisect import bisect_right
from itertools import islice
from pathlib import Path
from typing import Any, Final

from validation.kernel_recorder import ACK, SYN, open_device, peer_packet

MSS: Final = 1448
"""Data of a full segment with timestamps, in bytes."""

FIRST: Final = 5_000
"""The peer's initial sequence number."""

OPENING_S: Final = 1.0
END_S: Final = 0.3


def settings(seed: int) -> dict[str, Any]:
    """Return the settings of a random path; times are in seconds."""
    draw = random.Random(seed)
    rtt = draw.choice([0.04, 0.1])
    return {
        "seed": seed,
        "kind": "receiver",
        "rtt": rtt,
        "spacing": draw.choice([0.0006, 0.0012, 0.0024]),
        "segments": draw.choice([400, 800]),
        "late": draw.choice([0.0, 0.02, 0.1]),
        # By some segments, or as much as a retransmission.
        "by": draw.choice([0.005, 0.02, 1.3 * rtt]),
        # Of these, a share is also sent again before it arrives, and all have the timestamps of
        # the time at which they would have been sent.
        "again": draw.choice([None, 0.0, 0.5]),
    }


class Connection:
    """A connection that the kernel accepts, and its peer."""

    def __init__(self, device: int, port: int, path: dict[str, Any]) -> None:
        self.device, self.port, self.path = device, port, path
        self.listener = socket.socket()
        self.listener.bind(("10.9.0.1", port))
        self.listener.listen(1)
        self.began = time.monotonic()
        self.log: list[list[Any]] = []
        self.kernels_first = 0
        self.scale = -1
        # End of the window that the kernel offers.
        self.edge = 0
        # Times at which the kernel's timestamps arrived, and these.
        self.heard: list[float] = []
        self.stamps: list[int] = []

    def now(self) -> float:
        """Return the seconds since the beginning."""
        return time.monotonic() - self.began

    def stamp(self) -> int:
        """Return the peer's timestamp."""
        return int(self.now() * 1000) + 1000

    def send(self, position: int, flags: int, options: bytes, data: bytes = b"") -> None:
        """Give the kernel a segment of the peer."""
        ports, ack = (6000, self.port), self.kernels_first + 1 if flags & ACK else 0
        packet = peer_packet(ports, FIRST + position, ack, flags, 1000, options, data)
        os.write(self.device, packet)
        self.read()

    def read(self) -> None:
        """Take all packets that the kernel has sent."""
        while True:
            try:
                packet = os.read(self.device, 3000)
            except BlockingIOError:
                return
            ip = (packet[0] & 15) * 4
            if packet[0] >> 4 == 4 and packet[9] == socket.IPPROTO_TCP:
                self.take(self.now(), packet[ip:])

    def take(self, now: float, tcp: bytes) -> None:
        """Take a segment of the kernel."""
        port, _, seq, ack, offset, flags, window = struct.unpack_from("!HHIIBBH", tcp)
        if port != self.port:
            return
        options = dict(_options(tcp[20 : (offset >> 4) * 4]))
        (stamp,) = struct.unpack_from("!I", options[8])
        self.heard.append(now)
        self.stamps.append(stamp)
        if flags & SYN:
            self.kernels_first, self.scale = seq, options[3][0]
            self.edge = 1 + window
            self.log.append(["synack", round(now, 6), stamp])
            return
        edges = [
            (edge - FIRST) & 0xFFFFFFFF for (edge,) in struct.iter_unpack("!I", options.get(5, b""))
        ]
        blocks = list(zip(edges[::2], edges[1::2], strict=True))
        position = (ack - FIRST) & 0xFFFFFFFF
        self.edge = max(self.edge, position + (window << self.scale))
        self.log.append(["ack", round(now, 6), position, blocks, window << self.scale])

    def data(self, position: int, length: int, late: float = 0) -> None:
        """Send a segment, which echoes what was heard a round trip before.

        Its timestamp is `late` seconds old.
        """
        now, stamp = self.now(), self.stamp() - int(late * 1000)
        heard = max(bisect_right(self.heard, now - self.path["rtt"]) - 1, 0)
        echoed = self.stamps[heard]
        self.log.append(["data", round(now, 6), position, length, stamp, echoed])
        options = struct.pack("!BBBBII", 1, 1, 8, 10, stamp, echoed)
        self.send(position, ACK, options, bytes(length))

    def release(self, held: list[tuple[int, float]]) -> list[tuple[int, float]]:
        """Send the segments that fit into the window; return the others."""
        waits = []
        for number, late in held:
            position = 1 + MSS * number
            if position + MSS <= self.edge:
                self.data(position, MSS, late)
            else:
                waits.append((number, late))
        return waits

    def run(self) -> list[list[Any]]:
        """Open the connection, send all segments and return what was recorded."""
        path, draw = self.path, random.Random(self.path["seed"])
        stamp = self.stamp()
        self.log.append(["syn", round(self.now(), 6), stamp])
        options = struct.pack("!BBHBBBBIIBBB", 2, 4, MSS + 12, 4, 2, 8, 10, stamp, 0, 3, 3, 10)
        self.send(0, SYN, options)
        while self.scale < 0 and self.now() < OPENING_S:
            self.read()
        time.sleep(path["rtt"])
        self.data(1, 0)
        own, _ = self.listener.accept()
        own.setblocking(False)
        begin = self.now() + 0.02
        agenda: list[tuple[float, int | None, float]] = []
        keeps = path["again"] is not None
        for segment in range(path["segments"]):
            late = path["by"] if segment > 20 and draw.random() < path["late"] else 0.0
            due = begin + segment * path["spacing"]
            agenda.append((due + late, segment, late if keeps else 0.0))
            if late and keeps and draw.random() < path["again"]:
                agenda.append((due + late * draw.uniform(0.2, 1.2), segment, 0.0))
        agenda.sort()
        held: list[tuple[int, float]] = []
        for at, number, late in [*agenda, (agenda[-1][0] + END_S, None, 0.0)]:
            while (wait := at - self.now()) > 0:
                select.select([self.device, own.fileno()], [], [], wait)
                self.read()
                _drain(own)
                held = self.release(held)
            if number is not None:
                held = self.release([*held, (number, late)])
            _drain(own)
            self.read()
        own.close()
        self.listener.close()
        return self.log


def _options(text: bytes) -> list[tuple[int, bytes]]:
    """Return the options of a header, by their kinds, without padding."""
    found, place = [], 0
    while place < len(text) and text[place]:
        if text[place] == 1:
            place += 1
            continue
        end = place + max(text[place + 1], 2)
        found.append((text[place], text[place + 2 : end]))
        place = end
    return found


def _drain(own: socket.socket) -> None:
    """Read what has arrived, as the application does."""
    try:
        while own.recv(1 << 20):
            pass
    except BlockingIOError:
        return


def record(path: str, seed: int, count: int) -> None:
    """Record connections with the seeds from `seed` on into a file, in a namespace of their own."""
    device = open_device()
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    with Path(path).open("w", encoding="utf-8") as file:
        for number in range(count):
            chosen = settings(seed + number)
            log = Connection(device, 7000 + number, chosen).run()
            file.write(json.dumps({"P": chosen, "log": log}, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    record(sys.argv[1], *map(int, islice(sys.argv, 2, 4)))
