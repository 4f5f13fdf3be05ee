"""Scenarios written as configurations of routers: every family, and the command."""

from collections.abc import Callable
from pathlib import Path

import click
import pytest

from exporting import classes, network, refused, scenario
from perhop import UsageError, gallery
from perhop.cli.export import export
from perhop.routers.writing import FAMILIES, write
from perhop.routers.writing.draft import Names

Perhop = Callable[..., tuple[int, str, str]]


CBQ = {"altq-cbq": {"policies.edge.scheduler"}, "altq-cbq-traces": {"policies.edge.scheduler"}}
WRED = {
    "qbss-transatlantic": {
        "policies.qos-policy.classes.qbss.queue.wred",
        "policies.qos-policy.classes.class-default.queue.wred",
    }
}
POLICERS = {
    name: {"policies.oscars.classes.reserved.police"}
    for name in ("oscars-1M", "oscars-10M", "oscars-burst", "oscars-ping")
}
CONDITIONERS = {**POLICERS, "qbss-ping": {"links.1.remark.second.0"}}
REFUSED = {
    "ios": CBQ,
    "junos": {**CBQ, **WRED},
    "vyos": {
        **CBQ,
        **WRED,
        **CONDITIONERS,
        **{
            name: {f"policies.oscars.classes.reserved{key}" for key in ("", ".police")}
            for name in ("oscars-1M", "oscars-10M", "oscars-burst", "oscars-ping")
        },
    },
    "tc": {**CBQ, **WRED},
    "altq": {**POLICERS, **WRED},
    "pf": {"altq-cbq-traces": {"policies.edge.cbq.packet"}, **CONDITIONERS, **WRED},
}
"""The places that a family cannot express, of the scenarios of the gallery that it refuses."""

APPROXIMATED = {
    "ios": {"bulk-throughput": "a burst"},
    "vyos": {"bulk-throughput": "no burst of its own"},
    "altq": {"bulk-throughput": "a burst"},
    "pf": {"bulk-throughput": "a burst"},
    # Queues of Junos have no limit in packets.
    "junos": {
        name: "buffers in whole microseconds"
        for name in gallery.names()
        if name not in ("load-balancing", *REFUSED["junos"])
    },
}
"""Words of the approximations without which a family refuses a scenario of the gallery."""


@pytest.mark.parametrize("family", FAMILIES)
def test_the_gallery_is_written_or_refused_with_its_places(family: str) -> None:
    refusals, approximated = {}, {}
    for name in gallery.names():
        found = gallery.load(name)
        text, gaps = write(found, family, approximate=True)  # type: ignore[arg-type]
        assert text.isascii()
        if gaps:
            refusals[name] = {gap.path for gap in gaps}
            continue
        _, gaps = write(found, family)  # type: ignore[arg-type]
        if gaps:
            words = APPROXIMATED[family][name]
            assert any(words in gap.reason for gap in gaps)
            assert all("; --approximate writes " in gap.reason for gap in gaps)
            approximated[name] = words
    assert refusals == REFUSED[family]
    assert approximated == APPROXIMATED.get(family, {})


@pytest.mark.parametrize("family", FAMILIES)
def test_a_title_stays_in_its_comment(family: str) -> None:
    title = '"a\\n!\\r\\nno service-policy */ \\u2028 set x\\u0085 \\t b"'
    text, gaps = write(scenario("all: match: any", title=title), family)  # type: ignore[arg-type]
    assert gaps == () or family not in ("ios", "tc")
    first = text.splitlines()[0]
    assert "no service-policy" in first
    assert "no service-policy" not in text.partition("\n")[2]
    assert "*/" not in first.removesuffix("*/")


def test_links_and_interfaces_are_checked() -> None:
    found = scenario("all: match: any")
    with pytest.raises(UsageError, match="`r>t`: there is no such link in written; did you mean"):
        write(found, "ios", links=["r>t"])
    for wrong in ("", "eth0\nset", "eth 0", "-x", "eth0;x", "a" * 65):
        with pytest.raises(UsageError, match="is not the name of an interface; expected eth1"):
            write(found, "ios", interfaces={"r>s": wrong})


def test_names_are_unique_without_regard_to_case() -> None:
    names = Names.besides(["Fixed"], 8)
    found = [names.unique(each) for each in ("Fixed", "FIXED", "a" * 9, "a" * 10, "A" * 8, "b")]
    assert found == ["Fixed_2", "FIXED_3", "a" * 8, "aaaaaa_2", "AAAAAA_3", "b"]


def test_only_the_given_links_are_written() -> None:
    found = scenario(
        "all: match: any", link=", remark: {s: clear}", router="{kind: router, remark: clear}"
    )
    both, _ = write(found, "ios")
    assert both.count("interface ") == 3
    assert both.count("service-policy") == 4
    one, _ = write(found, "ios", links=["r>s"], interfaces={"r>s": "Gi0/9"})
    assert one.count("interface Gi0/9\n") == one.count("interface ") == 1
    assert "service-policy input r-input" in one
    linux, _ = write(found, "tc", links=["r>s"], interfaces={"r>s": "eth9"})
    assert "dev eth9" in linux
    assert {word for word in linux.split() if word.startswith(("r-", "s-"))} == set()
    assert linux.count("iifname") == linux.count("oifname") == 1


def test_changes_are_named() -> None:
    rest = (
        "changes: [{at: 100 ms, on: r>s, class: x, police: {burst: 9 kB}}, "
        "{at: 200 ms, on: r>s, policy: none}, {at: 300 ms, on: r>s, rate: 1 Mbps}]"
    )
    found = scenario(
        "x: match: {dscp: ef}, police: {rate: 1 Mbps, burst: 8 kB}", "y: match: any", rest=rest
    )
    text, _ = write(found, "ios")
    assert "! not included: changes.0, at 100 ms (policer at r>s)\n" in text
    assert "! not included: changes.1, at 200 ms (policy at r>s)\n" in text
    assert "changes.2" not in text


def test_a_class_without_packets_is_refused() -> None:
    found = scenario("a: match: {protocol: icmp, port: 1}", "b: match: any")
    for family in FAMILIES:
        if family != "tc":
            reason = "no packet meets it; expected another match"
            assert refused(found, family)["policies.p.classes.a.match"] == reason


# The command


def test_the_command_writes_a_file(perhop: Perhop, place: Path) -> None:
    code, printed, _ = perhop("export", "qbss-1-70", "--to", "ios")
    assert code == 0
    assert perhop("export", "qbss-1-70", "--to", "ios", "--out", "r.cfg") == (0, "", "")
    assert (place / "r.cfg").read_text() == printed
    code, out, err = perhop("export", "qbss-1-70", "--to", "ios", "--out", "none/r.cfg")
    assert (code, out) == (2, "")
    assert "cannot write none/r.cfg" in err


def test_gaps_have_their_place_in_the_file(perhop: Perhop, place: Path) -> None:
    (place / "x.yaml").write_text(
        network(
            classes(
                "a: match: {dscp: 1}, bandwidth: 50%, queue: {drop: head}",
                "b: match: any, queue: {pie: {}}",
            )
        ).lstrip()
    )
    wrong = ("export", "x.yaml", "--to", "ios", "--out", "r.cfg", "--set", "links.1.rate=2500 bps")
    code, out, err = perhop(*wrong)
    assert (code, out) == (3, "")
    assert not (place / "r.cfg").exists()
    assert err.splitlines() == [
        "perhop: IOS cannot express all of written:",
        "  --set links.1.rate=2500 bps: links.1.rate: IOS has bandwidths in kb/s and in whole per "
        "cent, not 2.5 kbps; --approximate writes 2 kb/s",
        "  x.yaml:10:63: policies.p.classes.a.queue.drop: IOS drops at the tail",
        "  x.yaml:10:115: policies.p.classes.b.queue.pie: IOS has WRED only, not pie",
    ]


EDGE = """\
class-map match-any VOICE
 match dscp ef
policy-map WAN
 class VOICE
  priority
  police cir 1000000 bc 25000
  queue-limit 20000 bytes
 class class-default
  compression header ip
  queue-limit 64
policy-map LAN
 class class-default
  queue-limit 50000 bytes
interface GigabitEthernet0/1
 bandwidth 10000
 service-policy output WAN
interface GigabitEthernet0/2
 bandwidth 20000
 service-policy output LAN
"""


def test_a_configuration_is_written_for_another_family(perhop: Perhop, place: Path) -> None:
    (place / "edge.cfg").write_text(EDGE)
    code, out, err = perhop("export", "edge.cfg", "--to", "junos")
    assert (code, out) == (3, "")
    lost = "edge.cfg:9: compression header ip: not modelled: unknown statement of a class"
    assert f"perhop: warning: {lost}\n" in err
    assert "edge.cfg:10:1: policies.WAN.classes.class-default.queue.limit: Junos has buffers" in err
    code, out, _ = perhop("export", "edge.cfg", "--to", "junos", "--approximate")
    assert code == 0
    assert "forwarding-class VOICE scheduler WAN-VOICE;" in out
    assert "approximated by 76800 us, 96000 B" in out
    code, out, _ = perhop(
        *("export", "edge.cfg", "--to", "junos", "--from-interface", "Gi0/2"),
        *("--interface", "edge>next=xe-0/0/0", "--link", "edge>next"),
    )
    assert code == 0
    assert "output LAN;" in out
    assert "xe-0/0/0 {" in out
    code, out, _ = perhop(
        *("export", "edge.cfg", "--to", "junos", "--approximate", "--rate", "5 Mbps"),
    )
    assert code == 0
    assert "bandwidth 5000000;" in out
    for option in (("--from-interface", "Gi0/2"), ("--rate", "5 Mbps")):
        code, _, err = perhop("export", "qbss-1-70", "--to", "ios", *option)
        assert code == 2
        assert f"{option[0]}: qbss-1-70 is not the configuration of a router" in err


def test_the_command_offers_every_family() -> None:
    offered = next(each for each in export.params if each.name == "family").type
    assert isinstance(offered, click.Choice)
    assert list(offered.choices) == list(FAMILIES)


def test_tc_is_a_family(perhop: Perhop) -> None:
    device = "testbed>slac=eth1"
    code, out, err = perhop("export", "qbss-1-70", "--to", "tc", "--interface", device)
    assert (code, err) == (0, "")
    assert perhop("tc", "qbss-1-70", "--device", device) == (0, out, "")
