"""Calls and games: what they send, how calls are played, and how they are rated."""

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

import pytest

import perhop
from conftest import MEASURES, SLOW, Outcome
from datasets import dataset
from perhop import Dataset, Scenario, analysis, report
from perhop.analysis.emodel import Parameters, mos, rating
from perhop.engines.live import gaps
from perhop.errors import UnsupportedError
from perhop.scenario import parse, to_mapping
from perhop.scenario.model.codecs import CODECS
from perhop.scenario.model.voice import CodecName
from tools import unable

KEY = "perhop-ed25519 AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="

LINE = """
perhop: 1
name: line
nodes: {a: host, r1: router, r2: router, b: host}
links:
  - {ends: [a, r1], rate: 1 Gbps}
  - {ends: [r1, r2], rate: 2 Mbps, delay: 10 ms, queue: {limit: 64 packets}}
  - {ends: [r2, b], rate: 1 Gbps}
flows:
  call: {from: a, to: b, voice: VOICE, stop: 10 s}
report: {interval: 500 ms}
"""


def line(voice: str = "g711", **changes: str) -> Scenario:
    text = LINE.replace("VOICE", voice)
    for old, new in changes.items():
        text = text.replace({"link": "delay: 10 ms", "stop": "stop: 10 s"}[old], new)
    return parse(text, "line.yaml")


def only(found: Dataset, flow: str = "call") -> analysis.Call:
    (call,) = analysis.calls(found, flow)
    return call


# RFC 3551: octets of coded speech in usual packets; the packets of a second.
@pytest.mark.parametrize(
    ("voice", "octets", "a_second"),
    [
        ("g711", 160, 50),
        ("g711-plc", 160, 50),
        ("{codec: g711, ptime: 30 ms}", 240, 100 / 3),
        ("g729a", 20, 50),
        ("g723.1", 24, 100 / 3),
        ("gsm-efr", 31, 50),
        ("opus", 60, 50),
        ("{codec: opus, rate: 32 kbps, ptime: 10 ms}", 40, 100),
    ],
)
def test_codecs_send_their_packets(voice: str, octets: int, a_second: float) -> None:
    found = perhop.run(line(voice))
    sums = found.intervals.select("bytes", "packets").sum().row(0, named=True)
    assert sums["bytes"] == sums["packets"] * (octets + 12)
    assert sums["packets"] == pytest.approx(10 * a_second, abs=1)


def test_an_undisturbed_call_has_the_delay_of_its_parts() -> None:
    found = perhop.run(line("g729a"))
    call = only(found)
    assert (call.lost, call.late, call.burst_ratio) == (0, 0, 1)
    # 20 ms of speech, 5 ms of look-ahead, 10 ms of the link; 60 B at 2 Mb/s, and twice at 1 Gb/s.
    assert call.mouth_to_ear_s == pytest.approx(0.035 + 480 / 2e6 + 960 / 1e9, abs=2e-6)
    assert call.r_factor == pytest.approx(
        rating(Parameters.of_delay(call.mouth_to_ear_s, Ie=11, Bpl=19))
    )
    assert call.mos == mos(call.r_factor)


def test_a_fixed_buffer_adds_its_time() -> None:
    adaptive = only(perhop.run(line("g711")))
    fixed = only(perhop.run(line("{codec: g711, jitter_buffer: {fixed: 60 ms}}")))
    assert adaptive.mouth_to_ear_s is not None
    assert fixed.mouth_to_ear_s == pytest.approx(adaptive.mouth_to_ear_s + 0.06, abs=1e-6)


def test_random_losses_are_the_calls_losses() -> None:
    lossy = line("g711-plc", link="delay: 10 ms, loss: 5%", stop="stop: 200 s")
    call = only(perhop.run(lossy))
    # 10,000 packets: three standard deviations of the share are 0.65%, of the burst ratio 9%.
    assert call.lost == pytest.approx(0.05, abs=0.0066)
    assert call.late == 0
    assert call.burst_ratio == pytest.approx(1, abs=0.1)
    assert call.r_factor == pytest.approx(
        rating(
            Parameters.of_delay(
                call.mouth_to_ear_s or 0, Ppl=100 * call.lost, BurstR=call.burst_ratio, Bpl=25.1
            )
        )
    )


def test_jitter_beyond_a_fixed_buffer_is_late() -> None:
    voice = "{codec: g711, jitter_buffer: {fixed: 10 ms}}"
    found = only(perhop.run(line(voice, link="delay: 10 ms, jitter: 100 ms")))
    assert found.lost == 0
    assert found.late > 0.2
    better = only(perhop.run(line("g711", link="delay: 10 ms, jitter: 100 ms")))
    assert better.late < found.late / 4


def test_silence_is_not_sent() -> None:
    suppressed = line("{codec: g711, silence_suppression: true}", stop="stop: 300 s")
    found = perhop.run(suppressed)
    packets = found.intervals["packets"].sum()
    # ITU-T P.59: 1.004 s of 2.591 s. Some 116 spurts and pauses: 18% is two standard deviations.
    assert packets / (300 * 50) == pytest.approx(1.004 / 2.591, rel=0.18)
    assert only(found).packets == pytest.approx(packets, abs=5)


def test_calls_that_start_together_do_not_send_together() -> None:
    text = LINE.replace("VOICE", "g711").replace("stop: 10 s", "stop: 10 s, streams: 5")
    found = perhop.run(parse(text, "line.yaml"))
    calls = analysis.calls(found, "call")
    assert [call.number for call in calls] == [0, 1, 2, 3, 4]
    # Five packets at once would wait for each other: 200 B at 2 Mb/s are 0.8 ms.
    least = min(call.mouth_to_ear_s or 0 for call in calls)
    assert sum((call.mouth_to_ear_s or 0) - least < 0.0008 for call in calls) >= 3


def test_rows_of_windows_add_up() -> None:
    found = perhop.run(line(link="delay: 10 ms, loss: 3%, jitter: 30 ms"))
    whole = only(found)
    parts = [analysis.calls(found, "call", window)[0] for window in pairwise((0.0, 4.0, 10.0))]
    assert sum(part.packets for part in parts) == whole.packets
    assert sum(part.packets * part.lost for part in parts) == pytest.approx(
        whole.packets * whole.lost, abs=1.001
    )


def test_an_outage_is_heard() -> None:
    text = LINE.replace("VOICE", "g711") + (
        "changes:\n  - {at: 4 s, on: r1>r2, state: down}\n  - {at: 6 s, on: r1>r2, state: up}\n"
    )
    found = perhop.run(parse(text, "line.yaml"))
    (silent,) = analysis.calls(found, "call", (4.5, 5.5))
    assert (silent.lost, silent.mos, silent.mouth_to_ear_s) == (1, 1, None)
    assert only(found).lost == pytest.approx(0.2, abs=0.01)


CALLS = line("g711-plc", stop="stop: 10 s, streams: 3")


def rows(*each: tuple[int, int, int, int, float]) -> list[dict[str, Any]]:
    """A row for each call: packets, played, late, bursts, delay."""
    names = ("packets", "played", "late", "bursts", "delay_s")
    return [
        {"flow": "call", "stream": number, "start_s": 0.0, "end_s": 0.5}
        | dict(zip(names, values, strict=True))
        for number, values in enumerate(each)
    ]


def test_metrics_are_the_mean_and_the_worst_call() -> None:
    good, bad, dead = (100, 100, 0, 0, 5.0), (100, 80, 12, 5, 16.0), (100, 0, 0, 1, 0.0)
    found = dataset(CALLS, calls=rows(good, bad, dead))
    calls = analysis.calls(found, "call")
    # 23.75 ms of packetisation and look-ahead; a mean of 50 and 200 ms in network and buffer.
    assert [call.mouth_to_ear_s for call in calls] == [
        pytest.approx(0.07375),
        pytest.approx(0.22375),
        None,
    ]
    assert [(call.lost, call.late) for call in calls] == [(0, 0), (0.08, 0.12), (1, 0)]
    assert calls[1].burst_ratio == pytest.approx(20 / 5 * 0.8)
    scores = [mos(call.r_factor) for call in calls[:2] if call.r_factor is not None]
    assert analysis.measure(found, "mos", "call") == pytest.approx((sum(scores) + 1) / 3)
    assert analysis.measure(found, "mos_worst", "call") == 1
    assert analysis.measure(found, "r_factor_worst", "call") == calls[1].r_factor
    assert analysis.measure(found, "mouth_to_ear", "call") == pytest.approx(0.14875)
    assert analysis.measure(found, "mouth_to_ear_worst", "call") == pytest.approx(0.22375)
    assert analysis.measure(found, "late", "call") == pytest.approx(0.04)
    assert analysis.measure(found, "late_worst", "call") == pytest.approx(0.12)
    (told,) = [analysis.summary(found)["flows"]["call"]["calls"]]
    assert told["mos"]["worst"] == 1
    assert told["mos"]["median"] == min(scores)
    assert [each["number"] for each in told["each"]] == [0, 1, 2]


def test_a_codec_without_impairment_factors_has_no_score() -> None:
    found = perhop.run(line("opus"))
    assert (only(found).mos, only(found).r_factor) == (None, None)
    assert only(found).mouth_to_ear_s == pytest.approx(0.0365 + 100 * 8 / 2e6, abs=1e-5)
    table = report.call_table(found)
    assert table is not None
    assert "no impairment factors" in table.note
    given = only(perhop.run(line("{codec: opus, ie: 7, bpl: 15}")))
    assert given.r_factor == pytest.approx(
        rating(Parameters.of_delay(given.mouth_to_ear_s or 0, Ie=7, Bpl=15))
    )


def test_expectations_have_the_score(perhop: Callable[..., Outcome], tmp_path: Path) -> None:
    text = LINE.replace("VOICE", "g729a") + (
        "expect:\n  - {mos_worst: call, at_least: 4}\n  - {mos: call, at_most: 3.5}\n"
        "  - {mouth_to_ear: call, during: 2 s..4 s, at_most: 50 ms}\n"
    )
    (tmp_path / "line.yaml").write_text(text, "utf-8")
    outcome = perhop("run", str(tmp_path / "line.yaml"), "--json")
    judged = json.loads(outcome.out)["expect"]
    assert [each["ok"] for each in judged] == [True, False, True]
    assert judged[0]["text"] == "MOS of the worst call of call is at least 4"


@SLOW
def test_the_page_has_the_scores_over_time() -> None:
    found = perhop.run(line("g711", link="delay: 10 ms, loss: 2%"))
    page = report.page(found)
    assert 'id="mos"' in page
    assert "<h2>Calls</h2>" in page
    none = parse(LINE.replace("voice: VOICE", "udp: {rate: 1 Mbps}"), "line.yaml")
    page = report.page(perhop.run(none))
    assert 'id="mos"' not in page
    assert "<h2>Calls</h2>" not in page


def test_live_hosts_refuse_calls() -> None:
    agents = {name: {"address": f"{name}.example.net", "key": KEY} for name in "ab"}
    given = parse(json.dumps(to_mapping(line()) | {"agents": agents}), "line.yaml")
    assert any(gap.path == "flows.call.voice" for gap in gaps(given))


# The model of 3GPP and NGMN: means of largest extreme values, the location plus 0.5772 scales.
@pytest.mark.parametrize(
    ("preset", "size", "gap"),
    [("fps-server", 120 + 0.5772 * 36 - 0.5, 0.055 + 0.5772 * 0.006), ("fps-client", 47.8, 0.04)],
)
def test_games_send_by_their_model(preset: str, size: float, gap: float) -> None:
    text = LINE.replace("voice: VOICE", f"game: {preset}").replace("stop: 10 s", "stop: 200 s")
    found = perhop.run(parse(text, "game.yaml"))
    sums = found.intervals.select("bytes", "packets").sum().row(0, named=True)
    assert sums["packets"] == pytest.approx(200 / gap, rel=0.01)
    assert sums["bytes"] / sums["packets"] == pytest.approx(size, rel=0.05)
    assert found.calls.is_empty()


def test_every_codec_has_a_preset() -> None:
    assert set(get_args(CodecName)) == set(CODECS)


@MEASURES
def test_real_hosts_hear_what_modelled_ones_hear() -> None:
    """In `sim` and in `emu`, a backup disturbs calls alike."""
    text = """
perhop: 1
name: beside
nodes: {a: host, r1: router, r2: router, b: host}
links:
  - {ends: [a, r1], rate: 1 Gbps}
  - {ends: [r1, r2], rate: 2 Mbps, delay: 10 ms, jitter: 20 ms, loss: 2%}
  - {ends: [r2, b], rate: 1 Gbps}
flows:
  calls: {from: a, to: b, voice: g711-plc, streams: 6}
  load: {from: a, to: b, udp: {rate: 1200 kbps, size: 1400 B, pattern: poisson}}
duration: 4 s
"""
    scenario = parse(text, "beside.yaml")
    modelled = perhop.run(scenario)
    try:
        real = perhop.run(scenario, engine="emu")
    except UnsupportedError as error:
        unable(error)
    compared = analysis.agreement(analysis.compare([modelled, real]))
    calls = {each.name: each for each in compared if each.kind == "call"}
    assert set(calls) == {"calls, MOS", "calls, mouth to ear"}
    assert all(each.ok for each in calls.values()), calls
