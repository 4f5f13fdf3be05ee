"""The model of a valid scenario, and its round trip through a file."""

import json
from ipaddress import IPv4Address, IPv4Network
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conftest import SLOW
from perhop import units
from perhop.errors import ScenarioError
from perhop.scenario import (
    METRICS,
    Bandwidth,
    Limit,
    Link,
    Node,
    Overhead,
    Scenario,
    dump,
    load,
    parse,
    to_mapping,
)
from perhop.scenario.model.tcp import STACKS, TIMED, Tcp, TcpSettings
from perhop.units import SECOND, parse_duration, parse_rate

VALID = Path(__file__).parent / "valid.yaml"


@pytest.fixture(scope="module")
def scenario() -> Scenario:
    return load(VALID)


def test_fields_are_whole_numbers_of_base_units(scenario: Scenario) -> None:
    link = scenario.links[2]
    assert link.rate == 10**9
    assert link.loss == units.WHOLE // 1000
    assert link.overhead == Overhead(38)
    assert scenario.links[1].delay == 5 * units.MILLISECOND
    voice, bulk, rest = scenario.policies["edge"].classes.values()
    assert voice.match.dscp == (46,)
    assert voice.police is not None
    assert voice.police.rate == Bandwidth(rate=1_000_000)
    assert voice.police.exceed.remark is None
    assert bulk.effective_queue.limit == Limit(64, "packets")
    assert rest.match.is_any
    assert rest.bandwidth is not None
    assert rest.bandwidth.of(10_000_001) == 5_000_000
    assert scenario.policies["inner"].classes["web"].match.port == ((5000, 5010),)
    assert scenario.links[0].queue.limit == Limit(1000, "packets")


def test_flows_have_ports_times_and_a_transport(scenario: Scenario) -> None:
    bulk, call, web = scenario.flows.values()
    assert [scenario.port_of(name) for name in scenario.flows] == [5001, 5002, 5005]
    assert scenario.active_ps(bulk) == (0, 20 * SECOND)
    assert scenario.active_ps(web) == (0, 20 * SECOND)
    assert bulk.tcp is not None
    assert bulk.tcp.effective_send_window == 65536
    assert call.tcp is None
    assert web.tcp is not None
    assert web.tcp.effective_receive_window == 4 * 2**20


def test_instants(scenario: Scenario) -> None:
    assert scenario.end_ps == 20 * SECOND
    assert scenario.changes_ps == [0, 10 * SECOND, 20 * SECOND]
    assert scenario.phases_ps == [(0, 10 * SECOND), (10 * SECOND, 20 * SECOND)]
    assert scenario.marks_ps == [second * SECOND for second in range(21)]


def test_marks_include_edges_changes_and_a_last_short_interval() -> None:
    scenario = parse(
        VALID.read_text(),
        overrides=["report.interval=3 s", "expect.0.during=0.5 s..7.25 s", "flows.call.stop=8 s"],
    )
    shown = [units.format_duration(mark) for mark in scenario.marks_ps]
    assert shown == ["0 s", "500 ms", "3 s", "6 s", "7.25 s", "8 s"] + [
        f"{s} s" for s in (9, 12, 15, 18, 20)
    ]


def test_an_interval_that_nearly_divides_the_duration_makes_no_short_stretch() -> None:
    """The last stretch had 13 ps, in which a link was busy 1,230,769 times."""
    text = """
perhop: 1
name: x
nodes: {a: host, b: host}
links: [{ends: [a, b], rate: 13 Mbps}]
flows: {f: {from: a, to: b, start: 1 ns}}
duration: 133.333333333333 s
report: {interval: 13.333333333332 s}
"""
    marks = parse(text).marks_ps
    assert marks[:3] == [0, 1000, 13333333333332]
    assert marks[-2:] == [13333333333332 * 9, 133333333333333]
    assert parse(text.replace("133.333333333333", "133.34")).marks_ps[-2:] == [
        13333333333332 * 10,
        133340000000000,
    ]


def test_the_last_stop_is_the_default_end() -> None:
    text = """
perhop: 1
name: x
nodes: {a: host, b: host}
links: [{ends: [a, b], rate: 1 Mbps}]
flows: {f: {from: a, to: b, start: 2 s, stop: 5 s}}
pings: {p: {from: a, to: b, stop: 7 s}}
"""
    scenario = parse(text)
    assert scenario.end_ps == 7 * SECOND
    assert scenario.changes_ps == [2 * SECOND, 5 * SECOND]
    assert scenario.phases_ps == [
        (0, 2 * SECOND),
        (2 * SECOND, 5 * SECOND),
        (5 * SECOND, 7 * SECOND),
    ]


def test_addresses_skip_those_that_are_taken() -> None:
    scenario = parse(VALID.read_text(), overrides={"nodes.r2": "{kind: router, address: 10.0.0.2}"})
    assert {name: str(address) for name, address in scenario.addresses.items()} == {
        "a": "10.0.0.1",
        "b": "10.0.0.3",
        "c": "10.0.0.4",
        "r1": "10.0.0.5",
        "r2": "10.0.0.2",
    }
    assert scenario.address_of("b") == IPv4Address("10.0.0.3")
    assert scenario.prefixes(("b", IPv4Network("192.0.2.0/24"))) == (
        IPv4Network("10.0.0.3/32"),
        IPv4Network("192.0.2.0/24"),
    )


def test_directed_links(scenario: Scenario) -> None:
    assert scenario.links[1].other("r1") == "r2"
    assert scenario.directions["r2>r1"] == (scenario.links[1], "r2")
    assert list(scenario.directions)[:4] == ["a>r1", "r1>a", "r1>r2", "r2>r1"]


def test_parallel_links_have_names_of_their_own() -> None:
    more = "\n  - {ends: [r2, r1], rate: 1 Gbps}\n  - {ends: [r1, r2], rate: 1 Gbps, name: south}"
    overhead = "overhead: ethernet}"
    scenario = parse(VALID.read_text().replace(overhead, overhead + more))
    assert list(scenario.directions)[6:] == ["r2>r1#2", "r1>r2#2", "r1>r2#south", "r2>r1#south"]
    assert parse(dump(scenario)) == scenario


def test_expectations_in_words(scenario: Scenario) -> None:
    bulk, echo = scenario.expect
    assert (
        bulk.text == "throughput of bulk during 10 s..20 s is at least 1 Mbps and at most 10 Mbps"
    )
    assert bulk.bounds == (1_000_000, 10_000_000)
    assert echo.text == "99th percentile of the RTT of echo is within 50% of 20 ms"
    assert echo.bounds == (parse_duration("10 ms"), parse_duration("30 ms"))
    (published,) = scenario.published
    assert (published.metric, published.target, published.text) == (
        METRICS["loss"],
        "call",
        "below 1%",
    )


def test_the_same_objects_from_python() -> None:
    scenario = Scenario(
        perhop=1,
        name="x",
        nodes={"a": "host", "b": Node(kind="host")},  # type: ignore[dict-item]
        links=[{"ends": ("a", "b"), "rate": "10 Mbps"}],  # type: ignore[arg-type]
        flows={"f": {"source": "a", "destination": "b", "stop": "3 s"}},  # type: ignore[dict-item]
    )
    assert scenario.flows["f"].stop == 3 * SECOND
    assert parse(dump(scenario)) == scenario


def test_python_gets_the_same_errors() -> None:
    with pytest.raises(ScenarioError) as caught:
        Scenario.model_validate({"perhop": 1, "name": "x", "nodes": {"a": "hst"}})
    assert str(caught.value).split("\n") == [
        "nodes.a: `hst` is unknown; expected one of host, router; did you mean `host`?",
        "links: is missing; expected a list",
    ]


def test_models_are_frozen(scenario: Scenario) -> None:
    with pytest.raises(ValueError, match="frozen"):
        scenario.links[0].rate = 5
    assert isinstance(scenario.links[0], Link)


def test_a_dump_shows_what_differs_from_the_defaults(scenario: Scenario) -> None:
    text = dump(scenario)
    assert "  a: host\n" in text
    assert "timestamps" not in text
    assert "dscp: [cs1, le]" in text
    assert parse(text) == scenario
    assert Scenario.model_validate(to_mapping(scenario)) == scenario


@pytest.mark.parametrize(
    "title",
    [
        "yes",
        "null",
        "~",
        "0o17",
        "1e3",
        "1:20",
        "- a",
        "a: b",
        "#",
        "'",
        "é\N{SNOWMAN}",
        "a\nb ",
        "",
        "0x1F",
        "+.5",
        ".inf",
        "=",
        "<<",
        "2001-01-01",
        " x",
        "@",
        "|",
        "\N{NO-BREAK SPACE}",
        "\t",
    ],
)
def test_any_text_survives(scenario: Scenario, title: str) -> None:
    changed = scenario.model_copy(update={"title": title})
    assert parse(dump(changed)).title == title


# Random scenarios

name = st.from_regex(r"\A[A-Za-z_][A-Za-z0-9_-]{0,8}\Z").filter(
    lambda text: text.lower() not in ("null", "true", "false", "total")
)
rate = st.integers(1, 10**12).map(units.format_rate)
size = st.integers(1500, 10**9).map(units.format_size)
instant = st.integers(0, 100 * SECOND).map(units.format_duration)
share = st.integers(1, units.WHOLE // 10).map(units.format_share)
words = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"], exclude_characters="\ufeff"),
    max_size=30,
)


def optional(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=fields)


tcp = optional(
    congestion_control=st.sampled_from(["reno", "cubic"]),
    window=size,
    sack=st.booleans(),
    initial_window=st.integers(1, 100).map("{} packets".format),
    min_rto=st.integers(1, SECOND).map(units.format_duration),
    delayed_ack=instant,
)
udp = st.fixed_dictionaries({"rate": rate}, optional={"size": st.just("100 B")})
limits = st.one_of(
    st.integers(1, 1000).map("{} packets".format),
    size,
    st.integers(1, SECOND).map(units.format_duration),
)
links = optional(
    delay=instant,
    jitter=instant,
    loss=share,
    overhead=st.sampled_from(["none", "ethernet", "atm", "pos", "18 B"]),
    queue=st.fixed_dictionaries({"limit": limits}),
)


@st.composite
def mappings(draw: st.DrawFn) -> dict[str, Any]:
    """A valid scenario: two hosts, some routers in between, one class for each flow."""
    hosts = draw(st.lists(name, min_size=2, max_size=6, unique=True))
    path = [hosts[0], *hosts[2:], hosts[1]]
    nodes = dict.fromkeys(hosts, "router") | {hosts[0]: "host", hosts[1]: "host"}
    flow_names = draw(st.lists(name, min_size=1, max_size=4, unique=True))
    codes = draw(st.permutations(range(64)))
    flows: dict[str, Any] = {}
    classes: dict[str, Any] = {}
    for flow, code in zip(flow_names, codes, strict=False):
        start = draw(st.integers(0, 50 * SECOND))
        flows[flow] = {
            "from": hosts[0],
            "to": hosts[1],
            "dscp": code,
            "start": units.format_duration(start),
            "stop": units.format_duration(draw(st.integers(start + 1, 100 * SECOND))),
            "streams": draw(st.integers(1, 5)),
            **draw(st.one_of(tcp.map(lambda t: {"tcp": t}), udp.map(lambda u: {"udp": u}))),
        }
        classes[flow] = {"match": {"dscp": code}, "bandwidth": draw(share)}
    classes["_rest"] = {
        "match": "any",
        **draw(optional(queue=st.fixed_dictionaries({"limit": limits}))),
    }
    return {
        "perhop": 1,
        "name": draw(name),
        "title": draw(words),
        "description": draw(words),
        "nodes": nodes,
        "links": [
            {"ends": [a, b], "rate": "10 Gbps", "egress": {a: "p"}, **draw(links)}
            for a, b in pairwise(path)
        ],
        "policies": {"p": {"classes": classes}},
        "flows": flows,
        "duration": "100 s",
        "expect": [
            {"throughput": flow_names[0], "at_least": draw(rate)},
            {"loss": flow_names[0], "about": "0%", "within": draw(share)},
        ],
        "published": [{"label": draw(words), "settling": flow_names[0], "value": draw(instant)}],
    }


@SLOW
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=60)
@given(mappings())
def test_every_scenario_survives_a_dump(mapping: dict[str, Any]) -> None:
    scenario = Scenario.model_validate(mapping)
    assert parse(dump(scenario)) == scenario
    assert scenario.marks_ps[-1] == scenario.end_ps
    assert set(scenario.changes_ps) <= set(scenario.marks_ps)
    assert sum(end - start for start, end in scenario.phases_ps) == scenario.end_ps


def test_rates_of_bandwidth() -> None:
    assert Bandwidth(share=units.WHOLE // 4).of(parse_rate("10 Mbps")) == 2_500_000
    assert Bandwidth(rate=5).of(1) == 5


def _tcp(settings: str) -> Tcp:
    text = VALID.read_text()
    tcp = parse(text, overrides={"flows.web.tcp": settings}).flows["web"].tcp
    assert tcp is not None
    return tcp


@pytest.mark.parametrize("stack", STACKS)
def test_a_stack_is_its_documented_settings(stack: str) -> None:
    pairs = ", ".join(f"{key}: {json.dumps(value)}" for key, value in STACKS[stack].items())
    spelt_out, named = _tcp(f"{{{pairs}}}"), _tcp(f"{{stack: {stack}}}")
    for name in TcpSettings.model_fields:
        assert getattr(named, name) == getattr(spelt_out, name)
    assert named.effective_dsack == (stack in {"linux-2.4", "linux-6"})


def test_settings_override_those_of_a_stack() -> None:
    assert not _tcp("{stack: linux-6, sack: false, loss_detection: sack}").sack
    # What is the default without a stack is an override of one.
    assert _tcp("{stack: solaris-8, sack: true}").sack
    window = _tcp("{stack: solaris-8, window: 8 KiB}")
    assert window.effective_send_window == window.effective_receive_window == 8192
    assert window.delayed_ack == 100 * units.MILLISECOND
    assert _tcp("{stack: linux-2.4, send_window: 1 MB}").effective_receive_window == 65535


def test_a_window_that_is_given_replaces_autotuning() -> None:
    tuned = _tcp("{stack: linux-6}")
    assert tuned.autotuning
    assert (tuned.effective_receive_window, tuned.effective_send_window) == (3_932_160, 4 << 20)
    for key in ("window", "send_window", "receive_window"):
        assert not _tcp(f"{{stack: linux-6, {key}: 1 MB}}").autotuning
        assert _tcp(f"{{stack: linux-6, {key}: 1 MB}}").quick_acks
    assert not _tcp("{}").autotuning
    assert not _tcp("{stack: linux-2.4}").autotuning
    for key in ("window", "receive_window"):
        with pytest.raises(ScenarioError, match=f"flows.web.tcp.{key}: the receive window is"):
            _tcp(f"{{autotuning: true, {key}: 1 MB}}")


def test_losses_are_detected_by_time_where_congestion_control_goes_by_it() -> None:
    found = {
        control: _tcp(f"{{congestion_control: {control}}}").effective_loss_detection
        for control in ("reno", "cubic", "ledbat++", "dctcp", "bbr", "bbr1", "prague")
    }
    assert {control for control, how in found.items() if how == "rack"} == TIMED
    assert _tcp("{congestion_control: bbr}").effective_dsack
    given = _tcp("{congestion_control: bbr, loss_detection: sack}")
    assert given.effective_loss_detection == "sack"
    assert not given.effective_dsack
    assert _tcp("{congestion_control: prague, sack: false}").effective_loss_detection == "sack"
    assert _tcp("{stack: linux-6, congestion_control: reno}").effective_loss_detection == "rack"


@pytest.mark.parametrize(
    "settings",
    [
        "{stack: linux-6}",
        "{stack: solaris-8, sack: true, min_rto: 200 ms}",
        "{stack: linux-6, sack: false}",
        "{stack: linux-2.4, window: 8 KiB, mss: 1460 B}",
        "{stack: linux-6, dsack: false, hystart: false}",
        "{stack: linux-6, window: 4 MiB}",
        "{stack: linux-6, send_window: 4 MiB}",
        "{stack: linux-6, send_window: 4 MiB, autotuning: true}",
        "{stack: linux-6, autotuning: false}",
        "{stack: solaris-8, send_window: 8 KiB}",
    ],
)
def test_a_stack_survives_being_written(settings: str) -> None:
    scenario = parse(VALID.read_text(), overrides={"flows.web.tcp": settings})
    assert parse(dump(scenario)) == scenario


def test_links_of_ipv6_carry_1280_bytes() -> None:
    text = """
perhop: 1
name: small
nodes: {a: host, r: router, b: host}
links:
  - {ends: [a, r], rate: 1 Gbps}
  - {ends: [r, b], rate: 10 Mbps, mtu: MTU, egress: {r: p}}
policies:
  p:
    classes:
      six: {match: {source: PREFIX}, bandwidth: 10%, unused: true}
      rest: {match: any}
pings: {echo: {from: a, to: b}}
duration: 1 s
"""
    parse(text.replace("MTU", "1280 B").replace("PREFIX", "'2001:db8::/32'"))
    parse(text.replace("MTU", "1279 B").replace("PREFIX", "192.0.2.0/24"))
    with pytest.raises(ScenarioError) as caught:
        parse(text.replace("MTU", "1279 B").replace("PREFIX", "'2001:db8::/32'"), "x.yaml")
    said = str(caught.value)
    assert said.startswith("x.yaml:7:40: links.1.mtu: 1279 B is less than the 1280 B")
    assert said.endswith("policies.p.classes.six.match.source uses IPv6")
