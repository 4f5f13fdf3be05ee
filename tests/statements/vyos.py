"""Statements of VyOS, with what its documentation says of them, and the script that runs them.

The script is `python/vyos/qos` of github.com/vyos/vyos-1x, release 1.5 of October 2024; what the
qdiscs that it makes do is measured in the statements of Linux.
"""

from __future__ import annotations

from typing import Any

from statements.statement import Approximated, Statement

GUIDE = "VyOS documentation, Traffic Policy"
BASE = "python/vyos/qos/base.py"
SHAPER = "python/vyos/qos/trafficshaper.py"


def commands(*lines: str) -> str:
    """Return `set` commands at interface eth0 of 10 Mb/s."""
    return "".join(
        f"set {each}\n"
        for each in ("interfaces ethernet eth0 speed 10", "qos interface eth0 egress P", *lines)
    )


def policy(kind: str, *lines: str) -> str:
    """Return a policy that eth0 sends through."""
    return commands(*(f"qos policy {kind} P {each}".rstrip() for each in lines))


EF = "class 10 match voice ip dscp EF"


def shaper(*lines: str, default: str = "default bandwidth 60%") -> str:
    """Return a shaper of 10 Mb/s whose class 10 has EF."""
    return policy("shaper", "bandwidth 10mbit", EF, default, *lines)


VOICE: dict[str, Any] = {"dscp": "ef", "mbps": 9}
REST: dict[str, Any] = {"mbps": 9}
BOTH = {"voice": VOICE, "rest": REST}
HALF = shaper("class 10 bandwidth 50%", default="default bandwidth 50%")


def shared(words: str, text: str, other: str, source: str, voice: float, rest: float) -> Statement:
    """Return a statement with what class 10 and the default class get of 10 Mb/s."""
    expected = {"voice": voice, "rest": rest}
    return Statement(words, text, other, source, flows=BOTH, expected=expected)


SHAPERS = (
    shared(
        "qos interface egress",
        shaper("class 10 bandwidth 20%"),
        shaper("class 10 bandwidth 20%").replace(
            "eth0 egress P", "eth0 egress Q\nset qos policy drop-tail Q"
        ),
        f"{GUIDE}: the policy of what an interface sends",
        2.0,
        6.0,
    ),
    shared(
        "shaper bandwidth",
        policy("shaper", "bandwidth 6mbit", EF, "class 10 bandwidth 50%", "default bandwidth 50%"),
        HALF,
        f"{GUIDE}, Shaper: the total bandwidth; {SHAPER}",
        3.0,
        3.0,
    ),
    shared(
        "class bandwidth 30%",
        shaper("class 10 bandwidth 30%"),
        HALF,
        f"{SHAPER}: of the bandwidth of the shaper",
        3.0,
        6.0,
    ),
    shared(
        "class bandwidth 2500kbit",
        shaper("class 10 bandwidth 2500kbit"),
        HALF,
        f"{BASE}, _rate_convert: kbit, mbit, gbit and tbit are decimal",
        2.5,
        6.0,
    ),
    shared(
        "class bandwidth 3000",
        shaper("class 10 bandwidth 3000"),
        HALF,
        f"{BASE}, _rate_convert: without a suffix in kbit/s",
        3.0,
        6.0,
    ),
    shared(
        "default bandwidth",
        shaper("class 10 bandwidth 30%", default="default bandwidth 20%"),
        HALF,
        f"{SHAPER}: of the bandwidth of the shaper",
        3.0,
        2.0,
    ),
    shared(
        "class ceiling",
        shaper("class 10 bandwidth 2mbit", "class 10 ceiling 4mbit"),
        HALF,
        f"{GUIDE}, Shaper: how much more a class may use",
        4.0,
        6.0,
    ),
    shared(
        "default ceiling",
        shaper(
            "class 10 bandwidth 2mbit",
            "default ceiling 80%",
            default="default bandwidth 1mbit",
        ),
        HALF,
        f"{SHAPER}: of the bandwidth of the shaper; without one a class has its bandwidth",
        2.0,
        8.0,
    ),
    shared(
        "class priority",
        shaper(
            "class 10 bandwidth 10%",
            "class 10 ceiling 9mbit",
            "class 10 priority 1",
            "default ceiling 100%",
            default="default bandwidth 10%",
        ),
        shaper(
            "class 10 bandwidth 10%",
            "class 10 ceiling 9mbit",
            "class 10 priority 7",
            "default ceiling 100%",
            "default priority 1",
            default="default bandwidth 10%",
        ),
        f"{GUIDE}, Shaper: the class with the higher priority borrows first",
        9.0,
        1.0,
    ),
    shared(
        "default priority",
        shaper(
            "class 10 bandwidth 10%",
            "class 10 ceiling 9mbit",
            "class 10 priority 7",
            "default ceiling 100%",
            "default priority 1",
            default="default bandwidth 10%",
        ),
        HALF,
        f"{GUIDE}, Shaper: the class with the higher priority borrows first",
        1.0,
        9.0,
    ),
    Statement(
        "bandwidth auto",
        policy("shaper", "bandwidth auto", EF, "class 10 bandwidth 30%", "default bandwidth 60%"),
        policy("shaper", "bandwidth 6mbit", EF, "class 10 bandwidth 30%", "default bandwidth 60%"),
        f"{BASE}, _rate_convert: the speed of the interface",
        flows=BOTH,
        expected={"voice": 3.0, "rest": 6.0},
    ),
    Statement(
        "policy shaper P bandwidth auto",
        policy("shaper", "bandwidth auto", EF, "class 10 bandwidth 30%", "default bandwidth 60%"),
        policy(
            "shaper", "bandwidth auto", EF, "class 10 bandwidth 30%", "default bandwidth 60%"
        ).replace("speed 10", "speed 100"),
        f"{BASE}, _rate_convert: Mb/s of /sys/class/net",
        flows=BOTH,
        expected={"voice": 3.0, "rest": 6.0},
        rate=None,
    ),
)


def queue(*settings: str) -> str:
    """Return a shaper with settings of the queue of class 10."""
    return shaper("class 10 bandwidth 30%", *(f"class 10 {each}" for each in settings))


def value(words: str, text: str, source: str, other: str = HALF, **values: Any) -> Statement:
    """Return a statement with values of class 10 or of the only class."""
    name = "class10" if "class 10" in text else "all"
    paths = {f"classes.{name}.{key.replace('__', '.')}": each for key, each in values.items()}
    return Statement(words, text, other, source, paths)


RED = ("maximum-threshold 30", "minimum-threshold 10", "average-packet 500", "mark-probability 5")
CODEL = ("flows 99", "target 9", "interval 50", "queue-limit 500", "codel-quantum 3000")
PLAIN = policy("drop-tail", "queue-limit 9")

QUEUES = (
    value(
        "class queue-type fair-queue",
        queue("queue-type fair-queue", "queue-limit 50"),
        f"{BASE}, _build_base_qdisc: sfq",
        queue__sfq__flows=50,
    ),
    value(
        "class queue-limit",
        queue("queue-type drop-tail", "queue-limit 50"),
        f"{BASE}, _build_base_qdisc: pfifo",
        queue={"limit": "50 packets"},
    ),
    value(
        "class queue-type fq-codel",
        queue("queue-type fq-codel", "flows 99"),
        f"{BASE}, _build_base_qdisc: fq_codel with noecn",
        queue={
            "limit": "10240 packets",
            "fq-codel": {
                "target": "5 ms",
                "interval": "100 ms",
                "ecn": False,
                "flows": 99,
                "quantum": "1514 B",
            },
        },
    ),
    value(
        "class queue-type priority",
        queue("queue-type priority", "queue-limit 50"),
        f"{BASE}, _build_base_qdisc: prio with three pfifo",
        classes__band0__queue={"limit": "50 packets"},
    ),
    *(
        value(
            f"class {words}",
            queue("queue-type random-detect", *RED),
            f"{BASE}, _calc_random_detect_queue_params",
            **{f"queue__red__{key}": each},
        )
        for words, key, each in (
            ("queue-type random-detect", "weight", "12.5%"),
            ("maximum-threshold", "max", "15 kB"),
            ("minimum-threshold", "min", "5 kB"),
            ("average-packet", "packet", "500 B"),
            ("mark-probability", "probability", "20%"),
        )
    ),
    *(
        value(
            f"policy fq-codel P {words}",
            policy("fq-codel", *CODEL),
            "python/vyos/qos/fqcodel.py",
            PLAIN,
            **{f"queue__{key}": each},
        )
        for words, key, each in (
            ("flows", "fq-codel__flows", 99),
            ("target", "fq-codel__target", "9 ms"),
            ("interval", "fq-codel__interval", "50 ms"),
            ("queue-limit", "limit", "500 packets"),
            ("codel-quantum", "fq-codel__quantum", "3000 B"),
        )
    ),
    value(
        "policy fair-queue P queue-limit",
        policy("fair-queue", "queue-limit 50"),
        "python/vyos/qos/fairqueue.py",
        PLAIN,
        queue__limit="50 packets",
    ),
    value(
        "policy fair-queue P hash-interval",
        policy("fair-queue", "hash-interval 10"),
        "python/vyos/qos/fairqueue.py: perturb, in seconds",
        PLAIN,
        queue__sfq__perturb="10 s",
    ),
    value(
        "policy drop-tail P queue-limit",
        policy("drop-tail", "queue-limit 50"),
        "python/vyos/qos/droptail.py",
        PLAIN,
        queue__limit="50 packets",
    ),
    Statement(
        "policy rate-control P bandwidth",
        policy("rate-control", "bandwidth 5mbit"),
        PLAIN,
        "python/vyos/qos/ratelimiter.py: tbf",
        flows={"a": {"mbps": 9}},
        expected={"a": 5.0},
    ),
    value(
        "policy rate-control P latency",
        policy("rate-control", "bandwidth 5mbit", "latency 30"),
        "python/vyos/qos/ratelimiter.py: in milliseconds, with a burst of 15k",
        PLAIN,
        queue__limit="34110 B",
    ),
    value(
        "policy rate-control P burst",
        policy("rate-control", "bandwidth 5mbit", "burst 20k"),
        "python/vyos/qos/ratelimiter.py",
        PLAIN,
        queue__limit="51730 B",
    ),
    *(
        value(
            f"policy cake P {words}",
            policy("cake", "bandwidth 5mbit", "rtt 50", "flow-isolation dual-src-host"),
            "python/vyos/qos/cake.py",
            PLAIN,
            **{f"queue__cake__{key}": each},
        )
        for words, key, each in (
            ("bandwidth", "bandwidth", "5 Mbps"),
            ("rtt", "rtt", "50 ms"),
            ("flow-isolation dual-src-host", "isolation", "dual-srchost"),
        )
    ),
    *(
        value(
            f"policy cake P flow-isolation {word}",
            policy("cake", "bandwidth 5mbit", f"flow-isolation {word}"),
            "python/vyos/qos/cake.py",
            PLAIN,
            queue__cake__isolation=isolation,
        )
        for word, isolation in (
            *(("blind", "flowblind"), ("src-host", "srchost"), ("dst-host", "dsthost")),
            *(("host", "hosts"), ("flow", "flows"), ("dual-dst-host", "dual-dsthost")),
            ("triple-isolate", "triple-isolate"),
        )
    ),
    value(
        "policy random-detect P precedence 0 maximum-threshold",
        policy("random-detect", *(f"precedence 0 {each}" for each in RED)),
        "python/vyos/qos/randomdetect.py",
        PLAIN,
        queue__red__max="15 kB",
    ),
    Statement(
        "policy network-emulator P queue-limit",
        policy("network-emulator", "queue-limit 20"),
        PLAIN,
        "python/vyos/qos/netem.py",
        {"classes.all.queue.limit": "20 packets"},
    ),
)

SORTED = (
    Statement(
        "policy priority-queue P class",
        policy("priority-queue", "class 1 match voice ip dscp EF", "default queue-limit 50"),
        policy(
            "priority-queue",
            "class 1 match x ip dscp default",
            "class 2 match voice ip dscp EF",
            "default queue-limit 50",
        ),
        f"{GUIDE}, Priority Queue: a class is served before those of higher numbers",
        flows=BOTH,
        expected={"voice": 9.0, "rest": 1.0},
    ),
    Statement(
        "policy priority-queue P default",
        policy("priority-queue", "class 1 match voice ip dscp EF", "default queue-limit 50"),
        PLAIN,
        "python/vyos/qos/priority.py: the last band",
        {"classes.default.queue.limit": "50 packets"},
    ),
    Statement(
        "policy round-robin P class",
        policy("round-robin", "class 1 match voice ip dscp EF", "class 2 match x ip protocol udp"),
        policy(
            "round-robin", "class 2 match voice ip dscp AF11", "class 3 match x ip protocol udp"
        ),
        "python/vyos/qos/roundrobin.py: drr with the default quantum",
        flows={"voice": {**VOICE, "mbps": 9}, "rest": {**REST, "mbps": 9}},
        expected={"voice": 5.0, "rest": 5.0},
    ),
    Statement(
        "policy shaper-hfsc P class linkshare m2",
        policy(
            "shaper-hfsc",
            "bandwidth 8mbit",
            EF,
            "class 10 linkshare m2 20%",
            "default linkshare m2 60%",
        ),
        policy("shaper-hfsc", "bandwidth 8mbit", EF, "default linkshare m2 60%"),
        f"{SHAPER}: 20% of 8 Mb/s; of the default class 60% of 60% of the interface",
        flows=BOTH,
        expected={"voice": 2.46, "rest": 5.54},
    ),
)


def match(condition: str, version: str = "ip") -> str:
    """Return a shaper whose class 10 has the packets of a condition."""
    lines = (f"class 10 match m {version} {condition}", "class 10 bandwidth 30%")
    return policy("shaper", "bandwidth 10mbit", "default bandwidth 60%", *lines)


def condition(
    words: str, text: str, flow: dict[str, Any], to: str = "class10", other: str = ""
) -> Statement:
    """Return a statement with the class of a flow."""
    source = f"{BASE}, update: the conditions of u32"
    other = other or match("protocol icmp" if to == "class10" else "protocol udp")
    flow = {"mbps": 1, **flow}
    return Statement(words, text, other, source, flows={"a": flow}, expected={"a": to})


HERE = {"source": "10.1.0.1", "destination": "10.2.0.1"}
NAMES = {
    "default": 0,
    "lowdelay": 4,
    "throughput": 2,
    "reliability": 1,
    "priority": 8,
    "immediate": 16,
    "flash": 24,
    "flash-override": 32,
    "internet": 48,
    "network": 56,
}
"""The code points of `_dsfields`, whose octets are four times these."""

CONDITIONS = (
    *(
        condition(f"match ip dscp {name}", match(f"dscp {name}"), {"dscp": code})
        for name, code in {**NAMES, "EF": 46, "AF31": 26, "CS5": 40}.items()
    ),
    condition(
        "match ip", match("dscp EF"), {"dscp": 46, "ip": 6}, "default", match("dscp EF", "ipv6")
    ),
    condition("match ip protocol udp", match("protocol udp"), {}),
    condition("match ip protocol tcp_udp", match("protocol tcp_udp"), {}),
    condition("match ip protocol tcp", match("protocol tcp"), {}, "default"),
    condition("match ip protocol icmp", match("protocol icmp"), {}, "default"),
    condition("match ip protocol all", match("protocol all"), {}),
    condition("match ip source address", match("source address 10.1.0.0/16"), HERE),
    condition("match ip source port", match("source port 4000"), {"source_port": 4000}),
    condition(
        "match ip destination address", match("destination address 10.1.0.0/16"), HERE, "default"
    ),
    condition("match ip destination port", match("destination port 4000"), {"port": 4000}),
    *(
        condition(f"destination port {name}", match(f"destination port {name}"), {"port": port})
        for name, port in (
            *(("http", 80), ("https", 443), ("ssh", 22), ("domain", 53), ("sip", 5060)),
            ("ftp", 21),
        )
    ),
    condition("match ipv6 dscp", match("dscp EF", "ipv6"), {"dscp": 46, "ip": 6}),
    *(
        condition(
            f"match ipv6 protocol {name}",
            match(f"protocol {name}", "ipv6"),
            {"ip": 6},
            "default",
            match("protocol udp", "ipv6"),
        )
        for name in ("icmpv6", "ipv6-icmp")
    ),
    condition(
        "class match-group",
        policy(
            "shaper",
            "bandwidth 10mbit",
            "default bandwidth 60%",
            "class 10 bandwidth 30%",
            "class 10 match-group g",
        )
        + "set qos traffic-match-group g match m ip dscp EF\n",
        {"dscp": 46},
    ),
    condition(
        "traffic-match-group match ip dscp",
        policy(
            "shaper",
            "bandwidth 10mbit",
            "default bandwidth 60%",
            "class 10 bandwidth 30%",
            "class 10 match-group g",
        )
        + "set qos traffic-match-group g match m ip dscp EF\n",
        {"dscp": 46},
    ),
)


def limiter(*lines: str) -> str:
    """Return a limiter of what eth0 receives."""
    text = policy("limiter", *lines)
    return text.replace("eth0 egress", "eth0 ingress")


def policed(words: str, text: str, voice: float, rest: float) -> Statement:
    """Return a statement with what a limiter lets pass."""
    other = limiter("class 10 bandwidth 5mbit", EF, "default bandwidth 5mbit")
    return Statement(
        words,
        text,
        other,
        f"{GUIDE}, Limiter; {BASE}: police",
        flows=BOTH,
        expected={"voice": voice, "rest": rest},
        direction="in",
        rate=20_000_000,
    )


LIMITERS = (
    policed(
        "interface ingress",
        limiter("class 10 bandwidth 2mbit", EF, "default bandwidth 3mbit"),
        2.0,
        3.0,
    ),
    policed(
        "limiter class bandwidth",
        limiter("class 10 bandwidth 2mbit", EF, "default bandwidth 3mbit"),
        2.0,
        3.0,
    ),
    policed(
        "limiter default bandwidth",
        limiter("class 10 bandwidth 30%", EF, "default bandwidth 4mbit"),
        3.0,
        4.0,
    ),
    Statement(
        "limiter class burst",
        limiter("class 10 bandwidth 2mbit", "class 10 burst 20k", EF, "default bandwidth 3mbit"),
        limiter("class 10 bandwidth 2mbit", EF, "default bandwidth 3mbit"),
        f"{BASE}: burst, 15k by default",
        {"classes.class10.police.burst": "20 KiB"},
        direction="in",
    ),
    *(
        policed(
            f"limiter class exceed {word}",
            limiter(
                "class 10 bandwidth 2mbit",
                f"class 10 exceed {word}",
                EF,
                "default bandwidth 3mbit",
            ),
            voice,
            3.0,
        )
        for word, voice in (("drop", 2.0), ("pipe", 9.0))
    ),
    policed(
        "limiter class exceed ok",
        limiter("class 10 bandwidth 2mbit", "class 10 exceed ok", EF, "default bandwidth 3mbit"),
        9.0,
        3.0,
    ),
    policed(
        "limiter class not-exceed",
        limiter(
            "class 10 bandwidth 2mbit", "class 10 not-exceed drop", EF, "default bandwidth 3mbit"
        ),
        0.0,
        3.0,
    ),
    policed(
        "limiter class priority",
        limiter(
            "class 10 bandwidth 2mbit",
            EF,
            "class 20 bandwidth 1mbit",
            "class 20 match all ip dscp EF",
            "class 20 priority 5",
            "default bandwidth 3mbit",
        ),
        1.0,
        3.0,
    ),
)


def older(text: str) -> str:
    """Return a configuration in the words of VyOS 1.3, out of those of later releases."""
    for way, word in (("egress", "out"), ("ingress", "in")):
        text = text.replace(
            f"qos interface eth0 {way}", f"interfaces ethernet eth0 traffic-policy {word}"
        )
    return text.replace("qos policy", "traffic-policy")


def older_value(words: str, text: str, source: str, **values: Any) -> Statement:
    """Return a statement of VyOS 1.3 with values of class 10 or of the only class."""
    return value(words, older(text), f"{PERL}/{source}", older(HALF), **values)


CURVED = ("class 10 linkshare m2 20%", "default linkshare m2 60%")
PERL = "VyOS 1.3.6 (github.com/vyos/vyatta-cfg-qos), lib/Vyatta/Qos"
TREE = shaper("class 10 bandwidth 30%", default="default bandwidth 40%")
ROUNDS = ("class 1 match voice ip dscp EF", "default queue-limit 50")

OLDER = (
    shared(
        "traffic-policy shaper class bandwidth",
        older(TREE),
        older(HALF),
        f"{PERL}/ShaperClass.pm, gen_class: a class without a ceiling has its bandwidth",
        3.0,
        4.0,
    ),
    shared(
        "traffic-policy shaper class ceiling",
        older(
            policy(
                *("shaper", "bandwidth 6mbit", EF, "class 10 bandwidth 10%"),
                *("class 10 ceiling 50%", "default bandwidth 20%"),
            )
        ),
        older(policy("shaper", "bandwidth 6mbit", EF, "class 10 bandwidth 10%")),
        f"{PERL}/ShaperClass.pm, _getPercentRate: of the bandwidth of the shaper, not of eth0",
        3.0,
        1.2,
    ),
    value(
        "traffic-policy shaper class bandwidth 30%",
        older(TREE),
        f"{PERL}/ShaperClass.pm, and queue-type/node.def of the templates: fq-codel (fair-queue "
        "before 1.3.3)",
        older(queue("queue-type fair-queue")),
        **{"queue__fq-codel__ecn": False, "queue__limit": "10240 packets"},
    ),
    *(
        older_value(
            "traffic-policy shaper class queue-type random-detect",
            queue("queue-type random-detect"),
            "ShaperClass.pm, redQdisc: 250 ms of the shaper's bandwidth, a third of it, and 10%",
            **{f"queue__{key}": each},
        )
        for key, each in (
            *(("red__max", "312500 B"), ("red__min", "104166 B"), ("red__ecn", True)),
            *(("red__probability", "10%"), ("limit", "1250 kB")),
        )
    ),
    Statement(
        "traffic-policy round-robin class quantum",
        older(policy("round-robin", *ROUNDS, "class 1 quantum 3028")),
        older(policy("round-robin", *ROUNDS)),
        f"{PERL}/RoundRobin.pm and ShaperClass.pm, gen_class: quantum of drr; 1514 without one",
        flows=BOTH,
        expected={"voice": 6.667, "rest": 3.333},
    ),
    Statement(
        "traffic-policy round-robin default",
        older(policy("round-robin", *ROUNDS)),
        older(policy("round-robin", *ROUNDS, "class 2 match rest ip protocol udp")),
        f"{PERL}/RoundRobin.pm, _getClasses: a filter leads all other packets to it",
        flows={"a": {"mbps": 1}},
        expected={"a": "default"},
    ),
    Statement(
        "traffic-policy priority-queue class",
        older(policy("priority-queue", *ROUNDS)),
        older(policy("priority-queue", "class 1 match x ip dscp default", *ROUNDS[1:])),
        f"{PERL}/Priority.pm: prio",
        flows=BOTH,
        expected={"voice": 9.0, "rest": 1.0},
    ),
    Statement(
        "traffic-policy shaper-hfsc class upperlimit m2",
        older(
            policy("shaper-hfsc", "bandwidth 8mbit", EF, *CURVED, "class 10 upperlimit m2 1mbit")
        ),
        older(policy("shaper-hfsc", "bandwidth 8mbit", EF, *CURVED)),
        f"{PERL}/HFSCClass.pm, gen_class: ls, ul and rt",
        flows=BOTH,
        expected={"voice": 1.0, "rest": 7.0},
    ),
    Statement(
        "traffic-policy class match ip dscp 46",
        older(match("dscp 46")),
        older(match("dscp 45")),
        f"{PERL}/Util.pm, getDsfield: a number is a DSCP",
        flows={"a": {"mbps": 1, "dscp": 46}},
        expected={"a": "class10"},
    ),
    *(
        Statement(
            f"interfaces {' '.join(vif.split()[::2])} traffic-policy out",
            older(TREE).replace("eth0 traffic-policy", f"eth0 {vif} traffic-policy"),
            older(HALF),
            "VyOS 1.3.6 (github.com/vyos/vyatta-cfg-qos), gen-interface-templates.pl",
            flows=BOTH,
            expected={"voice": 3.0, "rest": 4.0},
        )
        for vif in ("vif 5", "vif-s 5", "vif-s 5 vif-c 6")
    ),
    Statement(
        "interfaces traffic-policy in",
        older(limiter("class 10 bandwidth 2mbit", EF, "default bandwidth 3mbit")),
        older(limiter("class 10 bandwidth 5mbit", EF, "default bandwidth 5mbit")),
        f"{PERL}/TrafficLimiter.pm: police with conform-exceed drop",
        flows=BOTH,
        expected={"voice": 2.0, "rest": 3.0},
        direction="in",
        rate=20_000_000,
    ),
)

SYNTAX = (
    shared(
        "set class bandwidth",
        shaper() + "edit qos policy shaper P\nset class 10 bandwidth 20%\ntop\nexit\n",
        HALF,
        "VyOS documentation, Command Line Interface: edit",
        2.0,
        6.0,
    ),
    shared(
        "delete",
        shaper("class 10 bandwidth 40%", "class 10 ceiling 90%")
        + "delete qos policy shaper P class 10 ceiling\n",
        HALF,
        "VyOS documentation, Command Line Interface: delete",
        4.0,
        6.0,
    ),
)

STATEMENTS = (*SHAPERS, *QUEUES, *SORTED, *CONDITIONS, *LIMITERS, *OLDER, *SYNTAX)


def told(words: str, text: str, how: str) -> Approximated:
    """Return a statement that is not modelled, or approximated."""
    return Approximated(words, text, how)


CURVES = policy(
    "shaper-hfsc",
    "bandwidth 8mbit",
    EF,
    "class 10 linkshare m2 20%",
    "class 10 realtime m2 1mbit",
    "class 10 upperlimit m2 1mbit",
)
NETEM = policy(
    "network-emulator",
    *("delay 10", "loss 1", "corruption 1", "reordering 1", "duplicate 1"),
    *("network-delay 10", "packet-loss 1", "packet-corruption 1", "packet-reordering 1"),
)
SCRIPT = "the script of VyOS 1.5 (2024)"

APPROXIMATED = (
    *(told(f"class {word}", CURVES, "makes no curve of it") for word in ("realtime", "upperlimit")),
    *(
        told(word, NETEM, "belong to the link of a scenario")
        for word in (
            *("delay", "loss", "corruption", "reordering", "duplicate", "network-delay"),
            *("packet-loss", "packet-corruption", "packet-reordering"),
        )
    ),
    told(
        "round-robin class quantum",
        policy("round-robin", "class 1 match voice ip dscp EF", "class 1 quantum 3000"),
        f"{SCRIPT} passes no quantum",
    ),
    told(
        "round-robin default",
        policy("round-robin", "class 1 match voice ip dscp EF", "default queue-limit 9"),
        f"{SCRIPT} leads no packets to the default class",
    ),
    told(
        "class set-dscp",
        shaper("class 10 bandwidth 30%", "class 10 set-dscp CS5"),
        f"{SCRIPT} marks no packets",
    ),
    told("match ip dscp 46", match("dscp 46"), f"{SCRIPT} compares it with the whole octet"),
    told(
        "limiter class mtu",
        limiter("class 10 bandwidth 2mbit", "class 10 mtu 1000", EF, "default bandwidth 3mbit"),
        "packets above `mtu` exceed in Linux",
    ),
    *(
        told(f"match {words}", match(rest, version), "a scenario has no condition on")
        for words, version, rest in (
            ("ether", "ether", "protocol arp"),
            ("interface", "interface", "eth1"),
            ("vif", "vif", "5"),
            ("mark", "mark", "5"),
            ("max-length", "ip", "max-length 100"),
            ("tcp", "ip", "tcp syn"),
        )
    ),
    told(
        "precedence 5",
        policy("random-detect", "precedence 5 maximum-threshold 30"),
        "as those of precedence 0",
    ),
    *(
        told(
            words,
            f"set traffic-policy random-detect P precedence 5 {setting}\n",
            "one average length of the queue",
        )
        for words, setting in (
            ("precedence max-threshold", "max-threshold 40"),
            ("precedence min-threshold", "min-threshold 10"),
        )
    ),
    told(
        "precedence mark-probability",
        "set traffic-policy random-detect P bandwidth auto\n"
        "set traffic-policy random-detect P precedence 5 mark-probability 5\n",
        "does not read it: the probability is 10%",
    ),
    told(
        "traffic-policy class set-dscp",
        older(shaper("class 10 bandwidth 30%", "class 10 set-dscp CS5")),
        "the script of VyOS 1.3 leads packets to a class with `set-dscp` by their DSCP alone",
    ),
    *(
        told(
            f"traffic-policy class match {version} dscp",
            older(match(f"dscp {word}", version)),
            f"the script of VyOS 1.3 {how}",
        )
        for version, word, how in (
            ("ipv6", "EF", "compares the traffic class with another number"),
            ("ip", "default", "sets no condition for DSCP 0"),
        )
    ),
    *(
        told(f"match ip dscp {name}", match(f"dscp {name}"), "asks for a code point of ECN")
        for name in ("mincost", "critical")
    ),
    *(
        told(words, policy("cake", "bandwidth 5mbit", words), "connections are not looked up")
        for words in ("flow-isolation nat", "flow-isolation-nat")
    ),
    told(
        "traffic-control",
        PLAIN + "set traffic-control smart-queue x upload rate 1mbit\n",
        "queues of EdgeOS",
    ),
    told("redirect", PLAIN + "set interfaces ethernet eth1 redirect ifb0\n", "redirected packets"),
    told(
        "policy set dscp",
        PLAIN + "set policy route x rule 1 set dscp 46\n",
        "rules of policy routes",
    ),
)

OTHER_WORDS = frozenset(
    word
    for words in (
        # Commands, speeds (which are no line about quality of service), and parts of messages.
        "any children commit configure deleted description edit exit i in_order of older_red",
        "parse place put queue read refused save share show source speed test_of text top up used",
        "vyos word",
        # Words of tc for the commands that VyOS makes; actions of policers are those of Linux.
        "avpkt bands basic bit bps burst ceil classes conform-exceed continue d drr dsthost",
        "dual-dsthost dual-srchost ecn flowblind flows fq_codel g gi hfsc hosts htb interval k ki",
        "limit ls m m1 mi min max noecn ok perturb pfifo police prio priomap probability profiles",
        "quantum r2q random_detect rate reclassify red rt sc sfq srchost t target tbf ti u32 ul",
        "weight wred",
        # Rules of NAT, which are no lines about quality of service: test_routers_translation.py.
        "disable exclude group interface-name name nat66 outbound-interface rule translation",
    )
    for word in words.split()
)
"""Words in the reader that are no keywords of statements: parts of notes and names of values."""
