"""`python -m validation.linux_queues [--uml PROGRAM] [--write]`: queues beside Linux's.

The same packets, at the same times, go through a queue of the simulator and through that which
`perhop export --to tc` writes, in User Mode Linux: a Linux kernel as a process, with disciplines
that the kernel of this machine may lack. It needs Debian's package `user-mode-linux`, and no
rights. Shares and delays are compared. What is printed last is kept in QUEUES.md.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import perhop
from perhop import analysis, linux
from perhop.scenario import parse
from perhop.scenario.model.tunnels import TUNNEL_TYPES, TunnelType
from validation import user_mode
from validation.table import Row

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perhop.scenario import Scenario

KEPT: Final = Path(__file__).parent / "QUEUES.md"
RATE_MBPS: Final = 2
PACKET_MS: Final = 6.0
"""The transmission time of a packet of 1500 bytes."""

STALL_S: Final = 0.05
"""The longest time for which User Mode Linux may stand still, …"""

ATTEMPTS: Final = 3
"""… and the attempts at that."""

MODULES: Final = (
    "drivers/net/veth",
    *(
        f"net/sched/sch_{name}"
        for name in ("htb", "hfsc", "drr", "sfq", "codel", "fq_codel", "pie")
    ),
)

SCENARIO: Final = """
perhop: 1
name: queue
duration: {duration} s
report: {{interval: {interval} s}}
nodes: {{a: host, r: router, b: host}}
links:
  - {{ends: [a, r], rate: 10 Gbps, queue: {{limit: 100000 packets}}}}
  - {{ends: [r, b], rate: {rate} Mbps, {queue}}}
{policies}
{tunnels}
flows:
{flows}
"""


@dataclass(frozen=True)
class Sender:
    """A flow of packets of one size at regular intervals.

    Attributes:
        size: The bytes of the IP packets.
        every_ms: The time between two packets; 0 for all at once.
        packets: Their number.
        start_ms: The time of the first.
        dscp: The DSCP, by which classes tell it.
    """

    size: int
    every_ms: float
    packets: int
    start_ms: float = 0
    dscp: int = 0

    @property
    def times(self) -> list[float]:
        """The times of the packets in seconds."""
        return [(self.start_ms + self.every_ms * n) / 1000 for n in range(self.packets)]


@dataclass(frozen=True)
class Setting:
    """A queue or a policy, packets, and what is compared.

    Attributes:
        name: Its name.
        queue: The queue or the policy, as a scenario has it.
        senders: The flows, by name.
        metrics: What is compared of which flow: `received` (packets), `share` (of the bytes that
            arrive in the first `until_s`), `median` or `most` (delay in ms).
        until_s: The end of the time for shares.
        tunnel: The type of a tunnel around the queue, a key of `TUNNELS`.
    """

    name: str
    queue: str
    senders: dict[str, Sender]
    metrics: tuple[tuple[str, str], ...]
    until_s: float = 0.0
    tunnel: TunnelType | None = None


TUNNELS: Final[dict[TunnelType, bytes]] = {
    "ipip": b"",
    "gre": bytes((0, 0, 8, 0)),  # RFC 2784, section 2.1: no flags, version 0, then IPv4
    "esp": bytes(range(1, 17)),  # RFC 4303, section 2: SPI and sequence number, then ciphertext
}
"""What stands between the outer header and the inner packet, in types of tunnels."""


def bulk(count: int, packets: int = 40, size: int = 1500) -> dict[str, Sender]:
    """Return flows that send all their packets at once."""
    return {f"bulk{number}": Sender(size, 0, packets) for number in range(count)}


_SPARSE: Final = Sender(200, 97, 17, start_ms=20)
"""Packets further apart than a round of ten others, so that each finds its queue forgotten."""

_TURNS: Final = """\
policy: {scheduler: drr, classes: {
  video: {match: {dscp: af41}, unused: true, quantum: 6000 B, queue: {limit: 1000 packets}},
  web: {match: {dscp: af11}, unused: true, quantum: 3000 B, queue: {limit: 1000 packets}},
  others: {match: any, unused: true, quantum: 1000 B, queue: {limit: 1000 packets}}}}"""

_TREE: Final = """\
policy: {{scheduler: hfsc, classes: {{
  call: {{
    match: {{dscp: ef}}, unused: true, linkshare: {{rate: 10 kbps}}, realtime: {call},
    queue: {{limit: 1000 packets}}}},
  video: {{
    match: {{dscp: af41}}, unused: true, linkshare: {{rate: 100 kbps}},
    realtime: {{rate: 1700 kbps}}, queue: {{limit: 1000 packets}}}},
  rest: {{
    match: any, unused: true, linkshare: {{rate: 1500 kbps}}, classes: {{
      web: {{
        match: {{dscp: af11}}, unused: true, bandwidth: 75%, queue: {{limit: 1000 packets}}}},
      others: {{
        match: any, unused: true, bandwidth: 25%{limit}, queue: {{limit: 1000 packets}}}}}}}}
}}}}"""

SETTINGS: Final = (
    Setting(
        "SFQ: flows of 1500, 500 and 200 bytes",
        "queue: {limit: 1000 packets, sfq: {}}",
        {
            "long": Sender(1500, 12, 130),
            "middle": Sender(500, 4, 380),
            "short": Sender(200, 1.6, 950),
        },
        (("share", "long"), ("share", "middle"), ("share", "short")),
        until_s=1.5,
    ),
    Setting(
        "SFQ: the longest queue drops",
        "queue: {limit: 60 packets, sfq: {}}",
        {"many": Sender(1500, 0.2, 300), "few": Sender(1500, 2, 20, start_ms=1)},
        (("received", "many"), ("received", "few")),
    ),
    Setting(
        "SFQ: a queue of 20 packets",
        "queue: {limit: 1000 packets, sfq: {depth: 20, drop: head}}",
        bulk(2, 60),
        (("received", "bulk0"), ("median", "bulk0")),
    ),
    Setting(
        "SFQ: a sparse flow beside ten",
        "queue: {limit: 1000 packets, sfq: {}}",
        {**bulk(10, 30), "sparse": _SPARSE},
        (("median", "sparse"), ("most", "sparse")),
    ),
    Setting(
        "FQ-CoDel: a sparse flow beside ten",
        "queue: {fq-codel: {target: 10 s, interval: 20 s}}",
        {**bulk(10, 30), "sparse": _SPARSE},
        (("median", "sparse"), ("most", "sparse")),
    ),
    *(
        Setting(
            f"FQ-CoDel: a sparse flow beside ten in {tunnel.upper()}",
            "queue: {fq-codel: {target: 10 s, interval: 20 s}}",
            {**bulk(10, 30, 1400), "sparse": _SPARSE},
            (("median", "sparse"), ("most", "sparse")),
            tunnel=tunnel,
        )
        for tunnel in TUNNELS
    ),
    Setting(
        "CoDel: 20% too much",
        "queue: {codel: {ecn: false}}",
        {"flow": Sender(1500, 5, 1200)},
        (("received", "flow"), ("median", "flow")),
    ),
    Setting(
        "PIE: 20% too much",
        "queue: {pie: {update: 20 ms, ecn: false}}",
        {"flow": Sender(1500, 5, 1200)},
        (("received", "flow"), ("median", "flow")),
    ),
    *(
        Setting(
            f"HFSC: a concave real-time curve, {until_s:g} s",
            _TREE.format(call="{m1: 1600 kbps, d: 300 ms, m2: 200 kbps}", limit=""),
            {"call": Sender(500, 0, 200, dscp=46), "web": Sender(500, 0, 500, dscp=10)},
            (("share", "call"), ("share", "web")),
            until_s=until_s,
        )
        for until_s in (0.3, 1.0)
    ),
    Setting(
        "HFSC: shares of a tree",
        _TREE.format(call="{rate: 64 kbps}", limit=""),
        {
            "video": Sender(1500, 0, 200, dscp=34),
            "web": Sender(500, 0, 300, dscp=10),
            "bulk": Sender(1500, 0, 100),
        },
        (("share", "video"), ("share", "web"), ("share", "bulk")),
        until_s=1.0,
    ),
    Setting(
        "DRR: quanta of 6000, 3000 and 1000 bytes",
        _TURNS,
        {
            "video": Sender(1500, 0, 200, dscp=34),
            "web": Sender(500, 0, 300, dscp=10),
            "bulk": Sender(1500, 0, 100),
        },
        (("share", "video"), ("share", "web"), ("share", "bulk")),
        until_s=0.9,
    ),
    Setting(
        "HFSC: an upper limit",
        _TREE.format(call="{rate: 64 kbps}", limit=", upperlimit: {rate: 300 kbps}"),
        {"web": Sender(500, 0, 500, dscp=10), "bulk": Sender(1500, 0, 60)},
        (("share", "web"), ("share", "bulk")),
        until_s=0.9,
    ),
)
"""What is compared. Flows of SFQ stay below 127 packets, the most of a queue."""

ALLOWED: Final = {
    "received": ("packets", 0.03, 3.0),
    "share": ("share (%)", 0.05, 0.5),
    "median": ("median delay (ms)", 0.1, 3 * PACKET_MS),
    "most": ("greatest delay (ms)", 0.1, 3 * PACKET_MS),
}
"""Each metric's heading, and its allowed differences. HTB's bucket holds two packets, and lends
one more; it loses tokens while User Mode Linux stands still. Delays of HFSC are not compared:
behind a real-time curve there is a veth, which has no rate, instead of a link."""

Seen = dict[str, list[tuple[float, float | None]]]
"""When the packets of each flow were sent, and when they arrived if they did, in seconds."""


def scenario_of(setting: Setting, seen: Seen | None = None) -> Scenario:
    """Return the scenario of a setting, with the times at which packets were sent if known.

    A process sends late where the machine is busy.
    """
    queue, policies = setting.queue, ""
    if queue.startswith("policy: "):
        policies = f"policies: {{p: {queue.removeprefix('policy: ')}}}"
        queue = "egress: {r: p}"
    flows = []
    for name, sender in setting.senders.items():
        times = [sent for sent, _ in seen[name]] if seen is not None else sender.times
        gaps = [times[0], *(b - a for a, b in pairwise(times))]
        text = "; ".join(f"{round(gap * 1e6)} us {sender.size - 28} B" for gap in gaps)
        mark = f"dscp: {sender.dscp}, " if sender.dscp else ""
        replay = f"udp: {{replay: {{packets: {text}}}, when_full: drop}}"
        flows.append(f"  {name}: {{from: a, to: b, {mark}{replay}}}")
    return parse(
        SCENARIO.format(
            duration=20,
            interval=setting.until_s or 1,
            rate=RATE_MBPS,
            queue=queue,
            policies=policies,
            tunnels=f"tunnels: {{t: {{ends: [a, b], type: {setting.tunnel}}}}}"
            * bool(setting.tunnel),
            flows="\n".join(flows),
        ),
        setting.name,
    )


def as_drr(line: str) -> list[str]:
    """Return a command of ETS without strict bands as commands of DRR, which this kernel has.

    Both have the same deficits; DRR's classes are made one by one.
    """
    head, word, quanta = line.partition(" quanta ")
    if not word:
        return [line]
    begin, _, _ = head.partition(" ets ")
    made = "class add dev v0 parent 2: classid 2:{:x} drr quantum {}"
    classes = [made.format(band, each) for band, each in enumerate(quanta.split(), 1)]
    return [f"{begin} drr", *classes]


def guest_run(setting: Setting, scenario: Scenario) -> dict[str, Any]:
    """Return the setting as a run of `guest.py`."""
    interface = linux.mapping(scenario).interfaces["r>b"]
    leaves = {path.rpartition("/")[2]: node for path, node in interface.htb.leaves.items()}
    names = {46: "call", 34: "video", 10: "web", 0: "others"}
    packets = []
    for number, sender in enumerate(setting.senders.values()):
        leaf = leaves["all"] if "all" in leaves else leaves[names[sender.dscp]]
        major, minor = (int(word, 16) for word in leaf.handle.split(":"))
        for at in sender.times:
            packets.append((at, 50000 + number, sender.size, sender.dscp, major << 16 | minor))
    device = interface.device
    lines = [line.replace(f"dev {device} ", "dev v0 ") for line in interface.tc]
    commands = [f"tc {line}" for each in lines for line in as_drr(each)]
    tunnel = setting.tunnel and {
        "protocol": TUNNEL_TYPES[setting.tunnel].protocol,
        "bytes": list(TUNNELS[setting.tunnel]),
    }
    packets.sort(key=lambda packet: packet[0])
    return {"commands": commands, "packets": packets, "tunnel": tunnel}


def in_user_mode(program: Path, settings: Sequence[Setting]) -> list[tuple[Seen, float]]:
    """Return what User Mode Linux does with the packets of each setting, and its longest stall."""
    runs = [guest_run(each, scenario_of(each)) for each in settings]
    modules = user_mode.modules(MODULES)
    with tempfile.TemporaryDirectory() as folder:
        job, result = Path(folder, "job.json"), Path(folder, "result.json")
        job.write_text(json.dumps({"modules": modules, "runs": runs}), "utf-8")
        guest = Path(__file__).with_name("guest.py")
        said = user_mode.boot([guest, job, result], 300, program)
        if not result.exists():
            raise SystemExit(f"User Mode Linux gave no result:\n{said}")
        found = json.loads(result.read_text("utf-8"))
    all_ = []
    stalls = []
    for setting, run, one in zip(settings, runs, found, strict=True):
        names = list(setting.senders)
        seen: Seen = {name: [] for name in names}
        for number, packet in enumerate(run["packets"]):
            times = one["sent"][str(number)], one["arrived"].get(str(number))
            seen[names[packet[1] - 50000]].append(times)
        all_.append(seen)
        stalls.append(one["stall"])
    return list(zip(all_, stalls, strict=True))


def in_linux(setting: Setting, seen: Seen) -> dict[tuple[str, str], float]:
    """Return the compared figures of a setting in Linux."""
    came = {flow: [each for _, each in all_ if each is not None] for flow, all_ in seen.items()}
    early = {
        flow: sum(each <= setting.until_s for each in all_) * (setting.senders[flow].size - 28)
        for flow, all_ in came.items()
    }
    found = {}
    for metric, name in setting.metrics:
        delays = [1000 * (came - sent) for sent, came in seen[name] if came is not None]
        found[metric, name] = {
            "received": float(len(delays)),
            "share": 100 * early[name] / max(sum(early.values()), 1),
            "median": statistics.median(delays),
            "most": max(delays),
        }[metric]
    return found


def in_sim(setting: Setting, seen: Seen) -> dict[tuple[str, str], float]:
    """Return the compared figures of a setting in the simulator.

    Delays end with the begin of the transmission: Linux's shaper sends a packet at once.
    """
    dataset = perhop.run(scenario_of(setting, seen))
    flows = analysis.summary(dataset)["flows"]
    early = {
        row["flow"]: row["bytes"]
        for row in dataset.intervals.iter_rows(named=True)
        if row["start_s"] == 0
    }
    found = {}
    for metric, name in setting.metrics:
        delay, sending = flows[name]["owd_s"], setting.senders[name].size * 8e-3 / RATE_MBPS
        found[metric, name] = {
            "received": float(delay["samples"]),
            "share": 100 * early[name] / max(sum(early.values()), 1),
            "median": 1000 * delay["median"] - sending,
            "most": 1000 * delay["max"] - sending,
        }[metric]
    return found


def rows(setting: Setting, seen: Seen) -> list[Row]:
    """Return the comparison of a setting."""
    linux_, sim = in_linux(setting, seen), in_sim(setting, seen)
    found = []
    for metric, name in setting.metrics:
        title, tolerance, slack = ALLOWED[metric]
        found.append(
            Row(
                setting=f"{setting.name}; {name}: {title}",
                expected=linux_[metric, name],
                measured=sim[metric, name],
                tolerance=tolerance,
                slack=slack,
            )
        )
    return found


def report(compared: Sequence[Row], kernel: str) -> str:
    """Return the text of QUEUES.md."""
    lines = [
        "# Queues beside Linux's",
        "",
        f"`make validate-queues`, with Linux {kernel} as a process. The same packets at the same",
        f"times through {RATE_MBPS} Mb/s; shares of bytes, packets that arrived, and delays.",
        "",
        "| setting | Linux | perhop | ratio | allowed | ok |",
        "|---|---|---|---|---|---|",
        *(row.markdown() for row in compared),
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Compare, print, and exit with 1 if a figure is too far away."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--uml", help="the program linux.uml")
    parser.add_argument("--write", action="store_true", help="keep the result")
    chosen = parser.parse_args()
    program = chosen.uml or shutil.which("linux.uml")
    if program is None:
        raise SystemExit("linux.uml is missing; on Debian: apt install user-mode-linux")
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    undisturbed: dict[str, Seen] = {}
    for _ in range(ATTEMPTS):
        left = [each for each in SETTINGS if each.name not in undisturbed]
        found = in_user_mode(Path(program).resolve(), left) if left else []
        for each, (seen, stall) in zip(left, found, strict=True):
            print(f"{each.name}: stood still for {1000 * stall:.0f} ms", file=sys.stderr)
            if stall <= STALL_S:
                undisturbed[each.name] = seen
    missing = [each.name for each in SETTINGS if each.name not in undisturbed]
    if missing:
        raise SystemExit(f"the machine was too busy for: {'; '.join(missing)}")
    compared = [row for each in SETTINGS for row in rows(each, undisturbed[each.name])]
    text = report(compared, version.stdout.strip())
    print(text)
    if chosen.write:
        KEPT.write_text(text, "utf-8")
    sys.exit(not all(row.ok for row in compared))


if __name__ == "__main__":
    main()
