"""Agents behind address translation, and agents that speak IPv6."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl

from conftest import MEASURES, PERHOP
from live import Site, site
from perhop import Dataset, analysis
from perhop.engines.emu import addresses_v6
from perhop.scenario import dump, parse
from tools import need

NETWORK = """
perhop: 1
name: families
nodes: {gate: host, r: router, server: host}
links:
  - {ends: [gate, r], rate: 20 Mbps, delay: 5 ms}
  - {ends: [r, server], rate: 1 Gbps, delay: 1 ms, remark: {server: {ef: af11}}}
"""
DELAY_S = 0.006
"""The delay of the network, without the time that packets take to be sent."""

TRAFFIC = """
flows:
  upload:   {from: HERE, to: server, stop: 3 s}
  download: {from: server, to: HERE, stop: 3 s}
  talk:     {from: HERE, to: server, dscp: ef, udp: {rate: 500 kbps, size: 200 B}, stop: 3 s}
  listen:   {from: server, to: HERE, udp: {rate: 500 kbps, size: 200 B}, stop: 3 s}
pings:
  probe: {from: HERE, to: server, dscp: ef, every: 100 ms}
"""
OFFSET_S = 3.2
"""By how much a clock is put off."""


class Home:
    """A network namespace behind a host of a lab, which translates its addresses."""

    def __init__(self, found: Site) -> None:
        self.found = found
        # The namespace lives as long as this process, which prints its identifier.
        said = ["unshare", "--net", "sh", "-c", "echo $$; exec sleep 1000"]
        self.process = found.start("gate", said)
        assert self.process.stdout is not None
        self.pid = self.process.stdout.readline().strip()
        self.inside = ["nsenter", "--target", self.pid, "--net"]
        table = "add table ip nat; add chain ip nat out { type nat hook postrouting priority 100; }"
        rule = "add rule ip nat out oifname perhop0 masquerade"
        for command in (
            ["ip", "link", "add", "lan", "type", "veth", "peer", "name", "wan", "netns", self.pid],
            ["ip", "address", "add", "192.168.7.1/24", "dev", "lan"],
            ["ip", "link", "set", "lan", "up"],
            ["sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"],
            ["nft", f"{table}; {rule}"],
            [*self.inside, "ip", "link", "set", "lo", "up"],
            [*self.inside, "ip", "address", "add", "192.168.7.2/24", "dev", "wan"],
            [*self.inside, "ip", "link", "set", "wan", "up"],
            [*self.inside, "ip", "route", "add", "default", "via", "192.168.7.1"],
        ):
            done = found.start("gate", command)
            said_then = done.communicate(timeout=20)
            assert done.returncode == 0, (command, said_then)

    def close(self) -> None:
        """End the namespace."""
        self.process.kill()
        self.process.communicate()


@contextmanager
def home(found: Site) -> Iterator[list[str]]:
    """The command that starts others behind `gate`."""
    behind = Home(found)
    try:
        yield behind.inside
    finally:
        behind.close()


def agrees(live: Dataset) -> None:
    """Check what was measured against the network, which has one clock."""
    assert live.manifest.complete and live.manifest.live is not None
    # Both calls share the link with bulk and its acknowledgements.
    for flow, least, most in (
        ("upload", 15e6, 19.5e6),
        ("download", 15e6, 19.5e6),
        ("talk", 0.45e6, 0.55e6),
        ("listen", 0.45e6, 0.55e6),
    ):
        assert least < analysis.throughput(live, flow, (1.0, 3.0)) < most, flow
    for flow in ("talk", "listen"):
        delay, bound = analysis.owd(live, flow), live.manifest.live.offset_bounds_s[flow]
        # The clocks differ by far more. Before bulk fills the queue, nobody waits.
        assert bound < 0.1 < OFFSET_S
        assert delay is not None
        assert abs(delay.min - DELAY_S) < bound + 0.001, (flow, delay, bound)
    arrived = live.codepoints.filter(pl.col("node") == "server")
    marks = set(arrived.select("flow", "dscp_sent", "dscp_arrived").iter_rows())
    assert {("talk", 46, 10), ("upload", 0, 0)} <= marks
    replies = live.pings.filter(pl.col("rtt_s").is_not_null())
    assert len(replies) >= 25
    assert replies["rtt_s"].min() > 2 * DELAY_S
    assert set(replies["dscp_arrived"]) == {10}


@MEASURES
def test_a_host_behind_address_translation_sends_and_receives(lab_folder: Path) -> None:
    need("ip", "nft", "nsenter", "unshare")
    network = parse(NETWORK, "network.yaml")
    deployed = parse(NETWORK.replace("gate", "home") + TRAFFIC.replace("HERE", "home"), "home.yaml")
    (lab_folder / "home.yaml").write_text(dump(deployed))
    with site(network, lab_folder, []) as found, home(found) as inside:
        found.serve("gate", inside=inside, node="home", address="127.0.0.1", keys="nat: true")
        found.serve("server", "--clock-offset", f"{OFFSET_S} s")
        options = ("--engine", "live", "--agents", "agents.yaml", "--out", "run")
        run = found.start("gate", [*inside, str(PERHOP), "run", "home.yaml", *options])
        said = run.communicate(timeout=60)
        assert run.returncode == 0, said
        agrees(found.dataset())


@MEASURES
def test_hosts_measure_by_ipv6(lab_folder: Path) -> None:
    """Agents listen at an address of IPv4, and one of them has a name for its data."""
    scenario = parse(NETWORK + "ip: 6\n" + TRAFFIC.replace("HERE", "gate"), "six.yaml")
    (lab_folder / "six.yaml").write_text(dump(scenario))
    addresses = addresses_v6(scenario)
    with site(scenario, lab_folder, []) as found:
        found.serve("gate", keys=f"data: {addresses['gate']}")
        found.serve("server", "--clock-offset", f"{OFFSET_S} s", keys="data: server")
        done = found.run("gate", "six.yaml")
        assert done.code == 0, done
        live = found.dataset()
        agrees(live)
    assert live.manifest.live is not None
    assert all(agent.address.startswith("10.") for agent in live.manifest.live.agents.values())
