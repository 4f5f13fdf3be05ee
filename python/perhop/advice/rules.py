"""Rules of thumb for the burst of a policer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perhop.advice.model import PACKET, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perhop.advice.model import PolicerQuestion

LEAST: Final = PACKET
"""The smallest burst with which a full packet conforms (RFC 2697, section 2)."""


def rules_of_thumb(question: PolicerQuestion) -> tuple[Rule, ...]:
    """Return the bursts that documents recommend for a policer, the smallest first."""
    return tuple(sorted(_rules(question), key=lambda rule: rule.burst))


def _rules(question: PolicerQuestion) -> Iterator[Rule]:
    rate = question.rate
    for name, formula, source, burst in (
        (
            "rate x RTT",
            "the rate for one round-trip time",
            "the rule for buffers of routers (Villamizar and Song, 1994)",
            question.product,
        ),
        (
            "sawtooth of Reno",
            "rate x RTT + (rate x RTT)^2 / (18 x streams x packet)",
            "the how-to on policers derives it",
            sawtooth_burst(question),
        ),
        (
            "5 ms of the interface",
            "the rate of the interface for 5 ms",
            "Juniper, Determining Proper Burst Size for Traffic Policers",
            question.interface * 0.005 / 8,
        ),
        (
            "250 ms of the rate",
            "rate / 32 in bytes, the default of police",
            "Cisco IOS, command reference of police",
            rate / 32,
        ),
        (
            "1/10 of the rate",
            "as many bytes as a tenth of the bits per second: 800 ms of the rate",
            "SLAC and ESnet, OSCARS Results (2006): 1 MB for 10 Mb/s",
            rate / 10,
        ),
        (
            "1.5 s of the rate",
            "the rate for 1.5 s, a large round-trip time",
            "Cisco, Comparing Traffic Policing and Traffic Shaping",
            rate * 1.5 / 8,
        ),
    ):
        yield Rule(name, formula, source, max(LEAST, round(burst)))


def sawtooth_burst(question: PolicerQuestion) -> float:
    """Return the burst with which Reno gets the whole rate, in bytes.

    R packets are the rate times the round-trip time. Without a queue, a window that grows from two
    thirds to four thirds of R has the rate as its mean. It grows by one packet in each round, so
    it is above R for R / 3 rounds, in which it sends (R / 3)^2 / 2 packets more than the rate. In
    addition the bucket must hold R packets, because a sender without pacing sends each window at
    once. Streams that lose at the same time grow by one packet each.
    """
    packets = question.product / PACKET
    return PACKET * (packets + (packets / 3) ** 2 / 2 / question.streams)
