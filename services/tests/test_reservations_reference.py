"""Bookings, changes and refusals against a reference that looks at every reservation."""

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conftest import SLOW
from perhop_services.common.errors import BadRequestError, ConflictError, NotFoundError
from perhop_services.reservations.errors import RefusedError
from perhop_services.reservations.model import LIVE, Reservation, State, Terms
from perhop_services.reservations.service import ReservationService
from reserving import MBPS, Clock, port, service, user

pytestmark = SLOW

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


class Reference:
    """Return the booked rate, by examining every reservation that is live."""

    def __init__(self, running: ReservationService) -> None:
        self.network = running.network
        self.live = [r for r in running.register.listed(limit=10_000) if r.state in LIVE]

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
        """Return whether the packets are free from a second on, for as long as wanted."""
        end = start + wanted.end - wanted.start
        return not any(
            one[:2] == two[:2] and one[2].overlaps(two[2])
            for r in self.live
            if r.terms.start < end and start < r.terms.end
            for one in r.terms.packets
            for two in wanted.packets
        )

    def moments(self, wanted: Terms) -> list[int]:
        """Return the possible starts of a fit: the wanted start, and the ends of others."""
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


def apply(running: ReservationService, clock: Clock, who: Any, step: Any) -> None:
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
                other = running.register.reservation(int(str(conflict.detail["reservation"])))
                assert other.state in LIVE
                assert other.terms.start < wanted.end
                assert wanted.start < other.terms.end
                assert any(
                    one[:2] == two[:2] and one[2].overlaps(two[2])
                    for one in other.terms.packets
                    for two in wanted.packets
                )
        case ("change", id_, rate, end):
            try:
                running.change(who, id_, {"rate": rate, "end": now + end}).result()
            except (NotFoundError, BadRequestError):
                pass
            except RefusedError as refusal:
                own = running.register.reservation(id_)
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
            running.outcomes.expire().result()
            for each in running.register.due(State.PLANNED, int(clock.now), ending=True):
                running.outcomes.move(
                    each.id, State.PLANNED, State.FAILED, "fail", "nobody came"
                ).result()
    Reference(running).check(int(clock.now))


def judge(
    running: ReservationService,
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
    """Return whether one of some ways has room from a second on."""
    end, least = start + wanted.end - wanted.start, wanted.rate
    return any(reference.free(way, wanted.class_, start, end) >= least for way in ways)


def suggestion(reference: Reference, ways: list[set[str]], wanted: Terms) -> int | None:
    """Return the first time at which there is room and the packets are free."""
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


def links(running: ReservationService, path: list[str], wanted: Terms) -> set[str]:
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
