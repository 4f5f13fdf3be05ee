"""Servers of iperf3 and the flows that use them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perhop.scenario.model.agents import Endpoint
    from perhop.scenario.resolve.scenario import ResolvedScenario


def iperf3_servers(scenario: ResolvedScenario) -> dict[str, Endpoint | None]:
    """Return the server that each flow to or from a host with iperf3 uses.

    Each server runs one flow at a time. A flow gets the first server that is free from its start to
    its end; None if there is none.
    """
    busy: dict[tuple[str, int], int] = {}
    found: dict[str, Endpoint | None] = {}
    for name, flow in sorted(scenario.flows.items(), key=lambda item: item[1].starts[0]):
        for node in (flow.source, flow.destination):
            agent = scenario.agents.get(node)
            if agent is None or agent.iperf3 is None:
                continue
            start, end = scenario.active_ps(flow)
            numbers = range(len(agent.iperf3))
            free = next((n for n in numbers if busy.get((node, n), 0) <= start), None)
            found[name] = None if free is None else agent.iperf3[free]
            if free is not None:
                busy[node, free] = end
    return found
