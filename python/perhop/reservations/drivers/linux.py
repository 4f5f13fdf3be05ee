"""A Linux router: nftables polices and counts what it forwards.

Each rule is a chain of its own on the forward hook, in the table ``inet perhop``. Setting it again
flushes and fills the chain in one transaction of the kernel's, so that not a packet passes between
the old and the new, others' packets see nothing of it, and the named counters go on.

The bucket of nftables holds a second of the rate beside the burst: ``nft_limit_init`` makes it
``rate + burst`` bytes where the limit is in bytes (net/netfilter/nft_limit.c). A policer that must
be tighter needs a router that has one.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from typing import Any, Final

from perhop.reservations.drivers.protocol import Counters, DriverError, Rule, Setting

_TABLE: Final = "inet perhop"

_TIMEOUT: Final = 10

_NAME: Final = re.compile(r"perhop_[0-9]+(_back)?")


class LinuxDriver:
    """nftables, by the command `nft`."""

    needs_people = False

    def __init__(self, *, netns: str = "", via: str = "", pid: str = "") -> None:
        """How the router is reached.

        Args:
            netns: The network namespace, as `ip netns` names it; by default this one.
            via: What to write before the command, such as ``ssh root@r1``.
            pid: A process in whose network namespace it is.
        """
        self._prefix = shlex.split(via)
        if pid:
            self._prefix += ["nsenter", "--net", "--target", pid, "--"]
        if netns:
            self._prefix += ["ip", "netns", "exec", netns]

    def configuration(self, rule: Rule, old: Rule | None = None, *, remove: bool = False) -> str:
        """The commands of nft."""
        del old
        return _removal(rule.name) if remove else _script(rule)

    def expected(self, rule: Rule) -> Setting:
        """Nftables limits whole bytes per second."""
        return Setting(rule.rate // 8 * 8, rule.burst, rule.packets)

    def set(self, rule: Rule) -> None:
        """Set a rule in one transaction."""
        if rule.rate < 8:
            raise DriverError("nftables polices 8 bit/s or more")
        self._nft(_script(rule))

    def remove(self, name: str) -> None:
        """Remove a rule in one transaction."""
        if name in self.installed():
            self._nft(_removal(name))

    def installed(self) -> dict[str, Setting]:
        """What the kernel has."""
        found = {}
        for item in self._list():
            rule = item.get("rule", {})
            limits = [part["limit"] for part in rule.get("expr", []) if "limit" in part]
            if _NAME.fullmatch(rule.get("chain", "")) and limits:
                limit = limits[0]
                found[rule["chain"]] = Setting(
                    limit["rate"] * 8, limit.get("burst", 0), rule.get("comment", "")
                )
        return found

    def counters(self) -> dict[str, Counters]:
        """What the kernel counted."""
        counted: dict[str, dict[str, int]] = {}
        for item in self._list():
            counter = item.get("counter", {})
            name, _, what = counter.get("name", "").rpartition("_")
            if _NAME.fullmatch(name):
                own = counted.setdefault(name, {})
                own |= {f"{what}_packets": counter["packets"], f"{what}_bytes": counter["bytes"]}
        return {name: Counters(**values) for name, values in counted.items()}

    def clear(self, name: str) -> None:
        """Set both counters of a rule to zero."""
        for what in ("conformed", "exceeded"):
            self._nft(f"reset counter {_TABLE} {name}_{what}\n")

    def _list(self) -> list[dict[str, Any]]:
        # Adding what is there does nothing, and what is not there cannot be listed.
        self._nft(f"add table {_TABLE}\n")
        said = self._run(["-j", "list", "table", *_TABLE.split()])
        found: list[dict[str, Any]] = json.loads(said)["nftables"]
        return found

    def _nft(self, script: str) -> None:
        self._run(["-f", "-"], script)

    def _run(self, arguments: list[str], script: str = "") -> str:
        command = [*self._prefix, "nft", *arguments]
        try:
            done = subprocess.run(
                command, input=script, capture_output=True, text=True, timeout=_TIMEOUT, check=False
            )
        except subprocess.TimeoutExpired:
            raise DriverError(f"{shlex.join(command)} took more than {_TIMEOUT} s") from None
        except OSError as error:
            raise DriverError(f"{command[0]}: {error.strerror}") from None
        if done.returncode:
            said = done.stderr.strip().splitlines()
            raise DriverError(said[0] if said else f"{command[0]} ended with {done.returncode}")
        return done.stdout


def _script(rule: Rule) -> str:
    name, match = rule.name, _match(rule)
    limit = f"limit rate over {rule.rate // 8} bytes/second burst {rule.burst} bytes"
    return f"""\
add table {_TABLE}
add counter {_TABLE} {name}_conformed
add counter {_TABLE} {name}_exceeded
add chain {_TABLE} {name} {{ type filter hook forward priority filter; policy accept; }}
flush chain {_TABLE} {name}
add rule {_TABLE} {name} {match} {limit} counter name {name}_exceeded drop comment "{rule.packets}"
add rule {_TABLE} {name} {match} counter name {name}_conformed
"""


def _removal(name: str) -> str:
    return f"""\
flush chain {_TABLE} {name}
delete chain {_TABLE} {name}
delete counter {_TABLE} {name}_conformed
delete counter {_TABLE} {name}_exceeded
"""


def _match(rule: Rule) -> str:
    family = "ip6" if ":" in rule.source else "ip"
    selector = rule.selector
    parts = [f"{family} saddr {rule.source}", f"{family} daddr {rule.destination}"]
    if selector.dscp is not None:
        parts.append(f"{family} dscp {selector.dscp}")
    protocol = selector.protocol
    if protocol is not None:
        number = "ipv6-icmp" if protocol == "icmp" and family == "ip6" else protocol
        parts.append(f"meta l4proto {number}")
    elif selector.source_ports or selector.destination_ports:
        parts.append("meta l4proto { tcp, udp }")
    for which, ports in (("sport", selector.source_ports), ("dport", selector.destination_ports)):
        if ports is not None:
            low, high = ports
            parts.append(f"th {which} {low}" + (f"-{high}" if high > low else ""))
    return " ".join(parts)
