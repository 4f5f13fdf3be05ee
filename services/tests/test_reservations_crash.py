"""Killed at any moment under load, the service has lost nothing that it said it had.

`PERHOP_CRASHES` is how often it is killed on each database: 2 unless set; `make bench-reserve` has
50.
"""

import json
import os
import random
import signal
import socket
import subprocess
import sys
import sysconfig
import threading
import time
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path

import httpx
import pytest

from conftest import DEADLINES, SLOW
from perhop_services.common.errors import ServiceError, UnavailableError
from perhop_services.reservations import messages as m
from perhop_services.reservations.client import Client
from perhop_services.reservations.model import State
from postgres import server as postgresql
from reserving import MBPS, NETWORK, PASSWORD, network
from reserving_http import ask

pytestmark = [DEADLINES, SLOW]

ROUNDS = int(os.environ.get("PERHOP_CRASHES", "2"))
PERHOP = Path(sysconfig.get_path("scripts"), "perhop")
CLIENTS = 6


class ServiceProcess:
    """A service in a process of its own, which can be killed."""

    def __init__(self, folder: Path, database: str) -> None:
        self.folder = folder
        (folder / "network.yaml").write_text(NETWORK)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.database = database
        init = [PERHOP, "reserve", "init", "root", "--database", self.database]
        subprocess.run(init, input=f"{PASSWORD}\n", text=True, check=True, capture_output=True)

    @contextmanager
    def running(self) -> Iterator[subprocess.Popen[bytes]]:
        command = [
            sys.executable,
            str(PERHOP),
            "reserve",
            "serve",
            str(self.folder / "network.yaml"),
            "--database",
            self.database,
            "--driver",
            f"*=file:{self.folder / 'router.json'}",
            "--listen",
            f"127.0.0.1:{self.port}",
            "--every",
            "0.5",
        ]
        log = (self.folder / "log").open("ab")
        with log, subprocess.Popen(command, stdout=log, stderr=log) as process:
            try:
                deadline = time.monotonic() + 60
                while True:
                    try:
                        ask("GET", f"{self.url}/healthz")
                        break
                    except httpx.HTTPError:
                        said = (self.folder / "log").read_text()
                        assert process.poll() is None, said
                        assert time.monotonic() < deadline, said
                        time.sleep(0.05)
                yield process
            finally:
                process.kill()


class Load:
    """Clients that book, change and cancel, and remember what they were told."""

    def __init__(self, url: str, token: str, seed: int) -> None:
        self.url, self.token = url, token
        self.told: dict[int, m.ReservationMessage] = {}
        self.open: dict[str, m.Booking] = {}
        self.ended = threading.Event()
        self.threads = [
            threading.Thread(target=self.work, args=(random.Random(seed * 100 + n), seed, n))
            for n in range(CLIENTS)
        ]

    def wait_for(self, count: int) -> None:
        """Wait until so many bookings were acknowledged."""
        deadline = time.monotonic() + 60
        while len(self.told) < count:
            assert time.monotonic() < deadline, f"{len(self.told)} of {count} were acknowledged"
            time.sleep(0.005)

    def work(self, chance: random.Random, seed: int, own: int) -> None:
        mine: list[int] = []
        with Client(self.url, token=self.token, timeout=30) as client:
            while not self.ended.is_set():
                key = f"{seed}-{own}-{chance.getrandbits(60)}"
                # Half begin at once, and are active when it happens; some of them end soon.
                start = int(time.time()) + chance.choice([0, 1, 3600, 3600])
                port = chance.randint(1, 60_000)
                selector = m.SelectorMessage(protocol="tcp", destination_ports=(port, port))
                asked = m.Booking(
                    source="slac",
                    destination=chance.choice(["cern", "bnl"]),
                    rate=MBPS // 10,
                    start=start,
                    end=start + chance.choice([3, 3600, 3600]),
                    selector=selector,
                )
                self.open[key] = asked
                try:
                    made = client.book(asked, key)
                    mine.append(made.id)
                    self.told[made.id] = made
                    del self.open[key]
                    one = chance.choice(mine)
                    if chance.random() < 0.3:
                        change = m.Change(rate=chance.randint(1, 9) * MBPS // 100)
                        self.told[one] = client.change(one, change)
                    elif chance.random() < 0.4:
                        self.told[one] = client.cancel(one)
                        mine.remove(one)
                except UnavailableError:
                    return  # it was killed
                except ServiceError:
                    continue  # another has the port


@pytest.fixture(params=["SQLite", "PostgreSQL"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "SQLite":
        yield str(tmp_path / "b.db")
    else:
        with postgresql() as url:
            yield url


def test_what_was_acknowledged_is_there_after_it_was_killed(tmp_path: Path, database: str) -> None:
    service = ServiceProcess(tmp_path, database)
    chance = random.Random(1)
    with service.running(), Client(service.url) as root:
        token = root.log_in("root", PASSWORD)
    for number in range(ROUNDS):
        load = Load(service.url, token, number)
        with service.running() as process:
            for thread in load.threads:
                thread.start()
            # In the middle of work, sooner or later.
            load.wait_for(chance.randint(1, 60))
            time.sleep(chance.uniform(0, 0.05))
            process.send_signal(signal.SIGKILL)
            process.wait()
            load.ended.set()
            for thread in load.threads:
                thread.join(60)
                assert not thread.is_alive()
        with service.running(), Client(service.url, token=token) as client:
            found = everything(client)
            # Every acknowledged one, at least as far as was said.
            for id_, told in load.told.items():
                assert found[id_].version >= told.version
                assert told.state is not State.CANCELLED or found[id_].state is State.CANCELLED
            # What was not answered is booked once, however often it is asked.
            for key, asked in load.open.items():
                ids = set()
                for _ in range(2):
                    try:
                        ids.add(client.book(asked, key).id)
                    except ServiceError as error:
                        assert error.status in (409, 422), error  # by now its time has begun
                assert len(ids) <= 1
            agree(client, tmp_path / "router.json")


def everything(client: Client) -> dict[int, m.ReservationMessage]:
    found: dict[int, m.ReservationMessage] = {}
    while page := client.reservations(after=max(found, default=0), limit=1000):
        found |= {each.id: each for each in page}
    return found


def agree(client: Client, router: Path) -> None:
    """Database, calendar and router say the same, once what is due was done."""
    deadline = time.monotonic() + 120
    while True:
        found = everything(client)
        now = int(time.time())
        active = {
            each.id: (each.rate, each.burst)
            for each in found.values()
            if each.state is State.ACTIVE
        }
        due = [r for r in found.values() if r.state is State.PLANNED and r.start <= now + 2]
        rules = json.loads(router.read_text()) if router.exists() else {}
        installed = {
            int(name.rpartition("_")[2]): (rule["rate"], rule["burst"])
            for name, rule in rules.items()
        }
        timeline = client.timeline(now, now + 8000)
        # Nothing began or ended in between.
        still = everything(client) == found
        if (
            still
            and installed == active
            and not due
            and not any(r.changing for r in found.values())
        ):
            break
        assert time.monotonic() < deadline, (installed.items() ^ active.items(), due)
        time.sleep(0.2)
    live = [r for r in found.values() if r.state in (State.HELD, State.PLANNED, State.ACTIVE)]
    links = {link.name: link for link in network().links}
    for name, stretches in timeline.items():
        own = [each for each in live if name in each.path]
        steps = sorted((at, by) for r in own for at, by in ((r.start, r.rate), (r.end, -r.rate)))
        times, levels = [at for at, _ in steps], [0, *accumulate(by for _, by in steps)]
        for stretch in stretches:
            for second in (stretch.start, stretch.end - 1):
                booked = levels[bisect_right(times, second)]
                assert stretch.free == links[name].reservable - booked, (name, second)
    lasting = [r for r in live if r.end > now + 600]
    for each in lasting[-40:]:
        log = client.log(each.id)
        assert log[0].action == "book"
        assert log[-1].state == each.state
