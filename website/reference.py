"""Pages of the reference, made from the code: schema, metrics, tables, help and docstrings."""

from __future__ import annotations

from perhop import dataset
from perhop.errors import CommandError, NoCommandError, PerhopError, UnsupportedError
from perhop.metrics import TARGETS
from perhop.scenario import METRICS
from website import api, commands, keys

_UNITS = {
    "rate": "rate",
    "duration": "duration",
    "share": "share",
    "size": "size",
    "count": "number",
    "ratio": "number",
}
_MADE = "<!-- Made by website/reference.py. -->\n\n"


def pages() -> dict[str, str]:
    """Return the text of each page by the name of its file."""
    made = {
        "keys.md": keys.page(),
        "metrics.md": metrics(),
        "tables.md": tables(),
        "commands.md": commands.page(),
        "exit-codes.md": exit_codes(),
        "python.md": api.page(),
    }
    return {name: _MADE + text for name, text in made.items()}


def metrics() -> str:
    """Return the page of the metrics."""
    rows = []
    for metric in METRICS.values():
        of = " or ".join(TARGETS[kind] for kind in metric.targets)
        kinds = metric.applications or (metric.kinds if len(metric.kinds) < 3 else ())
        limited = f" with {' or '.join(f'`{kind}`' for kind in kinds)}" if kinds else ""
        takes = ", ".join(f"`{key.rstrip('_')}`" for key in metric.takes)
        meaning = cell(metric.description)
        row = [f"`{metric.name}`", of + limited, _UNITS[metric.quantity], takes, meaning]
        rows.append(f"| {' | '.join(row)} |")
    head = ["metric", "of", "value", "further keys", "meaning"]
    return "\n".join(
        [
            "# Metrics",
            "",
            "Each metric is a key of `expect` and `published` in a [scenario](../scenario.md), and",
            "a function of `perhop.metrics` in [Python](python.md).",
            "",
            *_table_head(head),
            *rows,
            "",
        ]
    )


def tables() -> str:
    """Return the page of a dataset's tables and columns."""
    described = api.attributes(dataset.Dataset)
    parts = [
        "# Tables and columns",
        "",
        f"A dataset is a folder with a Parquet file for each table, and `manifest.json`. This is "
        f"format {dataset.FORMAT}. In Python, each table is an attribute of "
        "[`Dataset`](python.md). The unit of a column is in its name: `_s` for seconds.",
        "",
    ]
    for name, schema in dataset.TABLES.items():
        parts += [f"## {name}", "", described.get(name, ""), "", *_table_head(["column", "type"])]
        nullable = dataset.NULLABLE.get(name, ())
        parts += [
            f"| `{column}` | {dtype}{' or null' if column in nullable else ''} |"
            for column, dtype in schema.items()
        ]
        parts.append("")
    return "\n".join(parts)


def exit_codes() -> str:
    """Return the page of the exit codes."""
    codes: dict[int, list[str]] = {
        0: ["Success."],
        1: ["An expectation failed, engines do not agree, or `perhop lint` has findings."],
        70: ["A bug of perhop, with its traceback."],
        130: ["Interrupted by Ctrl-C; measurements so far are kept."],
        143: ["Terminated; measurements so far are kept."],
    }
    errors: list[type[PerhopError]] = [*PerhopError.__subclasses__(), NoCommandError]
    for error in errors:
        meaning = (error.__doc__ or "").partition("\n")[0]
        codes.setdefault(error.exit_code, []).append(cell(f"`{error.__name__}`: {meaning}"))
    assert {UnsupportedError.exit_code, CommandError.exit_code} <= codes.keys()
    rows = [f"| {code} | {' '.join(meanings)} |" for code, meanings in sorted(codes.items())]
    head = _table_head(["code", "meaning"])
    about = "In Python, the errors are exceptions of `perhop.errors`, below `PerhopError`."
    return "\n".join(["# Exit codes", "", about, "", *head, *rows, ""])


def cell(text: str) -> str:
    """Return text for a cell of a table."""
    return api.inline(" ".join(text.split())).replace("|", "\\|")


def _table_head(names: list[str]) -> list[str]:
    return [f"| {' | '.join(names)} |", "|" + "---|" * len(names)]
