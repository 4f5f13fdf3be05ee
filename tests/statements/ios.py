"""Statements of IOS and IOS-XE, with what Cisco's documents and routers say of them."""

from __future__ import annotations

from statements.statement import Approximated, Statement

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

BOTH = {"voice": {"dscp": "ef", "mbps": 9}, "rest": {"mbps": 9}}
THREE = {**BOTH, "data": {"dscp": "af31", "mbps": 9}}
VOICE = {"voice": {"dscp": "ef", "mbps": 9}}
ONE = {"f": {"dscp": "ef"}}


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
        f"version 15.2\n{before}class-map {mode} A\n{inside}policy-map p\n class A\n  bandwidth 1000\n"
        "interface GigabitEthernet0/1\n speed 10\n service-policy output p\n"
    )


def listed(*entries: str, head: str = "ip access-list extended L", before: str = "") -> str:
    """Return a policy with a class `A` for packets that an access list permits."""
    inside = "".join(f" {each}\n" for each in entries)
    return matching("access-group name L", before=f"{before}{head}\n{inside}")


def packet(**flow: object) -> dict[str, dict[str, object]]:
    """Return one flow."""
    return {"f": flow}


def chosen(
    words: str, text: str, other: str, source: str, flow: dict[str, dict[str, object]] = ONE
) -> Statement:
    """Return a statement because of which a packet is in class `A`, and is not with the other."""
    return Statement(words, text, other, source, flows=flow, expected={"f": "A"})


def left(
    words: str, text: str, other: str, source: str, flow: dict[str, dict[str, object]] = ONE
) -> Statement:
    """Return a statement because of which a packet is in no class, and is with the other."""
    return Statement(words, text, other, source, flows=flow, expected={"f": "class-default"})


def shares(
    words: str,
    text: str,
    other: str,
    source: str,
    flows: dict[str, dict[str, object]],
    *mbps: float,
) -> Statement:
    """Return a statement that divides 10 Mb/s among flows that send 9 Mb/s each."""
    return Statement(
        words, text, other, source, flows=flows, expected=dict(zip(flows, mbps, strict=True))
    )


def valued(words: str, text: str, other: str, source: str, **values: object) -> Statement:
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
        "Catalyst 4500 Series Command Reference, set precedence: `match protocol ipv6` for IPv6 only",
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

STATEMENTS: tuple[Statement, ...] = (*_MATCHES, *_LISTS)

APPROXIMATED: tuple[Approximated, ...] = ()

OTHER_WORDS: frozenset[str] = frozenset()
"""Words in the reader that are no keywords of statements: parts of notes and names of values."""
