"""What a lab is connected to: namespaces of others, interfaces of this machine, the internet.

Nothing of this machine changes for longer than the lab is up, even if all its processes are killed.
The device in a namespace of others ends with its file descriptor. Interfaces are not moved: a
device of type macvlan shares them, and ends with the namespace of its host, as a veth pair does.
The table of nftables has an owner, with which the kernel removes it.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from ipaddress import AddressValueError, IPv4Address, IPv4Interface, NetmaskValueError
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from perhop.errors import UnsupportedError, UsageError
from perhop.hints import did_you_mean, listed
from perhop.units import quote

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perhop._core import Namespaces
    from perhop.engines import plans

__all__ = ["Outside", "connect_scenario"]

_EVERYWHERE: Final = ("0.0.0.0", 0)
_UPLINK: Final = "uplink"
_POOL: Final = IPv4Address("100.127.0.0")
"""Addresses between this machine and hosts with NAT, of those that are shared (RFC 6598)."""

_PATIENCE_S: Final = 5.0
_RATE: Final = "10 Gbps"
"""The rate of a link to a host that a router gets."""


@dataclass(frozen=True, slots=True)
class Outside:
    """Connections of a lab.

    Attributes:
        namespaces: The paths of namespaces that are hosts.
        nat: The host behind which the internet is; None without.
        interfaces: By host, the interface that it shares, and its address there.
    """

    namespaces: dict[str, str] = field(default_factory=dict)
    nat: str | None = None
    interfaces: dict[str, tuple[str, str]] = field(default_factory=dict)

    @classmethod
    def parse(cls, asked: Mapping[str, Any]) -> Self:
        """Read what `dump` wrote."""
        return cls(**asked)

    def dump(self) -> dict[str, Any]:
        """Write it as JSON has it."""
        return asdict(self)

    def complete(
        self, hosts: Mapping[str, plans.HostPlan], addresses: Mapping[str, tuple[str, ...]]
    ) -> None:
        """Add the connections to the hosts of a plan; `addresses` are those of all nodes."""
        for name, host in hosts.items():
            if name not in {*self.namespaces, *self.interfaces, self.nat}:
                continue
            host["namespace"] = self.namespaces.get(name)
            host["routes"] = [
                (address, 128 if ":" in address else 32)
                for node, own in addresses.items()
                for address in own
                if node != name
            ]
            if name in self.interfaces:
                network = IPv4Interface(self.interfaces[name][1]).network
                host["behind"].append((str(network.network_address), network.prefixlen))
            if name == self.nat:
                host["behind"].append(_EVERYWHERE)

    def connect(self, namespaces: Namespaces, numbers: Mapping[str, int]) -> None:
        """Connect the hosts to the interfaces and the internet.

        Args:
            namespaces: Those of the hosts.
            numbers: The number of each host.

        Raises:
            UnsupportedError: This machine lacks a feature, or the user the right.
        """
        for host, (interface, address) in self.interfaces.items():
            number = numbers[host]
            where = f"--attach {interface}"
            link = ("link", interface, "name", interface, "netns", _path(namespaces, number))
            _machine(where, "ip", "link", "add", *link, "type", "macvlan", "mode", "private")
            inside = (where, namespaces, number)
            _host(*inside, "ip", "address", "add", address, "dev", interface)
            _host(*inside, "ip", "link", "set", interface, "up")
            namespaces.write_sysctl(number, "net.ipv4.ip_forward", "1")
        if self.nat is not None:
            _translate(namespaces, numbers[self.nat])


def connect_scenario(
    scenario: dict[str, Any],
    hosts: Mapping[str, int | str],
    nat: str | None,
    attach: Mapping[str, str],
) -> Outside:
    """Return the connections of a scenario's nodes; a router among them gets a host.

    Args:
        scenario: The scenario as a mapping, to which hosts and links are added.
        hosts: By host, a process or the path of a network namespace, which becomes the host's.
        nat: The node behind which the internet is.
        attach: By node, an interface of this machine and the node's address there, as
            "eth1,192.168.7.1/24".

    Raises:
        UsageError: There is no such node, process, interface or address.
    """
    nodes: dict[str, Any] = scenario["nodes"]

    def kind(node: str) -> str:
        if node not in nodes:
            hint = did_you_mean(node, nodes)
            said = f"; {hint}" if hint else listed(nodes)
            raise UsageError(f"{quote(node)} is not a node of the scenario{said}")
        found = nodes[node]
        return str(found["kind"] if isinstance(found, dict) else found)

    def host_at(node: str, called: str) -> str:
        if kind(node) == "host":
            return node
        if called in nodes:
            raise UsageError(
                f"{quote(node)} is a router, which gets a host {quote(called)}; another node has "
                "this name"
            )
        nodes[called] = {"kind": "host"}
        scenario["links"].append({"ends": [node, called], "rate": _RATE})
        return called

    namespaces = {}
    for node, place in ((node, str(place)) for node, place in hosts.items()):
        if kind(node) != "host":
            raise UsageError(f"{quote(node)} is a router; only a host can be a namespace")
        path = f"/proc/{place}/ns/net" if place.isdigit() else str(Path(place).absolute())
        try:
            Path(path).stat()
        except OSError as error:
            raise UsageError(
                f"host {quote(node)}: {path}: {error.strerror}; expected a process of which you "
                "are root, or the path of a network namespace"
            ) from None
        namespaces[node] = path
    interfaces = {}
    for node, text in attach.items():
        interface, _, address = text.partition(",")
        try:
            parsed = IPv4Interface(address)
        except (AddressValueError, NetmaskValueError, ValueError):
            parsed = None
        if not interface or parsed is None or parsed.network.prefixlen > 30:
            raise UsageError(
                f"--attach {node}={text}: expected an interface and an IPv4 address with the "
                "length of its prefix, such as eth1,192.168.7.1/24"
            )
        interfaces[host_at(node, interface)] = (interface, str(parsed))
    return Outside(namespaces, nat and host_at(nat, "internet"), interfaces)


def _translate(namespaces: Namespaces, number: int) -> None:
    """Connect a host to the networks of this machine by NAT."""
    if Path("/proc/sys/net/ipv4/ip_forward").read_text(encoding="ascii").strip() != "1":
        raise UnsupportedError(
            "--nat: this machine forwards no packets; `sysctl net.ipv4.ip_forward=1` permits it"
        )
    own = os.getpid()
    device = f"perhop{own}"
    first = _free_network(own)
    here, there = str(first + 1), str(first + 2)
    peer = ("peer", "name", _UPLINK, "netns", _path(namespaces, number))
    _machine("--nat", "ip", "link", "add", "name", device, "type", "veth", *peer)
    _machine("--nat", "ip", "address", "add", f"{here}/30", "dev", device)
    _machine("--nat", "ip", "link", "set", device, "up")
    inside = ("--nat", namespaces, number)
    _host(*inside, "ip", "address", "add", f"{there}/30", "dev", _UPLINK)
    _host(*inside, "ip", "link", "set", _UPLINK, "up")
    _host(*inside, "ip", "route", "replace", "default", "via", here, "dev", _UPLINK)
    namespaces.write_sysctl(number, "net.ipv4.ip_forward", "1")
    # The machine sees one address of the lab, whatever networks it has itself.
    _host(*inside, "nft", "-f", "-", stdin=_masquerade("perhop", f'oifname "{_UPLINK}"', ""))
    rule = f'ip saddr {there} oifname != "{device}"'
    _own_table(f"perhop_{own}", _masquerade(f"perhop_{own}", rule, "flags owner;"))


def _masquerade(table: str, rule: str, flags: str) -> str:
    chain = "type nat hook postrouting priority srcnat;"
    return (
        f"add table ip {table} {{ {flags} }}; add chain ip {table} out {{ {chain} }}; "
        f"add rule ip {table} out {rule} masquerade\n"
    )


def _own_table(name: str, commands: str) -> None:
    """Create a table that exists as long as this process (NFT_TABLE_F_OWNER).

    nft holds it, and ends with its input, which is a pipe from this process.
    """
    try:
        holder = subprocess.Popen(
            ["nft", "-i"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": "/nonexistent"},
        )
    except OSError as error:
        raise UnsupportedError(f"--nat: nft: {error.strerror}; install nftables") from None
    assert holder.stdin is not None
    with suppress(BrokenPipeError):
        holder.stdin.write(commands.encode())
        holder.stdin.flush()
    _HOLDERS.append(holder)
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        found = subprocess.run(["nft", "list", "table", "ip", name], capture_output=True)
        if b"masquerade" in found.stdout:
            return
        time.sleep(0.02)
    raise UnsupportedError("--nat: nft cannot create a table with an owner, which needs Linux 5.12")


_HOLDERS: Final[list[subprocess.Popen[bytes]]] = []
"""Processes that end with this one, which must not be waited for."""


def _free_network(start: int) -> IPv4Address:
    """Return the first address of four that no interface of this machine has."""
    listing = subprocess.run(["ip", "-j", "-4", "address"], capture_output=True, check=False)
    taken: set[IPv4Address] = set()
    with suppress(ValueError):
        for device in json.loads(listing.stdout):
            taken |= {IPv4Address(each["local"]) for each in device.get("addr_info", ())}
    while True:
        first = _POOL + start % 2**14 * 4
        if not taken & {first + number for number in range(4)}:
            return first
        start += 1


def _path(namespaces: Namespaces, number: int) -> str:
    return f"/proc/{os.getpid()}/fd/{namespaces.fd(number)}"


def _machine(option: str, *command: str) -> None:
    """Run a command in the network of this machine."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise UnsupportedError(f"{option}: {command[0]}: {error.strerror}") from None
    _refuse(option, command, done.returncode, done.stderr)


def _host(option: str, namespaces: Namespaces, number: int, *command: str, stdin: str = "") -> None:
    """Run a command in a host."""
    try:
        code, _, said = namespaces.run(number, [*command], stdin.encode())
    except OSError as error:
        raise UnsupportedError(f"{option}: {error}") from None
    _refuse(option, command, code, said.decode(errors="replace"))


def _refuse(option: str, command: tuple[str, ...], code: int, said: str) -> None:
    if code:
        reason = " ".join(said.split())
        right = "; this needs root" if "permitted" in reason else ""
        raise UnsupportedError(f"{option}: `{' '.join(command)}` failed: {reason}{right}")
