"""Rules on agents, and on who sends by them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perhop.hints import did_you_mean, listed
from perhop.scenario.model.agents import AGENT_PORT, IPERF3_PORT
from perhop.scenario.resolve.elements import senders
from perhop.scenario.resolve.servers import iperf3_servers
from perhop.scenario.rules.findings import Finding
from perhop.units import quote

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perhop.scenario.model.agents import Agent
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
        elif agent.without_agent is not None:
            yield from _without_agent(loc, agent)
            for server in agent.iperf3 or ():
                where = (server.host, server.port or IPERF3_PORT)
                if seen.setdefault(where, name) != name:
                    yield Finding(
                        (*loc, "iperf3"), f"is the server of {quote(seen[where])} already"
                    )
        elif agent.address is None:
            yield Finding(
                loc,
                "has no `address`; expected that of an agent, or one of `iperf3`, `stamp` and "
                "`ping`",
            )
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


def _without_agent(loc: Loc, agent: Agent) -> Iterator[Finding]:
    """Find keys that do not fit a node without an agent."""
    kind = agent.without_agent
    for key in sorted(agent.model_fields_set - {kind}):
        if getattr(agent, key) is not None:
            yield Finding(
                (*loc, key),
                f"is given beside {quote(str(kind))}; expected one of both",
                at_key=True,
            )
    servers = agent.iperf3 or ()
    if len({server.host for server in servers}) > 1:
        yield Finding((*loc, "iperf3"), "names several hosts; expected several ports of one host")
    if len({server.port or IPERF3_PORT for server in servers}) < len(servers):
        yield Finding((*loc, "iperf3"), "has a server twice")


def iperf3_tests(scenario: ResolvedScenario) -> Iterator[Finding]:
    """Find flows whose iperf3 server runs another one at the same time."""
    for name, server in iperf3_servers(scenario).items():
        if server is None:
            flow = scenario.flows[name]
            ends = (flow.source, flow.destination)
            agents = [scenario.agents.get(node) for node in ends]
            [node, *_] = [
                node for node, agent in zip(ends, agents, strict=True) if agent and agent.iperf3
            ]
            yield Finding(
                ("flows", name),
                f"needs an iperf3 server of {quote(node)} that runs no other flow at the same "
                "time; change its `start`, or add a server on another port to "
                f"{quote(f'agents.{node}.iperf3')}",
                at_key=True,
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
            if node not in scenario.nodes or node in scenario.background_hosts:
                continue  # said already; background traffic is not for engine live
            if agent is None:
                entry = "`ping: ADDRESS`" if scenario.nodes[node].kind == "router" else "one"
                yield Finding(loc, f"{quote(node)} has no agent; expected {entry} below `agents`")
            elif agent.without_agent == "iperf3" and section == "flows":
                continue
            elif agent.without_agent is not None and agent.address is None and not pinged:
                what = "has no agent" if agent.without_agent == "iperf3" else "is only pinged"
                yield Finding(loc, f"{quote(node)} {what}; expected a host with an agent")
            elif agent.nat and pinged:
                yield Finding(
                    loc, f"{quote(node)} is behind NAT (`nat`), so that it cannot be pinged"
                )
        ends = [scenario.agents.get(end) for end in (sender.source, sender.destination)]
        if section == "flows" and all(end is not None and end.iperf3 for end in ends):
            yield Finding(
                (section, name, "to"),
                f"both {quote(sender.source)} and {quote(sender.destination)} are iperf3 servers; "
                "expected a host with an agent",
            )
        if section == "flows" and all(end is not None and end.nat for end in ends):
            yield Finding(
                (section, name, "to"),
                f"both {quote(sender.source)} and {quote(sender.destination)} are behind NAT "
                "(`nat`); expected one that can be reached",
            )
