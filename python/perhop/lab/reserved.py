"""Reservations in a lab: classes that are served before all others, on every link of a path."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Self

from pydantic import ValidationError

from perhop.engines.policies import match_plan
from perhop.errors import UsageError
from perhop.hints import did_you_mean, listed
from perhop.scenario.model.cbq import ALTQ_CBQ
from perhop.scenario.model.matching import Match
from perhop.scenario.resolve import next_hops
from perhop.units import quote

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perhop.engines import plans
    from perhop.lab.present import Present
    from perhop.scenario import Scenario

__all__ = ["Reservation", "check_policy", "reserved_plan"]

_MOST: Final = 2**50
"""The highest rate in bit/s, and the largest burst in bytes."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """A rate that some packets have for themselves.

    Attributes:
        links: The directed links on their way, in order. The first one polices; behind it what
            exceeds is gone.
        match: Filter of its packets.
        rate: Bits per second, of IP packets.
        burst: Greatest burst, in bytes.
        plan: The match as the core takes it, of a reservation `on` a network.
    """

    links: tuple[str, ...]
    match: Match
    rate: int
    burst: int
    plan: plans.MatchPlan | None = None

    @classmethod
    def parse(cls, request: Mapping[str, Any]) -> Self:
        """Read a request, as far as it can be checked without a network.

        Raises:
            UsageError: It makes none.
        """
        links, rate, burst = (request.get(key) for key in ("links", "rate", "burst"))
        if not isinstance(links, list) or not links or len({*map(str, links)}) != len(links):
            raise UsageError("a reservation needs `links`: directed links in order, each once")
        for key, number in (("rate", rate), ("burst", burst)):
            if type(number) is not int or not 0 < number <= _MOST:
                raise UsageError(f"a reservation's {key} is a whole number above zero")
        try:
            match = Match.model_validate(request.get("match"))
        except ValidationError as error:
            found = error.errors()[0]
            where = ".".join(map(str, ("match", *found["loc"])))
            raise UsageError(f"{where}: {found['msg'].removeprefix('Value error, ')}") from None
        assert type(rate) is int and type(burst) is int  # as was found above
        return cls(tuple(map(str, links)), match, rate, burst)

    def on(self, present: Present) -> Reservation:
        """The same for a network that can do it: that has the links, and sends these packets there.

        Args:
            present: The network as it is now.

        Raises:
            UsageError: It cannot.
        """
        scenario, policies = present.scenario, present.policies
        directions = scenario.directions
        for link in self.links:
            if link not in directions:
                hint = did_you_mean(link, directions)
                said = f"; {hint}" if hint else listed(directions)
                raise UsageError(f"{quote(link)} is not a link of the lab{said}")
            check_policy(scenario, link, policies[link])
        ends = self._nodes(scenario, "source"), self._nodes(scenario, "destination")
        found = next_hops(scenario, present.state.down)
        for source in ends[0]:
            for destination in ends[1]:
                self._check_way(scenario, found, source, destination)
        return replace(self, plan=match_plan(scenario, self.match))

    def _nodes(self, scenario: Scenario, key: str) -> list[str]:
        """The nodes that packets come from, or go to."""
        prefixes = getattr(self.match, key)
        if prefixes is None:
            raise UsageError(f"a reservation's match needs a {key}")
        for end in prefixes:
            if isinstance(end, str) and end not in scenario.nodes:
                hint = did_you_mean(end, scenario.nodes)
                said = f"; {hint}" if hint else listed(scenario.nodes)
                raise UsageError(f"match.{key}: {quote(end)} is not a node of the lab{said}")
        within = scenario.prefixes(prefixes)
        nodes = [
            name
            for name, address in scenario.addresses.items()
            if any(address in prefix for prefix in within)
        ]
        if not nodes:
            raise UsageError(f"no node of the lab has the {key} {', '.join(map(str, prefixes))}")
        return nodes

    def _check_way(
        self, scenario: Scenario, found: dict[str, Any], source: str, destination: str
    ) -> None:
        directions = scenario.directions
        node, taken = source, []
        while node != destination:
            options = found.get(node, {}).get(destination, ())
            if not options:
                raise UsageError(f"there is no path from {source} to {destination}")
            taken.append(options)
            link, sender = directions[options[0]]
            node = link.other(sender)
        for link_name in self.links:
            if (link_name,) not in taken:
                way = ", ".join(" or ".join(options) for options in taken)
                raise UsageError(
                    f"packets from {source} to {destination} do not all go by {link_name}: a lab "
                    f"sends them by {way}"
                )


def check_policy(scenario: Scenario, link: str, name: str | None) -> None:
    """See that a link may have reservations beside this policy.

    Raises:
        UsageError: It may not.
    """
    policy = scenario.policies.get(name or "")
    if policy is not None and policy.scheduler == ALTQ_CBQ:
        raise UsageError(
            f"{quote(link)} cannot have reservations beside {quote(str(name))}, whose `scheduler: "
            f"{ALTQ_CBQ}` drives the whole link"
        )


def reserved_plan(link: str, reservations: Mapping[str, Reservation]) -> plans.EffectPlan:
    """The effect of a link having these reservations, of its network, from now on.

    What may wait is the burst and a second of the rate: more than strict priority lets wait.
    """
    classes: list[plans.ReservedPlan] = []
    for name, one in reservations.items():
        assert one.plan is not None
        police: plans.Shape = {"rate": one.rate, "burst": one.burst}
        classes.append(
            {
                "name": name,
                "match": one.plan,
                "police": police if link == one.links[0] else None,
                "limit": {"bytes": one.burst + one.rate // 8},
            }
        )
    return {"reserved": {"on": link, "classes": classes}}
