"""State of a lab's network after changes, which are stored nowhere."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import REAL_HOSTS, SLOW
from perhop.engines.plan import effects
from perhop.errors import ScenarioError, UnsupportedError, UsageError
from perhop.lab import Lab, up
from perhop.lab.present import Present
from perhop.scenario import Scenario, parse, to_mapping
from perhop.scenario.resolve import steps
from tools import unable

SCENARIO = """
perhop: 1
name: changing
nodes: {a: host, r: router, s: router, b: host}
links:
  - {ends: [a, r], rate: 100 Mbps, delay: 1 ms}
  - {ends: [r, s], rate: 20 Mbps, delay: {r: 4 ms}, egress: {r: edge, s: outer}}
  - {ends: [s, b], rate: 20 Mbps, egress: {s: edge}}
policies:
  edge:
    classes:
      police: {match: {port: 5011}, bandwidth: 50%, police: {rate: 2 Mbps, burst: 20 kB}}
      rest: {match: any, bandwidth: 50%}
  fixed:
    unused: true
    classes:
      most: {match: {dscp: ef}, bandwidth: 12 Mbps}
      rest: {match: any, limit: 15 Mbps}
  outer:
    classes:
      inside: {match: {port: 80}, bandwidth: 40%, policy: inner}
      rest: {match: any}
  inner:
    classes:
      one: {match: {dscp: ef}, bandwidth: 30%}
      rest: {match: any}
"""
LINKS = ["a>r", "r>s", "s>r", "s>b", "b>s", "r>b"]


def by_end(values: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    """A value of both directions, or values of some ends of the link between r and s."""
    return values | st.dictionaries(st.sampled_from(["r", "s"]), values, min_size=1)


changes = st.one_of(
    st.fixed_dictionaries(
        {"on": st.sampled_from(LINKS)},
        optional={
            "rate": by_end(st.integers(5, 40).map(lambda rate: f"{rate} Mbps")),
            "delay": st.integers(0, 9).map(lambda delay: f"{delay} ms"),
            "loss": st.integers(0, 9).map(lambda loss: f"{loss}%"),
            "state": st.sampled_from(["up", "down"]),
            "policy": st.sampled_from(["edge", "fixed", "outer", "none", "egde"]),
        },
    ),
    st.builds(
        lambda on, part, police: {"on": on, "class": part, "police": police},
        st.sampled_from(LINKS),
        st.sampled_from(["police", "rest", "inside/one"]),
        st.fixed_dictionaries(
            {},
            optional={
                "rate": st.integers(1, 30).map(lambda rate: f"{rate} Mbps"),
                "burst": st.just("9 kB"),
            },
        ),
    ),
    st.just({"clear": "counters"}),
)


def scenario() -> Scenario:
    return parse(SCENARIO)


def with_changes(made: list[dict[str, Any]]) -> Scenario:
    """The same network with these changes on its timeline, at time zero."""
    data = to_mapping(scenario())
    for policy in data["policies"].values():
        policy["unused"] = True
    data["changes"] = [{**change, "at": "0 s"} for change in made]
    return parse(json.dumps(data))


@SLOW
@settings(max_examples=60)
@given(st.lists(changes, max_size=8))
def test_the_present_is_what_a_timeline_of_all_changes_leaves(asked: list[dict[str, Any]]) -> None:
    present, made = Present(scenario()), list[dict[str, Any]]()
    for change in asked:
        try:
            whole = with_changes([*made, change])
        except ScenarioError:
            with pytest.raises(UsageError):
                present.change(change)
            continue
        present, found, _ = present.change(change)
        place = ("changes", len(made))
        made.append(change)
        last = [
            effect
            for step in steps(whole)
            if step.loc == place
            for effect in effects(whole, step, {})
        ]
        assert found == last
        left = list(steps(whole))
        for on in LINKS:
            of_link = [step for step in left if step.change.on == on]
            if of_link:
                step = of_link[-1]
                assert present.state.attached[on] == (step.policy, step.capacity)
                assert present.state.police[on] == step.police
        for step in left:
            latest = [one for one in left if one.number == step.number][-1]
            assert present.state.links[step.number] == latest.link


def test_a_policy_is_changed_wherever_it_stands_or_nowhere() -> None:
    first = Present(scenario())
    present, made, links = first.policy("r>s", None, ["classes.rest.bandwidth=40%"])
    assert links == ["r>s", "s>b"]
    assert [effect["discipline"]["on"] for effect in made if "discipline" in effect] == links
    assert present.scenario.policies["edge"].classes["rest"].bandwidth != (
        first.scenario.policies["edge"].classes["rest"].bandwidth
    )
    # On the second link it would promise more than there is.
    present, _, _ = first.change({"on": "s>b", "rate": "1 Mbps"})
    with pytest.raises(UsageError, match=r"link `s>b`; expected at most 100%"):
        present.policy("r>s", None, ["classes.rest.bandwidth=5 Mbps"])
    assert present.scenario is first.scenario
    assert present.policies["r>s"] == "edge"


def test_a_nested_policy_is_changed_where_another_has_it() -> None:
    present, made, links = Present(scenario()).policy(
        "r>s",
        "inner",
        ["classes={two: {match: {dscp: ef}}, three: {match: {port: 1}}, rest: {match: any}}"],
    )
    assert links == ["r>s", "s>r"]
    assert present.policies["s>r"] == "outer"
    outer = json.loads(json.dumps(made))[1]["discipline"]
    inside, rest = outer["discipline"]["classes"]["classes"]
    nested = inside["discipline"]["classes"]["classes"]
    assert (outer["on"], inside["name"], rest["name"]) == ("s>r", "inside", "rest")
    assert [one["name"] for one in nested] == [f"inside/{n}" for n in ("two", "three", "rest")]


@pytest.mark.parametrize(
    ("on", "policy", "override", "message"),
    [
        (
            "r>s",
            None,
            "classes.rest.limit=1 Mbps",
            r"^policies.edge.classes.rest.limit: is less than the",
        ),
        ("r>s", None, "classes.rest.limit=lots", r"^classes.rest.limit: "),
        ("r>s", None, "classes.rset.limit=1 Mbps", r"did you mean `rest`"),
        ("r>s", None, "limit", r"is no override"),
        ("r>s", "none", "classes.rest.limit=1 Mbps", r"no settings"),
        ("r>s", "egde", "classes.rest.limit=1 Mbps", r"did you mean `edge`"),
        ("s>b", None, "classes.rest.policy=edge", r"makes a cycle"),
        ("b>s", None, "classes.rest.limit=1 Mbps", r"no policy on `b>s`"),
        ("x>y", "edge", "classes.rest.bandwidth=1 Mbps", r"`x>y` is not a directed link"),
    ],
)
def test_wrong_settings_are_explained(
    on: str, policy: str | None, override: str, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        Present(scenario()).policy(on, policy, [override])


@pytest.fixture
def lab(lab_folder: Path) -> Lab:
    assert lab_folder.is_dir()
    try:
        return up(scenario())
    except UnsupportedError as error:
        unable(error)


def memory(lab: Lab) -> int:
    """Return the memory of the lab's process, in KiB."""
    lines = Path(f"/proc/{lab.record.pid}/status").read_text("utf-8").splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS:")).split()[1])


@REAL_HOSTS
def test_a_lab_outlives_any_number_of_changes(lab: Lab) -> None:
    def change(number: int) -> None:
        match number % 5:
            case 0:
                lab.change({"on": "r>s", "rate": f"{20 + number % 7} Mbps"})
            case 1:
                lab.change({"on": "r>s", "delay": f"{number % 9} ms", "loss": f"{number % 4}%"})
            case 2:
                lab.change({"on": "a>r", "state": ("up", "down")[number % 2]})
            case 3:
                lab.policy("r>s", ("edge", "fixed")[number % 2])
            case 4:
                lab.policy("s>b", overrides=[f"classes.rest.limit={60 + number % 9}%"])

    for number in range(500):
        change(number)
    before = memory(lab)
    for number in range(500, 3000):
        change(number)
    # Each of the old ones was kept, and read again with every change.
    assert memory(lab) - before < 4_000
    assert lab.status()["links"]["r>s"]["policy"] == "edge"
