"""Codecs of calls: sizes of packets, delays, and impairments for the E-model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from perhop.units import MILLISECOND, SECOND

RTP: Final = 12
"""The bytes of an RTP header without contributing sources (RFC 3550, section 5.1)."""


@dataclass(frozen=True, slots=True)
class Codec:
    """A codec of speech.

    Attributes:
        name: Its name in scenarios.
        rate: Bits per second of its payload; the usual one if the codec has several.
        frames: The lengths of speech that a packet may hold, in picoseconds; the usual one first.
        look_ahead: Speech beyond a packet that the codec needs, and delay of the decoder, in
            picoseconds.
        ie: Equipment impairment factor; None if no Recommendation has one.
        bpl: Packet-loss robustness factor; None likewise.
        rates: The least and the greatest rate, if the codec has several.
    """

    name: str
    rate: int
    frames: tuple[int, ...]
    look_ahead: int
    ie: float | None
    bpl: float | None
    rates: tuple[int, int] | None = None

    def payload(self, rate: int, ptime: int) -> int:
        """Return the bytes of a datagram with `ptime` of speech: coded speech and RTP header."""
        bits = rate * ptime
        return -(-bits // (8 * SECOND)) + RTP


def _ms(*values: float) -> tuple[int, ...]:
    return tuple(round(value * MILLISECOND) for value in values)


CODECS: Final = {
    codec.name: codec
    for codec in (
        # Impairments: ITU-T G.113, appendix I, tables of provisional planning values. Payloads and
        # usual packets: RFC 3551, sections 4.5 and 6. Look-ahead: the codecs' Recommendations, as
        # G.114, annex A, lists them.
        Codec("g711", 64_000, _ms(20, 10, 30, 40, 60), 0, 0.0, 4.3),
        Codec("g711-plc", 64_000, _ms(20, 10, 30, 40, 60), _ms(3.75)[0], 0.0, 25.1),
        Codec("g729a", 8_000, _ms(20, 10, 30, 40, 60), _ms(5)[0], 11.0, 19.0),
        Codec("g723.1", 6_400, _ms(30, 60), _ms(7.5)[0], 15.0, 16.1),
        Codec("gsm-efr", 12_400, _ms(20, 40, 60), 0, 5.0, 10.0),
        # RFC 6716, section 2: 6 to 510 kb/s; the usual mode has a delay of 26.5 ms with frames of
        # 20 ms. RFC 7587, section 6.1: packets of 3 (2.5), 5, 10, 20, 40 or 60 ms.
        Codec(
            "opus",
            24_000,
            _ms(20, 2.5, 5, 10, 40, 60),
            _ms(6.5)[0],
            None,
            None,
            (6_000, 510_000),
        ),
    )
}
"""Codecs by name."""
