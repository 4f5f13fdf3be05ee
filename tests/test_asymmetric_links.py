"""Links whose two directions differ, from a scenario to its results."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import perhop
from conftest import SLOW
from perhop import analysis, report
from perhop.engines.plan import network_plan
from perhop.errors import ScenarioError
from perhop.linux.mapping import mapping
from perhop.routers.writing import write
from perhop.scenario import Scenario, dump, json_schema, parse
from perhop.scenario.resolve import next_hops, steps

DSL = """
perhop: 1
name: dsl
nodes: {home: host, edge: router, isp: router, server: host}
links:
  - {ends: [home, edge], rate: 1 Gbps}
  - ends: [edge, isp]
    rate: {edge: 2 Mbps, isp: 20 Mbps}
    delay: {isp: 10 ms}
    queue: {edge: {limit: 20 packets}}
  - {ends: [isp, server], rate: 1 Gbps}
flows:
  down: {from: server, to: home, udp: {rate: 50 Mbps, size: 972 B}}
  up: {from: home, to: server, udp: {rate: 50 Mbps, size: 972 B}}
pings:
  idle: {from: home, to: server, stop: 1 s, every: 100 ms}
duration: 4 s
"""
FROM_1_S = DSL.replace("972 B}}", "972 B}, start: 1 s}").replace(
    "duration:", "report: {interval: 500 ms}\nduration:"
)


def mbps(dataset: perhop.Dataset, flow: str, start: float, end: float) -> float:
    found = analysis.throughput(dataset, flow, (start, end))
    assert found is not None
    return found / 1e6


def test_each_direction_has_its_own_rate_delay_and_queue() -> None:
    """The rates, the delays and the drain times of the queues, by arithmetic."""
    dataset = perhop.run(parse(FROM_1_S))
    payload = 972 / 1000
    assert mbps(dataset, "up", 2, 4) == pytest.approx(2 * payload, rel=0.01)
    assert mbps(dataset, "down", 2, 4) == pytest.approx(20 * payload, rel=0.01)
    times = dataset.pings["rtt_s"].drop_nulls()
    # 84 B on each link in each direction, and 10 ms back.
    wire = 84 * 8 * (4 / 1e9 + 1 / 2e6 + 1 / 20e6)
    assert times.max() == pytest.approx(0.010 + wire, abs=1e-9)
    up, down = (analysis.owd(dataset, flow, (3, 4)) for flow in ("up", "down"))
    assert up is not None and down is not None
    # A full queue: 20 packets of 1000 B at 2 Mb/s, and 1000 packets at 20 Mb/s.
    assert up.mean == pytest.approx(21 * 8e3 / 2e6, rel=0.05)
    assert down.mean == pytest.approx(0.01 + 1000 * 8e3 / 20e6, rel=0.05)


@pytest.mark.parametrize("key", ["rate", "delay", "jitter", "loss", "duplicate", "overhead"])
def test_equal_values_of_both_ends_are_one_value(key: str) -> None:
    value = {"rate": "2 Mbps", "delay": "3 ms", "jitter": "1 ms", "overhead": "atm"}.get(key, "2%")
    line = "  - {ends: [edge, isp], rate: 2 Mbps, "
    one = DSL.replace(DSL[DSL.index("  - ends") : DSL.index("  - {ends: [isp")], line + "X}\n")
    if key == "rate":
        one = one.replace("rate: 2 Mbps, X", "X")
    plain = parse(one.replace("X", f"{key}: {value}"))
    split = parse(one.replace("X", f"{key}: {{isp: {value}, edge: {value}}}"))
    assert network_plan(plain, 1) == network_plan(split, 1)
    assert parse(dump(split)) == split


def test_a_change_of_an_asymmetric_link_is_that_of_one_direction() -> None:
    scenario = parse(
        DSL + "changes:\n"
        "  - {at: 1 s, on: edge>isp, rate: 1 Mbps}\n"  # by end in the link: this direction
        "  - {at: 2 s, on: edge>isp, rate: {isp: 5 Mbps}}\n"
        "  - {at: 3 s, on: edge>isp, loss: 10%}\n"  # one value in the link: both
    )
    rewired = [[name for name, _ in step.rewired] for step in steps(scenario)]
    assert rewired == [["edge>isp"], ["isp>edge"], ["edge>isp", "isp>edge"]]
    dataset = perhop.run(scenario)
    payload = 972 / 1000
    for start, up, down in ((0, 2, 20), (1, 1, 20), (2, 1, 5)):
        found = [mbps(dataset, flow, start, start + 1) for flow in ("up", "down")]
        assert found == pytest.approx([up * payload, down * payload], rel=0.05)
    assert report.text.change(scenario.changes[1]) == "edge>isp: 5.00 Mb/s from isp"


def test_paths_count_the_delays_towards_the_destination() -> None:
    """Packets take the way that is short for them, and answers may take another one."""
    text = """
perhop: 1
name: square
nodes: {a: router, b: router, c: router, d: router}
links:
  - {ends: [a, b], rate: 1 Gbps, delay: {a: 1 ms, b: 9 ms}}
  - {ends: [b, d], rate: 1 Gbps}
  - {ends: [a, c], rate: 1 Gbps, delay: {a: 9 ms, c: 1 ms}}
  - {ends: [c, d], rate: 1 Gbps}
"""
    found = next_hops(parse(text))
    assert (found["a"]["d"], found["d"]["a"]) == (("a>b",), ("d>c",))


@given(st.lists(st.tuples(*[st.integers(0, 5)] * 2), min_size=5, max_size=5))
def test_paths_are_the_shortest_of_the_directed_graph(delays: list[tuple[int, int]]) -> None:
    """Floyd and Warshall's algorithm on the directed graph has the same next hops."""
    pairs = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "a"), ("a", "c")]
    links = [
        f"  - {{ends: [{x}, {y}], rate: 1 Gbps, delay: {{{x}: {there} ms, {y}: {back} ms}}}}\n"
        for (x, y), (there, back) in zip(pairs, delays, strict=True)
    ]
    nodes = "nodes: {a: router, b: router, c: router, d: router}"
    scenario = parse(f"perhop: 1\nname: ring\n{nodes}\nlinks:\n{''.join(links)}")
    edge = {
        (x, y): (1, delay)
        for (first, second), (there, back) in zip(pairs, delays, strict=True)
        for x, y, delay in ((first, second, there), (second, first, back))
    }
    far = (99, 0)
    distance = {(x, y): edge.get((x, y), (0, 0) if x == y else far) for x in "abcd" for y in "abcd"}

    def add(one: tuple[int, int], two: tuple[int, int]) -> tuple[int, int]:
        return one[0] + two[0], one[1] + two[1]

    for via in "abcd":
        for x, y in distance:
            distance[x, y] = min(distance[x, y], add(distance[x, via], distance[via, y]))
    for node, ways in next_hops(scenario).items():
        for destination, names in ways.items():
            best = {
                f"{x}>{y}"
                for (x, y), length in edge.items()
                if x == node and add(length, distance[y, destination]) == distance[x, destination]
            }
            assert {*names} == best


def test_linux_and_routers_get_the_rate_of_each_direction() -> None:
    scenario = parse(DSL)
    interfaces = mapping(scenario).interfaces
    rates = [interfaces[name].htb.nodes[0].settings.ceil for name in ("edge>isp", "isp>edge")]
    assert rates == [2_000_000, 20_000_000]
    assert "bandwidth 2000" in write(scenario, "ios", links=["edge>isp"])[0]


def test_a_queue_of_an_end_may_have_all_defaults() -> None:
    text = DSL.replace("{edge: {limit: 20 packets}}", "{edge: {limit: 20 packets}, isp: {}}")
    link = parse(text).links[1]
    assert link.queue_of("edge").limit != link.queue_of("isp").limit
    assert parse(dump(parse(text))) == parse(text)
    both = parse(DSL.replace("{edge: {limit: 20 packets}}", "{edge: {}, isp: {}}")).links[1]
    assert both.queue_of("edge") == both.queue_of("isp") == link.queue_of("isp")
    with pytest.raises(ScenarioError, match="did you mean `fq-codel`"):
        parse(DSL.replace("{edge: {limit: 20 packets}}", "{fq_codel: {}}"))


def test_a_node_may_have_the_name_of_a_key() -> None:
    """`drop` is a key of a queue, too."""
    text = DSL.replace("isp", "drop").replace(
        "queue: {edge: {limit: 20 packets}}",
        "queue: {edge: {limit: 20 packets}, drop: {limit: 30 packets, drop: head}}",
    )
    scenario = parse(text)
    queues = [scenario.links[1].queue_of(end) for end in scenario.links[1].ends]
    assert [queue.drop for queue in queues] == ["tail", "head"]
    assert parse(dump(scenario)) == scenario
    one = parse(DSL.replace("isp", "drop").replace("{edge: {limit: 20 packets}}", "{drop: head}"))
    assert {one.links[1].queue_of(end).drop for end in one.links[1].ends} == {"head"}


@SLOW
def test_the_schema_takes_both_forms() -> None:
    rate = json_schema()["$defs"]["Link"]["properties"]["rate"]["anyOf"]
    assert [form.get("type") for form in rate] == ["string", "object"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("edge: 2 Mbps,", "edg: 2 Mbps,", "`edg` is not an end of this link; expected `edge`"),
        ("{isp: 10 ms}", "{x: 10 ms}", "`edge` or `isp`, or one value for both directions"),
        ("edge: 2 Mbps, ", "", "has no rate for `edge`; expected one for each sending end"),
        ("isp: 20 Mbps", "isp: 20", "needs a unit"),
        ("{isp: 10 ms}", "{ips: 10 ms}", "did you mean `isp`?"),
        ("{isp: 10 ms}", "{}", "links.1.delay: is empty; expected a duration"),
        ("delay: {isp: 10 ms}", "loss: {}", "links.1.loss.gilbert: is missing"),
        ("{edge: {limit", "{edge: {limt", "links.1.queue.edge: unknown key"),
        ("{edge: {limit: 20 packets}}", "{limt: 3 packets}", "did you mean `limit`?"),
    ],
)
def test_wrong_ends_and_values_are_named(old: str, new: str, message: str) -> None:
    with pytest.raises(ScenarioError) as error:
        parse(DSL.replace(old, new))
    assert message in str(error.value)


def test_a_change_of_an_unknown_end_is_named() -> None:
    with pytest.raises(ScenarioError, match=r"changes.0.rate.ips: `ips` is not an end"):
        parse(DSL + "changes: [{at: 1 s, on: edge>isp, rate: {ips: 1 Mbps}}]\n")


def test_python_takes_what_a_file_does() -> None:
    rate, reorder = {"a": "1 Mbps", "b": "2 Mbps"}, {"a": {"share": "1%", "by": "5 ms"}}
    link = {"ends": ("a", "b"), "rate": rate, "reorder": reorder}
    scenario = Scenario(perhop=1, name="x", nodes={"a": "host", "b": "host"}, links=[link])  # type: ignore[arg-type, dict-item]
    there, back = scenario.links[0].media
    assert (there.rate, back.rate, back.reorder) == (10**6, 2 * 10**6, None)
    assert there.reorder is not None
