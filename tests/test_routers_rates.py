"""Rates that are given in place of those in a configuration."""

import re

import pytest

from perhop.routers.network import rates
from perhop.routers.reading import Configuration, Source, Treatment
from perhop.routers.reading.detect import read, read_at

TEXTS = {
    "ios": """\
version 16.9
policy-map INNER
 class VOICE
  priority percent 30
 class class-default
  random-detect dscp ef 10 ms 20 ms
policy-map WAN
 class VOICE
  bandwidth remaining percent 10
  police cir percent 5 bc 10 ms
 class DATA
  bandwidth remaining percent 40
  shape average percent 50
  service-policy INNER
 class class-default
  bandwidth remaining percent 10
class-map VOICE
 match dscp ef
class-map DATA
 match dscp af21
interface Serial0/0
 bandwidth {kilo}
 service-policy output WAN
 service-policy input IN
policy-map IN
 class VOICE
  police cir percent 5
""",
    "junos": """\
class-of-service {{
    forwarding-classes {{ class voice queue-num 5; class rest queue-num 0; }}
    schedulers {{
        voice {{ transmit-rate percent 10; shaping-rate percent 20; buffer-size temporal 20k; }}
        rest {{ transmit-rate {{ remainder; }} buffer-size percent 30; }}
        fixed {{ transmit-rate 1m; }}
    }}
    scheduler-maps {{
        wan {{
            forwarding-class voice scheduler voice;
            forwarding-class rest scheduler rest;
            forwarding-class network-control scheduler fixed;
        }}
    }}
    interfaces {{ ge-0/0/0 {{ unit 0 {{ scheduler-map wan; }} }} }}
}}
interfaces {{ ge-0/0/0 {{ speed {mega}m; per-unit-scheduler; unit 0 {{ family inet; }} }} }}
""",
    "altq": """\
interface em0 bandwidth {mega}M cbq
class cbq em0 root_class NULL pbandwidth 100
class cbq em0 voice root_class pbandwidth 10
class cbq em0 fast root_class exactbandwidth 1M
class cbq em0 rest root_class borrow pbandwidth 60 default
filter em0 voice 0 0 0 5060 17
filter em0 fast 0 0 0 80 6
""",
    "pf": """\
altq on em0 hfsc bandwidth {mega}Mb queue {{ std, http }}
queue std bandwidth 50% hfsc(default upperlimit 80%)
queue http bandwidth 1Mb hfsc(realtime 10%) {{ a, b }}
queue a bandwidth 20%
queue b bandwidth 70%
pass out on em0 proto tcp to port 80 queue a
pass out on em0 proto tcp to port 81 queue b
""",
    "openbsd": """\
queue main on em0 bandwidth {mega}M max {mega}M
queue std parent main bandwidth 20M default
queue ssh parent main bandwidth 50M min 1M
match out on em0 proto tcp to port 22 set queue ssh
""",
    "linux": """\
ethtool -s eth0 speed {mega}
tc qdisc add dev eth0 root handle 1: htb default 20
tc class add dev eth0 parent 1: classid 1:1 htb rate 100%
tc class add dev eth0 parent 1:1 classid 1:10 htb rate 10% ceil 50%
tc class add dev eth0 parent 1:1 classid 1:20 htb rate 90% ceil 100%
tc filter add dev eth0 parent 1: protocol ip u32 match ip tos 0xb8 0xfc flowid 1:10
""",
    "vyos": """\
set interfaces ethernet eth0 speed {mega}
set qos interface eth0 egress WAN
set qos interface eth0 ingress IN
set qos policy shaper WAN bandwidth auto
set qos policy shaper WAN class 10 bandwidth 10%
set qos policy shaper WAN class 10 ceiling 30%
set qos policy shaper WAN class 10 match a ip dscp EF
set qos policy shaper WAN default bandwidth 60%
set qos policy limiter IN default bandwidth 5%
""",
}
"""Configurations with shares of the rate of an interface, which a line tells."""


def configuration(name: str, mega: int) -> Source:
    return Source(name, TEXTS[name].format(mega=mega, kilo=1000 * mega))


def said(found: Configuration) -> list[object]:
    return [(each.interface, each.rate, each.policy, each.shape) for each in found.attachments]


@pytest.mark.parametrize("name", TEXTS)
def test_shares_are_of_the_rate_given(name: str) -> None:
    interface = read([configuration(name, 100)]).attachments[0].interface
    one = read([configuration(name, 100)], rates={interface: 10_000_000})
    other = read([configuration(name, 10)])
    assert said(one) == said(other) != said(read([configuration(name, 100)]))
    replaced = [line for line in one.lines if "another rate is given in" in line.note]
    if name != "vyos":  # whose line is not about quality of service alone
        [line] = replaced
        assert "100" in line.text
        assert line.treatment is not Treatment.MODELLED
    assert said(read_at(10_000_000, [configuration(name, 100)])) == said(other)


@pytest.mark.parametrize(
    ("name", "attaching"),
    [
        ("ios", r"interface (.|\n)*input IN\n"),
        ("junos", r" +interfaces \{.*\}\n|interfaces .*\n"),
        ("vyos", r"set qos interface .*\n"),
    ],
)
def test_shares_of_a_policy_at_no_interface_are_of_the_rate_given(
    name: str, attaching: str
) -> None:
    whole = configuration(name, 10)
    alone = Source(name, re.sub(attaching, "", whole.text))
    known = {each.name: each.policy for each in read([whole]).attachments}
    found = read_at(10_000_000, [alone])
    assert {each.interface for each in found.attachments} == {""}
    assert [each.rate for each in found.attachments] == [10_000_000] * len(found.attachments)
    assert {each.name: each.policy for each in found.attachments}.items() >= known.items()


@pytest.mark.parametrize(("burst", "told"), [("200kb", True), ("4kb", False)])
def test_a_burst_that_the_link_hides_is_told(burst: str, told: bool) -> None:
    text = f"tc qdisc add dev eth0 root tbf rate 2mbit burst {burst} latency 500ms\n"
    (attachment,) = read([Source("wan.sh", text)], "tc").attachments
    remarks: list[str] = []
    rates(attachment, "wan.sh", None, remarks)
    assert ["cannot exceed: --rate gives" in each for each in remarks] == [told]
    remarks.clear()
    rates(attachment, "wan.sh", 10**8, remarks)
    assert remarks == []
