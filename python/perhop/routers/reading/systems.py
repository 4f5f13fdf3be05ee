"""Systems whose configurations resemble those of a family, and headers of archives.

RANCID writes the type of a device into the first line of a configuration, and Oxidized its model,
if it is told to. These lines decide before statements do.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perhop.routers.reading.configuration import Source

__all__ = ["LIKE_IOS", "OF_LINUX", "Sign", "headers", "sign"]

_HEADER: Final = re.compile(
    r"^[^\w\n]{0,8}(?:RANCID-CONTENT-TYPE: *|Fetched by Oxidized with model )([\w.-]+)", re.M
)

_SYSTEMS: Final = {
    "Cisco IOS XR": r"!+ ?(?:Cisco )?IOS XR |RP/\d+/\w+/CPU|end-(?:policy|class)-map\b"
    r"|ipv4 address \d|interface (?:Bundle-Ether\d|MgmtEth"
    r"|(?:\w+GigE|GigabitEthernet) ?\d+/\d+/\d+/\d)",
    "Cisco NX-OS": r"feature [a-z-]+ *$|vdc \S+ id |switchname |system qos *$|vrf context \S+ *$"
    r"|(?:policy|class)-map type (?:queuing|network-qos|qos)\b"
    r"|class type (?:queuing|network-qos|qos)\b|service-policy type (?:queuing|network-qos|qos)\b"
    r"|! ?Cisco Nexus Operating System|!Command: show \w+-config|!Running configuration last done",
    "Cisco ACI": r"# Command: show running-config|tenant \S+ *$|leaf \d+(?:[-,]\d+)* *$"
    r"|qos custom-policy |(?:policy|class)-map type (?:data-plane|control-plane-if) "
    r"|service-policy type data-plane ",
    "Cisco ASA": r"(?:ASA|PIX) Version |nameif \S|security-level \d"
    r"|! ?Cisco Adaptive Security Appliance"
    r"|access-list \S+ extended (?:permit|deny) |service-policy \S+ (?:global|interface \S+) *$",
    "Arista EOS": r"! device: .*\bEOS-|! ?Arista \S"
    r"|policy-map type (?:quality-of-service|pbr|copp) ",
    "Comware or VRP": r"sysname \S|traffic (?:classifier|behavior) \S|if-match \S"
    r"|qos apply policy |qos policy [\w-]+ *$|traffic[- ]policy \S+ (?:in|out)bound"
    r"|qos (?:car|gts|lr|wrr|reserved-bandwidth) |port link-(?:mode|type) "
    r"|# ?(?:H3C|HPE?) Comware |# ?(?:H3C|HPE?|Huawei) .*(?:Comware|Versatile Routing)"
    r"|\[V\d+R\d+C\d+",
    "F5 BIG-IP": r"#TMSH-VERSION|(?:ltm|gtm|apm|asm|cm|pem) [a-z][\w./ -]*\{"
    r"|net (?:rate-shaping|self|vlan|route-domain|stp|trunk|interface|packet-filter)\b.*\{"
    r"|sys (?:global-settings|provision|management-ip|db)\b.*\{"
    r"|(?:rate class|virtual(?: address)?|profile \w+) \S+ \{",
    "FireQOS": r"interface(?:4|6|46)? \S+ [\w-]+ (?:input|output|bidirectional)\b|FIREQOS_\w+="
    r"|class \S+ (?:\w+ \S+ )*commit |#!.*\bfireqos\b",
    "MikroTik RouterOS": r"/queue (?:simple|tree|type)\b|/ip firewall (?:mangle|filter|nat)\b"
    r"|# .* by RouterOS ",
    "OpenWrt's UCI": r"config (?:queue|interface|device|rule|zone) ?'?[\w-]*'? *$",
    "FortiOS": r"#config-version=|config (?:system|firewall|router|vpn) \S",
    "`tc filter show` without `-j`": r"filter (?:(?:dev|parent|block) \S+ |root |ingress |egress )*"
    r"protocol \S+ pref \d+ \w",
}
"""Beginnings of lines that only this system has, of those that can be taken for a family."""

LIKE_IOS: Final = frozenset(("Cisco IOS XR", "Cisco NX-OS", "Cisco ACI", "Cisco ASA", "Arista EOS"))
"""Systems with the statements of IOS, which have other defaults."""

OF_LINUX: Final = frozenset(("FireQOS", "OpenWrt's UCI", "`tc filter show` without `-j`"))
"""Texts of Linux hosts, where tc prints what perhop reads."""

_SIGNS: Final = re.compile(
    r"^[ \t]*(?=\S)(?:" + "|".join(f"({signs})" for signs in _SYSTEMS.values()) + ")", re.M
)

_TYPES: Final = {
    # Types of RANCID, and their aliases (etc/rancid.types.base). Old releases write `cisco` for
    # all that is like IOS.
    "ios": "cisco ios cisco-ncs",
    "junos": "juniper junos junos-evo juniper-srx",
    "vyos": "edgerouter edgerouterbird vyos vyatta edgeos",
    "altq": "openbsd",
    "Cisco NX-OS": "cisco-nx ios-nx nxos",
    "Cisco IOS XR": "cisco-xr ios-xr cisco-xr7 ios-xr7 cisco-exr ios-exr iosxr xr",
    "Cisco ASA": "asa",
    "Cisco ACI": "aci apic",
    "Arista EOS": "arista eos",
    "Comware or VRP": "comware vrp h3c",
    "F5 BIG-IP": "f5 bigip bigip13 tmos f5os",
    "FortiOS": "fortigate fortigate-full fortios",
    "MikroTik RouterOS": "mikrotik routeros",
    "OpenWrt's UCI": "openwrt",
    "a switch of Cisco's small business series": "cisco-sb ios-sb ciscosmb",
    "a Cisco wireless controller": "cisco-wlc4 cisco-wlc5 cisco-wlc8 aireos ciscowlc",
    "Cisco CatOS": "cat5 catos",
    "Cisco FX-OS": "fxos",
    "Dell Networking OS": "dell dnos9 dnos10 force10 ftos os10 smc powerconnect",
    "Brocade or Foundry": "foundry brocade ironware fastiron fabricos nos slxos",
    "HP ProCurve": "hp procurve aosw aoss",
    "Nokia SR OS": "sros sros-md timos",
    "PAN-OS": "paloalto paloaltoxml panos",
    "ExtremeXOS": "extreme xos",
    "A10": "a10 acos",
    "FRR": "frr zebra",
    "EdgeSwitch": "edgemax edgeswitch",
    "ScreenOS": "netscreen screenos",
    "JunosE": "erx",
    "Arrcus ArcOS": "arcos",
    "Redback": "redback",
}
"""Families and other systems, with the types of RANCID and models of Oxidized that mean them."""

_OF_TYPE: Final = {name: owner for owner, names in _TYPES.items() for name in names.split()}


class Sign(NamedTuple):
    """A line that tells the system of a configuration.

    Attributes:
        file: The file.
        line: The number of the line.
        text: The line.
        system: A family, or the name of a system that perhop does not read.
    """

    file: str
    line: int
    text: str
    system: str


def headers(texts: Sequence[Source]) -> list[Sign]:
    """Return the headers of archives: the first of each text, if it names a known type."""
    known: list[Sign] = []
    for text in texts:
        match = _HEADER.search(text.text)
        system = _OF_TYPE.get(match[1].lower()) if match is not None else None
        if match is not None and system is not None:
            known.append(Sign(text.file, *_line(text, match.start()), system))
    return known


def sign(texts: Sequence[Source], *, like_ios: bool) -> Sign | None:
    """Return the first statement of the system that has the most statements; None without any.

    Args:
        texts: The texts.
        like_ios: True to look for the systems that are like IOS, too.
    """
    names = list(_SYSTEMS)
    counts: dict[str, int] = {}
    first: dict[str, tuple[Source, int]] = {}
    for text in texts:
        for match in _SIGNS.finditer(text.text):
            name = names[(match.lastindex or 1) - 1]
            if name in LIKE_IOS and not like_ios:
                continue
            counts[name] = counts.get(name, 0) + 1
            first.setdefault(name, (text, match.start()))
    if not counts:
        return None
    name = max(counts, key=lambda each: counts[each])
    text, start = first[name]
    return Sign(text.file, *_line(text, start), name)


def _line(text: Source, start: int) -> tuple[int, str]:
    statement, _, _ = text.text[start:].partition("\n")
    return text.text.count("\n", 0, start) + 1, statement.strip()
