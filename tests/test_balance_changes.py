"""Changes of a node's load balancing, mixes of packet sizes, and stationary bursts."""

import pytest

import perhop
from perhop.engines.plan import plan
from perhop.errors import ScenarioError
from perhop.lab.present import Present
from perhop.linux.mapping import mapping
from perhop.report import text
from perhop.scenario import Scenario, dump, parse
from perhop.scenario.rules.warnings import unused_seeds

PARALLEL = """
perhop: 1
name: parallel
nodes: {a: host, r1: router, r2: router, b: host}
links:
  - {ends: [a, r1], rate: 1 Gbps}
  - {ends: [r1, r2], rate: 100 Mbps, delay: 1 ms}
  - {ends: [r1, r2], rate: 100 Mbps, delay: 9 ms}
  - {ends: [r2, b], rate: 1 Gbps}
flows:
  stream: {from: a, to: b, udp: {rate: 2 Mbps, size: 250 B}}
duration: 4 s
report: {interval: 500 ms}
"""
CHANGE = "changes: [{at: 2 s, node: r1, balance: per-packet}]\n"


def test_packets_take_turns_from_the_change_on() -> None:
    """One link has them all before the change, and half of them after it."""
    dataset = perhop.run(parse(PARALLEL + CHANGE))
    links = [dataset.links.filter(link=name) for name in ("r1>r2", "r1>r2#2")]
    first = [sent.filter(sent["end_s"] <= 2)["sent_packets"].sum() for sent in links]
    later = [sent.filter(sent["start_s"] >= 2)["sent_packets"].sum() for sent in links]
    assert min(first) == 0 < max(first)
    assert abs(later[0] - later[1]) <= 1
    reordered = dataset.intervals.sort("start_s")["reordered"].to_list()
    assert sum(reordered[:4]) == 0 < min(reordered[5:])


def test_a_change_of_balance_reads_back_and_has_words() -> None:
    scenario = parse(PARALLEL + CHANGE)
    assert parse(dump(scenario)) == scenario
    assert text.change(scenario.changes[0]) == "r1: balance per-packet"
    [change] = plan(scenario, 1)["network"]["changes"]
    assert change["effect"] == {"balance": {"node": "r1", "balance": "per-packet"}}
    [gap] = [gap for gap in mapping(scenario).gaps if "balance" in gap.path]
    assert gap.path == "changes.0.balance"


def test_a_lab_changes_the_balance() -> None:
    first = Present(parse(PARALLEL))
    present, effects, _ = first.change({"node": "r1", "balance": "per-destination"})
    assert effects == [{"balance": {"node": "r1", "balance": "per-destination"}}]
    assert present.scenario.nodes["r1"].balance == "per-destination"
    assert first.scenario.nodes["r1"].balance == "per-flow"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            "node: r3, balance: per-packet",
            "changes.0.node: `r3` is not a node; there are a, r1",
        ),
        ("node: r1", "changes.0.node: is given without `balance`"),
        ("balance: per-flow", "changes.0.balance: is given without `node`"),
        ("node: r1, balance: per-packt", "did you mean `per-packet`?"),
    ],
)
def test_wrong_changes_of_balance_are_named(change: str, message: str) -> None:
    with pytest.raises(ScenarioError) as error:
        parse(PARALLEL + f"changes: [{{at: 1 s, {change}}}]\n")
    assert message in str(error.value)


def udp(settings: str) -> Scenario:
    return parse(PARALLEL.replace("rate: 2 Mbps, size: 250 B", settings))


def test_the_simple_mix_has_its_sizes_in_its_ratio() -> None:
    """Lengths of IP packets: 40, 576 and 1500 B in the ratio 7:4:1, at the rate asked for."""
    dataset = perhop.run(udp("rate: 10 Mbps, layer: ip, sizes: imix"))
    sent = dataset.links.filter(link="a>r1")
    packets, size = sent["sent_packets"].sum(), sent["sent_bytes"].sum()
    mean = (7 * 40 + 4 * 576 + 1500) / 12
    # Five standard deviations of the mean of so many packets.
    deviation = ((7 * 40**2 + 4 * 576**2 + 1500**2) / 12 - mean**2) ** 0.5
    assert size / packets == pytest.approx(mean, abs=5 * deviation / packets**0.5)
    assert 8 * packets * 340 / 4 == pytest.approx(10e6, rel=0.001)


@pytest.mark.parametrize("shape", ["1.4", "2.5"])
def test_stationary_bursts_have_their_mean_rate_from_the_start(shape: str) -> None:
    """In the first tenth of the mean cycle, too: with a burst first, it would be all bursts."""
    bursts = f"{{on: 100 ms, off: 300 ms, lengths: pareto, shape: {shape}, begin: BEGIN}}"
    shares = {}
    for begin in ("stationary", "burst"):
        scenario = udp(f"rate: 800 kbps, size: 100 B, bursts: {bursts.replace('BEGIN', begin)}")
        flows = {"stream": scenario.flows["stream"].model_copy(update={"streams": 1000})}
        early = scenario.model_copy(update={"flows": flows, "duration": 40 * 10**9})
        sent = perhop.run(early).links.filter(link="a>r1")["sent_packets"].sum()
        shares[begin] = sent / (1000 * 40)
    # A binomial with p = 1/4 and 1000 sources: five standard deviations.
    assert shares["stationary"] == pytest.approx(0.25, abs=5 * (0.25 * 0.75 / 1000) ** 0.5)
    assert shares["burst"] > 0.6


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("rate: 1 Mbps, sizes: imix", "`imix` is a mix of IP packets; expected `layer: ip`"),
        ("rate: 1 Mbps, sizes: imix, layer: ip, size: 90 B", "size: is given beside `sizes: imix`"),
    ],
)
def test_wrong_mixes_are_named(settings: str, message: str) -> None:
    with pytest.raises(ScenarioError) as error:
        udp(settings)
    assert message in str(error.value)


def test_seeds_without_effect_are_named() -> None:
    still = parse(
        PARALLEL.replace("delay: 9 ms}", "delay: 9 ms, name: other}")
        .replace("r1: router", "r1: {kind: router, balance: per-packet}")
        .replace("r2: router", "r2: {kind: router, balance: per-packet}")
    )
    assert not list(unused_seeds(still, "sim", [1]))
    [said] = unused_seeds(still, "sim", [1, 2, 3])
    assert said.startswith("all 3 seeds give the same results")
    assert not list(unused_seeds(still, "emu", [1, 2, 3]))
    assert not list(unused_seeds(parse(PARALLEL), "sim", [1, 2, 3]))
