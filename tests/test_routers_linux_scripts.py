"""Reading what scripts of Linux have around tc: iptables, ethtool, loops and functions."""

from typing import Any

import pytest

from perhop.routers.reading import decisive
from perhop.routers.reading.configuration import Configuration, Source, Treatment
from perhop.routers.reading.detect import detect
from perhop.routers.reading.linux import read

HTB = """\
tc qdisc add dev eth0 root handle 1: htb default 30
tc class add dev eth0 parent 1: classid 1:1 htb rate 10mbit
tc class add dev eth0 parent 1:1 classid 1:10 htb rate 6mbit
tc class add dev eth0 parent 1:1 classid 1:30 htb rate 4mbit
tc filter add dev eth0 parent 1: protocol ip handle 0x10/0xf0 fw flowid 1:10
"""
PREFIX = "iptables -t mangle -A POSTROUTING"


def reading(text: str) -> Configuration:
    return read([Source("wan.sh", text)])


def classes(text: str) -> dict[str, Any]:
    found: dict[str, Any] = reading(text).attachments[0].policy["classes"]
    return found


def notes(text: str) -> dict[int, str]:
    return {line.place.line: line.note for line in reading(text).lines if line.note}


@pytest.mark.parametrize(
    ("rules", "match"),
    [
        (
            f"{PREFIX} -o eth0 -p udp -m multiport --dports 53,5060:5061 -j MARK "
            "--set-mark 0x12/0xf2",
            {"ip": 4, "protocol": "udp", "destination_port": [53, "5060-5061"]},
        ),
        (
            f"iptables -t mangle -N voice\n{PREFIX} -m dscp --dscp-class EF -j voice\n"
            f"{PREFIX} -p tcp -g voice\niptables -t mangle -A voice -j MARK --or-mark 16",
            [{"ip": 4, "protocol": "tcp"}, {"ip": 4, "dscp": "ef"}],
        ),
        (
            f"{PREFIX} -s 10.0.0.0/8 -j CLASSIFY --set-class 1:10",
            {"source": "10.0.0.0/8"},
        ),
    ],
    ids=["a mark with a mask", "chains", "a class"],
)
def test_iptables_leads_packets_to_classes(rules: str, match: Any) -> None:
    text = f"{HTB}{rules}\n"
    assert classes(text)["c10"]["match"] == match
    assert notes(text) == {}


def test_a_later_mark_is_the_one_that_counts() -> None:
    text = (
        f"{HTB}{PREFIX} -j MARK --set-mark 16\n{PREFIX} -p tcp --sport 80 -j MARK --set-mark 2\n"
        f"iptables -t mangle -I POSTROUTING -p udp -j MARK --set-mark 2\n"
    )
    marked, rest = classes(text).items()
    web = {"ip": 4, "protocol": "tcp", "source_port": 80}
    assert (marked[0], marked[1]["match"]) == ("c10", [{"except": web}, {"ip": 4}])
    assert (rest[0], rest[1]["match"]) == ("c30", "any")


DROP_DNS = "iptables -A FORWARD -p udp --dport 53 -j DROP\n"


def test_what_iptables_drops_is_policed_before_the_classes() -> None:
    text = f"{HTB}{PREFIX} -j MARK --set-mark 16\n{DROP_DNS}ip6tables -P FORWARD DROP\n"
    found = reading(text)
    dns = {"ip": 4, "protocol": "udp", "destination_port": 53}
    drops = {"rate": "8 bps", "burst": "1 B", "conform": "drop"}
    policers = found.attachments[0].policy["policers"]
    assert policers == {"dropped": {"match": [dns, {"ip": 6}], "police": drops}}
    assert [line.treatment for line in found.lines[-2:]] == [Treatment.MODELLED] * 2


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ("iptables -A FORWARD -m length --length 0:100 -j DROP", "the match `length`"),
        ("iptables -A FORWARD -s $BAD -j DROP", "the value of $BAD is not in the script"),
        ("iptables -A FORWARD -p udp -j $ACTION", "the value of $ACTION is not in the script"),
        ("iptables -P FORWARD $POLICY", "the value of $POLICY is not in the script"),
        ("for IP in $(cat bad); do\niptables -A FORWARD -s $IP -j DROP\ndone", "in a loop"),
        (
            "iptables -A FORWARD -m state --state NEW -j gone\niptables -A gone -j DROP",
            "`--state` is no condition of a scenario",
        ),
        ("iptables -A OUTPUT -j DROP", "only packets of the machine itself pass `output`"),
        (f"iptables -A FORWARD -m owner -j ACCEPT\n{DROP_DNS}", "what tc.sh:6 lets pass"),
        (f"iptables -A FORWARD -j NFQUEUE\n{DROP_DNS}", "what tc.sh:6 lets pass"),
        ("iptables-restore < /etc/rules", "give their file"),
        (f"{DROP_DNS}if [ $1 = stop ]; then\niptables -F\nfi", "in a branch"),
    ],
)
def test_drops_of_iptables_that_are_not_read_are_told(rules: str, said: str) -> None:
    found = read([Source("tc.sh", f"{HTB}{rules}\n")])
    assert any(said in line.note for line in found.lines)
    if "branch" not in said:
        assert any(said in line.note for line in decisive(found))
        assert "policers" not in found.attachments[0].policy


@pytest.mark.parametrize(
    "rules",
    [
        "iptables -A INPUT -j DROP\niptables -P INPUT DROP",
        "iptables -t nat -A POSTROUTING -j MASQUERADE",
        "iptables -A FORWARD -j LOG --log-prefix x",
        "iptables -P FORWARD DROP\niptables -P FORWARD ACCEPT",
        f"{DROP_DNS}iptables -D FORWARD -p udp --dport 53 -j DROP",
        f"{DROP_DNS}iptables -F",
        "iptables -A FORWARD -m state --state INVALID -m limit --limit 5/s -j DROP",
    ],
)
def test_rules_of_iptables_that_drop_no_packets(rules: str) -> None:
    found = reading(f"{HTB}{rules}\n")
    assert "policers" not in found.attachments[0].policy
    assert len(found.lines) == 5


def test_iptables_sets_code_points() -> None:
    text = f"{HTB}{PREFIX} -j DSCP --set-dscp-class cs1\n"
    assert {each.get("mark") for each in classes(text).values()} == {"cs1"}
    assert "its packets of IPv6 get the code point of those of IPv4" in notes(text).values()
    both = f"{text}ip6{PREFIX.removeprefix('ip')} -j DSCP --set-dscp-class cs1\n"
    assert {each.get("mark") for each in classes(both).values()} == {"cs1"}
    assert 4 not in notes(both)


def test_rules_that_are_not_modelled_say_why() -> None:
    text = (
        f"{HTB}{PREFIX} -p tcp -m length --length 0:100 -j MARK --set-mark 16\n"
        f"{PREFIX} -i eth1 -j MARK --set-mark 16\n"
        f"{PREFIX} -m mark --mark $M -j MARK --set-mark 16\n"
        "iptables -A INPUT -p tcp --dport 22 -j ACCEPT\n"
    )
    said = notes(text)
    assert said[4 - 1] == "no rule that perhop can read sets the mark 0x10/0xf0 that leads here"
    assert "the match `length` is no condition of a scenario" in said[6]
    assert "the interface of arrival" in said[7]
    assert said[8] == "the value of $M is not in the script"
    assert 9 not in {line.place.line for line in reading(text).lines}


def test_rules_without_a_qdisc_are_not_modelled() -> None:
    found = reading(f"{PREFIX} -p tcp -j MARK --set-mark 16\n")
    (line,) = found.lines
    assert line.treatment is Treatment.NOT_MODELLED
    assert "no interface of these files has a policy" in line.note


def test_rates_in_per_cent_are_those_of_the_cards_speed() -> None:
    text = HTB.replace("10mbit", "100%").replace("6mbit", "60%")
    known = f"ethtool -s eth0 speed 10 duplex full\n{text}"
    assert notes(known) == {4: notes(known)[4]}
    assert reading(known).attachments[0].policy["htb"]["rate"] == "10 Mbps"
    assert "`ethtool -s eth0 speed 1000` does" in notes(text)[2]
    assert reading(text).attachments[0].policy["htb"]["rate"] == "1 Gbps"


@pytest.mark.parametrize(
    "around",
    [
        "f() {{\n  for ((i = 0; i < 3; i++)); do\n    x\n  done\n}}\ng() {{\n  {}\n}}\n",
        "f() {{\n  g() {{\n    {}\n  }}\n}}\n",
        'tc() {{\n  echo "$@"\n  command tc "$@"\n}}\n{}\n',
    ],
    ids=["after a loop over numbers", "in another function", "beside a wrapper of tc"],
)
def test_commands_in_and_beside_functions_are_read(around: str) -> None:
    found = reading(around.format("tc qdisc add dev eth0 root pfifo"))
    assert [each.interface for each in found.attachments] == ["eth0"]


def test_loops_over_nothing_are_noted() -> None:
    text = 'HOSTS=""\nfor h in $HOSTS; do\n  tc qdisc add dev eth0 root pfifo\ndone\n'
    assert notes(text) == {3: "it is in a loop over an empty list"}


def test_ranges_go_down() -> None:
    text = "for i in {2..0}; do\n  tc qdisc add dev eth$i root pfifo\ndone\n"
    assert [each.interface for each in reading(text).attachments] == ["eth2", "eth1", "eth0"]


def test_errors_have_the_words_of_tc() -> None:
    text = (
        "tc qdisc add dev eth0 clsact\n"
        "tc filter add dev eth0 ingress protocol ip flower src_ip IPv4 action drop\n"
        "tc filter add dev eth0 ingress protocol ip flower ip_tos 0:1 action drop\n"
        "tc filter add block 22 protocol ip matchall action drop\n"
    )
    assert notes(text) == {
        1: "eth0 has no policy, as tc refuses wan.sh:2",
        2: 'tc refuses it: Error: inet prefix is expected rather than "IPv4".',
        3: 'tc refuses it: Illegal "ip_tos"',
        4: "filters of a shared block are not modelled",
    }


def test_commands_among_outputs_are_noted() -> None:
    text = (
        "# tc qdisc add dev eth0 root handle 1: prio\n"
        "# tc qdisc show dev eth0\nqdisc pfifo 8001: dev eth0 root refcnt 2 limit 9p\n"
    )
    assert notes(text) == {1: "a command among outputs: give it in a script of its own"}


def test_the_only_class_of_hfsc_has_its_upper_limit() -> None:
    text = (
        "tc qdisc add dev eth0 root handle 1: hfsc default 1\n"
        "tc class add dev eth0 parent 1: classid 1:1 hfsc ls m2 10mbit"
    )
    assert reading(f"{text}\n").attachments[0].shape is None
    shape = {"rate": "20 Mbps", "overhead": "14 B"}
    assert reading(f"{text} ul m2 20mbit\n").attachments[0].shape == shape


@pytest.mark.parametrize("tool", ["${tc}", "$_TC", "$TC_CMD", "/usr/sbin/tc"])
def test_tools_in_variables_that_the_script_does_not_set(tool: str) -> None:
    assert reading(f"{tool} qdisc add dev eth0 root pfifo\n").attachments


def test_scripts_of_shells_are_no_configurations_of_routers() -> None:
    text = "#!/bin/bash\n" + 'A="1"\n' * 20 + "tc qdisc add dev eth0 root pfifo\n"
    assert detect([Source("wan.sh", text)]) == "linux"


def test_changes_of_what_is_not_modelled_are_not_modelled() -> None:
    text = (
        "tc qdisc add dev eth0 root handle 1: choke limit 1000 bandwidth 10000\n"
        "tc qdisc change dev eth0 root handle 1: choke limit 500\n"
    )
    assert notes(text)[2] == "it changes wan.sh:1, which is not modelled"


def test_filters_that_perhop_does_not_apply_are_noted() -> None:
    text = (
        "tc qdisc add dev eth0 root handle 1: fq_codel\n"
        "tc filter add dev eth0 parent 1: protocol ip u32 match ip dport 53 0xffff flowid 1:1\n"
        "tc qdisc add dev eth0 clsact\n"
        "tc filter add dev eth0 egress protocol ip prio 1 matchall action drop\n"
        "tc filter add dev eth0 egress protocol ip prio 2 matchall action ok\n"
    )
    assert notes(text) == {2: "perhop models no classes of the qdisc of this filter"}


@pytest.mark.parametrize("word", ["quanta 99999999999999999999", "quanta 1@2", "priomap 1@"])
def test_malformed_lists_are_refused(word: str) -> None:
    text = f"tc qdisc add dev eth0 root ets bands 2 {word}\n"
    assert "tc refuses it: " in notes(text)[1]


def test_the_speed_of_a_card_is_the_rate_of_the_link() -> None:
    tbf = "tc qdisc add dev eth0 root tbf rate 10mbit burst 100k latency 50ms\n"
    text = "ethtool -s eth0 speed 100 duplex full\n" + tbf
    (found,) = read([Source("x", text)]).attachments
    assert (found.rate, str(found.rate_place)) == (10**8, "x:1")
    (unknown,) = read([Source("x", tbf)]).attachments
    assert unknown.rate is None
