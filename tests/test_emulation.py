"""Real hosts on perhop's network: what they see of it, and what is left of them."""

import csv
import json
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import MEASURES, REAL_HOSTS
from emulated import Lab
from perhop._core import Emulation
from tools import need

pytestmark = REAL_HOSTS

B = "10.0.0.4"
B_V6 = "fd70:6572:686f:7000::a00:4"

WRONG = "ip.checksum.status == 0 || tcp.checksum.status == 0 || _ws.malformed"
"""Filter of faulty packets in tshark."""

STANDSTILL = """
import os, subprocess, sys
sys.path.insert(0, sys.argv[1])
from emulated import Lab
lab = Lab()
# Another process stops this one, and another one sends meanwhile.
stop = f"sleep 0.3; kill -STOP {os.getpid()}; sleep 1.5; kill -CONT {os.getpid()}"
other = subprocess.Popen(["sh", "-c", stop])
flood = '''
import socket, time
time.sleep(0.6)
datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for _ in range(40_000):
    datagrams.sendto(b"x" * 100, ("10.0.0.4", 9))
'''
lab.run("a", sys.executable, "-c", flood)
other.wait()
lab.run("a", "ping", "-c", "1", "10.0.0.4")
print(lab.core.counters()["overruns"])
"""


def until(holds: Callable[[], object]) -> None:
    """Wait, for a minute at most."""
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


def round_trips(said: str) -> list[float]:
    return [float(time) for time in re.findall(r"time=([\d.]+) ms", said)]


def throughput(lab: Lab, *options: str, to: str = B) -> float:
    """Bits a second that iperf3 delivers."""
    with lab.serving("b", "iperf3", "--server", "--one-off", "--idle-timeout", "15"):
        until(lambda: ":1451 " in lab.run("b", "cat", "/proc/net/tcp6"))
        said = lab.run("a", "iperf3", "--client", to, "--json", *options)
    end = json.loads(said)["end"]
    return float(end["sum_received" if "sum_received" in end else "sum"]["bits_per_second"])


@MEASURES
@pytest.mark.parametrize("to", [B, B_V6])
@pytest.mark.parametrize("offload", [True, False])
def test_a_round_trip_takes_as_long_as_its_links(to: str, *, offload: bool) -> None:
    lab = Lab(delay="10 ms", offload=offload)
    times = round_trips(lab.run("a", "ping", "-c", "20", "-i", "0.02", "-n", to))
    assert len(times) == 20
    assert min(times) >= 20.0
    assert statistics.median(times) < 23.0


@MEASURES
@pytest.mark.parametrize("offload", [True, False])
def test_a_connection_gets_what_headers_leave_of_a_rate(*, offload: bool) -> None:
    lab = Lab(rate="20 Mbps", more="queue: {limit: 50 ms}", offload=offload)
    got = throughput(lab, "--time", "3", "--omit", "1")
    # Segments of 1448 bytes in packets of 1500.
    assert got == pytest.approx(20e6 * 1448 / 1500, rel=0.04)


@MEASURES
def test_datagrams_arrive_whole_and_in_order() -> None:
    lab = Lab(rate="100 Mbps")
    options = ("--udp", "--bitrate", "5M", "--length", "1200", "--time", "1")
    assert throughput(lab, *options) == pytest.approx(5e6, rel=0.1)
    counted = lab.core.counters()
    assert counted["malformed"] == counted["overflow"] == counted["refused"] == 0


@pytest.mark.parametrize(("version", "to"), [("-4", B), ("-6", B_V6)])
def test_routers_show_up_in_a_traceroute(version: str, to: str) -> None:
    lab = Lab()
    said = lab.run("a", "traceroute", version, "-n", "-q", "1", "-w", "3", to)
    hops = re.findall(r"^ *\d+ +([\w.:]+)", said, re.MULTILINE)
    ends = [hop.rpartition("." if version == "-4" else ":")[2] for hop in hops]
    assert ends == ["2", "3", "4"], said


@pytest.mark.parametrize(("version", "to"), [("-4", B), ("-6", B_V6)])
@pytest.mark.parametrize("protocol", ["icmp", "udp"])
def test_mtr_goes_from_router_to_router(protocol: str, version: str, to: str) -> None:
    lab = Lab(delay="5 ms")
    options = ["--udp"] if protocol == "udp" else []
    # What has not come back when the last round is over is awaited for 2 s more.
    said = lab.run("a", "mtr", version, *options, "-n", "-c", "4", "-i", "0.3", "-G", "2", "-C", to)
    head, *rows = csv.reader(said.splitlines())
    hops = [dict(zip(head, row, strict=False)) for row in rows]
    assert [re.split(r"[.:]", hop["Ip"])[-1] for hop in hops] == ["2", "3", "4"], said
    assert [hop["Loss%"] for hop in hops] == ["0.00"] * 3, said
    # The way to the second router and back has the link of 5 ms twice, that to the first has not.
    assert all(float(hop["Best"]) >= 10 for hop in hops[1:]), said
    assert float(hops[0]["Best"]) < float(hops[1]["Best"]), said


@pytest.mark.parametrize("more", ["", "mtu: 1300 B"])
def test_routers_answer_pings_that_come_in_fragments(more: str) -> None:
    lab = Lab(more=more)
    for router in ("10.0.0.2", "10.0.0.3", "fd70:6572:686f:7000::a00:3"):
        said = lab.run("a", "ping", "-c", "2", "-i", "0.2", "-n", "-s", "3000", router)
        # Beyond the link that is smaller what comes by IPv6 is cut by the host, once it knows.
        assert len(round_trips(said)) >= 1
        assert "3008 bytes from" in said
    lab.run("a", "ping", "-c", "1", "-n", "-s", "60000", "10.0.0.3")


@pytest.mark.parametrize(("mtu", "has"), [("1280 B", True), ("1279 B", False)])
def test_hosts_have_ipv6_where_every_link_carries_it(mtu: str, *, has: bool) -> None:
    # Otherwise what is longer would be lost on the way: hosts of IPv6 send no less than 1280 bytes.
    lab = Lab(more=f"mtu: {mtu}")
    code, said = lab.tries("a", "ping", "-6", "-c", "1", "-W", "5", "-n", "-s", "1232", B_V6)
    assert (code == 0) == has
    assert has or "unreachable" in said


def test_hosts_say_of_every_packet_that_nobody_listens() -> None:
    # As in the simulator. Linux says so of six at once, and then of one a second.
    probes = """
import socket, sys, time
for to in sys.argv[1:]:
    family = socket.AF_INET6 if ":" in to else socket.AF_INET
    told, probe = 0, socket.socket(family, socket.SOCK_DGRAM)
    probe.connect((to, 9))
    probe.settimeout(0.2)
    for _ in range(50):
        try:
            probe.send(b"probe")
            probe.recv(100)
        except ConnectionRefusedError:
            told += 1
        except TimeoutError:
            pass
    print(told)
"""
    said = Lab().run("a", sys.executable, "-c", probes, B, B_V6)
    assert said.split() == ["50", "50"]


def test_routers_answer_pings_and_say_what_they_do_not_know() -> None:
    lab = Lab()
    for router in ("10.0.0.2", "10.0.0.3", "fd70:6572:686f:7000::a00:3"):
        assert len(round_trips(lab.run("a", "ping", "-c", "1", "-n", router))) == 1
    code, said = lab.tries("a", "ping", "-c", "1", "-W", "2", "-n", "192.0.2.9")
    assert code == 1
    assert "From 10.0.0.2 icmp_seq=1 Destination Net Unreachable" in said
    # No process listens at a router.
    connect = "import socket; socket.create_connection(('10.0.0.2', 80), 5)"
    assert "refused" in lab.tries("a", sys.executable, "-c", connect)[1]


def test_hosts_find_the_mtu_of_their_path() -> None:
    lab = Lab(more="mtu: 1400 B")
    code, said = lab.tries("a", "ping", "-M", "do", "-s", "1373", "-c", "1", "-W", "2", "-n", B)
    assert code == 1
    assert "From 10.0.0.2 icmp_seq=1 Frag needed and DF set (mtu = 1400)" in said
    assert round_trips(lab.run("a", "ping", "-M", "do", "-s", "1372", "-c", "1", "-n", B))
    code, said = lab.tries("a", "ping", "-s", "1400", "-c", "1", "-W", "2", "-n", B_V6)
    assert "Packet too big: mtu=1400" in said
    # What may be divided is, by host and router, and put together again.
    assert round_trips(
        lab.run("b", "ping", "-M", "dont", "-s", "4000", "-c", "1", "-n", "10.0.0.1")
    )
    said = lab.run("b", "tracepath", "-n", "10.0.0.1")
    assert "pmtu 1400" in said
    assert throughput(lab, "--bytes", "200K") > 0


@MEASURES
def test_two_at_once_do_not_meet() -> None:
    first, second = Lab(delay="1 ms"), Lab(delay="30 ms")
    assert statistics.median(round_trips(first.run("a", "ping", "-c", "5", "-i", "0.02", B))) < 20
    assert min(round_trips(second.run("a", "ping", "-c", "3", "-i", "0.02", B))) >= 60


def test_what_is_no_packet_is_counted_and_nothing_else_happens() -> None:
    lab = Lab()
    nonsense = """
import random, socket
random.seed(1)
link = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM)
for _ in range(2000):
    data = bytearray(random.randbytes(random.randrange(1, 200)))
    kind = random.choice((0x0800, 0x86DD))
    data[0] = (0x45 if kind == 0x0800 else 0x60) if random.random() < 0.7 else data[0]
    link.sendto(data, ("perhop0", kind))
"""
    lab.run("a", sys.executable, "-c", nonsense)
    counted = lab.core.counters()
    assert counted["malformed"] + counted["foreign"] > 1900
    assert round_trips(lab.run("a", "ping", "-c", "1", B))


def test_a_device_that_is_taken_away_is_told() -> None:
    lab = Lab()
    lab.run("a", "ip", "link", "del", "perhop0")
    with pytest.raises(OSError, match=r"descriptor|device"):
        until(lambda: lab.core.check())
    # The others go on.
    assert round_trips(lab.run("b", "ping", "-c", "1", "-n", "10.0.0.3"))


def test_packets_are_captured_as_they_are(tmp_path: Path) -> None:
    lab = Lab(more="remark: {r2: clear}")
    path = tmp_path / "both.pcapng"
    with path.open("wb", buffering=0) as file:
        interfaces = [
            {"name": name, "description": name, "speed": 10**9} for name in ("a>r1", "b>r2")
        ]
        plan = {"snaplen": 0, "application": "x", "comment": "x", "interfaces": interfaces}
        lab.core.capture(json.dumps(plan), file)
        lab.run("a", "ping", "-Q", "0xb8", "-c", "2", "-i", "0.02", "-n", B)
        throughput(lab, "--bytes", "100K")
        lab.core.check()

    def read(*options: str) -> str:
        command = ["tshark", "-r", str(path), *options]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    need("tshark")
    shown = read("-Y", "icmp.type == 8", "-Tfields", "-eframe.interface_id", "-eip.dsfield.dscp")
    wrong = read("-oip.check_checksum:TRUE", "-otcp.check_checksum:TRUE", "-Y", WRONG)
    assert wrong == ""
    # Sent with EF by a, received by b with what is left of it.
    assert sorted(shown.splitlines()) == ["0\t46", "0\t46", "1\t0", "1\t0"]


def test_a_reader_that_stands_still_loses_what_comes_and_goes_on() -> None:
    need("ping")
    told = subprocess.run(
        [sys.executable, "-c", STANDSTILL, str(Path(__file__).parent)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    assert int(told.stdout) > 1000


def test_a_plan_that_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="missing field"):
        Emulation("{}")


LOOK = """
import socket, struct, sys
link = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3))
link.settimeout(20)
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(bytes(999), (sys.argv[1], 9))
while True:
    packet = link.recv(65536)
    if packet[0] == 0x45 and packet[9] == 17:
        break
summed = packet[12:20] + struct.pack("!HH", 17, len(packet) - 20) + packet[20:] + bytes(1)
total = sum(struct.unpack(f"!{len(summed) // 2}H", summed))
while total >> 16:
    total = (total & 0xFFFF) + (total >> 16)
print(total == 0xFFFF)
"""
"""True if the checksum (RFC 768) of a datagram in a host's capture is right."""


@pytest.mark.parametrize("offload", [True, False])
def test_captures_in_hosts_see_checksums_where_none_is_left_to_the_device(*, offload: bool) -> None:
    lab = Lab(offload=offload)
    assert lab.run("a", sys.executable, "-c", LOOK, B).strip() == str(not offload)
