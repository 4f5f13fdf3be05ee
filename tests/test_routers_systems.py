"""Systems that perhop does not read, and headers that archives of configurations write.

Statements are of the vendors' configuration guides; headers are those of RANCID
(`etc/rancid.types.base`, the first line that its programs print) and Oxidized
(`METADATA_DEFAULT` of its `lib/oxidized/model/model.rb`).
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import Outcome
from perhop.errors import UsageError
from perhop.routers.reading import Source
from perhop.routers.reading.configuration import Treatment
from perhop.routers.reading.detect import detect, read

IOS = "hostname r\npolicy-map P\n class class-default\n  police 8000\n"
JUNOS = "system {\n    host-name r1;\n}\nclass-of-service {\n    schedulers {\n    }\n}\n"
VYOS = "set interfaces ethernet eth0 address 192.0.2.1/24\nset qos interface eth0 egress A\n"
NONE = "banner\nlogging\n"

COMWARE = """\
#
 sysname edge
#
traffic classifier voice operator and
 if-match dscp ef
#
traffic behavior voice
 queue ef bandwidth 1000 cbs 25000
#
qos policy wan
 classifier voice behavior voice
#
interface GigabitEthernet1/0/1
 ip address 10.0.0.1 255.255.255.0
 qos apply policy wan outbound
"""
FIREQOS = """\
DEVICE=eth0
interface $DEVICE world-in input rate 10000kbit
  class voip commit 100kbit
    match udp ports 10000:10100
  class default
    match all
"""
F5 = """\
ltm policy /Common/x {
    rules {
        voice {
            priority 1
        }
    }
}
net rate-shaping class /Common/gold {
    rate 1000000
}
"""
SHOWN = """\
qdisc htb 1: root refcnt 2 r2q 10 default 0x20 direct_packets_stat 0 direct_qlen 1000
class htb 1:10 parent 1:1 leaf 10: prio 0 rate 4Mbit ceil 10Mbit burst 1600b cburst 1600b
filter parent 1: protocol ip pref 1 u32 chain 0
filter parent 1: protocol ip pref 1 u32 chain 0 fh 800: ht divisor 1
"""
ACI = """\
tenant common
  policy-map type data-plane voice
    set cos 4
leaf 101
  interface ethernet 1/1
    service-policy type data-plane input voice
"""
NXOS = """\
class-map type qos match-any VOICE
  match dscp 46
policy-map type qos MARK
  class VOICE
    set qos-group 5
interface Ethernet1/1
  service-policy type qos input MARK
"""


@pytest.mark.parametrize(
    ("text", "line", "name"),
    [
        (IOS + " end-policy-map\n", 5, "Cisco IOS XR"),
        (IOS + "interface HundredGigE0/0/0/1\n", 5, "Cisco IOS XR"),
        (IOS + "feature ospf\n", 5, "Cisco NX-OS"),
        (IOS + "policy-map type queuing Q\n", 5, "Cisco NX-OS"),
        (NXOS, 1, "Cisco NX-OS"),
        (IOS + " service-policy type qos input P\n", 5, "Cisco NX-OS"),
        ("!Command: show running-config\n!Time: Tue Jan  1 2019\n" + IOS, 1, "Cisco NX-OS"),
        (ACI, 1, "Cisco ACI"),
        (IOS + "ASA Version 9.12(2)\n", 5, "Cisco ASA"),
        (IOS + " nameif outside\n", 5, "Cisco ASA"),
        (IOS + "! device: leaf1 (DCS-7280SR, EOS-4.24.1F)\n", 5, "Arista EOS"),
    ],
)
def test_systems_that_resemble_ios_are_refused(text: str, line: int, name: str) -> None:
    with pytest.raises(UsageError, match=rf"^r\.cfg:{line}: .* is a statement of {name}") as error:
        detect([Source("r.cfg", text)])
    assert "--family: ios" in str(error.value)
    assert read([Source("r.cfg", text)], "ios").lines


@pytest.mark.parametrize(
    ("text", "line", "name"),
    [
        (COMWARE, 2, "Comware or VRP"),
        (
            "traffic policy p\n classifier c behavior b\nqos car outbound any cir 100\n",
            3,
            "Comware",
        ),
        ("interface GE0/0/1\n traffic-policy p inbound\n", 2, "Comware or VRP"),
        (FIREQOS, 2, "FireQOS"),
        ("interface eth0 adsl-out output rate 800kbit adsl remote pppoe-llcsnap\n", 1, "FireQOS"),
        (F5, 1, "F5 BIG-IP"),
        ("virtual web {\n   destination 10.0.0.1:http\n   ip protocol tcp\n}\n", 1, "F5 BIG-IP"),
        (SHOWN, 3, "`tc filter show`"),
        (SHOWN.splitlines()[2] + "\n", 1, "`tc filter show`"),
        ("filter protocol all pref 49152 matchall chain 0\n", 1, "`tc filter show`"),
        ("/queue simple\nadd max-limit=1M/1M name=q target=10.0.0.0/24\n", 1, "MikroTik"),
        ("config queue 'wan'\n\toption interface 'eth1'\n", 1, "OpenWrt"),
    ],
)
def test_systems_that_resemble_others_are_refused(
    text: str, line: int, name: str, perhop: Callable[..., Outcome], tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=rf"^r\.cfg:{line}: .* is a statement of {name}"):
        detect([Source("r.cfg", text)])
    path = tmp_path / "r.cfg"
    path.write_text(text)
    for command in ("import", "run", "lint"):
        outcome = perhop(command, str(path))
        assert outcome.code == 2
        assert f"r.cfg:{line}: " in outcome.err
        assert f"is a statement of {name}" in outcome.err


def test_filters_as_text_are_lines_that_are_not_modelled() -> None:
    for text in (SHOWN, "\n".join(SHOWN.splitlines()[2:])):
        lines = read([Source("r", text)], "linux").lines
        filters = [line for line in lines if line.text.startswith("filter")]
        assert len(filters) == 2
        assert {line.treatment for line in filters} == {Treatment.NOT_MODELLED}
        assert "tc -j filter show" in filters[0].note


@pytest.mark.parametrize(
    ("header", "body", "family"),
    [
        ("!RANCID-CONTENT-TYPE: cisco\n!\n", NONE, "ios"),
        ("!RANCID-CONTENT-TYPE: cisco-ncs\n!\n", NONE, "ios"),
        ("#RANCID-CONTENT-TYPE: juniper\n#\n", NONE, "junos"),
        ("#RANCID-CONTENT-TYPE: juniper-srx\n#\n", NONE, "junos"),
        ("!RANCID-CONTENT-TYPE: edgerouter\n!\n", NONE, "vyos"),
        ("! Fetched by Oxidized with model IOS from host r [192.0.2.1]\n", NONE, "ios"),
        ("# Fetched by Oxidized with model JunOS from host r [192.0.2.1]\n", NONE, "junos"),
        ("# Fetched by Oxidized with model Vyos from host r [192.0.2.1]\n", NONE, "vyos"),
        # Statements alone would not tell, or tell another family.
        ("#RANCID-CONTENT-TYPE: juniper\n#\n", JUNOS + VYOS, "junos"),
        ("#RANCID-CONTENT-TYPE: juniper\n#\n", VYOS, "junos"),
        # Types of a user's own: statements decide.
        ("!RANCID-CONTENT-TYPE: our-edge\n!\n", IOS, "ios"),
    ],
)
def test_headers_of_archives_tell_the_family(header: str, body: str, family: str) -> None:
    text = Source("r", header + body)
    assert detect([text]) == family
    read([text])


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ("!RANCID-CONTENT-TYPE: cisco-xr", "Cisco IOS XR"),
        ("!RANCID-CONTENT-TYPE: ios-xr7", "Cisco IOS XR"),
        ("!RANCID-CONTENT-TYPE: cisco-nx", "Cisco NX-OS"),
        ("!RANCID-CONTENT-TYPE: arista", "Arista EOS"),
        ("#RANCID-CONTENT-TYPE: bigip13", "F5 BIG-IP"),
        ("#RANCID-CONTENT-TYPE: vrp", "Comware or VRP"),
        ("!RANCID-CONTENT-TYPE: fortigate", "FortiOS"),
        ("! Fetched by Oxidized with model NXOS from host r [192.0.2.1]", "Cisco NX-OS"),
        ("# Fetched by Oxidized with model Comware from host r [192.0.2.1]", "Comware or VRP"),
    ],
)
def test_headers_of_archives_tell_systems_that_are_not_read(header: str, name: str) -> None:
    for body in (IOS, JUNOS, NONE):
        with pytest.raises(UsageError, match=rf"^r:1: .* is the header of a .* of {name}"):
            detect([Source("r", f"{header}\n!\n{body}")])


def test_the_old_type_cisco_does_not_hide_a_system_that_resembles_ios() -> None:
    text = f"!RANCID-CONTENT-TYPE: cisco\n!\n{IOS}ASA Version 9.12(2)\n"
    with pytest.raises(UsageError, match=r"^r:7: .* is a statement of Cisco ASA"):
        detect([Source("r", text)])


def test_filters_of_junos_on_one_line_are_no_rules_of_altq() -> None:
    text = (
        "policy-options { }\nfirewall { family inet {\n filter a { term b { then accept; } }\n} }\n"
    )
    assert detect([Source("r.conf", text)]) == "junos"
