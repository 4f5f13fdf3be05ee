"""The colours of names: a flow, ping or class has one colour on a whole page."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Final

from perhop.analysis.cache import cached
from perhop.report import tables

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from perhop.dataset import Dataset
    from perhop.scenario import Scenario

__all__ = ["COLOURS", "MOST_FLOWS", "beside", "dash_of", "dataset_looks", "drawn_together", "looks"]

COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")

MOST_FLOWS: Final = 12
"""Greatest number of flows in a chart: those that delivered most; of pings, the slowest."""


def looks(together: Iterable[Sequence[str]], colours: int = len(COLOURS)) -> dict[str, int]:
    """Return the look of each name: a number, with the colour that is its remainder by `colours`.

    Names of one chart get different colours and dashes as far as there are enough, first those of
    the charts with the fewest names.

    Args:
        together: The names of each chart. Names that come first choose first.
        colours: The number of colours, and of dashes.
    """
    charts = [*together]
    names = dict.fromkeys(chain.from_iterable(charts))
    ranked = [_Chart({*chart}) for chart in sorted((*charts, [*names]), key=len)]
    found: dict[str, int] = {}
    for name in names:
        own = [chart for chart in ranked if name in chart.names]
        colour = min(range(colours), key=lambda each: [chart.colours[each] for chart in own])
        found[name] = _turned(colour, colours, own)
    return found


@dataclass(frozen=True, slots=True)
class _Chart:
    """The names of a chart, and how often colours, dashes and looks are used in it."""

    names: set[str] = field(default_factory=set)
    colours: Counter[int] = field(default_factory=Counter)
    dashes: Counter[int] = field(default_factory=Counter)
    looks: Counter[int] = field(default_factory=Counter)


def dash_of(look: int, colours: int = len(COLOURS)) -> int:
    """Return the number of the dash of a look. Looks of one colour have different ones."""
    return (look + look // colours) % colours


def _turned(look: int, colours: int, charts: Sequence[_Chart]) -> int:
    """Return a look of the same colour whose dash is rare in some charts, and count it in them."""
    most = colours * colours
    alike = [(look + turn) % most for turn in range(0, most, colours)]

    def used(each: int) -> tuple[int, list[int]]:
        dash = dash_of(each, colours)
        return charts[-1].looks[each], [chart.dashes[dash] for chart in charts]

    found = min(alike, key=used)
    for chart in charts:
        chart.colours[found % colours] += 1
        chart.dashes[dash_of(found, colours)] += 1
        chart.looks[found] += 1
    return found


def drawn_together(scenario: Scenario, first: Iterable[str] = ()) -> list[list[str]]:
    """Return the names of the flows, pings and classes of a scenario that charts draw together.

    Args:
        scenario: The scenario.
        first: The flows that most charts draw, if they do not draw all.
    """
    flows = scenario.flows
    pings = [name for name, ping in scenario.pings.items() if not ping.is_trace]
    return [
        [*first],
        [*flows],
        pings,
        [*(name for name, flow in flows.items() if flow.datagrams is None), *pings],
        [name for name, flow in flows.items() if flow.voice is not None],
        [name for name, flow in flows.items() if flow.video is not None],
        *([*policy.classes] for _, policy in scenario.all_policies()),
    ]


@cached
def dataset_looks(dataset: Dataset) -> dict[str, int]:
    """Return the looks of the flows, pings and classes of a run, for all charts of it."""
    return looks(drawn_together(dataset.scenario, tables.largest_flows(dataset, MOST_FLOWS)))


def beside(names: Iterable[str], known: Mapping[str, int]) -> dict[str, int]:
    """Return the looks of the lines of one chart.

    Args:
        names: The lines.
        known: The looks of some of them, which keep their colours: lines of one look, such as
            those of a class on several links, get different dashes. The others get the colours
            that the chart has least.
    """
    number = len(COLOURS)
    used = _Chart()
    found: dict[str, int] = {}
    for name in sorted(names, key=lambda each: each not in known):
        rare = min(range(number), key=lambda each: used.colours[each])
        found[name] = _turned(known.get(name, rare), number, [used])
    return found
