"""Scripts of Linux hosts: what becomes of each line, and the policies that they make."""

import random
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import SLOW
from perhop.routers.reading.configuration import Attachment, Configuration, Fault, Source, Treatment
from perhop.routers.reading.linux import read, units
from perhop.routers.reading.linux.classify import priority
from perhop.scenario import parse
from perhop.scenario.model.dscp import parse_dscp

SCRIPT = """\
#!/bin/sh
DEV=eth0; TC=/sbin/tc
UP=10
start() {
  $TC qdisc add dev $DEV root handle 1: htb default 30
  $TC class add dev $DEV parent 1: classid 1:1 htb rate ${UP}mbit burst 15k
  $TC class add dev $DEV parent 1:1 classid 1:10 htb rate 2mbit ceil 10mbit prio 1
  $TC class add dev $DEV parent 1:1 classid 1:20 htb rate 3mbit ceil 5mbit prio 2
  $TC class add dev $DEV parent 1:1 classid 1:30 htb rate $((UP/2))mbit ceil 10mbit prio 3
  for i in 10 20; do
    tc qdisc add dev $DEV parent 1:$i handle $i: fq_codel noecn
  done
  U32="tc filter add dev $DEV protocol ip parent 1:0 prio 1 u32"
  $U32 match ip dport 22 0xffff flowid 1:10   # SSH
  $U32 match ip tos 0xb8 0xfc flowid 1:10
  $U32 match ip sport 80 0xffff \\
    match ip protocol 6 0xff flowid 1:20
  tc qdisc add dev eth0 handle ffff: ingress
  tc filter add dev eth0 parent ffff: protocol ip prio 50 u32 match ip src 0.0.0.0/0 \\
    police rate 5mbit burst 10k drop flowid :1
}
stop() { $TC qdisc del dev $DEV root; }
case "$1" in start) start ;; restart) stop; start ;; esac
"""


def reading(text: str) -> Configuration:
    return read([Source("wan.sh", text)])


def attachment(text: str, direction: str = "out") -> Attachment:
    return next(each for each in reading(text).attachments if each.direction == direction)


def classes(text: str, direction: str = "out") -> dict[str, Any]:
    found: dict[str, Any] = attachment(text, direction).policy["classes"]
    return found


def notes(text: str) -> dict[int, str]:
    """The note of each line that is not modelled exactly."""
    return {
        line.place.line: line.note
        for line in reading(text).lines
        if line.treatment is not Treatment.MODELLED
    }


def htb(*lines: str, default: str = "30") -> str:
    """A script with an HTB of 10 Mb/s on eth0; lines are without `tc` and the interface."""
    first = (
        f"qdisc add root handle 1: htb default {default}",
        "class add parent 1: classid 1:1 htb rate 10mbit",
    )
    return "".join(
        f"tc {kind} {verb} dev eth0 {rest}\n"
        for kind, verb, rest in (line.split(" ", 2) for line in (*first, *lines))
    )


def test_a_script_is_a_policy_with_its_lines() -> None:
    found = attachment(SCRIPT)
    assert (found.interface, found.policy["scheduler"]) == ("eth0", "htb")
    assert found.policy["htb"] == {"rate": "10 Mbps", "burst": "15 KiB", "overhead": "14 B"}
    ssh, web, rest = found.policy["classes"].values()
    assert ssh["match"] == [{"ip": 4, "destination_port": 22}, {"ip": 4, "dscp": "ef"}]
    assert (ssh["bandwidth"], ssh["priority"], "limit" in ssh) == ("2 Mbps", 1, False)
    assert web["match"] == {"ip": 4, "protocol": "tcp", "source_port": 80}
    assert (web["limit"], web["queue"]["fq-codel"]["ecn"]) == ("5 Mbps", False)
    assert (rest["match"], rest["bandwidth"]) == ("any", "5 Mbps")
    assert rest["queue"] == {"limit": "1000 packets"}
    assert found.place(("classes", "c20", "limit")).line == 8
    assert classes(SCRIPT, "in") == {
        "filter1": {"match": {"ip": 4}, "police": {"rate": "5 Mbps", "burst": "10 KiB"}},
        "rest": {"match": "any"},
    }


def test_every_line_has_its_fate() -> None:
    found = reading(SCRIPT)
    assert [line.place.line for line in found.lines] == [
        *range(5, 10),
        11,
        *range(14, 17),
        18,
        19,
        22,
    ]
    # A branch that may not be taken removes nothing.
    assert notes(SCRIPT) == {22: "it is in a branch, which may not be taken"}
    assert {"r2q", "quantum", "burst", "limit", "target"} <= {d.setting for d in found.defaults}


@pytest.mark.parametrize(
    ("qdisc", "queue"),
    [
        (
            "fq_pie flows 64 target 5ms ecn",
            {
                "limit": "10240 packets",
                "fq-pie": {
                    "target": "5 ms",
                    "update": "15 ms",
                    "ecn": True,
                    "flows": 64,
                    "quantum": "1514 B",
                },
            },
        ),
        (
            "sfq limit 1000 depth 20 flows 16 divisor 256 quantum 3000 perturb 10 headdrop",
            {
                "limit": "320 packets",
                "sfq": {
                    "depth": 20,
                    "divisor": 256,
                    "flows": 16,
                    "quantum": "3000 B",
                    "perturb": "10 s",
                    "drop": "head",
                },
            },
        ),
    ],
)
def test_queues_of_flows(qdisc: str, queue: dict[str, Any]) -> None:
    """The numbers of SFQ bound each other as in Linux's `sfq_change`."""
    text = htb("class add parent 1:1 classid 1:30 htb rate 1mbit", f"qdisc add parent 1:30 {qdisc}")
    (found,) = classes(text).values()
    assert found["queue"] == queue


def test_a_policy_is_one_that_scenarios_take() -> None:
    import yaml

    policy = attachment(SCRIPT).policy | {"unused": True}
    for each in policy["classes"].values():
        each["unused"] = True
    text = yaml.safe_dump(
        {
            "perhop": 1,
            "name": "x",
            "nodes": {"a": "host", "b": "host"},
            "links": [{"ends": ["a", "b"], "rate": "10 Mbps", "egress": {"a": "p"}}],
            "policies": {"p": policy},
            "duration": "1 s",
        }
    )
    assert list(parse(text).policies["p"].classes) == ["c10", "c20", "c30"]


@pytest.mark.parametrize(
    ("text", "bits"),
    [("1mbit", 10**6), ("1mbps", 8 * 10**6), ("1kibit", 1024), ("500", 500), ("1.5Mbit", 1500000)],
)
def test_rates_are_bits_and_bps_are_bytes(text: str, bits: int) -> None:
    assert units.rate(text) == bits


def test_sizes_are_powers_of_1024() -> None:
    assert [units.size(each) for each in ("15k", "1500b", "1mb", "8kbit")] == [
        15360,
        1500,
        2**20,
        1024,
    ]
    assert [units.time(each) for each in ("5ms", "100", "1s")] == [5 * 10**9, 10**8, 10**12]


def test_classes_without_a_parent_never_borrow() -> None:
    text = (
        "tc qdisc add dev eth0 root handle 1: htb default 20\n"
        "tc class add dev eth0 parent 1: classid 1:10 htb rate 1mbit ceil 5mbit\n"
        "tc class add dev eth0 parent 1: classid 1:20 htb rate 2mbit\n"
        "tc filter add dev eth0 parent 1: prio 1 handle 6 fw classid 1:20\n"
        "tc filter add dev eth0 parent 1: prio 2 u32 match ip dst 10.0.0.0/8 flowid 1:10\n"
    )
    found = attachment(text)
    assert found.shape is None
    assert found.policy["classes"]["c10"]["borrow"] is False
    assert "never borrows" in notes(text)[2]


def test_more_guarantees_than_there_are_are_not_held() -> None:
    text = htb(
        "class add parent 1:1 classid 1:10 htb rate 15mbit ceil 15mbit",
        "class add parent 1:1 classid 1:30 htb rate 5mbit ceil 10mbit",
        "filter add parent 1: prio 1 u32 match ip protocol 17 0xff flowid 1:10",
    )
    assert [each["bandwidth"] for each in classes(text).values()] == ["15 Mbps", "5 Mbps"]
    (line, *_) = [line for line in reading(text).lines if line.fault is Fault.ABOVE_PARENT]
    assert line.fault_note.startswith("guarantees of 20 Mbps exceed the 10 Mbps")


def test_numbers_of_protocols_of_flower_are_hexadecimal() -> None:
    text = htb(
        "class add parent 1:1 classid 1:10 htb rate 1mbit",
        "class add parent 1:1 classid 1:30 htb rate 1mbit",
        "filter add parent 1: protocol ip prio 1 flower ip_proto 11 dst_port 53 flowid 1:10",
    )
    assert classes(text)["c10"]["match"] == {"protocol": "udp", "destination_port": 53, "ip": 4}


def test_fragments_are_no_condition_but_no_error_either() -> None:
    text = htb(
        "class add parent 1:1 classid 1:10 htb rate 1mbit",
        "class add parent 1:1 classid 1:30 htb rate 1mbit",
        "filter add parent 1: protocol ip prio 1 u32 match ip nofrag flowid 1:10",
    )
    note = notes(text)[max(notes(text))]
    assert note == "fragmentation of a packet is no condition of a scenario"


def test_a_ceiling_below_the_guarantee_holds() -> None:
    """`htb_class_mode` compares the ceiling first; Linux sends 1.97 Mb/s of such a class."""
    text = htb(
        "class add parent 1:1 classid 1:10 htb rate 5mbit ceil 2mbit",
        "class add parent 1:1 classid 1:30 htb rate 5mbit ceil 10mbit",
        "filter add parent 1: prio 1 u32 match ip protocol 17 0xff flowid 1:10",
    )
    found = classes(text)["c10"]
    assert (found["bandwidth"], found["borrow"]) == ("2 Mbps", False)
    assert found["quantum"] == "62500 B"
    (line,) = [line for line in reading(text).lines if line.fault is Fault.BELOW_GUARANTEE]
    assert line.fault_note == "`ceil` is below `rate`: the class gets no more than 2 Mbps"


def test_a_ceiling_below_the_rate_of_a_shaper_is_its_rate() -> None:
    text = (
        "tc qdisc add dev eth0 root handle 1: htb default 1\n"
        "tc class add dev eth0 parent 1: classid 1:1 htb rate 5mbit ceil 2mbit\n"
    )
    assert attachment(text).policy["htb"]["rate"] == "2 Mbps"


def test_later_filters_without_a_priority_come_first() -> None:
    text = htb(
        "class add parent 1:1 classid 1:10 htb rate 1mbit ceil 10mbit",
        "class add parent 1:1 classid 1:20 htb rate 1mbit ceil 10mbit",
        "class add parent 1:1 classid 1:30 htb rate 1mbit ceil 10mbit",
        "filter add parent 1: protocol ip u32 match ip protocol 17 0xff flowid 1:10",
        "filter add parent 1: protocol ip u32 match ip dport 53 0xffff flowid 1:20",
    )
    assert list(classes(text)) == ["c20", "c10", "c30"]


def test_an_order_of_filters_that_classes_do_not_have_takes_exceptions() -> None:
    text = (
        "tc qdisc add dev eth0 root handle 1: prio bands 2 priomap "
        "1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1\n"
        "tc filter add dev eth0 parent 1: prio 1 u32 match ip dport 22 0xffff flowid 1:2\n"
        "tc filter add dev eth0 parent 1: prio 2 u32 match ip protocol 6 0xff flowid 1:1\n"
    )
    first, second = classes(text).values()
    # Without a protocol, the filters compare packets of IPv6, too, at the offsets of IPv4.
    ssh = {"except": {"ip": 4, "destination_port": 22}}
    assert first["match"] == [ssh, {"ip": 4, "protocol": "tcp"}]
    assert (first["priority"], second["match"]) == ("strict", "any")


def test_bands_go_by_the_type_of_service() -> None:
    assert [priority(dscp) for dscp in (0, 46, 10, 36, 48)] == [0, 4, 2, 6, 0]
    bands = classes("tc qdisc add dev eth0 root pfifo_fast\n")
    assert [each["priority"] for each in bands.values()] == ["strict"] * 3
    assert "af42" in bands["band0"]["match"]["dscp"]


def test_marks_of_unknown_rules_reach_no_class() -> None:
    text = htb(
        "class add parent 1:1 classid 1:10 htb rate 1mbit",
        "class add parent 1:1 classid 1:30 htb rate 1mbit ceil 10mbit",
        "filter add parent 1: prio 1 handle 0x10/0xff fw classid 1:10",
    )
    assert notes(text)[3] == "no rule that perhop can read sets the mark 0x10/0xff that leads here"


def test_what_the_script_does_not_tell_is_said() -> None:
    text = htb(default="30") + (
        "tc class add dev eth0 parent 1:1 classid 1:30 htb rate $1\n"
        "while read ip; do\n"
        "  tc filter add dev eth0 parent 1: u32 match ip dst $ip flowid 1:30\n"
        "done\n"
        "tc qdisc add dev eth0 root sfq\n"
    )
    found = notes(text)
    assert found[3] == "the value of $1 is not in the script"
    assert "loop over values" in found[5]
    assert found[7] == "eth0 has a qdisc here already, by wan.sh:1: `add` fails"


@SLOW
def test_a_bomb_of_variables_is_bounded() -> None:
    lines = ["a=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"]
    lines += [f"a=$a$a; tc qdisc add dev $a root sfq # {number}" for number in range(40)]
    loops = "for i in {1..250}; do\n" * 8 + "tc qdisc add dev x$i root sfq\n" + "done\n" * 8
    assert len(reading("\n".join(lines)).lines) == 40
    assert len(reading(loops).lines) == 1


@settings(max_examples=40)
@given(st.integers(0, 2**32))
def test_damaged_scripts_are_read(seed: int) -> None:
    """Parts of scripts in any order and cut anywhere; larger runs are in `test_fuzz_routers`."""
    draw = random.Random(seed)
    words = SCRIPT.replace("\n", " \n ").split(" ")
    for _ in range(draw.randint(1, 30)):
        at = draw.randrange(len(words))
        words[at] = draw.choice([*words, "$(", "'", "{", "0xffffffff", "1:", ""])
    found = reading(" ".join(words))
    assert len({line.place for line in found.lines}) == len(found.lines)
    assert all(bool(line.note) == (line.treatment != "modelled") for line in found.lines)


@pytest.mark.parametrize(
    "text",
    [
        (
            "tc qdisc add dev eth0 root handle 1: drr\n"
            "tc class add dev eth0 parent 1: classid 1:1 drr quantum 3000\n"
            "tc class add dev eth0 parent 1: classid 1:2 drr\n"
            "tc filter add dev eth0 parent 1: protocol ip u32 match ip dport 53 0xffff flowid 1:1\n"
            "tc filter add dev eth0 parent 1: protocol ip prio 9 u32 match u32 0 0 flowid 1:2\n"
        ),
        "tc qdisc add dev eth0 root handle 1: ets strict 1 quanta 3000 1500\n",
        (
            "tc qdisc add dev eth0 root handle 1: htb default 1\n"
            "tc class add dev eth0 parent 1: classid 1:1 htb rate 1mbit\n"
            "tc qdisc add dev eth0 parent 1:1 handle 2: drr\n"
            "tc class add dev eth0 parent 2: classid 2:1 drr quantum 1514\n"
            "tc class add dev eth0 parent 2: classid 2:2 drr quantum 1514\n"
            "tc filter add dev eth0 parent 2: protocol ip prio 1 u32 match ip dport 53 0xffff "
            "flowid 2:1\n"
            "tc filter add dev eth0 parent 2: protocol all prio 2 matchall flowid 2:2\n"
        ),
        (
            "tc qdisc add dev eth0 root handle 1: prio\n"
            "tc qdisc add dev eth0 parent 1:1 tbf rate 1mbit burst 10k latency 50ms\n"
        ),
    ],
)
def test_policies_count_the_bytes_of_layer_2_that_linux_counts(text: str) -> None:
    """`test_linux_classes` compares them with Linux, and the next tests with its arithmetic."""
    found = attachment(text)
    assert found.policy["overhead"] == "14 B"
    assert found.shape is None or found.shape["overhead"] == "14 B"
    assert notes(text) == {}
    table = attachment(text.replace("dev eth0 root", "dev eth0 root stab overhead -14"))
    assert "overhead" not in {**table.policy, **(table.shape or {})}


def test_loans_of_htb_around_other_classes_are_told() -> None:
    """Quanta say how classes borrow; the default scheduler goes by guarantees."""
    class_ = "tc class add dev eth0 parent 1:1 classid 1:{} htb rate 100kbit ceil 1mbit"
    text = (
        "tc qdisc add dev eth0 root handle 1: htb default 3\n"
        "tc class add dev eth0 parent 1: classid 1:1 htb rate 1mbit\n"
        f"{class_.format(2)} quantum 2000\n{class_.format(3)} quantum 6000\n"
        "tc filter add dev eth0 parent 1: protocol ip u32 match ip dport 53 0xffff flowid 1:2\n"
    )
    assert notes(text) == {}
    inside = notes(f"{text}tc qdisc add dev eth0 parent 1:2 prio\n")
    assert inside[1] == "classes share what is lent by their guarantees here, not by HTB's quanta"


def test_netem_with_a_rate_in_a_class_counts_frames() -> None:
    prio = "tc qdisc add dev eth0 root handle 1: prio\n"
    found = attachment(f"{prio}tc qdisc add dev eth0 parent 1:1 netem rate 400kbit\n")
    assert found.policy["overhead"] == "14 B"


def test_priorities_count_no_bytes() -> None:
    assert "overhead" not in attachment("tc qdisc add dev eth0 root handle 1: prio\n").policy


@pytest.mark.parametrize("held_by", ["tbf rate 1mbit burst 10k latency 50ms", "netem rate 1mbit"])
@pytest.mark.parametrize("between", [False, True])
@pytest.mark.parametrize(
    ("above", "parent", "held"),
    [
        ("drr", "1:1", True),
        ("hfsc", "1:1", True),
        ("ets bands 2 strict 1 quanta 1500", "1:2", True),
        ("ets bands 2 strict 1 quanta 1500", "1:1", False),
        ("prio", "1:1", False),
    ],
)
def test_a_bucket_in_a_class_that_has_its_turn_holds_the_others(
    above: str, parent: str, held: bool, between: bool, held_by: str
) -> None:
    """`drr_dequeue`, `ets_qdisc_dequeue` and `hfsc_dequeue` return where `peek` finds no packet.

    In Linux 6.1, two classes of DRR in 2 Mb/s got 0.32 and 0.40 Mb/s of packets of 60 and 1500
    bytes, the first one behind a TBF of 400 kb/s.
    """
    class_ = {"drr": "drr", "hfsc": "hfsc ls rate 1mbit"}.get(above)
    text = f"tc qdisc add dev eth0 root handle 1: {above}\n"
    text += f"tc class add dev eth0 parent 1: classid 1:1 {class_}\n" * (class_ is not None)
    if between:
        text += f"tc qdisc add dev eth0 parent {parent} handle 7: prio\n"
    text += f"tc qdisc add dev eth0 parent {'7:1' if between else parent} {held_by}\n"
    text += f"tc filter add dev eth0 parent 1: protocol all matchall flowid {parent}\n"
    told = [note for note in notes(text).values() if "sends nothing while" in note]
    assert len(told) == held


def test_a_bounded_class_of_cbq_has_a_limit() -> None:
    text = (
        "tc qdisc add dev eth0 root handle 1: cbq bandwidth 10Mbit avpkt 1000 cell 8\n"
        "tc class add dev eth0 parent 1:0 classid 1:1 cbq bandwidth 10Mbit rate 10Mbit prio 8\n"
        "tc class add dev eth0 parent 1:1 classid 1:2 cbq bandwidth 10Mbit rate 8Mbit allot 1514 "
        "prio 2 split 1:0 bounded\n"
        "tc class add dev eth0 parent 1:1 classid 1:3 cbq bandwidth 10Mbit rate 1Mbit prio 3\n"
        "tc filter add dev eth0 parent 1: protocol ip prio 1 u32 match ip sport 80 0xffff "
        "flowid 1:2\n"
        "tc filter add dev eth0 parent 1: protocol all prio 2 u32 match u32 0 0 at 0 flowid 1:3\n"
    )
    web, rest = classes(text).values()
    assert (web["bandwidth"], web["borrow"], web["priority"]) == ("8 Mbps", False, 1)
    assert ("borrow" in rest, rest["priority"], rest["match"]) == (False, 2, "any")
    assert attachment(text).policy["overhead"] == "14 B"
    assert all("CBQ's estimator" in note for note in notes(text).values())


@pytest.mark.parametrize(
    "value",
    ["\"$(ip route | awk '{print $5}')\"", "`ip route | cut -f 5`", "$1", '"$(dirname $0)"'],
)
def test_an_interface_that_a_command_finds_has_the_name_of_its_variable(value: str) -> None:
    text = f"IF={value}\ntc qdisc add dev $IF root tbf rate 1mbit burst 10k latency 50ms\n"
    found = attachment(text)
    root = {"rate": "1 Mbps", "burst": "8740 B", "overhead": "14 B"}
    assert (found.interface, found.policy["htb"]) == ("$IF", root)
    assert notes(text) == {}


def test_flags_of_flower_stand_before_its_keys() -> None:
    flower = """\
    tc qdisc add dev eth0 root handle 1: htb default 30
    tc class add dev eth0 parent 1: classid 1:1 htb rate 6mbit
    tc class add dev eth0 parent 1:1 classid 1:10 htb rate 5mbit
    tc class add dev eth0 parent 1:1 classid 1:30 htb rate 1mbit
    tc filter add dev eth0 parent 1: protocol ip flower skip_hw ip_proto udp dst_port 5060 classid 1:10
    """  # noqa: E501
    assert classes(flower)["c10"]["match"] == {
        "ip": 4,
        "protocol": "udp",
        "destination_port": 5060,
    }
    assert notes(flower) == {}


def test_masks_are_hexadecimal_without_a_prefix() -> None:
    masks = """\
    tc qdisc add dev eth0 root handle 1: htb default 30
    tc class add dev eth0 parent 1: classid 1:1 htb rate 6mbit
    tc class add dev eth0 parent 1:1 classid 1:10 htb rate 5mbit
    tc class add dev eth0 parent 1:1 classid 1:30 htb rate 1mbit
    tc filter add dev eth0 parent 1: protocol ip u32 match ip tos 32 20 flowid 1:10
    tc filter add dev eth0 parent 1: protocol ip u32 match ip dport 80 ffff flowid 1:10
    """
    first, second = classes(masks)["c10"]["match"]
    points = [*range(8, 16), *range(24, 32), *range(40, 48), *range(56, 64)]
    assert {parse_dscp(str(point)) for point in second["dscp"]} == set(points)
    assert first == {"ip": 4, "destination_port": 80}


def test_curves_without_an_upper_limit_have_none() -> None:
    curves = """\
    tc qdisc add dev eth0 root handle 1: hfsc default 2
    tc class add dev eth0 parent 1: classid 1:1 hfsc sc rate 1mbit ul rate 5mbit
    tc class add dev eth0 parent 1: classid 1:2 hfsc ls rate 3mbit
    tc filter add dev eth0 parent 1: protocol ip u32 match ip dport 53 0xffff flowid 1:1
    """
    assert [each.get("limit") for each in classes(curves).values()] == ["5 Mbps", None]


ETS = """\
    tc qdisc add dev eth0 {at} ets bands 3 strict 1 quanta 6000 1500 priomap 0 1 2
    tc filter add dev eth0 parent 2: protocol ip prio 1 u32 match ip dport 53 0xffff flowid 2:1
    tc filter add dev eth0 parent 2: protocol ip prio 2 u32 match ip dport 80 0xffff flowid 2:2
    tc filter add dev eth0 parent 2: protocol ip prio 3 u32 match u32 0 0 flowid 2:3
"""


def test_bands_of_ets_are_strict_or_take_turns_by_quanta() -> None:
    found = attachment(ETS.format(at="root handle 2:"))
    assert found.policy["scheduler"] == "drr"
    keys = [(c.get("priority"), c.get("quantum")) for c in found.policy["classes"].values()]
    assert keys == [("strict", None), (None, "6 kB"), (None, "1500 B")]


def test_turns_inside_a_class_are_shares() -> None:
    """A class of a scenario has no scheduler of its own."""
    found = attachment(
        "tc qdisc add dev eth0 root handle 1: htb default 10\n"
        "tc class add dev eth0 parent 1: classid 1:10 htb rate 6mbit\n"
        "tc class add dev eth0 parent 1: classid 1:20 htb rate 1mbit\n"
        "tc filter add dev eth0 parent 1: protocol ip u32 match ip dport 99 0xffff flowid 1:20\n"
        + ETS.format(at="parent 1:10 handle 2:")
    )
    assert "scheduler" not in found.policy
    (inner,) = (c["classes"] for c in found.policy["classes"].values() if "classes" in c)
    assert [each.get("bandwidth") for each in inner.values()] == [None, "80%", "20%"]


def test_quanta_of_drr_are_quanta() -> None:
    text = """\
    tc qdisc add dev eth0 root handle 1: drr
    tc class add dev eth0 parent 1: classid 1:1 drr quantum 3000
    tc class add dev eth0 parent 1: classid 1:2 drr
    tc filter add dev eth0 parent 1: protocol ip prio 1 u32 match ip dport 53 0xffff flowid 1:1
    tc filter add dev eth0 parent 1: protocol all prio 3 u32 match u32 0 0 flowid 1:2
    """
    assert [each["quantum"] for each in classes(text).values()] == ["3 kB", "1514 B"]
    # A quantum that a scenario cannot have is a share, as ever.
    small = attachment(text.replace("drr quantum 3000", "drr quantum 10"))
    assert "scheduler" not in small.policy


def test_curves_that_say_more_than_shares_are_curves() -> None:
    curves = """\
    tc qdisc add dev eth0 root handle 1: hfsc default 3
    tc class add dev eth0 parent 1: classid 1:1 hfsc sc rate 10mbit ul rate 10mbit
    tc class add dev eth0 parent 1:1 classid 1:2 hfsc rt umax 160b dmax 5ms rate 64kbit ls m2 1mbit
    tc class add dev eth0 parent 1:1 classid 1:3 hfsc ls rate 9mbit ul m1 9mbit d 10ms m2 5mbit
    tc filter add dev eth0 parent 1: protocol ip u32 match ip dport 53 0xffff flowid 1:2
    """
    found = attachment(curves)
    assert found.policy["scheduler"] == "hfsc"
    assert found.shape is not None and found.shape["rate"] == "10 Mbps"
    first, last = found.policy["classes"].values()
    assert first["realtime"] == {"umax": "160 B", "dmax": "5 ms", "rate": "64 kbps"}
    assert (first["bandwidth"], last["bandwidth"]) == ("1 Mbps", "9 Mbps")
    assert last["upperlimit"] == {"m1": "9 Mbps", "d": "10 ms", "m2": "5 Mbps"}
    assert "limit" not in last
    # Without a default, packets without a class are dropped before the others.
    every = "tc filter add dev eth0 parent 1: protocol ip prio 50000 u32 match u32 0 0 flowid 1:3"
    dropping = attachment(f"{curves.replace(' default 3', '')}{every}")
    assert dropping.policy["classes"] == found.policy["classes"]
    assert dropping.shape == found.shape
    assert dropping.policy["policers"]["dropped"] == {
        "match": [{"except": {"ip": 4}}, "any"],
        "police": {"rate": "8 bps", "burst": "1 B", "conform": "drop"},
    }


def test_link_sharing_of_two_slopes_and_classes_without_it() -> None:
    curves = """\
    tc qdisc add dev eth0 root handle 1: hfsc default 3
    tc class add dev eth0 parent 1: classid 1:1 hfsc ls rate 10mbit ul rate 10mbit
    tc class add dev eth0 parent 1:1 classid 1:2 hfsc rt rate 2mbit
    tc class add dev eth0 parent 1:1 classid 1:3 hfsc {curve}
    tc filter add dev eth0 parent 1: protocol ip u32 match ip dport 53 0xffff flowid 1:2
    """
    first, last = classes(curves.format(curve="sc rate 8mbit")).values()
    assert (first["bandwidth"], first["borrow"]) == ("2 Mbps", False)
    first, last = classes(curves.format(curve="ls m1 9mbit d 20ms m2 8mbit")).values()
    assert first["upperlimit"] == first["realtime"] == {"rate": "2 Mbps"}
    assert last["linkshare"] == {"m1": "9 Mbps", "d": "20 ms", "m2": "8 Mbps"}
    # 18 Mb/s of 10: rates are scaled, and times inversely.
    last = classes(curves.format(curve="ls m1 32mbit d 20ms m2 16mbit"))["c3"]
    assert last["linkshare"] == {"m1": "17.777777 Mbps", "d": "36 ms", "m2": "8.888888 Mbps"}
    assert notes(curves.format(curve="ls m1 9mbit d 20ms m2 8mbit")) == {}


def test_quotes_in_a_here_document_stay() -> None:
    rule = 'iifname "eth 1" meta priority set 1:1'
    text = f"""\
    nft -f - <<EOF
    table ip $table {{
      chain post {{
        type filter hook postrouting priority 0;
        {rule}
      }}
    }}
    EOF
    """
    (line,) = reading(text).lines
    assert line.text == rule


def test_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is beyond a bound is noted, and takes no time or memory."""
    monkeypatch.setattr("perhop.routers.reading.linux.ledger.MOST_LINES", 3)
    monkeypatch.setattr("perhop.routers.reading.linux.model.MOST_DEVICES", 2)
    found = reading("\n".join(f"tc qdisc add dev eth{number} root pfifo" for number in range(9)))
    notes = [(line.place.line, line.note) for line in found.lines if line.note]
    assert notes == [
        (3, "perhop reads 2 interfaces at most"),
        (4, "perhop reads 3 lines of a file at most"),
    ]


@pytest.mark.parametrize(
    "script",
    [
        "".join(f"for {name} in {{0..255}}; do\n" for name in "abc") + "x\n" + "done\n" * 3,
        "tc qdisc add dev eth0 root pfifo\n" + "\n" * 200_000,
        "".join(f"f{i}() {{\n" + 'f1 "$@ $@ -v"\n' * 5 + "}\n" for i in range(2)) + "f1 a\n",
        "$(\n" * 10_000,
        ')"04:"$(\n' * 800,
        "tc qdisc add dev a root handle 1: tbf rate 1mbit burst 9k\n"
        "tc qdisc add dev a parent 1:1 handle 1: tbf rate 1mbit burst 9k\n",
        "tc " + '"$a ${b}"x' * 5000 + "\\;\n",
    ],
    ids=[
        "loops",
        "empty lines",
        "recursion",
        "open brackets",
        "brackets in turn",
        "a qdisc in itself",
        "a long word with a part that is not plain",
    ],
)
def test_bounded_time(script: str) -> None:
    started = time.process_time()
    reading(script)
    assert time.process_time() - started < 1.0
