"""The process that holds a lab: it carries the packets and answers requests until the lab ends.

Only the user's own processes, and root's, can reach its socket.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import traceback
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from perhop.engines.captures import planned
from perhop.engines.emu import addresses_v6
from perhop.errors import PerhopError, UsageError
from perhop.lab.captures import MOST, Writer
from perhop.lab.names import SERVER, Names
from perhop.lab.network import Counted, Network
from perhop.lab.requests import Requests
from perhop.lab.reserved import Reservation, check_policy
from perhop.lab.resolver import Resolver
from perhop.units import quote

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterable

    from perhop.engines import plans
    from perhop.lab.outside import Outside
    from perhop.lab.present import Present
    from perhop.lab.record import Record
    from perhop.scenario import Scenario

__all__ = ["ALONE", "Server", "serve"]

ALONE: Final = "its keeper was killed"
"""Reason of the end of a lab whose keeper is gone."""

_NOW: Final = {"backlog_packets", "backlog_bytes"}
"""Counters that may decrease."""

_LONGEST_NAME: Final = 64
"""Characters that a reservation's name may have."""

_RATES_OVER_S: Final = 1.0
"""Over how long rates are measured."""

_SAMPLE_EVERY_S: Final = 0.25
"""Interval of the readings for that."""

_DNS: Final = 53
"""The port of name servers."""

_LAST_BLOCKS_S: Final = 2.0
"""Time that writing the rest of a capture may take at the end."""

_MOST_ENDED: Final = 100
"""Captures that have ended and are told of."""

_MOST_TRACEBACKS: Final = 100
"""Bugs that the log tells of."""


class Server:
    """An emulated network, and the requests to it."""

    def __init__(
        self,
        record: Record,
        scenario: Scenario,
        seed: int,
        control: str | None,
        outside: Outside,
    ) -> None:
        """Create the network, with `control` as the hosts' congestion control."""
        # Programs send the traffic.
        nobody: dict[str, dict[str, Any]] = {"flows": {}, "pings": {}}
        scenario = scenario.without_background().model_copy(update=nobody)
        self.scenario = scenario
        self.record = record
        self.attached = [*outside.namespaces]
        self._network = Network(scenario, seed, control, outside)
        self.names = Names(scenario.addresses, addresses_v6(scenario))
        forwards = outside.nat is not None
        self._resolver = Resolver(self.names, self._network.datagrams(SERVER, _DNS), forwards)
        self._since = time.monotonic()
        self._changes = 0
        self._captures: dict[int, Writer] = {}
        self._ended: list[dict[str, Any]] = []
        self._cleared: dict[str, dict[str, dict[str, int]]] = {}
        self._samples: list[tuple[float, tuple[Counted, Counted]]] = []
        self._reservations: dict[str, Reservation] = {}
        self._begun: dict[str, dict[str, int]] = {}
        self._bugs = 0
        self.down = False

    @property
    def hosts(self) -> dict[str, int]:
        """The file descriptor of each host's namespace."""
        return self._network.hosts

    def sample(self) -> None:
        """Store the counters, for rates."""
        now = time.monotonic()
        if self._samples and now < self._samples[-1][0] + _SAMPLE_EVERY_S:
            return
        self._samples.append((now, self._network.counters()))
        while len(self._samples) > 1 and self._samples[1][0] <= now - _RATES_OVER_S:
            del self._samples[0]

    def maintain(self) -> None:
        """Do periodic work; errors do not end the lab."""
        try:
            self.sample()
            self._network.check()
            for number, writer in list(self._captures.items()):
                if writer.ended:
                    self._end_capture(number)
        except Exception:
            self._log_bug()

    def answer_line(self, line: bytes, files: list[int]) -> bytes:
        """Answer a request; an error is an answer, too."""
        try:
            request = json.loads(line)
            if not isinstance(request, dict):
                raise UsageError("malformed request; expected an object with `do`")
            answer = self.answer(request, files)
        except PerhopError as error:
            answer = {"error": str(error), "kind": type(error).__name__}
        except (ValueError, AttributeError, KeyError, TypeError, RecursionError) as error:
            answer = {"error": f"this is no request: {error}", "kind": "UsageError"}
        except Exception as error:
            self._log_bug()
            message = f"a bug in perhop: {type(error).__name__}: {error}; see {self.record.log}"
            answer = {"error": message, "kind": "OutputError"}
        return json.dumps(answer).encode() + b"\n"

    def _log_bug(self) -> None:
        """Log an internal error, unless the log is already long."""
        self._bugs += 1
        if self._bugs <= _MOST_TRACEBACKS:
            with suppress(OSError):
                traceback.print_exc(limit=-20)
                sys.stderr.flush()

    def answer(self, request: dict[str, Any], files: list[int]) -> dict[str, Any]:
        """Do what is asked; a file that is kept is taken from `files`.

        Raises:
            PerhopError: If it cannot be done; nothing has changed then.
        """
        actions: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "status": self._status,
            "change": self._change,
            "policy": self._policy,
            "capture": lambda request: self._capture(request, files),
            "end-capture": self._stop_capture,
            "down": self._down,
            "reserve": self._reserve,
            "release": self._release,
            "reserved": self._reserved,
            "clear": self._clear,
        }
        wanted = request.get("do")
        if not isinstance(wanted, str) or wanted not in actions:
            raise UsageError(
                "a lab cannot do that; expected `do` to be one of " + ", ".join(actions)
            )
        return actions[wanted](request)

    def close(self) -> None:
        """End the network; captures end with whole packets."""
        with suppress(OSError):
            self._network.check()
        self._resolver.close()
        self._network.stop()
        for number in list(self._captures):
            with suppress(OSError):
                self._captures[number].close(_LAST_BLOCKS_S)

    def _down(self, _request: dict[str, Any]) -> dict[str, Any]:
        self.down = True
        return {}

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

        present = self._network.present
        policies = present.policies
        wires = self._network.links()
        links = {
            link: present.medium(link)
            | {"policy": policies[link], "link": wires[link], "classes": of_link(0, link)}
            | ({"reserved": reserved} if (reserved := of_link(1, link)) else {})
            for link in policies
        }
        captures = [writer.status() for writer in self._captures.values()]
        return {
            "name": self.record.name,
            "scenario": self.record.scenario,
            "pid": os.getpid(),
            "since": self.record.since,
            "up_s": now - self._since,
            "changes": self._changes,
            "congestion_control": self._network.control,
            "nodes": {name: node.kind for name, node in self.scenario.nodes.items()},
            "policies": list(present.scenario.policies),
            "hosts": {name: str(address) for name, address in self.scenario.addresses.items()},
            "hosts_without_device": self._network.without_device(),
            "network": self._network.totals(),
            "captures": [*self._ended, *captures],
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
        """Set the reservations of a link to those it should have."""
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
        self, present: Present, effects: Iterable[plans.EffectPlan], links: Iterable[str]
    ) -> None:
        """Apply effects that leave the network `present`; `links` have new classes."""
        for one in self._reservations.values():
            for link in one.links:
                check_policy(present.scenario, link, present.policies[link])
        self._network.change(present, effects)
        self._changes += 1
        for link in links:
            self._cleared.pop(link, None)

    def _capture(self, request: dict[str, Any], files: list[int]) -> dict[str, Any]:
        links, name = request["links"], str(request["file"])
        if not files:
            raise UsageError("a capture comes with the descriptor of its file")
        going_on = [writer.status()["file"] for writer in self._captures.values()]
        if name in going_on and name != "-":
            raise UsageError(f"{quote(name)} is being written already; end that capture first")
        if len(self._captures) >= MOST:
            raise UsageError(f"{MOST} captures go on already; end one first")
        capture, *others = planned(
            self.scenario, "emu", dict.fromkeys(links, name), request["snaplen"], None
        )
        assert not others
        writer = Writer(capture, files.pop())
        number = self._network.capture(capture, writer)
        self._captures[number] = writer
        return {"capture": number}

    def _stop_capture(self, request: dict[str, Any]) -> dict[str, Any]:
        file = request["file"]
        numbers = [
            number
            for number, writer in self._captures.items()
            if file is None or writer.status()["file"] == file
        ]
        if file is not None and not numbers:
            raise UsageError(f"nothing is captured to {quote(str(file))}")
        for number in numbers:
            # Its end is noted once the file has everything.
            self._network.end_capture(number)
            self._captures[number].close()
        return {"captures": len(numbers)}

    def _end_capture(self, number: int) -> None:
        """Remove a capture whose file is closed, but keep its last status."""
        self._network.end_capture(number)
        self._ended.append(self._captures.pop(number).status())
        del self._ended[:-_MOST_ENDED]


def serve(
    server: Server, keeper: socket.socket, signals: list[int], ready: Callable[[], None]
) -> str | None:
    """Answer requests until one says `down`, a signal has come, or the keeper has ended.

    Returns:
        The reason for the end; None if it was `down`.
    """
    path = server.record.socket
    path.unlink(missing_ok=True)
    requests = Requests(path, server.answer_line)
    requests.wait_for(keeper)
    try:
        server.names.write(server.record)
        ready()
        while not server.down:
            if signals:
                return f"it was ended by {signal.Signals(signals[0]).name}"
            if requests.serve(_SAMPLE_EVERY_S):
                return ALONE
            server.maintain()
        requests.serve(0.01)  # the answer goes out
    finally:
        requests.close()
    return None


def _since(counters: dict[str, int], begun: dict[str, int]) -> dict[str, int]:
    """Return the difference of counters to those at the time `begun`."""
    return {
        key: value if key in _NOW else value - begun.get(key, 0) for key, value in counters.items()
    }
