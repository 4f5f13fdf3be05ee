"""QUIC between real hosts: quinn's connections get what the model's get."""

import pytest

import perhop
from conftest import MEASURES
from perhop import analysis
from perhop.dataset import Dataset
from perhop.errors import UnsupportedError
from perhop.scenario import Scenario, parse
from tools import unable

# Packets of 1200 B: quinn's grow less than the model's. Bursts of losses stop their growth.
SETTINGS = "datagram: 1200 B, max_datagram: 1200 B, hystart: false"


def scenario(queue: str) -> Scenario:
    """A flow alone on a path, and on another one of IPv6 a transfer over three streams."""
    return parse(f"""
perhop: 1
name: quic
nodes: {{a: host, r: router, b: host, c: host, d: host}}
links:
  - {{ends: [a, r], rate: 1 Gbps, delay: 1 us}}
  - {{ends: [r, b], rate: 10 Mbps, delay: 19999 us, queue: {{limit: 60 kB}}}}
  - {{ends: [c, r], rate: 1 Gbps, delay: 1 us}}
  - {{ends: [r, d], rate: 10 Mbps, delay: 9999 us, queue: {queue}}}
flows:
  alone: {{from: a, to: b, dscp: ef, quic: {{{SETTINGS}}}}}
  file: {{from: c, to: d, ip: 6, dscp: af41, volume: 1500 kB,
    quic: {{{SETTINGS}, streams: 3, ecn: true}}}}
duration: 2500 ms
""")


def measured(dataset: Dataset, metric: str, target: str) -> float:
    value = analysis.measure(dataset, metric, target)
    assert value is not None, metric
    return value


@MEASURES
@pytest.mark.parametrize(
    ("engine", "queue"), [("emu", "{codel: {ecn: true}}"), ("kernel", "{limit: 60 kB}")]
)
def test_flows_get_what_modelled_ones_get(engine: str, queue: str) -> None:
    made = scenario(queue)
    try:
        real = perhop.run(made, engine=engine)
    except UnsupportedError as error:
        unable(error)
    modelled = perhop.run(made)
    for metric in ("throughput", "srtt_median"):
        expected = measured(modelled, metric, "alone")
        assert measured(real, metric, "alone") == pytest.approx(expected, rel=0.1), metric
    rows, model = (
        {name: rows.filter(rows["flow"] == name) for name in made.flows}
        for rows in (real.intervals, modelled.intervals)
    )
    took, expected = (each["file"]["completion_s"].max() for each in (rows, model))
    assert took == pytest.approx(expected, rel=0.1)
    assert rows["file"]["bytes"].sum() == 1_500_000
    # Every second packet is acknowledged, and those at a gap (RFC 9000, section 13.2).
    for kept in rows.values():
        assert 0.45 < kept["acks"].sum() / kept["packets"].sum() < 0.75
        assert kept["reordered"].is_null().all()  # quinn does not tell
    # The slow start of a flow alone ends with losses, which are repaired.
    assert rows["alone"]["retransmits"].sum() > 10
    fields = {
        (row["flow"], row["node"], row["dscp_arrived"], row["ecn_arrived"])
        for row in real.codepoints.iter_rows(named=True)
    }
    expected_fields = {("alone", "b", 46, 0), ("alone", "a", 46, 0)}
    expected_fields |= {("file", "d", 34, 2), ("file", "c", 34, 0)}
    if engine == "emu":
        # CoDel marks instead of dropping.
        expected_fields.add(("file", "d", 34, 3))
        assert rows["file"]["marked"].sum() > 0 == rows["file"]["lost"].sum()
    assert fields == expected_fields
    assert real.manifest.counters["unknown_senders"] == 0
