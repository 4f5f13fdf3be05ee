"""Policy maps of IOS: what each class gets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import perhop
from ios import (
    config,
    one,
    policy,
    runs,
    treatments,
)
from perhop import analysis
from perhop.routers.reading import Treatment
from perhop.routers.scenario import build

if TYPE_CHECKING:
    from pathlib import Path

STATEMENTS = [
    ("bandwidth 2000", {"bandwidth": "2 Mbps"}),
    ("bandwidth percent 12.5", {"bandwidth": "12.5%"}),
    ("bandwidth remaining percent 20", {"bandwidth": "20%"}),
    ("bandwidth remaining ratio 3", {"bandwidth": "75%"}),
    ("priority", {"priority": "strict"}),
    ("priority 512", {"police": {"rate": "512 kbps", "burst": "12800 B", "exceed": "drop"}}),
    ("priority 512 9000", {"police": {"rate": "512 kbps", "burst": "9 kB", "exceed": "drop"}}),
    ("priority percent 10", {"police": {"rate": "10%", "burst": "25 kB", "exceed": "drop"}}),
    ("priority level 2 percent 1", {"priority": "strict"}),
    (
        "shape average 2000000",
        {"shape": {"rate": "2 Mbps", "burst": "6250 B"}, "bandwidth": "20%"},
    ),
    ("shape average 2m 80000", {"shape": {"rate": "2 Mbps", "burst": "10 kB"}}),
    ("shape average percent 20 40 ms", {"shape": {"rate": "20%", "burst": "10 kB"}}),
    ("shape peak 1000000 8000 8000", {"shape": {"rate": "2 Mbps", "burst": "2 kB"}}),
    ("bandwidth 8\nqueue-limit 100", {"queue": {"limit": "100 packets"}}),
    ("bandwidth 8\nqueue-limit 1 packets", {"queue": {"limit": "1 packet"}}),
    ("bandwidth 8\nqueue-limit 20 ms", {"queue": {"limit": "20 ms"}}),
    ("bandwidth 8\nqueue-limit 9000 bytes", {"queue": {"limit": "9000 B"}}),
    ("set dscp af31", {"mark": "af31"}),
    ("set ip precedence 5", {"mark": "cs5"}),
    ("drop", {"police": {"rate": "8 kbps", "burst": "1 B", "conform": "drop", "exceed": "drop"}}),
    (
        "bandwidth 8\nrandom-detect dscp-based\nrandom-detect dscp af11 24 40 5\n"
        "random-detect ecn\nrandom-detect exponential-weighting-constant 6",
        {
            "queue": {
                "limit": "64 packets",
                "wred": {
                    "by": "dscp",
                    "profiles": [
                        {
                            "dscp": ["af11"],
                            "min": "24 packets",
                            "max": "40 packets",
                            "probability": "20%",
                        }
                    ],
                    "weight": "1.5625%",
                    "ecn": True,
                },
            }
        },
    ),
    (
        "bandwidth 8\nrandom-detect\nrandom-detect dscp 8 12 ms 24 ms 1\n"
        "random-detect precedence 2 30000 bytes 60000 bytes",
        {
            "queue": {
                "limit": "64 packets",
                "wred": {
                    "by": "precedence",
                    "profiles": [
                        {
                            "dscp": ["cs1"],
                            "min": "10 packets",
                            "max": "20 packets",
                            "probability": "100%",
                        },
                        {
                            "dscp": ["cs2", 17, "af21", 19, "af22", 21, "af23", 23],
                            "min": "20 packets",
                            "max": "40 packets",
                            "probability": "10%",
                        },
                    ],
                },
            }
        },
    ),
    (
        "bandwidth 8\nfair-queue 64",
        {
            "queue": {
                "limit": "64 packets",
                "fq-codel": {"flows": 64, "target": "1 h", "interval": "2 h", "ecn": False},
            }
        },
    ),
]


@pytest.mark.parametrize(("statements", "expected"), STATEMENTS, ids=[s[0] for s in STATEMENTS])
def test_statements_of_classes(statements: str, expected: dict[str, Any]) -> None:
    found = one(statements)
    assert {key: found.get(key) for key in expected} == expected


TWO = {"excess_burst": "3 kB", "exceed": {"remark": "af12"}, "violate": "drop"}
POLICERS: list[tuple[str, dict[str, Any]]] = [
    ("police 64000", {"rate": "64 kbps", "burst": "2 kB", "exceed": "drop"}),
    (
        "police 8000 1500 3000 conform-action transmit exceed-action set-dscp-transmit af12 "
        "violate-action drop",
        {"rate": "8 kbps", "burst": "1500 B", **TWO},
    ),
    (
        "police cir 8000 bc 1500 be 3000\n conform-action transmit\n"
        " exceed-action set-dscp-transmit 12\n violate-action drop",
        {"rate": "8 kbps", "burst": "1500 B", **TWO},
    ),
    (
        "police 8000 1500 3000 conform-action transmit exceed-action drop",
        {"rate": "8 kbps", "burst": "1500 B", "exceed": "drop"},
    ),
    (
        "police cir 1m bc 10000 pir 2m be 20000 conform-action set-prec-transmit 3 "
        "exceed-action transmit",
        {
            "rate": "1 Mbps",
            "burst": "10 kB",
            "peak_rate": "2 Mbps",
            "peak_burst": "20 kB",
            "conform": {"remark": "cs3"},
            "exceed": "send",
            "violate": "drop",
        },
    ),
    (
        "police rate 2000000 bps burst 9000 bytes\n exceed-action drop",
        {"rate": "2 Mbps", "burst": "9 kB", "exceed": "drop"},
    ),
    (
        "police cir percent 20 bc 10 ms pir percent 40 be 20 ms",
        {
            "rate": "20%",
            "burst": "2500 B",
            "peak_rate": "40%",
            "peak_burst": "10 kB",
            "exceed": "drop",
            "violate": "drop",
        },
    ),
    (
        "police 64000 conform-action transmit exceed-action drop violate-action drop",
        {"rate": "64 kbps", "burst": "2 kB", "exceed": "drop"},
    ),
    (
        "priority 32\npolice 64000 4000",
        {"rate": "32 kbps", "burst": "800 B", "exceed": "drop"},
    ),
    ("priority 64\npolice 32000 4000", {"rate": "32 kbps", "burst": "4 kB", "exceed": "drop"}),
    ("police rate percent 10", {"rate": "10%", "burst": "31250 B", "exceed": "drop"}),
]


@pytest.mark.parametrize(("statement", "expected"), POLICERS, ids=[s[0] for s in POLICERS])
def test_policers(statement: str, expected: dict[str, Any]) -> None:
    assert one(statement)["police"] == expected


def test_what_is_not_modelled_in_a_class_is_named() -> None:
    text = """\
policy-map P
 class class-default
  bandwidth percent x
  priority 0
  police flow mask src-only
  police rate 100 pps
  shape adaptive 64000
  queue-limit dscp af11 30
  random-detect discard-class 3 20 40
  set cos 3
  set qos-group 5
  compress header ip
  netflow-sampler x
  foo bar
   baz
  service-policy
 something else
"""
    found = treatments(text)
    named = [line for line in text.splitlines()[2:] if "police flow" not in line]
    for line in named:
        assert found[line.strip()][0] == "not modelled", line
    assert found["set qos-group 5"][1] == "there are no QoS groups"
    assert found["police rate 100 pps"][1] == "rates in pps are not modelled"
    assert found["police flow mask src-only"][1] == "replaced in line 6"


@pytest.mark.parametrize(
    ("words", "note"),
    [
        ("bc", "no burst after bc"),
        ("bc 1500 be", "no burst after be"),
        ("bc conform-action transmit", "no burst after bc"),
        ("bc 1500 pir", "no peak rate"),
    ],
)
def test_policers_that_end_too_early_are_not_modelled(words: str, note: str) -> None:
    line = f"police 5000000 {words}"
    found = treatments(f"policy-map P\n class class-default\n  {line}\n")
    assert found[line] == ("not modelled", note)


def test_defaults_are_those_of_the_platform() -> None:
    wan = """\
class-map A
 match dscp ef
class-map B
 match dscp cs1
policy-map P
 class A
  priority percent 10
 class B
  bandwidth remaining percent 50
  random-detect
interface GigabitEthernet0/1
 service-policy output P
"""
    classic = policy(f"version 12.4\n{wan}")
    classes = classic.policy["classes"]
    assert classes["A"]["queue"] == {"limit": "64 packets"}
    assert classes["B"] == {
        "match": {"dscp": "cs1"},
        "bandwidth": "45%",
        "queue": {"limit": "64 packets", "wred": {"by": "precedence"}},
    }
    assert classic.rate == 10**9
    modern = policy(f"version 16.9\n{wan}").policy["classes"]
    assert modern["A"]["queue"] == {"limit": "512 packets"}
    assert modern["B"]["queue"]["limit"] == "4166 packets"
    lowest = modern["B"]["queue"]["wred"]["profiles"][0]
    assert (lowest["min"], lowest["max"]) == ("1041 packets", "2083 packets")
    unknown = config(wan)
    assert next(each.setting for each in unknown.defaults) == "version"
    settings = {each.setting for each in unknown.defaults}
    assert {"queue-limit", "burst", "random-detect", "rate"} <= settings
    assert all(each.source for each in unknown.defaults)
    release = config(f"version 15.4\nplatform qfp utilization\n{wan}").attachments[0]
    assert release.policy["classes"]["A"]["queue"] == {"limit": "512 packets"}


def test_a_parent_shaper_is_that_of_the_interface() -> None:
    text = """\
class-map A
 match dscp ef
policy-map CHILD
 class A
  priority percent 10
 class class-default
  bandwidth percent 60
policy-map PARENT
 class class-default
  shape average 20000000
  service-policy CHILD
interface GigabitEthernet0/1
 service-policy output PARENT
"""
    found = policy(text)
    assert found.shape == {"rate": "20 Mbps", "burst": "62500 B"}
    assert found.policy["classes"]["A"]["police"]["rate"] == "2 Mbps"
    assert found.policy["classes"]["class-default"]["bandwidth"] == "60%"
    runs(found)
    assert not any(each.interface == "" for each in config(text).attachments)


@pytest.mark.parametrize("burst", ["192.0.2.1", "99999999999999", "8000 192.0.2.1", "1e3"])
def test_a_burst_that_is_no_number_ends_the_statement(burst: str) -> None:
    text = f"policy-map P\n class class-default\n  police 1000000 {burst}\n"
    [line] = [line for line in config(text).lines if line.place.line == 3]
    assert line.treatment is Treatment.NOT_MODELLED
    assert line.note == f"no burst: {burst.rpartition(' ')[2]}"


def test_policies_without_an_interface_are_read() -> None:
    text = """\
policy-map CHILD
 class class-default
  queue-limit 30
policy-map PARENT
 class class-default
  shape average 1000000
  service-policy CHILD
"""
    found = config(text)
    assert [(each.interface, each.name) for each in found.attachments] == [("", "PARENT")]
    assert found.attachments[0].rate is None
    assert {line.treatment for line in found.lines} == {Treatment.MODELLED}


def test_policies_in_policies_divide_their_class() -> None:
    text = """\
class-map A
 match dscp ef
class-map SITE
 match access-group 10
access-list 10 permit 10.0.0.0 0.0.0.255
policy-map CHILD
 class A
  bandwidth percent 25
policy-map PARENT
 class SITE
  bandwidth percent 40
  shape average percent 40
  queue-limit 10
  service-policy CHILD
 class A
  service-policy PARENT
interface GigabitEthernet0/1
 service-policy output PARENT
"""
    found = policy(text)
    site = found.policy["classes"]["SITE"]
    assert list(site["classes"]) == ["A", "class-default"]
    assert site["classes"]["A"]["bandwidth"] == "25%"
    assert found.place(("classes", "SITE", "classes", "A", "bandwidth")).line == 8
    assert found.place(("classes", "SITE", "shape")).line == 12
    told = treatments(text)
    assert told["service-policy PARENT"] == ("not modelled", "contains itself")
    assert told["queue-limit 10"] == ("not modelled", "the policy inside has the queues")
    runs(found)


def test_sites_that_share_less_than_their_shapers() -> None:
    text = """\
version 16.9
class-map VOICE
 match dscp ef
class-map SITE1
 match access-group 1
class-map SITE2
 match access-group 2
access-list 1 permit 10.0.1.0 0.0.0.255
access-list 2 permit 10.0.2.0 0.0.0.255
policy-map SITE
 class VOICE
  priority percent 60
 class class-default
  bandwidth percent 40
policy-map HUB
 class SITE1
  shape average 10000000
  bandwidth remaining ratio 2
  service-policy SITE
 class SITE2
  shape average 10000000
  bandwidth remaining ratio 7
  service-policy SITE
interface GigabitEthernet0/1
 bandwidth 10000
 service-policy output HUB
"""
    found = policy(text)
    runs(found)
    small, large = (found.policy["classes"][name] for name in ("SITE1", "SITE2"))
    assert (small["bandwidth"], large["bandwidth"]) == ("20%", "70%")
    assert small["shape"]["rate"] == large["shape"]["rate"] == "10 Mbps"
    assert small["classes"]["VOICE"]["police"]["rate"] == "1.9 Mbps"  # 95% of 2 Mb/s
    assert small["classes"]["class-default"]["bandwidth"] == "49.382 kbps"
    assert large["classes"]["VOICE"]["police"]["rate"] == "6 Mbps"
    assert large["classes"]["class-default"]["bandwidth"] == "1 Mbps"
    told = {line.place.line: line.treatment for line in config(text).lines}
    assert (told[19], told[23]) == (Treatment.APPROXIMATED, Treatment.MODELLED)


def test_priority_of_a_class_for_all_packets_does_not_move_it() -> None:
    text = """\
class-map A
 match dscp ef
class-map ALL
 match any
policy-map P
 class A
  priority level 2
 class ALL
  priority level 1
interface GigabitEthernet0/1
 service-policy output P
"""
    found = policy(text)
    runs(found)
    assert list(found.policy["classes"]) == ["A", "ALL"]


def test_priority_levels_decide_the_order() -> None:
    text = """\
class-map match-any VIDEO
 match dscp af41 ef
class-map VOICE
 match dscp ef cs5
policy-map P
 class VIDEO
  priority level 2
 class VOICE
  priority level 1
interface GigabitEthernet0/1
 service-policy output P
"""
    classes = policy(text).policy["classes"]
    assert list(classes) == ["VOICE", "VIDEO", "class-default"]
    assert classes["VOICE"]["match"] == {"dscp": "cs5"}  # VIDEO takes the others first
    assert classes["VIDEO"]["match"] == {"dscp": ["af41", "ef"]}


EXCESS = """\
version VERSION
class-map A
 match dscp af31
class-map B
 match dscp af21
policy-map P
 class A
  bandwidth percent 60
 class B
  bandwidth percent 10
 class class-default
  CDEF
interface GigabitEthernet0/1
 bandwidth 10000
 service-policy output P
"""


@pytest.mark.parametrize(
    ("version", "last", "rates"),
    [
        # "In a 3-parameter scheduler, the excess bandwidth are shared equally by default after
        # satisfying minimum bandwidth requirements": 3 Mb/s in three parts.
        ("17.3", "queue-limit 64 packets", [7, 2, 1]),
        ("17.3", "queue-limit 50 ms", [7, 2, 1]),
        # 60, 10 and 20%, and a third of 1 Mb/s for each.
        ("17.3", "bandwidth percent 20", [6.33, 1.33, 2.33]),
        # "In a 2-parameter scheduler, the excess bandwidth are shared by the classes
        # proportionally"; class-default has what is left.
        ("12.4", "queue-limit 64", [6, 1, 3]),
        # class-default may have no more than 0.5 Mb/s, so that the others share 2.5.
        ("17.3", "shape average 500000", [7.25, 2.25, 0.5]),
    ],
)
def test_ios_xe_divides_what_exceeds_the_guarantees_equally(
    version: str, last: str, rates: list[float], tmp_path: Path
) -> None:
    (tmp_path / "r.cfg").write_text(EXCESS.replace("VERSION", version).replace("CDEF", last))
    found = build([tmp_path / "r.cfg"]).scenario()
    run = perhop.run(found)
    sent = analysis.class_counters(run).filter(link="edge>next")
    seconds = found.duration / 1e12
    got = [row["sent_bytes"] * 8 / seconds / 1e6 for row in sent.iter_rows(named=True)]
    assert got == pytest.approx(rates, abs=0.12)


def test_classes_without_a_guarantee_keep_something() -> None:
    text = """\
class-map A
 match dscp ef
class-map B
 match dscp cs1
policy-map P
 class A
  priority percent 20
 class B
  bandwidth percent 80
interface GigabitEthernet0/1
 service-policy output P
"""
    found = policy(text)
    assert found.policy["classes"]["B"]["bandwidth"] == "790 Mbps"
    assert treatments(text)["bandwidth percent 80"][0] == "approximated"
    runs(found)


def test_packets_that_arrive_are_policed_and_marked() -> None:
    text = """\
class-map A
 match dscp ef
class-map SITE
 match access-group 10
access-list 10 permit 10.0.0.0 0.0.0.255
policy-map CHILD
 class A
  police 64000
policy-map P
 class SITE
  set dscp af11
  service-policy CHILD
 class class-default
  set dscp default
interface GigabitEthernet0/1
 service-policy input P
"""
    found = policy(text)
    runs(found)
    assert found.direction == "in"
    assert found.policy["classes"] == {
        "A": {
            "match": {"dscp": "ef", "source": "10.0.0.0/24"},
            "mark": "af11",
            "police": {"rate": "64 kbps", "burst": "2 kB", "exceed": "drop"},
        },
        "SITE": {"match": {"source": "10.0.0.0/24"}, "mark": "af11"},
        "class-default": {"match": "any", "mark": "be"},
    }


@pytest.mark.parametrize("version", ["15.2", "16.9"])
def test_guarantees_hold_beside_many_classes_without_one(version: str) -> None:
    """IOS keeps 1% for class-default (Cisco 10000 Series Router Quality of Service Configuration
    Guide, Class-Default Bandwidth Guarantee), not for each class that has only a queue.
    """
    names = [f"C{point}" for point in range(50)]
    classes = "".join(f"class-map {name}\n match dscp {name[1:]}\n" for name in names)
    queues = "".join(f" class {name}\n  queue-limit 20 packets\n" for name in names)
    text = f"""\
version {version}
class-map BIG
 match dscp 63
{classes}policy-map P
 class BIG
  bandwidth percent SHARE
{queues}interface GigabitEthernet0/1
 service-policy output P
"""
    for share, given in (("60", "60%"), ("99", "99%"), ("100", "990 Mbps")):
        found = policy(text.replace("SHARE", share))
        assert found.policy["classes"]["BIG"]["bandwidth"] == given
        runs(found)


def test_a_class_of_ios_xe_without_a_guarantee_has_only_its_part_of_the_rest() -> None:
    text = """\
version 16.9
class-map A
 match dscp ef
policy-map P
 class A
  bandwidth percent 60
interface GigabitEthernet0/1
 service-policy output P
"""
    found = policy(text).policy["classes"]
    assert found["class-default"]["bandwidth"] == "1 bps"  # none, as a scenario states it
    assert found["class-default"]["quantum"] == found["A"]["quantum"]
