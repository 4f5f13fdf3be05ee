"""ALTQ's class-based queueing: its settings."""

from typing import Final

from pydantic import StrictBool

from perhop.scenario.model.base import Model
from perhop.scenario.model.quantities import Burst, PacketSize, PositiveDuration, Rate
from perhop.units import MILLISECOND

ALTQ_CBQ: Final = "altq-cbq"
"""The scheduler's name."""


class Cbq(Model):
    """Settings of ALTQ's class-based queueing. The defaults are FreeBSD's, as of 2000."""

    rate: Rate | None = None
    """The rate of the root class, which classes share; by default the link's rate. If it is lower,
    packets are still sent at the link's rate."""

    tick: PositiveDuration = 10 * MILLISECOND
    """The time between two ticks of the clock, at which timers end."""

    packet: PacketSize = 1500
    """The longest packet."""

    maxburst: Burst | None = None
    """The packets that a class may send at once after a long idle time; by default 16, or 4 if it
    waits for more than 10 ms between two packets."""

    minburst: Burst = 2
    """The least number of packets that a class may send at once in the long run."""

    token_bucket: StrictBool = True
    """With `true`, a token bucket with the root's rate precedes the driver, which then also runs at
    every tick."""

    efficient: StrictBool = False
    """With `true`, a class that may borrow sends even if all classes are over their limits."""

    kick: StrictBool = True
    """With `true`, the driver takes the next packet when a transmission ends. With `false`, it runs
    only when a packet arrives, when a class wakes up and at ticks."""
