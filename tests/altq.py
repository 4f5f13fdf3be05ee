"""What tests of ALTQ and pf share: texts, and which class takes a packet."""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from typing import Any

from perhop.routers.reading import Attachment, Configuration, Treatment, source
from perhop.routers.reading.altq import read
from perhop.scenario.model.classes import Policy

ALTQ_CONF = """\
interface vx0 bandwidth 10M cbq
#
class cbq vx0 root_class NULL priority 0 pbandwidth 100
class cbq vx0 def_class root_class borrow pbandwidth 95 default
class cbq vx0 tcp_class def_class borrow pbandwidth  40
        filter vx0 tcp_class 0 0 0 0 6
class cbq vx0 csl_class tcp_class pbandwidth  10   red
        filter vx0 csl_class 0 0 133.138.1.0 netmask 0xffffff00 80 6
        filter vx0 csl_class 133.138.1.0 netmask 0xffffff00 0 0 80 6
                filter6 vx0 csl_class ::0 0 d000:a:0:123::/64 80 6
interface fxp0
conditioner fxp0 dropper <drop>
        filter fxp0 dropper 0 0 192.168.0.83 0 0
conditioner fxp0 ef_cdnr <tbmeter 6M 64K <mark 0xb8><drop>>
        filter fxp0 ef_cdnr 0 0 192.168.0.117 0 0
conditioner fxp0 af1x_cdnr <trtcm 3M 32K 10M 64K <mark 0x28><mark 0x30><mark 0x38>>
        filter fxp0 af1x_cdnr 0 0 192.168.0.178 0 0
interface fxp1 bandwidth 90M hfsc
class hfsc fxp1 def_class root pshare 20 default
class hfsc fxp1 shared_class root bandwidth 72M
class hfsc fxp1 tcp_shared shared_class bandwidth 40M ulimit 60M
class hfsc fxp1 tcp_class tcp_shared bandwidth 15M ulimit 50M
        filter fxp1 tcp_class 0 0 0 0 6
class hfsc fxp1 http_class tcp_shared bandwidth 25M ulimit 40M
        filter fxp1 http_class 0 80 0 0 6
        filter fxp1 http_class 0 0 0 80 6
class hfsc fxp1 udp_class shared_class bandwidth 15M ulimit 20M
        filter fxp1 udp_class 0 0 0 0 17
interface fxp2 bandwidth 100M priq
class priq fxp2 high_class NULL priority 2
        filter fxp2 high_class 0 0 0 0 1
class priq fxp2 med_class NULL priority 1
        filter fxp2 med_class 0 0 0 0 6
class priq fxp2 low_class NULL priority 0 default
"""
"""The examples of altq.conf(5)."""


PF_CONF = """\
ext_if = "fxp0"
int_if="dc0"
web = "{ 80, 443 }"
table <vips> { 10.0.0.0/24, 192.168.1.5 }
altq on $ext_if cbq bandwidth 2Mb queue { std, ssh, http, mail }
queue std bandwidth 10% priority 0 cbq(default)
queue http bandwidth 60% priority 2 cbq(borrow red) { employees, developers }
queue   developers bandwidth 75% cbq(borrow)
queue   employees bandwidth 15%
queue mail bandwidth 10% priority 0 cbq(borrow ecn)
queue ssh  bandwidth 20% cbq(borrow) { ssh_interactive, ssh_bulk }
queue ssh_interactive bandwidth 50% priority 7 cbq(borrow)
queue ssh_bulk bandwidth 50% priority 0 cbq(borrow)

block return out on $ext_if inet all queue std
pass out on $ext_if inet proto tcp from 10.0.0.0/24 to any port $web keep state queue developers
pass out on $ext_if inet proto tcp from <vips> to any port 8080 keep state queue employees
pass out on $ext_if proto tcp from any to any port 22 keep state queue(ssh_bulk, ssh_interactive)
pass in on $ext_if inet proto tcp from any to any port 25 keep state queue mail
anchor "ftp-proxy/*"
altq on dc0 priq bandwidth 550Kb queue { q_pri, q_def }
queue q_pri priority 7
queue q_def priority 1 priq(default)
pass out on dc0 proto tcp from dc0 to any flags S/SA keep state queue (q_def, q_pri)
pass in on dc0 proto tcp from any to dc0 flags S/SA keep state queue (q_def, q_pri)
altq on em1 hfsc bandwidth 45Mb queue { dflt, dev }
queue dflt bandwidth 20% hfsc(default realtime 10% linkshare (22Mb 100 20Mb))
queue dev bandwidth 50% qlimit 100 hfsc(upperlimit 40Mb ecn)
pass out on em1 from 10/8 queue dev
"""
"""Queues of each discipline, and rules."""


OPENBSD = """\
queue std on em0 bandwidth 100M max 90M
queue ssh parent std bandwidth 10M burst 90M for 100ms
queue mail parent std bandwidth 10M, min 5M, max 25M
queue http parent std bandwidth 80M default flows 1024 quantum 300
match out on em0 proto tcp to port { ssh telnet } set queue ssh
match out on em0 proto tcp to port smtp set (queue mail, prio 5)
pass
"""
"""Queues of OpenBSD."""


CURVES = """\
interface em0 bandwidth 10M hfsc
class hfsc em0 voice root [rt 2M 10 500K] [ls 0 0 640K] [ul 0 0 4M]
class hfsc em0 data root pshare 60
class hfsc em0 web data [ sc 4M 20 2M ] ulimit 5M
class hfsc em0 bulk data grate 1M
class hfsc em0 rest root default bandwidth 2M grate 1M
filter em0 voice 0 0 0 0 17
filter em0 web 0 80 0 0 6
filter em0 bulk 0 81 0 0 6
"""
"""Service curves of altq.conf."""


def config(text: str) -> Configuration:
    found = read([source(text, "q.conf")])
    numbers = [line.place.line for line in found.lines]
    assert numbers == sorted(set(numbers)), "a line has two treatments, or is out of order"
    for line in found.lines:
        assert line.text in text.splitlines()[line.place.line - 1]
        assert bool(line.note) == (line.treatment is not Treatment.MODELLED)
    for each in found.attachments:
        Policy.model_validate(each.policy)
        assert {each.place(("classes", name)).file for name in each.policy["classes"]} == {"q.conf"}
    return found


def policy(text: str, interface: str) -> Attachment:
    return next(each for each in config(text).attachments if each.interface == interface)


def notes(text: str) -> dict[int, str]:
    return {line.place.line: line.note for line in config(text).lines if line.note}


def meets(match: Any, packet: dict[str, Any]) -> bool:
    """Whether a packet meets a scenario's match, by other means than perhop's."""
    if isinstance(match, list):
        for each in match:
            if meets(each.get("except", each) if isinstance(each, dict) else each, packet):
                return not (isinstance(each, dict) and "except" in each)
        return False
    if match == "any":
        return True
    for key, wanted in match.items():
        values = wanted if isinstance(wanted, list) else [wanted]
        if key in ("source", "destination"):
            if not any(packet[key] in ip_network(value) for value in values):
                return False
        elif key == "ip":
            if packet["source"].version not in values:
                return False
        elif key.endswith("_port"):
            ranges = [[int(end) for end in str(value).split("-")] for value in values]
            if not any(ends[0] <= packet[key] <= ends[-1] for ends in ranges):
                return False
        elif packet[key] not in values:
            return False
    return True


def class_of(classes: dict[str, Any], packet: dict[str, Any]) -> str:
    name = next(name for name, each in classes.items() if meets(each["match"], packet))
    inside = classes[name].get("classes")
    return class_of(inside, packet) if inside else name


PACKETS = [
    {
        "destination": ip_address(address),
        "source": ip_address("192.0.2.1"),
        "destination_port": to,
        "source_port": of,
        "protocol": protocol,
        "dscp": dscp,
    }
    for address in ("10.0.0.1", "10.0.0.9", "10.9.0.1")
    for to in (80, 81)
    for of in (80, 99)
    for protocol in ("tcp", "udp")
    for dscp in ("af11", "be")
]
