"""Configurations of ALTQ and pf: classes, filters, and every line accounted for."""

from __future__ import annotations

import random
import time
from ipaddress import ip_network
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from altq import ALTQ_CONF, PACKETS, PF_CONF, class_of, config, notes, policy
from perhop.engines import run
from perhop.experiments.cbq import ROWS
from perhop.gallery import load
from perhop.routers.reading import Fault, source
from perhop.routers.reading.altq import read
from perhop.routers.scenario import around
from perhop.routers.writing import write
from perhop.scenario import parse
from perhop.scenario.model.classes import Policy


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
    expected = of_ipv4(parse_settings(settings_of[0]))
    found = Policy.model_validate(policy(document(row.shares, row.by), "atm0").policy)
    for name, each in expected.classes.items():
        assert found.classes[name] == each.model_copy(update={"unused": False})
    assert (found.cbq, found.scheduler) == (expected.cbq, expected.scheduler)
    if row.shares == (40, 60):
        written = base.model_dump(mode="json", by_alias=True, exclude_unset=True)
        assert found == of_ipv4(written["policies"]["edge"])


def of_ipv4(policy: dict[str, Any]) -> Policy:
    """Return a policy whose matches are of IPv4 alone, as those of ``filter`` are."""
    for each in policy["classes"].values():
        if each["match"] != "any":
            each["match"] = {"ip": 4, **each["match"]}
    return Policy.model_validate(policy)


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
  voice: {match: {ip: 4, dscp: ef}, bandwidth: 10%, priority: 5, queue: {limit: 30 packets}}
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


def test_classes_with_packets_and_children_keep_both() -> None:
    found = policy(ALTQ_CONF, "vx0").policy["classes"]
    inside = found["def_class"]["classes"]
    assert found["def_class"]["bandwidth"] == "93%"
    assert list(inside) == ["tcp_class", "def_class_own"]
    assert inside["tcp_class"]["bandwidth"] == "4 Mbps"
    assert inside["tcp_class"]["classes"]["csl_class"]["bandwidth"] == "25%"
    red = inside["tcp_class"]["classes"]["csl_class"]["queue"]["red"]
    assert (red["min"], red["max"], red["gentle"]) == ("6 packets", "18 packets", False)


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
        ("filter em0 a 0 0 0 0 47", "protocol `47`: perhop has TCP, UDP and ICMP only"),
        ("filter em0 a www.example.org 80 0 0 6",
         "the address of `www.example.org` is not in the configuration"),
        ("filter em0 a 0 0 0", "a port is missing"),
        ("filter em0 a 10.0.0.1 netmask 255.0.255.0 0 0 0 0",
         "`255.0.255.0` is no mask of a prefix"),
        ("red 5 15 10", "perhop sets the thresholds of red from the queue limit"),
        ("interface em1 bandwidth 1M blue", "perhop does not have BLUE"),
    ],
)  # fmt: skip
def test_commands_that_are_not_modelled_say_why(line: str, note: str) -> None:
    text = (
        "interface em0 bandwidth 1M cbq\nclass cbq em0 root NULL pbandwidth 100\n"
        f"class cbq em0 a root pbandwidth 90 default\n{line}\n"
    )
    assert note in notes(text)[4]


def test_priorities_decide_the_order_of_priq() -> None:
    found = policy(PF_CONF, "dc0")
    assert found.policy["scheduler"] == "priority"
    assert list(found.policy["classes"]) == ["q_pri", "q_def"]
    assert found.rate == 550_000


@pytest.mark.parametrize("text", ["", "# nothing", "pass in all\nblock out all\n", "a = 1"])
def test_a_configuration_without_queues_has_no_lines(text: str) -> None:
    found = config(text)
    assert (found.lines, found.attachments) == ((), ())


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


def test_a_class_without_flows_runs() -> None:
    text = (
        "altq on em0 cbq bandwidth 10Mb queue { std, web }\nqueue std bandwidth 50% cbq(default)\n"
        "queue web bandwidth 50% cbq { a, b }\nqueue a bandwidth 50%\nqueue b bandwidth 50%\n"
        "pass in on em0 proto tcp to any port 80 queue a\n"
    )
    around(config(text), "q.conf").scenario()


CBQ = """\
interface em0 bandwidth 10M cbq
class cbq em0 root NULL pbandwidth 100
class cbq em0 a root pbandwidth 60 default
class cbq em0 b root pbandwidth 40 borrow
filter em0 b 0 0 0 0 6
"""
HFSC = """\
interface em0 bandwidth 10M hfsc
class hfsc em0 a root pshare 40 default
class hfsc em0 b root pshare 60 grate 4M
class hfsc em0 c b [sc 3M 10 2M] ulimit 5M
filter em0 c 0 0 0 0 6
"""
PRIQ = """\
interface em0 bandwidth 10M priq
class priq em0 a NULL priority 1 default
class priq em0 b NULL priority 2
filter em0 b 0 0 0 0 6
"""


@pytest.mark.parametrize("text", [CBQ, HFSC, PRIQ])
def test_what_altqd_accepts_is_not_refused(text: str) -> None:
    assert config(text).refusals == ()


@pytest.mark.parametrize(
    ("text", "old", "new", "line", "reason"),
    [
        # do_command, interface_parser and class_parser of parser.c
        (CBQ, "filter em0 b 0", "filters em0 b 0", 5, "unknown command: filters"),
        (CBQ, "interface em0 bandwidth 10M cbq", "interface", 1, "missing interface name"),
        (CBQ, "10M cbq", "10M cbq wrr", 1, "Unknown keyword 'wrr'"),
        (CBQ, "class cbq em0 b", "class hfsc em0 b", 4, "qname doesn't match the interface"),
        (CBQ, "cbq\n", "red\n", 2, "class can't be specified for red"),
        (CBQ, "em0 b root pbandwidth 40 borrow", "em0 b", 4, "missing parent class"),
        (CBQ, "filter em0 b", "filter em0 c", 5, "can't add filter to class 'c' on interface"),
        # qop_cbq.c
        (CBQ, "b root", "b boot", 4, "cbq: bad class: can't add class 'b' on interface 'em0'"),
        (CBQ, "40 borrow", "40 bandwidth 4M", 4, "Unknown keyword 'bandwidth'"),
        (CBQ, "40 borrow", "40 red rio", 4, "both red and rio defined on interface 'em0'"),
        (CBQ, "40 borrow", "140", 4, "bad pbandwidth 140 for b!"),
        (CBQ, "40 borrow", "41", 4, "cbq admission failed! 4100K requested but only 4000K availab"),
        (CBQ, "40 borrow", "40 default", 4, "cbq: bad class value: can't add class 'b'"),
        (CBQ, " default", "", 1, "cbq: no default class on interface em0!"),
        # qop_hfsc.c
        (HFSC, "pshare 40 default", "default", 2, "hfsc: service curve not specified"),
        (HFSC, "[sc 3M 10 2M]", "[xx 3M 10 2M]", 4, "Bad service curve"),
        (HFSC, "[sc 3M 10 2M]", "[sc 1M 10 2M]", 4, "hfsc: m1 must be 0 for convex!"),
        (HFSC, "[sc 3M 10 2M]", "[sc 3M 10 2M] priority 1", 4, "Unknown keyword 'priority'"),
        (HFSC, "grate 4M", "grate 8100K", 3, "hfsc: admission failure (no bandwidth)"),
        (HFSC, "pshare 60", "pshare 61", 3, "hfsc: admission failure (no bandwidth)"),
        (HFSC, "[sc 3M 10 2M]", "[sc 5M 10 2M]", 4, "hfsc: admission failure (no bandwidth)"),
        (HFSC, " grate 4M", "", 4, "hfsc: admission failure (no bandwidth)"),
        (
            HFSC,
            "filter em0 c",
            "filter em0 b",
            1,
            'hfsc: internal class "b" should not have a filter!',
        ),
        (HFSC, " default", "", 1, "hfsc: no default class on interface em0!"),
        # qop_priq.c, and priqcmd_add_class of the kernel
        (PRIQ, "priority 2", "priority 1", 3, "priq: syscall error: can't add class 'b'"),
        (PRIQ, "priority 2", "priority 16", 3, "priq: syscall error: can't add class 'b'"),
        (PRIQ, " default", "", 1, "priq: no default class on interface em0!"),
    ],
)
def test_what_altqd_refuses_is_an_error_with_its_reason(
    text: str, old: str, new: str, line: int, reason: str
) -> None:
    assert old in text
    found = config(text.replace(old, new, 1))
    told = {each.place.line: each.note for each in found.lines if each.fault is Fault.REFUSED}
    assert min(told) == line and f"altqd refuses it: {reason}" in told[line]
    assert found.attachments == () and found.refusals[0].place.line == line
