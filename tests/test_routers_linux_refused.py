"""Commands that tc refuses, and those that it takes, as it does on a machine with Linux."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from perhop.errors import UsageError
from perhop.routers import scenario
from perhop.routers.reading import Fault, Source
from perhop.routers.reading.detect import read

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Perhop

HTB = "qdisc add dev v0 root handle 1: htb default 1\n"
CLASS = "class add dev v0 parent 1: classid 1:1 htb rate 1mbit\n"
Q = "qdisc add dev v0 root"
C = "class add dev v0 parent 1: classid 1:1"
F = "filter add dev v0 parent 1: protocol ip"
U32 = f"{F} prio 1 u32 match u32 0 0"
BANDS = '"bands", "quanta" or "strict"'
NOT_ENOUGH = "Not enough total bands to cover all the strict bands and quanta"
OUT = '"priomap" element is out of'
INVALID = "Invalid argument"

BESIDE = [
    (f"{F} prio 1 matchall classid 1:1", "Specified filter kind does not match existing one."),
    (U32.replace("ip ", "ipv6 ") + " flowid 1:1", "Protocol mismatch for filter with specified"),
]  # fmt: skip
"""Filters beside another one of their priority."""

REFUSED = [
    *BESIDE,
    (f"{Q} ets", f"One of {BANDS} needs to be specified"),
    (f"{Q} ets bands 0", f"One of {BANDS} needs to be specified"),
    (f"{Q} ets bands 17", 'The number of "bands" must be <= 16'),
    (f"{Q} ets strict 17", 'The number of "strict" must be <= 16'),
    (f"{Q} ets quanta 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17", INVALID),
    (f"{Q} ets strict 9 quanta 1 2 3 4 5 6 7 8", INVALID),
    (f"{Q} ets bands 2 quanta 1000 2000 3000", NOT_ENOUGH),
    (f"{Q} ets bands 2 strict 3", NOT_ENOUGH),
    (f"{Q} ets bands 4 strict 2 quanta 1000 2000 3000", NOT_ENOUGH),
    (f"{Q} ets bands 5 priomap 0 0 1 0 1 2 0 1 2 3 0 1 2 3 4 0 1", '"priomap" index'),
    (f"{Q} ets bands 2 priomap 0 1 2", f"{OUT} bounds"),
    (f"{Q} ets quanta 1000 500 priomap 0 1 2", f"{OUT} bounds"),
    (f"{Q} ets strict 2 priomap 0 1 2", f"{OUT} bounds"),
    (f"{Q} ets strict 1 quanta 1000 500 priomap 0 1 2 3", f"{OUT} bounds"),
    (f"{Q} ets bands 4 strict 1 quanta 1000 500 priomap 0 1 2 3 4", f"{OUT} bounds"),
    (f"{Q} ets quanta 1000 0 800 700", '"quanta" must be > 0'),
    (f"{Q} ets quanta 0", '"quanta" must be > 0'),
    (f"{Q} ets quanta", "Command line is not complete"),
    (f"{Q} ets bands 3 foo", 'What is "foo"?'),
    (f"{Q} prio bands 1", INVALID),
    (f"{Q} prio bands 17", INVALID),
    (f"{Q} prio bands 2", INVALID),
    (f"{Q} prio bands 4 priomap 1 1 2 2 7 5", f"{OUT} bands"),
    (f"{Q} prio priomap 1 2 3", f"{OUT} bands"),
    (f"{Q} prio bands 4 priomap 1 1 2 2 3 3 0 0 1 2 3 0 0 0 0 0 1 1", '"priomap" index >'),
    (f"{Q} prio foobar", 'What is "foobar"?'),
    (f"{Q} handle 10000: prio", 'argument "10000:" is wrong: invalid qdisc ID'),
    (f"{Q} handle 123^ prio", 'argument "123^" is wrong: invalid qdisc ID'),
    (f"{Q} tbf rate 1mbit", 'tbf: the "burst" parameter is mandatory.'),
    (f"{Q} tbf rate 1mbit burst 10k", 'tbf: either "limit" or "latency" is required.'),
    (f"{Q} tbf burst 10k latency 50ms", 'tbf: the "rate" parameter is mandatory.'),
    (f"{Q} tbf rate 0 burst 10k limit 20k", 'tbf: the "rate" parameter is mandatory.'),
    (f"{Q} tbf rate 1mbit burst 10k limit 9k latency 5ms", "is not allowed"),
    (f"{Q} tbf rate 1mbit burst 10k limit 20k peakrate 2mbit", '"mtu" must also be specified'),
    (f"{Q} tbf rate 1mbit burst 10k limit 20k peakrate 500kbit mtu 1514", INVALID),
    (f"{Q} htb foo", 'What is "foo"?'),
    (f"{Q} htb default zz", 'Illegal "default"'),
    (f"{Q} drr quantum 10", 'What is "quantum"?'),
    (f"{Q} red limit 100k", "Required parameter (limit, avpkt) is missing"),
    (f"{Q} sfq limit 8 foo", 'What is "foo"?'),
    (f"{Q} fq_codel foo", 'What is "foo"?'),
    (f"{Q} fq_codel quantum foo", 'Illegal "quantum"'),
    (f"{Q} codel limit foo", 'Illegal "limit"'),
    (f"{C} htb", '"rate" is required.'),
    (f"{C} htb ceil 1mbit", '"rate" is required.'),
    (f"{C} htb rate 0", '"rate" is required.'),
    (f"{C} htb rate foo", 'Illegal "rate"'),
    (f"{C} htb rate 1mbit foo 1", 'What is "foo"?'),
    ("class add dev v0 parent 1: classid 1:10000 htb rate 1mbit", "invalid class ID"),
    ("class add dev v0 parent 1: htb rate 1mbit", INVALID),
    (f"{C} hfsc", "HFSC: no parameters given"),
    (f"{C} hfsc ul rate 1mbit", "Upper-limit Service Curve without Link-Share Service Curve"),
    (f"{F} prio 65536 u32 match u32 0 0 flowid 1:1", "invalid priority value"),
    (f"{F} prio 1 u32 flowid 1:1", "cls_u32: Selector not specified."),
    (f"{F} prio 1 u32 ht 43: match u32 0 0 flowid 1:1", "Specified hash table not found."),
    (f"{F} prio 1 u32 match ip dport 53 flowid 1:1", 'Illegal "match"'),
    (f"{F} prio 1 u32 match ip dport 70000 0xffff flowid 1:1", 'Illegal "match"'),
    (f"{F} prio 1 u32 match ip src 1.2.3.4/33 flowid 1:1", 'Illegal "match"'),
    (f"{U32} flowid zz", 'Illegal "classid"'),
    (f"{U32} action pump", "Bad action type pump"),
    (f"{F} prio 1 flower vlan_ethtype ipv4 flowid 1:1", 'Can\'t set "vlan_ethtype"'),
    (f"{U32} action stolen", "Bad action type stolen"),
    (f"{U32} foo", 'What is "foo"?'),
    (f"{U32} flowid 1:1 police rate 1mbit", "'burst' requires 'rate'."),
    (f"{U32} flowid 1:1 action police burst 10k", "MUST be specified."),
    (f"{U32} flowid 1:1 action police rate 1mbit burst 10k conform-exceed foo/bar", "bad action"),
    (f"{U32} flowid 1:1 action police rate 1mbit burst 10k foo", "Bad action type foo"),
    (f"{U32} action drop cookie {'a1' * 19}", "38 Max allowed size 32"),
    (f"{F} prio 65536 handle 1 fw classid 1:1", "invalid priority value"),
    (f"{F} prio 1 handle 1 fw action pump", "Bad action type pump"),
    (f"{F} prio 1 handle 1 fw", INVALID),
    (f"{F} prio 1 fw classid 1:1", INVALID),
    (f"{F} prio 1 handle zz fw flowid 1:1", 'Illegal "handle"'),
    (f"{F} prio 1 handle 4294967296 fw action ok", 'Illegal "handle"'),
    (f"{F} prio 1 handle 10/4294967296 fw action ok", 'Illegal "handle"'),
    (f"{F} prio 1 handle 1 fw classid 6789defg action ok", 'Illegal "classid"'),
    (f"{F} prio 1 handle 1 fw foo", 'What is "foo"?'),
    (f"{F} prio 2 handle 1 fw action continue cookie {'a1' * 19}", "38 Max allowed size 32"),
    ("filter add dev v0 parent aa11b1b2: handle 1 prio 1 fw action ok", "is wrong: invalid"),
    ("filter add dev v0 parent 1: protocol igmp handle 1 prio 1 fw action ok", "invalid protocol"),
    (f"{F} prio 65536 matchall action ok", "invalid priority value"),
    (f"{F} prio 1 matchall", INVALID),
    (f"{F} prio 1 matchall foo", 'What is "foo"?'),
    (f"{F} prio 1 matchall action pump", "Bad action type pump"),
    (f"{F} prio 1 matchall classid zz", 'Illegal "classid"'),
    (f"{Q} fq bogus 3", 'What is "bogus"?'),
    (f"{Q} fq limit x", 'Illegal "limit"'),
    (f"{Q} fq buckets x", 'Illegal "buckets"'),
    (f"{Q} fq maxrate x", 'Illegal "maxrate"'),
    (f"{Q} fq_pie bogus 3", 'What is "bogus"?'),
    (f"{Q} fq_pie target x", 'Illegal "target"'),
    (f"{Q} fq_pie alpha 33", 'Illegal "alpha"'),
    (f"{Q} cake bogus", 'What is "bogus"?'),
    (f"{Q} cake bandwidth x", 'Illegal "bandwidth"'),
    (f"{Q} cake overhead 300", 'Illegal "overhead", valid range is -64 to 256'),
    (f"{Q} cake mpu x", 'Illegal "mpu", valid range is 0 to 256'),
    (f"{Q} cake memlimit x", 'Illegal value for "memlimit": "x"'),
    (f"{Q} netem bogus 3", 'What is "bogus"?'),
    (f"{Q} netem delay bogus", 'Illegal "latency"'),
    (f"{Q} netem delay 10ms bogus", 'What is "bogus"?'),
    (f"{Q} netem loss 101%", 'Illegal "loss percent"'),
    (f"{Q} netem loss x", "Unknown loss parameter: "),
    (f"{Q} netem duplicate x", 'Illegal "duplicate"'),
    (f"{Q} netem rate x", 'Illegal "rate"'),
    (f"{Q} netem reorder 25%", "reordering not possible without specifying some delay"),
    (f"{Q} red limit 400k min 90k max 30k avpkt 1000", "failed to calculate EWMA constant."),
    (f"{Q} red limit 400k min 30k max 90k avpkt 1000 burst 20", "calculate EWMA constant."),
    (f"{Q} red limit 4000 avpkt 1000", "failed to calculate EWMA constant."),
    (f"{Q} red limit 400k min 30k max 20k avpkt 1000 burst 55", "calculate probability."),
    (f"{Q} red limit 400k min x max 90k avpkt 1000", 'Illegal "min"'),
    (f"{Q} fq_codel flows 100000", INVALID),
    (f"{Q} sfq divisor 1000", INVALID),
    (f"{Q} sfq divisor 131072", INVALID),
    (f"{C} htb rate 1mbit prio x", 'Illegal "prio"'),
    (f"{C} htb rate 1mbit mpu x", 'Illegal "mpu"'),
    (f"{C} htb rate 1mbit overhead x", 'Illegal "overhead"'),
    (f"{C} htb rate 1mbit linklayer foo", 'Illegal "linklayer"'),
    (f"{C} hfsc sc umax 1500 rate 5mbit", 'HFSC: Illegal "sc"'),
    (f"{C} hfsc sc d 10ms m1 1mbit m2 2mbit", 'HFSC: Illegal "sc"'),
    (f"{F} prio 1 flower dst_port 80 flowid 1:1", 'Illegal "dst_port"'),
    (f"{F} prio 1 flower ip_proto icmp dst_port 80 flowid 1:1", 'Illegal "dst_port"'),
    (f"{F} prio 1 flower ip_proto tcp dst_port 90-80 flowid 1:1", 'Illegal "dst_port"'),
    (f"{F} prio 1 flower ip_proto foo flowid 1:1", 'Illegal "ip_proto"'),
    (f"{F.removesuffix(' protocol ip')} flower src_ip 10.0.0.0/8 flowid 1:1", 'Illegal "src_ip"'),
    (f"{F.removesuffix(' protocol ip')} flower ip_proto tcp flowid 1:1", 'Illegal "ip_proto"'),
    (f"{Q} netem distribution normal", "distribution specified but no latency and jitter values"),
    (f"{C} htb rate 1mbit rate 2mbit", 'Double "rate" spec'),
    (f"{C} htb rate 1mbit ceil 2mbit ceil 3mbit", 'Double "ceil" spec'),
    (f"{C} htb rate 1mbit burst 10k/7", 'Illegal "burst"'),
    (f"{F} prio 1 u32 match u8 0x100 0xff at 0 flowid 1:1", 'Illegal "match"'),
    (f"{F} prio 1 u32 match u8 1 0x1ff at 0 flowid 1:1", 'Illegal "match"'),
    (f"{F} prio 1 u32 match u16 0x10000 0xffff at 0 flowid 1:1", 'Illegal "match"'),
    (f"{F} prio 1 u32 match u16 1 0x1ffff at 0 flowid 1:1", 'Illegal "match"'),
    (f"{F} prio 1 u32 match u32 1 0xffffffff at 21 flowid 1:1", 'Illegal "match"'),
    (f"{F} prio 1 u32 match ip protocol tcp 0xff flowid 1:1", 'Illegal "match"'),
    (f"{F} prio 1 u32 match ip protocol udp 0xff flowid 1:1", 'Illegal "match"'),
    (f"{F} prio 1 u32 match ip protocol icmp 0xff flowid 1:1", 'Illegal "match"'),
    (f"{F} prio 1 u32 match ip protocol gre 0xff flowid 1:1", 'Illegal "match"'),
    (f"{F} prio 1 u32 match ip6 protocol tcp 0xff flowid 1:1", 'Illegal "match"'),
    (f"{F} prio 1 u32 match ip ihl 256 0xf flowid 1:1", 'Illegal "match"'),
    (f"{F} prio 1 u32 match ip foo 1 1 flowid 1:1", 'Illegal "match"'),
    (f"{F} prio 1 u32 match foo 1 1 flowid 1:1", 'Illegal "match"'),
    (f"{F} prio 1 u32 match tcp foo 80 0xffff flowid 1:1", 'Illegal "match"'),
    (f"{F} prio 1 u32 match ip sport 80 0x1ffff flowid 1:1", 'Illegal "match"'),
    (f"{F} prio 1 u32 match mark x 0xff flowid 1:1", 'Illegal "match"'),
    (f"{F} prio 1 u32 match mark 1 xx flowid 1:1", 'Illegal "match"'),
    (f"{F} prio 1 u32 match ip icmp_type 300 0xff flowid 1:1", 'Illegal "match"'),
    (f"{U32} divisor x flowid 1:1", 'Illegal "divisor"'),
    (f"{U32} link x flowid 1:1", 'Illegal "link"'),
    (f"{U32} ht x flowid 1:1", 'Illegal "ht"'),
    (f"{U32} order x flowid 1:1", 'Illegal "order"'),
    (f"{U32} offset foo flowid 1:1", 'What is "foo"?'),
    (f"{U32} hashkey foo flowid 1:1", 'What is "foo"?'),
    (f"{F} prio 1 u32 divisor 3 flowid 1:1", 'Illegal "divisor"'),
    (f"{F} prio 1 u32 divisor 512 flowid 1:1", 'Illegal "divisor"'),
    (f"{U32} action police rate 1mbit burst 10k mtu x drop", 'argument "x" is wrong: mtu'),
    (f"{U32} action police rate 1mbit burst 0 drop", "'burst' requires 'rate'."),
    (f"{U32} action police rate 1mbit burst x drop", 'argument "x" is wrong: buffer'),
    (f"{U32} action police rate 0 burst 10k drop", "'rate' or 'avrate' or 'mtu' or 'pkts_rate' MU"),
    (f"{U32} action police rate x burst 10k drop", 'argument "x" is wrong: rate'),
    (f"{U32} action police rate 1mbit burst 10k peakrate 2mbit drop", "'mtu' is required, if 'pea"),
    (f"{U32} action police rate 1mbit burst 10k peakrate x drop", 'argument "x" is wrong: peakrat'),
    (f"{U32} action police pkts_rate 100 drop", "'pkts_burst' requires 'pkts_rate'."),
    (f"{U32} action police rate 1mbit burst 10k pkts_rate 100 pkts_burst 10 drop", "'rate' and 'p"),
    (f"{U32} action police rate 1mbit rate 2mbit burst 10k drop", 'duplicate "rate"'),
    (f"{U32} action police rate 1mbit burst 10k mtu 2k mtu 3k drop", 'duplicate "mtu/minburst"'),
    (f"{U32} action police rate 1mbit burst 10k mpu x drop", 'argument "x" is wrong: mpu'),
    (f"{U32} action police rate 1mbit burst 10k overhead x drop", 'argument "x" is wrong: overhea'),
    (f"{U32} action police rate 1mbit burst 10k linklayer foo drop", 'argument "foo" is wrong: li'),
    (f"{U32} action police rate 1mbit burst 10k avrate x drop", 'argument "x" is wrong: avrate'),
    (f"{U32} action police rate 1mbit burst 10k index x drop", 'argument "x" is wrong: index'),
    (f"{U32} action police rate 1mbit burst 10k/7 drop", 'argument "10k/7" is wrong: buffer'),
    (f"{U32} action police rate 1mbit burst 10k mtu 2k/7 drop", 'argument "2k/7" is wrong: mtu'),
    (f"{U32} action police rate 1mbit burst", "Command line is not complete"),
    (f"{U32} action police rate 1mbit burst 10k conform-exceed", "Command line is not complete"),
    (f"{U32} action police rate 1mbit burst 10k pkts_rate x pkts_burst 3", 'argument "x" is wrong'),
    (f"{U32} action gact foo", "Bad action type foo"),
    (f"{U32} action gact", "Command line is not complete"),
    (f"{U32} action gact drop random netrand foo 5", "Bad action type foo"),
    (f"{U32} action drop random foo ok 5", 'Illegal "random type"'),
    (f"{U32} action goto", "Command line is not complete"),
    (f"{U32} action skbedit", "Command line is not complete"),
    (f"{U32} action skbedit priority zz", "Illegal priority"),
    (f"{U32} action skbedit mark x", "Illegal mark"),
    (f"{U32} action skbedit queue_mapping x", "Illegal queue_mapping"),
    (f"{U32} action skbedit ptype foo", "Illegal ptype (foo)"),
    (f"{U32} action mirred egress redirect", "Command line is not complete"),
    (f"{U32} action mirred foo", "mirred option not supported foo"),
    (f"{U32} action mirred egress foo dev v1", "Command line is not complete"),
    (f"{U32} action ", "Command line is not complete"),
    (f"{F} prio 1 flower ip_tos x flowid 1:1", 'Illegal "ip_tos"'),
    (f"{F} prio 1 flower ip_tos 0x10/x flowid 1:1", 'Illegal "ip_tos"'),
    (f"{F} prio 1 flower ip_tos 1ff flowid 1:1", 'Illegal "ip_tos"'),
    (f"{F} prio 1 flower ip_ttl x flowid 1:1", 'Illegal "ip_ttl"'),
    (f"{F} prio 1 flower ip_ttl 300 flowid 1:1", 'Illegal "ip_ttl"'),
    (f"{F} prio 1 flower foo 1 flowid 1:1", 'What is "foo"?'),
    (f"{F} prio 1 flower foo", 'What is "foo"?'),
    (f"{F} prio 1 flower src_ip 10.0.0.0/33 flowid 1:1", 'inet prefix is expected rather than "10'),
    (f"{F} prio 1 flower src_ip x flowid 1:1", 'inet prefix is expected rather than "x".'),
    (f"{F} prio 1 flower src_ip fe80::/10 flowid 1:1", 'inet prefix is expected rather than "fe80'),
    (f"{F} prio 1 flower dst_ip 10.0.0.0/x flowid 1:1", 'inet prefix is expected rather than "10.'),
    (f"{F} prio 1 flower dst_ip fe80::1/129 flowid 1:1", 'inet prefix is expected rather than "fe'),
    (f"{F} prio 1 flower src_mac x flowid 1:1", 'Illegal "src_mac"'),
    (f"{F} prio 1 flower dst_mac x flowid 1:1", 'Illegal "dst_mac"'),
    (f"{F} prio 1 flower indev", "Command line is not complete"),
    (f"{F} prio 1 flower vlan_id 5 flowid 1:1", 'set "vlan_id" if ethertype'),
    (f"{F} prio 1 flower vlan_prio 5 flowid 1:1", 'set "vlan_prio" if ethertype'),
    (f"{F} prio 1 flower eth_type x flowid 1:1", 'What is "eth_type"?'),
    (f"{F} prio 1 flower ip_proto tcp tcp_flags x flowid 1:1", 'Illegal "tcp_flags"'),
    (f"{F} prio 1 flower ip_proto tcp dst_port 70000 flowid 1:1", 'Illegal "dst_port"'),
    (f"{F} prio 1 flower ip_proto tcp dst_port 0-10 flowid 1:1", 'Illegal "dst_port"'),
    (f"{F} prio 1 flower ip_flags foo flowid 1:1", 'Illegal "ip_flags"'),
    (f"{F} prio 1 flower ip_proto", "Command line is not complete"),
    (f"{F} prio 1 flower src_ip", "Command line is not complete"),
    (f"{F} prio 1 foo flowid 1:1", 'Unknown filter "foo", hence option "flowid" is unparsable'),
    (f"{F} prio 1 foo bar 1 flowid 1:1", 'Unknown filter "foo", hence option "bar" is unparsable'),
    (f"{F} prio 1 chain x matchall flowid 1:1", 'argument "x" is wrong: invalid chain index value'),
    (f"{F} prio 1 chain 0x1ffffffff matchall flowid 1:1", 'argument "0x1ffffffff" is wrong: inval'),
    (f"{F} prio 1", "Filter kind and protocol must be specified."),
    (f"{F} prio", "Command line is not complete"),
    (f"{F} prio 1 matchall flowid", "Command line is not complete"),
    (f"{F} prio 1 matchall action", "Command line is not complete"),
    (f"{F} prio 1 handle 1 fw flowid", "Command line is not complete"),
    (f"{F} prio 1 handle 1 fw flowid 1:1 skip_hw", 'What is "skip_hw"?'),
    (f"{F} prio 1 handle x flower ip_proto tcp flowid 1:1", 'Illegal "handle"'),
    (f"{F} prio 1 handle zz u32 match u32 0 0 flowid 1:1", "Illegal filter ID"),
    (f"{F} prio 1 prio 2 matchall flowid 1:1", 'duplicate "priority": "2"'),
    (f"{F} protocol ip prio 1 matchall flowid 1:1", 'duplicate "protocol": "ip"'),
    (f"{Q} tbf rate 1mbit burst 10k limit 20k linklayer foo", 'tbf: illegal value for "linklayer"'),
    (f"{Q} tbf rate 1mbit burst 10k limit 20k overhead x", 'tbf: illegal value for "overhead": "x'),
    (f"{Q} tbf rate 1mbit burst 10k/7 limit 20k", 'tbf: illegal value for "burst": "10k/7"'),
    (f"{Q} tbf rate 1mbit burst 10k limit 20k mpu x", 'tbf: illegal value for "mpu": "x"'),
    (f"{Q} tbf rate 1mbit burst 10k limit 20k mtu x", 'tbf: illegal value for "mtu": "x"'),
    (f"{Q} tbf rate 1mbit burst 10k limit 20k peakrate 2mbit mtu 1500/7", 'tbf: illegal value for'),
    (f"{Q} tbf rate 1mbit rate 2mbit burst 10k limit 20k", 'tbf: duplicate "rate" specification'),
    (f"{Q} tbf rate 1mbit burst 10k burst 20k limit 20k", 'tbf: duplicate "buffer/burst/maxburst"'),
    (f"{Q} tbf rate 1mbit burst 10k limit 20k limit 30k", 'tbf: duplicate "limit" specification'),
    (f"{Q} tbf rate 1mbit burst 10k latency 1ms latency 2ms", 'tbf: duplicate "latency" specifica'),
    (f"{Q} tbf rate 1mbit burst 10k latency 0", 'tbf: either "limit" or "latency" is required.'),
    (f"{Q} tbf rate 1mbit burst 10k limit 0", 'tbf: either "limit" or "latency" is required.'),
    (f"{Q} netem ecn", "ecn requested without loss model"),
    (f"{Q} netem slot x", "Unknown slot parameter: x"),
    (f"{Q} netem slot", "Command line is not complete"),
    (f"{Q} netem slot 1ms x", 'What is "x"?'),
    (f"{Q} netem slot 1ms 2ms packets x", 'Illegal "slot packets"'),
    (f"{Q} netem slot 1ms 2ms bytes x", 'Illegal "slot bytes"'),
    (f"{Q} netem slot 1ms 2ms foo", 'What is "foo"?'),
    (f"{Q} netem slot distribution foo 1ms 1ms", "No distribution data for foo"),
    (f"{Q} netem delay 10ms 2ms 101%", 'Illegal "latency"'),
    (f"{Q} netem delay 10ms 2ms 50% 60%", 'What is "60%"?'),
    (f"{Q} netem delay 10ms 2ms distribution foo", "No distribution data for foo"),
    (f"{Q} netem delay 10ms 2ms distribution", "Command line is not complete"),
    (f"{Q} netem loss gemodel 101%", 'Illegal "loss gemodel p"'),
    (f"{Q} netem loss gemodel", "Command line is not complete"),
    (f"{Q} netem loss gemodel 1% 101%", 'Illegal "loss gemodel r"'),
    (f"{Q} netem loss gemodel 1% 10% 101%", 'Illegal "loss gemodel h"'),
    (f"{Q} netem loss state", "Command line is not complete"),
    (f"{Q} netem loss state 101%", 'Illegal "loss p13"'),
    (f"{Q} netem loss state 1% 101%", 'Illegal "loss p31"'),
    (f"{Q} netem loss 1% 101%", 'Illegal "loss correlation"'),
    (f"{Q} netem duplicate 1% 101%", 'Illegal "duplicate"'),
    (f"{Q} netem corrupt 1% 200%", 'Illegal "corrupt"'),
    (f"{Q} netem delay 10ms reorder 25% 101%", 'Illegal "reorder"'),
    (f"{Q} netem delay 10ms reorder 25% gap x", 'Illegal "gap"'),
    (f"{Q} netem rate 1mbit 20 x", 'What is "x"?'),
    (f"{Q} cake rtt x", 'Illegal "rtt"'),
    (f"{Q} cake rtt", "Command line is not complete"),
    (f"{Q} hfsc default zz", 'HFSC: Illegal "default"'),
    (f"{Q} hfsc default", "Command line is not complete"),
    (f"{Q} hfsc default 0x1ffff", 'HFSC: Illegal "default"'),
    (f"{Q} pie beta 100", 'Illegal "beta"'),
    (f"{Q} pie alpha 100", 'Illegal "alpha"'),
    (f"{Q} pie alpha x", 'Illegal "alpha"'),
    (f"{Q} pie alpha 33", 'Illegal "alpha"'),
    (f"{Q} fq_codel memory_limit x", 'Illegal "memory_limit"'),
    (f"{Q} fq_codel drop_batch x", 'Illegal "drop_batch"'),
    (f"{Q} fq_codel ce_threshold x", 'Illegal "ce_threshold"'),
    (f"{Q} codel ce_threshold x", 'Illegal "ce_threshold"'),
    (f"{Q} sfq perturb x", 'Illegal "perturb"'),
    (f"{Q} sfq limit 1", 'Illegal "limit", must be > 1'),
    (f"{Q} sfq limit 0", 'Illegal "limit", must be > 1'),
    (f"{Q} sfq redflowlimit 100000 min 8000 max 8000 burst 20", '"min" is not smaller than "max"'),
    (f"{Q} sfq redflowlimit 100000 min 8000 max 60000 probability x burst 20 ecn", 'Illegal "prob'),
    (f"{Q} sfq redflowlimit x", 'Illegal "redflowlimit"'),
    (f"{Q} sfq min x", 'Illegal "min"'),
    (f"{Q} sfq max x", 'Illegal "max"'),
    (f"{Q} sfq probability 2", "Required parameter (redflowlimit) is missing"),
    (f"{Q} red limit 400k min 30k max 90k avpkt 1000 burst 55 probability x", 'Illegal "probabili'),
    (f"{Q} ets strict 3 strict 2", 'Duplicate "strict"'),
    (f"{Q} fq initial_quantum x", 'Illegal "initial_quantum"'),
    (f"{Q} fq low_rate_threshold x", 'Illegal "low_rate_threshold"'),
    (f"{Q} fq refill_delay x", 'Illegal "refill_delay"'),
    (f"{Q} fq ce_threshold x", 'Illegal "ce_threshold"'),
    (f"{Q} fq timer_slack x", 'Illegal "timer_slack"'),
    (f"{Q} fq horizon x", 'Illegal "horizon"'),
    (f"{Q} fq_pie memory_limit x", 'Illegal "memory_limit"'),
    (f"{Q} fq_pie ecn_prob x", 'Illegal "ecn_prob"'),
    (f"{Q} fq_pie ecn_prob 101", 'Illegal "ecn_prob"'),
    (f"{C} hfsc sc rate x", 'HFSC: Illegal "rate"'),
    (f"{C} hfsc sc m1 x d 10ms m2 1mbit", 'HFSC: Illegal "m1"'),
    (f"{C} hfsc sc m1 1mbit d x m2 1mbit", 'HFSC: Illegal "d"'),
    (f"{C} hfsc sc umax x dmax 10ms rate 1mbit", 'HFSC: Illegal "umax"'),
    (f"{C} hfsc sc umax 1500 dmax x rate 1mbit", 'HFSC: Illegal "dmax"'),
    ("qdisc add dev v0 parent 9: pfifo", "Failed to find specified qdisc."),
    ("qdisc add dev v0 parent 1: pfifo", "Specified class not found."),
    ("qdisc add dev v0 parent 1:99 pfifo", "Specified class not found."),
    ("qdisc add dev v0 parent zz pfifo", "invalid parent ID"),
    ("qdisc add dev v0 parent", "Command line is not complete"),
    ("class add dev v0 parent 9: classid 9:1 htb rate 1mbit", "No such file or directory"),
    ("class add dev v0 parent 1: classid 9:1 htb rate 1mbit", INVALID),
    ("class add dev v0 parent 1:9 classid 1:1 hfsc sc rate 1mbit", "No such file or directory"),
    ("class add dev v0 parent zz classid 1:5 htb rate 1mbit", "invalid parent ID"),
    ("filter add dev v0 parent 9: protocol ip matchall classid 1:1", "Parent Qdisc doesn't"),
    ("filter add dev v0 parent 1:9 protocol ip u32 match u32 0 0", "Specified class doesn't"),
    ("filter add dev v0 ingress protocol ip u32 match u32 0 0", "Parent Qdisc doesn't"),
    (f"{F} prio 1", "Filter kind and protocol must be specified."),
    (f"{Q} sfq perturb -1", "invalid perturb period"),
]  # fmt: skip

TAKEN = [
    f"{Q} ets strict 0 quanta 1500 750",
    f"{Q} ets quanta 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16",
    f"{Q} ets bands 4 strict 1 quanta 1000 500 priomap 0 1 2 3",
    f"{Q} prio bands 2 priomap 1 1 1 1 1 1",
    f"{Q} prio bands 8 priomap 1 1 2 2 3 3 4 4 5 5 6 6 7 7 0 0",
    f"{Q} handle ffff: prio",
    f"{Q} tbf rate 1mbit burst 10k limit 20k mtu 1500",
    f"{Q} tbf rate 1mbit buffer 10k/8 latency 50ms overhead 4 linklayer atm",
    f"{Q} htb r2q 0",
    f"{Q} sfq perturb 10 quantum 1514",
    f"{Q} fq_codel limit 1000 ce_threshold 1ms ecn memory_limit 32mb",
    f"{Q} red limit 100k avpkt 1000 adaptive bandwidth 10mbit",
    f"{C} htb rate 1mbit prio 8 mtu 1600 cburst 15k overhead 4 linklayer adsl",
    f"{C} htb rate 2mbit ceil 1mbit",
    f"{F} prio 65535 u32 match u32 0 0 flowid 1:1",
    f"{F} prio 1 u32 match ip src 1.2.3.4/32 match ip dport 53 0xffff flowid 1:1",
    f"{F} prio 1 u32 match ip protocol 17 0xff classid 1:1",
    f"{F} prio 1 u32 match ip nofrag flowid 1:1",
    f"{F} prio 1 u32 match ip firstfrag match ip df flowid 1:1",
    f"{F} prio 1 flower ip_proto 11 src_port 80-90 flowid 1:1",
    f"{F} prio 1 handle 4: u32 divisor 16",
    f"{Q} sfq divisor 2048",
    f"{Q} red limit 400k min 30k max 90k avpkt 1000 burst 55 probability 0.02",
    "filter add dev v0 parent 1: protocol 802_3 handle 4294967295/0xff prio 1 fw classid 1:1",
    f"{F} prio 1 handle 0xa1b2ff fw classid ffff:ffff action drop cookie {'a1' * 16}",
    f"{F} prio 1 matchall classid 1:1 action police rate 1mbit burst 10k conform-exceed drop/pipe",
    f"{Q} fq limit 100 flow_limit 20 buckets 256 pacing maxrate 5mbit horizon 5s horizon_drop",
    f"{Q} fq_pie limit 100 flows 64 target 20ms tupdate 20ms alpha 2 beta 25 ecn_prob 10 ecn",
    f"{Q} cake bandwidth 5mbit diffserv8 dual-srchost nat ack-filter overhead -10 mpu 64 rtt 9ms",
    f"{Q} netem limit 500 delay 10ms 2ms 25% distribution normal loss random 1% 25% duplicate 1%",
    f"{Q} netem lat 10ms reord 25% 50% gap 5 corrupt 0.1% rate 5mbit 20 100 5",
    f"{Q} netem slot 1ms",
    f"{Q} netem loss state 1% 20% ecn delay 10ms 2ms 50%",
    f"{Q} sfq redflowlimit 100000 min 8000 max 60000 burst 20 ecn",
    f"{Q} tbf rate 1mbit burst 10k/16 limit 20k",
    f"{C} htb rate 1mbit burst 10k burst 20k",
    f"{F} prio 1 u32 match u16 1 0xffff at 22 flowid 1:1",
    f"{F} prio 1 u32 match ip src 10/8 flowid 1:1",
    f"{F} prio 1 flower ip_tos 200/ff src_ip 10/8 flowid 1:1",
    f"{F} prio 1 flower ip_tos b8 ip_ttl 64 flowid 1:1",
    f"{U32} action gact drop random netrand ok 5",
    f"{U32} action police pkts_rate 100 pkts_burst 10 drop",
    f"{U32} action police mtu 1500 drop",
    f"{U32} action skbedit priority 1:10",
    f"{Q} netem loss gemodel 1% 10% 70% 0.1% ecn slot 800us 1ms packets 10 bytes 10000",
]


def before(command: str) -> str:
    """Return the commands before one: the HTB of a class, or the class of a filter."""
    if " root" in command:
        return ""
    kind = re.search("(hfsc|drr)", command)
    root = HTB.replace("htb", kind[1]) if kind else HTB
    other = f"{U32} flowid 1:1\n" if command in dict(BESIDE) else ""
    return root + ("" if command.startswith("class") else CLASS) + other


def script(command: str) -> str:
    """Return a script of a command and those before it."""
    return "".join(f"tc {line}\n" for line in (before(command) + command).splitlines())


@pytest.mark.parametrize(("command", "reason"), REFUSED)
def test_what_tc_refuses_is_refused(command: str, reason: str) -> None:
    found = read([Source("wan.sh", script(command))], "tc")
    (line,) = (line for line in found.lines if line.fault is Fault.REFUSED)
    assert line.place.line == len(script(command).splitlines())
    assert line.note.startswith("tc refuses it: ")
    assert reason in line.note
    assert found.attachments == ()
    assert [each.interface for each in found.refusals] == ["v0"]


@pytest.mark.parametrize("command", TAKEN)
def test_what_tc_takes_is_not_refused(command: str) -> None:
    found = read([Source("wan.sh", script(command))], "tc")
    assert [line.note for line in found.lines if line.fault is Fault.REFUSED] == []
    assert found.refusals == ()


@pytest.mark.skipif(shutil.which("tc") is None, reason="there is no tc")
def test_the_tables_are_those_of_tc(tmp_path: Path) -> None:
    """Real tc refuses the commands with these reasons, as far as this kernel has the disciplines.

    Without the discipline or classifier, the kernel says so after tc's own checks.
    """
    cases = [*REFUSED, *((command, "") for command in TAKEN)]
    lines = ["set -e; ip link add v0 type veth peer name v1; set +e"]
    for number, (command, _) in enumerate(cases):
        lines += ["tc qdisc del dev v0 root 2>/dev/null"]
        lines += [f"tc {line} 2>/dev/null" for line in before(command).splitlines()]
        lines += [f"echo CASE {number}", f"tc {command} 2>&1", 'echo "EXIT $?"']
    file = tmp_path / "cases.sh"
    file.write_text("\n".join(lines))
    ran = subprocess.run(
        ["unshare", "-n", "sh", str(file)], capture_output=True, text=True, check=False
    )
    if "CASE 0" not in ran.stdout:
        pytest.skip(f"no namespace with a pair of devices: {ran.stderr[-200:]}")
    said = ran.stdout.split("CASE ")[1:]
    assert len(said) == len(cases)
    wrong = []
    for (command, reason), text in zip(cases, said, strict=True):
        lacks = re.search("kind is unknown|classifier not found|action module|not found in", text)
        code = int(text.rsplit("EXIT ", 1)[1])
        exact = reason in text or not reason or reason == INVALID or "is wrong" in text
        fits = (code != 0 and (exact or lacks)) if reason else (code == 0 or lacks)
        if not fits:
            wrong.append((command, reason, text))
    assert wrong == []


def test_a_refused_interface_has_no_policy_anywhere(perhop: Perhop, place: Path) -> None:
    """`import` says it, `lint` finds an error, and `run` ends with the reason of tc."""
    (place / "wan.sh").write_text(script(f"{F} prio 1 handle 1 fw foo"))
    told = 'What is "foo"?'
    imported = perhop("import", "wan.sh")
    assert told in imported.out
    checked = perhop("lint", "wan.sh")
    assert checked.code == 1
    assert told in checked.out
    ran = perhop("run", "wan.sh")
    assert ran.code == 2
    assert "wan.sh:3: the router refuses this line, so that v0 has no policy" in ran.err
    with pytest.raises(UsageError, match="has no policy"):
        scenario.build([place / "wan.sh"], interface="v0")


def test_other_interfaces_keep_their_policies() -> None:
    text = script(f"{Q} prio bands 1") + "tc qdisc add dev v1 root tbf rate 1mbit burst 5k limit 9k"
    found = read([Source("wan.sh", text)], "tc")
    assert [each.interface for each in found.attachments] == ["v1"]
    assert [each.interface for each in found.refusals] == ["v0"]


def test_a_type_of_service_of_flower_is_decimal_if_it_can_be() -> None:
    """Linux shows `ip_tos 40` as 40, `b8` as 184 and `0x40` as 64."""
    others = CLASS.replace("1:1", "1:2")
    policies = []
    for tos in ("40", "0x28", "0x40"):
        flower = f"{F} prio 1 flower ip_tos {tos}/fc flowid 1:2\n"
        lines = (HTB + CLASS + others + flower).splitlines()
        text = "".join(f"tc {line}\n" for line in lines)
        policies.append(read([Source("wan.sh", text)], "tc").attachments[0].policy)
    assert policies[0] == policies[1] != policies[2]


@pytest.mark.parametrize("kind", ["pfifo", "bfifo", "pfifo_head_drop", "fq"])
def test_a_limit_of_zero_packets_is_told(kind: str) -> None:
    """Linux shows `limit 0p`, and drops all; of codel, fq_codel and pie, it is the default."""
    (line,) = read([Source("wan.sh", f"tc {Q} {kind} limit 0\n")], "tc").lines
    assert "`limit 0` drops all packets" in line.note


def test_a_parent_that_a_line_may_add_is_not_missing() -> None:
    """perhop does not read the line, as it does not know the handle."""
    text = f"tc qdisc add dev v0 root handle $NUMBER: htb\ntc {CLASS}"
    found = read([Source("wan.sh", text)], "tc")
    assert "has no qdisc 1:" in found.lines[1].note
    assert found.refusals == ()
