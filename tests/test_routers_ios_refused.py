"""Policy maps that IOS refuses: an error with its reason, and an interface without a policy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ios import config
from perhop.errors import UsageError
from perhop.routers import lint
from perhop.routers.reading import Fault
from perhop.routers.scenario import build

if TYPE_CHECKING:
    from pathlib import Path

TEXT = """\
class-map match-all A
 match dscp ef
class-map match-all B
 match dscp af31
policy-map P
 class A
  FIRST
 class B
  SECOND
policy-map Q
 class B
  bandwidth percent 30
policy-map SHAPED
 class class-default
  shape average 5000000
  service-policy P
interface GigabitEthernet0/1
 bandwidth 10000
 service-policy output NAME
interface GigabitEthernet0/2
 bandwidth 10000
 service-policy output Q
"""

REFUSED = [
    ("bandwidth 1000", "bandwidth percent 20", 9, "percent here, kbps in line 7"),
    ("bandwidth percent 20", "bandwidth 1000", 9, "kbps here, percent in line 7"),
    ("bandwidth percent 20", "bandwidth remaining percent 20", 9, "remaining percent here"),
    ("bandwidth remaining ratio 10", "bandwidth 1000", 9, "kbps here, remaining ratio in line 7"),
    ("bandwidth remaining ratio 1", "bandwidth remaining percent 5", 9, "remaining percent here"),
    ("bandwidth 1000\n  bandwidth remaining ratio 10", "", 8, "remaining ratio here"),
    ("priority 1000\n  bandwidth 1000", "", 8, "exclude each other in a class"),
    ("bandwidth percent 5\n  priority percent 10", "", 8, "exclude each other in a class"),
    ("priority percent 10\n  bandwidth remaining ratio 10", "", 8, "exclude each other"),
    ("priority level 1", "priority", 9, "exclude each other in a policy map"),
]


@pytest.mark.parametrize("name", ["P", "SHAPED"])
@pytest.mark.parametrize(("first", "second", "line", "reason"), REFUSED)
def test_what_ios_refuses_is_an_error_with_its_reason(
    first: str, second: str, line: int, reason: str, name: str, tmp_path: Path
) -> None:
    """Cisco: "The bandwidth remaining ratio command cannot coexist with another bandwidth command
    in different traffic classes of the same policy map", nor with `priority` in a class; a policy
    map has "all the class bandwidths specified in kbps or all in percentages, but not a mix".
    """
    file = tmp_path / "r.cfg"
    file.write_text(TEXT.replace("FIRST", first).replace("SECOND", second).replace("NAME", name))
    found = config(file.read_text())
    assert [each.interface for each in found.attachments if each.interface] == [
        "GigabitEthernet0/2"
    ]
    [refusal] = found.refusals
    assert (refusal.interface, refusal.place.line) == ("GigabitEthernet0/1", line)
    [told] = [each for each in found.lines if each.fault is Fault.REFUSED]
    assert told.place.line == line and reason in told.note
    faults = [each for each in lint.lint([file]) if each.rule.name == "refused-line"]
    assert [(each.place.line, each.rule.severity.name) for each in faults] == [(line, "ERROR")]
    for interface in (None, "Gi0/1"):
        with pytest.raises(UsageError, match="GigabitEthernet0/1 has no policy"):
            build([file], interface=interface)
    assert build([file], interface="Gi0/2").attachment.name == "Q"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("priority percent 10", "bandwidth 1000"),  # their units may differ
        ("priority 1000", "bandwidth remaining ratio 3"),
        ("priority level 1", "priority level 2"),
        ("bandwidth remaining percent 5", "bandwidth remaining percent 50"),
        ("bandwidth percent 5", "shape average 100000"),
    ],
)
def test_what_ios_accepts_is_not_refused(first: str, second: str) -> None:
    found = config(TEXT.replace("FIRST", first).replace("SECOND", second).replace("NAME", "P"))
    assert found.refusals == ()
    assert [each.name for each in found.attachments if each.interface] == ["P", "Q"]
