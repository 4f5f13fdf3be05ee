"""Scenarios written as configurations of ALTQ, pf and VyOS."""

import pytest

from exporting import refused, scenario, written
from perhop import Scenario
from perhop.routers.writing import write

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
        f"class cbq em1 y root_class borrow exactbandwidth 333000 {bursts} maxdelay 831",
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
        "class hfsc em1 a root [ls 0 0 3000000] [ul 0 0 5000000]",
        "class hfsc em1 c a [ls 0 0 3000000] qlimit 64",
        "class hfsc em1 b root default [ls 0 0 5000000] qlimit 64",
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
    overlap = {f"{place}.c.match"}
    assert refused(marked, "altq").keys() == both - {"links.1.remark.r.0"} | overlap
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
        # VyOS compares second matches after the first ones of all classes.
        *(
            f"class 20 match b-{number} {field}"
            for number, port in enumerate(ports[:5], 1)
            for field in (whole, source, port)
        ),
        "class 20 match b-6 ip dscp CS1",
        "class 20 match b-7 ip dscp EF",
        "class 20 match b-8 ip protocol icmp",
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
        "default priority 0",
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


def test_what_limiters_of_vyos_cannot_express() -> None:
    place = "policies.p.classes"
    found = scenario(
        "a: match: {dscp: 1}",
        "b: match: {dscp: [2, 3]}, police: {rate: 1 Mbps, burst: 8 kB}",
        "c: match: {dscp: 4}, police: {rate: 1 Mbps, burst: 8 kB, exceed: {remark: be}}",
        "d: match: any, police: {rate: 1 Mbps, burst: 8 kB, excess_burst: 9 kB}",
    )
    assert refused(found, "vyos").keys() == {
        "policies.p",
        f"{place}.a",
        f"{place}.b.match",
        f"{place}.c.police.exceed",
        f"{place}.d.police",
    }


def test_vyos_queues_of_strict_and_fair_classes() -> None:
    found = scenario(
        "a: match: {dscp: ef}", "b: match: any, queue: {fq-codel: {ecn: false}}",
        scheduler="priority",
    )  # fmt: skip
    assert written(found, "vyos") == [
        *(
            f"set qos policy priority-queue p {line}"
            for line in (
                "class 1 description a", "class 1 match a-1 ip dscp EF",
                "class 1 queue-type drop-tail", "class 1 queue-limit 64",
                "default queue-type fq-codel", "default queue-limit 10240", "default flows 1024",
                "default interval 100", "default target 5", "default codel-quantum 1514",
            )
        ),
        "set qos interface eth1 egress p",
    ]  # fmt: skip


def test_what_vyos_has_for_queues_only_in_part() -> None:
    found = scenario(
        "a: match: {dscp: 1}, priority: 5, queue: {fq-codel: {target: 1.5 ms}}",
        "b: match: {protocol: tcp}, priority: 1, queue: {limit: 64 packets, red: {min: 5 kB, "
        "max: 15500 B, probability: 3%}}",
        "c: match: any, priority: 1, queue: {wred: {}}",
    )
    place = "policies.p.classes"
    assert refused(found, "vyos").keys() == {
        # TCP with DSCP 1 would be in b, whose priority is the better one.
        f"{place}.a.priority",
        f"{place}.a.queue.fq-codel.ecn",
        f"{place}.a.queue.fq-codel.target",
        f"{place}.b.queue.limit",
        f"{place}.b.queue.red.ecn",
        f"{place}.b.queue.red.gentle",
        f"{place}.b.queue.red.max",
        f"{place}.b.queue.red.probability",
        f"{place}.b.queue.red.weight",
        f"{place}.c.queue.wred",
    }
    strict = scenario(
        "a: match: {dscp: 1}, queue: {limit: 5 kB, red: {min: 5000 MB, max: 9000 MB}}",
        "b: match: any",
        scheduler="priority",
    )
    assert refused(strict, "vyos").keys() >= {
        f"{place}.a.queue.red",
        f"{place}.a.queue.red.min",
        f"{place}.a.queue.red.max",
    }
    shared = scenario(
        "a: match: {dscp: 1}, bandwidth: 10%, queue: {fq-codel: {ecn: false}}",
        "b: match: any, bandwidth: 90%, queue: {fq-codel: {ecn: false}}",
    )
    assert refused(shared, "vyos").keys() == {
        f"{place}.{name}.queue.fq-codel.quantum" for name in "ab"
    }


@pytest.mark.parametrize("family", ["ios", "junos", "vyos"])
def test_service_curves_are_refused(family: str) -> None:
    found = scenario(
        "a: match: {dscp: 1}, bandwidth: 1 Mbps, realtime: {rate: 1 Mbps}",
        "b: match: any, bandwidth: 2 Mbps",
        scheduler="hfsc",
    )
    assert "policies.p.scheduler" in refused(found, family)


def curves(*lines: str) -> Scenario:
    return scenario(*lines, "z: match: any, bandwidth: 1 Mbps", scheduler="hfsc")


def test_service_curves_of_altq() -> None:
    found = curves(
        "a: match: {dscp: 1}, bandwidth: 64 kbps, realtime: {umax: 160 B, dmax: 5 ms, rate: 64 "
        "kbps}, queue: {limit: 9 packets}",
        "b: match: {dscp: 2}, linkshare: {m1: 40%, d: 10 ms, m2: 20%}, upperlimit: {rate: 50%}, "
        "classes: {c: {match: any, realtime: {rate: 1 Mbps}, unused: true}}",
    )
    assert [line for line in written(found, "altq") if line.startswith("class")] == [
        "class hfsc em1 a root [rt 256000 5 64000] [ls 0 0 64000] qlimit 9",
        # altqd wants a guarantee that covers those of the classes inside.
        "class hfsc em1 b root [rt 0 0 1000000] [ls 4000000 10 2000000] [ul 0 0 5000000]",
        "class hfsc em1 c b [rt 0 0 1000000] [ls 0 0 2000000] qlimit 64",
        "class hfsc em1 z root default [ls 0 0 1000000] qlimit 64",
    ]
    assert written(found, "pf")[1:5] == [
        "queue a on em1 bandwidth 64000b qlimit 9 hfsc(realtime (256000b, 5, 64000b))",
        "queue b on em1 bandwidth 2000000b "
        "hfsc(linkshare (4000000b, 10, 2000000b) upperlimit 5000000b) { c }",
        "queue c on em1 bandwidth 2000000b qlimit 64 hfsc(realtime 1000000b)",
        "queue z on em1 bandwidth 1000000b qlimit 64 hfsc(default)",
    ]


@pytest.mark.parametrize(
    ("key", "families", "settings"),
    [
        ("a.realtime", "altq pf", "bandwidth: 20%, realtime: {m1: 1 Mbps, d: 9 ms, m2: 2 Mbps}"),
        ("a.realtime", "altq pf", "bandwidth: 20%, realtime: {m1: 2 Mbps, d: 5.5 ms, m2: 10%}"),
        ("a.upperlimit", "altq pf", "bandwidth: 20%, upperlimit: {m1: 20 Mbps, d: 9 ms, m2: 30%}"),
        ("", "altq pf", "bandwidth: 20%, realtime: {rate: 8100 kbps}"),
        ("", "altq pf", "linkshare: {m1: 9500 kbps, d: 9 ms, m2: 20%}"),
        ("a.upperlimit", "altq pf", "bandwidth: 1%, realtime: {rate: 3%}, upperlimit: {rate: 2%}"),
        (
            "a.upperlimit", "altq",
            "bandwidth: 40%, realtime: {m1: 40%, d: 5 ms, m2: 30%}, upperlimit: {rate: 35%}",
        ),
    ],
)  # fmt: skip
def test_curves_that_altq_does_not_admit(key: str, families: str, settings: str) -> None:
    found = curves(f"a: match: {{dscp: 1}}, {settings}")
    place = "policies.p.classes" + (f".{key}" if key else "")
    for family in ("altq", "pf"):
        expected = {place} if family in families else set()
        assert refused(found, family).keys() == expected, family


def test_altqd_creates_classes_with_one_of_their_curves() -> None:
    steep = "match: {dscp: 1}, bandwidth: 30%, realtime: {m1: 70%, d: 10 ms, m2: 10%}"
    wide = "match: {dscp: 2}, bandwidth: 50%"
    assert refused(curves(f"a: {steep}", f"b: {wide}"), "altq") == {}
    later = curves(f"b: {wide}", f"a: {steep}")
    assert refused(later, "altq").keys() == {"policies.p.classes.a"}
    assert refused(later, "pf") == {}


def test_pfctl_cuts_rates_above_those_of_the_queue_around() -> None:
    inner = "{c: {match: any, realtime: {rate: 4 Mbps}, unused: true}}"
    found = curves(f"a: match: {{dscp: 1}}, bandwidth: 2 Mbps, classes: {inner}")
    assert refused(found, "altq") == {}
    assert refused(found, "pf").keys() == {"policies.p.classes.a.classes.c.realtime"}
    text, gaps = write(found, "pf", links=["r>s"], approximate=True)
    assert (gaps, "approximated by 2 Mbps" in text) == ((), True)
