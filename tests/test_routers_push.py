"""Addresses of routers, and configurations of Junos as XML; no router is needed."""

from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from conftest import Outcome
from exporting import classes, network, scenario
from perhop.errors import UsageError
from perhop.printable import printable
from perhop.routers.pushing import Settings, Target, target
from perhop.routers.pushing.junos import Junos
from perhop.routers.reading import Source
from perhop.routers.reading.junos import read
from perhop.routers.writing import write
from test_routers_roundtrip import (
    EXCEPT,
    IN_BYTES,
    POLICED,
    REMARKED,
    SENT,
    SINGLE_RATE,
    TWO_COLOURS,
    TWO_RATES,
    with_queue,
)

POLICIES = {
    "exceptions": with_queue(EXCEPT, IN_BYTES),
    **{
        name: with_queue(POLICED, IN_BYTES, police)
        for name, police in {
            "two colours": TWO_COLOURS,
            "remarked": REMARKED,
            "single rate": SINGLE_RATE,
            "two rates": TWO_RATES,
            "sent": SENT,
        }.items()
    },
    "shares": scenario(
        "a: match: {dscp: ef}, priority: strict, queue: {limit: 20 ms}",
        "b: match: {dscp: af11}, bandwidth: 12.5%, borrow: false, queue: {limit: 100 ms}",
        "c: match: {dscp: af21}, bandwidth: 10%, limit: 2 Mbps, queue: {limit: 100 ms}",
        "d: match: any, queue: {limit: 100 ms}",
        link=", shape: {r: {rate: 8 Mbps, burst: 10 kB}}, remark: {r: [{match: any, dscp: af11}]}",
    ),
    "remainder": scenario("a: match: {dscp: ef}, queue: {limit: 20 ms}", "b: match: any"),
}


def text(name: str) -> str:
    found, gaps = write(POLICIES[name], "junos", links=["r>s"], approximate=True)
    assert gaps == ()
    return found


def edited(policy: Junos) -> ElementTree.Element:
    """The configuration that a router without any has after the edit."""
    found = ElementTree.fromstring(policy.edit(None))
    for each in found.iter():
        each.tag = each.tag.rpartition("}")[2]
    return found


@pytest.mark.parametrize("name", POLICIES)
def test_xml_says_the_same_as_the_text(name: str) -> None:
    policy = Junos(text(name))
    sent = edited(policy)
    assert policy.differences(sent) == []
    said = read([Source("sent", "".join(f"set {line}\n" for line in policy.lines(sent)))])
    assert [(each.policy, each.rate, each.shape) for each in said.attachments] == [
        (each.policy, each.rate, each.shape)
        for each in read([Source("written", text(name))]).attachments
    ]


def test_every_difference_is_named() -> None:
    policy = Junos(text("two colours"))
    there = edited(policy)
    burst = there.find("firewall/policer/if-exceeding/burst-size-limit")
    assert burst is not None
    burst.text = "1500"
    interface = there.find("class-of-service/interfaces/interface")
    assert interface is not None
    other = ElementTree.SubElement(interface, "shaping-rate")
    ElementTree.SubElement(other, "rate").text = "1m"
    assert policy.differences(there) == [
        "lacks: firewall policer p-a if-exceeding burst-size-limit 8000",
        "also has: firewall policer p-a if-exceeding burst-size-limit 1500",
    ]
    # All statements are there, one in the words of Junos, but another changes what they do.
    burst.text = "8k"
    assert policy.differences(there) == [
        "has another policy at ge-0/0/1, direction out: other statements of the router change "
        "what these do"
    ]
    assert policy.differences(None)[0].startswith("lacks: interfaces ge-0/0/1 unit 0")


def test_another_order_of_terms_is_a_difference() -> None:
    overlapping = ("a: match: {source: a}", "b: match: {destination: b}", "c: match: any")
    found, _ = write(scenario(*overlapping), "junos", links=["r>s"], approximate=True)
    policy = Junos(found)
    there = edited(policy)
    [terms] = there.findall("firewall/family/inet/filter")
    terms[1:] = [*terms[2:3], terms[1], *terms[3:]]
    assert set(policy.lines(there)) == set(policy.lines(edited(policy)))
    assert policy.differences(there) == [
        "has another policy at ge-0/0/1, direction out: other statements of the router change "
        "what these do"
    ]


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("netconf://admin@r1", Target("netconf", "admin", "r1", 830)),
        ("netconf://a.b@r1.example.net:22", Target("netconf", "a.b", "r1.example.net", 22)),
        ("ssh://root@[2001:db8::1]:2222", Target("ssh", "root", "2001:db8::1", 2222)),
    ],
)
def test_addresses_of_routers(url: str, found: Target) -> None:
    assert target(url) == found
    assert target(str(found)) == found


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("r1", "is no address"),
        ("telnet://admin@r1", "is no address"),
        ("netconf://r1", "has no valid user"),
        ("netconf://-l@r1", "has no valid user"),
        ("netconf://a@-oProxyCommand=x", "has no valid host"),
        ("netconf://a@r1:0", "has no valid host"),
        ("netconf://a@r1:99999", "is no address"),
        ("netconf://a@r1/running", "is no address"),
        ("netconf://a@[::1", "is no address"),
        ("netconf://a:hunter2@r1", "contains a password"),
        ("netconf://a:hunter2@r1:x", "is no address"),
    ],
)
def test_malformed_addresses(url: str, said: str) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        target(url)
    assert "hunter2" not in str(caught.value)


def test_settings_do_not_show_the_password() -> None:
    assert "hunter2" not in repr(Settings(password="hunter2"))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--to", "vyos", "--push", "netconf://a@r1"), "does not go with --to vyos"),
        (("--to", "junos", "--push", "netconf://a@r1"), "needs the interface"),
        (
            (
                *(
                    "--to",
                    "junos",
                    "--push",
                    "netconf://a@r1",
                    "--interface",
                    "evagore>lab=ge-0/0/1",
                ),
                *("--link", "testbed>slac"),
            ),
            "--interface 'testbed>slac=NAME'",
        ),
        (("--to", "junos", "--yes"), "--yes needs --push"),
        (("--to", "junos", "--key", "k"), "--key needs --push"),
    ],
)
def test_options_that_do_not_fit(
    arguments: tuple[str, ...], said: str, perhop: Callable[..., Outcome]
) -> None:
    code, out, err = perhop("export", "qbss-1-70", *arguments)
    assert (code, out) == (2, "")
    assert said in err


def test_what_routers_say_does_not_reach_the_terminal_as_it_is() -> None:
    policy = Junos(text("remainder"))
    there = edited(policy)
    ElementTree.SubElement(
        there.findall("class-of-service/schedulers")[0], "priority"
    ).text = "\x9b2J"
    [found] = policy.differences(there)
    assert printable(found) == 'also has: class-of-service schedulers p-a priority "\\x9b2J"'


def test_a_push_is_for_one_router(perhop: Callable[..., Outcome], place: Path) -> None:
    both = network(classes("a: match: any")).replace("egress: {r: p}", "egress: {r: p, s: p}")
    (place / "edge.yaml").write_text(both)
    command = ("export", "edge.yaml", "--to", "junos", "--push", "netconf://a@127.0.0.1:9")
    for link, more, said in (
        ("r>s=ge-0/0/0", ("--interface", "s>r=ge-0/0/1"), "is for r, s; expected links of one"),
        ("a>r=ge-0/0/0", (), "there is nothing to set"),
    ):
        code, _, err = perhop(*command, "--approximate", "--interface", link, *more)
        assert (code, said in err) == (2, True), err
