"""Configurations that perhop writes, read again: the same policies."""

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from alike import BOTH, as_scenario, differences, end_of
from exporting import (
    QUEUES,
    REMARKED,
    SENT,
    SINGLE_RATE,
    TWO_COLOURS,
    TWO_RATES,
    any_policies,
    scenario,
)
from perhop import Scenario, gallery
from perhop.routers.reading import Source, Treatment, detect
from perhop.routers.writing import write

READERS = {"ios": "ios", "junos": "junos", "altq": "altq", "pf": "altq", "vyos": "vyos", "tc": "tc"}
"""The reader of each family that is written."""


def read_again(
    family: str, found: Scenario, link: str = "r>s", *, weights: bool = False
) -> list[str]:
    """Return how a policy differs after it was written and read."""
    text, gaps = write(found, family, links=[link])  # type: ignore[arg-type]
    assert gaps == ()
    configuration = detect.read([Source("r.cfg", text)], READERS[family])
    for line in configuration.lines:
        assert line.treatment is not Treatment.NOT_MODELLED, (line, text)
    # Junos classifies tags and labels at other interfaces, which have no policy.
    others = {"ge-0/0/0"} if family == "junos" and "ge-0/0/1: " in text else {""}
    found_at = (each for each in configuration.attachments if each.interface)
    at = {each.direction: each for each in found_at if each.interface not in others}
    rate = found.directions[link][0].rate
    if family in ("ios", "junos"):
        assert {each.rate for each in at.values()} == {rate}
    again = end_of(as_scenario(at.get("out"), at.get("in"), rate))
    # A match of both versions is written for those of the traffic: docs/routers.md, Writing IPv6.
    versions = found.ip_versions if family in ("ios", "vyos", "altq") else BOTH
    return differences(end_of(found, link), again, weights=weights, versions=versions)


EXCEPT = (
    "a: match: [{except: {dscp: 1, source: 10.1.0.0/16}}, {source: 10.0.0.0/8, protocol: "
    "[udp, icmp]}, {dscp: ef}], bandwidth: 20%, queue: {limit: QUEUE}",
    "b: match: [{except: {protocol: tcp, destination_port: 22}}, {dscp: [1, 2]}], "
    "queue: {limit: QUEUE}",
    "c: match: any, bandwidth: 60%, queue: {limit: QUEUE}",
)
POLICED = (
    "a: match: {dscp: ef}, mark: af21, bandwidth: 30%, queue: {limit: QUEUE}, police: {POLICE}",
    "b: match: {protocol: udp, port: [53, 5000-5010]}, bandwidth: 20%, queue: {limit: QUEUE}, "
    "police: {POLICE}",
    "c: match: any, mark: af11, queue: {limit: QUEUE}",
)
IN_PACKETS, IN_BYTES = "50 packets", "100 kB"


def with_queue(lines: tuple[str, ...], queue: str, police: str = "") -> Scenario:
    """Return a scenario with a policy, and this limit of queues and policer."""
    return scenario(*(each.replace("QUEUE", queue).replace("{POLICE}", police) for each in lines))


@pytest.mark.parametrize("family", ["ios", "junos", "altq", "pf"])
def test_lists_with_exceptions(family: str) -> None:
    # Neither altq.conf nor pf.conf can match `be`, which no list here needs.
    queue = IN_BYTES if family == "junos" else IN_PACKETS
    assert read_again(family, with_queue(EXCEPT, queue)) == []


@pytest.mark.parametrize("police", [TWO_COLOURS, REMARKED, SINGLE_RATE, TWO_RATES, SENT])
@pytest.mark.parametrize("family", ["ios", "junos"])
def test_policers_and_marks(family: str, police: str) -> None:
    queue = IN_BYTES if family == "junos" else IN_PACKETS
    assert read_again(family, with_queue(POLICED, queue, police)) == []


def test_ios_queues_and_nested_policies() -> None:
    wred = scenario(
        "a: match: {dscp: 1}, queue: {wred: {profiles: [{dscp: [0, 1, 2, 3, 4, 5, 6, 7], "
        "min: 10 packets, max: 30 packets, probability: 5%}]}}",
        "b: match: any, queue: {limit: 80 packets, wred: {by: dscp, ecn: true, weight: 25%, "
        "profiles: [{dscp: [af11, le], min: 9 packets, max: 19 packets}]}}",
    )
    assert read_again("ios", wred) == []
    nested = scenario(
        "a: match: {dscp: 1}, bandwidth: 4 Mbps, limit: 50%, "
        "classes: {x: {match: {protocol: icmp}, unused: true, priority: strict}, "
        "y: {match: any, unused: true}}",
        "b: match: {dscp: 2}, bandwidth: 1 Mbps, borrow: false",
        "c: match: {source: a, destination: [b, 192.0.2.0/24, 2001:db8::/32]}, policy: q",
        "d: match: any, shape: {rate: 3 Mbps, burst: 10 kB}, queue: {limit: 20 ms}",
        link=", shape: {r: {rate: 8 Mbps, burst: 15 kB}}",
        more="q: {classes: {z: {match: any, unused: true}}}",
    )
    assert read_again("ios", nested) == []
    strict = scenario(
        "a: match: {dscp: 1}", "b: match: {dscp: 2}", "c: match: any", scheduler="priority"
    )
    assert read_again("ios", strict) == []


def test_junos_schedulers() -> None:
    found = scenario(
        "v: match: {dscp: ef}, priority: strict, police: {rate: 1 Mbps, burst: 8 kB}, "
        "queue: {limit: 100 ms}",
        "w: match: {dscp: 2}, bandwidth: 30%, limit: 50%, queue: {limit: 100 kB}",
        "b: match: {dscp: 3}, bandwidth: 1 Mbps, borrow: false, queue: {limit: 5 kB}",
        "c: match: any, queue: {limit: 50 kB}, shape: {rate: 7 Mbps, burst: 8 kB}",
        link=", shape: {r: {rate: 8 Mbps, burst: 10 kB}}",
    )
    assert read_again("junos", found) == []
    late = scenario(
        "a: match: {dscp: 1}, priority: 5, queue: {limit: 10 kB}",
        "b: match: {dscp: 2}, priority: 2, queue: {limit: 10 kB}",
        "c: match: any, queue: {limit: 10 kB}",
    )
    assert read_again("junos", late) == []


def test_junos_drop_profiles_addresses_and_policers_of_interfaces() -> None:
    red = "red: {min: 20 kB, max: 50 kB, weight: 100%, probability: 10%, ecn: false}"
    found = scenario(
        f"a: match: {{dscp: 1}}, queue: {{limit: 100 kB, {red}}}",
        "b: match: any, queue: {limit: 100 kB, red: {min: 30 kB, max: 80 kB, weight: 100%, "
        "probability: 100%, gentle: false}}",
    )
    assert read_again("junos", found) == []
    versions = scenario(
        "a: match: [{except: {source: '2001:db8::/32', protocol: tcp}}, {source: [10.0.0.0/8, "
        "'2001:db8::/31']}], mark: af11, queue: {limit: 10 kB}",
        "b: match: {destination: 192.0.2.0/24}, police: {rate: 1 Mbps, burst: 8 kB}, "
        "queue: {limit: 10 kB}",
        "c: match: any, queue: {limit: 10 kB}",
    )
    assert read_again("junos", versions) == []
    policed = scenario(
        "all: match: any, police: {rate: 5 Mbps, burst: 8 kB}, classes: {"
        "x: {match: {dscp: ef}, unused: true, bandwidth: 30%, queue: {limit: 10 kB}}, "
        "y: {match: any, unused: true, queue: {limit: 10 kB}}}",
    )
    assert read_again("junos", policed) == []


@pytest.mark.parametrize("family", ["ios", "junos"])
def test_marking_of_what_arrives(family: str) -> None:
    found = scenario(
        "all: match: any, queue: {limit: 10 kB}",
        link=", remark: {r: {af11: af12}}",
        router="{kind: router, remark: [{match: {destination_port: 53}, dscp: cs6}, "
        "{match: {dscp: [cs1, cs2]}, dscp: af12}, {match: any, dscp: be}]}",
    )
    assert read_again(family, found) == []


def test_marking_by_conditioners_of_altq() -> None:
    found = scenario(
        "all: match: any, queue: {limit: 50 packets}",
        link=", remark: {r: [{match: {dscp: af11, destination: 10.1.0.0/16}, dscp: af12}, "
        "{match: [{except: {protocol: tcp, destination_port: 53}}, {dscp: [ef, af11]}], dscp: be}, "
        "{match: {protocol: udp, source_port: [80, 81]}, dscp: af12}]}",
    )
    assert read_again("altq", found) == []


@pytest.mark.parametrize("family", ["ios", "junos"])
def test_marking_with_exceptions(family: str) -> None:
    found = scenario(
        "all: match: any, queue: {limit: 10 kB}",
        router="{kind: router, remark: [{match: [{except: {dscp: 13, source_port: 80}}, "
        "{dscp: [13, 14]}, any], dscp: cs3}, {match: {dscp: 13, destination_port: 22}, dscp: ef}, "
        "{match: {protocol: icmp, port: 1}, dscp: be}]}",
    )
    assert read_again(family, found) == []


def test_quanta_of_linux() -> None:
    """Strict bands come first when they are read, as they are served."""
    quanta = scenario(
        "v: match: {dscp: ef}, priority: strict, police: {rate: 1 Mbps, burst: 8 kB}",
        "a: match: {dscp: 1}, quantum: 6 kB, queue: {limit: 30 packets}",
        "b: match: any, quantum: 1500 B",
        scheduler="drr",
        link=", shape: {r: {rate: 8 Mbps, burst: 15 kB}}",
    )
    assert read_again("tc", quanta) == []


@pytest.mark.parametrize("family", ["altq", "pf"])
def test_disciplines_of_altq(family: str) -> None:
    cbq = scenario(
        "a: match: {dscp: [1, ef]}, bandwidth: 40%, priority: 3, queue: {limit: 30 packets}",
        "b: match: {protocol: udp}, bandwidth: 1 Mbps, borrow: false, queue: {limit: 30 packets}, "
        "priority: 3",
        "c: match: any, bandwidth: 30%, priority: 5, queue: {limit: 30 packets, red: {min: 3 "
        "packets, max: 9 packets, weight: 0.1953125%, gentle: false}}",
        scheduler="altq-cbq, cbq: {rate: 5 Mbps}",
    )
    assert read_again(family, cbq) == []
    priq = scenario(
        "a: match: {dscp: 1}",
        # The traffic is of IPv4; `proto icmp` of pf is of IPv4 alone, too.
        f"b: match: {{protocol: icmp{', ip: 4' if family == 'pf' else ''}}}",
        "c: match: any",
        scheduler="priority",
    )
    assert read_again(family, priq) == []
    shared = scenario(
        "a: match: {dscp: 1}, bandwidth: 20%, limit: 50%",
        "b: match: {protocol: tcp, source: 10.0.0.0/8, destination_port: [80, 443]}, bandwidth: "
        "2 Mbps, borrow: false, classes: {x: {match: {source_port: 22}, bandwidth: 30%, "
        "unused: true}, y: {match: any, unused: true}}",
        "c: match: any",
        link=", shape: {r: {rate: 8 Mbps, burst: 15 kB}}",
    )
    assert read_again(family, shared) == []


@st.composite
def curve(draw: st.DrawFn, key: str, most: int) -> str:
    """Return a service curve of up to `most` kb/s with its key: of one slope, concave or convex."""
    last = draw(st.integers(1, most))
    first = draw(st.sampled_from([last, 0, 2 * last, 3 * last]))
    m1 = f"m1: {first} kbps, " if first else ""
    slopes = f"{m1}d: {draw(st.integers(1, 50))} ms, m2: {last} kbps"
    return f"{key}: {{rate: {last} kbps}}" if first == last else f"{key}: {{{slopes}}}"


@st.composite
def served_by_curves(draw: st.DrawFn) -> Scenario:
    """Return a scenario with service curves that say more than shares."""

    def class_(dscp: int, most: int) -> str:
        share = st.just(f"bandwidth: {most} kbps") | curve("linkshare", most)
        other = st.just("") | curve(", realtime", most // 4) | curve(", upperlimit", 600)
        return f"match: {{dscp: {dscp}}}, {draw(share)}{draw(other)}"

    numbers = range(1, draw(st.integers(2, 4)))
    lines = [f"c{number}: {class_(number, draw(st.integers(8, 1000)))}" for number in numbers]
    inner = f"x: {{{class_(9, 400)}, unused: true}}, y: {{match: any, unused: true}}"
    lines.append(f"n: match: {{dscp: [9, 10]}}, bandwidth: 2 Mbps, classes: {{{inner}}}")
    steep = "realtime: {m1: 500 kbps, d: 4 ms, m2: 50 kbps}"
    return scenario(*lines, f"z: match: any, bandwidth: 1 Mbps, {steep}", scheduler="hfsc")


@settings(max_examples=25, deadline=None)
@given(served_by_curves())
def test_service_curves_come_back(found: Scenario) -> None:
    assume(write(found, "altq", links=["r>s"])[1] == ())  # altqd admits it
    for family in ("altq", "pf", "tc"):
        assert read_again(family, found) == []


def test_shapers_of_vyos() -> None:
    found = scenario(
        "a: match: [{dscp: 1}, {protocol: icmp}], bandwidth: 30%, mark: af11",
        "b: match: {dscp: 2, protocol: tcp, port: 80}, bandwidth: 2 Mbps, limit: 5 Mbps, "
        "queue: {limit: 20 packets}",
        "c: match: any, borrow: false",
    )
    assert read_again("vyos", found) == []
    queues = scenario(
        "a: match: {dscp: 1}, bandwidth: 30%, borrow: false, queue: {limit: 500 packets, fq-codel: "
        "{flows: 64, target: 10 ms, interval: 200 ms, quantum: 300 B, ecn: false}}",
        "b: match: any, queue: {limit: 99 packets}",
    )
    assert read_again("vyos", queues) == []
    red = scenario(
        "a: match: {dscp: 1}, bandwidth: 30%, queue: {limit: 72 kB, red: {packet: 1000 B, min: "
        "9 kB, max: 18 kB, probability: 10%, weight: 12.5%, gentle: false, ecn: false}}",
        "b: match: any, queue: {limit: 45 kB, red: {packet: 500 B, min: 10 kB, max: 30 kB, "
        "probability: 2%, weight: 6.25%, gentle: false, ecn: false}}",
    )
    assert read_again("vyos", red) == []
    late = scenario(
        "a: match: [{dscp: 1}, {dscp: 2}], bandwidth: 30%, priority: 0",
        "b: match: {protocol: tcp}, bandwidth: 20%, priority: 2",
        "c: match: any, bandwidth: 50%, priority: 5",
    )
    assert read_again("vyos", late) == []
    strict = scenario(
        "a: match: [{dscp: 1}, {dscp: 2}]", "b: match: {protocol: icmp}, queue: {limit: 9 packets}",
        "c: match: any", scheduler="priority",
    )  # fmt: skip
    assert read_again("vyos", strict) == []


def test_limiters_of_vyos_are_at_the_receiving_end() -> None:
    found = scenario(
        "a: match: {dscp: ef, protocol: udp}, police: {rate: 1 Mbps, burst: 8 kB}",
        "b: match: {protocol: tcp}, police: {rate: 20%, burst: 20 kB, exceed: send}",
        "c: match: any",
    )
    text, gaps = write(found, "vyos", links=["r>s"], interfaces={"s>r": "eth7"}, approximate=True)
    assert gaps == ()
    assert "\n# ======== s ========\n# eth7: r>s\n" in text
    configuration = detect.read([Source("r.cfg", text)], "vyos")
    assert {line.treatment for line in configuration.lines} == {Treatment.MODELLED}
    [at] = configuration.attachments
    assert (at.interface, at.direction) == ("eth7", "in")
    rate = found.directions["r>s"][0].rate
    again = end_of(as_scenario(at, None, rate))
    assert differences(end_of(found), again, versions=found.ip_versions) == []


@pytest.mark.parametrize("name", ["oscars-10M", "qbss-1-70", "qbss-transatlantic"])
def test_policies_of_the_gallery(name: str) -> None:
    found = gallery.load(name)
    for link, (link_of, node) in found.directions.items():
        if node in link_of.egress:
            assert read_again("ios", found, link) == []


def test_policies_that_differ_are_told_apart() -> None:
    lines = (
        "a: match: {dscp: 1}, bandwidth: 30%, police: {rate: 1 Mbps, burst: 8 kB}",
        "b: match: {protocol: tcp, source_port: 80}, bandwidth: 20%, mark: af11",
        "c: match: any, queue: {limit: 30 packets}",
    )
    usual = end_of(scenario(*lines))
    assert differences(usual, end_of(scenario(*lines))) == []
    for before, after in (
        ("dscp: 1", "dscp: [1, 2]"),
        ("80", "81"),
        ("30%", "31%"),
        ("8 kB", "9 kB"),
        ("af11", "af12"),
        ("30 packets", "31 packets"),
        ("protocol: tcp", "protocol: udp"),
    ):
        changed = end_of(scenario(*(each.replace(before, after) for each in lines)))
        assert len(differences(usual, changed)) >= 1, before


@st.composite
def policies(draw: st.DrawFn) -> Scenario:
    """Return a scenario whose policy IOS can express."""
    ports = st.sampled_from([22, "80-90", "5000-5010"])
    lines = []
    for number in range(draw(st.integers(0, 3))):
        # Classes have code points of their own, one of which no condition but the last has.
        own = 16 * number
        points = st.lists(st.integers(own, own + 14), min_size=1, max_size=4, unique=True)
        conditions = st.fixed_dictionaries(
            {"dscp": points},
            optional={
                "protocol": st.sampled_from(["tcp", "udp", ["tcp", "udp"]]),
                "port": ports,
                "destination_port": ports,
                "source": st.sampled_from(["a", "10.2.0.0/16"]),
            },
        )
        excluded = st.builds(lambda inner: {"except": inner}, conditions)
        more = st.tuples(excluded, conditions, st.just({"dscp": own + 15}))
        match = draw(conditions | more.map(list))
        strict = number == 0 and draw(st.booleans())
        share = "priority: strict" if strict else f"bandwidth: {draw(st.integers(1, 25))}%"
        police = draw(st.sampled_from([TWO_COLOURS, REMARKED, SINGLE_RATE, TWO_RATES]))
        policer = f", police: {police}" if draw(st.booleans()) or strict else ""
        queue = draw(st.sampled_from(["10 packets", "64 packets", "20 kB", "30 ms"]))
        lines.append(f"c{number}: match: {match!r}, {share}{policer}, queue: {{limit: {queue}}}")
    return scenario(*lines, "rest: match: any")


@settings(max_examples=25)
@given(policies())
def test_any_policy_of_ios_comes_back(found: Scenario) -> None:
    assert read_again("ios", found) == []


def test_the_policy_of_the_readme_comes_back() -> None:
    """A strict class with a policer, beside classes whose weights are quanta."""
    office = scenario(
        "voice: match: {dscp: ef}, priority: strict, police: {rate: 1 Mbps, burst: 10 kB}",
        "backup: match: {dscp: le}, bandwidth: 5%",
        "rest: match: any, bandwidth: 85%, queue: {limit: 50 ms}",
    )
    assert read_again("tc", office, weights=True) == []


DISCARDED = {
    "tc": "tc qdisc add dev eth0 root handle 1: htb default 11\n"
    "tc class add dev eth0 parent 1: classid 1:1 htb rate 20mbit\n"
    "tc class add dev eth0 parent 1:1 classid 1:10 htb rate 10mbit ceil 20mbit\n"
    "tc class add dev eth0 parent 1:1 classid 1:11 htb rate 10mbit ceil 20mbit\n"
    "tc filter add dev eth0 parent 1: prio 1 protocol ip u32 match ip dport 25 0xffff action drop\n"
    "tc filter add dev eth0 parent 1: prio 2 protocol ip u32 match ip tos 0xb8 0xfc flowid 1:10\n",
    "ios": "class-map worm\n match access-group name worm\nclass-map a\n match dscp ef\n"
    "ip access-list extended worm\n permit udp any any eq 1434\n"
    "policy-map p\n class worm\n  drop\n class a\n  bandwidth percent 50\n"
    "interface FastEthernet0/0\n service-policy output p\n",
}


@pytest.mark.parametrize("family", DISCARDED)
def test_packets_that_are_dropped_take_no_bandwidth_from_others(family: str) -> None:
    found = detect.read([Source("r.cfg", DISCARDED[family])], family)
    division = end_of(as_scenario(found.attachments[0], None, 20_000_000)).division
    assert division is not None
    leaves = [part for _, part in division.walk() if part.inside is None]
    assert [part.rate for part in leaves if not part.class_.discards] == [10_000_000] * 2


@pytest.mark.parametrize("family", QUEUES)
def test_any_policy_that_a_family_can_express_comes_back(family: str) -> None:
    """What is written reads as the same policy; Linux has weights in whole bytes."""
    compared = 0

    @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
    @given(any_policies(family))
    def compare(found: Scenario) -> None:
        nonlocal compared
        if write(found, family, links=["r>s"])[1] == ():  # type: ignore[arg-type]
            compared += 1
            assert read_again(family, found, weights=family != "ios") == []

    compare()
    assert compared >= 20
