"""The process that holds a lab: it carries the packets, and takes requests until it is told to end.

Requests come over a Unix socket, a line of JSON each, and are answered by a line each. Only the
user's own processes, and root's, can reach it.
"""

from __future__ import annotations

import json
import os
import selectors
import socket
import struct
import time
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any, Final

from perhop.engines.captures import planned, writing
from perhop.errors import PerhopError, UsageError
from perhop.lab.network import Counted, Network
from perhop.lab.record import Record, began
from perhop.lab.reserved import Reservation, check_policy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from perhop.lab.present import Present
    from perhop.scenario import Scenario

__all__ = ["Server", "serve"]

_LONGEST: Final = 2**20
"""Bytes that a request may have."""

_PATIENCE_S: Final = 2.0
"""How long one that has connected may take to ask."""

_NOW: Final = {"backlog_packets", "backlog_bytes"}
"""What is counted that does not only grow."""

_LONGEST_NAME: Final = 64
"""Characters that a reservation's name may have."""

_RATES_OVER_S: Final = 1.0
"""Over how long rates are measured."""

_SAMPLE_EVERY_S: Final = 0.25
"""How often counters are read for that."""


class Server:
    """An emulated network, and what may be asked of it."""

    def __init__(self, name: str, scenario: Scenario, seed: int) -> None:
        self.scenario = scenario
        self._network = Network(scenario, seed)
        self._since = time.monotonic()
        self._resources = ExitStack()
        self._cleared: dict[str, dict[str, dict[str, int]]] = {}
        self._samples: list[tuple[float, tuple[Counted, Counted]]] = []
        self._reservations: dict[str, Reservation] = {}
        self._begun: dict[str, dict[str, int]] = {}
        pid = os.getpid()
        self.record = Record(
            name=name,
            scenario=scenario.name,
            pid=pid,
            started=began(pid) or 0,
            hosts=self._network.hosts,
        )

    def sample(self) -> None:
        """Note what was counted so far, for rates."""
        now = time.monotonic()
        if self._samples and now < self._samples[-1][0] + _SAMPLE_EVERY_S:
            return
        self._samples.append((now, self._network.counters()))
        while len(self._samples) > 1 and self._samples[1][0] <= now - _RATES_OVER_S:
            del self._samples[0]

    def check(self) -> None:
        """Raise what has ended the network, if anything has."""
        self._network.check()

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Do what is asked.

        Raises:
            PerhopError: If it cannot be done; nothing has changed then.
        """
        actions: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "status": self._status,
            "change": self._change,
            "policy": self._policy,
            "capture": self._capture,
            "reserve": self._reserve,
            "release": self._release,
            "reserved": self._reserved,
            "clear": self._clear,
        }
        action = actions.get(str(request.get("do")))
        if action is None:
            raise UsageError(f"a lab cannot do {request.get('do')!r}")
        return action(request)

    def close(self) -> None:
        """End the network; captures end with whole packets."""
        with suppress(OSError):
            self._network.check()
        self._network.stop()
        self._resources.close()

    def _status(self, _request: dict[str, Any]) -> dict[str, Any]:
        self.sample()
        then, before = self._samples[0]
        now, counted = time.monotonic(), self._network.counters()
        span = max(now - then, 1e-9)

        def of_link(kind: int, link: str) -> dict[str, Any]:
            """The classes of a link, or the reservations."""
            reservations = self._reservations.items()
            policed_here = [name for name, one in reservations if one.links[0] == link]
            begun = (
                self._cleared.get(link, {}),
                {name: each for name, each in self._begun.items() if name in policed_here},
            )[kind]
            found = {}
            for name, counters in counted[kind].get(link, {}).items():
                earlier = before[kind].get(link, {}).get(name, {})
                sent = counters["sent_bytes"] - earlier.get("sent_bytes", 0)
                since = _since(counters, begun.get(name, {}))
                found[name] = {**since, "rate_bps": max(0, sent) * 8 / span}
            return found

        policies = self._network.present.policies
        links = {
            link: {"policy": policies[link], "classes": of_link(0, link)}
            | ({"reserved": reserved} if (reserved := of_link(1, link)) else {})
            for link in policies
        }
        return {
            "name": self.record.name,
            "scenario": self.record.scenario,
            "pid": self.record.pid,
            "up_s": now - self._since,
            "hosts": {name: str(address) for name, address in self.scenario.addresses.items()},
            "links": links,
        }

    def _change(self, request: dict[str, Any]) -> dict[str, Any]:
        change = request["change"]
        if not isinstance(change, dict) or "at" in change:
            raise UsageError(
                "a change is a mapping without `at`, such as {on: r1>r2, rate: 1 Mbps}"
            )
        present, effects, made = self._network.present.change(change)
        self._make(present, effects, [str(made.on)] if made.policy is not None else [])
        if made.clear is not None:
            counted, _ = self._network.counters()
            links = [made.on] if made.on is not None else list(counted)
            self._cleared |= {link: counted[link] for link in links}
        return {}

    def _reserve(self, request: dict[str, Any]) -> dict[str, Any]:
        name = str(request["name"])
        if not 0 < len(name) <= _LONGEST_NAME:
            raise UsageError(f"a reservation's name has 1 to {_LONGEST_NAME} characters")
        wanted = Reservation.parse(request).on(self._network.present)
        before = self._reservations.get(name)
        self._reservations[name] = wanted
        if before is None or before.links[0] != wanted.links[0]:
            self._begun.pop(name, None)
        # Those that police come first: no packet goes ahead that was not measured.
        away = set(before.links) - {*wanted.links} if before is not None else set()
        for link in (*wanted.links, *away):
            self._renew(link)
        return {}

    def _release(self, request: dict[str, Any]) -> dict[str, Any]:
        name = str(request["name"])
        gone = self._reservations.pop(name, None)
        self._begun.pop(name, None)
        # The one that polices goes last.
        for link in reversed(gone.links) if gone is not None else ():
            self._renew(link)
        return {}

    def _renew(self, link: str) -> None:
        """Have a link with the reservations that it should have."""
        reservations = self._reservations.items()
        self._network.reserve(link, {name: one for name, one in reservations if link in one.links})

    def _reserved(self, _request: dict[str, Any]) -> dict[str, Any]:
        _, counted = self._network.counters()
        found = {}
        for name, one in self._reservations.items():
            found[name] = {
                "links": one.links,
                "match": one.match.model_dump(mode="json", exclude_none=True),
                "rate": one.rate,
                "burst": one.burst,
                "counters": _since(counted[one.links[0]][name], self._begun.get(name, {})),
            }
        return {"reservations": found}

    def _clear(self, request: dict[str, Any]) -> dict[str, Any]:
        name = str(request["name"])
        if name not in self._reservations:
            raise UsageError(f"there is no reservation {name!r} in the lab")
        _, counted = self._network.counters()
        self._begun[name] = counted[self._reservations[name].links[0]][name]
        return {}

    def _policy(self, request: dict[str, Any]) -> dict[str, Any]:
        asked = request["on"], request["policy"], request["set"]
        self._make(*self._network.present.policy(*asked))
        return {}

    def _make(
        self, present: Present, effects: Iterable[Mapping[str, Any]], links: Iterable[str]
    ) -> None:
        """Have the network be `present`, by these effects; `links` have new classes."""
        for one in self._reservations.values():
            for link in one.links:
                check_policy(present.scenario, link, present.policies[link])
        self._network.change(present, effects)
        for link in links:
            self._cleared.pop(link, None)

    def _capture(self, request: dict[str, Any]) -> dict[str, Any]:
        links, file = request["links"], request["file"]
        planned_ = planned(self.scenario, dict.fromkeys(links, file), request["snaplen"], None)
        opened = self._resources.enter_context(writing(planned_))
        for capture, stream in zip(planned_, opened, strict=True):
            self._network.capture(capture, stream)
        return {}


def serve(server: Server, ready: Callable[[], None]) -> None:
    """Take requests until one says `down`, or a signal does."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    path = server.record.socket
    path.unlink(missing_ok=True)
    listener.bind(str(path))
    listener.listen()
    with selectors.DefaultSelector() as selector, listener:
        selector.register(listener, selectors.EVENT_READ)
        server.record.names.write_text(_hosts(server.scenario), encoding="utf-8")
        server.record.write()
        ready()
        while True:
            if selector.select(_RATES_OVER_S / 4):
                link, _ = listener.accept()
                with link, suppress(OSError):
                    if not _serve_one(server, link):
                        return
            server.sample()
            server.check()


def _hosts(scenario: Scenario) -> str:
    """The nodes by name, as /etc/hosts has them (hosts(5))."""
    names = [("127.0.0.1", "localhost"), ("::1", "localhost")]
    names += [(str(address), name) for name, address in scenario.addresses.items()]
    return "".join(f"{address}\t{name}\n" for address, name in names)


def _since(counters: dict[str, int], begun: dict[str, int]) -> dict[str, int]:
    """What was counted since counters were `begun`."""
    return {
        key: value if key in _NOW else value - begun.get(key, 0) for key, value in counters.items()
    }


def _serve_one(server: Server, link: socket.socket) -> bool:
    """Answers a request; says whether to go on."""
    link.settimeout(_PATIENCE_S)
    credentials = link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    if struct.unpack("3i", credentials)[1] not in {0, os.getuid()}:
        return True
    received = b""
    while not received.endswith(b"\n") and len(received) <= _LONGEST:
        if not (part := link.recv(65536)):
            return True
        received += part
    try:
        request = json.loads(received)
        if isinstance(request, dict) and request.get("do") == "down":
            link.sendall(b"{}\n")
            return False
        answer = server.answer(request)
    except PerhopError as error:
        answer = {"error": str(error), "kind": type(error).__name__}
    except (ValueError, AttributeError, KeyError, TypeError) as error:
        answer = {"error": f"this is no request: {error}", "kind": "UsageError"}
    link.sendall(json.dumps(answer).encode() + b"\n")
    return True
