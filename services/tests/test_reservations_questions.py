"""Every question of a calendar has an end, and other threads run while it is answered."""

import sys
import threading
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from conftest import SLOW
from perhop._core import (
    Booking,
    Calendar,
    CalendarLink,
    PacketSet,
    PathConstraints,
    StoredReservations,
)
from perhop_services.common.errors import ConflictError
from perhop_services.common.users import Quota
from perhop_services.reservations import records
from perhop_services.reservations.admission import Admission
from perhop_services.reservations.errors import RefusedError
from perhop_services.reservations.model import Terms, Wishes
from reserving import MBPS, T0, network, port, terms

pytestmark = SLOW

YEAR = 365 * 86_400

GAPS = 400_000
"""Bookings of 55 seconds, one in each minute: nothing of 6 seconds fits for nine months."""

PATH = ("slac>r1", "r1>r2", "r2>cern")
NO_DETOUR = Wishes(avoid_nodes=("r3",))


@cache
def lines() -> str:
    """Return reservations of the whole path, with gaps of 5 seconds, as they are on file."""
    own = terms(800 * MBPS, selector=port(1))
    rest = f"{own.rate}\t1\t1\t\t{records.about(own)}"
    return "\n".join(f"{n + 1}\t{T0 + 60 * n}\t{T0 + 60 * n + 55}\t{rest}" for n in range(GAPS))


@cache
def admission() -> Admission:
    made = Admission(network(), T0)
    made.restore({1: PATH}, [lines()], T0)
    return made


def asked(rate: int = 500 * MBPS, number: int = 2, seconds: int = 6) -> Terms:
    return terms(rate, T0 + 1, seconds, selector=port(number))


def test_a_refusal_has_an_end() -> None:
    """The search stops after a bounded effort, and the answer says how far it came."""
    with pytest.raises(RefusedError) as refused:
        admission().book(GAPS + 1, 1, asked(), NO_DETOUR, Quota(), None, T0)
    with pytest.raises(ConflictError, match="some of the packets") as claimed:
        admission().book(GAPS + 1, 1, asked(1, 1), NO_DETOUR, Quota(), None, T0)
    found = admission().free(asked(), NO_DETOUR, T0)
    for earliest, searched in (
        (refused.value.detail["earliest"], refused.value.detail["searched"]),
        (claimed.value.detail["earliest"], claimed.value.detail["searched"]),
        (found.earliest, found.searched),
    ):
        assert earliest is None
        assert T0 + 3600 < int(str(searched)) < T0 + 60 * GAPS


def test_a_search_for_room_and_quota_in_turns_has_an_end() -> None:
    """The link has room in odd minutes only, the quota in even minutes only."""
    made, quota = Admission(network(), T0), Quota(rate=500 * MBPS)
    made.holdings.learn_rates_of(1, T0, [])
    for minute in range(0, 1000, 2):
        start = T0 + 60 * minute
        full = terms(800 * MBPS, start, 60, selector=port(1))
        made.book(minute + 1, 2, full, Wishes(), Quota(), PATH, T0)
        mine = terms(MBPS, start + 60, 60, source="bnl", destination="slac")
        made.book(minute + 2, 1, mine, Wishes(), quota, None, T0)
    with pytest.raises(RefusedError) as refused:
        made.book(5000, 1, asked(), NO_DETOUR, quota, None, T0)
    assert refused.value.detail["earliest"] is None
    assert T0 < int(str(refused.value.detail["searched"])) < T0 + 3600


# Other threads run meanwhile


@cache
def gaps() -> Calendar:
    """Return a calendar of one full link with gaps, all for the same packets."""
    made = Calendar(T0, [CalendarLink(0, 1, 0, 10, [])])
    spans = [(n, T0 + 60 * n, T0 + 60 * n + 55) for n in range(GAPS)]
    made.restore({n: Booking([0], None, start, end, 10) for n, start, end in spans})
    made.selector(17, None, None, None)
    for n, start, end in spans:
        made.occupy(0, n, False, 0, start, end)
    return made


@cache
def mesh() -> Calendar:
    """Return a calendar of eight nodes, each linked to each, with a rate of its own free."""
    ends = [(one, other) for one in range(8) for other in range(8) if one != other]
    links = [CalendarLink(*each, 0, 1 + number, []) for number, each in enumerate(ends)]
    return Calendar(T0, links)


ANY = PathConstraints([])

QUESTIONS: dict[str, Callable[[], Any]] = {
    "fit": lambda: gaps().fit([[0]], None, T0, T0 + YEAR, 6, 1, [], None),
    "free": lambda: gaps().free([0], None, T0, T0 + YEAR, 1000),
    "claim": lambda: gaps().claim(
        [PacketSet(0, gaps().selector(6, None, None, None))], None, T0, T0 + YEAR
    ),
    "paths": lambda: mesh().paths((0, 7), None, T0, T0 + 1, 0, ANY, 10**6),
    "widest": lambda: mesh().widest((0, 7), None, T0, T0 + 1, ANY),
    "read": lambda: StoredReservations().read(lines()),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_others_run_while_a_question_is_answered(question: str) -> None:
    """The interpreter is let go of: another thread that waits for it gets it.

    Threads do not take turns here, so that one runs only while the other waits or lets go.
    """
    ask = QUESTIONS[question]
    ask()
    before, deadline = sys.getswitchinterval(), time.monotonic() + 30
    sys.setswitchinterval(1000)
    try:
        while True:
            turn, ran = threading.Event(), threading.Event()
            other = threading.Thread(
                target=lambda own: (own[0].wait(), own[1].set()), args=[(turn, ran)]
            )
            other.start()
            turn.set()
            wait = time.monotonic() + 0.02  # until it wants the interpreter
            while time.monotonic() < wait:
                pass
            assert not ran.is_set()
            ask()
            meanwhile = ran.is_set()
            other.join()
            if meanwhile:
                break
            assert time.monotonic() < deadline, "no other request ran meanwhile"
    finally:
        sys.setswitchinterval(before)
