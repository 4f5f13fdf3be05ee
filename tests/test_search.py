"""Searches for thresholds: what theory says of them, the fewest runs, and what may go wrong."""

import json
from collections.abc import Callable
from itertools import pairwise
from math import ceil, log2
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import DEADLINES, SLOW, Outcome
from perhop import ensembles
from perhop.errors import ScenarioError, UsageError
from perhop.search import Trial, find, parse_condition, parse_values
from perhop.search.thresholds import FIRST, _Question

Perhop = Callable[..., Outcome]

SMALL = """\
perhop: 1
name: small
nodes: {a: host, r: router, b: host}
links:
  - {ends: [a, r], rate: 10 Mbps, delay: 1 ms}
  - {ends: [r, b], rate: 10 Mbps, delay: 1 ms}
flows:
  data: {from: a, to: b, udp: {rate: 1 Mbps, size: 972 B}, stop: 1 s}
pings:
  probe: {from: a, to: b, every: 100 ms}
"""
NO_ECHO = ("pings.probe.start=0.99 s", "links.1.delay=1 s")
RANDOM = SMALL.replace("stop: 1 s", "stop: 200 ms").replace("rate: 1 Mbps", "rate: 5 Mbps")


@pytest.fixture
def small(place: Path) -> str:
    path = place / "small.yaml"
    path.write_text(SMALL)
    return str(path)


# Values


@given(st.integers(1, 10**12), st.integers(2, 10**6), st.booleans())
def test_values_go_from_end_to_end_in_small_steps(low: int, ratio: int, falls: bool) -> None:
    ends = low, min(low * ratio, 2**60)
    between = "..".join(f"{end} bps" for end in (reversed(ends) if falls else ends))
    steps = list(parse_values(between).steps)
    rising = steps[::-1] if falls else steps
    assert (rising[0], rising[-1]) == ends
    assert all(one < other <= max(one * 1.025, one + 1) for one, other in pairwise(rising))


@pytest.mark.parametrize(
    ("between", "step", "shown"),
    [
        ("1..4", None, ["1", "2", "3", "4"]),
        ("8..1", "3", ["8", "5", "2"]),
        ("4..1", None, ["4", "3", "2", "1"]),
        ("1..100", "x3", ["1", "3", "9", "27", "81", "100"]),
        ("0.5..2", "0.5", ["0.5", "1", "1.5", "2"]),
        ("0%..1%", "0.5%", ["0%", "0.5%", "1%"]),
        ("1 ms..4 ms", "x2", ["1 ms", "2 ms", "4 ms"]),
        ("1 packets..3 packets", None, ["1 packet", "2 packets", "3 packets"]),
        ("1500 B..3 kB", "x2", ["1500 B", "3 kB"]),
    ],
)
def test_values_are_written_as_scenarios_have_them(
    between: str, step: str | None, shown: list[str]
) -> None:
    values = parse_values(between, step)
    assert [values.text(index) for index in range(len(values))] == shown


@pytest.mark.parametrize(
    ("between", "step", "said"),
    [
        ("1..20 Mbps", None, "expected two values of one kind"),
        ("5", None, "expected two values of one kind"),
        ("5..5", None, "the ends are equal"),
        ("1..8", "x1", "expected a ratio above 1"),
        ("1..8", "xy", "expected a ratio above 1"),
        ("0..8", "x2", "a range with zero has no ratio"),
        ("1..8", "0", "is zero"),
        ("1..8", "9", "is more than the range 1..8"),
        ("1 ms..8 ms", "1 Mbps", "is not a unit of a duration"),
        ("1 ps..100 h", "x1.0000001", "expected at most 100,000"),
    ],
)
def test_wrong_ranges_are_refused(between: str, step: str | None, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parse_values(between, step)


# The search, apart from runs


def search(states: Callable[[int], bool | None], count: int) -> tuple[_Question, dict[int, Trial]]:
    """Search among `count` values, of which the condition holds as `states` says."""
    plain = parse_values(f"1..{count}")
    condition = parse_condition("loss(data) > 1%")
    asked = _Question("qbss-1-70", "a", plain, condition, True, (), "sim", 1)
    trials: dict[int, Trial] = {}
    wanted = asked.spread
    while wanted:
        assert not trials.keys() & set(wanted)
        trials |= {at: Trial(str(at), at, states(at), None, None, None, 1) for at in wanted}
        wanted = asked.next(trials)
    return asked, trials


@given(st.integers(2, 10**6), st.data())
def test_the_change_is_found_in_few_runs(count: int, data: st.DataObject) -> None:
    last = data.draw(st.integers(-1, count - 1))
    first = data.draw(st.integers(last + 1, min(count, last + 1000)))

    def holds(index: int) -> bool | None:
        return False if index <= last else None if index < first else True

    asked, trials = search(holds, count)
    assert asked.edges(trials) == (None if last < 0 else last, None if first == count else first)
    assert len(trials) <= FIRST + 2 * ceil(log2(count) + 1)


def test_the_first_of_several_changes_is_found_and_others_are_told() -> None:
    asked, trials = search(lambda at: 30 <= at < 60 or at >= 90, 101)
    assert asked.edges(trials) == (29, 30)
    found = asked.answer(trials, "share")
    assert [trial.number for trial in found.back] == [62, 75, 88]


# Searches


def test_the_threshold_is_that_of_arithmetic(small: str) -> None:
    # 1000 bytes of IP for 972 of payload: n streams take n * 1.0288 Mb/s of 10 Mb/s.
    condition = "utilisation(r>b, during: 0.2 s..1 s) > 60%"
    found = find(small, "flows.data.streams", "1..9", condition)
    assert (found.found, found.back, found.undecided) == (True, (), ())
    assert found.last is not None
    assert found.first is not None
    assert (found.last.value, found.first.value) == ("5", "6")
    assert found.first.median == pytest.approx(0.6173, rel=0.02)
    assert found.unit == "share"
    # The same key as a rate, falling, and the opposite condition.
    rate = find(small, "links.1.rate", "20 Mbps..1 Mbps", condition, step="x1.05")
    assert rate.first is not None
    assert 1e6 * 1.0288 / 0.6 / 1.05 < rate.first.number <= 1e6 * 1.0288 / 0.6
    opposite = find(
        small,
        "flows.data.streams",
        "1..9",
        condition.replace(">", "<=").replace("r<=b", "r>b"),
        until=False,
    )
    assert (opposite.last, opposite.first) != (None, None)
    assert opposite.last is not None
    assert opposite.last.value == "5"


@DEADLINES
@SLOW
def test_the_result_does_not_depend_on_how_many_work(place: Path) -> None:
    path = place / "random.yaml"
    path.write_text(RANDOM)
    asked = (str(path), "links.1.loss", "0%..40%", "loss(data) > 20%")
    alone, together = (find(*asked, step="2%", seeds=6, jobs=jobs) for jobs in (1, 2))
    assert alone == together
    assert all(trial.runs == (6 if trial.number else 1) for trial in alone.tried)
    assert alone.found
    # With 130 packets a run, the interval of the median is some per cent wide.
    assert alone.last is not None
    assert alone.first is not None
    assert alone.last.number < 0.2 < alone.first.number
    assert all(alone.last.number < trial.number < alone.first.number for trial in alone.undecided)
    assert alone.undecided


def test_nothing_measured_is_undecided(small: str) -> None:
    found = find(small, "flows.data.streams", "1..2", "rtt_p99(probe) > 1 s", overrides=NO_ECHO)
    assert [trial.holds for trial in found.tried] == [None, None]
    assert not found.found


def test_every_value_is_checked_before_the_first_run(
    small: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ensembles, "make", pytest.fail)
    for path, between, condition, said in (
        ("links.1.rate", "1 Mbps..10 kbps", "loss(dta) > 1%", "`dta` is unknown; expected a flow"),
        ("flows.data.streams", "1..2000", "loss(data) > 1%", "out of range"),
        ("flows.data.udp.size", "1 B..100 kB", "loss(data) > 1%", "flows.data.udp.size=100 kB"),
        ("links.1.rate", "1 Mbps..2 Mbps", "loss(data) > 1 ms", "is not a unit of a share"),
        ("links.1.rate", "1 Mbps..2 Mbps", "losses(data) > 1%", "did you mean `loss`"),
        ("links.1.rate", "1 Mbps..2 Mbps", "loss(data)", "is not a condition; expected"),
        ("links.1.rate", "1 Mbps..2 Mbps", "loss() > 1%", "lacks a target"),
        ("links.1.rate", "1 Mbps..2 Mbps", "loss(data) >", "lacks a bound"),
        ("links.1.rate", "1 Mbps..2 Mbps", "loss(data, during 1) > 1%", "has 2 targets"),
        ("links.1.rate", "1 Mbps..2 Mbps", "loss(data, durin: 1 s..2 s) > 1%", "`during`"),
    ):
        with pytest.raises((ScenarioError, UsageError), match=said):
            find(small, path, between, condition)


def test_the_command_prints_what_was_tried_and_the_answer(perhop: Perhop, small: str) -> None:
    arguments = ("find", small, "flows.data.streams", "--between", "1..9")
    code, out, err = perhop(*arguments, "--until", "utilisation(r>b) > 60%")
    assert code == 0, err
    assert "utilisation(r>b) > 60% from flows.data.streams=6 on, not at 5" in out
    code, out, err = perhop(*arguments, "--while", "utilisation(r>b) <= 60%", "--json")
    assert code == 0, err
    found = json.loads(out)
    assert (found["last"]["value"], found["first"]["number"], found["until"]) == ("5", 6, False)
    assert [trial["holds"] for trial in found["tried"]] == [True] * 5 + [False] * 4
    code, out, _ = perhop(*arguments, "--until", "loss(data) > 50%", "--seeds", "6")
    assert code == 1
    assert "loss(data) > 50% holds at no value that was tried from 1 to 9" in out
    code, out, _ = perhop(*arguments, "--until", "loss(data) < 50%")
    assert (code, "holds already at 1" in out) == (1, True)
    code, _, err = perhop(*arguments)
    assert (code, "expected --until or --while" in err) == (2, True)
