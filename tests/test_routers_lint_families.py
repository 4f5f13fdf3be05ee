"""`perhop lint` on configurations of Junos and of Linux."""

import pytest
from pydantic import BaseModel

from perhop.routers.lint import lint
from perhop.routers.reading import Source
from perhop.scenario.model.classes import Policy

JUNOS = """\
set interfaces ge-0/0/0 unit 0 family inet filter input LIMIT
set class-of-service interfaces ge-0/0/0 scheduler-map MAP
set class-of-service interfaces ge-0/0/0 unit 0 classifiers dscp MARKS
set class-of-service classifiers dscp MARKS forwarding-class expedited-forwarding loss-priority low code-points ef
set class-of-service scheduler-maps MAP forwarding-class expedited-forwarding scheduler VOICE
set class-of-service scheduler-maps MAP forwarding-class best-effort scheduler REST
set class-of-service schedulers VOICE priority strict-high
set class-of-service schedulers REST transmit-rate percent 90
set firewall policer SLOW if-exceeding bandwidth-limit 5m
set firewall policer SLOW if-exceeding burst-size-limit 6k
set firewall policer SLOW then discard
set firewall family inet filter LIMIT term all then policer SLOW
set firewall family inet filter LIMIT term all then accept
"""  # noqa: E501

LINUX = """\
tc qdisc add dev eth0 root handle 1: htb default 30
tc class add dev eth0 parent 1: classid 1:1 htb rate 6mbit
tc class add dev eth0 parent 1:1 classid 1:10 htb rate 5mbit
tc class add dev eth0 parent 1:1 classid 1:30 htb rate 3mbit ceil 6mbit
tc filter add dev eth0 protocol ip parent 1: prio 1 u32 match ip dport 80 0xffff flowid 1:10
tc qdisc add dev eth1 handle ffff: ingress
tc filter add dev eth1 protocol ip parent ffff: prio 1 u32 match ip src 0.0.0.0/0 \\
  police rate 10mbit burst 10k drop flowid :1
"""


def named(file: str, text: str) -> list[tuple[str, int]]:
    return [(found.rule.name, found.place.line) for found in lint([Source(file, text)])]


def test_faults_of_junos() -> None:
    assert named("srx.conf", JUNOS) == [("unlimited-priority", 7), ("tcp-burst", 10)]
    rated = "high\nset class-of-service schedulers VOICE transmit-rate percent 10"
    limited = JUNOS.replace("6k", "130k").replace("strict-high", rated)
    assert named("srx.conf", limited) == []


def test_faults_of_linux() -> None:
    assert named("qos.sh", LINUX) == [
        ("children-above-parent", 3),
        ("long-queue", 3),
        ("tcp-burst", 7),
    ]
    repaired = LINUX.replace("rate 3mbit", "rate 1mbit").replace("burst 10k", "burst 250k")
    assert named("qos.sh", repaired) == [("long-queue", 3)]


@pytest.mark.parametrize(
    ("kind", "rate", "done"),
    [
        ("htb", "rate", "pass the shaper, and are sent before all others"),
        ("hfsc", "sc rate", "are dropped"),
    ],
)
def test_packets_of_linux_without_a_class(kind: str, rate: str, done: str) -> None:
    text = f"""\
tc qdisc add dev eth0 root handle 1: {kind}
tc class add dev eth0 parent 1: classid 1:1 {kind} {rate} 10mbit
tc class add dev eth0 parent 1:1 classid 1:10 {kind} {rate} 2mbit
tc class add dev eth0 parent 1:1 classid 1:20 {kind} {rate} 8mbit
tc filter add dev eth0 parent 1: prio 1 u32 match ip tos 0x28 0xfc flowid 1:10
tc filter add dev eth0 parent 1: prio 2 u32 match ip dport 80 0xffff flowid 1:20
"""
    findings = {each.rule.name: each for each in lint([Source("qos.sh", text)])}
    found = findings["unclassified-packets"]
    assert found.place.line == 1
    assert found.message.endswith(f"that no filter leads to a class {done}")
    whole = f"{text}tc filter add dev eth0 parent 1: prio 3 matchall flowid 1:20\n"
    for repaired in (whole, text.replace(f"1: {kind}\n", f"1: {kind} default 20\n")):
        assert "unclassified-packets" not in dict(named("qos.sh", repaired))


def test_a_policy_at_many_interfaces_is_compared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = 0

    def equal(one: Policy, other: object) -> bool:
        nonlocal compared
        compared += 1
        return BaseModel.__eq__(one, other)

    monkeypatch.setattr(Policy, "__eq__", equal)
    text = (
        "set qos policy shaper A bandwidth 10mbit\n"
        "set qos policy shaper A class 10 match voice ip dscp EF\n"
        "set qos policy shaper A class 10 set-dscp AF11\n"
        "set qos policy shaper A default bandwidth 60%\n"
    )
    lint([Source("r", text + "".join(f"set qos interface eth{n} egress A\n" for n in range(40)))])
    assert compared <= 40


def test_packets_of_vyos_without_a_class() -> None:
    text = """\
set qos policy shaper WAN bandwidth '20mbit'
set qos policy shaper WAN class 5 bandwidth '6mbit'
set qos policy shaper WAN class 5 match telnet ip destination port '23'
set qos interface eth2 egress 'WAN'
"""
    [found] = [
        each for each in lint([Source("vyos", text)]) if each.rule.name == "unclassified-packets"
    ]
    assert "that no match leads to a class pass the shaper" in found.message
    assert found.fix == "give the policy a `default`"
    whole = f"{text}set qos policy shaper WAN default bandwidth '14mbit'\n"
    assert "unclassified-packets" not in dict(named("vyos", whole))


def test_terms_and_classes_that_discard_are_no_faults() -> None:
    junos = """\
set interfaces ge-0/0/0 unit 0 family inet filter input EDGE
set firewall family inet filter EDGE term block from source-address 10.66.0.0/16
set firewall family inet filter EDGE term block then discard
set firewall family inet filter EDGE term rest then accept
"""
    assert named("edge.conf", junos) == []
    ios = """\
class-map match-any P2P
 match dscp cs1
policy-map OUT
 class P2P
  drop
 class class-default
  bandwidth percent 50
interface Serial0/0
 bandwidth 2048
 service-policy output OUT
"""
    assert named("edge.cfg", ios) == []


def test_drop_profiles_of_a_low_loss_priority_are_no_fault() -> None:
    profiles = """\
set class-of-service interfaces ge-0/0/0 scheduler-map MAP
set class-of-service interfaces ge-0/0/0 unit 0 classifiers dscp MARKS
set class-of-service classifiers dscp MARKS forwarding-class assured-forwarding loss-priority low code-points af11
set class-of-service classifiers dscp MARKS forwarding-class assured-forwarding loss-priority high code-points af12
set class-of-service scheduler-maps MAP forwarding-class assured-forwarding scheduler DATA
set class-of-service scheduler-maps MAP forwarding-class best-effort scheduler REST
set class-of-service schedulers DATA transmit-rate percent 50
set class-of-service schedulers DATA drop-profile-map loss-priority high protocol any drop-profile EARLY
set class-of-service schedulers REST transmit-rate percent 50
set class-of-service drop-profiles EARLY interpolate fill-level [ 30 60 ] drop-probability [ 0 100 ]
"""  # noqa: E501
    assert named("core.conf", profiles) == []


def test_default_thresholds_of_a_platform_are_no_fault() -> None:
    defaults = """\
version 17.3
class-map match-any DATA
 match dscp af31 af32
policy-map OUT
 class DATA
  bandwidth percent 50
  random-detect dscp-based
 class class-default
  bandwidth percent 50
interface GigabitEthernet0/0/0
 service-policy output OUT
"""
    assert named("xe.cfg", defaults) == []
    stated = defaults.replace("dscp-based\n", "dscp-based\n  random-detect dscp af11 100 200\n")
    assert named("xe.cfg", stated) == [("wred-code-point", 8)]


def test_policers_without_a_queue_are_not_judged_by_that_of_perhop() -> None:
    policed = """\
set interfaces ge-0/0/1 unit 0 family inet policer output P1
set firewall policer P1 if-exceeding bandwidth-limit 10m
set firewall policer P1 if-exceeding burst-size-limit 625k
set firewall policer P1 then discard
"""
    assert named("edge.conf", policed) == []


@pytest.mark.parametrize(
    ("file", "text", "line"),
    [
        ("srx.conf", JUNOS.replace("map MAP\n", "map MAPS\n"), 2),
        ("srx.conf", JUNOS.replace("scheduler REST", "scheduler REMAINS"), 6),
        ("srx.conf", JUNOS.replace("dscp MARKS\n", "dscp MARK\n"), 3),
        ("srx.conf", JUNOS.replace("then policer SLOW", "then policer SLOWER"), 12),
        ("pf.conf", "altq on em0 cbq bandwidth 10Mb queue { a, b }\nqueue a cbq(default)\n", 1),
        (
            "pf.conf",
            "altq on em0 priq bandwidth 10Mb queue a\nqueue a priq(default)\npass out queue c\n",
            3,
        ),
        ("config.boot", "set qos interface eth0 egress WAN\nset qos policy shaper LAN\n", 1),
    ],
)
def test_names_that_are_not_defined(file: str, text: str, line: int) -> None:
    """Junos refuses the commit if others of the kind are defined, which is an error."""
    found = named(file, text)
    assert ("undefined-name", line) in found or ("refused-line", line) in found


def test_classes_of_which_no_filter_knows() -> None:
    text = LINUX + "tc class add dev eth0 parent 1:1 classid 1:40 htb rate 100kbit\n"
    assert ("unused-class", 9) in named("qos.sh", text)
    # Something that perhop does not model may lead packets to it.
    marked = (
        text + "iptables -t mangle -A POSTROUTING -o eth0 -p tcp -j CLASSIFY --set-class 1:40\n"
    )
    assert "unused-class" not in dict(named("qos.sh", marked))
    pf = """\
altq on em0 priq bandwidth 10Mb queue { a, b, c }
queue a priority 3
queue b priority 2
queue c priority 1 priq(default)
pass out proto tcp to port 22 queue a
"""
    assert ("unused-class", 3) in named("pf.conf", pf)


def test_rules_of_pf_that_later_ones_replace() -> None:
    pf = """\
altq on em0 priq bandwidth 50Mb queue { dns, voip, web, bulk }
queue dns priority 7
queue voip priority 6
queue web priority 5
queue bulk priority 1 priq(default)
pass out on em0 proto udp to any port 53 queue dns
pass out on em0 proto udp to any queue voip
pass in on em0 from em1 set prio 3
"""
    found = named("pf.conf", pf)
    assert ("unused-class", 4) in found
    assert {line for name, line in found if name in ("shadowed-class", "unused-class")} == {2, 4}
    # A rule that perhop does not read may name the queue, and rules may be in another file.
    named_too = pf.replace("set prio 3", "user web queue web")
    assert "unused-class" not in dict(named("pf.conf", named_too))
    assert "unused-class" not in dict(named("pf.conf", pf.partition("pass")[0]))


def test_a_filter_of_linux_for_a_class_that_does_not_exist() -> None:
    wrong = LINUX.replace("flowid 1:10", "flowid 1:40")
    assert ("undefined-name", 5) in named("qos.sh", wrong)
    # Its rate is not in the script.
    unread = wrong + "tc class add dev eth0 parent 1:1 classid 1:40 htb rate $1\n"
    assert "undefined-name" not in dict(named("qos.sh", unread))
    assert "undefined-name" not in dict(named("qos.sh", LINUX))


def test_a_class_of_linux_whose_packets_an_earlier_filter_takes() -> None:
    text = LINUX.replace(
        "tc qdisc add dev eth1",
        "tc class add dev eth0 parent 1:1 classid 1:40 htb rate 1mbit\n"
        "tc filter add dev eth0 protocol ip parent 1: prio 2 u32 match ip dport 80 0xffff "
        "match ip tos 0xb8 0xfc flowid 1:40\n"
        "tc qdisc add dev eth1",
        1,
    )
    assert {"unused-class", "shadowed-class"} & dict(named("qos.sh", text)).keys()


def test_drop_profiles_and_rewrite_rules_do_not_select_packets() -> None:
    # They are approximated, which says nothing about the classes of packets.
    text = (
        JUNOS
        + """\
set class-of-service schedulers REST drop-profile-map loss-priority any protocol any drop-profile EARLY
set class-of-service drop-profiles EARLY interpolate fill-level [ 30 60 90 ] drop-probability [ 0 50 100 ]
set firewall family inet filter LIMIT term icmp from protocol icmp
set firewall family inet filter LIMIT term icmp then policer SMALL
set firewall family inet filter LIMIT term icmp then accept
set firewall policer SMALL if-exceeding bandwidth-limit 1m
set firewall policer SMALL if-exceeding burst-size-limit 1k
set firewall policer SMALL then discard
"""  # noqa: E501
    )
    assert ("shadowed-class", 16) in named("srx.conf", text)
    # Policers of ICMP and UDP are not for TCP, even if the packets are not known exactly.
    first = "set firewall family inet filter LIMIT term icmp from tcp-flags ack\n"
    moved = text.replace("term all then policer SLOW", "term all from protocol udp") + first
    assert not {"tcp-burst", "burst-below-packet"} & dict(named("srx.conf", moved)).keys()


def test_a_policer_without_a_meaning_is_defined() -> None:
    text = JUNOS.replace("bandwidth-limit 5m", "bandwidth-limit many")
    assert "undefined-name" not in dict(named("srx.conf", text))


def test_a_ceiling_of_htb_below_its_rate() -> None:
    text = """\
tc qdisc add dev eth0 root handle 1: htb default 1
tc class add dev eth0 parent 1: classid 1:1 htb rate 5mbit ceil {ceil}
tc qdisc add dev eth0 parent 1:1 pfifo limit 50
"""
    rule = "ceiling-below-guarantee"
    assert named("wan.sh", text.format(ceil="2mbit")) == [(rule, 2)]
    assert named("wan.sh", text.format(ceil="5mbit")) == []


def test_curves_of_altq() -> None:
    text = """\
interface em0 bandwidth 10M hfsc
class hfsc em0 voice root [rt 2M 5 900K] [ls 0 0 64K] [ul 0 0 {limit}]
class hfsc em0 rest root default pshare 90
filter em0 voice 0 0 0 0 6
"""
    assert named("altq.conf", text.format(limit="1M")) == []
    # The queue is 0.7 s at the guarantee in real time, and 9 s at the share.
    assert named("altq.conf", text.format(limit="50K")) == [("ceiling-below-guarantee", 2)]
    shared = text.format(limit="50K").replace("[rt 2M 5 900K]", "[rt 0 5 64K]")
    assert ("long-queue", 2) in named("altq.conf", shared)


def test_forwarding_classes_that_nothing_classifies() -> None:
    bulk = (
        "set class-of-service scheduler-maps MAP "
        "forwarding-class assured-forwarding scheduler BULK\n"
        "set class-of-service schedulers BULK transmit-rate percent 5\n"
    )
    usual = [("unlimited-priority", 7), ("tcp-burst", 10)]
    assert named("srx.conf", JUNOS + bulk) == [*usual, ("unused-class", 14)]
    for classified in (
        "set class-of-service classifiers dscp MARKS forwarding-class assured-forwarding "
        "loss-priority low code-points af11\n",
        "set class-of-service interfaces ge-0/0/2 unit 0 forwarding-class assured-forwarding\n",
        "set class-of-service host-outbound-traffic forwarding-class assured-forwarding\n",
    ):
        assert ("unused-class", 14) not in named("srx.conf", JUNOS + bulk + classified)
