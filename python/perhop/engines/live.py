"""The `live` engine: agents on hosts of a live network, in real time.

Agents send the flows and pings of a scenario. Links and policies of the scenario say what the
network should be: nothing of the network is changed, and its queues are not read.
"""

from __future__ import annotations

import json
import secrets
import time
import warnings
from typing import TYPE_CHECKING, Final

import polars as pl

from perhop import _core
from perhop.dataset import TABLES, AgentRecord, Live
from perhop.engines.captures import unsupported
from perhop.engines.live_addresses import addresses, resolved, version_gaps
from perhop.engines.tables import tables
from perhop.engines.traffic import host_settings, job, transport_gaps, window_counters
from perhop.errors import UnsupportedError
from perhop.linux.gaps import Gap, refuse, tunnel_gaps
from perhop.scenario import AGENT_PORT, IPERF3_PORT, STAMP_PORT, Endpoint
from perhop.scenario.resolve import background_path, iperf3_servers

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from io import FileIO

    from perhop.engines import plans
    from perhop.engines.captures import Capture
    from perhop.scenario import Flow, Ping, Scenario

__all__ = ["LiveRun", "gaps", "start"]

_SLICE_S: Final = 0.1

_OF_LIVE_HOSTS: Final = {
    "net.ipv4.tcp_sack": "1",
    "net.ipv4.tcp_dsack": "1",
    "net.ipv4.tcp_timestamps": "1",
    "net.ipv4.tcp_window_scaling": "1",
    "net.ipv4.tcp_ecn": "0",  # Linux has 2: ECN if the other end asks for it, and none does
}
"""The settings of a Linux host that nobody has changed."""

_OF_IPERF3: Final = {"congestion_control", "mss", "stack", "rate", "write"}
"""The settings of TCP that a client of iperf3 asks its server for, or that change nothing."""

_CONSTANT: Final = {"pattern": "constant", "sizes": "equal", "bursts": None, "replay": None}
"""The settings of UDP with which datagrams are equal and at equal intervals."""

_LEAST_STAMP: Final = 56
"""The shortest payload of a request to a STAMP reflector: with the TLVs Class of Service and Extra
Padding (RFC 8972)."""

_MOST_STAMP: Final = 30
"""The greatest number of requests to a reflector that has not answered."""

_UNTOLD: Final = {
    (False, False): "no packets, acknowledgements, marks or DSCPs where data arrives; goodput is "
    "what the server acknowledged",
    (False, True): "no losses, reordering, round-trip times or windows of the sender, and its "
    "retransmissions only for the whole flow, in its last interval",
    (True, False): "no reordering, one-way delays, marks or DSCPs where data arrives, and all else "
    "only for the whole flow",
    (True, True): "no one-way delays",
}
"""What an iperf3 server does not tell: of TCP and UDP, and of data to and from it."""


def start(scenario: Scenario, seed: int) -> LiveRun:
    """Connect to the agents, and have them open their sockets.

    Raises:
        UnsupportedError: If a live network cannot do what the scenario has, or an agent cannot be
            reached or refuses it.
    """
    return LiveRun(scenario, seed)


class LiveRun:
    """A run in progress. Its time begins with the first slice."""

    def __init__(self, scenario: Scenario, seed: int) -> None:
        """Connect to the agents; nothing is sent yet."""
        refuse(gaps(scenario), scenario.name, "a live network cannot do")
        found = addresses(scenario)
        self._scenario = scenario
        self._started = False
        self._stopped_s: float | None = None
        written = json.dumps(_job(scenario, seed, found))
        try:
            self._core = _core.Live(written, json.dumps(_agents(scenario, found)), None)
        except (OSError, ValueError) as error:
            raise UnsupportedError(f"{scenario.name}: {error}") from error

    def capture(self, capture: Capture, file: FileIO) -> None:
        """Raise UnsupportedError: the links of a live network are not perhop's."""
        del file
        raise unsupported("live", capture.path)

    @property
    def now_s(self) -> float:
        """The seconds of the scenario so far."""
        now = self._core.now_ps if self._stopped_s is None else round(self._stopped_s * 1e12)
        return min(now, self._scenario.end_ps) / 1e12

    @property
    def finished(self) -> bool:
        """True if the scenario has ended and all readings have arrived."""
        for message in self._core.take_warnings():
            warnings.warn(message, RuntimeWarning, stacklevel=2)
        ended = self._stopped_s is not None or self._core.failure() is not None
        return self._started and not ended and self._core.finished

    @property
    def counters(self) -> Mapping[str, int]:
        """The counters of the agents' traffic; see docs/live.md."""
        return self._core.counters() | window_counters(self._scenario, self._core.windows())

    @property
    def live(self) -> Live:
        """The agents and their clocks so far."""
        bounds = self._core.offset_bounds().items()
        return Live(
            agents={
                node: AgentRecord.model_validate(
                    {key: found.get(key) for key in AgentRecord.model_fields}
                )
                for node, found in self._core.agents().items()
            },
            offset_bounds_s={name: bound / 1e9 for name, bound in bounds if bound is not None},
        )

    @property
    def stalled_us(self) -> dict[str, int]:
        """Total stall on the host of each agent so far, in microseconds."""
        return self._core.stalled_us()

    @property
    def missing(self) -> list[str]:
        """Return the measurements that were not possible so far, with the reasons."""
        return [*self._core.missing(), *_absent(self._scenario)]

    def advance(self) -> None:
        """Wait for a tenth of a second, or until the end.

        Raises:
            UnsupportedError: The run ended before the scenario; with the reason.
        """
        if not self._started:
            try:
                self._core.start()
            except OSError as error:
                raise UnsupportedError(f"{self._scenario.name}: {error}") from error
            self._started = True
        failure = self._core.failure()
        if failure is not None:
            self.stop()
            raise UnsupportedError(f"{self._scenario.name}: {failure}")
        time.sleep(_SLICE_S)

    def delivered(self) -> dict[str, int]:
        """Return the bytes that each flow has delivered so far."""
        return self._core.delivered()

    def tables(self) -> dict[str, pl.DataFrame]:
        """Return the dataset's tables as far as the agents have sent their readings."""
        own = {
            name: pl.DataFrame(schema=TABLES[name])
            for name in ("queues", "links", "stations", "tunnels", "losses")
        }
        return {**own, **tables(self._core.tables())}

    def stop(self) -> None:
        """End the run at the current time."""
        over = self._core.finished and self._core.failure() is None
        self._core.stop()
        if not over and self._stopped_s is None:
            self._stopped_s = self._core.recorded_ps / 1e12


def gaps(scenario: Scenario) -> list[Gap]:
    """Return the parts of a scenario that a live network, or a live host, cannot do."""
    if not scenario.agents:
        return [Gap("agents", "there are none; add them to the scenario, or give --agents FILE")]
    return [
        *_background_gaps(scenario),
        *_network_gaps(scenario),
        *tunnel_gaps(scenario),
        *version_gaps(scenario),
        *transport_gaps(scenario),
        *_application_gaps(scenario),
        *_host_gaps(scenario),
        *_call_gaps(scenario),
        *_port_gaps(scenario),
        *_iperf3_gaps(scenario),
        *_stamp_gaps(scenario),
    ]


def _background_gaps(scenario: Scenario) -> Iterator[Gap]:
    """Yield background traffic between hosts that a live network does not have."""
    for name in scenario.backgrounds:
        flow = scenario.flows[name]
        for host in sorted({flow.source, flow.destination} & scenario.background_hosts):
            yield Gap(
                background_path(scenario, name),
                f"a live network has no host {host}; use a link between hosts with agents",
            )


def _application_gaps(scenario: Scenario) -> Iterator[Gap]:
    for name, flow in scenario.flows.items():
        for key in flow.applications:
            yield Gap(
                f"flows.{name}.{key}",
                "agents have no clients and servers; use engine sim, emu or kernel",
            )
        if flow.quic is not None:
            yield Gap(f"flows.{name}.quic", "agents have no QUIC; use engine sim, emu or kernel")


def _network_gaps(scenario: Scenario) -> Iterator[Gap]:
    for number, change in enumerate(scenario.changes):
        if change.clear is None:
            yield Gap(f"changes.{number}", "perhop does not change a live network")
    for number, link in enumerate(scenario.links):
        for key in ("variation", "delay_limit", "loss", "duplicate", "reorder", "trace"):
            if getattr(link, key):
                yield Gap(
                    f"links.{number}.{key}", "perhop does nothing to packets of a live network"
                )
    for name, node in scenario.nodes.items():
        for key in ("backpressure", "offload"):
            if not getattr(node, key):
                yield Gap(
                    f"nodes.{name}.{key}", "the queues and devices of a live host are its own"
                )


def _host_gaps(scenario: Scenario) -> Iterator[Gap]:
    """Yield the settings of flows that only the owner of a host can make."""
    for name, flow in scenario.flows.items():
        if flow.tcp is None or flow.tcp.stack not in (None, "linux-6"):
            continue
        asked = flow.tcp.model_fields_set
        if flow.tcp.effective_ecn != "off":
            asked = {*asked, "ecn"}
        for key, (setting, value) in host_settings(flow).items():
            if key in asked and _OF_LIVE_HOSTS.get(setting, value) != value:
                yield Gap(f"flows.{name}.tcp.{key}", f"perhop does not change {setting} of a host")


def _call_gaps(scenario: Scenario) -> Iterator[Gap]:
    """Yield calls: their delays need clocks that agree from the first packet on."""
    for name, flow in scenario.flows.items():
        if flow.voice is not None:
            yield Gap(
                f"flows.{name}.voice",
                "a jitter buffer needs the one-way delay of every packet, and the clocks of live "
                "hosts are compared during the run",
            )


def _port_gaps(scenario: Scenario) -> Iterator[Gap]:
    """Yield source ports that agents cannot choose."""
    taken: dict[tuple[str, bool, int], str] = {}
    for name, flow in scenario.flows.items():
        first, last = flow.source_ports or (1, 0)
        path, udp = f"flows.{name}.source_port", flow.tcp is None
        agent = scenario.agents.get(flow.destination)
        if flow.source_port is not None and not udp and agent is not None and agent.nat:
            yield Gap(path, f"{flow.destination}, behind NAT, opens the connection to `port`")
        for port in range(first, last + 1):
            other = taken.setdefault((flow.source, udp, port), name)
            if other != name:
                yield Gap(path, f"{other} sends from port {port} of {flow.source}, too")


def _iperf3_gaps(scenario: Scenario) -> Iterator[Gap]:
    """Yield the settings of flows that a test of iperf3 does not have."""
    for name in iperf3_servers(scenario):
        flow = scenario.flows[name]
        if flow.port is not None:
            yield Gap(f"flows.{name}.port", "the port is that of the iperf3 server")
        if flow.source_port is not None:
            yield Gap(f"flows.{name}.source_port", "perhop does not choose the ports of iperf3")
        if flow.tcp is not None:
            for key in sorted(flow.tcp.model_fields_set - _OF_IPERF3):
                yield Gap(f"flows.{name}.tcp.{key}", "iperf3 has no such setting")
        elif flow.udp is None:
            yield Gap(f"flows.{name}.{flow.kind}", "iperf3 sends at a constant rate and size")
        else:
            for key, usual in _CONSTANT.items():
                if getattr(flow.udp, key) != usual:
                    yield Gap(f"flows.{name}.udp.{key}", "iperf3 sends at a constant rate and size")


def _stamp_gaps(scenario: Scenario) -> Iterator[Gap]:
    """Yield the settings of pings that a session with a STAMP reflector does not have."""
    for name, ping in scenario.pings.items():
        if _reflector(scenario, ping) is None:
            continue
        for key in ("ttl", "protocol", "port"):
            if getattr(ping, key) == type(ping).model_fields[key].default:
                continue
            yield Gap(
                f"pings.{name}.{key}", "requests to a STAMP reflector have TTL 255 and its port"
            )
        if ping.size < _LEAST_STAMP:
            yield Gap(f"pings.{name}.size", f"a STAMP packet has {_LEAST_STAMP} B at least")
        if ping.train > _MOST_STAMP:
            what = f"a STAMP reflector gets {_MOST_STAMP} requests at once at most"
            yield Gap(f"pings.{name}.train", what)


def _reflector(scenario: Scenario, ping: Ping) -> Endpoint | None:
    """Return the STAMP reflector that answers a ping, if its destination is one."""
    agent = scenario.agents.get(ping.destination)
    return None if agent is None else agent.stamp


def _absent(scenario: Scenario) -> Iterator[str]:
    """Yield what an iperf3 server does not tell about each flow."""
    for name in iperf3_servers(scenario):
        flow = scenario.flows[name]
        sends = scenario.agents[flow.source].iperf3 is not None
        server = flow.source if sends else flow.destination
        yield f"flow {name}: {_UNTOLD[flow.tcp is None, sends]} ({server} is an iperf3 server)"


def _job(scenario: Scenario, seed: int, found: Mapping[str, str]) -> plans.Job:
    """Return the traffic as the agents take it."""
    # Nodes without an agent send and receive nothing.
    every = {name: [found.get(name, str(own))] for name, own in scenario.addresses.items()}
    whole = job(scenario, seed, hosts={}, addresses=every)
    servers = iperf3_servers(scenario)
    whole["live"] = {
        "token": secrets.token_hex(16),
        "flows": [
            {
                "opens": "destination" if scenario.agents[flow.destination].nat else "source",
                "server": _server(scenario, flow, servers.get(name), found),
            }
            for name, flow in scenario.flows.items()
        ],
        "reflectors": [
            None if reflector is None else reflector.port or STAMP_PORT
            for reflector in (_reflector(scenario, ping) for ping in scenario.pings.values())
        ],
    }
    return whole


def _server(
    scenario: Scenario, flow: Flow, server: Endpoint | None, found: Mapping[str, str]
) -> plans.Iperf3Server | None:
    """Return the iperf3 server of a flow; None if both of its ends have agents."""
    if server is None:
        return None
    sends = scenario.agents[flow.source].iperf3 is not None
    node = flow.source if sends else flow.destination
    at = Endpoint(found[node], server.port or IPERF3_PORT)
    return {"end": "source" if sends else "destination", "address": str(at)}


def _agents(scenario: Scenario, found: Mapping[str, str]) -> list[dict[str, object]]:
    """Return who stands for which node, as the core takes it, with the addresses that are used."""
    written: list[dict[str, object]] = []
    for name, agent in scenario.agents.items():
        kind = agent.without_agent
        if kind is not None:
            written.append({"node": name, kind: {"address": found[name]}})
        elif agent.address is not None:
            host = resolved(agent.address.host, f"agents.{name}.address", scenario)
            at = Endpoint(host, agent.address.port or AGENT_PORT)
            written.append({"node": name, "agent": {"address": str(at), "key": agent.key}})
    return written
