"""A scenario as commands for every node: interfaces, rules, routes, and what changes when."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from perhop.linux import nft, policers, rules, tree
from perhop.linux import tunnels as tunnel_devices
from perhop.linux.gaps import Gap, link_class_gaps
from perhop.linux.routes import Routes, per_packet_groups
from perhop.scenario.resolve import NetworkState, NextHops, next_hops
from perhop.units import format_rate

if TYPE_CHECKING:
    from collections import abc

    from perhop.linux.tree import Htb
    from perhop.scenario import Scenario
    from perhop.scenario.resolve import Step as Change

__all__ = ["Interface", "Mapping", "Step", "device_names", "mapping"]

CLASSES: Final = "type filter hook postrouting priority mangle"
"""Hook that classifies packets: the one at which their output interface is known."""

MOST_DEVICE: Final = 15
"""Greatest length of the name of a Linux interface."""


@dataclass(frozen=True, slots=True)
class Interface:
    """The discipline and settings at a node's end of a link.

    Attributes:
        direction: Name of the directed link, or of a tunnel's device, in results: "r1>r2".
        node: Sending node.
        device: The interface.
        policy: The policy that they are of; None for a queue.
        htb: Its classes.
        tc: The commands that make them, without the leading `tc`.
        chain: The name of the chain of rules that classifies.
        policers: The index of the actions of tc that police each class, by its path; none where
            nftables does.
    """

    direction: str
    node: str
    device: str
    policy: str | None
    htb: Htb
    tc: tuple[str, ...]
    chain: str
    policers: dict[str, int]


@dataclass(frozen=True, slots=True)
class Step:
    """Changes of a node at an instant.

    Attributes:
        at: Instant, in picoseconds.
        node: The node.
        about: The change in a few words.
        tc: Commands of tc, …
        nft: … a file for ``nft -f``, or "", …
        ip: … and commands of ip.
        interface: The interface as it is from now on; None if it is as it was.
    """

    at: int
    node: str
    about: str
    tc: tuple[str, ...] = ()
    nft: str = ""
    ip: tuple[str, ...] = ()
    interface: Interface | None = None


@dataclass(frozen=True, slots=True)
class Mapping:
    """A scenario's network in Linux.

    Attributes:
        interfaces: Interfaces at every end of a link, by direction, and those devices of tunnels
            that queue packets.
        nft: For every node a file for ``nft -f``; "" where there is nothing to say.
        ip: For every node its routes and rules: commands of ip, …
        tunnels: … and then its ends of tunnels, with the routes into them.
        sysctls: For every node the settings of its network namespace.
        steps: Changes, in order of time.
        gaps: Features that Linux lacks, apart from those of tunnels (see `tunnels.gaps`).
        next_hops: The paths that its routes follow.
    """

    interfaces: dict[str, Interface]
    nft: dict[str, str]
    ip: dict[str, tuple[str, ...]]
    tunnels: dict[str, list[str]]
    sysctls: dict[str, dict[str, str]]
    steps: tuple[Step, ...]
    gaps: tuple[Gap, ...]
    next_hops: NextHops


def device_names(scenario: Scenario) -> dict[str, str]:
    """Return a device name for every node's end of a link, by direction: ``r1-r2`` for "r1>r2"."""
    found: dict[str, str] = {}
    taken: set[str] = set()
    for direction in scenario.directions:
        plain = re.sub(r"[^A-Za-z0-9_.-]", "-", direction)[:MOST_DEVICE]
        name, number = plain, 1
        while name in taken:
            number += 1
            name = f"{plain[: MOST_DEVICE - len(str(number)) - 1]}.{number}"
        taken.add(name)
        found[direction] = name
    return found


def mapping(
    scenario: Scenario,
    *,
    devices: abc.Mapping[str, str] | None = None,
    tunnels: abc.Collection[str] = (),
    police: policers.Means = "tc",
    given: abc.Collection[str] = (),
) -> Mapping:
    """The scenario's network as commands of tc, nft and ip.

    What the links themselves do, delay and loss, is not part of it.

    Args:
        scenario: The scenario.
        devices: The name of the interface for each direction; those of `device_names` by default.
        tunnels: The directions whose interfaces have no Ethernet header, which Linux counts.
        police: What polices where it can: tc's action, which not every kernel has, or nftables.
        given: The directions whose policies other commands make: they have no commands here.
    """
    names = device_names(scenario) | dict(devices or {})
    headers = {name: 0 if name in tunnels else tree.ETHERNET for name in scenario.queueing}
    places = {id(link): f"links.{number}" for number, link in enumerate(scenario.links)}
    places |= {id(link): f"tunnels.{link.name}" for link, _ in scenario.devices.values()}
    own_names = tunnel_devices.devices(scenario)
    names |= {
        name: own_names[str(link.name)]
        for name, (link, _) in scenario.devices.items()
        if link.name in own_names
    }
    interfaces: dict[str, Interface] = {}
    chains: dict[str, list[nft.Chain]] = {node: [] for node in scenario.nodes}
    gaps: list[Gap] = []
    numbers = policers.Numbers(police)
    for number, (direction, (link, node)) in enumerate(scenario.queueing.items()):
        if direction not in names:
            continue  # a gap: perhop sets up no tunnels of this type
        policy = None if direction in given else link.egress.get(node)
        place = places[id(link)]
        htb = tree.tree(scenario, link, node, policy, header=headers[direction], place=place)
        chain, device, capacity = f"to{number}", names[direction], link.capacity(node)
        policed = numbers.take(scenario, policy, capacity)
        interfaces[direction] = Interface(
            direction=direction,
            node=node,
            device=device,
            policy=policy,
            htb=htb,
            tc=(
                *([] if direction in given else tree.commands(htb, device)),
                *policers.filters(scenario, policy, capacity, htb, device, policed),
            ),
            chain=chain,
            policers=policed,
        )
        classes, more = rules.classify(scenario, policy, htb, chain, capacity, policed=policed)
        chains[node] += classes
        gaps += [*htb.gaps, *more]
    there, routes = next_hops(scenario), Routes(scenario, names)
    own: dict[str, list[Interface]] = {node: [] for node in scenario.nodes}
    for each in interfaces.values():
        own[each.node].append(each)
    for name in scenario.nodes:
        more_chains, more = _node_rules(scenario, name, own[name], there)
        chains[name] += more_chains
        gaps += more
    changed, more = _steps(scenario, interfaces, routes, headers, numbers)
    gaps += more
    gaps += link_class_gaps(scenario)
    gaps += [
        Gap(f"links.{number}.channel", "its queues share no radio channel")
        for number, link in enumerate(scenario.links)
        if link.channel is not None
    ]
    gaps += [
        Gap(f"changes.{number}.balance", "Linux keeps the load balancing that a node has at first")
        for number, change in enumerate(scenario.changes)
        if change.balance is not None
    ]
    return Mapping(
        interfaces=interfaces,
        nft={name: nft.text(each) if each else "" for name, each in chains.items()},
        ip={name: tuple(routes.lines(name, there)) for name in scenario.nodes},
        tunnels={name: tunnel_devices.lines(scenario, name, there) for name in scenario.nodes},
        sysctls={name: routes.sysctls(name, there) for name in scenario.nodes},
        steps=tuple(changed),
        gaps=tuple(dict.fromkeys(gaps)),
        next_hops=there,
    )


def _node_rules(
    scenario: Scenario, name: str, own: abc.Sequence[Interface], there: NextHops
) -> tuple[list[nft.Chain], list[Gap]]:
    """Return the chains of a node that hooks call, and those that remark arriving packets."""
    node = scenario.nodes[name]
    found: list[nft.Chain] = []
    marking = []
    for each in own:
        if each.direction not in scenario.directions:
            continue  # outer packets got these marks
        link, _ = scenario.directions[each.direction]
        marks = (*link.remark.get(name, ()), *node.remark)
        if marks:
            label = f"{each.chain}_mark"
            found += rules.remark(scenario, marks, label)
            marking.append(f'iifname "{each.device}" jump {label}')
    if marking:
        hook = "type filter hook prerouting priority raw"
        found.append(nft.Chain("marks", tuple(marking), hook))
    leaving = tuple(
        f'oifname "{each.device}" jump {each.chain}' for each in own if each.policy is not None
    )
    changes = any(change.policy and change.on in scenario.directions for change in scenario.changes)
    if leaving or changes:
        found.append(nft.Chain("classes", leaving, CLASSES))
    found += rules.per_packet(scenario, name, there)
    limits, gaps = rules.errors(scenario, name)
    if not node.backpressure:
        reason = "Linux charges what waits in a host's own queue to its sockets"
        gaps = [*gaps, Gap(f"nodes.{name}.backpressure", reason)]
    return [*found, *limits], gaps


def _steps(
    scenario: Scenario,
    interfaces: abc.Mapping[str, Interface],
    routes: Routes,
    headers: abc.Mapping[str, int],
    numbers: policers.Numbers,
) -> tuple[list[Step], list[Gap]]:
    """Return the changes of the network, in order of time."""
    now = dict(interfaces)
    directions = list(scenario.directions)
    found: list[Step] = []
    gaps: list[Gap] = []
    state = NetworkState(scenario)
    there = next_hops(scenario)
    for change in state.steps(scenario.changes):
        on = str(change.change.on)
        both = directions[2 * change.number : 2 * change.number + 2]
        if change.change.policy is not None:
            now[on], step, more = _new_policy(scenario, change, now[on], headers[on], numbers)
            found.append(step)
            gaps += more
        if change.change.rate is not None:
            for name, _ in change.rewired:
                now[name], step = _new_rate(
                    scenario, change, now[name], *state.attached[name], headers[name]
                )
                found.append(step)
        if change.change.police is not None:
            further, more = _new_police(scenario, change, now[on], *state.attached[on])
            found += further
            gaps += more
        if change.change.state is not None:
            before, there = there, next_hops(scenario, state.down)
            ends = [now[name] for name in both]
            found += _state(scenario, change, ends, before, there, routes)
    return found, gaps


def _new_rate(
    scenario: Scenario,
    change: Change,
    interface: Interface,
    policy: str | None,
    divided: int,
    header: int,
) -> tuple[Interface, Step]:
    """Return the step of a link's new rate, which its policy divides in the same proportions."""
    htb = tree.tree(
        scenario,
        change.link,
        interface.node,
        policy,
        header=header,
        place=f"links.{change.number}",
        capacity=divided,
    )
    lines = tuple(tree.commands(htb, interface.device, change=True))
    made = replace(interface, htb=htb, tc=lines)
    about = f"{interface.direction}: rate {format_rate(change.link.medium(interface.node).rate)}"
    return made, Step(change.change.at, interface.node, about, tc=lines, interface=made)


def _new_police(
    scenario: Scenario, change: Change, interface: Interface, policy: str | None, divided: int
) -> tuple[list[Step], list[Gap]]:
    """Return the step of a policer's new settings; nothing if its class is a gap."""
    path, settings = str(change.change.class_), change.police
    at, node, about = change.change.at, interface.node, f"{interface.direction}: policer of {path}"
    if path in interface.policers:
        place = f"changes.{change.loc[1]}.police"
        number = interface.policers[path]
        lines, gaps = policers.change(
            scenario, str(policy), divided, path, settings[path], number, place
        )
        return [Step(at, node, about, tc=tuple(lines))], gaps
    minor = next((each.minor for each in interface.htb.nodes if each.path == path), None)
    if minor is None:
        return [], []
    chains, gaps = rules.classify(
        scenario, policy, interface.htb, interface.chain, divided, settings
    )
    own = [chain for chain in chains if chain.name == f"{interface.chain}_{minor:x}"]
    return [Step(at, node, about, nft=nft.text(own, again=True))], gaps


def _new_policy(
    scenario: Scenario,
    change: Change,
    interface: Interface,
    header: int,
    numbers: policers.Numbers,
) -> tuple[Interface, Step, list[Gap]]:
    """Return the step of a new policy."""
    place = f"links.{change.number}"
    htb = tree.tree(
        scenario, change.link, interface.node, change.policy, header=header, place=place
    )
    # Chains of another name: rules that are in use cannot be taken away first.
    chain = f"{interface.chain.partition('x')[0]}x{change.loc[1]}"
    device = interface.device
    policed = numbers.take(scenario, change.policy, change.capacity)
    lines = (
        f"qdisc del dev {device} root",
        *tree.commands(htb, device),
        *policers.filters(scenario, change.policy, change.capacity, htb, device, policed),
    )
    made = replace(
        interface, policy=change.policy, htb=htb, tc=lines, chain=chain, policers=policed
    )
    chains, gaps = rules.classify(
        scenario, change.policy, htb, chain, change.capacity, policed=policed
    )
    first = f"goto {chain}" if chains else "accept"
    rule = f'insert rule {nft.TABLE} classes oifname "{device}" {first}'
    said = "\n".join([nft.text(chains), rule])
    about = f"{change.change.on}: policy {change.change.policy}"
    step = Step(change.change.at, interface.node, about, tc=lines, nft=said, interface=made)
    return made, step, [*htb.gaps, *gaps]


def _state(
    scenario: Scenario,
    change: Change,
    ends: abc.Sequence[Interface],
    before: NextHops,
    there: NextHops,
    routes: Routes,
) -> list[Step]:
    """Return the steps of a link that goes up or down, with the routes of all nodes."""
    at, state = change.change.at, str(change.change.state)
    found = [
        Step(at, end.node, f"{end.direction}: {state}", ip=(f"link set {end.device} {state}",))
        for end in ends
    ]
    for node in scenario.nodes:
        ip = tuple(routes.replacement(node, before, there))
        chains = rules.per_packet(scenario, node, there)
        if not chains and per_packet_groups(scenario, node, before):
            chains = [nft.Chain("per_packet", ()), nft.Chain("own_per_packet", ())]
        said = (
            nft.text(chains, again=bool(per_packet_groups(scenario, node, before)))
            if chains
            else ""
        )
        found.append(Step(at, node, f"{node}: routes", nft=said, ip=ip))
    return found
