"""TCP against its response functions, and BBR's share and queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

import perhop
from perhop import analysis
from perhop.scenario import Scenario
from validation.table import Row, Table

if TYPE_CHECKING:
    from collections.abc import Iterator

SEGMENT = 1460


def pftk(p: float, rtt: float, timeout: float) -> float:
    """Segments a second by PFTK with timeouts, for a window that grows by one a round trip.

    Args:
        p: Indications of loss for a segment sent.
        rtt: Round-trip time in seconds.
        timeout: The first timeout in seconds.
    """
    arrives = 1 - p
    window = 1 + (8 * arrives / (3 * p) + 1) ** 0.5
    tail = (1 - arrives**3) * (1 + arrives**3 * (1 - arrives ** (window - 3)))
    timeouts = min(1.0, tail / (1 - arrives**window))
    backoff = 1 + sum(2**n * p ** (n + 1) for n in range(6))
    sent = arrives / p + window + timeouts / arrives
    return float(sent / (rtt * (window / 2 + 1) + timeouts * timeout * backoff / arrives))


def _rate(dataset: perhop.Dataset, flow: str, window: tuple[float, float]) -> float:
    """The goodput of a flow in bits per second."""
    rate = analysis.throughput(dataset, flow, window)
    assert rate is not None
    return rate


def goodput(tcp: dict[str, Any], loss: str, seconds: int, seeds: int) -> float:
    """Mean segments a second over seeds, on a path of 100 ms that loses at random."""
    scenario = Scenario.model_validate(
        {
            "perhop": 1,
            "name": "response",
            "nodes": {"a": "host", "b": "host"},
            "links": [{"ends": ["a", "b"], "rate": "10 Gbps", "delay": "50 ms", "loss": loss}],
            "flows": {"f": {"from": "a", "to": "b", "tcp": {"window": "64 MiB", **tcp}}},
            "duration": f"{seconds} s",
            "report": {"interval": f"{seconds // 10} s"},
        }
    )
    total = 0.0
    for seed in range(1, seeds + 1):
        dataset = perhop.run(scenario, seed=seed)
        total += _rate(dataset, "f", (seconds / 10, seconds)) / 8 / SEGMENT
    return total / seeds


def reno() -> Iterator[Row]:
    """Reno where each segment is lost with the same probability."""
    for loss, seconds in (("0.01%", 1000), ("0.1%", 500), ("0.4%", 300), ("1%", 300), ("5%", 300)):
        measured = goodput({"congestion_control": "reno"}, loss, seconds, 6)
        lost = float(loss.rstrip("%")) / 100
        # What is lost in the window after the first is part of the same indication; a window has
        # grown to 4/3 of its mean when it meets a loss.
        p = lost / (1 + lost * measured * 0.1 * 4 / 3)
        # PFTK leaves out the round trip of recovery, one beside five of growth at 5%.
        yield Row(f"loss of {loss}", pftk(p, 0.1, 0.3), measured, 0.2 if lost > 0.02 else 0.1)


def cubic() -> Iterator[Row]:
    """CUBIC where its windows are larger than Reno's."""
    for loss in ("0.01%", "0.005%"):
        measured = goodput({"hystart": False}, loss, 1000, 3)
        p = float(loss.rstrip("%")) / 100
        yield Row(f"loss of {loss}", 1.054 * (0.1 / p) ** 0.75 / 0.1, measured, 0.25)


def _bbr(products: float, other: bool) -> perhop.Dataset:
    """Two minutes over 50 Mb/s and 40 ms, 167 packets, with a buffer of so many times that."""
    flows: dict[str, Any] = {
        "bbr": {
            "from": "a",
            "to": "b",
            "tcp": {"congestion_control": "bbr", "loss_detection": "rack", "window": "64 MiB"},
        }
    }
    if other:
        cubic = {"loss_detection": "rack", "window": "64 MiB"}
        flows["cubic"] = {"from": "a", "to": "b", "tcp": cubic, "start": "1 s"}
    queue = {"limit": f"{round(167 * products)} packets"}
    scenario = Scenario.model_validate(
        {
            "perhop": 1,
            "name": "bbr",
            "nodes": {"a": "host", "r": "router", "b": "host"},
            "links": [
                {"ends": ["a", "r"], "rate": "1 Gbps"},
                {"ends": ["r", "b"], "rate": "50 Mbps", "delay": "20 ms", "queue": queue},
            ],
            "flows": flows,
            "duration": "120 s",
            "report": {"interval": "5 s"},
        }
    )
    return perhop.run(scenario)


def bbr() -> Iterator[Row]:
    """BBR alone, and beside CUBIC."""
    link = 50e6 * SEGMENT / 1500
    for products in (0.1, 0.25, 0.5, 1, 10):
        dataset = _bbr(products, other=False)
        share = _rate(dataset, "bbr", (10.0, 120.0)) / link
        yield Row(f"alone, buffer of {products} BDP: share of the link", 0.98, share, 0.08)
        rows = dataset.intervals.filter(pl.col("start_s") >= 10.0)
        lost, packets = (int(rows[column].sum()) for column in ("lost", "packets"))
        yield Row(
            f"alone, buffer of {products} BDP: loss", 0.02, lost / (lost + packets), 0, kind="bound"
        )
        mean = rows["rtt_s"].mean()
        assert isinstance(mean, float)
        queue = (mean - 0.04) / 0.04
        yield Row(
            f"alone, buffer of {products} BDP: mean queue in BDP", 1.0, queue, 0, kind="bound"
        )
    for products in (0.5, 1, 4, 16):
        dataset = _bbr(products, other=True)
        share = _rate(dataset, "bbr", (20.0, 120.0)) / link
        yield Row(f"beside CUBIC, buffer of {products} BDP: share of the link", 0.5, share, 0.9)


RENO = Table(
    name="reno",
    title="Reno under random loss",
    unit="segments/s",
    source="Padhye, Firoiu, Towsley and Kurose, *Modeling TCP Reno Performance*, ToN 8(2), 2000, "
    "with timeouts, and with b = 1 since windows grow by bytes (RFC 3465), and T0 = 300 ms",
    notes="A round trip of 100 ms, six seeds. PFTK puts means for what varies: where losses are "
    "independent that takes 7% off (the 1.22 of its square root is 1.31 for Mathis), where they "
    "are even nothing (`cargo test -p perhop-tcp`).",
    rows=reno,
    quick=False,
)

CUBIC = Table(
    name="cubic",
    title="CUBIC under random loss",
    unit="segments/s",
    source="RFC 9438, section 5.1, for losses at even distances",
    notes="A round trip of 100 ms, three seeds. The derivation leaves out fast convergence and the "
    "round trip of recovery, and random losses are not even.",
    rows=cubic,
    quick=False,
)

BBR = Table(
    name="bbr",
    title="BBR's share and queue",
    unit="see the setting",
    source="draft-ietf-ccwg-bbr-06: ProbeRTT leaves 98% (section 5.3.4.2); loss stays below the "
    "threshold of 2% (2.8); what is in flight stays within two BDP (5.6.1). Of its share beside "
    "CUBIC nothing is expected but that neither starves",
    notes="50 Mb/s, a round trip of 40 ms, two minutes.",
    rows=bbr,
    quick=False,
)
