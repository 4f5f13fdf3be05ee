"""Values that follow from a scenario, worked out by hand from what its language says."""

from __future__ import annotations

from typing import Any

import pytest

from perhop.scenario import Scenario, parse
from perhop.scenario.model.classes import Policy
from perhop.scenario.model.hfsc import Slopes
from perhop.scenario.resolve import (
    NetworkState,
    are_below,
    linear,
    rates,
    sending_rate,
    service_curves,
    states,
    steepest,
    steps,
    walk,
    with_nested,
)
from perhop.scenario.resolve.nesting import cycles, references
from perhop.scenario.resolve.shares import rest
from perhop.scenario.resolve.steps import attachments, changed_class

MB = 1_000_000
MS = 10**9
"""A millisecond in picoseconds."""

TEXT = """\
perhop: 1
name: resolve
nodes: {a: host, r: router, s: router, b: host}
links:
  - {ends: [a, r], rate: 1 Gbps}
  - {ends: [r, s], rate: 100 Mbps, delay: 5 ms, egress: {r: p}}
  - {ends: [s, b], rate: 1 Gbps}
policies:
  p: {POLICY}
flows:
  web: {from: a, to: b, stop: 10 s}
MORE
"""


def scenario(policy: str = "{classes: {all: {match: any}}}", more: str = "") -> Scenario:
    policy = policy.removeprefix("{").removesuffix("}")
    return parse(TEXT.replace("POLICY", policy).replace("MORE", more), "x.yaml")


def of(policy: str, capacity: int = 100) -> dict[str, float | None]:
    """Return the rates of the classes of a policy, in Mb/s."""
    found = rates(scenario(policy).policies["p"], capacity * MB)
    return {name: None if rate is None else rate / MB for name, rate in found.items()}


def strict(police: str = "", dscp: str = "ef", name: str = "voice") -> str:
    policed = f", police: {{{police}}}" if police else ""
    return f"{name}: {{match: {{dscp: {dscp}}}, unused: true, priority: strict{policed}}}"


RESTS = "data: {match: {dscp: af11}, unused: true}, rest: {match: any}"


@pytest.mark.parametrize(
    ("classes", "expected"),
    [
        # What a policer lets pass of a strict class is not for the others: 100 - 20 = 80, halved.
        (f"{strict('rate: 20%, burst: 10 kB')}, {RESTS}", [20, 40, 40]),
        (f"{strict('rate: 10 Mbps, burst: 10 kB')}, {RESTS}", [10, 45, 45]),
        # Without a policer a strict class may have everything, and takes nothing beforehand.
        (f"{strict()}, {RESTS}", [None, 50, 50]),
        # Two policed ones.
        (
            f"{strict('rate: 20%, burst: 10 kB')}, "
            f"{strict('rate: 30 Mbps, burst: 9 kB', 'cs5', 'video')}, rest: {{match: any}}",
            [20, 30, 50],
        ),
        # A policer that drops everything leaves the class nothing, and the others all.
        (f"{strict('rate: 20%, burst: 10 kB, conform: drop')}, {RESTS}", [None, 50, 50]),
        # The policer of a class that is not strict changes no share.
        (
            "low: {match: {dscp: cs1}, unused: true, bandwidth: 10%, police: "
            "{rate: 5 Mbps, burst: 9 kB}}, rest: {match: any}",
            [10, 90],
        ),
        # A class that discards has its own part, and takes none from the two others.
        (
            "gone: {match: {dscp: cs1}, unused: true, police: {rate: 5 Mbps, burst: 9 kB, "
            f"conform: drop}}}}, {RESTS}",
            [50, 50, 50],
        ),
    ],
)
def test_guarantees_count_the_policers_of_strict_classes(
    classes: str, expected: list[float | None]
) -> None:
    assert [*of(f"{{classes: {{{classes}}}}}").values()] == expected


def test_guarantees_by_scheduler() -> None:
    # All classes are strict: a policed one has its policer's rate, the others have no bound.
    first = "one: {match: {dscp: af11}, unused: true, police: {rate: 30%, burst: 10 kB}}"
    by_order = f"{{scheduler: priority, classes: {{{first}, rest: {{match: any}}}}}}"
    assert of(by_order) == {"one": 30, "rest": None}
    # 100 Mb/s by quanta of 1500 and 6000.
    quanta = (
        "{scheduler: drr, classes: {one: {match: {dscp: af11}, unused: true, quantum: 1500 B}, "
        "rest: {match: any, quantum: 6000 B}}}"
    )
    assert of(quanta) == {"one": 20, "rest": 80}
    # By curves the second slope counts, and `bandwidth` where there is no curve.
    curves = (
        "{scheduler: hfsc, classes: {one: {match: {dscp: af11}, unused: true, linkshare: "
        "{m1: 50%, d: 10 ms, m2: 15%}}, two: {match: {dscp: af21}, unused: true, bandwidth: 25%}, "
        "rest: {match: any}}}"
    )
    assert of(curves) == {"one": 15, "two": 25, "rest": 60}


def test_turns_have_no_ceilings_by_which_others_gain() -> None:
    # 3 and 1 of 4 parts, although 30 is less than a half.
    shaped = "quantum: 1000 B, shape: {rate: 30 Mbps, burst: 9 kB}"
    one = "one: {match: {dscp: ef}, unused: true, quantum: 3000 B}"
    turns = f"{one}, rest: {{match: any, {shaped}}}"
    assert of(f"{{scheduler: drr, classes: {{{turns}}}}}") == {"one": 75, "rest": 25}


def test_what_is_left_is_rounded_down() -> None:
    policy = scenario(
        "{classes: {one: {match: {dscp: af11}, unused: true}, two: {match: {dscp: af21}, "
        "unused: true}, rest: {match: any}}}"
    ).policies["p"]
    assert [*rates(policy, 100).values()] == [33, 33, 33]
    assert rest(policy, 100) == 33
    whole = scenario("{classes: {all: {match: any, bandwidth: 100%}}}").policies["p"]
    assert rest(whole, 100) == 0


def test_ceilings_are_whole_bits_a_second() -> None:
    def shared(limit: str, capacity: int) -> list[int | None]:
        first = f"one: {{match: {{dscp: af11}}, unused: true, limit: {limit}}}"
        two = "two: {match: {dscp: af21}, unused: true}"
        policy = scenario(f"{{classes: {{{first}, {two}, rest: {{match: any}}}}}}").policies["p"]
        return [*rates(policy, capacity).values()]

    # A third of 10 bit/s is 3; a tenth is 1, which leaves 9 for two; and a twentieth is nothing,
    # which counts as no ceiling.
    assert shared("10%", 10) == [1, 4, 4]
    assert shared("5%", 10) == [3, 3, 3]
    assert shared("20%", 10) == [2, 4, 4]
    # 3 of 11 is a third already, rounded down.
    assert shared("28%", 11) == [3, 3, 3]


def test_a_ceiling_is_the_least_of_limit_and_shaper() -> None:
    def shared(**one: Any) -> list[float | None]:
        # As other settings are, both ceilings are known before rules refuse them.
        shaped = {"match": {"dscp": "af11"}, "shape": {"rate": "30 Mbps", "burst": "9 kB"}, **one}
        policy = Policy.model_validate({"classes": {"one": shaped, "rest": {"match": "any"}}})
        found = rates(policy, 100 * MB).values()
        return [None if rate is None else rate / MB for rate in found]

    assert shared(limit="20%") == [20, 80]
    assert shared(limit="40%") == [30, 70]
    # A guarantee is not bounded by it, and neither is what a strict class has.
    assert shared(bandwidth="50%") == [50, 50]
    policed = {"rate": "40 Mbps", "burst": "9 kB"}
    assert shared(priority="strict", police=policed) == [40, 60]
    assert shared(priority="strict") == [None, 100]
    # What discards its packets takes nothing, and leaves nothing.
    assert shared(police={**policed, "conform": "drop"}) == [100, 100]


def test_a_class_that_discards_has_something_of_any_link() -> None:
    gone = (
        "gone: {match: {dscp: cs1}, unused: true, police: {rate: 5 Mbps, burst: 9 kB, "
        "conform: drop}}"
    )
    policy = scenario(f"{{classes: {{{gone}, {RESTS}}}}}").policies["p"]
    assert [*rates(policy, 1).values()] == [1, 0, 0]
    assert [*rates(policy, 5).values()] == [2, 2, 2]
    alone = scenario(f"{{classes: {{{gone}, all: {{match: any, bandwidth: 100%}}}}}}").policies["p"]
    assert [*rates(alone, 100).values()] == [1, 100]


NESTED = """{classes: {
  voice: {match: {dscp: ef}, unused: true, priority: strict},
  gold: {match: {dscp: [af11, af12]}, unused: true, bandwidth: 40%, classes: {
    one: {match: {dscp: af11}, unused: true, bandwidth: 75%}, two: {match: any}}},
  rest: {match: any}}}"""


def test_a_walk_goes_down_with_the_bandwidth_of_each_class() -> None:
    run = scenario(NESTED.replace("\n", " "))
    found = [
        (placed.path, placed.name, placed.capacity / MB)
        for placed in walk(run, run.policies["p"], 100 * MB)
    ]
    assert found == [
        ("voice", "voice", 100),
        ("gold", "gold", 100),
        ("gold/one", "one", 40),
        ("gold/two", "two", 40),
        ("rest", "rest", 100),
    ]
    inner = [placed.policy for placed in walk(run, run.policies["p"], 100 * MB)][2]
    assert rates(inner, 40 * MB) == {"one": 30 * MB, "two": 10 * MB}


def test_a_strict_class_is_divided_by_all_of_the_bandwidth() -> None:
    inner = "classes: {one: {match: any, bandwidth: 50%}}"
    run = scenario(
        f"{{classes: {{voice: {{match: {{dscp: ef}}, unused: true, priority: strict, {inner}}}, "
        "rest: {match: any}}}"
    )
    found = {placed.path: placed.capacity for placed in walk(run, run.policies["p"], 80 * MB)}
    assert found == {"voice": 80 * MB, "voice/one": 80 * MB, "rest": 80 * MB}


def test_the_root_of_a_policy_is_what_it_divides() -> None:
    run = scenario(
        "{scheduler: htb, htb: {rate: 30 Mbps}, classes: {one: {match: {dscp: af11}, unused: true, "
        "bandwidth: 50%}, rest: {match: any, bandwidth: 50%}}}",
        "changes: [{at: 1 s, on: r>s, rate: 20 Mbps}, {at: 2 s, on: r>s, policy: none}]",
    )
    placed = list(walk(run, run.policies["p"], 100 * MB))
    assert [each.capacity for each in placed] == [30 * MB, 30 * MB]
    # A node sends no faster than its link and the root.
    assert sending_rate(run, NetworkState(run), "r>s") == 30 * MB
    assert sending_rate(run, NetworkState(run), "s>r") == 100 * MB
    # A link that is slower now than the root is the narrower one.
    state = NetworkState(run)
    found = [
        (step.policy, sending_rate(run, state, "r>s") // MB) for step in state.steps(run.changes)
    ]
    assert found == [("p", 20), (None, 20)]


# Service curves


def test_curves_of_a_class() -> None:
    run = scenario(
        "{scheduler: hfsc, classes: {one: {match: {dscp: af11}, unused: true, realtime: "
        "{m1: 8 Mbps, d: 10 ms, m2: 2 Mbps}, upperlimit: {rate: 50%}, bandwidth: 30%}, "
        "rest: {match: any, linkshare: {m1: 4 Mbps, d: 5 ms, m2: 10%}}}}"
    )
    one, rest = run.policies["p"].classes.values()
    found = service_curves(one, 30 * MB, 100 * MB)
    assert found.realtime == Slopes(8 * MB, 10 * MS, 2 * MB)
    assert found.linkshare == linear(30 * MB) == Slopes(30 * MB, 0, 30 * MB)
    assert found.upperlimit == Slopes(50 * MB, 0, 50 * MB)
    assert [word for word, _ in found.stated()] == ["rt", "ls", "ul"]
    assert [*service_curves(rest, 30 * MB, 100 * MB).stated()] == [
        ("ls", Slopes(4 * MB, 5 * MS, 10 * MB))
    ]
    # A share is not zero.
    assert service_curves(one, 0, 100 * MB).linkshare == linear(1)


@pytest.mark.parametrize(
    ("curves", "expected"),
    [
        # At 10 ms 80 kb of the first and 10 kb of the second: 9 Mb/s; in the long run 3.
        ([Slopes(8 * MB, 10 * MS, 2 * MB), linear(MB)], 9 * MB),
        # Convex: nothing before 10 ms, 3 Mb/s and 1 in the long run.
        ([Slopes(0, 10 * MS, 3 * MB), linear(MB)], 4 * MB),
        # Two knees: at 10 ms (40 + 20) kb, 6 Mb/s; at 20 ms (50 + 40) kb, 4.5 Mb/s.
        ([Slopes(4 * MB, 10 * MS, MB), Slopes(2 * MB, 20 * MS, MB)], 6 * MB),
        # Rounded up: 10 · 1 + 1 in 3 ps is a mean of 11/3.
        ([Slopes(1, 2, 9)], 9),
        ([Slopes(5, 2, 1), Slopes(0, 3, 1)], 5),
    ],
)
def test_the_steepest_mean_is_at_a_knee_or_at_the_end(curves: list[Slopes], expected: int) -> None:
    assert steepest(curves) == expected


def test_a_mean_rate_is_rounded_up() -> None:
    # In 3 ps 5 · 2 + 1 = 11 of the first and 0 of the second; 10 in 2 ps.
    assert steepest([Slopes(5, 3, 1), Slopes(2, 2, 1)]) == 7
    assert steepest([Slopes(3, 2, 1), Slopes(2, 3, 1)]) == 5  # 10 in 2, then (7 + 6) / 3 = 4.3


def test_curves_below_a_limit() -> None:
    limit = Slopes(8 * MB, 10 * MS, 4 * MB)
    assert are_below([Slopes(8 * MB, 10 * MS, 4 * MB)], limit)
    assert are_below([linear(3 * MB), linear(MB)], limit)
    assert not are_below([linear(3 * MB), linear(MB + 1)], limit)
    # Above it at 20 ms: 120 kb of 8 · 10 + 4 · 10.
    assert are_below([Slopes(6 * MB, 20 * MS, 4 * MB)], limit)
    assert not are_below([Slopes(6 * MB, 20 * MS + 1, 4 * MB)], limit)
    # At the knee of the limit: 80 kb.
    assert not are_below([Slopes(8 * MB + 1, 5 * MS, 8 * MB), linear(1)], limit)
    assert not are_below([Slopes(9 * MB, 10 * MS, MB)], limit)
    # Two together, at the knee of a limit that is far above them later: 30 of 20 kb.
    assert not are_below([linear(3 * MB // 2)] * 2, Slopes(2 * MB, 10 * MS, 8 * MB))


# Nesting


def test_policies_below_others() -> None:
    text = TEXT.replace(
        "  p: {POLICY}",
        "  p: {classes: {one: {match: {dscp: af11}, unused: true, policy: q}, all: {match: any, "
        "classes: {inner: {match: {dscp: af12}, unused: true, policy: r}, all: {match: any}}}}}\n"
        "  q: {classes: {all: {match: any, policy: s}}}\n"
        "  r: {classes: {all: {match: any}}}\n"
        "  s: {classes: {all: {match: any}}}\n"
        "  t: {unused: true, classes: {all: {match: any}}}",
    )
    run = parse(text.replace("MORE", ""), "x.yaml")
    assert with_nested(run, ["p"]) == {"p", "q", "r", "s"}
    assert with_nested(run, ["q", "nothing"]) == {"q", "s"}
    assert list(references(run.policies["p"])) == [
        (("one",), "q"),
        (("all", "classes", "inner"), "r"),
    ]
    assert list(cycles(run)) == []


# Changes


CHANGES = """\
changes:
  - {at: 1 s, on: r>s, class: voice, police: {rate: 5 Mbps}}
  - {at: 2 s, on: r>s, class: voice, police: {burst: 3 kB}}
  - {at: 3 s, on: r>s, policy: none}
  - {at: 4 s, on: r>s, policy: p}
  - {at: 5 s, on: r>s, class: voice, police: {burst: 4 kB}}
"""
VOICE = (
    "{classes: {voice: {match: {dscp: ef}, unused: true, priority: strict, "
    "police: {rate: 10%, burst: 10 kB}}, rest: {match: any}}}"
)


def test_a_new_policy_begins_with_its_own_policers() -> None:
    found = list(steps(scenario(VOICE, CHANGES)))
    given: list[dict[str, Any]] = [
        {name: change.given for name, change in step.police.items()} for step in found
    ]
    assert given == [
        {"voice": {"rate": found[0].change.police.rate}},  # type: ignore[union-attr]
        {"voice": {"rate": found[0].change.police.rate, "burst": 3000}},  # type: ignore[union-attr]
        {},
        {},
        {"voice": {"burst": 4000}},
    ]
    assert [step.policy for step in found] == ["p", "p", None, "p", "p"]
    assert [step.loc for step in found] == [("changes", index) for index in range(5)]
    assert [(step.number, step.node, step.capacity) for step in found] == [(1, "r", 100 * MB)] * 5
    assert all(step.rewired == () for step in found)


def test_a_change_of_one_class_keeps_those_of_others() -> None:
    policed = "priority: strict, police: {rate: 10%, burst: 10 kB}"
    policy = (
        f"{{classes: {{one: {{match: {{dscp: ef}}, unused: true, {policed}}}, two: {{match: "
        f"{{dscp: cs5}}, unused: true, {policed}}}, rest: {{match: any}}}}}}"
    )
    changes = (
        "changes: [{at: 1 s, on: r>s, class: one, police: {burst: 3 kB}}, "
        "{at: 2 s, on: r>s, class: two, police: {burst: 4 kB}}]"
    )
    run = scenario(policy, changes)
    (_, last) = steps(run)
    assert {name: change.burst for name, change in last.police.items()} == {
        "one": 3000,
        "two": 4000,
    }
    # The state of another direction is its own, and so is that of a copy.
    state = NetworkState(run)
    copied = state.copy()
    list(state.steps(run.changes))
    assert copied.police == {name: {} for name in run.directions}
    assert state.police["s>r"] == {}


def test_one_value_changes_both_directions_unless_the_link_has_two() -> None:
    more = """\
changes:
  - {at: 1 s, on: r>s, rate: 50 Mbps, delay: 1 ms}
  - {at: 2 s, on: s>r, rate: {s: 20 Mbps}}
  - {at: 3 s, on: r>s, loss: 1%}
"""
    one, two, three = steps(scenario(more=more))
    media = [[medium.rate // MB for medium in step.link.media] for step in (one, two, three)]
    assert media == [[50, 50], [50, 20], [50, 20]]
    assert [medium.delay for medium in one.link.media] == [MS, MS]
    assert one.rewired == (("r>s", "r"), ("s>r", "s"))
    assert two.rewired == (("s>r", "s"),)
    assert [medium.loss for medium in two.link.media] == [0, 0]
    assert three.link.medium("r").loss == three.link.medium("s").loss != 0
    # A link that states its rate by end: one value is that of the direction.
    text = TEXT.replace("rate: 100 Mbps, delay", "rate: {r: 100 Mbps, s: 10 Mbps}, delay")
    text = text.replace("POLICY", "classes: {all: {match: any}}")
    (step,) = steps(
        parse(text.replace("MORE", "changes: [{at: 1 s, on: r>s, rate: 40 Mbps}]"), "x")
    )
    assert [medium.rate // MB for medium in step.link.media] == [40, 10]
    assert step.rewired == (("r>s", "r"),)


def test_a_link_that_is_down_is_so_until_it_is_up() -> None:
    more = """\
changes:
  - {at: 3 s, on: r>s, state: up}
  - {at: 1 s, on: s>r, state: down}
  - {at: 2 s, on: s>b, state: down}
  - {at: 2 s, on: r>s, rate: 10 Mbps}
"""
    run = scenario(more=more)
    found = [(at // 10**12, set(state.down)) for at, state in states(run)]
    assert found == [(0, set()), (1, {1}), (2, {1, 2}), (3, {2})]
    state = NetworkState(run)
    assert [state.number(name) for name in run.directions] == [0, 0, 1, 1, 2, 2]
    copied = state.copy()
    list(state.steps(run.changes))
    assert copied.links[1] == run.links[1] != state.links[1]
    assert copied.down == set()
    assert sending_rate(run, state, "r>s") == 10 * MB


def test_a_share_in_a_shaper_is_that_of_the_first_rate() -> None:
    text = TEXT.replace("delay: 5 ms,", "delay: 5 ms, shape: {r: {rate: 40%, burst: 10 kB}},")
    text = text.replace("POLICY", "classes: {all: {match: any}}")
    more = "changes: [{at: 1 s, on: r>s, rate: 50 Mbps}, {at: 2 s, on: r>s, rate: 10 Mbps}]"
    run = parse(text.replace("MORE", more), "x.yaml")
    state = NetworkState(run)
    found = [sending_rate(run, state, "r>s") // MB]
    found += [sending_rate(run, state, "r>s") // MB for _ in state.steps(run.changes)]
    assert found == [40, 40, 10]


def test_policies_that_are_used_at_some_time() -> None:
    text = TEXT.replace("POLICY", "classes: {all: {match: any}}").replace(
        "flows:", "  q: {classes: {all: {match: any}, }}\nflows:"
    )
    more = "changes: [{at: 1 s, on: s>b, policy: q}, {at: 2 s, on: s>b, policy: none}]"
    run = parse(text.replace("MORE", more), "x.yaml")
    assert list(attachments(run)) == [
        (("links", 1, "egress", "r"), "r>s", "p", 100 * MB),
        (("changes", 0, "policy"), "s>b", "q", 1000 * MB),
    ]


def test_the_class_that_a_change_names() -> None:
    run = scenario(VOICE, CHANGES)
    first, _, none, *_ = steps(run)
    placed = changed_class(run, first)
    assert not isinstance(placed, list) and placed.path == "voice"
    assert changed_class(run, none) == []
