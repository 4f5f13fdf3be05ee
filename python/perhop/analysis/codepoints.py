"""The DSCPs and ECN fields with which packets arrive."""

from typing import Final, Literal

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
        answered, and an echo reply is sent with the code point that its request had there. A STAMP
        reflector that tells that code point sends its reply with the ping's own (RFC 8972).
    """
    if is_flow(dataset, name):
        if window is None:
            return _of_flows(dataset).get((name,), _NONE)
        rows = cut(of_flow(dataset, "codepoints", name), clip(dataset, window) or _NEVER)
        return _shares(rows, "dscp")
    answered = sent(dataset, name, window).drop_nulls(["node", "dscp_arrived"])
    replies = answered.filter(pl.col("answer") == "echo reply").select(
        pl.lit(dataset.scenario.pings[name].source).alias("node"),
        pl.col("dscp_sent" if _by_stamp(dataset, name) else "dscp_arrived").alias("dscp_sent"),
        pl.col("dscp_echoed").alias("dscp_arrived"),
    )
    both = pl.concat([answered.select("node", "dscp_sent", "dscp_arrived"), replies])
    return _shares(both.with_columns(flow=pl.lit(name), packets=1, weight=1.0), "dscp")


@cached
def ecn_fields(dataset: Dataset, name: str, window: Window | None = None) -> pl.DataFrame:
    """Return the ECN fields with which the packets of a flow or a ping arrived, and where.

    Returns:
        Columns `name`, `node`, `ecn_sent`, `ecn_arrived`, `packets`, and their `share` of those
        that arrived at the node and were sent so. The fields are 0 for Not-ECT, 1 for ECT(1), 2
        for ECT(0) and 3 for CE (RFC 3168). `ecn_sent` is null for TCP, which sends data with ECT
        and most other packets without. An echo reply is sent with the field of its request on
        arrival. That of a STAMP reflector's replies is unknown, so that they are left out.
    """
    scenario = dataset.scenario
    if is_flow(dataset, name):
        rows = cut(of_flow(dataset, "codepoints", name), clip(dataset, window) or _NEVER)
        udp = scenario.flows[name].datagrams
        field = None if udp is None else _ECN[udp.ecn]
        return _shares(rows.with_columns(pl.lit(field, pl.Int32).alias("ecn_sent")), "ecn")
    answered = sent(dataset, name, window).drop_nulls(["node", "ecn_arrived"])
    requests = answered.select(
        "node", pl.lit(_ECN[scenario.pings[name].ecn], pl.Int32).alias("ecn_sent"), "ecn_arrived"
    )
    replies = answered.filter(pl.col("answer") == "echo reply").select(
        pl.lit(scenario.pings[name].source).alias("node"),
        pl.col("ecn_arrived").alias("ecn_sent"),
        pl.col("ecn_echoed").alias("ecn_arrived"),
    )
    both = requests if _by_stamp(dataset, name) else pl.concat([requests, replies])
    return _shares(both.with_columns(flow=pl.lit(name), packets=1, weight=1.0), "ecn")


def _by_stamp(dataset: Dataset, ping: str) -> bool:
    """Return whether a STAMP reflector answered a ping."""
    scenario = dataset.scenario
    agent = scenario.agents.get(scenario.pings[ping].destination)
    return dataset.manifest.engine == "live" and agent is not None and agent.stamp is not None


_ECN: Final = {None: 0, "ect1": 1, "ect0": 2}
"""The ECN field by its name in a scenario."""

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
    return _shares(rows, "dscp").partition_by("name", as_dict=True, maintain_order=True)


def _shares(rows: pl.DataFrame, field: Literal["dscp", "ecn"]) -> pl.DataFrame:
    """Return the packets of each flow by node and DSCP or ECN field, and their shares."""
    as_sent, as_arrived = f"{field}_sent", f"{field}_arrived"
    ways = rows.group_by("flow", "node", as_sent, as_arrived, maintain_order=True)
    counts = ways.agg(weighed("packets"))
    share = pl.col("packets") / pl.col("packets").sum().over("flow", "node", as_sent)
    return counts.filter(pl.col("packets") > 0).select(
        pl.col("flow").alias("name"),
        "node",
        as_sent,
        as_arrived,
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
