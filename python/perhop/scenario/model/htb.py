"""Hierarchical token buckets, as Linux's HTB has them: settings of the class above all."""

from typing import Final

from perhop.scenario.model.base import Model
from perhop.scenario.model.cake import Framing, FramingBytes
from perhop.scenario.model.quantities import Rate, Size

HTB: Final = "htb"
"""The scheduler's name."""

DEEPEST: Final = 7
"""The most levels of classes."""

_R2Q: Final = 10
_QUANTA: Final = 1000, 200_000


def default_quantum(rate: int, r2q: int = _R2Q) -> int:
    """Return the quantum of a class without one, in bytes (Linux, `htb_change_class`).

    Args:
        rate: Its guaranteed rate in bit/s.
        r2q: The part of a second's bytes that a quantum is.
    """
    return min(max(rate // 8 // max(r2q, 1), _QUANTA[0]), _QUANTA[1])


def slack(rate: int) -> int:
    """Return the bytes that a bucket needs so that a kernel that wakes up late loses none.

    Two packets, or a millisecond of the rate in bit/s.
    """
    return max(2 * 1514, rate // 8000)


class Htb(Model):
    """Settings of hierarchical token buckets."""

    rate: Rate | None = None
    """The rate of the class above all, which lends; by default the link's. Classes within their
    guarantees do not ask it: if these are more in sum, more is sent, up to the link's rate."""

    burst: Size = 0
    """The bytes that the class above all may send at once after an idle time."""

    overhead: FramingBytes = Framing()
    """The bytes of layer 2 that rates count for each packet, as Linux counts 14 B at an Ethernet:
    keywords and bytes as for `cake`. By default rates count IP packets, whatever the overhead of
    the link."""
