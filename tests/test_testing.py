"""Tests of policies: verdicts on ensembles, `perhop test` and `check`, the plugin of pytest."""

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from math import comb
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml
from click.shell_completion import ShellComplete
from hypothesis import given
from hypothesis import strategies as st

from conftest import PERHOP, SLOW, Outcome
from perhop import gallery, testing
from perhop.analysis import Verdict, ensemble_verdicts
from perhop.analysis.ensembles import CONFIDENCE, median_interval
from perhop.cli import perhop as commands
from perhop.engines import ENGINES
from perhop.errors import ScenarioError, UnsupportedError, UsageError
from perhop.scenario import parse
from perhop.scenario.model.quantities import FEWEST_SEEDS, MOST_SEEDS
from perhop.testing import Place, Result, formats

Perhop = Callable[..., Outcome]
ROOT = Path(__file__).parent.parent

SMALL = """\
perhop: 1
name: small
nodes: {a: host, r: router, b: host}
links:
  - {ends: [a, r], rate: 10 Mbps}
  - {ends: [r, b], rate: 10 Mbps, loss: 2%}
flows:
  data: {from: a, to: b, udp: {rate: 1 Mbps}, stop: 1 s}
expect:
  - {throughput: data, at_least: 500 kbps}
  - {loss: data, about: 2%, within: 5%}
  - {throughput: data, at_least: 1.5 Mbps}
"""
HOLDS = SMALL[: SMALL.index("  - {loss")]


@pytest.fixture
def small(place: Path) -> Path:
    path = place / "small.perhop.yaml"
    path.write_text(SMALL)
    return path


# Intervals


@pytest.mark.parametrize(
    ("count", "rank"), [(6, 1), (8, 1), (9, 2), (12, 3), (15, 4), (20, 6), (30, 10), (100, 40)]
)
def test_an_interval_has_the_ranks_of_published_tables(count: int, rank: int) -> None:
    # Conover, Practical Nonparametric Statistics, table A3: the sign test's interval at 95%.
    assert median_interval(range(1, count + 1)) == (rank, count + 1 - rank)


@given(st.integers(FEWEST_SEEDS, MOST_SEEDS))
def test_an_interval_is_the_shortest_of_its_confidence(count: int) -> None:
    low, high = (round(end) for end in median_interval(range(1, count + 1)))
    assert low + high == count + 1

    def coverage(rank: int) -> float:
        return 1 - 2 * sum(comb(count, below) for below in range(rank)) / 2**count

    assert coverage(low) >= CONFIDENCE > coverage(low + 1)


def test_intervals_have_the_median_as_often_as_they_say() -> None:
    draw = random.Random(1)
    hits = 0
    for _ in range(2000):
        low, high = median_interval([draw.expovariate(1) for _ in range(20)])
        hits += low <= 0.6931 <= high
    # 95.86% of them; three standard deviations below are 94.5%.
    assert 0.945 <= hits / 2000 <= 0.972


def test_five_runs_have_no_interval() -> None:
    with pytest.raises(ValueError, match="5 values have no interval; expected at least 6"):
        median_interval(range(5))


# Verdicts


def judged(values: list[float | None], expectation: str, ok: bool | None = True) -> str:
    text = f"{HOLDS[: HOLDS.index('  - {through')]}  - {{throughput: data, {expectation}}}\n"
    expect = parse(text).expect
    runs = [
        [Verdict("", ok if ok is None else value is not None, value, "bps")] for value in values
    ]
    [verdict] = ensemble_verdicts(expect, runs)
    return verdict.state


def test_an_expectation_is_decided_by_its_whole_interval() -> None:
    values: list[float | None] = [1e6 * n for n in range(1, 21)]  # the interval: 6 to 15 Mb/s
    assert judged(values, "at_least: 6 Mbps") == "holds"
    assert judged(values, "at_least: 6.1 Mbps") == "undecided"
    assert judged(values, "at_least: 15 Mbps") == "undecided"
    assert judged(values, "at_least: 15.1 Mbps") == "fails"
    assert judged(values, "at_most: 15 Mbps") == "holds"
    assert judged(values, "at_most: 5.9 Mbps") == "fails"
    assert judged(values, "at_least: 7 Mbps, at_most: 8 Mbps") == "undecided"


def test_runs_that_measured_nothing_widen_the_interval() -> None:
    values: list[float | None] = [1e6 * n for n in range(1, 16)] + [None] * 5
    assert judged(values, "at_least: 1 Mbps") == "holds", "the sixth least is 1 Mb/s at worst"
    assert judged(values, "at_least: 2 Mbps") == "undecided"
    assert judged(values, "at_most: 15 Mbps") == "holds"
    assert judged(values, "at_most: 14 Mbps") == "undecided"
    assert judged([None] * 20, "at_most: 15 Mbps") == "fails"
    assert judged([None], "at_most: 15 Mbps") == "fails"


def test_an_interrupted_run_decides_nothing() -> None:
    assert judged([1e6] * 6, "at_least: 1 Mbps", ok=None) == "not reached"


# Commands


def test_files_are_tested_side_by_side(perhop: Perhop, small: Path) -> None:
    good = small.with_name("good.yaml")
    good.write_text(HOLDS)
    code, out, err = perhop("test", "good.yaml", small.name, "--junit", "x.xml", "--github")
    assert (code, err) == (1, "")
    assert out.startswith("ok    good.yaml: 1 of 1 hold\nFAIL  small.perhop.yaml: ")
    assert "FAILS     throughput of data is at least 1.5 Mbps" in out
    assert f"::error file={small.name},line=12,col=5,title=perhop::fails: throughput of" in out
    root = ElementTree.parse(small.with_name("x.xml")).getroot()
    first, second = root
    assert (first.get("tests"), first.get("failures")) == ("1", "0")
    assert second.get("tests") == "3"
    [failed] = second.findall(".//testcase[@line='12']/failure")
    assert "at least 1.5 Mbps; measured" in failed.attrib["message"]
    assert {path.name for path in small.parent.iterdir()} == {"good.yaml", small.name, "x.xml"}


def test_an_ensemble_has_medians_and_intervals(perhop: Perhop, small: Path) -> None:
    code, out, err = perhop("test", small.name, "--seeds", "20", "--json", "--jobs", "1")
    assert (code, err) == (1, "")
    [file] = json.loads(out)["files"]
    assert file["runs"] == 20
    states = [verdict["state"] for verdict in file["expect"]]
    assert states[0] == "holds" and states[2] == "fails"
    lost = file["expect"][1]
    assert lost["low"] <= lost["median"] <= lost["high"]
    assert lost["low"] < 0.02 < lost["high"], "seeds differ"
    _, out, _ = perhop("test", small.name, "--seeds", "20", "--jobs", "1")
    assert "95% interval" in out and "Of 20 runs." in out


def test_a_file_says_how_many_runs_it_needs(perhop: Perhop, small: Path) -> None:
    small.write_text(f"{SMALL}seeds: 20\n")
    _, out, _ = perhop("test", small.name, "--jobs", "1")
    assert "Of 20 runs." in out
    assert "95% interval" not in perhop("test", small.name, "--seeds", "1").out
    _, out, _ = perhop("run", small.name)
    assert "Of 20 runs." in out and "results: not kept; --out DIR" in out
    _, out, _ = perhop("run", small.name, "--no-save", "--seed", "1")
    assert "Of one run; the scenario asks for 20: `perhop run --seeds 20` makes them." in out
    small.write_text(f"{SMALL}seeds: 3\n")
    assert "13:8: seeds: `3` is not a number of runs for an" in perhop("check", small.name).err


def test_seeds_without_effect_are_said_and_not_run(perhop: Perhop, small: Path) -> None:
    small.write_text(HOLDS.replace(", loss: 2%", ""))
    code, out, err = perhop("test", small.name, "--seeds", "20")
    assert (code, out) == (0, f"ok    {small.name}: 1 of 1 hold\n1 file: 1 holds\n")
    assert "all 20 seeds give the same results" in err


@pytest.mark.parametrize("seeds", [0, 2, 5, 1001])
def test_too_few_seeds_are_refused(perhop: Perhop, small: Path, seeds: int) -> None:
    code, out, err = perhop("test", small.name, "--seeds", str(seeds))
    assert (code, out) == (2, "")
    assert f"`{seeds}` is not a number of runs for an interval; expected 1, or 6 to 1000" in err


def test_what_cannot_run_leaves_the_others(perhop: Perhop, small: Path) -> None:
    folder = small.parent
    (folder / "good.yaml").write_text(HOLDS)
    (folder / "bad.yaml").write_text(HOLDS.replace("a, r", "a, x"))
    (folder / "nothing.yaml").write_text(HOLDS[: HOLDS.index("expect")])
    names = ("nowhere.yaml", "bad.yaml", "nothing.yaml", "good.yaml")
    code, out, err = perhop("test", *names, "--junit", "x.xml", "--github")
    assert code == 2
    assert "ok    good.yaml: 1 of 1 hold" in out
    assert out.count("ERROR") == 3 and "4 files: 1 holds, 3 cannot run" in out
    assert "nowhere.yaml: cannot be read" in err
    assert "nothing.yaml expects nothing; add requirements below `expect`" in err
    assert "::error file=bad.yaml,line=5,col=" in out
    suites = ElementTree.parse(folder / "x.xml").getroot()
    assert sorted(suite.get("errors") or "" for suite in suites) == ["0", "1", "1", "1"]


def test_checks_run_nothing_and_tell_all_problems(
    perhop: Perhop, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perhop.engines.run", None)
    assert perhop("check", small.name, "qbss-1-70").out == (
        f"{small.name}: is valid\nqbss-1-70.yaml: is valid\n"
    )
    small.write_text(SMALL.replace("nodes: {", "nodes: {alone: host, "))
    code, out, err = perhop("check", small.name, "--github")
    said = "nodes.alone: has no link, so that nothing reaches it"
    assert (code, err) == (0, f"perhop: warning: {small.name}: {said}\n")
    assert out.splitlines()[1] == f"::warning file={small.name},title=perhop::{said}"
    small.write_text(SMALL.replace("a, r", "a, x").replace("to: b", "to: c"))
    code, out, err = perhop("check", small.name, "--github")
    assert code == 2
    assert err.count(f"{small.name}:") == 2 == out.count("::error ")
    assert perhop("check", "qbss-1-70", "--set", "links.1.rate=1 parsec").code == 2


@SLOW
def test_standard_input_is_a_file(place: Path) -> None:
    for command, text, code, said in (
        ("test", HOLDS, 0, "ok    <stdin>: 1 of 1 hold"),
        ("check", HOLDS, 0, "<stdin>: is valid"),
        ("check", "perhop: 2", 2, "<stdin>:1:9: perhop:"),
    ):
        done = subprocess.run(
            [str(PERHOP), command, "-"], input=text, capture_output=True, text=True, cwd=place
        )
        assert done.returncode == code
        assert said in done.stdout + done.stderr


def test_a_run_that_is_not_saved_leaves_nothing(perhop: Perhop, small: Path) -> None:
    code, out, _ = perhop("run", small.name, "--no-save", "--json")
    assert (code, json.loads(out)["dataset"]) == (1, None)
    code, out, _ = perhop("run", small.name, "--no-save")
    assert "results:" not in out
    assert list(small.parent.iterdir()) == [small]
    assert perhop("run", small.name, "--no-save", "--out", "x").code == 2


# Formats


def test_workflow_commands_are_escaped() -> None:
    error = UsageError("100%\nwrong: a,b")
    lines = list(formats.workflow_commands([Result("a:b,c%.yaml", error=error)]))
    assert lines == ["::error file=a%3Ab%2Cc%25.yaml,title=perhop::100%25%0Awrong: a,b"]


@given(st.text(), st.text())
def test_any_name_and_message_is_xml(name: str, message: str) -> None:
    tested = [Result(name, error=UnsupportedError(message), warnings=(message,))]
    [suite] = ElementTree.fromstring(formats.junit(tested).encode())
    assert suite.get("errors") == "1"
    for line in formats.workflow_commands(tested):
        assert "\n" not in line and line.count("\r") == 0


# In Python


def test_places_are_those_of_the_file(small: Path) -> None:
    [tested] = testing.run([gallery.read(str(small))])
    assert tested.places == tuple(Place(str(small), line, 5) for line in (10, 11, 12))
    assert tested.exit_code == 1


def test_overrides_are_made_in_each(small: Path) -> None:
    overrides = ["flows.data.udp.rate=2 Mbps"]
    [tested] = testing.run([gallery.read(str(small))], overrides=overrides)
    assert tested.verdicts[2].state == "holds"
    [tested] = testing.run([gallery.read(str(small))], overrides=["nodes.q.x=1"])
    assert isinstance(tested.error, ScenarioError)


# Continuous integration


@SLOW
def test_the_action_runs_what_it_is_given(small: Path) -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
    names = {
        f"${{{{ inputs.{name} }}}}": each["default"] for name, each in action["inputs"].items()
    }
    assert [step["shell"] for step in action["runs"]["steps"]] == ["bash", "bash"]
    step = action["runs"]["steps"][1]
    given = {**names, "${{ inputs.files }}": "*.perhop.yaml qbss-1-70"}
    variables = {key: given[value] for key, value in step["env"].items()}
    path = f"{PERHOP.parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", step["run"]],
        env={**os.environ, **variables, "PATH": path},
        capture_output=True,
        text=True,
        cwd=small.parent,
    )
    assert done.returncode == 1, done.stderr
    assert "ok    qbss-1-70.yaml: 10 of 10 hold" in done.stdout
    assert f"::error file={small.name},line=12,col=5," in done.stdout
    assert (small.parent / "perhop.xml").exists()


@SLOW
def test_bash_completes_commands_and_scenarios(place: Path) -> None:
    (place / "qbss-mine.yaml").touch()
    script = """
eval "$(perhop completion bash)"
for line in "perhop ch" "perhop run qbss-m" "perhop test qbss-1-7" "perhop run --no"; do
    COMP_WORDS=($line) COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) COMPREPLY=()
    _perhop_completion perhop
    echo "${COMPREPLY[@]}"
done
"""
    path = f"{PERHOP.parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", script],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        cwd=place,
    )
    assert done.stdout.splitlines()[0] == "check"
    assert done.stdout.splitlines()[2:] == ["qbss-1-70", "--no-save"]


@pytest.mark.parametrize(
    "line, found",
    [
        ("run x.yaml --engine ", [*ENGINES]),
        ("sweep x.yaml --engine k", ["kernel"]),
        ("doctor l", ["live"]),
        ("new d", ["dsl", "dumbbell"]),
        ("report runs/x --chart thr", ["throughput", "throughput-log"]),
        ("reproduce oscars-p", ["oscars-ping"]),
    ],
)
def test_names_are_completed(line: str, found: list[str]) -> None:
    *before, last = line.split(" ")
    asked = ShellComplete(commands, {}, "perhop", "_PERHOP_COMPLETE")
    assert [each.value for each in asked.get_completions(before, last)] == found


# The plugin of pytest


TEST = """
import pytest

def test_good(perhop_test):
    perhop_test("good.yaml", seeds=6)

def test_bad(perhop_test):
    perhop_test("small.perhop.yaml")
"""


@SLOW
def test_pytest_tests_expectations(small: Path) -> None:
    folder = small.parent
    (folder / "good.yaml").write_text(HOLDS)
    (folder / "broken.perhop.yaml").write_text("perhop: 2")
    (folder / "test_policies.py").write_text(TEST)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir=."]
    environment = {key: value for key, value in os.environ.items() if "PYTEST" not in key}
    done = subprocess.run(
        [*command, "--continue-on-collection-errors"],
        capture_output=True, text=True, cwd=folder, env=environment,
    )  # fmt: skip
    assert done.returncode == 1
    assert "3 failed, 2 passed, 1 error" in done.stdout
    assert "broken.perhop.yaml:1:9: perhop: this perhop reads version 1" in done.stdout
    assert "FAILS    throughput of data is at least 1.5 Mbps" in done.stdout
    assert "Traceback" not in done.stdout
    assert "testing.run(" not in done.stdout, "perhop's own code is of no interest"
