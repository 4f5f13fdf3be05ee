"""The timeline of a run: its phases and its changes, grouped where there are many."""

from collections import defaultdict
from itertools import pairwise
from typing import Final

from perhop import analysis
from perhop.analysis import TOTAL, Window
from perhop.dataset import Dataset
from perhop.report import text
from perhop.report.tables import Column, Table, largest_flows
from perhop.scenario import Change, Scenario

MOST: Final = 40
"""Greatest number of phases that tables list and of changes of the network that charts mark."""

_PARTS: Final = 20
"""Number of stretches of equal length in place of more phases than that."""

MOST_COLUMNS: Final = 40
"""Greatest number of flows in the table of phases: those that delivered most."""


def stretches(scenario: Scenario) -> tuple[Window, ...] | None:
    """Return the windows, in seconds, that stand for phases where there are more than `MOST`.

    They are those between starts and stops of flows, or if those are too many 20 of equal length.

    Returns:
        None if the phases themselves are few enough.
    """
    if len(scenario.phases_ps) <= MOST:
        return None
    end = scenario.end_ps
    spans = ({*flow.starts, scenario.active_ps(flow)[1]} for flow in scenario.flows.values())
    edges = sorted({0, end}.union(*spans))
    if len(edges) - 1 > MOST:
        edges = [end * part // _PARTS for part in range(_PARTS + 1)]
    return tuple(map(analysis.seconds, pairwise(edges)))


def grouping(scenario: Scenario) -> str:
    """Return a sentence on the phases that tables group; nothing if they list every one."""
    if stretches(scenario) is None:
        return ""
    return (
        f"The timeline has {len(scenario.phases_ps)} phases, which are grouped here; "
        "`perhop run --json` lists every one."
    )


def marked(scenario: Scenario) -> list[Change]:
    """Return the changes of the network that charts mark: all of them, or none if many."""
    changes = [change for change in scenario.changes if change.clear is None]
    return changes if len(changes) <= MOST else []


def phase_table(dataset: Dataset) -> Table:
    """Return the throughput of each flow in each phase, and its share of the flow's bottleneck."""
    flows = largest_flows(dataset, MOST_COLUMNS)
    shown = {*flows, TOTAL}
    sending = {flow: analysis.active(dataset, flow) for flow in dataset.scenario.flows}
    windows = stretches(dataset.scenario)
    narrow = {}
    # A group has a share only if it is a single phase.
    phases = map(analysis.seconds, dataset.scenario.phases_ps)
    if windows is None or not {*windows}.isdisjoint(phases):
        narrow = {row[:3]: row[3:] for row in analysis.bottlenecks(dataset).iter_rows()}
    named: dict[tuple[str, int], None] = {}  # in order of appearance

    def cell(start: float, end: float, flow: str, bps: float | None) -> str:
        window = sending.get(flow, (start, end))
        if bps is None:
            return text.ABSENT
        if not bps and (window is None or window[1] <= start or end <= window[0]):
            return text.ABSENT
        link, rate = narrow.get((start, end, flow), (None, None))
        if link is None or not bps:
            return text.rate(bps)
        named[link, rate] = None
        return f"{text.rate(bps)} ({text.share(bps / rate)})"

    groups = analysis.phases(dataset, windows).group_by("start_s", "end_s", maintain_order=True)
    rows = [
        (text.window(*span), *(cell(*row) for row in cells.iter_rows() if row[2] in shown))
        for span, cells in groups
    ]
    columns = (Column("phase", "left"), *map(Column, [*flows, TOTAL]))
    hidden = len(dataset.scenario.flows) - len(flows)
    more = f"The {len(flows)} flows that delivered most; {hidden} more in the total."
    notes = [more] * (hidden > 0) + [
        grouping(dataset.scenario),
        _of_links(list(named)),
        *map(text.background, dataset.scenario.backgrounds.items()),
    ]
    return Table("Throughput by phase", columns, tuple(rows), " ".join(filter(None, notes)))


def _of_links(narrow: list[tuple[str, int]]) -> str:
    """Return the links to which the shares in a table of phases refer."""
    if not narrow:
        return ""
    if len(narrow) > 1:
        return "A share is of the slowest link on the flow's own path in that phase."
    ((link, rate),) = narrow
    return f"Shares are of {link} ({text.stated(rate, 'bps')}), the slowest link on the path."


def change_table(dataset: Dataset) -> Table | None:
    """Return the changes of the network over time; None if there are none.

    More than `MOST` are grouped by what changes.
    """
    changes = sorted(dataset.scenario.changes, key=lambda change: change.at)
    if not changes:
        return None
    columns = (Column("at"), Column("change", "left"))
    if len(changes) <= MOST:
        rows = [(f"{text.clock(change.at / 1e12)} s", text.change(change)) for change in changes]
        return Table("Changes", columns, tuple(rows))
    groups: dict[str, list[Change]] = defaultdict(list)
    for change in changes:
        groups[_what(change)].append(change)
    rows = [
        (text.window(*analysis.seconds((group[0].at, group[-1].at))), _grouped(what, group))
        for what, group in groups.items()
    ]
    note = f"{len(changes)} changes, grouped by what changes. The scenario lists every one."
    return Table("Changes", columns, tuple(rows), note)


def _what(change: Change) -> str:
    """Return what a change affects: a place, and its keys."""
    keys = (key for key in change.model_fields_set if key not in ("at", "on", "node"))
    return f"{change.on or change.node or 'all'}: {', '.join(sorted(keys))}"


def _grouped(what: str, group: list[Change]) -> str:
    """Return several changes of the same things in a few words."""
    rates = [change.rate for change in group if isinstance(change.rate, int)]
    between = f", {text.rate(min(rates))} to {text.rate(max(rates))}" if rates else ""
    times = f"{len(group)} times" if len(group) > 1 else "once"
    return f"{what} {times}{between}"
