"""The flows and pings of a scenario, as the core takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from perhop.scenario.model.applications import MOST_CONNECTIONS, TABLES, Transfers
from perhop.scenario.model.game import GAMES
from perhop.scenario.model.starts import Starts
from perhop.scenario.model.traffic import IMIX, imix_mean
from perhop.scenario.resolve import TIMESTAMPS, agreed_mtu, mean_gap, tcp_headers

if TYPE_CHECKING:
    from perhop.engines import plans
    from perhop.scenario import Bursts, Flow, Node, Ping, Scenario, Tcp, Udp
    from perhop.scenario.model.applications import Rpc, Web
    from perhop.scenario.model.names import IpVersion
    from perhop.scenario.model.quic import Quic
    from perhop.scenario.model.voice import Voice

_HYSTART: Final[dict[bool | str, Literal["none", "hystart++", "linux"]]] = {
    False: "none",
    True: "hystart++",
    "linux": "linux",
}

__all__ = ["flow_plan", "ping_plan"]


def _mss(scenario: Scenario, flow: Flow, tcp: Tcp) -> int:
    """Return the segment size on which both ends of a flow agree (RFC 9293, section 3.7.1).

    It fits the links at both hosts, and those at routers that clamp it. Path MTU discovery finds
    smaller MTUs between them.
    """
    ip = scenario.ip_of(flow)
    mtu, mss = agreed_mtu(scenario, flow.source, flow.destination), tcp.effective_mss(ip)
    if mtu is None:
        return mss
    headers = tcp_headers(ip) + TIMESTAMPS * tcp.timestamps
    return min(mss, max(mtu - headers, 1))


def flow_plan(scenario: Scenario, name: str, flow: Flow, seed: int) -> plans.FlowPlan:
    """Return a flow as the core takes it; the seed decides random starts."""
    transport: plans.TransportPlan
    if flow.tcp is not None:
        tcp = flow.tcp
        transport = {
            "tcp": {
                "congestion_control": tcp.congestion_control,
                "send_window": tcp.effective_send_window,
                "receive_window": tcp.effective_receive_window,
                "autotuning": tcp.autotuning,
                "quick_acks": tcp.quick_acks,
                "mss": _mss(scenario, flow, tcp),
                "hystart": _HYSTART[tcp.hystart],
                "cubic": tcp.cubic,
                "decrease_from": tcp.decrease_from,
                "reno_friendly": tcp.reno_friendly,
                "sack": tcp.sack,
                "dsack": tcp.effective_dsack,
                "rack": tcp.effective_loss_detection == "rack",
                "adaptive_reordering": tcp.adaptive_reordering,
                "undo": tcp.undo,
                "frto": tcp.frto,
                "prr": tcp.prr,
                "window_scaling": tcp.window_scaling,
                "timestamps": tcp.timestamps,
                "limited_transmit": tcp.limited_transmit,
                "initial_window": tcp.initial_window,
                "rto_rule": tcp.rto_rule,
                "min_rto": tcp.effective_min_rto,
                "delayed_ack": tcp.delayed_ack,
                "ecn": tcp.effective_ecn,
                "pacing": tcp.effective_pacing,
                "small_queues": tcp.small_queues and scenario.nodes[flow.source].backpressure,
                "writes": None
                if tcp.rate is None
                else {"rate": tcp.rate, "block": tcp.effective_write},
            }
        }
    elif flow.quic is not None:
        transport = {"quic": _quic(flow.quic, scenario.nodes[flow.source])}
    else:
        udp = flow.datagrams
        assert udp is not None
        plan = _udp(udp, scenario.nodes[flow.source], scenario.ip_of(flow))
        if flow.voice is not None:
            # Calls that start together do not send together.
            plan["spread"] = flow.voice.effective_ptime - 1
            plan["playout"] = _playout(flow.voice)
        elif flow.game is not None:
            game = GAMES[flow.game]
            plan["spread"] = game.spread
            plan["extreme"] = {"gap": game.gap, "size": game.size}
        transport = {"udp": plan}
    return {
        "name": name,
        "from": flow.source,
        "to": flow.destination,
        "ipv6": scenario.ip_of(flow) == 6,
        "dscp": flow.dscp,
        "port": scenario.port_of(name),
        "source_port": flow.source_port,
        "streams": flow.all_streams,
        "start": flow.starts[0],
        "starts": flow.stream_starts(name, seed) if isinstance(flow.start, Starts) else [],
        # Applications begin nothing at the end of the scenario.
        "stop": scenario.active_ps(flow)[1] if flow.applications else flow.stop,
        "volume": flow.volume,
        "transport": transport,
        "application": _application(scenario, flow),
    }


def _quic(quic: Quic, sender: Node) -> plans.QuicPlan:
    frequency = quic.ack_frequency
    return {
        "congestion_control": quic.congestion_control,
        "hystart": _HYSTART[quic.hystart],
        "streams": quic.streams,
        "window": quic.window,
        "stream_window": quic.effective_stream_window,
        "datagram": quic.datagram,
        "max_datagram": quic.max_datagram,
        "initial_window": quic.initial_window,
        "pacing": quic.pacing,
        "ecn": quic.effective_ecn,
        "ack_frequency": None
        if frequency is None
        else {
            "threshold": frequency.threshold,
            "max_delay": frequency.max_delay,
            "reordering": frequency.reordering,
        },
        "certificates": quic.certificates,
        "waits": sender.backpressure,
    }


def _udp(udp: Udp, sender: Node, ip: IpVersion) -> plans.UdpPlan:
    when_full: plans.WhenFull
    if not sender.backpressure:
        when_full = "drop"
    elif isinstance(udp.when_full, int):
        when_full = {"retry": udp.when_full}
    else:
        when_full = "wait" if udp.when_full == "wait" else "drop"
    replay: plans.ReplayPlan | None = None
    if udp.replay is not None:
        replay = {"packets": list(udp.replay.packets), "repeat": udp.replay.repeat}
    # A replay has its own sizes and times.
    return {
        "rate": 0 if replay else udp.rate or 0,
        "size": 0 if replay else imix_mean(ip) if udp.sizes == "imix" else udp.size,
        "ecn": udp.ecn,
        "when_full": when_full,
        "layer": "ipv6" if udp.layer == "ip" and ip == 6 else udp.layer,
        "gaps": "exponential" if udp.pattern == "poisson" else "constant",
        "sizes": _datagram_sizes(udp, ip),
        "bursts": None if udp.bursts is None else _bursts(udp.bursts),
        "replay": replay,
        "extreme": None,
        "spread": 0,
        "playout": None,
    }


def _datagram_sizes(udp: Udp, ip: IpVersion) -> plans.DatagramSizesPlan:
    if udp.sizes == "imix":
        return {"mix": list(IMIX[ip])}
    return "exponential" if udp.sizes == "exponential" else "constant"


def _playout(voice: Voice) -> plans.PlayoutPlan:
    fixed = voice.jitter_buffer.fixed
    return {
        "frame": voice.effective_ptime,
        "buffer": "adaptive" if fixed is None else {"fixed": fixed},
    }


def _application(scenario: Scenario, flow: Flow) -> plans.ApplicationPlan | None:
    if flow.video is not None:
        video = flow.video
        return {
            "video": {
                "bitrates": list(video.bitrates),
                "segment": video.segment,
                "buffer": video.buffer,
                "startup": video.effective_startup,
                "length": video.length,
                "algorithm": video.algorithm,
                "request": _REQUEST,
            }
        }
    if flow.web is not None:
        return {"web": _web(flow.web)}
    if flow.transfers is not None:
        return {"transfers": _exchanges(scenario, flow, flow.transfers)}
    if flow.rpc is not None:
        return {"rpc": _exchanges(scenario, flow, flow.rpc)}
    return None


def _web(web: Web) -> plans.WebPlan:
    objects: list[plans.ObjectPlan] = []
    first: dict[str, int] = {}
    for name, group in web.objects.items():
        first[name] = len(objects)
        for number in range(group.count):
            after = None
            if group.after is not None:
                after = first[group.after] + number % web.objects[group.after].count
            objects.append(
                {
                    "after": after,
                    "host": 0,
                    "request": web.request,
                    "response": group.size,
                    "server_time": group.server_time,
                }
            )
    return {
        "objects": objects,
        "multiplexed": web.connections == "multiplexed",
        "connections": _PER_HOST,
        "pause": {"mean": web.think, "exponential": web.pattern == "poisson"},
    }


_PER_HOST: Final = 6
"""The most connections of a browser to a host with HTTP/1.1: those of Chrome and Firefox."""

_REQUEST: Final = 200
"""The size of a request for a segment of video, in bytes."""


def _exchanges(scenario: Scenario, flow: Flow, exchanges: Transfers | Rpc) -> plans.ExchangesPlan:
    gaps: plans.GapsPlan = {
        "mean": mean_gap(scenario, flow) or 0,
        "exponential": exchanges.effective_pattern == "poisson",
    }
    return {
        "arrivals": {"open": gaps} if exchanges.think is None else {"closed": gaps},
        "request": {"constant": exchanges.request},
        "response": (
            _sizes(exchanges)
            if isinstance(exchanges, Transfers)
            else {"constant": exchanges.response}
        ),
        "server_time": exchanges.server_time,
        "reuse": exchanges.connections == "reused",
        "connections": MOST_CONNECTIONS,
    }


def _sizes(transfers: Transfers) -> plans.SizesPlan:
    size = transfers.size or 0
    match transfers.sizes:
        case "equal":
            return {"constant": size}
        case "exponential":
            return {"exponential": size}
        case "pareto":
            return {"pareto": (size, transfers.effective_shape)}
        case "lognormal":
            return {"lognormal": (transfers.median_size, transfers.effective_sigma)}
        case table:
            return {"table": [(0, 0), *TABLES[table]]}


def _bursts(bursts: Bursts) -> plans.BurstsPlan:
    lengths: dict[str, plans.LengthsPlan] = {
        "equal": "constant",
        "exponential": "exponential",
        "pareto": {"pareto": bursts.effective_shape},
    }
    return {
        "on": bursts.on,
        "off": bursts.off,
        "lengths": lengths[bursts.lengths],
        "stationary": bursts.begin == "stationary",
    }


def ping_plan(scenario: Scenario, name: str, ping: Ping) -> plans.PingPlan:
    """Return a ping as the core takes it."""
    start, stop = scenario.active_ps(ping)
    return {
        "name": name,
        "from": ping.source,
        "to": ping.destination,
        "ipv6": scenario.ip_of(ping) == 6,
        "dscp": ping.dscp,
        "ecn": ping.ecn,
        "every": ping.every,
        "size": ping.size,
        "start": start,
        "stop": stop,
        "ttl": ping.ttl,
        "train": ping.train,
        "udp_port": ping.effective_port,
    }
