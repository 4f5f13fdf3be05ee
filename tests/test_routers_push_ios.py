"""Configurations of IOS as XML of the native models of IOS-XE; no router is needed."""

from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings

from conftest import Outcome
from exporting import classes, network, scenario
from perhop import Scenario
from perhop.errors import UnsupportedError
from perhop.routers.pushing import PushError
from perhop.routers.pushing.iosxe import IosXe, statements, text
from perhop.routers.reading import Source
from perhop.routers.reading.ios import read
from perhop.routers.writing import write
from test_routers_push import POLICIES
from test_routers_roundtrip import policies

VERSIONS = (
    "a: match: {source: a, destination: [b, 192.0.2.0/24, 2001:db8::/32]}, priority: strict",
    "b: match: [{except: {protocol: udp, source: '2001:db8::1', port: 5000-5010}}, "
    "{dscp: [1, 44, ef], source: '2001:db8::/31'}]",
)
WRED = (
    "a: match: {dscp: [0, 1, 2, 3, 4, 5, 6, 7, 10]}, queue: {wred: {by: dscp, ecn: true, "
    "weight: 25%, profiles: [{dscp: [af11, le], min: 9 packets, max: 19 packets}]}}",
    "b: match: {dscp: cs1}, queue: {wred: {}}",
    "c: match: {dscp: cs2}, queue: {fq-codel: {flows: 64, target: 3600 s, interval: 7200 s, "
    "ecn: false}}",
)
NESTED = (
    "a: match: {dscp: 1}, bandwidth: 4 Mbps, limit: 50%, classes: {x: {match: {protocol: icmp}, "
    "unused: true, priority: strict}, y: {match: any, unused: true}}"
)
REST = "rest: match: any, mark: af11, queue: {limit: 20 ms}"
KINDS = {
    **POLICIES,
    "versions": scenario(*VERSIONS, REST),
    "wred": scenario(*WRED, REST),
    "nested": scenario(NESTED, REST),
    "levels": scenario("a: match: {dscp: 1}", "b: match: {dscp: 2}", REST, scheduler="priority"),
}


def written(found: Scenario) -> str:
    there, gaps = write(found, "ios", links=["r>s"], approximate=True)
    assert gaps == ()
    return there


def having(policy: IosXe) -> ElementTree.Element:
    """The configuration of a router with an interface and nothing else, after the edit."""
    interface = "<interface><GigabitEthernet><name>0/1</name></GigabitEthernet></interface>"
    found = ElementTree.fromstring(
        policy.edit(ElementTree.fromstring(f"<native>{interface}</native>"))
    )
    for each in found.iter():
        each.tag = each.tag.rpartition("}")[2]
    return found


def comes_back(found: Scenario) -> None:
    """Check that XML says the same as the text that it was made of."""
    before = written(found)
    policy = IosXe(before)
    sent = having(policy)
    assert policy.differences(sent) == []
    assert statements(sent) == list(policy.lines(sent))
    again = text(sent)
    assert IosXe(again).lines(sent) == policy.lines(sent)
    said, meant = (read([Source("r", each)]).attachments for each in (again, before))
    assert [(each.policy, each.rate, each.shape) for each in said] == [
        (each.policy, each.rate, each.shape) for each in meant
    ]


@pytest.mark.parametrize("name", KINDS)
def test_xml_says_the_same_as_the_text(name: str) -> None:
    comes_back(KINDS[name])


@settings(max_examples=10)
@given(policies())
def test_any_policy_of_ios_comes_back_from_xml(found: Scenario) -> None:
    comes_back(found)


def test_elements_and_namespaces_are_those_of_the_models() -> None:
    police = "police: {rate: 1 Mbps, burst: 8 kB, exceed: {remark: af12}, excess_burst: 4 kB}"
    sent = IosXe(
        written(
            scenario(
                f"a: match: {{dscp: ef, source: 10.0.0.0/8, destination_port: 80}}, {police}", REST
            )
        )
    )
    root = ElementTree.fromstring(sent.edit(having(sent)))
    cisco, netconf = (
        "http://cisco.com/ns/yang/Cisco-IOS-XE",
        "urn:ietf:params:xml:ns:netconf:base:1.0",
    )
    ns = {each: f"{cisco}-{each}" for each in ("native", "policy", "acl")}
    assert root.tag == f"{{{ns['native']}}}native"
    rule = "native:ip/native:access-list/acl:extended/acl:access-list-seq-rule/acl:ace-rule"
    action = "native:policy/policy:policy-map/policy:class/policy:action-list"
    police = f"{action}/policy:police-policy-map/policy:police/policy:actions"
    exceed = f"{police}/policy:exceed-set-dscp-transmit-table/policy:exceed-action"
    interface = "native:interface/native:GigabitEthernet"
    for path, value in {
        f"{rule}/acl:mask": "0.255.255.255",
        "native:policy/policy:class-map/policy:match/policy:dscp": "ef",
        f"{exceed}/policy:set-dscp-transmit": "af12",
        f"{interface}/policy:service-policy/policy:output": "p",
        f"{interface}/native:bandwidth/native:kilobits": "10000",
    }.items():
        found = root.find(path, ns)
        assert found is not None, path
        assert found.text == value
    replaced = [each.tag for each in root.iter() if each.get(f"{{{netconf}}}operation")]
    assert replaced == [
        f"{{{ns[module]}}}{name}"
        for module, name in (
            ("acl", "extended"),
            ("policy", "class-map"),
            ("policy", "policy-map"),
        )
    ]


def test_every_difference_is_named() -> None:
    policy = IosXe(written(KINDS["two colours"]))
    there = having(policy)
    burst = there.find("policy/policy-map/class/action-list/police-policy-map/police/bc")
    assert burst is not None
    burst.text = "1500"
    police = (
        "policy-map p class a police cir 1000000 bc {} conform-action transmit exceed-action drop"
    )
    assert policy.differences(there) == [
        f"lacks: {police.format(8000)}",
        f"also has: {police.format(1500)}",
    ]
    burst.text = "8000"
    # The models have names for ports, and two elements for this mark; both mean the same.
    port = there.find("ip/access-list/extended/access-list-seq-rule/ace-rule/src-eq")
    assert port is not None
    port.text = "domain"
    assert policy.differences(there) == []
    [of_class] = there.findall("policy/policy-map/class[name='a']")
    trust = ElementTree.SubElement(of_class, "action-list")
    ElementTree.SubElement(trust, "action-type").text = "trust"
    ElementTree.SubElement(trust, "trust").text = "dscp"
    assert policy.differences(there) == [
        "also has: policy-map p class a action-list action-type trust",
        "also has: policy-map p class a action-list trust dscp",
    ]
    of_class.remove(trust)
    # All commands are there, but in another order of classes.
    [map_] = there.findall("policy/policy-map")
    map_[1:] = [*map_[2:], map_[1]]
    assert policy.differences(there) == [
        "has another policy at GigabitEthernet0/1, direction out: other statements of the router "
        "change what these do"
    ]
    assert policy.differences(None)[0].startswith("lacks: ip access-list extended b 10 permit udp")


@pytest.mark.parametrize("name", ["two rates", "versions", "wred"])
def test_nothing_that_is_missing_goes_unnoticed(name: str) -> None:
    policy = IosXe(written(KINDS[name]))
    there = having(policy)
    for parent in list(there.iter()):
        for index, each in enumerate(list(parent)):
            if (each.tag, each.text) != ("queue-limit-type", "packets"):  # the default
                parent.remove(each)
                assert policy.differences(there) != [], (parent.tag, each.tag, each.text)
                parent.insert(index, each)
    assert policy.differences(there) == []


def test_marks_of_either_element_are_read() -> None:
    policy = IosXe(written(KINDS["remarked"]))
    there = having(policy)
    for each in there.iter("actions"):
        mark = each.find("exceed-set-dscp-transmit-table")
        assert mark is not None
        mark.tag = "exceed-set-dscp-transmit"
        for leaf in mark.iter("set-dscp-transmit"):
            leaf.tag, leaf.text = "set-dscp-transmit-config", "0"
    assert policy.differences(there) == []


@pytest.mark.parametrize(
    ("line", "interface", "said"),
    [
        (
            "wred: {profiles: [{dscp: [0, 1, 2, 3, 4, 5, 6, 7], min: 9 packets, max: 19 packets}, "
            "{dscp: [8, 9, 10, 11, 12, 13, 14, 15], min: 9 packets, max: 18 packets}]}",
            "GigabitEthernet0/0/1",
            r"policy-map p, class class-default, random-detect precedence 1 9 18 10: the model has "
            r"thresholds for one precedence only; expected `by: dscp`",
        ),
        ("limit: 9 packets", "Gi0/1", "interface Gi0/1: perhop sets no policy there by NETCONF"),
        ("limit: 9 packets", "Port-channel1.7", r"interface Port-channel1\.7: perhop sets no"),
    ],
)
def test_what_the_models_lack_is_refused(line: str, interface: str, said: str) -> None:
    found = scenario(f"all: match: any, queue: {{{line}}}")
    wanted, gaps = write(found, "ios", links=["r>s"], interfaces={"r>s": interface})
    assert gaps == ()
    with pytest.raises(UnsupportedError, match=said):
        IosXe(wanted)


def test_an_access_list_needs_a_letter_first() -> None:
    with pytest.raises(UnsupportedError, match="ip access-list extended _a: the name of an access"):
        IosXe(written(scenario("_a: match: {protocol: tcp}", REST)))


def test_a_push_creates_no_interface() -> None:
    policy = IosXe(written(KINDS["remainder"]))
    with pytest.raises(PushError, match="has no interface GigabitEthernet0/1; expected one of"):
        policy.edit(None)


def test_a_policy_that_cannot_be_sent_ends_the_command(
    perhop: Callable[..., Outcome], place: Path
) -> None:
    (place / "edge.yaml").write_text(network(classes("all: match: any")))
    code, _, err = perhop(
        *("export", "edge.yaml", "--to", "ios", "--approximate", "--interface", "r>s=Gi0/1"),
        *("--push", "netconf://a@127.0.0.1:9"),
    )
    assert (code, "expected the full name of an interface" in err) == (3, True), err
