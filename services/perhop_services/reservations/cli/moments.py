"""Times, rates and packets, as `perhop reserve` reads and writes them."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import ValidationError

from perhop.errors import UsageError
from perhop.units import SECOND, format_rate, parse_duration, parse_rate, parse_size, quote
from perhop_services.reservations.messages import Message, SelectorMessage

if TYPE_CHECKING:
    from perhop_services.reservations.messages import ReservationMessage

M = TypeVar("M", bound=Message)


def rate(text: str) -> int:
    """Return the bits per second of a text such as ``10 Mbps``."""
    return _read(parse_rate, text)


def seconds(text: str) -> int:
    """Return the whole seconds of a text such as ``1 h``."""
    whole, rest = divmod(_read(parse_duration, text), SECOND)
    if rest:
        raise UsageError(f"{quote(text)} is not a whole number of seconds")
    return whole


def instant(text: str) -> int:
    """Return the second since 1970 of ``2026-12-01 10:00``, UTC, or ``+10 min``."""
    if text.startswith("+"):
        return int(time.time()) + seconds(text[1:].strip())
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"{quote(text)} is no time; expected one such as `2026-12-01 10:00`, or `+10 min`"
        ) from None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())


def when(second: int) -> str:
    """Format a second, in UTC."""
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def packets(given: dict[str, Any], before: SelectorMessage | None = None) -> dict[str, Any]:
    """Return selector, burst and purpose of options; values that are not given stay."""
    found: dict[str, Any] = {}
    if given["burst"] is not None:
        found["burst"] = _read(parse_size, given["burst"])
    if given["purpose"] is not None:
        found["purpose"] = given["purpose"]
    parts = {
        "protocol": given["protocol"],
        "destination_ports": _ports(given["port"]),
        "source_ports": _ports(given["source_port"]),
        "dscp": None if given["dscp"] is None else _read(_dscp, given["dscp"]),
    }
    chosen = {name: value for name, value in parts.items() if value is not None}
    if chosen:
        kept = before.model_dump() if before is not None else {}
        found["selector"] = checked(SelectorMessage, kept | chosen)
    return found


def checked(kind: type[M], given: dict[str, Any]) -> M:
    """A message of what options say.

    Raises:
        UsageError: It would be refused as it is.
    """
    try:
        return kind(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        first = error.errors()[0]
        raise UsageError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None


def line(reservation: ReservationMessage) -> str:
    """Return a reservation as one line."""
    own = reservation
    arrow = {"forward": "->", "reverse": "<-", "both": "<->"}[own.direction]
    text = (
        f"{own.id:>6}  {own.state:<9}  {when(own.start)} to {when(own.end)}  "
        f"{own.source} {arrow} {own.destination}  {format_rate(own.rate)}  "
        f"{own.selector.selector()}  {own.owner}"
    )
    return text + (f"  ({own.purpose})" if own.purpose else "")


def _ports(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    low, _, high = text.partition("-")
    if not low.isdigit() or not (high or low).isdigit():
        raise UsageError(f"{quote(text)} is not a port or range such as `5000-5010`")
    return int(low), int(high or low)


def _dscp(text: str) -> int:
    # It takes as long to import as the rest of most commands.
    from perhop.scenario.model.dscp import parse_dscp

    return parse_dscp(text)


def _read(parse: Any, text: str) -> int:
    try:
        value: int = parse(text)
    except ValueError as error:
        raise UsageError(str(error)) from None
    return value
