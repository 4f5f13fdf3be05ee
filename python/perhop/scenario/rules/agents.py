"""Rules on agents, and on who sends by them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perhop.hints import did_you_mean, listed
from perhop.scenario.model.agents import AGENT_PORT
from perhop.scenario.resolve.elements import senders
from perhop.scenario.rules.findings import Finding
from perhop.units import quote

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perhop.scenario.model.base import Loc
    from perhop.scenario.resolve.scenario import ResolvedScenario


def agents(scenario: ResolvedScenario) -> Iterator[Finding]:
    """Find agents of unknown nodes, incomplete ones, and several at one address."""
    seen: dict[tuple[str, int], str] = {}
    for name, agent in scenario.agents.items():
        loc: Loc = ("agents", name)
        if name not in scenario.nodes:
            hint = did_you_mean(name, scenario.nodes)
            few = "" if hint else listed(scenario.nodes)
            yield Finding(loc, f"{quote(name)} is not a node{few}", hint, at_key=True)
        elif agent.ping is not None:
            for key in ("address", "key", "data", "nat"):
                if key in agent.model_fields_set:
                    yield Finding(
                        (*loc, key),
                        "is given beside `ping`; expected an agent or an address that is only "
                        "pinged",
                        at_key=True,
                    )
        elif agent.address is None:
            yield Finding(loc, "has no `address`; expected that of an agent, or `ping: ADDRESS`")
        elif agent.key is None:
            yield Finding(
                (*loc, "key"),
                "is missing; expected the agent's public key, as `perhop agent key` prints it",
            )
        elif scenario.nodes[name].kind == "router":
            yield Finding(
                loc, f"{quote(name)} is a router; expected a host, or `ping: ADDRESS`", at_key=True
            )
        else:
            where = (agent.address.host, agent.address.port or AGENT_PORT)
            if seen.setdefault(where, name) != name:
                yield Finding(
                    (*loc, "address"), f"is the address of {quote(seen[where])}'s agent already"
                )


def ends_with_agents(scenario: ResolvedScenario) -> Iterator[Finding]:
    """Find flows and pings whose ends have no agent, or cannot be reached, if there are any."""
    if not scenario.agents:
        return
    for section, name, sender in senders(scenario):
        for key, node in (("from", sender.source), ("to", sender.destination)):
            loc: Loc = (section, name, key)
            pinged = section == "pings" and key == "to"
            agent = scenario.agents.get(node)
            if node not in scenario.nodes:
                continue  # said already
            if agent is None:
                entry = "`ping: ADDRESS`" if scenario.nodes[node].kind == "router" else "one"
                yield Finding(loc, f"{quote(node)} has no agent; expected {entry} below `agents`")
            elif agent.ping is not None and agent.address is None and not pinged:
                yield Finding(loc, f"{quote(node)} is only pinged; expected a host with an agent")
            elif agent.nat and pinged:
                yield Finding(
                    loc, f"{quote(node)} is behind NAT (`nat`), so that it cannot be pinged"
                )
        ends = [scenario.agents.get(end) for end in (sender.source, sender.destination)]
        if section == "flows" and all(end is not None and end.nat for end in ends):
            yield Finding(
                (section, name, "to"),
                f"both {quote(sender.source)} and {quote(sender.destination)} are behind NAT "
                "(`nat`); expected one that can be reached",
            )
