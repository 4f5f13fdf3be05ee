"""A service started with a wrong clock changes nothing until a human says that it is right."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from conftest import DEADLINES
from perhop_services.common.errors import UnavailableError
from perhop_services.common.steady import TRIAL, SteadyClock
from perhop_services.reservations.enforcement import Enforcer
from perhop_services.reservations.model import Reservation, State
from perhop_services.reservations.schema import open_database
from perhop_services.reservations.service import ReservationService
from reserving import T0, Clock, network, port, terms, user
from test_reservations_enforcement import Router, until

pytestmark = DEADLINES

DAY = 86_400
YEARS = 3650 * DAY


@contextmanager
def started(folder: Path, clock: Clock, *, accept: bool = False) -> Iterator[ReservationService]:
    database = open_database(str(folder / "b.db"))
    database.identity = ""
    try:
        running = ReservationService(network(), database, clock=clock, accept_clock=accept)
        try:
            yield running
        finally:
            running.close()
    finally:
        database.close()


def booked(folder: Path) -> list[Reservation]:
    """An active, a planned and a held reservation."""
    with started(folder, Clock()) as running:
        who = user(running)
        active = running.book(who, terms(start=T0, selector=port(1))).result()
        running.outcomes.move(active.id, State.PLANNED, State.ACTIVE, "start", "").result()
        running.book(who, terms(selector=port(2))).result()
        running.book(who, terms(selector=port(3)), hold=600, key="held").result()
        return running.register.listed()


@pytest.mark.parametrize("jump", [YEARS, 2 * DAY, -2 * DAY, -YEARS])
def test_nothing_is_changed_with_a_clock_that_jumped(tmp_path: Path, jump: int) -> None:
    before = booked(tmp_path)
    router = Router(tmp_path / "router.json")
    with started(tmp_path, Clock(T0 + jump)) as running:
        enforcer = Enforcer(running, {"*": router}, beat=0.02)
        try:
            until(lambda: "--accept-clock" in enforcer.thread.trouble)
            time.sleep(0.2)
            for asked in (
                running.book(user(running), terms(start=T0 + jump, selector=port(4))),
                running.cancel(user(running), before[0].id, ""),
                running.outcomes.tidy(),
            ):
                with pytest.raises(UnavailableError, match="--accept-clock"):
                    asked.result()
            assert router.asked == []
            assert running.timeline(T0 + jump, T0 + jump + 60).result()
        finally:
            enforcer.close()
        assert running.register.listed() == before
    # Put right, it goes on as if nothing had been.
    with started(tmp_path, Clock(T0 + 1)) as running:
        assert running.writer.read_only == ""
        again = running.book(user(running), terms(selector=port(3)), hold=600, key="held")
        assert again.result() == before[2]


def test_a_clock_that_is_right_is_accepted_once(tmp_path: Path) -> None:
    booked(tmp_path)
    for jump, accept in ((YEARS, True), (YEARS + 60, False), (0, True), (60, False)):
        with started(tmp_path, Clock(T0 + jump), accept=accept) as running:
            assert running.writer.read_only == ""


def test_a_booking_with_a_clock_that_went_back_is_refused_with_the_reason(tmp_path: Path) -> None:
    clock = Clock()
    with started(tmp_path, clock) as running:
        for back in (3600, DAY):
            clock.now = T0 - back
            with pytest.raises(UnavailableError, match="the clock went back"):
                running.book(user(running), terms(start=T0 - back, selector=port(1))).result()
        clock.now = T0 + 1
        running.book(user(running), terms(selector=port(1))).result()


def test_a_jump_of_more_than_a_day_is_never_followed() -> None:
    wall, boot = Clock(T0), Clock(1000.0)
    clock = SteadyClock(wall, boot)
    for jump in (YEARS, -2 * DAY):
        wall.now = T0 + jump
        clock()
        boot.now += 3 * TRIAL
        wall.now += 3 * TRIAL
        assert clock() == T0 + boot.now - 1000
