"""Forms of `show policy-map interface`: older releases, switches, circuits, broken lines."""

from pathlib import Path
from typing import Any

import pytest

from perhop.routers import counters
from perhop.routers.counters import Counted


def read(folder: Path, text: str) -> tuple[Counted, ...]:
    (folder / "r.txt").write_text(text)
    return counters.read([folder / "r.txt"])


def one(folder: Path, lines: str, *, interface: str = "Ethernet0/0") -> dict[str, Any]:
    """The counters of the only class of a policy."""
    text = f"{interface}\n\n  Service-policy output: P\n\n    Class-map: A (match-any)\n"
    [found] = read(folder, text + "".join(f"      {line}\n" for line in lines.splitlines()))
    return dict(found.classes["A"])


def test_policers_of_switches_count_bytes_only(tmp_path: Path) -> None:
    text = """\
500 packets
police:
    rate 500000000 bps, burst 10240 bytes
  conformed 60000 bytes; actions:
    transmit
  exceeded {} bytes; actions:
    drop"""
    found = one(tmp_path, text.format(40000))
    assert (found["conformed_bytes"], found["sent_bytes"]) == (60000, 60000)
    # It is unknown how many packets the policer dropped.
    assert not found.keys() & {"sent_packets", "dropped_packets", "dropped_policer"}
    assert found["dropped_bytes"] == 40000
    none = one(tmp_path, text.format(0))
    assert (none["sent_packets"], none["dropped_packets"]) == (500, 0)


def test_queues_of_switches_count_bytes_only(tmp_path: Path) -> None:
    text = "0 packets\nMatch: any\nQueueing\n\n(total drops) {}\n(bytes output) 15420"
    found = one(tmp_path, text.format(3000))
    assert found == {"offered_packets": 0, "sent_bytes": 15420, "dropped_bytes": 3000}
    found = one(tmp_path, text.format(0))
    assert found["dropped_packets"] == 0 and "sent_packets" not in found


def test_a_priority_queue_of_a_switch_has_no_packets(tmp_path: Path) -> None:
    text = """\
TenGigabitEthernet1/1/1

  Service-policy output: P

    queue stats for all priority classes:
      Queueing
      priority level 1

      (total drops) 1500
      (bytes output) 100

    Class-map: VOICE (match-any)
      0 packets
      Priority Level: 1
      Priority: Strict,
"""
    [found] = read(tmp_path, text)
    assert found.classes["VOICE"] == {
        "offered_packets": 0,
        "sent_bytes": 100,
        "dropped_bytes": 1500,
    }


@pytest.mark.parametrize(
    ("names", "numbers"),
    [
        ("queue depth/total drops/no-buffer drops/flowdrops", "1/9/0/2"),
        ("depth/total drops/no-buffer drops", "1/9/0"),
        ("total queued/total drops/no-buffer drops", "1/9/0"),
        ("total queued/total drops/no-buffer drops/flowdrops", "1/9/0/2"),
    ],
)
def test_queues_of_releases(tmp_path: Path, names: str, numbers: str) -> None:
    found = one(tmp_path, f"100 packets, 10000 bytes\nQueueing\n({names}) {numbers}")
    assert (found["backlog_packets"], found["dropped_limit"], found["sent_packets"]) == (1, 9, 91)


def test_strict_priority_of_older_releases(tmp_path: Path) -> None:
    text = "10 packets, 1000 bytes\nStrict Priority\n(total drops/bytes drops) 2/200"
    found = one(tmp_path, text)
    assert (found["dropped_policer"], found["sent_packets"]) == (2, 8)


def test_traffic_shaping_of_older_releases(tmp_path: Path) -> None:
    text = """\
100 packets, 6400 bytes
Traffic Shaping
  Adapt  Queue     Packets   Bytes     Packets   Bytes     Shaping
  Active Depth                         Delayed   Delayed   Active
  -      2         98        6000      4         300       yes"""
    found = one(tmp_path, text)
    assert (found["sent_packets"], found["sent_bytes"], found["backlog_packets"]) == (98, 6000, 2)


def test_lines_that_a_terminal_broke(tmp_path: Path) -> None:
    text = """\
100 packets, 10000 bytes
Priority: 30% (29961 kbps), burst bytes 749000, b/w exceed drops:
7
(queue depth/total drops/no-buffer drops) 0/9/0
dscp       Transmitted         Random drop      Tail
drop          Minimum        Maximum     Mark
default        91/9100               4/400
5/500                 24            40  1/10"""
    found = one(tmp_path, text)
    assert (found["dropped_policer"], found["dropped_early"], found["dropped_limit"]) == (7, 4, 5)


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("serial3/1", "serial3/1"),
        ("    GigabitEthernet0/0/0 ", "GigabitEthernet0/0/0"),
        ("ATM2/0/0: VC 0/100 -", "ATM2/0/0 VC 0/100"),
        ("Interface Tunnel0 <--> 10.1.1.2", "Tunnel0 <--> 10.1.1.2"),
        (" Control Plane ", "Control Plane"),
        ("R1#show policy-map interface Gi0/1\n GigabitEthernet0/1", "GigabitEthernet0/1"),
    ],
)
def test_interfaces_and_circuits(tmp_path: Path, line: str, name: str) -> None:
    text = f"{line}\n\n  Service-policy input: P\n    Class-map: A (match-any)\n      QoS Set\n"
    text += "        dscp 46\n  Service-policy output: P\n    class-map: A (match-any)\n"
    found = read(tmp_path, f"{text}      5 packets\n")
    assert [(each.interface, each.direction) for each in found] == [(name, "in"), (name, "out")]
    assert found[1].classes["A"]["offered_packets"] == 5


def test_lines_with_unknown_counters_are_named(tmp_path: Path) -> None:
    text = """\
Ethernet0/0
  Service-policy input: P
    Class-map: A (match-all)
      Earl in slot 5 :
        aggregate-forwarded 12000 bytes action: transmit
        exceeded 0 bytes action: drop
      queue limit 64 packets
      5 packets, 500 bytes
      Priority: 10 kbps, burst bytes 1500, b/w exceed drops: 0
"""
    [found] = read(tmp_path, text)
    assert [note.partition(": ")[2] for note in found.notes] == [
        "not read: `aggregate-forwarded 12000 bytes action: transmit`"
    ]
    assert found.notes[0].startswith(f"{tmp_path / 'r.txt'}:5: ")


OUTER = """\
GigabitEthernet0/1

  Service-policy output: OUTER

    Class-map: SITE (match-any)
      1000 packets, 100000 bytes
SHAPER
      Service-policy : INNER

        Class-map: VOICE (match-any)
          400 packets, 40000 bytes
          police:
              cir 1000000 bps, bc 31250 bytes
            conformed 300 packets, 30000 bytes; actions:
              transmit
            exceeded EXCEEDED; actions:
              drop

        Class-map: class-default (match-any)
          600 packets, 60000 bytes
QUEUE
    Class-map: class-default (match-any)
      5 packets, 500 bytes
"""
QUEUED = "          Queueing\n          (queue depth/total drops/no-buffer drops) 0/20/0\n"


@pytest.mark.parametrize(
    ("exceeded", "queue", "shaper", "dropped", "sent", "sent_bytes"),
    [
        # 100 packets are dropped by the policer inside.
        ("100 packets, 10000 bytes", "", "", 100, 900, 90000),
        # 20 more by a queue inside; it tells no bytes of them.
        ("100 packets, 10000 bytes", QUEUED, "", 120, 880, None),
        # The shaper's own queue counts those of the queues inside, and not those of policers.
        (
            "100 packets, 10000 bytes",
            QUEUED,
            "      Queueing\n      (queue depth/total drops/no-buffer drops) 0/20/0\n"
            "      (pkts output/bytes output) 880/88000\n      shape (average) cir 8000000\n",
            120,
            880,
            88000,
        ),
        # A switch counts bytes only: it is unknown how many packets were sent.
        ("10000 bytes", "", "", None, None, None),
        ("0 packets, 0 bytes", "", "", None, 1000, 100000),
    ],
)
def test_an_outer_class_has_the_drops_of_its_inner_policy(
    exceeded: str,
    queue: str,
    shaper: str,
    dropped: int | None,
    sent: int | None,
    sent_bytes: int | None,
    tmp_path: Path,
) -> None:
    text = OUTER.replace("EXCEEDED", exceeded).replace("QUEUE", queue).replace("SHAPER", shaper)
    [found] = read(tmp_path, text)
    site = found.classes["SITE"]
    assert site.get("dropped_packets") == dropped
    assert (site.get("sent_packets"), site.get("sent_bytes")) == (sent, sent_bytes)
    assert found.classes["class-default"]["sent_packets"] == 5


TWO = """\
GigabitEthernet0/1

  Service-policy output: {name}

    Class-map: class-default (match-any)
      {packets} packets, {size} bytes
"""


def test_different_policies_at_an_interface_are_no_readings_of_one(tmp_path: Path) -> None:
    files = []
    for number, (name, packets) in enumerate([("OLD", 900), ("NEW", 100), ("NEW", 150)]):
        files.append(tmp_path / f"{number}.txt")
        files[-1].write_text(TWO.format(name=name, packets=packets, size=100 * packets))
    old, new = counters.read(files)
    assert (old.policy, old.readings, old.classes["class-default"]["offered_packets"]) == (
        "OLD",
        1,
        900,
    )
    assert (new.policy, new.readings, new.classes["class-default"]["offered_packets"]) == (
        "NEW",
        2,
        50,
    )
    assert new.name == "GigabitEthernet0/1, out, policy NEW"
    [alone] = counters.read(files[1:])
    assert (alone.policy, alone.name) == ("", "GigabitEthernet0/1, out")
