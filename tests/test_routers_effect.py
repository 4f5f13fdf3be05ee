"""Lines whose effect may be large: `run`, `diff` and `lint` warn of them."""

from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import Outcome
from perhop.routers.lint import lint
from perhop.routers.reading import Source, caution, decisive
from perhop.routers.reading.detect import read

IOS = """\
version 15.4
class-map match-any VOICE
 match dscp ef
class-map match-any APP
 match dscp af31
{class_line}
policy-map WAN
 class VOICE
  priority percent 10
 class APP
  bandwidth percent 40
  {action}
interface Serial0/1
 bandwidth 1544
 service-policy output WAN
{more}
"""


def ios(class_line: str = "", action: str = "", more: str = "") -> str:
    return IOS.format(class_line=class_line, action=action, more=more)


TC = """\
tc qdisc add dev eth0 root handle 1: htb default 20
tc class add dev eth0 parent 1: classid 1:1 htb rate 10mbit
tc class add dev eth0 parent 1:1 classid 1:10 htb rate 4mbit ceil 10mbit
tc class add dev eth0 parent 1:1 classid 1:20 htb rate 6mbit ceil 10mbit
{}
tc filter add dev eth0 parent 1: protocol ip prio 2 u32 match ip dport 80 0xffff flowid 1:10
"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (ios(class_line=" match protocol citrix"), "match protocol citrix"),
        (ios(action="police rate 1000 pps"), "police rate 1000 pps"),
        # perhop reads it, but no document that was compared has it.
        (ios(action="police aggregate-rate 100000"), "police aggregate-rate"),
        (ios(more="mls qos\ninterface Gi0/2\n srr-queue bandwidth share 10 10 60 20"), "mls qos"),
        (TC.format("tc filter add dev eth0 parent 1: prio 1 u32 match $X flowid 1:10"), "$X"),
        (
            TC.format(
                "tc filter add dev eth0 parent 1: protocol ip prio 1 "
                "basic match 'meta(loadavg_0 gt 5)' classid 1:10"
            ),
            "loadavg_0",
        ),
    ],
)
def test_lines_about_packets_and_shares_are_decisive(text: str, said: str) -> None:
    configuration = read([Source("r.cfg", text)])
    lines = list(decisive(configuration))
    assert any(said in line.text for line in lines)
    assert "can change what a class gets by more than 5%" in str(caution(configuration))
    found = [each for each in lint([Source("r.cfg", text)]) if each.rule.name == "unread-line"]
    assert {each.place for each in found} <= {line.place for line in lines}
    assert any(said in each.message for each in found)


@pytest.mark.parametrize(
    "text",
    [
        ios(),
        TC.format(""),
        # Nothing uses these lines, or they change no share.
        ios(more="policy-map OLD\n class APP\n  bandwidth percent 90"),
        ios(action="set cos 3"),
        ios(action="random-detect dscp-based"),
        ios(more="ip nbar protocol-discovery"),
        # No document says what these do, but they change no share.
        ios(action="set ip precedence 3"),
        ios(action="random-detect ecn"),
        ios(action="police 100000 conform-action set-prec-transmit 3 exceed-action drop"),
        ios(
            class_line=" match access-group name L\n"
            "ip access-list extended L\n permit udp any any log-input"
        ),
    ],
)
def test_other_lines_are_not(text: str) -> None:
    configuration = read([Source("r.cfg", text)])
    assert list(decisive(configuration)) == []
    assert caution(configuration) is None
    assert all(each.rule.name != "unread-line" for each in lint([Source("r.cfg", text)]))


def test_run_warns_once_above_the_tables(perhop: Callable[..., Outcome], tmp_path: Path) -> None:
    (tmp_path / "r.cfg").write_text(ios(class_line=" match protocol citrix"))
    (tmp_path / "s.cfg").write_text(ios())
    found = perhop("run", str(tmp_path / "r.cfg"))
    assert found.code == 0
    assert found.out.count("by more than 5%") == 1
    assert found.out.index("by more than 5%") < found.out.index("Throughput by phase")
    assert f"{tmp_path}/r.cfg:6: `match protocol citrix`" in found.out
    assert "by more than 5%" not in perhop("run", str(tmp_path / "s.cfg")).out
    changed = perhop("diff", str(tmp_path / "s.cfg"), str(tmp_path / "r.cfg"))
    assert "warning: r.cfg: a line that is not modelled" in changed.out
    assert "warning: s.cfg" not in changed.out
