"""A change that is being put in place counts with both its terms, whatever crashes meanwhile."""

from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conftest import SLOW
from perhop._core import Stretch
from perhop_services.common.errors import BadRequestError, ConflictError, NotFoundError
from perhop_services.reservations.drivers import driver
from perhop_services.reservations.enforcement import Enforcer
from perhop_services.reservations.errors import RefusedError
from perhop_services.reservations.model import LIVE, Reservation, Selector, State, Terms
from perhop_services.reservations.service import ReservationService
from postgres import server
from reserving import MBPS, NETWORK, T0, Clock, service, terms, user

pytestmark = SLOW

LINE = """
perhop: 1
name: line
nodes: {a: host, b: host, r: router, s: router}
links:
  - {ends: [a, r], rate: 10 Mbps, reservable: 100%}
  - {ends: [r, s], rate: 10 Mbps, reservable: {total: 8 Mbps, classes: {gold: 4 Mbps}}}
  - {ends: [s, b], rate: 10 Mbps, reservable: {total: 100%, classes: {gold: 10 Mbps}}}
flows: {}
"""
PATH = ["slac>r1", "r1>r2", "r2>cern"]


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    with server() as url:
        yield url


def port(number: int) -> Selector:
    return Selector("tcp", None, (number, number))


class Running:
    """A service that can crash at any time, with a reference beside it."""

    def __init__(self, place: Path, stack: ExitStack, clock: Clock) -> None:
        self.place, self.clock = place, clock
        self._open = stack.enter_context(ExitStack())
        self.service = self._start()

    def _start(self) -> ReservationService:
        return self._open.enter_context(service(self.place, self.clock, LINE))

    def crash(self, how: str) -> None:
        """Lose what is in memory: all of it, or by a decision that broke."""
        before = self.timelines()
        if how == "restart":
            self._open.close()
            self.service = self._start()
        else:

            def broken(_batch: object) -> None:
                raise ZeroDivisionError("a bug")

            assert self.service.writer.submit(broken).exception() is not None
        assert self.timelines() == before

    def live(self) -> list[Reservation]:
        return [r for r in self.service.register.listed(limit=1000) if r.state in LIVE]

    def timelines(self) -> list[dict[str, list[Stretch]]]:
        now = int(self.clock.now)
        return [self.service.timeline(now, now + 500, each).result() for each in (None, "gold")]

    def check(self) -> None:
        """The calendar has what is on file, and that is never more than there is."""
        net = self.service.network
        live = self.live()
        for class_, timeline in zip((None, "gold"), self.timelines(), strict=True):
            for name, stretches in timeline.items():
                link, own = net.links[net.link(name)], [r for r in live if name in r.path]
                room = {class_: link.classes[0], None: link.reservable}
                for stretch in stretches:
                    for second in (stretch.start, stretch.end - 1):
                        left = [
                            there - sum(taken(r, which, second) for r in own)
                            for which, there in room.items()
                        ]
                        assert min(left) >= 0, "overbooked"
                        assert stretch.free == min(left)


def taken(reservation: Reservation, class_: str | None, second: int) -> int:
    """Return the rate that a reservation needs at a second: of its terms or the pending ones."""
    either = (reservation.terms, reservation.pending)
    return max(
        each.rate
        if each and each.start <= second < each.end and class_ in (None, each.class_)
        else 0
        for each in either
    )


NUMBER = st.integers(1, 3)
RATE = st.integers(1, 8)
SECONDS = st.integers(20, 200)
CHANGE = st.tuples(st.just("change"), NUMBER, RATE, SECONDS)
STEP = st.one_of(
    st.tuples(st.just("book"), RATE, SECONDS, st.sampled_from([None, None, "gold"])),
    CHANGE,
    CHANGE,
    st.tuples(st.just("settle"), NUMBER),
    st.tuples(st.just("take back"), NUMBER),
    st.tuples(st.just("cancel"), NUMBER),
    st.tuples(st.just("wait"), st.integers(1, 40)),
)
CRASH = st.sampled_from(["reload", "reload", "restart", ""])
STEPS = st.lists(st.tuples(STEP, CRASH), min_size=3, max_size=10)


def apply(running: Running, who: Any, step: Any) -> None:
    it, now = running.service, int(running.clock.now)
    with suppress(BadRequestError, ConflictError, NotFoundError):
        match step:
            case ("book", rate, seconds, class_):
                asked = Terms(
                    "a",
                    "b",
                    rate * MBPS,
                    now,
                    now + seconds,
                    1500,
                    "forward",
                    port(len(it.register.listed()) + 1),
                    class_,
                )
                made = it.book(who, asked).result()
                it.outcomes.move(made.id, State.PLANNED, State.ACTIVE, "start", "").result()
            case ("change", id_, rate, seconds):
                it.change(who, id_, {"rate": rate * MBPS, "end": now + seconds}).result()
            case ("settle", id_):
                it.outcomes.settle(id_, "les").result()
            case ("take back", id_):
                it.outcomes.take_back(id_, "no").result()
            case ("cancel", id_):
                it.cancel(who, id_, "").result()
            case ("wait", seconds):
                running.clock.now += seconds
                for each in it.register.due(State.ACTIVE, int(running.clock.now), ending=True):
                    it.outcomes.move(each.id, State.ACTIVE, State.FINISHED, "finish", "").result()


@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow])
@given(rate=RATE, steps=STEPS)
def test_never_overbooked_whatever_crashes_between_two_steps(rate: int, steps: list[Any]) -> None:
    with TemporaryDirectory() as folder, ExitStack() as stack:
        running = Running(Path(folder) / "b.db", stack, Clock())
        who = user(running.service)
        first = [(("book", 2, 100, None), ""), (("change", 1, rate, 100), "reload")]
        for step, crash in [*first, *steps]:
            apply(running, who, step)
            running.check()
            if crash:
                running.crash(crash)
                running.check()


def active(running: ReservationService, who: Any, **given: Any) -> Reservation:
    own = running.book(who, terms(start=T0, **given), path=PATH).result()
    moved = running.outcomes.move(own.id, State.PLANNED, State.ACTIVE, "start", "").result()
    assert moved is not None
    return moved


def overbook(place: str | Path) -> None:
    """A change to 790 Mb/s is pending when the service dies; then a request for 700 arrives."""
    clock = Clock()
    with service(place, clock) as running:
        who = user(running, rate=800 * MBPS)
        own = active(running, who, rate=10 * MBPS, selector=port(1))
        running.change(who, own.id, {"rate": 790 * MBPS, "selector": port(2)}).result()
    with service(place, clock) as running:
        assert running.timeline(T0, T0 + 1).result()["r1>r2"][0].free == 10 * MBPS
        with pytest.raises(RefusedError):
            running.book(
                user(running, "eve"), terms(700 * MBPS, T0, selector=port(3)), path=PATH
            ).result()
        # A quota and the packets of both terms are still taken, too.
        with pytest.raises(ConflictError, match="you have 790 Mbps in that time"):
            running.book(who, terms(11 * MBPS, T0, selector=port(4)), path=PATH).result()
        for number in (1, 2):
            with pytest.raises(ConflictError, match="reservation 1 is for some of the packets"):
                running.book(who, terms(MBPS, T0, selector=port(number)), path=PATH).result()
        assert running.outcomes.settle(own.id, "op").result().terms.rate == 790 * MBPS
        assert running.timeline(T0, T0 + 1).result()["r1>r2"][0].free == 10 * MBPS


def test_a_pending_change_keeps_its_room_over_a_restart(tmp_path: Path, postgres: str) -> None:
    overbook(tmp_path / "b.db")
    overbook(postgres)


def test_a_change_is_checked_again_when_it_is_in_place(tmp_path: Path) -> None:
    clock = Clock()
    with service(tmp_path / "b.db", clock) as running:
        who = user(running)
        own = active(running, who, rate=10 * MBPS, selector=port(1))
        active(running, who, rate=100 * MBPS, selector=port(2))
        running.change(who, own.id, {"rate": 300 * MBPS}).result()
    # While it was down, the configured link was made smaller: 200 Mb/s.
    smaller = NETWORK.replace("total: 80%", "total: 20%")
    with service(tmp_path / "b.db", clock, smaller) as running:
        enforcer = Enforcer(running, {"*": driver("ios")}, beat=3600)
        try:
            pending = running.register.reservation(own.id)
            with pytest.raises(RefusedError, match="300 Mbps is not free on r1>r2: 100 Mbps is"):
                enforcer.confirm(user(running, "op", "operator"), pending)
        finally:
            enforcer.close()
        assert running.register.reservation(own.id) == own
        assert "configure the old terms again" in running.register.log(own.id)[-1].reason
        assert running.timeline(T0, T0 + 1).result()["r1>r2"][0].free == 90 * MBPS
        # Less than there was always fits.
        running.change(who, own.id, {"rate": 5 * MBPS}).result()
        assert running.outcomes.settle(own.id, "op").result().terms.rate == 5 * MBPS


def test_old_terms_hold_again_where_there_is_too_little(tmp_path: Path) -> None:
    clock = Clock()
    with service(tmp_path / "b.db", clock) as running:
        own = active(running, user(running), rate=800 * MBPS, selector=port(1))
    smaller = NETWORK.replace("total: 80%", "total: 20%")
    with service(tmp_path / "b.db", clock, smaller) as running:
        who = user(running)
        running.change(who, own.id, {"rate": 150 * MBPS}).result()
        # What it was promised is kept until the change is in place, and holds again.
        asked = replace(terms(50 * MBPS, T0), selector=Selector("udp"))
        with pytest.raises(RefusedError):
            running.book(who, asked, path=PATH).result()
        assert running.outcomes.take_back(own.id, "no").result() == own
        with pytest.raises(RefusedError):
            running.book(who, asked, path=PATH).result()
