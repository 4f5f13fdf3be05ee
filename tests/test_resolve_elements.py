"""Places of elements, nesting, regions and devices, read from the scenario by hand."""

from __future__ import annotations

from typing import Any

import pytest

from perhop.scenario import Scenario, parse
from perhop.scenario.model.classes import Class
from perhop.scenario.model.network import Limit
from perhop.scenario.resolve import NetworkState, elements, next_hops, states, steps
from perhop.scenario.resolve.nesting import cycles, has_cycles, with_nested
from perhop.scenario.resolve.paths import regions
from perhop.scenario.resolve.steps import attachments, changed_class
from perhop.scenario.resolve.tunnels import entered

MB = 1_000_000
S = 10**12
"""A second in picoseconds."""

TEXT = """\
perhop: 1
name: elements
duration: 10 s
nodes: {a: host, r: {kind: router, remark: [{match: {pcp: 3}, dscp: cs1}]}, s: router, b: host}
links:
  - {ends: [a, r], rate: 1 Gbps, encapsulation: dot1q}
  - ends: [r, s]
    rate: 100 Mbps
    encapsulation: dot1q
    egress: {r: p}
    queue: {s: {limit: 9 packets}}
    remark: {s: [{match: [{mpls_tc: 1}, {dscp: ef}], dscp: cs2}]}
  - {ends: [s, b], rate: 1 Gbps, queue: {limit: 7 packets}}
policies:
  p:
    policers: {all: {match: {pcp: 1}, police: {rate: 10 Mbps, burst: 9 kB}}}
    classes:
      one:
        match: [{except: {pcp: 2}}, {dscp: af11}]
        unused: true
        police: {rate: 1 Mbps, burst: 3 kB}
        mark: {dscp: af12, pcp: 4}
        classes: {in: {match: any, queue: {limit: 5 packets}}}
      rest: {match: any}
flows: {web: {from: a, to: b}, back: {from: b, to: a, port: 80}, last: {from: a, to: b}}
pings: {echo: {from: a, to: b}}
expect: [{throughput: web, during: 1500 ms..2 s, at_least: 1 bps}]
published: [{label: x, owd_p95: web, during: 2 s..4500 ms, value: 1 ms}]
MORE
"""


def scenario(*changes: tuple[str, str], more: str = "") -> Scenario:
    text = TEXT.replace("MORE", more)
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return parse(text, "x.yaml")


def places(found: Any) -> list[str]:
    return [".".join(map(str, item[0])) for item in found]


# Elements


def test_elements_and_their_places() -> None:
    run = scenario()
    assert [each[:2] for each in elements.senders(run)] == [
        ("flows", "web"),
        ("flows", "back"),
        ("flows", "last"),
        ("pings", "echo"),
    ]
    assert places(elements.measured(run)) == ["expect.0", "published.0"]
    one, rest = "policies.p.classes.one", "policies.p.classes.rest"
    assert places(elements.classes(run)) == [one, rest, f"{one}.classes.in"]
    assert places(elements.policers(run)) == ["policies.p.policers.all"]
    assert places(elements.polices(run)) == ["policies.p.policers.all.police", f"{one}.police"]
    assert [police.burst for _, _, police in elements.polices(run)] == [9000, 3000]
    limits = {".".join(map(str, loc)): queue.limit for loc, queue in elements.queues(run)}
    assert limits == {
        "links.0.queue": Limit(1000, "packets"),
        "links.1.queue.s": Limit(9, "packets"),
        "links.2.queue": Limit(7, "packets"),
        f"{one}.classes.in.queue": Limit(5, "packets"),
    }
    rules = [(place, len(found)) for place, found in elements.markings(run)]
    assert rules == [
        (("nodes", "a", "remark"), 0),
        (("nodes", "r", "remark"), 1),
        (("nodes", "s", "remark"), 0),
        (("nodes", "b", "remark"), 0),
        (("links", 1, "remark", "s"), 1),
    ]


def test_places_of_classes_at_layer_2() -> None:
    assert [".".join(map(str, loc)) for loc in elements.link_classes(scenario())] == [
        "policies.p.classes.one.match.0.except.pcp",
        "policies.p.policers.all.match.pcp",
        "nodes.r.remark.0.match.pcp",
        "links.1.remark.s.0.match.0.mpls_tc",
        "policies.p.classes.one.mark.pcp",
    ]


def test_a_class_is_divided_by_its_classes_or_by_a_policy_that_there_is() -> None:
    run = scenario()
    policy = run.policies["p"]
    one, rest = policy.classes.values()
    inside = run.divided(policy, one)
    assert inside is not None and list(inside.classes) == ["in"]
    assert run.divided(policy, rest) is None
    other = rest.model_copy(update={"policy": "p"})
    assert run.divided(policy, other) is policy
    assert run.divided(policy, rest.model_copy(update={"policy": "q"})) is None


# Nesting


def test_cycles_of_policies() -> None:
    run = scenario(
        (
            "flows:",
            "  q: {unused: true, classes: {x: {match: any, policy: u}}}\n"
            "  u: {unused: true, classes: {y: {match: any, classes: {z: {match: any, policy: v}}}}}"
            "\n  v: {unused: true, classes: {all: {match: any}}}\nflows:",
        )
    )
    assert list(cycles(run)) == []
    assert not has_cycles(run)

    def naming(name: str, policy: str) -> Scenario:
        changed = Class.model_validate({"match": "any", "policy": name})
        again = run.policies[policy].model_copy(update={"classes": {"all": changed}})
        return run.model_copy(update={"policies": {**run.policies, policy: again}})

    # v leads back to u, of which q is no part.
    looped = naming("u", "v")
    assert list(cycles(looped)) == [[("u", ("y", "classes", "z")), ("v", ("all",))]]
    assert has_cycles(looped)
    assert with_nested(looped, ["q"]) == {"q", "u", "v"}
    assert list(cycles(naming("v", "v"))) == [[("v", ("all",))]]
    # A policy that there is not divides nothing.
    assert list(cycles(naming("w", "v"))) == []


# Networks


def test_regions_are_what_routers_join() -> None:
    text = """\
perhop: 1
name: regions
nodes: {a: host, b: host, c: host, d: host, r1: router, r2: router, r3: router, r4: router,
  t: router}
links:
  - {ends: [a, r1], rate: 1 Gbps}
  - {ends: [r3, r4], rate: 1 Gbps}
  - {ends: [r1, r2], rate: 1 Gbps}
  - {ends: [r2, r3], rate: 1 Gbps}
  - {ends: [r4, b], rate: 1 Gbps}
  - {ends: [b, c], rate: 1 Gbps}
  - {ends: [c, d], rate: 1 Gbps}
"""
    run = parse(text, "x.yaml")
    found = regions(run)
    meet = {
        f"{one}{other}" for one in "abcdt" for other in "abcdt" if one < other
        if found[one] & found[other]
    }  # fmt: skip
    # Over routers a and b; over a link of their own b and c, and c and d. Hosts do not forward.
    assert meet == {"ab", "bc", "cd"}
    assert all(found["a"] & found[f"r{number}"] for number in range(1, 5))
    # A link to a node that there is not joins nothing.
    stray = run.links[0].model_copy(update={"ends": ("t", "nowhere")})
    assert regions(run.model_copy(update={"links": (*run.links, stray)})) == found
    # Two nodes and their link are a whole network.
    alone = parse(
        "{perhop: 1, name: x, nodes: {a: host, b: host}, links: [{ends: [a, b], rate: 1 Gbps}]}"
    )
    assert regions(alone)["a"] == regions(alone)["b"] != set()


def test_ports_of_flows_count_up() -> None:
    run = scenario()
    assert [run.port_of(name) for name in ("web", "back", "last")] == [5001, 80, 5003]


def test_edges_of_windows_are_instants_of_results() -> None:
    run = scenario()
    grid = {number * S for number in range(11)}
    assert run.marks_ps == sorted(grid | {3 * S // 2, 9 * S // 2})
    # Histograms are cut at the edges of windows with their statistics.
    assert run.cuts_ps == [2 * S, 9 * S // 2]
    assert scenario(("owd_p95: web, during: 2 s..4500 ms", "owd_p95: web")).cuts_ps == []


def test_a_copy_has_values_of_its_own() -> None:
    run = scenario()
    assert (run.end_ps, run.marks_ps[-1]) == (10 * S, 10 * S)
    later = run.model_copy(update={"duration": 20 * S})
    assert (later.end_ps, later.marks_ps[-1]) == (20 * S, 20 * S)
    assert run.without_background() is run
    # Nothing stops: nothing is known of the end.
    assert run.model_copy(update={"duration": None}).end_ps == 0


def test_a_network_without_its_background_is_as_it_was_written() -> None:
    background = "background: {noise: {link: r>s, load: 10%}, more: {link: b>s, load: 1%}}"
    run = scenario(more=background)
    assert [*run.nodes] == ["a", "r", "s", "b", "noise-from", "noise-to", "more-to"]
    assert [link.ends for link in run.links[3:]] == [
        ("noise-from", "r"),
        ("noise-to", "s"),
        ("more-to", "s"),
    ]
    assert [*run.flows] == ["web", "back", "last", "noise", "more"]
    assert run.without_background() == scenario()
    # Values that follow know what is added.
    assert list(run.directions)[6:8] == ["noise-from>r", "r>noise-from"]
    assert (run.port_of("more"), len(run.addresses)) == (5005, 7)


TUNNELS = """\
tunnels:
  vpn: {ends: [r, s], type: gre, shape: {s: {rate: 2 Mbps}, r: {rate: 30 Mbps}}, egress: {r: p}}
  bare: {ends: [a, s], type: gre}
"""


def test_devices_of_tunnels_queue_where_they_shape_or_divide() -> None:
    run = scenario(("egress: {r: p}\n    queue", "queue"), more=TUNNELS)
    half = run.tunnels["vpn"].model_copy(update={"shape": {}})
    half = half.model_copy(update={"egress": {"r": "p"}})
    other = run.model_copy(update={"tunnels": {**run.tunnels, "vpn": half}})
    assert list(other.devices) == ["r>s#vpn"]
    # A device has no rate but the most that can be shared, or that of its shaper.
    assert [capacity for *_, capacity in attachments(other)] == [2**48]
    assert [(name, node) for name, (_, node) in run.devices.items()] == [
        ("r>s#vpn", "r"),
        ("s>r#vpn", "s"),
    ]
    assert list(run.queueing) == ["a>r", "r>a", "r>s", "s>r", "s>b", "b>s", "r>s#vpn", "s>r#vpn"]
    assert list(attachments(run)) == [(("tunnels", "vpn", "egress", "r"), "r>s#vpn", "p", 30 * MB)]


def test_an_attachment_at_a_node_that_is_no_end_is_none() -> None:
    run = scenario()
    link = run.links[1].model_copy(update={"egress": {"r": "p", "b": "p"}})
    run = run.model_copy(update={"links": (run.links[0], link, run.links[2])})
    assert [loc for loc, *_ in attachments(run)] == [("links", 1, "egress", "r")]


def test_a_change_of_an_unknown_class_has_the_names_of_all() -> None:
    run = scenario(more="changes: [{at: 1 s, on: r>s, class: one, police: {burst: 4 kB}}]")
    (step,) = steps(run)
    other = step.change.model_copy(update={"class_": "two"})
    (step,) = steps(run.model_copy(update={"changes": (other,)}))
    assert changed_class(run, step) == ["one", "one/in", "rest"]


def test_one_value_is_that_of_both_ends_again_after_two_values() -> None:
    more = (
        "changes: [{at: 1 s, on: r>s, rate: {s: 20 Mbps}}, {at: 2 s, on: r>s, rate: 30 Mbps}, "
        "{at: 3 s, on: r>s, rate: {r: 40 Mbps, s: 40 Mbps}}]"
    )
    found = list(steps(scenario(more=more)))
    assert [[medium.rate // MB for medium in step.link.media] for step in found] == [
        [100, 20],
        [30, 30],
        [40, 40],
    ]
    assert [len(step.rewired) for step in found] == [1, 2, 2]
    # Equal values of both ends are one.
    assert [step.link.rate for step in found][1:] == [30 * MB, 40 * MB]


def test_changes_at_one_instant_are_one_state() -> None:
    more = (
        "changes: [{at: 2 s, on: r>s, rate: 30 Mbps}, {at: 1 s, on: s>b, state: down}, "
        "{at: 2 s, on: s>b, state: up}]"
    )
    run = scenario(more=more)
    found = [
        (at // S, set(state.down), state.links[1].medium("r").rate // MB)
        for at, state in states(run)
    ]
    assert found == [(0, set(), 100), (1, {2}, 100), (2, set(), 30)]
    first = NetworkState(run)
    copied = first.copy()
    copied.apply(run.changes[1])
    assert (first.down, copied.down) == (set(), {2})


@pytest.mark.parametrize("order", [("one", "two"), ("two", "one")])
def test_of_tunnels_that_end_as_far_the_first_is_entered(order: tuple[str, str]) -> None:
    """Shortest paths from r lead to s and t, which are as near, and meet at u."""
    ends = {"one": "[r, s]", "two": "[r, t]"}
    listed = ", ".join(f"{name}: {{ends: {ends[name]}, type: gre}}" for name in order)
    text = f"""\
perhop: 1
name: fork
nodes: {{a: host, r: router, s: router, t: router, u: router, b: host}}
links:
  - {{ends: [a, r], rate: 1 Gbps}}
  - {{ends: [r, s], rate: 1 Gbps}}
  - {{ends: [r, t], rate: 1 Gbps}}
  - {{ends: [s, u], rate: 1 Gbps}}
  - {{ends: [t, u], rate: 1 Gbps}}
  - {{ends: [u, b], rate: 1 Gbps}}
tunnels: {{{listed}LAST}}
flows: {{f: {{from: a, to: b, stop: 1 s}}}}
"""
    run = parse(text.replace("LAST", ""), "x.yaml")
    assert entered(run, next_hops(run), "r", "b") is run.tunnels[order[0]]
    run = parse(text.replace("LAST", ", far: {ends: [u, r], type: gre}"), "x.yaml")
    assert entered(run, next_hops(run), "r", "b") is run.tunnels["far"]
    assert entered(run, next_hops(run), "r", "u") is run.tunnels[order[0]]
