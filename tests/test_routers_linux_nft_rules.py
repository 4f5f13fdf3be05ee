"""Rules of nft and iptables in many forms: each is read right, noted, or refused as in Linux."""

from typing import Any

import pytest

from perhop.routers.reading.configuration import Configuration, Source
from perhop.routers.reading.linux import read

HTB = (
    "tc qdisc add dev eth0 root handle 1: htb default 20\n"
    "tc class add dev eth0 parent 1: classid 1:1 htb rate 10mbit\n"
    "tc class add dev eth0 parent 1:1 classid 1:10 htb rate 5mbit ceil 10mbit\n"
    "tc class add dev eth0 parent 1:1 classid 1:20 htb rate 5mbit ceil 10mbit\n"
    "tc filter add dev eth0 parent 1: protocol all prio 1 handle 1 fw flowid 1:10\n"
)
CHAIN = (
    "table inet m {{\n chain post {{\n  type filter hook postrouting priority -150\n{}\n }}\n}}\n"
)


def of_rules(rules: str) -> Configuration:
    """Return the policy of HTB with rules of a chain, from line 4 of `r.nft` on."""
    return read([Source("tc.sh", HTB), Source("r.nft", CHAIN.format(rules))])


def notes(found: Configuration) -> dict[int, str]:
    """Return the notes of lines that are not modelled as they are; those of `tc.sh` excepted."""
    return {
        line.place.line: line.note for line in found.lines if line.note and line.text[:2] != "tc"
    }


def matched(found: Configuration) -> Any:
    """Return what the class 1:10 matches; None if no packet is in it."""
    classes = found.attachments[0].policy["classes"]
    return classes["c10"]["match"] if "c10" in classes else None


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("meta nfproto ipv6 return", [{"except": {"ip": 6}}, {"protocol": "udp"}]),
        ("meta protocol ip6 accept", [{"except": {"ip": 6}}, {"protocol": "udp"}]),
        (
            "udp dport vmap { 53 : accept, 123 : return }",
            [
                {"except": {"protocol": "udp", "destination_port": [53, 123]}},
                {"protocol": "udp"},
            ],
        ),
        (
            "ip daddr 10.0.0.2-10.0.0.3 return",
            [{"except": {"destination": "10.0.0.2/31"}}, {"protocol": "udp"}],
        ),
        ("ct state vmap { invalid : drop }", {"protocol": "udp"}),
        ("iifname lo accept", {"protocol": "udp"}),
        ("oifname eth1 accept", {"protocol": "udp"}),
    ],
)
def test_rules_that_end_a_chain_keep_packets_from_later_ones(before: str, expected: Any) -> None:
    found = of_rules(f"{before}\nmeta l4proto udp meta mark set 1")
    assert matched(found) == expected
    assert notes(found) == {}


@pytest.mark.parametrize(
    "before",
    [
        "ct state established accept",
        "ct state vmap { established : accept, invalid : drop }",
        "ip daddr @lan return",
        "ip dscp vmap @m",
        "iifname eth9 accept",
        "iifname { eth8, eth9 } accept",
        "oifname != eth0 return",
        'oifname "wan*" return',
    ],
)
@pytest.mark.parametrize(
    "rule",
    [
        "udp dport 53 meta mark set 1",
        "udp dport 53 meta priority set 1:10",
        "udp dport 53 limit rate over 100 kbytes/second drop",
    ],
)
def test_what_follows_a_rule_that_may_end_a_chain_is_noted(before: str, rule: str) -> None:
    told = notes(of_rules(f"{before}\n{rule}"))
    assert told.keys() == {4, 5}
    assert "it applies to all packets here, as perhop cannot tell what r.nft:4" in told[5]
    assert notes(of_rules(f"{before}\nudp dport 99 accept")).keys() <= {4}
    alone = notes(of_rules(f"{rule}\n{before}"))
    assert "cannot tell" not in str(alone)
    assert (5 in alone) is ("@m" in before)


def test_a_return_ends_no_chain_that_called() -> None:
    inner = " }\n chain inner {\n  ct state established return\n  udp dport 9 counter"
    assert notes(of_rules(f"jump inner\nudp dport 53 meta mark set 1\n{inner}")) == {}
    inner = inner.replace("return", "accept")
    assert notes(of_rules(f"jump inner\nudp dport 53 meta mark set 1\n{inner}")).keys() == {5, 8}


def test_maps_of_verdicts_in_json() -> None:
    rule = (
        '{"nftables": [{"metainfo": {"json_schema_version": 1}}, {"chain": {"family": "inet", '
        '"table": "m", "name": "c", "handle": 1, "type": "filter", "hook": "postrouting", '
        '"prio": 0, "policy": "accept"}}, {"rule": {"family": "inet", "table": "m", "chain": "c", '
        '"handle": 2, "expr": [{"vmap": {"key": {"payload": {"protocol": "udp", "field": '
        '"dport"}}, "data": {"set": [[53, {"accept": null}], [123, {"return": null}]]}}}]}}, '
        '{"rule": {"family": "inet", "table": "m", "chain": "c", "handle": 3, "expr": '
        '[{"match": {"op": "==", "left": {"meta": {"key": "l4proto"}}, "right": "udp"}}, '
        '{"mangle": {"key": {"meta": {"key": "mark"}}, "value": 1}}]}}]}'
    )
    found = read([Source("tc.sh", HTB), Source("r.json", rule)])
    both = {"protocol": "udp", "destination_port": [53, 123]}
    assert matched(found) == [{"except": both}, {"protocol": "udp"}]


DNS = {"protocol": "udp", "destination_port": 53}
WEB = {"protocol": "tcp", "destination_port": 80}
SSH = {"protocol": "tcp", "destination_port": 22}
BOTH = {"protocol": "udp", "destination_port": [53, 123]}
HEAD = "type filter hook postrouting priority -150"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            f"table inet m {{ chain c {{ {HEAD}; udp dport 53 meta mark set 1; "
            "tcp dport 80 meta mark set 1 }\n}\n",
            [DNS, WEB],
        ),
        (
            f"table inet m {{\nchain c {{\n{HEAD}; policy accept; udp dport 53 counter; tcp dport "
            "22 meta mark set 1\n}\n}\n",
            SSH,
        ),
        (
            f"table inet m {{\nchain c {{ {HEAD}; jump d; }}\n"
            "chain d { tcp dport 80 meta mark set 1; udp dport 53 meta mark set 1; }\n}\n",
            [WEB, DNS],
        ),
        (
            f"table inet m {{\nset s {{ type inet_service; elements = {{ 1,\n 2 }} }}\nchain c {{\n"
            f"{HEAD}\nudp dport {{ 53,\n  123 }} meta mark set 1 # a; b\n}}\n}}\n",
            BOTH,
        ),
        (
            "define wan = eth0\ndefine p = { 53, 123 }\ndefine port = 22\n"
            f"table inet m {{ chain c {{ {HEAD}\noifname $wan udp dport $p meta mark set 1\n"
            "oifname eth1 tcp dport 80 meta mark set 1\ntcp dport { $port } meta mark set 1\n} }",
            [BOTH, SSH],
        ),
        (
            "add table inet m; add chain inet m c { "
            f"{HEAD}; }}\nadd rule inet m c udp dport 53 \\\n meta mark set 1; "
            "add rule inet m c tcp dport 22 meta mark set 1",
            [DNS, SSH],
        ),
    ],
)
def test_statements_of_files_of_nft(text: str, expected: Any) -> None:
    found = read([Source("tc.sh", HTB), Source("r.nft", text)])
    assert matched(found) == expected
    assert notes(found) == {}


def test_unknown_variables_of_nft_are_noted() -> None:
    told = notes(of_rules("oifname $lan udp dport 53 meta mark set 1"))
    assert told == {4: "the value of $lan is not in the file"}
    told = notes(of_rules("ip saddr $lan accept\nudp dport 53 meta mark set 1"))
    assert told.keys() == {4, 5}


COMMANDS = (
    f"{HTB}nft add table inet m\nnft add chain inet m c '{{ {HEAD}; }}'\n"
    "nft add rule inet m c udp dport 53 meta mark set 1\n"
)


@pytest.mark.parametrize(
    ("commands", "expected", "said"),
    [
        ("nft flush chain inet m c", None, {}),
        ("nft flush table inet m", None, {}),
        ("nft delete chain inet m c", None, {}),
        ("nft delete table inet m", None, {}),
        ("nft destroy table inet m", None, {}),
        ("nft flush ruleset", None, {}),
        ("nft flush ruleset inet", None, {}),
        ("nft flush ruleset ip", DNS, {}),
        ("nft delete table ip m", DNS, {}),
        ("nft flush chain inet m d", DNS, {}),
        ("nft list ruleset", DNS, {}),
        ("nft 'flush chain inet m c; add rule inet m c tcp dport 80 meta mark set 1'", WEB, {}),
        ("nft rule inet m c tcp dport 80 meta mark set 1", [DNS, WEB], {}),
        (
            f"nft create chain inet m d '{{ {HEAD}; }}'\n"
            "nft add rule inet m d tcp dport 80 meta mark set 1",
            [DNS, WEB],
            {},
        ),
        ("nft create rule inet m c tcp dport 80 meta mark set 1", DNS, {9: "not modelled"}),
        ("nft delete rule inet m c handle 2", DNS, {9: "does not know the handles"}),
        ("nft replace rule inet m c handle 2 accept", DNS, {9: "does not know the handles"}),
        ("nft rename chain inet m c d", DNS, {9: "does not rename"}),
        ("nft -f /etc/nftables.conf", DNS, {9: "give their file"}),
        ("if true; then nft flush ruleset; fi", DNS, {9: "in a branch"}),
        ("nft flush chain inet m $C", DNS, {9: "the value of $C is not in the script"}),
        ("nft add rule inet m c ip saddr $C accept", DNS, {}),
        (
            "nft insert rule inet m c ip saddr $C accept",
            DNS,
            {8: "it applies to all packets", 9: "the value of $C is not in the script"},
        ),
    ],
)
def test_commands_of_nft(commands: str, expected: Any, said: dict[int, str]) -> None:
    found = read([Source("x.sh", f"{COMMANDS}{commands}\n")])
    assert matched(found) == expected
    told = notes(found)
    if expected is None or "flush chain inet m c" in commands:
        assert told.pop(8) == "deleted by line 9"
    assert told.keys() == said.keys()
    assert all(part in told[line] for line, part in said.items())


def test_flushing_all_rules_removes_those_of_iptables() -> None:
    rule = "iptables -t mangle -A POSTROUTING -p udp --dport 53 -j MARK --set-mark 1\n"
    found = read([Source("x.sh", f"{HTB}{rule}nft flush ruleset\n")])
    assert matched(found) is None
    assert "iptables-legacy" in notes(found)[7]


ADD = "iptables -t mangle -A FORWARD"
DELETE = "iptables -t mangle -D FORWARD"


@pytest.mark.parametrize(
    ("added", "deleted", "same"),
    [
        # As iptables 1.8.9 does it.
        (
            "-p udp --dport 53 -j MARK --set-mark 1",
            "-p udp -m udp --dport 53 -j MARK --set-mark 0x1",
            1,
        ),
        ("-p udp --dport 53 -j MARK --set-mark 1", "-p 17 --dport 53:53 -j MARK --set-xmark 1", 1),
        ("-p udp -j MARK --set-xmark 1/1", "-p 17 -j MARK --or-mark 1", 1),
        ("-s 10.1.2.3/8 -j MARK --set-mark 1", "-j MARK --set-mark 1 -s 10.0.0.0/8", 1),
        ("-p udp -j MARK --set-mark 1", "-p udp -m udp -j MARK --set-mark 1", 0),
        ("-p udp -j MARK --set-mark 1", "-p udp -j MARK --set-mark 2", 0),
        ("-m comment --comment x -j MARK --set-mark 1", "-j MARK --set-mark 1", 0),
        ("-p udp -j CLASSIFY --set-class 1:10", "-p udp -j CLASSIFY --set-class 0001:0010", 1),
    ],
)  # fmt: skip
def test_iptables_deletes_the_rule_of_the_same_meaning(added: str, deleted: str, same: int) -> None:
    found = read([Source("x.sh", f"{HTB}{ADD} {added}\n{DELETE} {deleted}\n")])
    assert ("deleted by line 7" in str(notes(found))) is bool(same)
    assert (matched(found) is None) is bool(same)


@pytest.mark.parametrize(
    ("protocol", "expected", "note"),
    [
        ("0", "any", ""),
        ("all", "any", ""),
        ("ip", "any", ""),
        ("17", "udp", ""),
        ("gre", None, "no packet of a scenario is of `gre`"),
        ("47", None, "no packet of a scenario is of `47`"),
        ("wine", None, "`-p wine` is no condition of a scenario"),
        ("300", None, "`-p 300` is no condition of a scenario"),
    ],
)
def test_protocols_of_iptables(protocol: str, expected: str | None, note: str) -> None:
    rule = f"iptables -t mangle -A POSTROUTING -p {protocol} -j CLASSIFY --set-class 1:10\n"
    found = read([Source("x.sh", f"{HTB}{rule}")])
    assert note in notes(found).get(6, "")
    match = matched(found)
    assert match == (expected and {"ip": 4, **({"protocol": "udp"} if expected == "udp" else {})})


def test_iptables_refuses_classes_before_routing() -> None:
    rule = "iptables -t mangle -A PREROUTING -p udp -j CLASSIFY --set-class 1:10\n"
    found = read([Source("x.sh", f"{HTB}{rule}")])
    assert matched(found) is None
    assert "iptables refuses CLASSIFY in the chain PREROUTING" in notes(found)[6]


def test_linux_sets_priorities_anew_where_it_forwards() -> None:
    rules = CHAIN.replace("postrouting", "prerouting")
    for header, expected in (("meta nfproto ipv4", None), ("", {"ip": 6, **DNS})):
        text = rules.format(f"{header} udp dport 53 meta priority set 1:10")
        found = read([Source("tc.sh", HTB), Source("r.nft", text)])
        assert matched(found) == expected
        assert "another priority where it forwards" in notes(found)[4]
    marks = read([Source("tc.sh", HTB), Source("r.nft", rules.format("udp dport 53 mark set 1"))])
    assert (matched(marks), notes(marks)) == (DNS, {})


@pytest.mark.parametrize(
    ("first", "second", "noted"),
    [
        ("udp dport 53 meta priority set 1:10", "udp dport 53-60 meta priority set 1:20", True),
        ("udp dport 53 meta mark set 1", "meta mark 0 meta mark set 2", True),
        ("udp dport 53 ip dscp set ef", "ip dscp ef meta mark set 1", True),
        ("udp dport 53 meta priority set 1:10", "tcp dport 53 meta priority set 1:20", False),
        ("udp dport 53 meta mark set 1", "udp meta mark set 1", False),
        ("udp dport 53 meta mark set 1", "udp dport 53 meta priority set 1:10", False),
        ("oifname eth0 meta mark set 1", "oifname eth1 meta mark set 2", False),
    ],
)
@pytest.mark.parametrize("priority", ["-150", "-149"])
def test_chains_of_one_hook_and_priority(
    first: str, second: str, noted: bool, priority: str
) -> None:
    other = HEAD.replace("-150", priority)
    found = of_rules(f"{first}\n }}\n chain other {{\n  {other}\n{second}")
    told = notes(found).get(8, "")
    assert ("r.nft:4 is first" in told) is (noted and priority == "-150")


@pytest.mark.parametrize(
    ("qdisc", "set_class", "noted"),
    [
        ("cake bandwidth 10mbit diffserv4", "1:4", True),
        ("cake bandwidth 10mbit diffserv4", "2:4", False),
        ("fq_codel", "1:4", True),
        ("pfifo", "1:4", False),
    ],
)
def test_priorities_that_choose_a_tin_or_a_queue(qdisc: str, set_class: str, noted: bool) -> None:
    rule = f"iptables -t mangle -A POSTROUTING -p udp -j CLASSIFY --set-class {set_class}\n"
    found = read([Source("x.sh", f"tc qdisc add dev eth0 root handle 1: {qdisc}\n{rule}")])
    assert ["chooses their tin" in line.note for line in found.lines] == [noted, False]


@pytest.mark.parametrize(
    ("inner", "action", "noted"),
    [
        ("prio", "priority 2:1", True),
        ("prio", "mark 1", True),
        ("fq_codel", "priority 2:1", True),
        ("fq_codel", "mark 1", False),
        ("pfifo", "priority 2:1", False),
    ],
)
def test_skbedit_for_qdiscs_in_classes(inner: str, action: str, noted: bool) -> None:
    found = read([
        Source(
            "x.sh",
            f"{HTB}tc qdisc add dev eth0 parent 1:10 handle 2: {inner}\n"
            "tc filter add dev eth0 parent 1: protocol ip prio 2 u32 match ip dport 53 0xffff "
            f"action skbedit {action} flowid 1:10\n",
        )
    ])  # fmt: skip
    note = "what `skbedit` sets here does not count for qdiscs in classes"
    assert (note in [line.note for line in found.lines]) is noted


UDP_TABLE = (
    "table {} m {{\n {}\n chain c {{\n  type filter hook {} priority 0\n"
    "  meta l4proto udp meta mark set 1\n }}\n}}\n"
)


@pytest.mark.parametrize(
    ("family", "flags", "hook", "expected"),
    [
        ("inet", "", "postrouting", {"protocol": "udp"}),
        ("inet", "flags dormant", "postrouting", None),
        ("netdev", "", "egress device eth0", {"protocol": "udp"}),
        ("netdev", "", "egress devices = { eth0, eth1 }", {"protocol": "udp"}),
        ("netdev", "", "egress devices = { eth1, eth2 }", None),
        ("bridge", "", "postrouting", None),
    ],
)
def test_tables_that_see_the_packets(family: str, flags: str, hook: str, expected: Any) -> None:
    text = UDP_TABLE.format(family, flags, hook)
    found = read([Source("tc.sh", HTB), Source("r.nft", text)])
    assert matched(found) == expected
    said = "packets that are routed pass no chain of `bridge`"
    assert [said in note for note in notes(found).values()] == [True] * (family == "bridge")


def test_chains_of_several_interfaces_in_json() -> None:
    chain = (
        '{{"chain": {{"family": "netdev", "table": "m", "name": "c", "handle": 1, "dev": {}, '
        '"hook": "egress", "prio": 0, "type": "filter", "policy": "accept"}}}}'
    )
    rule = (
        '{"rule": {"family": "netdev", "table": "m", "chain": "c", "handle": 2, "expr": ['
        '{"match": {"op": "==", "left": {"meta": {"key": "l4proto"}}, "right": "udp"}}, '
        '{"mangle": {"key": {"meta": {"key": "mark"}}, "value": 1}}]}}'
    )
    for devices, expected in (('["eth1", "eth0"]', {"protocol": "udp"}), ('["eth1"]', None)):
        text = f'{{"nftables": [{chain.format(devices)}, {rule}]}}'
        assert matched(read([Source("tc.sh", HTB), Source("r.json", text)])) == expected
