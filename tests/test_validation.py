"""The tables that say how right perhop is: the quick ones hold, and the file has what they say."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

import perhop
from conftest import SLOW

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from perhop import linux  # noqa: E402
from validation import hosts, linux_queues  # noqa: E402
from validation.host_settings import SETTINGS  # noqa: E402
from validation.table import Row  # noqa: E402
from validation.tables import TABLES  # noqa: E402

pytestmark = SLOW

RESULTS = (ROOT / "validation" / "RESULTS.md").read_text("utf-8")


@pytest.mark.parametrize("table", [table for table in TABLES if table.quick], ids=lambda t: t.name)
def test_a_quick_table_holds_and_is_what_the_file_has(table) -> None:  # type: ignore[no-untyped-def]
    rows = list(table.rows())
    assert all(row.ok for row in rows), [row for row in rows if not row.ok]
    assert table.markdown(rows) in RESULTS


@pytest.mark.parametrize("name", ["buckets", "max-min", "link-sharing"])
def test_a_slow_table_begins_as_the_file_has_it(name: str) -> None:
    table = next(table for table in TABLES if table.name == name)
    row = next(iter(table.rows()))
    assert row.ok
    # Whatever changes TCP may change the last digits of rates of flows.
    assert name == "max-min" or row.markdown() in RESULTS


def test_every_table_is_in_the_file_and_holds_there() -> None:
    titles = [line[3:] for line in RESULTS.splitlines() if line.startswith("## ")]
    assert titles == [table.title for table in TABLES]
    assert "**no**" not in RESULTS


def test_rows_know_whether_they_hold() -> None:
    assert Row("", 100.0, 101.0, 0.01).ok
    assert not Row("", 100.0, 98.9, 0.01).ok
    assert Row("", 100.0, 98.5, 0.01, slack=2.0).ok
    assert Row("", 100.0, 50.0, 0.0, "bound").ok
    assert not Row("", 100.0, 100.1, 0.0, "bound").ok


HOSTS = hosts.sections(hosts.KEPT.read_text("utf-8"))


def test_every_setting_of_hosts_is_in_the_file_with_a_cause_for_each_difference() -> None:
    assert list(HOSTS) == [setting.name for setting in SETTINGS]
    assert len(HOSTS) >= 20
    for setting in SETTINGS:
        section = HOSTS[setting.name]
        assert f"{setting.title}; " in section
        assert "**no**" not in section
        for metric in setting.metrics:
            title = hosts.METRICS[metric].title
            (line,) = [each for each in section.splitlines() if each.startswith(f"| {title} |")]
            if line.endswith(("| explained |", "| open |")):
                assert setting.reasons[metric].why in section


@pytest.mark.parametrize("name", ["deep", "window"])
def test_the_simulator_still_agrees_with_linux_as_the_file_has_it(name: str) -> None:
    setting = next(each for each in SETTINGS if each.name == name)
    outcome = hosts.compare(setting, HOSTS[name])
    assert not outcome.unexplained()
    # What is written is what was read.
    assert hosts.read_emu(setting, outcome.markdown()) == hosts.read_emu(setting, HOSTS[name])


def test_instances_of_a_setting_share_nothing_and_measure_alike() -> None:
    setting = next(each for each in SETTINGS if each.name == "deep")
    three = perhop.run(setting.scenario(range(3)), seed=1)
    measured = [hosts.measured(setting, three, number) for number in range(3)]
    (alone,) = hosts.simulated(setting, [1])
    assert measured[0] == alone
    for metric, value in alone.items():
        figure = hosts.Figure.of([each[metric] for each in measured])
        assert figure.median == pytest.approx(value, rel=0.02, abs=1.0)


def test_a_canary_beside_a_setting_tells_lateness_and_changes_nothing() -> None:
    setting = replace(next(each for each in SETTINGS if each.name == "window"), seconds=2.0)
    watched = perhop.run(setting.scenario([0], watched=True), seed=1)
    # Two headers and 100 B on the wire at 1 Gb/s, in each direction.
    assert 0 <= hosts.canary_us(watched) < 10
    alone = perhop.run(setting.scenario([0]), seed=1)
    assert hosts.measured(setting, watched, 0) == hosts.measured(setting, alone, 0)
    assert hosts.canary_us(alone) == float("inf"), "a run without a canary does not count"


def test_intervals_hold_the_median_as_often_as_they_say() -> None:
    # 1 - 2 P(at most k of n fall below), the ends being the k+1-th least and greatest.
    assert [hosts.inner_rank(n) for n in (1, 5, 6, 8, 9, 10, 20)] == [0, 0, 0, 0, 1, 1, 5]
    figure = hosts.Figure.of([5.0, 1.0, 4.0, 2.0, 3.0, 6.0, 9.0, 7.0, 8.0, 10.0])
    assert (figure.low, figure.median, figure.high) == (2.0, 5.5, 9.0)


def test_a_difference_is_in_or_spread_or_explained_or_out() -> None:
    reason = hosts.Reason(1.1, 1.3, "known")
    setting = replace(SETTINGS[0], metrics=("goodput", "lost"), reasons={"lost": reason})

    def verdicts(goodput: tuple[float, float, float], lost: float) -> list[str]:
        sim = {"goodput": hosts.Figure(*goodput), "lost": hosts.Figure(lost, lost, lost)}
        emu = {"goodput": hosts.Figure(9.9, 10, 10.1), "lost": hosts.Figure(100, 100, 100)}
        outcome = hosts.Outcome(setting, sim, emu, 10.0, 0)
        assert outcome.unexplained() == [m for m in sim if outcome.verdict(m) == "out"]
        assert outcome.markdown().count("**no**") == len(outcome.unexplained())
        assert ("known" in outcome.markdown()) == ("explained" in outcome.markdown())
        return [outcome.verdict(metric) for metric in setting.metrics]

    assert verdicts((10, 10.4, 11), 109) == ["in", "in"]
    assert verdicts((10, 10.6, 11), 120) == ["spread", "explained"]
    assert verdicts((10.2, 10.6, 11), 140) == ["out", "out"]
    late = hosts.Outcome(setting, {}, {}, setting.late_us + 1, 3)
    assert "lateness" in replace(late, setting=replace(setting, metrics=())).unexplained()


@pytest.mark.parametrize("setting", linux_queues.SETTINGS, ids=lambda setting: setting.name)
def test_queues_that_are_compared_with_linux_are_written_for_it(
    setting: linux_queues.Setting,
) -> None:
    scenario = linux_queues.scenario_of(setting)
    assert linux.mapping(scenario).gaps == ()
    run = linux_queues.guest_run(setting, scenario)
    assert any(f" {word} " in command for command in run["commands"] for word in QUEUES)
    assert len(run["packets"]) == sum(sender.packets for sender in setting.senders.values())
    text = linux_queues.KEPT.read_text("utf-8")
    for metric, name in setting.metrics:
        assert f"| {setting.name}; {name}: {linux_queues.ALLOWED[metric][0]} |" in text


QUEUES = ("sfq", "fq_codel", "codel", "pie", "hfsc", "drr")


def test_queues_are_as_in_linux_but_for_what_is_explained() -> None:
    assert "**no**" not in linux_queues.KEPT.read_text("utf-8")
