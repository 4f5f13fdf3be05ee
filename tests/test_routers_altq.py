"""Configurations of ALTQ and pf: each syntax, and every line accounted for."""

from __future__ import annotations

import random
import time
from ipaddress import ip_address, ip_network
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from perhop.engines import run
from perhop.experiments.cbq import ROWS
from perhop.gallery import load
from perhop.routers.reading import Attachment, Configuration, Treatment, source
from perhop.routers.reading.altq import read
from perhop.routers.scenario import around
from perhop.routers.writing import write
from perhop.scenario import parse
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
queue dflt bandwidth 20% hfsc(default realtime 10% linkshare (10Mb 100 20Mb))
queue dev bandwidth 80% qlimit 100 hfsc(upperlimit 40Mb ecn)
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


def document(share: tuple[int, int], by: str) -> str:
    port, protocol = ("2000", "0") if by == "port" else ("0", "17")
    return f"""\
interface atm0 bandwidth 1M cbq no-control
class cbq atm0 root NULL pbandwidth 100
class cbq atm0 slow root pbandwidth {share[0]}
    filter atm0 slow 0 {port} 0 0 {protocol}
class cbq atm0 fast root pbandwidth {share[1]} default
"""


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_classes_of_the_document_are_those_of_the_gallery(row: Any) -> None:
    base = load("altq-cbq")
    settings_of = [s for s in row.settings(ideal=False) if s.startswith("policies.edge=")]
    expected = Policy.model_validate(parse_settings(settings_of[0]))
    found = Policy.model_validate(policy(document(row.shares, row.by), "atm0").policy)
    for name, each in expected.classes.items():
        assert found.classes[name] == each.model_copy(update={"unused": False})
    assert (found.cbq, found.scheduler) == (expected.cbq, expected.scheduler)
    if row.shares == (40, 60):
        assert found == base.policies["edge"]


def parse_settings(text: str) -> Any:
    return yaml.safe_load(text.partition("=")[2])


def test_the_document_runs_as_the_gallery_does() -> None:
    base = load("altq-cbq").model_dump(mode="json", by_alias=True, exclude_unset=True)
    base["duration"] = "3 s"
    tables = []
    for classes in (base["policies"]["edge"], policy(document((40, 60), "port"), "atm0").policy):
        scenario = parse(yaml.safe_dump({**base, "policies": {"edge": classes}}, sort_keys=False))
        tables.append(run(scenario, engine="sim", seed=1).queues)
    assert tables[0].equals(tables[1])


WRITTEN = """
scheduler: altq-cbq
cbq: {rate: 1 Mbps, packet: 576 B, maxburst: 8, minburst: 3, token_bucket: false}
classes:
  outer:
    match: {protocol: tcp, destination: 10.0.0.0/8}
    bandwidth: 60%
    borrow: false
    classes:
      web:
        match: {protocol: tcp, destination: 10.0.0.0/8, destination_port: 80}
        bandwidth: 50%
        priority: 0
        queue: {limit: 45 packets}
      rest: {match: any, bandwidth: 50%, priority: 3, queue: {limit: 30 packets}}
  voice: {match: {dscp: ef}, bandwidth: 10%, priority: 5, queue: {limit: 30 packets}}
  others: {match: any, bandwidth: 30%, priority: 5, queue: {limit: 30 packets}}
"""


def test_what_perhop_writes_is_read_as_it_was() -> None:
    base = load("altq-cbq").model_dump(mode="json", by_alias=True, exclude_unset=True)
    base["policies"]["edge"] = yaml.safe_load(WRITTEN)
    base["flows"] = {}
    scenario = parse(yaml.safe_dump(base, sort_keys=False))
    text, gaps = write(scenario, "altq")
    assert gaps == ()
    found = config(text)
    assert not [line for line in found.lines if line.note]
    assert Policy.model_validate(found.attachments[0].policy) == scenario.policies["edge"]


def test_bursts_of_some_classes_are_those_of_all() -> None:
    text = document((40, 60), "port").replace("pbandwidth 40", "pbandwidth 40 maxburst 8")
    assert policy(text, "atm0").policy["cbq"] == {"rate": "1 Mbps", "maxburst": 8}
    assert "all classes of the interface have maxburst 8" in notes(text)[3]


def test_the_control_class_takes_from_the_default_class() -> None:
    text = document((40, 60), "port").replace(" no-control", "")
    found = policy(text, "atm0").policy["classes"]
    assert list(found) == ["slow", "ctl_class", "fast"]
    assert found["ctl_class"]["match"] == {"protocol": "icmp"}
    assert [found[name]["bandwidth"] for name in found] == ["40%", "2%", "58%"]
    # Priority 6 of 7 is the second highest, 1 the second lowest.
    assert [found[name]["priority"] for name in found] == [6, 1, 6]
    assert "control class" in [each.setting for each in config(text).defaults]


def test_defaults_of_altq_conf_are_listed() -> None:
    found = {each.setting: each.value for each in config(document((40, 60), "port")).defaults}
    assert found["queue limit"] == "30 packets"
    assert found["maxburst"] == "16 packets, or 4 below about 1 Mbps"
    assert found["tbrsize"] == "1500 B"


ADDRESSES = ("0", "10.0.0.1", "10.0.0.2", "10.0.0.0 netmask 255.255.255.0")
FILTERS = st.lists(
    st.tuples(
        st.sampled_from("abc"),
        st.sampled_from((0, 0, 5)),
        st.sampled_from(ADDRESSES),
        st.sampled_from((0, 80, 81)),
        st.sampled_from((0, 80, 81)),
        st.sampled_from((0, 6, 17)),
        st.sampled_from((0, 0x28, 0xB8)),
    ),
    max_size=7,
)
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


@settings(max_examples=60, deadline=None)
@given(filters=FILTERS, discipline=st.sampled_from(("cbq", "priq", "hfsc")))
def test_filters_decide_in_the_order_of_altq(filters: list[Any], discipline: str) -> None:
    parent = {"cbq": "root", "priq": "NULL", "hfsc": "root"}[discipline]
    lines = [f"interface em0 bandwidth 10M {discipline}{' no-control' * (discipline == 'cbq')}"]
    if discipline == "cbq":
        lines.append("class cbq em0 root NULL pbandwidth 100")
    options = {"cbq": "pbandwidth 20", "priq": "", "hfsc": "pshare 20"}[discipline]
    for number, name in enumerate("abcd"):
        rank = f"priority {number}" if discipline == "priq" else ""
        default = "default" if name == "b" else ""
        lines.append(f"class {discipline} em0 {name} {parent} {options} {rank} {default}")
    for name, number, to, to_port, of_port, protocol, tos in filters:
        rule, octet = f"ruleno {number}" * bool(number), f"tos {tos}" * bool(tos)
        lines.append(f"filter em0 {name} {rule} {to} {to_port} 0 {of_port} {protocol} {octet}")
    classes = policy("\n".join(lines), "em0").policy["classes"]
    for packet in PACKETS:
        best: tuple[Any, str] = ((), "b")
        for place, (name, number, to, to_port, of_port, protocol, tos) in enumerate(filters):
            host = "." in to and "netmask" not in to
            prefix = to.split()[0] + ("/24" if "netmask" in to else "")
            if (
                (to == "0" or packet["destination"] in ip_network(prefix))
                and to_port in (0, packet["destination_port"])
                and of_port in (0, packet["source_port"])
                and {0: packet["protocol"], 6: "tcp", 17: "udp"}[protocol] == packet["protocol"]
                and {0: packet["dscp"], 0x28: "af11", 0xB8: "ef"}[tos] == packet["dscp"]
            ):
                best = max(best, ((host, number, place), name))
        assert class_of(classes, packet) == best[1]


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


def test_classes_with_packets_and_children_keep_both() -> None:
    found = policy(ALTQ_CONF, "vx0").policy["classes"]
    inside = found["def_class"]["classes"]
    assert found["def_class"]["bandwidth"] == "93%"
    assert list(inside) == ["tcp_class", "def_class_own"]
    assert inside["tcp_class"]["bandwidth"] == "4 Mbps"
    assert inside["tcp_class"]["classes"]["csl_class"]["bandwidth"] == "25%"
    red = inside["tcp_class"]["classes"]["csl_class"]["queue"]["red"]
    assert (red["min"], red["max"], red["gentle"]) == ("3 packets", "9 packets", False)


def test_conditioners_police_and_mark_what_arrives() -> None:
    found = policy(ALTQ_CONF, "fxp0")
    assert found.direction == "in"
    assert found.policy["classes"]["ef_cdnr"] == {
        "match": {"source": "192.168.0.117"},
        "police": {
            "rate": "6 Mbps",
            "burst": "64 KiB",
            "exceed": "drop",
            "conform": {"remark": "ef"},
        },
    }
    assert found.policy["classes"]["af1x_cdnr"]["police"]["violate"] == {"remark": "af13"}


@pytest.mark.parametrize(
    ("line", "note"),
    [
        ("filter em0 x 0 0 0 0 0", "`x` is not a class of the interface"),
        ("filter em0 a 0 0 0 0 47", "protocol `47`: perhop has TCP, UDP and ICMP only"),
        ("filter em0 a www.example.org 80 0 0 6",
         "the address of `www.example.org` is not in the configuration"),
        ("filter em0 a 0 0 0", "a port is missing"),
        ("filter em0 a 10.0.0.1 netmask 255.0.255.0 0 0 0 0",
         "`255.0.255.0` is no mask of a prefix"),
        ("class cbq em0 b nobody pbandwidth 1", "`nobody` is not a class of the interface"),
        ("class hfsc em0 b root", "the discipline of the interface is cbq"),
        ("red 5 15 10", "perhop sets the thresholds of red from the queue limit"),
        ("interface em1 bandwidth 1M blue", "perhop does not have BLUE"),
        ("nonsense", "unknown statement"),
    ],
)  # fmt: skip
def test_commands_that_are_not_modelled_say_why(line: str, note: str) -> None:
    text = (
        "interface em0 bandwidth 1M cbq\nclass cbq em0 root NULL pbandwidth 100\n"
        f"class cbq em0 a root pbandwidth 90 default\n{line}\n"
    )
    assert note in notes(text)[4]


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


def test_priorities_decide_the_order_of_priq() -> None:
    found = policy(PF_CONF, "dc0")
    assert found.policy["scheduler"] == "priority"
    assert list(found.policy["classes"]) == ["q_pri", "q_def"]
    assert found.rate == 550_000


def test_service_curves_of_pf() -> None:
    found = policy(PF_CONF, "em1").policy
    dev, dflt = found["classes"].values()
    assert found["scheduler"] == "hfsc"
    assert dev["upperlimit"] == {"rate": "40 Mbps"}
    assert dev["queue"]["limit"] == "100 packets"
    assert dflt["realtime"] == {"rate": "4.5 Mbps"}
    # 36 and 20 Mb/s of 45: rates are scaled, and so are times, which keeps the sharing as it is.
    assert dev["bandwidth"] == "64.2857142%"
    assert dflt["linkshare"] == {
        "m1": "8.035714 Mbps",
        "d": "124.4444445 ms",
        "m2": "16.071428 Mbps",
    }
    said = {line.note for line in config(PF_CONF).lines if " hfsc(" in line.text}
    assert all("are given to the classes together" in note for note in said)


def hfsc(*queues: str) -> dict[str, Any]:
    """The policy of an interface of 10 Mb/s with queues a and b, of pf.conf."""
    text = "altq on em0 hfsc bandwidth 10Mb queue { a, b }\n" + "\n".join(queues)
    return policy(text + "\npass out on em0 proto udp queue a\n", "em0").policy


def test_curves_that_say_no_more_than_shares_are_shares() -> None:
    for curves in (
        "realtime 3Mb",
        "realtime 30%",
        "linkshare 30% realtime (30% 10 3Mb)",
        "linkshare (0 0 3Mb)",
    ):
        found = hfsc(
            f"queue a bandwidth 30% hfsc({curves} upperlimit 50%)", "queue b hfsc(default)"
        )
        assert "scheduler" not in found
        assert found["classes"]["a"]["limit"] == "5 Mbps"
    above = hfsc("queue a bandwidth 30% hfsc(upperlimit 11Mb)", "queue b hfsc(default)")
    assert "limit" not in above["classes"]["a"]


@pytest.mark.parametrize(
    ("curves", "expected"),
    [
        ("realtime 1Mb", {"bandwidth": "30%", "realtime": {"rate": "1 Mbps"}}),
        (
            "realtime (2Mb 10 1Mb)",
            {"bandwidth": "30%", "realtime": {"m1": "2 Mbps", "d": "10 ms", "m2": "1 Mbps"}},
        ),
        (
            "realtime (0b, 10, 10%)",
            {"bandwidth": "30%", "realtime": {"d": "10 ms", "m2": "1 Mbps"}},
        ),
        ("linkshare (40% 5 20%)", {"linkshare": {"m1": "4 Mbps", "d": "5 ms", "m2": "2 Mbps"}}),
        (
            "linkshare 20% upperlimit (9Mb 5 50%)",
            {"bandwidth": "20%", "upperlimit": {"m1": "9 Mbps", "d": "5 ms", "m2": "5 Mbps"}},
        ),
    ],
)
def test_curves_that_say_more_are_curves(curves: str, expected: dict[str, Any]) -> None:
    """Percentages are of the parent's bandwidth; so is link sharing unless it has a curve."""
    found = hfsc(f"queue a bandwidth 30% hfsc({curves})", "queue b bandwidth 70% hfsc(default)")
    assert found["scheduler"] == "hfsc"
    of_a = found["classes"]["a"]
    assert {key: of_a[key] for key in of_a if key not in ("match", "queue")} == expected


def test_shares_of_queues_are_of_the_bandwidth_of_their_parent() -> None:
    found = hfsc(
        "queue a bandwidth 40% hfsc(linkshare 20%) { x, y }",
        "queue x bandwidth 25% hfsc(realtime 10%)",
        "queue y bandwidth 10%",
        "queue b bandwidth 60% hfsc(default)",
        "pass out on em0 proto tcp queue x",
        "pass out on em0 proto icmp queue y",
    )
    inside = found["classes"]["a"]
    assert inside["bandwidth"] == "20%"
    # A quarter and a tenth of 4 Mb/s, which are in 2 Mb/s.
    assert [each["bandwidth"] for each in inside["classes"].values()][:2] == ["1 Mbps", "400 kbps"]
    assert inside["classes"]["x"]["realtime"] == {"rate": "400 kbps"}
    # The rate of the interface may be unknown.
    text = (
        "altq on em0 hfsc queue { a, b }\n"
        "queue a bandwidth 40% hfsc(realtime (20% 5 10%) upperlimit 50%)\n"
        "queue b bandwidth 60% hfsc(default)\npass out on em0 proto tcp queue a\n"
    )
    of_a = policy(text, "em0").policy["classes"]["a"]
    assert of_a["realtime"] == {"m1": "20%", "d": "5 ms", "m2": "10%"}
    assert (of_a["bandwidth"], of_a["upperlimit"]) == ("40%", {"rate": "50%"})
    shared = policy(text.replace("realtime (20% 5 10%)", ""), "em0").policy["classes"]["a"]
    assert shared["limit"] == "50%"
    # A guarantee in real time of a class with classes has no effect.
    outer = hfsc(
        "queue a bandwidth 40% hfsc(realtime 10%) { x }",
        "queue x bandwidth 25%",
        "queue b bandwidth 60% hfsc(default)",
        "pass out on em0 proto tcp queue x",
    )
    assert "scheduler" not in outer


def test_service_curves_of_altq_conf() -> None:
    head = "interface em0 bandwidth 10M hfsc\n"
    rest = "\nclass hfsc em0 b root default pshare 50\nfilter em0 a 0 0 0 0 17"
    curve = {"m1": "2 Mbps", "d": "10 ms", "m2": "1 Mbps"}
    for settings_, expected in (
        # Shorthands of altq.conf(5): pshare is link sharing, grate real time, bandwidth both.
        ("pshare 30 grate 3M", {"bandwidth": "30%"}),
        ("bandwidth 3M", {"bandwidth": "30%"}),
        ("[sc 0 0 3M] [ul 9M 0 5M]", {"bandwidth": "30%", "limit": "5 Mbps"}),
        ("pshare 30 grate 1M", {"bandwidth": "30%", "realtime": {"rate": "1 Mbps"}}),
        (
            "[ sc 6M 20 3M ] ulimit 5M",
            {
                "realtime": {"m1": "6 Mbps", "d": "20 ms", "m2": "3 Mbps"},
                "linkshare": {"m1": "6 Mbps", "d": "20 ms", "m2": "3 Mbps"},
                "upperlimit": {"rate": "5 Mbps"},
            },
        ),
        (
            "[rt 0 7 1M] [ls 0 0 3M]",
            {"bandwidth": "30%", "realtime": {"d": "7 ms", "m2": "1 Mbps"}},
        ),
        # Without link sharing, a class never borrows.
        ("grate 1M", {"bandwidth": "10%", "limit": "1 Mbps"}),
        (
            "[rt 2M 10 1M]",
            {"bandwidth": "10%", "realtime": curve, "upperlimit": curve},
        ),
    ):
        text = f"{head}class hfsc em0 a root {settings_}{rest}"
        found = policy(text, "em0").policy
        of_a = found["classes"]["a"]
        assert {key: of_a[key] for key in of_a if key not in ("match", "queue")} == expected
        assert ("scheduler" in found) == any(
            key in expected for key in ("realtime", "linkshare", "upperlimit")
        )
        assert notes(text) == {}, settings_
    for wrong in ("[rt 2M 10 0]", "[rt 2M x 1M]", "[xx 0 0 1M]"):
        assert notes(f"{head}class hfsc em0 a root pshare 30 {wrong}{rest}").keys() == {2}


@pytest.mark.parametrize(
    ("first", "expected"),
    [("", ["50%", "50%"]), ("bandwidth 30%", ["30%", "70%"]), ("bandwidth 300Kb", None)],
)
def test_queues_without_a_bandwidth_divide_what_the_others_leave(
    first: str, expected: list[str] | None
) -> None:
    text = (
        "altq on em0 cbq bandwidth 10Mb queue { ssh, std }\n"
        "queue std bandwidth 90% cbq(default)\n"
        "queue ssh bandwidth 10% cbq(borrow) { a, b }\n"
        f"queue a {first} cbq(borrow)\nqueue b cbq(borrow)\n"
        "pass out on em0 proto tcp to any port 22 queue a\n"
        "pass out on em0 proto tcp to any port 23 queue b\n"
    )
    inner = policy(text, "em0").policy["classes"]["ssh"]["classes"]
    assert [each["bandwidth"] for each in inner.values()] == (expected or ["300 kbps", "70%"])
    assert "an equal part of the rest" in notes(text)[5]
    assert ("an equal part of the rest" in notes(text).get(4, "")) == (not first)
    alone = policy(text.replace("{ a, b }", "{ b }"), "em0").policy["classes"]["ssh"]["classes"]
    assert alone["b"]["bandwidth"] == "100%"


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


def test_bursts_of_openbsd_are_first_slopes_of_the_curve_before_them() -> None:
    text = (
        "queue top on em0 bandwidth 100M max 100M\n"
        "queue a parent top bandwidth 20M burst 90M for 100ms min 5M burst 10M for 50ms "
        "max 40M burst 60M for 10ms\n"
        "queue b parent top bandwidth 80M default\nmatch out on em0 proto udp set queue a\n"
    )
    of_a = policy(text, "em0").policy["classes"]["a"]
    assert of_a["linkshare"] == {"m1": "90 Mbps", "d": "100 ms", "m2": "20 Mbps"}
    assert of_a["realtime"] == {"m1": "10 Mbps", "d": "50 ms", "m2": "5 Mbps"}
    assert of_a["upperlimit"] == {"m1": "60 Mbps", "d": "10 ms", "m2": "40 Mbps"}
    assert notes(text) == {}
    limited = text.replace("max 100M", "max 100M burst 120M for 5ms")
    assert "the rate in the long run" in notes(limited)[1]
    for wrong in ("min 0K burst 1M for 5ms", "min 5M burst 10M", "min 5M burst x for 5ms"):
        assert notes(text.replace("min 5M burst 10M for 50ms", wrong)).keys() == {2}


@pytest.mark.parametrize("text", ["", "# nothing", "pass in all\nblock out all\n", "a = 1"])
def test_a_configuration_without_queues_has_no_lines(text: str) -> None:
    found = config(text)
    assert (found.lines, found.attachments) == ((), ())


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


@pytest.mark.parametrize(
    "text",
    [
        "altq on em0 cbq bandwidth 1Mb queue {" + "a " * 20_000,
        "a = \"x x\"\n" + "".join(f"a{n} = \"$a{n - 1} $a{n - 1}\"\n" for n in range(1, 60))
        + "pass out on $a59 queue x",
        "interface em0 cbq\nclass cbq em0 a NULL\n"
        + "".join(f"class cbq em0 c{n} {f'c{n - 1}' if n else 'a'}\n" for n in range(2000)),
        "conditioner em0 x " + "<tbmeter 1M 1K " * 5000,
        "pass out from { " + "! 1.2.3.4 " * 4000 + "} queue x",
        "altq on em0 priq queue {" + "".join(f"q{n}\n" for n in range(4000)) + "}",
        "altq on em0 priq queue {" + "q\n" * 4000 + "}\nqueue q",
    ],
    ids=["list", "macros", "depth", "actions", "addresses", "lines", "repeated"],
)  # fmt: skip
def test_hostile_text_takes_little(text: str) -> None:
    begin = time.process_time()
    read([source(text, "q.conf")])
    assert time.process_time() - begin < 2


def test_the_time_of_reading_grows_with_the_text_only() -> None:
    def took(count: int) -> float:
        draw = random.Random(1)
        lines = ["altq on em0 priq queue {a b}", "queue a", "queue b priq(default)"]
        lines += [
            f"pass out on em0 proto tcp to 10.0.{draw.randrange(256)}.{draw.randrange(256)} "
            f"port {draw.randrange(1, 9999)} queue {draw.choice('ab')}"
            for _ in range(count)
        ]
        begin = time.process_time()
        config_ = read([source("\n".join(lines), "q.conf")])
        assert len(config_.lines) == count + 3
        return time.process_time() - begin

    took(100)
    # A busy machine slows some of the readings down.
    assert any(took(6_000) < 5 * took(3_000) for _ in range(4))


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


@pytest.mark.parametrize(
    "text",
    [
        "interface em0 bandwidth 10M hfsc\nclass hfsc em0 a root default priority 3 pshare 50\n",
        "altq on em0 hfsc bandwidth 10Mb queue { a }\nqueue a priority 3 hfsc(default)\n",
    ],
)
def test_priorities_of_hfsc_have_no_effect(text: str) -> None:
    assert "HFSC serves by service curves: `priority` has no effect" in notes(text)[2]


def test_settings_of_red_at_an_interface() -> None:
    text = "interface em0 bandwidth 10M red qlimit 60 thmin 5 thmax 15 invpmax 20 weight 256 ecn\n"
    red = policy(text, "em0").policy["classes"]["red"]["queue"]["red"]
    assert (red["min"], red["max"], red["probability"]) == ("5 packets", "15 packets", "5%")
    assert (red["weight"], red["ecn"]) == ("0.390625%", True)
    assert notes(text) == {}


def test_what_belongs_to_a_discipline_that_perhop_lacks_says_so() -> None:
    text = (
        "altq on em0 fairq bandwidth 1Mb queue { std }\nqueue std fairq(default)\n"
        "pass out on em0 queue std\n"
    )
    assert notes(text) == {
        1: "perhop does not have fairq",
        2: "perhop does not have the discipline of its interface",
        3: "the queue `std` is not modelled",
    }
    text = (
        "interface em0 bandwidth 1M jobs\nclass jobs em0 a NULL priority 0\nfilter em0 a 0 0 0 0 17"
    )
    assert notes(text)[3] == "the class or conditioner `a` is not modelled"
    text = (
        "interface em0\nconditioner em0 c <tswtcm 1M 2M 5 <pass><pass><drop>>\n"
        "filter em0 c 0 0 0 0 6\n"
    )
    assert notes(text)[3] == "the class or conditioner `c` is not modelled"


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


def test_classes_without_flows_and_shares_above_the_whole_run() -> None:
    inner = (
        "altq on em0 cbq bandwidth 10Mb queue { std, web }\nqueue std bandwidth 50% cbq(default)\n"
        "queue web bandwidth 50% cbq { a, b }\nqueue a bandwidth 50%\nqueue b bandwidth 50%\n"
        "pass in on em0 proto tcp to any port 80 queue a\n"
    )
    above = (
        "interface em0 bandwidth 10M cbq no-control\nclass cbq em0 root NULL pbandwidth 100\n"
        "class cbq em0 a root default pbandwidth 70\nclass cbq em0 b root pbandwidth 60\n"
        "filter em0 b 0 0 0 0 6\n"
    )
    for text in (inner, above):
        around(config(text), "q.conf").scenario()
    assert "130% are given to the classes together" in notes(above)[3]


def test_a_rule_for_ipv6_alone_has_its_addresses() -> None:
    text = (
        "altq on em0 priq bandwidth 10Mb queue { a, b }\n"
        "queue a priority 3\nqueue b priq(default)\n"
        "pass out on em0 inet6 proto tcp to port 22 queue a\n"
    )
    match = read([source(text, "pf.conf")]).attachments[0].policy["classes"]["a"]["match"]
    assert match == {"protocol": "tcp", "source": "::/0", "destination_port": 22}
