"""The format of datasets: the columns of their tables, and words in them."""

from collections.abc import Mapping
from functools import cache
from typing import Final

import polars as pl

__all__ = ["ANSWERS", "CAUSES", "FORMAT", "KINDS", "NULLABLE", "ROUTER", "TABLES", "empty"]

FORMAT: Final = 11
"""The number of the format: of the manifest's keys and of `TABLES`. It counts up when they change,
so that a dataset of another version of perhop is recognised as that, and is not called damaged."""

ROUTER: Final = "router"
"""The engine of datasets of what real routers counted: they have the table `queues` only, and a
scenario with links only, whose rates and traffic are unknown."""

_COUNTS: Final = dict.fromkeys(
    (
        "sent_packets",
        "sent_bytes",
        "dropped_packets",
        "dropped_limit",
        "dropped_policer",
        "dropped_early",
        "marked_packets",
        "remarked_packets",
        "conformed_packets",
        "conformed_bytes",
        "exceeded_packets",
        "exceeded_bytes",
        "violated_packets",
        "violated_bytes",
        "backlog_packets",
        "backlog_bytes",
    ),
    pl.Int64,
)

_BINS: Final = pl.Schema(
    {
        "flow": pl.String,
        "start_s": pl.Float64,
        "end_s": pl.Float64,
        "low_s": pl.Float64,
        "high_s": pl.Float64,
        "samples": pl.Int64,
    }
)

TABLES: Final[Mapping[str, pl.Schema]] = {
    "intervals": pl.Schema(
        {
            "flow": pl.String,
            "stream": pl.Int32,
            "start_s": pl.Float64,
            "end_s": pl.Float64,
            "bytes": pl.Int64,
            "packets": pl.Int64,
            "lost": pl.Int64,
            "reordered": pl.Int64,
            "reordered_by_3": pl.Int64,
            "extent": pl.Float64,
            "extent_max": pl.Int64,
            "duplicates": pl.Int64,
            "marked": pl.Int64,
            "echoed": pl.Int64,
            "retransmits": pl.Int64,
            "acks": pl.Int64,
            "sacks": pl.Int64,
            "rtt_s": pl.Float64,
            "rtt_min_s": pl.Float64,
            "rtt_max_s": pl.Float64,
            "rtt_samples": pl.Int64,
            "srtt_s": pl.Float64,
            "srtt_min_s": pl.Float64,
            "srtt_max_s": pl.Float64,
            "srtt_samples": pl.Int64,
            "owd_s": pl.Float64,
            "owd_min_s": pl.Float64,
            "owd_max_s": pl.Float64,
            "owd_samples": pl.Int64,
            "jitter_s": pl.Float64,
            "cwnd": pl.Int64,
            "completion_s": pl.Float64,
        }
    ),
    "pings": pl.Schema(
        {
            "ping": pl.String,
            "sequence": pl.Int64,
            "ttl": pl.Int32,
            "sent_s": pl.Float64,
            "rtt_s": pl.Float64,
            "node": pl.String,
            "answer": pl.String,
            "dscp_sent": pl.Int32,
            "dscp_arrived": pl.Int32,
            "dscp_echoed": pl.Int32,
            "ecn_arrived": pl.Int32,
            "ecn_echoed": pl.Int32,
        }
    ),
    "queues": pl.Schema(
        {
            "link": pl.String,
            "class": pl.String,
            "start_s": pl.Float64,
            "end_s": pl.Float64,
            **_COUNTS,
        }
    ),
    "links": pl.Schema(
        {
            "link": pl.String,
            "start_s": pl.Float64,
            "end_s": pl.Float64,
            "sent_packets": pl.Int64,
            "sent_bytes": pl.Int64,
            "lost_packets": pl.Int64,
            "duplicated_packets": pl.Int64,
            "reordered_packets": pl.Int64,
            "utilisation": pl.Float64,
        }
    ),
    "stations": pl.Schema(
        {
            "channel": pl.String,
            "link": pl.String,
            "start_s": pl.Float64,
            "end_s": pl.Float64,
            "transmissions": pl.Int64,
            "frames": pl.Int64,
            "retransmissions": pl.Int64,
            "failed_frames": pl.Int64,
            "abandoned_frames": pl.Int64,
            "sent_bytes": pl.Int64,
            "collisions": pl.Int64,
            "airtime_s": pl.Float64,
            "resource_blocks": pl.Int64,
            "utilisation": pl.Float64,
        }
    ),
    "tunnels": pl.Schema(
        {
            "tunnel": pl.String,
            "entry": pl.String,
            "start_s": pl.Float64,
            "end_s": pl.Float64,
            "encapsulated_packets": pl.Int64,
            "encapsulated_bytes": pl.Int64,
            "outer_bytes": pl.Int64,
            "dropped_too_long": pl.Int64,
            "dropped_no_route": pl.Int64,
            "decapsulated_packets": pl.Int64,
            "decapsulated_bytes": pl.Int64,
            "dropped_ecn": pl.Int64,
        }
    ),
    "losses": pl.Schema(
        {
            "flow": pl.String,
            "link": pl.String,
            "cause": pl.String,
            "start_s": pl.Float64,
            "end_s": pl.Float64,
            "packets": pl.Int64,
        }
    ),
    "codepoints": pl.Schema(
        {
            "flow": pl.String,
            "node": pl.String,
            "start_s": pl.Float64,
            "end_s": pl.Float64,
            "dscp_sent": pl.Int32,
            "dscp_arrived": pl.Int32,
            "ecn_arrived": pl.Int32,
            "packets": pl.Int64,
        }
    ),
    "rtts": _BINS,
    "srtts": _BINS,
    "delays": _BINS,
    "displacements": pl.Schema(
        {"flow": pl.String, "by": pl.Int64, "early": pl.Int64, "late": pl.Int64}
    ),
    "calls": pl.Schema(
        {
            "flow": pl.String,
            "stream": pl.Int32,
            "start_s": pl.Float64,
            "end_s": pl.Float64,
            "packets": pl.Int64,
            "played": pl.Int64,
            "late": pl.Int64,
            "bursts": pl.Int64,
            "delay_s": pl.Float64,
        }
    ),
    "completions": pl.Schema(
        {
            "flow": pl.String,
            "stream": pl.Int32,
            "kind": pl.String,
            "number": pl.Int64,
            "start_s": pl.Float64,
            "first_byte_s": pl.Float64,
            "end_s": pl.Float64,
            "bytes": pl.Int64,
            "exchanges": pl.Int32,
            "opened": pl.Int32,
            "bitrate_bps": pl.Int64,
            "buffer_s": pl.Float64,
        }
    ),
}
"""The columns of each table, in order."""

NULLABLE: Final = {
    "intervals": {
        "bytes",
        "packets",
        "lost",
        "reordered",
        "marked",
        "echoed",
        "retransmits",
        "acks",
        "reordered_by_3",
        "extent",
        "extent_max",
        "duplicates",
        "rtt_s",
        "rtt_min_s",
        "rtt_max_s",
        "srtt_s",
        "srtt_min_s",
        "srtt_max_s",
        "owd_s",
        "owd_min_s",
        "owd_max_s",
        "jitter_s",
        "cwnd",
        "completion_s",
        "sacks",
    },
    "stations": {"collisions", "airtime_s", "resource_blocks"},
    "tunnels": {"encapsulated_bytes", "outer_bytes", "dropped_too_long"},
    "losses": {"link"},
    "completions": {"first_byte_s", "end_s", "bitrate_bps", "buffer_s"},
    "pings": {
        "rtt_s",
        "node",
        "answer",
        "dscp_arrived",
        "dscp_echoed",
        "ecn_arrived",
        "ecn_echoed",
    },
    "queues": {*_COUNTS},
    "links": {"sent_packets", "sent_bytes", "utilisation"},
}
"""The columns of each table that may be null."""

LARGEST: Final = 2**53
"""The greatest number of any column, and of the sum of a column: what floats hold exactly."""

MOST: Final = {
    "start_s": 1e9,
    "end_s": 1e9,
    "low_s": 1e9,
    "high_s": 1e9,
    "sent_s": 1e9,
    "ttl": 255,
    "dscp_sent": 63,
    "dscp_arrived": 63,
    "dscp_echoed": 63,
    "ecn_arrived": 3,
    "ecn_echoed": 3,
    "utilisation": 1e21,  # a second of 1e9 in an interval of a picosecond
}
"""The greatest values of columns, in any table."""

LEAST_AND_MOST: Final = (
    ("low_s", "high_s"),
    ("rtt_min_s", "rtt_max_s"),
    ("srtt_min_s", "srtt_max_s"),
    ("owd_min_s", "owd_max_s"),
)
"""Columns of which the first is never above the second."""

CAUSES: Final = (
    "full queue",
    "policer",
    "early drop",
    "wire",
    "full delay line",
    "no route",
    "TTL expired",
    "too long",
)
"""Causes of loss: before a link, on a link, or without a node that takes the packet."""

KINDS: Final = ("transfer", "call", "page", "segment", "startup", "stall")
"""Kinds of what applications complete."""

ANSWERS: Final = (
    "echo reply",
    "time exceeded",
    "net unreachable",
    "port unreachable",
    "packet too big",
)
"""Kinds of answers to a ping's request."""


@cache
def empty(table: str) -> pl.DataFrame:
    """Return a table without rows; always the same one, as most runs have several of them."""
    return pl.DataFrame(schema=TABLES[table])
