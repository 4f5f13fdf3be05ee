"""Policies set over SSH on Linux, in a namespace behind OpenSSH's server."""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from conftest import REAL_HOSTS, SLOW, Outcome
from exporting import classes, network, scenario
from perhop.errors import UsageError
from perhop.routers.pushing import PushError, push
from perhop.routers.pushing.linux import FOLDER
from perhop.routers.writing import write
from routers_under_test import REST, WEB, Machine, machine
from tools import need

pytest.importorskip("paramiko")

pytestmark = [SLOW, REAL_HOSTS]

VOICE = (
    "voice: match: {dscp: ef}, priority: strict, police: {rate: 1 Mbps, burst: 200 kB}, "
    "queue: {limit: 20 ms}"
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    need("sshd", "ssh-keygen", "unshare", "nsenter", "ip", "tc", "nft", "ethtool", "mount")
    with machine(tmp_path_factory.mktemp("machine")) as served:
        yield served


CLEAN = f"""
for each in eth1 eth2; do tc qdisc del dev $each root 2> /dev/null || true; done
nft flush ruleset
ip link set dev eth1 gso_max_segs 65535
ethtool -K eth1 gro on
rm -rf {FOLDER}
"""

STATE = """
for what in qdisc class filter; do tc -d $what show dev eth1; done | sed 's/refcnt [0-9]*//'
nft list ruleset
ip -d link show dev eth1 | grep -o 'gso_max_segs [0-9]*'
ethtool -k eth1 | grep generic-receive
"""


@pytest.fixture
def r1(server: Machine) -> Machine:
    server.run(CLEAN)
    return server


def text(*lines: str, interface: str = "eth1") -> str:
    found, gaps = write(
        scenario(*lines), "tc", links=["r>s"], interfaces={"r>s": interface}, police="nft"
    )
    assert gaps == ()
    return found


def put(served: Machine, wanted: str, **settings: object) -> str:
    given = replace(served.settings, **settings)  # type: ignore[arg-type]
    return push(served.target, "tc", wanted, given, bool).state


def test_a_policy_is_set_read_back_and_changed(
    r1: Machine, perhop: Callable[..., Outcome], place: Path
) -> None:
    first = text(VOICE, WEB, REST)
    assert put(r1, first, dry=True) == "dry run"
    assert "htb" not in r1.run(STATE)
    (place / "edge.yaml").write_text(network(classes(VOICE, WEB, REST)))
    code, out, err = perhop(
        *("export", "edge.yaml", "--to", "tc", "--police", "nft", "--push", str(r1.target)),
        *("--interface", "r>s=eth1", "--yes"),
        *("--key", str(r1.settings.key), "--known-hosts", str(r1.settings.known_hosts)),
    )
    assert (code, err.endswith("the router has the policy: read back and confirmed\n")) == (0, True)
    assert "+qdisc add dev eth1 root handle 1: " in out
    assert "class htb 1:12" in r1.run(STATE)
    assert put(r1, first) == "unchanged"
    # What has been taken away meanwhile is set again, and another policy replaces it.
    r1.run("tc qdisc del dev eth1 root")
    outcome = push(r1.target, "tc", text(VOICE, REST), r1.settings, bool)
    assert outcome.state == "set"
    gone = [line for line in outcome.changes if line.startswith("-class add dev eth1 ")]
    assert any("classid 1:12" in line for line in gone)
    assert "class htb 1:11" in r1.run(STATE)
    assert "class htb 1:12" not in r1.run(STATE)
    assert r1.run(f"ls {FOLDER}").split() == ["before-eth1", "devices", "lock", "pushed", "said"]
    # An interface that a later push does not cover is as it was before the first.
    assert put(r1, text(VOICE, REST, interface="eth2")) == "set"
    assert "htb" not in r1.run(STATE)
    assert "gso_max_segs 65535" in r1.run(STATE)


def test_what_fails_restores_what_was_there(r1: Machine) -> None:
    before = r1.run(STATE)
    good = text(VOICE, REST)
    said = r"refuses the policy: .*the machine has its previous queues"
    with pytest.raises(PushError, match=said):
        put(
            r1,
            good.replace(
                "END\n\nnft", "class add dev eth1 parent 9: classid 9:1 htb rate 1\nEND\n\nnft"
            ),
        )
    assert r1.run(STATE) == before
    assert put(r1, good) == "set"
    pushed = r1.run(STATE)
    with pytest.raises(PushError, match=said):
        put(
            r1,
            text(VOICE, WEB, REST).replace("add table inet perhop\n", "add table nosuch perhop\n"),
        )
    assert r1.run(STATE) == pushed


def test_what_reads_back_otherwise_is_undone(r1: Machine) -> None:
    before = r1.run(STATE)
    # A command that the reader does not follow changes what the others have set.
    change = "tc class change dev eth1 classid 1:11 htb rate 1mbit ceil 5mbit"
    with pytest.raises(PushError, match=r"reads back another policy: at eth1, .*; the machine has"):
        put(r1, text(VOICE, REST) + f"sh -c '{change}'\n")
    assert r1.run(STATE) == before


def test_a_connection_that_breaks_restores_what_was_there(
    r1: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = r1.run(STATE)

    def breaks(_: str, state: str) -> str:
        if "htb" in state:
            raise ConnectionError
        return "nothing is there"

    monkeypatch.setattr("perhop.routers.pushing.linux._differences", breaks)
    with pytest.raises(ConnectionError):
        put(r1, text(VOICE, REST))
    deadline = time.monotonic() + 10
    while r1.run(STATE) != before:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_push_that_is_not_confirmed_in_time_is_undone(
    r1: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = r1.run(STATE)

    def late(_: str, state: str) -> str:
        time.sleep(1.3 if "htb" in state else 0)
        return ""

    monkeypatch.setattr("perhop.routers.pushing.linux._differences", late)
    with pytest.raises(PushError, match="not confirmed in time; the machine has its previous"):
        put(r1, text(VOICE, REST), confirm=1)
    assert r1.run(STATE) == before


def test_queues_of_others_stay(r1: Machine) -> None:
    r1.run("tc qdisc add dev eth1 root handle 7: pfifo limit 9")
    before = r1.run(STATE)
    with pytest.raises(PushError, match="eth1 has a queueing discipline that no push made: qdisc"):
        put(r1, text(VOICE, REST))
    assert r1.run(STATE) == before
    r1.run(CLEAN + "nft add table inet perhop")
    with pytest.raises(PushError, match="nft has a table inet perhop that no push made"):
        put(r1, text(VOICE, REST))
    with pytest.raises(PushError, match="there is no interface eth9; nothing was changed"):
        put(r1, text(VOICE, REST, interface="eth9"))
    assert r1.run(f"ls {FOLDER}") == "lock\n"


def test_two_pushes_at_once(r1: Machine) -> None:
    r1.run(f"mkdir -p {FOLDER}; flock {FOLDER}/lock sleep 3 > /dev/null 2>&1 &")
    time.sleep(0.2)
    with pytest.raises(PushError, match="another push to this machine is under way"):
        put(r1, text(VOICE, REST))


def test_routes_are_not_set(r1: Machine) -> None:
    with pytest.raises(UsageError, match="not routes: ip route replace default"):
        put(r1, text(VOICE, REST) + "ip route replace default dev eth1\n")
