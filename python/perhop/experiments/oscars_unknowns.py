"""The unknowns of hosts and path that all OSCARS experiments share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perhop.experiments.model import Unknown
from perhop.experiments.windows import granted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def path(policed: str) -> tuple[Unknown, ...]:
    """Return the unknowns of the path whose second link has the policy `policed`."""
    return (
        Unknown(
            "round-trip time",
            "the document: about 170 ms",
            0.165,
            0.175,
            "s",
            {"links.1.delay={:.6f} s": (0.5, -0.0001)},
        ),
        Unknown(
            "rate of the path",
            "not in the document; 150 Mb/s came through it, and hosts had 1 Gb/s",
            choices={
                "OC-3": ("links.1.rate=155 Mbps",),
                "OC-12": ("links.1.rate=622 Mbps",),
                "1 Gb/s": ("links.1.rate=1 Gbps",),
            },
        ),
        Unknown(
            "queue of the path",
            "not in the document; routers had from tens of packets to a second's worth",
            50,
            1000,
            "packets",
            {
                f"policies.{policed}.classes.{name}.queue={{{{limit: {{:.0f}} packets}}}}": 1.0
                for name in ("best_effort", "reserved")
            },
            log=True,
        ),
    )


def slow(flows: Iterable[str]) -> Unknown:
    """Return the unknowns that may limit a single stream to the 7.6 Mb/s of the document."""
    sender = tuple(f"flows.{flow}.tcp.send_window=161500 B" for flow in flows)
    return Unknown(
        "limit of one stream",
        "not in the document: windows were above 10 MB, and yet one stream got 7.6 Mb/s. A loss of "
        "0.013% would do it (Mathis et al., 1997), or a sender that has no more than 161500 B, "
        "which is 7.6 Mb/s in 170 ms, under way",
        choices={
            "loss of 0.01%": ("links.1.loss=0.01%",),
            "loss of 0.02%": ("links.1.loss=0.02%",),
            "the sender": ("links.1.loss=0%", *sender),
        },
    )


def hosts(flows: Mapping[str, float]) -> tuple[Unknown, ...]:
    """Return the unknowns of the hosts' TCP, and of the start of each flow in seconds."""
    return (
        Unknown(
            "selective acknowledgements",
            "not in the document; on by default, and turned off by some where windows were large",
            choices={"on": (), "off": tuple(f"flows.{f}.tcp.sack=false" for f in flows)},
        ),
        Unknown(
            "congestion control",
            "not in the document; Linux 2.4 has Reno, 2.6 of 2004 to 2006 BIC and then CUBIC",
            choices={
                "Reno": (),
                "CUBIC": tuple(f"flows.{f}.tcp.congestion_control=cubic" for f in flows),
            },
        ),
        Unknown(
            "delay of the programs' start",
            "a program takes a moment to connect, and does not start with the clock",
            0.0,
            0.1,
            "s",
            {f"flows.{flow}.start={{:.4f}} s": (1.0, start) for flow, start in flows.items()},
        ),
    )


def ping_unknowns() -> tuple[Unknown, ...]:
    """Return the unknowns of the pings' path, and of iperf's windows."""
    return (
        Unknown(
            "round-trip time",
            "not in the document; from California to New York and back light takes 40 ms in a "
            "straight fibre",
            0.06,
            0.1,
            "s",
            {"links.1.delay={:.6f} s": (0.5, -0.0001)},
        ),
        Unknown(
            "rate of the path",
            "not in the document",
            choices={
                "OC-3": ("links.1.rate=155 Mbps",),
                "OC-12": ("links.1.rate=622 Mbps",),
            },
        ),
        Unknown(
            "queue of the path",
            "not in the document; routers had from tens of packets to a second's worth",
            50,
            2000,
            "packets",
            {"policies.oscars.classes.best_effort.queue={{limit: {:.0f} packets}}": 1.0},
            log=True,
        ),
        Unknown(
            "scheduling of the reserved class",
            "not in the document",
            choices={
                "strictly first": (),
                "a share of 10 Mb/s": (
                    "policies.oscars.classes.reserved={match: {dscp: le}, bandwidth: 10 Mbps, "
                    "police: {rate: 10 Mbps, burst: 1 MB}}",
                ),
            },
        ),
        granted({"iperf": 262144}),
    )
