"""Probing of a network path from this host: hops, loss, marks, parallel paths, MTU."""

from __future__ import annotations

import json
import socket
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final

from perhop._core import (
    measure_available_bandwidth,
    measure_end_to_end,
    respond_path,
    trace_path,
)
from perhop.errors import UnsupportedError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = [
    "ECN",
    "PORT",
    "RESPONDER_PORT",
    "TimeLimitError",
    "available",
    "buckets",
    "names",
    "respond",
    "trace",
]


class TimeLimitError(UsageError):
    """The time limit is over before anything is measured."""


PORT: Final = 33434
"""The destination port of UDP probes: the first one of traceroute, which should be closed."""

RESPONDER_PORT: Final = 4862
"""The UDP port of responders."""

ECN: Final = {"not-ect": 0, "ect1": 1, "ect0": 2, "ce": 3}
"""ECN field by name (RFC 3168, section 5)."""


def trace(
    destination: str,
    *,
    source: str | None = None,
    family: int | None = None,
    protocol: str = "udp",
    dscp: Iterable[int] = (0, 46, 10, 8),
    ecn: int = 2,
    port: int = PORT,
    source_port: int | None = None,
    flow_label: int | None = None,
    count: int = 10,
    max_hops: int = 30,
    rate: int = 100,
    confidence: float = 0.999,
    multipath: bool = True,
    mtu: bool = True,
    capacity: bool = False,
    volume: int = 50_000_000,
    limit_s: int = 300,
) -> dict[str, Any]:
    """Probe the path to a host.

    Args:
        destination: Name or address of the host.
        source: Address or name of this host from which to probe; by default that of the route.
        family: 4 or 6 for that version of IP; by default that of the first address.
        protocol: Protocol of the probes, `udp` or `icmp`.
        dscp: Code points of the probes; each is tried at every hop.
        ecn: ECN field of the probes, from 0 to 3.
        port: Destination port of UDP probes.
        source_port: Source port of the first flow, or identifier of its echo requests; by default
            a free one.
        flow_label: IPv6 flow label of the first flow; by default a random one.
        count: Probes per hop and code point.
        max_hops: Greatest time to live.
        rate: Greatest number of probes per second.
        confidence: Probability with which all next hops of a router are found that shares load
            evenly by flow.
        multipath: True to search for parallel paths.
        mtu: True to measure the path MTU.
        capacity: True to measure the capacity of each hop's link, by trains of packets.
        volume: Bytes that measuring capacities may send.
        limit_s: Seconds after which probing ends.

    Returns:
        The report: the object that `perhop path --json` prints. `unfinished` names what the time
        limit ended; the report has what was measured until then.

    Raises:
        UsageError: `destination` or `source` has no address, or the time limit is over before any
            answer.
        UnsupportedError: This host cannot probe; the message says what to do.
    """
    target = _address(destination, family)
    settings = {
        "destination": target,
        "source": None if source is None else _address(source, ip_address(target).version),
        "protocol": protocol,
        "marks": [code << 2 | ecn for code in dict.fromkeys(dscp)],
        "port": port,
        "source_port": source_port,
        "flow_label": flow_label,
        "count": count,
        "max_hops": max_hops,
        "rate": rate,
        "confidence": confidence,
        "multipath": multipath,
        "mtu": mtu,
        "capacity": capacity,
        "volume": volume,
        "limit_s": limit_s,
    }
    try:
        report: dict[str, Any] = json.loads(trace_path(json.dumps(settings)))
    except TimeoutError as error:
        raise UsageError(f"{destination}: {error}; set a greater limit or rate") from None
    except OSError as error:
        raise UnsupportedError(f"{destination}: {error}") from None
    except ValueError as error:
        raise UsageError(f"{destination}: {error}") from None
    return report


def buckets(
    responder: str,
    *,
    port: int = RESPONDER_PORT,
    family: int | None = None,
    dscp: Iterable[int] = (0,),
    mtu: int = 1280,
    max_rate: int = 1_000_000_000,
    volume: int = 100_000_000,
    limit_s: int = 300,
) -> list[dict[str, Any]]:
    """Find policers and shapers on the path to a responder, by trains of each code point.

    Args:
        responder: Name or address of a host on which `perhop path --respond` runs.
        port: UDP port of the responder.
        family: 4 or 6 for that version of IP; by default that of the first address.
        dscp: Code points of the trains.
        mtu: Length in bytes of the longest IP packets: the path MTU, if it is known.
        max_rate: Greatest rate of a train in bit/s; the responder may allow less.
        volume: Bytes that all trains may have; the responder may allow less.
        limit_s: Seconds after which the measurement ends; later code points are left out.

    Returns:
        For each code point `sent` (its mark), `narrow_bps` (the rate of the narrowest link),
        `bucket` (None if no bucket was exceeded), `train_bps` and `train_bytes` (the largest
        train; 0 if nothing was measured, because no packet arrived or no more bytes may be sent).
        A bucket has its `kind`, `bps` and `burst` in bytes (each with `value`, `low` and `high`;
        None if unknown), the number of `trains`, and whether these were `disturbed`.

    Raises:
        UsageError: The responder does not answer or has no address.
        TimeLimitError: The time limit is over before anything is measured.
    """
    return _end_to_end(
        measure_end_to_end, responder, port, family, dscp, mtu, max_rate, volume, limit_s
    )


def available(
    responder: str,
    *,
    port: int = RESPONDER_PORT,
    family: int | None = None,
    dscp: Iterable[int] = (0,),
    mtu: int = 1280,
    max_rate: int = 1_000_000_000,
    volume: int = 400_000_000,
    limit_s: int = 300,
) -> list[dict[str, Any]]:
    """Measure the available bandwidth to a responder with each code point, by SLoPS.

    Args:
        responder: Name or address of a host on which `perhop path --respond` runs.
        port: UDP port of the responder.
        family: 4 or 6 for that version of IP; by default that of the first address.
        dscp: Code points of the streams.
        mtu: Length in bytes of the longest IP packets: the path MTU, if it is known.
        max_rate: Greatest rate of a stream in bit/s; the responder may allow less.
        volume: Bytes that all streams may have; the responder may allow less.
        limit_s: Seconds after which the measurement ends; later code points are left out.

    Returns:
        For each code point `sent` (its mark), `bps` (with `value`, `low` and `high`; None if
        unknown), `unknown` (the reason: `unanswered`, `limit`, `sender`, `lossy` or `volume`),
        `at_least_bps` and `at_most_bps` (what is known nevertheless; None if nothing), and the
        number of `streams`.

    Raises:
        UsageError: The responder does not answer or has no address.
        TimeLimitError: The time limit is over before anything is measured.
    """
    return _end_to_end(
        measure_available_bandwidth, responder, port, family, dscp, mtu, max_rate, volume, limit_s
    )


def _end_to_end(
    measure: Callable[[str], str],
    responder: str,
    port: int,
    family: int | None,
    dscp: Iterable[int],
    mtu: int,
    max_rate: int,
    volume: int,
    limit_s: int,
) -> list[dict[str, Any]]:
    """Measure the path to a responder with each code point."""
    address = _address(responder, family)
    settings = {
        "responder": f"[{address}]:{port}" if ":" in address else f"{address}:{port}",
        "marks": [code << 2 for code in dict.fromkeys(dscp)],
        "mtu": mtu,
        "max_bps": max_rate,
        "volume": volume,
        "limit_s": limit_s,
    }
    try:
        found: list[dict[str, Any]] = json.loads(measure(json.dumps(settings)))
    except TimeoutError as error:
        raise TimeLimitError(f"{responder}: {error}; set a greater limit") from None
    except OSError as error:
        raise UsageError(f"{responder}: {error}") from None
    return found


def respond(
    address: str = "127.0.0.1",
    port: int = RESPONDER_PORT,
    *,
    max_rate: int = 1_000_000_000,
    max_volume: int = 500_000_000,
    max_sessions: int = 8,
) -> None:
    """Answer the trains of `buckets` and `available` until a signal comes.

    A session that exceeds a limit is forgotten: it gets no more answers.

    Args:
        address: Address to listen on.
        port: UDP port to listen on.
        max_rate: Greatest rate of a session in bit/s.
        max_volume: Bytes that a session may send.
        max_sessions: Sessions at the same time.

    Raises:
        UnsupportedError: The address or the port cannot be used.
    """
    limits = {"max_bps": max_rate, "max_bytes": max_volume, "max_sessions": max_sessions}
    at = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
    try:
        respond_path(at, json.dumps(limits))
    except OSError as error:
        raise UnsupportedError(f"{at}: {error}") from None
    except ValueError as error:
        raise UsageError(f"{at}: {error}") from None


def names(report: dict[str, Any]) -> dict[str, str]:
    """Ask DNS for the names of all nodes of a report; addresses without a name are left out."""
    found = {}
    for hop in report["hops"]:
        for node in hop["addresses"]:
            address = node["address"]
            try:
                found[address] = socket.getnameinfo((address, 0), socket.NI_NAMEREQD)[0]
            except OSError:
                continue
    return found


def _address(host: str, family: int | None) -> str:
    """Return the first address of a host."""
    families = {4: socket.AF_INET, 6: socket.AF_INET6, None: socket.AF_UNSPEC}
    try:
        found = socket.getaddrinfo(host, None, families[family], socket.SOCK_DGRAM)
    except (OSError, UnicodeError):
        version = f"IPv{family} " if family else ""
        raise UsageError(f"{host} has no {version}address; give an address or a name") from None
    return str(found[0][4][0]).partition("%")[0]
