"""The places and causes of losses."""

from typing import Final

import polars as pl

from perhop.analysis.cache import cached, of_flow
from perhop.analysis.distributions import count
from perhop.analysis.links import DROPS
from perhop.analysis.windows import Window, clip, cut, sum_all, weighed_all
from perhop.dataset import Dataset

UNTOLD: Final = "cause unknown"
"""The cause of drops that a queue or router counts, but not why."""

_NONE: Final = pl.DataFrame(
    schema={"link": pl.String, "cause": pl.String, "packets": pl.Int64, "share": pl.Float64}
)


@cached
def losses(dataset: Dataset, flow: str, window: Window | None = None) -> pl.DataFrame:
    """Return where and why packets of a flow were lost between its source and its destination.

    The engine `kernel` cannot distinguish flows; use `class_losses` there.

    Returns:
        Columns `link`, before which or on which they were lost (null without a route), `cause` (see
        `perhop.dataset.CAUSES`), `packets`, and `share`: of the flow's data packets, lost or
            received,
        as in `loss`; null if their number is unknown. Most packets first.
    """
    own = of_flow(dataset, "losses", flow)
    if own.is_empty():
        return _NONE
    counted = cut(own, clip(dataset, window) or (0.0, 0.0))
    sums = counted.group_by("link", "cause", maintain_order=True).agg(weighed_all("packets"))
    parts = [count(dataset, flow, column, window) for column in ("lost", "packets")]
    total = None if None in parts else sum(filter(None, parts))
    share = pl.col("packets") / total if total else pl.lit(None, pl.Float64)
    found = sums.filter(pl.col("packets") > 0).with_columns(share.alias("share"))
    whole = pl.col("packets").round().cast(pl.Int64)
    return found.sort("packets", descending=True, maintain_order=True).with_columns(whole)


def class_losses(dataset: Dataset) -> pl.DataFrame:
    """Return where and why packets of any flow were lost, as counted by queues and links.

    Returns:
        Columns `link`, `class` (null for losses on the wire), `cause` (`UNTOLD` if it is unknown),
        `packets`, and `share`: of the packets that arrived at the class, or were sent on the link;
        null if their number is unknown. Most packets first.
    """
    queues = dataset.queues.group_by("link", "class", maintain_order=True).agg(
        *map(sum_all, ("sent_packets", "dropped_packets", *DROPS.values()))
    )
    came = pl.col("sent_packets") + pl.col("dropped_packets")
    links = dataset.links.group_by("link", maintain_order=True).agg(
        map(sum_all, ("sent_packets", "lost_packets"))
    )
    parts = [
        _part(queues, pl.col("class"), cause, pl.col(counter), came)
        for cause, counter in DROPS.items()
    ]
    on_wire = (pl.col("lost_packets"), pl.col("sent_packets"))
    parts.append(_part(links, pl.lit(None, pl.String), "wire", *on_wire))
    # Linux's CAKE, and many routers, do not tell why they dropped packets.
    told = pl.sum_horizontal(*DROPS.values())
    parts.append(_part(queues, pl.col("class"), UNTOLD, pl.col("dropped_packets") - told, came))
    return pl.concat(parts).sort("packets", descending=True, maintain_order=True)


def _part(
    rows: pl.DataFrame, name: pl.Expr, cause: str, lost: pl.Expr, total: pl.Expr
) -> pl.DataFrame:
    """Return the rows of one cause that lost packets."""
    return rows.filter(lost > 0).select(
        "link",
        name.alias("class"),
        pl.lit(cause).alias("cause"),
        lost.alias("packets"),
        (lost / total).alias("share"),
    )
