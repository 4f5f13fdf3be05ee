"""Configurations that Junos does not commit: an error with its reason, and no policy anywhere."""

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
set interfaces ge-0/0/0 unit 0 family inet filter output limit
set class-of-service interfaces ge-0/0/0 scheduler-map map
set class-of-service forwarding-classes queue 0 rest
set class-of-service forwarding-classes queue 1 voice
set class-of-service scheduler-maps map forwarding-class rest scheduler slow
set class-of-service scheduler-maps map forwarding-class voice scheduler fast
set class-of-service schedulers slow transmit-rate percent 60
set class-of-service schedulers fast transmit-rate percent 40
set class-of-service traffic-control-profiles profile shaping-rate 5m
set firewall policer slow if-exceeding bandwidth-limit 5m
set firewall policer slow if-exceeding burst-size-limit 50k
set firewall policer slow then discard
set firewall family inet filter limit term all from port 5060
set firewall family inet filter limit term all then policer slow
set firewall family inet filter limit term rest then accept
"""
RULES = ("refused-line", "undefined-name")

REFUSED = [
    ("fast transmit-rate percent 40", "fast transmit-rate percent 41", 8, "101% in sum"),
    ("percent 40", "remainder exact", 8, "`remainder` and `exact` exclude each other"),
    ("queue 1 voice", "queue 1 rest", 4, "class rest is in queue 0 already"),
    ("class voice scheduler", "class vioce scheduler", 6, "class vioce is not defined"),
    ("scheduler fast", "scheduler fats", 6, "scheduler fats is not defined"),
    ("ge-0/0/0 scheduler-map map", "ge-0/0/0 scheduler-map mop", 2, "map mop is not defined"),
    ("bandwidth-limit 5m", "burst-size-limit 9k", 11, "has no `bandwidth-limit` or"),
    ("burst-size-limit 50k", "bandwidth-limit 9m", 11, "has no `burst-size-limit`"),
    ("then policer slow", "then policer solw", 14, "policer solw is not defined"),
    (
        "all then policer slow",
        "all then policer slow\nset firewall family inet filter limit term all then accept\n"
        "set firewall family inet filter limit term all then next term",
        15,
        "`next` and `accept` exclude",
    ),
    ("port 5060", "port 5060 destination-port 80", 13, "`port` and `destination-port` exclude"),
]


@pytest.mark.parametrize(("good", "bad", "line", "reason"), REFUSED)
def test_what_junos_refuses_is_an_error_with_its_reason(
    good: str, bad: str, line: int, reason: str, tmp_path: Path
) -> None:
    text = TEXT.replace(good, bad, 1)
    assert text != TEXT
    found = [
        (each.place.line, each.message)
        for each in lint([Source("junos.conf", text)])
        if each.rule.name in RULES
    ]
    assert found[0][0] == line
    assert "error" in {each.rule.severity.value for each in lint([Source("junos.conf", text)])}
    configuration = detect.read([Source("junos.conf", text)])
    assert configuration.attachments == ()
    assert [each.interface for each in configuration.refusals] == ["ge-0/0/0"]
    file = tmp_path / "junos.conf"
    file.write_text(text, "utf-8")
    with pytest.raises(UsageError, match=f"junos.conf:{line}: the router refuses") as error:
        build([file])
    assert reason in str(error.value)


@pytest.mark.parametrize("word", ["scheduler-map map", "shaping-rate 5m"])
def test_a_profile_excludes_a_scheduler_map_beside_it(word: str) -> None:
    at = "set class-of-service interfaces ge-0/0/0"
    text = TEXT.replace(
        f"{at} scheduler-map map", f"{at} {word}\n{at} output-traffic-control-profile profile"
    )
    (refusal,) = detect.read([Source("junos.conf", text)]).refusals
    assert refusal.place.line == 2
    assert "exclude each other" in refusal.reason


def test_what_junos_commits_is_not_refused() -> None:
    assert detect.read([Source("junos.conf", TEXT)]).refusals == ()
    assert not [e for e in lint([Source("junos.conf", TEXT)]) if e.rule.name in RULES]


def test_a_part_of_a_configuration_may_name_what_another_part_defines() -> None:
    part = "".join(line for line in TEXT.splitlines(True) if "schedulers" not in line)
    assert detect.read([Source("junos.conf", part)]).refusals == ()
