"""Advice on policers: what the simulator says, and what theory does."""

import json
from collections.abc import Callable
from math import sqrt
from pathlib import Path

import pytest

from conftest import SLOW, Outcome
from perhop.advice import (
    PolicerAdvice,
    PolicerPoint,
    PolicerQuestion,
    advise_policer,
    congestion_controls,
    rules_of_thumb,
    sawtooth_burst,
    usual_interface,
)
from perhop.report.advice import advice_lines, advice_tables
from perhop.units import MILLISECOND, WHOLE

PERCENT = WHOLE // 100


def question(**changes: object) -> PolicerQuestion:
    values = {
        "rate": 10_000_000,
        "rtt": 50 * MILLISECOND,
        "controls": ("reno",),
        "streams": 1,
        "interface": 100_000_000,
        "goals": (90 * PERCENT, 95 * PERCENT),
    }
    return PolicerQuestion(**{**values, **changes})  # type: ignore[arg-type]


@SLOW
def test_reno_gets_what_its_sawtooth_leaves() -> None:
    """The share is that of a window between a half of its maximum and the maximum.

    With the burst B and the rate times the round-trip time R, in packets, the maximum is
    R + sqrt(2 (B - R)) if windows arrive at once, and R + sqrt(2 B) if packets are evenly spaced.
    """
    asked = question(rate=2_000_000, rtt=80 * MILLISECOND)
    advice = advise_policer(asked, jobs=1)
    packets = asked.product / 1500
    compared = 0
    for point in advice.of("reno"):
        spare = point.burst / 1500 - packets
        if spare < 0:
            continue  # a window does not fit into the bucket
        at_once, spaced = (
            min(1.0, 0.75 * (1 + sqrt(2 * spared) / packets)) for spared in (spare, spare + packets)
        )
        # Data lost during a recovery begins another, which the sawtooth leaves out.
        assert at_once - 0.04 < point.share < spaced + 0.02, point
        if spare > packets / 2:
            assert point.share == pytest.approx(at_once, abs=0.05), point
        compared += 1
    assert compared > 8
    whole = advice.share("reno", round(sawtooth_burst(asked)))
    assert whole == pytest.approx(1, abs=0.02)
    assert all(p.least - 1e-9 <= p.share <= p.most + 1e-9 for p in advice.points)
    assert any(point.least < point.most for point in advice.points)  # seeds mean something


def test_rules_are_what_their_sources_say() -> None:
    bursts = {rule.name: rule.burst for rule in rules_of_thumb(question())}
    assert bursts == {
        "rate x RTT": 62_500,
        "5 ms of the interface": 62_500,
        "sawtooth of Reno": round(1500 * (41.6667 + 41.6667**2 / 18)),
        "250 ms of the rate": 312_500,
        "1/10 of the rate": 1_000_000,  # 1 MB for 10 Mb/s, as ESnet's OSCARS had it
        "1.5 s of the rate": 1_875_000,
    }
    slow = rules_of_thumb(question(rate=100_000, rtt=MILLISECOND, interface=1_000_000))
    assert min(rule.burst for rule in slow) == 1500


def test_the_smallest_burst_has_no_worse_one_above() -> None:
    shares = {1500: 0.95, 3000: 0.5, 6000: 0.92, 12_000: 0.93, 24_000: 0.96}
    points = [PolicerPoint("reno", burst, s, s, s, 0.01) for burst, s in shares.items()]
    asked = question(goals=(90 * PERCENT, 95 * PERCENT, 99 * PERCENT))
    advice = PolicerAdvice(asked, points, (), 30, 1)
    found = [(each.burst, each.below) for each in advice.smallest]
    assert found == [(6000, 3000), (24_000, 12_000), (None, 24_000)]
    assert [advice.for_all(goal) for goal in asked.goals] == [6000, 24_000, None]
    lines = advice_lines(advice)
    assert lines[0].startswith("6.00 kB give Reno 90% of the rate or more: 4.80 ms of the rate")
    assert lines[2] == "No simulated burst gives Reno 99% of the rate."
    assert advice_tables(advice)[0].title.startswith("Smallest burst")


def test_a_question_that_has_no_answer_is_refused() -> None:
    for changes, words in (
        ({"interface": 10_000_000}, "do not limit an interface of 10 Mbps"),
        ({"rate": 1000, "interface": 10_000}, "is out of range; expected 100 kbps to 10 Gbps"),
        ({"rtt": 2 * 10**12}, "is out of range; expected 1 ms to 1 s"),
    ):
        with pytest.raises(ValueError, match=words):
            question(**changes)
    assert congestion_controls("cubic, bbr") == ("cubic", "bbr")
    with pytest.raises(ValueError, match="did you mean `cubic`"):
        congestion_controls("cubik")
    with pytest.raises(ValueError, match="is given twice"):
        congestion_controls("reno,reno")
    assert [usual_interface(rate) for rate in (10**6, 10**8, 10**10)] == [10**8, 10**9, 10**11]


@SLOW
def test_the_command_prints_an_object_and_writes_a_page(
    perhop: Callable[..., Outcome], tmp_path: Path
) -> None:
    folder = tmp_path / "advice"
    done = perhop(
        *("advise", "policer", "--rate", "500kbps", "--rtt", "60ms", "--cc", "cubic"),
        *("--jobs", "1", "--goal", "80%", "--json", "--out", str(folder)),
    )
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert (found["rate_bps"], found["rtt_s"], found["goals"]) == (500_000, 0.06, [0.8])
    by_burst = {point["burst_bytes"]: point["share"] for point in found["points"]}
    smallest = found["smallest"][0]
    assert by_burst[smallest["burst_bytes"]] >= 0.8 > by_burst[smallest["below_bytes"]]
    for rule in found["rules"]:
        assert rule["share"]["cubic"] == by_burst[rule["burst_bytes"]]
    page = (folder / "policer.html").read_text()
    assert "Rules of thumb" in page
    assert "1/10 of the rate" in page
    assert {Path(path).name for path in found["written"]} == {
        "policer.html",
        "policer.png",
        "policer.svg",
    }


def test_the_command_refuses_wrong_options(perhop: Callable[..., Outcome]) -> None:
    for options, words in (
        (("--rate", "10", "--rtt", "50ms"), "--rate: a rate needs a unit"),
        (("--rate", "10Mbps", "--rtt", "50ms", "--goal", "120%"), "--goal"),
        (("--rate", "10Mbps", "--rtt", "50ms", "--interface", "5Mbps"), "expected a faster"),
        (("--rate", "10Mbps", "--rtt", "50ms", "--cc", "vegas"), "is not a congestion control"),
    ):
        done = perhop("advise", "policer", *options)
        assert done.code == 2
        assert words in done.err
