"""What this kernel has of what a scenario needs: each is tried once in a namespace of its own."""

from __future__ import annotations

import shutil
from functools import cache
from typing import TYPE_CHECKING, Final

from perhop._core import Counts, Namespaces
from perhop.errors import UnsupportedError
from perhop.linux import policers, rules
from perhop.linux.gaps import Gap

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perhop.linux.mapping import Mapping

__all__ = ["has_qdisc", "has_rule", "missing", "polices", "tools"]

_TOOLS: Final = {"ip": "iproute2", "tc": "iproute2", "nft": "nftables"}

_QDISCS: Final = {
    "htb": "htb default 1",
    "red": "red limit 100000 min 10000 max 30000 avpkt 1000 burst 20 bandwidth 10mbit",
    "pfifo": "pfifo limit 10",
    "pfifo_head_drop": "pfifo_head_drop limit 10",
    "bfifo": "bfifo limit 10000",
}
"""Settings with which a discipline can be had; others need none."""

_RULES: Final = {
    "meta priority set": "meta priority set 1:10",
    "limit rate over": "limit rate over 1000 bytes/second burst 1000 bytes drop",
    "dscp set": "ip dscp set 8",
    "numgen": "meta mark set numgen inc mod 2 offset 256",
    "th ": "meta l4proto { tcp, udp } th dport 80",
    "counter name": "counter",
}
"""Expressions of nftables that may be missing, by what gives them away in a rule."""


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
        raise UnsupportedError(f"the kernel engine needs network namespaces: {error}") from error


@cache
def has_qdisc(kind: str) -> bool:
    """Whether the kernel has a queueing discipline."""
    words = _QDISCS.get(kind, kind).split()
    add = ["tc", "qdisc", "add", "dev", "lo", "root", "handle", "1:", *words]
    code, _, _ = _scratch().run(0, add, b"")
    _scratch().run(0, ["tc", "qdisc", "del", "dev", "lo", "root"], b"")
    return code == 0


@cache
def has_rule(rule: str) -> bool:
    """Whether the kernel takes a rule of nftables."""
    chain = rules.Chain("c", (rule,), "type filter hook postrouting priority mangle")
    code, _, _ = _scratch().run(0, ["nft", "-f", "-"], rules.text([chain]).encode())
    _scratch().run(0, ["nft", "flush", "ruleset"], b"")
    return code == 0


@cache
def polices() -> policers.Means:
    """What polices here: tc's action, if kernel and tc have it and it counts, or nftables."""
    bucket = "police rate 1000000bit burst 2000b mtu 64kb conform-exceed drop/pipe index 1"
    lines = (
        "qdisc add dev lo root handle 1: htb default 10\n"
        "class add dev lo parent 1: classid 1:10 htb rate 1mbit\n"
        "filter add dev lo parent 1: protocol all prio 1 handle 0x10 fw classid 1:10 "
        f"action {bucket} action ok index 1\n"
        f"actions change action {bucket}\n"
    )
    try:
        code, _, _ = _scratch().run(0, ["tc", "-batch", "-"], lines.encode())
        if code:
            return "nft"
        counts = Counts(_scratch(), 0)
        if any(
            1 not in [number for number, _, _ in counts.actions(kind)]
            for kind in ("police", "gact")
        ):
            return "nft"
    except OSError:
        return "nft"
    finally:
        _scratch().run(0, ["tc", "qdisc", "del", "dev", "lo", "root"], b"")
    return "tc"


def missing(found: Mapping) -> Iterator[Gap]:
    """What a mapping needs and this kernel has not."""
    interfaces = [*found.interfaces.values()]
    interfaces += [step.interface for step in found.steps if step.interface is not None]
    for each in interfaces:
        kinds = ["htb", *(node.leaf.kind for node in each.htb.nodes if node.leaf is not None)]
        for kind in dict.fromkeys(kinds):
            if not has_qdisc(kind):
                yield Gap(each.direction, f"this kernel has no {kind} (see `tc qdisc`)")
    for node, text in found.nft.items():
        for word, rule in _RULES.items():
            if word in text and not has_rule(rule):
                yield Gap(f"nodes.{node}", f"this kernel's nftables has no `{word.strip()}`")
