"""Classes that compare addresses of packets that their interface translates (NAT)."""

import pytest

from perhop.routers.reading import decisive
from perhop.routers.reading.configuration import Source
from perhop.routers.reading.detect import read

HTB = """\
tc qdisc add dev eth0 root handle 1: htb default 20
tc class add dev eth0 parent 1: classid 1:10 htb rate 5mbit
tc class add dev eth0 parent 1: classid 1:20 htb rate 5mbit
"""
FILTER = (
    "tc filter add dev eth0 parent 1: protocol ip u32 match ip src 192.168.1.0/24 flowid 1:10\n"
)
PORT = "tc filter add dev eth0 parent 1: protocol ip u32 match ip dport 53 0xffff flowid 1:10\n"
NAT = "iptables -t nat -A POSTROUTING"
TABLE = "table ip nat {{ chain post {{ type nat hook postrouting priority srcnat; {} }} }}\n"
INGRESS = """\
tc qdisc add dev eth0 ingress
tc filter add dev eth0 parent ffff: protocol ip u32 match ip dst 192.168.1.9 police rate 1mbit \
burst 10k drop
"""
IFB = """\
tc qdisc add dev ifb0 root handle 1: htb default 20
tc class add dev ifb0 parent 1: classid 1:10 htb rate 5mbit
tc class add dev ifb0 parent 1: classid 1:20 htb rate 5mbit
tc filter add dev ifb0 parent 1: protocol ip u32 match ip dst 192.168.1.0/24 flowid 1:10
tc qdisc add dev eth0 ingress
tc filter add dev eth0 parent ffff: protocol ip u32 match u32 0 0 action mirred egress redirect \
dev ifb0
"""
SHOWN = """\
[{"kind": "htb", "handle": "1:", "dev": "eth0", "root": true, "options": {"default": "0x20"}}]
class htb 1:10 root prio 0 rate 5Mbit ceil 5Mbit burst 1600b cburst 1600b
class htb 1:20 root prio 0 rate 5Mbit ceil 5Mbit burst 1600b cburst 1600b
[{"parent": "1:", "protocol": "ip", "pref": 1, "kind": "flower", "chain": 0, "options":
{"handle": 1, "classid": "1:10", "keys": {"eth_type": "ipv4", "src_ip": "192.168.1.0/24"}}}]
{"nftables": [{"chain": {"family": "ip", "table": "nat", "name": "p", "handle": 1, "type": "nat",
"hook": "postrouting", "prio": 100, "policy": "accept"}}, {"rule": {"family": "ip", "table": "nat",
"chain": "p", "handle": 2, "expr": [{"match": {"op": "==", "left": {"meta": {"key": "oifname"}},
"right": "eth0"}}, {"masquerade": null}]}}]}
"""
VYOS = """\
set qos interface eth0 egress WAN
set qos policy shaper WAN bandwidth 10mbit
set qos policy shaper WAN class 10 bandwidth 50%
set qos policy shaper WAN class 10 match A ip source address 192.168.1.0/24
set qos policy shaper WAN default bandwidth 50%
set nat source rule 10 translation address masquerade
set nat source rule 10 outbound-interface """
IOS = """\
ip access-list extended OFFICE
 permit {} any
class-map match-any OFFICE
 match access-group name OFFICE
class-map match-any OUTER
 match class-map OFFICE
policy-map OUT
 class OUTER
  bandwidth percent 60
interface FastEthernet0/0
 ip nat {}
 service-policy output OUT
ip nat inside source list 10 interface FastEthernet0/0 overload
"""


def noted(text: str, family: str = "linux") -> list[str]:
    found = read([Source("f", text)], family)
    assert found.attachments or found.refusals
    return [
        line.text.split("prio")[0]
        for line in decisive(found)
        if "addresses are compared" in line.note
    ]


@pytest.mark.parametrize(
    "rules",
    [
        f"{NAT} -o eth0 -j MASQUERADE\n{HTB}{FILTER}",
        f"{HTB}{FILTER}{NAT} -o eth+ -s 10.0.0.0/8 -j SNAT --to-source 192.0.2.1\n",
        f"{HTB}{FILTER}{NAT} -s 192.168.0.0/16 ! -o docker0 -j MASQUERADE\n",
        f"{HTB}{FILTER}iptables -t nat -N wan\n{NAT} -o eth0 -j wan\n"
        "iptables -t nat -A wan -j MASQUERADE\n",
        f"{HTB}{FILTER}iptables-restore <<X\n*nat\n"
        "-A POSTROUTING -o eth0 -j MASQUERADE\nCOMMIT\nX\n",
        f"{HTB}{FILTER}nft -f - <<X\n{TABLE.format('oifname eth0 snat to 192.0.2.1')}X\n",
        f"{HTB}{FILTER}nft add chain ip nat p '{{ type nat hook postrouting priority 100; }}'\n"
        "nft add rule ip nat p oifname eth0 masquerade\n",
        f"{HTB}{FILTER}nft -f - <<'X'\ndefine WAN = {{ eth0, eth1 }}\n"
        + TABLE.format("oifname $WAN jump wan; } chain wan { meta nfproto ipv4 masquerade")
        + "X\n",
        f"{HTB}{INGRESS}{NAT} -o eth0 -j MASQUERADE\n",
        f"{IFB}{NAT} -o eth0 -j MASQUERADE\n",
        SHOWN,
    ],
)
def test_filters_that_compare_translated_addresses_are_noted(rules: str) -> None:
    assert len(noted(rules)) == 1


@pytest.mark.parametrize(
    "rules",
    [
        f"{NAT} -o eth1 -j MASQUERADE\n{HTB}{FILTER}",
        f"{NAT} -o eth0 -j MASQUERADE\n{HTB}{PORT}",
        f"ip6tables -t nat -A POSTROUTING -o eth0 -j MASQUERADE\n{HTB}{FILTER}",
        f"{NAT} ! -o docker0 -s 172.17.0.0/16 -j MASQUERADE\n{HTB}{FILTER}",
        f"{NAT} -o eth0 -j MASQUERADE\niptables -t nat -F\n{HTB}{FILTER}",
        f"{NAT} -o eth0 -j MASQUERADE\niptables -t nat -D POSTROUTING -o eth0 -j MASQUERADE\n"
        f"{HTB}{FILTER}",
        f"iptables -t nat -A PREROUTING -i eth0 -j DNAT --to 10.0.0.1\n{HTB}{FILTER}",
        f"iptables -t nat -A wan -j MASQUERADE\n{NAT} -o eth1 -j wan\n{HTB}{FILTER}",
        f"nft -f - <<X\n{TABLE.format('oifname eth1 masquerade')}X\n{HTB}{FILTER}",
        f"nft -f - <<X\n{TABLE.format('oifname eth0 accept # masquerade')}X\n{HTB}{FILTER}",
        f"{NAT} -o eth0 -j MASQUERADE\n{HTB}"
        "iptables -t mangle -A FORWARD -s 192.168.1.0/24 -j CLASSIFY --set-class 1:10\n",
    ],
)
def test_other_filters_and_rules_before_nat_are_not(rules: str) -> None:
    assert noted(rules) == []


@pytest.mark.parametrize(
    ("where", "count"),
    [("name eth0", 1), ("eth0", 1), ("name eth1", 0), ("eth0\nset nat source rule 10 exclude", 0)],
)
def test_matches_of_vyos_that_compare_translated_addresses_are_noted(
    where: str, count: int
) -> None:
    assert len(noted(VYOS + where, "vyos")) == count


@pytest.mark.parametrize(
    ("sources", "side", "lines"),
    [
        ("ip 192.168.1.0 0.0.0.255", "outside", ["match access-group name OFFICE"]),
        ("ip 192.168.1.0 0.0.0.255", "inside", []),
        ("udp any", "outside", []),
    ],
)
def test_matches_of_ios_that_compare_translated_addresses_are_noted(
    sources: str, side: str, lines: list[str]
) -> None:
    assert noted(IOS.format(sources, side), "ios") == lines


@pytest.mark.parametrize(("side", "lines"), [("enable", ["match access-group name OFFICE"]),
                                             ("enable\n no ip nat enable", [])])  # fmt: skip
def test_the_virtual_interface_of_nat_translates_too(side: str, lines: list[str]) -> None:
    text = IOS.format("ip 192.168.1.0 0.0.0.255", side).replace("nat inside source", "nat source")
    assert noted(text, "ios") == lines
