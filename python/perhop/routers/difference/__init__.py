"""What changes for each class from one policy to another: both run under the same traffic.

================  ============================================================================
`results`         what a comparison returns
`sides`           the two policies, and runs of both
`flows`           flows that reach each class of both policies
`configurations`  two configurations, under loads made for them
`scenarios`       two scenarios, or one and a configuration, under the scenario's own traffic
`comparison`      any two of these
================  ============================================================================
"""

from perhop.routers.difference.comparison import compare
from perhop.routers.difference.results import (
    Difference,
    Load,
    Moved,
    Row,
    as_object,
    changes,
    rows,
)
from perhop.routers.difference.sides import Side

__all__ = [
    "Difference",
    "Load",
    "Moved",
    "Row",
    "Side",
    "as_object",
    "changes",
    "compare",
    "rows",
]
