"""Reservations are never more than there is, and what was said stays so."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from conftest import SLOW
from perhop._core import Stretch
from perhop.errors import PerhopError, UsageError
from perhop_services.common import database as databases
from perhop_services.common.errors import (
    BadRequestError,
    ConflictError,
    NotFoundError,
    UnavailableError,
)
from perhop_services.common.users import Quota
from perhop_services.reservations.errors import RefusedError
from perhop_services.reservations.model import Reservation, Selector, State, Wishes
from perhop_services.reservations.schema import RESERVATIONS, open_database
from perhop_services.reservations.service import ReservationService
from postgres import server
from reserving import MBPS, NETWORK, T0, Clock, network, port, service, terms, user
from test_reservations_reference import Reference


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    with server() as url:
        yield url


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def running(tmp_path: Path, clock: Clock) -> Iterator[ReservationService]:
    with service(tmp_path / "book.db", clock) as it:
        yield it


# What earlier systems got wrong


def test_the_peak_counts_and_not_the_sum(running: ReservationService) -> None:
    who = user(running)
    for number, start in enumerate((T0 + 100, T0 + 200)):
        # One after the other: together they are never more than one of them.
        asked = terms(700 * MBPS, start, 100, selector=port(number + 1))
        assert running.book(who, asked).result().state is State.PLANNED
    across = terms(100 * MBPS, T0 + 50, 300, selector=port(9))
    assert running.book(who, across).result().path == ("slac>r1", "r1>r2", "r2>cern")


def test_two_equal_bookings_count_twice(running: ReservationService) -> None:
    who = user(running)
    path = ["slac>r1", "r1>r2", "r2>cern"]
    for number in (1, 2):
        running.book(who, terms(300 * MBPS, selector=port(number)), path=path).result()
    free = running.timeline(T0 + 60, T0 + 3660).result()["r1>r2"]
    assert free == [Stretch(T0 + 60, T0 + 3660, 200 * MBPS)]


def test_bookings_back_to_back_do_not_meet(running: ReservationService) -> None:
    who = user(running)
    running.book(who, terms(seconds=60)).result()
    assert running.book(who, terms(start=T0 + 120, seconds=60)).result().id == 2
    with pytest.raises(ConflictError, match="reservation 1 is for some of the packets"):
        running.book(who, terms(start=T0 + 119, seconds=1)).result()


def clients_at_once(running: ReservationService) -> None:
    """Sixteen want the last capacity, of which there is enough for three."""
    who = user(running)
    begin = threading.Barrier(16)
    path = ["slac>r1", "r1>r2", "r2>cern"]

    def ask(number: int) -> bool:
        begin.wait()
        asked = terms(250 * MBPS, selector=port(number + 1))
        try:
            return running.book(who, asked, path=path).result(120).state is State.PLANNED
        except RefusedError as refusal:
            assert refusal.detail["free"] == 50 * MBPS
            return False

    with ThreadPoolExecutor(16) as pool:
        assert sum(pool.map(ask, range(16))) == 3
    Reference(running).check(T0)


def test_the_last_capacity_is_booked_once(running: ReservationService) -> None:
    clients_at_once(running)


@SLOW
def test_the_last_capacity_is_booked_once_on_postgresql(
    postgres: str, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with service(postgres, clock) as running:
        clients_at_once(running)
        before = running.timeline(T0, T0 + 10_000).result()
    with service(postgres, clock) as again:
        assert again.timeline(T0, T0 + 10_000).result() == before
        monkeypatch.setattr(databases, "LOCK_TIMEOUT", 0.5)
        with pytest.raises(UsageError, match="in use by another perhop"):
            open_database(postgres)


@SLOW
def test_what_a_killed_process_had_sent_still_counts(postgres: str, clock: Clock) -> None:
    with service(postgres, clock) as running:
        running.book(user(running), terms(destination="bnl")).result()
        late = running.database.engine.connect()
        late.detach()  # so that it is closed in the end
    # The server has not noticed yet that the client is gone.
    late.execute(RESERVATIONS.update().values(state=State.CANCELLED.value))
    commit = threading.Timer(2, late.commit)
    commit.start()
    with service(postgres, clock) as again:
        assert again.admission.bookings == 0
    commit.join()
    late.close()


def test_what_was_refused_has_left_nothing(running: ReservationService) -> None:
    who = user(running)
    wrong = [
        terms(0),
        terms(start=T0 - 3600),
        terms(seconds=0),
        terms(source="r1"),
        terms(source="cern"),
        terms(seconds=10**9),
        terms(class_="silver"),
        terms(10**12),
    ]
    for asked in wrong:
        with pytest.raises((BadRequestError, RefusedError)):
            running.book(who, asked, hold=60).result()
    with pytest.raises(BadRequestError, match="a hold lasts"):
        running.book(who, terms(), hold=0).result()
    assert running.register.listed() == []
    assert running.register.log() == []
    assert running.admission.bookings == 0


def active(running: ReservationService, who: Any, **given: Any) -> Reservation:
    own = running.book(who, terms(start=T0, **given)).result()
    moved = running.outcomes.move(own.id, State.PLANNED, State.ACTIVE, "start", "").result()
    assert moved is not None
    return moved


def test_a_change_is_checked_before_anything_changes(running: ReservationService) -> None:
    who = user(running)
    own = active(running, who, rate=100 * MBPS)
    path = list(own.path)
    running.book(who, terms(600 * MBPS, T0 + 7200, selector=port(2)), path=path).result()
    free = running.timeline(T0, T0 + 20_000).result()
    wrong: list[dict[str, Any]] = [
        {"rate": 900 * MBPS},
        {"rate": 0},
        {"end": T0 - 5},
        {"start": T0 + 5},
        {"rate": 300 * MBPS, "end": T0 + 8000},
        {"selector": port(2), "end": T0 + 8000},
    ]
    for changes in wrong:
        with pytest.raises((BadRequestError, ConflictError)):
            running.change(who, own.id, changes).result()
        assert running.register.reservation(own.id) == own
        assert running.timeline(T0, T0 + 20_000).result() == free


def test_room_is_kept_until_a_change_is_in_place(running: ReservationService, clock: Clock) -> None:
    who = user(running)
    own = active(running, who, rate=800 * MBPS, selector=port(6))
    path = list(own.path)
    clock.now += 10
    changed = running.change(who, own.id, {"rate": 100 * MBPS, "selector": port(7)}).result()
    assert (changed.terms, changed.pending and changed.pending.rate) == (own.terms, 100 * MBPS)
    with pytest.raises(RefusedError):
        running.book(
            who, terms(100 * MBPS, T0 + 60, source="slac", selector=port(1)), path=path
        ).result()
    with pytest.raises(ConflictError, match="is being changed"):
        running.change(who, own.id, {"rate": 5}).result()
    back = running.outcomes.take_back(own.id, "the router refused").result()
    assert (back.terms, back.pending) == (own.terms, None)
    running.change(who, own.id, {"rate": 100 * MBPS}).result()
    assert running.outcomes.settle(own.id, who.name).result().terms.rate == 100 * MBPS
    other = terms(700 * MBPS, T0 + 60, destination="bnl")
    with pytest.raises(RefusedError):
        running.book(who, other).result()  # 400 Mb/s is all that r3 has
    assert running.timeline(T0 + 10, T0 + 20).result()["r1>r2"][0].free == 700 * MBPS


def test_others_reservations_are_nobodys_business(running: ReservationService) -> None:
    own = running.book(user(running), terms()).result()
    other, operator = user(running, "eve"), user(running, "op", "operator")
    for ask in (
        lambda: running.cancel(other, own.id, ""),
        lambda: running.commit(other, own.id),
        lambda: running.change(other, own.id, {"rate": 1}),
    ):
        with pytest.raises(NotFoundError, match="there is no reservation 1"):
            ask().result()
    with pytest.raises(NotFoundError):
        running.register.seen_by(other, own.id)
    assert running.change(operator, own.id, {"rate": 5}).result().terms.rate == 5
    assert running.register.log(own.id)[-1].author == "op"


def test_a_hold_is_committed_or_expires_but_not_both(
    running: ReservationService, clock: Clock
) -> None:
    who = user(running)
    for number in range(8):
        held = running.book(who, terms(selector=port(number + 1)), hold=10).result()
        assert held.state is State.HELD
    clock.now += 9
    assert running.commit(who, 1).result().state is State.PLANNED
    assert running.commit(who, 1).result().state is State.PLANNED
    clock.now += 1
    # The time-out, a commit and a cancel meet.
    with ThreadPoolExecutor(12) as pool:
        commits = [pool.submit(running.commit(who, each).result) for each in range(2, 9)]
        expired = pool.submit(running.outcomes.expire().result)
        cancels = [pool.submit(running.cancel(who, each, "").result) for each in (3, 4)]
        assert all(isinstance(each.exception(), ConflictError) for each in commits)
        assert 5 <= expired.result() <= 7
        assert all(each.result().state is State.CANCELLED for each in cancels)
    for each in range(2, 9):
        assert [entry.state for entry in running.register.log(each)] == [
            State.HELD,
            State.CANCELLED,
        ]
    assert running.admission.bookings == 1


def test_the_same_key_is_the_same_reservation(running: ReservationService) -> None:
    who = user(running)
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(running.book(who, terms(), key="k").result) for _ in range(8)]
        assert {each.result().id for each in asked} == {1}
    assert running.admission.bookings == 1
    with pytest.raises(ConflictError, match="the key 'k' was used for reservation 1"):
        running.book(who, terms(rate=5), key="k").result()
    other = user(running, "eve")
    assert running.book(other, terms(selector=port(1), start=T0 + 9000), key="k").result().id == 2


def test_a_key_is_known_for_a_week(tmp_path: Path, clock: Clock) -> None:
    for days, number in ((0, 1), (6, 1), (8, 2)):
        clock.now = T0 + days * 86_400
        with service(tmp_path / "b.db", clock) as running:
            asked = terms(start=T0 + days * 86_400 + 60)
            made = running.book(user(running), asked, key="k", asked="the same").result()
            assert made.id == number


# The rest of what it promises


def test_a_refusal_says_what_is_in_the_way_and_when_it_would_be_free(
    running: ReservationService,
) -> None:
    who = user(running)
    running.book(who, terms(800 * MBPS, seconds=600, selector=port(1))).result()
    running.book(who, terms(400 * MBPS, seconds=300, selector=port(2))).result()
    with pytest.raises(RefusedError) as refused:
        running.book(who, terms(300 * MBPS, seconds=1200, selector=port(3))).result()
    assert str(refused.value) == (
        "300 Mbps is not free on r1>r2: 0 bps is, from 2027-01-15 08:01:00 UTC to "
        "2027-01-15 08:11:00 UTC; it would be free from 2027-01-15 08:06:00 UTC"
    )
    assert refused.value.detail["earliest"] == T0 + 360
    found = running.free(terms(300 * MBPS, seconds=1200), Wishes()).result()
    assert found.earliest == T0 + 360
    again = terms(300 * MBPS, T0 + 360, 1200, selector=port(3))
    assert running.book(who, again).result().path == ("slac>r1", "r1>r3", "r3>r2", "r2>cern")


def test_a_refused_change_says_when_it_would_be_free(running: ReservationService) -> None:
    who = user(running)
    own = running.book(who, terms(100 * MBPS, seconds=3600, selector=port(1))).result()
    running.book(who, terms(600 * MBPS, T0 + 600, 600, selector=port(2))).result()
    with pytest.raises(RefusedError, match="300 Mbps is not free on r1>r2: 200 Mbps is") as refused:
        running.change(who, own.id, {"rate": 300 * MBPS}).result()
    # Its own 100 Mb/s are not in the way.
    assert refused.value.detail["earliest"] == T0 + 1200
    moved = {"rate": 300 * MBPS, "start": T0 + 1200, "end": T0 + 4800}
    assert running.change(who, own.id, moved).result().terms.rate == 300 * MBPS
    # If the packets are reserved by then, the suggestion is later.
    running.book(who, terms(800 * MBPS, T0 + 10_000, 100, selector=port(3))).result()
    running.book(who, terms(1 * MBPS, T0 + 10_100, 50, selector=port(4))).result()
    with pytest.raises(RefusedError) as later:
        asked = terms(500 * MBPS, T0 + 10_000, 100, selector=port(4))
        running.book(who, asked, wishes=Wishes(avoid_nodes=("r3",))).result()
    assert later.value.detail["earliest"] == T0 + 10_150
    with pytest.raises(
        ConflictError, match=r"reservation 4 .* up to .*; expected other ports"
    ) as its:
        running.book(who, terms(MBPS, T0 + 10_120, 100, selector=port(4))).result()
    assert its.value.detail["earliest"] == T0 + 10_150


def test_a_time_after_a_conflict_of_packets_has_room(running: ReservationService) -> None:
    who, detour = user(running), Wishes(avoid_nodes=("r3",))
    running.book(who, terms(100 * MBPS, T0 + 60, 100, selector=port(1)), wishes=detour).result()
    running.book(who, terms(800 * MBPS, T0 + 160, 100, selector=port(2)), wishes=detour).result()
    asked = terms(500 * MBPS, T0 + 100, 50, selector=port(1))
    with pytest.raises(ConflictError, match="reservation 1 is for some of the packets") as claimed:
        running.book(who, asked, wishes=detour).result()
    # Not when the packets are free again, at 160.
    assert claimed.value.detail["earliest"] == T0 + 260


def test_a_refusal_says_on_how_many_ways_it_looked(tmp_path: Path, clock: Clock) -> None:
    """There are twelve ways, of which some are not looked at."""
    ways = "".join(
        f"  - {{ends: [r, s], rate: 10 Mbps, reservable: 100%, name: w{n}}}\n" for n in range(12)
    )
    text = (
        "perhop: 1\nname: wide\nnodes: {a: host, b: host, r: router, s: router}\nlinks:\n"
        "  - {ends: [a, r], rate: 1 Gbps, reservable: 100%}\n"
        f"{ways}  - {{ends: [s, b], rate: 1 Gbps, reservable: 100%}}\nflows: {{}}\n"
    )
    with service(tmp_path / "b.db", clock, text) as running:
        who = user(running)
        ends = {"source": "a", "destination": "b"}
        for number in range(1, 13):
            own = terms(8 * MBPS, selector=port(number), **ends)
            running.book(who, own, path=["a>r", f"r>s#w{number - 1}", "s>b"]).result()
        with pytest.raises(RefusedError, match="on the 8 ways that were looked at") as refused:
            running.book(who, terms(8 * MBPS, selector=port(99), **ends)).result()
        assert refused.value.detail["ways"] == 8
        running.cancel(who, 12, "").result()
        # Where one of the others has room, it is found.
        found = running.book(who, terms(8 * MBPS, selector=port(99), **ends)).result()
        assert found.path[1] == "r>s#w11"


def test_paths_keep_to_what_is_asked(running: ReservationService) -> None:
    who = user(running)
    short, long = ("slac>r1", "r1>r2", "r2>cern"), ("slac>r1", "r1>r3", "r3>r2", "r2>cern")
    asked = terms(MBPS)
    free = running.free(asked, Wishes()).result()
    assert free.alternatives == [short, long]
    assert (free.widest, free.widest_rate) == (short, 800 * MBPS)
    for wishes, path in (
        (Wishes(via=("r3",)), long),
        (Wishes(avoid_links=("r1>r2",)), long),
        (Wishes(max_hops=3), short),
        (Wishes(avoid_nodes=("r3",)), short),
    ):
        assert running.free(asked, wishes).result().alternatives == [path]
    with pytest.raises(BadRequestError, match="no path from slac to cern was found"):
        running.book(who, asked, wishes=Wishes(max_delay=6 * 10**6, via=("r3",))).result()
    with pytest.raises(BadRequestError, match="there is no link 'r1>cern'"):
        running.book(who, asked, path=["slac>r1", "r1>cern"]).result()
    loop = ["slac>r1", "r1>r3", "r3>r2", "r2>r1", "r1>r2", "r2>cern"]
    for named, message in (
        (loop, "comes to r1 twice"),
        (["slac>r1", "r1>slac", "slac>r1"], "comes to slac twice"),
        (["slac>r1", "r1>r3", "r3>bnl", "bnl>r3"], "the path leads through bnl"),
        (["slac>r1", "r1>r2"], "the path ends at r2; expected one to cern"),
    ):
        for direction in ("forward", "both"):
            with pytest.raises(BadRequestError, match=message):
                running.book(who, replace(asked, direction=direction), path=named).result()
    with pytest.raises(BadRequestError, match="the path goes on from slac"):
        running.book(who, asked, path=["r1>r2"]).result()


def test_both_directions_are_booked(running: ReservationService) -> None:
    who = user(running)
    running.book(who, terms(direction="both", selector=port(5011))).result()
    free = running.timeline(T0 + 60, T0 + 61).result()
    assert free["r1>r2"][0].free == free["r2>r1"][0].free == 790 * MBPS
    # What comes back has its ports the other way round.
    back = terms(source="cern", destination="slac", selector=Selector("tcp", (5011, 5011)))
    with pytest.raises(ConflictError, match="from cern to slac"):
        running.book(who, back).result()


def test_a_class_has_its_own_share(running: ReservationService) -> None:
    who = user(running)
    asked = [terms(150 * MBPS, class_="gold", selector=port(n)) for n in (1, 2)]
    path = ["slac>r1", "r1>r2", "r2>cern"]
    running.book(who, asked[0], path=path).result()
    with pytest.raises(RefusedError, match="class gold of r1>r2: 50 Mbps is"):
        running.book(who, asked[1], path=path).result()
    assert running.book(who, asked[1]).result().path[1] == "r1>r3"


def test_quotas_are_kept(running: ReservationService, clock: Clock) -> None:
    who = user(running, "les", reservations=3, rate=100 * MBPS, seconds=7200)
    running.book(who, terms(60 * MBPS, selector=port(1))).result()
    with pytest.raises(ConflictError, match="you have 60 Mbps in that time, and may have") as much:
        running.book(who, terms(50 * MBPS, selector=port(2))).result()
    assert "100 Mbps at once; expected less, or a time from 2027-01-15 09:01:00" in str(much.value)
    assert much.value.detail["earliest"] == T0 + 3660
    with pytest.raises(ConflictError, match="there is no other time for as long"):
        running.book(who, terms(101 * MBPS, selector=port(2))).result()
    with pytest.raises(ConflictError, match="yours may last 7200 s"):
        running.book(who, terms(seconds=7201)).result()
    later = running.book(who, terms(50 * MBPS, T0 + 3660, selector=port(2))).result()
    with pytest.raises(ConflictError, match="you have 60 Mbps in that time"):
        running.change(who, later.id, {"start": T0 + 3600, "end": T0 + 7200}).result()
    assert running.change(who, later.id, {"rate": 100 * MBPS}).result().version == 2
    running.book(who, terms(MBPS, T0 + 10_000, 60)).result()
    with pytest.raises(ConflictError, match="you have 3 reservations, and may have 3") as full:
        running.book(who, terms(MBPS, T0 + 20_000, 60)).result()
    assert "the first of yours ends at 2027-01-15 09:01:00 UTC" in str(full.value)
    assert full.value.detail["earliest"] == T0 + 3660
    running.cancel(who, later.id, "").result()
    clock.now += 120
    assert running.book(who, terms(MBPS, T0 + 20_000, 60)).result().id == 4


def test_an_interrupted_change_leaves_the_old_terms(tmp_path: Path, clock: Clock) -> None:
    with service(tmp_path / "b.db", clock) as running:
        who = user(running)
        own = active(running, who)
        assert running.change(who, own.id, {"rate": MBPS}).result().pending is not None
    with service(tmp_path / "b.db", clock) as again:
        assert again.outcomes.take_back(own.id, "perhop was interrupted").result() == own
        assert again.timeline(T0 + 5, T0 + 6).result()["r1>r2"][0].free == 790 * MBPS


def test_a_link_that_shrank_keeps_its_promises(tmp_path: Path, clock: Clock) -> None:
    with service(tmp_path / "b.db", clock) as running:
        who = user(running)
        running.book(who, terms(800 * MBPS)).result()
        running.book(who, terms(destination="bnl")).result()
    smaller = NETWORK.replace("total: 80%", "total: 20%").replace("r3, bnl]", "r2, bnl]")
    with service(tmp_path / "b.db", clock, smaller) as again:
        assert again.lost == [2]
        assert again.timeline(T0 + 60, T0 + 61).result()["r1>r2"] == [Stretch(T0 + 60, T0 + 61, 0)]
        assert again.cancel(who, 2, "the link is gone").result().state is State.CANCELLED
        assert again.cancel(who, 1, "").result().state is State.CANCELLED
        assert again.timeline(T0 + 60, T0 + 61).result()["r1>r2"][0].free == 200 * MBPS


def test_a_failed_commit_books_nothing(
    running: ReservationService, monkeypatch: pytest.MonkeyPatch
) -> None:
    who = user(running)
    running.book(who, terms()).result()
    with monkeypatch.context() as broken:

        def fail(*_: Any) -> None:
            raise sa.exc.OperationalError("INSERT", {}, OSError("no space left on device"))

        broken.setattr(running.database, "insert", fail)
        with pytest.raises(UnavailableError, match="no space left on device"):
            running.book(who, terms(selector=port(1), start=T0 + 9000)).result()
    free = running.timeline(T0, T0 + 20_000).result()["r1>r2"]
    assert [each.free for each in free] == [800 * MBPS, 790 * MBPS, 800 * MBPS]
    assert running.book(who, terms(start=T0 + 9000)).result().id == 2


def test_a_bug_in_a_decision_is_told_and_undone(running: ReservationService) -> None:
    who = user(running)

    def broken(_batch: object) -> None:
        raise ZeroDivisionError("a bug")

    with pytest.raises(ZeroDivisionError):
        running.writer.submit(broken).result()
    assert running.book(who, terms()).result().id == 1


def test_the_log_only_grows(running: ReservationService) -> None:
    who = user(running)
    own = running.book(who, terms(purpose="a demonstration")).result()
    running.change(
        who, own.id, {"rate": 5 * MBPS, "end": own.terms.end + 5}, reason="less"
    ).result()
    running.cancel(who, own.id, "rain").result()
    assert running.cancel(who, own.id, "again").result().state is State.CANCELLED
    told = [(e.author, e.action, e.state.value, e.reason) for e in running.register.log(own.id)]
    assert told == [
        ("les", "book", "planned", "a demonstration"),
        ("les", "change", "planned", "less"),
        ("les", "cancel", "cancelled", "rain"),
    ]
    assert running.register.log(own.id)[1].detail == {
        "rate": [10 * MBPS, 5 * MBPS],
        "end": [own.terms.end, own.terms.end + 5],
    }


def test_a_version_that_is_not_seen_is_not_changed(running: ReservationService) -> None:
    who = user(running)
    own = running.book(who, terms()).result()
    running.change(who, own.id, {"rate": 5}, version=1).result()
    with pytest.raises(ConflictError, match="is of version 2 by now, not 1"):
        running.change(who, own.id, {"rate": 6}, version=1).result()


def test_a_network_without_anything_to_reserve_is_refused() -> None:
    with pytest.raises(UsageError, match="nothing of square can be reserved"):
        network(
            NETWORK.replace("reservable", "remark")
            .replace("remark: 100%", "delay: 1 ms")
            .replace("remark: {total: 80%, classes: {gold: 20%}}", "loss: 0%")
            .replace("remark: 400 Mbps", "loss: 0%")
            .replace("remark: 50%", "loss: 0%")
            .replace("remark: {total: 100%, classes: {gold: 10%}}", "loss: 0%")
            .replace("flows: {}", "flows: {f: {from: slac, to: cern, stop: 1 s}}")
        )


def test_selectors_overlap_where_a_packet_could_match_both() -> None:
    selectors = [
        Selector(protocol, source, destination, dscp)
        for protocol in (None, "tcp", "udp")
        for source in (None, (1, 2))
        for destination in (None, (2, 3), (3, 4))
        for dscp in (None, 0, 46)
    ]
    packets = [
        (protocol, source, destination, dscp)
        for protocol in ("tcp", "udp", "icmp")
        for source in range(1, 6)
        for destination in range(1, 6)
        for dscp in (0, 8, 46)
    ]

    def matched(selector: Selector) -> set[tuple[str, int, int, int]]:
        def within(ports: tuple[int, int] | None, port: int) -> bool:
            return ports is None or ports[0] <= port <= ports[1]

        return {
            packet
            for packet in packets
            if selector.protocol in (None, packet[0])
            and within(selector.source_ports, packet[1])
            and within(selector.destination_ports, packet[2])
            and selector.dscp in (None, packet[3])
        }

    sets = {selector: matched(selector) for selector in selectors}
    for one in selectors:
        for other in selectors:
            assert one.overlaps(other) == bool(sets[one] & sets[other]), (one, other)


def test_a_user_who_is_disabled_books_no_more(running: ReservationService) -> None:
    who = replace(user(running), disabled=True, quota=Quota())
    with pytest.raises(PerhopError, match="les may no longer book"):
        running.book(who, terms()).result()


@SLOW
def test_everything_due_is_found(running: ReservationService) -> None:
    who = user(running)
    for number in range(3):
        running.book(who, terms(start=T0 + 10 * number, seconds=5)).result()
    assert [each.id for each in running.register.due(State.PLANNED, T0 + 10)] == [1, 2]
    assert [each.id for each in running.register.due(State.PLANNED, T0 + 15, ending=True)] == [1, 2]
    assert list(running.register.due(State.ACTIVE, T0 + 100)) == []
    with running.database.engine.connect() as connection:
        select = sa.select(RESERVATIONS.c.id).where(RESERVATIONS.c.state == "planned")
        assert len(connection.execute(select).all()) == 3
