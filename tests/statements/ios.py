"""Statements of IOS and IOS-XE, with what Cisco's documents and routers say of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from statements.statement import Approximated, Statement

if TYPE_CHECKING:
    from perhop.routers.reading import Direction

    Flows = dict[str, dict[str, Any]]

GUIDE = "Cisco 10000 Series Router Quality of Service Configuration Guide"
SHAPE = "Cisco MWR 2941 Mobile Wireless Edge Router Command Reference, shape"
RATIO = "Cisco, Distribution of Remaining Bandwidth Using Ratio"
LEVELS = "Cisco, 3-Level User-Defined Queuing Policy Support (IOS XE)"
MEASURED = "I. Pepelnjak, First HQF impressions (2009), measured on a router of the 2800 series"
CLASSES = "Cisco cBR Series, Modular Quality of Service Command-Line Interface QoS"
MATCHES = "Cisco IOS Quality of Service Solutions Command Reference 12.3, match access-group"
NAMES = "Catalyst 3750 Metro Switch Command Reference, match (class-map configuration)"
MARKS = "Cisco IOS 12.1(5)T, Class-Based Marking"
PERMIT = "Cisco IOS command references (TAC), permit"
NUTSHELL = "J. Boney, Cisco IOS in a Nutshell, 2nd edition"
PRINTED = "output of routers in the tests of Cisco's pyATS parsers (show policy-map interface)"
CAR = "Cisco, Configuring Committed Access Rate"
HELP = "the help of a router's command line (blog.csdn.net 92754486)"
UNCHECKED = "not compared with a router"

BOTH: Final[Flows] = {"voice": {"dscp": "ef", "mbps": 9}, "rest": {"mbps": 9}}
THREE: Final[Flows] = {**BOTH, "data": {"dscp": "af31", "mbps": 9}}
VOICE: Final[Flows] = {"voice": {"dscp": "ef", "mbps": 9}}
ONE: Final[Flows] = {"f": {"dscp": "ef"}}


def policy(*statements: str, rest: str = "", version: str = "15.2", at: str = "") -> str:
    """Return a policy whose class `voice` (EF) has statements, at an interface of 10 Mb/s."""
    inside = "".join(f"  {each}\n" for each in statements)
    return (
        f"version {version}\nclass-map match-all voice\n match dscp ef\n"
        "class-map match-all data\n match dscp af31\n"
        f"policy-map p\n class voice\n{inside}{rest}"
        f"interface GigabitEthernet0/1\n speed 10\n{at} service-policy output p\n"
    )


def matching(*conditions: str, mode: str = "match-all", before: str = "") -> str:
    """Return a policy with a class `A` for packets that meet conditions."""
    inside = "".join(f" match {each}\n" for each in conditions)
    return (
        f"version 15.2\n{before}class-map {mode} A\n{inside}policy-map p\n class A\n"
        "  bandwidth 1000\ninterface GigabitEthernet0/1\n speed 10\n service-policy output p\n"
    )


def listed(*entries: str, head: str = "ip access-list extended L", before: str = "") -> str:
    """Return a policy with a class `A` for packets that an access list permits."""
    inside = "".join(f" {each}\n" for each in entries)
    return matching("access-group name L", before=f"{before}{head}\n{inside}")


def packet(**flow: Any) -> Flows:
    """Return one flow."""
    return {"f": flow}


def chosen(words: str, text: str, other: str, source: str, flow: Flows = ONE) -> Statement:
    """Return a statement because of which a packet is in class `A`, and is not with the other."""
    return Statement(words, text, other, source, flows=flow, expected={"f": "A"})


def left(words: str, text: str, other: str, source: str, flow: Flows = ONE) -> Statement:
    """Return a statement because of which a packet is in no class, and is with the other."""
    return Statement(words, text, other, source, flows=flow, expected={"f": "class-default"})


def shares(
    words: str,
    text: str,
    other: str,
    source: str,
    flows: Flows,
    *mbps: float,
) -> Statement:
    """Return a statement that divides 10 Mb/s among flows that send 9 Mb/s each."""
    return Statement(
        words, text, other, source, flows=flows, expected=dict(zip(flows, mbps, strict=True))
    )


def valued(words: str, text: str, other: str, source: str, **values: Any) -> Statement:
    """Return a statement that gives class `voice` values, with double underscores for dots."""
    paths = {f"classes.voice.{key.replace('__', '.')}": each for key, each in values.items()}
    return Statement(words, text, other, source, values=paths)


_UDP = "permit udp any any"
_TO_80 = packet(dscp="ef", port=80)
_FROM = packet(dscp="ef", source="10.1.2.3")

_MATCHES = (
    left(
        "class-map match-all",
        matching("dscp ef", "protocol tcp"),
        matching("dscp ef", "protocol tcp", mode="match-any"),
        f"{CLASSES}: a packet meets all criteria of match-all",
    ),
    chosen(
        "class-map match-any",
        matching("dscp ef", "protocol tcp", mode="match-any"),
        matching("dscp ef", "protocol tcp"),
        f"{CLASSES}: a packet meets one of the criteria of match-any",
    ),
    chosen(
        "match class-map",
        matching(
            "dscp af11",
            "class-map both",
            mode="match-any",
            before="class-map match-all both\n match dscp ef\n match protocol udp\n",
        ),
        matching(
            "dscp af11",
            "class-map both",
            mode="match-any",
            before="class-map match-all both\n match dscp ef\n match protocol tcp\n",
        ),
        f"{CLASSES}, Nested Traffic Classes: A or B or (C and D)",
    ),
    chosen(
        "match dscp af21 ef",
        matching("dscp af21 ef"),
        matching("dscp af21 af31"),
        f"{NAMES}: any of a list of code points, by number or name",
    ),
    left(
        "match ip dscp",
        matching("ip dscp ef"),
        matching("dscp ef"),
        f"{GUIDE}, 2-10: `ip` matches IPv4 packets",
        packet(dscp="ef", ip=6),
    ),
    chosen(
        "match precedence",
        matching("precedence 5"),
        matching("precedence 4"),
        f"{NAMES}: EF, 101110, has precedence 5",
    ),
    chosen(
        "match ip precedence critical",
        matching("ip precedence critical"),
        matching("ip precedence flash"),
        f"{NAMES}: critical is 5",
    ),
    *(
        chosen(
            f"match precedence {name}",
            matching(f"precedence {name}"),
            matching(f"precedence {(number + 1) % 8}"),
            "RFC 791, 3.1: names of precedences",
            packet(dscp=8 * number),
        )
        for number, name in (
            (0, "routine"),
            (1, "priority"),
            (2, "immediate"),
            (3, "flash"),
            (4, "flash-override"),
            (6, "internet"),
            (7, "network"),
        )
    ),
    left(
        "match not dscp",
        matching("not dscp ef"),
        matching("not dscp af11"),
        f"{GUIDE}, 2-10: all values but this one",
    ),
    chosen("match any", matching("any"), matching("dscp af11"), f"{PRINTED}: Match: any"),
    chosen(
        "match protocol udp",
        matching("protocol udp"),
        matching("protocol tcp"),
        f"{MATCHES}: classes by protocols",
    ),
    *(
        left(
            f"match not protocol {name}",
            matching("not protocol udp", f"not protocol {name}"),
            matching("not protocol icmp", "not protocol tcp"),
            f"{MATCHES}: classes by protocols",
        )
        for name in ("icmp", "tcp")
    ),
    chosen(
        "match protocol ipv6",
        matching("protocol ipv6"),
        matching("protocol ip"),
        "Catalyst 4500 Command Reference, set precedence: `match protocol ipv6` for IPv6 only",
        packet(ip=6),
    ),
    left(
        "match protocol ip",
        matching("protocol ip"),
        matching("protocol ipv6"),
        "ASR 901 Command Reference, set precedence: `match protocol ip` for IPv4 only",
        packet(ip=6),
    ),
    Statement(
        "match cos 5",
        matching("cos 5"),
        matching("cos 4"),
        f"{GUIDE}, 2-10: the class of service",
        values={"classes.A.match": {"pcp": 5}},
    ),
    Statement(
        "match mpls experimental topmost 5",
        matching("mpls experimental topmost 5"),
        matching("mpls experimental topmost 4"),
        f"{GUIDE}, 2-10: the EXP bits of the topmost label",
        values={"classes.A.match": {"mpls_tc": 5}},
    ),
    chosen(
        "match access-group name",
        listed(_UDP),
        listed("permit tcp any any"),
        f"{MATCHES}: the packets that a list permits",
    ),
    chosen(
        "match access-group 101",
        matching("access-group 101", before="access-list 101 permit udp any any\n"),
        matching("access-group 101", before="access-list 101 permit tcp any any\n"),
        f"{MATCHES}: a number from 1 to 2699",
    ),
)

_LISTS = (
    chosen(
        "access-list 7 permit",
        matching("access-group 7", before="access-list 7 permit 10.1.0.0 0.0.255.255\n"),
        matching("access-group 7", before="access-list 7 permit 10.2.0.0 0.0.255.255\n"),
        f"{PERMIT}: the bits of a wildcard are ignored",
        _FROM,
    ),
    chosen(
        "ip access-list standard",
        listed("permit host 10.1.2.3", head="ip access-list standard L"),
        listed("permit host 10.1.2.4", head="ip access-list standard L"),
        f"{NUTSHELL}, ip access-list: standard lists have sources",
        _FROM,
    ),
    left(
        "deny",
        listed("deny udp any any eq 80", "permit ip any any"),
        listed("permit ip any any", "deny udp any any eq 80"),
        f"{NUTSHELL}, ip access-list: the first that matches decides",
        _TO_80,
    ),
    left(
        "ip access-list extended",
        listed("permit tcp any any"),
        listed("permit ip any any"),
        f"{NUTSHELL}, ip access-list: an implicit deny at the end",
    ),
    chosen("permit udp", listed(_UDP), listed("permit tcp any any"), f"{PERMIT}: the protocol"),
    left("permit tcp", listed("permit tcp any any"), listed(_UDP), f"{PERMIT}: the protocol"),
    left("permit icmp", listed("permit icmp any any"), listed(_UDP), f"{PERMIT}: the protocol"),
    chosen(
        "permit ip any host",
        listed("permit ip any host 10.9.9.9"),
        listed("permit ip any host 10.9.9.8"),
        f"{PERMIT}: the destination follows the source",
        packet(destination="10.9.9.9"),
    ),
    *(
        chosen(
            f"permit udp any any {ports.split()[0]}",
            listed(f"{_UDP} {ports}"),
            listed(f"{_UDP} {others}"),
            f"{PERMIT}, operator: {what}",
            _TO_80,
        )
        for ports, others, what in (
            ("eq 80", "eq 81", "eq is equal"),
            ("eq 53 80", "eq 53 81", "several ports (Cisco IOS in a Nutshell, ip access-list)"),
            ("neq 81", "neq 80", "neq is not equal"),
            ("gt 79", "gt 80", "gt is greater than"),
            ("lt 81", "lt 80", "lt is less than"),
            ("range 80 90", "range 81 90", "range has both ends"),
            ("eq www", "eq ftp", "names of ports"),
        )
    ),
    chosen(
        "permit udp any eq 5000 any",
        listed("permit udp any eq 5000 any"),
        listed("permit udp any eq 5001 any"),
        f"{PERMIT}: the operator after the source has its ports",
        packet(source_port=5000),
    ),
    chosen(
        "permit ip any any precedence",
        listed("permit ip any any precedence critical"),
        listed("permit ip any any precedence flash"),
        f"{PERMIT}, precedence: by number or name",
    ),
    chosen(
        "permit ip any any dscp",
        listed("permit ip any any dscp ef"),
        listed("permit ip any any dscp af11"),
        f"{NAMES}: names of code points",
    ),
    *(
        chosen(
            f"permit ip any any tos {name}",
            listed(f"permit ip any any tos {name}"),
            listed("permit ip any any tos 6" if name != "normal" else "permit ip any any tos 8"),
            f"{PERMIT}, tos; RFC 1349, 4: {bits:04b}",
            packet(dscp=bits >> 1),
        )
        for name, bits in (
            ("normal", 0),
            ("max-reliability", 2),
            ("max-throughput", 4),
            ("min-delay", 8),
        )
    ),
    chosen(
        "permit udp any any log",
        listed(f"{_UDP} eq 80 log"),
        listed(f"{_UDP} eq 81 log"),
        f"{PERMIT}, log: a message for packets that match",
        _TO_80,
    ),
    left(
        "remark",
        listed("remark permit udp any any", "permit tcp any any"),
        listed("remark", _UDP),
        f"{NUTSHELL}, ip access-list",
    ),
    left(
        "10 deny",
        listed("20 permit ip any any", "10 deny udp any any"),
        listed("10 permit ip any any", "20 deny udp any any"),
        f"{PRINTED}: entries in the order of their numbers",
    ),
    chosen(
        "permit udp any any sequence",
        listed(
            "deny ipv6 any any sequence 20",
            "permit udp any any sequence 10",
            head="ipv6 access-list L",
        ),
        listed(
            "deny ipv6 any any sequence 5",
            "permit udp any any sequence 10",
            head="ipv6 access-list L",
        ),
        f"{PRINTED}: an IPv6 list has its numbers after the entries",
        packet(ip=6),
    ),
    left(
        "ipv6 access-list",
        listed("permit udp any any", head="ipv6 access-list L"),
        listed(_UDP),
        f"{PRINTED}: IPv6 lists have IPv6 addresses",
    ),
)

_XE = "16.9"
_DATA = " class data\n  {}\n"

_SHARES = (
    shares(
        "bandwidth percent",
        policy("bandwidth percent 20", rest=_DATA.format("bandwidth percent 30")),
        policy("bandwidth percent 30", rest=_DATA.format("bandwidth percent 20")),
        f"{MEASURED}: of 2 Mb/s, 418, 613 and 997 kb/s for 20%, 30% and the default class",
        THREE,
        2.0,
        5.0,
        3.0,
    ),
    shares(
        "bandwidth 6000",
        policy("bandwidth 6000", version=_XE),
        policy("bandwidth 4000", version=_XE),
        f"{LEVELS}: kb/s are guaranteed, and the rest is shared equally",
        BOTH,
        8.0,
        2.0,
    ),
    shares(
        "bandwidth percent 60",
        policy("bandwidth percent 60", rest=_DATA.format("bandwidth percent 10"), version=_XE),
        policy("bandwidth percent 60", rest=_DATA.format("bandwidth percent 10")),
        f"{LEVELS}: what exceeds the guarantees is shared equally, also with the default class",
        THREE,
        7.0,
        1.0,
        2.0,
    ),
    shares(
        "bandwidth remaining percent",
        policy(
            "priority",
            "police 2000000 10000",
            rest=_DATA.format("bandwidth remaining percent 75"),
        ),
        policy(
            "priority",
            "police 2000000 10000",
            rest=_DATA.format("bandwidth remaining percent 25"),
        ),
        "Cisco, Comparing the bandwidth and priority Commands: a percentage of the bandwidth that "
        "is not allocated to other classes",
        THREE,
        2.0,
        2.0,
        6.0,
    ),
    shares(
        "bandwidth remaining ratio",
        policy("bandwidth remaining ratio 3", rest=_DATA.format("bandwidth remaining ratio 6")),
        policy("bandwidth remaining ratio 6", rest=_DATA.format("bandwidth remaining ratio 3")),
        f"{GUIDE}, 5-19: relative weights of queues; the default is 1",
        THREE,
        3.0,
        1.0,
        6.0,
    ),
    shares(
        "priority",
        policy("priority"),
        policy("bandwidth 1000"),
        "Cisco, Comparing the bandwidth and priority Commands: sent before all other packets",
        BOTH,
        9.0,
        1.0,
    ),
    shares(
        "priority level",
        policy("priority level 2", rest=_DATA.format("priority level 1")),
        policy("priority level 1", rest=_DATA.format("priority level 2")),
        f"{GUIDE}, 8-5: level 1 before level 2",
        THREE,
        1.0,
        0.0,
        9.0,
    ),
    shares(
        "service-policy inner",
        "policy-map inner\n class data\n  bandwidth percent 50\n"
        + policy(
            "bandwidth 2000",
            rest=" class class-default\n  shape average 6000000\n  service-policy inner\n",
        ),
        "policy-map inner\n class data\n  bandwidth percent 50\n"
        + policy(
            "bandwidth 2000",
            rest=" class class-default\n  shape average 4000000\n  service-policy inner\n",
        ),
        f"{GUIDE}, 5-17: the actions of the child policy for the packets of the class",
        THREE,
        4.0,
        3.0,
        3.0,
    ),
)

_LIMITS = (
    shares(
        "shape average",
        policy("shape average 2000000"),
        policy("shape average 3000000"),
        f"{SHAPE}: average rate shaping to the rate in bit/s",
        VOICE,
        2.0,
    ),
    shares(
        "shape average percent",
        policy("shape average percent 20"),
        policy("shape average percent 30"),
        f"{NUTSHELL}, shape: a percentage of the bandwidth",
        VOICE,
        2.0,
    ),
    shares(
        "shape peak",
        policy("shape peak 2000000 10000 5000"),
        policy("shape peak 2000000 10000 10000"),
        f"{SHAPE}: peak rate = CIR (1 + Be / Bc)",
        VOICE,
        3.0,
    ),
    valued(
        "shape average 8000000",
        policy("shape average 8000000", version=_XE),
        policy("shape average 8000000 64000", version=_XE),
        f"{PRINTED}: shape (average) cir 8000000, bc 32000",
        shape={"rate": "8 Mbps", "burst": "4 kB"},
    ),
    valued(
        "shape average percent 50 400",
        policy("shape average percent 50 400 600"),
        policy("shape average percent 50 400"),
        f"{NUTSHELL}, shape: bc and be in ms",
        shape={"rate": "50%", "burst": "625 kB"},
    ),
    shares(
        "police 2000000",
        policy("police 2000000 10000"),
        policy("police 3000000 10000"),
        f"{GUIDE}, 6-6: conforming packets are sent, and those that exceed are dropped",
        VOICE,
        2.0,
    ),
    shares(
        "police cir bc",
        policy("police cir 2000000 bc 10000"),
        policy("police cir 3000000 bc 10000"),
        f"{GUIDE}, 6-6: cir in bit/s, bc in bytes",
        VOICE,
        2.0,
    ),
    shares(
        "police rate bps burst bytes",
        policy("police rate 2000000 bps burst 10000 bytes"),
        policy("police rate 3000000 bps burst 10000 bytes"),
        "Software Configuration of ATM ISE Line Cards, police rate: bit/s without `cps`",
        VOICE,
        2.0,
    ),
    shares(
        "police cir percent bc ms",
        policy("police cir percent 20 bc 100 ms"),
        policy("police cir percent 30 bc 100 ms"),
        f"{GUIDE}, 15-13: a percentage of the bandwidth, with bursts in ms",
        VOICE,
        2.0,
    ),
    valued(
        "police cir percent 20 bc 300 be",
        policy("police cir percent 20 bc 300 ms be 400 ms", "shape average 5000000"),
        policy("police cir percent 20 bc 100 ms", "shape average 5000000"),
        f"{GUIDE}, 15-13: bursts are of the committed rate",
        police__burst="75 kB",
    ),
    valued(
        "police cir 200000",
        policy("police cir 200000"),
        policy("police cir 400000"),
        f"{PRINTED}: cir 200000 bps, bc 6250 bytes",
        police={"rate": "200 kbps", "burst": "6250 B", "exceed": "drop"},
    ),
    valued(
        "police cir 8000",
        policy("police cir 8000"),
        policy("police cir 80000"),
        f"{PRINTED}: cir 8000 bps, bc 1500 bytes",
        police__burst="1500 B",
    ),
    shares(
        "conform-action transmit",
        policy("police 2000000 10000 conform-action transmit exceed-action drop"),
        policy("police 2000000 10000 conform-action transmit exceed-action transmit"),
        f"{GUIDE}, 6-6: actions",
        VOICE,
        2.0,
    ),
    shares(
        "conform-action drop",
        policy("police 2000000 10000 conform-action drop exceed-action transmit"),
        policy("police 2000000 10000 conform-action transmit exceed-action transmit"),
        f"{GUIDE}, 6-6: actions",
        VOICE,
        7.0,
    ),
    shares(
        "cir pir",
        policy(
            "police cir 2000000 pir 3000000 conform-action transmit exceed-action transmit "
            "violate-action drop"
        ),
        policy(
            "police cir 2000000 pir 4000000 conform-action transmit exceed-action transmit "
            "violate-action drop"
        ),
        "cnblogs.com 12824050 and RFC 2698: what is above the peak rate violates",
        VOICE,
        3.0,
    ),
    shares(
        "police cir bc be",
        policy(
            "police cir 2000000 bc 10000 be 20000",
            " conform-action transmit",
            " exceed-action drop",
            " violate-action transmit",
        ),
        policy("police cir 2000000 bc 10000 be 20000"),
        f"{GUIDE}, 6-6, 6-36: the excess burst is the second bucket; RFC 2697",
        VOICE,
        9.0,
    ),
    shares(
        "exceed-action transmit violate-action",
        policy(
            "police 2000000 10000 20000 conform-action transmit exceed-action transmit "
            "violate-action drop"
        ),
        policy(
            "police 2000000 10000 20000 conform-action drop exceed-action drop "
            "violate-action transmit"
        ),
        f"{GUIDE}, 6-36: packets above both bursts violate",
        VOICE,
        2.0,
    ),
    *(
        valued(
            f"exceed-action {action.split()[0]}",
            policy(f"police 2000000 10000 conform-action transmit exceed-action {action}"),
            policy("police 2000000 10000 conform-action transmit exceed-action drop"),
            f"{GUIDE}, 6-36: actions that mark and send",
            police__exceed={"remark": mark},
        )
        for action, mark in (("set-dscp-transmit af11", "af11"),)
    ),
    valued(
        "set dscp",
        policy("set dscp af11"),
        policy("set dscp af12"),
        f"{MARKS}: the DSCP of all packets of the class",
        mark="af11",
    ),
    valued(
        "set cos",
        policy("set cos 5"),
        policy("set cos 4"),
        f"{MARKS}: the class of service at layer 2",
        mark={"pcp": 5},
    ),
    *(
        valued(
            f"queue-limit {limit}",
            policy("bandwidth 3000", f"queue-limit {limit}"),
            policy("bandwidth 3000"),
            f"{PRINTED}: queue limit 100 packets, 96000 bytes, 10 ms, 393 us",
            queue__limit=stated,
        )
        for limit, stated in (
            ("100 packets", "100 packets"),
            ("96000 bytes", "96000 B"),
            ("10 ms", "10 ms"),
            ("393 us", "393 us"),
        )
    ),
    valued(
        "random-detect precedence",
        policy("bandwidth 3000", "random-detect", "random-detect precedence 5 20 40 15"),
        policy("bandwidth 3000", "random-detect"),
        f"{GUIDE}, 11-15; {PRINTED}: the mean queue depth between minimum and maximum, 1/15",
        queue__wred__profiles=[
            {
                "dscp": ["cs5", 41, 42, 43, "voice-admit", 45, "ef", 47],
                "min": "20 packets",
                "max": "40 packets",
                "probability": "6.6666666%",
            }
        ],
    ),
    valued(
        "random-detect dscp ef",
        policy("bandwidth 3000", "random-detect dscp-based", "random-detect dscp ef 20 40"),
        policy("bandwidth 3000", "random-detect dscp-based"),
        f"{NUTSHELL}, random-detect dscp: thresholds in packets; the denominator is 10",
        queue__wred__profiles=[
            {"dscp": ["ef"], "min": "20 packets", "max": "40 packets", "probability": "10%"}
        ],
    ),
    valued(
        "random-detect dscp-based",
        policy("bandwidth 3000", "random-detect dscp-based"),
        policy("bandwidth 3000", "random-detect prec-based"),
        f"{GUIDE}, 11-15: by DSCP; the default is precedence",
        queue__wred__by="dscp",
    ),
    *(
        valued(
            f"random-detect {words}",
            policy("bandwidth 3000", f"random-detect {words}"),
            policy("bandwidth 3000", "random-detect dscp-based"),
            f"{GUIDE}, 11-15: by IP precedence",
            queue__wred__by="precedence",
        )
        for words in ("prec-based", "precedence-based")
    ),
    *(
        valued(
            f"random-detect {words} 4",
            policy("bandwidth 3000", "random-detect", f"random-detect {words} 4"),
            policy("bandwidth 3000", "random-detect"),
            f"{PRINTED}: Exp-weight-constant: 4 (1/16)",
            queue__wred__weight="6.25%",
        )
        for words in ("exponential-weighting-constant", "exponential-weight")
    ),
    valued(
        "random-detect dscp values ef minimum-thresh maximum-thresh mark-prob",
        policy(
            "bandwidth 3000",
            "random-detect dscp-based",
            "random-detect dscp values ef minimum-thresh 20 maximum-thresh 40 mark-prob 20",
        ),
        policy("bandwidth 3000", "random-detect dscp-based"),
        f"{GUIDE}, 11-15: the form of PRE3 and PRE4",
        queue__wred__profiles=[
            {"dscp": ["ef"], "min": "20 packets", "max": "40 packets", "probability": "5%"}
        ],
    ),
)


def older(*statements: str) -> str:
    """Return an interface of 10 Mb/s with statements from before policy maps."""
    inside = "".join(f" {each}\n" for each in statements)
    return (
        f"version 12.2\naccess-list 101 permit udp any any eq 80\ninterface Ethernet0/1\n{inside}"
    )


_OLDER = (
    shares(
        "rate-limit output",
        older("rate-limit output 2000000 10000 10000 conform-action transmit exceed-action drop"),
        older("rate-limit output 3000000 10000 10000 conform-action transmit exceed-action drop"),
        f"{CAR}; {NUTSHELL}, rate-limit: bit/s, and bursts in bytes",
        VOICE,
        2.0,
    ),
    Statement(
        "rate-limit input",
        older("rate-limit input 2000000 10000 10000 conform-action transmit exceed-action drop"),
        older("rate-limit input 3000000 10000 10000 conform-action transmit exceed-action drop"),
        f"{CAR}: of packets that arrive",
        values={"classes.rate-limit-1.police.rate": "2 Mbps"},
        direction="in",
    ),
    shares(
        "rate-limit output access-group",
        older(
            "rate-limit output access-group 101 2000000 10000 10000 conform-action transmit "
            "exceed-action drop"
        ),
        older(
            "rate-limit output access-group 101 3000000 10000 10000 conform-action transmit "
            "exceed-action drop"
        ),
        f"{NUTSHELL}, rate-limit: the packets of an access list",
        {"f": {"mbps": 5, "port": 80}, "g": {"mbps": 3, "port": 81}},
        2.0,
        3.0,
    ),
    shares(
        "rate-limit output dscp",
        older(
            "rate-limit output dscp 46 2000000 10000 10000 conform-action transmit "
            "exceed-action drop"
        ),
        older(
            "rate-limit output dscp 10 2000000 10000 10000 conform-action transmit "
            "exceed-action drop"
        ),
        f"{NUTSHELL}, rate-limit: the packets with a DSCP",
        VOICE,
        2.0,
    ),
    shares(
        "traffic-shape rate",
        older("traffic-shape rate 2000000 20000"),
        older("traffic-shape rate 3000000 20000"),
        f"{HELP}: the target rate in bit/s, and the bits of an interval",
        VOICE,
        2.0,
    ),
    shares(
        "traffic-shape group",
        older("traffic-shape group 101 2000000 20000"),
        older("traffic-shape group 101 3000000 20000"),
        f"{HELP}: the packets of an access list",
        {"f": {"mbps": 5, "port": 80}, "g": {"mbps": 3, "port": 81}},
        2.0,
        3.0,
    ),
)

MAPPED = """\
version 12.2
map-class frame-relay M
 frame-relay cir {}
interface Serial0/1
 bandwidth 1544
 frame-relay traffic-shaping
 {}
"""
GROUPED = "object-group network N\n {}\nobject-group service S\n {}\n"
_GROUPS = (
    *(
        chosen(
            words,
            listed("permit ip object-group N any", before=GROUPED.format(member, "tcp")),
            listed("permit ip object-group N any", before=GROUPED.format("host 10.9.9.9", "tcp")),
            "Cisco, Object Groups for ACLs: groups of hosts and networks in place of addresses",
            _FROM,
        )
        for words, member in (
            ("object-group network", "host 10.1.2.3"),
            ("host 10.1.2.3", "host 10.1.2.3"),
            ("10.1.0.0 255.255.0.0", "10.1.0.0 255.255.0.0"),
            ("range", "range 10.1.2.0 10.1.2.9"),
        )
    ),
    chosen(
        "group-object",
        listed(
            "permit ip object-group N any",
            before="object-group network I\n host 10.1.2.3\n"
            + GROUPED.format("group-object I", "tcp"),
        ),
        listed(
            "permit ip object-group N any",
            before="object-group network I\n host 10.1.2.4\n"
            + GROUPED.format("group-object I", "tcp"),
        ),
        "Cisco Security Appliance Command Line Configuration Guide, 13-18: nested groups",
        _FROM,
    ),
    *(
        chosen(
            words,
            listed("permit object-group S any any", before=GROUPED.format("host 10.9.9.9", member)),
            listed("permit object-group S any any", before=GROUPED.format("host 10.9.9.9", other)),
            "Cisco, Object Groups for ACLs: groups of protocols and ports",
            packet(dscp="ef", port=80, source_port=5000),
        )
        for words, member, other in (
            ("udp eq", "udp eq 80", "udp eq 81"),
            ("tcp-udp", "tcp-udp eq 80", "tcp-udp eq 81"),
            ("udp source", "udp source eq 5000", "udp source eq 5001"),
            ("udp range", "udp range 70 90", "udp range 81 90"),
        )
    ),
)

_DIRECTIONS: Final[tuple[tuple[str, Direction], ...]] = (
    ("output", "out"),
    ("out", "out"),
    ("input", "in"),
    ("in", "in"),
)
_PLACES = (
    shares(
        "no police",
        policy("police 2000000 10000", "no police"),
        policy("police 2000000 10000"),
        "Cisco 12000 Series, police rate: the no form removes policing",
        VOICE,
        9.0,
    ),
    *(
        Statement(
            f"service-policy {word}",
            policy("police 2000000 10000").replace(
                "service-policy output", f"service-policy {word}"
            ),
            policy("police 3000000 10000").replace(
                "service-policy output", f"service-policy {word}"
            ),
            "Cisco, Applying QoS Features to Ethernet Subinterfaces: keywords may be shortened; "
            f"{NUTSHELL}, service-policy",
            values={"classes.voice.police.rate": "2 Mbps"},
            direction=direction,
        )
        for word, direction in _DIRECTIONS
    ),
    shares(
        "class class-default",
        policy("bandwidth 1000", rest=" class class-default\n  police 2000000 10000\n"),
        policy("police 2000000 10000"),
        f"{CLASSES}: packets of no other class are in the default class",
        BOTH,
        8.0,
        2.0,
    ),
    *(
        shares(
            f"frame-relay {words}",
            MAPPED.format("2000000", inside),
            MAPPED.format("3000000", inside),
            "Cisco CCNP 3, 8.4: map classes are added to interfaces and circuits",
            VOICE,
            2.0,
        )
        for words, inside in (
            ("class", "frame-relay class M"),
            ("traffic-shaping", "frame-relay class M"),
        )
    ),
    shares(
        "map-class frame-relay",
        MAPPED.format("2000000", "frame-relay class M"),
        MAPPED.format("3000000", "frame-relay class M"),
        "Cisco CCNP 3, 8.4.4: specify a map class",
        VOICE,
        2.0,
    ),
    shares(
        "policy-map type queueing p",
        policy("shape average 2000000").replace("policy-map p", "policy-map type queueing p"),
        policy("shape average 3000000").replace("policy-map p", "policy-map type queueing p"),
        f"{PRINTED}: Policy Map type queueing",
        VOICE,
        2.0,
    ),
    shares(
        "class M",
        MAPPED.format("2000000", "frame-relay interface-dlci 7\n  class M"),
        MAPPED.format("3000000", "frame-relay interface-dlci 7\n  class M"),
        "Cisco CCNP 3, 8.4.9: a circuit with a map class of its own",
        VOICE,
        2.0,
    ),
)

STATEMENTS: tuple[Statement, ...] = (
    *_MATCHES,
    *_LISTS,
    *_GROUPS,
    *_SHARES,
    *_LIMITS,
    *_OLDER,
    *_PLACES,
)


def within_class(*cases: tuple[str, str]) -> tuple[Approximated, ...]:
    """Return statements of a class with their notes."""
    return tuple(Approximated(line, policy("bandwidth 1000", line), how) for line, how in cases)


def within_match(*cases: tuple[str, str]) -> tuple[Approximated, ...]:
    """Return conditions with their notes."""
    return tuple(
        Approximated(f"match {line}", matching(line, "dscp ef", mode="match-any"), how)
        for line, how in cases
    )


def within_list(*cases: tuple[str, str]) -> tuple[Approximated, ...]:
    """Return entries with their notes."""
    return tuple(Approximated(line, listed(line, "permit ip any any"), how) for line, how in cases)


def at_interface(*cases: tuple[str, str]) -> tuple[Approximated, ...]:
    """Return statements of an interface with their notes."""
    return tuple(
        Approximated(line, policy("bandwidth 1000", at=f" {line}\n"), how) for line, how in cases
    )


def at_top(*cases: tuple[str, str]) -> tuple[Approximated, ...]:
    """Return statements outside interfaces with their notes."""
    return tuple(
        Approximated(line.split("\n")[-1].strip(), f"{policy('bandwidth 1000')}{line}\n", how)
        for line, how in cases
    )


APPROXIMATED: tuple[Approximated, ...] = (
    *within_class(
        ("drop", UNCHECKED),
        ("set precedence 2", "last three bits"),
        ("set ip precedence 2", "last three bits"),
        ("set precedence tunnel 2", "no tunnels"),
        ("set dscp cos table T", "tables of marks"),
        ("set dscp exp table T", "tables of marks"),
        ("set mpls experimental imposition 5", UNCHECKED),
        ("set mpls experimental topmost 5", UNCHECKED),
        ("set cos-inner 2", "inner of two VLAN tags"),
        ("set qos-group 2", "no QoS groups"),
        ("set discard-class 2", "no discard classes"),
        ("set atm-clp", "no loss priority"),
        ("set fr-de", "no frame relay"),
        ("set wlan user-priority 2", "no priorities of users"),
        ("fair-queue", "each flow gets an equal share"),
        ("fair-queue queue-limit 20", "limit of a flow's queue"),
        ("random-detect ecn", UNCHECKED),
        ("random-detect discard-class-based", "not modelled"),
        ("random-detect dscp ef percent 10 20", "buffers of switches"),
        ("random-detect dscp ef 10 ms 20 ms", "thresholds in packets"),
        ("random-detect dscp ef 15000 bytes 30000 bytes", "thresholds in packets"),
        ("queue-limit dscp ef percent 20", "by mark"),
        ("queue-limit cos 2 20", "by mark"),
        ("queue-limit precedence 2 20", "by mark"),
        ("queue-limit qos-group 2 20", "by mark"),
        ("queue-limit discard-class 2 20", "by mark"),
        ("queue-limit percent 20", "buffers of switches"),
        ("shape adaptive 64000", "not modelled"),
        ("compress header ip", "header compression"),
        ("netflow-sampler S", "measures only"),
        ("estimate bandwidth", "measures only"),
        ("account drop", "measures only"),
        ("log", "reports only"),
        ("fragment 80", "fragmentation"),
        ("trust dscp", "trust of ports"),
        ("admit cac local", "admission control"),
        ("queue-buffers ratio 20", "buffers of switches"),
        ("police flow 2000000", "`police flow` is not modelled"),
        ("police aggregate P", "`police aggregate` is not modelled"),
        ("police cir-percent 20", "not modelled"),
        ("police rate 100 pps", "rates in pps"),
        ("police rate 100 cps", "rates in cps"),
        ("police aggregate-rate 2000000", UNCHECKED),
        ("police rate 2000000 burst 9000 peak-rate 3000000 peak-burst 9000", UNCHECKED),
        ("police 2000000 conform-burst 9000 excess-burst 9000", UNCHECKED),
        ("police 2000000 conform-color A", "colour-aware"),
        ("police 2000000 exceed-color A", "colour-aware"),
        ("police 2000000 10000 exceed-action set-prec-transmit 2", "last three bits"),
        ("police 2000000 10000 exceed-action set-precedence-transmit 2", "last three bits"),
        ("police 2000000 10000 exceed-action set-qos-transmit 2", "sent as they are"),
    ),
    Approximated(
        "priority 1000", policy("priority 1000"), "that of IOS acts under congestion only"
    ),
    Approximated(
        "shape average 2000000 account",
        policy("shape average 2000000 account user-defined 20"),
        "overhead of layer 2",
    ),
    Approximated(
        "class data insert-before voice",
        policy("bandwidth 1000", rest=" class data insert-before voice\n  bandwidth 1000\n"),
        UNCHECKED,
    ),
    *within_match(
        ("ip rtp 16384 100", "the even ones"),
        ("protocol rtp audio", "NBAR's recognition"),
        ("protocol arp", "no packets of arp"),
        ("protocol cdp", "no packets of cdp"),
        ("protocol clns", "no packets of clns"),
        ("protocol ipx", "no packets of ipx"),
        ("protocol appletalk", "no packets of appletalk"),
        ("protocol decnet", "no packets of decnet"),
        ("cos inner 2", "inner of two VLAN tags"),
        ("input-interface Serial0/0", "where a packet arrived"),
        ("qos-group 2", "no QoS groups"),
        ("discard-class 2", "no discard classes"),
        ("vlan 7", "no VLANs"),
        ("packet length min 20", "length of packets"),
        ("flow pdp", "no flow records"),
    ),
    *within_list(
        ("permit udp any any time-range T", "not only in time range"),
        ("permit tcp any any established", "whatever their flags"),
        *(
            (f"permit tcp any any {flag}", "whatever their flags")
            for flag in (
                "ack",
                "fin",
                "psh",
                "rst",
                "syn",
                "urg",
                "match-all +syn",
                "match-any +syn",
            )
        ),
        ("permit icmp any any echo", "whatever their type"),
        ("permit udp any any fragments", "no fragments"),
        ("permit ip any any tos min-monetary-cost", "part of ECN"),
        ("permit udp any any option any-options", "not modelled"),
        ("permit udp any any ttl eq 5", "not modelled"),
        ("permit tcp any any reflect R", "not modelled"),
        ("permit udp any any timeout 5", "not modelled"),
        ("permit udp any any routing", "not modelled"),
        ("permit udp any any flow-label 5", "not modelled"),
        ("permit udp any4 any6", UNCHECKED),
        ("permit ipv4 any any", UNCHECKED),
        ("permit udp any any log-input", UNCHECKED),
        ("permit rsvp any any", "no packets of protocol rsvp"),
        ("permit vrrp any any", "no packets of protocol vrrp"),
        ("permit l2tp any any", "no packets of protocol l2tp"),
    ),
    *at_interface(
        ("tx-ring-limit 3", "transmit ring"),
        ("max-reserved-bandwidth 90", "reserves nothing"),
        ("bgp-policy source ip-prec-map", "marks of BGP's routes"),
        ("bgp-policy destination ip-qos-map", "marks of BGP's routes"),
        ("compress stac", "compression of packets"),
        ("priority-group 1", "priority lists"),
        ("custom-queue-list 1", "custom queues"),
        ("ip rsvp bandwidth 100", "RSVP"),
        ("ip rtp priority 16384 100 64", "`priority` in a class"),
        ("ip rtp reserve 16384 100 64", "`priority` in a class"),
        ("ip rtp header-compression", "header compression"),
        ("ip rtp compression-connections 9", "header compression"),
        ("ip tcp header-compression", "header compression"),
        ("ip nbar protocol-discovery", "measures only"),
        ("ppp multilink interleave", "interleaving"),
        ("ppp multilink fragment delay 9", "interleaving"),
        ("mls qos trust dscp", "trust of ports"),
        ("mls qos cos 2", "trust of ports"),
        ("mls qos dscp-mutation M", "tables of marks"),
        ("mls rate-limit unicast 100", "queues of switches"),
        ("auto qos voip", "not in this line"),
        ("srr-queue bandwidth share 1 2 3 4", "queues of switches"),
        ("wrr-queue bandwidth 1 2 3", "queues of switches"),
        ("rcv-queue threshold 1 80", "queues of switches"),
        ("queue-set 2", "queues of switches"),
        ("tx-queue 3", "queues of switches"),
        ("priority-queue out", "queues of switches"),
        ("qos pre-classify", "as they are sent"),
        ("trust device cisco-phone", "trust of ports"),
        ("frame-relay fragment 80", "interleaving"),
        ("frame-relay ip rtp priority 16384 100 64", "`priority` in a class"),
        ("switchport priority extend cos 0", "trust of ports"),
        ("priority-flow-control mode on", "pause frames"),
        ("platform qos marking", "settings of the hardware"),
        ("shape average 1000000", "not modelled at interfaces"),
        ("class-vc C", "classes of ATM circuits"),
        ("class-int C", "classes of ATM circuits"),
        ("ip load-sharing per-packet", UNCHECKED),
        ("ip load-sharing per-destination", "by the destination"),
        ("bandwidth 5000", "taken as the rate of the interface"),
        ("bandwidth qos-reference 5000", "taken as the rate of the interface"),
    ),
    *at_top(
        ("mls qos map cos-dscp 0 8", "tables of marks"),
        ("mls qos aggregate-policer P 1000000 10000", "policers of several classes"),
        ("mls mpls qos input uniform-mode", "queues of switches"),
        ("access-list rate-limit 1 5", "rate-limit access lists"),
        ("priority-list 1 protocol ip high", "priority lists"),
        ("queue-list 1 protocol ip 1", "custom queues"),
        ("table-map T", "tables of marks"),
        ("ip cef load-sharing algorithm universal", "hash of load sharing"),
        ("port-channel load-balance src-ip", "hash of bundles"),
        ("policer P", "policers of several classes"),
        ("random-detect-group G", "groups of thresholds"),
        ("control-plane\n service-policy input q", "the router itself"),
        ("route-map M permit 10\n set ip tos max-throughput", "marks of policy routing"),
        ("dial-peer voice 1 voip\n req-qos guaranteed-delay", "RSVP"),
        ("dial-peer voice 2 voip\n acc-qos guaranteed-delay", "RSVP"),
    ),
    *(
        Approximated(
            f"{kind} 1000",
            "version 12.2\npolicy-map p\n class class-default\n  set dscp af11\n"
            f"interface ATM0/0.1\n pvc 8/35\n  {kind} 1000 1000\n  service-policy output p\n",
            how,
        )
        for kind, how in (
            ("vbr-nrt", "sustained rate"),
            ("vbr-rt", "sustained rate"),
            ("cbr", "rate of the link"),
            ("ubr", "rate of the link"),
        )
    ),
    Approximated(
        "frame-relay cir 2000000", MAPPED.format("2000000", "frame-relay class M"), UNCHECKED
    ),
    Approximated(
        "frame-relay bc 8000",
        MAPPED.format("2000000\n frame-relay bc 8000", "frame-relay class M"),
        UNCHECKED,
    ),
    *(
        Approximated(
            member,
            listed(
                "permit udp object-group N any",
                before=f"object-group {kind} N\n {member}\n",
            ),
            UNCHECKED,
        )
        for kind, member in (("network", "network-object host 10.1.2.3"),)
    ),
    *(
        Approximated(
            f"object-group {kind}",
            listed(f"permit udp {word} N any", before=f"object-group {kind} N\n host 10.1.2.3\n"),
            UNCHECKED,
        )
        for word in ("object-group", "addrgroup")
        for kind in ("v4-network", "v6-network", "ip address")
    ),
    Approximated(
        "permit udp addrgroup",
        listed("permit udp addrgroup N any", before="object-group network N\n host 10.1.2.3\n"),
        UNCHECKED,
    ),
    *(
        Approximated(
            member,
            listed("permit object-group S any any", before=f"object-group service S\n {member}\n"),
            UNCHECKED,
        )
        for member in ("service-object udp eq 80", "port-object eq 80")
    ),
    Approximated("hold-queue 40 out", older("hold-queue 40 out"), UNCHECKED),
    Approximated("hold-queue 40 in", older("fair-queue", "hold-queue 40 in"), "have no queue"),
    Approximated(
        "rate-limit output qos-group 5",
        older(
            "rate-limit output qos-group 5 2000000 10000 10000 conform-action transmit "
            "exceed-action drop"
        ),
        "perhop does not know",
    ),
    Approximated(
        "rate-limit output conform-action continue",
        older("rate-limit output 2000000 10000 10000 conform-action continue exceed-action drop"),
        "actions that continue",
    ),
)

_PORTS = """
bgp biff bootpc bootps chargen cmd connectedapps-plain connectedapps-tls daytime discard dnsix
domain drip echo exec finger ftp ftp-data gopher h323 hostname http https ident irc isakmp klogin
kshell ldap login lpd mobile-ip msrpc nameserver netbios-dgm netbios-ns netbios-ss netbios-ssn nntp
non500-isakmp ntp onep-plain onep-tls pim-auto-rp pop2 pop3 rip ripv6 sip sip-tls smtp snmp snmptrap
ssh sunrpc syslog tacacs tacacs-ds talk telnet tftp time uucp who whois www xdmcp
"""
"""Names of ports, one of which has a statement."""

_INTERFACES = """
atm bri br e et eth ethernet f fa fastethernet fe fi fivegig fo fortygig g ge gi gig gigabit hs hssi
hu hundredgig po pos s se serial te tengig tw twe twentyfivegig twogig vl
instance interface interface-dlci multipoint point-to-point pvc service speed vbr
"""
"""Kinds of interfaces and circuits, and what tells their rates."""

_UNITS = "b byte bits gbps gbytes k kbps kbytes m mbps mbytes"
"""Units of numbers."""

_PLATFORM = "console hardware ipsec punt-keepalive qfp resource version"
"""Words that tell the platform."""

_BLOCKS = """
banner continued control-plane default description end end- exit exit- fqdn parameter policy-map
queuing quit role-based statement traffic type vrf
"""
"""Words that begin and end blocks, or that only name something."""

_KEYS = """
child classes conform destination destination_ports exceed excess_burst flows fq-codel interval
limit mark max mpls_tc one other p pcp peak_burst peak_rate port probability profiles quantum
queue refused refused_for_input refused_reserve refused_unshaped
send source_ports strict subinterface target violate
weight wred
"""
"""Keys and values of policies, and names in the code of the reader."""

_MESSAGES = "at by contains expected ios it itself measures only read reports unknown"
"""Parts of messages."""

_NAT = "nat inside outside enable"
"""Words of NAT, which is no line about quality of service: test_routers_translation.py."""

OTHER_WORDS = frozenset(
    f"{_PORTS} {_INTERFACES} {_UNITS} {_PLATFORM} {_BLOCKS} {_KEYS} {_MESSAGES} {_NAT}".split()
)
"""Words in the reader that are no keywords of statements."""
