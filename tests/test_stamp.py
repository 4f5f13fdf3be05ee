"""`perhop agent stamp`: what is sent, as Wireshark's dissector reads it, and what is measured."""

import json
import socket
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from select import select
from subprocess import PIPE
from threading import Event, Thread
from typing import Any

import pytest

from conftest import PERHOP, REAL_HOSTS, SLOW
from perhop.errors import UnsupportedError
from perhop.lab import up
from perhop.scenario import parse
from tools import need, unable

pytestmark = SLOW

Packets = list[tuple[bool, bytes]]
"""Packets in their order: whether a reflector sent it, and its bytes."""


@contextmanager
def reflector(*options: str) -> Iterator[int]:
    """A reflector on loopback; its port."""
    command = [str(PERHOP), "agent", "stamp", "reflect", "--listen", "127.0.0.1:0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline().rsplit(":", 1)[1])
        finally:
            process.terminate()


def send(port: int, *options: str) -> dict[str, Any]:
    """What a sender says of a path."""
    host = f"127.0.0.1:{port}"
    command = [str(PERHOP), "agent", "stamp", "send", host, "--every", "2ms", "--json", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)
    summary: dict[str, Any] = json.loads(done.stdout)
    return summary


@contextmanager
def relay(to: int, packets: Packets) -> Iterator[int]:
    """A host on the way that keeps what passes; its port."""
    ended = Event()
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as here,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as there,
    ):
        here.bind(("127.0.0.1", 0))
        there.connect(("127.0.0.1", to))

        def run() -> None:
            sender = None
            while not ended.is_set():
                for ready in select([here, there], [], [], 0.05)[0]:
                    data, source = ready.recvfrom(65536)
                    packets.append((ready is there, data))
                    if ready is here:
                        sender = source
                        there.send(data)
                    elif sender is not None:
                        here.sendto(data, sender)

        thread = Thread(target=run)
        thread.start()
        try:
            yield here.getsockname()[1]
        finally:
            ended.set()
            thread.join()


SENDER, REFLECTOR = bytes([192, 0, 2, 1]), bytes([192, 0, 2, 2])
PORTS = 50_000, 50_862


def ip(reply: bool, protocol: int, body: bytes) -> bytes:
    """A packet of IPv4 without a checksum."""
    ends = (REFLECTOR + SENDER) if reply else (SENDER + REFLECTOR)
    return struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(body), 0, 0, 64, protocol, 0) + ends + body


def pcap(path: Path, packets: Packets) -> None:
    """Write packets behind a TWAMP-Control session, without which the dissector takes none."""
    request = bytearray(112)
    request[:2] = 5, 4
    request[12:16] = struct.pack(">HH", *PORTS)
    accept = bytearray(48)
    accept[2:4] = struct.pack(">H", PORTS[1])
    messages = bytes(64), bytes(164), bytes(48), bytes(request), bytes(accept)
    frames, sent = [], {True: 1, False: 1}
    for number, body in enumerate(messages):
        reply = number % 2 == 0
        ports = (862, 50_001) if reply else (50_001, 862)
        numbers = sent[reply], sent[not reply]
        header = struct.pack(">HHIIHHHH", *ports, *numbers, 0x5018, 999, 0, 0)
        frames.append(ip(reply, 6, header + body))
        sent[reply] += len(body)
    for reply, body in packets:
        ports = PORTS[::-1] if reply else PORTS
        frames.append(ip(reply, 17, struct.pack(">HHHH", *ports, 8 + len(body), 0) + body))
    with path.open("wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65536, 101))
        for number, frame in enumerate(frames):
            file.write(struct.pack("<IIII", 1, number, len(frame), len(frame)) + frame)


FIELDS = {
    "seq_number": (0, 4),
    "timestamp": (4, 8),
    "error_estimate": (12, 2),
    "mbz1": (14, 2),
    "receive_timestamp": (16, 8),
    "sender_seq_number": (24, 4),
    "sender_timestamp": (28, 8),
    "sender_error_estimate": (36, 2),
    "mbz2": (38, 2),
    "sender_ttl": (40, 1),
    "padding": (41, 0),
}
"""Fields of TWAMP-Test that the dissector knows: offset and length (RFC 5357, section 4.2.1)."""


@REAL_HOSTS
@pytest.mark.parametrize("options", [("--plain",), ("--dscp", "EF", "--size", "120")], ids=str)
def test_the_dissector_reads_what_is_sent(place: Path, options: tuple[str, ...]) -> None:
    need("tshark")
    packets: Packets = []
    with reflector() as port, relay(port, packets) as way:
        summary = send(way, "--count", "5", *options)
    assert (summary["sent"], summary["received"], len(packets)) == (5, 5, 10)
    pcap(place / "stamp.pcap", packets)
    command = ["tshark", "-n", "-r", "stamp.pcap", "-T", "json", "-x", "-Y", "twamp.test"]
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=True)
    read = [packet["_source"]["layers"]["twamp.test"] for packet in json.loads(done.stdout)]
    assert len(read) == len(packets)
    for (reply, data), layer in zip(packets, read, strict=True):
        for name, (offset, length) in FIELDS.items():
            raw, at, size = layer[f"twamp.test.{name}_raw"][:3]
            # The dissector counts offsets from the beginning of the frame.
            expected = data[offset : offset + length] if length else data[offset:]
            assert (raw, at - 28, size) == (expected.hex(), offset, len(expected)), name
        estimate = layer["twamp.test.error_estimate_tree"]
        assert estimate["twamp.test.error_estimate.z"] == "0"
        assert int(estimate["twamp.test.error_estimate.multiplier"]) > 0
        assert layer["twamp.test.sender_ttl"] == ("64" if reply else "0")
    # What a reply quotes is what was sent.
    sent = {data[:4]: data for reply, data in packets if not reply}
    for data in (data for reply, data in packets if reply):
        request = sent[data[24:28]]
        assert (data[28:38], data[14:16]) == (request[4:14], request[14:16])
        assert len(data) == len(request)


@REAL_HOSTS
def test_a_clock_that_is_put_off_is_measured() -> None:
    with reflector("--clock-offset", "-3.2s", "--clock-drift", "50ppm") as port:
        summary = send(port, "--count", "100", "--dscp", "AF41", "--ecn", "2")
    clock = summary["clock"]
    # It began at most seconds ago, and drifts by 50 µs in each.
    assert abs(clock["offset_ns"] + 3.2e9) <= max(clock["bound_ns"], 50_000) + 500_000
    assert clock["resets"] == 0
    assert summary["lost"] == 0
    for direction in (summary["forward"], summary["backward"]):
        assert (direction["dscp"], direction["ecn"]) == ({"34": 100}, {"2": 100})
        assert (direction["rewritten"], direction["lost"], direction["reordered"]) == (False, 0, 0)
        assert direction["delay_ns"]["min"] > -clock["bound_ns"]


@REAL_HOSTS
def test_the_key_decides(place: Path) -> None:
    for name, digits in (("key", "00112233445566778899aabbccddeeff"), ("other", "ff" * 16)):
        (place / name).write_text(digits)
        (place / name).chmod(0o600)
    with reflector("--key", str(place / "key")) as port:
        assert send(port, "--count", "5", "--key", str(place / "key"))["received"] == 5
        for options in ([], ["--key", str(place / "other")]):
            with pytest.raises(subprocess.CalledProcessError) as refused:
                send(port, "--count", "2", "--wait", "100ms", *options)
            assert (
                "no reply; check that a reflector runs there, with the same key"
                in refused.value.stderr
            )


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "expected `reflect` or `send`"),
        (["send"], "expected one host"),
        (["send", "127.0.0.1", "--dscp", "EG"], "expected a DSCP such as EF, AF41 or 46"),
        (["send", "127.0.0.1", "--every", "1us"], "expected a time of at least 10 µs"),
        (["send", "127.0.0.1", "--count", "0"], "expected a number from 1 to 1000000"),
        (["reflect", "--key", "/nowhere"], "/nowhere: No such file"),
    ],
    ids=str,
)
def test_wrong_arguments_are_named(arguments: list[str], expected: str) -> None:
    command = [str(PERHOP), "agent", "stamp", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, expected in done.stderr) == (2, True), done.stderr


LAB = """
perhop: 1
name: marked
nodes: {a: host, r: router, b: host}
links:
  - {ends: [a, r], rate: 100 Mbps, delay: 2 ms, remark: {REMARK}, egress: {LOSSY: thin}}
  - {ends: [r, b], rate: 100 Mbps, delay: 5 ms}
policies:
  thin:
    classes:
      all: {match: any, bandwidth: 100%, police: {rate: 100 kbps, burst: 2 kB}}
"""


@REAL_HOSTS
@pytest.mark.parametrize(
    ("remark", "lossy", "forward", "backward"),
    [
        ("r: {ef: cs1}", "a", ("8", True), ("46", False)),
        ("a: clear", "r", ("46", False), ("0", True)),
    ],
)
def test_the_direction_of_a_fault_is_found(
    lab_folder: Path,
    remark: str,
    lossy: str,
    forward: tuple[str, bool],
    backward: tuple[str, bool],
) -> None:
    assert lab_folder.is_dir()
    try:
        scenario = LAB.replace("{REMARK}", f"{{{remark}}}").replace("LOSSY", lossy)
        lab = up(parse(scenario, "marked.yaml"))
    except UnsupportedError as error:
        unable(error)
    stamp = [str(PERHOP), "agent", "stamp"]
    with lab.start("b", [*stamp, "reflect", "--listen", "0.0.0.0:8620"], stdout=PIPE) as reflects:
        assert reflects.stdout is not None
        reflects.stdout.readline()
        options = ["--count", "200", "--every", "5ms", "--dscp", "EF", "--wait", "1s", "--json"]
        with lab.start("a", [*stamp, "send", "b:8620", *options], stdout=PIPE) as sends:
            said, _ = sends.communicate(timeout=30)
        reflects.terminate()
    summary = json.loads(said)
    lost = {}
    for name, (dscp, rewritten) in (("forward", forward), ("backward", backward)):
        found = summary[name]
        assert (found["dscp"].keys(), found["rewritten"]) == ({dscp}, rewritten)
        # One router on the way.
        assert found["ttl"].keys() == {"254"}
        lost[name] = found["lost"]
    faulty = "forward" if lossy == "a" else "backward"
    sound = "backward" if faulty == "forward" else "forward"
    # A second of packets of more than 130 kb/s through a policer of 100 kb/s.
    assert lost[sound] == 0
    assert 20 <= lost[faulty] <= 120
    assert summary["lost"] == lost[faulty] + summary["lost_last"]
    # 7 ms each way, and the time on the links.
    assert 14e6 <= summary["round_trip_ns"]["min"] <= 16e6
