"""Recordings of how this machine's Linux sends TCP over a scripted path.

The peer and the path are this program, behind a TUN device in a namespace of its own, so that each
segment of the kernel and each acknowledgement that it takes is on record, with its time. A
recording is a line of JSON: `P`, the settings of the path, and `log`, a list of events: `["syn",
t]`, `["synack", t]`, `["write", t, bytes]`, `["tx", t, position, length, flags, ECN field,
timestamp]`, `["ack", t, position, SACK blocks, echoed timestamp, own timestamp, echo of marks,
window]` and `["info", t, state]`, with times in seconds. Positions count from the SYN.
"""

from __future__ import annotations

import fcntl
import heapq
import itertools
import json
import os
import random
import select
import socket
import struct
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

OWN: Final = socket.inet_aton("10.9.0.1")
PEER: Final = socket.inet_aton("10.9.0.2")
TUNSETIFF: Final = 0x400454CA
TUN_WITHOUT_HEADER: Final = 0x1001
SO_SNDBUFFORCE: Final = 32
TCP_CONGESTION: Final = 13
FIN, SYN, ACK, ECE, CWR = 0x01, 0x02, 0x10, 0x40, 0x80
AT_ONCE: Final = 12
"""Connections that are recorded side by side."""

SYSCTLS: Final = {
    "tcp_no_metrics_save": 1,
    "tcp_autocorking": 0,
    "tcp_ecn": 1,
}

KINDS: Final = (
    "loss",
    "burst",
    "reorder",
    "stall",
    "tail",
    "nosack",
    "ecn",
    "ackloss",
    "app",
    "queue",
    "dup",
    "acklate",
)


def settings(seed: int) -> dict[str, Any]:
    """Return the settings of a random path and its traffic; times are in ms."""
    draw = random.Random(seed)
    kind = draw.choice(KINDS)
    path: dict[str, Any] = {
        "seed": seed,
        "kind": kind,
        "mss": 1000,
        "sack": 1,
        "ts": draw.random() < 0.5,
        "cc": draw.choice(["cubic", "cubic", "reno"]),
        "rtt": draw.choice([40, 60, 100, 160]),
        "ser": draw.choice([0.5, 1, 2, 4]),
        "loss": 0.0,
        "bursts": [0],
        "ackevery": draw.choice([1, 2]),
        "win": 4000,
        "dur": 6000,
        "writes": [[0, draw.choice([30_000, 100_000, 300_000, 600_000])]],
        "stalls": [],
        "reorder": 0.0,
        "reorderby": [0],
        "ackloss": 0.0,
        "acklate": 0.0,
        "acklateby": [0],
        "dup": 0.0,
        "ecn": 0,
        "ce": 0.0,
        "queue": 0,
        "dropset": [],
    }
    path.update(_of_kind(kind, draw))
    return path


def _of_kind(kind: str, draw: random.Random) -> dict[str, Any]:
    match kind:
        case "loss":
            return {"loss": draw.choice([0.005, 0.01, 0.03, 0.06])}
        case "burst":
            return {"loss": draw.choice([0.004, 0.01]), "bursts": [0, 1, 2, 4, 8]}
        case "reorder":
            by = draw.choice([[2, 4], [5, 10, 15], [20, 40], [30, 60, 120]])
            return {"reorder": draw.choice([0.01, 0.03, 0.1]), "reorderby": by}
        case "stall":
            at = draw.choice([120, 300, 700])
            until, more = at + draw.choice([5, 30, 80, 200]), draw.choice([150, 300, 500, 900])
            return {"stalls": [[at, until, more]], "loss": draw.choice([0, 0, 0.005])}
        case "tail":
            count = draw.choice([3, 5, 10, 12, 20])
            lost = sorted(draw.sample(range(1, 8 * count), draw.choice([3, 5, 8])))
            writes = [[400 * number, 1000 * count] for number in range(8)]
            return {"writes": writes, "dur": 7000, "dropset": lost}
        case "nosack":
            return {"sack": 0, "loss": draw.choice([0.005, 0.01, 0.03])}
        case "ecn":
            return {
                "ecn": 1,
                "ce": draw.choice([0.005, 0.02, 0.1]),
                "loss": draw.choice([0, 0.005]),
                "cc": draw.choice(["cubic", "reno"]),
            }
        case "ackloss":
            return {"ackloss": draw.choice([0.1, 0.3, 0.6]), "loss": draw.choice([0, 0.01])}
        case "acklate":
            late = {"acklate": draw.choice([0.1, 0.5]), "acklateby": [2, 5, 20, 60]}
            late |= {"loss": draw.choice([0, 0.04]), "reorder": 0.1, "reorderby": [10, 20]}
            return late | {"ts": True}
        case "app":
            first = [[0, draw.choice([5000, 20_000])]]
            later = [
                [300 * number + draw.choice([0, 100]), draw.choice([500, 3000, 15_000, 40_000])]
                for number in range(1, 14)
            ]
            return {"writes": first + later, "loss": draw.choice([0, 0.01])}
        case "queue":
            return {
                "queue": draw.choice([5, 15, 40]),
                "writes": [[0, 800_000]],
                "ser": draw.choice([1, 2]),
            }
        case _:
            loss = draw.choice([0, 0.01])
            return {"dup": 0.02, "loss": loss, "reorder": 0.01, "reorderby": [5]}


def _checksum(data: bytes) -> int:
    data += b"\0" * (len(data) % 2)
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total >> 16) + (total & 0xFFFF)
    return ~(total + (total >> 16)) & 0xFFFF


def peer_packet(
    ports: tuple[int, int],
    seq: int,
    ack: int,
    flags: int,
    win: int,
    opts: bytes,
    data: bytes = b"",
) -> bytes:
    """Return a packet of the peer."""
    opts += b"\x01" * (-len(opts) % 4)
    words = (*ports, seq & 0xFFFFFFFF, ack & 0xFFFFFFFF, (20 + len(opts)) << 2, flags, win, 0, 0)
    tcp = struct.pack("!HHIIBBHHH", *words) + opts + data
    total = _checksum(PEER + OWN + struct.pack("!BBH", 0, 6, len(tcp)) + tcp)
    tcp = tcp[:16] + struct.pack("!H", total) + tcp[18:]
    header = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(tcp), 0, 0, 64, 6, 0) + PEER + OWN
    return header[:10] + struct.pack("!H", _checksum(header)) + header[12:] + tcp


def _stamp(options: bytes) -> int | None:
    """Return the timestamp in a header's options."""
    place = 0
    while place < len(options) and options[place]:
        if options[place] == 8:
            return int(struct.unpack_from("!I", options, place + 2)[0])
        place += 1 if options[place] == 1 else max(options[place + 1], 2)
    return None


class Connection:
    """A connection of the kernel, and its peer."""

    def __init__(self, number: int, path: dict[str, Any]) -> None:
        self.path = path
        self.draw = random.Random(path["seed"])
        self.port = 5000 + number
        self.own_port = 0
        self.socket = socket.socket()
        self.log: list[list[Any]] = []
        self.began = 0.0
        self.first: int | None = None
        self.own_first = 1_000_000 + 77_777 * number
        self.next = 1
        self.beyond: list[list[int]] = []
        self.recent: list[int] = []
        self.free = 0.0
        self.sent = 0
        self.burst = 0
        self.waiting = 0
        self.last_ack = 0
        self.ack_free = 0.0
        self.echo = False
        self.stamp = 0


class World:
    """A path of several connections, in real time."""

    def __init__(self, device: int) -> None:
        self.device = device
        self.agenda: list[tuple[float, int, Callable[[], None]]] = []
        self.numbers = itertools.count()
        self.connections: dict[int, Connection] = {}
        self.began = time.monotonic()

    def now(self) -> float:
        """Return the seconds since the beginning."""
        return time.monotonic() - self.began

    def at(self, when: float, step: Callable[[], None]) -> None:
        """Do a step at a time."""
        heapq.heappush(self.agenda, (when, next(self.numbers), step))

    def run(self, until: float) -> None:
        """Do all steps that are due before a time."""
        while (now := self.now()) < until:
            while self.agenda and self.agenda[0][0] <= self.now():
                heapq.heappop(self.agenda)[2]()
            due = min(self.agenda[0][0] if self.agenda else until, until) - now
            if due > 0:
                select.select([self.device], [], [], min(due, 0.05))
            self.read()

    def start(self, connection: Connection) -> None:
        """Open a connection of the kernel."""
        own = connection.socket
        own.setsockopt(socket.IPPROTO_TCP, TCP_CONGESTION, connection.path["cc"].encode())
        own.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 8 << 20)
        own.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        own.setblocking(False)
        connection.began = self.now()
        own.connect_ex(("10.9.0.2", connection.port))
        self.read()

    def read(self) -> None:
        """Take all packets that the kernel has sent."""
        while True:
            try:
                packet = os.read(self.device, 2000)
            except BlockingIOError:
                return
            now = self.now()
            if packet[0] >> 4 != 4 or packet[9] != 6:
                continue
            ip = (packet[0] & 15) * 4
            own, port, seq, _, offset, flags = struct.unpack_from("!HHIIBB", packet, ip)
            connection = self.connections.get(port)
            if connection is not None:
                header = ip + (offset >> 4) * 4
                stamp = _stamp(packet[ip + 20 : header])
                length = len(packet) - header
                self.take(connection, now, (own, seq, length, flags, packet[1] & 3, stamp))

    def take(self, connection: Connection, now: float, segment: tuple[Any, ...]) -> None:
        """Take a segment of the kernel."""
        own, seq, length, flags, ecn, stamp = segment
        if flags & SYN:
            if connection.first is None:
                connection.first, connection.own_port = seq, own
                connection.stamp = stamp or 0
                connection.log.append(["syn", now - connection.began])
                self.at(now + connection.path["rtt"] / 1000, lambda: self.answer(connection))
            return
        position = (seq - (connection.first or 0)) & 0xFFFFFFFF
        if length == 0 and not flags & FIN:
            return
        event = ["tx", now - connection.began, position, length, flags, ecn, stamp]
        connection.log.append(event)
        self.carry(connection, now, position, length, flags, ecn, stamp)

    def answer(self, connection: Connection) -> None:
        """Answer the SYN, and let the application write."""
        path = connection.path
        options = struct.pack("!BBH", 2, 4, path["mss"] + (12 if path["ts"] else 0))
        options += b"\x01\x03\x03\x0a" + (b"\x04\x02" if path["sack"] else b"")
        if path["ts"]:
            options += struct.pack("!BBII", 8, 10, self.own_stamp(), connection.stamp)
        flags = SYN | ACK | (ECE if path["ecn"] else 0)
        ports = (connection.port, connection.own_port)
        first = (connection.first or 0) + 1
        packet = peer_packet(ports, connection.own_first, first, flags, 65535, options)
        connection.log.append(["synack", self.now() - connection.began])
        self.inject(connection, packet)
        for after, size in path["writes"]:
            if after == 0:
                self.write(connection, size)
            else:
                later = self.now() + after / 1000
                self.at(later, partial(self.write, connection, size))

    def own_stamp(self) -> int:
        """Return the timestamp of the peer."""
        return int(self.now() * 1000) + 1000

    def write(self, connection: Connection, size: int) -> None:
        """Write data as the application does."""
        connection.log.append(["write", self.now() - connection.began, size])
        connection.socket.send(b"x" * size)
        self.read()
        self.inform(connection)

    def inject(self, connection: Connection, packet: bytes) -> None:
        """Give the kernel a packet of the peer."""
        os.write(self.device, packet)
        self.read()
        self.inform(connection)

    def inform(self, connection: Connection) -> None:
        """Record the kernel's state (struct tcp_info)."""
        info = connection.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
        words = struct.unpack_from("24I", info, 8)
        names = {"rto": 0, "unacked": 4, "sacked": 5, "lost": 6, "retrans": 7, "rtt": 15}
        names |= {"rttvar": 16, "ssthresh": 17, "cwnd": 18, "reord": 20, "total": 23}
        state = {"ca": info[1], **{name: words[place] for name, place in names.items()}}
        connection.log.append(["info", self.now() - connection.began, state])

    def carry(
        self,
        connection: Connection,
        now: float,
        position: int,
        length: int,
        flags: int,
        ecn: int,
        stamp: int | None,
    ) -> None:
        """Lose a segment of the kernel, or carry it to the peer."""
        path, draw = connection.path, connection.draw
        connection.sent += 1
        lost = connection.sent in path["dropset"]
        if not lost and connection.burst > 0:
            connection.burst -= 1
            lost = True
        elif not lost and draw.random() < path["loss"]:
            connection.burst, lost = draw.choice(path["bursts"]), True
        serial = path["ser"] / 1000
        full = path["queue"] and (connection.free - now) / serial > path["queue"]
        if lost or full:
            return
        connection.free = max(now, connection.free) + serial
        delay = path["rtt"] / 2000
        elapsed = (now - connection.began) * 1000
        delay += sum(more for begin, end, more in path["stalls"] if begin <= elapsed < end) / 1000
        if draw.random() < path["reorder"]:
            delay += draw.choice(path["reorderby"]) / 1000
        marked = ecn in (1, 2) and draw.random() < path["ce"]
        end = position + length + (1 if flags & FIN else 0)

        def arrive() -> None:
            self.arrive(connection, (position, end), flags, stamp, marked=marked)

        self.at(connection.free + delay, arrive)
        if draw.random() < path["dup"]:
            self.at(connection.free + delay + 0.001, arrive)

    def arrive(
        self,
        connection: Connection,
        span: tuple[int, int],
        flags: int,
        stamp: int | None,
        *,
        marked: bool,
    ) -> None:
        """Let the peer take a segment and acknowledge it."""
        path, (start, end) = connection.path, span
        if path["ecn"]:
            connection.echo = marked or (connection.echo and not flags & CWR)
        duplicate: tuple[int, int] | None = None
        if start < connection.next:
            duplicate = (start, min(end, connection.next))
        if stamp and start <= connection.last_ack:
            connection.stamp = stamp
        in_order = not connection.beyond and start <= connection.next < end
        if end > connection.next and start <= connection.next:
            connection.next = end
            while held := [block for block in connection.beyond if block[0] <= connection.next]:
                connection.next = max(connection.next, *(block[1] for block in held))
                connection.beyond = [b for b in connection.beyond if b not in held]
        elif end > connection.next:
            if any(low <= start and end <= high for low, high in connection.beyond):
                duplicate = span
            touching = [b for b in connection.beyond if b[0] <= end and start <= b[1]]
            low = min([start, *(block[0] for block in touching)])
            high = max([end, *(block[1] for block in touching)])
            rest = [block for block in connection.beyond if block not in touching]
            connection.beyond = sorted([*rest, [low, high]])
            others = [place for place in connection.recent if not low <= place < high]
            connection.recent = [start, *others]
        if in_order and duplicate is None and path["ackevery"] > 1:
            connection.waiting += 1
            if connection.waiting < path["ackevery"]:
                self.at(self.now() + 0.04, lambda: self.end_wait(connection, end))
                return
        self.acknowledge(connection, duplicate)

    def end_wait(self, connection: Connection, expected: int) -> None:
        """End the delay of an acknowledgement."""
        if connection.waiting and connection.next == expected:
            self.acknowledge(connection, None)

    def acknowledge(self, connection: Connection, duplicate: tuple[int, int] | None) -> None:
        """Send an acknowledgement of the peer."""
        path = connection.path
        connection.waiting = 0
        blocks = list(self.blocks(connection, duplicate))[:3] if path["sack"] else []
        connection.last_ack = connection.next
        if connection.draw.random() < path["ackloss"]:
            return
        when = max(self.now() + path["rtt"] / 2000, connection.ack_free)
        connection.ack_free = when
        if path["acklate"] and connection.draw.random() < path["acklate"]:
            when += connection.draw.choice(path["acklateby"]) / 1000
        state = (connection.next, blocks, connection.stamp, self.own_stamp(), connection.echo)
        self.at(when, lambda: self.deliver(connection, *state))

    def blocks(
        self, connection: Connection, duplicate: tuple[int, int] | None
    ) -> Iterator[tuple[int, int]]:
        """Return the SACK blocks, the most recent first."""
        if duplicate is not None:
            yield duplicate
        told = []
        for place in connection.recent:
            for low, high in connection.beyond:
                if low <= place < high and low not in told:
                    told.append(low)
                    yield low, high

    def deliver(
        self,
        connection: Connection,
        position: int,
        blocks: list[tuple[int, int]],
        echoed: int,
        stamp: int,
        echo: bool,
    ) -> None:
        """Give the kernel an acknowledgement, with the state of its transmission."""
        path, first = connection.path, connection.first or 0
        options = struct.pack("!BBBBII", 1, 1, 8, 10, stamp, echoed) if path["ts"] else b""
        if blocks:
            options += struct.pack("!BBBB", 1, 1, 5, 2 + 8 * len(blocks))
            for block in blocks:
                options += struct.pack("!II", *((first + edge) & 0xFFFFFFFF for edge in block))
        flags = ACK | (ECE if echo else 0)
        ports = (connection.port, connection.own_port)
        packet = peer_packet(
            ports, connection.own_first + 1, first + position, flags, path["win"], options
        )
        self.read()
        stamps = (echoed, stamp) if path["ts"] else (None, None)
        now = self.now() - connection.began
        connection.log.append(["ack", now, position, blocks, *stamps, echo, path["win"] << 10])
        self.inject(connection, packet)


def open_device() -> int:
    """Return the TUN device of this namespace, which needs the rights to make one."""
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH", b"t0", TUN_WITHOUT_HEADER))
    for command in (
        "ip addr add 10.9.0.1/16 dev t0",
        "ip link set t0 up mtu 1500 txqueuelen 10000",
        "ip link set lo up",
    ):
        subprocess.run(command.split(), check=True)
    for name, value in SYSCTLS.items():
        _set(name, value)
    return device


def _set(name: str, value: int) -> None:
    """Set a value of this namespace."""
    Path(f"/proc/sys/net/ipv4/{name}").write_text(str(value), encoding="ascii")


def record(path: str, seed: int, count: int, divisor: int) -> None:
    """Record connections with the seeds from `seed` on into a file, in a namespace of their own.

    Args:
        path: The file.
        seed: The seed of the first connection.
        count: The number of connections.
        divisor: The share of the window that is not deferred (`tcp_tso_win_divisor`).
    """
    device = open_device()
    _set("tcp_tso_win_divisor", divisor)
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    with Path(path).open("w", encoding="utf-8") as file:
        for base in range(0, count, AT_ONCE):
            world = World(device)
            for number in range(base, min(base + AT_ONCE, count)):
                connection = Connection(number, settings(seed + number) | {"divisor": divisor})
                world.connections[connection.port] = connection
                begins = 0.02 + 0.013 * (number - base)
                world.at(begins, partial(world.start, connection))
            connections = world.connections.values()
            world.run(max(connection.path["dur"] for connection in connections) / 1000 + 0.5)
            for connection in connections:
                file.write(json.dumps({"P": connection.path, "log": connection.log}) + "\n")
                reset = struct.pack("ii", 1, 0)
                connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
                connection.socket.close()
            world.read()


if __name__ == "__main__":
    record(sys.argv[1], *map(int, sys.argv[2:5]))
