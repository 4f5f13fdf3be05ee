"""What a live network cannot do is refused at once, with its place, before any agent is asked."""

import pytest

import perhop
from perhop.engines import live
from perhop.errors import UnsupportedError
from perhop.scenario import Scenario, parse

KEY = "perhop-ed25519 AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
BASE = """
perhop: 1
name: site
nodes: {a: host, r: router, b: host}
links:
  - {ends: [a, r], rate: 10 Mbps}
  - {ends: [r, b], rate: 10 Mbps, delay: 5 ms, egress: {r: edge}}
policies:
  edge: {classes: {all: {match: any, bandwidth: 100%}}}
flows:
  data: {from: a, to: b, stop: 2 s}
pings:
  probe: {from: a, to: b}
  router: {from: b, to: r}
agents:
  a: {address: 192.0.2.1, key: KEY}
  b: {address: "192.0.2.2:4862", key: KEY}
  r: {ping: 192.0.2.3}
""".replace("KEY", KEY)

MORE = "{from: a, to: b, source_port: 179, stop: 2 s}"


def site(**overrides: str) -> Scenario:
    paths = {path.replace("__", "."): value for path, value in overrides.items()}
    return parse(BASE, "site.yaml", overrides=paths)


def refusal(**overrides: str) -> list[str]:
    """The lines of the error with which the engine refuses the scenario as changed."""
    with pytest.raises(UnsupportedError) as caught:
        live.start(site(**overrides), 1)
    first, *lines = str(caught.value).split("\n")
    assert first == "a live network cannot do all of site:"
    return [line.strip() for line in lines]


def test_what_a_live_network_can_do_is_not_refused() -> None:
    assert live.gaps(site()) == []


@pytest.mark.parametrize(
    ("overrides", "place"),
    [
        ({"changes": "[{at: 1 s, on: r>b, rate: 5 Mbps}]"}, "changes.0"),
        ({"changes": "[{at: 1 s, on: r>b, policy: none}]"}, "changes.0"),
        ({"changes": "[{at: 1 s, on: r>b, state: down}]"}, "changes.0"),
        ({"flows__data__rpc": "{every: 1 s}"}, "flows.data.rpc"),
        ({"flows__data__quic": "{}"}, "flows.data.quic"),
        ({"links__1__loss": "1%"}, "links.1.loss"),
        ({"links__1__duplicate": "1%"}, "links.1.duplicate"),
        ({"links__1__reorder": "{share: 1%, by: 1 ms}"}, "links.1.reorder"),
        ({"nodes__a": "{kind: host, offload: false}"}, "nodes.a.offload"),
        ({"nodes__b": "{kind: host, backpressure: false}"}, "nodes.b.backpressure"),
        ({"flows__data__tcp": "{sack: false}"}, "flows.data.tcp.sack"),
        ({"flows__data__tcp": "{timestamps: false}"}, "flows.data.tcp.timestamps"),
        ({"flows__data__tcp": "{ecn: classic}"}, "flows.data.tcp.ecn"),
        ({"flows__data__tcp": "{stack: solaris-8}"}, "flows.data.tcp.stack"),
        ({"flows__data": "{from: a, to: b, udp: {rate: 1 Mbps, size: 8 B}, stop: 2 s}"}, "flows."),
        (
            {"flows__data__source_port": "179", "agents__b__nat": "true", "pings": "{}"},
            "flows.data.source_port",
        ),
        (
            {"flows__data__source_port": "179", "flows__more": MORE},
            "flows.more.source_port: data sends from port 179 of a, too",
        ),
        ({"pings__probe__size": "2000 B"}, "pings.probe.size"),
        ({"agents": "{}"}, "agents"),
    ],
)
def test_what_it_cannot_is_refused_with_its_place(overrides: dict[str, str], place: str) -> None:
    [line] = refusal(**overrides)
    assert line.startswith(place)


def test_a_host_that_is_reached_by_its_loopback_address_needs_another_for_flows() -> None:
    lines = refusal(agents__a=f"{{address: localhost, key: {KEY}}}")
    reason = "a has 127.0.0.1, which b cannot reach; give it `data`, its address in the network"
    assert lines == [f"flows.data: {reason}", f"pings.probe: {reason}"]


def test_clearing_counters_changes_nothing() -> None:
    assert live.gaps(site(changes="[{at: 1 s, clear: counters}]")) == []


def test_nothing_is_sent_where_there_are_no_agents() -> None:
    with pytest.raises(UnsupportedError, match="agents: there are none; add them to the scenario"):
        perhop.run(parse(BASE.partition("agents:")[0]), engine="live")


def test_addresses_are_those_of_the_data() -> None:
    found = live.addresses(site(agents__a__data="198.51.100.1"))
    assert found == {"a": "198.51.100.1", "b": "192.0.2.2", "r": "192.0.2.3"}


def test_a_host_behind_nat_opens_the_connections_of_its_flows() -> None:
    scenario = site(pings__probe="{from: b, to: a}", agents__b__nat="true")
    found = live.addresses(scenario)
    assert found["b"] == "0.0.0.0"
    written = live._job(scenario, 1, found)
    assert written["live"] is not None
    assert written["live"]["flows"] == [{"opens": "destination", "server": None}]
    assert written["live"]["reflectors"] == [None, None]
    sides = {node["name"]: (node["namespace"], node["settings"]) for node in written["nodes"]}
    assert set(map(str, sides.values())) == {"(None, [])"}  # nothing of a live host is changed


def test_both_ends_have_a_family_in_common() -> None:
    line, *_ = refusal(agents__b__data="2001:db8::b")  # and its pings
    assert line.startswith("flows.data: a has 192.0.2.1 and b 2001:db8::b; give one of them `data`")


def test_an_unknown_name_has_its_place() -> None:
    with pytest.raises(UnsupportedError, match=r"site: agents\.b\.data: b\.invalid cannot be reso"):
        live.start(site(agents__b__data="b.invalid"), 1)


def test_a_flow_uses_the_first_iperf3_server_that_is_free() -> None:
    scenario = site(
        agents__b="{iperf3: [192.0.2.2, '192.0.2.2:5300']}",
        flows="{data: {from: a, to: b, stop: 2 s}, same: {from: b, to: a, start: 1 s, stop: 3 s}, "
        "next: {from: a, to: b, start: 2 s, stop: 3 s}}",
        pings="{}",
    )
    assert live.gaps(scenario) == []
    written = live._job(scenario, 1, live.addresses(scenario))["live"]
    assert written is not None
    assert [flow["server"] for flow in written["flows"]] == [
        {"end": "destination", "address": "192.0.2.2:5201"},
        {"end": "source", "address": "192.0.2.2:5300"},
        {"end": "destination", "address": "192.0.2.2:5201"},
    ]


@pytest.mark.parametrize(
    ("flow", "place"),
    [
        ("{from: a, to: b, port: 6000, stop: 2 s}", "flows.data.port"),
        ("{from: a, to: b, source_port: 6000, stop: 2 s}", "flows.data.source_port"),
        ("{from: a, to: b, stop: 2 s, tcp: {window: 64 KiB}}", "flows.data.tcp.window"),
        (
            "{from: b, to: a, stop: 2 s, udp: {rate: 1 Mbps, pattern: poisson}}",
            "flows.data.udp.pattern",
        ),
        (
            "{from: a, to: b, stop: 2 s, udp: {rate: 1 Mbps, sizes: exponential}}",
            "flows.data.udp.sizes",
        ),
    ],
)
def test_settings_that_iperf3_lacks_are_refused_with_their_place(flow: str, place: str) -> None:
    [line] = refusal(agents__b="{iperf3: 192.0.2.2}", flows__data=flow, pings="{}")
    assert line.startswith(place)


def test_what_a_server_does_not_tell_is_named() -> None:
    scenario = site(agents__b="{iperf3: 192.0.2.2}", pings="{}")
    assert list(live._absent(scenario)) == [
        "flow data: no packets, acknowledgements, marks or DSCPs where data arrives; goodput is "
        "what the server acknowledged (b is an iperf3 server)"
    ]


def test_pings_to_a_stamp_reflector_have_its_port() -> None:
    for entry, port in (("{stamp: 192.0.2.3}", 862), ("{stamp: '192.0.2.3:8620'}", 8620)):
        scenario = site(agents__r=entry)
        assert live.gaps(scenario) == []
        found = live.addresses(scenario)
        assert found["r"] == "192.0.2.3"
        written = live._job(scenario, 1, found)["live"]
        assert written is not None and written["reflectors"] == [None, port]


@pytest.mark.parametrize(
    ("setting", "place"),
    [
        ("ttl: 3", "pings.router.ttl"),
        ("ttl: 1..8", "pings.router.ttl"),
        ("protocol: udp", "pings.router.protocol"),
        ("size: 55 B", "pings.router.size: a STAMP packet has 56 B at least"),
        ("train: 31", "pings.router.train"),
    ],
)
def test_settings_that_stamp_lacks_are_refused_with_their_place(setting: str, place: str) -> None:
    ping = f"{{from: b, to: r, {setting}}}"
    [line] = refusal(agents__r="{stamp: 192.0.2.3}", pings__router=ping)
    assert line.startswith(place)
    assert live.gaps(site(pings__router=ping)) == []  # an ordinary ping has them
