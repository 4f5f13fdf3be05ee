"""Every line of IOS about QoS has a treatment: lines of other blocks, broken and removed ones."""

import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import Outcome
from ios import config, one, policy, treatments
from perhop.routers.reading import decisive, source
from perhop.routers.reading.configuration import Fault
from perhop.routers.reading.ios import read

# Lines that a terminal broke

BROKEN = """\
class-map match-any GOLD
 match ip dscp af31
class-map match-any VOICE
 match ip dscp ef
policy-map OUT
 class VOICE
   police 40000 2000 2000 conform-action set-dscp-transmit ef exceed-action
set-dscp-transmit cs5 violate-action drop
  priority 40
 class GOLD
   police 24000 13000 26000 conform-action transmit
exceed-action set-dscp-transmit af32
  bandwidth 180
  random-detect
 class class-default
  bandwidth 20
interface GigabitEthernet0/1
 bandwidth 1000
 service-policy output OUT
"""


def test_broken_lines_belong_to_the_statement_before_them() -> None:
    assert len(treatments(BROKEN)) == 19
    classes = policy(BROKEN).policy["classes"]
    assert classes["VOICE"]["police"]["exceed"] == {"remark": "cs5"}
    assert classes["VOICE"]["police"]["violate"] == "drop"
    assert classes["GOLD"]["police"]["exceed"] == {"remark": "af32"}
    assert classes["GOLD"]["bandwidth"] == "180 kbps"
    assert classes["class-default"]["bandwidth"] == "20 kbps"


def test_actions_of_a_limiter_may_stand_below_it() -> None:
    text = """\
interface GigabitEthernet0/1
 rate-limit output 8000000 16000 16000
  conform-action set-prec-transmit 5
  exceed-action drop
"""
    told = [each[0] for each in treatments(text).values()]
    assert told == ["modelled", "approximated", "modelled", "modelled"]  # the marks: three bits
    police = policy(text).policy["classes"]["rate-limit-1"]["police"]
    assert police["conform"] == {"remark": "cs5"}


# Other blocks


@pytest.mark.parametrize(
    ("block", "line"),
    [
        ("route-map M permit 10", "set ip precedence critical"),
        ("route-map M permit 10", "set ip tos max-throughput"),
        ("dial-peer voice 1 voip", "ip qos dscp ef media"),
        ("vc-class atm DSL", "vbr-nrt 1000 1000 1"),
        ("vc-class atm DSL", "tx-ring-limit 3"),
        ("template PORT", "mls qos trust dscp"),
        ("template PORT", "no auto qos voip"),
        ("wireless profile policy P", "qos video"),
        ("map-class frame-relay M", "frame-relay bc 8000"),
        ("interface Serial0/0", "ip rtp header-compression iphc-format"),
        ("interface Serial0/0", "ip rtp reserve 16384 100 64"),
        ("interface GigabitEthernet0/2", "switchport priority extend cos 0"),
        ("interface GigabitEthernet0/2", "tx-queue 3\n  bandwidth percent 33"),
        ("interface ATM0/0", "pvc 8/35\n  class-vc DSL"),
    ],
)
def test_statements_of_other_blocks_are_named(block: str, line: str) -> None:
    told = treatments(f"{block}\n {line}\n description {line.split()[0]} of nothing\n")
    wanted = line.split("\n  ")[-1]
    assert told[wanted][0] == "not modelled" and told[wanted][1]
    assert not any("of nothing" in text for text in told)


def test_statements_of_switches_have_their_reasons() -> None:
    text = """\
mls qos map policed-dscp 24 26 to 0
mls qos srr-queue output cos-map queue 1 threshold 3 5
interface GigabitEthernet0/1
 mls qos trust cos
 mls qos dscp-mutation M
crypto isakmp profile P
 qos-group 3
"""
    assert [told[1] for told in treatments(text).values()] == [
        "tables of marks are not modelled",
        "the queues of switches are not modelled",
        "trust of ports is not modelled",
        "tables of marks are not modelled",
        "there are no QoS groups",
    ]


@pytest.mark.parametrize(
    "line",
    [
        "no mls qos rewrite ip dscp",
        "default mls qos",
        "ip nbar custom app tcp 5001",
        "ip rsvp policy local default",
        "mls mpls qos input uniform-mode",
        "policer aggregate P cir 2100000 bc 50000 exceed-action drop",
        "no policy-map OLD",
        "no class-map match-any OLD",
    ],
)
def test_global_statements_are_named(line: str) -> None:
    assert line in treatments(f"hostname r\n{line}\ninterface GigabitEthernet0/1\n")


def test_map_classes_of_one_name_are_one() -> None:
    text = """\
map-class frame-relay M
 frame-relay cir 64000
map-class frame-relay M
 frame-relay bc 8000
interface Serial0/0
 frame-relay class M
"""
    assert policy(text, "Serial0/0").shape == {"rate": "64 kbps", "burst": "1 kB"}


# Statements that take others back


def test_statements_are_taken_back() -> None:
    text = """\
class-map match-any A
 match ip dscp af11
 match ip dscp af12
 no match ip dscp af11
class-map B
 match ip dscp ef
policy-map P
 class A
  bandwidth percent 10
  set dscp 3
  no set dscp 3
 class B
  bandwidth percent 20
 no class B
policy-map OLD
 class A
no policy-map OLD
interface GigabitEthernet0/1
 service-policy output P
"""
    classes = policy(text).policy["classes"]
    assert list(classes) == ["A", "class-default"]
    assert classes["A"]["match"] == {"dscp": "af12", "ip": 4}
    told = treatments(text)
    assert told["set dscp 3"] == ("not modelled", "removed in line 11")
    assert told["bandwidth percent 20"] == ("not modelled", "removed in line 14")
    assert told["policy-map OLD"] == ("not modelled", "removed in line 17")
    assert [each.name for each in config(text).attachments] == ["P"]


@pytest.mark.parametrize(
    ("statements", "removed", "without_effect"),
    [
        (
            "random-detect dscp-based\n  random-detect dscp 10 20 40 10\n"
            "  random-detect exponential-weighting-constant 7\n  no random-detect",
            [
                "random-detect dscp-based",
                "random-detect dscp 10 20 40 10",
                "random-detect exponential-weighting-constant 7",
            ],
            [],
        ),
        ("random-detect\n  no random-detect dscp-based", ["random-detect"], []),
        ("no random-detect\n  no police", [], ["no random-detect", "no police"]),
        ("set ip dscp ef\n  no set dscp", ["set ip dscp ef"], []),
        ("queue-limit dscp 8 10\n  no queue-limit dscp 8", ["queue-limit dscp 8 10"], []),
    ],
    ids=["WRED", "WRED by mark", "nothing", "a mark", "a threshold"],
)
def test_actions_of_a_class_are_taken_back(
    statements: str, removed: list[str], without_effect: list[str]
) -> None:
    text = f"""\
class-map match-any A
 match dscp ef
policy-map P
 class A
  bandwidth percent 20
  {statements}
interface GigabitEthernet0/1
 service-policy output P
"""
    class_ = policy(text).policy["classes"]["A"]
    assert "wred" not in class_["queue"]
    assert "mark" not in class_
    told = config(text).lines
    assert [each.text for each in told if each.note.startswith("removed in line")] == removed
    assert [each.text for each in told if each.note.startswith("has no effect")] == without_effect
    assert {each.note[:10] for each in told} <= {"", "removed in", "has no eff"}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("set ip precedence 3", "set dscp ef"),
        ("set dscp af11", "set ip dscp ef"),
        ("random-detect exponential-weighting-constant 5", "random-detect exponential-weight 7"),
    ],
)
def test_a_later_action_replaces_an_earlier_one(first: str, second: str) -> None:
    text = f"policy-map P\n class class-default\n  {first}\n  {second}\n"
    told = treatments(text)
    assert told[first] == ("not modelled", "replaced in line 4")
    assert told[second][0] == "modelled"


LISTED = """\
ENTRIES
class-map match-any A
 match access-group LIST
policy-map P
 class A
  bandwidth percent 20
interface GigabitEthernet0/1
 service-policy output P
"""
HTTP = {"destination_port": 80, "ip": 4, "protocol": "tcp"}


@pytest.mark.parametrize(
    ("entries", "name", "removed"),
    [
        (
            "access-list 101 permit udp any any\nno access-list 101\n"
            "access-list 101 permit tcp any any eq 80",
            "101",
            ["access-list 101 permit udp any any"],
        ),
        (
            "ip access-list extended A\n permit udp any any\nno ip access-list extended A\n"
            "ip access-list extended A\n permit tcp any any eq 80",
            "name A",
            ["ip access-list extended A", "permit udp any any"],
        ),
        (
            "ip access-list extended A\n permit udp any any\n permit tcp any any eq 80\n"
            "ip access-list extended A\n no 10",
            "name A",
            ["permit udp any any"],
        ),
        (
            "ip access-list extended A\n permit udp any any\n permit tcp any any eq 80\n"
            " 5 deny udp any any",
            "name A",
            [],
        ),
    ],
    ids=["a numbered list", "a named list", "an entry", "an entry before others"],
)
def test_access_lists_and_entries_are_taken_back(
    entries: str, name: str, removed: list[str]
) -> None:
    text = LISTED.replace("ENTRIES", entries).replace("LIST", name)
    assert policy(text).policy["classes"]["A"]["match"] == HTTP
    told = config(text).lines
    assert [each.text for each in told if each.note.startswith("removed in line")] == removed
    assert {each.note[:10] for each in told} <= {"", "removed in"}


def test_a_list_that_is_taken_back_is_not_defined() -> None:
    entries = "access-list 101 permit udp any any\nno access-list 101"
    text = LISTED.replace("ENTRIES", entries).replace("LIST", "101")
    assert treatments(text)["match access-group 101"] == ("not modelled", "no access list 101")
    entries = "access-list 101 permit tcp any any eq 80\nno access-list 101 permit udp any any"
    text = LISTED.replace("ENTRIES", entries).replace("LIST", "101")
    told = treatments(text)["no access-list 101 permit udp any any"]
    assert told == ("not modelled", "IOS may remove the whole list")


@pytest.mark.parametrize(
    ("interface", "command", "kept"),
    [
        ("GigabitEthernet0/1", "default interface Gi0/1", False),
        ("Port-channel1", "no interface Port-channel1", False),
        ("GigabitEthernet0/1", "default interface Gi0/2", True),
        ("GigabitEthernet0/1", "no interface Gi0/1", True),  # a port
    ],
)
def test_interfaces_are_reset(interface: str, command: str, kept: bool) -> None:
    text = LISTED.replace("match access-group LIST", "match dscp ef").replace("ENTRIES", "!")
    text = text.replace("GigabitEthernet0/1", interface) + command
    assert [bool(each.interface) for each in config(text).attachments] == [kept]
    told = treatments(text)["service-policy output P"]
    assert told[0] == ("modelled" if kept else "not modelled")


@pytest.mark.parametrize(
    ("refused", "statement"),
    [
        (True, "match ip precedence 0 1 2 3 4"),
        (False, "match ip precedence 0 1 2 3"),
        (True, "police 7000 1500 conform-action transmit exceed-action drop"),
        (False, "police 8000 1500 conform-action transmit exceed-action drop"),
    ],
)
def test_values_out_of_range_are_refused(statement: str, refused: bool) -> None:
    matched = statement.startswith("match")
    text = LISTED.replace("ENTRIES", "!").replace(
        " match access-group LIST", f" match cos 1\n {statement}" if matched else " match cos 1"
    )
    text = text if matched else text.replace("bandwidth percent 20", statement)
    (line,) = [each for each in config(text).lines if each.text == statement]
    assert (line.fault is Fault.REFUSED) is refused
    assert line.note.startswith("IOS refuses it") is refused


# Values and notes


def test_bursts_of_shapers_follow_the_release() -> None:
    shaper = "shape average 1000000"
    assert one(shaper, version="12.4")["shape"]["burst"] == "3125 B"  # 25 ms
    assert one(shaper, version="15.2")["shape"]["burst"] == "500 B"  # 4 ms


def test_bandwidth_may_account_for_layer_2() -> None:
    assert one("bandwidth 1500 account qinq aal5 snap-rbe")["bandwidth"] == "1.5 Mbps"
    assert one("bandwidth remaining percent 30 account dot1q aal5 mux-ppp")["bandwidth"] == "30%"


def test_thresholds_of_several_marks_and_small_ones() -> None:
    values = "random-detect precedence values 1 2 minimum-thresh 20 maximum-thresh 60 mark-prob 5"
    [profile] = one(f"random-detect\n{values}")["queue"]["wred"]["profiles"]
    assert profile["dscp"][:1] + profile["dscp"][-1:] == ["cs1", 23]
    assert (profile["min"], profile["max"]) == ("20 packets", "60 packets")
    small = "random-detect\nrandom-detect precedence 1 100 bytes 200 bytes 10"
    [profile] = one(small)["queue"]["wred"]["profiles"]
    assert (profile["min"], profile["max"]) == ("1 packet", "2 packets")


@pytest.mark.parametrize(
    ("line", "note"),
    [
        ("queue-limit percent 30", "shares of the buffers of switches are not modelled"),
        (
            "random-detect dscp 8 percent 10 50",
            "shares of the buffers of switches are not modelled",
        ),
        ("set dscp cos table T", "tables of marks are not modelled"),
        ("police cir 8000 conform-color A", "colour-aware policing is not modelled"),
    ],
)
def test_notes_name_the_reason(line: str, note: str) -> None:
    text = f"policy-map P\n class class-default\n  {line}\n"
    assert treatments(text)[line] == ("not modelled", note)


def test_marks_of_tunnels_do_not_change_packets() -> None:
    line = "police 8000 1500 1500 conform-action set-dscp-tunnel-transmit ef exceed-action drop"
    assert "conform" not in one(line)["police"]


def test_a_line_has_all_notes_of_its_approximations() -> None:
    text = """\
class-map A
 match ip dscp 46
class-map B
 match ip dscp 34
policy-map P
 class A
  priority percent 10
 class B
  priority percent 20
interface GigabitEthernet0/1
 service-policy output P
"""
    note = treatments(text)["priority percent 20"][1]
    assert "served after" in note and "its policer acts always" in note


def test_entries_of_access_lists_repeat_no_note() -> None:
    text = """\
access-list 101 permit tcp any any match-any +syn +ack time-range Work
class-map A
 match access-group 101
policy-map P
 class A
  set dscp 8
"""
    note = next(iter(treatments(text).values()))[1]
    assert note.count("flags") == 1 and "time range Work" in note


def test_numbers_of_ipv6_entries_may_stand_last() -> None:
    text = """\
ipv6 access-list L
 permit tcp any any eq 80 sequence 20
 deny tcp any any eq 80 sequence 10
 permit udp any any eq 53
class-map match-any A
 match access-group name L
 match protocol ipv6
 match class B
class-map B
 match dscp ef
policy-map P
 class A
  set dscp 8
interface GigabitEthernet0/1
 service-policy input P
"""
    assert {told[0] for told in treatments(text).values()} == {"modelled"}
    match = policy(text).policy["classes"]["A"]["match"]
    assert match == [{"dscp": "ef"}, {"ip": 6}] or {"ip": 6} in match


def test_import_counts_one_line_in_words(perhop: Callable[..., Outcome], tmp_path: Path) -> None:
    (tmp_path / "r.cfg").write_text("ip nbar custom app tcp 5001\nhostname r\n")
    found = perhop("import", str(tmp_path / "r.cfg"), "--family", "ios")
    assert "1 line about quality of service: 0 modelled" in found.out


def test_a_line_takes_little_memory() -> None:
    """100,000 lines of access lists, with the rest of the process, in less than 200 MB."""
    blocks = [
        f"ip access-list extended L{n}\n"
        + "".join(f" permit tcp 10.0.{n}.0 0.0.0.255 host 192.0.2.{k} eq {k}\n" for k in range(40))
        + f"class-map C{n}\n match access-group name L{n}\n"
        + f"policy-map P{n}\n class C{n}\n  set dscp 8\n"
        for n in range(12)
    ]
    text = source("".join(blocks), "r")
    read([text])  # what is cached belongs to no line
    tracemalloc.start()
    read([text])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1400 * text.text.count("\n")


def test_abbreviated_statements_count() -> None:
    text = (
        "class-map match-all A\n matc dscp ef\npolicy-map P\n class A\n  band 1000\n"
        " class class-default\n  fair\ninterface GigabitEthernet0/1\n bandw 10000\n"
        " service instance 7 ethernet\n service-pol output P\n"
    )
    found = read([source(text, "r.cfg")])
    (attachment,) = found.attachments
    assert attachment.rate == 10_000_000
    assert attachment.policy["classes"]["A"]["bandwidth"] == "1 Mbps"
    assert "fq-codel" in attachment.policy["classes"]["class-default"]["queue"]


def test_a_class_inserted_before_another_matches_first() -> None:
    text = (
        "class-map match-all A\n match dscp ef\nclass-map match-all B\n match protocol udp\n"
        "class-map match-all C\n match protocol tcp\npolicy-map P\n class B\n  bandwidth 1000\n"
        " class C\n class A insert-before B\n  bandwidth 2000\n"
        "interface GigabitEthernet0/1\n service-policy output P\n"
    )
    (attachment,) = read([source(text, "r.cfg")]).attachments
    assert list(attachment.policy["classes"]) == ["A", "B", "C", "class-default"]


def test_fair_queue_without_reservable_queues() -> None:
    text = "interface Serial0/0\n fair-queue 64 256 0\n"
    (attachment,) = read([source(text, "r.cfg")]).attachments
    assert attachment.policy["classes"]["class-default"]["queue"]["fq-codel"]["flows"] == 256


def test_an_unknown_statement_of_a_class_is_told() -> None:
    """It may do anything: `run`, `lint` and `diff` warn of it."""
    found = read(
        [
            source(
                "policy-map P\n class class-default\n  sh ave 1000000\n"
                "interface GigabitEthernet0/1\n service-policy output P\n",
                "r.cfg",
            )
        ]
    )
    assert [line.text for line in decisive(found)] == ["sh ave 1000000"]
