"""Speed of reservations: `make bench-reserve`.

Admission and the earliest fit inside the engine, each beside a list that is sorted for each request
(`cargo bench -p perhop-calendar`); bookings a second through the API, each on the disk before it is
answered, on SQLite and on a PostgreSQL of its own; and how long the service takes to start with a
million reservations on file, until it answers. With `--service` without the engine.
"""

import asyncio
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "services" / "tests")]

from perhop.scenario import load  # noqa: E402
from perhop_services.common.people import People  # noqa: E402
from perhop_services.common.users import Role  # noqa: E402
from perhop_services.reservations.network import Network  # noqa: E402
from perhop_services.reservations.schema import PATHS, RESERVATIONS, open_database  # noqa: E402
from perhop_services.reservations.service import ReservationService  # noqa: E402
from postgres import server as postgresql  # noqa: E402
from reserving import PASSWORD  # noqa: E402

ROUTERS = 100
HOPS = 5
MILLION = 1_000_000
YEAR = 365 * 86_400
CONNECTIONS = 64
SECONDS = 10
PORT = 18_473


def network_file(folder: Path) -> Path:
    """A ring of routers, 200 links in one direction, with a host at each router."""
    nodes = [f"  r{n}: router\n  h{n}: host" for n in range(ROUTERS)]
    ring = [
        f"  - {{ends: [r{n}, r{(n + 1) % ROUTERS}], rate: 40 Gbps, reservable: 100%}}\n"
        f"  - {{ends: [h{n}, r{n}], rate: 400 Gbps, reservable: 100%}}"
        for n in range(ROUTERS)
    ]
    path = folder / "ring.yaml"
    text = "perhop: 1\nname: ring\nnodes:\n{}\nlinks:\n{}\nflows: {{}}\n"
    path.write_text(text.format("\n".join(nodes), "\n".join(ring)))
    return path


def made_ready(database: str) -> str:
    """An administrator in a database, and a token of theirs."""
    opened = open_database(database)
    try:
        people = People(opened)
        people.add("bench", PASSWORD, Role.ADMINISTRATOR)
        return people.make_token(people.named("bench"), "api", "bench", None)
    finally:
        opened.close()


@contextmanager
def serving(network: Path, database: str) -> Iterator[float]:
    """A service in a process of its own; gives how long it took to answer."""
    command = [
        Path(sys.executable).with_name("perhop"),
        "reserve",
        "serve",
        network,
        "--database",
        database,
        "--listen",
        f"127.0.0.1:{PORT}",
    ]
    began = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            while True:
                try:
                    httpx.get(f"http://127.0.0.1:{PORT}/api/openapi.json", timeout=60)
                    break
                except httpx.ConnectError:
                    if process.poll() is not None:
                        raise RuntimeError("the service ended") from None
                    time.sleep(0.02)
            yield time.perf_counter() - began
        finally:
            process.terminate()
            process.wait(60)


def body(chance: random.Random, now: int) -> bytes:
    """A request as the benchmark of the calendar has it: an hour to seven days within a year."""
    seconds = chance.randint(3600, 7 * 86_400)
    start = now + 3600 + chance.randint(0, YEAR - seconds)
    first = chance.randrange(ROUTERS)
    port = chance.randint(1, 65_535)
    asked: dict[str, Any] = {
        "source": f"h{first}",
        "destination": f"h{(first + HOPS - 2) % ROUTERS}",
        "rate": chance.randint(1, 100) * 10**6,
        "start": start,
        "seconds": seconds,
        "selector": {"protocol": "tcp", "destination_ports": [port, port]},
    }
    return json.dumps(asked).encode()


async def booked(token: str) -> tuple[int, list[float]]:
    """Bookings that were acknowledged in some seconds, and how long each took."""
    now, until = int(time.time()), time.perf_counter() + SECONDS
    times: list[float] = []

    async def client(number: int) -> int:
        chance = random.Random(number)
        reader, writer = await asyncio.open_connection("127.0.0.1", PORT)
        count = 0
        while time.perf_counter() < until:
            content = body(chance, now)
            head = (
                f"POST /api/reservations HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                f"Authorization: Bearer {token}\r\nContent-Type: application/json\r\n"
                f"Idempotency-Key: {number}-{chance.getrandbits(60)}\r\n"
                f"Content-Length: {len(content)}\r\n\r\n"
            )
            began = time.perf_counter()
            writer.write(head.encode() + content)
            answer = await reader.readuntil(b"\r\n\r\n")
            length = int(answer.lower().split(b"content-length:")[1].split(b"\r\n")[0])
            await reader.readexactly(length)
            times.append(time.perf_counter() - began)
            count += answer.startswith(b"HTTP/1.1 201")
        writer.close()
        return count

    counts = await asyncio.gather(*(client(n) for n in range(CONNECTIONS)))
    return sum(counts), sorted(times)


def fill(database: str, network: Path) -> None:
    """A million planned reservations, as the service would have written them."""
    opened, own = open_database(database), Network(load(network))
    chance, now = random.Random(7), int(time.time())
    try:
        paths = {}
        for first in range(ROUTERS):
            nodes = [(first + hop) % ROUTERS for hop in range(HOPS - 1)]
            links = [f"h{first}>r{first}"]
            links += [f"r{a}>r{b}" for a, b in pairwise(nodes)]
            links.append(f"r{nodes[-1]}>h{nodes[-1]}")
            assert all(map(own.has_link, links))
            paths[first] = links
        with opened.writing() as connection:
            rows = [{"id": n + 1, "links": json.dumps(links)} for n, links in paths.items()]
            opened.insert(connection, PATHS, rows)
        for base in range(0, MILLION, 10_000):
            rows = []
            for number in range(base + 1, base + 10_001):
                seconds = chance.randint(3600, 7 * 86_400)
                start = now + 3600 + chance.randint(0, YEAR - seconds)
                first, port = chance.randrange(ROUTERS), chance.randint(1, 1000)
                ends = [f"h{first}", f"h{(first + HOPS - 2) % ROUTERS}"]
                about = [*ends, "forward", "tcp", None, [port, port], None]
                rows.append(
                    {
                        "id": number,
                        "owner_id": 1,
                        "about": json.dumps(about, separators=(",", ":")),
                        "rate": chance.randint(1, 100) * 10**6,
                        "burst": 15_000,
                        "start_at": start,
                        "end_at": start + seconds,
                        "class": None,
                        "purpose": "",
                        "path_id": first + 1,
                        "state": "planned",
                        "hold_until": None,
                        "version": 1,
                        "created": now,
                        "started": None,
                        "pending": None,
                        "trouble": "",
                    }
                )
            with opened.writing() as connection:
                opened.insert(connection, RESERVATIONS, rows)
    finally:
        opened.close()


def say(what: str, measured: str, aim: str = "", beside: str = "") -> None:
    """Print a line of the table: what was measured, what is asked for, and a list and sort."""
    print(f"{what:<44} {measured:>12} {aim:>12} {beside:>14}", flush=True)


def engine() -> None:
    """Print what the calendar does by itself."""
    cargo = os.environ.get("CARGO", "cargo")
    bench = [cargo, "bench", "--quiet", "--package", "perhop-calendar"]
    bench += ["--bench", "admission", "--", "--json"]
    run = subprocess.run(bench, check=True, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    figures = json.loads(run.stdout.splitlines()[-1])
    for what, aims in (("admission", (10, 50)), ("earliest fit", (None, 1000))):
        beside = figures[f"{what}, list and sort"]
        for place, (name, aim) in enumerate(zip(("p50", "p99"), aims, strict=True)):
            limit = "" if aim is None else f"< {aim} µs"
            measured, baseline = figures[what][place], beside[place]
            say(f"{what}, {name}", f"{measured:.1f} µs", limit, f"{baseline:,.0f} µs")


def measure(name: str, database: str, network: Path) -> None:
    """Print what a database lets the service do."""
    token = made_ready(database)
    with serving(network, database):
        rate(name, token)


def rate(name: str, token: str, beside: str = "") -> None:
    """Print how many bookings a second the service that runs takes."""
    count, times = asyncio.run(booked(token))
    say(f"{name}, durable bookings a second{beside}", f"{count / SECONDS:.0f}", ">= 500")
    for share in (50, 99):
        took = times[len(times) * share // 100]
        say(f"  each, of {CONNECTIONS} at once, p{share}", f"{took * 1e3:.0f} ms")


def start(name: str, database: str, network: Path) -> None:
    """Print how long the service takes to start with a million on file."""
    token = made_ready(database)
    fill(database, network)
    with serving(network, database) as seconds:
        say(f"{name}, start with {MILLION:,} on file", f"{seconds:.1f} s", "< 10 s")
        rate(name, token, " beside them")
    opened = open_database(database)
    try:
        began, worked = time.perf_counter(), time.process_time()
        service = ReservationService(Network(load(network)), opened)
        seconds, work = time.perf_counter() - began, time.process_time() - worked
        say(f"  of that to rebuild {service.admission.bookings:,} bookings", f"{seconds:.1f} s")
        say("  of that at work, not waiting", f"{work:.1f} s")
        service.close()
    finally:
        opened.close()


def busy() -> str:
    """Return the load of the machine."""
    one, five, _ = os.getloadavg()
    return f"load {one:.1f} (over five minutes {five:.1f}) on {os.cpu_count()} processors"


def main() -> None:
    """Print everything."""
    print(busy())
    say("", "measured", "asked for", "list and sort")
    if "--service" not in sys.argv:
        engine()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        network = network_file(folder)
        measure("SQLite", str(folder / "a.db"), network)
        with postgresql() as url:
            measure("PostgreSQL", url, network)
        start("SQLite", str(folder / "b.db"), network)
        with postgresql() as url:
            start("PostgreSQL", url, network)
    print(busy())


if __name__ == "__main__":
    main()
