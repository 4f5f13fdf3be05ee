"""With which code points packets arrive."""

import polars as pl

from perhop.analysis.distributions import sent
from perhop.analysis.names import is_flow
from perhop.analysis.windows import Window, clip, cut, weighed
from perhop.dataset import Dataset


def codepoints(dataset: Dataset, name: str, window: Window | None = None) -> pl.DataFrame:
    """With which code points the packets of a flow, or of a ping, arrived, and where.

    Returns:
        Columns `name`, `node`, `dscp_sent`, `dscp_arrived`, `packets`, and their `share` of those
        that arrived at the node and were sent so. Requests of a ping arrive where they are
        answered, and an echo reply is sent with the code point that its request had there.
    """
    if is_flow(dataset, name):
        part = clip(dataset, window) or (0.0, 0.0)
        rows = cut(dataset.codepoints.filter(pl.col("flow") == name), part)
        ways = rows.group_by("node", "dscp_sent", "dscp_arrived", maintain_order=True)
        counts = ways.agg(weighed("packets"))
    else:
        answered = sent(dataset, name, window).filter(pl.col("dscp_arrived").is_not_null())
        replies = answered.filter(pl.col("answer") == "echo reply").select(
            pl.lit(dataset.scenario.pings[name].source).alias("node"),
            pl.col("dscp_arrived").alias("dscp_sent"),
            pl.col("dscp_echoed").alias("dscp_arrived"),
        )
        both = pl.concat([answered.select("node", "dscp_sent", "dscp_arrived"), replies])
        ways = both.group_by("node", "dscp_sent", "dscp_arrived", maintain_order=True)
        counts = ways.agg(pl.len().cast(pl.Float64).alias("packets"))
    share = pl.col("packets") / pl.col("packets").sum().over("node", "dscp_sent")
    return counts.filter(pl.col("packets") > 0).select(
        pl.lit(name).alias("name"),
        "node",
        "dscp_sent",
        "dscp_arrived",
        pl.col("packets").round().cast(pl.Int64),
        share.alias("share"),
    )


def dscp_kept(dataset: Dataset, name: str, window: Window | None = None) -> float | None:
    """The share, 0 to 1, of a flow's data packets, or a ping's requests, that kept their DSCP.

    Of those that arrived, or were answered; None if none did.
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
