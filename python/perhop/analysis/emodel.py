"""The E-model: a rating of the quality of a call from its delay and losses (ITU-T G.107).

All formulae are those of section 3 of Recommendation ITU-T G.107 (03/2005), which later editions
number as section 7. The edition of 06/2015 adds a choice of delay sensitivity to Idd; its default
gives the formula of 2005. The names of parameters are those of the Recommendation.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, hypot, log2, log10, sqrt

__all__ = ["Parameters", "burst_ratio", "mos", "rating"]


@dataclass(frozen=True, slots=True)
class Parameters:
    """The parameters of a connection, with the default values of G.107, table 2.

    Attributes:
        T: Mean one-way delay of the echo path, in ms.
        Tr: Round-trip delay in a four-wire loop, in ms.
        Ta: Absolute one-way delay from mouth to ear, in ms.
        Ppl: Random packet-loss probability, in percent.
        BurstR: Burst ratio: the mean length of bursts of losses, relative to random losses.
        Ie: Equipment impairment factor.
        Bpl: Packet-loss robustness factor.
        SLR: Send loudness rating, in dB.
        RLR: Receive loudness rating, in dB.
        STMR: Sidetone masking rating, in dB.
        LSTR: Listener sidetone rating, in dB.
        Ds: D-value of the telephone on the send side.
        TELR: Talker echo loudness rating, in dB.
        WEPL: Weighted echo path loss, in dB.
        qdu: Number of quantization distortion units.
        Nc: Circuit noise, referred to the 0 dBr point, in dBm0p.
        Nfor: Noise floor on the receive side, in dBmp.
        Ps: Room noise on the send side, in dB(A).
        Pr: Room noise on the receive side, in dB(A).
        A: Advantage factor.
    """

    T: float = 0.0
    Tr: float = 0.0
    Ta: float = 0.0
    Ppl: float = 0.0
    BurstR: float = 1.0
    Ie: float = 0.0
    Bpl: float = 1.0
    SLR: float = 8.0
    RLR: float = 2.0
    STMR: float = 15.0
    LSTR: float = 18.0
    Ds: float = 3.0
    TELR: float = 65.0
    WEPL: float = 110.0
    qdu: float = 1.0
    Nc: float = -70.0
    Nfor: float = -64.0
    Ps: float = 35.0
    Pr: float = 35.0
    A: float = 0.0

    @classmethod
    def of_delay(cls, delay_s: float, **others: float) -> Parameters:
        """Return the parameters of a connection with one delay: T = Ta and Tr = 2 T, as G.107 does.

        Args:
            delay_s: One-way delay from mouth to ear, in seconds.
            **others: Other parameters than T, Tr and Ta.
        """
        delay = 1000.0 * delay_s
        return cls(T=delay, Ta=delay, Tr=2.0 * delay, **others)


def rating(p: Parameters) -> float:
    """Return the transmission rating factor R = Ro - Is - Id - Ie-eff + A (section 3.1)."""
    noise = _noise(p)
    ro = 15.0 - 1.5 * (p.SLR + noise)
    sidetone = _sidetone_impairment(p)
    simultaneous = _loudness_impairment(p, noise) + sidetone + _quantizing_impairment(p, ro)
    delay = _talker_echo(p, noise, sidetone) + _listener_echo(p, ro) + _absolute_delay(p)
    return ro - simultaneous - delay - _equipment_impairment(p) + p.A


def mos(r: float) -> float:
    """Return the estimated mean opinion score of a conversation, 1 to 4.5 (annex B).

    Between R = 0 and 6.5, the cubic of the annex is slightly below 1, which is then the result.
    """
    if r <= 0:
        return 1.0
    if r >= 100:
        return 4.5
    return max(1.0 + 0.035 * r + r * (r - 60.0) * (100.0 - r) * 7e-6, 1.0)


def burst_ratio(packets: float, lost: float, bursts: float) -> float:
    """Return BurstR (section 3.5).

    It is the mean length of the observed bursts of losses, divided by the mean length for random
    losses with the same probability p, which is 1 / (1 - p). It is at least 1, because the model
    holds for random or burstier losses. Without losses, or without any other packet, it is 1.

    Args:
        packets: Packets that were sent.
        lost: Those of them that were lost.
        bursts: The number of sequences of lost packets one after the other.
    """
    if not bursts or lost >= packets:
        return 1.0
    return max(lost / bursts * (1.0 - lost / packets), 1.0)


def _root(value: float, degree: int) -> float:
    return float(value ** (1.0 / degree))


def _noise(p: Parameters) -> float:
    """Return No, the sum of all noise at the 0 dBr point in dBm0p (section 3.2)."""
    olr = p.SLR + p.RLR
    send = p.Ps - p.SLR - p.Ds - 100.0 + 0.004 * (p.Ps - olr - p.Ds - 14.0) ** 2
    room = p.Pr + 10.0 * log10(1.0 + 10.0 ** ((10.0 - p.LSTR) / 10.0))
    receive = p.RLR - 121.0 + room + 0.008 * (room - 35.0) ** 2
    sources = (p.Nc, send, receive, p.Nfor + p.RLR)
    return 10.0 * log10(sum(10.0 ** (noise / 10.0) for noise in sources))


def _loudness_impairment(p: Parameters, noise: float) -> float:
    """Return Iolr: the decrease by a too low overall loudness rating (section 3.3.1)."""
    x = (p.SLR + p.RLR + 0.2 * (64.0 + noise - p.RLR)) / 8.0
    return 20.0 * (_root(1.0 + x**8, 8) - x)


def _sidetone_impairment(p: Parameters) -> float:
    """Return Ist: the impairment by non-optimum sidetone (section 3.3.2)."""
    echo = exp(-p.T / 4.0) * 10.0 ** (-p.TELR / 10.0)
    stmr = -10.0 * log10(10.0 ** (-p.STMR / 10.0) + echo)
    return (
        12.0 * _root(1.0 + ((stmr - 13.0) / 6.0) ** 8, 8)
        - 28.0 * _root(1.0 + ((stmr + 1.0) / 19.4) ** 35, 35)
        - 13.0 * _root(1.0 + ((stmr - 3.0) / 33.0) ** 13, 13)
        + 29.0
    )


def _quantizing_impairment(p: Parameters, ro: float) -> float:
    """Return Iq: the impairment by quantizing distortion (section 3.3.3)."""
    q = 37.0 - 15.0 * log10(p.qdu)
    g = 1.07 + 0.258 * q + 0.0602 * q**2
    y = (ro - 100.0) / 15.0 + 46.0 / 8.4 - g / 9.0
    z = 46.0 / 30.0 - g / 40.0
    return 15.0 * log10(1.0 + 10.0**y + 10.0**z)


def _talker_echo(p: Parameters, noise: float, sidetone: float) -> float:
    """Return Idte: the impairment by talker echo (section 3.4.1).

    Below 1 ms, echo counts as sidetone.
    """
    if p.T < 1.0:
        return 0.0
    terv = (
        p.TELR - 40.0 * log10((1.0 + p.T / 10.0) / (1.0 + p.T / 150.0)) + 6.0 * exp(-0.3 * p.T**2)
    )
    if p.STMR < 9.0:
        terv += sidetone / 2.0
    roe = -1.5 * (noise - p.RLR)
    re = 80.0 + 2.5 * (terv - 14.0)
    half = (roe - re) / 2.0
    echo = (half + sqrt(half**2 + 100.0) - 1.0) * (1.0 - exp(-p.T))
    return hypot(echo, sidetone) if p.STMR > 20.0 else echo


def _listener_echo(p: Parameters, ro: float) -> float:
    """Return Idle: the impairment by listener echo (section 3.4.2)."""
    rle = 10.5 * (p.WEPL + 7.0) / _root(p.Tr + 1.0, 4)
    half = (ro - rle) / 2.0
    return half + sqrt(half**2 + 169.0)


def _absolute_delay(p: Parameters) -> float:
    """Return Idd: the impairment by too long absolute delay (section 3.4.3)."""
    if p.Ta <= 100.0:
        return 0.0
    x = log2(p.Ta / 100.0)
    return 25.0 * (_root(1.0 + x**6, 6) - 3.0 * _root(1.0 + (x / 3.0) ** 6, 6) + 2.0)


def _equipment_impairment(p: Parameters) -> float:
    """Return Ie-eff: the impairment by the codec and by losses (section 3.5)."""
    return p.Ie + (95.0 - p.Ie) * p.Ppl / (p.Ppl / p.BurstR + p.Bpl)
