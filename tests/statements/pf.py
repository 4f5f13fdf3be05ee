"""Statements of pf.conf, with what manuals and sources of FreeBSD and OpenBSD say of them."""

from __future__ import annotations

from typing import Any

from statements.statement import Approximated, Statement

FREEBSD = "pf.conf(5) of FreeBSD, 2020"
PFCTL = "FreeBSD, sbin/pfctl"
KERNEL = "FreeBSD, sys/net/altq and sys/netpfil/pf"
OPENBSD = "pf.conf(5) of OpenBSD, 2025"
OPENBSD_SOURCE = "OpenBSD, sbin/pfctl and sys/net"

ONE = {"f": {"mbps": 9}}
TWO = {"a": {"mbps": 9, "port": 80}, "b": {"mbps": 9}}
"""Two flows, of which rules take the first by its port."""


def config(
    *rules: str, root: str = "priq bandwidth 10Mb", a: str = "priority 7", b: str = ""
) -> str:
    """Return queues a and b of pf.conf, and rules."""
    discipline = root.split()[0]
    return "\n".join(
        (
            f"altq on em0 {root} queue {{ a, b }}",
            f"queue a {a}",
            f"queue b {b} {discipline}(default)" if "(" not in b else f"queue b {b}",
            *rules,
            "",
        )
    )


def ruled(words: str, rule: str, other: str, source: str, **flow: Any) -> Statement:
    """Return a rule that assigns a flow to queue a, and another one that does not."""
    return Statement(
        words,
        config(f"{rule} queue a"),
        config(f"{other} queue a"),
        source,
        flows={"f": {"mbps": 9, **flow}},
        expected={"f": "a"},
    )


WEB = "pass out on em0 proto udp to port 80 queue a"

OF_QUEUES = (
    Statement(
        "altq on priq bandwidth queue",
        config(root="priq bandwidth 6Mb"),
        config(root="priq bandwidth 8Mb"),
        f"{FREEBSD}, QUEUEING: the maximum bitrate for all queues",
        flows=ONE,
        expected={"f": 6.0},
        rate=None,
    ),
    Statement(
        "altq bandwidth 60%",
        config(root="priq bandwidth 60%"),
        config(root="priq bandwidth 80%"),
        f"{FREEBSD}, QUEUEING: a percentage of the interface's bandwidth",
        flows=ONE,
        expected={"f": 6.0},
    ),
    Statement(
        "queue priority",
        config(WEB),
        config(WEB, a="priority 0"),
        f"{FREEBSD}, QUEUEING: a higher priority is always served first; 1 by default",
        flows=TWO,
        expected={"a": 9.0, "b": 1.0},
    ),
    Statement(
        "queue qlimit priq red ecn",
        config(WEB, a="priority 7 qlimit 100 priq(red ecn)"),
        config(WEB),
        f"{FREEBSD}, QUEUEING: packets, 50 by default; {KERNEL}/altq_priq.c: RED from 10% to 30%",
        values={
            "classes.a.queue.limit": "100 packets",
            "classes.a.queue.red.min": "10 packets",
            "classes.a.queue.red.max": "30 packets",
            "classes.a.queue.red.ecn": True,
        },
    ),
    Statement(
        "queue bandwidth 30%",
        config(WEB, root="cbq bandwidth 2Mb", a="bandwidth 30%", b="bandwidth 70%"),
        config(WEB, root="cbq bandwidth 2Mb", a="bandwidth 50%", b="bandwidth 50%"),
        f"{FREEBSD}, QUEUEING: a percentage of the parent queue's bandwidth",
        flows=TWO,
        expected={"a": 0.6, "b": 1.4},
        within=0.05,
    ),
    Statement(
        "queue b cbq default",
        config(WEB, root="cbq bandwidth 2Mb", a="bandwidth 60%"),
        config(WEB, root="cbq bandwidth 2Mb", a="bandwidth 60%", b="bandwidth 40%"),
        f"{FREEBSD}, QUEUEING: 100% of the parent's by default; {KERNEL}/altq_rmclass.c: turns "
        "in proportion to the rates",
        flows=TWO,
        expected={"a": 0.75, "b": 1.25},
        within=0.05,
    ),
    Statement(
        "queue bandwidth 30.9%",
        config(WEB, root="hfsc bandwidth 10Mb", a="bandwidth 30.9%", b="bandwidth 60%"),
        config(WEB, root="hfsc bandwidth 10Mb", a="bandwidth 40%", b="bandwidth 60%"),
        f"{PFCTL}/parse.y: percentages are whole numbers",
        values={"classes.a.bandwidth": "30%"},
    ),
    Statement(
        "queue cbq borrow",
        config(WEB, root="cbq bandwidth 2Mb", a="bandwidth 30% cbq(borrow)", b="bandwidth 70%"),
        config(WEB, root="cbq bandwidth 2Mb", a="bandwidth 30%", b="bandwidth 70%"),
        f"{FREEBSD}, QUEUEING: the queue can borrow from the parent",
        flows={"a": {"mbps": 9, "port": 80}},
        expected={"a": 2.0},
        within=0.05,
    ),
    Statement(
        "queue bandwidth 3Mb",
        config(WEB, root="hfsc bandwidth 10Mb", a="bandwidth 3Mb", b="bandwidth 70%"),
        config(WEB, root="hfsc bandwidth 10Mb", a="bandwidth 5Mb", b="bandwidth 50%"),
        f"{PFCTL}/pfctl_altq.c, eval_pfqueue_hfsc: the share without `linkshare`",
        flows=TWO,
        expected={"a": 3.0, "b": 7.0},
    ),
    Statement(
        "queue hfsc linkshare",
        config(WEB, root="hfsc bandwidth 10Mb", a="hfsc(linkshare 30%)", b="bandwidth 70%"),
        config(WEB, root="hfsc bandwidth 10Mb", a="hfsc(linkshare 10%)", b="bandwidth 70%"),
        f"{FREEBSD}, QUEUEING: the bandwidth share of a backlogged queue",
        flows=TWO,
        expected={"a": 3.0, "b": 7.0},
    ),
    Statement(
        "queue hfsc realtime",
        config(
            WEB, root="hfsc bandwidth 10Mb", a="bandwidth 10% hfsc(realtime 4Mb)", b="bandwidth 90%"
        ),
        config(WEB, root="hfsc bandwidth 10Mb", a="bandwidth 10%", b="bandwidth 90%"),
        f"{FREEBSD}, QUEUEING: the minimum required bandwidth",
        flows=TWO,
        expected={"a": 4.0, "b": 6.0},
        within=0.12,
    ),
    Statement(
        "queue hfsc upperlimit",
        config(
            WEB,
            root="hfsc bandwidth 10Mb",
            a="bandwidth 50% hfsc(upperlimit 2Mb)",
            b="bandwidth 50%",
        ),
        config(WEB, root="hfsc bandwidth 10Mb", a="bandwidth 50%", b="bandwidth 50%"),
        f"{FREEBSD}, QUEUEING: the maximum allowed bandwidth",
        flows=TWO,
        expected={"a": 2.0, "b": 8.0},
    ),
    Statement(
        "queue hfsc linkshare 4Mb 20 10%",
        config(
            WEB, root="hfsc bandwidth 10Mb", a="hfsc(linkshare (4Mb 20 10%))", b="bandwidth 60%"
        ),
        config(WEB, root="hfsc bandwidth 10Mb", a="bandwidth 10%", b="bandwidth 60%"),
        f"{FREEBSD}, QUEUEING: m1 for d milliseconds, afterwards m2",
        values={"classes.a.linkshare": {"m1": "4 Mbps", "d": "20 ms", "m2": "1 Mbps"}},
    ),
    Statement(
        "altq tbrsize",
        config(root="priq bandwidth 6Mb tbrsize 20000"),
        config(root="priq bandwidth 8Mb tbrsize 20000"),
        f"{FREEBSD}, QUEUEING: the size of the token bucket regulator in bytes",
        flows=ONE,
        expected={"f": 6.0},
    ),
    Statement(
        "altq codelq target interval ecn qlimit",
        "altq on em0 codelq(target 10 interval 200 ecn) bandwidth 10Mb qlimit 200 queue { a }\n",
        "altq on em0 codelq bandwidth 10Mb queue { a }\n",
        f"{PFCTL}/parse.y: milliseconds; {KERNEL}/altq_codel.c",
        values={
            "classes.codel.queue.codel.target": "10 ms",
            "classes.codel.queue.codel.interval": "200 ms",
            "classes.codel.queue.codel.ecn": True,
            "classes.codel.queue.limit": "200 packets",
        },
    ),
    Statement(
        "queue priq codel",
        config(WEB, a="priority 7 priq(codel)"),
        config(WEB),
        f"{PFCTL}/parse.y; {KERNEL}/altq_priq.c: CoDel with 5 ms and 100 ms",
        values={"classes.a.queue.codel.ecn": False},
    ),
)

RULES = (
    ruled(
        "pass out on proto udp queue",
        "pass out on em0 proto udp",
        "pass out on em0 proto tcp",
        f"{FREEBSD}, PARAMETERS: a rule applies to packets of this protocol",
    ),
    ruled(
        "to any port",
        "pass out on em0 proto udp to any port 80",
        "pass out on em0 proto udp to any port 81",
        f"{FREEBSD}, PARAMETERS: ports",
        port=80,
    ),
    ruled(
        "from any port",
        "pass out on em0 proto udp from any port 5000",
        "pass out on em0 proto udp to any port 5000",
        f"{FREEBSD}, PARAMETERS: ports",
        source_port=5000,
    ),
    ruled(
        "from",
        "pass out on em0 from 198.18.0.0/16",
        "pass out on em0 to 198.18.0.0/16",
        f"{FREEBSD}, PARAMETERS: addresses with modifiers",
    ),
    ruled(
        "inet",
        "pass out on em0 inet",
        "pass out on em0 to 10/8",
        f"{FREEBSD}, PARAMETERS: the address family",
    ),
    ruled(
        "inet6",
        "pass out on em0 inet6",
        "pass out on em0 to 10/8",
        f"{FREEBSD}, PARAMETERS: the address family",
        ip=6,
    ),
    ruled(
        "all",
        "pass out on em0 all",
        "pass out on em0 to 10/8",
        f"{FREEBSD}, PARAMETERS: from any to any",
    ),
    ruled(
        "pass out tos",
        "pass out on em0 tos { 0x10 0x11 0x12 0x13 }",
        "pass out on em0 tos { 8 9 10 11 }",
        f"{PFCTL}/parse.y and {KERNEL}/pf.c: the whole octet",
        dscp=4,
    ),
    ruled(
        "tos 0",
        "pass out on em0 tos 0",
        "pass out on em0 tos { 8 9 10 11 }",
        f"{KERNEL}/pf.c: a type of service of zero is no condition",
        dscp="ef",
    ),
    Statement(
        "quick",
        config("pass out quick on em0 proto udp queue a", "pass out on em0 queue b"),
        config("pass out on em0 proto udp queue a", "pass out on em0 queue b"),
        f"{FREEBSD}, PARAMETERS: a matching quick rule is the last one",
        flows=ONE,
        expected={"f": "a"},
    ),
    Statement(
        "pass in no state queue",
        config("pass in on em1 proto udp no state queue a", "pass out on em0"),
        config("pass in on em1 proto tcp no state queue a", "pass out on em0"),
        f"{KERNEL}/pf.c, pf_test: a packet keeps its queue where a rule has none",
        flows=ONE,
        expected={"f": "a"},
    ),
    Statement(
        "match queue",
        config("match out on em0 proto udp queue a", "pass out on em0"),
        config("match out on em0 proto tcp queue a", "pass out on em0"),
        f"{OPENBSD}, match: parameters stay unless a later rule replaces them",
        flows=ONE,
        expected={"f": "a"},
    ),
    Statement(
        "pass out from phones queue",
        config("table <phones> { 198.18.0.0/24 !198.18.0.9 }", "pass out from <phones> queue a"),
        config("table <phones> { 198.18.0.9 }", "pass out from <phones> queue a"),
        f"{FREEBSD}, TABLES: the entry with the longest prefix decides",
        flows=ONE,
        expected={"f": "a"},
    ),
    ruled(
        "pass out log all allow-opts flags label tag rtable keep state sloppy ridentifier",
        'pass out log on em0 all allow-opts flags any label "x" tag T rtable 1 keep state (sloppy) '
        "ridentifier 7",
        "pass out on em0 to 10/8",
        f"{FREEBSD}, PARAMETERS: they do not change queues",
    ),
    ruled(
        "modulate state tracker",
        "pass out on em0 modulate state tracker 7",
        "pass out on em0 to 10/8",
        f"{FREEBSD}, STATEFUL TRACKING OPTIONS; pfSense: tracker",
    ),
    ruled(
        "synproxy state",
        "pass out on em0 synproxy state",
        "pass out on em0 to 10/8",
        f"{FREEBSD}, PARAMETERS: synproxy",
    ),
    ruled(
        "scrub nat-to bitmask static-port",
        "pass out on em0 scrub (no-df) nat-to 192.0.2.1/24 bitmask static-port",
        "pass out on em0 to 10/8",
        f"{OPENBSD}, Translation: of the packets that the rule matches",
    ),
    ruled(
        "rdr-to port source-hash sticky-address",
        "pass out on em0 rdr-to 192.0.2.1 port 8080 source-hash sticky-address",
        "pass out on em0 to 10/8",
        f"{OPENBSD}, Translation: of the packets that the rule matches",
    ),
    ruled(
        "af-to random",
        "pass out on em0 inet6 af-to 192.0.2.1 random",
        "pass out on em0 to 10/8",
        f"{OPENBSD}, Translation",
        ip=6,
    ),
    ruled(
        "binat-to round-robin least-states",
        "pass out on em0 binat-to 192.0.2.1 round-robin least-states",
        "pass out on em0 to 10/8",
        f"{OPENBSD}, Translation: of the packets that the rule matches",
    ),
)


def openbsd(a: str = "bandwidth 3M", b: str = "bandwidth 7M", root: str = "max 10M") -> str:
    """Return queues a and b of OpenBSD."""
    return (
        f"queue main on em0 bandwidth 10M {root}\nqueue a parent main {a}\n"
        f"queue b parent main {b} default\nmatch out on em0 proto udp to port 80 set queue a\n"
    )


OPENBSD_QUEUES = (
    Statement(
        "queue on bandwidth max",
        openbsd(root="max 6M"),
        openbsd(root="max 8M"),
        f"{OPENBSD}, QUEUEING: the maximum bandwidth of a queue",
        flows=ONE,
        expected={"f": 6.0},
        rate=None,
    ),
    Statement(
        "queue parent bandwidth",
        openbsd(),
        openbsd("bandwidth 5M", "bandwidth 5M"),
        f"{OPENBSD}, QUEUEING: the target bandwidth, above which there is what the parent has left",
        flows=TWO,
        expected={"a": 3.0, "b": 7.0},
    ),
    Statement(
        "queue bandwidth max 2M",
        openbsd("bandwidth 3M max 2M"),
        openbsd(),
        f"{OPENBSD}, QUEUEING: the maximum",
        flows=TWO,
        expected={"a": 2.0, "b": 8.0},
    ),
    Statement(
        "queue bandwidth min",
        openbsd("bandwidth 1M min 4M", "bandwidth 9M"),
        openbsd("bandwidth 1M", "bandwidth 9M"),
        f"{OPENBSD}, QUEUEING: a minimum (reserved) bandwidth",
        flows=TWO,
        expected={"a": 4.0, "b": 6.0},
        within=0.12,
    ),
    Statement(
        "queue bandwidth burst for",
        openbsd("bandwidth 3M burst 9M for 100ms"),
        openbsd(),
        f"{OPENBSD}, QUEUEING: a burst bandwidth and its time",
        values={"classes.a.linkshare": {"m1": "9 Mbps", "d": "100 ms", "m2": "3 Mbps"}},
    ),
    Statement(
        "queue default",
        openbsd(),
        openbsd("bandwidth 3M default", "bandwidth 7M").replace("7M default", "7M"),
        f"{OPENBSD}, QUEUEING: packets not matched by another queue",
        flows={"f": {"mbps": 9, "port": 81}},
        expected={"f": "b"},
    ),
    Statement(
        "queue qlimit",
        openbsd("bandwidth 3M qlimit 80"),
        openbsd(),
        f"{OPENBSD}, QUEUEING: packets, 50 by default",
        values={"classes.a.queue.limit": "80 packets"},
    ),
    Statement(
        "queue flows quantum",
        openbsd("bandwidth 3M flows 100 quantum 300"),
        openbsd(),
        f"{OPENBSD}, QUEUEING; {OPENBSD_SOURCE}/fq_codel.c: 1024 packets, 5 ms, 100 ms",
        values={
            "classes.a.queue.fq-codel": {"flows": 100, "quantum": "300 B"},
            "classes.a.queue.limit": "1024 packets",
        },
    ),
    Statement(
        "match out set queue",
        openbsd(),
        openbsd().replace("set queue a", "set queue b"),
        f"{OPENBSD}, PARAMETERS: set queue",
        flows={"f": {"mbps": 9, "port": 80}},
        expected={"f": "a"},
    ),
)


def rule(words: str, text: str, how: str) -> Approximated:
    """Return a rule with a queue that is not what pf has."""
    return Approximated(words, config(f"{text} queue a"), how)


PF_NOTES = (
    Approximated(
        "altq fairq",
        "altq on em0 fairq bandwidth 1Mb queue { a }\nqueue a fairq(default)\n",
        "perhop does not have fairq",
    ),
    Approximated("queue rio", config(WEB, a="priority 7 priq(rio)"), "RIO is RED"),
    Approximated("altq cbq tbrsize", config(root="cbq bandwidth 2Mb tbrsize 9000"), "token bucket"),
    Approximated(
        "queue priority hfsc",
        config(root="hfsc bandwidth 2Mb", a="priority 3 bandwidth 1% hfsc", b="bandwidth 99%"),
        "`priority` has no effect",
    ),
    Approximated(
        "queue bandwidth 3Mb",
        config(root="cbq bandwidth 2Mb", a="bandwidth 3Mb"),
        "cuts rates above that of the queue around them",
    ),
    Approximated("pass queue a b", config("pass out on em0 queue (a, b)"), "packets of low delay"),
    Approximated(
        "pass in queue", config("pass in on em0 queue a"), "replies, which follow the state"
    ),
    Approximated(
        "pass out egress queue", config("pass out on egress queue a"), "with a default route"
    ),
    Approximated(
        "pass out lan queue", config("pass out on lan queue a"), "interfaces without queues"
    ),
    *(
        Approximated(f"block {word} queue", config(f"block {word} out on em0 queue a"), "answers")
        for word in ("drop", "return", "return-rst", "return-icmp", "return-icmp6")
    ),
    rule("tos lowdelay", "pass out on em0 tos lowdelay", "compares the whole octet"),
    rule("tos throughput", "pass out on em0 tos throughput", "compares the whole octet"),
    rule("tos reliability", "pass out on em0 tos reliability", "compares the whole octet"),
    rule("tos critical", "pass out on em0 tos critical", "compares the whole octet"),
    rule("tos inetcontrol", "pass out on em0 tos inetcontrol", "compares the whole octet"),
    rule("tos netcontrol", "pass out on em0 tos netcontrol", "compares the whole octet"),
    rule("tagged", "pass out on em0 tagged T", "no condition `tagged`"),
    rule("user", "pass out on em0 proto tcp user web", "no condition `user`"),
    rule("group", "pass out on em0 proto tcp group web", "no condition `group`"),
    rule("os", "pass out on em0 proto tcp from any os OpenBSD", "no condition `os`"),
    rule("probability", "pass out on em0 probability 10%", "no condition `probability`"),
    rule("received-on", "pass out on em0 received-on em1", "no condition `received-on`"),
    rule("fragment", "pass out on em0 fragment", "no condition `fragment`"),
    rule("prio", "pass out on em0 prio 3", "no condition `prio`"),
    rule("once", "pass out on em0 once", "no condition `once`"),
    rule("max-pkt-rate", "pass out on em0 max-pkt-rate 100/10", "no condition `max-pkt-rate`"),
    rule(
        "proto icmp icmp-type code",
        "pass out on em0 proto icmp icmp-type echoreq code 0",
        "type of ICMP",
    ),
    rule(
        "proto icmp6 icmp6-type",
        "pass out on em0 inet6 proto icmp6 icmp6-type echoreq",
        "type of ICMP",
    ),
    rule(
        "proto ipv6-icmp icmp6-type",
        "pass out on em0 inet6 proto ipv6-icmp icmp6-type echoreq",
        "type of",
    ),
    rule("dnpipe", "pass out on em0 dnpipe 1", "pipes of dummynet"),
    rule("dnqueue", "pass out on em0 dnqueue 1", "pipes of dummynet"),
    rule("route-to", "pass out on em0 route-to (em1 192.0.2.1)", "routes of rules"),
    rule("reply-to", "pass out on em0 reply-to (em1 192.0.2.1)", "routes of rules"),
    rule("dup-to", "pass out on em0 dup-to (em1 192.0.2.1)", "routes of rules"),
    rule("fastroute", "pass out on em0 fastroute", "routes of rules"),
    rule("divert-to", "pass out on em0 divert-to 127.0.0.1 port 80", "routes of rules"),
    rule("divert-packet", "pass out on em0 divert-packet port 700", "routes of rules"),
    rule("divert-reply", "pass out on em0 divert-reply", "routes of rules"),
    rule("from self", "pass out on em0 from self", "any address matches"),
    Approximated(
        "from 10.0.0.0/8 queue",
        config("nat on em0 from 10/8 -> 192.0.2.1", "pass out on em0 from 10.0.0.0/8 queue a"),
        "after a translation",
    ),
    Approximated("set prio", openbsd().replace("set queue a", "set (queue a, prio 5)"), "set prio"),
    Approximated(
        "set delay", openbsd().replace("set queue a", "set (queue a, delay 5)"), "set delay"
    ),
    Approximated("set tos", openbsd().replace("set queue a", "set (queue a, tos 8)"), "code point"),
    Approximated("queue on bandwidth", openbsd(root=""), "without max the interface may exceed it"),
    Approximated(
        "queue max burst", openbsd(root="max 9M burst 10M for 5ms"), "the rate in the long run"
    ),
    Approximated(
        "queue flows qlimit", openbsd("bandwidth 3M flows 9 qlimit 80"), "`qlimit` has no effect"
    ),
    Approximated("queue b default", openbsd("bandwidth 3M default"), "OpenBSD takes the last one"),
    Approximated("anchor", config(WEB, 'anchor "x"'), "the rules of anchors"),
    Approximated("nat-anchor", config(WEB, 'nat-anchor "x"'), "the rules of anchors"),
    Approximated("rdr-anchor", config(WEB, 'rdr-anchor "x"'), "the rules of anchors"),
    Approximated("binat-anchor", config(WEB, 'binat-anchor "x"'), "the rules of anchors"),
    Approximated("include", config(WEB, 'include "/etc/pf.more"'), "other files"),
    Approximated("load anchor", config(WEB, 'load anchor x from "/etc/x"'), "other files"),
    Approximated(
        "scrub set-tos", config("scrub out on em0 set-tos lowdelay"), "about queues or code points"
    ),
)

STATEMENTS: tuple[Statement, ...] = (*OF_QUEUES, *RULES, *OPENBSD_QUEUES)

APPROXIMATED: tuple[Approximated, ...] = PF_NOTES
