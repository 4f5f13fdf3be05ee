"""Scenarios written as configurations of Junos."""

from exporting import refused, scenario, written
from perhop import Scenario


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


def test_junos_limits_an_interface_to_the_rate_of_its_link() -> None:
    found = scenario(
        "x: match: {dscp: ef}, queue: {limit: 50 kB}", "y: match: any, queue: {limit: 50 kB}"
    )
    said = section(found, "class-of-service").partition("\ninterfaces {\n")[2]
    inside = "        scheduler-map p;\n        shaping-rate 10000000;\n"
    assert said == f"    ge-0/0/1 {{\n{inside}    }}\n}}"


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


def test_junos_drop_profiles() -> None:
    found = scenario(
        "a: match: {dscp: 1}, queue: {limit: 100 kB, red: {min: 20 kB, max: 50 kB, weight: 100%, "
        "probability: 10%}}",
        "b: match: any, queue: {limit: 100 kB, red: {min: 30 kB, max: 80 kB, weight: 100%, "
        "probability: 100%, ecn: false}}",
    )
    cos = section(found, "class-of-service")
    assert (
        """
drop-profiles {
    p-a {
        interpolate {
            fill-level [ 20 50 ];
            drop-probability [ 0 10 ];
        }
    }
    p-b {
        interpolate {
            fill-level [ 30 80 ];
            drop-probability [ 0 100 ];
        }
    }
}"""
        in cos
    )
    assert "loss-priority any protocol any drop-profile p-b;" in cos
    assert cos.count("explicit-congestion-notification;") == 1
    near = scenario(
        "a: match: {dscp: 1}, queue: {limit: 100 kB, red: {min: 1234 B, max: 50 kB, "
        "weight: 1%, probability: 0.5%, gentle: false}}",
        "b: match: {dscp: 2}, queue: {limit: 10 kB, red: {min: 9 kB, max: 20 kB, weight: 100%, "
        "harddrop: false}}",
        "c: match: any, queue: {limit: 10 packets, wred: {}}",
    )
    found = refused(near, "junos")
    red = "policies.p.classes.a.queue.red"
    assert "fill levels in whole percent, not 1.234%" in found[f"{red}.min"]
    assert "chances in whole percent, not 0.5%" in found[f"{red}.probability"]
    assert "go by the current length" in found[f"{red}.weight"]
    assert "rise to 100% where the queue is full" in found[f"{red}.gentle"]
    assert "is above the limit" in found["policies.p.classes.b.queue.red.max"]
    assert "reaches 100%" in found["policies.p.classes.b.queue.red.harddrop"]
    assert "by loss priority" in found["policies.p.classes.c.queue.wred"]


def test_junos_filters_of_both_versions() -> None:
    found = scenario(
        "v: match: {source: ['2001:db8::/32', 10.0.0.0/8], dscp: ef, protocol: icmp}, "
        "mark: af11, queue: {limit: 10 kB}",
        "w: match: {destination: '2001:db8:1::/48'}, queue: {limit: 10 kB}, "
        "police: {rate: 1 Mbps, burst: 8 kB}",
        "x: match: any, queue: {limit: 10 kB}",
        link=", remark: {r: [{match: {source: '::/0'}, dscp: be}]}",
    )
    filters = section(found, "firewall").split("family ")
    assert "10.0.0.0/8;" in filters[1]
    assert "term w" not in filters[1]
    assert "2001:db8::/32;" in filters[2]
    assert "traffic-class ef;" in filters[2]
    assert "next-header icmp6;" in filters[2]
    assert "traffic-class 0;" in filters[2] or "traffic-class be;" in filters[2]
    assert "dscp-ipv6 p;" in section(found, "class-of-service")
    both = scenario(
        "v: match: {source: '2001:db8::/32'}, queue: {limit: 10 kB}",
        "x: match: any, queue: {limit: 10 kB}, police: {rate: 1 Mbps, burst: 8 kB}",
    )
    assert "a bucket for each version" in refused(both, "junos")["policies.p.classes.x.police"]


def test_junos_polices_all_that_an_interface_sends() -> None:
    inner = "classes: {y: {match: any, unused: true, queue: {limit: 10 kB}}}"
    found = scenario(f"all: match: any, police: {{rate: 5 Mbps, burst: 8 kB}}, {inner}")
    assert "policer {\n                output all;" in section(found, "interfaces")
    assert "policer all {" in section(found, "firewall")
    shaped = scenario(f"all: match: any, mark: af11, {inner}")
    assert refused(shaped, "junos").keys() == {"policies.p.classes.all"}


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
