"""Scenarios written as configurations of routers."""

from collections.abc import Callable
from pathlib import Path

import click
import pytest

from perhop import Scenario, UsageError, gallery, parse
from perhop.cli.export import export
from perhop.routers.writing import FAMILIES, write
from perhop.routers.writing.draft import Names

Perhop = Callable[..., tuple[int, str, str]]

NETWORK = """
perhop: 1
name: written
title: {title}
nodes: {{a: host, r: {router}, s: router, b: host}}
links:
  - {{ends: [a, r], rate: 1 Gbps}}
  - {{ends: [r, s], rate: 10 Mbps, egress: {{r: p}}{link}}}
  - {{ends: [s, b], rate: 1 Gbps}}
policies:
  p: {{{policy}}}
  {more}
duration: 1 s
{rest}
"""


def network(
    policy: str,
    *,
    link: str = "",
    title: str = "A title",
    router: str = "router",
    more: str = "",
    rest: str = "",
) -> str:
    """Return a scenario whose router r sends into r>s by a policy."""
    return NETWORK.format(
        title=title, router=router, link=link, policy=policy, more=more, rest=rest
    )


def classes(*lines: str, scheduler: str = "") -> str:
    """Return a policy with classes, none of which has traffic."""
    found = []
    for line in lines:
        name, settings = line.split(": ", 1)
        found.append(f"{name}: {{{settings}, unused: true}}")
    head = f"scheduler: {scheduler}, " if scheduler else ""
    return f"{head}classes: {{{', '.join(found)}}}"


def scenario(*lines: str, scheduler: str = "", **settings: str) -> Scenario:
    """Return a scenario with these classes at r>s."""
    return parse(network(classes(*lines, scheduler=scheduler), **settings))


def written(found: Scenario, family: str, *, approximate: bool = False) -> list[str]:
    """Return the lines of a configuration that are no comments."""
    text, gaps = write(found, family, links=["r>s"], approximate=approximate)  # type: ignore[arg-type]
    assert gaps == ()
    return [line for line in text.splitlines() if not line.startswith(("!", "#", "/*"))]


def refused(found: Scenario, family: str) -> dict[str, str]:
    """Return the gaps of a configuration, by their places."""
    _, gaps = write(found, family, links=["r>s"])  # type: ignore[arg-type]
    return {gap.path: gap.reason for gap in gaps}


# All families

CBQ = {"altq-cbq": {"policies.edge.scheduler"}, "altq-cbq-traces": {"policies.edge.scheduler"}}
WRED = {
    "qbss-transatlantic": {
        "policies.qos-policy.classes.qbss.queue.wred",
        "policies.qos-policy.classes.class-default.queue.wred",
    }
}
CONDITIONERS = {
    **{
        name: {"policies.oscars.classes.reserved.police"}
        for name in ("oscars-1M", "oscars-10M", "oscars-burst", "oscars-ping")
    },
    "qbss-ping": {"links.1.remark.second.0"},
}
REFUSED = {
    "ios": CBQ,
    "junos": {**CBQ, **WRED},
    "vyos": {
        **CBQ,
        **WRED,
        **CONDITIONERS,
        **{
            name: {f"policies.oscars.classes.reserved{key}" for key in ("", ".police")}
            for name in ("oscars-1M", "oscars-10M", "oscars-burst", "oscars-ping")
        },
    },
    "tc": {**CBQ, **WRED},
    "altq": {**CONDITIONERS, **WRED},
    "pf": {"altq-cbq-traces": {"policies.edge.cbq.packet"}, **CONDITIONERS, **WRED},
}
"""The places that a family cannot express, of the scenarios of the gallery that it refuses."""

APPROXIMATED = {
    "ios": {"bulk-throughput": "a burst"},
    "vyos": {"bulk-throughput": "no burst of its own"},
    "altq": {"bulk-throughput": "a burst"},
    "pf": {"bulk-throughput": "a burst"},
    # Queues of Junos have no limit in packets.
    "junos": {
        name: "buffers in whole microseconds"
        for name in gallery.names()
        if name not in ("load-balancing", *REFUSED["junos"])
    },
}
"""Words of the approximations without which a family refuses a scenario of the gallery."""


@pytest.mark.parametrize("family", FAMILIES)
def test_the_gallery_is_written_or_refused_with_its_places(family: str) -> None:
    refusals, approximated = {}, {}
    for name in gallery.names():
        found = gallery.load(name)
        text, gaps = write(found, family, approximate=True)  # type: ignore[arg-type]
        assert text.isascii()
        if gaps:
            refusals[name] = {gap.path for gap in gaps}
            continue
        _, gaps = write(found, family)  # type: ignore[arg-type]
        if gaps:
            words = APPROXIMATED[family][name]
            assert any(words in gap.reason for gap in gaps)
            assert all("; --approximate writes " in gap.reason for gap in gaps)
            approximated[name] = words
    assert refusals == REFUSED[family]
    assert approximated == APPROXIMATED.get(family, {})


@pytest.mark.parametrize("family", FAMILIES)
def test_a_title_stays_in_its_comment(family: str) -> None:
    title = '"a\\n!\\r\\nno service-policy */ \\u2028 set x\\u0085 \\t b"'
    text, gaps = write(scenario("all: match: any", title=title), family)  # type: ignore[arg-type]
    assert gaps == () or family not in ("ios", "tc")
    first = text.splitlines()[0]
    assert "no service-policy" in first
    assert "no service-policy" not in text.partition("\n")[2]
    assert "*/" not in first.removesuffix("*/")


def test_links_and_interfaces_are_checked() -> None:
    found = scenario("all: match: any")
    with pytest.raises(UsageError, match="`r>t`: there is no such link in written; did you mean"):
        write(found, "ios", links=["r>t"])
    for wrong in ("", "eth0\nset", "eth 0", "-x", "eth0;x", "a" * 65):
        with pytest.raises(UsageError, match="is not the name of an interface; expected eth1"):
            write(found, "ios", interfaces={"r>s": wrong})


def test_names_are_unique_without_regard_to_case() -> None:
    names = Names.besides(["Fixed"], 8)
    found = [names.unique(each) for each in ("Fixed", "FIXED", "a" * 9, "a" * 10, "A" * 8, "b")]
    assert found == ["Fixed_2", "FIXED_3", "a" * 8, "aaaaaa_2", "AAAAAA_3", "b"]


def test_only_the_given_links_are_written() -> None:
    found = scenario(
        "all: match: any", link=", remark: {s: clear}", router="{kind: router, remark: clear}"
    )
    both, _ = write(found, "ios")
    assert both.count("interface ") == 3
    assert both.count("service-policy") == 4
    one, _ = write(found, "ios", links=["r>s"], interfaces={"r>s": "Gi0/9"})
    assert one.count("interface Gi0/9\n") == one.count("interface ") == 1
    assert "service-policy input r-input" in one
    linux, _ = write(found, "tc", links=["r>s"], interfaces={"r>s": "eth9"})
    assert "dev eth9" in linux
    assert {word for word in linux.split() if word.startswith(("r-", "s-"))} == set()
    assert linux.count("iifname") == linux.count("oifname") == 1


def test_changes_are_named() -> None:
    rest = (
        "changes: [{at: 100 ms, on: r>s, class: x, police: {burst: 9 kB}}, "
        "{at: 200 ms, on: r>s, policy: none}, {at: 300 ms, on: r>s, rate: 1 Mbps}]"
    )
    found = scenario(
        "x: match: {dscp: ef}, police: {rate: 1 Mbps, burst: 8 kB}", "y: match: any", rest=rest
    )
    text, _ = write(found, "ios")
    assert "! not included: changes.0, at 100 ms (policer at r>s)\n" in text
    assert "! not included: changes.1, at 200 ms (policy at r>s)\n" in text
    assert "changes.2" not in text


def test_a_class_without_packets_is_refused() -> None:
    found = scenario("a: match: {protocol: icmp, port: 1}", "b: match: any")
    for family in FAMILIES:
        if family != "tc":
            reason = "no packet meets it; expected another match"
            assert refused(found, family)["policies.p.classes.a.match"] == reason


# Cisco IOS


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


# Junos


def test_junos_schedulers() -> None:
    found = scenario(
        "voice: match: {dscp: ef}, priority: strict, police: {rate: 1 Mbps, burst: 8 kB}, "
        "queue: {limit: 100 ms}",
        "web: match: {dscp: 2}, bandwidth: 30%, limit: 50%, queue: {limit: 100 kB}",
        "b: match: {dscp: 3}, bandwidth: 1 Mbps, borrow: false, queue: {limit: 5 kB}",
        "rest: match: any, queue: {limit: 50 kB}, shape: {rate: 7 Mbps, burst: 8 kB}",
        link=", shape: {r: {rate: 8 Mbps, burst: 10 kB}}",
    )
    assert (
        section(found, "class-of-service")
        == """
forwarding-classes {
    class rest queue-num 0;
    class voice queue-num 1;
    class web queue-num 2;
    class b queue-num 3;
}
schedulers {
    p-voice {
        priority strict-high;
        buffer-size temporal 12500;
    }
    p-web {
        transmit-rate percent 30;
        priority low;
        shaping-rate 4000000;
        buffer-size temporal 100000;
    }
    p-b {
        transmit-rate 1000000 exact;
        priority low;
        buffer-size temporal 5000;
    }
    p-rest {
        transmit-rate 3600000;
        priority low;
        shaping-rate 7000000 burst-size 8000;
        buffer-size temporal 50000;
    }
}
scheduler-maps {
    p {
        forwarding-class voice scheduler p-voice;
        forwarding-class web scheduler p-web;
        forwarding-class b scheduler p-b;
        forwarding-class rest scheduler p-rest;
    }
}
traffic-control-profiles {
    p-shape {
        scheduler-map p;
        shaping-rate 8000000 burst-size 10000;
    }
}
interfaces {
    ge-0/0/1 {
        output-traffic-control-profile p-shape;
    }
}"""
    )


def section(found: Scenario, name: str) -> str:
    """Return the statements in a block of a configuration of Junos, without indentation."""
    lines = written(found, "junos")
    first = lines.index(f"{name} {{")
    last = lines.index("}", first)
    return "\n".join(["", *(line.removeprefix("    ") for line in lines[first + 1 : last])])


def test_junos_filters() -> None:
    found = scenario(
        "v: match: {dscp: [ef, 1]}, police: {rate: 1 Mbps, burst: 8 kB}, queue: {limit: 10 kB}",
        "w: match: {protocol: tcp, port: 80, source: a}, queue: {limit: 10 kB}, "
        "police: {rate: 1 Mbps, burst: 8 kB, peak_rate: 2 Mbps, peak_burst: 9 kB, "
        "exceed: {remark: af12}, violate: {remark: be}}",
        "x: match: any, queue: {limit: 10 kB}",
        link=", remark: {r: {af11: af12}}",
    )
    assert (
        section(found, "firewall")
        == """
policer p-v {
    if-exceeding {
        bandwidth-limit 1000000;
        burst-size-limit 8000;
    }
    then {
        discard;
    }
}
three-color-policer p-w {
    two-rate {
        color-blind;
        committed-information-rate 1000000;
        committed-burst-size 8000;
        peak-information-rate 2000000;
        peak-burst-size 9000;
    }
}
family inet {
    filter r-input {
        term mark-0 {
            from {
                dscp af11;
            }
            then {
                dscp af12;
                accept;
            }
        }
        term rest {
            then accept;
        }
    }
    filter p {
        term v {
            from {
                dscp [ 1 ef ];
            }
            then {
                policer p-v;
                forwarding-class v;
                accept;
            }
        }
        term w {
            from {
                protocol tcp;
                source-address {
                    10.0.0.1/32;
                }
                port 80;
            }
            then {
                three-color-policer {
                    two-rate p-w;
                }
                forwarding-class w;
                accept;
            }
        }
        term x {
            then {
                forwarding-class x;
                accept;
            }
        }
    }
}"""
    )
    cos = section(found, "class-of-service")
    assert "forwarding-class w {\n            loss-priority medium-high code-point 001100;" in cos
    assert "            loss-priority high code-point 000000;" in cos


def test_junos_priorities_are_those_of_borrowing() -> None:
    found = scenario(
        "a: match: {dscp: 1}, priority: 5, queue: {limit: 10 kB}",
        "b: match: {dscp: 2}, priority: 2, queue: {limit: 10 kB}",
        "c: match: any, queue: {limit: 10 kB}",
    )
    lines = [line.strip() for line in written(found, "junos")]
    chosen = [line for line in lines if line.startswith(("priority", "transmit"))]
    assert chosen == [
        "transmit-rate remainder;",
        "priority low;",
        "transmit-rate remainder;",
        "priority medium-low;",
        "transmit-rate remainder;",
        "priority medium-high;",
    ]


def test_what_junos_cannot_express() -> None:
    assert refused(
        scenario(
            "a: match: {dscp: 1}, priority: strict, queue: {limit: 33 packets}",
            "b: match: {dscp: 2}, priority: strict, queue: {limit: 10 kB, drop: head}",
            "c: match: {source: '2001:db8::/32'}, queue: {pie: {}}, police: {rate: 7 kbps, "
            "burst: 1 kB, excess_burst: 1 kB, conform: {remark: af11}, exceed: drop, "
            "colour_aware: true}",
            "d: match: {dscp: 3}, shape: {rate: 9 Mbps}, bandwidth: 3 kbps, queue: {limit: 10 kB}",
            "e: match: any, classes: {f: {match: any, unused: true}}",
            scheduler="drr",
        ),
        "junos",
    ).keys() == {
        "policies.p.scheduler",
        "policies.p.classes.a.queue.limit",
        "policies.p.classes.b",
        "policies.p.classes.b.queue.drop",
        "policies.p.classes.c.match",
        "policies.p.classes.c.queue.pie",
        *(
            f"policies.p.classes.c.police.{key}"
            for key in ("rate", "burst", "excess_burst", "conform", "exceed", "colour_aware")
        ),
        "policies.p.classes.d.shape",
        "policies.p.classes.d.bandwidth",
        "policies.p.classes.e",
    }
    nine = [f"c{n}: match: {{dscp: {n}}}, queue: {{limit: 10 kB}}" for n in range(8)]
    found = refused(scenario(*nine, "rest: match: any, queue: {limit: 10 kB}"), "junos")
    assert found == {"policies.p.classes.c7": "Junos has 8 queues at an interface"}


# ALTQ


def test_altq_classes() -> None:
    found = scenario(
        "x: match: {protocol: udp, destination: b, dscp: [cs1, ef]}, bandwidth: 40%, "
        "borrow: false, queue: {limit: 30 packets}",
        "y: match: {protocol: tcp, source: 10.0.0.0/8, port: [80, 82-83]}, bandwidth: 333 kbps, "
        "queue: {limit: 60 packets}",
        "default: match: any, bandwidth: 40%, queue: {limit: 30 packets}",
        scheduler="altq-cbq, cbq: {rate: 2 Mbps, packet: 576 B, maxburst: 8, minburst: 3, "
        "token_bucket: false, efficient: true}",
    )
    bursts = "maxburst 8 minburst 3 packetsize 576"
    assert written(found, "altq") == [
        "interface em1 bandwidth 2000000 cbq no-control no-tbr efficient",
        "class cbq em1 root_class NULL pbandwidth 100",
        f"class cbq em1 x root_class pbandwidth 40 {bursts}",
        f"class cbq em1 y root_class borrow exactbandwidth 333000 {bursts} maxdelay 2163",
        f"class cbq em1 default_2 root_class borrow default pbandwidth 40 {bursts}",
        "filter em1 x ruleno 8 10.0.0.4 0 0 0 17 tos 0x20 tosmask 0xfc",
        "filter em1 x ruleno 7 10.0.0.4 0 0 0 17 tos 0xb8 tosmask 0xfc",
        *(
            f"filter em1 y ruleno {6 - number} 0 0 10.0.0.0 netmask 255.0.0.0 {port} 6"
            for number, port in enumerate((80, 82, 83))
        ),
        *(
            f"filter em1 y ruleno {3 - number} 0 {port} 10.0.0.0 netmask 255.0.0.0 0 6"
            for number, port in enumerate((80, 82, 83))
        ),
    ]


def test_altq_priorities_and_service_curves() -> None:
    first = scenario("a: match: {dscp: 1}", "b: match: any", scheduler="priority")
    assert written(first, "altq") == [
        "interface em1 bandwidth 10000000 priq",
        "class priq em1 a NULL priority 1 qlimit 64",
        "class priq em1 b NULL default priority 0 qlimit 64",
        "filter em1 a ruleno 1 0 0 0 0 0 tos 0x04 tosmask 0xfc",
    ]
    shared = scenario(
        "a: match: {dscp: 1}, limit: 5 Mbps, bandwidth: 3 Mbps, "
        "classes: {c: {match: any, unused: true}}",
        "b: match: any",
        link=", shape: {r: {rate: 8 Mbps, burst: 10 kB}}",
    )
    assert written(shared, "altq") == [
        "interface em1 bandwidth 8000000 tbrsize 10000 hfsc",
        "class hfsc em1 a root [sc 0 0 3000000] [ul 0 0 5000000]",
        "class hfsc em1 c a [sc 0 0 3000000] qlimit 64",
        "class hfsc em1 b root default [sc 0 0 5000000] qlimit 64",
        "filter em1 c ruleno 1 0 0 0 0 0 tos 0x04 tosmask 0xfc",
    ]
    assert written(shared, "pf") == [
        "altq on em1 hfsc bandwidth 8000000b tbrsize 10000 queue { a, b }",
        "queue a on em1 bandwidth 3000000b hfsc(upperlimit 5000000b) { c }",
        "queue c on em1 bandwidth 3000000b qlimit 64 hfsc",
        "queue b on em1 bandwidth 5000000b qlimit 64 hfsc(default)",
        *(f"pass out quick on em1 tos 0x0{n} no state queue c" for n in (4, 5, 6, 7)),
        "pass out quick on em1 no state queue b",
    ]


def test_pf_rules() -> None:
    found = scenario(
        "x: match: {protocol: udp, destination: [b, '2001:db8::/32'], port: [53, 60-70]}, "
        "priority: 2, queue: {limit: 20 packets}",
        "y: match: {protocol: icmp}, priority: 4, borrow: false",
        "z: match: any",
        scheduler="altq-cbq",
    )
    ports = "port { 53, 60:70 }"
    rule = "pass out quick on em1"
    assert written(found, "pf") == [
        "altq on em1 cbq bandwidth 10000000b queue { x, y, z }",
        "queue x on em1 bandwidth 3333333b priority 5 qlimit 20 cbq(borrow)",
        "queue y on em1 bandwidth 3333333b priority 3 qlimit 64 cbq",
        "queue z on em1 bandwidth 3333333b priority 7 qlimit 64 cbq(borrow default)",
        f"{rule} inet proto udp from any {ports} to 10.0.0.4/32 no state queue x",
        f"{rule} inet6 proto udp from any {ports} to 2001:db8::/32 no state queue x",
        f"{rule} inet proto udp from any to 10.0.0.4/32 {ports} no state queue x",
        f"{rule} inet6 proto udp from any to 2001:db8::/32 {ports} no state queue x",
        f"{rule} proto icmp no state queue y",
        f"{rule} no state queue z",
    ]


def test_what_altq_cannot_express() -> None:
    place = "policies.p.classes"
    marked = scenario(
        "a: match: {dscp: be}, police: {rate: 1 Mbps, burst: 8 kB}, mark: af11, queue: {codel: {}}",
        "b: match: {source: '2001:db8::/32'}, shape: {rate: 6 Mbps, burst: 8 kB}, "
        "queue: {limit: 10 kB, drop: head}",
        "c: match: {destination_port: 1-1000}, queue: {red: {}}",
        "d: match: {destination: b}",
        "e: match: any, priority: strict",
        link=", remark: {r: clear}",
        scheduler="drr",
    )
    both = {
        "links.1.remark.r.0",
        "policies.p.scheduler",
        f"{place}.a.police",
        f"{place}.a.mark",
        f"{place}.a.match",
        f"{place}.a.queue.codel",
        f"{place}.b.shape",
        f"{place}.b.queue.limit",
        f"{place}.b.queue.drop",
        *(f"{place}.c.queue.red.{key}" for key in ("min", "max", "weight", "gentle")),
        f"{place}.e",
    }
    assert refused(marked, "pf").keys() == both
    # A filter of a single destination would precede the others.
    assert refused(marked, "altq").keys() == both | {f"{place}.b.match", f"{place}.c.match"}
    cbq = scenario(
        "a: match: any, queue: {limit: 3 packets}",
        scheduler="altq-cbq, cbq: {tick: 1 ms, kick: false, maxburst: 9}",
        link=", shape: {r: {rate: 8 Mbps, burst: 10 kB}}",
    )
    common = {"policies.p.cbq.tick", "policies.p.cbq.kick", "links.1.shape.r"}
    assert refused(cbq, "altq").keys() == common | {f"{place}.a.queue.limit"}
    assert refused(cbq, "pf").keys() == common | {"policies.p.cbq.maxburst"}


# VyOS


def test_vyos_shapers() -> None:
    found = scenario(
        "a: match: {protocol: tcp, port: [80, 90-91], source: 10.0.0.0/8}, bandwidth: 10%, "
        "mark: af11",
        "b: match: [{dscp: [cs1, ef]}, {protocol: icmp}], bandwidth: 333 kbps, limit: 5 Mbps, "
        "queue: {limit: 20 packets}",
        "c: match: any, borrow: false",
    )
    whole = "ip protocol tcp"
    source, own = "ip source address 10.0.0.0/8", "class 10 match a"
    ports = [f"ip source port {port}" for port in (80, 90, 91)]
    ports += [f"ip destination port {port}" for port in (80, 90, 91)]
    matches = []
    for number, port in enumerate(ports, 1):
        fields = [whole, source, port]
        matches += [f"{own}-{number} {field}" for field in fields]
    wanted = [
        "bandwidth 10000000bit",
        "class 10 description a",
        *matches,
        "class 10 bandwidth 10%",
        "class 10 ceiling 10000000bit",
        "class 10 codel-quantum 4546",
        "class 10 set-dscp 10",
        "class 10 queue-type drop-tail",
        "class 10 queue-limit 64",
        "class 20 description b",
        "class 20 match b-1 ip dscp 8",
        "class 20 match b-2 ip dscp 46",
        "class 20 match b-3 ip protocol icmp",
        "class 20 bandwidth 333000bit",
        "class 20 ceiling 5000000bit",
        "class 20 codel-quantum 1514",
        "class 20 queue-type drop-tail",
        "class 20 queue-limit 20",
        "default bandwidth 8667000bit",
        "default ceiling 8667000bit",
        "default codel-quantum 39404",
        "default queue-type drop-tail",
        "default queue-limit 64",
    ]
    assert written(found, "vyos") == [
        *(f"set qos policy shaper p {line}" for line in wanted),
        "set qos interface eth1 egress p",
    ]


def test_what_vyos_cannot_express() -> None:
    place = "policies.p.classes"
    found = scenario(
        "a: match: [{except: {source: 10.1.0.0/16}}, {dscp: 1}], priority: 2, "
        "queue: {limit: 10 kB}",
        "b: match: {dscp: [1, 2]}, police: {rate: 1 Mbps, burst: 8 kB}, queue: {codel: {}}",
        "c: match: {source: '2001:db8::/32'}, shape: {rate: 4 Mbps, burst: 8 kB}, "
        "queue: {drop: head}",
        "d: match: {destination_port: 1-100}, priority: strict",
        "e: match: any, classes: {f: {match: any, unused: true}}",
        link=", remark: {r: clear}, shape: {r: {rate: 8 Mbps, burst: 8 kB}}",
    )
    assert refused(found, "vyos").keys() == {
        "links.1.remark.r.0",
        "links.1.shape.r",
        # The second class has packets of the exception that precede the first class's others.
        f"{place}.b.match",
        f"{place}.c.match",
        f"{place}.d.match",
        f"{place}.e.match",
        f"{place}.a.priority",
        f"{place}.a.queue.limit",
        f"{place}.b.police",
        f"{place}.b.queue.codel",
        f"{place}.c.shape",
        f"{place}.c.queue.drop",
        f"{place}.d",
        f"{place}.e",
    }


# The command


def test_the_command_writes_a_file(perhop: Perhop, place: Path) -> None:
    code, printed, _ = perhop("export", "qbss-1-70", "--to", "ios")
    assert code == 0
    assert perhop("export", "qbss-1-70", "--to", "ios", "--out", "r.cfg") == (0, "", "")
    assert (place / "r.cfg").read_text() == printed
    code, out, err = perhop("export", "qbss-1-70", "--to", "ios", "--out", "none/r.cfg")
    assert (code, out) == (2, "")
    assert "cannot write none/r.cfg" in err


def test_gaps_have_their_place_in_the_file(perhop: Perhop, place: Path) -> None:
    (place / "x.yaml").write_text(
        network(
            classes(
                "a: match: {dscp: 1}, bandwidth: 50%, queue: {drop: head}",
                "b: match: any, queue: {pie: {}}",
            )
        ).lstrip()
    )
    wrong = ("export", "x.yaml", "--to", "ios", "--out", "r.cfg", "--set", "links.1.rate=2500 bps")
    code, out, err = perhop(*wrong)
    assert (code, out) == (3, "")
    assert not (place / "r.cfg").exists()
    assert err.splitlines() == [
        "perhop: IOS cannot express all of written:",
        "  --set links.1.rate=2500 bps: links.1.rate: IOS has bandwidths in kb/s and in whole per "
        "cent, not 2.5 kbps; --approximate writes 2 kb/s",
        "  x.yaml:10:63: policies.p.classes.a.queue.drop: IOS drops at the tail",
        "  x.yaml:10:115: policies.p.classes.b.queue.pie: IOS has WRED only, not pie",
    ]


EDGE = """\
class-map match-any VOICE
 match dscp ef
policy-map WAN
 class VOICE
  priority
  police cir 1000000 bc 25000
  queue-limit 20000 bytes
 class class-default
  compression header ip
  queue-limit 64
policy-map LAN
 class class-default
  queue-limit 50000 bytes
interface GigabitEthernet0/1
 bandwidth 10000
 service-policy output WAN
interface GigabitEthernet0/2
 bandwidth 20000
 service-policy output LAN
"""


def test_a_configuration_is_written_for_another_family(perhop: Perhop, place: Path) -> None:
    (place / "edge.cfg").write_text(EDGE)
    code, out, err = perhop("export", "edge.cfg", "--to", "junos")
    assert (code, out) == (3, "")
    lost = "edge.cfg:9: compression header ip: not modelled: unknown statement"
    assert f"perhop: warning: {lost}\n" in err
    assert "edge.cfg:10:1: policies.WAN.classes.class-default.queue.limit: Junos has buffers" in err
    code, out, _ = perhop("export", "edge.cfg", "--to", "junos", "--approximate")
    assert code == 0
    assert "forwarding-class VOICE scheduler WAN-VOICE;" in out
    assert "approximated by 76800 us, 96000 B" in out
    code, out, _ = perhop(
        *("export", "edge.cfg", "--to", "junos", "--from-interface", "Gi0/2"),
        *("--interface", "edge>next=xe-0/0/0", "--link", "edge>next"),
    )
    assert code == 0
    assert "output LAN;" in out
    assert "xe-0/0/0 {" in out
    code, _, err = perhop("export", "qbss-1-70", "--to", "ios", "--from-interface", "Gi0/2")
    assert code == 2
    assert "--from-interface: qbss-1-70 is not the configuration of a router" in err


def test_the_command_offers_every_family() -> None:
    offered = next(each for each in export.params if each.name == "family").type
    assert isinstance(offered, click.Choice)
    assert list(offered.choices) == list(FAMILIES)


def test_tc_is_a_family(perhop: Perhop) -> None:
    device = "testbed>slac=eth1"
    code, out, err = perhop("export", "qbss-1-70", "--to", "tc", "--interface", device)
    assert (code, err) == (0, "")
    assert perhop("tc", "qbss-1-70", "--device", device) == (0, out, "")
