"""Real clients of iperf3 across a network of real hosts, whose truth is known."""

import json
import os
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Any, Final

import pytest

from conftest import MEASURES, PERHOP, REAL_HOSTS
from emulated import Lab
from perhop.records import Record, dataset, read
from tools import need

pytestmark = REAL_HOSTS

B: Final = "10.0.0.4"
EF: Final = 46


@contextmanager
def server(lab: Lab, folder: Path, *options: str) -> Iterator[None]:
    """Our server in `b`."""
    need("nsenter")
    inside = ["nsenter", f"--net=/proc/{os.getpid()}/fd/{lab.namespaces.fd(lab.hosts['b'])}"]
    command = [str(PERHOP), "agent", "iperf3", "--listen", "0.0.0.0:5201", "--records"]
    with subprocess.Popen(
        [*inside, *command, str(folder), *options], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert "listening" in process.stdout.readline()
            yield
        finally:
            process.terminate()


def client(lab: Lab, options: str) -> dict[str, Any]:
    """What a client in `a` says."""
    # With --json it exits with 0 even if it fails.
    said: dict[str, Any] = json.loads(lab.run("a", "iperf3", "-c", B, "--json", *options.split()))
    assert "error" not in said
    return said


def record(folder: Path) -> Record:
    """The only one, which is written after the client has ended."""
    deadline = time.monotonic() + 5
    while not list(folder.glob("*.json")) and time.monotonic() < deadline:
        time.sleep(0.02)
    [found] = read(folder)
    return found


@MEASURES
def test_what_iperf3_does_not_say_is_as_the_network_did_it(tmp_path: Path) -> None:
    lab = Lab(rate="20 Mbps", delay="5 ms", more="queue: {limit: 10 ms}, remark: {r2: clear}")
    with server(lab, tmp_path, "--same-clock"):
        said = client(lab, "-u -b 24M -l 1000 -t 2 --dscp ef")
        found = dataset([record(tmp_path)])
    rows = found.intervals
    lost, packets = (int(rows[name].sum()) for name in ("lost", "packets"))
    udp = said["end"]["streams"][0]["udp"]
    assert (lost, packets + lost) == (udp["lost_packets"], udp["packets"])
    # 1028 bytes of IP and what Ethernet adds share 20 Mb/s.
    assert packets * 8000 / 2 == pytest.approx(20e6 * 1000 / (1028 + 38), rel=0.05)
    assert rows["owd_min_s"].min() == pytest.approx(0.0055, abs=0.001)
    # 0.4 ms to send it, 5 ms, and the queue that is full all the time. Its maximum says when the
    # machine did something else.
    assert rows["owd_s"].mean() == pytest.approx(0.0155, abs=0.0015)
    [(sent, arrived, counted)] = found.codepoints.select(
        "dscp_sent", "dscp_arrived", "packets"
    ).rows()
    assert (sent, arrived, counted) == (EF, 0, packets)


def test_tcp_both_ways_agrees_with_its_client(tmp_path: Path) -> None:
    lab = Lab(rate="50 Mbps", delay="2 ms")
    with server(lab, tmp_path):
        said = client(lab, "-t 2 --bidir -P 2")
        found = record(tmp_path)
    streams = said["end"]["streams"]
    assert len(found.streams) == len(streams) == 4
    for ours, theirs in zip(found.streams, streams, strict=True):
        part = theirs["receiver" if ours.received else "sender"]
        assert sum(each.bytes for each in ours.intervals) == part["bytes"]
        if not ours.received:
            sent_again = sum(each.retransmits or 0 for each in ours.intervals)
            assert sent_again == part["retransmits"]


def test_the_dscp_that_tcp_arrived_with_is_recorded(tmp_path: Path) -> None:
    for more, arrives in (("", EF), ("remark: {r2: clear}", 0)):
        lab = Lab(rate="50 Mbps", delay="2 ms", more=more)
        folder = tmp_path / str(arrives)
        with server(lab, folder):
            client(lab, "-t 1 --bidir -P 2 --dscp ef")
            found = record(folder)
        for stream in found.streams:
            if not stream.received:
                assert stream.arrived is None
                continue
            # The cookie, with which a client begins a stream, is no data.
            packets = sum(each.packets for each in stream.intervals)
            [[dscp, ecn, counted]] = stream.arrived or ()
            assert (dscp, ecn) == (arrives, 0)
            assert counted == pytest.approx(packets, abs=2)
            assert packets > 500


def drive(lab: Lab, **parameters: object) -> tuple[dict[str, Any], dict[str, Any]]:
    """What our client in `a` measures of its only stream, and what iperf3's server in `b` does."""
    need("iperf3")
    with lab.serving("b", "iperf3", "-s", "-4", "-1", "--idle-timeout", "8"):
        while ":1451 " not in lab.run("b", "cat", "/proc/net/tcp"):
            time.sleep(0.02)
        asked = json.dumps({"time": 2, "len": 1000, "TOS": EF << 2, **parameters})
        command = [str(PERHOP), "agent", "iperf3", "--client", f"{B}:5201", "--parameters", asked]
        [stream] = json.loads(lab.run("a", *command))["streams"]
    return stream, stream["server"]


@MEASURES
def test_our_client_drives_servers_of_iperf3_by_udp() -> None:
    lab = Lab(rate="20 Mbps", delay="5 ms", more="queue: {limit: 10 ms}, remark: {r2: clear}")
    most = 20e6 / 8 / (1028 + 38) * 2
    ours, theirs = drive(lab, udp=True, bandwidth=24_000_000)
    assert ours["counts"]["packets"] == pytest.approx(6000, rel=0.01)
    # iperf3 knows of none after the last that arrived before the test ended: 15 ms earlier.
    assert ours["counts"]["packets"] - theirs["packets"] in range(60)
    assert theirs["packets"] - theirs["errors"] == pytest.approx(most, rel=0.05)
    ours, theirs = drive(lab, udp=True, bandwidth=24_000_000, reverse=True)
    counts = ours["counts"]
    assert counts["packets"] + counts["lost"] == theirs["packets"]
    assert counts["packets"] == pytest.approx(most, rel=0.05)
    # Only what r2 receives from r1 loses its mark.
    assert ours["arrived"] == [[EF << 2, counts["packets"]]]


@MEASURES
def test_our_client_drives_servers_of_iperf3_by_tcp() -> None:
    lab = Lab(rate="20 Mbps", delay="5 ms")
    most = 20e6 / 8 * 1448 / (1500 + 38) * 2
    ours, theirs = drive(lab, tcp=True)
    assert theirs["bytes"] == pytest.approx(most, rel=0.1)
    assert ours["counts"]["bytes"] >= theirs["bytes"]
    ours, theirs = drive(lab, tcp=True, reverse=True)
    assert ours["counts"]["bytes"] == pytest.approx(most, rel=0.1)
    assert theirs["bytes"] >= ours["counts"]["bytes"]


class Between:
    """A program between clients and our server on the loopback device, which can cut connections.

    The first connection of a test is for control, the others are for data.
    """

    def __init__(self, port: int) -> None:
        self.port = port
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.pairs: list[tuple[socket.socket, socket.socket]] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near = self.listener.accept()[0]
                pair = near, socket.create_connection(("127.0.0.1", self.port))
                self.pairs.append(pair)
                for ends in (pair, pair[::-1]):
                    threading.Thread(target=self._carry, args=ends, daemon=True).start()

    def _carry(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)

    def cut(self, number: int) -> None:
        for end in self.pairs[number]:
            end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        for end in (self.listener, *chain(*self.pairs)):
            end.close()


@pytest.mark.parametrize(
    ("options", "cut", "said"),
    [
        ("", 1, "a data connection closed during the test"),
        ("-R", 1, "a data connection closed during the test"),
        ("", 0, "the client closed its control connection"),
    ],
)
def test_a_record_says_which_connection_closed(
    options: str, cut: int, said: str, tmp_path: Path
) -> None:
    need("iperf3")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [str(PERHOP), "agent", "iperf3", "--listen", f"127.0.0.1:{port}", "--records"]
    with subprocess.Popen([*command, str(tmp_path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert "listening" in process.stdout.readline()
        between = Between(port)
        try:
            where = ["-c", "127.0.0.1", "-p", str(between.listener.getsockname()[1])]
            client = ["iperf3", *where, "-t", "2", *options.split()]
            with subprocess.Popen(client, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL):
                deadline = time.monotonic() + 5
                while len(between.pairs) < 2 and time.monotonic() < deadline:
                    time.sleep(0.02)
                time.sleep(0.5)
                between.cut(cut)
            found = record(tmp_path)
        finally:
            between.close()
            process.terminate()
    assert (found.ended, found.complete) == (said, False)
    messages = [warned.message for warned in dataset([found]).warnings]
    assert f"the test did not end as its client intended: {said}" in messages
