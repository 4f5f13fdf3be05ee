"""netem: what it does to packets is the link's; a delay line that is too short is told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from perhop.routers import scenario
from perhop.routers.reading import Fault, Source, Treatment
from perhop.routers.reading.detect import read

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Perhop

SPEED = "ethtool -s eth0 speed {}\n"
NETEM = "tc qdisc add dev eth0 root netem {}\n"


def link(text: str, place: Path) -> dict[str, Any]:
    """Return the link with the policy of a script."""
    file = place / "wan.sh"
    file.write_text(text)
    made = scenario.build([file], rate=1_000_000_000)
    return next(each for each in made.document.data["links"] if "egress" in each)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("delay 20ms limit 5000", {"delay": "20 ms", "delay_limit": "5000 packets"}),
        ("delay 20ms", {"delay_limit": "1000 packets"}),
        ("loss 1%", {"loss": "1%"}),
        ("loss random 1%", {"loss": "1%"}),
        ("duplicate 2% delay 5ms limit 5000", {"duplicate": "2%", "delay": "5 ms"}),
        # One in a hundred is lost, and one in a hundred of the rest corrupted.
        ("loss 1% corrupt 1%", {"loss": "1.99%"}),
        ("delay 20ms 5ms", {"delay": "20 ms", "variation": {"by": "5 ms"}}),
        (
            "delay 20ms 5ms distribution paretonormal limit 5000",
            {"delay": "20 ms", "variation": {"by": "5 ms", "distribution": "paretonormal"}},
        ),
        # A rate keeps the order (`netem_enqueue`).
        ("delay 20ms 5ms rate 1gbit", {"variation": {"by": "5 ms", "in_order": True}}),
        ("delay 20ms reorder 25%", {"reorder": {"share": "25%", "gap": 1}}),
        ("delay 20ms reorder 25% 50% gap 5", {"reorder": {"share": "25%", "gap": 5}}),
    ],
)
def test_netem_is_the_medium_of_the_link(
    words: str, expected: dict[str, str], tmp_path: Path
) -> None:
    found = link(SPEED.format(1000) + NETEM.format(words), tmp_path)
    sent = {key: found[key]["edge"] for key in expected}
    assert sent == expected
    assert all(key in found for key in expected)


def test_a_run_has_the_medium_in_the_direction_of_the_interface(tmp_path: Path) -> None:
    file = tmp_path / "wan.sh"
    file.write_text(SPEED.format(100) + NETEM.format("delay 30ms loss 2% limit 5000"))
    made = scenario.build([file], rate=100_000_000).scenario()
    (middle,) = (each for each in made.links if each.egress)
    assert middle.medium("edge").delay == 30 * 10**9
    assert middle.medium("edge").loss == 20_000_000
    assert middle.medium("next").loss == 0
    assert middle.medium("next").delay != 30 * 10**9


@pytest.mark.parametrize(
    ("speed", "words", "most", "needed"),
    [
        # 1000 packets of 1500 B in 100 ms are 120 Mb/s; 1 Gb/s brings 8334 packets.
        (1000, "delay 100ms", "120 Mbps", 8334),
        (1000, "delay 100ms limit 2000", "240 Mbps", 8334),
        (100, "delay 200ms limit 100", "6 Mbps", 1667),
        (1000, "delay 20ms rate 2gbit limit 100", "60 Mbps", 3334),
    ],
)
def test_a_short_delay_line_is_told(speed: int, words: str, most: str, needed: int) -> None:
    found = read([Source("wan.sh", SPEED.format(speed) + NETEM.format(words))], "tc")
    line = found.lines[-1]
    assert line.treatment is not Treatment.NOT_MODELLED
    assert line.fault is Fault.SHORT_LINE
    assert f"no more than {most} of" in line.fault_note
    assert f"`limit {needed}` holds all" in line.fault_note


@pytest.mark.parametrize("words", ["delay 100ms limit 8334", "delay 10ms limit 834", "loss 1%"])
def test_a_line_that_holds_all_is_modelled(words: str) -> None:
    found = read([Source("wan.sh", SPEED.format(1000) + NETEM.format(words))], "tc")
    assert [line.note for line in found.lines] == ["", ""]


def test_a_short_delay_line_is_run(perhop: Perhop, place: Path) -> None:
    """Not more than 1000 packets of 1500 B in 100 ms: 120 Mb/s of 1 Gb/s."""
    (place / "wan.sh").write_text(SPEED.format(1000) + NETEM.format("delay 100ms"))
    assert "0 not modelled" in perhop("import", "wan.sh").out
    checked = perhop("lint", "wan.sh")
    assert "short-delay-line" in checked.out and "120 Mbps" in checked.out
    file = place / "wan.sh"
    made = scenario.build([file], rate=1_000_000_000).scenario()
    (middle,) = (each for each in made.links if each.egress)
    assert middle.medium("edge").delay_limit == 1000
    assert middle.medium("next").delay_limit is None


@pytest.mark.parametrize(
    ("words", "limit"),
    [("rate 10mbit delay 60ms limit 200", "150 packets"), ("rate 10mbit", "1000 packets")],
)
def test_packets_that_wait_for_a_rate_are_in_the_line_too(words: str, limit: str) -> None:
    """10 Mb/s in 60 ms are 50 packets of 1500 B."""
    found = read([Source("wan.sh", NETEM.format(words))], "tc")
    (attachment,) = found.attachments
    assert attachment.policy["classes"]["all"]["queue"] == {"limit": limit}


OBJECTS = """
[{"kind":"netem","handle":"8002:","dev":"eth0","root":true,"refcnt":2,"options":{"limit":500,"delay":{
"delay":0.1,"jitter":0.01,"correlation":0.25},"loss-random":{"loss":0.01,"correlation":0},"duplicate":{
"duplicate":0.02,"correlation":0},"reorder":{"reorder":0.25,"correlation":0.5},"corrupt":{"corrupt":0.005,
"correlation":0},"rate":{"rate":1250000,"packetoverhead":0,"cellsize":0,"celloverhead":0},"ecn":false,"gap":5}}]
"""
"""What tc of iproute2 6.1 printed for a discipline by `tc -j qdisc show`."""

SHOWN = (
    "qdisc netem 8002: dev eth0 root refcnt 2 limit 500 delay 100ms  10ms 25% loss 1% duplicate 2% "
    "reorder 25% 50% corrupt 0.5% rate 10Mbit gap 5\n"
)


@pytest.mark.parametrize("text", [OBJECTS, SHOWN])
def test_what_tc_shows_is_read(text: str) -> None:
    (attachment,) = read([Source("wan.json", text)], "tc").attachments
    assert attachment.medium == {
        "delay": "100 ms",
        "variation": {"by": "10 ms", "in_order": True},
        "loss": "1.495%",
        "duplicate": "2%",
        "reorder": {"share": "25%", "gap": 5},
        "delay_limit": "500 packets",
    }
    assert attachment.shape == {"rate": "10 Mbps", "overhead": "14 B"}


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("reorder 10%", "reordering not possible without specifying some delay"),
        ("delay 5ms gap 5", "gap specified without reorder probability"),
        ("delay 5ms distribution normal", "distribution specified but no latency and jitter"),
    ],
)
def test_what_tc_refuses_is_refused(words: str, reason: str) -> None:
    """The messages of iproute2 6.1, which come before the kernel is asked."""
    line = read([Source("wan.sh", NETEM.format(words))], "tc").lines[-1]
    assert line.fault is Fault.REFUSED and reason in line.fault_note


@pytest.mark.parametrize(
    ("words", "note"),
    [
        ("delay 20ms 5ms 25%", "the correlation of `delay`"),
        ("delay 20ms reorder 25% 50%", "the correlation of `reorder`"),
        ("delay 20ms 5ms distribution experimental", "netem's table `normal`"),
    ],
)
def test_what_differs_is_told(words: str, note: str) -> None:
    line = read([Source("wan.sh", NETEM.format(words))], "tc").lines[-1]
    assert line.treatment is Treatment.APPROXIMATED and note in line.note
