"""A minimal network around a policy: hosts, two routers, and the link with the policy between."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perhop.errors import UsageError
from perhop.routers.headers import link_class
from perhop.routers.reading import scenario_name
from perhop.routers.traffic import FULL_BITS
from perhop.scenario import LinkShape
from perhop.units import format_duration, format_rate, parse_rate, parse_size

if TYPE_CHECKING:
    from collections.abc import Mapping
    from ipaddress import IPv4Address, IPv6Address

    from perhop.routers.reading import Attachment, Configuration
    from perhop.routers.traffic import Traffic
    from perhop.scenario.model.names import IpVersion

__all__ = ["FAST", "network", "rates"]

FAST: Final = 10
"""The rate of the links around the policy, in parts of the link's."""

_FEW_PACKETS: Final = 4500
"""The bytes of a burst that is no more than the packets in flight."""

LONGEST_DELAY_PS: Final = 10**9
DELAY_PACKETS: Final = 20
"""The delay of the link is that in which it sends this many full packets, and at most 1 ms: the
queues of the policy decide about delays, not the path."""


def rates(
    attachment: Attachment, file: str, rate: int | None, remarks: list[str]
) -> tuple[int, int]:
    """Return the rate of the link of a policy, and the rate at which packets can leave, in bit/s.

    Args:
        attachment: The policy.
        file: The name of its configuration in messages.
        rate: The rate of the interface, if given.
        remarks: Assumptions, to which those about the rate are added.

    Raises:
        UsageError: The rate is unknown.
    """
    shape = None if attachment.shape is None else LinkShape.model_validate(attachment.shape)
    link = rate or attachment.rate
    if link is None and shape is not None and shape.rate.rate is not None:
        link = shape.rate.rate
        remarks.append(
            f"{attachment.place(())}: the configuration does not tell the rate of the interface; "
            f"the link has that of the shaper, {format_rate(link)}{_hidden(attachment)}"
        )
    if link is None and (sent := _within_guarantees(attachment.policy)):
        link = sent
        remarks.append(
            f"{attachment.place(())}: the configuration does not tell the rate of the interface; "
            f"the link has what all classes may send at once, {format_rate(link)}"
            f"{_hidden(attachment)}"
        )
    if link is None:
        raise UsageError(
            f"{file}: does not tell the rate of {attachment.interface or attachment.name}; give it "
            "to `perhop import`, `run`, `export` or `diff`, such as --rate '100 Mbps'"
        )
    return link, link if shape is None else min(link, shape.rate.of(link))


def _hidden(attachment: Attachment) -> str:
    """Return what a link at the rate of a shaper does not show: a burst of several packets."""
    given = (attachment.shape or {}).get("burst") or attachment.policy.get("htb", {}).get("burst")
    if given is None or parse_size(given) <= _FEW_PACKETS:
        return ""
    return f", which its burst of {given} cannot exceed: --rate gives that of the interface"


def _within_guarantees(policy: Mapping[str, Any]) -> int:
    """Return the rate at which HTB lets packets leave: its own, or all guarantees of leaves."""

    def guaranteed(classes: Mapping[str, Any]) -> int:
        inside = (each.get("classes") for each in classes.values())
        own = (parse_rate(each.get("bandwidth", "1 bps")) for each in classes.values())
        each = zip(inside, own, strict=True)
        return sum(guaranteed(below) if below else rate for below, rate in each)

    rate = policy.get("htb", {}).get("rate")
    return 0 if rate is None else max(parse_rate(rate), guaranteed(policy["classes"]))


def network(
    configuration: Configuration,
    attachment: Attachment,
    traffic: Traffic,
    rate: int,
    fast: int | None = None,
) -> dict[str, Any]:
    """Return nodes and links: hosts, two routers, and the link with the policy between them.

    Args:
        configuration: The configuration.
        attachment: The policy.
        traffic: The flows and pings, and the addresses of hosts.
        rate: The rate of the link in bit/s.
        fast: The rate of the other links; by default a multiple of that.
    """
    first, second = ("edge", "next") if attachment.direction == "out" else ("previous", "edge")
    router: Any = "router"
    if configuration.balance not in (None, "per-flow"):
        router = {"kind": "router", "balance": configuration.balance}
    nodes = {
        **{name: _host(addresses) for name, addresses in traffic.hosts[0].items()},
        first: router if first == "edge" else "router",
        second: router if second == "edge" else "router",
        **{name: _host(addresses) for name, addresses in traffic.hosts[1].items()},
    }
    middle: dict[str, Any] = {
        "ends": [first, second],
        "rate": format_rate(rate),
        "delay": format_duration(min(LONGEST_DELAY_PS, DELAY_PACKETS * FULL_BITS * 10**12 // rate)),
        "egress": {first: scenario_name(attachment.name)},
    }
    if attachment.shape is not None:
        middle["shape"] = {first: attachment.shape}
    usual = {"delay": middle["delay"]}
    for key, value in attachment.medium.items():
        middle[key] = {first: value, **({second: usual[key]} if key in usual else {})}
    outer = format_rate(fast or FAST * rate)
    # Packets arrive with what the policy matches, and leave with what it marks.
    arriving = {} if (read := link_class(attachment.policy)) is None else _ENCAPSULATIONS[read]
    if (written := _marked(attachment.policy)) is not None:
        middle |= _ENCAPSULATIONS[written]
    links = [
        *({"ends": [name, first], "rate": outer} | arriving for name in traffic.hosts[0]),
        middle,
        *({"ends": [second, name], "rate": outer} for name in traffic.hosts[1]),
    ]
    return {"nodes": nodes, "links": links}


_ENCAPSULATIONS: Final = {
    "pcp": {"encapsulation": "dot1q"},
    "mpls_tc": {"encapsulation": "mpls"},
}


def _marked(policy: Mapping[str, Any]) -> str | None:
    """Return the key of the classes at layer 2 that a policy sets, ``pcp`` before ``mpls_tc``."""
    found: set[str] = set()
    todo = [policy]
    while todo:
        for class_ in todo.pop()["classes"].values():
            todo += [class_] if "classes" in class_ else []
            mark = class_.get("mark")
            found |= {*mark} if isinstance(mark, dict) else set()
    return next((key for key in _ENCAPSULATIONS if key in found), None)


def _host(addresses: Mapping[IpVersion, IPv4Address | IPv6Address]) -> dict[str, str]:
    keys = {4: "address", 6: "address_v6"}
    return {"kind": "host", **{keys[ip]: str(address) for ip, address in addresses.items()}}
