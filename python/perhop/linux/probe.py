"""Probes: what a kernel can do of what perhop asks of Linux.

Each is tried once, in an empty network namespace, because nothing lists what a kernel has: modules
are loaded when they are asked for.
"""

from __future__ import annotations

import shutil
from functools import cache
from typing import TYPE_CHECKING, Final

from perhop._core import Counts, Namespaces
from perhop.errors import UnsupportedError
from perhop.linux import nft
from perhop.linux.buckets import PoliceAction
from perhop.linux.commands import CommandError, InNamespace
from perhop.linux.gaps import Gap
from perhop.linux.tunnels import DEVICES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perhop.linux.commands import Run
    from perhop.linux.mapping import Mapping
    from perhop.linux.policers import Means

__all__ = ["DEVICES", "QUEUES", "RULES", "Probes", "missing", "polices", "this_kernel", "tools"]

_TOOLS: Final = {"ip": "iproute2", "tc": "iproute2", "nft": "nftables"}

_QDISCS: Final = {
    "htb": "htb default 1",
    "hfsc": "hfsc default 1",
    "ets": "ets bands 2 strict 1 quanta 1514",
    "red": "red limit 100000 min 10000 max 30000 avpkt 1000 burst 20 bandwidth 10mbit",
    "pfifo": "pfifo limit 10",
    "pfifo_head_drop": "pfifo_head_drop limit 10",
    "bfifo": "bfifo limit 10000",
}
"""Settings with which a discipline can be had; others need none."""

QUEUES: Final = (
    *("pfifo", "pfifo_head_drop", "bfifo", "red"),
    *("codel", "fq_codel", "cake", "pie", "fq_pie", "sfq"),
)
"""The disciplines of queues that a mapping can use (see `perhop.linux.qdiscs`)."""

RULES: Final = {
    "meta priority set": "meta priority set 1:10",
    "limit rate over": "limit rate over 1000 bytes/second burst 1000 bytes drop",
    "dscp set": "ip dscp set 8",
    "numgen": "meta mark set numgen inc mod 2 offset 256",
    "th ": "meta l4proto { tcp, udp } th dport 80",
    "counter name": "counter",
}
"""Expressions of nftables that may be missing, by what gives them away in a rule."""

_BUCKET: Final = f"{PoliceAction(125_000, 2000)} index 1"
_POLICE: Final = f"""\
qdisc add dev lo root handle 1: htb default 10
class add dev lo parent 1: classid 1:10 htb rate 1mbit
filter add dev lo parent 1: protocol all prio 1 handle 0x10 fw classid 1:10 \
action {_BUCKET} action ok index 1
actions change action {_BUCKET}
"""


_UNDO: Final = {
    "tc": ("tc", "qdisc", "del", "dev", "lo", "root"),
    "nft": ("nft", "flush", "ruleset"),
    "ip": ("ip", "link", "del", "probe"),
}


class Probes:
    """Features of a kernel, tested in an empty network namespace.

    Attributes:
        run: Runs commands in that namespace.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self._known: dict[tuple[str, str], bool] = {}

    def has_qdisc(self, kind: str) -> bool:
        """Return whether there is a queueing discipline."""
        add = f"qdisc add dev lo root handle 1: {_QDISCS.get(kind, kind)}\n"
        return self._takes("tc", "-batch", add)

    def has_rule(self, rule: str) -> bool:
        """Return whether nftables takes a rule."""
        chain = nft.Chain("c", (rule,), "type filter hook postrouting priority mangle")
        return self._takes("nft", "-f", nft.text([chain]))

    def has_police(self) -> bool:
        """Return whether tc polices by an action that filters of HTB and changes find."""
        return self._takes("tc", "-batch", _POLICE)

    def has_tunnel(self, kind: str) -> bool:
        """Return whether there are tunnel devices of a type."""
        add = f"link add probe type {kind} id 1 local 127.0.0.1 remote 127.0.0.2 dstport 4789\n"
        return self._takes("ip", "-batch", add)

    def _takes(self, tool: str, option: str, text: str) -> bool:
        if (tool, text) not in self._known:
            try:
                self.run([tool, option, "-"], text)
                self._known[tool, text] = True
            except CommandError as error:
                if error.code is None:
                    raise
                self._known[tool, text] = False
            self.run(_UNDO[tool], check=False)
        return self._known[tool, text]


def tools() -> None:
    """Raise UnsupportedError if a program is missing that sets up Linux's network."""
    lacking = [tool for tool in _TOOLS if shutil.which(tool) is None]
    if lacking:
        packages = " ".join(sorted({_TOOLS[tool] for tool in lacking}))
        raise UnsupportedError(
            f"the kernel engine needs {', '.join(lacking)}; on Debian and Ubuntu: apt install "
            f"{packages}"
        )


@cache
def _scratch() -> Namespaces:
    try:
        return Namespaces(1)
    except OSError as error:
        raise UnsupportedError(str(error)) from error


@cache
def this_kernel() -> Probes:
    """Return the probes of the kernel that this process runs on.

    Raises:
        UnsupportedError: It can make no network namespace.
    """
    return Probes(InNamespace(_scratch(), 0))


@cache
def polices() -> Means:
    """Return what polices here: tc's action if this kernel has it and counts it, or nftables."""
    if not this_kernel().has_police():
        return "nft"
    this_kernel().run(["tc", "-batch", "-"], _POLICE)
    try:
        counts = Counts(_scratch(), 0)
        counted = [[number for number, _, _ in counts.actions(k)] for k in ("police", "gact")]
    except OSError:
        return "nft"
    finally:
        this_kernel().run(_UNDO["tc"], check=False)
    return "tc" if all(1 in each for each in counted) else "nft"


def missing(found: Mapping) -> Iterator[Gap]:
    """Yield the features that a mapping needs and this kernel lacks."""
    kernel = this_kernel()
    interfaces = [*found.interfaces.values()]
    interfaces += [step.interface for step in found.steps if step.interface is not None]
    for each in interfaces:
        kinds = [
            each.htb.kind,
            *(["ets"] if each.htb.ets else []),
            *(node.leaf.kind for node in each.htb.nodes if node.leaf is not None),
        ]
        for kind in dict.fromkeys(kinds):
            if not kernel.has_qdisc(kind):
                yield Gap(each.direction, f"this kernel has no {kind} (see `tc qdisc`)")
    for node, lines in found.tunnels.items():
        for kind in DEVICES:
            if any(f" type {kind} " in line for line in lines) and not kernel.has_tunnel(kind):
                yield Gap(f"nodes.{node}", f"this kernel has no tunnels of type {kind}")
    for node, text in found.nft.items():
        for word, rule in RULES.items():
            if word in text and not kernel.has_rule(rule):
                yield Gap(f"nodes.{node}", f"this kernel's nftables has no `{word.strip()}`")
