"""The packets of a scenario's classes, as lists of conditions."""

from __future__ import annotations

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
    from collections.abc import Sequence

    from perhop.scenario import Match, Scenario
    from perhop.scenario.model.matching import Matching

__all__ = ["decisions", "rules_of"]


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
    )
    if match.port is None:
        return [common]
    return [
        common & Conditions(source_ports=match.port),
        common & Conditions(destination_ports=match.port),
    ]


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
