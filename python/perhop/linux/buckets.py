"""The token buckets of Linux's policers: tc's `police` action and nftables' `limit`.

Both begin full, fill at their rate, and take nothing for a packet that exceeds. They differ in what
they hold. The action holds its `burst` (net/sched/act_police.c). A limit holds its `burst` and
what comes in its unit of time: ``tokens_max = unit * (rate + burst) / rate`` nanoseconds, of which
a packet takes ``unit * size / rate`` (``nft_limit_init`` and ``nft_limit_bytes_eval`` in
net/netfilter/nft_limit.c). The least unit is a second, so the least bucket is a second of the rate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["LONGEST_S", "Limit", "PoliceAction"]

_MICROSECONDS: Final = 1_000_000

_TICKS: Final = 2**32 * 8 // 125
"""The time in microseconds below which the bucket of tc's action must be: Linux takes it as ticks
of 64 ns in 32 bits."""

LONGEST_S: Final = _TICKS // _MICROSECONDS
"""The seconds of its rate that the bucket of tc's action holds at most."""

_MOST_BURST: Final = 2**32 - 1


@dataclass(frozen=True, slots=True)
class Limit:
    """A policer of nftables.

    Attributes:
        rate: Bytes per second.
        burst: The `burst` that nftables is told, in bytes.
    """

    rate: int
    burst: int

    @classmethod
    def holding(cls, rate: int, size: int) -> Limit:
        """Return the limit with the smallest bucket that holds `size` bytes.

        Args:
            rate: Bytes per second.
            size: Bytes; what is less than a second of the rate becomes a second of the rate.
        """
        return cls(rate, max(size - rate, 0))

    @property
    def bucket(self) -> int:
        """The bytes that the bucket holds."""
        return self.rate + self.burst

    @property
    def fits(self) -> bool:
        """True if nftables can express it: a burst has 32 bits, of which nft drops the rest."""
        return self.burst <= _MOST_BURST

    def __str__(self) -> str:
        """The expression of nftables that matches what exceeds."""
        burst = f" burst {self.burst} bytes" if self.burst else ""
        return f"limit rate over {self.rate} bytes/second{burst}"


@dataclass(frozen=True, slots=True)
class PoliceAction:
    """A policer of tc.

    Attributes:
        rate: Bytes per second.
        bucket: The bytes that the bucket holds.
        drops: True if exceeding packets are dropped; otherwise they pass uncounted.
    """

    rate: int
    bucket: int
    drops: bool = True

    @property
    def _time(self) -> int:
        """The bucket as tc counts it, in microseconds of the rate.

        tc rounds down. Here it is rounded up: a packet as long as the bucket would never conform.
        """
        return -(-self.bucket * _MICROSECONDS // self.rate)

    @property
    def fits(self) -> bool:
        """True if tc can express it: a bucket has 32 bits."""
        return self._time < _TICKS

    @property
    def burst(self) -> int:
        """The `burst` that tc is told, in bytes."""
        burst = -(-self._time * self.rate // _MICROSECONDS)
        if int(_MICROSECONDS * (burst / self.rate)) < self._time:
            burst += 1  # tc computes with floating point, and rounds down
        return burst

    def __str__(self) -> str:
        """The words of tc."""
        exceeds = "drop" if self.drops else "ok"
        # Without `mtu` what is longer than 2 kB exceeds; what conforms goes on to be counted.
        return (
            f"police rate {8 * self.rate}bit burst {self.burst}b mtu 64kb "
            f"conform-exceed {exceeds}/pipe"
        )
