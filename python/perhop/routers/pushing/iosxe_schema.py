"""Commands of IOS that perhop writes, as elements of the native models of IOS-XE.

Names and structure are those of Cisco's YANG modules for IOS-XE 17.9.1: `Cisco-IOS-XE-native` and
its submodule `Cisco-IOS-XE-interfaces` (revision 2022-07-01), `Cisco-IOS-XE-policy` (2022-07-01)
and `Cisco-IOS-XE-types` (2021-11-01), and of `Cisco-IOS-XE-acl` for 17.11.1 (2023-03-01).

Of two elements for the same command, the one in the conditions (`must`) of the module is sent, and
both are read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perhop.routers.pushing.commands import Block, Command
from perhop.routers.reading.ios.ports import PORTS
from perhop.routers.writing.ios_acl import dscp_name

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ACL", "BLOCKS", "INTERFACES", "NATIVE", "OWNED", "POLICY", "interface", "value"]

NATIVE: Final = "http://cisco.com/ns/yang/Cisco-IOS-XE-native"
POLICY: Final = "http://cisco.com/ns/yang/Cisco-IOS-XE-policy"
ACL: Final = "http://cisco.com/ns/yang/Cisco-IOS-XE-acl"

INTERFACES: Final = (
    "FastEthernet",
    "GigabitEthernet",
    "TwoGigabitEthernet",
    "FiveGigabitEthernet",
    "TenGigabitEthernet",
    "TwentyFiveGigE",
    "FortyGigabitEthernet",
    "HundredGigE",
    "Port-channel",
    "Multilink",
    "Serial",
    "Tunnel",
    "Vlan",
    "Dialer",
)
"""The lists of interfaces that have `bandwidth` and `service-policy`. Subinterfaces of Ethernet are
in the list of their interface; those of `Port-channel` and `Serial` are not."""


def _action(
    kind: str,
    *parts: str | tuple[str, ...],
    inside: str = "",
    entries: bool = False,
    once: str = "",
) -> Command:
    """Return an action of a class, which is an entry of the list `action-list`."""
    at = f"action-list[action-type='{kind}']" + (f"/{inside}" if inside else "")
    alternatives = tuple((part,) if isinstance(part, str) else part for part in parts)
    return Command(alternatives, at, entries, once)


def _outcome(outcome: str, *marks: str) -> tuple[str, ...]:
    """Return the actions of a policer on packets of an outcome."""
    action = f"{outcome}-action"
    return (
        *(
            f"{action} set-dscp-transmit {{actions/{outcome}-set-dscp-transmit{mark}}}"
            for mark in marks
        ),
        *(
            f"{action} {done} <actions/{outcome}-{done}/{action}/{done}>"
            for done in ("transmit", "drop")
        ),
    )


_ACTIONS: Final = (
    _action("priority", "priority", ("level {priority/level}", "")),
    _action("bandwidth", ("bandwidth percent {bandwidth/percent}", "bandwidth {bandwidth/bits}")),
    _action(
        "police",
        "police cir {cir} bc {bc}",
        ("pir {pir} be {pir-be/be}", "be {be}", ""),
        _outcome("conform", "/conform-action/set-dscp-transmit"),
        _outcome(
            "exceed",
            "-table/exceed-action/set-dscp-transmit",
            "/exceed-action/set-dscp-transmit-config",
        ),
        (*_outcome("violate", "/violate-action/set-dscp-transmit"), ""),
        inside="police-policy-map/police",
    ),
    _action("set", "set dscp {set/dscp/dscp-val}"),
    _action(
        "shape",
        "shape average {bit-rate} {bits-per-interval-sustained} {bits-per-interval-excess}",
        inside="shape/average",
    ),
    _action("service-policy", "service-policy {service-policy}"),
    _action(
        "queue-limit",
        "queue-limit {queue-limit-value} {queue-limit-type}",
        inside="queue-limit",
    ),
    _action("fair-queue", "fair-queue {fair-queue/dynamic-queues}"),
    _action("random-detect", "random-detect <random-detect/precedence-based>"),
    _action("random-detect", "random-detect dscp-based <random-detect/dscp-based>"),
    _action(
        "random-detect",
        "random-detect dscp {dscp-val} {min-threshold} {max-threshold} {denominator}",
        inside="random-detect/dscp",
        entries=True,
    ),
    _action(
        "random-detect",
        "random-detect precedence {prec} {min-threshold} {max-threshold} {denominator}",
        inside="random-detect/precedence",
        once="the model has thresholds for one precedence only; expected `by: dscp` in `wred`",
    ),
    _action(
        "random-detect",
        "random-detect exponential-weighting-constant "
        "{random-detect/exponential-weighting-constant}",
    ),
    _action("random-detect", "random-detect ecn <random-detect/ecn>"),
)
_KINDS: Final = (
    "bandwidth fair-queue police priority queue-limit random-detect service-policy set shape"
)
_CLASS: Final = Block(
    Command((("class {name}",),)),
    _ACTIONS,
    implied={("action-list", "action-type", kind) for kind in _KINDS.split()},
)


def _address(any_: str, host: str, *network: str) -> tuple[str, ...]:
    return (
        f"any <ace-rule/{any_}>",
        f"host {{ace-rule/{host}}}",
        " ".join(f"{{ace-rule/{each}}}" for each in network),
    )


def _ports(of: str) -> tuple[str, ...]:
    return (
        f"eq {{ace-rule/{of}-eq}}",
        f"range {{ace-rule/{of}-range1}} {{ace-rule/{of}-range2}}",
        "",
    )


def _rule(source: tuple[str, ...], destination: tuple[str, ...]) -> Command:
    """Return an entry of an access list, with its sequence number."""
    return Command(
        (
            ("{sequence} {ace-rule/action} {ace-rule/protocol}",),
            source,
            _ports("src"),
            destination,
            _ports("dst"),
            ("dscp {ace-rule/dscp}", ""),
        ),
        "access-list-seq-rule",
        entries=True,
    )


def interface(kind: str) -> Block:
    """Return the block of an interface from one of `INTERFACES`."""
    return Block(
        Command(((f"interface {kind} {{name}}",),)),
        (
            Command((("bandwidth {bandwidth/kilobits}",),)),
            Command((("service-policy input {service-policy/input}",),)),
            Command((("service-policy output {service-policy/output}",),)),
        ),
    )


OWNED: Final[Mapping[str, Block]] = {
    "ip/access-list/extended": Block(
        Command((("ip access-list extended {name}",),)),
        (
            _rule(
                _address("any", "host-address", "ipv4-address", "mask"),
                _address("dst-any", "dst-host-address", "dest-ipv4-address", "dest-mask"),
            ),
        ),
    ),
    "ipv6/access-list/named-acl": Block(
        Command((("ipv6 access-list {name}",),)),
        (
            _rule(
                _address("any", "source-host", "source-prefix"),
                _address("destination-any", "destination-host", "destination-prefix"),
            ),
        ),
    ),
    "policy/class-map": Block(
        Command((("class-map {prematch} {name}",),)),
        (
            Command((("match dscp {match/dscp*}",),)),
            Command((("match access-group name {.}",),), "match/access-group/name", entries=True),
        ),
    ),
    "policy/policy-map": Block(Command((("policy-map {name}",),)), inside={"class": _CLASS}),
}
"""Lists whose entries a push replaces as a whole, if the policy has one of the same name."""

BLOCKS: Final[Mapping[str, Block]] = {
    **OWNED,
    **{f"interface/{kind}": interface(kind) for kind in INTERFACES},
}
"""The blocks of a configuration by the list, in the order in which they refer to each other."""

_PORTS: Final = {f"{of}-{name}" for of in ("src", "dst") for name in ("eq", "range1", "range2")}
_CODE_POINTS: Final = {"dscp", "dscp-val", "set-dscp-transmit", "set-dscp-transmit-config"}


def value(name: str, text: str) -> str:
    """Return a value of an element as perhop writes it, in one line.

    The models have names for numbers of ports, and numbers for names of code points.
    """
    if name in _PORTS:
        return str(PORTS.get(text, text))
    if name in _CODE_POINTS and text.isascii() and text.isdigit() and int(text) < 64:
        return dscp_name(int(text))
    return " ".join(text.split())
