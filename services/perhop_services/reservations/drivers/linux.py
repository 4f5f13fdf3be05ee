"""A Linux router: it polices and counts what it forwards, and HTB gives it its rate.

Each rule is a chain of its own on the forward hook, in the table ``inet perhop``. Setting it again
flushes and fills the chain in one transaction of the kernel's, so that not a packet passes between
the old and the new, others' packets see nothing of it, and counters go on. What conforms gets a
class of HTB's where the router sends it (see `htb`), so that it goes before what others send.

What polices is tc's action, whose bucket holds the burst exactly, where the kernel has it and
packets have a class; else nftables' limit, whose bucket holds a second of the rate at least
(`perhop.linux.buckets`). `Setting` says which it is, and what the bucket holds.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field
from ipaddress import ip_network
from typing import TYPE_CHECKING, Any, Final

from perhop.errors import UsageError
from perhop.linux import nft
from perhop.linux.buckets import Limit, PoliceAction
from perhop.linux.commands import CommandError, Process
from perhop.linux.probe import Probes
from perhop_services.reservations.drivers.htb import HANDLE, Share, Shares
from perhop_services.reservations.drivers.protocol import (
    RULE_NAME,
    DriverError,
    PolicerCounters,
    RefusedError,
    Rule,
    Setting,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

_TOLD: Final = re.compile(r"(\d+) B/s, (\d+) B")


@dataclass(slots=True)
class _Chain:
    """A rule in nftables: its policer and packets, its class, its destination; counters."""

    policer: Limit | PoliceAction | None = None
    packets: str = ""
    minor: int | None = None
    destination: str = ""
    counted: dict[str, int] = field(default_factory=dict)


class LinuxDriver:
    """nftables and HTB, by the commands `nft`, `tc` and `ip`."""

    needs_people = False

    def __init__(
        self,
        *,
        netns: str = "",
        via: str = "",
        pid: str = "",
        guarantee: str = "yes",
        police: str = "",
    ) -> None:
        """Create the driver of a router.

        Args:
            netns: The network namespace, as `ip netns` names it; by default this one.
            via: Prefix of the command, such as ``ssh root@r1``.
            pid: A process in whose network namespace it is.
            guarantee: ``yes``, or ``no`` for a router that only polices, as where its devices have
                queueing disciplines of their own.
            police: Policer, ``tc`` or ``nft``; by default tc, where its kernel can.

        Raises:
            UsageError: `guarantee` or `police` is none of these, or they contradict each other.
        """
        if guarantee not in ("yes", "no"):
            raise UsageError(f"guarantee={guarantee}: expected yes or no")
        if police not in ("", "tc", "nft"):
            raise UsageError(f"police={police}: expected tc or nft")
        if (police, guarantee) == ("tc", "no"):
            raise UsageError("police=tc polices before a class; expected guarantee=yes")
        self._guarantees = guarantee == "yes"
        self._by_tc = {"tc": True, "nft": False}.get(police)
        prefix = shlex.split(via)
        if pid:
            prefix += ["nsenter", "--net", "--target", pid, "--"]
        if netns:
            prefix += ["ip", "netns", "exec", netns]
        self._process = Process(tuple(prefix))
        self._probes = Probes(Process((*prefix, "unshare", "--net")))
        self._shares = Shares(self._run)

    def configuration(self, rule: Rule, old: Rule | None = None, *, remove: bool = False) -> str:
        """The commands of nft; which class there is, the router decides when it is set."""
        del old
        policer = self._policer(rule)
        chain = _chain(rule, policer)
        about = f"# tc: {policer}\n" if isinstance(policer, PoliceAction) else ""
        return nft.removal(chain) if remove else about + nft.replacement(chain)

    def expected(self, rule: Rule) -> Setting:
        """Linux polices whole bytes per second, and nftables lets a second of them through."""
        policer = self._policer(rule)
        rate = policer.rate * 8
        guaranteed = rate if self._shared(rule) else None
        return Setting(rate, policer.bucket, rule.packets, guaranteed, _kind(policer))

    def _policer(self, rule: Rule) -> Limit | PoliceAction:
        """The policer of a rule, which lets through no more than its rate."""
        action = PoliceAction(rule.rate // 8, rule.burst)
        if self._by_tc and self._shared(rule) and action.fits:
            return action
        return Limit.holding(rule.rate // 8, rule.burst)

    def _probe(self) -> None:
        """Find out which policers the kernel has, unless the configuration names one."""
        if self._by_tc is None:
            try:
                self._by_tc = self._guarantees and self._probes.has_police()
            except CommandError as error:
                raise DriverError(str(error)) from None

    def _shared(self, rule: Rule) -> bool:
        return self._guarantees and rule.link_rate > 0

    def set(self, rule: Rule) -> None:
        """Set a rule: its class, and then what leads packets there, in one transaction."""
        if rule.rate < 8:
            raise RefusedError("nftables polices 8 bit/s or more")
        self._probe()
        policer = self._policer(rule)
        if not policer.fits:
            raise RefusedError(f"nftables takes a burst of less than 4 GiB, not {rule.burst} B")
        old = self._chains().get(rule.name)
        minor = old.minor if old is not None else None
        if not self._shared(rule):
            self._nft(nft.replacement(_chain(rule, policer)))
            self._let_go(minor)
            return
        device = self._shares.devices([rule.destination]).get(rule.destination)
        if device is None:
            raise DriverError(f"the router has no route to {rule.destination}")
        share, before = self._shares.put(
            device, minor, rule.rate, rule.burst, policer, rule.link_rate
        )
        stays = before is not None and before.device == device
        try:
            self._nft(nft.replacement(_chain(rule, policer, share)))
        except DriverError:
            if old is not None and old.policer is not None and stays:
                rate, burst = old.policer.rate * 8, min(rule.burst, old.policer.bucket)
                self._shares.put(device, minor, rate, burst, old.policer, rule.link_rate)
                if isinstance(old.policer, Limit):
                    self._shares.let_through(share)
            else:
                self._shares.remove(share)
            raise
        if before is not None and stays and isinstance(policer, Limit):
            self._shares.let_through(share)
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
        """Return the rules that the kernel has."""
        self._probe()
        chains = self._chains()
        # Without chains, too: a root that waited to be empty may go by now.
        shares = self._shares.there() if self._guarantees else {}
        led = [each.destination for each in chains.values() if each.minor is not None]
        devices = self._shares.devices(led)
        found = {}
        for name, chain in chains.items():
            if chain.policer is None:
                continue
            rate, guaranteed = chain.policer.rate * 8, None
            share = shares.get(chain.minor) if chain.minor is not None else None
            if chain.minor is not None:
                # A class on a device that the packets no longer leave by gives them nothing.
                here = share is not None and share.device == devices.get(chain.destination)
                guaranteed = share.about(rate) if share is not None and here else 0
            if isinstance(chain.policer, PoliceAction):
                policer = share.policer if share is not None else None
                if policer is None or not policer.is_like(chain.policer):
                    found[name] = Setting(0, 0, chain.packets, guaranteed, "tc")
                    continue
            kind = _kind(chain.policer)
            found[name] = Setting(rate, chain.policer.bucket, chain.packets, guaranteed, kind)
        return found

    def counters(self) -> dict[str, PolicerCounters]:
        """Return the counters of the kernel."""
        chains = self._chains()
        by_tc = any(isinstance(chain.policer, PoliceAction) for chain in chains.values())
        shares = self._shares.there() if by_tc else {}
        found = {}
        for name, chain in chains.items():
            if isinstance(chain.policer, PoliceAction):
                share = shares.get(chain.minor or 0)
                if share is not None and share.policer is not None:
                    found[name] = share.policer.counters
            elif chain.counted:
                found[name] = PolicerCounters(**chain.counted)
        return found

    def clear(self, name: str) -> None:
        """Set the counters of a rule to zero; the bucket of tc's policer is full after that."""
        chain = self._chains().get(name, _Chain())
        if isinstance(chain.policer, PoliceAction):
            share = self._shares.there().get(chain.minor or 0)
            if share is None:
                raise DriverError(f"{name} has no class that is policed")
            self._shares.renew(share, chain.policer)
        else:
            for counter in _counters(name):
                self._nft(f"reset counter {nft.TABLE} {counter}\n")

    def _chains(self) -> dict[str, _Chain]:
        # The whole family, as a table that is not there could not be listed.
        said = self._run(["nft", "-j", "list", "ruleset", nft.TABLE.split()[0]])
        found: dict[str, _Chain] = {}
        for kind, own in nft.read(said):
            if kind == "rule" and RULE_NAME.fullmatch(own["chain"]):
                _read(own, found.setdefault(own["chain"], _Chain()))
            elif kind == "counter":
                name, _, what = own["name"].rpartition("_")
                if RULE_NAME.fullmatch(name):
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


def _kind(policer: Limit | PoliceAction) -> str:
    return "tc" if isinstance(policer, PoliceAction) else "nft"


def _read(rule: dict[str, Any], chain: _Chain) -> None:
    """Take in what one rule of a chain says, in nft's JSON."""
    comment = rule.get("comment", "")
    for part in rule["expr"]:
        if "limit" in part:
            chain.policer = Limit(part["limit"]["rate"], part["limit"].get("burst", 0))
            chain.packets = comment
        elif "mangle" in part:
            value = part["mangle"]["value"]
            if isinstance(value, int) and value >> 16 == int(HANDLE, 16):
                chain.minor, chain.packets = value & 0xFFFF, comment
            elif str(value).partition(":")[0] == HANDLE:
                chain.minor = int(str(value).partition(":")[2], 16)
        elif "match" in part:
            left = part["match"]["left"]
            if left.get("payload", {}).get("field") == "daddr":
                chain.destination = part["match"]["right"]
    if told := _TOLD.fullmatch(comment):
        chain.policer = PoliceAction(int(told[1]), int(told[2]))


def _counters(name: str) -> tuple[str, str]:
    return f"{name}_conformed", f"{name}_exceeded"


def _chain(rule: Rule, policer: Limit | PoliceAction, share: Share | None = None) -> nft.Chain:
    """A rule as a chain: its packets are policed, and led to their class if they have one."""
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
    about = f'comment "{rule.packets}"'
    if isinstance(policer, PoliceAction):
        # The second rule does nothing: tc says its settings rounded, so it says them exactly.
        mark = share.mark if share is not None else f"0x{HANDLE}0000"
        told = f'comment "{policer.rate} B/s, {policer.bucket} B"'
        rules = (f"{match} meta mark set {mark} {about}", f"meta mark {mark} accept {told}")
    else:
        led = f" meta priority set {share.classid}" if share is not None else ""
        rules = (
            f"{match} {policer} counter name {exceeded} drop {about}",
            f"{match} counter name {conformed}{led}",
        )
    return nft.Chain(
        rule.name, rules, "type filter hook forward priority filter", (conformed, exceeded)
    )
