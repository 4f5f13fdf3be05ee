"""What `tc show` and `nft list` print of a running machine, with `-j` and without."""

import json
import random
from typing import Any

import pytest

from perhop.routers.reading import detect
from perhop.routers.reading.configuration import Attachment, Configuration, Source, Treatment
from perhop.routers.reading.linux import read
from perhop.scenario import parse

# As iproute2 6.1 prints them; classes are text in spite of -j, and u32 repeats a key.
QDISCS = """\
[{"kind":"noqueue","handle":"0:","dev":"lo","root":true,"refcnt":2,"options":{}},\
{"kind":"htb","handle":"1:","dev":"eth0","root":true,"refcnt":3,"options":{"r2q":10,\
"default":"0x30","direct_packets_stat":0,"direct_qlen":1000},"bytes":0,"packets":0},\
{"kind":"pfifo","handle":"10:","dev":"eth0","parent":"1:10","options":{"limit":50}},\
{"kind":"fq_codel","handle":"20:","dev":"eth0","parent":"1:20","options":{"limit":1000,\
"flows":64,"quantum":300,"target":4999,"interval":99999,"memory_limit":33554432,"drop_batch":64}}]
"""
CLASSES = """\
class htb 1:1 root rate 10Mbit ceil 10Mbit linklayer ethernet burst 15Kb/1 mpu 0b cburst 1600b/1 \
mpu 0b level 7
 Sent 0 bytes 0 pkt (dropped 0, overlimits 0 requeues 0)
 lended: 0 borrowed: 0 giants: 0

class htb 1:10 parent 1:1 leaf 10: prio 0 rate 2Mbit ceil 10Mbit burst 1600b cburst 1600b
class htb 1:20 parent 1:1 leaf 20: prio 1 rate 3Mbit ceil 10Mbit burst 1599b cburst 1600b
class htb 1:30 parent 1:1 prio 1 rate 5Mbit ceil 10Mbit burst 1600b cburst 1600b
"""
HEAD = (
    '{"protocol":"ip","pref":1,"kind":"u32","chain":0},'
    '{"protocol":"ip","pref":1,"kind":"u32","chain":0,"options":{"fh":"800:","ht_divisor":1}}'
)
FILTERS = f"""\
[{HEAD},{{"parent":"1:","protocol":"ip","pref":1,"kind":"u32","chain":0,"options":{{"fh":"800::800",\
"order":2048,"key_ht":"800","bkt":"0","flowid":"1:10","not_in_hw":true,"match":{{"value":"b80000",\
"mask":"fc0000","offmask":"","off":0}}}}}},
{{"parent":"1:","protocol":"ip","pref":1,"kind":"u32","chain":0,"options":{{"fh":"800::801",\
"key_ht":"800","bkt":"0","flowid":"1:20","match":{{"value":"50","mask":"ffff","offmask":"",\
"off":20}},"match":{{"value":"60000","mask":"ff0000","offmask":"","off":8}}}}}}]
"""
SCRIPT = """\
tc qdisc add dev eth0 root handle 1: htb default 30 r2q 10
tc class add dev eth0 parent 1: classid 1:1 htb rate 10mbit burst 15k
tc class add dev eth0 parent 1:1 classid 1:10 htb rate 2mbit ceil 10mbit prio 0
tc class add dev eth0 parent 1:1 classid 1:20 htb rate 3mbit ceil 10mbit prio 1
tc class add dev eth0 parent 1:1 classid 1:30 htb rate 5mbit ceil 10mbit prio 1
tc qdisc add dev eth0 parent 1:10 handle 10: pfifo limit 50
tc qdisc add dev eth0 parent 1:20 fq_codel limit 1000 flows 64 quantum 300 target 4.999ms \
interval 99.999ms noecn
tc filter add dev eth0 protocol ip parent 1: prio 1 u32 match ip tos 0xb8 0xfc flowid 1:10
tc filter add dev eth0 protocol ip parent 1: prio 1 u32 match ip dport 80 0xffff \
match ip protocol 6 0xff flowid 1:20
"""
RULES = {
    "nftables": [
        {"metainfo": {"version": "1.0.6", "json_schema_version": 1}},
        {"table": {"family": "inet", "name": "qos", "handle": 1}},
        {"chain": {"table": "qos", "name": "voice"}},
        {"chain": {"table": "qos", "name": "post", "hook": "postrouting", "type": "filter"}},
    ]
}


def reading(*texts: str) -> Configuration:
    return read([Source(f"state{number}", text) for number, text in enumerate(texts)])


def out(found: Configuration) -> Attachment:
    return next(each for each in found.attachments if each.direction == "out")


def qdiscs(*objects: dict[str, Any]) -> str:
    return json.dumps([{"handle": "1:", "dev": "eth0", "root": True, **each} for each in objects])


def filters(*objects: dict[str, Any], **more: Any) -> str:
    first = {"protocol": "ip", "pref": 1, "parent": "1:", **more}
    return json.dumps([{**first, **each} for each in objects])


def rules(*expressions: list[dict[str, Any]], chain: str = "post") -> str:
    rows = [{"rule": {"table": "qos", "chain": chain, "expr": each}} for each in expressions]
    return json.dumps({"nftables": [*RULES["nftables"], *rows]})


def match(left: dict[str, Any], right: object, op: str = "==") -> dict[str, Any]:
    return {"match": {"op": op, "left": left, "right": right}}


def payload(protocol: str, field: str) -> dict[str, Any]:
    return {"payload": {"protocol": protocol, "field": field}}


@pytest.mark.parametrize(
    "texts", [(QDISCS + CLASSES + FILTERS,), (QDISCS, CLASSES, FILTERS), (FILTERS, CLASSES, QDISCS)]
)
def test_the_state_of_a_machine_reads_as_the_script_that_made_it(texts: tuple[str, ...]) -> None:
    found, script = reading(*texts), read([Source("wan.sh", SCRIPT)])
    assert out(found).policy == out(script).policy
    assert out(found).shape == out(script).shape
    assert out(found).interface == "eth0"
    assert found.counts == {Treatment.MODELLED: 3 + 4 + 4}, found.lines
    assert detect.detect([Source("x", text) for text in texts]) == "linux"


def test_outputs_can_be_repeated() -> None:
    whole = QDISCS + CLASSES + FILTERS
    found = reading(whole, whole)
    assert out(found).policy == out(reading(whole)).policy
    assert found.counts == {Treatment.MODELLED: 22}


def test_each_object_is_a_line_at_its_place() -> None:
    found = reading(FILTERS.replace("[", "\n[\n", 1), QDISCS + CLASSES)
    assert [(line.place.file[-1], line.place.line) for line in found.lines] == [
        *[("0", 3)] * 3, ("0", 4), *[("1", 1)] * 3, ("1", 2), *[("1", line) for line in (6, 7, 8)],
    ]  # fmt: skip
    assert found.lines[3].text.startswith('{"parent":"1:","protocol":"ip","pref":1,"kind":"u32"')


def test_json_of_later_versions_of_tc_has_classes_too() -> None:
    rows = [
        {"class": "htb", "handle": "1:1", "root": True, "rate": 1_250_000, "ceil": 1_250_000,
         "burst": 15360, "cburst": 1600},
        {"class": "htb", "handle": "1:10", "parent": "1:1", "leaf": "10:", "prio": 0,
         "rate": 250_000, "ceil": 1_250_000, "burst": 1600, "cburst": 1600},
        {"class": "htb", "handle": "1:20", "parent": "1:1", "prio": 1, "rate": 375_000,
         "ceil": 1_250_000, "burst": 1599, "cburst": 1600},
        {"class": "htb", "handle": "1:30", "parent": "1:1", "prio": 1, "rate": 625_000,
         "ceil": 1_250_000, "burst": 1600, "cburst": 1600},
    ]  # fmt: skip
    found = reading(QDISCS, json.dumps(rows), FILTERS)
    assert out(found).policy == out(reading(QDISCS, CLASSES, FILTERS)).policy


def test_outputs_without_a_name_belong_to_the_interface_of_the_command() -> None:
    nameless = QDISCS.replace('"dev":"eth0",', "")
    named = out(reading(f"# tc -j qdisc show dev wan0\n{nameless}\n{CLASSES}{FILTERS}"))
    assert named.interface == "wan0"
    assert out(reading(nameless + CLASSES + FILTERS)).interface == "interface"
    found = reading(nameless + nameless + CLASSES)
    assert [each.interface for each in found.attachments] == ["interface", "interface2"]
    assert "several interfaces can have it" in found.lines[-1].note


@pytest.mark.parametrize(
    ("shown", "queue"),
    [
        (
            {"kind": "red", "options": {"limit": 60000, "min": 5000, "max": 15000, "ecn": True,
             "probability": 0.1}},
            ("red", "max", "15 kB"),
        ),
        ({"kind": "codel", "options": {"limit": 99, "target": 2500, "interval": 50000}},
         ("codel", "target", "2.5 ms")),
        ({"kind": "tbf", "options": {"rate": 125000, "burst": 10240, "lat": 50000}},
         ("limit", "", "16490 B")),
    ],
)  # fmt: skip
def test_queues(shown: dict[str, Any], queue: tuple[str, str, str]) -> None:
    attachment = out(reading(qdiscs(shown)))
    kind, key, value = queue
    (found,) = attachment.policy["classes"].values()
    got = found["queue"][kind]
    assert (got[key] if key else got) == value
    if shown["kind"] == "tbf":
        assert attachment.policy["htb"]["rate"] == "1 Mbps"


def test_disciplines_that_print_text_among_json() -> None:
    text = (
        '[{"kind":"hfsc","handle":"1:","dev":"eth0","root":true,"options":{default 2 }}]\n'
        "class hfsc 1:1 parent 1: ls m1 0bit d 0us m2 6Mbit\n"
        "class hfsc 1:2 parent 1: ls m1 0bit d 0us m2 2Mbit\n"
    )
    filter_ = {"kind": "fw", "options": {"fw": {"mark": "0x10", "mask": "0xff"}, "classid": "1:1"}}
    mark = rules([match(payload("ip", "dscp"), "ef"), {"mangle": {
        "key": {"meta": {"key": "mark"}}, "value": 0x10}}])  # fmt: skip
    found = reading(text, filters(filter_), mark)
    classes = out(found).policy["classes"]
    assert [each["bandwidth"] for each in classes.values()] == ["6 Mbps", "2 Mbps"]
    assert classes["c1"]["match"] == {"ip": 4, "dscp": "ef"}
    assert out(found).policy["overhead"] == "14 B"
    assert [line.note for line in found.lines if line.note] == []
    assert detect.detect([Source("x", text)]) == "linux"


def test_actions_and_flower() -> None:
    police = {"kind": "police", "index": 1, "rate": 625_000, "burst": 10240, "mtu": 2047,
              "control_action": {"type": "drop"}}  # fmt: skip
    keys = {"eth_type": "ipv4", "ip_proto": "udp", "dst_port": {"start": 5000, "end": 5010},
            "ip_tos": "0xb8/0xfc", "src_ip": "10.0.0.0/8"}  # fmt: skip
    shown = {"kind": "flower", "options": {"handle": 1, "keys": keys, "actions": [police]}}
    ingress = '[{"kind":"ingress","handle":"ffff:","parent":"ffff:fff1","dev":"eth0"}]'
    found = reading(ingress, filters(shown, parent="ffff:"))
    (attachment,) = found.attachments
    assert attachment.direction == "in"
    assert attachment.policy["classes"]["filter1"] == {
        "match": {"dscp": "ef", "protocol": "udp", "source": "10.0.0.0/8",
                  "destination_port": "5000-5010"},
        "police": {"rate": "5 Mbps", "burst": "10 KiB"},
    }  # fmt: skip


def test_rules_of_nft() -> None:
    found = reading(
        QDISCS + CLASSES,
        rules(
            [match(payload("ip", "dscp"), {"set": [5, "af31"]}), {"jump": {"target": "voice"}}],
            [match(payload("th", "dport"), {"set": [53, {"range": [5000, 5010]}]}),
             match(payload("ip", "saddr"), {"prefix": {"addr": "10.0.0.0", "len": 8}}),
             {"mangle": {"key": payload("ip", "dscp"), "value": "cs1"}},
             {"mangle": {"key": {"meta": {"key": "priority"}}, "value": "1:20"}},
             {"counter": {"packets": 0, "bytes": 0}}, {"accept": None}],
            [{"vmap": {"key": payload("ip", "dscp"), "data": "@rates"}},
             {"mangle": {"key": {"meta": {"key": "mark"}}, "value": 3}}],
            [match(payload("tcp", "dport"), 22), {"accept": None}],
        ),
        rules(
            [{"limit": {"rate": 125, "burst": 3000, "per": "second", "inv": True,
                        "rate_unit": "kbytes", "burst_unit": "bytes"}}, {"drop": None}],
            [{"mangle": {"key": {"meta": {"key": "priority"}}, "value": "1:10"}}],
            chain="voice",
        ),
    )  # fmt: skip
    policy = out(found).policy
    classes = policy["classes"]
    assert classes["c10"]["match"] == {"ip": 4, "dscp": [5, "af31"]}
    # Packets of c20 pass the limit, too.
    assert policy["policers"]["limit"]["match"] == {"ip": 4, "dscp": [5, "af31"]}
    assert policy["policers"]["limit"]["police"]["rate"] == "1.024 Mbps"
    assert classes["c20"]["mark"] == "cs1"
    assert [line.note for line in found.lines if line.note] == [
        "the rule is not modelled: `vmap` is not a DSCP; expected a name such as `cs1` or a number "
        "from 0 to 63"
    ]


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ('[{"kind":"htb","x":' + "[" * 100_000, "nested more than"),
        ('[{"kind":"htb","x":' + "[" * 50 + "]" * 50 + "}]", "nested more than"),
        ('[{"kind":"htb","dev":"eth0"', "no valid JSON"),
        ('[{"kind":"htb","dev":"eth0"}]', "it has no `parent`"),
        ('[{"kind":"htb","dev":"eth0","root":true,"options":{"r2q":{}}}]', ""),
        ('[{"kind":"u32","pref":1,"protocol":"ip","options":{"fh":"x","key_ht":"z"}}]', "invalid"),
        ('[{"kind":"tbf","root":true,"dev":"e","options":{"rate":1e999}}]', "is not a rate"),
        ("[{]}{[}\nclass htb 1:1 root\n", ""),
    ],
)
def test_malformed_output_is_noted(text: str, note: str) -> None:
    found = reading(text)
    assert note in " ".join(line.note for line in found.lines)


def test_mutated_output_never_fails() -> None:
    whole = QDISCS + CLASSES + FILTERS + rules([match(payload("ip", "dscp"), "ef")])
    chance = random.Random(15)
    for _ in range(150):
        text = list(whole)
        for _ in range(chance.randrange(1, 6)):
            at = chance.randrange(len(text))
            text[at : at + chance.choice((0, 1, 9))] = chance.choice('{}[]",:0x \nZ')
        reading("".join(text))


def test_a_scenario_runs_with_the_state_of_a_machine() -> None:
    policy = out(reading(QDISCS, CLASSES, FILTERS)).policy
    text = {
        "perhop": 1, "name": "x", "nodes": {"a": "host", "b": "host"}, "duration": "1 s",
        "links": [{"ends": ["a", "b"], "rate": "10 Mbps", "egress": {"a": "p"}}],
        "policies": {"p": policy},
    }  # fmt: skip
    assert parse(json.dumps(text)).policies["p"].classes.keys() == {"c10", "c20", "c30"}


def test_size_tables_that_tc_prints_count_as_in_the_script() -> None:
    # `tc -d -j qdisc show dev eth0` and `tc -d class show dev eth0` of iproute2 6.1 on Linux 6.18.
    printed = (
        '[{"kind":"htb","handle":"1:","dev":"eth0","root":true,"refcnt":3,"options":{"r2q":10,'
        '"default":"0x10","direct_packets_stat":0,"ver":"3.17","direct_qlen":1000},"stab":'
        '{"linklayer":"atm","overhead":24,"mpu":64,"mtu":2047,"tsize":512}}]\n',
        "class htb 1:10 root prio 0 quantum 25000 rate 2Mbit ceil 2Mbit linklayer ethernet burst "
        "1600b/1 mpu 0b cburst 1600b/1 mpu 0b level 0\n",
    )
    script = (
        "tc qdisc add dev eth0 root handle 1: stab overhead 24 mpu 64 linklayer atm "
        "htb default 10\n"
        "tc class add dev eth0 parent 1: classid 1:10 htb rate 2mbit\n"
    )
    state = [Source(f"state{number}", text) for number, text in enumerate(printed)]
    (shown,) = read(state).attachments
    (said,) = read([Source("wan.sh", script)]).attachments
    assert shown.policy["htb"] == said.policy["htb"]
    assert said.policy["htb"]["overhead"] == "38 B atm mpu 64 B"
