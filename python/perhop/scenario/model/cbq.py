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
    """The rate that the root has and classes have shares of; by default what the link has. Where it
    is less, the wire is faster than what is shared."""

    tick: PositiveDuration = 10 * MILLISECOND
    """The time between two ticks of the clock, at which timers end."""

    packet: PacketSize = 1500
    """The longest packet."""

    maxburst: Burst | None = None
    """How many packets a class may send at once after a long idle time; by default 16, or 4 where
    it waits for more than 10 ms between two packets."""

    minburst: Burst = 2
    """How many packets a class sends at once in the long run, at least."""

    token_bucket: StrictBool = True
    """Whether a token bucket of the root's rate stands before the driver, which is then asked to go
    on at every tick."""

    efficient: StrictBool = False
    """Whether a class that may borrow sends where all are over their limits."""

    kick: StrictBool = True
    """Whether the driver asks for the next packet when it has transmitted one. If not, it takes
    what it is given when a packet arrives, when a class wakes and at ticks."""
