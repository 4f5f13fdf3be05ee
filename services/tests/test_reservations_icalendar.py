"""The calendar feed is iCalendar (RFC 5545), whatever people write."""

import re
from datetime import UTC, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from perhop_services.reservations.icalendar import calendar
from perhop_services.reservations.model import Reservation, State
from reserving import T0, terms

NAME = re.compile(r"[A-Za-z0-9-]+")


def parsed(text: str) -> list[tuple[str, str]]:
    """Names and values of content lines (section 3.1): CRLF, 75 bytes, folded by a space."""
    assert text.endswith("\r\n")
    physical = text.encode().split(b"\r\n")[:-1]
    assert all(len(line) <= 75 for line in physical)
    lines: list[bytes] = []
    for line in physical:
        # A fold is never inside a character.
        line.decode()
        if line.startswith(b" "):
            lines[-1] += line[1:]
        else:
            lines.append(line)
    found = []
    for line in lines:
        assert not re.search(rb"[\x00-\x08\x0a-\x1f\x7f]", line), "no control characters"
        name, _, value = line.decode().partition(":")
        assert NAME.fullmatch(name), name
        found.append((name, value))
    return found


def unescaped(value: str) -> str:
    """A value of the type TEXT (section 3.3.11)."""
    assert re.fullmatch(r"(?:[^\\;,]|\\[\\;,nN])*", value), value
    return re.sub(r"\\(.)", lambda found: {"n": "\n", "N": "\n"}.get(found[1], found[1]), value)


def reservation(
    number: int, purpose: str, state: State = State.PLANNED, **given: Any
) -> Reservation:
    own = terms(purpose=purpose, **given)
    return Reservation(number, 1, "les", own, ("r1>r2",), state, None, 3, T0)


@given(st.lists(st.text(max_size=200), max_size=4))
def test_what_people_write_comes_back(purposes: list[str]) -> None:
    events = [reservation(number, text) for number, text in enumerate(purposes)]
    found = parsed(calendar(events, T0))
    assert found[0] == ("BEGIN", "VCALENDAR")
    assert found[-1] == ("END", "VCALENDAR")
    assert [name for name, _ in found].count("BEGIN") == len(purposes) + 1
    told = [unescaped(value) for name, value in found if name == "DESCRIPTION"]
    # Without what a calendar may not contain: control characters but tabs and ends of lines.
    kept = [re.sub("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]", "", text) for text in purposes]
    assert told == kept


def test_an_event_has_what_it_must_have() -> None:
    states = [State.HELD, State.PLANNED, State.ACTIVE, State.CANCELLED, State.FAILED]
    events = [reservation(number, "p", state) for number, state in enumerate(states)]
    found = parsed(calendar(events, T0 + 5))
    assert dict(found)["VERSION"] == "2.0"
    assert "PRODID" in dict(found)
    starts = [place for place, line in enumerate(found) if line == ("BEGIN", "VEVENT")]
    seen = set()
    for place, state in zip(starts, states, strict=True):
        event = dict(found[place + 1 : found.index(("END", "VEVENT"), place)])
        seen.add(event["UID"])
        assert event["DTSTAMP"] == instant(T0 + 5)
        assert (event["DTSTART"], event["DTEND"]) == (instant(T0 + 60), instant(T0 + 3660))
        assert event["SEQUENCE"] == "2", "it has been changed twice"
        assert event["SUMMARY"] == "10 Mbps slac to cern"
        status = {State.HELD: "TENTATIVE", State.CANCELLED: "CANCELLED", State.FAILED: "CANCELLED"}
        assert event["STATUS"] == status.get(state, "CONFIRMED")
    assert len(seen) == len(states)


def instant(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y%m%dT%H%M%SZ")
