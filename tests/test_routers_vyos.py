"""Configurations of VyOS: what becomes of each line, and the policies that they make."""

import random
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from perhop.cli import perhop
from perhop.routers.reading.configuration import Attachment, Configuration, Source, Treatment
from perhop.routers.reading.vyos import read
from perhop.routers.scenario import around

BRACES = """\
interfaces {
    ethernet eth0 {
        address 192.0.2.1/24
    }
}
qos {
    interface eth0 {
        egress WAN
        ingress IN
    }
    policy {
        limiter IN {
            class 10 {
                bandwidth 1mbit
                match BULK {
                    ip {
                        protocol udp
                    }
                }
            }
            default {
                bandwidth 5mbit
                burst 20k
            }
        }
        shaper WAN {
            bandwidth 20mbit
            class 10 {
                bandwidth 10%
                ceiling 30%
                match SIP {
                    ip {
                        destination {
                            port 5060
                        }
                        protocol udp
                    }
                }
                match VOICE {
                    ip {
                        dscp EF
                    }
                }
                priority 1
                set-dscp EF
            }
            class 20 {
                bandwidth 5mbps
                match LOCAL {
                    mark 5
                }
                queue-type fair-queue
            }
            default {
                bandwidth 50%
                ceiling 100%
                priority 7
                queue-type fq-codel
            }
        }
    }
}
"""


def reading(text: str) -> Configuration:
    return read([Source("config.boot", text)])


def policies(text: str) -> dict[tuple[str, str], Attachment]:
    return {(each.interface, each.direction): each for each in reading(text).attachments}


def as_commands(text: str) -> str:
    """The configuration as `set` commands."""
    path: list[str] = []
    lines = []
    for line in map(str.strip, text.splitlines()):
        if line.endswith("{"):
            path.append(line[:-2])
        elif line == "}":
            path.pop()
        else:
            lines.append(f"set {' '.join(path)} {line}")
    return "\n".join(lines)


def test_a_shaper_is_a_policy_behind_a_shaper() -> None:
    found = policies(BRACES)["eth0", "out"]
    assert (found.name, found.shape) == ("WAN", {"rate": "20 Mbps"})
    voice, rest = found.policy["classes"].values()
    assert list(found.policy["classes"]) == ["class10", "default"]
    assert voice["match"] == [
        {"ip": 4, "protocol": "udp", "destination_port": 5060},
        {"ip": 4, "dscp": "ef"},
    ]
    assert (voice["bandwidth"], voice["limit"], voice["mark"]) == ("2 Mbps", "6 Mbps", "ef")
    assert (voice["priority"], rest["priority"], rest["bandwidth"]) == (1, 7, "10 Mbps")
    assert rest["queue"]["fq-codel"]["ecn"] is False
    assert "limit" not in rest
    assert found.place(("classes", "class10")).line == 28


def test_a_limiter_polices_what_is_received() -> None:
    found = policies(BRACES)["eth0", "in"].policy["classes"]
    assert found == {
        "class10": {
            "match": {"ip": 4, "protocol": "udp"},
            "police": {"rate": "1 Mbps", "burst": "15 KiB"},
        },
        "default": {"match": "any", "police": {"rate": "5 Mbps", "burst": "20 KiB"}},
    }


def test_both_syntaxes_say_the_same() -> None:
    braces, commands = policies(BRACES), policies(as_commands(BRACES))
    assert {key: each.policy for key, each in braces.items()} == {
        key: each.policy for key, each in commands.items()
    }


def test_every_line_has_its_fate() -> None:
    found = reading(BRACES + "# done\n")
    told = {line.place.line for line in found.lines}
    lines = BRACES.splitlines()
    assert told == {n for n, line in enumerate(lines, 1) if n > 5 and line.strip() != "}"}
    lost = {line.text: line.note for line in found.lines if line.treatment != "modelled"}
    assert lost["mark 5"] == "a scenario has no condition on the mark of the firewall"
    assert "class 20 {" in lost
    assert {"burst", "queue-type"} <= {each.setting for each in found.defaults}


def test_the_older_syntax_at_interfaces() -> None:
    text = (
        "set traffic-policy shaper OUT bandwidth 10mbit\n"
        "set traffic-policy shaper OUT default bandwidth 100%\n"
        "set interfaces ethernet eth1 vif 5 traffic-policy out OUT\n"
        "set interfaces ethernet eth2 traffic-policy out OTHER\n"
        "set traffic-policy shaper OUT default frobnicate 7\n"
    )
    found = reading(text)
    assert [(each.interface, each.shape) for each in found.attachments] == [
        ("eth1.5", {"rate": "10 Mbps"})
    ]
    notes = {line.place.line: line.note for line in found.lines}
    assert notes[4] == "there is no policy OTHER"
    assert notes[5] == "`frobnicate` is not modelled"


def test_bits_bytes_and_numbers_alone() -> None:
    for text, rate in (("10mbit", "10 Mbps"), ("1mbps", "8 Mbps"), ("512", "512 kbps")):
        line = f"set qos policy rate-control R bandwidth {text}\n"
        assert reading(line).attachments[0].shape == {"rate": rate, "burst": "15 KiB"}


def test_rounds_and_priorities() -> None:
    text = (
        "set qos policy round-robin RR class 1 quantum 3000\n"
        "set qos policy round-robin RR class 1 match V ip dscp ef\n"
        "set qos policy round-robin RR default quantum 1000\n"
        "set qos policy priority-queue PQ class 1 match V ip dscp ef\n"
        "set qos policy priority-queue PQ default queue-limit 50\n"
    )
    found = reading(text).attachments
    assert found[0].policy["scheduler"] == "drr"
    rounds, queues = (each.policy["classes"] for each in found)
    assert [each["quantum"] for each in rounds.values()] == ["3 kB", "1 kB"]
    assert [each["priority"] for each in queues.values()] == ["strict", "strict"]
    assert queues["default"]["queue"] == {"limit": "50 packets"}


@settings(max_examples=40)
@given(st.integers(0, 2**32))
def test_damaged_configurations_are_read(seed: int) -> None:
    draw = random.Random(seed)
    words: list[Any] = draw.choice([BRACES, as_commands(BRACES)]).replace("\n", " \n ").split(" ")
    for _ in range(draw.randint(1, 30)):
        words[draw.randrange(len(words))] = draw.choice([*words, "{", "'", "99999999999", "%"])
    found = reading(" ".join(words))
    assert len({line.place for line in found.lines}) == len(found.lines)
    assert all(
        bool(line.note) == (line.treatment is not Treatment.MODELLED) for line in found.lines
    )


def shaper(*lines: str, more: str = "") -> Attachment:
    """The only policy of a shaper at eth0."""
    text = "".join(f"set qos policy shaper S {line}\n" for line in lines)
    (found,) = reading(f"{text}set qos interface eth0 egress S\n{more}").attachments
    return found


SHARES = (
    "bandwidth auto",
    "class 10 bandwidth 30%",
    "class 10 ceiling 50%",
    "class 10 match V ip dscp ef",
    "default bandwidth 60%",
    "default ceiling 100%",
)


def test_auto_keeps_shares_of_a_speed_that_nothing_tells() -> None:
    found = shaper(*SHARES)
    voice, rest = found.policy["classes"].values()
    assert (found.rate, found.shape) == (None, None)
    assert (voice["bandwidth"], voice["limit"], rest["bandwidth"]) == ("30%", "50%", "60%")
    half = shaper("bandwidth 50%", *SHARES[1:])
    assert (half.shape, half.policy) == ({"rate": "50%"}, found.policy)
    limiter = "set qos policy limiter L default bandwidth 10%\n"
    (received,) = reading(limiter).attachments
    assert received.policy["classes"]["default"]["police"]["rate"] == "10%"


def test_shares_of_a_stated_speed() -> None:
    found = shaper(*SHARES, more="set interfaces ethernet eth0 speed 100\n")
    voice, rest = found.policy["classes"].values()
    assert (found.rate, found.shape) == (10**8, {"rate": "100 Mbps"})
    assert (voice["bandwidth"], voice["limit"], rest["bandwidth"]) == (
        "30 Mbps",
        "50 Mbps",
        "60 Mbps",
    )
    # VyOS 1.4 takes a class's bandwidth of the shaper's, and its ceiling of the interface's speed.
    speed = "set interfaces ethernet eth0 speed 100\n"
    voice, _ = shaper("bandwidth 20mbit", *SHARES[1:], more=speed).policy["classes"].values()
    assert voice["bandwidth"] == "6 Mbps" and "limit" not in voice


def test_bandwidths_above_the_whole_are_reduced_and_keep_their_ceilings() -> None:
    found = shaper(
        "bandwidth auto", "class 10 bandwidth 100%", "class 10 match V ip dscp ef",
        "default bandwidth 60%",
    )  # fmt: skip
    voice, rest = found.policy["classes"].values()
    assert (voice["bandwidth"], rest["bandwidth"], rest["limit"]) == ("62.5%", "37.5%", "60%")
    text = (
        "set qos policy shaper S bandwidth auto\nset qos policy shaper S default bandwidth 160%\n"
    )
    assert "160% of the shaper's" in reading(text).lines[1].note


def test_the_first_matches_of_all_classes_precede_the_second_ones() -> None:
    lines = (
        "bandwidth 10mbit", "class 10 bandwidth 10%", "class 20 bandwidth 10%",
        "class 10 match A ip destination address 10.9.0.0/16",
        "class 10 match B ip destination address 10.1.0.0/16",
        "class 20 match C ip destination address 10.1.1.5/32", "default bandwidth 10%",
    )  # fmt: skip
    first = shaper(*lines).policy["classes"]["class10"]["match"]
    assert {"except": {"destination": "10.1.1.5"}} in first
    ranked = shaper(*lines, "class 10 priority 1", "class 20 priority 2").policy["classes"]
    assert ranked["class10"]["match"] == {"destination": ["10.1.0.0/16", "10.9.0.0/16"]}


def test_the_default_class_borrows_last() -> None:
    lines = ("bandwidth 10mbit", "class 10 match V ip dscp ef", "default bandwidth 10%")
    found = shaper(*lines).policy["classes"]
    assert [each["priority"] for each in found.values()] == [0, 7]
    older = "".join(f"set traffic-policy shaper S {line}\n" for line in lines)
    (before,) = reading(older).attachments
    assert all("priority" not in each for each in before.policy["classes"].values())


def test_equal_turns_are_no_shares() -> None:
    lines = [
        f"class {number} {word}"
        for number, rate in ((10, "10%"), (20, "40%"))
        for word in (f"bandwidth {rate}", "ceiling 100%", f"match V ip dscp {number}")
    ]
    text = "".join(f"set qos policy shaper S {line}\n" for line in ["bandwidth 10mbit", *lines])
    notes = [line.note for line in reading(text).lines if "class 10 bandwidth" in line.text]
    assert "in turns of `codel-quantum`" in notes[0]
    fair = text + "set qos policy shaper S class 20 codel-quantum 6056\n"
    assert not any("in turns of" in line.note for line in reading(fair).lines)


@pytest.mark.parametrize(
    ("bandwidth", "share", "found"),
    [
        # ceil(125,000,000 / 200,000) B/s; 1000 B a turn for 2500 B/s; no less than `_r2q` of
        # TrafficShaper.pm begins with.
        ("1gbit", "10%", ["200000 B", "20000 B", "160000 B"]),
        ("400kbit", "5%", ["25000 B", "1250 B", "20000 B"]),
        ("10mbit", "10%", ["125000 B", "12500 B", "100000 B"]),
    ],
)
def test_quanta_of_older_releases(bandwidth: str, share: str, found: list[str]) -> None:
    lines = (
        *(f"bandwidth {bandwidth}", f"class 10 bandwidth {share}", "class 10 match V ip dscp ef"),
        "default bandwidth 80%",
    )
    text = "".join(f"set traffic-policy shaper S {line}\n" for line in lines)
    htb = [each for each in reading(text).defaults if each.source == "Linux, htb_change_class"]
    assert [each.value for each in htb] == found


def test_limiters_reach_priority_0_after_the_default_class() -> None:
    lines = ("class 10 bandwidth 2mbit", "class 10 match V ip dscp ef", "class 10 priority 0")
    text = "".join(f"set qos policy limiter L {line}\n" for line in lines)
    assert list(reading(text).attachments[0].policy["classes"]) == ["class10", "default"]
    whole = reading(text + "set qos policy limiter L default bandwidth 3mbit\n")
    assert list(whole.attachments[0].policy["classes"]) == ["default"]
    assert "no match leads packets to this class" in [line.note for line in whole.lines]


def test_groups_of_matches() -> None:
    text = (
        "set qos traffic-match-group VIDEO match A ip dscp af41\n"
        "set qos traffic-match-group VIDEO match-group MORE\n"
        "set qos traffic-match-group MORE match B ip dscp af42\n"
        "set qos traffic-match-group SPARE match B ip dscp af43\n"
        "set qos policy shaper S bandwidth 10mbit\n"
        "set qos policy shaper S class 10 match-group VIDEO\n"
        "set qos policy shaper S class 20 match-group MISSING\n"
        "set qos policy shaper S default bandwidth 50%\n"
    )
    found = reading(text)
    classes = found.attachments[0].policy["classes"]
    assert classes["class10"]["match"] == {"ip": 4, "dscp": ["af41", "af42"]}
    notes = {line.place.line: line.note for line in found.lines}
    assert notes[4] == "no class refers to the group of matches"
    assert notes[7].startswith("there is no group of matches MISSING")


@pytest.mark.parametrize(
    ("protocol", "note"),
    [
        ("!udp", "tc has no match for all protocols but one"),
        ("gre", "a scenario has no packets of protocol `gre`"),
    ],
)
def test_protocols_that_match_no_packet_are_told(protocol: str, note: str) -> None:
    shaper = "set qos policy shaper S"
    text = (
        f"set qos interface eth0 egress S\n{shaper} bandwidth 10mbit\n"
        f"{shaper} default bandwidth 1mbit\n{shaper} class 20 bandwidth 2mbit\n"
        f"{shaper} class 20 match A ip protocol {protocol}\n"
    )
    found = reading(text)
    assert list(found.attachments[0].policy["classes"]) == ["default"]
    line = found.lines[4]
    assert line.treatment is Treatment.NOT_MODELLED
    assert note in line.note


RED = {
    "min": "9 KiB", "max": "18 KiB", "probability": "10%", "weight": "12.5%",
    "gentle": False, "ecn": False, "packet": "1024 B",
}  # fmt: skip


def test_random_detect() -> None:
    (found,) = reading("set qos policy random-detect R bandwidth 10mbit\n").attachments
    assert found.policy["classes"]["all"]["queue"] == {"limit": "72 KiB", "red": RED}
    own = shaper("bandwidth 1mbit", "default bandwidth 1mbit",
                 "default queue-type random-detect",
                 "default maximum-threshold 32", "default average-packet 512",
                 "default mark-probability 20")  # fmt: skip
    red = own.policy["classes"]["all"]["queue"]["red"]
    assert (red["min"], red["max"], red["probability"]) == ("8 KiB", "16 KiB", "5%")
    text = "set traffic-policy random-detect R precedence 5 max-threshold 40\n"
    text += "set traffic-policy random-detect R precedence 4 mark-probability 5\n"
    (older,) = reading(text).attachments
    profiles = older.policy["classes"]["all"]["queue"]["wred"]["profiles"]
    assert [each["min"] for each in profiles][:6] == [
        *("9 packets", "10 packets", "11 packets", "12 packets", "13 packets"), "31 packets",
    ]  # fmt: skip
    # RandomDetect.pm of VyOS 1.3.6 asks for `mark-probablilty`.
    assert {each["probability"] for each in profiles} == {"10%"}


def test_service_curves() -> None:
    text = "".join(
        f"set qos policy shaper-hfsc H {line}\n"
        for line in (
            "bandwidth 100mbit", "class 10 linkshare m2 20mbit", "class 10 match V ip dscp ef",
            "class 10 upperlimit m2 50mbit", "default linkshare m2 40mbit",
        )
    )  # fmt: skip
    found = reading(text)
    voice, rest = found.attachments[0].policy["classes"].values()
    # The script of VyOS makes `ls` only (`trafficshaper.py`); that of 1.3 makes the others, too.
    assert (voice["bandwidth"], voice.get("limit"), rest["bandwidth"]) == (
        *("20 Mbps", None), "40 Mbps",
    )  # fmt: skip
    assert [line.place.line for line in found.lines if line.treatment == "not modelled"] == [4]
    older = reading(text.replace("qos policy", "traffic-policy"))
    assert older.attachments[0].policy["classes"]["class10"]["limit"] == "50 Mbps"


def test_an_emulated_network_has_a_rate_and_a_queue() -> None:
    text = "".join(
        f"set qos policy network-emulator N {line}\n"
        for line in ("bandwidth 5mbit", "queue-limit 20", "delay 10")
    )
    found = reading(text)
    assert found.attachments[0].shape == {"rate": "5 Mbps"}
    assert found.attachments[0].policy["classes"]["all"]["queue"] == {"limit": "20 packets"}
    assert [line.treatment for line in found.lines] == ["modelled", "modelled", "not modelled"]


def test_actions_and_the_order_of_limiters() -> None:
    text = "".join(
        f"set qos policy limiter L {line}\n"
        for line in (
            "class 10 bandwidth 1mbit", "class 10 match A ip protocol udp",
            "class 20 bandwidth 2mbit", "class 20 match B ip dscp ef", "class 20 priority 5",
            "class 20 exceed pipe", "default bandwidth 9mbit",
        )
    )  # fmt: skip
    classes = reading(text).attachments[0].policy["classes"]
    assert list(classes) == ["class20", "class10", "default"]
    assert classes["class20"]["police"]["exceed"] == "send"


def test_commands_that_edit_delete_and_replace() -> None:
    found = reading(
        "edit qos policy shaper S\n"
        "router# set bandwidth 10mbit\n"
        "set bandwidth 20mbit\n"
        "set class 10 match V ip dscp ef\n"
        "set default bandwidth 50%\n"
        "delete class 10\n"
        "top\n"
        "set qos interface eth0 egress S\n"
    )
    assert found.attachments[0].shape == {"rate": "20 Mbps"}
    assert list(found.attachments[0].policy["classes"]) == ["default"]
    notes = {line.place.line: line.note for line in found.lines if line.note}
    assert notes == {2: "a later line deletes or replaces it", 4: notes[2]}


def test_statements_beside_policies_are_told() -> None:
    found = reading(
        "set traffic-control smart-queue WAN upload rate 20mbit\n"
        "set policy route P rule 10 set dscp 46\n"
        "set interfaces ethernet eth0 redirect ifb0\n"
        "set qos policy cake C rtt 20\n"
    )
    assert [line.treatment for line in found.lines] == [*["not modelled"] * 3, "modelled"]


def test_the_session_of_the_documentation(tmp_path: Path) -> None:
    page = (Path(__file__).parent.parent / "docs/routers.md").read_text("utf-8")
    said = page.partition("<!-- file: wan.boot -->")[2]
    config, shown = re.findall(r"^```(?:text|console)\n(.*?)^```$", said, re.M | re.S)[:2]
    file = tmp_path / "wan.boot"
    file.write_text(config, "utf-8")
    printed = CliRunner().invoke(perhop, ["import", str(file)]).output
    assert printed.replace(f"{tmp_path}/", "").startswith(shown)


def test_policies_become_scenarios_that_run() -> None:
    for lines in (
        # One class with a ceiling below the shaper, and packets that no class takes.
        "shaper S bandwidth 100mbit\nshaper S default bandwidth 80mbit\n",
        "shaper S default bandwidth 80mbit\n",
        "round-robin R class 1 match A ip destination port 22\n"
        "round-robin R class 2 match B ip destination port 23\n",
    ):
        found = reading("".join(f"set qos policy {line}\n" for line in lines.splitlines()))
        around(found, "config.boot", rate=2 * 10**8).scenario()


def test_notes_are_in_words_of_vyos() -> None:
    found = reading(
        "set qos policy shaper A bandwidth 10mbit\n"
        "set qos policy shaper A class 10 bandwidth 30%\n"
        "set qos policy shaper A class 20 bandwidth 40%\n"
        "set qos policy shaper A class 20 match voice ip dscp EF\n"
        "set qos interface eth0 egress A\n"
    )
    notes = {line.place.line: line.note for line in found.lines}
    assert notes[2] == "no match leads packets to this class"
    unshaped = "the policy has no `default`: packets that no match leads to a class pass the shaper"
    assert any(note.startswith(unshaped) for note in notes.values())
    [fault] = [line.fault_note for line in found.lines if line.fault is not None]
    assert fault == notes[2]


def test_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is beyond a bound is noted, and takes no time or memory."""
    monkeypatch.setattr("perhop.routers.reading.linux.ledger.MOST_LINES", 6)
    monkeypatch.setattr("perhop.routers.reading.vyos.reader.MOST_POLICIES", 2)
    found = reading(
        "".join(f"set qos policy drop-tail Q{number}\n" for number in range(3))
        + "".join(f"set qos interface eth{number} egress Q1\n" for number in range(9))
    )
    assert [(line.place.line, line.note) for line in found.lines if line.note] == [
        (3, "perhop reads 2 policies at most"),
        (6, "perhop reads 2 interfaces with a policy at most"),
        (7, "perhop reads 6 lines of a file at most"),
    ]
    assert [each.interface for each in found.attachments] == ["eth0", "eth1", ""]
