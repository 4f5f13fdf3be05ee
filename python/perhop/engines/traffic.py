"""The flows and pings of a scenario on real sockets, for engines with Linux hosts.

Linux's own behaviour applies to settings that the file does not have. Settings that Linux does not
support are refused.
"""

from __future__ import annotations

import json
import warnings
from typing import TYPE_CHECKING, Final

from perhop import _core
from perhop.engines.lateness import is_light, stall_threshold
from perhop.engines.workload import flow_plan, ping_plan
from perhop.errors import UnsupportedError
from perhop.linux.gaps import Gap, refuse
from perhop.scenario.model.tcp import AUTOTUNED_BUFFER, Tcp
from perhop.scenario.resolve import TIMESTAMPS, datagram_headers, tcp_headers
from perhop.units import MILLISECOND, format_size

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import polars as pl

    from perhop.engines import plans
    from perhop.scenario import Flow, Scenario, Udp
    from perhop.scenario.model.names import IpVersion
    from perhop.scenario.model.quic import Quic

__all__ = [
    "Traffic",
    "gaps",
    "host_settings",
    "job",
    "transport_gaps",
    "window_counters",
]

MTU: Final = 1500
"""The MTU of a link that has none in the scenario, in bytes."""

_NUMBERED: Final = 16
"""The bytes at the start of a datagram: its sequence number and its time of sending."""

_EVERY_HOST: Final = {
    # No connection uses metrics of an earlier one: all runs have the same initial state.
    "net.ipv4.tcp_no_metrics_save": "1",
    # No limit of ICMP errors: every probe is answered.
    "net.ipv4.icmp_ratelimit": "0",
}
_UNSET: Final = Tcp()
"""A connection with default settings; its timers are those of Linux."""

_OF_LINUX: Final = {
    "initial_window": 10,
    "limited_transmit": True,
    "loss_detection": "rack",
    "cubic": "linux",
    "decrease_from": "window",
    "quick_acks": True,
}
"""The settings that Linux does not let a connection change."""

_ECN: Final = {"off": "0", "classic": "1", "dctcp": "1", "accurate": "3"}
"""The values of `net.ipv4.tcp_ecn`: 0 for no ECN, 1 to request it, 3 to request AccECN."""

_AUTOTUNED: Final = f"4096 131072 {AUTOTUNED_BUFFER}"
"""`net.ipv4.tcp_rmem` with autotuning; its default maximum depends on the version of Linux."""


class Traffic:
    """The flows and pings of a scenario in progress between real hosts."""

    def __init__(
        self,
        scenario: Scenario,
        seed: int,
        namespaces: _core.Namespaces | None,
        *,
        hosts: Mapping[str, int] | None = None,
        addresses: Mapping[str, Sequence[str]] | None = None,
        mtus: Mapping[str, int] | None = None,
    ) -> None:
        """Open all sockets; nothing is sent before `start`.

        Args:
            scenario: The scenario.
            seed: The seed of all random numbers.
            namespaces: The hosts; None for sockets of this process.
            hosts: The number of each host's namespace; by default that of the host among all nodes.
            addresses: All addresses of each node, the one that it uses first; by default
                the scenario's.
            mtus: The MTU of each host's device in bytes; by default the least of its links, or
                1500 if they have none.

        Raises:
            UnsupportedError: If Linux, or this machine, does not support the scenario.
        """
        refuse(gaps(scenario, mtus=mtus), scenario.name)
        self._scenario = scenario
        # The namespaces must exist as long as the sockets.
        self._namespaces = namespaces
        written = json.dumps(job(scenario, seed, hosts=hosts, addresses=addresses))
        try:
            self._core = _core.Traffic(written, namespaces)
        except OSError as error:
            raise UnsupportedError(f"{scenario.name}: {error}") from error
        self._stopped_s: float | None = None

    def start(self, zero_ns: int) -> None:
        """Start the traffic; the scenario begins at `zero_ns` of the monotonic clock."""
        self._core.start(zero_ns)

    @property
    def now_s(self) -> float:
        """The seconds of the scenario so far."""
        return self._core.now_ps / 1e12 if self._stopped_s is None else self._stopped_s

    @property
    def finished(self) -> bool:
        """True if all traffic has ended and is recorded. Issues new warnings."""
        for message in self._core.take_warnings():
            warnings.warn(message, RuntimeWarning, stacklevel=2)
        return self._core.finished

    @property
    def stopped_s(self) -> float | None:
        """The second of the scenario at which the traffic was stopped; None if it was not."""
        return self._stopped_s

    @property
    def counters(self) -> dict[str, int]:
        """The counters of the traffic, with requested and actual constant windows of TCP flows."""
        return self._core.counters() | window_counters(self._scenario, self._core.windows())

    def delivered(self) -> dict[str, int]:
        """Return the bytes that each flow has delivered so far."""
        return self._core.delivered()

    def tables(self) -> dict[str, pl.DataFrame]:
        """Return the tables of a dataset with rows of flows and pings.

        Losses of TCP are null if a link duplicates packets: Linux counts the copies with the
        segments that were sent again in vain (`tcpi_dsack_dups`), which are none of the losses.
        """
        import polars as pl

        from perhop.engines.tables import tables

        found = tables(self._core.tables())
        ends = self._scenario.directions.values()
        if "intervals" in found and any(link.medium(end).duplicate for link, end in ends):
            tcp = [name for name, flow in self._scenario.flows.items() if flow.tcp is not None]
            unknown = pl.when(~pl.col("flow").is_in(tcp)).then("lost").alias("lost")
            found["intervals"] = found["intervals"].with_columns(unknown)
        return found

    def stop(self) -> None:
        """End the traffic at the current time."""
        over = self._core.finished
        self._core.stop()
        if not over:
            self._stopped_s = self._core.recorded_ps / 1e12


def window_counters(scenario: Scenario, windows: Mapping[str, int]) -> dict[str, int]:
    """Return the requested and the actual constant windows of TCP flows, as counters."""
    counted: dict[str, int] = {}
    for name, got in windows.items():
        tcp = scenario.flows[name].tcp
        if tcp is not None and not tcp.autotuning:
            asked = min(tcp.effective_send_window, tcp.effective_receive_window)
            counted |= {f"window_asked {name}": asked, f"window_got {name}": got}
    return counted


def job(
    scenario: Scenario,
    seed: int,
    *,
    hosts: Mapping[str, int] | None = None,
    addresses: Mapping[str, Sequence[str]] | None = None,
) -> plans.Job:
    """Return the scenario's traffic as the core takes it; see `Traffic` for the arguments."""
    if hosts is None:
        nodes = enumerate(scenario.nodes.items())
        hosts = {name: number for number, (name, node) in nodes if node.kind == "host"}
    own = {name: [*map(str, addresses)] for name, addresses in scenario.all_addresses.items()}
    settings, _ = _settings(scenario)
    return {
        "seed": seed,
        "marks": [mark for mark in scenario.marks_ps if mark > 0],
        "cuts": [mark for mark in scenario.cuts_ps if mark > 0],
        "timers": {"min_rto": _UNSET.effective_min_rto, "delayed_ack": _UNSET.delayed_ack},
        "nodes": [
            {
                "name": name,
                "namespace": hosts.get(name),
                "addresses": list((addresses or own)[name]),
                "settings": [*settings.get(name, {}).items()] if name in hosts else [],
            }
            for name in scenario.nodes
        ],
        "flows": [flow_plan(scenario, name, flow, seed) for name, flow in scenario.flows.items()],
        "pings": [ping_plan(scenario, name, ping) for name, ping in scenario.pings.items()],
        "stall_threshold": stall_threshold(scenario),
        "real_time": is_light(scenario),
        "live": None,
    }


def gaps(scenario: Scenario, *, mtus: Mapping[str, int] | None = None) -> list[Gap]:
    """Return the settings of the scenario's traffic that Linux does not support; see `Traffic`."""
    _, contradictions = _settings(scenario)
    return transport_gaps(scenario, mtus=mtus) + contradictions


def transport_gaps(scenario: Scenario, *, mtus: Mapping[str, int] | None = None) -> list[Gap]:
    """Return the settings of flows and pings that no Linux host supports; see `Traffic`."""
    found: list[Gap] = []
    own = {host: _mtu(scenario, host) for host in scenario.nodes} if mtus is None else mtus
    for name, flow in scenario.flows.items():
        holds, ip = own[flow.source], scenario.ip_of(flow)
        if flow.quic is not None:
            found += _quic_gaps(f"flows.{name}.quic", flow.quic)
        elif flow.tcp is not None:
            agreed = min(holds, own[flow.destination])
            found += _tcp_gaps(f"flows.{name}.tcp", flow.tcp, agreed, ip)
        else:
            assert flow.datagrams is not None
            found += _udp_gaps(f"flows.{name}.{flow.kind}", flow.datagrams, holds, ip)
    for name, ping in scenario.pings.items():
        holds = own[ping.source]
        size = ping.size + datagram_headers(scenario.ip_of(ping))
        if size > holds:
            found.append(Gap(f"pings.{name}.size", _fragments(size, holds)))
    return [*found, *_port_gaps(scenario)]


def _port_gaps(scenario: Scenario) -> Iterator[Gap]:
    """Yield ports of senders and servers at which the same host receives another flow."""
    listening = {
        (flow.destination, flow.tcp is None, scenario.port_of(name)): name
        for name, flow in scenario.flows.items()
        if not flow.applications
    }
    serving: dict[tuple[str, str, bool, int], str] = {}
    for name, flow in scenario.flows.items():
        if flow.applications:
            port = scenario.port_of(name)
            other = listening.get((flow.source, flow.tcp is None, port))
            if other is not None:
                yield Gap(
                    f"flows.{name}.port",
                    f"{other} arrives at port {port} of {flow.source}, so that no server can have "
                    "it",
                )
            ends = (flow.source, flow.destination, flow.tcp is None, port)
            first_with = serving.setdefault(ends, name)
            if first_with != name:
                yield Gap(
                    f"flows.{name}.port",
                    f"the clients of {first_with} use port {port} of {flow.source}, so that their "
                    "packets could not be told apart",
                )
        first, last = flow.source_ports or (1, 0)
        for port in range(first, last + 1):
            other = listening.get((flow.source, flow.tcp is None, port))
            if other is not None:
                yield Gap(
                    f"flows.{name}.source_port",
                    f"{other} arrives at port {port} of {flow.source}, so that no other socket can "
                    "send from it",
                )


def _mtu(scenario: Scenario, host: str) -> int:
    """Return the least MTU of a host's links in bytes."""
    links = [link for link in scenario.links if host in link.ends]
    return min((MTU if link.mtu is None else link.mtu for link in links), default=MTU)


def _fragments(size: int, mtu: int) -> str:
    return f"a packet of {format_size(size)} is sent in fragments by a host whose MTU is {mtu} B"


def _tcp_gaps(path: str, tcp: Tcp, mtu: int, ip: IpVersion) -> Iterator[Gap]:
    if tcp.stack not in (None, "linux-6"):
        yield Gap(f"{path}.stack", f"{tcp.stack} cannot be had from this machine's kernel")
        return
    given = tcp.model_fields_set
    if tcp.congestion_control in ("ledbat++", "prague"):
        yield Gap(f"{path}.congestion_control", f"Linux has no {tcp.congestion_control}")
    if tcp.congestion_control == "bbr":
        yield Gap(
            f"{path}.congestion_control", "Linux's bbr is BBR version 1, which is `bbr1` here"
        )
    if tcp.congestion_control == "cubic" and not tcp.hystart:
        yield Gap(f"{path}.hystart", "Linux has one setting of HyStart for the whole machine")
    if tcp.congestion_control == "cubic" and not tcp.reno_friendly:
        yield Gap(f"{path}.reno_friendly", "Linux has one setting of it for the whole machine")
    if tcp.rto_rule != "linux":
        yield Gap(f"{path}.rto_rule", "Linux has its own rule")
    for key, own in _OF_LINUX.items():
        if key in given and getattr(tcp, key) != own:
            yield Gap(f"{path}.{key}", f"Linux has {own}, and no other for one connection")
    if "small_queues" in given and not tcp.small_queues:
        yield Gap(f"{path}.small_queues", "Linux has small queues for every connection")
    if "prr" in given and tcp.sack and not tcp.prr:
        yield Gap(f"{path}.prr", "Linux always has proportional rate reduction")
    if tcp.pacing is False and tcp.congestion_control == "bbr1":
        yield Gap(f"{path}.pacing", "Linux's BBR always paces")
    size = tcp.effective_mss(ip) + tcp_headers(ip) + TIMESTAMPS * tcp.timestamps
    if "mss" in given and size > mtu:
        yield Gap(f"{path}.mss", f"segments of {format_size(size)} do not fit an MTU of {mtu} B")
    if not 0 < tcp.delayed_ack <= 200 * MILLISECOND:
        yield Gap(f"{path}.delayed_ack", "Linux holds acknowledgements back for up to 200 ms")


def _quic_gaps(path: str, quic: Quic) -> Iterator[Gap]:
    """Yield the settings that quinn, whose QUIC real hosts have, does not support."""
    if quic.congestion_control == "bbr":
        yield Gap(
            f"{path}.congestion_control", "quinn's BBR is BBR version 1, which is `bbr1` here"
        )
    if quic.congestion_control == "prague":
        yield Gap(f"{path}.congestion_control", "quinn has no prague")
    if quic.congestion_control == "cubic" and "hystart" in quic.model_fields_set and quic.hystart:
        yield Gap(f"{path}.hystart", "quinn has no HyStart++, and ends slow start with a loss")
    if not quic.pacing:
        yield Gap(f"{path}.pacing", "quinn always paces")
    frequency = quic.ack_frequency
    if frequency is not None and frequency.max_delay < MILLISECOND:
        yield Gap(f"{path}.ack_frequency.max_delay", "quinn requests delays of 1 ms or more")


def _udp_gaps(path: str, udp: Udp, mtu: int, ip: IpVersion) -> Iterator[Gap]:
    header = datagram_headers(ip) if udp.layer == "ip" else 0
    replayed = [size for _, size in udp.replay.packets] if udp.replay else [udp.size]
    key = "replay" if udp.replay else "size"
    if isinstance(udp.when_full, int):
        yield Gap(f"{path}.when_full", "perhop's programs wait for room in their sockets")
    smallest, largest = min(replayed) - header, max(replayed) - header
    if smallest < _NUMBERED:
        yield Gap(
            f"{path}.{key}",
            f"datagrams of {format_size(smallest)} have no room for the {_NUMBERED} B by which "
            "real ones are told apart",
        )
    if largest + datagram_headers(ip) > mtu:
        yield Gap(f"{path}.{key}", _fragments(largest + datagram_headers(ip), mtu))


def _settings(scenario: Scenario) -> tuple[dict[str, dict[str, str]], list[Gap]]:
    """Return the settings of each host's network stack, and the conflicts between its flows."""
    hosts: dict[str, dict[str, str]] = {}
    asked: dict[tuple[str, str], str] = {}
    contradictions: list[Gap] = []
    for ping in scenario.pings.values():
        for end in (ping.source, ping.destination):
            hosts.setdefault(end, dict(_EVERY_HOST))
    for name, flow in scenario.flows.items():
        for end in (flow.source, flow.destination):
            settings = hosts.setdefault(end, dict(_EVERY_HOST))
            if flow.applications:
                # Ports of earlier connections of clients, for new ones.
                settings["net.ipv4.tcp_tw_reuse"] = "1"
            for key, (setting, value) in host_settings(flow).items():
                before = settings.setdefault(setting, value)
                first = asked.setdefault((end, setting), name)
                if before != value:
                    contradictions.append(
                        Gap(
                            f"flows.{name}.tcp.{key}",
                            f"{end} has one {setting} for all its flows, and {first} has another",
                        )
                    )
    return hosts, contradictions


def host_settings(flow: Flow) -> dict[str, tuple[str, str]]:
    """Return by key of a flow the setting of the host's network stack, and its value."""
    tcp = flow.tcp
    if tcp is None:
        return {}

    def switch(name: str, on: bool) -> tuple[str, str]:
        return f"net.ipv4.tcp_{name}", "1" if on else "0"

    found = {
        "sack": switch("sack", tcp.sack),
        "timestamps": switch("timestamps", tcp.timestamps),
        "window_scaling": switch("window_scaling", tcp.window_scaling),
        "ecn": ("net.ipv4.tcp_ecn", _ECN[tcp.effective_ecn]),
    }
    if tcp.autotuning:
        found["autotuning"] = ("net.ipv4.tcp_rmem", _AUTOTUNED)
    if tcp.dsack is not None:
        found["dsack"] = switch("dsack", tcp.dsack)
    return found
