"""Configurations that VyOS does not commit: an error with its reason, and no policy anywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from perhop.errors import UsageError
from perhop.routers.lint import lint
from perhop.routers.reading import Source, detect
from perhop.routers.scenario import build

if TYPE_CHECKING:
    from pathlib import Path

TEXT = """\
set interfaces ethernet eth0 speed 100
set qos interface eth0 egress OUT
set qos interface eth0 ingress IN
set qos policy shaper OUT bandwidth 10mbit
set qos policy shaper OUT class 10 bandwidth 40%
set qos policy shaper OUT class 10 match voice ip dscp EF
set qos policy shaper OUT class 10 queue-type fq-codel
set qos policy shaper OUT default bandwidth 60%
set qos policy limiter IN class 20 bandwidth 1mbit
set qos policy limiter IN class 20 match bulk ip protocol udp
set qos policy limiter IN default bandwidth 5mbit
set qos policy priority-queue PQ class 3 match voice ip dscp EF
set qos policy priority-queue PQ default queue-limit 50
set qos policy fair-queue FQ queue-limit 100
set qos policy random-detect RED precedence 5 maximum-threshold 30
set qos policy random-detect RED precedence 5 queue-limit 60
"""
RULES = ("refused-line", "undefined-name")

REFUSED = [
    ("fair-queue FQ queue-limit 100", "fair-queue OUT queue-limit 100", 14, "Conflicting policy"),
    ("IN class 20 bandwidth 1mbit", "IN class 20 burst 20k", 9, 'policy "IN" class "20"!'),
    ("IN default bandwidth 5mbit", "IN default burst 20k", 11, "Bandwidth not defined for default"),
    ("OUT default bandwidth 60%", "OUT default burst 20k", 8, "Bandwidth not defined for default"),
    (
        "ip dscp EF",
        "ip dscp EF\nset qos policy shaper OUT class 10 match voice ipv6 dscp EF",
        6,
        "both IPv6 and IPv4 in one match (voice)!",
    ),
    (
        "RED precedence 5 maximum",
        "RED precedence 5 minimum-threshold 30\n"
        "set qos policy random-detect RED precedence 5 maximum",
        15,
        'min-threshold "30" >= max',
    ),
    ("precedence 5 queue-limit 60", "precedence 5 queue-limit 20", 15, '"20" < max-threshold "30"'),
    ("PQ default queue-limit 50", "PQ class 3 queue-limit 50", 12, 'PQ misses "default" class!'),
    ("egress OUT", "egress OTU", 2, '"OTU" does not exist!'),
    ("egress OUT", "egress IN", 2, "only supports"),
    ("OUT class 10 bandwidth", "OUT class 1 bandwidth", 5, "between 2 and 4095"),
    ("PQ class 3", "PQ class 8", 12, "between 1 and 7"),
    ("FQ queue-limit 100", "FQ queue-limit 128", 14, "in range 1 to 127"),
    ("RED precedence 5 max", "RED precedence 8 max", 15, "between 0 and 7"),
    ("queue-type fq-codel", "queue-type sfq", 7, "`sfq` is none of drop-tail"),
    ("queue-type fq-codel", "priority 21", 7, "between 0 and 20"),
]


@pytest.mark.parametrize(("good", "bad", "line", "reason"), REFUSED)
def test_what_vyos_refuses_is_an_error_with_its_reason(
    good: str, bad: str, line: int, reason: str, tmp_path: Path
) -> None:
    text = TEXT.replace(good, bad, 1)
    assert text != TEXT
    found = [
        each.place.line for each in lint([Source("config.boot", text)]) if each.rule.name in RULES
    ]
    assert found[0] == line
    configuration = detect.read([Source("config.boot", text)])
    assert configuration.attachments == ()
    assert [each.interface for each in configuration.refusals] == ["eth0"]
    file = tmp_path / "config.boot"
    file.write_text(text, "utf-8")
    with pytest.raises(UsageError, match=f"config.boot:{line}: the router refuses") as error:
        build([file])
    assert reason in str(error.value)


def test_what_vyos_commits_is_not_refused() -> None:
    found = detect.read([Source("config.boot", TEXT)])
    assert found.refusals == ()
    assert {(each.interface, each.direction) for each in found.attachments if each.interface} == {
        ("eth0", "out"),
        ("eth0", "in"),
    }


def test_without_an_interface_vyos_verifies_nothing() -> None:
    text = TEXT.replace("bandwidth 60%", "burst 20k")
    part = "".join(line for line in text.splitlines(True) if "qos interface" not in line)
    assert detect.read([Source("config.boot", part)]).refusals == ()
