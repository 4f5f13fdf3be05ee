"""Statements of Junos, with what Juniper's documents say of them.

The documents are those of Juniper's site (the guides to class of service and to firewall filters,
and the CLI reference), by their titles.
"""

from __future__ import annotations

from typing import Any

from statements.statement import Approximated, Statement

RATE = "Juniper, Configuring Scheduler Transmission Rate, and CLI reference, transmit-rate"
EXCESS = "Juniper, Excess Rate and Excess Priority Configuration Examples"
EXCESS_RATE = "Juniper CLI reference, excess-rate: the part of the excess bandwidth to share"
SHAPING = "Juniper CLI reference, shaping-rate (Schedulers): an absolute maximum"
PRIORITY = "Juniper, Priority Scheduling Overview"
DEFAULT = "Juniper, Default Schedulers Overview"
BUFFER = "Juniper CLI reference, buffer-size (Schedulers)"
RED = "Juniper, Configuring RED Drop Profiles"
PROFILES = "Juniper CLI reference, traffic-control-profiles"
DELAY = "Juniper CLI reference, delay-buffer-rate: the rate by which buffers are sized"
BA = "Juniper, Configure Behavior Aggregate Classifiers"
IPV6 = "Juniper, Applying DSCP IPv6 Classifiers"
ALIASES = "Juniper, Default CoS Values Overview: aliases of code points"
REWRITE = "Juniper, Applying Default Rewrite Rules"
CLASSES = "Juniper, Configuring Forwarding Classes"
FIXED = "Juniper CLI reference, forwarding-class: a fixed classifier of an interface"
POLICER = "Juniper CLI reference, bandwidth-limit and burst-size-limit (Policer)"
LIMITS = "Juniper, Policer Bandwidth and Burst-Size Limits"
COLOURS = "Juniper, Policer Color-Marking and Actions"
SPECIFIC = "Juniper, Configuring Two-Color and Three-Color Policers: one instance for each term"
MATCHES = "Juniper, Firewall Filter Match Conditions for IPv4 Traffic"
TERMS = "Juniper CLI reference, term (Firewall Filter)"
ACTIONS = "Juniper, Firewall Filter Terminating Actions"
RULES = "Juniper CLI reference, rewrite-rules (Definition) and loss-priority (Rewrite Rules)"
APPLIED = "Juniper CLI reference, filter (Applying to a Logical Interface)"
FILTERS = "Juniper MX Series (O'Reilly), chapter 3, Filter Operation: the implicit term discards"

CODES = {"be": 0, "ef": 46, "af": 10, "nc": 48}
"""The DSCP of each class in `queues`; queues 0 to 3 in this order."""

COS = "set class-of-service"
OUT = f"{COS} interfaces ge-0/0/0"
IN = f"{COS} interfaces ge-0/0/1 unit 0"
CLASSIFIED = f"{IN} classifiers dscp c"


def lines(*each: str) -> str:
    """Return commands, one a line."""
    return "".join(f"{line}\n" for line in each)


def queues(*others: str, classified: str = CLASSIFIED, **schedulers: str) -> str:
    """Return a scheduler map at an output of 10 Mb/s.

    Args:
        others: Further commands.
        classified: The command that names the classifier of the input.
        schedulers: For each class in `CODES` the settings of its scheduler, with semicolons.
    """
    found = ["set interfaces ge-0/0/0 speed 10m", "set interfaces ge-0/0/1 unit 0 family inet"]
    for number, name in enumerate(CODES):
        found.append(f"{COS} forwarding-classes queue {number} {name}")
    for name, code in CODES.items():
        to = f"forwarding-class {name} loss-priority low code-points {code:06b}"
        found.append(f"{COS} classifiers dscp c {to}")
    found += [f"{OUT} scheduler-map m", classified]
    for name, settings in schedulers.items():
        found.append(f"{COS} scheduler-maps m forwarding-class {name} scheduler s-{name}")
        found += [f"{COS} schedulers s-{name} {each.strip()}" for each in settings.split(";")]
    return lines(*found, *others)


QUARTERS = dict.fromkeys(CODES, "transmit-rate percent 25")


def flows(mbps: float, *names: str, **others: float) -> dict[str, dict[str, Any]]:
    """Return a flow of each class, by its name, with rates in Mb/s."""
    rates = dict.fromkeys(names, mbps) | others
    return {name: {"dscp": CODES[name], "mbps": rate} for name, rate in rates.items()}


def four(priority: str, other: str = "") -> str:
    """Return the queues of Juniper's examples of excess rates: 20, 10, 10 and 5%."""
    other = other or priority
    return queues(
        be=f"transmit-rate percent 20; priority {priority}",
        ef="transmit-rate percent 10; priority high",
        af=f"transmit-rate percent 10; priority {other}",
        nc=f"transmit-rate percent 5; priority {other}",
    )


def two(first: str, second: str, *others: str) -> str:
    """Return a scheduler map with settings of `be` and `ef`."""
    return queues(*others, be=first, ef=second)


BOTH = flows(9, "be", "ef")


def shared(
    words: str, text: str, other: str, source: str, be: float, ef: float, **more: Any
) -> Statement:
    """Return a statement with the throughputs of `be` and `ef` in Mb/s, 9 Mb/s offered to each."""
    return Statement(words, text, other, source, flows=BOTH, expected={"be": be, "ef": ef}, **more)


HALVES = two("transmit-rate percent 50", "transmit-rate percent 50")

SCHEDULERS = (
    Statement(
        "transmit-rate percent",
        four("high"),
        queues(be="", ef="", af="", nc=""),
        f"{EXCESS}, table 2: 444.44, 222.22, 222.22 and 111.11 Mb/s of a gigabit",
        flows=flows(5, *CODES),
        expected={"be": 4.444, "ef": 2.222, "af": 2.222, "nc": 1.111},
    ),
    Statement(
        "s-ef transmit-rate percent",
        four("high", "low"),
        four("high"),
        f"{EXCESS}, table 1: 566.67, 283.33, 100 and 50 Mb/s of a gigabit",
        flows=flows(5, "ef", "af", "nc", be=6),
        expected={"be": 5.667, "ef": 2.833, "af": 1.0, "nc": 0.5},
    ),
    Statement(
        "priority strict-high",
        four("strict-high", "low"),
        four("low"),
        f"{EXCESS}, table 3: 500 (all that is offered), 350, 100 and 50 Mb/s of a gigabit",
        flows=flows(5, *CODES),
        expected={"be": 5.0, "ef": 3.5, "af": 1.0, "nc": 0.5},
    ),
    Statement(
        "s-be transmit-rate percent",
        two("transmit-rate percent 20; priority strict-high", "transmit-rate percent 70"),
        two("transmit-rate percent 20", "transmit-rate percent 70"),
        f"{PRIORITY}: strict-high gives unlimited bandwidth, whatever the transmit rate",
        flows=BOTH,
        expected={"be": 9.0, "ef": 1.0},
    ),
    shared(
        "transmit-rate 6m",
        two("transmit-rate 6m", "transmit-rate 2m"),
        HALVES,
        f"{RATE}: in bit/s; k, m and g are decimal",
        7.5,
        2.5,
    ),
    shared(
        "transmit-rate remainder",
        two("transmit-rate remainder", "transmit-rate percent 30"),
        HALVES,
        f"{RATE}: the remaining rate; {DEFAULT}: classes without a scheduler have no resources",
        7.0,
        3.0,
    ),
    Statement(
        "transmit-rate exact",
        two("transmit-rate percent 60", "transmit-rate percent 20 exact"),
        two("transmit-rate percent 60", "transmit-rate percent 20"),
        f"{RATE}: enforces the exact rate",
        flows=flows(9, "ef", be=3),
        expected={"be": 3.0, "ef": 2.0},
    ),
    Statement(
        "transmit-rate percent 0",
        two("transmit-rate percent 20", "transmit-rate percent 0"),
        two("transmit-rate percent 20", "transmit-rate percent 1"),
        f"{RATE}: a percentage of zero drops all packets in the queue",
        flows=BOTH,
        expected={"be": 9.0, "ef": 0.0},
    ),
    shared(
        "shaping-rate",
        two("transmit-rate percent 50", "transmit-rate percent 40; shaping-rate 2m"),
        HALVES,
        SHAPING,
        8.0,
        2.0,
    ),
    shared(
        "shaping-rate percent",
        two("transmit-rate percent 50", "transmit-rate percent 40; shaping-rate percent 30"),
        HALVES,
        f"{SHAPING}, of the bandwidth of the interface",
        7.0,
        3.0,
    ),
    Statement(
        "shaping-rate burst-size",
        two("transmit-rate percent 50", "transmit-rate percent 40; shaping-rate 2m burst-size 30k"),
        HALVES,
        f"{SHAPING}; the burst in bytes",
        {"classes.ef.shape": {"rate": "2 Mbps", "burst": "30 kB"}},
    ),
    shared(
        "excess-rate percent",
        two(
            "transmit-rate percent 20; excess-rate percent 10",
            "transmit-rate percent 20; excess-rate percent 30",
        ),
        two("transmit-rate percent 20", "transmit-rate percent 20"),
        EXCESS_RATE,
        3.5,
        6.5,
    ),
    shared(
        "excess-rate proportion",
        two(
            "transmit-rate percent 20; excess-rate proportion 100",
            "transmit-rate percent 20; excess-rate proportion 300",
        ),
        two("transmit-rate percent 20", "transmit-rate percent 20"),
        EXCESS_RATE,
        3.5,
        6.5,
    ),
    shared(
        "excess-priority high",
        two(
            "transmit-rate percent 20; excess-priority low",
            "transmit-rate percent 20; excess-priority high",
        ),
        two("transmit-rate percent 20", "transmit-rate percent 20"),
        f"{EXCESS}: the excess is first offered to queues of excess priority high",
        2.0,
        8.0,
    ),
    shared(
        "excess-priority medium-high",
        two(
            "transmit-rate percent 20; excess-priority medium-low",
            "transmit-rate percent 20; excess-priority medium-high",
        ),
        two("transmit-rate percent 20", "transmit-rate percent 20"),
        "Juniper CLI reference, excess-priority: low, medium-low, medium-high, high",
        2.0,
        8.0,
    ),
    Statement(
        "buffer-size percent",
        two("transmit-rate percent 60; buffer-size percent 30", "transmit-rate percent 40"),
        HALVES,
        f"{BUFFER}: of the total buffer; Configuring the Scheduler Buffer Size: 100 ms of it",
        {"classes.be.queue.limit": "37500 B"},
    ),
    Statement(
        "buffer-size temporal",
        two("transmit-rate percent 60; buffer-size temporal 20000", "transmit-rate percent 40"),
        HALVES,
        f"{BUFFER}: bytes are the interface's speed times the microseconds",
        {"classes.be.queue.limit": "25 kB"},
    ),
    Statement(
        "buffer-size remainder",
        two(
            "transmit-rate percent 60; buffer-size remainder",
            "transmit-rate percent 40; buffer-size percent 20",
        ),
        HALVES,
        f"{BUFFER}: what other queues leave",
        {"classes.be.queue.limit": "100 kB"},
    ),
    Statement(
        "explicit-congestion-notification",
        queues(
            f"{COS} schedulers s-ef drop-profile-map loss-priority any protocol any drop-profile d",
            f"{COS} drop-profiles d interpolate fill-level [ 50 100 ]",
            f"{COS} drop-profiles d interpolate drop-probability [ 0 100 ]",
            be="transmit-rate percent 60",
            ef="transmit-rate percent 40; explicit-congestion-notification",
        ),
        HALVES,
        "Juniper CLI reference, explicit-congestion-notification: marks where RED would drop",
        {"classes.ef.queue.red.ecn": True, "classes.ef.queue.red.min": "50 ms"},
    ),
    Statement(
        "drop-profile-map loss-priority any protocol any drop-profile",
        queues(
            f"{COS} schedulers s-ef drop-profile-map loss-priority any protocol any drop-profile d",
            f"{COS} drop-profiles d interpolate fill-level [ 20 80 ]",
            f"{COS} drop-profiles d interpolate drop-probability [ 0 100 ]",
            be="transmit-rate percent 60",
            ef="transmit-rate percent 40",
        ),
        HALVES,
        f"{RED}: the line goes through the points",
        {"classes.ef.queue.red.min": "20 ms", "classes.ef.queue.red.max": "80 ms"},
    ),
    Statement(
        "drop-profiles interpolate fill-level",
        queues(
            f"{COS} schedulers s-ef drop-profile-map loss-priority low protocol any drop-profile d",
            f"{COS} drop-profiles d interpolate fill-level [ 30 60 ]",
            f"{COS} drop-profiles d interpolate drop-probability [ 0 100 ]",
            be="transmit-rate percent 60",
            ef="transmit-rate percent 40",
        ),
        HALVES,
        RED,
        {"classes.ef.queue.red.min": "30 ms", "classes.ef.queue.red.max": "60 ms"},
    ),
    Statement(
        "drop-profiles interpolate drop-probability",
        queues(
            f"{COS} schedulers s-ef drop-profile-map loss-priority high protocol any "
            "drop-profile d",
            f"{COS} classifiers dscp c forwarding-class ef loss-priority high code-points 101100",
            f"{COS} drop-profiles d interpolate fill-level [ 50 100 ]",
            f"{COS} drop-profiles d interpolate drop-probability [ 0 100 ]",
            be="transmit-rate percent 60",
            ef="transmit-rate percent 40",
        ),
        HALVES,
        f"{RED}; packets of loss priority high only",
        {"classes.ef.queue.wred.weight": "100%"},
    ),
)

SHAPED = "\n".join(f"{COS} schedulers s-{name} transmit-rate percent 25" for name in CODES)


def profile(*settings: str) -> str:
    """Return an output with a traffic control profile."""
    text = two("transmit-rate percent 60", "transmit-rate percent 30")
    return text.replace(
        f"{OUT} scheduler-map m\n",
        lines(
            f"{OUT} output-traffic-control-profile t",
            f"{COS} traffic-control-profiles t scheduler-map m",
            *(f"{COS} traffic-control-profiles t {each}" for each in settings),
        ),
    )


OUTPUTS = (
    shared(
        "interfaces scheduler-map",
        two("transmit-rate percent 80", "transmit-rate percent 20"),
        two("transmit-rate percent 80", "transmit-rate percent 20").replace(
            f"{OUT} scheduler-map m\n", ""
        ),
        "Juniper CLI reference, scheduler-map (Interfaces and Traffic-Control Profiles); without "
        f"one {DEFAULT}: 95% for queue 0, 5% for 3",
        8.0,
        2.0,
    ),
    shared(
        "scheduler-maps forwarding-class scheduler",
        two("transmit-rate percent 35", "transmit-rate percent 15"),
        two("transmit-rate percent 35", "transmit-rate percent 15").replace(
            "forwarding-class ef scheduler s-ef", "forwarding-class ef scheduler s-be"
        ),
        "Juniper CLI reference, scheduler-maps (For Most Interface Types): the scheduler of each "
        "forwarding class",
        7.0,
        3.0,
    ),
    shared(
        "interfaces shaping-rate",
        two("transmit-rate percent 50", "transmit-rate percent 50", f"{OUT} shaping-rate 4m"),
        HALVES,
        "Juniper, Applying a Shaping Rate to Physical Interfaces Overview: it sends less than it "
        "can, and the rate is the basis of its queues",
        2.0,
        2.0,
    ),
    Statement(
        "interfaces unit shaping-rate",
        queues(f"{OUT} unit 0 shaping-rate 5m", be="transmit-rate percent 50").replace(
            f"{OUT} scheduler-map m", f"{OUT} unit 0 scheduler-map m"
        ),
        queues(be="transmit-rate percent 50").replace(
            f"{OUT} scheduler-map m", f"{OUT} unit 0 scheduler-map m"
        ),
        "Juniper CLI reference, shaping-rate (Applying to an Interface): the bandwidth of the "
        "logical interface",
        flows=flows(9, "be"),
        expected={"be": 5.0},
    ),
    shared(
        "output-traffic-control-profile",
        profile("shaping-rate 6m"),
        profile("shaping-rate 8m"),
        f"{PROFILES}: shaping-rate",
        4.0,
        2.0,
    ),
    shared(
        "traffic-control-profiles shaping-rate percent",
        profile("shaping-rate percent 40"),
        profile("shaping-rate percent 80"),
        f"{PROFILES}: shaping-rate percent, of the interface",
        2.667,
        1.333,
    ),
    Statement(
        "traffic-control-profiles scheduler-map",
        profile("shaping-rate 6m"),
        profile("shaping-rate 6m").replace(f"{COS} traffic-control-profiles t scheduler-map m", ""),
        f"{PROFILES}: scheduler-map",
        {"classes.ef.bandwidth": "30%"},
    ),
    Statement(
        "traffic-control-profiles delay-buffer-rate 5m",
        profile("delay-buffer-rate 5m").replace(
            "s-ef transmit-rate percent 30", "s-ef buffer-size percent 20"
        ),
        profile().replace("s-ef transmit-rate percent 30", "s-ef buffer-size percent 20"),
        DELAY,
        {"classes.ef.queue.limit": "12500 B"},
    ),
    Statement(
        "traffic-control-profiles delay-buffer-rate percent",
        profile("delay-buffer-rate percent 20").replace(
            "s-ef transmit-rate percent 30", "s-ef buffer-size percent 20"
        ),
        profile().replace("s-ef transmit-rate percent 30", "s-ef buffer-size percent 20"),
        f"{DELAY}; percent of the interface",
        {"classes.ef.queue.limit": "5 kB"},
    ),
    Statement(
        "interfaces speed",
        queues(be="transmit-rate percent 50"),
        queues(be="transmit-rate percent 50").replace("speed 10m", "speed 100m"),
        "Juniper CLI reference, speed (Ethernet): 10m, 100m or 1g",
        flows=flows(15, "be"),
        expected={"be": 10.0},
        rate=None,
    ),
)


def incoming(*commands: str) -> str:
    """Return four equal queues, and commands for the input in place of its classifier."""
    return queues(*commands[1:], classified=commands[0], **QUARTERS)


def sorted_as(
    words: str,
    text: str,
    other: str,
    source: str,
    flow: dict[str, Any],
    to: str,
    **more: Any,
) -> Statement:
    """Return a statement with the class of a flow."""
    flow = {"mbps": 1, **flow}
    return Statement(words, text, other, source, flows={"a": flow}, expected={"a": to}, **more)


PLAIN = incoming(CLASSIFIED)
NAMES = {"best-effort": "be", "expedited-forwarding": "ef", "assured-forwarding": "af"}

INPUTS = (
    sorted_as(
        "classifiers dscp forwarding-class loss-priority low code-points",
        incoming(
            CLASSIFIED,
            f"{COS} classifiers dscp c {{0}}".format(
                "forwarding-class ef loss-priority low code-points 011010"
            ),
        ),
        PLAIN,
        f"{BA}: dscp, a bit pattern",
        {"dscp": 26},
        "ef",
    ),
    sorted_as(
        "classifiers dscp forwarding-class loss-priority medium-low code-points af31",
        incoming(
            CLASSIFIED,
            f"{COS} classifiers dscp c forwarding-class ef "
            "loss-priority medium-low code-points af31",
        ),
        PLAIN,
        f"{ALIASES}, af31 is 011010",
        {"dscp": 26},
        "ef",
    ),
    sorted_as(
        "classifiers dscp forwarding-class loss-priority high code-points nc2",
        incoming(
            CLASSIFIED,
            f"{COS} classifiers dscp c forwarding-class af "
            "loss-priority high code-points [ nc2 cs4 ]",
        ),
        PLAIN,
        f"{ALIASES}, nc2 is 111000",
        {"dscp": 56},
        "af",
    ),
    sorted_as(
        "classifiers dscp import default",
        incoming(CLASSIFIED, f"{COS} classifiers dscp c import default"),
        PLAIN,
        "Juniper, Default DSCP and DSCP IPv6 Classifiers: af12 is assured forwarding, queue 2",
        {"dscp": 12},
        "af",
    ),
    sorted_as(
        "classifiers dscp import other",
        incoming(
            CLASSIFIED,
            f"{COS} classifiers dscp c import other",
            f"{COS} classifiers dscp other forwarding-class nc loss-priority low code-points cs2",
        ),
        PLAIN,
        f"{BA}: import",
        {"dscp": 16},
        "nc",
    ),
    sorted_as(
        "unit classifiers dscp default",
        incoming(f"{IN} classifiers dscp default"),
        incoming(""),
        "Juniper, Default DSCP and DSCP IPv6 Classifiers: ef is expedited forwarding, queue 1",
        {"dscp": 46},
        "ef",
    ),
    sorted_as(
        "unit classifiers dscp-ipv6",
        incoming(
            f"{IN} classifiers dscp-ipv6 v",
            f"{COS} classifiers dscp-ipv6 v forwarding-class ef loss-priority low code-points cs4",
        ).replace("family inet", "family inet6"),
        incoming(""),
        f"{IPV6}: alone it classifies the packets of both versions (M Series)",
        {"dscp": 32, "ip": 6},
        "ef",
    ),
    sorted_as(
        "unit classifiers inet-precedence default",
        incoming(f"{IN} classifiers inet-precedence default"),
        incoming(""),
        "Juniper, Default IP Precedence Classifier, table 2: 101 is expedited forwarding",
        {"dscp": 40},
        "ef",
    ),
    sorted_as(
        "unit classifiers inet-precedence ipprec-default",
        incoming(f"{IN} classifiers inet-precedence ipprec-default"),
        incoming(""),
        "Juniper, Default IP Precedence Classifier, table 2: 001 is assured forwarding",
        {"dscp": 8},
        "af",
    ),
    sorted_as(
        "unit classifiers inet-precedence ipprec-compatibility",
        incoming(f"{IN} classifiers inet-precedence ipprec-compatibility"),
        PLAIN,
        "Juniper, Default IP Precedence Classifier, table 1: 111 is network control, queue 3",
        {"dscp": 56},
        "nc",
    ),
    sorted_as(
        "classifiers inet-precedence code-points",
        incoming(
            f"{IN} classifiers inet-precedence p",
            f"{COS} classifiers inet-precedence p forwarding-class af loss-priority low "
            "code-points 011",
        ),
        incoming(""),
        f"{BA}: the upper three bits of the DSCP",
        {"dscp": 30},
        "af",
    ),
    Statement(
        "classifiers ieee-802.1 code-points",
        incoming(
            f"{IN} classifiers ieee-802.1 t",
            f"{COS} classifiers ieee-802.1 t forwarding-class af loss-priority low code-points 101",
        ),
        incoming(""),
        f"{BA}: handles the class of service of layer 2",
        {"classes.af.match": {"pcp": 5}},
    ),
    Statement(
        "unit classifiers ieee-802.1 default",
        incoming(f"{IN} classifiers ieee-802.1 default"),
        incoming(""),
        "Juniper, Default IEEE 802.1p Classifier: 010 and 011 are expedited forwarding",
        {"classes.ef.match": {"pcp": [2, 3]}},
    ),
    Statement(
        "unit classifiers ieee-802.1 ieee8021p-default",
        incoming(f"{IN} classifiers ieee-802.1 ieee8021p-default"),
        incoming(""),
        "Juniper, Default IEEE 802.1p Classifier: 100 and 101 are assured forwarding",
        {"classes.af.match": {"pcp": [4, 5]}},
    ),
    Statement(
        "unit classifiers exp default",
        incoming(f"{IN} classifiers exp default"),
        incoming(""),
        "Juniper, Default MPLS EXP Classifier: 010 and 011 are expedited forwarding",
        {"classes.ef.match": {"mpls_tc": [2, 3]}},
    ),
    Statement(
        "classifiers exp code-point",
        incoming(
            f"{IN} classifiers exp x",
            f"{COS} classifiers exp x forwarding-class af loss-priority low code-point ef1",
        ),
        incoming(""),
        f"{BA}; {ALIASES}: ef1 is 011",
        {"classes.af.match": {"mpls_tc": 3}},
    ),
    sorted_as(
        "code-point-aliases dscp",
        incoming(
            CLASSIFIED,
            f"{COS} code-point-aliases dscp mine 010101",
            f"{COS} classifiers dscp c forwarding-class af loss-priority low code-points mine",
        ),
        PLAIN,
        f"{ALIASES}; code-point-aliases defines others",
        {"dscp": 21},
        "af",
    ),
    sorted_as(
        "unit forwarding-class",
        incoming(f"{IN} forwarding-class af"),
        incoming(""),
        FIXED,
        {"dscp": 46},
        "af",
    ),
    sorted_as(
        "forwarding-classes class queue-num",
        incoming(CLASSIFIED, f"{COS} forwarding-classes class gold queue-num 2").replace(
            "forwarding-class nc loss-priority low code-points 110000",
            "forwarding-class gold loss-priority low code-points 110000",
        ),
        PLAIN,
        f"{CLASSES}: the queue of a class; two classes may share one",
        {"dscp": 48},
        "af",
    ),
    sorted_as(
        "forwarding-classes queue",
        incoming(f"{IN} classifiers dscp default")
        .replace("queue 1 ef", "queue 1 af")
        .replace("queue 2 af", "queue 2 ef"),
        incoming(f"{IN} classifiers dscp default"),
        f"{CLASSES}: the queue of a class; queue 1 has expedited forwarding by default",
        {"dscp": 46},
        "af",
    ),
)


def rewriting(kind: str, point: str, name: str = "r") -> str:
    """Return an output with a rewrite rule for class `ef`."""
    return queues(
        f"{OUT} unit 0 rewrite-rules {kind} {name}",
        f"{COS} rewrite-rules {kind} r forwarding-class ef loss-priority low code-point {point}",
        **QUARTERS,
    )


REWRITES = (
    Statement(
        "rewrite-rules dscp forwarding-class loss-priority low code-point",
        rewriting("dscp", "cs5"),
        PLAIN,
        f"{RULES}: the code point of a class and loss priority",
        {"classes.ef.mark": "cs5"},
    ),
    Statement(
        "rewrite-rules dscp-ipv6 code-point",
        rewriting("dscp-ipv6", "011010"),
        PLAIN,
        RULES,
        {"classes.ef.mark": "af31"},
    ),
    Statement(
        "rewrite-rules ieee-802.1 code-point",
        rewriting("ieee-802.1", "101"),
        PLAIN,
        RULES,
        {"classes.ef.mark": {"pcp": 5}},
    ),
    Statement(
        "rewrite-rules exp code-points",
        rewriting("exp", "110").replace("low code-point ", "low code-points "),
        PLAIN,
        RULES,
        {"classes.ef.mark": {"mpls_tc": 6}},
    ),
    Statement(
        "unit rewrite-rules exp default",
        rewriting("exp", "110", "default"),
        PLAIN,
        f"{REWRITE}, table 1: expedited forwarding gets ef, 010",
        {"classes.ef.mark": {"mpls_tc": 2}},
    ),
    Statement(
        "rewrite-rules dscp import default",
        queues(
            f"{OUT} unit 0 rewrite-rules dscp r",
            f"{COS} rewrite-rules dscp r import default",
            f"{COS} rewrite-rules dscp r forwarding-class af loss-priority low code-point cs1",
            **QUARTERS,
        ).replace("code-points 101110", "code-points 100000"),
        PLAIN,
        f"{REWRITE}, table 1: expedited forwarding gets ef",
        {"classes.ef.mark": "ef", "classes.af.mark": "cs1"},
    ),
)

FIREWALL = "set firewall"
FILTER = f"{FIREWALL} family inet filter f"
AT = "set interfaces ge-0/0/1 unit 0 family inet filter input f"


def policed(*settings: str, kind: str = "policer", action: str = "policer p") -> str:
    """Return an input whose packets all pass a policer with settings."""
    return lines(
        "set interfaces ge-0/0/1 speed 10m",
        *(f"{FIREWALL} {kind} p {each}" for each in settings),
        f"{FILTER} term t then {action}",
        f"{FILTER} term t then accept",
        AT,
    )


TWO_COLOURS = ("if-exceeding bandwidth-limit 2m", "if-exceeding burst-size-limit 15k")
NOTHING = policed("if-exceeding bandwidth-limit 9m", TWO_COLOURS[1], "then discard")
ONE = {"a": {"mbps": 8}}


def policing(words: str, text: str, source: str, mbps: float = 2.0, **more: Any) -> Statement:
    """Return a statement with what a policer at an input lets pass of 8 Mb/s."""
    return Statement(
        words, text, NOTHING, source, flows=ONE, expected={"a": mbps}, direction="in", **more
    )


SINGLE = (
    "single-rate color-blind",
    "single-rate committed-information-rate 2m",
    "single-rate committed-burst-size 10k",
    "single-rate excess-burst-size 20k",
    "action loss-priority high then discard",
)
TWO = (
    "two-rate color-blind",
    "two-rate committed-information-rate 2m",
    "two-rate committed-burst-size 10k",
    "two-rate peak-information-rate 4m",
    "two-rate peak-burst-size 20k",
    "action loss-priority high then discard",
)


def coloured(kind: str, settings: tuple[str, ...]) -> str:
    """Return an input with a three-colour policer."""
    action = f"three-color-policer {kind} p"
    return policed(*settings, kind="three-color-policer", action=action)


def terms(*settings: str) -> str:
    """Return an input whose flows to two ports are policed by two terms, with one policer."""
    return lines(
        "set interfaces ge-0/0/1 speed 10m",
        *(f"{FIREWALL} policer p {each}" for each in (*TWO_COLOURS, "then discard", *settings)),
        f"{FILTER} term a from destination-port 7000",
        f"{FILTER} term a then policer p",
        f"{FILTER} term b from destination-port 7001",
        f"{FILTER} term b then policer p",
        AT,
    )


PORTS = {"a": {"mbps": 4, "port": 7000}, "b": {"mbps": 4, "port": 7001}}

POLICERS = (
    policing(
        "policer if-exceeding bandwidth-limit",
        policed(*TWO_COLOURS, "then discard"),
        f"{POLICER}: bits of packets in a second",
    ),
    policing(
        "policer if-exceeding bandwidth-percent",
        policed("if-exceeding bandwidth-percent 30", TWO_COLOURS[1], "then discard"),
        f"{LIMITS}: a percentage of the rate of the interface",
        3.0,
    ),
    Statement(
        "policer if-exceeding burst-size-limit",
        policed(*TWO_COLOURS, "then discard"),
        policed(TWO_COLOURS[0], "if-exceeding burst-size-limit 30k", "then discard"),
        f"{POLICER}: the burst in bytes",
        {"classes.t.police.burst": "15 kB"},
        direction="in",
    ),
    policing("policer then discard", policed(*TWO_COLOURS, "then discard"), COLOURS),
    Statement(
        "then policer",
        terms(),
        terms("filter-specific"),
        f"{SPECIFIC}",
        flows=PORTS,
        expected={"a": 2.0, "b": 2.0},
        direction="in",
    ),
    Statement(
        "policer filter-specific",
        terms("filter-specific"),
        terms(),
        f"{SPECIFIC}; with filter-specific one for the filter",
        {"policers.p.police": {"rate": "2 Mbps", "burst": "15 kB"}},
        direction="in",
    ),
    policing(
        "policer logical-interface-policer",
        policed(*TWO_COLOURS, "then discard", "logical-interface-policer"),
        "Juniper CLI reference, logical-interface-policer: for all families of a unit",
    ),
    policing(
        "unit family inet policer input",
        policed(*TWO_COLOURS, "then discard").replace(
            AT, "set interfaces ge-0/0/1 unit 0 family inet policer input p"
        ),
        "Juniper CLI reference, policer (Interface): input, of packets that are received",
    ),
    Statement(
        "unit family inet policer output",
        policed(*TWO_COLOURS, "then discard").replace(
            AT, "set interfaces ge-0/0/1 unit 0 family inet policer output p"
        ),
        NOTHING.replace(AT, "set interfaces ge-0/0/1 unit 0 family inet policer output p"),
        "Juniper CLI reference, policer (Interface): output, of packets that are transmitted",
        flows=ONE,
        expected={"a": 2.0},
    ),
    policing(
        "three-color-policer single-rate committed-information-rate",
        coloured("single-rate", SINGLE),
        f"{COLOURS}: red packets are discarded",
    ),
    Statement(
        "three-color-policer single-rate committed-burst-size",
        coloured("single-rate", SINGLE),
        NOTHING,
        "Juniper CLI reference, single-rate: marking by CIR, CBS and EBS",
        {"classes.t.police.burst": "10 kB"},
        direction="in",
    ),
    Statement(
        "three-color-policer single-rate excess-burst-size",
        coloured("single-rate", SINGLE),
        NOTHING,
        "Juniper CLI reference, single-rate: marking by CIR, CBS and EBS",
        {"classes.t.police.excess_burst": "20 kB"},
        direction="in",
    ),
    policing(
        "three-color-policer two-rate peak-information-rate",
        coloured("two-rate", TWO),
        f"{COLOURS}: green and yellow packets pass, up to the peak rate",
        4.0,
    ),
    Statement(
        "three-color-policer two-rate peak-burst-size",
        coloured("two-rate", TWO),
        NOTHING,
        "Juniper CLI reference, two-rate: marking by CIR, CBS, PIR and PBS",
        {"classes.t.police.peak_burst": "20 kB"},
        direction="in",
    ),
    policing(
        "three-color-policer color-blind",
        coloured("single-rate", SINGLE),
        "Juniper CLI reference, color-blind: colours that packets have do not count",
    ),
    policing(
        "three-color-policer action loss-priority high then discard",
        coloured("two-rate", TWO),
        "Juniper CLI reference, loss-priority high then discard (Three-Color Policer): discards "
        "packets of high loss priority, which exceed the peak rate and burst",
        4.0,
    ),
    Statement(
        "then three-color-policer two-rate",
        coloured("two-rate", TWO[:-1]),
        coloured("two-rate", TWO),
        f"{COLOURS}: red packets pass unless the action discards them",
        flows=ONE,
        expected={"a": 8.0},
        direction="in",
    ),
)


def matching(*conditions: str, family: str = "inet", then: str = "forwarding-class ef") -> str:
    """Return four queues, of which `ef` gets the packets of a filter's conditions."""
    name = f"{FIREWALL} family {family} filter f"
    return queues(
        *(f"{name} term t from {each}" for each in conditions),
        f"{name} term t then {then}",
        f"{name} term rest then accept",
        f"set interfaces ge-0/0/1 unit 0 family {family} filter input f",
        **QUARTERS,
    )


def condition(
    words: str,
    *conditions: str,
    flow: dict[str, Any],
    source: str = MATCHES,
    to: str = "ef",
    family: str = "inet",
    others: tuple[str, ...] = (),
) -> Statement:
    """Return a statement with the class of a flow that a term's conditions decide."""
    text = matching(*conditions, family=family) + lines(*others)
    other = matching("protocol icmp" if to == "ef" else "protocol udp", family=family)
    return sorted_as(words, text, other.replace("udp", "17"), source, flow, to)


A, B = "10.1.0.1", "10.2.0.1"
HERE = {"source": A, "destination": B}

CONDITIONS = (
    condition("from address", "address 10.2.0.0/16", flow=HERE),
    condition("from source-address", "source-address 10.1.0.0/16", flow=HERE),
    condition("from destination-address", "destination-address 10.1.0.0/16", flow=HERE, to="be"),
    condition(
        "from source-address except",
        "source-address 10.0.0.0/8",
        "source-address 10.1.0.0/16 except",
        flow=HERE,
        to="be",
    ),
    condition(
        "from ip-source-address",
        "ip-source-address 10.1.0.0/16",
        flow=HERE,
        source="Juniper, Firewall Filter Match Conditions (ACX, QFX): IP source address",
    ),
    condition(
        "from ip-destination-address",
        "ip-destination-address 10.2.0.0/16",
        flow=HERE,
        source="Juniper, Firewall Filter Match Conditions (ACX, QFX): IP destination",
    ),
    *(
        condition(
            f"from {side}prefix-list",
            f"{side}prefix-list l",
            flow=HERE,
            to=to,
            others=("set policy-options prefix-list l 10.1.0.0/16",),
            source=f"{MATCHES}; a list of [edit policy-options]",
        )
        for side, to in (("", "ef"), ("source-", "ef"), ("destination-", "be"))
    ),
    condition("from port", "port 4000", flow={"source_port": 4000, "port": 9}),
    condition("from source-port", "source-port 4000", flow={"source_port": 4000, "port": 9}),
    condition("from destination-port sip", "destination-port sip", flow={"port": 5060}),
    condition("from destination-port", "destination-port 4000-4100", flow={"port": 4050}),
    condition(
        "from destination-port-except",
        "destination-port-except 4000-4100",
        flow={"port": 4050},
        to="be",
    ),
    condition("from protocol", "protocol udp", flow={}),
    condition("from protocol icmp", "protocol icmp", flow={}, to="be"),
    *(
        condition(
            f"from next-header {name}",
            f"next-header {name}",
            flow={"ip": 6},
            to="be",
            family="inet6",
            source="Juniper, Firewall Filter Match Conditions for IPv6 Traffic",
        )
        for name in ("icmp6", "icmpv6")
    ),
    condition("from protocol-except", "protocol-except tcp", flow={}),
    condition("from ip-protocol", "ip-protocol 17", flow={}, source=ACTIONS),
    condition("from dscp af21", "dscp af21", flow={"dscp": 18}),
    condition("from dscp 0x1a", "dscp 0x1a", flow={"dscp": 26}),
    condition("from dscp-except", "dscp-except af31", flow={"dscp": 26}, to="be"),
    condition("from ip-precedence", "ip-precedence 3", flow={"dscp": 28}, source=ACTIONS),
    *(
        condition(f"from precedence {name}", f"precedence {name}", flow={"dscp": 8 * number + 2})
        for number, name in enumerate(
            (
                *("routine", "priority", "immediate", "flash", "flash-override", "critical-ecp"),
                *("internet-control", "net-control"),
            )
        )
    ),
    condition(
        "from traffic-class",
        "traffic-class af31",
        flow={"dscp": 26, "ip": 6},
        family="inet6",
        source="Juniper, Firewall Filter Match Conditions for IPv6 Traffic",
    ),
    condition(
        "from next-header",
        "next-header udp",
        flow={"ip": 6},
        family="inet6",
        source="Juniper, Firewall Filter Match Conditions for IPv6 Traffic",
    ),
    condition(
        "from payload-protocol",
        "payload-protocol 17",
        flow={"ip": 6},
        family="inet6",
        source="Juniper, Firewall Filter Match Conditions for IPv6 Traffic",
    ),
)

IPV4_ONLY = lines(
    f"{FILTER} term t then forwarding-class ef",
    f"{FILTER} term t then accept",
    AT,
    "set interfaces ge-0/0/1 unit 0 family inet6",
    f"{IN} classifiers dscp-ipv6 c6",
    f"{COS} classifiers dscp-ipv6 c6 forwarding-class af loss-priority low code-points ef",
)

CHAIN = queues(
    f"{FILTER} term t from protocol udp",
    f"{FILTER} term t then forwarding-class ef",
    "{next}",
    f"{FILTER} term u from dscp af31",
    f"{FILTER} term u then forwarding-class nc",
    f"{FILTER} term rest then accept",
    AT,
    **QUARTERS,
)

STEPS = (
    Statement(
        "unit family inet filter input",
        queues(classified="", **QUARTERS) + IPV4_ONLY.replace(f"{IN} classifiers dscp-ipv6 c6", ""),
        matching("protocol tcp"),
        "Juniper, Guidelines for Configuring Firewall Filters: a family sees its own packets only",
        flows={"a": {"mbps": 1}, "b": {"mbps": 1, "ip": 6}},
        expected={"a": "ef", "b": "be"},
    ),
    sorted_as(
        "filter term then forwarding-class",
        matching("protocol udp"),
        matching("protocol tcp"),
        "Juniper CLI reference, term (Normal Filter)",
        {},
        "ef",
    ),
    sorted_as(
        "term then next term",
        CHAIN.format(next=f"{FILTER} term t then next term"),
        CHAIN.format(next=""),
        f"{ACTIONS}: packets go on with the next term",
        {"dscp": 26},
        "nc",
    ),
    sorted_as(
        "filter term",
        CHAIN.format(next=""),
        CHAIN.format(next=f"{FILTER} term t then next term"),
        f"{FILTERS}; the first term with a terminating action decides",
        {"dscp": 26},
        "ef",
    ),
)


def then(word: str, source: str = "Juniper, Firewall Filter Nonterminating Actions") -> Statement:
    """Return a statement with an action that does nothing to packets, beside a class for them."""
    text = matching("protocol udp") + lines(f"{FILTER} term t then {word}")
    other = matching("protocol udp", then=word)
    return sorted_as(f"then {word}", text, other, source, {}, "ef")


ACCEPTED = "Juniper, Firewall Filter Terminating Actions"

ACTIONS_OF_TERMS = (
    *(then(word) for word in ("count c", "log", "syslog", "sample", "port-mirror", "packet-mode")),
    *(then(word) for word in ("port-mirror-instance i", "service-accounting", "hw-counter")),
    then("service-filter-hit"),
    then("accept", ACCEPTED),
    then("loss-priority low"),
    *(
        Statement(
            f"then {word}",
            terms().replace("term a then policer p", f"term a then {word}"),
            terms(),
            ACCEPTED,
            flows=PORTS,
            expected={"a": 0.0, "b": 2.0},
            direction="in",
        )
        for word in ("discard", "reject")
    ),
    Statement(
        "then dscp",
        policed(*TWO_COLOURS, action="dscp cs2"),
        NOTHING,
        "Juniper, Firewall Filter Nonterminating Actions",
        {"classes.t.mark": "cs2"},
        direction="in",
    ),
    Statement(
        "then traffic-class",
        policed(*TWO_COLOURS, action="traffic-class af21").replace("family inet", "family inet6"),
        NOTHING,
        "Juniper, Firewall Filter Nonterminating Actions, of IPv6",
        {"classes.t.mark": "af21"},
        direction="in",
    ),
    policing(
        "filter interface-specific",
        policed(*TWO_COLOURS, "then discard") + lines(f"{FILTER} interface-specific"),
        "Juniper MX Series (O'Reilly), chapter 3, Chapter Review Answers: an instance for each",
    ),
    policing(
        "filter physical-interface-filter",
        policed(*TWO_COLOURS, "then discard") + lines(f"{FILTER} physical-interface-filter"),
        "Juniper, Physical Interface Policer Overview: one for all units",
    ),
    policing(
        "family any filter",
        policed(*TWO_COLOURS, "then discard")
        .replace("family inet filter f", "family any filter f")
        .replace(AT, "")
        + lines("set interfaces ge-0/0/1 unit 0 filter input f"),
        f"{APPLIED}: a protocol-independent filter at a unit (MX Series)",
    ),
    policing(
        "filter input-list",
        policed(*TWO_COLOURS, "then discard").replace("filter input f", "filter input-list f"),
        f"{APPLIED}: lists of filters",
    ),
    Statement(
        "filter output-list",
        policed(*TWO_COLOURS, "then discard").replace("filter input f", "filter output-list f"),
        NOTHING.replace("filter input f", "filter output f"),
        f"{APPLIED}: lists of filters",
        flows=ONE,
        expected={"a": 2.0},
    ),
    Statement(
        "filter output",
        policed(*TWO_COLOURS, "then discard").replace("filter input f", "filter output f"),
        NOTHING.replace("filter input f", "filter output f"),
        f"{APPLIED}: output, of packets that are transmitted",
        flows=ONE,
        expected={"a": 2.0},
    ),
)


def by_class(word: str) -> str:
    """Return an output whose filter polices packets by their forwarding class."""
    return queues(
        *(f"{FIREWALL} policer p {each}" for each in (*TWO_COLOURS, "then discard")),
        f"{FILTER} term t from {word} ef",
        f"{FILTER} term t then policer p",
        f"{FILTER} term rest then accept",
        "set interfaces ge-0/0/0 unit 0 family inet filter output f",
        **QUARTERS,
    )


BY_CLASS = (
    Statement(
        "from forwarding-class",
        by_class("forwarding-class"),
        PLAIN,
        MATCHES,
        flows=flows(4, "ef", "be"),
        expected={"ef": 2.0, "be": 4.0},
    ),
    Statement(
        "from forwarding-class-except",
        by_class("forwarding-class-except"),
        PLAIN,
        MATCHES,
        flows=flows(4, "ef", "be"),
        expected={"ef": 4.0, "be": 2.0},
    ),
)

SPEED = queues(be="transmit-rate percent 50")
GROUP = "set groups g class-of-service schedulers <s-*> shaping-rate 2m"
RANGE = "set interfaces interface-range r"

SYNTAX = (
    shared(
        "class-of-service schedulers s-ef apply-groups",
        two(
            "transmit-rate percent 60",
            "transmit-rate percent 30",
            GROUP,
            f"{COS} schedulers s-ef apply-groups g",
        ),
        two("transmit-rate percent 60", "transmit-rate percent 30"),
        "Juniper, Use Configuration Groups to Quickly Configure Devices",
        8.0,
        2.0,
    ),
    shared(
        "apply-groups-except",
        two(
            "transmit-rate percent 60",
            "transmit-rate percent 30",
            GROUP,
            "set apply-groups g",
            f"{COS} schedulers s-be apply-groups-except g",
        ),
        two("transmit-rate percent 60", "transmit-rate percent 30", GROUP, "set apply-groups g"),
        "Juniper CLI reference, apply-groups-except: disables inheritance, below the top level",
        8.0,
        2.0,
    ),
    shared(
        "groups class-of-service schedulers shaping-rate",
        two(
            "transmit-rate percent 60",
            "transmit-rate percent 30",
            GROUP.replace("<s-*>", "<*f>"),
            "set apply-groups g",
        ),
        two("transmit-rate percent 60", "transmit-rate percent 30"),
        "Juniper, Configuration Groups Overview: any object that matches a wildcard inherits",
        8.0,
        2.0,
    ),
    *(
        policing(
            f"interface-range {words}",
            policed(*TWO_COLOURS, "then discard").replace(
                AT, lines(f"{RANGE} {member}", f"{RANGE} unit 0 family inet filter input f")
            ),
            "Juniper, Interface Ranges for Physical Interfaces",
        )
        for words, member in (
            ("unit", "member ge-0/0/1"),
            ("unit filter", "member-range ge-0/0/0 to ge-0/0/1"),
        )
    ),
    shared(
        "delete",
        two(
            "transmit-rate percent 60",
            "transmit-rate percent 30; shaping-rate 1m",
            f"delete {COS[4:]} schedulers s-ef shaping-rate",
        ),
        two("transmit-rate percent 60", "transmit-rate percent 30; shaping-rate 1m"),
        "Juniper, CLI Configuration Mode Overview, table 1: delete, with all below",
        6.667,
        3.333,
    ),
    shared(
        "deactivate",
        two(
            "transmit-rate percent 60",
            "transmit-rate percent 30; shaping-rate 1m",
            f"deactivate {COS[4:]} schedulers s-ef shaping-rate",
        ),
        two("transmit-rate percent 60", "transmit-rate percent 30; shaping-rate 1m"),
        "Juniper CLI reference, deactivate: inactive statements take no effect",
        6.667,
        3.333,
    ),
    shared(
        "activate",
        two(
            "transmit-rate percent 60",
            "transmit-rate percent 30; shaping-rate 1m",
            f"deactivate {COS[4:]} schedulers s-ef shaping-rate",
            f"activate {COS[4:]} schedulers s-ef shaping-rate",
        ),
        two("transmit-rate percent 60", "transmit-rate percent 30"),
        "Juniper CLI reference, activate: adds the statement back",
        9.0,
        1.0,
    ),
    shared(
        "set s-ef shaping-rate",
        two(
            "transmit-rate percent 60",
            "transmit-rate percent 30",
            f"edit {COS[4:]}",
            "edit schedulers",
            "set s-ef shaping-rate 2m",
            "up",
            "top",
            "exit",
        ),
        two("transmit-rate percent 60", "transmit-rate percent 30"),
        "Juniper CLI reference, edit, up, top and exit: they change the level of commands",
        8.0,
        2.0,
    ),
    *(
        Statement(
            f"interfaces {options} speed",
            SPEED.replace("speed 10m", f"{options} speed 10m"),
            SPEED.replace("speed 10m", f"{options} speed 100m"),
            f"Juniper CLI reference, {document}",
            flows=flows(15, "be"),
            expected={"be": 10.0},
            rate=None,
        )
        for options, document in (
            ("gigether-options", "gigether-options, and speed (Ethernet): 10m, 100m or 1g"),
            ("ether-options", "speed (EX Series), of ether-options: 10m, 100m or 1g"),
        )
    ),
)

PRECEDENCES = f"{COS} classifiers inet-precedence p forwarding-class"
LABELS = f"{COS} classifiers exp x forwarding-class"

ALIASED = (
    *(
        sorted_as(
            f"inet-precedence loss-priority low code-points {name}",
            incoming(
                f"{IN} classifiers inet-precedence p",
                f"{PRECEDENCES} af loss-priority low code-points {name}",
            ),
            incoming(f"{IN} classifiers inet-precedence p", f"{PRECEDENCES} af"),
            f"{ALIASES}, IP precedence",
            {"dscp": 8 * number},
            "af",
        )
        for name, number in (
            *(("be1", 1), ("ef1", 2), ("ef2", 3), ("af11", 4), ("af12", 5), ("nc1", 6)),
            *(("cs6", 6), ("cs7", 7)),
        )
    ),
    *(
        Statement(
            f"exp loss-priority low code-points {name}",
            incoming(
                f"{IN} classifiers exp x", f"{LABELS} af loss-priority low code-points {name}"
            ),
            incoming(""),
            f"{ALIASES}, MPLS EXP",
            {"classes.af.match": {"mpls_tc": number}},
        )
        for name, number in (
            *(("be", 0), ("be1", 1), ("ef", 2), ("ef1", 3), ("af11", 4), ("af12", 5)),
            *(("nc1", 6), ("nc2", 7), ("cs6", 6), ("cs7", 7)),
        )
        if name != "be"
    ),
)

OWN = "Juniper, Default Forwarding Classes: best effort 0, expedited 1, assured 2, control 3"


def unnamed(name: str) -> str:
    """Return a scheduler map of a configuration without forwarding classes of its own."""
    return lines(
        "set interfaces ge-0/0/0 speed 10m",
        "set interfaces ge-0/0/1 unit 0 family inet",
        f"{OUT} scheduler-map m",
        f"{IN} classifiers dscp default",
        f"{COS} scheduler-maps m forwarding-class {name} scheduler s",
        f"{COS} schedulers s transmit-rate percent 80",
    )


PLATFORM = tuple(
    Statement(
        f"scheduler-maps forwarding-class {name}",
        unnamed(name),
        unnamed("other"),
        f"{OWN}; {DEFAULT}",
        {f"classes.{name}.bandwidth": "80%"},
        flows={"a": {"mbps": 1, "dscp": dscp}},
        expected={"a": name},
    )
    for name, dscp in (
        *(("best-effort", 0), ("expedited-forwarding", 46), ("assured-forwarding", 10)),
        ("network-control", 48),
    )
)

STATEMENTS = (
    *PLATFORM,
    *(*SCHEDULERS, *OUTPUTS, *INPUTS, *REWRITES, *POLICERS, *CONDITIONS, *STEPS),
    *(*ACTIONS_OF_TERMS, *BY_CLASS, *SYNTAX, *ALIASED),
)

IN_COS = {
    "host-outbound-traffic x": "packets of the router itself",
    "fragmentation-maps x": "fragmentation on multilinks",
    "forwarding-policy x": "the next hop by class",
    "congestion-notification-profile x": "priority flow control",
    "forwarding-class-sets x": "sets of classes",
    "shared-buffer x": "each queue of perhop has its own buffer",
    "multi-destination copy-plp-all": "multicast is not modelled",
    "tri-color": "the colours of packets are always kept",
    "traceoptions x": "has no effect on packets",
    "restricted-queues x": "has no effect on packets",
    "system-defaults x": "has no effect on packets that routers forward",
    "routing-instances x": "classifiers of routing instances",
    "virtual-channels x": "virtual channels",
    "virtual-channel-groups x": "virtual channels",
    "adaptive-shapers x": "shapers that adapt to congestion",
    "loss-priority-maps x": "no bits of Frame Relay",
    "loss-priority-rewrites x": "no bits of Frame Relay",
    "application-traffic-control x": "limits by application",
    "policy-map x": "marks packets by rewrite rules and filters",
    "translation-table x": "translations of code points",
    "apply-macro x": "has no effect on packets",
    "interfaces interface-set x": "sets of interfaces",
    "interfaces ge-0/0/0 scheduler-map-chassis x": "queues to the fabric",
    "interfaces ge-0/0/0 input-scheduler-map x": "queues at inputs",
    "interfaces ge-0/0/0 input-shaping-rate x": "shapers at inputs",
    "interfaces ge-0/0/0 input-traffic-control-profile x": "shapers at inputs",
    "interfaces ge-0/0/0 output-traffic-control-profile-remaining x": "sets of interfaces",
    "interfaces ge-0/0/0 excess-bandwidth-share x": "sets of interfaces",
    "interfaces ge-0/0/0 forwarding-class-set x": "sets of classes",
    "interfaces ge-0/0/0 fragmentation-map x": "fragmentation on multilinks",
    "interfaces ge-0/0/0 virtual-channel-group x": "virtual channels",
    "interfaces ge-0/0/0 internal-node x": "sets of interfaces",
    "forwarding-classes class x no-loss": "other platforms' queues",
    "forwarding-classes class x priority high": "other platforms' queues",
    "forwarding-classes class x policing-priority premium": "other platforms' queues",
    "forwarding-classes class x pfc-priority 3": "other platforms' queues",
    "classifiers ieee-802.1ad x": "the drop eligibility of VLAN tags",
    "interfaces ge-0/0/0 unit 0 rewrite-rules ieee-802.1p x": "the code points of VLAN tags are",
    "schedulers s-ef adjust-minimum 1m": "subscribers' rates",
    "schedulers s-ef adjust-percent 10": "subscribers' rates",
    "schedulers s-ef overhead-accounting frame-mode": "subscribers' rates",
    "schedulers s-ef buffer-dynamic-threshold 5": "fixed limits",
    "schedulers s-ef excess-priority none": "in the order of `priority`",
    "schedulers s-ef buffer-size shared": "has its own buffer",
    "schedulers s-ef buffer-size percent 20 exact": "has its own buffer",
    "schedulers s-ef transmit-rate percent 25 rate-limit": "wait in the queue instead",
    "schedulers s-ef priority medium": "decides which class borrows first",
    "schedulers s-ef priority medium-high": "decides which class borrows first",
    "schedulers s-ef priority high": "decides which class borrows first",
    "schedulers s-ef priority low-latency": "the same as strict-high in perhop",
}
"""Statements of `class-of-service`, and what the notes on them contain."""

ELSEWHERE = {
    "interfaces ge-0/0/0 hierarchical-scheduler": "levels of schedulers above units",
    "interfaces ge-0/0/0 shared-scheduler": "units share nothing",
    "interfaces ge-0/0/0 per-unit-scheduler": "do not share the interface",
    "interfaces ge-0/0/0 layer2-policer x": "layer-2 policers",
    "interfaces ge-0/0/0 unit 0 family inet simple-filter input x": "simple filters",
    "interfaces ge-0/0/0 unit 0 family inet policer arp x": "perhop has no ARP",
    "interfaces interface-set x": "sets of interfaces",
    "firewall family inet prefix-action x": "policers for each prefix",
    "firewall enhanced-hierarchical-policer x": "policers with guarantees inside",
    "logical-systems l class-of-service x": "parts of a router",
    "tenants l class-of-service x": "parts of a router",
    "dynamic-profiles l class-of-service x": "come with each subscriber",
    "protocols mpls label-switched-path l policing x": "label-switched paths",
}

IN_PROFILES = {
    "guaranteed-rate 5m": "guarantees among the profiles",
    "overhead-accounting frame-mode": "the overhead of the link",
    "excess-rate percent 5": "excess rates among the profiles",
    "excess-rate-high percent 5": "excess rates among the profiles",
    "excess-rate-low percent 5": "excess rates among the profiles",
    "adjust-minimum 1m": "subscribers' rates",
    "peak-rate 5m": "belongs to ATM",
    "sustained-rate 5m": "belongs to ATM",
    "max-burst-size 5": "belongs to ATM",
}

IN_THEN = {
    "loss-priority high": "drop profiles go by code point",
    "routing-instance x": "packets go by perhop's routes",
    "next-ip 10.0.0.1/32": "packets go by perhop's routes",
    "next-ip6 2001::1/128": "packets go by perhop's routes",
    "next-interface x": "packets go by perhop's routes",
    "prefix-action x": "policers for each prefix",
    "enhanced-hierarchical-policer x": "policers with guarantees inside",
    "policer-list x": "unknown action",
    "traffic-class-count x": "unknown action",
}

IN_POLICERS = {
    "if-exceeding-pps pps-limit 5": "polices bits, not packets",
    "shared-bandwidth-policer": "the links of a bundle",
    "physical-interface-policer": "one bucket in Junos",
    "logical-bandwidth-policer": "of the rate of the interface, not of the unit",
    "then loss-priority high": "packets above the rate are sent",
    "then forwarding-class be": "keep their class",
}


def told(command: str, how: str, text: str = "", words: str = "") -> Approximated:
    """Return a statement of a configuration, by its command."""
    return Approximated(words or command, text + lines(f"set {command}"), how)


def taken(statement: str) -> Approximated:
    """Return a statement that is taken as the rate of an interface of unknown speed."""
    text = SPEED.replace("speed 10m", statement).replace("ge-0/0/0", "st0")
    return Approximated(f"interfaces st0 {statement}", text, "taken as the rate of the interface")


BY_TERM = policed(*TWO_COLOURS, "then discard")
HIERARCHY = policed(
    "aggregate if-exceeding bandwidth-limit 2m",
    "aggregate if-exceeding burst-size-limit 15k",
    "premium if-exceeding bandwidth-limit 1m",
    "premium if-exceeding burst-size-limit 15k",
    kind="hierarchical-policer",
    action="hierarchical-policer p",
)

APPROXIMATED = (
    taken("unit 0 bandwidth 4m"),
    taken("fastether-options speed 10m"),
    *(told(f"class-of-service {each}", how, PLAIN) for each, how in IN_COS.items()),
    *(told(each, how, PLAIN) for each, how in ELSEWHERE.items()),
    *(
        told(f"class-of-service traffic-control-profiles t {each}", how, profile())
        for each, how in IN_PROFILES.items()
    ),
    *(
        told(f"firewall family inet filter f term t then {each}", how, BY_TERM)
        for each, how in IN_THEN.items()
    ),
    *(
        told(f"firewall policer p {each}", how, policed(*TWO_COLOURS))
        for each, how in IN_POLICERS.items()
    ),
    told(
        "firewall three-color-policer p single-rate color-aware",
        "read from its DSCP",
        coloured("single-rate", SINGLE[1:]),
    ),
    Approximated(
        "hierarchical-policer aggregate", HIERARCHY, "all packets share the aggregate policer"
    ),
    Approximated(
        "hierarchical-policer premium", HIERARCHY, "premium packets have no policer of their own"
    ),
    told(
        "policy-options prefix-list l apply-path x",
        "are not followed",
        matching("prefix-list l"),
    ),
    told(
        "class-of-service rewrite-rules inet-precedence r forwarding-class ef loss-priority low "
        "code-point 101",
        "the last three bits of the code point become 0",
        queues(f"{OUT} unit 0 rewrite-rules inet-precedence r", **QUARTERS),
    ),
    told(
        "class-of-service rewrite-rules dscp r import other",
        "only the default rewrite rule",
        rewriting("dscp", "cs5"),
    ),
    told(
        "class-of-service schedulers s-ef drop-profile-map loss-priority any protocol tcp "
        "drop-profile d",
        "one profile for all protocols",
        PLAIN + lines(f"{COS} drop-profiles d fill-level 50 drop-probability 100"),
    ),
    told(
        "class-of-service drop-profiles d fill-level 50 drop-probability 20",
        "the steps become one line",
        queues(
            f"{COS} schedulers s-ef drop-profile-map loss-priority any protocol any drop-profile d",
            **QUARTERS,
        ),
    ),
    *(
        told(f"firewall family inet filter f term t from protocol {each}", how, BY_TERM)
        for each, how in (("esp", "none has this protocol"), ("nothing", "is not a protocol"))
    ),
    told(
        "firewall family inet filter f term t from packet-length 64",
        "whatever the packet has there",
        BY_TERM + lines(f"{FILTER} term t from protocol udp"),
    ),
    Approximated(
        "interfaces unit classifiers dscp",
        queues("set interfaces ge-0/0/1 unit 0 family inet6", **QUARTERS),
        "classifies IPv6 packets, too",
    ),
    told(
        "class-of-service interfaces ge-0/0/1 unit 0 classifiers dscp-ipv6 v",
        "classifies IPv4 packets, too",
        lines(
            f"{COS} classifiers dscp-ipv6 v forwarding-class ef loss-priority low code-points cs4"
        )
        + queues("set interfaces ge-0/0/1 unit 0 family inet6", classified="", **QUARTERS),
    ),
    *(
        Approximated(
            f"unit rewrite-rules {kind} r",
            rewriting(kind, "cs5") + "set interfaces ge-0/0/0 unit 0 family inet\n"
            "set interfaces ge-0/0/0 unit 0 family inet6\n",
            f"marks {other} packets, too",
        )
        for kind, other in (("dscp", "IPv6"), ("dscp-ipv6", "IPv4"))
    ),
    Approximated(
        "scheduler-maps forwarding-class ef scheduler",
        two("transmit-rate percent 40", "priority low"),
        "its scheduler has no `transmit-rate`",
    ),
    *(
        told(f"{at} filter input f", "filters of forwarding tables are not modelled", BY_TERM)
        for at in (
            *(
                "forwarding-options family inet",
                "routing-instances i forwarding-options family inet",
            ),
            *("vlans v forwarding-options", "bridge-domains b forwarding-options", "vlans v"),
        )
    ),
    told("chassis fpc 0 pic 0 q-pic-large-buffer", "the sizes of their schedulers"),
    told(
        "groups g when time 9 to 17",
        "taken as true at all times",
        "set apply-groups g\nset groups g class-of-service schedulers s priority low\n",
    ),
    *(
        Approximated(each, f"{PLAIN}{each} class-of-service x\n", "is not read")
        for each in ("insert", "rename", "copy", "replace", "wildcard")
    ),
)

OTHER_WORDS = frozenset(
    word
    for words in (
        # Kinds of interfaces, from which a rate follows, which is noted as a default.
        "e1 e3 et fe ge mge t1 t3 xe",
        # Load sharing, which is no policy: tests/test_routers_junos_queues.py.
        "adaptive all consistent-hash export forwarding-table load-balance no per-flow per-packet",
        "policy-statement routing-options",
        # Ranges of interfaces; their lines are not about quality of service.
        "member member-range to",
        # Commands that change the level of those that follow, or nothing.
        "annotate commit configuration configure del edit exit load protect quit rollback run save",
        "show status top unprotect up update",
        # Names of code points that Junos does not have.
        "le voice-admit",
        # Keys and values of policies.
        "beside_strict borrow burst bytes classes colour_aware description destination",
        "destination_ports ecn exceed excess_burst gentle icmp in inet6 limit mark match max min",
        "mpls_tc others out pcp peak_burst peak_rate place police policers probability profiles",
        "quantum rate read red remark send shape source source_ports strict time violate weight",
        "wred",
        # Forwarding classes that other platforms have without a definition.
        "fcoe mcast mcast-af mcast-be mcast-ef mcast-nc",
        # Suffixes of numbers, attributes of objects, and parts of notes.
        "a about brace children closes code comment discarded fault g inactive inherited junos k",
        "load m notes origin patterns point refused router selects statement t the",
        "treatment unknown values word",
    )
    for word in words.split()
)
"""Words in the reader that are no keywords of statements: parts of notes and names of values."""
