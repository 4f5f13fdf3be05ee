"""Policy maps that IOS refuses: an error with its reason, and an interface without a policy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ios import config
from perhop import ScenarioError
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
    (
        "bandwidth 1000",
        "bandwidth percent 20\n class class-default\n  bandwidth remaining percent 9",
        9,
        "percent here",
    ),
    # Cisco 10000 Series Router Quality of Service Configuration Guide, 8-5; ME 3600X command
    # reference, `priority`.
    ("priority 1000\n  shape average 2000000", "", 8, "`shape` and `priority` exclude"),
    ("shape average percent 20\n  priority", "", 8, "`shape` and `priority` exclude"),
    ("priority\n  random-detect dscp-based", "", 8, "`random-detect` and `priority` exclude"),
    ("", "police 8000\n class class-default\n  priority 100", 11, "cannot have priority"),
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
        ("priority percent 10\n  queue-limit 20", "bandwidth percent 5"),  # ME 3600X, `priority`
        ("priority percent 10\n  police 8000", "bandwidth percent 5"),
    ],
)
def test_what_ios_accepts_is_not_refused(first: str, second: str) -> None:
    found = config(TEXT.replace("FIRST", first).replace("SECOND", second).replace("NAME", "P"))
    assert found.refusals == ()
    assert [each.name for each in found.attachments if each.interface] == ["P", "Q"]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("priority percent 60", "priority percent 41"),
        ("bandwidth percent 60", "bandwidth percent 41"),
        ("bandwidth remaining percent 60", "bandwidth remaining percent 41"),
        ("priority percent 60", "bandwidth 4100"),
        ("bandwidth 6000", "bandwidth 4100"),
    ],
)
@pytest.mark.parametrize("name", ["P", "SHAPED"])
def test_guarantees_above_the_whole_are_errors(
    first: str, second: str, name: str, tmp_path: Path
) -> None:
    """Cisco, Configuring Weighted Fair Queueing: the bandwidth of all classes must not exceed what
    there is. In `SHAPED`, that is the rate of the shaper.
    """
    text = TEXT.replace("NAME", name).replace("bandwidth 10000", "speed 10")
    fits = text.replace("FIRST", first.replace("60", "10")).replace("SECOND", second)
    for content, wrong in (
        (text.replace("FIRST", first).replace("SECOND", second), True),
        (fits.replace("average 5000000", "average 9000000"), False),
    ):
        file = tmp_path / "r.cfg"
        file.write_text(content)
        rules = {each.rule.name for each in lint.lint([file]) if each.rule.severity.name == "ERROR"}
        assert rules == ({"guarantees-above-capacity"} if wrong else set())
        if wrong:
            with pytest.raises(ScenarioError, match=r"guarantee .* expected at most 100%"):
                build([file], interface="Gi0/1").scenario()


PLACES = """\
class-map match-all A
 match dscp ef
policy-map P
 class A
  STATEMENT
policy-map NESTED
 class class-default
  service-policy P
policy-map SHAPED
 class class-default
  shape average 5000000
  service-policy P
policy-map CLASSES
 class A
  shape average 5000000
  service-policy P
 class class-default
  shape average 1000000
interface WHERE
 speed 10
 service-policy HOW
interface GigabitEthernet0/9
 speed 10
 service-policy output P
"""

QUEUEING = [
    "bandwidth 1000",
    "bandwidth remaining ratio 9",
    "priority",
    "queue-limit 9",
    "fair-queue",
]


def refusal(text: str, tmp_path: Path) -> str | None:
    """Return why IOS refuses the policy of the first interface, after a look at all commands."""
    found = config(text)
    file = tmp_path / "r.cfg"
    file.write_text(text)
    line = text[: text.index(" service-policy", text.index("interface "))].count("\n") + 1
    errors = [(each.rule.name, each.place.line) for each in lint.lint([file])]
    assert (("refused-line", line) in errors) == bool(found.refusals)
    assert build([file], interface="Gi0/9").attachment.name == "P"
    if not found.refusals:
        return None
    [refused] = found.refusals
    name = next(each for each in text.splitlines() if each.startswith("interface"))[10:]
    assert (refused.interface, refused.place.line) == (name, line)
    assert name not in {each.interface for each in found.attachments}
    with pytest.raises(UsageError, match="has no policy"):
        build([file])
    return refused.reason


@pytest.mark.parametrize("statement", [*QUEUEING, "shape average 1000000", "random-detect"])
@pytest.mark.parametrize("name", ["P", "NESTED", "SHAPED"])
def test_queues_at_an_input_are_refused(statement: str, name: str, tmp_path: Path) -> None:
    """A Catalyst 6500 says "priority command is not supported in input direction for this
    interface" (cisco-nsp, 11 June 2008), and Cisco's 10000 Series guide that inbound interfaces
    have no `priority`.
    """
    text = PLACES.replace("STATEMENT", statement).replace("WHERE", "GigabitEthernet0/1")
    reason = refusal(text.replace("HOW", f"input {name}"), tmp_path)
    assert reason is not None and "is not supported in input direction" in reason
    polices = PLACES.replace("STATEMENT", "police 8000").replace("WHERE", "GigabitEthernet0/1")
    if name != "SHAPED":
        assert refusal(polices.replace("HOW", f"input {name}"), tmp_path) is None


@pytest.mark.parametrize("statement", QUEUEING)
@pytest.mark.parametrize(
    ("where", "name", "reason"),
    [
        ("GigabitEthernet0/1.7", "P", "CBWFQ : Not supported on subinterfaces"),
        ("Serial0/1.7 point-to-point", "P", "CBWFQ : Not supported on subinterfaces"),
        ("GigabitEthernet0/1.7", "NESTED", "CBWFQ : Hierarchy supported only if shaping is"),
        ("Tunnel0", "P", "Class Based Weighted Fair Queueing not supported on this interface"),
        ("tu 7", "NESTED", "Class Based Weighted Fair Queueing not supported on this interface"),
        ("Tunnel0", "SHAPED", None),
        ("GigabitEthernet0/1.7", "SHAPED", None),
        ("GigabitEthernet0/1.7", "CLASSES", None),
        ("GigabitEthernet0/1", "P", None),
        ("GigabitEthernet0/1", "NESTED", None),
    ],
)
def test_queues_without_a_shaper_are_refused_at_subinterfaces_and_tunnels(
    statement: str, where: str, name: str, reason: str | None, tmp_path: Path
) -> None:
    """Cisco, Applying QoS Features to Ethernet Subinterfaces, has the first message, for Ethernet
    and Gigabit Ethernet; routers print both, also for a subinterface of Frame Relay. Quality of
    Service Options on GRE Tunnel Interfaces (document 10106) has that of tunnels.
    """
    text = PLACES.replace("STATEMENT", statement).replace("WHERE", where)
    told = refusal(text.replace("HOW", f"output {name}").replace(" point-to-point", ""), tmp_path)
    assert (told is None) == (reason is None)
    assert told is None or (reason or "?") in told


def test_a_circuit_and_a_map_class_are_no_subinterfaces() -> None:
    """Frame Relay Traffic Shaping shapes a circuit, around the policy of its map class."""
    text = PLACES.replace("STATEMENT", "bandwidth 10").replace(" service-policy HOW\n", "")
    mapped = "map-class frame-relay M\n frame-relay cir 64000\n service-policy output P\n"
    for inside in (
        " frame-relay class M\n",
        " frame-relay interface-dlci 7\n  class M\n",
    ):
        at = text.replace("WHERE\n speed 10\n", f"Serial0/1.7 point-to-point\n{inside}")
        found = config(mapped + at)
        assert found.refusals == ()
        assert [each.name for each in found.attachments if "Serial" in each.interface] == ["P"]


@pytest.mark.parametrize(
    ("version", "statement", "inner", "wrong"),
    [
        ("16.9", "bandwidth percent 50", "priority percent 10", True),
        ("16.9", "bandwidth 5000", "bandwidth percent 10", True),
        ("16.9", "bandwidth remaining percent 50", "bandwidth percent 10", False),
        ("16.9", "bandwidth percent 50", "police 8000", False),
        ("15.2", "bandwidth percent 50", "priority percent 10", False),
    ],
)
def test_ios_xe_has_no_guarantee_around_queues(
    version: str, statement: str, inner: str, wrong: bool
) -> None:
    """Cisco, 3-Level User-Defined Queuing Policy Support (IOS XE): `bandwidth` only at the leaves
    of a hierarchy; classic IOS permits it at intermediate nodes, too.
    """
    text = f"""\
version {version}
class-map match-all A
 match dscp ef
policy-map INNER
 class A
  {inner}
policy-map P
 class A
  {statement}
  service-policy INNER
interface GigabitEthernet0/1
 service-policy output P
"""
    found = config(text)
    assert [(each.place.line, "with queues inside" in each.reason) for each in found.refusals] == (
        [(9, True)] if wrong else []
    )


@pytest.mark.parametrize(
    ("version", "reserved", "refused"),
    [
        ("12.3", "", True),
        ("12.2", " max-reserved-bandwidth 80\n", True),
        ("12.2", " max-reserved-bandwidth 85\n", False),
        ("12.4", "", False),  # some of its releases accept it
        ("15.1", "", False),
        ("16.9", "", False),
    ],
)
def test_old_releases_reserve_a_part_of_the_bandwidth(
    version: str, reserved: str, refused: bool
) -> None:
    """Cisco, document 10466: the sum of `bandwidth` and `priority` is at most 75% of the bandwidth,
    but for `max-reserved-bandwidth`.
    """
    text = f"version {version}\n" + TEXT.replace("FIRST", "priority percent 50")
    text = text.replace("SECOND", "bandwidth percent 35").replace("NAME", "P")
    text = text.replace(
        "interface GigabitEthernet0/1\n", f"interface GigabitEthernet0/1\n{reserved}"
    )
    found = config(text)
    assert [each.interface for each in found.refusals] == (
        ["GigabitEthernet0/1"] if refused else []
    )
    if refused:
        assert "`bandwidth percent 35`" in found.refusals[0].reason
    # Behind a shaper, all of its rate may be guaranteed.
    assert config(text.replace("output P", "output SHAPED")).refusals == ()
