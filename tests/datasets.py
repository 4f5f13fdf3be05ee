"""Synthetic runs, shaped like the three-class scavenger experiment, for tests without an engine."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from perhop.dataset import NULLABLE, TABLES, Dataset, Host, Manifest
from perhop.scenario import Scenario, parse

SCAVENGER = """
perhop: 1
name: three-classes
title: A scavenger, a best-effort and a priority copy share 10 Mb/s
source: SLAC QBSS Measurements, 2001
description: |
  One host copies to another with three code points, through a router that divides 10 Mb/s.

  Where results differ: the tables of this run are synthetic.
nodes: {evagore: host, r1: router, r2: router, pharlap: host}
links:
  - {ends: [evagore, r1], rate: 100 Mbps, delay: 50 us}
  - {ends: [r1, r2], rate: 10 Mbps, delay: 200 us, egress: {r1: qbss}}
  - {ends: [r2, pharlap], rate: 1 Gbps, delay: 50 us}
policies:
  qbss:
    classes:
      scavenger: {match: {dscp: cs1}, bandwidth: 1%}
      priority: {match: {dscp: af11}, bandwidth: 70%}
      best_effort: {match: any, bandwidth: 29%}
flows:
  scavenger: {from: evagore, to: pharlap, tcp: {window: 8 KiB}, dscp: cs1, start: 0 s, stop: 150 s}
  best_effort: {from: evagore, to: pharlap, tcp: {window: 8 KiB}, start: 30 s, stop: 120 s}
  priority: {from: evagore, to: pharlap, tcp: {window: 8 KiB}, dscp: af11, start: 60 s, stop: 90 s}
pings:
  as_scavenger: {from: evagore, to: pharlap, dscp: cs1, every: 1 s}
  as_priority: {from: evagore, to: pharlap, dscp: af11, every: 1 s}
report: {interval: 1 s}
expect:
  - {throughput: priority, during: 62 s..90 s, at_least: 6.5 Mbps}
  - {throughput: scavenger, during: 62 s..90 s, at_most: 500 kbps}
  - {throughput: total, about: 9.5 Mbps, within: 5%}
  - {settling: best_effort, during: 30 s..60 s, at_most: 2 s}
  - {rtt_p99: as_scavenger, during: 62 s..90 s, at_most: 50 ms}
published:
  - {label: alone, throughput: scavenger, during: 2 s..30 s, value: 9 Mbps, qualifier: above}
  - {label: best effort beside it, throughput: best_effort, during: 32 s..60 s, value: 8.7 Mbps}
  - {label: scavenger beside it, throughput: scavenger, during: 32 s..60 s, value: 500 kbps}
  - {label: priority, throughput: priority, during: 62 s..90 s, value: 7 Mbps}
  - {label: best effort, throughput: best_effort, during: 62 s..90 s, value: 1.9 Mbps}
  - {label: scavenger, throughput: scavenger, during: 62 s..90 s, value: 100 kbps, note: a guess}
  - {label: transition, settling: priority, during: 60 s..90 s, value: 2 s, qualifier: below}
"""

LEVELS = {
    (0, 30): {"scavenger": 9.55e6},
    (30, 60): {"scavenger": 0.42e6, "best_effort": 9.1e6},
    (60, 90): {"scavenger": 0.11e6, "best_effort": 2.3e6, "priority": 7.1e6},
    (90, 120): {"scavenger": 0.42e6, "best_effort": 9.1e6},
    (120, 150): {"scavenger": 9.55e6},
}
"""The throughput of each flow in each phase of `SCAVENGER`, in bits per second."""


MADE_UP = "2026-01-02T03:04:05Z"
"""The start of all runs of this module. Their tables have the columns that a test is about, and
conserve nothing."""


def dataset(
    scenario: Scenario,
    intervals: list[dict[str, Any]] | None = None,
    *,
    pings: list[dict[str, Any]] | None = None,
    queues: list[dict[str, Any]] | None = None,
    links: list[dict[str, Any]] | None = None,
    stations: list[dict[str, Any]] | None = None,
    tunnels: list[dict[str, Any]] | None = None,
    losses: list[dict[str, Any]] | None = None,
    codepoints: list[dict[str, Any]] | None = None,
    rtts: list[dict[str, Any]] | None = None,
    srtts: list[dict[str, Any]] | None = None,
    delays: list[dict[str, Any]] | None = None,
    displacements: list[dict[str, Any]] | None = None,
    calls: list[dict[str, Any]] | None = None,
    completions: list[dict[str, Any]] | None = None,
    complete: bool = True,
    duration_s: float | None = None,
) -> Dataset:
    """A dataset of the given rows; columns left out are zero, or null where they may be."""
    given = {
        "intervals": intervals,
        "pings": pings,
        "queues": queues,
        "links": links,
        "stations": stations,
        "tunnels": tunnels,
        "losses": losses,
        "codepoints": codepoints,
        "rtts": rtts,
        "srtts": srtts,
        "delays": delays,
        "displacements": displacements,
        "calls": calls,
        "completions": completions,
    }
    tables = {name: table(name, rows or []) for name, rows in given.items()}
    return Dataset(
        scenario=scenario,
        manifest=Manifest(
            perhop="0.1.0",
            engine="sim",
            seed=1,
            started=MADE_UP,
            wall_s=0.5,
            duration_s=scenario.end_ps / 1e12 if duration_s is None else duration_s,
            complete=complete,
            host=Host(system="Linux 6.1", machine="x86_64", python="3.11.2"),
            counters={"events": 1_234_567, "packet_hops": 345_678},
        ),
        **tables,
    )


def table(name: str, rows: list[dict[str, Any]]) -> pl.DataFrame:
    """One table of a dataset from the columns that matter."""
    optional = () if name in ("queues", "links") else NULLABLE.get(name, ())
    blank = {column: None if column in optional else 0 for column in TABLES[name]}
    return pl.DataFrame([{**blank, **row} for row in rows], schema=TABLES[name])


def scavenger(
    levels: Mapping[tuple[int, int], Mapping[str, float]] = LEVELS,
    *,
    text: str = SCAVENGER,
    until: int = 150,
    noise: float = 0.01,
    ramp: float = 0.55,
) -> Dataset:
    """The three-class experiment with a row a second: `levels` in each phase, and some noise.

    A phase's first second delivers only `ramp` of the level. The run is cut off at `until` seconds.
    """
    scenario = parse(text, "three-classes.yaml")
    random = np.random.default_rng(1)
    intervals, pings, queues, links = [], [], [], []
    for (start, end), rates in levels.items():
        for second in range(start, min(end, until)):
            stretch = {"start_s": float(second), "end_s": second + 1.0}
            sent = 0
            for flow in scenario.flows:
                level = rates.get(flow, 0.0) * (ramp if second == start else 1.0)
                amount = round(level / 8 * (1 + noise * random.standard_normal()))
                sent += amount
                row: dict[str, Any] = {"flow": flow, **stretch, "bytes": amount}
                if amount:
                    row |= {"packets": amount // 1460 + 1, "lost": 1, "retransmits": 1}
                    row |= {"rtt_s": 0.007, "rtt_min_s": 0.0061, "rtt_max_s": 0.0083}
                    row |= {"rtt_samples": 10, "cwnd": 8192}
                    row |= {"srtt_s": 0.007, "srtt_min_s": 0.0065, "srtt_max_s": 0.0075}
                    row |= {"srtt_samples": 5}
                intervals.append(row)
                counters = {"sent_bytes": amount, "sent_packets": amount // 1460}
                queues.append({"link": "r1>r2", "class": flow, **stretch, **counters})
            for link, rate in (("evagore>r1", 100e6), ("r1>r2", 10e6), ("r2>pharlap", 1e9)):
                busy = min(1.0, sent * 8 * 1.03 / rate)
                links.append({"link": link, **stretch, "sent_bytes": sent, "utilisation": busy})
                if link != "r1>r2":
                    queues.append({"link": link, "class": "all", **stretch, "sent_bytes": sent})
            for ping, scale in (
                ("as_scavenger", 0.03 if len(rates) > 1 else 0.004),
                ("as_priority", 0.001),
            ):
                lost = random.random() < 0.03
                rtt = None if lost else 0.0006 + scale * random.random()
                row = {"ping": ping, "sequence": second, "sent_s": float(second), "rtt_s": rtt}
                pings.append(row)
    rtts = [
        {
            "flow": flow,
            "start_s": 0.0,
            "end_s": float(until),
            "low_s": 0.006 * 1.01**i,
            "high_s": 0.006 * 1.01 ** (i + 1),
            "samples": 40,
        }
        for flow in scenario.flows
        for i in range(30)
    ]
    srtts = [each | {"samples": 25} for each in rtts if 0.0065 < each["low_s"] < 0.0075]
    return dataset(
        scenario,
        intervals,
        pings=pings,
        queues=queues,
        links=links,
        rtts=rtts,
        srtts=srtts,
        complete=until >= 150,
        duration_s=float(until),
    )
