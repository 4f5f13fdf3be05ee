"""A Linux router: nftables polices and counts what it forwards, and HTB gives it its rate.

Each rule is a chain of its own on the forward hook, in the table ``inet perhop``. Setting it again
flushes and fills the chain in one transaction of the kernel's, so that not a packet passes between
the old and the new, others' packets see nothing of it, and the named counters go on. What conforms
gets a class of HTB's where the router sends it (see `htb`), so that it goes before what others
send.

The bucket of nftables' limit holds a second of the rate at least (`perhop.linux.buckets`): a burst
of less is let through as a second of the rate. `Setting.burst` says what the bucket holds.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field
from ipaddress import ip_network
from typing import TYPE_CHECKING, Any, Final

from perhop.errors import UsageError
from perhop.linux import nft
from perhop.linux.buckets import Limit
from perhop.linux.commands import CommandError, Process
from perhop_services.reservations.drivers.htb import HANDLE, Share, Shares
from perhop_services.reservations.drivers.protocol import (
    DriverError,
    PolicerCounters,
    RefusedError,
    Rule,
    Setting,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

_NAME: Final = re.compile(r"perhop_([a-z]+_)?[0-9]+(_back)?")


@dataclass(slots=True)
class _Chain:
    """What nftables has of a rule: its policer and packets, its class, where it leads; counters."""

    limit: Limit | None = None
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
        prefix = shlex.split(via)
        if pid:
            prefix += ["nsenter", "--net", "--target", pid, "--"]
        if netns:
            prefix += ["ip", "netns", "exec", netns]
        self._process = Process(tuple(prefix))
        self._shares = Shares(self._run)

    def configuration(self, rule: Rule, old: Rule | None = None, *, remove: bool = False) -> str:
        """The commands of nft; which class there is, the router decides when it is set."""
        del old
        return nft.removal(_chain(rule)) if remove else nft.replacement(_chain(rule))

    def expected(self, rule: Rule) -> Setting:
        """Nftables limits whole bytes per second, and lets a second of them through at once."""
        limit = _limit(rule)
        rate = limit.rate * 8
        return Setting(rate, limit.bucket, rule.packets, rate if self._shared(rule) else None)

    def _shared(self, rule: Rule) -> bool:
        return self._guarantees and rule.link_rate > 0

    def set(self, rule: Rule) -> None:
        """Set a rule: its class, and then what leads packets there, in one transaction."""
        if rule.rate < 8:
            raise RefusedError("nftables polices 8 bit/s or more")
        old = self._chains().get(rule.name)
        minor = old.minor if old is not None else None
        if not self._shared(rule):
            self._nft(nft.replacement(_chain(rule)))
            self._let_go(minor)
            return
        device = self._shares.devices([rule.destination]).get(rule.destination)
        if device is None:
            raise DriverError(f"the router has no route to {rule.destination}")
        limit = _limit(rule)
        share, before = self._shares.put(
            device, minor, rule.rate, rule.burst, limit.bucket, rule.link_rate
        )
        stays = before is not None and before.device == device
        try:
            self._nft(nft.replacement(_chain(rule, share)))
        except DriverError:
            if old is not None and old.limit is not None and stays:
                rate, bucket = old.limit.rate * 8, old.limit.bucket
                burst = min(rule.burst, bucket)
                self._shares.put(device, minor, rate, burst, bucket, rule.link_rate)
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
        self._nft(nft.removal(nft.Chain(name, (), counters=_counters(name))))
        self._let_go(chain.minor)

    def installed(self) -> dict[str, Setting]:
        """What the kernel has."""
        chains = self._chains()
        # Without chains, too: a root that waited to be empty may go by now.
        shares = self._shares.there() if self._guarantees else {}
        led = [each.destination for each in chains.values() if each.minor is not None]
        devices = self._shares.devices(led)
        found = {}
        for name, chain in chains.items():
            if chain.limit is None:
                continue
            rate, guaranteed = chain.limit.rate * 8, None
            if chain.minor is not None:
                share = shares.get(chain.minor)
                # A class on a device that the packets no longer leave by gives them nothing.
                here = share is not None and share.device == devices.get(chain.destination)
                guaranteed = share.about(rate) if share is not None and here else 0
            found[name] = Setting(rate, chain.limit.bucket, chain.packets, guaranteed)
        return found

    def counters(self) -> dict[str, PolicerCounters]:
        """What the kernel counted."""
        chains = self._chains().items()
        return {name: PolicerCounters(**chain.counted) for name, chain in chains if chain.counted}

    def clear(self, name: str) -> None:
        """Set both counters of a rule to zero."""
        for counter in _counters(name):
            self._nft(f"reset counter {nft.TABLE} {counter}\n")

    def _chains(self) -> dict[str, _Chain]:
        # The whole family, as a table that is not there could not be listed.
        said = self._run(["nft", "-j", "list", "ruleset", nft.TABLE.split()[0]])
        found: dict[str, _Chain] = {}
        for kind, own in nft.read(said):
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

    def _run(self, command: Sequence[str], given: str = "", *, check: bool = True) -> str:
        try:
            return self._process(command, given, check=check)
        except CommandError as error:
            raise DriverError(str(error)) from None


def _read(rule: dict[str, Any], chain: _Chain) -> None:
    """Take in what one rule of a chain says, in nft's JSON."""
    for part in rule["expr"]:
        if "limit" in part:
            chain.limit = Limit(part["limit"]["rate"], part["limit"].get("burst", 0))
            chain.packets = rule.get("comment", "")
        elif "mangle" in part:
            major, _, minor = str(part["mangle"]["value"]).partition(":")
            if major == HANDLE:
                chain.minor = int(minor, 16)
        elif "match" in part:
            left = part["match"]["left"]
            if left.get("payload", {}).get("field") == "daddr":
                chain.destination = part["match"]["right"]


def _limit(rule: Rule) -> Limit:
    """The policer of a rule, which lets through no more than its rate."""
    return Limit.holding(rule.rate // 8, rule.burst)


def _counters(name: str) -> tuple[str, str]:
    return f"{name}_conformed", f"{name}_exceeded"


def _chain(rule: Rule, share: Share | None = None) -> nft.Chain:
    """A rule as a chain: what exceeds is dropped, and the rest led to its class, if it has one."""
    selector = rule.selector
    (match,) = nft.conditions(
        dscp=None if selector.dscp is None else (selector.dscp,),
        protocols=None if selector.protocol is None else (selector.protocol,),
        source_port=None if selector.source_ports is None else (selector.source_ports,),
        destination_port=(
            None if selector.destination_ports is None else (selector.destination_ports,)
        ),
        sources=(ip_network(rule.source),),
        destinations=(ip_network(rule.destination),),
    )
    conformed, exceeded = _counters(rule.name)
    led = f" meta priority set {share.classid}" if share is not None else ""
    rules = (
        f'{match} {_limit(rule)} counter name {exceeded} drop comment "{rule.packets}"',
        f"{match} counter name {conformed}{led}",
    )
    hook = "type filter hook forward priority filter"
    return nft.Chain(rule.name, rules, hook, (conformed, exceeded))
