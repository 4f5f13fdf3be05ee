"""The delay of a link as a line of packets: its limit, its variation, packets that skip it."""

import math
from pathlib import Path
from statistics import NormalDist
from typing import Any

import polars as pl
import pytest

import perhop
from conftest import MEASURES
from perhop import Dataset, analysis
from perhop.errors import ScenarioError
from perhop.routers import scenario
from perhop.scenario import parse

TEXT = """
perhop: 1
name: line
nodes: {a: host, r: router, b: host}
links:
  - {ends: [a, r], rate: 10 Gbps}
  - {ends: [r, b], rate: 1 Gbps, LINK}
flows:
  datagrams: {from: a, to: b, udp: {rate: RATE, size: 1472 B}, stop: 4 s}
report: {interval: 1 s}
"""


def run(link: str, rate: str = "5888 kbps", engine: Any = "sim") -> Dataset:
    """A datagram every 2 ms, unless a rate says otherwise, over a link."""
    return perhop.run(parse(TEXT.replace("LINK", link).replace("RATE", rate)), engine=engine)


def row(dataset: Dataset) -> dict[str, Any]:
    return analysis.link_loads(dataset).filter(pl.col("link") == "r>b").row(0, named=True)


@pytest.mark.parametrize("limit", [200, 1000])
def test_a_limit_bounds_the_throughput(limit: int) -> None:
    """netem's 1000 packets at 100 ms are 120 Mb/s of packets of 1500 B."""
    dataset = run(f"delay: 100 ms, delay_limit: {limit} packets", "300 Mbps")
    most = limit * 1472 * 8 / 0.1
    assert analysis.throughput(dataset, "datagrams", (1, 4)) == pytest.approx(most, rel=0.01)
    # Who lost the packets is told.
    found = row(dataset)
    share = found["lost_packets"] / found["sent_packets"]
    assert share == pytest.approx(1 - most / 300e6, rel=0.05)
    assert set(dataset.losses["cause"]) == {"full delay line"}
    assert dataset.losses["packets"].sum() == found["lost_packets"]


def test_a_limit_that_holds_all_drops_nothing() -> None:
    plain, limited = (
        run(f"delay: 100 ms{more}", "100 Mbps") for more in ("", ", delay_limit: 900 packets")
    )
    assert row(limited)["lost_packets"] == 0
    for table in ("intervals", "links"):
        assert getattr(plain, table).equals(getattr(limited, table))


def delays(dataset: Dataset) -> list[tuple[float, float]]:
    """Return the ends of the bins of delays, in ms, with the share of delays up to each."""
    bins = dataset.delays.group_by("high_s").agg(pl.sum("samples")).sort("high_s")
    total, so_far, found = bins["samples"].sum(), 0, []
    for high, samples in bins.iter_rows():
        so_far += samples
        found.append((1000 * high, so_far / total))
    return found


def share_below(distribution: str, x: float) -> float:
    """Return the share of netem's jitter below `x` of its units, from its tables' formulas."""

    def pareto(u: float) -> float:
        return min(((1 - u) ** (-1 / 3) - 1.5) * 4 / 3, 4.0)

    def normal(u: float) -> float:
        return NormalDist().inv_cdf(u)

    quantile = {
        "uniform": lambda u: 2 * u - 1,
        "normal": normal,
        "pareto": pareto,
        "paretonormal": lambda u: normal(u) / 4 + 3 * pareto(u) / 4,
    }[distribution]
    steps = [(n + 0.5) / 20_000 for n in range(20_000)]
    return sum(quantile(u) < x for u in steps) / len(steps)


@pytest.mark.parametrize("distribution", ["uniform", "normal", "pareto", "paretonormal"])
def test_delays_vary_as_netems(distribution: str) -> None:
    text = f"delay: 40 ms, variation: {{by: 10 ms, distribution: {distribution}}}"
    dataset = run(text, "29440 kbps")
    # A distance of 0.022 has a probability of 0.1% with 8000 delays (Kolmogorov).
    for high, share in delays(dataset):
        assert share == pytest.approx(share_below(distribution, (high - 40) / 10), abs=0.03)


def test_a_variation_in_order_reorders_nothing() -> None:
    dataset = run("delay: 40 ms, variation: {by: 10 ms, in_order: true}", "29440 kbps")
    assert analysis.order(dataset, "datagrams").reordered == 0
    assert row(dataset)["reordered_packets"] == 0


LINUX = [
    (
        "delay 40ms 10ms",
        "delay: 40 ms, variation: {by: 10 ms}",
        (0.594, 0.588, [30.23, 40.01, 45.17, 49.84]),
    ),
    (
        "delay 40ms 10ms distribution normal",
        "delay: 40 ms, variation: {by: 10 ms, distribution: normal}",
        (0.718, 0.728, [16.97, 39.77, 46.77, 64.11]),
    ),
    (
        "delay 40ms 10ms distribution pareto",
        "delay: 40 ms, variation: {by: 10 ms, distribution: pareto}",
        (0.410, 0.754, [33.42, 36.93, 41.06, 80.03]),
    ),
    (
        "delay 40ms 10ms distribution paretonormal",
        "delay: 40 ms, variation: {by: 10 ms, distribution: paretonormal}",
        (0.529, 0.759, [29.16, 37.68, 42.86, 75.06]),
    ),
    (
        "delay 11ms reorder 25%",
        "delay: 11 ms, reorder: {share: 25%, gap: 1}",
        (0.587, 0.249, [0.03, 11.04, 11.04, 11.05]),
    ),
    (
        "delay 11ms reorder 50% gap 5",
        "delay: 11 ms, reorder: {share: 50%, gap: 5}",
        (0.746, 0.166, [0.03, 11.04, 11.04, 11.05]),
    ),
]
"""What netem of Linux 6.1.192 does to 3000 packets of 200 B, one every 2 ms, between two virtual
Ethernet devices in a virtual machine whose clock counts instructions: the share of packets that are
reordered (RFC 4737), the share that overtake one, and quantiles of the delay in ms at 1, 50, 75 and
99%."""


@pytest.mark.parametrize(("netem", "link", "linux"), LINUX, ids=[each[0] for each in LINUX])
def test_packets_overtake_as_in_linux(
    netem: str, link: str, linux: tuple[float, float, list[float]], tmp_path: Path
) -> None:
    """The deviation of a share of 3000 is 0.01, more if packets depend on each other."""
    text = TEXT.replace("LINK", link).replace("RATE", "688 kbps").replace("1472 B", "172 B")
    dataset = perhop.run(parse(text.replace("stop: 4 s", "stop: 6 s")))
    reordered, overtaking, quantiles = linux
    assert analysis.order(dataset, "datagrams").share == pytest.approx(reordered, abs=0.04)
    assert row(dataset)["reordered_packets"] / 3000 == pytest.approx(overtaking, abs=0.04)
    for share, expected in zip((0.01, 0.5, 0.75, 0.99), quantiles, strict=True):
        found = next(high for high, below in delays(dataset) if below >= share)
        # At 1%, quantiles of 3000 have a deviation of 0.7 ms.
        slack = 0.6 if 0.1 < share < 0.9 else 2.0
        assert found == pytest.approx(expected, rel=0.05, abs=slack), share
    # Import reads the command as this link.
    script = tmp_path / "wan.sh"
    script.write_text(f"tc qdisc add dev eth0 root netem {netem} limit 5000\n")
    made = scenario.build([script], rate=10**9).scenario()
    (imported,) = (each.medium("edge") for each in made.links if each.egress)
    medium = parse(text).links[1].medium("r")
    for key in ("delay", "variation", "reorder"):
        assert getattr(imported, key) == getattr(medium, key)


@pytest.mark.parametrize(
    ("link", "linux"),
    [
        ("delay: 100 ms, delay_limit: 50 packets", 748),
        (
            "delay: 100 ms, delay_limit: 80 packets, variation: {by: 30 ms, distribution: normal}",
            1184,
        ),
    ],
)
def test_a_line_drops_as_many_as_linux(link: str, linux: int) -> None:
    """Of 1500 packets, one every 1 ms, in the same virtual machine."""
    text = TEXT.replace("LINK", link).replace("RATE", "1376 kbps").replace("1472 B", "172 B")
    dataset = perhop.run(parse(text.replace("stop: 4 s", "stop: 1.5 s")))
    found = row(dataset)
    assert found["sent_packets"] - found["lost_packets"] == pytest.approx(linux, rel=0.02)


@pytest.mark.parametrize(
    ("link", "message"),
    [
        ("delay_limit: 100 packets", "`delay_limit`|means nothing where `r` sends, without"),
        ("variation: {by: 1 ms}", "means nothing where `r` sends, without `delay`"),
        ("delay: 5 ms, jitter: 1 ms, variation: {by: 1 ms}", "is given beside `jitter`"),
        ("delay: 5 ms, reorder: {share: 1%}", "by: is missing"),
        ("delay: 5 ms, reorder: {share: 1%, by: 1 ms, gap: 3}", "is given beside `by`"),
        ("delay: 5 ms, delay_limit: 0 packets", "delay_limit"),
        ("delay: 5 ms, variation: {by: 1 ms, distribution: gamma}", "distribution"),
    ],
)
def test_what_means_nothing_is_refused(link: str, message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        parse(TEXT.replace("LINK", link).replace("RATE", "1 Mbps"))


def test_each_direction_has_its_own_line() -> None:
    link = "delay: 20 ms, delay_limit: {r: 10 packets}, variation: {b: {by: 1 ms}}"
    made = parse(TEXT.replace("LINK", link).replace("RATE", "1 Mbps"))
    there, back = (made.links[1].medium(node) for node in ("r", "b"))
    assert (there.delay_limit, there.variation, back.delay_limit) == (10, None, None)
    assert back.variation is not None and back.variation.by == 10**9


def test_engine_live_refuses_a_line_that_it_does_not_make() -> None:
    from perhop.engines import live

    link = "delay: 20 ms, delay_limit: 10 packets, variation: {by: 1 ms}"
    gaps = live._network_gaps(parse(TEXT.replace("LINK", link).replace("RATE", "1 Mbps")))
    assert {gap.path for gap in gaps} == {"links.1.delay_limit", "links.1.variation"}


@MEASURES
@pytest.mark.parametrize("engine", ["emu", "kernel"])
def test_real_hosts_meet_the_same_line(engine: Any) -> None:
    """50 packets at 100 ms are 500 packets per second; later ones overtake a tenth and more."""
    dataset = run("delay: 100 ms, delay_limit: 50 packets", "11776 kbps", engine)
    rate = analysis.throughput(dataset, "datagrams", (1, 4))
    assert rate == pytest.approx(500 * 1472 * 8, rel=0.05)
    varied = "delay: 40 ms, variation: {by: 10 ms, distribution: normal}"
    shares = []
    for each in ("sim", engine):
        dataset = run(varied, engine=each)
        order = analysis.order(dataset, "datagrams")
        shares.append(order.share)
        median = next(high for high, share in delays(dataset) if share >= 0.5)
        assert math.isclose(median, 40, abs_tol=1.5)
    assert shares[1] == pytest.approx(shares[0], abs=0.06) and min(shares) > 0.3
