"""HTB, Linux's class-based token buckets: a class in tc's words, and what its buckets must hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["PACKET", "SLACK_S", "Class"]

PACKET: Final = 1514
"""The bytes of a full packet with its Ethernet header."""

SLACK_S: Final = 0.001
"""The seconds of its rate that a bucket holds at least: tokens that come while the kernel sleeps
longer are lost."""


@dataclass(frozen=True, slots=True)
class Class:
    """A class of HTB.

    Attributes:
        rate: Guaranteed rate, in bits per second.
        burst: The bytes that it may send at once of that.
        ceil: Greatest rate, in bits per second.
        cburst: The bytes that it may send at once of that.
        prio: Priority for borrowing, from 0 (first) to 7.
        quantum: The bytes that it borrows in its turn.
    """

    rate: int
    burst: int
    ceil: int
    cburst: int
    prio: int = 0
    quantum: int = PACKET

    def __str__(self) -> str:
        """The words of tc."""
        return (
            f"htb rate {self.rate}bit burst {self.burst}b ceil {self.ceil}bit "
            f"cburst {self.cburst}b prio {self.prio} quantum {self.quantum}"
        )
