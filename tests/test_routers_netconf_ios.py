"""Policies set over NETCONF on netconfd of Debian, which has the part of IOS-XE that is written."""

from collections.abc import Callable, Iterator
from pathlib import Path
from xml.etree.ElementTree import Element

import pytest

from conftest import SLOW, Outcome
from exporting import classes, network, scenario
from perhop import parse
from perhop.routers.pushing import PushError, push
from perhop.routers.pushing.iosxe import IosXe, statements
from perhop.routers.writing import write
from test_routers_push_ios import KINDS, VERSIONS, WRED
from tools import need

pytest.importorskip("ncclient")

from perhop.routers.pushing.netconf import Router
from perhop.routers.pushing.transaction import transact
from routers_under_test import IOS_XE, REST, WEB, Served, approved, router, session

pytestmark = SLOW

NATIVE = "http://cisco.com/ns/yang/Cisco-IOS-XE-native"
POLICY = "http://cisco.com/ns/yang/Cisco-IOS-XE-policy"
VOICE = "voice: match: {dscp: ef}, priority: strict, police: {rate: 1 Mbps, burst: 15 kB}"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    need("netconfd", "sshd", "ssh-keygen")
    with router(tmp_path_factory.mktemp("router"), IOS_XE) as served:
        yield served


@pytest.fixture(scope="module")
def other(server: Served) -> Iterator[Router]:
    """Another session with the router."""
    with session(server) as there:
        yield there


def configure(other: Router, ports: str, more: str = "") -> None:
    """Replace the whole configuration."""
    other.edit(
        f'<native xmlns="{NATIVE}" xmlns:nc="urn:ietf:params:xml:ns:netconf:base:1.0" '
        f'nc:operation="replace"><hostname>r1</hostname>{more}<interface>{ports}</interface></native>'
    )
    other.commit(60)
    other.confirm()


def port(name: str, inside: str = "") -> str:
    return f"<GigabitEthernet><name>{name}</name>{inside}</GigabitEthernet>"


def running(other: Router) -> list[str]:
    """The whole configuration, as commands."""
    found = other.configuration("running", f'<native xmlns="{NATIVE}"/>')
    assert found is not None
    assert found.findtext("hostname") == "r1"
    return statements(found)


@pytest.fixture(scope="module")
def mine(server: Served) -> Iterator[Router]:
    """A session for pushes, of which most tests need none of their own."""
    with session(server) as there:
        yield there


@pytest.fixture
def r1(mine: Router, other: Router) -> Router:
    """The router, with nothing but a name and an interface."""
    configure(other, port("0/0/1"))
    return mine


def text(*classes: str, **settings: str) -> str:
    found, gaps = write(
        scenario(*classes, **settings),
        "ios",
        links=["r>s"],
        interfaces={"r>s": "GigabitEthernet0/0/1"},
        approximate=True,
    )
    assert gaps == ()
    return found


def put(there: Router, wanted: str, **settings: bool) -> tuple[str, tuple[str, ...]]:
    outcome = transact(there, IosXe(wanted), seconds=60, approve=approved, **settings)
    return outcome.state, outcome.changes


def test_a_policy_is_set_read_back_and_changed(r1: Router, other: Router) -> None:
    first = text(VOICE, WEB, REST)
    state, changes = put(r1, first)
    assert state == "set"
    assert list(changes) == [
        "-interface GigabitEthernet0/0/1",
        *(f"+{line}" for line in statements(IosXe(first)._wanted)),
    ]
    assert running(other) == statements(IosXe(first)._wanted)
    assert put(r1, first) == ("unchanged", ())
    # Another policy of the same name replaces it; what nothing refers to any more stays.
    state, changes = put(r1, text(VOICE, REST, link=", shape: {r: {rate: 8 Mbps, burst: 10 kB}}"))
    assert state == "set"
    assert changes == (
        "-policy-map p class web bandwidth percent 50",
        "-policy-map p class web set dscp af21",
        "-policy-map p class web queue-limit 100 ms",
        "-interface GigabitEthernet0/0/1 service-policy output p",
        "+policy-map p-shape class class-default shape average 8000000 80000 0",
        "+policy-map p-shape class class-default service-policy p",
        "+interface GigabitEthernet0/0/1 service-policy output p-shape",
    )
    assert "class-map match-any web match access-group name web" in running(other)


def test_all_that_is_written_is_a_configuration(r1: Router) -> None:
    for found in (
        KINDS["exceptions"],
        scenario(*VERSIONS, "rest: match: any"),
        scenario(*WRED, "rest: match: any, police: {rate: 1 Mbps, burst: 8 kB, peak_rate: 20%, "
        "peak_burst: 9 kB, exceed: {remark: af12}}, mark: 44"),
        KINDS["levels"],
        KINDS["shares"],
    ):  # fmt: skip
        wanted, gaps = write(
            found,
            "ios",
            links=["r>s"],
            interfaces={"r>s": "GigabitEthernet0/0/1"},
            approximate=True,
        )
        assert gaps == ()
        assert put(r1, wanted)[0] == "set", wanted


def test_an_order_of_classes_is_a_policy(r1: Router, other: Router) -> None:
    one, two = (f"{name}: match: {{source: {name}}}, bandwidth: 10%" for name in "ab")
    assert put(r1, text(one, two, REST))[0] == "set"
    state, changes = put(r1, text(two, one, REST))
    assert state == "set"
    assert changes == tuple(
        f"{sign}policy-map p class b {command}"
        for sign in "+-"
        for command in ("bandwidth percent 10", "queue-limit 64")
    )
    assert [line for line in running(other) if "bandwidth percent 10" in line] == [
        "policy-map p class b bandwidth percent 10",
        "policy-map p class a bandwidth percent 10",
    ]


def test_other_commands_of_the_router_stay(r1: Router, other: Router) -> None:
    configure(
        other,
        port(
            "0/0/1",
            f'<description>to s</description><service-policy xmlns="{POLICY}"><input>mine</input>'
            "<output>mine</output></service-policy>",
        )
        + port("0/0/2", f'<service-policy xmlns="{POLICY}"><output>mine</output></service-policy>'),
        f'<policy><policy-map xmlns="{POLICY}"><name>mine</name><class><name>class-default</name>'
        "<action-list><action-type>drop</action-type></action-list></class></policy-map></policy>",
    )
    before = running(other)
    state, changes = put(r1, text(VOICE, REST))
    gone = [change[1:] for change in changes if change.startswith("-")]
    assert (state, gone) == ("set", ["interface GigabitEthernet0/0/1 service-policy output mine"])
    assert [line for line in before if line not in running(other)] == gone
    assert "policy-map mine class class-default action-list action-type drop" in before
    # A policy without queues takes the output policy away.
    marking = network(classes(REST), link=", remark: {r: [{match: any, dscp: af11}]}")
    found, _ = write(
        parse(marking.replace("egress: {r: p}", "egress: {s: p}")),
        "ios",
        links=["r>s"],
        interfaces={"r>s": "GigabitEthernet0/0/1"},
    )
    assert put(r1, found)[0] == "set"
    assert "interface GigabitEthernet0/0/1 service-policy output p" not in running(other)


def test_a_rehearsal_changes_nothing(r1: Router, other: Router) -> None:
    assert put(r1, text(VOICE, REST), dry=True)[0] == "dry run"
    assert running(other) == ["interface GigabitEthernet0/0/1"]


def test_a_policy_that_the_router_refuses_changes_nothing(r1: Router, other: Router) -> None:
    police = "police: {rate: 1 Mbps, burst: 8 kB, peak_rate: 20%, peak_burst: 9 kB"
    refused = f"a: match: {{dscp: 1}}, {police}, exceed: {{remark: af12}}, violate: send}}"
    with pytest.raises(PushError, match="exceed-action should be transmit when violate-action"):
        put(r1, text(refused, REST))
    assert running(other) == ["interface GigabitEthernet0/0/1"]
    assert put(r1, text(VOICE, REST))[0] == "set"


def test_an_interface_that_the_router_lacks_is_not_created(r1: Router, other: Router) -> None:
    with pytest.raises(PushError, match="the router has no interface GigabitEthernet0/0/1"):
        configure(other, port("0/0/2"))
        put(r1, text(VOICE, REST))
    assert running(other) == ["interface GigabitEthernet0/0/2"]


class Otherwise(IosXe):
    """A policy that the router has otherwise once it is committed: with another burst."""

    asked = 0

    def differences(self, configuration: Element | None) -> list[str]:
        self.asked += 1
        assert configuration is not None
        if self.asked > 1:
            [burst] = configuration.iter("bc")
            burst.text = "1500"
        return super().differences(configuration)


def test_what_reads_back_otherwise_is_undone(r1: Router, other: Router) -> None:
    put(r1, text(WEB, REST))
    before = running(other)
    said = (
        "reads back another policy: lacks: policy-map p class voice police cir 1000000 bc 15000 "
        ".*; also has: policy-map p class voice police cir 1000000 bc 1500 .*; the router has its "
        "previous configuration"
    )
    with pytest.raises(PushError, match=said):
        transact(r1, Otherwise(text(VOICE, REST)), seconds=60, approve=approved)
    assert running(other) == before


def test_a_router_without_a_candidate_configuration_is_refused(tmp_path: Path) -> None:
    need("netconfd", "sshd", "ssh-keygen")
    said = "has no candidate capability, .* configure `netconf-yang feature candidate-datastore`"
    with router(tmp_path, IOS_XE, "running") as served, pytest.raises(PushError, match=said):
        push(served.target, "ios", text(VOICE, REST), served.settings, approved)


@pytest.mark.usefixtures("r1")
def test_the_command_sets_a_policy(
    server: Served, other: Router, perhop: Callable[..., Outcome], place: Path
) -> None:
    (place / "edge.yaml").write_text(network(classes(VOICE, REST)))
    command = (
        *("export", "edge.yaml", "--to", "ios", "--push", str(server.target), "--approximate"),
        *("--interface", "r>s=GigabitEthernet0/0/1", "--key", str(server.settings.key)),
        *("--known-hosts", str(server.settings.known_hosts), "--yes"),
    )
    code, out, err = perhop(*command)
    assert code == 0, err
    assert "+policy-map p class voice priority\n" in out
    assert err.endswith(
        "the router has the policy: read back and confirmed, in its running configuration; "
        "`write memory` on the router keeps it over a restart\n"
    )
    assert len(running(other)) > 5
