"""Reports of a run: a page, pictures, and tables and sentences of plain text.

`page`, `write` and `save_comparison` load the drawing library, which takes a while; nothing else
here does.
"""

from typing import TYPE_CHECKING, Any

from perhop.report.applications import application_tables
from perhop.report.calls import call_table
from perhop.report.comparison import agreement_table, comparison_tables
from perhop.report.ensembles import spread_tables
from perhop.report.responsiveness import responsiveness_tables
from perhop.report.sentences import lead, warning_lines
from perhop.report.sharing import sharing_tables
from perhop.report.tables import (
    Column,
    Table,
    class_tables,
    codepoint_table,
    delay_table,
    ecn_table,
    flow_table,
    hop_tables,
    link_table,
    loss_table,
    ping_table,
)
from perhop.report.timeline import change_table, phase_table
from perhop.report.verdicts import (
    ensemble_table,
    expectation_table,
    published_table,
    value_table,
)

if TYPE_CHECKING:
    from perhop.report.document import page
    from perhop.report.output import save_comparison, write

__all__ = [
    "Column",
    "Table",
    "agreement_table",
    "application_tables",
    "call_table",
    "change_table",
    "class_tables",
    "codepoint_table",
    "comparison_tables",
    "delay_table",
    "ecn_table",
    "ensemble_table",
    "expectation_table",
    "flow_table",
    "hop_tables",
    "lead",
    "link_table",
    "loss_table",
    "page",
    "phase_table",
    "ping_table",
    "published_table",
    "responsiveness_tables",
    "save_comparison",
    "sharing_tables",
    "spread_tables",
    "value_table",
    "warning_lines",
    "write",
]


def __getattr__(name: str) -> Any:
    if name == "page":
        from perhop.report.document import page

        return page
    if name == "write":
        from perhop.report.output import write

        return write
    if name == "save_comparison":
        from perhop.report.output import save_comparison

        return save_comparison
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
