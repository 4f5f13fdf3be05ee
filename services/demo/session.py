"""`make demo-reserve`: a day with reserved bandwidth, as SLAC and ESnet had it, in a few minutes.

SLAC and ESnet, *OSCARS Results*, 2006: a reservation of 10 Mb/s for port 5011, 20 TCP streams to
ports 5010 (best effort) and 5011, the policer's counters; then 1 Mb/s; then a burst of 100 kB
instead of 1 MB, with counters cleared. Here the path is a lab with a link of 50 Mb/s and a round
trip of 20 ms, the service is `perhop reserve serve`, and everything is done by its command line.

What a policer counts are IP packets, what arrives is payload. A segment has 20 bytes of IP and 32
of TCP with timestamps (RFC 7323, section 3) beside its payload, the first of a connection 40 of
TCP; and what a sender took for lost and sent again for nothing was counted twice, which the
receiver reports (RFC 2883). So both can be told from each other: `Run.expected_bytes`.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from perhop.lab import Lab, up
from perhop.scenario import parse
from perhop_services.reservations.client import Client

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from perhop_services.reservations.messages import CountersMessage

PERHOP: Final = str(Path(sys.executable).with_name("perhop"))

NETWORK: Final = """\
perhop: 1
name: oscars
title: A path from SLAC to CERN, of which half can be reserved
nodes: {slac: host, edge: router, esnet: router, cern: host}
links:
  - {ends: [slac, edge], rate: 1 Gbps, reservable: 100%}
  - {ends: [edge, esnet], rate: 50 Mbps, delay: 10 ms, reservable: 50%}
  - {ends: [esnet, cern], rate: 1 Gbps, reservable: 100%}
"""

STREAMS: Final = 20
BEST_EFFORT, RESERVED = 5010, 5011
_PATIENCE_S: Final = 60.0

_HEADERS: Final = 20 + 32
_SYN_OPTIONS: Final = 8

_RECEIVER: Final = """
import json, selectors, socket, sys, time
port, streams, seconds = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
listener = socket.create_server(("", port), backlog=streams)
print("ready", flush=True)
poll, left, total, in_time = selectors.DefaultSelector(), streams, 0, 0
poll.register(listener, selectors.EVENT_READ)
first = None
while left:
    for key, _ in poll.select():
        if key.fileobj is listener:
            poll.register(listener.accept()[0], selectors.EVENT_READ)
            continue
        got = len(key.fileobj.recv(1 << 16))
        now = time.monotonic()
        first, total = first or now, total + got
        in_time += got if now <= first + seconds else 0
        if not got:
            poll.unregister(key.fileobj)
            key.fileobj.close()
            left -= 1
print(json.dumps({"payload": total, "in_time": in_time}))
"""

_SENDER: Final = """
import json, selectors, socket, struct, sys, time
host, port, streams, seconds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
poll, links = selectors.DefaultSelector(), []
for _ in range(streams):
    link = socket.create_connection((host, port))
    # What has not been sent when time is up has to go after it: as little as may be.
    link.setsockopt(socket.IPPROTO_TCP, 25, 4096)  # TCP_NOTSENT_LOWAT
    link.setblocking(False)
    poll.register(link, selectors.EVENT_WRITE)
    links.append(link)
until = time.monotonic() + seconds
while (left := until - time.monotonic()) > 0:
    for key, _ in poll.select(left):
        try:
            key.fileobj.send(bytes(4096))
        except BlockingIOError:
            pass
twice = 0
for link in links:
    link.shutdown(socket.SHUT_WR)
for link in links:
    link.settimeout(None)
    while link.recv(4096):
        pass
    info = link.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    # tcpi_dsack_dups and tcpi_snd_mss (linux/tcp.h)
    twice += struct.unpack_from("I", info, 216)[0] * struct.unpack_from("I", info, 16)[0]
print(json.dumps({"twice": twice}))
"""


@dataclass(frozen=True, slots=True)
class Run:
    """Results of 20 streams to a port.

    Attributes:
        what: What holds meanwhile.
        port: The port.
        payload: Bytes that the receiver's program got.
        seconds: For how long was sent. What the policer had dropped by then came later.
        in_time: Bytes that it had got so long after the first.
        twice: Bytes that came again, for nothing.
        counters: What the service says that the policer counted; None where there was none.
    """

    what: str
    port: int
    payload: int
    seconds: float
    in_time: int
    twice: int
    counters: dict[str, int] | None = None

    @property
    def rate(self) -> float:
        """Payload while it was sent, in bits per second."""
        return self.in_time * 8 / self.seconds

    @property
    def expected_bytes(self) -> int:
        """Return the IP bytes that the policer must have passed by the reports of both ends."""
        assert self.counters is not None
        headers = self.counters["conformed_packets"] * _HEADERS + STREAMS * _SYN_OPTIONS
        return self.payload + self.twice + headers

    @property
    def difference(self) -> float:
        """By how much the counters differ from that, as a share."""
        assert self.counters is not None
        return self.counters["conformed_bytes"] / self.expected_bytes - 1


class Session:
    """A lab, a service that enforces in it, and a user of both."""

    def __init__(self, folder: Path, say: Callable[[str], None]) -> None:
        """Everything is kept in `folder`; `say` is told what is done."""
        self.lab: Lab
        self._client: Client
        self._folder, self._say = folder, say
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._address = f"127.0.0.1:{free.getsockname()[1]}"
        self._environment = {
            **os.environ,
            "HOME": str(folder),
            "PERHOP_RESERVE_URL": f"http://{self._address}",
        }
        self._environment.pop("PERHOP_RESERVE_TOKEN", None)

    @contextmanager
    def running(self) -> Iterator[None]:
        """The lab and the service, for so long.

        Raises:
            UnsupportedError: This machine cannot emulate.
        """
        file = self._folder / "oscars.yaml"
        file.write_text(NETWORK, "utf-8")
        self._say(f"perhop lab up {file.name}")
        self.lab = up(parse(NETWORK, file.name), f"oscars-{os.getpid()}")
        try:
            with self._service(file.name):
                yield
        finally:
            self.lab.down()

    @contextmanager
    def _service(self, network: str) -> Iterator[None]:
        said = self.perhop("reserve", "init", "admin", "--generate", quiet=True)
        self._say(f"perhop reserve serve {network} --driver '*=lab:{self.lab.name}'")
        driver, every = f"*=lab:{self.lab.name}", "0.5"
        command = [PERHOP, "reserve", "serve", network, "--listen", self._address]
        with (self._folder / "service.log").open("wb") as log:
            service = subprocess.Popen(
                [*command, "--driver", driver, "--every", every],
                cwd=self._folder,
                env=self._environment,
                stdout=log,
                stderr=log,
            )
        try:
            host, _, port = self._address.rpartition(":")
            self._until(lambda: _listens(host, int(port)), "the service listens")
            password = said.rpartition("password: ")[2].strip()
            self.perhop("reserve", "login", "admin", given=password + "\n", quiet=True)
            kept = json.loads((self._folder / ".config/perhop/token").read_text("utf-8"))
            (token,) = kept.values()
            with Client(f"http://{self._address}", token=token) as self._client:
                yield
        finally:
            service.terminate()
            service.wait(timeout=_PATIENCE_S)

    def perhop(self, *arguments: str, given: str = "", quiet: bool = False) -> str:
        """Return the output of a perhop command."""
        if not quiet:
            self._say("perhop " + " ".join(f"'{a}'" if " " in a else a for a in arguments))
        done = subprocess.run(
            [PERHOP, *arguments],
            cwd=self._folder,
            env=self._environment,
            input=given,
            capture_output=True,
            text=True,
            timeout=_PATIENCE_S,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"perhop {' '.join(arguments)}: {done.stderr}")
        return done.stdout

    def wait_for(self, number: int, state: str) -> None:
        """Wait until a reservation is in a state."""
        self._until(lambda: self._client.show(number).state == state, f"{number} is {state}")

    def counters(self, number: int) -> dict[str, int]:
        """Return the counters now: a reading from which the next one counts."""
        now = time.time_ns() // 1_000_000
        found: list[CountersMessage] = []

        def read() -> bool:
            found[:] = [each for each in self._client.counters(number) if each.at_ms > now]
            # The first may have begun before.
            return len(found) > 1

        self._until(read, "counters are read")
        return found[-1].model_dump()

    def send(self, what: str, port: int, seconds: float, number: int | None = None) -> Run:
        """Send to a port in 20 streams; with `number`, beside what that reservation counted."""
        self._say(f"20 TCP streams to port {port} for {seconds:g} s ({what})")
        python = [sys.executable, "-c"]
        before = None if number is None else self.counters(number)
        pipe = subprocess.PIPE
        receiving = [*python, _RECEIVER, str(port), str(STREAMS), str(seconds)]
        receiver = self.lab.start("cern", receiving, stdout=pipe)
        with receiver:
            assert receiver.stdout is not None
            receiver.stdout.readline()
            asked = ["cern", str(port), str(STREAMS), str(seconds)]
            with self.lab.start("slac", [*python, _SENDER, *asked], stdout=pipe) as sender:
                sent = json.loads(sender.communicate(timeout=seconds + 2 * _PATIENCE_S)[0])
            got = json.loads(receiver.communicate(timeout=_PATIENCE_S)[0])
        counted = None
        if number is not None and before is not None:
            after = self.counters(number)
            keys = [key for key in after if key.endswith(("_packets", "_bytes"))]
            counted = {key: after[key] - before[key] for key in keys}
        run = Run(what, port, got["payload"], seconds, got["in_time"], sent["twice"], counted)
        self._say(f"  {run.rate / 1e6:.2f} Mb/s of payload")
        return run

    def series(self, number: int) -> list[CountersMessage]:
        """All readings of a reservation's counters."""
        return self._client.counters(number)

    def _until(self, done: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        while not done():
            if time.monotonic() > deadline:
                log = (self._folder / "service.log").read_text("utf-8", errors="replace")
                raise RuntimeError(f"{what}: not within {_PATIENCE_S:g} s\n{log}")
            time.sleep(0.1)


def _listens(host: str, port: int) -> bool:
    with suppress(OSError), socket.create_connection((host, port), timeout=1):
        return True
    return False


def story(session: Session, seconds: float, *, both: bool) -> tuple[int, list[Run]]:
    """Perform the document's steps; with `both`, to port 5010 too after each step.

    Returns:
        The number of the reservation, and what came of each run.
    """
    runs: list[Run] = []

    def run(what: str, number: int | None) -> None:
        if both or not runs:
            runs.append(session.send(what, BEST_EFFORT, seconds))
        runs.append(session.send(what, RESERVED, seconds, number))

    terms = ["--protocol", "tcp", "--port", str(RESERVED), "--burst", "1 MB"]
    why = ["--purpose", "a transfer", "--json"]
    booked = session.perhop(
        *("reserve", "book", "slac", "cern", "10 Mbps", "--for", "1 h"), *terms, *why
    )
    number = json.loads(booked)["id"]
    session.wait_for(number, "active")
    run("10 Mb/s, 1 MB", number)
    session.perhop("reserve", "change", str(number), "--rate", "1 Mbps")
    run("1 Mb/s, 1 MB", number)
    session.perhop("reserve", "change", str(number), "--burst", "100 kB")
    session.perhop("reserve", "counters", str(number), "--clear")
    run("1 Mb/s, 100 kB", number)
    session.perhop("reserve", "change", str(number), "--end", "+2 s")
    session.wait_for(number, "finished")
    run("over", None)
    return number, runs
