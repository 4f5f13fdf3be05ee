"""Rates of links that follow a trace."""

import random
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

import perhop as library
from conftest import MEASURES, Outcome
from perhop import analysis
from perhop.dataset import Dataset
from perhop.errors import ScenarioError, UnsupportedError
from perhop.scenario import Scenario, dump, load, parse
from perhop.scenario.model.trace import Trace
from perhop.scenario.reading.trace import read_trace
from tools import need

SATURATED = """\
perhop: 1
name: traced
nodes: {{a: host, r: router, b: host}}
links:
  - {{ends: [a, r], rate: 1 Gbps}}
  - {{ends: [r, b], rate: 4 Mbps, delay: 10 ms, trace: {trace}, queue: {{limit: 20 packets}}}}
flows:
  one: {{from: a, to: b, udp: {{rate: 60 Mbps, size: 1472 B}}, stop: {stop}}}
report: {{interval: 100 ms}}
"""


def opportunities(seed: int = 1, last: int = 900) -> list[int]:
    """Times in milliseconds, with outages and several at once."""
    draw = random.Random(seed)
    times, now = [], 0
    while now < last:
        now += draw.choice([0, 0, 1, 1, 1, 2, 3, 5, 40])
        times.append(now)
    return times


def saturated(trace: str, folder: Path, stop: str = "3 s") -> Scenario:
    path = folder / "traced.yaml"
    path.write_text(SATURATED.format(trace=trace, stop=stop))
    return load(path)


def received(run: Dataset) -> list[int]:
    """The packets that arrive in each interval."""
    rows = run.intervals.filter(pl.col("flow") == "one").sort("end_s")
    return rows["packets"].to_list()


def test_each_opportunity_of_mahimahi_takes_a_packet(tmp_path: Path) -> None:
    times = opportunities()
    (tmp_path / "lte.trace").write_text("".join(f"{time}\n" for time in times))
    run = library.run(saturated("{r: lte.trace}", tmp_path))
    period = times[-1]
    for number, packets in enumerate(received(run)):
        # Ten milliseconds later, when packets arrive; the first is sent after it has come to r.
        low, high = 100 * number - 10, 100 * number + 90
        offered = sum(
            low < cycle * period + time <= high and cycle * period + time > 0
            for cycle in range(5)
            for time in times
        )
        assert abs(packets - offered) <= 1, number
    offered = run.links.filter(pl.col("link") == "r>b")["utilisation"]
    assert offered.min() > 0.9  # type: ignore[operator]
    assert offered.max() <= 1  # type: ignore[operator]


def test_opportunities_without_packets_are_lost(tmp_path: Path) -> None:
    (tmp_path / "slow.trace").write_text("100\n100\n100\n")
    scenario = parse(
        """\
perhop: 1
name: sparse
nodes: {a: host, b: host}
links: [{ends: [a, b], rate: 1 Mbps, trace: {opportunities: 100x3}}]
flows:
  one: {from: a, to: b, stop: 2 s, udp: {replay: {packets: 50 ms 1472 B; 210 ms 972 B; 0 s 972 B;
    0 s 972 B; 0 s 972 B}}}
duration: 2 s
report: {interval: 100 ms}
"""
    )
    assert read_trace("slow.trace", tmp_path) == {"opportunities": "100x3"}
    run = library.run(scenario)
    arrived = [
        (round(row["end_s"], 3), row["packets"])
        for row in run.intervals.iter_rows(named=True)
        if row["packets"]
    ]
    # One packet at 100 ms, although three fit. Four of 1000 B at 300 ms: 4500 B are offered.
    assert arrived == [(0.1, 1), (0.3, 4)]


def test_rates_delays_and_losses_of_a_csv_file(tmp_path: Path) -> None:
    (tmp_path / "wave.csv").write_text(
        "# from a drive\ntime_s,rate_bps,delay_s,loss\n"
        "0,3000000,0.01,0\n0.5,0,0.01,0\n0.7,12000000,0.03,0.2\n1.0,1,0,0\n"
    )
    run = library.run(saturated("{r: {file: wave.csv, repeat: true}}", tmp_path, "10 s"))
    rows = run.links.filter(pl.col("link") == "r>b")
    for cycle in range(10):
        for start, end, rate, loss in ((0, 0.5, 3e6, 0), (0.5, 0.7, 0, 0), (0.7, 1, 12e6, 0.2)):
            within = rows.filter(
                (pl.col("start_s") >= cycle + start - 1e-9)
                & (pl.col("end_s") <= cycle + end + 1e-9)
            )
            assert within["sent_bytes"].sum() * 8 == pytest.approx(
                rate * (end - start), abs=2 * 12_000
            )
            sent, lost = within["sent_packets"].sum(), within["lost_packets"].sum()
            assert lost == pytest.approx(loss * sent, abs=1 + 5 * (loss * (1 - loss) * sent) ** 0.5)
    # A queue of 20 packets at 3 and 12 Mb/s, and the outage; then 10 and 30 ms.
    delays = run.intervals.filter(pl.col("flow") == "one")
    assert delays["owd_min_s"].min() == pytest.approx(0.01 + 0.004, abs=0.001)
    assert analysis.loss(run, "one") > 0.5  # type: ignore[operator]


def test_a_trace_in_both_directions_and_as_text(tmp_path: Path) -> None:
    (tmp_path / "lte.trace").write_text("3\n5\n5\n")
    scenario = saturated("lte.trace", tmp_path)
    traces = scenario.links[1].trace
    assert list(traces) == ["r", "b"]
    assert traces["r"] == traces["b"] == Trace(opportunities="3 2x2")  # type: ignore[arg-type]
    again = parse(dump(scenario))
    assert again.links == scenario.links
    assert traces["r"].mean_rate == 3 * 12_000 * 1000 / 5
    steps = Trace(steps="0 s 5 Mbps delay 20 ms loss 1%; 2 s 1 Mbps delay 1 ms loss 0%")  # type: ignore[arg-type]
    assert Trace.model_validate(steps.model_dump(mode="json", exclude_defaults=True)) == steps
    assert [steps.sets(key) for key in ("rate", "delay", "jitter", "loss")] == [1, 1, 0, 1]


def test_a_repeating_trace_has_a_rate() -> None:
    """By hand: 6 and 2 Mb/s for one and three seconds; two opportunities of 12 kbit in 4 ms."""
    text = SATURATED.replace(", rate: 4 Mbps", "").replace("queue:", "egress: {{r: half}}, queue:")
    text += "policies: {{half: {{classes: {{slow: {{match: any, shape: {{rate: 50%}}}}}}}}}}\n"
    down, up = "{steps: 0 s 6 Mbps; 1 s 2 Mbps; 4 s 1 bps, repeat: true}", "{opportunities: 1 3}"
    whole = parse(text.format(trace=f"{{r: {down}, b: {up}}}", stop="8 s"))
    assert whole.links[1].rate == {"r": 3_000_000, "b": 6_000_000}
    assert whole.links[0].rate == 1_000_000_000
    assert parse(dump(whole)) == whole
    packets = received(library.run(whole))
    # Half of the mean is below both steps.
    assert sum(packets[10:]) * 1500 * 8 / 7 == pytest.approx(1.5e6, rel=0.01)
    assert parse(text.format(trace=up, stop="8 s")).links[1].rate == 6_000_000


def test_a_mean_far_from_the_rate_is_a_warning(tmp_path: Path) -> None:
    run = library.run(saturated("{r: {opportunities: 30}}", tmp_path, "200 ms"))
    assert any("has a mean of 400 kbps" in str(warning) for warning in run.manifest.warnings)


def test_numbers_of_a_csv_file_are_written_as_programs_write_them(tmp_path: Path) -> None:
    (tmp_path / "drive.csv").write_text(
        "time_s,rate_bps,delay_s,loss\n"
        "0.0,5e6,1e-05,1.5E-3\n5e-1,5000000.0,.25,0\n1.5e0,+1.5e+6,2.,0.0\n20,0e0,0,9e-9\n30,1,0,0\n"
    )
    assert read_trace("drive.csv", tmp_path) == {
        "steps": "0 s 5 Mbps delay 10 us loss 0.15%; 500 ms 5 Mbps delay 250 ms loss 0%; "
        "1.5 s 1.5 Mbps delay 2 s loss 0%; 20 s 0 bps delay 0 s loss 0.0000009%; "
        "30 s 1 bps delay 0 s loss 0%"
    }


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is not a header line; expected `time_s,rate_bps[,delay_s][,jitter_s][,loss]`"),
        ("5\n3\n", "lte.trace:2: `3` is before the time above it"),
        ("5\nx\n", "lte.trace:2: `x` is not a time in whole milliseconds"),
        ("0\n0\n", "has no opportunity after 0 ms"),
        ("99999999999\n", "lte.trace:1: `99999999999` is not a time"),
        ("time_s,rate_bps\n", "begins after 0 s"),
        ("time_s,rate_bps\n1,5\n", "begins after 0 s"),
        ("time_s,rate_bps\n0,5\n0,6\n", "`0 s` is not after the time of the step before"),
        ("time_s,rate_bps\n0,1e-1\n", "lte.trace:2: `1e-1` is not a rate in whole bits per second"),
        ("time_s,rate_bps\n0,-5e6\n", "lte.trace:2: `-5e6` is not a rate"),
        ("time_s,rate_bps\n0,1e15\n", "lte.trace:2: `1e15` is not a rate"),
        ("time_s,rate_bps\n0,1e999999999\n", "lte.trace:2: `1e999999999` is not a rate"),
        ("time_s,rate_bps\n0,nan\n", "lte.trace:2: `nan` is not a rate"),
        ("time_s,rate_bps\n0,5 Mbps\n", "lte.trace:2: `5 Mbps` is not a rate"),
        ("time_s,rate_bps\n0,5e6\n1e-13,5e6\n", "lte.trace:3: `1e-13` is not a number of seconds"),
        ("time_s,rate_bps,loss\n0,5,1e-10\n", "lte.trace:2: `1e-10` is not a loss"),
        ("time_s,rate_bps\n0,5,6\n", "lte.trace:2: has 3 columns; expected 2"),
        ("time_s,rate_bps,loss\n0,5,1\n", "lte.trace:2: `1` is not a loss"),
        ("time_s,rate_bps\n0,5\n1,0\n", "ends with a rate of zero"),
        ("time_s,size_bytes\n0,5\n", "is not a header line"),
        ("\xff", "is not UTF-8"),
    ],
)
def test_a_malformed_file_is_refused(content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "lte.trace").write_bytes(content.encode("latin-1"))
    with pytest.raises(ScenarioError) as caught:
        saturated("{r: lte.trace}", tmp_path)
    assert message in str(caught.value)
    assert "traced.yaml:6:" in str(caught.value)


def test_files_lie_beside_the_scenario(tmp_path: Path) -> None:
    for name, message in (
        ("../lte.trace", "is outside the scenario's folder"),
        ("/etc/passwd", "is outside the scenario's folder"),
        ("missing.trace", "`missing.trace`"),
    ):
        with pytest.raises(ScenarioError, match=message):
            saturated(name, tmp_path)


def test_what_follows_a_trace_cannot_change(tmp_path: Path) -> None:
    (tmp_path / "lte.trace").write_text("3\n")
    text = SATURATED.format(trace="{r: lte.trace}", stop="1 s")
    path = tmp_path / "traced.yaml"
    path.write_text(text + "changes: [{at: 500 ms, on: r>b, rate: 1 Mbps}]\n")
    with pytest.raises(ScenarioError, match=r"changes\.0\.rate: `r>b` has a trace of its rate"):
        load(path)
    path.write_text(text + "changes: [{at: 500 ms, on: r>b, delay: 1 ms}]\n")
    load(path)


def test_the_kernel_engine_refuses_a_trace(
    perhop: Callable[..., Outcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need("ip", "tc", "nft")
    (tmp_path / "lte.trace").write_text("3\n")
    saturated("lte.trace", tmp_path)
    monkeypatch.chdir(tmp_path)
    done = perhop("run", "traced.yaml", "--engine", "kernel")
    assert done.code == UnsupportedError.exit_code
    assert "links.1.trace" in done.err or "namespaces" in done.err


@MEASURES
def test_emulated_links_follow_a_trace(tmp_path: Path) -> None:
    times = opportunities(2)
    (tmp_path / "lte.trace").write_text("".join(f"{time}\n" for time in times))
    run = library.run(saturated("{r: lte.trace}", tmp_path, "2 s"), engine="emu")
    sent = run.links.filter((pl.col("link") == "r>b") & (pl.col("start_s") >= 0.2))
    period = times[-1]
    offered = sum(200 < cycle * period + time <= 2000 for cycle in range(4) for time in times)
    assert sent.filter(pl.col("end_s") <= 2)["sent_packets"].sum() == pytest.approx(offered, abs=2)
