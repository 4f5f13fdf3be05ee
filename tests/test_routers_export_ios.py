"""Scenarios written as configurations of Cisco IOS."""

import pytest

from exporting import classes, network, refused, scenario, written
from perhop import parse
from perhop.routers.writing import write


def test_ios_classes() -> None:
    found = scenario(
        "voice: match: {dscp: [ef, voice-admit]}, priority: strict, "
        "police: {rate: 10%, burst: 8 kB}, queue: {limit: 10 packets}",
        "web: match: {protocol: tcp, port: [80, 8000-8080]}, bandwidth: 30%, queue: {limit: 20 ms}",
        "rest: match: any, queue: {limit: 100 kB}",
    )
    assert written(found, "ios") == [
        "ip access-list extended web",
        " permit tcp any eq 80 any",
        " permit tcp any range 8000 8080 any",
        " permit tcp any any eq 80",
        " permit tcp any any range 8000 8080",
        "class-map match-any voice",
        " match dscp 44 ef",
        "class-map match-any web",
        " match access-group name web",
        "policy-map p",
        " class voice",
        "  priority",
        "  police cir 1000000 bc 8000 conform-action transmit exceed-action drop",
        "  queue-limit 10",
        " class web",
        "  bandwidth percent 30",
        "  queue-limit 20 ms",
        " class class-default",
        "  queue-limit 100000 bytes",
        "interface GigabitEthernet0/1",
        " bandwidth 10000",
        " service-policy output p",
    ]


def test_ios_has_one_unit_of_bandwidth_in_a_policy() -> None:
    found = scenario(
        "a: match: {dscp: 1}, bandwidth: 30%",
        "b: match: {dscp: 2}, bandwidth: 2 Mbps",
        "c: match: {dscp: 3}",
        "d: match: any",
    )
    lines = written(found, "ios")
    assert [line.split()[1] for line in lines if line.startswith("  bandwidth")] == [
        "3000",
        "2000",
        "2500",
    ]
    odd = scenario("a: match: {dscp: 1}, bandwidth: 1234567 bps", "b: match: any")
    assert refused(odd, "ios") == {
        "policies.p.classes.a.bandwidth": "IOS has bandwidths in kb/s and in whole per cent, not "
        "1.234567 Mbps; --approximate writes 1234 kb/s"
    }
    text, gaps = write(odd, "ios", approximate=True)
    assert gaps == ()
    assert "\n  bandwidth 1234\n" in text
    assert "! policies.p.classes.a.bandwidth: IOS has bandwidths in kb/s" in text


@pytest.mark.parametrize(
    ("police", "words"),
    [
        (
            "rate: 1 Mbps, burst: 8 kB, exceed: {remark: be}",
            "cir 1000000 bc 8000 conform-action transmit exceed-action set-dscp-transmit default",
        ),
        (
            "rate: 1 Mbps, burst: 8 kB, excess_burst: 4 kB, conform: {remark: af11}, "
            "exceed: {remark: af12}, violate: {remark: le}",
            "cir 1000000 bc 8000 be 4000 conform-action set-dscp-transmit af11 "
            "exceed-action set-dscp-transmit af12 violate-action set-dscp-transmit 1",
        ),
        (
            "rate: 1 Mbps, burst: 8 kB, peak_rate: 20%, peak_burst: 9 kB",
            "cir 1000000 bc 8000 pir 2000000 be 9000 conform-action transmit "
            "exceed-action transmit violate-action drop",
        ),
    ],
)
def test_ios_policers(police: str, words: str) -> None:
    found = scenario(f"a: match: {{dscp: ef}}, police: {{{police}}}", "b: match: any")
    assert f"  police {words}" in written(found, "ios")


def test_ios_wred() -> None:
    found = scenario(
        "a: match: {dscp: 1}, queue: {wred: {profiles: [{dscp: [0, 1, 2, 3, 4, 5, 6, 7], "
        "min: 10 packets, max: 30 packets, probability: 5%}]}}",
        "b: match: any, queue: {limit: 80 packets, wred: {by: dscp, ecn: true, weight: 25%, "
        "profiles: [{dscp: [af11, le], min: 9 packets, max: 19 packets}]}}",
    )
    lines = [line.strip() for line in written(found, "ios") if "queue" in line or "random" in line]
    assert lines == [
        "queue-limit 64",
        "random-detect",
        "random-detect precedence 0 10 30 20",
        "queue-limit 80",
        "random-detect dscp-based",
        "random-detect dscp 1 9 19 10",
        "random-detect dscp af11 9 19 10",
        "random-detect exponential-weighting-constant 2",
        "random-detect ecn",
    ]


def test_ios_thresholds_at_an_interface_are_not_those_in_a_class() -> None:
    text = network(classes("all: match: any")).replace(", egress: {r: p}", ", queue: {wred: {}}")
    lines = written(parse(text.replace("p: {", "p: {unused: true, ")), "ios")
    assert [line for line in lines if "random-detect " in line] == [
        "  random-detect precedence 5 31 40 10",
        "  random-detect precedence 6 33 40 10",
        "  random-detect precedence 7 35 40 10",
    ]


def test_ios_shapers_and_nested_policies() -> None:
    found = scenario(
        "a: match: {dscp: 1}, bandwidth: 4 Mbps, limit: 50%, "
        "classes: {x: {match: {protocol: icmp}, unused: true, priority: strict}, "
        "y: {match: any, unused: true}}",
        "b: match: {dscp: 2}, bandwidth: 1 Mbps, borrow: false",
        "c: match: {source: a, destination: [b, 192.0.2.0/24, 2001:db8::/32]}, policy: q",
        "d: match: any, shape: {rate: 3 Mbps, burst: 10 kB}",
        link=", shape: {r: {rate: 8 Mbps, burst: 15 kB}}",
        more="q: {classes: {z: {match: any, unused: true}}}",
    )
    assert written(found, "ios") == [
        "ip access-list extended x",
        " permit icmp any any",
        "ip access-list extended c",
        " permit ip host 10.0.0.1 host 10.0.0.4",
        " permit ip host 10.0.0.1 192.0.2.0 0.0.0.255",
        "class-map match-any a",
        " match dscp 1",
        "class-map match-any x",
        " match access-group name x",
        "class-map match-any b",
        " match dscp 2",
        "class-map match-any c",
        " match access-group name c",
        "policy-map a",
        " class x",
        "  priority",
        "  queue-limit 64",
        " class class-default",
        "  queue-limit 64",
        "policy-map q",
        " class class-default",
        "  queue-limit 64",
        "policy-map p",
        " class a",
        "  bandwidth 4000",
        "  shape average 4000000 48000 0",
        "  service-policy a",
        " class b",
        "  bandwidth 1000",
        "  shape average 1000000 48000 0",
        "  queue-limit 64",
        " class c",
        "  bandwidth 1500",
        "  service-policy q",
        " class class-default",
        "  shape average 3000000 80000 0",
        "  queue-limit 64",
        "policy-map p-shape",
        " class class-default",
        "  shape average 8000000 120000 0",
        "  service-policy p",
        "interface GigabitEthernet0/1",
        " bandwidth 10000",
        " service-policy output p-shape",
    ]


def test_ios_input_policies_mark() -> None:
    found = scenario(
        "all: match: any",
        link=", remark: {r: {af11: af12}}",
        router="{kind: router, remark: [{match: {destination_port: 53}, dscp: cs6}, "
        "{match: {dscp: [cs1, cs2]}, dscp: af12}, {match: any, dscp: be}]}",
    )
    lines = written(found, "ios")
    at = lines.index("policy-map r-input")
    assert lines[at : at + 9] == [
        "policy-map r-input",
        " class to-af12",
        "  set dscp af12",
        " class to-cs6",
        "  set dscp cs6",
        " class to-af12_2",
        "  set dscp af12",
        " class class-default",
        "  set dscp default",
    ]
    assert " service-policy input r-input" in lines


def test_weights_for_what_exceeds_the_guarantees_are_a_gap() -> None:
    """IOS-XE divides it equally, as far as `bandwidth remaining` does not say otherwise, which
    excludes `bandwidth` (Distribution of Remaining Bandwidth Using Ratio, Restrictions).
    """
    found = refused(
        scenario(
            "a: match: {dscp: 1}, bandwidth: 10%, quantum: 3000 B",
            "b: match: any, bandwidth: 20%, quantum: 1500 B",
        ),
        "ios",
    )
    assert found.keys() == {"policies.p.classes.a.quantum"}
    assert "IOS-XE equally" in str(found["policies.p.classes.a.quantum"])


def test_what_ios_cannot_express() -> None:
    assert refused(
        scenario(
            "a: match: {dscp: 1}, priority: strict",
            "b: match: {dscp: 2}, priority: strict",
            "c: match: {dscp: 3}, priority: strict, police: {rate: 7 kbps, burst: 999 B}",
            "d: match: {dscp: 4}, queue: {codel: {}}, shape: {rate: 9998 kbps}",
            "e: match: any, police: {rate: 1 Mbps, burst: 1 kB, excess_burst: 1 kB, "
            "colour_aware: true}, bandwidth: 1 kbps, queue: {red: {}}",
            scheduler="link-sharing",
        ),
        "ios",
    ).keys() == {
        "policies.p.scheduler",
        "policies.p.classes.c",
        "policies.p.classes.c.police.rate",
        "policies.p.classes.c.police.burst",
        "policies.p.classes.d.shape",
        "policies.p.classes.d.queue.codel",
        "policies.p.classes.e",
        "policies.p.classes.e.police.colour_aware",
        "policies.p.classes.e.queue.red",
    }
    assert refused(
        scenario(
            "a: match: {dscp: 1}, queue: {limit: 1500 us, wred: {weight: 1%, packet: 500 B, "
            "profiles: [{dscp: be, min: 10 packets, max: 20 packets, probability: 30%}]}}",
            "b: match: any, bandwidth: 99%",
            scheduler="drr",
        ),
        "ios",
    ).keys() == {
        "policies.p.scheduler",
        "policies.p.classes.a.queue.limit",
        "policies.p.classes.a.queue.wred.weight",
        "policies.p.classes.a.queue.wred.packet",
        "policies.p.classes.a.queue.wred.profiles.0.probability",
    }


def test_ios_has_largest_bursts_and_limits() -> None:
    found = scenario(
        "a: match: {dscp: 1}, bandwidth: 10%, police: {rate: 1 Mbps, burst: 600 MB}, "
        "queue: {limit: 4 s}, shape: {rate: 5 Mbps, burst: 20 MB}",
        "b: match: any, queue: {limit: 9 MB}",
    )
    assert refused(found, "ios").keys() == {
        "policies.p.classes.a.police.burst",
        "policies.p.classes.a.shape",
        "policies.p.classes.a.queue.limit",
        "policies.p.classes.b.queue.limit",
    }


def test_ios_fair_queueing() -> None:
    found = scenario(
        "a: match: {dscp: ef}, bandwidth: 30%",
        "b: match: any, queue: {fq-codel: {target: 1 h, interval: 2 h, flows: 256, ecn: false}}",
    )
    assert "  fair-queue 256" in written(found, "ios")
    odd = scenario(
        "a: match: {dscp: ef}, bandwidth: 30%",
        "b: match: any, queue: {fq-codel: {target: 1 h, interval: 2 h, flows: 99, quantum: 300 B}}",
    )
    assert refused(odd, "ios") == {
        "policies.p.classes.b.queue.fq-codel.flows": "IOS has powers of two from 16 to 4096, not "
        "99; --approximate writes 128",
        "policies.p.classes.b.queue.fq-codel.quantum": "IOS does not configure the bytes of a "
        "round; --approximate writes 1514 B",
    }
