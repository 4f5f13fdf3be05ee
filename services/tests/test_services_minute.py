"""PostgreSQL is away for a minute under load, and nothing is missed."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx

from conftest import DEADLINES, SLOW
from perhop_services.common.errors import UnavailableError
from perhop_services.reservations import messages as m
from perhop_services.reservations.client import Client
from perhop_services.reservations.drivers.file import FileDriver
from perhop_services.reservations.model import State
from postgres import restartable
from reserving_http import ask, booking, client, served
from test_reservations_enforcement import until

pytestmark = [DEADLINES, SLOW]

AWAY = 60.0


def packets(port: int) -> m.SelectorMessage:
    return m.SelectorMessage(protocol="udp", destination_ports=(port, port))


def test_postgresql_is_away_for_a_minute_under_load_and_nothing_is_missed(tmp_path: Path) -> None:
    router = FileDriver(str(tmp_path / "router.json"))
    stop, failed = threading.Event(), threading.Event()
    accepted: dict[str, int] = {}
    refused: set[str] = set()

    def load(user: Client, name: str) -> None:
        """Book one after the other; what is refused is asked again as the same request."""
        number = 0
        while not stop.is_set():
            key, asked = f"{name}-{number}", booking()
            while key not in accepted and not failed.is_set():
                try:
                    accepted[key] = user.book(asked, key).id
                except UnavailableError:
                    refused.add(key)
                    time.sleep(0.5)
            number += 1
            time.sleep(0.02)

    with (
        restartable() as postgresql,
        served(postgresql.url, tmp_path) as it,
        client(it, "op") as op,
    ):
        url = it[0]

        def health() -> httpx.Response:
            return ask("GET", f"{url}/healthz")

        def troubles() -> set[str]:
            return {name for name, text in health().json()["troubles"].items() if text}

        def state(number: int) -> State:
            return op.show(number).state

        now = int(time.time())
        spans = {"ending": (0, 30), "starting": (30, 3600), "between": (20, 20), "later": (90, 600)}
        own = {
            name: op.book(booking(start=now + at, seconds=seconds, selector=packets(port))).id
            for port, (name, (at, seconds)) in enumerate(spans.items(), 1000)
        }
        until(lambda: state(own["ending"]) is State.ACTIVE)
        assert health().status_code == 200
        users = [client(it, "les") for _ in range(4)]
        with ThreadPoolExecutor(4) as pool:
            loads = [pool.submit(load, user, f"u{n}") for n, user in enumerate(users)]
            try:
                until(lambda: len(accepted) > 20)
                postgresql.stop()
                away = time.monotonic()
                until(lambda: {"database", "perhop-enforcer"} <= troubles())
                before = len(accepted)
                while time.monotonic() - away < AWAY:
                    assert health().status_code == 503, "it is away"
                    assert {"database", "perhop-enforcer"} <= troubles()
                    time.sleep(1)
                assert len(accepted) == before, "nothing was promised that is not on file"
                assert len(refused) == 4, "each was told so, and asks again"
                postgresql.start()
                until(lambda: health().status_code == 200)
                until(lambda: len(accepted) > before + 20)
            except BaseException:
                failed.set()
                raise
            finally:
                stop.set()
            for each in loads:
                each.result()
        for user in users:
            user.close()
        until(lambda: state(own["ending"]) is State.FINISHED)
        until(lambda: state(own["starting"]) is State.ACTIVE)
        until(lambda: state(own["between"]) is State.FAILED)
        assert op.log(own["between"])[-1].reason == "perhop was away"
        until(lambda: state(own["later"]) is State.ACTIVE)
        numbers = {int(name.rpartition("_")[2]) for name in router.installed()}
        assert numbers == {own["starting"], own["later"]}
        # Whatever was accepted is on file, once; and what is on file was accepted.
        found: list[int] = []
        while page := op.reservations(after=found[-1] if found else 0):
            found += [each.id for each in page]
        assert sorted([*accepted.values(), *own.values()]) == found
        assert health().json()["status"] == "ok"
