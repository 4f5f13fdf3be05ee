"""A statement of a configuration, and how to see what perhop makes of it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import pytest

import perhop
from perhop.routers.network import rates
from perhop.routers.reading import Source
from perhop.routers.reading.selection import policy as policy_of
from perhop.routers.reading.selection import select
from perhop.scenario import parse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perhop.routers.reading import Attachment, Configuration, Direction, Line
    from perhop.scenario import Scenario

FILE: Final = "statement.cfg"
WARM_UP_S: Final = 1
MEASURED_S: Final = 2
SIZE: Final = 1500
"""The bytes of an IP packet of a flow that does not say it."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement with a value that is not its default, and what the router does with it.

    Attributes:
        words: The keywords, as the router's document has them, such as ``shape average``; each
            alternative of a keyword has a statement of its own.
        text: A configuration with the statement, whose line is modelled.
        other: The configuration with another value, or without the statement: something that is
            expected does not hold for it.
        source: The document and section that say what the router does.
        values: Values of the policy by dotted path, such as ``classes.voice.queue.limit``; None if
            there is no such value. For what no throughput shows.
        flows: Flows of UDP that are sent at once, as scenarios have them, but for `source` and
            `destination` (addresses), `mbps` (the rate of the IP packets), `size` (their bytes)
            and `protocol`, which may be ``tcp``.
        expected: What becomes of flows: the class, with a slash between a class and one inside it,
            or the throughput in Mb/s of IP packets.
        rate: The rate of the link in bit/s; None if the configuration tells it.
        direction: The direction of the policy.
        within: The relative tolerance of throughputs.
    """

    words: str
    text: str
    other: str
    source: str
    values: Mapping[str, Any] = field(default_factory=dict)
    flows: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    expected: Mapping[str, str | float] = field(default_factory=dict)
    rate: int | None = 10_000_000
    direction: Direction = "out"
    within: float = 0.03


@dataclass(frozen=True, slots=True)
class Approximated:
    """A statement that perhop reads, but that differs from the router, or was not compared with it.

    Attributes:
        words: The keywords, as for `Statement`.
        text: A configuration with the statement.
        how: What the note of the statement's line contains.
    """

    words: str
    text: str
    how: str


def read(family: str, text: str, rate: int | None = None) -> Configuration:
    """Return a configuration."""
    reader = import_module(f"perhop.routers.reading.{family}")
    at = {} if rate is None else {"": rate}
    configuration: Configuration = reader.read([Source(FILE, text)], at)
    return configuration


def lines(configuration: Configuration, words: str) -> list[Line]:
    """Return the lines that have all keywords in their order."""
    found = []
    for line in configuration.lines:
        rest = iter(line.text.translate(_BRACKETS).split())
        if all(word in rest for word in words.split()):
            found.append(line)
    return found


_BRACKETS: Final = str.maketrans(dict.fromkeys(";{}=,()[]<>", " "))


def expected(statement: Statement) -> dict[str, Any]:
    """Return what the router does, as a test compares it with what `found` returns."""
    throughputs = {
        name: each if isinstance(each, str) else pytest.approx(each, rel=statement.within)
        for name, each in statement.expected.items()
    }
    return dict(statement.values) | throughputs


def found(family: str, statement: Statement, text: str) -> dict[str, Any]:
    """Return what perhop has for each value and flow that a statement expects."""
    configuration = read(family, text, statement.rate)
    attachment = select(configuration, FILE, direction=statement.direction, any_of_several=True)
    policy = policy_of(configuration, attachment, unused=True)
    values = {path: _value(policy, path) for path in statement.values}
    if not statement.expected:
        return values
    classes = {
        name: _class(attachment, policy, statement, flow)
        for name, flow in statement.flows.items()
        if isinstance(statement.expected.get(name), str)
    }
    named = all(isinstance(each, str) for each in statement.expected.values())
    return values | ({} if named else _throughputs(attachment, policy, statement)) | classes


def _value(policy: Mapping[str, Any], path: str) -> Any:
    value: Any = policy
    for key in path.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _class(
    attachment: Attachment, policy: dict[str, Any], statement: Statement, flow: Mapping[str, Any]
) -> str:
    """Return the class that counts the packets of a flow."""
    dataset = perhop.run(_scenario(attachment, policy, statement, {"f": {**flow, "mbps": 0.1}}, 1))
    counted = {
        row["class"]
        for row in dataset.queues.iter_rows(named=True)
        if row["link"] == "r>s" and row["sent_packets"] + row["dropped_packets"]
    }
    # A class and the one inside it that has the packet count both.
    return max(counted, key=len, default="")


def _throughputs(
    attachment: Attachment, policy: dict[str, Any], statement: Statement
) -> dict[str, float]:
    """Return the throughput of each flow in Mb/s of IP packets, when all of them send."""
    duration = WARM_UP_S + MEASURED_S
    dataset = perhop.run(_scenario(attachment, policy, statement, statement.flows, duration))
    sums = dict.fromkeys(statement.flows, 0.0)
    for row in dataset.intervals.iter_rows(named=True):
        if row["start_s"] >= WARM_UP_S:
            sums[row["flow"]] += row["packets"]
    return {
        name: packets * statement.flows[name].get("size", SIZE) * 8e-6 / MEASURED_S
        for name, packets in sums.items()
    }


def _scenario(
    attachment: Attachment,
    policy: dict[str, Any],
    statement: Statement,
    flows: Mapping[str, Mapping[str, Any]],
    duration_s: int,
) -> Scenario:
    """Return a network of two routers, with the policy between them and hosts for the flows."""
    hosts: dict[tuple[str, str], str] = {}
    links: list[dict[str, Any]] = []
    nodes: dict[str, Any] = {"r": "router", "s": "router"}

    def host(side: str, address: str) -> str:
        name = hosts.setdefault((side, address), f"{side}{len(hosts)}")
        if name not in nodes:
            nodes[name] = {"kind": "host", "address_v6" if ":" in address else "address": address}
            ends = [name, "r"] if side == "a" else ["s", name]
            links.append({"ends": ends, "rate": "100 Gbps"})
        return name

    sections: dict[str, Any] = {}
    for name, flow in flows.items():
        rest = dict(flow)
        six = rest.get("ip") == 6
        source = rest.pop("source", "2001:2::1" if six else "198.18.0.1")
        destination = rest.pop("destination", "2001:2:0:1::1" if six else "198.19.0.1")
        rate, size = rest.pop("mbps"), rest.pop("size", SIZE)
        if rest.pop("protocol", "udp") == "tcp":
            rest["tcp"] = {}
        else:
            rest["udp"] = {"rate": f"{1000 * rate:.0f} kbps", "size": f"{size} B", "layer": "ip"}
        sections[name] = {"from": host("a", source), "to": host("b", destination), **rest}
    rate, _ = rates(attachment, FILE, statement.rate, [])
    middle: dict[str, Any] = {"ends": ["r", "s"], "rate": f"{rate} bps", "egress": {"r": "p"}}
    if attachment.shape is not None:
        middle["shape"] = {"r": attachment.shape}
    mapping = {
        "perhop": 1,
        "name": "statement",
        "nodes": nodes,
        "links": [*links, middle],
        "policies": {"p": policy},
        "flows": sections,
        "duration": f"{duration_s} s",
        "report": {"interval": "1 s"},
    }
    return parse(json.dumps(mapping), FILE)
