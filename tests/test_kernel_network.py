"""Linux's own network: what its queues, rules and routes do to packets between real hosts.

Traffic is datagrams that a few lines of Python send, so that what should come of it is arithmetic.
The bounds leave room for a machine that does something else as well.
"""

import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from conftest import MEASURES, REAL_HOSTS
from perhop.engines.kernel.counts import Recorder
from perhop.engines.kernel.network import Network
from perhop.errors import UnsupportedError
from perhop.linux import probe
from perhop.scenario import Scenario, parse
from tools import need, unable

pytestmark = REAL_HOSTS

SEND = """
import json, socket, sys, time
job = json.load(sys.stdin)
end = time.monotonic() + job["seconds"]
senders = []
for flow in job["flows"]:
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, flow["dscp"] << 2)
    s.setblocking(False)
    senders.append([time.monotonic(), s, flow, bytes(flow["size"] - 28)])
while time.monotonic() < end:
    for sender in senders:
        due, s, flow, data = sender
        if time.monotonic() >= due:
            sender[0] += 8 * flow["size"] / flow["bps"]
            try:
                s.sendto(data, (job["to"], flow["port"]))
            except BlockingIOError:
                pass
    time.sleep(0.0002)
"""

NETWORK = """
perhop: 1
name: real
nodes: {{a: host, r: {r}, s: {s}, b: host}}
links:
  - {{ends: [a, r], rate: 1 Gbps}}
  - {{ends: [r, s], rate: 8 Mbps, {link}}}
  {more}
  - {{ends: [s, b], rate: 1 Gbps}}
{policies}
flows:
  one: {{from: a, to: b, dscp: ef, stop: 10 s}}
  two: {{from: a, to: b, dscp: cs1, udp: {{rate: 1 Mbps}}, stop: 10 s}}
{changes}
"""

THREE = """
policies:
  p:
    classes:
      low: {match: {dscp: cs1}, bandwidth: 5%}
      high: {match: {dscp: ef}, bandwidth: 70%}
      rest: {match: any, bandwidth: 25%}
"""

EF, CS1, LE, BE = 46, 8, 1, 0


def scenario(
    policies: str = "",
    link: str = "",
    *,
    r: str = "router",
    s: str = "router",
    more: str = "",
    changes: str = "",
) -> Scenario:
    parts = [part for part in (link, "egress: {r: p}" if policies else "") if part]
    text = NETWORK.format(
        r=r,
        s=s,
        link=", ".join(parts) or "delay: 0 s",
        more=more,
        policies=policies,
        changes=changes,
    )
    return parse(text, "real.yaml")


class Lab:
    """A network, its hosts by name, and what it has counted since the last reading."""

    def __init__(self, whole: Scenario) -> None:
        try:
            self.network = Network(whole, 1)
        except UnsupportedError as error:
            if "namespaces" in str(error) or "needs" in str(error):
                unable(error)
            raise
        self.scenario = whole
        self.recorder = Recorder(whole, self.network)
        self.rates = {name: link.rate for name, (link, _) in whole.directions.items()}
        self.began = time.monotonic()
        self.recorder.read(0.0, self.rates)

    def run(self, node: str, *command: str, stdin: str = "") -> tuple[int, str]:
        host = list(self.scenario.nodes).index(node)
        code, out, err = self.network.namespaces.run(host, list(command), stdin.encode())
        return code, out.decode() + err.decode()

    def send(self, *flows: tuple[int, float], seconds: float = 1.5, size: int = 1000) -> None:
        """Send from a to b at so many Mb/s of IP packets with each code point."""
        job = {
            "to": str(self.scenario.address_of("b")),
            "seconds": seconds,
            "flows": [
                {"dscp": dscp, "bps": mbps * 1e6, "size": size, "port": 9000 + number}
                for number, (dscp, mbps) in enumerate(flows)
            ],
        }
        code, out = self.run("a", sys.executable, "-c", SEND, stdin=json.dumps(job))
        assert code == 0, out

    def read(self) -> tuple[dict[tuple[str, str], dict[str, Any]], dict[str, dict[str, Any]]]:
        """Return the counters of classes and links since the last reading."""
        now = time.monotonic() - self.began
        before = self.recorder.tables()
        self.recorder.read(now, self.rates)
        after = self.recorder.tables()
        queues, links = (after[name][len(before[name]) :] for name in ("queues", "links"))
        return (
            {(row["link"], row["class"]): row for row in queues.iter_rows(named=True)},
            {row["link"]: row for row in links.iter_rows(named=True)},
        )


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    need("ip", "tc", "nft", "ping")

    def here() -> str:
        return subprocess.run(["ip", "-o", "link"], capture_output=True, text=True).stdout

    before, threads = here(), threading.active_count()
    yield
    assert here() == before
    assert threading.active_count() == threads


def rtt(lab: Lab, to: str = "b", *options: str) -> list[float]:
    """Round-trip times in seconds."""
    address = str(lab.scenario.address_of(to))
    _, out = lab.run("a", "ping", "-n", "-c", "20", "-i", "0.02", *options, address)
    return [float(number) / 1000 for number in re.findall(r"time=([\d.]+)", out)]


@MEASURES
@pytest.mark.parametrize("delay", ["0 s", "5 ms"])
def test_packets_take_as_long_as_their_way(delay: str) -> None:
    lab = Lab(scenario(link=f"delay: {delay}"))
    times = rtt(lab)
    assert len(times) == 20
    # Each way the ping of 84 bytes takes its delay; a wire sends its bits at the link's rate, too.
    least = 0.0 if delay == "0 s" else 2 * (0.005 + 84 * 8 / 8e6)
    assert least <= min(times) < least + 0.003
    assert sorted(times)[10] < least + 0.01


@MEASURES
def test_a_link_carries_its_rate_and_counts_it() -> None:
    lab = Lab(scenario(link="overhead: ethernet, queue: {limit: 20 packets}"))
    lab.send((BE, 20), seconds=2)
    classes, links = lab.read()
    row = classes["r>s", "all"]
    carried = row["sent_packets"] * (1000 + 38) * 8 / 2
    assert carried == pytest.approx(8e6, rel=0.05)
    assert row["sent_bytes"] == row["sent_packets"] * 1000
    assert links["r>s"]["sent_bytes"] == row["sent_packets"] * 1038
    assert row["dropped_limit"] == row["dropped_packets"] > 0
    assert classes["a>r", "all"]["sent_packets"] == sum(
        row[key] for key in ("sent_packets", "dropped_limit", "backlog_packets")
    )


@MEASURES
@pytest.mark.parametrize("link", ["delay: 0 s", "delay: 2 ms"])
def test_classes_share_by_their_guarantees(link: str) -> None:
    lab = Lab(scenario(THREE, link))
    lab.send((CS1, 8), (EF, 8), (BE, 8), seconds=3)
    classes, links = lab.read()
    sent = {name: classes["r>s", name]["sent_bytes"] for name in ("low", "high", "rest")}
    whole = sum(sent.values())
    assert sent["low"] / whole == pytest.approx(0.05, abs=0.02)
    assert sent["high"] / whole == pytest.approx(0.70, abs=0.02)
    assert sent["rest"] / whole == pytest.approx(0.25, abs=0.02)
    assert whole * 8 / 3 == pytest.approx(8e6, rel=0.08)
    # The two are not read at the same instant.
    assert links["r>s"]["sent_packets"] == pytest.approx(whole / 1000, rel=0.1)


@MEASURES
def test_what_a_class_leaves_is_shared() -> None:
    lab = Lab(scenario(THREE))
    lab.send((CS1, 8), (BE, 8), seconds=2)
    classes, _ = lab.read()
    low, rest = (classes["r>s", name]["sent_bytes"] for name in ("low", "rest"))
    assert (low + rest) * 8 / 2 == pytest.approx(8e6, rel=0.08)
    assert rest / (low + rest) == pytest.approx(25 / 30, abs=0.03)


@MEASURES
def test_a_strict_class_gets_all_that_it_asks() -> None:
    policies = """
policies:
  p:
    classes:
      voice: {match: {dscp: ef}, priority: strict}
      low: {match: {dscp: cs1}, bandwidth: 20%}
      rest: {match: any, bandwidth: 80%}
"""
    lab = Lab(scenario(policies))
    lab.send((EF, 5), (CS1, 8), (BE, 8), seconds=2)
    classes, _ = lab.read()
    voice, low, rest = (classes["r>s", name] for name in ("voice", "low", "rest"))
    assert voice["dropped_packets"] == 0
    assert voice["sent_bytes"] * 8 / 2 == pytest.approx(5e6, rel=0.05)
    assert low["sent_bytes"] / (low["sent_bytes"] + rest["sent_bytes"]) == pytest.approx(
        0.2, abs=0.04
    )


@MEASURES
def test_a_ceiling_holds_while_the_link_is_idle() -> None:
    policies = """
policies:
  p:
    classes:
      low: {match: {dscp: cs1}, bandwidth: 25%, borrow: false}
      rest: {match: any, bandwidth: 40%, limit: 50%}
"""
    lab = Lab(scenario(policies))
    lab.send((CS1, 8), seconds=2)
    classes, _ = lab.read()
    assert classes["r>s", "low"]["sent_bytes"] * 8 / 2 == pytest.approx(2e6, rel=0.08)
    lab.send((BE, 8), seconds=2)
    classes, _ = lab.read()
    assert classes["r>s", "rest"]["sent_bytes"] * 8 / 2 == pytest.approx(4e6, rel=0.08)


@MEASURES
@pytest.mark.parametrize("action", ["drop", "send", "{remark: le}"])
def test_a_policer_lets_its_burst_and_rate_pass(action: str) -> None:
    policies = f"""
policies:
  p:
    classes:
      low: {{match: {{dscp: cs1}}, police: {{rate: 400 kbps, burst: 100 kB, exceed: {action}}}}}
      rest: {{match: any}}
"""
    more = "" if action != "{remark: le}" else "remark: {s: [{match: {dscp: le}, dscp: af11}]}"
    lab = Lab(scenario(policies, more))
    lab.send((CS1, 2), seconds=2)
    classes, _ = lab.read()
    row = classes["r>s", "low"]
    # A bucket of 100 kB, and 50 kB in each of two seconds.
    assert row["conformed_bytes"] == pytest.approx(200_000, rel=0.06)
    assert row["conformed_packets"] * 1000 == row["conformed_bytes"]
    offered = classes["a>r", "all"]["sent_packets"]
    assert row["exceeded_packets"] == offered - row["conformed_packets"]
    dropped, remarked = row["dropped_policer"], row["remarked_packets"]
    exceeded = row["exceeded_packets"]
    assert (dropped, remarked) == {
        "drop": (exceeded, 0),
        "send": (0, 0),
        "{remark: le}": (0, exceeded),
    }[action]
    assert row["sent_packets"] + row["backlog_packets"] == offered - dropped


def test_counters_are_read_without_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    # A program for each node takes milliseconds of the processor, for which packets wait.
    policies = """
policies:
  p:
    classes:
      low: {match: {dscp: cs1}, police: {rate: 400 kbps, burst: 100 kB}}
      rest: {match: any, queue: {limit: 10 packets}}
"""
    lab = Lab(scenario(policies))
    lab.send((CS1, 2), (BE, 9))
    namespaces = lab.network.namespaces
    code, out, err = namespaces.run(1, ["tc", "-s", "-j", "qdisc", "show"], b"")
    assert code == 0, err
    device = lab.network.interfaces["r>s"].device
    said = [row for row in json.loads(out) if row["dev"] == device and row["handle"] != "0:"]
    code, out, err = namespaces.run(1, ["nft", "-j", "list", "counters"], b"")
    assert code == 0, err
    counters = [row["counter"] for row in json.loads(out)["nftables"] if "counter" in row]

    def refuse(*_: object) -> None:
        raise AssertionError("a program was started")

    monkeypatch.setattr(Network, "_run", refuse)
    rows = lab.network.queues()["r>s"]
    assert [int(row["handle"].rstrip(":"), 16) for row in said] == list(rows)
    for row in said:
        own = rows[int(row["handle"].rstrip(":"), 16)]
        assert own == {key: row[key] for key in own}
    assert any(row["drops"] for row in rows.values())
    policers = lab.network.policers()["r"]
    assert policers == {row["name"]: (row["packets"], row["bytes"]) for row in counters}
    assert any(packets for packets, _ in policers.values())
    lab.read()


@MEASURES
@pytest.mark.parametrize("exceed", ["drop", "send"])
def test_a_policer_of_tc_holds_less_than_a_second(exceed: str) -> None:
    if probe.polices() != "tc":
        unable("its kernel has no police action (CONFIG_NET_ACT_POLICE)")
    outer = f"police: {{rate: 800 kbps, burst: 5 kB, exceed: {exceed}}}"
    policies = f"""
policies:
  p:
    classes:
      low:
        match: {{dscp: [cs1, le]}}
        bandwidth: 50%
        {outer}
        classes:
          worse: {{match: {{dscp: le}}, unused: true, police: {{rate: 80 kbps, burst: 2 kB}}}}
          bad: {{match: any}}
      rest: {{match: any}}
"""
    lab = Lab(scenario(policies, "overhead: ethernet"))
    lab.send((CS1, 2), (LE, 0.4), seconds=2)
    classes, _ = lab.read()
    low, worse = classes["r>s", "low"], classes["r>s", "low/worse"]
    offered = classes["a>r", "all"]["sent_packets"]
    assert low["conformed_packets"] + low["exceeded_packets"] == offered
    # A bucket of 5 kB, and 100 kB in each of two seconds; sizes are those of IP packets.
    assert low["conformed_bytes"] == pytest.approx(205_000, rel=0.06)
    assert low["conformed_packets"] * 1000 == low["conformed_bytes"]
    assert 0 < worse["conformed_bytes"] <= 2_000 + 10_000 * 4
    dropped = low["exceeded_packets"] if exceed == "drop" else 0
    # What is dropped inside counts outside, too.
    assert low["dropped_policer"] == dropped + worse["dropped_policer"]
    assert worse["dropped_policer"] == worse["exceeded_packets"]
    assert low["sent_packets"] + low["backlog_packets"] == offered - low["dropped_policer"]


@MEASURES
def test_a_policer_of_tc_changes_in_place() -> None:
    if probe.polices() != "tc":
        unable("its kernel has no police action (CONFIG_NET_ACT_POLICE)")
    policies = """
policies:
  p:
    classes:
      low: {match: {dscp: cs1}, police: {rate: 800 kbps, burst: 2 kB}}
      rest: {match: any}
"""
    changes = """
changes:
  - {at: 1 s, on: r>s, class: low, police: {rate: 1600 kbps}}
  - {at: 2 s, on: r>s, policy: p}
"""
    lab = Lab(scenario(policies, changes=changes))
    expected = (100_000, 200_000, 100_000)
    for step, rate in zip((None, *lab.network.mapping.steps), expected, strict=True):
        if step is not None and step.interface is not None:
            lab.recorder.end("r>s")
        if step is not None:
            lab.network.apply(step)
        lab.send((CS1, 4), seconds=2)
        classes, _ = lab.read()
        row = classes["r>s", "low"]
        assert row["conformed_bytes"] == pytest.approx(2 * rate, rel=0.08)
        assert row["exceeded_packets"] > 0


def test_marks_are_made_where_packets_arrive() -> None:
    policies = """
policies:
  p: {classes: {marked: {match: {dscp: af11}}, rest: {match: any}}}
"""
    lab = Lab(scenario(policies, r="{kind: router, remark: {cs1: af11}}"))
    lab.send((CS1, 1), (BE, 1), seconds=1)
    classes, _ = lab.read()
    marked, rest = classes["r>s", "marked"], classes["r>s", "rest"]
    assert marked["sent_packets"] == pytest.approx(rest["sent_packets"], rel=0.1)
    assert marked["sent_packets"] > 10


def test_packets_take_turns() -> None:
    lab = Lab(
        scenario(r="{kind: router, balance: per-packet}", more="- {ends: [r, s], rate: 8 Mbps}")
    )
    lab.send((BE, 2), seconds=1)
    classes, _ = lab.read()
    one, two = (classes[name, "all"]["sent_packets"] for name in ("r>s", "r>s#2"))
    assert one > 10  # a busy machine sends less than was asked
    assert abs(one - two) <= 2


def test_flows_keep_to_their_ways() -> None:
    lab = Lab(scenario(more="- {ends: [r, s], rate: 8 Mbps}"))
    send = f"""
import socket
for port in range(7000, 7024):
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    for _ in range(10):
        sender.sendto(b"", ("{lab.scenario.address_of("b")}", port))
"""
    assert lab.run("a", sys.executable, "-c", send) == (0, "")
    classes, _ = lab.read()
    ways = [classes[name, "all"]["sent_packets"] for name in ("r>s", "r>s#2")]
    assert sum(ways) == 240
    assert all(way % 10 == 0 for way in ways)
    assert min(ways) > 0


def test_routers_answer_and_stay_silent() -> None:
    lab = Lab(scenario(s="{kind: router, icmp_errors: false}"))
    address = str(lab.scenario.address_of("b"))
    _, out = lab.run("a", "ping", "-n", "-c", "1", "-W", "1", "-t", "1", address)
    assert f"From {lab.scenario.address_of('r')} icmp_seq=1 Time to live exceeded" in out
    _, out = lab.run("a", "ping", "-n", "-c", "1", "-W", "1", "-t", "2", address)
    assert "100% packet loss" in out


def test_a_wire_loses_duplicates_and_delays_what_it_is_told() -> None:
    lab = Lab(scenario(link="loss: 20%, duplicate: 30%, reorder: {share: 25%, by: 20 ms}"))
    lab.send((BE, 4), seconds=2)
    _, links = lab.read()
    row = links["r>s"]
    packets = row["sent_packets"]
    assert packets > 500
    # Five standard deviations of a binomial.
    assert row["lost_packets"] / packets == pytest.approx(0.2, abs=5 * (0.16 / packets) ** 0.5)
    left = packets - row["lost_packets"]
    for name, share in (("duplicated_packets", 0.3), ("reordered_packets", 0.25)):
        deviation = (share * (1 - share) / left) ** 0.5
        assert row[name] / left == pytest.approx(share, abs=5 * deviation)


def test_a_wire_loses_in_bursts() -> None:
    lab = Lab(scenario(link="loss: {gilbert: {mean: 20%, burst: 4}}"))
    lab.send((BE, 4), seconds=2)
    _, links = lab.read()
    row = links["r>s"]
    # Five standard deviations; states k steps apart have a correlation of (1 - 1/16 - 1/4)^k.
    deviation = (0.16 * (1 + 2 * 0.6875 / 0.3125) / row["sent_packets"]) ** 0.5
    assert row["lost_packets"] / row["sent_packets"] == pytest.approx(0.2, abs=5 * deviation)


def test_cells_are_counted_by_the_wire() -> None:
    lab = Lab(scenario(link="overhead: atm"))
    lab.send((BE, 1), seconds=0.5)
    _, links = lab.read()
    row = links["r>s"]
    assert row["sent_bytes"] == row["sent_packets"] * -(-1016 // 48) * 53


@MEASURES
def test_changes_are_made() -> None:
    policies = f"{THREE}  q: {{classes: {{only: {{match: any}}}}}}\n"
    changes = """
changes:
  - {at: 1 s, on: r>s, rate: 4 Mbps}
  - {at: 2 s, on: r>s, policy: q}
  - {at: 3 s, on: r>s, delay: 10 ms}
"""
    lab = Lab(scenario(policies, changes=changes))
    slower, *_ = [step for step in lab.network.mapping.steps if step.at == 10**12]
    lab.network.apply(slower)
    lab.send((EF, 8), (BE, 8), seconds=2)
    classes, _ = lab.read()
    high, rest = (classes["r>s", name]["sent_bytes"] for name in ("high", "rest"))
    assert (high + rest) * 8 / 2 == pytest.approx(4e6, rel=0.08)
    assert high / (high + rest) == pytest.approx(70 / 95, abs=0.03)
    (other,) = [step for step in lab.network.mapping.steps if step.at == 2 * 10**12]
    lab.send((EF, 1), seconds=0.5)
    lab.recorder.end("r>s")
    lab.network.apply(other)
    lab.send((EF, 1), (BE, 1), seconds=0.5)
    classes, links = lab.read()
    names = [name for link, name in classes if link == "r>s"]
    assert names == ["low", "high", "rest", "only"]
    assert classes["r>s", "high"]["sent_packets"] > 10
    assert classes["r>s", "only"]["sent_packets"] > 10
    sent = sum(classes["r>s", name]["sent_packets"] for name in names)
    assert sent == pytest.approx(links["r>s"]["sent_packets"], abs=3)
    classes, _ = lab.read()
    assert [name for link, name in classes if link == "r>s"] == ["only"]


def test_a_link_goes_down_and_routes_follow() -> None:
    lab = Lab(
        scenario(
            more="- {ends: [r, s], rate: 8 Mbps, delay: 1 ms}",
            changes="changes: [{at: 1 s, on: r>s, state: down}, {at: 2 s, on: r>s, state: up}]",
        )
    )
    both = [[step for step in lab.network.mapping.steps if step.at == at * 10**12] for at in (1, 2)]
    for step in both[0]:
        lab.network.apply(step)
    lab.send((BE, 1), seconds=0.5)
    classes, _ = lab.read()
    assert classes["r>s", "all"]["sent_packets"] == 0
    assert classes["r>s#2", "all"]["sent_packets"] > 30
    for step in both[1]:
        lab.network.apply(step)
    assert len(rtt(lab)) == 20


def test_what_linux_cannot_do_is_said_before_anything_is_set_up() -> None:
    policies = "policies: {p: {scheduler: altq-cbq, classes: {x: {match: any}}}}"
    with pytest.raises(UnsupportedError, match=r"policies\.p\.scheduler"):
        Network(scenario(policies), 1)
