"""Threads, pools and logs that every service has."""

import ast
import json
import logging
import threading
from pathlib import Path

import pytest

from perhop_services.common import supervised
from perhop_services.common.errors import UnavailableError
from perhop_services.common.logs import Lines, fields
from perhop_services.common.supervised import Pool, Supervised
from test_reservations_enforcement import until

SERVICES = Path(__file__).parents[1] / "perhop_services"


def test_a_thread_that_fails_at_once_waits_between_its_steps() -> None:
    steps: list[int] = []

    def step() -> None:
        steps.append(1)
        raise ZeroDivisionError("a bug")

    thread = Supervised("a thread", step, 0.0)
    try:
        until(lambda: thread.trouble == "ZeroDivisionError: a bug")
        assert not threading.Event().wait(0.3)
        assert len(steps) < 5
    finally:
        thread.close()


def test_an_outage_that_comes_and_goes_is_two_lines(caplog: pytest.LogCaptureFixture) -> None:
    """That it goes on is logged where its failure is: "goes on" once for each took over a log."""
    steps: list[int] = []

    def step() -> None:
        steps.append(1)
        if len(steps) % 2:
            raise UnavailableError("this disk comes and goes")

    thread = Supervised("a thread that flaps", step, 0.0)
    try:
        until(lambda: len(steps) > 8)
    finally:
        thread.close()
    assert [each.getMessage() for each in caplog.records] == [
        "a thread that flaps: this disk comes and goes",
        "a thread that flaps: goes on",
    ]


def test_a_task_that_fails_is_logged_and_shown(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(error: Exception) -> None:
        raise error

    pool = Pool("a pool", 1)
    try:
        pool.submit({"reservation": 7}, fail, ZeroDivisionError("a bug"))
        until(lambda: pool.trouble == "ZeroDivisionError: a bug")
        pool.submit({}, fail, UnavailableError("away"))
        until(lambda: pool.trouble == "UnavailableError: away")
        told = [(each.levelno, each.getMessage()) for each in caplog.records]
        assert told == [(logging.ERROR, "a pool: a bug"), (logging.WARNING, "a pool: away")]
        assert vars(caplog.records[0])["fields"] == {"reservation": 7}
        with monkeypatch.context() as later:
            later.setattr(supervised, "SHOWN", 0.0)
            assert pool.trouble == ""
        pool.submit({}, int)
        until(lambda: pool.trouble == "")
    finally:
        pool.close()


def record(message: str, **about: object) -> logging.LogRecord:
    made = logging.LogRecord("perhop_services", logging.ERROR, "", 0, message, (), None)
    vars(made).update(fields(**about))
    made.created, made.threadName = 1_800_000_000.25, "a thread"
    return made


def test_a_line_of_the_log_has_its_fields() -> None:
    said = Lines(as_json=False).format(record("no\nmore", webhook=3, url="a b", name=""))
    at = "2027-01-15T08:00:00.250+00:00"
    assert said == f'{at} ERROR a thread: no\\nmore webhook=3 url="a b" name=""'
    line = json.loads(Lines(as_json=True).format(record("no\nmore", webhook=3)))
    assert line == {
        "at": at,
        "level": "ERROR",
        "thread": "a thread",
        "message": "no\nmore",
        "webhook": 3,
    }


def test_every_thread_of_a_service_is_supervised() -> None:
    """Threads and pools of threads are made in one module only."""
    made = {"Thread", "ThreadPoolExecutor", "ProcessPoolExecutor", "Timer"}
    for path in SERVICES.rglob("*.py"):
        if path.name == "supervised.py":
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            name = getattr(node, "attr", getattr(node, "id", ""))
            assert name not in made, path
