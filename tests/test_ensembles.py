"""Ensembles: samples, sensitivity indices and intervals against theory; verdicts that follow."""

import pickle
from dataclasses import replace
from functools import partial
from math import pi, sin
from pathlib import Path
from random import Random
from typing import Any

import pytest

from conftest import SLOW
from perhop import experiments
from perhop.analysis import Comparison, throughput
from perhop.dataset import Dataset
from perhop.errors import ScenarioError
from perhop.experiments import (
    Case,
    Experiment,
    Judged,
    Reproduction,
    Unknown,
    Value,
    ensemble,
    score,
)
from perhop.experiments.ensemble import Interval, interval, judge
from perhop.experiments.sampling import latin_hypercube
from perhop.experiments.sensitivity import first_order
from perhop.experiments.tables import choice_table, judged_table, unknown_table

# Samples


def test_each_stratum_of_each_dimension_has_one_point() -> None:
    points = latin_hypercube(50, 7, Random(3))
    for column in zip(*points, strict=True):
        assert sorted(int(50 * value) for value in column) == list(range(50))
        assert all(0 <= value < 1 for value in column)
    assert points == latin_hypercube(50, 7, Random(3))
    assert points != latin_hypercube(50, 7, Random(4))
    assert latin_hypercube(3, 0, Random(1)) == [(), (), ()]


def test_the_mean_of_a_sum_varies_less_than_that_of_independent_points() -> None:
    """McKay et al. (1979): of an additive function the variance goes as n^-3, not n^-1."""

    def spread(means: list[float]) -> float:
        middle = sum(means) / len(means)
        return sum((each - middle) ** 2 for each in means) / len(means)

    random = Random(1)
    hypercube = [sum(map(sum, latin_hypercube(40, 3, random))) / 40 for _ in range(200)]
    independent = [sum(random.random() for _ in range(120)) / 40 for _ in range(200)]
    assert spread(hypercube) < spread(independent) / 400


# Sensitivity


def of(function: Any, count: int, dimensions: int, seed: int = 1) -> Any:
    points = latin_hypercube(count, dimensions, Random(seed))
    columns = [list(column) for column in zip(*points, strict=True)]
    return first_order(columns, [function(*point) for point in points])


def test_indices_of_a_linear_function() -> None:
    """Of sum(a_i x_i), inputs uniform, an index is a_i^2 / sum(a^2)."""
    found = of(lambda a, b, c, d: 4 * a + 2 * b + c + 0 * d, 1000, 4)
    for influence, exact in zip(found, (16 / 21, 4 / 21, 1 / 21, 0.0), strict=True):
        assert influence.index == pytest.approx(exact, abs=max(3 * influence.error, 0.03))
    assert [influence.shown for influence in found] == [True, True, True, False]


def test_indices_of_the_ishigami_function() -> None:
    """Ishigami and Homma (1990), a = 7, b = 0.1: 0.3139, 0.4424 and 0."""

    def ishigami(*parts: float) -> float:
        x, y, z = (pi * (2 * part - 1) for part in parts)
        return sin(x) + 7 * sin(y) ** 2 + 0.1 * z**4 * sin(x)

    found = of(ishigami, 1000, 3)
    exact = (0.3139, 0.4424, 0.0)
    for influence, index in zip(found, exact, strict=True):
        assert influence.index == pytest.approx(index, abs=0.06)
    assert [influence.shown for influence in found] == [True, True, False]


@SLOW
def test_noise_is_not_shown_as_influence() -> None:
    """Inputs without influence are shown once in a hundred times, of a skewed result, too."""
    random = Random(5)
    shown = 0
    for _ in range(20):
        points = latin_hypercube(100, 10, random)
        columns = [list(column) for column in zip(*points, strict=True)]
        results = [random.expovariate(1.0) ** 3 for _ in points]
        shown += sum(influence.shown for influence in first_order(columns, results))
    assert shown <= 8  # of 200, of which 2 are expected


def test_a_choice_that_decides_all_explains_all() -> None:
    choices = ["on", "off"] * 30
    results = [1.0 if choice == "on" else 3.0 for choice in choices]
    (influence,) = first_order([choices], results)
    assert influence.index == pytest.approx(1.0)
    (none,) = first_order([choices], [2.0] * 60)
    assert (none.index, none.shown) == (0.0, False)


# Intervals


def test_an_interval_has_the_next_draw_as_often_as_it_says() -> None:
    """Wilks (1941): whatever the distribution."""
    random = Random(2)
    inside, said = 0, 0.0
    for _ in range(2000):
        found = interval([random.lognormvariate(0, 2) for _ in range(100)])
        assert found is not None
        inside += found.low <= random.lognormvariate(0, 2) <= found.high
        said = found.coverage
    assert said == pytest.approx(91 / 101)
    assert inside / 2000 == pytest.approx(said, abs=0.02)


def test_an_interval_is_of_order_statistics() -> None:
    values = [float(value) for value in range(1, 100)]
    assert interval(values) == Interval(5.0, 95.0, 50.0, 99, 0.9)
    assert interval(values[:19]) == Interval(1.0, 19.0, 10.0, 19, 0.9)
    assert interval(values[:18]) is None


# Verdicts


def comparison(published: float | None = 10.0, **more: Any) -> Comparison:
    return Comparison(
        label="a value",
        metric="",
        target="",
        window=(0.0, 1.0),
        published=published,
        qualifier=more.pop("qualifier", "exactly"),
        measured=1.0,
        difference=None,
        unit="ratio",
        note="",
        **more,
    )


@pytest.mark.parametrize(
    ("published", "precision", "low", "high"),
    [
        (0.944e6, None, 943.5e3, 944.5e3),
        (150e6, None, 145e6, 155e6),
        (0.49824, None, 0.498235, 0.498245),
        (7.6e6, 1e5, 7.5e6, 7.7e6),
        (0.0, None, 0.0, 0.0),
    ],
)
def test_a_printed_value_stands_for_what_rounds_to_it(
    published: float, precision: float | None, low: float, high: float
) -> None:
    stands_for = comparison(published, precision=precision).stands_for
    assert stands_for == pytest.approx((low, high), rel=1e-9)


@pytest.mark.parametrize(
    ("value", "low", "high", "verdict"),
    [
        ({}, 9.0, 11.0, "within"),
        ({}, 14.9, 15.5, "within"),  # 10 stands for 5 to 15
        ({"precision": 0.5}, 10.6, 11.0, "outside"),
        ({}, 8.0, 12.1, "undecided"),
        ({"rival": 11.5}, 9.0, 12.0, "undecided"),
        ({"rival": 20.0}, 5.0, 19.0, "within"),
        ({"rival": 12.5, "precision": 0.5}, 12.0, 13.0, "outside"),
        ({"qualifier": "above"}, 10.0, 99.0, "within"),
        ({"qualifier": "above"}, 9.9, 99.0, "undecided"),
        ({"qualifier": "above"}, 1.0, 9.9, "outside"),
        ({"qualifier": "below"}, 1.0, 9.9, "within"),
        ({"qualifier": "below"}, 10.1, 11.0, "outside"),
        ({"published": 0.0}, 0.0, 0.0, "within"),
        ({"published": 0.0}, 0.0, 0.1, "undecided"),
        ({"published": 0.0}, 0.1, 0.1, "outside"),
        ({"published": None}, 1.0, 2.0, None),
    ],
)
def test_a_verdict_follows_from_the_interval(
    value: dict[str, Any], low: float, high: float, verdict: str | None
) -> None:
    assert judge(comparison(**value), Interval(low, high, low, 100, 0.9)) == verdict


def test_without_an_interval_nothing_is_decided() -> None:
    assert judge(comparison(), None) == "undecided"


def judged(low: float, high: float, **value: Any) -> Judged:
    found = ensemble.Spread(Interval(low, high, low, 100, 0.9), 0, (), ())
    return Judged("main", comparison(**value), found)


def test_a_score_is_split_by_what_came_of_values() -> None:
    """A value that is put in, or that the document does not state, is not a reproduction."""
    values = [
        judged(9.0, 11.0),
        judged(20.0, 21.0),
        judged(1.0, 30.0),
        judged(9.0, 11.0, basis="assumed"),
        judged(20.0, 21.0, basis="unstated"),
        judged(9.0, 11.0, published=None),
    ]
    assert score(values) == {
        "reproduced": 1,
        "undecided": 1,
        "not explained": 1,
        "assumed": 1,
        "not stated": 2,
    }


def test_values_of_one_number_count_once_as_the_least_favourable() -> None:
    same = [judged(9.0, 11.0, number="it") for _ in range(8)]
    assert score(same)["reproduced"] == 1
    found = score([*same, judged(20.0, 21.0, number="it")])
    assert (found["reproduced"], found["not explained"]) == (0, 1)


# Whole ensembles


NETWORK = """
perhop: 1
name: small
nodes: {a: host, b: host}
links: [{ends: [a, b], rate: 10 Mbps, loss: 1%}]
flows: {one: {from: a, to: b, stop: 1 s, udp: {rate: 1 Mbps}}}
duration: 2 s
expect: [{throughput: one, during: 0 s..2 s, at_least: 1 kbps}]
published: [{label: loss, loss: one, value: 1%}]
"""


def rate(dataset: Dataset) -> float | None:
    return throughput(dataset, "one", (0.0, 1.0))


def over(runs: experiments.Runs, name: str) -> float | None:
    return rate(runs[name])


def small(folder: Path, **more: Any) -> Experiment:
    file = folder / "small.yaml"
    file.write_text(NETWORK, encoding="utf-8")
    values = (
        Value("throughput", "main", 1e6, "bps", rate, precision=1e5),
        Value("across", None, 1e6, "bps", across=partial(over, name="main")),
    )
    return Experiment(
        name="small",
        title="A small one",
        source="nobody",
        about="",
        cases={"main": Case(str(file), member=("duration=1 s",))},
        values=values,
        unknowns=(
            Unknown("rate", "open", 0.5e6, 1.5e6, "bps", {"flows.one.udp.rate={:.0f} bps": 1.0}),
            Unknown("lossy", "open", choices={"no": ("links.0.loss=0%",), "yes": ()}),
        ),
        **more,
    )


def test_members_are_a_function_of_the_seed(tmp_path: Path) -> None:
    experiment = small(tmp_path)
    drawn = ensemble.members(experiment, 30, 1)
    assert drawn == ensemble.members(experiment, 30, 1)
    assert drawn != ensemble.members(experiment, 30, 2)
    assert len({member.seed for member in drawn}) == 30
    assert all(0.5e6 <= float(member.drawn[0]) <= 1.5e6 for member in drawn)
    assert [member.drawn[1] for member in drawn].count("yes") == 15


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ensemble")


@pytest.fixture(scope="module")
def one(folder: Path) -> Reproduction:
    """An ensemble of 60, made in one process."""
    (found,) = experiments.reproduce([small(folder)], folder / "one", runs=60, jobs=1)
    return found


@SLOW
def test_an_ensemble_is_the_same_in_any_number_of_processes(
    tmp_path: Path, folder: Path, one: Reproduction
) -> None:
    experiment = small(folder)
    seen: list[tuple[int, int]] = []
    (two,) = experiments.reproduce(
        [experiment], tmp_path / "two", runs=60, jobs=2, watch=lambda *at: seen.append(at)
    )
    assert one.values == two.values
    assert seen == [(done, 61) for done in range(1, 62)]
    loss, goodput, across = one.values
    assert goodput.spread is not None
    assert across.spread is not None
    assert goodput.spread.interval == across.spread.interval
    # The rate decides the throughput, the choice decides the loss, and neither the other.
    assert [influence.shown for influence in goodput.spread.influences] == [True, False]
    assert goodput.spread.influences[0].index > 0.9
    assert loss.spread is not None
    assert [influence.shown for influence in loss.spread.influences] == [False, True]
    assert goodput.verdict == "undecided"
    # Nothing of a member is written.
    assert {path.name for path in (folder / "one" / "small" / "runs").iterdir()} == {"main"}


@SLOW
def test_tables_show_interval_unknowns_and_choices(tmp_path: Path, one: Reproduction) -> None:
    shown = judged_table(one)
    assert shown.rows[1][5] == "undecided"
    assert shown.rows[1][6].startswith("rate 9")
    unknowns = unknown_table(one)
    assert unknowns is not None
    assert unknowns.rows[0][:2] == ("rate", "500 kb/s to 1.50 Mb/s")
    assert unknowns.rows[1][:2] == ("lossy", "no or yes")
    choices = choice_table(one)
    assert choices is not None
    assert choices.rows[0][2] == "0% *"
    page = experiments.write([one], tmp_path)[1].read_text("utf-8")
    assert "What the document leaves open" in page
    said = experiments.summary([one])["small"]
    assert said["score"]["undecided"] == 3
    assert said["members"] == 60
    assert said["unknowns"][0]["range"] == [0.5e6, 1.5e6]
    assert said["values"][1]["ensemble"]["influences"]["rate"]["shown"] is True


@SLOW
def test_effort_and_runs_decide_the_number_of_members(tmp_path: Path) -> None:
    few_of = small(tmp_path, effort=0.5)
    (few,) = experiments.reproduce([few_of], tmp_path / "out", runs=10, jobs=1)
    assert len(few.members) == 5
    (none,) = experiments.reproduce([small(tmp_path)], tmp_path / "out", runs=0)
    assert none.members == ()
    assert none.values[0].spread is None


def test_a_setting_that_is_wrong_is_found_before_anything_is_run(tmp_path: Path) -> None:
    wrong = Unknown("wrong", "", 1.0, 2.0, sets={"flows.two.udp.rate={:.0f} bps": 1.0})
    experiment = replace(small(tmp_path), unknowns=(wrong,))
    with pytest.raises(ScenarioError, match="two") as raised:
        experiments.reproduce([experiment], tmp_path / "out", runs=1)
    assert not (tmp_path / "out").exists()
    # A worker process can hand it on.
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)


@SLOW
@pytest.mark.parametrize("name", experiments.names())
def test_every_experiment_can_be_given_to_a_process(name: str) -> None:
    experiment = experiments.get(name)
    if not experiment.unknowns:
        pytest.skip("nothing is unknown yet")
    assert pickle.loads(pickle.dumps(ensemble.shortened(experiment))).name == name
    (member, *_) = ensemble.members(experiment, 4, 1)
    for unknown, value in zip(experiment.unknowns, member.drawn, strict=True):
        assert unknown.reason
        assert unknown.choices or unknown.low < unknown.high
        unknown.settings(value)
    assert list(ensemble.scenarios(experiment, member))
