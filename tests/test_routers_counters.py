"""Counters of real routers: what each family prints, and datasets of it beside predictions."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import Outcome
from conservation import false_data
from datasets import SCAVENGER, dataset
from perhop import analysis
from perhop.dataset import Dataset
from perhop.errors import UsageError
from perhop.report import tables as report
from perhop.routers import counters
from perhop.routers.counters import counted as module
from perhop.routers.counters import ios, junos, pf, tc
from perhop.routers.reading import Source
from perhop.scenario import parse

Perhop = Callable[..., Outcome]

NESTED = """\
Router#show policy-map interface gi 0/1
Load for five secs: 1%/0%; one minute: 5%; five minutes: 6%
Time source is NTP, 11:16:50.635 UTC Tue Oct 25 2016

 GigabitEthernet0/1

  Service-policy output: WAN

    Class-map: class-default (match-any)
      1000 packets, 900000 bytes
      30 second offered rate 19000 bps, drop rate 50 bps
      Match: any
      Queueing
      queue limit 64 packets
      (queue depth/total drops/no-buffer drops) 0/32/0
      (pkts output/bytes output) 968/870000
      shape (average) cir 20000000, bc 80000, be 80000
      target shape rate 20000000

      Service-policy : QUEUES

        queue stats for all priority classes:
          Queueing
          queue limit 512 packets
          (queue depth/total drops/no-buffer drops) 1/2/0
          (pkts output/bytes output) 95/9500

        Class-map: VOICE (match-any)
          100 packets, 10000 bytes
          30 second offered rate 9000 bps, drop rate 0 bps
          Match:  dscp ef (46)
            7 packets, 700 bytes
            30 second rate 1 bps
          Priority: 10% (2000 kbps), burst bytes 50000, b/w exceed drops: 3

        Class-map: CRITICAL (match-any)
          600 packets, 600000 bytes
          30 second offered rate 9000 bps, drop rate 40 bps
          Match: access-group name ERP
          Queueing
          queue limit 64 packets
          (queue depth/total drops/no-buffer drops) 5/27/0
          (pkts output/bytes output) 573/570000
          bandwidth remaining 60%
            Exp-weight-constant: 9 (1/512)
            Mean queue depth: 4 packets
            dscp     Transmitted       Random drop      Tail drop          Minimum Maximum Mark
                     pkts/bytes        pkts/bytes       pkts/bytes         thresh  thresh  prob

            default  500/500000         5/5000            0/0                  20     40  1/10
            af31     73/70000           15/15000          7/7000               32     40  1/10

        Class-map: class-default (match-any)
          300 packets, 290000 bytes
          30 second offered rate 0 bps, drop rate 0 bps
          Match: any
          Queueing
          queue limit 62500 bytes
          (queue depth/total drops/no-buffer drops) 3000/0/0
          (pkts output/bytes output) 300/290000
"""

POLICED = """\
FastEthernet0/0.10
  Service-policy input: EDGE
    Class-map: WEB (match-all)
      50 packets, 5000 bytes
      5 minute offered rate 1000 bps, drop rate 10 bps
      Match: protocol http
      police:
          cir 8000 bps, bc 1500 bytes
        conformed 30 packets, 3000 bytes; actions:
          transmit
        exceeded 15 packets, 1500 bytes; actions:
          set-dscp-transmit af13
        violated 5 packets, 500 bytes; actions:
          drop
        conformed 0 bps, exceeded 0 bps, violated 0 bps
    Class-map: class-default (match-any)
      9 packets, 900 bytes
      Match: any
"""

HTB = """\
class htb 1:10 parent 1:1 leaf 10: prio 0 rate 2Mbit ceil 10Mbit burst 1600b cburst 1600b
 Sent 7000 bytes 70 pkt (dropped 4, overlimits 9 requeues 0)
 backlog 0b 0p requeues 0
 lended: 0 borrowed: 0 giants: 0
class htb 1:1 root rate 10Mbit ceil 10Mbit burst 1600b cburst 1600b
 Sent 9000 bytes 90 pkt (dropped 0, overlimits 0 requeues 0)
class htb 1:20 parent 1:1 prio 0 rate 8Mbit ceil 10Mbit burst 1600b cburst 1600b
 Sent 2000 bytes 20 pkt (dropped 1, overlimits 0 requeues 0)
 backlog 300b 3p requeues 0
"""

QDISCS = [
    {"kind": "htb", "handle": "1:", "dev": "eth0", "root": True, "options": {}, "bytes": 9000},
    {
        "kind": "fq_codel",
        "handle": "10:",
        "dev": "eth0",
        "parent": "1:10",
        "bytes": 7000,
        "packets": 70,
        "drops": 9,
        "backlog": 0,
        "qlen": 0,
        "drop_overlimit": 2,
        "ecn_mark": 5,
    },
]

QUEUES = """\
Physical interface: ge-1/2/0, Enabled, Physical link is Up
  Interface index: 197, SNMP ifIndex: 571
Forwarding classes: 16 supported, 8 in use
Egress queues: 8 supported, 8 in use
Queue: 0, Forwarding classes: best-effort, other
  Queued:
    Packets              :                  1245                176037 pps
    Bytes                :                176797            1999791616 bps
  Transmitted:
    Packets              :                   622                 88008 pps
    Bytes                :                 88399             999776512 bps
    Tail-dropped packets :                   467                     0 pps
    RL-dropped packets   :                     1                     0 pps
    RED-dropped packets  :                   155                 88029 pps
     Low                 :                   155                 88029 pps
    RED-dropped bytes    :                 88398            1000015104 bps
  Queue-depth bytes      :
    Average              :              11992576
    Current              :                 12008
Queue: 1, Forwarding classes: voice
  Queued:
    Packets              :                1.998K                     0 pps
  Transmitted:
    Packets              :                     0                     0 pps
    Tail-dropped packets : Not Available
"""

FIREWALL = """\
Filter: sort-ge-0/0/0.0-i

Counters:
Name                                                Bytes              Packets
reserved                                            12000                   12
Policers:
Name                                                Bytes              Packets
ten-megabits-reserved                                 300                    3
"""

PF = """\
queue root_em0 on em0 bandwidth 100Mb priority 0 cbq( wrr root ) {std, media}
  [ pkts:          0  bytes:          0  dropped pkts:      0 bytes:      0 ]
  [ qlength:   0/ 50  borrows:      0  suspends:      0 ]
queue  std on em0 bandwidth 40Mb cbq( default borrow )
  [ pkts:       1200  bytes:     900000  dropped pkts:      3 bytes:      2100 ]
  [ qlength:   2/ 50  borrows:      7  suspends:      1 ]
queue  media on em0 bandwidth 60Mb {voice, video}
  [ pkts:          0  bytes:          0  dropped pkts:      0 bytes:      0 ]
queue   voice on em0 bandwidth 10Mb priority 7
  [ pkts:        400  bytes:      30000  dropped pkts:      1 bytes:       700 ]
queue   video on em0 bandwidth 50Mb
  [ pkts:        100  bytes:     100000  dropped pkts:      0 bytes:         0 ]
"""


def read(folder: Path, *texts: str) -> Any:
    files = []
    for number, text in enumerate(texts):
        files.append(folder / f"reading-{number}.txt")
        files[-1].write_text(text)
    return counters.read(files)


def test_classes_of_ios(tmp_path: Path) -> None:
    [found] = read(tmp_path, NESTED)
    assert (found.interface, found.direction) == ("GigabitEthernet0/1", "out")
    # The outer class is the shaper of the interface.
    assert list(found.classes) == ["VOICE", "CRITICAL", "class-default"]
    assert found.classes["VOICE"] == {
        "offered_packets": 100,
        "offered_bytes": 10000,
        "offered_bps": 9000,
        "dropped_bps": 0,
        "sent_packets": 95,
        "sent_bytes": 9500,
        "backlog_packets": 1,
        "dropped_policer": 3,
        "dropped_limit": 2,
        "dropped_packets": 5,
    }
    critical = found.classes["CRITICAL"]
    drops = {name: critical[name] for name in critical if name.startswith("dropped_")}
    assert drops == {
        "dropped_limit": 7,
        "dropped_early": 20,
        "dropped_packets": 27,
        "dropped_bps": 40,
    }
    assert (critical["sent_packets"], critical["backlog_packets"]) == (573, 5)
    assert found.classes["class-default"]["backlog_bytes"] == 3000
    assert "backlog_packets" not in found.classes["class-default"]


def test_drops_of_a_priority_class_count_once(tmp_path: Path) -> None:
    # As above, in a release whose queue counts what its policer drops.
    [found] = read(tmp_path, NESTED.replace("1/2/0", "1/5/0"))
    voice = found.classes["VOICE"]
    assert (voice["dropped_policer"], voice["dropped_limit"], voice["dropped_packets"]) == (3, 2, 5)


def test_a_queue_that_priority_classes_share_is_not_one_of_theirs(tmp_path: Path) -> None:
    both = NESTED.replace("Queueing\n          queue limit 64", "Priority: 5%\n          limit 64")
    [found] = read(tmp_path, both)
    assert "sent_packets" not in found.classes["VOICE"]
    assert "dropped_packets" not in found.classes["VOICE"]


def test_policers_of_ios(tmp_path: Path) -> None:
    [found] = read(tmp_path, POLICED)
    assert (found.interface, found.direction) == ("FastEthernet0/0.10", "in")
    web = found.classes["WEB"]
    assert (web["conformed_packets"], web["exceeded_bytes"], web["violated_packets"]) == (
        30,
        1500,
        5,
    )
    assert (web["remarked_packets"], web["dropped_policer"], web["dropped_packets"]) == (15, 5, 5)
    assert (web["sent_packets"], web["sent_bytes"]) == (45, 4500)
    # Without a policer and a queue, what matched was sent; its drops are unknown.
    rest = found.classes["class-default"]
    assert rest["sent_bytes"] == 900
    assert not any(name.startswith("dropped") for name in rest)


def test_two_readings_give_the_difference(tmp_path: Path) -> None:
    later = (
        NESTED.replace("11:16:50.635", "11:17:00.635")
        .replace("573/570000", "673/670000")
        .replace("5/27/0", "8/37/0")
    )
    [found] = read(tmp_path, NESTED, later)
    assert (found.readings, found.over_s) == (2, 10)
    critical = found.classes["CRITICAL"]
    assert (critical["sent_packets"], critical["sent_bytes"]) == (100, 100000)
    assert (critical["dropped_packets"], critical["backlog_packets"]) == (10, 8)
    with pytest.raises(UsageError, match=r"reading-1.txt:7: .* fell from 673"):
        read(tmp_path, later, NESTED)


def test_classes_of_tc(tmp_path: Path) -> None:
    [found] = read(tmp_path, HTB, json.dumps(QDISCS))
    assert found.interface == "eth0"
    assert found.classes["c20"] == {
        "sent_bytes": 2000,
        "sent_packets": 20,
        "dropped_packets": 1,
        "backlog_bytes": 300,
        "backlog_packets": 3,
    }
    # The drops are those of its qdisc.
    inner = found.classes["c10"]
    assert (inner["dropped_packets"], inner["dropped_early"], inner["dropped_limit"]) == (9, 7, 2)
    assert inner["marked_packets"] == 5
    assert list(found.classes) == ["c10", "c20"]
    [alone] = read(
        tmp_path, "qdisc red 8001: dev eth1 root\n Sent 5 bytes 1 pkt\n  marked 2 early 1"
    )
    assert alone.classes == {"all": {"sent_bytes": 5, "sent_packets": 1, "marked_packets": 2}}


def test_queues_of_junos(tmp_path: Path) -> None:
    [found] = read(tmp_path, QUEUES)
    assert found.interface == "ge-1/2/0"
    assert found.classes["best-effort"] == {
        "offered_packets": 1245,
        "offered_bytes": 176797,
        "offered_bps": 1999791616,
        "sent_packets": 622,
        "sent_bytes": 88399,
        "sent_bps": 999776512,
        "dropped_limit": 467,
        "dropped_policer": 1,
        "dropped_early": 155,
        "dropped_packets": 623,
        "backlog_bytes": 12008,
    }
    # What is not a number is unknown.
    assert found.classes["voice"] == {"sent_packets": 0}


def test_filters_of_junos(tmp_path: Path) -> None:
    [found] = read(tmp_path, FIREWALL)
    assert (found.interface, found.direction) == ("ge-0/0/0.0", "in")
    assert found.classes == {
        "reserved": {
            "offered_packets": 12,
            "offered_bytes": 12000,
            "exceeded_packets": 3,
            "exceeded_bytes": 300,
        }
    }


def test_queues_of_pf(tmp_path: Path) -> None:
    [found] = read(tmp_path, PF)
    assert list(found.classes) == ["std", "media", "media/voice", "media/video"]
    assert found.classes["std"] == {
        "sent_packets": 1200,
        "sent_bytes": 900000,
        "dropped_packets": 3,
        "backlog_packets": 2,
    }
    assert found.classes["media"]["sent_packets"] == 500
    assert found.classes["media/voice"]["dropped_packets"] == 1


OPENBSD_QUEUES = """\
queue top on vio0 bandwidth 20M, max 20M qlimit 50
  [ pkts:          0  bytes:          0  dropped pkts:      0 bytes:      0 ]
  [ qlength:   0/ 50 ]
  [ measured:     0.0 packets/s, 0 b/s ]
queue bulk parent top on vio0 bandwidth 9M, min 1M, max 20M default qlimit 100
  [ pkts:         70  bytes:       7000  dropped pkts:      2 bytes:       200 ]
  [ qlength:   1/100 ]
  [ measured:     0.6 packets/s, 1.01Kb/s ]
queue slow parent top bandwidth 1K, max 1K qlimit 300
  [ pkts:         30  bytes:       1800  dropped pkts:      4 bytes:       240 ]
  [ qlength:   3/300  avg delay: 0.1ms std-dev: 0.0ms  flows:   2 ]
queue lost
  [ pkts:          9  bytes:        900  dropped pkts:      9 bytes:       900 ]
"""


def test_queues_of_openbsd_without_an_interface(tmp_path: Path) -> None:
    [found] = read(tmp_path, OPENBSD_QUEUES)
    assert found.interface == "vio0"
    sent = {
        name: (each["sent_packets"], each["dropped_packets"], each["backlog_packets"])
        for name, each in found.classes.items()
    }
    assert sent == {"bulk": (70, 2, 1), "slow": (30, 4, 3)}
    # The same command again, in the same file.
    [change] = read(tmp_path, OPENBSD_QUEUES + OPENBSD_QUEUES.replace(" 30 ", " 45 "))
    assert change.classes["slow"]["sent_packets"] == 15


def test_counters_stand_beside_a_prediction(perhop: Perhop, tmp_path: Path) -> None:
    run = dataset(
        parse(SCAVENGER),
        queues=[
            {
                "link": "r1>r2",
                "class": name,
                "start_s": 0.0,
                "end_s": 150.0,
                "sent_bytes": size,
                "dropped_packets": 10,
            }
            for name, size in (("VOICE", 1000), ("CRITICAL", 8000), ("class-default", 1000))
        ],
    )
    run.write(tmp_path / "run")
    (tmp_path / "gi.txt").write_text(NESTED)
    folder = str(tmp_path / "counted")
    done: Outcome = perhop(
        "counters", str(tmp_path / "gi.txt"), "--over", "300 s", "--out", folder,
        *("--interface", "r1>r2=gi0/1"),
    )  # fmt: skip
    assert done.code == 0, done.err
    assert "CRITICAL" in done.out
    counted = Dataset.read(folder)
    found = analysis.compare([run, counted])
    assert found.names == ("sim", "router")
    assert [each.path for each in found.differences] == ["engine"]
    critical = found.classes["r1>r2"]["CRITICAL"]
    assert critical["share"].values == (0.8, 570000 / 869500)
    # Both in the time that both have.
    assert critical["dropped"].values == (10, 27 / 2)
    # Nothing is known about flows.
    assert all(flow["throughput"].values[1] is None for flow in found.flows.values())
    assert all(phase.throughput["total"].values[1] is None for phase in found.phases)
    # What the router does not print is absent.
    [table] = report.class_tables(counted)
    assert table.rows[0][0] == "VOICE"
    assert table.rows[0][5] == "\N{EN DASH}"
    counts = analysis.summary(counted)["links"]["r1>r2"]["classes"]
    assert counts["VOICE"]["dropped_early"] is None
    assert counts["VOICE"]["dropped_packets"] == 5


def test_a_share_needs_every_class(tmp_path: Path) -> None:
    [found] = read(tmp_path, FIREWALL.replace("Policers:", "other 1 1\nPolicers:"))
    counted = counters.dataset({"previous>edge": found}, "x", 10**12, ["x"])
    assert analysis.compare([counted, counted]).classes == {
        "previous>edge": {"reserved": {}, "other": {}}
    }


def test_mistakes_are_named(perhop: Perhop, tmp_path: Path) -> None:
    file = tmp_path / "gi.txt"
    file.write_text(HTB)
    done = perhop("counters", str(file), "--out", str(tmp_path / "x"))
    assert done.code == 2
    assert "--over" in done.err
    file.write_text("hostname r1\n")
    done = perhop("counters", str(file))
    assert done.code == 2
    assert f"{file}:1: has no counters" in done.err
    file.write_text(NESTED + POLICED)
    assert "several interfaces" in perhop("counters", str(file), "--out", "x").err
    assert "could be" not in perhop("counters", str(file), "--interface", "Fa0/0.10").err
    done = perhop("counters", str(file), "--interface", "Se0")
    assert "GigabitEthernet0/1, out" in done.err
    listed = json.loads(perhop("counters", str(file), "--json").out)["counters"]
    assert [each["interface"] for each in listed] == ["GigabitEthernet0/1", "FastEthernet0/0.10"]


TEXTS = [NESTED, POLICED, HTB, json.dumps(QDISCS), QUEUES, FIREWALL, PF, OPENBSD_QUEUES]


@false_data()
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_damaged_output_is_no_exception(data: st.DataObject) -> None:
    lines = data.draw(st.sampled_from(TEXTS)).split("\n")
    for _ in range(data.draw(st.integers(0, 6))):
        at = data.draw(st.integers(0, len(lines) - 1))
        match data.draw(st.sampled_from(["cut", "drop", "copy", "text"])):
            case "cut":
                lines[at] = lines[at][: data.draw(st.integers(0, 60))]
            case "drop":
                lines[at] = ""
            case "copy":
                lines.insert(at, data.draw(st.sampled_from(lines)))
            case _:
                lines[at] += data.draw(st.text(max_size=12))
    text = Source("x", "\n".join(lines))
    for reader in (ios, junos, pf, tc):
        readings = reader.read(text)
        if not readings:
            continue
        one = readings[0]
        key = (one.family, one.interface, one.direction, one.policy)
        counted = module._counted(key, {one.command: [one]})
        counters.dataset({"edge>next": counted}, "x", 10**12, ["x"])
