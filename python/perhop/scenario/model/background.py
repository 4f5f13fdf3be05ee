"""Background traffic: what others send over a link."""

from typing import Annotated, Literal

from perhop.scenario.model.base import Model
from perhop.scenario.model.dscp import Dscp
from perhop.scenario.model.ends import ByEnd
from perhop.scenario.model.names import Direction, IpVersion, Name
from perhop.scenario.model.quantities import (
    Duration,
    ParetoShape,
    PositiveDuration,
    Share,
    Streams,
)
from perhop.units import MILLISECOND

__all__ = ["PAUSES", "SELF_SIMILAR", "Background", "Backgrounds", "backgrounds_of"]

PAUSES = 3
"""Mean pause of a source, in mean bursts: a source sends a quarter of the time."""

SELF_SIMILAR = ("sources", "shape", "burst")
"""The keys of self-similar traffic."""


class Background(Model):
    """Traffic of others on one direction of a link: a flow of datagrams from hosts of its own."""

    link: Direction
    """The direction of a link, such as ``r1>r2``."""

    load: Share
    """Mean share of the link's rate as the scenario begins, layer-2 overhead included."""

    like: Literal["internet", "poisson"] = "internet"
    """The pattern. ``internet``: the sum of sources with bursts and pauses of Pareto lengths, which
    is self-similar (Willinger, Taqqu, Sherman and Wilson, 1997). ``poisson``: a Poisson process.
    Both have the packet lengths of the simple Internet mix."""

    sources: Streams | None = None
    """Number of sources with ``internet``; 32 unless set."""

    shape: ParetoShape | None = None
    """Shape of the Pareto distribution with ``internet``; 1.4 unless set, which gives a Hurst
    parameter of (3 - 1.4) / 2 = 0.8."""

    burst: PositiveDuration | None = None
    """Mean length of a burst with ``internet``; 500 ms unless set. Pauses are three times as
    long."""

    ip: IpVersion | None = None
    """The version of the internet protocol, 4 or 6; by default that of the scenario."""

    dscp: Dscp = 0
    """The DSCP of its packets."""

    start: Duration = 0
    """The start of the traffic."""

    stop: Duration | None = None
    """The end of the traffic; by default the end of the scenario."""

    @property
    def effective_sources(self) -> int:
        """The number of sources."""
        if self.like == "poisson":
            return 1
        return 32 if self.sources is None else self.sources

    @property
    def effective_shape(self) -> int:
        """The shape of the Pareto distribution in thousandths."""
        return 1400 if self.shape is None else self.shape

    @property
    def effective_burst(self) -> int:
        """The mean length of a burst in picoseconds."""
        return 500 * MILLISECOND if self.burst is None else self.burst


Backgrounds = Annotated[Background | dict[Name, Background], ByEnd()]
"""One that is named ``background``, or several by name; the form is chosen as for the ends of a
link."""


def backgrounds_of(value: Background | dict[str, Background] | None) -> dict[str, Background]:
    """Return background traffic by name."""
    if value is None:
        return {}
    return {"background": value} if isinstance(value, Background) else value
