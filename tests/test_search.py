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
from perhop.search.thresholds import FIRST, _Question, _Runner

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
FEW = ("flows.data.streams=5", "flows.data.udp.rate=10 kbps")
MANY = ("flows.data.streams=700", "flows.data.udp.rate=10 kbps")
POLICY = ("policies={p: {classes: {all: {match: any, bandwidth: 60%}}}}", "links.1.egress={r: p}")
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
    asked = _Question(plain, "qbss-1-70", "a", condition, True, (), "sim", 1)
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
    found = asked.answer(trials, _Runner("sim", None, None, None), "1..101")
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


# Ranges around the present value


@pytest.mark.parametrize(
    ("path", "condition", "between", "change"),
    [
        # n streams take n * 1.0288 Mb/s of 10 Mb/s.
        ("flows.data.streams", "utilisation(r>b, during: 0.2 s..1 s) > 60%", "4..8", "5 6"),
        ("flows.data.streams", "utilisation(r>b, during: 0.2 s..1 s) > 15%", "1..2", "1 2"),
        ("links.1.rate", "utilisation(r>b) > 60%", "2.5 Mbps..1.25 Mbps", None),
        ("links.r>b.rate", "utilisation(r>b) < 4%", "20 Mbps..40 Mbps", None),
        # It holds already, and not of higher rates.
        ("links.r>b.rate", "utilisation(r>b) > 4%", "40 Mbps..20 Mbps", None),
        # Both ways of two links of 10 Mb/s: 28 bytes of headers, 4 ms of delay.
        ("pings.probe.size", "rtt_median(probe) > 5 ms", "224 B..448 B", None),
    ],
)
def test_a_range_is_found_around_the_present_value(
    small: str, path: str, condition: str, between: str, change: str | None
) -> None:
    found = find(small, path, None, condition, seeds=1)
    assert (found.found, found.between) == (True, between)
    assert found.last is not None
    assert found.first is not None
    if change:
        assert f"{found.last.value} {found.first.value}" == change
    ends = between.split("..")
    assert [found.tried[0].value, found.tried[-1].value] == ends
    assert [trial.holds for trial in (found.last, found.first)] == [False, True]
    # Nothing beyond the change is tried.
    probes = [trial.value for trial in found.probes]
    assert found.present in probes
    assert {*ends} <= {*probes}
    given = find(small, path, between, condition, seeds=1)
    assert (given.last, given.first, given.tried) == (found.last, found.first, found.tried)
    assert (given.present, given.probes) == (None, ())


def test_a_range_ends_where_the_scenario_refuses_values(small: str) -> None:
    shares = find(small, "links.1.loss", None, "loss(data) > 100%", overrides=["links.1.loss=30%"])
    assert [trial.value for trial in shares.probes][-2:] == ["60%", "99.7%"]  # less than 100%
    policy = find(
        small, "policies.p.classes.all.bandwidth", None, "loss(data) > 100%", overrides=POLICY
    )
    assert [trial.value for trial in policy.probes][-2:] == ["60%", "100%"]
    large = ["flows.data.udp.size=1500 B"]
    most = find(small, "flows.data.udp.size", None, "loss(data) > 100%", overrides=large)
    assert 0.99 * 65_507 < most.probes[-1].number <= 65_507
    counts = find(small, "flows.data.streams", None, "loss(data) > 100%", overrides=MANY)
    assert [trial.value for trial in counts.probes][-3:] == ["350", "700", "1000"]
    odd = find(small, "flows.data.streams", None, "loss(data) > 100%", overrides=FEW)
    assert [trial.value for trial in odd.probes] == ["1", "2", *(str(5 << n) for n in range(7))]
    assert (odd.found, odd.between) == (False, "1..320")


def test_a_long_step_finds_the_range_itself(small: str) -> None:
    condition = "utilisation(r>b, during: 0.2 s..1 s) > 15%"
    found = find(small, "flows.data.streams", None, condition, step="x8")
    assert found.last is not None
    assert found.first is not None
    assert (found.last.value, found.first.value) == ("1", "2")


def test_a_range_needs_a_value_that_can_be_doubled(
    small: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ensembles, "make", pytest.fail)
    for path, condition, said in (
        ("links.1.loss", "loss(data) > 1%", "0% cannot be doubled; give --between"),
        ("links.1", "loss(data) > 1%", "is a mapping; expected the path of a single value"),
        ("links.9.rate", "loss(data) > 1%", "`9` is not an element; expected 0 to 1"),
        ("flows.dta.streams", "loss(data) > 1%", "did you mean `data`"),
        ("flows.data.from", "loss(data) > 1%", "`a` is no quantity"),
        ("flows.data.volume", "loss(data) > 1%", "the scenario does not set; give --between"),
        ("links.1.rate", "loss(dta) > 1%", "`dta` is unknown; expected a flow"),
        ("links.1.rate", "losses(data) > 1%", "did you mean `loss`"),
    ):
        with pytest.raises((ScenarioError, UsageError), match=said):
            find(small, path, None, condition)
    with pytest.raises(UsageError, match="is not a unit of a rate"):
        find(small, "links.1.rate", None, "loss(data) > 1%", step="1 ms")


def test_the_command_says_which_range_it_searched(perhop: Perhop, small: str) -> None:
    arguments = ("find", small, "flows.data.streams")
    code, out, err = perhop(*arguments, "--until", "utilisation(r>b) > 60%")
    assert code == 0, err
    said = "Range searched: 4 to 8, from flows.data.streams=1 doubled and halved: 1, 2, 4, 8"
    assert said in out
    code, out, _ = perhop(*arguments, "--until", "utilisation(r>b) > 60%", "--json")
    found = json.loads(out)
    assert (found["between"], found["present"], len(found["probes"])) == ("4..8", "1", 4)
    code, out, _ = perhop(*arguments, "--until", "rtt_p99(probe) > 1 h")
    assert code == 1
    assert "holds at no value that was tried from 1 to 64" in out
    assert "--between tries other values" in out
    code, out, _ = perhop(*arguments, "--until", "rtt_p99(probe) < 1 h")
    assert "holds at every value that was tried from 1 to 64" in out


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
