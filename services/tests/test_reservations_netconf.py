"""Rules on a router over NETCONF: netconfd of Debian, with the part of Junos that perhop writes."""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from conftest import DEADLINES, SLOW
from perhop.errors import UsageError
from perhop_services.reservations.drivers import (
    Driver,
    DriverError,
    NotCountedError,
    RefusedError,
    Rule,
    Setting,
    driver,
)
from perhop_services.reservations.drivers.netconf import _settings
from perhop_services.reservations.enforcement import Enforcer
from perhop_services.reservations.model import Selector, State
from reserving import Clock, service, terms, user
from routers_under_test import Served, router
from tools import need

pytest.importorskip("ncclient")

pytestmark = [DEADLINES, SLOW]

TO_5011 = Selector("tcp", None, (5011, 5011))

RULE = Rule(
    "perhop_9", "192.0.2.1", "192.0.2.9", Selector(None, (1, 9), (80, 80), 46), 10**7, 10**5
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    need("netconfd", "sshd", "ssh-keygen")
    with router(tmp_path_factory.mktemp("router")) as served:
        yield served


def until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def of(served: Served, filter_name: str) -> Driver:
    where, settings = served.target, served.settings
    return driver(
        f"netconf:host={where.host},port={where.port},user={where.user},key={settings.key},"
        f"known_hosts={settings.known_hosts},filter={filter_name}"
    )


def test_rules_are_set_changed_and_removed(server: Served) -> None:
    r1 = of(server, "perhop")
    assert r1.installed() == {}
    other = replace(RULE, name="perhop_9_back", selector=Selector("icmp"), destination="10.1.0.9")
    for rule in (RULE, other):
        r1.set(rule)
    assert r1.installed() == {each.name: r1.expected(each) for each in (RULE, other)}
    faster = replace(RULE, rate=2 * 10**7, selector=Selector("tcp", None, (5000, 5010)))
    r1.set(faster)
    assert r1.installed() == {each.name: r1.expected(each) for each in (faster, other)}
    r1.remove(RULE.name)
    r1.remove(RULE.name)
    assert r1.installed() == {other.name: r1.expected(other)}
    with pytest.raises(NotCountedError):
        r1.counters()
    # The terms of somebody else's filter stay.
    r1.remove(other.name)
    from test_routers_netconf import session

    with session(server) as there:
        there.edit(
            '<configuration xmlns="http://xml.juniper.net/xnm/1.1/xnm"><firewall><family><inet>'
            "<filter><name>guard</name><term><name>ssh</name><then><accept/></then></term></filter>"
            "</inet></family></firewall></configuration>"
        )
        there.commit(60)
        there.confirm()
    with pytest.raises(RefusedError, match="guard has terms that are no rules of perhop, such as"):
        of(server, "guard").set(RULE)
    with pytest.raises(RefusedError, match="from 8000 bit/s"):
        r1.set(replace(RULE, rate=7999))


def test_half_a_rule_is_no_rule() -> None:
    said = [
        "firewall family inet filter perhop term perhop_8",
        "firewall policer perhop_9 if-exceeding bandwidth-limit ²",
        "firewall policer somebody if-exceeding bandwidth-limit 1000",
    ]
    nothing = Setting(0, 0, "")
    assert _settings(said, "perhop") == {"perhop_8": nothing, "perhop_9": nothing}


def test_a_reservation_is_enforced(server: Served, tmp_path: Path) -> None:
    clock = Clock(time.time())
    with service(tmp_path / "b.db", clock) as running:
        r1 = of(server, "booked")
        enforcer = Enforcer(running, {"*": r1}, beat=0.05)
        try:
            own = running.book(
                user(running), terms(start=int(clock.now), selector=TO_5011)
            ).result()
            until(lambda: running.register.reservation(own.id).state is State.ACTIVE)
            enforcer.read()
            assert running.register.reservation(own.id).trouble == ""
            assert len(r1.installed()) == 1
            clock.now += 4000
            until(lambda: running.register.reservation(own.id).state is State.FINISHED)
            until(lambda: not r1.installed())
        finally:
            enforcer.close()


def test_a_router_out_of_reach_is_named(tmp_path: Path) -> None:
    (tmp_path / "known").write_text("")
    far = driver(f"netconf:host=127.0.0.1,port=9,known_hosts={tmp_path / 'known'}")
    with pytest.raises(DriverError, match=r"//perhop@127\.0\.0\.1:9: cannot connect: Conn"):
        far.installed()
    with pytest.raises(UsageError, match="needs a host"):
        driver("netconf:user=x")
