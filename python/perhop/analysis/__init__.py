"""Analysis of datasets: pure functions from a run to numbers and tables.

Rates are bits per second, times and windows seconds since the start of the run, shares 0 to 1.
Throughput is goodput at the receiving application. An unknown name is a `UsageError` that names the
nearest one, never a zero.
"""

from perhop.analysis.agreement import POINTS, TOLERANCES, Deviation, agreement
from perhop.analysis.arrivals import Order, jitter, order, reorder_density
from perhop.analysis.bottlenecks import bottlenecks
from perhop.analysis.calls import Call, Quality, calls, mos_over_time, of_calls
from perhop.analysis.channels import (
    airtime,
    channel_directions,
    channel_utilisation,
    retries,
    station_loads,
    tunnel_counters,
    tunnel_metric,
)
from perhop.analysis.codepoints import codepoints, dscp_kept, ecn_fields
from perhop.analysis.compared import ComparedPhase, ComparedQuantity, Difference, RunComparison
from perhop.analysis.comparison import compare, compared
from perhop.analysis.completions import (
    SizeBin,
    VideoResult,
    completions,
    exchanges,
    page_loads,
    size_bins,
    slowdowns,
    unfinished,
    video,
)
from perhop.analysis.distributions import (
    Distribution,
    completion,
    count,
    distribution,
    flow_rtt,
    flow_srtt,
    histogram,
    loss,
    owd,
    owd_bound,
    queueing,
    rtt,
    sack_share,
    sent,
)
from perhop.analysis.ensembles import EnsembleVerdict, Spread, ensemble_verdicts, spread
from perhop.analysis.hops import Hop, hops
from perhop.analysis.judgement import (
    Comparison,
    Verdict,
    against_published,
    evaluate,
    expected,
    measure,
    verdicts,
)
from perhop.analysis.links import (
    class_counters,
    class_counts,
    counter_readings,
    link_loads,
    utilisation,
)
from perhop.analysis.losses import class_losses, losses
from perhop.analysis.paths import Capacity, capacities, narrowest
from perhop.analysis.responsiveness import (
    Bufferbloat,
    Responsiveness,
    bufferbloat,
    responsiveness,
)
from perhop.analysis.spreads import (
    PERCENTILES,
    correlation,
    distribution_table,
    fairness,
    rate_spread,
    rates,
    rates_and_rtts,
    stream_rates,
    with_averages,
    with_ratios,
)
from perhop.analysis.summary import flow_summaries, summary
from perhop.analysis.throughput import (
    TOTAL,
    active,
    phases,
    series,
    settling,
    throughput,
)
from perhop.analysis.timelines import backlogs, drops, queueing_delays, round_trips
from perhop.analysis.windows import Window, seconds
from perhop.scenario import Basis

__all__ = [
    "PERCENTILES",
    "POINTS",
    "TOLERANCES",
    "TOTAL",
    "Basis",
    "Bufferbloat",
    "Call",
    "Capacity",
    "ComparedPhase",
    "ComparedQuantity",
    "Comparison",
    "Deviation",
    "Difference",
    "Distribution",
    "EnsembleVerdict",
    "Hop",
    "Order",
    "Quality",
    "Responsiveness",
    "RunComparison",
    "SizeBin",
    "Spread",
    "Verdict",
    "VideoResult",
    "Window",
    "active",
    "against_published",
    "agreement",
    "airtime",
    "backlogs",
    "bottlenecks",
    "bufferbloat",
    "calls",
    "capacities",
    "channel_directions",
    "channel_utilisation",
    "class_counters",
    "class_counts",
    "class_losses",
    "codepoints",
    "compare",
    "compared",
    "completion",
    "completions",
    "correlation",
    "count",
    "counter_readings",
    "distribution",
    "distribution_table",
    "drops",
    "dscp_kept",
    "ecn_fields",
    "ensemble_verdicts",
    "evaluate",
    "exchanges",
    "expected",
    "fairness",
    "flow_rtt",
    "flow_srtt",
    "flow_summaries",
    "histogram",
    "hops",
    "jitter",
    "link_loads",
    "loss",
    "losses",
    "measure",
    "mos_over_time",
    "narrowest",
    "of_calls",
    "order",
    "owd",
    "owd_bound",
    "page_loads",
    "phases",
    "queueing",
    "queueing_delays",
    "rate_spread",
    "rates",
    "rates_and_rtts",
    "reorder_density",
    "responsiveness",
    "retries",
    "round_trips",
    "rtt",
    "sack_share",
    "seconds",
    "sent",
    "series",
    "settling",
    "size_bins",
    "slowdowns",
    "spread",
    "station_loads",
    "stream_rates",
    "summary",
    "throughput",
    "tunnel_counters",
    "tunnel_metric",
    "unfinished",
    "utilisation",
    "verdicts",
    "video",
    "with_averages",
    "with_ratios",
]
