"""Configurations of routers: their family, `perhop import`, and `from` in scenarios."""

import contextlib
import json
import os
from collections.abc import Callable
from dataclasses import replace
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import SLOW, Outcome
from fake_reader import CAUTION, IOS, LAN, WAN, Reader, attachment, configuration
from perhop import Dataset, ScenarioError, UsageError, dump, engines, json_schema, load, parse
from perhop.cli.loading import is_configuration
from perhop.routers.reading import (
    Configuration,
    Place,
    Source,
    described,
    select,
)
from perhop.routers.reading.detect import FAMILIES, detect, read
from perhop.routers.scenario import around, build

TEXTS = {
    "ios": f"hostname edge1\n{IOS}",
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
    "linux with routes": "tc qdisc add dev eth0 root handle 1: htb\n"
    + "ip route add 10.0.0.0/8 via 192.0.2.1\n" * 99,
    "ios with routes": "policy-map P\n class V\n  priority percent 10\n"
    + "ip route 10.0.0.0 255.0.0.0 192.0.2.1\nip route vrf a 10.0.0.0 255.0.0.0 192.0.2.1\n" * 99,
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
    none = "^x: has no policy about quality of service"
    with pytest.raises(UsageError, match=f"{none}; not modelled: x:3: `match .*` .needs NBAR.$"):
        select(configuration(), "x")
    with pytest.raises(UsageError, match=f"{none}$"):
        select(Configuration("ios", ()), "x")


# Reading


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> Reader:
    """A reader in place of the real one of IOS."""
    return Reader.instead(monkeypatch)


def test_a_family_can_be_named(reader: Reader, tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_bytes(b"\xff nothing\r\n")
    assert read([file], "ios").family == "ios"
    assert read([Source("y", "")], "ios-xe").family == "ios"
    assert reader.given == [[Source(str(file), "ÿ nothing\n")], [Source("y", "")]]
    with pytest.raises(UsageError, match=r"^--family: `isos` is not .* did you mean `ios`"):
        read([file], "isos")
    assert len(FAMILIES) == 5


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_has_a_reader(family: str) -> None:
    assert read([Source("x", TEXTS[family])]).lines


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


HTB = """\
tc qdisc add dev eth0 root handle 1: htb default 20
tc class add dev eth0 parent 1: classid 1:1 htb rate 2mbit
tc class add dev eth0 parent 1:1 classid 1:10 htb rate 500kbit
tc class add dev eth0 parent 1:1 classid 1:20 htb rate 1500kbit
tc filter add dev eth0 parent 1: u32 match ip sport 80 0xffff flowid 1:10
"""


def test_a_default_is_listed_once_with_its_lines(
    place: Path, perhop: Callable[..., Outcome]
) -> None:
    (place / "wan.sh").write_text(HTB)
    out = perhop("import", "wan.sh", "--family", "linux").out
    assert "  wan.sh:3, 4: qdisc pfifo limit 1000 (Linux, qdisc_create_dflt)\n" in out
    assert "has no flow" not in out
    (place / "one.sh").write_text("tc qdisc add dev eth0 root pfifo limit 10\n")
    assert "one.sh (tc): 1 line about quality of service: " in perhop("import", "one.sh").out


def test_classes_that_match_source_ports_have_flows_from_these(place: Path) -> None:
    ntp, bgp = (
        "match ip {0}port {1} 0xffff match ip {2}port {1} 0xffff".format("s", n, "d")
        for n in (123, 179)
    )
    expedited, one = "match ip dsfield 0xb8 0xfc", "match ip src 10.9.9.9/32"
    matches = {
        "mail": "match ip sport 25 0xffff match ip protocol 6 0xff",
        "dns": "match ip sport 53 0xffff",
        "high": "match ip sport 4096 0xf000 match ip protocol 6 0xff",
        # Packets of the next two differ in their DSCP only, or in the address of their sender.
        "ntp": f"{ntp} {expedited}",
        "others": ntp,
        # Of these, in their DSCP only.
        "bgp": f"{bgp} {one} {expedited}",
        "never": f"{bgp} {one}",
    }
    lines = HTB.splitlines()[:3]
    for number, match in enumerate(matches.values(), 30):
        lines += [
            f"tc class add dev eth0 parent 1:1 classid 1:{number} htb rate 100kbit",
            f"tc filter add dev eth0 parent 1: prio {number} u32 {match} flowid 1:{number}",
        ]
    lines.append("tc class add dev eth0 parent 1:1 classid 1:20 htb rate 200kbit")
    (place / "ports.sh").write_text("\n".join(lines))
    found = build([place / "ports.sh"])
    scenario = found.scenario(["duration=2 s", "report.interval=2 s"])
    flows = [scenario.flows[name] for name in found.flows]
    assert [(flow.source, flow.source_ports, flow.port) for flow in flows] == [
        ("sender", (25, 25), 5001),
        ("sender", (53, 53), 5002),
        ("sender", (4096, 4099), 5003),
        ("sender", (123, 123), 123),
        ("sender-2", (123, 123), 123),
        ("sender-3", (179, 179), 179),
        ("sender", None, 5004),
    ]
    assert [flow.udp is None for flow in flows] == [True, False, True, False, False, False, True]
    never = "class c36 has no flow: flows of other classes have all addresses and ports of its"
    assert [each.startswith(never) for each in found.remarks] == [False, True]
    queues = engines.run(scenario).queues.filter(link="edge>next")
    assert set(queues.filter(sent_packets=0)["class"]) == {"c36"}


def test_a_file_of_no_family_is_not_taken_for_a_scenario(
    place: Path, perhop: Callable[..., Outcome]
) -> None:
    (place / "notes.txt").write_text("call the provider\n")
    for command in (("run", "notes.txt"), ("diff", "notes.txt", "notes.txt")):
        done = perhop(*command)
        assert done.code == 2
        assert done.err.startswith("perhop: notes.txt: is neither a scenario, which has a key")
    (place / "notes.txt").write_text("perhop: 1\n")
    assert "notes.txt:1:1: name: is missing" in perhop("run", "notes.txt").err


def test_other_policies_of_a_configuration_are_mentioned(place: Path) -> None:
    ingress = "tc qdisc add dev eth1 root pfifo limit 10\n"
    (place / "wan.sh").write_text(HTB)
    (place / "two.sh").write_text(HTB + ingress)
    said = "two.sh has 2 policies; `perhop import` lists them"
    for file, interface, expected in (
        ("two.sh", None, True),
        ("two.sh", "eth0", False),
        ("wan.sh", None, False),
    ):
        remarks = build([str(place / file)], interface=interface, rate=10**7).remarks
        assert any(said in each for each in remarks) == expected


def test_values_of_the_link_have_their_lines(place: Path) -> None:
    (place / "wan.sh").write_text(HTB)
    imported = build([str(place / "wan.sh")], rate=10**7)
    found = imported.places(["links.1.shape.edge", "policies.eth0.classes.c10"])
    assert [each.rpartition("wan.sh")[2] for each in found.values()] == [":2:1", ":3:1"]


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
        "",
        "scenario:",
        "  WAN (Gi0/1, out, 10 Mbps)",
        "",
        "--out FILE writes the scenario; --run runs it",
    ]


@pytest.mark.usefixtures("reader", "edge")
def test_import_prints_one_object(perhop: Callable[..., Outcome]) -> None:
    found = json.loads(perhop("import", "edge.cfg", "--json").out)
    assert found["counts"] == {"modelled": 1, "approximated": 1, "not modelled": 1}
    assert found["lines"][2]["note"] == "needs NBAR"
    assert found["policies"][0]["policy"] == WAN
    assert found["scenario"]["links"][1]["rate"] == "10 Mbps"
    assert found["flows"] == {"voice": "voice", "rest": "rest"}


@pytest.mark.usefixtures("reader")
def test_a_configuration_without_qos_says_so(perhop: Callable[..., Outcome], place: Path) -> None:
    (place / "edge.cfg").write_text(TEXTS["ios"])
    found = perhop("import", "edge.cfg")
    assert found.code == 0
    assert found.out == "edge.cfg (ios): no line is about quality of service\n"


@pytest.mark.parametrize("options", [(), ("--out", "o.yaml"), ("--rate", "10 Mbps"), ("--run",)])
def test_import_tells_why_no_policy_is_left(
    perhop: Callable[..., Outcome], reader: Reader, place: Path, options: tuple[str, ...]
) -> None:
    (place / "edge.cfg").write_text(IOS)
    reader.configuration = configuration()
    found = perhop("import", "edge.cfg", *options)
    assert found.code == (2 if options else 0)
    assert "  x:3: match protocol rtp: needs NBAR\n" in found.out
    assert found.out.endswith("policies:\n  none\n")
    assert ("has no policy about quality of service" in found.err) is bool(options)


def test_a_text_of_no_family_ends_with_2(perhop: Callable[..., Outcome], place: Path) -> None:
    (place / "x").write_text("hello\n")
    found = perhop("import", "x")
    assert (found.code, found.out) == (2, "")
    assert found.err.startswith("perhop: x: has no statement by which its family can be recognised")


@SLOW
@pytest.mark.usefixtures("reader", "edge")
def test_import_writes_the_scenario_and_runs_it(perhop: Callable[..., Outcome]) -> None:
    found = perhop("import", "edge.cfg", "--interface", "g0/1", "--out", "edge.yaml", "--run")
    assert (found.code, found.err) == (0, "")
    # The warning of lines with a large effect is above the tables, and nowhere else.
    caution = f"warning: policies.WAN: {CAUTION}\n"
    title = "WAN (Gi0/1, out, 10 Mbps) of edge.cfg\n"
    assert f"{title}\n{caution}\nThroughput by phase" in found.out
    assert found.out.count(CAUTION) == 1
    assert "policies.WAN: x:3: `match protocol rtp` is not modelled: needs NBAR" in found.out
    again = perhop("import", "edge.cfg", "--out", "edge.yaml")
    assert (again.code, again.err) == (
        2,
        "perhop: cannot write edge.yaml: File exists; give another file\n",
    )
    written = perhop("run", "edge.yaml", "--json", "--out", "written")
    direct = perhop("run", "edge.cfg", "--json", "--out", "direct")
    both = perhop("import", "edge.cfg", "--run", "--json")
    written, direct = json.loads(written.out), json.loads(direct.out)
    assert written["flows"] == direct["flows"] == json.loads(both.out)["run"]["flows"]
    changed = perhop("run", "edge.cfg", "--set", "policies.WAN.classes.voice.bandwidth=99%")
    assert changed.code == 0
    wrong = perhop("run", "edge.cfg", "--set", "policies.WAN.classes.voice.bandwith=99%")
    assert wrong.code == 2
    assert "policies.WAN.classes.voice.bandwith: unknown key" in wrong.err


@pytest.mark.usefixtures("reader")
def test_a_configuration_is_told_from_a_scenario(place: Path) -> None:
    texts = {
        "edge": (IOS, True),
        "edge.yaml": (IOS, False),
        "qbss-1-70": (IOS, False),
        "site": (f"{SITE}# class-map match-any\npolicy-map: x\n", False),
        "site.json": ('{"perhop": 1, "name": "x",\n"kind": 1}', False),
        "nothing": ("hello\n", False),
    }
    for name, (text, _) in texts.items():
        (place / name).write_text(text)
    assert not is_configuration(str(place))
    with contextlib.chdir(place):
        assert {name: is_configuration(name) for name in texts} == {
            name: expected for name, (_, expected) in texts.items()
        }


@pytest.mark.usefixtures("edge")
def test_a_rate_is_needed(perhop: Callable[..., Outcome], reader: Reader) -> None:
    slow = replace(attachment("Gi0/1"), rate=None)
    reader.configuration = configuration(slow)
    assert perhop("import", "edge.cfg").out.endswith(
        "\n--rate RATE gives the rate of the interface, which a scenario needs\n"
    )
    for command in (("import", "edge.cfg", "--run"), ("run", "edge.cfg")):
        found = perhop(*command)
        assert found.code == 2
        assert found.err == (
            "perhop: edge.cfg: does not tell the rate of Gi0/1; give it to `perhop import`, "
            "`run`, `export` or `diff`, such as --rate '100 Mbps'\n"
        )
    found = perhop("import", "edge.cfg", "--rate", "2 Mbps", "--json")
    assert json.loads(found.out)["scenario"]["links"][1]["rate"] == "2 Mbps"
    assert reader.rates == {"Gi0/1": 2_000_000}
    for text in ("2", "0 bps", "fast"):
        assert perhop("import", "edge.cfg", "--rate", text).err.startswith("perhop: --rate: ")
    assert perhop("run", "edge.cfg", "--rate", "2 Mbps", "--out", "slow").code == 0
    assert Dataset.read("slow").scenario.links[1].rate == 2_000_000
    refused = perhop("run", "qbss-1-70", "--rate", "2 Mbps")
    assert refused.code == 2
    assert "--rate: qbss-1-70 is not the configuration of a router; --set links.0" in refused.err
    reader.configuration = configuration(replace(slow, shape={"rate": "3 Mbps"}))
    [link] = json.loads(perhop("import", "edge.cfg", "--json").out)["scenario"]["links"][1:2]
    assert (link["rate"], link["shape"]) == ("3 Mbps", {"edge": {"rate": "3 Mbps"}})


@pytest.mark.usefixtures("edge")
def test_a_policy_for_received_packets_stands_at_the_other_end(
    perhop: Callable[..., Outcome], reader: Reader
) -> None:
    policed = {"classes": {"all": {"match": "any", "police": {"rate": "1 Mbps", "burst": "20 kB"}}}}
    reader.configuration = configuration(attachment("Gi0/1", "IN", "in", policed))
    found = json.loads(perhop("import", "edge.cfg", "--json", "--run").out)
    assert found["scenario"]["links"][1]["egress"] == {"previous": "IN"}
    assert "stands at the sending end of the link" in found["remarks"][0]
    assert found["run"]["flows"]["all"]["throughput_bps"] < 1e6


def test_strict_classes_start_one_after_another() -> None:
    classes = {
        "control": {"match": {"dscp": "cs6"}, "priority": "strict"},
        "voice": {"match": {"dscp": "ef"}, "priority": "strict"},
        "rest": {"match": "any"},
    }
    found = around(configuration(attachment("Gi0/1", policy={"classes": classes})), "x")
    starts = {name: flow.start for name, flow in found.scenario().flows.items()}
    end = found.scenario().duration
    assert end
    assert starts == {"control": end * 2 // 3, "voice": end // 3, "rest": 0}
    ordered = {"scheduler": "priority", "classes": {n: {**classes[n]} for n in classes}}
    for class_ in ordered["classes"].values():  # type: ignore[attr-defined]
        class_.pop("priority", None)
    again = around(configuration(attachment("Gi0/1", policy=ordered)), "x").scenario()
    assert {name: flow.start for name, flow in again.flows.items()} == starts


@pytest.mark.parametrize("power", range(3, 15))
def test_a_run_takes_few_packets(power: int) -> None:
    at = replace(attachment("Gi0/1"), rate=10**power)
    found = around(configuration(at), "x").scenario()
    packets = found.end_ps / 1e12 * 10**power / 12_000
    assert 20_000 < packets < (500_000 if power <= 10 else 5 * 10**6)
    assert found.end_ps >= 5 * 10**11 or power > 11


# References in scenarios


SITE = """\
perhop: 1
name: site
nodes: {a: host, r: router, s: router, b: host}
links:
  - {ends: [a, r], rate: 1 Gbps}
  - {ends: [r, s], rate: 10 Mbps, egress: {r: wan}}
  - {ends: [s, b], rate: 1 Gbps}
policies:
  wan: {from: routers/edge.cfg, interface: gi0/1, direction: out}
flows:
  web: {from: a, to: b}
duration: 1 s
"""


@pytest.fixture
def site(reader: Reader, tmp_path: Path) -> Callable[[str, str], Path]:
    """Writes a scenario with one text replaced, and a configuration below it."""
    del reader

    def write(old: str = "", new: str = "") -> Path:
        (tmp_path / "routers").mkdir(exist_ok=True)
        (tmp_path / "routers/edge.cfg").write_text(TEXTS["ios"].replace("hostname", "name"))
        (tmp_path / "site.yaml").write_text(SITE.replace(old, new, 1) if old else SITE)
        return tmp_path / "site.yaml"

    return write


def test_a_policy_comes_from_a_configuration(site: Callable[..., Path]) -> None:
    found = load(site(), overrides={"policies.wan.classes.voice.bandwidth": "30%"})
    assert list(found.policies["wan"].classes) == ["voice", "rest"]
    assert found.policies["wan"].classes["voice"].bandwidth is not None
    again = parse(dump(found))
    assert again == found
    assert "from: routers" not in dump(found)
    said = [warned.message for warned in engines.run(found).manifest.warnings]
    assert said == [
        CAUTION,
        "x:3: `match protocol rtp` is not modelled: needs NBAR",
        "1 line is approximated; `perhop import` prints how",
    ]


def test_a_change_can_refer_to_a_configuration(site: Callable[..., Path]) -> None:
    path = site(
        "{from: routers/edge.cfg, interface: gi0/1, direction: out}",
        "{classes: {all: {match: any}}}",
    )
    assert list(load(path).policies["wan"].classes) == ["all"]
    found = load(path, overrides=["policies.wan={from: routers/edge.cfg}"])
    assert list(found.policies["wan"].classes) == ["voice", "rest"]
    with pytest.raises(
        ScenarioError, match=r"^--set policies.wan={from: ../x}: policies.wan.from: "
    ):
        load(path, overrides=["policies.wan={from: ../x}"])


def test_a_change_of_a_reference_comes_before_the_policy(site: Callable[..., Path]) -> None:
    path = site("edge.cfg, interface: gi0/1, direction: out", "none.cfg, interface: gi0/9")
    said = [
        "policies.wan.from=routers/edge.cfg",
        "policies.wan.interface=gi0/1",
        "policies.wan.classes.voice.bandwidth=30%",
    ]
    assert load(path, overrides=said) == load(site(), overrides=said[2:])
    late = (
        r"^--set policies\.wan\.from=x: policies\.wan\.from: names a file for a policy that has cl"
    )
    with pytest.raises(ScenarioError, match=late + r"asses; expected `--set 'policies\.wan={from:"):
        load(site(), overrides=[said[2], "policies.wan.from=x"])
    written = site(SITE.split("wan: ")[1].split("\n")[0], "{classes: {all: {match: any}}}")
    with pytest.raises(ScenarioError, match=late):
        load(written, overrides=["policies.wan.from=x"])


def test_problems_name_the_line_of_the_configuration(
    site: Callable[..., Path], reader: Reader
) -> None:
    classes = {"voice": {"match": {"dscp": "ef"}, "bandwidth": "80%"}, "rest": {"match": "any"}}
    classes["rest"]["bandwidth"] = "40%"
    places = {(): Place("edge.cfg", 4), ("classes",): Place("edge.cfg", 5)}
    for loc, line in ((("classes", "voice"), 7), (("classes", "voice", "bandwidth"), 8)):
        places[loc] = Place("edge.cfg", line)
    wrong = replace(attachment("Gi0/1", policy={"classes": classes}), places=places)
    reader.configuration = configuration(wrong)
    with pytest.raises(ScenarioError, match=r"^edge.cfg:5:1: policies.wan.classes: guarantee 120%"):
        load(site())
    with pytest.raises(ScenarioError, match=r"^edge.cfg:8:1: policies.WAN.classes.voice.bandwidth"):
        classes["voice"]["bandwidth"] = "much"
        around(reader.configuration, "edge.cfg").scenario()


@pytest.mark.parametrize(
    ("new", "message"),
    [
        ("from: ../../etc/passwd", "policies.wan.from: `../../etc/passwd` is outside the sc"),
        ("from: /etc/passwd", "policies.wan.from: `/etc/passwd` is outside the scenario's"),
        ("from: routers", "policies.wan.from: FOLDER/routers: is a folder; expected a file"),
        ("from: pipe", "policies.wan.from: FOLDER/pipe: is a pipe; expected a file"),
        ("from: large", "policies.wan.from: FOLDER/large: is too large: 17,825,792 bytes"),
        ("from: loop", "policies.wan.from: FOLDER/loop: cannot be read: Too many levels of"),
        (
            "from: site.yaml",
            "policies.wan.from: FOLDER/site.yaml: has no statement by which its fa",
        ),
        ("from: [x]", "policies.wan.from: a list; expected text"),
        ("from: 'x\\0'", "policies.wan.from: FOLDER/x\\0: cannot be read: "),
        (
            "from: routers/edge.cfg, way: in",
            "policies.wan.way: unknown key; beside `from`, ex",
        ),
        (
            "from: routers/edge.cfg, direction: up",
            "policies.wan.direction: `up` is neither `",
        ),
        (
            "from: routers/edge.cfg, interface: Fa1",
            "policies.wan.from: FOLDER/routers/edge.c",
        ),
        ("from: routers/edge.cfg, family: x", "policies.wan.from: `family`: `x` is not a fa"),
    ],
)
def test_a_wrong_reference_is_one_problem(
    site: Callable[..., Path], tmp_path: Path, new: str, message: str
) -> None:
    path = site("from: routers/edge.cfg, interface: gi0/1, direction: out", new)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    with (tmp_path / "large").open("wb") as file:
        file.truncate(17 * 2**20)
    with pytest.raises(ScenarioError) as caught:
        load(path)
    [problem] = caught.value.problems
    assert (problem.file, problem.line) == (str(path), 9)
    assert f": {message.replace('FOLDER', str(tmp_path))}" in str(problem)


def test_a_shaper_that_the_link_lacks_is_a_warning(
    site: Callable[..., Path], reader: Reader
) -> None:
    reader.configuration = configuration(replace(attachment("Gi0/1"), shape={"rate": "2 Mbps"}))
    [*_, note] = load(site()).policies["wan"].notes
    # `run` prints notes with a caution above the tables.
    assert note == (
        "x:1: the interface is shaped to 2 Mbps, and the link is not, which can change what a class"
        " gets by more than 5%; expected a `shape` of the link"
    )
    assert (
        len(load(site("10 Mbps", "10 Mbps, shape: {r: {rate: 2 Mbps}}")).policies["wan"].notes) == 3
    )


def test_the_schema_knows_references() -> None:
    definitions = json_schema()["$defs"]
    reference, whole = definitions["Policy"]["anyOf"]
    assert reference == {"$ref": "#/$defs/PolicyReference"}
    properties = definitions["PolicyReference"]["properties"]
    assert set(properties) == {"from", "interface", "direction", "family", "policy"}
    assert "classes" in whole["properties"]


def test_a_prefix_can_be_the_source_of_one_class_and_the_destination_of_another() -> None:
    to, by = {"destination": "10.0.0.0/24"}, {"source": "10.0.0.0/8"}
    classes = {name: {"match": match} for name, match in (("to", to), ("by", by), ("rest", "any"))}
    scenario = around(
        configuration(attachment("Gi0/1", policy={"classes": classes})), "x"
    ).scenario()
    ends = [(flow.source, flow.destination) for flow in scenario.flows.values()]
    assert ends == [("sender", "receiver"), ("sender-2", "receiver-2"), ("sender", "receiver-2")]
    assert str(scenario.nodes["receiver"].address) == "10.0.0.1"
    assert str(scenario.nodes["sender-2"].address) == "10.0.0.3"


HOST = "10.0.0.1/32"


@pytest.mark.parametrize("first", [{"source": "10.0.0.0/24"}, {"destination": "10.0.0.0/24"}])
def test_an_address_that_a_class_needs_is_kept_from_hosts_at_the_other_end(
    first: dict[str, str],
) -> None:
    other = "destination" if "source" in first else "source"
    classes = {"lan": {"match": first}, "one": {"match": {other: HOST}}, "rest": {"match": "any"}}
    found = around(configuration(attachment("Gi0/1", policy={"classes": classes})), "x")
    assert list(found.scenario().flows) == ["lan", "one", "rest"]
    assert not found.remarks


def test_an_address_at_both_ends_leaves_a_class_without_a_flow() -> None:
    matches = {"by": {"source": HOST}, "to": {"destination": HOST}, "rest": "any"}
    classes = {name: {"match": match} for name, match in matches.items()}
    found = around(configuration(attachment("Gi0/1", policy={"classes": classes})), "x")
    assert list(found.scenario().flows) == ["by", "rest"]
    assert found.remarks == (
        "class to has no flow: its packets need an address of a host at the other end of the link",
    )


NETWORKS = ("10.0.0.0/8", "10.0.0.0/28", "198.18.0.0/15", "198.19.0.0/28", "0.0.0.0/0", "::/0",
            "2001:2::/64", "2001:db8::/32", HOST, "198.18.0.1/32", "10.0.0.0/31")  # fmt: skip
SIDES = st.fixed_dictionaries(
    {"source": st.sampled_from(NETWORKS), "destination": st.sampled_from(NETWORKS)}
).filter(lambda match: len({":" in prefix for prefix in match.values()}) == 1)


@settings(max_examples=60, deadline=None)
@given(st.lists(SIDES, min_size=1, max_size=5))
def test_flows_of_any_prefixes_are_of_their_classes(matches: list[dict[str, str]]) -> None:
    classes = {f"c{number}": {"match": match} for number, match in enumerate(matches)}
    policy = {"classes": {**classes, "rest": {"match": "any"}}}
    found = around(configuration(attachment("Gi0/1", policy=policy)), "x")
    scenario = found.scenario()
    for name, flow in scenario.flows.items():
        key = "address_v6" if flow.ip == 6 else "address"
        source, destination = (
            getattr(scenario.nodes[node], key) for node in (flow.source, flow.destination)
        )
        within = (
            f"c{number}"
            for number, match in enumerate(matches)
            if source in ip_network(match["source"])
            and destination in ip_network(match["destination"])
        )
        assert next(within, "rest") == name
    rooms = "need an address", "earlier classes take all", "no host can send"
    assert all(any(why in remark for why in rooms) for remark in found.remarks)
    if not {HOST, "198.18.0.1/32", "10.0.0.0/31"} & {p for each in matches for p in each.values()}:
        assert not any(rooms[0] in remark for remark in found.remarks)
