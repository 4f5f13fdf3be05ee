"""A scenario's flows and pings on real sockets, for every engine whose hosts have Linux's stacks.

What Linux decides for itself and the file does not mention is Linux's; what the file asks and Linux
cannot do is refused.
"""

from __future__ import annotations

import json
import warnings
from typing import TYPE_CHECKING, Final

from perhop import _core
from perhop.engines.lateness import bearable, is_light
from perhop.engines.tables import tables
from perhop.engines.workload import flow_plan, ping_plan
from perhop.errors import UnsupportedError
from perhop.linux.gaps import Gap, refuse
from perhop.scenario.model.tcp import AUTOTUNED_BUFFER, Tcp
from perhop.scenario.resolve import DATAGRAM_HEADERS, TCP_HEADERS, TIMESTAMPS
from perhop.units import MILLISECOND, format_size

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import polars as pl

    from perhop.engines import plans
    from perhop.scenario import Flow, Scenario, Udp

__all__ = ["Traffic", "gaps", "job"]

MTU: Final = 1500
"""What a packet holds on a link that does not say."""

_NUMBERED: Final = 16
"""What a datagram begins with: its number, and when it was sent."""

_EVERY_HOST: Final = {
    # What one connection learnt of a path is nothing to the next: every run begins alike.
    "net.ipv4.tcp_no_metrics_save": "1",
    # Every probe is answered, as routers do that limit nothing.
    "net.ipv4.icmp_ratelimit": "0",
}
_UNSET: Final = Tcp()
"""A connection of which a scenario says nothing: its timers are those of Linux."""

_OF_LINUX: Final = {
    "initial_window": 10,
    "limited_transmit": True,
    "loss_detection": "rack",
    "cubic": "linux",
    "decrease_from": "window",
    "quick_acks": True,
}
"""What Linux does and nobody can have otherwise for one connection."""

_ECN: Final = {"off": "0", "classic": "1", "dctcp": "1", "accurate": "3"}
"""What `net.ipv4.tcp_ecn` is then: 0 for none, 1 to ask for it, 3 to ask for accurate feedback."""

_AUTOTUNED: Final = f"4096 131072 {AUTOTUNED_BUFFER}"
"""`net.ipv4.tcp_rmem` where a window is tuned: the same for every Linux, whose largest differ."""


class Traffic:
    """The flows and pings of a scenario under way between real hosts."""

    def __init__(
        self,
        scenario: Scenario,
        seed: int,
        namespaces: _core.Namespaces | None,
        *,
        hosts: Mapping[str, int] | None = None,
        addresses: Mapping[str, Sequence[str]] | None = None,
        mtu: int | None = None,
    ) -> None:
        """Open everything; nothing is sent before `start`.

        Args:
            scenario: What to run.
            seed: The seed of all random numbers.
            namespaces: The hosts; None for sockets of this process.
            hosts: The number of each host's namespace; by default that of the host among all nodes.
            addresses: All addresses of each node, the one that it uses first; by default
                the scenario's.
            mtu: What a packet of any host holds, in bytes; by default what its links take, and
                1500 where they do not say.

        Raises:
            UnsupportedError: If Linux, or this machine, cannot do what the scenario asks.
        """
        refuse(gaps(scenario, mtu=mtu), scenario.name)
        self._scenario = scenario
        # What is between the hosts has to last, too.
        self._namespaces = namespaces
        written = json.dumps(job(scenario, seed, hosts=hosts, addresses=addresses))
        try:
            self._core = _core.Traffic(written, namespaces)
        except OSError as error:
            raise UnsupportedError(f"{scenario.name}: {error}") from error
        self._stopped_s: float | None = None

    def start(self, zero_ns: int) -> None:
        """Start; the scenario begins when the monotonic clock shows `zero_ns`."""
        self._core.start(zero_ns)

    @property
    def now_s(self) -> float:
        """Seconds of the scenario so far."""
        return self._core.now_ps / 1e12 if self._stopped_s is None else self._stopped_s

    @property
    def finished(self) -> bool:
        """Whether everything is over and recorded. Warns of what went wrong on the way."""
        for message in self._core.take_warnings():
            warnings.warn(message, RuntimeWarning, stacklevel=2)
        return self._core.finished

    @property
    def stopped_s(self) -> float | None:
        """Up to where it went before it was stopped; None if it was not."""
        return self._stopped_s

    @property
    def counters(self) -> dict[str, int]:
        """What the traffic counts of itself; of TCP flows, constant windows asked for and got."""
        counted = self._core.counters()
        for name, got in self._core.windows().items():
            flow = self._scenario.flows[name]
            if flow.tcp is not None and not flow.tcp.autotuning:
                asked = min(flow.tcp.effective_send_window, flow.tcp.effective_receive_window)
                counted |= {f"window_asked {name}": asked, f"window_got {name}": got}
        return counted

    def delivered(self) -> dict[str, int]:
        """Bytes that each flow has delivered so far."""
        return self._core.delivered()

    def tables(self) -> dict[str, pl.DataFrame]:
        """Those tables of a dataset that flows and pings fill."""
        return tables(self._core.tables())

    def stop(self) -> None:
        """End it where it is."""
        over = self._core.finished
        self._core.stop()
        if not over:
            self._stopped_s = self._core.recorded_ps / 1e12


def job(
    scenario: Scenario,
    seed: int,
    *,
    hosts: Mapping[str, int] | None = None,
    addresses: Mapping[str, Sequence[str]] | None = None,
) -> plans.Job:
    """The scenario's traffic as the core takes it; see `Traffic` for the arguments."""
    if hosts is None:
        nodes = enumerate(scenario.nodes.items())
        hosts = {name: number for number, (name, node) in nodes if node.kind == "host"}
    own = {name: [str(address)] for name, address in scenario.addresses.items()}
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
        "flows": [flow_plan(scenario, name, flow) for name, flow in scenario.flows.items()],
        "pings": [ping_plan(scenario, name, ping) for name, ping in scenario.pings.items()],
        "bearable": bearable(scenario),
        "real_time": is_light(scenario),
    }


def gaps(scenario: Scenario, *, mtu: int | None = None) -> list[Gap]:
    """What the scenario's traffic asks that Linux's network stack cannot do; see `Traffic`."""
    found: list[Gap] = []
    for name, flow in scenario.flows.items():
        holds = mtu or _mtu(scenario, flow.source)
        if flow.tcp is not None:
            found += _tcp_gaps(f"flows.{name}.tcp", flow.tcp, holds)
        else:
            assert flow.udp is not None
            found += _udp_gaps(f"flows.{name}.udp", flow.udp, holds)
    for name, ping in scenario.pings.items():
        holds = mtu or _mtu(scenario, ping.source)
        if ping.size + DATAGRAM_HEADERS > holds:
            found.append(Gap(f"pings.{name}.size", _fragments(ping.size + DATAGRAM_HEADERS, holds)))
    _, contradictions = _settings(scenario)
    return found + contradictions


def _mtu(scenario: Scenario, host: str) -> int:
    """What a packet holds that a host sends on any of its links."""
    links = [link for link in scenario.links if host in link.ends]
    return min((MTU if link.mtu is None else link.mtu for link in links), default=MTU)


def _fragments(size: int, mtu: int) -> str:
    return f"a packet of {format_size(size)} is sent in fragments by a host whose MTU is {mtu} B"


def _tcp_gaps(path: str, tcp: Tcp, mtu: int) -> Iterator[Gap]:
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
    size = tcp.mss + TCP_HEADERS + TIMESTAMPS * tcp.timestamps
    if size > mtu:
        yield Gap(f"{path}.mss", f"segments of {format_size(size)} do not fit an MTU of {mtu} B")
    if not 0 < tcp.delayed_ack <= 200 * MILLISECOND:
        yield Gap(f"{path}.delayed_ack", "Linux holds acknowledgements back for up to 200 ms")


def _udp_gaps(path: str, udp: Udp, mtu: int) -> Iterator[Gap]:
    header = DATAGRAM_HEADERS if udp.layer == "ip" else 0
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
    if largest + DATAGRAM_HEADERS > mtu:
        yield Gap(f"{path}.{key}", _fragments(largest + DATAGRAM_HEADERS, mtu))


def _settings(scenario: Scenario) -> tuple[dict[str, dict[str, str]], list[Gap]]:
    """What each host's network stack is set to, and what its flows do not agree on."""
    hosts: dict[str, dict[str, str]] = {}
    asked: dict[tuple[str, str], str] = {}
    contradictions: list[Gap] = []
    for ping in scenario.pings.values():
        for end in (ping.source, ping.destination):
            hosts.setdefault(end, dict(_EVERY_HOST))
    for name, flow in scenario.flows.items():
        for end in (flow.source, flow.destination):
            settings = hosts.setdefault(end, dict(_EVERY_HOST))
            for key, (setting, value) in _of_flow(flow).items():
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


def _of_flow(flow: Flow) -> dict[str, tuple[str, str]]:
    """By key: the setting that it is of a host, and its value."""
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
