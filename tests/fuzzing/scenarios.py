"""Whole scenarios: drawn part by part, and mended until their parts agree.

A tree is drawn as a file would have it. What the checks of a scenario then complain of is taken out
of it, so that what is left is a scenario: no rule of `perhop.scenario.rules` is repeated here,
though much is drawn such that it has a good chance. Instants are parts of the scenario's length,
which is settled last, by what a run of it may cost.
"""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, get_args

from hypothesis import assume
from hypothesis import strategies as st

from fuzzing.cost import BUDGET, cost
from fuzzing.language import OMIT, WANTED, Writer
from fuzzing.values import NAMES, from_schema
from perhop.errors import ScenarioError
from perhop.scenario import METRICS, Scenario
from perhop.scenario.model.agents import Agent
from perhop.scenario.model.applications import (
    APPLICATIONS,
    TABLES,
    VIDEOS,
    Objects,
    Rpc,
    Transfers,
    Video,
    Web,
)
from perhop.scenario.model.background import Background
from perhop.scenario.model.cake import FRAMINGS, Cake
from perhop.scenario.model.cbq import Cbq
from perhop.scenario.model.changes import Change
from perhop.scenario.model.classes import Class, LinkShape, Police, Policy
from perhop.scenario.model.codecs import CODECS
from perhop.scenario.model.encapsulation import Mark
from perhop.scenario.model.expectations import VALUES, Expectation, Measured, Published
from perhop.scenario.model.game import Game
from perhop.scenario.model.hfsc import CURVES, HFSC, Curve
from perhop.scenario.model.lte import REQUEST_PERIODS, Lte
from perhop.scenario.model.matching import Match
from perhop.scenario.model.metrics import (
    CAUSE,
    CLASS,
    DATAGRAMS,
    ENTRY,
    KINDS,
    RADIO,
    SCORES,
    Metric,
)
from perhop.scenario.model.queues import DISCIPLINES, Codel, FqCodel, Queue, Red, Wred, WredProfile
from perhop.scenario.model.quic import Quic
from perhop.scenario.model.replay import Replay
from perhop.scenario.model.tcp import FEEDBACK, TIMED, Tcp
from perhop.scenario.model.topology import Link, Node
from perhop.scenario.model.traffic import Bursts, Flow, Ping, Udp
from perhop.scenario.model.tunnels import TUNNEL_TYPES, Tunnel
from perhop.scenario.model.voice import Voice
from perhop.scenario.model.wifi import Wifi
from perhop.scenario.reading.replay import read_packets
from perhop.scenario.resolve import walk
from perhop.scenario.resolve.steps import attachments
from perhop.units import RATE, SECOND, WHOLE, format_duration, format_rate, format_share

if TYPE_CHECKING:
    from perhop.errors import Problem

FILE: Final = str(Path(__file__).parent / "fuzz.yaml")
"""The file that scenarios pretend to come from, beside which the replays lie."""

_PARTS: Final = 64
"""Number of equal parts into which instants divide a scenario."""

_LENGTHS: Final = [10**n for n in range(8, 19)]  # 0.1 ms to 12 days
"""Greatest length of scenarios, in picoseconds, unless their cost is too high."""


@dataclass(frozen=True, slots=True)
class At:
    """An instant or a time, as a part of the scenario's length."""

    part: float

    def of(self, end: int) -> str:
        return format_duration(max(1, round(end * self.part)))


@dataclass(frozen=True, slots=True)
class Between:
    """A stretch of time between two instants."""

    start: float
    stop: float

    def of(self, end: int) -> str:
        first, last = (format_duration(round(end * part)) for part in (self.start, self.stop))
        return f"{first}..{last}"


def settled(tree: Any, end: int) -> Any:
    """`tree` with its instants, in a scenario of length `end`."""
    if isinstance(tree, dict):
        return {key: settled(value, end) for key, value in tree.items()}
    if isinstance(tree, list):
        return [settled(value, end) for value in tree]
    return tree.of(end) if isinstance(tree, (At, Between)) else tree


SHAPED: Final = {"pareto": "shape", "lognormal": "sigma"}
"""Distributions of sizes that need a key of their own, and the key."""

EXCLUDED = ("priority", "limit", "shape", "borrow", "policy")
"""The keys of a class that exclude service curves."""


class Author(Writer):
    """Draws scenarios."""

    def __init__(self, draw: Any) -> None:
        super().__init__(draw)
        self.nodes: dict[str, str] = {}
        self.pairs: list[tuple[str, str]] = []
        self.policies: list[str] = []
        self.share = 100.0
        """Return the guarantee of a class, in per cent, so that their sum is not too much."""
        self.depth = 0
        end = partial(self.pick_of, "ends")
        for model, name, hook in (
            (Node, "address", self.address),
            (Node, "address_v6", lambda: f"2001:db8::{self.whole(1, 9)}"),
            (Link, "name", lambda: self.pick(["one", "south", "x"])),
            (Link, "egress", lambda: {end(): self.pick(self.policies or ["p"])}),
            (Link, "shape", lambda: {end(): self.model(LinkShape)}),
            (Link, "trace", lambda: {end(): self.trace()}),
            (
                Link,
                "remark",
                lambda: {end(): self.field(Node, "remark", Node.model_fields["remark"])},
            ),
            (
                Link,
                "encapsulation",
                lambda: self.pick(["dot1q", "mpls", {"dot1q": 2}, {"mpls": 3}]),
            ),
            (Link, "channel", lambda: OMIT),
            (Lte, "bler", lambda: self.pick(["0%", "10%", "50%"])),
            (Lte, "combining", lambda: self.pick(["0%", "20%", "100%"])),
            (Lte, "grant", lambda: self.pick(["0 s", "8 ms", "20 ms"])),
            (Lte, "reordering", lambda: self.pick(["0 s", "35 ms"])),
            (Lte, "request_period", lambda: format_duration(self.pick([*REQUEST_PERIODS]))),
            (Wifi, "cw_min", lambda: self.pick([0, 1, 31])),
            (Wifi, "cw_max", lambda: self.pick([31, 1023])),
            (Mark, "dscp", lambda: self.pick(["be", "af21", "ef", 7])),
            (Match, "source", self.match_ends),
            (Match, "destination", self.match_ends),
            (Police, "rate", self.guarantee),
            (Class, "bandwidth", self.guarantee),
            (Class, "policy", self.later_policy),
            (Class, "queue", self.queue),
            (Class, "classes", self.inner_classes),
            (Class, "unused", lambda: self.pick([True, True, True, False])),
            (Policy, "classes", lambda: self.classes(4)),
            (Policy, "unused", lambda: self.pick([True, True, True, False])),
            (Cake, "overhead", lambda: self.pick([*FRAMINGS, "4 B", "34 B ptm mpu 68 B"])),
            (Cbq, "rate", lambda: self.pick(["1 kbps", "100 kbps", "10 Mbps"])),
            (Flow, "source", self.host),
            (Flow, "destination", self.host),
            (Ping, "source", self.host),
            (Ping, "destination", lambda: self.pick([*self.nodes])),
            (Flow, "start", self.start),
            (Flow, "stop", lambda: At(self.whole(_PARTS // 2, _PARTS) / _PARTS)),
            (Background, "start", lambda: At(self.whole(0, _PARTS // 2) / _PARTS)),
            (Background, "stop", lambda: At(self.whole(_PARTS // 2, _PARTS) / _PARTS)),
            (Background, "sources", lambda: self.pick([1, 2, 7, 30])),
            (Background, "burst", lambda: self.pick(["1 ms", "50 ms", "1 s"])),
            (Flow, "source_port", lambda: self.pick([53, 1024, 49152, 65506])),
            (Flow, "streams", lambda: self.pick([1, 2, 3, 7, 30])),
            (Ping, "start", lambda: At(self.whole(0, _PARTS // 2) / _PARTS)),
            (Ping, "stop", lambda: At(self.whole(_PARTS // 2, _PARTS) / _PARTS)),
            (Ping, "every", lambda: At(1 / self.whole(1, 40))),
            (Ping, "train", lambda: self.pick([1, 2, 5, 50])),
            (Replay, "file", lambda: OMIT),
            (Change, "at", lambda: At(self.whole(0, _PARTS) / _PARTS)),
            (Measured, "during", self.during),
        ):
            self.hooks[model, name] = hook
        self.finish = {
            Policy: self.scheduler,
            Curve: self.curve,
            Bursts: lambda b: "shape" in b and b.update(lengths="pareto"),
            Node: lambda n: "icmp_burst" in n and n.setdefault("icmp_interval", "1 ms"),
            Police: lambda p: "peak_rate" in p and p.setdefault("peak_burst", "10 kB"),
            Ping: lambda p: "port" in p and p.update(protocol="udp"),
            Expectation: lambda e: "about" in e and e.setdefault("within", "5%"),
            Queue: self.one_discipline,
            Red: self.thresholds,
            Codel: self.delays,
            FqCodel: self.delays,
            Wred: self.profiles,
            WredProfile: self.thresholds,
            Tcp: self.control,
            Tunnel: self.one_tunnel,
            # No packet has a tag and labels, and no cells have either.
            Match: lambda m: "pcp" in m and m.pop("mpls_tc", None),
            Link: lambda one: "atm" in str(one.get("overhead")) and one.pop("encapsulation", None),
        }

    def pick_of(self, what: str) -> Any:
        return self.pick(getattr(self, what))

    def host(self) -> str:
        return self.pick([name for name, kind in self.nodes.items() if kind == "host"])

    def names(self, count: int) -> list[str]:
        """Different names, the plain ones mostly."""
        first = self.whole(0, len(NAMES) - 1) if self.chance(30) else 0
        return [NAMES[(first + number) % len(NAMES)] for number in range(count)]

    def address(self) -> str:
        return f"{self.pick(['192.0.2', '10.0.0', '100.64.1'])}.{self.whole(1, 254)}"

    def match_ends(self) -> Any:
        ends = [*self.nodes, "10.0.0.0/30", "192.0.2.0/24", "0.0.0.0/0", "2001:db8::/32", "::/0"]
        found = self.some(ends, 2) or ends[:1]
        return found[0] if len(found) == 1 else found

    def guarantee(self) -> str:
        if self.chance(15):
            return str(self.draw(from_schema({"pattern": RATE.pattern})))
        return format_share(max(1, round(self.share * self.whole(1, 64) / 64 * WHOLE / 100)))

    def later_policy(self) -> Any:
        return self.pick(self.policies) if self.policies else OMIT

    def inner_classes(self) -> Any:
        return self.classes(3) if self.depth < 3 else OMIT

    def classes(self, most: int) -> dict[str, Any]:
        """Classes by name, the last of which takes any packet."""
        names = self.names(self.whole(1, most))
        outer, self.share = self.share, 100 / len(names)
        self.depth += 1
        found = {}
        for name in names:
            found[name] = self.model(Class)
            if name == names[-1]:
                found[name]["match"] = "any"
        self.depth -= 1
        self.share = outer
        return found

    def during(self) -> Between:
        start = self.whole(0, _PARTS - 1)
        return Between(start / _PARTS, self.whole(start + 1, _PARTS) / _PARTS)

    def queue(self) -> dict[str, Any]:
        """A queue, with a discipline mostly."""
        name = self.pick([*DISCIPLINES, ""])
        if not name:
            return self.model(Queue, but=[*DISCIPLINES.values()])
        field = Queue.model_fields[DISCIPLINES[name]]
        return {
            name: self.value(field.annotation),
            **self.model(Queue, but=[*DISCIPLINES.values()]),
        }

    def one_discipline(self, queue: dict[str, Any]) -> None:
        """Keep one of the disciplines that were drawn."""
        drawn = [name for name in DISCIPLINES if name in queue]
        for name in drawn[1:] and {*drawn} - {self.pick(drawn)}:
            del queue[name]

    def scheduler(self, policy: dict[str, Any]) -> None:
        """Keep the keys of classes that go with the scheduler, mostly."""
        if not WANTED.isdisjoint(f"Class.{key}" for key in CURVES) and self.chance(50):
            policy.pop("cbq", None)
            policy["scheduler"] = HFSC
        if "cbq" in policy:
            policy["scheduler"] = "altq-cbq"
        if policy.get("scheduler") in ("altq-cbq", "htb"):
            policy.pop("overhead", None)
        if self.chance(90):
            self.curves(policy["classes"], policy.get("scheduler") == HFSC)
            quanta = policy.get("scheduler") == "drr" and self.chance(50)
            self.quanta(policy["classes"], quanta)

    def curves(self, classes: dict[str, Any], given: bool) -> None:
        for each in classes.values():
            for key in EXCLUDED if given else CURVES:
                each.pop(key, None)
            if "linkshare" in each:
                each.pop("bandwidth", None)
            if "classes" in each:
                for key in ("realtime", "police") if given else ():
                    each.pop(key, None)
                self.curves(each["classes"], given)

    def quanta(self, classes: dict[str, Any], given: bool) -> None:
        """Give quanta to all classes that are not strict, or to none."""
        for each in classes.values():
            each.pop("quantum", None)
            if given and each.get("priority") != "strict":
                each.pop("bandwidth", None)
                each["quantum"] = f"{self.whole(64, 9000)} B"
            self.quanta(each.get("classes", {}), given)

    def curve(self, curve: dict[str, Any]) -> None:
        """One of the forms of a service curve, of little rates mostly."""
        rate = f"{self.whole(1, 900)} kbps"
        form: dict[str, Any] = self.pick(
            [
                {"rate": rate},
                {"m1": f"{self.whole(1, 2000)} kbps", "d": f"{self.whole(1, 50)} ms", "m2": rate},
                {"d": f"{self.whole(1, 50)} ms", "m2": rate},
                {"umax": "1500 B", "dmax": f"{self.whole(1, 90)} ms", "rate": rate},
            ]
        )
        curve.clear()
        curve |= form

    def thresholds(self, red: dict[str, Any]) -> None:
        """Mostly put the upper threshold above the lower one."""
        if "min" in red and self.chance(80):
            low = self.whole(1, 500)
            red |= {"min": f"{low} packets", "max": f"{low + self.whole(1, 500)} packets"}

    def delays(self, codel: dict[str, Any]) -> None:
        """Mostly put the target below the interval."""
        if "interval" in codel and self.chance(80):
            interval = self.whole(2, 500)
            codel |= {"interval": f"{interval} ms", "target": f"{self.whole(1, interval - 1)} ms"}

    def profiles(self, wred: dict[str, Any]) -> None:
        """Mostly give some code points thresholds of their own."""
        if self.chance(60):
            wred["profiles"] = [self.model(WredProfile) for _ in range(self.whole(1, 2))]

    def control(self, tcp: dict[str, Any]) -> None:
        """Mostly leave out what a congestion control does not go with."""
        if tcp.get("congestion_control") in TIMED | FEEDBACK.keys() and self.chance(70):
            for key in ("ecn", "sack", "pacing"):
                tcp.pop(key, None)

    # Sections

    def network(self) -> dict[str, Any]:
        """Routers in a tree, hosts at them or side by side, and links beside those."""
        routers, hosts = self.whole(0, 3), self.whole(2, 4)
        names = self.names(routers + hosts)
        kinds = ["router"] * routers + ["host"] * hosts
        self.nodes = dict(zip(names, kinds, strict=True))
        pairs = [(names[self.whole(0, n - 1)], names[n]) for n in range(1, routers)]
        inner = names[: routers or 1]
        pairs += [(self.pick(inner), name) for name in names[len(inner) :]]
        for _ in range(self.whole(0, 2)):
            pair = (self.pick(names), self.pick(names))
            pairs += [pair] if pair[0] != pair[1] else []
        self.pairs = pairs
        count = self.whole(0, 3)
        own = self.names(count)
        policies: dict[str, Any] = {}
        for name in reversed(own):
            policies[name] = self.model(Policy)
            self.policies.append(name)
        links = [self.link(*pair) for pair in pairs]
        return {
            "nodes": {name: self.node(kind) for name, kind in self.nodes.items()},
            "links": links,
            **self.channels(links),
            **({"policies": policies} if policies else {}),
            **self.tunnels(list(self.nodes)),
        }

    def tunnels(self, nodes: list[str]) -> dict[str, Any]:
        """Tunnels between different pairs of nodes."""
        pairs = [(one, other) for one in nodes for other in nodes if one < other]
        if not pairs or self.chance(30):
            return {}
        found = {}
        for name, pair in zip(self.names(len(pairs)), self.some(pairs, 2), strict=False):
            found[name] = {"ends": list(pair), **self.model(Tunnel, but=["ends"])}
        return {"tunnels": found} if found else {}

    def one_tunnel(self, tunnel: dict[str, Any]) -> None:
        """One kind of encapsulation, and copied DSCPs in the uniform model."""
        if "overhead" not in tunnel:
            tunnel.setdefault("type", self.pick([*TUNNEL_TYPES]))
        else:
            tunnel.pop("type", None)
        if tunnel.get("model") == "uniform":
            tunnel["dscp"] = "copy"

    def channels(self, links: list[dict[str, Any]]) -> dict[str, Any]:
        """At times a channel of the links at a node."""
        if not self.chance(25):
            return {}
        point = self.pick(links[0]["ends"])
        lte = self.chance(50)
        channel = {"wifi": self.model(Wifi)}
        if lte:
            # Rates are of any size: those of the smallest cell are the most often high enough.
            small = {"base_station": point, "bandwidth": "1.4 MHz"}
            channel = {"lte": {**self.model(Lte, but=["base_station", "bandwidth"]), **small}}
        for link in links:
            if (point in link["ends"] and self.chance(80)) or link is links[0]:
                for key in ("trace", "jitter", "reorder", "duplicate"):
                    link.pop(key, None)
                if lte:
                    link["rate"] = self.pick(["48 kbps", "1 Mbps", "30 Mbps", "150 Mbps"])
                    if self.chance(30):
                        steps = "0 s 1 Mbps; 7 ms 0 bps; 31200 us 20 Mbps"
                        link["trace"] = self.pick([{"opportunities": "3 5x2"}, {"steps": steps}])
                    link.pop("loss", None)
                    if self.chance(40):
                        link["loss"] = self.pick(["1%", "30%"])
                link["channel"] = "air"
        return {"channels": {"air": channel}}

    def node(self, kind: str) -> Any:
        found = self.model(Node, but=["kind"], most=3)
        return {"kind": kind, **found} if found else kind

    def link(self, *ends: str) -> dict[str, Any]:
        self.ends = [*ends] if self.chance(50) else [*reversed(ends)]
        found = {"ends": [*ends], **self.model(Link, but=["ends"])}
        if self.chance(25):
            found["queue"] = self.queue()
        if self.policies and self.chance(60):
            found["egress"] = {
                end: self.pick(self.policies) for end in self.some(self.ends, 2) or self.ends[:1]
            }
        return found

    def trace(self) -> dict[str, Any]:
        """Rates of a direction of a link, some with delays, or opportunities."""
        if self.chance(40):
            return {"opportunities": self.pick(["1", "3 5x2", "0x4 20 1x3", "100"])}
        every = self.pick(["delay 1 ms jitter 0 s loss 0%", "delay 20 ms jitter 3 ms loss 1%", ""])
        times = ["0 s", "7 ms", "100 ms", "2 s"][: self.whole(1, 4)]
        rates = [self.pick(["2 Mbps", "100 kbps", "0 bps", "30 Mbps"]) for _ in times]
        steps = [" ".join([*step, every]) for step in zip(times, rates, strict=True)]
        found: dict[str, Any] = {"steps": "; ".join(steps)}
        return {**found, "repeat": True} if self.chance(50) else found

    def start(self) -> Any:
        """The start of a flow in the first half; at times several starts, or a random one."""

        def instant(parts: int) -> At:
            return At(self.whole(0, parts) / _PARTS)

        if self.chance(80):
            return instant(_PARTS // 2)
        starts = [instant(_PARTS // 4) for _ in range(self.whole(1, 2))]
        late = At(self.whole(1, _PARTS // 4) / _PARTS)
        return {"at": starts, **({"jitter": late} if self.chance(60) else {})}

    def quic(self) -> dict[str, Any]:
        """Settings of QUIC, without those that its congestion control does not permit."""
        found: dict[str, Any] = self.model(Quic, most=6)
        if found.get("congestion_control") in TIMED:
            found.pop("ecn", None)
            found.pop("pacing", None)
        return found

    def flow(self) -> dict[str, Any]:
        found: dict[str, Any] = self.model(Flow, but=[*KINDS, *APPLICATIONS], most=4)
        kind = self.whole(0, 12)
        if kind <= 5:
            found["tcp"] = self.model(Tcp, most=10)
            if self.chance(60):
                controls = get_args(Tcp.model_fields["congestion_control"].annotation)
                found["tcp"]["congestion_control"] = self.pick(controls)
        elif kind <= 8:
            found["udp"] = self.datagrams()
        elif kind == 10:
            found["voice"] = self.voice()
            found.pop("volume", None)
        elif kind == 12:
            found["quic"] = self.quic()
        elif kind == 11:
            found["game"] = self.pick(get_args(Game))
        if found.keys().isdisjoint(DATAGRAMS) and self.chance(35):
            found = {key: found[key] for key in found if key not in ("volume", "source_port")}
            found |= self.application()
            if "quic" in found:
                found["quic"].pop("streams", None)
                if isinstance(found.get("web"), dict):
                    found["web"].pop("connections", None)
        return found

    def voice(self) -> dict[str, Any]:
        """Calls whose codec has their packets and their rate."""
        codec = CODECS[self.pick([*CODECS])]
        found = {"codec": codec.name, **self.model(Voice, but=["codec", "ptime", "rate"])}
        if self.chance(50):
            found["ptime"] = format_duration(self.pick(codec.frames))
        if codec.rates and self.chance(70):
            found["rate"] = format_rate(self.whole(*codec.rates))
        return found

    def application(self) -> dict[str, Any]:
        key = self.pick([*APPLICATIONS])
        if key == "video":
            return {key: self.pick([*VIDEOS]) if self.chance(50) else self.model(Video, most=4)}
        if key == "web":
            web: dict[str, Any] = self.model(Web, but=["objects"])
            if self.chance(50):
                first, second = ({**self.model(Objects, but=["after"])} for _ in range(2))
                web = {**web, "objects": {"html": first, "parts": {**second, "after": "html"}}}
            return {key: "desktop" if self.chance(20) else web}
        pace = self.pick([{"every": "50 ms"}, {"load": "30%"}, {"think": "10 ms"}])
        rest = ["every", "load", "think"]
        if key == "rpc":
            return {key: {**self.model(Rpc, but=rest), **pace}}
        wanted = [name for name, key in SHAPED.items() if f"Transfers.{key}" in WANTED]
        drawn = self.pick(wanted or ["equal", "exponential", *SHAPED, *TABLES])
        form = {"sizes": drawn} if drawn in TABLES else {"sizes": drawn, "size": "20 kB"}
        form |= {"pareto": {"shape": 1.5}, "lognormal": {"sigma": 2}}.get(drawn, {})
        rest += ["size", "sizes", "shape", "sigma"]
        return {key: {**self.model(Transfers, but=rest), **pace, **form}}

    def datagrams(self) -> dict[str, Any]:
        if self.chance(40):
            replay: Any = self.model(Replay)
            if self.chance(50):
                replay["repeat"] = bool(self.whole(0, 1))
            if self.chance(60):
                replay = {**replay, "file": self.pick(["gaps.csv", "times.csv"])}
                del replay["packets"]
            return {**self.model(Udp, but=["replay", *_DRAWN]), "replay": replay}
        rate = self.value(Udp.model_fields["rate"].annotation)
        found = {"rate": rate, **self.model(Udp, but=["replay", "rate", "bursts"])}
        if self.chance(70):
            # Most are too short for a datagram, and would be taken out.
            long = {"on": self.pick(["1 s", "100 ms", "10 ms"])} if self.chance(80) else {}
            found["bursts"] = {**self.model(Bursts), **long}
        return found

    def traffic(self) -> dict[str, Any]:
        flows, pings = self.pick([1, 2, 3, 4, 0]), self.pick([0, 1, 2])
        flows = flows or not pings
        names = self.names(flows + pings)
        found: dict[str, Any] = {
            "flows": {name: self.flow() for name in names[:flows]},
            "pings": {name: self.model(Ping, most=6) for name in names[flows:]},
        }
        if self.chance(20):
            found["agents"] = self.agents(found)
        if self.chance(15):
            one, other = self.pick(self.pairs)
            own = {"link": f"{one}>{other}", **self.model(Background, but=["link", "load"])}
            found["background"] = {"load": f"{self.whole(1, 90)}%", **own}
        return {section: value for section, value in found.items() if value}

    def agents(self, traffic: dict[str, Any]) -> dict[str, Any]:
        """An agent for every end of the traffic, or an address where nothing but pings goes."""
        flows, pings = traffic["flows"].values(), traffic["pings"].values()
        sending = {*(flow["from"] for flow in flows), *(ping["from"] for ping in pings)}
        opened = {flow["to"] for flow in flows} | {ping["to"] for ping in pings}
        sending |= {flow["to"] for flow in flows}
        found: dict[str, Any] = {}
        for name in sorted(sending | opened):
            if name in sending:
                agent = self.model(Agent, but=["address", "key", "nat", "ping", "iperf3"])
                if self.chance(40):
                    agent["iperf3"] = self.field(Agent, "iperf3", Agent.model_fields["iperf3"])
                key = b64encode(len(found).to_bytes(32)).decode()
                found[name] = {
                    "address": f"192.0.2.{len(found)}:4861",
                    "key": f"perhop-ed25519 {key}",
                    "nat": name not in opened and self.chance(30),
                    **agent,
                }
            else:
                found[name] = {"ping": "2001:db8::1"}
        return found

    def change(self, scenario: Scenario) -> dict[str, Any]:
        """A change of what `scenario` has."""
        found: dict[str, Any] = self.model(Change, but=["on", "policy", "class_", "police"])
        directions = list(scenario.directions)
        if set(found) - {"at", "clear"} or self.chance(80):
            found["on"] = self.pick(directions)
        kind = self.whole(0, 3)
        if kind == 1:
            found["policy"] = self.pick([*scenario.policies, "none"])
        if kind >= 2:
            policed = [
                (name, placed.path)
                for name, (link, node) in scenario.directions.items()
                if node in link.egress
                for placed in walk(
                    scenario, scenario.policies[link.egress[node]], link.capacity(node)
                )
                if placed.class_.police is not None
            ]
            if policed:
                found["on"], found["class"] = self.pick(policed)
                found["police"] = self.model(
                    Change.model_fields["police"].annotation.__args__[0]  # type: ignore[union-attr]
                )
        return found

    def measured(self, model: type[Measured], scenario: Scenario) -> dict[str, Any]:
        """An expectation, or a published figure, about an object of `scenario`."""
        candidates = {
            "flow": list(scenario.flows),
            "ping": list(scenario.pings),
            "link": list(scenario.directions),
            "channel": list(scenario.channels),
            "tunnel": list(scenario.tunnels),
            "total": ["total"],
        }
        targets = {
            name: [
                each
                for kind in metric.targets
                for each in candidates[kind]
                if kind != "flow" or _has(scenario.flows[each], metric)
                if metric.name not in RADIO or scenario.directions[each][0].channel is not None
            ]
            for name, metric in METRICS.items()
            if CLASS not in metric.needs and (metric.name != "ratio" or scenario.flows)
        }
        names = [name for name, some in targets.items() if some]
        wanted = [key for key in ("of", CAUSE, ENTRY) if f"{model.__name__}.{key}" in WANTED]
        taking = [name for name in names if {*wanted} & {*METRICS[name].takes}]
        metric = METRICS[self.pick(taking if taking and self.chance(50) else names)]
        number = self.whole(metric.several[0], min(metric.several[1], 3))
        of = [self.pick(targets[metric.name]) for _ in range(number)]
        found: dict[str, Any] = {metric.name: of if number > 1 else of[0]}
        if "of" in metric.takes and self.chance(50):
            found["of"] = "loss"
        classes = [
            placed.path
            for _, link, policy, capacity in attachments(scenario)
            if link == of[0]
            for placed in walk(scenario, scenario.policies[policy], capacity)
        ]
        if CLASS in metric.takes and classes:
            found["class"] = self.pick(classes)
        if CAUSE in metric.takes and self.chance(50):
            found[CAUSE] = self.pick(["full queue", "policer", "early drop"])
        if ENTRY in metric.takes and self.chance(50):
            found[ENTRY] = self.pick(list(scenario.tunnels[of[0]].ends))
        written = self.model(model, but=[*METRICS, *VALUES, "of", CLASS, CAUSE, ENTRY])
        values = [key for key in VALUES if key in model.model_fields]
        chosen = ["value", *self.some(["precision"], 1)]
        if model is Expectation:
            chosen = [self.pick(values)]
        drawn = {key: self.draw(from_schema(metric.schema)) for key in chosen}
        return {**found, **written, **drawn}


def _has(flow: Flow, metric: Metric) -> bool:
    """Return whether a flow has a metric."""
    if metric.name in SCORES and flow.voice is not None and flow.voice.impairment is None:
        return False
    return flow.kind in metric.kinds and (metric.name != "completion" or flow.volume is not None)


_DRAWN: Final = ("rate", "size", "pattern", "sizes", "bursts")


def mended(tree: dict[str, Any], end: int) -> tuple[dict[str, Any], Scenario] | None:
    """`tree` without what keeps it from being a scenario; None if nothing is left."""
    for _ in range(24):
        try:
            scenario = Scenario.model_validate(
                settled(tree, end), context=_Beside(), by_alias=True, by_name=False
            )
        except ScenarioError as error:
            problems = sorted(error.found, key=lambda p: _loc(p), reverse=True)
            if not all(_mend(tree, problem) for problem in problems):
                return None
        else:
            return tree, scenario
    return None


class _Beside:
    """A file that lies beside the replays."""

    file = FILE
    broken = False

    def packets(self, name: str) -> tuple[tuple[int, int], ...]:
        return read_packets(name, Path(FILE).parent)

    def place(self, loc: Any, *, at_key: bool) -> tuple[str, int, int]:
        del loc, at_key
        return "", 0, 0


def _loc(problem: Problem) -> list[tuple[int, str]]:
    """The place of a problem, in an order in which later elements of a list come later."""
    return [(int(step) if step.isdecimal() else -1, step) for step in problem.path.split(".")]


def _mend(tree: Any, problem: Problem) -> bool:
    """Take out what `problem` is about, as far as it is there; False if that is all."""
    steps = problem.path.split(".")
    parent, last, part = None, None, tree
    for step in steps:
        key: Any = int(step) if isinstance(part, list) else step
        if not isinstance(part, (dict, list)) or (
            key not in part if isinstance(part, dict) else key >= len(part)
        ):
            break
        parent, last, part = part, key, part[key]
    else:
        if "`unused: true`" in problem.message:
            part["unused"] = True
            return True
    if parent is None or (parent is tree and last in ("nodes", "perhop", "name")):
        return False
    del parent[last]
    return True


@st.composite
def trees(draw: Any) -> tuple[dict[str, Any], Scenario]:
    """A tree as a file has it, and the scenario that it is."""
    author = Author(draw)
    head = {
        key: author.field(Scenario, key, Scenario.model_fields[key])
        for key in author.some(["title", "source", "description", "ip", "seeds"], 2)
    }
    tree: dict[str, Any] = {
        "perhop": 1,
        "name": author.pick(NAMES[:12]),
        **head,
        **author.network(),
        **author.traffic(),
    }
    if author.chance(50):
        tree["report"] = {"interval": At(1 / author.whole(1, 30))}
    if author.chance(80):
        tree["duration"] = At(1.0)
    found = mended(tree, SECOND)
    assume(found is not None)
    assert found is not None
    tree, scenario = found
    assume(scenario.flows or scenario.pings)
    if scenario.directions:
        changes = [author.change(scenario) for _ in range(author.whole(0, 3))]
        tree |= {"changes": changes} if changes else {}
    for key, model in (("expect", Expectation), ("published", Published)):
        items = [author.measured(model, scenario) for _ in range(author.whole(0, 3))]
        tree |= {key: items} if items else {}
    end = author.pick(_LENGTHS[::-1])
    while end > 10**6 and cost(scenario, end / SECOND) > BUDGET:
        end = end * 2 // 3
    for _ in range(4):
        found = mended(tree, end)
        assume(found is not None)
        assert found is not None
        tree, scenario = found
        assume(scenario.flows or scenario.pings)
        if cost(scenario) <= BUDGET:
            return settled(tree, end), scenario
        end = max(end // 10, 10**6)
    assume(False)
    raise AssertionError


scenarios: Final = trees().map(lambda found: found[1])
"""Valid scenarios."""
