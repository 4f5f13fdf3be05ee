"""Statements of altq.conf and pf.conf, with what manuals and sources of BSDs say of them."""

from __future__ import annotations

from typing import Any

from perhop.routers.reading.altq.values import SERVICES
from statements import pf
from statements.statement import Approximated, Statement

ALTQ_CONF = "altq.conf(5) of NetBSD, 2011"
LIBALTQ = "NetBSD, usr.sbin/altq/libaltq"
KERNEL = "FreeBSD, sys/net/altq and sys/netpfil/pf"

TWO = {"a": {"mbps": 9, "port": 80}, "b": {"mbps": 9}}
"""Two flows, of which filters take the first by its port."""


def interface(options: str, *lines: str) -> str:
    """Return an interface of altq.conf with its lines."""
    return "\n".join((f"interface em0 {options}", *lines, ""))


def priq(*lines: str, rate: str = "10M") -> str:
    """Return two classes of PRIQ: packets that the lines lead to class a are served first."""
    return interface(
        f"bandwidth {rate} priq",
        "class priq em0 a null priority 2",
        "class priq em0 b null priority 1 default",
        *lines,
    )


def cbq(a: str, b: str = "pbandwidth 50 borrow", options: str = "no-control") -> str:
    """Return two classes of CBQ with these options, at 2 Mb/s."""
    return interface(
        f"bandwidth 2M cbq {options}",
        "class cbq em0 root NULL pbandwidth 100",
        f"class cbq em0 a root {a}",
        f"class cbq em0 b root {b} default",
        "filter em0 a 0 80 0 0 17",
    )


def hfsc(a: str, b: str = "pshare 50") -> str:
    """Return two classes of HFSC with these curves, at 10 Mb/s."""
    return interface(
        "bandwidth 10M hfsc",
        f"class hfsc em0 a root {a}",
        f"class hfsc em0 b root {b} default",
        "filter em0 a 0 80 0 0 17",
    )


def filtered(words: str, line: str, other: str, source: str, **flow: Any) -> Statement:
    """Return a filter that takes a flow, and another one that does not."""
    return Statement(
        words,
        priq(line),
        priq(other),
        source,
        flows={"f": {"mbps": 9, **flow}},
        expected={"f": "a"},
    )


def conditioned(words: str, line: str, other: str, source: str, **rest: Any) -> Statement:
    """Return a conditioner for all packets that an interface receives."""
    text, replaced = (
        interface("bandwidth 10M", f"conditioner em0 c {each}", "filter em0 c 0 0 0 0 0")
        for each in (line, other)
    )
    return Statement(words, text, replaced, source, direction="in", **rest)


ONE = {"f": {"mbps": 9}}

OF_INTERFACES = (
    Statement(
        "interface bandwidth priq",
        priq(rate="6M"),
        priq(rate="8M"),
        f"{ALTQ_CONF}, Interface Commands: the maximum rate at the interface, in bit/s",
        flows=ONE,
        expected={"f": 6.0},
        rate=None,
    ),
    Statement(
        "interface tbrsize priq",
        priq(rate="6M tbrsize 30000"),
        priq(rate="8M tbrsize 30000"),
        f"{ALTQ_CONF}, Interface Commands: a token bucket of this rate and size",
        flows=ONE,
        expected={"f": 6.0},
    ),
    Statement(
        "interface fifoq qlimit",
        interface("bandwidth 10M fifoq qlimit 70"),
        interface("bandwidth 10M fifoq"),
        f"{ALTQ_CONF}, FIFOQ Commands: packets, 50 by default",
        values={"classes.fifoq.queue.limit": "70 packets"},
    ),
    Statement(
        "interface red",
        interface("bandwidth 10M red"),
        interface("bandwidth 10M fifoq"),
        f"{KERNEL}, altq_red.c: thresholds 5 and 15 by default, probability 1/10, weight 1/512",
        values={
            "classes.red.queue.red.min": "5 packets",
            "classes.red.queue.red.max": "15 packets",
            "classes.red.queue.red.probability": "10%",
            "classes.red.queue.red.weight": "0.1953125%",
            "classes.red.queue.limit": "60 packets",
        },
    ),
    Statement(
        "interface red qlimit thmin thmax invpmax weight packetsize ecn",
        interface(
            "bandwidth 10M red qlimit 80 thmin 8 thmax 20 invpmax 20 weight 256 packetsize 500 ecn"
        ),
        interface("bandwidth 10M red"),
        f"{ALTQ_CONF}, RED Commands: inverses of probability and weight",
        values={
            "classes.red.queue.limit": "80 packets",
            "classes.red.queue.red.min": "8 packets",
            "classes.red.queue.red.max": "20 packets",
            "classes.red.queue.red.probability": "5%",
            "classes.red.queue.red.weight": "0.390625%",
            "classes.red.queue.red.packet": "500 B",
            "classes.red.queue.red.ecn": True,
        },
    ),
    Statement(
        "interface cbq-wrr no-control no-tbr efficient",
        cbq("pbandwidth 50", options="no-control no-tbr efficient").replace(
            " cbq no", " cbq-wrr no"
        ),
        cbq("pbandwidth 50"),
        f"{ALTQ_CONF}, CBQ Commands, and {LIBALTQ}/qop_cbq.c: no-tbr, no-control",
        values={"cbq.token_bucket": False, "cbq.efficient": True, "classes.ctl_class": None},
    ),
)

OF_CLASSES = (
    Statement(
        "class priq null priority",
        priq("filter em0 a 0 80 0 0 17"),
        priq("filter em0 a 0 80 0 0 17").replace("priority 2", "priority 0"),
        f"{ALTQ_CONF}, PRIQ Commands: a higher priority is always served first",
        flows=TWO,
        expected={"a": 9.0, "b": 1.0},
    ),
    Statement(
        "class priq qlimit red ecn",
        priq("filter em0 a 0 80 0 0 17").replace("priority 2", "priority 2 qlimit 70 red ecn"),
        priq("filter em0 a 0 80 0 0 17"),
        f"{ALTQ_CONF}, PRIQ Commands: 50 by default; {KERNEL}/altq_priq.c: RED from 10% to 30%",
        values={
            "classes.a.queue.limit": "70 packets",
            "classes.a.queue.red.min": "7 packets",
            "classes.a.queue.red.max": "21 packets",
            "classes.a.queue.red.ecn": True,
        },
    ),
    Statement(
        "class default",
        priq("filter em0 a 0 80 0 0 17"),
        priq("filter em0 a 0 80 0 0 17")
        .replace("priority 2", "priority 2 default")
        .replace("priority 1 default", "priority 1"),
        f"{ALTQ_CONF}: packets that do not match are assigned to this class",
        flows={"f": {"mbps": 9, "port": 81}},
        expected={"f": "b"},
    ),
    Statement(
        "class cbq root pbandwidth",
        cbq("pbandwidth 30", "pbandwidth 70"),
        cbq("pbandwidth 50"),
        f"{ALTQ_CONF}, CBQ Commands: percent of the interface's bandwidth",
        flows=TWO,
        expected={"a": 0.6, "b": 1.4},
        within=0.05,
    ),
    Statement(
        "class cbq exactbandwidth",
        cbq("exactbandwidth 600K", "pbandwidth 70"),
        cbq("exactbandwidth 1M"),
        f"{ALTQ_CONF}, CBQ Commands: bit/s instead of pbandwidth",
        flows=TWO,
        expected={"a": 0.6, "b": 1.4},
        within=0.05,
    ),
    Statement(
        "class cbq borrow",
        cbq("pbandwidth 30 borrow"),
        cbq("pbandwidth 30"),
        f"{ALTQ_CONF}, CBQ Commands: without it an overlimit class is delayed",
        flows={"a": {"mbps": 9, "port": 80}},
        expected={"a": 2.0},
        within=0.05,
    ),
    Statement(
        "class cbq priority",
        cbq("pbandwidth 50 borrow priority 3"),
        cbq("pbandwidth 50 borrow priority 1"),
        f"{ALTQ_CONF}, CBQ Commands: high numbers are higher priority, 7 at most, 1 by default",
        values={"classes.a.priority": 4, "classes.b.priority": 6},
    ),
    Statement(
        "class cbq maxburst minburst packetsize maxpacketsize",
        cbq(
            "pbandwidth 50 maxburst 9 minburst 3 packetsize 576 maxpacketsize 576",
            "pbandwidth 50 maxburst 9 minburst 3 packetsize 576 maxpacketsize 576",
        ),
        cbq("pbandwidth 50"),
        f"{ALTQ_CONF}, CBQ Commands: packets, packets, and bytes",
        values={"cbq.maxburst": 9, "cbq.minburst": 3, "cbq.packet": "576 B"},
    ),
    Statement(
        "class cbq maxdelay",
        cbq("pbandwidth 50 maxdelay 600"),
        cbq("pbandwidth 50"),
        f"{LIBALTQ}/qop_cbq.c: the packets of full size that the class sends in the time",
        values={"classes.a.queue.limit": "50 packets"},  # 600 ms of 1 Mb/s, by 12,000 bit
    ),
    Statement(
        "class cbq packetsize maxdelay",
        cbq(*["pbandwidth 50 packetsize 750 maxdelay 600"] * 2),
        cbq("pbandwidth 50 maxdelay 600"),
        f"{LIBALTQ}/qop_cbq.c: packets of the average size",
        values={"classes.a.queue.limit": "100 packets"},
    ),
    Statement(
        "class cbq red",
        cbq("pbandwidth 50 red"),
        cbq("pbandwidth 50"),
        f"{LIBALTQ}/qop_cbq.c: 60 packets with RED, 30 without; {KERNEL}/altq_rmclass.c: 10%, 30%",
        values={
            "classes.a.queue.limit": "60 packets",
            "classes.a.queue.red.min": "6 packets",
            "classes.a.queue.red.max": "18 packets",
            "classes.b.queue.limit": "30 packets",
        },
    ),
    Statement(
        "class cbq control",
        interface(
            "bandwidth 2M cbq",
            "class cbq em0 root NULL pbandwidth 100",
            "class cbq em0 c root pbandwidth 20 control",
            "class cbq em0 b root pbandwidth 80 default",
        ),
        cbq("pbandwidth 20", "pbandwidth 80"),
        f"{ALTQ_CONF}, CBQ Commands: ICMP packets are assigned to it",
        values={"classes.c.match": {"protocol": "icmp"}, "classes.c.bandwidth": "20%"},
    ),
    Statement(
        "class cbq ctl_class",
        interface(
            "bandwidth 2M cbq",
            "class cbq em0 root NULL pbandwidth 100",
            "class cbq em0 ctl_class root pbandwidth 20",
            "class cbq em0 b root pbandwidth 80 default",
        ),
        cbq("pbandwidth 20", "pbandwidth 80"),
        f"{ALTQ_CONF}, CBQ Commands: a reserved name; {LIBALTQ}/qop_cbq.c: the control class",
        values={"classes.ctl_class.match": {"protocol": "icmp"}},
    ),
    Statement(
        "interface cbq",
        cbq("pbandwidth 30", "pbandwidth 70", options=""),
        cbq("pbandwidth 30", "pbandwidth 70"),
        f"{LIBALTQ}/qop_cbq.c: a class for control packets with 2%, from the default class",
        values={
            "classes.ctl_class.bandwidth": "2%",
            "classes.ctl_class.priority": 1,
            "classes.b.bandwidth": "68%",
        },
    ),
    Statement(
        "class hfsc pshare",
        hfsc("pshare 30", "pshare 70"),
        hfsc("pshare 50"),
        f"{ALTQ_CONF}, HFSC Commands: link sharing as a fraction of the link's bandwidth",
        flows=TWO,
        expected={"a": 3.0, "b": 7.0},
    ),
    Statement(
        "class hfsc grate",
        hfsc("pshare 10 grate 4M", "pshare 90"),
        hfsc("pshare 10", "pshare 90"),
        f"{ALTQ_CONF}, HFSC Commands: [rt 0 0 bps]; the rest is shared by the link shares",
        flows=TWO,
        expected={"a": 4.0, "b": 6.0},
        within=0.12,
    ),
    Statement(
        "class hfsc bandwidth",
        hfsc("bandwidth 3M", "pshare 70"),
        hfsc("bandwidth 5M"),
        f"{ALTQ_CONF}, HFSC Commands: [sc 0 0 bps]",
        flows=TWO,
        expected={"a": 3.0, "b": 7.0},
    ),
    Statement(
        "class hfsc ulimit",
        hfsc("pshare 50 ulimit 2M"),
        hfsc("pshare 50"),
        f"{ALTQ_CONF}, HFSC Commands: the upper limit of link sharing",
        flows=TWO,
        expected={"a": 2.0, "b": 8.0},
    ),
    Statement(
        "class hfsc ul",
        hfsc("pshare 50 [ul 0 0 2M]"),
        hfsc("pshare 50"),
        f"{ALTQ_CONF}, HFSC Commands: m2 is the second slope, in bit/s",
        flows=TWO,
        expected={"a": 2.0, "b": 8.0},
    ),
    Statement(
        "class hfsc rt ls",
        hfsc("[rt 4M 20 1M] [ls 0 0 2M]"),
        hfsc("pshare 20"),
        f"{ALTQ_CONF}, HFSC Commands: m1 for d milliseconds, then m2",
        values={
            "classes.a.realtime": {"m1": "4 Mbps", "d": "20 ms", "m2": "1 Mbps"},
            "classes.a.bandwidth": "20%",
        },
    ),
    Statement(
        "class hfsc sc",
        hfsc("[sc 4M 20 1M]"),
        hfsc("bandwidth 1M"),
        f"{ALTQ_CONF}, HFSC Commands: the same values to both curves",
        values={
            "classes.a.realtime": {"m1": "4 Mbps", "d": "20 ms", "m2": "1 Mbps"},
            "classes.a.linkshare": {"m1": "4 Mbps", "d": "20 ms", "m2": "1 Mbps"},
        },
    ),
    Statement(
        "class admission",
        cbq("admission none pbandwidth 30", "pbandwidth 70"),
        cbq("pbandwidth 50"),
        f"{ALTQ_CONF}: the service that RSVP uses; `none` by default",
        values={"classes.a.bandwidth": "30%"},
    ),
)

FILTERS = (
    filtered(
        "filter",
        "filter em0 a 0 80 0 0 17",
        "filter em0 a 0 81 0 0 17",
        f"{ALTQ_CONF}, Filter Commands: dst, dport, src, sport, proto; 0 is any",
        port=80,
    ),
    filtered(
        "filter 5000",
        "filter em0 a 0 0 0 5000 0",
        "filter em0 a 0 5000 0 0 0",
        f"{ALTQ_CONF}, Filter Commands: sport",
        source_port=5000,
    ),
    filtered(
        "filter 17",
        "filter em0 a 0 0 0 0 17",
        "filter em0 a 0 0 0 0 6",
        f"{ALTQ_CONF}, Filter Commands: protocol numbers",
    ),
    filtered(
        "filter domain",
        "filter em0 a 0 domain 0 0 0",
        "filter em0 a 0 ntp 0 0 0",
        f"{LIBALTQ}/parser.c, get_port: names of services",
        port=53,
    ),
    filtered(
        "filter netmask",
        "filter em0 a 198.19.7.9 netmask 255.255.0.0 0 0 0 0",
        "filter em0 a 198.19.7.9 netmask 255.255.255.0 0 0 0 0",
        f"{ALTQ_CONF}, Filter Commands: a mask after an address",
    ),
    filtered(
        "filter 198.18.0.1",
        "filter em0 a 0 0 198.18.0.1 0 0",
        "filter em0 a 198.18.0.1 0 0 0 0",
        f"{ALTQ_CONF}, Filter Commands: the source is the second address",
    ),
    filtered(
        "filter tos",
        "filter em0 a 0 0 0 0 0 tos 0xb8",
        "filter em0 a 0 0 0 0 0 tos 0x28",
        f"{ALTQ_CONF}, Filter Commands: the value of the type of service",
        dscp="ef",
    ),
    filtered(
        "filter tos tosmask",
        "filter em0 a 0 0 0 0 0 tos 0xa0 tosmask 0xe0",
        "filter em0 a 0 0 0 0 0 tos 0xa0",
        f"{LIBALTQ}/parser.c, filter_parser",
        dscp="ef",
    ),
    Statement(
        "filter",
        priq("filter em0 a 0 0 0 0 0"),
        priq("filter6 em0 a ::0 0 ::0 0 0"),
        f"{KERNEL}: altq_subr.c, apply_filter4 compares packets of AF_INET only",
        flows={"f": {"mbps": 9, "ip": 6}},
        expected={"f": "b"},
    ),
    filtered(
        "filter name dontwarn",
        "filter em0 a name web 0 80 0 0 0 dontwarn",
        "filter em0 a name web 0 81 0 0 0 dontwarn",
        f"{ALTQ_CONF} and {LIBALTQ}/parser.c: a name for later reference; no warnings",
        port=80,
    ),
    filtered(
        "filter6",
        "filter6 em0 a 2001:2:0:1::/64 0 ::0 0 0",
        "filter6 em0 a ::0 0 2001:2:0:1::/64 0 0",
        f"{ALTQ_CONF}, Filter Commands: IPv6 prefixes",
        ip=6,
    ),
    filtered(
        "filter6 tclass tclassmask",
        "filter6 em0 a ::0 0 ::0 0 0 tclass 0xa0 tclassmask 0xe0",
        "filter6 em0 a ::0 0 ::0 0 0 tclass 0xa0",
        f"{LIBALTQ}/parser.c, filter6_parser",
        ip=6,
        dscp="ef",
    ),
    Statement(
        "filter ruleno",
        priq("filter em0 a ruleno 5 0 80 0 0 0", "filter em0 b 0 80 0 0 0"),
        priq("filter em0 a ruleno -5 0 80 0 0 0", "filter em0 b 0 80 0 0 0"),
        f"{ALTQ_CONF}, Filter Commands: matching begins with a larger ruleno",
        flows={"f": {"mbps": 9, "port": 80}},
        expected={"f": "a"},
    ),
)

CONDITIONERS = (
    conditioned(
        "conditioner tbmeter pass drop",
        "<tbmeter 2M 15000 <pass><drop>>",
        "<tbmeter 4M 15000 <pass><drop>>",
        f"{ALTQ_CONF}, CDNR Commands: in profile while tokens suffice",
        flows=ONE,
        expected={"f": 2.0},
    ),
    conditioned(
        "conditioner drop",
        "<drop>",
        "<pass>",
        f"{ALTQ_CONF}, CDNR Commands: rejects the packet",
        flows=ONE,
        expected={"f": 0.0},
    ),
    conditioned(
        "conditioner pass",
        "<pass>",
        "<drop>",
        f"{ALTQ_CONF}, CDNR Commands: goes through",
        flows=ONE,
        expected={"f": 9.0},
    ),
    conditioned(
        "conditioner mark",
        "<mark 0x28>",
        "<mark 0x30>",
        f"{ALTQ_CONF}, CDNR Commands: the value of the ds field",
        values={"classes.c.mark": "af11"},
    ),
    conditioned(
        "conditioner trtcm pass drop",
        "<trtcm 1M 15000 3M 15000 <pass><pass><drop>>",
        "<trtcm 1M 15000 3M 15000 <pass><drop><drop>>",
        f"{KERNEL}/altq_cdnr.c, trtcm_input: above the peak is red, above the committed yellow",
        flows=ONE,
        expected={"f": 3.0},
    ),
    conditioned(
        "conditioner trtcm mark coloraware",
        "<trtcm 1M 15000 3M 15000 <mark 0x28><mark 0x30><mark 0x38> coloraware>",
        "<trtcm 1M 15000 3M 15000 <mark 0x28><mark 0x30><mark 0x38> colorblind>",
        f"{ALTQ_CONF}, CDNR Commands: does not raise the colour; colour-blind by default",
        values={
            "classes.c.police.colour_aware": True,
            "classes.c.police.conform": {"remark": "af11"},
            "classes.c.police.exceed": {"remark": "af12"},
            "classes.c.police.violate": {"remark": "af13"},
        },
    ),
    conditioned(
        "conditioner trtcm colorblind",
        "<trtcm 1M 15000 3M 30000 <pass><pass><drop> colorblind>",
        "<trtcm 1M 15000 3M 30000 <pass><pass><drop> coloraware>",
        f"{ALTQ_CONF}, CDNR Commands: the default",
        values={"classes.c.police.colour_aware": None, "classes.c.police.peak_burst": "30 kB"},
    ),
)

NOTES = (
    Approximated(
        "interface cbq-prr",
        cbq("pbandwidth 50").replace(" cbq no", " cbq-prr no"),
        "the weighted round robin of CBQ",
    ),
    Approximated(
        "interface tbrsize cbq",
        cbq("pbandwidth 50").replace("2M cbq", "2M tbrsize 9000 cbq"),
        "sets the size of the token bucket from the rate",
    ),
    Approximated("interface rio", interface("bandwidth 10M rio lo_thmin 9"), "RIO"),
    Approximated("interface blue", interface("bandwidth 10M blue"), "does not have BLUE"),
    Approximated("interface wfq", interface("bandwidth 10M wfq"), "without classes"),
    Approximated("interface jobs", interface("bandwidth 10M jobs"), "does not have JoBS"),
    Approximated("class rio", cbq("pbandwidth 50 rio"), "RIO is RED for all drop precedences"),
    Approximated("class flowvalve", cbq("pbandwidth 50 flowvalve"), "without a flow valve"),
    Approximated("class cleardscp", cbq("pbandwidth 50 cleardscp"), "clearing the code point"),
    Approximated("red", "red 5 15 10\n" + priq(), "sets the thresholds of red"),
    Approximated(
        "conditioner tswtcm",
        interface("", "conditioner em0 c <tswtcm 1M 2M 5 <pass><pass><drop>>"),
        "perhop does not have `tswtcm`",
    ),
)

STATEMENTS: tuple[Statement, ...] = (
    *OF_INTERFACES,
    *OF_CLASSES,
    *FILTERS,
    *CONDITIONERS,
    *pf.STATEMENTS,
)

APPROXIMATED: tuple[Approximated, ...] = (*NOTES, *pf.APPROXIMATED)

OTHER_WORDS: frozenset[str] = frozenset(
    (
        *SERVICES,
        # Keys and values of scenarios, and of classes that scenarios need.
        *("altq-cbq", "classes", "colour_aware", "conform", "discipline", "exceed", "fq-codel"),
        *("gentle", "limit", "others", "packet", "peak_burst", "peak_rate", "police", "rate"),
        *("remark", "scheduler", "send", "token_bucket", "unused", "violate"),
        # Statements of pf.conf that assign no packets: they are read because of others.
        *("antispoof", "binat", "file", "nat", "rdr", "skip", "table"),
        # Names of programs, functions and families.
        *("altqd", "are_under", "assign", "complement", "names", "openbsd", "outside", "pf"),
        *("pfctl", "read", "rules"),
        # Kinds of numbers and curves, units, prefixes of hexadecimal numbers.
        *("d", "kmg", "l", "ms", "r", "rrt", "rs", "rsrs", "s", "t", "u", "x"),
        # Parts of reasons.
        *("bad", "big", "error", "flow", "host", "missing", "number", "of", "range", "syscall"),
        *("the", "too", "value"),
    )
)
"""Words in the reader that are no keywords of statements: names of ports, parts of notes and names
of values.
"""
