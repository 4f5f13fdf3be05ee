"""The packets of a scenario's classes, as lists of conditions."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from perhop.routers.reading.matching import (
    MAX_PAIRS,
    MAX_RULES,
    Conditions,
    Rules,
    TooManyRulesError,
)
from perhop.scenario.model.matching import match_rules

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from perhop.routers.reading.conditions import Networks
    from perhop.scenario import Match, Scenario
    from perhop.scenario.model.matching import Matching
    from perhop.scenario.model.names import IpVersion

__all__ = ["by_version", "decisions", "rules_of"]


def rules_of(scenario: Scenario, match: Matching) -> Rules:
    """Return the packets that a `match` of a scenario matches, as rules in its order.

    Args:
        scenario: The scenario, for the addresses of nodes.
        match: The match of a class, or of a rule of marking.
    """
    return Rules(
        tuple(
            (rule.permit, each)
            for rule in match_rules(match)
            for each in _conditions(scenario, rule.conditions)
            if not each.is_never
        )
    )


def _conditions(scenario: Scenario, match: Match) -> list[Conditions]:
    """Return conditions, of which a packet must meet one: two sets if `port` is of either end."""
    source, destination = scenario.match_prefixes(match)
    common = Conditions(
        dscp=None if match.dscp is None else frozenset(match.dscp),
        protocols=None if match.protocol is None else frozenset(match.protocol),
        source=source,
        destination=destination,
        source_ports=match.source_port,
        destination_ports=match.destination_port,
        pcp=None if match.pcp is None else frozenset(match.pcp),
        mpls_tc=None if match.mpls_tc is None else frozenset(match.mpls_tc),
    )
    if match.port is None:
        return [common]
    return [
        common & Conditions(source_ports=match.port),
        common & Conditions(destination_ports=match.port),
    ]


def by_version(
    conditions: Conditions, traffic: Iterable[IpVersion]
) -> Iterator[tuple[IpVersion, Conditions]]:
    """Yield the conditions on packets of each version of IP.

    Args:
        conditions: The conditions.
        traffic: The versions of the traffic, for conditions without addresses.
    """
    ends = [end for end in (conditions.source, conditions.destination) if end is not None]
    for version in (4, 6):
        if all(any(each.version == version for each in end) for end in ends) and (
            ends or version in traffic
        ):
            yield (
                version,
                replace(
                    conditions,
                    source=_of(conditions.source, version),
                    destination=_of(conditions.destination, version),
                ),
            )


def _of(networks: Networks | None, version: IpVersion) -> Networks | None:
    if networks is None:
        return None
    return tuple(each for each in networks if each.version == version)


def decisions(sets: Sequence[Rules]) -> list[tuple[int, Conditions]]:
    """Return conditions, each with the number of the set that a packet belongs to.

    The first conditions that a packet meets decide, and no conditions except packets. Where a set
    excepts some, the later sets follow for these packets alone, and then, with the number of sets,
    the conditions of those that no set has.

    Args:
        sets: Sets of packets; a packet belongs to the first that has it.

    Raises:
        TooManyRulesError: If there are more than `MAX_RULES`.
    """
    found: list[tuple[int, Conditions]] = []
    steps = 0

    def add(first: int, within: Conditions) -> None:
        nonlocal steps
        for number in range(first, len(sets)):
            for permit, each in sets[number].rules:
                steps += 1
                if len(found) > MAX_RULES or steps > MAX_PAIRS:
                    raise TooManyRulesError(f"needs more than {MAX_RULES:,} rules")
                both = within & each
                if both.is_never:
                    continue
                if permit:
                    found.append((number, both))
                else:
                    add(number + 1, both)
                if both == within:
                    return
        if first:
            found.append((len(sets), within))

    add(0, Conditions())
    return found
