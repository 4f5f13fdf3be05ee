"""The commands as a shell script with comments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perhop.linux.routes import per_packet_groups
from perhop.units import format_duration

if TYPE_CHECKING:
    from collections.abc import Collection

    from perhop.linux.mapping import Interface, Mapping
    from perhop.scenario import Scenario

__all__ = ["one_line", "script"]

MOST_COMMENT: Final = 500
"""The greatest length of a text of a scenario in a comment."""


def one_line(text: str) -> str:
    """Return text for a comment of any language: a short line of printable ASCII without ``*/``."""
    plain = ascii(" ".join(text.split()))[1:-1].replace("*/", "* /")
    return plain if len(plain) <= MOST_COMMENT else f"{plain[: MOST_COMMENT - 3]}..."


def script(scenario: Scenario, found: Mapping, *, links: Collection[str] = ()) -> str:
    """Shell commands for each node, with what they stand for as comments.

    Hosts without a policy or mark have comments only. Routes come only where a node has several
    ways. Interfaces hand over packets one by one: HTB charges layer 2 once for segments that the
    kernel carries as one packet, and a policer lets all pass or drops all.

    Args:
        scenario: The scenario.
        found: Its commands.
        links: The directed links whose interfaces to write; all by default.
    """
    lines = [
        f"# {one_line(scenario.title or scenario.name)}",
        "# Each part is for one machine. Interfaces are called as below; give yours by --device.",
    ]
    interfaces: dict[str, list[Interface]] = {node: [] for node in scenario.nodes}
    for each in found.interfaces.values():
        # Tunnels are gaps, and so are their devices.
        if each.direction in (links or scenario.directions):
            interfaces[each.node].append(each)
    for name, node in scenario.nodes.items():
        own = interfaces[name]
        if not own and links:
            continue
        policies = [each for each in own if scenario.directions[each.direction][0].egress.get(name)]
        if node.kind == "host" and not (policies or found.nft[name]):
            lines += [
                "",
                f"# {'=' * 8} {name}, a host: if its link is virtual (veth, virtio) {'=' * 8}",
            ]
            lines += [f"# {_one_by_one(each.device)}" for each in own]
            continue
        lines += ["", f"# {'=' * 8} {name}, a {node.kind} {'=' * 8}"]
        for each in own:
            # Packets that a card has joined on arrival, and packets that this machine sends itself.
            lines += [f"ethtool -K {each.device} gro off lro off", _one_by_one(each.device)]
        lines += [f"sysctl -w {key}={value}" for key, value in found.sysctls[name].items()]
        several = {
            f"{address}/{address.max_prefixlen}"
            for to, names in found.next_hops[name].items()
            if len(names) > 1
            for address in (scenario.addresses[to], scenario.addresses_v6[to])
        }
        if several:
            in_turn = bool(per_packet_groups(scenario, name, found.next_hops))
            lines += [
                f"ip {line}"
                for line in found.ip[name]
                if (in_turn and (" rule " in f" {line}" or " table " in line))
                or (not in_turn and not several.isdisjoint(line.split()))
            ]
        for each in own:
            link, _ = scenario.directions[each.direction]
            policy = link.egress.get(name)
            lines += ["", f"# {each.direction}: {f'policy {policy}' if policy else 'its queue'}"]
            for part in each.htb.nodes:
                if part.path:
                    lines.append(f"#   {part.handle}  {part.path}")
            lines += ["tc -batch - <<'END'", *each.tc, "END"]
        if found.nft[name]:
            lines += ["", "nft -f - <<'END'", found.nft[name], "END"]
    for step in found.steps:
        lines += ["", f"# at {format_duration(step.at)}, {step.node}: {step.about}"]
        commands = [f"tc {line}" for line in step.tc]
        commands += [f"nft -f - <<'END'\n{step.nft}\nEND"] if step.nft else []
        commands += [f"ip {line}" for line in step.ip]
        lines += [f"# {line}" for command in commands for line in command.splitlines()]
    return "\n".join(lines) + "\n"


def _one_by_one(device: str) -> str:
    """Make a device send segments as separate packets."""
    return f"ip link set dev {device} gso_max_segs 1"
