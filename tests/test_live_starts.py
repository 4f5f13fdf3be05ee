"""How exactly agents start together. In a lab the truth is known, as one clock serves all hosts.

The agents run in time namespaces (time_namespaces(7)), so that their monotonic clocks are hours
apart, as on hosts that were booted at different times. Captures of the lab have one clock. No
datagram is sent early, so that of the first datagrams of a host the least late one shows when that
host believes the scenario to have begun.
"""

import ipaddress
import json
import os
import random
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from conftest import MEASURES
from live import Site, site
from perhop.scenario import dump, parse
from static_agent import static_agent
from test_capture_files import packets
from tools import need, unable

LOAD = """
import random, socket, sys, time
there, rate = sys.argv[1], float(sys.argv[2])
out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
at = time.monotonic()
while True:
    # What the machine has held up is not made up for.
    at = max(at, time.monotonic() - 0.002) + random.expovariate(rate / (8 * 1428))
    time.sleep(max(0, at - time.monotonic()))
    out.sendto(bytes(1400), (there, 9))
"""
"""Sends datagrams of 1400 B to a host at random times, at a mean rate in bit/s."""


class Area(NamedTuple):
    """Hosts that are equally far from the controller.

    Attributes:
        delay_ms: The delay of a packet to them.
        jitter_ms: The largest random addition to it.
        loaded: Whether other traffic takes 60% of the link in both directions.
    """

    delay_ms: float
    jitter_ms: float = 0
    loaded: bool = False


SYMMETRIC = {
    "near": Area(1),
    "near-busy": Area(1, 0.5, loaded=True),
    "far": Area(20),
    "far-busy": Area(20, 2, loaded=True),
    "farthest": Area(100),
    "farthest-busy": Area(100, 5, loaded=True),
}
HOSTS = 4
"""The hosts of an area."""
RATE = 20_000_000
"""The rate of the link to an area, in bit/s."""


def network(areas: dict[str, Area]) -> dict[str, Any]:
    """A controller's host in the centre, and a router for each area."""
    nodes = {"centre": "router", "control": "host"}
    links: list[dict[str, Any]] = [{"ends": ["control", "centre"], "rate": "1 Gbps"}]
    flows = {}
    for name, area in areas.items():
        nodes[name] = "router"
        way = {"delay": f"{area.delay_ms} ms", "jitter": f"{area.jitter_ms} ms"}
        links.append({"ends": ["centre", name], "rate": f"{RATE} bps", **way})
        own = [f"{name}-{number}" for number in range(HOSTS)]
        ways = [(host, name) for host in own]
        if area.loaded:
            ways += [(f"{name}-load", name), (f"{name}-face", "centre")]
        for host, router in ways:
            nodes[host] = "host"
            links.append({"ends": [host, router], "rate": "1 Gbps"})
        ends = zip(own, own[1:] + own[:1], strict=True)
        flows |= {
            host: flow(host, other, len(flows) + place) for place, (host, other) in enumerate(ends)
        }
    # A host beside the controller, whose start is exact.
    flows["control"] = flow("control", next(iter(flows)), len(flows))
    return {"perhop": 1, "name": "starts", "nodes": nodes, "links": links, "flows": flows}


def flow(here: str, there: str, number: int) -> dict[str, Any]:
    """A flow whose datagrams are due at other instants than those of other flows."""
    udp = {"rate": "160 kbps", "size": f"{200 + 2 * number} B"}
    return {"from": here, "to": there, "udp": udp, "stop": "600 ms"}


def spacing(number: int) -> int:
    """The time between two datagrams of a flow, in nanoseconds."""
    return (200 + 2 * number) * 50_000


@contextmanager
def lab(areas: dict[str, Area], folder: Path) -> Iterator[Site]:
    """The network with its load, and agents in all hosts with flows."""
    need("unshare", os.environ.get("CARGO", "cargo"))
    scenario = parse(json.dumps(network(areas)))
    (folder / "scenario.yaml").write_text(dump(scenario))
    random.seed(1)
    program = (str(static_agent()),)
    clock = ["unshare", "--time", "--fork", "--kill-child", "--monotonic"]
    tried = subprocess.run([*clock, "1", "true"], capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        unable(tried.stderr)
    with site(scenario, folder, []) as found:
        for host in scenario.flows:
            apart = str(random.randrange(1_000_000))
            found.serve(host, inside=[*clock, apart], program=program)
        loads = []
        for name, area in areas.items():
            if area.loaded:
                ends = (f"{name}-load", f"{name}-face")
                for here, there in (ends, ends[::-1]):
                    send = [sys.executable, "-c", LOAD, found.address(there), str(0.6 * RATE)]
                    loads.append(found.start(here, send))
        try:
            yield found
        finally:
            for load in loads:
                load.kill()
                load.communicate()


def starts(found: Site, run: int) -> tuple[dict[str, float], int]:
    """Run the scenario. Returns by how much each host started later than `control`, in
    microseconds, and the stated bound."""
    name = f"start-{run}"
    capture = found.folder / f"{name}.pcapng"
    hosts = list(found.scenario.flows)
    found.lab.capture(hosts, capture, snaplen=64)
    done = found.run("control", "scenario.yaml", out=name)
    found.lab.end_capture(capture)
    assert done.code == 0, done
    own = {ipaddress.ip_address(found.address(host)).packed: host for host in hosts}
    zeros: dict[str, int] = {}
    for _, at, length, bytes_ in packets(capture.read_bytes()):
        host = own.get(bytes_[12:16])
        if host is not None and bytes_[9] == 17 and length > 200:
            # The number of the datagram is behind the run's tag of two bytes.
            place = int.from_bytes(bytes_[30:36])
            zero = at - spacing(hosts.index(host)) * place
            zeros[host] = min(zero, zeros.get(host, zero))
    live = found.dataset(name).manifest.live
    assert live is not None
    bound = max(agent.start_bound_us or 0 for agent in live.agents.values())
    return {host: (zero - zeros["control"]) / 1e3 for host, zero in zeros.items()}, bound


@MEASURES
def test_all_hosts_start_within_a_millisecond(lab_folder: Path) -> None:
    errors: list[float] = []
    with lab(SYMMETRIC, lab_folder) as found:
        for number in range(3):
            late, bound = starts(found, number)
            assert bound > 100_000  # half a round trip of the farthest hosts
            errors += (abs(error) for host, error in late.items() if host != "control")
    assert statistics.median(errors) < 250, sorted(errors)
    assert max(errors) < 1_000, sorted(errors)
