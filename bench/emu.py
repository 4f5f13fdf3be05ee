"""Accuracy of the times, rates and shares of the `emu` engine: `make bench-emu`.

Hosts are this machine's, and so is whatever else it does meanwhile: the load average is printed.
iperf3 and ping are foreign clients; the shares are measured by perhop's own traffic.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import threading
import time
from typing import Any

import polars as pl

import perhop
from perhop._core import Emulation, Namespaces
from perhop.engines.plan import network_plan
from perhop.scenario import parse

HOST = "10.0.0.4"

ROW = """
perhop: 1
name: row
nodes: {{a: host, r1: router, r2: router, b: host}}
links:
  - {{ends: [a, r1], rate: {access}}}
  - {{ends: [r1, r2], rate: {rate}, delay: {delay}}}
  - {{ends: [r2, b], rate: {access}}}
flows: {{}}
pings: {{idle: {{from: a, to: b}}}}
duration: 1 s
"""

THREE = """
perhop: 1
name: three-classes
nodes: {a: host, r1: router, r2: router, b: host}
links:
  - {ends: [a, r1], rate: 10 Gbps}
  - {ends: [r1, r2], rate: 1 Gbps, delay: 1 ms, egress: {r1: three}}
  - {ends: [r2, b], rate: 10 Gbps}
policies:
  three:
    classes:
      scavenger: {match: {dscp: cs1}, bandwidth: 10%, queue: {limit: 200 ms}}
      priority: {match: {dscp: af11}, bandwidth: 60%, queue: {limit: 200 ms}}
      best_effort: {match: any, bandwidth: 30%, queue: {limit: 200 ms}}
flows:
  scavenger: {from: a, to: b, dscp: cs1, streams: 2, stop: 8 s}
  priority: {from: a, to: b, dscp: af11, streams: 8, stop: 8 s}
  best_effort: {from: a, to: b, streams: 4, stop: 8 s}
report: {interval: 50 ms}
"""

WAITING = 100
"""Least backlog of a class that will not be empty in the next 50 ms, unless senders stop."""

HEADERS = 1448 / 1500
"""Share of a packet for the application: IPv4, TCP and its timestamps take 52 bytes."""


def lab(rate: str, delay: str, access: str) -> tuple[Emulation, Namespaces]:
    """A row of hosts and routers, until it is forgotten."""
    scenario = parse(ROW.format(rate=rate, delay=delay, access=access), "row")
    network = {**network_plan(scenario, 1), "marks": []}
    plan = {"network": network, "hosts": {name: {"mtu": 1500} for name in ("a", "b")}}
    core = Emulation(json.dumps(plan))
    core.start(Emulation.monotonic_ns())
    return core, core.namespaces()


def said(namespaces: Namespaces, host: int, *command: str) -> str:
    code, output, errors = namespaces.run(host, list(command), b"")
    if code:
        raise SystemExit(f"{' '.join(command)}: {(output + errors).decode()}")
    return output.decode()


def pings(namespaces: Namespaces, count: int) -> list[float]:
    """Round-trip times in seconds."""
    text = said(namespaces, 0, "ping", "-n", "-i", "0.01", "-c", str(count), HOST)
    return [float(found) / 1e3 for found in re.findall(r"time=([\d.]+)", text)]


def goodput(namespaces: Namespaces, seconds: int) -> tuple[float, dict[str, Any]]:
    """Return the goodput of iperf3 in bit/s, without the first second."""
    server = threading.Thread(target=namespaces.run, args=(3, ["iperf3", "-s", "-1"], b""))
    server.start()
    while ":1451 " not in said(namespaces, 3, "cat", "/proc/net/tcp6"):
        time.sleep(0.02)
    end = json.loads(said(namespaces, 0, "iperf3", "-c", HOST, "-t", str(seconds), "-O1", "-J"))
    server.join()
    return float(end["end"]["sum_received"]["bits_per_second"]), end["end"]


def shares(dataset: perhop.Dataset) -> tuple[dict[str, float], int]:
    """Each class's share of what was sent while all had packets waiting, and in how many stretches.

    A scheduler shares among classes that have something to send, and on a busy machine senders are
    late.
    """
    rows = dataset.queues.filter(pl.col("link") == "r1>r2").sort("class", "start_s")
    before = pl.col("backlog_packets").shift(1, fill_value=0).over("class")
    least = rows.with_columns(least=pl.min_horizontal("backlog_packets", before))
    busy = least.filter(pl.col("least").min().over("start_s") >= WAITING)
    sent = dict(busy.group_by("class").agg(pl.col("sent_bytes").sum()).rows())
    total = sum(sent.values())
    return {name: count / total for name, count in sent.items()}, busy["start_s"].n_unique()


def line(what: str, figure: str, wanted: str) -> None:
    print(f"{what:<44}{figure:>26}   wanted {wanted}", flush=True)


def main() -> None:
    """Measure and print."""
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")

    core, hosts = lab("10 Gbps", "0 ms", "10 Gbps")
    times = sorted(pings(hosts, 500))
    # 84 bytes over three links of 10 Gb/s, there and back, are 0.4 µs.
    median, p99 = statistics.median(times), times[int(0.99 * len(times))]
    line(
        "an idle ping's delay",
        f"{median * 1e6:.0f} / {p99 * 1e6:.0f} µs",
        "100 / 1000 µs (p50/p99)",
    )

    core, hosts = lab("1 Gbps", "10 ms", "10 Gbps")
    one_way = statistics.median(pings(hosts, 200)) / 2 - 10e-3
    line("beyond a delay of 10 ms, at the median", f"{one_way * 1e6:.0f} µs", "100 µs")

    for rate, bits in (("10 Mbps", 1e7), ("100 Mbps", 1e8), ("1 Gbps", 1e9)):
        core, hosts = lab(rate, "1 ms", "10 Gbps")
        got, _ = goodput(hosts, 5)
        off = got / (bits * HEADERS) - 1
        late = core.counters().get("late_p99_ns", 0) / 1e3
        figure = f"{got / 1e6:.2f} Mb/s, {off:+.2%}"
        line(f"goodput at {rate} (late by {late:.0f} µs at p99)", figure, "±1%")

    core, hosts = lab("100 Gbps", "0 ms", "100 Gbps")
    got, _ = goodput(hosts, 5)
    packets = core.counters()["packets_received"]
    line("highest rate, packets of 1500 B", f"{got / 1e9:.2f} Gb/s", f"4 Gb/s ({packets} packets)")

    dataset = perhop.run(parse(THREE, "three"), engine="emu")
    found, number = shares(dataset)
    for name, share in (("scavenger", 0.1), ("priority", 0.6), ("best_effort", 0.3)):
        off = found[name] / share - 1
        line(f"share of {name}", f"{found[name]:.2%}, {off:+.2%}", f"{share:.0%} ±2%")
    line("while all had packets waiting, of 160 stretches", f"{number}", "")
    counted = dataset.manifest.counters
    lost = {key: counted[key] for key in ("overruns", "overflow", "refused")}
    line("dropped outside the policy", str(sum(lost.values())), "0")


if __name__ == "__main__":
    main()
