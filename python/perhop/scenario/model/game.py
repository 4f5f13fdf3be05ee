"""Games: the key `game` of a flow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from perhop.units import MILLISECOND

EULER: Final = 0.5772156649
"""Euler's constant: the mean of the standard Gumbel distribution."""

Game = Literal["fps-server", "fps-client"]
"""Traffic of a game in one direction."""


@dataclass(frozen=True, slots=True)
class GameTraffic:
    """Datagrams of a game, with largest extreme value distributions: location and scale.

    Attributes:
        gap: Times between datagrams, in picoseconds. With a scale of zero they are constant.
        size: Payloads, in thousandths of a byte.
        spread: The greatest time before the first datagram, in picoseconds.
    """

    gap: tuple[int, int]
    size: tuple[int, int]
    spread: int

    @property
    def means(self) -> tuple[int, int]:
        """The mean payload in bytes, and the mean time between datagrams in picoseconds."""
        size, gap = (low + round(EULER * scale) for low, scale in (self.size, self.gap))
        return round(size / 1000), gap

    @property
    def usual_maximum(self) -> int:
        """The payload in bytes that one datagram in 22,000 exceeds: ten scales up."""
        return (self.size[0] + 10 * self.size[1]) // 1000


GAMES: Final[dict[Game, GameTraffic]] = {
    # The gaming model of 3GPP (R1-070674, TSG-RAN1 #48) and of NGMN's evaluation methodology, whose
    # server is that of Färber, "Network game traffic modelling" (NetGames 2002): Counter-Strike.
    "fps-server": GameTraffic(
        (55 * MILLISECOND, 6 * MILLISECOND), (120_000, 36_000), 40 * MILLISECOND
    ),
    "fps-client": GameTraffic((40 * MILLISECOND, 0), (45_000, 5_700), 40 * MILLISECOND),
}
"""Presets by name."""
