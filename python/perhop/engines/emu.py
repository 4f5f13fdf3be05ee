"""The `emu` engine: real Linux hosts, in real time, on perhop's own network.

Every host is a network namespace whose only device hands its packets to the network of the
simulator, with the same queues, policies and links. Hosts send and receive real packets of this
machine's kernel; `traffic` opens their sockets.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Final

from perhop._core import Emulation
from perhop.engines.captures import capture_plan
from perhop.engines.lateness import stall_threshold
from perhop.engines.plan import network_plan
from perhop.engines.traffic import Traffic
from perhop.errors import UnsupportedError
from perhop.scenario.resolve import TIMESTAMPS, datagram_headers, host_mtu, packet_size, tcp_headers

if TYPE_CHECKING:
    from collections.abc import Mapping
    from io import FileIO
    from ipaddress import IPv6Address

    import polars as pl

    from perhop.engines import plans
    from perhop.engines.captures import Capture
    from perhop.scenario import Flow, Scenario
    from perhop.scenario.model.names import IpVersion

__all__ = ["EmuRun", "hosts_plan", "longest", "mtus", "start"]

_SLICE_S: Final = 0.1
"""The length of a slice."""

_LEAD_NS: Final = 50_000_000
"""The time between the announcement of the scenario's start to all threads, and the start."""

_MTU: Final = 1500
"""The default MTU of a host's device, if neither its links nor its flows need another."""

_LEAST_MTU_V6: Final = 1280


def start(scenario: Scenario, seed: int) -> EmuRun:
    """Create the hosts and the network between them.

    Raises:
        UnsupportedError: If this machine has no namespaces or TUN devices for its user, or Linux
            cannot send what the scenario asks.
    """
    return EmuRun(scenario, seed)


class EmuRun:
    """An emulation in progress. Its time begins with the first slice."""

    live: Final = None
    stalled_us: Final = None
    missing: Final = ()

    def __init__(self, scenario: Scenario, seed: int) -> None:
        """Create the hosts, their devices and sockets; nothing is sent yet."""
        self._scenario = scenario
        self._seed = seed
        self._started = False
        plan: plans.EmulationPlan = {
            "network": network_plan(scenario, seed),
            "hosts": hosts_plan(scenario),
            "congestion_control": None,
            "flows": _flow_keys(scenario),
            "stall_threshold": stall_threshold(scenario),
        }
        try:
            self._core = Emulation(json.dumps(plan))
        except OSError as error:
            raise UnsupportedError(f"{scenario.name}: {error}") from error
        self._traffic = Traffic(scenario, seed, self._core.namespaces(), mtus=mtus(scenario))

    def capture(self, capture: Capture, file: FileIO) -> None:
        """Write the packets at the capture's interfaces from now on to `file`, as pcapng."""
        self._core.capture(json.dumps(capture_plan(self._scenario, self._seed, capture)), file)

    @property
    def now_s(self) -> float:
        """The seconds of the scenario so far."""
        return min(self._core.now_ps, self._scenario.end_ps) / 1e12

    @property
    def finished(self) -> bool:
        """True if the scenario has ended and all measurements are recorded."""
        return self._core.now_ps >= self._scenario.end_ps and self._traffic.finished

    @property
    def counters(self) -> Mapping[str, int]:
        """The counters of the network and the traffic; see docs/engines.md."""
        return {**self._core.counters(), **self._traffic.counters}

    def advance(self) -> None:
        """Wait for a tenth of a second, or until the end.

        Raises:
            OSError: If a capture cannot be written; it names the file.
            UnsupportedError: If a host's device is gone.
        """
        if not self._started:
            self._started = True
            zero = Emulation.monotonic_ns() + _LEAD_NS
            self._core.start(zero)
            self._traffic.start(zero)
        left = (self._scenario.end_ps - self._core.now_ps) / 1e12
        time.sleep(min(_SLICE_S, max(left, 0.001)))
        try:
            self._core.check()
        except OSError as error:
            if error.filename is not None:
                raise  # a capture's file
            name = self._scenario.name
            message = f"{name}: a host's device perhop0 was taken away after {self.now_s:.1f} s"
            raise UnsupportedError(f"{message}: {error}") from error

    def delivered(self) -> dict[str, int]:
        """Return the bytes that each flow has delivered so far."""
        return self._traffic.delivered()

    def stop(self) -> None:
        """End the emulation at the current time."""
        self._traffic.stop()
        self._core.stop()

    def tables(self) -> dict[str, pl.DataFrame]:
        """Return the dataset's tables up to the last mark."""
        from perhop.engines.tables import tables

        return {**self._traffic.tables(), **tables(self._core.tables())}


def _flow_keys(scenario: Scenario) -> list[plans.FlowKeyPlan]:
    """Return the addresses and ports by which packets of each flow are recognised."""
    return [
        {
            "name": name,
            "from": flow.source,
            "to": flow.destination,
            "protocol": "udp" if flow.tcp is None else "tcp",
            "port": scenario.port_of(name),
            "source_ports": flow.source_ports,
        }
        for name, flow in scenario.flows.items()
    ]


def hosts_plan(scenario: Scenario) -> dict[str, plans.HostPlan]:
    """Return the hosts as the core takes them."""
    own = mtus(scenario)
    return {
        name: {
            "mtu": own[name],
            "offload": node.offload,
            "backpressure": node.backpressure,
            "namespace": None,
            "behind": [],
            "routes": [],
        }
        for name, node in scenario.nodes.items()
        if node.kind == "host"
    }


def addresses_v6(scenario: Scenario) -> dict[str, IPv6Address]:
    """Return the IPv6 addresses of nodes.

    Nodes with an MTU below 1280 bytes have none (RFC 8200, section 5).
    """
    own = mtus(scenario)
    return {
        name: address
        for name, address in scenario.addresses_v6.items()
        if own[name] >= _LEAST_MTU_V6
    }


def mtus(scenario: Scenario) -> dict[str, int]:
    """Return the MTU of every node's device.

    It is the least of its links and of the tunnels that end at a host, or what its flows need.
    """
    flows = scenario.flows.values()
    most = max([_MTU, *(longest(flow, scenario.ip_of(flow)) for flow in flows)])

    def least(node: str) -> int:
        links = (link for link in scenario.links if node in link.ends)
        own = min((link.mtu or most for link in links), default=_MTU)
        known = host_mtu(scenario, node) if scenario.nodes[node].kind == "host" else None
        return own if known is None else min(own, known)

    return {node: least(node) for node in scenario.nodes}


def longest(flow: Flow, ip: IpVersion) -> int:
    """Return the longest packet of a flow in bytes; 1500 if none is longer."""
    if flow.tcp is not None:
        mss, headers = flow.tcp.effective_mss(ip), tcp_headers(ip)
        return _MTU if mss <= _MTU - headers else min(mss + headers + TIMESTAMPS, 65_535)
    if flow.quic is not None:
        return max(_MTU, flow.quic.max_datagram + datagram_headers(ip))
    assert flow.datagrams is not None
    return _MTU if flow.datagrams.sizes == "exponential" else packet_size(flow, ip)
