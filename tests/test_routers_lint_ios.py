"""`perhop lint` on configurations of Cisco IOS."""

from perhop.routers.lint import Finding, lint
from perhop.routers.reading import Source

EDGE = """\
version 12.4
class-map match-any VOICE
 match ip dscp ef
class-map match-all BOTH
 match ip dscp af21
 match ip dscp af31
class-map match-any WEB
 match protocol http
class-map match-any TUNNEL
 match access-group name GRE
class-map match-any LOST
 match access-group name GONE
class-map match-any DATA
 match ip dscp af21 af22
class-map match-any ORDERS
 match ip dscp af21
ip access-list extended GRE
 permit gre any any
policy-map WAN
 class VOICE
  priority
 class BOTH
  bandwidth percent 5
 class WEB
  bandwidth percent 5
 class TUNNEL
  bandwidth percent 5
 class LOST
  bandwidth percent 5
 class DATA
  bandwidth percent 40
  random-detect dscp-based
  random-detect dscp 18 20 40 10
  random-detect dscp 26 20 40 10
  queue-limit 30
 class ORDERS
  bandwidth percent 36
 class class-default
  fair-queue
policy-map LIMIT
 class class-default
  police 2000000 8000 exceed-action drop
policy-map MARK
 class VOICE
  set dscp ef
 class WEB
  set dscp af21
 class class-default
  set dscp cs3
policy-map FORGOTTEN
 class class-default
  shape average 1000000
interface Serial0/0
 bandwidth 1544
 service-policy output WAN
interface FastEthernet0/0
 service-policy input MARK
interface FastEthernet0/1
 service-policy input LIMIT
 service-policy output MISSPELT
"""


def named(found: list[Finding]) -> list[tuple[str, int]]:
    return [(finding.rule.name, finding.place.line) for finding in found]


def test_faults_of_a_router_are_found_in_their_lines() -> None:
    assert named(lint([Source("edge.cfg", EDGE)])) == [
        ("unread-line", 8),
        ("undefined-name", 12),
        ("unlimited-priority", 21),
        ("empty-class", 22),
        ("wred-thresholds", 33),
        ("wred-code-point", 33),
        ("wred-thresholds", 35),
        ("shadowed-class", 36),
        ("long-queue", 36),
        ("platform-limit", 37),
        ("tcp-burst", 42),
        ("unknown-mark", 49),
        ("unused-policy", 50),
        ("undefined-name", 60),
    ]


def test_the_repaired_router_has_none() -> None:
    # A match by application stays: perhop cannot model it.
    repaired = (
        EDGE.replace("class-map match-all BOTH", "class-map match-any BOTH")
        .replace(" match ip dscp af21\n match ip dscp af31\n", " match ip dscp cs3\n")
        .replace("name GONE", "name GRE")
        .replace("  priority\n", "  priority percent 20\n")
        .replace("bandwidth percent 40", "bandwidth percent 20")
        .replace("bandwidth percent 36", "bandwidth percent 10")
        .replace(" match ip dscp af21\nip", " match ip dscp af23\nip")
        .replace("  random-detect dscp 26 20 40 10\n  queue-limit 30\n", "")
        .replace("2000000 8000 exceed", "2000000 50000 exceed")
        .replace("FORGOTTEN", "MISSPELT")
        .replace(" bandwidth 1544\n", " bandwidth 10000\n")
    )
    assert named(lint([Source("edge.cfg", repaired)])) == [("unread-line", 7)]


def test_the_limit_of_a_platform_depends_on_its_release_and_its_settings() -> None:
    assert ("platform-limit", 37) in named(lint([Source("edge.cfg", EDGE)]))
    for text in (
        EDGE.replace("version 12.4", "version 15.1"),
        EDGE.replace("version 12.4\n", ""),
        EDGE.replace(" bandwidth 1544\n", " bandwidth 1544\n max-reserved-bandwidth 96\n"),
    ):
        names = [finding.rule.name for finding in lint([Source("edge.cfg", text)])]
        assert "platform-limit" not in names


def test_routers_are_judged_as_one_network() -> None:
    other = """\
class-map match-any BULK
 match ip dscp cs3
policy-map OUT
 class BULK
  bandwidth percent 20
interface Serial0/0
 service-policy output OUT
"""
    both = lint([Source("edge.cfg", EDGE), Source("core.cfg", other)])
    assert "unknown-mark" not in [finding.rule.name for finding in both]


def test_untrusted_interfaces_need_an_input_policy_that_marks_all() -> None:
    for interface, lines in (
        ("FastEthernet0/0", []),
        ("fastethernet0/*", [41]),
        ("Serial0/0", [19]),
    ):
        found = lint([Source("edge.cfg", EDGE)], untrusted=[interface])
        assert [line for name, line in named(found) if name == "untrusted-dscp"] == lines


def test_policies_that_protect_the_router_are_not_judged_as_forgotten() -> None:
    text = """\
class-map match-any system-cpp-police-control-low-priority
  description General punt
class-map match-any VOICE
 match ip dscp ef
policy-map system-cpp-policy
 class system-cpp-police-control-low-priority
  police rate 200 pps
policy-map WAN
 class VOICE
  priority percent 10
interface GigabitEthernet0/0
 service-policy output WAN
control-plane
 service-policy input system-cpp-policy
"""
    assert named(lint([Source("switch.cfg", text)])) == []
    without = text.replace(" service-policy input system-cpp-policy\n", "")
    assert named(lint([Source("switch.cfg", without)])) == [("unused-policy", 5)]


def test_a_policy_at_several_interfaces_is_judged_once() -> None:
    inner = """\
class-map match-any ALL
 match access-group 1
class-map match-any WEB
 match access-group 2
policy-map OUT
 class ALL
  bandwidth 256
  queue-limit 4096
 class WEB
  bandwidth 128
  random-detect
  random-detect precedence 0 100 50 10
policy-map SHAPER
 class class-default
  shape average 2000000
  service-policy OUT
interface Serial0/0
 bandwidth 2048
 service-policy output SHAPER
interface Serial0/1
 bandwidth 1544
 service-policy output OUT
access-list 1 permit 10.0.0.0 0.255.255.255
access-list 2 permit 10.1.0.0 0.0.255.255
"""
    found = named(lint([Source("two.cfg", inner)]))
    assert len(found) == len(set(found))
    assert {("shadowed-class", 9), ("long-queue", 8), ("invalid-value", 12)} <= set(found)


NOISE = """\
version {version}
class-map match-any VOICE
 match dscp ef
class-map match-any SIGNALLING
 match dscp cs3 af31
policy-map CALLS
 class VOICE
  priority {voice}
 class SIGNALLING
  {signalling}
 class class-default
  fair-queue
interface {interface}
 service-policy output CALLS
"""


def test_signalling_is_not_judged_as_voice() -> None:
    for version in ("15.2", "16.9"):
        for signalling in (
            "bandwidth 500\n  random-detect",
            "bandwidth percent 5\n  queue-limit 200 ms",
            "priority\n  queue-limit 60000 bytes",
        ):
            text = NOISE.format(
                version=version, voice="1000", signalling=signalling, interface="Ethernet0/1"
            )
            names = {name for name, _ in named(lint([Source("r.cfg", text)]))}
            assert not names & {"voice-red", "voice-queue"}
            voice = Source("r.cfg", text.replace("match dscp cs3 af31", "match dscp 44"))
            names = {name for name, _ in named(lint([voice]))}
            assert names & {"voice-red", "voice-queue"}


def test_shares_of_a_rate_that_only_the_router_knows_are_not_judged() -> None:
    """What `bandwidth` in kb/s leaves to the default class depends on the rate of a bundle or of a
    dialled line, which no line tells.
    """
    for interface, judged in (
        ("Multilink1", False),
        ("Dialer1", False),
        ("Virtual-Template1", False),
        ("Ethernet0/1", True),
    ):
        text = NOISE.format(
            version="15.2", voice="percent 10", signalling="bandwidth 8950", interface=interface
        )
        names = {name for name, _ in named(lint([Source("r.cfg", text)]))}
        assert ("default-without-bandwidth" in names) == judged


SESSION = """\
R1(config)#class-map match-all A
R1(config-cmap)#match application skype
R1(config-cmap)#policy-map P
R1(config-pmap)#class A
R1(config-pmap-c)#bandwidth 1000
R1(config-pmap-c)#interface GigabitEthernet0/1
R1(config-if)#service-policy output P
"""


def test_classes_of_pasted_commands_are_known_to_be_inexact() -> None:
    """Prompts, and statements without indentation, hide no condition that perhop lacks."""
    bare = "".join(f"{line.partition('#')[2]}\n" for line in SESSION.splitlines())
    for text in (SESSION, bare):
        assert named(lint([Source("r.cfg", text)])) == [("unread-line", 2)]


def test_a_class_behind_one_that_takes_all_packets_is_shadowed() -> None:
    text = (
        "class-map match-any ALL\n match any\nclass-map match-all A\n match dscp ef\n"
        "policy-map P\n class ALL\n  bandwidth 10\n class A\n  bandwidth 10\n"
        " class class-default\ninterface GigabitEthernet0/1\n service-policy output P\n"
    )
    assert ("shadowed-class", 8) in named(lint([Source("r.cfg", text)]))
    assert ("shadowed-class", 10) not in named(lint([Source("r.cfg", text)]))
    unknown = text.replace("match-any ALL\n", "match-all ALL\n match application skype\n")
    assert "shadowed-class" not in dict(named(lint([Source("r.cfg", unknown)])))
