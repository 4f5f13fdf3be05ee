"""Policies compared by what they do, whatever they are called and however they are written."""

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from ipaddress import IPv6Address
from itertools import product
from math import prod
from typing import Any

from perhop import Scenario, parse
from perhop.routers.reading import Attachment, Packet
from perhop.routers.reading.matching import Rules
from perhop.routers.writing.plan import Division, End, Part, ends
from perhop.scenario.model.cbq import ALTQ_CBQ, Cbq
from perhop.scenario.model.encapsulation import Mark
from perhop.scenario.model.hfsc import HFSC
from perhop.scenario.model.names import IpVersion
from perhop.scenario.model.queues import Queue, Sfq, Wred, wred_defaults
from perhop.scenario.resolve import service_curves
from perhop.units import format_rate

LINK = "r>s"

_USUAL_V6 = IPv6Address("3fff::1")

MOST_PACKETS = 2000
"""The most packets by which policies are compared; of more, some are drawn."""


Versions = tuple[IpVersion, ...]
BOTH: Versions = (4, 6)

Parts = tuple[tuple[Part, ...], int]
"""The classes of a policy, and the number of one of them."""


def end_of(scenario: Scenario, link: str = LINK) -> End:
    """Return the sender's end of a directed link."""
    return ends(scenario, [link])[0]


def as_scenario(sends: Attachment | None, receives: Attachment | None, rate: int) -> Scenario:
    """Return a network whose router r has these policies at its link of `rate` bit/s to s."""
    link: dict[str, Any] = {"ends": ["r", "s"], "rate": format_rate(rate)}
    policies = {}
    if sends is not None:
        link["egress"] = {"r": "out"}
        policies["out"] = sends.policy
        if sends.shape is not None:
            link["shape"] = {"r": sends.shape}
    if receives is not None:
        link["remark"] = {"r": _remarks(receives.policy["classes"])}
    return parse(
        json.dumps(
            {
                "perhop": 1,
                "name": "read",
                "nodes": {"r": "router", "s": "router"},
                "links": [link],
                "policies": policies,
                "duration": "1 s",
            }
        )
    )


def _remarks(classes: dict[str, Any]) -> list[dict[str, Any]]:
    """Return rules of marking: without the packets of classes that do not mark."""
    kept: list[dict[str, Any]] = []
    rules = []
    for each in classes.values():
        match = each["match"]
        if "mark" in each:
            elements = match if isinstance(match, list) else [match]
            rules.append({"match": [*kept, *elements], "dscp": each["mark"]})
        elif match != "any":
            assert isinstance(match, dict), "perhop has no rule that keeps what a list matches"
            kept.append({"except": match})
    return rules


def differences(
    wanted: End, found: End, *, weights: bool = False, versions: Versions = BOTH
) -> list[str]:
    """Return how two ends of links differ; nothing if they treat all packets alike.

    Args:
        wanted: One end.
        found: The other one.
        weights: True if only the proportions of guarantees count, to a thousandth, and buckets of
            policers to a microsecond of their rate: Linux has weights in whole bytes.
        versions: The versions of IP of the packets that count.
    """
    wanted, found = _shaped(wanted), _shaped(found)
    return [
        *_differ("rate", wanted.link.rate, found.link.rate),
        *_differ("shape", _shape(wanted), _shape(found)),
        *_divisions("", wanted.division, found.division, (), weights, versions),
        *_marks(wanted, found, versions),
    ]


def _differ(what: str, wanted: object, found: object) -> list[str]:
    return [] if wanted == found else [f"{what}: {wanted} became {found}"]


def _shaped(end: End) -> End:
    """Return an end whose shaper is the slower one of it and the ceiling of its only class."""
    if end.division is None or len(end.division.parts) > 1:
        return end
    (only,) = end.division.parts
    if only.ceiling is None:
        return end
    shape = _shape(end)
    slower = only.ceiling if shape is None or only.ceiling.rate < shape[0] else end.shape
    inside = replace(end.division, parts=(replace(only, ceiling=None),))
    return replace(end, shape=slower, division=inside)


def _shape(end: End) -> tuple[int, int] | None:
    if end.shape is None or end.shape.rate >= end.link.rate:
        return None  # the link itself sends no faster
    return end.shape.rate, end.shape.burst


def _divisions(
    path: str,
    wanted: Division | None,
    found: Division | None,
    above: tuple[Parts, ...],
    weights: bool,
    versions: Versions,
    marks: tuple[Mark | None, Mark | None] = (None, None),
) -> Iterator[str]:
    """Yield how two policies differ for packets that classes `above` contain."""
    if wanted is None or found is None:
        yield from _differ(f"{path}: policy", wanted, found)
        return
    yield from _differ(f"{path}: scheduler", _scheduler(wanted), _scheduler(found))
    pairs: dict[int, set[int]] = {}
    parts = [each.parts for each in (wanted, found)]
    outer = [part.rules for own, _ in above for part in own]
    sets = iter([*outer, *(each.rules for own in parts for each in own)])
    for packet in packets(sets, versions):
        if any(_class(own, packet) != number for own, number in above):
            continue
        first, second = (_class(own, packet) for own in parts)
        pairs.setdefault(first, set()).add(second)
    for number, others in pairs.items():
        one = parts[0][number]
        if len(others) != 1 or sum(others <= each for each in pairs.values()) != 1:
            yield f"{path}/{one.name}: its packets are those of {others}"
            continue
        other = parts[1][others.pop()]
        here = f"{path}/{one.name}"
        here_wanted, here_found = treatment(one, wanted), treatment(other, found)
        # Packets of a class have its mark, or else that of the class around it.
        own = one.class_.mark or marks[0], other.class_.mark or marks[1]
        if one.inside is None and other.inside is None:
            here_wanted["mark"], here_found["mark"] = own
        if weights and abs(_weight(one, wanted) - _weight(other, found)) < 0.001:
            here_found["rate"] = here_wanted["rate"]
        one_police, other_police = here_wanted["police"], here_found["police"]
        if weights and one_police and other_police:
            # tc tells Linux the time of a bucket in microseconds, which the writer rounds up.
            rate, burst, *more = other_police
            if 0 < burst - one_police[1] <= 1 + rate / 8e6:
                here_found["police"] = (rate, one_police[1], *more)
        yield from _differ(here, here_wanted, here_found)
        if one.inside is not None or other.inside is not None:
            inner = (*above, (parts[0], number))
            yield from _divisions(here, one.inside, other.inside, inner, weights, versions, own)


def _weight(part: Part, division: Division) -> float:
    """Return the part of a class in what its policy guarantees to classes that share."""
    shared = (p.rate or 0 for p in division.parts if not (p.strict or p.class_.discards))
    return 0.0 if part.strict else (part.rate or 0) / max(sum(shared), 1)


def _scheduler(division: Division) -> tuple[Any, ...]:
    """Return the scheduler; a policy in which all but the last are strict needs none."""
    if all(part.strict for part in division.parts[:-1]):
        return ("strict",)
    ranks = sorted({int(p.class_.priority or 0) for p in division.parts if not p.strict})
    order = tuple(ranks.index(int(p.class_.priority or 0)) for p in division.parts if not p.strict)
    cbq = None
    if division.scheduler == ALTQ_CBQ:
        cbq = (division.cbq or Cbq()).model_copy(update={"rate": division.capacity})
    return division.scheduler, order, cbq


def treatment(part: Part, division: Division) -> dict[str, Any]:
    """Return the settings of a class, with resolved values."""
    police, ceiling = part.class_.police, part.ceiling
    # What strict classes leave is the last one's, whether it is strict or not.
    rest = part is division.parts[-1] and _scheduler(division) == ("strict",)
    return {
        "strict": part.strict and not rest,
        "rate": None if rest else part.rate,
        "ceiling": None if ceiling is None else (ceiling.rate, ceiling.burst),
        "curves": service_curves(part.class_, part.rate or part.capacity, part.capacity)
        if division.scheduler == HFSC
        else None,
        "police": None
        if police is None
        else (
            police.rate.of(part.capacity),
            police.burst,
            police.excess_burst,
            police.peak_rate and police.peak_rate.of(part.capacity),
            police.peak_burst,
            *(
                (action.drops, None if action.remark == part.mark else action.remark)
                for action in police.actions[: 3 if police.three_colours else 2]
            ),
        ),
        "queue": None if part.inside is not None else _queue(part, part.queue),
    }


def _queue(part: Part, queue: Queue) -> tuple[Any, ...]:
    limit = queue.effective_limit(in_class=part.in_class)
    size = limit if limit.unit == "packets" else limit.size(part.rate or part.capacity)
    found = queue.discipline
    if isinstance(found, Wred):
        rows: dict[int, tuple[int, int, int]] = {
            dscp: (each.min, each.max, 10**8)
            for dscp, each in wred_defaults(found.by, in_class=part.in_class).items()
        }
        for profile in found.profiles:
            for dscp in profile.dscp:
                rows[dscp] = (profile.min.amount, profile.max.amount, profile.probability)
        return size, queue.drop, rows, found.weight, found.ecn
    if isinstance(found, Sfq):  # it has no more queues than packets
        found = found.model_copy(update={"flows": min(found.flows, limit.amount)})
    return size, queue.drop, found


def _marks(wanted: End, found: End, versions: Versions) -> Iterator[str]:
    sets = (mark.rules for end in (wanted, found) for mark in end.marks)
    for packet in packets(sets, versions):
        one, other = (
            next((m.dscp for m in end.marks if m.rules.matches(packet)), packet.dscp)
            for end in (wanted, found)
        )
        if one != other:
            yield f"{packet}: marked {one}, became {other}"
            return


def _class(parts: tuple[Part, ...], packet: Packet) -> int:
    return next(n for n, part in enumerate(parts) if part.rules.matches(packet))


@dataclass(slots=True)
class _Values:
    """Values at which some condition changes."""

    dscps: set[int]
    ports: set[int]
    addresses: set[Any]
    tags: set[int] = field(default_factory=set)
    labels: set[int] = field(default_factory=set)


def packets(sets: Iterator[Rules], versions: Versions = BOTH) -> list[Packet]:
    """Return packets of these versions with combinations of values at which conditions change."""
    found = _Values({0}, {1}, set())
    for rules in sets:
        for _, each in rules.rules:
            found.dscps |= each.dscp or set()
            found.tags |= each.pcp or set()
            found.labels |= each.mpls_tc or set()
            for ranges in (each.source_ports, each.destination_ports):
                found.ports |= {p for low, high in ranges or () for p in (low, high, high + 1)}
            for networks in (each.source, each.destination):
                for network in networks or ():
                    found.addresses |= {network[0], network[-1]}
    other = next(n for n in range(63, -1, -1) if n not in found.dscps or n == 0)
    addresses = sorted(found.addresses, key=lambda each: (each.version, each))
    usual = Packet()
    pairs = [(a, b) for a in addresses for b in addresses if a.version == b.version]
    pairs += [(usual.source, usual.destination), (_USUAL_V6, _USUAL_V6)]
    pairs = [pair for pair in pairs if pair[0].version in versions]
    tags: list[tuple[int | None, int | None]] = [(None, None)]
    tags += [(code, None) for code in sorted(found.tags)]
    tags += [(None, code) for code in sorted(found.labels)]
    properties: list[list[Any]] = [
        sorted({*found.dscps, other}),
        pairs,
        [
            *(("tcp", *ports) for ports in product(sorted(found.ports), repeat=2)),
            *(("udp", *ports) for ports in product(sorted(found.ports), repeat=2)),
            ("icmp", 0, 0),
            ("other", 0, 0),
        ],
        tags,
    ]
    if prod(map(len, properties)) > MOST_PACKETS:
        draw = random.Random(1)
        chosen = [[draw.choice(each) for each in properties] for _ in range(MOST_PACKETS)]
    else:
        chosen = [list(each) for each in product(*properties)]
    return [
        Packet(dscp, protocol, source, destination, port, to, *link)
        for dscp, (source, destination), (protocol, port, to), link in chosen
    ]
