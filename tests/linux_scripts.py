"""Scripts of commands of tc, and what perhop reads from them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perhop.routers.reading import Source
from perhop.routers.reading.detect import read

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perhop.routers.reading.configuration import Configuration

HTB = (
    "qdisc add dev v0 root handle 1: htb default 20",
    "class add dev v0 parent 1: classid 1:1 htb rate 10mbit",
    "class add dev v0 parent 1:1 classid 1:10 htb rate 5mbit ceil 10mbit",
    "class add dev v0 parent 1:1 classid 1:20 htb rate 5mbit ceil 10mbit",
)


def reading(lines: Sequence[str]) -> Configuration:
    text = "".join(f"tc {line}\n" for line in lines)
    return read([Source("wan.sh", "ethtool -s v0 speed 1000\n" + text)], "tc")


def policies(lines: Sequence[str]) -> list[tuple[Any, ...]]:
    """Return what a script does to each interface."""
    found = reading(lines)
    assert found.refusals == ()
    return [(a.interface, a.direction, a.policy, a.shape, a.medium) for a in found.attachments]


def notes(lines: Sequence[str]) -> list[str]:
    """Return what is said of the lines of a script."""
    return [line.note for line in reading(lines).lines if line.note]
