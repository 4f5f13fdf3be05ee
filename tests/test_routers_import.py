"""Configurations of routers: their family, `perhop import`, and `from` in scenarios."""

import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from conftest import Outcome
from perhop import UsageError
from perhop.routers.reading import (
    Attachment,
    Configuration,
    Default,
    Line,
    Place,
    Source,
    Treatment,
    described,
    select,
)
from perhop.routers.reading.detect import FAMILIES, detect, read

TEXTS = {
    "ios": """\
hostname edge1
class-map match-any VOICE
 match ip dscp ef
policy-map WAN
 class VOICE
  priority percent 10
interface GigabitEthernet0/1
 service-policy output WAN
""",
    "ios without QoS": "interface FastEthernet0/0\n ip address 10.0.0.1 255.255.255.0\n!\nend\n",
    "junos": """\
## Last commit: 2019-01-01
class-of-service {
    schedulers {
        voice { transmit-rate percent 10; priority strict-high; }
    }
    interfaces { ge-0/0/0 { scheduler-map wan; } }
}
""",
    "junos as set": """\
set system host-name mx1
set interfaces ge-0/0/0 unit 0 family inet address 10.0.0.1/24
set class-of-service schedulers voice transmit-rate percent 10
""",
    "junos firewall": """\
firewall {
    policer small {
        if-exceeding { bandwidth-limit 1m; burst-size-limit 15k; }
        then discard;
    }
}
""",
    "vyos": """\
interfaces {
    ethernet eth0 {
        address 10.0.0.1/24
        traffic-policy {
            out WAN
        }
    }
}
traffic-policy {
    shaper WAN {
        bandwidth 10mbit
        default {
            bandwidth 50%
        }
    }
}
""",
    "vyos as set": "set qos policy shaper A bandwidth 10mbit\nset qos interface eth2 egress A\n",
    "altq": """\
interface pvc0 bandwidth 45M cbq
class cbq pvc0 root_class NULL priority 0 admission none pbandwidth 100
filter pvc0 def_class 0 0 0 80 6
""",
    "altq in pf.conf": """\
ext_if="dc0"
altq on $ext_if cbq bandwidth 5Mb queue { std, http }
queue std bandwidth 10% cbq(default)
pass out on $ext_if proto tcp to port 80 queue http
""",
    "altq as queues": "queue main on em0 bandwidth 100M max 100M\nqueue std parent main default\n",
    "linux": "#!/bin/sh\ntc qdisc del dev eth0 root\ntc qdisc add dev eth0 root handle 1: htb\n",
    "linux nft": "table inet mangle {\n chain post {\n  type filter hook postrouting priority 0;\n",
    "linux json": '[{"kind":"htb","handle":"1:","root":true,"options":{"r2q":10}}]',
    "linux nft json": '{"nftables": [{"metainfo": {"json_schema_version": 1}}]}',
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_family_is_known_by_its_statements(name: str) -> None:
    assert detect([Source("x", TEXTS[name])]) == name.split()[0]


@pytest.mark.parametrize(
    "text", ["", "hello world\n", "perhop: 1\nname: x\n", "{}", "[]", "\n" * 9]
)
def test_a_text_of_no_family_is_refused(text: str) -> None:
    expected = (
        r"^x: has no statement by which its family .*; give --family: ios \(Cisco .*, or vyos"
    )
    with pytest.raises(UsageError, match=expected):
        detect([Source("x", text)])


def test_a_text_of_two_families_is_refused() -> None:
    mixed = Source("x", TEXTS["ios"] + TEXTS["vyos"])
    with pytest.raises(UsageError, match=r"^x: could be of the family \w+ or \w+; give `family`: "):
        detect([mixed], option="`family`")


WAN = {"classes": {"voice": {"match": {"dscp": "ef"}}, "rest": {"match": "any"}}}
LAN = {"classes": {"rest": {"match": "any"}}}


def attachment(
    interface: str, name: str = "WAN", direction: Any = "out", policy: Any = None
) -> Attachment:
    return Attachment(
        interface, direction, name, WAN if policy is None else policy, {(): Place("x", 1)}, 10**7
    )


def configuration(*attachments: Attachment) -> Configuration:
    lines = (
        Line(Place("x", 1), "policy-map WAN", Treatment.MODELLED),
        Line(Place("x", 2), "random-detect", Treatment.APPROXIMATED, "in packets"),
        Line(Place("x", 3), "match protocol rtp", Treatment.NOT_MODELLED, "needs NBAR"),
    )
    defaults = (Default(Place("x", 1), "queue-limit", "64 packets", "IOS 12.4"),)
    return Configuration("ios", lines, defaults, attachments)


def test_interfaces_are_found_by_their_names() -> None:
    found = configuration(
        attachment("GigabitEthernet0/1"),
        attachment("GigabitEthernet0/10", "LAN", policy=LAN),
        attachment("Serial0/1", "IN", "in", LAN),
    )
    for name in ("GigabitEthernet0/1", "gigabitethernet 0/1", "Gi0/1", "g0/1"):
        assert select(found, "x", interface=name).interface == "GigabitEthernet0/1"
    assert select(found, "x", interface="gi 0/10").name == "LAN"
    assert select(found, "x", direction="in").name == "IN"
    assert select(found, "x", interface="s0/1").direction == "in"
    assert select(found, "x", policy="LAN").interface == "GigabitEthernet0/10"
    assert select(found, "x", any_of_several=True).interface == "GigabitEthernet0/1"
    assert described(found.attachments[0]) == "WAN (GigabitEthernet0/1, out, 10 Mbps)"


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"interface": "0/1"}, "`0/1` is not an interface with a policy; "),
        ({"interface": "Te0/1"}, "`Te0/1` is not an interface with a policy; "),
        ({"interface": "F0/1"}, "`F0/1` could be FastEthernet0/1 or FiveGigabitEthernet0/1; "),
        ({"policy": "wan"}, "is not the name of a policy; did you mean `WAN`"),
        ({"direction": "in"}, "has no policy with direction `in`; there is WAN"),
        ({}, "has several policies; expected an `interface`, and perhaps a `direction`: WAN"),
    ],
)
def test_a_policy_that_is_not_there_is_refused(wanted: dict[str, Any], message: str) -> None:
    found = configuration(
        attachment("FastEthernet0/1"), attachment("FiveGigabitEthernet0/1", "LAN", policy=LAN)
    )
    with pytest.raises(UsageError) as caught:
        select(found, "edge.cfg", **wanted)
    assert str(caught.value).startswith("edge.cfg: ")
    assert message in str(caught.value)


def test_the_same_policy_at_several_interfaces_is_one() -> None:
    found = configuration(attachment("Fa0/1"), attachment("Fa0/2"))
    assert select(found, "x").name == "WAN"
    with pytest.raises(UsageError, match=r"^x: has no policy about quality of service$"):
        select(configuration(), "x")


# Reading


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> list[Sequence[Source]]:
    """A reader of IOS in place of the real one; the texts that it was given."""
    given: list[Sequence[Source]] = []

    def read(texts: Sequence[Source]) -> Configuration:
        given.append(texts)
        quiet = "hostname" in texts[0].text
        return Configuration("ios", ()) if quiet else configuration(attachment("Gi0/1"))

    module = ModuleType("perhop.routers.reading.ios")
    module.read = read  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return given


def test_a_family_can_be_named(reader: list[Sequence[Source]], tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_bytes(b"\xff nothing\r\n")
    assert read([file], "ios").family == "ios"
    assert read([Source("y", "")], "ios-xe").family == "ios"
    assert reader == [[Source(str(file), "ÿ nothing\n")], [Source("y", "")]]
    with pytest.raises(UsageError, match=r"^--family: `isos` is not .* did you mean `ios`"):
        read([file], "isos")
    assert len(FAMILIES) == 5


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "null").write_bytes(b"a\n\0")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    with (tmp_path / "large").open("wb") as file:
        file.truncate(17 * 2**20)
    for name, message in {
        "null": ":2: contains a null byte; expected a text file",
        "pipe": ": is a pipe; expected a file",
        "loop": ": cannot be read: Too many levels of symbolic links",
        "large": ": is too large: 17,825,792 bytes; expected at most 16,777,216 bytes",
        ".": ": is a folder; expected a file",
        "gone": ": cannot be read: No such file or directory",
    }.items():
        with pytest.raises(UsageError) as caught:
            read([tmp_path / name], "ios")
        assert str(caught.value) == f"{tmp_path / name}{message}"


# The command


@pytest.fixture
def edge(place: Path) -> Path:
    (place / "edge.cfg").write_text(TEXTS["ios"].replace("hostname", "name"))
    return place


@pytest.mark.usefixtures("reader", "edge")
def test_import_tells_what_became_of_every_line(perhop: Callable[..., Outcome]) -> None:
    found = perhop("import", "edge.cfg")
    assert (found.code, found.err) == (0, "")
    assert found.out.splitlines() == [
        "edge.cfg (ios): 3 lines about quality of service: 1 modelled, 1 approximated, "
        "1 not modelled",
        "",
        "approximated:",
        "  x:2: random-detect: in packets",
        "",
        "not modelled:",
        "  x:3: match protocol rtp: needs NBAR",
        "",
        "defaults of the platform:",
        "  x:1: queue-limit 64 packets (IOS 12.4)",
        "",
        "policies:",
        "  WAN (Gi0/1, out, 10 Mbps)",
    ]


@pytest.mark.usefixtures("reader", "edge")
def test_import_prints_one_object(perhop: Callable[..., Outcome]) -> None:
    found = json.loads(perhop("import", "edge.cfg", "--json").out)
    assert found["counts"] == {"modelled": 1, "approximated": 1, "not modelled": 1}
    assert found["lines"][2]["note"] == "needs NBAR"
    assert found["policies"][0]["policy"] == WAN


@pytest.mark.usefixtures("reader")
def test_a_configuration_without_qos_says_so(perhop: Callable[..., Outcome], place: Path) -> None:
    (place / "edge.cfg").write_text(TEXTS["ios"])
    found = perhop("import", "edge.cfg")
    assert found.code == 0
    assert found.out == "edge.cfg (ios): no line is about quality of service\n"


def test_a_text_of_no_family_ends_with_2(perhop: Callable[..., Outcome], place: Path) -> None:
    (place / "x").write_text("hello\n")
    found = perhop("import", "x")
    assert (found.code, found.out) == (2, "")
    assert found.err.startswith("perhop: x: has no statement by which its family can be recognised")
