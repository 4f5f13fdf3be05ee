"""A scenario's network on this machine: a namespace per node, with Linux's links, queues and rules.

A link without delay and loss is a pair of virtual Ethernet devices. The ends of other links are TUN
devices, and a wire of perhop carries packets between them. The kernel's netem is not used: it would
be a second queue behind the first.
"""

from __future__ import annotations

import json
import os
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any, Final

from perhop._core import Counts, Namespaces, Wires
from perhop.engines.emu import longest as longest_packet
from perhop.engines.plan import loss_plan, network_plan
from perhop.errors import UnsupportedError
from perhop.linux import probe
from perhop.linux.commands import CommandError, InNamespace
from perhop.linux.gaps import Gap, refuse
from perhop.linux.given import given
from perhop.linux.mapping import device_names, mapping
from perhop.linux.routes import IPV6, routed_versions
from perhop.linux.script import one_line
from perhop.linux.tree import ETHERNET
from perhop.linux.tunnels import devices as tunnel_devices
from perhop.linux.tunnels import gaps as tunnel_gaps

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from perhop.linux.given import Command, Given
    from perhop.linux.mapping import Interface, Step
    from perhop.scenario import Scenario
    from perhop.scenario.model.topology import Medium
    from perhop.scenario.resolve import Step as Change

__all__ = ["Network"]

_SYSCTLS: Final = {
    "net.ipv4.conf.all.rp_filter": "0",
    "net.ipv4.conf.default.rp_filter": "0",
    "net.ipv4.icmp_ratelimit": "0",
    "net.ipv4.icmp_msgs_per_sec": "1000000",
    "net.ipv4.icmp_msgs_burst": "1000000",
}
"""The settings of every node; those that the kernel lacks are left out."""

_SYSCTLS_V6: Final[dict[bool, dict[str, str]]] = {
    False: {
        "net.ipv6.conf.all.disable_ipv6": "1",  # it sends packets of its own
        "net.ipv6.conf.default.disable_ipv6": "1",
    },
    True: {
        "net.ipv6.conf.all.disable_ipv6": "0",
        "net.ipv6.conf.default.disable_ipv6": "0",
        # No addresses of links: these would be announced, and tested for duplicates.
        "net.ipv6.conf.all.addr_gen_mode": "1",
        "net.ipv6.conf.default.addr_gen_mode": "1",
        "net.ipv6.icmp.ratelimit": "0",
    },
}
"""Further settings, without and with traffic of IPv6."""

ETHERNET_MTU: Final = 1500
"""The default MTU of an interface, if neither its link nor a flow needs another."""

QUEUE_LENGTH: Final = 1000
"""The packets of an interface's queue, unless a script sets it, as Linux has them by default."""

_TUNNEL_QUEUE: Final = 10_000
"""The length of a TUN device's queue in packets; the wire empties it, and excess is lost."""


class Network:
    """The network of a scenario, without traffic; it is removed with this object.

    Attributes:
        namespaces: The nodes, in the scenario's order.
        interfaces: The settings of every end of a link, by direction; changes replace them.
    """

    def __init__(self, scenario: Scenario, seed: int) -> None:
        """Set it up.

        Raises:
            UnsupportedError: If this machine or its kernel lacks a feature; names the feature.
        """
        probe.tools()
        self._scenario = scenario
        self._names = device_names(scenario)
        self._hosts = {node: number for number, node in enumerate(scenario.nodes)}
        directions = list(scenario.directions)
        wired = _wired(scenario)
        tunnels = [name for number in wired for name in directions[2 * number : 2 * number + 2]]
        self.given = {
            name: made
            for name in directions
            if (made := _given(scenario, name, self._names[name], on_wire=name in tunnels))
        }
        self.mapping = mapping(
            scenario, tunnels=tunnels, police=probe.polices(), given=self.given.keys()
        )
        traced = [
            Gap(f"links.{number}.trace", "Linux's queues have no rate that follows a trace")
            for number, link in enumerate(scenario.links)
            if link.trace
        ]
        faster = [
            Gap(f"links.{number // 2}.rate", f"some packets of {name} would be faster than that")
            for number, name in enumerate(directions)
            if name not in self.given and self.mapping.interfaces[name].htb.faster
        ]
        given = [*traced, *faster, *tunnel_gaps(scenario), *self.mapping.gaps]
        refuse([*given, *probe.missing(self.mapping)], scenario.name)
        self.interfaces: dict[str, Interface] = dict(self.mapping.interfaces)
        try:
            self.namespaces = Namespaces(len(scenario.nodes))
            devices = {name: self._names[name] for name in tunnels}
            plan = json.dumps(network_plan(scenario, seed))
            self._carried = Wires(self.namespaces, plan, devices)
        except OSError as error:
            raise UnsupportedError(
                f"the kernel engine cannot set up its network: {error}"
            ) from error
        self._wired = set(wired)
        self._neighbours: dict[tuple[str, str], list[str]] = {}
        self._set_up(self._wired)

    def _set_up(self, wired: set[int]) -> None:
        scenario = self._scenario
        directions = list(scenario.directions.items())
        versions = routed_versions(scenario)
        addresses = [scenario.addresses_in(version) for version in versions]
        flows = scenario.flows.values()
        longest = max([ETHERNET_MTU, *(longest_packet(f, scenario.ip_of(f)) for f in flows)])
        lines: dict[str, list[str]] = {
            node: [f"address add {own[node]}/{own[node].max_prefixlen} dev lo" for own in addresses]
            for node in scenario.nodes
        }
        for number in range(len(scenario.links)):
            (one, (_, a)), (two, (_, b)) = directions[2 * number : 2 * number + 2]
            ends = ((one, a, b, 2 * number), (two, b, a, 2 * number + 1))
            if number not in wired:
                there = f"/proc/{os.getpid()}/fd/{self.namespaces.fd(self._hosts[b])}"
                self._run(
                    a,
                    ["ip", "-batch", "-"],
                    f"link add {self._names[one]} address {_mac(2 * number)} type veth "
                    f"peer name {self._names[two]} address {_mac(2 * number + 1)} netns {there}\n",
                )
            for name, node, other, place in ends:
                device = self._names[name]
                # Queues must see single packets, not super-segments. Routers of IPv6 would report
                # groups (RFC 3810).
                lines[node].append(
                    f"link set dev {device} mtu {scenario.links[number].mtu or longest} "
                    f"gso_max_segs 1 txqueuelen {_TUNNEL_QUEUE} "
                    f"{'multicast off ' * (6 in versions)}up"
                )
                if number not in wired:
                    self._neighbours[f"link set {device} up", node] = neighbours = [
                        f"neigh replace {own[other]} lladdr {_mac(place ^ 1)} "
                        f"nud permanent dev {device}"
                        for own in addresses
                    ]
                    lines[node] += neighbours
        for node, host in self._hosts.items():
            balance = self.mapping.sysctls[node]
            needed = dict.fromkeys(balance, "its balance")
            if 6 in versions:
                needed["net.ipv6.conf.all.disable_ipv6"] = "traffic of IPv6"
            self._write(host, {**_SYSCTLS, **_SYSCTLS_V6[6 in versions], **balance}, needed)
            own_lines = [*lines[node], *self.mapping.ip[node], *self.mapping.tunnels[node]]
            self._ip(node, own_lines)
            forward = str(int(scenario.nodes[node].kind == "router"))
            self._write(host, {"net.ipv4.ip_forward": forward})
            if 6 in versions:
                self._write(host, {"net.ipv6.conf.all.forwarding": forward})
        for each in self.interfaces.values():
            self._run(each.node, ["tc", "-batch", "-"], _lines(each.tc))
        for node, text in self.mapping.nft.items():
            if text:
                self._run(node, ["nft", "-f", "-"], text)
        for name, made in self.given.items():
            node = self.interfaces[name].node
            self._ip(node, [f"link set dev {self._names[name]} txqueuelen {QUEUE_LENGTH}"])
            if made.shaper:
                self._run(node, ["tc", "-batch", "-"], _lines(made.shaper))
            for command in made.commands:
                self._command(node, command)
        self._counts = {node: Counts(self.namespaces, host) for node, host in self._hosts.items()}
        self._directions = {
            (each.node, self._counts[each.node].device(each.device)): name
            for name, each in self.interfaces.items()
        }
        self._ends = {
            (node, self._counts[node].device(device)): (tunnel, node)
            for tunnel, device in tunnel_devices(scenario).items()
            for node in scenario.tunnels[tunnel].ends
        }

    @property
    def real_time(self) -> bool:
        """True if the thread of the wires has real-time priority, which needs privileges."""
        return self._carried.real_time

    def apply(self, step: Step) -> None:
        """Apply a change of the timeline."""
        if step.ip:
            # A device that was down has forgotten its neighbours.
            again = [self._neighbours.get((line, step.node), []) for line in step.ip]
            self._ip(step.node, [*step.ip, *chain.from_iterable(again)])
        if step.nft:
            self._run(step.node, ["nft", "-f", "-"], step.nft)
        if step.tc:
            self._run(step.node, ["tc", "-batch", "-"], _lines(step.tc))
        if step.interface is not None:
            self.interfaces[step.interface.direction] = step.interface

    def rewire(self, change: Change) -> None:
        """Set the rate, delay and loss of a changed link, if a wire carries it."""
        if change.number in self._wired:
            for name, node in change.rewired:
                new = change.link.medium(node)
                loss, gilbert = loss_plan(new.loss)
                chain = gilbert and (gilbert["p"], gilbert["r"], gilbert["good"], gilbert["bad"])
                self._carried.change(name, new.rate, new.delay, loss, chain)

    def wires(self) -> dict[str, dict[str, int]]:
        """Return the counters of each wire, by direction; bytes include layer-2 overhead."""
        return self._carried.counters()

    def queues(self) -> dict[str, dict[int, dict[str, Any]]]:
        """Return Linux's counters of the queues of every interface, by direction and number.

        Their names are those of tc.
        """
        found: dict[str, dict[int, dict[str, Any]]] = {}
        for node, counts in self._counts.items():
            for device, number, kind, counted in counts.queues():
                if number and (name := self._directions.get((node, device))):
                    found.setdefault(name, {})[number] = {"kind": kind, **counted}
        return found

    def classes(self, name: str) -> dict[str, dict[str, Any]]:
        """Return Linux's counters of the queues of a script at an interface, by class.

        Those of a queue that is in no class are at "root".
        """
        node, device = self.interfaces[name].node, self.interfaces[name].device
        run = InNamespace(self.namespaces, self._hosts[node])
        shown = run(["tc", "-s", "-j", "qdisc", "show", "dev", device, "invisible"])
        # Only qdiscs that have just been removed have no object.
        return {row.get("parent", "root"): row for row in json.loads(shown or "[]")}

    def sent(self, name: str) -> tuple[int, int]:
        """Return the packets that an interface has sent, and their bytes without layer 2."""
        node, device = self.interfaces[name].node, self.interfaces[name].device
        counts = self._counts[node]
        counted = dict(counts.devices())[counts.device(device)]
        header = 0 if name in self.wires() else ETHERNET
        packets = counted["tx_packets"]
        return packets, counted["tx_bytes"] - header * packets

    def tunnels(self) -> dict[tuple[str, str], dict[str, int]]:
        """Return Linux's counters of the ends of tunnels, by tunnel and node."""
        return {
            self._ends[node, device]: counted
            for node in dict.fromkeys(node for node, _ in self._ends)
            for device, counted in self._counts[node].devices()
            if (node, device) in self._ends
        }

    def policers(self) -> dict[str, dict[str, tuple[int, int]]]:
        """Return the packets and bytes of policers' counters, by node and counter.

        Counters of tc's actions have the names of the counters of nft's rules.
        """
        found: dict[str, dict[str, tuple[int, int]]] = {}
        for node, text in self.mapping.nft.items():
            steps = (step.nft for step in self.mapping.steps if step.node == node)
            if any("counter name" in part for part in (text, *steps)):
                rules = self._counts[node].rules()
                found[node] = {name: (packets, size) for name, packets, size in rules}
        for node in self._hosts:
            own = [each for each in self.interfaces.values() if each.node == node and each.policers]
            if not own:
                continue
            came, conformed = (
                {number: (packets, size) for number, packets, size in counted}
                for counted in map(self._counts[node].actions, ("police", "gact"))
            )
            counters = found.setdefault(node, {})
            for each in own:
                minors = {part.path: part.minor for part in each.htb.nodes}
                for path, number in each.policers.items():
                    label = f"{each.chain}_{minors[path]:x}"
                    if number not in came or number not in conformed:
                        continue
                    whole, part = came[number], conformed[number]
                    counters[f"{label}_conform"] = part
                    # The second list may be a packet ahead of the first.
                    over = (max(a - b, 0) for a, b in zip(whole, part, strict=True))
                    counters[f"{label}_exceed"] = (next(over), next(over))
        return found

    def _write(
        self, host: int, settings: Mapping[str, str], needed: Mapping[str, str] | None = None
    ) -> None:
        """Write settings of a node that its kernel has; some are needed for a feature."""
        for name, value in settings.items():
            try:
                self.namespaces.write_sysctl(host, name, value)
            except FileNotFoundError:
                if needed and name in needed:
                    node = list(self._hosts)[host]
                    raise UnsupportedError(
                        f"nodes.{node}: this kernel has no {name}, which {needed[name]} needs"
                    ) from None

    def _ip(self, node: str, lines: Iterable[str]) -> None:
        """Run lines of ip in their order; a batch has one version."""
        for v6, batch in groupby(lines, lambda line: line.startswith(IPV6)):
            command = ["ip", "-6", "-batch", "-"] if v6 else ["ip", "-batch", "-"]
            self._run(node, command, _lines(line.removeprefix(IPV6) for line in batch))

    def _run(self, node: str, command: list[str], text: str) -> None:
        try:
            InNamespace(self.namespaces, self._hosts[node])(command, text)
        except CommandError as error:
            raise UnsupportedError(
                f"nodes.{node}: this kernel refuses what `{' '.join(command)}` was told: "
                f"{error.stderr or error}"
            ) from None

    def _command(self, node: str, command: Command) -> None:
        """Run a command of a script.

        Raises:
            UnsupportedError: The kernel, or the program, refuses it.
        """
        try:
            InNamespace(self.namespaces, self._hosts[node])(list(command.words), command.text)
        except CommandError as error:
            said = " ".join((error.stderr or str(error)).split())
            raise UnsupportedError(
                f"{command.place}: this kernel refuses `{one_line(command.said)}`: {said}"
            ) from None


def _wired(scenario: Scenario) -> list[int]:
    """Return the numbers of the links that need a wire: those with delay, loss and the like."""
    changed = {
        list(scenario.directions).index(str(change.on)) // 2
        for change in scenario.changes
        if change.delay is not None or change.loss is not None
    }
    return [
        number
        for number, link in enumerate(scenario.links)
        if number in changed or any(map(_needs_wire, link.media))
    ]


def _given(scenario: Scenario, name: str, device: str, *, on_wire: bool) -> Given | None:
    """Return the commands of the script of an interface's policy, if there is one."""
    return given(scenario, name, device, 0 if on_wire else ETHERNET)


def _needs_wire(medium: Medium) -> bool:
    impaired = medium.jitter or medium.loss or medium.duplicate or medium.reorder
    # Only wires count ATM cells.
    return bool(medium.delay or impaired or medium.overhead.cells)


def _mac(place: int) -> str:
    """Return the MAC address of an interface: locally administered, from its number."""
    return "02:00:" + ":".join(f"{place >> shift & 255:02x}" for shift in (24, 16, 8, 0))


def _lines(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
