"""All rules between the sections of a well-formed scenario.

Each check is a generator of findings over a scenario, and says which sections it reads: where one
of them is malformed, the check is left out, so that no message follows from another one's cause.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perhop.scenario.rules.agents import agents, ends_with_agents, iperf3_tests
from perhop.scenario.rules.applications import applications, rates_of_requests
from perhop.scenario.rules.cbq import altq_cbq
from perhop.scenario.rules.cells import cells
from perhop.scenario.rules.datagrams import calls, datagrams
from perhop.scenario.rules.disciplines import disciplines
from perhop.scenario.rules.expectations import links, metrics, targets, windows
from perhop.scenario.rules.hfsc import service_curves
from perhop.scenario.rules.htb import token_buckets
from perhop.scenario.rules.ipv6 import ipv6_links
from perhop.scenario.rules.marking import marking_rules
from perhop.scenario.rules.network import (
    addresses,
    channels,
    delays,
    egress_policies,
    encapsulations,
    link_ends,
    link_policies,
    reservable,
)
from perhop.scenario.rules.policies import (
    class_matches,
    colours,
    combinations,
    cycles,
    guarantees,
    last_classes,
    names_of_policers,
    number_of_classes,
    number_of_rules,
    quanta,
    shadowed_classes,
    turns_beside_strict,
    unmatched_classes,
    unused_policies,
)
from perhop.scenario.rules.probes import icmp_limits, of_hosts, probes
from perhop.scenario.rules.senders import (
    amounts,
    instants,
    names_of_senders,
    paths,
    source_ports,
    times,
    transports,
)
from perhop.scenario.rules.timeline import changes, policies_of_changes
from perhop.scenario.rules.tunnels import tunnels

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from perhop.scenario.resolve.scenario import ResolvedScenario
    from perhop.scenario.rules.findings import Finding


def check(scenario: ResolvedScenario, sound: set[str]) -> Iterator[Finding]:
    """Return all findings about `scenario`, as far as its `sound` sections allow."""
    for rule, sections in RULES:
        if sections <= sound:
            yield from rule(scenario)


NETWORK = {"nodes", "links"}
TRAFFIC = {"flows", "pings"}
TIMES = {*TRAFFIC, "duration"}
MEASURED = {"expect", "published"}

RULES: tuple[tuple[Callable[[ResolvedScenario], Iterator[Finding]], set[str]], ...] = (
    (addresses, {"nodes"}),
    (link_ends, NETWORK),
    (link_policies, {"links"}),
    (encapsulations, {"links"}),
    (tunnels, {*NETWORK, *TRAFFIC, "tunnels"}),
    (delays, {"links"}),
    (channels, {"links", "channels"}),
    (cells, {*NETWORK, "channels", "changes"}),
    (reservable, {"links"}),
    (egress_policies, {"links", "policies"}),
    (paths, {*NETWORK, *TRAFFIC}),
    (names_of_senders, TRAFFIC),
    (transports, {"flows"}),
    (source_ports, {"flows"}),
    (datagrams, {"flows"}),
    (calls, {"flows"}),
    (applications, {"flows"}),
    (rates_of_requests, {*NETWORK, *TIMES, "policies"}),
    (probes, TRAFFIC),
    (agents, {"nodes", "agents"}),
    (ends_with_agents, {"nodes", "agents", *TRAFFIC}),
    (iperf3_tests, {"nodes", "agents", *TRAFFIC}),
    (of_hosts, {"nodes"}),
    (icmp_limits, {"nodes"}),
    (marking_rules, NETWORK),
    (ipv6_links, {*NETWORK, *TRAFFIC, "policies"}),
    (times, TIMES),
    (amounts, {*TIMES, "report"}),
    (instants, {*TIMES, *MEASURED, "changes"}),
    (changes, {*NETWORK, *TIMES, "changes"}),
    (policies_of_changes, {"links", "policies", "changes"}),
    (metrics, MEASURED),
    (targets, {*MEASURED, *TRAFFIC}),
    (links, {*MEASURED, *TRAFFIC, "links", "policies", "changes"}),
    (windows, {*MEASURED, *TIMES}),
    (last_classes, {"policies"}),
    (combinations, {"policies"}),
    (altq_cbq, {"links", "policies"}),
    (service_curves, {"policies"}),
    (token_buckets, {"policies"}),
    (quanta, {"policies"}),
    (turns_beside_strict, {"policies"}),
    (colours, {"policies"}),
    (names_of_policers, {"policies"}),
    (class_matches, {"nodes", "policies"}),
    (number_of_classes, {"policies"}),
    (number_of_rules, {"policies"}),
    (disciplines, {"links", "policies"}),
    (cycles, {"policies"}),
    (unused_policies, {"links", "policies", "changes"}),
    (guarantees, {"links", "policies", "changes"}),
    (shadowed_classes, {"nodes", "policies"}),
    (unmatched_classes, {"nodes", "policies", *TRAFFIC, "links"}),
)
"""Every check, and the sections that it reads."""
