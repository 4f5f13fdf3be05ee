"""Routes for reservations: search, book, change and read counters."""

import asyncio
from collections.abc import Iterator
from typing import Annotated

from fastapi import APIRouter, Header, Path, Query, Request, Response
from fastapi.responses import StreamingResponse

from perhop_services.common.http.access import Feed, Operator, Who
from perhop_services.common.http.problems import PROBLEMS
from perhop_services.reservations import icalendar
from perhop_services.reservations import messages as m
from perhop_services.reservations.enforcement import Enforcer
from perhop_services.reservations.model import LIVE, State
from perhop_services.reservations.service import ReservationService

router = APIRouter(prefix="/api", responses=PROBLEMS, tags=["reservations"])

Id = Annotated[int, Path(ge=1, le=2**53, description="The number of a reservation.")]
Seconds = Annotated[int, Query(ge=0, le=m.MAX_SECOND)]


def _service(request: Request) -> ReservationService:
    found: ReservationService = request.app.state.service
    return found


def _enforcer(request: Request) -> Enforcer:
    found: Enforcer = request.app.state.enforcer
    return found


def _json(model: m.Message, status: int = 200) -> Response:
    """Return an answer that was made from valid data and needs no validation."""
    return Response(model.model_dump_json(by_alias=True), status, media_type="application/json")


@router.get("/network")
async def network(request: Request, _who: Who) -> m.NetworkMessage:
    """The links that can be reserved."""
    return m.NetworkMessage.of(_service(request).network)


@router.get("/free")
async def free(
    request: Request, _who: Who, asked: Annotated[m.FreeQuestion, Query()]
) -> m.FreeMessage:
    """The free bandwidth between two nodes in a span, and the earliest start for a rate."""
    service = _service(request)
    found = await asyncio.wrap_future(service.free(asked.terms(), asked.wishes(), asked.until))
    return m.FreeMessage.of(found)


@router.get("/timeline")
async def timeline(
    request: Request,
    _who: Who,
    start: Seconds,
    end: Seconds,
    class_: Annotated[str | None, Query(alias="class", max_length=64)] = None,
) -> dict[str, list[m.Stretch]]:
    """The free bandwidth of every link that can be reserved."""
    found = await asyncio.wrap_future(_service(request).timeline(start, end, class_))
    return {link: m.Stretch.all(stretches) for link, stretches in found.items()}


@router.post("/reservations", status_code=201, response_model=m.ReservationMessage)
async def book(
    request: Request,
    who: Who,
    body: m.Booking,
    idempotency_key: Annotated[
        str | None, Header(min_length=1, max_length=128, pattern=r"^[!-~]+$")
    ] = None,
) -> Response:
    """Book or hold a reservation.

    A repeated request with the same `Idempotency-Key` has the same answer.
    """
    service = _service(request)
    reservation = await asyncio.wrap_future(
        service.book(
            who.user,
            body.terms(service.now),
            wishes=body.wishes.wishes(),
            path=body.path,
            hold=body.hold,
            key=idempotency_key,
            asked=body.model_dump(mode="json"),
        )
    )
    return _json(m.ReservationMessage.of(reservation), 201)


@router.get("/reservations")
def listed(
    request: Request,
    who: Who,
    state: Annotated[list[State] | None, Query(max_length=6)] = None,
    start: Annotated[int | None, Query(ge=0, le=m.MAX_SECOND)] = None,
    end: Annotated[int | None, Query(ge=0, le=m.MAX_SECOND)] = None,
    mine: bool = False,
    after: Annotated[int, Query(ge=0, le=2**53)] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> list[m.ReservationMessage]:
    """Your reservations, by number; operators get those of all users."""
    everybody = who.user.sees_all and not mine
    during = None if start is None and end is None else (start or 0, end or m.MAX_SECOND)
    found = _service(request).register.listed(
        None if everybody else who.user.id, state or (), during, after, limit
    )
    return [m.ReservationMessage.of(each) for each in found]


@router.get("/reservations/{number}")
def show(request: Request, who: Who, number: Id) -> m.ReservationMessage:
    """A reservation."""
    return m.ReservationMessage.of(_service(request).register.seen_by(who.user, number))


@router.patch("/reservations/{number}")
def change(request: Request, who: Who, number: Id, body: m.Change) -> m.ReservationMessage:
    """Change a reservation in place. The answer comes when the routers have the new values."""
    service, enforcer = _service(request), _enforcer(request)
    changed = service.change(
        who.user, number, body.changes(), reason=body.reason, version=body.version
    ).result()
    if changed.pending is not None:
        changed = enforcer.apply_change(changed, who.user.name)
    return m.ReservationMessage.of(changed)


@router.post("/reservations/{number}/commit")
async def commit(request: Request, who: Who, number: Id) -> m.ReservationMessage:
    """Commit a held reservation."""
    done = await asyncio.wrap_future(_service(request).commit(who.user, number))
    return m.ReservationMessage.of(done)


@router.post("/reservations/{number}/cancel")
async def cancel(request: Request, who: Who, number: Id, body: m.Reason) -> m.ReservationMessage:
    """Cancel a reservation."""
    done = await asyncio.wrap_future(_service(request).cancel(who.user, number, body.reason))
    _enforcer(request).cancelled(done)
    return m.ReservationMessage.of(done)


@router.post("/reservations/{number}/confirm")
def confirm(request: Request, who: Operator, number: Id) -> m.ReservationMessage:
    """Confirm that the routers were configured by hand."""
    own = _service(request).register.seen_by(who.user, number)
    return m.ReservationMessage.of(_enforcer(request).confirm(who.user, own))


@router.get("/reservations/{number}/configuration")
def configuration(
    request: Request,
    who: Who,
    number: Id,
    what: Annotated[str, Query(pattern="^(set|change|remove)$")] = "set",
) -> dict[str, str]:
    """The router configuration of a reservation, as text."""
    own = _service(request).register.seen_by(who.user, number)
    return {"configuration": _enforcer(request).routers.configuration(own, what)}


@router.get("/reservations/{number}/log")
def log(
    request: Request,
    who: Who,
    number: Id,
    after: Annotated[int, Query(ge=0, le=2**53)] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 1000,
) -> list[m.LogMessage]:
    """The log of a reservation, by number. The next page begins after the last number."""
    service = _service(request)
    service.register.seen_by(who.user, number)
    return [m.LogMessage.of(entry) for entry in service.register.log(number, after, limit)]


@router.get("/reservations/{number}/counters")
def counters(
    request: Request,
    who: Who,
    number: Id,
    most: Annotated[int, Query(ge=2, le=10_000)] = 2_000,
) -> list[m.CountersMessage]:
    """The readings of a reservation's counters, in order.

    If there are more than `most`, readings are left out at regular distances. The first and the
    last
    reading since counters were cleared always remain.
    """
    service = _service(request)
    service.register.seen_by(who.user, number)
    names = m.CountersMessage.model_fields
    return [
        m.CountersMessage(**{name: row[name] for name in names})
        for row in service.register.series(number, most)
    ]


@router.delete("/reservations/{number}/counters", status_code=204)
def clear(request: Request, who: Who, number: Id) -> None:
    """Clear the counters of a reservation. The stored series remains."""
    own = _service(request).register.seen_by(who.user, number)
    _enforcer(request).clear(who.user, own)


@router.get("/calendar.ics", response_class=Response)
def feed(request: Request, who: Feed) -> Response:
    """Your reservations as a calendar feed (RFC 5545)."""
    service = _service(request)
    states = [*sorted(LIVE), State.FINISHED]

    def pages() -> Iterator[str]:
        yield icalendar.HEAD
        after = 0
        while found := service.register.listed(who.user.id, states, after=after, limit=1000):
            yield icalendar.events(found, service.now)
            after = found[-1].id
        yield icalendar.END

    return StreamingResponse(pages(), media_type="text/calendar; charset=utf-8")
