"""Configurations of pf: rules, queues and what is not modelled."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from altq import OPENBSD, PACKETS, PF_CONF, class_of, config, notes, policy
from perhop.routers.reading import Treatment, source
from perhop.routers.reading.altq import read


@settings(max_examples=60, deadline=None)
@given(
    rules=st.lists(
        st.tuples(
            st.booleans(),
            st.sampled_from(("", "to 10.0.0.1", "to 10.0.0.0/24", "to ! 10.0.0.1")),
            st.sampled_from(("", "port 80", "port 80:81", "port != 80", "port > 80")),
            st.sampled_from(("tcp", "udp", "{ tcp, udp }")),
            st.sampled_from(("queue a", "queue b", "queue c", "")),
        ),
        max_size=7,
    )
)
def test_the_last_rule_of_pf_decides_or_a_quick_one(rules: list[Any]) -> None:
    lines = ["altq on em0 priq bandwidth 10Mb queue { a, b, c }"]
    lines += [f"queue {name} priority {number} {'priq(default)' * (name == 'b')}"
              for number, name in enumerate("abc")]  # fmt: skip
    for quick, to, port, protocol, queue in rules:
        to = to or ("to any" if port else "")
        lines.append(f"pass out {'quick' * quick} on em0 proto {protocol} {to} {port} {queue}")
    classes = policy("\n".join(lines), "em0").policy["classes"]
    for packet in PACKETS:
        decided = "b"
        for quick, to, port, protocol, queue in rules:
            address = str(packet["destination"])
            number = packet["destination_port"]
            if (
                packet["protocol"] in protocol
                and {
                    "": True,
                    "to 10.0.0.1": address == "10.0.0.1",
                    "to 10.0.0.0/24": address.startswith("10.0.0."),
                    "to ! 10.0.0.1": address != "10.0.0.1",
                }[to]
                and {"": True, "port 80": number == 80, "port 80:81": True,
                     "port != 80": number != 80, "port > 80": number > 80}[port]
            ):  # fmt: skip
                decided = queue.removeprefix("queue ") or "b"
                if quick:
                    break
        assert class_of(classes, packet) == decided


def test_macros_tables_and_replies_of_pf() -> None:
    found = policy(PF_CONF, "fxp0").policy["classes"]
    packet = {**PACKETS[0], "protocol": "tcp", "destination": ip_address("203.0.113.1")}
    for change, expected in (
        ({"source": ip_address("10.0.0.7"), "destination_port": 443}, "developers"),
        ({"source": ip_address("192.168.1.5"), "destination_port": 8080}, "employees"),
        ({"source": ip_address("192.168.1.6"), "destination_port": 8080}, "std"),
        ({"destination_port": 22}, "ssh_bulk"),
        ({"destination_port": 22, "dscp": "ef"}, "ssh_interactive"),
        ({"source_port": 25, "destination_port": 4000}, "mail"),
    ):
        assert class_of(found, {**packet, "source_port": 4000, "dscp": "be", **change}) == expected
    assert "anchors" in notes(PF_CONF)[20]
    lines = [line.place.line for line in config(PF_CONF).lines]
    assert lines[:3] == [1, 3, 5]  # the macros of queues, and not the other one


def test_the_longest_prefix_of_a_table_decides() -> None:
    rules = """\
table <phones> { 10.1.0.9, 10.1.0.0/24, !10.1.0.8/29, 2001:db8::/32 !2001:db8::/33 }
altq on em0 priq bandwidth 10Mb queue { voice, rest }
queue voice priority 2
queue rest priority 1 priq(default)
pass out on em0 from <phones> to any queue voice
"""
    found = policy(rules, "em0").policy["classes"]
    for sender, expected in (
        ("10.1.0.1", "voice"),
        ("10.1.0.8", "rest"),
        ("10.1.0.9", "voice"),
        ("10.2.0.1", "rest"),
    ):
        assert class_of(found, {**PACKETS[0], "source": ip_address(sender)}) == expected
    assert "2001:db8:8000::/33" in str(found["voice"]["match"])


@pytest.mark.parametrize("first", ["100%", "30%", "300Kb"])
def test_queues_without_a_bandwidth_have_that_of_their_parent(first: str) -> None:
    """pfctl of FreeBSD only warns of a sum above the parent's."""
    text = (
        "altq on em0 cbq bandwidth 10Mb queue { ssh, std }\n"
        "queue std bandwidth 90% cbq(default)\n"
        "queue ssh bandwidth 10% cbq(borrow) { a, b }\n"
        f"queue a bandwidth {first} cbq(borrow)\nqueue b cbq(borrow)\n"
        "pass out on em0 proto tcp to any port 22 queue a\n"
        "pass out on em0 proto tcp to any port 23 queue b\n"
    )
    inner = policy(text, "em0").policy["classes"]["ssh"]["classes"]
    expected = [first.replace("Kb", " kbps"), "100%"]
    assert [each["bandwidth"] for each in inner.values()] == expected
    assert notes(text) == {}


KEPT = {
    "altq": "altq on em0 priq bandwidth 10Mb queue { std, web, ssh }\nqueue std priq(default)\n"
    "queue web priority 5\nqueue ssh priority 7\n",
    "openbsd": "queue main on em0 bandwidth 10M\nqueue std parent main bandwidth 5M default\n"
    "queue web parent main bandwidth 3M\nqueue ssh parent main bandwidth 2M\n",
}


@pytest.mark.parametrize("queues", KEPT)
@pytest.mark.parametrize(
    ("rules", "web", "other"),
    [
        # A rule without a queue leaves the packet the one that it has.
        ("pass in on em1 proto tcp to port 80 QUEUE web\npass out on em0", "web", "std"),
        ("pass in on em1 proto tcp to port 80 QUEUE web\npass out quick on em0", "web", "std"),
        ("pass in on em1 proto tcp to port 80 QUEUE web\npass out", "web", "std"),
        ("pass in on em1 QUEUE web\npass out on em0 proto tcp to port 80", "web", "web"),
        ("pass in on em1 QUEUE web\npass out on em0 proto udp", "web", "web"),
        ("pass in on { em1 em0 } QUEUE web\npass out on em0", "web", "web"),
        # One with a queue decides, and one without after it undoes that, but not the first queue.
        (
            "pass in on em1 QUEUE web\npass out on em0 proto tcp to port 80 QUEUE ssh",
            "ssh",
            "web",
        ),
        (
            "pass in on em1 QUEUE web\npass out on em0 proto tcp QUEUE ssh\n"
            "pass out on em0 proto tcp to port 80",
            "web",
            "ssh",
        ),
        ("pass out on em0 proto tcp to port 80 QUEUE ssh\npass out on em0", "std", "std"),
        # At the interface of arrival the last rule decides, too; those of others do not count.
        ("pass in on em1 proto tcp to port 80 QUEUE web\npass in on em1\npass out", "std", "std"),
        ("pass in on em1 proto tcp to port 80 QUEUE web\npass in on em2\npass out", "web", "std"),
        (
            "pass in quick on em1 proto tcp to port 80 QUEUE web\npass in on em1\npass out",
            "web",
            "std",
        ),
    ],
)
def test_packets_keep_a_queue_that_no_later_rule_replaces(
    queues: str, rules: str, web: str, other: str
) -> None:
    """`pf_test` sets the queue of a packet only if the state or the rule has one.

    FreeBSD: `if (s && s->qid) … else if (r->qid) …; if (action == PF_PASS && pd.act.qid)`.
    """
    keyword = "queue" if queues == "altq" else "set queue"
    text = f"{KEPT[queues]}{rules.replace('QUEUE', keyword)}\n"
    classes = policy(text, "em0").policy["classes"]
    packet = {**PACKETS[0], "protocol": "tcp", "source_port": 4000, "dscp": "be"}
    got = [class_of(classes, {**packet, "destination_port": port}) for port in (80, 443)]
    assert got == [web, other]


def test_queues_of_openbsd() -> None:
    found = policy(OPENBSD, "em0")
    assert found.rate == 90_000_000
    classes = found.policy["classes"]
    assert list(classes) == ["ssh", "mail", "http"]
    assert classes["ssh"]["match"] == {"protocol": "tcp", "destination_port": "22-23"}
    assert (found.policy["scheduler"], classes["mail"]["bandwidth"]) == ("hfsc", "10%")
    assert classes["mail"]["realtime"] == {"rate": "5 Mbps"}
    assert classes["mail"]["upperlimit"] == {"rate": "25 Mbps"}
    assert classes["http"]["queue"]["fq-codel"] == {"flows": 1024, "quantum": "300 B"}


@pytest.mark.parametrize(
    "rule",
    [
        "pass out on em0 from <nowhere> queue a",
        "pass out on em0 proto gre queue a",
        "pass out on em0 tagged X queue a",
        "pass out on em0 to ! www.example.org queue a",
        "block out on em0 queue a",
    ],
)
def test_rules_that_are_not_modelled_assign_nothing(rule: str) -> None:
    text = f"altq on em0 cbq bandwidth 1Mb queue {{ a b }}\nqueue a bandwidth 50%\n" \
        f"queue b bandwidth 50% cbq(default)\n{rule}\n"  # fmt: skip
    found = config(text)
    assert list(found.attachments[0].policy["classes"]) == ["b"]
    assert found.lines[3].treatment is Treatment.NOT_MODELLED


QUEUES = (
    "altq on em0 priq bandwidth 10Mb queue { web, rest }\n"
    "queue web priority 5\n"
    "queue rest priq(default)\n"
)


def web(*rules: str) -> Any:
    """The packets of queue web."""
    return policy(QUEUES + "\n".join(rules) + "\n", "em0").policy["classes"]["web"]["match"]


def test_blocked_packets_get_no_queue() -> None:
    only = {"protocol": "tcp", "destination_port": 80}
    passed = "pass out on em0 proto tcp to any port 80 queue web"
    lost = {"except": {"destination": "10.0.0.0/8"}}
    for rules in (
        ("block out quick on em0 to 10.0.0.0/8", passed),
        ("block return quick on em0 from any to 10/8", passed),
        (passed, "block drop out on em0 to 10.0.0.0/8"),
    ):
        assert web(*rules) == [lost, only], rules
    # A default that later rules override, and blocks of which the file does not tell the packets.
    for rule in ("block all", "block in quick to 10/8", "block out quick to <a>"):
        assert web(rule, passed) == only, rule
    received = "pass in on em1 proto tcp to any port 80 queue web"
    assert web("block in quick on em1 to 10/8", received) == [lost, only]
    said = notes(QUEUES + "block out quick on em0 to 10.0.0.0/8\n" + passed)
    assert said == {4: "its packets get no queue of a rule; perhop leaves them to the default one"}


def test_nothing_replies_to_what_is_blocked() -> None:
    text = QUEUES + "block in quick on em0 proto tcp\npass in on em0 proto tcp to port 80 queue web"
    assert "a rule before it or a `quick` one blocks all its packets" in notes(text)[5]
    assert "web" not in policy(text, "em0").policy["classes"]


def test_classes_whose_rules_never_decide_say_so() -> None:
    text = QUEUES + "pass out on em0 proto tcp to port 22 queue web\npass out on em0 queue rest\n"
    assert notes(text)[2].startswith("other rules, which decide, take all packets")


def test_words_of_pf_that_other_systems_write() -> None:
    assert web("pass out on em0 proto udp to any tracker 1477 queue web") == {"protocol": "udp"}
    assert web("match in on em0 proto tcp to port 25 rdr-to 127.0.0.1 port spamd queue web") == {
        "protocol": "tcp",
        "source_port": 25,
    }
    codel = "altq on em0 codelq( target 10 ecn ) bandwidth 10Mb queue { a }\n"
    assert policy(codel, "em0").policy["classes"]["codel"]["queue"]["codel"]["target"] == "10 ms"
    none = "queue q on em0 bandwidth 1M max 1M\nqueue a parent q bandwidth 1M min 0K default\n"
    assert notes(none) == {}


def test_a_share_of_an_interface_is_its_shaper() -> None:
    text = "altq on em0 priq bandwidth 50% queue { a }\nqueue a priq(default)\n"
    found = policy(text, "em0")
    assert (found.rate, found.shape) == (None, {"rate": "50%"})
    assert notes(text) == {}


def test_a_rule_for_ipv6_alone_has_its_addresses() -> None:
    text = (
        "altq on em0 priq bandwidth 10Mb queue { a, b }\n"
        "queue a priority 3\nqueue b priq(default)\n"
        "pass out on em0 inet6 proto tcp to port 22 queue a\n"
    )
    match = read([source(text, "pf.conf")]).attachments[0].policy["classes"]["a"]["match"]
    assert match == {"ip": 6, "protocol": "tcp", "destination_port": 22}


SETTING = KEPT["openbsd"]


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ("pass out on em0 inet proto tcp set queue web", {"tcp4": "web"}),
        ("pass out on em0 inet6 set queue web", {"tcp6": "web", "icmp6": "web"}),
        ("pass out on em0 inet from any to <both> set queue web", {"tcp4": "web", "icmp4": "web"}),
        ("pass out on em0 proto icmp set queue web", {"icmp4": "web"}),
        ("pass out on em0 proto icmp6 set queue web", {"icmp6": "web"}),
        ("pass out on em0 from any to ! <ten> set queue web", {"tcp6": "web", "icmp6": "web"}),
        ("pass out on em0 to ! 2001:db8::9 set queue web", {"tcp6": "web", "icmp6": "web"}),
        ("pass in on em1 proto tcp to <ten> set queue web\npass in on em1 inet\npass out", {}),
        ("match out on em0 proto tcp set queue web\npass out quick on em0", {
            "tcp4": "web", "tcp6": "web"}),
        ("pass out quick on em0\nmatch out on em0 proto tcp set queue web", {}),
        ("pass out on em0 proto tcp set queue web\nmatch out set queue ssh", {
            "tcp4": "web", "tcp6": "web", "icmp4": "ssh", "icmp6": "ssh"}),
        ("match in on em1 inet set queue web\npass in on em1\npass out", {
            "tcp4": "web", "icmp4": "web"}),
        ("set skip on { lo, em }\npass out on em0 inet set queue web", {}),
    ],
)  # fmt: skip
def test_versions_and_match_rules_of_pf(rules: str, expected: dict[str, str]) -> None:
    tables = "table <both> { 10.0.0.0/8, 2001:db8::/32 }\ntable <ten> { 10.0.0.0/8 }\n"
    classes = policy(f"{SETTING}{tables}{rules}\n", "em0").policy["classes"]
    for version, sender, receiver in ((4, "192.0.2.1", "10.0.0.1"), (6, "2001::1", "2001:db8::1")):
        ends = {"source": ip_address(sender), "destination": ip_address(receiver)}
        for protocol in ("tcp", "icmp"):
            packet = {**PACKETS[0], **ends, "protocol": protocol}
            found = class_of(classes, packet)
            assert found == expected.get(f"{protocol}{version}", "std"), (protocol, version)


def test_rules_without_a_queue_whose_packets_are_unknown_are_noted() -> None:
    rules = "pass out quick on em0 proto tcp user root\npass out on em0 proto tcp set queue web\n"
    assert "has no condition `user`: its packets" in notes(f"{SETTING}{rules}")[5]


@pytest.mark.parametrize(
    ("rule", "note"),
    [
        (
            "match out on em0 proto tcp to port 80 set delay 200",
            "delays of rules (`set delay`) are not modelled",
        ),
        ("match out on em0 proto tcp to port 80 dnpipe 1", "pipes of dummynet are not modelled"),
    ],
)
def test_rules_that_delay_packets_are_listed_without_a_queue(rule: str, note: str) -> None:
    assert notes(f"{SETTING}{rule}\n")[5] == note


def test_groups_of_interfaces_are_noted() -> None:
    rule = "pass out on GROUP proto tcp set queue web\n"
    for group, note in (
        ("egress", "perhop takes every interface for one with a default route (`egress`)"),
        ("lan", "perhop takes `lan` for interfaces without queues"),
        ("em", None),
        ("em0", None),
    ):
        assert notes(SETTING + rule.replace("GROUP", group)).get(5) == note, group
