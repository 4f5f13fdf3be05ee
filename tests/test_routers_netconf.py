"""Policies set over NETCONF on netconfd of Debian, which has the part of Junos that is written."""

import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from xml.etree.ElementTree import Element

import pytest

from conftest import SLOW, Outcome
from exporting import classes, network, scenario
from perhop.routers.pushing import PushError, Settings, Target, push
from perhop.routers.pushing.junos import Junos
from perhop.routers.writing import write
from test_routers_push import POLICIES
from tools import need

pytest.importorskip("ncclient")

from perhop.routers.pushing.netconf import Router
from perhop.routers.pushing.transaction import transact
from routers_under_test import (
    REST,
    WEB,
    Served,
    approved,
    free_port,
    keys,
    known,
    router,
    session,
    sshd,
    user,
)

pytestmark = SLOW

VOICE = (
    "voice: match: {dscp: ef}, priority: strict, police: {rate: 1 Mbps, burst: 15 kB}, "
    "queue: {limit: 20 ms}"
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    need("netconfd", "sshd", "ssh-keygen")
    with router(tmp_path_factory.mktemp("router")) as served:
        yield served


@pytest.fixture(scope="module")
def other(server: Served) -> Iterator[Router]:
    """Another session with the router."""
    with session(server) as there:
        yield there


def configure(other: Router, inside: str) -> None:
    """Replace the whole configuration."""
    other.edit(
        '<configuration xmlns="http://xml.juniper.net/xnm/1.1/xnm" xmlns:nc="urn:ietf:params:'
        f'xml:ns:netconf:base:1.0" nc:operation="replace">{inside}</configuration>'
    )
    other.commit(60)
    other.confirm()


def running(other: Router) -> tuple[str, ...]:
    """The whole configuration, as `set` commands."""
    everything = '<configuration xmlns="http://xml.juniper.net/xnm/1.1/xnm"/>'
    return Junos("").lines(other.configuration("running", everything))


HOST_NAME = "<system><host-name>r1</host-name></system>"


@pytest.fixture
def r1(server: Served, other: Router) -> Served:
    """The router, with nothing but a name."""
    configure(other, HOST_NAME)
    return server


def text(*classes: str, **settings: str) -> str:
    found, gaps = write(
        scenario(*classes, **settings),
        "junos",
        links=["r>s"],
        interfaces={"r>s": "ge-0/0/1"},
        approximate=True,
    )
    assert gaps == ()
    return found


def put(served: Served, wanted: str, **settings: object) -> str:
    given = replace(served.settings, **settings)  # type: ignore[arg-type]
    return push(served.target, "junos", wanted, given, approved).state


def test_a_policy_is_set_read_back_and_changed(r1: Served, other: Router) -> None:
    shown: list[str] = []
    first = text(VOICE, WEB, REST)
    outcome = push(
        r1.target, "junos", first, r1.settings, lambda changes: not shown.extend(changes)
    )
    assert outcome.state == "set"
    assert outcome.changes == tuple(shown)
    assert {f"+{line}" for line in Junos(first).lines(Junos(first)._wanted)} == set(shown)
    there = other.configuration("running", Junos(first).filter)
    assert Junos(first).differences(there) == []
    assert put(r1, first) == "unchanged"
    # Another policy of the same name replaces it; what nothing refers to any more stays.
    second = text(VOICE, REST, link=", shape: {r: {rate: 8 Mbps, burst: 10 kB}}")
    outcome = push(r1.target, "junos", second, r1.settings, approved)
    assert outcome.state == "set"
    gone = {change for change in outcome.changes if change.startswith("-")}
    assert "-class-of-service scheduler-maps p forwarding-class web scheduler p-web" in gone
    assert "-class-of-service interfaces ge-0/0/1 scheduler-map p" in gone
    assert "-class-of-service interfaces ge-0/0/1 unit 0 rewrite-rules dscp p" in gone
    assert "-firewall family inet filter p term web then accept" in gone
    assert "system host-name r1" in running(other)


def test_all_that_is_written_is_a_configuration(r1: Served) -> None:
    for name in ("exceptions", "two rates", "shares"):
        found, _ = write(POLICIES[name], "junos", links=["r>s"], approximate=True)
        assert put(r1, found) == "set", name


TAGGED = "tagged: match: {pcp: [4, 5]}, mark: {dscp: ef, pcp: 5, mpls_tc: 5}, bandwidth: 20%"


def test_ipv6_and_classes_at_layer_2_are_set_and_replaced(r1: Served, other: Router) -> None:
    both = text(TAGGED, REST, rest="ip: 6")
    assert put(r1, both) == "set"
    unit = "class-of-service interfaces ge-0/0/1 unit 0 rewrite-rules"
    kinds = ("dscp", "dscp-ipv6", "ieee-802.1", "exp")
    there = set(running(other))
    assert {f"{unit} {kind} p" for kind in kinds} <= there
    assert "class-of-service interfaces ge-0/0/0 unit 0 classifiers ieee-802.1 p" in there
    assert "interfaces ge-0/0/1 unit 0 family inet6 filter output p" in there
    # Entries of the name are replaced, and nothing else applies to the interface afterwards.
    found = push(r1.target, "junos", text(REST), r1.settings, approved)
    gone = {change for change in found.changes if change.startswith("-")}
    assert {f"-{unit} {kind} p" for kind in kinds} <= gone
    assert "-interfaces ge-0/0/1 unit 0 family inet6 filter output p" in gone
    assert put(r1, both) == "set"
    points = text(TAGGED.replace("ef", "cs1").replace("[4, 5]", "4"), REST, rest="ip: 6")
    found = push(r1.target, "junos", points, r1.settings, approved)
    code = "forwarding-class tagged loss-priority low code-point"
    for kind in ("dscp", "dscp-ipv6"):
        assert f"-class-of-service rewrite-rules {kind} p {code} 101110" in found.changes


def test_other_statements_of_the_router_stay(r1: Served, other: Router) -> None:
    configure(
        other,
        HOST_NAME
        + "<interfaces><interface><name>ge-0/0/1</name><description>to s</description><unit><name>0"
        "</name><family><inet><filter><input><filter-name>guard</filter-name></input><output>"
        "<filter-name>old</filter-name></output></filter></inet></family></unit></interface>"
        "<interface><name>ge-0/0/2</name><unit><name>0</name><bandwidth>1</bandwidth></unit>"
        "</interface></interfaces><class-of-service><schedulers><name>mine</name><priority>low"
        "</priority></schedulers><interfaces><interface><name>ge-0/0/1</name>"
        "<output-traffic-control-profile><profile-name>old</profile-name>"
        "</output-traffic-control-profile></interface></interfaces></class-of-service>",
    )
    before = running(other)
    outcome = push(r1.target, "junos", text(VOICE, REST), r1.settings, approved)
    gone = [change[1:] for change in outcome.changes if change.startswith("-")]
    assert gone == [
        "interfaces ge-0/0/1 unit 0 family inet filter output old",
        "class-of-service interfaces ge-0/0/1 output-traffic-control-profile old",
    ]
    assert [line for line in before if line not in running(other)] == gone


def test_a_rehearsal_changes_nothing(r1: Served, other: Router) -> None:
    assert put(r1, text(VOICE, REST), dry=True) == "dry run"
    outcome = push(r1.target, "junos", text(VOICE, REST), r1.settings, lambda changes: not changes)
    assert outcome.state == "not approved"
    assert running(other) == ("system host-name r1",)


@pytest.mark.parametrize(
    ("classes", "said"),
    [
        (4, r"max-elements exceeded \(operation-failed\) at /junos:configuration/.*'b3'"),
        (2, r"unique-stmt test failed \(operation-failed\)"),  # an error for each of two entries
    ],
)
def test_a_policy_that_the_router_refuses_changes_nothing(
    classes: int, said: str, r1: Served, other: Router
) -> None:
    # The forwarding classes of another policy stay, as on a router that uses them elsewhere: the
    # server finds too many, or several of one queue.
    def policy(prefix: str) -> str:
        return text(*(f"{prefix}{n}: match: {{dscp: {n}}}" for n in range(classes)), REST)

    assert put(r1, policy("a")) == "set"
    before = running(other)
    with pytest.raises(PushError, match=f"refuses the policy: {said}"):
        put(r1, policy("b"))
    assert running(other) == before
    assert put(r1, policy("a")) == "unchanged"


def test_a_lock_of_another_session_is_named(r1: Served, other: Router) -> None:
    other.lock()
    with pytest.raises(PushError, match=r"does not lock .*lock-denied\); another session"):
        put(r1, text(VOICE, REST))
    other.unlock()
    assert put(r1, text(VOICE, REST)) == "set"


class Otherwise(Junos):
    """A policy of which the router reads back something else once it is committed."""

    asked = 0
    then: Callable[[], object] = staticmethod(lambda: None)

    def differences(self, configuration: Element | None) -> list[str]:
        self.asked += 1
        if self.asked == 1:
            return super().differences(configuration)
        self.then()
        return ["lacks: a statement"]


def test_what_reads_back_otherwise_is_undone(r1: Served, other: Router) -> None:
    put(r1, text(VOICE, WEB, REST))
    before = running(other)
    said = r"reads back another policy: lacks: a statement; the router has its previous config"
    with session(r1) as there, pytest.raises(PushError, match=said):
        transact(there, Otherwise(text(VOICE, REST)), seconds=60, approve=approved)
    assert running(other) == before


def test_a_router_that_is_out_of_reach_undoes_the_change(r1: Served, other: Router) -> None:
    policy = Otherwise(text(VOICE, REST))
    there = session(r1)
    policy.then = there.drop  # type: ignore[assignment]
    with pytest.raises(PushError, match="restores its previous configuration within 60 s"):
        transact(there, policy, seconds=60, approve=approved)
    # The server undoes the commit as soon as it learns of the end of the session.
    deadline = time.monotonic() + 10
    while running(other) != ("system host-name r1",):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_hosts_and_users_must_be_known(r1: Served, other: Router) -> None:
    folder, port = r1.folder, r1.target.port
    nobody = folder / "nobody"
    nobody.write_text("")
    for settings, said in (
        ({"known_hosts": str(nobody)}, r"host key is unknown: ssh-ed25519 SHA256:.*ssh-keyscan -p"),
        (
            {"known_hosts": known(folder, "other", port)},
            "host key is .*, but .* has .*: the router",
        ),
        ({"known_hosts": str(folder / "none")}, "cannot read host keys"),
        ({"key": str(folder / "other")}, f"does not accept the user {user()} with these keys"),
        ({"key": str(folder / "none")}, "cannot connect: No such file"),
    ):
        with pytest.raises(PushError, match=said):
            put(r1, text(VOICE, REST), **settings)
    assert running(other) == ("system host-name r1",)


def test_a_router_that_does_not_answer_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        where = Target("netconf", "admin", "127.0.0.1", silent.getsockname()[1])
        with pytest.raises(PushError, match=r"cannot connect: no answer within 0\.2 s"):
            push(where, "junos", text(REST), Settings(timeout=0.2), approved)


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("yes", "it sends more than 65,536 bytes"),
        ("sleep 5", "Capability exchange timed out"),
        ("false", "no NETCONF session"),
        (
            """printf '<!DOCTYPE a [<!ENTITY b "c">]><hello>&b;</hello>]]>]]>'; sleep 5""",
            "it sends a document type",
        ),
    ],
)
def test_a_router_that_talks_nonsense_is_given_up(
    program: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need("sshd", "ssh-keygen")
    monkeypatch.setattr("perhop.routers.pushing.netconf.MAX_REPLY", 2**16)
    keys(tmp_path)
    (tmp_path / "server").write_text(program)
    port = free_port()
    with sshd(tmp_path, port, f"Subsystem netconf /bin/sh {tmp_path / 'server'}"):
        settings = Settings(
            key=str(tmp_path / "user"),
            known_hosts=known(tmp_path, "host", port),
            timeout=0.5 if "timed out" in said else 20,
        )
        where = Target("netconf", user(), "127.0.0.1", port)
        with pytest.raises(PushError, match=said):
            push(where, "junos", text(REST), settings, approved)


def test_the_command_sets_a_policy(
    r1: Served, other: Router, perhop: Callable[..., Outcome], place: Path
) -> None:
    (place / "edge.yaml").write_text(network(classes(VOICE, REST)))
    settings = r1.settings
    command = (
        *("export", "edge.yaml", "--to", "junos", "--push", str(r1.target)),
        *("--interface", "r>s=ge-0/0/1", "--approximate"),
        *("--key", str(settings.key), "--known-hosts", str(settings.known_hosts)),
    )
    code, out, err = perhop(*command)
    assert (code, "--yes" in err) == (2, True)
    code, out, err = perhop(*command, "--dry-run")
    assert code == 0
    assert "+class-of-service interfaces ge-0/0/1 scheduler-map p\n" in out
    assert err.endswith("the router accepts these changes; nothing was changed\n")
    assert running(other) == ("system host-name r1",)
    code, _, err = perhop(*command, "--yes")
    assert (code, err.endswith("the router has the policy: read back and confirmed\n")) == (0, True)
    assert len(running(other)) > 20
