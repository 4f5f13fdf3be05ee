"""Configurations with faults that `perhop lint` finds, and near misses."""

from dataclasses import dataclass, field
from typing import Any

from perhop.routers.lint import Settings
from perhop.routers.reading import Attachment, Direction, Place
from perhop.scenario.reading.document import read_yaml


@dataclass
class At:
    """A policy at an interface."""

    classes: str
    rate: int | None = 10_000_000
    direction: Direction = "out"
    interface: str = "Gi0/1"
    name: str = "wan"
    shape: dict[str, str] | None = None
    more: str = ""
    defaults: tuple[str, ...] = ()

    def attachment(self, file: str) -> Attachment:
        document = read_yaml(f"{self.more}\nclasses:\n{self.classes}\n", file)
        places = {loc: Place(file, mark.key_line) for loc, mark in document.marks.items()}
        rate_place = None if self.rate is None else Place(file, 1)
        return Attachment(
            self.interface,
            self.direction,
            self.name,
            document.data,
            {**places, (): Place(file, 1)},
            self.rate,
            rate_place,
            self.shape,
        )


@dataclass
class Case:
    """A rule with configurations that have the fault, and some that are near to it."""

    rule: str
    faults: list[list[At]]
    misses: list[list[At]]
    settings: Settings = field(default_factory=Settings)
    limit: int | None = None


def one(classes: str, **more: Any) -> list[At]:
    return [At(classes, **more)]


VOICE = "  voice: {match: {dscp: ef}, priority: strict, police: {rate: 1 Mbps, burst: 4 kB}}\n"
REST = "  rest: {match: any}\n"
WRED = (
    "queue: {limit: 100 packets, wred: "
    "{profiles: [{dscp: af21, min: 20 packets, max: 40 packets}]}}"
)

CASES = [
    Case(
        "shadowed-class",
        [
            one("  all: {match: {dscp: [af21, af22]}}\n  some: {match: {dscp: af21}}\n" + REST),
            one(
                "  most: {match: [{except: {dscp: ef}}, any]}\n"
                "  some: {match: [{dscp: cs1}, {dscp: af21}]}\n" + REST
            ),
            # By two classes together, of which neither takes all.
            one(
                "  tcp: {match: {protocol: tcp}}\n  udp: {match: {protocol: udp}}\n"
                "  web: {match: {port: 80}}\n" + REST
            ),
            one(
                "  low: {match: {source: 10.0.0.0/9}}\n  high: {match: {source: 10.128.0.0/9}}\n"
                "  ten: {match: {source: 10.0.0.0/8}}\n" + REST
            ),
        ],
        [
            one("  some: {match: {dscp: af21}}\n  all: {match: {dscp: [af21, af22]}}\n" + REST),
            one(
                "  most: {match: [{except: {dscp: ef}}, any]}\n"
                "  some: {match: [{dscp: cs1}, {dscp: ef}]}\n" + REST
            ),
            one(
                "  tcp: {match: {protocol: tcp}}\n  udp: {match: {protocol: udp, port: 80}}\n"
                "  web: {match: {port: 80-81}}\n" + REST
            ),
            one(
                "  low: {match: {source: 10.0.0.0/9}}\n  high: {match: {source: 10.128.0.0/10}}\n"
                "  ten: {match: {source: 10.0.0.0/8}}\n" + REST
            ),
        ],
    ),
    Case(
        "empty-class",
        [
            one("  web: {match: {protocol: icmp, port: 80}}\n" + REST),
            one(
                "  video: {match: {dscp: af41}, classes: {hd: {match: {dscp: af31}}, "
                "sd: {match: any}}}\n" + REST
            ),
        ],
        [
            one("  web: {match: {protocol: [icmp, tcp], port: 80}}\n" + REST),
            one(
                "  video: {match: {dscp: [af41, af31]}, classes: {hd: {match: {dscp: af31}}, "
                "sd: {match: any}}}\n" + REST
            ),
        ],
    ),
    Case(
        "guarantees-above-capacity",
        [
            one("  a: {match: {dscp: af21}, bandwidth: 60%}\n  b: {match: any, bandwidth: 41%}"),
            one(
                "  a: {match: {dscp: af21}, bandwidth: 6 Mbps}\n"
                "  b: {match: any, bandwidth: 4001 kbps}"
            ),
            # What a policed strict class may take counts, and no rate is needed for shares.
            one(
                "  v: {match: {dscp: ef}, priority: strict, police: {rate: 30%, burst: 9 kB}}\n"
                "  b: {match: any, bandwidth: 71%}",
                rate=None,
            ),
            one(
                "  a: {match: {dscp: af21}, bandwidth: 6 Mbps}\n  b: {match: any, bandwidth: 40%}",
                shape={"rate": "8 Mbps"},
            ),
        ],
        [
            one("  a: {match: {dscp: af21}, bandwidth: 60%}\n  b: {match: any, bandwidth: 40%}"),
            one(
                "  a: {match: {dscp: af21}, bandwidth: 6 Mbps}\n"
                "  b: {match: any, bandwidth: 4 Mbps}"
            ),
            one(
                "  v: {match: {dscp: ef}, priority: strict, police: {rate: 30%, burst: 9 kB}}\n"
                "  b: {match: any, bandwidth: 70%}",
                rate=None,
            ),
            one(
                "  a: {match: {dscp: af21}, bandwidth: 60 Mbps}\n"
                "  b: {match: any, bandwidth: 40 Mbps}",
                rate=None,
            ),
        ],
    ),
    Case(
        "children-above-parent",
        [
            one(
                "  a: {match: {dscp: [af21, af22]}, shape: {rate: 5 Mbps}, classes: "
                "{b: {match: {dscp: af21}, bandwidth: 4 Mbps}, "
                "c: {match: any, bandwidth: 2 Mbps}}}\n" + REST
            ),
        ],
        [
            one(
                "  a: {match: {dscp: [af21, af22]}, shape: {rate: 6 Mbps}, classes: "
                "{b: {match: {dscp: af21}, bandwidth: 4 Mbps}, "
                "c: {match: any, bandwidth: 2 Mbps}}}\n" + REST
            ),
        ],
    ),
    Case(
        "tiny-rate",
        [
            one(
                "  a: {match: any, police: {rate: 10 kbps, burst: 8 kB}}",
                direction="in",
            )
        ],
        [
            one("  a: {match: any, police: {rate: 64 kbps, burst: 8 kB}}", direction="in"),
            # Control packets of some kbit/s are common.
            one(
                "  a: {match: {protocol: icmp}, police: {rate: 10 kbps, burst: 8 kB}}\n" + REST,
                direction="in",
            ),
        ],
    ),
    Case(
        "platform-limit",
        [one("  a: {match: {dscp: af21}, bandwidth: 76%}\n" + REST)],
        [
            one("  a: {match: {dscp: af21}, bandwidth: 75%}\n" + REST),
            one("  a: {match: {dscp: af21}, bandwidth: 76%}\n" + REST, shape={"rate": "5 Mbps"}),
        ],
        limit=750_000_000,
    ),
    Case(
        "default-without-bandwidth",
        [
            one("  a: {match: {dscp: af21}, bandwidth: 100%}\n" + REST),
            one("  a: {match: {dscp: af21}, bandwidth: 9900 kbps}\n" + REST),
        ],
        [
            one("  a: {match: {dscp: af21}, bandwidth: 98.9%}\n" + REST),
            one("  a: {match: {dscp: af21}, bandwidth: 100%}\n" + REST, direction="in"),
        ],
    ),
    Case(
        "ceiling-below-guarantee",
        [
            one("  a: {match: {dscp: af21}, bandwidth: 2 Mbps, limit: 1 Mbps}\n" + REST),
            one(
                "  a: {match: {dscp: af21}, linkshare: {d: 9 ms, m2: 2 Mbps}, "
                "upperlimit: {rate: 1 Mbps}}\n" + REST,
                more="scheduler: hfsc",
            ),
            one(
                "  a: {match: {dscp: af21}, bandwidth: 2 Mbps, "
                "police: {rate: 1 Mbps, burst: 100 kB}}\n" + REST
            ),
        ],
        [
            one("  a: {match: {dscp: af21}, bandwidth: 2 Mbps, limit: 2 Mbps}\n" + REST),
            one(
                "  a: {match: {dscp: af21}, bandwidth: 1 Mbps, realtime: {rate: 2 Mbps}, "
                "upperlimit: {rate: 1 Mbps}}\n" + REST,
                more="scheduler: hfsc",
            ),
            one(
                "  a: {match: {dscp: af21}, bandwidth: 2 Mbps, police: {rate: 1 Mbps, "
                "burst: 100 kB, exceed: {remark: af22}}}\n" + REST
            ),
        ],
    ),
    Case(
        "scavenger-share",
        [one("  s: {match: {dscp: [cs1, le]}, bandwidth: 51%}\n" + REST)],
        [
            one("  s: {match: {dscp: [cs1, le]}, bandwidth: 50%}\n" + REST),
            one("  s: {match: {dscp: [cs1, af11]}, bandwidth: 51%}\n" + REST),
        ],
    ),
    Case(
        "unlimited-priority",
        [
            one("  v: {match: {dscp: ef}, priority: strict}\n" + REST),
            one(
                "  v: {match: {dscp: ef}, priority: strict, police: {rate: 1 Mbps, burst: 4 kB, "
                "exceed: {remark: be}}}\n" + REST
            ),
            one(
                "  v: {match: {dscp: ef}, priority: strict, police: {rate: 100%, burst: 4 kB}}\n"
                + REST
            ),
            one("  a: {match: {dscp: ef}}\n" + REST, more="scheduler: priority"),
            one("  a: {match: {dscp: ef}, priority: strict}\n  b: {match: any, priority: strict}"),
        ],
        [
            one(VOICE + REST),
            one("  v: {match: {dscp: ef}, priority: strict, limit: 1 Mbps}\n" + REST),
            one("  v: {match: any, priority: strict}"),
            one("  a: {match: {dscp: ef}, limit: 2 Mbps}\n" + REST, more="scheduler: priority"),
        ],
    ),
    Case(
        "priority-share",
        [
            one(
                VOICE + "  video: {match: {dscp: af41}, priority: strict, "
                "police: {rate: 2400 kbps, burst: 60 kB}}\n" + REST
            )
        ],
        [
            one(
                VOICE + "  video: {match: {dscp: af41}, priority: strict, "
                "police: {rate: 2330 kbps, burst: 60 kB}}\n" + REST
            )
        ],
    ),
    Case(
        "voice-red",
        [
            one("  v: {match: {dscp: ef}, bandwidth: 1 Mbps, queue: {wred: {}}}\n" + REST),
            one("  v: {match: {dscp: [ef, 44]}, queue: {limit: 3 packets, red: {}}}\n" + REST),
        ],
        [
            one("  v: {match: {dscp: [ef, af41]}, bandwidth: 1 Mbps, queue: {wred: {}}}\n" + REST),
            # Bands in the order of priority, as Linux's prio has them.
            one(
                "  a: {match: {port: 22}, priority: strict}\n"
                "  b: {match: any, priority: strict, queue: {limit: 60 packets, wred: {}}}"
            ),
            one("  v: {match: {dscp: ef}, bandwidth: 1 Mbps}\n" + REST),
            one(
                "  s: {match: {dscp: cs5}, priority: strict, limit: 1 Mbps, queue: {wred: {}}}\n"
                + REST
            ),
        ],
    ),
    Case(
        "voice-queue",
        [
            one("  v: {match: {dscp: ef}, bandwidth: 50%, queue: {limit: 31 ms}}\n" + REST),
            one(
                "  v: {match: {dscp: ef}, priority: strict, limit: 5 Mbps, "
                "queue: {limit: 40 kB}}\n" + REST
            ),
        ],
        [
            one("  v: {match: {dscp: ef}, bandwidth: 50%, queue: {limit: 30 ms}}\n" + REST),
            # The burst of its policer is the most that can wait.
            one(
                "  v: {match: {dscp: ef}, priority: strict, queue: {limit: 40 kB}, "
                "police: {rate: 5 Mbps, burst: 30 kB}}\n" + REST
            ),
            # CoDel drops packets that wait, however many fit.
            one(
                "  v: {match: {dscp: ef}, bandwidth: 50%, "
                "queue: {limit: 10240 packets, fq-codel: {}}}\n" + REST
            ),
            # Signalling waits without harm: RFC 4594, section 4.2; Cisco has CS3, before AF31.
            one(
                "  s: {match: {dscp: [cs3, af31]}, priority: strict, limit: 5 Mbps, "
                "queue: {limit: 40 kB}}\n" + REST
            ),
            # The platform's default, which the policer of every call keeps short.
            one(
                "  v: {match: {dscp: ef}, bandwidth: 50%, queue: {limit: 64 packets}}\n" + REST,
                defaults=("v",),
            ),
        ],
    ),
    Case(
        "burst-below-packet",
        [
            one("  a: {match: any, police: {rate: 1 Mbps, burst: 1499 B}}", direction="in"),
            one(
                "  v: {match: {dscp: ef}, priority: strict, "
                "police: {rate: 64 kbps, burst: 199 B}}\n" + REST
            ),
            one(
                "  a: {match: any, police: {rate: 1 Mbps, burst: 99 kB, peak_rate: 2 Mbps, "
                "peak_burst: 1 kB}}"
            ),
        ],
        [
            one("  a: {match: any, police: {rate: 1 Mbps, burst: 1500 B}}", direction="in"),
            one(
                "  v: {match: {dscp: ef}, priority: strict, "
                "police: {rate: 64 kbps, burst: 200 B}}\n" + REST
            ),
            one(
                "  a: {match: {protocol: icmp}, police: {rate: 64 kbps, burst: 1 kB}}\n" + REST,
                direction="in",
            ),
        ],
    ),
    Case(
        "tcp-burst",
        [
            one(
                "  a: {match: any, police: {rate: 2 Mbps, burst: 8 kB}}",
                rate=None,
                direction="in",
            ),
        ],
        [
            one("  a: {match: any, police: {rate: 2 Mbps, burst: 60 kB}}", rate=100_000_000),
            one("  a: {match: {protocol: udp}, police: {rate: 2 Mbps, burst: 8 kB}}\n" + REST),
            one("  a: {match: {dscp: ef}, police: {rate: 2 Mbps, burst: 8 kB}}\n" + REST),
            one("  a: {match: {dscp: [ef, cs5]}, police: {rate: 2 Mbps, burst: 8 kB}}\n" + REST),
            one("  a: {match: any, police: {rate: 2 Mbps, burst: 8 kB, exceed: {remark: cs1}}}"),
            one(
                "  a: {match: any, police: {rate: 2 Mbps, burst: 8 kB}}", interface="control-plane"
            ),
        ],
    ),
    Case(
        "policer-without-effect",
        [
            one("  a: {match: any, police: {rate: 10 Mbps, burst: 1 MB}}", direction="in"),
            one("  a: {match: {dscp: af21}, police: {rate: 100%, burst: 1 MB}}\n" + REST),
        ],
        [
            one("  a: {match: any, police: {rate: 9999 kbps, burst: 1 MB}}", direction="in"),
            one(
                "  a: {match: any, police: {rate: 10 Mbps, burst: 1 MB}}",
                direction="in",
                rate=None,
            ),
        ],
    ),
    Case(
        "policer-passes-all",
        [
            one("  a: {match: any, police: {rate: 1 Mbps, burst: 1 MB, exceed: send}}"),
            one(
                "  a: {match: any, police: {rate: 1 Mbps, burst: 1 MB, excess_burst: 1 MB, "
                "violate: send}}"
            ),
        ],
        [
            one("  a: {match: any, police: {rate: 1 Mbps, burst: 1 MB, exceed: {remark: be}}}"),
            one("  a: {match: any, police: {rate: 1 Mbps, burst: 1 MB, excess_burst: 1 MB}}"),
        ],
    ),
    Case(
        "shaper-without-effect",
        [
            one(REST, shape={"rate": "10001 kbps"}),
            one("  a: {match: {dscp: af21}, shape: {rate: 20 Mbps}}\n" + REST),
        ],
        [
            one(REST, shape={"rate": "10 Mbps"}),
            one(REST, shape={"rate": "20 Mbps"}, rate=None),
        ],
    ),
    Case(
        "shaper-burst",
        [
            one(REST, shape={"rate": "8 Mbps", "burst": "126 kB"}),
            one(VOICE + REST, shape={"rate": "8 Mbps", "burst": "31 kB"}),
        ],
        [
            one(REST, shape={"rate": "8 Mbps", "burst": "125 kB"}),
            one(VOICE + REST, shape={"rate": "8 Mbps", "burst": "30 kB"}),
        ],
    ),
    Case(
        "short-queue",
        [
            # 64 packets at 1 Gbps are 0.77 ms.
            one("  a: {match: any, queue: {limit: 64 packets}}", rate=10**9),
        ],
        [
            one("  a: {match: any, queue: {limit: 84 packets}}", rate=10**9),
            one(
                "  a: {match: {protocol: udp}, bandwidth: 90%, queue: {limit: 64 packets}}\n"
                "  rest: {match: any, queue: {limit: 100 packets}}",
                rate=10**9,
            ),
        ],
    ),
    Case(
        "long-queue",
        [one("  a: {match: any, queue: {limit: 900 packets}}")],
        [
            one("  a: {match: any, queue: {limit: 800 packets}}"),
            # A small share of a link that is fast enough to empty the queue.
            one("  a: {match: {dscp: cs1}, bandwidth: 1%, queue: {limit: 64 packets}}\n" + REST),
            one("  a: {match: any, queue: {limit: 9000 packets, fq-codel: {}}}"),
        ],
    ),
    Case(
        "wred-thresholds",
        [
            # The defaults go up to 40 packets.
            one("  a: {match: any, queue: {limit: 39 packets, wred: {}}}"),
            one(
                "  a: {match: {dscp: af21}, queue: {limit: 30 packets, wred: {profiles: "
                "[{dscp: af21, min: 30 packets, max: 31 packets}]}}}\n" + REST
            ),
            one(
                "  a: {match: any, queue: {limit: 100 packets, red: {min: 20 packets, "
                "max: 20 packets}}}"
            ),
            one("  a: {match: any, queue: {limit: 50 kB, wred: {}}}"),
        ],
        [
            one("  a: {match: any, queue: {limit: 40 packets, wred: {}}}"),
            one(
                "  a: {match: {dscp: af21}, queue: {limit: 31 packets, wred: {profiles: "
                "[{dscp: af21, min: 30 packets, max: 31 packets}, "
                "{dscp: af22, min: 50 packets, max: 60 packets}]}}}\n" + REST
            ),
            one("  a: {match: any, queue: {limit: 60 kB, wred: {}}}"),
        ],
    ),
    Case(
        "wred-code-point",
        [
            one(f"  a: {{match: {{dscp: af31}}, {WRED}}}\n" + REST),
            one(f"  a: {{match: {{dscp: af31}}, {WRED}}}\n".replace("af21", "[af31, af21]") + REST),
        ],
        [
            one(f"  a: {{match: {{dscp: [af31, af21]}}, {WRED}}}\n" + REST),
            one(f"  a: {{match: {{dscp: af22}}, {WRED}}}\n" + REST),
            # The policer makes the code point.
            one(
                "  a: {match: {dscp: af31}, police: {rate: 1 Mbps, burst: 99 kB, "
                f"exceed: {{remark: af21}}}}, {WRED}}}\n" + REST
            ),
            one(f"  a: {{match: any, {WRED}}}"),
            one(f"  a: {{match: {{dscp: af31}}, mark: af21, {WRED}}}\n" + REST),
        ],
    ),
    Case(
        "unknown-mark",
        [
            [
                At("  a: {match: {port: 80}, mark: af31}\n" + REST, direction="in", name="lan"),
                At("  a: {match: {dscp: af21}}\n" + REST),
            ],
            [
                At(
                    "  a: {match: any, police: {rate: 1 Mbps, burst: 99 kB, conform: "
                    "{remark: af31}, exceed: {remark: be}}}",
                    direction="in",
                    name="lan",
                ),
                At("  a: {match: {dscp: af21}}\n" + REST),
            ],
        ],
        [
            [
                At(
                    "  a: {match: any, police: {rate: 1 Mbps, burst: 99 kB, conform: "
                    "{remark: af31}, exceed: {remark: be}}}",
                    direction="in",
                    name="lan",
                ),
                At("  a: {match: {dscp: [af21, af31]}}\n" + REST),
            ],
            [
                At(
                    "  a: {match: {port: 80}, mark: af31}\n  b: {match: any, mark: be}",
                    direction="in",
                    name="lan",
                ),
                At("  a: {match: {dscp: af31}}\n" + REST),
            ],
            # A class for a code point and for other packets, too.
            [
                At("  a: {match: {port: 80}, mark: af31}\n" + REST, direction="in", name="lan"),
                At("  a: {match: [{dscp: af31}, {port: 443}]}\n" + REST),
            ],
            # Nothing here selects by DSCP: the marks are for routers elsewhere.
            [
                At(
                    "  a: {match: any, police: {rate: 1 Mbps, burst: 99 kB, conform: "
                    "{remark: af31}, exceed: {remark: be}}}",
                    direction="in",
                    name="lan",
                ),
                At("  a: {match: {protocol: tcp}}\n" + REST),
            ],
        ],
    ),
    Case(
        "outgoing-mark",
        [
            [
                At("  a: {match: {dscp: af21}, mark: af31}\n" + REST),
                At("  a: {match: {dscp: af21}}\n" + REST, interface="Gi0/2"),
            ],
        ],
        [
            # The next hop may be the other file: `unknown-mark`.
            [
                At("  a: {match: {dscp: af21}, mark: af31}\n" + REST),
                At("  a: {match: {dscp: af21}}\n" + REST, name="core"),
            ],
            [
                At("  a: {match: {dscp: af21}, mark: af31}\n" + REST),
                At("  a: {match: {dscp: [af21, af31]}}\n" + REST, interface="Gi0/2"),
            ],
        ],
    ),
    Case(
        "unset-code-point",
        [
            [
                At(
                    "  a: {match: any, police: {rate: 1 Mbps, burst: 99 kB, conform: "
                    "{remark: af31}, exceed: {remark: be}}}",
                    direction="in",
                    name="lan",
                ),
                At("  x: {match: {dscp: af21}}\n  y: {match: {dscp: af31}}\n" + REST),
            ]
        ],
        [
            [
                # What conforms keeps its code point.
                At(
                    "  a: {match: any, police: {rate: 1 Mbps, burst: 99 kB, exceed: {remark: be}}}",
                    direction="in",
                    name="lan",
                ),
                At("  x: {match: {dscp: af21}}\n  y: {match: {dscp: af31}}\n" + REST),
            ],
            [
                At(
                    "  a: {match: any, police: {rate: 1 Mbps, burst: 99 kB, conform: "
                    "{remark: af31}, exceed: {remark: be}}}",
                    direction="in",
                    name="lan",
                ),
                At("  x: {match: {dscp: cs6}}\n  y: {match: {dscp: af31}}\n" + REST),
            ],
        ],
    ),
    Case(
        "untrusted-dscp",
        [
            [At("  x: {match: {dscp: ef}}\n" + REST)],
            [
                At("  x: {match: {dscp: ef}}\n" + REST),
                At(
                    "  a: {match: {port: 5060}, mark: cs3}\n" + REST,
                    direction="in",
                    interface="Gi0/9",
                    name="lan",
                ),
            ],
            [
                At("  x: {match: {dscp: ef}}\n" + REST),
                At(
                    "  a: {match: any, police: {rate: 1 Mbps, burst: 99 kB, exceed: {remark: be}}}",
                    direction="in",
                    interface="Gi0/9",
                    name="lan",
                ),
            ],
        ],
        [
            [At("  x: {match: {protocol: udp}}\n" + REST)],
            [
                At("  x: {match: {dscp: ef}}\n" + REST),
                At(
                    "  a: {match: {port: 5060}, mark: cs3}\n  b: {match: any, mark: be}",
                    direction="in",
                    interface="Gi0/9",
                    name="lan",
                ),
            ],
            [
                At("  x: {match: {dscp: ef}}\n" + REST),
                At(
                    "  a: {match: any, police: {rate: 1 Mbps, burst: 99 kB, conform: "
                    "{remark: be}}}",
                    direction="in",
                    interface="GI0/9",
                    name="lan",
                ),
            ],
        ],
        settings=Settings(untrusted=("Gi0/9",)),
    ),
    Case(
        "one-way-class",
        [
            [
                At("  v: {match: {dscp: ef}}\n  d: {match: {dscp: af21}}\n" + REST),
                At("  v: {match: {dscp: ef}}\n" + REST, direction="in"),
            ]
        ],
        [
            [
                At("  v: {match: {dscp: ef}}\n  d: {match: {dscp: af21}}\n" + REST),
                At("  v: {match: {dscp: [ef, af21]}}\n" + REST, direction="in"),
            ],
            [
                At("  v: {match: {dscp: ef}}\n  d: {match: {dscp: af21}}\n" + REST),
                At("  v: {match: {port: 5060}}\n" + REST, direction="in"),
            ],
            [
                At("  v: {match: {dscp: ef}}\n  d: {match: {dscp: af21}}\n" + REST),
                At(
                    "  v: {match: {dscp: ef}}\n  d: {match: [{dscp: af21}, {port: 80}]}\n" + REST,
                    direction="in",
                ),
            ],
        ],
    ),
    Case(
        "unequal-policers",
        [
            [
                At("  a: {match: any, police: {rate: 1 Mbps, burst: 99 kB}}"),
                At("  a: {match: any, police: {rate: 2 Mbps, burst: 99 kB}}", direction="in"),
            ]
        ],
        [
            [
                At("  a: {match: any, police: {rate: 1 Mbps, burst: 99 kB}}"),
                At("  a: {match: any, police: {rate: 1 Mbps, burst: 98 kB}}", direction="in"),
            ],
            [
                At("  a: {match: any, police: {rate: 1 Mbps, burst: 99 kB}}"),
                At(
                    "  a: {match: any, police: {rate: 2 Mbps, burst: 99 kB}}",
                    direction="in",
                    interface="Gi0/2",
                ),
            ],
        ],
    ),
    Case(
        "unused-policy",
        [[At(REST), At(REST, interface="", rate=None, name="other")]],
        [[At(REST, interface="", rate=None), At(REST, interface="", rate=None, name="other")]],
    ),
    Case(
        "invalid-value",
        [
            one("  a: {match: {dscp: af21}, bandwidth: 0%}\n" + REST),
            one("  a: {match: {dscp: 77}}\n" + REST),
        ],
        [one("  a: {match: {dscp: af21}, bandwidth: 1%}\n" + REST)],
    ),
]
