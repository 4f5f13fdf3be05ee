"""Reservations are never more than there is, and what was said stays so."""

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perhop.errors import OutputError, PerhopError, UsageError
from perhop.reservations import database as databases
from perhop.reservations.database import Database
from perhop.reservations.errors import (
    BadRequestError,
    ConflictError,
    NotFoundError,
    RefusedError,
    UnavailableError,
)
from perhop.reservations.model import LIVE, Quota, Reservation, Selector, State, Terms, Wishes
from perhop.reservations.schema import METADATA, RESERVATIONS
from perhop.reservations.service import Service
from postgres import server
from reserving import MBPS, NETWORK, T0, Clock, network, service, terms, user

SMALL = """
perhop: 1
name: small
nodes: {a: host, b: host, c: host, r: router, s: router}
links:
  - {ends: [a, r], rate: 10 Mbps, reservable: 100%}
  - {ends: [r, s], rate: 10 Mbps, reservable: {total: 8 Mbps, classes: {gold: 3 Mbps}}, name: x}
  - {ends: [r, s], rate: 10 Mbps, reservable: 5 Mbps, name: y}
  - {ends: [s, b], rate: 10 Mbps, reservable: {total: 100%, classes: {gold: 10 Mbps}}}
  - {ends: [s, c], rate: 4 Mbps, reservable: 100%}
flows: {}
"""


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    with server() as url:
        yield url


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def running(tmp_path: Path, clock: Clock) -> Iterator[Service]:
    with service(tmp_path / "book.db", clock) as it:
        yield it


def port(number: int) -> Selector:
    return Selector("tcp", None, (number, number))


# Against a reference that looks at every reservation


class Reference:
    """What is booked, by looking at every reservation that is live."""

    def __init__(self, running: Service) -> None:
        self.network = running.network
        self.live = [r for r in running.listed(limit=10_000) if r.state in LIVE]

    def taken(self, reservation: Reservation) -> set[str]:
        there = [self.network.link(name) for name in reservation.path]
        return set(self.network.names(self.network.reserved(there, reservation.terms.direction)))

    def level(self, link: str, class_: str | None, second: int, but: int | None = None) -> int:
        return sum(
            r.terms.rate
            for r in self.live
            if r.id != but
            and r.terms.start <= second < r.terms.end
            and link in self.taken(r)
            and class_ in (None, r.terms.class_)
        )

    def reservable(self, link: str, class_: str | None) -> int:
        spec = self.network.links[self.network.link(link)]
        number = self.network.class_number(class_)
        return spec.reservable if number is None else spec.classes[number]

    def free(self, links: set[str], class_: str | None, start: int, end: int) -> int:
        """The least that is free on all of some links at any second."""
        edges = {start} | {
            edge for r in self.live for edge in (r.terms.start, r.terms.end) if start < edge < end
        }
        return min(
            self.reservable(link, which) - self.level(link, which, second)
            for second in edges
            for link in links
            for which in {None, class_}
        )

    def unclaimed(self, wanted: Terms, start: int) -> bool:
        """Whether nobody has some of the packets from a second on, for as long as wanted."""
        end = start + wanted.end - wanted.start
        return not any(
            one[:2] == two[:2] and one[2].overlaps(two[2])
            for r in self.live
            if r.terms.start < end and start < r.terms.end
            for one in r.terms.lanes
            for two in wanted.lanes
        )

    def moments(self, wanted: Terms) -> list[int]:
        """When something may come to fit: at the start that is wanted, and when another ends."""
        ends = {r.terms.end for r in self.live if r.terms.end > wanted.start}
        return [wanted.start, *sorted(ends)]

    def check(self, now: int) -> None:
        """Nothing is booked twice, from now on."""
        seconds = {now} | {r.terms.start for r in self.live if r.terms.start >= now}
        for link in self.network.links:
            for class_ in (None, *self.network.classes):
                for second in seconds:
                    assert self.level(link.name, class_, second) <= self.reservable(
                        link.name, class_
                    )


RATES = st.sampled_from([1, 2, 3, 4, 5, 8, 11]).map(lambda rate: rate * MBPS)
SPANS = st.tuples(st.integers(0, 200), st.integers(1, 120))
BOOK = st.fixed_dictionaries(
    {
        "rate": RATES,
        "span": SPANS,
        "ends": st.sampled_from([("a", "b"), ("a", "c"), ("b", "a"), ("b", "c")]),
        "direction": st.sampled_from(["forward", "forward", "reverse", "both"]),
        "class_": st.sampled_from([None, None, "gold"]),
        "hold": st.sampled_from([None, None, 5, 60]),
        "port": st.integers(1, 12),
    }
)
STEP = st.one_of(
    st.tuples(st.just("book"), BOOK),
    st.tuples(st.just("book"), BOOK),
    st.tuples(st.just("change"), st.integers(1, 20), RATES, st.integers(1, 200)),
    st.tuples(st.just("cancel"), st.integers(1, 20)),
    st.tuples(st.just("commit"), st.integers(1, 20)),
    st.tuples(st.just("wait"), st.integers(1, 40)),
)


def apply(running: Service, clock: Clock, who: Any, step: Any) -> None:
    reference = Reference(running)
    now = int(clock.now)
    match step:
        case ("book", asked):
            offset, seconds = asked["span"]
            source, destination = asked["ends"]
            wanted = Terms(
                source,
                destination,
                asked["rate"],
                now + offset,
                now + offset + seconds,
                1500,
                asked["direction"],
                port(asked["port"]),
                asked["class_"],
            )
            try:
                running.book(who, wanted, hold=asked["hold"]).result()
            except RefusedError as refusal:
                ways = [links(running, path, wanted) for path in between(source, destination)]
                judge(running, reference, ways, wanted, refusal)
            except ConflictError as conflict:
                ways = [links(running, path, wanted) for path in between(source, destination)]
                assert conflict.detail["earliest"] == suggestion(reference, ways, wanted)
                other = running.reservation(int(str(conflict.detail["reservation"])))
                assert other.state in LIVE
                assert other.terms.start < wanted.end
                assert wanted.start < other.terms.end
                assert any(
                    one[:2] == two[:2] and one[2].overlaps(two[2])
                    for one in other.terms.lanes
                    for two in wanted.lanes
                )
        case ("change", id_, rate, end):
            try:
                running.change(who, id_, {"rate": rate, "end": now + end}).result()
            except (NotFoundError, BadRequestError):
                pass
            except RefusedError as refusal:
                own = running.reservation(id_)
                reference.live = [r for r in reference.live if r.id != id_]
                wanted = replace(own.terms, rate=rate, end=now + end)
                wanted = replace(wanted, start=max(own.terms.start, now))
                judge(running, reference, [reference.taken(own)], wanted, refusal)
            except ConflictError:
                pass
        case ("cancel", id_):
            with suppress(NotFoundError, ConflictError):
                running.cancel(who, id_, "over").result()
        case ("commit", id_):
            with suppress(NotFoundError, ConflictError):
                assert running.commit(who, id_).result().state is State.PLANNED
        case ("wait", seconds):
            clock.now += seconds
            running.expire().result()
            for each in running.due(State.PLANNED, int(clock.now), ending=True):
                running.move(each.id, State.PLANNED, State.FAILED, "fail", "nobody came").result()
    Reference(running).check(int(clock.now))


def judge(
    running: Service,
    reference: Reference,
    ways: list[set[str]],
    wanted: Terms,
    refusal: RefusedError,
) -> None:
    """Every way was too narrow, and there is room when it says so, and not before."""
    assert refusal.detail["link"] in [link.name for link in running.network.links]

    assert not is_wide(reference, ways, wanted, wanted.start)
    assert refusal.detail["earliest"] == suggestion(reference, ways, wanted)


def is_wide(reference: Reference, ways: list[set[str]], wanted: Terms, start: int) -> bool:
    """Whether one of some ways has room from a second on."""
    end, least = start + wanted.end - wanted.start, wanted.rate
    return any(reference.free(way, wanted.class_, start, end) >= least for way in ways)


def suggestion(reference: Reference, ways: list[set[str]], wanted: Terms) -> int | None:
    """When there is room and nobody has the packets, for the first time."""
    moments = reference.moments(wanted)
    fits = (
        at
        for at in moments
        if is_wide(reference, ways, wanted, at) and reference.unclaimed(wanted, at)
    )
    return next(fits, None)


def between(source: str, destination: str) -> list[list[str]]:
    """The paths from one host to another."""
    routers = {"a": "r", "b": "s", "c": "s"}
    first, last = routers[source], routers[destination]
    middles = [[]] if first == last else [[f"{first}>{last}{which}"] for which in ("#x", "#y")]
    return [[f"{source}>{first}", *middle, f"{last}>{destination}"] for middle in middles]


def links(running: Service, path: list[str], wanted: Terms) -> set[str]:
    net = running.network
    return set(net.names(net.reserved([net.link(name) for name in path], wanted.direction)))


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(steps=st.lists(STEP, min_size=5, max_size=30))
def test_never_overbooked_and_every_refusal_is_right(steps: list[Any]) -> None:
    with TemporaryDirectory() as folder:
        place, clock = Path(folder) / "book.db", Clock()
        with service(place, clock, SMALL) as running:
            who = user(running)
            for step in steps:
                apply(running, clock, who, step)
            now = int(clock.now)
            before = running.timeline(now, now + 1000).result(), running.admission.bookings
        with service(place, clock, SMALL) as again:
            assert again.timeline(now, now + 1000).result() == before[0]
            assert again.lost == []


# What earlier systems got wrong


def test_the_peak_counts_and_not_the_sum(running: Service) -> None:
    who = user(running)
    for number, start in enumerate((T0 + 100, T0 + 200)):
        # One after the other: together they are never more than one of them.
        asked = terms(700 * MBPS, start, 100, selector=port(number + 1))
        assert running.book(who, asked).result().state is State.PLANNED
    across = terms(100 * MBPS, T0 + 50, 300, selector=port(9))
    assert running.book(who, across).result().path == ("slac>r1", "r1>r2", "r2>cern")


def test_two_equal_bookings_count_twice(running: Service) -> None:
    who = user(running)
    path = ["slac>r1", "r1>r2", "r2>cern"]
    for number in (1, 2):
        running.book(who, terms(300 * MBPS, selector=port(number)), path=path).result()
    free = running.timeline(T0 + 60, T0 + 3660).result()["r1>r2"]
    assert free == [(T0 + 60, T0 + 3660, 200 * MBPS)]


def test_bookings_back_to_back_do_not_meet(running: Service) -> None:
    who = user(running)
    running.book(who, terms(seconds=60)).result()
    assert running.book(who, terms(start=T0 + 120, seconds=60)).result().id == 2
    with pytest.raises(ConflictError, match="reservation 1 is for some of the packets"):
        running.book(who, terms(start=T0 + 119, seconds=1)).result()


def clients_at_once(running: Service) -> None:
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


def test_the_last_capacity_is_booked_once(running: Service) -> None:
    clients_at_once(running)


def test_the_last_capacity_is_booked_once_on_postgresql(
    postgres: str, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with service(postgres, clock) as running:
        clients_at_once(running)
        before = running.timeline(T0, T0 + 10_000).result()
    with service(postgres, clock) as again:
        assert again.timeline(T0, T0 + 10_000).result() == before
        monkeypatch.setattr(databases, "PATIENCE", 0.5)
        with pytest.raises(UsageError, match="in use by another perhop"):
            Database(postgres)


def test_what_a_killed_process_had_sent_still_counts(postgres: str, clock: Clock) -> None:
    with service(postgres, clock) as running:
        running.book(user(running), terms(destination="bnl")).result()
        late = running.database.engine.connect()
        late.detach()  # so that it is closed in the end
    # The server has not noticed yet that whoever sent this is gone.
    late.execute(RESERVATIONS.update().values(state=State.CANCELLED.value))
    commit = threading.Timer(2, late.commit)
    commit.start()
    with service(postgres, clock) as again:
        assert again.admission.bookings == 0
    commit.join()
    late.close()


def test_what_was_refused_has_left_nothing(running: Service) -> None:
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
    assert running.listed() == []
    assert running.log() == []
    assert running.admission.bookings == 0


def active(running: Service, who: Any, **given: Any) -> Reservation:
    own = running.book(who, terms(start=T0, **given)).result()
    moved = running.move(own.id, State.PLANNED, State.ACTIVE, "start", "").result()
    assert moved is not None
    return moved


def test_a_change_is_checked_before_anything_changes(running: Service) -> None:
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
        assert running.reservation(own.id) == own
        assert running.timeline(T0, T0 + 20_000).result() == free


def test_room_is_kept_until_a_change_is_in_place(running: Service, clock: Clock) -> None:
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
    back = running.take_back(own.id, "the router refused").result()
    assert (back.terms, back.pending) == (own.terms, None)
    running.change(who, own.id, {"rate": 100 * MBPS}).result()
    assert running.settle(own.id, who.name).result().terms.rate == 100 * MBPS
    other = terms(700 * MBPS, T0 + 60, destination="bnl")
    with pytest.raises(RefusedError):
        running.book(who, other).result()  # 400 Mb/s is all that r3 has
    assert running.timeline(T0 + 10, T0 + 20).result()["r1>r2"][0][2] == 700 * MBPS


def test_others_reservations_are_nobodys_business(running: Service) -> None:
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
        running.seen_by(other, own.id)
    assert running.change(operator, own.id, {"rate": 5}).result().terms.rate == 5
    assert running.log(own.id)[-1].author == "op"


def test_a_hold_is_committed_or_expires_but_not_both(running: Service, clock: Clock) -> None:
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
        expired = pool.submit(running.expire().result)
        cancels = [pool.submit(running.cancel(who, each, "").result) for each in (3, 4)]
        assert all(isinstance(each.exception(), ConflictError) for each in commits)
        assert 5 <= expired.result() <= 7
        assert all(each.result().state is State.CANCELLED for each in cancels)
    for each in range(2, 9):
        assert [entry.state for entry in running.log(each)] == [State.HELD, State.CANCELLED]
    assert running.admission.bookings == 1


def test_the_same_key_is_the_same_reservation(running: Service) -> None:
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


def test_a_refusal_says_what_is_in_the_way_and_when_it_would_be_free(running: Service) -> None:
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


def test_a_refused_change_says_when_it_would_be_free(running: Service) -> None:
    who = user(running)
    own = running.book(who, terms(100 * MBPS, seconds=3600, selector=port(1))).result()
    running.book(who, terms(600 * MBPS, T0 + 600, 600, selector=port(2))).result()
    with pytest.raises(RefusedError, match="300 Mbps is not free on r1>r2: 200 Mbps is") as refused:
        running.change(who, own.id, {"rate": 300 * MBPS}).result()
    # Its own 100 Mb/s are not in the way.
    assert refused.value.detail["earliest"] == T0 + 1200
    moved = {"rate": 300 * MBPS, "start": T0 + 1200, "end": T0 + 4800}
    assert running.change(who, own.id, moved).result().terms.rate == 300 * MBPS
    # Where the packets are somebody else's by then, it is later.
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


def test_paths_keep_to_what_is_asked(running: Service) -> None:
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


def test_both_directions_are_booked(running: Service) -> None:
    who = user(running)
    running.book(who, terms(direction="both", selector=port(5011))).result()
    free = running.timeline(T0 + 60, T0 + 61).result()
    assert free["r1>r2"][0][2] == free["r2>r1"][0][2] == 790 * MBPS
    # What comes back has its ports the other way round.
    back = terms(source="cern", destination="slac", selector=Selector("tcp", (5011, 5011)))
    with pytest.raises(ConflictError, match="from cern to slac"):
        running.book(who, back).result()


def test_a_class_has_its_own_share(running: Service) -> None:
    who = user(running)
    asked = [terms(150 * MBPS, class_="gold", selector=port(n)) for n in (1, 2)]
    path = ["slac>r1", "r1>r2", "r2>cern"]
    running.book(who, asked[0], path=path).result()
    with pytest.raises(RefusedError, match="class gold of r1>r2: 50 Mbps is"):
        running.book(who, asked[1], path=path).result()
    assert running.book(who, asked[1]).result().path[1] == "r1>r3"


def test_quotas_are_kept(running: Service, clock: Clock) -> None:
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
        assert again.take_back(own.id, "perhop was interrupted").result() == own
        assert again.timeline(T0 + 5, T0 + 6).result()["r1>r2"][0][2] == 790 * MBPS


def test_a_link_that_shrank_keeps_its_promises(tmp_path: Path, clock: Clock) -> None:
    with service(tmp_path / "b.db", clock) as running:
        who = user(running)
        running.book(who, terms(800 * MBPS)).result()
        running.book(who, terms(destination="bnl")).result()
    smaller = NETWORK.replace("total: 80%", "total: 20%").replace("r3, bnl]", "r2, bnl]")
    with service(tmp_path / "b.db", clock, smaller) as again:
        assert again.lost == [2]
        assert again.timeline(T0 + 60, T0 + 61).result()["r1>r2"] == [(T0 + 60, T0 + 61, 0)]
        assert again.cancel(who, 2, "the link is gone").result().state is State.CANCELLED
        assert again.cancel(who, 1, "").result().state is State.CANCELLED
        assert again.timeline(T0 + 60, T0 + 61).result()["r1>r2"][0][2] == 200 * MBPS


def test_a_failed_commit_books_nothing(running: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    who = user(running)
    running.book(who, terms()).result()
    with monkeypatch.context() as broken:

        def fail(*_: Any) -> None:
            raise sa.exc.OperationalError("INSERT", {}, OSError("no space left on device"))

        broken.setattr(running.database, "insert", fail)
        with pytest.raises(UnavailableError, match="no space left on device"):
            running.book(who, terms(selector=port(1), start=T0 + 9000)).result()
    free = running.timeline(T0, T0 + 20_000).result()["r1>r2"]
    assert [each[2] for each in free] == [800 * MBPS, 790 * MBPS, 800 * MBPS]
    assert running.book(who, terms(start=T0 + 9000)).result().id == 2


def test_a_bug_in_a_decision_is_told_and_undone(running: Service) -> None:
    who = user(running)

    def broken(_batch: object) -> None:
        raise ZeroDivisionError("a bug")

    with pytest.raises(ZeroDivisionError):
        running.writer.submit(broken).result()
    assert running.book(who, terms()).result().id == 1


def test_the_log_only_grows(running: Service) -> None:
    who = user(running)
    own = running.book(who, terms(purpose="a demonstration")).result()
    running.change(
        who, own.id, {"rate": 5 * MBPS, "end": own.terms.end + 5}, reason="less"
    ).result()
    running.cancel(who, own.id, "rain").result()
    assert running.cancel(who, own.id, "again").result().state is State.CANCELLED
    told = [(e.author, e.action, e.state.value, e.reason) for e in running.log(own.id)]
    assert told == [
        ("les", "book", "planned", "a demonstration"),
        ("les", "change", "planned", "less"),
        ("les", "cancel", "cancelled", "rain"),
    ]
    assert running.log(own.id)[1].detail == {
        "rate": [10 * MBPS, 5 * MBPS],
        "end": [own.terms.end, own.terms.end + 5],
    }


def test_a_version_that_is_not_seen_is_not_changed(running: Service) -> None:
    who = user(running)
    own = running.book(who, terms()).result()
    running.change(who, own.id, {"rate": 5}, version=1).result()
    with pytest.raises(ConflictError, match="is of version 2 by now, not 1"):
        running.change(who, own.id, {"rate": 6}, version=1).result()


# The database


def schema_is_as_declared(url: str) -> None:
    database = Database(url)
    try:
        with database.engine.connect() as connection:
            context = MigrationContext.configure(connection)
            assert compare_metadata(context, METADATA) == []
    finally:
        database.close()


def test_migrations_make_what_is_declared(tmp_path: Path, postgres: str) -> None:
    schema_is_as_declared(str(tmp_path / "b.db"))
    schema_is_as_declared(postgres)


def test_one_process_has_a_database(tmp_path: Path, clock: Clock) -> None:
    with (
        service(tmp_path / "b.db", clock),
        pytest.raises(UsageError, match=f"in use by process {os.getpid()}; one process at a time"),
    ):
        Database(str(tmp_path / "b.db"))


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("mysql://host/db", "mysql is not a database of perhop's"),
        ("postgresql://nobody@127.0.0.1:1/none", "127.0.0.1"),
        ("/nowhere/at/all.db", "No such file"),
    ],
)
def test_a_database_that_cannot_be_had_is_explained(url: str, message: str) -> None:
    with pytest.raises(PerhopError, match=message):
        Database(url)


def test_a_database_is_not_made_by_serving(tmp_path: Path) -> None:
    for url in (str(tmp_path / "typo.db"), str(tmp_path)):
        with pytest.raises(UsageError, match="there is no database of reservations at"):
            Database(url, create=False)
    assert not list(tmp_path.iterdir())
    with server() as url, pytest.raises(UsageError, match="make one with"):
        Database(url, create=False)
    (tmp_path / "other.db").write_bytes(b"")
    with pytest.raises(UsageError, match="make one with"):
        Database(str(tmp_path / "other.db"), create=False)


def test_nobody_else_may_read_a_database(tmp_path: Path, clock: Clock) -> None:
    old = os.umask(0)
    try:
        with service(tmp_path / "b.db", clock) as running:
            running.book(user(running), terms()).result()
            modes = {each.name: each.stat().st_mode & 0o777 for each in tmp_path.iterdir()}
            assert modes == dict.fromkeys(("b.db", "b.db-wal", "b.db-shm", "b.db.lock"), 0o600)
        (tmp_path / "b.db").chmod(0o644)
        Database(str(tmp_path / "b.db")).close()
        assert (tmp_path / "b.db").stat().st_mode & 0o777 == 0o600
    finally:
        os.umask(old)


def test_a_damaged_database_is_refused(tmp_path: Path, clock: Clock) -> None:
    with service(tmp_path / "b.db", clock) as running:
        who = user(running)
        for number in range(1, 40):
            running.book(who, terms(1000, purpose="x" * 500, selector=port(number))).result()
    data = bytearray((tmp_path / "b.db").read_bytes())
    for page in range(8, len(data) // 4096 - 2):
        data[page * 4096 : page * 4096 + 100] = os.urandom(100)
    (tmp_path / "b.db").write_bytes(data)
    with pytest.raises(OutputError, match=r"is damaged|malformed"):
        Database(str(tmp_path / "b.db"))


def test_a_newer_database_is_left_alone(tmp_path: Path) -> None:
    database = Database(str(tmp_path / "b.db"))
    with database.writing() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    database.close()
    with pytest.raises(UsageError, match="made by a newer perhop"):
        Database(str(tmp_path / "b.db"))


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


def test_a_user_who_is_disabled_books_no_more(running: Service) -> None:
    who = replace(user(running), disabled=True, quota=Quota())
    with pytest.raises(PerhopError, match="les may no longer book"):
        running.book(who, terms()).result()


def test_everything_due_is_found(running: Service) -> None:
    who = user(running)
    for number in range(3):
        running.book(who, terms(start=T0 + 10 * number, seconds=5)).result()
    assert [each.id for each in running.due(State.PLANNED, T0 + 10)] == [1, 2]
    assert [each.id for each in running.due(State.PLANNED, T0 + 15, ending=True)] == [1, 2]
    assert list(running.due(State.ACTIVE, T0 + 100)) == []
    with running.database.engine.connect() as connection:
        select = sa.select(RESERVATIONS.c.id).where(RESERVATIONS.c.state == "planned")
        assert len(connection.execute(select).all()) == 3
