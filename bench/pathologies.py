"""Search for scenarios whose packets cost far more than usual: CPU time a packet, in usual hops.

Each case has extreme settings of one kind. The cost is the CPU time of the simulation alone, over
the packets that crossed a link or were dropped, relative to a usual hop: two CUBIC flows through
routers with two classes, which runs before and after each case. Each case is a process of its own;
one that costs more than three usual hops runs again, and the smaller figure counts. Events beside
packets, such as timers, show in the third column.

    python bench/pathologies.py [NAME...]
    PYTHONPATH=tests python bench/pathologies.py --random FIRST LAST

The second form measures random scenarios of `tests/fuzzing`, ten for each number from FIRST to the
one before LAST, and prints the twenty with the highest cost and the worst of them as a file. There,
events and rows of tables count as work, too, as many of these scenarios have few packets.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

WORST = 3
"""Usual hops that a packet may cost."""

LIMIT_S = 300
"""Time limit of a case."""

RANDOM_BUDGET = 4_000_000
"""Work of a random scenario, at most."""

RANDOM_LEAST = 5_000
"""Work below which a random scenario's cost is that of its start."""

REFERENCE = """
perhop: 1
name: reference
nodes: {a: host, r: router, s: router, b: host}
links:
  - {ends: [a, r], rate: 1 Gbps, delay: 1 ms}
  - {ends: [r, s], rate: 100 Mbps, delay: 5 ms, egress: {r: p}}
  - {ends: [s, b], rate: 1 Gbps, delay: 1 ms}
policies: {p: {classes: {x: {match: {dscp: af11}, bandwidth: 30%}, rest: {match: any}}}}
flows: {f: {from: a, to: b, dscp: af11}, g: {from: a, to: b}}
duration: 5 s
"""

TWO = "nodes: {a: host, r: router, b: host}\n"
ACCESS = "{ends: [a, r], rate: 10 Gbps, delay: 100 us, queue: {limit: 100000 packets}}"
UDP = "{{from: a, to: b, udp: {{rate: {rate}, size: {size}}}}}"


def through(link: str, flows: str, more: str = "", seconds: float = 4) -> str:
    """Return a scenario in which all goes over one bottleneck of 100 Mb/s, with more keys."""
    wire = f"{{ends: [r, b], rate: 100 Mbps, delay: 1 ms{link}}}"
    return (
        f"perhop: 1\nname: case\n{TWO}links: [{ACCESS}, {wire}]\nflows: {{{flows}}}\n{more}\n"
        f"duration: {round(seconds * 1000)} ms\n"
    )


def many(number: int, rate: str = "100 kbps", size: str = "500 B", more: str = "") -> str:
    """Return flows of datagrams, each to a port of its own."""
    udp = f"udp: {{rate: {rate}, size: {size}}}"
    return ", ".join(
        f"f{i}: {{from: a, to: b, port: {1000 + i}, {udp}{more}}}" for i in range(number)
    )


def tcp(number: int = 10, more: str = "", keys: str = "window: 1 MiB") -> str:
    """Return a flow of some streams of TCP."""
    return f"f: {{from: a, to: b, streams: {number}, tcp: {{{keys}}}{more}}}"


def crowd(number: int, rate: str, size: str = "500 B") -> str:
    """Return streams of datagrams, a thousand in a flow."""
    udp = f"udp: {{rate: {rate}, size: {size}}}"
    return ", ".join(
        f"f{i}: {{from: a, to: b, streams: 1000, {udp}}}" for i in range(number // 1000)
    )


def udp(rate: str, size: str, more: str = "") -> str:
    """Return a flow of datagrams."""
    return f"f: {{from: a, to: b, udp: {{rate: {rate}, size: {size}}}{more}}}"


def classes(number: int, key: str, scheduler: str = "wfq") -> str:
    """Return a policy with a class for each port."""
    lines = "".join(
        f"      c{i}: {{match: {{protocol: udp, destination_port: {1000 + i}}}, {key}}}\n"
        for i in range(number)
    )
    return (
        f"policies:\n  p:\n    scheduler: {scheduler}\n    classes:\n{lines}"
        "      rest: {match: any, unused: true}"
    )


def deep(levels: int, scheduler: str = "wfq", key: str = "bandwidth: 90%") -> str:
    """Return policies, each inside a class of the one before, with a class of traffic in each."""
    lines = "policies:\n"
    for level in range(levels):
        match = f"{{protocol: udp, destination_port: {1000 + level}}}"
        below = f", policy: p{level + 1}"
        lines += (
            f"  p{level or ''}: {{scheduler: {scheduler}, classes: {{x: {{match: {match}}}, "
            f"rest: {{match: any, {key}{below if level < levels - 1 else ''}}}}}}}\n"
        )
    return lines


def nested(levels: int, scheduler: str) -> str:
    """Return classes inside classes, with a class of traffic at each level."""
    text = "match: any"
    for level in reversed(range(levels)):
        match = f"{{protocol: udp, destination_port: {1000 + level}}}"
        text = f"match: any, bandwidth: 90%, classes: {{x: {{match: {match}}}, rest: {{{text}}}}}"
    return f"policies: {{p: {{scheduler: {scheduler}, classes: {{all: {{{text}}}}}}}}}"


def queue(text: str) -> str:
    """Return keys of a link."""
    return f", queue: {{{text}}}"


EGRESS = ", egress: {r: p}"


def network(nodes: str, links: list[str], flows: str, more: str = "", seconds: float = 1) -> str:
    """Return a scenario of a network."""
    return (
        f"perhop: 1\nname: case\nnodes: {{{nodes}}}\nlinks:\n"
        + "".join(f"  - {{{link}}}\n" for link in links)
        + f"flows: {{{flows}}}\n{more}\nduration: {round(seconds * 1000)} ms\n"
    )


def trace(text: str) -> str:
    """Return a scenario whose bottleneck follows a trace."""
    return through("", tcp()).replace("rate: 100 Mbps, ", f"rate: 100 Mbps, trace: {{{text}}}, ")


def steps(number: int, gap_us: int) -> str:
    """Return a trace of rates."""
    text = "; ".join(f"{i * gap_us} us {50 + i % 100} Mbps" for i in range(number))
    return f"steps: '{text}', repeat: true"


def radio(users: int, channel: str, rate: str, each: str) -> str:
    """Return a scenario in which a server sends to users on a channel."""
    nodes = "a: host, ap: router, " + ", ".join(f"u{i}: host" for i in range(users))
    links = ["ends: [a, ap], rate: 10 Gbps, delay: 1 ms"]
    links += [f"ends: [ap, u{i}], rate: {rate}, channel: air" for i in range(users)]
    flows = ", ".join(f"f{i}: {{from: a, to: u{i}, {each}}}" for i in range(users))
    return network(nodes, links, flows, f"channels: {{air: {channel}}}", 2)


def parallel(number: int, balance: str) -> str:
    """Return a scenario with links side by side."""
    links = [ACCESS[1:-1], "ends: [s, b], rate: 10 Gbps, delay: 100 us"]
    links += [f"ends: [r, s], rate: 100 Mbps, delay: {i % 7} ms" for i in range(number)]
    nodes = f"a: host, r: {{kind: router, balance: {balance}}}, s: router, b: host"
    return network(nodes, links, tcp(100))


def row(routers: int, more: str = "", flows: str = "", seconds: float = 1) -> str:
    """Return a line of routers."""
    names = ["a", *(f"r{i}" for i in range(routers)), "b"]
    nodes = ", ".join(f"{name}: {'router' if name[0] == 'r' else 'host'}" for name in names)
    links = [f"ends: [{x}, {y}], rate: 100 Mbps, delay: 100 us" for x, y in pairwise(names)]
    return network(nodes, links, flows or udp("10 Mbps", "500 B"), more, seconds)


def tunnelled(depth: int) -> str:
    """Return tunnels inside tunnels."""
    tunnels = ", ".join(
        f"t{i}: {{ends: [r{i}, r{2 * depth - 1 - i}], type: gre}}" for i in range(depth)
    )
    return row(2 * depth, f"tunnels: {{{tunnels}}}", udp("10 Mbps", "500 B"))


def changing(number: int, each: Callable[[int], str], scenario: str) -> str:
    """Return a scenario with many changes."""
    lines = "".join(f"  - {{at: {(i + 1) * 900 // number} ms, {each(i)}}}\n" for i in range(number))
    return scenario + f"changes:\n{lines}"


def prefixes(number: int) -> str:
    """Return a policy whose first class matches a long list of prefixes."""
    elements = ", ".join(
        f"{{source: 172.{i // 256}.{i % 256}.0/24, destination_port: {i + 1}}}"
        for i in range(number)
    )
    long = f"x: {{match: [{elements}], unused: true}}"
    return f"policies: {{p: {{classes: {{{long}, rest: {{match: any}}}}}}}}"


CASES: dict[str, Callable[[], str]] = {
    # classes
    "1,000 classes, all with packets": lambda: through(
        EGRESS, many(1000, "150 kbps"), classes(1000, "bandwidth: 90 kbps")
    ),
    "1,000 classes, drr": lambda: through(
        EGRESS, many(1000, "150 kbps"), classes(1000, "bandwidth: 90 kbps", "drr")
    ),
    "1,000 classes, drr, quanta of 64 B": lambda: through(
        EGRESS,
        many(1000, "150 kbps"),
        classes(1000, "quantum: 64 B", "drr").replace(
            "unused: true", "quantum: 64 B, unused: true"
        ),
    ),
    "1,000 classes, link-sharing": lambda: through(
        EGRESS, many(1000, "150 kbps"), classes(1000, "bandwidth: 90 kbps", "link-sharing")
    ),
    "1,000 classes, priority": lambda: through(
        EGRESS, many(1000, "150 kbps"), classes(1000, "limit: 50%", "priority")
    ),
    "1,000 classes, hfsc": lambda: through(
        EGRESS, many(1000, "150 kbps"), classes(1000, "bandwidth: 90 kbps", "hfsc")
    ),
    "1,000 classes, hfsc, real time": lambda: through(
        EGRESS,
        many(1000, "150 kbps"),
        classes(
            1000, "bandwidth: 90 kbps, realtime: {umax: 600 B, dmax: 50 ms, rate: 90 kbps}", "hfsc"
        ),
    ),
    "1,000 classes, hfsc, upper limits": lambda: through(
        EGRESS,
        many(1000, "150 kbps"),
        classes(1000, "bandwidth: 90 kbps, upperlimit: {rate: 95 kbps}", "hfsc"),
    ),
    "200 classes, altq-cbq": lambda: through(
        EGRESS, many(200, "750 kbps"), classes(200, "bandwidth: 450 kbps", "altq-cbq")
    ),
    "1,000 classes with ceilings": lambda: through(
        EGRESS, many(1000, "150 kbps"), classes(1000, "bandwidth: 9 kbps, limit: 50 kbps")
    ),
    "1,000 classes that may not borrow": lambda: through(
        EGRESS, many(1000, "150 kbps"), classes(1000, "bandwidth: 50 kbps, borrow: false")
    ),
    "1,000 classes with shapers": lambda: through(
        EGRESS, many(1000, "150 kbps"), classes(1000, "shape: {rate: 100 kbps, burst: 2 kB}")
    ),
    "1,000 strict classes": lambda: through(
        EGRESS,
        many(1000, "150 kbps"),
        classes(1000, "priority: strict"),
    ),
    "12 levels of classes": lambda: through(EGRESS, many(12, "20 Mbps"), deep(12)),
    "12 levels, link-sharing": lambda: through(
        EGRESS, many(12, "20 Mbps"), deep(12, "link-sharing")
    ),
    "6 levels, hfsc": lambda: through(EGRESS, many(6, "30 Mbps"), nested(6, "hfsc")),
    "6 levels, altq-cbq": lambda: through(EGRESS, many(6, "30 Mbps"), nested(6, "altq-cbq")),
    "4,000 elements in a match": lambda: through(EGRESS, many(50, "2 Mbps"), prefixes(4000)),
    # policers and shapers
    "1,000 policers at 8 b/s": lambda: through(
        EGRESS, many(1000), classes(1000, "police: {rate: 8 bps, burst: 1 B}")
    ),
    "policer of two rates, 1 kB": lambda: through(
        EGRESS,
        many(10, "5 Mbps"),
        classes(10, "police: {rate: 1 Mbps, burst: 1 kB, peak_rate: 2 Mbps, peak_burst: 1 kB}"),
    ),
    "shaper of 8 b/s": lambda: through(
        ", shape: {r: {rate: 8 bps, burst: 1 B}}", udp("50 Mbps", "100 B")
    ),
    "shaper of the link's rate, burst of a packet": lambda: through(
        ", shape: {r: {rate: 99.999 Mbps, burst: 128 B}}", udp("150 Mbps", "100 B")
    ),
    # queues
    "buffer of 10 GB": lambda: through(queue("limit: 10 GB"), udp("5 Gbps", "1000 B"), seconds=0.3),
    "fq-codel, 5,000 flows": lambda: through(queue("fq-codel: {}"), crowd(5000, "30 kbps")),
    "fq-codel, 65,535 queues of 1 B": lambda: through(
        queue("fq-codel: {flows: 65535, quantum: 1 B}"), crowd(2000, "75 kbps")
    ),
    "codel, target 1 ps": lambda: through(
        queue("codel: {target: 1 ps, interval: 2 ps}"), many(100, "2 Mbps")
    ),
    "codel, interval 1 us, ECN": lambda: through(
        queue("codel: {target: 1 us, interval: 2 us}"), tcp(20, keys="ecn: classic")
    ),
    "fq-codel, target 1 us": lambda: through(
        queue("fq-codel: {target: 1 us, interval: 2 us}"), many(1000, "150 kbps")
    ),
    "pie, update 10 us": lambda: through(queue("pie: {update: 10 us}"), many(100, "2 Mbps")),
    "fq-pie, 5,000 flows": lambda: through(queue("fq-pie: {}"), crowd(5000, "30 kbps")),
    "fq-pie, update 100 us": lambda: through(
        queue("fq-pie: {update: 100 us}"), many(1000, "150 kbps")
    ),
    "dualpi2, target 100 us": lambda: through(
        queue("dualpi2: {target: 100 us}"), tcp(20, keys="congestion_control: prague")
    ),
    "sfq, 5,000 flows": lambda: through(queue("sfq: {}"), crowd(5000, "30 kbps")),
    "sfq, 65,000 queues": lambda: through(
        queue("sfq: {flows: 60000, divisor: 65535, depth: 60000}, limit: 60000 packets"),
        crowd(5000, "30 kbps"),
    ),
    "sfq, perturbed each 10 us": lambda: through(
        queue("sfq: {perturb: 10 us, flows: 1000}, limit: 1000 packets"), many(1000, "150 kbps")
    ),
    "cake, 5,000 flows": lambda: through(
        queue("cake: {bandwidth: 90 Mbps}"), crowd(5000, "30 kbps")
    ),
    "cake full, 5,000 flows": lambda: through(
        queue("cake: {bandwidth: 10 Mbps}, limit: 100 kB"), crowd(5000, "30 kbps")
    ),
    "cake, small rate, 8 tins": lambda: through(
        queue("cake: {bandwidth: 64 kbps, diffserv: diffserv8}"), many(200, "500 kbps")
    ),
    "cake, acknowledgements filtered": lambda: through(
        queue("cake: {bandwidth: 1 Mbps, ack_filter: aggressive}"),
        "f: {from: b, to: a, streams: 100, tcp: {delayed_ack: 0 s}}",
        seconds=60,
    ),
    "red, 1 B thresholds": lambda: through(
        queue("limit: 10000 packets, red: {min: 1 B, max: 2 B, weight: 100%}"), many(100, "2 Mbps")
    ),
    "wred, 64 profiles": lambda: through(
        queue("wred: {by: dscp}"), many(100, "2 Mbps", more=", dscp: af13")
    ),
    "drops at the head": lambda: through(
        queue("drop: head, limit: 1 packets"), udp("5 Gbps", "1000 B"), seconds=0.2
    ),
    # links
    "loss 50%, TCP": lambda: through(", loss: 50%", tcp(500), seconds=5),
    "loss 50%, UDP": lambda: through(", loss: 50%", udp("90 Mbps", "100 B")),
    "losses in bursts": lambda: through(
        ", loss: {gilbert: {mean: 10%, burst: 100}}", tcp(200), seconds=5
    ),
    "all packets twice": lambda: through(", duplicate: 99%", tcp(50)),
    "jitter of 1 s": lambda: through(", jitter: 1 s", udp("90 Mbps", "200 B")),
    "half of the packets overtaken by 1 s": lambda: through(
        ", reorder: {share: 50%, by: 1 s}", udp("90 Mbps", "100 B"), seconds=2
    ),
    "half of TCP's packets overtaken by 100 ms": lambda: through(
        ", reorder: {share: 50%, by: 100 ms}", tcp(20, keys="window: 8 MiB"), seconds=5
    ),
    "delay of 1 s": lambda: through(", delay: 1 s", udp("90 Mbps", "100 B"), seconds=3).replace(
        "delay: 1 ms, delay", "delay"
    ),
    "mtu of 576 B": lambda: through(", mtu: 576 B", tcp(20)),
    "fragments of 65 kB": lambda: through(", mtu: 576 B", udp("50 Mbps", "65000 B")).replace(
        "ends: [a, r],", "ends: [a, r], mtu: 576 B,"
    ),
    "datagrams of 1 B": lambda: through("", udp("1 Mbps", "1 B")),
    "atm": lambda: through(", overhead: atm", udp("40 Mbps", "1 B")),
    # traces
    "20,000 steps of 1 us": lambda: trace(steps(20_000, 1)),
    "20,000 steps of 1 ms": lambda: trace(steps(20_000, 1000)),
    "opportunities": lambda: trace("opportunities: '" + "1x8 " * 20_000 + "'"),
    # traffic
    "1,000 flows of datagrams": lambda: through("", many(1000, "150 kbps")),
    "10,000 flows of datagrams": lambda: through("", crowd(10_000, "15 kbps")),
    "10,000 streams of TCP": lambda: through(
        "", ", ".join(f"f{i}: {{from: a, to: b, streams: 1000}}" for i in range(10))
    ),
    "window of 1 GB, 5% lost": lambda: through(
        ", loss: 5%", tcp(1, keys="window: 1000 MB, initial_window: 1000"), seconds=5
    ).replace("delay: 1 ms", "delay: 300 ms"),
    "no SACK, 5% lost": lambda: through(", loss: 5%", tcp(50, keys="sack: false"), seconds=5),
    "rack, reordered": lambda: through(
        ", reorder: {share: 30%, by: 20 ms}", tcp(20, keys="loss_detection: rack, window: 8 MiB")
    ),
    "BBR, 100 streams": lambda: through("", tcp(100, keys="congestion_control: bbr")),
    "BBR 1, 20% lost": lambda: through(
        ", loss: 20%", tcp(100, keys="congestion_control: bbr1"), seconds=3
    ),
    "LEDBAT++": lambda: through("", tcp(100, keys="congestion_control: ledbat++")),
    "segments of 536 B": lambda: through("", tcp(20, keys="mss: 536 B")),
    "QUIC, 20% lost": lambda: through(
        ", loss: 20%", "f: {from: a, to: b, streams: 100, quic: {}}", seconds=5
    ),
    "QUIC, reordered": lambda: through(
        ", reorder: {share: 50%, by: 100 ms}",
        "f: {from: a, to: b, streams: 10, quic: {window: 8 MiB, stream_window: 8 MiB}}",
        seconds=40,
    ),
    "QUIC, 1,000 streams in one": lambda: through(
        ", loss: 2%", "f: {from: a, to: b, quic: {streams: 1000}}", seconds=3
    ),
    "1,000 calls": lambda: through(
        "", "f: {from: a, to: b, streams: 1000, voice: {codec: opus, ptime: 2.5 ms}}"
    ),
    "pages": lambda: through(
        "", "f: {from: a, to: b, streams: 100, web: {think: 1 ms}}", seconds=3
    ),
    "pages over QUIC": lambda: through(
        "", "f: {from: a, to: b, streams: 50, quic: {}, web: {think: 1 ms}}", seconds=3
    ),
    "10,000 requests a second": lambda: through(
        "", "f: {from: a, to: b, streams: 10, rpc: {every: 1 ms, connections: new}}"
    ),
    "transfers, load of 95%": lambda: through(
        "",
        "f: {from: a, to: b, streams: 20, transfers: {sizes: web-search, load: 95%}}",
        seconds=60,
    ),
    "videos": lambda: through("", "f: {from: a, to: b, streams: 100, video: hls}", seconds=10),
    "background of 1,000 sources": lambda: network(
        "a: host, r: router, s: router, b: host",
        [
            "ends: [a, r], rate: 1 Gbps",
            "ends: [r, s], rate: 100 Mbps, delay: 1 ms",
            "ends: [s, b], rate: 1 Gbps",
        ],
        udp("1 Mbps", "500 B"),
        "background: {link: r>s, load: 80%, sources: 1000}",
        3,
    ),
    "flood of pings": lambda: through(
        "", udp("1 Mbps", "500 B"), "pings: {p: {from: a, to: b, every: 20 us, size: 20 B}}"
    ),
    "traceroutes": lambda: row(
        20, "pings: {p: {from: a, to: b, every: 5 ms, ttl: 1..30, train: 10}}", seconds=1
    ),
    "unreachable": lambda: changing(
        1, lambda _: "on: r>b, state: down", through("", udp("90 Mbps", "100 B"))
    ).replace("at: 900 ms", "at: 10 ms"),
    # networks
    "60 routers in a line": lambda: row(60, flows=many(20, "1 Mbps")),
    "100 links side by side, by packet": lambda: parallel(100, "per-packet"),
    "100 links side by side, by flow": lambda: parallel(100, "per-flow"),
    "16 tunnels in tunnels": lambda: tunnelled(16),
    "50 stations of Wi-Fi": lambda: radio(
        50, "{wifi: ac}", "433 Mbps", "udp: {rate: 5 Mbps, size: 1000 B}"
    ),
    "50 stations, all send": lambda: radio(
        50, "{wifi: n}", "65 Mbps", "udp: {rate: 2 Mbps, size: 1000 B}"
    ).replace("from: a, to: u", "to: a, from: u"),
    "50 stations of 802.11b": lambda: radio(
        50, "{wifi: b}", "11 Mbps", "udp: {rate: 200 kbps, size: 100 B}"
    ).replace("from: a, to: u", "to: a, from: u"),
    "Wi-Fi, 80% of frames lost": lambda: radio(
        10, "{wifi: ac}", "433 Mbps", "udp: {rate: 5 Mbps, size: 1000 B}"
    ).replace("channel: air", "channel: air, loss: 80%"),
    "100 users of LTE": lambda: radio(
        100, "{lte: ap}", "50 Mbps", "udp: {rate: 1 Mbps, size: 500 B}"
    ),
    "100 users of LTE, round robin": lambda: radio(
        100, "{lte: {base_station: ap, scheduler: round-robin}}", "50 Mbps", "tcp: {}"
    ),
    "LTE, 90% of blocks fail": lambda: radio(
        20,
        "{lte: {base_station: ap, bler: 90%, combining: 90%}}",
        "50 Mbps",
        "udp: {rate: 3 Mbps, size: 500 B}",
    ),
    # changes
    "900 changes of a rate": lambda: changing(
        900, lambda i: f"on: r>b, rate: {50 + i % 50} Mbps", through("", udp("90 Mbps", "500 B"))
    ),
    "900 changes of routes, 60 routers": lambda: changing(
        900,
        lambda i: f"on: r30>r31, state: {('down', 'up')[i % 2]}",
        row(60, flows=many(20, "1 Mbps")),
    ),
    "900 changes of a policy, 200 classes": lambda: changing(
        900,
        lambda i: f"on: r>b, policy: {('none', 'p')[i % 2]}",
        through(EGRESS, many(200, "300 kbps"), classes(200, "bandwidth: 450 kbps")),
    ),
}


@dataclass(frozen=True)
class Cost:
    """What a run took."""

    cpu_s: float
    packets: int
    """Packets that crossed a link, or were dropped."""
    events: int
    rows: int
    usual_s: float
    """CPU time of a usual hop."""
    megabytes: float

    @property
    def ratio(self) -> float:
        """The cost of a packet, in usual hops."""
        return self.cpu_s / max(1, self.packets) / self.usual_s


def measure(scenario: object) -> Cost:
    """Run a scenario between two runs of the reference."""
    from perhop.scenario import parse

    reference = parse(REFERENCE)
    usual = [simulate(reference)]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    cpu_s, hops, events, dropped, rows = simulate(scenario)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    usual.append(simulate(reference))
    hop = min(run[0] / run[1] for run in usual)
    return Cost(cpu_s, hops + dropped, events, rows, hop, (after - before) / 1024)


def simulate(scenario: object) -> tuple[float, int, int, int, int]:
    """Return the CPU time of a run, its packet-hops, events, drops, and rows of tables."""
    from perhop.engines.sim import start

    run = start(scenario, 1)  # type: ignore[arg-type]
    began = time.process_time()
    while not run.finished:
        run.advance()
    cpu_s = time.process_time() - began
    tables = run.tables()
    dropped = sum(
        int(tables["links"][name].sum())
        for name in tables["links"].columns
        if "lost" in name or "dropped" in name
    )
    dropped += int(tables["queues"]["dropped_packets"].sum())
    counters = run.counters
    rows = sum(table.height for table in tables.values())
    return cpu_s, counters["packet_hops"], counters["events"], dropped, rows


def case(name: str) -> Cost:
    """Measure a case."""
    from perhop.scenario import parse

    return measure(parse(CASES[name]()))


def child(name: str) -> Cost | str:
    """Measure a case in a process of its own."""
    command = [sys.executable, __file__, "--one", name]
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        return f"more than {LIMIT_S} s"
    if run.returncode:
        return run.stderr.strip()[-400:]
    return Cost(**json.loads(run.stdout))


def search(numbers: range) -> int:
    """Print the random scenarios with the highest cost."""
    from fuzzing import running, scenarios
    from perhop.scenario import dump

    scenarios.BUDGET = RANDOM_BUDGET  # type: ignore[misc]
    found = []
    for number in numbers:
        for place, scenario in enumerate(running.draw(number)):
            cost = measure(scenario)
            work = max(cost.packets, cost.events, cost.rows)
            if work >= RANDOM_LEAST:
                found.append((cost.cpu_s / work / cost.usual_s, number, place, cost, scenario))
    found.sort(key=lambda one: -one[0])
    print(f"{'usual hops':>10} {'number':>10} {'packets':>10} {'events':>10} {'rows':>10}")
    for ratio, number, place, cost, _ in found[:20]:
        counts = f"{cost.packets:>10,} {cost.events:>10,} {cost.rows:>10,}"
        print(f"{ratio:>10.2f} {f'{number}.{place}':>10} {counts}")
    if found:
        print(dump(found[0][-1]))
    return 0


def main() -> int:
    """Print the table, the worst last."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="cases; all unless given")
    parser.add_argument("--random", nargs=2, type=int, metavar=("FIRST", "LAST"))
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.random:
        return search(range(*options.random))
    if options.one:
        print(json.dumps(vars(case(options.one))))
        return 0
    chosen = [
        name for name in CASES if not options.names or any(part in name for part in options.names)
    ]
    print(f"{'':<46} {'packets':>9} {'events':>9} {'usual hops':>11} {'MB':>7}")
    above = 0
    for name in chosen:
        cost = child(name)
        if isinstance(cost, Cost) and cost.ratio > WORST:
            again = child(name)
            cost = min(
                (one for one in (cost, again) if isinstance(one, Cost)), key=lambda one: one.ratio
            )
        if isinstance(cost, str):
            print(f"{name:<46} {cost}", flush=True)
            continue
        above += cost.ratio > WORST
        flag = " *" if cost.ratio > WORST else ""
        print(
            f"{name:<46} {cost.packets:>9,} {cost.events:>9,} {cost.ratio:>11.2f} "
            f"{cost.megabytes:>7.1f}{flag}",
            flush=True,
        )
    print(f"* above {WORST} usual hops a packet: {above} of {len(chosen)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
