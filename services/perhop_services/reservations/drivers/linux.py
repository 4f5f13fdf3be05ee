"""A Linux router: nftables polices and counts what it forwards, and HTB gives it its rate.

Each rule is a chain of its own on the forward hook, in the table ``inet perhop``. Setting it again
flushes and fills the chain in one transaction of the kernel's, so that not a packet passes between
the old and the new, others' packets see nothing of it, and the named counters go on. What conforms
gets a class of HTB's where the router sends it (see `htb`), so that it goes before what others
send.

The bucket of nftables holds a second of the rate beside the burst: ``nft_limit_init`` makes it
``rate + burst`` bytes where the limit is in bytes (net/netfilter/nft_limit.c). A policer that must
be tighter needs a router that has one.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from dataclasses import dataclass, field
from typing import Any, Final

from perhop.errors import UsageError
from perhop_services.reservations.drivers.htb import HANDLE, Share, Shares
from perhop_services.reservations.drivers.protocol import (
    Counters,
    DriverError,
    RefusedError,
    Rule,
    Setting,
)

_TABLE: Final = "inet perhop"

_TIMEOUT: Final = 10

_NAME: Final = re.compile(r"perhop_([a-z]+_)?[0-9]+(_back)?")


@dataclass(slots=True)
class _Chain:
    """What nftables has of a rule: rate, burst and packets, its class, where it leads; counters."""

    rate: int = 0
    burst: int = 0
    packets: str = ""
    minor: int | None = None
    destination: str = ""
    counted: dict[str, int] = field(default_factory=dict)


class LinuxDriver:
    """nftables and HTB, by the commands `nft`, `tc` and `ip`."""

    needs_people = False

    def __init__(
        self, *, netns: str = "", via: str = "", pid: str = "", guarantee: str = "yes"
    ) -> None:
        """How the router is reached, and what it does.

        Args:
            netns: The network namespace, as `ip netns` names it; by default this one.
            via: What to write before the command, such as ``ssh root@r1``.
            pid: A process in whose network namespace it is.
            guarantee: ``yes``, or ``no`` for a router that only polices, as where its devices have
                queueing disciplines of their own.

        Raises:
            UsageError: `guarantee` is neither.
        """
        if guarantee not in ("yes", "no"):
            raise UsageError(f"guarantee={guarantee}: expected yes or no")
        self._guarantees = guarantee == "yes"
        self._prefix = shlex.split(via)
        if pid:
            self._prefix += ["nsenter", "--net", "--target", pid, "--"]
        if netns:
            self._prefix += ["ip", "netns", "exec", netns]
        self._shares = Shares(self._run)

    def configuration(self, rule: Rule, old: Rule | None = None, *, remove: bool = False) -> str:
        """The commands of nft; which class there is, the router decides when it is set."""
        del old
        return _removal(rule.name) if remove else _script(rule)

    def expected(self, rule: Rule) -> Setting:
        """Nftables limits whole bytes per second."""
        rate = rule.rate // 8 * 8
        return Setting(rate, rule.burst, rule.packets, rate if self._shared(rule) else None)

    def _shared(self, rule: Rule) -> bool:
        return self._guarantees and rule.link_rate > 0

    def set(self, rule: Rule) -> None:
        """Set a rule: its class, and then what leads packets there, in one transaction."""
        if rule.rate < 8:
            raise RefusedError("nftables polices 8 bit/s or more")
        old = self._chains().get(rule.name)
        minor = old.minor if old is not None else None
        if not self._shared(rule):
            self._nft(_script(rule))
            self._let_go(minor)
            return
        device = self._shares.devices([rule.destination]).get(rule.destination)
        if device is None:
            raise DriverError(f"the router has no way to {rule.destination}")
        share, before = self._shares.put(device, minor, rule.rate, rule.burst, rule.link_rate)
        stays = before is not None and before.device == device
        try:
            self._nft(_script(rule, share))
        except DriverError:
            if old is not None and stays:
                self._shares.put(device, minor, old.rate, old.burst, rule.link_rate)
            else:
                self._shares.remove(share)
            raise
        if before is not None and not stays:
            self._shares.remove(before)

    def _let_go(self, minor: int | None) -> None:
        share = self._shares.there().get(minor) if minor is not None else None
        if share is not None:
            self._shares.remove(share)

    def remove(self, name: str) -> None:
        """Remove a rule in one transaction, and its class when no packet is led there any more."""
        chain = self._chains().get(name)
        if chain is None:
            return
        self._nft(_removal(name))
        self._let_go(chain.minor)

    def installed(self) -> dict[str, Setting]:
        """What the kernel has."""
        chains = {name: chain for name, chain in self._chains().items() if chain.rate}
        # Without chains, too: a root that waited to be empty may go by now.
        shares = self._shares.there() if self._guarantees else {}
        led = [each.destination for each in chains.values() if each.minor is not None]
        devices = self._shares.devices(led)
        found = {}
        for name, chain in chains.items():
            guaranteed = None
            if chain.minor is not None:
                share = shares.get(chain.minor)
                # A class on a device that the packets no longer leave by gives them nothing.
                here = share is not None and share.device == devices.get(chain.destination)
                guaranteed = share.about(chain.rate) if share is not None and here else 0
            found[name] = Setting(chain.rate, chain.burst, chain.packets, guaranteed)
        return found

    def counters(self) -> dict[str, Counters]:
        """What the kernel counted."""
        chains = self._chains().items()
        return {name: Counters(**chain.counted) for name, chain in chains if chain.counted}

    def clear(self, name: str) -> None:
        """Set both counters of a rule to zero."""
        for what in ("conformed", "exceeded"):
            self._nft(f"reset counter {_TABLE} {name}_{what}\n")

    def _chains(self) -> dict[str, _Chain]:
        # The whole family, as a table that is not there could not be listed.
        family, table = _TABLE.split()
        said = self._run(["nft", "-j", "list", "ruleset", family])
        found: dict[str, _Chain] = {}
        for item in json.loads(said)["nftables"]:
            ((kind, own),) = item.items()
            if own.get("table") != table:
                continue
            if kind == "rule" and _NAME.fullmatch(own["chain"]):
                _read(own, found.setdefault(own["chain"], _Chain()))
            elif kind == "counter":
                name, _, what = own["name"].rpartition("_")
                if _NAME.fullmatch(name):
                    counted = {f"{what}_packets": own["packets"], f"{what}_bytes": own["bytes"]}
                    found.setdefault(name, _Chain()).counted |= counted
        return found

    def _nft(self, script: str) -> None:
        self._run(["nft", "-f", "-"], script)

    def _run(self, command: list[str], given: str = "", *, strict: bool = True) -> str:
        command = [*self._prefix, *command]
        try:
            done = subprocess.run(
                command, input=given, capture_output=True, text=True, timeout=_TIMEOUT, check=False
            )
        except subprocess.TimeoutExpired:
            raise DriverError(f"{shlex.join(command)} took more than {_TIMEOUT} s") from None
        except OSError as error:
            raise DriverError(f"{command[0]}: {error.strerror}") from None
        if strict and done.returncode:
            said = done.stderr.strip().splitlines()
            raise DriverError(said[0] if said else f"{command[0]} ended with {done.returncode}")
        return done.stdout


def _read(rule: dict[str, Any], chain: _Chain) -> None:
    """Take in what one rule of a chain says, in nft's JSON."""
    for part in rule["expr"]:
        if "limit" in part:
            limit = part["limit"]
            chain.rate, chain.burst = limit["rate"] * 8, limit.get("burst", 0)
            chain.packets = rule.get("comment", "")
        elif "mangle" in part:
            major, _, minor = str(part["mangle"]["value"]).partition(":")
            if major == HANDLE:
                chain.minor = int(minor, 16)
        elif "match" in part:
            left = part["match"]["left"]
            if left.get("payload", {}).get("field") == "daddr":
                chain.destination = part["match"]["right"]


def _script(rule: Rule, share: Share | None = None) -> str:
    name, match = rule.name, _match(rule)
    limit = f"limit rate over {rule.rate // 8} bytes/second burst {rule.burst} bytes"
    led = f" meta priority set {share.classid}" if share is not None else ""
    return f"""\
add table {_TABLE}
add counter {_TABLE} {name}_conformed
add counter {_TABLE} {name}_exceeded
add chain {_TABLE} {name} {{ type filter hook forward priority filter; policy accept; }}
flush chain {_TABLE} {name}
add rule {_TABLE} {name} {match} {limit} counter name {name}_exceeded drop comment "{rule.packets}"
add rule {_TABLE} {name} {match} counter name {name}_conformed{led}
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
