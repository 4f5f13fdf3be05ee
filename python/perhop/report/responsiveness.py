"""The tables of responsiveness and bufferbloat, of those that a scenario expects."""

from perhop import analysis
from perhop.dataset import Dataset
from perhop.report import text
from perhop.report.tables import Column, Table


def responsiveness_tables(dataset: Dataset) -> list[Table]:
    """Return the tables of responsiveness and bufferbloat; none that are not expected."""
    tables = (_responsiveness(dataset), _bufferbloat(dataset))
    return [table for table in tables if table is not None]


def _responsiveness(dataset: Dataset) -> Table | None:
    rows = []
    for item, window in analysis.expected(dataset, "rpm"):
        probes, *load = item.targets
        found = analysis.responsiveness(dataset, probes, load, window)
        values: tuple[str, ...] = (text.ABSENT,) * 4
        if found is not None:
            numbers = map(text.count, (found.foreign, found.loaded, found.rpm))
            values = (*numbers, found.rating)
        rows.append((probes, text.listed(load), text.window(*window), *values))
    if not rows:
        return None
    left = (Column(name, "left") for name in ("probes", "load", "during"))
    columns = (*left, *map(Column, ("foreign", "loaded", "RPM", "rating")))
    note = (
        "Round trips per minute by draft-ietf-ippm-responsiveness-06: of new connections, and of "
        "those that load the path."
    )
    return Table("Responsiveness", columns, tuple(rows), note)


def _bufferbloat(dataset: Dataset) -> Table | None:
    rows = []
    for item, window in analysis.expected(dataset, "bufferbloat"):
        (ping,) = item.targets
        found = analysis.bufferbloat(dataset, ping, window)
        values: tuple[str, ...] = (text.ABSENT,) * 4
        if found is not None:
            times = map(text.duration, (found.idle, found.loaded, found.increase))
            values = (*times, found.grade)
        rows.append((ping, text.window(*window), *values))
    if not rows:
        return None
    left = (Column(name, "left") for name in ("ping", "during"))
    columns = (*left, *map(Column, ("idle RTT", "loaded RTT", "increase", "grade")))
    note = (
        "Means. Grades are those of DSLReports: below 5 ms A+, 30 ms A, 60 ms B, 200 ms C, 400 ms "
        "D, and F."
    )
    return Table("Bufferbloat", columns, tuple(rows), note)
