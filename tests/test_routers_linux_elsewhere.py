"""Commands of scripts that never run, or that other files, programs and machines have."""

import pytest

from perhop.routers.reading import Configuration, decisive
from perhop.routers.reading.configuration import Source, Treatment
from perhop.routers.reading.linux import read

HTB = """\
tc qdisc add dev eth0 root handle 1: htb default 20
tc class add dev eth0 parent 1: classid 1:1 htb rate 10mbit
tc class add dev eth0 parent 1:1 classid 1:10 htb rate 5mbit ceil 10mbit
tc class add dev eth0 parent 1:1 classid 1:20 htb rate 5mbit ceil 10mbit
tc filter add dev eth0 parent 1: protocol ip u32 match ip dport 53 0xffff flowid 1:10
"""
CHANGE = "tc class change dev eth0 parent 1:1 classid 1:10 htb rate 1mbit ceil 1mbit\n"


def reading(text: str) -> Configuration:
    return read([Source("wan.sh", text)])


def rate(found: Configuration) -> str:
    given: str = found.attachments[0].policy["classes"]["c10"]["bandwidth"]
    return given


def changed(text: str) -> bool:
    whole = rate(reading(HTB))
    return rate(reading(HTB + text)) != whole


@pytest.mark.parametrize(
    "around",
    [
        f"exit 0\n{CHANGE}",
        f"true; exit\n{CHANGE}",
        f"setup() {{\n return 0\n {CHANGE}}}\nsetup\n",
        f"leave() {{\n exit 1\n}}\nleave\n{CHANGE}",
        f"exit 0\nsetup() {{\n {CHANGE}}}\nsetup\n",
        f"function setup {{\n {{ true; }}\n return\n {CHANGE}}}\nsetup\n",
    ],
)
def test_what_stands_after_exit_never_runs(around: str) -> None:
    found = reading(HTB + around)
    assert not changed(around)
    (line,) = [each for each in found.lines if each.treatment is Treatment.NOT_MODELLED]
    assert "never runs" in line.note
    assert [*decisive(found)] == [line]
    assert found.refusals == ()


@pytest.mark.parametrize(
    "around",
    [
        f'[ -z "$1" ] && exit 1\n{CHANGE}',
        f"true || exit 1\n{CHANGE}",
        f"true ||\nexit 1\n{CHANGE}",
        f"true || {{ echo no; exit 1; }}\n{CHANGE}",
        f"[ $# -gt 0 ] && {{\n echo no\n exit 1\n}}\n{CHANGE}",
        f"if [ -z $1 ]; then exit 1; fi\n{CHANGE}",
        f"if [ -z $1 ]\nthen\n usage\n exit 1\nfi\n{CHANGE}",
        f"case $1 in\nstop) exit 0;;\nesac\n{CHANGE}",
        f"for i in 1 2; do [ $i = 3 ]; exit; done\n{CHANGE}",
        f"(cd /tmp; exit 1)\n{CHANGE}",
        f"usage() {{\n echo no\n exit 1\n}}\n[ $# -gt 0 ] || usage\n{CHANGE}",
        f"setup() {{\n [ $1 ] || return\n {CHANGE}}}\nsetup\n",
        f"check() {{\n return 0\n}}\ncheck\n{CHANGE}",
        f"helper() {{\n exit 1\n}}\n{CHANGE}",
    ],
)
def test_what_a_condition_may_skip_does_not_end_the_script(around: str) -> None:
    assert changed(around)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (f"ssh router2 {CHANGE}", "another machine"),
        (f"docker exec c {CHANGE}", "another machine"),
        (". ./lib.sh", "give their file"),
        ("source ./more.sh", "give their file"),
        ("sh ./more.sh", "give their file"),
        ("nft -f /etc/nftables.conf", "give their file"),
        ("nft -f - < /etc/nftables.conf", "give their file"),
        ("tc -b /etc/wan.tc", "give their file"),
        ("tc -batch < /etc/wan.tc", "give their file"),
        ("iptables-restore -n /etc/rules", "give their file"),
        ("cat /etc/rules | iptables-restore", "another command"),
        (f"sh -c '{CHANGE.strip()}'", "does not read"),
        (f"sudo bash -ec '{CHANGE.strip()}'", "does not read"),
        (f'eval "{CHANGE.strip()}"', "does not read"),
        (f'echo "{CHANGE.strip()}" | sh', "does not read"),
        (f'echo "{CHANGE[3:].strip()}" | tc -batch -', "another command"),
        (f"cat <<X | tc -b -\n{CHANGE[3:]}X", "another command"),
        ("xargs -L1 tc < commands", "does not read"),
    ],
)
def test_commands_that_are_not_read_are_told(line: str, said: str) -> None:
    found = reading(f"{HTB}{line}\n")
    assert not changed(f"{line}\n")
    assert [said in each.note for each in decisive(found)] == [True]


@pytest.mark.parametrize(
    "line",
    [
        ". /lib/lsb/init-functions",
        "[ -r /etc/default/qos ] && . /etc/default/qos",
        ". /tmp/wan.sh",
        "sh -c 'echo done'",
        'eval "$(getopt -o h -- x)"',
        "xargs rm",
        "ssh router2 uptime",
        f"tc -b - <<X\n{CHANGE[3:]}X",
        "tc -b wan.tc",
        "nft -f /etc/wan.tc",
        "ip6tables-restore < wan.tc",
    ],
)
def test_commands_about_other_things_are_not(line: str) -> None:
    given = [Source("wan.sh", f"{HTB}{line}\n"), Source("wan.tc", "# empty\n")]
    assert [*decisive(read(given))] == []
