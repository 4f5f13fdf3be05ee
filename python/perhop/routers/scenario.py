"""The scenario that a configuration amounts to: its policy in a minimal network, with traffic.

The policy stands at one link. Fast links lead to it and away from it, so that packets wait at the
policy and nowhere else. Each class has one flow, whose packets this class matches and no earlier
one, and which offers more than the link can carry. Strict classes start one after another, after
the others: each phase shows what they leave.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from ipaddress import IPv4Address
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from perhop.errors import UsageError
from perhop.routers.headers import DESTINATION, DSCP, PORT, SOURCE, headers
from perhop.routers.reading import described, detect, scenario_name, select
from perhop.routers.reading.selection import policy as policy_of
from perhop.scenario import Shape, format_dscp
from perhop.scenario.reading.document import Document, Mark
from perhop.scenario.reading.loader import places, validated
from perhop.units import format_duration, format_rate

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Mapping, Sequence

    from perhop.routers.headers import ClassPath, Headers
    from perhop.routers.reading import Attachment, Configuration, Direction
    from perhop.scenario import Overrides, Scenario

__all__ = ["Imported", "around", "build"]

SENDER: Final = IPv4Address("198.18.0.1")
RECEIVER: Final = IPv4Address("198.19.0.1")
"""Addresses of the hosts where a class does not need others: of the networks for measurements (RFC
2544, appendix C.2.2)."""

FIRST_PORT: Final = 5001
"""The destination port of the first flow whose class does not need another."""

OFFERED: Final = 1.1
"""The rate of a flow over UDP, in parts of the link's capacity."""

STREAMS: Final = 4
"""The connections of a flow over TCP: a single one may leave a short queue empty."""

FAST: Final = 10
"""The rate of the links around the policy, in parts of the link's."""

LONGEST_DELAY_PS: Final = 10**9
DELAY_PACKETS: Final = 20
"""The delay of the link is that in which it sends this many full packets, and at most 1 ms: the
queues of the policy decide about delays, not the path."""

MOST_PHASES: Final = 5
"""The most phases; if there are more strict classes, they all start in the second one."""

FEW_PACKETS, MANY_PACKETS, MOST_PACKETS = 50_000, 200_000, 4_200_000
"""The full packets that a link carries in a phase: so many that classes with a small share settle;
up to `MANY_PACKETS` for a phase of `LONG_S`, and up to `MOST_PACKETS` for one of `SHORT_S`."""

SHORT_S, LONG_S = 0.5, 2.0
"""The length of a phase in seconds in which TCP recovers from a timeout, and from several."""

_FULL_BITS: Final = 12_000
"""The bits of a full packet of 1500 bytes."""

_STEPS_S: Final = tuple(step * 10.0**power for power in range(-12, 8) for step in (1, 2, 5))
"""The lengths of phases in seconds."""


@dataclass(frozen=True, slots=True)
class Imported:
    """A configuration as a scenario.

    Attributes:
        configuration: All that the configuration says about quality of service.
        attachment: The policy that the scenario has.
        document: The scenario; values of the policy have the places of their lines.
        remarks: Assumptions, and classes without traffic, with the reasons.
        flows: The flow or ping of each class, and the class.
    """

    configuration: Configuration
    attachment: Attachment
    document: Document
    remarks: tuple[str, ...]
    flows: dict[str, ClassPath]

    def scenario(self, overrides: Overrides = ()) -> Scenario:
        """Return the scenario.

        Args:
            overrides: Changes to make first.

        Raises:
            ScenarioError: The policy is not one that perhop can run, with the line of each problem.
        """
        return validated(self.document, overrides)

    def places(self, paths: Iterable[str]) -> dict[str, str]:
        """Return the line of the configuration that each value of the scenario is from.

        Args:
            paths: Dotted paths of values.
        """
        return places(self.document, paths)


def build(
    files: Sequence[str | os.PathLike[str]],
    *,
    family: str | None = None,
    interface: str | None = None,
    direction: Direction | None = None,
    rate: int | None = None,
) -> Imported:
    """Return the scenario that a configuration amounts to.

    Args:
        files: The files of the configuration.
        family: Its family; detected by default.
        interface: The interface; by default the first with a policy.
        direction: The direction; by default ``out`` if the interface has a policy there.
        rate: The rate of the interface in bit/s; by default that in the configuration.

    Raises:
        UsageError: A file cannot be read, the configuration has no such policy, or the rate is
            unknown.
    """
    configuration = detect.read(files, family)
    return around(configuration, str(files[0]), interface, direction, rate)


def around(
    configuration: Configuration,
    file: str,
    interface: str | None = None,
    direction: Direction | None = None,
    rate: int | None = None,
) -> Imported:
    """Return a policy of a configuration with a network around it, as `build` does.

    Args:
        configuration: The configuration.
        file: Its name in messages.
        interface: As for `build`.
        direction: As for `build`.
        rate: As for `build`.
    """
    attachment = select(
        configuration, file, interface=interface, direction=direction, any_of_several=True
    )
    remarks: list[str] = []
    link, capacity = rates(attachment, file, rate, remarks)
    if attachment.direction == "in":
        remarks.append(
            f"{attachment.place(())}: the policy for received packets stands at the sending end of "
            "the link, so that packets wait for the link behind it, not before it"
        )
    policy = policy_of(configuration, attachment, unused=False)
    traffic, classes, duration_ps = _traffic(policy, capacity, remarks)
    policy["notes"] += remarks
    mapping = {
        "perhop": 1,
        "name": scenario_name(Path(file).stem),
        "title": f"{described(attachment)} of {Path(file).name}",
        "description": _about(attachment, file),
        **network(configuration, attachment, traffic, link),
        "policies": {scenario_name(attachment.name): policy},
        **traffic.sections(),
        "duration": format_duration(duration_ps),
        "report": {"interval": format_duration(duration_ps // 20)},
    }
    document = Document(file, mapping, marks(attachment))
    return Imported(configuration, attachment, document, tuple(remarks), classes)


def _about(attachment: Attachment, file: str) -> str:
    where = f"at {attachment.interface}" if attachment.interface else "at no interface"
    return (
        f"The policy {attachment.name} {where} in {file}, in a network made for it. Each class has "
        "a flow that offers more than the link carries; strict classes start later, one after "
        "another."
    )


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
    shape = None if attachment.shape is None else Shape.model_validate(attachment.shape)
    link = rate or attachment.rate
    if link is None and shape is not None and shape.rate.rate is not None:
        link = shape.rate.rate
        remarks.append(
            f"{attachment.place(())}: the configuration does not tell the rate of the interface; "
            f"the link has that of the shaper, {format_rate(link)}"
        )
    if link is None:
        raise UsageError(
            f"{file}: does not tell the rate of {attachment.interface or attachment.name}; "
            "give it, such as --rate '100 Mbps'"
        )
    return link, link if shape is None else min(link, shape.rate.of(link))


@dataclass(slots=True)
class Traffic:
    """Flows and pings between hosts around a policy.

    Attributes:
        flows: The flows by name, as scenarios state them.
        pings: The pings by name.
        hosts: The addresses of sending hosts by name, and those of receiving hosts.
    """

    flows: dict[str, dict[str, Any]] = field(default_factory=dict)
    pings: dict[str, dict[str, Any]] = field(default_factory=dict)
    hosts: tuple[dict[str, IPv4Address], dict[str, IPv4Address]] = field(
        default_factory=lambda: ({}, {})
    )

    def add(self, name: str, chosen: Headers, *, strict: bool, capacity: int) -> None:
        """Add a flow or ping of packets with some headers, which offers more than a capacity.

        Args:
            name: Its name.
            chosen: The headers.
            strict: Prefer UDP, as the class is served before others.
            capacity: The capacity in bit/s.
        """
        sender = self._ends(chosen)
        dscp = chosen.first(DSCP, [0])
        if dscp:
            sender["dscp"] = format_dscp(dscp)
        protocols = chosen.protocols
        if protocols == ["icmp"]:
            self.pings[name] = sender | {"every": "10 ms", "size": "1400 B"}
            return
        ports = {flow["port"] for flow in self.flows.values()}
        preferred = range(FIRST_PORT, FIRST_PORT + len(ports) + 1)
        port = chosen.first(PORT, (each for each in preferred if each not in ports))
        if port in ports:
            low, high = chosen.box[PORT][0]
            port = next((each for each in range(low, high + 1) if each not in ports), port)
        sender["port"] = port
        if "udp" in protocols and (strict or "tcp" not in protocols):
            sender["udp"] = {"rate": format_rate(max(round(OFFERED * capacity), 1))}
        else:
            sender["streams"] = STREAMS
        self.flows[name] = sender

    def sections(self) -> dict[str, dict[str, Any]]:
        """Return the sections `flows` and `pings` of a scenario."""
        return {key: found for key in ("flows", "pings") if (found := getattr(self, key))}

    def _ends(self, chosen: Headers) -> dict[str, Any]:
        """Return the hosts of packets with some headers; new ones where no host has the address."""
        ends = []
        for index, kind, usual, known in (
            (SOURCE, "sender", SENDER, self.hosts[0]),
            (DESTINATION, "receiver", RECEIVER, self.hosts[1]),
        ):
            address = chosen.address(index, [usual, *known.values()])
            names = {taken: name for name, taken in known.items()}
            if address not in names:
                names[address] = kind if not known else f"{kind}-{len(known) + 1}"
                known[names[address]] = address
            ends.append(names[address])
        return {"from": ends[0], "to": ends[1]}


def _traffic(
    policy: dict[str, Any], capacity: int, remarks: list[str]
) -> tuple[Traffic, dict[str, ClassPath], int]:
    """Return a flow for each class, these classes, and the duration in picoseconds.

    Classes without a flow become `unused`.
    """
    found = headers(policy)
    groups = _groups(policy, found)
    length_ps = phase_ps(capacity)
    traffic = Traffic()
    classes: dict[str, ClassPath] = {}
    for path, chosen in found.items():
        if chosen is None:
            _class(policy, path)["unused"] = True
            remarks.append(
                f"class {'/'.join(path)} has no flow: no packet that hosts send over IPv4 from a "
                "source port of their choice reaches it"
            )
            continue
        name = scenario_name("-".join(path), {*classes, "total"})
        classes[name] = path
        traffic.add(name, chosen, strict=is_strict(policy, path), capacity=capacity)
        phase = next(number for number, group in enumerate(groups) if path in group)
        if phase:
            (traffic.flows | traffic.pings)[name]["start"] = format_duration(phase * length_ps)
    return traffic, classes, len(groups) * length_ps


def _groups(policy: dict[str, Any], paths: Iterable[ClassPath]) -> list[list[ClassPath]]:
    """Return the classes that start together: strict ones one by one, the first one last."""
    loose = [path for path in paths if not is_strict(policy, path)]
    strict = [path for path in paths if path not in loose]
    groups = [group for group in (loose, *([path] for path in reversed(strict))) if group]
    if len(groups) > MOST_PHASES:
        groups = [groups[0], [path for group in groups[1:] for path in group]]
    return groups


def phase_ps(capacity: int) -> int:
    """Return the length of a phase in picoseconds, at a capacity in bit/s."""
    packet_s = _FULL_BITS / capacity
    wanted = max(FEW_PACKETS * packet_s, SHORT_S, min(LONG_S, MANY_PACKETS * packet_s))
    wanted = min(wanted, MOST_PACKETS * packet_s)
    return round(max(step for step in _STEPS_S if step <= 1.001 * wanted) * 10**12)


def is_strict(policy: Mapping[str, Any], path: ClassPath) -> bool:
    """Return whether a class, or a class that contains it, is served before others."""
    inside: Mapping[str, Any] = policy
    by_order = policy.get("scheduler") == "priority"
    for name in path:
        class_ = inside["classes"][name]
        last = name == list(inside["classes"])[-1]
        if class_.get("priority") == "strict" or (by_order and not last):
            return True
        inside = class_
    return False


def _class(policy: dict[str, Any], path: ClassPath) -> dict[str, Any]:
    found = policy
    for name in path:
        found = found["classes"][name]
    return found


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
        **{name: _host(address) for name, address in traffic.hosts[0].items()},
        first: router if first == "edge" else "router",
        second: router if second == "edge" else "router",
        **{name: _host(address) for name, address in traffic.hosts[1].items()},
    }
    middle: dict[str, Any] = {
        "ends": [first, second],
        "rate": format_rate(rate),
        "delay": format_duration(
            min(LONGEST_DELAY_PS, DELAY_PACKETS * _FULL_BITS * 10**12 // rate)
        ),
        "egress": {first: scenario_name(attachment.name)},
    }
    if attachment.shape is not None:
        middle["shape"] = {first: attachment.shape}
    outer = format_rate(fast or FAST * rate)
    links = [
        *({"ends": [name, first], "rate": outer} for name in traffic.hosts[0]),
        middle,
        *({"ends": [second, name], "rate": outer} for name in traffic.hosts[1]),
    ]
    return {"nodes": nodes, "links": links}


def _host(address: IPv4Address) -> dict[str, str]:
    return {"kind": "host", "address": str(address)}


def marks(attachment: Attachment) -> dict[tuple[str | int, ...], Mark]:
    """Return the places of the values of a scenario that come from a configuration."""
    name = scenario_name(attachment.name)
    top = attachment.place(())
    found: dict[tuple[str | int, ...], Mark] = {(): _mark(top.file, 1)}
    for loc, place in {(): top, **attachment.places}.items():
        found["policies", name, *loc] = _mark(place.file, place.line)
    return found


def _mark(file: str, line: int) -> Mark:
    return Mark(max(line, 1), 1, max(line, 1), 1, file)
