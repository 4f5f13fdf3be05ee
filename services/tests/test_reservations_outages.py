"""Databases and routers go away and come back, and nothing is missed."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from conftest import DEADLINES, SLOW
from perhop_services.common.errors import ServiceError, UnavailableError
from perhop_services.common.supervised import Supervised
from perhop_services.reservations.devices import Device
from perhop_services.reservations.drivers import Rule, driver
from perhop_services.reservations.enforcement import WAITS, Enforcer
from perhop_services.reservations.model import Selector, State
from postgres import restartable
from reserving import MBPS, NETWORK, Clock, service, terms, user
from reserving_http import client, served
from test_reservations_enforcement import Router, booked, lab, read_until, reasons, until

pytestmark = [DEADLINES, SLOW]


def real_time() -> Clock:
    clock = Clock()
    clock.__class__ = type("Real", (Clock,), {"__call__": lambda _self: time.time()})
    return clock


def udp(port: int) -> Selector:
    return Selector("udp", None, (port, port))


def test_postgresql_goes_away_under_load_and_nothing_is_missed(tmp_path: Path) -> None:
    router = Router(tmp_path / "router.json")
    with restartable() as postgresql, service(postgresql.url, real_time()) as running:
        who = user(running)
        enforcer = Enforcer(running, {"r1": router}, beat=0.05, persistence=30)
        stop = threading.Event()
        told: list[int] = []

        def load() -> None:
            while not stop.is_set():
                asked = terms(1000, int(time.time()) + 9000, 60, selector=udp(len(told) + 100))
                try:
                    told.append(running.book(who, asked).result(60).id)
                except ServiceError:
                    time.sleep(0.01)

        try:
            now = int(time.time())
            ending = running.book(who, terms(MBPS, now, 5, selector=udp(1))).result().id
            starting = running.book(who, terms(MBPS, now + 5, 600, selector=udp(2))).result().id
            until(lambda: running.register.reservation(ending).state is State.ACTIVE)
            with ThreadPoolExecutor(1) as pool:
                loading = pool.submit(load)
                until(lambda: len(told) > 3)
                postgresql.stop()
                with pytest.raises(UnavailableError):
                    running.book(who, terms(selector=udp(3))).result()
                # One ends and one begins while it is away.
                until(lambda: time.time() > now + 6)
                until(lambda: enforcer.thread.trouble)
                postgresql.start()
                until(lambda: running.register.reservation(ending).state is State.FINISHED)
                until(lambda: running.register.reservation(starting).state is State.ACTIVE)
                before = len(told)
                until(lambda: len(told) > before + 3)
                stop.set()
                loading.result()
            assert router.installed().keys() == {f"perhop_{starting}"}
            until(lambda: not enforcer.thread.trouble)
            assert set(told) <= {each.id for each in running.register.listed(limit=10_000)}
        finally:
            stop.set()
            enforcer.close()


def test_questions_are_answered_503_while_the_database_is_away(tmp_path: Path) -> None:
    with (
        restartable() as postgresql,
        served(postgresql.url, tmp_path) as it,
        client(it, "op") as op,
    ):
        op.reservations()
        postgresql.stop()
        for path in ("/reservations", "/reservations/1", "/reservations/1/log", "/tokens"):
            answer = op._http.get(f"/api{path}")
            assert (answer.status_code, "try again" in answer.text) == (503, True)
        assert op._http.post("/api/token", json={"name": "op", "password": "x"}).status_code == 503
        postgresql.start()
        until(lambda: op._http.get("/api/reservations").status_code == 200)


def test_a_database_that_was_read_only_is_written_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Sessions that began while it was read-only stay so; the service replaces them."""
    with restartable() as postgresql, service(postgresql.url, Clock()) as running:
        who = user(running)
        running.book(who, terms(selector=udp(1))).result()
        engine = sa.create_engine(running.database.url, isolation_level="AUTOCOMMIT")
        other = engine.connect()
        change = "ALTER DATABASE postgres {} default_transaction_read_only"
        other.exec_driver_sql(change.format("SET") + " = on")
        other.exec_driver_sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
        )
        until(lambda: "read-only" in str(running.book(who, terms(selector=udp(2))).exception()))
        assert len(running.register.listed()) == 1
        other.exec_driver_sql(change.format("RESET"))
        until(lambda: running.book(who, terms(selector=udp(3))).exception() is None)
        other.close()
        engine.dispose()
    logged = [(each.getMessage(), each.exc_info) for each in caplog.records]
    assert any("read-only transaction" in message for message, _ in logged)
    assert not any("{'S'" in message or traceback for message, traceback in logged)


@pytest.mark.parametrize("waits", [False, True], ids=["asks", "waits"])
def test_nothing_is_written_without_the_lock(waits: bool) -> None:
    """A connection that was lost has lost the lock: another service may have the database."""
    with restartable() as postgresql, service(postgresql.url, Clock()) as running:
        who = user(running)
        running.book(who, terms(selector=udp(1))).result()
        postgresql.stop()
        postgresql.start()
        # The pool has made new connections by now, and the lock is gone.
        assert len(running.register.listed()) == 1
        other = running.database.engine.connect()
        # PostgreSQL would end its transaction while the service waits for the lock.
        other.exec_driver_sql("SET idle_in_transaction_session_timeout = 0")
        other.exec_driver_sql("SELECT pg_advisory_lock(1885696616)")
        if waits:
            until(lambda: running.writer._stale)
        try:
            with pytest.raises(UnavailableError):
                running.book(who, terms(selector=udp(2))).result()
            assert len(running.register.listed()) == 1
        finally:
            other.close()
            running.database.engine.dispose()
        until(lambda: running.book(who, terms(selector=udp(3))).exception() is None)


def test_a_thread_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    steps: list[int] = []

    def step() -> None:
        steps.append(1)
        if len(steps) in (2, 3):
            raise ZeroDivisionError("a bug")

    thread = Supervised("a thread", step, 0.01)
    until(lambda: len(steps) > 5)
    thread.close()
    assert thread.trouble == ""
    told = [record.getMessage() for record in caplog.records]
    assert told == ["a thread: a bug", "a thread: goes on"]


def test_a_host_that_was_renamed_stops_nobody(tmp_path: Path) -> None:
    """Planned and active reservations of a host that is no more, beside one that is."""
    router = Router(tmp_path / "router.json")
    clock = Clock(time.time() - 100)
    now = int(clock.now)
    with service(tmp_path / "b.db", clock) as running:
        who = user(running)
        running.book(who, terms(start=now + 60, destination="bnl", selector=udp(1))).result()
        active = running.book(
            who, terms(start=now, seconds=90, destination="bnl", selector=udp(4))
        ).result()
        running.outcomes.move(active.id, State.PLANNED, State.ACTIVE, "start", "").result()
        running.book(who, terms(start=now + 60, selector=udp(2))).result()
    with service(tmp_path / "b.db", real_time(), NETWORK.replace("bnl", "anl")) as running:
        enforcer = Enforcer(running, {"*": router}, beat=0.05)
        try:
            until(lambda: running.register.reservation(3).state is State.ACTIVE)
            until(lambda: running.register.reservation(1).state is State.FAILED)
            assert "no host bnl any more" in reasons(running, 1)[-1]
            until(lambda: running.register.reservation(2).state is State.FINISHED)
            assert enforcer.thread.trouble == ""
            enforcer.read()
        finally:
            enforcer.close()


def test_a_router_that_fails_for_a_moment_is_tried_again(tmp_path: Path) -> None:
    router = Router(tmp_path / "router.json")
    router.mood = "fails to set"
    with lab(tmp_path, router, persistence=30) as it:
        running, enforcer, *_ = it
        own = booked(it, State.PLANNED)
        until(lambda: "not in place yet" in running.register.reservation(own.id).trouble)
        router.mood = "well"
        until(lambda: running.register.reservation(own.id).state is State.ACTIVE)
        until(lambda: running.register.reservation(own.id).trouble == "")
        # The same while it is active: what the router lost is set again, when it lets perhop.
        router.mood = "fails to set"
        router.remove(f"perhop_{own.id}")
        enforcer.read()
        until(lambda: "not in place" in running.register.reservation(own.id).trouble)
        router.mood = "well"
        enforcer.read()
        assert running.register.reservation(own.id).state is State.ACTIVE
        assert f"perhop_{own.id}" in router.installed()


def test_a_router_that_fails_for_long_is_given_up(tmp_path: Path) -> None:
    router = Router(tmp_path / "router.json")
    router.mood = "fails to set"
    with lab(tmp_path, router, persistence=1) as it:
        own = booked(it, State.FAILED)
        assert "the router says no" in reasons(it[0], own.id)[-1]
        assert len([each for each in router.asked if each == "set"]) > 1


def test_a_router_that_refuses_is_not_asked_again(tmp_path: Path) -> None:
    router = Router(tmp_path / "router.json")
    router.mood = "refuses"
    with lab(tmp_path, router, persistence=3600) as it:
        own = booked(it, State.FAILED)
        assert "the router never will" in reasons(it[0], own.id)[-1]
        assert [each for each in router.asked if each == "set"] == ["set"]


def test_an_active_reservation_that_a_router_refuses_to_repair_fails_at_once(
    tmp_path: Path,
) -> None:
    router = Router(tmp_path / "router.json")
    with lab(tmp_path, router, persistence=3600) as it:
        running, enforcer, *_ = it
        own = booked(it)
        router.remove(f"perhop_{own.id}")
        router.asked.clear()
        router.mood = "refuses to set"
        read_until(enforcer, lambda: running.register.reservation(own.id).state is State.FAILED)
        # A reading that began before may say meanwhile that the router has no counters.
        assert any("the router never will" in reason for reason in reasons(running, own.id))
        assert router.asked.count("set") == 1


class Slow(Router):
    """A router that takes its time, the first time as long as it likes."""

    def set(self, rule: Rule) -> None:
        self.released.wait(60)
        time.sleep(0.3)
        super().set(rule)


def test_waiting_for_a_router_that_others_ask_does_not_count(tmp_path: Path) -> None:
    slow = Slow(tmp_path / "slow.json")
    slow.released.set()
    device = Device("r1", slow, timeout=1)
    rules = [Rule(f"perhop_{n}", "::1", "::2", Selector(), MBPS, 1500) for n in range(8)]
    try:
        with ThreadPoolExecutor(8) as pool:
            for done in [pool.submit(device.put, rule) for rule in rules]:
                done.result()  # all together take longer than one may
    finally:
        device.close()


def test_a_slow_router_loses_nothing_and_stops_nobody(tmp_path: Path) -> None:
    """Ten reservations wait for a router; another one is quick."""
    slow, quick = Slow(tmp_path / "slow.json"), Router(tmp_path / "quick.json")
    with service(tmp_path / "b.db", real_time()) as running:
        who, now = user(running), int(time.time())
        enforcer = Enforcer(running, {"r1": slow, "r3": quick}, beat=0.05, timeout=60)
        try:
            ids = [
                running.book(who, terms(1000, now, selector=udp(n))).result().id
                for n in range(1, 11)
            ]
            other = terms(1000, now, source="bnl", destination="cern")
            first = running.book(who, other).result().id
            until(lambda: running.register.reservation(first).state is State.ACTIVE)
            assert all(running.register.reservation(each).state is State.PLANNED for each in ids)
            slow.released.set()
            until(
                lambda: all(
                    running.register.reservation(each).state is State.ACTIVE for each in ids
                )
            )
        finally:
            slow.released.set()
            enforcer.close()


def test_who_waits_for_people_keeps_nobody_waiting(tmp_path: Path) -> None:
    router = Router(tmp_path / "router.json")
    with service(tmp_path / "b.db", real_time()) as running:
        who, now = user(running), int(time.time())
        for n in range(1, 121):
            running.book(who, terms(1000, now, selector=udp(n)))
        other = terms(1000, now, source="bnl", destination="cern")
        last = running.book(who, other).result().id
        enforcer = Enforcer(running, {"r1": driver("ios"), "r3": router}, beat=0.05)
        try:
            until(lambda: running.register.reservation(last).state is State.ACTIVE)
            until(lambda: all(each.trouble == WAITS for each in running.register.listed(limit=120)))
        finally:
            enforcer.close()
    # They begin when the router has a driver that does it.
    with service(tmp_path / "b.db", real_time()) as running:
        enforcer = Enforcer(running, {"r1": router, "r3": router}, beat=0.05)
        try:
            until(lambda: running.register.reservation(1).state is State.ACTIVE)
        finally:
            enforcer.close()


def test_a_change_that_nobody_finished_is_taken_back(tmp_path: Path) -> None:
    """The database was away when the router had the new terms."""
    router = Router(tmp_path / "router.json")
    with lab(tmp_path, router, every=0.1, persistence=30) as it:
        running, enforcer, _, who = it
        own = booked(it)
        changed = running.change(who, own.id, {"rate": MBPS}).result()
        settle = running.outcomes.settle

        def away(*_: Any) -> Any:
            raise UnavailableError("the database does not take it")

        running.outcomes.settle = away  # type: ignore[method-assign]
        with pytest.raises(UnavailableError):
            enforcer.apply_change(changed, "les")
        running.outcomes.settle = settle  # type: ignore[method-assign]
        until(lambda: running.register.reservation(own.id).pending is None)
        assert running.register.reservation(own.id).terms == own.terms
        until(lambda: router.installed()[f"perhop_{own.id}"].rate == own.terms.rate)


def test_an_ended_reservation_leaves_the_router_while_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    router = Router(tmp_path / "router.json")
    with lab(tmp_path, router) as it:
        running = it[0]
        own = booked(it, seconds=3)
        with monkeypatch.context() as full:

            def fail(*_: Any) -> Any:
                raise OSError(28, "No space left on device")

            full.setattr(running.database, "deciding", fail)
            until(lambda: router.installed() == {})
            with pytest.raises(UnavailableError, match="No space left"):
                running.outcomes.expire().result()
        until(lambda: running.register.reservation(own.id).state is State.FINISHED)
