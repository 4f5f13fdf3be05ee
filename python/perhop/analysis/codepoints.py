"""The DSCPs with which packets arrive."""

from typing import Final

import polars as pl

from perhop.analysis.cache import cached, of_flow
from perhop.analysis.distributions import sent
from perhop.analysis.names import is_flow
from perhop.analysis.windows import Window, clip, cut, weighed
from perhop.dataset import Dataset


@cached
def codepoints(dataset: Dataset, name: str, window: Window | None = None) -> pl.DataFrame:
    """Return the DSCPs with which the packets of a flow or a ping arrived, and where.

    Returns:
        Columns `name`, `node`, `dscp_sent`, `dscp_arrived`, `packets`, and their `share` of those
        that arrived at the node and were sent so. Requests of a ping arrive where they are
        answered, and an echo reply is sent with the code point that its request had there.
    """
    if is_flow(dataset, name):
        if window is None:
            return _of_flows(dataset).get((name,), _NONE)
        return _counted(cut(of_flow(dataset, "codepoints", name), clip(dataset, window) or _NEVER))
    answered = sent(dataset, name, window).filter(pl.col("dscp_arrived").is_not_null())
    replies = answered.filter(pl.col("answer") == "echo reply").select(
        pl.lit(dataset.scenario.pings[name].source).alias("node"),
        pl.col("dscp_arrived").alias("dscp_sent"),
        pl.col("dscp_echoed").alias("dscp_arrived"),
    )
    both = pl.concat([answered.select("node", "dscp_sent", "dscp_arrived"), replies])
    return _counted(both.with_columns(flow=pl.lit(name), packets=1, weight=1.0))


_NEVER: Final = (0.0, 0.0)

_NONE: Final = pl.DataFrame(
    schema={
        "name": pl.String,
        "node": pl.String,
        "dscp_sent": pl.Int32,
        "dscp_arrived": pl.Int32,
        "packets": pl.Int64,
        "share": pl.Float64,
    }
)


@cached
def _of_flows(dataset: Dataset) -> dict[tuple[object, ...], pl.DataFrame]:
    """Return the DSCPs of every flow over the run, in one pass."""
    rows = cut(dataset.codepoints, clip(dataset, None) or _NEVER)
    return _counted(rows).partition_by("name", as_dict=True, maintain_order=True)


def _counted(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the packets of each flow by node and DSCP, and their shares."""
    ways = rows.group_by("flow", "node", "dscp_sent", "dscp_arrived", maintain_order=True)
    counts = ways.agg(weighed("packets"))
    share = pl.col("packets") / pl.col("packets").sum().over("flow", "node", "dscp_sent")
    return counts.filter(pl.col("packets") > 0).select(
        pl.col("flow").alias("name"),
        "node",
        "dscp_sent",
        "dscp_arrived",
        pl.col("packets").round().cast(pl.Int64),
        share.alias("share"),
    )


def dscp_kept(dataset: Dataset, name: str, window: Window | None = None) -> float | None:
    """Return the share, 0 to 1, of a flow's packets, or a ping's requests, that kept their DSCP.

    It is a share of those that arrived, or were answered; None if there are none.
    """
    if is_flow(dataset, name):
        found = codepoints(dataset, name, window)
        there = found.filter(pl.col("node") == dataset.scenario.flows[name].destination)
        same = there.filter(pl.col("dscp_sent") == pl.col("dscp_arrived"))
        kept, total = (sum(rows["packets"].to_list()) for rows in (same, there))
    else:
        answered = sent(dataset, name, window)["dscp_sent", "dscp_arrived"].drop_nulls()
        same = answered.filter(pl.col("dscp_sent") == pl.col("dscp_arrived"))
        kept, total = len(same), len(answered)
    return kept / total if total else None
