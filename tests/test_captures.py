"""Captures, as tshark reads them: what it finds is what perhop has counted."""

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median

import pytest

import perhop
from conftest import SLOW
from perhop import analysis
from perhop.dataset import Dataset
from perhop.scenario import parse
from tools import need

pytestmark = SLOW


@pytest.fixture(autouse=True, scope="module")
def able() -> None:
    need("tshark")


FIELDS = (
    "frame.time_epoch",
    "frame.len",
    "frame.packet_flags_direction",
    "frame.interface_name",
    "ip.src",
    "ip.id",
    "ip.dsfield.dscp",
    "ip.dsfield.ecn",
    "ip.checksum.status",
    "_ws.malformed",
    "tcp.checksum.status",
    "tcp.seq",
    "tcp.ack",
    "tcp.len",
    "tcp.flags",
    "tcp.window_size",
    "tcp.options.mss_val",
    "tcp.options.wscale.shift",
    "tcp.options.sack_perm",
    "tcp.options.sack_le",
    "tcp.options.timestamp.tsval",
    "tcp.analysis.ack_rtt",
    "tcp.analysis.retransmission",
    "tcp.analysis.out_of_order",
    "udp.checksum.status",
    "udp.length",
    "data.data",
    "icmp.checksum.status",
    "icmp.type",
    "icmp.seq",
    "icmp.resptime",
)

OUTBOUND, INBOUND = 2, 1


@dataclass(frozen=True, slots=True)
class Packet:
    """A packet as tshark shows it: the fields that it has, by name."""

    fields: dict[str, str]

    def __contains__(self, field: str) -> bool:
        return field in self.fields

    def __getitem__(self, field: str) -> str:
        return self.fields[field]

    def number(self, field: str) -> int:
        return int(self.fields[field], 0)

    @property
    def end(self) -> int:
        """One above the segment's last byte of data."""
        return self.number("tcp.seq") + self.number("tcp.len")


def packets(capture: Path) -> list[Packet]:
    """Return the fields that tshark reads, without a fault in any packet."""
    options = [f"{protocol}.check_checksum:TRUE" for protocol in ("ip", "tcp", "udp")]
    command = ["tshark", "-n", "-r", str(capture), "-T", "fields"]
    command += [word for option in options for word in ("-o", option)]
    command += [word for field in FIELDS for word in ("-e", field)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = []
    for line in done.stdout.splitlines():
        cells = zip(FIELDS, line.split("\t"), strict=True)
        packet = Packet({field: cell for field, cell in cells if cell})
        stated = (packet[field] for field in packet.fields if field.endswith(".checksum.status"))
        sums = [status for statuses in stated for status in statuses.split(",")]
        if packet.fields.get("icmp.type", "").split(",")[0] in ("3", "11"):
            # What an error quotes is cut off, and its own checksum cannot be checked.
            sums = [status for status in sums if status not in ("2", "Unverified")]
        assert len(sums) >= 2, line
        assert set(sums) <= {"1", "Good"}, line
        assert "_ws.malformed" not in packet, line
        found.append(packet)
    return found


@dataclass(frozen=True, slots=True)
class Ends:
    """A run, and what passed the two hosts' interfaces."""

    run: Dataset
    a: list[Packet]
    b: list[Packet]

    def count(self, column: str) -> float:
        return analysis.count(self.run, "flow", column)


def run(text: str, folder: Path, seed: int = 1) -> Ends:
    """Run a scenario with the hosts a and b; packets are captured whole."""
    files = {"a": folder / "a.pcapng", "b": folder / "b.pcapng"}
    dataset = perhop.run(parse(text), seed=seed, captures=files, snaplen=0)
    return Ends(dataset, packets(files["a"]), packets(files["b"]))


def data(captured: list[Packet], direction: str) -> list[Packet]:
    """The segments with data that went this way."""
    return [
        packet
        for packet in captured
        if packet.number("frame.packet_flags_direction") == direction
        and packet.number("tcp.len") > 0
    ]


def behind(segments: list[Packet]) -> Iterator[Packet]:
    """The segments that begin below the end of one before them."""
    highest = 0
    for segment in segments:
        if segment.number("tcp.seq") < highest:
            yield segment
        highest = max(highest, segment.end)


def acknowledgements(captured: list[Packet], direction: str) -> list[Packet]:
    """The segments with nothing but an acknowledgement that went this way."""
    return [
        packet
        for packet in captured
        if packet.number("frame.packet_flags_direction") == direction
        and packet.number("tcp.len") == 0
        and not packet.number("tcp.flags") & 0b111  # FIN, SYN, RST
    ]


def agrees(ends: Ends) -> None:
    """Check that two captures of one TCP stream say what the run says, to the packet."""
    sent, arrived = data(ends.a, OUTBOUND), data(ends.b, INBOUND)
    assert ends.count("packets") == len(arrived)
    assert ends.count("lost") == len(sent) - len(arrived)

    # What arrived in order, from byte 1 on; and the last acknowledgement, which counts the FIN.
    next_byte, second = 1, 1
    waiting: dict[int, int] = {}
    for segment in arrived:
        while float(segment["frame.time_epoch"]) >= second:
            assert analysis.count(ends.run, "flow", "bytes", (0, second)) == next_byte - 1
            second += 1
        start = segment.number("tcp.seq")
        waiting[start] = max(waiting.get(start, 0), segment.end)
        while next_byte in waiting:
            next_byte = waiting.pop(next_byte)
    assert ends.count("bytes") == next_byte - 1
    acknowledged = max(packet.number("tcp.ack") for packet in acknowledgements(ends.b, OUTBOUND))
    assert acknowledged == next_byte + 1

    # Acknowledgements, and those with blocks.
    acks = acknowledgements(ends.b, OUTBOUND)
    with_blocks = [packet for packet in acks if "tcp.options.sack_le" in packet]
    assert (ends.count("acks"), ends.count("sacks")) == (len(acks), len(with_blocks))
    assert analysis.sack_share(ends.run, "flow") == len(with_blocks) / len(acks)

    # Sent again; tshark takes some of it for reordering, as it cannot know.
    again = list(behind(sent))
    fins = [packet for packet in ends.a if packet.number("tcp.flags") & 1]
    assert ends.count("retransmits") == len(again) + len(fins) - 1
    named = [p for p in sent if "tcp.analysis.retransmission" in p]
    named += [p for p in sent if "tcp.analysis.out_of_order" in p]
    assert len(named) == len(again)

    # Late: behind a later one, and not sent again (RFC 4737, section 3).
    repeated = {(packet["ip.id"], packet["tcp.seq"]) for packet in again}
    late = [p for p in behind(arrived) if (p["ip.id"], p["tcp.seq"]) not in repeated]
    assert ends.count("reordered") == len(late)


# A flow over a path that loses


LOSSY = """\
perhop: 1
name: lossy
nodes: {a: host, r: router, b: host}
links:
  - {ends: [a, r], rate: 100 Mbps, delay: 1 ms}
  - {ends: [r, b], rate: 20 Mbps, delay: 20 ms, loss: 0.5%, queue: {limit: 100 packets}}
flows:
  flow: {from: a, to: b, dscp: af11, volume: 6 MB, tcp: {congestion_control: reno, TCP}}
duration: 30 s
"""


@pytest.mark.parametrize(
    "tcp",
    [
        "timestamps: true, mss: 1448 B",
        "timestamps: false, loss_detection: rack",
        "timestamps: true, mss: 1448 B, sack: false, window_scaling: false, window: 60000 B",
    ],
)
def test_a_lossy_flow(tcp: str, tmp_path: Path) -> None:
    ends = run(LOSSY.replace("TCP", tcp), tmp_path)
    assert ends.count("bytes") == 6_000_000
    assert ends.count("retransmits") > 10
    agrees(ends)
    assert {packet["ip.dsfield.dscp"] for packet in ends.a} == {"10"}
    assert len({packet["frame.interface_name"] for packet in ends.a}) == 1
    syn, answer = ends.a[:2]
    assert (syn.number("tcp.flags"), answer.number("tcp.flags")) == (0x002, 0x012)
    assert {syn["tcp.options.mss_val"], answer["tcp.options.mss_val"]} == {"1460"}
    plain = [p for p in ends.a if not p.number("tcp.flags") & 0b10]
    assert ("tcp.options.sack_perm" in syn) == ("sack: false" not in tcp)
    assert any("tcp.options.sack_le" in p for p in plain) == ("sack: false" not in tcp)
    assert all(("tcp.options.timestamp.tsval" in p) == ("timestamps: true" in tcp) for p in ends.a)
    # Round trips, of what tshark finds an acknowledgement for.
    trips = [float(p["tcp.analysis.ack_rtt"]) for p in ends.a if "tcp.analysis.ack_rtt" in p]
    measured = analysis.flow_rtt(ends.run, "flow")
    assert measured is not None
    assert measured.min == pytest.approx(min(trips), rel=0.001)
    assert measured.median == pytest.approx(median(trips), rel=0.05)


# Windows beyond 65535 bytes


FAST = """\
perhop: 1
name: fast
nodes: {a: host, r: router, b: host}
links:
  - {ends: [a, r], rate: 1 Gbps, delay: 1 ms}
  - {ends: [r, b], rate: 100 Mbps, delay: 25 ms, queue: {limit: 200 packets}}
flows:
  flow: {from: a, to: b, tcp: {window: 3 MiB, timestamps: true}, stop: 1 s}
duration: 2 s
"""


def test_a_flow_with_a_scaled_window(tmp_path: Path) -> None:
    ends = run(FAST, tmp_path)
    agrees(ends)
    assert ends.count("retransmits") > 0
    assert ends.b[1]["tcp.options.wscale.shift"] == "6"
    windows = {p.number("tcp.window_size") for p in acknowledgements(ends.a, INBOUND)}
    assert windows == {3 << 20}


# Packets in turn over two links that differ


IN_TURN = """\
perhop: 1
name: in-turn
nodes: {a: host, r1: {kind: router, balance: per-packet}, r2: router, b: host}
links:
  - {ends: [a, r1], rate: 100 Mbps}
  - {ends: [r1, r2], rate: 50 Mbps, delay: 5 ms}
  - {ends: [r1, r2], rate: 50 Mbps, delay: 6 ms, name: longer}
  - {ends: [r2, b], rate: 100 Mbps}
flows:
  flow: {from: a, to: b, volume: 8 MB, tcp: {TCP}}
duration: 30 s
"""


@pytest.mark.parametrize("tcp", ["timestamps: true", "stack: linux-6"])
def test_a_flow_that_is_reordered(tcp: str, tmp_path: Path) -> None:
    ends = run(IN_TURN.replace("TCP", tcp), tmp_path)
    assert ends.count("bytes") == 8_000_000
    assert ends.count("reordered") > 1000
    agrees(ends)


# Datagrams


DATAGRAMS = """\
perhop: 1
name: datagrams
nodes: {a: host, r1: {kind: router, balance: per-packet}, r2: router, b: host}
links:
  - {ends: [a, r1], rate: 100 Mbps}
  - {ends: [r1, r2], rate: 4 Mbps, delay: 5 ms, loss: 1%}
  - {ends: [r1, r2], rate: 4 Mbps, delay: 25 ms, name: longer}
  - {ends: [r2, b], rate: 100 Mbps}
flows:
  flow: {from: a, to: b, dscp: ef, udp: {rate: 3 Mbps, size: 333 B, ecn: ect0}, stop: 3 s}
pings:
  ping: {from: b, to: a, every: 50 ms, size: 57 B, dscp: le}
duration: 4 s
"""


def test_datagrams_and_pings(tmp_path: Path) -> None:
    ends = run(DATAGRAMS, tmp_path)
    sent, arrived = (
        [int(p["data.data"][:8], 16) for p in captured if "udp.length" in p]
        for captured in (ends.a, ends.b)
    )
    assert sent == list(range(len(sent)))
    assert ends.count("lost") == len(sent) - len(arrived) > 0
    highest, late = -1, 0
    for number in arrived:
        late += number < highest
        highest = max(highest, number)
    assert ends.count("reordered") == late > 0
    received = [p for p in ends.b if "udp.length" in p]
    assert ends.count("packets") == len(received)
    assert ends.count("bytes") == sum(p.number("udp.length") - 8 for p in received)
    assert {(p["ip.dsfield.dscp"], p["ip.dsfield.ecn"]) for p in received} == {("46", "2")}

    trips = {
        p.number("icmp.seq"): float(p["icmp.resptime"]) / 1000
        for p in ends.b
        if p.number("frame.packet_flags_direction") == INBOUND and "icmp.type" in p
    }
    measured = dict(ends.run.pings.select("sequence", "rtt_s").drop_nulls().iter_rows())
    assert trips == pytest.approx(measured, abs=2e-6)
    requests = [p for p in ends.b if p.number("frame.packet_flags_direction") == OUTBOUND]
    assert [p.number("icmp.seq") for p in requests] == list(range(len(ends.run.pings)))
    assert mean(p.number("frame.len") for p in requests) == 28 + 57
    assert {p["ip.dsfield.dscp"] for p in requests} == {"1"}


# Probes of every hop


PATH = """\
perhop: 1
name: path
nodes: {a: host, r1: router, r2: router, b: host}
links:
  - {ends: [a, r1], rate: 100 Mbps, delay: 1 ms}
  - {ends: [r1, r2], rate: 100 Mbps, delay: 1 ms}
  - {ends: [r2, b], rate: 100 Mbps, delay: 1 ms}
flows: {}
pings:
  path: {from: a, to: b, every: 100 ms, ttl: 1..5, protocol: PROTOCOL, dscp: ef}
duration: 1 s
"""


@pytest.mark.parametrize("protocol", ["udp", "icmp"])
def test_probes_of_every_hop(protocol: str, tmp_path: Path) -> None:
    ends = run(PATH.replace("PROTOCOL", protocol), tmp_path)
    sent = [p for p in ends.a if p.number("frame.packet_flags_direction") == OUTBOUND]
    answers = [p for p in ends.a if p.number("frame.packet_flags_direction") == INBOUND]
    assert len(sent) == len(answers) == len(ends.run.pings)
    answered_by = {p["ip.src"].split(",")[0] for p in answers}
    assert answered_by == {str(ends.run.scenario.addresses[node]) for node in ("r1", "r2", "b")}
    quoting = [p for p in answers if p["icmp.type"] != "0"]
    kinds = {p["icmp.type"].split(",")[0] for p in quoting}
    assert kinds == ({"3", "11"} if protocol == "udp" else {"11"})
    # Each quotes the header of a packet that was sent: its identification is the second.
    identifications = [p["ip.id"] for p in sent]
    assert all(p["ip.id"].split(",")[1] in identifications for p in quoting)


def test_selective_acknowledgements_of_shared_load(tmp_path: Path) -> None:
    """Effect of load balancing per packet on TCP, counted by tshark, and by perhop."""
    scenario = perhop.load(
        "load-balancing",
        overrides=["flows.tcp.stop=33 s", "duration=34 s", "published=[]", "expect=[]"],
    )
    capture = tmp_path / "lxusa.pcapng"
    run = perhop.run(scenario, captures={"lxusa": capture})
    command = ["tshark", "-n", "-r", str(capture), "-Y", "tcp.flags.syn == 0 && tcp.len == 0"]
    command += ["-T", "fields", "-e", "frame.packet_flags_direction", "-e", "tcp.options.sack_le"]
    command += ["-e", "tcp.options.sack.dsack_le"]  # what tshark calls a block of what came twice
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    acks = [blocks for direction, *blocks in rows if int(direction, 0) == OUTBOUND]
    selective = sum(any(blocks) for blocks in acks)
    assert len(acks) == analysis.count(run, "tcp", "acks")
    assert selective == analysis.count(run, "tcp", "sacks")
    assert selective / len(acks) > 0.98


def test_fragments_make_datagrams(tmp_path: Path) -> None:
    text = """\
perhop: 1
name: narrow
nodes: {a: host, b: host, r: router}
links:
  - {ends: [a, r], rate: 100 Mbps, delay: 1 ms, mtu: 1500 B}
  - {ends: [r, b], rate: 10 Mbps, delay: 5 ms, mtu: 1400 B}
flows: {f: {from: a, to: b, udp: {rate: 1 Mbps, size: 4 kB}}}
duration: 500 ms
"""
    file = tmp_path / "b.pcapng"
    dataset = perhop.run(parse(text), captures={"b": file}, snaplen=0)
    fields = ("ip.reassembled.length", "udp.length", "udp.checksum.status")
    command = ["tshark", "-n", "-r", str(file), "-o", "udp.check_checksum:TRUE", "-Y", "udp"]
    command += ["-T", "fields", *(word for field in fields for word in ("-e", field))]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    whole = done.stdout.splitlines()
    assert set(whole) <= {"4008\t4008\t1", "4008\t4008\tGood"}
    assert len(whole) == dataset.intervals["packets"].sum() > 10
