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
        ("delay 20ms limit 5000", {"delay": "20 ms"}),
        ("loss 1%", {"loss": "1%"}),
        ("loss random 1%", {"loss": "1%"}),
        ("duplicate 2% delay 5ms limit 5000", {"duplicate": "2%", "delay": "5 ms"}),
        # One in a hundred is lost, and one in a hundred of the rest corrupted.
        ("loss 1% corrupt 1%", {"loss": "1.99%"}),
        # Uniform from 15 to 25 ms.
        ("delay 20ms 5ms limit 5000", {"delay": "15 ms", "jitter": "10 ms"}),
        # A deviation of 5 ms is that of a uniform distribution of 17.320508 ms.
        (
            "delay 20ms 5ms distribution normal limit 5000",
            {"delay": "11.339745962 ms", "jitter": "17.320508076 ms"},
        ),
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
    assert line.treatment is Treatment.NOT_MODELLED
    assert line.fault is Fault.SHORT_LINE
    assert f"no more than {most} of" in line.note
    assert f"`limit {needed}` holds all" in line.note


@pytest.mark.parametrize("words", ["delay 100ms limit 8334", "delay 10ms limit 834", "loss 1%"])
def test_a_line_that_holds_all_is_modelled(words: str) -> None:
    found = read([Source("wan.sh", SPEED.format(1000) + NETEM.format(words))], "tc")
    assert [line.note for line in found.lines] == ["", ""]


def test_a_short_delay_line_is_told_by_every_command(perhop: Perhop, place: Path) -> None:
    (place / "wan.sh").write_text(SPEED.format(1000) + NETEM.format("delay 100ms"))
    assert "120 Mbps" in perhop("import", "wan.sh").out
    checked = perhop("lint", "wan.sh")
    assert "short-delay-line" in checked.out
    ran = perhop("run", "wan.sh", "--rate", "1 Gbps", "--set", "duration=1 s")
    assert "120 Mbps" in ran.out + ran.err
