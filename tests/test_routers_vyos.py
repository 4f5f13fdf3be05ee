"""Configurations of VyOS: what becomes of each line, and the policies that they make."""

import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from perhop.routers.reading.configuration import Attachment, Configuration, Source, Treatment
from perhop.routers.reading.vyos import read

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
        {"protocol": "udp", "destination_port": 5060},
        {"dscp": "ef"},
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
            "match": {"protocol": "udp"},
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
    assert lost["mark 5"] == "the mark of the firewall is no condition of a scenario"
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
    rounds, queues = (each.policy["classes"] for each in reading(text).attachments)
    assert [each["bandwidth"] for each in rounds.values()] == ["75%", "25%"]
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
