"""Routers do what was booked, and what they do not do is noticed."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import DEADLINES, SLOW
from perhop.errors import UsageError
from perhop_services.common.errors import ConflictError, UnavailableError
from perhop_services.common.users import User
from perhop_services.reservations.drivers import (
    DriverError,
    PolicerCounters,
    RefusedError,
    Rule,
    Setting,
    driver,
)
from perhop_services.reservations.drivers.file import FileDriver
from perhop_services.reservations.enforcement import Enforcer
from perhop_services.reservations.model import Reservation, Selector, State
from perhop_services.reservations.plausible import doubt
from perhop_services.reservations.schema import open_database
from perhop_services.reservations.service import ReservationService
from reserving import MBPS, Clock, network, service, terms, user

pytestmark = [DEADLINES, SLOW]

TO_5011 = Selector("tcp", None, (5011, 5011))


class Router(FileDriver):
    """A router that can be told to fail, hang or lie."""

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        self.mood = "well"
        self.asked: list[str] = []
        self.released = threading.Event()

    def _do(self, what: str) -> None:
        self.asked.append(what)
        if self.mood in ("fails", f"fails to {what}"):
            raise DriverError("the router says no")
        if self.mood in ("refuses", f"refuses to {what}"):
            raise RefusedError("the router never will")
        if self.mood in ("hangs", f"hangs at {what}"):
            self.released.wait(30)
        if self.mood == "breaks":
            raise ZeroDivisionError("a bug")

    def set(self, rule: Rule) -> None:
        self._do("set")
        if self.mood == "lies":
            rule = replace(rule, rate=rule.rate * 2)
        if self.mood != "ignores":
            super().set(rule)

    def remove(self, name: str) -> None:
        self._do("remove")
        super().remove(name)

    def installed(self) -> dict[str, Setting]:
        self._do("look")
        return super().installed()

    def counters(self) -> dict[str, PolicerCounters]:
        self._do("count")
        return super().counters()

    def count(self, name: str, counters: PolicerCounters) -> None:
        rules = self._read()
        rules[name]["counters"] = {
            key: getattr(counters, key) for key in PolicerCounters.__dataclass_fields__
        }
        self._write(rules)


Lab = tuple[ReservationService, Enforcer, Router, User]


@contextmanager
def lab(folder: Path, router: Router, **options: Any) -> Iterator[Lab]:
    clock = Clock()
    clock.__class__ = type("Real", (Clock,), {"__call__": lambda _self: time.time()})
    with service(folder / "b.db", clock) as running:
        enforcer = Enforcer(
            running,
            {"r1": router, "r2": router},
            beat=0.05,
            timeout=2,
            **{"every": 3600, "persistence": 0} | options,
        )
        try:
            yield running, enforcer, router, user(running)
        finally:
            router.released.set()
            enforcer.close()


@pytest.fixture
def router(tmp_path: Path) -> Router:
    return Router(tmp_path / "router.json")


@pytest.fixture
def it(tmp_path: Path, router: Router) -> Iterator[Lab]:
    with lab(tmp_path, router) as made:
        yield made


def until(what: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + 60
    while not (found := what()):
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)
    return found


def read_until(enforcer: Enforcer, what: Callable[[], Any]) -> None:
    """Read the routers until something is so: what is being started is left for the next time."""

    def reads() -> Any:
        enforcer.read()
        return what()

    until(reads)


def booked(it: Lab, wait: State | None = State.ACTIVE, **asked: Any) -> Reservation:
    running, _, _, who = it
    given = {
        "start": int(time.time()),
        "seconds": 3600,
        "selector": Selector("tcp", None, (5011, 5011)),
    }
    own = running.book(who, terms(**{**given, **asked})).result()
    if wait is None:
        return own
    until(lambda: running.register.reservation(own.id).state is wait)
    return running.register.reservation(own.id)


def reasons(running: ReservationService, id_: int) -> list[str]:
    return [entry.reason for entry in running.register.log(id_)]


def test_a_reservation_is_enforced_changed_and_removed(it: Lab) -> None:
    running, enforcer, router, who = it
    start = int(time.time()) + 1
    own = booked(it, start=start, seconds=8)
    assert own.started is not None
    assert own.started >= start
    name = f"perhop_{own.id}"
    packets = "10.0.0.1 > 10.0.0.2, tcp, to port 5011"
    assert router.installed() == {name: Setting(10 * MBPS, 100_000, packets)}
    router.count(name, PolicerCounters(5, 5000, 1, 1000))
    changed = running.change(who, own.id, {"rate": MBPS, "burst": 50_000}).result()
    assert changed.pending is not None
    assert enforcer.apply_change(changed, "les").version == 2
    assert router.installed()[name] == Setting(MBPS, 50_000, packets)
    assert router.counters()[name].conformed_packets == 5, "counters go on"
    until(lambda: running.register.reservation(own.id).state is State.FINISHED)
    assert router.installed() == {}
    series = running.register.series(own.id)
    assert series[-1]["conformed_bytes"] == 5000
    states = [entry.state.value for entry in running.register.log(own.id)]
    assert states == ["planned", "active", "active", "active", "finished"]


def test_packets_and_end_change_in_place_while_active(it: Lab) -> None:
    running, enforcer, router, who = it
    own, other = booked(it), booked(it, selector=Selector("udp"))
    name = f"perhop_{own.id}"
    router.count(name, PolicerCounters(5, 5000, 1, 1000))
    # What another has is refused before anything is touched.
    asked = len([each for each in router.asked if each == "set"])
    with pytest.raises(ConflictError, match=f"reservation {other.id} is for some of the packets"):
        running.change(who, own.id, {"selector": Selector("udp", None, (9, 9))}).result()
    assert len([each for each in router.asked if each == "set"]) == asked
    selector = Selector("tcp", None, (6000, 6010), 46)
    changed = running.change(who, own.id, {"selector": selector}).result()
    assert enforcer.apply_change(changed, "les").terms.selector == selector
    assert router.installed()[name].packets.endswith("tcp, to port 6000-6010, DSCP 46")
    assert router.counters()[name].conformed_packets == 5, "counters go on"
    # An end asks nothing of the router, and is kept to.
    moved = running.change(who, own.id, {"end": int(time.time()) + 2}).result()
    assert (moved.pending, moved.version) == (None, 3)
    until(lambda: running.register.reservation(own.id).state is State.FINISHED)
    assert router.installed().keys() == {f"perhop_{other.id}"}


def test_both_directions_have_a_rule_each(it: Lab) -> None:
    own = booked(it, direction="both")
    found = it[2].installed()
    assert found.keys() == {f"perhop_{own.id}", f"perhop_{own.id}_back"}
    assert found[f"perhop_{own.id}_back"].packets == "10.0.0.2 > 10.0.0.1, tcp, from port 5011"


def test_what_is_cancelled_is_removed(it: Lab) -> None:
    running, enforcer, router, who = it
    own = booked(it)
    enforcer.cancelled(running.cancel(who, own.id, "").result())
    until(lambda: not router.installed())


@pytest.mark.parametrize(
    ("mood", "reason"),
    [
        ("fails", "the router says no"),
        ("hangs at set", "did not answer within 2 s"),
        ("breaks", "ZeroDivisionError: a bug"),
        ("lies", "says that it did, but has Setting(rate=20000000"),
        ("ignores", "says that it did, but has nothing"),
        ("fails to look", "the router says no"),
    ],
)
def test_what_a_router_does_not_do_is_never_active(
    tmp_path: Path, router: Router, mood: str, reason: str
) -> None:
    router.mood = mood
    with lab(tmp_path, router) as it:
        running = it[0]
        own = booked(it, State.FAILED)
        log = running.register.log(own.id)
        assert State.ACTIVE not in [entry.state for entry in log]
        assert any(reason in entry.reason for entry in log), log
        # What it had is free again.
        now = int(time.time())
        assert running.timeline(now, now + 10).result()["r1>r2"][0].free == 800 * MBPS


def test_without_a_driver_a_reservation_fails(it: Lab) -> None:
    own = booked(it, State.FAILED, source="bnl", destination="cern")
    assert "nothing enforces at r3: the service has no driver for it" in reasons(it[0], own.id)


@pytest.mark.parametrize("mood", ["fails to set", "lies", "hangs at set"])
def test_a_change_that_is_not_taken_leaves_the_old_terms(it: Lab, mood: str) -> None:
    running, enforcer, router, who = it
    own = booked(it)
    router.mood = mood
    changed = running.change(who, own.id, {"rate": MBPS}).result()
    with pytest.raises(UnavailableError, match="keeps its old terms"):
        enforcer.apply_change(changed, "les")
    now = running.register.reservation(own.id)
    assert (now.terms, now.pending) == (own.terms, None)
    # Where the old terms cannot be seen to be in place, either, it is not active.
    assert now.state is State.FAILED


def test_a_change_falls_back_where_the_router_lets_it(it: Lab) -> None:
    running, enforcer, router, who = it
    own = booked(it)
    changed = running.change(who, own.id, {"rate": MBPS}).result()
    set_before = router.set
    calls = iter([DriverError("no such rate")])

    def once(rule: Rule) -> None:
        error = next(calls, None)
        if error is not None:
            raise error
        set_before(rule)

    router.set = once  # type: ignore[method-assign]
    with pytest.raises(UnavailableError, match="no such rate"):
        enforcer.apply_change(changed, "les")
    now = running.register.reservation(own.id)
    assert (now.state, now.terms, now.pending) == (State.ACTIVE, own.terms, None)
    assert router.installed()[f"perhop_{own.id}"].rate == 10 * MBPS


def test_what_a_router_lost_is_set_again_and_what_is_left_removed(it: Lab) -> None:
    running, enforcer, router, _ = it
    own = booked(it)
    name = f"perhop_{own.id}"
    FileDriver.remove(router, name)
    FileDriver.set(router, Rule("perhop_77", "10.0.0.1", "10.0.0.3", Selector(), 1, 1))
    read_until(enforcer, lambda: router.installed().keys() == {name})
    until(lambda: "had lost it" in reasons(running, own.id)[-1])
    router.mood = "ignores"
    FileDriver.remove(router, name)
    read_until(enforcer, lambda: running.register.reservation(own.id).state is State.FAILED)


def test_rules_of_another_service_are_left_alone(tmp_path: Path, router: Router) -> None:
    theirs = Rule("perhop_other_1", "10.0.0.1", "10.0.0.3", Selector(), MBPS, 1500)
    FileDriver.set(router, theirs)
    FileDriver.set(router, replace(theirs, name="perhop_1"))
    clock = Clock(time.time())
    database = open_database(str(tmp_path / "b.db"))
    identity = database.identity
    running = ReservationService(network(), database, clock=clock)
    enforcer = Enforcer(running, {"*": router}, beat=0.05)
    try:
        assert len(identity) == 6
        own = running.book(user(running), terms(start=int(clock.now))).result()
        until(lambda: running.register.reservation(own.id).state is State.ACTIVE)
        FileDriver.set(router, replace(theirs, name=f"perhop_{identity}_77"))
        enforcer.read()
        assert router.installed().keys() == {
            "perhop_other_1",
            "perhop_1",
            f"perhop_{identity}_{own.id}",
        }
    finally:
        enforcer.close()
        running.close()
        database.close()
    again = open_database(str(tmp_path / "b.db"))
    again.close()
    assert again.identity == identity


def test_counters_are_read_on_a_schedule_and_cleared(tmp_path: Path, router: Router) -> None:
    with lab(tmp_path, router, every=0.1) as it:
        running, enforcer, _, who = it
        own = booked(it)
        router.count(f"perhop_{own.id}", PolicerCounters(10, 10_000, 2, 2_000))
        until(lambda: any(row["conformed_bytes"] for row in running.register.series(own.id)))
        enforcer.clear(who, own)
        until(lambda: running.register.series(own.id)[-1]["epoch"] == 1)
        rows = running.register.series(own.id)
        assert rows[-1]["conformed_bytes"] == rows[-1]["exceeded_bytes"] == 0
        assert max(row["conformed_bytes"] for row in rows) == 10_000
        assert running.register.log(own.id)[-1].action == "clear"
        assert running.register.reservation(own.id).trouble == ""
        planned = booked(it, None, start=int(time.time()) + 600, selector=Selector("udp"))
        with pytest.raises(ConflictError, match="planned, not active"):
            enforcer.clear(who, planned)


def test_counters_that_cannot_be_are_noticed(it: Lab) -> None:
    running, enforcer, router, _ = it
    own = booked(it)
    name = f"perhop_{own.id}"

    def read_until_trouble(what: str) -> None:
        read_until(
            enforcer, lambda: what in (running.register.reservation(own.id).trouble or "well")
        )

    router.count(name, PolicerCounters(10**6, 10**9, 0, 0))
    read_until_trouble("counts what cannot be")
    enforcer.read()  # and again, in another second, without a second entry in the log
    assert all(row["conformed_bytes"] == 0 for row in running.register.series(own.id)), (
        "none is kept"
    )
    router.count(name, PolicerCounters(10, 10_000, 0, 0))
    read_until_trouble("well")
    router.mood = "fails to count"
    read_until_trouble("the router says no")
    assert [entry.action for entry in running.register.log(own.id)][2:] == [
        "trouble",
        "well",
        "trouble",
    ]


COUNT = st.integers(0, 10**4)


@given(COUNT, COUNT, st.floats(0, 100), st.integers(8, 10**9), st.integers(1500, 10**7))
def test_what_a_policer_can_count_is_believed(
    conformed: int, exceeded: int, seconds: float, rate: int, burst: int
) -> None:
    size = min(conformed * 1500, int(burst + rate / 8 * seconds))
    packets = size // 1500
    after = PolicerCounters(packets, packets * 1500, exceeded, exceeded * 1500)
    assert doubt(PolicerCounters(), after, seconds, rate, burst, 0) == ""
    beyond = int(burst + rate / 8 * (seconds + 2)) + 65_535
    false = PolicerCounters(beyond // 1500 + 1, (beyond // 1500 + 1) * 1500, 0, 0)
    assert "conformed in" in doubt(PolicerCounters(), false, seconds, rate, burst, 0)
    assert packets == 0 or "fell" in doubt(after, PolicerCounters(), seconds, rate, burst, 0)


def test_an_interrupted_change_is_taken_back(tmp_path: Path, router: Router) -> None:
    with lab(tmp_path, router) as it:
        running, _, _, who = it
        own = booked(it)
        running.change(who, own.id, {"rate": MBPS}).result()
        # The router has the new terms already when the service dies.
        router.set(Rule(f"perhop_{own.id}", "10.0.0.1", "10.0.0.2", own.terms.selector, MBPS, 1500))
    with lab(tmp_path, router, every=0.1) as again:
        until(lambda: again[0].register.reservation(own.id).pending is None)
        until(lambda: router.installed()[f"perhop_{own.id}"].rate == 10 * MBPS)
        assert again[0].register.reservation(own.id).terms == own.terms


def test_what_started_while_perhop_was_away(tmp_path: Path, router: Router) -> None:
    clock = Clock(time.time() - 7200)
    with service(tmp_path / "b.db", clock) as running:
        who, now = user(running), int(clock.now)
        running.book(who, terms(start=now + 60, seconds=60)).result()
        running.book(who, terms(start=now + 600, seconds=7200)).result()
        running.book(who, terms(start=now + 300, seconds=60), hold=1).result()
    with lab(tmp_path, router) as (running, *_):
        until(lambda: running.register.reservation(1).state is State.FAILED)
        until(lambda: running.register.reservation(2).state is State.ACTIVE)
        until(lambda: running.register.reservation(3).state is State.CANCELLED)
        assert reasons(running, 1)[-1] == "perhop was away"


# Routers that people configure


def test_people_configure_and_confirm(tmp_path: Path) -> None:
    clock = Clock(time.time())
    with service(tmp_path / "b.db", clock) as running:
        enforcer = Enforcer(running, {"*": driver("junos")}, beat=0.05)
        try:
            les, op = user(running), user(running, "op", "operator")
            asked = terms(start=int(clock.now), selector=TO_5011)
            own = running.book(les, asked).result()
            until(lambda: running.register.reservation(own.id).trouble)
            assert running.register.reservation(own.id).state is State.PLANNED, "not yet configured"
            assert enforcer.routers.configuration(own, "set") == JUNOS
            active = enforcer.confirm(op, running.register.reservation(own.id))
            assert active.state is State.ACTIVE
            changed = running.change(les, own.id, {"rate": MBPS}).result()
            assert enforcer.apply_change(changed, "les").pending is not None
            text = enforcer.routers.configuration(changed, "change")
            assert text == (
                "! r1\nset firewall policer perhop_1 if-exceeding bandwidth-limit 1000000\n"
                "set firewall policer perhop_1 if-exceeding burst-size-limit 100000\ncommit\n"
            )
            assert enforcer.confirm(op, running.register.reservation(own.id)).terms.rate == MBPS
            with pytest.raises(ConflictError, match="nothing of reservation 1"):
                enforcer.confirm(op, running.register.reservation(own.id))
            text = enforcer.routers.configuration(changed, "remove")
            assert "delete firewall policer perhop_1\n" in text
            clock.now += 4000
            until(lambda: running.register.reservation(own.id).state is State.FINISHED)
        finally:
            enforcer.close()


JUNOS = """\
! r1
set firewall policer perhop_1 if-exceeding bandwidth-limit 10000000
set firewall policer perhop_1 if-exceeding burst-size-limit 100000
set firewall policer perhop_1 then discard
set firewall family inet filter perhop term perhop_1 from source-address 10.0.0.1/32
set firewall family inet filter perhop term perhop_1 from destination-address 10.0.0.2/32
set firewall family inet filter perhop term perhop_1 from protocol tcp
set firewall family inet filter perhop term perhop_1 from destination-port 5011
set firewall family inet filter perhop term perhop_1 then policer perhop_1
set firewall family inet filter perhop term perhop_1 then count perhop_1
set firewall family inet filter perhop term perhop_1 then accept
commit
"""

RULE = Rule(
    "perhop_9", "192.0.2.1", "192.0.2.9", Selector(None, (1, 9), (80, 80), 46), 10**7, 10**5
)


def test_ios_is_told_in_its_own_words() -> None:
    ios = driver("ios:policy=edge")
    assert (
        ios.configuration(RULE)
        == """\
ip access-list extended perhop_9
 permit tcp host 192.0.2.1 range 1 9 host 192.0.2.9 eq 80 dscp 46
 permit udp host 192.0.2.1 range 1 9 host 192.0.2.9 eq 80 dscp 46
!
class-map match-all perhop_9
 match access-group name perhop_9
!
policy-map edge
 class perhop_9
  police cir 10000000 bc 100000 conform-action transmit exceed-action drop
"""
    )
    slower = replace(RULE, rate=10**6)
    assert (
        ios.configuration(slower, RULE)
        == """\
policy-map edge
 class perhop_9
  police cir 1000000 bc 100000 conform-action transmit exceed-action drop
"""
    )
    assert "no class perhop_9" in ios.configuration(RULE, remove=True)


def test_drivers_are_named() -> None:
    with pytest.raises(
        UsageError, match="'cisco' is not a driver; expected one of file, lab, linux"
    ):
        driver("cisco")
    with pytest.raises(UsageError, match="'speed=1' means nothing to ios; expected policy="):
        driver("ios:speed=1")
    with pytest.raises(UsageError, match="needs a path"):
        driver("file")
